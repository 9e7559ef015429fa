"""What reading and judging a fleet costs: time and memory of a child process, and how they grow with the fleet.

    python benchmarks/fleet_speed.py [--nodes 10000 30000 100000] [--rounds 3]

The reports are those of tests/fleet/making.py (several types of nodes with 1 to 8 GPUs, 12 planted oddities), 43 kB on
average as one line: JSON lines in one file, as engines collect them. The smallest fleet is also read in
other forms: with a result of `tfgpu bench` of each node beside its report, as a folder with an indented file for each
node, and as pdsh prints indented reports, line by line in turns. All are measured in turns in each round, each in a
process of its own (wait4): wall time, processor time, and the highest resident memory, from the start of Python to the
fleet's JSON. Writes benchmarks/results/fleet_speed.json.

Goals: 10,000 reports in at most 60 s of a processor (it is one thread; the machine may be busy) and 500 MB; time and
memory grow in proportion: each megabyte that 100,000 reports have beyond 10,000 costs at most 1.25 times what each one
costs that 10,000 have beyond a single report.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from side_by_side import machine

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "fleet_speed.json"
CHILD = """
import sys
import msgspec
from tfgpu_doctor.fleet.picture import judge_fleet
from tfgpu_doctor.fleet.reading import read_fleet
from tfgpu_doctor.matrix.loader import Matrix
found = judge_fleet(read_fleet(sys.argv[1:]), Matrix.load(), "2026-11-23T12:00:00Z")
sys.stdout.buffer.write(msgspec.json.encode({
    "nodes": len(found.nodes), "groups": len(found.groups), "unreadable": len(found.unreadable),
    "bytes": len(msgspec.json.encode(found)),
}))
"""
PART = 1_000  # nodes that are made at a time
SECONDS, MEGABYTES, GROWTH = 60.0, 500.0, 1.25


def parts(nodes: int, *, benches: bool = False) -> Iterator[list[bytes]]:
    """The results of so many nodes, as lines, some at a time; the oddities are in the first part."""
    from tests.fleet import making

    for number in range(0, nodes, PART):
        odd = 0 if number or nodes < PART else 12
        made = making.fleet(number // PART, min(PART, nodes - number), odd, benches=benches, first=number)
        yield made.lines


def write_lines(path: Path, nodes: int, *, benches: bool = False) -> None:
    """JSON lines."""
    with path.open("wb") as file:
        for lines in parts(nodes, benches=benches):
            file.write(b"\n".join(lines) + b"\n")


def indented(line: bytes) -> str:
    """As `tfgpu doctor --format json` prints it."""
    return json.dumps(json.loads(line), indent=2, ensure_ascii=False)


def write_folder(path: Path, nodes: int) -> None:
    """A file for each node."""
    path.mkdir()
    for number, line in enumerate(line for lines in parts(nodes) for line in lines):
        (path / f"{number}.json").write_text(indented(line), encoding="utf-8")


def write_pdsh(path: Path, nodes: int) -> None:
    """All at once, with the name of its node before each line; a hundred nodes print in turns."""
    with path.open("w", encoding="utf-8") as file:
        for lines in parts(nodes):
            for begin in range(0, len(lines), 100):
                texts = [indented(line).splitlines() for line in lines[begin : begin + 100]]
                names = [f"n{begin + n}" for n in range(len(texts))]
                for row in zip_longest(*texts):
                    file.writelines(
                        f"{name}: {line}\n" for name, line in zip(names, row, strict=True) if line is not None
                    )


def forms(sizes: list[int]) -> dict[str, tuple[str, Callable[[Path], None]]]:
    """What is read: its file, and how that is made."""
    smallest = min(sizes)
    lines = {
        f"{nodes} reports" if nodes > 1 else "1 report": (f"{nodes}.jsonl", partial(write_lines, nodes=nodes))
        for nodes in (1, *sizes)
    }
    return {
        **lines,
        f"{smallest} with benches": ("benches.jsonl", partial(write_lines, nodes=smallest, benches=True)),
        f"{smallest} indented files": ("folder", partial(write_folder, nodes=smallest)),
        f"{smallest} reports by pdsh": ("pdsh.log", partial(write_pdsh, nodes=smallest)),
    }


def measured(path: Path) -> dict[str, Any]:
    """One run in a process of its own."""
    reader, writer = os.pipe()
    started = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=writer, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        said = answer.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"the child ended with {child.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "wall_s": time.perf_counter() - started,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss * unit / 1e6,
        **json.loads(said),
    }


def main() -> int:
    """Measure; the exit code is 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, metavar="DIR", help="only write the reports")
    options = parser.parse_args()
    if options.write:
        sys.path.insert(0, str(ROOT))
        for file, write in forms(options.nodes).values():
            write(options.write / file)
        return 0
    smallest = min(options.nodes)
    with tempfile.TemporaryDirectory() as folder:
        print("writing reports", file=sys.stderr)
        # by another process: what this one takes would count for its children, whose memory begins as a copy of its own
        subprocess.run([sys.executable, __file__, "--write", folder, "--nodes", *map(str, options.nodes)], check=True)
        paths = {name: Path(folder) / file for name, (file, _) in forms(options.nodes).items()}
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in paths}
        for number in range(options.rounds):
            for name, path in paths.items():
                runs[name].append(measured(path))
                print(f"round {number + 1}: {name}: {runs[name][-1]}", file=sys.stderr)
        sizes = {name: _size(path) for name, path in paths.items()}
    rows = {name: _row(found, sizes[name]) for name, found in runs.items()}
    one, base, largest = rows["1 report"], rows[f"{smallest} reports"], rows[f"{max(options.nodes)} reports"]
    growth = {}
    for what in ("cpu_s", "peak_mb"):
        first, last = base[what] - one[what], largest[what] - base[what]
        read = [row["bytes_read"] for row in (one, base, largest)]
        growth[what] = last / (read[2] - read[1]) / (first / (read[1] - read[0])) if first > 0 else 1.0
    goals = {
        f"{smallest} reports in at most {SECONDS:g} s of a processor": base["cpu_s"] <= SECONDS,
        f"{smallest} reports in at most {MEGABYTES:g} MB": base["peak_mb"] <= MEGABYTES,
        f"beyond {smallest} reports a megabyte takes at most {GROWTH:g} times as long": growth["cpu_s"] <= GROWTH,
        f"beyond {smallest} reports it takes at most {GROWTH:g} times as much memory": growth["peak_mb"] <= GROWTH,
    }
    for name, row in rows.items():
        print(
            f"{name:28} {row['wall_s']:7.2f} s  {row['cpu_s']:7.2f} s  {row['peak_mb']:6.0f} MB  {row['groups']} groups"
        )
    print(f"growth: {growth}")
    for goal, met in goals.items():
        print(f"{'met   ' if met else 'MISSED'} {goal}")
    found = {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "cpu": machine(),
        "cpus": os.cpu_count(),
    }
    RESULTS.write_text(json.dumps({**found, "rows": rows, "growth": growth, "goals": goals}, indent=2) + "\n")
    return 0 if all(goals.values()) else 1


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in path.iterdir()) if path.is_dir() else path.stat().st_size


def _row(runs: list[dict[str, Any]], size: int) -> dict[str, Any]:
    """The medians, and all samples."""
    middle = {what: statistics.median(run[what] for run in runs) for what in ("wall_s", "cpu_s", "peak_mb")}
    same = {what: runs[0][what] for what in ("nodes", "groups", "unreadable", "bytes")}
    samples = {f"samples_{what}": [round(run[what], 3) for run in runs] for what in middle}
    return {**{what: round(value, 3) for what, value in middle.items()}, **same, "bytes_read": size, **samples}


if __name__ == "__main__":
    sys.exit(main())
