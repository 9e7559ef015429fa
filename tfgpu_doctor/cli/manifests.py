"""The manifests that `tfgpu check` is given: read, read again with edits, and written."""

from __future__ import annotations

import codecs
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import click

from tfgpu_doctor.cli import reading
from tfgpu_doctor.cli.choosing import chosen
from tfgpu_doctor.files.reading import STDIN, in_mib, read_head, shown
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.manifests import Environment, Kind

LARGEST = 5_000_000  # bytes; files written by hand are a thousand times smaller
_MARK = "\ufeff"
_OF_A_PROJECT = (".git", "pyproject.toml")


class _Source(NamedTuple):
    """A file that was read: where it lies, and its text."""

    file: str
    text: str
    encoding: str


@dataclass
class ManifestFiles:
    """The files named on the command line, with those that they include."""

    named: tuple[str, ...]  # or folders
    kind: Kind | None = None
    stage: str | None = None  # of Dockerfiles
    _unread: set[str] = field(default_factory=set)  # files that nobody has named, and that are none of ours
    _read: dict[str, _Source] = field(default_factory=dict)  # by the path in messages

    def __post_init__(self) -> None:
        """Name files from here: CI systems know no other paths, and the folders above are nobody's business."""
        self.named = tuple(map(_from_here, self.named))
        self._chosen = chosen(self.named)

    def environments(self, edited: Mapping[str, str] | None = None) -> tuple[Environment, ...]:
        """What the files describe, or would describe with other texts in place of some.

        Raises ManifestError: a text is no manifest; click.UsageError: a file cannot be read.
        """
        from tfgpu_doctor.manifests.reading import joined

        texts = {_key(path): text for path, text in (edited or {}).items()}
        found = (one for path in self._chosen.files for one in self._of_file(path, texts))
        return tuple(joined(found))

    def text(self, path: str) -> str | None:
        """The text of a file that was read, by its path in messages; none of one that must not be changed."""
        source = self._read.get(_key(path))
        return None if source is None or source.file == STDIN or _leads_out(source.file) else source.text

    def write(self, path: str, text: str) -> None:
        """Replace a file that was read. Raises click.ClickException: it cannot be written."""
        from pathlib import Path

        from tfgpu_doctor.cli.output import write_file

        source = self._read[_key(path)]
        write_file(Path(source.file), text.encode(source.encoding))

    def _of_file(self, path: str, edited: Mapping[str, str]) -> Iterator[Environment]:
        """Its environments; of files that nobody has named, one that cannot be read is left out."""
        from tfgpu_doctor.manifests import ManifestError

        if path not in self._chosen.found:
            yield from self._environments(path, edited)
        elif path not in self._unread:
            try:
                yield from self._environments(path, edited)
            except (click.UsageError, ManifestError) as error:
                self._unread.add(path)
                say(f"tfgpu: left out: {error.message if isinstance(error, click.UsageError) else error}")

    def _environments(self, path: str, edited: Mapping[str, str]) -> tuple[Environment, ...]:
        from tfgpu_doctor.manifests.reading import kind_of, read

        key = _key(shown(path))
        if key not in self._read:
            data = reading.read(path, LARGEST)
            try:
                self._read[key] = _source(path, data, self.kind or kind_of(path))
            except UnicodeDecodeError as error:
                raise click.UsageError(f"{shown(path)} is not UTF-8: {error.reason} at byte {error.start}") from error
        text = edited.get(key, self._read[key].text)
        include = self._included_by(path, edited)
        kind = None if path in self._chosen.found else self.kind
        quote = not _leads_out(path)
        contexts = tuple(self._contexts(path))
        return read(
            shown(path), text.removeprefix(_MARK), kind, include, quote=quote, stage=self.stage, contexts=contexts
        )

    def _contexts(self, path: str) -> Iterator[str]:
        """Folders above a file that it can be built from, relative to its own: the nearest of a project, those named.

        None lies above all that is named on the command line.
        """
        if path == STDIN:
            return
        own = os.path.realpath(os.path.dirname(path))
        named = [os.path.realpath(one if os.path.isdir(one) else os.path.dirname(one)) for one in self.named]
        above = [one for one in dict.fromkeys(named) if one != own and _is_below(one, own)]
        for folder in map(str, PurePath(own).parents):
            inside = any(_is_below(one, folder) for one in above)
            if inside and (folder in above or any(os.path.exists(os.path.join(folder, one)) for one in _OF_A_PROJECT)):
                yield os.path.relpath(folder, own).replace(os.sep, "/")

    def _included_by(self, path: str, edited: Mapping[str, str]) -> Callable[[str], str]:
        """A reader of the files that `path` includes, relative to it.

        It reads what lies below the folder of `path`, and what is named on the command line: the file can come from
        somebody else, and its includes can be any file of the machine. Links out of the folder count as outside.
        """
        from tfgpu_doctor.manifests import IncludeError

        folder = "" if path == STDIN else os.path.dirname(path)
        root = os.path.realpath(folder)
        also = {os.path.realpath(one) for one in (*self.named, *self._chosen.files)}
        roots = (root, *(one for one in also if os.path.isdir(one)))
        sources: dict[str, _Source] = {}

        def include(name: str) -> str:
            file = os.path.realpath(os.path.join(folder, name))
            if file not in also and not any(_is_below(one, file) for one in roots):
                raise IncludeError(
                    f"lies outside the folder of {shown(path)} and is not read; if it belongs to the same project, "
                    "name it on the command line, too"
                )
            if file not in sources:
                left = LARGEST - sum(len(one.text) for one in sources.values())
                try:
                    data = read_head(file, left + 1)
                    if len(data) > left:
                        raise IncludeError(f"is not read: together, included files are larger than {in_mib(LARGEST)}")
                    sources[file] = _source(file, data, "requirements")
                except (OSError, UnicodeDecodeError) as error:
                    raise IncludeError from error
            key = _key(os.path.join(folder, name))
            self._read.setdefault(key, sources[file])
            return edited.get(key, sources[file].text).removeprefix(_MARK)

        return include


def _from_here(path: str) -> str:
    """A path relative to the current directory, where it is below it."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        return path
    return os.path.relpath(path, here) if os.path.isabs(path) and _is_below(here, path) else path


def _key(path: str) -> str:
    """A path as manifests write it, in the form that is the same however it was reached."""
    return posixpath.normpath(path.replace(os.sep, "/"))


def _source(file: str, data: bytes, kind: Kind | None) -> _Source:
    """A file with its mark; pip also takes the UTF-16 that PowerShell's > writes. Raises UnicodeDecodeError."""
    wide = kind == "requirements" and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if wide else "utf-8"
    return _Source(file, data.decode(encoding), encoding)


def _leads_out(path: str) -> bool:
    """Whether a file is a link to somewhere else: who made it is not known, and nothing of it is repeated."""
    return path != STDIN and not _is_below(os.path.realpath(os.path.dirname(path)), os.path.realpath(path))


def _is_below(folder: str, file: str) -> bool:
    try:
        return os.path.commonpath([folder, file]) == folder
    except ValueError:  # another drive of Windows
        return False
