"""The advice of a report as a whole: one release, one fault counted once, nothing of any version."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import msgspec

from tests.findings.advice import complaints, overwritten, pins, unfit
from tests.findings.row_texts import FIRES as MESSAGES
from tests.findings.row_texts import NAMED_FIRST
from tests.findings.row_texts import TEXTS as ROWS
from tests.findings.rows_over_facts import FIRES, absent, damaged, off_path, packages, release, with_requirements
from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, SITE, gpu, healthy, known, sonames, spoil
from tfgpu_doctor.facts.facts import Build, Candidate, CudnnFile, Facts, Unknown, value_or
from tfgpu_doctor.manifests import Image, Place
from tfgpu_doctor.plan.diagnosis import context_of, diagnose
from tfgpu_doctor.plan.manifest_signs import without_musl

# tests/test_cases.py asks the same of the collected reports
TEXTS = [
    *(text for id_, rows in MESSAGES.items() if id_.startswith(("cu", "tf.", "xla.")) for text in rows.values()),
    *(text for _, text in NAMED_FIRST),
]


def test_advice_over_facts() -> None:
    """One release, each fault once, nothing that a fact speaks against, and no search path overwritten.

    On clusters LD_LIBRARY_PATH leads to the driver. tests/findings/test_advice_of_texts.py asks the same of texts.
    """
    new = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),))}
    machines = (release("2.21.0"), {**release("2.17.1"), **new}, {**release("2.17.1"), "gpus": Unknown("test")})
    turns, wrong = cycle((*machines, release("2.12.1"))), []
    for finding, rows in FIRES.items():
        for name, changes in rows:
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


def test_advice_over_messages() -> None:
    wrong = []
    for text in TEXTS:
        found = findings(text)
        lines = (line for one in found for fix in one.fixes for line in fix.commands)
        wrong += [(text, why) for why in (*complaints(found), *filter(overwritten, lines))]
    assert wrong == [], "\n".join(map(str, wrong))


def test_an_overwritten_search_path_is_seen() -> None:
    """The check of the check."""
    assert all(map(overwritten, ROWS["overwritten"]))
    assert not any(map(overwritten, ROWS["not_overwritten"]))
    assert not overwritten("export LD_LIBRARY_PATH=/a:/b", {"LD_LIBRARY_PATH": "/a:/stubs:/b"})


def test_an_unpinned_tensorflow_is_seen() -> None:
    """The check of the check."""
    assert pins("python -m pip install 'tensorflow[and-cuda]'") == [""]
    assert pins("~/tf/bin/python -m pip install tensorflow numpy") == [""]
    assert pins("uv pip install --python /e/bin/python 'tensorflow[and-cuda]==2.17.1' 'numpy<2'") == ["==2.17.1"]
    assert pins("python -m pip install tensorflow-metal tf-keras") == []
    assert pins("python -m pip uninstall -y tensorflow") == []


def test_a_machine_of_which_nothing_is_known_gets_a_version() -> None:
    for platform in ("linux_x86_64", "windows_amd64", "macos_arm64"):
        facts = spoil(Facts(), {"python.wheel_platform": release("2.17.1", platform)["python.wheel_platform"]})
        assert all("==" in one for one in context_of(facts, MATRIX).remedies.tensorflow)


def advised(**changes: object) -> list[tuple[str, tuple[str, ...]]]:
    """Root causes, errors first, with the commands that are given first."""
    found = diagnose(spoil(healthy(), {name.replace("__", "."): value for name, value in changes.items()}), MATRIX)
    return [(one.id, one.fixes[0].commands) for one in found.findings if one.root_cause]


CPU_ONLY = known(Build(is_cuda_build=False, is_rocm_build=False), "tf.sysconfig.get_build_info()")


def test_two_tensorflows_are_one_fault() -> None:
    both = packages(tensorflow="2.20.0", tensorflow_cpu="2.16.2")
    version = {f"tensorflow__{name}": value for name, value in (("version", known("2.16.2")), ("build", CPU_ONLY))}
    found = advised(**version, python__packages=both, loader__sonames=absent())
    pip = "/env/bin/python -m pip"
    again = f"{pip} install 'tensorflow[and-cuda]==2.20.0'"
    assert found == [("tf.package-conflict", (f"{pip} uninstall -y tensorflow tensorflow-cpu", again))]


def test_the_release_that_is_there_comes_before_another() -> None:
    changes = {"tensorflow__version": known("2.17.1"), "tensorflow__distribution": known("tensorflow-cpu")}
    ((_, commands),) = advised(
        **changes, tensorflow__build=CPU_ONLY, python__packages=packages(tensorflow_cpu="2.17.1")
    )
    assert commands[-1].endswith("'tensorflow[and-cuda]==2.17.1'")


def test_a_release_without_the_extra_keeps_its_version_and_gets_the_wheels_of_its_cuda() -> None:
    """The links are those of TensorFlow's own install guide of 2.13 to 2.16: its RUNPATH is its own folder."""
    changes = {"tensorflow__version": known("2.12.1"), "python__version": known("3.11.7")}
    changes["gpus"] = known((gpu(name="NVIDIA A40", compute_capability="8.6"),))
    own = {
        "python__tensorflow_paths": known((f"{SITE}/tensorflow",)),
        "loader__runpath": known((f"{SITE}/tensorflow/",)),
    }
    found = dict(advised(**changes, **own, loader__sonames=absent()))
    assert found["cuda.missing"][0].startswith("/env/bin/python -m pip install tensorflow==2.12.1 nvidia-cublas-cu11 ")
    assert found["cuda.missing"][1] == f"(cd {SITE}/tensorflow && ln -sf ../nvidia/*/lib/*.so* .)"


def test_what_lasts_comes_before_what_ends_with_the_shell() -> None:
    facts = spoil(healthy(), {"loader.sonames": off_path("cusolver")})
    found = {one.id: one for one in diagnose(facts, MATRIX).findings}
    path = found["cuda.lib-path"]
    assert not found["tf.known-bug"].root_cause  # one fault of this release
    assert [fix.commands[-1].split()[0] for fix in path.fixes] == ["ln", "/env/bin/python", "export"]
    assert path.fixes[0].commands[0].startswith(f"ln -sf {SITE}/nvidia/cusolver/lib/*.so* {SITE}/nvidia/")


def test_a_patch_of_the_same_release_comes_before_links() -> None:
    """2.16.1 does not find its own extra, and 2.16.2 does."""
    facts = spoil(healthy(), {"tensorflow.version": known("2.16.1"), "loader.sonames": off_path("cublas")})
    path = next(one for one in diagnose(facts, MATRIX).findings if one.id == "cuda.lib-path")
    assert path.fixes[0].commands[0].endswith("'tensorflow[and-cuda]==2.16.2'")


def test_a_requirement_that_is_refused_leaves_damaged_files_a_fault_of_their_own() -> None:
    old = with_requirements("keras", "wrapt", "h5py", "libclang", "numpy", h5py="2.10.0")
    gone = known((damaged("tensorflow", "tensorflow/libtensorflow_framework.so.2"),))
    edits = {**old, "python.damaged": gone, "tensorflow.checks": Unknown("not computed")}  # nothing was verified
    found = diagnose(spoil(healthy(), edits), MATRIX).findings
    assert [(one.id, one.severity.value) for one in found if one.root_cause] == [
        ("tf.install-damaged", "error"),
        ("tf.package-conflict", "warning"),
    ]
    assert found[1].fixes[0].commands == ("/env/bin/python -m pip install 'h5py>=3.10.0'",)


PIP_OF_3_6 = """\
Could not find a version that satisfies the requirement tensorflow=={wanted} (from versions: 1.13.1, 1.13.2, {last})
No matching distribution found for tensorflow=={wanted}"""


def test_a_pip_that_does_not_read_the_tag_is_updated() -> None:
    first = findings(PIP_OF_3_6.format(wanted="2.6.2", last="1.14.0"))[0]
    assert first.title == "pip does not find the wheels of TensorFlow 2.6.2"
    assert first.fixes[0].commands == ("python3 -m pip install --upgrade pip",)
    # where the wheels of that Python end, another pip offers no more
    assert "pip does not find" not in findings(PIP_OF_3_6.format(wanted="2.12.0", last="2.6.2"))[0].title


def test_alpine_needs_another_system_and_no_other_python() -> None:
    for text in ("FROM python:3.11-alpine", "fetch musllinux_1_2_x86_64.whl", "NAME: Alpine Linux v3.20"):
        log = f"{text}\nERROR: No matching distribution found for tensorflow (from versions: none)"
        log += "\nERROR: Could not find a version that satisfies the requirement tensorflow (from versions: none)"
        first = findings(log)[0]
        assert first.title == "There is no TensorFlow wheel for Alpine Linux"
        assert "-slim" in first.fixes[0].commands[0]


def test_images_of_alpine_have_a_sibling_with_glibc() -> None:
    siblings = {
        "python:3.11-alpine3.19": "python:3.11-slim",
        "python:alpine": "python:slim",
        "alpine:3.20": "python:3.12-slim",
        "ghcr.io/astral-sh/uv:python3.12-alpine": "ghcr.io/astral-sh/uv:python3.12-bookworm-slim",
        "python:3.11-slim": None,
    }
    for image, sibling in siblings.items():
        name, _, tag = image.rpartition(":")
        assert without_musl(Image(name=name, tag=tag, place=Place("Dockerfile", 1), text=image)) == sibling, image


def with_library(component: str, **changes: object) -> Any:
    """The libraries of a healthy machine, one of them changed."""
    every = (msgspec.structs.replace(one, **changes) if one.component == component else one for one in sonames())
    return known(tuple(every), "loader")


def titles(**changes: Any) -> dict[str, str]:
    facts = spoil(healthy(), {name.replace("__", "."): value for name, value in changes.items()})
    return {one.id: one.title for one in diagnose(facts, MATRIX).findings}


def test_titles_say_what_is_wrong() -> None:
    nine = known((CudnnFile(path="/c/libcudnn.so.9", version="9.5.1.17", source="name"),))
    other = with_library("cudnn", winner=None, candidates=(), other_versions=("/c/libcudnn.so.9",))
    changes = {
        "tensorflow__version": known("2.17.1"),
        "cudnn__runtime": Unknown("not loaded"),
        "cudnn__installed": nine,
    }
    found = titles(**changes, loader__sonames=other)
    assert found["cudnn.version-mismatch"].startswith("cuDNN 9.5.1.17 is installed, but TensorFlow 2.17.1 needs 8.9")
    assert found["cudnn.version-mismatch"].endswith("or a later 8.x")
    file = Candidate("/c/libcusolver.so.11", "RUNPATH", True, problem="needs libnvJitLink.so.12, not found")
    found = titles(loader__sonames=with_library("cusolver", winner=None, candidates=(file,)))
    assert found["cuda.missing"] == "libnvJitLink.so.12 not installed, which libcusolver.so.11 needs"


def test_a_foreign_library_that_comes_first_is_taken_off_the_path() -> None:
    bad = Candidate("/opt/x/libcudnn.so.9", "LD_LIBRARY_PATH", True, problem="opens libcudnn_ops.so.9", effect="later")
    good = Candidate(f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "RUNPATH", True)
    both = with_library("cudnn", winner=None, candidates=(bad, good))
    found = dict(advised(loader__sonames=both, variables=known({"LD_LIBRARY_PATH": "/opt/x:/opt/y"})))
    assert found["cudnn.lib-path"] == ("export LD_LIBRARY_PATH=/opt/y",)
    assert "finds first" in titles(loader__sonames=both)["cudnn.lib-path"]


def test_another_python_is_named_by_a_command_that_ends() -> None:
    facts = spoil(healthy(), dict(FIRES["tf.wrong-env"])["the activated environment"])
    found = next(one for one in diagnose(facts, MATRIX).findings if one.id == "tf.wrong-env")
    assert " -c " in found.fixes[0].commands[0]
