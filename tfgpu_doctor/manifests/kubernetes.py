"""Kubernetes manifests: an environment for each container of a pod, whatever makes the pod."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.manifests import Environment, GpuRequest, Setting
from tfgpu_doctor.manifests.containers import read_image, read_quantity, unknown_part
from tfgpu_doctor.manifests.nodes import Node
from tfgpu_doctor.manifests.templates import hole

# where the pod stands below an object, by kind
_PODS: dict[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_TEMPLATE = ("spec", "template", "spec")  # Deployment, StatefulSet, DaemonSet, ReplicaSet, Job ...
_REPLICAS = ("tfReplicaSpecs", "mpiReplicaSpecs", "pytorchReplicaSpecs")  # Kubeflow's jobs


def is_kubernetes(root: Node) -> bool:
    """Whether a YAML document is a Kubernetes object."""
    return root.string("apiVersion") is not None and root.string("kind") is not None


def read_kubernetes(roots: list[Node]) -> tuple[Environment, ...]:
    """Every container of every object."""
    return tuple(one for root in roots for one in _object(root))


def _object(root: Node) -> Iterator[Environment]:
    kind = root.string("kind") or ""
    for item in root.items("items") if kind.endswith("List") else ():
        yield from _object(item)
    name = f"{kind} {root.string('metadata', 'name') or ''}".strip()
    pods = [(name, root.get(*_PODS.get(kind, _TEMPLATE)))]
    for replicas in _REPLICAS:
        roles = root.get("spec", replicas)
        pods += [(f"{name}, {role}", node.get("template", "spec")) for role, node in (roles.pairs() if roles else ())]
    for label, pod in pods:
        if pod is not None:
            yield from _pod(label, pod)


def _pod(label: str, pod: Node) -> Iterator[Environment]:
    containers = pod.items("containers")
    for container in containers:
        image = container.get("image")
        if image is None or image.text is None:
            continue
        several = f", container {container.string('name') or ''}" if len(containers) > 1 else ""
        read = read_image(image.text, image.place)
        yield Environment(
            kind="kubernetes",
            label=f"{label}{several}",
            place=image.place,
            image=read,
            settings=(*_variables(container), *_shm(pod, container), *_runtime(pod)),
            gpu=_gpu(container),
            not_understood=unknown_part(read),
        )


def _variables(container: Node) -> Iterator[Setting]:
    for item in container.items("env"):
        value = item.get("value")
        if value is not None and value.text is not None and (name := item.string("name")):
            yield Setting(name, value.text, value.place)


def _runtime(pod: Node) -> Iterator[Setting]:
    if (runtime := pod.get("runtimeClassName")) and runtime.text:
        yield Setting("runtimeClassName", runtime.text, runtime.place)


def _shm(pod: Node, container: Node) -> Iterator[Setting]:
    """A volume in memory that is mounted at /dev/shm, and the host's IPC namespace."""
    mounts = {one.string("name") for one in container.items("volumeMounts") if one.string("mountPath") == "/dev/shm"}
    for volume in pod.items("volumes"):
        if volume.string("name") in mounts and volume.string("emptyDir", "medium") == "Memory":
            limit = volume.string("emptyDir", "sizeLimit")
            yield Setting("shm_size", read_quantity(limit) if limit else "unlimited", volume.place)
    if (ipc := pod.get("hostIPC")) and ipc.text == "true":
        yield Setting("ipc", "host", ipc.place)


def _gpu(container: Node) -> GpuRequest | None:
    """nvidia.com/gpu, or a MIG slice, under limits; requests alone, or others than the limits, are refused."""
    resources = container.get("resources")
    given = resources.get("limits") or resources if resources else None
    if given and given.text and hole(given.text):
        return GpuRequest(1, given.place, given.text)  # a template, which may ask for some
    limits, requests = _devices(container, "limits"), _devices(container, "requests")
    if not limits and not requests:
        claim = next(iter(container.items("resources", "claims")), None)  # dynamic resource allocation
        return GpuRequest(None, claim.place, f"claims: {claim.string('name') or ''}") if claim else None
    name, node = next(iter((limits or requests).items()))
    return GpuRequest(_count(node), node.place, f"{name}: {node.text}", _problem(name, limits, requests))


def _count(node: Node) -> int | None:
    """How many; of a template one or more."""
    text = node.text or ""
    return int(text) if text.isdecimal() else 1 if hole(text) else None


def _problem(name: str, limits: dict[str, Node], requests: dict[str, Node]) -> str | None:
    """Why the request has no effect."""
    if name not in limits:
        return "it stands under requests only, and Kubernetes wants it under limits"
    limit = limits[name]
    if _count(limit) == 0:
        return "its limit is 0"
    if name in requests and requests[name].text != limit.text:
        return f"requests say {requests[name].text} and limits {limit.text}; they must be equal"
    return None


def _devices(container: Node, section: str) -> dict[str, Node]:
    node = container.get("resources", section)
    return {name: one for name, one in (node.pairs() if node else ()) if name.startswith("nvidia.com/")}
