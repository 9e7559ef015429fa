"""An installation from its begin to its end: with pip over tiny wheels, and interrupted at every moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.runner import tfgpu
from tests.guard import guarded
from tests.healthy import MATRIX, healthy
from tests.install.fakes import CUDNN, GPU, TENSORFLOW, fake_conda, fake_uv, left_in, write_index
from tfgpu_doctor.facts.report import decode_saved, load_report
from tfgpu_doctor.install import folder as folders
from tfgpu_doctor.install import making
from tfgpu_doctor.install.folder import MARKER
from tfgpu_doctor.install.tools import LOCK, MANIFEST, REPORT, Added, Manifest, Step, StepState
from tfgpu_doctor.plan.diagnosis import make_report

LIBRARY = Added("lib/libcusolver.so.11", "link", "TensorFlow does not look there")
Answer = Callable[[StepState, str], None]


@pytest.fixture(autouse=True)
def proven(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """The proof has tests of its own; here it answers as told."""
    report = make_report(healthy(), MATRIX, source="live", timings={})

    def answer(state: StepState, text: str) -> None:
        monkeypatch.setattr(making, "prove", lambda *_: (Step("doctor", state, text, 0.1), report))

    monkeypatch.setattr(making, "add_library_paths", lambda prefix, release: (LIBRARY,))
    answer("warning", "no GPU here")
    return answer


@pytest.fixture(autouse=True)
def room_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made here is small, whatever the real packages would take; test_parts.py has the test of the room."""
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**12))


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to install into, and the fake uv on PATH."""
    fake_uv(tmp_path / "programs")
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def install(folder: Path, *arguments: str, yes: bool = True, **environ: str) -> subprocess.CompletedProcess[str]:
    more = ("--yes",) if yes else ()
    return tfgpu("install", *arguments, *more, *GPU, cwd=folder, environ=environ)


# ------------------------------------------------------------------------------------------------ with the real pip


def test_pip_makes_it_from_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = write_index(tmp_path / "index")
    (tmp_path / "work").mkdir()
    for name in ("json.py", "pip.py", "venv.py"):
        (tmp_path / "work" / name).write_text("raise SystemExit('code of the current directory')\n")
    elsewhere = {"PIP_TARGET": "/nowhere", "PYTHONPATH": "/nowhere", "PIP_NO_DEPS": "1"}
    environ = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "../index", "PIP_CONFIG_FILE": os.devnull, **elsewhere}
    done = install(tmp_path / "work", "two words", "--method", "pip", **environ)
    prefix = tmp_path / "work" / "two words"
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "work").glob("two*")) == ["two words"]
    lock = (prefix / LOCK).read_text()
    assert f"tensorflow=={TENSORFLOW}\n" in lock and f"nvidia-cudnn-cu12=={CUDNN}\n" in lock
    manifest = decode_saved((prefix / MANIFEST).read_bytes(), Manifest, "it", "manifest")
    assert (manifest.method, manifest.option.tensorflow, manifest.prefix) == ("pip", TENSORFLOW, str(prefix))
    assert (manifest.steps[0].text, manifest.added) == ("no GPU here", (LIBRARY,))
    assert load_report((prefix / REPORT).read_bytes(), "it").verdict == "ok"
    assert not {MARKER, ".tfgpu-temporary"} & set(os.listdir(prefix))
    assert list(prefix.glob("lib/python3.*/site-packages/tensorflow")) and index.exists()
    answer = " ".join(done.stdout.split())
    assert "use it source '" in answer and "two words/bin/activate'" in answer
    assert "ignored PIP_NO_DEPS, PIP_TARGET, PYTHONPATH" in answer
    assert "what could not be verified here is marked above" in answer


# ------------------------------------------------------------------------------------------------ with the fake uv


def test_uv_is_taken_where_it_is(uv: Path) -> None:
    done = install(uv, "env")
    manifest = json.loads((uv / "env" / MANIFEST).read_bytes())
    assert (done.returncode, manifest["method"]) == (0, "uv")
    first, second, third = (ran["argv"] for ran in manifest["commands"])
    assert (first[1], second[1:3], third[1:]) == ("venv", ["pip", "install"], ["-I", "-m", "pip", "freeze", "--all"])
    assert second[-1] == f"tensorflow[and-cuda]=={TENSORFLOW}" and "tfgpu: installing the packages\n" in done.stderr


def test_conda_brings_what_only_conda_forge_has(uv: Path) -> None:
    fake_conda(uv.parent / "programs")
    done = tfgpu("install", "env", "--yes", "--gpu", "RTX 5090", "--driver", "570", "--method", "conda", cwd=uv)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((uv / "env" / MANIFEST).read_bytes())
    argv = manifest["commands"][0]["argv"]
    assert argv[1:7] == ["install", "--yes", "--prefix", str(uv / "env"), "--channel", "conda-forge"]
    assert any(word.startswith("tensorflow=") for word in argv) and manifest["method"] == "conda"
    assert (uv / "env" / LOCK).read_text() == "@EXPLICIT\n" and "conda activate" in done.stdout


@pytest.mark.parametrize("exists", [False, True])
def test_a_dry_run_touches_nothing_and_shows_the_commands(uv: Path, exists: bool) -> None:
    if exists:
        (uv / "env").mkdir()
        os.utime(uv / "env", (1, 1))
    os.utime(uv, (1, 1))
    done = install(uv, "env", "--dry-run", yes=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [one.stat().st_mtime for one in (uv, *uv.iterdir())] == [1] * (2 if exists else 1)
    command = f"/uv pip install --python {uv}/env/bin/python --only-binary :all: 'tensorflow[and-cuda]=={TENSORFLOW}'"
    assert command in done.stdout


def test_without_a_terminal_it_does_not_ask(uv: Path) -> None:
    done = install(uv, "env", yes=False)
    assert done.returncode == 2 and "add --yes to install, or --dry-run" in done.stderr


@pytest.mark.parametrize(("answer", "made"), [("y", True), ("", False), ("no", False)])
def test_at_a_terminal_it_asks(uv: Path, answer: str, made: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfgpu_doctor.cli.install._can_ask", lambda: True)
    done = tfgpu("install", "env", *GPU, input=f"{answer}\n", cwd=uv)
    assert done.returncode == 0 and "Install it? [y/N]" in done.stderr
    assert (uv / "env" / MANIFEST).exists() == made


SAID = {
    "venv begin": ("error: Permission denied (os error 13)", 1),
    "venv end": ("error: Request failed after 3 retries\\n  Caused by: dns error", 3),
    "install begin": ("  x No solution found when resolving dependencies:", 1),
    "install end": ("error: Failed to extract archive: No space left on device (os error 28)", 1),
}


@pytest.mark.parametrize("moment", SAID)
def test_a_failure_leaves_a_log_and_nothing_else(uv: Path, moment: str) -> None:
    says, code = SAID[moment]
    done = install(uv, "env", TFGPU_TEST_FAIL=moment, TFGPU_TEST_SAYS=says)
    assert (done.returncode, left_in(uv)) == (code, [])
    assert "failed: " in done.stdout and "tfgpu: removing" in done.stderr
    assert says.split("\\n")[0] in (uv / "env.tfgpu-install.log").read_text()


def test_what_does_not_work_is_removed(uv: Path, proven: Answer) -> None:
    proven("failed", "No module named 'keras'")
    done = install(uv, "env")
    assert (done.returncode, left_in(uv)) == (1, [])
    assert "does not work (No module named 'keras')" in " ".join(done.stdout.split())


def test_a_log_replaces_nothing(uv: Path) -> None:
    (uv / "precious").write_text("precious")
    (uv / "env.tfgpu-install.log").symlink_to("precious")
    done = install(uv, "env", TFGPU_TEST_FAIL="venv begin", TFGPU_TEST_SAYS="no")
    assert (done.returncode, (uv / "precious").read_text()) == (1, "precious")
    assert "no\n" in (uv / "env.tfgpu-install.2.log").read_text()


@pytest.mark.parametrize("method", ["uv", "conda"])
def test_a_program_that_is_missing(tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfgpu_doctor.install.tools.find_uv", lambda environ: None)
    done = install(tmp_path, "env", "--method", method, PATH=str(tmp_path), CONDA_EXE="")
    assert done.returncode == 2 and f"--method {method}: {method} is not on PATH" in done.stderr
    assert left_in(tmp_path) == []


def test_what_only_conda_has_is_not_blamed_on_an_option(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "CONDA_EXE": ""}
    done = tfgpu("install", str(tmp_path / "env"), "--gpu", "RTX 5090", "--dry-run", environ=environ)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1 and "--method" not in said
    assert "has kernels for compute capability 12.0; TensorFlow 2." in said and "conda-forge.org/download" in said
    assert left_in(tmp_path) == []


# ------------------------------------------------------------------------------------------------ interrupted


class Moments:
    """Counts what an installation does, and interrupts it at one of these moments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.at = -1
        for owner, name in (
            ("tfgpu_doctor.install.making.writing", "replace"),
            ("tfgpu_doctor.install.making.Folder", "require_room"),
            ("tfgpu_doctor.install.tools.process", "run"),
            ("tfgpu_doctor.install.making", "add_library_paths"),
            ("tfgpu_doctor.install.making", "prove"),
            ("tfgpu_doctor.install.folder.writing", "create"),
            ("tfgpu_doctor.install.folder.shutil", "rmtree"),
        ):
            self._watch(monkeypatch, f"{owner}.{name}", name)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, target: str, name: str) -> None:
        module, _, attribute = target.rpartition(".")
        real = _resolve(module, attribute)

        def watched(*arguments: Any, **options: Any) -> Any:
            self._moment(f"before {name}")
            answer = real(*arguments, **options)
            self._moment(f"after {name}")
            return answer

        monkeypatch.setattr(target, watched)

    def _moment(self, what: str) -> None:
        self.seen.append(what)
        if len(self.seen) - 1 == self.at:
            raise KeyboardInterrupt


def _resolve(module: str, attribute: str) -> Any:
    from _pytest.monkeypatch import derive_importpath

    return getattr(derive_importpath(f"{module}.{attribute}", True)[1], attribute)


def test_interrupted_at_every_moment_nothing_is_left(uv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _once(monkeypatch, "tfgpu_doctor.cli.install", "_choose")
    assert install(uv, "first").returncode == 0
    moments = Moments(monkeypatch)
    assert install(uv, "env").returncode == 0
    many, everything = len(moments.seen), moments.seen
    assert many > 20
    for at in range(many):
        (uv.parent / str(at)).mkdir()
        moments.seen, moments.at = [], at
        done = install(uv.parent / str(at), "env")
        assert done.returncode == 130, everything[at]
        assert left_in(uv.parent / str(at)) == [], f"interrupted {everything[at]}"


def _once(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    """Call what only looks at the machine once, and let it answer the same from then on."""
    real, answers = _resolve(*f"{module}.{name}".rsplit(".", 1)), []

    def cached(*arguments: Any, **options: Any) -> Any:
        if not answers:
            answers.append(real(*arguments, **options))
        return answers[0]

    monkeypatch.setattr(f"{module}.{name}", cached)


def started(uv: Path, moment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of its own that waits at a moment."""
    ready = uv.parent / "ready"
    environ = {**os.environ, "TFGPU_TEST_WAIT": moment, "TFGPU_TEST_READY": str(ready)}
    argv = [sys.executable, "-m", "tfgpu_doctor", "install", "env", "--yes", *GPU]
    environ["PYTHONPATH"] = str(Path(making.__file__).parents[2])
    process = subprocess.Popen(argv, cwd=uv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with guarded(120, moment, waiting=True):
        while not ready.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        yield process


SIGNALS = {"venv begin": "SIGINT", "install end": "SIGHUP", "install begin": "SIGTERM"}


@pytest.mark.parametrize("moment", SIGNALS)
def test_a_signal_ends_everything_and_leaves_a_log(uv: Path, moment: str) -> None:
    number = signal.Signals[SIGNALS[moment]]
    for process in started(uv, moment):
        process.send_signal(number)
        process.communicate()
    assert process.returncode == 128 + number
    assert left_in(uv) == []
    assert "interrupted" in (uv / "env.tfgpu-install.log").read_text()


def test_the_next_run_leaves_alone_what_a_killed_one_has_left(uv: Path) -> None:
    for process in started(uv, "install begin"):
        process.kill()
        process.communicate()
        os.kill(int((uv.parent / "ready").read_text()), signal.SIGKILL)  # what it had started
    before = left_in(uv)
    assert f"env/{MARKER}" in before
    for dry_run in ([], ["--dry-run"]):
        done = install(uv, "env", *dry_run)
        assert (done.returncode, left_in(uv)) == (2, before)
        assert "delete it and run tfgpu install again" in " ".join(done.stderr.split())
