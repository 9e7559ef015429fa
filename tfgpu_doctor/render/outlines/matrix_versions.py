"""Answers of the matrix about drivers and Pythons, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfgpu_doctor.lookup.drivers import DriverAnswer
from tfgpu_doctor.lookup.pythons import PythonAnswer
from tfgpu_doctor.render.outlines.matrix import Card, Columns, Sheet, Sources
from tfgpu_doctor.render.outlines.matrix_notes import newest_of

_NONE = "no release has a wheel for it"


def driver(answer: DriverAnswer) -> Sheet:
    """One driver."""
    is_branch = answer.driver == answer.branch
    note = "the newest of its branch" if is_branch else ""
    if answer.judged_as:
        note = f"newer than any branch that is known: what follows is for {answer.judged_as}, the newest"
    parts = (Card(tuple(_driver_lines(answer))), Sources(answer.sources))
    return Sheet(f"NVIDIA driver {answer.driver}", note, parts)


def _driver_lines(answer: DriverAnswer) -> Iterator[tuple[str, str]]:
    capabilities = f" (compute capability {', '.join(answer.compute_capabilities)})"
    yield "GPUs", ", ".join(answer.architectures) + capabilities if answer.architectures else "none in the matrix"
    later = answer.cuda_minor if answer.cuda_minor != answer.cuda else None
    also = f"; programs of up to CUDA {later} run, PTX excepted" if later else ""
    yield "CUDA", (f"up to {answer.cuda}" if answer.cuda else "none in the matrix") + also
    none = f"no release for {answer.platform} runs on it"
    where = f" for {answer.platform}"
    yield "TensorFlow", newest_of(answer.newest_tensorflow, where, answer.passed_over, answer.tensorflow) or none
    yield "one GPU", "tfgpu matrix gpu NAME says which releases have kernels for it"


def drivers(answers: Sequence[DriverAnswer]) -> Sheet:
    """All branches, newest first."""
    columns = {
        "branch": [answer.branch for answer in answers],
        "CUDA": [answer.cuda or "?" for answer in answers],
        "TensorFlow": [answer.newest_tensorflow or "-" for answer in answers],
        "GPUs": [_span(answer.architectures) for answer in answers],
    }
    return Sheet("Driver branches", _where(answers), (Columns(columns),))


def python(answer: PythonAnswer) -> Sheet:
    """One Python."""
    return Sheet(f"Python {answer.python}", f"for {answer.platform}", (Card(tuple(_python_lines(answer))),))


def _python_lines(answer: PythonAnswer) -> Iterator[tuple[str, str]]:
    yield "TensorFlow", newest_of(answer.newest_tensorflow, "", {}, answer.tensorflow) or _NONE
    yield "with GPU", newest_of(answer.newest_with_gpu, "", answer.passed_over, answer.with_gpu) or _NONE


def pythons(answers: Sequence[PythonAnswer]) -> Sheet:
    """All Pythons, newest first."""
    columns = {
        "Python": [answer.python for answer in answers],
        "TensorFlow": [_span(answer.tensorflow[::-1]) for answer in answers],
        "with GPU": [_span(answer.with_gpu[::-1]) for answer in answers],
    }
    return Sheet("Python versions", _where(answers), (Columns(columns),))


def _where(answers: Sequence[DriverAnswer | PythonAnswer]) -> str:
    return f"for {answers[0].platform}" if answers else ""


def _span(names: Sequence[str]) -> str:
    return "-" if not names else names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
