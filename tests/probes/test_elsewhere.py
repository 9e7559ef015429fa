"""Jupyter's kernels, other environments, and the files that set variables for every new shell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.tables import each
from tfgpu_doctor.facts.facts import Kernel, Known, OtherPython, Python, Setting, Unknown, value_or
from tfgpu_doctor.facts.report import Fix
from tfgpu_doctor.plan.fixes import lasting
from tfgpu_doctor.probes import elsewhere, startup_files


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


# ------------------------------------------------------------------------------------------------ startup files

# every way in which a variable that a finding blames is set: file below the home, line, variable, its value then
SET = [
    (".bashrc", "export CUDA_VISIBLE_DEVICES=-1", "CUDA_VISIBLE_DEVICES", "-1"),
    (".profile", "CUDA_VISIBLE_DEVICES=''  # one card", "CUDA_VISIBLE_DEVICES", ""),
    (".zshrc", 'export LD_LIBRARY_PATH="/opt/old/lib:$LD_LIBRARY_PATH"', "LD_LIBRARY_PATH", "/opt/old/lib:/x"),
    (".bashrc", "export PYTHONPATH=$HOME/lib:${PYTHONPATH}", "PYTHONPATH", "{home}/lib:"),
    (
        ".bash_profile",
        "export XLA_FLAGS='--xla_gpu_cuda_data_dir=/no where'",
        "XLA_FLAGS",
        "--xla_gpu_cuda_data_dir=/no where",
    ),
    (".config/fish/config.fish", "set -gx TF_XLA_FLAGS --tf_xla_auto_jit=2", "TF_XLA_FLAGS", "--tf_xla_auto_jit=2"),
    ("venv/bin/activate", "export TF_USE_LEGACY_KERAS=1", "TF_USE_LEGACY_KERAS", "1"),
    ("venv/etc/conda/activate.d/cuda.sh", "export NVIDIA_TF32_OVERRIDE=0;", "NVIDIA_TF32_OVERRIDE", "0"),
]


def examine(home: Path, **environ: str) -> tuple[Setting, ...]:
    found = startup_files.examine({"HOME": str(home), **environ}, str(home / "venv"), root="/")
    return tuple(one for one in value_or(found, ()) if one.file.startswith(str(home)))


@each("name, line, variable, value", SET)
def test_the_line_is_found_and_the_fix_names_it(
    tmp_path: Path, name: Any, line: Any, variable: Any, value: Any
) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"alias ll='ls -l'\n{line}\nexport EDITOR=vi\n")
    (found,) = examine(tmp_path, **{variable: value.format(home=tmp_path)})
    assert (found.name, found.file, found.line) == (variable, str(file), 2)
    fix = lasting(Fix(text="Unset it", commands=(f"unset {variable}",)), (found,))
    assert fix.text == f"Unset it; also delete line 2 of {file}, which sets it in every new shell"
    assert fix.commands == (f"unset {variable}",)


@each(
    "line",
    [
        *("# export CUDA_VISIBLE_DEVICES=-1", "export CUDA_VISIBLE_DEVICES=0", "echo CUDA_VISIBLE_DEVICES=-1"),
        *("[ -n x ] && export CUDA_VISIBLE_DEVICES=-1", "export CUDA_VISIBLE_DEVICES=-1 SECRET=x", "export SECRET=-1"),
    ],
)
def test_other_lines_are_left_alone(tmp_path: Path, line: Any) -> None:
    """Another value, more than one thing on a line, or a variable of which nothing may be known."""
    (tmp_path / ".bashrc").write_text(line + "\n")
    assert examine(tmp_path, CUDA_VISIBLE_DEVICES="-1", SECRET="-1") == ()


def test_conda_and_keras_have_files_of_their_own(tmp_path: Path) -> None:
    state = tmp_path / "venv" / "conda-meta" / "state"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"env_vars": {"CUDA_VISIBLE_DEVICES": "-1", "SECRET": "x"}}))
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras" / "keras.json").write_text('{\n "backend": "torch"\n}')
    conda, keras = examine(tmp_path, CUDA_VISIBLE_DEVICES="-1", SECRET="x")
    assert (keras.name, keras.value, keras.line) == ("KERAS_BACKEND", "torch", 2)
    fix = lasting(Fix(text="Unset it", commands=("unset CUDA_VISIBLE_DEVICES KERAS_BACKEND",)), (conda, keras))
    assert str(state) in fix.text and "keras.json" not in fix.text


def test_what_is_kept_and_what_is_added_stays() -> None:
    """Only lines whose folders are taken out of a list are named, and none for a command that adds to it."""
    lines = [Setting("LD_LIBRARY_PATH", f"/{one}/lib:$LD_LIBRARY_PATH", "/home/me/.bashrc", 1) for one in ("a", "b")]
    kept = Fix(text="Remove it", commands=("export LD_LIBRARY_PATH=/b/lib",))
    assert lasting(kept, lines).text.count(".bashrc") == lasting(kept, lines[:1]).text.count(".bashrc") == 1
    added = Fix(text="Add it", commands=("export LD_LIBRARY_PATH=/c/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",))
    assert lasting(added, lines) == added
