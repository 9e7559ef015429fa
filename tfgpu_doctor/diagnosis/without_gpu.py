"""What would keep TensorFlow from a GPU where there is none, or none is required: a note, not a problem. Pure."""

from __future__ import annotations

from tfgpu_doctor.diagnosis.arranging import Found, as_note
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.records.facts import lists_gpu, value_or

NO_GPU = "gpu.none"
_SYMPTOMS = ("gpu.not-visible", "gpu.fewer-than-required")  # consequences of having none, and told as such


def as_notes(found: list[Found], context: Context) -> list[Found]:
    """The findings with those that are about GPUs as notes, where they repair nothing here.

    Where no GPU is required and TensorFlow lists none, all of them. On a machine without a GPU all but that one and its
    consequences; there they have no fixes, because gigabytes of CUDA libraries would be of no use. Findings of a pasted
    text stay as they are: it rarely tells whether all of it is about one machine.
    """
    if not context.probed:
        return found
    none = any(one.finding.id == NO_GPU for one in found)
    none_required = context.require_gpus == 0 and not lists_gpu(value_or(context.facts.tensorflow.devices, None))
    return [_in_place(one, none, none_required) if one.declared.about_gpus else one for one in found]


def _in_place(one: Found, none: bool, none_required: bool) -> Found:
    """A finding about GPUs, where the machine has none, or where none is required."""
    if none and one.finding.id not in (NO_GPU, *_SYMPTOMS):
        return as_note(one, title=f"With a GPU: {one.finding.title}", fixes=())
    return as_note(one) if none_required else one
