"""Values of facts in few words, for lines such as "driver 535.113.01 → 550.54". Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.findings.libraries import in_the_way, state
from tfgpu_doctor.records.facts import (
    Build,
    CallResult,
    ComputeCheck,
    LibraryFile,
    Nvcc,
    Record,
    SmiResult,
    Soname,
    TfDevice,
)

# reasons of unknown facts that are answers: what is asked for does not exist
NEGATIVE = {
    "no limit": "none",
    "none": "none",
    "not loaded": "not loaded",
    "not on sys.path": "not on sys.path",
    "not a conda environment": "none",
}
_LONGEST = 160
_MOST = 8  # items of a collection that are named
_GIB = 2**30


def arrow(label: str, good: str | None, bad: str | None) -> str:
    """A change as one line."""
    return f"{label} {good or 'none'} → {bad or 'none'}"


def short(text: str, longest: int = _LONGEST) -> str:
    """Cut a long text in its middle."""
    if len(text) <= longest:
        return text
    half = (longest - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def described(path: str, value: Any) -> str:
    """The value of the fact at `path`."""
    special = _SPECIAL.get(path)
    if special is not None:
        return special(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return (
            ", ".join(map(_item, value[:_MOST])) + (f" and {len(value) - _MOST} more" * (len(value) > _MOST)) or "none"
        )
    return _item(value)


def _item(value: Any) -> str:
    """One value; of a record its first field, which names it, and the version or the problem where it has one."""
    if not isinstance(value, Record):
        return short(str(value))
    more = getattr(value, "problem", None) or getattr(value, "version", None)
    return str(getattr(value, value.__struct_fields__[0])) + (f" ({more})" if more else "")


def size(value: int) -> str:
    """Bytes for people."""
    return f"{value / _GIB:.3g} GiB" if value >= _GIB else f"{value / 2**20:.3g} MiB"


def _call(value: CallResult) -> str:
    return f"{value.code} ({value.name or value.message})" if value.code else "success"


def _smi(value: SmiResult) -> str:
    return "success" if value.exit_code == 0 else f"exit code {value.exit_code}"


def _nvcc(value: Nvcc) -> str:
    return f"{value.version} ({value.path})"


def _build(value: Build) -> str:
    if not value.is_cuda_build:
        return "the CPU"
    return f"CUDA {value.cuda_version or '?'}, cuDNN {value.cudnn_version or '?'}"


def _devices(value: tuple[TfDevice, ...]) -> str:
    gpus = Counter(device.device_name or "GPU" for device in value if device.kind == "GPU")
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in gpus.items()) or "no GPU"


def _checks(value: tuple[ComputeCheck, ...]) -> str:
    failed = [f"{check.kind} on {check.device}" for check in value if not check.ok]
    return f"wrong or failed: {', '.join(failed)}" if failed else f"{len(value)} verified" if value else "none made"


def _files(value: tuple[LibraryFile, ...]) -> str:
    return _item(value[0]) if value else "none"


def library(one: Soname | None) -> str:
    """How the loader fares with a library."""
    if one is None:
        return "not wanted"
    how = state(one)
    if how == "fine":
        via = next((found.via for found in one.candidates if found.path == one.winner), None)
        return f"found by {via}" if via else "found"
    blocking = next((found for found in one.candidates if in_the_way(found)), None)
    if how == "off path" and blocking:
        return f"behind {blocking.path} ({blocking.problem})"
    if how == "off path":
        return "installed, but not on the loader's path"
    if how == "unloadable":
        return f"cannot be loaded ({one.candidates[0].problem})"
    return "only another version" if how == "other version" else "absent"


def entries(label: str, good: str, bad: str) -> str:
    """How a list of folders changed; in full where that is shorter."""
    ours, theirs = good.split(":"), bad.split(":")
    gone = [one for one in ours if one not in theirs]
    new = [one for one in theirs if one not in ours]
    if not (set(ours) & set(theirs)):
        return arrow(label, short(good), short(bad))
    parts = [f"{short(':'.join(gone))} removed"] * bool(gone) + [f"{short(':'.join(new))} added"] * bool(new)
    return f"{label}: {', '.join(parts) or 'another order'}"


_SPECIAL: dict[str, Callable[[Any], str]] = {
    "host.memory": size,
    "host.memory_limit": size,
    "host.shm": size,
    "driver.libcuda": _files,
    "driver.libnvidia_ml": _files,
    "driver.nvml_init": _call,
    "driver.cuda_init": _call,
    "driver.nvidia_smi": _smi,
    "cuda.nvcc": _nvcc,
    "cudnn.header": lambda file: f"{file.version} ({file.path})",
    "tensorflow.build": _build,
    "tensorflow.devices": _devices,
    "tensorflow.checks": _checks,
    "tensorflow.log": lambda lines: f"{len(lines)} lines",
    "host.cpu_flags": lambda flags: short(" ".join(flags)),
    "peers": lambda links: f"{len(links)} links",
}
