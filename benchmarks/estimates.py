"""Does `tfgpu bench` take as long as it says beforehand? On this machine, and on an H100 whose times are recorded.

    python benchmarks/estimates.py [--python EXE] [--only NAME]

Each command is started as a user types it; what it announces ("2 runs (CPU; 1 GPU): about 36 s, at most 52 s") is held
against the time from that line to its end. The recorded ones (tests/captures/h100/bench) are run again in the time of
their starts and samples; the verification, which they do not hold, is taken from their lines of progress. Goal: within
a factor of 1.5. Writes benchmarks/results/estimates.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from side_by_side import machine

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.bench.replay import Replay
from tests.bench.test_h100 import PLANS, estimated, saved

RESULTS = Path(__file__).parent / "results" / "estimates"
GOAL = 1.5
ABOUT = re.compile(r"about ([0-9.]+) (ms|s|min)(?:, at most ([0-9.]+) (ms|s|min))?")
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}
COMMANDS = {
    "matpow": "matpow",
    "matpow virtual": "matpow --virtual-gpus 2",
    "matpow sizes": "matpow --size 256,512,1024,2048",
    "matpow types": "matpow --dtype float32 --dtype bfloat16 --deadline 8",
    "matpow processes": "matpow --processes 3",
    "cnn": "cnn",
    "cnn cifar": "cnn --model cifar --deadline 5",
    "gan": "gan",
    "inference": "inference --deadline 30",
    "transfer": "transfer --deadline 5",
    "input": "input --deadline 4",
}


def here(command: str, python: str) -> dict[str, Any]:
    """Run a command; what it announced, and how long it took from then on."""
    argv = [python, "-m", "tfgpu_doctor", "bench", *command.split()]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        began, found, announced = time.monotonic(), None, 0.0
        for line in child.stderr:
            if (match := ABOUT.search(line)) and found is None:
                found, announced = match, time.monotonic()
    assert found is not None, f"{command}: nothing was announced; exit code {child.returncode}"
    took = time.monotonic() - announced
    return row(command, found, took) | {"rc": child.returncode, "before": round(announced - began, 1)}


def row(what: str, found: re.Match[str], took: float) -> dict[str, Any]:
    """One comparison."""
    about = float(found[1]) * UNITS[found[2]]
    most = float(found[3]) * UNITS[found[4]] if found[3] else about
    return {"command": what, "about": about, "most": most, "took": round(took, 1), "factor": round(took / about, 2)}


def recorded() -> list[dict[str, Any]]:
    """The benchmarks of an H100, run again by the clock of their recorded times."""
    rows = []
    for name, (plan, deadline) in PLANS.items():
        replay = Replay(saved(name))
        said, took = estimated(replay, plan(), deadline)
        found = ABOUT.search(said)
        assert found, said
        rows.append(row(f"H100, recorded: {saved(name).command}", found, took))
    return rows


def main() -> None:
    """Measure, and write after each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", help="one of the commands; nothing is written")
    options = parser.parse_args()
    rows = recorded()
    for name, command in COMMANDS.items():
        if options.only in (None, name):
            rows.append(here(command, options.python))
            print(json.dumps(rows[-1]), flush=True)
        if options.only is None:
            keep(rows)


def keep(rows: list[dict[str, Any]]) -> None:
    """Write the table and what it is made of."""
    cells = ("about", "most", "took", "factor")
    lines = ["| command | about (s) | at most (s) | took (s) | factor |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| `{one['command']}` | {' | '.join(f'{one[cell]:g}' for cell in cells)} |" for one in rows]
    within = sum(1 / GOAL <= one["factor"] <= GOAL for one in rows)
    load = os.getloadavg()[2]
    head = f"{date.today()}, {machine()}, load average {load:.1f}: {within} of {len(rows)} within a factor of {GOAL}"
    kept = {"date": str(date.today()), "machine": machine(), "load_average": load, "rows": rows}
    RESULTS.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text("\n".join((head, "", *lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
