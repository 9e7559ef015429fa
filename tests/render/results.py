"""A healthy, a broken and a hostile result of every kind, and what makes a valid document of each format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from msgspec.structs import replace

from tests.bench.large_samples import failures, four
from tests.bench.test_bench_compare_text import COMPARISONS
from tests.cli.hostile import BOMB
from tests.findings.rows_over_facts import FIRES, NO_GPU_USED
from tests.healthy import MATRIX
from tests.records.test_report import report
from tests.redact.planted import DOCUMENTS, planted
from tests.render.pages import Page
from tests.render.test_check_formats import BROKEN, FINE
from tests.render.test_compare_text import CASES
from tests.render.test_fleet_text import fleets
from tests.render.test_junit import valid
from tests.render.test_plan_text import SITUATIONS
from tests.render.test_smoke_text import SMOKES
from tfgpu_doctor.compare.comparison import compare
from tfgpu_doctor.compare.records import Comparison
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.records import Plan
from tfgpu_doctor.plan.target import describe
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.render.outline import Block, Line
from tfgpu_doctor.render.outlines.matrix import Answered, Card, Columns, Legend, Note, Sheet, Sources
from tfgpu_doctor.render.outlines.matrix_answers import release

TYPES = {
    "report": "Report",
    "check": "Checked",
    "smoke": "Smoke",
    "report comparison": "Comparison",
    "bench": "BenchResult",
    "bench comparison": "BenchComparison",
    "fleet": "Fleet",
    "plan": "Plan",
    "matrix": "Answered",
}
STATES = ("healthy", "broken", "hostile")


@cache
def results(kind: str) -> dict[str, Any]:
    """A result of each state; the hostile one has a bomb in every text."""
    pairs: dict[str, Callable[[], tuple[Any, Any]]] = {
        "report": lambda: (report({}), report({**NO_GPU_USED, **FIRES["cuda.missing"][0][1]})),
        "check": lambda: (FINE, BROKEN),
        "smoke": lambda: (SMOKES["two-gpus"], SMOKES["no-tensorflow"]),
        "report comparison": lambda: (_compared("nothing"), _compared("numpy")),
        "bench": lambda: (four(), failures()),
        "fleet": lambda: (fleets()["clean"], fleets()["many-problems"]),
        "plan": lambda: (_plan("a-blackwell-card"), _plan("a-fermi-card")),
        "bench comparison": lambda: (COMPARISONS["compare-across"], COMPARISONS["compare-all"]),
    }
    if kind == "matrix":
        return dict(zip(STATES, _answers(), strict=True))
    document = next(one for one in DOCUMENTS if one.__name__ == TYPES[kind])
    return dict(zip(STATES, (*pairs[kind](), _with_ids(planted(document, BOMB))), strict=True))


def _answers() -> Iterator[Answered]:
    """Answers of the matrix, which knows no broken ones; the last has a bomb in every text."""
    for row in (MATRIX.tensorflow("2.15.1", "linux_x86_64"), MATRIX.tensorflow("2.15.0", "linux_x86_64")):
        assert row is not None
        yield Answered(row, release(MATRIX, row, ("no wheel for Python 3.8",)), MATRIX.revision)
    line, block = Line("fix", BOMB, BOMB, BOMB, (BOMB,)), (BOMB,)
    parts = (
        *(Card(((BOMB, BOMB),)), Columns({BOMB: [BOMB]}), Note(BOMB, BOMB), Legend(BOMB), Sources({BOMB: BOMB})),
        Block("error", BOMB, (line,), block, BOMB),
    )
    yield Answered({BOMB: BOMB}, Sheet(BOMB, BOMB, parts), BOMB)


def _with_ids(result: Any) -> Any:
    """Ids of findings are ours, whatever a file says: each report is diagnosed again."""
    if isinstance(result, Report):
        return replace(result, findings=tuple(replace(one, id="cuda.missing") for one in result.findings))
    return replace(result, report=_with_ids(result.report)) if hasattr(result, "report") else result


def _compared(name: str) -> Comparison:
    before, after = (report(changes) for changes in CASES[name])
    return compare(before, after, MATRIX, "2026-11-21T12:00:00Z", names=("good.json", "bad.json"))


def _plan(name: str) -> Plan:
    return make_plan(MATRIX, describe(MATRIX, **SITUATIONS[name]))


_VALUE = r"(?:[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|[-+]Inf|NaN)"
_LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
_SERIES = re.compile(rf"(?P<name>tfgpu_[a-z0-9_]+)(?P<labels>\{{{_LABEL}(?:,{_LABEL})*\}})? {_VALUE}")
_UNITS = ("_seconds", "_bytes", "_ratio", "_info", "_per_second")


def metrics(text: str) -> dict[str, list[str]]:
    """The series of each metric; AssertionError where the text is not in Prometheus' format or breaks its customs."""
    found: dict[str, list[str]] = {}
    lines = iter(text.splitlines())
    assert text.endswith("\n")
    for line in lines:
        if line.startswith("# HELP "):
            name, _, about = line[7:].partition(" ")
            assert name not in found and re.fullmatch(r"tfgpu_[a-z0-9_]+", name) and about
            assert next(lines) == f"# TYPE {name} gauge"
            found[name] = []
            continue
        match = _SERIES.fullmatch(line)
        assert match and list(found)[-1:] == [match["name"]], line
        assert match["labels"] not in found[match["name"]], f"twice: {line}"
        found[match["name"]].append(match["labels"])
    assert found and all(found.values())
    if find_spec("prometheus_client"):
        parser = import_module("prometheus_client.parser")
        assert {one.name for one in parser.text_string_to_metric_families(text)} == set(found)
    return found


def _commands(text: str) -> None:
    rest = [line for line in text.splitlines() if not line.startswith("::")]
    assert rest and all(not line.lstrip().startswith("::") for line in rest)
    for line in text.splitlines():
        if line.startswith("::"):
            assert re.match(r"::(error|warning|notice) (file=[^:,]*,line=\d+,)?title=[^:,]*::", line), line


def _markdown(text: str) -> None:
    outside = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert len(text) <= 65_536 and outside.count("<details>") == outside.count("</details>")
    assert "\n```\n```" not in text and text.startswith("**")


def _html(text: str) -> None:
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert page.all("h1") and not tags & {"script", "img", "iframe", "link", "object"}
    assert len(page.ids) == len(set(page.ids))
    assert all((one.get("href") or "").startswith(("https://", "#", "data:")) for one in page.all("a"))


VALID: dict[str, Callable[[str], object]] = {
    "text": lambda text: all(char.isprintable() or char == "\n" for char in text) or 1 / 0,
    "json": json.loads,
    "markdown": _markdown,
    "junit": valid,
    "github": _commands,
    "sarif": lambda text: json.loads(text)["runs"][0]["results"],
    "html": _html,
    "prometheus": metrics,
}
