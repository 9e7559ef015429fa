"""Real input of every reader, as it lies in the tests: what the mutations begin with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.bench import samples as bench_samples
from tests.bench.samples import failed, result, run
from tests.corpus import earlier
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES
from tests.manifests.shapes import SHAPES
from tests.manifests.test_reading import CASES
from tests.matrix.test_matrix_layers import BUILD, HEAD
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import make_report

MANIFESTS = (
    *("requirements.txt", "pyproject.toml", "environment.yml", "Dockerfile", "compose.yaml", "pod.yaml", "train.def"),
    *("train.ipynb", ".github/workflows/tests.yml"),
)
TESTS = Path(__file__).parents[1]
LARGEST = 30_000  # bytes of a text that is mutated, so that each takes a moment only


@cache
def of(name: str) -> Any:
    """Return what samples.yaml has under a name."""
    found = yaml.load((Path(__file__).parent / "samples.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return found[name]


def _encoded(*values: object) -> tuple[bytes, ...]:
    return tuple(json.dumps(value).encode() for value in values)


@cache
def texts() -> tuple[bytes, ...]:
    """Return all pasted texts of the tests: cases, captures, and our own output."""
    found = [case["text"].encode() for case in earlier()]
    for folder in ("captures", "render/golden"):
        files = sorted(path for path in (TESTS / folder).rglob("*") if path.suffix in (".txt", ".csv", ".md"))
        found += [path.read_bytes() for path in files if path.name != "README.md"]
    return tuple(found)


@cache
def values(name: str = "") -> Sequence[bytes]:
    """Return short texts: versions, names, options, lines; for a reader that takes few of them, mostly those."""
    own = next((found for start, found in of("of_one").items() if name.startswith(start)), ())
    return tuple(one.encode() for one in (*(*own,) * 15, *of("values")))


@cache
def private() -> Sequence[bytes]:
    """Return what names someone, some place or a secret, and what looks like it."""
    return tuple(one.encode() for one in (*of("private"), *of("values")))


@cache
def manifests(name: str) -> Sequence[bytes]:
    """Return the files of a name that the tests of the manifests have; now and then one of another name."""
    named = [file for shape in SHAPES.values() for file in shape.files.items()]
    named += [(case["path"], case["text"]) for case in CASES]
    own, others = ([text for path, text in named if (path == name) is same] for same in (True, False))
    return tuple(one.encode() for one in (*(own * 40)[:40], *others[::10]))


@cache
def reports() -> Sequence[bytes]:
    """Return reports of real texts, and of the machines of the signs' own tests, which know of every fact."""
    matrix = Matrix.load()
    pasted = [text_to_facts.read(lines.read([text[:LARGEST]])) for text in texts()[::40]]
    machines = [report(rows[0][1]).facts for rows in list(FIRES.values())[::4] if rows]
    made = [
        *(make_report(facts, matrix, source="text", timings={}) for facts in pasted),
        *(make_report(facts, matrix, source="live", timings={"all": 1.5}) for facts in machines),
    ]
    return tuple(one.to_json() for one in (report(), *made))


@cache
def results() -> Sequence[bytes]:
    """Return results of benchmarks, each with few runs and readings."""
    small = result(run(), run("1 GPU", 0.05, gpu=bench_samples.watched(1)), failed("2 GPUs, rows", "it died"))
    return tuple(one.to_json() for one in (small, bench_samples.sweep(), bench_samples.failures()))


def fleets() -> Sequence[bytes]:
    """Return logs with a result or two, as tools print them for many nodes."""
    one = b" ".join(reports()[0].split())
    silent = b"srun: error: gpu-7: task 7: Killed\nclush: gpu-[1-9] (9): exited with exit code 255\n"
    return (one + b"\n" + reports()[-1], b"\n".join(b"gpu-1: " + line for line in reports()[0].splitlines()), silent)


@cache
def layers() -> Sequence[bytes]:
    """Return matrices of a user's, in JSON, which is YAML."""
    return _encoded(yaml.safe_load(HEAD + BUILD), {**yaml.safe_load(HEAD), **of("matrix_layer")})


@cache
def libraries() -> Sequence[bytes]:
    """Return the smallest shared library of a dependency, and its beginning alone."""
    smallest = min(Path(psutil.__file__).parent.glob("*.so"), key=lambda path: path.stat().st_size).read_bytes()
    return (smallest, smallest[:4096], smallest[:64])


def machines() -> Sequence[bytes]:
    """Return the files that probes read, by path."""
    return _encoded(of("machine"))


def answers() -> Sequence[bytes]:
    """Return what a worker answers to each request."""
    return _encoded(of("worker_answers"))
