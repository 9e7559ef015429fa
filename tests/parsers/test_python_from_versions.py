"""What the lists of versions that pip prints betray."""

from __future__ import annotations

import pytest

from tests.parsers.pasted import capture
from tfgpu_doctor.inference.python_from_versions import Matches, Target, versions_offered
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers.tools import pip_install


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return Matrix.load()


def betrayed(matrix: Matrix, name: str, platform: str | None = None) -> Matches | None:
    (event,) = (one for one in pip_install.parse(capture("pip_install", f"{name}.txt")) if one.kind == "no-version")
    return versions_offered(matrix, event.name, event.versions, platform)


@pytest.mark.parametrize(
    ("name", "pythons"),
    [
        ("from_versions_python313", ("3.13",)),
        ("from_versions_python310_in_2022", ("3.10",)),  # 2.8.4 and 2.9.3 came later
        ("from_versions_with_candidates", ("3.9",)),
        ("from_versions_in_backquotes", ("3.9",)),
        ("from_versions_python38_in_2022", ("3.8",)),
        ("from_versions_python39_in_2022", ("3.9",)),  # 2.8.4, 2.9.3 and 2.10.1 came later
        ("pip18_from_versions_python36", ("2.7", "3.3", "3.4", "3.5", "3.6")),  # all of them had all of these
    ],
)
def test_lists_as_pip_prints_them(matrix: Matrix, name: str, pythons: tuple[str, ...]) -> None:
    told = betrayed(matrix, name, "linux_x86_64")
    assert told is not None
    assert (told.pythons, told.exact) == (pythons, True)


def test_a_list_betrays_the_platform_too(matrix: Matrix) -> None:
    """2.15.0.post1 has wheels for Linux alone, and this list for a Mac with Python 3.10 lacks it."""
    told = betrayed(matrix, "from_versions_macos_in_bazel")
    assert told is not None
    assert (told.pythons, told.exact) == (("3.10",), True)
    assert "macos_x86_64" in told.platforms
    assert "linux_x86_64" not in told.platforms


def test_between_2_0_0_and_1_15_0(matrix: Matrix) -> None:
    """2.0.0 came out a fortnight before 1.15.0, so a list of those days has the one and not the other."""
    told = versions_offered(matrix, "tensorflow", ["1.13.1", "1.13.2", "1.14.0", "2.0.0"], "linux_x86_64")
    assert told is not None
    assert (told.pythons, told.exact) == (("3.7",), True)


def test_every_list_of_today_betrays_its_own_python(matrix: Matrix) -> None:
    offered: dict[Target, list[str]] = {}
    for release in matrix.releases(package="tensorflow"):
        for python in release.python:
            offered.setdefault(Target(python, release.platform), []).append(release.version)
    for offer, versions in offered.items():
        told = versions_offered(matrix, "tensorflow", versions)
        assert told is not None
        assert told.exact
        assert offer in told.offers


def test_a_list_that_somebody_shortened(matrix: Matrix) -> None:
    told = versions_offered(matrix, "TensorFlow", ["2.2.0", "2.13.1"])
    assert told is not None
    assert (told.pythons, told.exact) == (("3.8",), False)


def test_lists_that_betray_nothing(matrix: Matrix) -> None:
    assert betrayed(matrix, "from_versions_none") is None  # "none"
    assert versions_offered(matrix, "tensorflow", ["99.9", "x", ""]) is None
    assert versions_offered(matrix, "no-such-package", ["2.13.0"]) is None
    told = versions_offered(matrix, "tensorflow", ["1.0.0", "2.21.0"])  # no Python had both
    assert told is None or not told.exact
