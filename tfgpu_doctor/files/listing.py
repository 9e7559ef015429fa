"""The files below a folder that a user names: so many, so deep, and without what programs put there."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from itertools import islice

DEEPEST = 6  # folders below the named one
MOST_FOLDERS = 2_000
MOST_FILES = 20_000  # that are looked at by name
# what is not of the project: environments, packages, caches, results of builds, version control
_FOREIGN = frozenset(
    (
        *(".git", ".hg", ".svn", ".venv", "venv", "env", ".env", "virtualenv", "site-packages", "node_modules", ".tox"),
        *(".nox", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", "build", "dist", ".eggs"),
        *("target", "bazel-bin", "bazel-out", "third_party", "vendor", ".idea", ".vscode", ".ipynb_checkpoints"),
        *(".pixi", ".conda", ".direnv", ".terraform", "htmlcov"),
    )
)
_MARKS = ("pyvenv.cfg", "conda-meta", "CACHEDIR.TAG")  # an environment or a cache by any name


@dataclass
class Listing:
    """What lies below a folder."""

    files: list[str] = field(default_factory=list)  # with the folder in front, sorted
    left_out: list[str] = field(default_factory=list)  # folders and links, and why the rest of them is missing


def files_below(folder: str) -> Listing:
    """List the files below a folder; links to folders are not followed.

    Raises OSError: the folder itself cannot be listed.
    """
    return many_below(folder, MOST_FILES, MOST_FOLDERS)


def many_below(folder: str, most: int, folders: int) -> Listing:
    """List at most so many files, in so many folders. Raises OSError: the folder itself cannot be listed."""
    listing, open_, seen = Listing(), deque([(folder, 0)]), 0
    while open_:
        here, depth = open_.popleft()
        seen += 1
        if seen > folders or len(listing.files) > most:
            listing.left_out.append(f"{here} and what else follows: more than {folders} folders")
            break
        try:
            with os.scandir(here) as entries:
                found = sorted(islice(entries, most), key=lambda entry: entry.name)
        except OSError:
            if depth == 0:
                raise
            listing.left_out.append(here)
            continue
        if depth and any(entry.name in _MARKS for entry in found):
            listing.left_out.append(here)
            continue
        for entry in found:
            path = os.path.normpath(entry.path)
            if not entry.is_dir(follow_symlinks=False):
                _add_file(listing, entry, path)
            elif entry.name in _FOREIGN or entry.name.endswith(".egg-info") or depth >= DEEPEST:
                listing.left_out.append(path)
            else:
                open_.append((path, depth + 1))
    return listing


def _add_file(listing: Listing, entry: os.DirEntry[str], path: str) -> None:
    """Add a file, or a link to one; a link that leads in a circle, or to where nobody may look, is left out."""
    try:
        if entry.is_file():
            listing.files.append(path)
    except OSError:
        listing.left_out.append(path)
