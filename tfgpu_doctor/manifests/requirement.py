"""One requirement, as pip, conda or `conda list --export` writes it."""

from __future__ import annotations

import re
from dataclasses import replace

from packaging.requirements import Requirement as Parsed
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from tfgpu_doctor.manifests import Place, Requirement
from tfgpu_doctor.manifests.versions import conda_specifier

LONGEST = 2_000  # characters of one requirement, without its options
_NOT_A_NAME = re.compile(r"-|\.{1,2}(?:/|$|\[)|/|[a-z]+://|[a-z]+\+|\$")
# conda's documentation, "Package match specifications"
_SPEC = re.compile(r"(?P<name>[A-Za-z0-9_][\w.-]*)\s*(?:\[(?P<keys>[^\]]*)\])?(?P<rest>.*)", re.DOTALL)
_BUILD = re.compile(
    r"(?P<version>(?:={1,2}[^=<>!~,\s]+|[\w.*|]+)(?==|\s)|[<>!~]\S*(?=\s))[=\s]\s*(?P<build>[\w.*]*[a-zA-Z*][\w.*]*|\d+)"
)
_KEY = re.compile(r"(version|build)\s*=\s*(?:'([^']*)'|\"([^\"]*)\"|([^,\s]+))")


def pip_requirement(text: str, place: Place) -> Requirement | None:
    """Read one requirement; None for a path, an address or an option, which name nothing that the matrix knows.

    Raises ValueError: neither of these.
    """
    if len(text) > LONGEST:
        raise ValueError(f"the requirement is too long: {len(text)} characters")
    if (wheel := _wheel(text, place)) is not None:
        return wheel
    if _NOT_A_NAME.match(text):
        return None
    try:
        parsed = Parsed(text)
        marker = str(parsed.marker) if parsed.marker else None
    except ValueError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    except RecursionError as error:
        raise ValueError("its marker is nested too deeply") from error
    if parsed.url and (wheel := _wheel(parsed.url, place)) is not None:
        return replace(wheel, name=canonicalize_name(parsed.name), text=text)
    return Requirement(
        name=canonicalize_name(parsed.name),
        specifier=str(parsed.specifier),
        place=place,
        text=text,
        extras=tuple(sorted(parsed.extras)),
        marker=marker,
    )


def _wheel(address: str, place: Place) -> Requirement | None:
    """A wheel by its file name: ".../tensorflow_gpu-1.6.0-cp35-cp35m-linux_x86_64.whl"."""
    file = re.sub(r"[#?;\s].*$", "", address, flags=re.DOTALL).rsplit("/", 1)[-1]
    if not file.endswith(".whl"):
        return None
    try:
        name, version, *_ = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return None
    return Requirement(name=name, specifier=f"=={version}", place=place, text=address)


def conda_requirement(text: str, place: Place) -> Requirement:
    """Read a match spec: "tensorflow-gpu=2.4", "tensorflow=2.19.*=cuda*", "python>=3.9,<3.11", "numpy 1.26".

    Raises ValueError: it is none, or its version has no counterpart in PEP 440.
    """
    plain = text.strip().strip("\"'")
    found = _SPEC.fullmatch(plain.rpartition("::")[2])
    if found is None or len(plain) > LONGEST:
        raise ValueError("not a conda match specification")
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


def exported_requirement(line: str, place: Place) -> Requirement:
    """A line of `conda list --export`; the build pypi_0 marks what pip installed."""
    name, version, build = line.split("=")
    if build.startswith("pypi"):
        return Requirement(canonicalize_name(name), f"=={version}", place, line)
    return conda_requirement(line, place)
