"""What `tfgpu check` found, in the formats that show a file and a line."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.diagnosis.test_manifests import judged, made
from tests.render.showing import as_format
from tfgpu_doctor.records.checked import Change, Checked, ReadFile
from tfgpu_doctor.render.ci.check_sarif import render as as_sarif
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.terminal.check import render as as_text

as_github, as_junit, as_markdown = (as_format(name, "check") for name in ("github", "junit", "markdown"))


def checked(*requirements: str) -> Checked:
    """A file with one error in line 2, and a change of it."""
    return Checked(
        report=judged(made(*requirements), gpu="A100"),
        target="A100",
        files=(ReadFile(label="requirements.txt", path="requirements.txt", content="numpy; tensorflow-gpu"),),
        changes=(Change(path="requirements.txt", before="numpy\nold\n", after="numpy\nnew\n"),),
        not_changed=("Dockerfile:1: a variable",),
    )


BROKEN, FINE, EMPTY = checked("numpy", "tensorflow-gpu"), checked("tensorflow[and-cuda]==2.20.0"), checked("numpy")


def test_an_annotation_stands_at_its_line() -> None:
    first, last = as_github(BROKEN).splitlines()
    assert first.startswith("::error file=requirements.txt,line=2,title=tensorflow-gpu cannot be installed (tf.")
    assert last == "tfgpu check: broken: it will not work (1 problem)"
    assert as_github(FINE) == "tfgpu check: ok: no problems found\n"
    assert as_github(EMPTY).startswith("::error title=tfgpu check%3A these files name no TensorFlow::")


@pytest.mark.parametrize(("result", "failures", "errors"), [(BROKEN, "1", "0"), (FINE, "0", "0"), (EMPTY, "0", "1")])
def test_junit_is_red_where_the_exit_code_is(result: Checked, failures: str, errors: str) -> None:
    root = ElementTree.fromstring(as_junit(result))
    assert (root.attrib["name"], root.attrib["failures"], root.attrib["errors"]) == ("tfgpu check", failures, errors)
    assert "requirements.txt" in {case.get("classname") for case in root.iter("testcase")}


def test_sarif_has_a_rule_for_each_result_and_a_relative_place() -> None:
    (run,) = json.loads(as_sarif(BROKEN))["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "tf.package-removed"
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("requirements.txt", 2)
    assert result["level"] == "error"
    assert json.loads(as_sarif(FINE))["runs"][0]["results"] == []


def test_people_see_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    as_text(BROKEN, console_for())
    shown = capsys.readouterr().out
    assert "tfgpu check --fix would change\n--- requirements.txt\n+++ requirements.txt\n" in shown
    assert "-old\n+new\n" in shown
    assert "Not changed by --fix: Dockerfile:1: a variable" in shown
    page = as_markdown(BROKEN)
    assert "```diff\n--- requirements.txt" in page
    assert "| requirements.txt | numpy; tensorflow-gpu |" in page
