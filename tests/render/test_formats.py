"""The registry of formats: every row can be used, and nothing but the row says what a format is."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from tfgpu_doctor.cli import cli
from tfgpu_doctor.render.formats import FORMATS, choices, renderer

ROOT = Path(__file__).parents[2]


def test_every_renderer_is_there_and_documented() -> None:
    for row in FORMATS.values():
        for module in row.renderers.values():
            assert import_module(f"tfgpu_doctor.render.{module}").render.__doc__, (row.name, module)
        assert row.summary in ("", *FORMATS)


def test_every_renderer_has_a_test() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    modules = {module for row in FORMATS.values() for module in row.renderers.values()}
    assert {one for one in modules if not any(f"tfgpu_doctor.render.{one} import" in text for text in sources)} == set()


def test_each_command_offers_what_its_results_can_be_shown_in() -> None:
    assert choices() == ("text", "json")
    assert {"text", "json", "markdown", "junit", "github", "html"} <= set(choices("report"))
    assert {"text", "json", "markdown", "junit", "github"} <= set(choices("smoke")) and "html" not in choices("smoke")
    assert choices("report comparison") == ("text", "json")
    assert choices("bench comparison") == ("text", "json", "markdown")


def test_a_renderer_gets_the_options_that_it_names() -> None:
    assert renderer("junit", "report", {"fail_on": "never", "everything": True}).keywords == {"fail_on": "never"}
    assert renderer("markdown", "report", {"fail_on": "never"}).keywords == {}


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
