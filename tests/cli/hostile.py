"""Text that a terminal or a CI system would obey, planted wherever a text can come from, and what may be left of it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tfgpu_doctor.facts.report import ReportError

SGR = "\x1b[5;41m"  # a style that we never use
BOMB = (
    f"x{SGR}\x1b]0;PWN\x07\x1b[2J\x1b[A\r::stop-commands::t\n::set-env name=A::b\r\n  ::add-mask::c\n"
    "##[add-mask]d ##vso[task.setvariable]e ##teamcity[f] #\ufe0f#[g] \x9b31m\x85::h::\u2028::i::\u2029\x0b\x0c\x7f\x08"
    "\u202e\u2066\u200b\u200f\ufeff\U000e0041\u3164\u00ad"
)
# what Markdown, HTML, XML and workflow commands would take for more than text; no name of a file holds a slash
MARKUP = (
    "[bold]evil[/] @octocat #1 GH-7 a/b#3 <script>alert(1)</script> <!-- ](http://evil.example/x_y) | **b** `c` ```"
    " :tada: ~~y~~ $x$ </details> www.evil.example &lt; ]]> <![CDATA[ \"><failure message='x' type='integer'/>"
    " [[ATTACHMENT|/etc/passwd]] title=a,file=/etc/passwd::y 100 %25 %0A::error::y"
)
_OURS = re.compile(
    r"::(?:error|warning|notice) (?:file=[^:,]*,line=\d+,)?title=(?:tfgpu |[^:]*\([a-z0-9]+\.[a-z0-9-]+\))[^:]*::[^\n]*"
)
_COMMAND = re.compile(r"#[\ufe0e\ufe0f]*#[\ufe0e\ufe0f]*\w*\[")


def offences(text: str, form: str = "text") -> Iterator[str]:
    """What in an output a terminal or a CI system would obey."""
    for line in re.split(r"\r\n|\r|\n", text):
        for char in line:
            if not char.isprintable() or char == "\u3164":
                yield f"{unicodedata.name(char, ascii(char))} in {line[:200]!a}"
        if line.lstrip().startswith("::") and not (form == "github" and _OURS.fullmatch(line)):
            yield f"a command: {line[:200]!a}"
        if _COMMAND.search(line):
            yield f"a command: {line[:200]!a}"


def texts(tree: Any, kind: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every text of a JSON document: what holds it, where there, and the names on the way."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        inner = f"{kind}.{key}" if isinstance(key, str) else kind
        if isinstance(value, str):
            yield tree, key, inner
        elif isinstance(value, (dict, list)):
            yield from texts(value, inner)


def planted(document: bytes, accepts: Callable[[bytes], object]) -> bytes:
    """The document with the bomb behind every text that may hold any; `accepts` raises where one may not."""
    tree = json.loads(document)
    refused: dict[str, bool] = {}
    for holder, key, kind in texts(tree):
        if not refused.get(kind):
            before = holder[key]
            holder[key] = before + BOMB
            if kind not in refused:
                refused[kind] = not _accepted(json.dumps(tree).encode(), accepts)
            if refused[kind]:
                holder[key] = before
    return json.dumps(tree).encode()


def _accepted(document: bytes, accepts: Callable[[bytes], object]) -> bool:
    try:
        accepts(document)
    except (ReportError, msgspec.ValidationError):
        return False
    return True
