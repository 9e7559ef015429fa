"""Jobs that run out of memory, fail together, compute wrongly or run slowly, as programs and people describe them."""

from __future__ import annotations

from tests.findings.logs import text

_OOM = "ResourceExhaustedError: OOM when allocating tensor with shape[48,96,96,32]"


def _made(owner: str, kept: int, bus: str = "0000:00:06.0") -> str:
    return (
        f"{owner}I tensorflow/core/common_runtime/gpu/gpu_device.cc:1510] Created device /job:localhost/replica:0/"
        f"task:0/device:GPU:0 with {kept} MB memory:  -> device: 0, name: Tesla P4, pci bus id: {bus}, "
        "compute capability: 6.1"
    )


CAUSES: list[tuple[str, str]] = [
    ("memory.taken", "InternalError: CUDA runtime implicit initialization on GPU:0 failed. Status: out of memory"),
    ("memory.taken", text(_made("(pid=11) ", 7000), f"(pid=12) {_OOM}")),
    ("memory.taken", text(_made("[1,0]<stderr>:", 7000), _made("[1,1]<stderr>:", 220), f"[1,1]<stderr>:{_OOM}")),
    ("memory.taken", text(_made("", 144), _OOM)),
    ("memory.taken", text(_OOM, "Once the old notebook was closed it ran, so the memory is in use by another kernel.")),
    ("memory.taken", "failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED"),
    ("memory.taken", "InternalError: Blas GEMM launch failed : a.shape=(64, 512), b.shape=(512, 10)"),
    ("memory.oom", text(_made("(pid=11) ", 7000, "0000:00:06.0"), _made("(pid=12) ", 7000, "0000:00:07.0"), _OOM)),
    ("memory.oom", text(_OOM, "I do not run another process on this GPU.")),
    ("memory.oom", text(_OOM, "Make sure that no other process is using the GPU.")),
    (
        "memory.oom",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 21.0 GiB for an array with shape (9, 9)",
    ),
    ("memory.oom", text("Allocation of 9933792000 exceeds 10% of free system memory.", "Killed")),
    ("shm.small", text("Bus error (core dumped)", "shm              64M   64M     0 100% /dev/shm")),
    ("p2p.failed", "On one card it is fine, with both GPUs the loss is NaN; disabling ACS in the BIOS fixed it"),
    (
        "p2p.failed",
        text(
            "python train.py --num_clones=2",
            "Peer access not supported between device ordinals 0 and 2",
            "INFO:tensorflow:global_step/sec: 0",
        ),
    ),
    ("nccl.error", "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory"),
    ("nccl.error", "UnavailableError: Collective ops is aborted by: Error reading from remote"),
    ("compute.wrong-result", "On the CPU the output is right, but on the GPU all values are NaN."),
    ("compute.wrong-result", "The predictions on the GPU are different from those on the CPU."),
    ("perf.small-work", "CPU alone: under 7 ms a step, GPU: over 7 ms a step"),
    ("perf.small-work", text("GPU load 2-3 %", "model.add(layers.GRU(32, activation='relu'))")),
    ("perf.input-bound", text("2 GPUs, util 5-9%", "ds = tf.data.Dataset.from_generator(gen, tf.float32)")),
    ("perf.input-bound", text("GPU load 2-3 %", "image = cv2.imread(name)", "all cores at 100 %")),
    (
        "perf.low-clocks",
        text(
            "pstate, clocks.current.sm [MHz], clocks.max.sm [MHz], utilization.gpu [%]",
            "P8, 139 MHz, 1455 MHz, 98 %",
        ),
    ),
    ("gpu.throttled", "Training gets slower with time."),
    ("gpu.fault", "|ERR!   ERR! ERR!    ERR! / ERR! |      0MiB / 11178MiB |    ERR!      Default |"),
    ("cudnn.init-failed", "UnknownError: Fail to find the dnn implementation. [Op:CudnnRNN]"),
    ("cudnn.init-failed", "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED"),
    ("xla.libdevice-missing", "UNKNOWN: JIT compilation failed. [Op:__inference_train_function]"),
    ("xla.ptxas-missing", "NOT_FOUND: Couldn't find a suitable version of ptxas."),
    (
        "env.allow-growth",
        'The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: "yes". Valid values are',
    ),
    ("env.gpu-thread-mode", "InvalidArgumentError: Invalid gpu_thread_mode: mine"),
    ("env.tf-gpu-allocator", "TF_GPU_ALLOCATOR=cuda_malloc_async isn't currently supported on GPU id 0"),
    ("env.cuda-disable-ptx-jit", "CUDA_ERROR_JIT_COMPILATION_DISABLED: PTX JIT compilation was disabled"),
]

# no failure, beside a GPU that works
FINE = {
    "P8 while nothing runs": "| 22%   35C    P8    12W / 250W |  6MiB / 12287MiB |    0%      Default |",
    "a row at rest": text("pstate, clocks.current.sm [MHz], utilization.gpu [%]", "P8, 139 MHz, 0 %"),
    "no peers": "Peer access not supported between device ordinals 0 and 1",
    "a strategy": "strategy = tf.distribute.MirroredStrategy()",
    "NCCL without InfiniBand": "h:1:2 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
    "layers": "model.add(layers.LSTM(64))",
    "the GPU is faster": "On the CPU it takes 40 s, on the GPU 3 s. The GPU is faster than the CPU.",
    "times": text("CPU: 40 s", "GPU: 3 s"),
    "advice about holders": "Make sure that no other process is running on the GPU.",
    "a wish": "To avoid OOM errors, set memory growth.",
    "another wish": "How do I make sure that it never runs out of GPU memory?",
    "at rest": "The GPU idles at 12 W when nothing runs.",
    "the allocator's remark": (
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.04GiB with freed_by_count=0. The caller "
        "indicates that this is not a failure, but this may mean that there could be performance gains"
    ),
    "growth": "Overriding allow_growth because the TF_FORCE_GPU_ALLOW_GROWTH environment variable is set. Original",
    "counters at zero": "            DRAM Uncorrectable                : 0",
    "Windows compiles in the driver": "Invoking GPU asm compilation is supported on Cuda non-Windows platforms only",
}
