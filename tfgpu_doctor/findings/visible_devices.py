"""What CUDA makes of CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from tfgpu_doctor.records.facts import Gpu, value_or


def visible_devices(value: str, gpus: tuple[Gpu, ...] | None) -> tuple[str, ...]:
    """The entries of CUDA_VISIBLE_DEVICES that count: those before the first invalid one.

    An index is valid below the number of GPUs (any, when that is unknown); a UUID when a GPU's starts with it.
    Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
    """
    counted: list[str] = []
    uuids = [value_or(gpu.uuid, "") for gpu in gpus or ()]
    for entry in (part.strip() for part in value.split(",")):
        if entry.startswith(("GPU-", "MIG-")):
            valid = not any(uuids) or entry.startswith("MIG-") or any(uuid.startswith(entry) for uuid in uuids)
        else:
            valid = entry.isdecimal() and (not gpus or int(entry) < len(gpus))
        if not valid:
            break
        counted.append(entry)
    return tuple(counted)
