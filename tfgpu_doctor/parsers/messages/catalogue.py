"""All kinds of messages, of every layer: their templates, and what role each plays."""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.parsers.messages import cuda, driver, harmless, imports, packages, runtime, said, template
from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import Message

TEMPLATES = tuple(
    one for table in (driver, cuda, imports, packages, runtime, said, harmless) for one in table.TEMPLATES
)

# Kinds that are no failures; those without a template come from other parsers and inference/derived_messages.py
ROLES: dict[str, template.Role] = {
    "resembles": "context",  # a cause that known reports in the same words had
    "text-cut": "context",  # a large text, in which parts of long lines were not examined
    **dict.fromkeys(
        (
            "another-program",
            "conda-tensorflow",
            "container-start",
            "image-named",
            "cuda-versions-compared",
            "cuda-wanted",
            "gpu-created",
            "gpu-fails-said",
            "gpu-found",
            "jetson",
            "log-era",
            "notebook",
            "no-gpu-listed",
            "only-printed",
            "own-report",
            "few-words",
            "other-framework",
            "wants-cpu",
            "question",
            "source-build",
        ),
        "context",
    ),
    **{one.kind: one.role for one in TEMPLATES if one.role is not None},
}
STOPS_IMPORT = frozenset(
    {"conda-unsatisfiable", "wheel-not-supported", *(one.kind for one in TEMPLATES if one.stops_import)}
)


def is_failure(kind: str) -> bool:
    """Whether a message of this kind says that something failed; else it tells where and how, or is harmless."""
    return kind not in ROLES


def stops_import(kind: str) -> bool:
    """Whether TensorFlow cannot even be imported or installed after such a message."""
    return kind in STOPS_IMPORT


def read(lines: Sequence[Line]) -> tuple[Message, ...]:
    """Find every known message in `lines`, in their order; a repeated one is counted.

    >>> read([Line(7, "2022-07-07 15:53:15: W dso_loader.cc:64] Could not load dynamic library 'libcuda.so.1';")])[0]
    ... # doctest: +NORMALIZE_WHITESPACE
    Message(kind='library-not-opened', line=7,
    text="2022-07-07 15:53:15: W dso_loader.cc:64] Could not load dynamic library 'libcuda.so.1';",
    values={'library': 'libcuda.so.1'}, count=1, source=None)
    """
    return template.read(lines, TEMPLATES)
