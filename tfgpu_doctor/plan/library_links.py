"""How the loader finds CUDA's libraries in a new environment, in every shell and without LD_LIBRARY_PATH. Pure.

TensorFlow opens them from libtensorflow_framework.so.2, and the loader looks into the folders of its RUNPATH. Up to
2.13 that is the folder tensorflow/ itself; 2.16.1 and 2.21.0 lack some folders of the extra, but not cuda_runtime
(readelf on the wheels). A link in a folder that is searched does what LD_LIBRARY_PATH would, a second run
changes nothing, and there is nothing that `deactivate` would have to undo.
"""

from __future__ import annotations

import shlex

from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release

_ALL = "cd {site}/tensorflow && ln -sf ../nvidia/*/lib/*.so* ."
# cublas, cufft, curand, cusolver, cusparse, cudnn; what they need themselves they find by $ORIGIN/../../nvjitlink/lib
_FORGOTTEN = "cd {site}/nvidia/cuda_runtime/lib && ln -sf ../../cu[bfrs]*/lib/*.so* ../../cudnn/lib/*.so* ."
# XLA before 2.14 does not look into NVIDIA's packages for ptxas and libdevice
_XLA_HOOK = (
    'import os, sysconfig; os.environ.setdefault("XLA_FLAGS", '
    '"--xla_gpu_cuda_data_dir=" + sysconfig.get_path("purelib") + "/nvidia/cuda_nvcc")'
)
XLA_FILE = "_tfgpu_xla_flags.pth"
_ACTIVATE = 'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
_DEACTIVATE = 'LD_LIBRARY_PATH="${LD_LIBRARY_PATH#"$CONDA_PREFIX/lib"}"; export LD_LIBRARY_PATH="${LD_LIBRARY_PATH#:}"'


def forgets_folders(issue: KnownIssue) -> bool:
    """Whether the issue is a RUNPATH that lacks folders of the extra: links repair it."""
    return issue.severity == "error" and issue.affects == "run" and issue.condition.extra


def repaired_by_links(matrix: Matrix) -> frozenset[str]:
    """The ids of these issues: a release with one of them can be installed if it is asked for."""
    return frozenset(one.id for one in matrix.data.known_issues if forgets_folders(one))


def link_commands(row: Release, site: str, *, cuda_from_pip: bool, inside: str = "") -> tuple[str, ...]:
    """The commands after pip's; none where the RUNPATH of the release leads to every library.

    Args:
        site: the site-packages folder, as the shell can read it.
        cuda_from_pip: the libraries are in pip's packages, of which the release knows nothing.
        inside: what runs a command within the environment ("conda run -n tf"), where `site` is known there alone.
    """
    if cuda_from_pip:
        hook = f"echo {shlex.quote(_XLA_HOOK)} > {site}/{XLA_FILE}"
        return (_run(_ALL.format(site=site), inside), _run(hook, inside))
    if any(forgets_folders(issue) for issue in row.known_issues):
        return (_run(_FORGOTTEN.format(site=site), inside),)
    return ()


def _run(command: str, inside: str) -> str:
    if inside:
        return f"{inside} sh -c {shlex.quote(command)}"
    return f"({command})" if command.startswith("cd ") else command


def conda_library_path(name: str) -> tuple[str, ...]:
    """Let activation put the environment's lib folder before what LD_LIBRARY_PATH holds, and deactivation take it away.

    `conda env config vars set` would replace the variable: on some clusters it leads to the driver.
    """
    return (
        f'E="$(conda run -n {name} printenv CONDA_PREFIX)/etc/conda"; mkdir -p "$E/activate.d" "$E/deactivate.d"',
        f'echo {shlex.quote(_ACTIVATE)} > "$E/activate.d/cuda.sh"',
        f'echo {shlex.quote(_DEACTIVATE)} > "$E/deactivate.d/cuda.sh"',
    )
