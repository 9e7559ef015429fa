"""The words for what `tfgpu check` read and found, the same in every format."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.diagnosis.repairing import Repair
from tfgpu_doctor.manifests import LATER, UNTIL_THEN
from tfgpu_doctor.plan.answers import NOT_RESOLVED
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.checked import ReadFile
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.report import Report, Severity, Verdict
from tfgpu_doctor.records.resolution import Answer
from tfgpu_doctor.render.ci.plain import place_of

_MOST = 8  # versions that are shown
_BRINGS = frozenset({f"nvidia-{one}-cu{major}" for one in ("cuda-runtime", "cudnn") for major in (11, 12, 13)})
_MEANING: dict[Verdict, str] = {
    "ok": "no problems found",
    "degraded": "it will run, but with problems",
    "broken": "it will not work",
    "unknown": "these files name no TensorFlow",
}
_NOT_RESOLVED = "whether the requirements can be met is unknown"
_LATER = "what these files install is known only when they are filled in or run"


def meaning(report: Report) -> str:
    """What the verdict means."""
    if report.verdict == "unknown" and any(NOT_RESOLVED in one.reason for one in report.undetermined):
        return _NOT_RESOLVED
    later = any(LATER in one.reason or UNTIL_THEN in one.reason for one in report.undetermined)
    return _LATER if later and report.verdict == "unknown" else _MEANING[report.verdict]


def read_file(seen: PlannedEnvironment, answer: Answer | None = None) -> ReadFile:
    """What an environment names, in a line, and what a resolver makes of it."""
    one = seen.environment
    content = (
        f"is {one.part_of}" if one.part_of else "; ".join((*_content(seen), *_answered(seen, answer))) or "nothing"
    )
    return ReadFile(label=one.label, path=one.place.path, content=content)


def not_changed(repaired: Repair) -> Iterator[str]:
    """What --fix does not change, each with its place and the reason: edits that were refused, and what has none."""
    for one in repaired.refused:
        yield f"{one.edit.path}:{one.edit.line}: {one.reason}"
    for finding in repaired.report.findings:
        if (
            finding.root_cause
            and finding.severity is not Severity.NOTE
            and not (finding.fixes and finding.fixes[0].edits)
        ):
            place = place_of(finding)
            where = f"{place[0]}:{place[1]}: " if place else ""
            others = any(fix.edits for fix in finding.fixes)
            why = "the first of its fixes is not an edit of a file" if others else "no edit of these files repairs it"
            yield f"{where}{finding.title} ({finding.id}): {why}"
    if not repaired.is_complete:
        yield "more changes are needed: run the command again"


def _content(seen: PlannedEnvironment) -> Iterator[str]:
    """What an environment names, and what that comes to."""
    if seen.base:
        yield _image(seen)
    if seen.tensorflow:
        row = seen.release
        resolved = f" = {row.version}" if row and row.version not in seen.tensorflow.text else ""
        yield f"{seen.tensorflow.text}{resolved}"
    if seen.environment.python and seen.pythons:
        yield f"Python {seen.pythons[0]}" + (f" to {seen.pythons[-1]}" if len(seen.pythons) > 1 else "")
    inside = seen.base.image.reference if seen.base else None
    # one line can name both: nvidia-cudnn-cu12 is a cuDNN for CUDA 12
    named = dict.fromkeys(version.text for version in (*seen.cudas, *seen.cudnns))
    yield from (text for text in named if text != inside)
    if seen.environment.gpu:
        yield seen.environment.gpu.text


def _answered(seen: PlannedEnvironment, answer: Answer | None) -> Iterator[str]:
    """The versions that a reader looks for: TensorFlow, what the file names, what NVIDIA's packages bring."""
    if answer is None or answer.refusal is not None:
        return
    named = {one.name for one in seen.environment.requirements}
    rank = [lambda one: one in TENSORFLOW, named.__contains__, _BRINGS.__contains__]
    first = [name for pick in rank for name, _ in answer.versions if pick(name)]
    versions = dict(answer.versions)
    shown = list(dict.fromkeys(first))[:_MOST]
    more = len(versions) - len(shown)
    texts = [f"{name} {versions[name]}" for name in shown] + ([f"{more} more"] if more else [])
    yield f"resolved by {answer.program} for Python {answer.python}: {', '.join(texts)}"


def _image(seen: PlannedEnvironment) -> str:
    assert seen.base is not None
    base = seen.base
    parts = [
        f"TensorFlow {base.tensorflow}" if base.tensorflow else "",
        f"CUDA {base.cuda}" if base.cuda else "",
        f"cuDNN {base.cudnn}" if base.cudnn else "",
        f"Python {base.python}" if base.python else "",
    ]
    contents = ", ".join(part for part in parts if part)
    return base.image.reference + (f" ({contents})" if contents else "")
