"""What the lists of versions that pip prints betray."""

from __future__ import annotations

from tests.healthy import MATRIX
from tests.parsers.pasted import capture
from tfgpu_doctor.parsers import package_lists
from tfgpu_doctor.parsers.remaining_releases import Matches, Target, versions_offered


def betrayed(name: str, platform: str | None = None) -> Matches | None:
    (event,) = (
        one for one in package_lists.parse_events(capture("pip_install", f"{name}.txt")) if one.kind == "no-version"
    )
    return versions_offered(MATRIX, event.name, event.versions, platform)


def test_a_list_betrays_the_platform_too() -> None:
    """2.15.0.post1 has wheels for Linux alone, and this list for a Mac with Python 3.10 lacks it."""
    told = betrayed("from_versions_macos_in_bazel")
    assert told is not None
    assert (told.pythons, told.exact) == (("3.10",), True)
    assert "macos_x86_64" in {one.platform for one in told.offers}
    assert "linux_x86_64" not in {one.platform for one in told.offers}


def test_between_2_0_0_and_1_15_0() -> None:
    """2.0.0 came out a fortnight before 1.15.0, so a list of those days has the one and not the other."""
    told = versions_offered(MATRIX, "tensorflow", ["1.13.1", "1.13.2", "1.14.0", "2.0.0"], "linux_x86_64")
    assert told is not None
    assert (told.pythons, told.exact) == (("3.7",), True)


def test_every_list_of_today_betrays_its_own_python() -> None:
    offered: dict[Target, list[str]] = {}
    for release in MATRIX.releases(package="tensorflow"):
        for python in release.python:
            offered.setdefault(Target(python, release.platform), []).append(release.version)
    for offer, versions in offered.items():
        told = versions_offered(MATRIX, "tensorflow", versions)
        assert told is not None
        assert told.exact
        assert offer in told.offers


def test_a_list_that_somebody_shortened() -> None:
    told = versions_offered(MATRIX, "TensorFlow", ["2.2.0", "2.13.1"])
    assert told is not None
    assert (told.pythons, told.exact) == (("3.8",), False)


def test_lists_that_betray_nothing() -> None:
    assert betrayed("from_versions_none") is None  # "none"
    assert versions_offered(MATRIX, "tensorflow", ["99.9", "x", ""]) is None
    assert versions_offered(MATRIX, "no-such-package", ["2.13.0"]) is None
    told = versions_offered(MATRIX, "tensorflow", ["1.0.0", "2.21.0"])  # no Python had both
    assert told is None or not told.exact
