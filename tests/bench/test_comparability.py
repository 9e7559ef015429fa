"""Two bench results: which differences forbid a comparison, and which are only worth a note."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.bench.samples import failed, result, run, telemetry, verified
from tests.bench.test_bench_compare import compared, only, other_software
from tests.healthy import gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.comparability import ACROSS
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.records.facts import Package, Unknown

H200 = spoil(healthy(), {"gpus": known((gpu(power_limit=700.0, sm_clock_max=1980),))})


def on_h200(seconds: float = 9.0, **changes: Any) -> BenchResult:
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    return result(run("1 GPU", seconds), environment=spoil(H200, changed))


OBSTACLES: dict[str, tuple[BenchResult, BenchResult, str, str | None]] = {
    "tensorflow": (
        result(run()),
        other_software(tensorflow="2.20.0"),
        "TensorFlow 2.21.0 → 2.20.0",
        "tensorflow",
    ),
    "numpy": (result(run()), other_software(numpy="1.26.4"), "NumPy 2.4.6 → 1.26.4", "numpy"),
    "python": (result(run()), other_software(python="3.13.0"), "Python 3.12.3 → 3.13.0", "python"),
    "keras": (
        result(run(), workload="cnn", software={"keras": "3.14.0"}),
        result(run(seconds=9.0), workload="cnn", software={"keras": "3.15.1"}),
        "Keras 3.14.0 → 3.15.1",
        "keras",
    ),
    "driver": (
        on_h200(5.0, driver__version=known("570.86.15")),
        on_h200(driver__version=known("580.65.06")),
        "driver 570.86.15 → 580.65.06",
        "driver",
    ),
    "cudnn": (
        on_h200(5.0, python__packages=known(()), cudnn__runtime=known("9.3.0")),
        on_h200(python__packages=known(()), cudnn__runtime=known("9.10.2")),
        "cuDNN 9.3.0 → 9.10.2",
        "cudnn",
    ),
    "gpu": (
        on_h200(5.0),
        on_h200(gpus=known((gpu(name="NVIDIA A100", power_limit=700.0, sm_clock_max=1980),))),
        "GPU NVIDIA H200 → NVIDIA A100",
        "gpu",
    ),
    "power": (
        on_h200(5.0),
        on_h200(gpus=known((gpu(power_limit=500.0, sm_clock_max=1980),))),
        "GPU settings 700 W, 1980 MHz, MIG off → 500 W, 1980 MHz, MIG off",
        "power",
    ),
    "clocks": (
        result(run("1 GPU")),
        result(run("1 GPU", 9.0, throttled_samples=tuple(range(10)), gpu=(telemetry(throttled=("sw_thermal",)),))),
        "throttled samples 0% → 91%",
        "clocks",
    ),
    "cpu": (
        result(run(), environment=spoil(healthy(), {"host.cpu_model": known("AMD EPYC"), "host.cpus": known(2)})),
        result(
            run(seconds=9.0), environment=spoil(healthy(), {"host.cpu_model": known("Xeon"), "host.cpus": known(2)})
        ),
        "CPU AMD EPYC (2 CPUs) → Xeon (2 CPUs)",
        "cpu",
    ),
    "size": (
        result(run(), parameters={"size": 4096, "power": 10}),
        result(run(), parameters={"size": 3072, "power": 10}),
        "size 4096 → 3072 (--size 4096 repeats BASE)",
        None,
    ),
    "seed": (result(run(), parameters={"seed": 7}), result(run(), parameters={}), "seed 7 → none", None),
    "workload": (result(run()), result(run(), workload="cnn"), "workload matpow → cnn", None),
    "virtual": (
        result(run("2 virtual CPUs, rows", virtual=True)),
        result(run("2 virtual CPUs, rows", virtual=True)),
        "virtual devices have no meaningful speed",
        None,
    ),
    "failed": (
        result(failed("1 GPU", "out of memory")),
        result(run("1 GPU")),
        "the run failed in BASE: out of memory",
        None,
    ),
    "wrong": (
        result(run()),
        result(run(verified=verified(ok=False))),
        "the result in NEW is wrong",
        None,
    ),
    "unverified": (result(run(verified=None)), result(run()), "the result in BASE is not verified", None),
    "no samples": (
        result(run()),
        result(msgspec.structs.replace(run(), samples_s=())),
        "NEW has no samples",
        None,
    ),
    "computed in": (
        result(run("1 GPU", dtype="tf32", computed_in="tf32")),
        result(run("1 GPU", dtype="tf32", computed_in="float32")),
        "computed in tf32 → float32",
        None,
    ),
    "devices": (
        result(run("GPUs", devices=("/GPU:0", "/GPU:1"))),
        result(run("GPUs", devices=("/GPU:0",))),
        "devices /GPU:0, /GPU:1 → /GPU:0",
        None,
    ),
    "work": (result(run(flop=1e9)), result(run(flop=2e9)), "FLOP a sample 1e+09 → 2e+09", None),
}


@each("name", OBSTACLES)
def test_what_forbids_a_comparison(name: str) -> None:
    base, new, reason, across = OBSTACLES[name]
    found = only(base, new)
    assert (found.verdict, found.ratio) == ("not comparable", None)
    assert found.reasons == (reason + (f" (--across {across} allows it)" if across else ""),)
    everything = only(base, new, across=ACROSS)
    if across is None:
        assert everything.verdict == "not comparable"
    else:
        assert (everything.verdict, everything.reasons) == ("slower", ())
        assert f"across {reason}" in everything.notes
        others = tuple(one for one in ACROSS if one != across)
        assert only(base, new, across=others).verdict == "not comparable"


def test_each_circumstance_has_its_row() -> None:
    assert set(ACROSS) - {"cuda"} - set(OBSTACLES) == set()


def test_the_page_names_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text(encoding="utf-8")
    assert [name for name in ACROSS if f"`{name}`" not in page] == []


def test_cuda_is_what_the_environment_brings() -> None:
    def with_cublas(version: str, seconds: float) -> BenchResult:
        package = Package(name="nvidia-cublas-cu12", version=version)
        return on_h200(seconds, python__packages=known((package,)))

    found = only(with_cublas("12.5.3.2", 5.0), with_cublas("12.9.1.4", 9.0))
    assert found.reasons == ("CUDA 12.5.3.2 → 12.9.1.4 (--across cuda allows it)",)


def test_what_is_of_gpus_does_not_matter_to_cpus_and_is_no_difference_where_unknown() -> None:
    base, new = on_h200(5.0), on_h200(driver__version=known("580.65.06"), gpus=known((gpu(name="NVIDIA A100"),)))
    cpu = [msgspec.structs.replace(one, runs=(run(),)) for one in (base, new)]
    assert only(*cpu).verdict == "same"
    unknown = spoil(healthy(), {"gpus": Unknown("no NVML"), "driver.version": Unknown("no NVML")})
    assert only(on_h200(5.0), result(run("1 GPU", 9.0), environment=unknown)).verdict == "slower"


def test_how_long_was_measured_is_no_other_work() -> None:
    base = result(run(), parameters={"size": 1, "min_samples": 10, "deadline_s": 120.0})
    new = result(run(), parameters={"size": 1, "min_samples": 40, "deadline_s": 5.0, "processes": 5})
    assert only(base, new).verdict == "same"


def test_what_is_only_worth_a_note() -> None:
    before = spoil(H200, {"variables": known({"TF_XLA_FLAGS": "a", "HOME": "/x"})})
    after = spoil(
        H200,
        {
            "variables": known({"OMP_NUM_THREADS": "1", "HOME": "/y"}),
            "gpus": known((gpu(uuid="GPU-other", power_limit=700.0, sm_clock_max=1980),)),
        },
    )
    base = result(run("1 GPU", gpu=(telemetry(),)), environment=before)
    new = result(run("1 GPU", gpu=(telemetry(sm_clock_mhz=1400.0),)), environment=after)
    found = compared(base, new)
    assert found.notes == (
        "OMP_NUM_THREADS not set → 1",
        "TF_XLA_FLAGS a → not set",
        "different GPUs of the same model, which may differ by a few per cent",
    )
    (only_run,) = found.runs
    assert only_run.verdict == "same"
