"""The system's C and C++ libraries, or others that come before them, are older than what TensorFlow was built with."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.library_fixes import CONDA_TENSORFLOW, off_library_path
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.report import Alternative, Evidence, Fix, Severity

_CONTAINER = "docker run --gpus all -it --rm tensorflow/tensorflow:latest-gpu bash"

GLIBC_TOO_OLD = finding(
    "tf.glibc-too-old",
    layer="Machine",
    severity=Severity.ERROR,
    title="The system's C library is too old for this TensorFlow",
    cause="the library was built on a newer Linux than this one",
    docs="https://github.com/pypa/manylinux",
)


@GLIBC_TOO_OLD.sign
def version_not_found(
    context: Context,
    messages: MessageLog,
    libc: str | None = None,
    release: Release | None = None,
    variables: dict[str, str] | None = None,
) -> Problem | None:
    """The loader does not find a version of GLIBC, GLIBCXX or CXXABI."""
    seen = messages.all("glibc-too-old")
    if not seen:
        return None
    required = f"{seen[0].values.get('version', 'it')} or newer"
    texts = [message.text for message in seen]
    if older := _on_library_path(texts, (variables or {}).get("LD_LIBRARY_PATH", "")):
        folder, name = older
        return Problem(
            title=f"LD_LIBRARY_PATH puts an older {name} before the one of the system",
            cause=f"the loader searches LD_LIBRARY_PATH first; the {name} in {folder} lacks what TensorFlow needs",
            evidence=message_evidence(*seen, need=required),
            fixes=off_library_path(context, {folder}),
        )
    more: tuple[Evidence, ...] = ()
    if libc:
        wheel = f"TensorFlow {release.version} (wheel, glibc {release.glibc})" if release and release.glibc else None
        more = (evidence(libc, context.source("host.libc"), required, wheel),)
    return Problem(
        evidence=(*more, *message_evidence(*seen, need=required)),
        fixes=_newer(context, messages.values("glibc-too-old", "version")),
    )


def _on_library_path(texts: list[str], library_path: str) -> tuple[str, str] | None:
    """The folder of LD_LIBRARY_PATH whose library lacks the version, and the name of the library."""
    for folder in filter(None, library_path.split(":")):
        named = re.compile(rf"(?<![^\s'\"]){re.escape(folder.rstrip('/'))}/+(lib[\w+-]+\.so[.\d]*): version ")
        for text in texts:
            if found := named.search(text):
                return folder.rstrip("/"), found[1]
    return None


def _newer(context: Context, versions: Iterable[str]) -> tuple[Fix, ...]:
    container = Fix(text="Use a newer distribution, or a container on this one", commands=(_CONTAINER,))
    if context.remedies.image:
        return (container,)
    fixes = (
        container,
        Alternative(text="Use conda, which installs its own libstdc++", commands=CONDA_TENSORFLOW),
    )
    if any("GLIBC_" in version for version in versions):
        return fixes
    update = "conda install -c conda-forge 'libstdcxx-ng>=12'"
    path = "export LD_LIBRARY_PATH=$CONDA_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    return (Fix(text="Load a newer libstdc++ first: conda's, or that of a newer GCC", commands=(update, path)), *fixes)
