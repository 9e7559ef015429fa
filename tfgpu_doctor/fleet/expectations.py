"""`--expect gpus=8,driver=580`: what must hold on every node. Pure.

>>> [one.text for one in parse("gpus=8, driver>=580.65,<590, ecc=on")]
['gpus=8', 'driver>=580.65', 'driver<590', 'ecc=on']
>>> parse("drivr=580")
Traceback (most recent call last):
    ...
ValueError: unknown name 'drivr'. Did you mean driver? Known: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.fleet.differences import Difference
from tfgpu_doctor.fleet.nodes import Machine
from tfgpu_doctor.fleet.values import ABSENT, Value, compared
from tfgpu_doctor.records.report import Severity
from tfgpu_doctor.records.similar import did_you_mean
from tfgpu_doctor.records.units import GIB, KIB, MIB, TIB

_PART = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*)?\s*(?P<operator>>=|<=|==|!=|=|<|>)"
    r"\s*(?P<wanted>[<>!=]=?|)\s*(?P<value>.+)"
)
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_ROOM = 0.07  # "80 GB" is what is printed on a card with 79.6 GiB, and with 85.9 × 10^9 bytes
_ON, _OFF = {"on", "yes", "true", "1", "enabled"}, {"off", "no", "false", "0", "disabled"}
_PACKAGES = re.compile(r"(?:numpy|keras|protobuf|ml-dtypes|tf-keras|(?:nvidia|tensorflow|tf)-[\w.-]+)\Z")


class _Name(NamedTuple):
    """What a name means."""

    id: str  # of a fact, or of a field of GPUs
    test: Callable[[str, str, Value], bool]  # operator, wanted value, found value


@dataclass(frozen=True)
class Expectation:
    """One thing that must hold."""

    text: str  # "driver=580"
    name: str
    operator: str
    wanted: str


def parse(text: str) -> tuple[Expectation, ...]:
    """Read what must hold, separated by commas. Raises ValueError: the message says what is wrong with it."""
    found: list[Expectation] = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part[:100]!r}: write NAME=VALUE, for example gpus=8,driver=580,ecc=on")
        name = (match["name"] or (found[-1].name if found else "")).lower().replace("_", "-")
        operator = match["wanted"] or match["operator"]
        if operator not in _OPERATORS:
            raise ValueError(f"{part[:100]!r}: unknown comparison {operator}; known: {' '.join(_OPERATORS)}")
        if not _known(name):
            near = did_you_mean(name, NAMES)
            raise ValueError(
                f"unknown name {name[:60] or part[:60]!r}.{near} Known: {', '.join(NAMES)}, and "
                "names of packages, such as numpy and nvidia-cudnn-cu12"
            )
        operator = "=" if operator == "==" else operator
        one = Expectation(f"{name}{operator}{match['value'].strip()}", name, operator, match["value"].strip())
        _checked(one)
        found.append(one)
    if not found:
        raise ValueError("nothing is expected: write NAME=VALUE, for example gpus=8,driver=580")
    return tuple(found)


def _checked(one: Expectation) -> None:
    """Refuse a value that cannot be compared: a wrong word now is better than an error on each node."""
    test = _name(one.name).test
    try:
        test(one.operator, one.wanted, Value("0", 0.0))
    except ValueError as error:
        raise ValueError(f"{one.text[:100]}: {error}") from error
    if one.name == "gpu" and one.wanted.isdecimal() and len(one.wanted) < 3:
        raise ValueError(f"{one.text}: gpu is the name of the GPUs; for their number write gpus={one.wanted}")


def unmet(expectation: Expectation, machines: tuple[Machine, ...]) -> Iterator[Difference]:
    """The nodes on which it does not hold, and those on which that is not known."""
    name = _name(expectation.name)
    wrong, unknown = [], []
    for machine in machines:
        found = _found(name.id, machine)
        if not found:
            unknown.append((machine, f"{expectation.name}: unknown"))
        elif not _holds(expectation, name, found):
            shown = ", ".join(dict.fromkeys(one.text for one in found))
            wrong.append((machine, f"{expectation.name} {shown}"))
    field = compared("gpus" if name.id == "gpus" else name.id)
    for members, grave in ((wrong, True), (unknown, False)):
        if members:
            title = f"{expectation.text} does not hold" if grave else f"whether {expectation.text} holds is not known"
            yield Difference(
                id=name.id if grave else f"{name.id}.unknown",
                kind="expectation",
                layer=field.layer,
                title=title,
                expected=_plain(expectation),
                source="--expect",
                members=tuple(members),
                act=field.group,
                cause="it was asked for on every node" if grave else "the reports of these nodes do not say",
                severity=Severity.ERROR if grave else Severity.WARNING,
            )


def _plain(one: Expectation) -> str:
    if _name(one.name).test is _switch:
        return "on" if (one.wanted.lower() in _ON) == (one.operator == "=") else "off"
    return one.wanted if one.operator == "=" else f"{one.operator} {one.wanted}"


def _holds(one: Expectation, name: _Name, found: list[Value]) -> bool:
    """Of every GPU; of several toolkits and cuDNNs, one is enough."""
    several = any if name.id in ("cuda.toolkits", "cudnn.installed") and one.operator != "!=" else all
    return several(name.test(one.operator, one.wanted, value) for value in found)


def _found(identity: str, machine: Machine) -> list[Value]:
    """Return what a node has of a fact; nothing where it is unknown."""
    gpus = machine.main.gpus
    if identity == "gpus":
        return [] if gpus is None else [Value(str(len(gpus)), float(len(gpus)))]
    if identity.startswith("gpus."):
        return [gpu[identity] for gpu in gpus or ()] if all(identity in gpu for gpu in gpus or ()) else []
    is_package = identity.startswith("python.packages.")
    values = machine.main.facts.get("python.packages" if is_package else identity)
    if values is None:
        return []
    if is_package:
        return [values.get(identity, Value(ABSENT))]
    return list(values.values()) or [Value(ABSENT)]


# ------------------------------------------------------------------------------------------- how values compare


def _number(operator: str, wanted: str, found: Value) -> bool:
    try:
        number = float(wanted)
    except ValueError:
        raise ValueError(f"{wanted[:60]!r} is not a number; write it without a unit") from None
    if found.number is None:
        return operator == "!="
    return _OPERATORS[operator](found.number, number)


def _size(operator: str, wanted: str, found: Value) -> bool:
    """Sizes as they are printed on hardware, with room for what is lost."""
    match = _SIZE.fullmatch(wanted)
    if match is None:
        raise ValueError(f"{wanted[:60]!r} is not a size such as 80GB")
    size = float(match[1]) * {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB}[match[2].lower()]
    if found.number is None:
        return operator == "!="
    near = abs(found.number - size) <= _ROOM * size
    if operator in ("=", "!="):
        return near == (operator == "=")
    return (near and "=" in operator) or (not near and _OPERATORS[operator](found.number, size))


def _switch(operator: str, wanted: str, found: Value) -> bool:
    if wanted.lower() not in _ON | _OFF or operator not in ("=", "!="):
        raise ValueError("it is on or off")
    same = found.text == ("on" if wanted.lower() in _ON else "off")
    return same == (operator == "=")


def _words(operator: str, wanted: str, found: Value) -> bool:
    """A part of the text: "H200" of "NVIDIA H200"."""
    if operator not in ("=", "!="):
        raise ValueError("it is a name, which is = or != another one")
    return (wanted.lower() in found.text.lower()) == (operator == "=")


def _version(operator: str, wanted: str, found: Value) -> bool:
    """ "580" is a whole branch, "580.65" what begins so; all else as pip orders versions."""
    try:
        specifier = SpecifierSet(f"{operator}{wanted}") if operator not in ("=", "!=") else None
    except ValueError:
        raise ValueError(f"{wanted[:60]!r} is not a version such as 580.65") from None
    if specifier is None:
        own, asked = re.split(r"[.+-]", found.text), re.split(r"[.+-]", wanted.removesuffix(".*"))
        same = [one.lstrip("0") for one in own[: len(asked)]] == [one.lstrip("0") for one in asked]
        return same == (operator == "=")
    try:
        return specifier.contains(Version(found.text), prereleases=True)
    except ValueError:
        numbers = re.match(r"\d{1,9}(?:\.\d{1,9}){0,8}", found.text)  # a kernel: "6.8.0-45-generic"
        return numbers is not None and specifier.contains(Version(numbers[0]), prereleases=True)


_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "=": lambda found, wanted: found == wanted,
    "==": lambda found, wanted: found == wanted,
    "!=": lambda found, wanted: found != wanted,
    ">=": lambda found, wanted: found >= wanted,
    "<=": lambda found, wanted: found <= wanted,
    ">": lambda found, wanted: found > wanted,
    "<": lambda found, wanted: found < wanted,
}
NAMES: dict[str, _Name] = {
    "gpus": _Name("gpus", _number),
    "gpu": _Name("gpus.name", _words),
    "compute-capability": _Name("gpus.compute_capability", _version),
    "memory": _Name("gpus.memory_total", _size),
    "power": _Name("gpus.power_limit", _number),
    "pcie-width": _Name("gpus.pcie_width", _number),
    "pcie-generation": _Name("gpus.pcie_generation_max", _number),
    "ecc": _Name("gpus.ecc_mode", _switch),
    "mig": _Name("gpus.mig_mode", _switch),
    "persistence": _Name("gpus.persistence_mode", _switch),
    "driver": _Name("driver.version", _version),
    "cuda": _Name("cuda.toolkits", _version),
    "cudnn": _Name("cudnn.runtime", _version),
    "tensorflow": _Name("tensorflow.version", _version),
    "python": _Name("python.version", _version),
    "kernel": _Name("host.kernel", _version),
    "os": _Name("host.distribution", _words),
    "cpu": _Name("host.cpu_model", _words),
    "cpus": _Name("host.cpus", _number),
    "host-memory": _Name("host.memory", _size),
    "container": _Name("host.container", _words),
}


def _known(name: str) -> bool:
    return name in NAMES or _PACKAGES.match(name) is not None


def _name(name: str) -> _Name:
    return NAMES.get(name) or _Name(f"python.packages.{name}", _version)
