"""`python -m tfgpu_doctor` and the console script: exit codes, signals, and no traceback for the user."""

from __future__ import annotations

import os
import sys
import time

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # `python -m` puts the current directory there, where a click.py of somebody else may lie

TYPE_CHECKING = False  # typing.TYPE_CHECKING without importing typing
if TYPE_CHECKING:
    from types import FrameType

EXIT_USAGE, EXIT_UNKNOWN, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 2, 3, 130, 141
CLEANING = 5.0  # seconds after a signal in which another one does not cut short the cleaning up

_signalled = float("-inf")  # monotonic time


def main() -> None:
    """Run the command line and exit with its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # started with the stream closed (>&-): discard the output
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    arguments = sys.argv[1:]
    page = _help_page() if arguments in (["--help"], ["-h"]) else None
    if page is None:
        try:
            sys.exit(run(arguments))
        except KeyboardInterrupt:  # during the imports, or while a command cleans up after the first one
            sys.exit(_interrupted())
        finally:
            _end_children()
    try:
        print(page, end="", flush=True)
    except BrokenPipeError:
        sys.exit(_closed_pipe())


def _help_page() -> str | None:
    """The help page as click formats it, stored in a file: importing click takes as long as 3.6 interpreter starts.

    None for a narrow terminal, where the page is different. A test compares it with click's output.
    """
    try:
        columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size().columns
    except (OSError, ValueError):
        columns = 80  # no terminal
    if columns < 80:
        return None
    with open(os.path.join(os.path.dirname(__file__), "cli", "help.txt"), encoding="ascii") as page:  # noqa: PTH123
        return page.read()


def _interrupted() -> int:
    """Say so in one line, and return the exit code."""
    print("tfgpu: interrupted", file=sys.stderr)
    return EXIT_INTERRUPTED


def _drop_output() -> None:
    """Discard the output that is still buffered, so that Python does not try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _closed_pipe() -> int:
    """Return the exit code for a pipe whose reader has ended."""
    _drop_output()
    return EXIT_BROKEN_PIPE


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    import errno
    import signal

    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is signal.default_int_handler:  # a shell starts background jobs with Ctrl-C ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler can lose it within the machinery of imports
    import click

    from tfgpu_doctor.cli import cli

    signal.signal(signal.SIGINT, on_interrupt)
    for number in _ending_signals():
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _terminated)
    stdout = sys.stdout
    try:
        code = cli.main(arguments, prog_name="tfgpu", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE if isinstance(error, click.UsageError) else EXIT_UNKNOWN
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except BrokenPipeError:
        return _closed_pipe()
    except SystemExit:
        if sys.stdout is not stdout:  # click replaced it: the pipe is closed; its exit code 1 means something else here
            return _closed_pipe()
        raise
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _drop_output()
        print(f"tfgpu: cannot write the result: {error.strerror}", file=sys.stderr)
        return EXIT_UNKNOWN
    except Exception as error:  # users get a sentence, developers the traceback
        if os.environ.get("TFGPU_DEBUG"):
            raise
        print(
            f"tfgpu: internal error: {type(error).__name__}: {error}\n"
            "This is a bug in tfgpu. Please report it with the output of the same command under TFGPU_DEBUG=1.",
            file=sys.stderr,
        )
        return EXIT_UNKNOWN


def _ending_signals() -> list[int]:
    import signal

    return [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]  # Windows: no SIGHUP


def _terminated(number: int, _frame: FrameType | None) -> None:
    """Exit through every `with`, so that no child process and no file is left behind."""
    global _signalled
    if time.monotonic() - _signalled > CLEANING:  # service managers send both signals at once
        _signalled = time.monotonic()
        raise SystemExit(128 + number)


def _end_children() -> None:
    """Kill all processes that the command has started and that still run; signals wait for that."""
    import signal

    if process := sys.modules.get("tfgpu_doctor.probes.process"):
        for number in (signal.SIGINT, *_ending_signals()):
            signal.signal(number, signal.SIG_IGN)
        process.end_all()


if __name__ == "__main__":
    main()
