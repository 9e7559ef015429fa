"""Options of all workloads: devices, duration, interpreter, output; and one measurement from options to exit code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfgpu_doctor.cli.bench import page
from tfgpu_doctor.cli.bench.typed import as_typed
from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import option
from tfgpu_doctor.cli.output import (
    NotWrittenError,
    Output,
    check_executable,
    check_python,
    detail_options,
    output_options,
    pair_outputs,
    write,
    write_file,
)
from tfgpu_doctor.cli.values import EXECUTABLE, Listed, Seconds
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.bench.devices import Selection
    from tfgpu_doctor.bench.plans.base import PlanBase
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.bench.runner.process import Worker
    from tfgpu_doctor.render.formats import Detail

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS = (
    option("--gpus", metavar="N|all", help="Number of GPUs to use together.  [default: 1, if there is one]"),
    option(
        "--devices", metavar="DEVICE,...", type=Listed(), help="Use exactly these devices, for example cpu,gpu:0,gpu:1."
    ),
    option(
        "--virtual-gpus",
        "virtual",
        metavar="N",
        type=click.IntRange(min=2, max=16),
        help="Split the first GPU (or the CPU) into N logical devices: tests multi-GPU code, not speed.",
    ),
    option(
        "--min-samples",
        metavar="N",
        type=click.IntRange(min=3, max=1000),
        default=10,
        show_default=True,
        help="Minimum number of samples per run.",
    ),
    option(
        "--deadline",
        metavar="S",
        type=Seconds(),
        default=20.0,
        show_default=True,
        help="Maximum time to sample each run, in seconds.",
    ),
    option(
        "--processes",
        metavar="N",
        type=click.IntRange(min=1, max=100),
        default=1,
        show_default=True,
        help="Repeat each run in N consecutive processes, which share the deadline, to average out start-up effects; "
        "use 5 for results that you will compare (tfgpu compare).",
    ),
    option(
        "--python",
        "executable",
        metavar="EXE",
        type=EXECUTABLE,
        help="Python interpreter that has TensorFlow, its environment, or its version.  [default: this one]",
    ),
    matrix_option,
    detail_options,
    output_options("bench"),
    page.html_option,
    option(
        "--profile",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="After measuring, profile a few more steps of each run into this folder, for TensorBoard.",
    ),
)


@dataclass(frozen=True)
class Measuring:
    """The values of the shared options, as the user wrote them."""

    gpus: str | None
    devices: tuple[str, ...]
    virtual: int | None
    min_samples: int
    deadline: float
    processes: int
    executable: str | None
    matrix_file: str | None
    formats: tuple[str, ...]
    outputs: tuple[str, ...]
    html: str | None
    detail: Detail | None = None
    profile: str | None = None
    typed: str = ""  # the command

    def selection(self) -> Selection:
        """The devices that were asked for.

        Raises click.UsageError: options that exclude one another, or what is no device.
        """
        from tfgpu_doctor.bench.devices import DeviceSyntaxError, Selection, parse_devices, parse_gpus

        if self.devices and (self.gpus is not None or self.virtual):
            raise click.UsageError("--devices cannot be combined with --gpus or --virtual-gpus")
        if self.gpus is not None and self.virtual:
            raise click.UsageError("--gpus (physical GPUs) cannot be combined with --virtual-gpus (logical ones)")
        try:
            return Selection(
                gpus=parse_gpus(self.gpus) if self.gpus is not None else 1,
                explicit=self.gpus is not None,
                devices=parse_devices(",".join(self.devices)) if self.devices else None,
                virtual=self.virtual,
            )
        except DeviceSyntaxError as error:
            raise click.UsageError(str(error)) from error

    def targets(self) -> list[Output]:
        """Where the result goes; the text is printed, too, unless a format says what is.

        Raises click.UsageError: two results for standard output, or a file that cannot be written.
        """
        targets = page.with_html(pair_outputs(self.formats, self.outputs, "bench"), self.html)
        if self.formats or any(target.path is None for target in targets):
            return targets
        return [Output("text", None), *targets]

    def check(self) -> None:
        """Refuse what cannot work before anything is measured.

        Raises click.UsageError: no such interpreter, or no file to write to.
        """
        check_executable(self.executable)
        try:
            if self.profile:
                Path(self.profile).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.UsageError(f"--profile {self.profile}: {error.strerror or error}") from error


def measuring_options(function: _Function) -> Callable[..., Any]:
    """Add the shared options; the command gets their values as one argument, `measuring`."""

    @functools.wraps(function)
    def command(*arguments: Any, **values: Any) -> Any:
        typed = as_typed(click.get_current_context())
        shared = {name: values.pop(name) for name in Measuring.__dataclass_fields__ if name != "typed"}
        return function(*arguments, measuring=Measuring(**shared, typed=typed), **values)

    for one in reversed(_OPTIONS):
        command = one(command)
    return command


def measure(plan: PlanBase, measuring: Measuring, over: Callable[[Worker], Worker] = lambda worker: worker) -> int:
    """Measure, print, and return the exit code; `over` may put something between the session and its processes."""
    from tfgpu_doctor.bench.devices import DeviceError
    from tfgpu_doctor.bench.plans.workload_size import TooLargeError
    from tfgpu_doctor.bench.runner.process import WorkerError, WorkerProcess
    from tfgpu_doctor.bench.runner.telemetry import load_average
    from tfgpu_doctor.bench.session import CannotRunError, NoTensorFlowError, Session, TooSlowError
    from tfgpu_doctor.bench.statistics import StoppingRule
    from tfgpu_doctor.cli.progress import bar
    from tfgpu_doctor.probes.examine import examine
    from tfgpu_doctor.records.report import EXIT_PROBLEM, EXIT_UNKNOWN

    measuring.check()
    targets = measuring.targets()
    file = next((target.path for target in targets if target.format == "json" and target.path), None)
    executable = measuring.executable or sys.executable
    matrix = load_matrix(measuring.matrix_file)

    kept = _Kept(file)
    try:
        with bar(is_quiet=measuring.detail == "least") as progress:
            progress("examining this machine", 0.0)
            environment = examine(executable, lambda: matrix, import_tensorflow=False).facts
            check_python(executable, environment.python.version)

            result = Session(
                plan,
                matrix,
                environment,
                lambda: over(WorkerProcess(executable)),
                rule=StoppingRule(min_samples=measuring.min_samples, deadline=measuring.deadline),
                processes=measuring.processes,
                progress=progress,
                announce=progress.announce,
                save=kept.save,
                command=measuring.typed,
                profile=Path(measuring.profile) if measuring.profile else None,
                load_average=load_average(),
            ).run()
    except (DeviceError, TooLargeError, CannotRunError) as error:
        say(f"tfgpu: {error}")
        return EXIT_UNKNOWN if isinstance(error, TooSlowError) else EXIT_PROBLEM
    except (NoTensorFlowError, WorkerError) as error:
        return cannot_measure(executable, error)
    except (KeyboardInterrupt, SystemExit):  # a signal
        kept.show(measuring, targets)
        raise
    _write(result, measuring, targets)
    return _exit_code(result)


class _Kept:
    """What was measured so far, so that a signal loses nothing."""

    def __init__(self, file: Path | None) -> None:
        """Nothing yet; `file` is to have it as JSON all the time."""
        self._file = file
        self._result: BenchResult | None = None
        self._failed = False  # whether the file could not be written

    def save(self, result: BenchResult) -> None:
        """Keep what there is until now; where the file cannot be written, the measurement goes on."""
        self._result = result
        if self._file is None:
            return
        try:
            write_file(self._file, self._result.to_json())
            self._failed = False
        except NotWrittenError as error:
            if not self._failed:
                say(f"tfgpu: {error.message}; the measurement goes on")
            self._failed = True

    def show(self, measuring: Measuring, targets: list[Output]) -> None:
        """Write it to every target that does not have it, and say where it is."""
        if self._result is None or not any(run.samples_s for run in self._result.runs):
            return
        written = None if self._failed else self._file
        missing = [target for target in targets if target.path is None or target.path != written]
        _write(self._result, measuring, missing)
        if written is not None:
            say(f"tfgpu: {written} has what was measured so far, and says that it is unfinished")


def _write(result: BenchResult, measuring: Measuring, targets: list[Output]) -> None:
    """Show a result of these options."""
    diagnose = page.diagnosis(measuring.matrix_file)
    write(result, "bench", targets, diagnose=diagnose, detail=measuring.detail or "normal")


def _exit_code(result: BenchResult) -> int:
    """Return the exit code of a measurement."""
    from tfgpu_doctor.bench.runner.process import NO_TIMES
    from tfgpu_doctor.records.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN

    failures = [run.failure for run in result.runs if run.failure]
    if any(NO_TIMES not in failure for failure in failures):
        return EXIT_PROBLEM
    if failures or result.not_run:
        return EXIT_UNKNOWN
    return EXIT_OK


def cannot_measure(executable: str, error: Exception) -> int:
    """Say that TensorFlow cannot be used there, and what to do; returns the exit code."""
    from tfgpu_doctor.plan.windows_shell import quoted
    from tfgpu_doctor.records.report import EXIT_UNKNOWN

    say(f"tfgpu: cannot measure with {executable}: {error}")
    say(f"Next: tfgpu doctor --python {quoted(executable, 'windows' if sys.platform == 'win32' else None)}")
    return EXIT_UNKNOWN
