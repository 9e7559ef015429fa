"""What `tfgpu check` found, for people: what was read from each file, the findings, the changes, the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs
from rich.console import Console
from rich.text import Text

from tfgpu_doctor.records.checked import Change, Checked
from tfgpu_doctor.records.report import Edit, Finding, Fix, Undetermined
from tfgpu_doctor.render.check_words import meaning
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import block
from tfgpu_doctor.render.terminal.layout import hanging, marked, show_block
from tfgpu_doctor.render.terminal.report import show_least, show_verdict

_COLOURS = {"+": "green", "-": "red", "@": "dim"}


def render(checked: Checked, console: Console, detail: Detail = "normal") -> None:
    """Print the whole report, and the changes that --fix makes or made; or the verdict and the first fix."""
    report = checked.report
    if detail == "least":
        show_least(report, meaning(report), console)
        return
    revision = Text(f" {report.tool.version}, matrix of {report.matrix.revision}", "dim")
    console.print(Text.assemble(("tfgpu check", "bold"), revision))
    hanging(Text("for  ", "dim"), Text(checked.target, "bold"), console)
    console.print()
    for file in checked.files:
        hanging(Text(f"  {file.label}  ", "bold"), Text(file.content), console)
    for finding in report.findings:
        show_block(block(finding if detail == "full" else _said_once(finding, checked.changes), {}), console)
    for line in dict.fromkeys(_open(item, detail) for item in report.undetermined):
        console.print()
        marked("unknown", line, console)
    for answer in report.resolved if detail == "full" else ():
        console.print()
        versions = ", ".join(f"{name} {version}" for name, version in answer.versions.items())
        marked("note", f"{answer.label}, resolved by {answer.program} for Python {answer.python}: {versions}", console)
    _show_changes(checked, console)
    show_verdict(report, meaning(report), console)


def _said_once(finding: Finding, changes: Sequence[Change]) -> Finding:
    """The finding with a reference to the difference below in place of each fix that says nothing else."""
    fixes = (
        structs.replace(fix, text=f"Change {_places(fix.edits)} as shown below") if _is_below(fix, changes) else fix
        for fix in finding.fixes
    )
    return structs.replace(finding, fixes=tuple(fixes))


def _is_below(fix: Fix, changes: Sequence[Change]) -> bool:
    after = {one.path: one.after for one in changes}
    alone = "; ".join(f"in {one.path}:{one.line}, write {one.new!r} instead of {one.old!r}" for one in fix.edits)
    # for another finding, --fix may have written something else there
    return (
        bool(fix.edits) and fix.text[1:] == alone[1:] and all(one.new in after.get(one.path, "") for one in fix.edits)
    )


def _places(edits: Sequence[Edit]) -> str:
    """ "requirements.txt:2, 3"."""
    lines: dict[str, list[str]] = {}
    for one in edits:
        lines.setdefault(one.path, []).append(str(one.line))
    return " and ".join(f"{path}:{', '.join(numbers)}" for path, numbers in lines.items())


def _open(item: Undetermined, detail: Detail) -> str:
    return f"{item.reason} ({item.id})" if detail == "full" else item.reason


def _show_changes(checked: Checked, console: Console) -> None:
    if checked.changes:
        console.print()
        console.print(Text("Changed" if checked.fixed else "tfgpu check --fix would change", "bold"))
        for line in checked.difference:
            # a line of a file is shown as it is; a patch that was wrapped could not be applied
            console.print(Text(line, _COLOURS.get(line[:1], "")), soft_wrap=True)
    for line in checked.not_changed:
        console.print()
        marked("unknown", f"Not changed by --fix: {line}", console)
