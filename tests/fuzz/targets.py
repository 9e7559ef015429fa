"""Every reader of outside data: what real input of it looks like, how it is called, and how it may refuse.

A function of the package with one argument, a text or lines of one, is a target by itself. Whole ways are rows below:
how the data is read, through to what is shown of it, with everything that must hold whatever the data is.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import io
import json
import os
import pkgutil
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import msgspec

import tfgpu_doctor
from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.samples import CPUS, result
from tests.bench.test_runner import CPU
from tests.bench.test_runner import runs as measured_runs
from tests.cli.runner import tfgpu
from tests.fuzz import mutations, samples
from tests.guard import guarded
from tfgpu_doctor.bench.results import BenchResult, load_result
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.facts.facts import value_or
from tfgpu_doctor.facts.report import Report, ReportError, exit_code, load_report
from tfgpu_doctor.matrix.loader import Matrix, MatrixError, layered
from tfgpu_doctor.matrix.loader import parse as parse_matrix
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import diagnose, make_report
from tfgpu_doctor.probes import cuda, driver, elsewhere, host, loader, tensorflow_probe
from tfgpu_doctor.redact.redaction import Redactor, redact
from tfgpu_doctor.render.console import clean, console_for
from tfgpu_doctor.render.formats import renderer
from tfgpu_doctor.render.markdown import LONGEST, escape

SCHEMA = Path(tfgpu_doctor.__file__).parent / "facts" / "schemas" / "report-1.json"
SECONDS = 20.0  # of processor time for 30 kB at most; usual is a tenth of one
_FENCE = re.compile(r"^(`{3,})[a-z]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_FOLDER = tempfile.TemporaryDirectory(prefix="tfgpu-fuzz-", dir=_MEMORY)  # is removed at the end
_OUR_TAGS = re.compile(r"</?(?:details|summary|sub)>|<!-- -->|<https://[^<>\s]+>")


@cache
def matrix() -> Matrix:
    """Return the bundled matrix, read once."""
    return Matrix.load()


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _tree(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def explain(data: bytes) -> Report:
    """Explain a text, in one piece or as it comes through a pipe, and hold what comes out against every promise."""
    chunk = (1 << 20, 4096, 7)[len(data) % 3]
    with guarded(SECONDS, repr(data[:80])), warnings.catch_warnings():
        warnings.simplefilter("error")
        excerpt = lines.read(data[start : start + chunk] for start in range(0, len(data), chunk))
        assert all(len(line.text) <= lines.LONGEST for line in excerpt.lines)
        assert not any(set(line.text) & {"\n", "\r", "\x1b", "\0"} for line in excerpt.lines)
        report = make_report(text_to_facts.read(excerpt), matrix(), source="text", timings={})
        assert exit_code(report, "error") in (0, 1, 3)
        holds(report, validate=len(data) % 8 == 0)
    return report


def holds(report: Report, *, validate: bool) -> None:
    """Hold what any report must, whoever wrote it."""
    encoded = report.to_json()
    again = load_report(encoded, "the report")
    assert again == report, "JSON and back is the identity"
    found = diagnose(again.facts, matrix())
    assert (found.findings, found.undetermined) == (report.findings, report.undetermined), "the same findings again"
    if validate:
        error = next(iter(_validator().iter_errors(json.loads(encoded))), None)
        assert error is None, error.message[:500] if error else ""
    once = redact(report)
    assert redact(once) == once, "redacting twice changes nothing"
    for one in (report, once):
        out = io.StringIO()
        renderer("text", "report", {"detail": "full"})(one, console_for(out))
        assert out.getvalue().replace("\n", "").isprintable(), "no control character, no escape sequence"
        _is_plain(renderer("markdown", "report", {})(one))


def _is_plain(page: str) -> None:
    assert len(page) <= LONGEST
    assert page.replace("\n", "").isprintable(), "no control character"
    left = re.search(r"(?<!\\)<.{0,40}", _OUR_TAGS.sub("", _FENCE.sub("", page)))
    assert left is None, f"no tag from outside: {left[0] if left else ''}"


def wrapped(data: bytes) -> object:
    """Unwrap a page, a notebook or a log."""
    text = _text(data)
    kinds = lines.is_page(data), lines.is_notebook(data)
    return kinds, lines.unwrap(text, True), lines.unwrap(text, False)


def _command(*words: str) -> None:
    """Run the command line in this process: it answers or refuses, in plain text, and never with a traceback."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = tfgpu(*words)
    assert done.returncode in (0, 1, 2, 3), done.stderr[-2000:]
    for stream in (done.stdout, done.stderr):
        assert "Traceback (most" not in stream and "report this defect" not in stream.lower(), stream[-2000:]
        assert stream.replace("\n", "").isprintable(), "no control character, no escape sequence"


def _file(name: str, data: bytes) -> str:
    path = Path(_FOLDER.name, "files", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def report(data: bytes) -> Report:
    """Judge a saved report anew, and show it in every format, also beside a healthy one."""
    old = load_report(data, "r.json")
    source: Any = "text" if old.source == "text" else "report"
    new = make_report(old.facts, matrix(), source=source, timings=old.timings)
    holds(new, validate=False)
    file, healthy = _file("r.json", data), _file("healthy.json", samples.reports()[0])
    _command("doctor", "--from", file, "--format", ("junit", "html", "github", "prometheus")[len(data) % 4])
    _command("compare", *((file, healthy) if len(data) % 2 else (healthy, file)))
    return new


def bench(data: bytes) -> BenchResult:
    """Read a saved result, and compare it with another."""
    mine = load_result(data, "r.json")
    assert load_result(mine.to_json(), "again") == mine, "JSON and back is the identity"
    file, other = _file("b.json", data), _file("other.json", samples.results()[0])
    _command("compare", file, other, "--format", ("text", "markdown", "html", "junit", "prometheus")[len(data) % 5])
    return mine


def manifest(name: str, data: bytes) -> None:
    """Check a file of a project."""
    _command("check", _file(name, data), "--gpu", "RTX 4090", "--driver", "535.113.01")


def fleet(data: bytes) -> None:
    """Read a log of a fleet."""
    _command("fleet", _file("fleet.jsonl", data))


def layer(data: bytes) -> None:
    """Lay a matrix of the user's over ours."""
    above = parse_matrix(_text(data), "m.yaml")
    Matrix(layered(matrix().data, above), "m.yaml", "x").check()


def machine(data: bytes) -> object:
    """Ask every probe that reads files about a machine that is a folder."""
    root = Path(_FOLDER.name, "machine")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    tree = _tree(data)
    for path, text in tree.items() if isinstance(tree, dict) else ():
        # what a mutation made of the names is left out, since it could lie anywhere
        if re.fullmatch(r"(?!.*\.\.)[\w./:-]{1,200}", path) and isinstance(text, str):
            file = root / path.lstrip("/")
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text.encode("utf-8", "surrogatepass"))
            except OSError:  # a file in the place of a folder, or the other way round
                continue
    at = str(root)
    toolkits = cuda.examine(at, {}, "/env")
    site = [str(root / "env/lib/python3.10/site-packages")]
    found = (
        host.examine(at, {}),
        *(host.cpu_quota(at), host.memory_limit(at), host.oom_kills(at), host.gpus(at, wsl=False)),
        driver.installed_driver(at),
        driver.xid_events(data.decode("utf-8", "replace")),
        cuda.examine_cudnn((), site_packages=site, toolkits=value_or(toolkits.toolkits, ()), environ={}, root=at),
        cuda.examine_xla_files(f"{site[0]}/tensorflow", "2.13.0", {}, root=at),
        elsewhere.examine_kernels({}, str(root / "env")),
        elsewhere.describe(f"{at}/env/bin/python", f"{at}/env", "PATH"),
        tensorflow_probe.distribution(f"{site[0]}/tensorflow-2.13.0.dist-info"),
    )
    assert json.loads(msgspec.json.encode(found[0]))
    return found


def elf(data: bytes) -> object:
    """Read a shared library, or what is left of one."""
    return loader.read_elf(_file("library.so", data))


class _Odd(FakeWorker):
    """Answers to `verify` as a mutation wants it."""

    def __init__(self, tree: dict[str, Any]) -> None:
        found = tree.get("verify")
        super().__init__(Clock(), 0.1, lambda verb, _: found if verb == "verify" and isinstance(found, dict) else None)


def answers(data: bytes) -> BenchResult:
    """Turn what a benchmark's worker says of its results into a result that is read again."""
    tree = _tree(data) if b"Infinity" not in data and b"NaN" not in data else {}  # as the reader of its answers
    worker = _Odd(tree if isinstance(tree, dict) else {})
    try:
        found = result(*measured_runs([CPU], [worker], cpus=CPUS))
    except WorkerError:
        found = result()
    assert load_result(found.to_json(), "r.json") == found, "what is written is read again"
    return found


def redacted(data: bytes) -> None:
    """Remove what is private; twice changes nothing."""
    text = _text(data)
    once = Redactor((text,)).text(text)
    assert Redactor((once,)).text(once) == once, "redacting twice changes nothing"


def escaped(data: bytes) -> None:
    """Escape a text on its way to a terminal, and to Markdown."""
    text = _text(data)
    assert clean(text).isprintable() and clean(clean(text)) == clean(text)
    assert not re.search(r"(?<!\\)<(?!!-- -->)", escape(text))


DAILY, MIDDLE, DEAR = 8, 3, 1  # inputs of a target every day
# where data of others is read: modules outside of these compute with what was read, or show it
PLACES = (
    *("facts.versions", "facts.report", "facts.yaml_nodes", "facts.printable", "matrix.parsing", "parsers"),
    *("manifests", "redact", "probes", "plan.target", "bench.devices", "bench.plans.matpow"),
    "bench.cluster",
)
_OF_OURS = ("parsers.messages.load",)  # reads a file of the package, which others do not write
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
            of_others = f"{place}.{name}" not in _OF_OURS and not of_a_place
            if needed == 1 and of_others and annotation in (*_LINES, *_TEXT, *_BYTES):
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
        read = partial(manifest, name)
        yield Target(f"check of {name}", read, partial(samples.manifests, name), mutations.MANIFEST, (), DEAR, 4.0)
    yield Target("explain", explain, samples.texts, long, (), DEAR, 8.0)
    yield Target("a page or a notebook", wrapped, samples.texts, long, (), MIDDLE, 2.0)
    yield Target("a saved report", report, samples.reports, tree, refused, DEAR, 8.0)
    yield Target("a saved result", bench, samples.results, tree, refused, DEAR, 8.0)
    yield Target("fleet", fleet, samples.fleets, long, (), DEAR, 8.0)
    yield Target("worker answers", answers, samples.answers, tree, (), MIDDLE, 2.0)
    yield Target("--matrix", layer, samples.layers, tree, (MatrixError,), DEAR, 2.0)
    yield Target("a machine", machine, samples.machines, tree, (), MIDDLE, 2.0)
    yield Target("an ELF file", elf, samples.libraries, mutations.BINARY, seconds=2.0)
    yield Target("redaction", redacted, samples.texts, long, (), MIDDLE, 2.0)
    yield Target("redaction of a value", redacted, samples.private, short)
    yield Target("escaping", escaped)


@cache
def targets() -> tuple[Target, ...]:
    """Return all of them."""
    return (*rows(), *plain())
