"""The laws that can be read off the source: where effects may live, what stays pure, what is never caught."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

import tfgpu_doctor
from tests.tables import each

PACKAGE = Path(tfgpu_doctor.__file__).parent
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))

# Law 1: who may touch the machine.
DRAWER = ("probes/*", "bench/worker*.py", "bench/runner/*", "bench/cluster.py")
MACHINE = {"subprocess", "ctypes", "pynvml"}
STARTS_PROCESSES = ("probes/process.py",)
# Law 1: whose words the arguments of a process are, by the function that starts it. Never those that a child, a node, a
# report, or a file of others holds, unless they are a number or an absolute path, or are looked up in a list of what is
# allowed: `--me` as the number of a job cancels all jobs. Whoever adds a line here has looked at every argument.
ARGUMENTS = {
    "bench/runner/process.py::__init__": "--python of the user, a script of ours",
    "install/tools.py::run": "paths of ours; requirements, versions and specs of the matrix",
    "install/tools.py::find_python": "an absolute path of a program, and a script of ours",
    "probes/driver.py::examine": "a constant, or paths of this package and of its own Python",
    "probes/driver.py::_gpus_by_smi": "constants",
    "probes/driver.py::_xid_events": "none",
    "probes/driver.py::_run": "see those who make one",
    "probes/loader.py::read_cache": "a constant",
    "probes/tensorflow.py::__init__": "--python of the user, a script of ours",
    "probes/cuda.py::_program_version": "none",
}
# Law 2: who runs in a child process and may import TensorFlow there.
CHILDREN = ("probes/tensorflow_probe.py", "bench/worker.py", "bench/workloads/*")
TENSORFLOW = {"tensorflow", "keras", "tf_keras"}
# Law 3: what computes from its arguments alone.
PURE = (
    *("facts/facts.py", "facts/report.py", "facts/yaml_nodes.py", "matrix/*", "parsers/*", "manifests/*", "plan/*"),
    *("findings/*", "compare/*", "redact/*", "bench/compar*.py", "bench/samples.py"),
    *("bench/speeds.py", "smoke/records.py", "fleet/records.py", "fleet/nodes.py", "fleet/picture.py"),
)
# of bench/, what those may import: records, statistics, one another
PURE_BENCH = (*(name for name in PURE if name.startswith("bench/")), "bench/results.py", "bench/statistics.py")
IMPURE = MACHINE | {
    *("os", "pathlib", "io", "shutil", "glob", "tempfile", "platform", "sys", "socket", "urllib", "http", "psutil"),
    *("time", "datetime", "random", "secrets", "uuid", "threading", "multiprocessing", "logging", "importlib"),
}
IMPURE_FOR_A_REASON = {
    "bench/samples.py": {"random": "a bootstrap draws from a fixed seed"},
    "matrix/bundled.py": {"pathlib": "names the matrix and its copy, which are data of this package"},
    "findings/engine.py": {"datetime": "a report says when it was made"},
    "parsers/resemblance.py": {"pathlib": "reads its weights, which are data of this package"},
    "parsers/messages.py": {"pathlib": "reads its catalogue, which is data of this package"},
    "findings/pages/__init__.py": {"pathlib": "reads its pages, which are data of this package"},
    "render/html/page.py": {"pathlib": "reads its style, which is data of this package"},
    "redact/patterns.py": {"pathlib": "reads its expressions, which are data of this package"},
    "redact/paths.py": {"pathlib": "reads its words, which are data of this package"},
}
# Law 1: who makes, changes or removes what is in a file system; the environment of `tfgpu install` is made of files.
CHANGES_FILES = ("facts/reading.py", "facts/writing.py", "probes/*", "bench/worker*.py", "bench/runner/*", "install/*")
CHANGES = {
    *("mkdir", "makedirs", "rmdir", "removedirs", "unlink", "rmtree", "symlink_to", "symlink", "hardlink_to"),
    *("link_to", "touch", "chmod", "lchmod", "chown", "truncate", "copyfile", "copy2", "copytree"),
    *("TemporaryDirectory", "mkdtemp"),
}
CHANGES_FOR_A_REASON = {"bench/plans/base.py": "folders that workers write into, which it removes"}
# Law 1: who opens files that a user, a variable or another file may name: regular files, bounded, never waiting.
OPENS_FILES = ("facts/reading.py", "facts/writing.py")
OPENERS = {"open", "fdopen", "read_text", "read_bytes", "read_lines", "TemporaryFile", "NamedTemporaryFile", "mkstemp"}
# file, or file::function → why it opens something itself
OPENS_FOR_A_REASON = {
    "__main__.py": "/dev/null, and the help page of this package",
    "bench/worker.py": "runs alone in the interpreter under test; /proc, and its own standard output",
    "bench/workloads/matpow.py": "writes into the folder of the worker that runs it",
    "findings/pages/__init__.py": "pages of this package",
    "integrations/mcp/server.py": "standard input",
    "parsers/resemblance.py": "weights of this package",
    "render/html/page.py": "the style of its pages",
    "parsers/messages.py": "the catalogue of this package",
    "matrix/loader.py::_bundled": "the copy of the matrix in this package",
    "probes/driver_child.py::mapped": "/proc/self/maps",
    "probes/process.py::_read": "/proc of child processes",
    "probes/driver.py::_files": "not a file: asks the model of the loader",
    "probes/loader.py": "not a file: asks the model of the loader",
    "probes/launch.py": "runs alone in the interpreter under test",
    "probes/tensorflow_probe.py": "runs alone in the interpreter under test, within the deadlines of its phases",
    "redact/patterns.py": "expressions of this package",
    "redact/paths.py": "words of this package",
    "render/streams.py::discard": "/dev/null",
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
    "integrations/notebook.py::run": "a notebook shows a sentence; developers get the traceback",
    "__main__.py::run": "the last line of defence: a user gets a sentence, a developer the traceback",
}


# Law 7: who writes to standard output and standard error.
WRITERS = {
    "facts/writing.py": "the files of --output, also where they are /dev/stdout",
    "__main__.py": "the help page, which is stored in a file of the package",
    "render/streams.py": "the guarded streams themselves",
    "integrations/mcp/server.py": "the protocol, which the SDK writes as lines of JSON",
    "probes/driver_child.py": "runs in a child, whose output the parent reads",
}
# Law 7: who encodes text itself; the rest calls `utf8` and `compact`, which have an answer to half a surrogate pair.
ENCODERS = {
    "facts/printable.py": "utf8 itself",
    "facts/facts.py": "compact itself",
    "probes/manifest_files.py": "a file that --fix changes, in the encoding that it was read in",
    "fleet/nodes.py": "parameters that were decoded from JSON",
    "manifests/editing.py": "text of a file, as text",
    "manifests/workflow.py": "the same",
    "matrix/bundled.py": "the matrix of this package",
    "probes/examine.py": "tries whether facts can be encoded",
    "probes/process.py": "a message and a mark of ours",
}
BYPASSES = {"print", "os.write", "click.echo", "click.secho", "click.prompt", "click.confirm", "click.get_text_stream"}


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"), file)


@cache
def nodes(file: str) -> tuple[ast.AST, ...]:
    """All of them, walked once for all laws."""
    return tuple(ast.walk(tree(file)))


def among(file: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(file, pattern) for pattern in patterns)


def imports(file: str, *, at_import_time: bool = False) -> Iterator[tuple[str, int]]:
    """Yield (top-level package, line) of each import; `at_import_time` leaves out those inside functions."""
    for node in outside_functions(tree(file)) if at_import_time else nodes(file):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], node.lineno


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.expr)):
            yield from outside_functions(child)


def calls(file: str) -> Iterator[ast.Call]:
    return (node for node in nodes(file) if isinstance(node, ast.Call))


def calls_by_function(file: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield (file::function, call)."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield f"{file}::{function}", child
            inner = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
            yield from visit(child, inner)

    return visit(tree(file), "")


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute):
        return ""
    return f"{dotted(node.value) or ast.unparse(node.value)}.{node.attr}"


def test_the_files_are_found() -> None:
    assert {"facts/facts.py", "probes/process.py", "findings/cuda.py"} <= set(FILES)


# A law says which lines of a file break it; what it says is shown.
Law = Callable[[str], Iterator[str]]


def only_the_drawer_touches_the_machine(file: str) -> Iterator[str]:
    if not among(file, DRAWER):
        yield from (f"{file}:{line} imports {name}" for name, line in imports(file) if name in MACHINE)


def one_file_starts_processes(file: str) -> Iterator[str]:
    if file in STARTS_PROCESSES:
        return
    starters = {"subprocess", "pty", "multiprocessing"}
    yield from (f"{file}:{line} imports {name}" for name, line in imports(file) if name in starters)
    for call in calls(file):
        name = dotted(call.func)
        if name.startswith("os.") and (name[3:] in OTHER_STARTERS or name[3:].startswith(STARTER_PREFIXES)):
            yield f"{file}:{call.lineno} calls {name}"


def starting(file: str) -> Iterator[tuple[str, int]]:
    """Yield (file::function, line) of each call that starts a process by the one function that does."""
    names = {"process.run", "process.Child"}
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom) and node.module in (
            "tfgpu_doctor.probes.process",
            "tfgpu_doctor.probes.driver",
        ):
            names |= {one.asname or one.name for one in node.names if one.name in ("run", "Child", "Probe")}
    if file == "probes/driver.py":
        names.add("Probe")
    for place, call in calls_by_function(file):
        name = dotted(call.func)
        if name in names or name.split(".")[-2:] == ["commands", "run"]:
            yield place, call.lineno


def whose_the_arguments_are_is_known(file: str) -> Iterator[str]:
    yield from (f"{file}:{line} ({place})" for place, line in starting(file) if place not in ARGUMENTS)


def one_function_looks_programs_up(file: str) -> Iterator[str]:
    """`systems.find` passes over the current directory, which `shutil.which` searches where PATH says so."""
    yield from (f"{file}:{call.lineno}" for call in calls(file) if dotted(call.func).split(".")[-1] == "which")


def openings(file: str) -> Iterator[tuple[str, int]]:
    """Yield (file::function, line) of each call that opens a file."""
    for place, call in calls_by_function(file):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method in OPENERS or dotted(call.func) == "open":
            yield place, call.lineno


def one_folder_opens_files(file: str) -> Iterator[str]:
    """Read with facts/reading.py and write with facts/writing.py, or add the place and the reason."""
    if among(file, OPENS_FILES) or file in OPENS_FOR_A_REASON:
        return
    for place, line in openings(file):
        if place not in OPENS_FOR_A_REASON:
            yield f"{place}, line {line}"


def changing(file: str) -> Iterator[tuple[str, int]]:
    """Yield (name of the call, line) of each that changes what is in a file system."""
    for call in calls(file):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)
        if name in CHANGES or dotted(call.func) in ("os.remove", "os.rename", "os.replace", "os.link"):
            yield name, call.lineno


def the_drawer_changes_the_file_system(file: str) -> Iterator[str]:
    if not among(file, CHANGES_FILES) and file not in CHANGES_FOR_A_REASON:
        yield from (f"{file}:{line} calls {name}" for name, line in changing(file))


def no_shell(file: str) -> Iterator[str]:
    for call in calls(file):
        if any(word.arg == "shell" for word in call.keywords):
            yield f"{file}:{call.lineno}"


def only_guarded_streams_are_written_to(file: str) -> Iterator[str]:
    """Everything else goes through a console, an output or say()."""
    if file in WRITERS or among(file, CHILDREN):
        return
    for node in nodes(file):
        name = dotted(node.func) if isinstance(node, ast.Call) else dotted(node) if isinstance(node, ast.expr) else ""
        if name in BYPASSES or name.startswith(("sys.__std", "sys.stdout.", "sys.stderr.w", "sys.stderr.b")):
            yield f"{file}:{getattr(node, 'lineno', 0)} uses {name}"


def one_function_encodes_text(file: str) -> Iterator[str]:
    if file in ENCODERS or among(file, CHILDREN):
        return
    for call in calls(file):
        ascii_only = not any(word.arg == "ensure_ascii" for word in call.keywords)
        name = dotted(call.func)
        if name.endswith(".encode") or (name == "json.dumps" and not ascii_only):
            yield f"{file}:{call.lineno} calls {name}"


def tensorflow_is_imported_only_in_children(file: str) -> Iterator[str]:
    if not fnmatch(file, "bench/workloads/*"):
        eager = (line for name, line in imports(file, at_import_time=True) if name in TENSORFLOW)
        yield from (f"{file}:{line} imports it with the module" for line in eager)
    if among(file, CHILDREN):
        return
    yield from (f"{file}:{line} imports {name}" for name, line in imports(file) if name in TENSORFLOW)
    for call in calls(file):
        named = [word.value for word in call.args if isinstance(word, ast.Constant) and word.value in TENSORFLOW]
        if named and dotted(call.func).endswith("import_module"):
            yield f"{file}:{call.lineno} imports {named[0]} by name"


def _file_of(module: str) -> str:
    return module.partition(".")[2].replace(".", "/") + ".py"


def what_is_pure_has_no_effects_and_no_clock(file: str) -> Iterator[str]:
    if not among(file, PURE):
        return
    allowed = IMPURE_FOR_A_REASON.get(file, {})
    yield from (f"{file}:{line} imports {name}" for name, line in imports(file) if name in IMPURE.difference(allowed))
    called = ((dotted(call.func), call.lineno) for call in calls(file))
    yield from (f"{file}:{line} calls {name}" for name, line in called if name in IMPURE_CALLS)
    pure = file != "matrix/loader.py"  # which reads the files of --matrix
    later = (
        "tfgpu_doctor.probes",
        *(("tfgpu_doctor.facts.reading", "tfgpu_doctor.facts.writing") if pure else ()),
        *(() if file.startswith(("smoke/", "fleet/")) else ("tfgpu_doctor.bench",)),  # they judge runs
    )
    for node in nodes(file):
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        within_bench = file.startswith("bench/") and among(_file_of(module), PURE_BENCH)
        if module.startswith(later) and not within_bench:
            yield f"{file}:{node.lineno} imports {module}; the flow goes from probes to rules"


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


def no_bare_except(file: str) -> Iterator[str]:
    for node in nodes(file):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{file}:{node.lineno}"


def what_catches_everything_has_a_reason(file: str) -> Iterator[str]:
    """Catch what you expect, or add the place and the reason to BROAD; what is raised again has a comment there."""
    for place, line in broad_handlers(file):
        if place not in BROAD and place.split("::")[0] not in BROAD:
            yield f"{place}, line {line}"
    lines = (PACKAGE / file).read_text(encoding="utf-8").splitlines()
    for node in nodes(file):
        again = isinstance(node, ast.ExceptHandler) and is_broad(node.type) and raises_again(node)
        if again and "#" not in lines[node.lineno - 1]:
            yield f"{file}:{node.lineno} has no comment that says what must be done before it is raised again"


def what_packaging_raises_is_caught_as_a_value_error(file: str) -> Iterator[str]:
    """Its own errors are ValueErrors, and a number of more than 4300 digits raises ValueError itself."""
    own = ("InvalidVersion", "InvalidSpecifier", "InvalidRequirement", "InvalidMarker", "UndefinedEnvironmentName")
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("packaging."):
            yield from (f"{file}:{node.lineno}: {one.name}" for one in node.names if one.name in own)


# STYLE, Words: what competes with the term for the same thing → that term. Names of formats and messages of programs
# are written as they are there.
COMPETING = {
    r"(?<!current )(?<!source )\bdirector(?:y|ies)\b": "folder",
    r"\b[Dd]ata-centre\b": "data-center",
    r"\b[Cc]ards?\b": "GPU",
    r"\bloader's path\b": "loader path",
    r"\bcommonest\b": "most common",
    r"\b[Rr]eplaced? [^.;]{1,60} by (?!hand)": "replace ... with",
}


def competing(text: str) -> list[str]:
    """What STYLE has another word for."""
    return [f"{found[0]!r}: write {term!r}" for one, term in COMPETING.items() for found in re.finditer(one, text)]


def one_term_for_one_thing(file: str) -> Iterator[str]:
    """In sentences that people read: not in patterns, nor in the templates of what programs print."""
    if file.startswith("parsers/"):
        return
    described = {id(node.value) for node in nodes(file) if isinstance(node, ast.Expr)}
    for node in nodes(file):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in described:
            continue
        if node.value.count(" ") > 1 and "(?" not in node.value and "{ " not in node.value:
            yield from (f"{file}:{node.lineno}: {wrong}" for wrong in competing(node.value))


LAWS: tuple[Law, ...] = (
    one_term_for_one_thing,
    only_the_drawer_touches_the_machine,
    one_file_starts_processes,
    whose_the_arguments_are_is_known,
    one_function_looks_programs_up,
    one_folder_opens_files,
    the_drawer_changes_the_file_system,
    no_shell,
    only_guarded_streams_are_written_to,
    one_function_encodes_text,
    tensorflow_is_imported_only_in_children,
    what_is_pure_has_no_effects_and_no_clock,
    no_bare_except,
    what_catches_everything_has_a_reason,
    what_packaging_raises_is_caught_as_a_value_error,
)


@each("law", LAWS)
def test_every_file_keeps_the_law(law: Law) -> None:
    assert [offence for file in FILES for offence in law(file)] == []


def test_no_reason_outlives_what_it_excuses() -> None:
    assert {place.split("::")[0] for place in BROAD} | set(IMPURE_FOR_A_REASON) | set(WRITERS) <= set(FILES)
    assert set(ENCODERS) <= set(FILES)
    opening = {found for file in FILES for place, _ in openings(file) for found in (place, file)}
    assert OPENS_FOR_A_REASON.keys() - opening == set()
    assert ARGUMENTS.keys() == {place for file in FILES for place, _ in starting(file)}
    assert [file for file in CHANGES_FOR_A_REASON if not list(changing(file))] == []
    handlers = {found for file in FILES for place, _ in broad_handlers(file) for found in (place, file)}
    assert [place for place in BROAD if place not in handlers] == []
    needed = {file: {name for name, _ in imports(file)} for file in IMPURE_FOR_A_REASON}
    assert [file for file, names in IMPURE_FOR_A_REASON.items() if not names.keys() <= needed[file]] == []


# ----------------------------------------------------------------------------------- the tests of these tests

BREAKERS: dict[str, Law] = {
    "fix = 'Install the driver of this card'": one_term_for_one_thing,
    "fix = f'{name} is in no directory of the loader'": one_term_for_one_thing,
    "import subprocess": only_the_drawer_touches_the_machine,
    "def f():\n    from ctypes import CDLL": only_the_drawer_touches_the_machine,
    "import os\nos.system('ls')": one_file_starts_processes,
    "import os\nos.execvp('ls', [])": one_file_starts_processes,
    "from tfgpu_doctor.probes.process import run\ndef f(job):\n    run(['scancel', job])": (
        whose_the_arguments_are_is_known
    ),
    "import shutil\nshutil.which('ls')": one_function_looks_programs_up,
    "open('x')": one_folder_opens_files,
    "import os\ndef f(path):\n    os.open(path, 0)": one_folder_opens_files,
    "def f(path):\n    with path.open('rb') as stream:\n        pass": one_folder_opens_files,
    "def f(path):\n    return path.read_text()": one_folder_opens_files,
    "import os\nos.remove('x')": the_drawer_changes_the_file_system,
    "def f(path):\n    path.mkdir()": the_drawer_changes_the_file_system,
    "from shutil import rmtree\nrmtree('x')": the_drawer_changes_the_file_system,
    "run('ls', shell=True)": no_shell,
    "print('x')": only_guarded_streams_are_written_to,
    "import click\nclick.echo('x', err=True)": only_guarded_streams_are_written_to,
    "import sys\nsys.stdout.buffer.write(b'x')": only_guarded_streams_are_written_to,
    "text = 'x'.encode()": one_function_encodes_text,
    "import tensorflow as tf": tensorflow_is_imported_only_in_children,
    "def f():\n    from keras.layers import Dense": tensorflow_is_imported_only_in_children,
    "import importlib\nimportlib.import_module('tensorflow')": tensorflow_is_imported_only_in_children,
    "from pathlib import Path": what_is_pure_has_no_effects_and_no_clock,
    "input('x')": what_is_pure_has_no_effects_and_no_clock,
    "from tfgpu_doctor.probes import host": what_is_pure_has_no_effects_and_no_clock,
    "try:\n    pass\nexcept:\n    pass": no_bare_except,
    "try:\n    pass\nexcept (OSError, Exception):\n    pass": what_catches_everything_has_a_reason,
    "import contextlib\nwith contextlib.suppress(BaseException):\n    pass": what_catches_everything_has_a_reason,
    "try:\n    pass\nexcept BaseException:\n    raise": what_catches_everything_has_a_reason,
    "def f():\n    from packaging.version import InvalidVersion": what_packaging_raises_is_caught_as_a_value_error,
}


@pytest.mark.parametrize("source", BREAKERS)
def test_each_law_is_broken_by_what_breaks_it(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings" / "breaker.py").write_text(source)
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    tree.cache_clear(), nodes.cache_clear()
    try:
        assert list(BREAKERS[source]("findings/breaker.py"))
    finally:
        tree.cache_clear(), nodes.cache_clear()


def test_every_law_has_a_breaker() -> None:
    assert set(BREAKERS.values()) == set(LAWS)
