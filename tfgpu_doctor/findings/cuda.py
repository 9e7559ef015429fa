"""Rules about the CUDA libraries that TensorFlow opens by soname."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.libraries import fix_path, in_state, names, seen_missing, seen_off_path
from tfgpu_doctor.matrix.compatibility import known_capabilities, minor
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Nvcc, Package, Soname, Toolkit, value_or
from tfgpu_doctor.records.report import Fix, Severity

PIP_GUIDE = "https://www.tensorflow.org/install/pip"
BUILD_TABLE = "https://www.tensorflow.org/install/source#gpu"
NOT_THE_DRIVER = 'The log line "Could not find cuda drivers" is about these libraries, not about the driver'


def needed_by(release: Release) -> str:
    """Who needs these libraries, for the evidence."""
    return f"TensorFlow {release.version} (wheel)"


def install_libraries(context: Context, release: Release) -> tuple[Fix, ...]:
    """Install the CUDA libraries of the installed TensorFlow; another release where it has no such extra."""
    python = value_or(context.facts.python.version, None)
    cards = known_capabilities(context.facts)
    issues = context.matrix.issues_for(release, python=python, compute_capabilities=cards, extra=True)
    broken = any(issue.severity == "error" and issue.affects == "run" for issue in issues)
    if release.extra and not broken:
        text = f"Install the CUDA libraries that belong to TensorFlow {release.version}, from pip"
        return (Fix(text=text, commands=context.remedies.install_tensorflow(release)),)
    best = context.remedies.reinstall_best("it brings its CUDA libraries along from pip")
    if release.extra:
        return best
    text = f"Or keep {release.version} in an environment of its own with CUDA {release.cuda} and cuDNN {release.cudnn}"
    return (*best, *context.remedies.with_cuda_beside(release, text))


@rule(
    "cuda.version-mismatch",
    Severity.ERROR,
    "CUDA is installed, but of another version than TensorFlow loads",
    needs=("derived.gpu_release", "derived.cuda_sonames"),
    wants=("cuda.toolkits", "cuda.nvcc"),
    docs=BUILD_TABLE,
)
def version_mismatch(
    context: Context,
    release: Release,
    libraries: tuple[Soname, ...],
    toolkits: tuple[Toolkit, ...] | None,
    nvcc: Nvcc | None,
) -> Problem | None:
    """Sonames of another CUDA major lie around, or a toolkit of one, and none of the wanted."""
    wanting = in_state(libraries, "other version", "absent")
    others = [kit for kit in toolkits or () if kit.version and _major(kit.version) != _major(release.cuda)]
    same = [kit for kit in toolkits or () if kit.version and _major(kit.version) == _major(release.cuda)]
    if not wanting or same or not (in_state(wanting, "other version") or others):
        return None
    seen = [
        evidence(f"CUDA {kit.version}", kit.source, f"CUDA {release.cuda}", needed_by(release)) for kit in others[:3]
    ]
    if nvcc and not others:
        seen.append(evidence(f"nvcc {nvcc.version}", nvcc.path))
    seen += seen_missing(context, wanting, needed_by(release))
    found = ", ".join(dict.fromkeys(minor(kit.version) for kit in others)) or "another version"
    return Problem(
        title=f"TensorFlow {release.version} loads CUDA {minor(release.cuda)}, but only CUDA {found} is installed",
        cause=f"the names of the libraries carry their version, so another CUDA cannot stand in. {NOT_THE_DRIVER}",
        evidence=tuple(seen),
        fixes=install_libraries(context, release),
    )


def _major(version: str | None) -> str:
    return (version or "").split(".")[0]


@rule(
    "cuda.missing",
    Severity.ERROR,
    "The CUDA libraries are not installed",
    needs=("derived.gpu_release", "derived.cuda_sonames"),
    wants=("python.packages",),
    requires=("cuda.version-mismatch",),
    docs=PIP_GUIDE,
)
def missing(
    context: Context, release: Release, libraries: tuple[Soname, ...], packages: tuple[Package, ...] | None
) -> Problem | None:
    """No file of the wanted soname anywhere: a plain `pip install tensorflow`, or an incomplete extra."""
    wanting = in_state(libraries, "absent", "other version", "unloadable")
    if not wanting:
        return None
    partly = len(wanting) < len(libraries)
    wheels = [p.name for p in packages or () if p.name.startswith("nvidia-")]
    cause = (
        "only some of the CUDA libraries are installed"
        if partly or wheels
        else "pip installs TensorFlow without CUDA unless the extra and-cuda is asked for"
        if release.extra
        else f"TensorFlow {release.version} takes CUDA {minor(release.cuda)} from the system, which has none"
    )
    title = f"{names(wanting)} missing" if partly and len(wanting) <= 3 else None
    return Problem(
        title=title,
        cause=f"{cause}. {NOT_THE_DRIVER}",
        evidence=seen_missing(context, wanting, needed_by(release)),
        fixes=install_libraries(context, release),
    )


@rule(
    "cuda.lib-path",
    Severity.ERROR,
    "The CUDA libraries are installed, but the loader does not find them",
    needs=("derived.gpu_release", "derived.cuda_sonames"),
    wants=("derived.cudnn_sonames",),
    docs=PIP_GUIDE,
)
def lib_path(
    context: Context, release: Release, libraries: tuple[Soname, ...], cudnn: tuple[Soname, ...] | None
) -> Problem | None:
    """The right files exist off LD_LIBRARY_PATH, RUNPATH and ldconfig, or behind a broken file."""
    lost = in_state(libraries, "off path")
    if not lost:
        return None
    few = f"{names(lost)} installed, but not found by the loader" if len(lost) <= 2 else None
    return Problem(
        title=few,
        cause=f"{names(lost)}: present, but not where the dynamic loader looks. {NOT_THE_DRIVER}",
        evidence=seen_off_path(context, lost, needed_by(release)),
        fixes=fix_path(context, (*lost, *in_state(cudnn or (), "off path"))),  # one line for both
    )
