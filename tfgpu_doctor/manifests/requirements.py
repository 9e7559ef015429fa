"""requirements.txt: one requirement a line, with pip's comments, continuations, options and included files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import ManifestError, Place, Requirement

_COMMENT = re.compile(r"(?:^|\s)#.*$")
_INCLUDE = re.compile(r"^(?:-r\s*|--requirement(?:\s+|=))(?P<path>\S.*)$")
_TRAILING_OPTION = re.compile(r"\s--?[a-z].*$")
_MOST_FILES = 100
_NOT_BY_NAME = re.compile(r"^(?:-|\.|/|[a-z+]+://|[a-z+]+\+)|\.(?:whl|zip|tar\.gz)$")
"""Options, local paths and addresses: nothing whose version could be held against the matrix."""


def parse(text: str, path: str, read: Callable[[str], str]) -> tuple[Requirement, ...]:
    """What the file asks for, with the files that it includes by ``-r``, in their order.

    ``read`` gives the text of an included file, whose path is relative to the file that names it; its errors pass
    through. A file that is included again, by a cycle too, is read once.
    Constraints (``-c``) are left out: they install nothing.

    Raises ManifestError for a line that is neither a requirement nor an option, and for more than a hundred files.
    """
    return tuple(_parse(text, path, read, {posixpath.normpath(path)}))


def _parse(text: str, path: str, read: Callable[[str], str], seen: set[str]) -> Iterator[Requirement]:
    for number, line in _logical_lines(text):
        if include := _INCLUDE.match(line):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), include["path"].strip("\"'")))
            if target not in seen:
                seen.add(target)
                if len(seen) > _MOST_FILES:
                    raise ManifestError(f"{Place(path, number)}: more than {_MOST_FILES} files include each other")
                yield from _parse(read(target), target, read, seen)
        elif not _NOT_BY_NAME.search(line):
            yield _requirement(line, Place(path, number))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continuations joined, each with the number of its first line; empty ones left out."""
    start, parts = 1, list[str]()
    lines = text.removeprefix("\ufeff").splitlines()
    for number, line in enumerate(lines, 1):
        if not parts:
            start = number
        comment = line.lstrip().startswith("#")
        continues = line.endswith("\\") and not comment and number < len(lines)
        parts.append(line.removesuffix("\\") if not comment else " #")
        if continues:
            continue
        joined = _COMMENT.sub("", "".join(parts)).strip()
        parts = []
        if joined:
            yield start, joined


def _requirement(line: str, place: Place) -> Requirement:
    written = _TRAILING_OPTION.sub("", line).strip()
    try:
        parsed = Parsed(written)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise ManifestError(f"{place}: this is no requirement: {reason}") from error
    return Requirement(
        place=place,
        name=canonicalize_name(parsed.name),
        specifier=str(parsed.specifier),
        extras=tuple(sorted(parsed.extras)),
        marker=str(parsed.marker) if parsed.marker else None,
        written=written,
    )
