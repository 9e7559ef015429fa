"""Which files `tfgpu check` reads below a folder that is named."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import click

from tfgpu_doctor.files.reading import files_below, read_head
from tfgpu_doctor.render.streams import say

MOST_CHOSEN = 200
_OTHER_KINDS = (".py", ".md", ".rst", ".sh", ".dockerignore", ".js", ".ts", ".go", ".html")  # dockerfile.py
HEAD = 20_000  # bytes of a file of no certain name
_YAML_OF_OURS = re.compile(rb"(?m)^(?:dependencies|services|apiVersion|jobs)\s*:")
_SHOWN = 8


class Chosen(NamedTuple):
    """The files to read."""

    files: tuple[str, ...]
    found: frozenset[str]  # those of them that nobody has named


def chosen(named: tuple[str, ...]) -> Chosen:
    """Replace each folder by the files in it that describe an environment. Raises click.UsageError."""
    files: list[str] = []
    found: set[str] = set()
    for path in named:
        if path == "-" or not os.path.isdir(path):
            files.append(path)
            continue
        from tfgpu_doctor.manifests.reading import is_not_read

        try:
            listing = files_below(path)
        except (OSError, ValueError) as error:
            raise click.UsageError(f"cannot list {path}: {error}") from error
        ours = [one for one in listing.files if _describes_an_environment(one)]
        listing.left_out += filter(is_not_read, listing.files)
        if len(ours) > MOST_CHOSEN:
            listing.left_out += ours[MOST_CHOSEN:]
        new = [one for one in ours[:MOST_CHOSEN] if one not in files]
        files += new
        found.update(new)
        _tell(path, ours[:MOST_CHOSEN], listing.left_out)
    return Chosen(tuple(files), frozenset(found))


def _tell(folder: str, ours: list[str], left_out: list[str]) -> None:
    if not ours:
        say(f"tfgpu: no file below {folder} is of a kind that tfgpu check reads")
    names = list(dict.fromkeys(os.path.basename(one) for one in left_out))
    if names:
        more = f" and {len(names) - _SHOWN} other names" if len(names) > _SHOWN else ""
        say(f"tfgpu: left out below {folder}: {', '.join(names[:_SHOWN])}{more}")


def _describes_an_environment(path: str) -> bool:
    """By its name; of a text or a YAML file, its content decides."""
    from tfgpu_doctor.manifests.reading import is_list_of_packages, is_yaml, kind_of

    if kind_of(path) is not None:
        return not path.lower().endswith(_OTHER_KINDS)
    if not is_yaml(path) and not path.lower().endswith((".txt", ".in")):
        return False
    try:
        head = read_head(path, HEAD)
    except OSError:
        return False
    if is_yaml(path):
        return _YAML_OF_OURS.search(head) is not None and b"\0" not in head
    text = head.decode("utf-8", "replace")
    return is_list_of_packages(path, text if len(head) < HEAD else text.rpartition("\n")[0])
