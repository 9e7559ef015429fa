"""The GAN: its constants against the real networks, its verification against what must not pass, its plan."""

from __future__ import annotations

import pytest

from tests.bench.live import in_python
from tfgpu_doctor.bench.workloads import gan

SCRIPT = """
gan = load("gan")

def walk(model):
    for layer in model.layers:
        yield from walk(layer) if hasattr(layer, "layers") else [layer]

def counted(model):
    found = list(flops(walk(model)))
    return [sum(found), found[0]]

def run(devices, sabotage=lambda work: None):
    work = gan.Workload({"batch": 4}, "float32", devices, "replicas")
    sabotage(work)
    work.sample(1)
    answer = work.verify({})
    work.sample(2)
    return {**answer, "placed": work.placed_on(), "misplaced": work.misplaced(), "later": work.recheck()}

def other_images(work):
    training = work.training
    place = load("training").place
    work.data = (place(training.strategy, training.devices, lambda index: gan.images(4, 7 + index)),)

def twice_as_long(work):
    work.training.replicas /= 2

def no_learning(work):
    for optimizer in work.training.optimizers:
        optimizer.learning_rate.assign(0.0)

generator, discriminator = gan.networks("float32")
answers = {
    "flop": [*counted(generator), *counted(discriminator)],
    "one": run(TWO[1:]),
    "two": run(TWO),
    "like one device": run(TWO, other_images),
    "same gradients": run(TWO[:1], twice_as_long),
    "both networks learn": run(TWO[:1], no_learning),
}
"""


@pytest.mark.full
@pytest.mark.tensorflow
def test_right_trainings_pass_and_wrong_ones_do_not(tensorflow_python: str) -> None:
    real = in_python(tensorflow_python, SCRIPT)
    generator, discriminator = gan.GENERATOR_FLOP, gan.DISCRIMINATOR_FLOP
    assert real["flop"] == [generator, gan.GENERATOR_FIRST_FLOP, discriminator, gan.DISCRIMINATOR_FIRST_FLOP]
    for name, devices in (("one", ["/CPU:1"]), ("two", ["/CPU:0", "/CPU:1"])):
        judged = gan.judge(real[name], "float32", {})
        assert judged.ok, judged.why
        assert (real[name]["placed"], real[name]["misplaced"], real[name]["later"]) == (devices, None, None)
    for name in ("like one device", "same gradients", "both networks learn"):
        judged = gan.judge(real[name], "float32", {})
        assert not judged.ok and f"failed: {name}" in judged.why
    assert real["same gradients"]["update"] == pytest.approx(1.0, rel=0.01), "twice the gradients are 1 away"
