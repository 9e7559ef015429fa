"""Install commands that a text shows: what somebody asked pip, conda, apt and others to install.

>>> text = '''$ pip3 install --upgrade 'tensorflow[and-cuda]==2.15.1' numpy -i https://mirror.example/simple
... (tf) user@host:~$ CONDA_OVERRIDE_CUDA="11.2" mamba install -y tensorflow=2.11.0 cudnn -c conda-forge
... RUN apt-get install -yqq libsm6 nvidia-driver-535 && pip install keras'''
>>> for one in parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)]):
...     print(one.line, one.tool, one.packages, one.options)
1 pip ('tensorflow[and-cuda]==2.15.1', 'numpy') ('--upgrade', '-i https://mirror.example/simple')
2 mamba ('tensorflow=2.11.0', 'cudnn') ('-y', '-c conda-forge')
3 apt ('libsm6', 'nvidia-driver-535') ('-yqq',)
3 pip ('keras',) ()

A command shows what was asked for, not what came of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.parsers.text.lines import Line

LONGEST = 1000
_MOST = 60  # words of one command

_COMMAND = re.compile(
    r"(?:^|[\s$#>%!(;&|`\"'/\\.])(?:(?P<pip>uv pip|pip3?(?:\.\d{1,2})?(?:\.exe)?|python[\d.]{0,5}(?:\.exe)? -m pip)"
    r"|(?P<conda>conda|mamba|micromamba)|(?P<apt>apt-get|apt|aptitude|dnf|yum|zypper)|(?P<other>uv|poetry|pipenv|pdm|pixi))"
    r"(?: +-{1,2}[\w-]{1,30})* +(?P<verb>install|create|uninstall|remove|add|download)\b(?P<rest>[^\n]*)"
)
_MARKERS = (" install", " create", " add ", " uninstall", " remove", " download")
_WORD = re.compile(
    r"\"(?P<double>[^\"]{0,200})\"|'(?P<single>[^']{0,200})'|(?P<end>&&|\|\||[;|`#>]|\\$)|(?P<plain>[^\s;|`&\"']{1,300})"
)
_TAKES_A_WORD = frozenset(
    (
        *(
            "-i",
            "--index-url",
            "--extra-index-url",
            "-f",
            "--find-links",
            "--trusted-host",
            "--timeout",
            "--target",
            "-t",
        ),
        *("--prefix", "-p", "--python", "--proxy", "-n", "--name", "-c", "--channel", "-r", "--requirement", "--root"),
        *("--constraint", "--platform", "--file", "--index", "-o", "--solver", "--group", "--extra"),
    )
)
_PACKAGE = re.compile(
    r"(?:[\w.-]{1,40}::)?[A-Za-z_~./][\w.+:/@\\~-]{0,250}(?:\[[\w, .-]{0,80}\])?"
    r"(?:\s?[=<>!~]{1,3}\s?[\w.*,<>=! -]{1,80})?"
)
_PLAIN_WORD = re.compile(r"[A-Za-z]+[.,:)]*|\(.*")


@dataclass(frozen=True)
class InstallCommand:
    """One command, as it was typed."""

    tool: str  # "pip", "uv pip", "conda", "mamba", "apt", "dnf", "uv", "poetry" ...
    verb: str  # "install", "uninstall", "create", "remove", "add", "download"
    packages: tuple[str, ...]  # requirements as typed, wheels and folders, too
    options: tuple[str, ...]  # with their values: "-c conda-forge"
    line: int


def parse(lines: Sequence[Line]) -> tuple[InstallCommand, ...]:
    """Every command that installs or removes packages, in the order of the text."""
    return tuple(
        command
        for line in lines
        if any(marker in line.text for marker in _MARKERS)
        for command in _of_text(line.text[:LONGEST], line.number)
    )


def _of_text(text: str, number: int) -> Iterator[InstallCommand]:
    for _ in range(8):  # commands joined by && on one line
        match = _COMMAND.search(text)
        if match is None:
            return
        packages, options, left = _words(match["rest"])
        if packages or options:
            yield InstallCommand(_tool(match), match["verb"], packages, options, number)
        text = left


def _tool(match: re.Match[str]) -> str:
    if match["pip"]:
        return "uv pip" if match["pip"].startswith("uv") else "pip"
    if match["apt"]:
        return match["apt"].removesuffix("-get")
    return str(match["conda"] or match["other"])


def _words(rest: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Packages, options and what follows the command on its line; no packages out of a sentence."""
    packages: list[str] = []
    options: list[str] = []
    waiting = False
    end = 0
    for place, word in enumerate(_WORD.finditer(rest)):
        if word["end"] or place >= _MOST:
            break
        end = word.end()
        text = word["double"] or word["single"] or word["plain"] or ""
        if waiting:
            options[-1] += f" {text}"
            waiting = False
        elif text.startswith("-"):
            options.append(text)
            waiting = text in _TAKES_A_WORD
        elif text:
            if not _PACKAGE.fullmatch(text):
                break
            packages.append(text.rstrip(".,:)") or text)
    prose = not options and len(packages) > 3 and all(map(_PLAIN_WORD.fullmatch, packages))
    return (() if prose else tuple(packages)), tuple(options), rest[end:]
