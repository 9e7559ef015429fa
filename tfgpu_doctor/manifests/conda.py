"""conda's match specs, and environment.yml."""

from __future__ import annotations

import re

from tfgpu_doctor.manifests import Environment, Place, Requirement
from tfgpu_doctor.manifests.nodes import Node
from tfgpu_doctor.manifests.pip import pip_requirement

# conda's documentation, "Package match specifications"
_SPEC = re.compile(r"(?:[\w./-]+::)?(?P<name>[A-Za-z0-9_.-]+)(?:\[.*\])?\s*(?P<rest>.*)")


def conda_requirement(text: str, place: Place) -> Requirement | None:
    """Read a match spec: "tensorflow-gpu=2.4", "tensorflow=2.19.*=cuda*", "python>=3.9,<3.11", "numpy 1.26"."""
    found = _SPEC.fullmatch(text.strip().strip("\"'"))
    if found is None:
        return None
    rest = found["rest"].strip()
    version, build = rest, None
    if split := re.fullmatch(r"(={1,2}[^=<>!~,]+|[\d.*]+)[= ]([\w*.]+)", rest):
        version, build = split.groups()
    return Requirement(
        name=found["name"].lower().replace("_", "-"),
        specifier=_specifier(version),
        place=place,
        text=text.strip(),
        installer="conda",
        build=build,
    )


def _specifier(version: str) -> str:
    """conda's "=2.4" is 2.4 and its patches, "==2.4" or "2.4" that alone; "|" has no counterpart, and asks nothing."""
    version = version.replace(" ", "")
    if not version or version == "*" or "|" in version:
        return ""
    if fuzzy := re.fullmatch(r"=([\d.]+)(?:\.?\*)?", version):
        return f"=={fuzzy[1].rstrip('.')}.*"
    if exact := re.fullmatch(r"(?:==)?([\d.]+\w*)", version):
        return f"=={exact[1]}"
    if starred := re.fullmatch(r"(?:==?)?([\d.]+?)\.?\*", version):
        return f"=={starred[1]}.*"
    return version


def is_environment(root: Node) -> bool:
    """Whether a YAML document is a conda environment."""
    return root.get("dependencies") is not None and root.get("services") is None


def read_environment(path: str, root: Node) -> tuple[Environment, ...]:
    """environment.yml: dependencies of conda, and of pip below them."""
    requirements: list[Requirement] = []
    not_understood: list[str] = []
    for item in root.items("dependencies"):
        place = Place(path, item.line)
        if item.text is not None:
            one = conda_requirement(item.text, place)
            if one:
                requirements.append(one)
            else:
                not_understood.append(f"{place}: no match spec: {item.text}")
            continue
        for line in item.items("pip"):
            inner = Place(path, line.line)
            try:
                found = pip_requirement(line.text or "", inner) if line.text else None
            except ValueError as error:
                not_understood.append(f"{inner}: {error}")
                continue
            if found:
                requirements.append(found)
    pythons = tuple(one for one in requirements if one.name == "python")
    return (
        Environment(
            kind="conda",
            label=path,
            place=Place(path, 1),
            python=pythons,
            requirements=tuple(one for one in requirements if one.name != "python"),
            channels=tuple(item.text for item in root.items("channels") if item.text),
            not_understood=tuple(not_understood),
        ),
    )
