"""One requirement, as pip, conda and Poetry write it; their versions in PEP 440."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from packaging.requirements import Requirement as Parsed
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tfgpu_doctor.manifests import Place, Requirement, without_password


def poetry_specifier(version: str) -> str:
    """Poetry's "^2.15" is >=2.15,<3, "~2.15" is >=2.15,<2.16, a bare "2.15.1" that version.

    Raises ValueError: it has no counterpart.
    """
    return _specifier(version.strip(), _one_poetry)


def _specifier(text: str, one: Callable[[str], str]) -> str:
    """A specifier in PEP 440, each of its parts by `one`."""
    if "|" in text:
        raise ValueError("alternatives have no counterpart in a requirement")
    parts = re.split(r",|(?<=[\d*])\s+(?=[<>=!~^])", text)
    found = ",".join(filter(None, (one(part.strip()) for part in parts)))
    try:
        SpecifierSet(found)
    except ValueError as error:
        raise ValueError("not a valid version specifier") from error
    return found


def _one_conda(part: str) -> str:
    """conda's "=2.4" is 2.4 and its patches, "==2.4" or "2.4" that alone."""
    if part.lstrip("=") in ("", "*") and not part.endswith("="):
        return ""
    if found := re.fullmatch(r"={0,2}(\d+(?:\.\d+)*)\.?\*|=(\d+(?:\.\d+)*)", part):
        return f"=={found[1] or found[2]}.*"
    if found := re.fullmatch(r"={0,2}([\w.+!]+)", part):
        try:
            Version(part.lstrip("="))
        except ValueError:  # "9b", "1.1.1w"
            return f"==={found[1]}"
        return f"=={found[1]}"
    return part


def _one_poetry(part: str) -> str:
    if part in ("", "*"):
        return ""
    found = re.fullmatch(r"(\^|~(?!=)|==?|)\s*v?(\d+(?:\.\d+)*)(?!\.?\d)(\.\*)?([\w.+-]*)", part)
    if found is None:
        return part
    sign, number, star, rest = found.groups()
    count = len(number.split("."))
    if sign == "^":
        fixed = next((index for index, digit in enumerate(number.split(".")) if int(digit)), count - 1)
        return f">={number}{rest},<{_next(number, fixed)}"
    if sign == "~":
        return f">={number}{rest},<{_next(number, min(1, count - 1))}"
    return f"=={number}{star or ''}{rest}"


def _next(number: str, place: int) -> str:
    """The number with one more at a place, and nothing behind it."""
    digits = number.split(".")
    return ".".join([*digits[:place], str(int(digits[place]) + 1)])


LONGEST = 2_000  # characters of one requirement, without its options
_OPTION_OF_INDEX = re.compile(
    r"(?:^|\s)(?:-i|--(?:extra-)?index-url|--index|--default-index|-f|--find-links)[\s=]+['\"]?(\S+?)['\"]?(?=\s|$)"
)
# mirrors of the usual index have its name in theirs; NVIDIA's and those of these projects hold no TensorFlow
_USUAL_INDEX = re.compile(r"pypi|pytorch|jax-|libtpu|pyg\.org|dgl\.ai|openmmlab|fbaipublicfiles", re.IGNORECASE)
_USUAL_CHANNELS = ("conda-forge", "defaults", "main", "anaconda", "pkgs/main", "")


def other_index(text: str) -> str:
    """The index that the options of a pip command or of a list name beside the usual one, or nothing."""
    named = (found[1] for found in _OPTION_OF_INDEX.finditer(text) if "://" in found[1])
    return without_password(next((one for one in named if not _USUAL_INDEX.search(one)), ""))


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
        is_path = re.match(r"\w[\w.-]*/", text)
        raise ValueError("a folder or a file, which is not read" if is_path else str(error).splitlines()[0]) from error
    except RecursionError as error:
        raise ValueError("its marker is nested too deeply") from error
    if parsed.url and (wheel := _wheel(parsed.url, place)) is not None:
        name = canonicalize_name(parsed.name)
        elsewhere = "" if wheel.name == name else "a file of another name"
        return replace(wheel, name=name, text=without_password(text), elsewhere=elsewhere)
    return Requirement(
        name=canonicalize_name(parsed.name),
        specifier=str(parsed.specifier),
        place=place,
        text=text,
        extras=tuple(sorted(map(canonicalize_name, parsed.extras))),  # and_cuda, as pip has it since 23.3
        marker=marker,
        elsewhere="a local version" if "+" in str(parsed.specifier) else "",
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
    return Requirement(name=name, specifier=f"=={version}", place=place, text=without_password(address))


def conda_requirement(text: str, place: Place) -> Requirement:
    """Read a match spec: "tensorflow-gpu=2.4", "tensorflow=2.19.*=cuda*", "python>=3.9,<3.11", "numpy 1.26".

    Raises ValueError: it is none, or its version has no counterpart in PEP 440.
    """
    plain = text.strip().strip("\"'")
    channel, _, spec = plain.rpartition("::")
    found = _SPEC.fullmatch(spec)
    if found is None or len(plain) > LONGEST:
        raise ValueError("not a conda match specification")
    keys = {name: next(filter(None, values), "") for name, *values in _KEY.findall(found["keys"] or "")}
    version, build = found["rest"].strip(), keys.get("build")
    if split := _BUILD.fullmatch(version):
        version, build = split["version"], split["build"]
    return Requirement(
        name=found["name"].lower().replace("_", "-"),
        specifier=_specifier(re.sub(r"\s", "", keys.get("version", version)), _one_conda),
        place=place,
        text=text.strip(),
        installer="conda",
        build=build,
        elsewhere="" if channel in _USUAL_CHANNELS else f"the channel {channel}",
    )
