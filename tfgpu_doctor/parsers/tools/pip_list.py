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
...     print(one.line, one.manager, one.name, one.version, one.build, one.channel, one.listing)
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

from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.parsers.tools.package_rows import (
    CONDA_ROW,
    FREEZE,
    KNOWN,
    NAME,
    NEVER_PIP,
    OLD_ROW,
    POETRY_ROW,
    ROW,
    STRONG_BUILD,
    VERSION,
    ListedPackage,
    direct_reference,
    exported,
    listed,
    normalised,
    pinned_in_one_line,
    planned,
)

LONGEST = 400  # characters; no row of a list is as long
_LIST_GOES_ON = 3  # lines that are no rows, after which a list is over
_SHOW = 8  # lines of `pip show` from the name to what follows it


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
_RULE = re.compile(r"(?=[\s─-]*[─-]{3})[\s─-]*")
_PROMPT = re.compile(
    r"\s*(?:>>>|In ?\[\d{0,4}\]|\(?[\w.@~:/\\ -]{0,60}\)?\s?[$#%]\s|[A-Z]:\\[^>]{0,80}>|\d{4}-\d\d-\d\d )"
)

_FIELD = re.compile(r"[\s>*`-]*(?P<key>Name|Version|Location): (?P<value>\S.{0,300}?)\s*")
_SECTION = re.compile(r"\s*-?\s*(?P<key>dependencies|pip|channels|prefix|name|variables):.*")


def parse(lines: Sequence[Line]) -> tuple[ListedPackage, ...]:
    """Every package of every list, in the order of the text."""
    return tuple(_Reader(lines).read())


class _Reader:
    """Goes through the lines and knows in which list it stands."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._list = ""  # "pip list", "conda list", "poetry show", "environment"; empty outside of any
        self._others = 0  # lines since the last row
        self._in_pip = False  # the nested list of an environment file
        self._run: list[ListedPackage] = []  # rows that wait for a known package
        self._trusted = False

    def read(self) -> Iterator[ListedPackage]:
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
                    self._trusted = self._trusted or row.listing == "conda list" or bool(KNOWN.match(row.name))
            else:
                yield from self._no_row(text)
        yield from self._flush()

    def _no_row(self, text: str) -> Iterator[ListedPackage]:
        if text.strip() and not _RULE.fullmatch(text[:LONGEST]):
            yield from self._flush()
            self._others += 1
            if self._others >= _LIST_GOES_ON or _PROMPT.match(text):
                self._list = ""

    def _flush(self) -> Iterator[ListedPackage]:
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

    def _sure(self, text: str, number: int, place: int) -> list[ListedPackage]:
        """Rows that are packages wherever they stand."""
        return (
            self._pinned(text, number, place)
            or direct_reference(text, number)
            or exported(text, number, inside=self._list == "environment")
            or planned(text, number)
            or self._shown(text, number, place)
        )

    def _pinned(self, text: str, number: int, place: int) -> list[ListedPackage]:
        """A row of `pip freeze`, alone or among others in one line."""
        match = FREEZE.fullmatch(text)
        if match is None:
            return pinned_in_one_line(text, number)
        if match["gap"] and not KNOWN.match(match["name"]):
            return []
        begin = text.lstrip()[:2]
        if self._list == "environment":
            return [listed(match, number, "pip" if self._in_pip else "conda", "environment")]
        if begin == "- " and self._beside_plus(place):
            return []  # uv's "- keras==2.14.0" beside "+ keras==2.15.0" is gone
        return [listed(match, number, "pip", "plan" if begin in ("+ ", "~ ") else "freeze")]

    def _beside_plus(self, place: int) -> bool:
        around = self._lines[max(0, place - 2) : place + 3]
        return any(line.text[:LONGEST].lstrip().startswith("+ ") for line in around)

    def _shown(self, text: str, number: int, place: int) -> list[ListedPackage]:
        """`pip show`: a name, a version in the next lines, a location."""
        field = _FIELD.fullmatch(text)
        if field is None or field["key"] != "Name" or not re.fullmatch(NAME, field["value"]):
            return []
        values: dict[str, str] = {}
        for line in self._lines[place + 1 : place + 1 + _SHOW]:
            if more := _FIELD.fullmatch(line.text[:LONGEST]):
                if more["key"] == "Name":
                    break
                values.setdefault(more["key"], more["value"])
        version = values.get("Version", "")
        if not re.fullmatch(VERSION, version):
            return []
        location = values.get("Location")
        return [
            ListedPackage(normalised(field["value"]), version, number, "pip", listing="pip show", location=location)
        ]

    def _row(self, text: str, number: int) -> ListedPackage | None:
        """A row whose columns are apart by spaces; None when it may be anything."""
        if conda := self._conda_row(text):
            pip = conda["build"] == "<pip>" or conda["build"].startswith("pypi_") or conda["channel"] == "pypi"
            return listed(conda, number, "pip" if pip else "conda", "conda list")
        if old := OLD_ROW.fullmatch(text):
            return listed(old, number, "pip", "pip list")
        row = ROW.fullmatch(text) or (POETRY_ROW.match(text) if self._list == "poetry show" else None)
        if row is None or not self._is_plausible(row):
            return None
        manager = "conda" if self._list == "conda list" else "pip"
        listing = self._list if self._list in ("conda list", "poetry show") else "pip list"
        location = _location(row["rest"]) if self._list == "pip list" else None
        return ListedPackage(
            normalised(row["name"]), row["version"], number, manager, listing=listing, location=location
        )

    def _conda_row(self, text: str) -> re.Match[str] | None:
        """A row of `conda list`: by its place, its build string, or a known package in wide columns."""
        row = CONDA_ROW.fullmatch(text) if self._list in ("", "conda list") else None
        if row is None:
            return None
        among = self._list == "conda list" or (self._run and self._run[-1].listing == "conda list")
        wide = row["build"].isdigit() and KNOWN.match(row["name"]) and re.search(r"\s{2}\S+\s{2}", text)
        return row if among or wide or STRONG_BUILD.fullmatch(row["build"]) else None

    def _is_plausible(self, row: re.Match[str]) -> bool:
        """Whether a name and a version are a package; outside of a list they may be anything."""
        if self._list == "conda list":
            return not row["rest"]
        if NEVER_PIP.match(row["name"]):
            return False
        return bool(self._list) or (len(row["gap"]) >= 2 and not row["rest"] and "." in row["version"])


def _location(rest: str) -> str | None:
    """The folder of an editable install, in the column behind the version."""
    first = next(iter(rest.split()), "")
    return first if "/" in first or "\\" in first else None
