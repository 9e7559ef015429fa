"""The compute capability of a card as the text or the driver tells it, and its evidence."""

from __future__ import annotations

from tfgpu_doctor.findings.declaration import evidence
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.report import Evidence


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
