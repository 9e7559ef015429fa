"""The Python API: the same results, checks and sentences as the command line, in every order of imports."""

from __future__ import annotations

import doctest
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tfgpu_doctor
from tests.cli.runner import tfgpu
from tests.fuzz.samples import results
from tests.tables import each
from tfgpu_doctor import TfgpuError, UsageError, bench, check, commands, compare, diagnose, explain, plan
from tfgpu_doctor.bench.comparison import BenchComparison
from tfgpu_doctor.bench.results import load_result
from tfgpu_doctor.compare.records import Comparison

NO_DEVICE = "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
DOCS = Path(__file__).parents[2] / "docs" / "python.md"
RESULT = results()[0]


def test_examples_of_docstrings_and_of_the_page() -> None:
    for name in ("diagnose", "explain", "plan", "check"):
        function = getattr(commands, name)
        found = doctest.DocTestFinder().find(function, name, globs={name: function})
        runner = doctest.DocTestRunner()
        assert sum(runner.run(test).attempted for test in found) > 0 == runner.failures, name
    outcome = doctest.testfile(str(DOCS), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 8
    assert outcome.failed == 0


def test_the_result_is_that_of_the_command_line(tmp_path: Path) -> None:
    printed = json.loads(
        tfgpu("plan", "--gpu", "RTX 3090", "--driver", "535", "--python", "3.11", "--format", "json").stdout
    )
    assert json.loads(plan(gpu="RTX 3090", driver="535", python="3.11").to_json()) == printed
    printed = json.loads(tfgpu("explain", "-", "--format", "json", input=NO_DEVICE).stdout)
    assert json.loads(explain(NO_DEVICE).to_json())["findings"] == printed["findings"] != []
    file = tmp_path / "log.txt"
    file.write_text(NO_DEVICE, encoding="utf-8")
    assert explain(NO_DEVICE.encode()).findings == explain(file).findings == explain(NO_DEVICE).findings


def test_a_wrong_argument_is_a_usage_error(capfd: pytest.CaptureFixture[str]) -> None:
    for call, says in (
        (lambda: plan(gpu="RTX 9999"), "unknown GPU 'RTX 9999'"),
        (lambda: plan(os="beos"), "'beos'"),  # type: ignore[arg-type]
        (lambda: plan(saved="/nowhere/report.json"), "No such file"),
        (lambda: explain(Path("/nowhere/log.txt")), "No such file"),
        (lambda: explain(b"\x7fELF\x02" * 9), "is a binary or compressed file"),
        (lambda: diagnose("/nowhere/python"), "no such program"),
        (lambda: diagnose(require_gpus=-1), "-1 is not in the range"),
        (lambda: diagnose(timeout=0), "timeout"),
        (lambda: check(), "either files or texts"),
        (lambda: check(texts={"notes.doc": "hello"}), "notes.doc"),
        (lambda: check(texts={"x": "tensorflow"}, kind="nope"), "no kind 'nope'"),  # type: ignore[arg-type]
        (lambda: bench("matpw"), "no workload 'matpw'"),
        (lambda: bench("matpow", sizze=3), "Did you mean '--size'?"),
        (lambda: compare(explain(NO_DEVICE), load_result(RESULT, "r", "x")), "two doctor reports or two"),
        (lambda: plan(gpu="T4", matrix="/nowhere/matrix.yaml"), "/nowhere/matrix.yaml"),
    ):
        with pytest.raises(UsageError, match=re.escape(says)) as caught:
            call()  # type: ignore[operator]
        assert isinstance(caught.value, ValueError)
        assert capfd.readouterr() == ("", "")


def test_an_environment_that_uv_made_for_tfgpu_is_not_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_has_more_than_tfgpu", lambda: False)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path / "bin"), os.path.dirname(sys.executable))))
    assert os.path.dirname(commands.find_python(None)) == os.path.dirname(sys.executable)
    folder, name = os.path.split(sys.executable)
    assert commands.find_python(f"{folder}/../{os.path.basename(folder)}/{name}") == sys.executable


def test_without_a_result_there_is_a_reason() -> None:
    bare = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys._base_executable  # type: ignore[attr-defined]
    with pytest.raises(TfgpuError, match="cannot measure with") as caught:
        bench("matpow", python=bare)
    assert not isinstance(caught.value, UsageError)


def test_reports_and_results_are_compared(tmp_path: Path) -> None:
    compared = compare(explain(NO_DEVICE + "\nTensorFlow 2.15.0"), explain("TensorFlow 2.16.1"))
    assert isinstance(compared, Comparison)
    assert any(change.id.startswith("tensorflow") for change in compared.changes)
    result, file = load_result(RESULT, "r", "x"), tmp_path / "result.json"
    file.write_bytes(RESULT)
    assert isinstance(compare(file, result), BenchComparison)
    assert isinstance(compare(file, file, factor=1.1, across=["tensorflow"]), BenchComparison)


def test_the_example_of_a_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """It is no doctest, since it would measure; so its names are those of a real result."""
    (example,) = re.findall(r"```python\n(result = bench.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    result = load_result(RESULT, "r", "x")

    def measured(*arguments: object, **more: object) -> object:
        inspect.signature(commands.bench).bind(*arguments, **more)
        return result

    exec(example, {"bench": measured, "compare": compare})
    assert capsys.readouterr().out.count("\n") == 2 * len(result.runs)


def test_threads_do_not_disturb_one_another() -> None:
    texts = [NO_DEVICE, "TensorFlow 2.15.0", "CUDNN_STATUS_INTERNAL_ERROR", "OOM when allocating tensor"]
    alone = [explain(text).findings for text in texts]
    with ThreadPoolExecutor(len(texts)) as threads:
        assert [report.findings for report in threads.map(explain, texts)] == alone


# --------------------------------------------------------------------------------------------------- names and imports

STATEMENTS = (
    "from tfgpu_doctor import plan, bench, compare",
    "from tfgpu_doctor.plan.target import Target; from tfgpu_doctor.bench.statistics import StoppingRule",
    "import tfgpu_doctor.compare.records; import tfgpu_doctor.plan",
)
CALLABLE = (
    "import tfgpu_doctor; assert all(callable(getattr(tfgpu_doctor, name)) for name in tfgpu_doctor.__all__[3:]);"
    "assert plan(gpu='T4').is_found and Target.__module__ == 'tfgpu_doctor.plan.target'"
)
OURS = "tfgpu_doctor tfgpu_doctor.bench tfgpu_doctor.compare tfgpu_doctor.plan"
PLUGIN = "tfgpu_doctor.integrations tfgpu_doctor.integrations.pytest_plugin"
ANSWER = "command(['tensorflow', '--version', '2.15.1', '--format', 'json'], standalone_mode=False)"


@each(
    "code, modules, imported",
    [
        # a folder and a function have one name, whatever was imported before
        (";".join((*STATEMENTS, CALLABLE)), "", ""),
        (";".join((*reversed(STATEMENTS), CALLABLE)), "", ""),
        # what is not needed is not imported: it costs a user seconds, or is not installed
        ("import tfgpu_doctor", "tfgpu_doctor click rich", OURS),
        ("import tfgpu_doctor.integrations.pytest_plugin", "tfgpu_doctor click rich msgspec", f"{OURS} {PLUGIN}"),
        ("import tfgpu_doctor.cli, tfgpu_doctor.integrations.mcp.command", "mcp mcp_types", ""),
        (f"from tfgpu_doctor.cli.matrix import command; {ANSWER}", "rich", ""),
    ],
)
def test_what_is_imported(code: str, modules: str, imported: str) -> None:
    names = f"sorted(name for name in sys.modules if name.partition('.')[0] in {modules.split()})"
    command = [sys.executable, "-W", "error", "-c", f"import sys; {code}; sys.exit(' '.join({names}))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert sorted(done.stderr.split()) == sorted(imported.split())


def test_the_names_of_the_package() -> None:
    assert [getattr(tfgpu_doctor, name) for name in ("plan", "bench", "compare")] == [plan, bench, compare]
    assert set(tfgpu_doctor.__all__) <= set(dir(tfgpu_doctor))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tfgpu_doctor.nothing  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(explain)) is explain
