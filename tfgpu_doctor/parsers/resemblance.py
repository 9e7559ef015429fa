"""How much a text is like known reports of each cause: what is left where no line tells the cause.

The table beside this file is learnt by scripts/learn_resemblance.py: for each cause the terms that speak for and
against it, by a linear support-vector machine over their TF-IDF values. Terms are words, their beginnings, the words of
the first line, and the kinds of the messages that the text has. A report of a healthy machine and a question are
learnt, too, under names of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from math import log, sqrt
from pathlib import Path

import msgspec

from tfgpu_doctor.facts.facts import Message
from tfgpu_doctor.parsers import messages as template
from tfgpu_doctor.parsers.lines import Line
from tfgpu_doctor.parsers.messages import HARMLESS

TABLE = Path(__file__).with_name("resemblance.json")
NO_CAUSE = ("ok", "question")  # of a report in which nothing is wrong, and of one that only asks
OF_THE_WHOLE = (
    "harmless",
    "only-printed",
    "few-words",
    "other-framework",
)  # kinds of messages that are no sign of a cause
MOST = 16  # causes; the others speak for nothing
_CHARACTERS = 200_000  # of the text; what comes later repeats the words
_STEM = 5  # letters of a word's beginning, which its forms share
_WORD = re.compile(r"[a-z_][a-z_0-9.\-]*[a-z_0-9]|\d+\.\d+")
_PART = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")  # of a name: "cudnn", "64" and "7" of cudnn64_7
_VERSION = re.compile(r"[-*# ]{0,4}(?:TensorFlow|Python) version: ?[\d.]{1,12}", re.IGNORECASE)  # is a fact, no word
_MOMENT = re.compile(r"0x[0-9a-f]+|\d{4}-\d\d-\d\d[ t][\d:.]+")
SUBJECT = re.compile(
    r"tensor|keras|\btf\b|gpu|cuda|cudnn|nvidia|\b[gr]tx|glibc|\bepoch|\bbatch|\btrain(?:ing|s|ed)?\b|\boom\b"
    r"|out (?:of )?memory|显[存卡]|内存"
)
TITLE, PART, KIND = "title:", "part:", "kind:"  # before a term that is no whole word; no word has a colon


# Weights from -45 to 45 steps, a printable character each; neither of the two that JSON escapes.
STEP = 0.04
STEPS = "".join(chr(code) for code in range(33, 126) if chr(code) not in '"\\')
_WEIGHT = {character: STEP * (place - len(STEPS) // 2) for place, character in enumerate(STEPS)}


class Weights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was learnt: how much a text is like a cause is its bias and the sum of its terms' values times weights."""

    reports: int  # learnt from
    causes: list[str]
    bias: list[float]  # of each cause
    terms: dict[str, tuple[float, str]]  # inverse document frequency; the weight for each cause, a character of STEPS


def terms_of(text: str, kinds: Iterable[str]) -> Counter[str]:
    """What is learnt of a text, with the number of times: its words without times and addresses, parts, and kinds."""
    lowered = _MOMENT.sub(" ", text.lower())
    title = lowered.strip().partition("\n")[0]
    terms = Counter(_WORD.findall(lowered))
    terms.update(f"{TITLE}{word}" for word in _WORD.findall(title))
    terms.update(f"{PART}{part[:_STEM] if part.isalpha() else part}" for part in _PART.findall(lowered))
    terms.update(f"{KIND}{kind}" for kind in kinds)
    return terms


def telling(lines: Iterable[Line], messages: Collection[Message]) -> tuple[list[Line], list[str]]:
    """The lines and the kinds of messages that may tell a cause: one more harmless line changes nothing."""
    lines = list(lines)
    harmless = template.numbers(lines, HARMLESS) - {one.line for one in messages if one.kind not in OF_THE_WHOLE}
    kinds = [one.kind for one in messages if one.kind not in OF_THE_WHOLE]
    return [one for one in lines if one.number not in harmless and not _VERSION.fullmatch(one.text.strip())], kinds


def resembling(lines: Iterable[Line], kinds: Iterable[str] = ()) -> Iterator[Message]:
    """The causes whose reports are most like this one, the most alike first.

    `kinds`: those of the messages that the text has. `likeness` is a number to compare with those of other causes;
    above 0, the text is rather like reports of that cause than like all others. `words` are the different ones that it
    rests on.

    Nothing for a text that speaks of no GPU and not of TensorFlow.
    """
    text = "\n".join(line.text.lower() for line in lines)[:_CHARACTERS]
    if not SUBJECT.search(text):
        return
    table = _table()
    values = _values(terms_of(text, kinds), table)
    likeness = dict(enumerate(table.bias))
    for term, value in values.items():
        for place, step in enumerate(table.terms[term][1]):
            likeness[place] += value * _WEIGHT[step]
    words = str(sum(":" not in term for term in values))
    for place in sorted(likeness, key=lambda one: -likeness[one])[:MOST]:
        found = {"cause": table.causes[place], "likeness": f"{likeness[place]:.3f}", "words": words}
        yield Message("resembles", 1, "", found)


def _values(terms: Counter[str], table: Weights) -> dict[str, float]:
    """TF-IDF of the terms that are known: (1 + ln of the times) × inverse document frequency, of length 1 together."""
    known = {term: (1 + log(times)) * table.terms[term][0] for term, times in terms.items() if term in table.terms}
    length = sqrt(sum(value * value for value in known.values()))
    return {term: value / length for term, value in known.items()}


@cache
def _table() -> Weights:
    return msgspec.json.decode(TABLE.read_bytes(), type=Weights)
