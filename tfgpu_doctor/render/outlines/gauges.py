"""Pieces of metrics that several kinds of results have: what measured, when, which of several states. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from tfgpu_doctor.records.report import Tool
from tfgpu_doctor.render.shapes import Metric, Sample

# units of throughput → the end of a metric's name
RATES = {"FLOP/s": "flop_per_second", "B/s": "bytes_per_second"}


def gauge(name: str, about: str, *samples: Sample) -> Metric:
    """A metric of these samples."""
    return Metric(name, about, samples)


def info(command: str, tool: Tool, **labels: str) -> Metric:
    """What measured, and with which versions, as labels."""
    about = f"Versions that tfgpu {command} found, and its own; always 1."
    return gauge(f"tfgpu_{command}_info", about, Sample(1, {"version": tool.version, **labels}))


def created(command: str, text: str, labels: Mapping[str, str] | None = None) -> Metric:
    """When that was; without a sample where a saved file has no such time."""
    try:
        seconds = datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return gauge(f"tfgpu_{command}_timestamp_seconds", "")
    return gauge(f"tfgpu_{command}_timestamp_seconds", "Unix time of the result.", Sample(seconds, dict(labels or {})))


def states(
    name: str,
    about: str,
    all_of_them: Iterable[str],
    current: str,
    labels: Mapping[str, str] | None = None,
    label: str = "verdict",
) -> Metric:
    """One series for each state, of which one is 1."""
    return gauge(name, about, *(Sample(one == current, {**(labels or {}), label: one}) for one in all_of_them))


def rate(unit: str) -> str:
    """The end of a name for what is done in a second: "images_per_second"; a saved file may have any text as unit."""
    what = unit.removesuffix("/s").lower()
    is_word = len(what) in range(3, 21) and what.isascii() and what.isalpha()
    return RATES.get(unit) or f"{what if is_word else 'work'}_per_second"
