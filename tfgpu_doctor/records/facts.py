"""What is known about one machine, one Python environment and one TensorFlow.

Every leaf is a :data:`Fact`: either :class:`Known`, a value with the place it was read from, or
:class:`Unknown`, with the reason why it could not be determined. Probes, parsers of pasted text and
saved reports all produce the same :class:`Facts`; the rules cannot tell which.
"""

from __future__ import annotations

from typing import Any

from tfgpu_doctor.records.fact import NOT_ASKED, NOT_EXAMINED, Fact, Known, Record, Unknown, map_fact, value_or
from tfgpu_doctor.records.machine import (
    CallResult,
    Driver,
    Gpu,
    GpuProcess,
    Host,
    LibraryFile,
    NvLink,
    PciGpu,
    PeerLink,
    SmiResult,
)
from tfgpu_doctor.records.software import (
    Build,
    Candidate,
    ComputeCheck,
    Cuda,
    Cudnn,
    CudnnFile,
    Kernel,
    Loader,
    Message,
    Nvcc,
    OtherPython,
    Package,
    Phase,
    Python,
    Soname,
    TensorFlow,
    TfDevice,
    Toolkit,
    XlaFile,
)

__all__ = [
    "NOT_ASKED",
    "NOT_EXAMINED",
    "Build",
    "CallResult",
    "Candidate",
    "ComputeCheck",
    "Cuda",
    "Cudnn",
    "CudnnFile",
    "Driver",
    "Fact",
    "Facts",
    "Gpu",
    "GpuProcess",
    "Host",
    "Kernel",
    "Known",
    "LibraryFile",
    "Loader",
    "Message",
    "NvLink",
    "Nvcc",
    "OtherPython",
    "Package",
    "PciGpu",
    "PeerLink",
    "Phase",
    "Python",
    "Record",
    "SmiResult",
    "Soname",
    "TensorFlow",
    "TfDevice",
    "Toolkit",
    "Unknown",
    "XlaFile",
    "look_up",
    "map_fact",
    "value_or",
]


class Facts(Record, frozen=True):
    """All that was found out, from whatever source."""

    host: Host = Host()
    driver: Driver = Driver()
    gpus: Fact[tuple[Gpu, ...]] = NOT_EXAMINED
    peers: Fact[tuple[PeerLink, ...]] = NOT_EXAMINED
    cuda: Cuda = Cuda()
    loader: Loader = Loader()
    cudnn: Cudnn = Cudnn()
    python: Python = Python()
    variables: Fact[dict[str, str]] = NOT_EXAMINED  # environment variables that matter, as the patient gets them
    tensorflow: TensorFlow = TensorFlow()
    messages: Fact[tuple[Message, ...]] = NOT_EXAMINED  # what TensorFlow and the tools around it were seen to print


def look_up(facts: Facts, path: str) -> Any:
    """Return the fact or plain value at a dotted path such as ``"driver.nvml_init"``.

    Raises:
        AttributeError: the path names no field.
    """
    here: Any = facts
    for name in path.split("."):
        here = getattr(here, name)
    return here
