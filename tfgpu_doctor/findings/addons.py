"""Signs of plugins and libraries of operations that were compiled for another TensorFlow, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence
from tfgpu_doctor.findings.installed_requirements import requirements
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import FailingFile, Message, Package, Phase
from tfgpu_doctor.records.report import Alternative, Fix, Severity

PLUGINS = "tensorflow-plugins"  # the folder of site-packages whose files TensorFlow loads when it is imported
_NO_SUCH_FUNCTION = re.compile(r"undefined symbol|Symbol not found", re.IGNORECASE)
_FOLDER = re.compile(r"(\S{1,200}[\\/]" + PLUGINS + r")[\\/]([\w.-]{1,80})")
_OTHER_RELEASE = "it was compiled for another TensorFlow release, and needs functions that this one does not have"


def library_cannot_be_loaded(
    context: Context,
    failing_files: tuple[FailingFile, ...],
    packages: tuple[Package, ...],
    phases: tuple[Phase, ...],
    python_version: str | None = None,
    wheel_platform: str | None = None,
) -> Problem | None:
    """The import ends at a plugin, or at a library of a package that TensorFlow does not require."""
    failed = next((one for one in phases if one.name in ("import", "keras") and one.outcome == "raised"), None)
    if failed is None or failed.exception is None:
        return None
    no_function = bool(_NO_SUCH_FUNCTION.search(failed.exception))
    own = {*TENSORFLOW, *_required(packages, python_version, wheel_platform)}
    foreign = [one for one in failing_files if one.package not in own and (no_function or PLUGINS in one.path)]
    if not foreign:
        return None
    first = foreign[0]
    whose = f"{first.package} {first.version}" if first.package else first.path
    cause = f"TensorFlow loads every file in {PLUGINS} when it is imported, and one of them fails"
    return Problem(
        title=f"{whose} cannot be loaded by this TensorFlow",
        cause=_OTHER_RELEASE if no_function else cause,
        evidence=(
            *(evidence(one.path, f"RECORD of {one.package}" if one.package else "no RECORD") for one in foreign),
            evidence(failed.exception, f"phase {failed.name}"),
        ),
        fixes=_remove(context, foreign),
    )


def _required(packages: tuple[Package, ...], python: str | None, platform: str | None) -> set[str]:
    return (
        {str(canonicalize_name(one.name)) for _, one in requirements(packages, python, platform)} if python else set()
    )


def _remove(context: Context, files: Sequence[FailingFile]) -> tuple[Fix, ...]:
    names = list(dict.fromkeys(one.package for one in files if one.package))
    if names:
        return _without(context, *names)
    moves = tuple(context.remedies.rename(one.path, one.path + ".off") for one in files)
    return (Fix(text="No package lists this file: rename it, so that TensorFlow does not load it", commands=moves),)


def _without(context: Context, *names: str) -> tuple[Fix, ...]:
    them = " and ".join(names)
    return (
        Fix(text=f"Uninstall {them}; TensorFlow does not need it", commands=(context.remedies.pip_uninstall(*names),)),
        Alternative(
            text=f"Install the release of {them} for this TensorFlow, if there is one",
            commands=context.remedies.pip_install("--upgrade", *names),
        ),
    )


def addon_asks_for_a_function(context: Context, messages: MessageLog) -> Problem | None:
    """A library beside TensorFlow asks it for a function that it does not have."""
    seen = messages.all("addon-mismatch")
    if not seen:
        return None
    addon = seen[0].values["addon"].replace("_", "-")
    only_warns = all("tensorflow_io" in one.values["addon"] and "caused by" in one.text for one in seen)
    return Problem(
        title=f"{f'A file in {PLUGINS}' if addon == PLUGINS else addon} was compiled for another TensorFlow",
        cause=_OTHER_RELEASE,
        evidence=message_evidence(*seen),
        fixes=_of_plugin(context, seen[0]) if addon == PLUGINS else _without(context, addon),
        severity=Severity.WARNING if only_warns else None,
    )


def _of_plugin(context: Context, message: Message) -> tuple[Fix, ...]:
    """What to uninstall: Apple's plugin has one name; that of another stands in the RECORD of its package."""
    found = _FOLDER.search(message.text)
    if "libmetal_plugin" in message.text or not found:
        return _without(context, "tensorflow-metal")
    site = context.remedies.quote(found[1].removesuffix(PLUGINS))
    return (
        Fix(
            text="Find the package that installed it, and uninstall that",
            commands=(f"grep -l {PLUGINS}/{found[2]} {site}*.dist-info/RECORD",),
        ),
    )
