"""What the benchmarks beside the peers share: processes that wait for their turn, turns, ratios, tables.

Every peer is a process of its own that does nothing while another is measured, and all of them are started anew several
times, because where one finds its memory speeds it up or slows it down by some per cent for all its life. Ratios are
paired round by round. Children are told by lines on standard input and answer with a line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import time
import types
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Protocol

BENCH = Path(__file__).parents[1] / "tfgpu_doctor" / "bench"
RESULTS = Path(__file__).parent / "results"
PAUSE = 0.5  # seconds before each sample: OpenMP's threads spin for 0.2 s after their work and would slow the next peer


class Contender(Protocol):
    """A process that takes samples when asked."""

    about: dict[str, Any]  # "version", and how its result was verified

    def sample(self) -> float:
        """Seconds of one sample."""
        ...

    def close(self) -> None:
        """Kill the process."""
        ...


# ------------------------------------------------------------------- in the child processes


def load(name: str) -> Any:
    """Import a file of the benchmark by its path: the child's interpreter need not have tfgpu."""
    if "tfgpu_bench" not in sys.modules:
        package = types.ModuleType("tfgpu_bench")
        package.__path__ = [str(BENCH)]
        sys.modules["tfgpu_bench"] = package
    return importlib.import_module(f"tfgpu_bench.{name}")


def serve(start: Callable[[], tuple[Callable[[], float | None], dict[str, Any]]]) -> None:
    """Start a peer, say a line about it, then the seconds of a sample for each line that comes.

    What `start` gives takes a sample; where it returns a number that is the seconds, else the call is timed.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the libraries print
    run, about = start()
    print(json.dumps(about), file=answers, flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        seconds = run()
        print(json.dumps(seconds or time.perf_counter() - started), file=answers, flush=True)
    os._exit(0)  # what the libraries tear down is nobody's time


# ---------------------------------------------------------------------------- in the parent


class Peer:
    """A child process that computes by hand, or with another library."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        """Start it, and wait until it is warm and verified.

        Raises:
            RuntimeError: it cannot be measured; the message says why.
        """
        from tfgpu_doctor.probes.process import Child

        self.child = Child(list(command), stdin=True)
        line = self.child.read_line(600)
        if line is None:
            last = self.child.stderr.text().strip().splitlines()[-1:]
            raise RuntimeError(f"{name}: {' '.join(last) or 'the process ended'}")
        self.about: dict[str, Any] = json.loads(line)
        if not self.about["ok"]:
            raise RuntimeError(f"{name}: the result is wrong: {self.about}")

    def sample(self) -> float:
        """Seconds of one sample."""
        self.child.send("\n")
        return float(json.loads(self.child.read_line(600) or "nan"))

    def close(self) -> None:
        """Kill the process."""
        self.child.__exit__(None, None, None)


def take_turns(
    start: Callable[[], dict[str, Contender]], starts: int, rounds: int, seed: int
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of every contender for each round, and what each says of itself."""
    samples: dict[str, list[float]] = {}
    about: dict[str, Any] = {}
    shuffle = random.Random(seed)
    for number in range(starts):
        contenders = list(start().items())
        for _ in range(rounds):
            shuffle.shuffle(contenders)  # nobody always follows the same
            for name, one in contenders:
                time.sleep(PAUSE)
                samples.setdefault(name, []).append(one.sample())
        for name, one in contenders:
            about[name] = one.about
            one.close()
        print(f"start {number + 1} of {starts} done", file=sys.stderr)
    return {name: taken for name, taken in samples.items() if len(taken) == starts * rounds}, about


def compare(samples: dict[str, list[float]], ours: str, starts: int) -> dict[str, dict[str, float]]:
    """For each: median seconds, its spread, ours over it in speed (95 % interval), and how far starts lie apart."""
    from statistics import median

    from tfgpu_doctor.bench.statistics import iqr_spread, median_interval

    rows = {}
    for name, theirs in samples.items():
        ratios = [their / our for their, our in zip(theirs, samples[ours], strict=True)]
        low, high = median_interval(ratios)
        rounds = len(theirs) // starts
        middles = [median(theirs[first : first + rounds]) for first in range(0, len(theirs), rounds)]
        rows[name] = {
            "median_s": median(theirs),
            "iqr_over_median": iqr_spread(theirs),
            "between_starts": max(middles) / min(middles) - 1.0,
            "our_speed_over_theirs": median(ratios),
            "low": low,
            "high": high,
        }
    return rows


def table(
    rows: dict[str, dict[str, float]], about: dict[str, Any], ours: str, heading: str, speed: Callable[[float], str]
) -> str:
    """Markdown lines for benchmarks/README.md; `speed` writes the throughput for a number of seconds."""
    lines = [heading, "|---|---|---|---|---|"]
    for name, row in rows.items():
        ratio = f"{row['our_speed_over_theirs']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        apart = f"{100 * row['between_starts']:.1f} %"
        cells = (name, about[name]["version"], speed(row["median_s"]), "1" if name == ours else ratio, apart)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def machine() -> str:
    """The processor, for the head of a result."""
    from tfgpu_doctor.probes import host

    facts = host.examine()
    return f"{getattr(facts.cpu_model, 'value', 'unknown CPU')}, {getattr(facts.cpus, 'value', '?')} CPUs"


def write(name: str, head: str, page: str, result: dict[str, Any]) -> None:
    """Keep the raw samples and the table in results/, and print the table."""
    RESULTS.mkdir(exist_ok=True)
    kept = {"date": str(date.today()), "machine": machine(), "load_average": os.getloadavg()[0], **result}
    (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    (RESULTS / f"{name}.md").write_text(f"{head}\n\n{page}", encoding="utf-8")
    print(f"{head}\n\n{page}")
