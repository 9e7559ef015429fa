"""Numbers with their units, versions as numbers; text from outside: what becomes visible, and what is no command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.guard import guarded
from tests.tables import read_rows
from tfgpu_doctor.facts import printable, versions
from tfgpu_doctor.facts.printable import clean, escape_json, one_line, without_commands
from tfgpu_doctor.facts.units import GIB, MIB, digits, memory_size, quantity

ROWS = read_rows(Path(__file__).parent / "numbers.yaml")
MEMORY = {GIB: "1 GiB", 1000 * MIB: "1000 MiB", 64 * MIB: "64 MiB", 2048 * GIB: "2048 GiB", 7.7891 * GIB: "7.79 GiB"}


def test_numbers_with_their_units() -> None:
    assert [[*row, digits(*row)] for *row, _ in ROWS["digits"]] == ROWS["digits"]
    assert [[*row, quantity(*row)] for *row, _ in ROWS["quantities"]] == ROWS["quantities"]
    assert {size: memory_size(size) for size in MEMORY} == MEMORY


def test_versions_are_numbers_or_nothing() -> None:
    assert versions.numbers("12.5.1") == (12, 5, 1)
    for text in ("", "2.15.0rc1", "12.x", "."):
        with pytest.raises(ValueError, match="invalid literal"):
            versions.numbers(text)
    for text, parts in ROWS["parts"].items():
        assert versions.parts(text) == (parts and tuple(parts)), text
    assert [[*both, versions.at_least(*both)] for *both, _ in ROWS["at least"]] == ROWS["at least"]
    assert (versions.major("11.8.0"), versions.minor("11.8.0"), versions.minor("11")) == ("11", "11.8", "11")
    assert (versions.major(None), versions.minor(None)) == ("", "")
    assert (versions.padded("12.5"), versions.capability("8.9")) == ((12, 5, 0), (8, 9))
    assert versions.capability("10") == (10, 0)


def test_what_is_no_visible_character_becomes_one() -> None:
    others = (0x200B, 0x202E, 0x2066, 0x2028, 0xFEFF, 0x3164, 0xD800, 0xE0041, 0xE0100)
    for code in (*range(32), *range(0x7F, 0xA0), *others):
        assert clean(f"a{chr(code)}b") == {9: "a    b", 10: "a b"}.get(code, "a\ufffdb"), hex(code)
    assert clean("é 漢字 ⚠\ufe0f ✓") == "é 漢字 ⚠\ufe0f ✓"


def test_a_message_is_one_line_that_keeps_its_end() -> None:
    # TensorFlow adds to a message with a line break and a tab; of the H100: "Permission denied? Unable to write"
    assert clean("/tmp/x; denied\n\tUnable to write\r\nPTX") == "/tmp/x; denied Unable to write PTX"
    assert one_line("a\n\r\n b\x85c\u2028d") == "a;  b; c; d"
    long = one_line("x" * 10_000 + ": no such file")
    assert len(long) < 4010 and long.endswith(": no such file")


def test_commands_of_ci_systems_are_broken_up() -> None:
    for text, shown in (
        ("::error::x", ": :error::x"),
        ("a\n \x1b[1m\t::x", "a\n \x1b[1m\t: :x"),
        ("a::b std::string", "a::b std::string"),
        ("##[group]x ##vso[y] ##teamcity[z] ###[", "## [group]x ##vso [y] ##teamcity [z] ### ["),
        ("#\ufe0f#[x] #\x1b[0m#\x1b[1m[x]", "#\ufe0f# [x] #\x1b[0m#\x1b[1m [x]"),
        ("## Title [1] # [2]", "## Title [1] # [2]"),
    ):
        assert without_commands(text) == shown == without_commands(shown), text


def test_only_annotations_are_ours() -> None:
    text = "::error title=a::b\n::set-env name=a::b\n ::error title=a::b\n::error::b"
    assert without_commands(text, ours=True) == text.replace("::set", ": :set").replace(" ::", " : :").replace(
        "::error::", ": :error::"
    )


def test_json_is_the_same_json() -> None:
    value = {"##[a]": "\x9b\x7f\u202e\U000e0041 ##vso[ ###[ \\##[ é"}
    escaped = escape_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(escaped) == value
    assert escaped.isprintable() and without_commands(escaped) == escaped and "é" in escaped


def test_time_is_linear() -> None:
    many = 5 * 10**4
    for text in (
        "#" * many,
        "##" + "a" * many,
        "#\ufe0f" * many,
        " " * many + ":",
        "\x1b[1m" * many,
        "##\ufe0f" * many,
    ):
        with guarded(5.0):
            assert without_commands(text) == text
            for escape in (escape_json, printable.escape_xml, clean):
                escape(text)
