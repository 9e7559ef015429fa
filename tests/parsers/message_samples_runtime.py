"""Lines of the forms about running jobs: memory and its holders, faults, several GPUs, results, switches, speed."""

from __future__ import annotations

_BUS = "-> device: 0, name: Tesla P4, pci bus id: 0000:00:05.0, compute capability: 6.1"
_MADE = f"Created device /job:localhost/replica:0/task:0/device:GPU:0 with 6512 MB memory:  {_BUS}"
_VALUES = {"device": "0", "kept": "6512", "bus": "0000:00:05.0"}

MEMORY: list[tuple[str, str, dict[str, str]]] = [
    (
        "out-of-memory",
        "I tensorflow/core/common_runtime/bfc_allocator.cc:1060] InUse at 7fa19626de00 of size 4 next 18",
        {},
    ),
    ("out-of-memory", "CUDA runtime implicit initialization on GPU:1 failed. Status: out of memory", {}),
    ("out-of-memory", "InternalError: Failed to allocate 4096 bytes for new constant", {}),
    ("out-of-memory", "it goes OOM with batches of 64", {}),
    ("out-of-memory", "gpu_async_0 cuMemAllocAsync failed to allocate 1024 bytes: CUDA error", {"bytes": "1024"}),
    ("out-of-memory", "Sum Total of in-use chunks: 3.11GiB", {"in_use": "3.11GiB"}),
    ("out-of-memory", "TF stops at model creation with out of memory", {}),
    (
        "memory-of-pytorch",
        "(GPU 0; 10.76 GiB total capacity; 153.20 MiB already allocated; 9.44 MiB free; 160.00 MiB reserved in total)",
        {"total": "10.76 GiB", "free": "9.44 MiB", "own": "160.00 MiB"},
    ),
    ("takes-all-memory", "it works, but holds all the memory of the GPU", {}),
    ("host-out-of-memory", "Unable to allocate 11.2 GiB for an array with shape (90000, 64, 64)", {}),
    ("host-out-of-memory", "slurmstepd: error: Detected 1 oom-kill event(s) in step 77.0 cgroup.", {}),
    ("process-killed", "Killed", {}),
    ("process-killed", "Process finished with exit code 137", {}),
    ("memory-left", _MADE, _VALUES),
    ("memory-left", f"(pid=41) {_MADE}", {"pid": "41", **_VALUES}),
    ("memory-left", f"(RolloutWorker pid=42, ip=10.1.2.3) {_MADE}", {"pid": "42", **_VALUES}),
    ("memory-left", f"[1,3]<stderr>:{_MADE}", {"rank": "3", **_VALUES}),
    (
        "failure-of-process",
        "(pid=43) failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED",
        {"pid": "43"},
    ),
    ("failure-of-process", "[1,2]<stdout>:CUDA_ERROR_OUT_OF_MEMORY: out of memory", {"rank": "2"}),
    ("other-holder", "It works again once I shut down the other notebook.", {}),
    ("other-holder", "two processes are running on the same card", {}),
    ("other-holder", "a zombie keeps the GPU memory", {}),
    ("other-holder", "the memory is not released when the script ends", {}),
    (
        "other-holder",
        "|    0   N/A  N/A      2204      C   /usr/bin/python3                 9911MiB |",
        {"pid": "2204", "held": "9911"},
    ),
]

FAULTS: list[tuple[str, str, dict[str, str]]] = [
    ("gpu-lost", "|ERR!   ERR! ERR!    ERR! / ERR! |      0MiB / 11178MiB |    ERR!      Default |", {}),
    ("gpu-lost", "    GPU Recovery Action               : Reset", {}),
    ("gpu-lost", "NVRM: Check failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F)", {}),
    ("ecc", "            DRAM Uncorrectable                : 3", {}),
    ("ecc", "CUDA_ERROR_NVLINK_UNCORRECTABLE: uncorrectable NVLink error", {}),
    ("peer-access-none", "Peer access not supported between device ordinals 1 and 3", {}),
    ("several-gpus-hang", "with two GPUs it hangs at the first step", {}),
    ("several-gpus-hang", "It freezes when I train on multiple GPUs.", {}),
    ("job-hangs", "it got stuck there", {}),
    ("job-hangs", "INFO:tensorflow:global_step/sec: 0", {}),
    ("several-gpus-asked", "strategy = tf.distribute.MirroredStrategy()", {}),
    ("several-gpus-asked", "python train.py --num_clones=4", {}),
    ("peer-access-failed", "it hung until I disabled IOMMU", {}),
    ("peer-access-failed", "./p2pBandwidthLatencyTest hangs", {}),
    ("peer-access-failed", "Verification error @ element 1: val = 0.000000, ref = 4.000000", {}),
    ("nan-over-several-gpus", "the loss is NaN with certain pairs of GPUs", {}),
    (
        "collective-aborted",
        "Collective ops is aborted by: connection reset",
        {"why": "connection reset"},
    ),
    ("nccl-error", "bootstrap.cc:40 NCCL WARN Bootstrap : no socket interface found", {}),
    ("address-space-limit", "virtual memory              (kbytes, -v) 8000000", {"kib": "8000000"}),
    (
        "address-space-limit",
        "Max address space         8192000000           unlimited            bytes",
        {"bytes": "8192000000"},
    ),
    ("address-space-limit", "ulimit -S -v 8000000; python3 train.py", {"set": "8000000"}),
    (
        "temporary-file-refused",
        "PermissionDeniedError: /tmp/tempfile-box-fd15ced1-5159-661475d903aae; Permission denied",
        {"folder": "/tmp"},
    ),
    ("temporary-file-refused", "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp']", {}),
    ("shm-listed", "shm              64M  2.1M   62M   4% /dev/shm", {}),
    ("shm-listed", "docker run --gpus all --shm-size=4g image", {}),
    ("shared-memory-full", "OSError: [Errno 28] No space left on device: '/dev/shm/psm_77'", {}),
    ("wrong-result", "On the CPU it is correct, but on the GPU every value is NaN", {}),
    ("wrong-result", "The outputs of CPU and GPU are different", {}),
    ("wrong-result", "/gpu:1 deviates from NumPy", {}),
    ("wrong-result", "wrong gradients on GPU", {}),
    (
        "growth-not-parsed",
        'The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: "on". Valid values',
        {"value": "on"},
    ),
    ("thread-mode-invalid", "Invalid gpu_thread_mode: own", {"value": "own"}),
    ("allocator-refused", "TF_GPU_ALLOCATOR=cuda_malloc_async isn't currently supported on GPU id 0", {}),
    ("jit-forbidden", "CUDA_ERROR_JIT_COMPILATION_DISABLED: PTX JIT compilation was disabled", {}),
    ("cudnn-handle", "UnknownError: Fail to find the dnn implementation.", {}),
    ("cudnn-handle", "NotFoundError: No algorithm worked!", {}),
    ("ptxas-refused", "Couldn't find a suitable version of ptxas", {}),
]

SPEED: list[tuple[str, str, dict[str, str]]] = [
    ("slow", "tensorflow-gpu is slower than the CPU version", {}),
    ("slow", "The CPU is 3x faster than my RTX 3070", {}),
    ("slow", "same speed on CPU and GPU", {}),
    (
        "time-on-both",
        "about 1 epoch per 4s on CPU and 1 epoch per 16s on GPU",
        {"cpu": "4", "cpu_unit": "s", "gpu": "16", "gpu_unit": "s"},
    ),
    (
        "time-on-both",
        "CPU: 4 s per epoch, GPU: 9 s per epoch",
        {"cpu": "4", "cpu_unit": "s", "gpu": "9", "gpu_unit": "s"},
    ),
    (
        "time-on-both",
        "the GPU takes 0.9 s, the CPU takes 40 ms",
        {"gpu": "0.9", "gpu_unit": "s", "cpu": "40", "cpu_unit": "ms"},
    ),
    (
        "time-on-both",
        "takes 25 s with GPU and 14 s with CPU",
        {"gpu": "25", "gpu_unit": "s", "cpu": "14", "cpu_unit": "s"},
    ),
    ("time-on-device", "GPU: 31s/epoch", {"device": "GPU", "time": "31", "unit": "s"}),
    ("time-on-device", "- on the CPU: about 12 minutes", {"device": "CPU", "time": "12", "unit": "minutes"}),
    ("low-utilization", "watch nvidia-smi alternates 0 % 0 % 0 % 97 %", {}),
    ("input-bound-said", "if I feed the same cached batch again and again it's 0.11 s", {}),
    ("low-utilization", "4 GPUs, util 10-15%", {}),
    ("low-utilization", "only 3% of the GPU is in use", {}),
    ("low-utilization", "the GPU mostly idles", {}),
    ("low-utilization", "4% graphics processor usage", {}),
    ("small-model", "model.add(layers.LSTM(48, activation='selu'))", {"layer": "layers.LSTM("}),
    ("small-model", "model.add(Dense(24))", {"width": "24"}),
    (
        "no-cudnn-kernel",
        "WARNING:tensorflow:Layer gru_1 will not use cuDNN kernels since it doesn't meet the criteria.",
        {},
    ),
    ("input-bottleneck", "    image = cv2.imread(path)", {}),
    ("input-bottleneck", "Filling up shuffle buffer (this may take a while): 20 of 900", {}),
    ("input-bound-said", "training is slow because of the input pipeline", {}),
    ("low-utilization", "GPU-Util is 0 most of the time", {}),
    ("cpu-busy", "all cores at 100 %", {}),
    ("low-clocks", "P8, 139 MHz, 1455 MHz, 97 %", {"state": "8", "load": "97"}),
    ("low-clocks", "99 %, P5, 324 MHz", {"busy": "99", "low": "5"}),
    (
        "low-clocks",
        "| 24%   44C    P8    21W / 180W |   7712MiB /  8119MiB |    100%      Default |",
        {"row": "8", "full": "100"},
    ),
    ("low-clocks", "The GPU is stuck in P8.", {}),
    ("low-clocks", "the clock never goes above 300 MHz", {}),
    ("slowdown", "the laptop overheats", {}),
    ("slower-with-time", "Training gets slower with every epoch.", {}),
]

HARMLESS: list[tuple[str, str, dict[str, str]]] = [
    (
        "harmless",
        "Invoking GPU asm compilation is supported on Cuda non-Windows platforms only",
        {"what": "ptx-by-driver"},
    ),
    (
        "harmless",
        "ptxas warning : Registers are spilled to local memory in function 'dot', 8 bytes",
        {"what": "spills"},
    ),
]

MORE = [*MEMORY, *FAULTS, *SPEED, *HARMLESS]
