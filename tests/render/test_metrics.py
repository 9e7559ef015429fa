"""Metrics of all commands by Prometheus' conventions, and that the dashboard of Grafana shows only what is printed."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tests.render.results import STATES, metrics, results, smokes
from tfgpu_doctor.bench.results import Throughput
from tfgpu_doctor.render.formats import KINDS, choices, renderer
from tfgpu_doctor.render.prometheus import render
from tfgpu_doctor.render.shapes import Metric, Sample

ROOT = Path(__file__).parents[2]
# github.com/prometheus/client_golang, prometheus/testutil/promlint/validations, which promtool check metrics calls
TYPES = {"counter", "gauge", "summary", "histogram", "untyped"}
ABBREVIATED = {"s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"}
NO_BASE = {"minutes", "hours", "days", "weeks", "percent", "bits", "fahrenheit"}
PREFIXES = "pico|nano|micro|milli|centi|deci|deca|hecto|kilo|mega|giga|tera|peta|kibi|mebi|gibi|tebi|pebi"
PREFIXED = re.compile(rf"(?:{PREFIXES})(?:seconds|bytes|grams|meters|metres|volts|amperes|joules|celsius|kelvin)")
RESERVED = ("_total", "_bucket", "_count", "_sum")


@cache
def families() -> list[Any]:
    """The metrics of results that a machine could give."""
    from tests.bench.test_bench_text import RESULTS, result, run

    every = [(kind, results(kind)[state]) for kind in KINDS if "prometheus" in choices(kind) for state in STATES]
    every += [("smoke", one) for one in smokes().values()]
    copied = Throughput(value=12.4e9, unit="B/s", ci95=(12.3e9, 12.6e9))
    every += [("bench", one) for one in (*RESULTS.values(), result(run(throughput=copied), workload="transfer"))]
    texts = (renderer("prometheus", kind, {})(result) for kind, result in every)
    return [family for text in texts for family in metrics(text).values()]


@cache
def printed() -> dict[str, set[str]]:
    """The labels of each metric."""
    found: dict[str, set[str]] = {}
    for family in families():
        found.setdefault(family.name, set()).update(key for row in family.samples for key in row.labels)
    return found


def test_names_follow_the_conventions() -> None:
    assert {name.split("_")[1] for name in printed()} >= {"doctor", "smoke", "bench", "fleet"}
    for name, labels in printed().items():
        words = name.split("_")
        assert words[0] == "tfgpu" and len(words) > 2 and re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert not {*words} & (TYPES | ABBREVIATED | NO_BASE) and not PREFIXED.search(name)
        assert not name.endswith(RESERVED)
        for key in labels:
            assert re.fullmatch(r"[a-z][a-z0-9_]*", key) and key not in ("le", "quantile", "instance", "job")
        several = [one for one in families() if one.name == name]
        # the textfile collector reads several files, and refuses two texts for one name
        assert len({(one.documentation, one.type) for one in several}) == 1 and several[0].type == "gauge"
        assert several[0].documentation.endswith(".") and not several[0].documentation.startswith(" ")
        values = [row.value for one in several for row in one.samples]
        assert not name.endswith("_info") or {*values} == {1}
        assert not name.endswith("_timestamp_seconds") or all(value > 1e9 for value in values)


def test_metrics_have_the_numbers_of_the_result() -> None:
    text = renderer("prometheus", "report", {})(results("report")["broken"])
    assert 'tfgpu_doctor_verdict{verdict="broken"} 1\n' in text
    assert 'tfgpu_doctor_findings{severity="error"} 1\n' in text
    assert 'tfgpu_doctor_finding{id="cuda.missing",severity="error"} 1\n' in text
    assert re.search(r'tfgpu_doctor_info\{version="[^"]+",matrix="[^"]+",tensorflow="[\d.]+",python="', text)
    smoke = renderer("prometheus", "smoke", {})(results("smoke")["healthy"])
    assert 'tfgpu_smoke_check{check="matpow",device="GPU 1",status="ok"} 1\n' in smoke
    assert re.search(r'tfgpu_smoke_check_flop_per_second\{check="matpow",device="GPU 0"\} \d', smoke)
    metrics(text + smoke)  # together in one folder of the collector


def test_a_label_holds_what_it_is_given() -> None:
    hostile = Sample(2.5, {"a": 'x"} 1\n\\n{b="', "b": ""})
    text = render([Metric("tfgpu_x", "a\nb\\", (hostile, hostile, Sample(1.5e-7))), Metric("tfgpu_y", "none", ())])
    assert text.splitlines()[0] == r"# HELP tfgpu_x a\nb\\"
    assert text.splitlines()[2:] == [r'tfgpu_x{a="x\"} 1 \\n{b=\""} 2.5', "tfgpu_x 1.5e-07"]
    assert list(metrics(text)) == ["tfgpu_x"]


DASHBOARD = json.loads((ROOT / "deploy/grafana/tfgpu.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
BY_PROMETHEUS = {"instance", "job"}
TARGETS = [target for panel in PANELS for target in panel["targets"]]


def test_queries_use_what_is_printed() -> None:
    values = {
        row.labels.get(key) for one in families() for row in one.samples for key in ("status", "severity", "verdict")
    }
    for target in TARGETS:
        expression = target["expr"]
        names = re.findall(r"tfgpu_\w+", expression)
        assert names and {*names} <= printed().keys()
        known = {key for name in names for key in printed()[name]} | BY_PROMETHEUS
        matched = re.findall(r"(\w+)(?:=~|!=|!~|=)\"", expression)
        grouped = [one.strip() for part in re.findall(r"by \(([^)]+)\)", expression) for one in part.split(",")]
        shown = re.findall(r"{{(\w+)}}", target["legendFormat"])
        assert {*matched, *grouped, *shown} <= known, expression
        assert not grouped or {*shown} <= {*grouped}  # an aggregation drops all other labels
        assert {*re.findall(r'(?:status|severity|verdict)!?="(\w+)"', expression)} <= values
        assert all(expression.count(outer) == expression.count(inner) for outer, inner in ("()", "{}", "[]"))


def test_the_dashboard_can_be_imported_and_shows_every_command() -> None:
    assert DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["title"] and DASHBOARD["uid"] == "tfgpu"
    assert "id" not in DASHBOARD  # of another Grafana
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    instances = re.fullmatch(r"label_values\((\w+), instance\)", variables["instance"]["definition"])
    assert instances and instances[1] in printed()
    assert {*re.findall(r"\$\{?([a-z]\w+)", json.dumps(DASHBOARD))} == variables.keys()
    identifiers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len({*identifiers}) == len(identifiers)
    assert all(panel["description"] and panel["datasource"]["uid"] == "${datasource}" for panel in PANELS)
    used = re.findall(r"tfgpu_\w+", " ".join(target["expr"] for target in TARGETS))
    assert {name.split("_")[1] for name in used} >= {"doctor", "smoke", "bench", "fleet"}
    taken: set[tuple[int, int]] = set()  # panels do not overlap
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells
