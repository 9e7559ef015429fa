"""The page for an issue: its length whatever the report, and nothing in it that acts as markup."""

from __future__ import annotations

import re

from msgspec.structs import replace

from tests.healthy import gpu, healthy, known, spoil
from tests.render.results import report, without_blocks
from tests.render.showing import as_format
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Evidence, Finding, Fix, Severity
from tfgpu_doctor.render.markdown import LONGEST, escape, fenced

render = as_format("markdown", "report")
HOSTILE = (
    "@octocat #1 GH-7 owner/repo#3 <script>alert(1)</script> <!-- [a](http://evil.example/x_y) | **b** `c` :tada: "
    "![i](x) \\| $x$ ~~y~~ </details> www.evil.example a@b.example &lt; \x1b[31m\u202e"
)


def finding(number: int, **fields: object) -> Finding:
    return Finding(id=f"cuda.{number}", severity=Severity.ERROR, root_cause=True, **fields)  # type: ignore[arg-type]


def test_text_from_outside_is_only_text() -> None:
    text = escape(HOSTILE)
    assert "<script" not in text and "</details" not in text
    assert re.sub(r"<!-- -->|&lt;", "", text).count("<") == 0
    assert re.search(r"@\w|#\d|GH-\d|:tada:|www\.", text) is None
    assert re.search(r"(?<!\\)[`*|\[\]~$]", text.replace("http://evil.example/x_y", "")) is None
    assert text.isprintable()
    # a block cannot be ended by its content
    assert fenced(["a ``` b", "````"]).splitlines() == ["`````", "a ``` b", "````", "`````"]


def test_every_text_of_a_report_is_escaped() -> None:
    hostile = finding(
        1,
        title=HOSTILE,
        cause=HOSTILE,
        evidence=(Evidence(saw=HOSTILE, source=HOSTILE, need=HOSTILE, need_source=HOSTILE),),
        fixes=(Fix(text=HOSTILE, commands=("echo ```\n# not a heading", "@octocat")),),
        consequences=("gpu.none",),
        docs="javascript:alert(1)",
    )
    facts = {"python.executable": known(HOSTILE), "variables": known({"XLA_FLAGS": HOSTILE + "```"})}
    base = report(spoil(healthy(), {**facts, "gpus": known((gpu(name=HOSTILE),), HOSTILE)}))
    outside = without_blocks(render(replace(base, findings=(hostile,))))
    assert "<script" not in outside and "javascript" not in outside
    assert re.search(r"@\w|#\d|(?<!\\)\]\(", outside) is None
    assert outside.count("<details>") == outside.count("</details>") > 0
    for row in (line for line in outside.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", row)) == 4


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
