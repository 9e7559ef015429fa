"""Text that has no encoding, half a surrogate pair, wherever it can come from: every command still gives its answer.

Python reads a byte of a file name, an argument or a variable that is not UTF-8 as "\\udcff"; JavaScript cuts an emoji
into "\\ud83d" and "\\ude00".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.findings.rows_over_facts import FIRES
from tests.records.test_report import report
from tfgpu_doctor import commands
from tfgpu_doctor.records.facts import compact, encode
from tfgpu_doctor.records.printable import utf8
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


def test_every_result_in_every_format(folder: Path, subtests: pytest.Subtests) -> None:
    for kind, form in [(one, form) for one in RESULTS for form in choices(SAME.get(one, one))]:
        with subtests.test(kind=kind, form=form):
            arguments = [one.format(BYTE) for one in RESULTS[kind]]
            shown = answered(folder, *arguments, "--format", form)
            assert shown and BYTE not in shown
            answered(folder, *arguments, "--format", form, "--output", f"{BYTE}out")
            assert Path(folder, f"{BYTE}out").read_bytes().decode()  # UTF-8


CALLS: tuple[Callable[[str], object], ...] = (
    lambda half: commands.check(texts={f"{half}requirements.txt": f"tensorflow==1.99 # {half}"}),
    lambda half: commands.check(texts={"Dockerfile": f"FROM {half}\nRUN pip install tensorflow=={half}\n"}),
    lambda half: commands.check(texts={"environment.yml": f"dependencies: [tensorflow=2.99, '{half}']\n"}),
    lambda half: commands.check(
        texts={"a.ipynb": json.dumps({"cells": [{"source": f"!pip install tensorflow=={half}"}]})}
    ),
    lambda half: commands.explain(f"Could not load dynamic library 'libcudart.so.10.1'; dlerror: {half}"),
    lambda half: commands.plan(gpu=half),
    lambda half: commands.plan(gpu="A100", tensorflow=half),
    lambda half: commands.compare(f"/nowhere/{half}", half),
    lambda half: commands.diagnose(half, import_tensorflow=False),
)


def test_every_function(subtests: pytest.Subtests) -> None:
    for call in CALLS:
        for half in (
            BYTE,
            EMOJI,
        ):
            with subtests.test(call=call, half=half):
                try:
                    found = call(half)
                except commands.TfgpuError:  # documented, with a sentence
                    return
                document = found.to_json()  # type: ignore[attr-defined]
                assert half not in document.decode()


def test_the_encoder() -> None:
    assert utf8(f"a{BYTE}é😀") == "a\ufffdé😀".encode()
    assert json.loads(encode({f"{EMOJI}k": [("a", EMOJI)]})) == {"\ufffdk": [["a", "\ufffd"]]}
    assert compact({"a": "é"}) == '{"a":"é"}'.encode()
