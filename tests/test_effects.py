"""What no command does: use the network, start a shell, or write a file that was not asked for.

An audit hook sees what this process does; what it starts is TensorFlow's interpreter and the programs of probes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.samples import result
from tests.cli.runner import tfgpu
from tests.healthy import MATRIX, healthy
from tests.test_foreign_code import CALLS
from tfgpu_doctor.plan.diagnosis import make_report

_seen: list[tuple[str, str]] | None = None  # a hook cannot be removed
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {f"os.{verb}" for verb in ("mkdir", "rename", "remove", "rmdir", "link", "symlink", "truncate", "chmod")}


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event.startswith("socket.") and event != "socket.__new__":
        _seen.append(("network", event))
    elif event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES):
        if not isinstance(arguments[0], int):  # a pipe to a child
            _seen.append(("written", _path(event, arguments)))
    elif event in ("os.system", "os.exec", "os.posix_spawn"):
        _seen.append(("started", str(arguments)))
    elif event == "subprocess.Popen" and os.path.basename(str(arguments[0])) in ("sh", "bash", "dash"):
        _seen.append(("shell", str(arguments)))


def _path(event: str, arguments: tuple[Any, ...]) -> str:
    """The whole path; what removes a folder names the files in it by the descriptor of that folder."""
    folder = arguments[-1] if event in ("os.remove", "os.rmdir") else -1
    inside = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else ""
    return os.path.join(inside, str(arguments[0]))


sys.addaudithook(_hook)


@contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    global _seen
    _seen = seen = []
    try:
        yield seen
    finally:
        _seen = None


def is_asked_for(path: str, folder: Path) -> bool:
    """A page, and what becomes one; /dev/null; folders of benchmarks, which they remove."""
    inside = os.path.join(tempfile.gettempdir(), "tfgpu-")
    return path in (os.devnull, str(folder / "page.html"), str(folder / "result.html")) or path.startswith(
        (str(folder / ".tfgpu-"), inside)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "report.json").write_bytes(make_report(healthy(), MATRIX, source="live", timings={}).to_json())
    (tmp_path / "result.json").write_bytes(result().to_json())
    (tmp_path / "requirements.txt").write_text("tensorflow==2.15.1\n-r more.txt\n")
    return tmp_path


@pytest.mark.parametrize("name", CALLS)
def test_no_network_no_shell_and_nothing_written_but_what_was_asked_for(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # modules that no test has imported before
    before = sorted(folder.iterdir())
    patient = str(Path(__file__).parent / "patients" / "import_error")
    for arguments in CALLS[name]:
        asked = [str(folder / one) if one.endswith(".html") else one for one in arguments]
        with watched() as seen:
            done = tfgpu(name, *asked, environ={"PYTHONPATH": patient}, cwd=folder)
        assert done.returncode in (0, 1, 3), done.stderr
        assert [one for one in seen if one[0] != "written" or not is_asked_for(one[1], folder)] == [], arguments
    assert [path.name for path in folder.iterdir() if path not in before and path.suffix != ".html"] == []


def test_the_hook_sees_what_it_looks_for(tmp_path: Path) -> None:
    import socket
    import subprocess

    with watched() as seen:
        (tmp_path / "a").write_text("")
        os.mkdir(tmp_path / "b")
        subprocess.run("true", shell=True, check=True)
        with socket.socket() as one:
            one.connect_ex(("127.0.0.1", 9))
        with pytest.raises(OSError, match=r"\w"):
            socket.getaddrinfo("name.invalid", 80)
        assert (tmp_path / "a").read_text() == ""
    assert [kind for kind, _ in seen] == ["written", "written", "shell", "network", "network"]
