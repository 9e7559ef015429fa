"""What a smoke test does with its budget, with what goes wrong: no process, no time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.fake_worker import WRONG
from tests.healthy import gpu, known, spoil
from tests.render.showing import printed
from tests.smoke.smoking import Machine, machine, without_tensorflow
from tests.tables import each
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.smoke.records import Smoke, SmokeCheck, exit_code
from tfgpu_doctor.smoke.running import FIRST

WORKLOADS = list(FIRST)


def check(smoke: Smoke, name: str, on: str = "") -> SmokeCheck:
    (found,) = (one for one in smoke.checks if (one.name, one.on) == (name, on))
    return found


def statuses(smoke: Smoke) -> dict[str, str]:
    return {f"{one.name} {one.on}".strip(): one.status for one in smoke.checks}


def test_every_gpu_and_all_of_them_together_in_one_process() -> None:
    here = Machine(2)
    smoke = here.smoke(require_gpus=2)
    assert smoke.verdict == "ok"
    assert set(statuses(smoke).values()) == {"ok"}
    assert list(statuses(smoke)) == [
        *("doctor", "import", "GPUs"),
        *(f"{name} {on}" for name in WORKLOADS for on in ("GPU 0", "GPU 1", "2 GPUs")),
    ]
    assert here.done == [f"{name} {on}" for name in WORKLOADS for on in ("/GPU:0", "/GPU:1", "/GPU:0, /GPU:1")]
    assert len(here.started) == 1 and here.started[0].closed
    assert smoke.gpus == ("NVIDIA H200",) * 2 and smoke.software["tensorflow"] == "2.21.0"
    assert all(one.run.verified and one.run.verified.ok for one in smoke.runs)


def test_without_a_gpu_it_fails_unless_none_is_required() -> None:
    fails = Machine(0).smoke()
    assert fails.verdict == "failed"
    assert statuses(fails) == {
        "doctor": "failed",
        "import": "ok",
        "GPUs": "failed",
        **dict.fromkeys(WORKLOADS, "not run"),
    }
    assert check(fails, "GPUs").why == "1 required"
    works = Machine(0).smoke(require_gpus=0)
    assert works.verdict == "ok"
    assert check(works, "doctor").saw == "TensorFlow runs on the CPU; no GPU is required"
    assert check(works, "matpow", "CPU").throughput is not None
    fewer = Machine(1).smoke(require_gpus=2)
    assert (fewer.verdict, check(fewer, "GPUs").status) == ("failed", "failed")
    assert check(fewer, "GPUs").saw == "1 × NVIDIA H200"
    assert check(fewer, "matpow", "GPU 0").status == "ok", "those that are there are tested all the same"


@each(
    ("how", "why"),
    [
        ({"outcome": "raised", "exception": "ImportError: no"}, "ImportError: no"),
        ({"outcome": "died", "signal": "SIGILL"}, "killed by SIGILL"),
        ({"outcome": "timeout", "seconds": 36.0, "idle": 30.0}, "it did not finish within 36 s"),
    ],
)
def test_a_tensorflow_that_does_not_start_is_not_tried_again(how: dict[str, Any], why: str) -> None:
    here = Machine(facts=without_tensorflow(**how))
    smoke = here.smoke()
    assert here.started == [] and smoke.verdict == "failed"
    assert check(smoke, "import").why == why
    assert check(smoke, "GPUs").status == "unknown"
    assert all(check(smoke, name).why == "TensorFlow cannot be used" for name in WORKLOADS)


@each("gpus", [0, 1])
def test_an_import_that_does_not_fit_into_the_budget_is_no_hang(gpus: int) -> None:
    here = Machine(facts=without_tensorflow(outcome="timeout", seconds=3.0))
    smoke = here.smoke(budget=5.0, require_gpus=gpus)
    assert (smoke.verdict, exit_code(smoke.verdict), here.started) == ("unknown", 3, [])
    assert {check(smoke, name).status for name in ("doctor", "import", *WORKLOADS)} == {"not run"}
    for name in ("doctor", "import", *WORKLOADS):
        assert check(smoke, name).why == (
            "importing TensorFlow takes more than 3 s, its share of the budget of 5 s: use --budget 60"
        )


def test_a_python_that_cannot_be_measured_with() -> None:
    here = Machine(facts=machine(1, **{"python.version": known("3.6.15")}))
    smoke = here.smoke()
    assert (smoke.verdict, here.started) == ("unknown", [])
    assert check(smoke, "matpow", "GPU 0").why == (
        "measuring needs Python 3.8 or later in the environment under test, this is 3.6.15"
    )
    assert Machine(facts=machine(1, **{"python.version": known("3.8.0")})).smoke().verdict == "ok"


# ---------------------------------------------------------------------------------------------- the budget


@each("budget", [8.0, 12.0, 20.0, 60.0])
def test_the_budget_is_kept_and_nothing_is_dropped_silently(budget: float) -> None:
    smoke = Machine(4, seconds=0.3).smoke(budget=budget)
    assert smoke.seconds <= budget
    measured = [one for one in smoke.checks if one.name in FIRST]
    assert len(measured) == 5 * len(FIRST)
    for one in measured:
        assert one.status == "ok" or (one.status == "not run" and f"of the budget of {budget:g} s are left" in one.why)
    ran = sum(one.status == "ok" for one in measured)
    assert (smoke.verdict == "ok") is (ran == len(measured))
    assert len(smoke.runs) == ran


def test_the_budget_that_is_advised_would_do() -> None:
    here = Machine(4, seconds=0.3)
    why = next(one.why for one in here.smoke(budget=15.0).checks if one.status == "not run")
    enough = float(why.rpartition("--budget ")[2].split()[0])
    assert 15 < enough < 300
    assert Machine(4, seconds=0.3).smoke(budget=enough).verdict == "ok"


def test_one_card_that_hangs_hides_no_other() -> None:
    def hang(_here: Machine, verb: str, request: dict[str, Any]) -> dict[str, Any] | None:
        return {"hang": True} if verb == "sample" and request["of"].devices == ["/GPU:1"] else None

    here = Machine(3, trouble=hang)
    smoke = here.smoke(budget=100.0)
    bad = check(smoke, "matpow", "GPU 1")
    assert (bad.status, smoke.verdict) == ("unknown", "unknown")
    assert bad.why.startswith("no answer within ") and bad.why.endswith(" (sample)")
    assert check(smoke, "matpow", "GPU 2").status == check(smoke, "matpow", "3 GPUs").status == "ok"
    assert len(here.started) == 1 + len(FIRST)  # a hung process is ended, and another takes its place
    assert all(worker.closed for worker in here.started)
    assert here.clock.now < 100


def test_a_process_that_does_not_start_is_tried_once() -> None:
    def dies(_here: Machine, verb: str, _request: dict[str, Any]) -> dict[str, Any] | None:
        if verb == "hello":
            raise WorkerError("the worker was killed by SIGSEGV")
        return None

    here = Machine(2, trouble=dies)
    smoke = here.smoke()
    first, *others = [one for one in smoke.checks if one.name in FIRST]
    assert (first.status, first.why) == ("failed", "the worker was killed by SIGSEGV")
    assert {(one.status, one.why) for one in others} == {("not run", "TensorFlow did not start")}
    assert len(here.started) == 1


def test_a_gpu_that_is_gone_since_the_doctor_saw_it() -> None:
    smoke = Machine(2, lists=1).smoke()
    assert check(smoke, "matpow", "GPU 0").why == "TensorFlow now lists 1 of the 2 GPUs"
    assert smoke.verdict == "failed"


# ---------------------------------------------------------------------------------------------- verdicts


def test_a_result_that_is_wrong_or_from_elsewhere_has_no_speed() -> None:
    elsewhere = {"misplaced": "computed on /CPU:0 instead of /GPU:0"}
    for asked, answer, why in (
        ("verify", WRONG, "the result is wrong: relative error 0.3"),
        ("sample", elsewhere, "computed on /CPU:0 instead of /GPU:0"),
    ):

        def trouble(
            _here: Machine, verb: str, request: dict[str, Any], asked: str = asked, answer: dict[str, Any] = answer
        ) -> dict[str, Any] | None:
            return answer if verb == asked and request["of"].workload == "matpow" else None

        bad = check(Machine(trouble=trouble).smoke(), "matpow", "GPU 0")
        assert (bad.status, bad.throughput, bad.saw) == ("failed", None, "") and bad.why.startswith(why)


def test_the_threshold_is_for_each_gpu_alone() -> None:
    """4096 rows, two powers of 9 products each: 2.47 TFLOP in 0.05 s are 49.5 TFLOP/s."""
    assert Machine(2).smoke(min_tflops=49.0).verdict == "ok"
    smoke = Machine(2).smoke(min_tflops=50.0)
    assert {on: check(smoke, "matpow", on).status for on in ("GPU 0", "GPU 1", "2 GPUs")} == {
        "GPU 0": "failed",
        "GPU 1": "failed",
        "2 GPUs": "ok",
    }
    assert check(smoke, "matpow", "GPU 1").why == "minimum 50 TFLOP/s"
    assert check(smoke, "matpow", "GPU 1").saw.startswith("49.48 TFLOP/s, verified in float32")


def test_the_share_of_the_peak_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """H200: 132 multiprocessors × 1980 MHz × 256 FLOP per cycle are 66.9 TFLOP/s in float32."""
    from tests.bench.samples import telemetry
    from tfgpu_doctor.bench.runner import runner

    seen = (telemetry(pci_bus_id="0000:65:00.0"), telemetry("/GPU:1", throttled=("sw_thermal_slowdown",)))

    class Watching:
        def __init__(self, devices: object) -> None: ...
        def start(self) -> None: ...
        def pause(self) -> tuple[str, ...]:
            return ("sw_thermal_slowdown",)

        def close(self) -> None: ...
        def summary(self, _sampled: float) -> Any:
            return seen

    monkeypatch.setattr(runner, "Telemetry", Watching)
    card = gpu(0, pci_bus_id="0000:65:00.0", multiprocessors=132, sm_clock_max=1980)
    smoke = Machine(facts=spoil(machine(1), {"gpus": known((card,), "NVML")})).smoke()
    assert check(smoke, "matpow", "GPU 0").saw == "49.48 TFLOP/s (74 % of peak), verified in float32"
    # of a small network, a large GPU needs a per cent or two
    assert not [one.saw for one in smoke.checks if one.name == "cnn" and "of peak" in one.saw]
    (run,) = (one.run for one in smoke.runs if one.workload == "matpow")
    assert [one.device for one in run.gpu] == ["/GPU:0"]  # the other one took no part
    assert run.throttled_samples == ()


def test_tf32_that_is_none_is_called_by_its_name() -> None:
    """A residual that small is no TF32: the card has none, or something switched it off."""
    smoke = Machine().smoke(dtype="tf32")
    assert check(smoke, "matpow", "GPU 0").saw.endswith("verified in float32, not tf32")
    on_cpu = Machine(0).smoke(require_gpus=0, min_tflops=1000.0)
    assert on_cpu.verdict == "ok" and "--min-tflops is for GPUs" in check(on_cpu, "matpow", "CPU").saw


@each(
    ("system", "python", "shown"),
    [
        ("linux", "/my env/it's", """'/my env/it'"'"'s'"""),
        ("windows", r"C:\my env\python.exe", r'"C:\my env\python.exe"'),
    ],
)
def test_what_to_type_next_is_quoted(system: str, python: str, shown: str) -> None:
    facts = machine(0, **{"python.executable": known(python), "host.os": known(system)})
    assert f"Next: tfgpu doctor --python {shown}\n" in printed("smoke", Machine(0, facts=facts).smoke(), 200)
