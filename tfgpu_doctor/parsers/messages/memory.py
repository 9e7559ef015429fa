"""More messages about memory that runs out, and about other processes that hold it.

Sources: TensorFlow's gpu_device.cc, gpu_cudamallocasync_allocator.cc, cuda_driver.cc and bfc_allocator.cc from 0.12 to
2.20; NumPy's _ArrayMemoryError; Slurm and the kernel for the machine's memory; Ray, Open MPI and Horovod for the marks
that they put before the lines of their processes.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import template

_SIZE = r"(?<![\d.])\d{1,6}(?:\.\d{1,3})? ?[KMG]i?B"
# before a line of a process: "(pid=771)", "(RolloutWorker pid=772, ip=10.0.0.4)", "[1,3]<stderr>:", "worker-1 | "
_OWNER = (
    r"(?:\((?:\w{1,40} )?pid=(?P<pid>\d{1,9})[^)\n]{0,40}\)|^\[\d{1,4},(?P<rank>\d{1,5})\]<std\w{3}>"
    r"|^\[?rank ?(?P<of>\d{1,5})\]?:|^(?P<service>[\w-]{1,40}[_-]\d{1,3}) +\|)"
)

TEMPLATES = (
    template(
        "out-of-memory",
        "status: out of memory|for new constant|cuda error: out of memory|cumemallocasync",
        r"(?:implicit initialization on GPU:\d+|cudaGetDevice\(\)|cudaSetDevice\(\)[^.\n]{0,20}) failed\. "
        r"Status: out of memory|Failed to allocate \d+ bytes for new constant|CUDA error: out of memory"
        r"|cuMemAllocAsync failed to allocate (?P<bytes>\d+)",
    ),
    # in words; neither a wish nor advice
    template(
        "out-of-memory",
        "gives oom|gives me oom|is out of memory|out of memory with|oom error|oom exception|"
        "goes oom|went oom|get oom|got oom|gets oom|an oom|of vram|out of gpu memory|"
        "not enough memory|not enough gpu memory",
        r"^(?!.{0,300}?\b(?:avoid\w*|prevent\w*|never|handl\w*|want|if|in case|without|may|might)\b.{0,80}?"
        r"\b(?:OOM|out of|not enough))"
        r".{0,300}?\b(?:gives (?:me )?(?:an )?OOM|GPU is out of memory|OOM (?:error|exception)s?\b(?! (?:handl"
        r"|recover))|(?:goes|went|get|gets|got|an) OOM\b"
        r"|out of (?:GPU memory|VRAM)\b|not enough (?:GPU )?memory\b(?! (?:left )?on the (?:disk|drive)))",
    ),
    # in other languages, and as the reason why a program ends
    template(
        "out-of-memory",
        "out of memory|oom|memoria|mémoire|speicher|памяти|显存|顯存|メモリ|메모리",
        r"\b(?:stop(?:s|ped)?|fail(?:s|ed)?|crash(?:es|ed)?|die[sd]?|end(?:s|ed)?|abort(?:s|ed)?|quits?"
        r"|exit(?:s|ed)?)\b[^.;\n]{0,40}"
        r"\b(?:with|by|due to|because of|on) (?:an? |the )?(?:CUDA |GPU )?['\"]?(?:out of memory|OOM)\b"
        r"|(?:me da|falla por|error de) (?:falta de memoria|memoria insuficiente)|memoria (?:de la gpu )?insuficiente"
        r"|mémoire (?:gpu )?insuffisante|nicht genug (?:Grafik|GPU-)?speicher|не хватает (?:видео)?памяти"
        r"|недостаточно (?:видео)?памяти"
        r"|(?:显存|顯存)(?:不足|不够|溢出|爆了)|爆显存|メモリ(?:不足|が足りない)|메모리 ?부족",
    ),
    # PyTorch's words: what the GPU has, what is free, and what PyTorch itself holds
    template(
        "memory-of-pytorch",
        "gib total capacity|total capacity of",
        rf"(?P<total>{_SIZE}) total capacity;.{{0,80}}?(?P<free>{_SIZE}) free;(?: (?P<own>{_SIZE}) reserved)?"
        rf"|total capacity of (?P<capacity>{_SIZE}) of which (?P<left>{_SIZE}) is free"
        rf"(?:.{{0,300}}?allocated memory (?P<allocated>{_SIZE}) is)?",
        role="context",
    ),
    template(
        "takes-all-memory",
        "all the memory|all of the memory|all memory|all the gpu memory|all gpu memory|whole memory|entire memory|"
        "all of the gpu|entire gpu memory|whole gpu memory|all available memory|all the vram|"
        "much|share of the|most of the|all of the|gb|% memory|% of the memory",
        r"^(?!.{0,200}\b(?:if|want|without|not|n't)\b)(?=.{0,300}\b(?:GPU|card|VRAM"
        r"|device)).{0,200}?\b(?:hold|take|use|"
        r"occup(?:y|ie)|allocat|grab|reserv|eat|fill|consum)\w{0,3} (?:up )?(?:nearly |almost )?(?:all"
        r"|the whole|the entire) "
        r"(?:of )?(?:the )?(?:available )?(?:GPU )?(?:memory|VRAM)"
        r"|^(?!.{0,200}\b(?:if|want|without|not|n't)\b).{0,200}?\b(?:tak|us|occup|hold|eat|reserv|allocat|grab)\w{1,4} "
        r"(?:up )?(?:(?:very|so|too|nearly|almost|GPU Memory) ){0,3}(?:much|all|most|a lot|\d{1,3} ?GBs?) "
        r"?(?:of )?(?:the |my )?(?:card's |GPU'?s? |device |graphics )*(?:memory|VRAM)"
        r"|\b(?:large (?:share|part)|most|nearly all|much) of the (?:GPU )?(?:memory|VRAM) (?:is|gets) "
        r"(?:always )?(?:occupied|used|taken|reserved|full)"
        r"|\bus(?:es|ing) GPU Memory (?:very|too|so) much|\bus(?:es|ing) (?:over |> ?)?9\d ?% (?:of the )?memory\b",
        role="context",
    ),
    # what the allocator prints before it gives up, where the line that says so was not pasted
    template(
        "out-of-memory",
        "bfc_allocator.cc",
        r"bfc_allocator\.cc:\d+\] (?:InUse|Chunk|Free) +at |Next region of size \d"
        r"|bfc_allocator\.cc:\d+\] \d+ Chunks of size \d+ totalling",
    ),
    template(
        "out-of-memory", "sum total of in-use chunks", r"Sum Total of in-use chunks: *(?P<in_use>[\d.]+ ?[KMGT]i?B)"
    ),
    template(
        "host-out-of-memory",
        "unable to allocate|oom-kill|oom_kill|out-of-memory handler|oomkilled|exceeded memory limit",
        r"MemoryError: Unable to allocate|Unable to allocate [\d.]+ ?[KMGT]i?B for an array"
        r"|Detected \d+ oom.kill events?|cgroup out-of-memory handler|\bOOMKilled\b|Exceeded (?:job|step)"
        r" memory limit",
    ),
    template("process-killed", "killed|exit code 137", r"^\s*(?:\[\d+\]\+? +)?(?:\d+ +)?Killed\b(?!:)|exit code 137\b"),
    # the device that TensorFlow makes of a card with what was left of it, and the process that does
    template(
        "memory-left",
        "mb memory",
        rf"(?:{_OWNER}.{{0,200}}?)?Creat\w+ (?:TensorFlow )?device \(?/\S{{0,60}}?device:GPU:(?P<device>\d{{1,3}})"
        r" with (?P<kept>\d{1,7}) MB memory(?:.{0,80}?pci bus id: (?P<bus>[0-9a-fA-F:.]{7,16}))?",
    ),
    template(
        "failure-of-process",
        "out_of_memory|out of memory|alloc_failed|not_initialized|oom when|resource exhausted|resourceexhausted|"
        "failed to allocate|launch failed|failed to initialize",
        rf"{_OWNER}.{{0,300}}?(?:CUDA_ERROR_OUT_OF_MEMORY|Status: out of memory|STATUS_(?:ALLOC_FAILED"
        rf"|NOT_INITIALIZED)"
        r"|OOM when allocating|[Rr]esource ?[Ee]xhausted|ran out of memory|launch failed|cuDNN failed to initialize)",
    ),
    # somebody tells that another program is there; not advice to look for one
    template(
        "other-holder",
        "process|notebook|kernel|session|script|zombie|program|jupyter|terminal|instance|training|user|job|another",
        r"^(?!.*\b(?:make sure|ensure|check (?:if|that|whether)|if (?:you|there|another|some)|whether|unless|no other"
        r"|nothing else|without any other|should|please|avoid|may be|might be|try"
        r"|(?:do|does|did|is|are|am|was|were)(?: not|n't))\b)"
        r"(?:.{0,200}?\b(?:another|other|second|two|both|several|multiple|concurrent|old|previous|yesterday's"
        r"|crashed)"
        r" (?:\w+ ){0,3}?(?:process(?:es)?|notebooks?|kernels?|sessions?|scripts?|programs?|instances?|jobs?|training"
        r"|users?)\b.{0,80}?\b(?:GPUs?|memory|running|runs?|open|still|at the same time|in parallel"
        r"|simultaneously|card|uses?|using|holds?|held|occup\w+|shut down"
        r"|closed?|killed|stopped)\b"
        r"|.{0,200}?\bzombie\b.{0,60}\b(?:GPU|memory)\b"
        r"|.{0,200}?\b(?:open(?:ed)?|running) in another (?:tab|window|terminal|shell)\b"
        r"|.{0,200}?\b(?:restart|clos|shut|kill|stopp)\w*(?: down)? (?:the |my |all )?"
        r"(?:other|old|first|second|jupyter|ipython)\b)",
        role="context",
    ),
    template(
        "other-holder",
        "mib",
        r"\| +\d{1,2} +(?:\S{1,5} +\S{1,5} +)?(?P<pid>\d{1,9}) +[CGM+]{1,3} +[^|\n]{0,60}python[^|\n]{0,40}? +"
        r"(?P<held>\d{4,6}) ?MiB +\|",
    ),
)
