"""`tfgpu plan` on the machine that it runs on: the real NVML bindings over the fault lab's driver."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.cli.runner import process as tfgpu
from tests.lab import Lab

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def planned(driver_lab: Lab, *arguments: str, **answers: Any) -> dict[str, Any]:
    done = tfgpu("plan", *arguments, "--format", "json", environ=driver_lab.environ(cuinit=0, **answers))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_cards_and_the_driver_are_this_machines(driver_lab: Lab) -> None:
    plan = planned(driver_lab, gpus=2, name="NVIDIA GeForce RTX 4090", cc="8.9", driver="550.54.14")
    target = plan["target"]
    assert plan["described"] is False
    assert [gpu["compute_capability"] for gpu in target["gpus"]] == ["8.9", "8.9"]
    assert (target["driver"], target["python"]) == ("550.54.14", HERE)
    assert plan["options"][0]["tensorflow"] == "2.20.0"


@pytest.mark.full
def test_a_hung_driver_does_not_hang_the_plan(driver_lab: Lab) -> None:
    plan = planned(driver_lab, "--python", "3.12", nvml_init="hang")
    assert plan["options"]  # for any card: which one, nobody could tell
    assert "does not respond" in plan["problems"][0]
