"""Fresh shells on a machine with one RTX 4090, whose driver is the stand-in of the fault lab."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.lab.hiding import LIBRARIES, hide_cudnn, hide_toolkits

ROOT = Path(__file__).parents[2]
ANSWERS = {
    "TFGPU_LAB_NAME": "NVIDIA GeForce RTX 4090",
    "TFGPU_LAB_CC": "8.9",
    "TFGPU_LAB_DRIVER": "570.86.15",
    "TFGPU_LAB_CUDA_VERSION": "12080",
    "TFGPU_LAB_MEMORY_MIB": "24564",
}
# how this machine reaches a package index, and where the installers keep what they have downloaded
KEPT = ("PIP_", "UV_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "HTTP_", "HTTPS_", "http_", "https_", "OPENBLAS_")
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
# The tool under test, as a program: `python -m` would put the current folder on the path of the tool.
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {root!r})
from tfgpu_doctor.__main__ import main
main()
"""


@dataclass(frozen=True)
class Done:
    """What a shell left."""

    code: int
    output: str
    errors: str


def find_uv() -> str | None:
    """The program uv: beside this Python (the extra `test` installs it), or on PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else shutil.which("uv")


def find_python(version: str) -> str | None:
    """An interpreter of this version: this one, pyenv's, one on PATH, or one of uv."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return str(Path(sys.executable).resolve())
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    if found:
        return str(found[-1])
    if (program := shutil.which(f"python{version}")) and ".pyenv/shims" not in program:
        return program
    if not (uv := find_uv()):
        return None
    command = [uv, "python", "find", "--no-project", "--no-python-downloads", version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() or None


class Machine:
    """Shells see the lab's driver in ld.so's cache and no CUDA of the machine, in a mount namespace of their own.

    Where no mount namespace is allowed, the driver is found through LD_LIBRARY_PATH, and `private` is false.
    """

    def __init__(self, folder: Path, libraries: Path) -> None:
        """Keep what shells need in `folder`; `libraries` has the stand-ins for the driver."""
        self.folder = folder
        self.libraries = libraries
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True, exist_ok=True)
        program = self.programs / "tfgpu"
        program.write_text(PROGRAM.format(python=sys.executable, root=str(ROOT)))
        program.chmod(0o755)

    @cached_property
    def namespace(self) -> list[str]:
        """The command that gives what follows it a private /etc/ld.so.cache; empty where that is not allowed."""
        if sys.platform != "linux" or not shutil.which("unshare"):
            return []
        hide = hide_toolkits() + hide_cudnn(self.folder / "hidden")
        cache, configuration = self.folder / "ld.so.cache", self.folder / "ld.so.conf"
        configuration.write_text("\n".join([str(self.libraries), *filter(os.path.isdir, LIBRARIES)]) + "\n")
        script = self.folder / "enter.sh"
        make = (
            f"PATH=$PATH:/sbin:/usr/sbin ldconfig -X -C {shlex.quote(str(cache))} -f {shlex.quote(str(configuration))}"
        )
        script.write_text(f"set -e\n{hide}{make}\n")
        enter = ["unshare", "-rm", "sh"]
        made = subprocess.run([*enter, str(script)], capture_output=True, timeout=60, check=False)
        if made.returncode:
            return []
        bind = f"mount --bind {shlex.quote(str(cache))} /etc/ld.so.cache"
        script.write_text(f'set -e\n{hide}{bind}\nexec "$@"\n')
        tried = subprocess.run([*enter, str(script), "true"], capture_output=True, timeout=60, check=False)
        return [] if tried.returncode else [*enter, str(script)]

    @property
    def has_own_cudnn(self) -> bool:
        """Whether shells see a cuDNN of this machine, which nothing hides from them."""
        return not self.private and bool(hide_cudnn(self.folder / "hidden"))

    @property
    def private(self) -> bool:
        """Whether the driver is found without LD_LIBRARY_PATH, as on a real machine."""
        return bool(self.namespace)

    def environ(self, home: Path, variables: Mapping[str, str], programs: tuple[str, ...] = ()) -> dict[str, str]:
        """The environment of a shell: nothing of this process but its way to a package index."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        caches = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
        environ = {
            "UV_CACHE_DIR": str(caches / "uv"),
            "PIP_CACHE_DIR": str(caches / "pip"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **kept,
            **ANSWERS,
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join([*programs, str(self.programs), "/usr/local/bin", "/usr/bin", "/bin"]),
            **variables,
        }
        if not self.private:
            found = (variables.get("LD_LIBRARY_PATH"), str(self.libraries))
            environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, found))
        return environ

    def shell(self, script: str, environ: Mapping[str, str], cwd: Path, limit: float = 600) -> Done:
        """Run a script in a fresh bash without a terminal; what it leaves running is ended with it."""
        process = subprocess.Popen(
            [*self.namespace, "bash", "--noprofile", "--norc", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(environ),
            cwd=cwd,
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            errors += f"\nstopped after {limit:.0f} s"
        return Done(process.returncode, output, errors)
