"""What a line of a log was wrapped in on its way here: JSON of a container's log or a notebook, HTML, prefixes.

Each line is unwrapped for itself, so that a cut-off file is read as far as it goes and keeps its line numbers.
"""

from __future__ import annotations

import re

import msgspec

LONGEST = 48_000  # characters of a line that is looked at
_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE", "line", "body")  # of structured logs: where the text stands
# a text of a notebook on a line of its own: "source", "text", "traceback" hold lists of such
_STRING = re.compile(r'\s*(?:"(?:evalue|text|text/plain|source)": )?\[?("(?:[^"\\]|\\.)*")\]?,?\s*')
_ENTITIES = {
    "&gt;": ">",
    "&lt;": "<",
    "&quot;": '"',
    "&#39;": "'",
    "&#x27;": "'",
    "&apos;": "'",
    "&nbsp;": " ",
    "&#160;": " ",
    "&#x2F;": "/",
    "&#47;": "/",
    "&amp;": "&",
    "&#34;": '"',
}
_ENTITY = re.compile("|".join(_ENTITIES))
_BREAK = re.compile(r"<br ?/?>|</(?:p|div|tr|li|pre|h[1-6])>", re.IGNORECASE)
_TAG = re.compile(
    r"</?(?:a|abbr|article|b|blockquote|body|button|code|details|div|dd|dl|dt|em|font|form|h[1-6]|head|hr|html|i|img"
    r"|input|kbd|label|li|link|main|meta|nav|ol|p|pre|s|samp|script|section|small|span|strong|style|sub|summary|sup|svg"
    r"|path|table|tbody|td|th|thead|title|tr|tt|u|ul|clipboard-copy|task-lists)(?:\s[^<>]{0,2000})?/?>|<!--[^<>]*-->",
    re.IGNORECASE,
)
_OF_A_PAGE = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*(?:<!doctype html|<html|<div|<pre|<table|<p\b|<span)", re.IGNORECASE)
# kubectl logs --timestamps, containerd's files, GitHub Actions, docker compose, a chat
_PREFIX = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) (?:(?:stdout|stderr) [FP] )?(?=\S| {2,})"
    r"|[\w.-]{1,60}[_-]\d{1,3} {1,30}\| (?=\S| )"
    r"|\[\d\d?:\d\d(?::\d\d)?\] <?[\w.-]{1,30}(?:>|:) (?=\S)"
)
_JOINT = re.compile(
    r"(?<=.{60})\s+(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,9}: [IWEF] |Traceback \(most recent call last\)"
    r"|File \"[^\"]{1,300}\", line \d)"
)
_PLAIN = 120  # characters of a line that holds no second one
_NOTEBOOK = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"(?:cells|metadata|nbformat|nbformat_minor|worksheets)"\s*:')


def is_page(head: bytes) -> bool:
    """Whether a text that begins so is HTML."""
    return _OF_A_PAGE.match(head[:2000]) is not None


def is_notebook(head: bytes) -> bool:
    """Whether a text that begins so is a Jupyter notebook."""
    return _NOTEBOOK.match(head[:2000]) is not None


def unwrap(text: str, page: bool = False) -> list[str]:
    r"""The lines that were wrapped in this one; the line itself where it is plain.

    >>> unwrap('{"log":"Can\'t find libdevice\\n","stream":"stderr","time":"2026-11-21T06:36:00Z"}')
    ["Can't find libdevice"]
    >>> unwrap('      "\\u001b[0;31mImportError\\u001b[0m: no\\nend\\n",')
    ['\x1b[0;31mImportError\x1b[0m: no', 'end']
    >>> unwrap("2026-11-21T06:36:00.1234567Z E0000 no&#39;t&gt;<br>b")
    ["E0000 no't>", 'b']
    """
    if len(text) > LONGEST:
        return [text]
    inner = _of_json(text)
    if inner is not None:
        return inner.split("\n")[: -1 if inner.endswith("\n") else None] or [""]
    if prefix := _PREFIX.match(text):
        text = text[prefix.end() :]
    lines = [text]
    if "<" in text:
        lines = _BREAK.split(text)
        if page:
            lines = [_TAG.sub("", line) for line in lines]
    lines = [part for line in lines for part in _without_joints(line)]
    return [_ENTITY.sub(lambda match: _ENTITIES[match[0]], line) if "&" in line else line for line in lines]


def _without_joints(line: str) -> list[str]:
    """The lines of a log whose line breaks were lost; a form that is filled in on one line does so."""
    return _JOINT.split(line) if len(line) > _PLAIN and line.count(": ") > 1 else [line]


def _of_json(text: str) -> str | None:
    """The text in a JSON record of a log, or in a JSON string that is a line of a notebook."""
    plain = text.strip()
    if plain.startswith('{"') and plain.endswith("}"):
        record = _decoded(plain)
        if isinstance(record, dict):
            found = (record.get(key) for key in _KEYS)
            return next((value for value in found if isinstance(value, str) and value), None)
    elif plain.endswith(('"', '",', '"]', '"],')) and "\\" in plain and (match := _STRING.fullmatch(text)):
        value = _decoded(match[1])
        return value if isinstance(value, str) else None
    return None


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def of_notebook(data: bytes) -> str | None:
    r"""All that a notebook shows, cell by cell: its code, what it printed, and its tracebacks; None for other JSON.

    >>> of_notebook(b'{"cells":[{"source":["a\\n","b"],"outputs":[{"text":"c\\n"},{"traceback":["d","e"]}]}]}')
    'a\nb\nc\n\nd\ne'
    """
    book = _decoded_bytes(data)
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        return None
    shown: list[str] = []
    for cell in (one for one in cells if isinstance(one, dict)):
        shown.append(_text(cell.get("source")))
        outputs = cell.get("outputs")
        for output in (one for one in (outputs if isinstance(outputs, list) else ()) if isinstance(one, dict)):
            data_of = output.get("data")
            plain = data_of.get("text/plain") if isinstance(data_of, dict) else None
            shown += [_text(output.get("text")), _text(plain), _text(output.get("traceback"), "\n")]
    return "\n".join(one for one in shown if one)


def _text(value: object, glue: str = "") -> str:
    if isinstance(value, list):
        return glue.join(one for one in value if isinstance(one, str))
    return value if isinstance(value, str) else ""


def _decoded_bytes(data: bytes) -> object:
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
