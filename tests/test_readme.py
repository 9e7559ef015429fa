"""What the README promises holds: its commands are the ones that CI runs, its tables name what exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.tables import each
from tfgpu_doctor.cli import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").is_file() else ""


@each("name", ["README.md", "CONTRIBUTING.md"])
def test_paths_that_are_named_exist(name: str) -> None:
    """What looks like a path within backquotes; * and NAME stand for any name."""
    text = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).is_file() else ""
    words = [word for quoted in re.findall(r"`([^`\n]+)`", text) for word in quoted.split()]
    paths = [word for word in words if re.fullmatch(r"[\w*.-]+(/[\w*.-]*)+|[\w*.-]+\.(py|ya?ml|md|toml)", word)]
    folders = (ROOT, ROOT / "tfgpu_doctor")  # which paths are relative to
    assert [one for one in paths if not any(any(at.glob(one.replace("NAME", "*"))) for at in folders)] == []


def commands() -> list[str]:
    """The two set-up commands, one line each."""
    return [line.strip() for line in README.splitlines() if line.startswith("    (python3 -m venv")]


def test_two_set_up_commands_and_little_more() -> None:
    assert len(README.splitlines()) <= 120
    assert len(commands()) == 2
    assert commands()[0].endswith(".venv/bin/tfgpu doctor")
    assert commands()[1].endswith(".venv/bin/pytest")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("sudo", [True, False], ids=["with sudo", "root without sudo"])
def test_set_up_installs_what_a_fresh_debian_lacks(sudo: bool, tmp_path: Path) -> None:
    """venv fails until apt-get has installed python3-venv, for which a fresh image has no package lists."""
    programs = {
        "python3": "test -e installed && echo venv >> log",
        "apt-get": 'echo "apt-get $1" >> log; test $1 = update && touch lists || { test -e lists && touch installed; }',
        "sudo": 'echo sudo >> log; exec "$@"',
    }
    for name, script in programs.items():
        if sudo or name != "sudo":
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (tmp_path / name).chmod(0o755)
    for name in ("sh", "touch"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    command = commands()[0].partition(" && .venv/bin/pip")[0]
    bash = shutil.which("bash") or ""
    subprocess.run([bash, "-euc", command], cwd=tmp_path, env={"PATH": str(tmp_path)}, check=True, timeout=30)
    log = (tmp_path / "log").read_text(encoding="utf-8").split("\n")
    assert log[:-1] == [*(["sudo"] if sudo else []), "apt-get update", "apt-get install", "venv"]


# what the machine has → the extra that README's first command installs there
EXTRAS = {
    "an H100": ("pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00", False, "cuda"),
    "WSL2 with NVIDIA's driver in Windows": ("pci:v00001414d0000008Esv00000000sd00000000bc03sc02i00", True, "cuda"),
    "a GPU of AMD": ("pci:v00001002d000073BFsv00001DA2sd0000438Ebc03sc00i00", False, "tensorflow"),
    "a PCIe bridge of a Jetson": ("pci:v000010DEd0000229Esv00000000sd00000000bc06sc04i00", False, "tensorflow"),
    "no PCI device": (None, False, "tensorflow"),
}


@pytest.mark.skipif(shutil.which("sh") is None, reason="no sh")
@each("machine", EXTRAS)
def test_set_up_installs_cuda_where_there_is_an_nvidia_gpu(machine: str, tmp_path: Path) -> None:
    modalias, in_wsl, extra = EXTRAS[machine]
    (tmp_path / "devices" / "0000:00:06.0").mkdir(parents=True)
    if modalias:
        (tmp_path / "devices" / "0000:00:06.0" / "modalias").write_text(f"{modalias}\n", encoding="utf-8")
    if in_wsl:
        (tmp_path / "libcuda.so.1").touch()
    choice = re.search(r'"\.\[(\$\(.*?\))\]"', commands()[0])
    assert choice
    line = choice[1].replace("/sys/bus/pci/devices", f"{tmp_path}/devices").replace("/usr/lib/wsl/lib", str(tmp_path))
    printed = subprocess.run(["sh", "-euc", f"echo {line}"], capture_output=True, text=True, check=True, timeout=30)
    assert printed.stdout == f"{extra}\n"


def test_ci_runs_the_test_command_and_every_night_everything() -> None:
    """A copy of the sources may have neither."""
    if (script := ROOT / ".ci" / "run").is_file():
        assert commands()[1] in script.read_text(encoding="utf-8").splitlines()
    if (workflow := ROOT / ".github" / "workflows" / "nightly.yml").is_file():
        steps = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]["full"]["steps"]
        assert steps[-1]["run"] == commands()[1] + ' -m ""'


def test_every_command_stands_in_the_table() -> None:
    for name in cli.commands:
        assert re.search(rf"^\| \[`tfgpu {name}[^\n]+\(docs/commands/{name}\.md\)", README, re.MULTILINE), name
