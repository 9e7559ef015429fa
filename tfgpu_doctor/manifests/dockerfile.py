"""Dockerfile: the environment of the last stage, with the stages that it is built FROM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tfgpu_doctor.manifests import Environment, Image, ManifestError, Place, Setting
from tfgpu_doctor.manifests.containers import fill, read_image, substitute, unknown_part
from tfgpu_doctor.manifests.installing import Sources, pythons, with_files
from tfgpu_doctor.manifests.instructions import Instruction, instructions
from tfgpu_doctor.manifests.pip import Include
from tfgpu_doctor.manifests.shell import Installed, read_command, read_commands
from tfgpu_doctor.manifests.words import Word

_FROM = re.compile(r"(?:--platform=\S+\s+)?(?P<image>\S+)(?:\s+as\s+(?P<name>\S+))?", re.IGNORECASE)
_PAIR = re.compile(r"(?<!\S)([^\s=\"']+)=((?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\])*)", re.DOTALL)
_QUOTING = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|\\(.)", re.DOTALL)
_ESCAPED = re.compile(r"\\([\"\\$`])")  # within double quotes
_FLAGS = re.compile(r"(?:\s*--\w+(?:=\S+)?\s+)*")
_FROM_STAGE = re.compile(r"--from=(\w[\w.-]*)")
_PACKAGES = re.compile(
    r"venv|(?:site|dist)-packages|\.local\b|/usr/local(?:/lib[\w./]{0,200})?(?:\s|$)|conda|/opt(?:/|\s|$)"
)
LONGEST_COPY = 2_000  # characters in which the folders of packages are looked for


@dataclass
class _Stage:
    name: str
    place: Place
    image: Image | None = None
    parent: _Stage | None = None  # FROM it
    taken: list[_Stage] = field(default_factory=list)  # COPY --from it, with its packages
    installed: Installed = field(default_factory=Installed)
    settings: list[Setting] = field(default_factory=list)
    sources: Sources = field(default_factory=Sources)

    def ancestry(self) -> list[_Stage]:
        """The stages that it is built FROM, the first one first, and itself."""
        found = [self]
        while found[-1].parent:
            found.append(found[-1].parent)
        return found[::-1]


def read_dockerfile(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """The environment that a Dockerfile builds. Raises ManifestError: it has no FROM."""
    reader = _Reader(path)
    for instruction in instructions(text):
        reader.take(instruction)
    if not reader.stages:
        raise ManifestError(f"{path}:1: no FROM instruction; a Dockerfile begins with FROM")
    stage = reader.stages[-1]
    ancestry = stage.ancestry()
    installed, sources = Installed(), Sources()
    for one in reader.brought(stage):
        installed.take(one.installed)
    for one in ancestry:
        sources.take(one.sources)
    requirements, not_understood = with_files(path, installed, sources, include)
    image = ancestry[0].image
    return (
        Environment(
            kind="dockerfile",
            label=f"{path}, stage {stage.name}" if len(reader.stages) > 1 and stage.name else path,
            place=stage.place,
            python=tuple(pythons(installed, requirements)),
            requirements=tuple(one for one in requirements if one.name != "python"),
            image=image,
            settings=tuple({each.name: each for one in ancestry for each in one.settings}.values()),
            not_understood=(*(unknown_part(image) if image else ()), *not_understood),
        ),
    )


class _Reader:
    """Walks the instructions, stage by stage."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.values: dict[str, str] = {}
        self.stages: list[_Stage] = []
        self.by_name: dict[str, _Stage] = {}

    def take(self, one: Instruction) -> None:
        """Take one instruction."""
        match one.verb:
            case "ARG":
                for name, given, _ in _pairs(one.value):
                    if (default := substitute(given, self.values)) is not None:
                        self.values[name] = default
            case "FROM":
                self._begin(one)
            case "ENV" if self.stages:
                self._env(one)
            case "COPY" | "ADD" if self.stages:
                self.stages[-1].sources.copied(one.value)
                self._take_over(one.value)
            case "RUN" if self.stages:
                self._run(one)

    def brought(self, last: _Stage) -> Iterator[_Stage]:
        """The stages whose packages end up in one, in the order of the file, each once."""
        needed, open_ = {id(last)}, [last]
        while open_:
            stage = open_.pop()
            for one in [*stage.taken, stage.parent] if stage.parent else stage.taken:
                if id(one) not in needed:
                    needed.add(id(one))
                    open_.append(one)
        return (stage for stage in self.stages if id(stage) in needed)

    def _begin(self, one: Instruction) -> None:
        place = Place(self.path, one.line)
        found = _FROM.fullmatch(one.value.strip())
        if found is None:
            raise ManifestError(f"{place}: FROM takes an image, not {one.value.strip()[:80]!r}")
        reference = fill(found["image"], self.values)
        stage = _Stage(found["name"] or "", place, parent=self.by_name.get(reference.lower()))
        if stage.parent is None and reference != "scratch":
            stage.image = read_image(found["image"], place, self.values)
        self.stages.append(stage)
        if stage.name:
            self.by_name[stage.name.lower()] = stage

    def _take_over(self, value: str) -> None:
        """COPY --from=builder /opt/venv /opt/venv brings what the builder installed there."""
        found = _FROM_STAGE.search(value)
        if found is None or not _PACKAGES.search(value[:LONGEST_COPY]):
            return
        name = found[1].lower()
        number = int(name) if name.isdecimal() and len(name) < 7 else len(self.stages)
        stage = self.by_name.get(name) or (self.stages[number] if number < len(self.stages) else None)
        if stage is not None and stage is not self.stages[-1]:
            self.stages[-1].taken.append(stage)

    def _env(self, one: Instruction) -> None:
        pairs = list(_pairs(one.value))
        if one.value.strip() and not re.match(r"\s*[^\s=]+=", one.value):  # ENV NAME the rest of the line
            name, *rest = one.value.split(None, 1)
            pairs = [(name, _unquoted("".join(rest).strip()), 0)]
        for name, given, offset in pairs:
            plain = substitute(given, self.values)
            if plain is not None:
                self.values[name] = plain
            place = Place(self.path, one.line_at(offset))
            self.stages[-1].settings.append(Setting(name, given if plain is None else plain, place))

    def _run(self, one: Instruction) -> None:
        installed = self.stages[-1].installed
        if (words := _json(one.value.strip())) is not None:
            read_command([Word(fill(word, self.values), one.line) for word in words], self.path, installed)
            return
        (first, begin), *others = one.lines
        code = [(first, begin[_FLAGS.match(begin).end() :]), *others]  # type: ignore[union-attr]  # it can be empty
        code = [(number, text + "\\") for number, text in code[:-1]] + code[-1:]
        code += [(number, text) for number, text in one.heredocs if not text.lstrip().startswith("#")]
        read_commands([(number, fill(text, self.values)) for number, text in code], self.path, installed)


def _pairs(value: str) -> Iterator[tuple[str, str, int]]:
    """Names and values of ENV A="1 2" B=3, without the quotes, and where each begins."""
    for found in _PAIR.finditer(value):
        yield found[1], _unquoted(found[2]), found.start()


def _unquoted(text: str) -> str:
    return _QUOTING.sub(lambda found: _ESCAPED.sub(r"\1", found[1] or "") or found[2] or found[3] or "", text)


def _json(value: str) -> list[str] | None:
    """The words of RUN ["pip", "install"]; None for a shell command."""
    if not value.startswith("["):
        return None
    import json

    try:
        words = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else None
