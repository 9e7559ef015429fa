"""What the checks of a finished environment find: each way in which an import or a training can end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.fault_bench import MadeUp
from tests.guard import guarded
from tests.healthy import MATRIX, healthy, known, sonames
from tests.tables import each
from tfgpu_doctor.install import proof
from tfgpu_doctor.install.proof import bare, judged, prove
from tfgpu_doctor.install.tools import Proof, Step
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.probes.examine import Examination
from tfgpu_doctor.records.facts import DamagedPackage, Facts, Known, Unknown

RELEASE = MATRIX.tensorflow("2.21.0", "linux_x86_64")
WORKS = """
__version__ = "2.21.0"
from types import SimpleNamespace as _Names
class _Model:
    def __init__(self, layers): pass
    def compile(self, **options): pass
    def fit(self, *data, **options): print("epoch 1")
    def evaluate(self, *data, **options): return 0.25
keras = _Names(Sequential=_Model, layers=_Names(Dense=lambda *sizes, **options: None))
"""
# source of tensorflow/__init__.py → state and text of the steps import and keras
ENDINGS = {
    "works": (WORKS, ("ok", "TensorFlow 2.21.0"), ("ok", "loss 0.25")),
    "another release": (WORKS.replace("2.21.0", "2.20.0"), ("failed", "2.20.0 was imported"), ("ok", "loss")),
    "raises": ("raise ImportError('no wrapt')", ("failed", "ImportError: no wrapt"), ("skipped", "")),
    "dies": ("import os; os.kill(os.getpid(), 11)", ("failed", "ended by SIGSEGV"), ("skipped", "")),
    "hangs": ("import time; time.sleep(60)", ("failed", "did not end within 1 s"), ("skipped", "")),
    "exits": ("import sys; sys.exit(0)", ("failed", "exit code 0"), ("skipped", "")),
    "lies": ("print('tfgpu-proof'); raise ImportError('x')", ("failed", "ImportError"), ("skipped", "")),
    "dies and leaves a file": (
        "import os, tempfile; tempfile.mkstemp(); os._exit(3)",
        ("failed", "exit code 3"),
        ("skipped", ""),
    ),
    "no Keras": ('__version__ = "2.21.0"', ("ok", ""), ("failed", "has no attribute 'keras'")),
    "dies late": (WORKS.replace('print("epoch 1")', "exit(3)"), ("ok", ""), ("failed", "exit code 3")),
    "no number": (WORKS.replace("0.25", "float('nan')"), ("ok", ""), ("failed", "the loss is not a number")),
}


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> MadeUp:
    made = MadeUp(tmp_path_factory.mktemp("proof") / "env")
    (made.site / "tensorflow").mkdir()
    (made.site / "numpy.py").write_text(
        "class _A:\n    def __getattr__(self, name): return lambda *a, **k: self\n"
        "    def __truediv__(self, other): return self\n"
        "arange = lambda *a, **k: _A()\nravel = lambda value: [value]\n"
    )
    return made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The doctor is tested elsewhere; what hangs is stopped soon."""
    monkeypatch.setattr(proof, "examine", lambda *_, **__: Examination(healthy(), {}))
    monkeypatch.setattr(proof, "IMPORT", 1.0)
    yield


def steps_of(env: MadeUp, source: str, environ: dict[str, str] | None = None) -> tuple[Proof, dict[str, Step]]:
    shutil.rmtree(env.site / "tensorflow")
    (env.site / "tensorflow").mkdir()
    (env.site / "tensorflow" / "__init__.py").write_text(source)
    begun: list[str] = []
    assert RELEASE is not None
    prefix = Path(env.python).parents[1]
    found = prove(prefix, RELEASE, begun.append, matrix=MATRIX, environ={**os.environ, **(environ or {})})
    assert begun == [step.name for step in found.steps if step.name in begun]
    return found, {step.name: step for step in found.steps}


@each("name", ENDINGS)
def test_how_the_import_and_the_training_end(name: str, env: MadeUp) -> None:
    source, *expected = ENDINGS[name]
    found, steps = steps_of(env, source)
    for step, (state, text) in zip((steps["import"], steps["keras"]), expected, strict=True):
        assert (step.state, text in step.text) == (state, True), step.text
    assert found.report is not None and not found.ok  # the libraries of the made-up facts are not there
    assert steps["libraries"].state == "failed" and "No such file" in steps["libraries"].text


def test_a_step_that_is_told_again_and_again_renews_no_deadline(env: MadeUp) -> None:
    said = proof.proof_child.MARK + "import 2.20.0"
    source = f"import time\nwhile True: print({said!r}, flush=True); time.sleep(0.1)"
    with guarded(60, waiting=True):
        _, steps = steps_of(env, source)
    assert steps["keras"].text == "did not end within 1 s"


def test_the_variables_of_the_user_play_no_part(env: MadeUp, tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError('of PYTHONPATH')")
    disturbing = {"PYTHONPATH": str(tmp_path), "LD_LIBRARY_PATH": "/x", "XLA_FLAGS": "--x", "TF_USE_LEGACY_KERAS": "1"}
    _, steps = steps_of(env, WORKS, disturbing)
    assert steps["import"].state == "ok"
    kept = {"HOME": "/home/x", "PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1", "https_proxy": "http://p"}
    assert bare({**kept, **disturbing, "CUDA_HOME": "/x", "PIP_TARGET": "/x"}) == kept


def changed(**tensorflow: object) -> Facts:
    facts = healthy()
    return msgspec.structs.replace(facts, tensorflow=msgspec.structs.replace(facts.tensorflow, **tensorflow))


def of_machine(**changes: object) -> Facts:
    return msgspec.structs.replace(healthy(), **changes)  # type: ignore[arg-type]


def without_gpu() -> Facts:
    facts = changed(devices=known(()), checks=known(()))
    host = msgspec.structs.replace(facts.host, pci_gpus=known((), "/sys/bus/pci/devices"))
    return msgspec.structs.replace(facts, host=host, gpus=known(()))


def with_lost_cudnn() -> Facts:
    lost = tuple(
        msgspec.structs.replace(one, winner=None, candidates=()) if one.component == "cudnn" else one
        for one in sonames()
    )
    facts = changed(devices=known(()), checks=known(()))
    return msgspec.structs.replace(facts, loader=msgspec.structs.replace(facts.loader, sonames=known(lost)))


@each(
    ("facts", "state"),
    [
        (healthy(), "ok"),
        (without_gpu(), "warning"),  # an image is built
        (with_lost_cudnn(), "failed"),
        (of_machine(gpus=Unknown("NVML"), tensorflow=changed(checks=Unknown("none")).tensorflow), "warning"),
    ],
)
def test_a_missing_gpu_is_a_warning_and_a_missing_library_a_failure(facts: Facts, state: str) -> None:
    assert judged(make_report(facts, MATRIX, source="live", timings={}))[0] == state


def test_files_and_libraries_that_are_missing(env: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = DamagedPackage(name="keras", version="3.10.0", record="RECORD", missing=("keras/__init__.py",), files=1)
    facts = with_lost_cudnn()
    facts = msgspec.structs.replace(facts, python=msgspec.structs.replace(facts.python, damaged=Known((damaged,), "")))
    monkeypatch.setattr(proof, "examine", lambda *_, **__: Examination(facts, {}))
    _, steps = steps_of(env, WORKS)
    assert (steps["doctor"].state, steps["libraries"].state) == ("failed", "failed")
    assert "keras" in steps["doctor"].text and "libcudnn.so.9" in steps["libraries"].text


def test_libraries_are_opened_in_the_environment(env: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    here = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    found = tuple(msgspec.structs.replace(one, winner=here) for one in sonames())
    facts = healthy()
    facts = msgspec.structs.replace(facts, loader=msgspec.structs.replace(facts.loader, sonames=known(found)))
    monkeypatch.setattr(proof, "examine", lambda *_, **__: Examination(facts, {}))
    _, steps = steps_of(env, WORKS)
    assert (steps["libraries"].state, steps["libraries"].text) == ("ok", "7 libraries opened")


def test_an_interpreter_that_is_gone_fails_every_step(tmp_path: Path) -> None:
    assert RELEASE is not None
    found = prove(tmp_path, RELEASE, lambda _: None, matrix=MATRIX, environ=dict(os.environ))
    states = {step.name: step.state for step in found.steps}
    assert (states["pip check"], states["import"], states["keras"]) == ("failed", "failed", "skipped")
