"""What of a diagnosis does not hold for the kernel that asked for it: it examines new processes. Pure.

A kernel lives long: packages and variables change while it runs, and what it has read of them stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfgpu_doctor.records.environment_variables import reason
from tfgpu_doctor.records.printable import cut

# what the loader and Python read when a process starts (ld.so(8); Python's documentation, "Command line and
# environment"), so that no change within the process has an effect on it
_AT_START = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE")
_LONGEST = 120  # characters of a value


def notes(
    imported: str | None, installed: str | None, before: Mapping[str, str], now: Mapping[str, str], since: str
) -> Iterator[str]:
    """What to know beside the report, in sentences.

    Args:
        imported: the release of TensorFlow that the kernel has imported ("" where it does not say); None: none.
        installed: the release that the examination found.
        before: variables of the kernel as they were at first.
        now: and as they are.
        since: when `before` was: "the kernel started".
    """
    if imported is not None:
        yield (
            f"TensorFlow {imported} is already imported in this kernel. The report is about a new process, with the "
            "packages and variables as they are now. The kernel keeps what it has read: restart it after a fix."
        ).replace("TensorFlow  ", "TensorFlow ")
    if imported and installed and imported != installed:
        yield (f"The kernel still has TensorFlow {imported}, but {installed} is installed now: restart the kernel.")
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new or reason(name) is None:
            continue
        change = f"{name} was {_shown(old)} when {since} and is {_shown(new)} now."
        if name in _AT_START:
            yield f"{change} It is read when a process starts: the report has the new value, this kernel the old one."
        elif imported is not None:
            yield (
                f"{change} If it was changed after TensorFlow was imported, it has no effect in this kernel: "
                "restart it, and change it in the first cell."
            )


def _shown(value: str | None) -> str:
    return "not set" if value is None else f"'{cut(value, _LONGEST)}'"
