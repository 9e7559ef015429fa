"""What a job takes with a GPU and without, as sentences tell, in whatever order.

>>> on_both('With CUDA_VISIBLE_DEVICES="" 1000 episodes need 11 min, with the card 34 min.')
{'cpu': '11', 'cpu_unit': 'min', 'gpu': '34', 'gpu_unit': 'min'}
>>> on_both("4 s per epoch on the CPU and 9 s with the RTX 3080")
{'cpu': '4', 'cpu_unit': 's', 'gpu': '9', 'gpu_unit': 's'}
>>> on_both("After 5 min on the GPU it crashes; the CPU has 8 cores")
"""

from __future__ import annotations

import re

_TIME = (
    r"(?<![\w.:/-])(?P<time>\d{1,6}(?:[.,]\d{1,3})?) ?"
    r"(?:(?P<ms>ms|msec|milliseconds?|мс|毫秒)|(?P<min>min(?:s|ut\w*)?|мин\w*|分(?:钟)?)|(?P<h>h|hrs?|hours?"
    r"|stunden?|horas?|час\w*|小时)"
    r"|(?P<s>s|secs?|sec\w*|sek\w*|seg\w*|сек\w*|秒))(?![A-Za-z])"
)
_CPU = (
    r"(?P<cpu>\bcpus?\b|CUDA_VISIBLE_DEVICES ?= ?(?:\"\"|''|['\"]?-1)|\b(?:without|ohne|sin|sans|sem|без)"
    r" (?:\w+ )?(?:gpu|card|karte)\w*"
    r"|\b(?:процессор|prozessor)\w*)"
)
_GPU = (
    r"(?P<gpu>\bgpus?\b|\b(?:the|new|my) card\b|\b[gr]tx ?\d{3,4}(?: ?ti| ?super)?\b|\b(?:karte|видеокарт)\w*"
    r"|显卡|顯卡)"
)
_WORD = re.compile(f"{_CPU}|{_GPU}|{_TIME}", re.IGNORECASE)
_UNITS = ("ms", "min", "h", "s")


def on_both(text: str) -> dict[str, str] | None:
    """The time on either device, where a line names each device once, with its time on the same side."""
    words = [(match.lastgroup or "", match) for match in _WORD.finditer(text)]
    kinds = ["time" if kind in _UNITS else kind for kind, _ in words]
    if sorted(kinds) != ["cpu", "gpu", "time", "time"] or (kinds[0] == "time") != (kinds[2] == "time"):
        return None
    if "time" not in kinds[:2]:
        return None
    found: dict[str, str] = {}
    for (first, one), (second, other) in (words[:2], words[2:]):
        device, unit, time = (first, second, other) if first in ("cpu", "gpu") else (second, first, one)
        found |= {device: time["time"].replace(",", "."), f"{device}_unit": unit}
    return {key: found[key] for key in ("cpu", "cpu_unit", "gpu", "gpu_unit")}
