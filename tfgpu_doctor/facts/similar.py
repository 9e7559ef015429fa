"""What a mistyped word may mean: one rule for commands, options, values, GPU names' kin and ids. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def similar(word: str, known: Iterable[str], n: int = 2) -> tuple[str, ...]:
    """Up to `n` of the known words that are written most like `word`, about equally; none where nothing is like it.

    >>> similar("juint", ["text", "json", "junit"], 1)
    ('junit',)
    """
    from difflib import SequenceMatcher

    alike = {one: SequenceMatcher(None, one.lower(), word.lower()[:80]).ratio() for one in known}
    least = max(0.55, max(alike.values(), default=0.0) - 0.1)
    return tuple(one for one in sorted(alike, key=alike.__getitem__, reverse=True)[:n] if alike[one] >= least)


def did_you_mean(word: str, known: Iterable[str], n: int = 2) -> str:
    """A question that can be added to a message; "" where nothing is like it.

    >>> did_you_mean("dcotor", ["doctor", "explain"])
    ' Did you mean doctor?'
    """
    near = similar(word, known, n)
    return f" Did you mean {' or '.join(near)}?" if near else ""
