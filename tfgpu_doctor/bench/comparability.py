"""Under which circumstances two results may be compared: what must be the same, and what is only worth a note. Pure.

A difference in time is put down to what was changed on purpose. So whatever else can make a difference must be the
same, unless the user says that it is what the comparison is about (`--across tensorflow`). Asked of each:

  tensorflow keras python numpy  another version is another program. TensorFlow computes; Keras, Python and NumPy drive
                                 it, and feed it in the input pipeline, so that small steps are theirs, too.
  driver cuda cudnn              GPU runs only: they hold the kernels and launch them.
  gpu                            GPU runs only: the model of the card.
  power                          GPU runs only: power limit, clock limit, MIG and ECC decide the speed of one and the
                                 same card, and are set by whoever administers it.
  clocks                         GPU runs only: one run was throttled in most of its samples, the other was not.
  cpu                            CPU runs: its model, and how many of them the process may use. A GPU's run only gets a
                                 note: the CPU launches the kernels and does not compute.

Notes only: kernel, system and container; variables that TensorFlow reads, since trying one is what people compare;
tfgpu's own version; another card of the same model; the median clock, which is a consequence and not a setting. What is
unknown on one side is no difference. What nobody can compare across: the workload, its parameters, the type, the
devices and how the work is spread over them, since then other work was done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.bench.workload_registry import WORKLOADS
from tfgpu_doctor.records.environment_variables import changes_results
from tfgpu_doctor.records.facts import Fact, Gpu, Known, value_or

HOW_LONG = ("min_samples", "deadline_s", "processes")  # parameters that say how well was measured, and not what
MOSTLY = 0.5  # share of throttled samples from which a run is one of a throttled GPU
CLOCK_DIFFERS = 0.03  # of the median clock; it wanders by less from run to run

Pair = tuple[str, str]  # of BASE, of NEW


@dataclass(frozen=True)
class Circumstance:
    """One thing that must be the same."""

    name: str  # as --across calls it
    label: str
    of: Callable[[BenchResult], str | None]  # None: unknown, or there is none
    gpu: bool = True  # whether it matters to runs on GPUs
    cpu: bool = True


def _packages(result: BenchResult, pattern: str) -> str | None:
    """Versions of the packages whose name matches; they lie in the environment that was measured."""
    packages = value_or(result.environment.python.packages, ())
    found = {one.version for one in packages if re.fullmatch(pattern, one.name.lower())}
    return ", ".join(sorted(found)) or None


def _software(name: str) -> Callable[[BenchResult], str | None]:
    return lambda result: result.software.get(name)


def _keras(result: BenchResult) -> str | None:
    """Keras takes part only where a model is built, and then as the installed package."""
    known = WORKLOADS.get(result.workload)
    if known is not None and not known.keras:
        return None
    return result.software.get("keras") or _packages(result, "keras|tf[-_]keras")


def _cuda(result: BenchResult) -> str | None:
    wheels = _packages(result, "nvidia-(cuda-runtime|cublas)(-cu[0-9]+)?")
    build = value_or(result.environment.tensorflow.build, None)
    kits = {kit.version for kit in value_or(result.environment.cuda.toolkits, ()) if kit.version}
    return wheels or (build.cuda_version if build else None) or ", ".join(sorted(kits)) or None


def _cudnn(result: BenchResult) -> str | None:
    runtime: str | None = value_or(result.environment.cudnn.runtime, None)
    return _packages(result, "nvidia-cudnn(-cu[0-9]+)?") or runtime


def _cards(result: BenchResult) -> tuple[Gpu, ...]:
    return value_or(result.environment.gpus, ())


def _each(result: BenchResult, read: Callable[[Gpu], str | None]) -> str | None:
    """What all cards of the machine say, each thing once; None where none says anything."""
    texts = {text for gpu in _cards(result) if (text := read(gpu))}
    return ", ".join(sorted(texts)) or None


def _models(result: BenchResult) -> str | None:
    """The cards that took part, by the telemetry of the runs; else all cards of the machine."""
    ran = {one.name for run in result.runs for one in run.gpu if one.name}
    return ", ".join(sorted(ran)) or _each(result, lambda gpu: value_or(gpu.name, None))


def _power(result: BenchResult) -> str | None:
    """What an administrator sets: "700 W, 1980 MHz, ECC on, MIG off"."""

    def settings(gpu: Gpu) -> str | None:
        texts = []
        if isinstance(gpu.power_limit, Known):
            texts.append(f"{gpu.power_limit.value:.0f} W")
        if isinstance(gpu.sm_clock_max, Known):
            texts.append(f"{gpu.sm_clock_max.value} MHz")
        for name, fact in (("ECC", gpu.ecc_mode), ("MIG", gpu.mig_mode)):
            if isinstance(fact, Known):
                texts.append(f"{name} {'on' if fact.value else 'off'}")
        return ", ".join(texts) or None

    return _each(result, settings)


def _cpu(result: BenchResult) -> str | None:
    host = result.environment.host
    if not isinstance(host.cpu_model, Known):
        return None
    quota: float | None = value_or(host.cpu_quota, None)
    limit = f", limited to {quota:g}" if quota else ""
    return f"{host.cpu_model.value} ({value_or(host.cpus, '?')} CPUs{limit})"


CIRCUMSTANCES = (
    Circumstance("tensorflow", "TensorFlow", _software("tensorflow")),
    Circumstance("keras", "Keras", _keras),
    Circumstance("python", "Python", _software("python")),
    Circumstance("numpy", "NumPy", _software("numpy")),
    Circumstance("driver", "driver", lambda result: value_or(result.environment.driver.version, None), cpu=False),
    Circumstance("cuda", "CUDA", _cuda, cpu=False),
    Circumstance("cudnn", "cuDNN", _cudnn, cpu=False),
    Circumstance("gpu", "GPU", _models, cpu=False),
    Circumstance("power", "GPU settings", _power, cpu=False),
    Circumstance("cpu", "CPU", _cpu, gpu=False),
)
ACROSS = (*(one.name for one in CIRCUMSTANCES), "clocks")


@dataclass(frozen=True)
class Obstacle:
    """Something that differs and must not; `across` is the name that allows it, None where nothing does."""

    text: str
    across: str | None = None


def differs(label: str, pair: Pair) -> str:
    """ "TensorFlow 2.20.0 → 2.21.0"."""
    return f"{label} {pair[0]} → {pair[1]}"


def other_work(base: BenchResult, new: BenchResult) -> Iterator[Obstacle]:
    """What makes two results results of other work."""
    if base.workload != new.workload:
        yield Obstacle(differs("workload", (base.workload, new.workload)))
        return
    known = WORKLOADS.get(base.workload)
    chosen = known.chosen if known else ()
    names = dict.fromkeys((*base.parameters, *new.parameters))
    for name in names:
        if name not in HOW_LONG and base.parameters.get(name) != new.parameters.get(name):
            pair = _shown(base.parameters.get(name)), _shown(new.parameters.get(name))
            repeat = f" (--{name} {pair[0]} repeats BASE)" if name in base.parameters and name in chosen else ""
            yield Obstacle(differs(name, pair) + repeat)


def other_circumstances(base: BenchResult, new: BenchResult, *, on_gpu: bool) -> Iterator[Obstacle]:
    """What differs around two runs of the same work."""
    for one in CIRCUMSTANCES:
        pair = one.of(base), one.of(new)
        if (one.gpu if on_gpu else one.cpu) and pair[0] and pair[1] and pair[0] != pair[1]:
            yield Obstacle(differs(one.label, (pair[0], pair[1])), one.name)


def other_run(base: Run, new: Run) -> Iterator[Obstacle]:
    """What makes two runs of one label runs of other work, or of a GPU in another state."""
    if len(base.devices) != len(new.devices):
        yield Obstacle(differs("devices", (", ".join(base.devices), ", ".join(new.devices))))
    elif base.placed_on and new.placed_on and set(base.placed_on) != set(new.placed_on):
        yield Obstacle(differs("computed on", (", ".join(base.placed_on), ", ".join(new.placed_on))))
    if base.computed_in and new.computed_in and base.computed_in != new.computed_in:
        yield Obstacle(differs("computed in", (base.computed_in, new.computed_in)))
    for name, one, other in (("FLOP", base.flop, new.flop), ("bytes", base.bytes_moved, new.bytes_moved)):
        if one is not None and other is not None and abs(one / base.steps - other / new.steps) > 1e-6 * abs(one):
            yield Obstacle(
                differs(f"{name} a {base.step_name}", (f"{one / base.steps:.6g}", f"{other / new.steps:.6g}"))
            )
    shares = [len(set(run.throttled_samples)) / max(len(run.samples_s), 1) for run in (base, new)]
    if (shares[0] > MOSTLY) != (shares[1] > MOSTLY):
        yield Obstacle(differs("throttled samples", (f"{shares[0]:.0%}", f"{shares[1]:.0%}")), "clocks")


def asides(base: BenchResult, new: BenchResult) -> Iterator[str]:
    """What differs around two results and is only worth a note."""
    hosts = base.environment.host, new.environment.host
    for label, name in (("kernel", "kernel"), ("system", "distribution"), ("container", "container")):
        facts: tuple[Fact[str], Fact[str]] = (getattr(hosts[0], name), getattr(hosts[1], name))
        if isinstance(facts[0], Known) and isinstance(facts[1], Known) and facts[0].value != facts[1].value:
            yield differs(label, (facts[0].value, facts[1].value))
    for name, one in (("BASE", base), ("NEW", new)):
        if one.unfinished:
            yield f"{name} is unfinished: it was saved while it was measured, and runs or samples are missing"
    if base.tool.version != new.tool.version:
        yield f"{differs('measured by tfgpu', (base.tool.version, new.tool.version))}, which may measure differently"
    yield from other_variables(base, new)
    cards = [{value_or(gpu.uuid, None) for gpu in _cards(result)} - {None} for result in (base, new)]
    if cards[0] and cards[1] and not cards[0] & cards[1] and _models(base) == _models(new):
        yield "different GPUs of the same model, which may differ by a few per cent"


def other_variables(base: BenchResult, new: BenchResult) -> Iterator[str]:
    """Variables that TensorFlow reads and that differ around two results."""
    facts = base.environment.variables, new.environment.variables
    if not isinstance(facts[0], Known) or not isinstance(facts[1], Known):
        return
    before, after = facts[0].value, facts[1].value
    for name in sorted({*before, *after}):
        if changes_results(name) and before.get(name) != after.get(name):
            yield differs(name, (before.get(name, "not set"), after.get(name, "not set")))


def asides_of_run(base: BenchResult, new: BenchResult, pair: tuple[Run, Run]) -> Iterator[str]:
    """What differs around two runs and is only worth a note."""
    if any(device.startswith("/GPU") for device in pair[0].devices):
        cpus = _cpu(base), _cpu(new)
        if cpus[0] and cpus[1] and cpus[0] != cpus[1]:
            yield differs("host CPU", (cpus[0], cpus[1]))
    for one in pair[0].gpu:
        other = next((gpu for gpu in pair[1].gpu if gpu.device == one.device), None)
        clocks = one.sm_clock_mhz, other.sm_clock_mhz if other else None
        if clocks[0] and clocks[1] and abs(clocks[0] - clocks[1]) > CLOCK_DIFFERS * clocks[0]:
            yield differs(f"median clock of {one.device}", (f"{clocks[0]:.0f}", f"{clocks[1]:.0f} MHz"))


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
