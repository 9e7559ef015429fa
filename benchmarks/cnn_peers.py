"""`tfgpu bench cnn` on the CPU beside what people write or run: by hand, Keras, torch, tf_cnn_benchmarks; in turns.

    python benchmarks/cnn_peers.py [--model mnist|cifar] [--batch 128] [--steps 8] [--starts 3] [--rounds 7]
        [--python EXE] [--torch-python EXE] [--tf-cnn-benchmarks DIR]

All train the same network on the same float32 images with SGD and momentum, a process each (side_by_side.py says how).
The hand-written TensorFlow loops run over images that are on the device, in a `tf.function` without and with XLA; ours
is compared with the faster of them that compiles as ours does. Keras' `fit` and `train_on_batch` and torch, timed by
torch.utils.benchmark, stand beside. Of tf_cnn_benchmarks, which needs a TensorFlow up to 2.15, every sample is a run of
its own (its resnet20 for --model cifar). Each loss must be finite and fall. Writes results/cnn_cpu_MODEL.json and .md.
Goal: ours at least 0.97 of the hand-written loop.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from side_by_side import Contender, Peer, compare, load, machine, serve, table, take_turns, write

GOAL = 0.97
OURS = "tfgpu bench cnn"
BY_HAND = "TensorFlow, tf.function"
KERAS = ("Keras, fit", "Keras, train_on_batch")
OTHERS = ("TensorFlow, XLA", *KERAS, "torch", "tf_cnn_benchmarks")
MOMENTUM = 0.9
WARM_UP = 12  # steps whose losses must fall
Step = Callable[[], float]  # one step of training, which returns the loss
Sampler = Callable[[], "float | None"]


# ------------------------------------------------------------------- in the child processes


def falls(losses: list[float]) -> bool:
    """Whether they are finite and end below where they began."""
    return all(loss == loss and abs(loss) < float("inf") for loss in losses) and losses[-1] < losses[0]


def by_hand(name: str, model_name: str, batch: int, steps: int) -> tuple[Sampler, dict[str, Any]]:
    """A loop such as the guides of TensorFlow show, over a batch that stays on the device."""
    import tensorflow as tf

    models = load("workloads.models")
    images, labels = (tf.constant(one) for one in models.batch(model_name, batch, 0))
    model = models.build(model_name, "float32")
    optimizer = tf.keras.optimizers.SGD(models.MODELS[model_name].learning_rate, momentum=MOMENTUM)

    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    optimizer.build(model.trainable_variables) if hasattr(optimizer, "build") else None
    compiled = tf.function(step, jit_compile="XLA" in name)
    losses = [float(compiled(images, labels)) for _ in range(WARM_UP)]

    def sample() -> None:
        for _ in range(steps):
            compiled(images, labels)
        tf.test.experimental.sync_devices()

    sample()
    return sample, {"version": f"TensorFlow {tf.__version__}", "ok": falls(losses), "losses": losses}


def keras(name: str, model_name: str, batch: int, steps: int) -> tuple[Sampler, dict[str, Any]]:
    """Keras' own loops, compiled as on every other side: without XLA."""
    import numpy as np
    import tensorflow as tf

    models = load("workloads.models")
    images, labels = models.batch(model_name, batch, 0)
    model = models.build(model_name, "float32")
    rate = models.MODELS[model_name].learning_rate
    model.compile(
        optimizer=tf.keras.optimizers.SGD(rate, momentum=MOMENTUM),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    losses = [float(np.ravel(model.train_on_batch(images, labels))[0]) for _ in range(WARM_UP)]
    data = tf.data.Dataset.from_tensors((tf.constant(images), tf.constant(labels))).repeat(steps)

    def sample() -> None:
        if "fit" in name:
            model.fit(data, epochs=1, verbose=0)
        else:
            for _ in range(steps):
                model.train_on_batch(images, labels)

    sample()
    return sample, {
        "version": f"Keras {getattr(tf.keras, '__version__', tf.__version__)}",
        "ok": falls(losses),
        "losses": losses,
    }


def torch_network(torch: Any, model_name: str) -> Any:
    """The same network in torch: valid padding and 2×2 pools (mnist), ResNet-20 with shortcuts of type A (cifar)."""
    nn = torch.nn
    if model_name == "mnist":
        return nn.Sequential(
            *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, 10)),
        )

    class Block(nn.Module):  # type: ignore[misc]  # torch is not there when types are checked
        def __init__(self, wide: int, narrow: int, stride: int) -> None:
            super().__init__()
            self.stride, self.more = stride, narrow - wide
            self.first = nn.Conv2d(wide, narrow, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(narrow, narrow, 3, 1, 1, bias=False)
            self.one, self.two = nn.BatchNorm2d(narrow), nn.BatchNorm2d(narrow)

        def forward(self, x: Any) -> Any:
            y = self.two(self.second(torch.relu(self.one(self.first(x)))))
            short = x[:, :, :: self.stride, :: self.stride]
            return torch.relu(y + nn.functional.pad(short, (0, 0, 0, 0, 0, self.more)))

    layers: list[Any] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    wide = 16
    for narrow in (16, 32, 64):
        for block in range(3):
            layers.append(Block(wide, narrow, 2 if block == 0 and narrow > 16 else 1))
            wide = narrow
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def torch_peer(name: str, model_name: str, batch: int, steps: int) -> tuple[Sampler, dict[str, Any]]:
    """The same in torch, channels last, as is fastest there on CPUs; the time is that of torch.utils.benchmark."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    from torch.utils import benchmark  # type: ignore[import-not-found,unused-ignore]

    models = load("workloads.models")
    images, labels = models.batch(model_name, batch, 0)
    torch.manual_seed(models.SEED)
    model = torch_network(torch, model_name).to(memory_format=torch.channels_last)
    x = torch.from_numpy(images).permute(0, 3, 1, 2)
    y = torch.from_numpy(labels).long()
    optimizer = torch.optim.SGD(model.parameters(), lr=models.MODELS[model_name].learning_rate, momentum=MOMENTUM)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    losses = [step() for _ in range(WARM_UP)]
    timer = benchmark.Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())

    def sample() -> float:
        return float(timer.timeit(steps).raw_times[0])

    sample()
    return sample, {"version": f"torch {torch.__version__}", "ok": falls(losses), "losses": losses}


CHILDREN = {"torch": torch_peer, **dict.fromkeys(KERAS, keras)}


# ---------------------------------------------------------------------------- in the parent


class Ours:
    """The worker that `tfgpu bench cnn` measures with."""

    def __init__(self, executable: str, model: str, batch: int, steps: int) -> None:
        """Start it, warm it up and verify it, as the runner does."""
        from tfgpu_doctor.bench.devices import Case
        from tfgpu_doctor.bench.plans.training import Cnn
        from tfgpu_doctor.bench.runner.process import WorkerProcess, hello, prepare

        self.steps = steps
        self.worker = WorkerProcess(executable)
        software, _ = hello(self.worker)
        case = Case("CPU", ("/CPU:0",), ())
        job = Cnn(model=model, batch=batch).job("float32", case)
        prepare(self.worker, job)
        self.worker.ask(600, do="sample", count=2, steps=steps)
        asked = job.verify(lambda **request: self.worker.ask(600, **request))
        found = job.judge(self.worker.ask(600, do="verify", **asked), "float32", job.parameters)
        if not found.ok:
            raise RuntimeError(f"{OURS}: the result is wrong: {found.why}")
        self.about = {"version": f"TensorFlow {software['tensorflow']}", "ok": True}

    def sample(self) -> float:
        """Seconds of one sample."""
        ((seconds, _),) = self.worker.ask(600, do="sample", count=1, steps=self.steps)["samples"]
        return float(seconds)

    def close(self) -> None:
        """Kill the process."""
        self.worker.close()


class TfCnnBenchmarks:
    """tf_cnn_benchmarks of the repository tensorflow/benchmarks: a run of its own for every sample."""

    def __init__(self, executable: str, folder: Path, batch: int, steps: int) -> None:
        """Run it once, to see that it runs."""
        self.folder, self.images = folder / "scripts" / "tf_cnn_benchmarks", batch * steps
        options = (
            "--device=cpu",
            "--data_format=NHWC",
            "--model=resnet20",
            "--data_name=cifar10",
            "--optimizer=momentum",
        )
        numbers = (f"--batch_size={batch}", f"--num_batches={max(steps, 20)}", "--num_warmup_batches=5")
        self.command = [executable, "tf_cnn_benchmarks.py", *options, *numbers]
        self.about = {"version": "tf_cnn_benchmarks, resnet20", "ok": True}
        self.sample()

    def sample(self) -> float:
        """Seconds for as many images as the others train on."""
        from tfgpu_doctor.probes.process import run

        done = run(self.command, timeout=600, cwd=str(self.folder))
        found = re.search(r"total images/sec: ([\d.]+)", done.stdout)
        if not found:
            raise RuntimeError(f"tf_cnn_benchmarks: {done.stderr.strip().splitlines()[-1:]}")
        return self.images / float(found[1])

    def close(self) -> None:
        """Nothing is running."""


def start(options: argparse.Namespace) -> dict[str, Contender]:
    """Start ours and every peer that can be started."""
    contenders: dict[str, Contender] = {OURS: Ours(options.python, options.model, options.batch, options.steps)}
    for name in (BY_HAND, *OTHERS):
        if name == "tf_cnn_benchmarks" and (not options.tf_cnn_benchmarks or options.model != "cifar"):
            continue
        executable = options.torch_python if name == "torch" else options.python
        settings = ("--model", options.model, "--batch", str(options.batch), "--steps", str(options.steps))
        try:
            contenders[name] = (
                TfCnnBenchmarks(executable, Path(options.tf_cnn_benchmarks), options.batch, options.steps)
                if name == "tf_cnn_benchmarks"
                else Peer(name, [executable, __file__, "--child", name, *settings])
            )
        except RuntimeError as error:
            print(f"left out: {error}", file=sys.stderr)
    return contenders


def measure(options: argparse.Namespace) -> int:
    """Take turns, compare, write; 1 when the goal is missed."""
    samples, about = take_turns(lambda: start(options), options.starts, options.rounds, options.batch)
    samples = {name: samples[name] for name in (OURS, BY_HAND, *OTHERS) if name in samples}
    rows = compare(samples, OURS, options.starts)
    reached = rows[BY_HAND]["our_speed_over_theirs"]
    images = options.batch * options.steps
    turns = f"{options.starts} starts of {options.rounds} rounds of {options.steps} steps"
    write(
        f"cnn_cpu_{options.model}",
        f"{date.today()}, {machine()}, {options.model}, batch {options.batch}, float32, {turns}",
        table(
            rows,
            about,
            OURS,
            f"| trains {options.model} | library | images/s | our speed over it (95 %) | starts apart |",
            lambda seconds: f"{images / seconds:.0f}",
        ),
        {
            **{name: getattr(options, name) for name in ("model", "batch", "steps", "starts", "rounds")},
            "dtype": "float32",
            "goal": GOAL,
            "reached": reached,
            "peers": {name: {**about[name], **rows[name], "samples_s": samples[name]} for name in rows},
        },
    )
    print(f"{reached:.3f} of the hand-written loop ({BY_HAND}); the goal is {GOAL}")
    return 0 if reached >= GOAL else 1


def main() -> int:
    """Parse and go."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("mnist", "cifar"), default="mnist")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=8, help="of one sample")
    parser.add_argument("--starts", type=int, default=3, help="how often every process is started anew")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each process")
    parser.add_argument("--python", default=sys.executable, help="interpreter with TensorFlow and NumPy")
    parser.add_argument("--torch-python", help="interpreter with torch and NumPy; default: that of --python")
    parser.add_argument("--tf-cnn-benchmarks", metavar="DIR", help="a copy of the repository tensorflow/benchmarks")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.torch_python = options.torch_python or options.python
    if options.child:
        make = CHILDREN.get(options.child, by_hand)
        serve(lambda: make(options.child, options.model, options.batch, options.steps))
        return 0
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
