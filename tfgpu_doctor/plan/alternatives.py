"""Ways beside the wheels with CUDA: images, conda-forge, builds for the CPU and for macOS. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.matrix.compatibility import driver_reaches, drives, dropped_by, is_tegra, oldest_driver, runs_on
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.matrix.schema import CondaBuild, Container
from tfgpu_doctor.plan.constraints import PlanRequest, branch_to_go_back_to, first_branch, last_branch, on_windows
from tfgpu_doctor.plan.install_commands import (
    OLD_PIP,
    OLDEST_OF_UV,
    check_conda,
    list_gpus,
    missing_on_macos,
    newer_pip,
    what_may_be_missing,
)
from tfgpu_doctor.plan.records import Option, older_than_five_years
from tfgpu_doctor.plan.target import NO_GLIBC, Target
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.records.versions import capability, major, minor, numbers

_DATA_CENTRE = re.compile(r"(nvidia )?(tesla |[ablvhp]\d{1,3}\b|t4\b|k[2468]0|gh200|gb[23]00|l40s)", re.IGNORECASE)
PUBLISHED = "tensorflow/tensorflow"  # images that hold the published wheel
TOOLKIT_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"


def alternatives(request: PlanRequest) -> list[Option]:
    """Images and conda-forge's build, the newest TensorFlow first."""
    found = [*container_images(request), *conda_builds(request)]
    return sorted(found, key=lambda option: Version(option.tensorflow).release, reverse=True)


def after_a_driver_change(request: PlanRequest) -> Iterator[Option]:
    """Images and conda-forge's builds that only want another driver."""
    target, back = structs.replace(request.target, driver=None), branch_to_go_back_to(request)
    for option in alternatives(replace(request, target=target)) if request.target.driver else ():
        where = f"branch {back}, the last that supports this GPU" if back else f"{option.min_driver} or newer"
        first = Fix(f"Install NVIDIA driver {where}. Then restart")
        title = f"{option.title}, after a driver {'downgrade' if back else 'update'}"
        yield structs.replace(option, title=title, first=(first, *option.first))


def container_images(request: PlanRequest) -> Iterator[Option]:
    """The newest image of each publisher that fits; one that only wants a newer driver where none does."""
    if request.target.os == "macos" or any(map(is_tegra, request.target.capabilities)):
        return  # the images for Jetson (-igpu, l4t) belong to a JetPack, which the matrix does not list
    offered = set[str]()
    rows = sorted(request.matrix.data.containers, key=lambda row: (Version(row.tensorflow), row.tag), reverse=True)
    for row in rows:
        fits = _holds_kernels(request, row) and _asked_for(request, row.tensorflow) and _driver_runs(request, row)
        if fits and row.image not in offered:
            offered.add(row.image)
            yield _container(request, row)


def _holds_kernels(request: PlanRequest, row: Container) -> bool:
    """Whether an image has kernels for every card, as far as its publisher or its CUDA says."""
    if request.target.platform.replace("windows_amd64", "linux_x86_64") not in row.platforms:
        return False
    release = _wheel_in(request, row)
    if release and not _opens_its_cudnn(row, release):
        return False
    return all(_has_kernels_for(request.matrix, row, release, card) for card in request.target.capabilities)


def _has_kernels_for(matrix: Matrix, row: Container, release: Release | None, card: str) -> bool:
    if row.min_compute_capability and capability(card) < capability(row.min_compute_capability):
        return False
    if release:
        return runs_on(release, card) == "sass"
    if not row.sass and not row.min_compute_capability:
        return False  # its publisher does not say
    toolkit = matrix.cuda(row.cuda)
    built = row.sass or (toolkit.compute_capabilities if toolkit else ())
    return any(_same_major(one, card) for one in built)


def _opens_its_cudnn(row: Container, release: Release) -> bool:
    """cuDNN of the same major as the wheel was compiled with, and no older.

    tensorflow/tensorflow 2.18.0 to 2.21.0 hold cuDNN 8.9, but the wheel in them opens libcudnn.so.9.
    """
    if row.cudnn is None or release.cudnn is None:
        return True
    have, need = numbers(row.cudnn), numbers(release.cudnn)
    return have[0] == need[0] and have >= need


def _same_major(built: str, card: str) -> bool:
    return capability(built)[0] == capability(card)[0] and capability(built) <= capability(card)


def _driver_runs(request: PlanRequest, row: Container) -> bool:
    have, need = request.target.driver, _driver_of(request, row)
    if have is None or need is None:
        return need is not None
    if not drives(have, first_branch(request), last_branch(request)):
        return False
    return driver_reaches(have, need) or major(have) in _forward_compatible(request, row)


def _driver_of(request: PlanRequest, row: Container) -> str | None:
    """The oldest driver that runs an image on the cards; None: none that supports them does."""
    need, toolkit = row.min_driver, request.matrix.cuda(row.cuda)
    if on_windows(request.target) and toolkit:
        pairs = (
            (toolkit.min_driver_linux, toolkit.min_driver_windows),
            (toolkit.minor_compat_min_linux, toolkit.minor_compat_min_windows),
        )
        need = next((windows for linux, windows in pairs if windows and major(linux) == major(need)), need)
    need = max([one for one in (need, first_branch(request), _driver_of_wheel(request, row)) if one], key=Version)
    last = last_branch(request)
    if last is None or int(major(need)) <= int(last):
        return need
    return last if last in _forward_compatible(request, row) else None


def _wheel_in(request: PlanRequest, row: Container) -> Release | None:
    """The published wheel in an image of TensorFlow's own."""
    return request.matrix.tensorflow(row.tensorflow, "linux_x86_64") if row.image == PUBLISHED else None


def _driver_of_wheel(request: PlanRequest, row: Container) -> str | None:
    wheel = _wheel_in(request, row)
    return oldest_driver(wheel, request.target.capabilities, windows=on_windows(request.target)) if wheel else None


def _forward_compatible(request: PlanRequest, row: Container) -> tuple[str, ...]:
    """Older driver branches that run an image by CUDA's forward compatibility: data-centre GPUs on Linux.

    The image brings the libcuda of its own CUDA, which compiles no PTX of a later one.
    """
    wheel = _wheel_in(request, row)
    by_ptx = [one for card in request.target.capabilities if wheel and (one := wheel.ptx_only.get(card))]
    if any(Version(minor(row.cuda)) < Version(one.cuda) for one in by_ptx):
        return ()
    return row.data_center_branches if is_data_centre(request.target) and request.target.os == "linux" else ()


def is_data_centre(target: Target) -> bool:
    """Whether every card is one on which CUDA's forward compatibility is supported, as far as names tell."""
    return bool(target.gpus) and all(_DATA_CENTRE.match(gpu.name or "") for gpu in target.gpus)


def _asked_for(request: PlanRequest, version: str) -> bool:
    return request.specifier is None or request.specifier.contains(version, prereleases=True)


def _container(request: PlanRequest, row: Container) -> Option:
    image = f"{row.image}:{row.tag}"
    return Option(
        kind="container",
        title=f"TensorFlow {Version(row.tensorflow).public} in the container {image}",
        tensorflow=row.tensorflow,
        package=row.image,
        python=row.python,
        cuda=row.cuda,
        cudnn=row.cudnn,
        min_driver=_driver_of(request, row),
        first=(_docker(request),),
        commands={"docker": (f"docker run --gpus all --shm-size=1g -it --rm {image}",)},
        notes=tuple(_branch_note(request, row)),
        then=(Fix("Check it", (f'docker run --gpus all --rm {image} python -c "{list_gpus(row.tensorflow)}"',)),),
        see=TOOLKIT_GUIDE,
        sources=(request.matrix.data.sources[row.source].title,),
    )


def _branch_note(request: PlanRequest, row: Container) -> Iterator[str]:
    branch = major(request.target.driver or last_branch(request))
    if branch in _forward_compatible(request, row):
        yield f"On data-center GPUs, driver branch {branch} works as well (CUDA forward compatibility)"


def _docker(request: PlanRequest) -> Fix:
    if request.target.os == "windows":
        return Fix("Install Docker Desktop with the WSL2 back end")
    return Fix("Install Docker and the NVIDIA Container Toolkit")


def conda_builds(request: PlanRequest) -> Iterator[Option]:
    """The newest GPU build of conda-forge that fits."""
    if request.target.glibc == NO_GLIBC:
        return
    rows = (row for row in request.matrix.data.conda_forge if row.platform == request.target.platform and row.cuda)
    for row in sorted(rows, key=lambda row: Version(row.version), reverse=True):
        cuda = _cuda_for(request, row)
        fits = (
            cuda and (row.sass or row.ptx) and all(runs_on(row, card) == "sass" for card in request.target.capabilities)
        )
        if fits and cuda and _asked_for(request, row.version):
            yield _conda(request, row, cuda)
            return


def _cuda_for(request: PlanRequest, row: CondaBuild) -> str | None:
    """The newest of its CUDA versions that the driver runs."""
    have = request.target.driver
    for cuda in sorted(row.cuda, key=Version, reverse=True):
        need, last = _oldest_driver(request, row, cuda), last_branch(request)
        exists = last is None or need is None or int(major(need)) <= int(last)
        runs = have is None or (drives(have, first_branch(request), last) and need and driver_reaches(have, need))
        if exists and runs:
            return cuda
    return None


def _oldest_driver(request: PlanRequest, row: CondaBuild, cuda: str) -> str | None:
    """By minor-version compatibility; that of the CUDA itself where the generated kernels are PTX alone."""
    toolkit = request.matrix.cuda(cuda)
    if toolkit is None:
        return None
    if any(all(not _same_major(one, card) for one in row.sass) for card in request.target.capabilities):
        return toolkit.min_driver_windows if on_windows(request.target) else toolkit.min_driver_linux
    return toolkit.oldest_driver_windows if on_windows(request.target) else toolkit.oldest_driver_linux


def _conda(request: PlanRequest, row: CondaBuild, cuda: str) -> Option:
    python = request.target.python if request.target.python in row.python else row.python[-1]
    oldest = _oldest_driver(request, row, cuda)
    spec = f"'tensorflow={row.version}=cuda{cuda.replace('.', '')}*'"
    limit = dropped_by(request.matrix, row.cudnn, cuda, request.target.capabilities)
    held = f" 'cudnn<{limit}'" if limit else ""
    return Option(
        kind="conda-forge",
        title=f"TensorFlow {row.version} from conda-forge",
        tensorflow=row.version,
        package="conda-forge",
        python=python,
        cuda=cuda,
        cudnn=row.cudnn,
        min_driver=max([one for one in (oldest, first_branch(request)) if one], key=Version, default=None),
        commands={"conda": (f"conda create -y -n tf -c conda-forge --override-channels python={python} {spec}{held}",)},
        then=(check_conda("tf"),),
        notes=(f"Where conda detects no GPU (login node), prepend CONDA_OVERRIDE_CUDA={cuda} to the command",),
        sources=(request.matrix.data.sources[row.source].title,),
    )


def on_cpu(request: PlanRequest, interpreter: str | None) -> Iterator[Option]:
    """The newest release for the target's Python, and the newest with another Python where that is newer.

    Args:
        interpreter: a program of the machine that is the target's Python.
    """
    rows = list(_rows(request))
    wanted = request.target.python
    newest = next(iter(rows), None)
    here = next((row for row in rows if wanted in row.python), None)
    found = [(here, str(wanted), "")] if here else []
    if newest and newest is not here:
        python = newest.python[-1]
        found.append((newest, python, f" with Python {python}" if wanted else ""))
    for row, python, suffix in sorted(found, key=lambda one: older_than_five_years(request.matrix, one[0].released)):
        yield _for_cpu(row, python, suffix, interpreter if not suffix else None)


def _rows(request: PlanRequest) -> Iterator[Release]:
    target = request.target
    for row in request.matrix.stable(platform=target.platform, package="tensorflow"):
        asked = request.specifier is None or request.specifier.contains(row.version, prereleases=True)
        old = target.glibc == NO_GLIBC or (row.glibc and target.glibc and Version(target.glibc) < Version(row.glibc))
        if asked and row.python and not old and not row.yanked:
            yield row


def _for_cpu(row: Release, python: str, suffix: str, interpreter: str | None) -> Option:
    commands, start = _commands(row, python, interpreter), interpreter or f"python{python}"
    folder = "tf\\Scripts\\python" if row.platform.startswith("windows") else "~/tf/bin/python"
    there = interpreter is not None
    missing: Iterable[Fix] = ()
    if row.platform.startswith("macos"):
        missing = missing_on_macos(python, start, there=there)
    elif not row.platform.startswith("windows"):
        missing = what_may_be_missing(tuple(commands), python, start, there=there)
    return Option(
        kind="cpu",
        title=f"TensorFlow {row.version} on the CPU{suffix}",
        tensorflow=row.version,
        package=row.package,
        python=python,
        pythons=row.python,
        cuda=None,
        cudnn=None,
        min_driver=None,
        released=row.released,
        commands=commands,
        missing=tuple(missing),
        then=(Fix("Check it", (f'{folder} -c "import tensorflow as tf; print(tf.__version__)"',)),),
    )


def _commands(row: Release, python: str, interpreter: str | None) -> dict[str, tuple[str, ...]]:
    package = f"{row.package}=={row.version}"
    if row.platform.startswith("windows"):
        return {"pip": (f"py -{python} -m venv tf", f"tf\\Scripts\\python -m pip install {package}")}
    pip = "~/tf/bin/python -m pip install"
    made = f"{interpreter or f'python{python}'} -m venv ~/tf"
    if python == "2.7":  # has no module venv
        made = "virtualenv -p python2.7 ~/tf"
    upgrade = (f"{pip} --upgrade {newer_pip(python)}",) if capability(python) <= OLD_PIP else ()
    found = {"pip": (made, *upgrade, f"{pip} {package}")}
    if capability(python) >= OLDEST_OF_UV:
        found["uv"] = (f"uv venv --python {python} ~/tf", f"uv pip install --python ~/tf/bin/python {package}")
    return found
