"""`tfgpu plan`: which release for which machine, with which commands, and why nothing newer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.healthy import MATRIX, healthy, known, spoil
from tfgpu_doctor.plan.constraints import CONSTRAINTS, PlanRequest, violations
from tfgpu_doctor.plan.ranking import machine_state, make_plan
from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.plan.target import TargetError, describe, from_facts, read_specifier
from tfgpu_doctor.records.facts import Facts, Unknown, value_or


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


WITH_CUDA, PASCAL, SPELLED_OUT = "tensorflow[and-cuda]==2.20.0", "nvidia-cudnn-cu12<9.11", "nvidia-cudnn-cu11==8.7.0.84"

# ------------------------------------------------------------------------------------------- the best option


@pytest.mark.parametrize(
    ("described", "kind", "version", "python", "requirements"),
    [
        # 2.21.0 does not find its own libcusolver
        ({"gpu": "RTX 4090", "driver": "535.113.01", "python": "3.12"}, "as-is", "2.20.0", "3.12", WITH_CUDA),
        # the extra would bring a cuDNN that has dropped Pascal (9.11 and later)
        ({"gpu": "GTX 1080", "driver": "535", "python": "3.12"}, "as-is", "2.20.0", "3.12", PASCAL),
        ({"gpu": "V100", "driver": "525.60.13", "python": "3.9"}, "as-is", "2.20.0", "3.9", PASCAL),
        # the last release of CUDA 11; its extra wants a TensorRT without a wheel for 3.11, so its parts are named
        ({"gpu": "A100", "driver": "470.82.01", "python": "3.11"}, "as-is", "2.14.1", "3.11", SPELLED_OUT),
        ({"gpu": "K80", "driver": "470", "python": "3.10"}, "as-is", "2.14.1", "3.10", "tensorflow[and-cuda]==2.14.1"),
        # before the extra and-cuda: NVIDIA's packages for CUDA 11, with a cuDNN as new as the one compiled against
        ({"gpu": "T4", "driver": "525.60.13", "python": "3.8"}, "as-is", "2.13.1", "3.8", "nvidia-cudnn-cu11>=8.6,<9"),
        ({"gpu": "RTX 3060", "python": "3.10", "os": "wsl2"}, "as-is", "2.20.0", "3.10", WITH_CUDA),
    ],
)  # fmt: skip
def test_best(described: dict[str, Any], kind: str, version: str, python: str, requirements: str) -> None:
    best = plan(**described).options[0]
    assert (best.kind, best.tensorflow, best.python) == (kind, version, python)
    assert requirements in pip(best) or any(requirements in line for line in best.commands["pip"])
    for manager, commands in best.commands.items():
        assert any(f"=={version}" in command for command in commands), manager


def test_a_python_without_wheels_is_exchanged() -> None:
    new = plan(gpu="RTX 4090", driver="570", python="3.14")
    assert brief(new.options)[0] == "python 2.20.0"
    assert new.options[0].commands["uv"][0] == "uv venv --python 3.13 ~/tf"
    assert [one.constraint for one in new.ruled_out[0].violations] == ["python", "known-issue"]


def test_an_old_python_keeps_an_old_release_and_learns_what_another_brings() -> None:
    assert brief(plan(gpu="T4", driver="550", python="3.8").options)[:2] == ["as-is 2.13.1", "python 2.20.0"]


def test_an_old_driver_keeps_an_old_release_and_learns_what_an_update_brings() -> None:
    found = plan(gpu="A100", driver="470.82.01", python="3.11")
    assert brief(found.options)[:2] == ["as-is 2.14.1", "driver 2.20.0"]
    update = found.options[1]
    assert "525.60.13 or newer" in update.first[0].text
    assert update.min_driver == "525.60.13"


def test_a_driver_is_not_updated_beyond_the_last_branch_for_the_card() -> None:
    kepler = plan(gpu="Tesla K80", driver="470", python="3.10")
    assert "driver" not in [option.kind for option in kepler.options]
    assert any("470 is the last that supports this GPU" in note for note in kepler.options[0].notes)


def test_a_driver_that_no_longer_drives_the_card() -> None:
    found = plan(gpu="GTX 1080", driver="590.10", python="3.12")
    assert found.problems == (
        "Driver 590.10 no longer supports GeForce GTX 1080: driver branch 580 is the last that does",
    )
    assert found.options[0].kind == "driver"
    assert found.options[0].title.endswith("after a downgrade to driver branch 580")
    assert found.options[0].first[0].text == (
        "Install a driver of branch 580, the last that supports this GPU. Then restart"
    )


@pytest.mark.parametrize(("gpu", "driver"), [("RTX 5090", "550"), ("RTX 5080", "565"), ("B200", "535")])
def test_a_card_of_conda_forge_only_with_a_driver_that_is_too_old(gpu: str, driver: str) -> None:
    found = plan(gpu=gpu, driver=driver)
    assert found.options[0].kind == "conda-forge"
    assert "Install NVIDIA driver 570 or newer" in found.options[0].first[0].text
    assert plan(gpu=gpu, driver="570").options[0].first == ()


def test_a_release_that_does_not_exist() -> None:
    with pytest.raises(TargetError, match=r"no release of TensorFlow matches ==2\.99\.\*; the newest .* is 2\."):
        plan("2.99", gpu="A100")


def test_a_driver_that_does_not_know_the_card_yet() -> None:
    found = plan(gpu="RTX 4090", driver="470.82.01", python="3.11")
    assert found.problems == (
        "Driver 470.82.01 does not support GeForce RTX 4090: driver branch 520 is the first that does",
    )
    assert found.options[0].kind == "driver"


def test_windows() -> None:
    found = plan(gpu="RTX 3060", os="windows", python="3.10")
    assert brief(found.options)[0] == "as-is 2.10.1"
    assert found.options[0].commands == {
        "conda": (
            'conda create -y -n tf -c conda-forge python=3.10 pip cudatoolkit=11.2 "cudnn>=8.1,<9"',
            'conda run -n tf python -m pip install tensorflow==2.10.1 "numpy<2"',
        )
    }
    wsl = next(option for option in found.options if option.kind == "wsl2")
    assert (wsl.tensorflow, wsl.first[0].commands) == ("2.20.0", ("wsl --install",))


def test_macos_has_no_cuda() -> None:
    found = plan(os="macos", python="3.11")
    assert found.options == ()
    assert "macOS has no CUDA" in found.problems[0]


def test_a_jetson_is_sent_to_jetpack_and_a_grace_hopper_to_the_images_for_arm() -> None:
    jetson = plan(gpu="Jetson Orin Nano")
    assert (jetson.target.machine, jetson.options) == ("aarch64", ())
    assert "JetPack" in jetson.problems[0]
    grace = plan(gpu="GH200", driver="570")
    assert (grace.target.machine, grace.options[0].package) == ("aarch64", "nvcr.io/nvidia/tensorflow")


def test_two_cards_must_both_be_served() -> None:
    both = plan(gpu=("GTX 1080 Ti", "RTX 4090"), driver="550", python="3.12").options[0]
    assert both.tensorflow == "2.20.0"
    assert "nvidia-cudnn-cu12<9.11" in pip(both)
    assert brief(plan(gpu=("Tesla K80", "RTX 4090"), driver="550", python="3.10").options)[:1] != ["as-is 2.20.0"]


# ----------------------------------------------------------------------------------------- what is asked for


def test_only_the_versions_asked_for() -> None:
    found = plan("2.15", gpu="RTX 3090", driver="535", python="3.10")
    assert found.options[0].tensorflow == "2.15.1"
    assert {one.constraint for group in found.ruled_out for one in group.violations} >= {"tensorflow"}
    assert plan(">=2.12,<2.14", gpu="RTX 3090", driver="535", python="3.10").options[0].tensorflow == "2.13.1"


def test_what_would_have_to_give_way() -> None:
    found = plan("2.15", gpu="RTX 3090", driver="535", python="3.12")
    assert found.options[0].kind == "python"  # one cheap change, not a dead end
    mac = plan("2.15", os="macos", python="3.10")
    assert mac.lift is None or mac.lift.constraint == "build"


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


@pytest.mark.parametrize("text", ["latest", "2.x", ">=", "2.15.*.1"])
def test_no_version(text: str) -> None:
    with pytest.raises(TargetError, match=r"not a TensorFlow version such as 2\.15"):
        read_specifier(text)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("2.15", "2.15.1", "2.16.1"),
        ("2.15.1", "2.15.1", "2.15.0"),
        (">=2.12,<2.14", "2.13.1", "2.14.0"),
        ("2", "2.21.0", "1.15.5"),
    ],
)
def test_specifiers(text: str, inside: str, outside: str) -> None:
    specifier = read_specifier(text)
    assert specifier.contains(inside) and not specifier.contains(outside)


# -------------------------------------------------------------------------------------------- this machine


def test_this_machine_installs_into_its_own_environment() -> None:
    best = plan_of(healthy()).options[0]
    assert best.commands["pip"] == ("/env/bin/python -m pip install 'tensorflow[and-cuda]==2.20.0'",)
    assert best.commands["uv"] == ("uv pip install --python /env/bin/python 'tensorflow[and-cuda]==2.20.0'",)


def test_another_python_needs_another_environment() -> None:
    assert plan_of(healthy(), python="3.11").options[0].commands["pip"][0] == "python3.11 -m venv ~/tf"


def test_a_machine_without_a_gpu_gets_the_cpu() -> None:
    facts = spoil(healthy(), {"gpus": known(()), "host.pci_gpus": known(())})
    found = plan_of(facts)
    assert brief(found.options) == ["cpu 2.21.0"]
    assert "no NVIDIA GPU" in found.problems[0]


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


def test_packages_in_the_way_are_removed_first() -> None:
    installed = value_or(healthy().python.packages, ())
    other = msgspec.structs.replace(installed[0], name="tensorflow-cpu")
    best = plan_of(spoil(healthy(), {"python.packages": known((*installed, other))})).options[0]
    assert best.first[-1].commands == ("/env/bin/python -m pip uninstall -y tensorflow-cpu",)


def test_an_unknown_machine_is_no_reason_to_fail() -> None:
    found = plan_of(Facts())
    assert found.options[0].tensorflow == "2.20.0"


def test_json_and_back() -> None:
    found = plan(gpu="RTX 4090", driver="535.113.01", python="3.12")
    assert msgspec.json.decode(found.to_json(), type=Plan) == found


def test_activating_adds_to_what_the_variables_hold(tmp_path: Path) -> None:
    """A cluster may give the driver through LD_LIBRARY_PATH alone; --xla_gpu_cuda_data_dir may be set on purpose."""
    folder = tmp_path / "with a blank"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "nvidia" / "cudnn" / "lib").mkdir(parents=True)
    line = pip(plan(gpu="T4", driver="525.60.13", python="3.8").options[0], -2)
    line = line.replace("~/tf", str(folder).replace(" ", "\\ "))
    show = '. "$0" && echo "$LD_LIBRARY_PATH" && echo "$XLA_FLAGS"'
    outside = {"PATH": os.environ["PATH"]}
    subprocess.run(["sh", "-c", line], check=True, env=outside, timeout=60)

    def activated(**environ: str) -> list[str]:
        command = ["sh", "-c", show, str(folder / "bin" / "activate")]
        done = subprocess.run(
            command, check=True, env={**outside, **environ}, capture_output=True, text=True, timeout=60
        )
        return done.stdout.splitlines()

    ours, flag = f"{site}/nvidia/cudnn/lib", f"--xla_gpu_cuda_data_dir={site}/nvidia/cuda_nvcc"
    assert activated() == [ours, flag]
    assert activated(LD_LIBRARY_PATH="/drv", XLA_FLAGS="--own") == [f"{ours}:/drv", "--own"]
