"""File names of NVIDIA's libraries, of every CUDA and platform."""

from __future__ import annotations

from pathlib import Path

from tests.tables import each, read_rows
from tfgpu_doctor.matrix.names import known_library

ROWS = read_rows(Path(__file__).parent / "rows" / "repairs.yaml")
# file name → component, its version, the CUDA that it belongs to where the name tells
NAMES: dict[str, list[str | None]] = ROWS["library_names"]


@each("name", NAMES)
def test_name(name: str) -> None:
    library = known_library(name)
    assert library is not None
    assert [library.component, library.version, library.cuda_version] == NAMES[name]


@each("name", ROWS["other_files"])
def test_other_files(name: str) -> None:
    assert known_library(name) is None


def test_what_tensorflow_does_without() -> None:
    optional = {name for name in NAMES if (library := known_library(name)) and library.optional}
    assert optional == {"libcupti.so.11.2", "libnccl.so.2", "libnvinfer.so.7", "libnvinfer_plugin.so.8.6.1"}
