"""Pieces of a page: escaped, accessible, legible in light and dark."""

from __future__ import annotations

import pytest

from tests.render.pages import Page
from tfgpu_doctor.render.html.parts import (
    DARK,
    LIGHT,
    POLICY,
    STYLE,
    element,
    folded,
    items,
    page,
    section,
    table,
    text,
)

HOSTILE = ("</script><script>alert(1)</script>\"' onload=x & <!-- ]]> ", "a\x1b[31m\x07\nb", "${x} {{y}} `z`")


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # WebAIM's well-known near miss


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["ink", "muted", "good", "warn", "bad", "link", *(f"c{n}" for n in range(1, 9))])
def test_texts_and_lines_stand_out(colours: dict[str, str], name: str) -> None:
    least = 3.0 if name.startswith("c") else 4.5
    assert contrast(colours[name], colours["page"]) >= least
    if not name.startswith("c"):
        assert contrast(colours[name], colours["card"]) >= least


def test_dark_has_every_colour_of_light_and_print_is_light() -> None:
    assert set(LIGHT) == set(DARK)
    after_print = STYLE.partition("@media print")[2]
    assert f"--page: {LIGHT['page']}" in after_print and DARK["page"] not in after_print


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_is_text_in_every_place(hostile: str) -> None:
    body = "".join(
        (
            element("p", text(hostile), title=hostile),
            items([hostile]),
            table(hostile, (hostile, "b"), [(hostile, hostile)]),
            folded(hostile, items([hostile])),
            section(hostile, "x", items([hostile])),
        )
    )
    read = Page(page(hostile, body))
    known = "html head meta title style body p ul li div table caption thead tbody tr th td details summary section h2"
    assert {tag for tag, _ in read.elements} <= set(known.split(" "))
    assert all(set(attributes) <= {"title"} for attributes in read.all("p"))
    assert "\x1b" not in read.text and "\x07" not in read.text
    assert hostile.strip().split("\x1b")[0].split("\n")[0] in read.text


def test_nothing_to_say_is_nothing() -> None:
    assert (table("t", ("a",), []), items([]), folded("t", ""), section("t", "t", "", "")) == ("", "", "", "")


def test_a_table_can_be_scrolled_by_keyboard_and_has_its_heads() -> None:
    read = Page(table("Speeds", ("run", "speed"), [("CPU", "1"), ("GPU", "2")], (1,)))
    (region,) = read.all("div")
    assert (region["tabindex"], region["role"], region["aria-label"]) == ("0", "region", "Speeds")
    assert [head["scope"] for head in read.all("th")] == ["col", "col", "row", "row"]


SENTENCE = "failed, 2 of 3 ok: the result is wrong: relative error 0.3 (limit 5.4e-06)"


@pytest.mark.parametrize(
    ("rows", "numbers", "expected"),
    [
        ([("Driver", "ok", SENTENCE)], (), "wrapped"),
        ([("GPUs", "12.8")], (), "wrapped"),
        ([("matpow, 2 GPUs", "problem", SENTENCE)], (), "stacked"),
        ([("1 GPU float32", "ok", SENTENCE, SENTENCE)], (), "stacked"),
        ([("https://docs.nvidia.com/cuda/index.html", "min_driver_linux")], (), "stacked"),
        ([("2 GPUs, terms", "yes", "314", SENTENCE)], (2,), "stacked"),
        ([("2 GPUs, rows", "330 GFLOP/s", "yes")], (1,), "wrapped"),
        ([("2 GPUs, rows", "330 GFLOP/s", "96.2", "1.96")], (1, 2, 3), ""),
        ([("2.21.0", "tensorflow", "3.10-3.13", "12.5.1", "9.3", "525.60.13")], (), ""),
    ],
)
def test_a_phone_shows_sentences_without_scrolling(
    rows: list[tuple[str, ...]], numbers: tuple[int, ...], expected: str
) -> None:
    head = [f"head {place}"[: len(cell)] for place, cell in enumerate(rows[0])]
    read = Page(table("Checks", head, rows, numbers))
    assert read.all("table")[0].get("class", "") == expected
    labels = [cell.get("data-label") for cell in read.all("td")]
    assert labels == (head[1:] if expected == "stacked" else [None] * len(labels))


def test_a_state_has_its_colour_and_an_address_is_a_link() -> None:
    rows = [("CPU", "ok", "https://x.org/a"), ("GPU", "problem", "see https://x.org")]
    read = Page(table("Checks", ("a", "b", "c"), rows, states=("good", "bad")))
    assert [cell.get("class") for cell in read.all("td") if cell.get("class") in ("good", "bad")] == ["good", "bad"]
    assert [link["href"] for link in read.all("a")] == ["https://x.org/a"]


def test_the_policy_allows_no_script_and_no_network() -> None:
    assert "default-src 'none'" in POLICY and "script" not in POLICY and "http" not in POLICY
    (policy,) = [meta for meta in Page(page("t", "")).all("meta") if meta.get("http-equiv")]
    assert policy["content"] == POLICY
