"""The YAML of manifests: nodes that know their file, and what merge keys bring."""

from __future__ import annotations

from functools import cached_property

from tfgpu_doctor.facts import yaml_nodes
from tfgpu_doctor.facts.yaml_nodes import YamlError, is_merge, is_null, line_of
from tfgpu_doctor.manifests import ManifestError, Place


class Node:
    """A node of a document. What is not there, or is of another kind, is None or empty."""

    def __init__(self, node: yaml_nodes.Node, path: str) -> None:
        self._node = node
        self._path = path

    @property
    def line(self) -> int:
        """From 1."""
        return line_of(self._node)

    @property
    def place(self) -> Place:
        """The file and the line."""
        return Place(self._path, self.line)

    @property
    def text(self) -> str | None:
        """The text of a scalar; None for a list, a mapping and null."""
        return str(self._node.value) if self._node.id == "scalar" and not is_null(self._node) else None

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
        if key.id == "scalar" and is_merge(key):
            merged += value.value if value.id == "sequence" else [value]
        elif key.id == "scalar":
            found.setdefault(key.value, value)
    for one in merged:
        _collect(one, found)


def documents(path: str, text: str) -> list[Node]:
    """The documents of a YAML file. Raises ManifestError: it is no YAML."""
    try:
        return [Node(one, path) for one in yaml_nodes.documents(text)]
    except YamlError as error:
        raise ManifestError(f"{path}:{error.line}: {error.reason}") from error
