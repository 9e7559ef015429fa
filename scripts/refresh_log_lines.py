# /// script
# requires-python = ">=3.10"
# dependencies = ["msgspec>=0.19", "packaging>=23", "pytest>=8", "pyyaml>=6.0", "uv>=0.5"]
# ///
"""Derives the table `log_lines` of compat_matrix.yaml: from which line of its source file a release prints a message.

    python scripts/refresh_log_lines.py [WHEEL ...] [--logs DIR] [--check] [--matrix FILE]

Without WHEEL ("tensorflow==2.10.1"), those of WHEELS that the table does not have: what a wheel prints stays. Each is
installed with uv into an environment of its own, which is removed afterwards, for a Python that uv finds on PATH. There
print_log_lines.py runs without a driver, with one that has no GPU, and with the fault lab's GPU (tests/lab), with and
without CUDA libraries: a gigabyte or two and some minutes a wheel. --logs keeps what they print, a folder a wheel, and
what lies there already is not run again. Exit code 1 with --check: the file differs.

Collected reports that state their release to the patch (tests/cases) add their lines: of a patch that prints a known
message from another line than the one that was run, and of a release whose minor release was not run. Only messages
that two minor releases print from different lines are entered: the others tell nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import structs
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "tests" / "cases" / "reports.jsonl"
sys.path[:0] = [str(ROOT)]

from sections import Section, finish, parser  # noqa: E402

from tests.lab import HERE as LAB  # noqa: E402
from tests.lab import Lab  # noqa: E402
from tfgpu_doctor.facts.facts import Known  # noqa: E402
from tfgpu_doctor.matrix.loader import Matrix, parse  # noqa: E402
from tfgpu_doctor.matrix.schema import LogMessage  # noqa: E402
from tfgpu_doctor.parsers import text_to_facts  # noqa: E402
from tfgpu_doctor.parsers.lines import read as lines_of  # noqa: E402
from tfgpu_doctor.parsers.remaining_releases import by_series, printed  # noqa: E402

PROGRAM = ROOT / "scripts" / "print_log_lines.py"
BEGIN = (
    "# ---- the lines of TensorFlow's log, derived by scripts/refresh_log_lines.py: edits below this line are lost ----"
)
END = "# ---- end of the lines of TensorFlow's log ----"
LONGEST = 600  # seconds of one run
_PLACE = re.compile(r"^[a-z_]+\.cc$")
_WORD = re.compile(r"[A-Za-z]{3}")
_OWN_NAMES = ("hostname:", "Executing op")  # messages of one word that are kept
Place = tuple[str, int, str]  # file, line and message
Printed = Mapping[tuple[str, str], Mapping[int, set[str]]]  # file and message → line → versions


class Wheel(NamedTuple):
    """What is installed: the wheel, its Python, and what it needs to be held to today."""

    requirement: str
    python: str
    beside: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """Its release."""
        return self.requirement.partition("==")[2]

    @property
    def log(self) -> str:
        """The folder of its logs."""
        return self.requirement.replace("==", "-")


_OLD = ("protobuf<3.21", "numpy<2")
WHEELS = (
    Wheel("tensorflow-gpu==1.14.0", "3.7", _OLD),
    Wheel("tensorflow-gpu==1.15.5", "3.7", _OLD),
    Wheel("tensorflow-gpu==2.0.4", "3.7", _OLD),
    Wheel("tensorflow==2.1.4", "3.7", _OLD),
    Wheel("tensorflow==2.2.3", "3.8", _OLD),
    Wheel("tensorflow==2.3.4", "3.8", _OLD),
    Wheel("tensorflow==2.4.4", "3.8", _OLD),
    Wheel("tensorflow==2.5.3", "3.9", _OLD),
    Wheel("tensorflow==2.6.5", "3.9", _OLD),
    Wheel("tensorflow==2.7.4", "3.9", _OLD),
    Wheel("tensorflow==2.8.4", "3.10", _OLD),
    Wheel("tensorflow==2.9.3", "3.10", _OLD),
    Wheel("tensorflow==2.10.1", "3.10", ("numpy<2",)),
    Wheel("tensorflow==2.11.1", "3.10", ("numpy<2",)),
    Wheel("tensorflow==2.12.1", "3.10", ("numpy<2",)),
    Wheel("tensorflow==2.13.1", "3.11", ("numpy<2",)),
    Wheel("tensorflow==2.14.1", "3.11", ("numpy<2",)),
    Wheel("tensorflow==2.15.1", "3.11", ("numpy<2",)),
    Wheel("tensorflow==2.16.2", "3.11"),
    Wheel("tensorflow==2.17.1", "3.12"),
    Wheel("tensorflow==2.18.1", "3.12"),
    Wheel("tensorflow==2.19.1", "3.12"),
    Wheel("tensorflow==2.20.0", "3.12"),
    Wheel("tensorflow==2.21.0", "3.12"),
)
# what releases open by name, as the matrix's table `libraries` has it
_OPENED = {
    "libcudart.so": ("10.0", "10.1", "11.0", "12"), "libcublas.so": ("10.0", "10", "11", "12"),
    "libcublasLt.so": ("10", "11", "12"), "libcufft.so": ("10.0", "10", "11"), "libcurand.so": ("10.0", "10"),
    "libcusolver.so": ("10.0", "10", "11"), "libcusparse.so": ("10.0", "10", "11", "12"),
    "libcudnn.so": ("7", "8", "9"),
}  # fmt: skip


class Printer:
    """Runs wheels and keeps what they print."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lab").mkdir(parents=True, exist_ok=True)
        self.lab = Lab(folder / "lab")

    def cuda(self) -> Path:
        """The lab's CUDA libraries under the names of all releases."""
        folder, made = self.lab.folder / "all", self.lab.cuda()
        folder.mkdir(exist_ok=True)
        for stem, numbers in _OPENED.items():
            source = LAB / f"{stem.removesuffix('.so')}.c"
            for number in numbers:
                if not (folder / f"{stem}.{number}").exists():
                    self.lab.compile(folder / f"{stem}.{number}", source if source.exists() else LAB / "empty.c")
        for part in made.glob("libcudnn_*"):
            (folder / part.name).unlink(missing_ok=True)
            (folder / part.name).symlink_to(part)
        return folder

    def numa(self) -> Path:
        """A library under which PCI devices belong to no NUMA node, which TensorFlow mentions."""
        made = self.lab.folder / "numa_node.so"
        return made if made.exists() else self.lab.compile(made, LAB / "numa_node.c")

    def scenes(self) -> Mapping[str, tuple[dict[str, str], tuple[str, ...]]]:
        """Name of a run → its variables, and what is asked of the program."""
        bare = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        gpu = self.lab.environ(cc="7.5", memory_mib=1200, free_mib=1000)
        gpu["LD_LIBRARY_PATH"] += f":{self.cuda()}"
        return {
            "plain": (bare, ("fit", "xla")),
            "nodevice": (self.lab.environ(cuinit=100), ()),
            "driver": (self.lab.environ(), ()),
            "gpu": (gpu, ("full", "fit", "xla")),
            "cudnn": ({**gpu, "TFGPU_LAB_CUDNN": "7301", "LD_PRELOAD": str(self.numa())}, ("full", "convolution")),
        }

    def run(self, wheel: Wheel) -> None:
        """Install a wheel and let it print in every scene."""
        folder = self.folder / wheel.log
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as root:
            python = f"{root}/bin/python"
            subprocess.run(["uv", "venv", "-q", "--allow-existing", "--python", wheel.python, root], check=True)
            requirements = [wheel.requirement, *wheel.beside]
            subprocess.run(["uv", "pip", "install", "-q", "--python", python, *requirements], check=True)
            for name, (environ, asked) in self.scenes().items():
                with (folder / f"{name}.txt").open("w", encoding="utf-8") as log:
                    command = [python, str(PROGRAM), *asked]  # it may end anyhow, and the lab's GPU does end some
                    subprocess.run(
                        command, env=environ, stdout=log, stderr=subprocess.STDOUT, timeout=LONGEST, check=False
                    )
        (folder / "done").touch()


def print_and_read(folder: Path, wheels: Iterable[Wheel]) -> Printed:
    """The messages of wheels, by their versions; those without a log in the folder are run."""
    found: dict[tuple[str, str], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    waiting = [wheel for wheel in wheels if not (folder / wheel.log / "done").exists()]
    if waiting:
        printer = Printer(folder)
        for wheel in waiting:
            print(wheel.requirement, file=sys.stderr, flush=True)
            printer.run(wheel)
    for wheel in wheels:
        for log in sorted((folder / wheel.log).glob("*.txt")):
            for file, line, key in printed(log.read_text(encoding="utf-8", errors="replace").splitlines()):
                if _names_itself(file, key):
                    found[file, key][line].add(wheel.version)
    return found


def reported(path: Path) -> Iterator[tuple[str, str, set[Place]]]:
    """The name, the release and the places of each collected report that states its release."""
    matrix = Matrix.load()
    releases = {row.version for row in matrix.data.tensorflow}
    for line in path.read_text(encoding="utf-8").splitlines():
        report = json.loads(line)
        if not report["source"].startswith("https://"):  # written for the collection
            continue
        release = text_to_facts.read(lines_of([report["text"].encode()]), matrix).tensorflow.version
        if isinstance(release, Known) and release.grade == "stated" and release.value in releases:
            yield report["id"], release.value, set(printed(report["text"].splitlines()))


def with_reports(rows: Iterable[LogMessage], reports: Iterable[tuple[str, str, set[Place]]]) -> list[LogMessage]:
    """Other lines of patches, beside those that were run, and lines of releases whose minor release was not run.

    A report is another build's where its release was run and printed one of its messages from another line.
    """
    known = {(row.file, row.message): row for row in rows}
    run = {series for row in known.values() for series in by_series(row)}
    for name, release, places in reports:
        series = (Version(release).major, Version(release).minor)
        found = {place: known[place[0], place[2]] for place in places if (place[0], place[2]) in known}
        if any(release in _releases(row) and release not in _at(row, line) for (_, line, _), row in found.items()):
            continue
        for file, line, key in sorted(found):
            row = known[file, key]
            if release not in _at(row, line) and (series in by_series(row) or series not in run):
                print(f"{name}: {release} {file}:{line} {key}", file=sys.stderr)
                known[file, key] = _with(row, line, {*_at(row, line), release})
    return list(known.values())


def _at(row: LogMessage, line: int) -> set[str]:
    return set(row.lines.get(str(line), "").split())


def _releases(row: LogMessage) -> set[str]:
    return {release for releases in row.lines.values() for release in releases.split()}


def _with(row: LogMessage, line: int, releases: set[str]) -> LogMessage:
    lines = {**row.lines, str(line): " ".join(sorted(releases, key=Version))}
    return structs.replace(row, lines=dict(sorted(lines.items(), key=lambda item: int(item[0]))))


def _names_itself(file: str, key: str) -> bool:
    """Whether a key stands for one message: its words are not values alone."""
    words = [word for word in key.split() if _WORD.search(word)]
    return bool(_PLACE.match(file)) and "/job:" not in key and (len(words) > 1 or key in _OWN_NAMES)


def merged(before: Iterable[LogMessage], now: Printed, read_again: set[str]) -> list[LogMessage]:
    """The rows, with what the table had of wheels that were not read again."""
    found: dict[tuple[str, str], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in before:
        for line, releases in row.lines.items():
            found[row.file, row.message][int(line)] |= set(releases.split()) - read_again
    for place, lines in now.items():
        for number, versions in lines.items():
            found[place][number] |= versions
    rows = []
    for (file, key), lines in sorted(found.items()):
        ordered = {
            str(number): " ".join(sorted(versions, key=Version))
            for number, versions in sorted(lines.items())
            if versions
        }
        if _tells(ordered.values()):
            rows.append(LogMessage(file=file, message=key, lines=ordered, source="wheel-logs"))
    return rows


def _tells(releases: Iterable[str]) -> bool:
    """Whether two minor releases print from different lines."""
    return len({frozenset(Version(one).release[:2] for one in line.split()) for line in releases}) > 1


def render(rows: Iterable[LogMessage]) -> str:
    """The section, a row a line."""
    rows = list(rows)
    lines = [BEGIN, "log_lines:" if rows else "log_lines: []"]
    for row in rows:
        where = ", ".join(f'"{line}": {json.dumps(releases)}' for line, releases in row.lines.items())
        lines.append(
            f"- {{file: {row.file}, message: {json.dumps(row.message)}, source: {row.source}, lines: {{{where}}}}}"
        )
    return "\n".join([*lines, END])


def main() -> int:
    """Read or run the wheels, write or check the file."""
    more = parser(__doc__)
    more.add_argument("wheels", nargs="*", metavar="WHEEL")
    more.add_argument("--logs", type=Path, metavar="DIR")
    options = more.parse_args()
    section = Section(options.matrix, BEGIN, END)
    before = parse(section.text, str(options.matrix)).log_lines
    known = {release for row in before for release in _releases(row)}
    asked = [
        wheel
        for wheel in WHEELS
        if (wheel.requirement in options.wheels if options.wheels else wheel.version not in known)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        now = print_and_read((options.logs or Path(temporary)).resolve(), asked)
    rows = merged(before, now, {wheel.version for wheel in asked})
    fresh = section.whole(render(with_reports(rows, reported(REPORTS))))
    return finish(options.matrix, fresh, is_check=options.check)


if __name__ == "__main__":
    raise SystemExit(main())
