"""Ways beside the wheels with CUDA: images, conda-forge, builds for the CPU and for macOS. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.facts.report import Fix
from tfgpu_doctor.facts.versions import capability, major, minor
from tfgpu_doctor.matrix.compatibility import (
    driver_on,
    driver_reaches,
    drives,
    dropped_by,
    is_tegra,
    jetson_commands,
    oldest_driver,
    runs_on,
)
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.matrix.queries import takes_cudnn
from tfgpu_doctor.matrix.schema import CondaBuild, Container, JetPack, JetsonWheel
from tfgpu_doctor.plan.constraints import CONSTRAINTS, PlanRequest, outside_wsl
from tfgpu_doctor.plan.install_commands import CHECK_CONDA, INSTALL_CONDA, Installation, list_gpus, python_for
from tfgpu_doctor.plan.records import Option, older_than_five_years
from tfgpu_doctor.plan.target import NO_GLIBC, Target

_DATA_CENTRE = re.compile(r"(nvidia )?(tesla |[ablvhp]\d{1,3}\b|t4\b|k[2468]0|gh200|gb[23]00|l40s)", re.IGNORECASE)
PUBLISHED = "tensorflow/tensorflow"  # images that hold the published wheel
TOOLKIT_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"


def alternatives(request: PlanRequest) -> list[Option]:
    """Images and conda-forge's build, the newest TensorFlow first."""
    found = [*_container_images(request), *_conda_builds(request), *_jetson_wheels(request)]
    return sorted(found, key=lambda option: Version(option.tensorflow).release, reverse=True)


def after_a_driver_change(request: PlanRequest) -> Iterator[Option]:
    """Images and conda-forge's builds that only want another driver."""
    target = structs.replace(request.target, driver=None)
    for option in alternatives(replace(request, target=target)) if request.target.driver else ():
        title, first = driver_change(request, option.min_driver)
        yield structs.replace(option, title=option.title + title, first=(first, *option.first))


def driver_change(request: PlanRequest, need: str | None) -> tuple[str, Fix]:
    """Return what a title says of another driver for the cards, and how to get it."""
    last, where = request.last_branch, " in Windows, not WSL" if request.target.os == "wsl2" else ""
    if back := request.branch_to_go_back_to:
        text = f"Install NVIDIA driver branch {back}, the last that supports this GPU{where}. Then restart"
        return f" after a downgrade to driver branch {back}", Fix(text)
    until = f"; branch {last} is the last that supports this GPU" if last else ""
    text = f"Install NVIDIA driver {need} or newer{where}{until}. Then restart"
    return f" after a driver update to {need}", Fix(text)


def is_data_centre(target: Target) -> bool:
    """Whether every card is one on which CUDA's forward compatibility is supported, as far as names tell."""
    return bool(target.gpus) and all(_DATA_CENTRE.match(gpu.name or "") for gpu in target.gpus)


def _same_major(built: str, card: str) -> bool:
    return capability(built)[0] == capability(card)[0] and capability(built) <= capability(card)


def _container_images(request: PlanRequest) -> Iterator[Option]:
    """The newest image of each publisher that fits; one that only wants a newer driver where none does."""
    if request.target.os == "macos" or any(map(is_tegra, request.target.capabilities)):
        return  # the images for Jetson (-igpu, l4t) belong to a JetPack
    if request.target.os == "windows" and outside_wsl(structs.replace(request.target, os="wsl2")):
        return  # Docker Desktop runs them in WSL2
    offered = set[str]()
    for row in sorted(request.matrix.data.containers, key=lambda row: (Version(row.tensorflow), row.tag), reverse=True):
        if row.image not in offered and request.admits(row.tensorflow) and (option := _container_image(request, row)):
            offered.add(row.image)
            yield option


def _container_image(request: PlanRequest, row: Container) -> Option | None:
    """An image with kernels for every card that the driver runs, or some driver where none is given."""
    target = request.target
    # the published wheel, in an image of TensorFlow's own
    wheel = request.matrix.tensorflow(row.tensorflow, "linux_x86_64") if row.image == PUBLISHED else None
    of_driver = request.matrix.issues_for(wheel, driver=request.target.driver) if wheel else ()
    if not _has_kernels(request, row, wheel) or any(one.condition.driver for one in of_driver):
        return None
    older = _forward_compatible(target, row, wheel)
    need = _driver_of_image(request, row, wheel, older)
    return _image_option(request, row, need, older) if need and _runs(request, need, older) else None


def _image_option(request: PlanRequest, row: Container, need: str, older: tuple[str, ...]) -> Option:
    target, image = request.target, f"{row.image}:{row.tag}"
    branch = major(target.driver or request.last_branch)
    forward = f"On data-center GPUs, driver branch {branch} works as well (CUDA forward compatibility)"
    later = _later_than(row, target, request.matrix)
    unverified = f", not verified on compute capability {later[0]}" if later else ""
    desktop = target.os == "windows" and "Install Docker Desktop with the WSL2 back end"
    return Option(
        kind="container",
        title=f"TensorFlow {Version(row.tensorflow).public} in the container {image}{unverified}",
        tensorflow=row.tensorflow,
        package=row.image,
        python=row.python,
        cuda=row.cuda,
        cudnn=row.cudnn,
        min_driver=need,
        first=(Fix(desktop or "Install Docker and the NVIDIA Container Toolkit"),),
        commands={"docker": (f"docker run --gpus all --shm-size=1g -it --rm {image}",)},
        notes=(*([forward] if branch in older else ()), *doubts_of(row, target, request.matrix)),
        then=(Fix("Check it", (f'docker run --gpus all --rm {image} python -c "{list_gpus(row.tensorflow)}"',)),),
        see=TOOLKIT_GUIDE,
        sources=(request.matrix.data.sources[row.source].title,),
    )


def _later_than(row: Container, target: Target, matrix: Matrix) -> list[str]:
    """The cards that the CUDA of an image does not know: they run what it has for an earlier one of their major."""
    toolkit = matrix.cuda(row.cuda)
    known = toolkit.compute_capabilities if toolkit else target.capabilities
    return [card for card in target.capabilities if card not in known]


def doubts_of(row: Container, target: Target, matrix: Matrix) -> Iterator[str]:
    """Yield what is not known of an image on the cards, or what reports of it contradict."""
    for card in _later_than(row, target, matrix):
        model = matrix.architecture(card)
        other = f"; the other way is a build from source, with CUDA {model.min_cuda} or later" if model else ""
        yield f"CUDA {row.cuda} is older than compute capability {card}: whether this image runs on it is open{other}"
    yield from (text for card, text in row.reported.items() if card in target.capabilities)


def _has_kernels(request: PlanRequest, row: Container, wheel: Release | None) -> bool:
    """True if an image has kernels for every card, as far as its publisher or its CUDA says."""
    if request.target.platform.replace("windows_amd64", "linux_x86_64") not in row.platforms:
        return False
    if wheel and wheel.cudnn and not takes_cudnn(wheel, row.cudnn):
        return False  # tensorflow/tensorflow 2.18.0 to 2.21.0: they hold cuDNN 8.9, and the wheel opens libcudnn.so.9
    floor, toolkit = row.min_compute_capability, request.matrix.cuda(row.cuda)
    # without either, its publisher does not say
    built = row.sass or (toolkit.compute_capabilities if toolkit and floor else ())
    for card in request.target.capabilities:
        runs = runs_on(wheel, card) == "sass" if wheel else any(_same_major(one, card) for one in built)
        if not runs or (floor and capability(card) < capability(floor)):
            return False
    return True


def _forward_compatible(target: Target, row: Container, wheel: Release | None) -> tuple[str, ...]:
    """Older driver branches that run an image by CUDA's forward compatibility: data-centre GPUs on Linux.

    The image brings the libcuda of its own CUDA, which compiles no PTX of a later one.
    """
    by_ptx = [one for card in target.capabilities if wheel and (one := wheel.ptx_only.get(card))]
    if any(Version(minor(row.cuda)) < Version(one.cuda) for one in by_ptx):
        return ()
    return row.data_center_branches if is_data_centre(target) and target.os == "linux" else ()


def _driver_of_image(request: PlanRequest, row: Container, wheel: Release | None, older: tuple[str, ...]) -> str | None:
    """The oldest driver that runs an image on the cards; None: none that supports them does."""
    need, toolkit = row.min_driver, request.matrix.cuda(row.cuda)
    os = "wsl2" if request.target.os == "windows" else request.target.os  # where Docker Desktop runs it
    if os == "wsl2" and toolkit:
        pairs = {toolkit.min_driver_linux: toolkit.min_driver_windows}
        pairs[toolkit.minor_compat_min_linux] = toolkit.minor_compat_min_windows
        need = next((there for here, there in pairs.items() if there and major(here) == major(need)), need)
        need = driver_on(os, None, need) or need
    of_wheel = oldest_driver(wheel, request.target.capabilities, os) if wheel else None
    need = max([one for one in (need, request.least_branch, of_wheel) if one], key=Version)
    if request.driver_exists(need):
        return need
    return request.last_branch if request.last_branch in older else None


def _conda_builds(request: PlanRequest) -> Iterator[Option]:
    """The newest GPU build of conda-forge that fits, with the newest CUDA that the driver runs."""
    target = request.target
    rows = (row for row in request.matrix.data.conda_forge if row.platform == target.platform and row.cuda)
    for row in sorted(rows, key=lambda row: Version(row.version), reverse=True):
        compiled = (row.sass or row.ptx) and all(runs_on(row, card) == "sass" for card in target.capabilities)
        if target.glibc == NO_GLIBC or not compiled or not request.admits(row.version):
            continue
        for cuda in sorted(row.cuda, key=Version, reverse=True):
            need = _driver_of_conda(request, row, cuda)
            if _runs(request, need):
                yield _conda(request, row, cuda, need)
                return


def _runs(request: PlanRequest, need: str | None, older: tuple[str, ...] = ()) -> bool:
    """True if the driver (any, where none is given) drives the cards and is as new as needed, or of an older branch."""
    have = request.target.driver
    if have is None:
        return request.driver_exists(need)
    is_enough = driver_reaches(have, need) or major(have) in older
    return is_enough and drives(have, request.least_branch, request.last_branch) and request.driver_exists(need)


def _driver_of_conda(request: PlanRequest, row: CondaBuild, cuda: str) -> str | None:
    """By minor-version compatibility; that of the CUDA itself where the generated kernels are PTX alone."""
    toolkit, os = request.matrix.cuda(cuda), request.target.os
    if toolkit is None:
        return None
    if any(all(not _same_major(one, card) for one in row.sass) for card in request.target.capabilities):
        return driver_on(os, toolkit.min_driver_linux, toolkit.min_driver_windows)
    return driver_on(os, toolkit.oldest_driver_linux, toolkit.oldest_driver_windows)


def _conda(request: PlanRequest, row: CondaBuild, cuda: str, need: str | None) -> Option:
    python = request.target.python if request.target.python in row.python else row.python[-1]
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
        min_driver=max((one for one in (need, request.least_branch) if one), key=Version, default=None),
        commands={"conda": (f"conda create -n tf -c conda-forge --override-channels python={python} {spec}{held}",)},
        missing=(Fix("conda is missing", (INSTALL_CONDA,)),),
        then=(CHECK_CONDA,),
        notes=(f"Where conda detects no GPU (login node), prepend CONDA_OVERRIDE_CUDA={cuda} to the command",),
        sources=(request.matrix.data.sources[row.source].title,),
    )


# NVIDIA, "Installing TensorFlow for Jetson Platform", Prerequisites and Dependencies
_FOR_H5PY = Fix(
    "Install what pip builds h5py with",
    (
        "sudo apt-get update",
        "sudo apt-get install -y python3-pip libhdf5-serial-dev hdf5-tools libhdf5-dev zlib1g-dev zip libjpeg8-dev "
        "liblapack-dev libblas-dev gfortran",
    ),
)


def _jetson_wheels(request: PlanRequest) -> Iterator[Option]:
    """NVIDIA's wheels for Jetson modules, each with the newest JetPack that it is for, which brings the Python."""
    cards, python = {*request.target.capabilities}, request.target.python
    rows = [row for row in request.matrix.data.jetpacks if row.wheels and cards & {*row.compute_capabilities}]
    is_other = python not in (None, *(row.python for row in rows))  # that of the JetPack is there, too
    own = "/usr/bin/python3" if is_other else "python3"
    found: dict[str, tuple[JetPack, JetsonWheel]] = {}
    for row in rows:
        wheel = next((one for one in row.wheels if request.admits(one.tensorflow)), None)
        if wheel and (is_other or python in (None, row.python)):
            found.setdefault(wheel.tensorflow, (row, wheel))
    for row, wheel in found.values():
        installed = (command.replace("python3", own, 1) for command in jetson_commands(row, wheel))
        yield Option(
            kind="jetpack",
            title=f"TensorFlow {Version(wheel.tensorflow).public}, NVIDIA's wheel for JetPack {row.version}"
            + (f", with its Python {row.python}" if is_other else ""),
            tensorflow=wheel.tensorflow,
            package="tensorflow",
            python=row.python,
            cuda=row.cuda,
            cudnn=row.cudnn,
            first=(Fix("See which Jetson Linux the module has", ("cat /etc/nv_tegra_release",)), _FOR_H5PY),
            commands={"pip": tuple(installed)},
            then=(Fix("Check it", (f'{own} -c "{list_gpus(wheel.tensorflow)}"',)),),
            notes=(f"JetPack {row.version} is Jetson Linux {row.l4t}, which brings the driver, CUDA and cuDNN",),
            sources=(request.matrix.data.sources[row.source].title,),
        )


def on_cpu(request: PlanRequest, interpreter: str | None, others: Mapping[str, str] = {}) -> Iterator[Option]:
    """The newest release for the target's Python, and the newest with another Python where that is newer.

    Args:
        interpreter: a program of the machine that is the target's Python.
        others: programs that are other Pythons there, by version.
    """
    target, matrix = request.target, request.matrix
    names = ("tensorflow", "glibc", "macos", "yanked")
    known = (row for row in matrix.stable(platform=target.platform, package="tensorflow") if row.python)
    rows = [row for row in known if not any(CONSTRAINTS[name](request, row) for name in names)]
    here = next((row for row in rows if target.python in row.python), None)
    found = [_cpu_option(request, here, str(target.python), interpreter)] if here else []
    if rows and rows[0] is not here:
        python, program = python_for(rows[0], others) if target.python else (rows[0].python[-1], interpreter)
        found.append(_cpu_option(request, rows[0], python, program))
    return iter(sorted(found, key=lambda one: older_than_five_years(matrix, one.released)))


def _cpu_option(request: PlanRequest, row: Release, python: str, interpreter: str | None) -> Option:
    target = request.target
    installation = Installation(request.matrix, target, row, python, interpreter, on_cpu=True)
    program = "tf\\Scripts\\python" if target.os == "windows" else "~/tf/bin/python"
    with_python = "" if target.python in (None, python) else f" with Python {python}"
    return Option(
        kind="cpu",
        title=f"TensorFlow {row.version} on the CPU{with_python}",
        tensorflow=row.version,
        package=row.package,
        python=python,
        pythons=row.python,
        released=row.released,
        commands=installation.commands,
        missing=tuple(installation.missing()),
        then=(Fix("Check it", (f'{program} -c "import tensorflow as tf; print(tf.__version__)"',)),),
    )
