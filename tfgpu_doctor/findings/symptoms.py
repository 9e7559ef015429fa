"""What several findings would explain, and how common each cause is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tfgpu_doctor.facts.facts import Gpus, Message, lists_gpu
from tfgpu_doctor.facts.versions import at_least
from tfgpu_doctor.findings.declaration import MessageLog
from tfgpu_doctor.findings.inputs import Cards, Devices, Toolkits, libcuda_not_opened, ran
from tfgpu_doctor.findings.libraries import ReportedCuda, ReportedCudnn
from tfgpu_doctor.matrix.loader import Release

# ----------------------------------------------------------------------------------------------------------------------
# Symptoms that several findings would explain: what a text shows, and leaves open.
# A finding names the symptoms that it would explain. The engine says that it is possible where one of them is seen and
# nothing rules the finding out; what to run to decide follows from the facts that it lacks.


Messages = tuple[Message, ...]
_UNNAMED_DLL = ("dll-load-failed", "native-traceback", "msvc-missing")
_OF_CUDA = re.compile(r"(?:.*/)?(?:lib)?(?:cu|nv)")
AMPERE = (8, 0)  # the first that the CUDA 10 of TensorFlow 1.13 to 2.3 does not know
# whoever has these has no question about CUDA's libraries or the driver
_NO_GPU_SIDE = ("gpu.none", "tf.cpu-build", "tf.windows-native", "driver.version-mismatch")


@dataclass(frozen=True)
class Symptom:
    """What is seen, by the messages that show it; its inputs are bound by name, as those of a sign."""

    because: str  # why several causes look the same here
    seen: Callable[..., Messages]
    explained_by: tuple[str, ...] = _NO_GPU_SIDE  # findings that leave nothing open

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what it is seen in; all but `messages` may be unknown."""
        return self.seen.__code__.co_varnames[: self.seen.__code__.co_argcount]


def _cuda_not_opened(reported_cuda: ReportedCuda | None) -> Messages:
    """Lines about CUDA's libraries, in a text that names no CUDA."""
    if reported_cuda is None or reported_cuda.installed:
        return ()
    return (*(message for _, message in reported_cuda.not_opened), *reported_cuda.unnamed)


def _cudnn_not_opened(reported_cudnn: ReportedCudnn | None) -> Messages:
    """Lines about cuDNN's main library, in a text that names no cuDNN."""
    return () if reported_cudnn is None or reported_cudnn.installed else reported_cudnn.not_opened


def _unnamed_dll(messages: MessageLog, release: Release | None) -> Messages:
    """A refusal that names no library of CUDA, where this may be a build with it; nor another library."""
    if any(map(ran, messages.all("dll-load-failed"))):
        return ()
    if any(not _OF_CUDA.match(name) for name, _ in messages.libraries("loader-error")):
        return ()
    return messages.all(*_UNNAMED_DLL) if release is None or release.gpu else ()


def _no_device(messages: MessageLog, gpus: Gpus | None) -> Messages:
    """CUDA finds no device, or the driver's library cannot be opened, in a text that shows no GPU."""
    if gpus or messages.has("cudnn-loaded"):  # in another run, that is
        return ()
    return messages.all("no-cuda-device", "libcuda-not-loaded", "no-device-node") or libcuda_not_opened(messages)


def _old_driver(messages: MessageLog) -> Messages:
    failed = (m for m in messages.all("cuinit-failed") if m.values.get("status") == "initialization error")
    return (*messages.all("possibly-old-driver"), *failed)


def _no_memory_for_a_handle(messages: MessageLog) -> Messages:
    handles = messages.all("cublas-handle", "cudnn-handle", "cudnn-status")
    words = r"ALLOC|NOT_INIT|launch failed|not initialized|allocation failed"
    return tuple(m for m in handles if re.search(words, m.text))


def failed_launches(messages: MessageLog) -> Messages:
    """Return the lines in which cuBLAS exists and its kernels do not start."""
    return tuple(m for m in messages.all("cublas-handle") if re.search(r"EXECUTION_FAILED|launch failed", m.text))


def _no_kernels_in_cublas(
    messages: MessageLog, gpu_release: Release | None, toolkits: Toolkits | None, cards: Cards | None
) -> Messages:
    known = any(at_least(kit.version, "11") is not False for kit in toolkits or ())  # a CUDA that has them
    if gpu_release is not None or known or not any(card.version >= AMPERE for card in cards or ()):
        return ()
    return failed_launches(messages)


_SAME_MESSAGE = "the message is the same for a library that is missing, of another version, or not on the loader path"
_SAME_ANSWER = "CUDA returns the same error for a hidden GPU, a missing one, and one that the driver does not support"
_HANDLE = "a handle that cannot be created mostly means that no memory is left"

CUDA_NOT_OPENED = Symptom(_SAME_MESSAGE, _cuda_not_opened)
CUDNN_NOT_OPENED = Symptom(_SAME_MESSAGE, _cudnn_not_opened)
CUDNN_HANDLE = Symptom(_SAME_MESSAGE, lambda messages: messages.all("cudnn-handle", "no-dnn-library"))
UNNAMED_DLL = Symptom(_SAME_MESSAGE, _unnamed_dll)
# WSL2 has neither a kernel module nor a PCI bus to look at
NO_DEVICE = Symptom(_SAME_ANSWER, _no_device, (*_NO_GPU_SIDE, "wsl.setup"))
NO_DEVICE_NODE = Symptom(
    _SAME_ANSWER,
    lambda messages: () if messages.has("cudnn-loaded") else messages.all("no-cuda-device", "no-device-node"),
)
OLD_DRIVER = Symptom("an old driver is one of several reasons why CUDA, or cuDNN, cannot start", _old_driver)
NO_MEMORY_FOR_A_HANDLE = Symptom(_HANDLE, _no_memory_for_a_handle)
# cuda_fft.cc takes the workspace of a plan from TensorFlow's own allocator
NO_WORKSPACE = Symptom(
    "a plan of cuFFT that cannot be made mostly means that no memory is left for its workspace",
    lambda messages: tuple(m for m in messages.all("cufft-failed") if "allocator" in m.text),
)
NO_KERNELS_IN_CUBLAS = Symptom(
    "cuBLAS fails like this when it has no kernels for the GPU, and the text does not name its CUDA version",
    _no_kernels_in_cublas,
)
NO_TENSORFLOW_MODULE = Symptom(
    "the program, pip and the terminal may each use another Python",
    lambda messages: tuple(m for m in messages.all("module-not-found") if m.values.get("module") == "tensorflow"),
)
NO_ATTRIBUTE = Symptom(
    "a TensorFlow that was removed in part lacks its attributes, too",
    lambda messages: () if messages.has("of-tensorflow-1") else messages.all("no-attribute"),
    (*_NO_GPU_SIDE, "tf.run-failed"),
)
NCCL_SYSTEM_ERROR = Symptom(
    'NCCL answers "unhandled system error" when it gets no shared memory, as in a container',
    lambda messages: tuple(m for m in messages.all("nccl-error", "nccl-warning") if "system error" in m.text),
)
_OTHERWISE_IDLE = ("slow", "other-framework", "no-gpu-listed", "cpu-busy")  # what they say speaks of another cause
LOW_UTILIZATION = Symptom(
    "an idle GPU waits for its input, or gets too little work at a time",
    lambda messages: () if messages.has(*_OTHERWISE_IDLE) else messages.all("low-utilization"),
    ("perf.input-bound", "gpu.usage-unknown", "gpu.several", "gpu.arch-too-old"),
)


# ----------------------------------------------------------------------------------------------------------------------
# Findings that say what is seen, and the situation that a text tells of.


# findings whose fixes are for any cause
WITHOUT_CAUSE = ("gpu.not-visible", "gpu.fewer-than-required", "tf.import-failed", "tf.run-failed")
# findings that say what is seen, and not why
SYMPTOMS = (*WITHOUT_CAUSE, "tf.known-bug", "benign.log")
_OF_IMPORTS = ("ImportError", "ModuleNotFoundError")


def situation(log: MessageLog, devices: Devices | None) -> tuple[str, Message] | None:
    """What goes wrong, and the message that tells; None where nothing does, as far as the text tells."""
    if log.has("own-finding") or (log.has("gpu-created") and not log.has("exception", "traceback", "aborted")):
        return None
    return next(((name, message) for name, message in _situations(log, devices) if message), None)


def trouble(log: MessageLog) -> tuple[str, Message] | None:
    """That something goes wrong, where a text tells nothing more of it."""
    said = log.first("trouble-said")
    return ("fails", said) if said and not log.has("own-finding", "gpu-created") else None


def nothing_fails(log: MessageLog, devices: Devices | None) -> bool:
    """Whether no program reports a failure and nobody tells of one, so that a question is all there is."""
    return not log.complains and situation(log, devices) is None


def _situations(log: MessageLog, devices: Devices | None) -> Iterator[tuple[str, Message | None]]:
    """Each situation, in the order in which they are asked for, with the message that shows it."""
    lists_none = devices is not None and not lists_gpu(devices)
    last = log.messages[-1] if log.messages else None
    slow = log.first("slow", "time-on-both", "low-utilization")
    if not log.complains:
        yield "hangs", None if lists_none else log.first("job-hangs")
        yield "slow", slow
    yield "import", last if _import_fails(log) else None
    yield "no GPU", (log.first("no-gpu-listed") or last) if lists_none else log.first("gpu-fails-said")
    yield "slow", slow
    yield "fails", log.first("failure-said") or (last if log.complains else None)


def _import_fails(log: MessageLog) -> bool:
    """Whether the import ends in a crash, or in a traceback, be its last line, which says why, there or not."""
    dies = log.has("native-runtime-failed") or (log.has("import-line") and log.has("segmentation-fault"))
    is_cut = log.has("import-line") and log.has("traceback") and not (log.complains or log.has("exception"))
    named = any(kind in _OF_IMPORTS for kind in log.values("exception", "type"))
    said = log.has("import-fails-said") and not log.complains
    return dies or log.stops_import or is_cut or said or (named and not log.complains)
