"""Signs over the environment that a manifest describes."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from tfgpu_doctor.findings.declaration import DECLARATIONS, Problem
from tfgpu_doctor.findings.manifest_signs import CONDA_RECIPE, USE_PIP, conda_builds, in_manifests
from tfgpu_doctor.matrix.compatibility import cudnn_limit, driver_reaches, runs_on
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.alternatives import is_data_centre
from tfgpu_doctor.plan.file_edits import replacement, with_extra, write
from tfgpu_doctor.plan.planned import Cuda, PlannedEnvironment
from tfgpu_doctor.records.report import Evidence, Fix, Severity
from tfgpu_doctor.records.versions import capability, minor

GUIDE = "https://www.tensorflow.org/install/pip"


# --- cuda
@in_manifests(
    DECLARATIONS["cuda.version-mismatch"],
    unless=("tf.package-removed", "tf.python-unsupported", "tf.windows-native", "tf.cpu-build"),
)
def cuda_mismatch(view: PlannedEnvironment) -> Iterator[Problem]:
    """CUDA of another major version than TensorFlow loads, and nothing that brings the right one."""
    row = view.release
    if row is None or row.cuda is None or view.extra or view.conda:
        return
    others = [one for one in view.cudas if one.major != row.cuda.split(".")[0]]
    if not others or any(one.major == row.cuda.split(".")[0] for one in view.cudas):
        return
    yield Problem(
        title=f"TensorFlow {row.version} loads CUDA {minor(row.cuda)}, but {others[0].text} brings {others[0].version}",
        cause="the names of the libraries carry their version, so another CUDA cannot stand in",
        evidence=tuple(
            Evidence(one.text, one.place, f"CUDA {row.cuda}", f"TensorFlow {row.version} ({view.where})")
            for one in others
        ),
        fixes=tuple(_for_cuda(view, row, others[0])),
    )


def _for_cuda(view: PlannedEnvironment, row: Release, other: Cuda) -> Iterator[Fix]:
    """Either side can give way."""
    if view.tensorflow and row.extra and (better := with_extra(view, row)):
        yield write(view.tensorflow, better)
    if view.base and view.base.cuda == other.version and view.base.flavour:
        cudnn = (
            f"-cudnn{row.cudnn.split('.')[0]}" if row.cudnn and Version(minor(row.cuda)) < Version("12.4") else "-cudnn"
        )
        yield Fix(f"Or, in {view.base.image.place}, take a tag nvidia/cuda:{minor(row.cuda)}.x{cudnn}-runtime-...")
    rows = [one for one in view.matrix.releases(platform=view.target.platform, package="tensorflow") if one.cuda]
    older = next((one for one in rows if not one.prerelease and (one.cuda or "").split(".")[0] == other.major), None)
    if view.tensorflow and older:
        text = f"{older.package}=={older.version}"
        yield Fix(f"Or, in {view.tensorflow.place}, write {text}: it loads CUDA {minor(older.cuda)}")


@in_manifests(
    DECLARATIONS["cuda.missing"],
    unless=(
        "tf.package-removed",
        "tf.python-unsupported",
        "tf.windows-native",
        "tf.cpu-build",
        "cuda.version-mismatch",
    ),
)
def cuda_missing(view: PlannedEnvironment) -> Iterator[Problem]:
    """TensorFlow from pip without its extra, where nothing else brings CUDA."""
    row, one, base = view.release, view.tensorflow, view.base
    if row is None or one is None or row.cuda is None or view.extra or view.conda or not view.wants_gpu:
        return
    flavour = base is not None and base.flavour == "base" and not view.cudas[1:]
    if view.cudas and not flavour:
        return
    # an image whose content the name does not tell, or no image at all: CUDA may come from elsewhere
    certain = flavour or (base is not None and base.no_cuda)
    seen = f"{one.text}, and {base.image.reference}" if base else one.text
    better = with_extra(view, row) if row.extra else replacement(view)
    yield Problem(
        title=f"Nothing brings CUDA {minor(row.cuda)} for TensorFlow {row.version}"
        if certain
        else f"{one.text} brings no CUDA",
        cause="a nvidia/cuda base image holds the CUDA runtime alone, not cuBLAS, cuFFT and the others"
        if flavour
        else "pip installs TensorFlow without NVIDIA's libraries unless the extra and-cuda asks for them",
        evidence=(
            Evidence(
                seen, str(one.place), f"CUDA {row.cuda} and cuDNN {row.cudnn}", f"TensorFlow {row.version} (wheel)"
            ),
        ),
        fixes=(write(one, better),) if better else (),
        severity=Severity.ERROR if certain else Severity.WARNING,
    )


@in_manifests(
    DECLARATIONS["cudnn.missing"],
    unless=(
        "tf.package-removed",
        "tf.python-unsupported",
        "tf.windows-native",
        "tf.cpu-build",
        "cuda.version-mismatch",
        "cuda.missing",
    ),
)
def cudnn_missing(view: PlannedEnvironment) -> Iterator[Problem]:
    """An image with CUDA but without cuDNN."""
    row, base = view.release, view.base
    if row is None or base is None or base.flavour in (None, "base") or view.extra or view.conda or row.cudnn is None:
        return
    same = base.cuda is not None and base.cuda.split(".")[0] == (row.cuda or "").split(".")[0]
    if same and not view.cudnns:
        yield Problem(
            title=f"{base.image.reference} holds no cuDNN",
            cause="TensorFlow registers no GPU when one of its libraries is missing",
            evidence=(
                Evidence(
                    base.image.reference,
                    str(base.image.place),
                    f"cuDNN {row.cudnn}",
                    f"TensorFlow {row.version} (wheel)",
                ),
            ),
            fixes=(Fix(f"In {base.image.place}, take the tag with cudnn{row.cudnn.split('.')[0]}"),),
        )


@in_manifests(
    DECLARATIONS["cudnn.version-mismatch"],
    unless=(
        "tf.package-removed",
        "tf.python-unsupported",
        "tf.windows-native",
        "tf.cpu-build",
        "cuda.version-mismatch",
        "cuda.missing",
    ),
)
def cudnn_mismatch(view: PlannedEnvironment) -> Iterator[Problem]:
    """cuDNN of another major version, or older than the one compiled against."""
    row = view.release
    if row is None or row.cudnn is None or view.extra or view.conda:
        return
    for one in view.cudnns:
        have = one.version.split(".")
        if not one.version or not one.version[0].isdigit():
            continue
        older = len(have) > 1 and [int(part) for part in have[:2]] < [int(part) for part in row.cudnn.split(".")[:2]]
        if have[0] != row.cudnn.split(".")[0] or older:
            yield Problem(
                title=f"TensorFlow {row.version} needs cuDNN {row.cudnn}, but {one.text} brings {one.version}",
                cause="libcudnn has its major version in its name, and must not be older than the one compiled against",
                evidence=(
                    Evidence(one.text, one.place, f"cuDNN {row.cudnn}", f"TensorFlow {row.version} ({view.where})"),
                ),
                fixes=tuple(_with_own_cudnn(view, row)),
            )


def _with_own_cudnn(view: PlannedEnvironment, row: Release) -> Iterator[Fix]:
    if view.tensorflow and row.extra and (better := with_extra(view, row)):
        yield write(view.tensorflow, better)


@in_manifests(DECLARATIONS["driver.too-old"], unless=("tf.python-unsupported",))
def driver_too_old(view: PlannedEnvironment) -> Iterator[Problem]:
    """The target's driver runs neither the image nor the CUDA that the release brings."""
    driver = view.target.driver
    if driver is None:
        return
    image = _driver_of_image(view)
    if view.base and image and view.target.os != "windows" and not driver_reaches(driver, image):
        forward = is_data_centre(view.target)
        listed = view.base.container.data_center_branches if view.base.container else ()
        if forward and driver.split(".")[0] in listed:
            return
        yield Problem(
            title=f"{view.base.image.reference} needs driver {image}",
            cause='the container refuses to start: "unsatisfied condition: cuda>='
            + f'{minor(view.base.cuda)}"'
            + ("; on data-centre cards CUDA's forward compatibility can serve" if forward else ""),
            evidence=(
                Evidence(
                    f"driver {driver}",
                    "--driver",
                    f"driver {image} or newer",
                    f"{view.base.image.place}: CUDA {view.base.cuda}",
                ),
            ),
            fixes=(Fix(f"Install driver {image} or newer on the host"), Fix("Or take an image with an older CUDA")),
            severity=Severity.WARNING if forward else Severity.ERROR,
        )


def _driver_of_image(view: PlannedEnvironment) -> str | None:
    """The oldest driver that an image starts on: nvidia/cuda asks for that of its CUDA (NVIDIA_REQUIRE_CUDA)."""
    if view.base is None or view.base.cuda is None:
        return None
    if view.base.container:
        return view.base.container.min_driver
    toolkit = view.matrix.cuda(view.base.cuda)
    return toolkit.min_driver_linux if toolkit else None


@in_manifests(DECLARATIONS["gpu.arch-too-old"], unless=("tf.package-removed", "tf.python-unsupported"))
def newest_cudnn_has_dropped_it(view: PlannedEnvironment) -> Iterator[Problem]:
    """The extra admits a cuDNN that no longer supports the target's GPU."""
    row, one = view.release, view.tensorflow
    if row is None or one is None or view.conda or not view.extra or not (row.sass or row.ptx):
        return
    pin = next((pin for name, pin in row.pip_nvidia.items() if name.startswith("nvidia-cudnn")), "==")
    held = any(other.name.startswith("nvidia-cudnn") for other in view.environment.requirements)
    for gpu in view.target.gpus:
        dropped = cudnn_limit(view.matrix, row, [gpu.compute_capability])
        if dropped and not pin.startswith("==") and not held:
            bound = f"nvidia-cudnn-cu{(row.cuda or '').split('.')[0]}<{dropped}"
            yield Problem(
                title=f"The newest cuDNN has dropped {gpu.name or f'compute capability {gpu.compute_capability}'}",
                cause=f"the extra of {row.version} admits any cuDNN 9; pip takes the newest, for 7.5 and later",
                evidence=(Evidence(one.text, str(one.place), f"cuDNN before {dropped}", "compat_matrix.yaml, cudnn"),),
                fixes=(Fix(f"Beside {one.text!r} in {one.place.path}, write {bound!r}"),),
            )


# --- container
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


@in_manifests(DECLARATIONS["container.no-gpu"])
def no_gpu(view: PlannedEnvironment) -> Iterator[Problem]:
    """A service or a pod whose image is made for GPUs, without a GPU."""
    environment = view.environment
    if environment.kind not in ("compose", "kubernetes"):
        return
    kubernetes = environment.kind == "kubernetes"
    need = "resources.limits nvidia.com/gpu: 1" if kubernetes else "a device reservation with capabilities: [gpu]"
    if environment.gpu is None and (view.wants_gpu or (view.release and view.extra)):
        yield Problem(
            title=f"{environment.label} asks for no GPU",
            cause="Kubernetes gives a container only the devices under its limits"
            if kubernetes
            else "Docker gives a container no GPU unless it is asked to",
            evidence=(
                Evidence(_image(view) or environment.label, str(environment.place), need, _gpu_docs(kubernetes)),
            ),
            fixes=(Fix("Add to the container", _LIMITS if kubernetes else _RESERVATION),),
        )
    elif environment.gpu and environment.gpu.problem:
        request = environment.gpu
        yield Problem(
            title=f"{environment.label} gets no GPU: {request.problem}",
            cause="the request stands in the file, but has no effect",
            evidence=(Evidence(request.text, str(request.place), need, _gpu_docs(kubernetes)),),
            fixes=(Fix("Write it as", _LIMITS if kubernetes else _RESERVATION),),
        )


@in_manifests(DECLARATIONS["gpu.hidden"])
def hidden(view: PlannedEnvironment) -> Iterator[Problem]:
    """A variable that hides every GPU."""
    for one in view.environment.settings:
        nvidia = one.name == "NVIDIA_VISIBLE_DEVICES" and one.value.strip().lower() in ("none", "void", "")
        cuda = one.name == "CUDA_VISIBLE_DEVICES" and one.value.strip() in ("-1", "", "none", "None", "NoDevFiles")
        if view.wants_gpu and (nvidia or cuda):
            yield Problem(
                title=f"{one.name} hides every GPU",
                cause="TensorFlow will list no GPU, and run on the CPU",
                evidence=(
                    Evidence(
                        f"{one.name}={one.value}", str(one.place), "no such line, or all", "CUDA environment variables"
                    ),
                ),
                fixes=(Fix(f"Take the line out of {one.place}"),),
            )


def _gpu_docs(kubernetes: bool) -> str:
    if kubernetes:
        return "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/"
    return "https://docs.docker.com/compose/how-tos/gpu-support/"


def _image(view: PlannedEnvironment) -> str | None:
    return view.base.image.reference if view.base else None


# --- conda
@in_manifests(
    DECLARATIONS["cuda.version-mismatch"],
    unless=("tf.package-removed", "tf.python-unsupported", "tf.windows-native", "tf.cpu-build"),
)
def conda_cuda_mismatch(view: PlannedEnvironment) -> Iterator[Problem]:
    """A CUDA is pinned for which conda-forge has no build of these versions."""
    rows = [row for row in conda_builds(view) if row.cuda]
    pins = [one for one in view.cudas if "." in one.version]
    for pin in pins:
        if rows and not any(minor(pin.version) in map(minor, row.cuda) for row in rows):
            has = ", ".join(rows[0].cuda)
            yield Problem(
                title=f"conda-forge has no build of TensorFlow {rows[0].version} for CUDA {pin.version}",
                cause="conda will not solve the environment, or take a CPU build",
                evidence=(Evidence(pin.text, pin.place, f"CUDA {has}", f"{CONDA_RECIPE}, {rows[0].version}"),),
                fixes=(
                    Fix(f"In {pin.place}, write cuda-version={rows[0].cuda[0]}, or leave the choice to conda"),
                    USE_PIP,
                ),
            )


@in_manifests(DECLARATIONS["gpu.arch-too-old"], unless=("tf.package-removed", "tf.python-unsupported"))
def conda_arch_too_old(view: PlannedEnvironment) -> Iterator[Problem]:
    """The target's card is older than the kernels of every build."""
    yield from _conda_architecture(view, newer=False)


@in_manifests(DECLARATIONS["gpu.arch-too-new"], unless=("tf.package-removed", "tf.python-unsupported"))
def conda_arch_too_new(view: PlannedEnvironment) -> Iterator[Problem]:
    """The target's card is newer than the kernels of every build."""
    yield from _conda_architecture(view, newer=True)


def _conda_architecture(view: PlannedEnvironment, *, newer: bool) -> Iterator[Problem]:
    rows = [row for row in conda_builds(view) if row.cuda and (row.sass or row.ptx)]
    for gpu in view.target.gpus if rows else ():
        card = gpu.compute_capability
        above = capability(card) > max(capability(one) for one in (*rows[0].sass, *rows[0].ptx))
        if above == newer and not any(runs_on(row, card) == "sass" for row in rows):
            name = gpu.name or f"compute capability {card}"
            has = f"one of SASS {' '.join(rows[0].sass)}"
            yield Problem(
                title=f"conda-forge's TensorFlow {rows[0].version} has no kernels for {name}",
                cause="its builds hold no SASS for the card",
                evidence=(
                    Evidence(f"{name}: compute capability {card}", "--gpu", has, f"{CONDA_RECIPE}, {rows[0].version}"),
                ),
                fixes=(Fix("See which build has: tfgpu plan --gpu NAME"),),
            )
