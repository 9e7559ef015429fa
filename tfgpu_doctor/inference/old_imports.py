"""What Python up to 3.6 leaves out: from which module a name could not be imported. The line of code above says it.

>>> code, error = "    from tensorflow.keras import Thing", "ImportError: cannot import name 'Thing'"
>>> [(one.kind, one.line, one.text) for one in of_modules([Line(1, code), Line(2, error)])][:1]
[('keras-mismatch', 2, "ImportError: cannot import name 'Thing'")]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import Message

_NAME = re.compile(r"ImportError: cannot import name '?(?P<name>\w{1,80})'?\s*$")
_CODE = re.compile(r"^\s*from (?P<module>\.{0,3}[\w.]{1,200}) import (?P<names>.{1,300})$")
_WORD = re.compile(r"\w+")
_ABOVE = 3  # lines, blank ones among them
_OF_ANY = ("exception", "failure-said", "trouble-said")  # which the line itself has given


def of_modules(lines: Sequence[Line]) -> Iterator[Message]:
    """The messages that these lines would be if they named the module, too."""
    for place, line in enumerate(lines):
        missing = _NAME.search(line.text)
        for above in reversed(lines[max(place - _ABOVE, 0) : place]) if missing else ():
            code = _CODE.match(above.text)
            if missing and code and missing["name"] in _WORD.findall(code["names"]):
                whole = f"ImportError: cannot import name '{missing['name']}' from '{code['module']}'"
                found = (one for one in catalogue.read([Line(line.number, whole)]) if one.kind not in _OF_ANY)
                yield from (replace(one, text=line.text.strip()) for one in found)
                break
