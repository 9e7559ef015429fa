"""The laws that can be read off the source: the house of CONTRIBUTING.md, where effects may live, what is never caught.

A law yields what breaks it. What may break it, and why, stands in `laws.yaml`, with sources that break each law.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tfgpu_doctor
from tests.tables import each, read_rows
from tests.test_dependencies import IMPORTED_AS, OF_THE_USER, rows
from tfgpu_doctor.findings import catalogue

PACKAGE = Path(tfgpu_doctor.__file__).parent
TESTS = Path(__file__).parent
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
# law → place (a file, a pattern of files, or file::function) → why it may break the law
EXCUSED: dict[str, dict[str, str]] = read_rows(TESTS / "laws.yaml")["excused"]
BREAKERS: dict[str, list[dict[str, str]]] = read_rows(TESTS / "laws.yaml")["breakers"]

# From the ground up, in the order of CONTRIBUTING.md: each may import what stands before it.
ORDER = (
    *("facts", "matrix", "parsers", "manifests", "findings", "plan", "install", "probes", "bench", "smoke", "fleet"),
    *("compare", "redact", "render", "commands.py", "cli", "integrations"),
)
LOOSE = {"__init__.py", "__init__.pyi", "__main__.py", "commands.py", "py.typed"}
DEEPEST = 3
MOST_BRANCHES = 15
# What computes from its arguments alone.
PURE = (
    *("facts/facts.py", "facts/report.py", "facts/yaml_nodes.py", "matrix/*", "parsers/*", "manifests/*", "plan/*"),
    *("findings/*", "compare/*", "redact/*", "bench/compar*.py", "bench/samples.py"),
    *("bench/speeds.py", "smoke/records.py", "fleet/records.py", "fleet/nodes.py", "fleet/picture.py"),
)
# of bench/, what those may import: records, statistics, one another
PURE_BENCH = (*(name for name in PURE if name.startswith("bench/")), "bench/results.py", "bench/statistics.py")
MACHINE = {"subprocess", "ctypes", "pynvml"}
IMPURE = MACHINE | {
    *("os", "pathlib", "io", "shutil", "glob", "tempfile", "platform", "sys", "socket", "urllib", "http", "psutil"),
    *("time", "datetime", "random", "secrets", "uuid", "threading", "multiprocessing", "logging", "importlib"),
}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "__import__"}
TENSORFLOW = {"tensorflow", "keras", "tf_keras"}
CHANGES = {
    *("mkdir", "makedirs", "rmdir", "removedirs", "unlink", "rmtree", "symlink_to", "symlink", "hardlink_to"),
    *("link_to", "touch", "chmod", "lchmod", "chown", "truncate", "copyfile", "copy2", "copytree"),
    *("TemporaryDirectory", "mkdtemp"),
}
OPENERS = {"open", "fdopen", "read_text", "read_bytes", "read_lines", "TemporaryFile", "NamedTemporaryFile", "mkstemp"}
STARTERS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}
BYPASSES = {"print", "os.write", "click.echo", "click.secho", "click.prompt", "click.confirm", "click.get_text_stream"}
# STYLE, Words: what competes with the term for the same thing → that term. Names of formats and messages of programs
# are written as they are there.
COMPETING = {
    r"(?<!current )(?<!source )\bdirector(?:y|ies)\b": "folder",
    r"\b[Dd]ata-centre\b": "data-center",
    r"\b[Cc]ards?\b": "GPU",
    r"\bloader's path\b": "loader path",
    r"\bcommonest\b": "most common",
    r"\b[Rr]eplaced? [^.;]{1,60} by (?!hand)": "replace ... with",
    r"\bFOLDER\b": "DIR",
    r"(?<!-m )(?<!uv )\bpip3? install (?!without)": "INTERPRETER -m pip install",
}


class Source:
    """A file: its nodes, each with the function that it stands in."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.nodes: dict[type[ast.AST], list[tuple[Any, str]]] = defaultdict(list)
        self._walk(ast.parse(text), "")

    def _walk(self, node: ast.AST, function: str) -> None:
        for child in ast.iter_child_nodes(node):
            self.nodes[type(child)].append((child, function))
            self._walk(child, child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function)

    def of(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        return (node for kind in kinds for node, _ in self.nodes[kind])


class House:
    """The files of a package."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = sorted(root.rglob("*.py"))
        self.files = {one.relative_to(root).as_posix(): Source(one.read_text(encoding="utf-8")) for one in files}
        self.imports = {file: dict(self._imported(source)) for file, source in self.files.items()}

    def _imported(self, source: Source) -> Iterator[tuple[str, int]]:
        """Yield (file, line) of each import of a file of this package, also where a name in it is imported."""
        names = [(one.name, node.lineno) for node in source.of(ast.Import) for one in node.names]
        for node in source.of(ast.ImportFrom):
            names += [(f"{node.module}.{one.name}", node.lineno) for one in node.names if node.module]
        for name, line in names:
            first, *parts = name.split(".")
            known = ("/".join(some) + end for some in (parts, parts[:-1]) for end in (".py", "/__init__.py"))
            if first == "tfgpu_doctor" and (found := next((one for one in known if one in self.files), None)):
                yield found, line

    def of(self, *kinds: type[ast.AST]) -> Iterator[tuple[str, Any]]:
        """Yield (file::function, node) of each of these kinds."""
        for file, source in self.files.items():
            yield from ((f"{file}::{function}", node) for kind in kinds for node, function in source.nodes[kind])


@cache
def ours() -> House:
    return House(PACKAGE)


def imports(file: str) -> Iterator[tuple[str, int]]:
    """Yield (top-level package, line) of each import of a file of the package."""
    source = Source((PACKAGE / file).read_text(encoding="utf-8"))
    return ((name, node.lineno) for node in source.of(*IMPORTS) for name in packages(node))


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute):
        return ""
    return f"{dotted(node.value) or ast.unparse(node.value)}.{node.attr}"


def room(file: str) -> str:
    return file.partition("/")[0]


def file_of(place: str) -> str:
    return place.partition("::")[0]


# Yields a place that may be excused, or "", and what is shown.
Law = Callable[[House], Iterator[tuple[str, str]]]
LAWS: list[Law] = []


def law(function: Law) -> Law:
    LAWS.append(function)
    return function


def forbids(*kinds: type[ast.AST]) -> Callable[[Callable[[Any, str], object]], Law]:
    """A law about single nodes of these kinds: the function returns what is wrong with one, or nothing."""

    def decorate(wrong: Callable[[Any, str], object]) -> Law:
        def found(house: House) -> Iterator[tuple[str, str]]:
            for place, node in house.of(*kinds):
                if what := wrong(node, place):
                    yield place, f"{place}, line {node.lineno}: {what}"

        found.__name__ = wrong.__name__
        return law(found)

    return decorate


def packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The top-level packages that are imported."""
    names = [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return set() if getattr(node, "level", 0) else {name.split(".")[0] for name in names}


IMPORTS = (ast.Import, ast.ImportFrom)


# ------------------------------------------------------------------------------------------------------- the house


@law
def imports_go_up_the_list(house: House) -> Iterator[tuple[str, str]]:
    for file, targets in house.imports.items():
        for target, line in targets.items():
            one, other = room(file), room(target)
            if one not in ORDER or other in LOOSE:  # the version stands at the top
                continue
            for_checks_only = (one, other) == ("findings", "manifests")
            if other not in ORDER or ORDER.index(other) > ORDER.index(one) or for_checks_only:
                yield f"{one} → {other}", f"{file}:{line} imports {target}"


@law
def no_import_circle(house: House) -> Iterator[tuple[str, str]]:
    """Also through imports inside functions."""
    for file in house.files:
        way = _way_back(house, file)
        if way and file == min(way):  # each circle once
            yield "", " → ".join([*way, file])


def _way_back(house: House, file: str) -> list[str]:
    """The shortest chain of imports from a file to itself."""
    ways, seen = [[file]], {file}
    while ways:
        way = ways.pop(0)
        for target in house.imports[way[-1]]:
            if target == file and len(way) > 1:
                return way
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return []


@law
def nothing_lies_loose(house: House) -> Iterator[tuple[str, str]]:
    for path in sorted(house.root.iterdir()):
        is_source = path.is_file() or any(path.rglob("*.py"))
        if path.name not in ORDER and is_source and not (path.is_file() and path.name in LOOSE):
            yield "", f"{path.name} is not in the list of folders"


@law
def findings_stand_alone(house: House) -> Iterator[tuple[str, str]]:
    """What files with findings share stands in a file that declares none."""
    declaring = {f"findings/{module.__name__.rpartition('.')[2]}.py" for module in catalogue.FILES}
    for file in declaring & house.files.keys():
        yield from (
            ("", f"{file} imports {other}") for other in sorted(declaring & house.imports[file].keys() - {file})
        )


BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.comprehension, ast.Assert, ast.match_case)


def depth(node: ast.AST) -> int:
    """Return how deep blocks stand in one another; an elif stands beside its if, functions inside count apart."""
    inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, INNER)]
    return max((depth(child) + (isinstance(child, BLOCKS) and not _is_elif(node, child)) for child in inner), default=0)


def _is_elif(node: ast.AST, child: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]


def complexity(function: ast.FunctionDef) -> int:
    """Return the branches of a function, conditions of comprehensions and operators counted; those inside count apart.

    Ruff's C901, whose limit is 12, counts statements alone.
    """
    total, stack = 1, list[ast.AST](function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, INNER):
            continue
        total += isinstance(node, BRANCHES)
        total += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        total += len(node.ifs) if isinstance(node, ast.comprehension) else 0
        stack.extend(ast.iter_child_nodes(node))
    return total


@forbids(ast.FunctionDef, ast.AsyncFunctionDef)
def no_long_decision(node: ast.FunctionDef, place: str) -> object:
    return complexity(node) > MOST_BRANCHES and f"{node.name} has a complexity of {complexity(node)}"


@law
def no_deep_nesting(house: House) -> Iterator[tuple[str, str]]:
    for place, node in house.of(ast.FunctionDef, ast.AsyncFunctionDef):
        if (found := depth(node)) > DEEPEST:
            yield f"{room(place)}::{node.name}", f"{file_of(place)}:{node.lineno} {node.name} nests {found} deep"


# ------------------------------------------------------------------------------------------------ effects, purity


@forbids(*IMPORTS)
def only_the_drawer_touches_the_machine(node: ast.Import, place: str) -> object:
    return packages(node) & MACHINE


@forbids(*IMPORTS, ast.Call)
def one_file_starts_processes(node: Any, place: str) -> object:
    if not isinstance(node, ast.Call):
        return packages(node) & {"subprocess", "pty", "multiprocessing"}
    module, _, name = dotted(node.func).rpartition(".")
    return module == "os" and (name in STARTERS or name.startswith(("exec", "spawn"))) and name


@law
def whose_the_arguments_are_is_known(house: House) -> Iterator[tuple[str, str]]:
    """Of each call that starts a process. Whoever excuses one has looked at every argument.

    Never words of a child, a node, a report, or a file of others, unless they are a number or an absolute path, or are
    looked up in a list of what is allowed: `--me` as the number of a job cancels all jobs.
    """
    for file, source in house.files.items():
        names = {"process.run", "process.Child"} | ({"Probe"} if file == "probes/driver.py" else set())
        for node in source.of(ast.ImportFrom):
            if node.module in ("tfgpu_doctor.probes.process", "tfgpu_doctor.probes.driver"):
                names |= {one.asname or one.name for one in node.names if one.name in ("run", "Child", "Probe")}
        for call, function in source.nodes[ast.Call]:
            name = dotted(call.func)
            if name in names or name.split(".")[-2:] == ["commands", "run"]:
                yield f"{file}::{function}", f"{file}:{call.lineno} ({function})"


@forbids(ast.Call)
def one_function_looks_programs_up(call: ast.Call, place: str) -> object:
    """`systems.find` passes over the current directory, which `shutil.which` searches where PATH says so."""
    return dotted(call.func).split(".")[-1] == "which"


@forbids(ast.Call)
def one_folder_opens_files(call: ast.Call, place: str) -> object:
    """Files that a user, a variable or another file may name: facts/reading.py reads and facts/writing.py writes."""
    return (call.func.attr in OPENERS) if isinstance(call.func, ast.Attribute) else dotted(call.func) == "open"


@forbids(ast.Call)
def the_drawer_changes_the_file_system(call: ast.Call, place: str) -> object:
    """The environment of `tfgpu install` is made of files."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)
    return (name in CHANGES or dotted(call.func) in ("os.remove", "os.rename", "os.replace", "os.link")) and name


@forbids(ast.Call)
def no_shell(call: ast.Call, place: str) -> object:
    return any(word.arg == "shell" for word in call.keywords)


@forbids(ast.Name, ast.Attribute)
def only_guarded_streams_are_written_to(node: ast.expr, place: str) -> object:
    """Everything else goes through a console, an output or say()."""
    name = dotted(node)
    return (name in BYPASSES or name.startswith(("sys.__std", "sys.stdout.", "sys.stderr.w", "sys.stderr.b"))) and name


@forbids(ast.Call)
def one_function_encodes_text(call: ast.Call, place: str) -> object:
    """The rest calls `utf8` and `compact`, which have an answer to half a surrogate pair."""
    name, words = dotted(call.func), {word.arg for word in call.keywords}
    return (name.endswith(".encode") or (name == "json.dumps" and "ensure_ascii" in words)) and name


@law
def tensorflow_is_imported_only_in_children(house: House) -> Iterator[tuple[str, str]]:
    """And there within functions."""
    for place, node in house.of(*IMPORTS):
        if packages(node) & TENSORFLOW:
            yield "" if place.endswith("::") else place, f"{place}, line {node.lineno}"
    for place, call in house.of(ast.Call):
        named = TENSORFLOW & {word.value for word in call.args if isinstance(word, ast.Constant)}
        if named and dotted(call.func).endswith("import_module"):
            yield place, f"{place}, line {call.lineno} imports {named} by name"


@law
def what_is_pure_has_no_effects_and_no_clock(house: House) -> Iterator[tuple[str, str]]:
    for file, source in house.files.items():
        if not any(fnmatch(file, one) for one in PURE):
            continue
        for name, line in ((name, node.lineno) for node in source.of(*IMPORTS) for name in packages(node) & IMPURE):
            yield f"{file}::{name}", f"{file}:{line} imports {name}"
        for call in source.of(ast.Call):
            if dotted(call.func) in IMPURE_CALLS:
                yield "", f"{file}:{call.lineno} calls {dotted(call.func)}"
        later = ["probes", "facts.reading", "facts.writing"]
        later += [] if file.startswith(("smoke/", "fleet/")) else ["bench"]  # those judge runs
        for node in source.of(ast.ImportFrom):
            module = (node.module or "").removeprefix("tfgpu_doctor.")
            path = module.replace(".", "/") + ".py"
            within_bench = file.startswith("bench/") and any(fnmatch(path, one) for one in PURE_BENCH)
            if module != node.module and module.startswith(tuple(later)) and not within_bench:
                yield f"{file}::{module}", f"{file}:{node.lineno} imports {module}; the flow goes from probes to rules"


# ------------------------------------------------------------------------------------------------ what is caught


def is_broad(kind: ast.expr | None) -> bool:
    """Whether an `except` or a `suppress` takes everything."""
    if kind is None:
        return True
    names = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(dotted(name).split(".")[-1] in ("Exception", "BaseException") for name in names)


@law
def what_catches_everything_has_a_reason(house: House) -> Iterator[tuple[str, str]]:
    """Catch what you expect. What cleans up and raises again needs no reason, and has a comment there."""
    for place, node in house.of(ast.ExceptHandler):
        if is_broad(node.type):
            last, where = node.body[-1], f"{place}, line {node.lineno}"
            if not (isinstance(last, ast.Raise) and last.exc is None):
                yield place, where
            elif "#" not in house.files[file_of(place)].lines[node.lineno - 1]:
                yield "", f"{where} does not say what must be done before it is raised again"
    for place, call in house.of(ast.Call):
        if dotted(call.func).endswith("suppress") and any(map(is_broad, call.args)):
            yield place, f"{place}, line {call.lineno}"


@forbids(ast.ExceptHandler)
def no_bare_except(node: ast.ExceptHandler, place: str) -> object:
    return node.type is None


@forbids(ast.ImportFrom)
def what_packaging_raises_is_caught_as_a_value_error(node: ast.ImportFrom, place: str) -> object:
    """Its own errors are ValueErrors, and a number of more than 4300 digits raises ValueError itself."""
    own = {"InvalidVersion", "InvalidSpecifier", "InvalidRequirement", "InvalidMarker", "UndefinedEnvironmentName"}
    return packages(node) == {"packaging"} and own & {one.name for one in node.names}


# ------------------------------------------------------------------------------------------------ words and repairs


def competing(text: str) -> list[str]:
    """What STYLE has another word for."""
    return [f"{found[0]!r}: write {term!r}" for one, term in COMPETING.items() for found in re.finditer(one, text)]


@law
def one_term_for_one_thing(house: House) -> Iterator[tuple[str, str]]:
    """In sentences that people read: not in patterns, nor in the templates of what programs print."""
    described = {id(node.value) for _, node in house.of(ast.Expr)}
    for place, node in house.of(ast.Constant):
        text = node.value if isinstance(node.value, str) and id(node) not in described else ""
        is_sentence = text.count(" ") > 1 and "(?" not in text and "{ " not in text
        if is_sentence and not place.startswith("parsers/"):
            yield from (("", f"{place}, line {node.lineno}: {wrong}") for wrong in competing(text))


@forbids(ast.Call)
def repairs_are_made_in_few_places(call: ast.Call, place: str) -> object:
    """Whoever makes one is judged in test_repairs_law.py, by a command that prints it."""
    return getattr(call.func, "id", "") == "Fix"


@forbids(ast.Constant)
def only_the_gate_says_or(node: ast.Constant, place: str) -> object:
    """Which fix is the first is known where all of them are."""
    return place.startswith(("findings/", "plan/", "fleet/")) and str(node.value).startswith(("Or ", "Or, "))


# ------------------------------------------------------------------------------------------------ they are kept


def is_meant(place: str, pattern: str) -> bool:
    return fnmatch(place, pattern) or fnmatch(file_of(place), pattern)


@each("law", LAWS)
def test_every_file_keeps_the_law(law: Law) -> None:
    found, excused = list(law(ours())), EXCUSED.get(law.__name__, {})
    assert [what for place, what in found if not any(is_meant(place, one) for one in excused)] == []
    outlived = [one for one in excused if not any(is_meant(place, one) for place, _ in found)]
    assert outlived == [], "nothing needs this reason any more"


@each("law", LAWS)
def test_each_law_is_broken_by_what_breaks_it(law: Law, tmp_path: Path) -> None:
    for number, sources in enumerate(BREAKERS[law.__name__]):
        root = tmp_path / str(number)
        for file, source in sources.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(source)
        assert len(list(law(House(root)))) == 1, sources


def test_laws_yaml_names_laws() -> None:
    assert BREAKERS.keys() | EXCUSED.keys() == {law.__name__ for law in LAWS}
    assert {"facts/facts.py", "probes/process.py", "findings/cuda.py"} <= set(FILES)


def test_contributing_shows_the_list() -> None:
    if not (text := TESTS.parent / "CONTRIBUTING.md").is_file():
        pytest.skip("no CONTRIBUTING.md in this copy of the sources")
    list_of_folders = text.read_text(encoding="utf-8").partition("in no circle:")[2].partition("`tests/")[0]
    assert tuple(re.findall(r"`(\w+)`", list_of_folders)) == tuple(one for one in ORDER if (PACKAGE / one).is_dir())


def test_no_import_without_a_dependency_and_no_dependency_without_an_import() -> None:
    extras = {"mcp", "mcp_types", "anyio", "pydantic"}  # mcp and what it is made of
    extras |= {"pytest", "typing_extensions"}  # the first loads its plugin itself, the second is for mypy alone
    wanted = {IMPORTED_AS.get(row[0], row[0]) for row in rows()}
    imported = {name for _, node in ours().of(*IMPORTS) for name in packages(node)}
    others = imported - sys.stdlib_module_names - {"tfgpu_doctor", *OF_THE_USER}
    assert others - extras - {"tomllib"} == wanted


# file of the tests that waits → for what
WAITS = {
    "bench/test_several.py": "waits for a thread, and for workers",
    "test_process.py": "waits for processes to end",
}
CLOCK = re.compile(r"\btime\.(?:time|monotonic|monotonic_ns|perf_counter|perf_counter_ns|process_time)\(")


def test_no_test_measures_time() -> None:
    """A busy machine is no defect: count work, or stop what hangs with tests/guard.py."""
    assert all((TESTS / file).is_file() for file in WAITS)
    offenders = []
    for path in TESTS.rglob("*.py"):
        file, source = path.relative_to(TESTS).as_posix(), path.read_text(encoding="utf-8")
        if file not in WAITS and CLOCK.search(source):
            asserts = (node.test for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert))
            offenders += [f"{file}:{test.lineno}" for test in asserts if CLOCK.search(ast.unparse(test))]
    assert offenders == []
