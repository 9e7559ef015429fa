"""The CNN: several machines, the largest batch, and trainings for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.live import in_python
from tests.bench.test_several import cluster
from tests.tables import each, read_rows
from tfgpu_doctor.bench.devices import GpuFound, Selection
from tfgpu_doctor.bench.plans.training import Cnn, largest_batch
from tfgpu_doctor.bench.workloads import cnn
from tfgpu_doctor.bench.workloads.models import MODELS, batch, training_flop

BATCHES = read_rows(Path(__file__).with_name("rows.yaml"))["batches"]


def test_the_others_take_part_in_the_same_and_in_nothing_else() -> None:
    plan = Cnn(dtypes=("float32", "tf32"), cluster=cluster(1))
    part = plan.part((GpuFound("T4"),))
    assert [job.key for job in part] == [("2 workers, 1 GPU each", dtype) for dtype in plan.dtypes]
    assert part[0].case.devices == ("/GPU:0", "/task:0/GPU:0") and part[0].parameters["index"] == 1
    assert [job.dtype for job in plan.part(())] == ["float32"]


def test_workers_that_share_a_machine_share_out_its_gpus() -> None:
    plan = Cnn(selection=Selection(gpus=2, explicit=True), cluster=cluster(1, ("a:1", "a:2")))
    assert [case.gpus for case in plan.cases((GpuFound("T4"),) * 4)] == [(2, 3), (2,), (2, 3)]
    assert [case.gpus for case in plan.cases((GpuFound("T4"),) * 2)] == [
        (0, 1),
        (0,),
        (0, 1),
    ]  # each sees its own alone


@each(("capacity", "start", "most", "found"), BATCHES)
def test_a_batch_is_doubled_or_halved_and_then_the_gap_is(
    capacity: int, start: int, most: int, found: tuple[int | None, int | None]
) -> None:
    tried: list[int] = []

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= capacity

    assert largest_batch(start, most, fits) == tuple(found)
    assert len(tried) == len({*tried}) < 20 and all(2 <= batch <= most for batch in tried)


SCRIPT = """
cnn, training_module = load("cnn"), load("training")

def answer(devices, dtype="float32", model="mnist", xla=False, spoil=None):
    work = cnn.Workload({"model": model, "batch": 8, "xla": xla}, dtype, devices, "")
    if spoil:
        spoil(work.training)
        work.data = work.training.data(8)
    work.sample(1)
    return {**work.verify({}), "placed": [work.placed_on(), work.misplaced()], "work": work}

def no_sum(training):  # each replica goes its own way
    def replica(images, labels):
        loss, gradients = training.passes(images, labels)
        for gradient, weight in zip(gradients, training.trained()):
            held = weight.value if not callable(weight.value) else weight
            held.values[int(training.turn)].assign_sub(gradient * 0.02)
        training.turn += 1
        return loss
    training.turn = 0
    training._replica_step = replica

def not_averaged(training):
    plain = training.gradients
    def passes(images, labels):
        loss, gradients = plain(images, labels)
        return loss, [2 * gradient for gradient in gradients]
    training.passes = passes

def other_images(training):
    def blank(value):
        parts = training.strategy.experimental_local_results(value)
        return training_module.place(training.strategy, training.devices, lambda index: tf.zeros_like(parts[0]))
    plain = training.data
    training.data = lambda each: tuple(blank(value) for value in plain(each))

def one_part_lost(training):  # the last layer is never updated
    weights, plain = training.trained(), training.gradients
    def passes(images, labels):
        loss, gradients = plain(images, labels)
        return loss, [g if index < len(weights) - 2 else g * 0 for index, g in enumerate(gradients)]
    training.passes = passes

CASES = {
    "one": dict(devices=TWO[1:]),
    "two": dict(devices=TWO),
    "bfloat16": dict(devices=TWO[:1], dtype="mixed_bfloat16"),
    "float16": dict(devices=TWO[:1], dtype="mixed_float16"),
    "cifar": dict(devices=TWO, dtype="mixed_bfloat16", model="cifar"),
    "xla": dict(devices=TWO, xla=True),
    "no sum": dict(devices=TWO, spoil=no_sum),
    "not averaged": dict(devices=TWO, spoil=not_averaged),
    "other images": dict(devices=TWO, spoil=other_images),
    "a layer without update": dict(devices=TWO[:1], spoil=one_part_lost),
    "bfloat16 for float32": dict(devices=TWO[:1], dtype="mixed_bfloat16"),
}
answers = {name: answer(**CASES[name]) for name in NAMES}
works = {name: one.pop("work") for name, one in answers.items()}
if "two" in works:
    works["two"].farewell({})  # all are alike
    try:
        works["no sum"].farewell({})
    except ValueError as error:
        answers["at the end"] = str(error)
"""
RIGHT = {  # the type, and where
    "one": ("float32", ["/CPU:1"]),
    "two": ("float32", ["/CPU:0", "/CPU:1"]),
    "bfloat16": ("mixed_bfloat16", ["/CPU:0"]),
    "float16": ("mixed_float16", ["/CPU:0"]),
    "cifar": ("mixed_bfloat16", ["/CPU:0", "/CPU:1"]),
    "xla": ("float32", ["/CPU:0", "/CPU:1"]),
}
WRONG = {
    "no sum": "replicas identical",
    "not averaged": "same update",
    "other images": "like one device",
    "a layer without update": "same update",
    "bfloat16 for float32": "like float64",
}


@pytest.mark.full
@pytest.mark.tensorflow
def test_right_trainings_pass_and_wrong_ones_do_not(tensorflow_python: str) -> None:
    """Networks of different shapes need processes of their own: MirroredStrategies share the keys of collectives."""
    names = [name for name in (*RIGHT, *WRONG) if name != "cifar"]
    answers = {}
    for part in (names, ["cifar"]):
        answers |= in_python(tensorflow_python, f"NAMES = {part}\n{SCRIPT}")
    for name, (dtype, devices) in RIGHT.items():
        found = cnn.judge(answers[name], dtype, {})
        assert found.ok, (name, found.why)
        assert answers[name]["placed"] == [devices, None]
    for name, why in WRONG.items():
        found = cnn.judge(answers[name], "float32", {})
        assert not found.ok and f"failed: {why}" in found.why, name
    assert "of 10 weights differ between the replicas at the end" in answers["at the end"]


NETWORKS = """
models = load("models")

def look(name):
    images, labels = models.batch(name, 4, 3)
    net = models.build(name, "float32")
    again = models.build(name, "mixed_bfloat16")
    logits = again(images)
    counted = list(flops(net.layers))
    return {
        "constants": [sum(counted), counted[0], list(net.input_shape[1:]), int(net.output_shape[-1])],
        "same": all(np.array_equal(a, b) for a, b in zip(net.get_weights(), again.get_weights())),
        "bfloat16": any(layer.compute_dtype == "bfloat16" for layer in again.layers),
        "logits": [logits.dtype.name, list(logits.shape)], "spread": [float(np.std(logits)), float(images.std())],
        "data": [images.dtype.name, list(images.shape), labels.dtype.name, list(labels.shape)],
        "policy": tf.keras.mixed_precision.global_policy().name,
    }

answers = {name: look(name) for name in models.MODELS}
"""


@pytest.mark.full
@pytest.mark.tensorflow
def test_the_constants_are_those_of_the_real_networks(tensorflow_python: str) -> None:
    looked = in_python(tensorflow_python, NETWORKS)
    for name, model in MODELS.items():
        found = looked[name]
        assert found["constants"] == [model.forward_flop, model.first_flop, list(model.image), model.classes], name
        assert found["same"] and found["bfloat16"] and found["policy"] == "float32", "the same weights in every type"
        assert found["logits"] == ["float32", [4, model.classes]]
        assert found["data"] == ["float32", [4, *model.image], "int32", [4]]
        assert 0 < found["spread"][0] < 10 and 0.5 < found["spread"][1] < 2


def test_batches_are_the_same_for_the_same_seed_and_share_their_patterns() -> None:
    np = pytest.importorskip("numpy")
    images, labels = batch("mnist", 64, 1)
    other, others = batch("mnist", 64, 2)
    assert np.array_equal(images, batch("mnist", 64, 1)[0]) and not np.array_equal(images, other)
    for number in set(labels) & set(others):
        mean, elsewhere = images[labels == number].mean(axis=0), other[others == number].mean(axis=0)
        assert np.corrcoef(mean.ravel(), elsewhere.ravel())[0, 1] > 0.7  # noise apart, the same pattern
    assert training_flop("mnist") == 3 * 5_588_480 - 389_376
