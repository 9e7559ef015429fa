"""Where a text gives no reason: the most common causes of its situation and system, without those contradicted."""

from __future__ import annotations

import pytest

from tests.healthy import MATRIX, healthy, spoil
from tfgpu_doctor.diagnosis.engine import diagnose
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.commonness import BECAUSE, COMMON, MOST
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.facts import Facts

_SMI = """
| NVIDIA-SMI 535.54       Driver Version: 535.54       CUDA Version: 12.2     |
|   0  Tesla T4            Off  | 00000000:00:1E.0 Off |                    0 |
| N/A   33C    P8     9W /  70W |      0MiB / 15360MiB |      0%      Default |"""
_NATIVE = "Failed to load the native TensorFlow runtime."

# situation, system → a text, and exactly its possible causes
OF_A_SITUATION = {
    ("no GPU", "windows"): (
        "Windows 10: TensorFlow does not see my GPU",
        ["tf.windows-native", "cuda.version-mismatch", "cuda.missing"],
    ),
    ("no GPU", "wsl2"): (
        "Under WSL2 TensorFlow does not see my GPU",
        ["cuda.missing", "wsl.setup", "cuda.lib-path"],
    ),
    ("no GPU", "macos"): ("On macOS TensorFlow does not use the GPU", []),  # certain: tf.cpu-build
    ("no GPU", "container"): (
        "I start it in a docker container, and TensorFlow does not see my GPU",
        ["container.no-gpu", "cuda.missing", "cuda.version-mismatch"],
    ),
    ("no GPU", ""): (
        "TensorFlow does not see my GPU",
        ["cuda.missing", "cuda.version-mismatch", "cuda.lib-path"],
    ),
    ("import", "windows"): (f"Windows 10\n{_NATIVE}", ["tf.import-dll", "tf.python-unsupported", "tf.abi-numpy"]),
    ("import", "macos"): (f"macOS\n{_NATIVE}", ["tf.abi-numpy"]),  # AVX is no matter of every Mac
    ("import", ""): (_NATIVE, ["tf.abi-numpy", "tf.package-conflict", "tf.wrong-env"]),
    ("hangs", ""): ("TensorFlow hangs at the first epoch", ["perf.small-work", "perf.input-bound"]),
    ("slow", ""): ("The training is slower on the GPU than on the CPU", []),  # a sign sees perf.small-work
    ("fails", "container"): (
        "In the docker container training fails on the GPU",
        ["container.no-gpu", "memory.oom", "cuda.version-mismatch"],
    ),
    ("fails", ""): (
        "TensorFlow crashes when I train on the GPU",
        ["memory.oom", "gpu.arch-too-new", "cudnn.version-mismatch"],
    ),
}
# what a text tells besides → a text, and exactly its possible causes
BY_FACTS = {
    "nvidia-smi works, so nothing below TensorFlow is the cause": (
        f"TensorFlow does not see my GPU in the docker container.{_SMI}",
        ["cuda.missing", "cuda.version-mismatch"],
    ),
    "PyTorch works": (
        "torch.cuda.is_available() returns True, TensorFlow does not see my GPU",
        ["cuda.missing", "cuda.version-mismatch", "cuda.lib-path"],
    ),
    "the terminal works": (
        "TensorFlow works in the terminal, in Jupyter it does not see my GPU",
        ["tf.wrong-env", "cuda.lib-path", "cuda.missing"],
    ),
    "root works": (
        "TensorFlow works as root, as a user it does not see my GPU",
        ["driver.init-failed", "cuda.lib-path", "cuda.missing"],
    ),
    "a release of two packages": (
        "TensorFlow 1.12 does not see my GPU",
        ["tf.cpu-build", "gpu.hidden", "cuda.missing"],
    ),
    "a GPU that is too old for every release": (
        "TensorFlow does not see my Quadro K2000 GPU",
        ["gpu.arch-too-old", "cuda.missing", "cuda.version-mismatch"],
    ),
    "a GPU that is too new for nearly every release": (
        "TensorFlow does not see my RTX 5090 GPU",
        ["gpu.arch-too-new", "cuda.missing", "cuda.version-mismatch"],
    ),
    "kernels are compiled at the first use": (
        "TensorFlow hangs at the first epoch with my RTX 3090",
        ["gpu.arch-too-new", "perf.small-work", "perf.input-bound"],
    ),
    "another CUDA is wanted than is there": (
        "TensorFlow does not see my GPU. CUDA 12.2 is installed, somebody said that I need CUDA 11.2",
        ["cuda.version-mismatch", "cuda.missing", "cuda.lib-path"],
    ),
    "a traceback without its last line": (
        'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n    import tensorflow as tf',
        ["tf.abi-numpy", "tf.package-conflict", "tf.wrong-env"],
    ),
    "nothing but trouble": (
        "I have a problem with my GPU under TensorFlow, see the screenshot",
        ["memory.oom", "gpu.arch-too-new", "cudnn.version-mismatch"],
    ),
    "a finding that is certain": ("Windows 11, TensorFlow 2.15: TensorFlow does not see my GPU", []),
    "nothing is wrong": ("TensorFlow uses my GPU", []),
    "only a question": ("Which TensorFlow works with an RTX 3080?", []),
}


def facts_of(text: str) -> Facts:
    return text_to_facts.read(lines.read([text.encode()]), MATRIX)


def common(facts: Facts) -> list[str]:
    return [one.id for one in diagnose(facts, MATRIX).findings if one.possible and one.cause == BECAUSE]


@pytest.mark.parametrize(("seen", "system"), OF_A_SITUATION)
def test_causes_of_a_situation(seen: str, system: str) -> None:
    text, causes = OF_A_SITUATION[seen, system]
    assert common(facts_of(text)) == causes


@pytest.mark.parametrize("name", BY_FACTS)
def test_what_the_facts_say_ranks_and_leaves_out(name: str) -> None:
    text, causes = BY_FACTS[name]
    assert common(facts_of(text)) == causes


def test_every_situation_and_system_has_a_row() -> None:
    assert set(OF_A_SITUATION) == {(seen, system) for seen, table in COMMON.items() for system in table}
    assert max(len(causes) for _, causes in (*OF_A_SITUATION.values(), *BY_FACTS.values())) == MOST


def test_every_cause_is_a_finding() -> None:
    assert {one for table in COMMON.values() for row in table.values() for one in row} <= set(DECLARATIONS)


def test_a_probed_machine_gets_none() -> None:
    """What a machine was examined for is known: what is common elsewhere says nothing about it."""
    texts = [text for text, _ in (*OF_A_SITUATION.values(), *BY_FACTS.values())]
    machines = [spoil(healthy(), {"messages": facts_of(text).messages}) for text in texts]
    assert [common(machine) for machine in machines] == [[]] * len(texts)
