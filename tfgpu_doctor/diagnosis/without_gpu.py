"""What would keep TensorFlow from a GPU where there is none, or none is required: a note, not a problem. Pure."""

from __future__ import annotations

from tfgpu_doctor.diagnosis.arranging import Found, as_note
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import DECLARATIONS
from tfgpu_doctor.findings.inputs import fetch
from tfgpu_doctor.records.facts import Known, lists_gpu, value_or
from tfgpu_doctor.records.report import Finding

NO_GPU = "gpu.none"
_SYMPTOMS = ("gpu.not-visible", "gpu.fewer-than-required")  # consequences of having none, and told as such


def as_notes(found: list[Found], context: Context) -> list[Found]:
    """The findings with those that are about GPUs as notes, where they repair nothing here.

    Where no GPU is required and TensorFlow lists none, all of them. On a machine without a GPU all but that one and its
    consequences; there they have no fixes, because gigabytes of CUDA libraries would be of no use. Findings of a pasted
    text stay as they are, for it rarely tells whether all of it is about one machine, unless its writer wants the CPU.
    """
    if not context.probed:
        wanted = _is_cpu_wanted(context)
        return [as_note(one) if wanted and one.declared.about_gpus else one for one in found]
    none = any(one.finding.id == NO_GPU for one in found)
    none_required = context.require_gpus == 0 and not lists_gpu(value_or(context.facts.tensorflow.devices, None))
    return [_in_place(one, none, none_required) if one.declared.about_gpus else one for one in found]


def where_a_gpu_is_wanted(possible: list[Finding], context: Context) -> list[Finding]:
    """What may keep TensorFlow from a GPU; nothing, where the CPU is wanted."""
    if not _is_cpu_wanted(context):
        return possible
    return [one for one in possible if not DECLARATIONS[one.id].about_gpus]


def _is_cpu_wanted(context: Context) -> bool:
    """Whether a text says that the CPU is what its writer wants."""
    messages = fetch("messages", context)
    return isinstance(messages, Known) and messages.value.has("wants-cpu")


def _in_place(one: Found, none: bool, none_required: bool) -> Found:
    """A finding about GPUs, where the machine has none, or where none is required."""
    if none and one.finding.id not in (NO_GPU, *_SYMPTOMS):
        return as_note(one, title=f"With a GPU: {one.finding.title}", fixes=())
    return as_note(one) if none_required else one
