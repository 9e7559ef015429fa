"""Pages: whole, alone, harmless, legible; that of a bench result has every number that the JSON has."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.bench.samples import LARGE, failed, result, run, telemetry
from tests.findings.rows_over_facts import NO_GPU_USED
from tests.healthy import healthy, known, spoil
from tests.render.pages import Page
from tests.render.results import VALID, report
from tests.render.showing import as_format, printed
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.render import shapes
from tfgpu_doctor.render.html.bench import picture, render
from tfgpu_doctor.render.html.page import DARK, LIGHT, POLICY, STYLE, body
from tfgpu_doctor.render.outlines import bench as words
from tfgpu_doctor.render.shapes import Table

EVIL = "</script></svg><img src=x onerror=alert(1)>\"'&$x^2$ <!--\x1b[31m"


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_texts_and_lines_stand_out_in_light_and_dark() -> None:
    for colours in (LIGHT, DARK):
        for name in ("ink", "muted", "good", "warn", "bad", "link"):
            assert min(contrast(colours[name], colours[ground]) for ground in ("page", "panel")) >= 4.5, name
        assert all(contrast(colours[f"c{number}"], colours["page"]) >= 3.0 for number in (1, 2))
    assert set(LIGHT) == set(DARK)
    after_print = STYLE.partition("@media print")[2]
    assert f"--page: {LIGHT['page']}" in after_print and DARK["page"] not in after_print


def shown(*parts: Table) -> Page:
    return Page(body(shapes.Page("", (), "", "", "", parts)))


def test_tables() -> None:
    """They are scrolled by keyboard, have heads, colours and links."""
    read = shown(Table("Speeds", ("run", "speed"), (("CPU", "1"), ("GPU", "2")), right=(1,)))
    (region,) = read.all("div")
    assert (region["tabindex"], region["role"], region["aria-label"]) == ("0", "region", "Speeds")
    assert [head["scope"] for head in read.all("th")] == ["col", "col", "row", "row"]
    rows = (("CPU", "https://x.org/a"), ("GPU", "see https://x.org"))
    read = shown(Table("Checks", ("a", "b"), rows, ("ok", "error")))
    assert [cell.get("class") for cell in read.all("td") if cell.get("class") in ("good", "bad")] == ["good", "bad"]
    assert [link["href"] for link in read.all("a")] == ["https://x.org/a"]


def test_a_report_is_a_page_without_scripts() -> None:
    """Results of every kind, and hostile ones, are tried in test_formats.py."""
    changes = {
        "variables": known({"CUDA_VISIBLE_DEVICES": "-1"}),
        "tensorflow.log": known(("first line", "second line")),
    }
    one = report(spoil(healthy(), {**NO_GPU_USED, **changes}))
    read = Page(as_format("html", "report")(one))
    (policy,) = [meta for meta in read.all("meta") if meta.get("http-equiv")]
    assert policy["content"] == POLICY and "default-src 'none'" in POLICY
    assert "script" not in POLICY and "http" not in POLICY
    fixes = [fix.text for finding in one.findings if finding.root_cause for fix in finding.fixes]
    shown = [one.verdict, "first line\nsecond line", *fixes]
    assert fixes and [text for text in shown if text not in read.text] == []


@cache
def large(name: str) -> BenchResult:
    return LARGE[name]()


@cache
def drawn(name: str) -> str:
    return render(large(name))


@pytest.mark.parametrize("name", LARGE)
def test_the_page_of_a_bench_result(name: str) -> None:
    """It holds together, needs nothing else, is small, and has every number of the result."""
    source, of = drawn(name), large(name)
    assert len(source) < 700_000
    VALID["html"](source)
    read = Page(source)
    for tag, attributes in read.elements:
        for key in ("src", "href", "data", "action"):
            target = attributes.get(key) or "#"
            assert target.startswith(("#", "data:application/")) or (tag == "a" and target.startswith("https://"))
    assert {*re.findall(r'(?:url\(#|href="#)([^)"]+)', source)} <= {*read.ids}, "a reference leads nowhere"
    assert "@import" not in source and "url(http" not in source
    # pictures are described, and take their colours from the page
    pictures = read.all("svg")
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in pictures)
    assert len(read.all("figcaption")) == len(read.all("figure")) == len(pictures)
    svgs = "".join(re.findall(r"<svg.*?</svg>", source.partition("</style>")[2], re.DOTALL))
    assert re.findall(r"#[0-9a-f]{6}\b|nan|inf\b", svgs) == [] and "font-family" not in svgs
    # all is there in numbers
    shown = [words.verdict(of), *of.notes]
    shown += [part for one in of.runs for part in (one.label, words.throughput(one), one.failure) if part]
    assert [part for part in map(words.plain, shown) if part not in read.text] == []
    assert '<th scope="col"></th>' not in source
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1


def test_pictures_are_there_where_there_is_something_to_draw() -> None:
    counts = {"one": 0, "four": 1, "sweep": 1, "failures": 0}
    assert {name: len(Page(drawn(name)).all("svg")) for name in counts} == counts
    assert "tfgpu bench matpow --size 4096 --gpus 2" in Page(drawn("four")).text
    assert render(large("one")) == drawn("one"), "it is always the same"
    virtual = render(result(run(), run("2 virtual CPUs, rows", devices=("/CPU:0", "/CPU:1"), virtual=True)))
    assert "virtual: no speed" in Page(virtual).text
    assert "no speed is reported" in Page(drawn("failures")).text


def test_hostile_text_in_a_picture_is_text() -> None:
    """In the rest of a page, it is tried in test_formats.py."""
    names = {"parameters": {EVIL: EVIL}, "advice": (EVIL,)}
    many = [run(f"{number} {EVIL}", 0.05, devices=(f"/GPU:{number}",), **names) for number in (1, 2)]
    source = render(result(*many, failed(EVIL, EVIL), title=EVIL, workload=EVIL))
    VALID["html"](source)
    assert Page(source).all("svg") and "\x1b" not in source
    assert "onerror=alert(1)" in Page(source).text and "$x^2$" in Page(source).text


def test_odd_results_are_pages_and_texts() -> None:
    odd = [
        run(steps=(1.0,), cpu_load=(), warmup_s=(), cold_start_s={}),
        run(steps=(1.0, 1.0)),
        run("1 GPU", 1e-9),
        run("CPU", flop=0.0),
        run("", dtype="", gpu=(telemetry("", name=None, pci_bus_id=None, utilization=None),)),
        run("100 GPUs", devices=tuple(f"/GPU:{place}" for place in range(100))),
        run("\u202eGPU 1 \u05d0\u05d1"),
        run(steps=(1.0, 1.0, 1.0, 1e6, 1e-6)),
        run(parameters={"a": None, "b": 0.1, "c": "x", "size": -3}),
    ]
    assert "Nothing was measured." in Page(render(result())).text
    for one in odd:
        for runs in ([one], [one, run("1 GPU", 0.1, parameters={"size": 5}), failed("2 GPUs", "died")]):
            read = Page(render(result(*runs)))
            assert len(read.ids) == len(set(read.ids))
            assert words.verdict(result(*runs)) in read.text.replace("\ufffd", "\u202e")
            assert max(map(len, printed("bench", result(*runs), 60).splitlines())) <= 60


def test_bars_and_their_intervals() -> None:
    runs = [run("1 GPU", 0.1), run("2 GPUs, rows", 0.05, devices=("/GPU:0", "/GPU:1")), failed("3 GPUs", "died")]
    drawing = picture(runs)
    lengths = list(map(float, re.findall(r'<rect [^>]*width="([\d.]+)%"[^>]* style="fill: var\(--c1\)', drawing)))
    assert len(lengths) == 2 and lengths[1] == pytest.approx(2 * lengths[0], rel=0.01)
    assert "3 GPUs" in drawing and "no speed" in drawing
    # long labels keep both ends
    both = [run("host to a device with a very long name", parameters={"bytes": 2**size}) for size in (20, 30)]
    drawing = picture(both)
    assert "bytes 1 MiB<" in drawing and "bytes 1 GiB<" in drawing and ">host to a" in drawing
