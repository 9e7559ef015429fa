"""A TensorFlow with two GPUs that compute with NumPy; PATIENT_FAULT names what goes wrong, as "nan 0, xla hang"."""

import os
import time
from types import SimpleNamespace

import numpy

__version__ = "2.99.0"
FAULT = os.environ.get("PATIENT_FAULT", "").split(", ")
if os.environ.get("PATIENT_LIBRARY"):  # what TensorFlow does with the libraries of CUDA
    import ctypes

    ctypes.CDLL(os.environ["PATIENT_LIBRARY"])

current = []
growth = []


class Tensor:
    def __init__(self, value, device=None):
        self.value = value
        where = device or (current[-1] if current else "/CPU:0")
        self.device = "/job:localhost/replica:0/task:0/device:" + where.lstrip("/")

    def numpy(self):
        return self.value

    def __add__(self, other):
        return Tensor(self.value + other.value)

    def __mul__(self, other):
        return Tensor(self.value * other.value)


class device:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        current.append(self.name)

    def __exit__(self, *error):
        current.pop()


def executing_eagerly():
    return True


def constant(value):
    return Tensor(value)


def matmul(a, b):
    assert growth == ["GPU:0", "GPU:1"], "the doctor must not take the whole memory of a shared GPU"
    value = a.value @ b.value
    gpu = current[-1][-1]
    if f"wrong {gpu}" in FAULT:
        value = value[::-1]
    if f"nan {gpu}" in FAULT:
        value = value * numpy.nan
    if f"shape {gpu}" in FAULT:
        value = value[:1]
    if f"on the CPU {gpu}" in FAULT:
        return Tensor(value, "/CPU:0")
    if f"raises {gpu}" in FAULT:
        raise RuntimeError("CUDA_ERROR_INVALID_PTX")
    if "tf32" in FAULT:
        value = value + numpy.linalg.norm(value) / value.size**0.5 * 3e-4 * numpy.sign(value)
    return Tensor(value)


def conv2d(image, kernel, strides, padding):
    if "conv segfault" in FAULT and current[-1] == "/GPU:1":
        os.kill(os.getpid(), 11)
    size = image.value.shape[1] - 2
    return Tensor(
        sum(image.value[:, i : i + size, j : j + size] @ kernel.value[i, j] for i in range(3) for j in range(3))
    )


nn = SimpleNamespace(conv2d=conv2d)


def sin(x):
    return Tensor(numpy.sin(x.value))


def pow(x, y):
    return Tensor(x.value**y)


def function(work, jit_compile=None):
    if "xla hang" in FAULT:
        time.sleep(1000)
    if "no libdevice" in FAULT:
        raise RuntimeError("libdevice not found at ./libdevice.10.bc")
    return work


def list_physical_devices():
    if "devices hang" in FAULT:
        time.sleep(1000)
    if "devices raise" in FAULT:
        raise RuntimeError("cuInit failed")
    kinds = ["CPU:0", "GPU:0", "GPU:1"]
    return [SimpleNamespace(name="/physical_device:" + kind, device_type=kind[:3]) for kind in kinds]


def get_device_details(gpu):
    if "details raise" in FAULT:
        raise RuntimeError("no details")
    return {"device_name": "NVIDIA Imaginary", "compute_capability": (9, 0)}


def set_memory_growth(gpu, enable):
    growth.append(gpu.name[-5:])
    del growth[2:]


def get_build_info():
    if "build raises" in FAULT:
        raise KeyError("cuda_version")
    return {
        "is_cuda_build": True,
        "cuda_version": "12.5.1",
        "cudnn_version": "9",
        "cuda_compute_capabilities": ["sm_60", "compute_90"],
    }


sysconfig = SimpleNamespace(get_build_info=get_build_info)
config = SimpleNamespace(
    list_physical_devices=list_physical_devices,
    experimental=SimpleNamespace(get_device_details=get_device_details, set_memory_growth=set_memory_growth),
)
