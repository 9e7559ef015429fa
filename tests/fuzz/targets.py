"""Every reader of outside data: what real input of it looks like, how it is called, and how it may refuse.

A function of the package with one argument, a text or lines of one, is a target by itself (`plain`). What needs more is
a row of READERS below. tests/fuzz/test_targets.py names a reader that neither reaches.
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
from types import ModuleType
from typing import Any

import tfgpu_doctor
from tests.fuzz import calls, fleets, mutations, samples
from tfgpu_doctor.manifests import Kind, ManifestError, requirement
from tfgpu_doctor.matrix.loader import MatrixError
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.plan.target import TargetError
from tfgpu_doctor.records.report import ReportError

Step = tuple[int, int]  # number of a mutation, seed of its chance
CHEAP, MIDDLE, DEAR, WHOLE = 13_500, 3_000, 500, 400  # inputs of a target in the campaign
# where data of others is read: modules outside of these compute with what was read, or show it
PLACES = (
    *("records.versions", "records.report", "records.yaml_nodes", "records.printable", "matrix.parsing"),
    *("matrix.loader", "parsers", "manifests", "inference", "redact", "probes", "plan.target", "smoke.baseline"),
    *("bench.saved", "bench.runner.answers", "bench.devices", "bench.plans.sweep", "bench.cluster.membership"),
    *(f"fleet.{name}" for name in ("labels", "unwrapping", "gathering", "expectations", "baseline", "reading")),
)
_LINES, _TEXT, _BYTES = ("Sequence[Line]",), ("str", "str | None"), ("bytes",)


@dataclass(frozen=True)
class Target:
    """A reader with what it reads."""

    name: str
    call: Callable[[bytes], object]
    corpus: Callable[[], Sequence[bytes]] = samples.values
    mutations: Sequence[mutations.Mutation] = mutations.SHORT
    refuses: tuple[type[Exception], ...] = ()  # how it may say that the input is wrong; anything else is a defect
    inputs: int = CHEAP
    seconds: float = 0.5  # of processor time for one input, several times what the slowest takes

    def make(self, base: int, steps: Sequence[Step]) -> bytes:
        """One of the real inputs after some mutations."""
        corpus = self.corpus()
        return mutations.mutate(corpus[base % len(corpus)], steps, self.mutations)

    def chance(self, seed: str) -> bytes:
        """The same by chance."""
        chance = Random(f"{self.name} {seed}")
        steps = [(chance.randrange(1000), chance.getrandbits(30)) for _ in range(chance.randint(1, 3))]
        return self.make(chance.getrandbits(30), steps)


def modules() -> Iterator[ModuleType]:
    """Every module of PLACES."""
    for info in pkgutil.walk_packages(tfgpu_doctor.__path__, "tfgpu_doctor."):
        name = info.name.removeprefix("tfgpu_doctor.")
        if any(name == place or name.startswith(f"{place}.") for place in PLACES):
            yield importlib.import_module(info.name)


def functions() -> Iterator[tuple[str, Callable[..., Any], str, int]]:
    """Every public function that takes text, bytes or lines first: name, itself, annotation, arguments it needs."""
    for module in modules():
        for name, value in vars(module).items():
            if name.startswith("_") or not inspect.isfunction(value) or value.__module__ != module.__name__:
                continue
            parameters = list(inspect.signature(value).parameters.values())
            needed = sum(one.default is one.empty and one.kind != one.VAR_KEYWORD for one in parameters)
            annotation = str(parameters[0].annotation).strip("'\"") if parameters else ""
            if annotation in (*_LINES, *_TEXT, *_BYTES):
                yield f"{module.__name__.removeprefix('tfgpu_doctor.')}.{name}", value, annotation, needed


def plain() -> Iterator[Target]:
    """The functions of one argument. What takes a path is no reader of a text: a row below calls it."""
    for name, function, annotation, needed in functions():
        if needed != 1 or is_of_a_file(function):
            continue
        if annotation in _LINES:
            yield Target(name, _of_lines(function), samples.texts, mutations.LONG, inputs=MIDDLE, seconds=2.0)
        else:
            call = function if annotation in _BYTES else _of_text(function)
            yield Target(name, call, partial(samples.values, name), refuses=_documented(function))


def is_of_a_file(function: Callable[..., Any]) -> bool:
    """Whether its first argument is no data, but a place where data lies, or lines of the driver's children."""
    probe = function.__module__.startswith("tfgpu_doctor.probes.")
    return probe and next(iter(inspect.signature(function).parameters)) not in (
        "text",
        "line",
        "log",
        "osrelease",
        "stderr",
    )


def _of_lines(function: Callable[..., Any]) -> Callable[[bytes], object]:
    return lambda data: _spent(function(lines.read([data]).lines))


def _of_text(function: Callable[..., Any]) -> Callable[[bytes], object]:
    return lambda data: _spent(function(data.decode("utf-8", "replace")))


def _spent(found: object) -> object:
    """What a generator yields, too."""
    return list(found) if isinstance(found, Iterator) else found


def _documented(function: Callable[..., Any]) -> tuple[type[Exception], ...]:
    """What its description says that it raises."""
    words = re.findall(r"\w+Error", (function.__doc__ or "").partition("Raises")[2])
    raised = [
        vars(importlib.import_module(function.__module__)).get(word) or vars(builtins).get(word) for word in words
    ]
    return tuple(one for one in raised if one)


# kind → names of files, where the name tells which of several forms it is
MANIFESTS: dict[Kind, tuple[str, ...]] = {
    **dict.fromkeys(("requirements", "pyproject", "dockerfile", "conda", "compose"), ("file",)),
    "kubernetes": ("templates/file.yaml",),
    "python": (".tool-versions", ".python-version"),
    "singularity": ("train.def",),
    "notebook": ("train.ipynb",),
    "workflow": ("workflow.yml",),
}


def rows() -> Iterator[Target]:
    """The readers that need more than a text, and the whole ways of texts and files."""
    tree = mutations.TREE
    for kind, names in MANIFESTS.items():
        for name in names:
            shown = kind if len(names) == 1 else name
            yield Target(
                *(f"check of {shown}", calls.manifest(kind, name), partial(samples.manifests, shown)),
                mutations=mutations.MANIFEST,
                refuses=(ManifestError,),
                inputs=MIDDLE,
                seconds=2.0,
            )
    yield Target("explain", calls.explain, samples.texts, mutations.LONG, inputs=WHOLE, seconds=8.0)
    yield Target("explain in pieces", calls.explain_in_pieces, samples.texts, mutations.LONG, inputs=WHOLE, seconds=8.0)
    yield Target("a page or a notebook", calls.wrapped, samples.texts, mutations.LONG, inputs=MIDDLE, seconds=2.0)
    refused = {"refuses": (ReportError,)}
    yield Target("doctor --from", calls.report, samples.reports, tree, inputs=WHOLE, seconds=8.0, **refused)
    yield Target("compare of reports", calls.compared, samples.reports, tree, inputs=WHOLE, seconds=8.0, **refused)
    yield Target("bench show", calls.bench, samples.results, tree, inputs=DEAR, seconds=2.0, **refused)
    yield Target(
        "bench show --html", calls.bench_page, samples.results, tree, inputs=WHOLE // 5, seconds=20.0, **refused
    )
    yield Target("smoke --baseline", calls.baseline, samples.baselines, tree, inputs=DEAR, seconds=2.0, **refused)
    yield Target("fleet", fleets.judged, fleets.results, tree, inputs=WHOLE, seconds=8.0)
    yield Target("fleet of a log", fleets.gathered, fleets.logs, mutations.LONG, inputs=MIDDLE, seconds=2.0)
    yield Target("fleet --baseline", fleets.against, fleets.baselines, tree, inputs=DEAR, seconds=2.0, **refused)
    yield Target("worker answers", calls.answers, samples.answers, tree, inputs=MIDDLE, seconds=2.0)
    yield Target("--matrix", calls.layer, samples.layers, tree, (MatrixError,), DEAR, 2.0)
    yield Target("a machine", calls.machine, samples.machines, tree, inputs=MIDDLE, seconds=2.0)
    yield Target("an ELF file", calls.elf, samples.libraries, mutations.BINARY, seconds=2.0)
    yield Target("driver children", calls.driver_lines, samples.driver_lines, tree)
    yield Target("probe events", calls.events, samples.events, tree)
    yield Target("Jupyter kernel", calls.kernel, samples.kernels, tree)
    yield Target("ldconfig -p", calls.cache_of_the_loader, samples.caches)
    yield Target("a distribution", calls.distribution, samples.distributions, tree)
    yield Target("a GPU's name", calls.gpu_name, inputs=DEAR)
    yield Target("--compute-capability", calls.capability, samples.capabilities, refuses=(TargetError,))
    yield Target("redaction", calls.redacted, samples.texts, mutations.LONG, inputs=MIDDLE, seconds=2.0)
    yield Target("redaction of a value", calls.redacted, samples.private)
    yield Target("escaping", calls.escaped)
    for read in (requirement.pip_requirement, requirement.conda_requirement, requirement.exported_requirement):
        yield Target(read.__name__, calls.requirement(read), samples.requirements, refuses=(ValueError,))
    yield Target("a folder that is copied", calls.copied, samples.commands)
    yield Target("a list of packages", calls.listed, partial(samples.manifests, "requirements"), mutations.MANIFEST)
    yield Target("a template", calls.template, partial(samples.manifests, "kubernetes"), mutations.MANIFEST)
    yield Target("shell commands", calls.shell, samples.commands)
    yield Target("version against specifier", calls.within, samples.comparisons, refuses=(ValueError,))
    yield Target("pci.ids", calls.pci_ids, samples.pci_ids)
    yield Target("image reference", calls.image)


@cache
def targets() -> dict[str, Target]:
    """All of them by name."""
    return {one.name: one for one in (*rows(), *plain())}
