"""Bytes of a text in any encoding → UTF-8. Pure.

Bytes that somebody pasted → the lines worth reading, in bounded memory.

A paste of some thousand lines is kept whole. Of a log of hundreds of megabytes only a part is: its head, its tail,
every new kind of line that speaks of something this program knows, and what stands around it. Two lines are of one
kind when they differ in digits only, so that a million steps of training cost a dictionary look-up each.
"""

from __future__ import annotations

import codecs
import html
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import msgspec

from tfgpu_doctor.facts import printable
from tfgpu_doctor.parsers.cuda_results import CURESULTS

any_case = partial(re.compile, flags=re.IGNORECASE)

# ------------------------------------------------------------------------------------------ encodings


def utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Turn UTF-16, which PowerShell writes, into UTF-8; anything else stays as it is."""
    every = iter(chunks)
    head = next(every, b"")
    name = _utf16(head)
    decoder = codecs.getincrementaldecoder(name)(errors="replace") if name else None
    for chunk in chain([head], every):
        # a log that was copied and truncated while it was written begins with as many NULs as it had bytes
        yield printable.utf8(decoder.decode(chunk)) if decoder else chunk.replace(b"\0", b"")


def _utf16(head: bytes) -> str | None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = head[:2000]
    if len(sample) < 20 or sample.count(0) > len(sample) * 0.6:  # mostly NUL: no UTF-16 either
        return None
    enough = len(sample) // 2 * 0.7
    return "utf-16-le" if sample[1::2].count(0) > enough else "utf-16-be" if sample[0::2].count(0) > enough else None


# ------------------------------------------------------------------------------------------ wrappings

# JSON of a container's log or a notebook, HTML, prefixes. Each line is unwrapped for itself, so that a cut-off file is
# read as far as it goes and keeps its line numbers.
_LONGEST_WRAPPED = 48_000  # characters of a line that is looked at
_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE", "line", "body")  # of structured logs: where the text stands
# a text of a notebook on a line of its own: "source", "text", "traceback" hold lists of such
_STRING = re.compile(r'\s*(?:"(?:evalue|text|text/plain|source)": )?\[?("(?:[^"\\]|\\.)*")\]?,?\s*')
_ENTITY = re.compile(r"&(?:[a-z]{2,6}|#\d{2,5}|#x[0-9a-f]{2,4});", re.IGNORECASE)
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
    r"|[\w.-]{1,60}[_-]\d{1,3} {1,30}\| (?=\S| )|\[\d\d?:\d\d(?::\d\d)?\] <?[\w.-]{1,30}(?:>|:) (?=\S)"
)
_JOINT = re.compile(
    r"(?<=.{60})\s+(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,9}: [IWEF] |Traceback \(most recent call last\)"
    r"|File \"[^\"]{1,300}\", line \d)"
)
_NAME_WITH_SPACES = re.compile("|".join(name.replace("_", "[ _]") for name in CURESULTS))
# what reading a picture makes of digits and of NVIDIA: "RTX 4O90", "3.1O.12"
_READ_BADLY = re.compile(r"(?<=\d)O(?=[\d.])|(?<=\d\.)O(?=\d)|\bNVIDlA\b")
_MARKED_T = ("nt", "n't", "n’t", "n‘t", "n´t", "n`t")  # one of them stands in whatever is typed so
_TYPED_IN_HASTE = re.compile(  # "doesnt", "dosn't", "cant"
    r"\b(?:(?P<does>d)(?:oe?se?n['’´`]?t)|(?P<word>did|is|are|was|were|could|would|should|has|have|do|ca|wo)n[´`]?t)\b",
    re.IGNORECASE,
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
    if len(text) > _LONGEST_WRAPPED:
        return [text]
    inner = _of_json(text)
    if inner is not None:
        return inner.split("\n")[: -1 if inner.endswith("\n") else None] or [""]
    if prefix := _PREFIX.match(text):
        text = text[prefix.end() :]
    lines: list[str] = []
    for line in _BREAK.split(text) if "<" in text else [text]:
        plain = _TAG.sub("", line) if page else line
        # the lines of a log whose line breaks were lost; a form that is filled in on one line lost them, too
        lines += _JOINT.split(plain) if len(plain) > _PLAIN and plain.count(": ") > 1 else [plain]
    return [_as_meant(line) for line in lines]


def _as_meant(line: str) -> str:
    """A line without the entities of HTML, letters in the place of digits, and spaces in that of underscores."""
    if "&" in line:
        line = _ENTITY.sub(lambda match: html.unescape(match[0]), line)
    if "O" in line or "NVIDl" in line:
        line = _READ_BADLY.sub(lambda match: "0" if match[0] == "O" else "NVIDIA", line)
    if any(one in line for one in _MARKED_T):
        line = _TYPED_IN_HASTE.sub(lambda match: f"{match['word'] or match['does'] + 'oes'}n't", line)
    if "CUDA ERROR " in line:  # typed by hand
        line = _NAME_WITH_SPACES.sub(lambda match: match[0].replace(" ", "_"), line)
    return line


def _of_json(text: str) -> str | None:
    """The text in a JSON record of a log, or in a JSON string that is a line of a notebook."""
    plain = text.strip()
    try:
        if plain.startswith('{"') and plain.endswith("}"):
            record = msgspec.json.decode(plain)
            found = (record.get(key) for key in _KEYS)
            return next((value for value in found if isinstance(value, str) and value), None)
        if plain.endswith(('"', '",', '"]', '"],')) and "\\" in plain and (match := _STRING.fullmatch(text)):
            return str(msgspec.json.decode(match[1]))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    return None


# ------------------------------------------------------------------------------------------ lines

WHOLE = 4_000  # lines up to which everything is kept
TAIL = 400  # last lines of a longer text
MOST = 8_000  # lines kept in all; the parsers take 0.1 ms for each
PER_SHAPE = 40  # lines of one kind
EXAMINED = 10_000_000  # lines; of what follows only the tail is kept
AROUND = 3  # lines kept before and after the first of a kind
LONGEST = 2_000  # characters of a line; a longer one is read in pieces
PIECES = 12  # states of one progress bar
LONGEST_RUN = 100  # of one character
# All that the parsers see: the time that they take is in proportion to it, whatever the text. Where it is not enough
# for long lines, each is cut to its beginning and its end; a short one is always read as a whole.
MOST_CHARACTERS = 1_000_000
MOST_PIECES = 2 * MOST  # a line may wrap others
_CUTS = (LONGEST, 1_000, 500, 300, 200, 120, 100, 80, 60, 40)  # characters of a line; the first of them that is enough
_SHORT = 300  # characters of a line that is never cut
_SHARES = (MOST_PIECES, 1_000, 100, 30, 10, 4, 2)  # pieces of a line, likewise
_OVERLAP = 200  # characters that two pieces of a line share, so that a message stands in one of them
_SHAPES = 100_000  # kinds remembered
_BUFFER = 48_000  # bytes of a line
_MOST_BYTES = 8 << 20  # kept; from then on LONGEST of each line
_ONE_LINE = 10  # a notebook of fewer lines is written with a line for each text, as Jupyter does

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
# A line without any of these says nothing that a parser knows. Lower case; words with one beginning stand together,
# which makes the expression three times as fast.
_TELLING = (
    rb"a(?:bort|vx)|c(?:annot|on(?:da|tainer)|ould not|u(?:blas|d(?:a|nn)|fft|init|pti|rand|s(?:olver|parse)))"
    rb"|d(?:e(?:scriptor|vice)|ll|ocker|river|umped)|e(?:rror|x(?:ception|haust))|fa(?:il|tal)|g(?:libc|pu)"
    rb"|i(?:llegal|mport)|k(?:eras|illed)|libdevice|m(?:emory|ig)|n(?:ccl|o (?:module|space)|umpy"
    rb"|v(?:cc|cuda|i(?:dia|nfer)|link|ml|r(?:m|tc)))|oom|p(?:ip|roto|tx|ython)|s(?:egmentation|hm|lowdown|ymbol)"
    rb"|t(?:ensor|hrottl|raceback)|unable|v(?:ersion|isual)|warn|x(?:id|la)"
)
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    "|[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
# one character over and over: no message holds as much, and expressions that try each way to share it take for ever
_RUN = re.compile(rf"([^\s])\1{{{LONGEST_RUN},}}|\s{{{LONGEST_RUN},}}")
# a word in italics or bold, between blanks: "_without_ nvidia graphic card"
_EMPHASIS = re.compile(r"(?<![^\s(])(_|\*{1,2})([^\W\d_]{2,20})\1(?=[\s.,;:!?)]|$)")
_QUOTED = re.compile(r"^(?:\s*> )+(?=\s*\S)|^\s*>(?=[^>\s])")


class Line(NamedTuple):
    """One line and where it stands."""

    number: int  # 1-based
    text: str


@dataclass(frozen=True)
class Excerpt:
    """The lines that are worth reading, in their order, and what was left out."""

    lines: tuple[Line, ...]
    total: int  # lines of the text
    size: int  # bytes of the text
    cut: int = 0  # lines of which a part was left out
    joined: int = 0  # lines that stand in the one before

    @property
    def left_out(self) -> int:
        """Lines that were passed over because nothing in them is of a kind that could matter."""
        return self.total - self.joined - len({line.number for line in self.lines})


def read(chunks: Iterable[bytes]) -> Excerpt:
    r"""Decode and choose; never raises, whatever the bytes.

    >>> read([b"one\r\n\x1b[31mtw", b"o\x1b[0m\n> three"]).lines
    (Line(number=1, text='one'), Line(number=2, text='two'), Line(number=3, text='three'))
    """
    whole = iter(chunks)
    head = next(whole, b"")
    chunks = utf8(chain([head], whole))
    if is_notebook(head) and head.count(b"\n") < _ONE_LINE:
        chunks = _of_notebook(chunks)
    chooser = _Chooser(page=is_page(head))
    for lines in _split(chunks, chooser):
        chooser.take(lines)
    return chooser.excerpt()


def clean(text: str) -> str:
    """Without escape sequences, control characters, direction marks and the quote marks of mail and Markdown."""
    text = _ESCAPES.sub("", text.expandtabs()) if not text.isprintable() else text
    text = _QUOTED.sub("", text.replace("\xa0", " ")).rstrip()
    text = _EMPHASIS.sub(r"\2", text) if "_" in text or "*" in text else text
    return _RUN.sub(lambda run: run[0][:LONGEST_RUN], text) if len(text) > LONGEST_RUN else text


def _of_notebook(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same notebook with a line for each text; one that is cut off stays as it is."""
    data = b"".join(chunks).removeprefix(codecs.BOM_UTF8)
    try:
        yield msgspec.json.format(data, indent=1)
    except (msgspec.DecodeError, RecursionError):
        yield data


def _split(chunks: Iterable[bytes], chooser: _Chooser) -> Iterator[list[bytes]]:
    """Whole lines of each chunk; a line that never ends is cut off, and the rest of it dropped."""
    rest = b""
    for chunk in chunks:
        chooser.size += len(chunk)
        *lines, tail = chunk.split(b"\n")
        if lines:
            lines[0] = rest + lines[0]
            yield lines
            rest = tail
        elif len(rest) < _BUFFER:
            rest += tail[:_BUFFER]
        rest = rest[: _BUFFER * 2]
    if rest:
        yield [rest]


class _Chooser:
    """Decides line by line what is kept."""

    def __init__(self, page: bool = False) -> None:
        self.size = 0
        self._page = page
        self._number = 0
        self._kept: dict[int, bytes] = {}
        self._bytes = 0
        self._cut: set[int] = set()
        self._before: deque[tuple[int, bytes]] = deque(maxlen=AROUND)
        self._tail: deque[tuple[int, bytes]] = deque(maxlen=TAIL)
        self._after = 0
        self._telling = re.compile(_TELLING)
        self._seen: dict[int, int] = {}  # kind → how many were kept; -1: tells nothing

    def take(self, lines: list[bytes]) -> None:
        """Look at the next lines."""
        number, seen = self._number, self._seen
        self._number += len(lines)
        for line in lines if number < EXAMINED else ():
            number += 1
            if number <= WHOLE:
                self._keep(number, line)
                continue
            shape = hash(line[:600].translate(_DIGITS))
            count = seen.get(shape)
            if (count is None or 0 <= count < PER_SHAPE) and self._look(number, line, shape, count):
                continue
            if self._after > 0:
                self._after -= 1
                self._keep(number, line)
            self._before.append((number, line[:_BUFFER]))
        tail = lines[-TAIL:]
        self._tail.extend(zip(range(self._number - len(tail) + 1, self._number + 1), tail, strict=True))

    def _look(self, number: int, line: bytes, shape: int, count: int | None) -> bool:
        """Whether the line is kept for its own sake."""
        telling = count is not None or self._telling.search(line[:_BUFFER].lower()) is not None
        if len(self._seen) < _SHAPES or count is not None:
            self._seen[shape] = (count or 0) + 1 if telling else -1
        if telling and not count:
            for place, before in self._before:
                self._keep(place, before)
            self._after = AROUND
        if telling:
            self._keep(number, line)
        return telling

    def _keep(self, number: int, line: bytes, most: int = MOST) -> None:
        if number not in self._kept and len(self._kept) < most:
            room = _BUFFER if self._bytes < _MOST_BYTES else LONGEST
            if len(line) > room:
                self._cut.add(number)
            self._bytes += min(len(line), room)
            self._kept[number] = line[:room]

    def excerpt(self) -> Excerpt:
        """What was kept, decoded, in the order of the text."""
        for number, line in self._tail:
            self._keep(number, line, MOST + TAIL)
        kept = ((number, line.decode("utf-8", "replace")) for number, line in sorted(self._kept.items()))
        pieces = {number: list(_pieces(text, self._page)) for number, text in kept}
        share = _fitting(map(len, pieces.values()), _SHARES, MOST_PIECES)
        sizes = [len(text) for texts in pieces.values() for text in texts[:share]]
        room = MOST_CHARACTERS - sum(size for size in sizes if size <= _SHORT)
        longest = _fitting((size for size in sizes if size > _SHORT), _CUTS, room)
        lines: list[Line] = []
        for number, texts in pieces.items():
            if len(texts) > share:
                self._cut.add(number)
                texts = texts[: share // 2] + texts[-(share // 2) :]
            for text in texts:
                if len(text) > max(longest, _SHORT):
                    self._cut.add(number)
                    lines += (Line(number, text[: longest // 2]), Line(number, text[-(longest // 2) :]))
                else:
                    lines.append(Line(number, text))
        whole = _unbroken(lines)
        return Excerpt(tuple(whole), self._number, self.size, len(self._cut), len(lines) - len(whole))


_WRAPPED_AT = 72  # characters of a line, for programs that send mail (RFC 3676, 4.2)
_BROKEN = (": I", ": W", ": E", ": F")  # a record of TensorFlow's log ends so only where it was wrapped


def _unbroken(lines: list[Line]) -> list[Line]:
    """The same lines, with the records of TensorFlow's log that a mail program wrapped as one line each."""
    if not any(line.text.endswith(_BROKEN) for line in lines):
        return lines
    found: list[Line] = []
    before, in_record = Line(0, ""), False
    for line in lines:
        words = line.text.split(maxsplit=1)
        is_next = bool(words) and line.number == before.number + 1
        if in_record and is_next and len(before.text) + 1 + len(words[0]) > _WRAPPED_AT:
            found[-1] = Line(found[-1].number, f"{found[-1].text} {line.text.strip()}")
        else:
            found.append(line)
            in_record = line.text.endswith(_BROKEN)
        before = line
    return found


def _fitting(sizes: Iterable[int], limits: tuple[int, ...], most: int) -> int:
    """The first limit under which all together are at most so much; the last where none is enough."""
    known = tuple(sizes)
    return next((limit for limit in limits if sum(min(size, limit) for size in known) <= most), limits[-1])


def _pieces(text: str, page: bool) -> Iterator[str]:
    """The line, or its pieces where it wraps others, or progress bars were drawn over each other, or it is endless."""
    for line in unwrap(text.removesuffix("\r"), page):
        line = line.removesuffix("\r")
        for part in line.split("\r")[-PIECES:] if "\r" in line else (line,):
            part = clean(part)
            if len(part) <= LONGEST:
                yield part
            else:
                for start in range(0, len(part) - _OVERLAP, LONGEST - _OVERLAP):
                    yield part[start : start + LONGEST]
