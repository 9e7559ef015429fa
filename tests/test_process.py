"""The one function that starts children: every child ends in time, whatever it does, and nothing is left behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from tests.guard import alive, eventually, guarded
from tfgpu_doctor.probes import process

posix = pytest.mark.skipif(os.name != "posix", reason="signals and process groups are POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="orphans are followed on Linux only")
GENEROUS = 30.0  # seconds; a hang would take for ever


class Script:
    """A Python child whose whole family carries a mark, so that survivors can be found."""

    def __init__(self) -> None:
        self.mark = f"mark-{uuid.uuid4().hex}"

    def argv(self, code: str) -> list[str]:
        return [*python(code), self.mark]

    def alive(self) -> list[int]:
        return list(alive(self.mark))

    def gone(self) -> bool:
        return eventually(lambda: not self.alive())


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


@pytest.fixture
def script() -> Iterator[Script]:
    one = Script()
    yield one
    for pid in one.alive():  # a failed test must not leave anything either
        os.kill(pid, signal.SIGKILL)


def test_what_it_wrote_and_how_it_ended(tmp_path: Path) -> None:
    code = (
        "import os, sys; print(sys.argv[1:], repr(sys.stdin.read()), os.environ['COLOUR'], os.getcwd(), flush=True)\n"
        "sys.stdout.buffer.write(b'\\xff ok\\r\\n'); print('err', file=sys.stderr); sys.exit(3)"
    )
    environ = {"COLOUR": "red", "PATH": os.environ["PATH"]}
    done = process.run(python(code, "$HOME; echo no"), timeout=GENEROUS, env=environ, cwd=str(tmp_path))
    expected = f"['$HOME; echo no'] '' red {os.path.realpath(tmp_path)}\n\ufffd ok\r\n"  # no shell, an empty input
    assert (done.returncode, done.stdout, done.stderr) == (3, expected, "err\n")
    assert (done.timed_out, done.error, done.signal_name) == (False, None, None)


@posix
def test_the_signal_that_ended_it_has_a_name() -> None:
    names = ["SIGSEGV", "SIGABRT", "SIGILL", "SIGKILL"]
    codes = (f"import os, signal; os.kill(os.getpid(), signal.{name})" for name in names)
    assert [process.run(python(code), timeout=GENEROUS).signal_name for code in codes] == names


def test_lines_come_one_by_one_and_may_change_the_deadline(script: Script) -> None:
    code = "import time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(0.4)\ntime.sleep(300)"
    lines: list[str] = []

    def on_line(line: str) -> float:
        lines.append(line)
        return 0.2 if line == "3" else GENEROUS

    done = process.run(script.argv(code), timeout=1.0, on_line=on_line)
    assert (lines, done.timed_out, done.stdout) == (["0", "1", "2", "3"], True, "0\n1\n2\n3\n")
    assert script.gone()


@posix
def test_a_program_that_cannot_start_is_an_answer(tmp_path: Path) -> None:
    for name, mode in (("plain", 0o644), ("odd", 0o755)):
        (tmp_path / name).write_bytes(b"\x01\x02 not a program")
        (tmp_path / name).chmod(mode)
    for program, error in {
        "missing": "No such file or directory",
        ".": "Permission denied",
        "plain": "Permission denied",
        "odd": "Exec format error",
    }.items():
        done = process.run([str(tmp_path / program)], timeout=GENEROUS)
        assert (done.returncode, done.error, done.timed_out) == (None, error, False), program
    done = process.run(python(""), timeout=GENEROUS, cwd=str(tmp_path / "gone"))
    assert done.returncode is None and done.error


HANGS = {
    "sleeps": "import time; time.sleep(300)",
    "ignores SIGTERM": "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(300)",
    "spins": "while True: pass",
    "closed its streams": "import os, time\nos.close(1); os.close(2)\ntime.sleep(300)",
    "writes for ever": "import os\nwhile True: os.write(1, b'y\\n' * 30_000)",
    "writes long lines": "import os\nwhile True: os.write(1, b'y' * 60_000 + b'\\n')",
    "writes to both in turn": "import os\nwhile True: os.write(1, b'y\\n' * 9); os.write(2, b'y\\n' * 9)",
    "writes without a line end": "import sys\nwhile True: sys.stdout.write('y' * 9999)",
    "complains for ever": "import sys\nwhile True: print('y', file=sys.stderr)",
}


@posix
def test_a_child_that_does_not_end_is_killed(script: Script) -> None:
    with guarded(8 * GENEROUS, waiting=True), ThreadPoolExecutor(len(HANGS)) as pool:
        runs = pool.map(lambda code: process.run(script.argv(code), timeout=0.5), HANGS.values())
        found = {
            habit: (done.timed_out, done.returncode, done.signal_name) for habit, done in zip(HANGS, runs, strict=True)
        }
    assert found == dict.fromkeys(HANGS, (True, -signal.SIGKILL, "SIGKILL"))
    assert script.gone()


FAMILY = """
import subprocess, sys, time
same = [sys.executable, "-c", "import time; time.sleep(300)", sys.argv[1]]
for own in (False, False, True):
    subprocess.Popen(same, start_new_session=own)
deep = "import subprocess, sys, time; subprocess.Popen(sys.argv[2:] + [sys.argv[1]]); time.sleep(300)"
subprocess.Popen([sys.executable, "-c", deep, sys.argv[1], *same[:-1]])
print("ready", flush=True)
time.sleep(300)
"""


@posix
@pytest.mark.parametrize("known_by", ["the kernel's lists", "psutil", "its process group"])
def test_the_whole_family_is_killed(known_by: str, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one in a session of its own; without /proc, the process group is what is left."""
    read = process._read

    def refuse(path: str) -> bytes:
        if path.endswith("/children"):
            raise FileNotFoundError
        return read(path)

    if known_by != "the kernel's lists":
        monkeypatch.setattr(process, "_read", refuse)
    has_proc = known_by != "its process group"
    process._adopt_orphans()  # asks once, and remembers: with the real /proc, for the tests after this one
    monkeypatch.setattr(process, "has_own_proc", lambda: has_proc)

    def on_line(line: str) -> float:
        assert eventually(lambda: len(script.alive()) == 6)  # the child, four children of its own, one grandchild
        return 0.1

    code = FAMILY if has_proc else FAMILY.replace("True", "False")
    assert process.run(script.argv(code), timeout=GENEROUS, on_line=on_line).timed_out
    assert script.gone()


@linux
@pytest.mark.parametrize("link", ["1", FileNotFoundError()], ids=["another PID namespace", "no /proc"])
def test_a_proc_that_names_other_processes_is_not_believed(
    link: str | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.readlink", Mock(side_effect=[link]))
    assert not process.has_own_proc()


@posix
@pytest.mark.parametrize("holds_pipe", [True, False])
def test_what_an_orderly_child_leaves_behind_is_neither_waited_for_nor_kept(holds_pipe: bool, script: Script) -> None:
    code = f"""
import subprocess, sys
streams = {{}} if {holds_pipe} else dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", sys.argv[1]], **streams)
print("done")
"""
    with guarded(220, waiting=True):
        done = process.run(script.argv(code), timeout=100)
    assert (done.returncode, done.stdout, done.timed_out) == (0, "done\n", False)
    assert script.gone()


# the first parent ends when the pipe is closed by execve: before, the environment still names the child
ESCAPED = """
import os, sys
begun, held = os.pipe()
if os.fork():
    os.close(held)
    os.read(begun, 1)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
write = "import os\\nwhile True: [os.write(stream, b'y' * 999 + b'\\\\n') for stream in (1, 2)]"
os.execve(sys.executable, [sys.executable, "-c", write, sys.argv[1]], {})
"""


@linux
def test_what_escaped_and_writes_for_ever_does_not_keep_us(script: Script) -> None:
    """Its environment is cleared, so that it is not known as the child's until the command ends.

    A deadline that is renewed for ever, by what the child has left, ends with the child.
    """
    lines: list[str] = []

    def on_line(line: str) -> float:
        lines.append(line)
        return 300.0

    with guarded(4 * GENEROUS, waiting=True):
        done = process.run(script.argv(ESCAPED), timeout=300, on_line=on_line)
    assert (done.returncode, done.timed_out, {line[:1] for line in lines}) == (0, False, {"y"})
    process.end_all()
    process.begin_again()
    assert script.gone()


LEAVE = """
import os, sys
for link in range(3):
    if os.fork():
        os._exit(0)
    os.setsid()
print(os.getpid(), flush=True)
os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(300)", sys.argv[1]])
"""


@linux
def test_the_end_of_one_child_spares_what_another_one_started(script: Script) -> None:
    """A worker's helper that lost its parent belongs to the worker."""
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {LEAVE!r}, sys.argv[1]]); sys.stdin.read()"
    with process.Child(script.argv(code), stdin=True) as worker:
        helper = int(worker.read_line(GENEROUS) or 0)
        process.run(script.argv("pass"), timeout=GENEROUS)
        with process.Child(script.argv("import time; time.sleep(300)")):
            pass
        assert helper in script.alive()
        assert psutil.Process(helper).ppid() == os.getpid()
    assert not psutil.pid_exists(helper)  # reaped, too


@linux
def test_jobs_of_the_shell_that_became_the_command_are_spared(script: Script) -> None:
    """`job & exec tfgpu`: the job is our child, and was so before anything of ours."""
    leave = script.argv(LEAVE)
    program = f"""
import os
from tfgpu_doctor.probes import process
process.run({leave!r}, timeout=9)
process.end_all()
print(process.run(["true"], timeout=9).error)
"""
    job = script.argv("import time; time.sleep(300)")
    shell = f"{shlex.join(job)} >&2 & exec {shlex.join([sys.executable, '-c', program])}"
    done = subprocess.run(["sh", "-c", shell], stdout=subprocess.PIPE, text=True, timeout=GENEROUS, check=False)
    assert done.stdout == "the command ends\n"
    assert [psutil.Process(pid).cmdline() for pid in script.alive()] == [job]


def test_what_nobody_reads_does_not_fill_the_memory(script: Script) -> None:
    code = "for size in (60_000, 1): print(('y' * size + '\\n') * (30_000_000 // size))"
    with process.Child(script.argv(code)) as child:
        assert child.wait(GENEROUS) == 0
        lines = list(iter(lambda: child.read_line(GENEROUS), None))
    assert 0 < sum(len(line) + 1 for line in lines) <= process.QUEUED + process.KEEP


def test_megabytes_on_one_stream_do_not_block_the_other(script: Script) -> None:
    for first, second in (("stderr", "stdout"), ("stdout", "stderr")):
        code = (
            f"import sys\nsys.{first}.write('first ' + ('x' * 999 + '\\n') * 5_000 + ' last'); sys.{first}.flush()\n"
            f"sys.{second}.write('end\\n')"
        )
        done = process.run(script.argv(code), timeout=GENEROUS)
        assert (done.returncode, done.timed_out) == (0, False)
        long, short = getattr(done, first), getattr(done, second)
        assert short == "end\n"
        assert "bytes left out" in long and long.startswith("first x") and long.endswith("x\n last")
        assert len(long) < 3 * process.KEEP


def test_a_line_without_an_end_is_still_a_line(script: Script) -> None:
    lines: list[str] = []
    code = "import sys; print('one'); sys.stdout.write('x' * 3_000_000 + 'tail')"
    process.run(script.argv(code), timeout=GENEROUS, on_line=lambda line: lines.append(line))
    assert (len(lines), lines[0], lines[1][-5:]) == (2, "one", "xtail")
    assert len(lines[1]) <= process.QUEUED


@posix
def test_an_error_in_the_callback_leaves_nothing_behind(script: Script) -> None:
    def on_line(line: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C in the program of somebody who calls us

    with pytest.raises(KeyboardInterrupt):
        process.run(script.argv("import time; print('x', flush=True); time.sleep(300)"), timeout=300, on_line=on_line)
    assert script.gone()


def test_a_conversation(script: Script) -> None:
    code = "import sys\nfor line in sys.stdin: print('got ' + line.strip(), flush=True); 'two' in line and sys.exit()"
    with process.Child(script.argv(code), stdin=True) as child:
        child.send("one\n")
        assert child.read_line(GENEROUS) == "got one"
        with pytest.raises(TimeoutError):
            child.read_line(0.05)
        child.send("two\n")
        assert [child.read_line(GENEROUS) for _ in range(3)] == ["got two", None, None]
        assert child.wait(GENEROUS) == 0
    assert script.gone()


@posix
def test_open_files_do_not_pile_up(script: Script) -> None:
    process.run(script.argv(""), timeout=GENEROUS)
    before = psutil.Process().num_fds()
    for _ in range(5):
        process.run(script.argv("print('x')"), timeout=GENEROUS)
        process.run(script.argv("import time; time.sleep(300)"), timeout=0.1)
    assert eventually(lambda: psutil.Process().num_fds() <= before + 1)


@posix
def test_a_program_that_ends_early_leaves_nothing_that_its_threads_wait_for(script: Script) -> None:
    sleeper = script.argv("import time; print('up', flush=True); time.sleep(300)")
    program = f"""
import threading
from tfgpu_doctor.probes import process
up = threading.Event()
wait = lambda: process.run({sleeper!r}, timeout=300, on_line=lambda line: up.set())
threading.Thread(target=wait, daemon=True).start()
assert up.wait({GENEROUS})
raise SystemExit(2)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=GENEROUS, check=False
    )
    assert (done.returncode, done.stderr) == (2, "")
    assert script.gone()


def test_a_flood_is_no_reason_to_wait(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "FLOOD", 200_000)
    for stream in ("stdout", "stderr"):
        done = process.run(script.argv(f"import sys\nwhile True: sys.{stream}.write('x' * 9999)"), timeout=300)
        assert done.timed_out and done.seconds < 60, stream
    assert script.gone()
