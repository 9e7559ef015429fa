"""A bench result as one page that needs nothing else: its outline, pictures, the doctor's verdict, the raw data. Pure.

The page is made for others to read: the caller hands over a result that was redacted (redact/).
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator

from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.render.html import page
from tfgpu_doctor.render.html.charts import ROWS, chunks, samples, scaling, speed, worth_drawing
from tfgpu_doctor.render.html.page import element, paragraph, text
from tfgpu_doctor.render.outlines import bench as outline
from tfgpu_doctor.render.outlines import report as doctor_outline

DRAWN = 2 * ROWS  # runs in pictures, which hold ROWS each
LARGE = 500_000  # bytes of JSON from which on the file for download is compressed
_BARS = "Bars: median throughput; the line at their ends: its 95 % interval."
_SAMPLES = (
    "Every sample, in the order of time from the top of a row to its bottom. Line: median; band: its 95 % interval; "
    "crosses: a GPU was throttled; dotted: a new process; triangles: outside of what is drawn."
)
_SCALING = "Dashed: ideal. Vertical lines: 95 % intervals."
_LEFT_OUT = "{} of {} runs are drawn, throttled ones and those with advice first; the table has all of them."
_READ = (
    "Times are medians with 95 % intervals from order statistics; of fewer than six samples, with their range. Speeds "
    "have the interval of the median, speed-ups the worst case of both intervals. Only digits that the spread supports "
    "are shown. A run whose result was wrong, unverified or computed on another device has no speed. Per cent of peak: "
    "multiprocessors × highest SM clock × FLOP per cycle of the architecture. Logical (virtual) devices share one "
    "physical device: they prove function, never speed. Names of users and hosts, private paths, addresses, serial "
    "numbers and credentials are left out."
)


def render(result: BenchResult, report: Report | None = None, diagnose: Callable[[Facts], Report] | None = None) -> str:
    """Render the whole page; `report` is the doctor's of the facts that the result carries, or `diagnose` makes it."""
    report = diagnose(result.environment) if diagnose else report
    shown = outline.page(result)
    if report:
        shown = shown._replace(parts=(*shown.parts, doctor_outline.page(report, "full")))
    figures = [
        element("figure", picture, element("figcaption", text(caption))) for picture, caption in _pictures(result)
    ]
    charts = element("div", *figures, class_="charts") if figures else ""
    left_out = "" if len(result.runs) <= DRAWN else _LEFT_OUT.format(DRAWN, len(result.runs))
    end = element("p", _download(result), class_="screen") + element("footer", paragraph(_READ, "muted"))
    return page.render(shown, charts + paragraph(left_out, "muted"), end)


def _pictures(result: BenchResult) -> Iterator[tuple[str, str]]:
    """Yield pictures with their captions; bars where the runs have one unit."""
    units = {run.throughput.unit for run in result.runs if run.throughput and not run.virtual}
    if len(units) == 1 and len(result.runs) > 1:
        for part in chunks(worth_drawing(result.runs, DRAWN)):
            yield speed(part, result.runs), _BARS
    if picture := scaling(result.runs):
        yield picture, _SCALING
    measured = [run for run in result.runs if run.samples_s and run.median_s and not run.virtual]
    for part in chunks(worth_drawing(measured, DRAWN)):
        yield samples(part, measured), _SAMPLES


def _download(result: BenchResult) -> str:
    """Return a link that holds the file; compressed where it is large."""
    data, name, kind = result.to_json(), f"tfgpu-bench-{result.workload}.json", "application/json"
    if len(data) > LARGE:
        data, name, kind = gzip.compress(data, 6, mtime=0), name + ".gz", "application/gzip"
    title = f"Download the raw data: every sample and every fact ({name}, {len(data) / 1000:.0f} kB)"
    address = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return element("a", text(title), download=name, href=address)
