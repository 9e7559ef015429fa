"""conda's match specs, and environment.yml."""

from __future__ import annotations

import re
from dataclasses import replace

from tfgpu_doctor.manifests import Environment, Place, Requirement, Setting
from tfgpu_doctor.manifests.nodes import Node
from tfgpu_doctor.manifests.pip import LONGEST, Include, Lines
from tfgpu_doctor.manifests.versions import conda_specifier

# conda's documentation, "Package match specifications"
_SPEC = re.compile(r"(?P<name>[A-Za-z0-9_][\w.-]*)\s*(?:\[(?P<keys>[^\]]*)\])?(?P<rest>.*)", re.DOTALL)
_BUILD = re.compile(
    r"(?P<version>(?:={1,2}[^=<>!~,\s]+|[\w.*|]+)(?==|\s)|[<>!~]\S*(?=\s))[=\s]\s*(?P<build>[\w.*]*[a-zA-Z*][\w.*]*|\d+)"
)
_KEY = re.compile(r"(version|build)\s*=\s*(?:'([^']*)'|\"([^\"]*)\"|([^,\s]+))")


def conda_requirement(text: str, place: Place) -> Requirement:
    """Read a match spec: "tensorflow-gpu=2.4", "tensorflow=2.19.*=cuda*", "python>=3.9,<3.11", "numpy 1.26".

    Raises:
        ValueError: it is none, or its version has no counterpart in PEP 440.
    """
    plain = text.strip().strip("\"'")
    found = _SPEC.fullmatch(plain.rpartition("::")[2])
    if found is None or len(plain) > LONGEST:
        raise ValueError(f"no match spec: {text.strip()[:80]}")
    keys = {name: next(filter(None, values), "") for name, *values in _KEY.findall(found["keys"] or "")}
    version, build = found["rest"].strip(), keys.get("build")
    if split := _BUILD.fullmatch(version):
        version, build = split["version"], split["build"]
    return Requirement(
        name=found["name"].lower().replace("_", "-"),
        specifier=conda_specifier(keys.get("version", version)),
        place=place,
        text=text.strip(),
        installer="conda",
        build=build,
    )


def is_environment(root: Node) -> bool:
    """Whether a YAML document is a conda environment."""
    return root.get("dependencies") is not None and root.get("services") is None


def read_environment(path: str, root: Node, include: Include) -> tuple[Environment, ...]:
    """environment.yml: dependencies of conda, of pip below them, and variables.

    Raises:
        ManifestError: a key stands twice, or the file is a template.
    """
    requirements: list[Requirement] = []
    not_understood: list[str] = []
    pip = Lines(path, include)
    for item in root.items("dependencies"):
        if item.text is not None:
            try:
                requirements.append(conda_requirement(item.text, item.place))
            except ValueError as error:
                not_understood.append(f"{item.place}: {error}")
        for line in item.items("pip"):
            for number, text in enumerate((line.text or "").splitlines()):
                pip.take(text.strip(), replace(line.place, line=line.line + number))
    requirements += pip.found()
    variables = root.get("variables")
    return (
        Environment(
            kind="conda",
            label=path,
            place=Place(path, 1),
            python=tuple(one for one in requirements if one.name == "python"),
            requirements=tuple(one for one in requirements if one.name != "python"),
            settings=tuple(
                Setting(name, node.text, node.place)
                for name, node in (variables.pairs() if variables else ())
                if node.text is not None
            ),
            channels=tuple(item.text for item in root.items("channels") if item.text),
            not_understood=(*not_understood, *pip.not_understood),
        ),
    )
