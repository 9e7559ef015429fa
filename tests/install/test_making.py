"""An installation from its begin to its end: with pip over tiny wheels, and interrupted at every moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.runner import tfgpu
from tests.guard import eventually, guarded
from tests.healthy import MATRIX, healthy
from tests.loop.made_up import wheel
from tests.tables import each
from tfgpu_doctor.facts.facts import value_or
from tfgpu_doctor.facts.report import load_report
from tfgpu_doctor.install import making, tools
from tfgpu_doctor.install.making import REPORT, State
from tfgpu_doctor.install.tools import UNFINISHED, InstallError, claimed, read_path
from tfgpu_doctor.plan.constraints import PlanRequest
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.target import describe, read_specifier

# What the plan asks for with TENSORFLOW and GPU below, and what that requires.
TENSORFLOW, CUDNN = "2.17.1", "8.9.7.29"
GPU = ("--gpu", "RTX 4090", "--driver", "570", "--tensorflow", TENSORFLOW)
# A process of its own in which the disk has room, whatever the machine of the tests has left.
ROOMY = """
import shutil, types
shutil.disk_usage = lambda _: types.SimpleNamespace(free=10**12)
from tfgpu_doctor.__main__ import main
main()
"""
# The commands of uv that an installation runs, and what each leaves behind.
UV = """#!/bin/sh
case "$1 $2" in
"venv --seed") phase=venv ;;
"pip install") phase=install ;;
*) exit 9 ;;
esac
for last; do :; done
echo "$*" >> "${0%/*}/ran"
moment() {
    if [ "$TFGPU_TEST_WAIT" = "$phase $1" ]; then
        echo $$ > "$TFGPU_TEST_READY.new"
        mv "$TFGPU_TEST_READY.new" "$TFGPU_TEST_READY"
        exec sleep 300
    fi
    if [ "$TFGPU_TEST_FAIL" = "$phase $1" ]; then printf '%b\\n' "$TFGPU_TEST_SAYS" >&2; exit 1; fi
}
moment begin
case $phase in
venv)
    mkdir -p "$last/bin" "$last/lib/site-packages/tensorflow"
    : > "$last/bin/python"
    : > "$last/pyvenv.cfg" ;;
install)
    echo " Downloaded tensorflow" >&2 ;;
esac
moment end
"""
CONDA = """#!/bin/sh
[ "$1 $2 $3" = "install --yes --prefix" ] && [ -e "$4/conda-meta/history" ] || exit 9
mkdir "$4/bin"
echo "$*" > "$4/bin/ran"
"""


def put_program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def write_index(folder: Path) -> Path:
    """A folder for --find-links with a tensorflow[and-cuda] that requires one package of NVIDIA."""
    folder.mkdir(parents=True)
    needs = (f"nvidia-cudnn-cu12=={CUDNN} ; extra == 'and-cuda'",)
    wheel(folder, "tensorflow", TENSORFLOW, {"tensorflow/__init__.py": b""}, needs)
    wheel(folder, "nvidia-cudnn-cu12", CUDNN, {"nvidia/cudnn/__init__.py": b""})
    return folder


def left_in(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*"))


@pytest.fixture(autouse=True)
def proven(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[State, str]]:
    """The proof has tests of its own; here it answers as told. The real packages would take more room."""
    report, answer = make_report(healthy(), MATRIX, source="live", timings={}), {"is": ("warning", "no GPU here")}
    monkeypatch.setattr(making, "prove", lambda *_: report)
    monkeypatch.setattr(making, "judged", lambda *_: answer["is"])
    monkeypatch.setattr(making, "add_library_paths", lambda *_: None)
    monkeypatch.setattr(tools.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**12))
    return answer  # type: ignore[return-value]


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to install into, and the fake uv on PATH."""
    put_program(tmp_path / "programs", "uv", UV)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def install(folder: Path, *arguments: str, yes: bool = True, **environ: str) -> subprocess.CompletedProcess[str]:
    more = ("--yes",) if yes else ()
    return tfgpu("install", *arguments, *more, *GPU, cwd=folder, environ=environ)


def test_pip_makes_it_from_wheels(tmp_path: Path) -> None:
    write_index(tmp_path / "index")
    (tmp_path / "work").mkdir()
    for name in ("json.py", "pip.py", "venv.py"):
        (tmp_path / "work" / name).write_text("raise SystemExit('code of the current directory')\n")
    elsewhere = {"PIP_TARGET": "/nowhere", "PYTHONPATH": "/nowhere", "PIP_NO_DEPS": "1"}
    own = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "index"), "PIP_CONFIG_FILE": os.devnull}
    done = install(tmp_path / "work", "two words", "--method", "pip", **own, **elsewhere)
    prefix = tmp_path / "work" / "two words"
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "work").glob("*two*")) == ["two words"]
    installed = {path.name.partition(".dist-info")[0] for path in prefix.glob("lib/python3.*/site-packages/*-info")}
    assert installed >= {f"tensorflow-{TENSORFLOW}", f"nvidia_cudnn_cu12-{CUDNN}"}
    assert load_report((prefix / REPORT).read_bytes(), "it").verdict == "ok"
    assert UNFINISHED not in os.listdir(prefix)
    answer = " ".join(done.stdout.split())
    assert "use it source '" in answer and "two words/bin/activate'" in answer
    assert "ignored PIP_NO_DEPS, PIP_TARGET, PYTHONPATH" in answer
    assert "doctor no GPU here" in answer and "what could not be verified here is marked above" in answer


def test_conda_brings_what_only_conda_forge_has(uv: Path) -> None:
    put_program(uv.parent / "programs", "conda", CONDA)
    done = tfgpu("install", "env", "--yes", "--gpu", "RTX 5090", "--driver", "570", "--method", "conda", cwd=uv)
    assert (done.returncode, "conda activate" in done.stdout) == (0, True), done.stderr
    words = (uv / "env" / "bin" / "ran").read_text()
    assert words.startswith(f"install --yes --prefix {uv / 'env'} --channel conda-forge --override-channels")
    assert " tensorflow=" in words


def test_a_dry_run_touches_nothing_and_shows_the_commands(uv: Path) -> None:
    os.utime(uv, (1, 1))
    done = install(uv, "env", "--dry-run", yes=False)
    assert (done.returncode, done.stderr, left_in(uv), uv.stat().st_mtime) == (0, "", [], 1)
    command = f"/uv pip install --python {uv}/env/bin/python --only-binary :all: 'tensorflow[and-cuda]=={TENSORFLOW}'"
    assert command in done.stdout


def test_at_a_terminal_it_asks(uv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = install(uv, "env", yes=False)
    assert done.returncode == 2 and "add --yes to install, or --dry-run" in done.stderr
    monkeypatch.setattr("tfgpu_doctor.cli.install._can_ask", lambda: True)
    for answer, made in (("", False), ("y", True)):
        done = tfgpu("install", "env", *GPU, input=f"{answer}\n", cwd=uv)
        assert done.returncode == 0 and "Install it? [y/N]" in done.stderr
        assert (uv / "env" / REPORT).exists() == made


@pytest.mark.parametrize(
    ("moment", "says", "code"),
    [
        ("venv end", "error: Request failed after 3 retries\\n  Caused by: dns error", 3),
        ("install end", "error: Failed to extract archive: No space left on device (os error 28)", 1),
    ],
)
def test_a_failure_shows_what_the_program_wrote_and_leaves_nothing(uv: Path, moment: str, says: str, code: int) -> None:
    done = install(uv, "env", TFGPU_TEST_FAIL=moment, TFGPU_TEST_SAYS=says)
    assert (done.returncode, left_in(uv)) == (code, [])
    assert "failed: " in done.stderr and "tfgpu: removing" in done.stderr
    assert "\n    " + says.split("\\n")[0] + "\n" in done.stderr


def test_what_does_not_work_is_removed(uv: Path, proven: dict[str, tuple[State, str]]) -> None:
    proven["is"] = ("failed", "No module named 'keras'")
    done = install(uv, "env")
    assert (done.returncode, left_in(uv)) == (1, [])
    assert "does not work (No module named 'keras')" in " ".join(done.stderr.split())


def test_a_program_that_is_missing(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path), "CONDA_EXE": ""}
    done = install(tmp_path, "env", "--method", "conda", **bare)
    assert done.returncode == 1 and "it takes conda, which is not on PATH" in done.stderr
    # what only conda has is not blamed on an option
    done = tfgpu("install", "env", "--gpu", "RTX 5090", "--dry-run", cwd=tmp_path, environ=bare)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1 and "--method" not in said
    assert "has kernels for compute capability 12.0 TensorFlow 2." in said and "conda-forge.org/download" in said
    assert left_in(tmp_path) == []


MOMENTS = ("tools.require_room", "tools.process.run", "add_library_paths", "prove", "writing.replace",
           "tools.Path.mkdir", "tools.shutil.rmtree")  # fmt: skip


def watched(name: str, real: Callable[..., Any], moment: Callable[[str], None]) -> Callable[..., Any]:
    """A function with a moment before and after it, in which it can be interrupted."""

    def called(*arguments: Any, **options: Any) -> Any:
        moment(f"before {name}")
        answer = real(*arguments, **options)
        if not name.endswith("mkdir"):  # between a folder and the note that it is ours is no line that can be hit
            moment(f"after {name}")
        return answer

    return called


def test_interrupted_at_every_moment_nothing_is_left(uv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = PlanRequest(MATRIX, describe(MATRIX, gpu=["RTX 4090"], driver="570"), read_specifier(TENSORFLOW))
    known = making.choose(request, None, own_python="3.11")
    monkeypatch.setattr("tfgpu_doctor.cli.install._choose", lambda *_: known)
    seen: list[str] = []
    at = -1

    def moment(name: str) -> None:
        seen.append(name)
        if len(seen) - 1 == at:
            raise KeyboardInterrupt

    for name in MOMENTS:
        *owners, attribute = name.split(".")
        owner = resolve_name(f"{making.__name__}:{'.'.join(owners)}") if owners else making
        monkeypatch.setattr(owner, attribute, watched(name, getattr(owner, attribute), moment))
    assert install(uv, "env").returncode == 0
    everything = seen.copy()
    assert len(everything) > 15
    for at in range(len(everything)):
        seen.clear()
        folder = uv.parent / f"work{at}"
        os.mkdir(folder)
        assert install(folder, "env").returncode == 130, everything[at]
        seen.clear()
        assert left_in(folder) == [], f"interrupted {everything[at]}"


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.full), signal.SIGTERM])
def test_a_signal_ends_everything_and_leaves_nothing(uv: Path, number: signal.Signals) -> None:
    """A command of its own, while its program waits."""
    ready = uv.parent / "ready"
    environ = {**os.environ, "TFGPU_TEST_WAIT": "install begin", "TFGPU_TEST_READY": str(ready)}
    environ["PYTHONPATH"] = str(Path(making.__file__).parents[2])
    argv = [sys.executable, "-c", ROOMY, "install", "env", "--yes", *GPU]
    process = subprocess.Popen(argv, cwd=uv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert eventually(lambda: ready.exists() or process.poll() is not None, 120)
    process.send_signal(number)
    with guarded(120, waiting=True):
        written = process.communicate()
    assert (process.returncode, left_in(uv)) == (128 + number, []), written


def fill(path: Path) -> None:
    (path / "lib").mkdir()
    (path / "lib" / "a.so").write_text("")
    (path / "bin").symlink_to("lib")
    (path / "lib").chmod(0o500)


@each("name", ("env", "two words", "größe 测试", "-dash", "%s;$HOME'`x`\"", "a/b/env"))
@each("exists", [False, True])
def test_a_failure_leaves_the_folder_as_it_was(tmp_path: Path, name: str, exists: bool) -> None:
    path = tmp_path / name
    if exists:
        path.mkdir(parents=True, exist_ok=True)
    before, told = left_in(tmp_path), list[str]()
    with pytest.raises(RuntimeError), claimed(path, told.append) as temporary:
        Path(temporary, "x").touch()
        fill(path)
        raise RuntimeError
    assert (left_in(tmp_path), told) == (before, [f"removing {path}"])


def test_what_others_put_there_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a" / "env"
    with pytest.raises(RuntimeError), claimed(path, print):
        fill(path)
        (path / "thesis.txt").write_text("precious")
        (path / ".git").mkdir()
        raise RuntimeError
    assert left_in(tmp_path) == ["a", "a/env", "a/env/.git", "a/env/thesis.txt"]
    with pytest.raises(InstallError, match="is not empty"), claimed(path, print):
        raise AssertionError("it is claimed")


REFUSED = {
    "is not empty": lambda path: (path.mkdir(), (path / "mine").write_text("")),
    "is not a folder": lambda path: path.write_text(""),
    "is a symbolic link to /nowhere: name the folder itself": lambda path: path.symlink_to("/nowhere"),
    "above is not a folder": lambda path: (path.parent.rmdir(), path.parent.write_text("")),
    "above is not writable": lambda path: path.parent.chmod(0o500),
}


@each("message", [one for one in REFUSED if os.geteuid() or "writable" not in one])
def test_what_is_refused_is_not_touched(tmp_path: Path, message: str) -> None:
    path = tmp_path / "above" / "env"
    path.parent.mkdir()
    REFUSED[message](path)
    before = left_in(tmp_path)
    with pytest.raises(InstallError, match=message) as caught:
        read_path(str(path))
    assert (caught.value.code, left_in(tmp_path)) == (2, before)


@each(
    ("name", "message"),
    [
        *((name, "File name too long") for name in ("x" * 300, "y/" * 2200 + "z")),
        *((name, "the folder has no name") for name in ("", " ")),
        *((name, "which PATH or scripts cannot have") for name in ("a:b", "a\nb", "a\0b")),
    ],
)
def test_a_name_that_cannot_be_is_wrong_usage(name: str, message: str, tmp_path: Path) -> None:
    done = tfgpu("install", name, "--yes", "--gpu", "A100", "--driver", "570", cwd=tmp_path)
    assert (done.returncode, done.stdout, left_in(tmp_path)) == (2, "", [])
    assert message in " ".join(done.stderr.split()) and "internal error" not in done.stderr


def test_what_a_name_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert (read_path("x/../env"), read_path("-env")) == (tmp_path / "env", tmp_path / "-env")
    assert read_path("~/env") == tmp_path / "home" / "env"


METHODS = os.environ.get("TFGPU_TEST_METHODS", "uv pip").split()

# GPU, driver, Python, TensorFlow that is asked for, and what is installed
SITUATIONS = [
    ("A100", "570", "3.9", "2.13", "2.13.1"),
    ("RTX 4090", "570", "3.12", "2.16", "2.16.2"),
    ("RTX 4090", "570", "3.11", "2.17.1", "2.17.1"),
    ("RTX 4090", "570", "3.11", "2.20.0", "2.20.0"),
    ("RTX 4090", "570", "3.13", "2.21.0", "2.21.0"),
]


@pytest.mark.full
@pytest.mark.index
@pytest.mark.skipif(not os.environ.get("TFGPU_TEST_INDEX"), reason="opt-in: TFGPU_TEST_INDEX=1")
@each(("method", "situation"), product(METHODS, SITUATIONS))
def test_what_the_index_has_is_made_and_verified(tmp_path: Path, method: str, situation: tuple[str, ...]) -> None:
    """Minutes and gigabytes each; TFGPU_TEST_METHODS=uv leaves pip out."""
    gpu, driver, python, asked, got = situation
    machine = ("--gpu", gpu, "--driver", driver, "--python", python, "--tensorflow", asked)
    argv = [sys.executable, "-m", "tfgpu_doctor", "install", str(tmp_path / "env"), "--yes", "--method", method]
    done = subprocess.run([*argv, *machine], capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = load_report((tmp_path / "env" / REPORT).read_bytes(), "it").facts
    assert value_or(facts.tensorflow.version, "") == got and value_or(facts.python.version, "").startswith(python)
