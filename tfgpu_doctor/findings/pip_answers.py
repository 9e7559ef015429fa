"""What pip answers about TensorFlow: what it was asked for, and which versions it offers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.requirements import Requirement

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.message_log import MessageLog
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers.remaining_releases import versions_offered
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.versions import at_least, minor, parts


def requested(message: Message) -> tuple[str, str | None]:
    """The package and the version that were asked for: ("tensorflow", "2.13.0")."""
    text = message.values.get("requirement") or message.values.get("wanted") or ""
    try:
        requirement = Requirement(text.replace("'", "").strip().rstrip(".,"))
    except (ValueError, RecursionError):  # the latter of a marker in hundreds of parentheses
        name = re.match(r"[\w.-]+", text)
        return (name[0] if name else "tensorflow"), None
    versions = [one.version for one in requirement.specifier if one.operator in ("==", "~=", "===", "<=", "<")]
    return requirement.name, versions[0].removesuffix(".*") if versions else None


def offered(message: Message) -> list[str] | None:
    """The list that pip printed; None where it printed none, empty where it says "none"."""
    text = message.values.get("versions")
    if text is None:
        return None
    return [] if text.strip() == "none" else [one.strip() for one in text.split(",") if re.match(r"\s*\d", one)]


def newest_minor(versions: Iterable[str]) -> tuple[int, ...]:
    """The newest major and minor version of a list, (2, 11)."""
    return max((parts(one) or ())[:2] for one in versions)


def python_offered_to(matrix: Matrix, message: Message, platform: str | None) -> str | None:
    """The Python to which pip offers just these versions, where there is only one."""
    versions = offered(message)
    matches = versions_offered(matrix, requested(message)[0], versions, platform) if versions else None
    return matches.pythons[0] if matches and len(matches.pythons) == 1 else None


def ended_on_macos(messages: MessageLog, platform: str | None) -> tuple[Message, ...]:
    """pip's answer to a request for tensorflow-gpu on a Mac: nothing after 1.1 (the index has no such wheel)."""
    if not (platform or "").startswith("macos"):
        return ()
    asked = [m for m in messages.all("no-distribution") if requested(m)[0].replace("_", "-") == "tensorflow-gpu"]
    lists = [versions for m in asked if (versions := offered(m))]
    return tuple(asked) if lists and all(newest_minor(one) <= (1, 1) for one in lists) else ()


def without_windows(context: Context, python: str | None, platform: str) -> str | None:
    """That pip installs only releases without a GPU build for Windows for a Python, where no release is named."""
    published = context.matrix.stable(platform=platform, package="tensorflow")
    fitting = [row for row in published if minor(python) in row.python]
    if not fitting or at_least(fitting[-1].version, "2.11") is False:
        return None
    oldest = minor(fitting[-1].version)
    return f"Python {minor(python)} needs TensorFlow {oldest} or later, which has no GPU support on native Windows"
