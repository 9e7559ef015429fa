"""Reports that somebody has tampered with, and nodes that lie: each is read or refused, and the others are judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.fleet import making
from tests.fleet.test_unwrapping import gathered, judged, texts
from tests.guard import guarded
from tfgpu_doctor.fleet import baseline, unwrapping
from tfgpu_doctor.fleet.records import Fleet
from tfgpu_doctor.fleet.unwrapping import documents
from tfgpu_doctor.records.schemas import FOLDER

KIND = making.TYPES[2]
NODES = tuple(f"gpu-{n}" for n in range(6))


def line(name: str = "odd") -> dict[str, Any]:
    """A report, to be tampered with."""
    found: dict[str, Any] = json.loads(making.report(KIND).filled(making._values(Random(name), name, KIND, None)))
    return found


def bench(name: str = "odd") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(making.bench(KIND).filled(making._values(Random(name), name, KIND, None)))
    return found


def fleet(*odd: bytes | str) -> Fleet:
    """Beside six healthy nodes, which must all be judged."""
    lines = [text.strip().encode() for text in texts(None, NODES).values()]
    lines += [one if isinstance(one, bytes) else one.encode() for one in odd]
    found = judged(gathered(b"\n".join(lines)))
    assert {node.name.partition(" (")[0] for node in found.nodes} >= set(NODES)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Fleet) == found
    return found


def _gpus(found: dict[str, Any]) -> list[dict[str, Any]]:
    gpus: list[dict[str, Any]] = found["facts"]["gpus"]["value"]
    return gpus


def _many_gpus(found: dict[str, Any]) -> None:
    found["facts"]["gpus"]["value"] = _gpus(found) * 20_000


def _many_findings(found: dict[str, Any]) -> None:
    one = {"id": "x", "severity": "error", "root_cause": True, "title": "x"}
    found["findings"] = [{**one, "id": f"x.{n}"} for n in range(5_000)]


def _memory(value: Any) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        _gpus(found)[0]["memory_total"]["value"] = value

    return change


def _packages(found: dict[str, Any]) -> None:
    one = found["facts"]["python"]["packages"]["value"][0]
    found["facts"]["python"]["packages"]["value"] = [{**one, "name": f"p{n}"} for n in range(100_000)]


def test_a_report_that_was_tampered_with(subtests: pytest.Subtests) -> None:
    for change, refused in [
        (_many_gpus, ""),
        (_packages, ""),
        (_many_findings, "it has 5000 findings; at most 1000 are read"),
        (_memory(10**400), "it is not valid"),
        (_memory(-1), ""),
        (_memory(1e308), "it is not valid"),
        (_memory("much"), "it is not valid"),
        (lambda found: found.update(verdict="splendid"), "it has the verdict 'splendid', which is none"),
        (lambda found: found.update(facts=None), "it has no facts"),
        (lambda found: found.update(created="9999-99-99"), ""),
        (lambda found: found.update(created="x" * 1_000_000), ""),
        (lambda found: found["facts"]["host"]["name"].update(value="h" * 1_000_000), ""),
        (lambda found: found["facts"]["host"]["name"].update(value=""), ""),
        (lambda found: found["facts"]["host"]["name"].update(value="\u202e\x1b[2Jgpu-1\r\n::error::"), ""),
    ]:
        with subtests.test(change=change):
            found = line()
            change(found)
            seen = fleet(json.dumps(found))
            assert [one.reason.partition(":")[0] for one in seen.unreadable] == (
                [refused.partition(":")[0]] if refused else []
            )
            assert len(seen.nodes) == 6 + (not refused)
            assert all(len(node.name) <= 400 for node in seen.nodes)


def test_the_place_of_a_wrong_value_is_named(subtests: pytest.Subtests) -> None:
    for place, path in [("memory_total", "gpus"), ("version", "driver")]:
        with subtests.test(place=place):
            found = line()
            record = _gpus(found)[0] if path == "gpus" else found["facts"][path]
            record[place]["value"] = ["wrong"]
            (refused,) = fleet(json.dumps(found)).unreadable
            assert f"`$.facts.{path}.{place}.value`" in refused.reason, refused.reason


def test_numbers_that_are_none(subtests: pytest.Subtests) -> None:
    for number in ["NaN", "Infinity", "-Infinity", "1e999", "1" * 5_000]:
        with subtests.test(number=number):
            text = json.dumps(bench()).replace('"median_s": ', f'"median_s": {number}, "x": ', 1)
            speed = bench()
            speed["runs"][0]["throughput"]["value"] = "@@"
            seen = fleet(text, json.dumps(speed).replace('"@@"', number))
            assert seen.unreadable and all(one.reason.startswith("it is not valid") for one in seen.unreadable)


def test_a_speed_that_cannot_be(subtests: pytest.Subtests) -> None:
    for value in [0.0, -1.0, 1e31]:
        with subtests.test(value=value):
            found = bench()
            found["runs"][0]["throughput"]["value"] = value
            (refused,) = fleet(json.dumps(found)).unreadable
            assert refused.reason.startswith("it is not valid: Expected `float`")


def test_nesting_without_an_end() -> None:
    deep = '{"schema": "tfgpu.report/1", "facts": ' + '{"a":' * 100_000
    closed = '{"schema": "tfgpu.report/1", "facts": ' + '{"a":' * 100_000 + "1" + "}" * 100_001
    reasons = [one.reason for one in fleet(deep, closed).unreadable]
    assert reasons and all(reason in ("it is cut off", "it is nested too deeply") for reason in reasons)


def test_names_that_lie() -> None:
    """Machines that call themselves like another one are told apart by the UUIDs of their GPUs."""
    liar = making.report(KIND).filled(making._values(Random("liar"), "gpu-1", KIND, None))
    seen = fleet(liar)
    assert [node.name for node in seen.nodes if "gpu-1" in node.name] == [
        "gpu-1 (log.txt, line 2)",
        "gpu-1 (log.txt, line 7)",
    ]
    assert "1 host name of several machines: their GPUs differ" in seen.notes


def test_one_node_thousands_of_times() -> None:
    text = texts(None, ("gpu-1",))["gpu-1"].strip()
    with guarded(30):
        seen = fleet(*[text.replace("2026-11-20T10:00:00Z", f"2026-11-20T10:00:{n % 60:02}Z") for n in range(3_000)])
    assert len(seen.nodes) == 6
    assert seen.results == 3_006
    assert next(node for node in seen.nodes if node.name == "gpu-1").created == "2026-11-20T10:00:59Z"


def test_thousands_of_nodes_of_one_name() -> None:
    liars = [making.report(KIND).filled(making._values(Random(n), "gpu-1", KIND, None)) for n in range(1_000)]
    with guarded(30):
        seen = fleet(*liars)
    assert len(seen.nodes) == 1_006


# ------------------------------------------------------------------------------ time in proportion to what is read


def _of(one: bytes) -> Callable[[int], list[bytes]]:
    return lambda size: [one] * (size // len(one))


LONG: dict[str, Callable[[int], list[bytes]]] = {
    "beginnings": _of(b"{"),
    "labels": lambda size: [b"n%d: {" % n for n in range(size // 12)],
    "labels of their own": lambda size: [b"n%d: x" % n for n in range(size // 12)],
    "pieces": lambda size: [b'0: {"schema": "tfgpu.report/1", "a": [', *[b"0: {}"] * (size // 5)],
    "rules": _of(b"----------------"),
    "one line": lambda size: [b"x: " + b'{"a":1}' * (size // 7)],
    "brackets": lambda size: [b"[" * size],
    "quotes": lambda size: [b'"' * size],
    "Ansible": _of(b"gpu | FAILED | rc=1 | (stdout) {\\n\\n}"),
    "Ansible, one line": lambda size: [b"gpu | FAILED | rc=1 | (stdout) " + b"\\n" * (size // 2)],
    "plays": lambda size: [b'{"plays": [{"tasks": [{"hosts": {"a": ' + b'{"tfgpu.": ' * (size // 11)],
    "sets": _of(b"clush: gpu-[1-9999999] (9): exited with exit code 1"),
    "Ray": _of(b"(f pid=1) {} [repeated 2x across cluster]"),
    "texts": lambda size: [b'x {"a": ' + (b'"\\"tfgpu.' * (size // 9)) + b'"}'],
}


def test_a_log_takes_time_in_proportion(subtests: pytest.Subtests) -> None:
    """It takes one to three seconds, as its square hours."""
    for kind in LONG:
        with subtests.test(kind=kind):
            lines = LONG[kind](160_000)
            with guarded(30):
                for _ in documents(lines):
                    pass
                judged(gathered(b"\n".join(lines)))


def test_documents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwrapping, "LARGEST", 10_000)
    lines = [b"{", *[b'  "a": 1,'] * 10_000]
    (one,) = [one for one in documents(lines) if isinstance(one, unwrapping.Document)]
    assert len(one.data) < 12_000 and one.is_cut


# --------------------------------------------------------------------------------------------------------- the baseline


def test_a_baseline_holds_what_its_schema_says() -> None:
    lines = [text.strip().encode() for text in texts(None, NODES).values()]
    lines += [json.dumps(bench(name)).encode() for name in NODES]
    made = baseline.make_baseline(gathered(b"\n".join(lines)).results, "2026-11-23T12:00:00Z")
    assert len(made.speeds) == 1 and len(made.hardware) == 1
    data = msgspec.json.encode(made)
    schema = json.loads((FOLDER / "fleet-baseline-1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(data))
    assert msgspec.structs.replace(baseline.load(data, "b.json"), name="") == made
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({**json.loads(data), "hardware": 7})
