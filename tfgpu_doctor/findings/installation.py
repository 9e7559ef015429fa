"""Packages that are not what pip's metadata says: files missing or overwritten, requirements not installed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.installed_requirements import SELDOM_USED, from_wheel, requirements
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import CudnnFile, DamagedPackage, Package, Phase, XlaFile, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity
from tfgpu_doctor.records.versions import major

_RECORD = "https://packaging.python.org/en/latest/specifications/recording-installed-packages/"
_CUDA_SUFFIX = re.compile(r"-cu(\d\d)$")

_IMPORTED = "TensorFlow imports it at once or when it is first used"
# where the distribution is not called like its module
_DISTRIBUTIONS = {"absl": "absl-py", "google.protobuf": "protobuf", "grpc": "grpcio", "pasta": "google-pasta"}

DAMAGED = finding(
    "tf.install-damaged",
    layer="Python",
    severity=Severity.ERROR,
    title="Installed packages are incomplete",
    about_gpus=False,
    explained_by=("tf.package-conflict",),
    pointless_after=("tf.package-removed",),
    docs=_RECORD,
)


@DAMAGED.sign(conclusive=False)
def files_differ_from_record(
    context: Context,
    damaged: tuple[DamagedPackage, ...],
    packages: tuple[Package, ...],
    phases: tuple[Phase, ...] | None = None,
    release: Release | None = None,
    loader_loaded: tuple[str, ...] | None = None,
    cudnn_installed: tuple[CudnnFile, ...] | None = None,
    ptxas: tuple[XlaFile, ...] | None = None,
) -> Problem | None:
    """Files that RECORD lists are missing, or another package has overwritten them."""
    wanted = [one for one in damaged if _is_used(one.name, release)]
    if not wanted:
        return None
    intruders = {other for one in wanted if (other := _same_files_by(one.name, packages))}
    missing = [path for one in wanted for path in one.missing]
    # `strip` makes libraries smaller, and leaves them in order
    fails = bool(missing or intruders) or _stops(phases or ())
    instead = [*_loaded_instead(missing, loader_loaded, cudnn_installed, context.source("loader.loaded"))]
    instead += _ptxas_instead(missing, ptxas)
    return Problem(
        title=f"{_what(wanted)} of {_named(wanted)}",
        cause=_cause(sorted(intruders), [line.saw for line in instead]),
        evidence=(*(_evidence_of(one) for one in wanted), *instead),
        fixes=_repair(context, wanted, intruders),
        severity=None if fails else Severity.WARNING,
    )


def _named(packages: list[DamagedPackage]) -> str:
    """Name the packages, the first three by name and version."""
    first = ", ".join(dict.fromkeys(f"{one.name} {one.version}" for one in packages[:3]))
    return f"{first} and others" if len(packages) > 3 else first


def _ptxas_instead(missing: list[str], ptxas: tuple[XlaFile, ...] | None) -> Iterator[Evidence]:
    """Yield the ptxas that XLA uses in place of a missing one."""
    usable = next((file for file in ptxas or () if file.problem is None), None)
    if usable and any(path.rpartition("/")[2] == "ptxas" for path in missing):
        yield evidence(f"ptxas{f' {usable.version}' if usable.version else ''} is used instead", usable.path)


def _loaded_instead(
    missing: list[str], loaded: tuple[str, ...] | None, cudnns: tuple[CudnnFile, ...] | None, source: str
) -> Iterator[Evidence]:
    """Yield the libraries of the same names that were loaded in place of missing ones: another release, most likely."""
    for name in (path.rpartition("/")[2] for path in missing if ".so" in path):
        for path in (path for path in loaded or () if path.rpartition("/")[2].startswith(name)):
            version = _version_of_file(path, cudnns or ())
            yield evidence(f"{path}{f' ({version})' if version else ''} is loaded instead", source)


def _version_of_file(path: str, cudnns: tuple[CudnnFile, ...]) -> str | None:
    """Return the version in the name of a file (libcudnn_ops.so.9.14.0), or that of the cuDNN in its folder."""
    numbers = path.rpartition(".so.")[2]
    if "." in numbers:
        return numbers
    folder, name = path.rsplit("/", 1)
    beside = (one.version for one in cudnns if one.path.rpartition("/")[0] in _same_folder(folder))
    return next(beside, None) if name.startswith("libcudnn") else None


def _same_folder(folder: str) -> tuple[str, ...]:
    """Return a folder with its other name: /lib is a link to /usr/lib on today's systems."""
    return folder, folder.removeprefix("/usr"), f"/usr{folder}"


def _stops(phases: tuple[Phase, ...]) -> bool:
    return any(phase.outcome in ("raised", "died") for phase in phases)


def _is_used(name: str, release: Release | None) -> bool:
    """Whether this TensorFlow loads what the package brings: CUDA of its own major version, when that is known."""
    built_for = _CUDA_SUFFIX.search(name)
    return not (built_for and release and release.cuda) or built_for[1] == major(release.cuda)


def _same_files_by(name: str, packages: tuple[Package, ...]) -> str | None:
    """The package for another CUDA with files of the same names: nvidia-cudnn-cu11 beside nvidia-cudnn-cu12."""
    stem = _CUDA_SUFFIX.sub("", name)
    others = (one.name for one in packages if one.name != name and _CUDA_SUFFIX.sub("", one.name) == stem != one.name)
    return next(others, None) if stem != name else None


def _what(damaged: list[DamagedPackage]) -> str:
    missing, overwritten = any(one.missing for one in damaged), any(one.overwritten for one in damaged)
    return (
        "Missing and overwritten files"
        if missing and overwritten
        else "Missing files"
        if missing
        else "Overwritten files"
    )


def _cause(intruders: list[str], instead: list[str]) -> str:
    kept = "pip's records still list them, so pip install without --force-reinstall changes nothing"
    if instead:
        return f"{instead[0]}, so that files of different releases work together; {kept}"
    if not intruders:
        return f"files were deleted or changed, or an installation was interrupted; {kept}"
    install = "install" if len(intruders) > 1 else "installs"
    return f"{' and '.join(intruders)} {install} files of the same names into the same folder; {kept}"


def _evidence_of(one: DamagedPackage) -> Evidence:
    shown = [*(f"{path} is missing" for path in one.missing), *(f"{path} has another size" for path in one.overwritten)]
    more = one.files - len(shown[:2])
    text = ", ".join(shown[:2]) + (f", and {more} more" if more else "")
    return evidence(text, one.record, f"the files of {one.name} {one.version}", "RECORD")


def _repair(context: Context, damaged: list[DamagedPackage], intruders: set[str]) -> tuple[Fix, ...]:
    remedies = context.remedies
    names = (f"{one.name}=={one.version}" for one in damaged)
    first = (remedies.pip_uninstall(*sorted(intruders)),) if intruders else ()
    return remedies.installing("Install the same releases again", "--force-reinstall", "--no-deps", *names, first=first)


@DAMAGED.sign(conclusive=False)
def requirement_not_installed(
    context: Context, packages: tuple[Package, ...], python_version: str, wheel_platform: str | None = None
) -> Problem | None:
    """A package that TensorFlow requires, at first or second hand, is absent; some are imported late."""
    tensorflow = from_wheel(packages)
    if tensorflow is None:
        return None
    installed = {one.name for one in packages}
    required = requirements(packages, python_version, wheel_platform)
    absent = [pair for pair in required if canonicalize_name(pair[1].name) not in installed]
    return _absent_problem(context, tensorflow, absent) if absent else None


def _install_missing(context: Context, names: list[str]) -> tuple[Fix, ...]:
    """Install these with the TensorFlow that is there, so that pip keeps its release."""
    listed = (one for one in value_or(context.facts.python.packages, ()) if one.name in TENSORFLOW)
    kept = next((f"{one.name}=={one.version}" for one in listed), None)
    if kept is None and (version := value_or(context.facts.tensorflow.version, None)):
        kept = f"{value_or(context.facts.tensorflow.distribution, 'tensorflow')}=={version}"
    wanted, more = ((kept, *names), "; the release of TensorFlow stays the same") if kept else (names, "")
    return context.remedies.installing(f"Install what is missing{more}", *wanted)


def _absent_problem(context: Context, tensorflow: Package, absent: list[tuple[Package, Requirement]]) -> Problem:
    needed = [one for one in absent if canonicalize_name(one[1].name) not in SELDOM_USED]
    named = list(dict.fromkeys(one.name for _, one in needed or absent))
    release = f"{tensorflow.name} {tensorflow.version}"
    source = context.source("python.packages")
    return Problem(
        title=f"{', '.join(named)}, which {release} requires, {'are' if len(named) > 1 else 'is'} not installed",
        cause=_IMPORTED if needed else "features of TensorFlow that use it fail",
        evidence=tuple(
            evidence(f"no {one.name}", source, str(one), f"metadata of {asking.name} {asking.version}")
            for asking, one in absent
        ),
        fixes=_install_missing(context, named),
        severity=None if needed else Severity.WARNING,
    )


@DAMAGED.sign(unless=("tf.abi-*", "tf.wrong-env", "tf.shadowed", "tf.python-unsupported", "tf.not-installed"))
def module_reported_missing(context: Context, messages: MessageLog) -> Problem | None:
    """An import of TensorFlow ends at one of its own requirements."""
    seen = messages.all("requirement-missing")
    if not seen:
        return None
    module = seen[0].values["module"]
    name = _DISTRIBUTIONS.get(module, module.replace("_", "-"))
    return Problem(
        title=f"{name}, which TensorFlow requires, is not installed",
        cause=_IMPORTED,
        evidence=message_evidence(*seen),
        fixes=_install_missing(context, [name]),
    )
