"""deploy/: the scripts for Slurm and node-problem-detector, run beside stand-ins for tfgpu and scontrol."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
SCRIPTS = sorted(DEPLOY.rglob("*.sh"))
BAD = 'echo \'tfgpu_doctor_finding{id="gpu.none",severity="error"} 1\'; exit 1'
TWO = 'echo \'tfgpu_doctor_finding{id="gpu.none",severity="error"} 1\'; ' + BAD.replace("gpu.none", "cuda.missing")
SLOW = "sleep 30"

# The fields of the configuration and what each may be, as the structs of Go have them:
# github.com/kubernetes/node-problem-detector, pkg/custompluginmonitor/types/config.go (CustomPluginConfig,
# pluginGlobalConfig), types.go (CustomRule), pkg/types/types.go (Condition), at 6632ca67
DURATION = re.compile(r"(\d+(\.\d+)?(ns|us|ms|s|m|h))+")
FIELDS: dict[str, dict[str, type]] = {
    "": {
        "plugin": str,
        "pluginConfig": dict,
        "source": str,
        "conditions": list,
        "rules": list,
        "metricsReporting": bool,
    },
    "pluginConfig": {
        "invoke_interval": str,
        "timeout": str,
        "max_output_length": int,
        "concurrency": int,
        "enable_message_change_based_condition_update": bool,
        "skip_initial_status": bool,
    },
    "rules": {
        "type": str,
        "condition": str,
        "reason": str,
        "path": str,
        "args": list,
        "timeout": str,
        "invoke_interval": str,
    },
    "conditions": {"type": str, "reason": str, "message": str},
}

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a script of deploy/ in which tmp_path stands for /opt; scontrol writes down what it is asked."""

    def one(name: str, tfgpu: str, node: str = "State=IDLE", limit: int = 20, **environ: str) -> Any:
        for log in ("calls", "scontrol"):  # of the run before
            (tmp_path / log).unlink(missing_ok=True)
        programs = {
            "opt/tfgpu/bin/tfgpu": f'echo "$*" >> {tmp_path}/calls\n{tfgpu}',
            "bin/scontrol": f'echo "$*" >> {tmp_path}/scontrol\ncase "$*" in *show*) echo "NodeName=n1 {node}";; esac',
        }
        for path, text in programs.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / path).chmod(0o755)
        script = (DEPLOY / name).read_text(encoding="utf-8").replace("=/opt/", f"={tmp_path}/opt/")
        script = re.sub(r"limit=\d+", f"limit={limit}", script).replace("PATH=/usr/local/sbin", f"PATH={tmp_path}/bin")
        (tmp_path / "script.sh").write_text(script)
        (tmp_path / "script.sh").chmod(0o755)
        return subprocess.run(
            [tmp_path / "script.sh"],
            env={"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": "n1", **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return one


def updates(folder: Path) -> list[str]:
    """What scontrol was told to change."""
    calls = (folder / "scontrol").read_text().splitlines()
    return [call for call in calls if call.startswith("update")]


DRAINED = "State=IDLE+DRAIN Reason=tfgpu: gpu.none [root@2026-11-23T09:00:00]"
BY_OTHERS = "State=IDLE+DRAIN Reason=new disk [root@2026-11-23T09:00:00]"


def test_the_health_check_drains_and_resumes(run: Run, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for tfgpu, node, expected in [
        ("exit 0", "State=IDLE", []),
        ("exit 0", BY_OTHERS, []),
        ("exit 0", DRAINED, ["update NodeName=n1 State=RESUME"]),
        (BAD, "State=ALLOCATED", ["update NodeName=n1 State=DRAIN Reason=tfgpu: gpu.none"]),
        (TWO, "State=IDLE", ["update NodeName=n1 State=DRAIN Reason=tfgpu: gpu.none cuda.missing"]),
        (BAD, DRAINED, []),
        (BAD, BY_OTHERS, []),
        ("exit 3", "State=IDLE", []),
        ("exit 3", DRAINED, []),
        ("echo '$(id) wrong usage' >&2; exit 2", "State=IDLE", []),
    ]:
        with subtests.test(tfgpu=tfgpu):
            done = run("slurm/health-check.sh", tfgpu, node)
            assert (done.returncode, done.stdout, updates(tmp_path)) == (0, "", expected)
            if "exit 2" in tfgpu or "exit 3" in tfgpu:
                assert done.stderr.startswith("tfgpu: could not check n1 (exit code ")


def test_a_health_check_that_hangs_is_over_before_slurm_kills_it(run: Run, tmp_path: Path) -> None:
    done = run("slurm/health-check.sh", SLOW, limit=1)
    assert done.returncode == 0 and updates(tmp_path) == [] and "exit code 124" in done.stderr
    text = (DEPLOY / "slurm/health-check.sh").read_text(encoding="utf-8")
    found = re.findall(r"limit=(\d+)|timeout -k (\d+)|timeout (\d+)", text)
    found = re.findall(r"limit=(\d+)|timeout -k (\d+)|timeout (\d+)", text)
    limits = [int(one) for several in found for one in several if one]
    assert sum(limits) <= 70 and max(limits) + 10 + 2 * 5 <= 60


def test_the_prolog(run: Run, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for tfgpu, environ, code in [
        ("exit 0", {"SLURM_JOB_GPUS": "0,1"}, 0),
        (BAD, {"SLURM_JOB_GPUS": "0,1"}, 1),
        (BAD, {}, 0),
        ("exit 3", {"SLURM_JOB_GPUS": "0"}, 0),
        ("exit 2", {"SLURM_JOB_GPUS": "0"}, 0),
        (SLOW, {"SLURM_JOB_GPUS": "0"}, 0),
    ]:
        with subtests.test(tfgpu=tfgpu):
            done = run("slurm/prolog.sh", tfgpu, limit=1 if tfgpu == SLOW else 20, **environ)
            assert (done.returncode, done.stdout) == (code, "")  # what a task prolog prints would be obeyed
            calls = (tmp_path / "calls").read_text() if environ else ""
            assert calls == (
                f"doctor --python {tmp_path}/opt/tensorflow/bin/python --no-import -q\n" if environ else ""
            )


def test_the_plugin_of_node_problem_detector(run: Run, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for tfgpu, code, message in [
        ("exit 0", 0, "TensorFlow can use the GPUs"),
        (BAD, 1, "tfgpu: gpu.none"),
        (TWO, 1, "tfgpu: gpu.none cuda.missing"),
        (BAD.replace("gpu.none", "a" * 300), 1, "tfgpu: " + "a" * 72),
        ("exit 2", 2, "tfgpu doctor could not determine it (exit code 2)"),
        ("exit 3", 2, "tfgpu doctor could not determine it (exit code 3)"),
        ("exit 127", 2, "{}/opt/tfgpu/bin/tfgpu cannot be started"),
        (SLOW, 2, "tfgpu doctor gave no answer within 1 s"),
    ]:
        with subtests.test(tfgpu=tfgpu):
            done = run("node-problem-detector/check-tensorflow.sh", tfgpu, limit=1 if tfgpu == SLOW else 20)
            assert (done.returncode, done.stdout) == (code, message.format(tmp_path) + "\n")


def test_the_configuration_of_node_problem_detector() -> None:
    """What its Validate and ApplyConfiguration check, and that no field has a name that Go's decoder ignores."""
    config = json.loads((DEPLOY / "node-problem-detector/tensorflow-gpu.json").read_text(encoding="utf-8"))
    parts = [("", config), ("pluginConfig", config["pluginConfig"])]
    parts += [(name, one) for name in ("rules", "conditions") for one in config[name]]
    for name, part in parts:
        assert {key: type(value) for key, value in part.items()}.items() <= FIELDS[name].items()
        for key in part.keys() & {"timeout", "invoke_interval"}:
            assert DURATION.fullmatch(part[key])
    assert config["plugin"] == "custom"
    names = {one["type"] for one in config["conditions"]}
    for rule in config["rules"]:
        assert rule["type"] == "permanent" and rule["condition"] in names
        assert rule["timeout"] == config["pluginConfig"]["timeout"] == "50s"  # never more than the one of all rules
    script = (DEPLOY / "node-problem-detector/check-tensorflow.sh").read_text(encoding="utf-8")
    assert "limit=40" in script and "-k 5" in script  # over before that


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck")
def test_shellcheck_finds_nothing(subtests: pytest.Subtests) -> None:
    for script in SCRIPTS:
        with subtests.test(script=script):
            done = subprocess.run(
                ["shellcheck", "--shell=sh", str(script)], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout
