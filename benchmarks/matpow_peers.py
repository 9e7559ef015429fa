"""`tfgpu bench matpow` on the CPU beside what one would write by hand: TensorFlow, NumPy, torch; in turns in one run.

    python benchmarks/matpow_peers.py [--size 2048] [--starts 3] [--rounds 7] [--python EXE] [--torch-python EXE]

All compute A^n and B^n of the same float32 matrices, each in a process of its own that does nothing while another is
measured. The processes are started anew several times, because where one finds its memory speeds it up or slows it down
by some per cent for all its life. Every first result is verified in float64. The hand-written TensorFlow loops are an
eager loop, a loop in a `tf.function`, and the same compiled by XLA; ours is compared with the fastest of them.
Writes benchmarks/results/matpow_cpu.json and .md. Goal: ours at least 0.97 of the best hand-written TensorFlow loop.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
import tempfile
import time
import types
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[1] / "tfgpu_doctor" / "bench"
RESULTS = Path(__file__).parent / "results"
GOAL = 0.97
PAUSE = 0.5  # seconds before each sample: OpenMP's threads spin for 0.2 s after their work and would slow the next peer
OURS = "tfgpu bench matpow"
BY_HAND = ("TensorFlow, eager loop", "TensorFlow, tf.function", "TensorFlow, XLA")
OTHERS = ("NumPy", "torch")


# ------------------------------------------------------------------- in the child processes


def load(name: str) -> Any:
    """Import a file of the benchmark by its path: the child's interpreter need not have tfgpu."""
    if "tfgpu_bench" not in sys.modules:
        package = types.ModuleType("tfgpu_bench")
        package.__path__ = [str(BENCH)]
        sys.modules["tfgpu_bench"] = package
    return importlib.import_module(f"tfgpu_bench.{name}")


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


def child(name: str, size: int, power: int) -> None:
    """Serve one peer: first a line about itself, then the seconds of a run for each line that comes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    make = {"NumPy": numpy_peer, "torch": torch_peer}.get(name, tensorflow_peer)
    verification = load("verification")
    matrices = [load("workloads.matpow").make_matrix(size, index) for index in range(2)]
    run, version = make(name, matrices, power)
    expected = [verification.reference(matrix, power) for matrix in matrices]
    results = [one.numpy() if hasattr(one, "numpy") else one for one in run()]
    found = [verification.residual(one, y) for one, y in zip(results, expected, strict=True)]
    ok = all(verification.is_right(one, "float32", power) for one in found)
    run()
    print(
        json.dumps({"version": version, "ok": ok, "residual": max(one.rms for one in found)}), file=answers, flush=True
    )
    for _ in sys.stdin:
        started = time.perf_counter()
        run()
        print(json.dumps(time.perf_counter() - started), file=answers, flush=True)
    os._exit(0)


# ---------------------------------------------------------------------------- in the parent


class Peer:
    """A child process that computes by hand."""

    def __init__(self, name: str, executable: str, size: int, power: int) -> None:
        """Start it, and wait until it is warm and verified; ends the program's run for this peer if it cannot."""
        from tfgpu_doctor.probes.process import Child

        self.child = Child(
            [executable, __file__, "--child", name, "--size", str(size), "--power", str(power)], stdin=True
        )
        line = self.child.read_line(600)
        if line is None:
            last = self.child.stderr.text().strip().splitlines()[-1:]
            raise RuntimeError(f"{name}: {' '.join(last) or 'the process ended'}")
        self.about: dict[str, Any] = json.loads(line)
        if not self.about["ok"]:
            raise RuntimeError(f"{name}: the result is wrong: residual {self.about['residual']}")

    def sample(self) -> float:
        """Seconds of one run."""
        self.child.send("\n")
        return float(json.loads(self.child.read_line(600) or "nan"))

    def close(self) -> None:
        """Kill the process."""
        self.child.__exit__(None, None, None)


class Ours:
    """The worker that `tfgpu bench matpow` measures with."""

    def __init__(self, executable: str, size: int, power: int, scratch: Path) -> None:
        """Start it, warm it up and verify it, as the runner does."""
        from tfgpu_doctor.bench.devices import Case
        from tfgpu_doctor.bench.matpow import MatPow, Reference
        from tfgpu_doctor.bench.runner import hello, prepare
        from tfgpu_doctor.bench.runner_process import WorkerProcess
        from tfgpu_doctor.bench.workloads import matpow

        self.worker = WorkerProcess(executable)
        software, _ = hello(self.worker)
        case, parameters = Case("CPU", ("/CPU:0",), ()), {"size": size, "power": power}
        with Reference() as reference:
            prepare(self.worker, case, MatPow(power=power).job("float32", size, reference, 2))
        self.worker.ask(600, do="sample", count=2, steps=1)
        file = str(scratch / "reference")
        self.worker.ask(600, do="reference", workload="matpow", parameters=parameters, terms=2, file=file)
        found = self.worker.ask(600, do="verify", file=file)
        if not matpow.judge(found, "float32", parameters).ok:
            raise RuntimeError(f"{OURS}: the result is wrong: {found}")
        self.about = {"version": f"TensorFlow {software['tensorflow']}", "ok": True, "residual": found["rms"]}

    def sample(self) -> float:
        """Seconds of one sample."""
        seconds: list[float] = self.worker.ask(600, do="sample", count=1, steps=1)["samples"]
        return seconds[0]

    def close(self) -> None:
        """Kill the process."""
        self.worker.close()


def start(options: argparse.Namespace, scratch: Path) -> dict[str, Ours | Peer]:
    """Start ours and every peer that can be imported."""
    peers: dict[str, Ours | Peer] = {OURS: Ours(options.python, options.size, options.power, scratch)}
    for name in BY_HAND + OTHERS:
        executable = options.torch_python if name == "torch" else options.python
        try:
            peers[name] = Peer(name, executable, options.size, options.power)
        except RuntimeError as error:
            print(f"left out: {error}", file=sys.stderr)
    return peers


def compare(samples: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """For each peer: median seconds, and ours over it in speed, paired round by round, with a 95 % interval."""
    from tfgpu_doctor.bench.statistics import iqr_spread, median, median_interval

    rows = {}
    for name, theirs in samples.items():
        ratios = [their / our for their, our in zip(theirs, samples[OURS], strict=True)]
        low, high = median_interval(ratios)
        rows[name] = {
            "median_s": median(theirs),
            "iqr_over_median": iqr_spread(theirs),
            "our_speed_over_theirs": median(ratios),
            "low": low,
            "high": high,
        }
    return rows


def table(rows: dict[str, dict[str, float]], about: dict[str, Any], flop: float) -> str:
    """Markdown lines for benchmarks/README.md."""
    lines = ["| computes A^n and B^n | library | GFLOP/s | our speed over it (95 %) |", "|---|---|---|---|"]
    for name, row in rows.items():
        ratio = f"{row['our_speed_over_theirs']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        speed = flop / row["median_s"] / 1e9
        lines.append(f"| {name} | {about[name]['version']} | {speed:.0f} | {'1' if name == OURS else ratio} |")
    return "\n".join(lines) + "\n"


def take_turns(options: argparse.Namespace) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of every peer for each round, and what each peer says about itself."""
    samples: dict[str, list[float]] = {}
    about: dict[str, Any] = {}
    shuffle = random.Random(options.size)
    for number in range(options.starts):
        with tempfile.TemporaryDirectory() as scratch:
            peers = list(start(options, Path(scratch)).items())
        for _ in range(options.rounds):
            shuffle.shuffle(peers)  # nobody always follows the same
            for name, peer in peers:
                time.sleep(PAUSE)
                samples.setdefault(name, []).append(peer.sample())
        for name, peer in peers:
            about[name] = peer.about
            peer.close()
        print(f"start {number + 1} of {options.starts} done", file=sys.stderr)
    return {name: samples[name] for name in (OURS, *BY_HAND, *OTHERS) if name in samples}, about


def measure(options: argparse.Namespace) -> int:
    """Take turns, compare, write; 1 when the goal is missed."""
    from tfgpu_doctor.probes import host

    samples, about = take_turns(options)
    rows = compare(samples)
    best = min((name for name in BY_HAND if name in rows), key=lambda name: rows[name]["our_speed_over_theirs"])
    reached = rows[best]["our_speed_over_theirs"]
    facts = host.examine()
    cpu = f"{getattr(facts.cpu_model, 'value', 'unknown CPU')}, {getattr(facts.cpus, 'value', '?')} CPUs"
    result = {
        "date": str(date.today()),
        "cpu": cpu,
        "size": options.size,
        "power": options.power,
        "dtype": "float32",
        "starts": options.starts,
        "rounds": options.rounds,
        "load_average": os.getloadavg()[0],
        "best_by_hand": best,
        "goal": GOAL,
        "reached": reached,
        "peers": {name: {**about[name], **rows[name], "samples_s": samples[name]} for name in rows},
    }
    turns = f"{options.starts} starts of {options.rounds} rounds"
    head = f"{date.today()}, {cpu}, N = {options.size}, n = {options.power}, float32, {turns}"
    page = f"{head}\n\n{table(rows, about, 4.0 * options.size**3 * (options.power - 1))}"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "matpow_cpu.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "matpow_cpu.md").write_text(page, encoding="utf-8")
    print(page)
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
        child(options.child, options.size, options.power)
        return 0
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
