"""What a text leaves open, and logs of live runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.findings.logs import DNN, DRIVER, created, log, not_opened, smi, text
from tests.healthy import known
from tfgpu_doctor.records.facts import TfDevice

NO_DEVICE = "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
NO_KERNEL_DRIVER = (
    "kernel driver does not appear to be running on this host (box): /proc/driver/nvidia/version does not exist"
)
_NO_MODULE = "ModuleNotFoundError: No module named 'tensorflow'"
_DLL = "ImportError: DLL load failed: The specified module could not be found."
_HANDLE = "Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED"
_NO_LIST = "Num GPUs Available:  0"


@dataclass(frozen=True)
class Possible:
    """Texts that leave a cause open, and texts that do, too, but show that it holds."""

    open: dict[str, str]
    replaced: dict[str, str]


@dataclass(frozen=True)
class Live:
    """A log of a live run on the healthy machine, with what is changed there."""

    log: str
    fires: bool = True
    changes: dict[str, Any] = field(default_factory=dict)


POSSIBLE = {
    "tf.windows-native": Possible(
        open={"no release is named": "TensorFlow does not see my GPU on Windows 11 (RTX 4070)"}, replaced={}
    ),
    "cuda.version-mismatch": Possible(
        open={
            "2.4": not_opened("2.4", "libcudart.so.11.0"),
            "1.12": "ImportError: libcublas.so.9.0: cannot open shared object file",
        },
        replaced={},
    ),
    "cuda.lib-path": Possible(
        open={"2.4": not_opened("2.4", "libcudart.so.11.0"), "Windows": _DLL},
        replaced={"started elsewhere": text("only in PyCharm", not_opened("2.4", "libcudart.so.11.0"))},
    ),
    "cudnn.version-mismatch": Possible(
        open={"2.4": not_opened("2.4", "libcudnn.so.8"), "a handle": log("2.13", DNN, _HANDLE)},
        replaced={
            "both versions are said": text(
                log("2.4", DNN, "Loaded runtime CuDNN library: 7.4.1 but source was compiled with: 7.6.0."),
                log("2.4", DNN, _HANDLE),
            )
        },
    ),
    "driver.too-old": Possible(
        open={
            "1.12": text(
                log("1.15", DNN, "Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED"),
                log("1.15", DNN, "Possibly insufficient driver version: 390.87.0"),
            ),
            "the runtime cannot start": "InternalError: cudaGetDevice() failed. Status: initialization error",
        },
        replaced={
            "the runtime says so": text(
                "CUDA driver version is insufficient for CUDA runtime version",
                log("1.15", DNN, "Possibly insufficient driver version: 390.87.0"),
            )
        },
    ),
    "cudnn.lib-path": Possible(
        open={"2.4": not_opened("2.4", "libcudnn.so.8"), "Windows": _DLL},
        replaced={"started elsewhere": text("only in PyCharm", not_opened("2.4", "libcudnn.so.8"))},
    ),
    "gpu.none": Possible(
        open={"no device": log("2.13", DRIVER, NO_DEVICE), "no libcuda": not_opened("2.4", "libcuda.so.1")},
        replaced={"another maker's": text("GPU: AMD Radeon RX 580", log("2.13", DRIVER, NO_DEVICE))},
    ),
    "driver.not-loaded": Possible(
        open={
            "no device": log("2.13", DRIVER, NO_DEVICE),
            "no node": log(
                "2.4", "x/cuda_diagnostics.cc", "no NVIDIA GPU device is present: /dev/nvidia0 does not exist"
            ),
        },
        replaced={
            "the kernel's part is not there": text(
                log("2.4", DRIVER, NO_DEVICE), log("2.4", "x/cuda_diagnostics.cc", NO_KERNEL_DRIVER)
            )
        },
    ),
    "memory.taken": Possible(
        open={
            "cuBLAS": log("2.4", "x/cuda_blas.cc", "failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED"),
            "cuDNN": log("2.13", DNN, _HANDLE),
            "a product": "InternalError: Blas GEMM launch failed : a.shape=(32, 64), b.shape=(64, 10), m=32, n=10",
        },
        replaced={"nvidia-smi shows it": text(smi(used=23900), log("2.13", DNN, _HANDLE))},
    ),
    "gpu.arch-too-new": Possible(
        open={
            "nothing tells the CUDA": text(
                "GPU: RTX 3090",
                log("1.15", "x/cuda_blas.cc", "failed to run cuBLAS routine: CUBLAS_STATUS_EXECUTION_FAILED"),
            )
        },
        replaced={},
    ),
    "tf.wrong-env": Possible(
        open={"Python 3": _NO_MODULE, "Python 2": "ImportError: No module named tensorflow"},
        replaced={"a notebook": text("In [1]: import tensorflow", _NO_MODULE)},
    ),
    "tf.package-conflict": Possible(
        open={
            "a name is missing": "AttributeError: module 'tensorflow' has no attribute 'placeholder'",
            "it is empty": "AttributeError: module 'tensorflow' has no attribute '__version__'",
        },
        replaced={},
    ),
    "shm.small": Possible(
        open={
            "XLA": "INTERNAL: NCCL operation ncclCommInitRank(&comm) failed: unhandled system error",
            "1.15": "InternalError: NCCL: unhandled system error. Set NCCL_DEBUG=WARN for detail.",
        },
        replaced={
            "NCCL says it": text(
                "InternalError: NCCL: unhandled system error. Set NCCL_DEBUG=WARN for detail.",
                "box:1:2 [0] misc/shmutils.cc:72 NCCL WARN Call to posix_fallocate failed : No space left on device",
            )
        },
    ),
    "perf.small-work": Possible(
        open={"idle": "The GPU utilization is low, about 5%.", "spikes": "GPU usage is low and spiky"}, replaced={}
    ),
    "cuda.missing": Possible(
        open={"no reason at all": text("import tensorflow as tf", _NO_LIST), "Windows": _DLL}, replaced={}
    ),
}

_NOTHING_LISTED = {"tensorflow.devices": known((TfDevice(name="/physical_device:CPU:0", kind="CPU"),), "tf.config")}
_OOM = "OOM when allocating tensor with shape[64,112,112,64] and type float on /device:GPU:0 by allocator GPU_0_bfc"

LIVE: dict[str, dict[str, Live]] = {
    "cudnn.init-failed": {
        "2.21": Live(log("2.21", DNN, _HANDLE)),
        "it loads": Live(log("2.21", DNN, "Loaded cuDNN version 91002", "I"), fires=False),
    },
    "gpu.hidden": {
        "TensorFlow says so": Live(
            log("2.21", "x/cuda_diagnostics.cc", "CUDA_VISIBLE_DEVICES is set to -1 - this hides all GPUs from CUDA"),
            changes={"variables": known({"CUDA_VISIBLE_DEVICES": "-1"}, "environment"), **_NOTHING_LISTED},
        ),
        "no variable is set": Live(log("2.21", DRIVER, NO_DEVICE), fires=False, changes=_NOTHING_LISTED),
    },
    "gpu.fault": {
        "Xid": Live("NVRM: Xid (PCI:0000:18:00): 48, pid=811, name=python, DBE at 0x1"),
        "silence": Live(created("9.0", "NVIDIA H200"), fires=False),
    },
    "memory.taken": {
        "a handle, and little is left": Live(
            text(
                log("2.21", DNN, "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED"),
                log("2.21", DNN, "Memory usage: 43909120 bytes free, 12787122176 bytes total."),
            )
        ),
        "much is free": Live(f"ResourceExhaustedError: {_OOM}", fires=False),
    },
    "memory.oom": {
        "a tensor": Live(f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {_OOM}"),
        "no failure": Live("ran out of memory trying to allocate 2.60GiB. This is not a failure.", fires=False),
    },
    "shm.small": {
        "NCCL": Live("misc/shmutils.cc:72 NCCL WARN Call to posix_fallocate failed : No space left on device"),
        "the disk": Live("OSError: [Errno 28] No space left on device: 'model.keras'", fires=False),
    },
    # nobody asks what the lines of a live run mean
    "cuda.versions-differ": {"a line": Live("nvidia-smi shows CUDA 12.2 but nvcc says 11.5", fires=False)},
    "benign.log": {"oneDNN": Live("oneDNN custom operations are on. You may see slightly different", fires=False)},
    "xla.ptxas-missing": {
        "2.21": Live(log("2.21", "x/ptxas.cc", "Couldn't get ptxas/nvlink version string: INTERNAL", "E")),
        "one at a time": Live("The driver's CUDA version is 12.2 which is older than the ptxas version", fires=False),
    },
}
