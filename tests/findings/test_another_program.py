"""Failures that every program prints in the same words: certain where TensorFlow is named, else possible."""

from __future__ import annotations

import re

from tests.findings.test_signs_over_messages import findings
from tests.tables import each
from tfgpu_doctor.parsers.derived_messages import _OF_ANY_PROGRAM

NO_KERNEL = "CUDA error: no kernel image is available for execution on the device"
LINES = {
    "illegal-instruction": "Illegal instruction (core dumped)",
    "no-kernel-image": NO_KERNEL,
    "kernel-image-invalid": "device kernel image is invalid",
    "invalid-device-function": "CUDA error: invalid device function",
}


def test_every_such_line_is_here() -> None:
    assert set(LINES) == set(_OF_ANY_PROGRAM)


@each("kind", LINES)
def test_without_the_name_of_tensorflow_it_is_possible(kind: str) -> None:
    found = findings(LINES[kind])
    assert found and all(one.possible and one.fixes for one in found)
    assert not any("Install TensorFlow" in fix.text for one in found for fix in one.fixes)


@each("gpu", ["Tesla K40c", "RTX 5090"])
def test_a_failure_of_pytorch_says_nothing_of_tensorflow(gpu: str) -> None:
    assert [one.id for one in findings(f"{gpu}, Pytorch 1.7 {NO_KERNEL}") if not one.possible] == []


JAX = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 GiB."
TORCH = "RuntimeError: CUDA error: out of memory"
BUSY = "The other notebook is still running and uses the GPU memory"


@each(
    ("pasted", "setting"),
    [
        (JAX, "export XLA_PYTHON_CLIENT_PREALLOCATE=false"),
        (f"KERAS_BACKEND=jax python train.py\n{JAX}", "export XLA_PYTHON_CLIENT_PREALLOCATE=false"),
        (f"{BUSY}\n{JAX}", "export XLA_PYTHON_CLIENT_PREALLOCATE=false"),
        (f"PyTorch 2.3\n{TORCH}", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        (f"PyTorch 2.3\n{BUSY}\n{TORCH}", "nvidia-smi --query"),
        (f"tensorflow 2.15\n{TORCH}", "export TF_GPU_ALLOCATOR=cuda_malloc_async"),
    ],
)
def test_memory_is_set_in_the_words_of_the_program_that_computes(pasted: str, setting: str) -> None:
    first = findings(pasted)[0]
    commands = [command for fix in first.fixes for command in fix.commands]
    assert first.id.startswith("memory.") and any(command.startswith(setting) for command in commands)
    of_tensorflow = [
        words for fix in first.fixes for words in (fix.text, *fix.commands) if re.search(r"TF_|tf\.", words)
    ]
    assert bool(of_tensorflow) is ("tensorflow" in pasted)
