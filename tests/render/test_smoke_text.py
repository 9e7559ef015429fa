"""A smoke test in every format: exact text at two widths, CI formats that agree with the exit code, hostile text."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.bench.fake_worker import WRONG
from tests.healthy import known
from tests.render.showing import as_format
from tests.render.test_github import read
from tests.render.test_junit import BOMBS, is_red, valid
from tests.render.test_text import check_golden
from tests.smoke.smoking import Machine, machine, without_tensorflow
from tfgpu_doctor.records.schemas import FOLDER
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.terminal.smoke import render
from tfgpu_doctor.smoke.records import Smoke, exit_code

github, junit_xml, markdown = (as_format(name, "smoke") for name in ("github", "junit", "markdown"))
GOLDEN = Path(__file__).parent / "golden" / "smoke"


def second_card_is_wrong(here: Machine, verb: str, request: dict[str, Any]) -> dict[str, Any] | None:
    bad = len(here.started) == 2 and request["of"].devices == ["/GPU:1"] and request["of"].workload == "matpow"
    return WRONG if verb == "verify" and bad else None


SMOKES: dict[str, Smoke] = {
    "two-gpus": Machine(2).smoke(require_gpus=2, min_tflops=40.0, max_import=10.0),
    "a-flaky-card": Machine(2, trouble=second_card_is_wrong).smoke(rounds=3, budget=200.0),
    "a-small-budget": Machine(4, seconds=0.3).smoke(budget=20.0),
    "no-gpu": Machine(0).smoke(),
    "cpu-only": Machine(0).smoke(require_gpus=0, virtual=2),
    "no-tensorflow": Machine(facts=without_tensorflow(exception="ImportError: libcudart.so.12: no")).smoke(),
}


def printed(smoke: Smoke, monkeypatch: pytest.MonkeyPatch, columns: int) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    render(smoke, console_for(stream))
    return stream.getvalue()


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("name", sorted(SMOKES))
def test_golden(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(SMOKES[name], monkeypatch, columns)
    assert max(map(len, text.splitlines())) <= columns
    check_golden(GOLDEN / f"{name}-{columns}.txt", text)


@pytest.mark.parametrize(
    ("system", "python", "shown"),
    [
        ("linux", "/my env/bin/it's", """'/my env/bin/it'"'"'s'"""),
        ("windows", r"C:\my env\python.exe", r'"C:\my env\python.exe"'),
    ],
)
def test_what_to_type_next_is_quoted(system: str, python: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = machine(0, **{"python.executable": known(python), "host.os": known(system)})
    text = printed(Machine(0, facts=facts).smoke(), monkeypatch, 200)
    assert f"Next: tfgpu doctor --python {shown}\n" in text


@pytest.mark.parametrize("name", sorted(SMOKES))
def test_a_reason_is_said_once_and_more_shows_every_check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    smoke, stream = SMOKES[name], io.StringIO()
    normal = printed(smoke, monkeypatch, 500)
    render(smoke, console_for(stream), "full")
    skipped = [check for check in smoke.checks if check.status == "not run"]
    for why in {check.why for check in skipped if check.why}:
        assert normal.count(why) == 1, why
    assert stream.getvalue().count("not run: ") == len(skipped)
    fails = any(check.name == "doctor" and check.status == "failed" for check in smoke.checks)
    assert ("expected  " in stream.getvalue() or "why  " in stream.getvalue()) == fails


def test_golden_markdown() -> None:
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "CREATED", markdown(redact(SMOKES["a-flaky-card"])))
    check_golden(GOLDEN / "a-flaky-card.md", text)


def test_golden_github() -> None:
    check_golden(GOLDEN / "no-gpu.github.txt", github(SMOKES["no-gpu"]))


@pytest.mark.parametrize("name", sorted(SMOKES))
def test_every_format_agrees_with_the_exit_code(name: str) -> None:
    smoke = SMOKES[name]
    fails = exit_code(smoke.verdict) != 0
    root = valid(junit_xml(smoke))
    assert is_red(root) is fails
    assert int(root.attrib["tests"]) == len(smoke.checks)
    found, rest = read(github(smoke))
    assert any(one.level == "error" for one in found) is fails
    assert len(rest) == len(smoke.checks) + 1
    assert markdown(smoke).startswith("**✓" if not fails else "**")


def test_a_failure_is_one_failure_and_what_could_not_run_beside_it_is_none() -> None:
    root = valid(junit_xml(SMOKES["no-tensorflow"]))
    assert (root.attrib["failures"], root.attrib["errors"]) == ("2", "1")
    levels = [one.level for one in read(github(SMOKES["no-tensorflow"]))[0]]
    assert levels.count("error") == 3


@pytest.mark.parametrize("name", sorted(SMOKES))
def test_the_schema_accepts_it(name: str) -> None:
    schema = json.loads((FOLDER / "smoke-1.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(json.loads(SMOKES[name].to_json()))


@pytest.mark.parametrize(
    "bomb", [*BOMBS, "::error::x", "x\n::set-output name=a::b", "##[error]x", "@octocat #1 </details>"]
)
def test_text_from_outside_is_only_text(bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = tuple(msgspec.structs.replace(one, saw=bomb, why=bomb, on=bomb) for one in SMOKES["no-gpu"].checks)
    facts = machine(0, **{"python.executable": known(bomb)})
    base = Machine(0, facts=facts).smoke()
    smoke = msgspec.structs.replace(base, checks=checks, software={"tensorflow": bomb}, gpus=(bomb,))
    valid(junit_xml(smoke))
    found, rest = read(github(smoke))
    assert {one.level for one in found} <= {"error", "warning"}
    assert len(rest) == len(checks) + 1
    page = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", markdown(smoke), flags=re.DOTALL | re.MULTILINE)
    assert page.count("<details>") == page.count("</details>")
    assert re.search(r"@octocat|(?<!\w)#1\b", page) is None
    text = printed(smoke, monkeypatch, 80)
    assert all(char.isprintable() or char == "\n" for char in text)


def test_what_is_shared_names_nobody() -> None:
    why = {"outcome": "raised", "exception": "ImportError: /home/lovelace/env/lib/x.so"}
    facts = without_tensorflow(**why)
    from tests.healthy import spoil

    facts = spoil(facts, {"python.executable": known("/home/lovelace/env/bin/python")})
    smoke = Machine(facts=facts).smoke()
    assert "lovelace" in smoke.to_json().decode()
    shown = redact(smoke)
    for text in (shown.to_json().decode(), junit_xml(shown), github(shown), markdown(shown)):
        assert "lovelace" not in text
    assert shown.runs == smoke.runs and shown.verdict == smoke.verdict
