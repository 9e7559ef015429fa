"""Files that name the Python of a project: .python-version, runtime.txt, .tool-versions."""

from __future__ import annotations

import re

from tfgpu_doctor.manifests import Environment, Place, Requirement

_VERSION = re.compile(
    r"(?:(?:cpython|python)[-@ \t]{0,5})?(?P<version>[23]\.\d{1,2})(?P<patch>\.\d{1,3})?[a-z]?\d{0,2}"
)


def read_python_file(path: str, text: str) -> tuple[Environment, ...]:
    """The first version that stands there; the others are not used unless asked for."""
    tools = path.endswith(".tool-versions")
    for number, line in enumerate(text.splitlines()[:1000], 1):
        bare = line.partition("#")[0].strip()
        if bare.startswith("python ") and tools:
            bare = " ".join(bare.split()[:2])
        elif tools:
            continue
        if found := _VERSION.fullmatch(bare[:100]):
            place = Place(path, number)
            python = Requirement("python", f"=={found['version']}.*", place, bare)
            return (Environment(kind="python", label=path, place=place, python=(python,)),)
    note = f"{path}: it names no version of Python"
    return (Environment(kind="python", label=path, place=Place(path, 1), not_understood=(note,)),)
