"""Programs and files of an installation: pip, uv, conda and Pythons; the folder that becomes an environment."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tfgpu_doctor.facts.reading import why
from tfgpu_doctor.facts.report import EXIT_PROBLEM, EXIT_UNKNOWN, EXIT_USAGE
from tfgpu_doctor.facts.units import memory_size, seconds
from tfgpu_doctor.probes import process, systems


class InstallError(Exception):
    """The installation cannot go on; the message says why and what to do."""

    def __init__(self, message: str, code: int = EXIT_PROBLEM, output: str = "") -> None:
        """Describe it, with the exit code and what a program that failed printed."""
        super().__init__(message)
        self.code, self.output = code, output


# ----------------------------------------------------------------------------------------------------------- the folder

UNFINISHED = ".tfgpu-unfinished"  # a folder in the environment, for temporary files, until it is finished
# what stands at the top of the environments that venv, uv and conda make
_PARTS = re.compile(
    r"pyvenv\.cfg|bin|lib(?:32|64)?|include|share|etc|man|python|\.gitignore|\.lock|CACHEDIR\.TAG|\.?tfgpu-.*"
    r"|conda-meta|condabin|compiler_compat|sbin|libexec|ssl|var|fonts|docs?|shell|.*-linux-gnu|nvvm|targets|extras|gds"
    r"|nsight-.*|nvml|pkgs|\.nonadmin|LICENSE_PYTHON\.txt"
)
# bytes, as measured with uv for TensorFlow 2.20.0 with its CUDA, the largest release until 2.21
DOWNLOAD, ON_DISK = 3_500_000_000, 7_400_000_000
_UNPACKING = 1_000_000_000  # of temporary files beside what is installed: the largest wheel has 0.7e9


def read_path(text: str) -> Path:
    """Return the absolute path that a user means; ~ is the home folder, quoted or not.

    Raises InstallError: no environment can be there, or it is neither absent nor an empty folder.
    """
    if not text.strip():
        raise InstallError("the folder has no name", EXIT_USAGE)
    if char := next((one for one in ":\n\0" if one in text), None):
        raise InstallError(f"{text!r} contains {char!r}, which PATH or scripts cannot have", EXIT_USAGE)
    path = Path(os.path.abspath(os.path.expanduser(text)))
    if reason := _unusable(path):
        raise InstallError(f"{path}{reason}", EXIT_USAGE)
    return path


def _unusable(path: Path) -> str | None:
    """Why a folder cannot become an environment, as the end of a sentence; None: it can."""
    empty = "name a folder that does not exist, or is empty"
    try:
        if stat.S_ISLNK(path.lstat().st_mode):
            return f" is a symbolic link to {os.readlink(path)}: name the folder itself"
        if path.is_dir() and os.listdir(path):
            return f" is not empty: {empty}"
    except (FileNotFoundError, NotADirectoryError):
        path = next(one for one in path.parents if one.exists())
    except OSError as error:
        return f": {why(error)}"
    if not path.is_dir():
        return f": {path} is not a folder: {empty}"
    return None if os.access(path, os.W_OK | os.X_OK) else f": {path} is not writable"


def require_room(path: Path) -> None:
    """Raise InstallError: the file system has less room than an installation takes."""
    place, need = next(one for one in (path, *path.parents) if one.is_dir()), ON_DISK + _UNPACKING
    if (free := shutil.disk_usage(place).free) < need:
        raise InstallError(
            f"{place} has {memory_size(free)} free, and an installation takes up to {memory_size(need)} while packages "
            "are unpacked: free some, or choose a folder on another file system"
        )


@contextmanager
def claimed(path: Path, tell: Callable[[str], None]) -> Iterator[str]:
    """Make the folder of an environment, and yield one for temporary files; if the block raises, it is removed again.

    Raises InstallError: the folder cannot be made, or another process uses it.
    """
    made = [one for one in (path, *path.parents) if not one.exists()]
    unfinished, is_ours = path / UNFINISHED, False
    try:
        read_path(str(path))  # again: the user may have been asked meanwhile
        path.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir()
        is_ours = True
        yield str(unfinished)
        shutil.rmtree(unfinished)
    except BaseException:  # also Ctrl-C
        if is_ours:
            tell(f"removing {path}")
            _empty(path)
        for folder in made:
            with suppress(OSError):  # not made yet, or others use it by now
                folder.rmdir()
        raise


def _empty(path: Path) -> None:
    """Remove the parts of an environment; what somebody else has put there is kept."""
    for one in map(path.joinpath, filter(_PARTS.fullmatch, os.listdir(path))):
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, onerror=_let_write)
        else:
            one.unlink()


def _let_write(function: Callable[..., object], path: str, _error: object) -> None:
    """Remove what is in folders without write permission, too."""
    os.chmod(os.path.dirname(path), 0o700)
    function(path)


# ----------------------------------------------------------------------------------------- how programs run, and fail

LIMIT = 7200.0  # seconds for a program that downloads packages
# what pip, uv and conda print → why they failed, and the exit code
_FAILURES = (
    (r"no space left on device|disk quota exceeded|os error (?:28|122)\b", "the disk is full", EXIT_PROBLEM),
    (
        r"failed to establish a new connection|name resolution|name or service not known|network is unreachable"
        r"|connection (?:refused|reset|timed out|aborted)|max retries exceeded|read timed out|operation timed out|"
        r"error sending request|dns error|tcp connect error|cannot connect to proxy|certificate_verify_failed"
        r"|invalid peer certificate|sslerror|network connectivity|could not connect|CondaHTTPError|ConnectionFailed"
        r"|request failed after \d+ retr(?:y|ies)|HTTP (?:status|error):? ?\(?(?:401|403|407|5\d\d)",
        "the package index, or the mirror of Pythons, cannot be reached; see --help for proxies and certificates",
        EXIT_UNKNOWN,
    ),
)


def run(what: str, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Run a command; `what` names the task in the message. Raises InstallError: it failed, or ran out of time."""
    # not in the user's folder: nothing there may be imported by python -m pip, or configure uv
    done = process.run(argv, timeout=LIMIT, env=env, cwd=os.sep, merged=True)
    if done.returncode != 0 or done.timed_out:
        raise failure(what, done)


def failure(what: str, done: process.Completed) -> InstallError:
    """Return why a program failed."""
    program, output = os.path.basename(done.argv[0]), done.stdout + done.stderr
    reason, code = f"exit code {done.returncode}", EXIT_PROBLEM
    if done.error:
        reason = f"{program} cannot be started: {done.error}"
    elif done.timed_out:
        reason, code = f"{program} did not end within {seconds(done.seconds)}", EXIT_UNKNOWN
    elif done.signal_name:
        reason = f"ended by {done.signal_name}"
    else:  # what a program prints explains its exit code
        known = (row[1:] for row in _FAILURES if re.search(row[0], output, re.IGNORECASE))
        reason, code = next(known, (reason, code))
    return InstallError(f"{what} failed: {reason}", code, output)


# Variables of pip, uv, conda and Python, of which those reach the programs that say where packages come from: not
# those that would send packages elsewhere, or bring others.
_FAMILY = re.compile(r"(?:PIP|UV|CONDA|MAMBA|VIRTUALENV)_.*|(?:PYTHON|VIRTUAL_ENV|_CE_|__PYVENV).*")
_KEPT = re.compile(
    r"PIP_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|TIMEOUT"
    r"|DEFAULT_TIMEOUT|RETRIES|CACHE_DIR|NO_CACHE_DIR|CONFIG_FILE|KEYRING_PROVIDER|USE_FEATURE|USE_DEPRECATED)"
    r"|UV_(?:INDEX(?:_.*)?|DEFAULT_INDEX|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS"
    r"|HTTP_.*|REQUEST_TIMEOUT|CACHE_DIR|NO_CACHE|LINK_MODE|CONCURRENT_.*|KEYRING_PROVIDER|CONFIG_FILE|OFFLINE"
    r"|PYTHON_INSTALL_(?:DIR|MIRROR)|PYTHON_DOWNLOADS_JSON_URL|CREDENTIALS_DIR)"
    r"|CONDA_(?:PKGS_DIRS|CHANNEL_ALIAS|SSL_VERIFY|OFFLINE|REMOTE_.*|PROXY_SERVERS.*|OVERRIDE_.*|EXE|ROOT)"
    r"|CONDARC|MAMBA_(?:ROOT_PREFIX|EXE|SSL_VERIFY)|PYTHONUTF8|PYTHONIOENCODING"
)
_DISTURBING = re.compile(r"PYTHON(?:PATH|HOME)|(?:PIP|UV)_(?!(?:DISABLE_PIP_VERSION_CHECK|NO_INPUT|NO_PROGRESS)$).*")
_OURS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_USER": "0",  # of pip.conf, with which pip refuses to install into a virtual environment
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "UV_NO_PROGRESS": "1",
    "UV_PYTHON_INSTALL_BIN": "0",  # else uv puts a link into ~/.local/bin for a Python that it gets
    "NO_COLOR": "1",
    "CONDA_ALWAYS_YES": "1",
}


def of_children(environ: Mapping[str, str], temporary: str) -> dict[str, str]:
    """Return the environment for pip, uv and conda.

    Args:
        environ: of this process.
        temporary: where they unpack; /tmp can be too small for wheels of 600 MB.
    """
    kept = {name: value for name, value in environ.items() if not _FAMILY.fullmatch(name) or _KEPT.fullmatch(name)}
    return {**kept, **_OURS, "TMPDIR": temporary}


def dropped(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that would send packages elsewhere, or bring others, and that the programs do not get."""
    return tuple(sorted(name for name in environ if _DISTURBING.fullmatch(name) and not _KEPT.fullmatch(name)))


# ------------------------------------------------------------------------------------------------ how they are found

ANSWER = 20.0  # seconds that an interpreter may take to describe itself
_ASK = (
    "import platform, struct, sys, sysconfig\n"
    "def has(name):\n"
    "    try:\n        __import__(name)\n        return True\n    except ImportError:\n        return False\n"
    "print(platform.python_version(), platform.python_implementation(), struct.calcsize('P') * 8,"
    " not sysconfig.get_config_var('Py_GIL_DISABLED'), has('venv') and has('ensurepip') and has('ssl'))"
)


def find_python(minor: str, environ: Mapping[str, str], *, venv: bool = False, own: str = sys.executable) -> str | None:
    """Return the path of the first CPython of 64 bits with a GIL that is of a minor version ("3.12"), or None.

    Args:
        minor: what is looked for.
        environ: where to look: PATH, and the variables and folders of pyenv and uv.
        venv: it must be able to create a virtual environment with pip.
        own: the Python of tfgpu itself, which is the first.
    """
    wanted = re.compile(rf"{re.escape(minor)}\.\S+ CPython 64 True {'True' if venv else '(?:True|False)'}\s*")
    for path in dict.fromkeys((own, *_places(minor, environ))):
        done = process.run([path, "-I", "-c", _ASK], timeout=ANSWER, env=environ, cwd=os.sep)
        if wanted.fullmatch(done.stdout):
            return path
    return None


def _places(minor: str, environ: Mapping[str, str]) -> Iterator[str]:
    home = environ.get("HOME") or os.path.expanduser("~")
    name, inside = ("python", "python.exe") if sys.platform == "win32" else (f"python{minor}", f"bin/python{minor}")
    for folder in (*systems.folders(environ), "/usr/bin", "/usr/local/bin"):
        if program := systems.find(os.path.join(folder, name), environ):
            yield program
    pyenv = environ.get("PYENV_ROOT") or os.path.join(home, ".pyenv")
    uv = environ.get("UV_PYTHON_INSTALL_DIR") or os.path.join(home, ".local", "share", "uv", "python")
    for root, pattern in ((pyenv, "versions/"), (uv, "cpython-")):
        yield from sorted(map(str, Path(root).glob(f"{pattern}{minor}.*/{inside}")), reverse=True)


def find_uv(environ: Mapping[str, str]) -> str | None:
    """Return uv on PATH, or beside the Python of tfgpu, or where its installer puts it."""
    home = environ.get("HOME") or os.path.expanduser("~")
    more = (os.path.dirname(sys.executable), os.path.join(home, ".local", "bin"), os.path.join(home, ".cargo", "bin"))
    return systems.find("uv", environ, more=more)


def find_conda(environ: Mapping[str, str]) -> str | None:
    """Return conda, mamba or micromamba."""
    found = (systems.find(name, environ) for name in ("conda", "mamba", "micromamba"))
    return next((one for one in (environ.get("CONDA_EXE"), *found) if one and os.path.isabs(one)), None)
