"""What holds of each format: every kind of result in every format; a new format is one row; the page for an issue."""

from __future__ import annotations

import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cli.hostile import offences
from tests.healthy import healthy, known, spoil
from tests.render.results import STATES, VALID, report, results
from tests.render.showing import as_format, printed
from tfgpu_doctor.cli import output
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Evidence, Finding, Fix, Severity
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.formats import FORMATS, KINDS, Format, choices, renderer
from tfgpu_doctor.render.markdown import LONGEST, fenced
from tfgpu_doctor.render.shapes import Page


@pytest.mark.parametrize("kind", KINDS)
def test_every_result_in_every_format(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(VALID) == set(FORMATS)
    for name in choices(kind):
        red = {"junit": "<failure", "github": "::error"}.get(name)
        for state in STATES:
            # redaction would hide some of a hostile text; without it, the title of an annotation is cut before its id
            output.write(results(kind)[state], kind, [output.Output(name, None)], redact=name == "github")
            shown = capsys.readouterr().out
            VALID[name](shown)
            assert list(offences(shown, name)) == [], (name, state)
            assert red is None or state == "hostile" or (red in shown) is (state == "broken"), name
    assert "[bold]evil" in printed(kind, results(kind)["hostile"])


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


def test_formats_import_no_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tfgpu_doctor.render")]:
        monkeypatch.delitem(sys.modules, name)
    import_module("tfgpu_doctor.render.formats")
    ours = [name for name in sys.modules if name.startswith("tfgpu_doctor.render")]
    assert sorted(ours) == ["tfgpu_doctor.render", "tfgpu_doctor.render.formats"]


# ----------------------------------------------------------------------------------------------------------- markdown


def finding(number: int, **fields: object) -> Finding:
    return Finding(id=f"cuda.{number}", severity=Severity.ERROR, root_cause=True, **fields)  # type: ignore[arg-type]


def test_markdown_is_never_longer_than_an_issue_may_be() -> None:
    evidence = tuple(Evidence(saw="@a" * 500, source="#1" * 500, need="|" * 900, need_source="x") for _ in range(40))
    fixes = tuple(Fix(text="`" * 900, commands=("x" * 1900, "y" * 9000)) for _ in range(5))
    findings = tuple(
        finding(n, title="<" * 500, cause="@a" * 900, evidence=evidence[: n % 7], fixes=fixes[: n % 3])
        for n in range(60)
    )
    big = {
        "tensorflow.log": known(tuple("@a" * 400 for _ in range(400))),
        "variables": known({f"NCCL_{n}": "x" * 4096 for n in range(50)}),
        "python.executable": known("|" * 9000),
    }
    text = as_format("markdown", "report")(replace(report(spoil(healthy(), big)), findings=findings))
    assert len(text) <= LONGEST
    assert "more are too long for this page" in text and "a command of 9000 characters" in text
    assert text.count("<details>") == text.count("</details>")


def test_markdown_of_what_is_pasted_or_harmful() -> None:
    render = as_format("markdown", "report")
    assert fenced(["a ``` b", "````"]).splitlines() == ["`````", "a ``` b", "````", "`````"]
    harmful = finding(1, title="x", cause="", evidence=(), fixes=(), docs="javascript:alert(1)")
    page = render(replace(report(healthy()), findings=(harmful,)))
    assert "javascript" not in page and "### ✗ x" in page
    text = render(report(spoil(Facts(), {"driver.version": known("570.1", "line 3")}), "text"))
    assert "tfgpu explain" in text and "| Driver | 570.1 |" in text and "| cuDNN |" not in text
    nothing = render(report(Facts(), "text"))
    assert "names no machine, driver or TensorFlow" in nothing and "Could not determine" not in nothing
