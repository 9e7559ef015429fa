"""The rows of texts, judged once in a run."""

from __future__ import annotations

import pytest

from tests.corpus import by_signs_alone, judge_together, shared_folder
from tests.findings.row_texts import FIRES, LOOK_ALIKES, NAMED_FIRST
from tfgpu_doctor.facts.report import Report


@pytest.fixture(scope="session")
def judged_rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Return each text of the rows of signs over messages, with what these signs find in it."""
    texts = [text for table in (FIRES, LOOK_ALIKES) for rows in table.values() for text in rows.values()]
    texts += [text for _, text in NAMED_FIRST]
    return judge_together(texts, shared_folder(tmp_path_factory, "judged_rows"), by_signs_alone)
