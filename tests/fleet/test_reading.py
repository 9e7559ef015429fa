"""Results as tools print them, files of every kind, reports that were tampered with: read, or refused."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.fleet import making
from tests.guard import guarded
from tests.healthy import MATRIX
from tfgpu_doctor.fleet import reading
from tfgpu_doctor.fleet.picture import judge_fleet
from tfgpu_doctor.fleet.reading import Gathered, documents, read_fleet
from tfgpu_doctor.fleet.records import Fleet

KIND = making.TYPES[2]
NODES = ("gpu-1", "gpu-2", "gpu-3")
MIB = 1 << 20


def texts(indent: int | None = 2, nodes: tuple[str, ...] = NODES, host: str = "") -> dict[str, str]:
    """What `tfgpu doctor --format json` prints on each node; `host`: as each of them calls itself."""
    found = {name: json.loads(making.filled(making.report(KIND), _values(name, host or name))) for name in nodes}
    return {name: json.dumps(one, indent=indent) + "\n" for name, one in found.items()}


def _values(name: str, host: str) -> Callable[[str], Any]:
    return making._values(Random(name), host, KIND, None)


def gathered(text: str | bytes, name: str = "log.txt") -> Gathered:
    found = Gathered()
    found.take((text.encode() if isinstance(text, str) else text).split(b"\n"), name)
    return found


def names(found: Gathered) -> list[str]:
    """Of the nodes that sent a result, each once."""
    return sorted({one.node for one in found.results})


def judged(found: Gathered) -> Fleet:
    return judge_fleet(found, MATRIX, "2026-11-23T12:00:00Z")


NOISE = "WARNING: All log messages before absl::InitializeLog()\n[1/3] {x} done\n\n[]\n{}\nx: {\n"


def test_results_are_read_as_tools_print_and_systems_write_them(tmp_path: Path) -> None:
    path = tmp_path / "all.log"
    for indent, noise in itertools.product((2, None), ("", NOISE)):
        text = noise + noise.join(texts(indent).values()) + noise
        windows = text.replace("\n", "\r\n")
        utf_8 = (text.encode(), windows.encode(), text.encode("utf-8-sig"))
        for data in (*utf_8, windows.encode("utf-16"), text.encode("utf-16-be")):
            path.write_bytes(data)
            found = read_fleet([str(path)])
            assert (names(found), found.unreadable) == (list(NODES), []), (indent, noise, data[:20])
    path.write_text("".join(texts(nodes=tuple(f"gpu-{n}" for n in range(60))).values()).rstrip("\n"))
    assert path.stat().st_size > 2 * MIB and len(names(read_fleet([str(path)]))) == 60
    redacted = texts(None, host="<host>")
    assert names(gathered("".join(redacted.values()))) == ["log.txt", "log.txt, line 2", "log.txt, line 3"]


def test_files_and_folders(tmp_path: Path) -> None:
    """A folder's files of any depth; a redacted report is named by its file."""
    files = [tmp_path / name for name in ("gpu-1.json", "gpu-3/report.json", "rack 1/gpu-2.tfgpu.json")]
    for file, text in zip(files, texts(host="<host>").values(), strict=True):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (tmp_path / "notes.md").write_text("nothing")
    found = read_fleet([str(tmp_path)])
    assert (names(found), found.unreadable) == ([str(file) for file in files], [])


def test_what_is_no_result_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    one, two, three = texts(None).values()
    wrong = one.replace('"verdict": "ok"', '"verdict": 7')
    old, newer = (two.replace("tfgpu.report/1", f"tfgpu.report/{n}") for n in (0, 2))
    half = "\n".join(texts()["gpu-1"].splitlines()[:40]) + "\n"
    found = gathered(f"noise\n{wrong}{wrong}{old}{newer}{three[:500]}\n{half}{three}")
    assert names(found) == ["gpu-3"] and judged(found).verdict == "unknown"
    wrong_type = "it is not a valid result of tfgpu: Expected `str`, got `int` - at `$.verdict`"
    assert {one.line: one.reason for one in found.unreadable} == {
        2: wrong_type,
        3: wrong_type,
        4: "it has schema 'tfgpu.report/0'; this version of tfgpu reads 'tfgpu.report/1'",
        5: "it has schema 'tfgpu.report/2'; this version of tfgpu reads 'tfgpu.report/1'; that is newer: update tfgpu, "
        "or write it again with this version",
        6: "it is cut off",
        7: "it is cut off",
    }
    for name, text in {"empty": "", "other": "all is well\n", "json": '{"a": 1}', "list": "[1, 2]"}.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "good.json").write_text(one)
    found = read_fleet([str(tmp_path), str(tmp_path / "missing.json")])
    assert names(found) == ["gpu-1"]
    refused = {Path(one.file).stem for one in found.unreadable}
    assert refused == {"empty", "other", "json", "list", "missing"}


def test_what_is_too_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST", 10_000)
    ((line, data),) = documents([b"x", b"{", *[b'  "a": 1,'] * 10_000])
    assert line == 2 and len(data) < 12_000
    found = Gathered()
    found.take(reading._lines(iter([b'{"schema": "' + b"x" * 20_000])), "x")
    assert found.unreadable[0].reason.startswith("a line of it is longer than")


def test_a_log_takes_time_in_proportion() -> None:
    """It takes a second or less, as its square hours."""
    size = 160_000
    for lines in (
        [b"{"] * size,
        [b"{", b'"schema": "tfgpu.report/1", "a": [', *[b"{}"] * (size // 5)],
        [b'{"a":1}' * (size // 7)],
        [b"[" * size],
        [b'"' * size],
        [b'{"a": ' + (b'"\\"tfgpu.' * (size // 9)) + b'"}'],
    ):
        with guarded(30):
            judged(gathered(b"\n".join(lines)))


def fleet(*odd: str) -> Fleet:
    """Beside six healthy nodes, which must all be judged."""
    nodes = tuple(f"gpu-{n}" for n in range(6))
    found = judged(gathered("".join(texts(None, nodes).values()) + "\n".join(odd)))
    assert {node.name.partition(" (")[0] for node in found.nodes} >= set(nodes)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Fleet) == found
    return found


def tampered(path: str, value: Any) -> str:
    """A report with another value at a place."""
    found = json.loads(texts(None, ("odd",))["odd"])
    *place, last = path.split("/")
    here = found
    for word in place:
        here = here[int(word) if word.isdecimal() else word]
    here[last] = value(here[last]) if callable(value) else value
    return json.dumps(found)


def test_a_report_that_was_tampered_with() -> None:
    memory, host = "facts/gpus/value/0/memory_total/value", "facts/host/name/value"
    for place, changed in (
        ("facts/gpus/value", lambda gpus: gpus * 2_000),
        ("facts/python/packages/value", lambda them: [{**them[0], "name": f"p{n}"} for n in range(50_000)]),
        (memory, -1),
        ("created", "9999-99-99"),
        ("created", "x" * 1_000_000),
        (host, "h" * 1_000_000),
        (host, ""),
        (host, "\u202e\x1b[2Jgpu-1\r\n::error::"),
    ):
        seen = fleet(tampered(place, changed))
        assert (len(seen.nodes), seen.unreadable) == (7, ()), place
        assert all(len(node.name) <= 400 for node in seen.nodes)
    refused = [(memory, 10**400), (memory, 1e308), ("verdict", "splendid"), ("facts/driver/version/value", ["wrong"])]
    for place, changed in refused:
        (one,) = fleet(tampered(place, changed)).unreadable
        assert one.reason.startswith("it is not a valid result of tfgpu"), place
    assert "`$.facts.driver.version.value`" in one.reason


def test_a_speed_that_cannot_be() -> None:
    speed = json.loads(making.filled(making.bench(KIND), _values("odd", "odd")))
    speed["runs"][0]["throughput"]["value"] = "@@"
    for number in ("NaN", "1e999", "0.0", "-1.0", "1e31"):
        (refused,) = fleet(json.dumps(speed).replace('"@@"', number)).unreadable
        assert refused.reason.startswith(("it is not a valid result of tfgpu", "JSON is malformed")), number


def test_nesting_without_an_end() -> None:
    deep = '{"schema": "tfgpu.report/1", "facts": ' + '{"a":' * 100_000
    reasons = [one.reason for one in fleet(deep, deep + "1" + "}" * 100_001).unreadable]
    assert len(reasons) and all("cut off" in one or "nested too deeply" in one for one in reasons), reasons


def test_names_that_lie_and_results_that_come_again() -> None:
    """Machines that call themselves alike are told apart by their GPUs' UUIDs; of one machine, the newest counts."""
    liar = making.filled(making.report(KIND), _values("liar", "gpu-1"))
    seen = fleet(liar)
    lying = [node.name for node in seen.nodes if "gpu-1" in node.name]
    assert lying == ["gpu-1 (log.txt, line 2)", "gpu-1 (log.txt, line 7)"]
    assert "1 host name of several machines: their GPUs or files differ" in seen.notes
    newest, text = "2026-11-20T10:00:00Z", texts(None, ("gpu-1",))["gpu-1"].strip()
    old = text.replace(making.DRIVER, making.OTHER)
    with guarded(30):
        seen = fleet(*[old.replace(newest, f"2026-11-20T09:00:{n % 60:02}Z") for n in range(1_000)])
    assert (len(seen.nodes), seen.results) == (6, 1_006)
    assert not any(group.id.startswith("driver.") for group in seen.groups)
    assert [node.created for node in seen.nodes] == [newest] * 6
    assert "1 node sent several results of one kind, of which the newest counts (gpu-1): " in seen.notes[0]


@pytest.mark.parametrize(
    ("host", "files", "is_redacted", "nodes"),
    [
        ("localhost", ["gpu-01.json", "gpu-02.json"], True, 2),
        ("vm-image", ["gpu-01.json", "gpu-02.json"], True, 2),
        ("gpu-01.acme.lan", ["monday/gpu-01.json", "tuesday/gpu-01.json"], True, 1),
        ("vm-image", ["monday.json", "tuesday.json"], False, 1),
    ],
)
def test_one_host_name_in_several_files(
    tmp_path: Path, host: str, files: list[str], is_redacted: bool, nodes: int
) -> None:
    """Each file is a node, as images call themselves alike, unless its GPUs or its name show that it is the same."""
    for file in files:
        text = making.filled(making.report(KIND), _values("alike", host))
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(re.sub(r"GPU-[0-9a-f]{16}", "GPU-<uuid-1>", text) if is_redacted else text)
    assert len(judged(read_fleet([str(tmp_path)])).nodes) == nodes
