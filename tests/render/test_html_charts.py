"""What the charts show: points, windows, lines; by numbers in the SVG, not by looks."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.bench.large_samples import eight_gpus, four, long, readings, sweep
from tests.bench.samples import failed, run, telemetry
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.render.html.charts import speeds, times
from tfgpu_doctor.render.html.charts.common import chunks
from tfgpu_doctor.render.html.svg import COLOUR, drawing, svg


def marks(picture: str, colour: str) -> int:
    """Markers of this colour."""
    return len(re.findall(rf"<use [^>]*fill: var\(--{colour}\)", picture))


def numbers_of(picture: str, colour: str) -> list[tuple[float, float]]:
    """Where the markers of this colour stand."""
    found = re.findall(rf'<use href="[^"]*" x="([\d.]+)" y="([\d.]+)" style="fill: var\(--{colour}\)', picture)
    return [(float(x), float(y)) for x, y in found]


def test_text_is_text_and_dollars_are_dollars() -> None:
    with drawing(1.0) as figure:
        figure.subplots().set_title("1.23456 $x^2$ </svg> <b>")
        picture = svg(figure, "one", 'say "so"')
    assert "1.23456 $x^2$ &lt;/svg&gt; &lt;b&gt;" in picture
    assert 'aria-label="say &quot;so&quot;"' in picture


def test_colours_are_all_different_and_the_style_stays_inside() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    with drawing(1.0):
        assert matplotlib.rcParams["svg.fonttype"] == "none"
    assert dict(matplotlib.rcParams) == before
    assert len(set(COLOUR.values())) == len(COLOUR)


def test_every_sample_is_drawn() -> None:
    one = run(steps=tuple(1 + 0.01 * step for step in range(-10, 11)), throttled_samples=(3, 4))
    picture = times.samples([one], [one], "s")
    assert marks(picture, "c1") == 19
    assert marks(picture, "bad") == 2


def test_samples_on_one_spot_are_drawn_once_and_far_ones_at_the_edge() -> None:
    one = run(steps=(1.0, 1.001) * 1000 + (3.0,))
    picture = times.samples([one], [one], "s")
    assert 2 <= marks(picture, "c1") <= 2 * 41
    assert marks(picture, "bad") == 1
    assert len(times.samples(long().runs, long().runs, "s")) < 250_000


def test_processes_are_told_apart() -> None:
    dotted = "stroke-dasharray: 1"
    one = run(steps=(1.0, 1.01) * 6, processes=(6, 4, 2))
    with_borders, without = (times.samples([each], [each], "s") for each in (one, run(steps=(1.0, 1.01) * 6)))
    assert with_borders.count(dotted) == 2
    assert without.count(dotted) == 0


def test_the_window_holds_the_bulk() -> None:
    steady = run(steps=(0.99, 1.0, 1.01) * 10)
    low, high = times.window([steady])
    assert low < 99 and high > 101 and high - low < 4
    with_outlier = run(steps=(0.99, 1.0, 1.01) * 10 + (5.0,))
    assert times.window([with_outlier])[1] < 120
    alike = run(steps=(1.0,) * 10)
    low, high = times.window([alike])
    assert low < 100 < high


def test_order_of_time_goes_down_a_row() -> None:
    one = run(steps=tuple(1 + 0.001 * step for step in range(20)))
    places = numbers_of(times.samples([one], [one], "s"), "c1")
    assert len(places) == 20
    by_x = [y for _, y in sorted(places)]
    assert by_x == sorted(by_x)


def test_scaling_has_a_line_for_each_way_and_none_without_gpus() -> None:
    picture = speeds.scaling(four().runs, "s")
    assert "terms, strong scaling" in picture and "rows, strong scaling" in picture and "ideal" in picture
    assert speeds.scaling(four().runs[:2], "s") == ""
    assert "weak scaling" in speeds.scaling(eight_gpus().runs, "s")


def test_the_axis_of_a_sweep() -> None:
    sizes = [run(parameters={"size": size}) for size in (256, 512)]
    assert speeds.axis_of(sizes) == "size"
    assert speeds.axis_of(sizes[:1]) is None
    assert speeds.axis_of([run(parameters={"knob": knob}) for knob in ("cache", "prefetch")]) is None
    both = [run(parameters={"size": size, "batch": size}) for size in (256, 512)]
    assert speeds.axis_of(both) is None
    assert speeds.axis_of(both, "batch") == "batch"
    assert speeds.axis_of([run(parameters={"size": 0}), run(parameters={"size": 1})]) is None  # no logarithm


def test_lines_of_a_sweep_ascend_and_leave_out_what_has_no_speed() -> None:
    runs: list[Run] = [
        run("1 GPU", parameters={"size": 512, "way": "a"}),
        run("1 GPU", parameters={"size": 256, "way": "a"}),
        run("1 GPU", parameters={"size": 256, "way": "b"}),
        failed("1 GPU", "died", parameters={"size": 1024, "way": "a"}),
        run("2 virtual GPUs", parameters={"size": 256, "way": "a"}, virtual=True),
    ]
    lines = speeds.sweep_lines(runs, "size")
    assert {title: [one.parameters["size"] for one in line] for title, line in lines.items()} == {
        "1 GPU, a": [256, 512],
        "1 GPU, b": [256],
    }
    assert speeds.sweep([failed("1 GPU", "died", parameters={"size": 1})], "size", "s") == ""


def test_a_sweep_shows_every_point() -> None:
    picture = speeds.sweep(sweep().runs, "size", "s")
    assert marks(picture, "c1") == 7 + 1  # the CPU failed at one size; the legend has a mark, too
    assert marks(picture, "c2") == 8 + 1


@pytest.mark.parametrize("seconds", [0.9, 0.3, 0.01])
def test_ticks_of_a_logarithmic_axis_are_plain_numbers(seconds: float) -> None:
    runs = [run("CPU", 1.0, parameters={"size": 256}), run("CPU", seconds, parameters={"size": 512})]
    picture = speeds.sweep(runs, "size", "s")
    texts = [text for text in re.findall(r">([^<>]+)</text>", picture) if text[0].isdigit() or "$" in text]
    assert len(texts) >= 4
    assert all(re.fullmatch(r"[\d.]+", text) for text in texts), texts


def test_long_labels_keep_both_ends() -> None:
    picture = speeds.speed([run("1 GPU", 1.0)], [run("1 GPU", 1.0)], "b")
    assert ">1 GPU<" in picture
    long_ = run("host to a device with a very long name", parameters={"bytes": 2**20})
    other = run("host to a device with a very long name", parameters={"bytes": 2**30})
    picture = speeds.speed([long_, other], [long_, other], "b")
    assert "bytes 1 MiB<" in picture and "bytes 1 GiB<" in picture and ">host to a" in picture


def test_telemetry_shows_what_there_is() -> None:
    watched = telemetry(readings=readings(2.0))
    assert "SM clock, MHz" in times.telemetry(run("1 GPU", gpu=(watched,)), "t")
    assert times.telemetry(run("1 GPU", gpu=(telemetry(),)), "t") == ""
    only_power = tuple(
        msgspec.structs.replace(one, utilization=None, sm_clock_mhz=None, temperature_c=None, memory_used=None)
        for one in readings(2.0)
    )
    picture = times.telemetry(run("1 GPU", gpu=(telemetry(readings=only_power),)), "t")
    assert "power, W" in picture and "busy" not in picture.replace("busy 99", "")
    one_look = telemetry(readings=readings(2.0)[:1])
    assert marks(times.telemetry(run("1 GPU", gpu=(one_look,)), "t"), "c1") == 5  # a point, where a line has no length


def test_the_parts_of_a_cold_start_add_up() -> None:
    one = run(cold_start_s={"import": 1.5, "inputs": 0.5}, warmup_s=(3.0, 1.0, 0.5))
    assert times.parts_of(one) == {"import": 1.5, "inputs": 0.5, "first call": 3.0, "further calls": 1.5}
    assert times.total(one) == pytest.approx(6.5)
    assert "6.5 s, then" in times.start([one], [one], "c")


def test_many_runs_are_spread_over_figures() -> None:
    runs = [run(str(place)) for place in range(25)]
    parts = list(chunks(runs))
    assert [len(part) for part in parts] == [8, 8, 9]
    assert [one for part in parts for one in part] == runs


def test_bars_and_their_intervals() -> None:
    runs = [run("1 GPU", 0.1), run("2 GPUs, rows", 0.05, devices=("/GPU:0", "/GPU:1")), failed("3 GPUs", "died")]
    picture = speeds.speed(runs, runs, "b")
    bar = r'<path d="M ([\d.]+) [\d.]+L ([\d.]+) [^"]*"[^>]* style="fill: var\(--c1\)'
    lengths = [float(end) - float(start) for start, end in re.findall(bar, picture)]
    assert len(lengths) == 2
    assert lengths[1] == pytest.approx(2 * lengths[0], rel=0.01)
    assert "3 GPUs" in picture and "no speed" in picture
