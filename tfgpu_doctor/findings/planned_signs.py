"""Signs over the environment that a manifest describes."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.findings.declaration import DECLARATIONS, Problem
from tfgpu_doctor.findings.manifest_signs import CONDA_RECIPE, conda_builds, in_manifests
from tfgpu_doctor.matrix.compatibility import cudnn_limit, driver_reaches, runs_on
from tfgpu_doctor.plan.alternatives import is_data_centre
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.report import Evidence, Fix, Severity
from tfgpu_doctor.records.versions import capability, minor

GUIDE = "https://www.tensorflow.org/install/pip"


# --- cuda
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
