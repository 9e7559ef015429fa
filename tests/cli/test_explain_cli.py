"""`tfgpu explain` as people call it: whatever is named, piped or typed, an answer or one clear sentence."""

from __future__ import annotations

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.runner import catches, in_process, tfgpu

EXPLAIN = [sys.executable, "-m", "tfgpu_doctor", "explain"]
NO_DEVICE = (
    "2022-07-07 15:53:15.1: E cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: "
    "no CUDA-capable device is detected"
)
LIBDEVICE = "error: Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice"
Done = subprocess.CompletedProcess[bytes]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


def explain(data: bytes | str, *arguments: str, environ: Mapping[str, str] | None = None) -> Done:
    """Pipe a text into it; never a traceback."""
    return answered(
        in_process(("explain", *arguments), data.encode() if isinstance(data, str) else data, environ or {})
    )


def answered(done: Done) -> Done:
    assert b"Traceback" not in done.stderr and b"internal error" not in done.stderr, done.stderr.decode()
    return done


def ids(done: Done) -> list[str]:
    return [finding["id"] for finding in json.loads(done.stdout)["findings"]]


# ------------------------------------------------------------------------------------------------- what is named


def test_what_the_argument_is(tmp_path: Path) -> None:
    """A file comes first, then the id of a finding, then a text."""
    for message in ("CUDA_ERROR_OUT_OF_MEMORY", NO_DEVICE):
        done = tfgpu("explain", message, "--format", "json", cwd=tmp_path)
        piped = tfgpu("explain", "--format", "json", input=message)
        one, other = ({**json.loads(shown), "created": "then"} for shown in (done.stdout, piped.stdout))
        assert done.returncode == 1 and one == other
    text = "Ubuntu, RTX 4070. pip install tensorflow. list_physical_devices returns []"
    assert "cuda.missing" in tfgpu("explain", text).stdout
    assert "cannot read" in tfgpu("explain", "my log of last Monday evening.txt").stderr
    page = json.loads(tfgpu("explain", "CUDA.Missing", "--format", "json").stdout)
    assert (page["schema"], page["page"]["id"]) == ("tfgpu.page/1", "cuda.missing")
    (tmp_path / "cuda.missing").write_text(NO_DEVICE)
    assert "gpu.hidden" in tfgpu("explain", "cuda.missing", cwd=tmp_path).stdout


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "it's a log"
    for data in (
        *(gzip.compress(NO_DEVICE.encode()), b"PK\x03\x04" + bytes(40), PNG),
        Path(sys.executable).resolve().read_bytes()[:100_000],
        zlib.compress(bytes(range(256)) * 99, 9) + os.urandom(5000),
    ):
        path.write_bytes(data)
        for done in (explain(data, "-"), explain(b"", str(path))):
            assert (done.returncode, done.stdout) == (2, b"")
            assert "is a binary or compressed file, not text" in " ".join(done.stderr.decode().split())


# ------------------------------------------------------------------------------------------------ standard input


def test_typed_at_a_terminal() -> None:
    master, slave = pty.openpty()
    child = subprocess.Popen(EXPLAIN, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stderr is not None
    prompt = child.stderr.readline()
    assert b"then press Ctrl-D" in prompt
    os.write(master, NO_DEVICE.encode() + b"\n\x04")
    out, err = child.communicate(timeout=60)
    os.close(master)
    os.close(slave)
    assert (child.returncode, err) == (1, b"")
    assert b"gpu.hidden" in out and b"press" not in out


def test_ctrl_c_ends_a_stream_without_end() -> None:
    stream = subprocess.Popen(["yes", "train step 12 loss 0.5"], stdout=subprocess.PIPE)
    child = subprocess.Popen([*EXPLAIN, "-"], stdin=stream.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not catches(child.pid, signal.SIGTERM):  # our own code runs: it catches that first of all
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    stream.kill()
    stream.communicate()
    assert (child.returncode, out, err.strip()) == (130, b"", b"tfgpu: interrupted")


# ------------------------------------------------------------------------------------------- what logs come wrapped in


def test_what_a_log_comes_wrapped_in(subtests: pytest.Subtests) -> None:
    """Records of a container's log, a notebook, a saved page, encodings: the same findings as of the bare text."""
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": [f"\x1b[0;31m{LIBDEVICE}\n"]}
    stream = {"output_type": "stream", "name": "stderr", "text": ["one\n", NO_DEVICE + "\n"]}
    cells = [{"cell_type": "code", "source": ["import tensorflow as tf\n"], "outputs": [stream, error]}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    page = f"<!DOCTYPE html>\n<html><body><pre>{NO_DEVICE.replace('failed', '<b>failed</b>')}</pre>\n"
    both = {*ids(explain(f"{NO_DEVICE}\n{LIBDEVICE}", "--format", "json"))}
    one = {*ids(explain(NO_DEVICE, "--format", "json"))}
    wrapped: list[tuple[str | bytes, set[str]]] = [
        (json.dumps({"log": NO_DEVICE + "\n", "stream": "stderr", "time": "2026-11-21T06:36:00.1Z"}), one),
        (json.dumps({"severity": "ERROR", "message": "\x1b[31m" + NO_DEVICE}), one),
        ("2026-11-21T06:36:00.123456789Z stderr F " + NO_DEVICE, one),
        ("web_1  | " + NO_DEVICE, one),
        (json.dumps(notebook), both),
        (json.dumps(notebook, indent=1), both),
        (page, one),
        *((f"{NO_DEVICE}\n".encode(name), one) for name in ("utf-16", "utf-16-le", "utf-8-sig", "shift_jis")),
    ]
    for text, expected in wrapped:
        with subtests.test(text=text[:60]):
            assert {*ids(explain(text, "--format", "json"))} == expected != set()


# ------------------------------------------------------------------------------------------- where the result goes


def test_poor_terminals() -> None:
    """Hostile texts and widths are tried in test_hostile_text.py and tests/render."""
    text = (
        f"{NO_DEVICE}\nGPU: GeForce [red]GTX[/] 1080 \x1b]8;;http://x\x07 <script>\nTensorFlow version: 2.13.0 \u202e\n"
    )
    bare = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    settings = {**os.environ, "COLUMNS": "80", **bare}
    run = subprocess.run(EXPLAIN, input=text.encode(), capture_output=True, timeout=120, check=False, env=settings)
    shown = {"LANG": answered(run)}
    for name, value in (("PYTHONIOENCODING", "ascii"), ("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "1")):
        shown[name] = explain(text, environ={name: value, "FORCE_COLOR": ""})
    for name, done in shown.items():
        assert (done.returncode, done.stderr) == (1, b""), name
        page = done.stdout.decode("ascii" if name in ("LANG", "PYTHONIOENCODING") else "utf-8")
        assert "gpu.hidden" in "".join(page.split()) and "\x1b" not in page, name
