"""What remains possible where the text names no release, no Python; and the command that would tell."""

from __future__ import annotations

from tfgpu_doctor.facts.facts import Facts, Known, Unknown, look_up
from tfgpu_doctor.facts.versions import minor
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.parsers.remaining_releases import versions_offered
from tfgpu_doctor.parsers.text_to_facts import _ASKS, _ON_WINDOWS

MATRIX = Matrix.load()
LOG = "2021-03-02 10:11:12.131415: W tensorflow/stream_executor/platform/default/dso_loader.cc:1] "  # of no release
OPENED = LOG + "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open"
GUARD = f"{OPENED}\n2021-03-02 10:11:12.1: I x/cpu_feature_guard.cc:210] This TensorFlow binary is optimized to"


def facts(text: str, matrix: Matrix | None = MATRIX) -> Facts:
    return text_to_facts.read(lines.read([text.encode()]), matrix)


def test_the_newest_patch_of_each_minor_release_and_the_command_that_tells() -> None:
    version, ask = facts(OPENED).tensorflow.version, 'python -c "import tensorflow as tf; print(tf.__version__)"'
    assert isinstance(version, Unknown)
    assert (version.one_of, version.ask) == (("2.4.4",), ask), "the newest patch of each minor release"
    assert "libcudart.so.11.0" in version.reason
    assert facts(OPENED, None).tensorflow.version == Unknown("the text does not say", ask=ask)


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
        version = facts(log_of(release)).tensorflow.version
        assert isinstance(version, Unknown)
        assert not version.one_of or minor(release) in map(minor, version.one_of), release


def test_the_line_of_a_source_file_tells_releases_apart() -> None:
    guard = GUARD.replace("2021", "2023").replace("cc:210", "cc:193")
    version = facts(guard).tensorflow.version
    assert isinstance(version, Unknown) and "cpu_feature_guard.cc:193" in version.reason
    left = {minor(one) for one in version.one_of}
    assert "2.10" in left and not {"2.4", "2.6"} & left


def test_pips_list_leaves_one_python_or_several() -> None:
    command = "$ pip install tensorflow==9.9\nERROR: Could not find a version that satisfies the requirement "
    one = command + "tensorflow==9.9 (from versions: 2.16.0rc0, 2.16.1, 2.16.2, 2.17.0, 2.17.1, 2.18.0)"
    assert facts(one).python.version == Known("3.12", "line 2: the versions that pip offers", "inferred")
    several = facts(command + "tensorflow==9.9 (from versions: 1.0.0, 1.0.1, 1.1.0, 1.2.0)").python.version
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


def test_a_list_that_no_python_had() -> None:
    found = versions_offered(MATRIX, "tensorflow", ["1.0.0", "2.21.0"])  # no Python had both
    assert found is None or not found[1]


def test_every_ask_belongs_to_a_fact() -> None:
    assert [path for path in (*_ASKS, *_ON_WINDOWS) if not isinstance(look_up(Facts(), path), (Known, Unknown))] == []


def test_what_a_text_leaves_open_names_the_command_that_tells() -> None:
    linux, windows = facts("Operating system: Ubuntu 22.04"), facts("Operating system: Windows 11")
    assert linux.gpus == Unknown("the text does not say", ask="nvidia-smi")
    assert [look_up(linux, path) for path in _ASKS if getattr(look_up(linux, path), "ask", "known") is None] == []
    assert isinstance(windows.host.kernel, Unknown)
    assert windows.host.kernel.ask is None
    assert isinstance(windows.cuda.toolkits, Unknown)
    assert windows.cuda.toolkits.ask == "nvcc --version"


def test_grades() -> None:
    read = facts("CUDA version: 11.8\nTensorFlow version: 2.4.1\nFile /usr/lib/python3.8/site-packages/x.py")
    assert isinstance(read.cuda.toolkits, Known)
    assert isinstance(read.tensorflow.version, Known)
    assert isinstance(read.python.version, Known)
    assert (read.cuda.toolkits.grade, read.tensorflow.version.grade, read.python.version.grade) == (
        *("stated", "stated", "inferred"),
    )
