"""Shell commands that install: their words, packages, the folders that they install into, and the files they name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise, takewhile
from typing import Any, Literal, TypeAlias

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.manifests import (
    Environment,
    Image,
    IncludeError,
    Kind,
    ManifestError,
    Place,
    Requirement,
    environment_of,
    quoted,
)
from tfgpu_doctor.manifests.nodes import documents
from tfgpu_doctor.manifests.pip import Include, Lines, read_environment
from tfgpu_doctor.manifests.pyproject import read_pyproject
from tfgpu_doctor.manifests.requirement import conda_requirement, pip_requirement, poetry_specifier
from tfgpu_doctor.manifests.variables import filled_later, hole, unknown_part

# in order: what joins lines, what ends a command, a comment, blanks, and the pieces that make up a word
_TOKEN = re.compile(
    r"(?P<join>\\[ \t]*\n)"
    r"|(?P<end>&&|\|\||;|(?<![<>])&(?![>])|\||\n)"
    r"|(?P<blank>[ \t\r\f\v]+)"
    r"|(?P<single>'[^']*')"
    r'|(?P<double>"(?:\\.|[^"\\])*")'
    r"|(?P<escape>\\.)"
    r"|(?P<plain>[^\s'\"\\;|&]+|.)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Word:
    """A word of a command, without its quotes."""

    text: str
    line: int


def commands(code: list[tuple[int, str]]) -> Iterator[list[Word]]:
    """Split numbered lines into commands: at &&, ||, ;, |, & and the ends of lines, outside quotes."""
    text = "\n".join(line for _, line in code)
    numbers = [number for number, _ in code]
    row, start = 0, 0
    pieces: list[str] | None = None
    words: list[Word] = []
    skipping = False
    for found in _TOKEN.finditer(text):
        kind, token = found.lastgroup, found[0]
        if skipping and token != "\n":
            row += token.count("\n")
            continue
        skipping = False
        if kind in ("join", "end", "blank"):
            if pieces is not None:
                words.append(Word("".join(pieces), numbers[start]))
                pieces = None
            if kind == "end":
                yield words
                words = []
        elif kind == "plain" and pieces is None and token.startswith("#"):
            skipping = True
        else:
            if pieces is None:
                pieces, start = [], row
            pieces.append(_bare(kind, token))
        row += token.count("\n")
    if pieces is not None:
        words.append(Word("".join(pieces), numbers[start]))
    yield words


def _bare(kind: str | None, token: str) -> str:
    if kind == "single":
        return token[1:-1]
    if kind == "double":
        return re.sub(r"\\([\"\\$`])", r"\1", token[1:-1]).replace("\\\n", "")
    return token[1:] if kind == "escape" else token


LONGEST = 1_000  # characters of a path
_NO_PACKAGES = re.compile(  # programs, what a builder makes, single files
    r"(?:^|/)(?:bin|include|share)(?:/[^/]+)?$|/(?:models?|weights|data|dist|build|static|artifacts)$"
    r"|[^/.]\.[a-zA-Z]\w*$"
)


def brings(source: str) -> bool:
    """Whether a copy of `source` from another stage has its packages: any folder can, but for these names."""
    source = posixpath.normpath(source[:LONGEST])
    return _NO_PACKAGES.search(posixpath.dirname(source) if "*" in posixpath.basename(source) else source) is None


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
        *("-w", "--wheel-dir", "-d", "--dest", "--group", "-G", "--extra", "-E", "--source", "--root-prefix"),
        *("--progress-bar", "--only-group", "--with"),
    )
)
_PARTS = frozenset({"--extra", "-E", "--extras", "--group", "-G", "--with", "--only-group"})
_PIP_FILES: dict[str, FileKind] = {
    **dict.fromkeys(("-r", "--requirement", "--requirements"), "requirements"),
    **dict.fromkeys(("-c", "--constraint"), "constraints"),
}
_CONDA_FILES: dict[str, FileKind] = {"-f": "conda", "--file": "conda"}
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
    copied: list[str] = field(default_factory=list)  # from the build context, by COPY and ADD
    not_understood: list[str] = field(default_factory=list)

    def take(self, other: Installed) -> None:
        """What another stage brings."""
        for part in fields(self):
            getattr(self, part.name).extend(getattr(other, part.name))


def read_commands(code: list[tuple[int, str]], path: str, found: Installed) -> None:
    """Read the commands on numbered lines, which belong to one RUN."""
    for words in commands(code):
        read_command(words, path, found)


def read_command(words: list[Word], path: str, found: Installed) -> None:
    """Read one command."""
    _uv_python(words, path, found)
    texts = [word.text for word in words]
    named = _installation(texts)
    if named is None:
        return
    installer, arguments = named[0], words[named[1] :]
    if installer == "poetry" and not _names(arguments):
        place = Place(path, words[0].line)
        if "pipenv" in texts:
            found.not_understood.append(f"{place}: a Pipfile is not read; give requirements.txt")
        else:  # the lock beside it is not read: it holds versions that the project allows
            found.files.append(File("project", ".", place, _parts(texts)))
    else:
        _read(installer, arguments, path, found)


def _names(arguments: list[Word]) -> bool:
    """Whether packages are named, rather than all of the project's installed."""
    before = [Word("", 0), *arguments]
    return any(
        one.text[:1] not in ("-", "") and previous.text not in _WITH_WORD
        for previous, one in zip(before, arguments, strict=False)
    )


def _parts(texts: list[str]) -> tuple[str, ...]:
    """The extras and groups that are asked for."""
    found = [following for text, following in pairwise(texts) if text in _PARTS]
    found += [text.partition("=")[2] for text in texts if text.partition("=")[0] in _PARTS]
    return tuple(part for one in found for part in re.split(r"[,\s]+", one) if part)


def _installation(texts: list[str]) -> tuple[Installer, int] | None:
    """The installer, and where its arguments begin, wherever they stand: "sudo -H python3 -m pip install ..."."""
    installs = [index for index, text in enumerate(texts) if text in _VERBS] or [-1]
    for index, text in enumerate(texts):
        if _PIP.fullmatch(text) and installs[0] > index:
            return "pip", installs[0] + 1
        if text in _APT and installs[-1] > index:
            return "apt", next(one for one in installs if one > index) + 1
        if _CONDA.fullmatch(text) and (behind := _behind_conda(texts, index)):
            return "conda", behind
        if text in _ADD and texts[index + 1 : index + 2] in (["add"], ["install"], ["sync"]):
            return "poetry", index + 2
    return None


def _behind_conda(texts: list[str], index: int) -> int | None:
    """Where the arguments of conda's install, create, update and env create begin; None: it does something else."""
    options = [*takewhile(lambda one: one.startswith("-"), texts[index + 1 : index + 20])]
    verb = index + 1 + len(options)
    if texts[verb : verb + 1] == ["env"]:
        return verb + 2
    return verb + 1 if texts[verb : verb + 1] in (["install"], ["create"], ["update"]) else None


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
    files = {"conda": _CONDA_FILES, "apt": {}}.get(installer, _PIP_FILES)
    words = iter(arguments)
    for word in words:
        text, place = word.text, Place(path, word.line)
        option, equals, value = text.partition("=")
        if option in files:
            name = Word(value, word.line) if equals else next(words, None)
            if name and name.text:
                found.files.append(File(files[option], name.text, Place(path, name.line)))
        elif installer == "pip" and (short := _SHORT.fullmatch(text)):
            found.files.append(File(files[short[1]], short[2], place))
        elif (text == "-c" and installer == "conda") or text in _WITH_WORD or _REDIRECTION.fullmatch(text):
            next(words, None)  # an option's value, or the file of a redirection
        elif text and not text.startswith("-") and not _REDIRECTION.match(text):
            _add(installer, text, place, found)


def _add(installer: Installer, text: str, place: Place, found: Installed) -> None:
    if project := _PROJECT.fullmatch(text):
        extras = tuple(one.strip() for one in (project["extras"] or "").split(",") if one.strip())
        found.files.append(File("project", ".", place, extras))
        return
    try:
        one = _packages(installer, text, place)
    except ValueError as error:
        reason = "its variables are known only when it is built; give them defaults" if "$" in text else str(error)
        note = f"{place}: {quoted(text)}: {reason}"
        found.not_understood.append(filled_later(place, expression) if (expression := hole(text)) else note)
    else:
        if one is None and text.startswith("$"):
            found.not_understood.append(f"{place}: {quoted(text)} is known only when it is built; give it a default")
        elif one:
            found.requirements.append(replace(one, text=text))


def _packages(installer: Installer, text: str, place: Place) -> Requirement | None:
    """The package that a word names for an installer. Raises ValueError: it cannot be read."""
    if installer == "apt":  # "libcudnn8=8.6.0.163-1+cuda11.8"
        name, _, version = text.partition("=")
        number = re.match(r"\d+(?:\.\d+)*", version)
        return Requirement(name.lower(), f"=={number[0]}" if number else "", place, text, installer="apt")
    if installer == "conda":
        return conda_requirement(text, place)
    if installer == "poetry" and (found := re.fullmatch(r"([\w.-]+(?:\[[^\]]*\])?)@([\d^~*][^/]*)", text)):
        one = pip_requirement(found[1], place)
        return replace(one, specifier=poetry_specifier(found[2])) if one else None
    return pip_requirement(text, place)


MOST_SOURCES = 200  # of COPY; MOST_TRIED of them are looked for
MOST_TRIED = 20
MOST_FILES = 100  # that the commands of a Dockerfile install from


def _candidates(name: str, copied: list[str]) -> list[str]:
    """Where a file of the container may lie in the build context, in the order in which to look; never outside."""
    file = posixpath.basename(name)
    parts = [part for part in name.split("/") if part not in ("", ".")][-MOST_TRIED:]
    tails = ["/".join(parts[index:]) for index in range(len(parts))]
    tried = [one for one in copied if posixpath.basename(one) == file]
    tried += tails
    tried += [posixpath.join(one, tail) for one in copied for tail in (file, *tails)]
    inside = (posixpath.normpath(one.lstrip("/")) for one in tried)
    return list(dict.fromkeys(one for one in inside if not one.startswith("..")))[:MOST_TRIED]


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


def _follow(file: File, found: tuple[str, str], path: str, lines: Lines, include: Include) -> None:
    """Read a file that is installed from."""
    if file.kind in ("requirements", "constraints"):
        lines.follow(found[0], file.place, constraint=file.kind == "constraints")
        return
    for environment in _environments(path, found, file, include, lines.not_understood):
        for one in environment.requirements + (environment.python if file.kind == "conda" else ()):
            lines.add(one)
        lines.not_understood += environment.not_understood


def _environments(
    path: str, found: tuple[str, str], file: File, include: Include, not_understood: list[str]
) -> Iterator[Environment]:
    """The conda environment, or the project and those of its extras that are asked for."""
    name, text = found
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
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


def environment(
    kind: Kind,
    path: str,
    installed: Installed,
    include: Include,
    *,
    python: Iterable[Requirement] = (),
    image: Image | None = None,
    label: str | None = None,
    place: Place | None = None,
    read_as: str | None = None,
    contexts: tuple[str, ...] = ("",),
    hint: str = "",
    **others: Any,
) -> Environment:
    """The environment that commands make, with the other fields that the file tells.

    Args:
        python: the one that something else than the commands names.
        read_as: the path relative to which files are named, where that is not the file's own.
        contexts: folders that can be the build context, relative to that of `read_as`.
        hint: what to do about a file that is not found.
    """
    base, context, label = read_as or path, contexts[0], label or path
    lines = Lines(base, include)
    lines.not_understood += installed.not_understood
    for one in installed.requirements:
        lines.add(one)
    if len(installed.files) > MOST_FILES:
        place_of_more = installed.files[MOST_FILES].place
        lines.not_understood.append(
            f"{place_of_more}: more than {MOST_FILES} files to install from; the others are not read"
        )
    for file in installed.files[:MOST_FILES]:
        wanted = "pyproject.toml" if file.kind == "project" else file.name
        inside = _candidates(wanted, installed.copied[:MOST_SOURCES])
        try:
            found = _look((posixpath.join(one, name) for one in contexts for name in inside), include)
        except IncludeError as error:
            lines.not_understood.append(f"{file.place}: {quoted(wanted)} {error}{hint}")
            continue
        depth = found[0].count("../")  # of the context in which it was found, which is that of the others
        contexts = tuple(sorted(contexts, key=lambda one: one.count("..") != depth))
        _follow(file, found, base, lines, include)
    if contexts[0] != context:
        label += f", built from {posixpath.normpath(posixpath.join(posixpath.dirname(base), contexts[0]))}"
    requirements = lines.found()
    found_pythons = tuple(python) or tuple(_pythons(installed, requirements))
    complaints = (*unknown_part(image), *lines.not_understood)
    made = environment_of(kind, path, requirements, complaints, label=label, image=image, **others)
    return replace(made, python=found_pythons, place=place or made.place)


def has_tensorflow(one: Environment) -> bool:
    """Whether TensorFlow is in the image, or installed."""
    image = one.image is not None and "tensorflow" in one.image.name
    return image or any(each.name in TENSORFLOW for each in one.requirements)


def _pythons(installed: Installed, requirements: Iterable[Requirement]) -> list[Requirement]:
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
