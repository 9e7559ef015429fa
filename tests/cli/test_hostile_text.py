"""Nothing that was planted in a file, an option or a variable is obeyed by a terminal or by a CI system.

Text that has no encoding is such text, too: Python reads a byte of a file name, an argument or a variable that is not
UTF-8 as "\\udcff"; JavaScript cuts an emoji into "\\ud83d" and "\\ude00". Every command still gives its answer.

Commands, options and formats are taken from the code, so that a new one is tried, too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from tests.bench.samples import failed, result, run, telemetry
from tests.cli.hostile import BOMB, SGR, offences, planted
from tests.cli.runner import commands, runs, tfgpu
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES
from tests.parsers.pasted import samples
from tfgpu_doctor import commands as api
from tfgpu_doctor.bench.results import load_result
from tfgpu_doctor.commands import TfgpuError
from tfgpu_doctor.facts.facts import compact, encode
from tfgpu_doctor.facts.printable import clean, utf8
from tfgpu_doctor.facts.report import load_report
from tfgpu_doctor.render import streams
from tfgpu_doctor.render.ci import junit
from tfgpu_doctor.render.formats import choices
from tfgpu_doctor.render.shapes import Case, Checks, Suite

LOG = "\n".join(text for _, text, _ in samples("driver"))
QUOTED = json.dumps(BOMB)
BYTE, EMOJI = "\udcff", "\ud83d"
NAME = BOMB + BYTE
REQUIREMENTS = "tensorflow[and-cuda]==2.15.1\nnumpy==1.26\n"
# what each command needs so that it has something to say, and does not measure
BASES: dict[str, tuple[str, ...]] = {
    "doctor": ("--from", "report.json"),
    "explain": ("log.txt",),
    "plan": ("--from", "report.json"),
    "install": ("made", "--dry-run", "--gpu", "H100", "--os", "macos"),
    "matrix": (),
    "matrix gpu": ("A100",),
    "matrix find": ("6.1",),
    "check": ("requirements.txt",),
    "bench": ("--python", "/nowhere/python"),
    "bench show": ("bench.json",),
    "smoke": ("--python", "/nowhere/python"),
    "compare": ("report.json", "other.json"),
    "fleet": ("report.json", "bench.json"),
    "mcp": ("--python", "/nowhere/python"),
}


MANIFESTS = {
    f"requirements{BYTE}.txt": f"tensorflow==1.99 # {NAME}\nnumpy=={NAME}\n{NAME}==1\n-r {NAME}\n",
    f"Dockerfile.{BYTE}": f"FROM {NAME}\nRUN pip install tensorflow=={NAME}\nENV A={NAME}\n",
    "environment.yml": f"dependencies: [python=3.11, tensorflow=2.99, {QUOTED}]\nname: {QUOTED}\n",
    "pyproject.toml": f"[project]\nname = {QUOTED}\ndependencies = ['tensorflow', {QUOTED}]\n",
    "a.ipynb": json.dumps({"cells": [{"source": f"!pip install tensorflow=={NAME}"}]}),
}


@cache
def hostile_report() -> bytes:
    """A report of a machine on which much is wrong, with a bomb in every text."""
    changes = {key: value for name in ("driver.too-old", "cuda.missing") for key, value in FIRES[name][0][1].items()}
    return planted(report(changes).to_json(), lambda data: load_report(data, "it"))


@cache
def hostile_result() -> bytes:
    """The same of a bench result."""
    measured = result(
        run(parameters={"size": 1}),
        run("1 GPU", 0.1, devices=("/GPU:0",), gpu=(telemetry(),), parameters={"size": 2}),
        run("2 GPUs", 0.06, devices=("/GPU:0", "/GPU:1"), gpu=(telemetry(), telemetry("/GPU:1"))),
        failed("3 GPUs", "out of memory"),
        notes=("a note",),
    )
    return planted(measured.to_json(), lambda data: load_result(data, "it"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with hostile files, by plain names and by hostile ones."""
    nodes = (BOMB.encode().replace(b"\n", b" ") + b": " + data for data in (hostile_report(), hostile_result()))
    log = "\n".join(f"{line}{NAME}\n{NAME}{line}" for line in LOG.splitlines())
    files = {
        **dict.fromkeys(("report.json", f"{NAME}.json"), hostile_report()),
        **dict.fromkeys(("bench.json", f"{NAME}.bench"), hostile_result()),
        "other.json": report(FIRES["cuda.version-mismatch"][0][1]).to_json(),
        "fleet.jsonl": b"\n".join((*nodes, b"n\xff2: no route to host \xff")),
        "log.txt": log.encode(errors="surrogateescape"),
        "requirements.txt": REQUIREMENTS.encode(),
        **{f"bad/{name}": text.encode(errors="surrogateescape") for name, text in MANIFESTS.items()},
    }
    (tmp_path / "bad").mkdir()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def harmless(folder: Path, *arguments: str, environ: dict[str, str] | None = None) -> str:
    """Run a command; returns what it printed."""
    done = tfgpu(*arguments, cwd=folder, environ=environ)
    form = arguments[arguments.index("--format") + 1] if "--format" in arguments else "text"
    assert [*offences(done.stdout, form), *offences(done.stderr)] == [], arguments
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr, arguments
    return done.stdout + done.stderr


def test_what_is_planted_is_seen() -> None:
    assert len(list(offences(BOMB))) > 20 and list(offences("::error title=tfgpu x::y", "github")) == []
    assert min(document.count(rb"set-env") for document in (hostile_report(), hostile_result())) > 150


# ------------------------------------------------------------------------------------------------ what files hold

RESULTS = {  # command → the kind of its result
    "doctor --from report.json --no-redact": "report",
    "explain NAME.json --no-redact": "report",
    "explain log.txt --no-redact": "report",
    "plan --from NAME.json": "plan",
    "compare report.json other.json -v --no-redact": "report comparison",
    "compare other.json NAME.json -v --no-redact": "report comparison",
    "bench show bench.json --no-redact": "bench",
    "compare bench.json NAME.bench --no-redact": "bench comparison",
    "fleet fleet.jsonl report.json NAME.json --no-redact": "fleet",
    "matrix tensorflow --version 2.15.1": "matrix",
    "check bad": "check",
    **{f"check bad/{name} --no-redact": "check" for name in MANIFESTS},
}
SILENT = ("report comparison", "plan", "matrix", "check")  # whose formats need not show a text of their input


def test_results_in_every_format(folder: Path) -> None:
    """Files get what the streams would get, as UTF-8. A kind is tried in every format once, each command as text."""
    shown_kinds = set()
    for command, kind in RESULTS.items():
        forms = () if kind in shown_kinds else choices(kind)
        shown_kinds.add(kind)
        targets = [word for form in forms for word in ("--format", form, "--output", f"{BYTE}{form}")]
        words = [word.replace("NAME", NAME) for word in command.split()]
        printed = harmless(folder, *words, *targets, "--format", "text", "--output", "-")
        assert "PWN" in printed or kind in SILENT or "log.txt" in command, command
        for form in forms:
            shown = (folder / f"{BYTE}{form}").read_bytes().decode()
            assert list(offences(shown, form)) == [], (command, form)
            assert "PWN" in shown or kind in SILENT, (command, form)


def test_formats_with_escapes_keep_every_value(folder: Path) -> None:
    shown = tfgpu("doctor", "--from", "report.json", "--format", "json", cwd=folder).stdout
    assert json.loads(shown)["facts"] == json.loads(hostile_report())["facts"]
    facts = json.loads(shown)["facts"]["host"]["os"]["value"]
    suite = Suite("s", (Case(facts, "::c", details=("::d", "###[e]")),))
    document = junit(Checks("tfgpu", "", (suite,), (), ()))
    assert [*offences(document)] == [] and streams.harmless(document) == document
    case = ElementTree.fromstring(document)[0][0]
    assert (case.get("name"), case.get("classname"), case[0].text) == (clean(facts), "::c", "::d\n###[e]")


def test_files_that_are_refused(folder: Path) -> None:
    """Every kind of mistake in one command, and every command with one of them."""
    mistakes = ({"facts": {"host": {"os": {"is": BOMB}}}}, {"tool": {"name": "x", "version": BOMB}}, {"schema": BOMB})
    for good, tried in (
        ("report.json", ("doctor --from", "explain", "plan --from", "compare other.json")),
        ("bench.json", ("bench show", "compare other.json")),
    ):
        for change in (*mistakes, {BOMB: 1}):
            wrong = {**json.loads((folder / good).read_bytes()), **change}
            (folder / "wrong.json").write_text(json.dumps(wrong))
            harmless(folder, *tried[0].split(), "wrong.json")
        for command in tried[1:]:
            harmless(folder, *command.split(), "wrong.json")
    for layer in (f"{QUOTED}: 1\n", f"cuda: {QUOTED}\n", f"sources: {{{QUOTED}: {QUOTED}}}\n", BOMB, f"- {QUOTED}\n"):
        (folder / "layer.yaml").write_text(layer)
        harmless(folder, "matrix", "cuda", environ={"TFGPU_MATRIX": "layer.yaml"})


def test_half_a_character_in_every_function() -> None:
    """An answer, or a sentence that says why there is none."""
    for half in (BYTE, EMOJI):
        log = f"Could not load dynamic library 'libcudart.so.10.1'; dlerror: {half}"
        assert half not in api.explain(log).to_json().decode()
        for call in (
            *(partial(api.check, texts={name: text.replace(BYTE, half)}) for name, text in MANIFESTS.items()),
            partial(api.plan, gpu=half),
            partial(api.plan, gpu="A100", tensorflow=half),
            partial(api.compare, f"/nowhere/{half}", half),
            partial(api.diagnose, half, import_tensorflow=False),
        ):
            with suppress(api.UsageError):
                assert half not in call().to_json().decode()
    assert json.loads(encode({f"{EMOJI}k": [("a", EMOJI)]})) == {"\ufffdk": [["a", "\ufffd"]]}
    assert (utf8(f"a{BYTE}é😀"), compact({"a": "é"})) == ("a\ufffdé😀".encode(), '{"a":"é"}'.encode())


# ----------------------------------------------------------------------------------------- what the command line holds


def options() -> Iterator[tuple[str, ...]]:
    """A command line for each option that takes a value, and for each argument; what commands share, once."""
    seen = set()
    for words, command in commands():
        path = words.split()
        base = BASES.get(words) or BASES.get(path[0], ())
        for parameter in command.params if runs(command) else ():
            if isinstance(parameter, click.Argument):
                yield (*path, *(NAME for _ in base))
            elif isinstance(parameter, click.Option) and not parameter.is_flag:
                name = parameter.opts[0]
                if (name, parameter.help) not in seen:
                    seen.add((name, parameter.help))
                    yield (*path, *(() if name in base else base), name, NAME)


def test_names_and_values_of_options(folder: Path) -> None:
    for arguments in options():
        harmless(folder, *arguments)
    for words in ((NAME,), ("bench", NAME), ("doctor", f"--{NAME}")):
        harmless(folder, *words)


def test_what_a_worker_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise TfgpuError(f"cannot measure with {BOMB}: ImportError: {BOMB}\nNext: tfgpu doctor")

    monkeypatch.setattr("tfgpu_doctor.commands.bench", fails)
    done = tfgpu("bench", "matpow")
    assert done.returncode == 3 and list(offences(done.stderr)) == []
    assert done.stderr.startswith("tfgpu: cannot measure with x")


# -------------------------------------------------------------------------------------------------- terminals, streams


def test_a_terminal_gets_our_colours_only(folder: Path) -> None:
    for arguments in (("doctor", "--from", "report.json"), ("bench", "show", "bench.json"), ("explain", "log.txt")):
        done = tfgpu(*arguments, cwd=folder, environ={"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": ""})
        assert SGR not in done.stdout and "\x1b[1m" in done.stdout
        assert list(offences(re.sub(r"\x1b\[[\d;]*m", "", done.stdout))) == []


def test_a_command_in_pieces_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    lines = "a\n  ::add-mask::b\n \x1b[1m::x::y\x1b[0m ##[add-mask]c ##vso[x]\n##teamcity[d\n:\n::\n"
    text = f"{lines}{' ' * 99}::e::f\n"
    for size in (1, 2, 3, 7):
        for stream in (streams.guarded(sys.stdout), streams.guarded(sys.stdout).styled):
            for start in range(0, len(text), size):
                stream.write(text[start : start + size])
        shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
        assert list(offences(shown)) == []
        assert shown.count("add-mask") == 4
