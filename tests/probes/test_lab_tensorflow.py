"""The real TensorFlow under the fault lab says what it says in the field."""

from __future__ import annotations

import subprocess

import pytest

from tests.lab import Lab

LIST = "import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))"


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver / cuda driver combination"),
        pytest.param(999, "CUDA_ERROR_UNKNOWN: unknown error", marks=pytest.mark.full),
    ],
)
def test_tensorflow_reports_the_fault(driver_lab: Lab, tensorflow_python: str, answer: int, words: str) -> None:
    done = subprocess.run(
        [tensorflow_python, "-c", LIST],
        env=driver_lab.environ(cuinit=answer),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "failed call to cuInit: " in done.stderr
    assert words in done.stderr
    assert done.stdout.strip() == "[]"
