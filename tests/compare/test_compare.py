"""What changed, and which change explains what is new: the machine of the tests before and after it was spoiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.facts.test_report import report
from tests.findings.rows_over_facts import (
    FIRES,
    NO_DRIVER,
    NO_GPU_LISTED,
    NO_GPU_USED,
    WHY,
    absent,
    call,
    off_path,
    phases,
)
from tests.healthy import MATRIX, SITE, gpu, known, sonames
from tests.tiers import usual
from tfgpu_doctor.compare.comparison import compare, exit_code, facts_read
from tfgpu_doctor.compare.records import Comparison, Explanation
from tfgpu_doctor.facts.facts import (
    NOT_ASKED,
    Facts,
    LibraryFile,
    Package,
    Unknown,
)
from tfgpu_doctor.facts.report import Report
from tfgpu_doctor.facts.schemas import FOLDER

WHEELS = ("nvidia-cublas-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12")


def compared(good: dict[str, Any], bad: dict[str, Any], **options: Any) -> Comparison:
    return compare(report(good), report(bad), MATRIX, "2026-11-21T00:00:00Z", **options)


def packages(*left_out: str, **versions: str) -> Any:
    """Packages of an environment with CUDA from pip; an underscore stands for a hyphen."""
    here = {"tensorflow": "2.21.0", "numpy": "2.3.1", "protobuf": "6.31.1", "keras": "3.12.0"}
    here |= dict.fromkeys(WHEELS, "12.9.1") | {name.replace("_", "-"): one for name, one in versions.items()}
    found = (Package(name=name, version=one, location=SITE) for name, one in here.items() if name not in left_out)
    return known(tuple(found), "installed packages")


def without(*components: str) -> Any:
    """Libraries of the machine of the tests, those of some components absent; they lay in the wheels' folders."""
    folders = {"cudart": "cuda_runtime", "cublas": "cublas", "cudnn": "cudnn"}
    here = []
    for one in sonames():
        path = f"{SITE}/nvidia/{folders.get(one.component, one.component)}/lib/{one.soname}"
        place = msgspec.structs.replace(one.candidates[0], path=path)
        gone = one.component in components
        here.append(msgspec.structs.replace(one, candidates=() if gone else (place,), winner=None if gone else path))
    return known(tuple(here), "loader")


def explained(comparison: Comparison, finding: str) -> Explanation:
    return next(one for one in comparison.explanations if one.finding == finding)


def texts(comparison: Comparison) -> list[str]:
    return [one.text for one in comparison.changes]


OLD = {"tensorflow.version": known("2.15.1"), "loader.sonames": known(sonames("2.15.1"), "loader")}
NO_CUDNN = {"cudnn.installed": known(()), "cudnn.runtime": WHY}

# what was done → (before, after, finding, what explains it, how)
DONE: dict[str, tuple[dict[str, Any], dict[str, Any], str, set[str], str]] = {
    "pip install numpy": (
        {**OLD, "python.packages": packages(tensorflow="2.15.1", keras="2.15.0", protobuf="4.25.3", numpy="1.26.4")},
        {
            **OLD,
            "python.packages": packages(tensorflow="2.15.1", keras="2.15.0", protobuf="4.25.3", numpy="2.1.0"),
            "tensorflow.phases": phases("import", "raised", exception="ImportError: numpy.core failed"),
        },
        "tf.abi-numpy",
        {"python.packages.numpy"},
        "change",
    ),
    "an older driver": (
        {},
        {"driver.version": known("470.256.02"), "driver.kernel_module": known("470.256.02")},
        "driver.too-old",
        {"driver.version"},
        "change",
    ),
    "a driver updated under a loaded module": (
        {},
        {
            "driver.nvml_init": call(18, "Driver/library version mismatch"),
            "driver.libcuda": known((LibraryFile(path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", version="580.1"),)),
            **NO_GPU_USED,
        },
        "driver.version-mismatch",
        {"driver.libcuda"},
        "change",
    ),
    "a variable that hides the card": (
        {},
        {"variables": known({"CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"}), **NO_GPU_USED},
        "gpu.hidden",
        {"variables.CUDA_VISIBLE_DEVICES"},
        "change",
    ),
    "two variables that hide it, each enough": (
        {"host.container": known("docker")},
        {
            "host.container": known("docker"),
            "variables": known({"CUDA_VISIBLE_DEVICES": "-1", "NVIDIA_VISIBLE_DEVICES": "void"}),
            **NO_GPU_USED,
        },
        "gpu.hidden",
        {"variables.CUDA_VISIBLE_DEVICES", "variables.NVIDIA_VISIBLE_DEVICES"},
        "changes",
    ),
    "a folder on LD_LIBRARY_PATH": (
        {},
        {
            "variables": known({"LD_LIBRARY_PATH": "/opt/broken"}),
            "loader.sonames": off_path("cudnn", problem="empty file"),
            "cudnn.runtime": WHY,
            **NO_GPU_USED,
        },
        "cudnn.lib-path",
        {"loader.sonames.libcudnn.so.9"},
        "change",
    ),
    "pip uninstall nvidia-cudnn-cu12": (
        {"python.packages": packages(), "loader.sonames": without()},
        {
            "python.packages": packages("nvidia-cudnn-cu12"),
            "loader.sonames": without("cudnn"),
            **NO_CUDNN,
            **NO_GPU_USED,
        },
        "cudnn.missing",
        {"loader.sonames.libcudnn.so.9"},
        "change",
    ),
    "pip uninstall of three wheels": (
        {"python.packages": packages(), "loader.sonames": without()},
        {
            "python.packages": packages(*WHEELS),
            "loader.sonames": without("cublas", "cudart", "cudnn"),
            **NO_CUDNN,
            **NO_GPU_USED,
        },
        "cuda.missing",
        {"loader.sonames.libcublas.so.12", "loader.sonames.libcudart.so.12"},
        "changes",
    ),
    "another cuDNN": (
        {"python.packages": packages(nvidia_cudnn_cu12="9.3.0.75"), "loader.sonames": without()},
        {
            "python.packages": packages(nvidia_cudnn_cu12="9.1.0.70"),
            "loader.sonames": without(),
            "cudnn.runtime": known("9.1.0"),
            **NO_GPU_USED,
        },
        "cudnn.version-mismatch",
        {"cudnn.runtime"},
        "observed",
    ),
    "a card for another": (
        {},
        {"gpus": known((gpu(name="Tesla K80", compute_capability="3.7"),))},
        "gpu.arch-too-old",
        {"gpus.0.name", "gpus.0.compute_capability"},
        "change",
    ),
    "a crash that nobody can explain": (
        {},
        {"tensorflow.phases": phases("import", "died", signal="SIGSEGV")},
        "tf.import-failed",
        {"tensorflow.phases.import"},
        "observed",
    ),
    "no TensorFlow any more": (
        {"python.packages": packages()},
        {
            "python.packages": packages("tensorflow"),
            "python.tensorflow_paths": known(()),
            "tensorflow.version": Unknown("not installed"),
            **NO_GPU_USED,
        },
        "tf.not-installed",
        {"python.packages.tensorflow", "python.tensorflow_paths"},
        "changes",
    ),
}


def test_the_change_that_explains_what_is_new_explains_what_is_gone() -> None:
    wrong = []
    for name, (before, after, finding, changes, how) in DONE.items():
        for comparison, status, code in ((compared(before, after), "new", 1), (compared(after, before), "gone", 0)):
            found = explained(comparison, finding)
            named = {change for one in comparison.explanations for change in one.changes}
            checks = {
                "status": next(one for one in comparison.findings if one.id == finding).status == status,
                "changes": changes <= set(found.changes),
                "how": found.how == how,
                "weight": {one.id for one in comparison.changes if one.weight == "explains"} == named,
                "exit code": (exit_code(comparison, "error"), exit_code(comparison, "never")) == (code, 0),
            }
            wrong += [(name, status, check, found) for check, holds in checks.items() if not holds]
    assert wrong == []


def test_innocent_changes_explain_nothing() -> None:
    innocent = {"TF_ENABLE_ONEDNN_OPTS": "0", "OMP_NUM_THREADS": "4"}
    before = {"python.packages": packages(wrapt="1.0")}
    after = {
        "variables": known({**innocent, "CUDA_VISIBLE_DEVICES": ""}),
        "python.packages": packages(wrapt="2.0", h5py="3.1"),
        "host.kernel": known("6.9.0"),
        "driver.version": known("575.57.08"),
    }
    comparison = compared(before, after)
    assert explained(comparison, "gpu.hidden").changes == ("variables.CUDA_VISIBLE_DEVICES",)
    assert texts(comparison) == [
        "kernel 6.8.0-45-generic → 6.9.0",
        "driver 570.86.15 → 575.57.08",
        "wrapt 1.0 → 2.0",
        "h5py added (3.1)",
        "TF_ENABLE_ONEDNN_OPTS set to 0",
        "OMP_NUM_THREADS set to 4",
        "CUDA_VISIBLE_DEVICES set to nothing",
    ]
    weights = {one.id: one.weight for one in comparison.changes}
    assert weights["variables.OMP_NUM_THREADS"] == weights["python.packages.wrapt"] == "can-matter"


def test_of_two_findings_each_has_its_change() -> None:
    """A Blackwell card under TensorFlow 2.15, and an older driver beside it."""
    card = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),), "NVML")}
    before = {"python.packages": packages(tensorflow="2.21.0")}
    comparison = compared(before, {**card, "driver.version": known("450.80.02")})
    assert set(explained(comparison, "gpu.arch-too-new").changes) == {"gpus.0.name", "gpus.0.compute_capability"}
    assert explained(comparison, "driver.too-old").changes == ("driver.version",)


def test_in_a_container_that_got_no_gpu_the_container_is_named_too() -> None:
    before = {"host.container": known("none")}
    after = {"host.container": known("docker", "/.dockerenv"), **NO_DRIVER, "driver.device_nodes": known((), "/dev")}
    found = explained(compared(before, {**after, **NO_GPU_USED}), "container.no-gpu")
    assert found.how == "changes" and "host.container" in found.changes


def test_a_finding_that_good_could_not_judge_is_not_called_new() -> None:
    for unknown in (WHY, NOT_ASKED):
        comparison = compared({"tensorflow.devices": unknown}, {"tensorflow.devices": NO_GPU_LISTED})
        assert [(one.id, one.status) for one in comparison.findings] == [("gpu.not-visible", "unjudged")]
        assert comparison.explanations == ()
        assert (exit_code(comparison, "error"), exit_code(comparison, "never")) == (3, 0)


def test_a_field_of_a_gpu_that_good_did_not_examine_is_no_change_either() -> None:
    lost = {"gpus": known((gpu(fault="GPU is lost"),), "NVML")}
    comparison = compared({}, lost)
    assert [(one.id, one.status) for one in comparison.findings] == [("gpu.fault", "unjudged")]
    assert [(one.id, one.status) for one in comparison.changes] == [("gpus.0.fault", "unexamined")]
    fine = {"gpus": known((msgspec.structs.replace(gpu(), fault=Unknown("none")),), "NVML")}
    comparison = compared(fine, lost)
    assert texts(comparison) == ["GPU 0: fault none → GPU is lost"]
    assert explained(comparison, "gpu.fault").changes == ("gpus.0.fault",)


def test_a_finding_over_what_good_did_not_examine_is_not_called_new() -> None:
    comparison = compared(
        {"gpus": WHY, "driver.version": WHY}, {"gpus": known((gpu(mig_mode=True, mig_instances=()),))}
    )
    assert [(one.id, one.status) for one in comparison.findings] == [("gpu.mig", "unjudged")]


def test_consequences_follow_and_are_not_explained_again() -> None:
    after = {
        "loader.sonames": absent(),
        **NO_CUDNN,
        "tensorflow.devices": NO_GPU_LISTED,
        "tensorflow.checks": known(()),
    }
    comparison = compared({}, after)
    follows = {one.id: one.follows_from for one in comparison.findings}
    assert follows == {"cuda.missing": None, "cudnn.missing": "cuda.missing", "gpu.not-visible": "cuda.missing"}
    assert [one.finding for one in comparison.explanations] == ["cuda.missing"]


def test_findings_of_both_remain() -> None:
    hot = {"gpus": known((gpu(throttle_reasons=("hw_thermal_slowdown",)),), "NVML")}
    comparison = compared(hot, {**hot, "host.kernel": known("6.9.0")})
    assert [(one.id, one.status, one.inside) for one in comparison.findings] == [("gpu.throttled", "remains", "both")]
    assert exit_code(comparison, "warning") == 0


def test_a_number_of_gpus_can_be_asked_for() -> None:
    two, one = {"gpus": known((gpu(), gpu(1)), "NVML")}, {"gpus": known((gpu(),), "NVML")}
    devices = {"tensorflow.devices": WHY, "tensorflow.checks": WHY}
    comparison = compared({**two, **devices}, {**one, **devices}, require_gpus=2)
    assert explained(comparison, "gpu.fewer-than-required").changes == ("gpus.1",)


def test_reports_of_another_version_are_diagnosed_anew_with_a_note() -> None:
    old = msgspec.structs.replace(report(FIRES["cuda.missing"][0][1]), findings=())
    comparison = compare(report(), old, MATRIX, "now", names=("a.json", "b.json"))
    assert [note for note in comparison.notes if note.startswith(("cuda.missing, ", "cuda.missing:"))]
    assert "found in b.json by this version, but not reported by tfgpu" in comparison.notes[0]
    assert compared({}, {}).notes == ()


@pytest.mark.parametrize("start", usual(range(3), lambda start: start == 0))
def test_every_machine_can_be_compared_both_ways(start: int) -> None:
    schema = jsonschema.Draft202012Validator(json.loads((FOLDER / "compare-1.json").read_text(encoding="utf-8")))
    for finding, rows in list(FIRES.items())[start::3]:
        for before, after in (({}, rows[0][1]), (rows[0][1], {})):
            comparison = compared(before, after)
            schema.validate(json.loads(comparison.to_json()))
            assert msgspec.json.decode(comparison.to_json(), type=Comparison) == comparison
            known_ids = {one.id for one in comparison.changes}
            roots = {one.id for one in comparison.findings if one.status in ("new", "gone") and one.root_cause}
            assert {one.finding for one in comparison.explanations} >= roots, finding
            assert all(set(one.changes) <= known_ids for one in comparison.explanations), finding


def test_findings_read_what_their_inputs_are_derived_from() -> None:
    assert {"python.packages", "tensorflow.version"} <= facts_read("tf.abi-numpy")
    assert {"gpus", "tensorflow.devices", "tensorflow.version"} <= facts_read("gpu.arch-too-new")
    assert {"loader.sonames"} <= facts_read("cuda.missing")
    assert {"messages"} <= facts_read("memory.oom")


def test_hundreds_of_changes_do_not_hide_the_one() -> None:
    """Hundreds of packages and variables differ; the rules read all of them, and one of each matters."""
    many = {f"package_{number}": "1" for number in range(300)}
    old = {**OLD, "python.packages": packages(tensorflow="2.15.1", keras="2.15.0", numpy="1.26.4", **many)}
    new = {
        **OLD,
        "python.packages": packages(tensorflow="2.15.1", keras="2.15.0", **dict.fromkeys(many, "2"), numpy="2.1.0"),
        "tensorflow.phases": phases("import", "raised", exception="ImportError: numpy.core failed"),
        "variables": known({**{f"NCCL_{number}": "1" for number in range(90)}, "CUDA_VISIBLE_DEVICES": "-1"}),
    }
    comparison = compared(old, new)
    assert explained(comparison, "tf.abi-numpy").changes == ("python.packages.numpy",)
    assert explained(comparison, "gpu.hidden").changes == ("variables.CUDA_VISIBLE_DEVICES",)


def saved(name: str) -> Report:
    data = (Path(__file__).parents[1] / "captures" / "compare" / name).read_bytes()
    return report(facts=msgspec.json.decode(data, type=Facts))


def test_one_package_that_was_changed_is_the_cause() -> None:
    """TensorFlow 2.21.0 imports with protobuf 7.36.2, and fails with 4.25.3 in the same environment."""
    comparison = compare(saved("protobuf-good.json"), saved("protobuf-bad.json"), MATRIX, "now")
    found = explained(comparison, "tf.abi-protobuf")
    assert (found.how, found.changes) == ("change", ("python.packages.protobuf",))
    assert [one.text for one in comparison.changes if one.weight == "explains"] == ["protobuf 7.36.2 → 4.25.3"]
    assert not [one.text for one in comparison.changes if "tfgpu_doctor" in one.text]
    back = compare(saved("protobuf-bad.json"), saved("protobuf-good.json"), MATRIX, "now")
    assert explained(back, "tf.abi-protobuf").changes == ("python.packages.protobuf",)
