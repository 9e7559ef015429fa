"""Words that say nothing about whose machine this is: in paths, in public fields, and where names stand. Pure.

The words stand in words.txt.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

# what stands for a private value
PLACEHOLDER = re.compile(r"<(?:user|host|path|name|secret|email|uuid|serial|mac|address|phone)(?:-\d+)?>")


def _read(text: str) -> dict[str, frozenset[str]]:
    """The words of each section."""
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
