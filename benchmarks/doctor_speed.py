"""How much time the doctor takes beside what it must wait for anyway; pairs interleaved in one run.

    python benchmarks/doctor_speed.py [--pairs 15] [--python EXE]

Writes benchmarks/results/doctor_speed.json and prints the table that stands in benchmarks/README.md.
Goals: `tfgpu --help` at most 4 bare interpreter starts; `tfgpu doctor --no-import` at most 0.4 s; `tfgpu doctor` at
most 1.2 times `import tensorflow` with a look at the devices; loading the matrix at most 60 ms.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from side_by_side import machine

RESULTS = Path(__file__).parent / "results" / "doctor_speed.json"
LOOK = "import tensorflow as tf; tf.config.list_physical_devices()"
LOAD = (
    "import msgspec, time; s = time.perf_counter(); from tfgpu_doctor.matrix.loader import Matrix; Matrix.load();"
    "print(time.perf_counter() - s)"
)


def seconds(argv: list[str]) -> float:
    """Wall time of one run; output is thrown away, the exit code does not matter."""
    started = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=300)
    return time.perf_counter() - started


def pairs(ours: list[str], theirs: list[str], count: int) -> dict[str, float]:
    """Interleave two commands and compare them pair by pair, so that a busy moment hits both."""
    seconds(ours), seconds(theirs)  # fill the file cache
    rows = [(seconds(ours), seconds(theirs)) for _ in range(count)]
    ratios = sorted(a / b for a, b in rows)
    return {
        "ours_s": statistics.median(a for a, _ in rows),
        "theirs_s": statistics.median(b for _, b in rows),
        "ratio": statistics.median(ratios),
        "ratio_low": ratios[count // 10],
        "ratio_high": ratios[-1 - count // 10],
    }


def main() -> int:
    """Run all pairs; the exit code is 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--python", default=sys.executable, help="interpreter with TensorFlow")
    options = parser.parse_args()
    tfgpu = [sys.executable, "-m", "tfgpu_doctor"]
    bare = [sys.executable, "-c", "pass"]
    many = options.pairs * 2
    rows = {
        "tfgpu --help / python -c pass": pairs([*tfgpu, "--help"], bare, many),
        "tfgpu doctor --no-import / python -c pass": pairs(
            [*tfgpu, "doctor", "--no-import", "--python", options.python], bare, options.pairs
        ),
        "tfgpu doctor / import tensorflow": pairs(
            [*tfgpu, "doctor", "--python", options.python], [options.python, "-c", LOOK], options.pairs
        ),
    }
    load = statistics.median(
        float(subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True).stdout)
        for _ in range(many)
    )
    goals = {
        "help at most 4 bare starts": rows["tfgpu --help / python -c pass"]["ratio"] <= 4,
        "doctor --no-import at most 0.4 s": rows["tfgpu doctor --no-import / python -c pass"]["ours_s"] <= 0.4,
        "doctor at most 1.2 imports": rows["tfgpu doctor / import tensorflow"]["ratio"] <= 1.2,
        "matrix loaded in at most 60 ms": load <= 0.060,
    }
    for name, row in rows.items():
        low, high = row["ratio_low"], row["ratio_high"]
        print(f"{name:44} {row['ours_s'] * 1e3:7.0f} ms  ratio {row['ratio']:.2f} ({low:.2f} to {high:.2f})")
    print(f"{'matrix, with its imports':44} {load * 1e3:7.1f} ms")
    for goal, met in goals.items():
        print(f"{'met   ' if met else 'MISSED'} {goal}")
    RESULTS.write_text(
        json.dumps(
            {
                "date": date.today().isoformat(),
                "python": platform.python_version(),
                "cpu": machine(),
                "rows": rows,
                "matrix_load_s": load,
                "goals": goals,
            },
            indent=2,
        )
        + "\n"
    )
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
