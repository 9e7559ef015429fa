"""Results in notebooks: a real notebook is executed by a real kernel; what it shows is read as a browser would."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import nbformat
import pytest
from nbclient import NotebookClient

from tests.bench.samples import result
from tests.bench.samples import run as bench_run
from tests.cli.hostile import BOMB, offences
from tests.healthy import MATRIX, healthy
from tests.render.pages import Page
from tests.render.results import results
from tfgpu_doctor import check, compare, explain, plan
from tfgpu_doctor.cli import cli
from tfgpu_doctor.facts.facts import Document
from tfgpu_doctor.integrations.notebook import load_ipython_extension, run
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.render.formats import KINDS

ROOT = Path(__file__).parents[2]
NO_DEVICE = "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
# what JupyterLab's sanitizer lets through
READABLE = {
    *("div", "p", "strong", "span", "h3", "table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li", "a"),
    *("article", "dl", "dt", "dd", "pre", "code", "details", "summary"),
}
TENSORFLOW = '__version__ = "2.99.0"\n'  # imported by the kernel
CELLS = (
    "%load_ext tfgpu_doctor",
    "%tfgpu doctor --no-import",
    f"%%tfgpu explain -\n{NO_DEVICE}",
    "found = %tfgpu plan --gpu 'RTX 3090' --driver 535 --python 3.11\nprint(found.options[0].package)",
    "%tfgpu matrix gpu RTX 4090",
    "%tfgpu matrix gpu RTX 4090 --format json",
    "%tfgpu explain cuda.missing",
    "import os, tensorflow\nos.environ.update(CUDA_VISIBLE_DEVICES='1')\n%tfgpu doctor",
    "from tfgpu_doctor import explain\nexplain('TensorFlow 2.15.0')",
)  # fmt: skip


def executed(cells: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The outputs of the cells, in a kernel of this Python."""
    spec = folder / "kernels" / "tfgpu"
    spec.mkdir(parents=True)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": start, "display_name": "tfgpu", "language": "python"}))
    (folder / "tensorflow.py").write_text(TENSORFLOW)
    for name, value in {
        "JUPYTER_PATH": folder,
        "JUPYTER_RUNTIME_DIR": folder / "runtime",
        "IPYTHONDIR": folder / "ipython",
        "PYTHONPATH": ROOT,
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="tfgpu", resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells]


def printed(outputs: list[Any]) -> str:
    assert {one.output_type for one in outputs} <= {"stream"}
    return "".join(one.text for one in outputs)


def shown(outputs: list[Any]) -> list[Page]:
    return [Page(one.data["text/html"]) for one in outputs]


def test_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = executed(CELLS, tmp_path, monkeypatch)
    loaded, doctor, explained, planned, matrix, as_json, page, imported, api = outputs
    assert loaded == []
    (live,) = shown(doctor)
    assert "tfgpu doctor" in live.text and sys.executable in live.text  # the Python of the kernel
    assert re.fullmatch(r"<Report: \w+.*>", doctor[0].data["text/plain"])
    assert "CUDA finds no device" in shown(explained)[0].text
    assert printed(planned) == "tensorflow\n"
    assert "GeForce RTX 4090" in shown(matrix)[0].text and matrix[0].data["text/plain"][:10] == "<Answered:"
    assert json.loads(printed(as_json))["name"] == "GeForce RTX 4090"
    assert "How to fix it" in printed(page)
    assert "TensorFlow" in shown(api)[0].text
    told, report = imported
    assert "restart this kernel after a fix" in told.text and "tfgpu doctor" in Page(report.data["text/html"]).text


def test_errors_are_sentences(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Mock()
    load_ipython_extension(shell)
    shell.register_magic_function.assert_called_once_with(run, "line_cell", "tfgpu")
    for line, says in {
        "plan --gpu 'RTX 9999'": "unknown GPU 'RTX 9999'",
        "docter": "No such command 'docter'. Did you mean doctor?",
        "explain": "standard input contains no text",
        "doctor 'x": "No closing quotation",
        "doctor --from nowhere.json": "cannot read nowhere.json: No such file",
    }.items():
        assert run(line) is None
        out, err = capsys.readouterr()
        assert out == "" and err.startswith(f"tfgpu: {says}") and err.count("\n") == 1, line
    for error, says in {
        KeyboardInterrupt(): "tfgpu: interrupted\n",
        RuntimeError("the roof"): "tfgpu: internal error: RuntimeError: the roof\n",
    }.items():

        def raises(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(cli, "main", raises)
        assert run("doctor") is None
        assert capsys.readouterr().err == says


@cache
def documents() -> dict[str, Document]:
    report = make_report(healthy(), MATRIX, source="live", timings={})
    bench = result(bench_run("CPU"), bench_run("1 GPU"))
    return {
        "report": report,
        "hostile": explain(f"{BOMB}\n{NO_DEVICE} {BOMB} </style><script>alert(1)</script><img src=x>"),
        "plan": plan(gpu="RTX 3090", driver="535", python="3.11"),
        "check": check(texts={f"req{BOMB}.txt": "tensorflow==2.4.1 # <b>\n"}, kind="requirements"),
        "bench": bench,
        "comparison": compare(report, explain(NO_DEVICE)),
        "bench comparison": compare(bench, bench),
        "fleet": results("fleet")["hostile"],
        "smoke": results("smoke")["hostile"],
    }  # fmt: skip


def test_every_result_shows_itself_without_script_and_without_a_trace_of_markup() -> None:
    shown = documents()
    for one in shown.values():
        source = one._repr_html_()
        assert source is not None
        page = Page(source)
        assert {tag for tag, _ in page.elements} <= READABLE
        assert not page.ids
        keys = {key for _, attributes in page.elements for key in attributes}
        assert [key for key in keys if key.startswith("on") or key == "style"] == []
        assert all((link["href"] or "").startswith("https://") for link in page.all("a"))
        assert list(offences(source)) == []
        assert len(repr(one)) < 200 and list(offences(repr(one))) == [] and "tfgpu." not in repr(one)
    # the commands of a notebook return all kinds that have a page, `%tfgpu fleet` and `%tfgpu smoke`, too
    assert {type(one).__name__ for one in shown.values()} == {
        row.record for kind, row in KINDS.items() if kind != "matrix"
    }
