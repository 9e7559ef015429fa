"""What would keep TensorFlow from a GPU: nothing where there is none, a note where none is required. Pure."""

from __future__ import annotations

from tfgpu_doctor.diagnosis.arranging import Found, as_note
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import DECLARATIONS
from tfgpu_doctor.findings.inputs import fetch
from tfgpu_doctor.records.facts import Known, lists_gpu, value_or
from tfgpu_doctor.records.report import Finding

NO_GPU = "gpu.none"
_WITHOUT_ONE = (NO_GPU, "gpu.not-visible", "gpu.fewer-than-required")  # having none, and its consequences


def as_notes(found: list[Found], context: Context) -> list[Found]:
    """The findings, without those that repair nothing here, or with them as notes.

    On a machine without a GPU, what is missing for one is of no interest: of all that is about GPUs, gpu.none and its
    consequences are left. Where no GPU is required and TensorFlow lists none, they are notes. Findings of a pasted
    text stay as they are, for it rarely tells whether all of it is about one machine, unless its writer wants the CPU.
    """
    if not context.probed:
        wanted = _is_cpu_wanted(context)
        return [as_note(one) if wanted and one.declared.about_gpus else one for one in found]
    if any(one.finding.id == NO_GPU for one in found):
        found = [one for one in found if not one.declared.about_gpus or one.finding.id in _WITHOUT_ONE]
    none_required = context.require_gpus == 0 and not lists_gpu(value_or(context.facts.tensorflow.devices, None))
    return [as_note(one) if none_required and one.declared.about_gpus else one for one in found]


def where_a_gpu_is_wanted(possible: list[Finding], context: Context) -> list[Finding]:
    """What may keep TensorFlow from a GPU; nothing, where the CPU is wanted."""
    if not _is_cpu_wanted(context):
        return possible
    return [one for one in possible if not DECLARATIONS[one.id].about_gpus]


def _is_cpu_wanted(context: Context) -> bool:
    """Whether a text says that the CPU is what its writer wants."""
    messages = fetch("messages", context)
    return isinstance(messages, Known) and messages.value.has("wants-cpu")
