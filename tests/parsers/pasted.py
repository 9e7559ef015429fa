"""What is pasted: numbered lines, captures, samples of messages, bad pastes, and lines of TensorFlow's log.

Of these only the frame is made here, as its generations print it; the sentences are the rows'.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import yaml

from tfgpu_doctor.parsers.lines import Line

CAPTURES = Path(__file__).parents[1] / "captures"
ROWS = Path(__file__).parent / "rows"
Sample = tuple[str, str, dict[str, str]]  # kind of a message, a line of it, and the values that it gives


@cache
def samples(*groups: str) -> list[Sample]:
    """Return the samples of messages of some layers, else all."""
    found = yaml.load((ROWS / "messages.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return [(kind, line, *(values or [{}])) for group in groups or found for kind, line, *values in found[group]]


def lines(text: str) -> list[Line]:
    """The lines of a text, numbered from 1."""
    return [Line(number, line) for number, line in enumerate(text.splitlines(), 1)]


def capture(folder: str, name: str) -> list[Line]:
    """The lines of a capture."""
    return lines((CAPTURES / folder / name).read_text(encoding="utf-8"))


def mangled(text: str, seed: int) -> list[Line]:
    """The text as bad pastes have it: cut, indented, wrapped, quoted, with characters lost or doubled."""
    choose = random.Random(seed)
    found = []
    for line in text.splitlines():
        kind = choose.randrange(8)
        if kind == 0:
            found.append("    " + line)
        elif kind == 1:
            at = choose.randrange(len(line) + 1)
            found += [line[:at], line[at:]]
        elif kind == 2:
            found.append(line[: choose.randrange(len(line) + 1)])
        elif kind == 3 and line:
            at = choose.randrange(len(line))
            found.append(line[:at] + choose.choice("\0\t|:=()[]'\"`*#>-.,;/\\0٣é\u2028") + line[at + 1 :])
        elif kind == 4:
            found.append(line * choose.randrange(4))
        elif kind != 5:
            found.append(line)
    return lines("\n".join(found))


# generation → what stands before the sentence; {file} is a path as in the sources, {name} its last part
_FRAMES = {
    "1.0": "{letter} tensorflow/{file}:509] ",
    "1.15": "2020-02-03 09:10:11.121314: {letter} tensorflow/{file}:326] ",
    "2.4": "2021-03-02 10:11:12.131415: {letter} tensorflow/{file}:60] ",
    "2.13": "2023-08-09 11:12:13.141516: {letter} tensorflow/compiler/xla/{file}:268] ",
    "2.17": "2024-09-10 12:13:14.151617: {letter} external/local_xla/xla/{file}:266] ",
    "2.21": "{letter}0000 00:00:1795265043.047846   20055 {name}:52] ",
}
_OWN = ("core/", "tsl/", "compiler/")  # folders that are no part of XLA


def log(era: str, file: str, text: str, letter: str = "E") -> str:
    """One line as that release logs it."""
    frame = _FRAMES[era]
    if file.startswith(_OWN) and era in ("2.13", "2.17"):
        frame = _FRAMES["2.4"]
    if file.startswith("tsl/") and era == "2.17":
        frame = frame.replace("tensorflow/", "external/local_tsl/")
    return frame.format(letter=letter, file=file, name=file.rpartition("/")[2]) + text


def created() -> str:
    """TensorFlow uses a GPU."""
    place = "name: NVIDIA GeForce RTX 3090, pci bus id: 0000:01:00.0, compute capability: 8.6"
    text = f"Created device /job:localhost/replica:0/task:0/device:GPU:0 with 21915 MB memory:  -> device: 0, {place}"
    return log("2.13", "core/common_runtime/gpu/gpu_device.cc", text, "I")


_TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI {driver:<15}     Driver Version: {driver:<15}   CUDA Version: {cuda:<5}    |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
"""
_ROW = """\
| {index:>3}  {name:<27}Off |   00000000:01:00.0 Off |                  N/A |
| 30%   35C    P8             20W /  350W | {used:>7}MiB / {total:>7}MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""


def smi(driver: str, cuda: str, gpus: Iterable[tuple[str, int, int]] = ()) -> str:
    """nvidia-smi's table of cards: name, and the MiB that are used and there."""
    rows = (
        _ROW.format(index=index, name=name, used=used, total=total) for index, (name, used, total) in enumerate(gpus)
    )
    return _TABLE.format(driver=driver, cuda=cuda) + "".join(rows)
