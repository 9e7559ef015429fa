"""Gives every reader input that something happened to, for as long as you let it.

    python -m tests.fuzz.fuzz [--minutes 60] [--seed 1] [--keep FOLDER] [TARGET ...]

An input that fails, or takes longer than its target allows, is made smaller and written to tests/fuzz/seeds/, which the
tests of every day replay. What is tried follows from --seed, so that a run can be repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.targets import Target, targets
from tests.guard import StillBusyError, guarded

SEEDS = Path(__file__).parent / "seeds"
PATIENCE = 10  # times what a target may take, after which an input is stopped


@dataclass
class Tally:
    """What a target went through."""

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0  # seconds of processor time for one input
    failures: dict[str, bytes] = field(default_factory=dict)  # by place, the smallest input


def attempt(target: Target, data: bytes) -> tuple[str, float, bool]:
    """Where it fails, in one line, or nothing; the seconds it took; whether it was refused as documented."""
    begin, refused, place = time.thread_time(), False, ""
    try:
        with guarded(PATIENCE * target.seconds, target.name), warnings.catch_warnings():
            warnings.simplefilter("error")
            target.call(data)
    except target.refuses as error:
        refused, place = True, _unclear(str(error), len(data))
    except (Exception, RecursionError) as error:  # whatever it is, it is what we look for
        last = [one for one in traceback.extract_tb(error.__traceback__) if "guard.py" not in one.filename][-1]
        at = "" if isinstance(error, StillBusyError) else f" in {Path(last.filename).name}:{last.lineno}"
        place = f"{type(error).__name__}{at} {str(error)[:100]!r}"
    return place, time.thread_time() - begin, refused


def _unclear(message: str, given: int) -> str:
    """A refusal quotes the input once at most."""
    return "" if len(message) < 3 * given + 2000 else "a refusal much longer than the input"


def fails(target: Target, data: bytes) -> str:
    """The same; slow counts, too, where it is slow again when it is measured again, since others use this machine."""
    place, seconds, _ = attempt(target, data)
    if not place and seconds > target.seconds and min(attempt(target, data)[1] for _ in range(2)) > target.seconds:
        return f"slow: above {target.seconds} s"
    return place


def campaign(
    chosen: Iterable[Target], seed: str, share: float = 1.0, until: float | None = None
) -> Iterator[tuple[str, Tally]]:
    """Go through all inputs of each target, or a share of them; until a monotonic time."""
    for target in chosen:
        tally = Tally()
        for number in range(max(int(target.inputs * share), 1)):
            if until is not None and time.monotonic() > until:
                break
            data = target.chance(f"{seed}-{number}")
            place, seconds, refused = attempt(target, data)
            tally.inputs += 1
            tally.refused += refused
            if place or seconds > target.seconds:
                place = fails(target, data)
            else:
                tally.slowest = max(tally.slowest, seconds)
            kind = re.sub(r" '.*", "", place)
            if place and kind not in tally.failures and len(tally.failures) < 10:
                tally.failures[kind] = smaller(target, data, kind)
        yield target.name, tally


def smaller(target: Target, data: bytes, kind: str, seconds: float = 20.0) -> bytes:
    """Leave out ever smaller pieces as long as it fails in the same place, for some seconds."""
    end, size = time.monotonic() + seconds, len(data) // 2
    while size:
        start = 0
        while start < len(data) and time.monotonic() < end:
            less = data[:start] + data[start + size :]
            if fails(target, less).startswith(kind):
                data = less
            else:
                start += size
        size //= 2
    return data


def keep(name: str, tally: Tally, folder: Path = SEEDS) -> list[str]:
    """Write what failed where the tests of every day find it; a line for each."""
    told = []
    for place, data in tally.failures.items():
        file = folder / re.sub(r"\W+", "-", name).strip("-") / hashlib.sha256(data).hexdigest()[:12]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        told.append(f"{name}: {place}: {data[:100]!r} ({file})")
    return told


def kept() -> list[tuple[str, Path]]:
    """The inputs that failed once, with the name of their target."""
    folders = {re.sub(r"\W+", "-", name).strip("-"): name for name in targets()}
    return [(folders[file.parent.name], file) for file in sorted(SEEDS.glob("*/*")) if file.parent.name in folders]


def main() -> int:
    """Fuzz until the time is up; the exit code is 1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.05, help="of the inputs of each target, in a round")
    parser.add_argument("--keep", type=Path, default=SEEDS)
    parser.add_argument("target", nargs="*", help="names of targets, or their beginnings; all without")
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    chosen = [one for name, one in targets().items() if not options.target or name.startswith(tuple(options.target))]
    inputs, failures, number = 0, 0, 0
    while time.monotonic() < end:
        for name, tally in campaign(chosen, f"{options.seed}-{number}", options.share, end):
            inputs += tally.inputs
            failures += len(tally.failures)
            about = f"{tally.inputs:7} inputs, {tally.refused:6} refused, slowest {1000 * tally.slowest:6.0f} ms"
            print(f"{name:55} {about}", *keep(name, tally, options.keep), sep="\n    ", flush=True)
        number += 1
    print(f"{inputs} inputs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
