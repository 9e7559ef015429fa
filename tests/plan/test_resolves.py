"""The commands that `tfgpu plan` gives, resolved against the package index; nothing is installed.

Opt-in, since it needs the index and minutes: TFGPU_TEST_INDEX=1 pytest tests/plan/test_resolves.py
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.plan.target import describe, read_specifier

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

pytestmark = [
    pytest.mark.index,
    pytest.mark.skipif(not os.environ.get("TFGPU_TEST_INDEX"), reason="opt-in: TFGPU_TEST_INDEX=1"),
]

TAGS = ("manylinux1", "manylinux2010", "manylinux2014", *(f"manylinux_2_{minor}" for minor in (5, 12, 17, 24, 27, 28)))


def requirements(option: Option, manager: str) -> list[str]:
    (line,) = (command for command in option.commands[manager] if " install " in command)
    return [
        word for word in shlex.split(line.partition(" install ")[2]) if "==" in word or "<" in word or "-cu" in word
    ]


@each(("gpu", "driver", "python", "tensorflow"), ROWS["SITUATIONS"])
def test_pip_and_uv_find_everything(gpu: str, driver: str, python: str, tensorflow: str | None, tmp_path: Path) -> None:
    target = describe(MATRIX, gpu=(gpu,), driver=driver, python=python)
    best = make_plan(MATRIX, target, specifier=read_specifier(tensorflow) if tensorflow else None).options[0]
    assert (best.kind, best.python) == ("as-is", python)
    wanted = tmp_path / "requirements.in"
    wanted.write_text("\n".join(requirements(best, "uv")), encoding="utf-8")
    platforms = " ".join(f"--platform {tag}_x86_64" for tag in TAGS)
    pip = f"pip install -q --dry-run --use-feature=fast-deps --ignore-installed --only-binary=:all: {platforms}"
    uv = "uv pip compile -q --no-header --python-platform x86_64-manylinux_2_28"
    for words in (
        [*pip.split(), "--python-version", python, "--target", str(tmp_path), *requirements(best, "pip")],
        [*uv.split(), "--python-version", python, str(wanted)],
    ):
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
