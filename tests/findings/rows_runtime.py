"""Texts of running jobs: memory, several GPUs, results, speed; and lines that mean nothing."""

from __future__ import annotations

from tests.findings.logs import DEVICE, DNN, DRIVER, created, log, not_opened, smi, text

_BFC = "core/common_runtime/bfc_allocator.cc"
_OOM = (
    "OOM when allocating tensor with shape[64,112,112,64] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)
_CPU_OOM = (
    "OOM when allocating tensor with shape[64,112,112,64] and type float on "
    "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"
)
_NO_FAILURE = (
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.60GiB with freed_by_count=0. The caller indicates "
    "that this is not a failure, but this may mean that there could be performance gains if more memory were available."
)
_OPENCV = "worker-0:21:74 [0] misc/shmutils.cc:72 NCCL WARN "
_NUMA = (
    "successful NUMA node read from SysFS had negative value (-1), but there must be at least one NUMA node, so "
    "returning NUMA node zero"
)
_FACTORY = (
    "Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS when one has already been "
    "registered"
)


def _refused(size: str, number: int) -> str:
    return log(
        "2.4",
        DRIVER,
        f"failed to allocate {size} ({number} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    )


_CUINIT = (
    "E0000 00:00:1795809004.675513    5794 cuda_platform.cc:52] failed call to cuInit: RESOURCE_EXHAUSTED: "
    "Failed call to cuInit: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
)

FIRES: dict[str, dict[str, str]] = {
    "env.address-space-limit": {
        "in a job script": text("ulimit -v 8000000", _CUINIT),
        "ulimit -a": text("virtual memory              (kbytes, -v) 8000000", _CUINIT),
    },
    "env.tmpdir-unwritable": {
        "XLA's file": text(
            "PermissionDeniedError: /tmp/tempfile-box-fd15ced1-5159-661475d903aae; Permission denied",
            "	Unable to write PTX contents to: /tmp/tempfile-box-fd15ced1-5159-661475d903aae",
        ),
        "Python's": "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp']",
    },
    "env.disk-full": {
        "pip": "ERROR: OSError: [Errno 28] No space left on device: '/home/x/.cache'",
        "uv": "error: failed to copy file from /a to /b: No space left on device (os error 28)",
        "a checkpoint": "ResourceExhaustedError: /data/ckpt; No space left on device",
        "a quota": "OSError: [Errno 122] Disk quota exceeded: '/home/x/model.h5'",
        "Windows": "OSError: [WinError 112] There is not enough space on the disk",
        "node": "npm ERR! code ENOSPC",
    },
    "memory.oom": {
        "1.x": f"ResourceExhaustedError (see above for traceback): {_OOM}",
        "2.4": log(
            "2.4",
            _BFC,
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate 256.00MiB (rounded to 268435456)requested by "
            "op conv1",
            "W",
        ),
        "2.17": "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
        "the machine's memory": f"ResourceExhaustedError: {_CPU_OOM}",
        "the kernel's": "[ 401.2] Out of memory: Killed process 4711 (python3) total-vm:98221100kB",
    },
    "memory.taken": {
        "somebody wonders": "train.py works, but holds all the memory of the GPU, so eval.py cannot run beside it",
        "1.2": text(
            log("1.0", DEVICE, "Found device 0 with properties: ", "I"),
            "name: TITAN X (Pascal)",
            "major: 6 minor: 1 memoryClockRate (GHz) 1.531",
            "pciBusID 0000:04:00.0",
            "Total memory: 11.90GiB",
            "Free memory: 381.44MiB",
            log("1.0", DRIVER, "failed to allocate 381.44M (399966208 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY"),
        ),
        "1.12": text(
            log("1.15", DEVICE, "Found device 0 with properties: ", "I"),
            "name: GeForce GTX 1080 major: 6 minor: 1 memoryClockRate(GHz): 1.7335",
            "pciBusID: 0000:01:00.0",
            "totalMemory: 7.92GiB freeMemory: 301.44MiB",
            _refused("7.52G", 8076394496),
        ),
        "at the start, less and less": text(
            _refused("9.84G", 10567555072), _refused("8.86G", 9510799360), _refused("7.97G", 8559719424)
        ),
        "nvidia-smi": text(
            smi(used=23901), log("2.13", DNN, "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED")
        ),
        "2.13": text(
            log("2.13", DNN, "Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED"),
            log("2.13", DNN, "Memory usage: 43909120 bytes free, 12787122176 bytes total."),
        ),
        "exclusive mode": (
            "InternalError: CUDA runtime implicit initialization on GPU:0 failed. Status: all CUDA-capable devices are "
            "busy or unavailable"
        ),
    },
    "shm.small": {
        "NCCL": f"{_OPENCV}Call to posix_fallocate failed : No space left on device",
        "its segment": f"{_OPENCV}Error while creating shared memory segment /dev/shm/nccl-abcdef (size 9637888)",
        "a worker": (
            "ERROR: Unexpected bus error encountered in worker. "
            "This might be caused by insufficient shared memory (shm)."
        ),
    },
    "p2p.failed": {
        "TensorFlow": log(
            "2.4", DEVICE, "Unable to enable peer access between device ordinals 0 and 1, status: Internal: failed", "W"
        ),
        "the IOMMU": "DMAR: [DMA Write] Request device [0b:00.0] fault addr f8a3e000",
        "NCCL's way around": "It only works with NCCL_P2P_DISABLE=1.",
    },
    "nccl.error": {
        "1.15": "InternalError: NCCL: unhandled cuda error. Set NCCL_DEBUG=WARN for detail.",
        "XLA": "INTERNAL: NCCL operation ncclCommInitRank(&comm, n, id, rank) failed: internal error",
        "Windows": (
            "No OpKernel was registered to support Op 'NcclAllReduce' used by {{node NcclAllReduce}} with these attrs"
        ),
        "its own warning": "worker-0:21:74 [0] transport/net.cc:13 NCCL WARN Call to connect to 10.0.0.2 failed",
    },
    "compute.wrong-result": {
        "zeros": "With the new card the results are all zeros.",
        "CPU and GPU": "I get different results on GPU and CPU for the same weights.",
    },
    "perf.input-bound": {
        "Keras' generator": text("model.fit_generator(ImageDataGenerator().flow())", "The GPU utilization is low."),
        "the profiler": "73.2 % of the total step time sampled is waiting for input data",
    },
    "perf.small-work": {
        "small batches": text("batch_size = 16", "Training is slower on the GPU than on the CPU"),
        "in words": "For this model the CPU is faster than the GPU.",
    },
    "perf.low-clocks": {
        "a row of the table": "| 24%   44C    P8    21W / 180W |   7712MiB /  8119MiB |    100%      Default |",
        "a row of a query": "nvidia-smi --query-gpu=utilization.gpu,pstate,clocks.sm --format=csv\n99 %, P5, 324 MHz",
    },
    "benign.log": {
        "1.x": log("1.15", "stream_executor/cuda/cuda_gpu_executor.cc", _NUMA, "I"),
        "2.13": log("2.13", "stream_executor/cuda/cuda_blas.cc", _FACTORY),
        "2.21": text(
            "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
            log("2.21", "x/computation_placer.cc", "computation placer already registered. Please check linkage"),
        ),
        "works": text(log("2.13", "x/cuda_gpu_executor.cc", _NUMA), created()),
        "not a failure": text(log("2.13", _BFC, _NO_FAILURE, "W"), created()),
    },
    "tensorrt.missing-benign": {
        "2.10": text(
            not_opened("2.4", "libnvinfer.so.7"),
            log(
                "2.4",
                "compiler/tf2tensorrt/utils/py_utils.cc",
                "TF-TRT Warning: Cannot dlopen some TensorRT libraries.",
                "W",
            ),
        ),
        "2.15": log("2.17", "compiler/tf2tensorrt/utils/py_utils.cc", "TF-TRT Warning: Could not find TensorRT", "W"),
    },
}

LOOK_ALIKES: dict[str, dict[str, str]] = {
    "env.address-space-limit": {
        "another reason": text("ulimit -v 8000000", "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no device"),
        "no limit": text("virtual memory              (kbytes, -v) unlimited", _CUINIT),
    },
    "env.tmpdir-unwritable": {
        "no space": text(
            "ResourceExhaustedError: /tmp/tempfile-box-fd15ced1-5159-661475d903aae; No space left on device",
            "	Unable to write PTX contents to: /tmp/tempfile-box-fd15ced1-5159-661475d903aae",
        ),
    },
    "env.disk-full": {
        "shared memory": f"{_OPENCV}Call to posix_fallocate failed : No space left on device",
        "another number": "OSError: [Errno 2] No such file or directory: '/data/28'",
    },
    "memory.oom": {
        "the disk": "ResourceExhaustedError: /data/ckpt; No space left on device",
        "cuInit asks for no memory of the GPU": _CUINIT,
        "no failure": text(log("2.13", _BFC, _NO_FAILURE, "W"), created()),
        "no failure, without a card": log("1.15", _BFC, _NO_FAILURE, "W"),
        "a lot is taken": "Allocation of 1207959552 exceeds 10% of free system memory.",
        "another holds it": text(smi(used=23901), _refused("23.1G", 24803000000)),
    },
    "memory.taken": {
        "a wish": "how can I stop TensorFlow if I do not want it to take all the memory of the GPU?",
        "the card is empty": text(smi(used=5), f"ResourceExhaustedError: {_OOM}"),
        "only an OOM": f"ResourceExhaustedError: {_OOM}",
        "much is free": text("totalMemory: 7.92GiB freeMemory: 7.51GiB", f"ResourceExhaustedError: {_OOM}"),
    },
    "shm.small": {
        "the disk": "OSError: [Errno 28] No space left on device: '/data/checkpoint'",
        "a kernel's": "shared memory 48 KiB per block",
    },
    "p2p.failed": {
        "the topology": log("2.4", DEVICE, "cannot enable peer access from device ordinal 0 to device ordinal 1", "I"),
        "it was small memory": text(
            f"{_OPENCV}Call to posix_fallocate failed : No space left on device",
            "NCCL_P2P_DISABLE=1 changes nothing",
        ),
    },
    "nccl.error": {
        "its version": "NCCL version 2.21.5+cuda12.4",
        "its chatter": "worker-0:21:74 [0] NCCL INFO Channel 00 : 0 1 2 3",
        "small shared memory": f"{_OPENCV}Call to posix_fallocate failed : No space left on device",
    },
    "compute.wrong-result": {"a number": "the result is 42 on the GPU"},
    "perf.input-bound": {
        "busy": text("model.fit_generator(ImageDataGenerator().flow())", "GPU-Util 98%"),
    },
    "perf.small-work": {"faster": "Training on the GPU is 20 times faster."},
    "perf.low-clocks": {"a table": "        Graphics                          : 1980 MHz"},
    "benign.log": {"a sentence": "Hello, which card should I buy?"},
    "tensorrt.missing-benign": {"it is asked for": "pip install tensorrt"},
}
