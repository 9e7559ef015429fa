"""`python -m tfgpu_doctor` and the console script: exit codes, signals, and no traceback for the user."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # `python -m` puts the current directory there, where a click.py of somebody else may lie

TYPE_CHECKING = False  # typing.TYPE_CHECKING without importing typing
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

    from click import ClickException

EXIT_USAGE, EXIT_UNKNOWN, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 2, 3, 130, 141
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")  # Windows has two of them
AGAIN = 0.5  # seconds
_leaving: BaseException | None = None  # what the handler of a signal has raised


def main() -> None:
    """Run the command line and exit with its exit code."""
    _search_own_folders_first()
    try:
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # started with the stream closed (>&-): discard the output
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # during the imports, or while a command cleans up after the first one
        code = _interrupted()
    except OSError as error:
        code = _not_written(error)
    except (MemoryError, ImportError) as error:  # during the imports
        if not _is_out_of_memory(error):
            raise
        code = _defect(error)
    finally:
        _end_children()
    sys.exit(code)


def _search_own_folders_first() -> None:
    """Search the folders of PYTHONPATH last: a random.py there is TensorFlow's trouble, which the doctor reports."""
    given = {os.path.abspath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    sys.path.sort(key=lambda folder: os.path.abspath(folder) in given)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    import signal

    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is signal.default_int_handler:  # a shell starts background jobs with Ctrl-C ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler can lose it within the machinery of imports
    import click

    from tfgpu_doctor.cli import cli
    from tfgpu_doctor.render.streams import guard

    if "_TFGPU_COMPLETE" not in os.environ:  # for the completion of a shell, click writes bytes
        guard()
    signal.signal(signal.SIGINT, on_interrupt)
    _catch_signals()
    stdout = sys.stdout
    try:
        code = cli.main(arguments, prog_name="tfgpu", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        return _refused(error)
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except SystemExit:
        if sys.stdout is not stdout:  # click replaced it: the pipe is closed; its exit code 1 means something else here
            return _not_written(BrokenPipeError())
        raise
    except OSError as error:
        return _not_written(error)
    except Exception as error:  # users get a sentence, developers the traceback
        return _defect(error)


def _interrupted() -> int:
    """Say so in one line, and return the exit code."""
    from tfgpu_doctor.render.streams import say

    # where Ctrl-C came within exec(), which makes named tuples, CPython would end `python -m` by SIGINT in spite of the
    # exit code; it forgets that with the next exec()
    exec("")
    say("tfgpu: interrupted")
    return EXIT_INTERRUPTED


def _not_written(error: OSError) -> int:
    """Return the exit code for an output that cannot be written: its reader has ended, or the disk is full."""
    import errno

    from tfgpu_doctor.render.streams import guarded, say

    if not isinstance(error, BrokenPipeError) and error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return _defect(error)
    guarded(sys.stdout).discard()
    if isinstance(error, BrokenPipeError):
        return EXIT_BROKEN_PIPE
    say(f"tfgpu: cannot write the result: {error.strerror}")
    return EXIT_UNKNOWN


def _refused(error: ClickException) -> int:
    """Print what was refused, each message on one line whatever it quotes, and return the exit code."""
    from click import ClickException, UsageError
    from click.exceptions import NoArgsIsHelpError

    from tfgpu_doctor.facts.printable import one_line

    messages = getattr(error, "messages", None) or (error.format_message(),)
    message = "\n".join(_wrapped(one_line(one)) for one in messages)
    is_usage = isinstance(error, UsageError)
    if not isinstance(error, NoArgsIsHelpError):
        error = UsageError(message, error.ctx) if isinstance(error, UsageError) else ClickException(message)
    error.show()
    return EXIT_USAGE if is_usage else EXIT_UNKNOWN


def _wrapped(message: str) -> str:
    """Break a message between its words for the terminal it goes to; a command, which is indented, stays one line."""
    import shutil
    import textwrap

    if message.startswith("    ") or not sys.stderr.isatty():
        return message
    from tfgpu_doctor.render.text import GLUE, glued

    wrap = textwrap.TextWrapper(shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False)
    wrap.initial_indent, wrap.subsequent_indent = "Error: ", "       "
    return wrap.fill(glued(message)).removeprefix("Error: ").replace(GLUE, " ")


def _is_out_of_memory(error: Exception) -> bool:
    """True if the system gave no memory, no thread or no process; ImportError is the loader's word for the first."""
    import errno

    if isinstance(error, OSError):
        return error.errno in (errno.ENOMEM, errno.EAGAIN)
    words = ("can't start new thread", "failed to map segment", "cannot allocate memory")
    return isinstance(error, MemoryError) or any(one in str(error).lower() for one in words)


def _defect(error: Exception) -> int:
    """Say what went wrong in us, or show developers the traceback, and return the exit code."""
    from tfgpu_doctor.render.streams import say

    if os.environ.get("TFGPU_DEBUG"):
        raise error
    if _is_out_of_memory(error):
        what = "a new thread" if "thread" in str(error) else "a new process" if isinstance(error, OSError) else "memory"
        say(f"tfgpu: the system refused {what}: memory or a limit (ulimit -a) of this machine or container is used up")
    elif folder := _on_library_path(error):
        say(f"tfgpu: the Python that tfgpu runs with cannot load a library of the system: {error}")
        say(f"Remove {folder} from LD_LIBRARY_PATH; TensorFlow's Python may fail in the same way.")
    else:
        say(f"tfgpu: internal error: {type(error).__name__}: {error}")
        say("This is a bug in tfgpu. Please report it with the output of the same command under TFGPU_DEBUG=1.")
    return EXIT_UNKNOWN


def _on_library_path(error: Exception) -> str | None:
    """The folder of LD_LIBRARY_PATH with the file that the loader refuses ("/lib/libz.so.1: file too short")."""
    folder, _, _ = str(error).partition(": ")[0].rpartition("/")
    listed = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return folder if isinstance(error, ImportError) and folder in (one.rstrip("/") for one in listed if one) else None


def _catch_signals() -> None:
    import signal

    sys.unraisablehook = _lost
    for number in (getattr(signal, name) for name in _ENDING if hasattr(signal, name)):
        # nohup ignores SIGHUP, and a shell SIGINT for a background job
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _leave)


def _lost(lost: UnraisableHookArgs) -> None:
    """Report an exception that Python could not raise, save that of a signal: the alarm raises it again."""
    if lost.exc_value is None or lost.exc_value is not _leaving:
        sys.__unraisablehook__(lost)


def _leave(number: int, _frame: FrameType | None) -> None:
    """Exit through every `with`, so that no child process and no file is left behind.

    Python loses an exception that is raised within the callback of a weak reference, for example: so an alarm raises it
    again, unless it is on its way. Only another Ctrl-C cuts short what a `with` cleans up.
    """
    global _leaving
    import signal

    error = sys.exc_info()[1]
    while error is not None and error is not _leaving:
        error = error.__context__
    if error is not None and number != signal.SIGINT:
        return
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
    if number != getattr(signal, "SIGALRM", None) or _leaving is None:
        _leaving = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
    raise _leaving


def _end_children() -> None:
    """Kill all processes that the command has started and that still run; signals wait for that."""
    process = sys.modules.get("tfgpu_doctor.probes.process")
    if process is None and _leaving is None:
        return
    import signal

    for number in (getattr(signal, name) for name in _ENDING if hasattr(signal, name)):
        signal.signal(number, signal.SIG_IGN)
    if process:
        process.end_all()


if __name__ == "__main__":
    main()
