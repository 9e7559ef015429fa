"""A saved report can hold any text where a version or a number belongs: every diagnosis still ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import msgspec
import pytest

from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import diagnose

VALUES = ("", "abc", "9.x", "²", "9" * 5000)
# where a run begins with them; a quick one gives each text one of them, in turn
RUNS = (0, *(pytest.param(first, marks=pytest.mark.full) for first in range(1, len(VALUES))))
GPU = {"gpus": known((gpu(name="X", compute_capability="3.0"),))}
# each leads to causes by another way
MACHINES: dict[str, Facts] = {
    name: text_to_facts.read(lines.read([text.encode()]), MATRIX)
    for name, text in {
        "versions that do not fit": "tensorflow-gpu 1.15, Ubuntu 18.04, CUDA 10.1, cuDNN 8.0\n"
        "Failed to load the native TensorFlow runtime.",
        "a GPU": "TensorFlow 1.12 hangs at the first epoch with my RTX 3090, driver 450.80.02, Python 3.6",
        "what is said": "Windows 10: TensorFlow does not see my Quadro K2000. CUDA 11.6 is there, somebody said that "
        "I need CUDA 11.2; PyTorch works",
        "a container": "In the docker container nvidia/cuda:12.2.0-base training fails on the A100, TensorFlow 2.15",
    }.items()
}
for _name in ("versions that do not fit", "what is said"):
    MACHINES[_name] = spoil(MACHINES[_name], GPU)
MACHINES["a probed machine"] = healthy()


def spoiled(data: Any, values: Iterator[str]) -> Iterator[Any]:
    """The same, with each of its texts replaced in turn."""
    if isinstance(data, str):
        yield next(values)
    elif isinstance(data, dict):
        yield from ({**data, key: one} for key, inner in data.items() for one in spoiled(inner, values))
    elif isinstance(data, list | tuple):
        yield from ([*data[:n], one, *data[n + 1 :]] for n, inner in enumerate(data) for one in spoiled(inner, values))


@pytest.mark.parametrize("first", RUNS)
@each("machine", MACHINES)
def test_any_text_in_place_of_any_other(machine: str, first: int) -> None:
    asked, data = 0, msgspec.to_builtins(MACHINES[machine])
    values = cycle((*VALUES[first:], *VALUES[:first]))
    for one in islice(spoiled(data, values), None, None, 1 if first else 13):  # by day every 13th text
        try:
            facts = msgspec.convert(one, Facts)
        except msgspec.ValidationError:
            continue  # a saved report with it is refused
        diagnose(facts, MATRIX)
        asked += 1
    assert asked > 5
