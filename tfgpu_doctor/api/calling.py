"""Commands called from Python: an argument is an option of the command line, and has its checks and its messages.

Nothing is printed, and the process goes on whatever happens. Functions may run in several threads at a time.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias, TypeVar

from tfgpu_doctor.api import display  # noqa: F401 - with it, notebooks show what is returned
from tfgpu_doctor.api.errors import TfgpuError, UsageError
from tfgpu_doctor.render.streams import Capture, capture

Scalar: TypeAlias = str | int | float | os.PathLike[str]
Option: TypeAlias = Scalar | Sequence[Scalar] | bool | None  # None and False: not given

_Result = TypeVar("_Result")


def call(kind: type[_Result], command: str, /, *arguments: str, **options: Option) -> _Result:
    """Run a command ("bench matpow") with these arguments and options, and return its result.

    Args:
        kind: the type of the result.
        command: its name, with those of the groups before it.
        arguments: what stands behind the options.
        options: names as in Python: `require_gpus=2` is --require-gpus 2; a name of Python has an underscore behind it.

    Raises:
        UsageError: an option is wrong, or a file cannot be read.
        TfgpuError: the command came to no result, and why.
    """
    from tfgpu_doctor.cli import cli

    given = [word for name, value in options.items() for word in _words(name, value)]
    with captured() as found:
        cli.main(
            [*command.split(), *given, "--", *arguments], "tfgpu", standalone_mode=False, windows_expand_args=False
        )
    return result_of(found, kind)


class _EndedError(BaseException):
    """A signal came that ends this process."""


def _leave(number: int, _frame: FrameType | None) -> None:
    raise _EndedError(number)


@contextmanager
def leaving_nothing() -> Iterator[None]:
    """Let a signal that would end this process at once end what was started within the block first.

    A signal that the program handles itself, or ignores, is left to it; so are all in another thread than the main one.
    """
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if is_main and hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _leave)
    try:
        yield
    except _EndedError as ended:
        if process := sys.modules.get("tfgpu_doctor.probes.process"):
            process.end_running()  # that of other threads
        signal.signal(ended.args[0], signal.SIG_DFL)
        os.kill(os.getpid(), ended.args[0])
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def captured() -> Iterator[Capture]:
    """Take what is printed within the block, and raise the errors of the command line as those of the API."""
    import click

    with leaving_nothing(), capture() as found:
        try:
            yield found
        except click.UsageError as error:
            raise UsageError(error.format_message()) from error
        except click.ClickException as error:
            raise TfgpuError(error.format_message()) from error
        except click.Abort as error:
            raise KeyboardInterrupt from error


def result_of(found: Capture, kind: type[_Result]) -> _Result:
    """The result that a command gave. Raises TfgpuError: it gave none; what it said instead is the message."""
    results = [result for result in found.results if isinstance(result, kind)]
    if not results:
        raise TfgpuError("\n".join(message.removeprefix("tfgpu: ") for message in found.messages) or "no result")
    return results[-1]


def _words(name: str, value: Option) -> Iterator[str]:
    """The words of the command line for one option."""
    option = f"--{name.rstrip('_').replace('_', '-')}"
    if value is True:
        yield option
    elif isinstance(value, (str, int, float, os.PathLike)) and value is not False:
        yield f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}"
    elif value:
        yield from (word for one in value for word in _words(name, one))
