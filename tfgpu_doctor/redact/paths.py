"""Words and paths that say nothing about whose machine this is, and which parts of a path are private. Pure.

The words stand in words.txt. Below the system's own folders every part of a path is public. Elsewhere a part is public
when all its words are: names that every machine has (bin, site-packages, miniconda3, cuda-12.4), version numbers, names
of files of known packages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

from tfgpu_doctor.redact.escapes import after_blank

# what stands for a private value
PLACEHOLDER = re.compile(r"<(?:user|host|path|name|secret|email|uuid|serial|mac|address|phone)(?:-\d+)?>")


def _read(text: str) -> dict[str, frozenset[str]]:
    sections: dict[str, frozenset[str]] = {}
    for part in re.sub(r"^#.*$", "", text, flags=re.MULTILINE).split("[")[1:]:
        name, _, words = part.partition("]")
        sections[name] = frozenset(words.split())
    return sections


_SECTIONS = _read((Path(__file__).parent / "words.txt").read_text(encoding="utf-8"))
WORDS, NOBODY, PUBLIC_HOSTS = _SECTIONS["words"], _SECTIONS["nobody"], _SECTIONS["public hosts"]
DOMAINS, LONG_DOMAINS = _SECTIONS["domains"], _SECTIONS["long domains"]

_CUDA = r"cu(?:da|dnn|blas|fft|rand|solver|sparse|pti|file|inj)|nv(?:idia|rtc|jitlink|infer|tools|ml|vm)|nccl"
_KNOWN_STEM = re.compile(rf"cp\d+m$|lib(?:{_CUDA}|tensorflow|python|xla|gcc|stdc|gomp|z$)|(?:{_CUDA})[a-z]*\d|__")
_NUMBERED = re.compile(r"\A([a-z]*?)v?\d*$")
_STEMS = frozenset({"", "cp", "abi", "manylinux", "rc", "post"})


@lru_cache(maxsize=10_000)
def is_public_word(word: str) -> bool:
    """Whether a word of a path says nothing about its owner: a name that every machine has, or a short number."""
    low = word.lower()
    if low in WORDS or _KNOWN_STEM.match(low) or len(low) == 1 or (low.isdecimal() and len(low) < 6):
        return True
    return _stem(low) in WORDS or _stem(low) in _STEMS


def is_public_text(text: str) -> bool:
    """Whether the value of a public field is what such a field holds: words of closed lists, versions, numbers."""
    return text.isascii() and all(
        is_term(word) or is_public_word(word) for word in re.split(r"[^A-Za-z0-9]+", text) if word
    )


def is_term(word: str) -> bool:
    """Whether a word belongs to the language of reports, so that it names nobody where it stands by itself."""
    low = word.lower()
    return low in _terms() or _stem(low) in _terms()


def _stem(low: str) -> str:
    numbered = _NUMBERED.match(low)
    return numbered[1] if numbered and numbered.end() == len(low) else low


@cache
def _terms() -> frozenset[str]:
    """With the words of the ids of findings and of the kinds of messages."""
    from tfgpu_doctor.findings.catalogue import DECLARATIONS  # 0.2 s, which most commands have spent by now
    from tfgpu_doctor.parsers.messages import TEMPLATES

    ids = (*DECLARATIONS, *(template.kind for template in TEMPLATES))
    return _SECTIONS["terms"] | WORDS | {word for one in ids for word in re.findall(r"[a-z]\w+", one)}


# -------------------------------------------------------------------------------------------------------------- paths

_SEPARATORS = re.compile(r"([\\/]+)")
_ANCHOR = re.compile(r"[A-Za-z]:|~")

# a path in running text: posix (or from ~; behind the dot of an id, "cudnn.installed./data/…"), Windows with or without
# doubled backslashes; what was cut out of its middle does not end it
_PART = r"(?:<[a-z]+(?:-\d+)?>| … |[^\s/\\'\":;,|()\[\]{}`*?<>=$])"
_UNJOINED = r"(?<![\w.\\/~>-])"
POSIX = re.compile(rf"(?:{after_blank(_UNJOINED)}|(?<=[a-z]\.))~?(?:/{_PART}+)+/?")
WINDOWS = re.compile(
    after_blank(r"(?<![A-Za-z0-9])") + r"[A-Za-z]:[\\/]+(?:(?:<[a-z]+(?:-\d+)?>|[^\\/:*?\"<>|\r\n])+[\\/]+)*"
    r"(?:<[a-z]+(?:-\d+)?>|[^\\/:*?\"<>|\s',;()])*"
)
QUOTED = re.compile(r"""(?<=(["']))(?:~?/(?:(?!\1)[^\n\\])+(?=\1|\\)|[A-Za-z]:[\\/](?:(?!\1)[^\n])+(?=\1))""")

_SYSTEM = frozenset(
    re.findall(r"\S+", "usr lib lib32 lib64 etc proc sys dev bin sbin boot nix snap system library windows run var")
) | {"program files", "program files (x86)", "programdata"}
_HOMES = frozenset({"home", "users", "homes", "documents and settings"})
_NOBODY = frozenset({"public", "shared", "default", "all users"})
_CODE = re.compile(r"(site|dist)-packages$|python\d\.\d+$", re.IGNORECASE)  # public code lies below
_A_DEVICE = re.compile(r"/(job|replica|task|device|physical_device|gpu|cpu):", re.IGNORECASE)  # TensorFlow's names
# the machines on which TensorFlow's wheels for Windows are built: each line of their logs has one of these paths
_OF_BUILDERS = re.compile(r"[A-Za-z]:[\\/]+(?:tf_jenkins|src[\\/]+github[\\/]+tensorflow)[\\/]", re.IGNORECASE)
_TEXTS = "py|sh|bat|jsonl?|ndjson|ya?ml|toml|cfg|txt|log"
ENDINGS = re.compile(rf"\.({_TEXTS}|pyc|so|ipynb|exe|dll|whl|h5|keras)$", re.IGNORECASE)

_WORD = re.compile(r"[.\-_+~ ]+")


def is_public(part: str) -> bool:
    """Whether a part of a path says nothing about its owner."""
    part = ENDINGS.sub("", part)
    return bool(_CODE.search(part)) or all(
        is_public_word(word) for word in _WORD.split(PLACEHOLDER.sub("", part)) if word
    )


def each(text: str, change: Callable[[str], str]) -> str:
    """The text with every path in it changed."""
    if "/" not in text and "\\" not in text:
        return text
    text = QUOTED.sub(lambda match: change(match[0]), text)
    text = WINDOWS.sub(lambda match: match[0] if _OF_BUILDERS.match(match[0]) else change(match[0]), text)
    return POSIX.sub(lambda match: change(match[0]), text)


def rewrite(path: str, name: Callable[[str, str], str], least: int = 2) -> str:
    """Put `name(kind, part)` in place of each private part of an absolute path; the separators stay as they are.

    A path of fewer parts than `least` ("/b", "/GPU") is none, or tells nothing.
    """
    pieces = _SEPARATORS.split(path)
    parts = [part for part in pieces[::2] if part and not _ANCHOR.fullmatch(part)]
    users = _users_in(parts)
    if len(parts) < (1 if path.startswith("~") else least) or _A_DEVICE.match(path):
        return path
    system = not users and parts[0].lower() in _SYSTEM
    rewritten = []
    for number, piece in enumerate(pieces):
        if piece.lower() in users:
            rewritten.append(name("user", piece))
        elif number % 2 or system or _ANCHOR.fullmatch(piece) or is_public(piece):
            rewritten.append(piece)
            system = system or bool(_CODE.search(piece))
        else:
            stem = ENDINGS.sub("", piece)
            rewritten.append(name("path", stem) + piece[len(stem) :])
    return "".join(rewritten)


def _users_in(parts: list[str]) -> set[str]:
    """The parts that follow /home, /Users and their like, in lower case."""
    users = {user.lower() for above, user in pairwise(parts) if above.lower() in _HOMES}
    return {user for user in users - _NOBODY if not PLACEHOLDER.fullmatch(user)}
