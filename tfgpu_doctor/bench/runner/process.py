"""The worker processes of a benchmark: asked over their pipes, with a deadline for every answer."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tfgpu_doctor.bench.devices import GpuFound, Job, Key
from tfgpu_doctor.probes import launch
from tfgpu_doctor.probes.process import Child, signal_name, temporary_folder

SCRIPT = Path(__file__).parents[1] / "worker.py"
NOISE = 8_000_000  # bytes that may come before the end of an answer
START = 300.0  # seconds for import, device initialisation and inputs; a first CUDA start may compile PTX for long
PATIENCE = 60.0  # seconds that a sample may always take

Clock = Callable[[], float]
ANY: Key = ("", "")  # of a process for no case yet, or for all where they share it


class WorkerError(Exception):
    """The worker died, hung, or could not do what it was asked; the message says how."""


class NoTensorFlowError(Exception):
    """TensorFlow cannot be used in the interpreter under test; the message says how it ended."""


class Worker(Protocol):
    """What the runner needs of a worker; tests put another in its place."""

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer; raises WorkerError."""

    def log(self) -> str:
        """Return what the process wrote to its standard error."""

    def close(self) -> None:
        """End the process."""


class WorkerProcess(AbstractContextManager["WorkerProcess"]):
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

        Raises WorkerError: no answer in time, no process any more, or an error in the answer.
        """
        try:
            self._child.send(json.dumps(request) + "\n")
            answer = self._answer(timeout, request["do"])
        except BrokenPipeError:
            answer = None
        except TimeoutError:
            self.close()
            limits = f"within {timeout:.0f} s and {NOISE / 1e6:.0f} MB of output"
            raise WorkerError(f"no answer to {request['do']!r} {limits}{self._wrote()}") from None
        if answer is None:
            raise WorkerError(self._how_it_ended())
        if "error" in answer:
            raise WorkerError(str(answer["error"]))
        return answer

    def _answer(self, timeout: float, verb: str) -> dict[str, Any] | None:
        """Return the next line that answers `verb`, and is not a wrapper script's; None at the end of the output.

        Raises TimeoutError: there is none in time, or too much of other text.
        """
        deadline, before = time.monotonic() + timeout, self._child.stdout.size
        while self._child.stdout.size - before <= NOISE:
            line = self._child.read_line_or_end(deadline)
            if line is None:
                return None
            with suppress(ValueError, RecursionError):
                answer = msgspec.json.decode(line)  # refuses Infinity, which no result can hold
                if isinstance(answer, dict) and answer.get("to") == verb:
                    return answer
            self._noise = self._noise or line[:80]
        raise TimeoutError

    def _wrote(self) -> str:
        return f"; it wrote {self._noise!r}" if self._noise else ""

    def _how_it_ended(self) -> str:
        code = self._child.wait(5.0)
        if name := signal_name(code):
            how = f"was killed by {name}"
        else:
            how = "closed its output" if code is None else f"ended with exit code {code}"
        last = self._child.stderr.text().strip().splitlines()[-1:]
        if last and "future feature annotations is not defined" in last[0]:
            return "a benchmark needs Python 3.7 or later"
        return ": ".join([f"the worker {how}{self._wrote()}", *last])

    def log(self) -> str:
        """Return what the process wrote to its standard error until now."""
        return self._child.stderr.text()

    def close(self) -> None:
        """Kill the process with all of its descendants."""
        self._stack.close()

    def __exit__(self, *error: object) -> None:
        self.close()


class Asked:
    """A worker whose requests go through a function, which gets the worker, the timeout and the request."""

    def __init__(self, worker: Worker, ask: Callable[..., dict[str, Any]]) -> None:
        """Put `ask` before the worker."""
        self.ask = partial(ask, worker)
        self.log, self.close = worker.log, worker.close


# ---------------------------------------------------------------------------------------------------------------------
# The processes that are alive, and what each is asked before it measures.


def hello(worker: Worker) -> tuple[dict[str, str], tuple[GpuFound, ...]]:
    """Import TensorFlow in a worker; return its versions, and the GPUs it lists.

    Raises WorkerError: TensorFlow cannot be imported there.
    """
    answer = worker.ask(START, do="hello")
    software = {name: str(answer[name]) for name in ("tensorflow", "numpy", "python")}
    return software, tuple(GpuFound(gpu["name"], gpu["compute_capability"]) for gpu in answer["gpus"])


def prepare(worker: Worker, job: Job) -> dict[str, Any]:
    """Let a worker put its inputs on the devices of a case."""
    shared = {name: getattr(job, name) for name in ("workload", "parameters", "dtype", "virtual_memory_mib")}
    return worker.ask(START, do="prepare", **shared, **{**vars(job.case), "gpus": job.case.sees or job.case.gpus})


class Workers(AbstractContextManager["Workers"]):
    """The processes that are alive, one for each case and type; a case that is measured at several sizes keeps its own.

    Use as a context manager: leaving the block ends them all. With `shared`, all cases have the same process as long
    as it lives; they must ask for the same GPUs to be visible, which the first one sets.
    """

    def __init__(self, start: Callable[[], Worker], *, shared: bool = False) -> None:
        """None is started yet."""
        self._start, self._shared = start, shared
        self._alive: dict[Key, Worker] = {}
        self.software: dict[str, str] = {}  # versions in the newest process
        self.found: tuple[GpuFound, ...] = ()  # the GPUs that it lists

    def first(self) -> Worker:
        """Start one. Raises NoTensorFlowError: TensorFlow cannot be imported there."""
        try:
            return self.take()
        except WorkerError as error:
            raise NoTensorFlowError(str(error)) from error

    def take(self, key: Key = ANY) -> Worker:
        """Return the process of a case, started where there is none. Raises WorkerError: it does not start."""
        key = ANY if self._shared else key
        if key not in self._alive:
            self._alive[key] = self._alive.pop(ANY) if ANY in self._alive else self._greeted()
        return self._alive[key]

    @property
    def alive(self) -> bool:
        """True if there is a process that need not be started."""
        return bool(self._alive)

    def _greeted(self) -> Worker:
        worker = self._start()
        try:
            self.software, self.found = hello(worker)
        except BaseException:  # also Ctrl-C: the process would outlive the benchmark
            worker.close()
            raise
        return worker

    def drop(self, key: Key = ANY) -> None:
        """End the process of a case, and free the memory of its devices."""
        if worker := self._alive.pop(ANY if self._shared else key, None):
            worker.close()

    def __exit__(self, *error: object) -> None:
        for worker in self._alive.values():
            worker.close()
        self._alive.clear()
