"""What is known about one machine, one Python environment and one TensorFlow.

Every leaf is a :data:`Fact`: either :class:`Known`, a value with the place it was read from, or
:class:`Unknown`, with the reason why it could not be determined. Probes, parsers of pasted text and
saved reports all produce the same :class:`Facts`; the signs of findings cannot tell which.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from tfgpu_doctor.records.about import About, described, inner_records, private
from tfgpu_doctor.records.fact import (
    NOT_ASKED,
    NOT_EXAMINED,
    NOT_IN_TEXT,
    Fact,
    Known,
    Record,
    Unknown,
    map_fact,
    value_or,
)
from tfgpu_doctor.records.machine import (
    CallResult,
    Driver,
    Gpu,
    GpuProcess,
    Host,
    LibraryFile,
    Limit,
    NvLink,
    PciGpu,
    PeerLink,
    Setting,
    SmiResult,
    TemporaryFolder,
)
from tfgpu_doctor.records.software import (
    Build,
    Candidate,
    ComputeCheck,
    Cuda,
    Cudnn,
    CudnnFile,
    DamagedPackage,
    FailingFile,
    Kernel,
    Loader,
    Message,
    Nvcc,
    OtherPython,
    Package,
    Phase,
    Python,
    ShadowedModule,
    Soname,
    TensorFlow,
    TfDevice,
    Toolkit,
    XlaFile,
    lists_gpu,
)

__all__ = [
    "NOT_ASKED",
    "NOT_EXAMINED",
    "NOT_IN_TEXT",
    "Build",
    "CallResult",
    "Candidate",
    "ComputeCheck",
    "Cuda",
    "Cudnn",
    "CudnnFile",
    "DamagedPackage",
    "Driver",
    "Fact",
    "Facts",
    "FailingFile",
    "Gpu",
    "GpuProcess",
    "Host",
    "Kernel",
    "Known",
    "LibraryFile",
    "Limit",
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
    "Setting",
    "ShadowedModule",
    "SmiResult",
    "Soname",
    "TemporaryFolder",
    "TensorFlow",
    "TfDevice",
    "Toolkit",
    "Unknown",
    "XlaFile",
    "about",
    "fact_paths",
    "lists_gpu",
    "look_up",
    "map_fact",
    "value_or",
]  # fmt: skip


class Facts(Record, frozen=True):
    """All that was found out, from whatever source."""

    host: Annotated[Host, private("host", layer="Machine")] = Host()
    driver: Annotated[Driver, private("driver", layer="Driver", group="driver")] = Driver()
    gpus: Annotated[
        Fact[tuple[Gpu, ...]], private("GPUs", layer="GPU", group="gpus", key="index", element="GPU {}")
    ] = NOT_EXAMINED
    peers: Annotated[
        Fact[tuple[PeerLink, ...]], private("links between GPUs", layer="GPU", unit="links", grade="noise")
    ] = NOT_EXAMINED
    cuda: Annotated[Cuda, private("CUDA", layer="CUDA")] = Cuda()
    loader: Annotated[Loader, private("loader", layer="CUDA")] = Loader()
    cudnn: Annotated[Cudnn, private("cuDNN", layer="cuDNN", group="cudnn")] = Cudnn()
    python: Annotated[Python, private("Python", layer="Python")] = Python()
    # environment variables that matter, as the interpreter under test gets them
    variables: Annotated[
        Fact[dict[str, str]], private("environment variables", layer="Python", key="name", element="{}:")
    ] = NOT_EXAMINED
    tensorflow: Annotated[TensorFlow, private("TensorFlow", layer="TensorFlow")] = TensorFlow()
    # what TensorFlow and the tools around it were seen to print
    messages: Annotated[
        Fact[tuple[Message, ...]], private("messages", layer="TensorFlow", grade="observation", key="kind")
    ] = NOT_EXAMINED


def look_up(facts: Facts, path: str) -> Any:
    """Return the fact or plain value at a dotted path such as ``"driver.nvml_init"``.

    Raises AttributeError: the path names no field.
    """
    here: Any = facts
    for name in path.split("."):
        here = getattr(here, name)
    return here


def fact_paths() -> tuple[str, ...]:
    """The paths of all facts, in the order of their declarations."""
    parts = {name: getattr(Facts(), name) for name in Facts.__struct_fields__}
    fields = {name: part.__struct_fields__ if isinstance(part, Record) else ("",) for name, part in parts.items()}
    return tuple(f"{name}.{field}".rstrip(".") for name in fields for field in fields[name])


@cache
def about(path: str) -> About:
    """The description of the field at a dotted path: "driver.version"; of a GPU "gpus.temperature".

    Raises KeyError: no field is described there.
    """
    record: type = Facts
    found = About("", is_public=False)
    for name in path.split("."):
        above, found = found, described(record)[name]
        found = found._replace(layer=found.layer or above.layer, group=found.group or above.group)
        record = inner_records(record).get(name, record)
    return found
