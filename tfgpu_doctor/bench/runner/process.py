"""One worker process, asked over its pipes, with a deadline for every answer."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from tfgpu_doctor.bench.results import Amount, Count, Figure, Pause, Time
from tfgpu_doctor.probes import launch
from tfgpu_doctor.probes.process import FLOOD, Child, FloodError, signal_name, temporary_folder

SCRIPT = Path(__file__).parents[1] / "worker.py"
NOISE = 8_000_000  # bytes that may come before the end of an answer


class WorkerError(Exception):
    """The worker died, hung, or could not do what it was asked; the message says how."""


class Worker(Protocol):
    """What the runner needs of a worker; tests put another in its place."""

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer; raises WorkerError."""
        ...

    def log(self) -> str:
        """What the process wrote to its standard error."""
        ...

    def close(self) -> None:
        """End the process."""
        ...


class WorkerProcess:
    """A worker in a child process of the interpreter under test."""

    def __init__(self, executable: str, environ: Mapping[str, str] | None = None, script: Path = SCRIPT) -> None:
        """Start it. Raises WorkerError: the interpreter cannot be started."""
        self._noise = ""  # the first line that was no answer
        with ExitStack() as stack:
            own = stack.enter_context(temporary_folder(environ or os.environ))
            argv, env = launch.command(own, executable, str(script))
            try:
                self._child = stack.enter_context(Child(argv, env=env, stdin=True, tether=True))
            except OSError as error:
                raise WorkerError(f"{executable} cannot be started: {error.strerror or error}") from error
            self._stack = stack.pop_all()

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Send one request and wait at most `timeout` seconds for its answer.

        Raises WorkerError: no answer in time, no process any more, an answer that is none, or an error in it.
        """
        started = time.monotonic()
        try:
            self._child.send(json.dumps(request) + "\n")
            answer = self._answer(timeout)
        except BrokenPipeError:
            answer = None
        except TimeoutError as error:
            self.close()
            raise WorkerError(f"no answer to {request['do']!r} {error}") from None
        if answer is None:
            raise WorkerError(self._how_it_ended())
        if "error" in answer:
            raise WorkerError(str(answer["error"]))
        if why := problem(request, answer) or clock_problem(answer, time.monotonic() - started):
            self.close()
            raise WorkerError(f"the answer to {request['do']!r} cannot be used: {why}")
        return answer

    def _answer(self, timeout: float) -> dict[str, Any] | None:
        """The next line that is an answer, or None at the end of the output; what a wrapper script prints is not.

        Raises TimeoutError: there is none in time, or too much of other text; the message says so.
        """
        deadline, before = time.monotonic() + timeout, self._child.stdout.size
        while time.monotonic() <= deadline:
            if self._child.stdout.size - before > NOISE:
                raise TimeoutError(f"in {NOISE / 1e6:.0f} MB of output{self._wrote()}")
            try:
                line = self._child.read_line_or_end(deadline)
            except FloodError:
                raise TimeoutError(f"in {FLOOD / 1e6:.0f} MB of output{self._wrote()}") from None
            except TimeoutError:
                break
            if line is None:
                return None
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                answer = None
            if isinstance(answer, dict):
                return answer
            self._noise = self._noise or line[:80]
        raise TimeoutError(f"within {timeout:.0f} s{self._wrote()}")

    def _wrote(self) -> str:
        return f"; it wrote {self._noise!r}" if self._noise else ""

    def _how_it_ended(self) -> str:
        code = self._child.wait(5.0)
        name = signal_name(code)
        if name:
            how = f"was killed by {name}"
        else:
            how = "closed its output" if code is None else f"ended with exit code {code}"
        how += self._wrote()
        last = self._child.stderr.text().strip().splitlines()[-1:]
        return ": ".join([f"the worker {how}", *last])

    def log(self) -> str:
        """What the process wrote to its standard error until now."""
        return self._child.stderr.text()

    def close(self) -> None:
        """Kill the process with all of its descendants."""
        self._stack.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# ---------------------------------------------------------------------------------------------------------------------
# What a worker may answer. An answer is checked once, where it comes in, so that nobody behind that has to doubt it.
#
# What `verify` answers is between a workload and its judge.


Capability = Annotated[str, Meta(pattern=r"^\d+\.\d+$")]


class Gpu(Struct):
    """A GPU that TensorFlow lists."""

    name: str
    compute_capability: Capability | None


class Hello(Struct):
    """Versions, and what TensorFlow lists."""

    tensorflow: str
    numpy: str
    python: str
    gpus: list[Gpu]


class Prepared(Struct):
    """How long each part of the start took."""

    cold: dict[str, Pause]


class Sampled(Struct):
    """A block of samples."""

    samples: Annotated[list[Time], Meta(min_length=1)]
    loads: list[Amount]
    placed_on: list[str]
    misplaced: str | None
    rechecked: list[dict[str, Any]]
    waited: Amount | None = None
    busy: Amount = 0.0
    took: Amount | None = None  # seconds from the request to the answer, by the worker's clock

    def __post_init__(self) -> None:
        """Every sample has its load."""
        if len(self.samples) != len(self.loads):
            raise ValueError(f"{len(self.samples)} samples, and the load of {len(self.loads)}")


class Figures(Struct):
    """Figures beside the samples."""

    figures: list[Figure]
    remarks: list[str] = []
    peak: Count | None = None


class Profiled(Struct):
    """The files of a trace."""

    files: list[str]


class Followed(Struct):
    """What a follower has done."""

    done: str


class Spec(Struct):
    """An input or an output of a SavedModel."""

    name: str
    shape: list[Count | None] | None
    dtype: str


class Described(Struct):
    """A signature of a SavedModel."""

    name: str
    names: list[str]
    inputs: list[Spec]
    outputs: list[Spec]


class Unusable(Struct):
    """Why there is no such signature."""

    unusable: str


class Slurm(Struct):
    """Who takes part, by Slurm."""

    cluster: dict[str, list[str]]
    index: Count


_ANSWERS: dict[str, type[Struct]] = {
    "hello": Hello,
    "prepare": Prepared,
    "sample": Sampled,
    "figures": Figures,
    "profile": Profiled,
    "follow": Followed,
}
_TASKS: dict[str, type[Struct]] = {"describe": Described, "slurm": Slurm}  # of `reference`


# a time of the worker that is no time
_NO_TIME = re.compile(r"^Expected `float` [<>]=? .* at `\$\.(?:cold|samples|loads|waited|busy|took)\b")
NO_TIMES = "so that its times mean nothing"  # how the failure of a run ends that says nothing of TensorFlow
_CLOCK = f"its clock stood still, went back or jumped, {NO_TIMES}"
_SLACK = 2.0  # seconds in which a busy machine may deliver an answer


def problem(request: Mapping[str, Any], answer: dict[str, Any]) -> str | None:
    """What is wrong with an answer; None for one that can be used."""
    kind = _TASKS.get(request["task"]) if "task" in request else _ANSWERS.get(request["do"])
    if kind is Described and "unusable" in answer:
        kind = Unusable
    try:
        if kind is not None:
            msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        return _CLOCK if _NO_TIME.search(str(error)) else str(error)
    return None


def clock_problem(answer: Mapping[str, Any], elapsed: float) -> str | None:
    """What our own clock, by which the answer took `elapsed` seconds, says against that of the worker."""
    took = answer.get("took")
    if took is None or (elapsed <= 2 * took + _SLACK and took <= 2 * elapsed + _SLACK):
        return None
    return f"its clock counted {took:.3g} s where {elapsed:.3g} s passed, {NO_TIMES}"
