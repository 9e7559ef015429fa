"""`python -m tfgpu_doctor` and the console script: exit codes, signals, and no traceback for the user."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING without importing typing
if TYPE_CHECKING:
    from types import FrameType

EXIT_USAGE, EXIT_UNKNOWN, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 2, 3, 130, 141


def main() -> None:
    """Run the command line and leave with the exit code of the contract."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # started with the stream closed (>&-): write into nothing
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    arguments = sys.argv[1:]
    page = _help_page() if arguments in (["--help"], ["-h"]) else None
    if page is None:
        sys.exit(run(arguments))
    try:
        print(page, end="", flush=True)
    except BrokenPipeError:
        sys.exit(_closed_pipe())


def _help_page() -> str | None:
    """The page that click would format, formatted ahead: importing click alone takes 3.6 bare interpreter starts.

    None where it would look different (a narrow terminal). A test compares it with click's own.
    """
    try:
        columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size().columns
    except (OSError, ValueError):
        columns = 80  # no terminal
    if columns < 80:
        return None
    with open(os.path.join(os.path.dirname(__file__), "cli", "help.txt"), encoding="ascii") as page:  # noqa: PTH123
        return page.read()


def _drop_output() -> None:
    """What is still to be written to standard output cannot be: Python must not try again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _closed_pipe() -> int:
    """The reader of a pipe went away."""
    _drop_output()
    return EXIT_BROKEN_PIPE


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    import errno
    import signal

    import click

    from tfgpu_doctor.cli import cli

    signal.signal(signal.SIGTERM, _terminated)
    stdout = sys.stdout
    try:
        code = cli.main(arguments, prog_name="tfgpu", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE if isinstance(error, click.UsageError) else EXIT_UNKNOWN
    except (click.Abort, KeyboardInterrupt):
        print("tfgpu: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _closed_pipe()
    except SystemExit:
        if sys.stdout is not stdout:  # click's sign of a closed pipe; it leaves with 1, which means something else here
            return _closed_pipe()
        raise
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _drop_output()
        print(f"tfgpu: cannot write the result: {error.strerror}", file=sys.stderr)
        return EXIT_UNKNOWN
    except Exception as error:  # the last line of defence: a user gets a sentence, a developer the traceback
        if os.environ.get("TFGPU_DEBUG"):
            raise
        print(
            f"tfgpu: internal error: {type(error).__name__}: {error}\n"
            "This is a defect of tfgpu. Please report it with the output under TFGPU_DEBUG=1.",
            file=sys.stderr,
        )
        return EXIT_UNKNOWN


def _terminated(number: int, frame: FrameType | None) -> None:
    """Leave through every `with`, so that no child is left behind."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
