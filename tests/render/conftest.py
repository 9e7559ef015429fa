"""What several renderers are tried with."""

from __future__ import annotations

import pytest

from tests.findings.rows_over_facts import FIRES
from tests.healthy import healthy, spoil
from tests.render.test_text import report
from tfgpu_doctor.records.report import Report


@pytest.fixture(scope="session")
def every_report() -> dict[str, Report]:
    """A report for each machine on which a finding fires."""
    return {
        f"{finding} {number}": report(spoil(healthy(), changes))
        for finding, rows in FIRES.items()
        for number, (_, changes) in enumerate(rows)
    }
