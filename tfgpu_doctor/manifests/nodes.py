"""YAML as nodes that know their line, through PyYAML's composer; nothing is constructed, so nothing can be executed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.manifests import ManifestError, Place

DEEPEST = 100  # levels; a manifest has about ten
MOST_NODES = 200_000  # visits; aliases can make a small file endless


@dataclass
class _Document:
    path: str
    visits: int = MOST_NODES


class Node:
    """A node of a document. What is not there, or is of another kind, is None or empty."""

    def __init__(self, node: Any, document: _Document) -> None:
        document.visits -= 1
        if document.visits < 0:
            raise ManifestError(f"{document.path}: its aliases expand to too many nodes")
        self._node = node
        self._document = document

    @property
    def line(self) -> int:
        """From 1."""
        return int(self._node.start_mark.line) + 1

    @property
    def place(self) -> Place:
        """The file and the line."""
        return Place(self._document.path, self.line)

    @property
    def text(self) -> str | None:
        """The text of a scalar; None for a list, a mapping and null."""
        value = self._node.value
        return value if isinstance(value, str) and self._node.tag != "tag:yaml.org,2002:null" else None

    def pairs(self) -> Iterator[tuple[str, Node]]:
        """Keys and values of a mapping, merge keys resolved; a key of the mapping itself wins.

        Raises ManifestError: a key stands twice, which Compose, kubectl and conda refuse.
        """
        found: dict[str, Any] = {}
        self._collect(found, 0)
        for name, value in found.items():
            yield name, Node(value, self._document)

    def _collect(self, found: dict[str, Any], depth: int) -> None:
        if type(self._node).__name__ != "MappingNode" or depth > 50:
            return
        merged: list[Any] = []
        own: set[str] = set()
        for key, value in self._node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                merged += value.value if type(value).__name__ == "SequenceNode" else [value]
            elif isinstance(key.value, str):
                if key.value in own:
                    line = key.start_mark.line + 1
                    raise ManifestError(f"{self._document.path}:{line}: duplicate key {key.value}")
                own.add(key.value)
                found.setdefault(key.value, value)
        for one in merged:
            Node(one, self._document)._collect(found, depth + 1)

    def get(self, *path: str) -> Node | None:
        """The node below several keys."""
        here: Node | None = self
        for name in path:
            here = next((value for key, value in here.pairs() if key == name), None) if here else None
        return here

    def items(self, *path: str) -> list[Node]:
        """The members of the list below several keys."""
        node = self.get(*path) if path else self
        if node is None or type(node._node).__name__ != "SequenceNode":
            return []
        return [Node(one, self._document) for one in node._node.value]

    def string(self, *path: str) -> str | None:
        """The text below several keys."""
        node = self.get(*path)
        return node.text if node else None


def documents(path: str, text: str) -> list[Node]:
    """The documents of a YAML file. Raises ManifestError: it is no YAML, or a template of YAML."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _depth(path, yaml.parse(text, Loader=loader))
        composed = list(yaml.compose_all(text, Loader=loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        if "{{" in text:
            raise template(Place(path, line)) from error
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ManifestError(f"{path}:{line}: invalid YAML: {reason}") from error
    return [Node(one, _Document(path)) for one in composed if one is not None]


def template(place: Place) -> ManifestError:
    """The refusal of a file that is made into YAML by another program."""
    return ManifestError(f"{place}: this is a template; render it first (helm template)")


def _depth(path: str, events: Any) -> None:
    """Refuse what is nested so deeply that composing it would exhaust the C stack."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name in ("MappingStartEvent", "SequenceStartEvent")
        depth -= name in ("MappingEndEvent", "SequenceEndEvent")
        if depth > DEEPEST:
            raise ManifestError(f"{path}:{event.start_mark.line + 1}: nested more than {DEEPEST} levels deep")
