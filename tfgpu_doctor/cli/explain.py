"""`tfgpu explain`: diagnose pasted text or a saved report, or print the page of a finding."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.checks import checks_options, verify
from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import define_command
from tfgpu_doctor.cli.output import (
    detail_options,
    fail_on_option,
    output_options,
    pair_outputs,
    redact_option,
)
from tfgpu_doctor.cli.reading import read_ends
from tfgpu_doctor.cli.values import PageOrFile
from tfgpu_doctor.files.reading import in_mib, shown
from tfgpu_doctor.records.printable import utf8
from tfgpu_doctor.render.formats import choices
from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.cli.output import Output
    from tfgpu_doctor.records.report import FailOn, Report
    from tfgpu_doctor.render.formats import Detail

_LARGEST = 1 << 30  # bytes of a log; it takes half a minute
_ID = re.compile(r"[a-z0-9]+\.[a-z0-9-]+")
_WORD = re.compile(r"(?P<name>[A-Za-z0-9_]{2,20})(?:\.\*?)?")  # a layer, or the first part of ids
_NO_FILE_NAME = re.compile(
    r".*\s.*|[A-Z]+(?:_[A-Z]+)+", re.DOTALL
)  # what may be a message: words, CUDA_ERROR_NO_DEVICE
_SENTENCE = re.compile(r"(?:[^\s/\\]+\s+){4}(?!.*\.[A-Za-z]{2,5}$)", re.DOTALL)  # more words than a file name has
_PIPE = "To explain a text, pipe it: echo '...' | tfgpu explain -"
_REPORT_START = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"tfgpu\.')
_CONTROL = bytes({*range(1, 32), 127} - set(b"\b\t\n\v\f\r\x1b"))
# first bytes of files that are not text, and how to extract their text
_NOT_TEXT = (
    (b"\x1f\x8b", "is compressed with gzip; unpack it first: gunzip -c FILE | tfgpu explain -"),
    (b"BZh", "is compressed with bzip2; unpack it first: bunzip2 -c FILE | tfgpu explain -"),
    (b"\xfd7zXZ\0", "is compressed with xz; unpack it first: xz -dc FILE | tfgpu explain -"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd; unpack it first: zstd -dc FILE | tfgpu explain -"),
    (b"PK\x03\x04", "is a zip archive; unpack it first: unzip -p FILE | tfgpu explain -"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive; unpack it first"),
    (b"\x89PNG", "is an image, not text: copy the text itself"),
    (b"\xff\xd8\xff", "is an image, not text: copy the text itself"),
    (b"GIF8", "is an image, not text: copy the text itself"),
    (b"%PDF-", "is a PDF, not text: copy the text itself"),
    (b"\x7fELF", "is a program or library (ELF), not text"),
    (b"MZ\x90\0", "is a Windows program or library, not text"),
    (b"\xcf\xfa\xed\xfe", "is a macOS program or library, not text"),
)


@define_command(
    "explain",
    short_help="Diagnose a pasted log, traceback or nvidia-smi output.",
    epilog="Examples: tfgpu explain issue.txt; python train.py 2>&1 | tfgpu explain -; tfgpu explain cuda.missing",
)
@click.argument("source", metavar="[FILE|-|ID]", required=False, type=PageOrFile())
@matrix_option
@checks_options
@fail_on_option
@redact_option
@detail_options
@output_options("report")
@click.pass_context
def command(
    context: click.Context,
    source: str | None,
    matrix_file: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    fail_on: FailOn,
    redact: bool | None,
    detail: Detail | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
) -> None:
    """Diagnose pasted text, or print the page of a finding.

    FILE may contain, in any combination, TensorFlow logs, tracebacks, output of nvidia-smi, pip and conda, Docker
    errors, bug reports and tfgpu reports. Without FILE, or with -, standard input is read. ID is the id of a finding.
    This machine is not examined.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem was found, 2 wrong usage, 3 could not determine.
    """
    targets = pair_outputs(formats, outputs, "report")
    if source is not None and not os.path.exists(source):
        if _ID.fullmatch(source.lower()):
            _page(source.lower(), targets)
            return
        if word := _WORD.fullmatch(source):
            _refuse_prefix(source, word["name"].lower())
    from tfgpu_doctor.cli.doctor import show
    from tfgpu_doctor.records.report import exit_code

    verify(only, skip)
    report = _diagnose(source or "-", matrix_file)
    if only or skip:
        from tfgpu_doctor.diagnosis.selection import restrict

        report = restrict(report, only, skip)
    show(report, targets, redact, fail_on, only, skip, detail or "normal")
    context.exit(exit_code(report, fail_on))


def _diagnose(source: str, matrix_file: str | None) -> Report:
    if source == "-" and sys.stdin and sys.stdin.isatty():
        end = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D"
        say(f"Paste the log or error message, then press {end} on an empty line.")
    return diagnose(_chunks(source), source, matrix_file)


def diagnose(chunks: Iterator[bytes], source: str, matrix_file: str | None) -> Report:
    """Diagnose the chunks of a text or of a saved report; `source` is what it is called in messages.

    Raises click.UsageError: it is neither.
    """
    from tfgpu_doctor.diagnosis.reports import make_report
    from tfgpu_doctor.parsers import lines, text_to_facts

    first = next(chunks, b"")
    if wrong := _not_text(first):
        advice = wrong if source == "-" else wrong.replace("FILE", shlex.quote(source))
        raise click.UsageError(f"{shown(source)} {advice}")
    if _REPORT_START.match(first):
        return _saved(chain([first], chunks), source, matrix_file)
    excerpt = lines.read(chain([first], chunks))
    if not any(line.text.strip() for line in excerpt.lines):
        raise click.UsageError(
            f"{shown(source)} contains no text: expected a log, a traceback or the output of nvidia-smi"
        )
    if excerpt.left_out:
        more = f"; after line {lines.EXAMINED} only the last {lines.TAIL}" if excerpt.total > lines.EXAMINED else ""
        say(f"tfgpu: {excerpt.total} lines read; {excerpt.left_out} repeated or irrelevant lines skipped{more}")
    if excerpt.cut:
        say(f"tfgpu: {excerpt.cut} lines are too long to be examined as a whole: parts of them were left out")
    matrix = load_matrix(matrix_file)
    return make_report(text_to_facts.read(excerpt, matrix), matrix, source="text", timings={})


def _chunks(source: str) -> Iterator[bytes]:
    """What is to be read. Raises click.UsageError: a file that cannot be read."""
    if _is_message(source):
        yield utf8(source)
        return
    try:
        yield from read_ends(source, _LARGEST)
    except click.UsageError as error:
        raise click.UsageError(
            error.message if source == "-" or os.path.exists(source) else f"{error.message}. {_PIPE}"
        ) from error


def _is_message(source: str) -> bool:
    """Whether the argument is no file, but itself a text: a sentence, or a message that the catalogue knows."""
    if not _NO_FILE_NAME.fullmatch(source) or os.path.exists(source):
        return False
    if _SENTENCE.match(source):
        return True
    from tfgpu_doctor.parsers import lines
    from tfgpu_doctor.parsers import messages as catalogue

    read = lines.read([utf8(source)])
    return any(catalogue.is_failure(message.kind) for message in catalogue.read(read.lines))


def _not_text(first: bytes) -> str | None:
    """Why a file is not text; None if it may be text.

    Random bytes may contain "T4", which would be read as a GPU. Text has hardly any control characters except those for
    whitespace and colour; NUL does not count, because UTF-16 and logs that were truncated while copying contain many.
    """
    known = next((why for magic, why in _NOT_TEXT if first.startswith(magic)), None)
    if known or first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return known
    head = first[:1_000_000].replace(b"\0", b"")
    control = len(head) - len(head.translate(None, _CONTROL))
    return "is a binary file, not text: copy the text itself" if control > 9 and control > len(head) * 0.03 else None


def _saved(chunks: Iterator[bytes], source: str, matrix_file: str | None) -> Report:
    """Diagnose a report in JSON, as ``tfgpu doctor --from`` does."""
    from tfgpu_doctor.cli.saved import LARGEST
    from tfgpu_doctor.diagnosis.reports import make_report
    from tfgpu_doctor.records.report import ReportError, load_report

    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > LARGEST:
            raise click.UsageError(f"cannot read {shown(source)}: it is larger than {in_mib(LARGEST)}")
    try:
        old = load_report(bytes(data), shown(source), "tfgpu explain")
    except ReportError as error:
        raise click.UsageError(str(error)) from error
    return make_report(
        old.facts,
        load_matrix(matrix_file),
        source="text" if old.source == "text" else "report",
        timings=old.timings,
    )


def _refuse_prefix(word: str, name: str) -> None:
    """List the findings of a layer or a prefix that was given instead of an id.

    Raises click.UsageError: the word is a layer, or the part of ids before the dot.
    """
    from tfgpu_doctor.findings import pages

    ids = [known for known in pages.all_ids() if known.startswith(f"{name}.")]
    if not ids and name in pages.LAYERS:
        ids = [page.id for page in pages.pages_of(name)]
    if ids:
        raise click.UsageError(f"{word} is not a file. Findings of that group: {', '.join(ids)}")


def _page(finding_id: str, targets: list[Output]) -> None:
    """Print the page of a finding.

    Raises click.UsageError: there is neither such a finding nor such a file, or a page has no such format.
    """
    from tfgpu_doctor.findings import pages

    page = pages.page_of(finding_id)
    if page is None:
        similar = pages.nearest(finding_id)
        hint = f" Did you mean {' or '.join(similar)}?" if similar else f" All ids: tfgpu doctor --list-checks. {_PIPE}"
        raise click.UsageError(f"{finding_id} is neither a file nor the id of a finding.{hint}")
    if others := [target.format for target in targets if target.format not in choices()]:
        raise click.UsageError(f"--format {others[0]}: the page of a finding has {' and '.join(choices())} only")
    for target in targets:
        if target.format == "json":
            from tfgpu_doctor.findings.pages.headline import page_json

            target.write_json(page_json(page))
        else:
            from tfgpu_doctor.render import text
            from tfgpu_doctor.render.outlines import finding

            target.print_with(partial(text.render, finding.page(page)))
