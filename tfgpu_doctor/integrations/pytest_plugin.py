"""The pytest plugin: tests that need GPUs say so, and are skipped with the doctor's reason where there are none.

    @pytest.mark.gpu(min=2, memory="10GiB", compute_capability="8.0")
    def test_training(gpus): ...

pytest loads this file in every run of every project in whose environment tfgpu is installed. So it imports nothing
but pytest, and does nothing until a test is collected that has the mark or uses one of the fixtures.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tfgpu_doctor.integrations.pytest_gpus import Share, UsableGpu

MARK, FIXTURES = "gpu", ("gpu", "gpus")
_REGISTERED = (
    "gpu(min=1, memory=None, compute_capability=None): skip the test, or fail it under --require-gpu, unless "
    'TensorFlow can use so many GPUs, each with so much memory ("10GiB") and such a compute capability ("8.0")'
)
_SHARE = pytest.StashKey["Share"]()
_PROBLEM = pytest.StashKey[str]()  # why a test fails before it begins
_CLOSING = pytest.StashKey[ExitStack]()
_FOLDER = pytest.StashKey[str]()


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


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what workers shared."""
    config.stash.get(_CLOSING, ExitStack()).close()


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
    """Examine the machine if a selected test needs GPUs, take this worker's share, and mark the tests without GPUs.

    Here, and not when the first test runs: a fixture of a wider scope may use TensorFlow before.
    """
    config = session.config
    items = [item for item in session.items if any(item.iter_markers(MARK))]
    if not items or config.option.collectonly or _has_own_mark(config):
        return
    from tfgpu_doctor.integrations.pytest_gpus import MarkError, Needs, read

    share = _share(config)
    for item in items:
        try:
            reason = share.missing(Needs.of(read(mark.args, mark.kwargs) for mark in item.iter_markers(MARK)))
        except MarkError as error:
            file, line, name = item.location
            item.stash[_PROBLEM] = f"{file}:{(line or 0) + 1}: the mark gpu of {name}: {error}"
            continue
        if reason and _is_required(config):
            item.stash[_PROBLEM] = f"{reason} (--require-gpu)"
        elif reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose GPUs are required and missing, or whose mark is wrong; one that is skipped stays skipped."""
    if problem := item.stash.get(_PROBLEM, ""):
        pytest.fail(problem, pytrace=False)


def _share(config: pytest.Config) -> Share:
    """Return what this process has, found out once; a worker of pytest-xdist sees its own GPUs only."""
    if _SHARE not in config.stash:
        from tfgpu_doctor.integrations.pytest_gpus import Share, examine, of_worker

        given: dict[str, Any] | None = getattr(config, "workerinput", None)
        if given is None or not given.get("tfgpu"):  # on another machine, or with GPUs of its own (--tx)
            machine = examine()
            config.stash[_SHARE] = Share(machine, machine.gpus)
        else:
            number = int("0" + "".join(filter(str.isdecimal, given["workerid"])))
            config.stash[_SHARE] = of_worker(given["tfgpu"], number, given["workercount"])
    return config.stash[_SHARE]


@pytest.fixture(scope="session")
def gpus(request: pytest.FixtureRequest) -> tuple[UsableGpu, ...]:
    """The GPUs that tests of this process may use; of a worker of pytest-xdist its own. Skips where there are none."""
    from tfgpu_doctor.integrations.pytest_gpus import Needs

    share = _share(request.config)
    if reason := share.missing(Needs()):
        if _is_required(request.config):
            pytest.fail(f"{reason} (--require-gpu)", pytrace=False)
        pytest.skip(reason)
    if share.problem:
        pytest.fail(share.problem, pytrace=False)
    return share.gpus


@pytest.fixture(scope="session")
def gpu(gpus: tuple[UsableGpu, ...]) -> UsableGpu:
    """The GPU for a test that uses one: index, uuid, name, memory (bytes), compute_capability, device ("/GPU:0")."""
    return gpus[0]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of this machine where the first that must know the GPUs writes them for the others."""
    config, spec = node.config, node.gateway.spec
    if not spec.popen or "CUDA_VISIBLE_DEVICES" in spec.env:
        return
    if _FOLDER not in config.stash:
        from tfgpu_doctor.probes.process import temporary_folder

        closing = config.stash[_CLOSING] = ExitStack()
        config.stash[_FOLDER] = closing.enter_context(temporary_folder({})).get("TMPDIR", "")
    node.workerinput["tfgpu"] = config.stash[_FOLDER]


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    """Show the stack, where a test was selected that needs GPUs."""
    share = config.stash.get(_SHARE, None)
    return f"tfgpu: {share.machine.stack}" if share and share.machine.stack and config.option.verbose >= 0 else None
