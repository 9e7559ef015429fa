"""Which causes known reports had that are made of the same words: what is left where no line tells the cause.

The table beside this file is learnt from tests/cases by scripts/learn_resemblance.py: for each cause the words that
speak for and against it, by logistic regression of one cause against the rest. A report of a healthy machine and a
question are learnt, too, under names of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from math import exp
from pathlib import Path

import msgspec

from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import Message

TABLE = Path(__file__).with_name("resemblance.json")
NO_CAUSE = ("ok", "question")  # of a report in which nothing is wrong, and of one that only asks
MOST = 6  # causes; the facts of a text rule some of them out
_LARGEST = 500  # of what is raised to e, which ends at 709
_SHOWN = 4  # words that are named
_CHARACTERS = 200_000  # of the text; what comes later repeats the words
_WORD = re.compile(r"[a-z_][a-z_0-9.\-]*[a-z_0-9]|\d+\.\d+")
_MOMENT = re.compile(r"0x[0-9a-f]+|\d{4}-\d\d-\d\d[ t][\d:.]+")
_SUBJECT = re.compile(r"tensor|keras|\btf\b|gpu|cuda|cudnn|nvidia")


class Weights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was learnt; a cause's logit is its bias and the sum of its words' weights."""

    cases: int  # reports learnt from
    bias: dict[str, float]  # by cause
    words: dict[str, dict[str, float]]  # by word and cause; no weight is 0


def words_of(text: str) -> frozenset[str]:
    """The different words of a text, without times and addresses."""
    return frozenset(_WORD.findall(_MOMENT.sub(" ", text.lower())))


def resembling(lines: Iterable[Line]) -> Iterator[Message]:
    """The causes of the reports that are most like this one, likeliest first, each with the words that speak for it.

    Nothing for a text that speaks of no GPU and not of TensorFlow. `share` is between 0 and 1.
    """
    lowered = [(line.number, line.text.lower()) for line in lines]
    text = "\n".join(line for _, line in lowered)[:_CHARACTERS]
    if not _SUBJECT.search(text):
        return
    table = _table()
    known = words_of(text) & table.words.keys()
    logits = dict(table.bias)
    for word in known:
        for cause, weight in table.words[word].items():
            logits[cause] += weight
    chances = {cause: 1 / (1 + exp(min(-logit, _LARGEST))) for cause, logit in logits.items()}
    whole = sum(chances.values())
    for cause in sorted(chances, key=lambda one: -chances[one])[:MOST]:
        speaking = (word for word in known if table.words[word].get(cause, 0) > 0)
        telling = sorted(speaking, key=lambda word: (-table.words[word][cause], word))[:_SHOWN]
        first = next((number for number, line in lowered if telling and telling[0] in line), 1)
        share = f"{chances[cause] / whole:.3f}"
        yield Message("resembles", first, ", ".join(telling), {"cause": cause, "share": share})


@cache
def _table() -> Weights:
    return msgspec.json.decode(TABLE.read_bytes(), type=Weights)
