"""The shell commands of a RUN line: what they install with pip, uv, conda, Poetry and apt."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from tfgpu_doctor.manifests import Place, Requirement, quoted
from tfgpu_doctor.manifests.folders import MOST, folders
from tfgpu_doctor.manifests.requirement import conda_requirement, pip_requirement
from tfgpu_doctor.manifests.templates import filled_later, hole
from tfgpu_doctor.manifests.versions import poetry_specifier
from tfgpu_doctor.manifests.words import Word, commands

Installer: TypeAlias = Literal["pip", "conda", "apt", "poetry"]
FileKind: TypeAlias = Literal["requirements", "constraints", "conda", "project"]

_VERBS = ("install", "wheel", "download")  # wheels are for a later stage, which installs them
_PIP = re.compile(r"(?:\S*/)?pip[\d.]*")
_CONDA = re.compile(r"(?:\S*/)?(?:conda|mamba|micromamba)")
_APT = frozenset({"apt-get", "apt", "aptitude"})
_ADD = frozenset({"uv", "pdm", "pipenv", "poetry"})
# options that take a word of their own
_WITH_WORD = frozenset(
    (
        *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--timeout", "--retries"),
        *("--target", "-t", "--prefix", "--python", "-p", "--proxy", "--cache-dir", "--root", "--platform", "--abi"),
        *("--python-version", "--implementation", "-n", "--name", "--channel", "-o", "--option", "--no-binary"),
        *("--only-binary", "--config-settings", "--index", "--default-index", "--index-strategy", "--torch-backend"),
        *(
            "-w",
            "--wheel-dir",
            "-d",
            "--dest",
            "--group",
            "-G",
            "--extra",
            "-E",
            "--source",
            "--root-prefix",
            "--progress-bar",
            "--only-group",
            "--with",
        ),
    )
)
_PARTS = frozenset({"--extra", "-E", "--extras", "--group", "-G", "--with", "--only-group"})
_PIP_FILES: dict[str, FileKind] = {
    "-r": "requirements",
    "--requirement": "requirements",
    "--requirements": "requirements",
    "-c": "constraints",
    "--constraint": "constraints",
}
_FILES: dict[Installer, dict[str, FileKind]] = {
    "pip": _PIP_FILES,
    "poetry": _PIP_FILES,
    "conda": {"-f": "conda", "--file": "conda"},
    "apt": {},
}
_PROJECT = re.compile(r"\.(?:\[(?P<extras>[\w.,\s-]+)\])?")
_SHORT = re.compile(r"(-[rc])(.+)")
_REDIRECTION = re.compile(r"\d?(>>?|<)")


@dataclass(frozen=True)
class File:
    """A file that a command installs from."""

    kind: FileKind
    name: str
    place: Place
    extras: tuple[str, ...] = ()  # of a project


@dataclass
class Installed:
    """What the commands of a stage bring."""

    requirements: list[Requirement] = field(default_factory=list)
    pythons: list[Requirement] = field(default_factory=list)  # of uv
    files: list[File] = field(default_factory=list)
    not_understood: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)  # where to, as far as the commands name them

    def take(self, other: Installed) -> None:
        """What another stage brings."""
        self.requirements += other.requirements
        self.pythons += other.pythons
        self.files += other.files
        self.not_understood += other.not_understood


def read_commands(code: list[tuple[int, str]], path: str, found: Installed) -> None:
    """Read the commands on numbered lines, which belong to one RUN."""
    for words in commands(code):
        read_command(words, path, found)


def read_command(words: list[Word], path: str, found: Installed) -> None:
    """Read one command."""
    _uv_python(words, path, found)
    texts = [word.text for word in words]
    found.folders = [*found.folders, *folders(texts)][:MOST]
    for installer, arguments in _installations(texts, words):
        if installer == "poetry" and not _names(arguments):
            place = Place(path, words[0].line)
            if "pipenv" in texts:
                found.not_understood.append(f"{place}: a Pipfile is not read; give requirements.txt")
            else:  # the lock beside it is not read: it holds versions that the project allows
                found.files.append(File("project", ".", place, _parts(words)))
            continue
        _read(installer, arguments, path, found)


def _names(arguments: list[Word]) -> bool:
    """Whether packages are named, rather than all of the project's installed."""
    before = [Word("", 0), *arguments]
    return any(
        one.text[:1] not in ("-", "") and previous.text not in _WITH_WORD
        for previous, one in zip(before, arguments, strict=False)
    )


def _parts(words: list[Word]) -> tuple[str, ...]:
    """The extras and groups that are asked for."""
    texts = [word.text for word in words]
    found = [texts[index + 1] for index, text in enumerate(texts[:-1]) if text in _PARTS]
    found += [text.partition("=")[2] for text in texts if text.partition("=")[0] in _PARTS]
    return tuple(part for one in found for part in re.split(r"[,\s]+", one) if part)


def _installations(texts: list[str], words: list[Word]) -> Iterator[tuple[Installer, list[Word]]]:
    """The installer and its arguments, wherever they stand: "sudo -H python3 -m pip install ...", "uv pip install"."""
    installs = [index for index, text in enumerate(texts) if text in _VERBS]
    verbs = [index for index, text in enumerate(texts) if not text.startswith("-")]
    for index in range(len(texts)):
        if found := _installation(texts, index, installs, _next(verbs, index)):
            installer, behind = found
            yield installer, words[behind:]
            return


def _installation(texts: list[str], index: int, installs: list[int], verb: int | None) -> tuple[Installer, int] | None:
    """The installer that one word names, and where its arguments begin; None for any other word."""
    text, install = texts[index], _next(installs, index)
    if _PIP.fullmatch(text) and install is not None and install == installs[0]:
        return "pip", install + 1
    if _CONDA.fullmatch(text) and verb is not None and texts[verb] in ("install", "create", "update", "env"):
        return "conda", verb + (2 if texts[verb] == "env" else 1)
    if text in _APT and install is not None:
        return "apt", install + 1
    if text in _ADD and texts[index + 1 : index + 2] in (["add"], ["install"], ["sync"]):
        return "poetry", index + 2
    return None


def _next(positions: list[int], index: int) -> int | None:
    """The first of ascending positions behind another."""
    at = bisect_right(positions, index)
    return positions[at] if at < len(positions) else None


def _uv_python(words: list[Word], path: str, found: Installed) -> None:
    """uv python install 3.12; uv venv --python 3.12."""
    texts = [word.text for word in words]
    if "uv" not in texts:
        return
    rest = words[texts.index("uv") + 1 :]
    verbs = [word.text for word in rest[:2]]
    if verbs == ["python", "install"] or verbs[:1] == ["venv"]:
        for word in rest[1:]:
            if version := re.fullmatch(r"(?:--python=|python)?(3\.\d{1,2})(?:\.\d{1,3})?", word.text):
                place = Place(path, word.line)
                found.pythons.append(Requirement("python", f"=={version[1]}.*", place, word.text))


def _read(installer: Installer, arguments: list[Word], path: str, found: Installed) -> None:
    files = _FILES[installer]
    words = iter(arguments)
    for word in words:
        text, place = word.text, Place(path, word.line)
        option, equals, value = text.partition("=")
        if option in files and (equals or text == option):
            name = Word(value, word.line) if equals else next(words, None)
            if name is not None and name.text:
                found.files.append(File(files[option], name.text, Place(path, name.line)))
        elif installer == "pip" and (short := _SHORT.fullmatch(text)):
            found.files.append(File(files[short[1]], short[2], place))
        elif _takes_the_next(installer, text):
            next(words, None)
        elif text and not text.startswith("-") and not _REDIRECTION.match(text):
            _add(installer, text, place, found)


def _takes_the_next(installer: Installer, text: str) -> bool:
    """Whether the next word belongs to this one: an option's value, or the file of a redirection."""
    channel = installer == "conda" and text == "-c"
    return channel or text in _WITH_WORD or _REDIRECTION.fullmatch(text) is not None


def _add(installer: Installer, text: str, place: Place, found: Installed) -> None:
    if installer == "apt":
        found.requirements.append(_apt(text, place))
        return
    if project := _PROJECT.fullmatch(text):
        extras = tuple(one.strip() for one in (project["extras"] or "").split(",") if one.strip())
        found.files.append(File("project", ".", place, extras))
        return
    try:
        if installer == "conda":
            one: Requirement | None = conda_requirement(text, place)
        else:
            one = _poetry(text, place) if installer == "poetry" else pip_requirement(text, place)
    except ValueError as error:
        if (expression := hole(text)) is not None:
            found.not_understood.append(filled_later(place, expression))
            return
        reason = "its variables are known only when it is built; give them defaults" if "$" in text else str(error)
        found.not_understood.append(f"{place}: {quoted(text)}: {reason}")
        return
    if one is None and text.startswith("$"):
        found.not_understood.append(f"{place}: {quoted(text)} is known only when it is built; give it a default")
    elif one:
        found.requirements.append(replace(one, text=text))


def _apt(text: str, place: Place) -> Requirement:
    """A Debian package: "libcudnn8=8.6.0.163-1+cuda11.8"."""
    name, _, version = text.partition("=")
    number = re.match(r"\d+(?:\.\d+)*", version)
    return Requirement(name.lower(), f"=={number[0]}" if number else "", place, text, installer="apt")


def _poetry(text: str, place: Place) -> Requirement | None:
    """What Poetry and uv add: "tensorflow@^2.15", or as pip has it."""
    if found := re.fullmatch(r"([\w.-]+(?:\[[^\]]*\])?)@([\d^~*][^/]*)", text):
        one = pip_requirement(found[1], place)
        return replace(one, specifier=poetry_specifier(found[2])) if one else None
    return pip_requirement(text, place)
