"""The registry of formats, and what holds of each: every kind of result in every format; a new format is one row."""

from __future__ import annotations

import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli.hostile import offences
from tests.render.results import STATES, VALID, results
from tests.render.showing import printed
from tfgpu_doctor.cli import cli, output
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.formats import FORMATS, KINDS, Format, choices, renderer
from tfgpu_doctor.render.shapes import Page


@pytest.mark.parametrize("kind", KINDS)
def test_every_result_in_every_format(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in choices(kind):
        for state in STATES:
            output.write(results(kind)[state], kind, [output.Output(name, None)])
            shown = capsys.readouterr().out
            VALID[name](shown)
            assert list(offences(shown, name)) == [], (name, state)
    assert "[bold]evil" in printed(kind, results(kind)["hostile"])


def test_every_format_is_tried() -> None:
    assert set(VALID) == set(FORMATS)


def test_red_where_something_is_wrong() -> None:
    for kind in (kind for kind, row in KINDS.items() if "checks" in row.shapes):
        for name, word in (("junit", "<failure"), ("github", "::error")):
            healthy, broken = (renderer(name, kind, {})(results(kind)[state]) for state in ("healthy", "broken"))
            assert word not in healthy and word in broken, kind


def test_a_new_format_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    toy: Any = types.ModuleType("tfgpu_doctor.render.toy")

    def render(page: Page) -> str:
        return f"{page.title} says {page.word}\n"

    toy.render = render
    monkeypatch.setitem(sys.modules, "tfgpu_doctor.render.toy", toy)
    monkeypatch.setitem(formats.FORMATS, "toy", Format("toy", "page", "toy", ending=".toy"))
    for kind in KINDS:
        assert "toy" in choices(kind)
        assert " says " in renderer("toy", kind, {})(results(kind)["broken"])
    assert output.pair_outputs((), ("x.toy",), "report") == [output.Output("toy", Path("x.toy"))]


def test_each_command_offers_what_its_results_can_be_shown_in() -> None:
    assert choices() == ("text", "json")
    every = tuple(FORMATS)
    assert choices("report") == choices("smoke") == tuple(name for name in every if name != "sarif")
    assert choices("fleet") == ("text", "json", "markdown", "html", "prometheus")
    assert set(every) - set(choices("check")) == {"prometheus"}
    assert set(every) - set(choices("bench comparison")) == {"sarif", "prometheus"}
    assert set(every) - set(choices("bench")) == {"sarif", "junit", "github", "prometheus"}
    assert choices("plan") == choices("matrix") == choices("report comparison") == ("text", "json", "markdown", "html")
    assert {row.summary for row in FORMATS.values()} <= {"", *FORMATS}


def test_a_renderer_gets_the_options_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def checks(result: object, fail_on: str = "error") -> object:
        given[fail_on] = result
        return result

    monkeypatch.setattr("tfgpu_doctor.render.outlines.report.checks", checks)
    monkeypatch.setattr("tfgpu_doctor.render.ci.junit", lambda checks: checks)
    assert renderer("junit", "report", {"fail_on": "never", "everything": True})("it") == "it"
    assert given == {"never": "it"}


def test_help_names_the_formats_that_are_redacted() -> None:
    *others, last = (row.name for row in FORMATS.values() if row.shared)
    for command in ("doctor", "explain", "smoke"):
        page = " ".join(CliRunner().invoke(cli, [command, "--help"]).output.split())
        assert f"[default: in {', '.join(others)} and {last}]" in page, command


def test_formats_import_no_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tfgpu_doctor.render")]:
        monkeypatch.delitem(sys.modules, name)
    import_module("tfgpu_doctor.render.formats")
    ours = [name for name in sys.modules if name.startswith("tfgpu_doctor.render")]
    assert sorted(ours) == ["tfgpu_doctor.render", "tfgpu_doctor.render.formats"]
