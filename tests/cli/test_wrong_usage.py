"""Wrong usage of every command: exit code 2, one sentence that says what is wrong, nothing on standard output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.records.test_report import report

BENCH = result(run()).to_json()
GOOD = report().to_json()
FILES: dict[str, bytes] = {
    "report.json": GOOD,
    "base.json": BENCH,
    "newer.json": BENCH.replace(b"tfgpu.bench/1", b"tfgpu.bench/2"),
    "unknown.json": json.dumps(json.loads(BENCH) | {"runs": 1}).encode(),
    "null.json": BENCH.replace(b'"median_s": 5.0', b'"samples_s": [null]'),
    "plan.json": b'{"schema": "tfgpu.plan/1"}',
    "empty": b"",
    "blank": b" \n\n\t\n",
    "bytes.txt": b"caf\xe9",
    "notes.md": b"hello",
    "pyproject.toml": b"[project",
    "compose.yaml": b"services: [",
    "requirements.txt": b"a\n" * 3_000_000,
}
# command line → a part of the message
WRONG = (
    (("docter",), "No such command 'docter'"),
    (("doctor", "--frmo", "x"), "No such option"),
    (("doctor", "--format", "xml"), "'xml' is not one of"),
    (("doctor", "--timeout", "0"), "--timeout"),
    (("doctor", "--require-gpus", "-1"), "--require-gpus"),
    (("doctor", "--from", "nowhere.json"), "cannot read nowhere.json: No such file or directory"),
    (("doctor", "--from", "."), "cannot read .: it is a directory, not a file"),
    (("doctor", "--from", "x.json", "--no-import"), "cannot be combined with --from, which reads a saved report"),
    (("doctor", "--matrix", "nowhere.yaml"), "nowhere.yaml: No such file or directory"),
    (("doctor", "--output", "/nowhere/report.json"), "the folder /nowhere does not exist"),
    (("doctor", "--output", "/"), "is a directory"),
    (("doctor", "--python", "nowhere/python"), "--python nowhere/python: no such program, or not executable"),
    (("doctor", "--python", "/bin/cat"), "/bin/cat is no Python interpreter"),
    (("doctor", "--format", "text", "--format", "json"), "2 formats would go to standard output"),
    (("explain", "empty"), "empty contains no text: expected a log"),
    (("explain", "blank"), "blank contains no text: expected a log"),
    (("explain", "."), "cannot read .: it is a directory, not a file"),
    (("explain", "nowhere/log"), "cannot read nowhere/log: No such file or directory"),
    (("explain", "cuda.mising"), "neither a file nor the id of a finding. Did you mean cuda.missing"),
    (("explain", "nowhere"), "cannot read nowhere: No such file or directory"),
    (("explain", "no.txt"), "To explain a text, pipe it: echo '...' | tfgpu explain -"),
    (("explain", "no such log"), "No such file or directory. To explain a text, pipe it"),
    (("plan", "--gpu", "RTX 4009"), "RTX 4090"),
    (("plan", "--gpu", "\x1b[31mred"), "unknown GPU"),
    (("plan", "--gpu", "A100", "--driver", "12.2"), "12.2 is a version of CUDA, not of the driver"),
    (("plan", "--gpu", "RTX 4090", "--driver", "new"), "'new' is not an NVIDIA driver version such as 570.86.10"),
    (("plan", "--compute-capability", "8.4"), "'8.4' is not a compute capability of an NVIDIA GPU; known are"),
    (("plan", "--gpu", "RTX 4090", "--python", "three"), "'three' is not a Python version such as 3.12"),
    (("plan", "--gpu", "RTX 4090", "--tensorflow", "latest"), "'latest' is not a TensorFlow version such as 2.15"),
    (("plan", "--os", "beos"), "'linux', 'windows', 'wsl2', 'macos'"),
    (("plan", "--gpu", "RTX 4090", "--from", "report.json"), "--from can be combined with --python and --tensorflow"),
    (("plan", "--from", "nowhere.json"), "cannot read nowhere.json"),
    (("matrix", "tensorflow", "--version", "2.15.7"), "nearest known on linux_x86_64: 2.15.1, 2.15.0.post1, 2.15.0"),
    (("matrix", "tensorflow", "--version", "9.9"), "unknown tensorflow 9.9"),
    (("matrix", "tensorflow", "--version", "2.10.0", "--platform", "macos_arm64"), "has no wheel for macos_arm64"),
    (("matrix", "tensorflow", "--version", "2.15.1", "--package", "tensorflow-gpu"), "unknown tensorflow-gpu 2.15.1"),
    (("matrix", "tensorflow", "--package", "torch"), "unknown package 'torch'; the matrix has tensorflow,"),
    (("matrix", "tensorflow", "--platform", "linux"), "'linux' is not one of 'linux_x86_64'"),
    (("matrix", "tensorflow", "--version", "2.15.1", "--newest"), "cannot be combined with filters"),
    (("matrix", "tensorflow", "--version", "2.15.1", "--platform", "all"), "VERSION needs one platform"),
    (("matrix", "tensorflow", "--cuda", "new"), "'new' is not a CUDA version such as 11.8"),
    (("matrix", "tensorflow", "--cudnn", "8.x"), "'8.x' is not a cuDNN version such as 8.6"),
    (("matrix", "tensorflow", "--driver", "new"), "is not an NVIDIA driver version"),
    (("matrix", "tensorflow", "--python", "three"), "is not a Python version"),
    (
        ("matrix", "tensorflow", "--compute-capability", "4.2"),
        "is not a compute capability of an NVIDIA GPU; known are",
    ),
    (("matrix", "tensorflow", "--gpu", "Radeon VII"), "unknown GPU 'Radeon VII'"),
    (("matrix", "cuda", "--version", "12.7.1"), "unknown CUDA 12.7.1; the nearest known are"),
    (("matrix", "find", "nvcr.io/nvidia/tensorflow:24.13-tf2-py3"), "the nearest are nvcr.io/nvidia/tensorflow:24."),
    (("matrix", "find", "2.15.7"), "tfgpu matrix tensorflow, cuda, cudnn and gpu look up theirs"),
    (("matrix", "cuda", "--version", "12"), "CUDA 12 is a series; name one of"),
    (("matrix", "cudnn", "--version", "99"), "unknown cuDNN 99"),
    (("matrix", "gpu", "RTX 1234"), "unknown GPU 'RTX 1234'"),
    (("matrix", "gpu", "\x1b[31mevil\x1b[0m"), "'\\x1b[31mevil\\x1b[0m'"),
    (("matrix", "gpu", "RTX 4090", "--compute-capability", "8.9"), "give either NAME or --compute-capability"),
    (("matrix", "gpu", "--compute-capability", "x"), "'x' is not a compute capability"),
    (("matrix", "tensorflow", "--format", "xml"), "'xml' is not one of 'text', 'json', 'markdown', 'html'"),
    (("matrix", "cuda", "--matrix", "nowhere.yaml"), "nowhere.yaml: No such file or directory"),
    (("smoke", "--budget", "1"), "--budget"),
    (("smoke", "--require-gpus", "-1"), "--require-gpus"),
    (("smoke", "--min-tflops", "0"), "--min-tflops"),
    (("smoke", "--max-import-seconds", "x"), "--max-import-seconds"),
    (("smoke", "--factor", "1"), "--factor"),
    (("smoke", "--repeat", "0"), "--repeat"),
    (("smoke", "--virtual-gpus", "1"), "--virtual-gpus"),
    (("smoke", "--dtype", "int8"), "--dtype"),
    (("smoke", "--format", "sarif"), "'sarif' is not one of"),
    (("smoke", "--python", "/nowhere/python"), "/nowhere/python: no such program, or not executable"),
    (("smoke", "--from", "x.json"), "No such option"),
    (("compare", "a.json"), "Missing argument 'NEW.json'"),
    (("compare", "nowhere.json", "b.json"), "cannot read nowhere.json: No such file or directory"),
    (("compare", "-", "-"), "only one of the two files can be standard input (-)"),
    (("compare", "a.json", "b.json", "--format", "sarif"), "'sarif' is not one of"),
    (
        ("compare", "report.json", "base.json"),
        "base.json is a bench result, but report.json is a doctor report; tfgpu compare reads two doctor reports",
    ),
    (
        ("compare", "base.json", "report.json"),
        "base.json is a bench result, but report.json is a doctor report; tfgpu compare reads two doctor reports",
    ),
    (
        ("compare", "base.json", "plan.json"),
        "plan.json is a plan; tfgpu compare reads two doctor reports or two bench results",
    ),
    (
        ("compare", "base.json", "newer.json"),
        "has schema 'tfgpu.bench/2'; this version of tfgpu reads 'tfgpu.bench/1'; that is",
    ),
    (("compare", "unknown.json", "base.json"), "unknown.json is not a valid bench result: Expected"),
    (("compare", "null.json", "base.json"), "null.json is not a valid bench result: Expected `float`, got `null`"),
    (("compare", "base.json", "empty"), "empty is not a saved report: it is empty"),
    (("compare", "base.json", "base.json", "--factor", "0.9"), "--factor 0.9: must be greater than 1, such as 1.05"),
    (("compare", "base.json", "base.json", "--factor", "1"), "--factor 1: must be greater than 1"),
    (("compare", "base.json", "base.json", "--factor", "nan"), "--factor nan: must be greater than 1"),
    (
        ("compare", "base.json", "base.json", "--across", "moon"),
        "--across moon: choose from tensorflow, keras, python, numpy",
    ),
    (
        ("compare", "base.json", "base.json", "--fail-on", "error"),
        "--fail-on error: only for doctor reports, but these are",
    ),
    (("compare", "base.json", "base.json", "--all"), "--all: only for doctor reports"),
    (("compare", "base.json", "base.json", "--require-gpus", "1"), "--require-gpus: only for doctor reports"),
    (
        ("compare", "report.json", "report.json", "--fail-on", "slower"),
        "--fail-on slower: only for bench results, but these are",
    ),
    (("compare", "report.json", "report.json", "--factor", "1.1"), "--factor: only for bench results"),
    (("compare", "report.json", "report.json", "--across", "driver"), "--across: only for bench results"),
    (
        ("compare", "report.json", "report.json", "--format", "prometheus"),
        "--format prometheus: only for bench results",
    ),
    (("fleet",), "give the files or folders with the reports"),
    (("fleet", "-", "-"), "only one of the files can be standard input"),
    (("fleet", "-", "--baseline", "-"), "only one of the files can be standard input"),
    (("fleet", "report.json", "--baseline", "nowhere.json"), "cannot read nowhere.json"),
    (("fleet", "report.json", "--baselin", "x"), "--baseline"),
    (("fleet", "report.json", "--format", "sarif"), "sarif"),
    (("fleet", "colect", "--slurm"), "Did you mean collect?"),
    (("fleet", "collect"), "give either --ray ADDRESS or --slurm"),
    (("fleet", "collect", "--slurm", "--nodes", "2", "dcotor"), "Did you mean doctor?"),
    (("bench", "matpow", "--gpus", "2", "--devices", "cpu"), "--devices cannot be combined with --gpus"),
    (("bench", "matpow", "--gpus", "many"), "--gpus many: must be a number from 1 up, or all"),
    (("bench", "matpow", "--power", "1"), "1 is not in the range"),
    (("bench", "matpow", "--size", "x"), "--size: 'x' is not a size"),
    (("bench", "matpow", "--html", "-"), "--html needs a file name"),
    (("bench", "matpow", "--html", "no/page.html"), "does not exist"),
    (("bench", "cnn", "--batch-size", "4", "--global-batch-size", "4"), "cannot be combined"),
    (("bench", "inference", "--shape", "1,2"), "--signature and --shape need --saved-model DIR"),
    (("bench", "input", "--dataset", "nowhere"), "--dataset nowhere: no such folder"),
    (("bench", "transfer", "--size", "1025"), "a multiple of 4"),
    (("bench", "show", "empty"), "is not a saved report: it is empty"),
    (("bench", "show", "report.json"), "is a doctor report"),
    (("explain", "cuda.missing", "--format", "junit"), "the page of a finding has text and json only"),
    (("doctor", "--list-checks", "--format", "junit"), "the list of checks has text and json only"),
    (("check", "missing.txt"), "cannot read"),
    (("check", "bytes.txt", "--kind", "requirements"), "is not UTF-8"),
    (("check", "notes.md"), "unknown kind of file"),
    (("check", "pyproject.toml"), "invalid TOML"),
    (("check", "compose.yaml"), "invalid YAML"),
    (("check", "requirements.txt"), "is larger than 5 MB"),
    (("check", "-"), "standard input (-) needs --kind"),
    (("check", "-", "--kind", "requirements", "--fix"), "--fix needs files"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


def test_wrong_usage_is_a_sentence(folder: Path, subtests: pytest.Subtests) -> None:
    for arguments, message in WRONG:
        with subtests.test(arguments=arguments):
            done = tfgpu(*arguments, cwd=folder)
            assert (done.returncode, done.stdout) == (2, "")
            assert message in " ".join(done.stderr.split())
            assert "Traceback" not in done.stderr and "\x1b" not in done.stderr


# saved reports that cannot be read
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not a saved report: it is empty"),
    "blank": (b" \n\t", "is not a saved report: it is empty"),
    "cut-off": (GOOD[: len(GOOD) // 2], "is not a saved report: it is cut off"),
    "one-byte-short": (GOOD.rstrip()[:-1], "is not a saved report: it is cut off"),
    "no-json": (b"Fri Nov 21 10:00:00 2026  +----+", "is not a saved report: JSON is malformed"),
    "not-utf8": (b'{"schema": "\xff\xfe caf\xe9"}', "is not a saved report: it is not UTF-8"),
    "utf16": (
        b"\xff\xfe" + GOOD.decode()[:200].encode("utf-16-le"),
        "it is UTF-16, as PowerShell's > writes it",
    ),
    "a-list": (b"[1, 2]", "it is JSON of something else"),
    "an-object": (b'{"facts": {}}', "it is JSON of something else"),
    "a-number-for-a-schema": (b'{"schema": 1}', "it is JSON of something else"),
    "newer": (b'{"schema": "tfgpu.report/2"}', "that is newer: update tfgpu"),
    "nonsense-version": (b'{"schema": "tfgpu.report/new"}', "has schema 'tfgpu.report/new'"),
    "bench": (b'{"schema": "tfgpu.bench/1"}', "is a bench result; tfgpu doctor --from reads a doctor report"),
    "plan": (b'{"schema": "tfgpu.plan/1"}', "is a plan"),
    "comparison": (b'{"schema": "tfgpu.compare/1"}', "is a comparison"),
    "foreign": (b'{"schema": "http://json-schema.org/x"}', "is JSON of schema 'http://json-schema.org/x'"),
    "nested-schema": (b'{"schema": ' + b"[" * 100_000, "is not a saved report"),
    "nested": (
        b'{"schema": "tfgpu.report/1", "x": ' + b"[" * 100_000,
        "is not a saved report: it is nested too deeply",
    ),
    "no-facts": (b'{"schema": "tfgpu.report/1"}', "is not a valid report"),
    "two-reports": (GOOD + GOOD, "is not a saved report"),
}


def test_one_sentence_for_each(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in BAD:
        with subtests.test(name=name):
            data, message = BAD[name]
            (tmp_path / "r.json").write_bytes(data)
            done = tfgpu("doctor", "--from", "r.json", cwd=tmp_path)
            assert (done.returncode, done.stdout) == (2, "")
            assert message in " ".join(done.stderr.split())
            assert "Traceback" not in done.stderr and "defect" not in done.stderr
            assert len(done.stderr) < 600
