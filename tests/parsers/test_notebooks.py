"""A notebook on one line is decoded when it is small, and read string by string when it is large."""

from __future__ import annotations

import json

import pytest

from tfgpu_doctor.parsers.text import lines

TEXT = ["epoch 1\n", "failed call to cuInit: CUDA_ERROR_NO_DEVICE\n", 'a "quoted" word\n', "end"]
TRACEBACK = ["\x1b[0;31mImportError\x1b[0m: libcublas.so.12: cannot open shared object file", "again"]
OUTPUTS = [
    {"output_type": "display_data", "data": {"image/png": "A" * 5000, "text/plain": ["<Figure>"]}},
    {"output_type": "stream", "name": "stdout", "text": TEXT},
    {"output_type": "error", "traceback": TRACEBACK},
]
BOOK = {"cells": [{"cell_type": "code", "source": ["import tensorflow\n", "x"], "outputs": OUTPUTS}], "nbformat": 4}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("largest", [1000, 1 << 20])
def test_what_is_shown_is_found_at_any_size(
    largest: int, separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_LARGEST_NOTEBOOK", largest)
    data = json.dumps(BOOK, separators=separators).encode()
    found = [line.text for line in lines.read([data[:2000], data[2000:]]).lines]
    for text in (TEXT[1].strip(), TRACEBACK[0].replace("\x1b[0;31m", "").replace("\x1b[0m", ""), "import tensorflow"):
        assert any(text in line and not line.endswith('",') for line in found), text
