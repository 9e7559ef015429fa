"""How two machines differ, in people's words, grouped by what somebody would have changed. Pure.

A difference has the places at which it can be undone. Differences that one act brings about share a group: a new
driver is a version, files and answers; an unset LD_LIBRARY_PATH is a variable and the libraries that it led to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from msgspec import Struct

from tfgpu_doctor.compare.places import Place, elements
from tfgpu_doctor.compare.records import Status
from tfgpu_doctor.compare.words import NEGATIVE, arrow, described
from tfgpu_doctor.records.facts import Facts, Known, Record, Unknown, look_up, value_or

# state: what somebody can change; observation: what was seen when trying; noise: what differs from minute to minute
Grade = Literal["state", "observation", "noise"]


@dataclass(frozen=True)
class Difference:
    """One thing that differs, and where."""

    id: str
    layer: str
    text: str
    good: str | None
    bad: str | None
    status: Status
    grade: Grade
    group: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Field:
    """How one scalar fact is told."""

    label: str
    layer: str
    grade: Grade = "state"
    group: str | None = None


_DRIVER = "driver"
_PYTHON = "interpreter"
FIELDS: dict[str, Field] = {
    "host.os": Field("operating system", "Machine", group="system"),
    "host.machine": Field("architecture", "Machine", group="system"),
    "host.distribution": Field("distribution", "Machine", group="system"),
    "host.distribution_id": Field("distribution", "Machine", "noise", "system"),
    "host.distribution_version": Field("distribution", "Machine", "noise", "system"),
    "host.kernel": Field("kernel", "Machine"),
    "host.libc": Field("C library", "Machine"),
    "host.cpu_model": Field("CPU", "Machine"),
    "host.cpu_flags": Field("CPU flags", "Machine"),
    "host.cpus": Field("CPUs for this process", "Machine"),
    "host.cpu_quota": Field("CPU limit of the container", "Machine"),
    "host.memory": Field("memory", "Machine"),
    "host.memory_limit": Field("memory limit of the container", "Machine"),
    "host.shm": Field("/dev/shm", "Machine"),
    "host.container": Field("container", "Machine"),
    "host.nouveau_loaded": Field("nouveau loaded", "Driver"),
    "host.secure_boot": Field("Secure Boot", "Driver"),
    "host.dxg_device": Field("/dev/dxg", "GPU"),
    "driver.version": Field("driver", "Driver", group=_DRIVER),
    "driver.cuda_supported": Field("newest CUDA that the driver supports", "Driver", group=_DRIVER),
    "driver.kernel_module": Field("kernel module", "Driver", group=_DRIVER),
    "driver.kernel_module_loaded": Field("kernel module loaded", "Driver", group=_DRIVER),
    "driver.kernel_module_kind": Field("kind of kernel module", "Driver", group=_DRIVER),
    "driver.kernel_module_on_disk": Field("kernel modules on disk", "Driver", group=_DRIVER),
    "driver.device_nodes": Field("device nodes", "Driver", group=_DRIVER),
    "driver.libcuda": Field("libcuda.so.1", "Driver", group=_DRIVER),
    "driver.libnvidia_ml": Field("libnvidia-ml.so.1", "Driver", group=_DRIVER),
    "driver.nvml_init": Field("NVML answers", "Driver", "observation", _DRIVER),
    "driver.cuda_init": Field("cuInit answers", "Driver", "observation", _DRIVER),
    "driver.cuda_device_count": Field("GPUs that CUDA counts", "Driver", "observation", _DRIVER),
    "driver.nvidia_smi": Field("nvidia-smi", "Driver", "noise", _DRIVER),
    "driver.unresponsive": Field("calls without an answer", "Driver", "observation", _DRIVER),
    "driver.xid_events": Field("Xid events", "Driver", "observation", "xid"),
    "peers": Field("links between GPUs", "GPU", "noise"),
    "cuda.nvcc": Field("nvcc", "CUDA"),
    "loader.search_path": Field("LD_LIBRARY_PATH of the interpreter", "CUDA", "noise", "variables.LD_LIBRARY_PATH"),
    "loader.runpath": Field("RUNPATH of TensorFlow", "CUDA", "noise", "tensorflow"),
    "loader.loaded": Field("libraries loaded", "CUDA", "noise"),
    "cudnn.runtime": Field("cuDNN loaded", "cuDNN", "observation", "cudnn"),
    "cudnn.header": Field("cudnn_version.h", "cuDNN", group="cudnn"),
    "python.version": Field("Python", "Python", group=_PYTHON),
    "python.executable": Field("interpreter", "Python", group=_PYTHON),
    "python.implementation": Field("implementation", "Python", group=_PYTHON),
    "python.bits": Field("bits", "Python", group=_PYTHON),
    "python.prefix": Field("environment folder", "Python", "noise", _PYTHON),
    "python.environment": Field("kind of environment", "Python", group=_PYTHON),
    "python.conda_name": Field("conda environment", "Python", group=_PYTHON),
    "python.externally_managed": Field("managed by the distribution", "Python", group=_PYTHON),
    "python.user_site": Field("user's own site-packages", "Python"),
    "python.pip": Field("pip", "Python"),
    "python.installers": Field("installers on PATH", "Python"),
    "python.tensorflow_paths": Field("`import tensorflow` finds", "Python"),
    "python.tensorflow_leftovers": Field("leftover tensorflow folders", "Python"),
    "python.wheel_platform": Field("platform of wheels", "Python", group="system"),
    "tensorflow.version": Field("TensorFlow", "TensorFlow", group="tensorflow"),
    "tensorflow.distribution": Field("distribution of TensorFlow", "TensorFlow", group="tensorflow"),
    "tensorflow.file": Field("tf.__file__", "TensorFlow", "noise", "tensorflow"),
    "tensorflow.build": Field("built for", "TensorFlow", group="tensorflow"),
    "tensorflow.devices": Field("TensorFlow lists", "Devices", "observation"),
    "tensorflow.checks": Field("computations", "Compute", "observation"),
    "tensorflow.log": Field("TensorFlow's log", "TensorFlow", "noise"),
    "messages": Field("messages", "TensorFlow", "noise"),
}
# collections that compare_collections.py tells element by element
COLLECTIONS = frozenset(
    {
        *("gpus", "host.pci_gpus", "cuda.toolkits", "cuda.conda_packages", "loader.sonames", "cudnn.installed"),
        *("python.packages", "variables", "tensorflow.phases", "messages"),
    }
)
_CUDNN_PACKAGES = ("python.packages.nvidia-cudnn", "cuda.conda_packages.cudnn")
_LAYERS = {"host": "Machine", "driver": "Driver", "cuda": "CUDA", "loader": "CUDA", "cudnn": "cuDNN"}
_LAYERS |= {"python": "Python", "tensorflow": "TensorFlow"}


def fact_paths() -> Iterator[str]:
    """Every fact of Facts by its path; one that nobody has described yet is told by its own name."""
    empty = Facts()
    for name in Facts.__struct_fields__:
        record = getattr(empty, name)
        if isinstance(record, Record) and isinstance(record, Struct):
            yield from (f"{name}.{field}" for field in record.__struct_fields__)
        else:
            yield name


def field_of(path: str) -> Field:
    """How the fact at `path` is told."""
    top, _, last = path.partition(".")
    return FIELDS.get(path) or Field((last or top).replace("_", " "), _LAYERS.get(top, "TensorFlow"))


def scalars(good: Facts, bad: Facts) -> Iterator[Difference]:
    """The differences of all facts that are no collections."""
    for path in fact_paths():
        if path not in COLLECTIONS:
            difference = _scalar(path, good, bad)
            if difference is not None:
                yield difference


def _scalar(path: str, good: Facts, bad: Facts) -> Difference | None:
    field = field_of(path)
    one, other = look_up(good, path), look_up(bad, path)
    texts = [_told(path, fact) for fact in (one, other)]
    status = status_of(one, other)
    if path == "driver.version" and status in ("lost", "unexamined"):
        without = bad if status == "lost" else good
        status = "changed" if value_or(without.driver.libcuda, None) == () else status
    if status is None or (status == "changed" and texts[0] == texts[1]):
        return None
    grade = field.grade
    if path == "host.memory" and _nearly(one, other):
        grade = "noise"
    text = arrow(field.label, *texts) if status == "changed" else f"{field.label}: {texts[0] or texts[1]}"
    before, after = texts
    return Difference(path, field.layer, text, before, after, status, grade, field.group or path, (Place(path),))


def _told(path: str, fact: Any) -> str | None:
    if isinstance(fact, Unknown):
        return NEGATIVE.get(fact.reason.partition(":")[0])
    return described(path, fact.value if isinstance(fact, Known) else fact)


def status_of(good: Any, bad: Any) -> Status | None:
    """How a fact differs; None when it does not, or neither is known."""
    known = [not isinstance(fact, Unknown) or fact.reason.partition(":")[0] in NEGATIVE for fact in (good, bad)]
    if known == [True, True]:
        same = getattr(good, "value", None) == getattr(bad, "value", None)
        return None if same and type(good) is type(bad) else "changed"
    if known == [False, False]:
        return None
    return "lost" if known[0] else "unexamined"


def _nearly(one: Any, other: Any) -> bool:
    """Kernels reserve a little more or less."""
    if not (isinstance(one, Known) and isinstance(other, Known)):
        return False
    return bool(abs(one.value - other.value) < 0.03 * max(one.value, other.value))


def settled(differences: Iterable[Difference]) -> list[Difference]:
    """Say one thing once, and put together what one act brought about.

    A release is told by its package. What `import tensorflow` finds goes with the package, or with PYTHONPATH; the
    cuDNN that was loaded goes with whatever changed the file.
    """
    found = list(differences)
    folders = [one.good or "" for one in found if one.id == "variables.PYTHONPATH"]
    folders += [one.bad or "" for one in found if one.id == "variables.PYTHONPATH"]
    packages = [one for one in found if one.group == "tensorflow" and one.id.startswith("python.packages.")]
    versions = {(one.good, one.bad) for one in packages}
    moved = any(one.status in ("added", "removed") for one in packages)
    cudnn = next((one.group for one in found if one.id.startswith(_CUDNN_PACKAGES)), None) or next(
        (one.group for one in found if one.id.startswith("loader.sonames.libcudnn")), "cudnn"
    )
    for number, one in enumerate(found):
        if one.id == "python.tensorflow_paths" and _any_below(f"{one.good}, {one.bad}", folders):
            found[number] = replace(one, group="variables.PYTHONPATH")
        elif moved and one.id.startswith("python.tensorflow_"):
            found[number] = replace(one, group="tensorflow")
        elif one.id == "tensorflow.version" and (one.good, one.bad) in versions:
            found[number] = replace(one, grade="noise")
        elif one.group == "cudnn":
            found[number] = replace(one, group=cudnn)
    return found


def _any_below(files: str, folders: list[str]) -> bool:
    """Whether one of the files lies in a folder of a search path."""
    wanted = [one.rstrip("/\\") for path in folders for one in re.split(r"[:;]", path) if one]
    return any(file.startswith((f"{one}/", f"{one}\\")) for file in files.split(", ") for one in wanted)


def pairs(good: Facts, bad: Facts, path: str) -> Iterator[tuple[str, Any, Any]]:
    """(name, element in good, element in bad) of a collection that both know; None where it is absent."""
    ours, theirs = elements(good, path), elements(bad, path)
    if ours is None or theirs is None:
        return
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name):
            yield name, ours.get(name), theirs.get(name)
