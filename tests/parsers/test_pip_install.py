"""What installers say, as it is pasted."""

from __future__ import annotations

import textwrap

import pytest

from tests.guard import guarded
from tests.parsers.pasted import CAPTURES, capture, every_capture, lines, mangled
from tfgpu_doctor.parsers.tools.pip_install import Event, parse


def said(name: str) -> list[Event]:
    return list(parse(capture("pip_install", f"{name}.txt")))


@pytest.mark.parametrize(
    ("name", "count", "first", "last"),
    [
        ("from_versions_none", 0, None, None),
        ("pip18_from_versions_python36", 25, "0.12.1", "1.14.0"),
        ("from_versions_python310_in_2022", 17, "2.8.0rc0", "2.10.0"),
        ("from_versions_python38_in_2022", 33, "2.2.0", "2.9.0rc0"),
        ("from_versions_with_candidates", 6, "2.5.0rc0", "2.6.0rc0"),
        ("from_versions_in_backquotes", 18, "2.5.0", "2.8.0"),
        ("from_versions_macos_in_bazel", 45, "2.8.0rc0", "2.16.2"),
        ("from_versions_python39_in_2022", 39, "2.5.0", "2.11.0rc1"),
        ("from_versions_python313", 2, "2.20.0rc0", "2.20.0"),
    ],
)
def test_versions_that_pip_offers(name: str, count: int, first: str | None, last: str | None) -> None:
    (event,) = (one for one in said(name) if one.kind == "no-version")
    assert (event.name, len(event.versions)) == ("tensorflow", count)
    assert event.versions[:1] + event.versions[-1:] == ((first, last) if first else ())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("from_versions_none", ("no-match", "tensorflow", "", "tensorflow==2.4.1")),
        ("conflicts_of_tensorflow_intel", ("conflict", "tensorflow-intel", "2.15.0", "ml-dtypes~=0.2.0")),
        ("conflicts_of_tensorflow_intel", ("conflict", "tensorflow-intel", "2.15.0", "keras<2.16,>=2.15.0")),
        ("pip18_conflict_in_backquotes", ("conflict", "tensorflow", "1.15.5", "numpy<1.19.0,>=1.16.0")),
        ("conflict_then_installed", ("conflict", "tensorflow", "2.13.1", "numpy<=1.24.3,>=1.22")),
        ("conflict_then_installed", ("installed", "scikit-learn", "1.3.0", "")),
        ("unresolvable", ("unresolvable", "", "", "")),
        ("extra_that_2_12_lacks", ("no-extra", "tensorflow", "2.12.1", "")),
        ("windows_cached_and_satisfied", ("satisfied", "termcolor", "1.1.0", "termcolor~=1.1.0")),
        ("satisfied_around_a_progress_bar", ("satisfied", "numpy", "1.21.6", "numpy")),
        ("satisfied_around_a_progress_bar", ("satisfied", "six", "1.16.0", "six>=1.9.0")),
        ("wheel_refused", ("wheel-refused", "tensorflow", "1.4.0", "")),
        ("tensorflow_gpu_removed", ("removed", "tensorflow-gpu", "", "")),
        ("conda_no_provider", ("conda-no-provider", "tensorflow", "2.9.1", "__cuda")),
        ("conda_unsatisfiable", ("conda-unsatisfiable", "", "", "")),
        ("conda_cuda_driver", ("conda-unsatisfiable", "", "", "")),
        ("conda_not_found", ("conda-not-found", "cudatoolkit", "", "cudatoolkit=10.1")),
        ("uv_no_wheels_for_a_pin", ("uv-no-wheels", "tensorflow", "2.9.1", "")),
        ("uv_no_wheels_of_any_version", ("uv-no-wheels", "tensorflow", "", "")),
        ("uv_of_2026", ("uv-no-wheels", "tensorflow", "2.9.1", "")),
    ],
)
def test_sentences(name: str, expected: tuple[str, str, str, str]) -> None:
    assert expected in [(one.kind, one.name, one.version, one.requirement) for one in said(name)]


def test_tags_of_a_refused_wheel() -> None:
    (event,) = (one for one in said("wheel_refused") if one.kind == "wheel-refused")
    assert event.tags == ("cp35-cp35m-manylinux1_x86_64",)


def test_uv_at_any_width_of_the_terminal() -> None:
    """uv breaks its lines at spaces, so any of its words may stand on the next line."""
    printed = [line.text for line in capture("pip_install", "uv_of_2026.txt")]
    for width in range(32, 120, 3):
        wrapped = (textwrap.fill(line, width, subsequent_indent=" " * 6, break_long_words=False) for line in printed)
        found = [(one.kind, one.version) for one in parse(lines("\n".join(wrapped)))]
        assert found == [("uv-no-wheels", "2.9.1")], width


def test_every_capture_is_listed_with_its_making() -> None:
    readme = (CAPTURES / "pip_install" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in every_capture("pip_install") if f"| {path.name} |" not in readme] == []


def test_a_list_of_versions_that_was_wrapped_or_cut_off() -> None:
    text = (
        "Could not find a version that satisfies the requirement tensorflow==1.15 (from versions: 2.2.0,\n2.2.1, 2.3.0"
    )
    (cut,) = parse(lines(text))
    (whole,) = parse(lines(text + ")\nERROR: more (of this)"))
    assert cut.versions == whole.versions == ("2.2.0", "2.2.1", "2.3.0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error: externally-managed-environment", [("externally-managed", "", "")]),
        ("tensorflow 2.4.1 requires h5py~=2.10.0, which is not installed.", [("conflict", "tensorflow", "2.4.1")]),
        ("  ERROR: Failed building wheel for h5py", [("build-failed", "h5py", "")]),
        ("ERROR: Could not build wheels for numpy, which is required to install pyproject.toml-based projects",
         [("build-failed", "numpy", "")]),
        ("PackagesNotFoundError: The following packages are not available:\n\n  - tensorflow-gpu==2.12\n\nx",
         [("conda-not-found", "tensorflow-gpu", "")]),
        ("└─ tensorflow-gpu is not installable because it requires\n   └─ __cuda, which is missing on the system.",
         [("conda-no-provider", "", "")]),
        ("Downloading the data set of 2.3 GB", []),
        ("Collecting package metadata (repodata.json): done", []),
    ],
)  # fmt: skip
def test_other_sentences(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(one.kind, one.name, one.version) for one in parse(lines(text))] == expected


def test_bad_pastes_do_not_hurt() -> None:
    for path in every_capture("pip_install"):
        for seed in range(20):
            parse(mangled(path.read_text(encoding="utf-8"), seed))


@pytest.mark.parametrize(
    "unit", ["a", "a-1", "2.0, ", "a 1 requires b, ", "no wheels ", "a-1-b-c-d.whl ", "Requires-Python ", "("]
)
def test_long_lines_are_quick(unit: str) -> None:
    starts = [
        "", "satisfies the requirement tensorflow (from versions: ", "Successfully installed ", "Downloading ",
        "which is incompatible ",
        "Ignored the following versions", "Requirement already satisfied: a in ", "no wheels ", "nothing provides ",
    ]  # fmt: skip
    long = (unit * 100_000)[:100_000]
    with guarded(5.0):
        for start in starts:
            parse(lines(f"{start}{long[:3900]}\n{long[:3900]} which is incompatible\n{start}{long}"))
