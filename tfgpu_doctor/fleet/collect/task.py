"""What is run on each node, and how its output becomes a line of the result. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from tfgpu_doctor.fleet.records import NODE_SCHEMA, NodeResult
from tfgpu_doctor.records.facts import compact
from tfgpu_doctor.records.printable import cut, escape_json

LIMITS = {"doctor": 120.0, "smoke": 180.0, "bench": 1800.0}  # seconds that a node has to answer, where none are given
LARGEST = 16 << 20  # bytes of the output of one node
GRACE = 10.0  # seconds that a node has beyond its limit, to end what hangs and to say so
OWN_OPTIONS = ("--format", "--output", "--html")  # the output is what is collected
_MISSING = "No module named 'tfgpu_doctor"
_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Exit)\b: .")
_LONGEST = 300  # characters of a reason


class Task(NamedTuple):
    """A command of tfgpu, with a time limit."""

    arguments: tuple[str, ...]  # "doctor", "--format", "json"
    timeout: float  # seconds

    @property
    def too_slow(self) -> str:
        """Why a node has no result whose time is over."""
        return f"did not answer within {self.timeout:g} s"


class Collected(NamedTuple):
    """What came of it. Without any node, `error` says why."""

    nodes: list[NodeResult]
    error: str = ""


class Progress(Protocol):
    """Hears of each node whose answer, or whose failure, is there."""

    def __call__(self, node: str, failure: str, done: int, of: int) -> None:
        """`failure` is empty where the node has answered."""
        ...


def task(words: Sequence[str], timeout: float | None = None) -> Task:
    """The command that these words name, with JSON as its output."""
    return Task((*words, "--format", "json"), timeout or LIMITS[words[0]])


def node_result(node: str, output: Sequence[bytes], failure: str = "") -> NodeResult:
    """The line of a node that wrote these lines; `failure` is why there is no result among them.

    What stands before and after the document is of other programs. A document may be broken within a line, as srun
    does: JSON has no line breaks within its strings.
    """
    begin = next((number for number, line in enumerate(output) if line.rstrip() == b"{"), None)
    end = next((number for number in range(len(output), 0, -1) if output[number - 1].rstrip() == b"}"), 0)
    if begin is None or end <= begin:
        return _failed(node, failure or "its output has no result")
    data = b"".join(output[begin:end])
    if len(data) > LARGEST:
        return _failed(node, f"its output is larger than {LARGEST >> 20} MiB")
    try:
        whole = msgspec.json.decode(data)
        is_ours = isinstance(whole, dict) and str(whole.get("schema", "")).startswith("tfgpu.")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _failed(node, failure or "its output is cut off, or no JSON")
    if not is_ours:
        return _failed(node, failure or "its output is no result of tfgpu")
    return NodeResult(schema=NODE_SCHEMA, node=node, result=msgspec.Raw(msgspec.json.format(data, indent=-1)))


def _failed(node: str, failure: str) -> NodeResult:
    return NodeResult(schema=NODE_SCHEMA, node=node, failure=cut(" ".join(failure.split()), _LONGEST))


def line(result: NodeResult) -> str:
    """One line of JSON, harmless for terminals and CI systems."""
    return escape_json(compact(result).decode()) + "\n"


def why_it_failed(code: int | None, errors: str, python: str) -> str:
    """Why a command of tfgpu ended without a result: by its exit code, and what it wrote to standard error."""
    if _MISSING in errors or _MISSING.replace("'", "") in errors:
        return f'tfgpu is not installed there. To install it: {python} -m pip install "git+$TFGPU_SOURCE"'
    last = last_error(errors.splitlines())
    how = "ended without a result" if code is None else f"ended with exit code {code}"
    return f"{how}: {last}" if last else how


def last_error(lines: Iterable[str]) -> str:
    """Of what a program wrote to standard error, the line that says why: that of an exception, or else the last."""
    found = [text for one in lines if (text := one.strip())]
    return next((one for one in reversed(found) if _ERROR.match(one)), found[-1] if found else "")
