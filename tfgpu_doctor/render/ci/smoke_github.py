"""A smoke test in a GitHub job: an annotation for each check that is not ok, every check on a line, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.render.ci.github import Annotation, Level, commands
from tfgpu_doctor.render.ci.plain import line
from tfgpu_doctor.render.smoke_words import WORDS, findings_behind, outcome, title, verdict
from tfgpu_doctor.smoke.records import Smoke


def render(smoke: Smoke) -> str:
    """The lines that the runner reads."""
    text = commands(_annotations(smoke))
    for check in smoke.checks:
        # no line begins with a colon, and none holds the runner's older form of commands
        ok = "ok: " if check.status == "ok" else ""
        where = f"{check.on}: " if check.on else ""
        text += f"{check.name}: " + line(f"{where}{ok}{outcome(check)}").replace("##", "# #") + "\n"
    return text + f"tfgpu smoke: {verdict(smoke)}\n"


def _annotations(smoke: Smoke) -> Iterator[Annotation]:
    for check in smoke.checks:
        if check.status != "ok":
            level: Level = "warning" if check.status == "not run" and smoke.verdict == "failed" else "error"
            name = f"tfgpu smoke: {title(check)}: {WORDS[check.status]}"
            yield Annotation(level, name, (outcome(check), *findings_behind(check, smoke)))
