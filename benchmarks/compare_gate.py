"""How often `tfgpu compare` is wrong: false alarms on pairs of the same, and a planted slowdown of 10 %, by real runs.

    python benchmarks/compare_gate.py --python EXE [--rounds 20] [--processes 5] [--keep DIR]

Each round measures four times with `tfgpu bench matpow`, in random order: twice as it is (A, A), once with real extra
work (a product more for every ten) and once with a real sleep in the worker (plant/sitecustomize.py). Then `tfgpu
compare --factor 1.05` judges A against A, which must not be slower or faster (goal: at most 5 % of the pairs), and A
against each planted one, which must be slower (goal: at least 95 % of those pairs). What it cannot tell is counted
apart: it is no alarm, and no detection either.

Then the recorded results are simulated with: every A against every other A, however much time lies between them; the
same with all times of one of them 10 % longer; with fewer processes; and with the disturbed samples left in.
Writes benchmarks/results/compare_gate.json and .md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
from side_by_side import RESULTS, machine

from tfgpu_doctor.bench.comparing.comparison import compare_benches
from tfgpu_doctor.bench.comparing.cpu_contention import usable_cpus
from tfgpu_doctor.bench.comparing.ratio_interval import PROCESS_SPREAD
from tfgpu_doctor.bench.comparing.verdicts import samples_of
from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.bench.saved import load_result
from tfgpu_doctor.bench.statistics import median

PLANT = Path(__file__).parent / "plant"
FACTOR = 1.05
POWER = 11  # ten products a chain, so that one more is 10 %
KINDS = ("A", "A'", "work", "sleep")
FALSE_ALARMS, DETECTED = 0.05, 0.95  # goals
DONE = {0: "done", 1: "alarm", 3: "cannot tell"}


# ------------------------------------------------------------------------------------------------ real runs


def bench(options: argparse.Namespace, kind: str, file: Path) -> None:
    """One real run of the command.

    Raises:
        RuntimeError: it failed.
    """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PLANT), os.environ.get("PYTHONPATH", "")])}
    environ["TFGPU_PLANT"] = kind if kind in ("work", "sleep") else ""
    environ["TFGPU_PRIORITY"] = options.priority
    shape = ["--size", str(options.size), "--power", str(POWER), "--devices", "cpu"]
    length = ["--min-samples", str(options.min_samples), "--deadline", str(options.deadline)]
    command = [sys.executable, "-m", "tfgpu_doctor", "bench", "matpow", *shape, *length]
    command += ["--processes", str(options.processes), "--python", options.python, "--output", str(file)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-1000:]}")


def compare(base: Path, new: Path) -> tuple[str, float | None]:
    """The verdict of the command over a pair, and the quotient of the times; its exit code must say the same."""
    command = [sys.executable, "-m", "tfgpu_doctor", "compare", str(base), str(new), "--factor", str(FACTOR)]
    command += ["--format", "json", "--fail-on", "change"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    (run,) = json.loads(done.stdout)["runs"]
    verdict: str = run["verdict"]
    expected = {"slower": 1, "faster": 1, "same": 0}.get(verdict, 3)
    assert done.returncode == expected, f"exit code {done.returncode} for {verdict!r}"
    return verdict, run["ratio"]["value"] if run["ratio"] else None


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """All rounds: the verdicts of each."""
    rounds = []
    for number in range(options.rounds):
        files = {kind: folder / f"{number:03}-{kind.replace(chr(39), '2')}.json" for kind in KINDS}
        for kind in random.sample(KINDS, len(KINDS)):
            if not files[kind].exists():  # a run that was kept is not repeated
                unfinished = files[kind].with_suffix(".part")
                bench(options, kind, unfinished)
                unfinished.rename(files[kind])
        verdicts = {kind: compare(files["A"], files[kind]) for kind in KINDS[1:]}
        rounds.append({kind: {"verdict": verdict, "ratio": ratio} for kind, (verdict, ratio) in verdicts.items()})
        told = ", ".join(f"{kind} {verdict}" for kind, (verdict, _) in verdicts.items())
        print(f"{number + 1} of {options.rounds}: {told}", file=sys.stderr, flush=True)
        if options.until and datetime.now().strftime("%H:%M") >= options.until:
            break
    return rounds


# ------------------------------------------------------------------------------------------------ simulation


def simulate(results: Sequence[BenchResult], change: Callable[[Run], Run], slower: float) -> Counter[str]:
    """Verdicts over every ordered pair of recorded results; `change` alters both, `slower` scales the times of NEW."""
    counts: Counter[str] = Counter()
    for base, new in itertools.permutations(results, 2):
        pair = [
            msgspec.structs.replace(result, runs=(scaled(change(result.runs[0]), factor),))
            for result, factor in ((base, 1.0), (new, slower))
        ]
        (run,) = compare_benches(*pair, "", factor=FACTOR).runs
        counts[run.verdict] += 1
    return counts


def scaled(run: Run, factor: float) -> Run:
    """A run whose every sample took `factor` times as long."""
    return msgspec.structs.replace(run, samples_s=tuple(sample * factor for sample in run.samples_s))


def first(count: int) -> Callable[[Run], Run]:
    """Only the first processes of a run."""

    def change(run: Run) -> Run:
        kept = sum(run.processes[:count])
        fields = ("samples_s", "cpu_load", "cpu_wait")
        return msgspec.structs.replace(
            run, processes=run.processes[:count], **{name: getattr(run, name)[:kept] for name in fields}
        )

    return change


def disturbed_too(run: Run) -> Run:
    """As if nobody had looked at who else used the CPUs: all samples count."""
    return msgspec.structs.replace(run, cpu_wait=(0.0,) * len(run.samples_s))


def as_one_process(run: Run) -> Run:
    """As if all samples were independent samples of one process, as order statistics take them."""
    return msgspec.structs.replace(run, processes=(len(run.samples_s),))


# ------------------------------------------------------------------------------------------------ what came out


def interval(hits: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def row(name: str, verdicts: Counter[str], wanted: Sequence[str]) -> dict[str, Any]:
    """One line of the table: how many pairs, and the share of those with a wanted verdict among all and the told."""
    total, hits = verdicts.total(), sum(verdicts[one] for one in wanted)
    told = total - verdicts["cannot tell"] - verdicts["not comparable"]
    return {
        "pairs": name,
        "count": total,
        "verdicts": dict(verdicts),
        "share": hits / total if total else None,
        "share_of_told": hits / told if told else None,
        "interval_95": interval(hits, total),
    }


def process_spread(results: Iterable[BenchResult]) -> float | None:
    """Standard deviation of the logarithms of the medians of processes of one run, over undisturbed samples."""
    squares, degrees = 0.0, 0
    for result in results:
        kept = samples_of(result.runs[0], usable_cpus(result.environment)).undisturbed()
        logs = [math.log(median(process)) for process in kept.processes]
        if len(logs) > 1:
            middle = sum(logs) / len(logs)
            squares += sum((one - middle) ** 2 for one in logs)
            degrees += len(logs) - 1
    return math.sqrt(squares / degrees) if degrees else None


def page(head: str, rows: Sequence[dict[str, Any]]) -> str:
    """The table."""
    lines = [
        "| pairs | number | slower | faster | same | cannot tell | wanted verdict | 95 % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in rows:
        counts = [str(one["verdicts"].get(name, 0)) for name in ("slower", "faster", "same", "cannot tell")]
        share = "-" if one["share"] is None else f"{100 * one['share']:.1f} %"
        low, high = one["interval_95"]
        ends = f"{100 * low:.0f} to {100 * high:.0f} %"
        lines.append("| " + " | ".join([one["pairs"], str(one["count"]), *counts, share, ends]) + " |")
    return head + "\n\n" + "\n".join(lines) + "\n"


def conclude(options: argparse.Namespace, rounds: Sequence[dict[str, Any]], folder: Path) -> int:
    """Count, simulate, write; 1 when a goal is missed."""
    counted = {kind: Counter(one[kind]["verdict"] for one in rounds) for kind in KINDS[1:]}
    files = sorted([*folder.glob("*-A.json"), *folder.glob("*-A2.json")])
    results = [load_result(file.read_bytes(), file.name) for file in files]
    results = [one for one in results if one.runs and one.runs[0].samples_s]
    alarm, found = ("slower", "faster"), ("slower",)
    planted = counted["work"] + counted["sleep"]
    real = [
        row("real: A against A", counted["A'"], alarm),
        row("real: A against 10 % more work", counted["work"], found),
        row("real: A against 10 % of sleep", counted["sleep"], found),
        row("real: both plants", planted, found),
    ]
    simulated = []
    for name, change in (
        *((f"{n} process{'es' * (n > 1)}", first(n)) for n in (1, 2, 3, 5) if n <= options.processes),
        ("disturbed samples left in", disturbed_too),
        ("samples taken for independent", as_one_process),
    ):
        simulated.append(row(f"recorded, {name}: A against any A", simulate(results, change, 1.0), alarm))
        simulated.append(row(f"recorded, {name}: A against any A × 1.1", simulate(results, change, 1.1), found))
    ratios = {kind: [one[kind]["ratio"] for one in rounds if one[kind]["ratio"]] for kind in KINDS[1:]}
    spread = process_spread(results)
    loads = [one.load_average for one in results if getattr(one, "load_average", None) is not None]
    settings = f"N = {options.size}, n = {POWER}, {options.processes} processes, deadline {options.deadline:g} s"
    head = f"{date.today()}, {machine()}, float32, {settings}, {len(rounds)} rounds, factor {FACTOR}"
    if options.priority:
        head += f"; the machine was in use, and the workers had priority {options.priority}"
    if loads:
        head += f"; load average before the runs {min(loads):.1f} to {max(loads):.1f}"
    text = page(head, [*real, *simulated])
    text += "\nMedian time over A's: " + ", ".join(f"{k} {median(v):.3f}" for k, v in ratios.items() if v) + ".\n"
    if spread is not None:
        text += (
            f"Processes of one run: standard deviation {100 * spread:.2f} % (assumed: {100 * PROCESS_SPREAD:.2g} %).\n"
        )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "compare_gate.md").write_text(text, encoding="utf-8")
    record = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
        "machine": machine(),
        "load_average": loads,
        **{name: getattr(options, name) for name in ("size", "processes", "min_samples", "deadline")},
        "power": POWER,
        "priority": options.priority,
        "factor": FACTOR,
        "process_spread": spread,
        "real": real,
        "simulated": simulated,
        "rounds": list(rounds),
    }
    (RESULTS / "compare_gate.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(text)
    false, caught = real[0]["share"], real[3]["share"]
    print(f"false alarms {100 * false:.1f} % (goal: at most {100 * FALSE_ALARMS:g} %), ", end="")
    print(f"planted 10 % found {100 * caught:.1f} % (goal: at least {100 * DETECTED:g} %)")
    return 0 if false <= FALSE_ALARMS and caught >= DETECTED else 1


def main() -> int:
    """Parse and go."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter with TensorFlow")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--min-samples", type=int, default=40)
    parser.add_argument("--deadline", type=float, default=5.0)
    parser.add_argument("--priority", default="", help="nice value of the workers' sessions, on a machine in use")
    parser.add_argument("--keep", type=Path, help="folder for the results, which a further call continues")
    parser.add_argument("--until", metavar="HH:MM", help="start no round after this time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        return conclude(options, measure(options, folder), folder)


if __name__ == "__main__":
    sys.exit(main())
