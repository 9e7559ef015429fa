"""A GPU for which a program has no kernels: which program it is, and what is open where no text names the GPU."""

from __future__ import annotations

from dataclasses import replace

from tfgpu_doctor.findings.declaration import Problem
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Fix, Severity

TOO_NEW = ("no-kernels-for-gpu", "invalid-ptx")  # messages about a GPU that is newer than the build
_WHICH_GPU = Fix("To decide, see which GPU it is", ("nvidia-smi --query-gpu=name,compute_cap --format=csv",))
_OF_PYTORCH = Fix(
    "Install a PyTorch with kernels for this GPU; this shows both",
    ('python -c "import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())"',),
)


def of_program(log: MessageLog, problem: Problem, age: str) -> Problem:
    """The problem under the name of the program that reports it: a release of TensorFlow does not cure PyTorch."""
    if "PyTorch" not in log.values("another-program", "program"):
        return problem
    return replace(
        problem,
        title=f"The GPU is {age} than the kernels in this PyTorch",
        cause=problem.cause if problem.possible else "PyTorch reports it: its build has no kernels for this GPU",
        fixes=(_WHICH_GPU,) if problem.possible else (_OF_PYTORCH,),
    )


def undecided(log: MessageLog, seen: tuple[Message, ...], known: list[str], age: str) -> Problem | None:
    """No kernel fits, and nothing tells which GPU it is: it may be older or newer than all of them."""
    if not seen or known or log.has(*TOO_NEW):
        return None
    open_question = Problem(
        possible=True,
        severity=Severity.WARNING,
        cause="the program has no kernels for this GPU, which the text does not name: the GPU is too old or too new",
        evidence=message_evidence(*seen),
        fixes=(_WHICH_GPU,),
    )
    return of_program(log, open_question, age)
