"""Examine this machine: TensorFlow is started first of all, and every other probe runs beside it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import msgspec

from tfgpu_doctor.matrix.compatibility import published_row
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.parsers.machine_facts import named
from tfgpu_doctor.probes import cuda, driver, elsewhere, host, installed_files, loader, shadowed_modules, startup_files
from tfgpu_doctor.probes.tensorflow import Environment, TensorFlowProbe
from tfgpu_doctor.probes.transcript import tensorflow_distribution
from tfgpu_doctor.records.facts import (
    Cuda,
    Cudnn,
    Driver,
    Fact,
    Facts,
    Host,
    Kernel,
    Known,
    Loader,
    Message,
    OtherPython,
    Record,
    ShadowedModule,
    TensorFlow,
    Unknown,
    compact,
    map_fact,
    value_or,
)

T = TypeVar("T")

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
        if self._thread.is_alive() and self._result is None:
            return self._failed(f"the probe {self._name} did not end within {PATIENCE:g} s")
        assert self._result is not None
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
    with TensorFlowProbe.start(executable, environ=environ, until=until, total=timeout) as probe:
        host_probe = _Probe("host", timings, host.examine, lambda why: _all_unknown(Host, why))
        driver_probe = _Probe("driver", timings, lambda: driver.examine(environ=environ), _no_driver)
        matrix = load_matrix()
        here = probe.python()
        timings["python"] = round(time.monotonic() - started, 4)
        libraries_probe = _Probe("libraries", timings, lambda: _libraries(here, matrix, environ), _no_libraries)
        others_probe = _Probe("other environments", timings, lambda: _others(here, environ), _no_others)
        shadowed_probe = _Probe("shadowed modules", timings, lambda: _shadowed(here, environ), Unknown)
        prefix = value_or(here.python.prefix, None)
        settings_probe = _Probe("startup files", timings, lambda: startup_files.examine(environ, prefix), Unknown)
        files_probe = _Probe("installed files", timings, lambda: installed_files.examine(here.python.packages), Unknown)
        driver_facts = driver_probe.result()
        if value_or(driver_facts.driver.unresponsive, ()):
            probe.hurry(DEAD_DRIVER, "the driver does not answer, and TensorFlow waits for it")
        result = probe.result()
        timings["tensorflow"] = round(time.monotonic() - started, 4)
        cuda_facts, loader_facts, cudnn_facts = libraries_probe.result()
        kernels, elsewhere_found = others_probe.result()
        here_found = host_probe.result()
        facts = Facts(
            host=msgspec.structs.replace(
                here_found,
                pci_gpus=named(here_found.pci_gpus, matrix),
                address_space_limit=result.address_space_limit or here_found.address_space_limit,
                startup_settings=settings_probe.result(),
            ),
            driver=driver_facts.driver,
            gpus=driver_facts.gpus,
            peers=driver_facts.peers,
            cuda=cuda_facts,
            loader=loader.with_loaded(loader_facts, result.loaded),
            cudnn=msgspec.structs.replace(cudnn_facts, runtime=result.cudnn_runtime),
            python=msgspec.structs.replace(
                result.python,
                kernels=kernels,
                elsewhere=elsewhere_found,
                damaged=files_probe.result(),
                failing_files=installed_files.named_in_errors(result.tensorflow.phases, here.site_packages),
                shadowed=shadowed_probe.result(),
            ),
            variables=host.variables(environ),
            tensorflow=result.tensorflow,
            messages=_messages(result.tensorflow, driver_facts.driver),
        )
    timings["total"] = round(time.monotonic() - started, 4)
    return Examination(_encodable(facts), timings)


def _no_driver(why: str) -> driver.DriverFacts:
    return driver.DriverFacts(_all_unknown(Driver, why), Unknown(why), Unknown(why))


def _no_libraries(why: str) -> tuple[Cuda, Loader, Cudnn]:
    return _all_unknown(Cuda, why), _all_unknown(Loader, why), _all_unknown(Cudnn, why)


def _no_others(why: str) -> tuple[Unknown, Unknown]:
    return Unknown(why), Unknown(why)


def _encodable(facts: Facts) -> Facts:
    """The same facts without bytes that are no UTF-8, which Python lets through in variables and in names of files."""
    try:
        msgspec.json.encode(facts)
    except UnicodeEncodeError:
        return msgspec.json.decode(compact(facts), type=Facts)
    return facts


def _messages(tensorflow: TensorFlow, driver: Driver) -> Fact[tuple[Message, ...]]:
    """What TensorFlow and the kernel printed, as the catalogue of messages knows it; not read without TensorFlow."""
    if isinstance(tensorflow.log, Unknown):
        return tensorflow.log
    from tfgpu_doctor.parsers import (
        messages as catalogue,  # compiling the catalogue takes longer than all other imports
    )
    from tfgpu_doctor.parsers.lines import Line

    texts = [*tensorflow.log.value, *value_or(driver.xid_events, ())]
    for phase in tensorflow.phases:
        texts += [*phase.log_tail, *phase.traceback, *([phase.exception] if phase.exception else [])]
    texts += [check.error for check in value_or(tensorflow.checks, ()) if check.error]
    lines = [Line(number, text) for number, text in enumerate(dict.fromkeys(texts), 1)]
    whose = "TensorFlow's log"
    return Known(tuple(msgspec.structs.replace(one, source=whose) for one in catalogue.read(lines)), whose)


R = TypeVar("R", bound=Record)


def _all_unknown(kind: type[R], reason: str) -> R:
    """A record in which every field is unknown for the same reason."""
    return kind(**{field.name: Unknown(reason) for field in msgspec.structs.fields(kind)})


def _libraries(here: Environment, matrix: Matrix, environ: Mapping[str, str]) -> tuple[Cuda, Loader, Cudnn]:
    """What depends on the environment under test: toolkits, the loader's answers for this TensorFlow, cuDNN."""
    prefix = value_or(here.python.prefix, None)
    cuda_facts = cuda.examine(environ=environ, prefix=prefix)
    toolkits = value_or(cuda_facts.toolkits, ())
    row = installed_release(here, matrix)
    if isinstance(row, Known):
        sonames = [(library.soname, library.component) for library in row.value.libraries]
        loader_facts = loader.examine(
            sonames,
            environ=environ,
            tensorflow_dir=here.tensorflow_dir,
            site_packages=here.site_packages,
            toolkits=toolkits,
            executable=value_or(here.python.executable, None),
        )
    else:
        loader_facts = _all_unknown(Loader, row.reason)
    package = tensorflow_distribution(here.python)
    version = package.value.version if isinstance(package, Known) else None
    files = cuda.examine_xla_files(here.tensorflow_dir, version, environ)
    cuda_facts = msgspec.structs.replace(
        cuda_facts, xla_roots=files.xla_roots, libdevice=files.libdevice, ptxas=files.ptxas
    )
    cudnn_facts = cuda.examine_cudnn(loader_facts, site_packages=here.site_packages, toolkits=toolkits, environ=environ)
    return cuda_facts, loader_facts, cudnn_facts


def _shadowed(here: Environment, environ: Mapping[str, str]) -> Fact[tuple[ShadowedModule, ...]]:
    user_site = value_or(here.python.user_site, None)
    return shadowed_modules.examine(here.sys_path, here.python.packages, user_site, environ)


Others: TypeAlias = tuple[Fact[tuple[Kernel, ...]], Fact[tuple[OtherPython, ...]]]


def _others(here: Environment, environ: Mapping[str, str]) -> Others:
    """Jupyter's kernels, and what else may have been meant than the interpreter under test."""
    prefix, executable = value_or(here.python.prefix, None), value_or(here.python.executable, None)
    found = elsewhere.examine_kernels(environ, prefix)
    known: tuple[Kernel, ...] = value_or(found, ())
    return found, elsewhere.examine(executable, prefix, known, environ)


def installed_release(here: Environment, matrix: Matrix) -> Fact[Release]:
    """The matrix row of the TensorFlow that is installed, known before it is imported."""
    package = tensorflow_distribution(here.python)
    if isinstance(package, Unknown):
        return package
    version = map_fact(package, lambda one: one.version)
    return published_row(matrix, version, here.python.wheel_platform, package.value.name)
