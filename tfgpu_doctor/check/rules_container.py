"""Rules about the GPU of a service or a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.check.engine import Problem, rule
from tfgpu_doctor.check.view import View
from tfgpu_doctor.records.report import Evidence, Fix, Severity

_LIMITS = ("resources:", "  limits:", "    nvidia.com/gpu: 1")
_RESERVATION = (
    "deploy:",
    "  resources:",
    "    reservations:",
    "      devices:",
    "        - driver: nvidia",
    "          count: all",
    "          capabilities: [gpu]",
)
_SHM = (
    "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]",
    "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
)


@rule("container.no-gpu")
def no_gpu(view: View) -> Iterator[Problem]:
    """A service or a pod whose image is made for GPUs, without a GPU."""
    environment = view.environment
    if environment.kind not in ("compose", "kubernetes"):
        return
    kubernetes = environment.kind == "kubernetes"
    need = "resources.limits nvidia.com/gpu: 1" if kubernetes else "a device reservation with capabilities: [gpu]"
    if environment.gpu is None and (view.wants_gpu or (view.release and view.extra)):
        yield Problem(
            f"{environment.label} asks for no GPU",
            "Kubernetes gives a container only the devices under its limits"
            if kubernetes
            else "Docker gives a container no GPU unless it is asked to",
            (Evidence(_image(view) or environment.label, str(environment.place), need, _gpu_docs(kubernetes)),),
            (Fix("Add to the container", _LIMITS if kubernetes else _RESERVATION),),
        )
    elif environment.gpu and environment.gpu.problem:
        request = environment.gpu
        yield Problem(
            f"{environment.label} gets no GPU: {request.problem}",
            "the request stands in the file, but has no effect",
            (Evidence(request.text, str(request.place), need, _gpu_docs(kubernetes)),),
            (Fix("Write it as", _LIMITS if kubernetes else _RESERVATION),),
        )


@rule("gpu.hidden")
def hidden(view: View) -> Iterator[Problem]:
    """A variable that hides every GPU."""
    for one in view.environment.settings:
        nvidia = one.name == "NVIDIA_VISIBLE_DEVICES" and one.value.strip().lower() in ("none", "void", "")
        cuda = one.name == "CUDA_VISIBLE_DEVICES" and one.value.strip() in ("-1", "", "none", "None", "NoDevFiles")
        if view.wants_gpu and (nvidia or cuda):
            yield Problem(
                f"{one.name} hides every GPU",
                "TensorFlow will list no GPU, and run on the CPU",
                (
                    Evidence(
                        f"{one.name}={one.value}", str(one.place), "no such line, or all", "CUDA environment variables"
                    ),
                ),
                (Fix(f"Take the line out of {one.place}"),),
            )


@rule("shm.small")
def small_shm(view: View) -> Iterator[Problem]:
    """Several GPUs talk over /dev/shm, of which a container has 64 MiB."""
    request = view.environment.gpu
    several = request is not None and (request.count is None or request.count > 1)
    given = any(one.name in ("shm_size", "ipc") for one in view.environment.settings)
    if several and not given and request and view.environment.kind in ("compose", "kubernetes"):
        kubernetes = view.environment.kind == "kubernetes"
        yield Problem(
            "/dev/shm has 64 MiB, and several GPUs are asked for",
            "NCCL and the workers of an input pipeline use it; a run over several GPUs can fail there",
            (Evidence(request.text, str(request.place), "1 GiB or more", "NVIDIA's container notes"),),
            (Fix("Add", _SHM if kubernetes else ("shm_size: 1gb",)),),
            Severity.WARNING,
        )


def _gpu_docs(kubernetes: bool) -> str:
    if kubernetes:
        return "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/"
    return "https://docs.docker.com/compose/how-tos/gpu-support/"


def _image(view: View) -> str | None:
    return view.base.image.reference if view.base else None
