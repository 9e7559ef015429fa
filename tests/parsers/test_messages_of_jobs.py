"""Messages about memory, faults and speed: each sample is read as it should be, and each template has a sample."""

from __future__ import annotations

from tests.parsers.message_samples_runtime import MORE
from tfgpu_doctor.parsers.messages import catalogue, faults, memory, speed, template
from tfgpu_doctor.parsers.text.lines import Line

_TEMPLATES = (*memory.TEMPLATES, *faults.TEMPLATES, *speed.TEMPLATES)


def test_samples() -> None:
    wrong = []
    for kind, line, values in MORE:
        found = [message.values for message in catalogue.read([Line(1, line)]) if message.kind == kind]
        if values not in found:
            wrong.append((kind, line, values, found))
    assert wrong == [], "\n".join(map(str, wrong))


def test_every_template_has_a_sample() -> None:
    without = []
    for one in _TEMPLATES:
        known = [line for kind, line, _ in MORE if kind == one.kind]
        if not any(template.read([Line(1, line)], [one]) for line in known):
            without.append((one.kind, one.expression))
    assert without == [], "\n".join(map(str, without))
