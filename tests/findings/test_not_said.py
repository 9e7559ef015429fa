"""Nothing that is printed denies or asserts what a text does not say (E12)."""

from __future__ import annotations

from tests.corpus import report_of
from tests.tables import each
from tfgpu_doctor.records.facts import Known
from tfgpu_doctor.records.report import Report, Severity, problem_counts, verdict_sentence

NO_GPU = "lists no GPU"
# a text → what must not be printed of it
NOT_SAID = (
    ("my gpu does not work", NO_GPU),
    ("my gpu does not work with TensorFlow 2.16", NO_GPU),
    ("TensorFlow 2.16: GPU not working", NO_GPU),
    ("TensorFlow 2.10 doesn't work with my RTX 3050 Ti", NO_GPU),
    ("I could train with my GPU", NO_GPU),
    ("everything was fine", NO_GPU),
    ("everything was fine on the CPU, TensorFlow 2.12 gives NaN on the GPU", NO_GPU),
    ("I still have to copy it to the CPU, TensorFlow 2.12", NO_GPU),
    ("I started it with --gpus all", NO_GPU),
    ("I started it with --gpus all and TensorFlow 2.17 prints NaN", NO_GPU),
    ("TensorFlow 2.16 only uses the CPU", "list_physical_devices('GPU') is empty"),
    ("GPU model and memory: No GPU\nTensorFlow version: 2.16.1\nModel.predict is slow.", "driver"),
    ("GPU model and memory: N/A\nTensorFlow version: 2.16.1\nModel.predict is slow.", "GPU"),
    ("OOM when allocating tensor with shape[9,9] on /device:CPU:0 by allocator gpu_host_bfc", "The GPU ran"),
    ("OOM when allocating tensor with shape[9,9] on /device:CPU:0 by allocator cpu", "The GPU ran"),
    ("Allocator (mklcpu) ran out of memory trying to allocate 2.00GiB", "The GPU ran"),
    ("Allocator (bfc_cpu_allocator_for_gpu) ran out of memory trying to allocate 2.00GiB", "The GPU ran"),
    ("My torch training only gets 35 % GPU utilization in nvidia-smi.", "TensorFlow"),
    ("jax.devices() prints [CudaDevice(id=0)] and uses it: jax 0.4.30, CUDA 12.4", "TensorFlow"),
    ("torch.cuda.is_available() is True and PyTorch trains on the GPU, but at 20 % utilization", "tf.data"),
)


def printed(report: Report) -> str:
    """All that is said of what was found."""
    shown = [part for one in report.findings for part in (one.title, one.cause, *(fix.text for fix in one.fixes))]
    return "\n".join(shown)


@each(("text", "wrong"), NOT_SAID)
def test_nothing_is_printed_that_the_text_does_not_say(text: str, wrong: str) -> None:
    report = report_of(text)
    assert wrong not in printed(report)
    if wrong == NO_GPU:
        assert not isinstance(report.facts.tensorflow.devices, Known), "no GPU is shown in the stack"


@each("field", ["No GPU", "None", "CPU only"])
def test_a_field_that_names_no_gpu_is_no_error_where_nobody_misses_one(field: str) -> None:
    form = f"GPU model and memory: {field}\nTensorFlow version: 2.16.1\n"
    first = report_of(f"{form}The loss is NaN from the second epoch on.").findings[0]
    assert (first.id, first.severity) == ("gpu.none", Severity.WARNING)
    missed = report_of(f"{form}tf.config.list_physical_devices('GPU') returns []").findings[0]
    assert (missed.id, missed.severity) == ("gpu.none", Severity.ERROR)


def test_low_utilization_alone_has_more_than_one_possible_cause() -> None:
    report = report_of("TensorFlow 2.12, RTX 3060: the GPU utilization is only 35 % during training. Why is that?")
    assert {one.id for one in report.findings if one.possible} >= {"perf.input-bound", "perf.small-work"}
    assert verdict_sentence(report).startswith("this text leaves ") and not problem_counts(report)
