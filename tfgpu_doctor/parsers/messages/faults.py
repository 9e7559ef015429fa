"""What goes wrong below and between the GPUs: faults of the card, peer access, NCCL, /dev/shm, wrong results, switches.

Sources: nvidia-smi's table and -q; NVIDIA's Xid guide and open-gpu-kernel-modules; the descriptions of CUresult;
NVIDIA/nccl's src/; TensorFlow's gpu_device.cc, gpu_bfc_allocator.cc, gpu_cudamallocasync_allocator.cc and
cross_device_ops.py; the words of user reports.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import template

_SEVERAL = (
    r"(?:(?:two|2|three|3|four|4|eight|8|both|multiple|several|multi|all|more)(?: or more)?[ -]?(?:\w+ )?GPUs?"
    r"|pairs? of GPUs|MirroredStrategy)"
)
_HANGS = (
    r"(?:hangs?|hanging|hung|(?:gets?|is|got|was|be) stuck|stuck at|(?<!pip )(?<!pip3 )freez\w+|froze"
    r"|stalls?|deadlock\w*"
    r"|no progress|nothing happens|never (?:starts|finishes|ends|returns))"
)

TEMPLATES = (
    # --- the card
    template(
        "gpu-lost",
        "err!|requires reset|requires a reset|recovery action|gpu crash|lost from the bus|nv_err_gpu_is_lost|"
        "gpu is lost|fallen off the bus|unable to determine the device handle|gpu has fallen",
        r"\|[^|\n]{0,30}ERR!|GPU requires (?:a )?reset|GPU Recovery Action +: +(?:Reset|Reboot|Drain)"
        r"|NVRM: .{0,60}failed to save GPU crash data|NVRM: A GPU crash dump has been created"
        r"|GPU lost from the bus|NV_ERR_GPU_IS_LOST|(?<!to the )\bGPU is lost\b|fallen off the bus"
        r"|unable to determine the device handle|GPU has fallen",
    ),
    template(
        "ecc",
        "uncorrectable|double bit|hardware_stack_error|hardware stack error|nvlink_uncorrectable",
        r"^\s*(?:DRAM|SRAM|Device Memory|Total|L[12] Cache)? ?(?:Uncorrectable|Double Bit)(?: Error| Parity| SEC-DED)?"
        r" *: *[1-9]\d*\s*$"
        r"|CUDA_ERROR_(?:HARDWARE_STACK_ERROR|NVLINK_UNCORRECTABLE)|uncorrectable NVLink error",
    ),
    # --- from card to card
    template("peer-access-none", "peer access not supported between", role="context"),
    template(
        "several-gpus-hang",
        "gpu|mirroredstrategy|num_clones|num_gpus",
        rf"\b{_SEVERAL}\b[^.;\n]{{0,80}}\b{_HANGS}\b|\b{_HANGS}\b[^.;\n]{{0,60}}\b(?:with|on|using|for) {_SEVERAL}\b",
    ),
    template(
        "job-hangs",
        "stays there|hangs|hung|stuck|freez|stall|no progress|nothing happens|global_step/sec: 0|"
        "here for hours|deadlock",
        rf"\b{_HANGS}\b|\bstays there\b|\bhere for (?:hours|ever)|global_step/sec: 0(?:\.0+)?\s*$",
        role="context",
    ),
    template(
        "several-gpus-asked",
        "num_clones|num_gpus|mirroredstrategy|multi_gpu_model|gpus=",
        r"--?num_(?:clones|gpus)[= ]+[2-9]\d?\b|MirroredStrategy|multi_gpu_model\(|\bgpus ?= ?[2-9]\b",
        role="context",
    ),
    template("nan-over-several-gpus", "nan", rf"\bNaNs?\b[^\n]{{0,80}}\b{_SEVERAL}|\b{_SEVERAL}[^\n]{{0,80}}\bNaNs?\b"),
    template(
        "collective-aborted",
        "collective ops is aborted|aborting ringreduce|aborting ringgather",
        r"(?:Collective ops is aborted by:|Aborting Ring\w{4,8} with) (?P<why>.{3,120})",
    ),
    template(
        "nccl-error",
        "nccl",
        r"HorovodInternalError: nccl\w+ failed|NCCL communicator was aborted|Bootstrap : no socket interface found"
        r"|NET/\w+ ?: (?:No usable listening interface|Got completion with error)",
    ),
    # --- shared memory
    template(
        "shm-listed",
        "/dev/shm|shm-size|--ipc",
        r"^\s*\w+\s+(?:(?:6[0-5](?:\.\d)?M|6[0-5]\d{3})\s.{0,60}|\S+\s+\S+\s+\S+\s+(?:9[5-9]|100)% +)/dev/shm\b"
        r"|--shm-size|--ipc[= ]host",
        role="context",
    ),
    template("shared-memory-full", "/dev/shm", r"No space left on device.{0,60}/dev/shm"),
    # --- results
    template(
        "wrong-result",
        "nan|zeros|different|differ|inconsisten|discrepan|mismatch|incorrect|wrong|accuracy|garbage",
        r"^(?!.{0,400}(?:round-off|rounding|e-0[5-9]|slightly))(?:"
        r"(?=.{0,400}\b(?:NaNs?|all zeros?)\b)(?=.{0,400}\b(?:GPU|[RG]TX ?\d{3,4})\b)(?=.{0,400}\bCPU\b)"
        r"(?=.{0,400}\b(?:but|while|whereas|only|fine|ok|correct\w*|converges|works|finite|vs|normal\w*"
        r"|decreases|not on)\b)"
        r"|(?=.{0,400}\b(?:different|differs?|inconsisten\w+|discrepanc\w+|mismatch\w*|do(?:es)? not match)\b)"
        r"(?=.{0,400}\b(?:results?|outputs?|values?|predictions?|accuracy|gradients?|answers?|difference|tf\.\w+)\b)"
        r"(?=.{0,400}\bGPU\b)(?=.{0,400}\bCPU\b)(?!.{0,400}\b(?:speed|times?|performance|device type|faster|slower)\b)"
        r"|(?=.{0,400}\b(?:accuracy|predict\w{0,4})\b)(?=.{0,400}\b(?:stuck|stays|random|wrong|garbage|only|zero)\b)"
        r"(?=.{0,400}\bGPU\b)(?=.{0,400}\bCPU\b)(?=.{0,400}\b(?:but|and|while|whereas)\b)"
        r").{0,200}",
    ),
    # --- switches that the environment sets
    template(
        "growth-not-parsed",
        "tf_force_gpu_allow_growth",
        r"TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: *\"?(?P<value>[^\"\n]{0,40})",
    ),
    template("thread-mode-invalid", "invalid gpu_thread_mode", r"Invalid gpu_thread_mode: *(?P<value>\S{0,40})"),
    template(
        "allocator-refused",
        "tf_gpu_allocator",
        r"Invalid TF_GPU_ALLOCATOR|TF_GPU_ALLOCATOR=\S{1,30} (?:isn't|is not) currently supported"
        r"|TF_GPU_ALLOCATOR is set to \S{1,40}, which is not",
    ),
    template("jit-forbidden", "ptx jit compilation was disabled|cuda_error_jit_compilation_disabled"),
    # --- handles and compilers
    template(
        "cudnn-handle",
        "find the dnn implementation|no algorithm worked|getconvolvealgorithms(|getconvolvebackward|"
        "cudnn launch failure|algorithms tried for|thenrnnforward|thenrnnbackward",
        r"Fail(?:ed)? to find the dnn implementation|No algorithm worked!"
        r"|Check failed: stream->parent\(\)->GetConvolve\w+\("
        r"|cuDNN launch failure|All algorithms tried for .{0,200} failed|Failed to call ThenRnn(?:Forward|Backward)",
    ),
    template(
        "ptxas-refused",
        "ptxas",
        r"ptxas: .{0,80}unsupported version|Couldn't find a suitable version of ptxas"
        r"|ptxas.{0,40}: Unsupported \.version \d",
    ),
)
