"""What messages show of a GPU's memory: allocations that failed, and who else holds it."""

from __future__ import annotations

import re
from itertools import pairwise

from tfgpu_doctor.findings.message_log import MessageLog
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.units import GIB, KIB, MIB, TIB

_UNITS = {"B": 1, "K": KIB, "M": MIB, "G": GIB, "T": TIB}
FREE = 0.5  # share of a GPU's memory; when less is free as TensorFlow starts, another process uses the rest
_LEAST = 700  # MB; TensorFlow takes nearly all that is free, and the smallest GPU of its builds has 2 GB
_OF_GIGABYTES = re.compile(r"failed to allocate [\d.]+ ?G")


def _bytes(text: str | None) -> float | None:
    """Bytes of "11.90GiB", "381.44MiB", "3.98G" or a plain number."""
    match = re.match(r"(\d+(?:\.\d*)?|\.\d+) ?([KMGT]?)i?B?", (text or "").strip(), re.IGNORECASE)
    return float(match[1]) * _UNITS[match[2].upper() or "B"] if match else None


def _is_refused(message: Message) -> bool:
    return "ALLOC_FAILED" in message.text


def _is_of_handle(message: Message) -> bool:
    return re.search(r"create (?:cudnn|cublas) handle", message.text, re.IGNORECASE) is not None


def failed(log: MessageLog) -> tuple[Message, ...]:
    """Allocations that failed, but for those of a handle, which needs only a few MB."""
    memory = log.all("out-of-memory", "dst-not-initialized")
    refused = (m for m in log.all("cublas-handle", "cudnn-status") if _is_refused(m))
    return tuple(m for m in (*memory, *refused) if not _is_of_handle(m))


def _little_free(log: MessageLog) -> list[Message]:
    """Lines by which TensorFlow found less than half of the memory free, or nearly none, when it started."""
    found = []
    totals = [size for text in log.values("memory-total", "total") if (size := _bytes(text))]
    for message in log.all("memory-left"):
        values = message.values
        free = _bytes(values.get("free") or values.get("left"))
        total = _bytes(values.get("total") or values.get("all")) or (totals[0] if totals else None)
        if free is not None and total and free < total * FREE:
            found.append(message)
    found += [m for m in log.all("allocator-limit") if int(m.values["limit"]) < 128 * MIB]
    return [*found, *(m for m in log.all("memory-left") if int(m.values.get("kept", _LEAST)) < _LEAST)]


def _owner(message: Message) -> str:
    return next((v for k in ("pid", "rank", "of", "service") if (v := message.values.get(k))), "")


def _of_another_process(log: MessageLog) -> list[Message]:
    """A process created a device on a GPU; another process, with the same GPU or none, failed."""
    created = [m for m in log.all("memory-left") if _owner(m) and "bus" in m.values]
    for failure in log.all("failure-of-process"):
        own = {m.values["bus"] for m in created if _owner(m) == _owner(failure)}
        others = [m for m in created if _owner(m) != _owner(failure) and (not own or m.values["bus"] in own)]
        if others:
            return [others[0], failure]
    return []


def _beside_pytorch(log: MessageLog) -> list[Message]:
    """PyTorch is refused memory of which neither it nor anybody it knows of holds most: TensorFlow does, or another."""
    found = []
    for message in log.all("memory-of-pytorch"):
        total, free, own = (
            _bytes(next((v for k in names if (v := message.values.get(k))), None))
            for names in (("total", "capacity"), ("free", "left"), ("own", "allocated"))
        )
        if total and free is not None and own is not None and total - free - own > total * FREE:
            found.append(message)
    return found


def _of_several(log: MessageLog) -> list[Message]:
    """Several processes on one GPU are refused the gigabytes that each of them asks for at its start."""
    owners = {_owner(m): m for m in log.all("failure-of-process") if _OF_GIGABYTES.search(m.text)}
    return list(owners.values())[:2] if len(owners) > 1 and not log.has("gpu-created") else []


def another_holder(log: MessageLog) -> list[Message]:
    """Lines that show that another process uses the memory."""
    found = [*_little_free(log)]
    found += [
        m
        for m in log.all("cuinit-failed", "out-of-memory")
        if "context" in m.values or re.search(r"implicit initialization|primary context|PrimaryCtxRetain", m.text)
    ]
    found += [
        *log.all("devices-busy"),
        *_beside_pytorch(log),
        *_of_another_process(log),
        *_of_several(log),
        *log.all("other-holder"),
    ]
    if not failed(log):  # no tensor was refused, but a handle was: nothing at all is left
        found += [m for m in log.all("cublas-handle") if _is_refused(m) and _is_of_handle(m)]
    return found


def is_shrinking(log: MessageLog) -> bool:
    """Whether TensorFlow asked for the whole GPU, then for less and less, as it does at its start."""
    failures = log.all("out-of-memory")
    sizes = [size for m in failures if (size := _bytes(m.values.get("size")))]
    down = all(later < earlier for earlier, later in pairwise(sizes))
    return len(sizes) >= 2 and down and sizes[0] > GIB and not any("OOM when" in m.text for m in failures)
