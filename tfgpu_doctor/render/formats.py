"""The formats of --format and the kinds of results: one row each, which is all that commands know of them.

A kind of result has an outline (outlines/), which makes of it one or more shapes: a page, checks, metrics. A format
has one renderer for one of these shapes, so that a new format is one row, and every result that has this shape can be
shown in it; `own` are the renderers of what needs more than a shape can hold, such as charts.

Renderers are imported when they are used, so that a command does not wait for those that it does not need.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

# how much of a result is shown: of the text for people, or all that is made for others to read
Detail = Literal["least", "normal", "full", "shared"]
Shape = Literal["page", "checks", "metrics"]


class Kind(NamedTuple):
    """A kind of result: its record, and what its outline makes of it (functions of outlines.<kind>, a blank as _)."""

    record: str
    shapes: tuple[Shape, ...] = ("page", "checks", "metrics")


KINDS = {
    "report": Kind("Report"),
    "check": Kind("Checked", ("page", "checks")),
    "smoke": Kind("Smoke"),
    "report comparison": Kind("Comparison", ("page", "checks")),
    "bench": Kind("BenchResult"),
    "bench comparison": Kind("BenchComparison", ("page", "checks")),
    "fleet": Kind("Fleet"),
    "plan": Kind("Plan", ("page",)),
    "matrix": Kind("Answered", ("page",)),
}
PUBLIC = frozenset({"matrix"})  # kinds that hold nothing of a machine, so that nothing is redacted


class Format(NamedTuple):
    """A format; `shows` is the shape that `renderer` takes: a function of a module of this package."""

    name: str
    shows: Shape | None = None
    renderer: str = ""
    own: Mapping[str, str] = {}
    shared: bool = False  # made for others to read, so redacted unless told otherwise
    ending: str = ""  # of files that get this format without being asked
    is_commands: bool = False  # of a CI system, which takes them from the log


_ROWS = (
    Format("text", "page", "text:render"),
    Format("json", ending=".json"),  # of every result: its own to_json
    Format("markdown", "page", "markdown:render", shared=True, ending=".md"),
    Format("junit", "checks", "ci:junit", shared=True, ending=".xml"),
    Format("github", "checks", "ci:github", shared=True, is_commands=True),
    Format("sarif", own={"check": "ci:sarif"}, shared=True, ending=".sarif"),
    Format("html", "page", "html.page:render", {"bench": "html.bench:render"}, shared=True, ending=".html"),
    Format("prometheus", "metrics", "prometheus:render", shared=True, ending=".prom"),
)
FORMATS = {row.name: row for row in _ROWS}


def choices(*kinds: str) -> tuple[str, ...]:
    """The formats in which at least one of these kinds of results can be shown."""
    return tuple(
        name
        for name, row in FORMATS.items()
        if name in ("text", "json") or any(kind in row.own or row.shows in KINDS[kind].shapes for kind in kinds)
    )


def renderer(name: str, kind: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that shows a result of this kind, given those of the options that its parameters name.

    That of the text for people takes the console, too.
    """
    row = FORMATS[name]
    if kind in row.own:
        return _given(_of_package(row.own[kind]), options)
    options = {"detail": "normal", **options} if name == "text" else {**options, "detail": "shared"}
    outline, render = _given(outline_of(kind, row.shows or ""), options), _of_package(row.renderer)
    return lambda result, *console: render(outline(result), *console)


def outline_of(kind: str, shape: str) -> Callable[..., Any]:
    """What makes this shape of a result of this kind."""
    return _of_package(f"outlines.{kind.replace(' ', '_')}:{shape}")


def _of_package(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = resolve_name(f"tfgpu_doctor.render.{name}")
    return found


def _given(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters
    return partial(function, **{option: value for option, value in options.items() if option in parameters})
