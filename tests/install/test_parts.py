"""The parts of an installation: which way is chosen, which interpreter, which variables, what resolvers answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from packaging.specifiers import SpecifierSet

from tests.tables import each
from tfgpu_doctor.cli.install import _explained
from tfgpu_doctor.install.folder import InstallError, Package, RefusedError, python_of, require, sizes_of
from tfgpu_doctor.install.making import Choice, choose, host_target
from tfgpu_doctor.install.tools import (
    OURS,
    CommandError,
    Interpreters,
    dropped,
    lock_text,
    of_children,
    read_conda_list,
    read_pylock,
)
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.constraints import PlanRequest
from tfgpu_doctor.plan.install_commands import repaired_by_links
from tfgpu_doctor.plan.ranking import MachineState
from tfgpu_doctor.plan.target import describe

MATRIX = Matrix.load()


def chosen(spec: str | None = None, *, state: MachineState | None = None, **machine: Any) -> Choice:
    machine.setdefault("gpu", ["RTX 4090"])
    machine.setdefault("driver", "570")
    request = PlanRequest(MATRIX, describe(MATRIX, **machine), SpecifierSet(spec) if spec else None)
    fixed = "python" in machine
    return choose(request, state, repaired=repaired_by_links(MATRIX), first_pythons=("3.11",), fixed_python=fixed)


# ------------------------------------------------------------------------------------------------ what is made


def test_the_first_way_of_the_plan_is_taken() -> None:
    choice = chosen()
    assert choice.option == choice.plan.options[0] and choice.option.kind == "as-is"
    assert choice.pythons[0] == "3.11" and choice.methods == ("uv", "pip", "conda")
    assert choice.requirements("3.12") == (f"tensorflow[and-cuda]=={choice.release.version}",)


def test_a_python_that_was_asked_for_is_the_only_one() -> None:
    assert chosen(python="3.12").pythons == ("3.12",)
    # the plan shows what is newer, with another Python, before this one
    assert chosen(python="3.6", gpu=["V100"], driver="535").option.kind != "python"


def test_a_release_with_a_known_bug_is_taken_only_if_it_is_asked_for_and_repaired() -> None:
    assert chosen().release.version != "2.21.0"
    choice = chosen("==2.21.0")
    assert choice.release.version == "2.21.0" and choice.option.kind == "as-is"


def test_old_releases_get_the_packages_of_cuda_11_and_old_pythons_pip() -> None:
    choice = chosen("==2.13.1", python="3.9", gpu=["A100"])
    assert "nvidia-cublas-cu11" in choice.requirements("3.9")
    assert chosen("<2.12", python="3.7", gpu=["A100"]).methods == ("pip", "conda")


REFUSALS: dict[str, dict[str, Any]] = {
    "this machine has no NVIDIA GPU": {"state": MachineState(no_gpu=True), "gpu": (), "driver": None},
    "it needs another driver": {"driver": "450", "gpu": ["RTX 4090"]},
    "2.20.0 cannot be used: compute capability 5.2, needed": {"spec": "==2.20.0", "gpu": ["GTX 980"]},
    "TensorFlow has no CUDA on macOS": {"os": "macos", "gpu": (), "driver": None},
    "on Windows, TensorFlow uses a GPU only in WSL2": {"os": "windows"},
}


@each("message", REFUSALS)
def test_why_nothing_can_be_made(message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        chosen(**REFUSALS[message])


def test_a_described_machine_gets_the_libc_of_this_one() -> None:
    target = describe(MATRIX, gpu=["H100"])
    here = {"system": "wsl2", "machine": "x86_64"}
    assert host_target(target, **here, libc="glibc 2.36") == msgspec.structs.replace(target, os="wsl2", glibc="2.36")
    with pytest.raises(RefusedError, match=r"musl 1\.2\.4 \(Alpine\), and TensorFlow has no wheels"):
        host_target(target, **here, libc="musl 1.2.4")
    for other in ({"os": "macos"}, {"machine": "aarch64"}):
        with pytest.raises(RefusedError, match="must be created there"):
            host_target(describe(MATRIX, gpu=["H100"], **other), **here, libc=None)


# ------------------------------------------------------------------------------------------------ interpreters

ANSWER = (
    '#!/bin/sh\necho \'{{"path": "{path}", "version": "{version}", "kind": "{kind}", "bits": 64, "gil": {gil}, '
    '"venv": {venv}}}\'\n'
)


def python_at(path: Path, version: str, kind: str = "CPython", gil: str = "true", venv: str = "true") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ANSWER.format(path=path, version=version, kind=kind, gil=gil, venv=venv))
    path.chmod(0o755)
    return str(path)


def test_the_own_python_is_the_first() -> None:
    own = Interpreters(os.environ).own
    assert own and own.version == ".".join(map(str, sys.version_info[:3])) and Path(own.path).exists()
    assert Interpreters({"PATH": "/nowhere", "HOME": "/nowhere"}).find(own.minor, venv=True) == own


@each("place", ["bin", ".pyenv/versions/3.77.1/bin", ".local/share/uv/python/cpython-3.77.1-x/bin", "miniforge3/bin"])
def test_others_are_found_where_tools_put_them(tmp_path: Path, place: str) -> None:
    path = python_at(tmp_path / place / "python3.77", "3.77.1")
    environ = {"PATH": f".:{tmp_path / 'bin'}", "HOME": str(tmp_path)}
    found = Interpreters(environ).find("3.77", venv=True)
    assert found and (found.path, found.version) == (path, "3.77.1")


def test_shims_free_threaded_ones_and_those_without_venv_are_passed_over(tmp_path: Path) -> None:
    shim = tmp_path / "1" / "python3.77"
    python_at(shim, "3.77.0")
    shim.write_text("#!/bin/sh\necho pyenv: python3.77: command not found >&2\nexit 127\n")
    python_at(tmp_path / "2" / "python3.77", "3.77.0", gil="false")
    python_at(tmp_path / "3" / "python3.77", "7.3.15", kind="PyPy")
    bare = python_at(tmp_path / "4" / "python3.77", "3.77.0", venv="false")
    full = python_at(tmp_path / "5" / "python3.77", "3.77.1")
    environ = {"PATH": ":".join(str(tmp_path / str(number)) for number in range(1, 6)), "HOME": str(tmp_path)}
    pythons = Interpreters(environ)
    for venv, path in ((False, bare), (True, full)):
        found = pythons.find("3.77", venv=venv)
        assert found and found.path == path
    assert pythons.find("3.78", venv=False) is None


@each("path", ["--index-url=http://x", "python3.77", "", "../python"])
def test_what_an_interpreter_says_of_itself_becomes_no_option(tmp_path: Path, path: str) -> None:
    python = Path(python_at(tmp_path / "bin" / "python3.77", "3.77.1"))
    python.write_text(ANSWER.format(path=path, version="3.77.1", kind="CPython", gil="true", venv="true"))
    pythons = Interpreters({"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)})
    assert pythons.find("3.77", venv=False) is None


# ------------------------------------------------------------------------------------------------ variables


def test_where_packages_come_from_is_the_users_and_where_they_go_is_ours() -> None:
    users = {
        "PIP_INDEX_URL": "https://user:secret@index.invalid/simple",
        "PIP_CERT": "certs/ca.pem",
        "UV_INDEX_COMPANY_PASSWORD": "x",
        "HTTPS_PROXY": "http://proxy.invalid:3128",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "UV_FIND_LINKS": "https://index.invalid/links",
        "PIPELINE_ID": "7",
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
        "PATH": "/bin",
    }
    harmful = {
        **dict.fromkeys(
            ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_CONSTRAINT", "PIP_NO_DEPS"), "/x"
        ),
        **dict.fromkeys(("UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_PROJECT_ENVIRONMENT", "UV_EXCLUDE_NEWER"), "/x"),
    }
    active = dict.fromkeys(("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "__PYVENV_LAUNCHER__"), "/x")
    found = of_children({**users, **harmful, **active, "PIP_USER": "1"}, "/project", "/env/tmp")
    assert found == {**users, **OURS, "PIP_CERT": "/project/certs/ca.pem", "TMPDIR": "/env/tmp"}
    assert set(dropped({**users, **harmful, **active})) == set(harmful)
    assert (
        of_children({"UV_PYTHON_INSTALL_BIN": "1"}, "/", "/")["UV_PYTHON_INSTALL_BIN"] == "0"
    )  # no link in ~/.local/bin


# ------------------------------------------------------------------------------------------------ resolvers


def test_a_pylock_lists_the_wheel_that_the_interpreter_prefers_first() -> None:
    text = b"""
    [[packages]]
    name = "Wrapt_X"
    version = "2.5.2"
    wheels = [
        { url = "https://index.invalid/w/wrapt-2.5.2-cp311-manylinux.whl", size = 111, hashes = { sha256 = "aa" } },
        { path = "wrapt-2.5.2-py3-none-any.whl", size = 40, hashes = { sha256 = "bb" } },
    ]
    """
    (package,) = read_pylock(text)
    file = "wrapt-2.5.2-cp311-manylinux.whl"
    assert package == Package("wrapt-x", "2.5.2", file, 111, ("sha256:aa", "sha256:bb"))
    for bad in (b"\xff", b"[", b"[[packages]]\nversion = '1'\n", b"packages = 7", b"[[packages]]\nwheels = ['x']"):
        with pytest.raises(InstallError):
            read_pylock(bad)


def test_what_conda_lists() -> None:
    row = b'[{"base_url": "https://conda.invalid", "channel": "x", "name": "tensorflow", "version": "2.19.1"}]'
    assert read_conda_list(row) == (Package("tensorflow", "2.19.1"),)
    for bad in (b"", b"[7]", b"\xff", b'{"error": "no such environment"}', b'[{"name": "tensorflow"}]'):
        with pytest.raises(InstallError):
            read_conda_list(bad)


def test_a_lock_file_has_hashes_for_all_packages_or_for_none() -> None:
    hashed, bare = Package("a", "1", hashes=("sha256:aa", "sha256:bb")), Package("b", "2")
    lines = lock_text((hashed,), python="3.11.7", platform="linux_x86_64").splitlines()
    assert lines[2:] == ["a==1 \\", "    --hash=sha256:aa \\", "    --hash=sha256:bb"]
    assert "--require-hashes" in lines[1]
    lines = lock_text((hashed, bare), python="3.11.7", platform="linux_x86_64").splitlines()
    assert lines[2:] == ["a==1", "b==2"] and "--require-hashes" not in lines[1]


def test_how_much_room_it_takes(tmp_path: Path) -> None:
    known = sizes_of([Package("a", "1", size=1000), Package("b", "1", size=2000)])
    assert (known.download, known.on_disk, known.needed) == (3000, 6300, 9300)
    assert sizes_of([Package("a", "1", size=1000), Package("b", "1")]).needed == 8_000_000_000
    with pytest.raises(RefusedError, match=r"has .* free, and the installation takes up to 2887 GiB"):
        require(tmp_path, sizes_of([Package("a", "1", size=10**12)]))


# ------------------------------------------------------------------------------------------------ what programs print

ENDS = {
    "error: Failed to fetch `x`\n  Caused by: dns error: failed to lookup address information": 3,
    "pip._vendor.urllib3.exceptions.MaxRetryError: Max retries exceeded with url: /simple/tensorflow/": 3,
    "WARNING: Retrying after connection broken by 'NewConnectionError(': Failed to establish a new connection')": 3,
    "  Caused by: invalid peer certificate: UnknownIssuer": 3,
    "ERROR: No matching distribution found for tensorflow==2.17.1": 1,
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device": 1,
}


@each("output", ENDS)
def test_an_index_that_does_not_answer_is_another_exit_code_than_a_refusal(output: str) -> None:
    assert CommandError("choosing the packages", "exit code 1", output).code == ENDS[output]
    late = CommandError("choosing the packages", "pip did not end within 30 min", output, timed_out=True)
    assert (late.code, str(late)) == (3, "choosing the packages failed: pip did not end within 30 min")
    assert CommandError("choosing the packages", "ended by SIGKILL", output).code == 1
    assert _explained(late, MATRIX, Path("/x")) is None


def test_what_cannot_be_reached_is_named() -> None:
    of_uv = (
        "error: Failed to install cpython-3.10.22\n  cause: Request failed after 3 retries in 7.6s\n  cause: dns error"
    )
    message = str(CommandError("getting Python 3.10", "exit code 2", of_uv))
    assert "the download of Python cannot be reached (Request failed after 3 retries)" in message
    assert "UV_PYTHON_INSTALL_MIRROR" in message
    assert "the package index cannot be reached" in str(CommandError("x", "exit code 1", "Max retries exceeded"))


def test_a_full_disk_is_a_full_disk() -> None:
    output = "Resolved 3 packages\nerror: failed to copy file from /a to /b: No space left on device (os error 28)\n"
    error = CommandError("installing 3 packages", "exit code 2", output)
    assert str(error).endswith(
        "the disk is full: error: failed to copy file from /a to /b: No space left on device (os error 28)"
    )
    report = _explained(error, MATRIX, Path("/x"))
    assert report is not None and [one.id for one in report.findings] == ["env.disk-full"]
    assert any("df -h" in fix.commands for fix in report.findings[0].fixes)


def test_where_the_interpreter_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert python_of(tmp_path) == f"{tmp_path}/bin/python"
    monkeypatch.setattr(sys, "platform", "win32")
    assert python_of(tmp_path) == f"{tmp_path}/Scripts/python.exe"
    (tmp_path / "python.exe").touch()  # of conda
    assert python_of(tmp_path) == f"{tmp_path}/python.exe"


def test_a_version_is_the_program_that_was_found(tmp_path: Path) -> None:
    """Not the Python below a virtual environment, which has other packages."""
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (tmp_path / f"python{minor}").symlink_to(sys.executable)
    (tmp_path / "python3.4").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3.4").chmod(0o755)
    found = Interpreters({"PATH": str(tmp_path), "HOME": str(tmp_path)}, own="/nowhere/python")
    assert found.program(minor) == str(tmp_path / f"python{minor}")
    assert found.program("3.4") is None  # a program of that name that does not run
