"""Releases with a bug that affects this machine, and packages that the index does not have."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.library_fixes import without_bug
from tfgpu_doctor.findings.manifest_signs import in_manifests
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.compatibility import requirement
from tfgpu_doctor.matrix.loader import CudnnRelease, Release
from tfgpu_doctor.matrix.schema import Condition, KnownIssue
from tfgpu_doctor.plan.file_edits import replacement, write_tensorflow
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import Package, Soname, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

KNOWN_BUG = finding(
    "tf.known-bug",
    layer="TensorFlow",
    severity=Severity.WARNING,
    title="This TensorFlow release has a known bug that affects this machine",
    # for a release that does not search its own CUDA; for one without kernels for the GPU
    explained_by=("cuda.lib-path", "cudnn.lib-path", "gpu.arch-*"),
    docs="https://github.com/tensorflow/tensorflow/releases",
)


@KNOWN_BUG.sign
def bug_of_this_release(
    context: Context,
    release: Release,
    python_version: str | None = None,
    cards: tuple[Card, ...] | None = None,
    cudnn_release: CudnnRelease | None = None,
    cuda_sonames: tuple[Soname, ...] | None = None,
    packages: tuple[Package, ...] | None = None,
    cpu_flags: tuple[str, ...] | None = None,
) -> Problem | None:
    """The matrix has a bug of this release whose condition holds here."""
    if context.planned:
        return None  # bug_of_required_release knows what the files ask for beside it
    # NumPy and protobuf have findings of their own
    beside = {one.name: one.version for one in packages or () if one.name not in ("numpy", "protobuf")}
    off_path = in_state(cuda_sonames or (), "off path")
    issue = context.matrix.issue_for(
        release,
        python=python_version,
        compute_capabilities=[card.compute_capability for card in cards or ()],
        cudnn=cudnn_release.version if cudnn_release else None,
        extra=any(candidate.via == "pip wheel" for library in off_path for candidate in library.candidates),
        beside=beside,
        cpu_flags=cpu_flags or (),
    )
    if issue is None:
        return None
    return Problem(
        title=f"TensorFlow {release.version}: {issue.title}",
        cause=issue.symptom,
        evidence=(
            evidence(
                f"{release.package} {value_or(context.facts.tensorflow.version, release.version)}",
                context.source("tensorflow.version"),
                "a release without this bug",
                issue.source,
            ),
        ),
        fixes=without_bug(context, release, issue),
        severity=Severity(issue.severity),
        despite_verified=issue.affects == "run" and not issue.condition.extra,  # the extra's libraries were found then
        never_consequence=not (issue.condition.extra or _is_about_architecture(issue.condition)),
    )


@KNOWN_BUG.sign
def extra_not_on_index(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """2.14 and 2.15.0 require TensorRT packages of which the public index has no wheel for this Python."""
    seen = messages.all("extra-not-on-index")
    if not seen:
        return None
    return Problem(
        severity=Severity.ERROR,
        title=f"The extra and-cuda of TensorFlow {release.version if release else '2.15.0'} cannot be installed",
        cause="it requires versions of TensorRT that the public index does not have; 2.15.1 does not require TensorRT",
        evidence=message_evidence(*seen),
        fixes=context.remedies.installing(
            "Install the next release, whose extra does not require TensorRT", "tensorflow[and-cuda]==2.15.1"
        ),
    )


@KNOWN_BUG.sign
def dependency_not_on_index(context: Context, messages: MessageLog) -> Problem | None:
    """pip finds no version of a package that TensorFlow or an addition to it requires."""
    seen = messages.all("dependency-not-on-index")
    if not seen or messages.has("extra-not-on-index"):
        return None
    package = seen[0].values["package"]
    if package.startswith("nvidia-") and context.remedies.os == "windows":
        return Problem(
            title=f"The extra and-cuda needs {package}, which does not exist for Windows",
            cause="TensorFlow 2.11 and later have no GPU support on native Windows, and so no CUDA packages there",
            evidence=message_evidence(*seen),
            fixes=tuple(context.remedies.use_wsl()),
        )
    return Problem(
        title=f"The index has no {package} of the required version",
        cause="the version was never published there, or not for this Python and system",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(text="List the published versions", commands=(f"python -m pip index versions {package}",)),
            Fix(text="Install the previous release, or another one whose dependencies are published"),
        ),
    )


@in_manifests(
    KNOWN_BUG,
    unless=("tf.package-removed", "tf.windows-native", "tf.cpu-build", "gpu.arch-too-new", "gpu.arch-too-old"),
)
def bug_of_required_release(view: PlannedEnvironment) -> Iterator[Problem]:
    """What will be installed has a bug in this environment."""
    row = view.release
    if row is None or view.conda:
        return
    issues = view.matrix.issues_for(
        row, python=view.python, compute_capabilities=view.target.capabilities, extra=view.extra
    )
    for issue in issues:
        if _concerns(view, issue):
            yield Problem(
                title=f"TensorFlow {row.version}: {issue.title}",
                cause=issue.symptom,
                evidence=(Evidence(f"TensorFlow {row.version}", view.where, "another release", issue.source),),
                fixes=(*_without_bug(view, row), Fix(issue.fix, issue.commands)),
                severity=Severity(issue.severity),
            )


def _without_bug(view: PlannedEnvironment, row: Release) -> Iterator[Fix]:
    """The line of TensorFlow with a release that has no such bug: the nearest, where there is one."""
    better = replacement(view) if view.tensorflow and row.extra else None
    if view.tensorflow and better and better != requirement(row):
        yield write_tensorflow(view.tensorflow, better)


def _is_about_architecture(condition: Condition) -> bool:
    """Whether the bug is that there are no kernels for some GPUs."""
    return bool(condition.min_compute_capability or condition.max_compute_capability)


def _concerns(view: PlannedEnvironment, issue: KnownIssue) -> bool:
    """Whether it appears when the release is installed or run as planned; GPUs and NumPy have findings of their own."""
    condition = issue.condition
    if issue.severity not in ("error", "warning"):
        return False
    if _is_about_architecture(condition) or "numpy" in issue.id:
        return False
    if "libdevice" in issue.id and view.base and view.base.cuda:
        return False  # xla.libdevice-missing judges the image
    if issue.affects == "install":
        return bool(view.extra or not (condition.extra or "and-cuda" in issue.id))
    return issue.affects == "run" and bool(view.wants_gpu or not condition.extra)
