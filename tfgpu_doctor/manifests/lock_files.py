"""Lock files of every program, each by its name."""

from __future__ import annotations

import posixpath

from tfgpu_doctor.manifests import Environment, ManifestError

LOCKS_OF_PYPROJECT = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")


def read_lock_file(path: str, text: str) -> tuple[Environment, ...]:
    """The environments that a lock holds. Raises ManifestError: it is not valid, or no lock of its name."""
    name = posixpath.basename(path).lower()
    if name == "pipfile.lock":
        from tfgpu_doctor.manifests.pipfile import read_pipfile_lock

        return read_pipfile_lock(path, text)
    if name == "pixi.lock" or name.endswith((".yml", ".yaml")):
        from tfgpu_doctor.manifests import conda_locks
        from tfgpu_doctor.manifests.nodes import documents

        roots = documents(path, text)
        if roots and conda_locks.is_pixi_lock(roots[0]):
            return conda_locks.read_pixi_lock(path, roots[0])
        if roots and conda_locks.is_conda_lock(roots[0]):
            return conda_locks.read_conda_lock(path, roots[0])
        raise ManifestError(f"{path}: neither a conda-lock.yml (package:) nor a pixi.lock (environments:)")
    from tfgpu_doctor.manifests.locks import read_lock

    return read_lock(path, text)
