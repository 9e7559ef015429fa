"""Compose files: an environment for each service."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from tfgpu_doctor.manifests import Environment, GpuRequest, Image, Place, Setting
from tfgpu_doctor.manifests.containers import read_image, read_size
from tfgpu_doctor.manifests.nodes import Node


def is_compose(root: Node) -> bool:
    """Whether a YAML document is a compose file."""
    return root.get("services") is not None


def read_compose(path: str, root: Node) -> tuple[Environment, ...]:
    """Every service with an image or a build."""
    services = root.get("services")
    found = [_service(path, name, node) for name, node in (services.pairs() if services else ())]
    return tuple(one for one in found if one.image or one.build_context)


def _service(path: str, name: str, node: Node) -> Environment:
    image = node.get("image")
    build = _build(path, node)
    read: Image | None = None
    if image and image.text and build is None:
        read = read_image(image.text, Place(path, image.line))
    return Environment(
        kind="compose",
        label=f"service {name}",
        place=Place(path, node.line if image is None else image.line),
        image=read,
        settings=tuple(_settings(path, node)),
        gpu=_gpu(path, node),
        build_context=build,
    )


def _build(path: str, node: Node) -> str | None:
    """The Dockerfile that a service is built from, relative as the compose file is."""
    build = node.get("build")
    if build is None:
        return None
    context = build.text or build.string("context") or "."
    dockerfile = build.string("dockerfile") or "Dockerfile"
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), context, dockerfile))


def _settings(path: str, node: Node) -> Iterator[Setting]:
    variables = node.get("environment")
    if variables:
        for name, value in variables.pairs():
            yield Setting(name, value.text or "", Place(path, value.line))
        for item in variables.items():
            name, given, text = (item.text or "").partition("=")
            if given:
                yield Setting(name, text, Place(path, item.line))
    if (shm := node.get("shm_size")) and shm.text:
        yield Setting("shm_size", read_size(shm.text), Place(path, shm.line))
    if (ipc := node.get("ipc")) and ipc.text == "host":
        yield Setting("ipc", "host", Place(path, ipc.line))


def _gpu(path: str, node: Node) -> GpuRequest | None:
    """gpus: all, runtime: nvidia, or a reservation of devices."""
    if gpus := node.get("gpus"):
        return GpuRequest(None, Place(path, gpus.line), f"gpus: {gpus.text or 'a list'}")
    problem = None
    for device in node.items("deploy", "resources", "reservations", "devices"):
        names = [one.text for one in device.items("capabilities")]
        names += [inner.text for one in device.items("capabilities") for inner in one.items()]
        count, ids = device.string("count"), device.items("device_ids")
        number = int(count) if count and count.isdecimal() else len(ids) or None
        place = Place(path, device.line)
        if "gpu" in names or "nvidia" in names:
            return GpuRequest(number, place, f"devices: {device.string('driver') or 'nvidia'}, count {count or 'all'}")
        if device.string("driver") == "nvidia":
            problem = GpuRequest(number, place, "driver: nvidia", "its capabilities do not name gpu")
    runtime = node.get("runtime")
    if runtime and runtime.text == "nvidia":
        return GpuRequest(None, Place(path, runtime.line), "runtime: nvidia")
    return problem
