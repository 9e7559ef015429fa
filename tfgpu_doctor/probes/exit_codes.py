"""What a return code says about how a process ended: the signal, or what Windows has instead of one."""

from __future__ import annotations

import signal

# fatal signals by their numbers on Linux and macOS, where Windows numbers some otherwise
NAMES = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}
FATAL = {128 + number: number for number in (4, 6, 7, 8, 9, 11)}  # how a shell wrapper passes a signal on
# Microsoft, "NTSTATUS values": the code with which Windows ends a process, the signal that says the same, and words
WINDOWS = {
    0xC0000005: (11, "access violation"),
    0xC000001D: (4, "illegal instruction"),
    0xC00000FD: (11, "stack overflow"),
    0xC0000374: (6, "heap corruption"),
    0xC0000409: (6, "stack buffer overrun or abort"),
    0xC0000135: (None, "a DLL was not found"),
    0xC0000142: (None, "a DLL failed to initialise"),
}


def signal_number(returncode: int | None) -> int | None:
    """The signal behind a return code of :mod:`subprocess`; None for an ordinary exit."""
    if returncode is None:
        return None
    return -returncode if returncode < 0 else WINDOWS.get(returncode, (None, ""))[0]


def words(returncode: int | None) -> str | None:
    """What Windows calls it; None for a code that is not its own."""
    return WINDOWS[returncode][1] if returncode is not None and returncode in WINDOWS else None


def name_of(number: int) -> str:
    """ "SIGSEGV" for 11."""
    try:
        return NAMES.get(number) or signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_name(returncode: int | None) -> str | None:
    """Name the signal behind a return code; None for an ordinary exit.

    >>> signal_name(-11), signal_name(0xC000001D), signal_name(1)
    ('SIGSEGV', 'SIGILL', None)
    """
    number = signal_number(returncode)
    return None if number is None else name_of(number)
