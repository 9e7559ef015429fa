"""Why an installation ended without an environment. Pure."""

from __future__ import annotations

import re

from tfgpu_doctor.install.records import Proof
from tfgpu_doctor.records.printable import cut
from tfgpu_doctor.records.report import EXIT_PROBLEM, EXIT_UNKNOWN, EXIT_USAGE

# What pip, uv and conda print where the index or a proxy does not answer, or its certificate is not trusted.
_UNREACHABLE = re.compile(
    r"failed to establish a new connection|name resolution|name or service not known|network is unreachable"
    r"|connection (?:refused|reset|timed out|aborted)|max retries exceeded|read timed out|operation timed out|"
    r"error sending request|dns error|tcp connect error|cannot connect to proxy|certificate_verify_failed"
    r"|invalid peer certificate|sslerror|network connectivity|could not connect|CondaHTTPError|ConnectionFailed"
    r"|request failed after \d+ retr(?:y|ies)|HTTP (?:status|error):? ?\(?(?:401|403|407|5\d\d)",
    re.IGNORECASE,
)
_FULL = re.compile(r"no space left on device|disk quota exceeded|os error (?:28|122)\b", re.IGNORECASE)


class InstallError(Exception):
    """The installation cannot go on; the message says why and what to do, `code` is the exit code."""

    code = EXIT_PROBLEM


class RefusedError(InstallError):
    """No plan, no interpreter, no room: there is nothing to install, or nowhere."""


class FolderError(InstallError):
    """The folder that was named cannot become an environment."""

    code = EXIT_USAGE


class ToolError(InstallError):
    """The program that --method names is not here, or not for this release."""

    code = EXIT_USAGE


class CommandError(InstallError):
    """A program failed; `output` is what it wrote, and says why if `explained`."""

    def __init__(self, what: str, ended: str, output: str, *, timed_out: bool = False) -> None:
        """Describe it: `what` was to be done, and how it `ended`."""
        # what a program prints explains its exit code; one that was ended had gone on after it
        self.explained = ended.startswith("exit code")
        super().__init__(f"{what} failed: {_why(ended, output) if self.explained else ended}")
        self.output = output
        if timed_out or (self.explained and _UNREACHABLE.search(output)):
            self.code = EXIT_UNKNOWN


class UnprovenError(InstallError):
    """The environment was made and does not work; `proof` says what was found."""

    def __init__(self, message: str, proof: Proof) -> None:
        """Describe it."""
        super().__init__(message)
        self.proof = proof


def _why(ended: str, output: str) -> str:
    if full := _FULL.search(output):
        begin, end = output.rfind("\n", 0, full.start()) + 1, output.find("\n", full.end())
        return f"the disk is full: {cut(output[begin : end if end >= 0 else None].strip(), 300)}"
    if found := _UNREACHABLE.search(output):
        of_python = "Failed to install cpython" in output  # by uv, from another host
        where = "the download of Python" if of_python else "the package index"
        mirror = "; UV_PYTHON_INSTALL_MIRROR names a mirror" if of_python else ""
        return f"{where} cannot be reached ({found[0]}); see --help for proxies and certificates{mirror}"
    return ended
