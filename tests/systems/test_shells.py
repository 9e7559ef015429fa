"""No command that is advised on Windows is for a POSIX shell or a Unix; what only cmd understands is said twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest

from tests.findings.rows_over_facts import FIRES
from tests.findings.test_advice import TEXTS
from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, healthy, known, spoil
from tests.systems.shells import posix
from tests.tables import each
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


def over_facts() -> Iterator[Finding]:
    for rows in FIRES.values():
        for _, changes in rows:
            yield from diagnose(spoil(healthy(), {**changes, **HERE}), MATRIX).findings


def test_findings_over_facts() -> None:
    wrong = offences(over_facts())
    assert wrong == [], "\n".join(wrong)


@pytest.mark.full
def test_findings_over_messages() -> None:
    wrong = offences(one for text in TEXTS for one in findings(f"OS: Windows 11\n{text}"))
    assert wrong == [], "\n".join(wrong)


@each("python, wanted", [("3.8", "==2.4.*"), ("3.10", None), ("3.10", "<2.11"), ("3.13", None)])
def test_plans(python: Any, wanted: Any) -> None:
    target = describe(MATRIX, gpu=("RTX 3060",), driver="560.94", python=python, os="windows")
    plan = make_plan(MATRIX, target, specifier=read_specifier(wanted) if wanted else None)
    wrong = [
        command
        for option in plan.options
        if option.kind not in ("wsl2", "container")
        for fix in (*option.first, *option.missing, *option.then)
        for command in posix(msgspec.to_builtins(fix))
    ]
    own = (one for one in plan.options if one.kind not in ("wsl2", "container"))
    commands = [command for option in own for several in option.commands.values() for command in several]
    assert wrong + posix({"text": "", "commands": commands}) == []
    assert commands or any(option.kind == "wsl2" for option in plan.options)


def test_what_a_posix_shell_alone_understands_is_seen() -> None:
    """The check of the check."""
    bad = (
        "export A=1",
        "~/tf/bin/python x",
        "python -c 'import sys'",
        "A=1 python x",
        "pip list | grep x",
        "where x",
        'set "A=1"',
    )
    good = (
        "tf\\Scripts\\python -m pip install tensorflow",
        "python -c \"print('x')\"",
        'conda create -n tf "cudnn>=8.1,<9"',
        "where.exe cudart64_*.dll",
    )
    assert posix({"text": "", "commands": bad + good}) == list(bad)
    both = (*for_both_shells(('set "A=1"', "set A=", 'set "PATH=C:\\cuda;%PATH%"')),)
    assert len(both) == 6 and posix({"text": "", "commands": both}) == []
    assert posix({"text": "", "commands": both[:-1]}) == [both[-2]]


def test_pages() -> None:
    pages = [page for one in all_ids() if (page := page_of(one))]
    wrong = [
        f"{page.id}: {command}"
        for page in pages
        for fix in page.fixes
        if fix.platform == "Windows"
        for command in posix({"text": fix.text, "commands": fix.commands})
    ]
    assert wrong == [], "\n".join(wrong)
