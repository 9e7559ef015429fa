"""How much longer `import tfgpu_doctor` takes than Python's own start, and the first use of each public name.

    python benchmarks/import_time.py [--pairs 40]

Each command runs in a process of its own, and beside it, in turns, `python -c pass`; the difference of each pair
counts, so that a busy moment hits both. Writes benchmarks/results/import_time.json.
Goal: `import tfgpu_doctor` at most 20 ms over bare Python.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from side_by_side import machine

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "import_time.json"
LIMIT = 0.020
NAMES = ("diagnose", "explain", "plan", "check", "bench", "compare", "TfgpuError", "UsageError")


def cost(code: str) -> tuple[float, float]:
    """Wall and processor time of one start."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pairs(code: str, count: int) -> dict[str, float]:
    """The command beside Python's own start, so many times."""
    cost(code), cost("pass")  # fill the file cache, write bytecode
    rows = [(cost(code), cost("pass")) for _ in range(count)]
    more = sorted(ours[0] - bare[0] for ours, bare in rows)
    return {
        "more_s": statistics.median(more),
        "more_low_s": more[count // 10],
        "more_high_s": more[-1 - count // 10],
        "more_cpu_s": statistics.median(ours[1] - bare[1] for ours, bare in rows),
        "bare_s": statistics.median(bare[0] for _, bare in rows),
    }


def main() -> int:
    """Run all pairs; the exit code is 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    options = parser.parse_args()
    commands = {"import tfgpu_doctor": "import tfgpu_doctor"}
    for name in NAMES:  # plan, bench and compare are folders, too, and import their function when they are called
        use = f"from tfgpu_doctor import {name}"
        commands[f"{name}, until it can be called"] = use
    rows = {}
    for name, code in commands.items():
        rows[name] = row = pairs(code, options.pairs)
        low, high = 1e3 * row["more_low_s"], 1e3 * row["more_high_s"]
        print(f"{name:38} {1e3 * row['more_s']:6.1f} ms more than bare Python ({low:.1f} to {high:.1f})")
    goals = {f"import tfgpu_doctor at most {1e3 * LIMIT:g} ms more": rows["import tfgpu_doctor"]["more_s"] <= LIMIT}
    for goal, met in goals.items():
        print(f"{'met   ' if met else 'MISSED'} {goal}")
    here = {"python": platform.python_version(), "cpu": machine(), "cpus": os.cpu_count(), "load": os.getloadavg()}
    found = {"date": date.today().isoformat(), **here, "pairs": options.pairs, "rows": rows, "goals": goals}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
