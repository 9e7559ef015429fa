"""JUnit XML: valid by the schema, red exactly where the exit code is, and nothing in it that is more than text.

tests/render/junit.xsd is what tfgpu writes, a part of what Jenkins and GitLab accept. TFGPU_JUNIT_XSD names another
schema to hold the same documents against, such as Jenkins' own junit-10.xsd.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import msgspec
import pytest
import xmlschema

from tests.findings.rows_over_facts import FIRES
from tests.healthy import known, spoil
from tests.render.showing import as_format
from tests.render.test_markdown import HOSTILE
from tests.render.test_text import MACHINES, check_golden, report
from tfgpu_doctor.diagnosis.selection import restrict
from tfgpu_doctor.findings import pages
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.records.report import FailOn, Report, exit_code
from tfgpu_doctor.render.ci.junit import xml
from tfgpu_doctor.render.shapes import Case, Suite

render = as_format("junit", "report")
HERE = Path(__file__).parent
SCHEMAS = [xmlschema.XMLSchema(HERE / "junit.xsd")]
SCHEMAS += [xmlschema.XMLSchema(os.environ["TFGPU_JUNIT_XSD"])] if "TFGPU_JUNIT_XSD" in os.environ else []


def valid(text: str) -> ElementTree.Element:
    """The document, once every schema has accepted it and its counts are those of its cases."""
    for schema in SCHEMAS:
        schema.validate(text)
    root = ElementTree.fromstring(text)
    for element in (root, *root):
        cases = list(element.iter("testcase"))
        assert int(element.attrib["tests"]) == len(cases)
        assert int(element.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
        assert int(element.attrib["errors"]) == sum(case.find("error") is not None for case in cases)
    return root


def is_red(root: ElementTree.Element) -> bool:
    return bool(int(root.attrib["failures"]) + int(root.attrib["errors"]))


def outcomes(root: ElementTree.Element) -> dict[str, tuple[str, str]]:
    """Name of each case → (outcome, message)."""
    found = {}
    for case in root.iter("testcase"):
        child = next((one for one in case if one.tag != "system-out"), None)
        found[case.attrib["name"]] = (child.tag, child.attrib["message"]) if child is not None else ("passed", "")
    return found


@pytest.mark.parametrize("name", ["no-driver", "unknown", "hostile"])
def test_golden(name: str) -> None:
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+", "2026-01-01T00:00:00", render(report(MACHINES[name])))
    check_golden(HERE / "golden" / "junit" / f"{name}.xml", text)


@pytest.mark.parametrize("fail_on", get_args(FailOn))
def test_red_exactly_where_the_exit_code_is(fail_on: FailOn, every_report: dict[str, Report]) -> None:
    offenders = []
    for name, one in every_report.items():
        if is_red(valid(render(one, fail_on))) is not (exit_code(one, fail_on) != 0):
            offenders.append(name)
    assert offenders == []


@pytest.mark.parametrize("fail_on", get_args(FailOn))
def test_a_machine_of_which_nothing_is_known(fail_on: FailOn) -> None:
    root = valid(render(report(Facts()), fail_on))
    assert (root.attrib["failures"], root.attrib["errors"]) == ("0", "0" if fail_on == "never" else "1")
    assert outcomes(root)["a verdict could be reached"][0] == ("skipped" if fail_on == "never" else "error")
    assert outcomes(root)["gpu.none"][0] == "skipped"  # could not be determined is not passed


def test_every_check_has_a_case_once() -> None:
    root = valid(render(report(MACHINES["healthy"])))
    names = [case.attrib["name"] for case in root.iter("testcase")]
    assert sorted(names) == sorted([*set(DECLARATIONS) | set(pages.all_ids()), "a verdict could be reached"])
    assert not is_red(root)


def test_one_problem_is_one_failure() -> None:
    """What follows from the missing driver is told as that, and what was not asked beside it does not pass."""
    found = outcomes(valid(render(report(MACHINES["no-driver"]))))
    assert [name for name, (outcome, _) in found.items() if outcome == "failure"] == ["driver.missing"]
    assert found["gpu.not-visible"][0] == "skipped" and "follows from driver.missing" in found["gpu.not-visible"][1]
    assert found["driver.too-old"][0] == "skipped"
    assert found["tf.not-installed"][0] == "passed"


def test_a_warning_passes_until_it_fails() -> None:
    one = report(MACHINES["hot"])
    assert outcomes(valid(render(one)))["gpu.throttled"] == ("passed", "")
    assert "warning: " in render(one)
    assert outcomes(valid(render(one, "warning")))["gpu.throttled"][0] == "failure"


def test_only_what_was_looked_at_is_a_case() -> None:
    one = report(MACHINES["no-driver"])
    root = valid(render(restrict(one, ("cuda.*",), ()), "error", ("cuda.*",)))
    assert set(outcomes(root)) == {"a verdict could be reached", *(i for i in pages.all_ids() if i.startswith("cuda."))}


def test_a_pasted_text_passes_no_check() -> None:
    told = spoil(Facts(), FIRES["driver.version-mismatch"][0][1])
    root = valid(render(msgspec.structs.replace(report(told), source="text")))
    found = outcomes(root)
    assert [name for name, (outcome, _) in found.items() if outcome == "failure"] == ["driver.version-mismatch"]
    assert [name for name, (outcome, _) in found.items() if outcome == "passed"] == ["a verdict could be reached"]


BOMBS = (
    HOSTILE,
    "]]> <![CDATA[ </testcase></testsuite> &amp; &#0; \x00\x01\x08\x0b\x1b[31m\x7f\x85\ufffe\uffff\ud800 \U0001f4a5",
    '"><failure message="x" type="integer"/>',
    "[[ATTACHMENT|/etc/passwd]]",
    "one line\r\nand another\u2028and a third",
)


@pytest.mark.parametrize("text", BOMBS)
def test_text_from_outside_is_only_text(text: str) -> None:
    for outcome in ("passed", "failure", "error", "skipped"):
        case = Case(text, text, outcome, "" if outcome == "passed" else "failed", text, (text, text), 0.25)  # type: ignore[arg-type]
        document = xml(text, "2026-11-21T08:00:00Z", [Suite(text, (case,)), Suite("empty", ())])
        root = valid(document)
        assert len(list(root.iter())) == 4
        assert "[[ATTACHMENT" not in "".join(root.itertext())
        assert all(char.isprintable() or char == "\n" for char in "".join(root.itertext()))
        assert root[0][0].attrib["time"] == "0.250"


def test_hostile_facts() -> None:
    for bomb in BOMBS:
        changes: dict[str, Any] = {"python.executable": known(bomb), "variables": known({"XLA_FLAGS": bomb})}
        valid(render(report(spoil(MACHINES["no-driver"], changes))))


def test_kinds_are_no_types_of_rails() -> None:
    """GitLab would read the text of <failure type="integer"> as a number."""
    rails = {"symbol", "date", "datetime", "dateTime", "integer", "float", "double", "decimal", "boolean", "string"}
    rails |= {"yaml", "base64Binary", "hexBinary", "file", "array", "hash", "duration"}
    texts = [render(one, "warning") for one in reports()]
    kinds = set(re.findall(r'type="([^"]*)"', "".join(texts)))
    assert kinds and not kinds & rails


def reports() -> list[Report]:
    return [report(facts) for facts in MACHINES.values()]
