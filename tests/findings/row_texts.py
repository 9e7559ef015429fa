"""The rows of signs over messages, which stand in rows/*.yaml: finding → name → text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def _rows(name: str) -> dict[str, Any]:
    return yaml.load((Path(__file__).parent / "rows" / f"{name}.yaml").read_bytes(), yaml.CSafeLoader)


_MESSAGES, QUESTIONS, FIRST = _rows("messages"), _rows("questions"), _rows("named_first")
# finding → texts that leave it open, and texts that do, too, but show that it holds; logs of live runs, by finding
POSSIBLE, LIVE = _rows("open_and_live").values()
FIRES: dict[str, dict[str, str]] = {**_MESSAGES["fires"], **QUESTIONS["fires"]}
LOOK_ALIKES: dict[str, dict[str, str]] = {**_MESSAGES["look_alikes"], **QUESTIONS["look_alikes"]}
TEXTS = _rows("texts")
# (finding, text in which it stands first)
NAMED_FIRST: list[tuple[str, str]] = [(finding, text) for finding, texts in FIRST["first"].items() for text in texts]


def row_texts() -> dict[str, str]:
    """Return the texts on which signs fire, by the name of the row."""
    return {f"{finding}: {name}": text for finding, rows in _MESSAGES["fires"].items() for name, text in rows.items()}
