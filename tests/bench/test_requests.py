"""Everything that a declared workload needs is there: its command, its plan and its worker file agree on the name."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import click

from tests.tables import each
from tfgpu_doctor.bench.plans.base import PlanBase
from tfgpu_doctor.bench.requests import make_plan, read_request
from tfgpu_doctor.bench.results import WORKLOADS
from tfgpu_doctor.cli.bench import command as group

PAGE = (Path(__file__).parents[2] / "docs" / "commands" / "bench.md").read_text(encoding="utf-8")


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
