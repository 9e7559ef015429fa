"""A new environment is examined before it is handed over: its library paths, an import, a training step."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfgpu_doctor.files import writing
from tfgpu_doctor.findings.inputs import OPTIONAL_COMPONENTS
from tfgpu_doctor.install import proof_child
from tfgpu_doctor.install.folder import python_of
from tfgpu_doctor.install.tools import Added, Proof, Step, StepState
from tfgpu_doctor.matrix.compatibility import XLA_COMPILER
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.install_commands import XLA_FILE, LibraryPaths, library_paths, xla_line
from tfgpu_doctor.probes import launch, loader, process
from tfgpu_doctor.probes.elf import Elf
from tfgpu_doctor.probes.examine import examine
from tfgpu_doctor.probes.loader import caller_of
from tfgpu_doctor.probes.process import Completed, temporary_folder
from tfgpu_doctor.records.facts import Facts, Known, Unknown
from tfgpu_doctor.records.printable import utf8
from tfgpu_doctor.records.report import Report, Severity
from tfgpu_doctor.records.units import count


def add_library_paths(prefix: Path, release: Release) -> tuple[Added, ...]:
    """Let TensorFlow find the CUDA libraries of an environment in any shell; returns what was added.

    Nothing is added if the RUNPATH leads to every library, and nothing twice. Files of packages are not changed.

    Raises OSError: a file cannot be written.
    """
    added: list[Added] = []
    paths = library_paths(release, cuda_from_pip=release.extra is None)
    own = os.path.realpath(prefix) + os.sep
    sites = [*prefix.glob("lib*/python*/site-packages"), *prefix.glob("Lib/site-packages")]
    for real in dict.fromkeys(map(os.path.realpath, sites)):
        site = next(one for one in sites if os.path.realpath(one) == real)
        # a folder that a link leads to may belong to somebody else
        if not real.startswith(own) or not (site / "tensorflow").is_dir():
            continue
        for link, target, why in [*_missing_links(site, release, paths)]:
            if link.is_symlink() and not link.exists():  # it leads nowhere
                link.unlink()
            link.symlink_to(target)
            added.append(Added(link.relative_to(prefix).as_posix(), "link", why))
        file = site / XLA_FILE
        if paths.needs_xla_line and (site / XLA_COMPILER).is_dir() and not file.exists():
            writing.replace(str(file), utf8(f"{xla_line()}\n"))
            why = "XLA of this release looks for ptxas and libdevice in toolkits only"
            added.append(Added(file.relative_to(prefix).as_posix(), "pth", why))
    return tuple(added)


def _missing_links(site: Path, release: Release, paths: LibraryPaths) -> Iterator[tuple[Path, str, str]]:
    """The links, with target and reason, to what the RUNPATH does not lead to, if TensorFlow opens any of that."""
    caller = caller_of(str(site / "tensorflow"))
    folders = caller.runpath or caller.rpath if isinstance(caller, Elf) else ()  # up to 2.6 it is an RPATH
    searched = set(map(os.path.realpath, folders))
    opened = {one.soname for one in release.libraries if one.component not in OPTIONAL_COMPONENTS}
    why = f"the RUNPATH of {os.path.basename(getattr(caller, 'path', ''))} does not lead to it"
    folder, below = site / paths.folder, glob.escape(str(site))
    files = [one for pattern in paths.files for one in sorted(glob.glob(os.path.join(below, pattern)))]
    there = {os.path.basename(one): one for one in files if os.path.exists(one)}
    hidden = {name: one for name, one in there.items() if not any(map(os.path.exists, _in_each(searched, name)))}
    if os.path.realpath(folder) in searched and not opened.isdisjoint(hidden):
        for name, file in hidden.items():
            yield folder / name, os.path.relpath(file, folder), why


def _in_each(folders: Iterable[str], name: str) -> Iterator[str]:
    return (os.path.join(folder, name) for folder in folders)


PIP_CHECK, IMPORT, LIBRARIES = 120.0, 300.0, 60.0  # seconds; for the import, and again for training
# Set by somebody for other programs, or for a TensorFlow of their own: they lead elsewhere, or change what it does.
_DISTURBING = re.compile(r"(?:PYTHON|PIP_|UV_|VIRTUAL_ENV|CONDA_|LD_|XLA_|TF_|KERAS_|CUDA_(?!VISIBLE)|CUDNN_).*")
# What findings of these layers are about can be repaired in the environment; the others are about the machine.
_OF_THE_ENVIRONMENT = ("tf.", "cuda.", "cudnn.", "xla.", "compute.", "gpu.arch-")
_CHILD = proof_child.__file__


def bare(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a shell in which nothing is set for Python, TensorFlow or CUDA."""
    return {name: value for name, value in environ.items() if not _DISTURBING.fullmatch(name)}


def prove(
    prefix: Path,
    release: Release,
    on_step: Callable[[str], None],
    *,
    matrix: Matrix,
    environ: Mapping[str, str],
) -> Proof:
    """Check an environment in child processes; `on_step` gets the name of each check when it starts.

    What cannot be verified without a GPU or its driver is a warning. Never raises for what it finds.
    """
    proving = _Proving(python_of(prefix), release, matrix, bare(environ), on_step)
    proving.run()
    return Proof(tuple(proving.steps), proving.report)


@dataclass
class _Proving:
    python: str
    release: Release
    matrix: Matrix
    environ: dict[str, str]
    on_step: Callable[[str], None]
    steps: list[Step] = field(default_factory=list)
    report: Report | None = None

    def run(self) -> None:
        """Every check; a later one can explain why an earlier one failed."""
        begin = self._begin("pip check")
        self._end("pip check", *self._pip_check(), begin)
        self._tensorflow()
        begin = self._begin("doctor")
        examination = examine(self.python, lambda: self.matrix, environ=self.environ)
        facts = examination.facts
        self.report = make_report(facts, self.matrix, source="live", timings=examination.timings, for_any_machine=True)
        self._end("doctor", *judged(self.report), begin)
        begin = self._begin("libraries")
        self._end("libraries", *self._libraries(facts), begin)

    def _begin(self, name: str) -> float:
        self.on_step(name)
        return time.monotonic()

    def _end(self, name: str, state: StepState, text: str, begin: float) -> None:
        self.steps.append(Step(name=name, state=state, text=text, seconds=round(time.monotonic() - begin, 3)))

    def _pip_check(self) -> tuple[StepState, str]:
        """Whether each requirement of each package is installed, in a version that it allows."""
        argv = (self.python, "-I", "-m", "pip", "check")  # every method brings pip
        done = process.run(argv, timeout=PIP_CHECK, env=self.environ, cwd=os.sep)
        if done.returncode == 0:
            return "ok", "the requirements of all packages are satisfied"
        return "failed", ended(done, PIP_CHECK, done.stdout)

    def _tensorflow(self) -> None:
        """Import and training in one process: TensorFlow is imported once."""
        begin = self._begin("import")
        answers: dict[str, str] = {}

        def look(line: str) -> float | None:
            if not line.startswith(proof_child.MARK):
                return None
            name, _, text = line.removeprefix(proof_child.MARK).partition(" ")
            again = name in answers  # what TensorFlow's own code prints, which renews no deadline
            answers.setdefault(name, text)
            if again or name != "import":
                return None
            nonlocal begin
            self._end("import", *self._version(text), begin)
            begin = self._begin("keras")
            return IMPORT

        environ = {**self.environ, "CUDA_VISIBLE_DEVICES": "-1"}  # of the GPUs, the doctor tells more
        with temporary_folder(environ) as own:
            argv, environ = launch.command(own, self.python, _CHILD, "tensorflow")
            done = process.run(argv, timeout=IMPORT, env=environ, cwd=os.sep, on_line=look)
        if "import" not in answers:
            self._end("import", "failed", ended(done, IMPORT), begin)
            self._end("keras", "skipped", "TensorFlow cannot be imported", time.monotonic())
        elif "keras" in answers and done.returncode == 0:
            self._end("keras", "ok", f"a tf.keras model was trained on the CPU, {answers['keras']}", begin)
        else:
            self._end("keras", "failed", ended(done, IMPORT), begin)

    def _version(self, found: str) -> tuple[StepState, str]:
        wanted = self.release.version
        if found == wanted:
            return "ok", f"TensorFlow {found}"
        return "failed", f"TensorFlow {found} was imported instead of {wanted}"

    def _libraries(self, facts: Facts) -> tuple[StepState, str]:
        """Open the file that the loader takes for each library when TensorFlow's own library asks for it."""
        sonames = facts.loader.sonames
        if isinstance(sonames, Unknown):
            return "skipped", sonames.reason
        turn = {component: number for number, component in enumerate(loader.ORDER)}
        needed = [one for one in sonames.value if one.component not in OPTIONAL_COMPONENTS]
        needed.sort(key=lambda one: turn.get(one.component, len(turn)))
        if absent := [one.soname for one in needed if one.winner is None]:
            return "failed", f"{', '.join(absent)} cannot be opened from TensorFlow's own library"
        paths = [one.winner for one in needed if one.winner]
        argv, environ = launch.command(self.environ, self.python, _CHILD, "libraries", *paths)
        done = process.run(argv, timeout=LIBRARIES, env=environ, cwd=os.sep)
        if done.returncode == 0:
            return "ok", f"{count(len(paths), 'library')} opened" if paths else "this release opens no CUDA libraries"
        return "failed", ended(done, LIBRARIES)


def judged(report: Report) -> tuple[StepState, str]:
    """What the doctor's report says about the environment, and about the machine."""
    errors = [one for one in report.findings if one.severity is Severity.ERROR and one.root_cause and not one.possible]
    own = [one for one in errors if one.id.startswith(_OF_THE_ENVIRONMENT)]
    titles = "; ".join(f"{one.title} ({one.id})" for one in own or errors)
    if own:
        return "failed", titles
    if errors:
        return "warning", f"{titles}: what needs a GPU was not verified"
    checks = report.facts.tensorflow.checks
    passed = [one.kind for one in checks.value if one.ok] if isinstance(checks, Known) else []
    if report.verdict == "unknown" or not passed:
        return "warning", "what needs a GPU could not be determined"
    return "ok", f"verified on the GPU: {', '.join(dict.fromkeys(passed))}"


def ended(done: Completed, limit: float, output: str = "") -> str:
    """How a process ended, with the last line that says why."""
    if done.error:
        return f"cannot be started: {done.error}"
    if done.timed_out:
        return f"did not end within {limit:.0f} s"
    if done.signal_name:
        return f"the process was ended by {done.signal_name}"
    lines = (output or done.stderr).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {done.returncode}")[:300]
