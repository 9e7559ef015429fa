"""One package in one line, in the forms that pip, conda, uv and poetry print. What needs no context is decided here."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = r"[A-Za-z_][A-Za-z0-9._-]{0,80}"
VERSION = r"v?\d[A-Za-z0-9._+!]{0,60}(?:-\d{1,3}\b)?"
ROW = re.compile(rf"\s*(?P<name>{NAME})(?P<gap>\s+)(?P<version>{VERSION})(?P<rest>(?:\s+\S+){{0,3}})\s*")
POETRY_ROW = re.compile(rf"\s*(?P<name>{NAME})(?P<gap>\s+)(?:\(!\)\s+)?(?P<version>{VERSION})(?P<rest>\s.*)")
OLD_ROW = re.compile(rf"\s*(?P<name>{NAME}) \((?P<version>{VERSION})(?:, \S{{1,200}})?\)\s*")
CONDA_ROW = re.compile(
    rf"\s*(?P<name>{NAME})\s+(?P<version>{VERSION})\s+(?P<build><pip>|[\w.*+-]{{1,60}})(?:\s+\[[\w ,]{{1,40}}\])?"
    r"(?:\s+(?P<channel>\S{1,200}))?\s*"
)
_MAMBA_ROW = re.compile(
    rf"\s*[+~]\s+(?P<name>{NAME})\s+(?P<version>{VERSION})\s+(?P<build>[\w.]{{1,60}})\s+(?P<channel>[\w.:/-]{{1,80}}?)"
    r"(?:/(?:linux|win|osx)-\w+|/noarch)(?:\s+\S+){0,2}\s*"
)
STRONG_BUILD = re.compile(r"<pip>|pypi_\d|[\w.]*_\d{1,4}|py\d{2}\w*|h[0-9a-f]{6}\w*")
FREEZE = re.compile(
    rf"[\s\"'`*+~-]*(?P<name>{NAME})(?:\[[\w, .-]{{0,80}}\])?(?P<gap>\s?)==\s?(?P<version>{VERSION})(?P<wild>\.\*)?"
    r"[\"'`,]*\s*(?:\\|[;#].*|--hash.*)?\s*"
)
_IN_A_LINE = re.compile(rf"\s*(?P<name>{NAME}) (?P<version>{VERSION})\s*")  # "…==2.6.0, keras 2.11.0"
_AT_FILE = re.compile(
    rf"[\s\"'`*-]*(?P<name>{NAME})(?:\[[\w,-]{{0,60}}\])? @ (?P<url>(?:file|https?|git\+\w+):\S+)(?:\s*;.*)?\s*"
)
_FILE_VERSION = re.compile(r"/[\w.]+-(\d[\w.+!%]*?)(?:-(?:cp|py|pp)\d|\.tar\.gz|\.zip)")
_EXPORT = re.compile(
    rf"[\s\"'`-]*(?:(?P<channel>[\w.-]{{1,40}})::)?(?P<name>{NAME})={{1,2}}(?P<version>{VERSION})(?P<wild>\.?\*)?"
    r"(?:=(?P<build>[\w.*]{1,60}))?[\"'`]*\s*(?:#.*)?\s*"
)
_DISTRIBUTION = re.compile(
    rf"(?P<channel>[\w.-]{{1,40}})(?:/(?:linux-\w+|win-\w+|osx-\w+|noarch))?::(?P<name>{NAME}?)-(?P<version>\d[\w.!+]{{0,40}})"
    r"-(?P<build>[\w.]{1,60})"
)
_EXPLICIT = re.compile(
    rf"https?://\S{{1,200}}?/(?P<channel>[\w.-]{{1,40}})/(?:linux-\w+|win-\w+|osx-\w+|noarch)/(?P<name>{NAME}?)"
    r"-(?P<version>\d[\w.!+]{0,40})-(?P<build>[\w.]{1,60}?)\.(?:conda|tar\.bz2)"
)
_PLAN = re.compile(
    rf"\s+(?P<name>{NAME}): +(?P<version>\d[\w.!+]{{0,40}})-(?P<build>[\w.]{{1,60}})"
    r"(?:\s+(?P<channel>[\w.-]{1,40}))?\s*"
)

# of these nearly every environment has one, so a run of rows with one of them is a list of packages
KNOWN = re.compile(
    r"(?:tensorflow|tensorboard|keras|tf[-_]|nvidia[-_]|numpy|six|wheel|setuptools|pip$|protobuf|h5py|grpcio|absl[-_]|cudatoolkit"
    r"|cudnn|cuda[-_]|libcu|ml[-_]dtypes|opt[-_]einsum|scipy|pandas|certifi|requests|torch|jax|termcolor|astunparse|gast|flatbuffers"
    r"|google-|libclang|markdown|typing|wrapt|werkzeug|matplotlib|scikit|ipython|jupyter|_tflow|_libgcc|python$|openssl)",
    re.IGNORECASE,
)
NEVER_PIP = re.compile(
    r"(?:python|cuda|cudnn|ubuntu|debian|windows|linux|driver|gcc|nvcc|conda version)$", re.IGNORECASE
)


@dataclass(frozen=True)
class ListedPackage:
    """One package in a list."""

    name: str  # normalised (PEP 503), but for conda's names that begin with an underscore
    version: str  # "" where the list does not tell it
    line: int
    manager: str  # "pip" or "conda": who installed it
    build: str | None = None  # conda's: "cuda112py310he87a039_0"
    channel: str | None = None  # conda's: "conda-forge"
    # which list: "pip list", "freeze" (or a requirements file), "pip show", "conda list", "environment" (a file, or
    # `conda env export`), "plan" (what conda or uv says that it installs), "poetry show"
    listing: str = "pip list"
    location: str | None = None


def normalised(name: str) -> str:
    """The name as PEP 503 compares it; conda's own "_tflow_select" stays as it is.

    >>> normalised("Nvidia_cuDNN.cu12"), normalised("_tflow_select")
    ('nvidia-cudnn-cu12', '_tflow_select')
    """
    return name.lower() if name.startswith("_") else re.sub(r"[-_.]+", "-", name).lower()


def pinned_in_one_line(text: str, number: int) -> list[ListedPackage]:
    """ "tensorflow==2.6.0, keras==2.6.0"; of the later ones a space may do."""
    if "==" not in text or "," not in text:
        return []
    parts = re.split(r"[,;] ?", text)
    first = FREEZE.fullmatch(parts[0])
    if first is None or first["gap"]:
        return []
    rows = (FREEZE.fullmatch(part) or _IN_A_LINE.fullmatch(part) for part in parts)
    return [listed(row, number, "pip", "freeze") for row in rows if row and KNOWN.match(row["name"])]


def direct_reference(text: str, number: int) -> list[ListedPackage]:
    """ "numpy @ file:///wheels/numpy-1.26.4-cp311-cp311-linux_x86_64.whl"."""
    match = _AT_FILE.fullmatch(text)
    if match is None:
        return []
    version = _FILE_VERSION.search(match["url"])
    return [ListedPackage(normalised(match["name"]), version[1] if version else "", number, "pip", listing="freeze")]


def exported(text: str, number: int, *, inside: bool) -> list[ListedPackage]:
    """A line of an environment file; outside of one its build string must tell."""
    match = _EXPORT.fullmatch(text)
    if match and (inside or (match["build"] and STRONG_BUILD.fullmatch(match["build"]))):
        return [listed(match, number, "conda", "environment")]
    return []


def planned(text: str, number: int) -> list[ListedPackage]:
    """What conda or mamba says that it installs."""
    if match := _MAMBA_ROW.fullmatch(text):
        return [listed(match, number, "conda", "plan")]
    if match := _PLAN.fullmatch(text):
        return [listed(match, number, "conda", "plan")] if STRONG_BUILD.fullmatch(match["build"]) else []
    if "::" in text or "://" in text:
        named = [*_DISTRIBUTION.finditer(text), *_EXPLICIT.finditer(text)]
        return [listed(match, number, "conda", "plan") for match in named[-1:]]
    return []


def listed(match: re.Match[str], number: int, manager: str, listing: str) -> ListedPackage:
    values = match.groupdict()
    build = values.get("build") if manager == "conda" else None
    channel = values.get("channel") if manager == "conda" else None
    return ListedPackage(
        normalised(match["name"]),
        f"{match['version']}.*" if values.get("wild") else match["version"],
        number,
        manager,
        build,
        channel.split("/")[-1] if channel else None,
        listing,
    )
