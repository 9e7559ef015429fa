"""Why a child got SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfgpu_doctor.probes import activity
from tfgpu_doctor.probes.activity import OomKills


def test_reads_the_counters(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for cgroup, file, text in [
        ("0::/job\n", "sys/fs/cgroup/job/memory.events", "low 0\noom 1\noom_kill 3\noom_group_kill 0\n"),
        ("0::/../job\n", "sys/fs/cgroup/memory.events", "oom_kill 3\n"),
        ("4:cpu:/\n9:memory:/job\n", "sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 3\n"),
    ]:
        with subtests.test(cgroup=cgroup):
            tmp_path = tmp_path_factory.mktemp("row")
            for name, content in {
                "proc/self/cgroup": cgroup,
                "proc/vmstat": "pgfault 9\noom_kill 5\n",
                file: text,
            }.items():
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(content)
            assert activity.read(str(tmp_path)) == OomKills(cgroup=3, machine=5)


def test_no_counters(tmp_path: Path) -> None:
    assert activity.read(str(tmp_path)) == OomKills(None, None)


def test_explains(subtests: pytest.Subtests) -> None:
    for before, after, says in [
        (OomKills(0, 0), OomKills(1, 1), "killed by the kernel's OOM killer (oom_kill of its cgroup: 0 -> 1)"),
        (OomKills(None, 7), OomKills(None, 8), "probably killed by the kernel's OOM killer (/proc/vmstat"),
        (OomKills(None, None), OomKills(None, None), "killed from outside, perhaps by the kernel's OOM killer"),
        (OomKills(2, 7), OomKills(2, 7), "killed from outside, and not by the kernel's OOM killer"),
    ]:
        with subtests.test(before=before):
            assert before.explain(after).startswith(says)
