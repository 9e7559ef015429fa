"""`tfgpu bench --against BASE.json --within TIME`, and `--history DIR`."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from tests.bench.fake_worker import Clock
from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tfgpu_doctor.bench.plans.cnn import Cnn
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.cli.bench.against import LEAST_ROUNDS, Against
from tfgpu_doctor.cli.bench.history import last_two, place_for

BASE = result(run(seconds=5.0))


def rounds(seconds: Callable[[], float], within: float = 300.0, each: float = 20.0, **changes: Any) -> tuple[str, int]:
    """The verdict, and how many rounds it took."""
    clock, counted = Clock(), []

    def measure(_seconds: float) -> BenchResult:
        counted.append(_seconds)
        clock.now += each
        return result(run(seconds=seconds(), **changes))

    _, comparison = Against(BASE, "base.json", within).until_clear(measure, clock)
    return comparison.runs[0].verdict, len(counted)


def test_what_is_clear_at_once_ends_at_once() -> None:
    assert rounds(lambda: 50.0) == ("slower", 1)
    assert rounds(lambda: 5.01) == ("same", 1)


def test_a_small_change_takes_more_processes() -> None:
    assert rounds(lambda: 5.4) == ("slower", LEAST_ROUNDS)


def test_the_time_is_kept() -> None:
    assert rounds(lambda: 5.0, within=90.0, each=20.0, steps=(1.0,)) == ("cannot tell", 4)


def test_looking_after_every_round_gives_few_false_alarms() -> None:
    """Processes that scatter by 1.3 %, as measured; 400 times the same program."""
    rng = random.Random(20261122)
    found = [rounds(lambda: 5.0 * rng.lognormvariate(0, 0.013))[0] for _ in range(400)]
    assert sum(verdict in ("slower", "faster") for verdict in found) <= 0.05 * 400


def test_what_base_chose_is_repeated() -> None:
    plan = MatPow()
    Against(BASE, "base.json", 1.0).adopt(plan)
    assert plan.size == 4096
    given = MatPow(size=512)
    Against(BASE, "base.json", 1.0).adopt(given)
    assert given.size == 512
    sized = result(run(), run("1 GPU", parameters={"size": 8192}))
    for base, own in ((BASE, False), (sized, True)):
        plan = MatPow(own_sizes=True)
        Against(base, "base.json", 1.0).adopt(plan)
        assert plan.own_sizes is own, "GPUs have a size of their own where they had one in BASE"
    with pytest.raises(click.UsageError, match=r"--against base\.json: a result of matpow, not of cnn"):
        Against(BASE, "base.json", 1.0).adopt(Cnn())


# ------------------------------------------------------------------------------------------------ history


def test_results_of_one_second_are_kept_in_their_order(tmp_path: Path) -> None:
    names = []
    for number in range(12):
        one = result(run(seconds=5.0 + number))
        path = place_for(str(tmp_path), one)
        path.write_bytes(one.to_json())
        names.append(path.name)
    assert names[:2] == ["20261121T080000Z-matpow.json", "20261121T080000Z-matpow-1.json"]
    assert [Path(path).name for path in last_two(str(tmp_path))] == names[-2:]


def test_compare_takes_the_last_two_of_the_newest_workload(tmp_path: Path) -> None:
    for name, seconds in (("20261120T080000Z-matpow.json", 5.0), ("20261121T080000Z-matpow.json", 5.6)):
        (tmp_path / name).write_bytes(result(run(seconds=seconds)).to_json())
    (tmp_path / "20261120T090000Z-cnn.json").write_bytes(b"{}")
    (tmp_path / "notes.json").write_bytes(b"{}")
    done = tfgpu("compare", "--history", str(tmp_path))
    assert done.returncode == 1 and "slower: time +12" in done.stdout
    assert "20261120T080000Z-matpow.json" in done.stdout
    by_variable = tfgpu("compare", environ={"TFGPU_HISTORY": str(tmp_path)})
    assert by_variable.stdout == done.stdout


@pytest.mark.parametrize("broken", ["no JSON", "a circle"])
def test_an_entry_that_cannot_be_read_is_named_and_left_out(broken: str, tmp_path: Path) -> None:
    for name, seconds in (("20261120T080000Z-matpow.json", 5.0), ("20261121T080000Z-matpow.json", 5.6)):
        (tmp_path / name).write_bytes(result(run(seconds=seconds)).to_json())
    wrong = tmp_path / "20261122T080000Z-matpow.json"
    if broken == "no JSON":
        wrong.write_text("{")
    else:
        wrong.symlink_to(wrong.name)
    done = tfgpu("compare", "--history", str(tmp_path))
    assert done.returncode == 1 and "slower: time +12" in done.stdout
    assert f"left out: {wrong}" in done.stderr


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "has no result"),
        (("20261120T080000Z-cnn.json", "20261121T080000Z-matpow.json"), "has only one result of matpow"),
    ],
)
def test_a_history_without_two(names: tuple[str, ...], said: str, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_bytes(result(run()).to_json())
    done = tfgpu("compare", "--history", str(tmp_path))
    assert done.returncode == 2 and said in " ".join(done.stderr.split())


def test_no_history(tmp_path: Path) -> None:
    done = tfgpu("compare", "--history", str(tmp_path / "nowhere"))
    assert done.returncode == 2 and "No such file or directory" in " ".join(done.stderr.split())
