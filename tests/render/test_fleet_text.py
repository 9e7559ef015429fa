"""A fleet in every format: exact text at three widths, what a first screen leaves out, names of hosts."""

from __future__ import annotations

import io
import re
from functools import cache
from pathlib import Path
from random import Random

import pytest

from tests.fleet import making
from tests.fleet.making import ODDITIES, TYPES, fleet
from tests.healthy import MATRIX
from tests.render.pages import Page
from tests.render.showing import as_format
from tests.render.test_text import check_golden
from tfgpu_doctor.fleet.expectations import parse
from tfgpu_doctor.fleet.fleet import judge_fleet
from tfgpu_doctor.fleet.gathering import Gathering
from tfgpu_doctor.fleet.labels import unfolded
from tfgpu_doctor.fleet.records import Fleet
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.fleet_words import folded
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.terminal.fleet import render

GOLDEN = Path(__file__).parent / "golden" / "fleet"
NOW = "2026-11-23T12:00:00Z"
markdown, html, junit, prometheus = (as_format(name, "fleet") for name in ("markdown", "html", "junit", "prometheus"))


def judged(seed: int, nodes: int, oddities: int, *more: bytes, expect: str = "") -> Fleet:
    gathering = Gathering()
    gathering.take_file(b"\n".join((*fleet(seed, nodes, oddities).lines, *more)), "fleet.jsonl")
    wishes = parse(expect) if expect else ()
    return judge_fleet(gathering.gathered(), MATRIX, NOW, expectations=wishes)


SILENT = b'{"schema": "tfgpu.node/1", "node": "gpu-00099", "failure": "did not answer within 120 s"}'


@cache
def fleets() -> dict[str, Fleet]:
    """By name."""
    return {
        "usual": judged(162, 40, 3),
        "clean": judged(1, 20, 0),
        "many-problems": judged(3, 300, 14, SILENT, b'gpu-00100: {"schema": "tfgpu.report/1", "tool"', expect="gpus=8"),
        "nothing": judged(1, 0, 0, b"srun: error: no such partition"),
    }


NAMES = ("usual", "clean", "many-problems", "nothing")


def printed(name: str, monkeypatch: pytest.MonkeyPatch, columns: int = 80, detail: Detail = "normal") -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    render(fleets()[name], console_for(stream), detail)
    return stream.getvalue()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", [60, 80])
def test_golden(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(name, monkeypatch, columns)
    commands = {command for group in fleets()[name].groups for fix in group.fixes for command in fix.commands}
    for line in text.splitlines():
        assert len(line) <= columns or line.strip() in commands, line
    check_golden(GOLDEN / f"{name}-{columns}.txt", text)


@pytest.mark.parametrize("name", NAMES)
def test_less_is_part_of_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    least, normal, full = (printed(name, monkeypatch, 1000, detail) for detail in ("least", "normal", "full"))
    assert set(least.splitlines()) <= set(normal.splitlines())
    for group in fleets()[name].groups:
        assert group.title in normal and group.title in full
        # every node of a group, and every command
        assert folded(member.node for member in group.nodes) in full
        assert all(command in full for fix in group.fixes for command in fix.commands)
    assert least.count("\n") <= 12


def test_a_reason_that_many_groups_share_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed("many-problems", monkeypatch, 1000).count("nodes of one kind should be alike") == 1


def test_what_is_expected_stands_with_each_kind_of_hardware() -> None:
    """A slow H200 is faster than a good L4: the expectation of one says nothing of the other."""
    found = judged(5, 60, 12)
    hardware = {node.name: node.hardware.partition(" × ")[2] for node in found.nodes}
    several = 0
    for group in found.groups:
        if group.kind in ("difference", "speed"):
            cards = {hardware[member.node] for member in group.nodes}
            assert all(card in group.expected + group.source for card in cards), group
            several += len(cards) > 1
    assert several >= 3


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_all_values_stand_beside_or_behind_their_names(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed("many-problems", monkeypatch, columns, "full")
    names = "operating system", "newest CUDA that the driver supports", "compute capability of GPUs"
    lines = text.splitlines()
    assert all(any(re.match(rf"  {name}:? +\S", line) for line in lines) for name in names)
    assert "Machine (number of nodes)" in lines and "Values" not in text
    assert "/dev/nvidia0, /dev/nvidia1" not in text or ");" in text  # lists are told apart


def test_markdown_is_redacted_and_still_tells_hosts_apart() -> None:
    found = fleets()["usual"]
    hidden = redact(found)
    pages = (markdown(hidden), html(hidden), junit(hidden), prometheus(hidden))
    assert not any(re.search(r"gpu-000\d\d", page) for page in pages)
    assert len({node.name for node in hidden.nodes}) == len(found.nodes)
    for before, after in zip(found.groups, hidden.groups, strict=True):
        assert len({member.node for member in after.nodes}) == len(before.nodes)
    assert redact(hidden) == hidden


def test_pages_name_every_group_and_every_odd_node() -> None:
    found = fleets()["many-problems"]
    page, text = Page(html(found)), markdown(found)
    for group in found.groups:
        assert group.title in page.text
        assert all(member.node in page.text for member in group.nodes if group.kind != "expectation")
    assert "it is cut off" in page.text and "it is cut off" in text
    check_golden(GOLDEN / "usual.md", markdown(redact(fleets()["usual"])))


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["gpu-1", "gpu-2", "gpu-3", "gpu-7"], "gpu-[1-3,7]"),
        (["gpu-001", "gpu-002", "gpu-010"], "gpu-[001-002,010]"),
        (["gpu-9", "gpu-10", "gpu-11"], "gpu-[9-11]"),
        (["gpu-099", "gpu-100"], "gpu-[099-100]"),
        (["gpu-0", "gpu-1"], "gpu-[0-1]"),
        (["gpu-09", "gpu-10", "gpu-100"], "gpu-[09-10], gpu-100"),
        (["node1.a.example", "node2.a.example", "node2.b.example"], "node[1-2].a.example, node2.b.example"),
        (["login", "head"], "login, head"),
        (["<host-1>", "<host-2>"], "<host-[1-2]>"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
        ([], ""),
    ],
)
def test_names_of_hosts_are_folded(names: list[str], shown: str) -> None:
    assert folded(names) == shown


def test_no_line_breaks_within_a_number() -> None:
    """What is copied out of a terminal names the nodes that it names."""
    odd = [f"gpu-{number:05}" for number in range(0, 120, 2)]
    shown = folded(odd).split(", ")
    assert len(shown) > 5 and max(map(len, shown)) <= 46
    assert [name for one in shown for name in unfolded(one)] == odd


def test_folded_names_are_cut_at_whole_ranges() -> None:
    names = [f"n{number}" for number in (1, 2, 5, 7, 8, 9)]
    assert folded(names, 2) == "n[1-2,5] and 3 more"
    assert folded(names, 0) == " and 6 more"


def test_versions_of_four_numbers_are_no_addresses() -> None:
    kind = TYPES[0]
    chance = Random(1)
    odd = next(one for one in ODDITIES if one.name == "cuDNN")
    lines = [
        line.encode()
        for number in range(20)
        for line in making._node(chance, f"n{number}", kind, odd if number == 3 else None, False)
    ]
    gathering = Gathering()
    gathering.take_file(b"\n".join(lines), "fleet.jsonl")
    hidden = redact(judge_fleet(gathering.gathered(), MATRIX, NOW))
    text = markdown(hidden) + html(hidden) + junit(hidden)
    assert "9.5.0.50" in text and "9.10.2.21" in text and "<address" not in text and "&lt;address" not in text
