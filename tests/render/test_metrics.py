"""Metrics of all commands by Prometheus' conventions, and that the dashboard of Grafana shows only what is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser

from tests.render.results import STATES, results
from tests.render.test_smoke_text import SMOKES
from tfgpu_doctor.render.formats import KINDS, choices, renderer

ROOT = Path(__file__).parents[2]
WITH_METRICS = [kind for kind in KINDS if "prometheus" in choices(kind)]
# github.com/prometheus/client_golang, prometheus/testutil/promlint/validations, which promtool check metrics calls
TYPES = {"counter", "gauge", "summary", "histogram", "untyped"}
ABBREVIATED = {"s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"}
NO_BASE = {"minutes", "hours", "days", "weeks", "percent", "bits", "fahrenheit"}
PREFIXES = "pico|nano|micro|milli|centi|deci|deca|hecto|kilo|mega|giga|tera|peta|kibi|mebi|gibi|tebi|pebi"
PREFIXED = re.compile(rf"(?:{PREFIXES})(?:seconds|bytes|grams|meters|metres|volts|amperes|joules|celsius|kelvin)")
RESERVED = ("_total", "_bucket", "_count", "_sum")


def every() -> Iterator[tuple[str, Any]]:
    """A kind, and a result of it that a machine could give."""
    for kind in WITH_METRICS:
        yield from ((kind, results(kind)[state]) for state in STATES)
    yield from (("smoke", one) for one in SMOKES.values())
    from tests.bench.test_bench_text import RESULTS

    yield from (("bench", one) for one in RESULTS.values())


def families() -> Iterator[Any]:
    for kind, result in every():
        yield from parser.text_string_to_metric_families(renderer("prometheus", kind, {})(result))


FAMILIES = list(families())
NAMES = sorted({one.name for one in FAMILIES})
PRINTED = {
    name: {key for one in FAMILIES if one.name == name for row in one.samples for key in row.labels} for name in NAMES
}


@pytest.mark.parametrize("name", NAMES)
def test_names_follow_the_conventions(name: str) -> None:
    words = name.split("_")
    assert words[0] == "tfgpu" and len(words) > 2 and re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert not {*words} & (TYPES | ABBREVIATED | NO_BASE) and not PREFIXED.search(name)
    assert not name.endswith(RESERVED)
    for key in PRINTED[name]:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", key) and key not in ("le", "quantile", "instance", "job")
    several = [one for one in FAMILIES if one.name == name]
    # the textfile collector reads several files, and refuses two texts for one name
    assert len({(one.documentation, one.type) for one in several}) == 1 and several[0].type == "gauge"
    assert several[0].documentation.endswith(".") and not several[0].documentation.startswith(" ")
    values = [row.value for one in several for row in one.samples]
    if name.endswith("_info"):
        assert {*values} == {1}
    if name.endswith("_timestamp_seconds"):
        assert all(value > 1e9 for value in values)


def test_all_commands_have_metrics() -> None:
    assert {name.split("_")[1] for name in NAMES} >= {"doctor", "smoke", "bench", "compare", "fleet"}


def test_one_state_holds() -> None:
    for family in FAMILIES:
        for label in {"verdict", "status"} & PRINTED[family.name]:
            if family.name.endswith(("_verdict", "_check")):
                groups: dict[tuple[Any, ...], float] = {}
                for row in family.samples:
                    key = tuple(sorted(pair for pair in row.labels.items() if pair[0] != label))
                    groups[key] = groups.get(key, 0) + row.value
                assert {*groups.values()} <= {0, 1}, family.name


# ------------------------------------------------------------------------------------------------------- Grafana

DASHBOARD = json.loads((ROOT / "deploy/grafana/tfgpu.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
BY_PROMETHEUS = {"instance", "job"}
TARGETS = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]


@pytest.mark.parametrize(("title", "target"), TARGETS, ids=[title for title, _ in TARGETS])
def test_queries_use_what_is_printed(title: str, target: dict[str, Any]) -> None:
    expression = target["expr"]
    names = re.findall(r"tfgpu_\w+", expression)
    assert names and {*names} <= PRINTED.keys()
    known = {key for name in names for key in PRINTED[name]} | BY_PROMETHEUS
    matched = re.findall(r"(\w+)(?:=~|!=|!~|=)\"", expression)
    grouped = [one.strip() for part in re.findall(r"by \(([^)]+)\)", expression) for one in part.split(",")]
    shown = re.findall(r"{{(\w+)}}", target["legendFormat"])
    assert {*matched, *grouped, *shown} <= known
    if grouped:
        assert {*shown} <= {*grouped}  # an aggregation drops all other labels
    for value in re.findall(r'(?:status|severity|verdict)!?="(\w+)"', expression):
        printed = {
            row.labels.get(key) for one in FAMILIES for row in one.samples for key in ("status", "severity", "verdict")
        }
        assert value in printed
    for outer, inner in ("()", "{}", "[]"):
        assert expression.count(outer) == expression.count(inner)


def test_the_dashboard_can_be_imported() -> None:
    assert DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["title"] and DASHBOARD["uid"] == "tfgpu"
    assert "id" not in DASHBOARD  # of another Grafana
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert re.fullmatch(r"label_values\((\w+), instance\)", variables["instance"]["definition"])[1] in PRINTED  # type: ignore[index]
    everywhere = json.dumps(DASHBOARD)
    assert {*re.findall(r"\$\{?([a-z]\w+)", everywhere)} == variables.keys()
    identifiers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len({*identifiers}) == len(identifiers)
    assert all(panel["description"] and panel["datasource"]["uid"] == "${datasource}" for panel in PANELS)


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells


def test_the_dashboard_shows_every_command() -> None:
    commands = {
        name.split("_")[1] for name in re.findall(r"tfgpu_\w+", " ".join(target["expr"] for _, target in TARGETS))
    }
    assert commands >= {"doctor", "smoke", "bench", "fleet"}
