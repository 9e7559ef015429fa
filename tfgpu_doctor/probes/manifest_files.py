"""Files or texts that `tfgpu check` is given: chosen in folders, and read."""

from __future__ import annotations

import codecs
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tfgpu_doctor.facts.reading import STDIN, files_below, in_mib, read_head, read_whole, shown, why
from tfgpu_doctor.manifests import Environment, IncludeError, Kind, ManifestError, Place
from tfgpu_doctor.manifests.reading import is_list_of_packages, is_not_read, is_yaml, joined, kind_of, read

LARGEST = 5_000_000  # bytes; files written by hand are a thousand times smaller
MOST_CHOSEN = 200
_OTHER_KINDS = (".py", ".md", ".rst", ".sh", ".dockerignore", ".js", ".ts", ".go", ".html")  # dockerfile.py
HEAD = 20_000  # bytes of a file of no certain name
_YAML_OF_OURS = re.compile(rb"(?m)^(?:dependencies|services|apiVersion|jobs)\s*:")
# of Slurm, PBS and LSF, that ask for a GPU or load a CUDA: "#SBATCH --gres=gpu:2", "module load cuda/11.8"
_SCRIPT = (".sh", ".sbatch", ".slurm", ".pbs", ".job")
_BATCH_JOB = re.compile(rb"(?mi)^#(?:SBATCH|PBS|BSUB)\b.*\bgpu|^\s*(?:module|ml)\s(?:.*\s)?(?:cuda|cudnn)")
_SHOWN = 8
_MARK = "\ufeff"
_BROKEN = re.compile(r"invalid (?:YAML|TOML|JSON)|is not (?:valid|UTF-8)|cannot read|no FROM instruction")
_OF_CONDA = ("environment.yml", "environment.yaml")  # whatever is in it
_OF_A_PROJECT = (".git", "pyproject.toml")


def from_texts(contents: Mapping[str, str], kind: Kind | None, stage: str | None) -> tuple[Environment, ...]:
    """Read contents by name; one may include another. Raises ManifestError: a text is no manifest."""

    def beside(path: str) -> Callable[[str], str | None]:
        return lambda name: contents.get(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)))

    found = (read(path, text, kind, beside(path), stage=stage) for path, text in contents.items())
    return tuple(joined(one for several in found for one in several))


@dataclass
class ManifestFiles:
    """The files named on the command line, with those that they include."""

    named: tuple[str, ...]  # or folders
    kind: Kind | None = None
    stage: str | None = None  # of Dockerfiles
    note: Callable[[str], object] = lambda _: None  # called with what was left out

    def __post_init__(self) -> None:
        """Name files from here: CI systems know no other paths, and the folders above are nobody's business."""
        self.named = tuple(map(_from_here, self.named))
        self._files = list[str]()
        self._found = set[str]()  # those of them that nobody has named
        for path in self.named:
            found = _in_folder(path, self.note) if path != STDIN and os.path.isdir(path) else None
            new = [one for one in found or () if one not in self._files] if found is not None else [path]
            self._files += new
            self._found.update(new if found is not None else ())

    def environments(self) -> tuple[Environment, ...]:
        """Read what the files describe; of those that nobody has named, one that cannot be read is left out.

        Raises ManifestError: a text is no manifest, or a file cannot be read.
        """
        found: list[Environment] = []
        for path in dict.fromkeys(self._files):
            try:
                found += self._environments(path)
            except ManifestError as error:
                if path not in self._found:
                    raise
                self._files.remove(path)
                self.note(f"left out: {error}")
                if _BROKEN.search(str(error)):  # it is one of these files, and the report says so
                    place, kind = Place(shown(path), 1), kind_of(path) or "workflow"
                    found.append(Environment(kind, place.path, place, not_understood=(str(error),), unread=True))
        return tuple(joined(found))

    def _environments(self, path: str) -> tuple[Environment, ...]:
        try:
            text = _decoded(read_whole(path, LARGEST), self.kind or kind_of(path))
        except OSError as error:
            raise ManifestError(f"cannot read {shown(path)}: {why(error)}") from error
        except UnicodeDecodeError as error:
            raise ManifestError(f"{shown(path)} is not UTF-8: {error.reason} at byte {error.start}") from error
        return read(
            shown(path),
            text,
            None if path in self._found else self.kind,
            self._included_by(path),
            quote=not _leads_out(path),
            stage=self.stage,
            contexts=tuple(self._contexts(path)) if path != STDIN else (),
        )

    def _contexts(self, path: str) -> Iterator[str]:
        """Folders above a file that it can be built from, relative to its own: the nearest of a project, those named.

        None lies above all that is named on the command line.
        """
        own = os.path.realpath(os.path.dirname(path))
        named = {os.path.realpath(one if os.path.isdir(one) else os.path.dirname(one)) for one in self.named}
        above = [one for one in named if one != own and _is_below(one, own)]
        for folder in map(str, PurePath(own).parents):
            inside = any(_is_below(one, folder) for one in above)
            if inside and (folder in above or any(os.path.exists(os.path.join(folder, one)) for one in _OF_A_PROJECT)):
                yield os.path.relpath(folder, own).replace(os.sep, "/")

    def _included_by(self, path: str) -> Callable[[str], str]:
        """A reader of the files that `path` includes, relative to it.

        It reads what lies below the folder of `path`, and what is named on the command line: the file can come from
        somebody else, and its includes can be any file of the machine. Links out of the folder count as outside.
        """
        folder = "" if path == STDIN else os.path.dirname(path)
        also = {os.path.realpath(one) for one in (*self.named, *self._files)}
        roots = (os.path.realpath(folder), *(one for one in also if os.path.isdir(one)))
        texts: dict[str, str] = {}

        def include(name: str) -> str:
            file = os.path.realpath(os.path.join(folder, name))
            if file not in also and not any(_is_below(one, file) for one in roots):
                raise IncludeError(
                    f"lies outside the folder of {shown(path)} and is not read; if it belongs to the same project, "
                    "name it on the command line, too"
                )
            if file not in texts:
                left = LARGEST - sum(map(len, texts.values()))
                try:
                    data = read_head(file, left + 1)
                    if len(data) > left:
                        raise IncludeError(f"is not read: together, included files are larger than {in_mib(LARGEST)}")
                    texts[file] = _decoded(data, "requirements")
                except (OSError, UnicodeDecodeError) as error:
                    raise IncludeError from error
            return texts[file]

        return include


def _from_here(path: str) -> str:
    """A path relative to the current directory, where it is below it."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        return path
    return os.path.relpath(path, here) if os.path.isabs(path) and _is_below(here, path) else path


def _decoded(data: bytes, kind: Kind | None) -> str:
    """Return a text without its mark, also in UTF-16, which pip takes, too. Raises UnicodeDecodeError."""
    wide = kind == "requirements" and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "utf-8").removeprefix(_MARK)


def _leads_out(path: str) -> bool:
    """Whether a file is a link to somewhere else: who made it is not known, and nothing of it is repeated."""
    return path != STDIN and not _is_below(os.path.realpath(os.path.dirname(path)), os.path.realpath(path))


def _is_below(folder: str, file: str) -> bool:
    try:
        return os.path.commonpath([folder, file]) == folder
    except ValueError:  # another drive of Windows
        return False


def _in_folder(path: str, note: Callable[[str], object]) -> list[str]:
    """The files below a folder that describe an environment; the others are named. Raises ManifestError."""
    try:
        listing = files_below(path)
    except (OSError, ValueError) as error:
        raise ManifestError(f"cannot list {path}: {error}") from error
    ours = [one for one in listing.files if _describes_an_environment(one)]
    if not ours:
        note(f"no file below {path} is of a kind that tfgpu check reads")
    others = (one for one in listing.files if is_not_read(one) or _is_batch_job(one))
    left_out = (*listing.left_out, *others, *ours[MOST_CHOSEN:])
    if names := list(dict.fromkeys(map(os.path.basename, left_out))):
        more = f" and {len(names) - _SHOWN} other names" if len(names) > _SHOWN else ""
        note(f"left out below {path}: {', '.join(names[:_SHOWN])}{more}")
    return ours[:MOST_CHOSEN]


def _is_batch_job(path: str) -> bool:
    """Whether a script asks a batch system for GPUs, or loads a CUDA: what it needs is not judged."""
    if not path.lower().endswith(_SCRIPT):
        return False
    try:
        return _BATCH_JOB.search(read_head(path, HEAD)) is not None
    except OSError:
        return False


def _describes_an_environment(path: str) -> bool:
    """By its name; of a text or a YAML file, its content decides."""
    if kind_of(path) is not None:
        return not path.lower().endswith(_OTHER_KINDS)
    if not is_yaml(path) and not path.lower().endswith((".txt", ".in")):
        return False
    try:
        head = read_head(path, HEAD)
    except OSError:
        return False
    if os.path.basename(path).lower() in _OF_CONDA:
        return b"\0" not in head
    if is_yaml(path):
        return _YAML_OF_OURS.search(head) is not None and b"\0" not in head
    text = head.decode("utf-8", "replace")
    return is_list_of_packages(path, text if len(head) < HEAD else text.rpartition("\n")[0])
