"""Versions as conda and Poetry write them → PEP 440."""

from __future__ import annotations

import re
from collections.abc import Callable

from packaging.specifiers import SpecifierSet
from packaging.version import Version

_NUMBER = re.compile(r"\d+(?:\.\d+)*")


def conda_specifier(version: str) -> str:
    """conda's "=2.4" is 2.4 and its patches, "==2.4" or "2.4" that alone, "3.8|3.9" from the lowest to the highest.

    Raises ValueError: it has no counterpart.
    """
    return _either(re.sub(r"\s", "", version), _one_conda)


def poetry_specifier(version: str) -> str:
    """Poetry's "^2.15" is >=2.15,<3, "~2.15" is >=2.15,<2.16, a bare "2.15.1" that version.

    Raises ValueError: it has no counterpart.
    """
    return _either(version.strip().replace("||", "|"), _one_poetry)


def _either(text: str, one: Callable[[str], str]) -> str:
    alternatives = [_valid(",".join(filter(None, map(one, _parts(part))))) for part in text.split("|")]
    if len(alternatives) == 1:
        return alternatives[0]
    bounds = [_bounds(SpecifierSet(each)) for each in alternatives]
    lowest = min((low for low, _ in bounds), key=Version)
    highest = max((high for _, high in bounds), key=Version)
    return f">={lowest},<{highest}"


def _parts(text: str) -> list[str]:
    return [part.strip() for part in re.split(r",|(?<=[\d*])\s+(?=[<>=!~^])", text)]


def _valid(text: str) -> str:
    try:
        SpecifierSet(text)
    except ValueError as error:
        raise ValueError("not a valid version specifier") from error
    return text


def _bounds(wanted: SpecifierSet) -> tuple[str, str]:
    """The first version that is admitted and the first above. Raises ValueError: there is no such pair."""
    found = {each.operator: each.version for each in wanted}
    if set(found) == {"=="} and len(wanted) == 1 and _NUMBER.fullmatch(number := found["=="].removesuffix(".*")):
        return number, _next(number, -1)
    if set(found) == {">=", "<"} and len(wanted) == 2:
        return found[">="], found["<"]
    raise ValueError("alternatives that are not ranges")


def _one_conda(part: str) -> str:
    if part.lstrip("=") in ("", "*") and not part.endswith("="):
        return ""
    if found := re.fullmatch(r"={0,2}(\d+(?:\.\d+)*)\.?\*", part):
        return f"=={found[1]}.*"
    if found := re.fullmatch(r"=(\d+(?:\.\d+)*)", part):
        return f"=={found[1]}.*"
    if found := re.fullmatch(r"={0,2}([\w.+!]+)", part):
        return f"=={found[1]}" if _is_version(found[1]) else f"==={found[1]}"  # "9b", "1.1.1w"
    return part


def _one_poetry(part: str) -> str:
    if part in ("", "*"):
        return ""
    found = re.fullmatch(r"(\^|~(?!=)|==?|)\s*v?(\d+(?:\.\d+)*)(?!\.?\d)(\.\*)?([\w.+-]*)", part)
    if found is None:
        return part
    sign, number, star, rest = found.groups()
    count = len(number.split("."))
    if sign == "^":
        fixed = next((index for index, digit in enumerate(number.split(".")) if int(digit)), count - 1)
        return f">={number}{rest},<{_next(number, fixed)}"
    if sign == "~":
        return f">={number}{rest},<{_next(number, min(1, count - 1))}"
    return f"=={number}{star or ''}{rest}"


def _next(number: str, place: int) -> str:
    """The number with one more at a place, and nothing behind it."""
    digits = number.split(".")
    kept = digits[: len(digits) + place if place < 0 else place]
    return ".".join([*kept, str(int(digits[place]) + 1)])


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except ValueError:
        return False
    return True
