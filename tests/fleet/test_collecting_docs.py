"""docs/collecting.md: what it gives to paste is executed, beside stand-ins for the engines that print as they do."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from tests.fleet.test_collect import REPORT, program
from tfgpu_doctor.cli import cli
from tfgpu_doctor.fleet.collect.task import line, node_result

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/collecting.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
LINES = [one for block in BLOCKS for one in block.splitlines() if not one.startswith("#")]
PARSED = [one for one in LINES if "tfgpu " in one and "docker build" not in one]

# Each runs its command for two nodes, and prints it as the engine does; see wrapped.py for where these forms are from.
EACH = 'for node in gpu-01 gpu-02; do export NODE="$node"; {} done\n'
ENGINES = {
    "ansible": '[ "$1 $2 $3 $4" = "gpu -m command -a" ] || exit 9\n'
    + EACH.format('echo "$node | CHANGED | rc=0 >>"; sh -c "$5";')
    + 'echo \'gpu-03 | UNREACHABLE! => {"changed": false, "unreachable": true}\'\n',
    "pdsh": '[ "$1 $2" = "-g gpu" ] || exit 9\nshift 2\n' + EACH.format('"$@" | sed "s/^/$node: /";'),
    "clush": '[ "$1 $2" = "-g gpu" ] || exit 9\nshift 2\n' + EACH.format('"$@" | sed "s/^/$node: /";'),
    "ssh": 'export NODE="$1"\nshift\nexec sh -c "$*"\n',
    "srun": 'while [ "${1#-}" != "$1" ]; do shift; done\nn=0\n'
    + EACH.format('"$@" | fold -w 1024 | sed "s/^/$n: /"; n=$((n + 1));'),
    "kubectl": 'case $1 in apply) exec cat > "$APPLIED" ;; esac\n'
    + EACH.format('sed "s/NODE/$NODE/" "$LINE"; echo a line of another program;'),
}
# what has been tested elsewhere: prints a result of the node
TFGPU = """
case "$1 $2" in
    "doctor --format") sed "s/gpu-1.internal/$NODE/" {folder}/report.json; exit 1 ;;
    "fleet -") exec {python} -m tfgpu_doctor "$@" --format json ;;
    *) exit 9 ;;
esac
"""


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    (tmp_path / "report.json").write_bytes(REPORT)
    (tmp_path / "line.json").write_text(line(node_result("NODE", REPORT.splitlines())))
    text = TFGPU.format(folder=tmp_path, python=sys.executable)
    for name, does in {**ENGINES, "tfgpu": text}.items():
        program(tmp_path / "bin" / name, f"#!/bin/sh\n{does}")
    (tmp_path / "opt").mkdir()
    program(tmp_path / "opt/tfgpu", f"#!/bin/sh\n{text}")

    def run(text: str) -> subprocess.CompletedProcess[str]:
        text = text.replace("/opt/tfgpu/bin/", f"{tmp_path}/opt/").replace("/etc/tfgpu", f"{tmp_path}/etc/tfgpu")
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        files = {"APPLIED": str(tmp_path / "applied.yaml"), "LINE": str(tmp_path / "line.json")}
        environ = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **files}
        return subprocess.run(
            ["bash", "-c", text], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False
        )

    return run


PIPED = [one for one in LINES if one.endswith("| tfgpu fleet -")]


def test_what_engines_print_is_read(shell: Any, subtests: pytest.Subtests) -> None:
    for text in PIPED:
        with subtests.test(text=text):
            done = shell(text)
            fleet = json.loads(done.stdout)
            nodes = {one["name"]: one["verdict"] for one in fleet["nodes"]}
            absent = {"gpu-03": "no answer"} if text.startswith("ansible") else {}
            assert len(fleet["unreadable"]) == 0
            assert nodes == {"gpu-01": "ok", "gpu-02": "ok", **absent}, done.stderr


def test_every_engine_is_tried() -> None:
    assert {*ENGINES} == {one.replace("for", "ssh") for text in PIPED for one in text.split()[:1]}


def commands(text: str) -> list[str]:
    """The words after tfgpu of each of its commands in a line of a shell."""
    parts = re.split(r" \| |; | > ", text)
    found = [
        re.search(r"(?:^|[ /\"])tfgpu ((?:doctor|smoke|fleet)\b[^\"]*(?:\"[^\"]*\"[^\"]*)*)", one) for one in parts
    ]
    return [one[1].strip() for one in found if one]


def test_commands_are_found() -> None:
    text = 'ansible gpu -m command -a "/opt/tfgpu/bin/tfgpu doctor --format json" | tfgpu fleet -'
    assert [one.rstrip('"') for one in commands(text)] == ["doctor --format json", "fleet -"]
    assert all(commands(one) for one in PARSED)


def test_options_exist(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for words in sorted({one for text in PARSED for one in commands(text)}):
        with subtests.test(words=words), pytest.MonkeyPatch.context() as monkeypatch:
            tmp_path = tmp_path_factory.mktemp("row")
            monkeypatch.chdir(tmp_path)
            (tmp_path / "nodes.jsonl").touch()
            words = words.replace("/var/lib/node_exporter/", "")
            rest, group, context = (
                shlex.split(words.rstrip('"') if words.count('"') % 2 else words),
                cli,
                click.Context(cli),
            )
            while True:
                name, found, rest = group.resolve_command(context, rest)
                assert found is not None
                if not (isinstance(found, click.Group) and rest and found.get_command(context, rest[0])):
                    found.make_context(name, rest)
                    return
                group = found


def block(part: str) -> str:
    (found,) = (one for one in BLOCKS if part in one)
    return found


def test_installing_is_what_ci_says() -> None:
    assert block("venv /opt/tfgpu") in (ROOT / "docs/ci.md").read_text(encoding="utf-8")  # where it is executed


def test_the_daemonset_with_an_image(shell: Any, tmp_path: Path) -> None:
    (text,) = (one for one in LINES if one.startswith("sed "))
    assert shell(text).returncode == 0
    applied = yaml.safe_load((tmp_path / "applied.yaml").read_text())
    kubernetes_validate.validate(applied, kubernetes_validate.latest_version(), strict=True)
    images = {one["image"] for one in applied["spec"]["template"]["spec"]["containers"]}
    assert images == {"registry.example.com/tfgpu:1"}
    labels = dict(pair.split("=") for pair in re.search(r"kubectl logs -l (\S+)", PAGE)[1].split(","))  # type: ignore[index]
    assert labels == applied["spec"]["template"]["metadata"]["labels"]


@pytest.mark.skipif(shutil.which("install") is None, reason="no install")
def test_installing_the_plugin(shell: Any, tmp_path: Path) -> None:
    assert shell(block("install -D")).returncode == 0
    config = json.loads((tmp_path / "etc/tfgpu/tensorflow-gpu.json").read_text())
    assert config["rules"][0]["path"] == "/etc/tfgpu/check-tensorflow.sh"
    assert os.access(tmp_path / "etc/tfgpu/check-tensorflow.sh", os.X_OK)
    assert f"`{config['conditions'][0]['type']}`" in PAGE


def test_files_and_metrics_that_it_names_exist() -> None:
    named = re.findall(r"deploy/[\w./-]+\w", PAGE)
    assert len({*named}) >= 8 and all((ROOT / name).exists() for name in named)
    from tests.render.test_metrics import printed

    assert {*re.findall(r"tfgpu_(?:doctor|smoke|bench|fleet)_\w+(?!\w*\.)", PAGE)} - {
        "tfgpu_doctor",
        "tfgpu_fleet",
    } <= {*printed()}


def test_the_numbers_that_it_says() -> None:
    from tfgpu_doctor.fleet.collect.task import LIMITS

    minutes = {name: round(seconds / 60) for name, seconds in LIMITS.items()}
    assert (
        f"{minutes['doctor']} minutes for `doctor`, {minutes['smoke']} for `smoke`, {minutes['bench']} for `bench`"
        in PAGE
    )
    daemon = (ROOT / "deploy/kubernetes/daemonset.yaml").read_text(encoding="utf-8")
    assert "sleep 600" in daemon and "every 10 minutes" in PAGE
    assert '"9452"' in daemon and "port 9452" in PAGE
    assert "activeDeadlineSeconds: 3600" in (ROOT / "deploy/kubernetes/job.yaml").read_text(encoding="utf-8")
    (added,) = re.findall(r"^```dockerfile\n(.*?)^```", PAGE, re.M | re.S)
    assert [one.split()[0] for one in added.splitlines()] == ["COPY", "RUN", "HEALTHCHECK"]
