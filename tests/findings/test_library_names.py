"""File names of NVIDIA's libraries, of every CUDA and platform."""

from __future__ import annotations

import doctest

from tests.tables import each
from tfgpu_doctor.matrix import library_names
from tfgpu_doctor.matrix.library_names import known_library

# file name → component, its version, the CUDA that it belongs to where the name tells
NAMES: dict[str, tuple[str, str | None, str | None]] = {
    "libcudart.so": ("cudart", None, None),
    "libcudart.so.10.1": ("cudart", "10.1", "10.1"),
    "libcudart.so.12": ("cudart", "12", "12"),
    "libcudart.8.0.dylib": ("cudart", "8.0", "8.0"),
    "cudart64_80.dll": ("cudart", "8.0", "8.0"),
    "cudart64_101.dll": ("cudart", "10.1", "10.1"),
    "cudart64_12.dll": ("cudart", "12", "12"),
    "libcublasLt.so.11": ("cublas", "11", "11"),
    "cublasLt64_12.dll": ("cublas", "12", "12"),
    "libcufft.so.9.0": ("cufft", "9.0", "9.0"),  # up to 10.0 all are numbered alike
    "libcufft.so.10": ("cufft", "10", None),  # in CUDA 10.1 and in 11
    "cusolver64_10.dll": ("cusolver", "10", None),
    "libcudnn.so.8.9.7": ("cudnn", "8.9.7", None),
    "libcudnn_ops_infer.so.8": ("cudnn", "8", None),
    "cudnn64_8.dll": ("cudnn", "8", None),
    "cudnn_cnn_infer64_8.dll": ("cudnn", "8", None),
    "libcudnn.7.dylib": ("cudnn", "7", None),
    "libcuda.so.1": ("cuda", "1", None),
    "nvcuda.dll": ("cuda", None, None),
    "libcupti.so.11.2": ("cupti", "11.2", None),
    "libnccl.so.2": ("nccl", "2", None),
    "libnvinfer.so.7": ("nvinfer", "7", None),
    "libnvinfer_plugin.so.8.6.1": ("nvinfer_plugin", "8.6.1", None),
}
OTHERS = ("libstdc++.so.6", "libtensorflow_framework.so.2", "zlibwapi.dll", "cudart", "", "libcudart.so.11.0 (no file)")


@each("name", NAMES)
def test_name(name: str) -> None:
    library = known_library(name)
    assert library is not None
    assert (library.component, library.version, library.cuda_version) == NAMES[name]
    assert library.cuda_major == (library.cuda_version.split(".")[0] if library.cuda_version else None)


@each("name", OTHERS)
def test_other_files(name: str) -> None:
    assert known_library(name) is None


def test_what_tensorflow_does_without() -> None:
    optional = {name for name in NAMES if (library := known_library(name)) and library.optional}
    assert optional == {"libcupti.so.11.2", "libnccl.so.2", "libnvinfer.so.7", "libnvinfer_plugin.so.8.6.1"}


def test_the_samples_hold() -> None:
    results = doctest.testmod(library_names)
    assert results.attempted > 0
    assert results.failed == 0
