"""Installed packages, as pip, conda, uv and poetry list them and as people paste parts of the lists.

>>> text = '''# packages in environment at D:\\\\Tools\\\\Miniconda3\\\\envs\\\\gpu27:
... #
... # Name                    Version                   Build  Channel
... astor                     0.7.1                     <pip>
... certifi                   2018.4.16                py36_0
... cudatoolkit               9.0                           1    anaconda
... $ pip freeze | grep tensor
... tensorflow-gpu==1.8.0'''
>>> for one in parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)]):
...     print(one.line, one.manager, one.name, one.version, one.build, one.channel, one.form)
4 pip astor 0.7.1 None None conda list
5 conda certifi 2018.4.16 py36_0 None conda list
6 conda cudatoolkit 9.0 1 anaconda conda list
8 pip tensorflow-gpu 1.8.0 None None freeze
>>> parse([Line(1, "accuracy  0.98"), Line(2, "loss      0.03"), Line(3, "tensorflow 2.13 is what I want")])
()

A row "name version" counts behind a header or a command, or in a run of rows of which one is a package everybody has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.parsers.text.lines import Line

LONGEST = 400  # characters; no row of a list is as long
_LIST_GOES_ON = 3  # lines that are no rows, after which a list is over
_SHOW = 8  # lines of `pip show` from the name to what follows it


@dataclass(frozen=True)
class Found:
    """One package in a list."""

    name: str  # normalised (PEP 503), but for conda's names that begin with an underscore
    version: str  # "" where the list does not tell it
    line: int
    manager: str  # "pip" or "conda": who installed it
    build: str | None = None  # conda's: "cuda112py310he87a039_0"
    channel: str | None = None  # conda's: "conda-forge"
    # which list: "pip list", "freeze" (or a requirements file), "pip show", "conda list", "environment" (a file, or
    # `conda env export`), "plan" (what conda or uv says that it installs), "poetry show"
    form: str = "pip list"
    location: str | None = None


_NAME = r"[A-Za-z_][A-Za-z0-9._-]{0,80}"
_VERSION = r"v?\d[A-Za-z0-9._+!]{0,60}(?:-\d{1,3}\b)?"
_ROW_BEGINS = re.compile(
    r"\s*(?:[-+*•~>`'\"]\s*){0,3}[A-Za-z_][\w.-]{0,80}(?:\[[\w, .-]{0,80}\])?"
    r"(?:\s+\(?!?\)?\s*v?\d|\s?==?\s?\d|\s@ |:\s|:$)"
)
_WORDS = ("pip", "conda", "mamba", "poetry", "::", ".tar.bz2", "Package", "Name", "----", "────")

_COMMAND = re.compile(
    r"(?:^|[\s$>#%!(;&|`\"'/\\])(?P<tool>uv pip|pip3?(?:\.\d+)?|pip\.exe|conda|mamba|micromamba|poetry) "
    r"(?P<what>list|freeze|show|env export)\b"
)
_PIP_HEADER = re.compile(r"\s*Package\s+Version(?:\s+(?:Latest|Type|Editable project location|Location|Installer))*\s*")
_CONDA_HEADER = re.compile(r"[\s#]*(?:packages in environment at .*|Name\s+Version\s+Build(?:\s+Channel)?\s*)")
_RULE = re.compile(r"[\s─-]*[─-]{3,}[\s─-]*")
_PROMPT = re.compile(
    r"\s*(?:>>>|In ?\[\d{0,4}\]|\(?[\w.@~:/\\ -]{0,60}\)?\s?[$#%]\s|[A-Z]:\\[^>]{0,80}>|\d{4}-\d\d-\d\d )"
)

_ROW = re.compile(rf"\s*(?P<name>{_NAME})(?P<gap>\s+)(?P<version>{_VERSION})(?P<rest>(?:\s+\S+){{0,3}})\s*")
_POETRY_ROW = re.compile(rf"\s*(?P<name>{_NAME})(?P<gap>\s+)(?:\(!\)\s+)?(?P<version>{_VERSION})(?P<rest>\s.*)")
_OLD_ROW = re.compile(rf"\s*(?P<name>{_NAME}) \((?P<version>{_VERSION})(?:, \S{{1,200}})?\)\s*")
_CONDA_ROW = re.compile(
    rf"\s*(?P<name>{_NAME})\s+(?P<version>{_VERSION})\s+(?P<build><pip>|[\w.*+-]{{1,60}})(?:\s+\[[\w ,]{{1,40}}\])?"
    r"(?:\s+(?P<channel>\S{1,200}))?\s*"
)
_MAMBA_ROW = re.compile(
    rf"\s*[+~]\s+(?P<name>{_NAME})\s+(?P<version>{_VERSION})\s+(?P<build>[\w.]{{1,60}})\s+(?P<channel>[\w.:/-]{{1,80}}?)"
    r"(?:/(?:linux|win|osx)-\w+|/noarch)(?:\s+\S+){0,2}\s*"
)
_STRONG_BUILD = re.compile(r"<pip>|pypi_\d|[\w.]*_\d{1,4}|py\d{2,3}\w*|h[0-9a-f]{6,}\w*")
_FREEZE = re.compile(
    rf"[\s\"'`*+~-]*(?P<name>{_NAME})(?:\[[\w, .-]{{0,80}}\])?(?P<gap>\s?)==\s?(?P<version>{_VERSION})(?P<wild>\.\*)?"
    r"[\"'`,]*\s*(?:\\|[;#].*|--hash.*)?\s*"
)
_IN_A_LINE = re.compile(rf"\s*(?P<name>{_NAME}) (?P<version>{_VERSION})\s*")  # "…==2.6.0, keras 2.11.0"
_AT_FILE = re.compile(
    rf"[\s\"'`*-]*(?P<name>{_NAME})(?:\[[\w,-]{{0,60}}\])? @ (?P<url>(?:file|https?|git\+\w+):\S+)(?:\s*;.*)?\s*"
)
_FILE_VERSION = re.compile(r"/[\w.]+-(\d[\w.+!%]*?)(?:-(?:cp|py|pp)\d|\.tar\.gz|\.zip)")
_EXPORT = re.compile(
    rf"[\s\"'`-]*(?:(?P<channel>[\w.-]{{1,40}})::)?(?P<name>{_NAME})={{1,2}}(?P<version>{_VERSION})(?P<wild>\.?\*)?"
    r"(?:=(?P<build>[\w.*]{1,60}))?[\"'`]*\s*(?:#.*)?\s*"
)
_DISTRIBUTION = re.compile(
    rf"(?P<channel>[\w.-]{{1,40}})(?:/(?:linux-\w+|win-\w+|osx-\w+|noarch))?::(?P<name>{_NAME}?)-(?P<version>\d[\w.!+]{{0,40}})"
    r"-(?P<build>[\w.]{1,60})"
)
_EXPLICIT = re.compile(
    rf"https?://\S{{1,200}}?/(?P<channel>[\w.-]{{1,40}})/(?:linux-\w+|win-\w+|osx-\w+|noarch)/(?P<name>{_NAME}?)"
    r"-(?P<version>\d[\w.!+]{0,40})-(?P<build>[\w.]{1,60}?)\.(?:conda|tar\.bz2)"
)
_PLAN = re.compile(
    rf"\s+(?P<name>{_NAME}): +(?P<version>\d[\w.!+]{{0,40}})-(?P<build>[\w.]{{1,60}})"
    r"(?:\s+(?P<channel>[\w.-]{1,40}))?\s*"
)
_FIELD = re.compile(r"[\s>*`-]*(?P<key>Name|Version|Location): (?P<value>\S.{0,300}?)\s*")
_SECTION = re.compile(r"\s*-?\s*(?P<key>dependencies|pip|channels|prefix|name|variables):.*")

# of these nearly every environment has one, so a run of rows with one of them is a list of packages
_KNOWN = re.compile(
    r"(?:tensorflow|tensorboard|keras|tf[-_]|nvidia[-_]|numpy|six|wheel|setuptools|pip$|protobuf|h5py|grpcio|absl[-_]|cudatoolkit"
    r"|cudnn|cuda[-_]|libcu|ml[-_]dtypes|opt[-_]einsum|scipy|pandas|certifi|requests|torch|jax|termcolor|astunparse|gast|flatbuffers"
    r"|google-|libclang|markdown|typing|wrapt|werkzeug|matplotlib|scikit|ipython|jupyter|_tflow|_libgcc|python$|openssl)",
    re.IGNORECASE,
)
_NEVER_PIP = re.compile(
    r"(?:python|cuda|cudnn|ubuntu|debian|windows|linux|driver|gcc|nvcc|conda version)$", re.IGNORECASE
)


def normalised(name: str) -> str:
    """The name as PEP 503 compares it; conda's own "_tflow_select" stays as it is.

    >>> normalised("Nvidia_cuDNN.cu12"), normalised("_tflow_select")
    ('nvidia-cudnn-cu12', '_tflow_select')
    """
    return name.lower() if name.startswith("_") else re.sub(r"[-_.]+", "-", name).lower()


def parse(lines: Sequence[Line]) -> tuple[Found, ...]:
    """Every package of every list, in the order of the text."""
    return tuple(_Reader(lines).read())


class _Reader:
    """Goes through the lines and knows in which list it stands."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._list = ""  # "pip list", "conda list", "poetry show", "environment"; empty outside of any
        self._others = 0  # lines since the last row
        self._in_pip = False  # the nested list of an environment file
        self._run: list[Found] = []  # rows that wait for a known package
        self._trusted = False

    def read(self) -> Iterator[Found]:
        for place, line in enumerate(self._lines):
            text = line.text
            if text.count("|", 0, LONGEST) >= 3 and text.lstrip().startswith("|"):
                text = text.replace("|", " ")  # a Markdown table
            if len(text) > LONGEST or not (_ROW_BEGINS.match(text) or any(word in text for word in _WORDS)):
                yield from self._no_row(text)
                continue
            found = self._sure(text, line.number, place)
            if found:
                yield from self._flush()
                yield from found
                self._others = 0
            elif self._opens(text):
                yield from self._flush()
            elif row := self._row(text, line.number):
                self._others = 0
                if self._list:
                    yield row
                else:
                    self._run.append(row)
                    self._trusted = self._trusted or row.form == "conda list" or bool(_KNOWN.match(row.name))
            else:
                yield from self._no_row(text)
        yield from self._flush()

    def _no_row(self, text: str) -> Iterator[Found]:
        if text.strip() and not _RULE.fullmatch(text[:LONGEST]):
            yield from self._flush()
            self._others += 1
            if self._others >= _LIST_GOES_ON or _PROMPT.match(text):
                self._list = ""

    def _flush(self) -> Iterator[Found]:
        """The rows that waited, where they turned out to be a list."""
        if self._trusted:
            yield from self._run
        self._run, self._trusted = [], False

    def _opens(self, text: str) -> bool:
        """Whether the line begins a list; a prompt with another command ends one."""
        if command := _COMMAND.search(text):
            self._list = {
                "conda": "conda list",
                "mamba": "conda list",
                "micromamba": "conda list",
                "poetry": "poetry show",
            }.get(command["tool"], "pip list")
            if command["what"] in ("show", "env export") and command["tool"] != "poetry":
                self._list = "environment" if command["what"] == "env export" else ""
        elif _PIP_HEADER.fullmatch(text):
            self._list = "pip list"
        elif _CONDA_HEADER.fullmatch(text):
            self._list = "conda list"
        elif section := _SECTION.fullmatch(text):
            self._in_pip = section["key"] == "pip"
            self._list = "environment" if section["key"] in ("dependencies", "pip") else ""
        elif _PROMPT.match(text):
            self._list = ""
            return False
        else:
            return False
        self._others = 0
        return True

    def _sure(self, text: str, number: int, place: int) -> list[Found]:
        """Rows that are packages wherever they stand."""
        match = _FREEZE.fullmatch(text)
        if match is None and "==" in text and "," in text:  # "tensorflow==2.6.0, keras==2.6.0"
            parts = [_FREEZE.fullmatch(part) for part in re.split(r"[,;] ?", text)]
            if parts[0] and not parts[0]["gap"]:
                others = [_IN_A_LINE.fullmatch(part) for part in re.split(r"[,;] ?", text)]
                rows = [freeze or other for freeze, other in zip(parts, others, strict=True)]
                return [_found(row, number, "pip", "freeze") for row in rows if row and _KNOWN.match(row["name"])]
        if match and (not match["gap"] or _KNOWN.match(match["name"])):
            begin = text.lstrip()[:2]
            if begin == "- " and self._list != "environment" and self._beside_plus(place):
                return []  # uv's "- keras==2.14.0" beside "+ keras==2.15.0" is gone
            inside = self._list == "environment" and not self._in_pip
            form = "environment" if self._list == "environment" else "plan" if begin in ("+ ", "~ ") else "freeze"
            return [_found(match, number, "conda" if inside else "pip", form)]
        if match := _AT_FILE.fullmatch(text):
            version = _FILE_VERSION.search(match["url"])
            return [Found(normalised(match["name"]), version[1] if version else "", number, "pip", form="freeze")]
        if self._list == "environment" and (match := _EXPORT.fullmatch(text)):
            return [_found(match, number, "conda", "environment")]
        if (match := _EXPORT.fullmatch(text)) and match["build"] and _STRONG_BUILD.fullmatch(match["build"]):
            return [_found(match, number, "conda", "environment")]
        if match := _MAMBA_ROW.fullmatch(text):
            return [_found(match, number, "conda", "plan")]
        if match := (_PLAN.fullmatch(text)):
            return [_found(match, number, "conda", "plan")] if _STRONG_BUILD.fullmatch(match["build"]) else []
        if "::" in text or "://" in text:
            named = [*_DISTRIBUTION.finditer(text), *_EXPLICIT.finditer(text)]
            return [_found(match, number, "conda", "plan") for match in named[-1:]]
        if field := _FIELD.fullmatch(text):
            return self._shown(field, number, place)
        return []

    def _beside_plus(self, place: int) -> bool:
        around = self._lines[max(0, place - 2) : place + 3]
        return any(line.text[:LONGEST].lstrip().startswith("+ ") for line in around)

    def _shown(self, field: re.Match[str], number: int, place: int) -> list[Found]:
        """`pip show`: a name, a version in the next lines, a location."""
        if field["key"] != "Name" or not re.fullmatch(_NAME, field["value"]):
            return []
        values: dict[str, str] = {}
        for line in self._lines[place + 1 : place + 1 + _SHOW]:
            if more := _FIELD.fullmatch(line.text[:LONGEST]):
                if more["key"] == "Name":
                    break
                values.setdefault(more["key"], more["value"])
        version = values.get("Version", "")
        if not re.fullmatch(_VERSION, version):
            return []
        location = values.get("Location")
        return [Found(normalised(field["value"]), version, number, "pip", form="pip show", location=location)]

    def _row(self, text: str, number: int) -> Found | None:
        """A row whose columns are apart by spaces; None when it may be anything."""
        conda = _CONDA_ROW.fullmatch(text) if self._list in ("", "conda list") else None
        among = self._list == "conda list" or (self._run and self._run[-1].form == "conda list")
        wide = conda and conda["build"].isdigit() and _KNOWN.match(conda["name"]) and re.search(r"\s{2}\S+\s{2}", text)
        if conda and (among or wide or _STRONG_BUILD.fullmatch(conda["build"])):
            pip = conda["build"] == "<pip>" or conda["build"].startswith("pypi_") or conda["channel"] == "pypi"
            return _found(conda, number, "pip" if pip else "conda", "conda list")
        if old := _OLD_ROW.fullmatch(text):
            return _found(old, number, "pip", "pip list")
        row = _ROW.fullmatch(text) or (_POETRY_ROW.match(text) if self._list == "poetry show" else None)
        if row is None or (self._list != "conda list" and _NEVER_PIP.match(row["name"])):
            return None
        if not self._list and (len(row["gap"]) < 2 or row["rest"] or "." not in row["version"]):
            return None
        if self._list == "conda list" and row["rest"]:
            return None
        manager = "conda" if self._list == "conda list" else "pip"
        columns = row["rest"].split() if self._list == "pip list" else []
        where = columns[0] if columns and ("/" in columns[0] or "\\" in columns[0]) else None
        form = self._list if self._list in ("conda list", "poetry show") else "pip list"
        return Found(normalised(row["name"]), row["version"], number, manager, form=form, location=where)


def _found(match: re.Match[str], number: int, manager: str, form: str) -> Found:
    values = match.groupdict()
    build = values.get("build") if manager == "conda" else None
    channel = values.get("channel") if manager == "conda" else None
    version = f"{match['version']}.*" if values.get("wild") else match["version"]
    return Found(
        normalised(match["name"]), version, number, manager, build, channel.split("/")[-1] if channel else None, form
    )
