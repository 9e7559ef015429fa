"""The registry of formats: every kind of result in every format that it has; a new format is one row."""

from __future__ import annotations

import re
import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli.hostile import offences
from tests.render.results import STATES, TYPES, VALID, metrics, results
from tfgpu_doctor.cli import cli, output
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.formats import FORMATS, KINDS, Format, choices, renderer
from tfgpu_doctor.render.shapes import Page

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in choices(kind)])
def test_every_result_in_every_format(kind: str, name: str, state: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.write(results(kind)[state], kind, [output.Output(name, None)])
    shown = capsys.readouterr().out
    VALID[name](shown)
    assert list(offences(shown, name)) == []


def test_every_kind_and_every_format_is_tried() -> None:
    assert set(TYPES) == set(KINDS) and set(VALID) == set(FORMATS)


def test_red_where_something_is_wrong() -> None:
    for kind in (kind for kind, shapes in KINDS.items() if "checks" in shapes):
        healthy, broken = (renderer("junit", kind, {})(results(kind)[state]) for state in ("healthy", "broken"))
        assert "<failure" not in healthy and "<failure" in broken, kind
        healthy, broken = (renderer("github", kind, {})(results(kind)[state]) for state in ("healthy", "broken"))
        assert "::error" not in healthy and "::error" in broken, kind


def test_metrics_have_the_numbers_of_the_result() -> None:
    text = renderer("prometheus", "report", {})(results("report")["broken"])
    assert 'tfgpu_doctor_verdict{verdict="broken"} 1\n' in text
    assert 'tfgpu_doctor_findings{severity="error"} 1\n' in text
    assert 'tfgpu_doctor_finding{id="cuda.missing",severity="error"} 1\n' in text
    assert re.search(r'tfgpu_doctor_info\{version="[^"]+",matrix="[^"]+",tensorflow="[\d.]+",python="', text)
    assert 'tfgpu_doctor_gpu_memory_bytes{gpu="0"} 15' in text
    smoke = renderer("prometheus", "smoke", {})(results("smoke")["healthy"])
    assert 'tfgpu_smoke_check{check="matpow",device="GPU 1",status="ok"} 1\n' in smoke
    assert re.search(r'tfgpu_smoke_check_flop_per_second\{check="matpow",device="GPU 0"\} \d', smoke)
    metrics(text + smoke)  # together in one folder of the collector


def test_a_label_holds_what_it_is_given() -> None:
    from tfgpu_doctor.render.prometheus import render
    from tfgpu_doctor.render.shapes import Metric, Sample

    hostile = Sample(float("nan"), {"a": 'x"} 1\n\\n{b="', "b": ""})
    text = render([Metric("tfgpu_x", "a\nb\\", (hostile, hostile, Sample(1.5e-7))), Metric("tfgpu_y", "none", ())])
    assert text.splitlines()[0] == r"# HELP tfgpu_x a\nb\\"
    assert text.splitlines()[2:] == [r'tfgpu_x{a="x\"} 1 \\n{b=\""} NaN', "tfgpu_x 1.5e-07"]
    assert list(metrics(text)) == ["tfgpu_x"]


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


def test_every_renderer_is_there_and_documented() -> None:
    modules = {module for row in FORMATS.values() for module in (*row.own.values(), row.renderer) if module}
    for module in modules:
        assert import_module(f"tfgpu_doctor.render.{module}").render.__doc__, module
    for kind, shapes in KINDS.items():
        outline = import_module(f"tfgpu_doctor.render.outlines.{kind.replace(' ', '_')}")
        assert all(getattr(outline, shape).__doc__ for shape in shapes)
    assert {row.summary for row in FORMATS.values()} <= {"", *FORMATS}


def test_each_command_offers_what_its_results_can_be_shown_in() -> None:
    assert choices() == ("text", "json")
    every = tuple(FORMATS)
    assert choices("report") == choices("smoke") == choices("fleet") == tuple(name for name in every if name != "sarif")
    assert set(every) - set(choices("check")) == {"prometheus"}
    assert set(every) - set(choices("report comparison")) == {"sarif", "prometheus"}
    assert set(every) - set(choices("bench comparison")) == set(every) - set(choices("bench")) == {"sarif"}
    assert choices("plan") == choices("matrix") == ("text", "json", "markdown", "html")


def test_a_renderer_gets_the_options_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def checks(result: object, fail_on: str = "error") -> object:
        given[fail_on] = result
        return result

    monkeypatch.setattr("tfgpu_doctor.render.outlines.report.checks", checks)
    monkeypatch.setattr("tfgpu_doctor.render.ci.junit.render", lambda checks: checks)
    assert renderer("junit", "report", {"fail_on": "never", "everything": True})("it") == "it"
    assert given == {"never": "it"}


@pytest.mark.parametrize("command", ["doctor", "explain", "smoke"])
def test_help_names_the_formats_that_are_redacted(command: str) -> None:
    page = " ".join(CliRunner().invoke(cli, [command, "--help"]).output.split())
    *others, last = (row.name for row in FORMATS.values() if row.shared)
    assert f"[default: in {', '.join(others)} and {last}]" in page


def test_formats_import_no_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tfgpu_doctor.render")]:
        monkeypatch.delitem(sys.modules, name)
    import_module("tfgpu_doctor.render.formats")
    ours = [name for name in sys.modules if name.startswith("tfgpu_doctor.render")]
    assert sorted(ours) == ["tfgpu_doctor.render", "tfgpu_doctor.render.formats"]
