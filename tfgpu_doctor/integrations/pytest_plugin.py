"""The pytest plugin: tests that need GPUs say so, and are skipped with the doctor's reason where there are none.

    @pytest.mark.gpu(min=2, memory="10GiB", compute_capability="8.0")
    def test_training(gpus): ...

pytest loads this file in every run of every project in whose environment tfgpu is installed. So it imports nothing
but pytest, and does nothing until a test is collected that has the mark or uses one of the fixtures.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tfgpu_doctor.integrations.pytest_gpus import Machine, UsableGpu

MARK, FIXTURES = "gpu", ("gpu", "gpus")
_REGISTERED = (
    "gpu(min=1, memory=None, compute_capability=None): skip the test, or fail it under --require-gpu, unless "
    'TensorFlow can use so many GPUs, each with so much memory ("10GiB") and such a compute capability ("8.0")'
)
_MACHINE = pytest.StashKey["Machine"]()
_PROBLEM = pytest.StashKey[str]()  # why a test fails before it begins


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --require-gpu."""
    parser.getgroup("tfgpu", "GPUs for tests of TensorFlow (tfgpu)").addoption(
        "--require-gpu",
        action="store_true",
        help="Fail tests marked gpu, instead of skipping them, where TensorFlow cannot use the GPUs that they need "
        "(also: TFGPU_REQUIRE_GPU=1).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _REGISTERED)


def _is_required(config: pytest.Config) -> bool:
    variable = os.environ.get("TFGPU_REQUIRE_GPU", "").lower()
    return bool(config.getoption("require_gpu")) or variable not in ("", "0", "false", "f", "no", "n", "off")


def _has_own_mark(config: pytest.Config) -> bool:
    """True if the project has registered a marker `gpu` of its own, which means what it says there."""
    lines = (line for line in config.getini("markers") if line != _REGISTERED)
    return any(line.partition(":")[0].partition("(")[0].strip() == MARK and "min" not in line for line in lines)


def _uses_fixture(item: pytest.Item) -> bool:
    """True if a test uses one of our fixtures, and not another of that name."""
    found = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", None) or {}
    used = [definition for name in FIXTURES for definition in (found.get(name) or ())[-1:]]
    return any(getattr(definition.func, "__module__", "") == __name__ for definition in used)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that uses one of the fixtures, so that `-m gpu` selects it: else no run of a CI would have it."""
    if not any(item.iter_markers(MARK)) and _uses_fixture(item) and not _has_own_mark(item.config):
        item.add_marker(MARK)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Examine the machine if a selected test needs GPUs, and mark the tests that cannot run on it.

    Here, and not when the first test runs: a fixture of a wider scope may use TensorFlow before.
    """
    config = session.config
    items = [item for item in session.items if any(item.iter_markers(MARK))]
    if not items or config.option.collectonly or _has_own_mark(config):
        return
    try:
        machine = _machine(config)
    except pytest.UsageError as error:
        if not hasattr(config, "workerinput"):  # in a worker of xdist it would be an internal error of pytest
            raise
        for item in items:
            item.stash[_PROBLEM] = str(error)
        return
    for item in items:
        _judge(item, machine)


def _judge(item: pytest.Item, machine: Machine) -> None:
    """Skip a test that cannot run on this machine, or let it fail where it must; or because its mark is wrong."""
    from tfgpu_doctor.integrations.pytest_gpus import MarkError, Needs, read

    try:
        reason = machine.missing(Needs.of(read(mark.args, mark.kwargs) for mark in item.iter_markers(MARK)))
    except MarkError as error:
        file, line, name = item.location
        item.stash[_PROBLEM] = f"{file}:{(line or 0) + 1}: the mark gpu of {name}: {error}"
        return
    if reason and _is_required(item.config):
        item.stash[_PROBLEM] = f"{reason} (--require-gpu)"
    elif reason:
        item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose GPUs are required and missing, or whose mark is wrong; one that is skipped stays skipped."""
    if problem := item.stash.get(_PROBLEM, ""):
        pytest.fail(problem, pytrace=False)


def _machine(config: pytest.Config) -> Machine:
    """Return what the machine has, found out once in this process. Raises UsageError: TFGPU_DOCTOR_FROM is wrong."""
    if _MACHINE not in config.stash:
        from tfgpu_doctor.integrations.pytest_gpus import SettingError, examine

        try:
            config.stash[_MACHINE] = examine()
        except SettingError as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[_MACHINE]


@pytest.fixture(scope="session")
def gpus(request: pytest.FixtureRequest) -> tuple[UsableGpu, ...]:
    """The GPUs that tests may use. Skips where there are none."""
    from tfgpu_doctor.integrations.pytest_gpus import Needs

    machine = _machine(request.config)
    if reason := machine.missing(Needs()):
        if _is_required(request.config):
            pytest.fail(f"{reason} (--require-gpu)", pytrace=False)
        pytest.skip(reason)
    return machine.gpus


@pytest.fixture(scope="session")
def gpu(gpus: tuple[UsableGpu, ...]) -> UsableGpu:
    """The GPU for a test that uses one: name, memory (bytes), compute_capability, device ("/GPU:0")."""
    return gpus[0]


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    """Show the stack, where a test was selected that needs GPUs."""
    machine = config.stash.get(_MACHINE, None)
    return f"tfgpu: {machine.stack}" if machine and machine.stack and config.option.verbose >= 0 else None
