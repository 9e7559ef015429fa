"""The exact text of a report at width 80 without colour, beside golden files.

TFGPU_UPDATE_GOLDEN=1 writes them anew; read the difference before committing it.
"""

from __future__ import annotations

import ast
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from tests.findings.rows_over_facts import NO_DRIVER, NO_GPU_USED, WHY, absent, off_path
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.stack import layers_of, stack
from tfgpu_doctor.render.terminal.layout import hanging
from tfgpu_doctor.render.terminal.report import render

GOLDEN = Path(__file__).parent / "golden"
PACKAGE = Path(__file__).parents[2] / "tfgpu_doctor"

MACHINES: dict[str, Facts] = {
    "healthy": healthy(),
    "plain-pip": spoil(
        healthy(), {**NO_GPU_USED, "loader.sonames": absent(), "cudnn.installed": known(()), "cudnn.runtime": WHY}
    ),
    "no-driver": spoil(healthy(), {**NO_GPU_USED, **NO_DRIVER}),
    "broken-file-on-the-path": spoil(
        healthy(), {**NO_GPU_USED, "loader.sonames": off_path("cudnn", problem="empty file"), "cudnn.runtime": WHY}
    ),
    "hot": spoil(healthy(), {"gpus": known((gpu(throttle_reasons=("hw_thermal_slowdown",), temperature=93),), "NVML")}),
    "unknown": Facts(),
    "hostile": spoil(
        healthy(),
        {
            "gpus": known((gpu(name="[bold]\x1b[31mevil\x1b[0m <script>\n\x07", compute_capability="3.5"),), "NVML"),
            "python.executable": known("/home/a b/$(reboot)/python"),
        },
    ),
}


def printed(facts: Facts, monkeypatch: pytest.MonkeyPatch, columns: int = 80, detail: Detail = "normal") -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    render(report(facts), console_for(stream), detail)
    return stream.getvalue()


def report(facts: Facts, **options: Any) -> Any:
    return make_report(facts, MATRIX, source="live", timings={}, **options)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_golden(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_golden(GOLDEN / f"{name}.txt", printed(MACHINES[name], monkeypatch))


@pytest.mark.parametrize("name", ["unknown", "plain-pip"])
def test_golden_of_all_and_of_the_least(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for detail in ("full", "least"):
        check_golden(GOLDEN / f"{name}-{detail}.txt", printed(MACHINES[name], monkeypatch, detail=detail))


TEXTS = {
    "open-cause": b"GTX 1070 Ti, tensorflow 2.10 on windows 10, list_physical_devices returns []. CUDA 11.2, cudnn 8.1",
    "question": b"Ubuntu 22.04, Python 3.11, RTX 3080, driver 550. Which TensorFlow should I install?",
}


@pytest.mark.parametrize("detail", ["normal", "least"])
@pytest.mark.parametrize("name", TEXTS)
def test_golden_of_a_text(name: str, detail: Detail, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = text_to_facts.read(lines.read([TEXTS[name]]), MATRIX)
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    render(make_report(facts, MATRIX, source="text", timings={}), console_for(stream), detail)
    check_golden(GOLDEN / f"{name}-{detail}.txt", stream.getvalue())


def check_golden(file: Path, text: str) -> None:
    """Compare with a golden file, apart from the revision of the matrix."""
    text = text.replace(MATRIX.revision, "REVISION")
    if os.environ.get("TFGPU_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(MACHINES))
@pytest.mark.parametrize("columns", [40, 60, 120])
def test_fits_the_width_and_wraps_no_command_nor_link(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(MACHINES[name], monkeypatch, columns, "full")
    commands = {c for f in report(MACHINES[name]).findings if f.root_cause for fix in f.fixes for c in fix.commands}
    for line in text.splitlines():
        whole = line.strip() in commands or line.startswith("    see       https://")
        assert len(line) <= columns or whole, line
        assert line == line.rstrip()
        assert not LINE_WITHIN.search(line), line
    for command in commands:
        assert command in text


# a line that begins with a unit, or ends within a command or after the arrow of a source
LINE_WITHIN = re.compile(r"^ *(?:%|°C|W|MHz|GiB|CPUs?)(?!\w)|tfgpu(?: explain| doctor| --\w+)?$|[←]$")


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_command_in_a_sentence_stays_on_one_line(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tfgpu explain` ended a line and the id began the next, so that what was copied explained standard input."""
    for name in MACHINES:
        text = printed(MACHINES[name], monkeypatch, columns)
        assert not [line for line in text.splitlines() if LINE_WITHIN.search(line)], name
        if "All evidence" in text:
            assert re.search(r"^All evidence and fixes:\stfgpu doctor -v(;\stfgpu explain [a-z.-]+)?$", text, re.M)


def test_a_long_head_stands_above_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the path of a file in a terminal of 60 columns, a text was wrapped in a column of twenty, or beyond it."""
    monkeypatch.setenv("COLUMNS", "60")
    stream = io.StringIO()
    path = "/home/you/a/project/with/a/long/path/requirements.txt"
    content = Text("tensorflow[and-cuda]==2.20.0; a word or two that do not fit")
    hanging(Text(f"  {path}  "), content, console_for(stream))
    assert stream.getvalue().splitlines() == [
        f"  {path}",
        "    tensorflow[and-cuda]==2.20.0; a word or two that do not",
        "    fit",
    ]


def test_a_link_is_never_broken_and_stands_on_a_line_of_its_own() -> None:
    stream = io.StringIO()
    link = "https://catalog.ngc.nvidia.com/orgs/nvidia/containers/tensorflow?" + "version=25.02-tf2-py3&" * 2
    hanging(Text("   note   "), Text(f"the image is described at {link} with its tags"), console_for(stream))
    assert stream.getvalue().splitlines() == [
        "   note   the image is described at",
        f"          {link}",
        "          with its tags",
    ]


def test_a_machine_with_at_most_one_problem_fits_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MACHINES:
        assert len(printed(MACHINES[name], monkeypatch).splitlines()) <= 28, name
    assert len(printed(healthy(), monkeypatch).splitlines()) <= 24


def test_no_layer_is_marked_of_which_a_text_says_nothing() -> None:
    """`tfgpu explain` of it showed a tick on every layer, and later a cross on layers that it did not name."""
    text = text_to_facts.read(lines.read([b"INTERNAL: NCCL operation ncclCommInitRank(&comm) failed: internal error"]))
    report = make_report(text, MATRIX, source="text", timings={})
    assert "nccl.error" in {finding.id for finding in report.findings}
    assert {layer.mark for layer in layers_of(report)} == {"unknown"}


def test_every_finding_has_a_layer_that_the_stack_shows() -> None:
    shown = {layer.name for layer in stack(make_report(healthy(), MATRIX, source="live", timings={}))}
    assert [finding.id for finding in DECLARATIONS.values() if finding.layer not in shown] == []


def test_no_control_character_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(MACHINES["hostile"], monkeypatch)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "[bold]" in text  # markup is text, not markup


def letters_of_messages() -> dict[str, str]:
    """The letters beyond ASCII in what the package prints, with a file; what it only reads or escapes is left out."""
    reading = (
        "parsers/",
        "inference/",
        "manifests/",
        "redact/",
        "matrix/",
        "records/printable",
        "install/asking",
        "cli/manifests",
    )
    marked_up = (
        "terminal/layout",
        "render/html/",
        "render/markdown/",
        "render/ci/",
        "render/console",
        "render/streams",
    )
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        if not any(part in name for part in (*reading, *marked_up)):
            nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
            docstrings = {id(one.value) for one in nodes if isinstance(one, ast.Expr)}
            constants = [one.value for one in nodes if isinstance(one, ast.Constant) and id(one) not in docstrings]
            texts = [one for one in constants if isinstance(one, str)]
            found.update({letter: name for text in texts for letter in text if not letter.isascii()})
    pages = (path.read_text(encoding="utf-8") for path in PACKAGE.glob("findings/pages/*.txt"))
    return found | {letter: "a page" for text in pages for letter in text if not letter.isascii()}


def test_every_letter_has_one_in_ascii() -> None:
    """In a terminal without Unicode, `tfgpu compare` showed "found by RUNPATH ? absent"."""
    for letter, file in letters_of_messages().items():
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="ascii")
        console_for(stream).print(Text(f"1 {letter} 2"))
        stream.flush()
        assert b"?" not in raw.getvalue() and raw.getvalue().isascii(), (letter, file)


def test_ascii_output_has_ascii_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    render(report(MACHINES["plain-pip"]), console_for(stream))
    stream.flush()
    assert b"x The CUDA libraries are not installed" in raw.getvalue()
    assert b"<-" in raw.getvalue()
