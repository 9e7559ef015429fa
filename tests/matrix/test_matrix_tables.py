"""The hand-entered tables: toolkits, cuDNN, architectures, peaks, TensorFlow's own table; and their linters."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.tables import each, read_rows
from tfgpu_doctor.matrix.lint import (
    LINTERS,
    Linter,
    cudnn_floors,
    device_ids,
    driver_branches,
    drivers,
    gpu_branches,
    official,
    order,
    peak_products,
    peak_rates,
    toolkit_architectures,
)
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import (
    Architecture,
    CudaToolkit,
    CudnnRelease,
    GpuNames,
    MatrixFile,
    OfficialRow,
    PciDevices,
    Peak,
    numbers,
)

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


# ------------------------------------------------------------------------------------------ linters


def toolkit(version: str, **changes: object) -> CudaToolkit:
    row = CudaToolkit(
        version=version,
        min_driver_linux=None,
        min_driver_windows=None,
        minor_compat_min_linux=None,
        minor_compat_min_windows=None,
        compute_capabilities=(),
        source="s",
        capabilities_source="s",
    )
    return msgspec.structs.replace(row, **changes)


def architecture(capability: str, min_cuda: str | None, **more: str) -> Architecture:
    return Architecture(compute_capability=capability, name="A", min_cuda=min_cuda, source="s", **more)


def cudnn(version: str, **floors: str) -> CudnnRelease:
    by_cuda = {major[1:]: floor for major, floor in floors.items()}
    return CudnnRelease(version=version, min_compute_capability_by_cuda=by_cuda, source="s")


def found(lint: Linter, **tables: object) -> list[str]:
    data = msgspec.structs.replace(MatrixFile(schema="tfgpu.matrix/1", revision="2026-01-01"), **tables)
    return list(lint(data))


@each(
    "lint",
    [
        cudnn_floors,
        device_ids,
        driver_branches,
        drivers,
        gpu_branches,
        official,
        peak_products,
        peak_rates,
        toolkit_architectures,
    ],
)
def test_the_linters_run_and_pass(lint: Linter) -> None:
    assert lint in LINTERS
    assert list(lint(MATRIX.data)) == []


def test_peaks_and_pythons_of_tested_builds_are_ascending() -> None:
    peaks = tuple(Peak(compute_capability=one, source="s") for one in ("8.6", "8.6", "10.0", "9.0"))
    build = OfficialRow(version="2.21", python=("3.10", "3.9"), cuda=None, cudnn=None, source="s")
    assert found(order, peaks=peaks, official=(build,)) == [
        "peaks: 8.6, 8.6, 10.0, 9.0 should be ordered 8.6, 8.6, 9.0, 10.0",
        "official 2.21.python: 3.10, 3.9 should be ordered 3.9, 3.10",
    ]


def test_drivers_of_a_major_version_agree() -> None:
    rows = (
        toolkit("12.1", min_driver_linux="530.30", minor_compat_min_linux="525.60"),
        toolkit("12.0", min_driver_linux="525.60", minor_compat_min_linux="525.85"),
    )
    assert found(drivers, cuda=rows) == ["cuda 12.0.minor_compat_min_linux: 525.85, but CUDA 12.1 has 525.60"]


def test_cuda_11_0_has_its_own_oldest_driver_for_all_of_its_updates() -> None:
    rows = (
        toolkit("11.1", minor_compat_min_linux="450.80.02"),
        toolkit("11.0.3", minor_compat_min_linux="450.36.06"),
        toolkit("11.0", minor_compat_min_linux="450.36.06"),
    )
    assert found(drivers, cuda=rows) == []
    assert found(drivers, cuda=(*rows[:2], toolkit("11.0"))) == [
        "cuda 11.0.minor_compat_min_linux: None, but CUDA 11.0.3 has 450.36.06"
    ]


def test_a_newer_toolkit_ships_no_older_driver() -> None:
    rows = (
        toolkit("10.1", min_driver_windows="418.96", min_driver_linux="418.39"),
        toolkit("10.0", min_driver_windows=None, min_driver_linux="410.48"),
        toolkit("9.2", min_driver_windows="497.44", min_driver_linux="396.26"),
    )
    assert found(drivers, cuda=rows) == [
        "cuda 10.1.min_driver_windows: 418.96 is older than the 497.44 of CUDA 9.2",
    ]


def test_a_shipped_driver_is_not_far_older_than_the_oldest_one() -> None:
    row = toolkit("13.0", min_driver_linux="535.54", minor_compat_min_linux="580")
    assert found(drivers, cuda=(row,)) == [
        "cuda 13.0.min_driver_linux: 535.54 is older than minor_compat_min_linux 580"
    ]


def test_toolkits_hold_their_architectures() -> None:
    rows = (architecture("2.0", "3.0", max_cuda="8.0"), architecture("7.0", "9.0"), architecture("7.2", None))
    toolkits = (
        toolkit("9.0", compute_capabilities=("2.0", "9.9")),
        toolkit("8.0", compute_capabilities=("2.0", "7.2")),
    )
    assert found(toolkit_architectures, architectures=rows, cuda=toolkits) == [
        "cuda 9.0.compute_capabilities: 9.9 is none of 2.0, 7.0, 7.2",
        "cuda 9.0.compute_capabilities: has 2.0, which goes from 3.0 to 8.0",
        "cuda 9.0.compute_capabilities: lacks 7.0, which goes from 9.0 to today",
    ]


def gpus(first: str | None, last: str | None = None, *names: str) -> GpuNames:
    return GpuNames(
        compute_capability="7.5",
        names=names or ("T1",),
        first_driver_branch=first,
        last_driver_branch=last,
        source="here",
    )


def test_no_gpu_has_a_driver_from_before_its_architecture() -> None:
    turing = architecture("7.5", "10.0", first_driver_branch="410")
    rows = (gpus("410"), gpus(None), gpus("396"), gpus("415", "410", "A", "B"))
    assert found(gpu_branches, architectures=(turing,), gpus=rows) == [
        "gpus T1 (7.5).first_driver_branch: 396 is older than 410, the first of A 7.5",
        "gpus A, B (7.5).first_driver_branch: 415 is newer than last_driver_branch 410",
    ]


def test_a_device_id_is_that_of_one_known_gpu() -> None:
    rows = tuple(
        PciDevices(compute_capability="7.5", devices=devices, source="here")
        for devices in ({"T1": "1eb8 1eb9"}, {"T1": "1eb9", "T2": "1eba"})
    )
    assert found(device_ids, gpus=(gpus("410"),), pci_devices=rows) == [
        "pci_devices 7.5: 1eb9 is 'T1', and 'T1'",
        "pci_devices 7.5: 'T2' is no name of `gpus`",
    ]


def test_spans_of_architectures_run_forwards() -> None:
    rows = (
        architecture("6.0", "8.0", first_driver_branch="375", last_driver_branch="580"),
        architecture("7.0", "9.2", max_cuda="9.0"),
        architecture("7.5", None, first_driver_branch="410", last_driver_branch="390"),
    )
    assert found(driver_branches, architectures=rows, cuda=(toolkit("8.0", min_driver_linux="367.48"),)) == [
        "architectures 6.0.first_driver_branch: 375, but CUDA 8.0 shipped 367.48",
        "architectures 7.0.min_cuda: 9.2 is newer than max_cuda 9.0",
        "architectures 7.5.first_driver_branch: 410 is newer than last_driver_branch 390",
    ]


@each(("rates", "message"), ROWS["test_tensor_rates_keep_their_proportions"])
def test_tensor_rates_keep_their_proportions(rates: dict[str, float], message: str | None) -> None:
    row = msgspec.structs.replace(Peak(compute_capability="8.6", source="s"), **rates)
    assert found(peak_rates, peaks=(row,)) == ([message] if message else [])


def test_the_longer_name_of_a_product_stands_first() -> None:
    rows = [Peak(compute_capability="8.9", products=name, source="s") for name in ("L40S", "L40", "GeForce")]
    assert found(peak_products, peaks=tuple(rows)) == []
    assert found(peak_products, peaks=(rows[1], rows[0])) == [
        "peaks 8.9 L40S: never used, since 'L40' stands before it"
    ]
    elsewhere = Peak(compute_capability="7.5", products="L40", source="s")
    assert found(peak_products, peaks=(elsewhere, rows[0])) == []


def test_cudnn_serves_what_its_toolkits_compile_for() -> None:
    toolkits = (
        toolkit("13.0", compute_capabilities=("7.5", "8.0")),
        toolkit("12.9", compute_capabilities=("5.0", "7.5")),
    )
    assert found(cudnn_floors, cuda=toolkits, cudnn=(cudnn("9.20", _13="5.0"),)) == [
        "cudnn 9.20: CUDA 13 compiles for 7.5, 8.0, not for 5.0"
    ]
    assert found(cudnn_floors, cuda=(), cudnn=(cudnn("9.20", _13="5.0"),)) == []


def test_a_later_cudnn_does_not_serve_cards_again_that_were_dropped() -> None:
    rows = (cudnn("9.12", _12="5.0"), cudnn("9.11", _12="7.5"), cudnn("9.10", _12="5.0"))
    assert found(cudnn_floors, cudnn=rows) == ["cudnn 9.12: goes down to 5.0 with CUDA 12, but 9.11 only to 7.5"]


@each(("cuda", "version", "message"), ROWS["test_the_tested_builds_speak_of_known_versions"])
def test_the_tested_builds_speak_of_known_versions(cuda: str | None, version: str | None, message: str | None) -> None:
    row = OfficialRow(version="1.12", python=("3.6",), cuda=cuda, cudnn=version, source="s")
    tables = {
        "official": (row,),
        "cuda": (toolkit("10.0"), toolkit("9.0")),
        "cudnn": (cudnn("8.0", _10="3.0", _11="3.5"), cudnn("7.0", _8="3.0", _9="3.0")),
    }
    assert found(official, **tables) == ([message] if message else [])
