"""The house of CONTRIBUTING.md, read off the source: the order of folders, no circle, no loose file, nothing deep."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import tfgpu_doctor
from tests.tables import each
from tfgpu_doctor.findings.catalogue import FILES

PACKAGE = Path(tfgpu_doctor.__file__).parent
TESTS = Path(__file__).parent
NAME = "tfgpu_doctor"

# From the ground up, in the order of CONTRIBUTING.md: each may import what stands before it. On one line stands what
# becomes one folder; what is no folder yet, or no more, does no harm.
ORDER = (
    "facts",
    "matrix",
    "parsers",
    "manifests",
    "findings",
    *("plan", "install"),
    *("probes", "bench", "smoke", "fleet", "compare", "redact", "render"),
    *("commands.py", "cli", "integrations"),
)
# What goes down the list today; the list becomes shorter, never longer.
AGAINST = {
    *(("install", "probes"), ("fleet", "compare"), ("fleet", "redact")),
}
FOLDERS = tuple(name for name in ORDER if not name.endswith(".py"))
LOOSE = {"__init__.py", "__init__.pyi", "__main__.py", "commands.py", "py.typed"}
DEEPEST = 3
MOST_BRANCHES = 15
# folder::function that nests deeper today; the list becomes shorter, never longer
NESTED = {
    "bench::measure",
    "parsers::_pieces",
    "probes::reveal",
}
CLOCKS = {"time", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"}
WAITS = {
    "bench/test_several.py": "waits for a thread",
    "bench/test_several_live.py": "waits for workers",
    "test_process.py": "waits for processes to end",
}


class House:
    """The files of a package and which of them each imports."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
        self._known = frozenset(self.files)
        self.trees = {file: ast.parse((root / file).read_text(encoding="utf-8"), file) for file in self.files}
        self.imports = {file: dict(self._imported(file)) for file in self.files}  # file → file → line

    def _imported(self, file: str) -> Iterator[tuple[str, int]]:
        for node in ast.walk(self.trees[file]):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                if (found := self._file(name)) and found != file:
                    yield found, node.lineno

    def _file(self, name: str) -> str | None:
        """The file of `tfgpu_doctor.folder.module`, also where the last part is a name in it."""
        first, *parts = name.split(".")
        if first != NAME:
            return None
        for known in (parts, parts[:-1]):
            for file in ("/".join(known) + ".py", "/".join([*known, "__init__.py"])):
                if file in self._known:
                    return file
        return None

    def arrows(self) -> Iterator[tuple[str, str, str]]:
        """(folder, folder, where) of each import from one folder at the top into another."""
        for file, targets in self.imports.items():
            for target, line in targets.items():
                one, other = room(file), room(target)
                if one != other and one in ORDER and other not in LOOSE:  # the version stands at the top
                    yield one, other, f"{file}:{line} imports {target}"


@cache
def ours() -> House:
    return House(PACKAGE)


def room(file: str) -> str:
    return file.partition("/")[0]


Law = Callable[[House], Iterator[str]]


def goes_down(one: str, other: str) -> bool:
    for_checks_only = one == "findings" and other == "manifests"
    return other not in ORDER or ORDER.index(other) > ORDER.index(one) or for_checks_only


def imports_go_up_the_list(house: House) -> Iterator[str]:
    for one, other, where in house.arrows():
        if goes_down(one, other) and (one, other) not in AGAINST:
            yield where


def no_import_circle(house: House) -> Iterator[str]:
    """Also through imports inside functions."""
    for file in house.files:
        way = _way_back(house, file)
        if way and file == min(way):  # each circle once
            yield " → ".join([*way, file])


def _way_back(house: House, file: str) -> list[str]:
    """The shortest chain of imports from a file to itself."""
    ways, seen = [[file]], {file}
    while ways:
        way = ways.pop(0)
        for target in house.imports[way[-1]]:
            if target == file:
                return way
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return []


def nothing_lies_loose(house: House) -> Iterator[str]:
    for path in sorted(house.root.iterdir()):
        if path.is_file() and path.name not in (*LOOSE, *ORDER):
            yield path.name
        elif path.is_dir() and path.name not in ORDER and any(path.rglob("*.py")):
            yield f"{path.name}/ is not in the list of folders"


BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def depth(node: ast.AST) -> int:
    """Return how deep blocks stand in one another; an elif stands beside its if, functions inside count apart."""
    inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, INNER)]
    return max((depth(child) + (isinstance(child, BLOCKS) and not _is_elif(node, child)) for child in inner), default=0)


def _is_elif(node: ast.AST, child: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]


BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.comprehension, ast.Assert, ast.match_case)


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
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


def no_long_decision(house: House) -> Iterator[str]:
    for file, tree in house.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and complexity(node) > MOST_BRANCHES:
                yield f"{file}:{node.lineno} {node.name} has a complexity of {complexity(node)}"


def nested(house: House) -> Iterator[tuple[str, str]]:
    """Yield (folder::function, where) of each function that nests too deep."""
    for file, tree in house.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and depth(node) > DEEPEST:
                yield f"{room(file)}::{node.name}", f"{file}:{node.lineno} {node.name} nests {depth(node)} deep"


def no_deep_nesting(house: House) -> Iterator[str]:
    """Complexity is ruff's C901."""
    yield from (where for name, where in nested(house) if name not in NESTED)


def findings_stand_alone(house: House) -> Iterator[str]:
    """What files with findings share stands in a file that declares none."""
    declaring = {f"findings/{module.__name__.rpartition('.')[2]}.py" for module in FILES}
    for file in house.files:
        if file in declaring:
            yield from (f"{file} imports {other}" for other in sorted(declaring & set(house.imports[file])))


LAWS: tuple[Law, ...] = (
    imports_go_up_the_list,
    no_import_circle,
    nothing_lies_loose,
    no_deep_nesting,
    no_long_decision,
    findings_stand_alone,
)


@each("law", LAWS)
def test_the_house(law: Law) -> None:
    offenders = list(law(ours()))
    assert offenders == [], "\n".join(offenders)


def test_exceptions_are_needed() -> None:
    assert {(one, other) for one, other, _ in ours().arrows()} >= AGAINST
    assert {name for name, _ in nested(ours())} == NESTED
    assert all((TESTS / file).is_file() for file in WAITS)


# file of a made-up package → its source, for each law
BREAKERS: dict[Law, dict[str, str]] = {
    imports_go_up_the_list: {"facts/a.py": "import tfgpu_doctor.cli.b", "cli/b.py": ""},
    no_import_circle: {
        "facts/a.py": "from tfgpu_doctor.facts import b",
        "facts/b.py": "def f():\n    from tfgpu_doctor.facts.a import x",
    },
    nothing_lies_loose: {"helpers.py": ""},
    findings_stand_alone: {"findings/cuda.py": "from tfgpu_doctor.findings.memory import x", "findings/memory.py": ""},
    no_long_decision: {"facts/a.py": "def f(x):\n    return [y for y in x if " + " and ".join(["y"] * 15) + "]"},
    no_deep_nesting: {"facts/a.py": "def f(x):\n" + "".join(f"{' ' * n}if x:\n" for n in range(1, 5)) + "     pass"},
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_each_law_is_broken_by_what_breaks_it(law: Law, tmp_path: Path) -> None:
    for file, source in {"facts/a.py": "", **BREAKERS[law]}.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(source)
    assert len(list(law(House(tmp_path)))) == 1


def test_a_folder_outside_the_list_lies_loose(tmp_path: Path) -> None:
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils" / "a.py").touch()
    assert list(nothing_lies_loose(House(tmp_path))) == ["utils/ is not in the list of folders"]


def test_contributing_shows_the_list() -> None:
    if not (text := TESTS.parent / "CONTRIBUTING.md").is_file():
        pytest.skip("no CONTRIBUTING.md in this copy of the sources")
    list_of_folders = text.read_text(encoding="utf-8").partition("in no circle:")[2].partition("`tests/")[0]
    assert tuple(re.findall(r"`(\w+)`", list_of_folders)) == tuple(one for one in ORDER if (PACKAGE / one).is_dir())


# ------------------------------------------------------------------------------------------ what tests may not do


def stop_watches(source: str) -> list[int]:
    """Lines of asserts that read a clock."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assert)
        for call in ast.walk(node.test)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in CLOCKS
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "time"
    ]


def test_no_test_measures_time() -> None:
    """A busy machine is no defect: count work, or stop what hangs with tests/guard.py."""
    offenders = [
        f"{file}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if (file := path.relative_to(TESTS).as_posix()) not in WAITS
        for line in stop_watches(path.read_text(encoding="utf-8"))
    ]
    assert offenders == []


def test_a_stop_watch_is_found() -> None:
    assert stop_watches("import time\nbegin = time.monotonic()\nassert time.monotonic() - begin < 5") == [3]
    assert stop_watches("import time\nassert time.sleep(1) is None") == []
