"""The words for what `tfgpu check` read and found, the same in every format."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.checked import ReadFile
from tfgpu_doctor.records.report import Verdict

MEANING: dict[Verdict, str] = {
    "ok": "no problems found",
    "degraded": "it will run, but with problems",
    "broken": "it will not work",
    "unknown": "these files name no TensorFlow",
}


def read_file(seen: PlannedEnvironment) -> ReadFile:
    """What an environment names, in a line."""
    one = seen.environment
    return ReadFile(label=one.label, path=one.place.path, content="; ".join(_content(seen)) or "nothing")


def _content(seen: PlannedEnvironment) -> Iterator[str]:
    """What an environment names, and what that comes to."""
    if seen.base:
        yield _image(seen)
    if seen.tensorflow:
        row = seen.release
        resolved = f" = {row.version}" if row and row.version not in seen.tensorflow.specifier else ""
        yield f"{seen.tensorflow.text}{resolved}"
    if seen.environment.python and seen.pythons:
        yield f"Python {seen.pythons[0]}" + (f" to {seen.pythons[-1]}" if len(seen.pythons) > 1 else "")
    inside = seen.base.image.reference if seen.base else None
    for version in (*seen.cudas, *seen.cudnns):
        if version.text != inside:
            yield version.text
    if seen.environment.gpu:
        yield seen.environment.gpu.text


def _image(seen: PlannedEnvironment) -> str:
    assert seen.base is not None
    base = seen.base
    parts = [
        f"TensorFlow {base.tensorflow}" if base.tensorflow else "",
        f"CUDA {base.cuda}" if base.cuda else "",
        f"cuDNN {base.cudnn}" if base.cudnn else "",
        f"Python {base.python}" if base.python else "",
    ]
    contents = ", ".join(part for part in parts if part)
    return base.image.reference + (f" ({contents})" if contents else "")
