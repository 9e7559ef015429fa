"""`tfgpu plan`: which release for which machine, with which commands, and why nothing newer."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.runner import process as tfgpu
from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.lab import Lab
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Facts, PciGpu, Unknown
from tfgpu_doctor.matrix.compatibility import on_windows
from tfgpu_doctor.plan.alternatives import is_data_centre
from tfgpu_doctor.plan.constraints import CONSTRAINTS, PlanRequest, violations
from tfgpu_doctor.plan.install_commands import list_gpus
from tfgpu_doctor.plan.planned import base_named, driver_of
from tfgpu_doctor.plan.ranking import machine_state, make_plan
from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.plan.target import (
    Target,
    TargetError,
    TargetGpu,
    describe,
    from_facts,
    read_capability,
    read_driver,
    read_python,
    read_specifier,
)

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


def plan(specifier: str | None = None, **described: Any) -> Plan:
    return make_plan(MATRIX, describe(MATRIX, **described), specifier=read_specifier(specifier) if specifier else None)


def plan_of(facts: Facts, python: str | None = None) -> Plan:
    return make_plan(MATRIX, from_facts(facts, MATRIX, python), state=machine_state(facts, MATRIX, python))


def brief(options: tuple[Option, ...]) -> list[str]:
    return [f"{option.kind} {option.tensorflow}" for option in options]


@each(("described", "version", "requirements"), ROWS["test_best"])
def test_best(described: dict[str, Any], version: str, requirements: str) -> None:
    best = plan(**described).options[0]
    assert (best.kind, best.tensorflow, best.python) == ("as-is", version, described["python"])
    assert any(requirements in line for line in best.commands["pip"])
    for manager, commands in best.commands.items():
        assert any(f"=={version}" in command for command in commands), manager


@each(("asked", "described", "first"), ROWS["test_the_first_options"])
def test_the_first_options(asked: str | None, described: dict[str, Any], first: list[str] | None) -> None:
    found = brief(plan(asked, **described).options)
    assert found[: len(first)] == first if first else found == []


@each(("asked", "described", "says", "never"), ROWS["test_what_the_best_option_says"])
def test_what_the_best_option_says(asked: str | None, described: dict[str, Any], says: str, never: str) -> None:
    """In its title, commands or notes."""
    best = json.loads(msgspec.json.encode(plan(asked, **described).options[0]))
    text = "\n".join(str(value) for value in best.values())
    assert says in text and never not in text, text


def test_a_driver_that_compiles_no_ptx_of_the_newest_wheels_is_too_old() -> None:
    found = plan(gpu="H100", driver="535", python="3.12")
    why = next(one for ruled in found.ruled_out for one in ruled.violations if one.constraint == "driver")
    assert why.need.startswith("driver 555.42.02 or newer, for its PTX 8.5 (1149 of 1479 fat binaries have no SASS")
    assert why.source.endswith("manylinux_2_27_x86_64.whl: the fat binaries of its libraries")


@each(("gpu", "driver", "problem", "first", "title"), ROWS["test_another_driver_is_asked_for_first"])
def test_another_driver_is_asked_for_first(gpu: str, driver: str, problem: str | None, first: str, title: str) -> None:
    found = plan(gpu=gpu, driver=driver)
    assert found.problems[:1] == ((problem,) if problem else found.problems[:1])
    option = next(one for one in found.options if "driver" in one.kind or one.kind == "conda-forge")
    assert option.first[0].text.startswith(first) and option.title.endswith(title)


def test_windows_is_left_for_wsl2() -> None:
    wsl = plan(gpu="RTX 3060", os="windows").options[0]
    assert (wsl.first[-1].commands, next(iter(wsl.commands))) == (("wsl --install",), "uv")
    assert wsl.then[0].commands[0].startswith("~/tf/bin/python -c")  # the doctor of Windows does not see it
    # the driver of Windows, then the terminal of WSL2; what newer releases lack is judged in WSL2, too
    old = plan(gpu="A100", os="windows", driver="450")
    assert ["NVIDIA driver" in fix.text and "Windows" in fix.text for fix in old.options[0].first] == [True, False]
    assert all(one.constraint != "build" for group in old.ruled_out for one in group.violations)


@each(("python", "options"), ROWS["test_a_machine_without_a_gpu_gets_the_cpu"])
def test_a_machine_without_a_gpu_gets_the_cpu(python: str | None, options: list[str]) -> None:
    found = plan_of(spoil(healthy(), {"gpus": known(()), "host.pci_gpus": known(())}), python=python)
    assert "no NVIDIA GPU" in found.problems[0]
    assert [f"{one.kind} {one.tensorflow} {one.python}" for one in found.options] == options
    assert python is None or all(str(one.python) in one.commands["pip"][0] for one in found.options)


def test_a_jetson_is_sent_to_jetpack() -> None:
    jetson = plan(gpu="Jetson Orin Nano")
    assert jetson.target.machine == "aarch64"
    assert {one.kind for one in jetson.options} == {"jetpack"} and "JetPack 6" in jetson.options[0].title
    nano = plan(gpu="Jetson Nano").options  # JetPack 4 is the last for it
    assert nano and all("JetPack 4" in one.title for one in nano)


def test_only_the_versions_asked_for() -> None:
    found = plan("2.15", gpu="RTX 3090", driver="535", python="3.10")
    assert {one.constraint for group in found.ruled_out for one in group.violations} >= {"tensorflow"}
    with pytest.raises(TargetError, match=r"no release of TensorFlow matches ==2\.99\.\*; the newest .* is 2\."):
        plan("2.99", gpu="A100")


DEMANDING = (
    {"gpu": ("K80",), "driver": "390", "python": "3.6"},
    {"gpu": ("GTX 1080",), "driver": "535", "python": "3.12"},
    {"os": "macos"},
)


def test_every_constraint_keeps_a_machine_from_a_release() -> None:
    targets = [msgspec.structs.replace(describe(MATRIX, **one), glibc="2.12", macos="10.10") for one in DEMANDING]
    found = set()
    for target in targets:
        request = PlanRequest(MATRIX, target, read_specifier("2.15"))
        rows = MATRIX.releases(platform=target.platform)
        rows = (*rows, msgspec.structs.replace(rows[0], yanked="CVE", gpu=True))  # the matrix has none
        found |= {one.constraint for row in rows for one in violations(request, row)}
    assert set(CONSTRAINTS) - found == set()


def test_this_machines_environment_is_never_installed_into() -> None:
    for python, maker in ((None, "/env/bin/python"), ("3.11", "python3.11"), ("3.8", "python3.13")):
        best = plan_of(healthy(), python=python).options[0]
        assert best.commands["pip"][0] == f"{maker} -m venv ~/tf"
        installs = [line for lines in best.commands.values() for line in lines if " install " in line]
        assert installs and all("/env/bin/python" not in line for line in installs)


def test_on_musl_there_are_images_only() -> None:
    found = plan_of(spoil(healthy(), {"host.libc": known("musl 1.2.4")}))
    assert {option.kind for option in found.options} == {"container"}
    assert "musl instead of glibc (Alpine)" in found.problems[0]
    assert {one.constraint for group in found.ruled_out for one in group.violations} >= {"glibc"}


def test_without_a_driver_the_bus_tells_the_card_and_the_driver_comes_first() -> None:
    driver = {"driver.version": Unknown("no driver"), "driver.libcuda": known(())}
    found = plan_of(spoil(healthy(), {"gpus": Unknown("no driver"), **driver}))
    assert found.target.gpus  # from pci.ids
    assert "driver" in found.options[0].first[0].text
    assert plan_of(Facts()).options[0].tensorflow == "2.20.0"  # nothing is known


@each(("described", "specifier", "line"), ROWS["test_libraries_that_tensorflow_does_not_find_are_linked"])
def test_libraries_that_tensorflow_does_not_find_are_linked(
    described: dict[str, Any], specifier: str | None, line: str | None
) -> None:
    best = plan(specifier, **described).options[0]
    assert best.kind == "as-is"
    for manager in ("pip", "uv"):
        linked = [command for command in best.commands[manager] if "ln -s" in command]
        assert [command.startswith(f"({line}") for command in linked] == ([True] if line else [])
    assert not any("LD_LIBRARY_PATH" in command for lines in best.commands.values() for command in lines)


def test_condas_activation_adds_to_the_variable_and_deactivation_takes_it_back(tmp_path: Path) -> None:
    """With a stand-in for conda that prints the prefix."""
    prefix = tmp_path / "envs" / "tf"
    prefix.mkdir(parents=True)
    program = tmp_path / "conda"
    program.write_text(f"#!/bin/sh\necho {prefix}\n")
    program.chmod(0o755)
    options = plan("2.3", gpu="V100", python="3.8").options
    conda = next(one.commands["conda"] for one in options if "cudatoolkit" in one.commands.get("conda", ("",))[0])
    lines = [line for line in conda if "/activate.d" in line or "/deactivate.d" in line]
    scripts = f"""{chr(10).join(lines)}
    export CONDA_PREFIX={prefix}
    for before in "" /drv; do
      export LD_LIBRARY_PATH="$before"
      . "$E/activate.d/cuda.sh"; echo "$LD_LIBRARY_PATH"
      . "$E/deactivate.d/cuda.sh"; echo "$LD_LIBRARY_PATH"
    done"""
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-ec", scripts], env=environ, capture_output=True, check=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [f"{prefix}/lib", "", f"{prefix}/lib:/drv", "/drv"]


@each(("described", "manager", "venv", "commands"), ROWS["test_how_to_get_what_is_missing"])
def test_how_to_get_what_is_missing(described: dict[str, Any], manager: str, venv: str, commands: list[str]) -> None:
    best = plan(**described).options[0]
    assert {command for fix in best.missing for command in fix.commands} >= set(commands)
    assert (next(iter(best.commands)), best.commands["pip"][0]) == (manager, f"{venv} -m venv ~/tf")


def test_a_release_is_checked_with_what_it_has() -> None:
    calls = {"1.15.5": "is_gpu_available", "2.0.4": "is_gpu_available", "2.1.0": "list_physical_devices"}
    assert [version for version, call in calls.items() if call not in list_gpus(version)] == []


@each(("gpu", "driver", "image"), ROWS["test_nvidias_image"])
def test_nvidias_image(gpu: str, driver: str, image: str | None) -> None:
    images = [one.title for one in plan(gpu=gpu, driver=driver).options if one.package == "nvcr.io/nvidia/tensorflow"]
    assert [title.rpartition(":")[2] for title in images] == ([image] if image else [])


@each(("gpu", "os", "drivers"), ROWS["test_the_driver_that_is_needed_exists_for_the_card_and_the_system"])
def test_the_driver_that_is_needed_exists_for_the_card_and_the_system(gpu: str, os: str, drivers: list[str]) -> None:
    found = [one.min_driver for one in plan(gpu=gpu, os=os).options if one.kind in ("container", "conda-forge")]
    assert sorted(map(str, found)) == sorted(drivers)


@each(("gpu", "driver", "spec"), ROWS["test_conda_forge"])
def test_conda_forge(gpu: str, driver: str, spec: str) -> None:
    found = next(option for option in plan(gpu=gpu, driver=driver).options if option.kind == "conda-forge")
    assert spec in found.commands["conda"][0]


@each(("name", "expected"), ROWS["test_data_centre"])
def test_data_centre(name: str, expected: bool) -> None:
    assert is_data_centre(describe(MATRIX, gpu=(name,))) is expected


@each(("image", "cuda", "driver"), ROWS["test_the_images_of_a_month_have_one_cuda"])
def test_the_images_of_a_month_have_one_cuda(image: str, cuda: str | None, driver: str | None) -> None:
    base = base_named(image, MATRIX)
    assert base is not None and (base.cuda, driver_of(base, MATRIX)) == (cuda, driver)


@each(("host", "driver"), [("", "455.23"), ("Windows 11, Docker Desktop\n", "495")])
def test_the_driver_of_the_image_is_named(host: str, driver: str) -> None:
    start = "docker run --gpus=1 nvcr.io/nvidia/tritonserver:20.10-py3\nDriver Version: 440.33.01\n"
    first = findings(f"{host}{start}CUDA driver version is insufficient for CUDA runtime version")[0]
    assert first.id == "driver.too-old"
    assert first.evidence[0].need == f"{driver} or newer for CUDA 11.1 of nvcr.io/nvidia/tritonserver:20.10-py3"
    assert f"NVIDIA driver {driver} or newer" in first.fixes[0].text


def planned(driver_lab: Lab, **answers: Any) -> dict[str, Any]:
    done = tfgpu("plan", "--format", "json", environ=driver_lab.environ(cuinit=0, **answers))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_cards_and_the_driver_are_this_machines(driver_lab: Lab) -> None:
    found = planned(driver_lab, gpus=2, name="NVIDIA GeForce RTX 4090", cc="8.9", driver="550.54.14")
    target = found["target"]
    assert (found["described"], found["options"][0]["tensorflow"]) == (False, "2.20.0")
    assert [gpu["compute_capability"] for gpu in target["gpus"]] == ["8.9", "8.9"]
    assert (target["driver"], target["python"]) == ("550.54.14", f"{sys.version_info[0]}.{sys.version_info[1]}")


@pytest.mark.full
def test_a_hung_driver_does_not_hang_the_plan(driver_lab: Lab) -> None:
    found = planned(driver_lab, nvml_init="hang")
    assert found["options"]  # for any card: which one, nobody could tell
    assert "does not respond" in found["problems"][0]


@each(("os", "machine", "platform"), ROWS["test_platform"])
def test_platform(os: str | None, machine: str | None, platform: str) -> None:
    assert describe(MATRIX, os=os, machine=machine).platform == platform


READERS: dict[str, Callable[[str], object]] = {
    "compute capability": lambda text: read_capability(text, MATRIX),
    "driver": read_driver,
    "Python": read_python,
    "TensorFlow": lambda text: str(read_specifier(text)),
}


@each(("name", "message", "good", "bad"), ROWS["READ"])
def test_what_people_type_is_read_or_refused(name: str, message: str, good: dict[str, str], bad: list[str]) -> None:
    assert {text: READERS[name](text) for text in good} == good
    for text in bad:
        with pytest.raises(TargetError, match=message):
            READERS[name](text)


@each(("name", "message"), ROWS["test_unknown_and_ambiguous_cards"])
def test_unknown_and_ambiguous_cards(name: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        describe(MATRIX, gpu=(name,))


@each(("device", "name", "expected"), ROWS["test_without_a_driver_the_bus_names_the_card"])
def test_without_a_driver_the_bus_names_the_card(device: str, name: str | None, expected: str | None) -> None:
    card = PciGpu(address="0000:01:00.0", device_id=f"10de:{device}", name=name)
    facts = spoil(healthy(), {"gpus": Unknown("no driver"), "host.pci_gpus": known((card,))})
    found = from_facts(facts, MATRIX).gpus
    assert [one.compute_capability for one in found] == ([expected] if expected else [])


def test_capabilities_each_once_ascending() -> None:
    assert from_facts(Facts(), MATRIX) == Target()
    assert Target(gpus=tuple(TargetGpu(None, one) for one in ("12.0", "8.9", "8.9"))).capabilities == ("8.9", "12.0")
    two = spoil(healthy(), {"gpus": known((gpu(compute_capability="8.9"), gpu(compute_capability="8.9")))})
    assert len(from_facts(two, MATRIX).gpus) == 2


@each(("driver", "read"), ROWS["test_driver_branches_on_windows"])
def test_driver_branches_on_windows(driver: str, read: str) -> None:
    assert on_windows(MATRIX, driver) == read


TAGS = ("manylinux1", "manylinux2010", "manylinux2014", *(f"manylinux_2_{minor}" for minor in (5, 12, 17, 24, 27, 28)))


def requirements(option: Option, manager: str) -> list[str]:
    *_, line = (command for command in option.commands[manager] if " install " in command)  # pip itself first
    return [
        word for word in shlex.split(line.partition(" install ")[2]) if "==" in word or "<" in word or "-cu" in word
    ]


@pytest.mark.index
@pytest.mark.skipif(not os.environ.get("TFGPU_TEST_INDEX"), reason="opt-in: TFGPU_TEST_INDEX=1")
@each(("gpu", "driver", "python", "tensorflow"), ROWS["SITUATIONS"])
def test_pip_and_uv_find_everything(gpu: str, driver: str, python: str, tensorflow: str | None, tmp_path: Path) -> None:
    """The advised commands, resolved against the package index; nothing is installed."""
    target = describe(MATRIX, gpu=(gpu,), driver=driver, python=python)
    best = make_plan(MATRIX, target, specifier=read_specifier(tensorflow) if tensorflow else None).options[0]
    assert (best.kind, best.python) == ("as-is", python)
    wanted = tmp_path / "requirements.in"
    wanted.write_text("\n".join(requirements(best, "uv")), encoding="utf-8")
    platforms = " ".join(f"--platform {tag}_x86_64" for tag in TAGS)
    pip = f"pip install -q --dry-run --use-feature=fast-deps --ignore-installed --only-binary=:all: {platforms}"
    uv = "uv pip compile -q --no-header --python-platform x86_64-manylinux_2_28"
    for words in (
        [*pip.split(), "--python-version", python, "--target", str(tmp_path), *requirements(best, "pip")],
        [*uv.split(), "--python-version", python, str(wanted)],
    ):
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
