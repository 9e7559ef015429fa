from __future__ import annotations

import pytest

from tfgpu_doctor.manifests import ManifestError, Place, Requirement
from tfgpu_doctor.manifests.requirements import parse


def nothing_included(path: str) -> str:
    raise AssertionError(f"{path} is not included")


@pytest.mark.parametrize(
    ("text", "line", "name", "specifier", "extras"),
    [
        ("tensorflow-gpu==2.12.0", 1, "tensorflow-gpu", "==2.12.0", ()),
        ("# GPU\n\nTensorFlow_GPU>=2.4  # old\n", 3, "tensorflow-gpu", ">=2.4", ()),
        ("tensorflow[and-cuda]==2.15.1\n", 1, "tensorflow", "==2.15.1", ("and-cuda",)),
        ("\ufefftensorflow\r\n", 1, "tensorflow", "", ()),
        (
            "--index-url x\n-e .\ntensorflow==2.16.1 \\\n  --hash=sha256:00 \\\n  --hash=sha256:11\n",
            3,
            "tensorflow",
            "==2.16.1",
            (),
        ),
        ("-c constraints.txt\n./local\ngit+https://host/x.git\ntensorflow", 4, "tensorflow", "", ()),
        ("tensorflow==2.15.0 \\", 1, "tensorflow", "==2.15.0", ()),
    ],
)
def test_a_requirement_has_its_line(text: str, line: int, name: str, specifier: str, extras: tuple[str, ...]) -> None:
    (found,) = parse(text, "requirements.txt", nothing_included)
    assert (found.place, found.name, found.specifier, found.extras) == (
        Place("requirements.txt", line),
        name,
        specifier,
        extras,
    )


def test_a_marker_is_kept_beside_what_is_written() -> None:
    (found,) = parse("tensorflow==2.10.1; sys_platform == 'win32'", "r.txt", nothing_included)
    assert found == Requirement(
        Place("r.txt", 1),
        "tensorflow",
        "==2.10.1",
        marker='sys_platform == "win32"',
        written="tensorflow==2.10.1; sys_platform == 'win32'",
    )


def test_included_files_are_relative_and_a_cycle_is_read_once() -> None:
    files = {"deps/base.txt": "numpy<2\n-r more/gpu.txt", "deps/more/gpu.txt": "tensorflow\n-r ../base.txt\n"}
    found = parse("--requirement=deps/base.txt\n-rdeps/base.txt\n", "r.txt", files.__getitem__)
    assert [(str(one.place), one.name) for one in found] == [
        ("deps/base.txt:1", "numpy"),
        ("deps/more/gpu.txt:1", "tensorflow"),
    ]


def test_what_is_no_requirement_names_its_line() -> None:
    with pytest.raises(ManifestError, match=r"^r\.txt:2: this is no requirement"):
        parse("numpy\ntensorflow = 2.15\n", "r.txt", nothing_included)


def test_an_endless_chain_of_files_ends_with_an_error() -> None:
    with pytest.raises(ManifestError, match="more than 100 files include each other"):
        parse("-r x.txt", "r.txt", lambda path: f"-r x{path}")


def test_a_long_run_of_spaces_costs_no_more_than_its_length() -> None:
    (found,) = parse("tensorflow" + " " * 1_000_000 + "# why", "r.txt", nothing_included)
    assert found.written == "tensorflow"
