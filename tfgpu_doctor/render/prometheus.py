"""Metrics in Prometheus' text format, for the textfile collector of its node exporter, or a push gateway.

Source: prometheus.io/docs/instrumenting/exposition_formats ("Text-based format") and /practices/naming: a prefix, base
units at the end of the name, `_info` with the value 1 for what is only labels. Series of one name stand together, no
series twice, since the collector refuses the whole file otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.render.shapes import Metric

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
    shown = clean(value)
    shown = shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
    return _escaped(shown).replace('"', '\\"')


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isfinite(value):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
