"""The rows of signs over messages, which stand in rows/*.yaml: finding → name → text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tables import read_rows


def _rows(name: str) -> dict[str, Any]:
    return read_rows(Path(__file__).parent / "rows" / f"{name}.yaml")


_MESSAGES, QUESTIONS, FIRST = _rows("messages"), _rows("questions"), _rows("named_first")
# finding → texts that leave it open, and texts that do, too, but show that it holds; logs of live runs, by finding
POSSIBLE, LIVE = _rows("open_and_live").values()
FIRES: dict[str, dict[str, str]] = {**_MESSAGES["fires"], **QUESTIONS["fires"]}
LOOK_ALIKES: dict[str, dict[str, str]] = {**_MESSAGES["look_alikes"], **QUESTIONS["look_alikes"]}
TEXTS = _rows("texts")
# (finding, text in which it stands first)
NAMED_FIRST: list[tuple[str, str]] = [(finding, text) for finding, texts in FIRST["first"].items() for text in texts]


SHORT: dict[str, list[str]] = read_rows(Path(__file__).parent / "short_reports.yaml")


def row_texts() -> dict[str, str]:
    """Return texts that are judged by what they are like, too."""
    questions = [text for rows in QUESTIONS["fires"].values() for text in rows.values()]
    short = [text for texts in SHORT.values() for text in texts]
    return {text: text for text in (*questions, *QUESTIONS["which"], *QUESTIONS["known"], *short)}
