"""Runs a script in the interpreter under test, so that nothing of the current directory is executed beside it.

    PYTHONSAFEPATH=1 python -c BOOT launch.py VALUE SCRIPT [ARGUMENT...]

``python -c`` puts the current directory first on sys.path, where a json.py of somebody else may lie. The script runs
without it, and finds in ``PATH`` what the user's own ``python -c`` has, for the import of TensorFlow. PYTHONSAFEPATH
is for Python 3.13 and newer, which import linecache before they run BOOT; VALUE is what it was before, and is again for
the script: with it, or with -P, the user's path has no current directory, either. Python 3.6 reads this file.

The process ends with the one that started it, whatever it does then: the variable TFGPU_TETHER names a pipe whose
other end only the parent holds.
"""

import os  # loaded already, as Python's start needs it
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Sequence, Tuple

# One line: a shell that is taken for a Python finds a syntax error in it, and does nothing.
BOOT = "import sys; p = sys.argv.pop(1); exec(compile(open(p, 'rb').read(), p, 'exec'))"
SAFE = "PYTHONSAFEPATH"
TETHER = "TFGPU_TETHER"  # "FD:INODE" of the pipe's end that is read


def command(
    environ: "Mapping[str, str]", executable: "str", script: "str", *arguments: "str"
) -> "Tuple[List[str], Dict[str, str]]":
    """The command line that runs `script` in `executable`, and the environment to run it in."""
    argv = [executable, "-c", BOOT, __file__, environ.get(SAFE, ""), script, *arguments]
    return argv, {**environ, SAFE: environ.get(SAFE) or "1"}


def tether(pipe: "Sequence[int]") -> "Dict[str, str]":
    """The variable for the environment of a child that inherits the end of `pipe` that is read; none without a pipe."""
    return {TETHER: "%d:%d" % (pipe[0], os.fstat(pipe[0]).st_ino)} if pipe else {}


if __name__ == "__main__":
    value = sys.argv.pop(1)
    os.environ.pop(SAFE, None)
    if value:
        os.environ[SAFE] = value

    def is_safe() -> "bool":
        """Whether the user's own `python -c` would have no current directory on its path."""
        options = sys.orig_argv[1:] if hasattr(sys, "orig_argv") else []  # those of a wrapper around the interpreter
        own = options[: options.index("-c")] if "-c" in options else []
        return bool(value or sys.flags.isolated or any(word[:2] != "--" and "P" in word for word in own))

    def is_current(entry: "str") -> "bool":
        """Whether an entry is the current directory by its name: an empty entry of PYTHONPATH becomes that."""
        try:
            here = os.path.realpath(os.getcwd())
        except OSError:  # it has been removed
            return False
        library = os.path.realpath(os.path.dirname(os.__file__))  # Python's own, also when the user stands in it
        return os.path.realpath(entry) == here and not (here + os.sep).startswith(library + os.sep)

    def hold(pipe: "str") -> "None":
        """Let the kernel kill this process when the other end of the pipe is closed."""
        number, _, inode = pipe.partition(":")
        try:
            end = int(number)
            if str(os.fstat(end).st_ino) != inode:  # a wrapper around the interpreter has closed it
                return
        except (OSError, ValueError):
            return
        if sys.platform.startswith("linux"):
            # A signal, and no thread that waits for the end of file: that could not run while an import holds the GIL.
            # (PR_SET_PDEATHSIG would fire when the *thread* that started us ends.)
            import fcntl

            sys.modules.pop("fcntl")  # the script has to find those that Python's own start has imported
            try:
                fcntl.fcntl(end, fcntl.F_SETOWN, os.getpid())
                fcntl.fcntl(end, fcntl.F_SETSIG, 9)  # type: ignore[attr-defined, unused-ignore]
                fcntl.fcntl(end, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
                if not os.read(end, 1):  # the parent has gone already
                    os._exit(1)
            except OSError:  # it is there: nothing to read; or an emulated kernel that has no such signal
                pass
        elif sys.platform != "win32":  # there a thread that reads a pipe blocks others that ask about it
            import _thread

            _thread.start_new_thread(lambda: os.read(end, 1) or os._exit(1), ())

    PATH = list(sys.path)
    if getattr(sys.flags, "safe_path", False) and not is_safe():
        PATH.insert(0, "")
    sys.path[:] = [entry for entry in PATH if entry and not is_current(entry)]
    hold(os.environ.pop(TETHER, ""))
    __file__ = sys.argv.pop(1)
    with open(__file__, "rb") as file:  # noqa: PTH123 - pathlib costs time
        code = compile(file.read(), __file__, "exec")
    exec(code)
