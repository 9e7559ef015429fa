"""A whole paste becomes facts, each with the line that tells it."""

from __future__ import annotations

from typing import Any

from tests.findings.logs import created, log, smi, text
from tests.healthy import MATRIX
from tests.parsers.pasted import CAPTURES, every_capture, mangled
from tfgpu_doctor.facts.facts import Facts, Known, Unknown, look_up
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.parsers.lines import Excerpt
from tfgpu_doctor.plan.diagnosis import diagnose

MIXED = (CAPTURES / "paste" / "mixed.txt").read_text(encoding="utf-8")

# path → value and source, for the mixed paste: a form, nvidia-smi, nvcc, pip, a session of Python
TOLD: dict[str, tuple[Any, str]] = {
    "host.os": ("linux", "line 6, as stated"),
    "host.distribution": ("Ubuntu 22.04", "line 6, as stated"),
    "host.distribution_id": ("ubuntu", "line 6, as stated"),
    "tensorflow.version": ("2.15.0", "line 7, as stated"),
    "python.version": ("3.10.12", "line 8, as stated"),
    "driver.version": ("535.129.03", "line 15: nvidia-smi"),
    "driver.cuda_supported": ("12.2", "line 15: nvidia-smi"),
    "python.wheel_platform": ("linux_x86_64", "the text"),
    "variables": ({"LD_LIBRARY_PATH": "/usr/local/cuda-11.8/lib64"}, "line 30"),
}
UNTOLD = (
    *("host.container", "host.memory", "driver.nvml_init", "driver.cuda_init", "driver.kernel_module", "cudnn.runtime"),
    *("driver.unresponsive", "driver.xid_events", "python.executable", "loader.sonames", "tensorflow.checks"),
)


def read(pasted: str) -> Facts:
    return text_to_facts.read(lines.read([pasted.encode()]))


def value(facts: Facts, path: str) -> Any:
    found = look_up(facts, path)
    assert isinstance(found, Known), (path, found)
    return found.value


def test_the_mixed_paste_tells_these_facts_and_leaves_others_unknown() -> None:
    facts = read(MIXED)
    told = {path: look_up(facts, path) for path in TOLD}
    assert {path: (one.value, one.source) for path, one in told.items() if isinstance(one, Known)} == TOLD
    assert [path for path in UNTOLD if not isinstance(look_up(facts, path), Unknown)] == []


def test_cards_toolkits_and_packages() -> None:
    facts = read(MIXED)
    (card,) = value(facts, "gpus")
    assert (card.name.value, card.memory_used.value // 2**20) == ("NVIDIA GeForce RTX 3090", 523)
    kits = [(kit.version, kit.source) for kit in value(facts, "cuda.toolkits")]
    assert kits == [("11.8.89", "line 28: nvcc"), ("11.8", "line 9, as stated")]
    assert [(one.version, one.path) for one in value(facts, "cudnn.installed")] == [("8.6", "line 9, as stated")]
    packages = {one.name: (one.version, one.location) for one in value(facts, "python.packages")}
    assert packages == {
        "keras": ("2.15.0", "line 34"),
        "numpy": ("1.26.2", "line 35"),
        "tensorflow": ("2.15.0", "line 36"),
    }


def test_what_tensorflow_shows_of_itself_and_what_follows() -> None:
    facts = read(MIXED)
    build = value(facts, "tensorflow.build")
    assert (build.is_cuda_build, build.cuda_version, build.cudnn_version) == (True, "12.2", "8")
    assert [device.kind for device in value(facts, "tensorflow.devices")] == ["CPU"]
    said = {message.kind: message.line for message in value(facts, "messages")}
    assert (said["harmless"], said["cudart-not-found"], said["log-era"]) == (39, 40, 39)
    first = diagnose(facts, MATRIX).findings[0]
    assert first.id == "cuda.version-mismatch"
    assert first.title == "TensorFlow 2.15.0 loads CUDA 12.2, but CUDA 11.8 is installed"
    assert "line 40" in first.evidence[0].source


def test_a_created_gpu_is_a_device() -> None:
    (device,) = [one for one in value(read(created()), "tensorflow.devices") if one.kind == "GPU"]
    assert (device.device_name, device.compute_capability) == ("NVIDIA GeForce RTX 3090", "8.6")


def test_nvidia_smi_goes_before_what_is_stated() -> None:
    facts = read(text("Driver version: 470.57.02", "CUDA version: 11.2", smi()))
    assert value(facts, "driver.version") == "550.54.14"
    assert value(facts, "driver.cuda_supported") == "12.4"
    assert [kit.version for kit in value(facts, "cuda.toolkits")] == ["11.2"]


def test_line_numbers_count_the_pasted_lines() -> None:
    pasted = "\n" * 6000 + log("2.13", "x/y.cc", "failed call to cuInit: CUDA_ERROR_UNKNOWN")
    (message,) = [one for one in value(read(pasted), "messages") if one.kind == "cuinit-failed"]
    assert message.line == 6001


def test_every_capture_can_be_pasted_whole_and_mangled() -> None:
    captures = [path for folder in sorted(CAPTURES.iterdir()) for path in every_capture(folder.name)]
    assert len(captures) > 50
    for number, capture in enumerate(captures):
        text = capture.read_text(encoding="utf-8")
        assert diagnose(read(text), MATRIX).findings is not None, capture.name
        found = mangled(text, number)
        assert value(text_to_facts.read(Excerpt(tuple(found), len(found), 0)), "messages") is not None
    for seed in range(5):
        diagnose(read("\n".join(line.text for line in mangled(MIXED, seed))), MATRIX)
