"""The one place that starts child processes, and that kills them with all that descends from them.

Every child has a deadline and a session of its own, is never started through a shell, and has both of its streams
drained all the time, of which a bounded part is kept. When it ends, or is killed because it hangs, what descends from
it is killed, too. On Linux this process becomes the parent of descendants whose own parent has ended
(PR_SET_CHILD_SUBREAPER), and a variable that they inherit names the child that an orphan belongs to. An orphan that has
cleared its environment is known only as a process below this one: `end_all` ends it together with the command.
Elsewhere, descendants are found while their parents run; on Linux without a /proc of its own, none is, and only the
session of a child is killed. A process that cannot be killed (it sleeps in the kernel, as behind a dead driver) is left
behind after a second.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import IO

from tfgpu_doctor.facts.printable import utf8
from tfgpu_doctor.probes import launch
from tfgpu_doctor.probes.systems import find

KILL_GRACE = 1.0  # seconds that a killed child has to go away before it is abandoned
END_GRACE = 5.0  # seconds at most to kill all that is left in the end, which may fork faster than it can be killed
DRAIN_GRACE = 0.5  # seconds that the streams of an ended child may stay open (a grandchild holds them)
PAUSE = 0.002  # seconds between two looks at processes that are ending
FLOOD = 256_000_000  # bytes on both streams, after which a child is killed: it would keep a core busy to its deadline
KEEP = 512_000  # bytes kept of each end of a stream; a child may write gigabytes
QUEUED = 4_000_000  # bytes that wait to be read as lines; of a child that writes faster than that, the rest is dropped

VARIABLE = "TFGPU_CHILD"
TOKEN = os.urandom(8).hex()  # of this process, so that nobody's variable is taken for one of ours
PR_SET_CHILD_SUBREAPER = 36
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows: TerminateProcess

_numbers = count(1)
_running: set[Child] = set()  # those whose block has not been left
_starting = threading.Lock()  # held while a child starts
_closed = threading.Event()  # the command ends: nothing is started any more
_abandoned: set[int] = set()  # killed, but the kernel does not let them go


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
    timed_out: bool = False  # killed at its deadline, or when it had written more than FLOOD
    error: str | None = None

    @property
    def signal_name(self) -> str | None:
        """ "SIGSEGV" when a signal ended the child."""
        return signal_name(self.returncode)


@dataclass
class _Kept:
    """The first and the last `KEEP` bytes of a stream."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    size: int = 0  # bytes that came in all

    def add(self, data: bytes) -> None:
        room = KEEP - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * KEEP:
            del self.tail[:-KEEP]
        self.size += len(data)

    def text(self) -> str:
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self.head, self.tail))
        dropped = self.size - len(self.head) - len(self.tail)
        return f"{head}\n[... {dropped} bytes left out ...]\n{tail}" if dropped else head + tail


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
        A program without a folder is looked up on the PATH of `env`, see :func:`tfgpu_doctor.probes.systems.find`.
        """
        self.argv = tuple(argv)
        self.started = time.monotonic()
        self.stdout, self.stderr = _Kept(), _Kept()
        self._unread = bytearray()
        self._changed = threading.Condition()  # of what is unread, and of `_complete`
        self._complete = False  # no more lines come
        self._deaf = False  # nothing that is written from now on is read
        self._ended = 0.0  # monotonic time at which it was seen that it has ended, and what it left behind was killed
        self._readers: list[threading.Thread] = []
        self._number = next(_numbers)
        self._tether = list(os.pipe()) if tether and os.name == "posix" else []
        try:
            with _starting:
                self._start(os.environ if env is None else env, cwd, stdin, merged)
        except BaseException:  # also Ctrl-C: the pipe to the child would stay open
            self._let_go()
            raise
        if self._tether:
            os.close(self._tether.pop(0))  # the child's end
        drained = ((self.process.stdout, self._take), (self.process.stderr, self.stderr.add))
        self._readers = [threading.Thread(target=self._drain, args=one, daemon=True) for one in drained if one[0]]
        for reader in self._readers:
            reader.start()

    def _start(self, environ: Mapping[str, str], cwd: str | None, stdin: bool, merged: bool) -> None:
        if _closed.is_set():
            raise InterruptedError(errno.EINTR, "the command ends")
        program = find(self.argv[0], environ)
        if program is None and not os.path.dirname(self.argv[0]):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        _adopt_orphans()
        self.process = subprocess.Popen(
            [program or self.argv[0], *self.argv[1:]],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            env={**environ, VARIABLE: f"{TOKEN}.{self._number}.", **launch.tether(self._tether)},
            cwd=cwd,
            pass_fds=self._tether[:1],
            start_new_session=True,  # a process group of its own, so that the whole group can be killed
        )
        _running.add(self)

    def _drain(self, stream: IO[bytes], take: Callable[[bytes], None]) -> None:
        try:
            while (data := os.read(stream.fileno(), 65536)) and not self._deaf:
                take(data)
        except (OSError, ValueError):  # the pipe was closed under us because the child was abandoned
            pass
        if stream is self.process.stdout:
            with self._changed:
                self._complete = True
                self._changed.notify_all()

    def _take(self, data: bytes) -> None:
        with self._changed:
            self.stdout.add(data)
            if len(self._unread) < QUEUED and not self._deaf:
                self._unread += data
            self._changed.notify_all()

    def read_line(self, timeout: float) -> str | None:
        """Return the next line of standard output, or None at its end.

        Raises TimeoutError: no line came within `timeout` seconds.
        """

        def has_line() -> bool:  # a line without end must not eat the memory
            return self._complete or b"\n" in self._unread or len(self._unread) >= QUEUED

        with self._changed:
            if not self._changed.wait_for(has_line, max(timeout, 0.0)):
                raise TimeoutError(f"{self.argv[0]} wrote nothing for {timeout:.1f} s")
            if not self._unread:
                return None
            end = self._unread.find(b"\n")
            line = bytes(self._unread[:end] if end >= 0 else self._unread)
            del self._unread[: len(line) + 1]
        return line.decode("utf-8", "replace").rstrip("\r")

    def read_line_or_end(self, deadline: float) -> str | None:
        """Like :meth:`read_line` up to the monotonic time `deadline`; None also when only a grandchild holds the pipe.

        Raises TimeoutError: the child itself still runs at the deadline, or has written more than FLOOD.
        """
        while True:
            now = time.monotonic()
            patience = min(deadline - now, DRAIN_GRACE)
            if self.process.poll() is None:
                if now >= deadline:  # a child that writes without end never lets read_line run dry
                    raise TimeoutError(f"{self.argv[0]} still runs at its deadline")
                if self.stdout.size + self.stderr.size > FLOOD:
                    raise TimeoutError(f"{self.argv[0]} wrote more than {FLOOD / 1e6:.0f} MB")
            elif not self._ended:
                _kill(self._family, KILL_GRACE)  # they may write for ever, or keep the pipe open
                self._ended, patience = time.monotonic(), DRAIN_GRACE
            else:
                patience = self._ended + DRAIN_GRACE - now
                if patience <= 0:  # what escaped holds the pipe: what has come until now is all
                    self._deaf = self._complete = True
            with suppress(TimeoutError):
                return self.read_line(patience)

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
        _kill(self._family, KILL_GRACE, spared={self.process.pid})
        if sys.platform != "win32":
            # the group may be empty, or hold a setuid program
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.wait(0.0)

    def _family(self) -> set[int]:
        """The child while it runs, and those of its descendants that lost their parent."""
        found = _orphans(self._number)
        return found if self.process.poll() is not None else found | {self.process.pid}

    def completed(self, timed_out: bool = False) -> Completed:
        """Describe how the child ended, with what it wrote."""
        seconds = time.monotonic() - self.started
        return Completed(self.argv, self.process.poll(), self.stdout.text(), self.stderr.text(), seconds, timed_out)

    def _let_go(self) -> None:
        while self._tether:
            os.close(self._tether.pop())

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        # the group is killed even after an orderly end: what the child left behind must not outlive it
        self.kill()
        self._deaf = True  # what escaped may write for ever, and a server lives long
        _running.discard(self)
        self._let_go()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not any(reader.is_alive() for reader in self._readers):
                with suppress(BrokenPipeError):
                    stream.close()


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
        deadline = started + timeout
        try:
            while (line := child.read_line_or_end(deadline)) is not None:
                extended = on_line(line) if on_line else None
                deadline = deadline if extended is None else time.monotonic() + extended
            ended = child.wait(deadline - time.monotonic()) is not None
        except TimeoutError:
            ended = False
        if not ended:
            child.kill()
        return child.completed(not ended)


# -------------------------------------------------------------------------------------------------------- descendants


def has_own_proc() -> bool:
    """True if /proc is there, and not that of another PID namespace."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:  # not mounted
        return False


@cache
def _adopt_orphans() -> frozenset[int]:
    """Become the parent of orphaned descendants; the children that this process already had.

    They are the background jobs of a shell that was replaced by this process (`job & exec tfgpu ...`).
    """
    if sys.platform != "linux" or not has_own_proc():
        return frozenset()
    import ctypes  # deferred: 2 ms

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return frozenset(_children(os.getpid()))


def _children(pid: int) -> set[int]:
    """The direct children of a process, those that have ended and are not reaped included."""
    if sys.platform == "linux":
        if not has_own_proc():
            return set()
        with suppress(OSError):  # it has ended, or the kernel keeps no such list: psutil reads all of /proc
            threads = os.listdir(f"/proc/{pid}/task")
            return {int(one) for thread in threads for one in _read(f"/proc/{pid}/task/{thread}/children").split()}
    import psutil  # deferred: 20 ms

    try:
        return {child.pid for child in psutil.Process(pid).children()}
    except psutil.Error:  # it has ended
        return set()


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs 5 ms
        return file.read()


def _orphans(number: int | None = None) -> set[int]:
    """The adopted processes with the mark of a child, or of any child of this process."""
    if sys.platform != "linux":
        return set()
    mark, found = f"{VARIABLE}={TOKEN}." + ("" if number is None else f"{number}."), set[int]()
    for pid in _children(os.getpid()):
        with suppress(OSError):  # it has ended, or belongs to another user
            if mark.encode() in _read(f"/proc/{pid}/environ"):
                found.add(pid)
    return found


def _kill(roots: Callable[[], set[int]], seconds: float, spared: Iterable[int] = ()) -> None:
    """Kill `roots` and all below them, again and again until there are none; for `seconds` at most.

    `spared` are not reaped: somebody else waits for their exit code.
    """
    deadline = time.monotonic() + seconds
    dying: set[int] = set()
    while True:
        found, fresh = set[int](), roots()
        while fresh:
            found |= fresh
            fresh = {child for pid in fresh for child in _children(pid)} - found
        for pid in found:
            with suppress(OSError):  # it has ended, or is a setuid program
                os.kill(pid, _KILL)
        dying = {pid for pid in (dying | found).difference(spared) if not _reaped(pid)}
        if not (found or dying):
            return
        if time.monotonic() >= deadline:
            _abandoned.update(found, dying)
            return
        time.sleep(PAUSE)


def _reaped(pid: int) -> bool:
    """True if a killed process is gone; one whose parent has ended is reaped here."""
    if sys.platform == "win32":
        return True
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # its parent has not ended yet, or has reaped it
        import psutil

        return not psutil.pid_exists(pid)


@atexit.register
def end_running() -> None:
    """Start nothing any more, and kill what this process has started here, as far as it is known to descend from it.

    For a process that belongs to somebody else, whose other children stay. When the program ends early, by an error
    elsewhere or by Ctrl-C, threads still wait for children, or are about to start one; and one whose start was
    interrupted is known by its mark alone.
    """
    _closed.set()
    if _starting.acquire(timeout=END_GRACE):
        _starting.release()
    for child in tuple(_running):
        child.kill()
    _kill(lambda: _orphans() - _abandoned, END_GRACE)


def end_all() -> None:
    """Start nothing any more, and kill all that this process has started, whatever it did to escape.

    For a process that is a command from its begin to its end: children that others have started count, too. Those that
    it had before it started any are spared. What such a child leaves behind cannot be distinguished from our own
    orphans without mark: then only those with a mark are killed.
    """
    end_running()
    if sys.platform == "linux":
        before, me = _adopt_orphans(), os.getpid()
        _kill(lambda: (_orphans() if _children(me) & before else _children(me)) - _abandoned, END_GRACE)


def begin_again() -> None:
    """Allow processes after :func:`end_all`: a server goes on when one of its requests was cancelled."""
    _closed.clear()


# ----------------------------------------------------------------------------------------------------------- activity


class Watch:
    """Looks at a process now and then, and knows since when it and its descendants have done nothing. Linux only."""

    def __init__(self, pid: int, limit: float) -> None:
        """`limit` is the number of seconds without any activity that make a hang."""
        self.pid, self.limit, self.pause = pid, limit, limit / 20
        self.since, self.seen = time.monotonic(), self._look()

    def _look(self) -> tuple[float, int] | None:
        """Seconds of CPU time and bytes read until now; None where the kernel does not count them."""
        if sys.platform != "linux" or not has_own_proc():
            return None
        import psutil  # deferred: 20 ms

        seconds, read = 0.0, 0
        try:
            process = psutil.Process(self.pid)
            for one in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    times, disk = one.cpu_times(), one.io_counters()
                    seconds += times.user + times.system
                    read += disk.read_chars + disk.read_bytes
        except (psutil.Error, AttributeError, OSError):
            return None
        return (seconds, read) if seconds and read else None  # a Python has used both of these to start

    def hangs(self) -> bool:
        """Look, and say if it has done nothing for as long as the limit; False where that cannot be known."""
        now = self._look()
        if now != self.seen:
            self.since, self.seen = time.monotonic(), now
        return now is not None and time.monotonic() - self.since >= self.limit


# --------------------------------------------------------------------------------------------------------- exit codes

# fatal signals by their numbers on Linux and macOS, where Windows numbers some otherwise
NAMES = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}
OF_SHELL = {128 + number: name for number, name in NAMES.items()}  # how a shell wrapper passes a signal on
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


def name_of(number: int) -> str:
    """Return "SIGSEGV" for 11."""
    try:
        return NAMES.get(number) or signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_name(returncode: int | None) -> str | None:
    """Name the signal behind a return code; None for an ordinary exit.

    >>> signal_name(-11), signal_name(0xC000001D), signal_name(1)
    ('SIGSEGV', 'SIGILL', None)
    """
    if returncode is None:
        return None
    number = -returncode if returncode < 0 else WINDOWS.get(returncode, (None, ""))[0]
    return None if number is None else name_of(number)


@contextmanager
def temporary_folder(environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The variables for a child, with a folder of its own for temporary files, which is removed in the end.

    TensorFlow leaves files of AutoGraph there when it is killed or ends at once. On a machine that has no place for
    one, nothing changes.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="tfgpu-", ignore_cleanup_errors=True)
    except OSError:
        yield {**environ}
        return
    with folder as name:
        yield {**environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), name)}  # the last two on Windows
