"""A folder of tiny wheels for the real pip, and a uv that only makes files, which waits where it is told to."""

from __future__ import annotations

import os
from pathlib import Path

from tests.loop.made_up import wheel

# What the plan asks for with TENSORFLOW and GPU below, and what that requires.
TENSORFLOW, CUDNN = "2.17.1", "8.9.7.29"
GPU = ("--gpu", "RTX 4090", "--driver", "570", "--tensorflow", TENSORFLOW)
# The commands of uv that an installation runs, and what each leaves behind.
UV = """#!/bin/sh
case "$1 $2" in
"venv --seed") phase=venv ;;
"pip install") phase=install ;;
*) exit 9 ;;
esac
for last; do :; done
echo "$*" >> "${0%/*}/ran"
moment() {
    if [ "$TFGPU_TEST_WAIT" = "$phase $1" ]; then
        echo $$ > "$TFGPU_TEST_READY.new"
        mv "$TFGPU_TEST_READY.new" "$TFGPU_TEST_READY"
        exec sleep 300
    fi
    if [ "$TFGPU_TEST_FAIL" = "$phase $1" ]; then printf '%b\\n' "$TFGPU_TEST_SAYS" >&2; exit 1; fi
}
moment begin
case $phase in
venv)
    mkdir -p "$last/bin" "$last/lib/site-packages/tensorflow"
    : > "$last/bin/python"
    : > "$last/pyvenv.cfg" ;;
install)
    echo " Downloaded tensorflow" >&2 ;;
esac
moment end
"""


def fake_uv(folder: Path) -> Path:
    """Put the program into a folder for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "uv"
    program.write_text(UV)
    program.chmod(0o755)
    return program


def write_index(folder: Path) -> Path:
    """A folder for --find-links with a tensorflow[and-cuda] that requires one package of NVIDIA."""
    folder.mkdir(parents=True)
    needs = (f"nvidia-cudnn-cu12=={CUDNN} ; extra == 'and-cuda'",)
    wheel(folder, "tensorflow", TENSORFLOW, {"tensorflow/__init__.py": b""}, needs)
    wheel(folder, "nvidia-cudnn-cu12", CUDNN, {"nvidia/cudnn/__init__.py": b""})
    return folder


def left_in(folder: Path) -> list[str]:
    """Everything below a folder."""
    return sorted(
        os.path.relpath(os.path.join(top, one), folder) for top, ds, fs in os.walk(folder) for one in (*ds, *fs)
    )


CONDA = """#!/bin/sh
[ "$1 $2 $3" = "install --yes --prefix" ] && [ -e "$4/conda-meta/history" ] || exit 9
mkdir "$4/bin"
echo "$*" > "$4/bin/ran"
"""


def fake_conda(folder: Path) -> None:
    """Put the program into a folder for PATH."""
    (folder / "conda").write_text(CONDA)
    (folder / "conda").chmod(0o755)
