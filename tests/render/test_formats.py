"""What holds of each format: every kind of result in every format; a new format is one row; the page for an issue."""

from __future__ import annotations

import json
import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote

import pytest
from msgspec.structs import replace

from tests.cli.hostile import offences
from tests.findings.rows_over_facts import FIRES
from tests.healthy import healthy, known, spoil
from tests.render.results import (
    BROKEN,
    EMPTY,
    FINE,
    MACHINES,
    STATES,
    VALID,
    ElementTree,
    commands,
    every_report,
    is_red,
    junit,
    report,
    results,
    smokes,
)
from tests.render.showing import as_format, printed
from tfgpu_doctor.cli import output
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Evidence, FailOn, Finding, Fix, Severity, exit_code
from tfgpu_doctor.findings import pages
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.engine import restrict
from tfgpu_doctor.render import ci, formats
from tfgpu_doctor.render.formats import FORMATS, KINDS, Format, choices, renderer
from tfgpu_doctor.render.markdown import LONGEST, fenced
from tfgpu_doctor.render.shapes import Annotation, Case, Checks, Outcome, Page, Suite
from tfgpu_doctor.smoke.records import exit_code as exit_code_of_smoke


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
    monkeypatch.setitem(formats.FORMATS, "toy", Format("toy", "page", "toy:render", ending=".toy"))
    for kind in KINDS:
        assert "toy" in choices(kind)
        assert " says " in renderer("toy", kind, {})(results(kind)["broken"])
    assert output.pair_outputs((), ("x.toy",), "report")[1:] == [output.Output("toy", Path("x.toy"))]


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


# --------------------------------------------- JUnit XML, workflow commands, SARIF: red exactly where the exit code is

as_junit, as_github = as_format("junit", "report"), as_format("github", "report")
VERDICT = "a verdict could be reached"


def outcomes(root: ElementTree.Element) -> dict[str, tuple[str, str]]:
    """Name of each case → (outcome, message)."""
    found = {}
    for case in root.iter("testcase"):
        child = next((one for one in case if one.tag != "system-out"), None)
        found[case.attrib["name"]] = (child.tag, child.attrib["message"]) if child is not None else ("passed", "")
    return found


def test_junit_is_red_exactly_where_the_exit_code_is() -> None:
    for name, one in every_report().items():
        for fail_on in get_args(FailOn):
            root = ElementTree.fromstring(as_junit(one, fail_on))
            assert is_red(root) is (exit_code(one, fail_on) != 0), (name, fail_on)
    for checked, red in ((BROKEN, ("1", "0")), (FINE, ("0", "0")), (EMPTY, ("0", "1"))):
        root = junit(as_format("junit", "check")(checked))
        assert (root.attrib["failures"], root.attrib["errors"]) == red
        assert "requirements.txt" in {case.get("classname") for case in root.iter("testcase")}


def test_smoke_agrees_with_the_exit_code_in_every_format() -> None:
    for name, smoke in smokes().items():
        fails = exit_code_of_smoke(smoke.verdict) != 0
        root, (found, rest) = junit(as_format("junit", "smoke")(smoke)), commands(as_format("github", "smoke")(smoke))
        assert is_red(root) is fails is any(one.level == "error" for one in found), name
        assert int(root.attrib["tests"]) == len(smoke.checks) == len(rest) - 1, name
        assert as_format("markdown", "smoke")(smoke).startswith("**✓") is not fails, name
    # a failure is one failure, and what could not run beside it is none
    root = junit(as_format("junit", "smoke")(smokes()["no-tensorflow"]))
    assert (root.attrib["failures"], root.attrib["errors"]) == ("2", "1")


def test_every_check_has_a_case_once_and_one_problem_is_one_failure() -> None:
    """What follows from the missing driver is told as that, and what was not asked beside it does not pass."""
    shown = [case.attrib["name"] for case in junit(as_junit(report(MACHINES["healthy"]))).iter("testcase")]
    assert sorted(shown) == sorted({*DECLARATIONS, *pages.all_ids(), VERDICT})
    one = report(MACHINES["no-driver"])
    found = outcomes(junit(as_junit(one)))
    assert [name for name, (outcome, _) in found.items() if outcome == "failure"] == ["driver.missing"]
    assert found["gpu.not-visible"][0] == "skipped" and "follows from driver.missing" in found["gpu.not-visible"][1]
    assert (found["driver.too-old"][0], found["tf.not-installed"][0]) == ("skipped", "passed")
    only = outcomes(junit(as_junit(restrict(one, ("cuda.*",), ()), "error", ("cuda.*",))))
    assert set(only) == {VERDICT, *(i for i in pages.all_ids() if i.startswith("cuda."))}
    # a text passes no check
    told = outcomes(junit(as_junit(report(spoil(Facts(), FIRES["driver.version-mismatch"][0][1]), "text"))))
    assert told["driver.version-mismatch"][0] == "failure"
    assert [name for name, (outcome, _) in told.items() if outcome == "passed"] == [VERDICT]


def test_what_is_no_error_passes_until_it_shall_fail() -> None:
    hot = report(MACHINES["hot"])
    assert outcomes(junit(as_junit(hot)))["gpu.throttled"] == ("passed", "")
    assert outcomes(junit(as_junit(hot, "warning")))["gpu.throttled"][0] == "failure"
    nothing = report(Facts())
    for fail_on, outcome, level in (("error", "error", "error"), ("never", "skipped", "warning")):
        found = outcomes(junit(as_junit(nothing, fail_on)))
        assert found[VERDICT][0] == outcome
        assert found["gpu.none"][0] == "skipped"  # could not be determined is not passed
        assert commands(as_github(nothing, fail_on))[0][-1].level == level


def test_every_root_cause_is_one_annotation_the_gravest_first() -> None:
    levels = {"error": "error", "warning": "warning", "note": "notice"}
    for name, one in every_report().items():
        found, rest = commands(as_github(one))
        roots = [item for item in one.findings if item.root_cause]
        shown = [item.level for item in found if "could not determine" not in item.title]
        assert sorted(shown) == sorted(levels[item.severity.value] for item in roots), name
        assert shown == sorted(shown, key=list(levels.values()).index), name
        assert len(rest) == 1 and rest[0].startswith(f"tfgpu doctor: {one.verdict}"), name
        for item in roots:
            message = next(each.message for each in found if f"({item.id})" in each.title)
            assert [text for fix in item.fixes for text in fix.commands if text not in message] == [], name


def test_what_check_finds_stands_at_its_line() -> None:
    show, sarif = as_format("github", "check"), as_format("sarif", "check")
    first, last = show(BROKEN).splitlines()
    assert first.startswith("::error file=requirements.txt,line=2,title=tensorflow-gpu cannot be installed (tf.")
    assert last == "tfgpu check: broken: it will not work (1 problem)"
    for shown in (show(BROKEN, folder="services/b"), sarif(BROKEN, folder="services/b")):  # as GitHub looks for it
        assert "services/b/requirements.txt" in shown
    assert show(FINE) == "tfgpu check: ok: no problems found\n"
    assert show(EMPTY).startswith("::error title=tfgpu check%3A these files name no TensorFlow::")
    (run,) = json.loads(sarif(BROKEN))["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "tf.package-removed"
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("requirements.txt", 2)
    assert result["level"] == "error" and json.loads(sarif(FINE))["runs"][0]["results"] == []


def annotated(*annotations: Annotation) -> Any:
    return commands(ci.github(Checks("", "", (), annotations, ())))


def test_text_from_outside_is_only_text() -> None:
    """A case of each outcome, and how the runner reads."""
    text = "[[ATTACHMENT|/etc/passwd]] ]]> <![CDATA[ &#0; \x00\x0b\ufffe\ud800\r\nand\u2028more %0A::error::y"
    for outcome in get_args(Outcome):
        case = Case(text, text, outcome, "" if outcome == "passed" else "failed", text, (text, text), 0.25)
        suites = (Suite(text, (case,)), Suite("empty", ()))
        root = junit(ci.junit(Checks(text, "2026-11-21T08:00:00Z", suites, (), ())))
        assert len(list(root.iter())) == 4 and root[0][0].attrib["time"] == "0.250"
        assert all(char.isprintable() or char == "\n" for char in "".join(root.itertext()))
    found, rest = annotated(Annotation("error", text, (text, "second")), Annotation("notice", "t", ("",)))
    assert [one.level for one in found] == ["error", "notice"] and rest == []
    assert found[0].message.endswith("\nsecond") and found[0].message.count("\n") == 1 and "\n" not in found[0].title
    assert ci.escape("50 %\r\n%0A") == "50 %25%0D%0A%250A" and unquote(ci.escape("50 %\r\n%0A")) == "50 %\r\n%0A"
    found, _ = annotated(Annotation("error", "t" * 5000, ("x" * 900,) * 900))
    assert len(found[0].title) == 200 and len(found[0].message) == 4000
