"""Machines shown as folders; and this one."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.probes.test_cuda import lay, write
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Known, Limit, TemporaryFolder
from tfgpu_doctor.probes import host


@each("files, environ, facts", read_rows(Path(__file__).with_name("host.yaml")))
def test_what_files_tell(
    tmp_path: Path, files: dict[str, Any], environ: dict[str, str], facts: dict[str, list[Any] | str | None]
) -> None:
    lay(tmp_path, files)
    found = json.loads(msgspec.json.encode(host.examine(str(tmp_path), environ)))
    for name, told in facts.items():
        fact = found[name]
        if isinstance(told, list):
            assert [fact["value"], fact["source"]] == told, name
        else:
            assert fact["is"] == "unknown" and told in (None, fact["reason"]), name


def test_counters_of_the_oom_killer(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for cgroup, file, text in [
        ("0::/job\n", "/sys/fs/cgroup/job/memory.events", "low 0\noom 1\noom_kill 3\noom_group_kill 0\n"),
        ("0::/../job\n", "/sys/fs/cgroup/memory.events", "oom_kill 3\n"),
        ("4:cpu:/\n9:memory:/job\n", "/sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 3\n"),
    ]:
        with subtests.test(cgroup=cgroup):
            root = tmp_path_factory.mktemp("row")
            assert host.oom_kills(str(root)) == {}
            write(root, "/proc/self/cgroup", cgroup)
            write(root, "/proc/vmstat", "pgfault 9\noom_kill 5\n")
            write(root, file, text)
            before = host.oom_kills(str(root))
            assert list(before.values()) == [3, 5]
            write(root, file, text.replace("oom_kill 3", "oom_kill 4"))
            struck = host.explain_kill(before, host.oom_kills(str(root)))
            assert struck.startswith("killed by the kernel's OOM killer") and struck.endswith("oom_kill 3 -> 4)")
    assert host.explain_kill({host.VMSTAT: 7}, {host.VMSTAT: 8}).startswith("probably killed by the kernel's OOM")
    assert host.explain_kill({}, {}).startswith("killed from outside, perhaps by")
    assert host.explain_kill({host.VMSTAT: 7}, {host.VMSTAT: 7}).startswith("killed from outside, and not by")


def test_the_limit_of_the_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    for read, limit in (((2**33, -1), Limit(2**33)), ((-1, -1), Limit(None)), ((2**63 - 1, 2**63 - 1), Limit(None))):
        monkeypatch.setattr(resource, "getrlimit", lambda _which, read=read: read)
        assert host.address_space_limit() == Known(limit, "getrlimit(RLIMIT_AS)")


def folder(environ: dict[str, str], root: Path) -> TemporaryFolder:
    found = host.temporary_folder(environ, str(root))
    assert isinstance(found, Known)
    return found.value


def test_the_first_folder_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "file").touch()
    assert folder({"TMPDIR": "/scratch"}, tmp_path).path == "/scratch"
    assert folder({"TMPDIR": "/scratch"}, tmp_path).via == "TMPDIR"
    for other in ("/gone", "/file", ""):
        assert folder({"TMPDIR": other, "TMP": "/scratch"}, tmp_path).via == "TMP"
        assert folder({"TMPDIR": other}, tmp_path).path == "/tmp"
    assert folder({}, tmp_path).problem is None
    assert (folder({}, tmp_path).free or 0) > 0
    assert folder({}, tmp_path / "scratch").problem == "No such file or directory"
    monkeypatch.setattr(host.os, "access", lambda *_: False)  # root may write everywhere
    assert folder({}, tmp_path).problem == "Permission denied"


def test_secrets_are_never_read_and_a_huge_value_is_cut() -> None:
    names = ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "SSH_AUTH_SOCK", "USER", "HOME", "NCCL", "PASSWORD")
    assert host.variables(dict.fromkeys(names, "secret")) == Known({}, "environment")
    found = host.variables({"LD_LIBRARY_PATH": "/x:" * 10_000})
    assert isinstance(found, Known)
    assert len(found.value["LD_LIBRARY_PATH"]) == host.LONGEST
