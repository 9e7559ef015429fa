"""compose.yaml and Kubernetes: containers that are started, their images, settings and GPUs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tfgpu_doctor.manifests import Environment, GpuRequest, IncludeError, ManifestError, Setting, quoted
from tfgpu_doctor.manifests.dockerfile import read_dockerfile
from tfgpu_doctor.manifests.pip import Include, Node
from tfgpu_doctor.manifests.variables import fill, hole, machine_of, read_image, unknown_part

MOST_PARENTS = 10
_VARIABLE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)=\s*([^#]*?)\s*(?:\s#.*)?")


def read_compose(path: str, root: Node, include: Include) -> tuple[Environment, ...]:
    """Every service with an image or a build."""
    found = (_service(path, name, root, node, include) for name, node in root.pairs("services"))
    return tuple(one for one in found if one.image or one.build_context or one.read or one.not_understood)


def _extended(root: Node, node: Node) -> list[Node]:
    """A service, and those of its file that it extends, the nearest first."""
    chain = [node]
    while (extends := chain[-1].get("extends")) and extends.get("file") is None and len(chain) < MOST_PARENTS:
        if (parent := root.get("services", extends.text or extends.string("service") or "")) is None:
            break
        chain.append(parent)
    return chain


def _service(path: str, name: str, root: Node, node: Node, include: Include) -> Environment:
    chain = _extended(root, node)
    image, build = _first(chain, "image"), [build for one in chain if (build := one.get("build"))]
    known = image.text if image and not build else None
    read = read_image(known, image.place, _values(known, include)) if image and known else None
    elsewhere = chain[-1].get("extends")
    found = Environment(
        kind="compose",
        label=f"service {name}",
        place=image.place if image else node.place,
        image=read,
        machine=machine_of(next((text for one in chain if (text := one.string("platform"))), "")),
        settings=tuple({one.name: one for one in _settings(chain)}.values()),
        gpu=next(_gpu(chain), GpuRequest(None, elsewhere.place, "extends") if elsewhere else None),
        not_understood=(
            *((f"{elsewhere.place}: what it extends is not read; give its lines here",) if elsewhere else ()),
            *unknown_part(read),
        ),
    )
    return _built(path, found, build, include) if build else found


def _values(text: str, include: Include) -> Mapping[str, str]:
    """The variables that a text needs: those of .env, which compose reads beside its file."""
    try:
        lines = include(".env").splitlines()[:1000] if "$" in text else []
    except IncludeError:
        return {}
    found = (_VARIABLE.fullmatch(line[:2000]) for line in lines)
    return {one[1]: one[2].strip("\"'") for one in found if one}


def _first(chain: list[Node], *keys: str) -> Node | None:
    return next((found for node in chain if (found := node.get(*keys))), None)


def _built(path: str, one: Environment, builds: list[Node], include: Include) -> Environment:
    """A service with what its Dockerfile installs, where that can be read; each key of the nearest `build` counts."""

    def given(text: str | None, default: str = "") -> str:
        return fill(text, _values(text, include)) if text else default

    def key(name: str) -> str | None:
        return next((text for build in builds if (text := build.string(name))), None)

    folder = posixpath.dirname(path)
    context = given(next((build.text for build in builds if build.text), None) or key("context"), ".")
    name = posixpath.join(context, given(key("dockerfile"), "Dockerfile"))
    dockerfile = posixpath.normpath(posixpath.join(folder, name))
    arguments = [each for build in builds[::-1] for each in _variables(build, "args")]
    try:
        found = read_dockerfile(
            dockerfile,
            include(posixpath.normpath(name)),
            lambda file: include(posixpath.normpath(posixpath.join(context, file))),
            stage=given(key("target")) or None,
            arguments={each.name: given(each.value) for each in arguments if each.value},
            context=posixpath.normpath(posixpath.join(folder, context)),
        )[0]
    except IncludeError:
        return replace(one, build_context=dockerfile)  # it can be among the other files that are named
    except ManifestError:  # its message may repeat parts of a file that is something else
        note = f"{one.place}: {quoted(name)} has no such stage, or is not a Dockerfile"
        return replace(one, not_understood=(*one.not_understood, note))
    return replace(merged(one, found), read=(*one.read, dockerfile, *found.read))


def merged(one: Environment, found: Environment) -> Environment:
    """A container with what its Dockerfile installs."""
    of_build = ("image", "python", "requirements", "packages_of", "apt_update", "system_pip")
    return replace(
        one,
        **{name: getattr(found, name) for name in of_build},
        machine=one.machine or found.machine,
        settings=(*found.settings, *one.settings),
        texts={**found.texts, **one.texts},
        not_understood=(*one.not_understood, *found.not_understood),
    )


def _variables(node: Node, key: str) -> Iterator[Setting]:
    """A mapping, or a list of NAME=value; one without a value is the host's, and not known."""
    for name, value in node.pairs(key):
        if value.text is not None:
            yield Setting(name, value.text, value.place)
    for item in node.items(key):
        name, given, text = (item.text or "").partition("=")
        if given:
            yield Setting(name, text, item.place)


def _settings(chain: list[Node]) -> Iterator[Setting]:
    """Variables and sizes, of the farthest parent first."""
    for node in reversed(chain):
        yield from (replace(one, value=fill(one.value, {})) for one in _variables(node, "environment"))
    if (shm := _first(chain, "shm_size")) and shm.text:
        yield Setting("shm_size", fill(shm.text, {}), shm.place)
    if (ipc := _first(chain, "ipc")) and ipc.text == "host":
        yield Setting("ipc", "host", ipc.place)


def _gpu(chain: list[Node]) -> Iterator[GpuRequest]:
    """gpus: all, a reservation of devices, CDI's device names, or runtime: nvidia."""
    if gpus := _first(chain, "gpus"):
        yield GpuRequest(None, gpus.place, f"gpus: {gpus.text or 'a list'}")
    yield from (request for node in chain for request in _reserved(node))
    for device in (device for node in chain for device in node.items("devices")):
        if (device.text or "").startswith("nvidia.com/gpu="):
            yield GpuRequest(None, device.place, f"devices: {device.text}")
    runtime = _first(chain, "runtime")
    if runtime and runtime.text == "nvidia":
        yield GpuRequest(None, runtime.place, "runtime: nvidia")


def _reserved(node: Node) -> Iterator[GpuRequest]:
    for device in node.items("deploy", "resources", "reservations", "devices"):
        names = {one.text for listed in device.items("capabilities") for one in (listed, *listed.items())}
        count, driver = device.string("count"), device.string("driver")
        number = int(count) if count and count.isdecimal() else len(device.items("device_ids")) or None
        if names & {"gpu", "nvidia"}:
            shown = f"devices: {driver or 'nvidia'}, count {count or number or 'all'}"
            yield GpuRequest(number, device.place, shown)


# the lists of containers of a pod, and of Argo's templates; those beside the first may do without a GPU
_CONTAINERS = {
    "containers": "container",
    "initContainers": "init container",
    "ephemeralContainers": "ephemeral container",
    "sidecars": "sidecar",
}


def read_kubernetes(roots: list[Node]) -> tuple[Environment, ...]:
    """Every container of every object."""
    return tuple(one for root in roots for one in _object(root))


def _object(root: Node) -> Iterator[Environment]:
    kind = root.string("kind") or ""
    if kind.endswith("List"):
        for item in root.items("items"):
            yield from _object(item)
    else:
        yield from _below(f"{kind} {root.string('metadata', 'name') or ''}".strip(), root, "")


def _below(label: str, node: Node, key: str) -> Iterator[Environment]:
    """The containers of each pod, wherever it stands: below a template, a jobTemplate, a replica of Kubeflow's jobs."""
    listed = [(name, one) for name in _CONTAINERS for one in node.items(name)]
    if key == "templates" and (one := node.get("container")):
        listed.append(("containers", one))
    containers = [(name, one) for name, one in listed if one.string("image")]
    others = any(_gpu_of_kubernetes(one) for _, one in containers)
    for name, container in containers:
        is_for_gpus = re.search(r"tensorflow|nvidia|cuda|gpu", str(container.string("image"))) is not None
        needs_one = name == "containers" and (not others or is_for_gpus)
        yield _container(label, node, container, name, needs_one=needs_one, several=len(containers) > 1)
    for name, below in node.pairs():
        role = f"{label}, {name}" if key.endswith("ReplicaSpecs") else label
        yield from _below(role, below, name)
        for item in node.items(name) if name not in _CONTAINERS else ():
            yield from _below(role, item, name)


def _container(label: str, pod: Node, container: Node, listed: str, *, needs_one: bool, several: bool) -> Environment:
    image = container.get("image")
    assert image and image.text
    read, settings = read_image(image.text, image.place), tuple(_settings_of_pod(pod, container))
    by_runtime, wanted = _by_runtime(pod, settings)
    gpu, needs_one = _gpu_of_kubernetes(container) or by_runtime, needs_one and wanted
    name = f", {_CONTAINERS[listed]} {container.string('name') or ''}" if several else ""
    return Environment(
        kind="kubernetes",
        label=f"{label}{name}",
        place=image.place,
        image=read,
        machine=machine_of(pod.string("nodeSelector", "kubernetes.io/arch") or ""),
        settings=settings,
        gpu=gpu or (_by_its_node(pod) if needs_one else None),
        no_gpu=gpu is None and not needs_one,
        not_understood=unknown_part(read),
    )


def _by_runtime(pod: Node, settings: Iterable[Setting]) -> tuple[GpuRequest | None, bool]:
    """The GPUs that NVIDIA's runtime gives a container by a variable, as its default configuration lets it; any wanted?

    https://docs.nvidia.com/datacenter/cloud-native/container-toolkit: "void" and "none" ask for none.
    """
    runtime = pod.get("runtimeClassName")
    named = next((one for one in settings if one.name == "NVIDIA_VISIBLE_DEVICES"), None)
    if not runtime or not named:
        return None, True
    none = named.value in ("void", "none", "")
    return (None if none else GpuRequest(None, runtime.place, f"runtimeClassName: {runtime.text}")), not none


def _settings_of_pod(pod: Node, container: Node) -> Iterator[Setting]:
    """Variables, a volume in memory that is mounted at /dev/shm, the host's IPC namespace."""
    for item in container.items("env"):
        if (value := item.get("value")) and value.text is not None:
            yield Setting(item.string("name") or "", value.text, value.place)
    mounts = {one.string("name") for one in container.items("volumeMounts") if one.string("mountPath") == "/dev/shm"}
    for volume in pod.items("volumes"):
        if volume.string("name") in mounts and volume.string("emptyDir", "medium") == "Memory":
            limit = volume.string("emptyDir", "sizeLimit")
            yield Setting("shm_size", limit or "unlimited", volume.place)
    if (ipc := pod.get("hostIPC")) and ipc.text == "true":
        yield Setting("ipc", "host", ipc.place)


def _gpu_of_kubernetes(container: Node) -> GpuRequest | None:
    """nvidia.com/gpu, or a MIG slice, under limits; under requests alone it is refused.

    "Limit must be set for non overcommitable resources": github.com/kubernetes/kubernetes/pull/57170.
    """
    resources = container.get("resources")
    given = resources.get("limits") or resources if resources else None
    if given and given.text and hole(given.text):
        return GpuRequest(None, given.place, given.text)  # a template, which may ask for some
    refused = "without a limit, the API server refuses the request"
    asked = [
        (name != _REMOVED, name, node, problem)
        for section, problem in (("limits", None), ("requests", refused))
        for name, node in container.pairs("resources", section)
        if name.startswith("nvidia.com/") or name == _REMOVED
    ]
    if asked:  # what no node has any more keeps the pod from starting, whatever else it asks for
        _, name, node, problem = min(asked, key=lambda one: one[0])
        other = container.string("resources", "requests", name) or node.text
        return _resource(name, node, problem or _unequal(node.text, other))
    claim = next(iter(container.items("resources", "claims")), None)  # dynamic resource allocation
    return GpuRequest(None, claim.place, f"claims: {claim.string('name') or ''}") if claim else None


def _unequal(limit: str | None, request: str | None) -> str | None:
    """Why the API server refuses these: GPUs are whole numbers, and the two are equal.

    https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
    """
    fraction = re.fullmatch(r"(\d*\.0*[1-9]\d*)|(\d+)m", limit or "")
    if fraction and (fraction[1] or int(fraction[2]) % 1000):
        return f"{limit} is no whole number, and the API server refuses it"
    if (limit or "").isdecimal() and (request or "").isdecimal() and int(limit or 0) != int(request or 0):
        return f"its request is {request} and its limit {limit}, which the API server refuses"
    return None


_REMOVED = "alpha.kubernetes.io/nvidia-gpu"


def _resource(name: str, node: Node, problem: str | None) -> GpuRequest:
    text = node.text or ""
    count = int(text) if text.isdecimal() else None  # of a template one or more
    problem = "Kubernetes 1.11 removed this resource" if name == _REMOVED else problem
    return GpuRequest(count, node.place, f"{name}: {text}", "its limit is 0" if count == 0 else problem)


def _by_its_node(pod: Node) -> GpuRequest | None:
    """A node selector that names GPUs; it brings a pod to a node, and gives it no device."""
    for name, node in pod.pairs("nodeSelector"):
        text = f"{name}: {node.text or ''}"
        if re.search(r"gpu|nvidia|accelerator", text, re.IGNORECASE) and node.text not in ("false", "no"):
            return GpuRequest(None, node.place, f"nodeSelector {text}", "its limits ask for none")
    return None
