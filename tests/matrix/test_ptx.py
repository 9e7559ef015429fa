"""What a GPU runs by PTX alone, and the driver that it needs for that."""

from __future__ import annotations

from pathlib import Path

from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.versions import numbers
from tfgpu_doctor.matrix.compatibility import driver_reaches, oldest_driver, why_driver
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.queries import Filters, releases
from tfgpu_doctor.matrix.schema import FatBinaries

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

CARDS = {"V100": "7.0", "T4": "7.5", "A100": "8.0", "L4": "8.9", "H100": "9.0", "H200": "9.0", "RTX 5090": "12.0"}
DRIVERS = ("525.60.13", "535", "545.23.06", "550", "555.42.02", "560", "570", "580")


def row_of(version: str) -> Release:
    row = MATRIX.tensorflow(version, "linux_x86_64")
    assert row is not None
    return row


@each(("version", "card", "isa", "driver", "windows"), ROWS["test_the_oldest_driver_of_a_release_on_a_gpu"])
def test_the_oldest_driver_of_a_release_on_a_gpu(
    version: str, card: str, isa: str | None, driver: str, windows: str
) -> None:
    row = row_of(version)
    found = row.ptx_only.get(card)
    assert (found.isa if found else None) == isa
    assert oldest_driver(row, [card]) == driver
    assert oldest_driver(row, [card], windows=True) == windows


def test_the_highest_need_of_several_gpus_counts() -> None:
    row = row_of("2.20.0")
    assert oldest_driver(row, ["8.9", "9.0"]) == "555.42.02"
    assert oldest_driver(row) == row.min_driver_linux == "525.60.13"
    assert why_driver(row, ["8.9", "9.0"]).startswith("its PTX 8.5 (1149 of 1469 fat binaries have no SASS for 9.0")
    assert why_driver(row, ["8.9"]) == "CUDA 12.5.1"
    assert oldest_driver(row_of("2.20.0"), ["no such card"]) == "525.60.13"


@each("name", CARDS)
@each("driver", DRIVERS)
def test_no_part_by_ptx_alone_meets_a_driver_of_an_older_cuda(name: str, driver: str) -> None:
    """Of every release that is listed for a GPU and a driver, each fat binary has SASS or PTX that the driver knows."""
    first = {row.isa: MATRIX.cuda(row.cuda) for row in MATRIX.data.ptx}
    builds = {version: row for row in MATRIX.data.builds for version in row.releases.get("tensorflow", "").split()}
    for row in releases(MATRIX, Filters(gpu=name, driver=driver, package="tensorflow", ptx=True, pre=True)):
        for part in builds[row.version].parts if row.version in builds else ():
            isa = part.compiled_for(CARDS[name])
            toolkit = first[isa] if isa else None
            needed = toolkit.min_driver_linux if toolkit else None
            assert needed is None or driver_reaches(driver, needed), (row.version, part)


@each(("name", "driver", "newest"), ROWS["test_the_newest_release_for_a_gpu_and_a_driver"])
def test_the_newest_release_for_a_gpu_and_a_driver(name: str, driver: str, newest: str) -> None:
    assert releases(MATRIX, Filters(gpu=name, driver=driver, package="tensorflow"))[0].version == newest


@each(("card", "isa"), [("7.5", None), ("8.6", None), ("9.0", "8.5"), ("6.9", "6.3"), ("12.0", "8.5"), ("5.0", None)])
def test_sass_of_the_same_major_or_else_the_newest_ptx_below(card: str, isa: str | None) -> None:
    part = FatBinaries(count=1, sass=("7.0", "8.0"), ptx={"6.0": "6.3", "9.0": "8.5"})
    assert part.compiled_for(card) == isa


def test_each_instruction_set_is_that_of_a_toolkit_and_not_of_an_earlier_one() -> None:
    """From PTX 7 on the numbers of both go together: 7.n is CUDA 11.n, 8.n CUDA 12.n up to 12.5, 9.n CUDA 13.n."""
    for row in MATRIX.data.ptx:
        isa, cuda = numbers(row.isa), numbers(row.cuda)
        if isa >= (7, 0) and row.isa not in ("8.7", "8.8"):  # there is none of 12.6, which has 8.5
            assert (isa[0] + 4, isa[1]) == cuda
