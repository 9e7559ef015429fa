"""The repair that is printed, for texts of the same words with other facts: law 11."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.findings.rows_over_facts import packages
from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, healthy, known, sonames, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Candidate, ComputeCheck, Facts, Soname, Unknown
from tfgpu_doctor.facts.report import Finding, Fix, Severity
from tfgpu_doctor.findings import xla
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.target import describe

NO_RUNTIME_VERSION = "ImportError: cannot import name 'runtime_version' from 'google.protobuf' (/e/google/__init__.py)"
DESCRIPTORS = "TypeError: Descriptors cannot be created directly."

ROWS = read_rows(Path(__file__).parent / "rows" / "repairs.yaml")
FIRST = dict(ROWS["first"])  # text → the first command
# text → what the first command begins with; what no command and no sentence has
ADVISED = {row["text"]: (row["begins"], row["never"]) for row in ROWS["advised"]}


def fixes(text: str) -> tuple[Fix, ...]:
    """Those of the first finding."""
    return findings(text)[0].fixes


@each("text", FIRST)
def test_the_first_command(text: str) -> None:
    assert fixes(text)[0].commands[0] == FIRST[text]


def test_a_release_for_the_installed_protobuf_is_one_that_takes_it() -> None:
    """2.20.0 does not: the fix for this TensorFlow is the only one."""
    assert not [fix for fix in fixes(NO_RUNTIME_VERSION) if "2.20.0" in fix.text]
    assert [fix.text for fix in fixes(DESCRIPTORS)][1].endswith("pip installs the protobuf that it needs with it")


@each("text", ADVISED)
def test_what_the_text_tells_decides_on_the_repair(text: str) -> None:
    begins, never = ADVISED[text]
    commands = [command for fix in fixes(text) for command in fix.commands]
    assert (commands[:1] or [""])[0].startswith(begins)
    assert not [fix for fix in fixes(text) if never in " ".join((fix.text, *fix.commands))]


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


def test_an_image_with_kernels_for_the_gpu_needs_its_driver() -> None:
    (fix,) = fixes(
        "docker run --gpus all nvcr.io/nvidia/tensorflow:25.02-tf2-py3\nRTX 5090\nfailed with 'CUDA_ERROR_INVALID_PTX'"
    )
    assert fix.text.startswith("Install NVIDIA driver 570 or newer")


OFFERED = "ERROR: Could not find a version that satisfies the requirement tensorflow-gpu==2.8 (from versions: {})"


@each("versions", ["2.12.0", "1.14.0rc0, 2.8.0, 2.8.4, 2.9.0, 2.12.0"])
def test_a_release_that_pip_does_not_find_is_kept_under_the_name_tensorflow(versions: str) -> None:
    commands = fixes(f"pip install tensorflow-gpu==2.8\n{OFFERED.format(versions)}")[0].commands
    assert any(" tensorflow==2.8" in one and "nvidia-cudnn-cu11" in one for one in commands), commands


# ----------------------------------------------------------- libraries that come before those of pip, and XLA

PARTS = "needs libcudnn_ops.so.9, not found"
CUBLAS = "needs libcublasLt.so.12, not found"


def without_cuda(component: str, problem: str, via: str = "LD_LIBRARY_PATH") -> Facts:
    """A plain `pip install tensorflow`, and one library that cannot be loaded."""

    def spoiled(library: Soname) -> Soname:
        file = Candidate(path=f"/opt/other/{library.soname}", via=via, reachable=True, problem=problem)
        found = (file,) if library.component == component else ()
        return msgspec.structs.replace(library, candidates=found, winner=None)

    changes = {
        "loader.sonames": known(tuple(map(spoiled, sonames()))),
        "variables": known({"LD_LIBRARY_PATH": "/opt/other:/opt/rest"}),
        "cudnn.installed": known(()),
        "cudnn.runtime": Unknown("it cannot be loaded"),
    }
    return spoil(healthy(), changes)


def causes(facts: Facts) -> dict[str, Finding]:
    return {one.id: one for one in diagnose(facts, MATRIX).findings if one.root_cause}


@each(
    ("component", "problem", "finding"),
    [
        ("cudnn", "empty file", "cudnn.lib-path"),
        ("cudnn", PARTS, "cudnn.dep-missing"),
        ("cudart", "empty file", "cuda.lib-path"),
    ],
)
def test_what_hides_the_wheels_is_a_cause_of_its_own(component: str, problem: str, finding: str) -> None:
    found = causes(without_cuda(component, problem))
    assert {"cuda.missing", finding} <= set(found)
    assert found[finding].evidence[0].source.startswith("/opt/other/")
    assert "loader does not find" not in found[finding].title, "it finds another one"


@each(
    ("problem", "via"),
    [
        (CUBLAS, "LD_LIBRARY_PATH"),  # installing CUDA brings it
        ("empty file", "ldconfig"),  # the wheels come before it
        (PARTS, "ldconfig"),
    ],
)
def test_what_installing_cuda_heals_is_a_consequence(problem: str, via: str) -> None:
    found = causes(without_cuda("cudnn", problem, via))
    assert "cuda.missing" in found
    assert not [one for one in found if one.startswith("cudnn.")]


def test_the_damaged_file_is_renamed_and_a_foreign_one_leaves_the_path() -> None:
    damaged = causes(without_cuda("cudnn", "empty file"))["cudnn.lib-path"].fixes[0].commands
    assert damaged == ("mv /opt/other/libcudnn.so.9 /opt/other/libcudnn.so.9.broken",)
    foreign = causes(without_cuda("cudnn", PARTS))["cudnn.dep-missing"].fixes[0].commands
    assert foreign == ("export LD_LIBRARY_PATH=/opt/rest",)


@each(("version", "severity"), [("2.10.1", None), ("2.11.0", Severity.WARNING), ("a fork's own", None), ("", None)])
def test_only_a_release_that_is_known_to_need_it_is_warned_about(version: str, severity: Severity | None) -> None:
    release = msgspec.structs.replace(
        MATRIX.releases(platform="linux_x86_64", package="tensorflow")[0], version=version
    )
    assert xla._severity(release, 1, (), "ptxas") is severity


@each(
    ("changes", "command"),
    [
        ({}, "/env/bin/python -m pip install 'nvidia-cuda-nvcc-cu12>=12.5.82"),
        ({"tensorflow.version": known("2.14.1")}, "/env/bin/python -m pip install nvidia-cuda-nvcc-cu11"),
        ({"tensorflow.version": known("2.12.1")}, "/env/bin/python -m pip install nvidia-cuda-nvcc-cu11"),
    ],
)
def test_the_compiler_of_this_release_is_advised(changes: dict[str, Any], command: str) -> None:
    failed = ComputeCheck(device="/GPU:0", kind="xla", ok=False, error="INTERNAL: libdevice not found")
    facts = spoil(healthy(), {"tensorflow.checks": known((failed,)), "cuda.libdevice": known(()), **changes})
    found = {one.id: one for one in diagnose(facts, MATRIX).findings}["xla.libdevice-missing"]
    assert found.severity is Severity.ERROR
    assert found.fixes[0].commands[0].startswith(command)
