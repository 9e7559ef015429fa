"""Every reader of outside data: what real input of it looks like, how it is called, and how it may refuse.

A function of the package with one argument, a text or lines of one, is a target by itself. Whole ways are rows below.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from typing import Any

import tfgpu_doctor
from tests.fuzz import calls, mutations, samples
from tfgpu_doctor.facts.report import ReportError
from tfgpu_doctor.matrix.loader import MatrixError
from tfgpu_doctor.parsers import lines

DAILY, MIDDLE, DEAR = 8, 3, 1  # inputs of a target every day
# where data of others is read: modules outside of these compute with what was read, or show it
PLACES = (
    *("facts.versions", "facts.report", "facts.yaml_nodes", "facts.printable", "matrix.parsing", "parsers"),
    *("manifests", "redact", "probes", "plan.target", "bench.devices", "bench.plans.matpow"),
    "bench.cluster",
)
_LINES, _TEXT, _BYTES = ("Sequence[Line]",), ("str", "str | None"), ("bytes",)
# a probe's function of a text takes one by one of these names; another first argument is a place where data lies
_TEXTS_OF_PROBES = ("text", "line", "log", "osrelease", "stderr")


@dataclass(frozen=True)
class Target:
    """A reader with what it reads."""

    name: str
    call: Callable[[bytes], object]
    corpus: Callable[[], Sequence[bytes]] = samples.values
    mutations: Sequence[mutations.Mutation] = mutations.SHORT
    refuses: tuple[type[Exception], ...] = ()  # how it may say that the input is wrong; anything else is a defect
    inputs: int = DAILY
    seconds: float = 0.5  # of processor time for one input, several times what the slowest takes

    def chance(self, seed: str) -> bytes:
        """Return one of the real inputs after up to three mutations, by chance."""
        chance = Random(f"{self.name} {seed}")
        data = chance.choice(self.corpus())
        longest = 1 << 20 if self.mutations in (mutations.TREE, mutations.BINARY) else samples.LARGEST
        for _ in range(chance.randint(1, 3)):
            data = chance.choice(self.mutations)(data, chance)[:longest]
        return data


def functions() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Return every public function of one argument that takes text, bytes or lines: name, itself, annotation."""
    for info in pkgutil.walk_packages(tfgpu_doctor.__path__, "tfgpu_doctor."):
        place = info.name.removeprefix("tfgpu_doctor.")
        if not any(place == one or place.startswith(f"{one}.") for one in PLACES):
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            if name.startswith("_") or not inspect.isfunction(value) or value.__module__ != info.name:
                continue
            parameters = list(inspect.signature(value).parameters.values())
            needed = sum(one.default is one.empty and one.kind != one.VAR_KEYWORD for one in parameters)
            of_a_place = place.startswith("probes.") and parameters and parameters[0].name not in _TEXTS_OF_PROBES
            annotation = str(parameters[0].annotation).strip("'\"") if parameters else ""
            if needed == 1 and not of_a_place and annotation in (*_LINES, *_TEXT, *_BYTES):
                yield f"{place}.{name}", value, annotation


def plain() -> Iterator[Target]:
    """Return a target for each of them."""
    for name, function, annotation in functions():
        if annotation in _LINES:
            yield Target(name, _of_lines(function), samples.texts, mutations.LONG, inputs=MIDDLE, seconds=2.0)
        else:
            of_values, refuses = partial(samples.values, name), _documented(function)
            yield Target(name, function if annotation in _BYTES else _of_text(function), of_values, refuses=refuses)


def _of_lines(function: Callable[..., Any]) -> Callable[[bytes], object]:
    return lambda data: _spent(function(lines.read([data]).lines))


def _of_text(function: Callable[..., Any]) -> Callable[[bytes], object]:
    return lambda data: _spent(function(data.decode("utf-8", "replace")))


def _spent(found: object) -> object:
    return list(found) if isinstance(found, Iterator) else found


def _documented(function: Callable[..., Any]) -> tuple[type[Exception], ...]:
    """Return what its description says that it raises."""
    words = re.findall(r"\w+Error", (function.__doc__ or "").partition("Raises")[2])
    raised = [
        vars(importlib.import_module(function.__module__)).get(word) or vars(builtins).get(word) for word in words
    ]
    return tuple(one for one in raised if one)


def rows() -> Iterator[Target]:
    """Return the whole ways of texts and files."""
    tree, long, short = mutations.TREE, mutations.LONG, mutations.SHORT
    refused = (ReportError,)
    for name in samples.MANIFESTS:
        read = partial(calls.manifest, name)
        yield Target(f"check of {name}", read, partial(samples.manifests, name), mutations.MANIFEST, (), DEAR, 4.0)
    yield Target("explain", calls.explain, samples.texts, long, (), DEAR, 8.0)
    yield Target("a page or a notebook", calls.wrapped, samples.texts, long, (), MIDDLE, 2.0)
    yield Target("a saved report", calls.report, samples.reports, tree, refused, DEAR, 8.0)
    yield Target("a saved result", calls.bench, samples.results, tree, refused, DEAR, 8.0)
    yield Target("fleet", calls.fleet, samples.fleets, long, (), DEAR, 8.0)
    yield Target("worker answers", calls.answers, samples.answers, tree, (), MIDDLE, 2.0)
    yield Target("--matrix", calls.layer, samples.layers, tree, (MatrixError,), DEAR, 2.0)
    yield Target("a machine", calls.machine, samples.machines, tree, (), MIDDLE, 2.0)
    yield Target("an ELF file", calls.elf, samples.libraries, mutations.BINARY, seconds=2.0)
    yield Target("redaction", calls.redacted, samples.texts, long, (), MIDDLE, 2.0)
    yield Target("redaction of a value", calls.redacted, samples.private, short)
    yield Target("escaping", calls.escaped)


@cache
def targets() -> tuple[Target, ...]:
    """Return all of them."""
    return (*rows(), *plain())
