"""Requirements files, with those that they include, and the YAML nodes that know their file."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from tfgpu_doctor.facts import yaml_nodes
from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.manifests import (
    MOST_REQUIREMENTS,
    Environment,
    IncludeError,
    ManifestError,
    Place,
    Requirement,
    UnreadList,
    bounds_of_all,
    environment_of,
    quoted,
)
from tfgpu_doctor.manifests.requirement import other_index, pip_requirement
from tfgpu_doctor.manifests.variables import complaint

Include: TypeAlias = Callable[[str], str]  # a path beside the file → its text; raises IncludeError

_COMMENT = re.compile(r"(?:^|\s)#.*$")
_INCLUDED = re.compile(r"(?:-r\s*|--requirement(?:\s+|=)|-c\s*|--constraint(?:\s+|=))(?P<path>\S.*)")
_OPTIONS = re.compile(r"\s--?[a-z].*$")  # "--hash=...", "--config-settings ..."
# with a version, if a wrong one; name=1.2=build is a line of conda's
_BOUNDED = re.compile(r"[A-Za-z0-9][\w.-]* ?(?:\[[\w,.-]*\])? ?(?:[=~!<>]=|[<>]|=(?=[^=]*$)) ?\d")
MOST_FILES = 50
MOST_CONSTRAINTS = 50  # of one name
FEW = 3  # lines of a file that may be wrong without making it another kind of file


def read_requirements(path: str, text: str, include: Include, *, quote: bool = True) -> tuple[Environment, ...]:
    """A requirements file, with those that it includes; constraints narrow what is there, and install nothing."""
    lines = Lines(path, include)
    lines.read(posixpath.basename(path), text, own=quote)
    return (environment_of("requirements", path, lines.found(), lines.not_understood),)


class Lines:
    """Collects requirements over the lines of files that include each other.

    Args:
        path: the file that is read; others are named relative to its folder.
        include: reads them.
    """

    def __init__(self, path: str, include: Include) -> None:
        self._folder = posixpath.dirname(path)
        self._include = include
        self._seen: set[tuple[str, int | None]] = set()
        self._constraints: dict[str, dict[tuple[int, str], Requirement]] = {}  # by name, then by command and specifier
        self._left = MOST_REQUIREMENTS
        self._elsewhere = ""  # an index that a line names
        self.requirements: list[Requirement] = []  # without the constraints
        self.not_understood: list[str] = []
        self.step = 0  # the pip command whose files are read

    def read(self, name: str, text: str, *, constraint: bool = False, own: bool = False) -> None:
        """Read a file by its name relative to the folder.

        Nothing of a file that is not a list of requirements is repeated, nor a line of one that another file names:
        it can be any file of the machine. `own`: the user named this one.
        """
        self._seen.add((posixpath.normpath(name), self.step if constraint else None))
        path = posixpath.normpath(posixpath.join(self._folder, name))
        wrong: set[str] = set()
        taken = 0
        for number, line in logical_lines(text):
            if self._left <= 0:
                why = f"more than {MOST_REQUIREMENTS} lines; the rest is not read"
                self.not_understood.append(f"{path}:{number}: {why}")
                break
            self._elsewhere = self._elsewhere or other_index(line)
            if not self.take(line, Place(path, number), posixpath.dirname(name), constraint=constraint, quote=own):
                wrong.add(self.not_understood[-1])
            taken += 1
        if 2 * len(wrong) > taken and len(wrong) > (FEW if own else 0):
            why = f"{len(wrong)} of {taken} lines are not requirements"
            others = [line for line in self.not_understood if line not in wrong]
            self.not_understood = [*others, f"{path} is not a requirements file: {why}"]

    def take(self, line: str, place: Place, folder: str = "", *, constraint: bool = False, quote: bool = True) -> bool:
        """Read one logical line, and return whether it is one, if with a wrong version; its files are in `folder`."""
        self._left -= 1
        if found := _INCLUDED.fullmatch(line):
            narrows = constraint or line.lstrip("-").startswith("c")
            self.follow(posixpath.join(folder, found["path"].strip("\"' ")), place, constraint=narrows)
            return True
        bare = _OPTIONS.sub("", re.sub(r"^(-e|--editable)[ =]", "", line)).strip()
        try:
            one = pip_requirement(bare, place)
        except ValueError as error:
            self.not_understood.append(complaint(place, bare, error, quote=quote))
            return quote and _BOUNDED.match(bare) is not None
        if one and constraint:
            bounds = self._constraints.setdefault(one.name, {})
            if len(bounds) < MOST_CONSTRAINTS:
                bounds.setdefault((self.step, one.specifier), replace(one, is_constraint=True, step=self.step))
        elif one:
            self.requirements.append(one)
        return True

    def follow(self, name: str, place: Place, *, constraint: bool = False) -> None:
        """Read a file that a line names, once."""
        name = posixpath.normpath(name) if "://" not in name else name
        seen = (name, self.step if constraint else None)  # a later command can have the same constraints
        if seen in self._seen or len(self._seen) >= MOST_FILES:
            return
        try:
            text = self._include(name)
        except IncludeError as error:
            self._seen.add(seen)
            self.not_understood.append(UnreadList(f"{place}: {quoted(name)} {error}"))
        else:
            self.read(name, text, constraint=constraint)

    def found(self) -> tuple[Requirement, ...]:
        """The requirements, then the constraints; those of a TensorFlow that is required are part of its line."""
        required = {(one.name, one.step) for one in self.requirements if one.name in TENSORFLOW}
        constraints = (one for bounds in self._constraints.values() for one in bounds.values())
        others = (one for one in constraints if (one.name, one.step) not in required)
        return (*map(self._narrowed, self.requirements), *others)

    def _narrowed(self, one: Requirement) -> Requirement:
        """A requirement with its index; a TensorFlow with its constraints, whose line names the release."""
        if one.installer != "pip":
            return one
        one = replace(one, elsewhere=one.elsewhere or (f"the index {self._elsewhere}" if self._elsewhere else ""))
        of_name = self._constraints.get(one.name, {}) if one.name in TENSORFLOW else {}
        bounds = [each for each in of_name.values() if each.step == one.step]
        if not bounds:
            return one
        line, *beside = (one, *bounds) if one.specifier or one.extras else (*bounds, one)
        wanted = bounds_of_all((one, *bounds))
        return replace(one, specifier=wanted, place=line.place, text=line.text, beside=tuple(beside))


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continuations joined, each with the number of its first; empty ones are left out."""
    parts: list[str] = []
    start = 1
    for number, line in enumerate([*text.splitlines(), ""], 1):  # the last ends a continuation
        start = start if parts else number
        comment = line.lstrip().startswith("#")
        parts.append("" if comment else line.removesuffix("\\"))
        if comment or not line.endswith("\\"):
            if joined := _COMMENT.sub("", "".join(parts)).strip():
                yield start, joined
            parts = []


class Node:
    """A node of a document. What is not there, or is of another kind, is None or empty."""

    def __init__(self, node: yaml_nodes.Node, path: str) -> None:
        self._node = node
        self._path = path

    @property
    def place(self) -> Place:
        """The file and the line."""
        return Place(self._path, yaml_nodes.line_of(self._node))

    @property
    def text(self) -> str | None:
        """The text of a scalar; None for a list, a mapping and null."""
        return str(self._node.value) if self._node.id == "scalar" and not yaml_nodes.is_null(self._node) else None

    def pairs(self, *path: str) -> list[tuple[str, Node]]:
        """Keys and values of the mapping below several keys, merge keys resolved; a key of the mapping itself wins."""
        node = self.get(*path)
        return list(node._values.items()) if node else []

    def texts(self, *path: str) -> dict[str, str]:
        """The scalars of that mapping."""
        return {name: one.text for name, one in self.pairs(*path) if one.text is not None}

    @cached_property
    def _values(self) -> dict[str, Node]:
        found: dict[str, yaml_nodes.Node] = {}
        _collect(self._node, found)
        return {name: Node(value, self._path) for name, value in found.items()}

    def get(self, *path: str) -> Node | None:
        """The node below several keys."""
        here: Node | None = self
        for name in path:
            here = here._values.get(name) if here else None
        return here

    def items(self, *path: str) -> list[Node]:
        """The members of the list below several keys."""
        node = self.get(*path)
        if node is None or node._node.id != "sequence":
            return []
        return [Node(one, self._path) for one in node._node.value]

    def string(self, *path: str) -> str | None:
        """The text below several keys."""
        node = self.get(*path)
        return node.text if node else None


def _collect(node: yaml_nodes.Node, found: dict[str, yaml_nodes.Node]) -> None:
    """Keys of a mapping, then of those that it merges. Aliases count as nodes, so that this is bounded."""
    if node.id != "mapping":
        return
    merged: list[yaml_nodes.Node] = []
    for key, value in node.value:
        if key.id == "scalar" and yaml_nodes.is_merge(key):
            merged += value.value if value.id == "sequence" else [value]
        elif key.id == "scalar":
            found.setdefault(key.value, value)
    for one in merged:
        _collect(one, found)


def documents(path: str, text: str) -> list[Node]:
    """The documents of a YAML file. Raises ManifestError: it is no YAML."""
    try:
        return [Node(one, path) for one in yaml_nodes.documents(text)]
    except yaml_nodes.YamlError as error:
        raise ManifestError(f"{path}:{error.line}: {error.reason}") from error
