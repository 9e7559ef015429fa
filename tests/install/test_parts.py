"""The parts of an installation: which way is chosen, which interpreter, which variables, what resolvers answer."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sys
import tarfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from packaging.specifiers import SpecifierSet

from tests.install.fakes import quick_environment
from tests.tables import each
from tfgpu_doctor.cli.install import _explained
from tfgpu_doctor.install import resolved, tools
from tfgpu_doctor.install.choice import Choice, choose, host_target
from tfgpu_doctor.install.folder import TEMPORARY, python_of, require, sizes_of
from tfgpu_doctor.install.records import CommandError, Method, Package, RefusedError
from tfgpu_doctor.install.resolved import UnreadableError
from tfgpu_doctor.install.tools import OURS, Commands, Interpreters, dropped, of_children, of_pylock_text
from tfgpu_doctor.matrix.loader import Matrix, MatrixError
from tfgpu_doctor.matrix.schema import SourceOnly
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
    (package,) = of_pylock_text(text)
    file = "wrapt-2.5.2-cp311-manylinux.whl"
    assert package == Package("wrapt-x", "2.5.2", file, 111, ("sha256:aa", "sha256:bb"))
    for bad in (b"\xff", b"[", b"[[packages]]\nversion = '1'\n", b"packages = 7", b"[[packages]]\nwheels = ['x']"):
        with pytest.raises(UnreadableError):
            of_pylock_text(bad)


def test_what_conda_lists() -> None:
    row = b'[{"base_url": "https://conda.invalid", "channel": "x", "name": "tensorflow", "version": "2.19.1"}]'
    assert resolved.of_conda_list(row) == (Package("tensorflow", "2.19.1"),)
    for bad in (b"", b"[7]", b"\xff", b'{"error": "no such environment"}', b'[{"name": "tensorflow"}]'):
        with pytest.raises(UnreadableError):
            resolved.of_conda_list(bad)


def test_a_lock_file_has_hashes_for_all_packages_or_for_none() -> None:
    hashed, bare = Package("a", "1", hashes=("sha256:aa", "sha256:bb")), Package("b", "2")
    lines = resolved.lock_text((hashed,), python="3.11.7", platform="linux_x86_64").splitlines()
    assert lines[2:] == ["a==1 \\", "    --hash=sha256:aa \\", "    --hash=sha256:bb"]
    assert "--require-hashes" in lines[1]
    lines = resolved.lock_text((hashed, bare), python="3.11.7", platform="linux_x86_64").splitlines()
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


def test_nothing_is_built_but_what_the_matrix_names(tmp_path: Path) -> None:
    """TensorFlow 2.6 requires three packages without a wheel; no file of --matrix adds one."""
    old, new = (MATRIX.tensorflow(version, "linux_x86_64") for version in ("2.6.5", "2.17.1"))
    assert old and new and MATRIX.source_only(new, "3.11") == ()
    built = MATRIX.source_only(old, "3.8")
    assert [f"{one.package}=={one.version}" for one in built] == ["clang==5.0", "termcolor==1.1.0", "wrapt==1.12.1"]
    ran: list[list[str]] = []

    class Noted:
        def run(self, label: str, argv: list[str], **_: object) -> str:
            ran.append(argv)
            return ""

    (tmp_path / "pylock.toml").write_text(
        'lock-version = "1.0"\n[[packages]]\nname = "wrapt"\nversion = "1.12.1"\n', encoding="utf-8"
    )
    wanted, commands = tmp_path / "requirements.txt", cast(Commands, Noted())
    folder = tmp_path / TEMPORARY / "built"
    for tool in (tools.Pip(), tools.Uv("uv")):
        chosen = tool.resolve(commands, tmp_path, wanted, print, built)
        build, choose = ran
        assert build[build.index("--no-binary") + 1] == "clang,termcolor,wrapt" and "--require-hashes" in build
        assert built[2].sha256 in (folder / "archives.txt").read_text(encoding="utf-8")
        assert "--no-binary" not in choose and choose[choose.index("--find-links") + 1] == str(folder)
        assert all(argv[argv.index("--only-binary") + 1] == ":all:" for argv in ran)
        shutil.rmtree(tmp_path / TEMPORARY)
        ran.clear()
    text = resolved.lock_text(tuple(resolved.with_archives(chosen, built)), python="3.8.18", platform="linux_x86_64")
    assert "--require-hashes --only-binary :all: --no-binary wrapt -r" in text and built[2].sha256 in text
    tools.Pip().resolve(commands, tmp_path, wanted, print)
    assert all("--no-binary" not in argv for argv in ran)
    other = tmp_path / "matrix.yaml"
    row = f'{{package: evil, version: "1", tensorflow: ">=2", sha256: {"0" * 64}, source: mine}}'
    other.write_text(
        f'schema: tfgpu.matrix/1\nrevision: "2026-01-01"\nsources: {{mine: {{title: x}}}}\nsource_only: [{row}]\n',
        encoding="utf-8",
    )
    with suppress(MatrixError):
        assert Matrix.load(str(other)).data.source_only == MATRIX.data.source_only


_BACKEND = """
import os, zipfile
open(os.environ["TFGPU_TEST_READY"], "a").close()
def build_wheel(folder, *_):
    name, info = "old-1.0-py3-none-any.whl", "old-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: old\\nVersion: 1.0\\n")
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "")
    return name
"""


@each("method", ["pip", "uv"])
def test_an_archive_is_built_only_if_it_has_the_hash(method: Method, tmp_path: Path) -> None:
    """Nothing of one that was changed is run, not even to learn what it requires."""
    index, prefix, ran = tmp_path / "index", tmp_path / "env", tmp_path / "ran"
    quick_environment(prefix)
    index.mkdir()
    with tarfile.open(index / "old-1.0.tar.gz", "w:gz") as archive:
        project = '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
        for name, text in (
            ("own.py", _BACKEND),
            ("pyproject.toml", project),
            ("PKG-INFO", "Name: old\nVersion: 1.0\n"),
        ):
            inside = tarfile.TarInfo(f"old-1.0/{name}")
            inside.size = len(text)
            archive.addfile(inside, io.BytesIO(text.encode()))
    of_file = hashlib.sha256((index / "old-1.0.tar.gz").read_bytes()).hexdigest()
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(index)}
    commands = Commands({**os.environ, **offline, "TFGPU_TEST_READY": str(ran)})
    tool = tools.find_tool(method, os.environ, (), "3.11")
    if tool is None:
        pytest.skip(f"no {method} here")
    for sha256, found in (("0" * 64, False), (of_file, True)):
        (prefix / TEMPORARY).mkdir()
        wanted = prefix / TEMPORARY / "requirements.txt"
        wanted.write_text("old\n")
        built = (SourceOnly(package="old", version="1.0", tensorflow=">=2", sha256=sha256, source="x"),)
        with suppress(CommandError) if not found else nullcontext():
            (package,) = tool.resolve(commands, prefix, wanted, print, built)
        assert ran.exists() is found
        if not found:
            assert "DO NOT MATCH THE HASHES" in "".join(commands.log)
            shutil.rmtree(prefix / TEMPORARY)
    (package,) = resolved.with_archives((package,), built)
    assert package.hashes[1:] == (f"sha256:{of_file}",)
    lock = prefix / "lock.txt"
    lock.write_text(resolved.lock_text((package,), python="3.11", platform="linux_x86_64"))
    ran.unlink()
    tool.install(commands, prefix, lock, print, built)
    assert list(prefix.glob("lib/*/site-packages/old-1.0.dist-info")) and not ran.exists()


def test_a_version_is_the_program_that_was_found(tmp_path: Path) -> None:
    """Not the Python below a virtual environment, which has other packages."""
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (tmp_path / f"python{minor}").symlink_to(sys.executable)
    (tmp_path / "python3.4").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3.4").chmod(0o755)
    found = Interpreters({"PATH": str(tmp_path), "HOME": str(tmp_path)}, own="/nowhere/python")
    assert found.program(minor) == str(tmp_path / f"python{minor}")
    assert found.program("3.4") is None  # a program of that name that does not run
