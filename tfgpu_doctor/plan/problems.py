"""What is wrong with a machine whatever the release. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.matrix.compatibility import driver_reaches, drives, is_tegra, runs_on
from tfgpu_doctor.plan.constraints import PlanRequest, candidates, first_branch, last_branch, oldest_branch
from tfgpu_doctor.plan.target import NO_GLIBC

_JETSON_GUIDE = "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/index.html"


def problems(request: PlanRequest, *, no_gpu: bool, driver_hangs: bool) -> Iterator[str]:
    """What is wrong whatever the release."""
    names = (gpu.name or f"compute capability {gpu.compute_capability}" for gpu in request.target.gpus)
    cards = " and ".join(dict.fromkeys(names))
    if no_gpu:
        yield "This machine has no NVIDIA GPU. To plan for another GPU, name it: tfgpu plan --gpu 'RTX 4090'"
    if driver_hangs:
        yield "The NVIDIA driver does not respond, so the GPU and the driver version are unknown: run tfgpu doctor"
    if request.target.os == "macos":
        yield _no_cuda_on_macos(cards)
    if request.target.glibc == NO_GLIBC:
        yield (
            "This system has musl instead of glibc (Alpine), and TensorFlow has no wheels for it: use a system or an "
            "image with glibc, such as python:3.12-slim"
        )
    if any(map(is_tegra, request.target.capabilities)):
        yield (
            "On Jetson, TensorFlow comes with NVIDIA JetPack (own wheels, container images tagged -igpu or l4t): "
            f"{_JETSON_GUIDE}"
        )
    for card in request.target.capabilities:
        if not _any_kernels(request, card):
            yield f"No published wheel of TensorFlow has kernels for compute capability {card}"
    if request.target.driver:
        yield from _other_driver(request, request.target.driver, cards)


def _other_driver(request: PlanRequest, have: str, cards: str) -> Iterator[str]:
    """The driver is older or newer than those for the GPUs."""
    first, bound, last = first_branch(request), oldest_branch(request), last_branch(request)
    if first and not driver_reaches(have, first):
        yield f"Driver {have} does not support {cards}: driver branch {first} is the first that does"
    elif bound and not driver_reaches(have, bound):
        yield f"Driver {have} is probably too old for {cards}: the first GPU of its architecture came with {bound}"
    if not drives(have, None, last):
        yield f"Driver {have} no longer supports {cards}: driver branch {last} is the last that does"


def _no_cuda_on_macos(cards: str) -> str:
    unusable = f", so {cards} cannot be used" if cards else ""
    return (
        f"macOS has no CUDA{unusable}: TensorFlow runs on the CPU, or with tensorflow-metal on the GPU of Apple silicon"
    )


def _any_kernels(request: PlanRequest, card: str) -> bool:
    platforms = ("linux_x86_64", "windows_amd64")
    rows = (row for platform in platforms for row in candidates(request.matrix, platform))
    return any(row.gpu and runs_on(row, card) == "sass" for row in rows)
