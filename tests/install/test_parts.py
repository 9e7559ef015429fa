"""The parts of an installation: which way is chosen, which interpreter, which variables, what resolvers answer."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from packaging.specifiers import SpecifierSet

from tests.healthy import MATRIX, healthy, known, sonames
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import DamagedPackage, Facts, Host, Known, Unknown
from tfgpu_doctor.install import making, tools
from tfgpu_doctor.install.making import Choice, choose, host_target, judged, prove
from tfgpu_doctor.install.tools import InstallError, dropped, failure, find_python, of_children
from tfgpu_doctor.plan.constraints import PlanRequest
from tfgpu_doctor.plan.install_commands import repaired_by_links
from tfgpu_doctor.plan.ranking import MachineState
from tfgpu_doctor.plan.target import describe
from tfgpu_doctor.probes.process import Completed

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


def chosen(spec: str | None = None, *, state: MachineState | None = None, **machine: Any) -> Choice:
    """What is made where uv, conda and every Python are; `found` names the Pythons that are."""
    machine.setdefault("gpu", ["RTX 4090"])
    machine.setdefault("driver", "570")
    asked = SpecifierSet(spec) if spec else None
    request = PlanRequest(MATRIX, describe(MATRIX, **machine), asked, repaired_by_links(MATRIX))
    return choose(request, state, own_python="3.11", fixed_python="python" in machine)


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(tools, "find_uv", lambda _: "/bin/uv")
    monkeypatch.setattr(tools, "find_conda", lambda _: "/bin/conda")
    monkeypatch.setattr(tools, "find_python", lambda minor, *_, **__: f"/bin/python{minor}")


# ------------------------------------------------------------------------------------------------ what is made


def test_the_first_way_of_the_plan_is_taken() -> None:
    choice = chosen()
    assert choice.option.kind == "as-is"
    assert (choice.python, choice.method, choice.interpreter) == ("3.11", "uv", "/bin/python3.11")
    assert choice.packages == (f"tensorflow[and-cuda]=={choice.release.version}",)


def test_a_python_that_was_asked_for_is_the_only_one() -> None:
    assert chosen(python="3.12").python == "3.12"
    # the plan shows what is newer, with another Python, before what needs packages to be built
    with pytest.raises(InstallError, match=r"2\.19\.1 from conda-forge: Python 3\.6 was asked for"):
        chosen(python="3.6", gpu=["V100"], driver="535")


def test_uv_gets_a_python_that_is_not_here_and_pip_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_python", lambda *_, **__: None)
    assert (chosen(python="3.12").interpreter, chosen(python="3.12").method) == (None, "uv")
    monkeypatch.setattr(tools, "find_uv", lambda _: None)
    assert chosen(python="3.12").method == "conda"
    monkeypatch.setattr(tools, "find_conda", lambda _: None)
    with pytest.raises(InstallError, match=r"Python 3\.12 is not on this machine: install uv"):
        chosen(python="3.12")


def test_a_release_with_a_known_bug_is_taken_only_if_it_is_asked_for_and_repaired() -> None:
    assert chosen().release.version != "2.21.0"
    choice = chosen("==2.21.0")
    assert choice.release.version == "2.21.0" and choice.option.kind == "as-is"


def test_old_releases_get_the_packages_of_cuda_11_and_old_pythons_pip() -> None:
    assert "nvidia-cublas-cu11" in chosen("==2.13.1", python="3.9", gpu=["A100"]).packages
    old = chosen("<2.12", python="3.7", gpu=["A100"])
    assert old.method == "pip" and [what for what, *_ in old.steps(Path("/x"))][1] == "upgrading pip"


REFUSALS: dict[str, dict[str, Any]] = {
    "this machine has no NVIDIA GPU": {"state": MachineState(no_gpu=True), "gpu": (), "driver": None},
    "after a driver update to .*: not on this machine as it is": {"driver": "450", "gpu": ["RTX 4090"]},
    "TensorFlow 2.20.0: compute capability 5.2, needed": {"spec": "==2.20.0", "gpu": ["GTX 980"]},
    "this machine has no NVIDIA GPU; to": {"os": "macos", "gpu": (), "driver": None},
    "on Windows, TensorFlow uses a GPU only in WSL2": {"os": "windows"},
}


@each("message", REFUSALS)
def test_why_nothing_can_be_made(message: str) -> None:
    with pytest.raises(InstallError, match=message):
        chosen(**REFUSALS[message])


def test_a_described_machine_gets_the_libc_of_this_one() -> None:
    target = describe(MATRIX, gpu=["H100"])
    here = Host(os=known("wsl2"), machine=known("x86_64"), libc=known("glibc 2.36"))
    assert host_target(target, here) == msgspec.structs.replace(target, os="wsl2", glibc="2.36")
    for other in ({"os": "macos"}, {"machine": "aarch64"}):
        with pytest.raises(InstallError, match="must be created there"):
            host_target(describe(MATRIX, gpu=["H100"], **other), here)


# ------------------------------------------------------------------------------------------------ interpreters


def python_at(path: Path, version: str, kind: str = "CPython", gil: str = "True", venv: str = "True") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version} {kind} 64 {gil} {venv}\n")
    path.chmod(0o755)
    return str(path)


def found_in(home: Path, *folders: Path, venv: bool = True) -> str | None:
    environ = {"PATH": ":".join(map(str, folders)), "HOME": str(home)}
    return find_python("3.77", environ, venv=venv, own="/nowhere/python")


def test_the_own_python_is_the_first() -> None:
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert find_python(minor, {"PATH": "/nowhere", "HOME": "/nowhere"}, venv=True) == sys.executable


@each("place", ["bin", ".pyenv/versions/3.77.1/bin", ".local/share/uv/python/cpython-3.77.1-x/bin"])
def test_others_are_found_where_tools_put_them(tmp_path: Path, place: str) -> None:
    path = python_at(tmp_path / place / "python3.77", "3.77.1")
    assert found_in(tmp_path, Path("."), tmp_path / "bin") == path


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


# ------------------------------------------------------------------------------------------------ variables


def test_where_packages_come_from_is_the_users_and_where_they_go_is_ours() -> None:
    users: dict[str, str] = ROWS["users"]
    harmful, active = (dict.fromkeys(ROWS[name], "/x") for name in ("harmful", "active"))
    found = of_children({**users, **harmful, **active, "PIP_USER": "1"}, "/project", "/env/tmp")
    assert found == {**users, **tools._OURS, "PIP_CERT": "/project/certs/ca.pem", "TMPDIR": "/env/tmp"}
    assert set(dropped({**users, **harmful, **active})) == set(harmful)
    assert (
        of_children({"UV_PYTHON_INSTALL_BIN": "1"}, "/", "/")["UV_PYTHON_INSTALL_BIN"] == "0"
    )  # no link in ~/.local/bin


# ------------------------------------------------------------------------------------------------ what programs print


def ended(output: str, code: int = 1, **how: Any) -> InstallError:
    return failure("choosing the packages", Completed(("/bin/pip",), code, output, "", 7200.0, **how))


@each("output", ROWS["ENDS"])
def test_an_index_that_does_not_answer_is_another_exit_code_than_a_refusal(output: str) -> None:
    error = ended(output)
    assert (error.code, error.output) == (ROWS["ENDS"][output], output)
    late = ended(output, -9, timed_out=True)
    assert (late.code, str(late)) == (3, "choosing the packages failed: pip did not end within 7200 s")
    assert ended(output, -9).code == 1


def test_a_full_disk_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ended(
        "Resolved 3 packages\nerror: failed to copy file from /a to /b: No space left on device (os error 28)\n"
    )
    assert str(error) == "choosing the packages failed: the disk is full"
    monkeypatch.setattr(tools.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(InstallError, match=r"has 954 MiB free, and an installation takes up to 7\.82 GiB"):
        tools.require_room(tmp_path / "env")


# ------------------------------------------------------------------------------------------------ the doctor's proof


def changed(**tensorflow: object) -> Facts:
    facts = healthy()
    return msgspec.structs.replace(facts, tensorflow=msgspec.structs.replace(facts.tensorflow, **tensorflow))


def without_gpu() -> Facts:
    facts = changed(devices=known(()), checks=known(()))
    host = msgspec.structs.replace(facts.host, pci_gpus=known((), "/sys/bus/pci/devices"))
    return msgspec.structs.replace(facts, host=host, gpus=known(()))


def with_lost_cudnn() -> Facts:
    lost = tuple(
        msgspec.structs.replace(one, winner=None, candidates=()) if one.component == "cudnn" else one
        for one in sonames()
    )
    facts = without_gpu()
    return msgspec.structs.replace(facts, loader=msgspec.structs.replace(facts.loader, sonames=known(lost)))


def with_damaged_keras() -> Facts:
    damaged = DamagedPackage(name="keras", version="3.10.0", record="RECORD", missing=("keras/__init__.py",), files=1)
    facts = without_gpu()
    return msgspec.structs.replace(facts, python=msgspec.structs.replace(facts.python, damaged=Known((damaged,), "")))


NO_CHECKS = msgspec.structs.replace(changed(checks=Unknown("none")), gpus=Unknown("NVML"))


@each(
    ("facts", "state", "text"),
    [
        (healthy(), "ok", "verified on the GPU: "),
        (without_gpu(), "warning", "what needs a GPU was not verified"),  # an image is built
        (with_lost_cudnn(), "failed", "cudnn"),
        (with_damaged_keras(), "failed", "keras"),
        (NO_CHECKS, "warning", ""),
        (changed(version=known("2.20.0")), "failed", "TensorFlow 2.20.0 was imported, not 2.21.0"),
    ],
)
def test_a_missing_gpu_is_a_warning_and_a_missing_library_a_failure(facts: Facts, state: str, text: str) -> None:
    release = MATRIX.tensorflow("2.21.0", "linux_x86_64")
    assert release is not None
    report = making.make_report(facts, MATRIX, source="live", timings={}, for_any_machine=True)
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
