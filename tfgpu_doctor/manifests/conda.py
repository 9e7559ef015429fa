"""environment.yml: the environments of conda."""

from __future__ import annotations

from dataclasses import replace

from tfgpu_doctor.manifests import MOST_REQUIREMENTS, Environment, Place, Requirement, Setting
from tfgpu_doctor.manifests.nodes import Node
from tfgpu_doctor.manifests.pip import Include, Lines
from tfgpu_doctor.manifests.requirement import conda_requirement
from tfgpu_doctor.manifests.variables import complaint


def is_environment(root: Node) -> bool:
    """Whether a YAML document is a conda environment."""
    return root.get("dependencies") is not None and root.get("services") is None


def read_environment(path: str, root: Node, include: Include, *, quote: bool = True) -> tuple[Environment, ...]:
    """environment.yml: dependencies of conda, of pip below them, and variables."""
    requirements: list[Requirement] = []
    not_understood: list[str] = []
    pip = Lines(path, include)
    for item in root.items("dependencies")[:MOST_REQUIREMENTS]:
        if item.text is not None:
            try:
                requirements.append(conda_requirement(item.text, item.place))
            except ValueError as error:
                not_understood.append(complaint(item.place, item.text, error, quote=quote))
        for line in item.items("pip"):
            for number, text in enumerate((line.text or "").splitlines()):
                pip.take(text.strip(), replace(line.place, line=line.line + number), quote=quote)
    requirements += pip.found()
    return (
        Environment(
            kind="conda",
            label=path,
            place=Place(path, 1),
            python=tuple(one for one in requirements if one.name == "python"),
            requirements=tuple(one for one in requirements if one.name != "python"),
            settings=_variables(root.get("variables")),
            channels=tuple(item.text for item in root.items("channels") if item.text),
            not_understood=(*not_understood, *pip.not_understood),
        ),
    )


def _variables(node: Node | None) -> tuple[Setting, ...]:
    pairs = node.pairs() if node else ()
    return tuple(Setting(name, value.text, value.place) for name, value in pairs if value.text is not None)
