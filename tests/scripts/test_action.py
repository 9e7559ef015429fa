"""action.yml and scripts/action.sh, with made-up inputs, and nothing installed; test_recipes.py runs them in a job."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.smoke.smoking import Machine
from tests.tables import each

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "action.sh"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
DEFAULTS = {name: str(one["default"]) for name, one in ACTION["inputs"].items()}

SMOKE = Machine().smoke().to_json()

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


class Runner:
    """A job's folder, files and variables; a tfgpu and a python3 on PATH that write down what they are asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.temp = folder, folder / "bin", folder / "temp dir"
        for one in (self.bin, self.temp):
            one.mkdir()
        self.log = folder / "asked.jsonl"
        self.environ = {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(folder / "output.txt"),
            "RUNNER_TEMP": str(self.temp),
        }

    def program(self, name: str, code: int = 0, writes: bytes | None = None, says: str = "", errors: str = "") -> None:
        """Put a program on PATH that logs its arguments; `writes` goes to the file of its second --output."""
        source = f"""#!{sys.executable}
import json, os, pathlib, shutil, sys
with open({str(self.log)!r}, "a") as log:
    log.write(json.dumps([pathlib.Path(__file__).name, *sys.argv[1:]]) + "\\n")
if sys.argv[1:4] == ["-I", "-m", "venv"]:
    pathlib.Path(sys.argv[4], "bin").mkdir(parents=True)
    for name in ("python", "tfgpu"):
        shutil.copy(__file__, pathlib.Path(sys.argv[4], "bin", name))
elif sys.argv[1:3] == ["-I", "-c"]:
    os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])
elif "smoke" in sys.argv:
    outputs = [after for word, after in zip(sys.argv, sys.argv[1:]) if word == "--output"]
    data = {writes!r}
    if data is not None:
        pathlib.Path(outputs[1]).write_bytes(data)
    sys.stdout.write({says!r})
    sys.stderr.write({errors!r})
    sys.exit({code})
"""
        file = self.bin / name
        file.write_text(source, encoding="utf-8")
        file.chmod(0o755)

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        values = {**DEFAULTS, **{name.replace("_", "-"): value for name, value in inputs.items()}}
        given = {f"INPUT_{name.upper().replace('-', '_')}": value for name, value in values.items()}
        options: Any = {"capture_output": True, "text": True, "timeout": 120, "cwd": self.folder}
        return subprocess.run(["bash", str(SCRIPT)], **options, check=False, env={**self.environ, **given})

    def asked(self) -> list[list[str]]:
        """The command lines of the programs, but not of what reads the result."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [words for words in map(json.loads, lines) if words[1:3] != ["-I", "-c"]]

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in Path(self.environ["GITHUB_OUTPUT"]).read_text().splitlines())


def test_the_action_is_well_formed_and_no_input_is_ever_part_of_a_command_line() -> None:
    """An expression in `run` would be pasted into the script before the shell reads it; none imports the checkout."""
    (step,) = ACTION["runs"]["steps"]
    assert (ACTION["runs"]["using"], step["shell"]) == ("composite", "bash") and "${{" not in step["run"]
    variables = {name: f"INPUT_{name.upper().replace('-', '_')}" for name in ACTION["inputs"]}
    assert step["env"] == {variable: f"${{{{ inputs.{name} }}}}" for name, variable in variables.items()}
    results = {name: one["value"] for name, one in ACTION["outputs"].items()}
    assert results == {name: f"${{{{ steps.{step['id']}.outputs.{name} }}}}" for name in results}
    assert all(one["description"] for one in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))
    script = SCRIPT.read_text(encoding="utf-8")
    assert "eval" not in script and {*re.findall(r"INPUT_[A-Z_]+", script)} == {*step["env"]}
    assert re.findall(r'(?:python3\}"|bin/python") (\S+)', script) == ["-I"] * 3


@each(("gpus", "code"), [(2, 0), (0, 1)])
def test_it_runs_smoke_and_tells_the_job(tmp_path: Path, gpus: int, code: int) -> None:
    runner = Runner(tmp_path)
    smoke = Machine(gpus).smoke()
    runner.program("tfgpu", code, smoke.to_json(), "::error title=x::y\n", "tfgpu: wrote z\n")
    done = runner.run(source="installed", require_gpus="2", min_tflops="40")
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout == "::error title=x::y\ntfgpu: wrote z\n"
    found = runner.outputs()
    assert (found["verdict"], found["gpus"]) == (smoke.verdict, str(gpus))
    assert Path(found["report"]).read_bytes() == smoke.to_json()
    ((program, *words),) = runner.asked()
    assert program == "tfgpu"
    assert words[:5] == ["smoke", "--python=python3", "--require-gpus=2", "--budget=60", "--min-tflops=40"]
    assert words[5:] == [
        *("--format", "github", "--format", "json", "--format", "junit"),
        *("--output", "-", "--output", found["report"], "--output", found["junit"]),
    ]


@each(
    ("text", "words"),
    [
        ("   ", []),
        ("--matrix\n/a path/rows.yaml\n\n", ["--matrix", "/a path/rows.yaml"]),
        ("$(touch x) `touch x` ;  * ~ $HOME", ["$(touch", "x)", "`touch", "x`", ";", "*", "~", "$HOME"]),
    ],
)
def test_further_arguments(tmp_path: Path, text: str, words: list[str]) -> None:
    runner = Runner(tmp_path)
    runner.program("tfgpu", 0, SMOKE)
    assert runner.run(source="installed", arguments=text).returncode == 0
    assert runner.asked()[0][5:-12] == words
    assert not list(runner.folder.rglob("x"))


@each("text", ["$(touch hacked) `touch hacked`", "'; touch hacked; '\"; touch hacked #", "x\n::error::y", ""])
def test_hostile_inputs_are_arguments_and_nothing_else(tmp_path: Path, text: str) -> None:
    runner = Runner(tmp_path)
    runner.program("tfgpu", 2, None, "", f"Error: {text}\n::add-mask::z\r::stop-commands::t\x1b[A ##[error]z\n")
    done = runner.run(source="installed", python=text, require_gpus=text, budget=text)
    assert done.returncode == 2
    assert runner.asked()[0][2:5] == [f"--python={text}", f"--require-gpus={text}", f"--budget={text}"]
    assert not list(runner.folder.rglob("hacked"))
    commands = [line for line in done.stdout.splitlines() if line.lstrip().startswith("::")]
    message = "::error title=tfgpu smoke::it ended with exit code 2 before there was a result: "
    assert [one[:80] for one in commands] == [message] and "##[" not in done.stdout and "\x1b" not in done.stdout
    assert runner.outputs()["verdict"] == "unknown"


@each("text", ["--output x", "--format=json", "--repeat\n2\n--output=x"])
def test_formats_cannot_be_asked_for(tmp_path: Path, text: str) -> None:
    runner = Runner(tmp_path)
    runner.program("tfgpu")
    done = runner.run(source="installed", arguments=text)
    assert done.returncode == 2 and "::error title=tfgpu smoke::arguments cannot hold" in done.stdout
    assert runner.asked() == []


@each("source", ["", "$(touch x)"])
def test_it_is_installed_into_an_environment_of_its_own(tmp_path: Path, source: str) -> None:
    """From the folder of the action, or from what a job names, which is no option of pip and not read by a shell."""
    runner = Runner(tmp_path)
    runner.program("python3", 0, SMOKE)
    done = runner.run(source=source)
    assert (done.returncode, done.stderr) == (0, "")
    made, installed, smoked = runner.asked()
    assert made[:4] == ["python3", "-I", "-m", "venv"] and made[4].startswith(str(runner.temp))
    assert installed[1:5] == ["-I", "-m", "pip", "install"] and installed[-2:] == ["--", source or str(ROOT)]
    assert smoked[:2] == ["tfgpu", "smoke"]


def test_a_python_or_a_tfgpu_that_is_not_there(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    done = runner.run(host_python="/nowhere/python3")
    assert done.returncode == 2 and "the environment for tfgpu could not be made" in done.stdout
    assert (runner.outputs()["verdict"], runner.outputs()["gpus"]) == ("unknown", "")
    for name in ("bash", "mktemp", "sed"):
        (runner.bin / name).symlink_to(shutil.which(name) or "")
    runner.environ["PATH"] = str(runner.bin)
    done = runner.run(source="installed")
    assert done.returncode == 2 and "there is no tfgpu on PATH" in done.stdout
