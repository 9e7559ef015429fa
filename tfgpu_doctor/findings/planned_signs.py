"""Signs over the environment that a manifest describes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from tfgpu_doctor.findings.declaration import DECLARATIONS, Problem
from tfgpu_doctor.findings.manifest_signs import in_manifests
from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.compatibility import cudnn_limit, driver_reaches, numpy_bound, runs_on
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.schema import CondaBuild
from tfgpu_doctor.plan.alternatives import is_data_centre
from tfgpu_doctor.plan.file_edits import replacement, with_extra, write, write_all
from tfgpu_doctor.plan.planned import Cuda, PlannedEnvironment, specifier
from tfgpu_doctor.records.report import Evidence, Fix, Severity
from tfgpu_doctor.records.versions import capability, minor

GUIDE = "https://www.tensorflow.org/install/pip"


# --- package
@in_manifests(DECLARATIONS["tf.package-removed"])
def package_removed(view: PlannedEnvironment) -> Iterator[Problem]:
    """tensorflow-gpu: an empty package since 2.12, and no longer needed since 2.1."""
    found = [one for one in (view.tensorflow, *view.others) if one and one.name in ("tensorflow-gpu", "tf-nightly-gpu")]
    for one in found:
        if one.installer == "conda":
            continue  # a metapackage that conda-forge keeps
        wanted = specifier(one.specifier)
        dead = wanted is not None and wanted.contains("2.12.0")
        better = replacement(view)
        yield Problem(
            title=f"{one.name} has been discontinued" if not dead else f"{one.name} cannot be installed",
            cause="since 2.12 the package only raises an error; tensorflow itself has included GPU support since 2.1"
            if dead
            else "its last release is 2.11.0, and nothing will follow",
            evidence=(Evidence(one.text, str(one.place), "tensorflow", GUIDE),),
            fixes=(write(one, better),) if better else (),
            severity=Severity.ERROR if dead else Severity.WARNING,
        )


@in_manifests(DECLARATIONS["tf.package-conflict"])
def package_conflict(view: PlannedEnvironment) -> Iterator[Problem]:
    """Two distributions that put their files into the same folder."""
    names = {one.name for one in view.others} - {"tensorflow-base"}
    if view.tensorflow is None or not names or view.conda:
        return
    seen = [Evidence(one.text, str(one.place), f"{view.tensorflow.name} alone", GUIDE) for one in view.others]
    yield Problem(
        title=f"{view.tensorflow.name} and {', '.join(sorted(names))} overwrite each other",
        cause="each of them brings the folder tensorflow/; which files win depends on the order of installation",
        evidence=tuple(seen),
        fixes=tuple(Fix(f"Take {one.text!r} out of {one.place}") for one in view.others),
    )


@in_manifests(DECLARATIONS["tf.python-unsupported"], unless=("tf.package-removed",))
def python_unsupported(view: PlannedEnvironment) -> Iterator[Problem]:
    """No admitted release has a wheel for the Python, or for some of those that are admitted."""
    one, pythons, allowed = view.tensorflow, view.pythons, view.allowed
    if one is None or view.conda:
        return
    if not allowed:
        yield from _no_release(view, one)
        return
    if not pythons:
        return
    with_wheels = {python for row in allowed for python in row.python}
    without = [python for python in pythons if python not in with_wheels]
    newest = allowed[0]
    seen = Evidence(
        f"Python {', '.join(without)}",
        view.python_place,
        f"Python {newest.python[0]} to {newest.python[-1]}",
        f"{one.text} ({one.place}; wheels of {newest.version})",
    )
    if len(without) == len(pythons):
        yield Problem(
            title=f"{one.text} has no wheel for Python {without[-1]}",
            cause='pip will say "No matching distribution found"',
            evidence=(seen,),
            fixes=tuple(_other_python(view, one, newest)),
        )
    elif without and len(pythons) > 1 and one.specifier:
        yield Problem(
            title=f"{one.text} has no wheel for Python {', '.join(without)}, which {view.python_place} admits",
            cause="uv and Poetry resolve for every Python that is admitted, and will refuse; pip fails on those",
            evidence=(seen,),
            fixes=(Fix(f"In {view.python_place}, admit Python {newest.python[0]} to {newest.python[-1]} only"),),
            severity=Severity.WARNING,
        )


def _no_release(view: PlannedEnvironment, one: Requirement) -> Iterator[Problem]:
    rows = view.matrix.releases(platform=view.target.platform, package=one.name)
    wanted = specifier(one.specifier)
    newest = next((row for row in rows if not row.prerelease), None)
    if newest is None or wanted is None or (one.name == "tensorflow-gpu" and wanted.contains("2.12.0")):
        return
    if any(
        wanted.contains(f"{newest.version.split('.')[0]}.{int(newest.version.split('.')[1]) + n}.0") for n in (1, 2, 3)
    ):
        return  # newer than this matrix
    yield Problem(
        title=f"No release of {one.name} matches {one.specifier} on {view.target.platform}",
        cause='pip will say "No matching distribution found"',
        evidence=(Evidence(one.text, str(one.place), f"a release such as {newest.version}", "names of the wheels"),),
        fixes=tuple(write_all(view, one)),
    )


def _other_python(view: PlannedEnvironment, one: Requirement, newest: Release) -> Iterator[Fix]:
    yield Fix(f"Use Python {newest.python[-1]}: {newest.package} {newest.version} has wheels for it")
    if better := replacement(view):
        yield write(one, better)


@in_manifests(DECLARATIONS["tf.windows-native"])
def windows_native(view: PlannedEnvironment) -> Iterator[Problem]:
    """CUDA on Windows itself ended with 2.10."""
    row = view.release
    if (
        view.target.os == "windows"
        and view.wants_gpu
        and row
        and not row.gpu
        and Version(row.version) >= Version("2.11")
    ):
        yield Problem(
            title=f"TensorFlow {row.version} has no CUDA on Windows",
            cause="2.10 was the last release with GPU support on native Windows; the same code runs on the CPU there",
            evidence=(Evidence(f"TensorFlow {row.version} on Windows", view.where, "2.10, or WSL2", GUIDE),),
            fixes=(Fix("Run it in WSL2"), *_below(view, "2.11")),
        )


@in_manifests(DECLARATIONS["tf.cpu-build"], unless=("tf.package-removed", "tf.windows-native"))
def cpu_build(view: PlannedEnvironment) -> Iterator[Problem]:
    """A GPU is meant to be used, but what will be installed holds no CUDA."""
    row, one, base = view.release, view.tensorflow, view.base
    if not view.wants_gpu or (row and view.target.os == "windows" and Version(row.version) >= Version("2.11")):
        return
    if one is None and base and base.tensorflow and not base.gpu:
        yield Problem(
            title=f"{base.image.reference} is the image without CUDA",
            cause="TensorFlow will run on the CPU, whatever GPU the container is given",
            evidence=(
                Evidence(base.image.reference, str(base.image.place), f"{base.image.reference}-gpu", "image tags"),
            ),
            fixes=(Fix(f"In {base.image.place}, write {base.image.name}:{base.image.tag}-gpu"),),
        )
    elif one is not None and one.build and "cpu" in one.build:
        yield _cpu_problem(view, one, f"{one.text} asks conda for a CPU build")
    elif one is not None and row is not None and not row.gpu and not (view.conda or one.name == "tensorflow-base"):
        yield _cpu_problem(view, one, f"{row.package} {row.version} holds no CUDA on {row.platform}")


def _cpu_problem(view: PlannedEnvironment, one: Requirement, title: str) -> Problem:
    better = replacement(view)
    return Problem(
        title=title,
        cause="TensorFlow will run on the CPU, whatever GPU there is",
        evidence=(Evidence(one.text, str(one.place), "a build with CUDA", "compat_matrix.yaml"),),
        fixes=(write(one, better),) if better else (Fix("Use an x86_64 Linux machine, or a container: tfgpu plan"),),
    )


def _below(view: PlannedEnvironment, version: str) -> Iterable[Fix]:
    better = replacement(view, version)
    if view.tensorflow and better:
        yield Fix(f"Or, in {view.tensorflow.place}, write {better!r}, with CUDA and cuDNN beside it (tfgpu plan)")


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
_SHM = (
    "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]",
    "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
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


@in_manifests(DECLARATIONS["shm.small"])
def small_shm(view: PlannedEnvironment) -> Iterator[Problem]:
    """Several GPUs talk over /dev/shm, of which a container has 64 MiB."""
    request = view.environment.gpu
    several = request is not None and (request.count is None or request.count > 1)
    given = any(one.name in ("shm_size", "ipc") for one in view.environment.settings)
    if several and not given and request and view.environment.kind in ("compose", "kubernetes"):
        kubernetes = view.environment.kind == "kubernetes"
        yield Problem(
            title="/dev/shm has 64 MiB, and several GPUs are asked for",
            cause="NCCL and the workers of an input pipeline use it; a run over several GPUs can fail there",
            evidence=(Evidence(request.text, str(request.place), "1 GiB or more", "NVIDIA's container notes"),),
            fixes=(Fix("Add", _SHM if kubernetes else ("shm_size: 1gb",)),),
            severity=Severity.WARNING,
        )


def _gpu_docs(kubernetes: bool) -> str:
    if kubernetes:
        return "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/"
    return "https://docs.docker.com/compose/how-tos/gpu-support/"


def _image(view: PlannedEnvironment) -> str | None:
    return view.base.image.reference if view.base else None


# --- neighbours
_NUMPY = tuple(f"1.{n}.0" for n in range(13, 27)) + tuple(f"2.{n}.0" for n in range(6))
_PROTOBUF = (
    "3.6.0",
    "3.8.0",
    "3.9.2",
    "3.19.6",
    "3.20.3",
    "4.21.12",
    "4.25.3",
    "5.26.1",
    "5.28.3",
    "5.29.5",
    "6.31.1",
    "6.33.0",
    "7.34.0",
)
_KERAS = tuple(f"2.{n}.0" for n in range(2, 16)) + tuple(f"3.{n}.0" for n in range(14))


@in_manifests(DECLARATIONS["tf.abi-numpy"], unless=("tf.package-removed",))
def numpy(view: PlannedEnvironment) -> Iterator[Problem]:
    """A NumPy that the release cannot be imported with."""
    row, one = view.release, view.requirement("numpy")
    bound = numpy_bound(row) if row else None
    if row is None or bound is None or view.conda:
        return
    if one is None and bound != row.numpy and view.tensorflow and _takes_numpy_2(view):
        yield Problem(
            title=f"TensorFlow {row.version} will get NumPy 2, which it cannot be imported with",
            cause="it is compiled against NumPy 1, but its metadata has no upper bound",
            evidence=(
                Evidence(
                    view.tensorflow.text, str(view.tensorflow.place), f"numpy{bound}", f"TensorFlow {row.version}"
                ),
            ),
            fixes=(Fix(f"Beside it in {view.tensorflow.place.path}, write 'numpy<2'"),),
        )
    elif one is not None and not _compatible(one.specifier, bound, _NUMPY):
        yield _neighbour(view, row, one, f"numpy{bound}")


@in_manifests(DECLARATIONS["tf.abi-protobuf"], unless=("tf.package-removed",))
def protobuf(view: PlannedEnvironment) -> Iterator[Problem]:
    """A protobuf that the release's generated code does not accept."""
    row, one = view.release, view.requirement("protobuf")
    if row and one and row.protobuf and not view.conda and not _compatible(one.specifier, row.protobuf, _PROTOBUF):
        yield _neighbour(view, row, one, f"protobuf{row.protobuf}")


@in_manifests(DECLARATIONS["tf.package-conflict"])
def keras(view: PlannedEnvironment) -> Iterator[Problem]:
    """A Keras of another release."""
    row, one = view.release, view.requirement("keras")
    if row and one and row.keras and not view.conda and not _compatible(one.specifier, row.keras, _KERAS):
        yield _neighbour(view, row, one, f"keras{row.keras}")


def _neighbour(view: PlannedEnvironment, row: Release, one: Requirement, need: str) -> Problem:
    return Problem(
        title=f"{one.text} does not go with TensorFlow {row.version}",
        cause="the installer refuses the pair, or the import fails",
        evidence=(Evidence(one.text, str(one.place), need, f"TensorFlow {row.version} (metadata)"),),
        fixes=(Fix(f"In {one.place}, write {need!r}"),),
    )


@in_manifests(
    DECLARATIONS["tf.known-bug"],
    unless=("tf.package-removed", "tf.windows-native", "tf.cpu-build", "gpu.arch-too-new", "gpu.arch-too-old"),
)
def known_bug(view: PlannedEnvironment) -> Iterator[Problem]:
    """What will be installed is known to be broken in this very environment."""
    row = view.release
    if row is None or view.conda:
        return
    found = view.matrix.issues_for(
        row, python=view.python, compute_capabilities=view.target.capabilities, extra=view.extra
    )
    for issue in found:
        about_cards = issue.condition.min_compute_capability or issue.condition.max_compute_capability
        installs = issue.affects == "install" and (view.extra or not issue.condition.extra)
        concerns = (issue.affects == "run" and (view.wants_gpu or not issue.condition.extra)) or installs
        if issue.severity in ("error", "warning") and concerns and not about_cards and issue.affects != "build":
            yield Problem(
                title=f"TensorFlow {row.version}: {issue.title}",
                cause=issue.symptom,
                evidence=(Evidence(f"TensorFlow {row.version}", view.where, "another release", issue.source),),
                fixes=(Fix(issue.fix, issue.commands), *write_all(view, view.tensorflow)),
                severity=Severity.ERROR if issue.severity == "error" else Severity.WARNING,
            )


def _compatible(given: str, bound: str, known: tuple[str, ...]) -> bool:
    """Whether some version meets both; the versions named in either are tried beside the known minors."""
    wanted, allowed = specifier(given), specifier(bound)
    if wanted is None or allowed is None:
        return True
    named = {one.version.removesuffix(".*") for one in (*wanted, *allowed)}
    return any(wanted.contains(one) and allowed.contains(one) for one in (*known, *named))


def _takes_numpy_2(view: PlannedEnvironment) -> bool:
    """NumPy 2 needs Python 3.9; of an unknown Python nothing is said."""
    python = view.python
    return python is not None and capability(python) >= (3, 9)


# --- conda
RECIPE = "conda-forge's tensorflow recipe"
_WITH_PIP = Fix("Or take TensorFlow from pip instead: tfgpu plan has the commands")


def builds(view: PlannedEnvironment) -> tuple[CondaBuild, ...]:
    """The builds of conda-forge that the match spec admits on the platform; none where another channel may serve."""
    one = view.tensorflow
    channels = view.environment.channels
    if one is None or not view.conda or (channels and "conda-forge" not in channels):
        return ()
    wanted = specifier(one.specifier)
    rows = (row for row in view.matrix.data.conda_forge if row.platform == view.target.platform)
    return tuple(row for row in rows if wanted is not None and wanted.contains(row.version))


@in_manifests(DECLARATIONS["tf.python-unsupported"], unless=("tf.package-removed",))
def conda_python_unsupported(view: PlannedEnvironment) -> Iterator[Problem]:
    """conda-forge has no build of these versions for the Python."""
    rows, pythons, one = builds(view), view.pythons, view.tensorflow
    if one is None or not rows or not pythons or any(python in row.python for row in rows for python in pythons):
        return
    has = f"Python {rows[0].python[0]} to {rows[0].python[-1]}"
    yield Problem(
        title=f"conda-forge has no {one.text} for Python {pythons[-1]}",
        cause="conda will say that the environment cannot be solved",
        evidence=(Evidence(f"Python {pythons[-1]}", view.python_place, has, f"{RECIPE}, {rows[0].version}"),),
        fixes=(Fix(f"In {view.python_place}, write python={rows[0].python[-1]}"), _WITH_PIP),
    )


@in_manifests(DECLARATIONS["tf.cpu-build"], unless=("tf.package-removed", "tf.windows-native"))
def conda_cpu_build(view: PlannedEnvironment) -> Iterator[Problem]:
    """conda-forge has CPU builds only of these versions, or for this platform."""
    rows, one = builds(view), view.tensorflow
    if one and rows and view.wants_gpu and not any(row.cuda for row in rows):
        yield Problem(
            title=f"conda-forge has no GPU build of {one.text} for {view.target.platform}",
            cause="TensorFlow will run on the CPU, whatever GPU there is",
            evidence=(Evidence(one.text, str(one.place), "a build with CUDA", f"{RECIPE}, {rows[0].version}"),),
            fixes=(_WITH_PIP,),
        )


@in_manifests(
    DECLARATIONS["cuda.version-mismatch"],
    unless=("tf.package-removed", "tf.python-unsupported", "tf.windows-native", "tf.cpu-build"),
)
def conda_cuda_mismatch(view: PlannedEnvironment) -> Iterator[Problem]:
    """A CUDA is pinned for which conda-forge has no build of these versions."""
    rows = [row for row in builds(view) if row.cuda]
    pins = [one for one in view.cudas if "." in one.version]
    for pin in pins:
        if rows and not any(minor(pin.version) in map(minor, row.cuda) for row in rows):
            has = ", ".join(rows[0].cuda)
            yield Problem(
                title=f"conda-forge has no build of TensorFlow {rows[0].version} for CUDA {pin.version}",
                cause="conda will not solve the environment, or take a CPU build",
                evidence=(Evidence(pin.text, pin.place, f"CUDA {has}", f"{RECIPE}, {rows[0].version}"),),
                fixes=(
                    Fix(f"In {pin.place}, write cuda-version={rows[0].cuda[0]}, or leave the choice to conda"),
                    _WITH_PIP,
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
    rows = [row for row in builds(view) if row.cuda and (row.sass or row.ptx)]
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
                    Evidence(f"{name}: compute capability {card}", "--gpu", has, f"{RECIPE}, {rows[0].version}"),
                ),
                fixes=(Fix("See which build has: tfgpu plan --gpu NAME"),),
            )
