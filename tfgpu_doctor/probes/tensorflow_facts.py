"""Transcript of the TensorFlow probe → facts about Python and TensorFlow. Pure: no process, no file, no clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TypeVar

import msgspec

from tfgpu_doctor.parsers.tensorflow_outputs import library_version
from tfgpu_doctor.probes.events import Built, Devices, Imported, Interpreter, Packages
from tfgpu_doctor.probes.limits import as_limit
from tfgpu_doctor.probes.transcript import Ending, Transcript, answer_of, describe_ending, log_lines, phases
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import (
    Build,
    ComputeCheck,
    Fact,
    Known,
    Limit,
    Package,
    Python,
    TensorFlow,
    TfDevice,
    Unknown,
    map_fact,
)

T = TypeVar("T")
A = TypeVar("A")


def _pick(answer: Fact[A], read: Callable[[A], T | None], source: str) -> Fact[T]:
    """One value of a phase's answer; `source` says how the child came to it."""
    if isinstance(answer, Unknown):
        return answer
    value = read(answer.value)
    return Unknown(f"{source} is not set") if value is None else Known(value, f"{source} in {answer.source}")


def python(transcript: Transcript, ending: Ending | None, installers: tuple[str, ...]) -> Python:
    """The interpreter and its packages."""
    about: Fact[Interpreter] = answer_of(transcript, ending, "interpreter")
    packages: Fact[Packages] = answer_of(transcript, ending, "packages")
    prefix = _pick(about, lambda found: found.prefix, "sys.prefix")
    environment = _pick(about, lambda found: found.environment, "sys.prefix, sys.base_prefix")
    user_site = _pick(about, lambda found: found.user_site, "site.USER_SITE")
    if isinstance(about, Known) and about.value.user_site is None:
        user_site = Unknown("not on sys.path")
    return Python(
        executable=_pick(about, lambda found: found.executable, "sys.executable"),
        version=Known(ending.old_python, f"sys.version_info in {transcript.executable}")
        if ending and ending.old_python
        else _pick(about, lambda found: found.version, "sys.version"),
        implementation=_pick(about, lambda found: found.implementation, "sys.implementation"),
        bits=_pick(about, lambda found: found.bits, "sys.maxsize"),
        prefix=prefix,
        environment=environment,
        conda_name=_conda_name(prefix, environment),
        externally_managed=_pick(about, lambda found: found.externally_managed, "EXTERNALLY-MANAGED (PEP 668)"),
        user_site=user_site,
        pip=_pick(packages, lambda found: found.pip, "importlib"),
        installers=Known(installers, "PATH"),
        packages=_pick(packages, lambda found: found.packages, "*.dist-info, *.egg-info"),
        tensorflow_paths=_pick(packages, lambda found: found.tensorflow_paths, "sys.path"),
        tensorflow_leftovers=_pick(packages, lambda found: found.leftovers, "sys.path"),
        wheel_platform=_wheel_platform(about),
    )


def _conda_name(prefix: Fact[str], environment: Fact[str]) -> Fact[str]:
    if isinstance(environment, Known) and environment.value != "conda":
        return Unknown("not a conda environment")
    return map_fact(prefix, lambda path: PurePath(path).name if PurePath(path).parent.name == "envs" else "base")


def _wheel_platform(about: Fact[Interpreter]) -> Fact[str]:
    if isinstance(about, Unknown):
        return about
    system, machine = about.value.platform, about.value.machine.lower()
    name = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(system, system)
    if about.value.bits == 32:
        machine = {"x86_64": "i686", "amd64": "x86", "aarch64": "armv7l"}.get(machine, machine)
    return Known(f"{name}_{machine}", f"sys.platform, machine in {about.source}")


def sys_path(transcript: Transcript) -> tuple[str, ...]:
    """The folders that the interpreter imports from; empty when it has not answered."""
    end = transcript.ends.get("interpreter")
    return end.data.sys_path if end and end.data else ()


def address_space_limit(transcript: Transcript, ending: Ending) -> Fact[Limit] | None:
    """RLIMIT_AS of the child, which a script that starts its Python may have set; None where it has not told it."""
    about: Fact[Interpreter] = answer_of(transcript, ending, "interpreter")
    if isinstance(about, Unknown) or len(about.value.address_space) != 2:
        return None
    return as_limit(about.value.address_space, f"getrlimit(RLIMIT_AS) in {about.source}")


def loaded(transcript: Transcript, ending: Ending) -> Fact[tuple[str, ...]]:
    """The CUDA libraries that the child has loaded, as it reported last."""
    if transcript.loaded is not None:
        return Known(transcript.loaded, f"memory map of {transcript.executable} with TensorFlow")
    after = answer_of(transcript, ending, "import")
    return after if isinstance(after, Unknown) else Unknown("which libraries a process has loaded is not read here")


def cudnn_runtime(transcript: Transcript, ending: Ending) -> Fact[str]:
    """cudnnGetVersion() of the cuDNN that TensorFlow has loaded."""
    libraries = loaded(transcript, ending)
    if isinstance(libraries, Unknown):
        return libraries
    if transcript.cudnn is None:
        if transcript.broken_off_in is None and any("cudnn" in path.lower() for path in libraries.value):
            return Unknown(f"cudnnGetVersion: {describe_ending(ending)}")
        return Unknown("TensorFlow has loaded no cuDNN")
    if transcript.cudnn.version is None:
        return Unknown(f"cudnnGetVersion of {transcript.cudnn.library}: {transcript.cudnn.problem}")
    return Known(cudnn_version(transcript.cudnn.version), f"cudnnGetVersion() of {transcript.cudnn.library}")


def cudnn_version(number: int) -> str:
    """Decode CUDNN_VERSION: 8907 is 8.9.7; from cuDNN 9 on, 91002 is 9.10.2 (cudnn_version.h)."""
    major, rest = divmod(number, 10000) if number >= 90000 else divmod(number, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def tensorflow(transcript: Transcript, ending: Ending, about: Python) -> TensorFlow:
    """TensorFlow, as far as it answered."""
    distribution = tensorflow_distribution(about)
    return TensorFlow(
        version=_version(transcript, ending, distribution),
        distribution=map_fact(distribution, lambda package: package.name),
        file=_module_file(transcript, ending),
        build=_build(transcript, ending),
        devices=_devices(transcript, ending),
        checks=_checks(transcript, ending),
        phases=phases(transcript, ending),
        log=Known(log_lines(ending.stderr), f"stderr of {transcript.executable}")
        if ending.outcome != "not started"
        else Unknown(describe_ending(ending)),
    )


def tensorflow_distribution(about: Python) -> Fact[Package]:
    """The distribution that TensorFlow comes from: that beside the module that wins, else any."""
    if isinstance(about.packages, Unknown):
        return about.packages
    found = sorted(
        (package for package in about.packages.value if package.name in TENSORFLOW),
        key=lambda package: TENSORFLOW.index(package.name),
    )
    paths = about.tensorflow_paths.value if isinstance(about.tensorflow_paths, Known) else ()
    home = str(PurePath(paths[0]).parent) if paths else None
    beside = [package for package in found if package.location == home]
    if not found:
        return Unknown("no distribution of TensorFlow in this interpreter")
    best = (beside or found)[0]
    return Known(best, f"metadata of {best.name} in {best.location}")


def _version(transcript: Transcript, ending: Ending, distribution: Fact[Package]) -> Fact[str]:
    answer: Fact[Imported] = answer_of(transcript, ending, "import")
    if isinstance(answer, Known):
        if answer.value.version is None:
            return Unknown(str(answer.value.problem))
        return _pick(answer, lambda found: found.version, "tf.__version__")
    return map_fact(distribution, lambda package: package.version)


def _module_file(transcript: Transcript, ending: Ending) -> Fact[str]:
    answer: Fact[Imported] = answer_of(transcript, ending, "import")
    if isinstance(answer, Known) and answer.value.file is None:
        return Unknown("the module has no __file__")
    return _pick(answer, lambda found: found.file, "tf.__file__")


def _build(transcript: Transcript, ending: Ending) -> Fact[Build]:
    answer: Fact[Built] = answer_of(transcript, ending, "build")
    source = answer.value.source if isinstance(answer, Known) else ""
    return _pick(answer, lambda found: _with_numbers(found.build), source)


def _with_numbers(build: Build) -> Build:
    """On Windows a build names the endings of its DLLs instead of versions."""
    cuda, cudnn = (version and library_version(version) for version in (build.cuda_version, build.cudnn_version))
    return msgspec.structs.replace(build, cuda_version=cuda, cudnn_version=cudnn)


def _devices(transcript: Transcript, ending: Ending) -> Fact[tuple[TfDevice, ...]]:
    def list_of(phase: str) -> Fact[tuple[TfDevice, ...]]:
        source = "tf.config.list_physical_devices()" if phase == "devices" else "get_device_details()"
        answer: Fact[Devices] = answer_of(transcript, ending, phase)
        return _pick(answer, lambda found: found.devices, source)

    details = list_of("details")
    by_name = {device.name: device for device in details.value} if isinstance(details, Known) else {}
    return map_fact(list_of("devices"), lambda found: tuple(by_name.get(device.name, device) for device in found))


def _checks(transcript: Transcript, ending: Ending) -> Fact[tuple[ComputeCheck, ...]]:
    checks = list(transcript.checks)
    if transcript.checking is not None and transcript.broken_off_in in ("compute", "xla"):
        begun = transcript.checking.data
        checks.append(ComputeCheck(begun.device, begun.kind, ok=False, error=describe_ending(ending)))
    answer = answer_of(transcript, ending, "compute")
    if not checks and isinstance(answer, Unknown):
        return answer
    return Known(tuple(checks), f"compared with NumPy in float64 in {transcript.executable}")
