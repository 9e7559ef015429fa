"""`tfgpu doctor` from end to end, without the fault lab: patients, and what is not installed."""

from __future__ import annotations

import os

import pytest

from tests.fault_bench import PATIENTS, ROOT, MadeUp, examine, roots
from tests.tiers import usual

KEPT = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with nothing installed."""
    return MadeUp(tmp_path_factory.mktemp("bare") / "env").python


@pytest.mark.full  # by day, the real TensorFlow is examined in the fault lab
@pytest.mark.tensorflow
def test_this_machine(tensorflow_python: str) -> None:
    """A true diagnosis of the real TensorFlow, with the driver that this machine has or has not."""
    report = examine(tensorflow_python, environ=KEPT)
    assert report["schema"] == "tfgpu.report/1"
    assert report["facts"]["tensorflow"]["version"]["is"] == "known"
    assert [phase["outcome"] for phase in report["facts"]["tensorflow"]["phases"][:4]] == ["ok"] * 4
    if report["facts"]["host"]["pci_gpus"].get("value") == []:
        assert roots(report)[0] == "gpu.none"
        assert "gpu.not-visible" in report["findings"][0]["consequences"]


# folder of the patient → arguments, variables, what must be the first finding, how the import ended
PATIENT_FAULTS = {
    "import_error": ((), {}, "tf.import-failed", "raised"),
    "sleeps": (("--timeout", "3"), {}, "tf.import-hang", "timeout"),
    "dies_of_a_signal": ((), {"PATIENT_SIGNAL": "SIGILL"}, "tf.import-avx", "died"),
    "leaves_a_grandchild": ((), {}, "tf.import-failed", "raised"),
}


@pytest.mark.parametrize("name", usual(sorted(PATIENT_FAULTS), lambda name: name != "sleeps"))
def test_patients(name: str, bare_python: str) -> None:
    arguments, variables, first, outcome = PATIENT_FAULTS[name]
    environ = {**KEPT, "PYTHONPATH": f"{PATIENTS / name}{os.pathsep}{ROOT}", **variables}
    report = examine(bare_python, *arguments, environ=environ)
    phase = next(p for p in report["facts"]["tensorflow"]["phases"] if p["name"] == "import")
    assert phase["outcome"] == outcome
    if "--timeout" in arguments:  # shorter than an import may take: nothing is known
        severities = {finding["id"]: finding["severity"] for finding in report["findings"]}
        assert severities[first] == "note" and "error" not in {severities[one] for one in severities if "tf." in one}
    else:  # the latter where this machine has a GPU and another CUDA than the patient asks for
        assert roots(report)[0] in (first, "cuda.version-mismatch")


def test_nothing_installed(bare_python: str) -> None:
    report = examine(bare_python, environ=KEPT)
    assert roots(report)[0] == "tf.not-installed"
    commands = [c for fix in report["findings"][0]["fixes"] for c in fix["commands"]]
    assert any("pip install" in command for command in commands)


def test_no_import_leaves_tensorflow_alone(bare_python: str) -> None:
    environ = {**KEPT, "PYTHONPATH": f"{PATIENTS / 'exits'}{os.pathsep}{ROOT}"}
    report = examine(bare_python, "--no-import", environ=environ)
    phase = next(p for p in report["facts"]["tensorflow"]["phases"] if p["name"] == "import")
    assert phase["outcome"] == "skipped" and report["facts"]["tensorflow"]["file"]["is"] == "unknown"
