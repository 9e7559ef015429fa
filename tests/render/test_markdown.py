"""The page for an issue: its exact text, its length whatever the report, and nothing in it that acts as markup."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.healthy import gpu, healthy, known, spoil
from tests.render.showing import as_format
from tests.render.test_text import MACHINES, check_golden, report
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.records.report import Evidence, Finding, Fix, Report, Severity
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render.markdown.parts import LONGEST, escape, fenced

GOLDEN = Path(__file__).parent / "golden" / "markdown"
render = as_format("markdown", "report")
HOSTILE = (
    "@octocat #1 GH-7 owner/repo#3 <script>alert(1)</script> <!-- [a](http://evil.example/x_y) | **b** `c` :tada: "
    "![i](x) \\| $x$ ~~y~~ </details> www.evil.example a@b.example &lt; \x1b[31m\u202e"
)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_golden(name: str) -> None:
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "CREATED", render(redact(report(MACHINES[name]))))
    check_golden(GOLDEN / f"{name}.md", text)


def test_text_from_outside_is_only_text() -> None:
    text = escape(HOSTILE)
    assert "<script" not in text and "</details" not in text
    assert re.sub(r"<!-- -->|&lt;", "", text).count("<") == 0
    assert re.search(r"@\w|#\d|GH-\d|:tada:|www\.", text) is None
    assert re.search(r"(?<!\\)[`*|\[\]~$]", text.replace("http://evil.example/x_y", "")) is None
    assert text.isprintable()


def test_every_text_of_a_report_is_escaped() -> None:
    finding = Finding(
        id="cuda.missing",
        severity=Severity.ERROR,
        root_cause=True,
        title=HOSTILE,
        cause=HOSTILE,
        evidence=(Evidence(saw=HOSTILE, source=HOSTILE, need=HOSTILE, need_source=HOSTILE),),
        fixes=(Fix(text=HOSTILE, commands=("echo ```\n# not a heading", "@octocat")),),
        consequences=("gpu.none",),
        docs="javascript:alert(1)",
    )
    hostile = {"python.executable": known(HOSTILE), "variables": known({"XLA_FLAGS": HOSTILE + "```"})}
    base = report(spoil(healthy(), {**hostile, "gpus": known((gpu(name=HOSTILE),), HOSTILE)}))
    text = render(_with(base, (finding,)))
    outside = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "<script" not in outside and "javascript" not in outside
    assert re.search(r"@\w|#\d|(?<!\\)\]\(", outside) is None
    assert outside.count("<details>") == outside.count("</details>") > 0
    for row in (line for line in outside.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", row)) == 4


def _with(one: Report, findings: tuple[Finding, ...]) -> Report:
    import msgspec

    return msgspec.structs.replace(one, findings=findings)


def test_a_block_cannot_be_ended_by_its_content() -> None:
    assert fenced(["a ``` b", "````"]).splitlines() == ["`````", "a ``` b", "````", "`````"]


def test_never_longer_than_an_issue_may_be() -> None:
    evidence = tuple(Evidence(saw="@a" * 500, source="#1" * 500, need="|" * 900, need_source="x") for _ in range(40))
    fixes = tuple(Fix(text="`" * 900, commands=("x" * 1900, "y" * 9000)) for _ in range(5))
    findings = tuple(
        Finding(
            id=f"cuda.{n}",
            severity=Severity.ERROR,
            root_cause=True,
            title="<" * 500,
            cause="@a" * 900,
            evidence=evidence[: n % 7],
            fixes=fixes[: n % 3],
        )
        for n in range(60)
    )
    big: dict[str, Any] = {
        "tensorflow.log": known(tuple("@a" * 400 for _ in range(400))),
        "variables": known({f"NCCL_{n}": "x" * 4096 for n in range(50)}),
        "python.executable": known("|" * 9000),
    }
    text = render(_with(report(spoil(healthy(), big)), findings))
    assert len(text) <= LONGEST
    assert "more are too long for this page" in text
    assert "a command of 9000 characters" in text
    assert text.count("<details>") == text.count("</details>")


def test_the_first_finding_is_whole(every_report: dict[str, Report]) -> None:
    for name, one in every_report.items():
        text, first = render(one), one.findings[0]
        missing = [command for fix in first.fixes for command in fix.commands if f"\n{command}\n" not in text]
        assert missing == [], name
        assert f"<sub>{escape(first.id)}</sub>" in text, name


def test_a_pasted_text_shows_the_layers_that_it_tells() -> None:
    import msgspec

    told = msgspec.structs.replace(report(spoil(Facts(), {"driver.version": known("570.1", "line 3")})), source="text")
    text = render(told)
    assert "tfgpu explain" in text
    assert "| Driver | 570.1 |" in text and "| cuDNN |" not in text
    nothing = render(msgspec.structs.replace(report(Facts()), source="text"))
    assert "names no machine, driver or TensorFlow" in nothing
    assert "Could not determine" not in nothing
