"""Messages of a running job: memory, several GPUs, the input pipeline, speed.

Sources: TensorFlow's bfc_allocator.cc, gpu_process_state.cc and cuda_driver.cc; NVIDIA/nccl's src/; user reports for
the words in which people complain of slowness.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages import faults, memory, speed
from tfgpu_doctor.parsers.messages.template import template

_SIZE = r"[\d.]+ ?[KMGT]?i?B?"

TEMPLATES = (
    template(
        "out-of-memory",
        "oom when allocating|out of memory|ran out of memory|cuda_error_out_of_memory|resource_exhausted|"
        "resource exhausted|resourceexhausted|alloc_failed|failed to allocate",
        r"OOM when allocating tensor(?: with shape *(?P<shape>\[[\d, ]*\]))?(?:.*?device:(?P<device>\w+:\d+))?"
        rf"|failed to allocate (?P<size>{_SIZE}).{{0,40}}from device: *(?:CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED)?"
        rf"|Allocator \((?P<allocator>\w+)\) ran out of memory trying to allocate (?P<wanted>{_SIZE})"
        r"|(?P<context>cuDevicePrimaryCtxRetain|cuCtxCreate)\b.{0,40}CUDA_ERROR_OUT_OF_M"
        r"|(?<!call to cuInit: )CUDA_ERROR_OUT_OF_MEMORY"  # cuInit asks for no memory of a GPU
        r"|Out of memory (?:while )?(?:trying to )?allocat\w+ (?P<bytes>[\d.]+ ?\w*)"
        r"|(?<!call to cuInit: )(?:RESOURCE_EXHAUSTED|Resource exhausted|ResourceExhausted(?:Error)?)\b.{0,40}"
        r"|CUDNN_STATUS_ALLOC_FAILED"
        r"|failed to allocate (?:memory|work (?:area|space))|CUDA out of memory|Failed to allocate request"
        r"|\bRan out of memory\b",
    ),
    # what the process may do: a shell's `ulimit -a`, /proc/self/limits, a line of a job script
    template(
        "address-space-limit",
        "ulimit|virtual memory|max address space",
        r"^\W*virtual memory +\(kbytes, -v\) +(?P<kib>\d{1,15})\b|\bulimit +(?:-[SH] +)?-[SH]?v +(?P<set>\d{1,15})\b"
        r"|^\W*Max address space +(?P<bytes>\d{1,19})\b",
        role="context",
    ),
    # XLA's file of PTX code, with the reason that the system gives (posix_file_system.cc: IOError); Python's tempfile
    template(
        "temporary-file-refused",
        "/tempfile-|no usable temporary directory",
        r"(?P<folder>/\S{0,200}?)/tempfile-[\w.-]{1,200}; (?:Permission denied|Read-only file system)"
        r"|No usable temporary directory found in ",
    ),
    template("allocation-not-a-failure", "the caller indicates that this is not a failure", role="context"),
    template("dst-not-initialized", "dst tensor is not initialized"),
    template(
        "memory-left",
        "free memory|freememory|mb memory|free:",
        rf"(?:Total memory: *(?P<total>{_SIZE})|totalMemory: *(?P<all>{_SIZE}))?\s*(?:Free memory: *(?P<free>{_SIZE})"
        rf"|freeMemory: *(?P<left>{_SIZE}))",
        role="context",
    ),
    # up to 1.3 in a line of its own, above that of the free memory
    template("memory-total", "total memory:", rf"Total memory: *(?P<total>{_SIZE})\s*$", role="context"),
    template("allocator-limit", "limit:", r"^(?:.*[\s\]])?Limit: +(?P<limit>\d+)(?![\d.KMGT])"),
    template("memory-left", "bytes free", r"Memory usage: *(?P<free>\d+) bytes free, *(?P<total>\d+) bytes total"),
    template("memory-left", "free memory/total memory", r"Free memory/Total memory: *(?P<free>\d+)/(?P<total>\d+)"),
    template(
        "host-out-of-memory",
        "std::bad_alloc|oom-killer|oom-kill event|out of memory: kill|memoryerror",
        r"std::bad_alloc|oom-killer|oom-kill event|Out of memory: Kill\w* process"
        r"|^(?:[\w.]+\._?)?(?:Array)?MemoryError\b",
    ),
    # --- several GPUs
    template("nccl-warning", "nccl warn", r"NCCL WARN (?P<why>.*)"),
    template(
        "nccl-error",
        "nccl|unhandled cuda error|unhandled system error",
        r"nccl(?:SystemError|InternalError|UnhandledCudaError|InvalidUsage|InvalidArgument|RemoteError)"
        r"|NCCL (?:operation|error|failure)\b.{0,60}(?:fail|error)|unhandled (?:cuda|system) error"
        r"|Op(?:Kernel)? .{0,60}'?Nccl\w+'?.{0,80}|Op type not registered 'Nccl\w+'|Error invoking NCCL"
        r"|NCCL: (?P<why>.{3,80})|ncclCommInit\w* failed|NCCL timed? ?out",
    ),
    template(
        "nccl-timeout", "nccl|collective", r"(?:NCCL|[Cc]ollective)\b.{0,80}(?:hang|hung|timed? ?out|stuck|deadlock)"
    ),
    template("nccl-version", "nccl version", r"NCCL version (?P<version>\d+\.\d+(?:\.\d+)?)", role="context"),
    template(
        "shared-memory-full",
        "shared memory|shm|posix_fallocate",
        r"posix_fallocate failed.{0,40}No space left|creating shared memory segment|shared memory \(shm\)"
        r"|/dev/shm/.{0,60}No space left|shm_open.{0,60}(?:failed|error)|[Uu]nable to (?:open|write|mmap).{0,40}shm"
        r"|out of shared memory|nccl-shm.{0,100}(?:fail|error|size)|insufficient shared memory"
        r"|(?:extend|attach|allocat)\w*.{0,20} /?dev/shm",
    ),
    template(
        "no-space-left",
        "no space left on device|errno 28|os error 28|enospc|disk quota exceeded|not enough space on the disk"
        "|os error 112|os error 122|winerror 112",
        r"No space left on device|\[Errno (?:28|122)\]|os error (?:28|112|122)\b|\bENOSPC\b|Disk quota exceeded"
        r"|not enough space on the disk|\[WinError 112\]",
    ),
    template("bus-error", "bus error|sigbus", r"\bBus error\b|\bSIGBUS\b"),
    template(
        "peer-access-failed",
        "peer access|p2p|peer-to-peer|peer to peer|peer_access|peeraccess|too_many_peers",
        r"(?:failed|unable|could not) to? ?enable peer access.{0,80}|peer access (?:is not supported|failed)"
        r"|CUDA_ERROR_PEER_ACCESS\w*|NCCL_P2P_DISABLE *= *1|P2P.{0,40}(?:fail|hang|not supported|disabled|error)"
        r"|cudaErrorPeerAccess\w+|TOO_MANY_PEERS|peer access pairs were reported by the driver, but no peering",
    ),
    # --- devices and their work
    template(
        "nan-result", "nan", r"loss:? +nan\b|\bnan or inf\b|Model diverged with loss = NaN|NanLossDuringTrainingError"
    ),
    template(
        "wrong-result",
        "result|differ|mismatch|wrong",
        r"\b(?:wrong|incorrect|inconsistent|garbage) (?:numerical )?(?:results?|outputs?|values|predictions?"
        r"|accuracy)\b|results? (?:is|are) (?:all |always )?(?:zeros?|wrong|NaN)\b"
        r"|(?:different) (?:numerical )?results? (?:on|from|with|between) (?:the )?(?:GPU|CPU)"
        r"|GPU (?:gives|returns|produces|computes) (?:a )?(?:wrong|incorrect|different)"
        r"|(?:CPU|GPU) and (?:CPU|GPU) (?:results?|outputs?) (?:differ|do not match|mismatch)",
    ),
    template(
        "xla-flags-refused",
        "xla_flags|couldn't interpret value",
        r"Unknown flags? in (?P<name>(?:TF_)?XLA_FLAGS)|Couldn't interpret value \S* ?for flag (?P<flag>\w+)",
    ),
    template(
        "launch-failed",
        "cuda_error_launch_failed|launch_failed|illegal memory access|cuda_error_illegal_address|"
        "unspecified launch failure",
    ),
    template("assertion-failed", "device-side assert"),
    template(
        "slow",
        "slow|gpu|faster",
        r"GPU (?:is )?(?:\w+ )?(?:much |way |far |a lot |\d+x |times )?slower than (?:the )?CPU"
        r"|(?:slower|takes longer) (?:on|with|using) (?:the |a )?(?:\w+ )?GPU(?: than)?"
        r"|CPU (?:is |alone )?(?:\w+ )?faster(?: than (?:the )?GPU)?|faster (?:on|with) (?:the )?CPU than"
        r"|the CPU is faster"
        r"|GPU.{0,30}\bnot faster\b|no speed[- ]?up.{0,40}GPU|GPU (?:version )?slower\b|slow (?:training"
        r"|inference) (?:on|with) (?:the )?GPU",
    ),
    template(
        "low-utilization",
        "util|usage|spik|idle|starv|gpu load|gpu-load|gpu at|gpu is at|gpu is only at",
        r"(?:low|poor|bad|under|little) ?-?(?:volatile )?(?:GPU[ -]?)(?:volatile )?(?:util\w*|usage|load)"
        r"|GPU(?:'s)?[ -](?:volatile[ -])?(?:util\w*|usage|load)\b.{0,60}?(?:\blow\b|\bzero\b|spik\w+"
        r"|fluctuat\w+|drop\w*|\b[0-4]?\d ?%)"
        r"|\bGPU (?:is |was )?(?:only )?at \d{1,2} ?%|\b[0-4]?\d ?% (?:of )?(?:GPU[ -])?(?:util\w*|usage)"
        r"|GPU.{0,20}(?:is |sits |stays )(?:mostly "
        r"|almost )?idle|starv\w+(?! (?:of|for) memory)",
    ),
    template(
        "input-bottleneck",
        "input pipeline|prefetch|bottleneck|data loading|generator|workers|augment|input-bound|step time|"
        "flow_from_directory|utils.sequence|data pipeline|data input|input ran out|multiprocessing|on_train_batch_end",
        r"\b(?:ImageDataGenerator|fit_generator|flow_from_directory|keras\.utils\.Sequence|input[- ]bound"
        r"|from_generator"
        r"|data (?:loading|pipeline|input) (?:is )?(?:the )?(?:bottleneck|slow\w*))\b"
        r"|(?P<percent>\d+)(?:\.\d+)? ?% of (?:the )?(?:total )?(?:sampled )?step time.{0,40}(?:input|waiting for)"
        r"|WARNING:tensorflow:.{0,40}(?:input ran out|multiprocessing can interact badly)"
        r"|Method \(on_train_batch_end\) is slow compared",
        role="context",
    ),
    template(
        "input-bound-said",
        "input-bound|waiting for input",
        r"\b(?:highly|moderately) input-bound|step time.{0,20}waiting for input",
    ),
    template("small-batch", "batch_size|batch size", r"batch[_ ]size *[=:] *(?P<size>\d+)\b", role="context"),
    *memory.TEMPLATES,
    *faults.TEMPLATES,
    *speed.TEMPLATES,
)
