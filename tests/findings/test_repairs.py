"""The repair that is printed, for texts of the same words with other facts: law 11."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.findings.rows_over_facts import packages
from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Unknown
from tfgpu_doctor.facts.report import Severity
from tfgpu_doctor.findings import xla
from tfgpu_doctor.matrix.names import known_library
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.target import describe

NO_RUNTIME_VERSION = "ImportError: cannot import name 'runtime_version' from 'google.protobuf' (/e/google/__init__.py)"

ROWS = read_rows(Path(__file__).parent / "rows" / "repairs.yaml")
FIRST = dict(ROWS["first"])  # text → the first command
# text → what its first command begins with, what a sentence or a command and the title have, and what none has
ADVISED = {row["text"]: row for row in ROWS["advised"]}


@each("text", FIRST)
def test_the_first_command(text: str) -> None:
    assert findings(text)[0].fixes[0].commands[0] == FIRST[text]


@each("text", ADVISED)
def test_what_the_text_tells_decides_on_the_repair(text: str) -> None:
    row, first = ADVISED[text], findings(text)[0]
    commands = [command for fix in first.fixes for command in fix.commands]
    assert (commands[:1] or [""])[0].startswith(row["begins"])
    assert row.get("title", "") in first.title
    shown = "\n".join((*(fix.text for fix in first.fixes), *commands))
    assert row.get("has", "") in shown and row["never"] not in shown


NO_TENSORFLOW = {
    "python.packages": packages(),
    "python.tensorflow_paths": known(()),
    "tensorflow.version": Unknown("not installed"),
}
NO_GPU = {"gpus": known(()), "host.pci_gpus": known(())}


def test_without_a_gpu_the_doctor_advises_what_plan_does() -> None:
    found = diagnose(spoil(healthy(), {**NO_TENSORFLOW, **NO_GPU}), MATRIX).findings
    plan = make_plan(MATRIX, describe(MATRIX, python="3.12"), state=MachineState(no_gpu=True))
    (commands,) = (one.fixes[0].commands for one in found if one.id == "tf.not-installed")
    assert commands == (f"/env/bin/python -m pip install tensorflow=={plan.options[0].tensorflow}",)


# file name → component, its version, the CUDA that it belongs to where the name tells
NAMES: dict[str, list[str | None]] = ROWS["library_names"]


def test_file_names_of_libraries() -> None:
    found = {name: library for name in (*NAMES, *ROWS["other_files"]) if (library := known_library(name))}
    assert {name: [one.component, one.version, one.cuda_version] for name, one in found.items()} == NAMES
    optional = {"libcupti.so.11.2", "libnccl.so.2", "libnvinfer.so.7", "libnvinfer_plugin.so.8.6.1"}
    assert {name for name, one in found.items() if one.optional} == optional


@each(("version", "severity"), [("2.10.1", None), ("2.11.0", Severity.WARNING), ("a fork's own", None), ("", None)])
def test_only_a_release_that_is_known_to_need_it_is_warned_about(version: str, severity: Severity | None) -> None:
    release = msgspec.structs.replace(
        MATRIX.releases(platform="linux_x86_64", package="tensorflow")[0], version=version
    )
    assert xla._severity(release, 1, (), "ptxas") is severity
