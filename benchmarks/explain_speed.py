"""How long `tfgpu explain` takes: for what people paste, and for logs of 100 MB, with grep beside it as a yardstick.

    python benchmarks/explain_speed.py [--pairs 15] [--megabytes 100]

Writes benchmarks/results/explain_speed.json and prints the table that stands in benchmarks/README.md.
Goals: a paste of 200 lines in at most 0.35 s; 100 MB of a training's log in at most 10 s and 150 MB of memory.
The logs are made here, from a fixed seed: the training has Keras' progress bars, TensorFlow's lines and, of every
twenty lines, one that no other is like; the words are random, so that every line is new and half of them seem telling.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from doctor_speed import pairs
from side_by_side import machine

RESULTS = Path(__file__).parent / "results" / "explain_speed.json"
CAPTURES = Path(__file__).parents[1] / "tests" / "captures"
NEEDLE = "cuInit"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SAID = (
    "I external/local_xla/xla/stream_executor/cuda/cuda_executor.cc:1015] successful NUMA node read from SysFS had "
    "negative value (-1), but there must be at least one NUMA node, so returning NUMA node zero",
    "W tensorflow/core/framework/local_rendezvous.cc:404] Local rendezvous is aborting with status: OUT_OF_RANGE: "
    "End of sequence",
    "I tensorflow/core/kernels/data/shuffle_dataset_op.cc:422] ShuffleDatasetV3:1: Filling up shuffle buffer",
)


def paste() -> bytes:
    """200 lines of what people paste: forms, TensorFlow's log, nvidia-smi, pip."""
    folders = ("form", "tensorflow_devices", "nvidia_smi", "pip_install", "pip_list")
    files = [sorted((CAPTURES / folder).glob("*.txt"))[:3] for folder in folders]
    parts = [[line for path in some for line in path.read_bytes().splitlines()][:40] for some in files]
    lines = [line for part in parts for line in part]
    lines += [b"Epoch 1/10"] * (200 - len(lines))
    return b"\n".join(lines[:200]) + b"\n"


def training(chance: random.Random) -> Iterator[str]:
    """Lines of a long training."""
    step = 0
    while True:
        step += 1
        kind = chance.random()
        if kind < 0.05:
            word = "".join(chance.choices(_LETTERS, k=30))
            yield f"sample {word} id={chance.getrandbits(64):x} loss={chance.random()}\n"
        elif kind < 0.10:
            yield f"2026-11-20 10:{step // 60 % 60:02}:{step % 60:02}.123456: {chance.choice(_SAID)}\n"
        elif kind < 0.101:
            yield f"Epoch {step // 1000}/1000\n"
        else:
            end = "\r" if chance.random() < 0.3 else "\n"
            yield (
                f"\x1b[1m{step % 1563:>4}/1563\x1b[0m \x1b[32m━━━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━━━\x1b[0m "
                f"\x1b[1m{chance.randint(1, 99)}s\x1b[0m {chance.randint(1, 99)}ms/step - "
                f"accuracy: {chance.random():.4f} - loss: {chance.random() * 3:.4f}{end}"
            )


def words(chance: random.Random) -> Iterator[str]:
    """Lines of random words."""
    known = ["".join(chance.choices(_LETTERS, k=chance.randint(2, 10))) for _ in range(50_000)]
    while True:
        yield " ".join(chance.choices(known, k=chance.randint(3, 20))) + "\n"


def write(path: Path, lines: Callable[[random.Random], Iterator[str]], size: int) -> None:
    """Write lines until the file has `size` bytes."""
    with path.open("w", encoding="utf-8") as file:
        written = 0
        for line in lines(random.Random(1)):
            written += file.write(line) + 2 * line.count("━")
            if written >= size:
                return


def measured(argv: list[str]) -> tuple[float, float]:
    """Seconds, and the most memory that the process held, in MB."""
    started = time.perf_counter()
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0  # it was waited for
    return time.perf_counter() - started, usage.ru_maxrss * 1024 / 1e6


def large(tfgpu: list[str], path: Path, runs: int) -> dict[str, float]:
    """A large file, turn about with grep that counts one word in it."""
    grep = [shutil.which("grep") or "grep", "-c", NEEDLE, str(path)]
    rows = [(measured([*tfgpu, "explain", str(path)]), measured(grep)) for _ in range(runs)]
    return {
        "megabytes": path.stat().st_size / 1e6,
        "ours_s": statistics.median(ours[0] for ours, _ in rows),
        "ours_slowest_s": max(ours[0] for ours, _ in rows),
        "ours_peak_mb": max(ours[1] for ours, _ in rows),
        "grep_s": statistics.median(grep[0] for _, grep in rows),
    }


def main() -> int:
    """Run everything; the exit code is 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3, help="of each large file")
    options = parser.parse_args()
    tfgpu = [sys.executable, "-m", "tfgpu_doctor"]
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder, "paste.txt")
        small.write_bytes(paste())
        short = pairs([*tfgpu, "explain", str(small)], [sys.executable, "-c", "pass"], options.pairs)
        logs = {}
        for name, lines in (("training", training), ("random words", words)):
            path = Path(folder, "log")
            write(path, lines, options.megabytes * 1_000_000)
            logs[name] = large(tfgpu, path, options.runs)
    goals = {
        "200 lines in at most 0.35 s": short["ours_s"] <= 0.35,
        "100 MB of a training's log in at most 10 s": logs["training"]["ours_s"] <= 10,
        "in at most 150 MB": logs["training"]["ours_peak_mb"] <= 150,
    }
    low, high = short["ratio_low"], short["ratio_high"]
    span = f"{short['ratio']:.1f} ({low:.1f} to {high:.1f})"
    print(f"{'200 lines / python -c pass':28} {short['ours_s']:6.2f} s  ratio {span}")
    for name, row in logs.items():
        print(
            f"{row['megabytes']:3.0f} MB, {name:20} {row['ours_s']:6.2f} s  peak {row['ours_peak_mb']:.0f} MB"
            f"  (grep -c {NEEDLE}: {row['grep_s']:.2f} s)"
        )
    for goal, met in goals.items():
        print(f"{'met   ' if met else 'MISSED'} {goal}")
    result = {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "cpu": machine(),
        "cores": os.cpu_count(),
        "paste": short,
        "logs": logs,
        "goals": goals,
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
