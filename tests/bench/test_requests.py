"""Everything that a declared workload needs is there; wrong usage is told before anything is measured; verdicts."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from tests.bench.fake_worker import ANSWERS
from tests.bench.live import refuses
from tests.tables import each, read_rows
from tfgpu_doctor.bench.devices import (
    SPREADS,
    DeviceError,
    GpuFound,
    RequestError,
    Selection,
    parse_devices,
    parse_gpus,
)
from tfgpu_doctor.bench.plans.base import PlanBase
from tfgpu_doctor.bench.requests import make_plan, read_request
from tfgpu_doctor.bench.results import WORKLOADS
from tfgpu_doctor.bench.workloads import gan
from tfgpu_doctor.cli.bench import command as group

PAGE = (Path(__file__).parents[2] / "docs" / "commands" / "bench.md").read_text(encoding="utf-8")
ROWS = read_rows(Path(__file__).with_name("rows.yaml"))
TWO = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'


@each("name", WORKLOADS)
def test_command_plan_and_worker_file_exist(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None and command.name == name
    assert f"tfgpu bench {name}" in (command.epilog or "")  # an example
    plan = make_plan(read_request(name, sys.executable, {}, {}))
    assert plan.workload == name
    source = "".join(inspect.getsource(kind) for kind in type(plan).__mro__ if issubclass(kind, PlanBase))
    assert "session.begin(" in source, "the time of its runs is neither limited nor said beforehand"
    worker = importlib.import_module(f"tfgpu_doctor.bench.workloads.{name}")
    for needed in ("UNIT", "judge", "Workload"):
        assert hasattr(worker, needed), f"bench/workloads/{name}.py has no {needed}"
    assert f"| `tfgpu bench {name}" in PAGE, "docs/commands/bench.md does not say what it measures"
    assert (Path(__file__).parent / f"test_{name}.py").is_file(), f"tests/bench/test_{name}.py is missing"


@each(("workload", "row"), [(name, row) for name, rows in ROWS["usage"].items() for row in rows])
def test_wrong_usage_is_told_before_anything_is_measured(workload: str, row: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").parent.mkdir(exist_ok=True)
    (tmp_path / "saved_model.pb").write_bytes(b"no model")
    arguments = [str(tmp_path) if one == "SAVED" else one for one in row["arguments"]]
    config = row.get("config", "")
    refuses([workload, *arguments], row["message"], TF_CONFIG=TWO if config == "two" else config)


@each(("workload", "row"), [(name, row) for name, rows in ROWS["verdicts"].items() for row in rows])
def test_verdicts(workload: str, row: tuple[dict[str, Any], str, str]) -> None:
    module, right = importlib.import_module(f"tfgpu_doctor.bench.workloads.{workload}"), ANSWERS[workload]
    changes, dtype, why = row
    answer = changes if "block" in changes else {**right, **changes}
    found = module.judge(answer, dtype, {"reference": changes.get("reference", "float64")})
    assert found.ok is (why == "") and found.why.startswith(why)
    if workload == "gan" and "block" not in changes:
        assert (found.residual, found.tolerance) == (answer["update"], gan.TOLERANCE[dtype][1])


H200 = GpuFound("NVIDIA H200", "9.0")


def test_options_are_read() -> None:
    named = {"cpu": ("/CPU:0",), "GPU:1,cpu": ("/GPU:1", "/CPU:0"), "/device:GPU:1": ("/GPU:1",)}
    named |= dict.fromkeys(("gpu", "gpu:0,gpu:00"), ("/GPU:0",))
    assert {text: parse_devices(text.split(",")) for text in named} == named
    for text in ("", "cpu,", "tpu", "gpu:-1", "cpu:1", "gpu:x", "gpu 1", "[red]"):
        with pytest.raises(RequestError, match="--devices"):
            parse_devices(text.split(","))
    assert [parse_gpus(text) for text in ("1", "8", "all", "ALL")] == [1, 8, None, None]
    for text in ("0", "-1", "", "two", "1.5", "²"):
        with pytest.raises(RequestError, match="must be a number from 1 up, or all"):
            parse_gpus(text)


@each(("count", "options", "expected"), ROWS["devices"])
def test_cases(count: int, options: dict[str, Any], expected: list[str]) -> None:
    found = []
    options = {name: tuple(one) if isinstance(one, list) else one for name, one in options.items()}
    selection = Selection(**{name: value for name, value in options.items() if name != "spreads"})
    for case in selection.cases([H200] * count, options.get("spreads", SPREADS)):
        physical = " of " + " ".join(map(str, case.gpus)) if case.gpus else ""
        found.append(f"{case.label} {' '.join(case.devices)}{physical}{' virtual' if case.virtual else ''}")
    assert found == expected


@each(("count", "options", "message"), ROWS["too few devices"])
def test_gpus_that_are_not_there(count: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        Selection(**options).cases([H200] * count)
