"""Compare what two versions of tfgpu print for the same inputs: a tool for refactoring, removed when that is done.

    python scripts/oracle.py inputs --out DIR                      # once, from the tests of the start revision
    python scripts/oracle.py snap --package . --inputs DIR --out new.jsonl.gz [--only explain/,plan/]
    python scripts/oracle.py diff start.jsonl.gz new.jsonl.gz [--examples 3]

`inputs` writes texts, reports, manifests and bench results as files, and `calls.jsonl`: a line for each command to run,
with its id ("explain/case-tf-1324"). It needs the start revision's tests, so run it in a checkout of that revision.
`snap` runs these commands with a checkout, an unpacked wheel or a .whl file (`--python EXE`: an interpreter with the
dependencies), and writes exit code, stdout, stderr and each output format. `--every N` takes every Nth command of each
family, which is enough while working. `diff` groups differences by family, format and place in the JSON, with counts
and examples; creation times, timings and the version of the tool are ignored. Its exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gzip
import hashlib
import io
import itertools
import json
import os
import pkgutil
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REPORT_FORMATS = ["text", "json", "markdown", "junit", "github", "html", "prometheus"]
CHECK_FORMATS = ["text", "json", "markdown", "junit", "github", "sarif", "html"]
PAGE_FORMATS = ["text", "json", "markdown", "html"]
IGNORED = {"created", "timings", "tool"}
_TIME = re.compile(r"(?<=timestamp_seconds )\d+|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?")
SHARDS = 24


# ------------------------------------------------------------------------------------------------------------- inputs


class Inputs:
    """The folder of inputs, and the commands that read them."""

    def __init__(self, folder: Path) -> None:
        """Start an empty folder."""
        self.folder = folder
        self.calls: list[dict[str, Any]] = []
        folder.mkdir(parents=True)

    def add(self, name: str, *args: str, formats: Iterable[str] = (), **more: Any) -> None:
        """Add a command; an argument that begins with @ is a file of the folder."""
        self.calls.append({"id": name, "args": args, "formats": list(formats), **more})

    def write(self, name: str, data: str | bytes) -> str:
        """Write a file, and return the argument that names it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
        return f"@{name}"


def make_inputs(folder: Path) -> None:
    """Write all inputs and the list of commands."""
    sys.path.insert(0, str(ROOT))
    shutil.rmtree(folder, ignore_errors=True)
    inputs = Inputs(folder)
    recorded = _recorded_checks()
    for number, case in enumerate(recorded):
        _add_check(inputs, f"check/{number:04}", case)
    for name, text in _texts():
        inputs.add(f"explain/{name}", "explain", inputs.write(f"texts/{name}.txt", text), formats=["json"])
    reports = dict(_reports())
    for name, data in reports.items():
        inputs.add(
            f"doctor/{name}", "doctor", "--from", inputs.write(f"reports/{name}.json", data), formats=REPORT_FORMATS
        )
        inputs.add(f"plan-from/{name}", "plan", "--from", f"@reports/{name}.json", formats=["json", "text"])
    names = list(reports)
    for first, second in zip(names[::3], names[1::3], strict=False):
        inputs.add(
            f"compare/{first}", "compare", f"@reports/{first}.json", f"@reports/{second}.json", formats=["text", "json"]
        )
    for number in range(0, len(names), 40):
        some = [f"@reports/{name}.json" for name in names[number : number + 40]]
        inputs.add(f"fleet/{number}", "fleet", *some, formats=REPORT_FORMATS)
    _add_bench(inputs)
    _add_plans(inputs)
    _add_matrix(inputs)
    _add_pages(inputs)
    lines = "".join(f"{json.dumps(call)}\n" for call in inputs.calls)
    inputs.write("calls.jsonl", lines)
    counts: dict[str, int] = defaultdict(int)
    for call in inputs.calls:
        counts[call["id"].partition("/")[0]] += 1
    print(", ".join(f"{name} {count}" for name, count in counts.items()))


def _texts() -> Iterator[tuple[str, str | bytes]]:
    """Every text of the tests: cases, captures, and the strings of the tests that read texts."""
    import yaml

    tests, seen = ROOT / "tests", set()

    def new(name: str, text: str | bytes) -> Iterator[tuple[str, str | bytes]]:
        if text not in seen:
            seen.add(text)
            yield name, text

    for path in sorted((tests / "cases").glob("*.yaml")):
        case = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        yield from new(f"case-{path.stem}", case["text"])
    for path in sorted((tests / "cases").glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield from new(f"case-{path.stem}-{number:04}", json.loads(line)["text"])
    for path in sorted((tests / "captures").rglob("*")):
        if path.is_file() and path.suffix != ".json":
            yield from new("capture-" + "-".join(path.relative_to(tests / "captures").parts), path.read_bytes())
    for folder in ("findings", "diagnosis", "parsers", "inference"):
        for path in sorted((tests / folder).glob("*.py")):
            for text in dict.fromkeys(_strings_of(path)):
                digest = hashlib.sha1(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
                yield from new(f"{folder}-{path.stem}-{digest}", text)


def _strings_of(path: Path) -> Iterator[str]:
    """The strings of 40 characters and more that stand in a test module, or that it makes when imported."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) >= 40:
            yield node.value
    module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for name, value in vars(module).items():
        if not name.startswith("__"):
            yield from (text for text in _strings_in(value) if len(text) >= 40)


def _strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _strings_in(pair)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _strings_in(member)


def _reports() -> Iterator[tuple[str, bytes]]:
    """The machines of the tests as reports: rows over facts, saved captures, machines of other tests."""
    from tests.findings import rows_over_facts
    from tests.findings.test_repairs import SAME
    from tests.healthy import MATRIX, healthy, spoil
    from tfgpu_doctor.plan.diagnosis import make_report
    from tfgpu_doctor.records.facts import encode

    def report(changes: dict[str, Any]) -> bytes:
        return encode(make_report(spoil(healthy(), changes), MATRIX, source="live", timings={}))

    yield "healthy", report({})
    for title, table in (("fires", rows_over_facts.FIRES), ("passes", rows_over_facts.PASSES)):
        for finding, rows in table.items():
            for number, (_, changes) in enumerate(rows):
                yield f"{title}-{finding}-{number}", report(changes)
    for finding, changes in rows_over_facts.UNKNOWN.items():
        yield f"unknown-{finding}", report(changes)
    for finding, (changes, _) in SAME.items():
        yield f"same-{finding}", report(changes)
    for path in sorted((ROOT / "tests" / "captures").rglob("*.json")):
        if path.parent.name in ("doctor", "compare"):
            yield f"capture-{path.stem}", path.read_bytes()


def _recorded_checks() -> list[dict[str, Any]]:
    """The manifests that the tests read and check, recorded while these tests run."""
    import pytest

    import tests.cli.runner as runner
    from tfgpu_doctor.manifests import reading

    read, tfgpu, found = reading.read, runner.tfgpu, {}

    def reads(label: str, text: str, kind: str | None = None, *more: Any, **options: Any) -> Any:
        file, named = Path(label).name or "file", ("--kind", kind) if kind else ()
        if len(text) < 100_000:
            found[text, kind] = {"args": ["check", *named, file], "files": {file: text}}
        return read(label, text, kind, *more, **options)

    def runs(*args: str, **options: Any) -> Any:
        if args[:1] == ("check",) and (case := _checked(args, options)):
            found[json.dumps(case)] = case
        return tfgpu(*args, **options)

    reading.read, runner.tfgpu = reads, runs
    try:
        pytest.main(
            [
                *("-p", "no:cacheprovider", "-n0", "-q", "--no-header", "-x"),
                *(str(ROOT / "tests" / name) for name in ("manifests", "plan/test_check.py")),
                *(str(ROOT / "tests" / "cli" / name) for name in ("test_check_cli.py", "test_check_fix.py")),
            ]
        )
    finally:
        reading.read, runner.tfgpu = read, tfgpu
    kinds: dict[object, int] = defaultdict(int)
    for text, _ in (key for key in found if isinstance(key, tuple)):
        kinds[text] += 1
    return [case for key, case in found.items() if not isinstance(key, tuple) or kinds[key[0]] <= 3]


def _checked(args: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any] | None:
    """A `check` as a test runs it, with all files of its folder."""
    cwd = options.get("cwd")
    paths = [Path(arg) for arg in args[1:] if Path(arg).is_absolute() and Path(arg).exists()]
    folder = cwd or (paths[0] if paths and paths[0].is_dir() else paths[0].parent if paths else None)
    if "--fix" in args or "--output" in args:
        return None
    files = {}
    for path in sorted(Path(folder).rglob("*")) if folder else ():
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 100_000:
            files[str(path.relative_to(folder))] = path.read_bytes().decode("utf-8", "replace")
    short = [arg.replace(str(folder), ".").replace("./", "", 1) if folder else arg for arg in args]
    without = [arg for arg, before in zip(short, ["", *short], strict=False) if "--format" not in (arg, before)]
    return {"args": without, "files": files, "input": options.get("input", "")}


def _add_check(inputs: Inputs, name: str, case: dict[str, Any]) -> None:
    for file, text in case["files"].items():
        inputs.write(f"manifests/{name}/{file}", text)
    (inputs.folder / "manifests" / name).mkdir(parents=True, exist_ok=True)
    more = {"cwd": f"manifests/{name}", "input": case.get("input") or ""}
    inputs.add(name, *case["args"], formats=CHECK_FORMATS if int(name[-1]) == 0 else ["json", "text"], **more)


def _add_bench(inputs: Inputs) -> None:
    """Add the saved results of captures and tests."""
    from tests.bench import large_samples
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.records.facts import encode

    results = {f"large-{name}": encode(make()) for name, make in large_samples.LARGE.items()}
    for module in pkgutil.iter_modules([str(ROOT / "tests" / "bench")]):
        if module.name.startswith("test_"):
            for title, value in vars(import_module(f"tests.bench.{module.name}")).items():
                members = value.items() if isinstance(value, dict) else [("", value)]
                for key, member in members:
                    if isinstance(member, BenchResult):
                        results[f"{module.name}-{title}-{key}".replace("/", "_").replace(" ", "_")] = encode(member)
    for path in sorted((ROOT / "tests" / "captures").glob("*/bench/*.json")):
        results[f"capture-{path.stem}"] = path.read_bytes()
    for name, data in results.items():
        inputs.add(
            f"bench/{name}", "bench", "show", inputs.write(f"bench/{name}.json", data), formats=REPORT_FORMATS[:4]
        )
        inputs.add(f"bench-html/{name}", "bench", "show", f"@bench/{name}.json", formats=REPORT_FORMATS[4:])
    names = list(results)
    for first, second in itertools.pairwise(names):
        inputs.add(
            f"compare-bench/{first}",
            *("compare", f"@bench/{first}.json", f"@bench/{second}.json", "--across", "all"),
            formats=["text", "json"],
        )


def _add_plans(inputs: Inputs) -> None:
    from tfgpu_doctor.matrix.loader import Matrix

    gpus = [name for row in Matrix.load().data.gpus for name in row.names]
    popular = ["RTX 4090", "RTX 5090", "Tesla K80", "A100", "H100", "H200", "T4", "GTX 1080 Ti", "Tesla M60", "V100"]
    chosen = [*popular, *gpus[:: len(gpus) // 30]]
    number = 0
    for gpu, python, driver, system in itertools.product(
        chosen, (None, "3.7", "3.9", "3.12", "3.13"), (None, "418", "470", "535", "580"), ("linux", "windows", "wsl2")
    ):
        number += 1
        if number % 2 and gpu not in popular:
            continue
        options = [
            part for name, value in (("python", python), ("driver", driver)) if value for part in (f"--{name}", value)
        ]
        inputs.add(
            f"plan/{number:04}",
            *("plan", "--gpu", gpu, "--os", system, *options),
            formats=PAGE_FORMATS if number % 40 == 0 else ["json"],
        )


def _add_matrix(inputs: Inputs) -> None:
    from tfgpu_doctor.matrix.loader import Matrix

    data = Matrix.load().data
    questions = [
        ["tensorflow", "--platform", "all"],
        *([table] for table in ("cuda", "cudnn", "gpu", "driver", "python")),
    ]
    questions += [["container"], ["jetpack"], ["about"]]
    questions += [["tensorflow", version] for version in dict.fromkeys(row.version for row in data.tensorflow)]
    questions += [["gpu", name] for name in [name for row in data.gpus for name in row.names][::5]]
    questions += [["cuda", row.version] for row in data.cuda] + [["cudnn", row.version] for row in data.cudnn]
    questions += [["container", f"{row.image}:{row.tag}"] for row in data.containers]
    for filters in (["--cuda", "11.8"], ["--gpu", "T4"], ["--driver", "470"], ["--python", "3.12", "--newest"]):
        questions.append(["tensorflow", *filters])
    for question in questions:
        formats = PAGE_FORMATS if len(question) == 1 else ["json", "text"]
        inputs.add("matrix/" + "-".join(question).replace("/", "_"), "matrix", *question, formats=formats)


def _add_pages(inputs: Inputs) -> None:
    from tfgpu_doctor.findings import pages

    for finding in pages.all_ids():
        inputs.add(f"page/{finding}", "explain", finding, formats=["text", "json"])
    inputs.add("page/list-checks", "doctor", "--list-checks")
    inputs.add("help/all", walk="help")
    inputs.add("schema/all", walk="schemas")


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
    """Run one of the three steps."""
    if sys.argv[1:2] == ["_shard"]:
        shard(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("inputs")
    step.add_argument("--out", required=True)
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
    if options.step == "inputs":
        make_inputs(Path(options.out).resolve())
    elif options.step == "snap":
        snap(options)
    else:
        return diff(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
