"""Saved reports that something happened to: each is read as a report, or refused with one clear line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

from tests.findings.rows_over_facts import FIRES
from tests.fuzz import mutations, way
from tests.records.test_report import report
from tfgpu_doctor.compare.comparison import compare
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.records.report import Report, ReportError, load_report
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.terminal import compare as compare_text

STRANGE: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        1e308,
        10**30,
        2**63,
        -(2**63) - 1,
        "",
        " ",
        "\x1b[31m[red]<script>",
        "x" * 3000,
        [],
        {},
        [[]],
    ),
    *(
        "9" * 400,
        "1!2+x..y",
        "²",
        "0x10",
        "12.",
        "..",
        "99999999999.9",
        "\u202e",
        "known",
        "unknown",
        [None],
        {"is": 1},
    ),
)
_CHECKED = ("is", "schema", "source", "verdict", "severity", "outcome")  # hold words of a closed list


@cache
def good() -> tuple[bytes, ...]:
    """Reports of real texts, and of the machines of the rules' own tests, which know of every fact."""
    texts = mutations.corpus()[::9]
    told = [way.walk(text[: mutations.LARGEST], validate=False) for text in texts]
    machines = [report(rows[0][1]).facts for rows in FIRES.values() if rows]
    found = [make_report(facts, way.matrix(), source="live", timings={}) for facts in machines]
    return tuple(one.to_json() for one in (*told, *found))


def mutate(chance: Random) -> bytes:
    """One of them, changed as values, as text, or both."""
    data = chance.choice(good())
    if chance.random() < 0.75:
        tree = json.loads(data)
        for _ in range(chance.randint(1, 4)):
            _change(tree, chance)
        data = json.dumps(tree).encode()
    if chance.random() < 0.3:
        data = _as_text(data, chance)
    return data


def _change(tree: Any, chance: Random) -> None:
    """Change, remove or add one value somewhere in the tree."""
    places = list(_places(tree))
    holder, key = chance.choice(places)
    if chance.random() < 0.7:  # a text in the place of a text passes every check of types
        texts = [(where, name) for where, name in places if isinstance(where[name], str) and name not in _CHECKED]
        holder, key = chance.choice(texts)
        holder[key] = chance.choice([one for one in STRANGE if isinstance(one, str)])
        return
    match chance.randrange(5):
        case 0:
            del holder[key]
        case 1:
            holder[key] = [holder[key]] * chance.randint(0, 50)
        case 2 if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        case _:
            old = holder[key]
            same = [one for one in STRANGE if type(one) is type(old)]
            holder[key] = chance.choice(same if same and chance.random() < 0.7 else STRANGE)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
            yield tree, key
            yield from _places(value)


def _as_text(data: bytes, chance: Random) -> bytes:
    place = chance.randint(0, len(data))
    return chance.choice(
        (
            data[:place],
            data[:place] + data[chance.randint(0, len(data)) :],
            mutations.mutate(data, [(1, chance.randrange(1 << 30))]),
            data.replace(b"null", b"NaN"),
            data.replace(b"0", b"Infinity", 1),
            data.replace(b'"findings"', b'"verdict": "ok", "findings"', 1),
            data[:place] + b"[" * 10_000 + data[place:],
            data.decode().encode("utf-16"),
            data + data,
        )
    )


def survives(data: bytes) -> Report | None:
    """Read, judge anew, compare and render; None where it was refused."""
    try:
        old = load_report(data, "r.json")
    except ReportError as error:
        message = str(error)
        assert message.startswith("r.json ") and len(message) < 1000, message[:1000]
        assert "\n" not in message
        return None
    source = "text" if old.source == "text" else "report"
    new = make_report(old.facts, way.matrix(), source=source, timings=old.timings)  # type: ignore[arg-type]
    way.holds(new, validate=False)
    other = load_report(good()[0], "base.json")
    for pair in ((other, new), (new, other)):
        comparison = compare(*pair, way.matrix(), "2026-11-21T06:36:00Z")
        out = io.StringIO()
        compare_text.render(comparison, console_for(out), everything=True)
        assert out.getvalue().replace("\n", "").isprintable()
        comparison.to_json()
    return new
