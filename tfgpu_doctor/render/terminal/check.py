"""What `tfgpu check` found, for people: what was read from each file, the findings, the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.manifests import Environment
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.planned import PlannedEnvironment, planned
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.render.outline import block
from tfgpu_doctor.render.terminal.layout import hanging, marked, show_block
from tfgpu_doctor.render.terminal.plan import target_line
from tfgpu_doctor.render.terminal.report import show_verdict

_MEANING = {
    "ok": "no problems found",
    "degraded": "it will run, but with problems",
    "broken": "it will not work",
    "unknown": "these files name no TensorFlow",
}


def render(
    report: Report, environments: Iterable[Environment], target: Target, matrix: Matrix, console: Console
) -> None:
    """Print the whole report."""
    revision = Text(f" {report.tool.version}, matrix of {report.matrix.revision}", "dim")
    console.print(Text.assemble(("tfgpu check", "bold"), revision))
    hanging(Text("for  ", "dim"), Text(target_line(target), "bold"), console)
    console.print()
    for environment in environments:
        seen = planned(environment, target, matrix)
        hanging(Text(f"  {environment.label}  ", "bold"), Text("; ".join(_read(seen)) or "nothing"), console)
    for finding in report.findings:
        show_block(block(finding, {}), console)
    for line in dict.fromkeys(item.reason for item in report.undetermined):
        console.print()
        marked("unknown", line, console)
    show_verdict(report, _MEANING[report.verdict], console)


def _read(seen: PlannedEnvironment) -> Iterator[str]:
    """What an environment names, and what that comes to."""
    if seen.base:
        yield _image(seen)
    if seen.tensorflow:
        row = seen.release
        resolved = f" = {row.version}" if row and row.version not in seen.tensorflow.specifier else ""
        yield f"{seen.tensorflow.text}{resolved}"
    if seen.environment.python and seen.pythons:
        yield f"Python {seen.pythons[0]}" + (f" to {seen.pythons[-1]}" if len(seen.pythons) > 1 else "")
    inside = seen.base.image.reference if seen.base else None
    for version in (*seen.cudas, *seen.cudnns):
        if version.text != inside:
            yield version.text
    if seen.environment.gpu:
        yield seen.environment.gpu.text


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
