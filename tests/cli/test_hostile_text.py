"""Nothing that was planted in a file, an option or a variable is obeyed by a terminal or by a CI system.

Commands, options and formats are taken from the code, so that a new one is tried, too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from xml.etree import ElementTree

import click
import msgspec
import pytest

from tests.bench.samples import failed, result, run, telemetry
from tests.cli.hostile import BOMB, SGR, offences, planted
from tests.cli.runner import commands, runs, tfgpu
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES
from tests.parsers.pasted import samples
from tests.smoke.smoking import Machine
from tfgpu_doctor import __main__ as entry
from tfgpu_doctor.bench.results import load_result
from tfgpu_doctor.cli import output
from tfgpu_doctor.commands import TfgpuError
from tfgpu_doctor.facts.printable import clean
from tfgpu_doctor.facts.report import load_report
from tfgpu_doctor.render import streams
from tfgpu_doctor.render.ci import xml
from tfgpu_doctor.render.formats import choices
from tfgpu_doctor.render.shapes import Case, Suite
from tfgpu_doctor.smoke.records import Smoke

LOG = "\n".join(text for _, text, _ in samples("driver"))
QUOTED = json.dumps(BOMB)
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
    "fleet collect": ("--slurm", "--nodes", "2"),
    "mcp": ("--python", "/nowhere/python"),
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
    for name in ("report.json", f"{BOMB}.json"):
        (tmp_path / name).write_bytes(hostile_report())
    (tmp_path / "other.json").write_bytes(report(FIRES["cuda.version-mismatch"][0][1]).to_json())
    for name in ("bench.json", f"{BOMB}.bench"):
        (tmp_path / name).write_bytes(hostile_result())
    (tmp_path / "log.txt").write_text("\n".join(f"{line}{BOMB}\n{BOMB}{line}" for line in LOG.splitlines()))
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    return tmp_path


def harmless(folder: Path, *arguments: str, environ: dict[str, str] | None = None) -> str:
    """Run a command; returns what it printed."""
    done = tfgpu(*arguments, cwd=folder, environ=environ)
    form = arguments[arguments.index("--format") + 1] if "--format" in arguments else "text"
    assert [*offences(done.stdout, form), *offences(done.stderr)] == [], arguments
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr, arguments
    return done.stdout + done.stderr


def test_the_tests_see_what_is_planted() -> None:
    assert len(list(offences(BOMB))) > 20
    assert list(offences("::error title=tfgpu x::y", "github")) == []
    assert list(offences("::error title=x::y", "github")) and list(offences("::error title=tfgpu x::y"))
    assert hostile_report().count(rb"set-env") > 150
    assert hostile_result().count(rb"set-env") > 150


# ------------------------------------------------------------------------------------------------ what files hold

RESULTS = {  # command → the kind of its result
    "doctor --from report.json --no-redact": "report",
    "explain report.json --no-redact": "report",
    "compare report.json other.json --all --no-redact": "report comparison",
    "compare other.json BOMB.json --all --no-redact": "report comparison",
    "bench show bench.json": "bench",
    "compare bench.json BOMB.bench": "bench comparison",
    "fleet fleet.jsonl report.json BOMB.json --no-redact": "fleet",
}


def test_results_in_every_format(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (BOMB.encode().replace(b"\n", b" ") + b": " + data for data in (hostile_report(), hostile_result()))
    (folder / "fleet.jsonl").write_bytes(b"\n".join(lines))
    for command, kind in RESULTS.items():
        for form in choices(kind):
            words = [word.replace("BOMB", BOMB) for word in command.split()]
            shown = harmless(folder, *words, "--format", form)
            assert "PWN" in shown or kind == "report comparison"  # which names changed values in some formats only
    document = planted(Machine().smoke().to_json(), partial(msgspec.json.decode, type=Smoke))
    for form in choices("smoke"):
        output.write(msgspec.json.decode(document, type=Smoke), "smoke", [output.Output(form, None)])
        shown = capsys.readouterr().out
        assert list(offences(shown, form)) == [] and "PWN" in shown


def test_formats_with_escapes_keep_every_value(folder: Path) -> None:
    shown = tfgpu("doctor", "--from", "report.json", "--format", "json", cwd=folder).stdout
    assert json.loads(shown)["facts"] == json.loads(hostile_report())["facts"]
    facts = json.loads(shown)["facts"]["host"]["os"]["value"]
    junit = xml("tfgpu", "", [Suite("s", (Case(facts, "::c", details=("::d", "###[e]")),))])
    assert [*offences(junit)] == [] and streams.harmless(junit) == junit
    case = ElementTree.fromstring(junit)[0][0]
    assert (case.get("name"), case.get("classname"), case[0].text) == (clean(facts), "::c", "::d\n###[e]")


def test_pasted_texts(folder: Path) -> None:
    """Files get what the streams would get."""
    targets = [word for form in choices("report") for word in ("--format", form, "--output", f"out.{form}")]
    tfgpu("explain", "log.txt", "--no-redact", *targets, cwd=folder)
    for form in choices("report"):
        assert list(offences((folder / f"out.{form}").read_text(), form)) == []


def test_files_that_are_refused(folder: Path) -> None:
    wrong: tuple[dict[str, object], ...] = (
        {BOMB: 1},
        {"facts": {"host": {"os": {"is": BOMB}}}},
        {"schema": BOMB},
        {"tool": {"name": "x", "version": BOMB}},
    )
    for name in ("report.json", "bench.json"):
        for change in wrong:
            (folder / "wrong.json").write_text(json.dumps({**json.loads((folder / name).read_bytes()), **change}))
            for command in ("doctor --from", "explain", "plan --from", "compare other.json", "bench show"):
                harmless(folder, *command.split(), "wrong.json")
    for layer in (f"{QUOTED}: 1\n", f"cuda: {QUOTED}\n", f"sources: {{{QUOTED}: {QUOTED}}}\n", BOMB, f"- {QUOTED}\n"):
        (folder / "layer.yaml").write_text(layer)
        harmless(folder, "matrix", "cuda", "--matrix", "layer.yaml")
        harmless(folder, "matrix", "cuda", environ={"TFGPU_MATRIX": "layer.yaml"})


def test_manifests(folder: Path) -> None:
    for name, text in (
        ("requirements.txt", f"tensorflow==2.15.1 # {BOMB}\nnumpy=={BOMB}\n{BOMB}==1\n-r {BOMB}\n"),
        ("Dockerfile", f"FROM {BOMB}\nRUN pip install tensorflow=={BOMB}\nENV A={BOMB}\n"),
        ("environment.yml", f"dependencies: [python=3.11, tensorflow=2.15, {QUOTED}]\nname: {QUOTED}\n"),
        ("pyproject.toml", f"[project]\nname = {QUOTED}\ndependencies = ['tensorflow', {QUOTED}]\n"),
    ):
        (folder / name).write_text(text)
        for form in choices("check"):
            harmless(folder, "check", name, "--format", form)


# ----------------------------------------------------------------------------------------- what the command line holds


def options() -> Iterator[tuple[str, ...]]:
    """A command line for each option that takes a value, and for each argument; what commands share, once."""
    seen = set()
    for words, command in commands():
        path = words.split()
        base = BASES.get(words) or BASES.get(path[0], ())
        for parameter in command.params if runs(command) else ():
            if isinstance(parameter, click.Argument):
                yield (*path, *(BOMB for _ in base))
            elif isinstance(parameter, click.Option) and not parameter.is_flag:
                name = parameter.opts[0]
                if (path[0], name, parameter.help) not in seen:
                    seen.add((path[0], name, parameter.help))
                    yield (*path, *(() if name in base else base), name, BOMB)


def test_names_and_values_of_options(folder: Path) -> None:
    for arguments in options():
        harmless(folder, *arguments)
    for path, _ in commands():
        harmless(folder, *path.split(), f"--{BOMB}")
    for group in ("", "bench", "matrix"):
        harmless(folder, *group.split(), BOMB)


def test_what_a_worker_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise TfgpuError(f"cannot measure with {BOMB}: ImportError: {BOMB}\nNext: tfgpu doctor")

    monkeypatch.setattr("tfgpu_doctor.commands.bench", fails)
    assert entry.run(["bench", "matpow"]) == 3
    shown = capsys.readouterr().err
    assert list(offences(shown)) == [] and shown.startswith("tfgpu: cannot measure with x")


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
