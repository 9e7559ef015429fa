"""A finding's page for people: what it is, how to recognise, confirm and fix it, sources."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.findings.pages.headline import further_links, headline_of
from tfgpu_doctor.findings.pages.records import Check, Page, Remedy, Sign
from tfgpu_doctor.render.console import STYLES, marks
from tfgpu_doctor.render.terminal.layout import hanging

_SHIFT = "  "


def render(page: Page, console: Console) -> None:
    """Print the whole page."""
    _head(page, console)
    _wrapped(page.what, _SHIFT, console)
    if page.recognise:
        _section("How to recognise it", console)
        for number, sign in enumerate(page.recognise):
            _sign(sign, console, first=number == 0)
    if page.checks:
        _section("How to confirm it", console)
        for check in page.checks:
            _check(check, console)
    _section("How to fix it", console)
    before: str | None = None
    for remedy in page.fixes:
        if remedy.platform != before:
            hanging(Text(_SHIFT), Text(remedy.platform, "bold"), console)
        before = remedy.platform
        _remedy(remedy, console)
    _section("Sources", console)
    for source in page.sources:
        _wrapped(source.title, _SHIFT, console)
        _link(source.url, console)
    if links := further_links(page):
        _wrapped("See also", _SHIFT, console)
        for link in links:
            _link(link, console)


def _head(page: Page, console: Console) -> None:
    headline = headline_of(page.id)
    gravest = headline.severities[0].value
    named = " or ".join(severity.value for severity in headline.severities)
    symbol = marks(console)[gravest]
    head = Text.assemble((f"{symbol} ", STYLES[gravest]))
    hanging(head, Text.assemble((page.id, f"bold {STYLES[gravest]}"), (f"  {named}", "dim")), console)
    for title in headline.titles:
        hanging(Text(_SHIFT), Text(title, "bold"), console)
    console.print()


def _section(title: str, console: Console) -> None:
    console.print()
    console.print(Text(title, "bold"), soft_wrap=True)


def _wrapped(text: str, indent: str, console: Console) -> None:
    hanging(Text(indent), Text(text), console)


def _sign(sign: Sign, console: Console, *, first: bool) -> None:
    """A printed line stands out; what it means hangs under it."""
    if not first:
        console.print()
    if sign.line is None:
        _wrapped(sign.means, _SHIFT, console)
        return
    hanging(Text(_SHIFT), Text(sign.line, "yellow"), console)
    _wrapped(sign.means, _SHIFT * 3, console)


def _check(check: Check, console: Console) -> None:
    hanging(Text("  - "), Text(check.text), console)
    _commands(check.commands, console)
    if check.tells_from:
        hanging(Text("    "), Text(f"distinguishes it from {', '.join(check.tells_from)}", "dim"), console)


def _remedy(remedy: Remedy, console: Console) -> None:
    hanging(Text("  - "), Text(remedy.text), console)
    for line in remedy.example:
        console.print(Text("      " + line, "cyan"), soft_wrap=True)  # as it stands: it goes into a file
    _commands(remedy.commands, console)


def _commands(commands: tuple[str, ...], console: Console) -> None:
    for command in commands:
        # never wrapped by us: a command must survive being copied
        console.print(Text("      " + command, "bold cyan"), soft_wrap=True)


def _link(url: str, console: Console) -> None:
    console.print(Text(f"    {url}", "dim"), soft_wrap=True)  # a link must survive being copied
