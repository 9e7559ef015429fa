"""devcontainer.json: the container that an editor works in."""

from __future__ import annotations

import json
import re
from typing import Any

from tfgpu_doctor.manifests import Environment, GpuRequest, ManifestError, Place, Setting
from tfgpu_doctor.manifests.building import Build, built
from tfgpu_doctor.manifests.containers import read_image, read_size, unknown_part
from tfgpu_doctor.manifests.pip import Include
from tfgpu_doctor.manifests.toml_project import table, texts

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


def read_devcontainer(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """Its image, or what its Dockerfile makes. Raises ManifestError: no valid JSON with comments."""
    data = _json(path, text)
    image = data.get("image")
    place = Place(path, _line(text, '"image"' if image else '"build"', '"dockerFile"'))
    arguments = texts(data.get("runArgs"))
    found = Environment(
        kind="devcontainer",
        label=path,
        place=place,
        image=read_image(image, place) if isinstance(image, str) else None,
        settings=_settings(path, text, data, arguments),
        gpu=_gpu(path, text, data, arguments),
    )
    if found.image:
        return (Environment(**{**vars(found), "not_understood": unknown_part(found.image)}),)
    build = table(data, "build")
    dockerfile = build.get("dockerfile") or data.get("dockerFile")
    if not isinstance(dockerfile, str):
        return (found,)
    context = build.get("context") or data.get("context") or "."
    given = {name: value for name, value in table(build, "args").items() if isinstance(value, str)}
    target = build.get("target")
    stage = target if isinstance(target, str) else None
    return (built(path, found, Build(str(context), dockerfile, stage, given), include),)


def _json(path: str, text: str) -> dict[str, Any]:
    def kept(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else "\n" * found[0].count("\n")

    try:
        data = json.loads(_TOKEN.sub(kept, _TOKEN.sub(kept, text)))
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path}:{getattr(error, 'lineno', 1)}: invalid JSON") from error
    return data if isinstance(data, dict) else {}


def _line(text: str, *words: str) -> int:
    """The first line with one of some words, in their order; 1 where there is none."""
    at = next((index for word in words if (index := text.find(word)) >= 0), 0)
    return text.count("\n", 0, at) + 1


def _settings(path: str, text: str, data: dict[str, Any], arguments: list[str]) -> tuple[Setting, ...]:
    variables = {**table(data, "containerEnv"), **table(data, "remoteEnv")}
    found = [
        Setting(name, value, Place(path, _line(text, f'"{name}"')))
        for name, value in variables.items()
        if isinstance(value, str)
    ]
    for index, one in enumerate(arguments):
        option, _, value = one.partition("=")
        size = value or (arguments[index + 1] if index + 1 < len(arguments) else "")
        if option == "--shm-size":
            found.append(Setting("shm_size", read_size(size), Place(path, _line(text, f'"{one}"'))))
    return tuple(found)


def _gpu(path: str, text: str, data: dict[str, Any], arguments: list[str]) -> GpuRequest | None:
    for index, one in enumerate(arguments):
        option, _, value = one.partition("=")
        if option in ("--gpus", "--runtime"):
            asked = value or (arguments[index + 1] if index + 1 < len(arguments) else "")
            if option == "--gpus" or asked == "nvidia":
                return GpuRequest(None, Place(path, _line(text, f'"{one}"')), f"{option} {asked}")
    wanted = table(data, "hostRequirements").get("gpu")
    if wanted:
        return GpuRequest(None, Place(path, _line(text, '"gpu"')), "hostRequirements: gpu")
    return None
