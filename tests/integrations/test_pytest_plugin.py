"""The pytest plugin in real runs of pytest; the machine is that of a saved report, or the one of the fault lab."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import msgspec
import pytest

from tests.healthy import gpu, spoil
from tests.integrations.making import ROOT, facts_with, install, save, small
from tests.lab import Lab
from tfgpu_doctor.facts.facts import Driver, Facts, Unknown

pytest_plugins = ["pytester"]

MARKED = """
    import pytest

    @pytest.mark.gpu
    def test_one(): pass

    @pytest.mark.gpu(min=2, memory="100GiB", compute_capability="9.0")
    def test_two(): pass

    def test_other(): pass
"""
REASON = "gpu.none: This machine has no NVIDIA GPU"
NO_GPU = f"needs a GPU: no GPU that TensorFlow can use: {REASON}; run tfgpu doctor"
Machine = Callable[[Facts], None]


@pytest.fixture
def machine(pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Choose the machine on which the inner run is."""
    patch = pytester._monkeypatch
    folder = tmp_path_factory.mktemp("plugin")
    install(folder / "site", patch)
    pytester.makeini("[pytest]\n")

    def choose(facts: Facts) -> None:
        patch.setenv("TFGPU_DOCTOR_FROM", save(folder / "report.json", facts))

    choose(facts_with(gpu(0), gpu(1)))
    return choose


def without_gpu() -> Facts:
    """The healthy machine, when its GPU has been taken out."""
    facts = facts_with()
    none = msgspec.structs.replace(facts.host.pci_gpus, value=())
    driver = Driver(version=Unknown("no driver"), kernel_module_loaded=facts.host.nouveau_loaded)
    return spoil(msgspec.structs.replace(facts, driver=driver), {"host.pci_gpus": none, "gpus": Unknown("no driver")})


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:xdist", "-p", "no:cacheprovider", *arguments)


# ----------------------------------------------------------------------------------------------------- the mark


def test_marked_tests_run_or_are_skipped_with_the_reason(pytester: pytest.Pytester, machine: Machine) -> None:
    pytester.makepyfile(test_it=MARKED)
    result = run(pytester, "--strict-markers")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["tfgpu: TensorFlow 2.21.0, driver 570.86.15, 2 × NVIDIA H200"])
    machine(without_gpu())
    result = run(pytester, "-rs")
    result.assert_outcomes(passed=1, skipped=2)
    assert f"test_it.py:3: {NO_GPU}" in result.stdout.str()  # where the test stands
    assert "needs 2 GPUs with at least 100 GiB of memory and compute capability 9.0: no GPU" in result.stdout.str()
    machine(facts_with(gpu(0), small(1)))
    result = run(pytester, "-rs")
    result.assert_outcomes(passed=2, skipped=1)
    found = "found 1 × NVIDIA H200 (140 GiB, compute capability 9.0), 1 × NVIDIA GeForce RTX 3060 (12 GiB, compute"
    assert found in result.stdout.str()
    pytester._monkeypatch.setenv("TFGPU_DOCTOR_FROM", "missing.json")  # a wrong setting, and no machine without a GPU
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: TFGPU_DOCTOR_FROM: cannot read missing.json: *"])
    described = "@pytest.mark.gpu(min=1, memory=None, compute_capability=None): skip the test, or *"
    run(pytester, "--markers").stdout.fnmatch_lines([described])


def test_required_gpus_fail_the_test(pytester: pytest.Pytester, machine: Machine) -> None:
    """By the option or the variable; one that is skipped anyway does not fail."""
    machine(without_gpu())
    pytester.makepyfile(MARKED + "\n    @pytest.mark.gpu\n    @pytest.mark.skip\n    def test_later(): pass\n")
    for option, variable, is_required in (("--require-gpu", "0", True), ("-v", "yes", True), ("-v", "0", False)):
        pytester._monkeypatch.setenv("TFGPU_REQUIRE_GPU", variable)
        result = run(pytester, option)
        result.assert_outcomes(passed=1, **({"errors": 2, "skipped": 1} if is_required else {"skipped": 3}))
        assert result.ret == is_required
        if is_required:
            result.stdout.fnmatch_lines([f"ERROR *::test_one - Failed: needs a GPU: no GPU that TensorFlow*{REASON}*"])


def test_marks_of_class_and_module_count_together(pytester: pytest.Pytester, machine: Machine) -> None:
    machine(facts_with(gpu(0), small(1)))
    pytester.makepyfile("""
        import pytest, unittest

        pytestmark = pytest.mark.gpu(min=2)

        @pytest.mark.gpu(memory="100GiB")
        class TestLarge:
            def test_both(self): pass

        class TestOld(unittest.TestCase):
            @pytest.mark.gpu(compute_capability="9.0")
            def test_both(self): pass

        @pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.gpu(memory="50GiB"))])
        def test_parameter(n): pass
    """)
    result = run(pytester, "-rs")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(["*needs 2 GPUs with at least 100 GiB of memory: found *"])


WRONG = {
    "minimum=2": "it takes the keywords min, memory, compute_capability: write @pytest.mark.gpu(min=2, ",
    "2": "it takes the keywords",
    "min=0": "min=0 is not a number of GPUs such as 2",
    "min='2'": "min='2' is not a number of GPUs such as 2",
    "min=True": "min=True is not a number of GPUs such as 2",
    "memory='10 apples'": """memory='10 apples' is not a size such as "10GiB", "512MiB" or "10G\"""",
    "memory=0": "memory=0 is not a size",
    "memory=None": "memory=None is not a size",
    "compute_capability='ampere'": "compute_capability='ampere' is not a compute capability such as \"8.0\"",
    "compute_capability=8": "compute_capability=8 is not a compute capability",
}


def test_a_wrong_mark_is_an_error_of_the_test(pytester: pytest.Pytester, machine: Machine) -> None:
    tests = "".join(f"@pytest.mark.gpu({wrong})\ndef test_{n}(): pass\n" for n, wrong in enumerate(WRONG))
    pytester.makepyfile(test_wrong=f"import pytest\n{tests}")
    result = run(pytester)
    result.assert_outcomes(errors=len(WRONG))
    text = result.stdout.str()
    for number, says in enumerate(WRONG.values()):
        assert f"test_wrong.py:{2 * number + 2}: the mark gpu of test_{number}: {says}" in text
    assert "Traceback" not in text and "pytest_plugin.py" not in text


def test_a_marker_of_the_project_is_left_alone(pytester: pytest.Pytester, machine: Machine) -> None:
    machine(without_gpu())
    pytester.makepyfile("""
        import pytest

        @pytest.mark.gpu("anything", of=3)
        def test_a(): pass
    """)
    for line in ("gpu: slow tests on our cluster", "gpu"):
        pytester.makeini(f"[pytest]\nmarkers = {line}\n")
        result = run(pytester, "-m", "gpu")
        result.assert_outcomes(passed=1)
        assert "tfgpu:" not in result.stdout.str()


# -------------------------------------------------------------------------------------------------- the fixtures


def test_the_fixtures(pytester: pytest.Pytester, machine: Machine) -> None:
    """The GPU is the one with most memory, so that it meets the mark of the test.

    A test that uses one is selected as a marked one: CI runs `-m gpu` on the GPU runner and skips on the others.
    """
    machine(facts_with(small(0), gpu(1)))
    pytester.makepyfile("""
        import pytest, sys

        @pytest.mark.gpu(memory="100GiB")
        def test_large(gpu, gpus):
            assert (gpu.name, gpu.device) == ("NVIDIA H200", "/GPU:1")
            assert (gpu.memory, gpu.compute_capability) == (150754820096, "9.0")
            assert [one.device for one in gpus] == ["/GPU:1", "/GPU:0"]

        def test_fixture(gpu): assert "tensorflow" not in sys.modules
        def test_later(request): request.getfixturevalue("gpus")
        def test_none(): pass
    """)
    pytester.runpytest_subprocess("-p", "no:xdist").assert_outcomes(passed=4)
    run(pytester, "-m", "gpu", "--strict-markers").assert_outcomes(passed=2, deselected=2)
    machine(without_gpu())
    run(pytester).assert_outcomes(skipped=3, passed=1)
    assert run(pytester, "--require-gpu", "-k", "later").ret == 1


def test_a_run_without_marked_tests_loads_nothing_of_ours(pytester: pytest.Pytester, machine: Machine) -> None:
    pytester.makepyfile(MARKED)
    pytester.makeconftest("""
        import sys

        def pytest_unconfigure():
            names = {"click", "rich", "msgspec", "pynvml", "psutil", "yaml", "tensorflow", "tfgpu_doctor.commands"}
            print("loaded:", sorted(names & set(sys.modules)))
    """)
    for arguments in (("-m", "not gpu"), ("--collect-only",)):
        result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-s", *arguments)
        result.stdout.fnmatch_lines(["loaded: [[]]"])
        assert "tfgpu:" not in result.stdout.str()


# ---------------------------------------------------------------- the real doctor, under a driver of the fault lab


@pytest.mark.tensorflow
@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the fault lab is of Linux")
def test_workers_of_the_fault_lab(
    pytester: pytest.Pytester, machine: Machine, driver_lab: Lab, tensorflow_python: str
) -> None:
    """Three GPUs, the real TensorFlow: with the lines of the page, each worker lists its own GPU only."""
    h200 = {"name": "NVIDIA H200", "cc": "9.0", "memory_mib": 143771, "driver": "580.65.06"}
    pytester._monkeypatch.delenv("TFGPU_DOCTOR_FROM")
    for name, value in driver_lab.environ(cuda=True, gpus=3, **h200).items():
        pytester._monkeypatch.setenv(name, value)
    (text,) = re.findall(r"^```python\n# conftest.py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    pytester.makeconftest(text)
    pytester.makepyfile("""
        import os, pytest
        import numpy
        import tensorflow as tf

        ONES = numpy.ones((64, 64), "float32")

        @pytest.mark.gpu(memory="100GiB")
        @pytest.mark.parametrize("n", range(4))
        def test_gpu(gpu, n, worker_id):
            assert f"gw{os.environ['CUDA_VISIBLE_DEVICES']}" == worker_id
            assert [one.name for one in tf.config.list_physical_devices("GPU")] == ["/physical_device:GPU:0"]
            with tf.device(gpu.device):
                product = tf.matmul(ONES, ONES)
            assert product.device.endswith("GPU:0") and product.numpy()[0, 0] == 64
    """)
    pytester.runpytest_subprocess("-n2", timeout=120).assert_outcomes(passed=4)


# ---------------------------------------------------------------------------------------------- docs/pytest.md

PAGE = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")


def test_the_example_of_the_page(pytester: pytest.Pytester, machine: Machine) -> None:
    ((name, text),) = re.findall(r"^```python\n# (test_\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    pytester.path.joinpath("tox.ini").unlink()
    pytester.path.joinpath(name).write_text(f"# {name}\n{text}", encoding="utf-8")
    run(pytester).assert_outcomes(passed=3)
    machine(without_gpu())
    pytester._monkeypatch.setenv("COLUMNS", "80")
    (shown,) = re.findall(r"^```console\n\$ pytest -rs\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    printed = run(pytester, "-rs").outlines
    begin = printed.index("collected 3 items")
    assert printed[begin : begin + len(shown.splitlines())] == shown.splitlines()
