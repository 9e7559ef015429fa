"""setup.cfg, and the literal lists in setup.py. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from tfgpu_doctor.manifests import Environment, Place, Requirement, quoted
from tfgpu_doctor.manifests.pip import Include, Lines
from tfgpu_doctor.manifests.requirement import pip_requirement
from tfgpu_doctor.manifests.templates import complaint

LARGEST_CODE = 200_000  # characters of a setup.py
DEEPEST_CODE = 50  # brackets inside each other
_SECTION = re.compile(r"\[([^\]]+)\]")
_KEY = re.compile(r"([\w.-]+)\s*[=:]\s*(.*)")
_CHAIN = re.compile(r"(?:[-+~.(\[{]\s*){200}|(?:not\s+){200}|(?:\.\s*\w+\s*){200}|(?:[-+*/|&]\s*\w+\s*){500}")


class _Line(NamedTuple):
    """A requirement as it is written."""

    text: str
    line: int


class _Setup:
    """What setuptools is told."""

    def __init__(self, path: str, include: Include, *, quote: bool) -> None:
        self.path, self.include, self.quote = path, include, quote
        self.python: list[Requirement] = []
        self.parts: dict[str, list[Requirement]] = {"": []}
        self.not_understood: list[str] = []

    def add(self, part: str, lines: list[_Line]) -> None:
        """Take lines of requirements; "file: requirements.txt" is read."""
        found = self.parts.setdefault(part, [])
        for text, line in lines:
            place = Place(self.path, line)
            if text.startswith("file:"):
                for name in text.removeprefix("file:").split(","):
                    beside = Lines(self.path, self.include)
                    beside.follow(name.strip(), place)
                    self.not_understood += beside.not_understood
                    found += beside.found()
                continue
            bare = text.partition(" #")[0].strip()
            try:
                one = pip_requirement(bare, place) if bare and not bare.startswith("#") else None
            except ValueError as error:
                self.not_understood.append(complaint(place, bare, error, quote=self.quote))
                continue
            if one:
                found.append(one)

    def requires_python(self, text: str, line: int) -> None:
        """Take python_requires."""
        self.python.append(Requirement("python", text, Place(self.path, line), f"python {text}"))

    def environments(self) -> tuple[Environment, ...]:
        """The package itself, and each extra together with it."""
        return tuple(
            Environment(
                kind="setup",
                label=f"{self.path}, extra {part}" if part else self.path,
                place=Place(self.path, 1),
                python=tuple(self.python),
                requirements=tuple(dict.fromkeys([*self.parts[""], *found] if part else found)),
                not_understood=tuple(dict.fromkeys(self.not_understood)),
            )
            for part, found in self.parts.items()
            if found or not part
        )


def read_setup_cfg(path: str, text: str, include: Include, *, quote: bool = True) -> tuple[Environment, ...]:
    """[options] and [options.extras_require]."""
    setup = _Setup(path, include, quote=quote)
    for section, key, lines in _options(text):
        if section == "options" and key == "install_requires":
            setup.add("", lines)
        elif section == "options" and key == "python_requires" and lines:
            setup.requires_python(lines[0].text, lines[0].line)
        elif section == "options.extras_require":
            setup.add(key, lines)
    return setup.environments()


def _options(text: str) -> Iterator[tuple[str, str, list[_Line]]]:
    """Section, key, and the lines of the value."""
    section, key, lines = "", "", list[_Line]()
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare[0] in "#;":
            continue
        if line[0].isspace() and key:
            lines += [_Line(one.strip(), number) for one in bare.split(";;") if one.strip()]
            continue
        if key:
            yield section, key, lines
        key, lines = "", []
        if found := _SECTION.match(bare):
            section = found[1].strip()
        elif found := _KEY.match(bare):
            key = found[1]
            lines = [_Line(found[2], number)] if found[2] else []
    if key:
        yield section, key, lines


def read_setup_py(path: str, text: str, include: Include, *, quote: bool = True) -> tuple[Environment, ...]:
    """The lists that setup() is given, where they are written out."""
    setup = _Setup(path, include, quote=quote)
    tree = _parsed(text)
    if tree is None:
        setup.not_understood.append(f"{path}: it cannot be parsed as Python")
        return setup.environments()
    names = _assigned(tree)
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == "setup")
    for word in (word for call in calls for word in call.keywords):
        value = names.get(word.value.id, word.value) if isinstance(word.value, ast.Name) else word.value
        if word.arg == "python_requires" and (bounds := _text(value)) is not None:
            setup.requires_python(bounds, value.lineno)
        elif word.arg in ("install_requires", "extras_require"):
            for part, listed in _by_part(word.arg, value):
                _take(setup, part, word.arg, listed, names)
    return setup.environments()


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """The values of the names of a module."""
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _by_part(keyword: str, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The lists of a keyword, with the extra that each is for."""
    if keyword == "extras_require" and isinstance(value, ast.Dict):
        for key, listed in zip(value.keys, value.values, strict=True):
            if key is not None and (name := _text(key)) is not None:
                yield name, listed
    else:
        yield "", value


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _parsed(text: str) -> ast.Module | None:
    """The tree of a module; None for one that is too deep to be parsed without danger, or is no Python."""
    depth = deepest = 0
    for one in text:
        depth += (one in "([{") - (one in ")]}")
        deepest = max(deepest, depth)
    if len(text) > LARGEST_CODE or deepest > DEEPEST_CODE or _CHAIN.search(text):
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _take(setup: _Setup, part: str, keyword: str, node: ast.expr, names: dict[str, ast.expr]) -> None:
    lines = _listed(node, names, 0)
    if lines is None:
        place = Place(setup.path, node.lineno)
        setup.not_understood.append(
            f"{place}: {quoted(keyword)} is known only when the code is run, which tfgpu does not"
        )
    else:
        setup.add(part, lines)


def _listed(node: ast.expr, names: dict[str, ast.expr], depth: int) -> list[_Line] | None:
    """The texts of a list that is written out, also as a name, or as a sum of such; None for anything else."""
    if (text := _text(node)) is not None:
        return [_Line(line.strip(), node.lineno) for line in text.splitlines() if line.strip()]
    inner = _inside(node, names)
    if inner is None or depth > 10:
        return None
    parts = [_listed(one, names, depth + 1) for one in inner]
    return None if None in parts else [line for one in parts if one for line in one]


def _inside(node: ast.expr, names: dict[str, ast.expr]) -> list[ast.expr] | None:
    """What a list, a sum or a name stands for; None for anything else."""
    if isinstance(node, ast.Name):
        return [names[node.id]] if node.id in names else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [node.left, node.right]
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [one.value if isinstance(one, ast.Starred) else one for one in node.elts]
    return None
