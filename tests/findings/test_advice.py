"""The advice of a report as a whole, over machines: one release, one fault counted once, nothing of any version."""

from __future__ import annotations

from itertools import cycle

import pytest

from tests.findings.advice import complaints, overwritten, unfit
from tests.findings.row_texts import FIRES as MESSAGES
from tests.findings.row_texts import NAMED_FIRST
from tests.findings.row_texts import TEXTS as ROWS
from tests.findings.rows_over_facts import FIRES, release
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tfgpu_doctor.facts.facts import Unknown, value_or
from tfgpu_doctor.plan.diagnosis import diagnose

# texts whose advice tests/systems/test_shells.py reads for Windows
TEXTS = [
    *(text for id_, rows in MESSAGES.items() if id_.startswith(("cu", "tf.", "xla.")) for text in rows.values()),
    *(text for _, text in NAMED_FIRST),
]


@pytest.mark.parametrize("day", [True, pytest.param(False, marks=pytest.mark.full)])
def test_advice_over_facts(day: bool) -> None:
    """One release, each fault once, nothing that a fact speaks against, and no search path overwritten.

    On clusters LD_LIBRARY_PATH leads to the driver. By day two rows of each finding; of texts, test_cases.py asks it.
    """
    new = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),))}
    machines = (release("2.21.0"), {**release("2.17.1"), **new}, {**release("2.17.1"), "gpus": Unknown("test")})
    turns, wrong = cycle((*machines, release("2.12.1"))), []
    for finding, rows in FIRES.items():
        for name, changes in rows[:2] if day else rows:
            machine = next(turns)
            facts = spoil(healthy(), {**machine, **changes})
            found = diagnose(facts, MATRIX).findings
            lines = (line for one in found for fix in one.fixes for line in fix.commands)
            before = value_or(facts.variables, {})
            why = [*unfit(facts, MATRIX, found), *(line for line in lines if overwritten(line, before))]
            # releases that do not go with the GPU have other fixes
            why += complaints(found) if "gpus" not in machine else ()
            wrong += [(finding, name, one) for one in why]
    assert wrong == [], "\n".join(map(str, wrong))


def test_an_overwritten_search_path_is_seen() -> None:
    """The check of the check."""
    assert all(map(overwritten, ROWS["overwritten"]))
    assert not any(map(overwritten, ROWS["not_overwritten"]))
    assert not overwritten("export LD_LIBRARY_PATH=/a:/b", {"LD_LIBRARY_PATH": "/a:/stubs:/b"})
