"""`tfgpu install --repair` in environments of made-up wheels: what is broken, what is done, and what is left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX
from tests.lab import Lab
from tests.loop.environments import CannotBeMadeError, Patient, Row
from tests.loop.faults import delete, put_over, uninstall
from tests.loop.machine import Machine, find_uv
from tests.loop.made_up import make_index
from tests.loop.made_up_rows import row
from tests.loop.test_loop import ROOM
from tests.probes.elf_lab import Forge
from tfgpu_doctor.install import repair
from tfgpu_doctor.install.commands import Commands
from tfgpu_doctor.install.failures import CommandError
from tfgpu_doctor.install.records import MANIFEST, Manifest, Proof
from tfgpu_doctor.install.repair import PENDING, Action, Repaired, Repairing
from tfgpu_doctor.install.repair_record import LOG, remaining

Make = Callable[..., Patient]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, driver_lab: Lab) -> dict[str, str]:
    return make_index(tmp_path_factory.mktemp("index"), driver_lab, Forge(tmp_path_factory.mktemp("forge")))


@pytest.fixture
def make(tmp_path: Path, index: dict[str, str], driver_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Environments, in a process whose variables lead to the made-up index; what is proved is tested elsewhere.

    No driver answers, whatever this machine has: the made-up TensorFlow cannot compute on a GPU.
    """
    driver = driver_lab.environ(cuinit=100, nvml_init=9)
    for name, value in {**driver, **index, "PATH": f"{Path(find_uv() or '.').parent}:/usr/bin:/bin"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(repair, "prove", lambda *_, **__: Proof(()))

    def of(*broken: Any, **more: Any) -> Patient:
        try:
            return Patient(
                row("patient", None, *broken, **more),
                tmp_path,
                Machine(tmp_path / "machine", driver_lab.libraries),
                index,
            )
        except CannotBeMadeError as error:
            pytest.skip(str(error))

    return of


class Watching:
    """Agrees to so much, and keeps what it was asked."""

    def __init__(self, agrees: bool = True) -> None:
        self.answer = agrees
        self.asked: list[Action] = []
        self.errors: list[str] = []

    def phase(self, label: str) -> None:
        del label

    def agrees(self, action: Action) -> bool:
        self.asked.append(action)
        return self.answer

    def failed(self, error: str) -> None:
        self.errors.append(error)


def repaired(patient: Patient, watching: Watching | None = None) -> Repaired:
    return Repairing(patient.prefix, MATRIX, watching or Watching()).run()


def files(folder: Path) -> set[tuple[str, int]]:
    return {(str(one), one.lstat().st_mtime_ns) for one in folder.rglob("*") if "__pycache__" not in str(one)}


FAULTS: dict[str, tuple[Sequence[Any], set[str]]] = {
    "three at once": (
        (uninstall("keras", "wrapt"), delete("numpy/__init__.py"), put_over("nvidia-cusolver-cu11==11.4.1.48")),
        {"tf.install-damaged"},
    ),
    "no __init__.py": ((delete("tensorflow/__init__.py"),), {"tf.install-damaged"}),
    "tensorflow-cpu on top": ((put_over("tensorflow-cpu==2.20.0"),), {"tf.package-conflict", "tf.install-damaged"}),
}
DAILY = ("three at once",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DAILY else pytest.mark.full) for name in FAULTS]
)
def test_what_is_broken_is_repaired_and_written_down(name: str, make: Make) -> None:
    broken, expected = FAULTS[name]
    patient = make(*broken)
    done = tfgpu("install", "--repair", "--yes", str(patient.prefix))
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = msgspec.json.decode((patient.prefix / MANIFEST).read_bytes(), type=Manifest)
    assert {step.finding for step in manifest.repairs[0].steps} <= expected
    assert manifest.repairs[0].healthy and manifest.option.tensorflow == "2.20.0"
    assert "exit code 0" in (patient.prefix / LOG).read_text()
    assert not (patient.prefix / PENDING).exists()
    assert patient.run(f"{patient.python} -c 'import tensorflow as tf; tf.keras'").code == 0
    before = files(patient.prefix)
    again = tfgpu("install", "--repair", "--yes", str(patient.prefix))
    assert (again.returncode, "nothing to repair" in again.stdout) == (0, True), again.stdout
    assert files(patient.prefix) == before


class Killed(BaseException):
    """The process ends here."""


# how much of a forced reinstallation was done when it was killed
MOMENTS = {"before": (), "between": ("uninstall",), "after": ("uninstall", "install")}


@pytest.mark.parametrize(
    "moment", [pytest.param(one, marks=() if one == "between" else pytest.mark.full) for one in MOMENTS]
)
def test_a_repair_that_was_killed_is_ended_by_the_next(
    moment: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = make(delete("tensorflow/__init__.py"))

    def run(self: Commands, what: str, argv: Sequence[str], **options: Any) -> str:
        del self, what, argv, options
        for step in MOMENTS[moment]:
            if step == "uninstall":
                patient.uninstall("tensorflow")
            else:
                patient.install("tensorflow==2.20.0", options=("--no-deps",))
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Commands, "run", run)
        repaired(patient)
    assert (patient.prefix / PENDING).exists()
    halves = patient.site / "~ensorflow"
    halves.mkdir()
    watching = Watching()
    found = repaired(patient, watching)
    assert found.healthy and not (patient.prefix / PENDING).exists() and halves.exists()
    assert watching.asked[0].commands[0][-1] == "tensorflow==2.20.0"  # the release that was there
    assert patient.run(f"{patient.python} -c 'import tensorflow as tf; tf.keras'").code == 0


@pytest.mark.full
def test_nothing_is_done_without_consent_and_what_fails_is_tried_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = make(delete("tensorflow/__init__.py"))
    before = files(patient.prefix)
    found = repaired(patient, Watching(agrees=False))
    assert found.refused and not found.steps and files(patient.prefix) == before
    done = tfgpu("install", "--repair", "--dry-run", str(patient.prefix))
    assert done.returncode == 1 and "--force-reinstall --no-deps tensorflow==2.20.0" in done.stdout.replace("\n", " ")
    assert files(patient.prefix) == before

    def fails(self: Commands, what: str, argv: Sequence[str], **options: Any) -> str:
        raise CommandError(what, "exit code 1", "ERROR: no matching distribution")

    monkeypatch.setattr(Commands, "run", fails)
    watching = Watching()
    found = repaired(patient, watching)
    assert not found.healthy and "tf.install-damaged" in remaining(found)
    assert len(watching.errors) == len(watching.asked) == len({action.key for action in watching.asked})


@pytest.mark.full
def test_what_was_uninstalled_is_installed_when_the_index_can_be_reached_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = make(put_over("tensorflow-cpu==2.20.0"))
    real = Commands.run

    def run(self: Commands, what: str, argv: Sequence[str], **options: Any) -> str:
        if "uninstall" in argv:
            return real(self, what, argv, **options)
        raise CommandError(what, "exit code 1", "ERROR: Max retries exceeded")

    with monkeypatch.context() as patched:
        patched.setattr(Commands, "run", run)
        found = repaired(patient)
    assert found.unreachable and len(found.steps) == 1 and (patient.prefix / PENDING).exists()
    assert repaired(patient).healthy and not (patient.prefix / PENDING).exists()


CU11 = ("cublas", "cuda-cupti", "cuda-nvcc", "cuda-runtime", "cufft", "curand", "cusolver", "cusparse")
REAL: dict[str, tuple[tuple[str, ...], Sequence[Any]]] = {
    "a deleted library": (("tensorflow[and-cuda]==2.17.1",), (delete("tensorflow/libtensorflow_framework.so.2"),)),
    "no keras": (("tensorflow[and-cuda]==2.17.1",), (uninstall("keras"),)),
    "cuDNN of CUDA 11 on top": (("tensorflow[and-cuda]==2.17.1",), (put_over("nvidia-cudnn-cu11==8.6.0.163"),)),
    "2.21.0": (("tensorflow[and-cuda]==2.21.0",), ()),
    "2.16.1": (("tensorflow[and-cuda]==2.16.1",), ()),
    "2.13.1": (("tensorflow==2.13.1", *(f"nvidia-{one}-cu11" for one in CU11), "nvidia-cudnn-cu11<9"), ()),
}


@pytest.mark.full  # gigabytes from the package index
@pytest.mark.parametrize("name", REAL)
def test_the_real_tensorflow_lists_its_gpu_in_a_bare_shell_afterwards(
    name: str, tmp_path: Path, driver_lab: Lab
) -> None:
    if shutil.disk_usage(tmp_path).free < ROOM:
        pytest.skip(f"needs {ROOM // 2**30} GiB of disk")
    machine = Machine(tmp_path / "machine", driver_lab.libraries)
    if not machine.private:
        pytest.skip("no mount namespace, in which the driver is in ld.so's cache")
    packages, broken = REAL[name]
    try:
        patient = Patient(Row(name, name, None, packages, tuple(broken)), tmp_path, machine, {})
        done = patient.run(f"tfgpu install --repair --yes {patient.prefix}")
        manifest = msgspec.json.decode((patient.prefix / MANIFEST).read_bytes(), type=Manifest)
        assert len(manifest.repairs[0].steps) == 1, done.output
        assert set(manifest.repairs[0].remaining) <= {"tf.run-failed"}, done.output  # where the stand-in ends
        listing = "import tensorflow as tf; tf.keras; print(len(tf.config.list_physical_devices('GPU')))"
        assert patient.run(f'{patient.python} -c "{listing}"').output.split()[-1:] == ["1"]
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ((), "no such folder"),
        (("env",), "not an environment"),
        (("env/bin/python",), "neither a virtual environment"),
        (("env/bin/python", "env/pyvenv.cfg", "env/.tfgpu-unfinished"), "was killed while"),
    ],
)
def test_folders_that_are_not_changed(made: tuple[str, ...], message: str, tmp_path: Path) -> None:
    for name in made:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name == "env" else path.touch()
    done = tfgpu("install", "--repair", "--yes", str(tmp_path / "env"))
    assert (done.returncode, message in done.stderr.replace("\n", " ")) == (2, True), done.stderr


def test_options_of_a_plan_do_not_go_with_it(tmp_path: Path) -> None:
    for more in (("--gpu", "H100"), ("--tensorflow", "2.17"), ("--method", "pip")):
        assert tfgpu("install", "--repair", "--yes", str(tmp_path), *more).returncode == 2


def test_an_interpreter_that_does_not_start_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").touch()
    os.symlink("/nonexistent/python", tmp_path / "bin" / "python")
    done = tfgpu("install", "--repair", "--yes", str(tmp_path))
    assert (done.returncode, "cannot start" in done.stderr or "no such" in done.stderr) == (3, True), done.stderr
