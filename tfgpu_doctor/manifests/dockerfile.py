"""Dockerfiles, and definition files of Apptainer."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, takewhile
from typing import Any, TypeAlias

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.manifests import Environment, Image, ManifestError, Place, Setting, quoted
from tfgpu_doctor.manifests.pip import Include
from tfgpu_doctor.manifests.shell import (
    MOST_SOURCES,
    SOURCES,
    Installed,
    brings,
    commands,
    environment,
    has_tensorflow,
    read_commands,
    unquoted,
)
from tfgpu_doctor.manifests.variables import fill, machine_of, read_image, substitute, unknown_part

Lines: TypeAlias = "tuple[tuple[int, str], ...]"  # numbered from 1

# <<EOF, <<-EOF, 3<<"EOF": a word of its own, with no blank inside
_HEREDOC = re.compile(r"(?<!\S)\d*<<-?([\"']?)(?P<name>\w[\w.-]*)\1(?!\S)")
_WITH_HEREDOC = re.compile(r"(?:ONBUILD\s+)?(?:RUN|COPY|ADD)\s+(?!\[)", re.IGNORECASE)


@dataclass(frozen=True)
class Instruction:
    """One instruction. Its lines are without comments and without the characters that continue them."""

    verb: str  # upper case
    line: int  # of the verb
    lines: Lines  # from the first character behind the verb
    heredocs: Lines  # the lines of its here-documents, without those that end them

    @cached_property
    def value(self) -> str:
        """Everything behind the verb, in one line."""
        return "".join(text for _, text in self.lines)


def instructions(text: str) -> Iterator[Instruction]:
    """Split a Dockerfile."""
    text = text.removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").split("\n")
    last = {line.strip(): index for index, line in enumerate(lines)}
    at = 0
    while at < len(lines):
        pieces, at = _logical_line(lines, at)
        if not pieces:
            continue
        number, first = pieces[0]
        verb = first.split(None, 1)[0]
        pieces[0] = (number, first.lstrip()[len(verb) :].lstrip())
        whole = "".join([f"{verb} ", *(text for _, text in pieces)])
        heredocs: list[tuple[int, str]] = []
        for found in _HEREDOC.finditer(whole) if _WITH_HEREDOC.match(whole) else ():
            if last.get(found["name"], -1) >= at:  # Docker refuses one without an end
                end = next(index for index in range(at, len(lines)) if lines[index].strip() == found["name"])
                heredocs += [(index + 1, lines[index]) for index in range(at, end)]
                at = end + 1
        yield Instruction(verb.upper(), number, tuple(pieces), tuple(heredocs))


def _logical_line(lines: list[str], at: int) -> tuple[list[tuple[int, str]], int]:
    """The lines of one instruction and where the next one begins. Blank lines and comments among them are skipped."""
    pieces: list[tuple[int, str]] = []
    while at < len(lines):
        line = lines[at]
        at += 1
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        continued = bare.endswith("\\") and not bare.endswith("\\\\")
        text = line.rstrip()[:-1] if continued else line
        if pieces or text.strip():
            pieces.append((at, text))
        if not continued:
            break
    return pieces, at


_FROM = re.compile(r"(?:--platform=(?P<platform>\S+)\s+)?(?P<image>\S+)(?:\s+as\s+(?P<name>\S+))?", re.IGNORECASE)
_PAIR = re.compile(r"(?<!\S)([^\s=\"']+)=((?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\])*)", re.DOTALL)
_MOUNTED = re.compile(r"--mount=type=bind,source=([^,\s]+),target=([^,\s]+)")  # by RUN, as COPY would
_FLAGS = re.compile(r"(?:\s*--\w+(?:=\S+)?\s+)*")
# PEP 668: pip of a system's own Python; what brings another Python, or allows it; what goes on after a failure
_SYSTEM_PIP = re.compile(
    r"(?:\w+=\S* )*(?:sudo (?:-\S+ )*)?(?:(?:/usr/bin/)?python3? -m |/usr/bin/)?pip3? (?:-\S+ )*install "
    r"(?!.*(?:--target|--prefix|--root|--python|--dry-run| -t\b))"
)
_OTHER_PYTHON = re.compile(
    r"(?<!\d-)(?:venv|virtualenv)|VIRTUAL_ENV|activate|conda|mamba|pyenv|pixi|(?<![\w/])PATH\b|--from|deadsnakes"
    r"|[Pp]ython-3|python\.org|altinstall|update-alternatives|get-pip|pip[/.]conf|pip3? config|break-system|/EXT"
    r"|PIP_(?:BREAK|CONFIG|PREFIX|PYTHON|ROOT|TARGET)|\s/\s*$"
)
_GOES_ON = re.compile(r"\||\A(?!.*\bset -\w*e).*;", re.DOTALL)
MOST_ENDS = 20  # stages that nothing is built from


@dataclass(eq=False)
class _Stage:
    name: str
    place: Place
    image: Image | None  # that it begins with, whichever stages lie between
    parent: _Stage | None  # FROM it
    machine: str = ""  # of its platform; "": that of most, or not named
    copied: list[_Stage] = field(default_factory=list)  # COPY --from it
    taken: dict[_Stage, bool] = field(default_factory=dict)  # with its packages; whether also with those of apt
    installed: Installed = field(default_factory=Installed)
    settings: list[Setting] = field(default_factory=list)
    pips: list[Place | None] = field(default_factory=list)  # of the system's Python; None: from here on, any other one

    @property
    def ancestry(self) -> list[_Stage]:
        """The stages that it is built FROM, the first one first, and itself."""
        found = [self]
        while found[-1].parent:
            found.append(found[-1].parent)
        return found[::-1]


def read_dockerfile(
    path: str,
    text: str,
    include: Include,
    *,
    stage: str | None = None,
    arguments: Mapping[str, str] | None = None,
    context: str | None = None,
    contexts: tuple[str, ...] = (),
) -> tuple[Environment, ...]:
    """What a Dockerfile builds: its last stage, and those that no other is built from or copies from.

    Args:
        stage: build this one (`--target`).
        arguments: values of ARG (`--build-arg`).
        context: the folder that COPY takes files from; None: that of the Dockerfile.
        contexts: others, relative to that folder, where the files that it lacks may lie.

    Raises ManifestError: it has no FROM, or no such stage.
    """
    reader = _Reader(path, arguments or {})
    for instruction in instructions(text):
        reader.take(instruction)
    if not reader.stages:
        raise ManifestError(f"{path}:1: no FROM instruction; a Dockerfile begins with FROM")
    folder = posixpath.join(posixpath.dirname(path) if context is None else context, "Dockerfile")
    where: dict[str, Any] = {"include": include, "read_as": folder, "contexts": ("", *contexts)}
    found = reader.made(reader.built(stage), where)
    return (found[0], *(one for one in found[1:] if has_tensorflow(one) and not has_tensorflow(found[0])))


def _with_copies(own: Environment, taken: list[tuple[Environment, bool]]) -> Environment:
    """An environment with what it copies: the packages of the stage whose TensorFlow it has, and the Python of these.

    Args:
        own: what is installed in it.
        taken: those that it copies from, each with whether also what apt has installed there.
    """
    made, source = own, max((own, *(one for one, _ in reversed(taken))), key=_tensorflow_in)
    for one, whole in taken:
        if has_packages := one is source or not _tensorflow_in(source):
            made = replace(made, python=one.python, packages_of=one.packages_of or one.image)
        kept = {"pip": has_packages, "conda": has_packages, "apt": whole}
        packages = (each for each in one.requirements if kept[each.installer])
        complaints = (line for line in one.not_understood if line not in unknown_part(one.image))
        lines = (*packages, *made.requirements)
        made = replace(made, requirements=lines, not_understood=(*made.not_understood, *complaints))
    return made


def _tensorflow_in(one: Environment) -> int:
    """How much it tells of its TensorFlow: 3 the version, 2 that it is installed, 1 that an image has it."""
    lines = [each for each in one.requirements if each.name in TENSORFLOW]
    return 3 if any(each.specifier for each in lines) else 2 if lines else int(has_tensorflow(one))


class _Reader:
    """Walks the instructions, stage by stage."""

    def __init__(self, path: str, arguments: Mapping[str, str]) -> None:
        self.path = path
        self.arguments = arguments
        self.values: dict[str, str] = dict(arguments)
        self.stages: list[_Stage] = []
        self.by_name: dict[str, _Stage] = {}

    def take(self, one: Instruction) -> None:
        """Take one instruction."""
        if self.stages and _OTHER_PYTHON.search(one.value):
            self.stages[-1].pips.append(None)
        match one.verb:
            case "ARG":
                for name, given, _ in _pairs(one):
                    if name not in self.arguments and (default := substitute(given, self.values)) is not None:
                        self.values[name] = default
            case "FROM":
                self._begin(one)
            case "ENV" if self.stages:
                self._env(one)
            case "COPY" | "ADD" if self.stages:
                self._copy(one.value)
            case "RUN" if self.stages:
                self._run(one)

    def built(self, name: str | None) -> list[_Stage]:
        """The stages to judge: the one of that name, or the last, and others at the end of what they are built from."""
        if name is None:
            used = {one for stage in self.stages for one in (stage.parent, *stage.copied)}
            *others, last = self.stages
            return [last, *(one for one in others if one.name and one not in used)][:MOST_ENDS]
        if (one := self._named(name)) is None:
            known = ", ".join(one.name for one in self.stages if one.name) or "none has a name"
            raise ManifestError(f"{self.path}: there is no stage {quoted(name)} ({quoted(known)})")
        return [one]

    def made(self, wanted: list[_Stage], where: dict[str, Any]) -> list[Environment]:
        """The environments of stages, with what they copy of others."""
        needed, todo = {*wanted}, [*wanted]
        while todo:
            new = {taken for one in todo.pop().ancestry for taken in one.taken} - needed
            needed |= new
            todo += new
        found: dict[_Stage, Environment] = {}
        for stage in (one for one in self.stages if one in needed):  # one copies from those above it
            taken = {each: whole for one in stage.ancestry for each, whole in one.taken.items()}
            own = environment("dockerfile", self.path, **where, **self._own(stage))
            found[stage] = _with_copies(own, [(found[one], whole) for one, whole in taken.items()])
        return [found[one] for one in wanted]

    def _own(self, last: _Stage) -> dict[str, Any]:
        """What the environment of a stage has without what it copies: also what those that it is built FROM install."""
        installed, ancestry, pips = Installed(), last.ancestry, last.pips
        for stage in ancestry:
            installed.take(stage.installed)
        if pips and None not in pips and len(pips) >= installed.steps and not installed.named:
            installed.pythons.append(None)
        return {
            "installed": installed,
            "label": f"{self.path}, stage {last.name}" if len(self.stages) > 1 and last.name else self.path,
            "image": last.image,
            "machine": last.machine,
            "place": last.place,
            "system_pip": next(iter(pips), None),
            "settings": tuple({each.name: each for stage in ancestry for each in stage.settings}.values()),
        }

    def _begin(self, one: Instruction) -> None:
        place = Place(self.path, one.line)
        found = _FROM.fullmatch(one.value.strip())
        if found is None:
            raise ManifestError(f"{place}: FROM takes an image, not {one.value.strip()[:80]!r}")
        reference = fill(found["image"], self.values)
        parent = self.by_name.get(reference.lower())
        image = read_image(found["image"], place, self.values) if reference != "scratch" else None
        machine = machine_of(fill(found["platform"] or "", self.values)) or (parent.machine if parent else "")
        stage = _Stage(found["name"] or "", place, parent.image if parent else image, parent, machine)
        stage.pips += parent.pips if parent else []
        self.stages.append(stage)
        if stage.name:
            self.by_name[stage.name.lower()] = stage

    def _named(self, name: str) -> _Stage | None:
        """A stage by its name or its number."""
        number = int(name) if name.isdecimal() and len(name) < 7 else len(self.stages)
        return self.by_name.get(name.lower()) or (self.stages[number] if number < len(self.stages) else None)

    def _copy(self, value: str) -> None:
        """COPY --from=builder /opt/venv /opt/venv brings what the builder installed there."""
        words = [word.strip("[]\",'") for word in fill(value, self.values).split()]
        if SOURCES.search(value):
            self.stages[-1].installed.updates.append(None)
        *paths, target = [word for word in words if word and not word.startswith("--")] or [""]
        paths = paths[:MOST_SOURCES]
        others = [word for word in words if word.startswith("--from")]
        if others:
            self._take(others[0].partition("=")[2], paths)
        else:
            self.stages[-1].installed.copied += [(path, target) for path in paths if "://" not in path]

    def _take(self, name: str, sources: list[str]) -> None:
        """Take files of a stage, and its packages, if these are among them."""
        last, stage = self.stages[-1], self._named(fill(name, self.values))
        if stage is None or stage is last:
            return
        last.copied.append(stage)
        paths = [posixpath.normpath(posixpath.join("/", fill(one, self.values))) for one in sources]
        if any(map(brings, paths)):
            of_apt = any(path == "/" or path.startswith("/usr") for path in paths)
            last.taken[stage] = of_apt or last.taken.get(stage, False)

    def _env(self, one: Instruction) -> None:
        pairs = [*_pairs(one)]
        if one.value.strip() and not re.match(r"\s*[^\s=]+=", one.value):  # ENV NAME the rest of the line
            name, *rest = one.value.split(None, 1)
            pairs = [(name, unquoted("".join(rest).strip()), one.line)]
        for name, given, line in pairs:
            if (plain := substitute(given, self.values)) is not None:
                self.values[name] = given = plain
            self.stages[-1].settings.append(Setting(name, given, Place(self.path, line)))

    def _run(self, one: Instruction) -> None:
        """RUN pip install, and RUN ["pip", "install"]."""
        (first, begin), *others = one.lines
        self.stages[-1].installed.copied += _MOUNTED.findall(one.value)
        code = [(first, begin[_FLAGS.match(begin).end() :]), *others]  # type: ignore[union-attr]  # it can be empty
        if code[0][1].startswith("["):
            code = [(number, text.strip("[] ").replace('",', '" ')) for number, text in code]
        code = [(number, text + "\\") for number, text in code[:-1]] + code[-1:]
        code += [(number, text) for number, text in one.heredocs if not text.lstrip().startswith("#")]
        filled = [(number, fill(text, self.values)) for number, text in code]
        read_commands(filled, self.path, self.stages[-1].installed)
        if not (one.heredocs or _GOES_ON.search(one.value)):
            self.stages[-1].pips += _pips_of_the_system(code, self.path)


def _pips_of_the_system(code: list[tuple[int, str]], path: str) -> Iterator[Place]:
    """Where pip may be that of the system's Python."""
    for words in commands(code):
        if _SYSTEM_PIP.match(" ".join(word.text for word in words)):
            yield Place(path, words[0].line)


def _pairs(one: Instruction) -> Iterator[tuple[str, str, int]]:
    """Names and values of ENV A="1 2" B=3, without the quotes, each with its line."""
    ends = list(accumulate(len(text) for _, text in one.lines))
    for found in _PAIR.finditer(one.value):
        yield found[1], unquoted(found[2]), one.lines[bisect_right(ends, found.start())][0]


_HEADER = re.compile(r"\s*(bootstrap|from|stage|osversion|mirrorurl)\s*:\s*(\S+)\s*(?:#.*)?", re.IGNORECASE)
_SECTION = re.compile(r"%(\w+)")
# sh -e runs %post, unless the section names another shell; a line that only looks like a command of it may stand in a
# here-document
_POST_GOES_ON = re.compile(r"^\s*%post[ \t]+\S|<<|\|\||\bset \+e", re.MULTILINE)
_EXPORT = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)=(\"[^\"]*\"|'[^']*'|\S*)\s*")


def read_definition(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """The container that it builds."""
    header: dict[str, tuple[str, int]] = {}
    sections: dict[str, list[tuple[int, str]]] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := _SECTION.match(line):
            section = found[1].lower()
        elif found := _HEADER.fullmatch(line[:1000]) if section not in ("post", "environment", "files") else None:
            if found[1].lower() == "bootstrap":  # of the next stage
                header, sections, section = {}, {}, ""
            header[found[1].lower()] = (found[2], number)
        else:
            sections.setdefault(section, []).append((number, line))
    reference, line_of_image = _system(header)
    place = Place(path, line_of_image)
    image = read_image(reference, place) if reference else None
    files = [line.split() for _, line in sections.get("files", [])]
    installed = Installed(copied=[(words[0], words[-1]) for words in files if words])
    read_commands(sections.get("post", []), path, installed)
    exports = [(number, _EXPORT.fullmatch(line[:2000])) for number, line in sections.get("environment", [])]
    settings = tuple(Setting(one[1], one[2].strip("\"'"), Place(path, number)) for number, one in exports if one)
    made: dict[str, Any] = {"image": image, "place": place, "settings": settings}
    made["system_pip"] = None if _POST_GOES_ON.search(text) else _system_pip(sections, path)
    return (environment("singularity", path, installed, include, **made),)


def _system(header: dict[str, tuple[str, int]]) -> tuple[str, int]:
    """The image of a header, and its line; of debootstrap, which has no image, that of the same distribution."""
    kind = header.get("bootstrap", ("", 1))[0].lower()
    if kind == "debootstrap" and "osversion" in header:
        release, line = header["osversion"]
        return f"{'ubuntu' if 'ubuntu' in header.get('mirrorurl', ('', 1))[0] else 'debian'}:{release}", line
    reference, line = header.get("from", ("", 1))
    return reference if kind in ("docker", "docker-daemon", "oras") else "", line


def _system_pip(sections: dict[str, list[tuple[int, str]]], path: str) -> Place | None:
    """The first pip of the system's Python, unless files or a line before it may bring another one."""
    post = sections.get("post", [])
    if any(_OTHER_PYTHON.search(line) for _, line in sections.get("files", [])):
        return None
    before = [*takewhile(lambda numbered: not _OTHER_PYTHON.search(numbered[1]), post)]
    return next(_pips_of_the_system(before, path), None) if before else None
