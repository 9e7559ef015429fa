"""Examine this machine: TensorFlow is started first of all, and every other probe runs beside it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from tfgpu_doctor.facts.facts import (
    Cuda,
    Cudnn,
    Driver,
    Fact,
    Facts,
    Host,
    Known,
    Loader,
    Message,
    Record,
    TensorFlow,
    Unknown,
    compact,
    map_fact,
    value_or,
)
from tfgpu_doctor.matrix.compatibility import published_row
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.parsers.lines import Line
from tfgpu_doctor.parsers.system_outputs import named
from tfgpu_doctor.probes import cuda, driver, elsewhere, host, installed_files, loader, startup_files
from tfgpu_doctor.probes.tensorflow import Environment, TensorFlowProbe, tensorflow_distribution

T = TypeVar("T")
R = TypeVar("R", bound=Record)

PATIENCE = 120.0  # seconds that a probe has, all of its children included
DEAD_DRIVER = 8.0  # seconds that TensorFlow still gets when the driver has not answered within its own deadline


@dataclass(frozen=True)
class Examination:
    """What was found, and how many seconds each part took."""

    facts: Facts
    timings: dict[str, float]


class _Probe(Generic[T]):
    """A probe in a thread of its own. One that fails unexpectedly gives unknowns; the report goes on."""

    def __init__(self, name: str, timings: dict[str, float], call: Callable[[], T], failed: Callable[[str], T]) -> None:
        self._name, self._timings, self._call, self._failed = name, timings, call, failed
        self._result: T | None = None
        self._end = time.monotonic() + PATIENCE
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        started = time.monotonic()
        try:
            self._result = self._call()
        except Exception as error:  # a machine odder than any we know must still get the rest of its report
            self._result = self._failed(f"the probe {self._name} failed: {type(error).__name__}: {error}")
        self._timings[self._name] = round(time.monotonic() - started, 4)

    def result(self) -> T:
        """Wait for the probe: it bounds the time of its children, but a file system may not answer."""
        self._thread.join(max(self._end - time.monotonic(), 0.0))
        if self._result is None:
            return self._failed(f"the probe {self._name} did not end within {PATIENCE:g} s")
        return self._result


def examine(
    executable: str,
    load_matrix: Callable[[], Matrix],
    *,
    import_tensorflow: bool = True,
    timeout: float | None = None,
    environ: Mapping[str, str] | None = None,
) -> Examination:
    """Examine the machine and the TensorFlow of `executable`.

    Args:
        executable: path of the interpreter under test, or its name on PATH.
        load_matrix: called while TensorFlow starts; what it raises comes out here.
        import_tensorflow: False stops after the list of packages.
        timeout: seconds for the whole examination of TensorFlow; None: the deadlines of the phases.
        environ: the environment that everything is judged by; that of this process by default.
    """
    environ = dict(os.environ if environ is None else environ)
    started = time.monotonic()
    timings: dict[str, float] = {}
    until = None if import_tensorflow else "packages"
    with TensorFlowProbe(executable, environ=environ, until=until, total=timeout) as probe:
        host_probe = _Probe("host", timings, host.examine, lambda why: _all_unknown(Host, why))
        driver_probe = _Probe(
            "driver",
            timings,
            lambda: driver.examine(environ=environ),
            lambda why: Facts(driver=_all_unknown(Driver, why), gpus=Unknown(why)),
        )
        matrix = load_matrix()
        here = probe.python()
        timings["python"] = round(time.monotonic() - started, 4)
        packages, user_site = here.python.packages, value_or(here.python.user_site, None)
        prefix = value_or(here.python.prefix, None)
        libraries_probe = _Probe(
            "libraries",
            timings,
            lambda: _libraries(here, matrix, environ),
            lambda why: (_all_unknown(Cuda, why), _all_unknown(Loader, why), _all_unknown(Cudnn, why)),
        )
        # fields of Python, and one of Host, each by a probe of its own
        others: dict[str, tuple[str, Callable[[], Fact[Any]]]] = {
            "kernels": ("Jupyter kernels", lambda: elsewhere.examine_kernels(environ, prefix)),
            "elsewhere": ("other environments", lambda: elsewhere.examine(here.python, environ)),
            "makers": ("Pythons that create environments", elsewhere.examine_makers),
            "shadowed": (
                "shadowed modules",
                lambda: installed_files.examine_shadowed(here.sys_path, packages, user_site, environ),
            ),
            "damaged": ("installed files", lambda: installed_files.examine(packages)),
            "startup_settings": ("startup files", lambda: startup_files.examine(environ, prefix)),
        }
        running = {field: _Probe(name, timings, call, Unknown) for field, (name, call) in others.items()}
        driver_facts = driver_probe.result()
        if value_or(driver_facts.driver.unresponsive, ()):
            probe.hurry(DEAD_DRIVER, "the driver does not answer, and TensorFlow waits for it")
        result = probe.result()
        timings["tensorflow"] = round(time.monotonic() - started, 4)
        cuda_facts, loader_facts, cudnn_facts = libraries_probe.result()
        host_facts = host_probe.result()
        found = {field: one.result() for field, one in running.items()}
        facts = Facts(
            host=msgspec.structs.replace(
                host_facts,
                pci_gpus=named(host_facts.pci_gpus, matrix),
                startup_settings=found.pop("startup_settings"),
            ),
            driver=driver_facts.driver,
            gpus=driver_facts.gpus,
            cuda=cuda_facts,
            loader=loader.with_loaded(loader_facts, result.loaded),
            cudnn=msgspec.structs.replace(cudnn_facts, runtime=result.cudnn_runtime),
            python=msgspec.structs.replace(
                result.python,
                failing_files=installed_files.named_in_errors(result.tensorflow.phases, here.site_packages),
                **found,
            ),
            variables=host.variables(environ),
            tensorflow=result.tensorflow,
            messages=_messages(result.tensorflow, driver_facts.driver),
        )
    timings["total"] = round(time.monotonic() - started, 4)
    # by way of JSON: Python lets bytes that are no UTF-8 through in variables and in names of files
    return Examination(msgspec.json.decode(compact(facts), type=Facts), timings)


def _all_unknown(kind: type[R], reason: str) -> R:
    return kind(**{field.name: Unknown(reason) for field in msgspec.structs.fields(kind)})


def _messages(tensorflow: TensorFlow, driver: Driver) -> Fact[tuple[Message, ...]]:
    """What TensorFlow and the kernel printed, as the catalogue of messages knows it; not read without TensorFlow."""
    if isinstance(tensorflow.log, Unknown):
        return tensorflow.log
    texts = [*tensorflow.log.value, *value_or(driver.xid_events, ())]
    for phase in tensorflow.phases:
        texts += [*phase.log_tail, *phase.traceback, *([phase.exception] if phase.exception else [])]
    texts += [check.error for check in value_or(tensorflow.checks, ()) if check.error]
    lines = [Line(number, text) for number, text in enumerate(dict.fromkeys(texts), 1)]
    whose = "TensorFlow's log"
    return Known(tuple(msgspec.structs.replace(one, source=whose) for one in catalogue.read(lines)), whose)


def _libraries(here: Environment, matrix: Matrix, environ: Mapping[str, str]) -> tuple[Cuda, Loader, Cudnn]:
    """What depends on the environment under test: toolkits, the loader's answers for this TensorFlow, cuDNN."""
    cuda_facts = cuda.examine(environ=environ, prefix=value_or(here.python.prefix, None))
    where: dict[str, Any] = {"environ": environ, "site_packages": here.site_packages}
    where["toolkits"] = value_or(cuda_facts.toolkits, ())
    package = tensorflow_distribution(here.python)
    version = map_fact(package, lambda one: one.version)
    row: Fact[Release] = package if isinstance(package, Unknown) else Unknown("")
    if isinstance(package, Known):
        row = published_row(matrix, version, here.python.wheel_platform, package.value.name)
    if isinstance(row, Known):
        sonames = [(library.soname, library.component) for library in row.value.libraries]
        python = value_or(here.python.executable, None)
        loader_facts = loader.examine(sonames, tensorflow_dir=here.tensorflow_dir, executable=python, **where)
    else:
        loader_facts = _all_unknown(Loader, row.reason)
    files = cuda.examine_xla_files(here.tensorflow_dir, value_or(version, None), environ)
    cudnn_facts = cuda.examine_cudnn(value_or(loader_facts.sonames, ()), **where)
    return msgspec.structs.replace(cuda_facts, **files), loader_facts, cudnn_facts
