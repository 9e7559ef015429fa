"""A folder of tiny wheels for the real pip, and a uv that only makes files, which waits where it is told to."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from pathlib import Path

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


def write_wheel(folder: Path, name: str, version: str, requires: str = "", files: dict[str, str] | None = None) -> None:
    """A wheel that pip accepts."""
    inside = name.replace("-", "_")
    info = f"{inside}-{version}.dist-info"
    extras = "".join(
        f"Provides-Extra: {line.split(chr(39))[1]}\n" for line in requires.splitlines() if "extra ==" in line
    )
    contents = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{extras}"
        + "".join(f"Requires-Dist: {line}\n" for line in requires.splitlines()),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **(files or {f"{inside}/__init__.py": ""}),
    }
    rows = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(folder / f"{inside}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def write_index(folder: Path) -> Path:
    """A folder for --find-links with a tensorflow[and-cuda] that requires one package of NVIDIA."""
    folder.mkdir(parents=True)
    write_wheel(folder, "tensorflow", TENSORFLOW, f"nvidia-cudnn-cu12=={CUDNN} ; extra == 'and-cuda'")
    write_wheel(folder, "nvidia-cudnn-cu12", CUDNN)
    return folder


def left_in(folder: Path) -> list[str]:
    """Everything below a folder, logs left out."""
    found = (os.path.relpath(os.path.join(top, one), folder) for top, ds, fs in os.walk(folder) for one in (*ds, *fs))
    return sorted(one for one in found if not one.endswith(".tfgpu-install.log"))


CONDA = """#!/bin/sh
[ "$1 $2 $3" = "install --yes --prefix" ] && [ -e "$4/conda-meta/history" ] || exit 9
mkdir "$4/bin"
echo "$*" > "$4/bin/ran"
"""


def fake_conda(folder: Path) -> None:
    """Put the program into a folder for PATH."""
    (folder / "conda").write_text(CONDA)
    (folder / "conda").chmod(0o755)
