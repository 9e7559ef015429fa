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
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from tfgpu_doctor.render.shapes import Page

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
    """A format; `shows` is the shape that `renderer` takes: a module of this package, or a function of one."""

    name: str
    shows: Shape | None = None
    renderer: str = ""
    own: Mapping[str, str] = {}
    shared: bool = False  # made for others to read, so redacted unless told otherwise
    ending: str = ""  # of files that get this format without being asked
    is_commands: bool = False  # of a CI system, which takes them from the log
    summary: str = ""  # the format that the summary of a GitHub job gets besides


_ROWS = (
    Format("text", "page", "text"),
    Format("json", ending=".json"),  # of every result: its own to_json
    Format("markdown", "page", "markdown", shared=True, ending=".md"),
    Format("junit", "checks", "ci:junit", shared=True, ending=".xml"),
    Format("github", "checks", "ci:github", shared=True, is_commands=True, summary="markdown"),
    Format("sarif", own={"check": "ci:sarif"}, shared=True, ending=".sarif"),
    Format("html", "page", "html.page", {"bench": "html.bench"}, shared=True, ending=".html"),
    Format("prometheus", "metrics", "prometheus", shared=True, ending=".prom"),
)
FORMATS = {row.name: row for row in _ROWS}


def choices(*kinds: str) -> tuple[str, ...]:
    """The formats in which at least one of these kinds of results can be shown."""
    return tuple(name for name in FORMATS if name in ("text", "json") or any(shows(name, kind) for kind in kinds))


def shows(name: str, kind: str) -> bool:
    """Whether a format has a renderer for results of this kind."""
    row = FORMATS[name]
    return kind in row.own or row.shows in KINDS[kind].shapes


def renderer(name: str, kind: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that shows a result of this kind, given those of the options that its parameters name.

    That of the text for people takes the console, too.
    """
    row = FORMATS[name]
    if kind in row.own:
        return _given(_function(row.own[kind]), options)
    options = {"detail": "normal", **options} if name == "text" else {**options, "detail": "shared"}
    outline = _given(_outline(kind, row.shows or ""), options)
    render = _function(row.renderer)
    return lambda result, *console: render(outline(result), *console)


def page_of(kind: str) -> Callable[[Any], Page]:
    """What makes a page of a result of this kind, for those that show it within one of their own."""
    found: Callable[[Any], Page] = _outline(kind, "page")
    return found


def _outline(kind: str, shape: str) -> Any:
    return getattr(_module(f"outlines.{kind.replace(' ', '_')}"), shape)


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(_module(module), function or "render")


def _module(name: str) -> Any:
    return import_module(f"tfgpu_doctor.render.{name}")


def _given(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters
    return partial(function, **{option: value for option, value in options.items() if option in parameters})
