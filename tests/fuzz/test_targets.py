"""Every reader of outside data answers or refuses, within its time, whatever it is given.

A few dozen inputs of each every day; `-m full` tries a million, and fuzz.py as many as you let it. What failed once
lies in seeds/ and is tried every time.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import fuzz, mutations, targets
from tests.fuzz.targets import CHEAP, MIDDLE, WHOLE, Target
from tfgpu_doctor.bench.saved import load_result

PARTS = 16  # of the campaign, so that workers share it evenly
MILLION = 1_000_000
STEPS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1 << 30)), min_size=1, max_size=3)
BOUNDED = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", targets.targets())
def test_some_inputs_of_each_reader(name: str) -> None:
    target = targets.targets()[name]
    examples = 25 if target.inputs >= CHEAP else 12 if target.inputs >= MIDDLE else 3

    @settings(BOUNDED, max_examples=examples)
    @given(st.integers(0, 1 << 20), STEPS)
    def try_one(base: int, steps: list[tuple[int, int]]) -> None:
        data = target.make(base, steps)
        assert fuzz.fails(target, data) == "", data[:2000]

    try_one()


@pytest.mark.parametrize("name", targets.targets())
def test_real_input_gets_through(name: str) -> None:
    """A target that refuses all of its samples would try nothing."""
    target = targets.targets()[name]
    found = [fuzz.attempt(target, data) for data in list(dict.fromkeys(target.corpus()))[:4]]
    assert [place for place, _, _ in found if place] == []
    assert not all(refused for _, _, refused in found)


@pytest.mark.parametrize(("name", "file"), [pytest.param(*one, id=f"{one[0]} {one[1].name}") for one in fuzz.kept()])
def test_what_failed_once(name: str, file: Path) -> None:
    assert fuzz.fails(targets.targets()[name], file.read_bytes()) == ""


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_a_campaign(part: int) -> None:
    """Each target's inputs, shared between the parts; what fails is kept for every day."""
    failed = []
    for name, tally in fuzz.campaign(targets.targets().values(), f"part {part}", 1 / PARTS):
        failed += fuzz.keep(name, tally)
        print(f"{name}: {tally.inputs} inputs, {tally.refused} refused, slowest {1000 * tally.slowest:.0f} ms")
    assert failed == []


def test_the_campaign_has_a_million_inputs() -> None:
    assert sum(target.inputs // PARTS * PARTS for target in targets.targets().values()) >= MILLION


# ---------------------------------------------------------------------------------------------- no reader without one

# public functions that take text, bytes, lines or a root first, and read nothing of others; why
NO_READERS: dict[str, str] = {
    "parsers.messages.template.template": "declares one",
    "redact.shapes.shape": "declares one",
    "records.report.other_kind": "words of a refusal",
    "records.versions.same_minor": "compares what `parts` has read",
    "probes.child.mapped": "reads the memory map of its own process",
    "probes.driver_children.start_child": "starts a process",
    "probes.loader.caller_of": "opens a library; the row `an ELF file` reads it",
    "probes.elsewhere.interpreter_of": "makes a path",
    "probes.elsewhere.environment_of": "makes a path",
    "probes.examine.examine": "asks every probe",
    "probes.ld_so.default_folders": "a list of folders",
    "probes.library_places.site_of": "makes a path",
    "probes.loader.read_cache": "starts ldconfig; the row `ldconfig -p` reads what it prints",
    "probes.systems.macos.sysctl": "asks macOS",
    "probes.transcript.why_skipped": "words about a phase",
    **{
        f"probes.tensorflow_probe.{name}": "runs in the interpreter under test, over its own modules"
        for name in (
            "say",
            "own",
            "find",
            "required_name",
            "kind_of_environment",
            "matters",
            "verdict",
            "tell_loaded",
            "examine",
        )
    },
}


def reached() -> set[str]:
    """Files and lines of the functions that real input of the rows gets to."""
    found: set[Any] = set()

    def seen(frame: Any, _event: str, _argument: object) -> None:
        found.add(frame.f_code)

    before = sys.gettrace()
    sys.settrace(seen)  # which sees the calls of Python's functions only, where setprofile sees every return, too
    try:
        for target in targets.rows():
            if target.inputs > WHOLE or target.name == "explain":
                several = list(dict.fromkeys(target.corpus()))
                for data in (several[0], max(several, key=len)):
                    fuzz.attempt(target, data)
    finally:
        sys.settrace(before)
    return {f"{code.co_filename}:{code.co_name}" for code in found}


def without_target(functions: list[tuple[str, Callable[..., Any]]], called: set[str]) -> list[str]:
    """Readers that nothing calls."""
    return [
        name
        for name, function in functions
        if name not in targets.targets()
        and name not in NO_READERS
        and f"{inspect.unwrap(function).__code__.co_filename}:{function.__name__}" not in called
    ]


def test_every_reader_has_a_target() -> None:
    readers = [(name, function) for name, function, _, _ in targets.functions()]
    assert len(readers) > 100
    assert without_target(readers, reached()) == [], "add a row to tests/fuzz/targets.py"
    assert set(NO_READERS) <= {name for name, _ in readers}


def test_a_reader_without_a_target_is_named() -> None:
    assert without_target([("parsers.new.parse", load_result), ("redact.new", max_wait)], set()) == [
        *("parsers.new.parse", "redact.new"),
    ]


# ------------------------------------------------------------------------------------------------ the fuzzing itself


def max_wait(text: str) -> None:
    """A reader that is slow about one letter, breaks at another, and refuses a third."""
    end = time.thread_time() + 0.05
    while "s" in text and time.thread_time() < end:
        pass
    if "r" in text:
        raise LookupError("refused")
    if "b" in text:
        raise ZeroDivisionError("broken")


def test_a_defect_is_found_made_small_and_kept(tmp_path: Path) -> None:
    target = Target(
        "an example",
        lambda data: max_wait(data.decode("latin-1")),
        lambda: (b"many words with a b in the middle of them",),
        (mutations.SHORT[0],),
        (LookupError,),
        inputs=20,
    )
    ((name, tally),) = fuzz.campaign([target], "1")
    assert (name, tally.inputs) == ("an example", 20)
    assert list(tally.failures.values()) == [b"b"]
    (line,) = fuzz.keep(name, tally, tmp_path)
    assert "ZeroDivisionError in test_targets.py" in line and [file.read_bytes() for file in tmp_path.glob("*/*")] == [
        b"b"
    ]
    assert fuzz.attempt(target, b"r")[2] and not fuzz.fails(target, b"r")
    assert fuzz.fails(Target("slow", target.call, seconds=0.01), b"s").startswith("slow: above 0.01 s")


def test_what_is_tried_follows_from_the_seed() -> None:
    for target in list(targets.targets().values())[:6]:
        assert target.chance("7") == target.chance("7")
    assert partial(targets.targets()["escaping"].chance)("7") != targets.targets()["escaping"].chance("8")
