"""Jupyter's kernels, other environments, and the files that set variables for every new shell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.fault_bench import MadeUp
from tests.probes.test_cuda import write
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Kernel, Known, OtherPython, Python, Setting, Unknown, value_or
from tfgpu_doctor.facts.report import Fix
from tfgpu_doctor.plan.fixes import lasting
from tfgpu_doctor.probes import elsewhere, startup_files

STARTUP = read_rows(Path(__file__).with_name("startup_files.yaml"))


def environment(folder: Path, *packages: tuple[str, str]) -> str:
    """A virtual environment with these distributions; its interpreter is a link, as venv makes it."""
    made = MadeUp(folder)
    for name, version in packages:
        made.package(name, version)
    return made.python


def kernel(folder: Path, name: str, *argv: str) -> None:
    """A kernel.json in one of Jupyter's data folders."""
    text = json.dumps({"argv": list(argv), "display_name": f"Mine: {name}", "language": "python"})
    write(folder, f"kernels/{name}/kernel.json", text)


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


def test_environments_that_are_activated_or_named_by_a_kernel(tmp_path: Path) -> None:
    mine, bare = tmp_path / "mine", tmp_path / "bare"
    cuda = [("nvidia_cudnn_cu12", "9.3.0.75"), ("nvidia_cuda_runtime_cu12", "12.5")]
    python = environment(mine, ("tensorflow", "2.20.0"), *cuda)
    assert others({"VIRTUAL_ENV": sys.prefix}) == []  # activated to get the command tfgpu
    (one,) = others({"VIRTUAL_ENV": str(mine)})
    assert (one.executable, one.via, one.tensorflow, one.cuda) == (python, "VIRTUAL_ENV", "tensorflow 2.20.0", True)
    assert others({"VIRTUAL_ENV": str(mine)}, prefix=str(mine)) == []  # the one under test
    kernel(tmp_path / "jupyter", "mine", environment(bare), *LAUNCH)
    (other, *_) = others({"JUPYTER_PATH": str(tmp_path / "jupyter")})
    assert (other.via, other.prefix, other.tensorflow, other.cuda) == ("kernel mine", str(bare), None, False)


def test_pip_of_another_python(tmp_path: Path) -> None:
    mine, its = environment(tmp_path / "mine"), environment(tmp_path / "its", ("tensorflow_cpu", "2.18.0"))
    write(tmp_path, "its/bin/pip", f"#!{its}\nimport pip\n", 0o755)
    path = f"{tmp_path}/mine/bin:{tmp_path}/its/bin"
    (one,) = others({"PATH": path}, executable=mine, prefix=str(tmp_path / "mine"))
    assert (one.executable, one.via, one.tensorflow) == (its, "pip on PATH", "tensorflow-cpu 2.18.0")
    assert others({"PATH": path}, executable="/named/with/--python", prefix=str(tmp_path / "mine")) == []


# ------------------------------------------------------------------------------------------------ startup files


def examine(home: Path, **environ: str) -> tuple[Setting, ...]:
    found = startup_files.examine({"HOME": str(home), **environ}, str(home / "venv"), root="/")
    return tuple(one for one in value_or(found, ()) if one.file.startswith(str(home)))


@each("name, line, variable, value", STARTUP["set"])
def test_the_line_is_found_and_the_fix_names_it(
    tmp_path: Path, name: str, line: str, variable: str, value: str
) -> None:
    file = write(tmp_path, name, f"alias ll='ls -l'\n{line}\nexport EDITOR=vi\n")
    (found,) = examine(tmp_path, **{variable: value.replace("HOME", str(tmp_path))})
    assert (found.name, found.file, found.line) == (variable, str(file), 2)
    fix = lasting(Fix(text="Unset it", commands=(f"unset {variable}",)), (found,))
    assert fix.text == f"Unset it; also delete line 2 of {file}, which sets it in every new shell"
    assert fix.commands == (f"unset {variable}",)


@each("line", STARTUP["left alone"])
def test_other_lines_are_left_alone(tmp_path: Path, line: str) -> None:
    write(tmp_path, ".bashrc", line + "\n")
    assert examine(tmp_path, CUDA_VISIBLE_DEVICES="-1", SECRET="-1") == ()


def test_keras_has_a_file_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, ".keras/keras.json", '{\n "backend": "torch"\n}')
    (keras,) = examine(tmp_path)
    assert (keras.name, keras.value, keras.line) == ("KERAS_BACKEND", "torch", 2)
    assert "keras.json" not in lasting(Fix(text="Unset it", commands=("unset KERAS_BACKEND",)), (keras,)).text


def test_what_is_kept_and_what_is_added_stays() -> None:
    """Only lines whose folders are taken out of a list are named, and none for a command that adds to it."""
    lines = [Setting("LD_LIBRARY_PATH", f"/{one}/lib:$LD_LIBRARY_PATH", "/home/me/.bashrc", 1) for one in ("a", "b")]
    kept = Fix(text="Remove it", commands=("export LD_LIBRARY_PATH=/b/lib",))
    assert lasting(kept, lines).text.count(".bashrc") == lasting(kept, lines[:1]).text.count(".bashrc") == 1
    added = Fix(text="Add it", commands=("export LD_LIBRARY_PATH=/c/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",))
    assert lasting(added, lines) == added
