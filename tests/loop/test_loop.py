"""Every command that the doctor advises first is executed as printed, and must repair the environment.

Round the loop: the doctor, its first fix executed as printed, the doctor in another shell.
"""

from __future__ import annotations

import inspect
import json
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab
from tests.loop import faults
from tests.loop.environments import CannotBeMadeError, Fault, Machine, Patient, Row
from tests.loop.made_up import WORKS, make_index
from tests.probes.elf_lab import Forge
from tests.tables import read_rows
from tests.tiers import usual

LIMIT_OF_THE_STAND_IN = "API call is not supported"
# what a person deletes by hand, since no command edits startup files
_A_LINE = re.compile(r"delete line (\d+) of ([^\s,;]+)")
# commands that make an environment of their own, and those that say which interpreter to look at next
NEW_ENVIRONMENT = re.compile(r"(?:-m venv|uv venv)\b.* (\S+)$")
# what the command refuses to do, and what it says to do about it
EXAMINED = re.compile(r"tfgpu doctor .*--python (\S+)|^(\S+/python[\d.]*) -c 'import tensorflow\b")


@dataclass
class Outcome:
    """What came of one row."""

    found: list[str] = field(default_factory=list)  # problems of the first run: root causes, without notes
    rank: int | None = None  # of the expected finding among them
    notes: list[str] = field(default_factory=list)  # findings of the first run that are no problems
    rounds: list[list[str]] = field(default_factory=list)  # the commands of each round
    cured: bool = False
    why: str = ""  # what is left, when it is not

    def as_expected(self, row: Row) -> bool:
        """Whether the fault was named first (or both of two were), and its advice repaired the environment in time."""
        first = self.rank is not None and self.rank <= row.problems and len(self.found) <= row.problems
        named = first or (not self.found and (row.finding is None or any(map(row.expects, self.notes))))
        return named and self.cured and len(self.rounds) <= row.rounds


def problems(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The root causes that are errors or warnings, less the limit of the stand-in for the driver."""

    def of_the_stand_in(finding: Mapping[str, Any]) -> bool:
        child = [one["saw"] for one in finding["evidence"] if one["source"] == "the child process"]
        return finding["id"] == "tf.run-failed" and all(LIMIT_OF_THE_STAND_IN in saw for saw in child)

    causes = (one for one in report["findings"] if one["root_cause"] and one["severity"] != "note")
    return [one for one in causes if not one.get("possible") and not of_the_stand_in(one)]


def follow(row: Row, folder: Path, machine: Machine, index: Mapping[str, str]) -> Outcome:
    """Make the environment of a row, follow the advice, and say what came of it."""
    patient, outcome = Patient(row, folder, machine, index), Outcome()
    examined = patient.examined
    for number in range(row.rounds + 2):  # further rounds tell whether it is slow or useless
        begins = row.begins.format(python=patient.python) if row.begins and number == 0 else None
        doctor = f"tfgpu doctor --format json --python {shlex.quote(examined)}"
        report, trouble = _explained(patient, begins) if begins else _report(patient, doctor)
        left = problems(report) if report else []
        if number == 0:
            outcome.found = [one["id"] for one in left]
            outcome.notes = [one["id"] for one in report["findings"] if one["severity"] == "note"] if report else []
            outcome.rank = next((n for n, one in enumerate(outcome.found, 1) if row.expects(one)), None)
        if report is None:
            outcome.why = trouble
            return outcome
        if not left:
            devices = report["facts"]["tensorflow"]["devices"].get("value") or ()
            healthy = not begins and any(one["kind"] == "GPU" for one in devices)
            none = "no problem is named, and TensorFlow lists no GPU"
            outcome.why = _works(row, patient, examined) if healthy else none
            outcome.cured = not outcome.why
            return outcome
        outcome.why = f"{left[0]['id']}: {left[0]['title']}"
        fix = next((one for one in left[0]["fixes"] if one["commands"] or _A_LINE.search(one["text"])), None)
        if fix is None or (fix["commands"] and fix["commands"] in outcome.rounds) or number > row.rounds:
            outcome.why += "; no commands" if fix is None else "; the same again" if number <= row.rounds else ""
            return outcome
        outcome.rounds.append(fix["commands"])
        for number_of_line, file in _A_LINE.findall(fix["text"]):
            lines = Path(file).read_text().splitlines(keepends=True)
            Path(file).write_text("".join(lines[: int(number_of_line) - 1] + lines[int(number_of_line) :]))
        ended = _execute(patient, fix["commands"])
        if ended:
            outcome.why += f"; {ended}"
        if following := _next_examined(fix["commands"], patient):
            examined = following
            patient.activated = Path(following).parent / "activate"
    return outcome


def _explained(patient: Patient, command: str) -> tuple[dict[str, Any] | None, str]:
    """What the tool makes of the output of a command that fails."""
    pasted = f"$ {command}\n" + (done := patient.run(f"{command} 2>&1")).stdout
    assert done.returncode, f"{command} does not fail"
    (patient.cwd / "pasted.txt").write_text(pasted)
    return _report(patient, "tfgpu explain pasted.txt --format json")


def _report(patient: Patient, command: str) -> tuple[dict[str, Any] | None, str]:
    done = patient.run(command, limit=240)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return None, f"no report: {(done.stderr or done.stdout).strip()[-900:]}"
    return report, ""


def _execute(patient: Patient, commands: list[str]) -> str:
    """Paste the commands into one fresh shell. What they unset stays unset: nobody sets it again."""
    mark = "tfgpu-loop-variables"
    done = patient.run("\n".join([*commands, "code=$?", f"echo; echo {mark}", "env -0", "exit $code"]))
    left = {one.partition("=")[0] for one in done.stdout.rpartition(mark + "\n")[2].split("\0")}
    for name in [name for name in patient.variables if name not in left]:
        del patient.variables[name]
    return f"the commands ended with {done.returncode}: {done.stderr.strip()[-300:]}" if done.returncode else ""


def _next_examined(commands: list[str], patient: Patient) -> str | None:
    """The interpreter that the commands lead to, when that is another one."""
    for command in reversed(commands):
        if found := EXAMINED.search(command):
            return shlex.split(found[1] or found[2])[0].replace("~", str(patient.home), 1)
        if found := NEW_ENVIRONMENT.search(command):
            return shlex.split(found[1])[0].replace("~", str(patient.home), 1) + "/bin/python"
    return None


def _works(row: Row, patient: Patient, python: str) -> str:
    """What fails of importing, training with Keras and the check of all requirements; empty when all is well."""
    quoted = shlex.quote(python)
    fit = f"CUDA_VISIBLE_DEVICES=-1 {quoted} -c {shlex.quote(row.check)}"
    has_pip = any(Path(python).parents[1].glob("lib/python3*/site-packages/pip/__init__.py"))
    check = f"{quoted} -m pip check" if has_pip else f"{patient.uv} pip check --python {quoted}"
    done = patient.run(f"{fit} || exit 3\n{check}", limit=300)
    step = {0: "", 3: "training fails: "}.get(done.returncode, "pip check: ")
    return step and step + (done.stderr or done.stdout).strip()[-200:]


TABLE = read_rows(Path(__file__).with_name("rows.yaml"))
ROOM = 12 * 2**30  # bytes: an environment with TensorFlow and CUDA, a second one, and what is downloaded


def fault_of(named: dict[str, Any]) -> Fault:
    """Return a fault by its name and arguments ({put_over: [numpy==2.0.2]})."""
    options = {
        name: tuple(value) if isinstance(value, list) else value for name, value in named.pop("with", {}).items()
    }
    ((name, arguments),) = named.items()
    fault = getattr(faults, name)
    inspect.signature(fault).bind(None, *arguments, **options)
    return lambda patient: fault(patient, *arguments, **options)


def row_of(row: dict[str, Any]) -> Row:
    return Row(**row | {"packages": tuple(row["packages"]), "broken": tuple(map(fault_of, row.get("broken", ())))})


ROWS = tuple(map(row_of, (*TABLE["REVIEWED"], *TABLE["NEW"])))
OF_MADE_UP = {"packages": ["tensorflow[and-cuda]==2.20.0"], "check": WORKS}
OF_MADE_UP["python"] = f"{sys.version_info[0]}.{sys.version_info[1]}"
MADE_UP = tuple(row_of({"fault": row["name"], **OF_MADE_UP, **row}) for row in TABLE["MADE_UP"])


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, driver_lab: Lab) -> Machine:
    driver_lab.cuda()
    return Machine(tmp_path_factory.mktemp("machine"), driver_lab.libraries)


@pytest.fixture(scope="session")
def made_up_index(tmp_path_factory: pytest.TempPathFactory, driver_lab: Lab) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("index")
    return make_index(folder, driver_lab, Forge(tmp_path_factory.mktemp("forge")))


def is_cured(row: Row, folder: Path, machine: Machine, index: dict[str, str]) -> None:
    try:
        outcome = follow(row, folder, machine, index)
    except CannotBeMadeError as error:
        pytest.skip(str(error))
    assert outcome.as_expected(row), outcome


DAILY = ("no CUDA", "cuDNN 8", "no keras and no wrapt", "tensorflow-cpu on top", "tensorflow.py here", "hidden GPU")


@pytest.mark.parametrize("row", usual(MADE_UP, lambda row: row.name in DAILY), ids=lambda row: row.name)
def test_made_up(row: Row, tmp_path: Path, machine: Machine, made_up_index: dict[str, str]) -> None:
    if machine.has_own_cudnn:
        pytest.skip("this machine has a cuDNN, and no unshare to hide it with")
    is_cured(row, tmp_path, machine, made_up_index)


@pytest.mark.full  # gigabytes from the package index; twenty minutes for all rows, -k real-a17 for one
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"real-{row.name}")
def test_real(row: Row, tmp_path: Path, machine: Machine) -> None:
    if shutil.disk_usage(tmp_path).free < ROOM:
        pytest.skip(f"needs {ROOM // 2**30} GiB of disk")
    try:
        is_cured(row, tmp_path, machine, {})
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)
