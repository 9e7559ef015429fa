"""How often `tfgpu fleet` calls a healthy node slow, and how often it finds a slow one: simulated fleets.

    python benchmarks/fleet_alarms.py [--runs 1000000]

Fleets of 5 to 10,000 nodes with one throughput each, judged by the rule and the code of
tfgpu_doctor/fleet/picture.py (median, scaled MAD with its floor, at least 3 % below) with several k. A throughput
is 1 times exp(spread), where the spread is one of these:

- real: repeated runs of `tfgpu bench matpow` on an unchanged machine: the ratios of the pairs A, A that
  benchmarks/compare_gate.py recorded (results/compare_gate_*.json), a quiet machine and a busy one apart. A ratio has
  the spread of two runs, so its logarithm is divided by the root of two; each is drawn with either sign.
- GPUs of one model: normally distributed with 1.5 % and with 4.1 %: 8 % and 22 % of variation, the average and the
  largest of five clusters (https://arxiv.org/abs/2208.11035), taken as the range of a box plot's whiskers, 5.4 standard
  deviations.
- Student's t with 3 and 5 degrees of freedom, heavy tails, with a scale of 0.5 % and of 1.5 %; and normal with 0.5 %.

Then the same with one node that is 10 % or 20 % slower. Writes benchmarks/results/fleet_alarms.json and .md.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT))
from tfgpu_doctor.fleet.picture import LEAST_LOSS, MADS, centre  # noqa: E402

KS = (3.0, 4.0, 5.0, 6.0, 8.0)
NODES = (5, 8, 16, 64, 1_000, 10_000)
SLOWER = (0.10, 0.20)
Spread = Callable[[random.Random], float]


def recorded(names: tuple[str, ...]) -> list[float]:
    """Logarithms of the ratios of two equal runs."""
    found = []
    for name in names:
        rounds = json.loads((RESULTS / f"compare_gate_{name}.json").read_text())["rounds"]
        found += [math.log(one["A'"]["ratio"]) / math.sqrt(2) for one in rounds if "A'" in one]
    return found


def real(names: tuple[str, ...]) -> Spread:
    """Drawn from recorded ones, a little apart from each other (a tenth of their spread), with either sign."""
    found = recorded(names)
    near = 0.1 * math.sqrt(sum(one * one for one in found) / len(found))
    return lambda chance: chance.choice((-1, 1)) * chance.choice(found) + chance.gauss(0.0, near)


def student(degrees: int, scale: float) -> Spread:
    """Student's t."""
    return lambda chance: scale * chance.gauss(0.0, 1.0) / math.sqrt(chance.gammavariate(degrees / 2, 2.0) / degrees)


def normal(scale: float) -> Spread:
    """A normal distribution."""
    return lambda chance: chance.gauss(0.0, scale)


SPREADS: dict[str, Spread] = {
    "real, quiet machine": real(("calm", "quiet")),
    "real, busy machine": real(("busy", "restless", "priority")),
    "normal, 0.5 %": normal(0.005),
    "normal, 1.5 % (GPUs, average)": normal(0.015),
    "normal, 4.1 % (GPUs, worst)": normal(0.041),
    "t5, 0.5 %": student(5, 0.005),
    "t5, 1.5 %": student(5, 0.015),
    "t3, 0.5 %": student(3, 0.005),
    "t3, 1.5 %": student(3, 0.015),
}


def simulated(spread: Spread, nodes: int, runs: int, seed: str) -> dict[str, Any]:
    """Fleets of so many nodes with so many runs in all: alarms, and how often a slow node among them is found."""
    chance = random.Random(seed)
    fleets = max(runs // nodes, 20)
    alarms, noisy = dict.fromkeys(KS, 0), dict.fromkeys(KS, 0)
    found = {(slower, k): 0 for slower in SLOWER for k in KS}
    for _ in range(fleets):
        values = [math.exp(spread(chance)) for _ in range(nodes)]
        middle, mad = centre(values)
        far = [(middle - one) / mad for one in values if (middle - one) / middle >= LEAST_LOSS]
        for k in KS:
            called = sum(mads > k for mads in far)
            alarms[k] += called
            noisy[k] += called > 0
        first = values[0]
        for slower in SLOWER:
            values[0] = first * (1 - slower)
            middle, mad = centre(values)
            loss = middle - values[0]
            for k in KS:
                found[slower, k] += loss / mad > k and loss / middle >= LEAST_LOSS
        values[0] = first
    return {
        "fleets": fleets,
        "alarms_per_million_runs": {str(k): round(1e6 * alarms[k] / (fleets * nodes), 1) for k in KS},
        "fleets_with_an_alarm": {str(k): round(noisy[k] / fleets, 4) for k in KS},
        **{
            f"found_{slower:.0%}".replace("%", "_percent_slower"): {
                str(k): round(found[slower, k] / fleets, 4) for k in KS
            }
            for slower in SLOWER
        },
    }


def table(rows: dict[str, dict[str, Any]], title: str, cell: Callable[[dict[str, Any]], str]) -> str:
    """A row for each spread, a column for each size."""
    lines = [f"### {title}", "", "| spread | " + " | ".join(f"{n} nodes" for n in NODES) + " |", "|---" * 7 + "|"]
    lines += [f"| {name} | " + " | ".join(cell(row[str(n)]) for n in NODES) + " |" for name, row in rows.items()]
    return "\n".join([*lines, ""])


def main() -> int:
    """Simulate; the exit code is always 0: there is no goal but to know."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000, help="of each spread and size")
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    for name, spread in SPREADS.items():
        rows[name] = {str(n): simulated(spread, n, options.runs, f"{name} {n}") for n in NODES}
        print(name, rows[name]["1000"], file=sys.stderr)
    usual = str(MADS)
    texts = [
        "# How often a healthy node is called slow\n\n"
        f"{date.today().isoformat()}, {options.runs} simulated runs of each "
        "spread and size (`benchmarks/fleet_alarms.py`; its head says what is simulated). "
        f"The rule has k = {MADS:g}.\n",
        table(
            rows,
            "Healthy nodes that are called slow, of a million, with k = 3, 4, 5, 6, 8",
            lambda one: ", ".join(f"{one['alarms_per_million_runs'][str(k)]:.0f}" for k in KS),
        ),
        table(
            rows,
            f"Healthy fleets with at least one such node, k = {MADS:g}",
            lambda one: f"{one['fleets_with_an_alarm'][usual]:.1%}",
        ),
        *(
            table(
                rows,
                f"Nodes that are {slower:.0%} slower and found, with k = 3, 5, 8",
                lambda one, slower=slower: ", ".join(
                    f"{one[f'found_{slower:.0%}'.replace('%', '_percent_slower')][str(k)]:.1%}" for k in (3.0, 5.0, 8.0)
                ),
            )
            for slower in SLOWER
        ),
    ]
    (RESULTS / "fleet_alarms.md").write_text("\n".join(texts))
    found = {"date": date.today().isoformat(), "runs": options.runs, "mads": MADS, "rows": rows}
    (RESULTS / "fleet_alarms.json").write_text(json.dumps(found, indent=1) + "\n")
    print((RESULTS / "fleet_alarms.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
