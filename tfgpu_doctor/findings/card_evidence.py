"""The compute capability of a card as the text or the driver tells it, and its evidence."""

from __future__ import annotations

from collections.abc import Iterable

from tfgpu_doctor.findings.declaration import evidence
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Evidence
from tfgpu_doctor.records.versions import capability


def needs(gpu: Card, expected: str, source: str) -> Evidence:
    return evidence(f"{gpu.name}: compute capability {gpu.compute_capability}", gpu.source, expected, source)


def of_card(log: MessageLog, cards: tuple[Card, ...] | None) -> tuple[Evidence, ...]:
    """Where the number comes from: a line of the text, or the table of GPUs by the card's name."""
    if printed := log.all("gpu-created", "no-kernels-for-gpu", "cuda-capability"):
        return message_evidence(*printed, most=1)
    return tuple(
        evidence(f"{card.name}: compute capability {card.compute_capability}", card.source)
        for card in (cards or ())[:1]
    )


def capabilities_of(log: MessageLog, cards: tuple[Card, ...] | None) -> list[str]:
    kinds = ("gpu-created", "no-kernels-for-gpu", "cuda-capability")
    reported = [value for kind in kinds for value in log.values(kind, "capability")]
    return [*reported, *(gpu.compute_capability for gpu in cards or ())]


def one_suffices(known: Iterable[str], required: list[str]) -> bool:
    """Whether one of the known capabilities reaches one of the required ones."""
    return any(capability(one) >= capability(low) for low in required for one in known)


def required_by(ignored: tuple[Message, ...]) -> list[str]:
    """The lowest capabilities that lines ask for; a line may be cut off."""
    return [m.values[key] for m in ignored for key in ("need", "least", "floor") if m.values.get(key)]
