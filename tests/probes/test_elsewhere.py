"""Jupyter's kernels and other environments, as they lie on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.tables import each
from tfgpu_doctor.facts.facts import Kernel, Known, OtherPython, Python, Unknown, value_or
from tfgpu_doctor.probes import elsewhere


def environment(folder: Path, *packages: str) -> str:
    """A virtual environment with these distributions; its interpreter is a link, as venv makes it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    site = next((folder / "lib").glob("python3*/site-packages"))
    for package in packages:
        (site / f"{package}.dist-info").mkdir()
    return str(folder / "bin" / "python")


def kernel(folder: Path, name: str, *argv: str) -> None:
    """A kernel.json in one of Jupyter's data folders."""
    file = folder / "kernels" / name / "kernel.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"argv": list(argv), "display_name": f"Mine: {name}", "language": "python"}))


LAUNCH = ("-m", "ipykernel_launcher", "-f", "{connection_file}")


def found(environ: dict[str, str], prefix: str | None = None) -> dict[str, Kernel]:
    return {one.name: one for one in value_or(elsewhere.examine_kernels(environ, prefix), ())}


def test_kernels_of_the_user_and_of_an_environment(tmp_path: Path) -> None:
    home, env = tmp_path / "home", tmp_path / "env"
    python = environment(env)
    kernel(home / ".local" / "share" / "jupyter", "ml", "/opt/ml/bin/python", *LAUNCH)
    kernel(env / "share" / "jupyter", "python3", "python", *LAUNCH)
    kernel(home / ".local" / "share" / "jupyter", "julia", "julia", "-i", "{connection_file}")
    seen = found({"HOME": str(home)}, str(env))
    assert {"ml", "python3"} <= set(seen)
    assert "julia" not in seen
    assert seen["ml"].executable == "/opt/ml/bin/python"
    assert (seen["python3"].executable, seen["python3"].display_name) == (python, "Mine: python3")


@each("text", ["", "[]", "{", '{"argv": "python"}', '{"argv": [3]}', '{"argv": []}', "\udcff" * 3])
def test_broken_kernels_are_left_out(tmp_path: Path, text: Any) -> None:
    file = tmp_path / "kernels" / "odd" / "kernel.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "odd" not in found({"JUPYTER_DATA_DIR": str(tmp_path)})


def others(environ: dict[str, str], executable: str | None = None, prefix: str = "/nowhere") -> list[OtherPython]:
    program = Unknown("not known") if executable is None else Known(executable, "sys.executable")
    python = Python(executable=program, prefix=Known(prefix, "sys.prefix"))
    return list(value_or(elsewhere.examine(python, environ), ()))


def test_the_activated_environment(tmp_path: Path) -> None:
    python = environment(tmp_path, "tensorflow-2.20.0", "nvidia_cudnn_cu12-9.3.0.75", "nvidia_cuda_runtime_cu12-12.5")
    (one,) = others({"VIRTUAL_ENV": str(tmp_path)})
    assert (one.executable, one.via, one.tensorflow, one.cuda) == (python, "VIRTUAL_ENV", "tensorflow 2.20.0", True)


def test_the_environment_under_test_is_no_other(tmp_path: Path) -> None:
    environment(tmp_path, "tensorflow-2.20.0")
    assert others({"VIRTUAL_ENV": str(tmp_path)}, prefix=str(tmp_path)) == []


def test_a_kernel_of_another_environment(tmp_path: Path) -> None:
    python = environment(tmp_path)
    kernel(tmp_path / "jupyter", "mine", python, *LAUNCH)
    (other, *_) = others({"JUPYTER_PATH": str(tmp_path / "jupyter")})
    assert (other.via, other.prefix, other.tensorflow, other.cuda) == ("kernel mine", str(tmp_path), None, False)


def test_pip_of_another_python(tmp_path: Path) -> None:
    mine, its = environment(tmp_path / "mine"), environment(tmp_path / "its", "tensorflow_cpu-2.18.0")
    (tmp_path / "its" / "bin" / "pip").write_text(f"#!{its}\nimport pip\n")
    (tmp_path / "its" / "bin" / "pip").chmod(0o755)
    path = f"{tmp_path}/mine/bin:{tmp_path}/its/bin"
    (one,) = others({"PATH": path}, executable=mine, prefix=str(tmp_path / "mine"))
    assert (one.executable, one.via, one.tensorflow) == (its, "pip on PATH", "tensorflow-cpu 2.18.0")
    assert others({"PATH": path}, executable="/named/with/--python", prefix=str(tmp_path / "mine")) == []
