"""How often `tfgpu compare` is wrong, by real runs: false alarms, and planted slowdowns that it does not find.

    python benchmarks/compare_gate.py --python EXE [--rounds 20] [--busy-rounds 10] [--processes 5] [--keep DIR]

Each round measures four times with `tfgpu bench matpow`, in random order: twice as it is (A, A), once with real extra
work (a product more for every ten) and once with a real sleep in the worker (plant/sitecustomize.py). Then `tfgpu
compare --factor 1.05` judges A against A, which must not be slower or faster (goal: at most 5 % of the pairs), and A
against each planted one, which must be slower (goal: at least 95 % of those pairs). What it cannot tell is counted
apart: it is no alarm, and no detection either. A round is disturbed when other programs took more than 5 % of the CPUs,
or when the medians of the processes of its runs lie further apart (2.5 %) than on a quiet machine, as under a virtual
machine whose host is busy; the goals hold for the others, which have a table of their own.

Then the same on a busy machine: while other programs compute in bursts (--load of them, 2 for each CPU by default),
each busy round measures three times, twice as it is and once with half as much work again, which must be found (goal:
at least 95 %) without false alarms.

Then the recorded results are simulated with: every A against every other A, however much time lies between them; the
same with all times of one of them 10 % longer; with fewer processes; and with the disturbed samples left in.
Writes benchmarks/results/compare_gate.json and .md (--name for another name). With --keep and as many rounds as the
folder has, nothing is measured: the recorded runs are judged again.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from side_by_side import RESULTS, machine

from tfgpu_doctor.bench.comparison import compare_benches
from tfgpu_doctor.bench.results import BenchResult, Run, load_result
from tfgpu_doctor.bench.samples import PROCESS_SPREAD, samples_of, usable_cpus

PLANT = Path(__file__).parent / "plant"
FACTOR = 1.05
POWER = 11  # ten products a chain, so that one more is 10 %
KINDS = ("A", "A'", "work", "sleep")
BUSY = ("busy A", "busy A'", "busy half")
PLANTED = {"work": ("work", 0.1), "sleep": ("sleep", 0.1), "busy half": ("work", 0.5)}
BURSTS = "import time\nwhile True:\n end = time.time() + .5\n while time.time() < end: pass\n time.sleep(.2)"
FALSE_ALARMS, DETECTED = 0.05, 0.95  # goals
DISTURBED = 0.05  # share of the CPUs that other programs took during a run, above which a round is disturbed
# The same for the standard deviation of the logarithms of the medians of the processes of a run, over the runs of a
# round. 1.7 % over 14 rounds of a quiet machine (results/compare_gate_quiet.md); with the 16 degrees of freedom of four
# runs, a round exceeds 1.4 times that by chance in 1 % of the cases (chi-squared).
RESTLESS = 0.025


# ------------------------------------------------------------------------------------------------ real runs


def bench(options: argparse.Namespace, kind: str, file: Path) -> None:
    """One real run of the command.

    Raises:
        RuntimeError: it failed.
    """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PLANT), os.environ.get("PYTHONPATH", "")])}
    plant, share = PLANTED.get(kind, ("", 0.0))
    environ |= {"TFGPU_PLANT": plant, "TFGPU_PLANT_SHARE": str(share)}
    environ["TFGPU_PRIORITY"] = "" if kind in BUSY else options.priority
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


def surroundings(files: Iterable[Path]) -> dict[str, Any]:
    """What else the machine did during a round, by its results.

    The highest share of other programs, and how far apart the processes of a run were. The
    share is that of all CPU time (/proc/stat) less the worker's, while samples were taken.
    """
    results = [load_result(file.read_bytes(), file.name) for file in files]
    cpus = [usable_cpus(one.environment) or os.cpu_count() or 1 for one in results]
    taken = [one.runs[0].others_cpus for one in results]
    shares = [math.nan if one is None else one / count for one, count in zip(taken, cpus, strict=True)]
    others = None if any(map(math.isnan, shares)) else max(shares)
    spread = process_spread(results)
    calm = others is not None and others <= DISTURBED and (spread is None or spread <= RESTLESS)
    return {"others": others, "spread": spread, "disturbed": not calm}


def around(one: dict[str, Any]) -> str:
    """The share of other programs in a round, and the spread of processes, as cells of a table."""
    others = "unknown" if one["others"] is None else f"{100 * one['others']:.0f} %"
    spread = "unknown" if one["spread"] is None else f"{100 * one['spread']:.1f} %"
    return f"{others} | {spread}" + ", disturbed" * one["disturbed"]


@contextlib.contextmanager
def competitors(count: int) -> Iterator[None]:
    """Other programs that compute in bursts, while the block runs."""
    started = [subprocess.Popen([sys.executable, "-c", BURSTS]) for _ in range(count)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def measure(options: argparse.Namespace, folder: Path, kinds: Sequence[str], number: int) -> list[dict[str, Any]]:
    """So many rounds: the verdicts of each, over the first kind."""
    rounds = []
    for place in range(number):
        names = {kind: kind.replace("'", "2").replace(" ", "-") for kind in kinds}
        files = {kind: folder / f"{place:03}-{name}.json" for kind, name in names.items()}
        for kind in random.sample(kinds, len(kinds)):
            if not files[kind].exists():  # a run that was kept is not repeated
                unfinished = files[kind].with_suffix(".part.json")  # the ending decides the format
                bench(options, kind, unfinished)
                unfinished.rename(files[kind])
        verdicts = {kind: compare(files[kinds[0]], files[kind]) for kind in kinds[1:]}
        judged = {kind: {"verdict": verdict, "ratio": ratio} for kind, (verdict, ratio) in verdicts.items()}
        rounds.append({**judged, **surroundings(files.values())})
        told = ", ".join(f"{kind} {verdict}" for kind, (verdict, _) in verdicts.items())
        told += f"; other programs, spread of processes: {around(rounds[-1])}"
        print(f"{place + 1} of {number}: {told}", file=sys.stderr, flush=True)
        if options.until and datetime.now().strftime("%H:%M") >= options.until:
            break
    return rounds


# ------------------------------------------------------------------------------------------------ simulation


def simulate(results: Sequence[BenchResult], change: Callable[[Run], Run], slower: float) -> Counter[str]:
    """Verdicts over every ordered pair of recorded results; `change` alters both, `slower` scales the times of NEW."""

    def changed(result: BenchResult, factor: float) -> BenchResult:
        return msgspec.structs.replace(result, runs=(scaled(change(result.runs[0]), factor),))

    return pairs((changed(base, 1.0), changed(new, slower)) for base, new in itertools.permutations(results, 2))


def pairs(results: Iterable[tuple[BenchResult, BenchResult]]) -> Counter[str]:
    """Verdicts over pairs of recorded results."""
    return Counter(compare_benches(base, new, "", factor=FACTOR).runs[0].verdict for base, new in results)


def load_all(files: Iterable[Path]) -> list[BenchResult]:
    """The results that have samples."""
    results = [load_result(file.read_bytes(), file.name) for file in sorted(files)]
    return [one for one in results if one.runs and one.runs[0].samples_s]


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


def verdicts_of(rounds: Sequence[dict[str, Any]], *kinds: str) -> Counter[str]:
    """How often each verdict came out of these kinds."""
    return Counter(one[kind]["verdict"] for one in rounds for kind in kinds)


def real_rows(which: str, rounds: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of real rounds."""
    return [
        row(f"real, {which}: A against A", verdicts_of(rounds, "A'"), ("slower", "faster")),
        row(f"real, {which}: A against 10 % more work", verdicts_of(rounds, "work"), ("slower",)),
        row(f"real, {which}: A against 10 % of sleep", verdicts_of(rounds, "sleep"), ("slower",)),
        row(f"real, {which}: both plants", verdicts_of(rounds, "work", "sleep"), ("slower",)),
    ]


def page_of_rounds(rounds: Sequence[dict[str, Any]]) -> str:
    """The load of each round, and the spread of the processes of a run, beside its verdicts."""
    lines = [
        "",
        "| round | other programs | processes | verdicts |",
        "| --- " * 4 + "|",
    ]
    for place, one in enumerate(rounds, 1):
        verdicts = ", ".join(f"{kind} {one[kind]['verdict']}" for kind in (*KINDS, *BUSY) if kind in one)
        lines.append(f"| {place} | {around(one)} | {verdicts} |")
    return "\n".join(lines) + "\n"


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


def conclude(
    options: argparse.Namespace, rounds: Sequence[dict[str, Any]], busy: Sequence[dict[str, Any]], folder: Path
) -> int:
    """Count, simulate, write; 1 when a goal is missed, 3 when every round was disturbed."""
    undisturbed = [one for one in rounds if not one["disturbed"]]
    results = load_all([*folder.glob("[0-9]*[0-9]-A.json"), *folder.glob("[0-9]*[0-9]-A2.json")])
    alarm, found = ("slower", "faster"), ("slower",)
    calm = real_rows("undisturbed", undisturbed)
    every = real_rows("all rounds", rounds)
    under_load = [
        row("real, busy: A against A", verdicts_of(busy, "busy A'"), alarm),
        row("real, busy: A against 50 % more work", verdicts_of(busy, "busy half"), found),
    ]
    in_trouble = load_all([*folder.glob("*-busy-A.json"), *folder.glob("*-busy-A2.json")])
    slowed = load_all([*folder.glob("*-busy-half.json")])
    simulated = []
    for name, change in (
        *((f"{n} process{'es' * (n > 1)}", first(n)) for n in (1, 2, 3, 5) if n <= options.processes),
        ("disturbed samples left in", disturbed_too),
        ("samples taken for independent", as_one_process),
    ):
        simulated.append(row(f"recorded, {name}: A against any A", simulate(results, change, 1.0), alarm))
        simulated.append(row(f"recorded, {name}: A against any A × 1.1", simulate(results, change, 1.1), found))
    same = simulate(in_trouble, lambda run: run, 1.0)
    simulated.append(row("recorded, busy: A against any A", same, alarm))
    against = pairs((base, new) for base in in_trouble for new in slowed)
    simulated.append(row("recorded, busy: A against any 50 % more work", against, found))
    ratios = {kind: [one[kind]["ratio"] for one in rounds if one[kind]["ratio"]] for kind in KINDS[1:]}
    spread = process_spread(results)
    settings = f"N = {options.size}, n = {POWER}, {options.processes} processes, deadline {options.deadline:g} s"
    head = f"{date.today()}, {machine()}, float32, {settings}, {len(rounds)} rounds, factor {FACTOR}"
    if options.priority:
        head += f"; the machine was in use, and the workers had priority {options.priority}"
    text = page(f"{head}\n\nUndisturbed rounds: {len(undisturbed)} of {len(rounds)}", calm)
    text += page("\nAll rounds, busy rounds, and recorded results", [*every, *under_load, *simulated])
    text += page_of_rounds([*rounds, *busy])
    text += "\nMedian time over A's: " + ", ".join(f"{k} {median(v):.3f}" for k, v in ratios.items() if v) + ".\n"
    if spread is not None:
        text += (
            f"Processes of one run: standard deviation {100 * spread:.2f} % (assumed: {100 * PROCESS_SPREAD:.2g} %).\n"
        )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{options.name}.md").write_text(text, encoding="utf-8")
    record = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
        "machine": machine(),
        **{name: getattr(options, name) for name in ("size", "processes", "min_samples", "deadline")},
        "power": POWER,
        "priority": options.priority,
        "factor": FACTOR,
        "process_spread": spread,
        "undisturbed": calm,
        "real": [*every, *under_load],
        "simulated": simulated,
        "rounds": list(rounds),
        "busy_rounds": list(busy),
    }
    (RESULTS / f"{options.name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(text)
    goals = {
        "false alarms": (calm[0]["share"], FALSE_ALARMS, -1),
        "planted 10 % found": (calm[1]["share"], DETECTED, 1),
        "busy: false alarms": (under_load[0]["share"], FALSE_ALARMS, -1),
        "busy: planted 50 % found": (under_load[1]["share"], DETECTED, 1),
    }
    for name, (share, goal, sign) in goals.items():
        if share is not None:
            print(f"{name} {100 * share:.1f} % (goal: at {'most' if sign < 0 else 'least'} {100 * goal:g} %)")
    if rounds and not undisturbed:
        print("Every round was disturbed: nothing is known of a quiet machine.")
        return 3
    return 0 if all(share is None or sign * (share - goal) >= 0 for share, goal, sign in goals.values()) else 1


def main() -> int:
    """Parse and go."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter with TensorFlow")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--busy-rounds", type=int, default=10)
    parser.add_argument("--load", type=int, default=2 * (os.cpu_count() or 1), help="competing programs when busy")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--min-samples", type=int, default=40)
    parser.add_argument("--deadline", type=float, default=5.0)
    parser.add_argument("--priority", default="", help="nice value of the workers' sessions, on a machine in use")
    parser.add_argument("--keep", type=Path, help="folder for the results, which a further call continues")
    parser.add_argument("--name", default="compare_gate", help="of the files in benchmarks/results")
    parser.add_argument("--until", metavar="HH:MM", help="start no round after this time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        quiet = measure(options, folder, KINDS, options.rounds)
        with competitors(options.load if options.busy_rounds else 0):
            busy = measure(options, folder, BUSY, options.busy_rounds)
        return conclude(options, quiet, busy, folder)


if __name__ == "__main__":
    sys.exit(main())
