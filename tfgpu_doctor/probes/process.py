"""The one place that starts child processes.

Every child has a deadline, is never started through a shell, and has both of its streams drained all the time, of
which a bounded part is kept. When it ends, or is killed because it hangs, what descends from it is killed, too; how
far that reaches, :mod:`tfgpu_doctor.probes.descendants` says. A process that cannot even be killed (it sleeps in the
kernel, as behind a dead driver) is left behind after a second instead of being waited for.
"""

from __future__ import annotations

import atexit
import codecs
import errno
import itertools
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO

from tfgpu_doctor.probes import descendants, launch
from tfgpu_doctor.probes.programs import find
from tfgpu_doctor.probes.systems.job import Job
from tfgpu_doctor.records.printable import utf8

KILL_GRACE = 1.0  # seconds that a killed child has to go away before it is abandoned
END_GRACE = 5.0  # seconds at most to kill all that is left in the end, which may fork faster than it can be killed
DRAIN_GRACE = 0.5  # seconds that the streams of an ended child may stay open (a grandchild holds them)
FLOOD = 256_000_000  # bytes on both streams, after which a child is killed: it would keep a core busy to its deadline
KEEP = 512_000  # bytes kept of each end of a stream; a child may write gigabytes
QUEUED = 4_000_000  # bytes of lines that wait to be read; of a child that writes faster than that, the rest is dropped
_CONTINUATION = bytes(range(0x80, 0xC0))  # of UTF-8: never the first byte of a character
PER_LINE = 100  # bytes that the shortest line takes in memory

_EOF = object()
_numbers = itertools.count(1)
_running: set[Child] = set()  # those whose block has not been left
_starting: set[Child] = set()
_closed = threading.Event()  # the command ends: nothing is started any more


@dataclass(frozen=True)
class Completed:
    """How a child ended.

    `returncode` is None when it never started (`error` says why) or could not be killed;
    negative for a signal, as in :mod:`subprocess`.
    """

    argv: tuple[str, ...]
    returncode: int | None
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    error: str | None = None
    flooded: bool = False  # it was killed before its deadline, since it wrote more than FLOOD

    @property
    def signal_name(self) -> str | None:
        """ "SIGSEGV" when a signal ended the child."""
        return signal_name(self.returncode)


@dataclass
class _Kept:
    """The first and the last `KEEP` bytes of a stream."""

    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    tail_size: int = 0
    dropped: int = 0

    def add(self, data: bytes) -> None:
        if room := KEEP - len(self.head):
            self.head += data[:room]
            data = data[room:]
        if not data:
            return
        self.tail.append(data)
        self.tail_size += len(data)
        while self.tail_size > KEEP and len(self.tail) > 1:
            gone = len(self.tail.popleft())
            self.tail_size -= gone
            self.dropped += gone

    @property
    def size(self) -> int:
        """Bytes that came in all."""
        return len(self.head) + self.tail_size + self.dropped

    def text(self) -> str:
        """What is kept; a character that the gap cuts in two is left out with it."""
        tail = b"".join(self.tail)
        if not self.dropped:
            return (bytes(self.head) + tail).decode("utf-8", "replace")
        begun = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self.head))  # keeps back half a character
        ended = tail.lstrip(_CONTINUATION).decode("utf-8", "replace")
        return f"{begun}\n[... {self.dropped} bytes left out ...]\n{ended}"


class FloodError(TimeoutError):
    """A child has written more than FLOOD bytes, and still runs."""


class Child:
    """A running child whose standard output is read line by line.

    Use as a context manager: leaving the block kills whatever still runs.

    Raises OSError: the program cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bool = False,
        tether: bool = False,
        merged: bool = False,
    ) -> None:
        """Start `argv`; with `stdin`, a pipe for :meth:`send` is opened, else the child reads an empty input.

        With `merged`, what it writes to standard error comes in its place within standard output.
        With `tether`, a child that :mod:`tfgpu_doctor.probes.launch` starts also ends when this process is killed.
        A program without a folder is looked up on the PATH of `env`, see :func:`tfgpu_doctor.probes.programs.find`.
        """
        self.argv = tuple(argv)
        self.started = time.monotonic()
        self.stderr = _Kept()
        self.stdout = _Kept()
        self._lines: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._queued = 0  # bytes that were ever put into it
        self._taken = 0  # bytes that were ever taken from it
        self._readers: list[threading.Thread] = []
        self._partial = b""
        self._ended = 0.0  # monotonic time at which it was seen that it has ended, and what it left behind was killed
        self._deaf = False  # nothing that is written from now on is read
        self._number = next(_numbers)
        self._tether = list(os.pipe()) if tether and os.name == "posix" else []
        _starting.add(self)
        try:
            if _closed.is_set():
                raise InterruptedError(errno.EINTR, "the command ends")
            environ = os.environ if env is None else env
            if (program := find(argv[0], environ)) is None and not os.path.dirname(argv[0]):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self.process = subprocess.Popen(
                [program or argv[0], *argv[1:]],
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merged else subprocess.PIPE,
                env={**environ, **descendants.mark(self._number), **launch.tether(self._tether)},
                cwd=cwd,
                pass_fds=self._tether[:1],
                start_new_session=True,  # a process group of its own, so that the whole group can be killed
            )
            self._job = Job(int(getattr(self.process, "_handle", 0)))
            _running.add(self)
            self._let_go(keep=1)
        except BaseException:  # also Ctrl-C: the pipe to the child would stay open
            self._let_go()
            raise
        finally:
            _starting.discard(self)
        drained = ((self.process.stdout, self._take_stdout), (self.process.stderr, self.stderr.add))
        self._readers = [threading.Thread(target=self._drain, args=one, daemon=True) for one in drained if one[0]]
        for reader in self._readers:
            reader.start()

    def _drain(self, stream: IO[bytes], take: Callable[[bytes], None]) -> None:
        try:
            while (data := os.read(stream.fileno(), 65536)) and not self._deaf:
                take(data)
        except (OSError, ValueError):  # the pipe was closed under us because the child was abandoned
            pass
        if stream is self.process.stdout:
            if self._partial:
                self._lines.put(self._partial)
            self._lines.put(_EOF)

    def _take_stdout(self, data: bytes) -> None:
        self.stdout.add(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[-KEEP:]  # a line without end must not eat the memory
        for line in lines:
            size = len(line) + PER_LINE
            if self._queued - self._taken + size > QUEUED:
                break
            self._queued += size
            self._lines.put(line)

    def read_line(self, timeout: float) -> str | None:
        """Return the next line of standard output, or None at its end.

        Raises TimeoutError: no line came within `timeout` seconds.
        """
        try:
            line = self._lines.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            raise TimeoutError(f"{self.argv[0]} wrote nothing for {timeout:.1f} s") from None
        if line is _EOF:
            self._lines.put(_EOF)
            return None
        assert isinstance(line, bytes)
        self._taken += len(line) + PER_LINE
        return line.decode("utf-8", "replace").rstrip("\r")

    def read_line_or_end(self, deadline: float) -> str | None:
        """Like :meth:`read_line` up to the monotonic time `deadline`; None also when only a grandchild holds the pipe.

        Raises TimeoutError: the child itself still runs at the deadline, or (FloodError) has written too much.
        """
        while True:
            late = time.monotonic() - deadline
            if self.process.poll() is None:
                if late >= 0:  # a child that writes without end never lets read_line run dry
                    raise TimeoutError(f"{self.argv[0]} still runs at its deadline")
                if self.stdout.size + self.stderr.size > FLOOD:
                    raise FloodError(f"{self.argv[0]} wrote more than {FLOOD / 1e6:.0f} MB")
            elif not self._ended:
                descendants.kill(self._family, KILL_GRACE)  # they may write for ever, or keep the pipe open
                self._ended = time.monotonic()
            elif late >= DRAIN_GRACE:
                return None
            elif not self._deaf and time.monotonic() >= self._ended + DRAIN_GRACE:
                # what escaped holds the pipe, and may write for ever: what has come until now is all
                self._deaf = True
                self._lines.put(_EOF)
            with suppress(TimeoutError):
                return self.read_line(min(-late, DRAIN_GRACE))
            if self._ended:  # what escaped holds the pipe
                return None

    def send(self, text: str) -> None:
        """Write `text` to the child's standard input. Raises BrokenPipeError: the child is gone."""
        assert self.process.stdin is not None
        self.process.stdin.write(utf8(text))
        self.process.stdin.flush()

    def wait(self, timeout: float) -> int | None:
        """Wait at most `timeout` seconds for the end and for the streams; None when it still runs."""
        try:
            code = self.process.wait(max(timeout, 0.0))
        except subprocess.TimeoutExpired:
            return None
        deadline = time.monotonic() + DRAIN_GRACE
        for reader in self._readers:
            if reader.ident is not None:  # a signal may come between the child's start and its reader's
                reader.join(max(deadline - time.monotonic(), 0.0))
        return code

    def kill(self) -> None:
        """Kill the child and what descends from it; give up on what the kernel does not let go."""
        descendants.kill(self._family, KILL_GRACE, spared={self.process.pid})
        self._job.kill()
        if sys.platform != "win32":
            # the group may be empty, or hold a setuid program
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.wait(0.0)

    def _family(self) -> set[int]:
        """The child while it runs, and those of its descendants that lost their parent."""
        found = descendants.orphans(self._number)
        return found if self.process.poll() is not None else found | {self.process.pid}

    def completed(self, *, timed_out: bool = False, flooded: bool = False) -> Completed:
        """Describe how the child ended, with what it wrote."""
        return Completed(
            self.argv,
            self.process.poll(),
            self.stdout.text(),
            self.stderr.text(),
            time.monotonic() - self.started,
            timed_out,
            flooded=flooded,
        )

    def _let_go(self, keep: int = 0) -> None:
        """Close the tether's end that is read, which the child has, and the other one unless it is to be kept."""
        while len(self._tether) > keep:
            os.close(self._tether.pop(0))

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # the group is killed even after an orderly end: what the child left behind must not outlive it
        self.kill()
        self._deaf = True  # what escaped may write for ever, and a server lives long
        _running.discard(self)
        self._let_go()
        self._job.close()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not any(reader.is_alive() for reader in self._readers):
                with suppress(BrokenPipeError):
                    stream.close()


@atexit.register
def _kill_running() -> None:
    """Kill what threads still wait for when the program ends early: by an error elsewhere, or by Ctrl-C."""
    for child in tuple(_running):
        child.kill()


def end_all() -> None:
    """Start nothing any more, and kill all that this process has started, whatever it did to escape.

    For a process that is a command from its begin to its end: children that others have started count, too.
    """
    deadline = time.monotonic() + END_GRACE
    _end(lambda: descendants.kill_all(max(deadline - time.monotonic(), 0.0)), deadline)


def end_running() -> None:
    """Start nothing any more, and kill what this process has started here, as far as it is known to descend from it.

    For a process that belongs to somebody else, whose other children stay.
    """
    _end(_kill_running, time.monotonic() + END_GRACE)


def _end(kill: Callable[[], None], deadline: float) -> None:
    _closed.set()
    while True:
        is_starting = bool(_starting)  # what has started by the end of a kill may have escaped it
        kill()
        if not is_starting or time.monotonic() >= deadline:
            return
        time.sleep(descendants.PAUSE)


def begin_again() -> None:
    """Allow processes after :func:`end_all`: a server goes on when one of its requests was cancelled."""
    _closed.clear()


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    on_line: Callable[[str], float | None] | None = None,
    merged: bool = False,
) -> Completed:
    """Run `argv` to its end or for `timeout` seconds, and return what it wrote; never raises for the child's sake.

    `on_line` sees each line of standard output as it comes; when it returns a number, the deadline
    becomes that many seconds from now (a deadline for each phase). With `merged`, standard error is among them.
    """
    started = time.monotonic()
    try:
        child = Child(argv, env=env, cwd=cwd, merged=merged)
    except OSError as error:
        return Completed(tuple(argv), None, "", "", time.monotonic() - started, error=error.strerror or str(error))
    with child:
        deadline, flooded = started + timeout, False
        try:
            while (line := child.read_line_or_end(deadline)) is not None:
                extended = on_line(line) if on_line else None
                if extended is not None:
                    deadline = time.monotonic() + extended
            ended = child.wait(deadline - time.monotonic()) is not None
        except TimeoutError as error:
            ended, flooded = False, isinstance(error, FloodError)
        if not ended:
            child.kill()
        return child.completed(timed_out=not ended, flooded=flooded)


# --------------------------------------------------------------------------------------------------------- exit codes
#
# What a return code says about how a process ended: the signal, or what Windows has instead of one.

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


# ---------------------------------------------------------------------------------------------------------- temporary
#
# A temporary folder for one child: TensorFlow leaves files of AutoGraph there when it is killed or ends at once.


@contextmanager
def temporary_folder(environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The variables for a child, with a folder of its own for temporary files, which is removed in the end.

    On a machine that has no place for one, nothing changes.
    """
    with ExitStack() as stack:
        own: dict[str, str] = {}
        with suppress(OSError):
            folder = tempfile.TemporaryDirectory(prefix="tfgpu-", ignore_cleanup_errors=True)
            own = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), stack.enter_context(folder))  # the last two on Windows
        yield {**environ, **own}
