"""The formats of --format: one row each, which is all that commands know of them.

Renderers are imported when they are used, so that a command does not wait for those that it does not need.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Literal, NamedTuple

Detail = Literal["least", "normal", "full"]  # how much of a result the text for people shows


class Format(NamedTuple):
    """A format; `renderers` are modules of this package by the kind of result that they show."""

    name: str
    renderers: Mapping[str, str] = {}
    shared: bool = False  # made for others to read, so redacted unless told otherwise
    ending: str = ""  # of files that get this format without being asked
    is_commands: bool = False  # of a CI system, which takes them from the log
    summary: str = ""  # the format that the summary of a GitHub job gets besides
    changes: bool = False  # shows how files would be changed, which takes long to find out


_ROWS = (
    Format(
        "text",
        {
            "report": "terminal.report",
            "check": "terminal.check",
            "smoke": "terminal.smoke",
            "report comparison": "terminal.compare",
            "bench comparison": "terminal.bench_compare",
        },
        changes=True,
    ),
    Format("json", ending=".json"),  # of every result: its own to_json
    Format(
        "markdown",
        {
            "report": "markdown.report",
            "check": "markdown.check",
            "smoke": "markdown.smoke",
            "bench comparison": "markdown.bench_compare",
        },
        shared=True,
        ending=".md",
        changes=True,
    ),
    Format(
        "junit",
        {"report": "ci.junit", "check": "ci.check_junit", "smoke": "ci.smoke_junit"},
        shared=True,
        ending=".xml",
    ),
    Format(
        "github",
        {"report": "ci.github", "check": "ci.check_github", "smoke": "ci.smoke_github"},
        shared=True,
        is_commands=True,
        summary="markdown",
    ),
    Format("sarif", {"check": "ci.check_sarif"}, shared=True, ending=".sarif"),
    Format("html", {"report": "html.doctor"}, shared=True, ending=".html"),
)
FORMATS = {row.name: row for row in _ROWS}


def choices(*kinds: str) -> tuple[str, ...]:
    """The formats in which at least one of these kinds of results can be shown."""
    everything = ("text", "json")
    return tuple(row.name for row in _ROWS if row.name in everything or any(kind in row.renderers for kind in kinds))


def renderer(name: str, kind: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that shows a result of this kind, given those of the options that its parameters name."""
    render = import_module(f"tfgpu_doctor.render.{FORMATS[name].renderers[kind]}").render
    parameters = inspect.signature(render).parameters
    return partial(render, **{option: value for option, value in options.items() if option in parameters})
