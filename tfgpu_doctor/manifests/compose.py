"""Compose files: an environment for each service."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TypeAlias

from tfgpu_doctor.manifests import Environment, GpuRequest, Image, IncludeError, ManifestError, Setting, quoted
from tfgpu_doctor.manifests.containers import fill, read_image, read_size, unknown_part
from tfgpu_doctor.manifests.nodes import Node, documents, template
from tfgpu_doctor.manifests.pip import Include

MOST_PARENTS = 10

Others: TypeAlias = Callable[[str], "tuple[Node | None, str]"]  # a file → its content, or why it is not known


def is_compose(root: Node) -> bool:
    """Whether a YAML document is a compose file."""
    return root.get("services") is not None


def read_compose(path: str, root: Node, include: Include) -> tuple[Environment, ...]:
    """Every service with an image or a build. Raises ManifestError: a key stands twice, or the file is a template."""
    services = root.get("services")
    others = cache(partial(_root_of, path, include))
    found = (_service(path, name, root, node, others) for name, node in (services.pairs() if services else ()))
    return tuple(one for one in found if one.image or one.build_context)


def _root_of(path: str, include: Include, file: str) -> tuple[Node | None, str]:
    """The content of another file, or why it is not known."""
    try:
        text = include(file)
        found = documents(posixpath.normpath(posixpath.join(posixpath.dirname(path), file)), text)[:1]
    except IncludeError as error:
        return None, str(error)
    except ManifestError:  # its message may repeat parts of a file that is something else
        return None, "is not valid YAML"
    return (found[0], "") if found else (None, "is empty")


def _service(path: str, name: str, root: Node, node: Node, others: Others) -> Environment:
    not_understood: list[str] = []
    chain = _extended(root, node, others, not_understood)
    image, build = _first(chain, "image"), _build(path, chain)
    read: Image | None = None
    if image and image.text and build is None:
        if "{{" in image.text:
            raise template(image.place)
        read = read_image(image.text, image.place)
        not_understood += unknown_part(read)
    return Environment(
        kind="compose",
        label=f"service {name}",
        place=image.place if image else node.place,
        image=read,
        settings=tuple({one.name: one for one in _settings(chain)}.values()),
        gpu=_gpu(chain),
        build_context=build,
        not_understood=tuple(not_understood),
    )


def _extended(root: Node, node: Node, others: Others, not_understood: list[str]) -> list[Node]:
    """The service and those that it extends, the nearest first."""
    chain = [node]
    while (extends := chain[-1].get("extends")) and len(chain) < MOST_PARENTS:
        file, name = extends.string("file"), extends.text or extends.string("service") or ""
        if file:
            found, reason = others(file)
            if found is None:
                not_understood.append(f"{extends.place}: {quoted(file)} {reason}")
                break
            root = found
        parent = root.get("services", name)
        if parent is None:
            not_understood.append(f"{extends.place}: there is no service {name} to extend")
            break
        chain.append(parent)
    return chain


def _first(chain: list[Node], *keys: str) -> Node | None:
    return next((found for node in chain if (found := node.get(*keys))), None)


def _build(path: str, chain: list[Node]) -> str | None:
    """The Dockerfile that a service is built from, relative as the compose file is."""
    build = _first(chain, "build")
    if build is None:
        return None
    context = fill(build.text or build.string("context") or ".", {})
    dockerfile = fill(build.string("dockerfile") or "Dockerfile", {})
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), context, dockerfile))


def _settings(chain: list[Node]) -> Iterator[Setting]:
    """Variables, of the farthest parent first; one without a value is the host's, and not known."""
    for node in reversed(chain):
        variables = node.get("environment")
        for name, value in variables.pairs() if variables else ():
            if value.text is not None:
                yield Setting(name, fill(value.text, {}), value.place)
        for item in variables.items() if variables else ():
            name, given, text = (item.text or "").partition("=")
            if given:
                yield Setting(name, fill(text, {}), item.place)
    if (shm := _first(chain, "shm_size")) and shm.text:
        yield Setting("shm_size", read_size(fill(shm.text, {})), shm.place)
    if (ipc := _first(chain, "ipc")) and ipc.text == "host":
        yield Setting("ipc", "host", ipc.place)


def _gpu(chain: list[Node]) -> GpuRequest | None:
    """gpus: all, runtime: nvidia, CDI's device names, or a reservation of devices."""
    if gpus := _first(chain, "gpus"):
        return GpuRequest(_counted(gpus), gpus.place, f"gpus: {gpus.text or 'a list'}")
    found = [request for node in chain for request in _reserved(node)]
    if effective := next((one for one in found if one.problem is None), None):
        return effective
    if device := _cdi_device(chain):
        return GpuRequest(None, device.place, f"devices: {device.text}")
    runtime = _first(chain, "runtime")
    if runtime and runtime.text == "nvidia":
        return GpuRequest(None, runtime.place, "runtime: nvidia")
    return found[0] if found else None


def _cdi_device(chain: list[Node]) -> Node | None:
    devices = (device for node in chain for device in node.items("devices"))
    return next((one for one in devices if (one.text or "").startswith("nvidia.com/gpu=")), None)


def _counted(gpus: Node) -> int | None:
    """How many GPUs a list of devices names; None where one of them does not say."""
    counts = [_count(one) for one in gpus.items() if one.string("driver") in (None, "nvidia")]
    known = [one for one in counts if one is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _reserved(node: Node) -> Iterator[GpuRequest]:
    for device in node.items("deploy", "resources", "reservations", "devices"):
        names = [one.text for one in device.items("capabilities")]
        names += [inner.text for one in device.items("capabilities") for inner in one.items()]
        number, driver = _count(device), device.string("driver")
        if "gpu" in names or "nvidia" in names:
            shown = f"devices: {driver or 'nvidia'}, count {device.string('count') or number or 'all'}"
            yield GpuRequest(number, device.place, shown)
        elif driver == "nvidia":
            yield GpuRequest(number, device.place, "driver: nvidia", "its capabilities do not name gpu")


def _count(device: Node) -> int | None:
    count = device.string("count")
    return int(count) if count and count.isdecimal() else len(device.items("device_ids")) or None
