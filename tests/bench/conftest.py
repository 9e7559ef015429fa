"""One real TensorFlow for many tests: importing it takes longer than most of what is asked of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.live import WORKER_PROCESS, Shared, share


@pytest.fixture(scope="session")
def shared(tensorflow_python: str) -> Iterator[Shared]:
    """Starts workers with logical CPU devices, all in one process."""
    with share(tensorflow_python) as shared:
        yield shared


@pytest.fixture
def one_process(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `tfgpu bench` in this process measure every case in the shared one."""
    monkeypatch.setattr(WORKER_PROCESS, shared)
