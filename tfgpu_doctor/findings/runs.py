"""Runs that fail or are slow: communication, later phases, performance."""

from __future__ import annotations

import re

from tfgpu_doctor.facts.facts import Gpus, Message, Phases, value_or
from tfgpu_doctor.facts.report import Alternative, Fix, Severity
from tfgpu_doctor.facts.units import MIB
from tfgpu_doctor.facts.versions import at_least
from tfgpu_doctor.findings import declaration, symptoms
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import Checks, gpu_name
from tfgpu_doctor.findings.library_fixes import IN_COMPAT
from tfgpu_doctor.findings.phases import how_it_ended, is_wrong, last_lines, was_cut_short

NCCL_GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/"
_DOCKERS_SHM = 64 * MIB  # what Docker and containerd give a container that asks for nothing
POD_SHM = (
    "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]",
    "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
)
_TOPOLOGY = "nvidia-smi topo -m"


def _more_shm(context: Context) -> tuple[Fix, ...]:
    container = value_or(context.facts.host.container, None)
    start = "podman run --device nvidia.com/gpu=all" if container == "podman" else "docker run --gpus all"
    docker = Fix("Start the container with more", (f"{start} --shm-size=1g --ulimit memlock=-1 ...",))
    pod = Fix("In Kubernetes, mount a volume in memory at /dev/shm", POD_SHM)
    more = {None: (docker, pod), "kubernetes": (pod,)}.get(container, (docker,))
    return (*more, Fix("Remove files that crashed jobs left in /dev/shm", ("ls -l /dev/shm",)))


SMALL = finding(
    "shm.small",
    layer="Machine",
    severity=Severity.WARNING,
    title="/dev/shm is small",
    despite_verified=True,
    symptoms=(symptoms.NCCL_SYSTEM_ERROR,),
    docs=f"{NCCL_GUIDE}troubleshooting/runtime_and_mpi_issues.html",
    cause="NCCL and worker processes of an input pipeline exchange data in /dev/shm; a container gets 64 MiB of it "
    "unless more is requested",
    fixes=_more_shm,
)


@SMALL.sign(conclusive=False)
def dockers_default(context: Context, shm: int, host_container: str, gpu_count: int | None = None) -> Problem | None:
    """A container's 64 MiB, in which NCCL communicates (its guide, "Shared memory"), and input pipelines do."""
    if host_container == "none" or shm > _DOCKERS_SHM or not gpu_count:
        return None
    found = f"{shm / MIB:.0f} MiB in a {host_container} container, GPUs: {gpu_count}"
    return Problem(
        cause=None if gpu_count > 1 else "enough for one GPU, unless worker processes of an input pipeline use it",
        evidence=(evidence(found, context.source("host.shm"), "1 GiB or more for several GPUs"),),
        severity=Severity.WARNING if gpu_count > 1 else Severity.NOTE,
    )


@SMALL.sign()
def shared_memory_message(messages: MessageLog) -> Problem | None:
    """NCCL or a data loader cannot create its segment in shared memory."""
    full, listed = messages.all("shared-memory-full"), messages.all("shm-listed")
    no_space = messages.all("bus-error", "no-space-left")
    if not full and not (listed and no_space):
        return None
    return Problem(severity=Severity.ERROR, evidence=message_evidence(*full, *no_space, *listed))


def _without_iommu(context: Context) -> tuple[Fix, ...]:
    """The kernel's log tells which IOMMU it is (NVIDIA/nccl issue 257; NCCL's guide, "PCI Access Control Services")."""
    faults = context.log.all("dma-fault")
    option = "intel_iommu=off" if any("DMAR" in one.text for one in faults) else "iommu=pt"
    text = f"Turn off ACS in the firmware, and add {option} to the options of the kernel (here with GRUB, as on Ubuntu)"
    change = f"sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{option} /' /etc/default/grub && sudo update-grub"
    return (Fix(text, (change, "sudo reboot")),) if faults else ()


FAILED = finding(
    "p2p.failed",
    layer="GPU",
    title="The GPUs cannot access each other's memory directly",
    despite_verified=True,
    pointless_after=("shm.small", "driver.*", "container.no-gpu"),
    docs=f"{NCCL_GUIDE}troubleshooting.html#pci-access-control-services-acs",
    cause="the PCIe path between the GPUs blocks or corrupts their traffic: ACS or the IOMMU is enabled, or the "
    "topology or the driver does not allow it",
    fixes=lambda context: (
        *_without_iommu(context),
        Fix("Bypass it (slower)", ("export NCCL_P2P_DISABLE=1",)),
        Fix("Check the topology, and whether ACS is enabled", (_TOPOLOGY, "sudo lspci -vvv | grep ACSCtl")),
        Fix("Disable ACS and the IOMMU in the firmware, or boot with iommu=pt"),
    ),
)


FAILED.printed("peer-access-failed", "dma-fault")


@FAILED.sign()
def fails_only_on_several(messages: MessageLog) -> Problem | None:
    """A job on several GPUs hangs or computes NaN, and nothing shows another reason."""
    if messages.has("nccl-warning", "nccl-error", "out-of-memory", "shared-memory-full", "bus-error"):
        return None
    kinds = ("peer-access-none", "job-hangs", "several-gpus-asked")
    hangs = messages.has("job-hangs") and messages.has("several-gpus-asked", "peer-access-none")
    found = messages.all("nan-over-several-gpus", "several-gpus-hang", *(kinds if hangs else ()))
    return Problem(
        title="A job fails only on several GPUs: they probably cannot access each other's memory directly",
        evidence=message_evidence(*found),
        severity=Severity.WARNING,
    )


ERROR = finding(
    "nccl.error",
    layer="GPU",
    title="NCCL fails",
    despite_verified=True,
    pointless_after=("shm.small", "p2p.failed", "driver.*", "gpu.mig", "gpu.fault", "container.no-gpu"),
    docs=f"{NCCL_GUIDE}troubleshooting.html",
    cause="NCCL could not set up or carry out the communication between the GPUs",
)


_MORE_SHARED_MEMORY = Fix("Give the container shared memory for NCCL: docker run --shm-size=1g --ulimit memlock=-1")
_BY_NETWORK = Fix(
    "Between hosts, name the network interface that connects them, in place of eth0",
    ("ip -brief address", "export NCCL_SOCKET_IFNAME=eth0"),
)
_SHOW_NCCL = Fix(
    "Start it again with this variable in every worker (mpirun -x NCCL_DEBUG), and read the first line with NCCL WARN; "
    "where a connection was lost, see which worker ended first, and why (out of memory, evicted)",
    ("export NCCL_DEBUG=INFO", _TOPOLOGY),
)
_OF_A_PEER = r"Call to (?:recv|send)\b.{0,60} failed|closed by remote peer|reset by peer"  # the interface is right
_OF_A_SOCKET = r"\b[Ss]ocket\b|Connection (?:timed out|refused|closed)|No route to host"


_OF_NO_KERNEL = re.compile(r"OpKernel|not registered")
_WITHOUT_NCCL = Fix(
    "Let TensorFlow reduce without NCCL: "
    "tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())"
)


# openucx/ucx issue 8229: "Please set max locked memory (ulimit -l) to 'unlimited'"; NVIDIA/nccl issue 380
_OF_INFINIBAND = r"ibv_(?:create_[cq]q|create_qp|reg_mr)\w* failed"
_LOCK_MEMORY = Fix(
    "Let the job lock memory without limit, as InfiniBand needs (the first command shows the limit; Slurm: "
    "LimitMEMLOCK=infinity for slurmd; Docker: --ulimit memlock=-1). On one node, NCCL does without InfiniBand",
    ("bash -c 'ulimit -l'", "export NCCL_IB_DISABLE=1"),
)


@ERROR.sign()
def no_kernel_of_nccl(messages: MessageLog) -> Problem | None:
    """TensorFlow has no kernel for an operation of NCCL, though it has GPUs, on which alone there are some."""
    found = [m for m in messages.all("nccl-error") if _OF_NO_KERNEL.search(m.text)]
    if not found or messages.has("no-gpu-listed"):
        return None
    cause = "this build of TensorFlow has no kernels of NCCL, as none for Windows has"
    elsewhere = Alternative("Run it on Linux or in WSL2, whose builds have NCCL, or on one GPU")
    return Problem(cause=cause, evidence=message_evidence(*found), fixes=(_WITHOUT_NCCL, elsewhere))


@ERROR.sign()
def nccl_message(context: Context, messages: MessageLog) -> Problem | None:
    """NCCL reports an error, or its library is missing."""
    benign = rf"libibverbs|(?!.*{_OF_INFINIBAND})\bibv_|libnccl-net|[Nn]o plugin"
    warned = [m for m in messages.all("nccl-warning") if not re.search(benign, m.text)]
    loader = messages.libraries("loader-error", "library-not-opened")
    missing = [message for name, message in loader if name.startswith("libnccl")]
    errors = [m for m in messages.all("nccl-error", "nccl-timeout") if not _OF_NO_KERNEL.search(m.text)]
    found = (*warned, *errors, *missing)
    if not found and not messages.has("out-of-memory"):  # a worker that ran out of memory ends the others, too
        found = messages.all("collective-aborted")
    lines = "\n".join(m.text for m in found)
    first: tuple[Fix, ...] = ()
    if re.search(_OF_A_SOCKET, lines):
        first = () if re.search(_OF_A_PEER, lines) else (_BY_NETWORK,)
    elif re.search(_OF_INFINIBAND, lines):
        first = (_LOCK_MEMORY,)
    elif context.is_in_container and "system error" in lines:
        first = (_MORE_SHARED_MEMORY,)
    return Problem(evidence=message_evidence(*found), fixes=(*first, _SHOW_NCCL, _WITHOUT_NCCL))


_LATER = ("keras", "build", "devices", "details", "compute", "xla")

RUN_FAILED = finding(
    "tf.run-failed",
    layer="Compute",
    title="TensorFlow can be imported, but fails when it is used",
    despite_verified=True,
    cause="the driver, CUDA or cuDNN failed; their last messages are the evidence",
    explained_by=(
        *("driver.*", "gpu.arch-*", "gpu.fault", "gpu.mig", "cuda.*", "cudnn.*", "compute.*", "memory.*", "xla.*"),
        *("tf.import-avx", "tf.shadowed", "tf.install-damaged", "tf.package-conflict", "tf.abi-*"),
        *("env.gpu-thread-mode", "env.address-space-limit", "env.tmpdir-unwritable", "env.disk-full"),
        *("env.pythonpath", "env.keras-backend", "env.legacy-keras"),
    ),
    docs="https://www.tensorflow.org/install/errors",
)


@RUN_FAILED.sign()
def later_phase_failed(context: Context, phases: Phases, checks: Checks = ()) -> Problem | None:
    """A phase after the import raised, hung or ended the process, or a computation raised."""
    ended = (p for p in phases if p.name in _LATER and p.outcome in ("raised", "died", "timeout"))
    bad, child = [p for p in ended if not was_cut_short(p)], "the child process"
    seen = []
    for phase in bad:
        seen += [evidence(f"phase {phase.name}: {how_it_ended(phase)}", child), *last_lines(phase)]
    raised = [check for check in checks if check.error and not is_wrong(check)]
    seen += [evidence(f"{c.kind} on {c.device}: {c.error}", child) for c in raised]
    names = ", ".join(p.name for p in bad) or "compute"
    see = Fix("See the whole report, with TensorFlow's own log", (context.remedies.doctor("--format json"),))
    return Problem(title=f"TensorFlow can be imported, but fails later: {names}", evidence=tuple(seen), fixes=(see,))


_SEE_PLAN = Alternative("Run it with TensorFlow 1.15 and Python 3.7; see how", ("tfgpu plan --tensorflow 1.15",))


@RUN_FAILED.sign(unless=(*RUN_FAILED.explained_by, "tf.python-unsupported", "tf.wrong-env", "tf.not-installed"))
def written_for_tensorflow_1(messages: MessageLog, tensorflow_version: str = "") -> Problem | None:
    """A program misses names of TensorFlow 1, which any TensorFlow 2 is without."""
    is_2 = messages.values("of-tensorflow-1", "part") or at_least(tensorflow_version or "1", "2")
    graph = [m for m in messages.all("no-attribute") if is_2 and m.values.get("name") == "get_default_graph"]
    seen = (*messages.all("of-tensorflow-1"), *graph)  # where Keras asks for the latter, no release is named
    if messages.has("old-keras") or (tensorflow_version and not is_2):
        return None
    gone = any("contrib" in one.text or "examples" in one.text for one in seen)
    return Problem(
        title="This program is written for TensorFlow 1, and runs with TensorFlow 2",
        cause="TensorFlow 2 has these names in tf.compat.v1, and no contrib; to install it anew changes nothing",
        evidence=message_evidence(*seen),
        fixes=(_SEE_PLAN,) if gone else (IN_COMPAT, _SEE_PLAN),
        severity=Severity.WARNING,
        possible=not is_2,
        answers=messages.speaks_only_of("no-attribute", "module-not-found", *declaration.OF_ANY_CRASH),
    )


RUN_FAILED.printed(
    "gpu-not-among-devices",
    title="The program asks for a GPU that TensorFlow does not list; it lists another",
    cause="TensorFlow numbers the GPUs that CUDA_VISIBLE_DEVICES leaves from GPU:0",
    fixes=(
        Fix("In the program, name a listed GPU, or let TensorFlow choose: tf.config.set_soft_device_placement(True)"),
        Fix("Of more GPUs in this machine (nvidia-smi -L shows all), CUDA_VISIBLE_DEVICES may hide some: unset it"),
    ),
    answers=True,
)

RUN_FAILED.printed(
    "gpu-kernel-missing",
    title="The program puts an operation on the GPU that has no kernel for it in this build",
    cause="TensorFlow has a GPU here: without one, the message lists the devices that there are",
    fixes=(
        Fix(
            "Let TensorFlow place such an operation on the CPU: tf.Session(config=tf.ConfigProto("
            "allow_soft_placement=True)), in TensorFlow 2 tf.config.set_soft_device_placement(True); a later release "
            "may have the kernel (wheels for Windows of 2018 lack softmax)"
        ),
    ),
    answers=True,
)

RUN_FAILED.printed(
    "devices-fixed",
    title="The program sets up the GPUs after TensorFlow has opened them",
    cause="what is set then holds until the process ends; nothing is wrong with TensorFlow or the GPUs",
    fixes=(
        Fix(
            "Call it once in a process, before all else; for a part on the CPU: with tf.device('/CPU:0'); for another "
            "choice of GPUs: a new process, with CUDA_VISIBLE_DEVICES"
        ),
    ),
    answers=True,
    severity=Severity.WARNING,
)


RUN_FAILED.printed(
    "growth-differs",
    title="The program sets memory growth for some of its GPUs only",
    cause="TensorFlow takes one setting for all GPUs that it uses",
    fixes=(
        Fix(  # https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth
            "Set it for every GPU, before all else: for gpu in tf.config.list_physical_devices('GPU'): "
            "tf.config.experimental.set_memory_growth(gpu, True); or set TF_FORCE_GPU_ALLOW_GROWTH=true before the "
            "program starts"
        ),
    ),
    answers=True,
)


@RUN_FAILED.sign()
def later_phase_cut_short(context: Context, phases: Phases) -> Problem | None:
    """A phase after the import had less time than it may need."""
    phase = next((one for one in phases if one.name in _LATER and was_cut_short(one)), None)
    if phase is None:
        return None
    return Problem(
        title=f"The phase {phase.name} was not finished in {phase.seconds or 0:.0f} s",
        cause="the time limit of this run was shorter than the phase may take; what follows it is unknown",
        evidence=(evidence(how_it_ended(phase), "the child process"),),
        fixes=(Fix("Allow more time", (context.remedies.doctor(),)),),
        severity=Severity.NOTE,
    )


_SMALL_BATCH = 64
_NARROW = 256  # neurons of a layer; a product of that width takes a GPU some microseconds
_SECONDS = {"m": 60.0, "h": 3600.0, "s": 1.0}
_NO_FASTER = 0.8  # of the CPU's time

_BUSY = 80  # percent; below that, low clocks are how an idle GPU saves power
_LOW = 0.6  # of the highest clock; a GPU at its power limit stays above, but for small ones
_EXPECTED = {"sw_power_cap", "gpu_idle"}  # a GPU at its power limit is built that way; heat is gpu.throttled


def _seconds(message: Message, device: str) -> float:
    unit = message.values[f"{device}_unit"].lower()
    return float(message.values[device]) * (1e-3 if unit.startswith(("ms", "milli")) else _SECONDS[unit[0]])


def _no_faster(log: MessageLog) -> tuple[Message, ...]:
    """Times of both devices, when the GPU's is no better."""
    times = log.all("time-on-both")
    return tuple(m for m in times if _seconds(m, "gpu") >= _NO_FASTER * _seconds(m, "cpu"))


def _small(log: MessageLog) -> tuple[Message, ...]:
    """What makes the work of a step small whatever feeds it: steps that follow one another, narrow layers."""
    narrow = [m for m in log.all("small-model") if int(m.values.get("width", "0")) <= _NARROW]
    wide = any(int(v) > _NARROW for v in log.values("small-model", "width"))
    return (*log.all("no-cudnn-kernel"), *(m for m in narrow if "layer" in m.values or not wide))


def _batches(log: MessageLog) -> tuple[Message, ...]:
    return tuple(m for m in log.all("small-batch") if 0 < int(m.values["size"]) <= _SMALL_BATCH)


def _idles_for_small_work(log: MessageLog) -> bool:
    """A GPU with little load where nothing speaks of the input, and something of small work."""
    feeding = log.has("input-bottleneck", "cpu-busy", "input-bound-said")
    return log.has("low-utilization") and not feeding and bool(_small(log) or _batches(log))


# https://devblogs.microsoft.com/directx/gpus-in-the-task-manager
_NOT_IN_TASK_MANAGER = Fix(
    "To decide, see whether it idles at all: the graphs 3D, Copy and Video of Windows' Task Manager leave CUDA's load "
    "out; its graph Cuda shows it, and so does GPU-Util of",
    ("nvidia-smi",),
)


def _looked_at(context: Context) -> tuple[Fix, ...]:
    """On Windows, where the load of a GPU was read."""
    is_low = context.remedies.os == "windows" and context.log.has("low-utilization")
    return (_NOT_IN_TASK_MANAGER,) if is_low else ()


# by what holds the input up
_FEED = {
    "network": "Copy the data to the local disk first, as one archive (in Colab to /content), and read it there",
    "CPU": "Start no more loader processes or threads than the CPU has cores; decode and resize once beforehand, cache "
    "what is read again, and augment in layers of the model, on the GPU",
    "": "Prepare batches in parallel and ahead (Dataset.map with num_parallel_calls, prefetch), not in a Python "
    "generator; decode once, and cache what is read again",
}


def _limit(log: MessageLog) -> str:
    return "network" if log.values("input-bottleneck", "remote") else "CPU" if log.has("cpu-busy") else ""


INPUT_BOUND = finding(
    "perf.input-bound",
    layer="Compute",
    severity=Severity.WARNING,
    title="The GPU waits for its input",
    docs="https://www.tensorflow.org/guide/data_performance",
    cause="reading, decoding and augmenting on the CPU take longer than the step on the GPU",
    fixes=lambda context: (
        *_looked_at(context),
        Fix(_FEED[_limit(context.log)]),
        Fix(
            "To decide, measure: where training is faster with its data on the device than fed by the pipeline, the "
            "input is what it waits for; it names the fastest options, too",
            ("tfgpu bench input",),
        ),
        Fix("See where the time is spent: the TensorFlow profiler's analyser", ("tensorboard --logdir logs",)),
    ),
)


@INPUT_BOUND.sign(unless=("gpu.usage-unknown", "gpu.several", "gpu.arch-too-old"))
def input_bound(messages: MessageLog) -> Problem | None:
    """Low utilisation beside an input pipeline that works on the CPU."""
    feeding, low = messages.all("input-bottleneck"), messages.all("low-utilization")
    slow = (*messages.all("slow"), *_no_faster(messages))
    profiled = messages.all("input-bound-said")
    nothing_idles = not profiled and not (feeding and (slow or low)) and (slow or not low)
    if nothing_idles or messages.has("other-framework", "no-gpu-listed"):
        return None
    small = _idles_for_small_work(messages) or bool(slow and _small(messages))
    return Problem(
        possible=not profiled and (small or not (feeding or messages.has("cpu-busy"))),
        evidence=message_evidence(*profiled, *slow, *low, *feeding, *messages.all("cpu-busy")),
        sure=bool(profiled),
    )


_AS_FAST = "A model that stays small is as fast on the CPU"
# by the kind of the work
_MORE_AT_A_TIME = {
    "serving": "Send several inputs in one request, or start the server with --enable_batching=true and send several "
    f"requests at once; leave the first ones, which prepare the GPU, out of the measurement. {_AS_FAST}",
    "layer": "Use cuDNN's kernels: in TensorFlow 2 keras.layers.LSTM and GRU with default arguments, in TensorFlow 1 "
    "CuDNNLSTM and CuDNNGRU; and a larger batch, or shorter sequences. Other ones are as fast on the CPU",
    "agent": f"Run several environments, which compute on the CPU, at once, and train on larger batches. {_AS_FAST}",
    "program": f"Give the GPU several inputs in each call; leave the first call out of the measurement. {_AS_FAST}",
    "": "Load the model once, and give the GPU more at a time: a larger batch; in a loop model(x) or predict_on_batch "
    f"instead of predict(). {_AS_FAST}",
}
_BY_EXAMPLES = Fix(
    "Compare examples per second, and multiply the batch size by the number of GPUs; a small network gains nothing "
    "from a second one, and others may wait for the exchange of gradients"
)
_MEASURE = "To decide, measure: where {0}, it is sound, and the program gives it too little at a time"
_MEASURE_ONE = Fix(_MEASURE.format("the GPU is several times the CPU"), ("tfgpu bench cnn",))
_MEASURE_SEVERAL = Fix(_MEASURE.format("a second GPU nearly doubles the speed"), ("tfgpu bench cnn --gpus 2",))


def _more_work(context: Context) -> tuple[Fix, ...]:
    """What gives a GPU more to do, and what measures whether that is it."""
    log, small = context.log, context.log.all("small-model")
    if log.has("several-gpus-asked"):
        return _BY_EXAMPLES, _MEASURE_SEVERAL
    kind = next((name for name in ("layer", "agent") if any(name in one.values for one in small)), "")
    kind = "program" if log.has("not-python") else kind
    kind = "serving" if log.has("serving") else "layer" if log.has("no-cudnn-kernel") else kind
    return Fix(_MORE_AT_A_TIME[kind]), _MEASURE_ONE


SMALL_WORK = finding(
    "perf.small-work",
    layer="Compute",
    severity=Severity.WARNING,
    title="The work is too small for a GPU",
    symptoms=(symptoms.LOW_UTILIZATION,),
    docs="https://www.tensorflow.org/guide/gpu_performance_analysis",
    cause="each kernel takes some microseconds to start, and each step copies its data; with a small model or batch, "
    "or a recurrent layer that runs step by step, this overhead dominates",
    fixes=lambda context: (*_looked_at(context), *_more_work(context)),
)


@SMALL_WORK.sign(unless=("gpu.usage-unknown", "gpu.several", "gpu.arch-too-old"))
def small_work(messages: MessageLog) -> Problem | None:
    """The CPU is as fast, or a GPU idles, with small batches, narrow or recurrent layers."""
    slow = (*messages.all("slow"), *_no_faster(messages))
    small, idles = _small(messages), _idles_for_small_work(messages)
    if messages.has("low-clocks", "other-framework") or not (slow or idles or messages.has("no-cudnn-kernel")):
        return None
    if messages.has("input-bottleneck") and not small:
        return None
    low, batches = messages.all("low-utilization") if idles else (), _batches(messages)
    return Problem(
        possible=not (small or batches),  # somebody is dissatisfied, and tells nothing of the work
        evidence=message_evidence(*slow, *low, *small, *batches),
    )


LOW_CLOCKS = finding(
    "perf.low-clocks",
    layer="Compute",
    severity=Severity.WARNING,
    title="A busy GPU runs at low clocks",
    explained_by=("gpu.throttled",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
    cause="the clocks have been locked, or the driver or a laptop's power profile keeps the GPU in a low-power state",
    fixes=lambda _: (
        Fix("Reset the clocks, so that the driver controls them", ("sudo nvidia-smi --reset-gpu-clocks",)),
        Fix("Watch the clocks and their limiting reasons under load", ("nvidia-smi -q -d CLOCK,PERFORMANCE,POWER",)),
    ),
)


@LOW_CLOCKS.sign(conclusive=False)
def low_under_load(context: Context, gpus: Gpus) -> Problem | None:
    """The SM clock is far below the highest while the GPU is busy and not at its power limit."""
    found = []
    for gpu in gpus:
        clock, most = value_or(gpu.sm_clock, None), value_or(gpu.sm_clock_max, None)
        load, reasons = value_or(gpu.utilization, 0), value_or(gpu.throttle_reasons, ())
        if clock and most and load >= _BUSY and clock < _LOW * most and _EXPECTED.isdisjoint(reasons):
            text = f"{gpu_name(gpu)}: {clock} MHz, {load} % busy; reasons: {', '.join(reasons) or 'none'}"
            found.append(evidence(text, context.source("gpus"), f"up to {most} MHz"))
    return Problem(evidence=tuple(found))


LOW_CLOCKS.printed("low-clocks", unless=("gpu.throttled",))
