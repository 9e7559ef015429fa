"""All findings, in the order of their rank.

What stops TensorFlow from running at all comes before what keeps it from the GPU; then the stack from the bottom up;
then what is slow, what variables change, and what is harmless. That a release is known to be broken stands last: it
annotates the specific cause and never stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from tfgpu_doctor.findings import (
    abi,
    answers,
    build,
    communication,
    compute,
    container,
    cuda,
    cuda_numbers,
    cuda_path,
    cudnn,
    cudnn_runtime,
    dependencies,
    driver,
    driver_cuda,
    driver_module,
    environment,
    environment_machine,
    environments,
    gpu,
    gpu_arch,
    gpu_health,
    harmless,
    imports,
    installation,
    known_bugs,
    limits,
    machine,
    memory,
    newer_release,
    packages,
    performance,
    runs,
    shadowing,
    system_libraries,
    which_release,
    wsl,
    xla,
)
from tfgpu_doctor.findings.declaration import Declaration

FILES: tuple[ModuleType, ...] = (
    environments,
    packages,
    shadowing,
    dependencies,
    abi,
    installation,
    system_libraries,
    imports,
    limits,
    machine,
    container,
    wsl,
    driver,
    driver_module,
    driver_cuda,
    gpu_health,
    gpu,
    gpu_arch,
    build,
    cuda,
    cuda_path,
    cudnn,
    cudnn_runtime,
    compute,
    memory,
    xla,
    communication,
    runs,
    performance,
    environment,
    environment_machine,
    cuda_numbers,
    which_release,
    answers,
    harmless,
    newer_release,
    known_bugs,
)


def _declared_in(file: ModuleType) -> Iterator[Declaration]:
    """What a file declares, in its order: findings by name, and tables of them."""
    for value in vars(file).values():
        for one in value.values() if isinstance(value, dict) else [value]:
            if isinstance(one, Declaration):
                yield one


DECLARATIONS = {one.id: one for file in FILES for one in _declared_in(file)}
RANK = {finding_id: rank for rank, finding_id in enumerate(DECLARATIONS)}
