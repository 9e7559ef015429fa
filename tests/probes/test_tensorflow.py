"""The patient: every way in which a TensorFlow can fail is a fact, and leaves no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import msgspec
import psutil
import pytest

from tests.guard import eventually, guarded
from tests.lab import compiler
from tests.loop.environments import find_python
from tests.tables import read_rows
from tfgpu_doctor.facts.facts import ComputeCheck, Known, Phase, Unknown
from tfgpu_doctor.probes import launch, tensorflow
from tfgpu_doctor.probes.process import VARIABLE
from tfgpu_doctor.probes.tensorflow import ProbeResult, TensorFlowProbe

PATIENTS = Path(__file__).parents[1] / "patients"
ROWS = read_rows(Path(__file__).with_name("tensorflow.yaml"))
T = TypeVar("T")
Start = Callable[..., TensorFlowProbe]


def running() -> set[int]:
    """Processes that are no zombies, which someone else has to reap."""
    return {one.pid for one in psutil.process_iter(["status"]) if one.info["status"] != psutil.STATUS_ZOMBIE}


def gone(pid: int) -> bool:
    return eventually(lambda: pid not in running(), 5)


def starter() -> Iterator[Start]:
    """Start the examination of a patient by its folder's name; afterwards no child may be left."""
    probes: list[TensorFlowProbe] = []

    def start(
        case: str | Path, python: str = sys.executable, variables: dict[str, str] | None = None, **options: Any
    ) -> TensorFlowProbe:
        environ = {**os.environ, "PYTHONPATH": str(PATIENTS / case), **(variables or {})}
        with patch.dict(tensorflow.DEADLINES, options.pop("deadlines", {"import": 60.0})):
            probes.append(TensorFlowProbe(python, environ=environ, **options))
        return probes[-1]

    with guarded(200, waiting=True):
        yield start
    assert all(gone(one._child.process.pid) for one in probes if one._child)


start = pytest.fixture(starter)
start_several = pytest.fixture(starter, scope="module")


def phase(result: ProbeResult, name: str) -> Phase:
    return next(phase for phase in result.tensorflow.phases if phase.name == name)


def outcomes(result: ProbeResult) -> list[str]:
    """Of all phases but keras, which the patients without tf.keras skip."""
    return [phase.outcome for phase in result.tensorflow.phases if phase.name != "keras"]


def known(fact: Known[T] | Unknown) -> T:
    assert isinstance(fact, Known), fact
    return fact.value


def reason(fact: Known[T] | Unknown) -> str:
    assert isinstance(fact, Unknown), fact
    return fact.reason


def pyenv(version: str) -> str:
    """An interpreter of that version, or skip."""
    return find_python(version) or pytest.skip(f"no Python {version} here")


def program(file: Path, text: str) -> str:
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


# --------------------------------------------------------------------------------- what an import may do

IMPORTS: dict[str, dict[str, Any]] = ROWS["imports"]


@pytest.fixture(scope="module")
def results(start_several: Start, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ProbeResult]:
    """All patients, side by side."""
    variables = {"PATIENT_PIDFILE": str(tmp_path_factory.mktemp("pid") / "pid")}
    probes: dict[str, TensorFlowProbe] = {}
    for name, how in IMPORTS.items():
        folder, _, number = name.partition(" ")
        deadlines = {"import": 1.0 if how["outcome"] == "timeout" else 60.0}
        probes[name] = start_several(folder, variables={**variables, "PATIENT_SIGNAL": number}, deadlines=deadlines)
    found = {name: probe.result() for name, probe in probes.items()}
    assert gone(int(Path(variables["PATIENT_PIDFILE"]).read_text()))
    return found


def test_how_an_import_ends(results: dict[str, ProbeResult]) -> None:
    found = {name: phase(result, "import") for name, result in results.items()}
    told = {name: {key: getattr(found[name], key) for key in expected} for name, expected in IMPORTS.items()}
    assert told == IMPORTS
    for name, result in results.items():
        ended = found[name]
        if ended.outcome == "raised":
            assert not [line for line in ended.traceback if "tensorflow_probe" in line]  # the doctor's is no clue
            assert phase(result, "xla").note == reason(result.tensorflow.build) == "import raised"
        if ended.outcome != "ok":
            assert outcomes(result) == ["ok", "ok", ended.outcome, *["skipped"] * 5]
        if ended.outcome == "timeout" or ended.signal in ("SIGSEGV", "SIGABRT"):  # where in Python, though it is gone
            assert f"{name.split()[0]}/tensorflow/__init__.py" in ended.traceback[-1]
    assert results["import_error"].tensorflow_dir == str(PATIENTS / "import_error" / "tensorflow")
    assert found["import_error"].traceback[-1] == IMPORTS["import_error"]["exception"]
    killed = found["dies_of_a_signal SIGKILL"]
    assert "OOM killer" in (killed.note or "") and "the last words" in killed.log_tail
    segfault = results["dies_of_a_signal SIGSEGV"].tensorflow
    assert reason(segfault.devices).startswith("import: the process died of SIGSEGV")
    assert reason(results["sleeps"].tensorflow.file) == "import: no answer within 1 s"


def test_chatter_is_bounded_and_no_answer(results: dict[str, ProbeResult]) -> None:
    result = results["chatters"]
    log = known(result.tensorflow.log)
    assert len(log) == 400 and max(map(len, log)) == 2000
    assert '"version": "6.6.6"' in log[0] and log[-1].startswith("x" * 100)
    assert result.tensorflow.version != Known("6.6.6", f"tf.__version__ in {sys.executable}")
    assert isinstance(result.cudnn_runtime, Unknown)


def test_a_module_without_a_version(results: dict[str, ProbeResult]) -> None:
    result = results["no_version"]
    assert reason(result.tensorflow.version) == "the module has no __version__"
    assert (phase(result, "build").outcome, phase(result, "devices").outcome) == ("raised", "raised")
    assert phase(result, "compute").note == "devices raised"
    assert reason(results["odd_version"].tensorflow.version) == "tf.__version__ is not a string but a tuple"


@pytest.mark.parametrize("version", ["3.6", "3.13"])
def test_other_pythons(start: Start, version: str) -> None:
    python = pyenv(version)
    probes = [start("import_error", python), start("dies_of_a_signal", python, {"PATIENT_SIGNAL": "SIGSEGV"})]
    raised, died = (probe.result() for probe in probes)
    assert phase(raised, "import").exception == IMPORTS["import_error"]["exception"]
    assert reason(raised.tensorflow.version) == "no distribution of TensorFlow in this interpreter"
    assert str(known(raised.python.version)).startswith(version)
    ended = phase(died, "import")
    assert (ended.outcome, ended.signal) == ("died", "SIGSEGV") and "dies_of_a_signal" in ended.traceback[-1]
    leftover = start("leftover", python, until="import").result()  # a folder without __init__ counts last
    assert known(leftover.python.tensorflow_paths) == ()
    assert reason(leftover.tensorflow.file) == "tf.__file__ is not set"


def test_python_2(start: Start) -> None:
    result = start("no_version", python := pyenv("2.7")).result()
    assert (phase(result, "interpreter").note or "").endswith("is too old to be examined: 3.6 is the oldest")
    assert known(result.python.executable) == str(python)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the deadline holds")
def test_an_import_that_does_nothing_hangs_long_before_its_deadline(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that reads, or uses the CPU, or waits for a child that does, goes on to its end."""
    monkeypatch.setattr(tensorflow, "QUIET", 1.0)
    probes = {}
    for work in ("reads", "burns", "waits for a child that burns", "nothing"):
        variables = {"PATIENT_WORK": work, "PATIENT_SECONDS": "1000" if work == "nothing" else "1.6"}
        probes[work] = start("works", variables=variables, until="import")
    found = {work: phase(probe.result(), "import") for work, probe in probes.items()}
    hung = found.pop("nothing")
    assert {work: one.outcome for work, one in found.items()} == dict.fromkeys(found, "ok")
    assert (hung.outcome, hung.idle) == ("timeout", 1.0)
    assert hung.note == "the import has neither used the CPU nor read anything for 1 s"
    assert "works/tensorflow/__init__.py" in hung.traceback[-1]  # it was still asked where it hangs


def test_our_own_modules_hide_nothing(tmp_path: Path) -> None:
    """Started as a script, too, the folder of the doctor's probes (with its own tensorflow.py) is not on the path."""
    command = [pyenv("3.13"), str(tensorflow.SCRIPT), "--until", "import"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "No module named 'tensorflow'" in done.stdout
    assert str(tensorflow.SCRIPT.parent) not in done.stdout.split('"sys_path"')[1].split("]")[0]


def test_tf_keras_that_cannot_be_loaded_is_told_after_the_import(start: Start, tmp_path: Path) -> None:
    """TensorFlow 2.16 and newer load tf.keras on first use, and swallow its errors when they are imported."""
    (tmp_path / "sitecustomize.py").write_text("for number in range(3000): print('noise of the start', number)\n")
    (tmp_path / "tensorflow.py").write_text(
        "__version__ = '2.20.0'\n"
        "class keras:\n    def __getattr__(self, name):\n        raise ImportError('no ' + name)\n"
        "keras = keras()\n"
    )
    result = start(tmp_path).result()
    assert (phase(result, "keras").outcome, phase(result, "keras").exception) == ("raised", "ImportError: no layers")
    assert outcomes(result)[:3] == ["ok", "ok", "ok"]


# ------------------------------------------------------------------------------------- what is no Python


def test_what_is_no_python(start: Start, tmp_path: Path, subtests: pytest.Subtests) -> None:
    probes = []
    for number, (text, _, _) in enumerate(ROWS["programs"]):
        text = text.replace("PYTHON", sys.executable)
        path = program(tmp_path / f"python{number}", text) if text.startswith("#!") else text
        probes.append((path, start("no_version", path, deadlines={"interpreter": 1.0})))
    for (path, probe), (_, outcome, why) in zip(probes, ROWS["programs"], strict=True):
        with subtests.test(program=path):
            result = probe.result()
            assert outcomes(result) == [outcome, *["skipped"] * 7]
            assert reason(result.python.version).startswith(f"interpreter: {why.replace('PROGRAM', path)}")


def test_there_is_always_a_total_time(start: Start) -> None:
    probe = start("no_version", "/nowhere/python", deadlines={})
    assert probe._total == sum(tensorflow.DEADLINES.values()) + tensorflow.BETWEEN * len(tensorflow.DEADLINES)
    probe = start("no_version", "/nowhere/python", deadlines={}, total=600)  # as the doctor advises for a slow disk
    assert (probe._total, probe._deadlines["import"], probe._deadlines["interpreter"]) == (600, 600, 10)
    ended = phase(start("sleeps", total=1.0).result(), "import")
    assert (ended.outcome, ended.note) == ("timeout", "the 1 s for the whole examination were used up")


# ---------------------------------------------------------------------------------- GPUs that compute


def checks(result: ProbeResult) -> list[ComputeCheck]:
    return list(known(result.tensorflow.checks))


Gpu = Callable[..., TensorFlowProbe]


@pytest.fixture
def gpu(start: Start, tensorflow_python: str) -> Gpu:
    """Examine the TensorFlow with two imaginary GPUs (it needs NumPy, so the interpreter that has TensorFlow)."""

    def run(fault: str = "", **variables: str) -> TensorFlowProbe:
        deadlines = {name: 1.0 if f"{name} hang" in fault else 60.0 for name in ("devices", "xla")}
        return start("gpu", tensorflow_python, {"PATIENT_FAULT": fault, **variables}, deadlines=deadlines)

    return run


@pytest.fixture
def cudnn(tmp_path: Path) -> str:
    """A library that TensorFlow loads as cuDNN 9.10.2."""
    source, library = tmp_path / "cudnn.c", tmp_path / "libcudnn.so.9"
    source.write_text("#include <stddef.h>\nsize_t cudnnGetVersion(void) { return 91002; }\n")
    subprocess.run([*compiler(), "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return str(library)


def test_healthy_gpus(gpu: Gpu, cudnn: str) -> None:
    probe, dying = gpu("tf32", PATIENT_LIBRARY=cudnn), gpu("conv segfault", PATIENT_LIBRARY=cudnn)
    result = probe.result()
    assert known(result.loaded) == known(dying.result().loaded) == (cudnn,)
    assert known(result.cudnn_runtime) == "9.10.2"
    facts = {**msgspec.structs.asdict(result.tensorflow), "packages": result.python.packages}
    assert [name for name, fact in facts.items() if isinstance(fact, Unknown)] == []
    assert outcomes(result) == ["ok"] * 8
    assert [(check.device, check.kind, check.ok, check.error) for check in checks(result)] == [
        ("/GPU:0", "matmul", True, None),
        ("/GPU:0", "conv2d", True, None),
        ("/GPU:1", "matmul", True, None),
        ("/GPU:1", "conv2d", True, None),
        ("/GPU:0", "xla", True, None),
    ]
    assert all(check.residual is not None and check.residual < 1e-3 for check in checks(result))
    assert checks(result)[2].placed_on == "/job:localhost/replica:0/task:0/device:GPU:1"
    devices = known(result.tensorflow.devices)
    told = [(device.kind, device.device_name, device.compute_capability) for device in devices]
    assert told == [("CPU", None, None), *[("GPU", "NVIDIA Imaginary", "9.0")] * 2]
    assert known(result.tensorflow.build).compute_capabilities == ("sm_60", "compute_90")


def test_what_fails_stops_only_what_needs_it(gpu: Gpu, subtests: pytest.Subtests) -> None:
    rows = [(gpu(row[0]), *row) for row in ROWS["GPUs"]]  # side by side
    for probe, fault, expected, failing in rows:
        with subtests.test(fault=fault):
            result = probe.result()
            assert outcomes(result)[3:] == expected
            assert known(result.tensorflow.version) == "2.99.0" and isinstance(result.loaded, Known)
            if failing is None:
                assert isinstance(result.tensorflow.checks, Unknown)
            else:
                bad = {f"{check.device} {check.kind}": check.error or "" for check in checks(result) if not check.ok}
                assert bad.keys() == failing.keys()
                assert all(bad[name].startswith(error) for name, error in failing.items())
            assert fault != "devices hang" or "list_physical_devices" in phase(result, "devices").traceback[-1]


# --------------------------------------------------------------------------------------- the parent


def test_python_is_known_while_tensorflow_still_imports(start: Start) -> None:
    with start("sleeps") as patient:
        here = patient.python()
        assert patient._transcript.ending is None
        assert known(here.python.executable) == sys.executable
        assert here.site_packages
        assert here.tensorflow_dir == str(PATIENTS / "sleeps" / "tensorflow")
        patient.kill()
        assert phase(patient.result(), "import").note == "stopped by the doctor"


def test_until(start: Start, tmp_path: Path) -> None:
    """TensorFlow is left alone; installers are looked up on the path of the interpreter under test."""
    for name in ("pip", "uv"):
        program(tmp_path / name, "#!/bin/sh\n")
    result = start("dies_of_a_signal", variables={"PATH": str(tmp_path)}, until="packages").result()
    assert outcomes(result) == ["ok", "ok", *["skipped"] * 6]
    assert {phase.note for phase in result.tensorflow.phases[2:]} == {"TensorFlow was not started"}
    assert known(result.python.installers) == ("pip", "uv")


def test_child_dies_with_its_parent() -> None:
    code = (
        "import sys, time; from tfgpu_doctor.probes.tensorflow import TensorFlowProbe\n"
        "patient = TensorFlowProbe(sys.executable); patient.python(); time.sleep(0.3)\n"
        "print(patient._child.process.pid, flush=True); time.sleep(1000)"
    )
    dies_with_its_parent(code, {"PYTHONPATH": str(PATIENTS / "holds_the_gil")})


def dies_with_its_parent(code: str, variables: dict[str, str]) -> None:
    """A program that prints the id of its child is killed, and has no chance to clean up."""
    environ = {**os.environ, **variables}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        parent.kill()
        assert gone(child)


WORKER = """
import sys, time
from pathlib import Path
from tfgpu_doctor.bench.runner.process import WorkerError, WorkerProcess
worker = WorkerProcess(sys.argv[1], script=Path(sys.argv[2]))
print(worker.ask(60, do="farewell")["pid"], flush=True)
time.sleep(1000)
"""


def test_a_worker_that_measures_dies_with_its_parent(tmp_path: Path) -> None:
    """It reads no standard input then, whose end would tell it."""
    script = tmp_path / "worker.py"
    busy = "re.match('(a+)+b', 'a' * 50)"
    answer = """'{"to": "farewell", "pid": %d}' % os.getpid()"""
    script.write_text(f"import os, re\nprint({answer}, flush=True)\n{busy}\n")
    python = program(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    code = WORKER.replace("sys.argv[1]", repr(python)).replace("sys.argv[2]", repr(str(script)))
    # a parent that is killed cannot remove the temporary folder of its worker
    dies_with_its_parent(code, {"TMPDIR": str(tmp_path)})


def test_a_tether_that_a_wrapper_has_closed_is_none() -> None:
    """The number may be another file's then, which is left as it is."""
    end, other = os.pipe()
    try:
        argv, environ = launch.command({**os.environ, launch.TETHER: f"{end}:1"}, sys.executable, os.devnull)
        done = subprocess.run(argv, env=environ, pass_fds=[end], check=False, stderr=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (0, b"")
        assert os.get_blocking(end)
    finally:
        os.close(end)
        os.close(other)


def test_environment_reaches_tensorflow_unchanged(start: Start, tmp_path: Path) -> None:
    """Save for the mark that descendants are known by."""
    (tmp_path / "tensorflow.py").write_text("import os\nraise ImportError(repr(sorted(os.environ)))\n")
    found = phase(start(tmp_path).result(), "import").exception
    assert found == f"ImportError: {sorted({*os.environ, 'PYTHONPATH', VARIABLE})!r}"[:2000]


# ------------------------------------------------------------------------------- the real TensorFlow


@pytest.mark.full
@pytest.mark.tensorflow
def test_real_tensorflow(tensorflow_python: str) -> None:
    """With `--kind CPU` the whole script runs against the real thing on a machine without a GPU, too."""
    script = [tensorflow_python, str(tensorflow.SCRIPT), "--kind", "CPU"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=300, check=True)
    patient = tensorflow.Transcript(tensorflow_python)
    assert all(patient.add(line) for line in done.stdout.splitlines())
    patient.ending = tensorflow.Ending("ended", 0, stderr=done.stderr)
    result = patient.result(())
    assert known(result.python.pip) in (True, False)
    assert [phase.outcome for phase in result.tensorflow.phases if phase.name != "details"] == ["ok"] * 8
    distribution = known(result.tensorflow.distribution)
    packages = {package.name: package for package in known(result.python.packages)}
    assert packages["tensorflow"].requires and {"numpy", "protobuf", "keras"} <= set(packages)
    assert packages[str(distribution)].version == known(result.tensorflow.version)
    assert str(known(result.tensorflow.file)).startswith(str(result.tensorflow_dir))
    assert any("libtensorflow_framework" in path for path in known(result.loaded))
    found = [(check.kind, check.ok) for check in checks(result) if check.device == "/CPU:0"]
    assert found == [("matmul", True), ("conv2d", True), ("xla", True)]
