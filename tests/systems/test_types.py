"""mypy for each system: a function that Windows or macOS lacks is an attribute that does not exist there."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]


@pytest.mark.full
@pytest.mark.parametrize("platform", ["linux", "win32", "darwin"])
def test_mypy(platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    output, errors, code = api.run(["--platform", platform, "--cache-dir", str(tmp_path)])
    assert code == 0, output + errors
