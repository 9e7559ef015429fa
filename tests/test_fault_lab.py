"""The fault lab from end to end: one fault at a time under the real NVML bindings, and under the real TensorFlow.

Each is examined by `tfgpu doctor` as a user starts it, and must be the first finding, with nothing left running
and nothing but the report on standard output.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fault_bench import H100, WHEELS, MadeUp, examine, first, namespace, roots
from tests.lab import Lab
from tests.lab.hiding import hide_cudnn
from tests.probes.elf_lab import CALLER, Forge
from tests.tables import read_rows
from tests.tiers import usual

RUNPATH = ":".join(f"$ORIGIN/../nvidia/{name}/lib" for name in WHEELS)
ROWS = read_rows(Path(__file__).with_name("fault_lab.yaml"))


def ids(report: dict[str, Any], severity: str) -> list[str]:
    """The findings of one severity, in order."""
    return [finding["id"] for finding in report["findings"] if finding["severity"] == severity]


# one by default: each starts TensorFlow, and the rest below has most of them without it
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", usual(sorted(ROWS["drivers"]), lambda name: name == "new card"))
def test_driver_faults(name: str, tensorflow_python: str, driver_lab: Lab) -> None:
    row = ROWS["drivers"][name]
    answers = {**(H100 if "H100" in row else {}), **row["answers"]}
    environ = {**driver_lab.environ(**answers, cuda="H100" in row), **row.get("variables", {})}
    report = examine(tensorflow_python, environ=environ)
    assert roots(report)[0] == row["finding"]
    assert [phase["outcome"] for phase in report["facts"]["tensorflow"]["phases"][:4]] == ["ok"] * 4
    if "H100" in row:
        assert report["facts"]["driver"]["cuda_init"]["value"]["code"] == answers["cuinit"]
        assert "gpu.not-visible" in report["findings"][0]["consequences"]


def computed(python: str, environ: dict[str, str]) -> dict[str, Any]:
    """The report where TensorFlow works: the lab's CUDA is that of 2.20 and 2.21; others open other sonames."""
    report = examine(python, environ=environ)
    if not report["facts"]["tensorflow"]["version"]["value"].startswith(("2.20", "2.21")):
        pytest.skip("the CUDA of the lab is for another TensorFlow")
    return report


@pytest.mark.full
@pytest.mark.tensorflow
def test_tensorflow_lists_made_up_gpus_and_computes_on_them(tensorflow_python: str, driver_lab: Lab) -> None:
    report = computed(tensorflow_python, driver_lab.environ(**H100, gpus=2, cuda=True))
    devices = report["facts"]["tensorflow"]["devices"]["value"]
    found = [(d["device_name"], d["compute_capability"]) for d in devices if d["kind"] == "GPU"]
    assert found == [("NVIDIA H100 80GB HBM3", "9.0")] * 2
    checks = report["facts"]["tensorflow"]["checks"]["value"]
    assert [c["ok"] for c in checks if c["kind"] == "matmul"] == [True, True]
    # where the stand-in for cuDNN ends, nothing is claimed to be verified
    assert not any(c["ok"] for c in checks if c["kind"] == "conv2d")


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ROWS["computing"])
def test_computing(name: str, tensorflow_python: str, driver_lab: Lab) -> None:
    answers, finding = ROWS["computing"][name]
    findings = computed(tensorflow_python, driver_lab.environ(**H100, **answers, cuda=True))["findings"][:2]
    # the stand-in for cuDNN fails in the convolution, which is a cause of its own
    assert (finding, "error", True) in [(f["id"], f["severity"], f["root_cause"]) for f in findings]
    assert "tf.run-failed" in [one for f in findings for one in f["consequences"]]


# -------------------------------------------------------------------------------- GPUs, by the real NVML bindings


def by_day(rows: str) -> list[Any]:
    return usual(sorted(ROWS[rows]), lambda name: name in ROWS["by day"])


@pytest.mark.parametrize("name", by_day("gpus"))
def test_gpus(name: str, made_up: MadeUp, driver_lab: Lab) -> None:
    answers, finding, severity = ROWS["gpus"][name]
    report = examine(made_up.python, "--no-import", environ=driver_lab.environ(**{**H100, **answers}, cuda=True))
    assert first(report) == (finding, severity), ids(report, "error")


def test_healthy_gpus_give_no_finding(made_up: MadeUp, driver_lab: Lab) -> None:
    environ = driver_lab.environ(**H100, gpus=8, cuda=True, pcie="1,5,16,16", sm_clock=345, utilization=0)
    report = examine(made_up.python, "--no-import", environ=environ)
    assert [one["name"]["value"] for one in report["facts"]["gpus"]["value"]] == ["NVIDIA H100 80GB HBM3"] * 8
    assert ids(report, "error") == ids(report, "warning") == []


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    return Forge(tmp_path_factory.mktemp("forge"))


@pytest.fixture(scope="session")
def caller(tmp_path_factory: pytest.TempPathFactory, forge: Forge) -> Path:
    """TensorFlow's library with the RUNPATH of a good release."""
    return forge.library(tmp_path_factory.mktemp("caller") / "caller.so", code=CALLER, runpath=RUNPATH)


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory, driver_lab: Lab, caller: Path) -> MadeUp:
    """TensorFlow 2.20 with all wheels of its extra: nothing to complain about."""
    env = MadeUp(tmp_path_factory.mktemp("env") / "env")
    env.tensorflow("2.20.0", caller)
    env.wheels(driver_lab)
    for name, version in (("numpy", "2.1.3"), ("protobuf", "5.28.3"), ("keras", "3.10.0")):
        env.package(name, version)
    env.compiler("12.9.86")
    return env


@pytest.mark.parametrize("name", by_day("packages"))
def test_packages(name: str, tmp_path: Path, driver_lab: Lab, forge: Forge, caller: Path) -> None:
    how = ROWS["packages"][name]
    env = MadeUp(tmp_path / "env")
    if "runpath" in how:
        caller = forge.library(env.site / "own.so", code=CALLER, runpath=how["runpath"])
    env.tensorflow(how.get("release", "2.20.0"), caller)
    if "wheels" in how:
        env.wheels(driver_lab, *(name for name in WHEELS if how["wheels"] == "all" or name != "cudnn"))
    for package, version in how.get("packages", {}).items():
        env.package(package, version)
    (env.site / "shadow").mkdir()
    for library in how.get("libraries", ()):
        link = Path(how.get("link", library))
        forge.library(env.site / library, soname=link.name)
        if "link" in how:
            (env.site / link).symlink_to(Path(library).name)
    if "empty" in how:
        (env.site / how["empty"]).touch()
    if "gone" in how:
        (env.site / how["gone"]).unlink()
    environ = driver_lab.environ(**H100)
    environ["LD_LIBRARY_PATH"] = f"{env.site / 'shadow'}:{environ['LD_LIBRARY_PATH']}"
    hide = hide_cudnn(tmp_path / "hidden")
    report = examine(env.python, "--no-import", environ=environ, wrapper=namespace(hide) if hide else ())
    found = [finding["id"] for finding in report["findings"]]
    assert found[0] in (how["finding"] if isinstance(how["finding"], list) else [how["finding"]]), found


@pytest.mark.tensorflow
def test_a_local_tensorflow_py(tensorflow_python: str, driver_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("print('not the one')\nraise AttributeError('no such thing')\n")
    report = examine(tensorflow_python, environ=driver_lab.environ(**H100, cuda=True), cwd=tmp_path)
    assert first(report) == ("tf.shadowed", "error")
    assert "tf.import-failed" in report["findings"][0]["consequences"]


def test_another_environment_is_activated(made_up: MadeUp, driver_lab: Lab, tmp_path: Path) -> None:
    bare = MadeUp(tmp_path / "bare")
    activated = str(Path(made_up.python).parents[1])
    report = examine(bare.python, environ={**driver_lab.environ(**H100), "VIRTUAL_ENV": activated})
    assert first(report) == ("tf.wrong-env", "error")
    assert "tf.not-installed" in report["findings"][0]["consequences"]


def test_variables(made_up: MadeUp, driver_lab: Lab, tmp_path: Path) -> None:
    """Each is found in the same environment, beside the others and an old ptxas before the one of the wheel."""
    old = MadeUp(tmp_path / "old")
    old.compiler("12.3.107")  # which miscompiles for Hopper
    environ = {**driver_lab.environ(**H100, cuda=True), **{name: row[0] for name, row in ROWS["variables"].items()}}
    environ["PATH"] = f"{old.site}/nvidia/cuda_nvcc/bin:{environ['PATH']}"
    report = examine(made_up.python, "--no-import", environ=environ)
    expected = [(finding, severity) for _, finding, severity in ROWS["variables"].values()]
    found = [(finding["id"], finding["severity"]) for finding in report["findings"]]
    assert sorted(found) == sorted([*expected, ("xla.ptxas-missing", "warning")])


def test_a_small_dev_shm(made_up: MadeUp, driver_lab: Lab) -> None:
    wrapper = namespace("mount -t tmpfs -o size=64m tmpfs /dev/shm")
    environ = {**driver_lab.environ(**H100, gpus=2, cuda=True), "container": "podman"}
    report = examine(made_up.python, "--no-import", environ=environ, wrapper=wrapper)
    assert report["facts"]["host"]["shm"]["value"] == 64 * 2**20
    assert first(report) == ("shm.small", "warning")
