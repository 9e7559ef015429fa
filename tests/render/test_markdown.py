"""The page for an issue: its length whatever the report, and nothing in it that acts as markup."""

from __future__ import annotations

from msgspec.structs import replace

from tests.healthy import healthy, known, spoil
from tests.render.results import report
from tests.render.showing import as_format
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Evidence, Finding, Fix, Severity
from tfgpu_doctor.render.markdown import LONGEST, fenced

render = as_format("markdown", "report")


def finding(number: int, **fields: object) -> Finding:
    return Finding(id=f"cuda.{number}", severity=Severity.ERROR, root_cause=True, **fields)  # type: ignore[arg-type]


def test_a_block_cannot_be_ended_by_its_content_and_no_link_is_made_of_a_script() -> None:
    assert fenced(["a ``` b", "````"]).splitlines() == ["`````", "a ``` b", "````", "`````"]
    harmful = finding(1, title="x", cause="", evidence=(), fixes=(), docs="javascript:alert(1)")
    page = render(replace(report(healthy()), findings=(harmful,)))
    assert "javascript" not in page and "### ✗ x" in page


def test_never_longer_than_an_issue_may_be() -> None:
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
    text = render(replace(report(spoil(healthy(), big)), findings=findings))
    assert len(text) <= LONGEST
    assert "more are too long for this page" in text
    assert "a command of 9000 characters" in text
    assert text.count("<details>") == text.count("</details>")


def test_a_pasted_text_shows_the_layers_that_it_tells() -> None:
    text = render(report(spoil(Facts(), {"driver.version": known("570.1", "line 3")}), "text"))
    assert "tfgpu explain" in text
    assert "| Driver | 570.1 |" in text and "| cuDNN |" not in text
    nothing = render(report(Facts(), "text"))
    assert "names no machine, driver or TensorFlow" in nothing
    assert "Could not determine" not in nothing
