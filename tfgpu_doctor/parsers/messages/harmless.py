"""Messages that frighten people and mean nothing: they are named, so that nobody looks for their cause.

Sources: TensorFlow's cpu_feature_guard.cc, port.cc, util.cc, cuda_gpu_executor.cc and tf2tensorrt, and what its
maintainers wrote about them in its issues.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import Template, template

# kind → what it says, for people
MEANING = {
    "numa": "the firmware gives no NUMA node for the card; TensorFlow takes node 0",
    "cpu-features": "TensorFlow names instructions of this CPU that its build does not use everywhere",
    "onednn": "TensorFlow uses oneDNN on the CPU; results may differ in the last digits",
    "factory": "CUDA's plugins are registered twice while TensorFlow is imported; the second attempt is ignored",
    "absl-init": "TensorFlow writes to standard error before its logging is set up",
    "tensorrt-warning": "TensorRT is an optional extra; without it TF-TRT is off and nothing else changes",
    "driver-version-on-windows": "on Windows TensorFlow cannot read the driver's version, and does not need it",
    "graph-pass": "a graph optimisation was not applied",
    "interconnect": "how the devices are connected with each other",
    "end-of-data": "a dataset came to its end",
    "allocation-hint": "an allocation was refused and made otherwise; it costs speed at most",
    "host-allocation": "a large part of the machine's memory is allocated at once",
    "xla-ready": "XLA, TensorFlow's compiler, is ready",
    "autograph": "a function is run as it stands instead of as a graph",
    "profiler": "the profiler may not read the GPU's counters without permission",
    "deprecated": "a function will go away in a later release",
    "no-peer-access": "these cards cannot reach each other directly; TensorFlow copies through the host",
    "ptx-in-sequence": "the driver is older than the compiler, within one CUDA major: XLA compiles one "
    "kernel at a time",
    "ptx-by-driver": "on Windows the driver compiles what TensorFlow would give to ptxas elsewhere",
    "growth-by-variable": "TF_FORCE_GPU_ALLOW_GROWTH is set, and memory is taken as needed",
    "spills": "a kernel keeps some values in memory instead of registers; it costs speed at most",
    "tf32": "TensorFloat-32 is used for float32 matrix products",
    "weak-gpu-left-out": "a second, weaker GPU is left out on purpose",
    "timer": "a measurement of a kernel timed out; another one is taken",
    "plugin": "a device plugin was registered",
    "autotuning": "XLA tries and compiles kernels in the first steps, and says that one of them takes its time",
}


def _harmless(what: str, needles: str, pattern: str | None = None) -> Template:
    return template("harmless", needles, pattern, what=what, role="harmless")


TEMPLATES = (
    _harmless(
        "numa",
        "numa node|numa support",
        r"had negative value \(-1\)|NUMA node.{0,60}(?:could not|negative)|could not open file to read NUMA node"
        r"|without NUMA support",
    ),
    _harmless(
        "cpu-features",
        "cpu_feature_guard|cpu supports instructions|optimized to use available cpu|to enable them in other operations|"
        "wasn't compiled to use|not compiled to use",
    ),
    _harmless("onednn", "onednn custom operations are on|onednn custom operations|onednn supports dt_"),
    _harmless(
        "factory",
        "attempting to register factory for plugin|unable to register cu|computation placer already registered",
    ),
    _harmless("absl-init", "before absl::initializelog"),
    _harmless(
        "tensorrt-warning",
        "tf-trt warning|libnvinfer|nvinfer|could not find tensorrt|tensorrt libraries",
        r"TF-TRT Warning|Could not (?:find|load) (?:TensorRT|dynamic library '(?:lib)?nvinfer\w*)"
        r"|libnvinfer\w{0,40}\.so[.\d]*"
        r"|dlopen some TensorRT libraries|nvinfer\w{0,40}\.dll|missing TensorRT libraries",
    ),
    _harmless("driver-version-on-windows", "kernel reported driver version not implemented on windows"),
    _harmless(
        "graph-pass",
        "mlir v1 optimization pass|mlir optimization passes|skipping loop optimization|layout failed|"
        "model pruner failed|disabling mlir crash|optimization loop failed|remapper failed|error in predictcost|"
        "meta_optimizer|not creating xla devices|none of the mlir "
        "optimization passes",
    ),
    _harmless("interconnect", "device interconnect streamexecutor"),
    _harmless("end-of-data", "local rendezvous is aborting|end of sequence|local rendezvous recv item|out_of_range"),
    _harmless("allocation-hint", "the caller indicates that this is not a failure|garbage collection"),
    _harmless("host-allocation", "system memory", r"Allocation of \d+ exceeds \d+% of (?:free )?system memory"),
    _harmless(
        "xla-ready",
        "xla service|streamexecutor device",
        r"XLA service 0x\w+ (?:initialized|executing)|StreamExecutor device \(\d+\)",
    ),
    _harmless("autograph", "autograph could not be transformed|could not be transformed and will be executed as-is"),
    _harmless("profiler", "cupti_error_insufficient_privileges|cupti", r"CUPTI(?!/lib)"),
    _harmless("deprecated", "is deprecated and will be removed|deprecated. please use|futurewarning: passing"),
    _harmless("no-peer-access", "cannot enable peer access from device"),
    _harmless("ptx-in-sequence", "older than the ptxas cuda version|older than the ptx compiler version"),
    _harmless(
        "ptx-by-driver", "gpu asm compilation is supported on cuda non-windows|invoking ptxas not supported on windows"
    ),
    _harmless("spills", "registers are spilled to local memory"),
    _harmless(
        "growth-by-variable",
        "tf_force_gpu_allow_growth environment variable is set",
        r"TF_FORCE_GPU_ALLOW_GROWTH environment variable is set(?! but)",
    ),
    _harmless("tf32", "tensorfloat-32 will be used"),
    _harmless("weak-gpu-left-out", "tf_min_gpu_multiprocessor_count|with core count:"),
    _harmless("timer", "delay kernel timed out|gpu_timer", r"[Dd]elay kernel timed out"),
    _harmless(
        "autotuning",
        "slow_operation_alarm|is taking a while|trying algorithm eng|very slow compile",
        r"slow_operation_alarm|Trying algorithm eng\S{0,60}|is taking a while\.\.\.|Very slow compile\?",
    ),
    _harmless("plugin", "pluggable device|plugin optimizer for device_type"),
)
