"""Workflow commands of GitHub: read back as the runner does, nothing from outside is a command or ends one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.healthy import known, spoil
from tests.render.showing import as_format
from tests.render.test_junit import BOMBS
from tests.render.test_text import MACHINES, check_golden, report
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.render.ci.github import commands, escape
from tfgpu_doctor.render.shapes import Annotation

render = as_format("github", "report")
GOLDEN = Path(__file__).parent / "golden" / "github"


class Command(NamedTuple):
    level: str
    title: str
    message: str


def read(text: str) -> tuple[list[Command], list[str]]:
    """The commands that the runner sees, and the other lines (actions/runner, ActionCommand.TryParseV2)."""
    found, rest = [], []
    for line in re.split(r"\r\n|\r|\n", text):
        if not line.lstrip().startswith("::"):
            assert "##[" not in line and "##vso[" not in line
            rest.append(line)
            continue
        name, _, message = line.lstrip()[2:].partition("::")
        level, _, properties = name.partition(" ")
        values = dict(part.split("=", 1) for part in properties.split(","))
        assert list(values) == ["title"]
        found.append(Command(level, _unescape(values["title"]), _unescape(message)))
    return found, [line for line in rest if line]


def _unescape(text: str) -> str:
    for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, char)
    return text


@pytest.mark.parametrize("name", ["healthy", "no-driver", "hot", "unknown", "hostile"])
def test_golden(name: str) -> None:
    check_golden(GOLDEN / f"{name}.txt", render(report(MACHINES[name])))


def test_every_root_cause_is_one_annotation(every_report: dict[str, Report]) -> None:
    levels = {"error": "error", "warning": "warning", "note": "notice"}
    for name, one in every_report.items():
        found, rest = read(render(one))
        roots = [item for item in one.findings if item.root_cause]
        shown = [item for item in found if "could not determine" not in item.title]
        assert sorted(item.level for item in shown) == sorted(levels[item.severity.value] for item in roots), name
        assert len(rest) == 1 and rest[0].startswith(f"tfgpu doctor: {one.verdict}"), name
        for item in roots:
            message = next(each.message for each in found if f"({item.id})" in each.title)
            missing = [command for fix in item.fixes for command in fix.commands if command not in message]
            assert missing == [], name


def test_the_gravest_comes_first() -> None:
    found, _ = read(render(report(MACHINES["hostile"])))
    order = ["error", "warning", "notice"]
    assert [one.level for one in found] == sorted((one.level for one in found), key=order.index)


def test_no_verdict_is_an_error_unless_nothing_may_fail() -> None:
    levels = {how: read(render(report(Facts()), how))[0][-1].level for how in ("error", "never")}  # type: ignore[arg-type]
    assert levels == {"error": "error", "never": "warning"}


INJECTIONS = (
    *BOMBS,
    "x\n::set-output name=a::b",
    "x%0A::error::y",
    "x\r::add-mask::secret",
    "title=a,file=/etc/passwd::stop-commands::abc",
    "##[error]x ##vso[task.setvariable]x",
    "100 %25 %",
)


@pytest.mark.parametrize("text", INJECTIONS)
def test_text_from_outside_is_only_text(text: str) -> None:
    found, rest = read(commands([Annotation("error", text, (text, "second")), Annotation("notice", "t", (text,))]))
    assert [one.level for one in found] == ["error", "notice"]
    assert rest == []
    assert found[0].message.endswith("\nsecond") and found[0].message.count("\n") == 1
    assert "\n" not in found[0].title and found[0].title[:3] == text[:3].replace("\r", "�").replace("\n", " ")


def test_escaping_is_undone_by_the_runner() -> None:
    assert escape("50 %\r\n%0A") == "50 %25%0D%0A%250A"
    assert _unescape(escape("50 %\r\n%0A")) == "50 %\r\n%0A"


def test_hostile_facts() -> None:
    for bomb in INJECTIONS:
        found, _ = read(render(report(spoil(MACHINES["no-driver"], {"python.executable": known(bomb)}))))
        assert {one.level for one in found} <= {"error", "warning", "notice"}


def test_long_texts_are_cut_off() -> None:
    found, _ = read(commands([Annotation("error", "t" * 5000, ("x" * 900,) * 900)]))
    assert len(found[0].title) == 200 and len(found[0].message) == 4000
