"""The derivation of matrix rows, over recorded members of published wheels; nothing leaves this machine."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.scripts import wheel_records
from tests.scripts.wheel_records import ROOT, archive, content, module, names
from tests.tables import each
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import MatrixFile, ReleaseRow

if not (find_spec("pypi_simple") and find_spec("remotezip")):  # importing them takes every worker half a second
    pytest.skip("dependencies of the script, not of the package", allow_module_level=True)

import natives
import package_index
import refresh_matrix
import wheel_facts

SCRIPT = ROOT / "scripts" / "refresh_matrix.py"
LINUX_2_21 = "tensorflow-2.21.0-cp313-cp313-manylinux_2_27_x86_64.whl"
LINUX_2_16 = "tensorflow-2.16.1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
LINUX_2_15 = "tensorflow-2.15.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
LINUX_2_10 = "tensorflow-2.10.1-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
WINDOWS_2_10 = "tensorflow-2.10.1-cp310-cp310-win_amd64.whl"
WINDOWS_2_13 = "tensorflow-2.13.0-cp311-cp311-win_amd64.whl"
LINUX_1_4 = "tensorflow_gpu-1.4.0-cp36-cp36m-manylinux1_x86_64.whl"
LINUX_1_12 = "tensorflow_gpu-1.12.2-cp36-cp36m-manylinux1_x86_64.whl"
LINUX_2_3 = "tensorflow_gpu-2.3.0-cp38-cp38-manylinux2010_x86_64.whl"
WINDOWS_1_13 = "tensorflow_gpu-1.13.1-cp37-cp37m-win_amd64.whl"
WINDOWS_1_3_CPU = "tensorflow-1.3.0-cp36-cp36m-win_amd64.whl"
MACOS_1_0 = "tensorflow_gpu-1.0.0-cp36-cp36m-macosx_10_11_x86_64.whl"
NIGHTLY = "tf_nightly-2.23.0.dev20261026-cp314-cp314-win_amd64.whl"
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


def test_what_the_extra_installs_is_not_what_the_wheel_was_compiled_with() -> None:
    row = read(LINUX_2_15)[0]
    assert row.pip_nvidia["nvidia-cudnn-cu12"] == "==8.9.4.25"
    assert row.cudnn is None
    assert read(LINUX_2_16)[0].cudnn == "8.9"  # its header


def test_bounds_are_the_oldest_pythons_and_differences_are_kept() -> None:
    row, _ = read(LINUX_2_16, "3.9", "3.10", "3.11", "3.12")
    assert row.numpy == ">=1.23.5,<2.0.0"
    assert row.bounds_by_python == {"3.12": {"numpy": ">=1.26.0,<2.0.0"}}


@each(("name", "target"), [(WINDOWS_2_13, "tensorflow-intel==2.13.0"), (ARM_2_15, "tensorflow-cpu-aws==2.15.1")])
def test_an_empty_wheel_redirects(name: str, target: str) -> None:
    row, libraries = read(name)
    assert (row.redirects, row.cuda, libraries) == (target, None, None)


def test_a_cpu_wheel_offers_no_extra_although_its_metadata_does() -> None:
    assert "and-cuda" in archive(ARM_2_18).read("tensorflow-2.18.1.dist-info/METADATA").decode()
    row, libraries = read(ARM_2_18)
    assert (row.cuda, row.extra, row.pip_nvidia, libraries) == (None, None, {}, None)


def test_before_2_3_the_extension_module_tells_libraries_and_architectures() -> None:
    row, libraries = read(LINUX_1_4, "3.6", "2.7", "3.5")
    assert row.python == ("2.7", "3.5", "3.6")
    assert (row.cuda, row.cudnn, row.glibc, row.kernels) == ("8.0", None, "2.5", "fatbin")
    assert row.sass == row.ptx == ("3.0", "3.5", "3.7", "5.2", "6.0", "6.1")
    assert libraries is not None and libraries.linked
    assert libraries.libraries["cudnn"] == "libcudnn.so.6"  # of libtensorflow_framework.so
    assert libraries.libraries["cusolver"] == "libcusolver.so.8.0"  # of _pywrap_tensorflow_internal.so
    assert libraries.libraries["driver"] == "libcuda.so.1"


def test_1_12_2_was_compiled_for_a_single_architecture() -> None:
    row, _ = read(LINUX_1_12)
    assert (row.cuda, row.sass, row.ptx) == ("9.0", ("3.7",), ("3.7",))


def test_old_windows_and_macos_builds() -> None:
    windows, libraries = read(WINDOWS_1_13)
    assert (windows.cuda, windows.sass[-1], windows.macos) == ("10.0", "7.0", None)
    assert libraries is not None and libraries.libraries["cudart"] == "cudart64_100.dll"
    macos, libraries = read(MACOS_1_0)
    assert (macos.cuda, macos.sass, macos.macos) == ("8.0", ("3.0", "3.5", "5.2"), "10.11")
    assert libraries is not None and libraries.libraries == {"cudart": "libcudart.8.0.dylib"}


def test_the_toolkit_follows_from_the_ptx_where_no_library_is_named() -> None:
    text = "fatbin sass 30 ptx 30 isa 5.0"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("tensorflow_gpu-1.0.0.data/purelib/tensorflow/python/_pywrap_tensorflow.pyd", module(text))
        made.writestr("tensorflow_gpu-1.0.0.dist-info/METADATA", "Name: tensorflow-gpu")
    name = "tensorflow_gpu-1.0.0-cp35-cp35m-win_amd64.whl"
    row, libraries = wheel_facts.read_wheel(zipfile.ZipFile(buffer), name, ["3.5"])
    assert (row.cuda, libraries) == ("8.0", None)


def test_a_module_without_kernels_is_a_cpu_build() -> None:
    row, libraries = read(WINDOWS_1_3_CPU)
    assert (row.cuda, row.kernels, row.redirects, libraries) == (None, None, None, None)
    assert row.numpy == ">=1.11.0"


def test_kernels_that_differ_among_each_other_are_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        text = "fatbin sass 30 ptx 30 isa 5.0\nfatbin sass 35 ptx 35 isa 5.0"
        made.writestr("tensorflow/python/_pywrap_tensorflow_internal.so", module(text))
    with pytest.raises(ValueError, match="not all compiled for the same"):
        natives.read_native(zipfile.ZipFile(buffer))


def test_2_3_has_a_list_of_architectures_and_a_plain_dict() -> None:
    row, libraries = read(LINUX_2_3)
    assert (row.cuda, row.kernels, row.glibc) == ("10.1", None, "2.12")
    assert (row.sass, row.ptx) == (("3.5", "3.7", "5.2", "6.0", "6.1"), ("7.0",))
    assert libraries is not None and not libraries.linked
    assert libraries.libraries["cudart"] == "libcudart.so.10.1"
    assert libraries.libraries["cublas"] == "libcublas.so.10"


def test_a_nightly_is_read_like_a_release() -> None:
    row, _ = read(NIGHTLY)
    assert (row.python, row.cuda) == (("3.14",), None)


def test_platforms_pythons_and_floors_of_old_file_names() -> None:
    intel = "tensorflow_gpu-1.0.0-cp27-cp27m-macosx_10_11_intel.whl"
    assert wheel_facts.platform_of(intel) == "macos_x86_64"
    assert (wheel_facts.python_of(intel), wheel_facts.floor_of(intel, "macos")) == ("2.7", "10.11")
    assert wheel_facts.floor_of(LINUX_1_4, "glibc") == "2.5"
    assert wheel_facts.floor_of(LINUX_2_21, "glibc") == "2.27"


def test_which_versions_have_rows() -> None:
    releases = ["0.12.1", "1.0.0", "2.20.0rc0", "2.20.0", "2.21.0", "2.22.0rc0", "2.22.0rc1", "2.10.0.dev20220728"]
    assert package_index.wanted(releases) == {"1.0.0", "2.20.0", "2.21.0", "2.22.0rc0", "2.22.0rc1"}
    nightlies = ["2.21.0.dev20260203", "2.23.0.dev20261025", "2.23.0.dev20261026", "2.23.0.dev20260930"]
    assert package_index.wanted(nightlies) == {"2.21.0.dev20260203", "2.23.0.dev20261026"}


def test_recorded_wheels_give_the_rows_of_the_matrix() -> None:
    matrix = Matrix.load()
    assert names()
    for name in names():
        platform = wheel_facts.platform_of(name)
        assert platform is not None
        known = next(wheel for row in matrix.data.tensorflow for wheel in row.wheels.values() if wheel.wheel == name)
        assert read(name, *known.python)[0] == known


# ------------------------------------------------------------------------------- the whole script


YANKED = {LINUX_2_10: ' data-yanked="CVE &amp; others"'}  # as PEP 592 has it


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
        if project := re.fullmatch(r"/simple/(tensorflow|tf-nightly)/", self.path):
            own = [name for name in names() if name.startswith(project.group(1).replace("-", "_") + "-")]
            return "".join(f'<a href="/files/{name}"{YANKED.get(name, "")}>{name}</a>\n' for name in own).encode()
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
    text, _, issues = text.partition("\nknown_issues:")
    for key in set(re.findall(r"source: ([^\s,}]+)", issues)) - {*re.findall(r"source: ([^\s,}]+)", text), "wheel"}:
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


def test_a_yanked_wheel_keeps_its_row_and_the_reason(index: str) -> None:
    printed = run(index, "--only", "2.10.1").stdout.splitlines()
    assert printed.count('      yanked: "CVE & others"') == 1  # the Windows wheel of the release is not
    assert printed.count('      numpy: ">=1.20"') == 2


def test_what_is_known_of_an_extension_module_is_not_read_again() -> None:
    row, libraries = read(LINUX_1_12)
    assert libraries is not None
    known = MatrixFile(
        schema="tfgpu.matrix/1",
        revision="2026-01-01",
        libraries=(libraries,),
        tensorflow=(ReleaseRow(package="tensorflow-gpu", version="1.12.2", wheels={"linux_x86_64": row}),),
    )
    unreadable = archive(LINUX_1_12)
    unreadable.open = None  # type: ignore[assignment,method-assign]
    unreadable.read = archive(LINUX_1_12).read  # type: ignore[method-assign]
    native = refresh_matrix.known_natives(known)[LINUX_1_12]
    assert wheel_facts.read_wheel(unreadable, LINUX_1_12, row.python, native) == (row, libraries)


def test_records_are_small() -> None:
    assert sum(path.stat().st_size for path in wheel_records.RECORDS.iterdir()) < 100_000
