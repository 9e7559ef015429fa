"""One worker process, asked over its pipes, with a deadline for every answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from tfgpu_doctor.probes import launch
from tfgpu_doctor.probes.process import Child, signal_name

SCRIPT = Path(__file__).parents[1] / "worker.py"


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
        argv, env = launch.command(environ or os.environ, executable, str(script))
        try:
            self._child = Child(argv, env=env, stdin=True, tether=True)
        except OSError as error:
            raise WorkerError(f"{executable} cannot be started: {error.strerror or error}") from error

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Send one request and wait at most `timeout` seconds for its answer.

        Raises WorkerError: no answer in time, no process any more, an answer that is none, or an error in it.
        """
        try:
            self._child.send(json.dumps(request) + "\n")
            line = self._child.read_line(timeout)
        except BrokenPipeError:
            line = None
        except TimeoutError:
            self.close()
            raise WorkerError(f"no answer to {request['do']!r} within {timeout:.0f} s") from None
        if line is None:
            raise WorkerError(self._how_it_ended())
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close()
            raise WorkerError(f"answered {request['do']!r} with {line[:80]!r}")
        if "error" in answer:
            raise WorkerError(str(answer["error"]))
        return answer

    def _how_it_ended(self) -> str:
        code = self._child.wait(5.0)
        name = signal_name(code)
        if name:
            how = f"was killed by {name}"
        else:
            how = "closed its output" if code is None else f"ended with exit code {code}"
        last = self._child.stderr.text().strip().splitlines()[-1:]
        return ": ".join([f"the worker {how}", *last])

    def log(self) -> str:
        """What the process wrote to its standard error until now."""
        return self._child.stderr.text()

    def close(self) -> None:
        """Kill the process with all of its descendants."""
        self._child.__exit__(None, None, None)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
