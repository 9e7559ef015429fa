"""What changed, and which change explains what is new: the machine of the tests before and after it was spoiled."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.findings.test_rules import FIRES, NO_DRIVER, NO_GPU_LISTED, WHY, absent, call, off_path, phases
from tests.healthy import MATRIX, SITE, gpu, healthy, known, sonames, spoil
from tests.records.test_report import report
from tfgpu_doctor.compare.acts import acts
from tfgpu_doctor.compare.comparison import compare, exit_code, without_noise
from tfgpu_doctor.compare.counterfactuals import facts_read
from tfgpu_doctor.compare.differences import differences
from tfgpu_doctor.compare.fact_path import FactPath, elements, exchange
from tfgpu_doctor.compare.records import Change, Comparison, Explanation
from tfgpu_doctor.records.facts import (
    NOT_ASKED,
    Facts,
    LibraryFile,
    Message,
    Package,
    Toolkit,
    Unknown,
    about,
    fact_paths,
    look_up,
)
from tfgpu_doctor.records.schemas import FOLDER

MACHINES = [pytest.param(rows[0][1], id=finding) for finding, rows in FIRES.items()]
COLLECTIONS = [path for path in fact_paths() if about(path).key and path != "messages"]
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
    return [one.text for one in without_noise(comparison).changes]


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
        "undone",
    ),
    "an older driver": (
        {},
        {"driver.version": known("470.256.02"), "driver.kernel_module": known("470.256.02")},
        "driver.too-old",
        {"driver.version", "driver.kernel_module"},
        "undone",
    ),
    "a driver updated under a loaded module": (
        {},
        {
            "driver.nvml_init": call(18, "Driver/library version mismatch"),
            "driver.libcuda": known((LibraryFile(path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", version="580.1"),)),
        },
        "driver.version-mismatch",
        {"driver.libcuda"},
        "undone",
    ),
    "a variable that hides the card": (
        {},
        {"variables": known({"CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"})},
        "gpu.hidden",
        {"variables.CUDA_VISIBLE_DEVICES"},
        "undone",
    ),
    "two variables that hide it, each enough": (
        {"host.container": known("docker")},
        {
            "host.container": known("docker"),
            "variables": known({"CUDA_VISIBLE_DEVICES": "-1", "NVIDIA_VISIBLE_DEVICES": "void"}),
        },
        "gpu.hidden",
        {"variables.CUDA_VISIBLE_DEVICES", "variables.NVIDIA_VISIBLE_DEVICES"},
        "undone",
    ),
    "a folder on LD_LIBRARY_PATH": (
        {},
        {
            "variables": known({"LD_LIBRARY_PATH": "/opt/broken"}),
            "loader.search_path": known(("/opt/broken",)),
            "loader.sonames": off_path("cudnn", problem="empty file"),
            "cudnn.runtime": WHY,
        },
        "cudnn.lib-path",
        {"variables.LD_LIBRARY_PATH"},
        "undone",
    ),
    "pip uninstall nvidia-cudnn-cu12": (
        {"python.packages": packages(), "loader.sonames": without()},
        {"python.packages": packages("nvidia-cudnn-cu12"), "loader.sonames": without("cudnn"), **NO_CUDNN},
        "cudnn.missing",
        {"python.packages.nvidia-cudnn-cu12"},
        "undone",
    ),
    "pip uninstall of three wheels": (
        {"python.packages": packages(), "loader.sonames": without()},
        {
            "python.packages": packages(*WHEELS),
            "loader.sonames": without("cublas", "cudart", "cudnn"),
            **NO_CUDNN,
        },
        "cuda.missing",
        {"python.packages.nvidia-cublas-cu12", "python.packages.nvidia-cuda-runtime-cu12"},
        "undone",
    ),
    "another cuDNN": (
        {"python.packages": packages(nvidia_cudnn_cu12="9.3.0.75"), "loader.sonames": without()},
        {
            "python.packages": packages(nvidia_cudnn_cu12="9.1.0.70"),
            "loader.sonames": without(),
            "cudnn.runtime": known("9.1.0"),
        },
        "cudnn.version-mismatch",
        {"python.packages.nvidia-cudnn-cu12"},
        "undone",
    ),
    "a card for another": (
        {},
        {"gpus": known((gpu(name="Tesla K80", compute_capability="3.7"),))},
        "gpu.arch-too-old",
        {"gpus.0.name", "gpus.0.compute_capability"},
        "undone",
    ),
    "a crash that nobody can explain": (
        {},
        {"tensorflow.phases": phases("import", "died", signal="SIGSEGV")},
        "tf.import-failed",
        {"tensorflow.phases.import"},
        "seen",
    ),
    "no TensorFlow any more": (
        {"python.packages": packages()},
        {
            "python.packages": packages("tensorflow"),
            "python.tensorflow_paths": known(()),
            "tensorflow.version": Unknown("not installed"),
        },
        "tf.not-installed",
        {"python.packages.tensorflow", "python.tensorflow_paths"},
        "undone",
    ),
}


@pytest.mark.parametrize("name", DONE)
def test_the_change_that_explains_what_is_new(name: str) -> None:
    before, after, finding, changes, how = DONE[name]
    comparison = compared(before, after)
    found = explained(comparison, finding)
    assert (set(found.changes) & changes, found.how) == (changes, how)
    for one in comparison.changes:
        assert (one.weight == "explains") == any(one.id in e.changes for e in comparison.explanations)
    assert exit_code(comparison, "error") == 1
    assert exit_code(comparison, "never") == 0


@pytest.mark.parametrize("name", DONE)
def test_the_other_way_round_the_same_change_explains_what_is_gone(name: str) -> None:
    before, after, finding, changes, how = DONE[name]
    comparison = compared(after, before)
    assert next(one for one in comparison.findings if one.id == finding).status == "gone"
    found = explained(comparison, finding)
    assert (set(found.changes) & changes, found.how) == (changes, how)
    assert exit_code(comparison, "error") == 0


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


def test_what_either_of_two_changes_explains_is_told_with_the_alternative() -> None:
    """A Blackwell card under TensorFlow 2.15: the other card would do, and so would no TensorFlow that is too old."""
    card = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),), "NVML")}
    before = {"python.packages": packages(tensorflow="2.21.0")}
    comparison = compared(before, {**card, "driver.version": known("450.80.02")})
    assert set(explained(comparison, "gpu.arch-too-new").changes) == {"gpus.0.name", "gpus.0.compute_capability"}
    assert explained(comparison, "driver.too-old").changes == ("driver.version",)
    outside = {"host.container": known("docker", "/.dockerenv"), **NO_DRIVER, "driver.device_nodes": known((), "/dev")}
    found = explained(compared({}, outside), "container.no-gpu")
    assert ("host.container",) in (found.changes, *found.alternatives)


def test_side_effects_of_undoing_are_said() -> None:
    """A card hidden by a variable, in a machine whose driver went too: undoing the one shows the other."""
    before = {"host.container": known("none")}
    after = {"host.container": known("docker", "/.dockerenv"), **NO_DRIVER, "driver.device_nodes": known((), "/dev")}
    found = explained(compared(before, after), "container.no-gpu")
    brought = {found.changes: found.side_effects}
    assert ("host.container",) not in brought or brought["host.container",] == ("driver.missing",)
    assert found.changes[0].startswith("driver.") and found.side_effects == ()


def test_twice_the_same_is_nothing() -> None:
    comparison = compared({}, {})
    assert (comparison.changes, comparison.findings, comparison.explanations) == ((), (), ())
    assert exit_code(comparison, "warning") == 0


def test_what_differs_from_minute_to_minute_is_noise() -> None:
    before = {"gpus": known((gpu(temperature=40, memory_free=1_000, uuid="GPU-1", utilization=0),), "NVML")}
    after = {"gpus": known((gpu(temperature=50, memory_free=2_000, uuid="GPU-2", utilization=9),), "NVML")}
    comparison = compared(before, after)
    assert {one.weight for one in comparison.changes} == {"noise"}
    assert without_noise(comparison).changes == ()


def test_noise_that_explains_is_none() -> None:
    comparison = compared(
        {}, {"gpus": known((gpu(throttle_reasons=("hw_thermal_slowdown",), temperature=93),), "NVML")}
    )
    assert texts(comparison) == ["GPU 0: throttle reasons none → hw_thermal_slowdown"]


def test_the_same_environment_in_another_folder_has_not_changed() -> None:
    facts = healthy()
    moved = msgspec.json.decode(
        msgspec.json.encode(facts)
        .replace(b"/env/lib/python3.12", b"/srv/b/lib/python3.11")
        .replace(b"/env/", b"/srv/b/"),
        type=Facts,
    )
    one = spoil(facts, {"python.prefix": known("/env")})
    other = spoil(moved, {"python.prefix": known("/srv/b"), "python.version": known("3.11.2")})
    comparison = compare(report(facts=one), report(facts=other), MATRIX, "now")
    assert texts(comparison) == ["interpreter /env/bin/python → /srv/b/bin/python", "Python 3.12.7 → 3.11.2"]


def test_what_one_report_does_not_know_is_no_change() -> None:
    comparison = compared({"cudnn.runtime": WHY, "gpus": WHY}, {"gpus": known((gpu(),), "NVML")})
    assert {(one.id, one.status) for one in comparison.changes} == {
        ("cudnn.runtime", "unexamined"),
        ("gpus", "unexamined"),
    }
    backwards = compared({"gpus": known((gpu(),), "NVML")}, {"cudnn.runtime": WHY, "gpus": WHY})
    assert {one.status for one in backwards.changes} == {"lost"}


@pytest.mark.parametrize("unknown", [WHY, NOT_ASKED])
def test_a_finding_that_good_could_not_judge_is_not_called_new(unknown: Unknown) -> None:
    comparison = compared({"tensorflow.devices": unknown}, {"tensorflow.devices": NO_GPU_LISTED})
    assert [(one.id, one.status) for one in comparison.findings] == [("gpu.not-visible", "unjudged")]
    assert comparison.explanations == ()
    assert exit_code(comparison, "error") == 3
    assert exit_code(comparison, "never") == 0


def test_a_field_of_a_gpu_that_good_did_not_examine_is_no_change_either() -> None:
    lost = {"gpus": known((gpu(fault="GPU is lost"),), "NVML")}
    comparison = compared({}, lost)
    assert [(one.id, one.status) for one in comparison.findings] == [("gpu.fault", "unjudged")]
    assert [(one.id, one.status) for one in comparison.changes] == [("gpus.0.fault", "unexamined")]
    fine = {"gpus": known((msgspec.structs.replace(gpu(), fault=Unknown("none")),), "NVML")}
    comparison = compared(fine, lost)
    assert texts(comparison) == ["GPU 0: fault none → GPU is lost"]
    assert explained(comparison, "gpu.fault").changes == ("gpus.0.fault",)


def test_an_unknown_value_is_never_put_back() -> None:
    """It would take the finding away only because nothing could be judged any more."""
    comparison = compared(
        {"gpus": WHY, "driver.version": WHY}, {"gpus": known((gpu(mig_mode=True, mig_instances=()),))}
    )
    assert [(one.id, one.status) for one in comparison.findings] == [("gpu.mig", "unjudged")]


def test_a_driver_that_went_is_one_change() -> None:
    comparison = compared({}, {**NO_DRIVER, "host.pci_gpus": healthy().host.pci_gpus})
    assert "driver 570.86.15 → none" in texts(comparison)
    found = explained(comparison, "driver.missing")
    assert found.how == "undone"
    assert found.changes[0] == "driver.version"


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


def test_two_machines_are_called_so() -> None:
    other = {
        "host.cpu_model": known("Intel Xeon"),
        "gpus": known((gpu(name="NVIDIA A100"),)),
        "host.memory": known(2**30),
    }
    assert compared({}, other).machines == (
        "CPU AMD EPYC 9654 → Intel Xeon",
        "GPU NVIDIA H200 → NVIDIA A100",
        "memory 64 GiB → 1 GiB",
    )
    assert compared({}, {"gpus": known((gpu(), gpu(1)))}).machines == ()


def test_gpus_that_come_and_go() -> None:
    two, one = {"gpus": known((gpu(), gpu(1)), "NVML")}, {"gpus": known((gpu(),), "NVML")}
    assert texts(compared(two, one)) == ["GPU 1 removed (was NVIDIA H200)"]
    assert texts(compared(one, two)) == ["GPU 1 added (NVIDIA H200)"]


def test_a_number_of_gpus_can_be_asked_for() -> None:
    two, one = {"gpus": known((gpu(), gpu(1)), "NVML")}, {"gpus": known((gpu(),), "NVML")}
    devices = {"tensorflow.devices": WHY, "tensorflow.checks": WHY}
    comparison = compared({**two, **devices}, {**one, **devices}, require_gpus=2)
    assert explained(comparison, "gpu.fewer-than-required").changes == ("gpus.1",)


def test_reports_of_other_rules_are_judged_anew_and_it_is_said() -> None:
    old = msgspec.structs.replace(report(FIRES["cuda.missing"][0][1]), findings=())
    comparison = compare(report(), old, MATRIX, "now", names=("a.json", "b.json"))
    assert [note for note in comparison.notes if note.startswith(("cuda.missing, ", "cuda.missing:"))]
    assert "found in b.json by today's" in comparison.notes[0]
    assert compared({}, {}).notes == ()


@pytest.mark.parametrize("changes", MACHINES)
def test_every_machine_can_be_compared_both_ways(changes: dict[str, Any]) -> None:
    schema = jsonschema.Draft202012Validator(json.loads((FOLDER / "compare-1.json").read_text(encoding="utf-8")))
    for before, after in (({}, changes), (changes, {})):
        comparison = compared(before, after)
        schema.validate(json.loads(comparison.to_json()))
        assert msgspec.json.decode(comparison.to_json(), type=Comparison) == comparison
        known_ids = {one.id for one in comparison.changes}
        roots = {one.id for one in comparison.findings if one.status in ("new", "gone") and one.root_cause}
        assert {one.finding for one in comparison.explanations} >= roots
        for one in comparison.explanations:
            assert set(one.changes) <= known_ids


def test_nothing_known_of_either() -> None:
    comparison = compare(report(facts=Facts()), report(facts=Facts()), MATRIX, "now")
    assert (comparison.changes, comparison.findings) == ((), ())
    assert exit_code(comparison, "error") == 3


def test_findings_read_what_their_inputs_are_derived_from() -> None:
    assert {"python.packages", "tensorflow.version"} <= facts_read("tf.abi-numpy")
    assert {"gpus", "tensorflow.devices", "tensorflow.version"} <= facts_read("gpu.arch-too-new")
    assert {"loader.sonames"} <= facts_read("cuda.missing")
    assert {"messages"} <= facts_read("memory.oom")


def said(kind: str, text: str, line: int = 1) -> Message:
    return Message(kind=kind, line=line, text=text)


def test_what_was_printed_is_told_by_its_kind_not_by_its_line() -> None:
    before = {"messages": known((said("a", "one", 1), said("a", "two", 2)))}
    after = {"messages": known((said("a", "three", 7), said("oom-cuda", "out of memory", 9)))}
    assert texts(compared(before, after)) == ["now printed: out of memory"]
    assert texts(compared(after, before)) == ["no longer printed: out of memory"]


def test_messages_of_one_kind_are_exchanged_together() -> None:
    base = spoil(healthy(), {"messages": known((said("a", "one"), said("b", "x"), said("a", "two")))})
    source = spoil(healthy(), {"messages": known((said("b", "y"),))})
    without_a = exchange(base, source, [FactPath("messages", "a")])
    assert without_a.messages == known((said("b", "x"),))
    assert exchange(source, base, [FactPath("messages", "a")]).messages == known(
        (said("b", "y"), said("a", "one"), said("a", "two"))
    )


@pytest.mark.parametrize("path", COLLECTIONS)
def test_an_element_can_be_taken_out_and_put_back(path: str) -> None:
    facts = spoil(healthy(), {"variables": known({"XLA_FLAGS": "--x"}, "environment")})
    for name in elements(facts, path) or {}:
        if path == "tensorflow.phases":
            continue
        empty = known({} if path == "variables" else (), look_up(facts, path).source)
        taken = exchange(facts, spoil(facts, {path: empty}), [FactPath(path, name)])
        assert name not in (elements(taken, path) or {})
        back = exchange(taken, facts, [FactPath(path, name)])
        assert elements(back, path) == elements(facts, path)


def one_of(comparison: Comparison, identity: str) -> Change:
    return next(one for one in comparison.changes if one.id == identity)


def test_words() -> None:
    before: dict[str, Any] = {
        "variables": known({"LD_LIBRARY_PATH": "/a:/b", "XLA_FLAGS": "--x", "KERAS_BACKEND": "jax"})
    }
    after: dict[str, Any] = {
        "variables": known({"LD_LIBRARY_PATH": "/b:/c", "XLA_FLAGS": "--y"}),
        "loader.sonames": absent("cudart"),
        "tensorflow.devices": NO_GPU_LISTED,
        "host.container": known("docker"),
    }
    comparison = compared(before, after)
    assert one_of(comparison, "variables.LD_LIBRARY_PATH").text == "LD_LIBRARY_PATH: /a removed, /c added"
    assert one_of(comparison, "variables.XLA_FLAGS").text == "XLA_FLAGS: --x → --y"
    assert one_of(comparison, "variables.KERAS_BACKEND").text == "KERAS_BACKEND unset (was jax)"
    assert one_of(comparison, "loader.sonames.libcudart.so.12").text == "libcudart.so.12: found by RUNPATH → absent"
    assert one_of(comparison, "tensorflow.devices").text == "TensorFlow lists NVIDIA H200 → no GPU"
    assert one_of(comparison, "host.container").text == "container none → docker"


def test_values_have_their_units_and_long_lists_tell_what_changed() -> None:
    flags = tuple(f"flag{number}" for number in range(40))
    cards = [
        known((gpu(temperature=40, memory_total=size, power_limit=watts),))
        for size, watts in ((2**34, 450), (2**33, 300))
    ]
    nodes = healthy().host.pci_gpus.value  # type: ignore[union-attr]
    before = {"gpus": cards[0], "host.cpu_flags": known(flags), "host.shm": known(2**30)}
    after = {
        "gpus": cards[1],
        "host.cpu_flags": known((*flags[1:], "amx")),
        "host.shm": known(64 * 2**20),
        "host.pci_gpus": known((msgspec.structs.replace(nodes[0], driver="vfio-pci"),)),
    }
    comparison = compared(before, after)
    assert texts(comparison) == [
        "CPU flags: flag0 removed, amx added",
        "/dev/shm 1 GiB → 64 MiB",
        "GPU 0: memory total 16 GiB → 8 GiB",
        "GPU 0: power limit 450 W → 300 W",
        "PCI device 0000:18:00.0: kernel driver nvidia → vfio-pci",
    ]
    assert (one_of(comparison, "host.pci_gpus.0000:18:00.0.driver").layer) == "Driver"


def test_a_collection_that_one_machine_cannot_have_is_a_change() -> None:
    before = {"cuda.conda_packages": Unknown("not a conda environment")}
    after = {"cuda.conda_packages": known((Package(name="cudatoolkit", version="11.8.0"),))}
    assert texts(compared(before, after)) == ["conda packages none → cudatoolkit (11.8.0)"]
    assert texts(compared(after, after)) == []


def test_a_toolkit_takes_its_libraries_along() -> None:
    kit = Toolkit(path="/usr/local/cuda-12.4", version="12.4", source="version.json", via="/usr/local")
    cudart = next(library for library in sonames() if library.component == "cudart")
    file = msgspec.structs.replace(cudart.candidates[0], path=f"{kit.path}/lib64/libcudart.so.12")
    found = msgspec.structs.replace(cudart, candidates=(file,), winner=file.path)
    gone = msgspec.structs.replace(cudart, candidates=(), winner=None)
    before = {"cuda.toolkits": known((kit,)), "loader.sonames": known((found,))}
    after = {"cuda.toolkits": known(()), "loader.sonames": known((gone,))}
    facts = spoil(healthy(), before), spoil(healthy(), after)
    (act,) = acts(differences(*facts), *facts)
    assert (act.name, len(act.members)) == ("cuda.toolkits./usr/local/cuda-12.4", 2)


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
