"""Which version a CUDA toolkit is, from the files that it brings; nothing is started unless none tells."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable

from tfgpu_doctor.files.reading import read_head
from tfgpu_doctor.probes import process

HEADER_BYTES = 200_000  # cuda.h has a megabyte; the macro stands in its first tenth


def toolkit_version(path: str) -> tuple[str | None, str]:
    """Return (version, the file it was read from) of the toolkit in `path`; (None, path) when nothing tells."""
    steps: tuple[tuple[str, Callable[[str], str | None]], ...] = (
        ("version.json", _from_json),
        ("version.txt", _from_text),
        ("include/cuda.h", _from_header),
        ("targets/*/include/cuda.h", _from_header),
        ("include/cuda_runtime_api.h", _from_header),
        ("lib64/libcudart.so.*", _from_library),
        ("lib/libcudart.so.*", _from_library),
        ("targets/*/lib/libcudart.so.*", _from_library),
        ("bin/nvcc", _from_compiler),
    )
    for pattern, tell in steps:
        # the longest name first: libcudart.so.12.5.82 tells more than libcudart.so.12
        for file in sorted(glob.glob(os.path.join(glob.escape(path), pattern)), key=len, reverse=True):
            if version := tell(file):
                return version, file
    return None, path


def nvcc_version(program: str) -> tuple[str, str] | None:
    """Return (version, file) of the nvcc at the resolved path `program` from the version.json beside its bin folder."""
    file = os.path.join(os.path.dirname(os.path.dirname(program)), "version.json")
    version = _component(file, "cuda_nvcc")
    return (version, file) if version and os.path.basename(os.path.dirname(program)) == "bin" else None


def _component(file: str, name: str) -> str | None:
    try:
        entry = json.loads(_text(file))[name]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):  # an empty file, or of another shape
        return None
    return entry if isinstance(entry, str) else None


def _text(file: str) -> str:
    try:
        return read_head(file, HEADER_BYTES).decode("utf-8", "replace")
    except OSError:  # the next file may tell
        return ""


def _from_json(file: str) -> str | None:
    return _component(file, "cuda")


def _from_text(file: str) -> str | None:
    match = re.search(r"CUDA Version (\d+(?:\.\d+)+)", _text(file))
    return match[1] if match else None


def _from_header(file: str) -> str | None:
    match = re.search(r"^\s*#\s*define\s+CUDA(?:RT)?_VERSION\s+(\d{1,9})\b", _text(file), re.MULTILINE)
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}" if match else None


def _from_library(file: str) -> str | None:
    """libcudart.so.12.5.82; a shorter name is a soname (that of all 11.x is 11.0) and tells no version."""
    match = re.search(r"\.so\.(\d+\.\d+\.\d+)$", os.path.realpath(file))
    return match[1] if match else None


def _from_compiler(file: str) -> str | None:
    if not os.path.isabs(file):  # nothing of the current directory is started
        return None
    match = re.search(r"\bV(\d+\.\d+\.\d+)", process.run([file, "--version"], timeout=5.0).stdout)
    return match[1] if match else None
