"""What differs between two machines, and in which words."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from tests.compare.test_compare import compared, explained, texts
from tests.facts.test_report import report
from tests.findings.rows_over_facts import NO_DRIVER, NO_GPU_LISTED, WHY, absent
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tfgpu_doctor.compare.comparison import compare, exit_code
from tfgpu_doctor.compare.records import Change, Comparison
from tfgpu_doctor.facts.facts import (
    Facts,
    Message,
    Unknown,
)


def test_twice_the_same_is_nothing() -> None:
    comparison = compared({}, {})
    assert (comparison.changes, comparison.findings, comparison.explanations) == ((), (), ())
    assert exit_code(comparison, "warning") == 0


def test_what_differs_from_minute_to_minute_is_noise() -> None:
    before = {"gpus": known((gpu(temperature=40, memory_free=1_000, uuid="GPU-1", utilization=0),), "NVML")}
    after = {"gpus": known((gpu(temperature=50, memory_free=2_000, uuid="GPU-2", utilization=9),), "NVML")}
    assert compared(before, after).changes == ()


def test_noise_that_explains_is_none() -> None:
    comparison = compared(
        {}, {"gpus": known((gpu(throttle_reasons=("hw_thermal_slowdown",), temperature=93),), "NVML")}
    )
    assert texts(comparison) == [
        "GPU 0: temperature 40 °C → 93 °C",
        "GPU 0: throttle reasons none → hw_thermal_slowdown",
    ]


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


def test_two_machines_are_called_so() -> None:
    other = {
        "host.cpu_model": known("Intel Xeon"),
        "gpus": known((gpu(name="NVIDIA A100"),)),
        "host.memory": known(2**30),
    }
    assert compared({}, other).machines == (
        "CPU AMD EPYC 9654 → Intel Xeon",
        "memory 64 GiB → 1 GiB",
        "GPU 0: name NVIDIA H200 → NVIDIA A100",
    )
    assert compared({}, {"gpus": known((gpu(), gpu(1)))}).machines == ()


def test_gpus_that_come_and_go() -> None:
    two, one = {"gpus": known((gpu(), gpu(1)), "NVML")}, {"gpus": known((gpu(),), "NVML")}
    assert texts(compared(two, one)) == ["GPU 1 removed (was NVIDIA H200)"]
    assert texts(compared(one, two)) == ["GPU 1 added (NVIDIA H200)"]


def test_nothing_known_of_either() -> None:
    comparison = compare(report(facts=Facts()), report(facts=Facts()), MATRIX, "now")
    assert (comparison.changes, comparison.findings) == ((), ())
    assert exit_code(comparison, "error") == 3


def message(kind: str, text: str, line: int = 1) -> Message:
    return Message(kind=kind, line=line, text=text)


def test_what_was_printed_differs_by_kind_not_by_line() -> None:
    before = {"messages": known((message("a", "one", 1), message("a", "two", 2)))}
    after = {"messages": known((message("a", "three", 7), message("oom-cuda", "out of memory", 9)))}
    assert texts(compared(before, after)) == ["now printed: out of memory"]
    assert texts(compared(after, before)) == ["no longer printed: out of memory"]


def test_a_tensorflow_that_was_not_imported_has_not_stopped_printing() -> None:
    """`tfgpu doctor --no-import` in one of the two reports."""
    phases = healthy().tensorflow.phases
    skipped = tuple(replace(one, outcome="skipped") if one.name == "import" else one for one in phases)
    printed = {"messages": known((message("oom-cuda", "out of memory"),))}
    silent = {"messages": known(()), "tensorflow.phases": skipped}
    assert not [one for one in texts(compared(printed, silent)) if "printed" in one]
    assert not [one for one in texts(compared(silent, printed)) if "printed" in one]


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


def test_what_one_machine_does_not_have_is_a_change() -> None:
    before = {"host.cpu_quota": Unknown("no limit")}
    after = {"host.cpu_quota": known(2.0)}
    assert texts(compared(before, after)) == ["CPU limit of the container none → 2.0"]
    assert texts(compared(after, after)) == []


def test_a_driver_that_went_takes_its_files_along() -> None:
    comparison = compared({}, {**NO_DRIVER, "host.pci_gpus": healthy().host.pci_gpus})
    assert "driver 570.86.15 → none" in texts(comparison)
    assert all(change.startswith("driver.") for change in explained(comparison, "driver.missing").changes)
