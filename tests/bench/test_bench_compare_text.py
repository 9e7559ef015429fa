"""The exact text of a comparison at widths 80 and 60 without colour, and as markdown, beside golden files.

TFGPU_UPDATE_GOLDEN=1 writes them anew; read the difference before committing it.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tests.bench.samples import failed, result, run
from tests.healthy import healthy, known, spoil
from tests.render.showing import as_format
from tests.tables import each
from tfgpu_doctor import __version__
from tfgpu_doctor.bench.comparison import BenchComparison, compare_benches
from tfgpu_doctor.bench.results import BenchResult, Figure, Ratio
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.formats import renderer
from tfgpu_doctor.render.outlines.bench_comparison import change

markdown = as_format("markdown", "bench comparison")
GOLDEN = Path(__file__).parent / "golden"
EVIL = "[bold red]evil[/] \x1b[31m<script>@someone #1 `x`|\n\x07"
TWO_CPUS = spoil(healthy(), {"host.cpus": known(2)})
FIGURES = tuple(
    (Figure(name="fit", value=value, unit="images/s", ci95=(value * 0.99, value * 1.01)),) for value in (812.0, 640.0)
)
DISTURBED = run(
    seconds=5.1, steps=(2.0,) * 4 + (1.0,) * 12, cpu_load=(1.0,) * 4 + (1.98,) * 12, cpu_wait=(1.0,) * 4 + (0.0,) * 12
)

render = renderer("text", "bench comparison", {})
OTHER = {"tensorflow": "2.20.0", "numpy": "2.4.6", "python": "3.12.3"}
SIZES = [256 * 2**step for step in range(9)]


def compared(base: BenchResult, new: BenchResult, across: tuple[str, ...] = ()) -> BenchComparison:
    names = ("monday.json", "today.json")
    return compare_benches(base, new, "2026-11-21T12:00:00Z", names=names, across=across)


COMPARISONS: dict[str, BenchComparison] = {
    "compare-all": compared(
        result(
            run(processes=(11,)),
            run("1 GPU", 0.052),
            run("1 GPU", 0.03, dtype="tf32"),
            run("2 GPUs, rows", 0.027, spread="rows", devices=("/GPU:0", "/GPU:1")),
            run("2 GPUs, terms", 0.027, spread="terms", devices=("/GPU:0", "/GPU:1")),
            run("4 GPUs, rows", 0.015, spread="rows"),
            environment=TWO_CPUS,
        ),
        result(
            DISTURBED,
            run("1 GPU", 0.061, figures=()),
            run("1 GPU", 0.02, dtype="tf32"),
            run("2 GPUs, rows", 0.027, spread="rows", devices=("/GPU:0", "/GPU:1"), steps=(1.0, 1.2, 0.9, 1.3, 1.1)),
            failed("2 GPUs, terms", "the worker was killed by SIGSEGV", spread="terms"),
            run("8 GPUs, rows", 0.015, spread="rows"),
            environment=spoil(TWO_CPUS, {"host.kernel": known("6.9.1")}),
        ),
    ),
    "compare-across": compared(
        result(run("1 GPU", 0.052, figures=FIGURES[0]), software=OTHER),
        result(run("1 GPU", 0.052, figures=FIGURES[1])),
        across=("tensorflow",),
    ),
    "compare-forbidden": compared(result(run(), software=OTHER), result(run(), parameters={"size": 3072})),
    "compare-sweep": compared(
        result(*(run(seconds=size / 1e4, parameters={"size": size}) for size in SIZES)),
        result(*(run(seconds=size / 1e4 * (1.2 if size == 512 else 1), parameters={"size": size}) for size in SIZES)),
    ),
    "compare-hostile": compare_benches(
        result(run(EVIL), failed("[red]x[/]\x1b[31m", "it died"), run(parameters={EVIL: EVIL}), title=EVIL),
        result(run(EVIL), failed("[red]x[/]\x1b[31m", EVIL), software={EVIL: EVIL}, title=EVIL),
        "2026-11-21T12:00:00Z",
        names=(EVIL, "b.json"),
    ),
    "compare-nothing": compared(result(), result()),
}


def printed(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    render(COMPARISONS[name], console_for(stream))
    return stream.getvalue()


@each("form", ["txt", "md"])
@each("name", COMPARISONS)
def test_golden(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(name, 80, monkeypatch) if form == "txt" else markdown(COMPARISONS[name])
    text = text.replace(f"tfgpu compare {__version__}", "tfgpu compare VERSION")
    file = GOLDEN / f"{name}.{form}"
    if os.environ.get("TFGPU_UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@each("columns", [60, 80])
@each("name", COMPARISONS)
def test_it_fits_and_is_harmless(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(name, columns, monkeypatch)
    assert max(map(len, text.splitlines())) <= columns
    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert text == "\n".join(line.rstrip() for line in text.split("\n"))


def test_nothing_acts_as_markup() -> None:
    page = markdown(COMPARISONS["compare-hostile"])
    assert "<script>" not in page and "@someone" not in page and "\x1b" not in page
    assert all(line.count(" | ") in (0, 2, 3) for line in page.splitlines())


def test_a_page_of_too_many_runs_says_so() -> None:
    runs = [run(parameters={"size": size}) for size in range(400)]
    page = markdown(compared(result(*runs), result(*runs)))
    assert len(page) < 65_536
    assert "more are too many for this page" in page


@each(
    ("ratio", "text"),
    [
        ((1.102, 1.089, 1.115), "time +10.2 % (95 %: +8.9 to +11.5 %)"),
        ((0.9, 0.8, 1.01), "time −10 % (95 %: −20 to +1 %)"),
        ((1.0, 1.0, 1.0), "time 0.0 % (95 %: 0.0 to 0.0 %)"),
        ((1.0004, 0.98, 1.02), "time 0.0 % (95 %: −2.0 to +2.0 %)"),
        ((25.0, 24.0, 26.0), "time × 25 (95 %: 24 to 26)"),
        ((0.02, 0.019, 0.021), "time × 0.020 (95 %: 0.019 to 0.021)"),
    ],
)
def test_a_change_in_words(ratio: tuple[float, float, float], text: str) -> None:
    assert change(Ratio(value=ratio[0], low=ratio[1], high=ratio[2])) == text
