"""Which distributions the interpreter under test lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfgpu_doctor.probes import tensorflow_probe


def distribution(folder: Path, name: str, *requires: str) -> None:
    place = folder / f"{name}-1.0.dist-info"
    place.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {one}" for one in requires)]
    (place / "METADATA").write_text("\n".join(lines) + "\n\ntext", encoding="utf-8")


def test_what_tensorflow_requires_is_listed_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tf.install-damaged calls missing what is not listed: a requirement that no table knows is looked for."""
    distribution(tmp_path, "tensorflow", "Some_New.Thing (>=1.1) ; python_version > '3'", "clang~=5.0", "absl-py<2")
    for name in ("some_new_thing", "clang", "absl_py", "unrelated"):
        distribution(tmp_path, name)
    monkeypatch.setattr(tensorflow_probe, "PATH", [str(tmp_path)])
    listed = [one["name"] for one in tensorflow_probe.packages({})["packages"]]
    assert sorted(listed) == ["absl-py", "clang", "some-new-thing", "tensorflow"]
