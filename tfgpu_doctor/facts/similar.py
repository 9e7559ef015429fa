"""What a mistyped word may mean: one rule for commands, options, values, GPU names' kin and ids. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def similar(word: str, known: Iterable[str], n: int = 2) -> tuple[str, ...]:
    """Up to `n` of the known words that are written most like `word`; none where nothing is like it.

    >>> similar("juint", ["text", "json", "junit"], 1)
    ('junit',)
    """
    from difflib import get_close_matches

    words = {one.lower(): one for one in known}
    return tuple(words[one] for one in get_close_matches(word.lower()[:80], words, n=n, cutoff=0.55))


def did_you_mean(word: str, known: Iterable[str], n: int = 2) -> str:
    """A question that can be added to a message; "" where nothing is like it.

    >>> did_you_mean("dcotor", ["doctor", "explain"])
    ' Did you mean doctor?'
    """
    near = similar(word, known, n)
    return f" Did you mean {' or '.join(near)}?" if near else ""
