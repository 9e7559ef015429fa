"""Rules about cuDNN."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.cuda import install_libraries, needed_by
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.libraries import fix_path, good_candidate, in_state, seen_missing, seen_off_path
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import CudnnFile, Soname
from tfgpu_doctor.records.report import Fix, Severity

GUIDE = "https://docs.nvidia.com/deeplearning/cudnn/latest/"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


@rule(
    "cudnn.version-mismatch",
    Severity.ERROR,
    "cuDNN is installed, but of another version than TensorFlow needs",
    needs=("derived.gpu_release", "derived.cudnn_sonames"),
    wants=("cudnn.runtime", "cudnn.installed"),
    docs=GUIDE,
)
def version_mismatch(
    context: Context,
    release: Release,
    libraries: tuple[Soname, ...],
    runtime: str | None,
    installed: tuple[CudnnFile, ...] | None,
) -> Problem | None:
    """Another major, or a minor older than compiled with ("Loaded runtime CuDNN library X but ...")."""
    wanting = in_state(libraries, "other version", "absent")
    known = [file for file in installed or () if file.version]
    found = runtime or next((file.version for file in known), None)
    where = context.source("cudnn.runtime") if runtime else next((file.path for file in known), "")
    if found is None or release.cudnn is None:
        return None
    other_major = bool(wanting) and _parts(found)[:1] != _parts(release.cudnn)[:1]
    too_old = not wanting and _parts(found)[:1] == _parts(release.cudnn)[:1] and _parts(found) < _parts(release.cudnn)
    if not (other_major or too_old):
        return None
    return Problem(
        title=f"cuDNN {found} is installed, TensorFlow {release.version} needs {release.cudnn} or newer",
        cause="cuDNN is compatible within a major version, from the minor that TensorFlow was compiled with upwards",
        evidence=(
            evidence(f"cuDNN {found}", where, f"cuDNN {release.cudnn}", needed_by(release)),
            *seen_missing(context, wanting, needed_by(release)),
        ),
        fixes=install_libraries(context, release),
    )


@rule(
    "cudnn.missing",
    Severity.ERROR,
    "cuDNN is not installed",
    needs=("derived.gpu_release", "derived.cudnn_sonames"),
    requires=("cudnn.version-mismatch", "cudnn.dep-missing"),
    explained_by=("cuda.missing", "cuda.version-mismatch"),
    docs=GUIDE,
)
def missing(context: Context, release: Release, libraries: tuple[Soname, ...]) -> Problem | None:
    """No libcudnn of the wanted major anywhere. One fix installs CUDA and cuDNN, so missing CUDA explains it."""
    wanting = in_state(libraries, "absent", "other version", "unloadable")
    if not wanting:
        return None
    return Problem(
        cause="TensorFlow gives up every GPU when cuDNN cannot be opened",
        evidence=seen_missing(context, wanting, needed_by(release)),
        fixes=install_libraries(context, release),
    )


@rule(
    "cudnn.lib-path",
    Severity.ERROR,
    "cuDNN is installed, but the loader does not find it",
    needs=("derived.gpu_release", "derived.cudnn_sonames"),
    explained_by=("cuda.lib-path",),
    docs=GUIDE,
)
def lib_path(context: Context, release: Release, libraries: tuple[Soname, ...]) -> Problem | None:
    """The right file exists off the loader's path, or behind a broken one."""
    lost = in_state(libraries, "off path")
    if not lost:
        return None
    shadowed = any(one.reachable and one.problem for library in lost for one in library.candidates)
    return Problem(
        cause="TensorFlow gives up every GPU when cuDNN cannot be opened",
        evidence=seen_off_path(context, lost, needed_by(release)),
        fixes=fix_path(context, lost),
        independent=shadowed,  # putting CUDA on the path would not help against a file that comes first
    )


@rule(
    "cudnn.dep-missing",
    Severity.ERROR,
    "cuDNN is there, but a library that it needs is not",
    needs=("derived.gpu_release", "derived.cudnn_sonames"),
    explained_by=("cuda.missing", "cuda.version-mismatch"),
    docs=GUIDE,
)
def dep_missing(context: Context, release: Release, libraries: tuple[Soname, ...]) -> Problem | None:
    """A DT_NEEDED entry of libcudnn or of its parts cannot be resolved."""
    hurt = [
        candidate
        for library in libraries
        if not library.winner and good_candidate(library) is None
        for candidate in library.candidates
        if "not found" in (candidate.problem or "")
    ]
    if not hurt:
        return None
    return Problem(
        cause="the loader refuses a library whose own needs are not met",
        evidence=tuple(evidence(str(one.problem), one.path, "found", needed_by(release)) for one in hurt),
        fixes=(
            *install_libraries(context, release),
            Fix(text="See all of them", commands=(f"ldd {context.remedies.quote(hurt[0].path)}",)),
        ),
    )
