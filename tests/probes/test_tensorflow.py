"""The patient: every way in which a TensorFlow can fail is a fact, and leaves no process behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from tests.guard import guarded
from tests.tiers import usual
from tfgpu_doctor.probes import launch, tensorflow
from tfgpu_doctor.probes.process import VARIABLE
from tfgpu_doctor.probes.tensorflow import ProbeResult, TensorFlowProbe
from tfgpu_doctor.records.facts import ComputeCheck, Known, Phase, Unknown

PATIENTS = Path(__file__).parents[1] / "patients"
QUICK = {"import": 1.0, "devices": 1.0, "xla": 1.0}

T = TypeVar("T")
Examine = Callable[..., ProbeResult]


def gone(pid: int, within: float = 5.0) -> bool:
    """Whether the process ends, or is at most a zombie that someone else has to reap."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def examine() -> Iterator[Examine]:
    """Examine a patient by its folder's name; afterwards no child may be left."""
    pids: list[int] = []

    def run(
        case: str | Path, python: str = sys.executable, variables: dict[str, str] | None = None, **options: object
    ) -> ProbeResult:
        environ = {**os.environ, "PYTHONPATH": str(PATIENTS / case), **(variables or {})}
        options = {"deadlines": QUICK if "hang" not in str(case) else {"import": 1.0}, **options}
        with TensorFlowProbe(python, environ=environ, **options) as patient:  # type: ignore[arg-type]
            if patient._child is not None:
                pids.append(patient._child.process.pid)
            return patient.result()

    yield run
    assert all(gone(pid) for pid in pids)


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
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [*sorted(root.glob(f"versions/{version}.*/bin/python")), shutil.which(f"python{version}")]
    if not found[0]:
        pytest.skip(f"no Python {version} here")
    return str(found[0])


# ------------------------------------------------------------------------------ imports that fail


@pytest.mark.parametrize("python", ["this", "3.6", "3.8", "3.13"])
def test_raising_import(examine: Examine, python: str) -> None:
    result = examine("import_error", python=sys.executable if python == "this" else pyenv(python))
    ended = phase(result, "import")
    text = "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory"
    assert (ended.outcome, ended.exception, ended.traceback[-1]) == ("raised", text, text)
    assert not [line for line in ended.traceback if "tensorflow_probe" in line]  # the line of the doctor is no clue
    assert outcomes(result) == ["ok", "ok", "raised", *["skipped"] * 5]
    assert phase(result, "xla").note == "import raised"
    assert reason(result.tensorflow.build) == "import raised"
    # the interpreter of the tests may have a TensorFlow of its own behind the patient
    assert python == "this" or reason(result.tensorflow.version) == "no distribution of TensorFlow in this interpreter"
    assert result.tensorflow_dir == str(PATIENTS / "import_error" / "tensorflow")
    assert python == "this" or str(known(result.python.version)).startswith(python)


@pytest.mark.parametrize(
    ("case", "exception"),
    [
        ("system_exit", "SystemExit: no licence found"),
        ("keyboard_interrupt", "KeyboardInterrupt"),
        ("unprintable", "Mute: <message cannot be printed>"),
        ("not_utf8", "ImportError: cannot open /srv/??"),
        ("chatters", "ImportError: after 5 MB"),
    ],
)
def test_what_an_import_may_raise(examine: Examine, case: str, exception: str) -> None:
    result = examine(case)
    assert (phase(result, "import").outcome, phase(result, "import").exception) == ("raised", exception)


def test_chatter_is_bounded_and_no_answer(examine: Examine) -> None:
    result = examine("chatters")
    log = known(result.tensorflow.log)
    assert len(log) == 400 and max(map(len, log)) == 2000
    assert '"version": "6.6.6"' in log[0] and log[-1].startswith("x" * 100)
    assert result.tensorflow.version != Known("6.6.6", f"tf.__version__ in {sys.executable}")
    assert isinstance(result.cudnn_runtime, Unknown)


@pytest.mark.parametrize("python", ["this", "3.6"])
@pytest.mark.parametrize("name", ["SIGILL", "SIGSEGV", "SIGABRT", "SIGKILL"])
def test_deadly_signal(examine: Examine, name: str, python: str) -> None:
    executable = sys.executable if python == "this" else pyenv(python)
    result = examine("dies_of_a_signal", executable, {"PATIENT_SIGNAL": name})
    ended = phase(result, "import")
    assert (ended.outcome, ended.signal, ended.exit_code) == ("died", name, None)
    assert "the last words" in ended.log_tail
    assert name == "SIGKILL" or "dies_of_a_signal" in ended.traceback[-1]  # where in Python it died
    assert name != "SIGKILL" or "OOM killer" in (ended.note or "")
    assert reason(result.tensorflow.devices).startswith(f"import: the process died of {name}")
    assert outcomes(result)[3:] == ["skipped"] * 5


def test_signal_behind_a_shell_wrapper(examine: Examine, tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\n"{sys.executable}" "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    ended = phase(examine("dies_of_a_signal", str(wrapper), {"PATIENT_SIGNAL": "SIGILL"}), "import")
    assert (ended.outcome, ended.signal, ended.exit_code) == ("died", "SIGILL", 128 + signal.SIGILL)


def test_silent_exit(examine: Examine) -> None:
    ended = phase(examine("exits"), "import")
    assert (ended.outcome, ended.exit_code, ended.signal) == ("died", 0, None)


@pytest.mark.parametrize(
    "case", usual(["sleeps", "ignores_sigterm", "holds_the_gil"], lambda case: case == "holds_the_gil")
)
def test_hanging_import(examine: Examine, case: str) -> None:
    with guarded(120, waiting=True):
        result = examine(case)
    ended = phase(result, "import")
    assert (ended.outcome, ended.note) == ("timeout", "no answer within 1 s")
    assert ended.seconds is not None and ended.seconds >= 1.0
    assert f"{case}/tensorflow/__init__.py" in ended.traceback[-1]  # where it hangs, although nobody could ask Python
    assert reason(result.tensorflow.file) == "import: no answer within 1 s"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the deadline holds")
def test_an_import_that_does_nothing_hangs_long_before_its_deadline() -> None:
    """One that reads, or uses the CPU, or waits for a child that does, goes on to its end."""
    quiet, seconds = 1.0, "1.6"
    probes = {}
    for work in ("reads", "burns", "waits for a child that burns", "nothing"):
        environ = {
            **os.environ,
            "PYTHONPATH": str(PATIENTS / "works"),
            "PATIENT_WORK": work,
            "PATIENT_SECONDS": seconds,
        }
        if work == "nothing":
            environ["PATIENT_SECONDS"] = "1000"
        probes[work] = TensorFlowProbe(sys.executable, environ=environ, until="import", quiet=quiet)
    found = {work: phase(probe.result(), "import") for work, probe in probes.items()}
    hung = found.pop("nothing")
    assert {work: one.outcome for work, one in found.items()} == dict.fromkeys(found, "ok")
    assert (hung.outcome, hung.idle) == ("timeout", quiet)
    assert (hung.note or "").startswith("the import has neither used the CPU nor read anything for 1 s; until then ")
    assert "works/tensorflow/__init__.py" in hung.traceback[-1]  # it was still asked where it hangs


def test_a_process_that_is_forked_off_does_not_speak(examine: Examine) -> None:
    result = examine("forks")
    assert phase(result, "import").exception == "ImportError: of the parent"


def test_grandchild_that_keeps_the_pipes(examine: Examine, tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    result = examine("leaves_a_grandchild", variables={"PATIENT_PIDFILE": str(pidfile)}, deadlines={"import": 60.0})
    assert (phase(result, "import").outcome, phase(result, "import").exit_code) == ("died", 7)
    assert gone(int(pidfile.read_text()))


# --------------------------------------------------------------------------- imports that succeed


def test_module_without_version(examine: Examine) -> None:
    result = examine("no_version")
    assert phase(result, "import").outcome == "ok"
    assert reason(result.tensorflow.version) == "the module has no __version__"
    assert (phase(result, "build").outcome, phase(result, "devices").outcome) == ("raised", "raised")
    assert phase(result, "compute").note == "devices raised"


def test_version_that_is_no_text(examine: Examine) -> None:
    assert reason(examine("odd_version").tensorflow.version) == "tf.__version__ is not a string but a tuple"


def test_script_of_the_user_hides_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `python -c`, the current folder comes first: the doctor must see the user's tensorflow.py."""
    environ = {**os.environ, "PYTHONPATH": str(PATIENTS / "odd_version")}
    monkeypatch.chdir(PATIENTS / "shadow")
    with TensorFlowProbe(sys.executable, environ=environ, until="import") as patient:
        result = patient.result()
    paths = known(result.python.tensorflow_paths)
    assert paths[:2] == (
        str(PATIENTS / "shadow" / "tensorflow.py"),
        str(PATIENTS / "odd_version" / "tensorflow"),
    )
    assert known(result.tensorflow.version) == "my first network"
    assert result.tensorflow_dir is None


def test_leftover_folder_counts_last(examine: Examine) -> None:
    python = pyenv("3.13")
    result = examine("leftover", python)
    assert known(result.python.tensorflow_paths) == ()
    assert reason(result.tensorflow.file) == "the module has no __file__"


def test_our_own_modules_hide_nothing(tmp_path: Path) -> None:
    """Started as a script, too, the folder of the doctor's probes (with its own tensorflow.py) is not on the path."""
    script = tensorflow.SCRIPT
    done = subprocess.run(
        [pyenv("3.13"), str(script), "--until", "import"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert "No module named 'tensorflow'" in done.stdout
    assert str(script.parent) not in done.stdout.split('"sys_path"')[1].split("]")[0]


# ----------------------------------------------------------------------------- what is no Python


PROGRAMS = (
    ("/nowhere/python", "died", "no such program: PROGRAM"),
    ("/", "died", "/ is a folder, not an interpreter"),
    ("true", "died", "true is no Python interpreter"),
    ("ls", "died", "ls is no Python interpreter: it wrote "),
    ("#!/nowhere/python3\n", "died", "cannot start PROGRAM: the interpreter that it needs itself is missing"),
    ("#!/bin/sh\nseq 3000", "died", "PROGRAM is no Python interpreter: it wrote '1'"),
    ("#!/bin/sh\nseq 3000; exec sleep 1000", "timeout", "no answer within 1 s; is PROGRAM a Python? It wrote '1'"),
    ("#!/bin/sh\nexec yes", "timeout", ""),
    # what dies may be a Python; a wrapper around it passes that on
    ("#!/bin/sh\nkill -SEGV $$", "died", "the process died of SIGSEGV"),
    ("#!/bin/sh\nexit 139", "died", "the process died of SIGSEGV"),
    ("#!/bin/sh\necho MemoryError >&2; exit 1", "died", "the process ended, exit code 1 (MemoryError)"),
)


def test_what_is_no_python(
    examine: Examine, tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for program, outcome, why in PROGRAMS:
        with subtests.test(program=program):
            path = program
            if program.startswith("#!"):
                path = str(tmp_path_factory.mktemp("row") / "python")
                Path(path).write_text(program)
                Path(path).chmod(0o755)
            result = examine("no_version", path, deadlines={"interpreter": 1.0})
            assert outcomes(result) == [outcome, *["skipped"] * 7]
            assert reason(result.python.version).startswith(f"interpreter: {why.replace('PROGRAM', path)}")


NOISE = "for number in range(3000): print('noise', number)\n"


def test_noise_of_the_start_is_no_answer(examine: Examine, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    result = examine(tmp_path, until="packages")
    assert outcomes(result)[:2] == ["ok", "ok"]


REPEATS = """
import sys, time
while True:
    print('{"tfgpu": "patient/1", "event": "start", "phase": "interpreter"}')
    print('{"tfgpu": "patient/1", "event": "start", "phase": "import"}', flush=True)
    time.sleep(0.05)
"""


def test_an_event_that_is_repeated_renews_nothing(examine: Examine, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\n{REPEATS}")
    program.chmod(0o755)
    with guarded(60, waiting=True):
        result = examine("no_version", str(program), deadlines={"interpreter": 0.5})
    assert outcomes(result) == ["timeout", *["skipped"] * 7]
    assert phase(result, "interpreter").note == "no answer within 0.5 s"


def test_there_is_always_a_total_time() -> None:
    with TensorFlowProbe("/nowhere/python") as probe:
        assert probe._total == sum(tensorflow.DEADLINES.values()) + tensorflow.BETWEEN * len(tensorflow.DEADLINES)
    with TensorFlowProbe("/nowhere/python", total=600) as probe:  # as the doctor advises for a slow disk
        assert (probe._total, probe._deadlines["import"], probe._deadlines["interpreter"]) == (600, 600, 10)


def test_python_2(examine: Examine) -> None:
    result = examine("no_version", pyenv("2.7"))
    assert (phase(result, "interpreter").note or "").endswith("is too old to be examined: 3.6 is the oldest")


# ---------------------------------------------------------------------------------- GPUs that compute


def checks(result: ProbeResult) -> list[ComputeCheck]:
    found: tuple[ComputeCheck, ...] = known(result.tensorflow.checks)
    return list(found)


@pytest.fixture
def gpu(examine: Examine, tensorflow_python: str) -> Callable[..., ProbeResult]:
    """Examine the TensorFlow with two imaginary GPUs (it needs NumPy, so the interpreter that has TensorFlow)."""

    def run(fault: str = "", **variables: str) -> ProbeResult:
        deadlines = {"devices": 1.0 if fault == "devices hang" else 60.0, "xla": 1.0 if fault == "xla hang" else 60.0}
        return examine("gpu", tensorflow_python, {"PATIENT_FAULT": fault, **variables}, deadlines=deadlines)

    return run


@pytest.mark.parametrize("fault", ["", "tf32"])
def test_healthy_gpus(gpu: Callable[..., ProbeResult], fault: str) -> None:
    result = gpu(fault)
    assert outcomes(result) == ["ok"] * 8
    found = [(check.device, check.kind, check.ok, check.error) for check in checks(result)]
    assert found == [
        ("/GPU:0", "matmul", True, None),
        ("/GPU:0", "conv2d", True, None),
        ("/GPU:1", "matmul", True, None),
        ("/GPU:1", "conv2d", True, None),
        ("/GPU:0", "xla", True, None),
    ]
    assert all(check.residual is not None and check.residual < 1e-3 for check in checks(result))
    assert checks(result)[2].placed_on == "/job:localhost/replica:0/task:0/device:GPU:1"
    devices = known(result.tensorflow.devices)
    assert [(device.kind, device.device_name, device.compute_capability) for device in devices] == [
        ("CPU", None, None),
        ("GPU", "NVIDIA Imaginary", "9.0"),
        ("GPU", "NVIDIA Imaginary", "9.0"),
    ]
    assert known(result.tensorflow.build).compute_capabilities == ("sm_60", "compute_90")


def test_computation_that_fails(gpu: Callable[..., ProbeResult], subtests: pytest.Subtests) -> None:
    for fault, failing, error in [
        ("wrong", ["/GPU:1 matmul"], "wrong result: off by 1.4 of its size, at most 0.005 can be rounding"),
        ("nan", ["/GPU:0 matmul", "/GPU:1 matmul", "/GPU:0 xla"], "the result holds NaN or infinity"),
        ("shape", ["/GPU:0 matmul", "/GPU:1 matmul", "/GPU:0 xla"], "the result's shape is (1, 128), not (256, 128)"),
        ("on the CPU", ["/GPU:0 matmul", "/GPU:1 matmul"], "asked for /GPU:0, computed on /job:localhost/replica:0"),
        ("raises", ["/GPU:0 matmul", "/GPU:1 matmul", "/GPU:0 xla"], "RuntimeError: CUDA_ERROR_INVALID_PTX"),
    ]:
        with subtests.test(fault=fault):
            result = gpu(fault)
            bad = [check for check in checks(result) if not check.ok]
            assert [f"{check.device} {check.kind}" for check in bad] == failing
            assert (bad[0].error or "").startswith(error)
            assert phase(result, "compute").outcome == "ok"  # the phase went through; its checks tell what they found


def test_devices_hang(gpu: Callable[..., ProbeResult]) -> None:
    result = gpu("devices hang")
    assert outcomes(result) == ["ok", "ok", "ok", "ok", "timeout", "skipped", "skipped", "skipped"]
    assert known(result.tensorflow.version) == "2.99.0"
    assert "list_physical_devices" in phase(result, "devices").traceback[-1]
    assert isinstance(result.loaded, Known)  # told after the import already


def test_phase_that_fails_stops_only_what_needs_it(gpu: Callable[..., ProbeResult], subtests: pytest.Subtests) -> None:
    for fault, expected in [
        ("devices raise", ["ok", "raised", "skipped", "skipped", "skipped"]),
        ("details raise", ["ok", "ok", "raised", "ok", "ok"]),
        ("build raises", ["raised", "ok", "ok", "ok", "ok"]),
        ("no libdevice", ["ok", "ok", "ok", "ok", "raised"]),
        ("xla hang", ["ok", "ok", "ok", "ok", "timeout"]),
        ("conv segfault", ["ok", "ok", "ok", "died", "skipped"]),
    ]:
        with subtests.test(fault=fault):
            assert outcomes(gpu(fault))[3:] == expected


def test_crash_in_a_computation_names_device_and_kind(gpu: Callable[..., ProbeResult]) -> None:
    result = gpu("conv segfault")
    last = checks(result)[-1]
    assert (last.device, last.kind, last.ok, last.error) == ("/GPU:1", "conv2d", False, "the process died of SIGSEGV")
    assert [check.ok for check in checks(result)] == [True, True, True, False]


def test_loaded_libraries_and_cudnn_version(gpu: Callable[..., ProbeResult], tmp_path: Path) -> None:
    source, library = tmp_path / "cudnn.c", tmp_path / "libcudnn.so.9"
    source.write_text("#include <stddef.h>\nsize_t cudnnGetVersion(void) { return 91002; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    result = gpu(PATIENT_LIBRARY=str(library))
    assert known(result.loaded) == (str(library),)
    assert known(result.cudnn_runtime) == "9.10.2"
    crashed = gpu("conv segfault", PATIENT_LIBRARY=str(library))
    assert known(crashed.loaded) == (str(library),)


# --------------------------------------------------------------------------------------- the parent


def test_python_is_known_while_tensorflow_still_imports() -> None:
    environ = {**os.environ, "PYTHONPATH": str(PATIENTS / "sleeps")}
    with TensorFlowProbe(sys.executable, environ=environ) as patient:
        here = patient.python()
        assert patient._transcript.ending is None
        assert known(here.python.executable) == sys.executable
        assert here.site_packages
        assert here.tensorflow_dir == str(PATIENTS / "sleeps" / "tensorflow")
        patient.kill()
        result = patient.result()
    assert phase(result, "import").note == "stopped by the doctor"


def test_until(examine: Examine) -> None:
    result = examine("dies_of_a_signal", until="packages")
    assert outcomes(result) == ["ok", "ok", *["skipped"] * 6]
    assert {phase.note for phase in result.tensorflow.phases[2:]} == {"TensorFlow was not started"}


def test_tf_keras_that_cannot_be_loaded_is_told_after_the_import(tmp_path: Path) -> None:
    """TensorFlow 2.16 and newer load tf.keras on first use, and swallow its errors when they are imported."""
    (tmp_path / "tensorflow.py").write_text(
        "__version__ = '2.20.0'\n"
        "class keras:\n    def __getattr__(self, name):\n        raise ImportError('no ' + name)\n"
        "keras = keras()\n"
    )
    with TensorFlowProbe(sys.executable, environ={**os.environ, "PYTHONPATH": str(tmp_path)}) as patient:
        result = patient.result()
    assert (phase(result, "keras").outcome, phase(result, "keras").exception) == ("raised", "ImportError: no layers")
    assert outcomes(result)[:3] == ["ok", "ok", "ok"]


def test_total_time(examine: Examine) -> None:
    result = examine("sleeps", deadlines={"import": 60.0}, total=1.5)
    assert phase(result, "import").outcome == "timeout"
    assert phase(result, "import").note == "the 1.5 s for the whole examination were used up"


@pytest.mark.parametrize("case", ["sleeps", "holds_the_gil"])
def test_child_dies_with_its_parent(case: str) -> None:
    code = (
        "import sys, time; from tfgpu_doctor.probes.tensorflow import TensorFlowProbe\n"
        "patient = TensorFlowProbe(sys.executable); patient.python(); time.sleep(0.3)\n"
        "print(patient._child.process.pid, flush=True); time.sleep(1000)"
    )
    dies_with_its_parent(code, {"PYTHONPATH": str(PATIENTS / case)})


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
print(worker.ask(60, do="farewell")["pid"], flush=True)  # whose answer has no form
time.sleep(1000)
"""


@pytest.mark.parametrize("wrapper", [False, True])
@pytest.mark.parametrize("sample", ["time.sleep(1000)", "re.match('(a+)+b', 'a' * 50)"], ids=["waits", "holds the GIL"])
def test_a_worker_that_measures_dies_with_its_parent(sample: str, wrapper: bool, tmp_path: Path) -> None:
    """It reads no standard input then, whose end would tell it."""
    script = tmp_path / "worker.py"
    script.write_text(f"import os, re, time\nprint('{{\"pid\": %d}}' % os.getpid(), flush=True)\n{sample}\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    code = WORKER.replace("sys.argv[1]", repr(str(python if wrapper else sys.executable)))
    # a parent that is killed cannot remove the temporary folder of its worker
    dies_with_its_parent(code.replace("sys.argv[2]", repr(str(script))), {"TMPDIR": str(tmp_path)})


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


def test_environment_reaches_tensorflow_unchanged(examine: Examine, tmp_path: Path) -> None:
    """Save for the mark that descendants are known by."""
    (tmp_path / "tensorflow.py").write_text("import os\nraise ImportError(repr(sorted(os.environ)))\n")
    result = examine(tmp_path)
    assert phase(result, "import").exception == f"ImportError: {sorted({*os.environ, 'PYTHONPATH', VARIABLE})!r}"[:2000]


def test_installers_are_looked_up_on_the_patients_path(tmp_path: Path) -> None:
    for name in ("pip", "uv"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    with TensorFlowProbe(sys.executable, environ={"PATH": str(tmp_path)}, until="packages") as patient:
        assert known(patient.result().python.installers) == ("pip", "uv")


# ------------------------------------------------------------------------------- the real TensorFlow


@pytest.mark.full
@pytest.mark.tensorflow
def test_real_tensorflow(tensorflow_python: str) -> None:
    """With `kind="CPU"` the whole script runs against the real thing on a machine without a GPU, too."""
    with TensorFlowProbe(tensorflow_python, kind="CPU") as patient:
        assert known(patient.python().python.pip) in (True, False)
        result = patient.result()
    assert [phase.outcome for phase in result.tensorflow.phases if phase.name != "details"] == ["ok"] * 8
    distribution = known(result.tensorflow.distribution)
    packages = {package.name: package for package in known(result.python.packages)}
    assert packages["tensorflow"].requires and {"numpy", "protobuf", "keras"} <= set(packages)
    assert packages[str(distribution)].version == known(result.tensorflow.version)
    assert str(known(result.tensorflow.file)).startswith(str(result.tensorflow_dir))
    assert any("libtensorflow_framework" in path for path in known(result.loaded))
    assert [(check.kind, check.ok) for check in checks(result) if check.device == "/CPU:0"] == [
        ("matmul", True),
        ("conv2d", True),
        ("xla", True),
    ]
