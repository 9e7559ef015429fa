"""The recipes of `tfgpu plan`, executed as printed in a fresh home: python -m tests.plan.executed [NAME...]

A row is a machine that somebody describes. Its first recipe is run in a fresh bash; then, in another one, TensorFlow is
imported, trains on the CPU, lists the GPU of the stand-in driver, pip's check and the plan's own "Check it" are run.
Results are kept in benchmarks/results/plans_executed.json, with a table beside it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import tfgpu_doctor
from tests.healthy import MATRIX
from tests.lab import Lab
from tests.loop.environments import FIT
from tests.loop.machine import ROOT, Machine, find_python, find_uv
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.plan.target import describe, read_specifier

FILE = ROOT / "benchmarks" / "results" / "plans_executed.json"
STAND_IN = {"tf.run-failed"}  # the stand-in driver computes nothing; all that the doctor may find
VERSIONS = """
import importlib.metadata as m
for name in ("tensorflow", "nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu11", "nvidia-cudnn-cu12"):
    try: print(name, m.version(name))
    except m.PackageNotFoundError: pass
"""  # noqa: E501
LIST = "import tensorflow as tf; print('GPUs:', len(tf.config.list_physical_devices('GPU')))"


@dataclass(frozen=True)
class Row:
    """One machine, and which of the printed recipes is run."""

    name: str
    gpu: str
    driver: str | None
    python: str | None
    manager: str  # pip or uv
    tensorflow: str | None = None
    lock: bool = False
    review: str = ""  # what the review of revision 73f247e saw

    def option(self) -> Option:
        """The first of the plan."""
        target = describe(MATRIX, gpu=(self.gpu,), driver=self.driver, python=self.python)
        specifier = read_specifier(self.tensorflow) if self.tensorflow else None
        return make_plan(MATRIX, target, specifier=specifier, lock=self.lock).options[0]


_SHELL = "GPU lost in a new shell, two XLA warnings"
ROWS = (
    Row("p1", "RTX 4090", "570.86", "3.12", "uv", review="installed"),
    Row("p2", "A100", "470.82.01", "3.9", "uv", review="installed"),
    Row("p3", "Tesla K80", "470.82.01", "3.10", "uv", review="installed"),
    Row("p5", "GTX 1080", "535", "3.11", "uv", review="installed"),
    Row("p6", "GTX 980", "535", "3.10", "uv", review="installed"),
    Row("p7", "T4", "535", "3.8", "pip", review=_SHELL),
    Row("p8", "RTX 3090", "450.80.02", "3.7", "pip", review=_SHELL),
    Row("p9", "H100", "550.54", "3.13", "uv", review="installed"),
    Row("p10", "V100", "418", "3.6", "uv", review="pip of Python 3.6 too old"),
    Row("p12", "RTX 4070", "545.23.06", "3.14", "uv", review="installed"),
    Row("p14", "RTX 4090", "570.86", "3.11", "uv", "2.12", review=_SHELL),
    Row("p15", "A100", "535", "3.11", "uv", "2.16", review="installed"),
    Row("2.21", "RTX 4090", "570.86", "3.13", "uv", "2.21", review="nothing fits"),
    Row("2.16.1", "RTX 4090", "570.86", "3.12", "uv", "2.16.1", review="nothing fits"),
    Row("lock", "RTX 4090", "570.86", "3.12", "uv", lock=True),
    Row("lock-2.12", "RTX 4090", "570.86", "3.10", "uv", "2.12", lock=True),
    Row("any", "RTX 4090", "570.86", None, "pip"),
    Row("old", "GTX 1060", "390", None, "uv", review="TensorFlow 1.12.0 first"),
)


@dataclass(frozen=True)
class Outcome:
    """What came of a row."""

    row: str
    option: str
    manager: str
    commands: tuple[str, ...]
    promised: str  # by the plan: CUDA, cuDNN
    delivered: dict[str, str]
    seconds: float
    installed: bool
    trained: bool
    gpus: int
    consistent: bool  # pip check
    findings: tuple[str, ...]  # of the printed check, from another shell
    log: str = ""  # of what failed

    @property
    def ok(self) -> bool:
        """Whether everything that can be seen without a GPU is as it should be."""
        return self.installed and self.trained and self.gpus == 1 and self.consistent and {*self.findings} <= STAND_IN


def execute(row: Row, machine: Machine, folder: Path) -> Outcome:
    """Run the recipe and all checks; the environment is removed."""
    home = folder / row.name
    home.mkdir(parents=True)
    option = row.option()
    commands = option.commands[row.manager]
    uv = find_uv()
    programs = [str(Path(uv).parent)] if uv else []
    for python in ("3.11", str(option.python)):
        if found := find_python(python):
            programs.append(str(Path(os.path.realpath(found)).parent))
    environ = machine.environ(home, {}, (*reversed(programs),))
    try:
        made = machine.shell("set -e\n" + "\n".join(commands), environ, home, limit=1500)
        ran = {name: machine.shell(script, environ, home) for name, script in _checks(option, uv).items()}
    finally:
        shutil.rmtree(home, ignore_errors=True)
    gpus = re.search(r"^GPUs: (\d+)", ran["list"].output, re.MULTILINE)
    report: dict[str, Any] = json.loads(ran["doctor"].output or "{}")
    failed = next((one for one in (made, *ran.values()) if one.code and one is not ran["doctor"]), None)
    brought = option.delivered
    return Outcome(
        row=row.name,
        option=option.title,
        manager=row.manager,
        commands=commands,
        promised=f"{brought.cuda}, {brought.cudnn}" if brought else f"{option.cuda}, {option.cudnn}",
        delivered=dict(line.split() for line in ran["versions"].output.splitlines()),
        seconds=round(made.seconds, 1),
        installed=made.code == 0,
        trained=ran["fit"].code == 0,
        gpus=int(gpus[1]) if gpus else 0,
        consistent=ran["pip check"].code == 0,
        findings=tuple(one["id"] for one in report.get("findings", ()) if one["severity"] != "note"),
        log="" if failed is None else (failed.output + failed.errors)[-1500:].replace(str(folder), "FOLDER"),
    )


def _checks(option: Option, uv: str | None) -> dict[str, str]:
    """Each is run in a shell of its own."""
    python = "~/tf/bin/python"
    (check,) = option.then[0].commands
    return {
        "versions": f"{python} -c '{VERSIONS}'" if option.python not in ("3.6", "3.7") else _by_pip(python),
        "fit": f"CUDA_VISIBLE_DEVICES=-1 {python} -c '{FIT}'",
        "list": f'{python} -c "{LIST}"',
        "pip check": f"{python} -m pip check || {uv or 'uv'} pip check --python {python}",
        "doctor": f"{check} --format json",
    }


def _by_pip(python: str) -> str:
    names = "tensorflow|nvidia-(cuda-runtime|cudnn)-cu.."
    return f"{python} -m pip list --format=freeze | grep -E '^({names})==' | sed 's/==/ /'"


def write(outcomes: dict[str, Outcome]) -> None:
    """Write JSON and the table."""
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    ).stdout.strip()
    about = {
        "tool": f"tfgpu {tfgpu_doctor.__version__}, revision {revision}",
        "matrix": MATRIX.revision,
        "created": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
    }
    ordered = [outcomes[row.name] for row in ROWS if row.name in outcomes]
    FILE.write_text(json.dumps({**about, "rows": [asdict(one) for one in ordered]}, indent=1) + "\n", encoding="utf-8")
    FILE.with_suffix(".md").write_text(table(about, outcomes), encoding="utf-8")


def table(about: dict[str, str], outcomes: dict[str, Outcome]) -> str:
    """The results for people."""
    heads = (
        "machine", "first way", "with", "CUDA, cuDNN: promised", "delivered", "s", "trains", "GPUs", "pip check",
        "check finds", "before",
    )  # fmt: skip
    lines = [
        "# Recipes of `tfgpu plan`, executed as printed",
        "",
        f"{about['tool']}, matrix of {about['matrix']}, {about['created']}; `python -m tests.plan.executed`.",
        "GPUs are those that TensorFlow lists over a stand-in driver, without LD_LIBRARY_PATH. The check is the",
        "command that the plan prints, run in another shell; the stand-in computes nothing, so `tf.run-failed` is all",
        "that it may find. Seconds are those of the recipe on a busy machine, with downloads partly from a cache. The",
        "last column is what the review of revision 73f247e saw.",
        "",
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
    ]
    for row in ROWS:
        if one := outcomes.get(row.name):
            brought = ", ".join(
                next((v for name, v in one.delivered.items() if name.startswith(part)), "-")
                for part in ("nvidia-cuda-runtime", "nvidia-cudnn")
            )
            asked = [row.gpu, f"driver {row.driver}", f"Python {row.python or 'not given'}"]
            asked += [f"TensorFlow {row.tensorflow}"] if row.tensorflow else []
            asked += ["--lock"] if row.lock else []
            yes = {True: "yes", False: "**no**"}
            cells = (
                ", ".join(asked), one.option, one.manager, one.promised, brought, f"{one.seconds:.0f}",
                yes[one.trained], str(one.gpus), yes[one.consistent], " ".join(one.findings) or "nothing", row.review,
            )  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    passed = sum(one.ok for one in outcomes.values())
    return "\n".join([*lines, "", f"{passed} of {len(outcomes)} as they should be."]) + "\n"


def read() -> dict[str, Outcome]:
    """The results of before, by row."""
    if not FILE.is_file():
        return {}
    known = {row.name for row in ROWS}
    rows = json.loads(FILE.read_text(encoding="utf-8"))["rows"]
    return {
        one["row"]: Outcome(**{**one, "commands": tuple(one["commands"]), "findings": tuple(one["findings"])})
        for one in rows
        if one["row"] in known
    }


def main() -> None:
    """Run the rows that are named, or all."""
    wanted = sys.argv[1:] or [row.name for row in ROWS]
    outcomes = read()
    with tempfile.TemporaryDirectory(prefix="tfgpu-plans-") as name:
        folder = Path(name)
        (folder / "lab").mkdir()
        lab = Lab(folder / "lab")
        machine = Machine(folder / "machine", lab.libraries)
        for row in ROWS:
            if row.name in wanted:
                begin = time.monotonic()
                outcomes[row.name] = outcome = execute(row, machine, folder)
                write(outcomes)
                print(f"{row.name}: {'ok' if outcome.ok else 'FAILED'} in {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
