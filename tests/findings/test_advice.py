"""The advice of a report as a whole, over machines: one release, one fault counted once, nothing of any version."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import msgspec
import pytest

from tests.findings.advice import complaints, overwritten, unfit
from tests.findings.row_texts import FIRES as MESSAGES
from tests.findings.row_texts import NAMED_FIRST
from tests.findings.row_texts import TEXTS as ROWS
from tests.findings.rows_over_facts import FIRES, absent, damaged, off_path, packages, release, with_requirements
from tests.healthy import MATRIX, SITE, gpu, healthy, known, sonames, spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import Build, Candidate, CudnnFile, Facts, Unknown, value_or
from tfgpu_doctor.facts.report import Finding
from tfgpu_doctor.manifests import Image, Place
from tfgpu_doctor.plan.diagnosis import context_of, diagnose
from tfgpu_doctor.plan.manifest_signs import without_musl

# texts whose advice tests/systems/test_shells.py reads for Windows
TEXTS = [
    *(text for id_, rows in MESSAGES.items() if id_.startswith(("cu", "tf.", "xla.")) for text in rows.values()),
    *(text for _, text in NAMED_FIRST),
]
PIP = "/env/bin/python -m pip"
CPU_ONLY = known(Build(is_cuda_build=False, is_rocm_build=False), "tf.sysconfig.get_build_info()")


@pytest.mark.parametrize("day", [True, pytest.param(False, marks=pytest.mark.full)])
def test_advice_over_facts(day: bool) -> None:
    """One release, each fault once, nothing that a fact speaks against, and no search path overwritten.

    On clusters LD_LIBRARY_PATH leads to the driver. By day two rows of each finding; of texts, test_cases.py asks it.
    """
    new = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),))}
    machines = (release("2.21.0"), {**release("2.17.1"), **new}, {**release("2.17.1"), "gpus": Unknown("test")})
    turns, wrong = cycle((*machines, release("2.12.1"))), []
    for finding, rows in FIRES.items():
        for name, changes in rows[:2] if day else rows:
            machine = next(turns)
            facts = spoil(healthy(), {**machine, **changes})
            found = diagnose(facts, MATRIX).findings
            lines = (line for one in found for fix in one.fixes for line in fix.commands)
            before = value_or(facts.variables, {})
            why = [*unfit(facts, MATRIX, found), *(line for line in lines if overwritten(line, before))]
            # releases that do not go with the GPU have other fixes
            why += complaints(found) if "gpus" not in machine else ()
            wrong += [(finding, name, one) for one in why]
    assert wrong == [], "\n".join(map(str, wrong))


def test_an_overwritten_search_path_is_seen() -> None:
    """The check of the check."""
    assert all(map(overwritten, ROWS["overwritten"]))
    assert not any(map(overwritten, ROWS["not_overwritten"]))
    assert not overwritten("export LD_LIBRARY_PATH=/a:/b", {"LD_LIBRARY_PATH": "/a:/stubs:/b"})


@each("platform", ["linux_x86_64", "windows_amd64", "macos_arm64"])
def test_a_machine_of_which_nothing_is_known_gets_a_version(platform: str) -> None:
    facts = spoil(Facts(), {"python.wheel_platform": known(platform)})
    assert all("==" in one for one in context_of(facts, MATRIX).remedies.tensorflow)


def causes(**changes: Any) -> dict[str, Finding]:
    """Root causes, errors first; two underscores stand for the dot of a path."""
    facts = spoil(healthy(), {name.replace("__", "."): value for name, value in changes.items()})
    return {one.id: one for one in diagnose(facts, MATRIX).findings if one.root_cause}


def advised(**changes: Any) -> dict[str, tuple[str, ...]]:
    """Root causes, with the commands that are given first."""
    return {name: one.fixes[0].commands for name, one in causes(**changes).items()}


def with_library(component: str, **changes: Any) -> Any:
    """The libraries of a healthy machine, one of them changed."""
    every = (msgspec.structs.replace(one, **changes) if one.component == component else one for one in sonames())
    return known(tuple(every), "loader")


def test_two_tensorflows_are_one_fault() -> None:
    both = packages(tensorflow="2.20.0", tensorflow_cpu="2.16.2")
    version = {"tensorflow__version": known("2.16.2"), "tensorflow__build": CPU_ONLY}
    again = (f"{PIP} uninstall -y tensorflow tensorflow-cpu", f"{PIP} install 'tensorflow[and-cuda]==2.20.0'")
    assert advised(**version, python__packages=both, loader__sonames=absent()) == {"tf.package-conflict": again}


def test_the_release_that_is_there_comes_before_another() -> None:
    changes = {"tensorflow__version": known("2.17.1"), "tensorflow__distribution": known("tensorflow-cpu")}
    found = advised(**changes, tensorflow__build=CPU_ONLY, python__packages=packages(tensorflow_cpu="2.17.1"))
    assert [commands[-1] for commands in found.values()] == [f"{PIP} install 'tensorflow[and-cuda]==2.17.1'"]


def test_a_release_without_the_extra_keeps_its_version_and_gets_the_wheels_of_its_cuda() -> None:
    """The links are those of TensorFlow's own install guide of 2.13 to 2.16: its RUNPATH is its own folder."""
    found = advised(
        tensorflow__version=known("2.12.1"),
        python__version=known("3.11.7"),
        gpus=known((gpu(name="NVIDIA A40", compute_capability="8.6"),)),
        python__tensorflow_paths=known((f"{SITE}/tensorflow",)),
        loader__runpath=known((f"{SITE}/tensorflow/",)),
        loader__sonames=absent(),
    )
    assert found["cuda.missing"][0].startswith(f"{PIP} install tensorflow==2.12.1 nvidia-cublas-cu11 ")
    assert found["cuda.missing"][1] == f"(cd {SITE}/tensorflow && ln -sf ../nvidia/*/lib/*.so* .)"


def test_what_lasts_comes_before_what_ends_with_the_shell() -> None:
    """And a patch of the same release before links: 2.16.1 does not find its own extra, and 2.16.2 does."""
    found = causes(loader__sonames=off_path("cusolver"))
    fixes = found["cuda.lib-path"].fixes
    assert "tf.known-bug" not in found  # one fault of this release
    assert [fix.commands[-1].split()[0] for fix in fixes] == ["ln", "/env/bin/python", "export"]
    assert fixes[0].commands[0].startswith(f"ln -sf {SITE}/nvidia/cusolver/lib/*.so* {SITE}/nvidia/")
    older = advised(tensorflow__version=known("2.16.1"), loader__sonames=off_path("cublas"))
    assert older["cuda.lib-path"][0].endswith("'tensorflow[and-cuda]==2.16.2'")


def test_a_requirement_that_is_refused_leaves_damaged_files_a_fault_of_their_own() -> None:
    old = with_requirements("keras", "wrapt", "h5py", "libclang", "numpy", h5py="2.10.0")
    gone = known((damaged("tensorflow", "tensorflow/libtensorflow_framework.so.2"),))
    found = causes(**old, python__damaged=gone, tensorflow__checks=Unknown("not computed"))  # nothing was verified
    assert [(name, one.severity.value) for name, one in found.items()] == [
        ("tf.install-damaged", "error"),
        ("tf.package-conflict", "warning"),
    ]
    assert found["tf.package-conflict"].fixes[0].commands == (f"{PIP} install 'h5py>=3.10.0'",)


@each(
    ("image", "sibling"),
    [
        ("python:3.11-alpine3.19", "python:3.11-slim"),
        ("python:alpine", "python:slim"),
        ("alpine:3.20", "python:3.12-slim"),
        ("ghcr.io/astral-sh/uv:python3.12-alpine", "ghcr.io/astral-sh/uv:python3.12-bookworm-slim"),
        ("python:3.11-slim", None),
    ],
)
def test_images_of_alpine_have_a_sibling_with_glibc(image: str, sibling: str | None) -> None:
    name, _, tag = image.rpartition(":")
    assert without_musl(Image(name=name, tag=tag, place=Place("Dockerfile", 1), text=image)) == sibling


def test_titles_say_what_is_wrong() -> None:
    nine = known((CudnnFile(path="/c/libcudnn.so.9", version="9.5.1.17", source="name"),))
    other = with_library("cudnn", winner=None, candidates=(), other_versions=("/c/libcudnn.so.9",))
    cudnn = {"cudnn__runtime": Unknown("not loaded"), "cudnn__installed": nine}
    found = causes(**cudnn, tensorflow__version=known("2.17.1"), loader__sonames=other)
    title = found["cudnn.version-mismatch"].title
    assert title.startswith("cuDNN 9.5.1.17 is installed, but TensorFlow 2.17.1 needs 8.9")
    assert title.endswith("or a later 8.x")
    file = Candidate("/c/libcusolver.so.11", "RUNPATH", True, problem="needs libnvJitLink.so.12, not found")
    found = causes(loader__sonames=with_library("cusolver", winner=None, candidates=(file,)))
    assert found["cuda.missing"].title == "libnvJitLink.so.12 not installed, which libcusolver.so.11 needs"


def test_a_foreign_library_that_comes_first_is_taken_off_the_path() -> None:
    bad = Candidate("/opt/x/libcudnn.so.9", "LD_LIBRARY_PATH", True, problem="opens libcudnn_ops.so.9", effect="later")
    good = Candidate(f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "RUNPATH", True)
    path = known({"LD_LIBRARY_PATH": "/opt/x:/opt/y"})
    found = causes(loader__sonames=with_library("cudnn", winner=None, candidates=(bad, good)), variables=path)
    assert "finds first" in found["cudnn.lib-path"].title
    assert found["cudnn.lib-path"].fixes[0].commands == ("export LD_LIBRARY_PATH=/opt/y",)


def test_another_python_is_named_by_a_command_that_ends() -> None:
    changes = dict(FIRES["tf.wrong-env"])["the activated environment"]
    found = {one.id: one for one in diagnose(spoil(healthy(), changes), MATRIX).findings}
    assert " -c " in found["tf.wrong-env"].fixes[0].commands[0]
