"""The matrix: what it knows, how it is found, how it refuses what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from tests.tables import each
from tfgpu_doctor.matrix.bundled import ready_to_decode
from tfgpu_doctor.matrix.loader import Matrix, MatrixError, bundled_path, parse
from tfgpu_doctor.records.schemas import FOLDER

ROOT = Path(__file__).resolve().parents[2]
MATRIX = Matrix.load()
TEXT = bundled_path().read_text(encoding="utf-8")
TABLE = re.compile(r"^(?=\w+:)", re.MULTILINE)  # where one begins


# ------------------------------------------------------------------------------------- known truths


@each(
    ("version", "platform", "package", "cuda", "cudnn", "pythons", "sass", "ptx"),
    [
        # build_info.py, cudnn_version.h and the file names of the wheels; cuDNN of 2.10 to 2.13 from
        # https://www.tensorflow.org/install/source#gpu
        ("2.21.0", "linux_x86_64", "tensorflow", "12.5.1", "9.3", "3.10 3.13", "6.0 7.0 8.0 8.9", "9.0"),
        ("2.20.0", "linux_x86_64", "tensorflow", "12.5.1", "9.3", "3.9 3.13", "6.0 7.0 8.0 8.9", "9.0"),
        ("2.18.0", "linux_x86_64", "tensorflow", "12.5.1", "9.3", "3.9 3.12", "6.0 7.0 8.0 8.9", "9.0"),
        ("2.17.1", "linux_x86_64", "tensorflow", "12.3", "8.9", "3.9 3.12", "6.0 7.0 8.0 8.9", "9.0"),
        ("2.16.2", "linux_x86_64", "tensorflow", "12.3", "8.9", "3.9 3.12", "5.0 6.0 7.0 8.0", "9.0"),
        ("2.15.1", "linux_x86_64", "tensorflow", "12.2", "8.9", "3.9 3.11", "5.0 6.0 7.0 7.5", "8.0"),
        ("2.14.0", "linux_x86_64", "tensorflow", "11.8", "8.6", "3.9 3.11", "3.5 5.0 6.0 7.0 7.5", "8.0"),
        ("2.13.1", "linux_x86_64", "tensorflow", "11.8", "8.6", "3.8 3.11", "3.5 5.0 6.0 7.0 7.5", "8.0"),
        ("2.12.0", "linux_x86_64", "tensorflow", "11.8", "8.6", "3.8 3.11", "3.5 5.0 6.0 7.0 7.5", "8.0"),
        ("2.11.0", "linux_x86_64", "tensorflow", "11.2", "8.1", "3.7 3.10", "3.5 5.0 6.0 7.0 7.5", "8.0"),
        ("2.10.1", "windows_amd64", "tensorflow", "11.2", "8.1", "3.7 3.10", "3.5 5.0 6.0 7.0 7.5", "8.0"),
        ("2.10.0", "linux_x86_64", "tensorflow-gpu", "11.2", "8.1", "3.7 3.10", "3.5 5.0 6.0 7.0 7.5", "8.0"),
    ],
)
def test_gpu_releases(
    version: str, platform: str, package: str, cuda: str, cudnn: str, pythons: str, sass: str, ptx: str
) -> None:
    row = MATRIX.tensorflow(version, platform, package)
    assert row is not None
    assert (row.version, row.platform, row.package, row.gpu) == (version, platform, package, True)
    assert (row.cuda, row.cudnn) == (cuda, cudnn)
    assert f"{row.python[0]} {row.python[-1]}" == pythons
    assert (" ".join(row.sass), " ".join(row.ptx)) == (sass, ptx)
    assert {"cuda", "cudnn", "python", "sass", "ptx", "libraries", "min_driver_linux"} <= row.sources.keys()


@each(
    ("version", "platform", "package", "redirects"),
    [
        ("2.21.0", "linux_aarch64", "tensorflow", None),
        ("2.21.0", "windows_amd64", "tensorflow", None),
        ("2.21.0", "macos_arm64", "tensorflow", None),
        ("2.13.0", "windows_amd64", "tensorflow", "tensorflow-intel==2.13.0"),
        ("2.15.1", "linux_aarch64", "tensorflow", "tensorflow-cpu-aws==2.15.1"),
        ("2.15.1", "linux_x86_64", "tensorflow-cpu", None),
        ("2.16.2", "macos_x86_64", "tensorflow", None),
    ],
)
def test_cpu_releases(version: str, platform: str, package: str, redirects: str | None) -> None:
    row = MATRIX.tensorflow(version, platform, package)
    assert row is not None
    assert (row.gpu, row.cuda, row.cudnn, row.extra, row.libraries, row.sass) == (False, None, None, None, (), ())
    assert row.redirects == redirects


def test_an_empty_wheel_has_the_bounds_of_the_one_it_requires() -> None:
    stub, real = (
        MATRIX.tensorflow("2.13.0", "windows_amd64"),
        MATRIX.tensorflow("2.13.0", "windows_amd64", "tensorflow-intel"),
    )
    assert stub is not None and real is not None
    assert stub.numpy == real.numpy == ">=1.22,<=1.24.3"


def test_pins_bounds_and_libraries() -> None:
    row = MATRIX.tensorflow("2.15.1", "linux_x86_64")
    assert row is not None
    # METADATA of tensorflow-2.15.1
    assert (row.extra, row.pip_nvidia["nvidia-cudnn-cu12"]) == ("and-cuda", "==8.9.4.25")
    assert (row.numpy, row.keras, row.glibc) == (">=1.23.5,<2.0.0", ">=2.15.0,<2.16", "2.17")
    # cuda_config.h of the same wheel
    sonames = {library.component: library.soname for library in row.libraries}
    assert (sonames["cudart"], sonames["cudnn"]) == ("libcudart.so.12", "libcudnn.so.8")
    assert (sonames["cusolver"], sonames["cusparse"]) == ("libcusolver.so.11", "libcusparse.so.12")


@each(
    ("version", "linux", "windows"),
    [("2.21.0", "525.60.13", "528.33"), ("2.14.1", "450.80.02", "452.39"), ("2.10.0", "450.80.02", "452.39")],
)
def test_oldest_drivers_of_a_release(version: str, linux: str, windows: str) -> None:
    # CUDA release notes, "Minimum Required Driver Version for CUDA Minor Version Compatibility"
    row = MATRIX.tensorflow(version, "linux_x86_64")
    assert row is not None
    assert (row.min_driver_linux, row.min_driver_windows) == (linux, windows)


@each(
    ("version", "linux", "windows", "minor", "first", "last"),
    [
        # CUDA Toolkit Release Notes, Table 3; capabilities: ptxas --help of each toolkit
        ("12.5", "555.42.02", "555.85", "525.60.13", "5.0", "9.0"),
        ("12.5.1", "555.42.06", "555.85", "525.60.13", "5.0", "9.0"),
        ("12.8", "570.26", "570.65", "525.60.13", "5.0", "12.0"),
        ("13.0", "580.65.06", None, "580", "7.5", "12.1"),
        ("11.8", "520.61.05", "520.06", "450.80.02", "3.5", "9.0"),
        ("11.2.2", "460.32.03", "461.33", "450.80.02", "3.5", "8.6"),
    ],
)
def test_toolkits(version: str, linux: str, windows: str | None, minor: str, first: str, last: str) -> None:
    row = MATRIX.cuda(version)
    assert row is not None
    assert (row.min_driver_linux, row.min_driver_windows, row.minor_compat_min_linux) == (linux, windows, minor)
    assert (row.compute_capabilities[0], row.compute_capabilities[-1]) == (first, last)


def test_an_unknown_update_is_answered_by_its_minor_version() -> None:
    row = MATRIX.cuda("12.5.9")
    assert row is not None and row.version == "12.5"
    assert MATRIX.cuda("42.0") is None


@each(
    ("version", "majors", "lowest"),
    [
        # cuDNN support matrices, and the architectures in libcudnn_ops of the nvidia-cudnn wheels
        ("9.28.0.42", ("12", "13"), "7.5"),
        ("9.11.0", ("12",), "7.5"),
        ("9.10.2", ("11", "12"), "5.0"),
        ("9.3", ("11", "12"), "5.0"),
        ("8.9.7", ("11", "12"), "5.0"),
        ("8.6", ("10", "11"), "3.0"),
    ],
)
def test_cudnn(version: str, majors: tuple[str, ...], lowest: str) -> None:
    row = MATRIX.cudnn(version)
    assert row is not None
    assert (row.cuda_majors, row.min_compute_capability) == (majors, lowest)


@each(
    ("capability", "name", "first", "last"),
    [("8.9", "Ada Lovelace", "520", None), ("6.1", "Pascal", "367", "580"), ("3.5", "Kepler", None, "470")],
)
def test_architectures(capability: str, name: str, first: str | None, last: str | None) -> None:
    # NVIDIA Data Center Drivers, "CUDA Toolkit, Driver, and Architecture Matrix"
    row = MATRIX.architecture(capability)
    assert row is not None
    assert (row.name, row.first_driver_branch, row.last_driver_branch) == (name, first, last)


@each(
    ("name", "capability"),
    [
        ("NVIDIA GeForce RTX 4090", "8.9"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9"),
        ("rtx 5090", "12.0"),
        ("GeForce GTX 1070 with Max-Q Design", "6.1"),
        ("NVIDIA A100-SXM4-80GB", "8.0"),
        ("NVIDIA H200", "9.0"),
        ("Tesla K80", "3.7"),
        ("V100", "7.0"),
    ],
)
def test_gpus_by_name(name: str, capability: str) -> None:
    gpu = MATRIX.gpu(name)
    assert gpu is not None and gpu.compute_capability == capability


def test_unknown_names_are_unknown() -> None:
    assert MATRIX.gpu("Voodoo 2") is None
    assert MATRIX.architecture("1.7") is None
    assert MATRIX.cudnn("3.1") is None
    assert MATRIX.peak("1.7") is None


@each(
    ("name", "capability", "multiprocessors", "ghz", "dtype", "tflops"),
    [
        # data sheets and whitepapers
        ("NVIDIA A100-SXM4-80GB", "8.0", 108, 1.41, "float16", 312),
        ("NVIDIA A100-SXM4-80GB", "8.0", 108, 1.41, "tf32", 156),
        ("NVIDIA A100-SXM4-80GB", "8.0", 108, 1.41, "float64_tensor", 19.5),
        ("Tesla V100-SXM2-16GB", "7.0", 80, 1.53, "float16", 125),
        ("NVIDIA H200", "9.0", 132, 1.98, "float32", 67),
        ("NVIDIA GeForce RTX 4090", "8.9", 128, 2.52, "float16", 165.2),
        ("NVIDIA GeForce RTX 3090", "8.6", 82, 1.695, "tf32", 35.6),
        ("NVIDIA A40", "8.6", 84, 1.74, "bfloat16", 149.7),
        ("Tesla T4", "7.5", 40, 1.59, "float32", 8.1),
    ],
)
def test_peaks_give_the_data_sheets(
    name: str, capability: str, multiprocessors: int, ghz: float, dtype: str, tflops: float
) -> None:
    row = MATRIX.peak(capability, name)
    assert row is not None
    assert multiprocessors * ghz * getattr(row, dtype) / 1000 == pytest.approx(tflops, rel=0.01)


# ------------------------------------------------------------------------------------------ look-ups


def test_the_nearest_patch_answers_for_an_unknown_one() -> None:
    near = MATRIX.tensorflow("2.15.7", "linux_x86_64")
    assert near is not None and near.version == "2.15.1"
    rc = MATRIX.tensorflow("2.21.0rc1", "linux_x86_64")
    assert rc is not None and rc.version == "2.21.0"
    post = MATRIX.tensorflow("2.15.0.post1", "linux_x86_64")
    assert post is not None and post.version == "2.15.0.post1"


@each(
    ("version", "platform", "package"),
    [
        ("9.99.0", "linux_x86_64", "tensorflow"),
        ("2.14.0+nv23.11", "linux_x86_64", "tensorflow"),  # NVIDIA's build is not the published wheel
        ("nonsense", "linux_x86_64", "tensorflow"),
        ("2.21.0", "linux_riscv64", "tensorflow"),
        ("2.21.0", "linux_x86_64", "tensorflow-directml"),
    ],
)
def test_unknown_releases_are_unknown(version: str, platform: str, package: str) -> None:
    assert MATRIX.tensorflow(version, platform, package) is None


def test_releases_come_newest_first() -> None:
    rows = MATRIX.releases(platform="linux_x86_64", package="tensorflow")
    versions = [row.version for row in rows]
    assert "2.21.0" in versions[:3] and versions[-1] == "1.0.0"
    assert versions.index("2.15.1") < versions.index("2.15.0.post1") < versions.index("2.15.0")
    assert len(MATRIX.releases()) > len(rows)


def issue(version: str, platform: str = "linux_x86_64", **known: object) -> str | None:
    row = MATRIX.tensorflow(version, platform)
    assert row is not None
    found = MATRIX.issue_for(row, **known)  # type: ignore[arg-type]
    return found.id if found else None


def test_known_issues_hold_only_where_their_condition_does() -> None:
    # DT_RUNPATH of libtensorflow_framework.so.2: twelve nvidia folders in 2.15.1 and 2.16.2, two in 2.16.1
    assert issue("2.16.1", extra=True) == "tf-2.16.1-runpath"
    assert issue("2.16.1") is None
    assert issue("2.16.2", extra=True) is None
    assert issue("2.21.0", extra=True) == "tf-2.21.0-runpath-cusolver"
    assert issue("2.21.0") is None
    assert issue("2.21.0", compute_capabilities=("8.9", "12.0")) == "blackwell-no-kernels"
    assert issue("2.21.0", compute_capabilities=("9.0",)) is None
    assert issue("2.21.0", compute_capabilities=("7.0",)) is None
    assert issue("2.21.0", compute_capabilities=("7.0",), cudnn="9.10.2") is None
    assert issue("2.21.0", compute_capabilities=("7.0",), cudnn="9.12.0") == "cudnn-drops-maxwell-to-volta"
    assert issue("2.13.0", "windows_amd64", compute_capabilities=("12.0",)) is None


def test_issues_of_installing_do_not_concern_what_is_installed() -> None:
    row = MATRIX.tensorflow("2.14.1", "linux_x86_64")
    assert row is not None
    refused = MATRIX.issues_for(row, python="3.11.7", extra=True)
    assert [one.id for one in refused] == ["tf-2.14-tensorrt-python-3.11"]
    assert MATRIX.issues_for(row, python="3.10.1", extra=True) == MATRIX.issues_for(row, extra=True) == ()
    assert MATRIX.issue_for(row, python="3.11.7") is None


def test_an_issue_names_its_source() -> None:
    row = MATRIX.tensorflow("2.16.1", "linux_x86_64")
    assert row is not None
    assert row.known_issues[0].source == "https://github.com/tensorflow/tensorflow/issues/63362"


# ------------------------------------------------------------------------------------- refusing


def test_the_bundled_matrix_does_not_contradict_itself() -> None:
    MATRIX.check()


def touched(text: str) -> str:
    """The tables that an edit touches, and of the releases the newest: our rows lie below, and reading takes long."""
    ours = set(TABLE.split(TEXT))
    *tables, last = [table for table in TABLE.split(text) if table not in ours or table.startswith(("schema:", "rev"))]
    if last.startswith("tensorflow:"):
        end = last.index("\n- ", 20_000) + 1
        assert TEXT.endswith(last[end:]), "edited further down"
        last = last[:end]
    return "".join([*tables, last])


def edited(tmp_path: Path, old: str, new: str) -> str:
    """Write the matrix with one edit, below TensorFlow 2.21.0 if it can be, and return the message of its refusal."""
    before, row, after = TEXT.partition('- package: tensorflow\n  version: "2.21.0"')
    before, after = (before, after.replace(old, new, 1)) if old in after else (before.replace(old, new, 1), after)
    text = before + row + after
    assert text != TEXT, old
    file = tmp_path / "matrix.yaml"
    file.write_text(touched(text), encoding="utf-8")
    with pytest.raises(MatrixError) as refused:
        Matrix.load(str(file))
    message = str(refused.value)
    assert message.startswith(str(file))
    return message


@each(
    ("old", "new", "message"),
    [
        ("revision:", "version: 1\nrevision:", "unknown field `version`"),
        ('  version: "2.20.0"', '  version: "2.20.0"\n  colour: red', "unknown field `colour` - at `$.tensorflow[2]`"),
        ('      cuda: "12.5.1"', "      cuda: 12.5", "Expected `str | null`, got `float`"),
        ('glibc: "2.27"', 'glibc: "twelve"', "matching regex"),
        ("    linux_x86_64:", "    linux_sparc:", "Invalid enum value 'linux_sparc'"),
        ("severity: error", "severity: fatal", "Invalid enum value 'fatal' - at `$.known_issues[0].severity`"),
        ("schema: tfgpu.matrix/1", "schema: tfgpu.matrix/9", "Invalid enum value"),
        ("revision:", 'revision: "2020-01-01"\nrevision:', ": duplicate key revision"),
        ("sources:", "sources: [", "invalid YAML: did not find expected"),
        ('cuda: "12.5.1"', "cuda: 12.10", 'put it in quotes: "12.10"'),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert message in edited(tmp_path, old, new)


@each(
    ("old", "new", "message"),
    [
        ("source: cudnn-9.10-matrix}", "source: hearsay}", "no source 'hearsay'; there are wheel"),
        ("  wheel:\n", '  gossip: {title: "nobody"}\n  wheel:\n', "sources.gossip: no row uses it"),
        ('- version: "12.4"', '- version: "12.5"', "cuda: '12.5' stands 2 times"),
        ("GeForce RTX 5080", "GeForce RTX 5090", "gpus: 'geforce rtx 5090 of 12.0' stands 2 times"),
        (
            '      python: ["3.10", "3.11", ',
            '      python: ["3.11", "3.10", ',
            "tensorflow 2.21.0 linux_x86_64.python: 3.11, 3.10",
        ),
        (
            'minor_compat_min_linux: "525.60.13"',
            'minor_compat_min_linux: "535.54.03"',
            "minor_compat_min_linux: 525.60.13, but CUDA 12.9.2 has 535.54.03",
        ),
        (
            'min_driver_linux: "580.65.06"',
            'min_driver_linux: "535.54.03"',
            "cuda 13.0.min_driver_linux: 535.54.03 is older than minor_compat_min_linux 580",
        ),
        (
            'version: "13.0"\n  min_driver_linux: "580.65.06"\n  min_driver_windows: null\n'
            '  minor_compat_min_linux: "580"\n  minor_compat_min_windows: "580"\n  compute_capabilities: ["7.5"',
            'version: "13.0"\n  min_driver_linux: "580.65.06"\n  min_driver_windows: null\n'
            '  minor_compat_min_linux: "580"\n  minor_compat_min_windows: "580"\n  compute_capabilities: ["7.0", "7.5"',
            "cuda 13.0.compute_capabilities: has 7.0, which goes from 9.0 to 12.9",
        ),
        ('first_driver_branch: "520"', 'first_driver_branch: "515"', "515, but CUDA 11.8 shipped 520.61.05"),
        (
            'first_driver_branch: "418"\n  source: open',
            'first_driver_branch: "390"\n  source: open',
            "(7.5).first_driver_branch: 390 is older than 410, the first of Turing 7.5",
        ),
        ('GeForce RTX 4090: "2684 ', 'GeForce RTX 4090: "2704 ', "2704 is 'GeForce RTX 4090', and"),
        (
            '- {compute_capability: "6.0", float64',
            '- {compute_capability: "6.7", float64',
            "peaks: compute capability 6.7",
        ),
        (
            '      cuda: "12.5.1"',
            '      cuda: "12.7"',
            "tensorflow 2.21.0 linux_x86_64.cuda: 12.7 is none of 13.5, 13.4",
        ),
        ('      sass: ["6.0"', '      sass: ["3.5", "6.0"', "CUDA 12.5.1 does not compile for 3.5, only for 5.0"),
        ('cudnn: "9.3"\n      sass', 'cudnn: "8.4"\n      sass', "8.4 is made for CUDA 10, 11, not for 12.5.1"),
        (
            'cudnn: "9.3"\n      sass',
            'cudnn: "6.5"\n      sass',
            "tensorflow 2.21.0 linux_x86_64.cudnn: 6.5 is none of",
        ),
        (
            'libraries: "linux-cudart12-cupti12-cudnn9-nccl"',
            'libraries: "linux-cudart12-cupti12-cudnn8-nccl"',
            "opens libcudnn.so.8, not cudnn of major version 9",
        ),
        (
            'libraries: "linux-cudart12-cupti12-cudnn9-nccl"',
            'libraries: "linux-cuda99"',
            "'linux-cuda99' is none of linux-",
        ),
        (
            'wheel: "tensorflow-2.21.0-cp313-cp313-win_amd64.whl"',
            'wheel: "tensorflow-2.21.0-cp313-cp313-win_amd64.whl"\n      cudnn: "9.3"',
            "tensorflow 2.21.0 windows_amd64.cudnn: given for a wheel without CUDA",
        ),
        ('wheel: "tensorflow-2.21.0-', 'wheel: "tensorflow-2.12.0-', "does not start with tensorflow-2.21.0-"),
        ('cuda: "11.2", cudnn: "8.1"', 'cuda: "11.9", cudnn: "8.1"', "official 2.11.cuda: 11.9 is none of"),
        ('versions: "==2.16.1"', 'versions: "2.16.1"', "'2.16.1' is no version specifier such as"),
        ('versions: "==2.16.1"', 'versions: "==2.16.9"', "tf-2.16.1-runpath.condition: no release fits it"),
        ("packages: [tensorflow-gpu]", "packages: [tensorflow-gpus]", "'tensorflow-gpus' is none of"),
        ('"absl-py>=0.1.6": "1.5.0..', '"absl-py>=0.1.6": "1.4.9..', "is said of 1.4.9, which is none of its versions"),
        ('"absl-py>=0.1.6":', '"absl-py>0.1.6>":', "'absl-py>0.1.6>' cannot be read"),
        ("- package: tf-keras\n", "- package: keras\n", "packages: 'keras' stands 2 times"),
        (
            'cudnn: "9.3"\n  source: wheel-b',
            'cudnn: "9.4"\n  source: wheel-b',
            "compiled with cuDNN 9.4, but its header is",
        ),
        ('ptx: {"9.0": "8.5"}', 'ptx: {"9.0": "8.6"}', "builds linux_x86_64: PTX 8.6 is none of 9.1, 9.0, 8.8"),
        ('{"tensorflow": "2.21.0",', '{"tensorflow": "2.21.9",', "tensorflow 2.21.9 has no wheel with CUDA"),
        (
            '330, sass: ["6.0"',
            '330, sass: ["5.0", "6.0"',
            "2.21.0: fat binaries for 5.0, 6.0, 7.0, 8.0, 8.9, 9.0, but the",
        ),
        ('first: "20.06", last: "20.09"', 'first: "20.06", last: "20.10"', "monthly_images 20.06: it ends 20.10"),
        ('{cuda: "11.1", first', '{cuda: "13.5", first', "monthly_images 20.10: the driver of CUDA 13.5 is unknown"),
        ('isa: "8.8", cuda: "12.9"', 'isa: "8.8", cuda: "12.7"', "ptx 8.8: CUDA 12.7 is none of"),
    ],
)
def test_contradictions_name_the_row_and_the_valid_values(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in edited(tmp_path, old, new)


def test_unreadable_files_are_refused_without_a_traceback(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("schema: größe".encode("latin-1"))
    empty = tmp_path / "empty.yaml"
    empty.write_text("", encoding="utf-8")
    listed = tmp_path / "list.yaml"
    listed.write_text("- 1\n", encoding="utf-8")
    for path, message in (
        (tmp_path / "missing.yaml", "No such file or directory"),
        (tmp_path, "it is a directory, not a file"),
        (latin, "not UTF-8"),
        (empty, "empty.yaml:1: an empty file"),
        (listed, "list.yaml:1: Expected `object`, got `array`"),
    ):
        with pytest.raises(MatrixError, match=message) as refused:
            Matrix.load(str(path))
        assert str(refused.value).startswith(str(path))
    with pytest.raises(MatrixError, match="null"):
        Matrix.load("a\0b")


def test_the_json_schema_accepts_the_file() -> None:
    import jsonschema

    published = json.loads((FOLDER / "matrix-1.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(ready_to_decode(TEXT.encode())), published)


def test_rows_survive_json() -> None:
    row = MATRIX.tensorflow("2.15.1", "linux_x86_64")
    assert row is not None
    assert msgspec.json.decode(msgspec.json.encode(row), type=type(row)) == row
    assert parse(TEXT, "again") == MATRIX.data
