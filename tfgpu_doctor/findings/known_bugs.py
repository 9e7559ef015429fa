"""Findings about known bugs."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.packages import _dependency_not_there
from tfgpu_doctor.matrix.loader import CudnnRelease, Release
from tfgpu_doctor.records.facts import Package, Soname
from tfgpu_doctor.records.report import Fix, Severity

KNOWN_BUG = finding(
    "tf.known-bug",
    layer="TensorFlow",
    severity=Severity.WARNING,
    title="This TensorFlow release is known to be broken here",
    docs="https://github.com/tensorflow/tensorflow/releases",
)


@KNOWN_BUG.sign
def known_bug(
    context: Context,
    release: Release,
    python_version: str | None = None,
    cards: tuple[Card, ...] | None = None,
    cudnn_release: CudnnRelease | None = None,
    cuda_sonames: tuple[Soname, ...] | None = None,
    packages: tuple[Package, ...] | None = None,
    cpu_flags: tuple[str, ...] | None = None,
) -> Problem | None:
    """The matrix knows a defect of this very release whose condition holds here."""
    # NumPy and protobuf have rules of their own
    beside = {one.name: one.version for one in packages or () if one.name not in ("numpy", "protobuf")}
    lost = in_state(cuda_sonames or (), "off path")
    issue = context.matrix.issue_for(
        release,
        python=python_version,
        compute_capabilities=[card.compute_capability for card in cards or ()],
        cudnn=cudnn_release.version if cudnn_release else None,
        extra=any(candidate.via == "pip wheel" for library in lost for candidate in library.candidates),
        beside=beside,
        cpu_flags=cpu_flags or (),
    )
    if issue is None:
        return None
    here = f"{context.remedies.python} -m pip"
    return Problem(
        title=f"TensorFlow {release.version}: {issue.title}",
        cause=issue.symptom,
        evidence=(
            evidence(
                f"{release.package} {release.version}",
                context.source("tensorflow.version"),
                "a release without this defect",
                issue.source,
            ),
        ),
        fixes=(Fix(text=issue.fix, commands=tuple(c.replace("python3 -m pip", here) for c in issue.commands)),),
        severity=Severity(issue.severity),
    )


@KNOWN_BUG.sign
def extra_not_on_index(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """2.14 and 2.15.0 ask for TensorRT packages of which the public index has no wheel for this Python."""
    seen = messages.all("extra-not-on-index")
    if not seen and (missing := messages.all("dependency-not-on-index")):
        return _dependency_not_there(missing)
    if not seen:
        return None
    version = release.version if release else "2.15.0"
    return Problem(
        severity=Severity.ERROR,
        title=f"The extra and-cuda of TensorFlow {version} cannot be installed",
        cause="it names versions of TensorRT that the public index does not have; 2.15.1 does without TensorRT",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="Install the next release, whose extra needs no TensorRT",
                commands=context.remedies.pip_install("tensorflow[and-cuda]==2.15.1"),
            ),
        ),
    )
