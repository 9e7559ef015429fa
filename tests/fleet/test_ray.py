"""`tfgpu fleet collect --ray` on a real Ray cluster: several raylets on this machine, of which some fail in the run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.test_collect import collect, rows
from tfgpu_doctor.fleet.reading import Gathered

pytestmark = pytest.mark.full
ROOT = Path(__file__).parents[2]

# Ray's own way to test clusters. Health checks find a dead node within 6 seconds instead of 15.
CLUSTER = """
import os, sys
from ray.cluster_utils import Cluster

site, root, *fates = sys.argv[1:]
small = {"num_cpus": 1, "object_store_memory": 80 << 20}
health = {"health_check_period_ms": 1000, "health_check_timeout_ms": 3000, "health_check_failure_threshold": 3}
os.environ["PYTHONPATH"] = root  # of the workers
cluster = Cluster(
    initialize_head=True,
    head_node_args={**small, "node_name": "head", "include_dashboard": False, "_system_config": health},
)
for fate in fates:
    path = os.path.join(site, "bare") if fate == "bare" else site
    cluster.add_node(**small, node_name=fate, env_vars={"FATE": fate, "PYTHONPATH": path + os.pathsep + root})
print("at", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
# What befalls a node as soon as the doctor starts there, before any code of tfgpu
FATE = """
import os, sys, time
if "tfgpu_doctor" in sys.orig_argv and "doctor" in sys.orig_argv and (fate := os.environ.get("FATE")):
    import psutil
    above = psutil.Process().parents()
    raylet = next(number for number, one in enumerate(above) if one.name() == "raylet")
    if fate == "dies":
        above[raylet].kill()
    if fate == "crashes":
        above[raylet - 1].kill()  # Ray's worker
    if fate == "killed":
        os.kill(os.getpid(), 9)
    if fate == "freezes":
        above[raylet - 1].suspend()
        above[raylet].suspend()
    time.sleep(600)
"""
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
MISSING = 'tfgpu is not installed there. To install it: python -m pip install "git+$TFGPU_SOURCE"'


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for Ray's sockets, whose paths may have 107 bytes."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(short_folder: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a cluster with a node for each fate."""
    pytest.importorskip("ray")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/tfgpu_doctor.py").write_text("raise ImportError(\"No module named 'tfgpu_doctor'\")\n")
    (tmp_path / "sitecustomize.py").write_text(FATE)
    fates = ["hangs", "dies", "crashes", "killed", "freezes", "bare"]
    environ = {"PATH": "/usr/bin:/bin", "RAY_TMPDIR": str(short_folder), "RAY_USAGE_STATS_ENABLED": "0", **TOKEN}
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(tmp_path), str(ROOT), *fates],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environ,
        cwd="/",
    ) as started:
        assert started.stdin is not None and started.stdout is not None
        lines = (line.split() for line in started.stdout)
        yield next(line[1] for line in lines if line[:1] == ["at"])
        started.stdin.close()
        try:
            started.wait(60)
        finally:
            started.kill()


def test_a_cluster_in_which_nodes_fail(cluster: str) -> None:
    done = collect("--ray", cluster, "--timeout", "30", "doctor", "--no-import", timeout=120, **TOKEN)
    assert done.returncode == 1
    found = rows(done)
    died = "the node, or Ray's worker on it, died ("
    for name in ("dies", "crashes", "freezes"):
        assert found.pop(name).startswith((died, "did not answer within 30 s")), name
    assert found == {
        "head": "ok",
        "hangs": "did not answer within 30 s",
        "killed": "was killed by SIGKILL",
        "bare": MISSING,
    }
    assert done.stderr.endswith("tfgpu: 1 of 7 nodes answered\n")
    gathered = Gathered()
    gathered.take(done.stdout.encode().split(b"\n"), "nodes.jsonl")
    assert len(gathered.results) == 7 and not gathered.unreadable

    # its head answers, and Ray does not say what is missing
    done = collect("--ray", cluster, timeout=120, RAY_AUTH_MODE="disabled")
    assert (done.returncode, done.stdout) == (3, "")
    assert "tfgpu: no node could be asked: " in done.stderr
