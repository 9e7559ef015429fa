"""Text that has no encoding, half a surrogate pair, wherever it can come from: every command still gives its answer.

Python reads a byte of a file name, an argument or a variable that is not UTF-8 as "\\udcff"; JavaScript cuts an emoji
into "\\ud83d" and "\\ude00".
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES
from tfgpu_doctor import commands
from tfgpu_doctor.facts.facts import compact, encode
from tfgpu_doctor.facts.printable import utf8
from tfgpu_doctor.render.formats import choices

BYTE, EMOJI = "\udcff", "\ud83d"
RESULTS = {  # by kind: the command, and the files that it reads
    "report": ("doctor", "--from", "{}report.json"),
    "explain": ("explain", "{}log.txt"),
    "plan": ("plan", "--from", "{}report.json"),
    "check": ("check", "requirements{}.txt", "Dockerfile.{}"),
    "folder": ("check", "."),
    "bench": ("bench", "show", "{}bench.json"),
    "report comparison": ("compare", "{}report.json", "{}other.json"),
    "bench comparison": ("compare", "{}bench.json", "{}slower.json"),
    "fleet": ("fleet", "{}report.json", "{}bench.json", "{}nodes.jsonl"),
    "matrix": ("matrix", "tensorflow", "--version", "2.15.1"),
}
SAME = {"explain": "report", "folder": "check"}  # of which kind their results are


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose file names are not UTF-8, and which hold bytes that are not."""
    saved = report(FIRES["cuda.version-mismatch"][0][1]).to_json()
    contents = {
        "{}report.json": saved,
        "{}other.json": report().to_json(),
        "{}bench.json": result(run("1 GPU", 0.1)).to_json(),
        "{}slower.json": result(run("1 GPU", 0.9)).to_json(),
        "{}nodes.jsonl": b"n\xff1: " + json.dumps(json.loads(saved)).encode() + b"\nn\xff2: no route to host \xff\n",
        "{}log.txt": b"Could not load dynamic library 'libcudart.so.10.1'; dlerror: \xff /home/\xff/x\n",
        "requirements{}.txt": b"tensorflow==1.99\nnumpy==1.26\n",
        "Dockerfile.{}": b"FROM x\nRUN pip install tensorflow==2.99\n",
        "requirements-{}.txt": b"tensorflow==1.99 # \xff\n",
    }
    for name, data in contents.items():
        Path(tmp_path, name.format(BYTE)).write_bytes(data)
    return tmp_path


def answered(folder: Path, *arguments: str, environ: dict[str, str] | None = None) -> str:
    """Run a command; returns standard output."""
    done = tfgpu(*arguments, cwd=folder, environ=environ)
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr, (arguments, done.stderr)
    return done.stdout


def test_every_result_in_every_format(folder: Path) -> None:
    for kind, words in RESULTS.items():
        forms = choices(SAME.get(kind, kind))
        targets = [word for form in forms for word in ("--format", form, "--output", f"{BYTE}{form}")]
        shown = answered(folder, *(one.format(BYTE) for one in words), *targets, "--format", "text", "--output", "-")
        files = [Path(folder, f"{BYTE}{form}").read_bytes().decode() for form in forms]  # UTF-8
        assert all(files) and not any(BYTE in text for text in (shown, *files)), kind


def test_every_function() -> None:
    """An answer, or a sentence that says why there is none."""
    texts = {
        "HALFrequirements.txt": "tensorflow==1.99 # HALF",
        "Dockerfile": "FROM HALF\nRUN pip install tensorflow==HALF\n",
        "environment.yml": "dependencies: [tensorflow=2.99, 'HALF']\n",
        "a.ipynb": json.dumps({"cells": [{"source": "!pip install tensorflow==HALF"}]}),
    }
    for half in (BYTE, EMOJI):
        given = [{name.replace("HALF", half): text.replace("HALF", half)} for name, text in texts.items()]
        log = f"Could not load dynamic library 'libcudart.so.10.1'; dlerror: {half}"
        assert half not in commands.explain(log).to_json().decode()
        for call in (
            *(partial(commands.check, texts=one) for one in given),
            partial(commands.plan, gpu=half),
            partial(commands.plan, gpu="A100", tensorflow=half),
            partial(commands.compare, f"/nowhere/{half}", half),
            partial(commands.diagnose, half, import_tensorflow=False),
        ):
            with suppress(commands.UsageError):
                assert half not in call().to_json().decode()


def test_the_encoder() -> None:
    assert utf8(f"a{BYTE}é😀") == "a\ufffdé😀".encode()
    assert json.loads(encode({f"{EMOJI}k": [("a", EMOJI)]})) == {"\ufffdk": [["a", "\ufffd"]]}
    assert compact({"a": "é"}) == '{"a":"é"}'.encode()
