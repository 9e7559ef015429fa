"""Looks for texts and reports that tfgpu cannot bear, for as long as you let it.

    python -m tests.fuzz.fuzz [--minutes 60] [--seed 1] [--reports] [--keep FOLDER]

Each failure is written to the folder (default: fuzz-failures) with the error in a file beside it, and made smaller
first. The seed of each try follows from --seed, so that a run can be repeated.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.fuzz import mutations, reports, way


def main() -> int:
    """Fuzz until the time is up; the exit code is 1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reports", action="store_true", help="saved reports in JSON instead of pasted texts")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    tries, failures = 0, dict[str, int]()
    while time.monotonic() < end:
        chance = Random(f"{options.seed}-{tries}")
        tries += 1
        data = reports.mutate(chance) if options.reports else text(chance)
        attempt: Callable[[bytes], object] = reports.survives if options.reports else way.walk
        if place := fails(attempt, data):
            failures[place] = failures.get(place, 0) + 1
            if failures[place] == 1:
                _keep(options.keep, tries, _smaller(attempt, data, place), place)
        if tries % 200 == 0:
            print(f"{tries} tries, {sum(failures.values())} failures of {len(failures)} kinds", file=sys.stderr)
    for place, count in failures.items():
        print(f"{count:6} {place}")
    print(f"{tries} tries, {len(failures)} kinds of failure")
    return 1 if failures else 0


def text(chance: Random) -> bytes:
    """A real text after one to five mutations."""
    steps = [(chance.randrange(1000), chance.randrange(1 << 30)) for _ in range(chance.randint(1, 5))]
    return mutations.mutate(chance.choice(mutations.corpus()), steps)


def fails(attempt: Callable[[bytes], object], data: bytes) -> str:
    """Where it fails, in one line; empty when it does not."""
    try:
        attempt(data)
    except Exception as error:  # whatever it is, it is what we look for
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno} {str(error)[:100]!r}"
    return ""


def _smaller(attempt: Callable[[bytes], object], data: bytes, place: str) -> bytes:
    """Leave out ever smaller pieces as long as it fails in the same place."""
    where = place.split(" '")[0]
    size = len(data) // 2
    while size:
        start = 0
        while start < len(data):
            less = data[:start] + data[start + size :]
            if fails(attempt, less).startswith(where):
                data = less
            else:
                start += size
        size //= 2
        if len(data) > 5_000 and size < 64:
            break
    return data


def _keep(folder: Path, number: int, data: bytes, place: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number}.txt").write_bytes(data)
    (folder / f"{number}.why").write_text(place + "\n")
    print(f"{place}\n    {data[:200]!r}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
