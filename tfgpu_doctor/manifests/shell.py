"""The shell commands of a RUN line: what they install with pip, uv, conda and apt."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from tfgpu_doctor.manifests import Place, Requirement
from tfgpu_doctor.manifests.conda import conda_requirement
from tfgpu_doctor.manifests.pip import pip_requirement

_SEPARATORS = re.compile(r"&&|\|\||[;|&\n]")
_PIP = re.compile(r"(?:\S*/)?pip[\d.]*")
_PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")
_CONDA = re.compile(r"(?:\S*/)?(?:conda|mamba|micromamba)")
# options of pip, uv, conda and apt that take a word of their own
_WITH_WORD = frozenset(
    (
        *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--timeout", "--retries"),
        *("--target", "-t", "--prefix", "--python", "-p", "--proxy", "--cache-dir", "--root", "--platform", "--abi"),
        *("--python-version", "--implementation", "-n", "--name", "-c", "--channel", "-o", "--option", "--no-binary"),
        *("--only-binary", "--config-settings", "--constraint"),
    )
)
_FILES = frozenset({"-r", "--requirement", "--requirements"})


class Installed:
    """What the commands of one RUN line bring."""

    def __init__(self) -> None:
        self.requirements: list[Requirement] = []
        self.files: list[tuple[str, str, Place]] = []  # (kind, path, place): "requirements", "conda"
        self.not_understood: list[str] = []


def read_commands(lines: list[tuple[int, str]], path: str, found: Installed) -> None:
    """Read the commands on numbered lines, which belong to one RUN."""
    for command in _SEPARATORS.split("\n".join(text for _, text in lines).replace("\\\n", " ")):
        words = _words(command)
        for installer, arguments in _installations(words):
            _read(installer, arguments, lambda word: Place(path, _line_of(word, lines)), found)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True)
    except ValueError:  # an unbalanced quote: a script of another language
        return command.split()


def _installations(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The installer and its arguments, wherever they stand: "sudo -H python3 -m pip install ...", "uv pip install"."""
    for index, word in enumerate(words):
        rest = words[index + 1 :]
        before = words[index - 2 : index]
        is_pip = _PIP.fullmatch(word) is not None and (index == 0 or words[index - 1] != "install")
        module = len(before) == 2 and before[1] == "-m" and _PYTHON.fullmatch(before[0]) is not None
        if (is_pip or (word == "pip" and module)) and "install" in rest[:4]:
            yield "pip", rest[rest.index("install") + 1 :]
            return
        if _CONDA.fullmatch(word) and rest and rest[0] in ("install", "create", "env", "update"):
            yield "conda", rest[2:] if rest[0] == "env" else rest[1:]
            return
        if word in ("apt-get", "apt") and "install" in rest[:6]:
            yield "apt", rest[rest.index("install") + 1 :]
            return
        if word == "poetry" and rest[:1] == ["add"]:
            yield "pip", [one.replace("@^", ">=").replace("@", "==") for one in rest[1:]]
            return


def _read(installer: str, arguments: list[str], place: object, found: Installed) -> None:
    assert callable(place)
    words = iter(arguments)
    for word in words:
        if word in _FILES or (installer == "conda" and word in ("-f", "--file")):
            name = next(words, "")
            found.files.append(("conda" if installer == "conda" else "requirements", name, place(name)))
        elif word.startswith(("--requirement=", "--file=")):
            name = word.partition("=")[2]
            found.files.append(("conda" if installer == "conda" else "requirements", name, place(name)))
        elif word.startswith("-r") and len(word) > 2 and installer == "pip":
            found.files.append(("requirements", word[2:], place(word)))
        elif word in _WITH_WORD:
            next(words, None)
        elif not word.startswith("-") and not re.match(r"\d?[<>]", word):
            _add(installer, word, place(word), found)


def _add(installer: str, word: str, place: Place, found: Installed) -> None:
    if installer == "apt":
        name, _, version = word.partition("=")
        number = re.match(r"\d+(?:\.\d+)*", version)
        specifier = f"=={number[0]}" if number else ""
        found.requirements.append(Requirement(name.lower(), specifier, place, word, installer="apt"))
        return
    if installer == "conda":
        if one := conda_requirement(word, place):
            found.requirements.append(one)
        return
    try:
        one = pip_requirement(word, place)
    except ValueError:
        if "$" not in word:
            found.not_understood.append(f"{place}: {word} is no requirement")
        return
    if one:
        found.requirements.append(replace(one, text=word))


def _line_of(word: str, lines: list[tuple[int, str]]) -> int:
    """The line that a word stands on; the first where quoting hides it."""
    return next((number for number, text in lines if word in text), lines[0][0])
