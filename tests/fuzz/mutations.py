"""Real texts, and what the world does to them on their way into a bug report: plain functions of a source of chance."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

from tests.fuzz import samples

HOSTILE: tuple[str, ...] = tuple(samples.of("hostile"))
ENCODINGS = (
    *("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "gbk", "shift_jis", "utf-7", "utf-8-sig"),
)


DIGITS = ("0", "99999999999999999999", "-1", "1.", ".", "²", "٣", "")
LINE_ENDS = ("\r\n", "\r", "", " ", "\n\n", "\\n", "\x1e", "\u2028")
QUOTES = ("> ", ">>> ", "    ", "| ", "2026-11-21T06:36:00.123Z ", '{"log":"', '      "', "<p>")


def _truncate(data: bytes, chance: Random) -> bytes:
    return data[: chance.randint(0, len(data))] if chance.random() < 0.5 else data[chance.randint(0, len(data)) :]


def _flip(data: bytes, chance: Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(chance.randint(1, 20) if data else 0):
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def _shuffle(data: bytes, chance: Random) -> bytes:
    lines = data.split(b"\n")
    chance.shuffle(lines)
    return b"\n".join(lines)


def _interleave(data: bytes, chance: Random) -> bytes:
    mine, other = data.split(b"\n"), chance.choice(samples.texts())[:20_000].split(b"\n")
    mixed = []
    while mine or other:
        source = mine if mine and (not other or chance.random() < 0.5) else other
        mixed.append(source.pop(0))
    return b"\n".join(mixed)


def _encode(data: bytes, chance: Random) -> bytes:
    return data.decode("utf-8", "replace").encode(chance.choice(ENCODINGS), "replace")


def _insert(data: bytes, chance: Random) -> bytes:
    hostile = chance.choice(HOSTILE).encode("utf-8", "surrogatepass")
    for _ in range(chance.randint(1, 3)):
        place = chance.randint(0, len(data))
        data = data[:place] + hostile + data[place:]
    return data


def _replace(data: bytes, chance: Random) -> bytes:
    """Something else in the place of one word, one digit, or the ends of lines, everywhere."""
    kind = chance.randrange(5)
    if kind < 2 and (words := data.split()):
        return data.replace(chance.choice(words), chance.choice(HOSTILE).encode())
    if kind < 4:
        return data.replace(str(chance.randrange(10)).encode(), chance.choice(DIGITS).encode())
    return data.replace(b"\n", chance.choice(LINE_ENDS).encode())


def _quote(data: bytes, chance: Random) -> bytes:
    start = chance.choice(QUOTES).encode()
    return b"\n".join(start + line for line in data.split(b"\n"))


def _narrow(data: bytes, chance: Random) -> bytes:
    """As a terminal wraps it."""
    width = chance.randint(1, 100)
    return b"\n".join(
        line[start : start + width] for line in data.split(b"\n") for start in range(0, max(len(line), 1), width)
    )


STRANGE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1e308, 1e-320, 10**30, 2**63, -(2**63) - 1, "", " ", [], {}, [[]], [None], {"is": 1}),
    *("\x1b[31m[red]<script>", "x" * 3000, "9" * 400, "1!2+x..y", "²", "0x10", "12.", "..", "99999999999.9", "\u202e"),
    *("known", "unknown", "2.x", "/", "../..", "\0", "a\nb", "%", "-", "NaN", "1e999"),
)
_OF_A_LIST = ("is", "schema", "source", "verdict", "severity", "outcome")  # hold words of a closed list


def _values(data: bytes, chance: Random) -> bytes:
    """Change, remove, repeat or rename a few values of a document; most keep their type, so that they are accepted."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(chance.randint(1, 2)):
        if places := list(_places(tree)):
            _change(*chance.choice(places), chance)
    return json.dumps(tree).encode()


def _change(holder: Any, key: Any, chance: Random) -> None:
    old, kind = holder[key], chance.randrange(8)
    alike = [one for one in STRANGE if type(one) is type(old)]
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = [old] * chance.randint(0, 50)
    elif kind == 2 and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif type(old) in (int, float) and kind < 6:
        changed = chance.choice((0, -1, 0.5, 1.001, 2, 1000, 1e-9, 1e9)) * old
        holder[key] = type(old)(changed) if math.isfinite(changed) else changed
    elif isinstance(old, str) and key not in _OF_A_LIST and kind < 6:  # passes every check of types
        words = old.encode("utf-8", "surrogatepass")[:2000]
        holder[key] = chance.choice(SHORT)(words, chance).decode("utf-8", "replace")
    else:
        holder[key] = deepcopy(chance.choice(alike if alike and kind < 7 else STRANGE))


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
            yield tree, key
            yield from _places(value)


def _json_as_text(data: bytes, chance: Random) -> bytes:
    place = chance.randint(0, len(data))
    return chance.choice(
        (
            data[:place] + data[chance.randint(0, len(data)) :],
            data.replace(b"null", b"NaN"),
            data.replace(b"0", b"Infinity", 1),
            data.replace(b'"findings"', b'"verdict": "ok", "findings"', 1),
            data[:place] + b"[" * 10_000 + data[place:],
            data + data,
        )
    )


Mutation = Callable[[bytes, Random], bytes]
SHORT: tuple[Mutation, ...] = (
    *(_truncate, _flip, _shuffle, _insert, _insert, _insert),
    *(_replace, _replace, _replace, _replace, _replace, _quote),
)
LONG: tuple[Mutation, ...] = (*SHORT, _interleave, _encode, _narrow)
MANIFEST: tuple[Mutation, ...] = (*SHORT, _narrow)
BINARY: tuple[Mutation, ...] = (_flip, _flip, _truncate, lambda data, chance: _flip(data[:1024], chance) + data[1024:])
TREE: tuple[Mutation, ...] = (_values,) * 12 + (_flip, _truncate, _encode, _json_as_text)
