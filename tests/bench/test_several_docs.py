"""docs/several-machines.md: what it tells people to paste can be read by what will read it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tfgpu_doctor.bench.cluster import parse

PAGE = (Path(__file__).parents[2] / "docs" / "several-machines.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return "\n---\n".join(found)


def test_tf_config_by_hand() -> None:
    text = re.search(r"^export TF_CONFIG='(.*)'$", PAGE, re.MULTILINE)
    assert text is not None
    cluster = parse(text.group(1))
    assert cluster is not None and (cluster.count, cluster.index) == (2, 0)


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="the manifest's script is for bash")
def test_the_kubernetes_manifest_makes_a_cluster() -> None:
    service, job = yaml.safe_load_all(block("yaml"))
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    assert service["spec"]["clusterIP"] == "None"  # headless: the pods get names
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    script = container["args"][0].replace("exec tfgpu", "printenv TF_CONFIG; : exec tfgpu")
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        env={"JOB_COMPLETION_INDEX": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    cluster = parse(done.stdout)
    assert cluster is not None and cluster.index == 1
    assert cluster.count == job["spec"]["completions"] == job["spec"]["parallelism"]
    port = container["ports"][0]["containerPort"]
    name = job["metadata"]["name"]
    assert cluster.addresses == tuple(f"{name}-{index}.{pod['subdomain']}:{port}" for index in range(2))


def test_the_options_that_it_names_exist() -> None:
    from tfgpu_doctor.cli.bench import command as group

    command = group.commands["cnn"]

    known = {option for parameter in command.params for option in parameter.opts}
    commands = re.findall(r"tfgpu bench cnn([^\n`]*)", PAGE)
    used = {option for line in commands for option in re.findall(r"--[a-z-]+", line)}
    assert used and used <= known
