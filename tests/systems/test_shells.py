"""No command that is advised on Windows is for a POSIX shell or a Unix; what only cmd understands is said twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from tests.findings.rows_over_facts import FIRES
from tests.findings.test_repairs import TEXTS
from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, healthy, known, spoil
from tests.systems.shells import posix
from tests.tables import each
from tests.tiers import usual
from tfgpu_doctor.facts.report import Finding
from tfgpu_doctor.findings.pages import all_ids, page_of
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.target import describe, read_specifier
from tfgpu_doctor.plan.windows_shell import for_both_shells

HERE = {
    "host.os": known("windows"),
    "host.container": known("none"),
    "python.executable": known("C:\\Users\\ann x\\tf\\Scripts\\python.exe"),
    "python.prefix": known("C:\\Users\\ann x\\tf"),
    "python.wheel_platform": known("windows_amd64"),
}


def offences(found: Iterable[Finding]) -> list[str]:
    fixes = ((finding.id, msgspec.to_builtins(fix)) for finding in found for fix in finding.fixes)
    return sorted({f"{one}: {command}" for one, fix in fixes for command in posix(fix)})


@pytest.mark.parametrize("part", usual(["first", "others"], lambda part: part == "first"))
def test_findings_over_facts(part: str) -> None:
    """Over the rows of the signs: the first of each every day, the others with `-m full`."""
    rows = [row for several in FIRES.values() for row in (several[:1] if part == "first" else several[1:])]
    found = [diagnose(spoil(healthy(), {**changes, **HERE}), MATRIX).findings for _, changes in rows]
    wrong = offences(finding for findings in found for finding in findings)
    assert wrong == [], "\n".join(wrong)


@pytest.mark.full
def test_findings_over_messages() -> None:
    own = (text for text in TEXTS if "docker run" not in text)  # within an image it is a shell of Linux
    wrong = offences(one for text in own for one in findings(f"OS: Windows 11\n{text}"))
    assert wrong == [], "\n".join(wrong)


@each("python, wanted", [("3.8", "==2.4.*"), ("3.10", None), ("3.10", "<2.11"), ("3.13", None)])
def test_plans(python: Any, wanted: Any) -> None:
    target = describe(MATRIX, gpu=("RTX 3060",), driver="560.94", python=python, os="windows")
    plan = make_plan(MATRIX, target, specifier=read_specifier(wanted) if wanted else None)
    own = [option for option in plan.options if option.kind not in ("wsl2", "container")]
    fixes = [fix for option in own for fix in (*option.first, *option.missing, *option.then)]
    wrong = [command for fix in fixes for command in posix(msgspec.to_builtins(fix))]
    commands = [command for option in own for several in option.commands.values() for command in several]
    assert wrong + posix({"text": "", "commands": commands}) == []
    assert commands or any(option.kind == "wsl2" for option in plan.options)


def test_what_only_cmd_understands_is_said_twice() -> None:
    both = (*for_both_shells(('set "A=1"', "set A=", 'set "PATH=C:\\cuda;%PATH%"')),)
    assert len(both) == 6 and posix({"text": "", "commands": both}) == []
    assert posix({"text": "", "commands": ["export A=1", *both[:-1]]}) == ["export A=1", both[-2]]


def test_pages() -> None:
    pages = [page for one in all_ids() if (page := page_of(one))]
    fixes = [(page.id, fix) for page in pages for fix in page.fixes if fix.platform == "Windows"]
    wrong = [f"{one}: {command}" for one, fix in fixes for command in posix(msgspec.to_builtins(fix))]
    assert wrong == [], "\n".join(wrong)
