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
  cpu                            CPU runs: its model, and how many of them the process may use. Of a GPU's run it
                                 launches the kernels, and does not compute.

Notes only: variables that TensorFlow reads, since trying one is what people compare; tfgpu's own version; another card
of the same model. What is unknown on one side is no difference. What nobody can compare across: the workload, its
parameters, the type, the devices and how the work is spread over them, since then other work was done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tfgpu_doctor.bench.results import WORKLOADS, BenchResult, Run
from tfgpu_doctor.facts.environment_variables import changes_results
from tfgpu_doctor.facts.facts import Gpu, Known, value_or

HOW_LONG = ("min_samples", "deadline_s", "processes")  # parameters that say how well was measured, and not what
MOSTLY = 0.5  # share of throttled samples from which a run is one of a throttled GPU

Side = Callable[[BenchResult], str | None]  # a circumstance of a result; None: unknown, or there is none


def _packages(result: BenchResult, pattern: str) -> str | None:
    """Return the versions of the packages whose name matches, in the environment that was measured."""
    packages = value_or(result.environment.python.packages, ())
    found = {one.version for one in packages if re.fullmatch(pattern, one.name.lower())}
    return ", ".join(sorted(found)) or None


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


def _each(result: BenchResult, read: Callable[[Gpu], str | None]) -> str | None:
    """Return what all cards of the machine say, each thing once; None where none says anything."""
    texts = {text for gpu in value_or(result.environment.gpus, ()) if (text := read(gpu))}
    return ", ".join(sorted(texts)) or None


def _models(result: BenchResult) -> str | None:
    """Return the cards that took part, by the telemetry of the runs; else all cards of the machine."""
    ran = {one.name for run in result.runs for one in run.gpu if one.name}
    return ", ".join(sorted(ran)) or _each(result, lambda gpu: value_or(gpu.name, None))


def _settings(gpu: Gpu) -> str | None:
    """Return what an administrator sets: "700 W, 1980 MHz, ECC on, MIG off"."""
    power, clock = value_or(gpu.power_limit, None), value_or(gpu.sm_clock_max, None)
    texts = [] if power is None else [f"{power:.0f} W"]
    texts += [] if clock is None else [f"{clock} MHz"]
    for name, fact in (("ECC", gpu.ecc_mode), ("MIG", gpu.mig_mode)):
        texts += [f"{name} {'on' if fact.value else 'off'}"] if isinstance(fact, Known) else []
    return ", ".join(texts) or None


def _cpu(result: BenchResult) -> str | None:
    host = result.environment.host
    if not isinstance(host.cpu_model, Known):
        return None
    quota: float | None = value_or(host.cpu_quota, None)
    limit = f", limited to {quota:g}" if quota else ""
    return f"{host.cpu_model.value} ({value_or(host.cpus, '?')} CPUs{limit})"


# what --across calls it, its label, what it is in a result, and the devices whose runs it matters to
CIRCUMSTANCES: tuple[tuple[str, str, Side, str], ...] = (
    ("tensorflow", "TensorFlow", lambda result: result.software.get("tensorflow"), "CPU GPU"),
    ("keras", "Keras", _keras, "CPU GPU"),
    ("python", "Python", lambda result: result.software.get("python"), "CPU GPU"),
    ("numpy", "NumPy", lambda result: result.software.get("numpy"), "CPU GPU"),
    ("driver", "driver", lambda result: value_or(result.environment.driver.version, None), "GPU"),
    ("cuda", "CUDA", _cuda, "GPU"),
    (
        *("cudnn", "cuDNN"),
        lambda result: (
            _packages(result, "nvidia-cudnn(-cu[0-9]+)?") or value_or(result.environment.cudnn.runtime, None)
        ),
        "GPU",
    ),
    ("gpu", "GPU", _models, "GPU"),
    ("power", "GPU settings", lambda result: _each(result, _settings), "GPU"),
    ("cpu", "CPU", _cpu, "CPU"),
)
ACROSS = (*(name for name, *_ in CIRCUMSTANCES), "clocks")


class Obstacle(NamedTuple):
    """Something that differs and must not; `across` is the name that allows it, None where nothing does."""

    text: str
    across: str | None = None


def _differs(label: str, before: object, after: object) -> str:
    """ "TensorFlow 2.20.0 → 2.21.0"."""
    return f"{label} {before} → {after}"


def other_work(base: BenchResult, new: BenchResult) -> Iterator[Obstacle]:
    """Yield what makes two results results of other work."""
    if base.workload != new.workload:
        yield Obstacle(_differs("workload", base.workload, new.workload))
        return
    known = WORKLOADS.get(base.workload)
    for name in dict.fromkeys((*base.parameters, *new.parameters)):
        before, after = base.parameters.get(name), new.parameters.get(name)
        if name not in HOW_LONG and before != after:
            chosen = known and name in known.chosen and name in base.parameters
            shown = ("none" if one is None else one for one in (before, after))
            yield Obstacle(_differs(name, *shown) + (f" (--{name} {before} repeats BASE)" if chosen else ""))


def other_circumstances(base: BenchResult, new: BenchResult, pair: tuple[Run, Run]) -> Iterator[Obstacle]:
    """Yield what differs around two runs of the same work."""
    device = "GPU" if any(name.startswith("/GPU") for run in pair for name in run.devices) else "CPU"
    for name, label, side, devices in CIRCUMSTANCES:
        before, after = side(base), side(new)
        if device in devices and before and after and before != after:
            yield Obstacle(_differs(label, before, after), name)


def other_run(base: Run, new: Run) -> Iterator[Obstacle]:
    """Yield what makes two runs of one label runs of other work, or of a GPU in another state."""
    if len(base.devices) != len(new.devices):
        yield Obstacle(_differs("devices", ", ".join(base.devices), ", ".join(new.devices)))
    elif base.placed_on and new.placed_on and set(base.placed_on) != set(new.placed_on):
        yield Obstacle(_differs("computed on", ", ".join(base.placed_on), ", ".join(new.placed_on)))
    if base.computed_in and new.computed_in and base.computed_in != new.computed_in:
        yield Obstacle(_differs("computed in", base.computed_in, new.computed_in))
    for name, before, after in (("FLOP", base.flop, new.flop), ("bytes", base.bytes_moved, new.bytes_moved)):
        if before is None or after is None:
            continue
        of_step = before / base.steps, after / new.steps
        if abs(of_step[0] - of_step[1]) > 1e-6 * abs(before):
            yield Obstacle(_differs(f"{name} a {base.step_name}", f"{of_step[0]:.6g}", f"{of_step[1]:.6g}"))
    shares = [len(set(run.throttled_samples)) / max(len(run.samples_s), 1) for run in (base, new)]
    if (shares[0] > MOSTLY) != (shares[1] > MOSTLY):
        yield Obstacle(_differs("throttled samples", f"{shares[0]:.0%}", f"{shares[1]:.0%}"), "clocks")


def asides(base: BenchResult, new: BenchResult) -> Iterator[str]:
    """Yield what differs around two results and is only worth a note."""
    for name, one in (("BASE", base), ("NEW", new)):
        if one.unfinished:
            yield f"{name} is unfinished: it was saved while it was measured, and runs or samples are missing"
    if base.tool.version != new.tool.version:
        change = _differs("measured by tfgpu", base.tool.version, new.tool.version)
        yield f"{change}, which may measure differently"
    before, after = base.environment.variables, new.environment.variables
    if isinstance(before, Known) and isinstance(after, Known):
        for name in sorted({*before.value, *after.value}):
            old, now = (side.value.get(name, "not set") for side in (before, after))
            if changes_results(name) and old != now:
                yield _differs(name, old, now)
    cards = [{value_or(gpu.uuid, None) for gpu in value_or(one.environment.gpus, ())} - {None} for one in (base, new)]
    if all(cards) and not cards[0] & cards[1] and _models(base) == _models(new):
        yield "different GPUs of the same model, which may differ by a few per cent"
