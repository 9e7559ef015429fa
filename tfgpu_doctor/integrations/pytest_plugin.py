"""The pytest plugin: tests that need GPUs say so, and are skipped with the doctor's reason where there are none.

    @pytest.mark.gpu(min=2, memory="10GiB", compute_capability="8.0")
    def test_training(gpus): ...

pytest loads this file in every run of every project in whose environment tfgpu is installed. So it imports nothing
but pytest, and does nothing until a test is collected that has the mark or uses one of the fixtures.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tfgpu_doctor.integrations.pytest_gpus import Needs, Share, UsableGpu

MARK, FIXTURES = "gpu", ("gpu", "gpus")
_REGISTERED = (
    "gpu(min=1, memory=None, compute_capability=None): skip the test, or fail it under --require-gpu, unless "
    'TensorFlow can use so many GPUs, each with so much memory ("10GiB") and such a compute capability ("8.0")'
)
_INPUT = "tfgpu"  # the key of what the controller of pytest-xdist gives to workers, and they to it
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_TRUE, _FALSE = ("1", "true", "t", "yes", "y", "on"), ("0", "false", "f", "no", "n", "off")  # as click reads them

_SHARE = pytest.StashKey["Share"]()
_NEEDS = pytest.StashKey["Needs"]()
_CHECKING = pytest.StashKey[bool]()  # of a test whose needs were found not to be met
_CLOSING = pytest.StashKey[ExitStack]()
_FOLDER = pytest.StashKey[str]()
_BEFORE = pytest.StashKey[str]()  # the machine, where it was examined before the workers began
_LINES = pytest.StashKey["list[str]"]()  # for the summary
_SHOWN = pytest.StashKey[bool]()  # whether the stack was shown


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, each also as a value of the configuration and as a variable."""
    group = parser.getgroup("tfgpu", "GPUs for tests of TensorFlow (tfgpu)")
    group.addoption(
        "--require-gpu",
        action="store_true",
        default=None,
        help="Fail tests marked gpu, instead of skipping them, where TensorFlow cannot use the GPUs that they need "
        "(also: require_gpu in the configuration, TFGPU_REQUIRE_GPU=1).",
    )
    group.addoption(
        "--gpus-per-worker",
        metavar="N",
        help="Give each worker of pytest-xdist N GPUs of its own before it imports anything; without it, after the "
        "collection, as many as the tests need (also: gpus_per_worker in the configuration, TFGPU_GPUS_PER_WORKER).",
    )
    parser.addini("require_gpu", "Fail tests marked gpu that cannot run, as --require-gpu does.", "bool", False)
    parser.addini("gpus_per_worker", "Number of GPUs that each worker of pytest-xdist gets before it starts.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark. Raises pytest.UsageError: a variable has no such value."""
    config.addinivalue_line("markers", _REGISTERED)
    _is_required(config), _per_worker(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what workers shared."""
    if closing := config.stash.get(_CLOSING, None):
        closing.close()


# ------------------------------------------------------------------------------------------------------- options


def _given(config: pytest.Config, name: str) -> tuple[str, str]:
    """(value, where it was given) of an option that is no flag; ("", "") where it was not."""
    variable = f"TFGPU_{name.upper()}"
    for value, where in (
        (config.getoption(name, None), f"--{name.replace('_', '-')}"),
        (os.environ.get(variable), variable),
        (config.getini(name), f"{name} in the configuration of pytest"),
    ):
        if value:
            return str(value), where
    return "", ""


def _is_required(config: pytest.Config) -> bool:
    text, where = _given(config, "require_gpu")
    if text.lower() not in (*_TRUE, *_FALSE, ""):
        raise pytest.UsageError(f"{where}: {text!r} is neither 1 nor 0")
    return text.lower() in _TRUE


def _per_worker(config: pytest.Config) -> int:
    text, where = _given(config, "gpus_per_worker")
    if text and not (text.isascii() and text.isdecimal() and int(text)):
        raise pytest.UsageError(f"{where}: {text!r} is not a number of GPUs such as 1")
    return int(text or 0)


def _has_own_mark(config: pytest.Config) -> bool:
    """Whether the project has registered a marker `gpu` of its own, which means what it says there."""
    lines = (line for line in config.getini("markers") if line != _REGISTERED)
    return any(line.partition(":")[0].partition("(")[0].strip() == MARK and "min" not in line for line in lines)


# ---------------------------------------------------------------------------------------------- what tests need


def _marks(item: pytest.Item) -> list[pytest.Mark]:
    marks = list(item.iter_markers(MARK))
    return [] if marks and _has_own_mark(item.config) else marks


def _uses_fixture(item: pytest.Item) -> bool:
    """Whether it uses one of our fixtures, and not another of that name."""
    found = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", None) or {}
    return any(
        getattr(definition.func, "__module__", "") == __name__
        for name in FIXTURES
        for definition in (found.get(name) or ())[-1:]
    )


def _needs(item: pytest.Item) -> Needs | None:
    """What a test asks for; None where it asks for no GPU. Raises MarkError: a mark is wrong."""
    marks = _marks(item)
    if not marks and not _uses_fixture(item):
        return None
    from tfgpu_doctor.integrations.pytest_gpus import all_of

    return all_of(marks)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that uses one of the fixtures, so that `-m gpu` selects it: else no run of a CI would have it."""
    if not any(item.iter_markers(MARK)) and _uses_fixture(item) and not _has_own_mark(item.config):
        item.add_marker(MARK)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, None]:
    """Refuse wrong marks where tests are collected, also where they would be deselected."""
    outcome = yield
    report = outcome.get_result()
    if report.passed and (wrong := "\n".join(_wrong_marks(report.result))):
        report.outcome, report.longrepr, report.result = "failed", wrong, []


def _wrong_marks(collected: Iterable[pytest.Item | pytest.Collector]) -> Generator[str, None, None]:
    for item in collected:
        if isinstance(item, pytest.Item) and (marks := _marks(item)):
            from tfgpu_doctor.integrations.pytest_gpus import MarkError, all_of

            try:
                all_of(marks)
            except MarkError as error:
                yield _located(item, error)


def _located(item: pytest.Item, error: Exception) -> str:
    file, line, name = item.location
    return f"{file}:{(line or 0) + 1}: the mark gpu of {name}: {error}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Find out what the machine has, if a test that was selected needs to know, and take this worker's share of it.

    Here, and not when the first test runs: a fixture of a wider scope may use TensorFlow before.
    """
    config = session.config
    if config.option.collectonly or not session.items:
        return
    found = [needs for item in session.items if (needs := _noted(item)) is not None]
    if found:
        config.stash[_SHARE] = _share(config, found)


def _noted(item: pytest.Item) -> Needs | None:
    from tfgpu_doctor.integrations.pytest_gpus import MarkError

    try:
        needs = _needs(item)
    except MarkError:  # added after the collection; told when the test runs
        return None
    if needs is not None:
        item.stash[_NEEDS] = needs
    return needs


def _share(config: pytest.Config, needs: list[Needs]) -> Share:
    from tfgpu_doctor.integrations.pytest_gpus import alone, of_worker

    given = getattr(config, "workerinput", None)
    if given is None:
        return alone(needs)
    number = int("0" + "".join(filter(str.isdecimal, given["workerid"])))
    share = of_worker(given.get(_INPUT), number, given["workercount"], needs)
    if (output := getattr(config, "workeroutput", None)) is not None:
        output[_INPUT] = [share.machine.stack, share.note]
    return share


# ------------------------------------------------------------------------------------------------ running a test


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test that cannot run here, before its fixtures are made; one that is skipped anyway stays so."""
    from tfgpu_doctor.integrations.pytest_gpus import MarkError

    needs = item.stash.get(_NEEDS, None)
    if needs is None:
        if not _marks(item):
            return
        try:
            needs = _needs(item)  # the mark was added after the collection
        except MarkError as error:
            pytest.fail(_located(item, error), pytrace=False)
    if needs is not None:
        item.stash[_CHECKING] = True
        _check(item.config, needs)
        item.stash[_CHECKING] = False


def _check(config: pytest.Config, needs: Needs) -> Share:
    share = config.stash.get(_SHARE, None)
    if share is None:
        share = config.stash[_SHARE] = _share(config, [needs])
    if reason := share.missing(needs):
        if _is_required(config):
            raise pytest.fail.Exception(f"{reason} (--require-gpu)", pytrace=False)
        skipped = pytest.skip.Exception(reason)
        skipped._use_item_location = True  # in the summary, the place of the test and not of this line
        raise skipped
    return share


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """A test whose GPU is missing has failed; that the setup found out is no error of the setup."""
    outcome = yield
    if item.stash.get(_CHECKING, False) and call.when == "setup" and (report := outcome.get_result()).failed:
        report.when = "call"


@pytest.fixture(scope="session")
def gpus(request: pytest.FixtureRequest) -> tuple[UsableGpu, ...]:
    """The GPUs that tests of this process may use; of a worker of pytest-xdist its own. Skips where there are none."""
    from tfgpu_doctor.integrations.pytest_gpus import Needs

    share = _check(request.config, Needs())
    if share.problem:
        pytest.fail(share.problem, pytrace=False)
    return share.gpus


@pytest.fixture(scope="session")
def gpu(gpus: tuple[UsableGpu, ...]) -> UsableGpu:
    """The GPU for a test that uses one: index, uuid, name, memory (bytes), compute_capability, device ("/GPU:0")."""
    return gpus[0]


# -------------------------------------------------------------------------------------------------- pytest-xdist


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Under --gpus-per-worker, set the variables of each worker, which has them before it imports anything."""
    if not (per_worker := _per_worker(config)):
        return
    from tfgpu_doctor.integrations.pytest_gpus import deal_before

    machine, variables = deal_before(per_worker, len(specs))
    config.stash[_BEFORE] = machine.encode()
    for spec, own in zip(specs, variables, strict=True):
        if spec.popen and _VISIBLE not in spec.env:
            spec.env.update(own)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker what is known, or where the first worker that must know writes it for the others."""
    config, spec = node.config, node.gateway.spec
    if not spec.popen or (_VISIBLE in spec.env and _BEFORE not in config.stash):
        return  # it runs on another machine, or --tx has chosen its GPUs
    if before := config.stash.get(_BEFORE, None):
        node.workerinput[_INPUT] = {"machine": before, "visible": spec.env.get(_VISIBLE, "")}
    else:
        node.workerinput[_INPUT] = {"folder": _folder(config)}


def _folder(config: pytest.Config) -> str:
    """A folder for this run, removed when it ends; "" where none can be made."""
    if _FOLDER not in config.stash:
        from tfgpu_doctor.probes.process import temporary_folder

        closing = config.stash[_CLOSING] = ExitStack()
        config.stash[_FOLDER] = closing.enter_context(temporary_folder({})).get("TMPDIR", "")
    return config.stash[_FOLDER]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what a worker found out for the summary."""
    if told := (getattr(node, "workeroutput", None) or {}).get(_INPUT):
        stack, note = told
        known = node.config.stash.setdefault(_LINES, [])
        lines = [note] if node.config.stash.get(_SHOWN, False) else [stack, note]
        known += [line for line in lines if line and line not in known]


# ---------------------------------------------------------------------------------------------- what is printed


def pytest_report_header(config: pytest.Config) -> str | None:
    """The stack, where GPUs were asked for: by --require-gpu, --gpus-per-worker, or -m with the mark."""
    if hasattr(config, "workerinput") or not (_is_required(config) or _per_worker(config) or _is_chosen(config)):
        return None
    from tfgpu_doctor.integrations.pytest_gpus import stack

    config.stash[_SHOWN] = True
    return f"tfgpu: {stack()}"


def _is_chosen(config: pytest.Config) -> bool:
    words = (config.option.markexpr or "").replace("(", " ").replace(")", " ").split()
    wanted = any(word == MARK and before != "not" for before, word in zip(["", *words], words, strict=False))
    return wanted and not _has_own_mark(config)


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    """The stack, where a test was selected that needs GPUs and the header did not show it."""
    share = config.stash.get(_SHARE, None)
    if share is None or not share.machine.stack or config.stash.get(_SHOWN, False) or config.option.verbose < 0:
        return None
    return f"tfgpu: {share.machine.stack}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """With pytest-xdist, where only workers collect: the stack, and what is worth knowing of how GPUs were shared."""
    if config.option.verbose >= 0:
        for line in config.stash.get(_LINES, None) or []:
            terminalreporter.write_line(f"tfgpu: {line}")
