"""Library paths that hold without the user's shell."""

from __future__ import annotations

from pathlib import Path

from tfgpu_doctor.install.records import Added
from tfgpu_doctor.matrix.loader import Release

# ids of known issues that `add_library_paths` repairs: a release with one of them can be installed if it is asked for
REPAIRED_ISSUES: frozenset[str] = frozenset()


def add_library_paths(prefix: Path, release: Release) -> tuple[Added, ...]:
    """Let TensorFlow find the CUDA libraries of an environment in any shell; what was added for it."""
    del prefix, release
    return ()
