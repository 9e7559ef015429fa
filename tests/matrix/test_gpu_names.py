"""Which GPUs a name can mean, by the rules of gpu_names.py and the names of the matrix that is shipped."""

from __future__ import annotations

import doctest
from pathlib import Path

from tests.tables import each, read_rows
from tfgpu_doctor.matrix import gpu_names
from tfgpu_doctor.matrix.gpu_names import NameIndex
from tfgpu_doctor.matrix.loader import Gpu, Matrix

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

MATRIX = Matrix.load()
NAMES = sorted({name for row in MATRIX.data.gpus for name in row.names})


def capabilities(name: str) -> set[str]:
    return {gpu.compute_capability for gpu in MATRIX.gpu_candidates(name)}


def capability(name: str) -> str | None:
    gpu = MATRIX.gpu(name)
    return gpu.compute_capability if gpu else None


# ------------------------------------------------------------------------------------- one answer

AS_THE_DRIVER_WRITES = [
    ("NVIDIA GeForce RTX 5090", "12.0"),
    ("NVIDIA GeForce RTX 5070 Ti Laptop GPU", "12.0"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12.0"),
    ("NVIDIA GB10", "12.1"),
    ("NVIDIA Thor", "11.0"),
    ("NVIDIA B300 SXM6 AC", "10.3"),
    ("NVIDIA GB200", "10.0"),
    ("NVIDIA B200", "10.0"),
    ("NVIDIA H100 80GB HBM3", "9.0"),
    ("NVIDIA H100 PCIe", "9.0"),
    ("NVIDIA H100 NVL", "9.0"),
    ("NVIDIA H200", "9.0"),
    ("NVIDIA GH200 480GB", "9.0"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9"),
    ("NVIDIA GeForce RTX 4050 Laptop GPU", "8.9"),
    ("NVIDIA GeForce RTX 4070 Ti SUPER", "8.9"),
    ("NVIDIA RTX 6000 Ada Generation", "8.9"),
    ("NVIDIA RTX 2000 Ada Generation Laptop GPU", "8.9"),
    ("NVIDIA L40S", "8.9"),
    ("Orin", "8.7"),
    ("NVIDIA GeForce RTX 3060", "8.6"),
    ("NVIDIA GeForce RTX 3050 Ti Laptop GPU", "8.6"),
    ("NVIDIA GeForce RTX 2050", "8.6"),  # a GA107 in spite of its number
    ("NVIDIA RTX A6000", "8.6"),
    ("NVIDIA A10G", "8.6"),
    ("NVIDIA A100-SXM4-80GB", "8.0"),
    ("NVIDIA A100 80GB PCIe", "8.0"),
    ("NVIDIA A30", "8.0"),
    ("NVIDIA GeForce GTX 1660 Ti with Max-Q Design", "7.5"),
    ("GeForce RTX 2080 Super with Max-Q Design", "7.5"),
    ("NVIDIA GeForce MX450", "7.5"),
    ("NVIDIA T1200 Laptop GPU", "7.5"),
    ("Quadro RTX 6000", "7.5"),
    ("Tesla T4", "7.5"),
    ("NVIDIA TITAN RTX", "7.5"),
    ("NVIDIA TITAN V", "7.0"),
    ("Tesla V100-SXM2-16GB", "7.0"),
    ("Tesla V100-PCIE-32GB", "7.0"),
    ("NVIDIA TITAN X (Pascal)", "6.1"),
    ("GeForce GTX 1070 with Max-Q Design", "6.1"),
    ("GeForce GTX 1060 6GB", "6.1"),
    ("NVIDIA GeForce MX350", "6.1"),
    ("Tesla P100-PCIE-16GB", "6.0"),
    ("NVIDIA Tegra X1", "5.3"),
    ("GeForce GTX TITAN X", "5.2"),
    ("Quadro M6000 24GB", "5.2"),
    ("NVIDIA GeForce 940MX", "5.0"),
    ("Tesla K80", "3.7"),
    ("GeForce GT 710", "3.5"),
    ("GeForce 910M", "3.5"),
    ("GRID K520", "3.0"),
    ("GeForce GTX 680M", "3.0"),
    ("GeForce GTX 675M", "2.1"),  # the GTX 675MX is a Kepler
]
AS_PEOPLE_WRITE = [
    ("rtx4090", "8.9"),
    ("RTX-4090", "8.9"),
    ("RTX_4090", "8.9"),
    ("4090", "8.9"),
    ("RTX 4090 24GB GDDR6X", "8.9"),
    ("  nvidia   geforce  rtx   4090 ", "8.9"),
    ("NVIDIA(R) GeForce® RTX™ 4090", "8.9"),
    ("4070TiSuper", "8.9"),
    ("5090", "12.0"),
    ("1080", "6.1"),
    ("GTX1080Ti", "6.1"),
    ("GeForceGTX1080", "6.1"),
    ("3060 ti", "8.6"),
    ("2070s", "7.5"),
    ("RTX 3080 10GB", "8.6"),
    ("RTX 3060 12 GB", "8.6"),
    ("RTX 3050 Laptop", "8.6"),
    ("MX 150", "6.1"),
    ("gtx 980 m", "5.2"),
    ("A100", "8.0"),
    ("A 100", "8.0"),
    ("A100 80GB", "8.0"),
    ("a100-sxm4", "8.0"),
    ("A100 PCI-E", "8.0"),
    ("Tesla A100", "8.0"),
    ("DGX A100", "8.0"),
    ("H100 SXM", "9.0"),
    ("h100-sxm5-80gb", "9.0"),
    ("GH200", "9.0"),
    ("GB300 NVL72", "10.3"),
    ("V100", "7.0"),
    ("V100S", "7.0"),
    ("P100", "6.0"),
    ("K80", "3.7"),
    ("K20", "3.5"),
    ("T4", "7.5"),
    ("L4", "8.9"),
    ("RTX 6000 Ada", "8.9"),
    ("RTX PRO 6000", "12.0"),
    ("A6000", "8.6"),
    ("Quadro RTX A6000", "8.6"),
    ("rtxa4000", "8.6"),
    ("Quadro P2000", "6.1"),
    ("K2200", "5.0"),
    ("titanxp", "6.1"),
    ("gtx titan x", "5.2"),
    ("RTX Titan", "7.5"),
    ("dgx spark", "12.1"),
    ("Jetson Nano", "5.3"),
    ("Orin Nano", "8.7"),
    ("Jetson Orin Nano Super Developer Kit", "8.7"),
    ("AGX Orin 64GB", "8.7"),
    ("Xavier NX", "7.2"),
    ("Jetson TX2", "6.2"),
    ("Jetson TX2 NX", "6.2"),
    ("Jetson AGX Xavier Industrial", "7.2"),
    ("Jetson T2000", "11.0"),  # a Thor; the T2000 without "Jetson" is the Quadro of Turing
    ("NVIDIA Jetson T3000 module", "11.0"),
    ("Jetson Thor", "11.0"),
    ("Jetson Orin", "8.7"),
    ("T2000", "7.5"),
    ("T5000", "11.0"),
    ("IGX Orin", "8.7"),
    ("PG503-216", "7.0"),
    ("T400E", "7.5"),
    ("TITAN V JHH Special Edition", "7.0"),
    ("MX350", "6.1"),
    ("MX450", "7.5"),
]
AS_OTHER_TOOLS_WRITE = [
    ("NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)", "8.9"),
    ("GP106M [GeForce GTX 1060 Mobile]", "6.1"),
    ("TU117GLM [Quadro T1000 Mobile]", "7.5"),
    ("TU104GLM [Quadro RTX 5000 Mobile / Max-Q]", "7.5"),
    ("TU102GL [Quadro RTX 6000/8000]", "7.5"),
    ("GA107GL [A2 / A16]", "8.6"),
    ("GA106 [GeForce RTX 3060 12GB Rev. 2]", "8.6"),
    ("GA106 [GeForce RTX 3060 Lite Hash Rate]", "8.6"),
    ("GK107M [GeForce GT 750M Mac Edition]", "3.0"),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0"),
    ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "9.0"),
    ("GeForce RTX3050LaptopGPU", "8.6"),
    ("GeForce RTX 208...", "7.5"),  # as nvidia-smi's table cuts it
    ("NVIDIA RTX PRO 1000 Blac...", "12.0"),
    ("Tesla V100-SXM2...", "7.0"),
    ("NVIDIA GeForce ...", None),
    ("GRID T4-16Q", "7.5"),
    ("GRID V100D-8Q", "7.0"),
    ("GRID P40-24Q", "6.1"),
    ("GRID RTX6000-24Q", "7.5"),  # the Quadro: an Ada says that it is one
    ("GRID RTX6000P-6Q", "7.5"),
    ("NVIDIA RTX6000-Ada-48Q", "8.9"),
    ("NVIDIA RTXA6000-48Q", "8.6"),
    ("NVIDIA RTX Pro 6000 Blackwell DC-96Q", "12.0"),
    ("NVIDIA A40-48Q", "8.6"),
    ("NVIDIA A100-1-5C", "8.0"),
    ("NVIDIA A100DX-80C", "8.0"),
    ("NVIDIA H100XM-80C", "9.0"),
    ("NVIDIA A16-1B", "8.6"),
]


def test_a_name_has_one_compute_capability() -> None:
    rows = [*AS_THE_DRIVER_WRITES, *AS_PEOPLE_WRITE, *AS_OTHER_TOOLS_WRITE]
    assert [(name, found, expected) for name, expected in rows if (found := capability(name)) != expected] == []


# -------------------------------------------------------------------------------- several answers


@each(
    ("name", "expected"),
    [
        ("Titan X", {"5.2", "6.1"}),
        ("Titan", {"3.5", "7.5"}),
        ("RTX 6000", {"7.5", "8.9", "12.0"}),
        ("RTX 5000", {"7.5", "8.9", "12.0"}),
        ("4000", {"2.0", "7.5", "8.9", "12.0"}),  # Quadro 4000, Quadro RTX 4000, RTX 4000 Ada, RTX PRO 4000
        ("GeForce GT 730", {"2.1", "3.0", "3.5"}),
        ("gt640", {"2.1", "3.0", "3.5"}),
        ("NVIDIA GeForce GTX 860M", {"3.0", "5.0"}),
        ("GTX 670 Laptop", {"2.1", "3.0"}),  # a GTX 670M is a Fermi
    ],
)
def test_a_name_of_several_chips_has_no_single_answer(name: str, expected: set[str]) -> None:
    assert capabilities(name) == expected
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
    assert near[0] == nearest and len(near) <= 3


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


def test_there_are_many() -> None:
    assert len(NAMES) >= 500


@each(("name", "first", "last"), ROWS["test_driver_branches_are_the_models_own_or_its_architectures"])
def test_driver_branches_are_the_models_own_or_its_architectures(
    name: str, first: str | None, last: str | None
) -> None:
    gpu = MATRIX.gpu(name)
    assert gpu is not None
    assert last == gpu.last_driver_branch
    assert first in (None, gpu.first_driver_branch)


def test_several_models_of_one_name_keep_their_own_span() -> None:
    found = {gpu.compute_capability: gpu.last_driver_branch for gpu in MATRIX.gpu_candidates("GeForce GT 730")}
    assert found == {"2.1": "390", "3.0": "470", "3.5": "470"}
    assert all(isinstance(gpu, Gpu) and gpu.source.startswith("https://") for gpu in MATRIX.gpu_candidates("GT 730"))


def test_an_empty_index_knows_nothing() -> None:
    index = NameIndex(())
    assert index.find("RTX 4090") == () and index.nearest("RTX 4090") == ()


def test_the_examples_in_the_text_hold() -> None:
    assert doctest.testmod(gpu_names).failed == 0
