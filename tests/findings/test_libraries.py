"""A file that cannot be loaded and comes before pip's packages: installing those does not help, so it is a cause."""

from __future__ import annotations

import msgspec

from tests.healthy import MATRIX, healthy, known, sonames, spoil
from tests.tables import each
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.records.facts import Candidate, Facts, Soname, Unknown
from tfgpu_doctor.records.report import Finding

PARTS = "needs libcudnn_ops.so.9, not found"
CUBLAS = "needs libcublasLt.so.12, not found"


def without_cuda(component: str, problem: str, via: str = "LD_LIBRARY_PATH") -> Facts:
    """A plain `pip install tensorflow`, and one library that cannot be loaded."""

    def spoiled(library: Soname) -> Soname:
        file = Candidate(path=f"/opt/other/{library.soname}", via=via, reachable=True, problem=problem)
        found = (file,) if library.component == component else ()
        return msgspec.structs.replace(library, candidates=found, winner=None)

    changes = {
        "loader.sonames": known(tuple(map(spoiled, sonames()))),
        "variables": known({"LD_LIBRARY_PATH": "/opt/other:/opt/rest"}),
        "cudnn.installed": known(()),
        "cudnn.runtime": Unknown("it cannot be loaded"),
    }
    return spoil(healthy(), changes)


def causes(facts: Facts) -> dict[str, Finding]:
    return {one.id: one for one in diagnose(facts, MATRIX).findings if one.root_cause}


@each(
    ("component", "problem", "finding"),
    [
        ("cudnn", "empty file", "cudnn.lib-path"),
        ("cudnn", PARTS, "cudnn.dep-missing"),
        ("cudart", "empty file", "cuda.lib-path"),
    ],
)
def test_what_hides_the_wheels_is_a_cause_of_its_own(component: str, problem: str, finding: str) -> None:
    found = causes(without_cuda(component, problem))
    assert {"cuda.missing", finding} <= set(found)
    assert found[finding].evidence[0].source.startswith("/opt/other/")
    assert "loader does not find" not in found[finding].title, "it finds another one"


@each(
    ("problem", "via"),
    [
        (CUBLAS, "LD_LIBRARY_PATH"),  # installing CUDA brings it
        ("empty file", "ldconfig"),  # the wheels come before it
        (PARTS, "ldconfig"),
    ],
)
def test_what_installing_cuda_heals_is_a_consequence(problem: str, via: str) -> None:
    found = causes(without_cuda("cudnn", problem, via))
    assert "cuda.missing" in found
    assert not [one for one in found if one.startswith("cudnn.")]


def test_the_damaged_file_is_renamed_and_a_foreign_one_leaves_the_path() -> None:
    damaged = causes(without_cuda("cudnn", "empty file"))["cudnn.lib-path"].fixes[0].commands
    assert damaged == ("mv /opt/other/libcudnn.so.9 /opt/other/libcudnn.so.9.broken",)
    foreign = causes(without_cuda("cudnn", PARTS))["cudnn.dep-missing"].fixes[0].commands
    assert foreign == ("export LD_LIBRARY_PATH=/opt/rest",)
