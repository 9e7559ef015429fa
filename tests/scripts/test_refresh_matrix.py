"""The derivation of matrix rows, over recorded members of published wheels; nothing leaves this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.scripts import wheel_records
from tests.scripts.wheel_records import ROOT, archive, content, names
from tfgpu_doctor.matrix import Matrix

pytest.importorskip("pypi_simple", reason="a dependency of the script, not of the package")
pytest.importorskip("remotezip", reason="a dependency of the script, not of the package")

import wheel_facts

SCRIPT = ROOT / "scripts" / "refresh_matrix.py"
LINUX_2_21 = "tensorflow-2.21.0-cp313-cp313-manylinux_2_27_x86_64.whl"
LINUX_2_16 = "tensorflow-2.16.1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
LINUX_2_15 = "tensorflow-2.15.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
LINUX_2_10 = "tensorflow-2.10.1-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
WINDOWS_2_10 = "tensorflow-2.10.1-cp310-cp310-win_amd64.whl"
WINDOWS_2_13 = "tensorflow-2.13.0-cp311-cp311-win_amd64.whl"
ARM_2_15 = "tensorflow-2.15.1-cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64.whl"
ARM_2_18 = "tensorflow-2.18.1-cp312-cp312-manylinux_2_17_aarch64.manylinux2014_aarch64.whl"


def read(name: str, *pythons: str) -> tuple[wheel_facts.Wheel, wheel_facts.LibrarySet | None]:
    return wheel_facts.read_wheel(archive(name), name, pythons or (wheel_facts.python_of(name),))


def test_a_gpu_wheel_tells_cuda_cudnn_architectures_and_pins() -> None:
    row, libraries = read(LINUX_2_21, "3.13", "3.10", "3.11", "3.12")
    assert row.python == ("3.10", "3.11", "3.12", "3.13")
    assert (row.cuda, row.cudnn, row.glibc, row.extra) == ("12.5.1", "9.3", "2.27", "and-cuda")
    assert (row.sass, row.ptx) == (("6.0", "7.0", "8.0", "8.9"), ("9.0",))
    assert row.pip_nvidia["nvidia-cudnn-cu12"] == ">=9.3.0.75,<10.0"
    assert (row.numpy, row.keras) == (">=1.26.0", ">=3.12.0")
    assert libraries is not None
    assert libraries.libraries["cudnn"] == "libcudnn.so.9"
    assert libraries.libraries["cufft"] == "libcufft.so.11"
    assert libraries.libraries["nccl"] == "libnccl.so.2"


def test_sonames_follow_the_wheels_own_headers() -> None:
    _, linux = read(LINUX_2_10)
    _, windows = read(WINDOWS_2_10)
    assert linux is not None and windows is not None
    assert linux.libraries["cudart"] == "libcudart.so.11.0"
    assert linux.libraries["curand"] == "libcurand.so.10"
    # build_info.py of this wheel names cudart64_112.dll, which no CUDA 11 has
    assert windows.libraries["cudart"] == "cudart64_110.dll"
    assert windows.libraries["driver"] == "nvcuda.dll"
    _, newer = read(LINUX_2_21)
    assert newer is not None and "curand" not in newer.libraries


def test_windows_versions_are_unpacked() -> None:
    row, _ = read(WINDOWS_2_10)
    assert (row.cuda, row.sass[0], row.ptx) == ("11.2", "3.5", ("8.0",))
    assert row.glibc is None


def test_cudnn_comes_from_the_exact_pin_where_the_wheel_has_no_header() -> None:
    assert read(LINUX_2_15)[0].cudnn == "8.9"
    assert read(LINUX_2_10)[0].cudnn is None


def test_bounds_are_the_oldest_pythons_and_differences_are_kept() -> None:
    row, _ = read(LINUX_2_16, "3.9", "3.10", "3.11", "3.12")
    assert row.numpy == ">=1.23.5,<2.0.0"
    assert row.bounds_by_python == {"3.12": {"numpy": ">=1.26.0,<2.0.0"}}


@pytest.mark.parametrize(
    ("name", "target"), [(WINDOWS_2_13, "tensorflow-intel==2.13.0"), (ARM_2_15, "tensorflow-cpu-aws==2.15.1")]
)
def test_an_empty_wheel_redirects(name: str, target: str) -> None:
    row, libraries = read(name)
    assert (row.redirects, row.cuda, libraries) == (target, None, None)


def test_a_cpu_wheel_offers_no_extra_although_its_metadata_does() -> None:
    assert "and-cuda" in archive(ARM_2_18).read("tensorflow-2.18.1.dist-info/METADATA").decode()
    row, libraries = read(ARM_2_18)
    assert (row.cuda, row.extra, row.pip_nvidia, libraries) == (None, None, {}, None)


def test_recorded_wheels_give_the_rows_of_the_matrix() -> None:
    matrix = Matrix.load()
    for name in names():
        platform = wheel_facts.platform_of(name)
        assert platform is not None
        known = next(wheel for row in matrix.data.tensorflow for wheel in row.wheels.values() if wheel.wheel == name)
        assert read(name, *known.python)[0] == known


# ------------------------------------------------------------------------------- the whole script


class Index(BaseHTTPRequestHandler):
    """A package index of the recorded wheels that serves ranges."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a project page or a (part of a) wheel."""
        body = self._body()
        start, end = 0, len(body)
        if asked := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            first, last = asked.groups()
            start = int(first) if first else max(0, end - int(last))
            end = min(int(last) + 1, end) if first and last else end
        self.send_response(206 if asked else (200 if body else 404))
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
        self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self.wfile.write(body[start:end])

    def _body(self) -> bytes:
        if self.path == "/simple/tensorflow/":
            return "".join(f'<a href="/files/{name}">{name}</a>\n' for name in names()).encode()
        name = self.path.removeprefix("/files/")
        return content(name) if name in names() else b""

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def index() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()
    thread.join()


def run(index: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    without_proxy = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={**without_proxy, "PIP_INDEX_URL": index},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def hand_written(tmp_path: Path) -> Path:
    """A copy of the matrix without its derived rows and without the issues that speak of them."""
    text = (ROOT / "compat_matrix.yaml").read_text(encoding="utf-8").partition("# ---- derived")[0]
    text, _, issues = text.partition("known_issues:")
    for key in set(re.findall(r"source: (\S+)", issues)) - {*re.findall(r"source: ([^\s}]+)", text), "wheel"}:
        text = re.sub(rf"  {re.escape(key)}:\n(    .*\n)+", "", text)
    file = tmp_path / "compat_matrix.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_script_writes_once_and_then_changes_nothing(index: str, hand_written: Path) -> None:
    before = hand_written.read_text(encoding="utf-8")
    first = run(index, "--matrix", str(hand_written))
    assert first.returncode == 0, first.stderr
    assert "tensorflow 2.15.0 linux_x86_64: added" in first.stdout
    written = hand_written.read_text(encoding="utf-8")
    assert written.startswith(before.rstrip())
    assert Matrix.load(str(hand_written)).tensorflow("2.21.0", "linux_x86_64") is not None
    second = run(index, "--matrix", str(hand_written))
    assert (second.returncode, second.stdout.splitlines()[0]) == (0, "compat_matrix.yaml is up to date")
    assert hand_written.read_text(encoding="utf-8") == written


def test_check_reports_what_would_change_and_writes_nothing(index: str, hand_written: Path) -> None:
    run(index, "--matrix", str(hand_written))
    text = hand_written.read_text(encoding="utf-8").replace('cuda: "12.2"', 'cuda: "12.3"')
    hand_written.write_text(text, encoding="utf-8")
    checked = run(index, "--matrix", str(hand_written), "--check")
    assert checked.returncode == 1
    assert 'tensorflow 2.15.0 linux_x86_64 cuda: "12.3" → "12.2"' in checked.stdout
    assert hand_written.read_text(encoding="utf-8") == text


def test_one_release_is_printed(index: str) -> None:
    printed = run(index, "--only", "2.15.0")
    assert '      cuda: "12.2"' in printed.stdout.splitlines()
    assert "2.21.0" not in printed.stdout


def test_records_are_small() -> None:
    assert sum(path.stat().st_size for path in wheel_records.RECORDS.iterdir()) < 100_000
