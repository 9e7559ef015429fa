"""YAML as nodes: what a value is, where it stands, and that nothing hostile gets through, nor takes long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guard import guarded
from tests.tables import read_rows
from tfgpu_doctor.facts.yaml_nodes import DEEPEST, YamlError, documents, plain

VALUES = {**read_rows(Path(__file__).parent / "yaml_values.yaml"), "9" * 5000: "9" * 5000}  # int() refuses those
REFUSED = {
    "a: 1\nb:\n  c: 1\n  'c': 2": "line 4: duplicate key c",
    f"{'k' * 1000}: 1\n{'k' * 1000}: 2": f"line 2: duplicate key {'k' * 79}…",
    "- &a [*a]": "line 1: nested more than 100",
    "- *b": "line 1: invalid YAML: found undefined alias",
    "- &a 1\n---\n- *a": "line 3: invalid YAML: found undefined alias",
    "a:\n\t- x": "line 2: invalid YAML: found character that cannot start any token",
    "\na: ä\na\0b": "line 3: invalid YAML: control characters are not allowed",
    "\ud800": "line 1: not valid Unicode",
    "\n".join(f"{' ' * level}- &{'a' * level}" for level in range(1, 300)): "line 100: nested more than 100",
    "\n".join(f"- &a{n} [*a{n - 1}]" if n else "- &a0 1" for n in range(200)): "nested more than 100",
    "\n".join(f"- &a{n} [{f'*a{n - 1}, ' * 9}]" if n else "- &a0 1" for n in range(9)): "more than 500000 val",
    # what stands for no plain value
    "a: !!python/object:os.system x": "the tag tag:yaml.org,2002:python/object:os.system is not known here",
    "\n? [a]\n: b": "line 2: a list or mapping cannot be a key",
}


def test_values() -> None:
    found = {text: plain(documents(f"- {text}")[0])[0] for text in VALUES}
    assert {text: (value, type(value)) for text, value in found.items()} == {
        text: (value, type(value)) for text, value in VALUES.items()
    }


def test_refused_with_the_line() -> None:
    for text, message in REFUSED.items():
        with pytest.raises(YamlError) as refused:
            plain(documents(text)[0])
        assert message in str(refused.value) and len(str(refused.value)) < 130


# what has exhausted a stack, or time, in one YAML library or another
REPEATED = (
    *("- ", "? ", "[", "{a: ", "[? ", "? - ", "&a ", "*a ", "!a ", "!", '"', "'", "|\n", ">\n", "%a\n", "#", "\n"),
    *("---\n", "--- a\n", "a: ", "a:\n", "- 1\n", "1,", "[1,", "{", "\t", " ", "a\n\n", "\\", "...\n", "\ufeff"),
)


def test_whatever_is_repeated_ends_soon() -> None:
    for unit in REPEATED:
        for before in ("", "a: [", '"'):
            with guarded(5.0, unit):
                try:
                    for one in documents(before + unit * 20_000):
                        plain(one)
                except YamlError as error:
                    assert len(str(error)) < 130


def test_nothing_recurses_deeper_than_the_limit() -> None:
    (found,) = documents("".join(f"{' ' * level}- a:\n" for level in range(0, DEEPEST, 2)))
    assert repr(plain(found)).count("{") == DEEPEST // 2
