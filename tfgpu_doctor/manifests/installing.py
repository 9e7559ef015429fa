"""What the commands of a Dockerfile install, with the files that they name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tfgpu_doctor.manifests import Environment, IncludeError, ManifestError, Requirement, quoted
from tfgpu_doctor.manifests.pip import Include, Lines
from tfgpu_doctor.manifests.shell import File, Installed

MOST_SOURCES = 200  # of COPY; MOST_TRIED of them are looked for
MOST_TRIED = 20
MOST_FILES = 100  # that the commands of a Dockerfile install from


@dataclass
class Sources:
    """What COPY and ADD bring from the build context."""

    names: list[str] = field(default_factory=list)
    contexts: tuple[str, ...] = ("",)  # folders that can be the build context, relative to that of the Dockerfile
    hint: str = ""  # what to do about a file that is not found

    def copied(self, value: str) -> None:
        """Take the arguments of one; what comes from another stage or from an address is not in the context."""
        words = [word.strip("[]\",'") for word in value.split()]
        if any(word.startswith("--from") for word in words):
            return
        given = [word for word in words[:-1] if word and not word.startswith("--") and "://" not in word]
        self.names = [*self.names, *given][:MOST_SOURCES]

    def take(self, other: Sources) -> None:
        """What another stage copied."""
        self.names = [*self.names, *other.names][:MOST_SOURCES]

    def candidates(self, names: Iterable[str]) -> Iterator[str]:
        """Where files of the container may lie, in the order in which to look for them."""
        several = tuple(names)
        return (posixpath.join(one, file) for one in self.contexts for name in several for file in self._in(name))

    def found_at(self, file: str) -> None:
        """Take the context in which a file was found for that of the others."""
        depth = file.count("../")
        self.contexts = tuple(sorted(self.contexts, key=lambda one: one.count("..") != depth))

    def _in(self, name: str) -> list[str]:
        """Where a file may lie in the build context; never outside of it."""
        file = posixpath.basename(name)
        parts = [part for part in name.split("/") if part not in ("", ".")][-MOST_TRIED:]
        tails = ["/".join(parts[index:]) for index in range(len(parts))]
        tried = [one for one in self.names if posixpath.basename(one) == file]
        tried += tails
        tried += [posixpath.join(one, tail) for one in self.names for tail in (file, *tails)]
        inside = (posixpath.normpath(one.lstrip("/")) for one in tried)
        return list(dict.fromkeys(one for one in inside if not one.startswith("..")))[:MOST_TRIED]


def with_files(
    path: str, installed: Installed, sources: Sources, include: Include
) -> tuple[list[Requirement], list[str]]:
    """The requirements, with those of the files that are installed, where these can be read; and what cannot."""
    lines = Lines(path, include)
    lines.not_understood += installed.not_understood
    for one in installed.requirements:
        lines.add(one)
    if len(installed.files) > MOST_FILES:
        place = installed.files[MOST_FILES].place
        lines.not_understood.append(f"{place}: more than {MOST_FILES} files to install from; the others are not read")
    for file in installed.files[:MOST_FILES]:
        wanted = "pyproject.toml" if file.kind == "project" else file.name
        try:
            found = _look(sources.candidates((wanted,)), include)
        except IncludeError as error:
            lines.not_understood.append(f"{file.place}: {quoted(wanted)} {error}{sources.hint}")
            continue
        sources.found_at(found[0])
        if file.kind in ("requirements", "constraints"):
            lines.follow(found[0], file.place, constraint=file.kind == "constraints")
        else:
            for environment in _environments(path, found, file, include, lines.not_understood):
                for one in environment.requirements + (environment.python if file.kind == "conda" else ()):
                    lines.add(one)
                lines.not_understood += environment.not_understood
    return list(dict.fromkeys(lines.found())), list(dict.fromkeys(lines.not_understood))


def _look(names: Iterable[str], include: Include) -> tuple[str, str]:
    """The first file that is there. Raises IncludeError: there is none, or it may not be read."""
    reasons = []
    for name in names:
        try:
            return name, include(name)
        except IncludeError as error:
            reasons.append(str(error))
    missing = str(IncludeError())
    raise IncludeError(next((one for one in reasons if one != missing), missing))


def _environments(
    path: str, found: tuple[str, str], file: File, include: Include, not_understood: list[str]
) -> Iterator[Environment]:
    """The conda environment, or the project and those of its extras that are asked for."""
    name, text = found
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    from tfgpu_doctor.manifests.conda import read_environment
    from tfgpu_doctor.manifests.nodes import documents
    from tfgpu_doctor.manifests.pyproject import read_pyproject

    try:
        if file.kind == "conda":
            for root in documents(beside, text)[:1]:
                yield from read_environment(beside, root, include, quote=False)
            return
        first, *others = read_pyproject(beside, text, include, quote=False)
    except ManifestError:  # its message may repeat parts of a file that is something else
        not_understood.append(f"{file.place}: {quoted(name)} is not valid {'YAML' if file.kind == 'conda' else 'TOML'}")
        return
    yield first
    labels = {f"{beside}, {kind} {extra}" for extra in file.extras for kind in ("extra", "group")}
    yield from (one for one in others if one.label in labels)


def pythons(installed: Installed, requirements: list[Requirement]) -> list[Requirement]:
    """Python from conda, from uv, or from apt's python3.9."""
    found = [one for one in requirements if one.name == "python" and one.installer == "conda"]
    if found:
        return found
    if installed.pythons:
        return installed.pythons[-1:]
    for one in requirements:
        if one.installer == "apt" and (version := re.fullmatch(r"python(3\.\d+)", one.name)):
            return [replace(one, name="python", specifier=f"=={version[1]}.*")]
    return []
