"""Releases with a bug that affects this machine, and packages that the index does not have."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.library_fixes import without_bug
from tfgpu_doctor.findings.manifest_signs import in_manifests
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
