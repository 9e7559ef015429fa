"""The hand-entered tables: toolkits, cuDNN, architectures, peaks, TensorFlow's own table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables import each, read_rows
from tfgpu_doctor.facts.versions import numbers
from tfgpu_doctor.matrix.loader import Matrix

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

MATRIX = Matrix.load()


# ------------------------------------------------------------------------------------------ toolkits


@each(("version", "linux", "windows", "oldest", "first", "last"), ROWS["test_toolkits"])
def test_toolkits(version: str, linux: str, windows: str | None, oldest: str, first: str, last: str) -> None:
    row = MATRIX.cuda(version)
    assert row is not None
    assert (row.min_driver_linux, row.min_driver_windows, row.oldest_driver_linux) == (linux, windows, oldest)
    assert (row.compute_capabilities[0], row.compute_capabilities[-1]) == (first, last)


def test_there_is_no_minor_version_compatibility_before_cuda_11() -> None:
    for row in MATRIX.data.cuda:
        before = numbers(row.version) < (11,)
        assert (row.minor_compat_min_linux is None) is before, row.version
        assert (row.minor_compat_min_windows is None) is before, row.version


@each("minor", ["7.0", "7.5", "8.0", "9.0", "9.1", "9.2", "10.0", "10.1", "10.2"])
def test_every_early_toolkit_has_a_row(minor: str) -> None:
    assert minor in {row.version for row in MATRIX.data.cuda}


# ------------------------------------------------------------------------------------------ cuDNN


@each(("version", "floors"), ROWS["test_early_cudnn"])
def test_early_cudnn(version: str, floors: dict[str, str]) -> None:
    row = MATRIX.cudnn(version)
    assert row is not None
    assert row.min_compute_capability_by_cuda == floors


@each(("card", "major", "newest"), ROWS["test_the_last_cudnn_for_a_card_follows_from_the_table"])
def test_the_last_cudnn_for_a_card_follows_from_the_table(card: str, major: str, newest: str) -> None:
    fitting = [
        row.version
        for row in MATRIX.data.cudnn
        if (floor := row.min_compute_capability_by_cuda.get(major)) and numbers(floor) <= numbers(card)
    ]
    assert max(fitting, key=numbers) == newest


# ------------------------------------------------------------------------------------------ architectures


@each(("capability", "name", "min_cuda", "max_cuda", "last"), ROWS["test_architectures"])
def test_architectures(capability: str, name: str, min_cuda: str, max_cuda: str | None, last: str | None) -> None:
    row = MATRIX.architecture(capability)
    assert row is not None
    assert (row.name, row.min_cuda, row.max_cuda, row.last_driver_branch) == (name, min_cuda, max_cuda, last)


# ------------------------------------------------------------------------------------------ peaks

# WP: NVIDIA's whitepaper; DS: NVIDIA's data sheet; TPU: TechPowerUp's GPU database, partly as quoted by others.
PUBLISHED = ROWS["PUBLISHED"]


def test_peaks_give_the_published_figures() -> None:
    wrong = []
    for name, capability, multiprocessors, mhz, dtype, tflops in PUBLISHED:
        row = MATRIX.peak(capability, f"NVIDIA {name}")
        if row is None or multiprocessors * mhz * getattr(row, dtype) / 1e6 != pytest.approx(tflops, rel=0.03):
            wrong.append((name, dtype, row))
    assert wrong == []


def test_every_row_of_peaks_with_rates_is_held_against_a_figure() -> None:
    held = {(row.compute_capability, row.products) for name, cc, *_ in PUBLISHED if (row := MATRIX.peak(cc, name))}
    # Turing without tensor cores is one family, of which GTX 16 is held; NVIDIA's guide has Kepler's 3.2 like 3.0,
    # and 3.5 with 8 float64 results a cycle on GeForce, except Titan
    alike = {("7.5", one) for one in ("GeForce MX", "T2000", "T1200", "T1000", "T600", "T550", "T500", "T400")}
    free = alike | {("3.2", None), ("3.5", "GeForce"), ("3.5", "GeForce GTX TITAN")}
    assert {(row.compute_capability, row.products) for row in MATRIX.data.peaks} - held <= free


@each(("capability", "name", "rate"), ROWS["test_the_tensor_rate_is_that_of_the_product"])
def test_the_tensor_rate_is_that_of_the_product(capability: str, name: str, rate: float | None) -> None:
    row = MATRIX.peak(capability, name)
    assert row is not None
    assert row.float16 == rate


@each("capability", ["8.8", "10.1", "10.7"])
def test_what_nobody_publishes_stays_unknown(capability: str) -> None:
    assert MATRIX.architecture(capability) is not None
    assert MATRIX.peak(capability) is None


# ------------------------------------------------------------------------------------------ TensorFlow's own table


@each(("version", "pythons", "cuda", "cudnn"), ROWS["test_tested_builds"])
def test_tested_builds(version: str, pythons: str, cuda: str, cudnn: str) -> None:
    row = next(row for row in MATRIX.data.official if row.version == version)
    assert f"{row.python[0]} {row.python[-1]}" == pythons
    assert (row.cuda, row.cudnn) == (cuda, cudnn)


def test_every_minor_version_from_1_0_on_has_its_tested_build() -> None:
    wanted = [f"1.{minor}" for minor in range(16)] + [f"2.{minor}" for minor in range(22)]
    assert sorted((row.version for row in MATRIX.data.official), key=numbers) == wanted
