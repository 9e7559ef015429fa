"""The page of a bench result: whole, alone, harmless, with every number that the JSON has."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from functools import cache
from itertools import pairwise

import msgspec
import pytest

from tests.bench.large_samples import LARGE, training
from tests.bench.samples import failed, result, run, telemetry, verified
from tests.healthy import MATRIX, healthy, known, spoil
from tests.render.pages import Page
from tests.test_laws import FILES, IMPURE, imports
from tests.tiers import usual
from tfgpu_doctor.bench.results import BenchResult, Check, Figure
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.html.bench import render
from tfgpu_doctor.render.terminal.bench import render as show

EVIL = "</script></svg><img src=x onerror=alert(1)>\"'&$x^2$ <!--\x1b[31m"


def page_of(result_: BenchResult) -> str:
    return render(result_, make_report(result_.environment, MATRIX, source="live", timings={}))


RESULTS = {name: make() for name, make in LARGE.items()}


@cache
def page(name: str) -> str:
    return page_of(RESULTS[name])


@pytest.mark.parametrize("name", usual(RESULTS, lambda name: name not in ("eight", "four", "long")))
def test_it_holds_together_and_needs_nothing_else(name: str) -> None:
    read = Page(page(name))
    assert len(read.ids) == len(set(read.ids)), "figures share names"
    assert not read.all("script") and not read.all("link") and not read.all("img") and not read.all("iframe")
    for tag, attributes in read.elements:
        assert not any(key.startswith("on") for key in attributes), (tag, attributes)
        for key in ("src", "href", "data", "action"):
            target = attributes.get(key) or "#"
            assert target.startswith(("#", "data:application/")) or (tag == "a" and target.startswith("https://"))
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', page(name)))
    assert used <= set(read.ids), "a reference leads nowhere"
    assert "@import" not in page(name) and "url(http" not in page(name)


@pytest.mark.parametrize("name", RESULTS)
def test_it_is_small(name: str) -> None:
    assert len(page(name)) < 700_000


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full) if name != "one" else name for name in RESULTS]
)
def test_it_is_always_the_same(name: str) -> None:
    assert page_of(RESULTS[name]) == page(name)


@pytest.mark.parametrize("name", RESULTS)
def test_every_picture_is_described_and_takes_its_colours_from_the_page(name: str) -> None:
    read = Page(page(name))
    pictures = read.all("svg")
    assert all(picture["role"] == "img" and picture["aria-label"] and picture["viewbox"] for picture in pictures)
    assert len(read.all("figcaption")) == len(read.all("figure")) == len(pictures)
    body = page(name).partition("</style>")[2]
    drawn = "".join(re.findall(r"<svg.*?</svg>", body, re.DOTALL))
    assert re.findall(r"#[0-9a-f]{6}\b", drawn) == [], "a colour that dark mode cannot change"
    assert "font-family" not in drawn


@pytest.mark.parametrize("name", RESULTS)
def test_every_run_is_in_numbers(name: str) -> None:
    text = Page(page(name)).text
    for one in RESULTS[name].runs:
        assert one.label in text
        assert words.throughput(one) in text
        assert one.failure is None or one.failure in text
        for advice in one.advice:
            assert advice in text
    for note in RESULTS[name].notes:
        assert note in text
    assert words.verdict(RESULTS[name]) in text


def sections(name: str) -> set[str]:
    return {section["id"] or "" for section in Page(page(name)).all("section")}


def test_sections_are_there_where_there_is_something_to_show() -> None:
    always = {"speed", "verified", "environment", "doctor", "reproduce"}
    measured = always | {"samples", "start"}
    assert sections("one") == measured | {"advice"}
    assert sections("four") == measured | {"advice", "scaling", "gpus"}
    assert sections("sweep") == measured | {"advice", "scaling", "sweep"}
    assert sections("failures") == always
    assert sections("eight") == measured | {"scaling", "gpus", "figures"}


@pytest.mark.parametrize("name", RESULTS)
def test_the_navigation_leads_to_every_section(name: str) -> None:
    links = [link["href"] for link in Page(page(name)).all("a") if (link["href"] or "").startswith("#")]
    assert {link.removeprefix("#") for link in links if link} == sections(name)


def raw_data(page: str) -> str:
    """The JSON behind the link for download."""
    (link,) = [link for link in Page(page).all("a") if "download" in link]
    kind, _, data = (link["href"] or "").partition(";base64,")
    raw = base64.b64decode(data)
    if kind == "data:application/gzip":
        assert (link["download"] or "").endswith(".json.gz")
        raw = gzip.decompress(raw)
    return raw.decode("utf-8")


@pytest.mark.parametrize("name", RESULTS)
def test_the_raw_data_can_be_taken_home(name: str) -> None:
    raw = raw_data(page(name))
    assert msgspec.json.decode(raw, type=BenchResult) == RESULTS[name]
    assert json.loads(raw)["schema"] == "tfgpu.bench/1"


@pytest.mark.parametrize("name", RESULTS)
def test_regions_have_names_of_their_own_and_headings_their_order(name: str) -> None:
    read = Page(page(name))
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", page(name))
    regions = [div["aria-label"] for div in read.all("div") if div.get("role") == "region"]
    assert len({*titles, *regions}) == len(titles) + len(regions)
    assert '<th scope="col"></th>' not in page(name)
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(new - old <= 1 for old, new in pairwise(levels))


def test_how_to_reproduce() -> None:
    assert "tfgpu bench matpow --size 4096 --gpus 2" in Page(page("four")).text


def test_the_doctors_verdict_is_over_these_facts() -> None:
    broken = result(run(), environment=spoil(healthy(), {"tensorflow.version": known("2.12.0")}))
    report = make_report(broken.environment, MATRIX, source="live", timings={})
    text = Page(page_of(broken)).text
    assert report.findings
    for finding in report.findings:
        assert not finding.root_cause or finding.title in text
    assert "doctor" not in {section["id"] for section in Page(render(broken)).all("section")}


def test_hostile_text_is_text() -> None:
    hostile = result(
        run(EVIL, 0.052, gpu=(telemetry(EVIL, name=EVIL),), placed_on=(EVIL,), cold_start_s={EVIL: 1.0}),
        msgspec.structs.replace(
            run(f"2 {EVIL}", parameters={EVIL: EVIL}, advice=(EVIL,)), doubts=(EVIL,), stopped=EVIL
        ),
        msgspec.structs.replace(
            training("1 GPU", 0.3, 1),
            figures=(Figure(name=EVIL, value=1.0, unit=EVIL, note=EVIL),),
            verified=verified(checks=(Check(name=EVIL, ok=True, saw=EVIL),), method=EVIL),
            step_name=EVIL,
        ),
        failed(EVIL, EVIL, dtype=EVIL),
        notes=(EVIL,),
        title=EVIL,
        workload=EVIL,
        parameters={EVIL: EVIL},
        software={"tensorflow": EVIL, EVIL: EVIL},
        environment=spoil(healthy(), {"host.cpu_model": known(EVIL), "host.kernel": known(EVIL, EVIL)}),
        command=EVIL,
    )
    page = page_of(hostile)
    read = Page(page)
    tags = {tag for tag, _ in read.elements}
    assert not tags & {"script", "img", "iframe", "object"}
    assert not any(key.startswith("on") for _, attributes in read.elements for key in attributes)
    assert "\x1b" not in page
    assert "onerror=alert(1)" in read.text and "$x^2$" in read.text


def test_advice_that_many_runs_share_is_told_once() -> None:
    many = result(*(run("CPU", steps=(1.0, 1.2) * 6, parameters={"size": size}) for size in range(1, 6)))
    text = Page(page_of(many)).text
    shared = "CPU, size 5: uncertain: 95 % interval ±9.1 %."
    assert f"{shared} Likewise: CPU, size 1; CPU, size 2; CPU, size 3; CPU, size 4." in text


def test_what_has_no_speed_has_no_bar() -> None:
    virtual = result(run(), run("2 virtual CPUs, rows", devices=("/CPU:0", "/CPU:1"), virtual=True))
    read = Page(page_of(virtual))
    assert "virtual: no speed" in read.text
    assert "scaling" not in {section["id"] for section in read.all("section")}
    none = Page(page_of(RESULTS["failures"]))
    assert not none.all("svg")
    assert "no speed is reported" in none.text


def test_a_result_without_runs_is_a_page() -> None:
    assert "Nothing was measured." in Page(page_of(result())).text


ODD = {
    "one sample": run(steps=(1.0,), cpu_load=(), warmup_s=(), cold_start_s={}),
    "two alike": run(steps=(1.0, 1.0)),
    "nanoseconds": run("1 GPU", 1e-9),
    "a day": run("CPU", 86400.0),
    "no work": run("CPU", flop=0.0),
    "no names": run("", dtype="", gpu=(telemetry("", name=None, pci_bus_id=None, utilization=None),)),
    "a hundred devices": run("100 GPUs", devices=tuple(f"/GPU:{place}" for place in range(100))),
    "from right to left": run("\u202eGPU 1 \u05d0\u05d1"),
    "another unit": run("CPU", unit="furlongs/fortnight"),
    "outliers alone": run(steps=(1.0, 1.0, 1.0, 1e6, 1e-6)),
    "parameters of many kinds": run(parameters={"a": None, "b": 0.1, "c": "x", "size": -3}),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_results_are_pages_and_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for runs in ([ODD[name]], [ODD[name], run("1 GPU", 0.1, parameters={"size": 5}), failed("2 GPUs", "died")]):
        odd = result(*runs)
        read = Page(page_of(odd))
        assert len(read.ids) == len(set(read.ids))
        assert words.verdict(odd) in read.text.replace("\ufffd", "\u202e")
        monkeypatch.setenv("COLUMNS", "60")
        stream = io.StringIO()
        show(odd, console_for(stream))
        assert max(map(len, stream.getvalue().splitlines())) <= 60


def test_drawing_and_writing_have_no_effects() -> None:
    for file in (*(file for file in FILES if file.startswith("render/html/")), "render/bench_words.py"):
        found = {package for package, _ in imports(file)}
        assert not found & (IMPURE - {"io"}), file  # Matplotlib writes into memory
