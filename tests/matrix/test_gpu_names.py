"""Which GPUs a name can mean, by the rules of names.py and the names of the matrix that is shipped."""

from __future__ import annotations

import doctest
from pathlib import Path

from tests.tables import each, read_rows
from tfgpu_doctor.matrix import names
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.names import NameIndex

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

MATRIX = Matrix.load()
NAMES = sorted({name for row in MATRIX.data.gpus for name in row.names})


def capabilities(name: str) -> set[str]:
    return {gpu.compute_capability for gpu in MATRIX.gpu_candidates(name)}


def capability(name: str) -> str | None:
    gpu = MATRIX.gpu(name)
    return gpu.compute_capability if gpu else None


# ------------------------------------------------------------------------------------- one answer


def test_a_name_has_one_compute_capability() -> None:
    rows = [(name, expected) for expected, names in ROWS["NAMES"].items() for name in names]
    assert [(name, found, expected) for name, expected in rows if (found := capability(name)) != expected] == []


# -------------------------------------------------------------------------------- several answers


@each(("name", "expected"), ROWS["test_a_name_of_several_chips_has_no_single_answer"])
def test_a_name_of_several_chips_has_no_single_answer(name: str, expected: list[str]) -> None:
    assert sorted(capabilities(name)) == expected
    assert MATRIX.gpu(name) is None


@each(("name", "expected"), [("GTX 680 Laptop GPU", "3.0"), ("GTX 980 notebook", "5.2")])
def test_a_laptop_of_an_old_series_is_known_where_its_namesakes_agree(name: str, expected: str) -> None:
    assert {gpu.name for gpu in MATRIX.gpu_candidates(name)} > {MATRIX.gpu_candidates(name)[0].name}
    assert capability(name) == expected


def test_the_nearest_name_comes_first() -> None:
    assert [gpu.name for gpu in MATRIX.gpu_candidates("A100 80GB PCIe")] == ["A100 80GB PCIe"]
    assert MATRIX.gpu_candidates("V100")[0].name == "Tesla V100"
    assert MATRIX.gpu_candidates("1060 3gb")[0].name == "GeForce GTX 1060 3GB"
    assert MATRIX.gpu_candidates("RTX 3050")[0].name == "GeForce RTX 3050"
    assert MATRIX.gpu_candidates("RTX 3050 Laptop")[0].name == "GeForce RTX 3050 Laptop GPU"


# -------------------------------------------------------------------------------------- no answer


def test_what_is_no_gpu_of_the_matrix_is_unknown() -> None:
    names = (
     "", " ", "NVIDIA", "GeForce", "RTX", "GeForce RTX", "Laptop GPU", "24GB", "Graphics Device", "Voodoo 2", "16",
     "GTX", "RTX 5900", "RTX 4009", "GTX 3060", "RTX 1080", "RTX 40", "Radeon RX 7900 XTX", "Intel Arc A770",
     "GeForce 8800 GTX", "RTX 4090 RTX 3090", "[]", "-8Q", "MIG 1g.5gb", "/", "RTX 4090 / Voodoo 2", "4090" * 1000,
     "Jetson T1000", "Jetson A100", "Jetson 4090", "Jetson RTX 4000",
    )  # fmt: skip
    assert [name[:40] for name in names if MATRIX.gpu_candidates(name) or MATRIX.gpu(name)] == []


@each(("name", "nearest"), ROWS["test_a_slip_gets_the_nearest_name"])
def test_a_slip_gets_the_nearest_name(name: str, nearest: str) -> None:
    assert MATRIX.gpu(name) is None
    near = MATRIX.nearest_gpus(name)
    assert nearest in near and len(near) <= 3


@each("name", ["Voodoo 2", "Matrox Millennium", "", "CPU"])
def test_nothing_is_near_to_something_else(name: str) -> None:
    assert MATRIX.nearest_gpus(name) == ()


# -------------------------------------------------------------------------------------- the table


@each("spelling", ["{}", "NVIDIA {}", "nvidia {} ", "{} GPU"])
def test_every_name_finds_itself_first(spelling: str) -> None:
    for name in NAMES:
        for written in (spelling.format(name), spelling.format(name).lower(), spelling.format(name).upper()):
            assert MATRIX.gpu_candidates(written)[0].name == name, written


def test_every_name_is_found_as_a_laptops() -> None:
    for name in NAMES:
        known, found = capabilities(name), capabilities(f"NVIDIA {name} Laptop GPU")
        assert known <= found, name
        assert known == found or not MATRIX.gpu(f"{name} Laptop GPU"), name


def test_a_geforce_is_found_without_its_line() -> None:
    for name in NAMES:
        line, _, rest = name.partition(" ")
        if line == "GeForce":
            assert capabilities(name) <= capabilities(rest), name


def test_an_empty_index_knows_nothing() -> None:
    index = NameIndex(())
    assert index.find("RTX 4090") == () and index.nearest("RTX 4090") == ()


def test_the_examples_in_the_text_hold() -> None:
    assert doctest.testmod(names).failed == 0
