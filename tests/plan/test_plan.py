"""`tfgpu plan`: which release for which machine, with which commands, and why nothing newer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Facts, Unknown
from tfgpu_doctor.plan.constraints import CONSTRAINTS, PlanRequest, violations
from tfgpu_doctor.plan.install_commands import list_gpus
from tfgpu_doctor.plan.ranking import machine_state, make_plan
from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.plan.target import TargetError, describe, from_facts, read_specifier

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


def plan(specifier: str | None = None, **described: Any) -> Plan:
    for name in ("gpu", "compute_capability"):
        if isinstance(described.get(name), str):
            described[name] = (described[name],)
    return make_plan(MATRIX, describe(MATRIX, **described), specifier=read_specifier(specifier) if specifier else None)


def plan_of(facts: Facts, python: str | None = None) -> Plan:
    return make_plan(MATRIX, from_facts(facts, MATRIX, python), state=machine_state(facts, MATRIX, python))


def brief(options: tuple[Option, ...]) -> list[str]:
    return [f"{option.kind} {option.tensorflow}" for option in options]


def pip(option: Option, which: int = -1) -> str:
    return option.commands["pip"][which]


# ------------------------------------------------------------------------------------------- the best option


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


def test_a_driver_that_compiles_no_ptx_of_the_newest_wheels_has_other_ways() -> None:
    """conda-forge's builds have SASS for Hopper, and an image brings the libcuda of its CUDA."""
    found = plan(gpu="H100", driver="535", python="3.12")
    assert brief(found.options) == [
        "as-is 2.16.2", "driver 2.20.0", "conda-forge 2.19.1", "container 2.17.0+nv25.2", "container 2.17.0",
    ]  # fmt: skip
    assert found.options[1].min_driver == "555.42.02"
    why = next(one for ruled in found.ruled_out for one in ruled.violations if one.constraint == "driver")
    assert why.need.startswith("driver 555.42.02 or newer, for its PTX 8.5 (1149 of 1479 fat binaries have no SASS")
    assert why.source.endswith("manylinux_2_27_x86_64.whl: the fat binaries of its libraries")


def test_a_python_without_wheels_is_exchanged() -> None:
    new = plan(gpu="RTX 4090", driver="570", python="3.14")
    assert new.options[0].commands["uv"][0] == "uv venv --python 3.13 ~/tf"
    assert [one.constraint for one in new.ruled_out[0].violations] == ["python", "known-issue"]


@each(("gpu", "driver", "problem", "first"), ROWS["test_another_driver_is_asked_for_first"])
def test_another_driver_is_asked_for_first(gpu: str, driver: str, problem: str | None, first: str) -> None:
    found = plan(gpu=gpu, driver=driver)
    assert found.problems[:1] == ((problem,) if problem else found.problems[:1])
    option = next(one for one in found.options if "driver" in one.kind or one.kind == "conda-forge")
    assert option.first[0].text.startswith(first)


def test_a_driver_is_not_updated_beyond_the_last_branch_for_the_card() -> None:
    kepler = plan(gpu="Tesla K80", driver="470", python="3.10")
    assert "driver" not in [option.kind for option in kepler.options]
    assert any("470 is the last for this GPU" in note for note in kepler.options[0].notes)
    back = plan(gpu="GTX 1080", driver="590.10", python="3.12").options[0]
    assert back.title.endswith("after a downgrade to driver branch 580")


@each(("python", "kinds"), ROWS["test_windows"])
def test_windows(python: str | None, kinds: list[str]) -> None:
    found = plan(gpu="RTX 3060", os="windows", python=python)
    assert [brief(found.options)[0], *(one for one in brief(found.options) if one in kinds[1:])] == kinds
    native = next(option for option in found.options if option.tensorflow == "2.10.1")
    assert native.commands == {
        "conda": (
            'conda create -y -n tf -c conda-forge python=3.10 pip cudatoolkit=11.2 "cudnn>=8.1,<9"',
            'conda run -n tf python -m pip install tensorflow==2.10.1 "numpy<2"',
        )
    }
    wsl = next(option for option in found.options if option.kind == "wsl2")
    assert (wsl.first[-1].commands, next(iter(wsl.commands))) == (("wsl --install",), "uv")
    assert wsl.then[0].commands[0].startswith("~/tf/bin/python -c")  # the doctor of Windows does not see it
    assert (found.options[-1].kind, found.options[-1].tensorflow) == ("cpu", "2.21.0")
    # the driver of Windows, then the terminal of WSL2; what newer releases lack is judged in WSL2, too
    old = plan(gpu="A100", os="windows", driver="450")
    assert ["driver" in fix.text and "Windows" in fix.text for fix in old.options[0].first] == [True, False]
    assert all(one.constraint != "build" for group in old.ruled_out for one in group.violations)


@each(("python", "options"), ROWS["test_a_machine_without_a_gpu_gets_the_cpu"])
def test_a_machine_without_a_gpu_gets_the_cpu(python: str | None, options: list[str]) -> None:
    found = plan_of(spoil(healthy(), {"gpus": known(()), "host.pci_gpus": known(())}), python=python)
    assert "no NVIDIA GPU" in found.problems[0]
    assert [f"{one.kind} {one.tensorflow} {one.python}" for one in found.options] == options
    for one in found.options if python else ():
        row = MATRIX.tensorflow(one.tensorflow, "linux_x86_64")
        assert row and one.python in row.python
        assert str(one.python) in one.commands["pip"][0]  # never python3


def test_macos() -> None:
    found = plan(os="macos", python="3.11")
    assert brief(found.options) == ["cpu 2.21.0"]
    assert "macOS has no CUDA" in found.problems[0] and not found.is_found
    assert [fix.commands[0] for fix in found.options[0].missing] == ["brew install python@3.11", "brew install uv"]
    assert brief(plan(os="macos", machine="x86_64").options) == ["cpu 2.16.2"]


def test_a_jetson_is_sent_to_jetpack_and_a_grace_hopper_to_the_images_for_arm() -> None:
    jetson = plan(gpu="Jetson Orin Nano")
    assert (jetson.target.machine, jetson.options) == ("aarch64", ())
    assert "JetPack" in jetson.problems[0] and "install-tf-jetson-platform" in jetson.problems[0]
    grace = plan(gpu="GH200", driver="570")
    assert (grace.target.machine, grace.options[0].package) == ("aarch64", "nvcr.io/nvidia/tensorflow")


# ----------------------------------------------------------------------------------------- what is asked for


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
    targets = [msgspec.structs.replace(describe(MATRIX, **one), glibc="2.12") for one in DEMANDING]
    found = set()
    for target in targets:
        request = PlanRequest(MATRIX, target, read_specifier("2.15"))
        rows = MATRIX.releases(platform=target.platform)
        rows = (*rows, msgspec.structs.replace(rows[0], yanked="CVE", gpu=True))  # the matrix has none
        found |= {one.constraint for row in rows for one in violations(request, row)}
    assert set(CONSTRAINTS) - found == set()


# -------------------------------------------------------------------------------------------- this machine


def test_this_machines_environment_is_never_installed_into() -> None:
    best = plan_of(healthy()).options[0]
    assert best.commands["pip"] == (
        "/env/bin/python -m venv ~/tf",
        "~/tf/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'",
    )
    for commands in (plan_of(healthy(), python=python).options[0].commands for python in (None, "3.13", "3.8")):
        installs = [line for lines in commands.values() for line in lines if " install " in line]
        assert installs and all("/env/bin/python" not in line for line in installs)
    assert best.then[0].commands == ("tfgpu doctor --python ~/tf/bin/python",)


def test_another_python_needs_another_environment() -> None:
    assert plan_of(healthy(), python="3.11").options[0].commands["pip"][0] == "python3.11 -m venv ~/tf"


def test_on_musl_there_are_images_only() -> None:
    found = plan_of(spoil(healthy(), {"host.libc": known("musl 1.2.4")}))
    assert {option.kind for option in found.options} == {"container"}
    assert "musl instead of glibc (Alpine)" in found.problems[0]
    assert {one.constraint for group in found.ruled_out for one in group.violations} >= {"glibc"}


def test_a_plain_python3_is_named_only_where_any_of_today_will_do() -> None:
    assert pip(plan(gpu="T4").options[0], 0) == "python3 -m venv ~/tf"
    assert pip(plan(gpu="K80").options[0], 0) == "python3.11 -m venv ~/tf"


def test_without_a_driver_the_bus_tells_the_card_and_the_driver_comes_first() -> None:
    facts = spoil(
        healthy(),
        {
            "gpus": Unknown("no driver"),
            "driver.version": Unknown("no driver"),
            "driver.libcuda": known(()),
        },
    )
    found = plan_of(facts)
    assert found.target.gpus  # from pci.ids
    assert "driver" in found.options[0].first[0].text


def test_an_unknown_machine_is_no_reason_to_fail() -> None:
    found = plan_of(Facts())
    assert found.options[0].tensorflow == "2.20.0"


def test_json_and_back() -> None:
    found = plan(gpu="RTX 4090", driver="535.113.01", python="3.12")
    assert msgspec.json.decode(found.to_json(), type=Plan) == found


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
    assert len(lines) == 3
    scripts = f"""{chr(10).join(lines)}
    export CONDA_PREFIX={prefix}
    for before in "" /drv; do
      export LD_LIBRARY_PATH="$before"
      . "$E/activate.d/cuda.sh"; echo "$LD_LIBRARY_PATH"
      . "$E/deactivate.d/cuda.sh"; echo "$LD_LIBRARY_PATH"
    done"""
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-e", "-c", scripts], env=environ, stdout=subprocess.PIPE, check=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == [f"{prefix}/lib", "", f"{prefix}/lib:/drv", "/drv"]


@each(("described", "commands"), ROWS["test_how_to_get_what_is_missing"])
def test_how_to_get_what_is_missing(described: dict[str, Any], commands: list[str]) -> None:
    best = plan(gpu="V100", driver="535", **described).options[0]
    told = " | ".join(command for fix in best.missing for command in fix.commands)
    assert all(command in told for command in commands), told
    assert next(iter(best.commands)) == ("pip" if described.get("python") == "3.12" else "uv")
    assert best.commands["pip"][0] == f"python{best.python if described else '3'} -m venv ~/tf"


def test_a_release_is_checked_with_what_it_has() -> None:
    calls = {"1.15.5": "is_gpu_available", "2.0.4": "is_gpu_available", "2.1.0": "list_physical_devices"}
    assert [version for version, call in calls.items() if call not in list_gpus(version)] == []


def test_a_pip_that_does_not_know_the_wheels_is_updated_first() -> None:
    for python, specifier in (("3.6", "2.6"), ("3.7", "2.11"), ("3.8", "2.13"), ("3.9", "2.20")):
        lines = plan(specifier, gpu="T4", driver="535", python=python).options[0].commands["pip"]
        assert lines[1] == "~/tf/bin/python -m pip install --upgrade pip", python
