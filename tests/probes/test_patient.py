"""The patient script's own small functions, and what its parent makes of their answers."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

from tests.probes.test_cuda import write
from tests.tables import each
from tfgpu_doctor.probes import tensorflow_probe
from tfgpu_doctor.probes.tensorflow import Ending, Transcript, cudnn_version, log_lines


def test_names_and_versions() -> None:
    for file, project in {
        "typing_extensions-4.12.2.dist-info": "typing-extensions",
        "nvidia_cudnn_cu12-9.3.0.75.dist-info": "nvidia-cudnn-cu12",
        "numpy-1.24.2.egg-info": "numpy",
        "Keras.egg-info": "keras",
    }.items():
        assert tensorflow_probe.normal(file) == project and tensorflow_probe.matters(project)
    for number, version in {7605: "7.6.5", 8907: "8.9.7", 90300: "9.3.0", 91002: "9.10.2", 100101: "10.1.1"}.items():
        assert cudnn_version(number) == version
    for how, name in {
        ("linux", "x86_64", 64): "linux_x86_64",
        ("linux", "x86_64", 32): "linux_i686",
        ("win32", "AMD64", 64): "windows_amd64",
        ("darwin", "arm64", 64): "macos_arm64",
    }.items():
        assert tensorflow_probe.wheel_platform(*how) == name


def test_distribution_of_tensorflow(tmp_path: Path) -> None:
    folder = tmp_path / "tensorflow-2.15.1.dist-info"
    headers = "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.15.1\nRequires-Dist: numpy <2.0.0,>=1.23.5\n"
    write(folder, "METADATA", headers + "\nRequires-Dist: not a header\n")
    write(folder, "INSTALLER", "uv\n")
    assert tensorflow_probe.distribution(str(folder)) == {
        "name": "tensorflow",
        "version": "2.15.1",
        "location": str(tmp_path),
        "installer": "uv",
        "requires": ["numpy <2.0.0,>=1.23.5"],
    }


@each("name", ["h5py-3.1.0.egg-info/PKG-INFO", "h5py-3.1.0.egg-info", "h5py.egg-info/PKG-INFO"])
def test_distribution_of_setuptools_and_distutils(tmp_path: Path, name: Any) -> None:
    file = write(tmp_path, name, "Name: h5py\nVersion: 3.1.0\nRequires-Dist: numpy\n")
    found = tensorflow_probe.distribution(str(file.parent if file.name == "PKG-INFO" else file))
    assert (found["name"], found["version"], found["requires"]) == ("h5py", "3.1.0", ["numpy"])


def test_kinds_of_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    (tmp_path / "conda-meta").mkdir()
    kind = tensorflow_probe.kind_of_environment
    assert kind(str(tmp_path), str(tmp_path)) == "conda"
    assert kind(str(tmp_path), "/usr") == "venv"  # a venv, though it may lie in a conda environment
    assert kind("/usr", "/usr") == "system"
    assert kind("/home/me/.pyenv/versions/3.12.1", "/home/me/.pyenv/versions/3.12.1") == "pyenv"
    monkeypatch.setenv("PYENV_ROOT", "/opt/pythons")
    assert kind("/opt/pythons/versions/3.12.1", "/opt/pythons/versions/3.12.1") == "pyenv"


def test_every_tensorflow_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a/tensorflow/notes.txt", "left behind")
    write(tmp_path, "b/tensorflow.py", "")
    write(tmp_path, "c/tensorflow/__init__.py", "")
    folders = [str(tmp_path / name) for name in "abcb"]
    monkeypatch.setattr(tensorflow_probe, "PATH", [*folders, "/nowhere", str(tmp_path / "archive.zip")])
    assert tensorflow_probe.tensorflow_paths(PathFinder.find_spec("tensorflow", folders)) == {
        "tensorflow_paths": [str(tmp_path / "b/tensorflow.py"), str(tmp_path / "c/tensorflow")],
    }
    gone = tmp_path / "gone"  # the current folder has been removed
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(tensorflow_probe, "PATH", ["", "/usr"])
    assert list(tensorflow_probe.folders()) == ["/usr"]
    os.chdir(tmp_path)
    elsewhere = PathFinder.find_spec("tensorflow", [folders[2]])  # as the import hook of an editable install finds it
    assert tensorflow_probe.tensorflow_paths(elsewhere)["tensorflow_paths"][0] == str(tmp_path / "c/tensorflow")


def test_log_keeps_both_ends() -> None:
    lines = log_lines("".join(f"line {number}\n" for number in range(1000)))
    assert (len(lines), lines[0], lines[200], lines[-1]) == (400, "line 0", "[... 601 lines left out ...]", "line 999")
    assert lines[199] == "line 199" and lines[201] == "line 801"


def test_stack_of_python_3_14() -> None:
    """There the C stack follows that of Python under a headline of the same form."""
    stderr = (
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007f (most recent call first):\n"
        '  File "inner.py", line 3 in load\n  File "outer.py", line 9 in <module>\n\n'
        'Current thread\'s C stack trace (most recent call first):\n  Binary file "python", at +0x1\n'
    )
    ending = Ending("ended", returncode=-11, stderr=stderr)
    died = Transcript("python", until="interpreter", running="interpreter", ending=ending).phase("interpreter")
    assert died.traceback == ('  File "outer.py", line 9 in <module>', '  File "inner.py", line 3 in load')
    assert (died.signal, died.exit_code) == ("SIGSEGV", None)


def test_what_tensorflow_requires_is_listed_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tf.install-damaged calls missing what is not listed: a requirement that no table knows is looked for."""
    requires = ("Some_New.Thing (>=1.1) ; python_version > '3'", "clang~=5.0", "absl-py<2")
    for name in ("tensorflow", "some_new_thing", "clang", "absl_py", "unrelated"):
        lines = [f"Requires-Dist: {one}" for one in requires if name == "tensorflow"]
        write(tmp_path, f"{name}-1.0.dist-info/METADATA", "\n".join([f"Name: {name}", "Version: 1.0", *lines, "", ""]))
    monkeypatch.setattr(tensorflow_probe, "PATH", [str(tmp_path)])
    listed = [one["name"] for one in tensorflow_probe.packages({})["packages"]]
    assert sorted(listed) == ["absl-py", "clang", "some-new-thing", "tensorflow"]


@each("line", ("", "{", "[]", "nan", '{"event": "start"}', '{"tfgpu": "patient/2"}', "[" * 200_000, "{" * 200_000))
def test_lines_of_others_are_no_events(line: Any) -> None:
    assert Transcript("python").add(line) is None
