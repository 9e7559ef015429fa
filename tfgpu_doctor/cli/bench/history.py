"""`--history DIR`: a folder that keeps every result of tfgpu bench, and the last two of them for tfgpu compare."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.options import option
from tfgpu_doctor.files.listing import files_below
from tfgpu_doctor.files.reading import shown, why
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.bench.results import BenchResult

# the time, UTC, as a name that sorts; the workload; how many results of that second came before
_NAME = re.compile(r"(?P<time>[0-9]{8}T[0-9]{6}Z)-(?P<workload>[a-z]+)(?:-(?P<again>[0-9]{1,3}))?\.json")

history_option = option(
    "--history",
    metavar="DIR",
    envvar="TFGPU_HISTORY",
    type=click.Path(file_okay=False),
    help="Folder that keeps every result of tfgpu bench; tfgpu compare without files takes the last two.  "
    "[default: TFGPU_HISTORY, if set]",
)


def place_for(folder: str, result: BenchResult) -> Path:
    """The file in which a result is kept."""
    time = re.sub(r"[-:]", "", result.created)
    names = (f"{time}-{result.workload}{f'-{number}' if number else ''}.json" for number in range(1000))
    return next(path for path in (Path(folder) / name for name in names) if not path.exists())


def last_two(folder: str) -> tuple[str, str]:
    """The newest result, and before it the one of the same workload that is the next older.

    Raises click.UsageError: there are no two.
    """
    try:
        listing = files_below(folder)
    except OSError as error:
        raise click.UsageError(f"--history {shown(folder)}: {why(error)}") from error
    for path in listing.left_out:
        if _NAME.fullmatch(os.path.basename(path)):
            say(f"tfgpu: left out: {path} cannot be read: it is a link in a circle, or of a folder that is closed")
    found = [(match, path) for path in listing.files if (match := _NAME.fullmatch(os.path.basename(path)))]
    found.sort(key=lambda one: (one[0]["time"], int(one[0]["again"] or 0)), reverse=True)
    newest: list[tuple[str, str]] = []  # (workload, file)
    for match, path in found:
        if (not newest or match["workload"] == newest[0][0]) and _is_result(path):
            newest.append((match["workload"], path))
        if len(newest) == 2:
            return newest[1][1], newest[0][1]
    kept = f"only one result of {newest[0][0]}" if newest else "no result"
    raise click.UsageError(f"--history {shown(folder)} has {kept}; tfgpu bench --history {shown(folder)} adds one")


def _is_result(path: str) -> bool:
    """Whether the file is a result; says so where it is none."""
    from tfgpu_doctor.cli.saved import load_bench

    try:
        load_bench(path, "tfgpu compare")
    except click.UsageError as error:
        say(f"tfgpu: left out: {error.format_message()}")
        return False
    return True
