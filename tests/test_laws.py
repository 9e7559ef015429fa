"""DESIGN's laws that can be read off the source: where effects may live, what stays pure, what is never caught."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

import tfgpu_doctor

PACKAGE = Path(tfgpu_doctor.__file__).parent
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))

# Law 1: who may touch the machine.
DRAWER = ("probes/*", "bench/worker*.py", "bench/runner/*", "bench/cluster/peers.py")
MACHINE = {"subprocess", "ctypes", "pynvml"}
STARTS_PROCESSES = ("probes/process.py",)
# Law 2: who runs in a child process and may import TensorFlow there.
CHILDREN = ("probes/tensorflow_probe.py", "bench/worker.py", "bench/workloads/*")
TENSORFLOW = {"tensorflow", "keras", "tf_keras"}
# Law 3: what computes from its arguments alone.
PURE = (
    *(
        "records/fact*.py",
        "records/machine.py",
        "records/software.py",
        "records/report.py",
        "matrix/*",
        "parsers/*",
        "manifests/*",
        "inference/*",
        "plan/*",
    ),
    *("lookup/*", "findings/*", "diagnosis/*", "compare/*", "check/*", "redact/*", "bench/comparing/*"),
    *(
        "bench/saved.py",
        "bench/workload_registry.py",
        "smoke/plan.py",
        "smoke/judging.py",
        "smoke/baseline.py",
        "smoke/records.py",
    ),
)
# of bench/, what those may import: records, statistics, one another
PURE_BENCH = (*(name for name in PURE if name.startswith("bench/")), "bench/results.py", "bench/statistics.py")
IMPURE = MACHINE | {
    *("os", "pathlib", "io", "shutil", "glob", "tempfile", "platform", "sys", "socket", "urllib", "http", "psutil"),
    *("time", "datetime", "random", "secrets", "uuid", "threading", "multiprocessing", "logging", "importlib"),
}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "__import__"}
OTHER_STARTERS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}
STARTER_PREFIXES = ("exec", "spawn")

# Handlers that catch everything: each needs a reason, and the reason stands here. One that cleans up and raises
# again needs none.
BROAD = {
    "probes/tensorflow_probe.py::text_of": "str(error) runs code of the package under test, which may raise anything",
    "probes/tensorflow_probe.py::traceback_of": "so does formatting its traceback",
    "probes/tensorflow_probe.py::examine": "what an import raises, also SystemExit and Ctrl-C, is the finding",
    "probes/tensorflow_probe.py::check": "what a computation raises on one GPU is its result; the next is still asked",
    "bench/worker.py": "what TensorFlow raises in a worker is the answer that its parent reports",
    "probes/examine.py::_work": "a machine odder than any known must still get the rest of its report",
    "__main__.py::run": "the last line of defence: a user gets a sentence, a developer the traceback",
}


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"), file)


def among(file: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(file, pattern) for pattern in patterns)


def imports(file: str, *, at_import_time: bool = False) -> Iterator[tuple[str, int]]:
    """Yield (top-level package, line) of each import; `at_import_time` leaves out those inside functions."""
    for node in walk(tree(file), into_functions=not at_import_time):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], node.lineno


def walk(node: ast.AST, *, into_functions: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if into_functions or not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from walk(child, into_functions=into_functions)


def calls(file: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(file)) if isinstance(node, ast.Call))


def dotted(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def test_the_files_are_found() -> None:
    assert {"records/facts.py", "probes/process.py", "findings/cuda.py"} <= set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_only_the_drawer_touches_the_machine(file: str) -> None:
    if not among(file, DRAWER):
        assert [(name, line) for name, line in imports(file) if name in MACHINE] == []


@pytest.mark.parametrize("file", FILES)
def test_one_file_starts_processes(file: str) -> None:
    if file in STARTS_PROCESSES:
        return
    assert [line for name, line in imports(file) if name in {"subprocess", "pty", "multiprocessing"}] == []
    starters = [
        (name, call.lineno)
        for call in calls(file)
        if (name := dotted(call.func)).startswith("os.")
        and (name[3:] in OTHER_STARTERS or name[3:].startswith(STARTER_PREFIXES))
    ]
    assert starters == []


@pytest.mark.parametrize("file", FILES)
def test_no_shell(file: str) -> None:
    assert [call.lineno for call in calls(file) for word in call.keywords if word.arg == "shell"] == []


@pytest.mark.parametrize("file", FILES)
def test_tensorflow_is_imported_only_in_children(file: str) -> None:
    eager = [(name, line) for name, line in imports(file, at_import_time=True) if name in TENSORFLOW]
    if not fnmatch(file, "bench/workloads/*"):
        assert eager == [], "imported with the module"
    if not among(file, CHILDREN):
        assert [(name, line) for name, line in imports(file) if name in TENSORFLOW] == []
        named = [
            call.lineno
            for call in calls(file)
            if dotted(call.func).endswith("import_module")
            and any(isinstance(word, ast.Constant) and word.value in TENSORFLOW for word in call.args)
        ]
        assert named == [], "imported by name"


def _file_of(module: str) -> str:
    return module.partition(".")[2].replace(".", "/") + ".py"


@pytest.mark.parametrize("file", [file for file in FILES if among(file, PURE)])
def test_what_is_pure_has_no_effects_and_no_clock(file: str) -> None:
    allowed = {"io"} if file == "manifests/dockerfile.py" else set()  # its parser takes bytes in memory as a file
    assert [(name, line) for name, line in imports(file) if name in IMPURE - allowed] == []
    assert [(name, call.lineno) for call in calls(file) if (name := dotted(call.func)) in IMPURE_CALLS] == []
    later = ("tfgpu_doctor.probes", *(() if file.startswith("smoke/") else ("tfgpu_doctor.bench",)))  # it judges runs
    above = [
        node.module
        for node in ast.walk(tree(file))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(later)
        and not (file.startswith("bench/") and among(_file_of(node.module or ""), PURE_BENCH))
    ]
    assert above == [], "the flow goes from probes to rules"


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith(("probes/", "parsers/", "bench/"))])
def test_facts_come_before_rules_and_rendering(file: str) -> None:
    later = tuple(f"tfgpu_doctor.{name}" for name in ("rules", "render", "cli", "diagnosis"))
    modules = [node.module or "" for node in ast.walk(tree(file)) if isinstance(node, ast.ImportFrom)]
    assert [module for module in modules if module.startswith(later)] == []


# ------------------------------------------------------------------------------------------------ what is caught


def is_broad(kind: ast.expr | None) -> bool:
    """Whether an `except` or a `suppress` takes everything."""
    if kind is None:
        return True
    names = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(dotted(name).split(".")[-1] in ("Exception", "BaseException") for name in names)


def raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def broad_handlers(file: str) -> Iterator[tuple[str, int]]:
    """Yield (file::function, line) of each handler that swallows everything."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
            if isinstance(child, ast.ExceptHandler) and is_broad(child.type) and not raises_again(child):
                yield f"{file}::{inner}", child.lineno
            if (
                isinstance(child, ast.Call)
                and dotted(child.func).endswith("suppress")
                and any(map(is_broad, child.args))
            ):
                yield f"{file}::{inner}", child.lineno
            yield from visit(child, inner)

    return visit(tree(file), "")


@pytest.mark.parametrize("file", FILES)
def test_no_bare_except(file: str) -> None:
    bare = [node.lineno for node in ast.walk(tree(file)) if isinstance(node, ast.ExceptHandler) and node.type is None]
    assert bare == []


@pytest.mark.parametrize("file", FILES)
def test_what_catches_everything_has_a_reason(file: str) -> None:
    unexplained = [
        (place, line)
        for place, line in broad_handlers(file)
        if place not in BROAD and place.split("::")[0] not in BROAD
    ]
    assert unexplained == [], "catch what you expect, or add the place and the reason to BROAD"


@pytest.mark.parametrize("place", BROAD)
def test_no_reason_outlives_its_handler(place: str) -> None:
    file = place.split("::")[0]
    assert file in FILES
    assert any(place in (found, file) for found, _ in broad_handlers(file))


# ----------------------------------------------------------------------------------- the tests of these tests

BREAKERS = {
    "import subprocess": test_only_the_drawer_touches_the_machine,
    "def f():\n    from ctypes import CDLL": test_only_the_drawer_touches_the_machine,
    "import os\nos.system('ls')": test_one_file_starts_processes,
    "import os\nos.execvp('ls', [])": test_one_file_starts_processes,
    "run('ls', shell=True)": test_no_shell,
    "import tensorflow as tf": test_tensorflow_is_imported_only_in_children,
    "def f():\n    from keras.layers import Dense": test_tensorflow_is_imported_only_in_children,
    "import importlib\nimportlib.import_module('tensorflow')": test_tensorflow_is_imported_only_in_children,
    "from pathlib import Path": test_what_is_pure_has_no_effects_and_no_clock,
    "open('x')": test_what_is_pure_has_no_effects_and_no_clock,
    "from tfgpu_doctor.probes import host": test_what_is_pure_has_no_effects_and_no_clock,
    "from tfgpu_doctor.findings import cuda": test_facts_come_before_rules_and_rendering,
    "try:\n    pass\nexcept:\n    pass": test_no_bare_except,
    "try:\n    pass\nexcept (OSError, Exception):\n    pass": test_what_catches_everything_has_a_reason,
    "import contextlib\nwith contextlib.suppress(BaseException):\n    pass": test_what_catches_everything_has_a_reason,
}


@pytest.mark.parametrize("source", BREAKERS)
def test_each_law_is_broken_by_what_breaks_it(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings" / "breaker.py").write_text(source)
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    tree.cache_clear()
    try:
        with pytest.raises(AssertionError):
            BREAKERS[source]("findings/breaker.py")
    finally:
        tree.cache_clear()
