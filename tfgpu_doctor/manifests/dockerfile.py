"""Dockerfile: the environment of the last stage, with the stages that it is built FROM."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import Any

from tfgpu_doctor.manifests import Environment, Image, ManifestError, Place, Setting
from tfgpu_doctor.manifests.containers import fill, read_image, substitute, unknown_part
from tfgpu_doctor.manifests.installing import Sources, pythons, with_files
from tfgpu_doctor.manifests.pip import Include
from tfgpu_doctor.manifests.shell import Installed, read_command, read_commands
from tfgpu_doctor.manifests.words import Word

_FROM = re.compile(r"(?:--platform=\S+\s+)?(?P<image>\S+)(?:\s+as\s+(?P<name>\S+))?\s*", re.IGNORECASE)
_HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_PAIR = re.compile(r"(\w+)=(\"(?:[^\"\\]|\\.)*\"|'[^']*'|(?:\\.|\S)*)")
_FROM_STAGE = re.compile(r"--from=(\w[\w.-]*)")
_PACKAGES = re.compile(r"venv|(?:site|dist)-packages|\.local\b|/usr/local(?:/lib[\w./]*)?(?:\s|$)|conda|/opt(?:/|\s|$)")
_ESCAPE = re.compile(r"(?:#[ \t]*\w+=.*\n)*?#[ \t]*escape[ \t]*=[ \t]*`", re.IGNORECASE)


@dataclass
class _Stage:
    name: str
    place: Place
    image: Image | None = None
    installed: Installed = field(default_factory=Installed)
    settings: list[Setting] = field(default_factory=list)
    sources: Sources = field(default_factory=Sources)


def read_dockerfile(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """The environment that a Dockerfile builds. Raises ManifestError: it has no FROM."""
    reader = _Reader(path, text)
    for instruction in reader.instructions():
        reader.take(instruction)
    if not reader.stages:
        raise ManifestError(f"{path}:1: no FROM instruction; a Dockerfile begins with FROM")
    stage = reader.stages[-1]
    requirements, not_understood = with_files(path, stage.installed, stage.sources, include)
    label = f"{path}, stage {stage.name}" if len(reader.stages) > 1 and stage.name else path
    return (
        Environment(
            kind="dockerfile",
            label=label,
            place=stage.place,
            python=tuple(pythons(stage.installed, requirements)),
            requirements=tuple(one for one in requirements if one.name != "python"),
            image=stage.image,
            settings=tuple({one.name: one for one in stage.settings}.values()),
            not_understood=(*(unknown_part(stage.image) if stage.image else ()), *not_understood),
        ),
    )


class _Reader:
    """Walks the instructions, stage by stage."""

    def __init__(self, path: str, text: str) -> None:
        text = text.replace("\r\n", "\n")
        if _ESCAPE.match(text):  # Windows containers; dockerfile-parse knows the backslash only
            text = re.sub(r"`([ \t]*)$", r"\\\1", text, flags=re.MULTILINE)
        self.path = path
        self.lines = _without_gaps(text.split("\n"))
        self.text = "\n".join(self.lines)
        self.values: dict[str, str] = {}
        self.stages: list[_Stage] = []

    def instructions(self) -> list[dict[str, Any]]:
        """What dockerfile-parse finds, without comments, and with the lines of a here-document left to its RUN."""
        from dockerfile_parse import DockerfileParser

        found: list[dict[str, Any]] = DockerfileParser(fileobj=io.BytesIO(self.text.encode())).structure
        kept: list[dict[str, Any]] = []
        until = -1
        for one in found:
            if one["startline"] <= until or one["instruction"] == "COMMENT":
                continue
            kept.append(one)
            if one["instruction"] in ("RUN", "COPY", "ADD") and (marker := _HEREDOC.search(one["value"])):
                until = self._end_of(marker[1], one["endline"])
                kept[-1] = {**one, "endline": until}
        return kept

    def _end_of(self, marker: str, start: int) -> int:
        following = range(start + 1, len(self.lines))
        return next((number for number in following if self.lines[number].strip() == marker), start)

    def take(self, one: dict[str, Any]) -> None:
        """Take one instruction."""
        value, place = one["value"], Place(self.path, one["startline"] + 1)
        match one["instruction"]:
            case "ARG":
                for name, given in _PAIR.findall(value):
                    if (default := substitute(_unquoted(given), self.values)) is not None:
                        self.values[name] = default
            case "FROM":
                self._begin(value, place)
            case "ENV" if self.stages:
                self._env(value, one)
            case "COPY" | "ADD" if self.stages:
                self.stages[-1].sources.copied(value)
                self._take_over(value)
            case "RUN" if self.stages:
                self._run(value, one)

    def _begin(self, value: str, place: Place) -> None:
        found = _FROM.fullmatch(value)
        if found is None:
            raise ManifestError(f"{place}: FROM takes an image, not {value[:200]!r}")
        reference = fill(found["image"], self.values)
        parent = next((one for one in self.stages if one.name and one.name.lower() == reference.lower()), None)
        stage = _Stage(found["name"] or "", place)
        if parent:
            stage.image = parent.image
            stage.settings += parent.settings
            stage.sources.names += parent.sources.names
            stage.installed.take(parent.installed)
        elif reference != "scratch":
            stage.image = read_image(found["image"], place, self.values)
        self.stages.append(stage)

    def _take_over(self, value: str) -> None:
        """COPY --from=builder /opt/venv /opt/venv brings what the builder installed there."""
        found = _FROM_STAGE.search(value)
        if found is None or not _PACKAGES.search(value):
            return
        for number, stage in enumerate(self.stages[:-1]):
            if found[1].lower() in (stage.name.lower(), str(number)):
                self.stages[-1].installed.take(stage.installed)

    def _env(self, value: str, one: dict[str, Any]) -> None:
        pairs = _PAIR.findall(value) if re.match(r"\w+=", value) else [value.partition(" ")[::2]]
        for name, given in pairs:
            text = _unquoted(given.strip())
            plain = substitute(text, self.values)
            if plain is not None:
                self.values[name] = plain
            place = Place(self.path, self._line_of(name, one))
            self.stages[-1].settings.append(Setting(name, text if plain is None else plain, place))

    def _line_of(self, name: str, one: dict[str, Any]) -> int:
        span = range(one["startline"], min(one["endline"] + 1, len(self.lines)))
        wanted = re.compile(rf"(?:^|\s){re.escape(name)}[=\s]")
        return next((number for number in span if wanted.search(self.lines[number])), one["startline"]) + 1

    def _run(self, value: str, one: dict[str, Any]) -> None:
        installed = self.stages[-1].installed
        if (words := _json(value)) is not None:
            line = one["startline"] + 1
            read_command([Word(fill(word, self.values), line) for word in words], self.path, installed)
            return
        span = range(one["startline"], min(one["endline"] + 1, len(self.lines)))
        code = [(number + 1, self.lines[number]) for number in span]
        kept = [(number, fill(line, self.values)) for number, line in code if not line.lstrip().startswith("#")]
        if kept:
            number, first = kept[0]
            kept[0] = (number, re.sub(r"^\s*RUN\s+(?:--\w+(?:=\S+)?\s+)*", "", first, flags=re.IGNORECASE))
        read_commands(kept, self.path, installed)


def _without_gaps(lines: list[str]) -> list[str]:
    """Empty lines inside a continued instruction become comments: dockerfile-parse passes over these only."""
    kept: list[str] = []
    continued = False
    for line in lines:
        blank = not line.strip()
        kept.append("#" if blank and continued else line)
        if not blank and not line.lstrip().startswith("#"):
            continued = line.rstrip().endswith("\\")
    return kept


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _json(value: str) -> list[str] | None:
    """The words of RUN ["pip", "install"]; None for a shell command."""
    if not value.startswith("["):
        return None
    import json

    try:
        words = json.loads(value)
    except ValueError:
        return None
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else None
