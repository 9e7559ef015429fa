"""What remains possible where the text names no release, no Python; and the command that would tell."""

from __future__ import annotations

from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.parsers.remaining_releases import versions_offered
from tfgpu_doctor.parsers.text_to_facts import _ASKS, _ON_WINDOWS
from tfgpu_doctor.records.facts import Facts, Known, Unknown, look_up
from tfgpu_doctor.records.versions import minor

MATRIX = Matrix.load()
LOG = "2021-03-02 10:11:12.131415: W tensorflow/stream_executor/platform/default/dso_loader.cc:1] "  # of no release
OPENED = LOG + "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open"
LATER = OPENED.replace("2021-03", "2022-06")
GUARD = f"{OPENED}\n2021-03-02 10:11:12.1: I x/cpu_feature_guard.cc:210] This TensorFlow binary is optimized to"
FOLDER = '  File "/opt/lib/python3.7/site-packages/tensorflow_core/python/pywrap_tensorflow.py", line 58, in <module>'
LEFT = {  # text → what its library names, the form of its log, its date, its lines and folders leave
    OPENED: "2.4",
    LATER: "2.4 2.5 2.6 2.7 2.8 2.9",
    f"{LATER}\nPython version: 3.6": "2.4 2.5 2.6",
    "2024-06-01 10:00:00.1: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] x": "2.15 2.16 2.17",
    f"{OPENED}\nTensorFlow version: 2.4.1": "2.4.1",
    "I installed tensorflow and it does not see the GPU\nPython version: 3.8": "",
    f"{OPENED}\nI compiled tensorflow from source": "1.14 1.15 2.0 2.1 2.2 2.3 2.4",  # with any libraries
    FOLDER: "1.15 2.0 2.1",
    FOLDER.replace("tensorflow_core", "tensorflow"): "",
    OPENED.replace("dso_loader.cc:1]", "dso_loader.cc]"): "2.4",
    GUARD: "2.4",  # a line that contradicts the rest says nothing
    f"{GUARD}\nTensorFlow version: 2.4.1": "2.4.1",
}


def facts(text: str, matrix: Matrix | None = MATRIX) -> Facts:
    return text_to_facts.read(lines.read([text.encode()]), matrix)


def releases(text: str) -> list[str]:
    version = facts(text).tensorflow.version
    return [minor(one) for one in version.one_of] if isinstance(version, Unknown) else [version.value]


def test_what_a_log_leaves() -> None:
    assert {text: " ".join(releases(text)) for text in LEFT} == LEFT
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
    assert "2.10" in releases(guard)
    assert not {"2.4", "2.6"} & set(releases(guard))
    version = facts(guard).tensorflow.version
    assert isinstance(version, Unknown) and "cpu_feature_guard.cc:193" in version.reason


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


def test_lists_of_other_days_and_lists_that_betray_nothing() -> None:
    for name, versions, platform, answer in (
        # 2.0.0 came out a fortnight before 1.15.0, so a list of those days has the one and not the other
        ("tensorflow", "1.13.1 1.13.2 1.14.0 2.0.0", "linux_x86_64", (("3.7",), True)),
        ("TensorFlow", "2.2.0 2.13.1", None, (("3.8",), False)),  # somebody shortened it
        ("tensorflow", "99.9 x", None, None),
        ("no-such-package", "2.13.0", None, None),
    ):
        assert versions_offered(MATRIX, name, versions.split(), platform) == answer, versions
    found = versions_offered(MATRIX, "tensorflow", ["1.0.0", "2.21.0"])  # no Python had both
    assert found is None or not found[1]


def test_every_ask_belongs_to_a_fact() -> None:
    assert [path for path in (*_ASKS, *_ON_WINDOWS) if not isinstance(look_up(Facts(), path), (Known, Unknown))] == []


def test_what_a_text_leaves_open_names_the_command_that_tells() -> None:
    linux, windows = facts("Operating system: Ubuntu 22.04"), facts("Operating system: Windows 11")
    assert linux.gpus == Unknown("the text does not say", ask="nvidia-smi -L")
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
