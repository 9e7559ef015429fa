"""YAML as nodes: what a value is, where it stands, and that nothing hostile gets through, nor takes long."""

from __future__ import annotations

import pytest

from tests.guard import guarded
from tfgpu_doctor.records.yaml_nodes import DEEPEST, YamlError, documents, plain


def test_values(subtests: pytest.Subtests) -> None:
    for text, value in [
        ("2.10", 2.1),
        ('"2.10"', "2.10"),
        ("!!str 2.10", "2.10"),
        ("2026-11-21", "2026-11-21"),
        ("1:30", "1:30"),
        ("1.2.3", "1.2.3"),
        ("no", "no"),
        ("on", "on"),
        ("tRue", "tRue"),
        ("True", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("010", 10),
        ("0o14", 12),
        ("0x1F", 31),
        ("+7", 7),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        (".inf", ".inf"),
        ("9" * 5000, "9" * 5000),  # int() refuses as many digits
        ("-", [None]),
        ("|\n 1\n", "1\n"),
        ("[&a [1], *a]", [[1], [1]]),
        ("{a: 1, 2: b}", {"a": 1, 2: "b"}),
        ("{a: &a {b: 1}, <<: *a}", {"a": {"b": 1}, "<<": {"b": 1}}),  # YAML 1.2 has no merge key
    ]:
        with subtests.test(text=text):
            (found,) = documents(f"- {text}")
            assert plain(found) == [value]
            assert [type(one) for one in plain(found)] == [type(value)]


def test_refused_with_the_line(subtests: pytest.Subtests) -> None:
    for text, message in [
        ("a: 1\nb:\n  c: 1\n  'c': 2", "line 4: duplicate key c"),
        (f"{'k' * 1000}: 1\n{'k' * 1000}: 2", f"line 2: duplicate key {'k' * 79}…"),
        ("- &a [*a]", "line 1: nested more than 100"),
        ("- *b", "line 1: invalid YAML: found undefined alias"),
        ("- &a 1\n---\n- *a", "line 3: invalid YAML: found undefined alias"),
        ("a:\n\t- x", "line 2: invalid YAML: found character that cannot start any token"),
        ("\na: ä\na\0b", "line 3: invalid YAML: control characters are not allowed"),
        ("\ud800", "line 1: not valid Unicode"),
        ("\n".join(f"{' ' * level}- &{'a' * level}" for level in range(1, 300)), "line 100: nested more than 100"),
        ("\n".join(f"- &a{n} [*a{n - 1}]" if n else "- &a0 1" for n in range(200)), "nested more than 100"),
        ("\n".join(f"- &a{n} [{f'*a{n - 1}, ' * 9}]" if n else "- &a0 1" for n in range(9)), "more than 500000 val"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(YamlError) as refused:
                documents(text)
            assert message in str(refused.value)
            assert len(str(refused.value)) < 130


def test_what_stands_for_no_plain_value(subtests: pytest.Subtests) -> None:
    for text, message in [
        ("a: !!python/object:os.system x", "the tag tag:yaml.org,2002:python/object:os.system is not known here"),
        ("\n? [a]\n: b", "line 2: a list or mapping cannot be a key"),
    ]:
        with subtests.test(text=text):
            (found,) = documents(text)
            with pytest.raises(YamlError, match=message):
                plain(found)


# what has exhausted a stack, or time, in one YAML library or another
REPEATED = (
    *("- ", "? ", "[", "{a: ", "[? ", "? - ", "&a ", "*a ", "!a ", "!", '"', "'", "|\n", ">\n", "%a\n", "#", "\n"),
    *("---\n", "--- a\n", "a: ", "a:\n", "- 1\n", "1,", "[1,", "{", "\t", " ", "a\n\n", "\\", "...\n", "\ufeff"),
)


def test_whatever_is_repeated_ends_soon(subtests: pytest.Subtests) -> None:
    for unit in REPEATED:
        for before in ["", "a: [", '"']:
            with subtests.test(unit=unit, before=before), guarded(5.0):
                try:
                    for one in documents(before + unit * 20_000):
                        plain(one)
                except YamlError as error:
                    assert len(str(error)) < 130


def test_nothing_recurses_deeper_than_the_limit() -> None:
    text = "".join(f"{' ' * level}- a:\n" for level in range(0, DEEPEST, 2))
    (found,) = documents(text)
    assert repr(plain(found)).count("{") == DEEPEST // 2
