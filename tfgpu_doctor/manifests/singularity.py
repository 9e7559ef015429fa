"""Definition files of Singularity and Apptainer: the image of the last stage, and what %post installs."""

from __future__ import annotations

import re

from tfgpu_doctor.manifests import Environment, Place, Setting
from tfgpu_doctor.manifests.containers import read_image, unknown_part
from tfgpu_doctor.manifests.installing import Sources, pythons, with_files
from tfgpu_doctor.manifests.pip import Include
from tfgpu_doctor.manifests.shell import Installed, read_commands

_HEADER = re.compile(r"\s*(bootstrap|from|stage)\s*:\s*(\S+)\s*(?:#.*)?", re.IGNORECASE)
_SECTION = re.compile(r"%(\w+)")
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
    reference, line_of_image = header.get("from", ("", 1))
    place = Place(path, line_of_image)
    of_docker = header.get("bootstrap", ("",))[0].lower() in ("docker", "docker-daemon", "oras")
    image = read_image(reference, place) if reference and of_docker else None
    installed = Installed()
    read_commands(sections.get("post", []), path, installed)
    names = [line.split()[0] for _, line in sections.get("files", []) if line.split()]
    requirements, not_understood = with_files(path, installed, Sources(names), include)
    return (
        Environment(
            kind="singularity",
            label=path,
            place=place,
            python=tuple(pythons(installed, requirements)),
            requirements=tuple(one for one in requirements if one.name != "python"),
            image=image,
            settings=tuple(_settings(path, sections.get("environment", []))),
            not_understood=(*(unknown_part(image) if image else ()), *not_understood),
        ),
    )


def _settings(path: str, lines: list[tuple[int, str]]) -> list[Setting]:
    found = ((number, _EXPORT.fullmatch(line[:2000])) for number, line in lines)
    return [Setting(one[1], one[2].strip("\"'"), Place(path, number)) for number, one in found if one]
