"""All message templates, of every layer."""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.parsers.messages import cuda, driver, harmless, imports, packages, runtime, template
from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import Message

FORMS = tuple(one for table in (driver, cuda, imports, packages, runtime, harmless) for one in table.FORMS)


def read(lines: Sequence[Line]) -> tuple[Message, ...]:
    """Find every known message in `lines`, in their order; what is said again is counted.

    >>> read([Line(7, "2022-07-07 15:53:15: W dso_loader.cc:64] Could not load dynamic library 'libcuda.so.1';")])[0]
    ... # doctest: +NORMALIZE_WHITESPACE
    Message(kind='library-not-opened', line=7,
    text="2022-07-07 15:53:15: W dso_loader.cc:64] Could not load dynamic library 'libcuda.so.1';",
    values={'library': 'libcuda.so.1'}, count=1, source=None)
    """
    return template.read(lines, FORMS)
