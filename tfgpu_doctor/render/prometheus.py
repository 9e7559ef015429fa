"""Metrics in Prometheus' text format, for the textfile collector of its node exporter, or a push gateway.

Source: prometheus.io/docs/instrumenting/exposition_formats ("Text-based format") and /practices/naming: a prefix, base
units at the end of the name, `_info` with the value 1 for what is only labels. Series of one name stand together, no
series twice, since the collector refuses the whole file otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from tfgpu_doctor.facts.printable import clean, cut
from tfgpu_doctor.facts.report import Tool
from tfgpu_doctor.render.shapes import Metric, Sample

_LONGEST = 200  # characters of the value of a label


def render(metrics: Iterable[Metric]) -> str:
    """The document; metrics without a sample are left out."""
    return "".join(line + "\n" for metric in metrics if metric.samples for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {_escaped(metric.help)}"
    yield f"# TYPE {metric.name} gauge"
    series: dict[str, float] = {}
    for sample in metric.samples:
        # a label without a value is the same as none
        pairs = ",".join(f'{name}="{_label(value)}"' for name, value in sample.labels.items() if value)
        series.setdefault(f"{{{pairs}}}" if pairs else "", sample.value)
    for labels, value in series.items():
        yield f"{metric.name}{labels} {_number(value)}"


def _label(value: str) -> str:
    return _escaped(cut(clean(value), _LONGEST)).replace('"', '\\"')


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


# ------------------------------------------------------------------------------------------ what kinds of results share


# units of throughput → the end of a metric's name
RATES = {"FLOP/s": "flop_per_second", "B/s": "bytes_per_second"}


def gauge(name: str, about: str, *samples: Sample | float) -> Metric:
    """A metric of these samples; a number is one without labels."""
    return Metric(name, about, tuple(one if isinstance(one, Sample) else Sample(one) for one in samples))


def origin(
    command: str, tool: Tool, made: str, versions: Mapping[str, str] = {}, shared: Mapping[str, str] = {}
) -> Iterator[Metric]:
    """What measured, with the versions that it found, and when; without a time where a saved file has none."""
    about = f"Versions that tfgpu {command} found, and its own; always 1."
    yield gauge(f"tfgpu_{command}_info", about, Sample(1, {"version": tool.version, **shared, **versions}))
    with suppress(ValueError, OverflowError):
        seconds = datetime.fromisoformat(made.replace("Z", "+00:00")).timestamp()
        yield gauge(f"tfgpu_{command}_timestamp_seconds", "Unix time of the result.", Sample(seconds, shared))


def states(every: Iterable[str], current: str, label: str = "verdict", labels: Mapping[str, str] = {}) -> list[Sample]:
    """One series for each state, of which one is 1."""
    return [Sample(one == current, {**labels, label: one}) for one in every]


def rate(unit: str) -> str:
    """The end of a name for what is done in a second: "images_per_second"; a saved file may have any text as unit."""
    what = unit.removesuffix("/s").lower()
    is_word = len(what) in range(3, 21) and what.isascii() and what.isalpha()
    return RATES.get(unit) or f"{what if is_word else 'work'}_per_second"
