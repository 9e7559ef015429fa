"""A whole paste becomes facts, each with the line that tells it; what remains possible, and what would tell it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.healthy import MATRIX
from tests.parsers.pasted import CAPTURES, log, mangled
from tfgpu_doctor.facts.facts import Facts, Known, Unknown, look_up
from tfgpu_doctor.facts.versions import minor
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.parsers.lines import Excerpt
from tfgpu_doctor.parsers.remaining_releases import versions_offered
from tfgpu_doctor.parsers.text_to_facts import _ASKS, _ON_WINDOWS
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


def read(pasted: str, matrix: Matrix | None = MATRIX) -> Facts:
    return text_to_facts.read(lines.read([pasted.encode()]), matrix)


def value(facts: Facts, path: str) -> Any:
    found = look_up(facts, path)
    assert isinstance(found, Known), (path, found)
    return found.value


def test_the_mixed_paste_tells_these_facts_and_leaves_others_unknown() -> None:
    facts = read(MIXED)
    told = {path: look_up(facts, path) for path in TOLD}
    assert {path: (one.value, one.source) for path, one in told.items() if isinstance(one, Known)} == TOLD
    stated = {"host.distribution", "host.distribution_id", "tensorflow.version", "python.version"}
    assert {path for path, one in told.items() if getattr(one, "grade", None) == "stated"} == stated
    path = "File /usr/lib/python3.8/site-packages/x.py"
    assert read(path).python.version == Known("3.8", "line 1: a path", "inferred")
    assert [path for path in UNTOLD if not isinstance(look_up(facts, path), Unknown)] == []
    (card,) = value(facts, "gpus")
    assert (card.name.value, card.memory_used.value // 2**20) == ("NVIDIA GeForce RTX 3090", 523)
    kits = [(kit.version, kit.source) for kit in value(facts, "cuda.toolkits")]
    assert kits == [("11.8.89", "line 28: nvcc"), ("11.8", "line 9, as stated")]
    assert [(one.version, one.path) for one in value(facts, "cudnn.installed")] == [("8.6", "line 9, as stated")]
    packages = [(one.name, one.version, one.location) for one in value(facts, "python.packages")]
    listed = [("keras", "2.15.0", "line 34"), ("numpy", "1.26.2", "line 35"), ("tensorflow", "2.15.0", "line 36")]
    assert sorted(packages) == listed
    build = value(facts, "tensorflow.build")
    assert (build.is_cuda_build, build.cuda_version, build.cudnn_version) == (True, "12.2", "8")
    assert [device.kind for device in value(facts, "tensorflow.devices")] == ["CPU"]
    said = {message.kind: message.line for message in value(facts, "messages")}
    assert (said["harmless"], said["cudart-not-found"], said["log-era"]) == (39, 40, 39)
    first = diagnose(facts, MATRIX).findings[0]
    assert (first.id, "line 40" in first.evidence[0].source) == ("cuda.version-mismatch", True)
    assert first.title == "TensorFlow 2.15.0 loads CUDA 12.2, but CUDA 11.8 is installed"


def test_line_numbers_count_the_pasted_lines() -> None:
    pasted = "\n" * 6000 + log("2.13", "x/y.cc", "failed call to cuInit: CUDA_ERROR_UNKNOWN")
    (message,) = [one for one in value(read(pasted), "messages") if one.kind == "cuinit-failed"]
    assert message.line == 6001


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.full)])
def test_every_capture_can_be_pasted_whole_and_mangled(step: int) -> None:
    captures = [path for folder in sorted(CAPTURES.iterdir()) for path in sorted(folder.glob("*.txt"))]
    assert len(captures) > 50
    for number, capture in enumerate(captures[::step]):
        text = capture.read_text(encoding="utf-8")
        diagnose(read(text), MATRIX)
        found = mangled(text, number)
        value(text_to_facts.read(Excerpt(tuple(found), len(found), 0)), "messages")
    for seed in range(5):
        diagnose(read("\n".join(line.text for line in mangled(MIXED, seed))), MATRIX)


LOG = "2021-03-02 10:11:12.131415: W tensorflow/stream_executor/platform/default/dso_loader.cc:1] "  # of no release
OPENED = LOG + "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open"
GUARD = f"{OPENED}\n2021-03-02 10:11:12.1: I x/cpu_feature_guard.cc:210] This TensorFlow binary is optimized to"


def test_the_newest_patch_of_each_minor_release_and_the_command_that_tells() -> None:
    version, ask = read(OPENED).tensorflow.version, 'python -c "import tensorflow as tf; print(tf.__version__)"'
    assert isinstance(version, Unknown)
    assert (version.one_of, version.ask) == (("2.4.4",), ask), "the newest patch of each minor release"
    assert "libcudart.so.11.0" in version.reason
    assert read(OPENED, None).tensorflow.version == Unknown("the text does not say", ask=ask)


def log_of(release: str) -> str:
    """What a release prints, as far as the table of its lines has it."""
    return "\n".join(
        f"2026-11-23 10:00:00.123456: I x/{row.file}:{line}] {row.message.replace('*', '1.0')}"
        for row in MATRIX.data.log_lines
        for line, releases in row.lines.items()
        if release in releases.split()
    )


def test_a_release_is_among_those_that_its_own_lines_leave() -> None:
    for release in {one for row in MATRIX.data.log_lines for line in row.lines.values() for one in line.split()}:
        version = read(log_of(release)).tensorflow.version
        assert isinstance(version, Unknown)
        assert not version.one_of or minor(release) in map(minor, version.one_of), release


def test_the_line_of_a_source_file_tells_releases_apart() -> None:
    guard = GUARD.replace("2021", "2023").replace("cc:210", "cc:193")
    version = read(guard).tensorflow.version
    assert isinstance(version, Unknown) and "cpu_feature_guard.cc:193" in version.reason
    left = {minor(one) for one in version.one_of}
    assert "2.10" in left and not {"2.4", "2.6"} & left


def test_pips_list_leaves_one_python_or_several() -> None:
    command = "$ pip install tensorflow==9.9\nERROR: Could not find a version that satisfies the requirement "
    one = command + "tensorflow==9.9 (from versions: 2.16.0rc0, 2.16.1, 2.16.2, 2.17.0, 2.17.1, 2.18.0)"
    assert read(one).python.version == Known("3.12", "line 2: the versions that pip offers", "inferred")
    several = read(command + "tensorflow==9.9 (from versions: 1.0.0, 1.0.1, 1.1.0, 1.2.0)").python.version
    assert isinstance(several, Unknown)
    assert {"2.7", "3.5"} <= set(several.one_of)
    assert several.ask == "python --version"


def test_every_list_of_today_betrays_its_own_python() -> None:
    offered: dict[tuple[str, str], list[str]] = {}
    for release in MATRIX.releases(package="tensorflow"):
        for python in release.python:
            offered.setdefault((python, release.platform), []).append(release.version)
    for (python, platform), versions in offered.items():
        for found in (versions_offered(MATRIX, "tensorflow", versions, one) for one in (None, platform)):
            assert found is not None and python in found[0] and found[1]


def test_what_a_text_leaves_open_names_the_command_that_tells() -> None:
    assert [path for path in (*_ASKS, *_ON_WINDOWS) if not isinstance(look_up(Facts(), path), (Known, Unknown))] == []
    linux, windows = read("Operating system: Ubuntu 22.04"), read("Operating system: Windows 11")
    assert linux.gpus == Unknown("the text does not say", ask="nvidia-smi -L")
    assert [look_up(linux, path) for path in _ASKS if getattr(look_up(linux, path), "ask", "known") is None] == []
    asks = [getattr(fact, "ask", "known") for fact in (windows.host.kernel, windows.cuda.toolkits)]
    assert asks == [None, "nvcc --version"]
