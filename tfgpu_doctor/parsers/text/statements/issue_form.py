"""What the reporter says of the machine: GitHub's issue forms, older templates, free lines and tables.

>>> text = '''### TensorFlow version
...
... 2.14.0
...
... ### GCC/compiler version
...
... _No response_
...
... ### CUDA/cuDNN version
...
... CUDA 11.7 / cuDNN 8.6.0
...
... - OS Platform and Distribution (e.g., Linux Ubuntu 16.04): Fedora 38
... GPU model and memory: GeForce GTX 960, 4 GB'''
>>> for one in parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)]):
...     print(one.line, one.key, one.value)
3 tensorflow 2.14.0
11 cuda 11.7
11 cudnn 8.6.0
13 os fedora 38
14 gpu GeForce GTX 960

What nvidia-smi calls "CUDA Version" is what its driver supports, and no statement about a toolkit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.parsers.text.statements import values
from tfgpu_doctor.parsers.text.statements.labels import (
    BRACKETS,
    BULLET,
    COMPILER,
    GPU,
    INSTALL,
    MARKS,
    Reader,
    reader_of,
)
from tfgpu_doctor.parsers.text.statements.mentions import mentions

LONGEST = 400  # characters; no field of a form is as long, and the expressions below stay quick
_ANSWER_WITHIN = 12  # lines between a command that asks for the version and its answer
_SHORT = 80  # characters of a heading
_NEVER = -_ANSWER_WITHIN - 1
_VALUE_WITHIN = 4  # lines between a heading and its value


@dataclass(frozen=True)
class Statement:
    """One thing that somebody wrote about the machine."""

    key: str  # "os", "python", "tensorflow", "cuda", "cudnn", "driver", "gpu", "compiler", "install"
    value: str  # "12.4", "ubuntu 20.04", "GeForce GTX 1080"
    raw: str  # the whole field as it was written
    line: int


_WORTH_A_LOOK = re.compile(
    r"cuda|cudnn|tensor ?flow|\btf|python|driver|gpu|graphic|video|\bos\b|operating|platform|distr|gcc|compiler|clang"
    r"|install|source|system|windows|ubuntu|debian|centos|linux|mac ?os|nvcc|card|quadro|geforce|gtx|rtx|version|py",
    re.IGNORECASE,
)
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:|[IWEF]\d{4} \d\d:|[IWEF] (?:tensorflow|external)/|Traceback |  File \"")
_HEADING = re.compile(
    r"\s*#{1,6}\s+(?P<label>\S(?:.*[^\s:#])?)[\s:#]*$|\s*\*\*(?P<bold>[^*:]*[^*:\s])\s*:?\*\*\s*:?\s*$"
)
_SEPARATOR = re.compile(r"\s*[:：=|]+\s*")
_FIELD_OF_FORM = re.compile(
    r"[\s*-]*(?P<label>OS Platform and Distribution|CUDA/cuDNN version|GPU model and memory|GCC/Compiler version) +"
    r"(?=[\w\[])",
    re.IGNORECASE,
)
_WIDE_COLON = re.compile(r"\S {2,}:\s")  # as nvidia-smi writes
_RULE = re.compile(r"[\s|:+=-]+")
_ASKS = re.compile(r"\b(?:tf|tensorflow)\.(?:__version__|VERSION|version\.VERSION|GIT_VERSION)")
_ANSWER = re.compile(
    r"[\s(]*(?:Out\[\d{1,4}\]: )?(?:b?['\"]?(?:v\d[\w.-]*|unknown)['\"]?,?\s+)?"
    r"b?['\"]?(?P<version>[012]\.\d{1,2}\.\d{1,2}[\w.-]{0,16})['\"]?[\s)]*"
)
_DESCRIBED = re.compile(
    r"[\s(]*b?['\"]?v[012]\.\d{1,2}\.\d{1,2}[\w.-]*['\"]?,?\s+"
    r"b?['\"]?(?P<version>[012]\.\d{1,2}\.\d{1,2}[\w.-]{0,16})['\"]?[\s)]*"
)


def parse(lines: Sequence[Line]) -> tuple[Statement, ...]:
    """Everything that is stated, in the order of the text, a thing twice when it is stated twice."""
    return tuple(_walk(lines))


_EXPECTED = re.compile(r"\W{0,8}(?:describe the )?expected (?:behaviou?r|results?|outputs?)\W{0,4}\s*", re.IGNORECASE)
_LISTS_A_GPU = re.compile(r"device:GPU|GPU:\d|device_type='GPU'")
_NEXT_PART = re.compile(
    r"\s*(?:#{1,6}\s+\S|\*\*[^*]{2,80}\*\*\s*:?\s*$"
    r"|\W{0,8}(?:actual|current|observed|steps|other|environment|system|additional|relevant|screenshots?|logs?)\b)",
    re.IGNORECASE,
)


def without_expected(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines without the devices that a form says should have been listed."""
    kept: list[Line] = []
    inside = False
    for line in lines:
        if len(line.text) < _SHORT and _EXPECTED.fullmatch(line.text):
            inside = True
        elif inside and _NEXT_PART.match(line.text):
            inside = False
        if not (inside and _LISTS_A_GPU.search(line.text)):
            kept.append(line)
    return tuple(kept)


def _walk(lines: Sequence[Line]) -> Iterator[Statement]:
    asked, read = _NEVER, 0
    for place, line in enumerate(lines):
        text = line.text
        if line.number <= read or len(text) > LONGEST or _LOGGED.match(text):
            continue
        answer = _ANSWER.fullmatch(text) if place - asked <= _ANSWER_WITHIN else _DESCRIBED.fullmatch(text)
        if answer and (version := values.tensorflow(answer["version"])):
            yield Statement("tensorflow", version, text.strip(), line.number)
            asked = _NEVER
        if not _WORTH_A_LOOK.search(text):
            continue
        if _ASKS.search(text):
            asked = place
        for stated in _of_line(lines, place):
            read = max(read, stated.line)
            yield stated


def _of_line(lines: Sequence[Line], place: int) -> Iterator[Statement]:
    """What one line says, with the lines after it where the value stands there."""
    text = _joined(lines, place)
    if heading := _HEADING.match(text):
        yield from _below(lines, place, reader_of(heading["label"] or heading["bold"]), titled=True)
        return
    if text.count("|") >= 2:
        yield from _row(lines, place)
        return
    if _is_of_nvidia_smi(lines, place):
        return
    label, value = _split(text)
    reader = reader_of(label)
    if reader is None:
        yield from (Statement(key, value, text.strip(), lines[place].number) for key, value in mentions(text))
    elif value.strip(MARKS):
        yield from _read_field(reader, value, lines[place].number)
    else:
        yield from _below(lines, place, reader)


def _joined(lines: Sequence[Line], place: int) -> str:
    """The line, with the next one when the label's brackets were wrapped: "(e.g.," and "Linux Ubuntu 16.04): ..."."""
    text = lines[place].text
    if text.count("(") > text.count(")") and place + 1 < len(lines) and len(text) < 100:
        following = lines[place + 1].text
        if ")" in following and len(following) <= LONGEST - 100:
            return f"{text.rstrip()} {following.lstrip()}"
    return text


def _split(text: str) -> tuple[str, str]:
    """Label and value at the first colon outside brackets."""
    head = BRACKETS.sub(lambda match: " " * len(match[0]), text)
    separator = _FIELD_OF_FORM.match(head) or _SEPARATOR.search(head)
    if separator is None or separator.start() > 120 or separator[0].strip() == "==":
        return "", ""
    if head[: separator.start()].endswith(("<", ">", "!", "~")):  # "CUDA version >= 11.1 is needed" is no field
        return "", ""
    if separator.re is _FIELD_OF_FORM:  # "GPU model and memory   NVIDIA Corporation GK208 [GeForce GT 710]"
        return separator["label"], text[separator.end() :]
    return head[: separator.start()], text[separator.end() :]


def _read_field(reader: Reader, value: str, number: int) -> Iterator[Statement]:
    """The entries of one field."""
    plain = value.strip().strip("*`").strip()
    in_words = reader is GPU and values.names_no_gpu(plain)
    pairs = reader(plain) if in_words or not values.says_nothing(plain) else []
    if pairs and pairs[0][0] == "os" and "," in plain:  # "OS: windows 11, tensorflow-cpu 2.6.0, Python 3.9.7"
        others = [pair for pair in mentions(plain) if pair[0] != "os"]
        first = values.system(plain.split(",")[0])
        pairs = [("os", first), *others] if others and first else pairs
    yield from (Statement(key, value, plain, number) for key, value in pairs)


def _below(lines: Sequence[Line], place: int, reader: Reader | None, titled: bool = False) -> Iterator[Statement]:
    """The value of a heading, or of a label with nothing behind it: the next paragraph."""
    if reader is None or (not titled and reader in (COMPILER, INSTALL)):
        return  # any text would do for these two
    seen = 0
    for line in lines[place + 1 : place + 1 + 2 * _VALUE_WITHIN]:
        text = line.text[:LONGEST].strip()
        if not text or text.startswith("```") or _HTML.fullmatch(text):
            if seen:
                return
            continue
        another = _HEADING.match(text) or _LOGGED.match(text) or ((seen or not titled) and reader_of(_split(text)[0]))
        if seen == _VALUE_WITHIN or another:
            return
        seen += 1
        yield from _read_field(reader, BULLET.sub("", text), line.number)


_HTML = re.compile(r"</?\w+[^<>]*>")


def _is_of_nvidia_smi(lines: Sequence[Line], place: int) -> bool:
    """Whether "CUDA Version" stands in nvidia-smi's banner, wrapped or not, or in its long form."""
    text = lines[place].text
    if "version" not in text.lower():
        return False
    before = lines[place - 1].text if place else ""
    return bool(
        _WIDE_COLON.search(text)
        or text.rstrip().endswith("|")
        or "NVIDIA-SMI" in before[:LONGEST]
        or "NVRM" in before[:LONGEST]
    )


def _row(lines: Sequence[Line], place: int) -> Iterator[Statement]:
    """A row of a table: label and value, or a row of labels over one of values."""
    cells = _cells(lines[place].text)
    readers = [reader_of(cell) for cell in cells]
    if len(cells) == 2 and readers[0] and not readers[1]:
        yield from _read_field(readers[0], cells[1], lines[place].number)
    elif len(list(filter(None, readers))) >= 2 and (row := _row_below(lines, place, len(cells))) is not None:
        for reader, value in zip(readers, _cells(row.text), strict=True):
            yield from _read_field(reader, value, row.number) if reader else ()


def _row_below(lines: Sequence[Line], place: int, width: int) -> Line | None:
    """The only row of values below a row of labels."""
    below = [line for line in lines[place + 1 : place + 4] if not _RULE.fullmatch(line.text[:LONGEST])]
    if not below or len(_cells(below[0].text)) != width:
        return None
    return below[0] if len(below) < 2 or len(_cells(below[1].text)) < 2 else None


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text[:LONGEST].strip().strip("|").split("|")] if "|" in text else []
