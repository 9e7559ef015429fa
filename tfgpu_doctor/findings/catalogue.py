"""All findings, in the order of their rank.

What stops TensorFlow from running at all comes before what keeps it from the GPU; then the stack from the bottom up;
then what is slow, what variables change, and what is harmless. That a release is known to be broken stands last: it
annotates the specific cause and never stands before it.
"""

from __future__ import annotations

from tfgpu_doctor.findings import (
    answers,
    build,
    cuda,
    dependencies,
    driver,
    environment,
    gpu,
    host,
    imports,
    memory,
    python,
    runs,
    xla,
)
from tfgpu_doctor.findings.declaration import Declaration

# in the order of their rank
FILES = (python, dependencies, imports, host, driver, gpu, build, cuda, memory, xla, runs, environment, answers)


# of each file, in its order: findings by name, and tables of them
DECLARATIONS = {
    one.id: one
    for file in FILES
    for value in vars(file).values()
    for one in (value.values() if isinstance(value, dict) else [value])
    if isinstance(one, Declaration)
}
RANK = {finding_id: rank for rank, finding_id in enumerate(DECLARATIONS)}
