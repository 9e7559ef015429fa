"""Where results go: pairs of --format and --output, checked before any work is done."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tfgpu_doctor.cli.options import add_options, choice, option, rare_option
from tfgpu_doctor.facts import writing
from tfgpu_doctor.facts.parameters import Listed, Word
from tfgpu_doctor.facts.printable import utf8
from tfgpu_doctor.facts.reading import why
from tfgpu_doctor.render.formats import FORMATS, PUBLIC, choices, renderer
from tfgpu_doctor.render.streams import guarded, harmless, say

if TYPE_CHECKING:
    from rich.console import Console

SUMMARY = "GITHUB_STEP_SUMMARY"  # names the file that GitHub shows as the summary of a job, as Markdown
_LARGEST_SUMMARY = 1024 * 1024  # bytes of a step; GitHub shows nothing of a longer one

_Function = TypeVar("_Function", bound=Callable[..., Any])

fail_on_option = choice(
    "--fail-on",
    choices=("error", "warning", "never"),
    default="error",
    show_default=True,
    rare=True,
    help="Lowest severity for which the exit code is 1.",
)
_SHARED = [row.name for row in FORMATS.values() if row.shared]
_redact = rare_option(
    "--redact/--no-redact",
    "redact",
    default=None,
    help="Replace names of users and hosts, private paths, addresses, UUIDs, serial numbers and credentials.  "
    f"[default: in {', '.join(_SHARED[:-1])} and {_SHARED[-1]}]",
)
_quiet = option("-q", "--quiet", "detail", flag_value="least", help="Show only the verdict and the first fix.")


def result_options(
    *kinds: str, more: str = "Show everything: all evidence, fixes and open checks."
) -> Callable[[_Function], _Function]:
    """Declare how results of these kinds are shown, the same in every command; `more` is the help of -v.

    The command gets `results`, a Results, whose files are checked before any work is done.
    """
    options = (
        option("-v", "--verbose", "detail", flag_value="full", help=more),
        *((_quiet,) if kinds == ("report",) else ()),
        option(
            "--format",
            type=Listed(Word(choices(*kinds)), unique=False),
            help="Output format, or several.  [default: text, and for a file what its ending says]",
        ),
        option(
            "--output",
            metavar="FILE",
            type=click.Path(dir_okay=False),
            multiple=True,
            help="Write to FILE, such as x.json or x.html, and print the text, too. With --format: one FILE for each "
            "format, in the same order; - is standard output.",
        ),
        rare_option(
            "--html", metavar="FILE", type=click.Path(), help="Write a page to FILE, too, as --output x.html does."
        ),
        *(() if PUBLIC.issuperset(kinds) else (_redact,)),
    )

    def add(function: _Function) -> _Function:
        @wraps(function)
        def collected(*arguments: Any, format: tuple[str, ...], output: tuple[str, ...], **values: Any) -> Any:
            shown = {"detail": values.pop("detail") or "normal", "redact": values.pop("redact", None)}
            targets = pair_outputs(format, output, *kinds)
            if (html := values.pop("html")) == "-":
                raise click.UsageError("--html needs a file name; --format html prints the page")
            if html and Path(html).suffix.lower() not in ("", ".html", ".htm"):
                raise click.UsageError(f"--html {html}: a page ends in .html")
            targets += [Output("html", check_writable("--html", html))] if html is not None else []
            given = (one for value in values.values() for one in (value if isinstance(value, tuple) else (value,)))
            refuse_overwriting(targets, (one for one in given if isinstance(one, str)))
            return function(*arguments, results=Results(targets, shown), **values)

        return add_options(*options)(collected)  # type: ignore[return-value]

    return add


def refuse_overwriting(targets: list[Output], files: Iterable[str]) -> None:
    """Refuse to write two results to one file, or one to a file that is read. Raises click.UsageError."""
    seen = {os.path.realpath(one): "is a file that this command reads" for one in files if os.path.isfile(one)}
    for path in filter(None, (target.path for target in targets)):
        real = os.path.realpath(path)
        if real in seen and (os.path.isfile(real) or not os.path.exists(real)):  # not of /dev/null
            raise click.UsageError(f"--output {path} {seen[real]}: name another one")
        seen[real] = "is named for two results"


class Results(NamedTuple):
    """Where the results of a command go, and how they are shown."""

    targets: list[Output]
    options: dict[str, Any]  # detail, redact

    def write(self, result: Any, kind: str, **options: Any) -> None:
        """Show a result once for each target, as :func:`write` does."""
        write(result, kind, self.targets, **self.options, **options)

    def write_page(self, data: Callable[[], bytes], render: Callable[[Console], None], what: str) -> None:
        """Show what has a text and JSON only. Raises click.UsageError: another format was asked for."""
        if others := [target.format for target in self.targets if target.format not in choices()]:
            raise click.UsageError(f"--format {others[0]}: {what} has {' and '.join(choices())} only")
        for target in self.targets:
            if target.format == "json":
                target.write_text(data().decode())
            else:
                target.print_with(render)


class NotWrittenError(click.ClickException):
    """A file cannot be written."""


class Output(NamedTuple):
    """A format and the file it goes to; None is standard output."""

    format: str
    path: Path | None

    def write_text(self, text: str) -> None:
        """Write a text that needs no console, in one step: UTF-8, whatever the terminal's encoding.

        Raises NotWrittenError: the file cannot be written.
        """
        text = harmless(text, ours=FORMATS[self.format].is_commands)
        if self.path is None:
            guarded(sys.stdout).write_document(text)
        else:
            write_file(self.path, utf8(text))
            report_written(self.path)

    def print_with(self, render: Callable[[Console], None]) -> None:
        """Let `render` print on a console for this target."""
        from tfgpu_doctor.render.console import console_for

        if self.path is None:
            render(console_for())
            return
        page = io.StringIO()
        render(console_for(page))
        self.write_text(page.getvalue())


def pair_outputs(formats: tuple[str, ...], outputs: tuple[str, ...], *kinds: str) -> list[Output]:
    """Pair formats with files by position; a file without a format takes it from its ending, where results allow it.

    Without any format, the text is printed, too: with one, nothing but what it says.

    Raises click.UsageError: two results for standard output, or a file that cannot be written.
    """
    if not formats and "-" not in outputs:
        formats, outputs = ("text",), ("-", *outputs)
    wanted = list(formats)
    by_ending = {FORMATS[name].ending: name for name in choices(*kinds)} | dict.fromkeys(("", ".txt", ".log"), "text")
    for name in outputs[len(wanted) :]:
        if (ending := Path(name).suffix.lower()) not in by_ending:
            known = ", ".join(sorted(filter(None, by_ending)))
            raise click.UsageError(f"--output {name}: unknown ending; use one of {known}, or name the format: --format")
        wanted.append(by_ending[ending])
    for name, kind in zip(outputs, wanted, strict=False):
        if (meant := by_ending.get(Path(name).suffix.lower(), kind)) not in (kind, "text"):
            note(f"--output {name} gets {kind}, as --format says, and not {meant}")
    paths = [None if name == "-" else check_writable("--output", name) for name in outputs]
    paths += [None] * (len(wanted) - len(paths))
    if paths.count(None) > 1:
        raise click.UsageError(
            f"{paths.count(None)} formats would go to standard output: give each an --output, "
            "as in --format text --format json --output - --output report.json"
        )
    return [Output(kind, path) for kind, path in zip(wanted, paths, strict=True)]


def check_writable(option: str, path: str) -> Path:
    """Return the path of a file; refuse it before the work that it is for, where it cannot be written."""
    if not path:  # of a variable that is not set
        raise click.UsageError(f"{option} is empty: it needs the name of a file")
    try:
        writing.check(path)
    except OSError as error:
        raise click.UsageError(f"{option} {path}: {why(error)}") from error
    return Path(path)


def write_file(path: Path, data: bytes) -> None:
    """Write a file in one step. Raises NotWrittenError: it cannot be written."""
    try:
        writing.replace(str(path), data)
    except OSError as error:
        raise NotWrittenError(f"cannot write {path}: {why(error)}") from error


def report_written(path: Path) -> None:
    """Say which file has the result, on standard error; not with --quiet, nor of a pipe or a device."""
    context = click.get_current_context(silent=True)
    is_quiet = context is not None and context.params.get("detail") == "least"
    if not is_quiet and path.is_file():
        say(f"tfgpu: wrote {path}")


def note(text: str) -> None:
    """Print a remark of a command on standard error."""
    say(f"tfgpu: {text}")


def folder_in_workspace() -> str:
    """Where the current folder lies in the checkout of a GitHub job, which GitHub's paths start from; "" elsewhere."""
    root, here = os.path.realpath(os.environ.get("GITHUB_WORKSPACE") or os.sep), os.path.realpath(".")
    is_inside = root != os.sep and here.startswith(root + os.sep)
    return os.path.relpath(here, root) if is_inside else ""


def append_summary(page: str) -> None:
    """Add Markdown to the summary of the GitHub job, where there is one; that it cannot be changes no verdict."""
    path = os.environ.get(SUMMARY)
    if not path:
        return
    data = utf8(page) + b"\n"
    try:
        if not writing.append(path, data, _LARGEST_SUMMARY):
            say(f"tfgpu: {SUMMARY} is full; the summary was left out")
    except OSError as error:
        say(f"tfgpu: cannot write the summary of the job, {path}: {why(error)}")


def write(
    result: Any,
    kind: str,
    targets: list[Output],
    *,
    redact: bool | None = None,
    redacted: Callable[[], Any] | None = None,
    **options: Any,
) -> None:
    """Show a result once for each target, redacted where `redact` or the format says so.

    What a file cannot take (the disk may be full since it was checked, and the result that of hours) is printed
    instead. Raises click.ClickException, after all targets: what could not be written.

    Args:
        result: what has a `to_json`, and a renderer of its kind in each of the formats.
        redacted: makes the result from facts that are redacted, where its texts alone do not show what they were.
        options: what renderers may want to know beside it.
    """

    def private() -> Any:
        from tfgpu_doctor.redact.redaction import redact as redaction

        return redaction(redacted() if redacted else result)

    context = click.get_current_context(silent=True)
    if context and (results := context.find_object(list)) is not None:  # a notebook shows the result itself
        results.append(private() if redact and kind not in PUBLIC else result)
        return

    def show(target: Output) -> None:
        row = FORMATS[target.format]
        hide = kind not in PUBLIC and (row.shared if redact is None else redact)
        shown = private() if hide else result
        if row.name == "json":
            target.write_text(shown.to_json().decode())
        elif row.name == "text":
            target.print_with(partial(renderer(row.name, kind, options), shown))
        else:
            target.write_text(renderer(row.name, kind, options)(shown))
        if row.name == "github":
            append_summary(renderer("markdown", kind, options)(shown))

    failed: list[tuple[Output, str]] = []
    for target in targets:
        try:
            show(target)
        except NotWrittenError as error:
            failed.append((target, error.message))
    messages = [message for _, message in failed]
    if failed and all(target.path is not None for target in targets):
        show(failed[0][0]._replace(path=None))
        messages.append("the result was printed instead")
    if failed:
        raise NotWrittenError("; ".join(messages))
