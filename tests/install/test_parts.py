"""The parts of an installation: which way is chosen, which interpreter, which variables, what resolvers answer."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet

from tests.healthy import MATRIX, healthy, known, sonames, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import DamagedPackage, Host, Unknown
from tfgpu_doctor.install import making, tools
from tfgpu_doctor.install.making import Choice, choose, host_target, judged, prove
from tfgpu_doctor.install.tools import InstallError, dropped, failure, find_python, of_children
from tfgpu_doctor.plan.constraints import PlanRequest
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.install_commands import repaired_by_commands
from tfgpu_doctor.plan.ranking import MachineState
from tfgpu_doctor.plan.target import describe
from tfgpu_doctor.probes.process import Completed

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


def chosen(spec: str | None = None, *, state: MachineState | None = None, **machine: Any) -> Choice:
    """What is made where uv, conda and every Python are."""
    described = describe(MATRIX, **{"gpu": ["RTX 4090"], "driver": "570", **machine})
    request = PlanRequest(MATRIX, described, SpecifierSet(spec) if spec else None, repaired_by_commands(MATRIX))
    return choose(request, state, own_python="3.11", fixed_python="python" in machine)


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_uv", lambda _: "/bin/uv")
    monkeypatch.setattr(tools, "find_conda", lambda _: "/bin/conda")
    monkeypatch.setattr(tools, "find_python", lambda minor, *_, **__: f"/bin/python{minor}")


@each(("spec", "machine", "expected"), ROWS["CHOSEN"])
def test_the_first_way_of_the_plan_is_taken(spec: str | None, machine: dict[str, Any], expected: list[str]) -> None:
    choice = chosen(spec, **machine)
    assert [choice.option.kind, choice.method, choice.interpreter, *choice.packages[:2]] == expected


def test_uv_gets_a_python_that_is_not_here_and_pip_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_python", lambda *_, **__: None)
    assert (chosen(python="3.12").interpreter, chosen(python="3.12").method) == (None, "uv")
    monkeypatch.setattr(tools, "find_uv", lambda _: None)
    assert chosen(python="3.12").method == "conda"
    monkeypatch.setattr(tools, "find_conda", lambda _: None)
    with pytest.raises(InstallError, match=r"Python 3\.12 is not on this machine: install uv"):
        chosen(python="3.12")


def test_an_old_python_gets_a_newer_pip_first() -> None:
    steps = chosen("<2.12", python="3.7", gpu=["A100"]).steps(Path("/x"))
    assert [what for what, *_ in steps][1:] == ["upgrading pip", "installing the packages"]


@each(("message", "machine"), ROWS["REFUSALS"])
def test_why_nothing_can_be_made(message: str, machine: dict[str, Any]) -> None:
    state = None if machine["gpu"] else MachineState(no_gpu=True)
    with pytest.raises(InstallError, match=message):
        chosen(state=state, **machine)


def test_a_described_machine_gets_the_libc_of_this_one() -> None:
    target = describe(MATRIX, gpu=["H100"])
    here = Host(os=known("wsl2"), machine=known("x86_64"), libc=known("glibc 2.36"))
    assert host_target(target, here) == replace(target, os="wsl2", glibc="2.36")
    for other in ({"os": "macos"}, {"machine": "aarch64"}):
        with pytest.raises(InstallError, match="must be created there"):
            host_target(describe(MATRIX, gpu=["H100"], **other), here)


def python_at(path: Path, version: str, kind: str = "CPython", gil: str = "True", venv: str = "True") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version} {kind} 64 {gil} {venv}\n")
    path.chmod(0o755)
    return str(path)


def found_in(home: Path, *folders: Path, venv: bool = True) -> str | None:
    environ = {"PATH": ":".join(map(str, folders)), "HOME": str(home)}
    return find_python("3.77", environ, venv=venv, own="/nowhere/python")


@each("place", ["bin", ".pyenv/versions/3.77.1/bin", ".local/share/uv/python/cpython-3.77.1-x/bin"])
def test_pythons_are_found_where_tools_put_them(tmp_path: Path, place: str) -> None:
    path = python_at(tmp_path / place / "python3.77", "3.77.1")
    assert found_in(tmp_path, Path("."), tmp_path / "bin") == path
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"  # the own Python is the first
    assert find_python(minor, {"PATH": "/nowhere", "HOME": "/nowhere"}, venv=True) == sys.executable


def test_shims_free_threaded_ones_and_those_without_venv_are_passed_over(tmp_path: Path) -> None:
    shim = tmp_path / "1" / "python3.77"
    python_at(shim, "3.77.0")
    shim.write_text("#!/bin/sh\necho pyenv: python3.77: command not found >&2\nexit 127\n")
    python_at(tmp_path / "2" / "python3.77", "3.77.0", gil="False")
    python_at(tmp_path / "3" / "python3.77", "7.3.15", kind="PyPy")
    bare = python_at(tmp_path / "4" / "python3.77", "3.77.0", venv="False")
    full = python_at(tmp_path / "5" / "python3.77", "3.77.1")
    folders = [tmp_path / str(number) for number in range(1, 6)]
    assert found_in(tmp_path, *folders, venv=False) == bare
    assert found_in(tmp_path, *folders) == full
    assert found_in(tmp_path) is None


def test_where_packages_come_from_is_the_users_and_where_they_go_is_ours() -> None:
    users: dict[str, str] = ROWS["users"]
    harmful, active = (dict.fromkeys(ROWS[name], "/x") for name in ("harmful", "active"))
    ours = {"PIP_USER": "1", "UV_PYTHON_INSTALL_BIN": "1"}  # the latter makes a link in ~/.local/bin
    found = of_children({**users, **harmful, **active, **ours}, "/env/tmp")
    assert found == {**users, **tools._OURS, "TMPDIR": "/env/tmp"}
    assert tools._OURS["UV_PYTHON_INSTALL_BIN"] == "0"
    assert set(dropped({**users, **harmful, **active})) == set(harmful)


def ended(output: str, code: int = 1, **how: Any) -> InstallError:
    return failure("choosing the packages", Completed(("/bin/pip",), code, output, "", 7200.0, **how))


@each(("output", "code"), ROWS["ENDS"].items())
def test_an_index_that_does_not_answer_is_another_exit_code_than_a_refusal(output: str, code: int) -> None:
    error = ended(output)
    assert (error.code, error.output) == (code, output)
    late = ended(output, -9, timed_out=True)
    assert (late.code, str(late)) == (3, "choosing the packages failed: pip did not end within 2 h")
    assert ended(output, -9).code == 1


def test_a_full_disk_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = "error: failed to copy file from /a to /b: No space left on device (os error 28)"
    assert str(ended(f"Resolved 3 packages\n{full}\n")) == "choosing the packages failed: the disk is full"
    monkeypatch.setattr(tools.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(InstallError, match=r"has 954 MiB free, and an installation takes up to 7\.82 GiB"):
        tools.require_room(tmp_path / "env")


NO_GPU = dict.fromkeys(("gpus", "host.pci_gpus", "tensorflow.devices", "tensorflow.checks"), known(()))
LOST = tuple(replace(one, winner=None, candidates=()) if one.component == "cudnn" else one for one in sonames())
KERAS = DamagedPackage(name="keras", version="3.10.0", record="RECORD", missing=("keras/__init__.py",), files=1)


@each(
    ("changes", "state", "text"),
    [
        ({}, "ok", "verified on the GPU: "),
        (NO_GPU, "warning", "what needs a GPU was not verified"),  # an image is built
        ({**NO_GPU, "loader.sonames": known(LOST)}, "failed", "cudnn"),
        ({**NO_GPU, "python.damaged": known((KERAS,))}, "failed", "keras"),
        ({"tensorflow.checks": Unknown("none"), "gpus": Unknown("NVML")}, "warning", ""),
        ({"tensorflow.version": known("2.20.0")}, "failed", "TensorFlow 2.20.0 was imported, not 2.21.0"),
    ],
)
def test_a_missing_gpu_is_a_warning_and_a_missing_library_a_failure(
    changes: dict[str, Any], state: str, text: str
) -> None:
    release = MATRIX.tensorflow("2.21.0", "linux_x86_64")
    assert release is not None
    report = make_report(spoil(healthy(), changes), MATRIX, source="live", timings={}, for_any_machine=True)
    found, said = judged(report, release)
    assert found == state and text in said, said


def test_the_variables_of_the_user_play_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"HOME": "/home/x", "PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1", "https_proxy": "http://p"}
    disturbing = dict.fromkeys(("PYTHONPATH", "LD_LIBRARY_PATH", "XLA_FLAGS", "TF_USE_LEGACY_KERAS", "CUDA_HOME"), "/x")
    seen: list[object] = []

    def examined(python: str, _: object, environ: object) -> SimpleNamespace:
        seen.extend((python, environ))
        return SimpleNamespace(facts=healthy(), timings={})

    monkeypatch.setattr(making, "examine", examined)
    assert prove(tmp_path, MATRIX, {**kept, **disturbing, "PIP_TARGET": "/x"}).verdict == "ok"
    assert seen == [f"{tmp_path}/bin/python", kept]
