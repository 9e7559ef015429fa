"""What a smoke test does with its budget and with trouble: without processes or time, and over the lab's GPUs."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.bench.samples import telemetry
from tests.healthy import MATRIX, gpu, known, spoil
from tests.lab import Lab
from tests.render.showing import check_goldens, printed
from tests.smoke.smoking import CREATED, Machine, machine, without_tensorflow
from tests.tables import read_rows
from tfgpu_doctor.bench.runner import runner
from tfgpu_doctor.bench.runner.process import WorkerProcess
from tfgpu_doctor.probes.tensorflow import QUIET
from tfgpu_doctor.smoke import running
from tfgpu_doctor.smoke.records import Smoke, SmokeCheck, exit_code
from tfgpu_doctor.smoke.running import FIRST, SmokeOptions, Smoking

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def check(smoke: Smoke, name: str, on: str = "") -> SmokeCheck:
    (found,) = (one for one in smoke.checks if (one.name, one.on) == (name, on))
    return found


def shown(row: dict[str, Any]) -> str:
    """Return the page of a row, and which steps were begun in how many processes."""
    how = row.get("trouble", {})

    def trouble(here: Machine, verb: str, _request: dict[str, Any]) -> dict[str, Any] | None:
        now = verb == how.get("do") and ("steps" not in how or here.done[-1] in how["steps"])
        return how["answer"] if now else None

    gpus = row.get("gpus", 1)
    facts = machine(gpus, **{name: known(value) for name, value in row.get("facts", {}).items()})
    if "tensorflow" in row:
        facts = without_tensorflow(**row["tensorflow"])
    here = Machine(gpus, facts=facts, lists=row.get("lists"), trouble=trouble)
    smoke = here.smoke(**row.get("ask", {}))
    assert all(worker.closed for worker in here.started) and here.clock.now <= smoke.budget_s
    page = printed("smoke", smoke, 200).partition("\n")[2].strip("\n")
    begun = f"{len(here.started)} processes: {'; '.join(here.done)}; exit code {exit_code(smoke.verdict)}"
    return f"# {row['is']}\n{page}\n{begun}\n"


def test_what_goes_wrong_is_told_and_hides_nothing_else() -> None:
    text = "\n".join(map(shown, read_rows(HERE / "rows.yaml")))
    check_goldens({"golden.txt": text}, HERE)
    assert f"for {QUIET:.0f} seconds hangs" in " ".join((ROOT / "docs" / "ci.md").read_text(encoding="utf-8").split())


def test_the_budget_is_kept_and_the_one_that_is_advised_would_do() -> None:
    def smoke(budget: float) -> Smoke:
        return Machine(4, seconds=0.3).smoke(budget=budget)

    for budget in (8.0, 12.0, 20.0, 60.0):
        found = smoke(budget)
        late = [one.why for one in found.checks if one.status == "not run"]
        assert found.seconds <= budget and len(late) + len(found.runs) == 5 * len(FIRST)
        assert all(f"of the budget of {budget:g} s are left" in why for why in late)
        assert found.verdict == ("unknown" if late else "ok")
        assert not late or smoke(float(late[0].rpartition(" ")[2])).verdict == "ok"


def test_the_share_of_the_peak_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """H200: 132 multiprocessors × 1980 MHz × 256 FLOP per cycle are 66.9 TFLOP/s in float32."""
    hot = "sw_thermal_slowdown"
    seen = (telemetry(pci_bus_id="0000:65:00.0"), telemetry("/GPU:1", throttled=(hot,)))
    calls = {"start": lambda: None, "pause": lambda: (), "close": lambda: None}
    of = lambda found: lambda _: tuple(one for one in seen if one.device in found)  # noqa: E731 - GPU 1 takes no part
    monkeypatch.setattr(runner, "bus_ids", lambda _: dict.fromkeys(("/GPU:0", "/GPU:1"), ""))
    monkeypatch.setattr(runner, "Telemetry", lambda found: SimpleNamespace(**calls, summary=of(found)))
    card = gpu(0, pci_bus_id="0000:65:00.0", multiprocessors=132, sm_clock_max=1980)
    smoke = Machine(facts=spoil(machine(1), {"gpus": known((card,), "NVML")})).smoke()
    assert check(smoke, "matpow", "GPU 0").saw == "49.48 TFLOP/s (74 % of peak), verified in float32"
    assert "of peak" not in check(smoke, "cnn", "GPU 0").saw, "a small network needs a per cent or two of a large GPU"
    run = smoke.runs[0].run
    assert [one.device for one in run.gpu] == ["/GPU:0"] and run.throttled_samples == (), "the other one took no part"


# ------------------------------------------------------------------------------------------------ the lab's GPUs
# They multiply matrices on the host, in one process of the real TensorFlow. The stand-in for cuDNN cannot convolve, so
# matrix powers are all that is computed, of a size that C loops manage.


def on_the_lab(gpus: int, python: str, lab: Lab, *, size: int = 64, budget: float = 120.0, **answers: Any) -> Smoke:
    """Test a machine with so many GPUs, of which the doctor has nothing but good to say."""
    environ = lab.environ(cuda=True, cuinit=0, gpus=gpus, name="NVIDIA H200", cc="9.0", **answers)
    options, doctor = SmokeOptions(budget=budget, require_gpus=gpus), Machine(gpus).doctor
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "GPU_SIZE", size)
        patch.setattr(running, "SPREADS", {"matpow": "rows"})
        start = lambda: WorkerProcess(python, environ)  # noqa: E731
        return Smoking(options, doctor, start, MATRIX, clock=time.monotonic).run(CREATED)


@pytest.mark.full
@pytest.mark.tensorflow
def test_each_gpu_and_all_of_them_in_one_process(tensorflow_python: str, driver_lab: Lab) -> None:
    found = on_the_lab(3, tensorflow_python, driver_lab)
    assert found.verdict == "ok", [(one.on, one.why) for one in found.checks]
    assert {one.run.label: sorted(set(one.run.placed_on)) for one in found.runs} == {
        "GPU 0": ["/GPU:0"],
        "GPU 1": ["/GPU:1"],
        "GPU 2": ["/GPU:2"],
        "3 GPUs": ["/GPU:0", "/GPU:1", "/GPU:2"],
    }
    assert len({one.run.cold_start_s["import"] for one in found.runs}) == 1, "imported once"


@pytest.mark.full
@pytest.mark.tensorflow
def test_gpus_that_compute_wrongly_or_do_not_answer(tensorflow_python: str, driver_lab: Lab) -> None:
    found = on_the_lab(2, tensorflow_python, driver_lab, wrong=1)
    bad = check(found, "matpow", "GPU 0")
    assert found.verdict == "failed" and bad.why.startswith("the result is wrong") and bad.throughput is None
    children = set(psutil.Process().children(recursive=True))
    # a product of this size takes the lab's GPU hours
    found = on_the_lab(1, tensorflow_python, driver_lab, size=8192, budget=15.0)
    late = check(found, "matpow", "GPU 0")
    assert (late.status, found.verdict) == ("unknown", "unknown") and late.why.startswith("no answer within ")
    assert found.seconds <= found.budget_s and set(psutil.Process().children(recursive=True)) <= children
