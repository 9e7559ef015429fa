"""The page of a bench result: what has to be there before anything is measured, and what it shows beside the result."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.layers import load_matrix
from tfgpu_doctor.cli.options import option
from tfgpu_doctor.cli.output import Output, check_writable

if TYPE_CHECKING:
    from tfgpu_doctor.records.facts import Facts
    from tfgpu_doctor.records.report import Report

NEEDS = "the page with charts needs Matplotlib: python -m pip install 'matplotlib>=3.8'"
OLDEST = (3, 8)  # what pyproject.toml asks for


html_option = option(
    "--html",
    metavar="FILE.html",
    type=click.Path(dir_okay=False),
    hidden=True,
    help="Also write an HTML page: what --format html --output FILE.html does.",
)


def with_html(targets: list[Output], name: str | None) -> list[Output]:
    """These targets and the file of --html; refuses what could not be written after minutes of measuring.

    Raises click.UsageError: no Matplotlib, no such folder, or no permission.
    """
    if name == "-":
        raise click.UsageError("--html needs a file name; standard output gets the text")
    if name:
        targets = [*targets, Output("html", Path(name))]
    if any(target.format == "html" for target in targets):
        _check_charts()
    if name:
        check_writable("--html", name)
    return targets


def _check_charts() -> None:
    """Whether the charts can be drawn: Matplotlib is there, works, and is not too old.

    Raises click.UsageError: one of these is not so.
    """
    if find_spec("matplotlib") is None:
        raise click.UsageError(NEEDS)
    # it speaks of its font cache, which nobody asked about
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        with _elsewhere():
            import matplotlib

        import tfgpu_doctor.render.html.charts  # noqa: F401 - what a broken installation fails at
    except ImportError as error:
        raise click.UsageError(f"{NEEDS}; the installed one does not work: {error}") from error
    if matplotlib.__version_info__[:2] < OLDEST:
        raise click.UsageError(f"{NEEDS}; the installed version {matplotlib.__version__} is too old")


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Leave the current directory: at its import, Matplotlib reads a matplotlibrc that lies there, and evaluates it."""
    here = os.curdir
    with suppress(FileNotFoundError):  # it has been removed
        here = os.getcwd()
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    try:
        yield
    finally:
        with suppress(OSError):
            os.chdir(here)


def diagnosis(matrix_file: str | None) -> Callable[[Facts], Report]:
    """What gives the doctor's verdict over the facts that a result carries, which its page shows."""

    def diagnose(facts: Facts) -> Report:
        from tfgpu_doctor.findings.engine import make_report

        return make_report(facts, load_matrix(matrix_file), source="live", timings={})

    return diagnose
