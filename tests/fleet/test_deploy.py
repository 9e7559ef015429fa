"""deploy/ and docs/collecting.md: what they give to use is executed, beside stand-ins for tfgpu and the engines."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from tests.cli.runner import tfgpu
from tests.fleet.test_reading import gathered, names
from tests.healthy import MATRIX, healthy, known, spoil
from tfgpu_doctor.cli import cli
from tfgpu_doctor.fleet.reading import read_fleet
from tfgpu_doctor.plan.diagnosis import make_report

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs/collecting.md").read_text(encoding="utf-8")
BLOCKS = "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S))
LINES = [one for one in BLOCKS.splitlines() if not one.startswith("#")]
Run = Callable[..., subprocess.CompletedProcess[str]]
HOST = "gpu-1.internal"
REPORT = make_report(spoil(healthy(), {"host.name": known(HOST)}), MATRIX, source="live", timings={}).to_json()


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


BAD = 'echo \'tfgpu_doctor_finding{id="gpu.none",severity="error"} 1\'; exit 1'
TWO = BAD.replace("exit 1", BAD.replace("gpu.none", "cuda.missing"))
DRAINED = "State=IDLE+DRAIN Reason=tfgpu: gpu.none [root@2026-11-23T09:00:00]"
BY_OTHERS = "State=IDLE+DRAIN Reason=new disk [root@2026-11-23T09:00:00]"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a script of deploy/slurm in which tmp_path stands for /opt; scontrol writes down what it is asked."""

    def one(name: str, does: str, node: str = "State=IDLE", **environ: str) -> Any:
        (tmp_path / "scontrol").write_text("")
        asked = f'#!/bin/sh\necho "$*" >> {tmp_path}/scontrol\ncase "$*" in *show*) echo "NodeName=n1 {node}" ;; esac\n'
        program(tmp_path / "bin/scontrol", asked)
        program(tmp_path / "opt/tfgpu/bin/tfgpu", f"#!/bin/sh\n{does}\n")
        script = (DEPLOY / "slurm" / name).read_text(encoding="utf-8").replace("=/opt/", f"={tmp_path}/opt/")
        script = re.sub(r"limit=\d+", f"limit={0.2 if 'sleep' in does else 20}", script)
        script = script.replace("PATH=/usr/local/sbin", f"PATH={tmp_path}/bin")
        argv = [program(tmp_path / "bin/script.sh", script)]
        environ = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": "n1", **environ}
        return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)

    return one


def test_the_health_check_drains_and_resumes(run: Run, tmp_path: Path) -> None:
    drain = "update NodeName=n1 State=DRAIN Reason=tfgpu: gpu.none"
    for does, node, expected in (
        ("exit 0", BY_OTHERS, []),
        ("exit 0", DRAINED, ["update NodeName=n1 State=RESUME"]),
        (BAD, "State=ALLOCATED", [drain]),
        (TWO, "State=IDLE", [f"{drain} cuda.missing"]),
        (BAD, BY_OTHERS, []),
        ("echo '$(id) wrong usage' >&2; exit 3", DRAINED, []),
        ("sleep 30", "State=IDLE", []),
    ):
        done = run("health-check.sh", does, node)
        updates = [one for one in (tmp_path / "scontrol").read_text().splitlines() if one.startswith("update")]
        assert (done.returncode, done.stdout, updates) == (0, "", expected), does
        if re.search("exit 3|sleep", does):
            assert done.stderr.startswith("tfgpu: could not check n1 (exit code ")
    text = (DEPLOY / "slurm/health-check.sh").read_text(encoding="utf-8")
    limits = [int(one) for one in re.findall(r"(?:limit=|timeout -k |timeout )(\d+)", text)]
    assert sum(limits) <= 70 and max(limits) + 10 + 2 * 5 <= 60  # over before Slurm kills it


def test_the_prolog(run: Run) -> None:
    jobs = {"SLURM_JOB_GPUS": "0,1"}
    for does, environ, code in ((BAD, jobs, 1), (BAD, {}, 0), ("exit 3", jobs, 0), ("sleep 30", jobs, 0)):
        done = run("prolog.sh", does, **environ)
        assert (done.returncode, done.stdout) == (code, ""), does  # what a task prolog prints would be obeyed


DAEMON = (DEPLOY / "kubernetes/daemonset.yaml").read_text(encoding="utf-8")
MANIFEST = yaml.safe_load(DAEMON.replace("IMAGE", "registry.example/tfgpu:1"))


def test_the_daemonset_follows_the_schemas_and_the_restricted_profile() -> None:
    """kubernetes.io/docs/concepts/security/pod-security-standards, "Restricted", and a read-only root."""
    for version in ("1.28", kubernetes_validate.latest_version()):
        kubernetes_validate.validate(MANIFEST, version, strict=True)
    labels = MANIFEST["spec"]["template"]["metadata"]["labels"]
    assert MANIFEST["spec"]["selector"]["matchLabels"].items() <= labels.items()
    asked = dict(pair.split("=") for pair in re.search(r"kubectl logs -l (\S+)", PAGE)[1].split(","))  # type: ignore[index]
    assert asked == labels
    pod = MANIFEST["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == "nvidia" and pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
    assert all(volume.keys() == {"name", "emptyDir"} and volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"])
    mine = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    for container in pod["containers"]:
        assert container["securityContext"] == mine and "nvidia.com/gpu" not in json.dumps(container["resources"])
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys() & container["resources"]["requests"].keys()
    shows = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert (shows["NVIDIA_VISIBLE_DEVICES"], shows["NVIDIA_DRIVER_CAPABILITIES"]) == ("all", "compute,utility")


def test_a_pod_prints_one_line(tmp_path: Path) -> None:
    """The script of the manifest, with a stand-in for tfgpu; the name is that of the node, not that of the pod."""
    container = MANIFEST["spec"]["template"]["spec"]["containers"][0]
    script = container["command"][2].replace("sleep 600 & wait", "exit 0")
    (tmp_path / "report.json").write_bytes(REPORT)
    for does, expected in (("cat report.json; exit 1", ["gpu-1.example"]), ("head -c 1000 report.json", [])):
        text = f'#!/bin/sh\ncase "$*" in *metrics*) exit 0 ;; esac\ncd {tmp_path}\n{does}\n'
        program(tmp_path / "bin/tfgpu", text)
        environ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "NODE_NAME": "gpu-1.example", "HOSTNAME": HOST}
        words = ["sh", "-c", script, *container["command"][3:], *container.get("args", ())]
        printed = subprocess.run(words, env=environ, capture_output=True, timeout=60, check=True).stdout
        assert printed.count(b"\n") == 1
        found = gathered(printed)
        assert (names(found), bool(found.unreadable)) == (expected, not expected)
    (metrics,) = (line for line in script.splitlines() if line.strip().startswith("tfgpu") and "/metrics/" in line)
    done = tfgpu(*metrics.replace("/metrics/", f"{tmp_path}/").split()[1:])
    assert done.returncode in (0, 1) and (tmp_path / "metrics.txt").read_text().startswith("# HELP tfgpu_doctor_")


def test_the_dockerfile_copies_what_is_there_and_checks_itself() -> None:
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "docker/Dockerfile").read_text(encoding="utf-8"))
    ignored = (DEPLOY / "docker/Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    kept = [one[1:] for one in ignored if one.startswith("!")]
    assert ignored[0] == "*" and all((ROOT / one).exists() for one in kept)
    for source in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.M):
        assert all(any(one.startswith(name.rstrip("/")) for one in kept) for name in source.split() if name != ".")
    user, group = re.findall(r"^USER (\d+):(\d+)$", text, re.M)[-1]
    assert int(user) > 0 and int(group) > 0  # numbers, so that Kubernetes can see it (runAsNonRoot)
    limit, health = re.findall(r"^HEALTHCHECK .*--timeout=(\d+)s.* CMD (.+)$", text, re.M)[-1]
    grace, seconds, command = re.fullmatch(r"timeout -k (\d+) (\d+) tfgpu (\w+).* \|\| exit 1", health).groups()  # type: ignore[union-attr]
    assert int(grace) + int(seconds) < int(limit) and command in cli.commands


EACH = 'for node in gpu-01 gpu-02; do export NODE="$node"; {} done\n'
# each runs its command for two nodes, and prints it as the engine does
ENGINES = {
    "ansible": EACH.format('sh -c "$5";'),
    "pdsh": EACH.format('sh -c "$3";'),
    "clush": EACH.format('sh -c "$3";'),
    "ssh": 'export NODE="$1"\nshift\nexec sh -c "$*"\n',
    "srun": 'for word; do out="${word#--output=}"; [ "$out" != "$word" ] && break; done\n'
    'while [ "${1#-}" != "$1" ]; do shift; done\n' + EACH.format('"$@" > "${out%/*}/$node.json";'),
    "kubectl": EACH.format('sed "s/gpu-1.internal/$NODE/" "$LINE"; echo; echo a line of another program;'),
    "hostname": 'echo "$NODE"\n',
}
TFGPU = """#!/bin/sh
case "$1 $2" in
    "doctor --format") sed "s/gpu-1.internal/$NODE/" {folder}/report.json > "${{5:-/dev/stdout}}"; exit 1 ;;
    "fleet -"*) exec cat ;;
    *) exit 9 ;;
esac
"""


def test_what_engines_print_is_read(tmp_path: Path) -> None:
    """`tfgpu fleet` reads the same in this process."""
    reports = tmp_path / "reports"
    (tmp_path / "report.json").write_bytes(REPORT)
    (tmp_path / "line.json").write_bytes(REPORT.replace(b"\n", b""))
    for name, does in ENGINES.items():
        program(tmp_path / "bin" / name, f"#!/bin/sh\n{does}")
    program(tmp_path / "bin/tfgpu", TFGPU.format(folder=tmp_path))
    environ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "LINE": str(tmp_path / "line.json")}
    for engine in {*ENGINES} - {"hostname"}:
        reports.mkdir()
        line = next(one for one in LINES if re.match(rf"{engine} |for .* {engine} ", one))
        line = line.replace("/opt/tfgpu/bin/", f"{tmp_path}/bin/").replace("/shared", str(tmp_path))
        done = subprocess.run(["bash", "-c", line], env=environ, capture_output=True, timeout=60, cwd=tmp_path)
        found = gathered(done.stdout) if "| tfgpu fleet -" in line else read_fleet([str(reports)])
        assert (names(found), found.unreadable) == (["gpu-01", "gpu-02"], []), (line, done.stderr)
        shutil.rmtree(reports)


def test_what_the_page_names_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options, files, and the numbers that the code has."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.jsonl").touch()
    pattern = re.compile(r"(?:^|[ /\"])tfgpu ((?:doctor|smoke|fleet)\b[^\"|>;]*(?:\"[^\"]*\"[^\"|>;]*)?)")
    found = {one.strip() for text in LINES for one in pattern.findall(text) if "docker build" not in text}
    assert len(found) >= 8
    for words in found:
        words = words.replace("/var/lib/node_exporter/", "")
        name, command, rest = cli.resolve_command(
            click.Context(cli), shlex.split(words.rstrip("'\"") if re.search(r"[$'\"]", words) else words)
        )
        assert command is not None
        command.make_context(name, rest)
    named = re.findall(r"deploy/[\w./-]+\w", PAGE)
    assert len({*named}) >= 5 and all((ROOT / name).exists() for name in named)
    assert "sleep 600" in DAEMON and "every 10 minutes" in PAGE and '"9452"' in DAEMON and "port 9452" in PAGE


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck")
def test_shellcheck_finds_nothing() -> None:
    for script in sorted(DEPLOY.rglob("*.sh")):
        done = subprocess.run(["shellcheck", "--shell=sh", str(script)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
