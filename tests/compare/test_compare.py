"""What changed between two reports, in which words, and which change explains what is new: the machine of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from tests.cli.runner import tfgpu
from tests.facts.test_report import report
from tests.findings.rows_over_facts import (
    FIRES,
    NO_DRIVER,
    NO_GPU_LISTED,
    NO_GPU_USED,
    WHY,
    absent,
    env,
    off_path,
    packages,
    phases,
)
from tests.healthy import MATRIX, gpu, healthy, known, sonames
from tests.tables import each
from tests.tiers import usual
from tfgpu_doctor.compare.comparison import compare, exit_code, facts_read
from tfgpu_doctor.compare.records import Comparison, Explanation
from tfgpu_doctor.facts.facts import NOT_ASKED, Facts, Message, Unknown
from tfgpu_doctor.facts.report import Report, load_report
from tfgpu_doctor.facts.schemas import FOLDER


def compared(good: dict[str, Any], bad: dict[str, Any], **options: Any) -> Comparison:
    return compare(report(good), report(bad), MATRIX, "2026-11-21T00:00:00Z", **options)


def explained(comparison: Comparison, finding: str) -> Explanation:
    return next(one for one in comparison.explanations if one.finding == finding)


def texts(comparison: Comparison) -> list[str]:
    return [one.text for one in comparison.changes]


def statuses(comparison: Comparison) -> list[tuple[str, str]]:
    return [(one.id, one.status) for one in comparison.findings]


def gpus(*cards: Any) -> dict[str, Any]:
    return {"gpus": known(cards or (gpu(),), "NVML")}


# ------------------------------------------------------------------------------------------- what explains a finding

OLD = {"tensorflow.version": known("2.15.1"), "loader.sonames": known(sonames("2.15.1"), "loader")}
NUMPY_1 = {"tensorflow": "2.15.1", "keras": "2.15.0", "protobuf": "4.25.3", "numpy": "1.26.4"}
NUMPY_FAILS = {"tensorflow.phases": phases("import", "raised", exception="ImportError: numpy.core failed")}
DOCKER = {"host.container": known("docker")}
NO_CUDNN = {"cudnn.installed": known(()), "cudnn.runtime": WHY}

# what was done → (before, after, finding, what explains it, how)
DONE: dict[str, tuple[dict[str, Any], dict[str, Any], str, set[str], str]] = {
    "pip install numpy": (
        {**OLD, "python.packages": packages(**NUMPY_1)},
        {**OLD, "python.packages": packages(**{**NUMPY_1, "numpy": "2.1.0"}), **NUMPY_FAILS},
        "tf.abi-numpy",
        {"python.packages.numpy"},
        "change",
    ),
    "two variables that hide it, each enough": (
        DOCKER,
        {**DOCKER, **env(CUDA_VISIBLE_DEVICES="-1", NVIDIA_VISIBLE_DEVICES="void"), **NO_GPU_USED},
        "gpu.hidden",
        {"variables.CUDA_VISIBLE_DEVICES", "variables.NVIDIA_VISIBLE_DEVICES"},
        "changes",
    ),
    "a folder on LD_LIBRARY_PATH": (
        {},
        {
            **env(LD_LIBRARY_PATH="/opt/broken"),
            "loader.sonames": off_path("cudnn", problem="empty file"),
            "cudnn.runtime": WHY,
            **NO_GPU_USED,
        },
        "cudnn.lib-path",
        {"loader.sonames.libcudnn.so.9"},
        "change",
    ),
    "pip uninstall of three wheels": (
        {},
        {"loader.sonames": absent("cublas", "cudart", "cudnn"), **NO_CUDNN, **NO_GPU_USED},
        "cuda.missing",
        {"loader.sonames.libcublas.so.12", "loader.sonames.libcudart.so.12"},
        "changes",
    ),
    "another cuDNN": (
        {"python.packages": packages(tensorflow="2.21.0", nvidia_cudnn_cu12="9.3.0.75")},
        {
            "python.packages": packages(tensorflow="2.21.0", nvidia_cudnn_cu12="9.1.0.70"),
            "cudnn.runtime": known("9.1.0"),
            **NO_GPU_USED,
        },
        "cudnn.version-mismatch",
        {"cudnn.runtime"},
        "observed",
    ),
    "a card for another": (
        {},
        gpus(gpu(name="Tesla K80", compute_capability="3.7")),
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
}


@each("name", DONE)
def test_the_change_that_explains_what_is_new_explains_what_is_gone(name: str) -> None:
    before, after, finding, changes, how = DONE[name]
    for comparison, status, code in ((compared(before, after), "new", 1), (compared(after, before), "gone", 0)):
        found = explained(comparison, finding)
        named = {change for one in comparison.explanations for change in one.changes}
        assert (finding, status) in statuses(comparison)
        assert changes <= set(found.changes) and found.how == how
        assert {one.id for one in comparison.changes if one.weight == "explains"} == named
        assert (exit_code(comparison, "error"), exit_code(comparison, "never")) == (code, 0)


def test_innocent_changes_explain_nothing() -> None:
    after = {
        **env(TF_ENABLE_ONEDNN_OPTS="0", OMP_NUM_THREADS="4", CUDA_VISIBLE_DEVICES=""),
        "python.packages": packages(tensorflow="2.21.0", wrapt="2.0", h5py="3.1"),
        "host.kernel": known("6.9.0"),
        "driver.version": known("575.57.08"),
    }
    comparison = compared({"python.packages": packages(tensorflow="2.21.0", wrapt="1.0")}, after)
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
    """A Blackwell card, and an older driver beside it."""
    card = gpus(gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"))
    comparison = compared({}, {**card, "driver.version": known("450.80.02")})
    assert set(explained(comparison, "gpu.arch-too-new").changes) == {"gpus.0.name", "gpus.0.compute_capability"}
    assert explained(comparison, "driver.too-old").changes == ("driver.version",)


def test_in_a_container_that_got_no_gpu_the_container_is_named_too() -> None:
    after = {"host.container": known("docker", "/.dockerenv"), **NO_DRIVER, "driver.device_nodes": known((), "/dev")}
    found = explained(compared({}, {**after, **NO_GPU_USED}), "container.no-gpu")
    assert found.how == "changes" and "host.container" in found.changes


@each(
    ("good", "bad", "finding"),
    [
        ({"tensorflow.devices": WHY}, {"tensorflow.devices": NO_GPU_LISTED}, "gpu.not-visible"),
        ({"tensorflow.devices": NOT_ASKED}, {"tensorflow.devices": NO_GPU_LISTED}, "gpu.not-visible"),
        ({}, gpus(gpu(fault="GPU is lost")), "gpu.fault"),
        ({"gpus": WHY, "driver.version": WHY}, gpus(gpu(mig_mode=True, mig_instances=())), "gpu.mig"),
    ],
)
def test_a_finding_over_what_good_did_not_examine_is_not_called_new(
    good: dict[str, Any], bad: dict[str, Any], finding: str
) -> None:
    comparison = compared(good, bad)
    assert statuses(comparison) == [(finding, "unjudged")] and comparison.explanations == ()
    assert {one.status for one in comparison.changes} <= {"unexamined"}
    assert (exit_code(comparison, "warning"), exit_code(comparison, "never")) == (3, 0)


def test_a_field_of_a_gpu_that_good_examined_is_a_change() -> None:
    fine = gpus(replace(gpu(), fault=Unknown("none")))
    comparison = compared(fine, gpus(gpu(fault="GPU is lost")))
    assert texts(comparison) == ["GPU 0: fault none → GPU is lost"]
    assert explained(comparison, "gpu.fault").changes == ("gpus.0.fault",)


def test_consequences_follow_and_are_not_explained_again() -> None:
    after = {"loader.sonames": absent(), **NO_CUDNN, **NO_GPU_USED}
    comparison = compared({}, after)
    follows = {one.id: one.follows_from for one in comparison.findings}
    assert follows == {"cuda.missing": None, "cudnn.missing": "cuda.missing", "gpu.not-visible": "cuda.missing"}
    assert [one.finding for one in comparison.explanations] == ["cuda.missing"]


def test_findings_of_both_remain() -> None:
    hot = gpus(gpu(throttle_reasons=("hw_thermal_slowdown",)))
    comparison = compared(hot, {**hot, "host.kernel": known("6.9.0")})
    assert [(one.id, one.status, one.inside) for one in comparison.findings] == [("gpu.throttled", "remains", "both")]
    assert exit_code(comparison, "warning") == 0


def test_a_number_of_gpus_can_be_asked_for() -> None:
    devices = {"tensorflow.devices": WHY, "tensorflow.checks": WHY}
    comparison = compared({**gpus(gpu(), gpu(1)), **devices}, {**gpus(), **devices}, require_gpus=2)
    assert explained(comparison, "gpu.fewer-than-required").changes == ("gpus.1",)


def test_reports_of_another_version_are_diagnosed_anew_with_a_note() -> None:
    old = replace(report(FIRES["cuda.missing"][0][1]), findings=())
    comparison = compare(report(), old, MATRIX, "now", names=("a.json", "b.json"))
    assert comparison.notes[0].startswith(("cuda.missing, ", "cuda.missing:"))
    assert "found in b.json by this version, but not reported by tfgpu" in comparison.notes[0]


BY_DAY = tuple({finding.partition(".")[0]: finding for finding in FIRES}.values())  # one of each layer


@pytest.mark.parametrize("findings", usual((BY_DAY, tuple(FIRES)), lambda row: row is BY_DAY))
def test_every_machine_can_be_compared_both_ways(findings: tuple[str, ...]) -> None:
    schema = jsonschema.Draft202012Validator(json.loads((FOLDER / "compare-1.json").read_text(encoding="utf-8")))
    for finding in findings:
        spoiled = FIRES[finding][0][1]
        for comparison in (compared({}, spoiled), compared(spoiled, {})):
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


def test_many_changes_do_not_hide_the_one() -> None:
    """Many packages and variables differ; the rules read all of them, and one of each matters."""
    many = {f"package_{number}": "1" for number in range(60)}
    variables = env(**{f"NCCL_{number}": "1" for number in range(20)}, CUDA_VISIBLE_DEVICES="-1")
    new = packages(**{**NUMPY_1, **dict.fromkeys(many, "2"), "numpy": "2.1.0"})
    comparison = compared(
        {**OLD, "python.packages": packages(**NUMPY_1, **many)},
        {**OLD, "python.packages": new, **NUMPY_FAILS, **variables},
    )
    assert explained(comparison, "tf.abi-numpy").changes == ("python.packages.numpy",)
    assert explained(comparison, "gpu.hidden").changes == ("variables.CUDA_VISIBLE_DEVICES",)


def saved(name: str) -> Report:
    data = (Path(__file__).parents[1] / "captures" / "compare" / name).read_bytes()
    return report(facts=msgspec.json.decode(data, type=Facts))


def test_one_package_that_was_changed_is_the_cause() -> None:
    """TensorFlow 2.21.0 imports with protobuf 7.36.2, and fails with 4.25.3 in the same environment."""
    good, bad = saved("protobuf-good.json"), saved("protobuf-bad.json")
    for comparison in (compare(good, bad, MATRIX, "now"), compare(bad, good, MATRIX, "now")):
        found = explained(comparison, "tf.abi-protobuf")
        assert (found.how, found.changes) == ("change", ("python.packages.protobuf",))
        assert [one.id for one in comparison.changes if one.weight == "explains"] == ["python.packages.protobuf"]
        assert not [text for text in texts(comparison) if "tfgpu_doctor" in text]


# ------------------------------------------------------------------------------------------- what differs, in words


def test_twice_the_same_is_nothing() -> None:
    comparison = compared({}, {})
    assert (comparison.changes, comparison.findings, comparison.explanations) == ((), (), ())
    assert comparison.notes == () and exit_code(comparison, "warning") == 0
    nothing_known = compare(report(facts=Facts()), report(facts=Facts()), MATRIX, "now")
    assert (nothing_known.changes, nothing_known.findings, exit_code(nothing_known, "error")) == ((), (), 3)


def test_the_same_machine_examined_twice_has_not_changed(tmp_path: Path) -> None:
    reports = []
    for name in ("a.json", "b.json"):
        file = tmp_path / name
        tfgpu("doctor", "--no-import", "-q", "--fail-on", "never", "--output", str(file))
        reports.append(load_report(file.read_bytes(), name))
    assert compare(*reports, MATRIX, "2026-11-21T00:00:00Z").changes == ()


def test_the_same_environment_in_another_folder_has_not_changed() -> None:
    text = msgspec.json.encode(healthy()).replace(b"/env/lib/python3.12", b"/srv/b/lib/python3.11")
    moved = msgspec.json.decode(text.replace(b"/env/", b"/srv/b/"), type=Facts)
    one = report({"python.prefix": known("/env")})
    other = report({"python.prefix": known("/srv/b"), "python.version": known("3.11.2")}, facts=moved)
    comparison = compare(one, other, MATRIX, "now")
    assert texts(comparison) == ["interpreter /env/bin/python → /srv/b/bin/python", "Python 3.12.7 → 3.11.2"]


def test_what_one_report_does_not_know_is_no_change() -> None:
    unknown = {"cudnn.runtime": WHY, "gpus": WHY}
    for good, bad, status in ((unknown, {}, "unexamined"), ({}, unknown, "lost")):
        found = {(one.id, one.status) for one in compared(good, bad).changes}
        assert found == {("cudnn.runtime", status), ("gpus", status)}


def test_two_machines_are_called_so() -> None:
    other = {"host.cpu_model": known("Intel Xeon"), "host.memory": known(2**30), **gpus(gpu(name="NVIDIA A100"))}
    assert compared({}, other).machines == (
        "CPU AMD EPYC 9654 → Intel Xeon",
        "memory 64 GiB → 1 GiB",
        "GPU 0: name NVIDIA H200 → NVIDIA A100",
    )
    assert compared({}, gpus(gpu(), gpu(1))).machines == ()


def printed(*lines: tuple[str, str, int]) -> dict[str, Any]:
    """Messages, by their kind, text and line."""
    return {"messages": known(tuple(Message(kind=kind, line=line, text=text) for kind, text, line in lines))}


OOM = ("oom-cuda", "out of memory", 9)
# `tfgpu doctor --no-import`
SKIPPED = tuple(replace(one, outcome="skipped") if one.name == "import" else one for one in healthy().tensorflow.phases)
SILENT = {**printed(), "tensorflow.phases": SKIPPED}
FLAGS = tuple(f"flag{number}" for number in range(40))
CARD = healthy().host.pci_gpus.value[0]  # type: ignore[union-attr]

# before, after → what changed
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "from minute to minute": (
        gpus(gpu(temperature=40, memory_free=1_000, uuid="GPU-1", utilization=0)),
        gpus(gpu(temperature=50, memory_free=2_000, uuid="GPU-2", utilization=9)),
        [],
    ),
    "noise that explains a finding": (
        {},
        gpus(gpu(throttle_reasons=("hw_thermal_slowdown",), temperature=93)),
        ["GPU 0: temperature 40 °C → 93 °C", "GPU 0: throttle reasons none → hw_thermal_slowdown"],
    ),
    "a GPU less": (gpus(gpu(), gpu(1)), gpus(), ["GPU 1 removed (was NVIDIA H200)"]),
    "a GPU more": (gpus(), gpus(gpu(), gpu(1)), ["GPU 1 added (NVIDIA H200)"]),
    "printed, by kind and not by line": (
        printed(("a", "one", 1), ("a", "two", 2)),
        printed(("a", "three", 7), OOM),
        ["now printed: out of memory"],
    ),
    "printed before": (printed(OOM), printed(), ["no longer printed: out of memory"]),
    "a TensorFlow that was not imported has not stopped printing": (printed(OOM), SILENT, []),
    "nor begun to": (SILENT, printed(OOM), []),
    "what one machine does not have": (
        {"host.cpu_quota": Unknown("no limit")},
        {"host.cpu_quota": known(2.0)},
        ["CPU limit of the container none → 2.0"],
    ),
    "variables, libraries and devices": (
        env(LD_LIBRARY_PATH="/a:/b", XLA_FLAGS="--x", KERAS_BACKEND="jax"),
        {
            **env(LD_LIBRARY_PATH="/b:/c", XLA_FLAGS="--y"),
            "loader.sonames": absent("cudart"),
            "tensorflow.devices": NO_GPU_LISTED,
            **DOCKER,
        },
        [
            "container none → docker",
            "libcudart.so.12: found by RUNPATH → absent",
            "LD_LIBRARY_PATH: /a removed, /c added",
            "XLA_FLAGS: --x → --y",
            "KERAS_BACKEND unset (was jax)",
            "TensorFlow lists NVIDIA H200 → no GPU",
        ],
    ),
    "units and long lists": (
        {
            **gpus(gpu(memory_total=2**34, power_limit=450)),
            "host.cpu_flags": known(FLAGS),
            "host.shm": known(2**30),
        },
        {
            **gpus(gpu(memory_total=2**33, power_limit=300)),
            "host.cpu_flags": known((*FLAGS[1:], "amx")),
            "host.shm": known(64 * 2**20),
            "host.pci_gpus": known((replace(CARD, driver="vfio-pci"),)),
        },
        [
            "CPU flags: flag0 removed, amx added",
            "/dev/shm 1 GiB → 64 MiB",
            "GPU 0: memory total 16 GiB → 8 GiB",
            "GPU 0: power limit 450 W → 300 W",
            "PCI device 0000:18:00.0: kernel driver nvidia → vfio-pci",
        ],
    ),
}


@each("name", CHANGES)
def test_changes_in_words(name: str) -> None:
    before, after, changes = CHANGES[name]
    assert texts(compared(before, after)) == changes


def test_a_driver_that_went_takes_its_files_along() -> None:
    comparison = compared({}, {**NO_DRIVER, "host.pci_gpus": healthy().host.pci_gpus})
    assert "driver 570.86.15 → none" in texts(comparison)
    assert all(change.startswith("driver.") for change in explained(comparison, "driver.missing").changes)
    other_kernel_driver = {"host.pci_gpus": known((replace(CARD, driver="vfio-pci"),))}
    assert [one.layer for one in compared({}, other_kernel_driver).changes] == ["Driver"]
