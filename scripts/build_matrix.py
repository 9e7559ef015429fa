"""Hatchling's build hook: a wheel has compat_matrix.yaml as JSON, which is decoded eight times as fast.

For an editable installation the same JSON is written beside the compiled modules (tfgpu_doctor/matrix/bundled.py); the
tests write it when it is missing. Nothing depends on it but the time to load.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tfgpu_doctor.matrix.bundled import IN_WHEEL, copy_of, ready_to_decode  # noqa: E402

SOURCE = ROOT / "compat_matrix.yaml"


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before and after the wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the JSON, in a folder of its own for a wheel."""
        if version == "editable":
            with contextlib.suppress(OSError):  # a source tree that cannot be written to
                write_copy()
            return
        self.folder = tempfile.TemporaryDirectory(prefix="tfgpu-build-")
        made = Path(self.folder.name, IN_WHEEL.name)
        made.write_bytes(ready_to_decode(SOURCE.read_bytes()))
        build_data["force_include"][str(made)] = f"tfgpu_doctor/{IN_WHEEL.name}"
        build_data["force_include"][str(ROOT / "benchmarks" / "reference")] = "tfgpu_doctor/bench/reference"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Leave nothing behind."""
        if version != "editable":
            self.folder.cleanup()


def write_copy() -> None:
    """Write the copy of the YAML as it is now, unless it is there, and remove earlier ones. Raises OSError."""
    source = SOURCE.read_bytes()
    copy = copy_of(source)
    if copy.is_file():
        return
    copy.parent.mkdir(exist_ok=True)
    for old in copy.parent.glob("compat_matrix-*.json"):
        old.unlink(missing_ok=True)
    part = copy.with_name(f"{copy.name}.{os.getpid()}")
    part.write_bytes(ready_to_decode(source))
    part.replace(copy)
