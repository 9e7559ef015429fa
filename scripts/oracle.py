"""Compare what two versions of tfgpu print for the same inputs: a tool for refactoring, removed when that is done.

    python scripts/oracle.py snap --package . --inputs DIR --out new.jsonl.gz [--only explain/,plan/]
    python scripts/oracle.py diff start.jsonl.gz new.jsonl.gz [--examples 3]

DIR holds texts, reports, manifests and bench results as files, and `calls.jsonl`: a line for each command to run, with
its id ("explain/case-tf-1324"). It was made from the tests of the revision at which the refactoring began.
`snap` runs these commands with a checkout, an unpacked wheel or a .whl file (`--python EXE`: an interpreter with the
dependencies), and writes exit code, stdout, stderr and each output format. `--every N` takes every Nth command of each
family, which is enough while working. `diff` groups differences by family, format and place in the JSON, with counts
and examples; creation times, timings and the version of the tool are ignored. Its exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IGNORED = {"created", "timings", "tool"}
_TIME = re.compile(r"(?<=timestamp_seconds )\d+|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?")
SHARDS = 24


# --------------------------------------------------------------------------------------------------------------- snap


def snap(options: argparse.Namespace) -> None:
    """Run all commands of the inputs with a package, in processes of their own, and write what they print."""
    with tempfile.TemporaryDirectory() as scratch:
        package = _unpacked(Path(options.package), Path(scratch))
        calls = _selected(options)
        shards = [calls[number::SHARDS] for number in range(SHARDS)]

        def run(number: int) -> Path:
            todo, done = Path(scratch, f"{number}.todo"), Path(scratch, f"{number}.done")
            todo.write_text(json.dumps(shards[number]), encoding="utf-8")
            arguments = ["_shard", str(package), str(Path(options.inputs).resolve()), str(todo), str(done)]
            subprocess.run([options.python, __file__, *arguments], check=True, timeout=3600, cwd=scratch)
            return done

        with ThreadPoolExecutor(options.jobs) as pool:
            parts = list(pool.map(run, range(SHARDS)))
        lines = sorted(line for part in parts for line in part.read_text(encoding="utf-8").splitlines())
    with _opened(options.out, "wt") as out:
        out.writelines(f"{line}\n" for line in lines)
    print(f"{len(lines)} commands: {options.out}")


def _selected(options: argparse.Namespace) -> list[dict[str, Any]]:
    lines = Path(options.inputs, "calls.jsonl").read_text(encoding="utf-8").splitlines()
    families: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for call in map(json.loads, lines):
        if call["id"].startswith(tuple(options.only.split(","))):
            families[call["id"].partition("/")[0]].append(call)
    return [call for family in families.values() for call in family[:: options.every]]


def _unpacked(package: Path, scratch: Path) -> Path:
    """Return the folder to put on sys.path: a checkout, a folder of packages, or an unpacked wheel."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            wheel.extractall(scratch / "wheel")
        return scratch / "wheel"
    return package.resolve()


def _opened(name: str, mode: str) -> Any:
    return gzip.open(name, mode, encoding="utf-8") if name.endswith(".gz") else Path(name).open(mode, encoding="utf-8")


def shard(package: str, inputs: str, todo: str, done: str) -> None:
    """Run commands one after another in this process."""
    sys.path.insert(0, package)
    for name in [name for name in os.environ if name.startswith(("TFGPU", "GITHUB_", "CUDA_", "TF_", "XLA_"))]:
        del os.environ[name]
    os.environ |= {"COLUMNS": "80", "NO_COLOR": "1"}
    import tfgpu_doctor

    assert Path(tfgpu_doctor.__file__).is_relative_to(package), tfgpu_doctor.__file__
    _share_matrix()
    with Path(done).open("w", encoding="utf-8") as out, tempfile.TemporaryDirectory() as scratch:
        for call in json.loads(Path(todo).read_text(encoding="utf-8")):
            for answer in _WALKS[call["walk"]]() if "walk" in call else [_answer(call, inputs, scratch)]:
                out.write(json.dumps(answer, sort_keys=True) + "\n")


def _share_matrix() -> None:
    """Load the bundled matrix once: half of the time of a command is its rows, which the instance keeps."""
    from tfgpu_doctor.matrix.loader import Matrix

    load, bundled = Matrix.load, Matrix.load()
    Matrix.load = lambda *layers: load(*layers) if any(layers) else bundled  # type: ignore[method-assign]


def _answer(call: dict[str, Any], inputs: str, scratch: str) -> dict[str, Any]:
    arguments = [arg if arg[:1] != "@" else f"{inputs}/{arg[1:]}" for arg in call["args"]]
    files = {name: Path(scratch, f"out.{name}") for name in call["formats"]}
    for name, file in files.items():
        file.unlink(missing_ok=True)
        arguments += ["--format", name, "--output", str(file)]
    os.chdir(Path(inputs, call.get("cwd", "")))
    code, out, err = _run(arguments, call.get("input", ""))
    answer = {"id": call["id"], "exit": code, "stdout": out, "stderr": err}
    for name, file in files.items():
        text = file.read_text(encoding="utf-8") if file.exists() else None
        answer[name] = json.loads(text) if name == "json" and text else text
    plain = json.dumps(answer).replace(json.dumps(inputs)[1:-1], "INPUTS").replace(json.dumps(scratch)[1:-1], "SCRATCH")
    found: dict[str, Any] = json.loads(plain)
    return found


def _run(arguments: list[str], given: str) -> tuple[int | str, str, str]:
    """Run the console script in this process."""
    from tfgpu_doctor.__main__ import main

    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace")]
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    sys.argv, sys.stdin = ["tfgpu", *arguments], io.TextIOWrapper(io.BytesIO(given.encode()), "utf-8")
    code: int | str = 0
    try:
        with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
            main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except Exception as error:  # a defect of the version that is examined: noted as its answer
        code = f"{type(error).__name__}: {error}"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in streams)
    return code, out, err


def _help_pages() -> Iterator[dict[str, Any]]:
    """The help page of every command, hidden ones included."""
    import click

    from tfgpu_doctor.cli import cli

    def pages(command: Any, words: list[str]) -> Iterator[dict[str, Any]]:
        code, out, err = _run([*words, "--help"], "")
        yield {"id": f"help/{' '.join(words)}", "exit": code, "stdout": out, "stderr": err}
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield from pages(command.get_command(context, name), [*words, name])

    yield from pages(cli, [])


def _schemas() -> Iterator[dict[str, Any]]:
    import tfgpu_doctor

    for path in Path(tfgpu_doctor.__file__).parent.rglob("*-1.json"):
        yield {"id": f"schema/{path.name}", "json": json.loads(path.read_text(encoding="utf-8"))}


_WALKS = {"help": _help_pages, "schemas": _schemas}


# --------------------------------------------------------------------------------------------------------------- diff


def diff(options: argparse.Namespace) -> int:
    """Print what differs, grouped by kind. Return 1 if anything does."""
    old, new = (_loaded(name) for name in (options.old, options.new))
    kinds: dict[str, list[str]] = defaultdict(list)
    common = old.keys() & new.keys()
    families = {name.partition("/")[0] for name in common}
    for title, names in (("only in old", old.keys() - common), ("only in new", new.keys() - common)):
        for name in sorted(names):
            kinds[f"{name.partition('/')[0]}: {title}"].append(name)
    for name in sorted(common):
        for kind, example in _differences(old[name], new[name]):
            kinds[f"{name.partition('/')[0]}: {kind}"].append(f"{name}: {example}")
    print(f"{len(common)} commands in both, of {len(families)} families; {len(kinds)} kinds of difference")
    for kind, found in sorted(kinds.items(), key=lambda pair: (pair[0].partition(":")[0], -len(pair[1]))):
        print(f"\n{kind}  ({len(found)})")
        for example in found[: options.examples]:
            print("   ", example.replace("\n", "\n    "))
    return int(bool(kinds))


def _loaded(name: str) -> dict[str, dict[str, Any]]:
    with _opened(name, "rt") as lines:
        return {answer["id"]: answer for answer in map(json.loads, lines)}


def _differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if key == "json":
            yield from ((f"json {kind}", example) for kind, example in _in_values(before, after, ""))
        elif isinstance(before, str) and isinstance(after, str):
            if (before := _TIME.sub("TIME", before)) != (after := _TIME.sub("TIME", after)):
                lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
                changed = [line[:200] for line in lines if line[:2] not in ("--", "++", "@@")]
                yield key, "\n" + "\n".join(changed[:8])
        elif before != after:
            yield key, f"{str(before)[:200]} -> {str(after)[:200]}"


def _in_values(old: Any, new: Any, path: str) -> Iterator[tuple[str, str]]:
    """Compare two JSON values: for each difference its place, without positions in lists, and both values."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys() if path else (old.keys() | new.keys()) - IGNORED):
            yield from _in_values(old.get(key), new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            yield from _in_values(before, after, f"{path}[]")
    elif isinstance(old, list) and isinstance(new, list) and path == ".findings":
        before, after = ([str(one.get("id")) for one in findings] for findings in (old, new))
        yield ".findings (ids)", f"{' '.join(before)} -> {' '.join(after)}"
    else:
        yield path, f"{json.dumps(old)[:300]} -> {json.dumps(new)[:300]}"


def main() -> int:
    """Run one of the steps."""
    if sys.argv[1:2] == ["_shard"]:
        shard(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("snap")
    step.add_argument("--package", required=True)
    step.add_argument("--python", default=sys.executable)
    step.add_argument("--inputs", required=True)
    step.add_argument("--out", required=True)
    step.add_argument("--only", default="", metavar="PREFIX,...")
    step.add_argument("--every", type=int, default=1, metavar="N")
    step.add_argument("--jobs", type=int, default=2)
    step = steps.add_parser("diff")
    step.add_argument("old")
    step.add_argument("new")
    step.add_argument("--examples", type=int, default=3)
    options = parser.parse_args()
    if options.step == "diff":
        return diff(options)
    snap(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
