"""Dockerfile: the environment of the last stage, with the stages that it is built FROM."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field, replace
from typing import Any

from tfgpu_doctor.manifests import Environment, Image, ManifestError, Place, Requirement, Setting
from tfgpu_doctor.manifests.containers import read_image, substitute
from tfgpu_doctor.manifests.pip import Include, read_requirements
from tfgpu_doctor.manifests.shell import Installed, read_commands

_FROM = re.compile(r"(?:--platform=\S+\s+)?(?P<image>\S+)(?:\s+as\s+(?P<name>\S+))?\s*", re.IGNORECASE)
_HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_PAIR = re.compile(r"(\w+)=(\"(?:[^\"\\]|\\.)*\"|'[^']*'|\S*)")


@dataclass
class _Stage:
    name: str
    place: Place
    image: Image | None = None
    installed: Installed = field(default_factory=Installed)
    settings: list[Setting] = field(default_factory=list)


def read_dockerfile(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """The environment that a Dockerfile builds.

    Raises:
        ManifestError: it has no FROM.
    """
    reader = _Reader(path, text)
    for instruction in reader.instructions():
        reader.take(instruction)
    if not reader.stages:
        raise ManifestError(f"{path}:1: a Dockerfile begins with FROM, and this has none")
    stage = reader.stages[-1]
    requirements, not_understood = _with_files(stage.installed, include)
    label = f"{path}, stage {stage.name}" if len(reader.stages) > 1 and stage.name else path
    return (
        Environment(
            kind="dockerfile",
            label=label,
            place=stage.place,
            python=tuple(_pythons(requirements)),
            requirements=tuple(one for one in requirements if one.name != "python"),
            image=stage.image,
            settings=tuple(stage.settings),
            not_understood=tuple(not_understood),
        ),
    )


class _Reader:
    """Walks the instructions, stage by stage."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.lines = text.splitlines()
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
            if marker := _HEREDOC.search(one["value"]):
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
                name, given, default = value.partition("=")
                if given:
                    self.values[name.strip()] = substitute(default.strip().strip("\"'"), self.values) or ""
            case "FROM":
                self._begin(value, place)
            case "ENV" if self.stages:
                self._env(value, place)
            case "RUN" if self.stages:
                span = range(one["startline"], min(one["endline"] + 1, len(self.lines)))
                code = [(number + 1, self.lines[number]) for number in span]
                kept = [(number, line) for number, line in code if not line.lstrip().startswith("#")]
                read_commands(_filled(kept, self.values), self.path, self.stages[-1].installed)

    def _begin(self, value: str, place: Place) -> None:
        found = _FROM.fullmatch(value)
        if found is None:
            raise ManifestError(f"{place}: FROM takes an image, not {value!r}")
        reference = substitute(found["image"], self.values) or found["image"]
        parent = next((one for one in self.stages if one.name.lower() == reference.lower()), None)
        stage = _Stage(found["name"] or "", place)
        if parent:
            stage.image = parent.image
            stage.settings += parent.settings
            stage.installed.requirements += parent.installed.requirements
            stage.installed.files += parent.installed.files
        elif reference != "scratch":
            stage.image = read_image(found["image"], place, self.values)
        self.stages.append(stage)

    def _env(self, value: str, place: Place) -> None:
        pairs = _PAIR.findall(value) if re.match(r"\w+=", value) else [value.partition(" ")[::2]]
        for name, given in pairs:
            plain = substitute(given.strip().strip("\"'"), self.values)
            if plain is not None:
                self.values[name] = plain
            self.stages[-1].settings.append(Setting(name, given.strip().strip("\"'"), place))


def _filled(lines: list[tuple[int, str]], values: dict[str, str]) -> list[tuple[int, str]]:
    """RUN lines with the ARGs and ENVs that are known; the leading RUN and its options are dropped."""
    filled = [(number, substitute(line, values) or line) for number, line in lines]
    if filled:
        number, first = filled[0]
        filled[0] = (number, re.sub(r"^\s*RUN\s+(?:--\w+(?:=\S+)?\s+)*", "", first, flags=re.IGNORECASE))
    return filled


def _with_files(installed: Installed, include: Include) -> tuple[list[Requirement], list[str]]:
    """The requirements, with those of the files that are installed, where these can be read."""
    requirements, not_understood = list(installed.requirements), list(installed.not_understood)
    for kind, name, place in installed.files:
        candidates = (name, name.rsplit("/", 1)[-1])
        text, beside = next(((text, one) for one in candidates if (text := include(one)) is not None), (None, name))
        if text is None:
            not_understood.append(f"{place}: {name} cannot be read")
        elif kind == "requirements":
            folder = place.path.rpartition("/")
            (found,) = read_requirements(f"{folder[0]}{folder[1]}{beside}", text, include)
            requirements += found.requirements
            not_understood += found.not_understood
        else:
            from tfgpu_doctor.manifests.conda import read_environment
            from tfgpu_doctor.manifests.nodes import documents

            for root in documents(beside, text)[:1]:
                (found,) = read_environment(beside, root)
                requirements += [*found.python, *found.requirements]
    return requirements, not_understood


def _pythons(requirements: list[Requirement]) -> list[Requirement]:
    """Python from conda, or from apt's python3.9."""
    pythons = [one for one in requirements if one.name == "python" and one.installer == "conda"]
    if pythons:
        return pythons
    for one in requirements:
        if one.installer == "apt" and (found := re.fullmatch(r"python(3\.\d+)", one.name)):
            return [replace(one, name="python", specifier=f"=={found[1]}.*")]
    return []
