"""Asks uv, or pip where uv is missing, which versions meet requirements; nothing is installed, and nothing is built."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tfgpu_doctor.files import writing
from tfgpu_doctor.install import tools
from tfgpu_doctor.install.records import CommandError, InstallError, Package
from tfgpu_doctor.install.tools import QUICK, Commands, Interpreters, of_children
from tfgpu_doctor.plan.answers import Question
from tfgpu_doctor.records.printable import clean, utf8
from tfgpu_doctor.records.report import EXIT_UNKNOWN
from tfgpu_doctor.records.resolution import Answer

# What uv calls a platform. The glibc is not known: that of Ubuntu 22.04 is newer than all that TensorFlow needs
_PLATFORMS = {
    "linux_x86_64": "x86_64-manylinux_2_35",
    "linux_aarch64": "aarch64-manylinux_2_35",
    "windows_amd64": "x86_64-pc-windows-msvc",
    "macos_arm64": "aarch64-apple-darwin",
    "macos_x86_64": "x86_64-apple-darwin",
}
_SYSTEMS = {"linux": "linux", "win32": "windows", "darwin": "macos"}
_REFUSED = re.compile(r"No solution found|ResolutionImpossible|No matching distribution found")
# An index that the file names is not asked, and a source distribution is not built: neither is a refusal.
_OPEN = re.compile(
    r"not found in the (?:package registry|provided package locations)|building from source is disabled"
    r"|no usable wheels|from versions: none|network (?:was|is) disabled|metadata (?:was|could not be) "
)
_HEAD = re.compile(r"(?:error|ERROR): (?:No solution found[^:]*|(?=\S))|cause: |hint: |No solution found[^:]*:")
_NO_WORDS = re.compile(r"\s*(?:WARNING|warning|INFO|DEPRECATION|\[notice\])\b|\[\.\.\. \d+ bytes left out")
_REASONS = "The conflict is caused by:\n"  # of pip: a paragraph, before general advice
_FRAME = " \t\r×╰─▶│├"  # with which uv draws the causes of an error
_LONGEST = 1_200  # characters of a refusal: a screen
_READ = 20_000  # characters of what a program wrote


class ResolverError(InstallError):
    """There is no answer; the message says why."""

    code = EXIT_UNKNOWN


class Resolver:
    """The resolver of this machine. After a failure that would repeat, it is not asked again."""

    def __init__(self, environ: Mapping[str, str], timeout: float = QUICK) -> None:
        """`timeout`: seconds for one question."""
        self._environ, self._timeout = environ, timeout
        self._answers: dict[Question, Answer | ResolverError] = {}
        self._unreachable: ResolverError | None = None

    def ask(self, question: Question) -> Answer:
        """The versions, or the resolver's reason for refusing. Raises ResolverError: it gave no answer."""
        if question not in self._answers:
            try:
                self._answers[question] = self._asked(question)
            except ResolverError as error:
                self._answers[question] = error
        found = self._answers[question]
        if isinstance(found, ResolverError):
            raise found
        return found

    def _asked(self, question: Question) -> Answer:
        if self._unreachable:
            raise self._unreachable
        with TemporaryDirectory(prefix="tfgpu-resolve-") as folder:
            wanted = Path(folder, "requirements.txt")
            try:
                writing.replace(str(wanted), utf8("".join(f"{one}\n" for one in question.requirements)))
            except OSError as error:
                raise ResolverError(f"{folder} cannot be written: {error.strerror}") from error
            commands = Commands(of_children(self._environ, os.getcwd(), folder))
            if uv := tools.find_uv(self._environ):
                return self._by("uv", question, lambda: self._with_uv(uv, commands, wanted, question))
            python = self._python_for(question)
            return self._by("pip", question, lambda: self._with_pip(python, commands, wanted))

    def _by(self, program: str, question: Question, choose: Callable[[], tuple[Package, ...]]) -> Answer:
        try:
            packages = choose()
        except CommandError as error:
            words = _words(error.output) if error.explained else ""
            if error.code == EXIT_UNKNOWN:
                self._unreachable = ResolverError(str(error))
                raise self._unreachable from error
            if words and _REFUSED.search(error.output) and not _OPEN.search(error.output):
                return Answer(program, question.python, refusal=words)
            raise ResolverError(f"{program}: {words[: _LONGEST // 3]}" if words else str(error)) from error
        except InstallError as error:
            raise ResolverError(str(error)) from error
        if not packages:
            raise ResolverError(f"{program} named no packages")
        return Answer(program, question.python, tuple((one.name, one.version) for one in packages))

    def _with_uv(self, uv: str, commands: Commands, wanted: Path, question: Question) -> tuple[Package, ...]:
        options = ["--python", sys.executable, "--python-version", question.python]
        options += ["--python-platform", _PLATFORMS[question.platform], "--no-python-downloads"]
        return tools.Uv(uv).choose(commands, wanted, options, timeout=self._timeout)

    def _with_pip(self, python: str, commands: Commands, wanted: Path) -> tuple[Package, ...]:
        return tools.try_with_pip(python, commands, wanted, timeout=self._timeout)

    def _python_for(self, question: Question) -> str:
        """An interpreter like the one that is asked about: pip takes the markers of all packages from its own."""
        here = f"{_SYSTEMS.get(sys.platform, sys.platform)}_{platform.machine().lower()}"
        missing = "uv is not on PATH, and pip resolves only for its own Python and system"
        if here != question.platform:
            raise ResolverError(f"{missing} ({here}): install uv to resolve for {question.platform}")
        found = Interpreters(self._environ).find(question.python, venv=False)
        if found is None:
            raise ResolverError(f"{missing}: Python {question.python} is not on this machine; install uv")
        return found.path


def _words(output: str) -> str:
    """What a resolver wrote, as one paragraph without its frame and without passwords of an index."""
    kept = output if len(output) <= _READ else output[: _READ // 2] + "\n" + output[-_READ // 2 :]
    if _REASONS in kept:
        kept = kept.partition(_REASONS)[2].partition("\n\n")[0]
    kept = kept[max(kept.find("ERROR:"), 0) :]  # what pip collected before
    lines = (line.strip(_FRAME) for line in kept.splitlines() if not _NO_WORDS.match(line))
    text = re.sub(r"(://)[^/@\s]+@", r"\1", " ".join(_HEAD.sub("", line).strip(_FRAME) for line in lines if line))
    text = clean(" ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
