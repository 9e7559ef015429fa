"""`tfgpu bench matpow` on the CPU beside what one would write by hand: TensorFlow, NumPy, torch; in turns in one run.

    python benchmarks/matpow_peers.py [--size 2048] [--starts 3] [--rounds 7] [--python EXE] [--torch-python EXE]

All compute A^n and B^n of the same float32 matrices (side_by_side.py says how). Every first result is verified in
float64. The hand-written TensorFlow loops are an eager loop, a loop in a `tf.function`, and the same compiled by XLA;
ours is compared with the fastest of them. Writes benchmarks/results/matpow_cpu.json and .md.
Goal: ours at least 0.97 of the best hand-written TensorFlow loop.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from side_by_side import Contender, Peer, compare, load, machine, serve, table, take_turns, write

GOAL = 0.97
OURS = "tfgpu bench matpow"
BY_HAND = ("TensorFlow, eager loop", "TensorFlow, tf.function", "TensorFlow, XLA")
OTHERS = ("NumPy", "torch")


# ------------------------------------------------------------------- in the child processes


def tensorflow_peer(name: str, matrices: list[Any], power: int) -> tuple[Callable[[], Any], str]:
    """A loop such as one writes, and the version."""
    import tensorflow as tf

    a, b = (tf.constant(matrix) for matrix in matrices)

    def chain(matrix: Any) -> Any:
        product = matrix
        for _ in range(power - 1):
            product = tf.matmul(product, matrix)
        return product

    def both(a: Any, b: Any) -> Any:
        return chain(a), chain(b)

    compute = both if "eager" in name else tf.function(both, jit_compile="XLA" in name)

    def run() -> Any:
        results = compute(a, b)
        tf.test.experimental.sync_devices()
        return results

    return run, f"TensorFlow {tf.__version__}"


def numpy_peer(name: str, matrices: list[Any], power: int) -> tuple[Callable[[], Any], str]:
    """The same with NumPy's @."""
    import numpy as np

    def run() -> Any:
        results = []
        for matrix in matrices:
            product = matrix
            for _ in range(power - 1):
                product = product @ matrix
            results.append(product)
        return results

    return run, f"NumPy {np.__version__}"


def torch_peer(name: str, matrices: list[Any], power: int) -> tuple[Callable[[], Any], str]:
    """The same with torch's @."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    tensors = [torch.from_numpy(matrix) for matrix in matrices]

    def run() -> Any:
        results = []
        for matrix in tensors:
            product = matrix
            for _ in range(power - 1):
                product = product @ matrix
            results.append(product)
        return results

    return run, f"torch {torch.__version__}"


def child(name: str, size: int, power: int) -> tuple[Callable[[], None], dict[str, Any]]:
    """Prepare one peer, warm it up, and verify its result."""
    make = {"NumPy": numpy_peer, "torch": torch_peer}.get(name, tensorflow_peer)
    verify = load("workloads.matpow")
    matrices = [verify.make_matrix(size, index) for index in range(2)]
    run, version = make(name, matrices, power)
    expected = [verify.power_times_vectors(matrix, power) for matrix in matrices]
    results = [one.numpy() if hasattr(one, "numpy") else one for one in run()]
    found = [verify.residual(one, y) for one, y in zip(results, expected, strict=True)]
    ok = all(verify.is_right(*one, "float32", power) for one in found)

    def sample() -> None:
        run()

    sample()
    return sample, {"version": version, "ok": ok, "residual": max(one.rms for one in found)}


# ---------------------------------------------------------------------------- in the parent


class Ours:
    """The worker that `tfgpu bench matpow` measures with."""

    def __init__(self, executable: str, size: int, power: int, scratch: Path) -> None:
        """Start it, warm it up and verify it, as the runner does."""
        from tfgpu_doctor.bench.devices import Case
        from tfgpu_doctor.bench.plans.matpow import MatPow
        from tfgpu_doctor.bench.runner.process import WorkerProcess, hello, prepare
        from tfgpu_doctor.bench.workloads import matpow

        self.outside: list[float] = []
        self.worker = WorkerProcess(executable)
        software, _ = hello(self.worker)
        case, parameters = Case("CPU", ("/CPU:0",), ()), {"size": size, "power": power}
        prepare(self.worker, MatPow(power=power).job(case, "float32", size, str(scratch)))
        self.worker.ask(600, do="sample", count=2, steps=1)
        file = str(scratch / "reference")
        self.worker.ask(600, do="reference", workload="matpow", parameters=parameters, terms=2, file=file)
        found = self.worker.ask(600, do="verify", file=file)
        if not matpow.judge(found, "float32", parameters).ok:
            raise RuntimeError(f"{OURS}: the result is wrong: {found}")
        self.about = {"version": f"TensorFlow {software['tensorflow']}", "ok": True, "residual": found["rms"]}

    def sample(self) -> float:
        """Seconds of one sample."""
        from statistics import median

        started = time.perf_counter()
        ((seconds, _),) = self.worker.ask(600, do="sample", count=1, steps=1)["samples"]
        self.outside.append(time.perf_counter() - started - seconds)
        self.about["outside_the_timed_part_s"] = median(self.outside)  # the request, the check of the result
        return float(seconds)

    def close(self) -> None:
        """Kill the process."""
        self.worker.close()


def start(options: argparse.Namespace) -> dict[str, Contender]:
    """Start ours and every peer that can be imported."""
    with tempfile.TemporaryDirectory() as scratch:
        contenders: dict[str, Contender] = {OURS: Ours(options.python, options.size, options.power, Path(scratch))}
    for name in BY_HAND + OTHERS:
        executable = options.torch_python if name == "torch" else options.python
        command = [executable, __file__, "--child", name, "--size", str(options.size), "--power", str(options.power)]
        try:
            contenders[name] = Peer(name, command)
        except RuntimeError as error:
            print(f"left out: {error}", file=sys.stderr)
    return contenders


def measure(options: argparse.Namespace) -> int:
    """Take turns, compare, write; 1 when the goal is missed."""
    samples, about = take_turns(lambda: start(options), options.starts, options.rounds, options.size)
    samples = {name: samples[name] for name in (OURS, *BY_HAND, *OTHERS) if name in samples}
    rows = compare(samples, OURS, options.starts)
    best = min((name for name in BY_HAND if name in rows), key=lambda name: rows[name]["our_speed_over_theirs"])
    reached = rows[best]["our_speed_over_theirs"]
    flop = 4.0 * options.size**3 * (options.power - 1)
    turns = f"{options.starts} starts of {options.rounds} rounds"
    write(
        "matpow_cpu",
        f"{date.today()}, {machine()}, N = {options.size}, n = {options.power}, float32, {turns}",
        table(
            rows,
            about,
            OURS,
            "| computes A^n and B^n | library | GFLOP/s | our speed over it (95 %) | starts apart |",
            lambda seconds: f"{flop / seconds / 1e9:.0f}",
        ),
        {
            **{name: getattr(options, name) for name in ("size", "power", "starts", "rounds")},
            "dtype": "float32",
            "best_by_hand": best,
            "goal": GOAL,
            "reached": reached,
            "peers": {name: {**about[name], **rows[name], "samples_s": samples[name]} for name in rows},
        },
    )
    print(f"{reached:.3f} of the best hand-written loop ({best}); the goal is {GOAL}")
    return 0 if reached >= GOAL else 1


def main() -> int:
    """Parse and go."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--power", type=int, default=10)
    parser.add_argument("--starts", type=int, default=3, help="how often every process is started anew")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each process")
    parser.add_argument("--python", default=sys.executable, help="interpreter with TensorFlow and NumPy")
    parser.add_argument("--torch-python", help="interpreter with torch and NumPy; default: that of --python")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.torch_python = options.torch_python or options.python
    if options.child:
        serve(lambda: child(options.child, options.size, options.power))
        return 0
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
