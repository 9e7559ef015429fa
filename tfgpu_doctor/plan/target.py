"""The machine that an answer is wanted for: this one, from its facts, or one that somebody describes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Literal, TypeVar

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.facts.about import OSES, PROCESSORS, Os
from tfgpu_doctor.facts.facts import NOT_EXAMINED, Driver, Facts, Gpu, Host, Known, Python, Record, value_or
from tfgpu_doctor.facts.similar import did_you_mean
from tfgpu_doctor.facts.versions import capability, capability_of, major, minor
from tfgpu_doctor.matrix.compatibility import arm_only, on_windows
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.names import before_kepler, is_apples, of_others
from tfgpu_doctor.matrix.schema import PLATFORMS

_Word = TypeVar("_Word", bound=str)
NO_GLIBC = "0"  # older than any
_DRIVER = re.compile(r"\d{2,3}(\.\d+){0,2}")
_NEWEST_CUDA = 30  # no driver for CUDA has so small a number: the first had 177 (CUDA 2.0 release notes)
_GLIBC = re.compile(r"glibc (\d+(?:\.\d+)+)")
_MACOS = re.compile(r"\bmac ?os\b(?: x)?\D{0,20}(\d{2}(?:\.\d{1,2})?)(?![\d.]*\d{3})", re.IGNORECASE)
_PYTHON = re.compile(r"(?:cp|python)?\s*([23])\.?(\d{1,2})(?:\.\d+)?", re.IGNORECASE)
_COUNT = re.compile(r"^\s*\d{1,3} ?[x×*] ?")  # "2x RTX 3090", "8 × NVIDIA H200": the plan for each is the same
_CAPABILITY = re.compile(r"(?:sm_|compute_)?(\d{1,2}?)\.?(\d)[a-z]?", re.IGNORECASE)


_TOO_OLD = "CUDA 7.0 dropped it, and no TensorFlow has kernels for less than 3.0: it runs on the CPU"
_SLICE = re.compile(r"(?:^| |-)(?:mig(?: (?=\d)|$))?(?:\d{1,2}g\.\d{1,3}gb)?$", re.IGNORECASE)  # "MIG 1g.5gb" of a card
# a part of a GPU → what is to be known of it
_SHARED = {
    _SLICE: "an instance of MIG has the compute capability and the driver of its GPU; a process uses one instance",
    re.compile(r"\bGRID\b|\bvGPU\b|\w-\d+[ABCQ]$"): "a vGPU needs the guest driver of its host's vGPU release, a "
    "licence, and a profile with CUDA (C or Q): https://docs.nvidia.com/vgpu",  # GRID A100-10C
}


# Multiprocessors of small GPUs, as TensorFlow prints them ("with core count: 5", "coreCount: 5"): tensorflow issues
# 32489, 37186, 37198, 38822, 43104, 44381 and others like them. It leaves out what has fewer than 8 beside a larger GPU
# (GetDefaultMinGPUMultiprocessorCount in gpu_device.cc)
_FEW = {"GeForce MX110": 2, "GeForce GTX 1050": 5, "GeForce GTX 1050 Ti": 6, "GeForce GTX 960M": 5, "Quadro P620": 4}
_FEW |= dict.fromkeys(("GeForce GT 1030", "GeForce MX250", "Quadro K620", "Quadro P600"), 3)
_FEW |= dict.fromkeys(("Quadro K2200", "Quadro M2000M"), 5)
_MANY = re.compile(
    r"\bTITAN\b|\bRTX (?!A400\b)|\bGTX (?:9[78]|10[678]|16)\d0|\b(?:Tesla )?(?:[PVABH]\d{2,3}|T4|L4|L40S?)\b"
)


class TargetError(ValueError):
    """A description that cannot be understood; the message says which part, and what is known."""


class TargetGpu(Record, frozen=True):
    """One GPU model of the target."""

    name: str | None  # as the matrix has it, or as the driver reports it; None: described by compute capability
    compute_capability: str

    @property
    def shown(self) -> str:
        """Its name, or else its compute capability, in words."""
        return self.name or f"compute capability {self.compute_capability}"


class Target(Record, frozen=True, kw_only=True):
    """What has to be met. A None is unknown, and constrains nothing."""

    gpus: tuple[TargetGpu, ...] = ()  # empty: unknown
    driver: str | None = None  # "570.86.10"; "570" or "570.86" stands for the newest of that branch
    python: str | None = None  # "3.12"
    os: Os = "linux"
    machine: str = "x86_64"  # "aarch64", "arm64"
    glibc: str | None = None  # "2.36"; NO_GLIBC where the C library is musl
    macos: str | None = None  # "11.6"

    @property
    def platform(self) -> str:
        """The platform of the matrix; WSL2 installs the wheels of Linux."""
        if self.os == "windows":
            return "windows_amd64"
        is_arm = self.machine in ("arm64", "aarch64")
        if self.os == "macos":
            return f"macos_{'arm64' if is_arm else 'x86_64'}"
        return f"linux_{'aarch64' if is_arm else 'x86_64'}"

    @property
    def left_out(self) -> dict[str, int]:
        """The GPUs that TensorFlow leaves out beside a larger one, and the multiprocessors of each."""
        names = [(gpu.name or "").removeprefix("NVIDIA ") for gpu in self.gpus]
        return {name: _FEW[name] for name in names if name in _FEW} if any(map(_MANY.search, names)) else {}

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The compute capabilities of the GPUs, each once, ascending."""
        return tuple(sorted({gpu.compute_capability for gpu in self.gpus}, key=capability))


def describe(
    matrix: Matrix,
    *,
    gpu: str | Iterable[str] | None = (),
    compute_capability: str | Iterable[str] | None = (),
    driver: str | None = None,
    python: str | None = None,
    os: str | None = None,
    machine: str | None = None,
    note: Callable[[str], object] = str,
) -> Target:
    """Build the target that a person describes; `note` is called with how a value was read.

    Raises TargetError: a GPU that the matrix does not know (with the nearest names), or a malformed value.
    """
    names = several(gpu)
    for text in (text for pattern, text in _SHARED.items() if any(map(pattern.search, names))):
        note(text)
    system = _one_of("os", os, OSES) or "linux"
    known = filter(matrix.gpu, names) if system == "macos" else names  # whose GPUs are others, as the plan says
    gpus = [read_gpu(matrix, name) for name in known]
    gpus += [TargetGpu(None, read_capability(text, matrix)) for text in several(compute_capability)]
    arm = bool(gpus) and all(arm_only(one.name, one.compute_capability) for one in gpus)
    usual = _usual_of_macs(names) if system == "macos" else "aarch64" if arm else "x86_64"
    return Target(
        gpus=tuple(gpus),
        driver=None if driver is None else read_driver_on(system, driver, matrix, note),
        python=None if python is None else read_python(python),
        os=system,
        machine=_one_of("machine", machine, PROCESSORS) or usual,
    )


def _usual_of_macs(names: Iterable[str]) -> Literal["arm64", "x86_64"]:
    """Only the GPUs of Apple's own processors are in a Mac of today; another maker's means an Intel processor."""
    return "arm64" if all(map(is_apples, names)) else "x86_64"


def several(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of an argument that may be one name, several or none."""
    return (names,) if isinstance(names, str) else tuple(names or ())


def _one_of(name: str, value: str | None, known: tuple[_Word, ...]) -> _Word | None:
    found = next((one for one in known if value is not None and one == value.lower()), None)
    if value is not None and found is None:
        raise TargetError(f"{name}: {value!r} is not one of {', '.join(known)}.{did_you_mean(value, known, 1)}")
    return found


def platform_of(os: str | None = None, machine: str | None = None, platform: str | None = None) -> str | None:
    """Return the platform that these values name, as the matrix has it; None where none of them is given."""
    if platform and (os or machine):
        raise TargetError("--platform names both system and processor, and cannot be combined with --os or --machine")
    if platform or not (os or machine):
        return platform if platform == "all" else _one_of("platform", platform, PLATFORMS)
    system = _one_of("os", os, OSES) or "linux"
    return Target(os=system, machine=machine or ("arm64" if system == "macos" else "x86_64")).platform


def from_facts(facts: Facts, matrix: Matrix, python: str | None = None) -> Target:
    """The target that examined facts describe, with another Python if given; what they do not know stays unknown."""
    platform = value_or(facts.python.wheel_platform, "")
    system = value_or(facts.host.os, "linux")
    if system == "windows" and platform.startswith("linux"):
        system = "linux"  # an image there holds the wheels of Linux
    driver = value_or(facts.driver.version, "")
    return Target(
        gpus=_gpus_in(facts, matrix),
        driver=driver if _DRIVER.fullmatch(driver) else None,
        python=python or minor(value_or(facts.python.version, "")) or None,
        os=next((one for one in OSES if one == system), "linux"),
        machine=next((one for one in PROCESSORS if platform.endswith(one)), "x86_64"),
        glibc=glibc_of(facts.host),
        macos=found[1] if (found := _MACOS.search(value_or(facts.host.distribution, ""))) else None,
    )


def glibc_of(host: Host) -> str | None:
    """Return the version of a machine's glibc; NO_GLIBC for musl, None where it is unknown."""
    libc = value_or(host.libc, "")
    found = _GLIBC.fullmatch(libc)
    return NO_GLIBC if libc.startswith("musl") else found[1] if found else None


def has_no_gpu(facts: Facts) -> bool:
    """Whether the machine was looked at, and there is no NVIDIA GPU."""
    plugged = value_or(facts.host.pci_gpus, None)
    return not value_or(facts.gpus, None) and plugged == () and not value_or(facts.host.dxg_device, False)


def _gpus_in(facts: Facts, matrix: Matrix) -> tuple[TargetGpu, ...]:
    """What the driver reports; without a driver what the PCI bus tells; else the card that TensorFlow prints."""
    gpus = value_or(facts.gpus, ())
    reported = ((value_or(gpu.name, None), value_or(gpu.compute_capability, None)) for gpu in gpus)
    found = [seen_gpu(*one, matrix) for one in reported]
    for one in () if found else value_or(facts.host.pci_gpus, ()):
        name = (one.name or "").partition("[")[2].rstrip("]") or one.name  # "AD102 [GeForce RTX 4090]" of pci.ids
        # the device id tells the chip, which a name that was sold with several does not
        if model := matrix.gpu_of_device(one.device_id):
            found.append(TargetGpu(name or model.name, model.compute_capability))
        else:
            found.append(seen_gpu(name, capability_of(one.name), matrix))
    if any(found):
        return tuple(filter(None, found))
    kinds = ("no-kernels-for-gpu", "gpu-created", "cuda-capability")
    printed = (one.values.get("capability", "") for one in value_or(facts.messages, ()) if one.kind in kinds)
    return tuple(TargetGpu(None, ".".join(one.groups())) for one in map(_CAPABILITY.fullmatch, printed) if one)[:1]


def seen_gpu(name: str | None, capability: str | None, matrix: Matrix) -> TargetGpu | None:
    """A GPU of this machine; None where neither the driver nor the matrix tells its compute capability."""
    if capability and (found := _CAPABILITY.fullmatch(capability)):
        return TargetGpu(name, ".".join(found.groups()))
    model = matrix.gpu_as_written(name) if name else None
    return TargetGpu(name, model.compute_capability) if model else None


def to_facts(target: Target) -> Facts:
    """What a described machine is known to have; everything else stays unknown."""
    stated = partial(Known, grade="stated")
    gpus = tuple(
        Gpu(index, name=stated(one.shown, "--gpu"), compute_capability=stated(one.compute_capability, "--gpu"))
        for index, one in enumerate(target.gpus)
    )
    return Facts(
        host=Host(os=stated(target.os, "--os"), machine=stated(target.machine, "--machine")),
        driver=Driver(version=stated(target.driver, "--driver")) if target.driver else Driver(),
        gpus=stated(gpus, "--gpu") if gpus else NOT_EXAMINED,
        python=Python(
            version=stated(target.python, "--python") if target.python else NOT_EXAMINED,
            wheel_platform=stated(target.platform, "--os"),
        ),
    )


_FERMI = "2"  # no release has kernels for any of its chips, so that it does not matter which one a name means


def read_gpu(matrix: Matrix, name: str) -> TargetGpu:
    """Find a GPU by the name that a person or a driver gives it; an instance of MIG is its card.

    Raises TargetError: the name means no card, or several.
    """
    if not (card := _SLICE.sub("", _COUNT.sub("", name)).strip()):
        raise TargetError(f"{name} is a part of a GPU: name the GPU, too, as in 'A100 MIG 1g.5gb'")
    found, chips = matrix.gpu(card), matrix.gpu_candidates(card)
    if found is None and chips and all(major(one.compute_capability) == _FERMI for one in chips):
        found = chips[0]
    if found is None:
        raise TargetError(unknown_gpu(matrix, name))
    return TargetGpu(found.name, found.compute_capability)


def unknown_gpu(matrix: Matrix, name: str) -> str:
    """Say which GPUs a name could mean, or which names are near it."""
    if several_chips := matrix.gpu_candidates(name):
        listed = ", ".join(dict.fromkeys(f"{one.name} ({one.compute_capability})" for one in several_chips))
        same = len({one.name for one in several_chips}) == 1
        how = "which nvidia-smi --query-gpu=compute_cap --format=csv shows" if same else "or the full name"
        return f"{name!r} can mean {listed}; give --compute-capability X.Y, {how}"
    if instance := matrix.instances.find(name):
        return f"{name} is an instance type of {instance.cloud} with {instance.gpu}, which is no NVIDIA GPU"
    if why := of_others(name):
        return f"{name} is no NVIDIA GPU, for which alone there is a plan. {why}"
    if before_kepler(name) == "1":
        return f"{name} has compute capability 1.x. {_TOO_OLD}"
    if (number := _dotted(name)) in _capabilities(matrix):
        return f"{name!r} is a compute capability: use --compute-capability {number}"
    near = matrix.nearest_gpus(name)
    hint = f"the nearest names are {', '.join(near)}" if near else "tfgpu matrix gpu lists the known names"
    return f"unknown GPU {name!r}; {hint}; --compute-capability X.Y works for any GPU"


def _dotted(text: str) -> str:
    """Write "89" and "sm_89" as "8.9"; what is no compute capability as it is."""
    found = _CAPABILITY.fullmatch(text.strip())
    return ".".join(found.groups()) if found else text


def _capabilities(matrix: Matrix) -> list[str]:
    return [row.compute_capability for row in matrix.data.architectures]


def read_capability(text: str, matrix: Matrix) -> str:
    """Read "8.9", "89" or "sm_89". Raises TargetError: no compute capability, or none that the matrix knows."""
    capability, known = _dotted(text), _capabilities(matrix)
    if capability.startswith("1."):
        raise TargetError(f"compute capability {capability}: {_TOO_OLD}")
    if capability not in known:
        raise TargetError(f"{text!r} is not a compute capability of an NVIDIA GPU; known are {', '.join(known)}")
    return capability


def read_driver(text: str) -> str:
    """Read a driver version or branch: "570.86.10", "570.86", "570", "R570". Raises TargetError: something else."""
    bare = text.strip().lower().removeprefix("r").removesuffix(".xx")
    if not _DRIVER.fullmatch(bare):
        raise TargetError(f"{text!r} is not an NVIDIA driver version such as 570.86.10, nor a branch such as 570")
    if int(major(bare)) <= _NEWEST_CUDA:
        raise TargetError(f"{text} is a version of CUDA, not of the driver: nvidia-smi shows both")
    return bare


def read_driver_on(system: str, text: str, matrix: Matrix, note: Callable[[str], object]) -> str:
    """Read a driver version or branch; WSL2 uses the driver of Windows. Raises TargetError: it is neither."""
    driver = read_driver(text)
    here = on_windows(matrix, driver) if system in ("windows", "wsl2") else driver
    if here != driver:
        note(f"on Windows, driver branch {driver} is numbered {here}")
    return here


def read_python(text: str) -> str:
    """Read a Python version: "3.12", "3.12.4", "cp312". Raises TargetError: something else."""
    found = _PYTHON.fullmatch(text.strip())
    if found is None:
        raise TargetError(f"{text!r} is not a Python version such as 3.12")
    return ".".join(found.groups())


def read_specifier(text: str) -> SpecifierSet:
    """Read "2.15" (any patch of it), "2.15.1", ">=2.12,<2.16". Raises TargetError: something else."""
    given = text
    with suppress(ValueError):  # a range
        version = Version(text)
        given = f"=={text}" if len(version.release) > 2 or version.is_prerelease else f"=={version}.*"
    try:
        specifier = SpecifierSet(given)
        for one in specifier:
            one.contains("1")  # only now is its version read
    except ValueError as error:
        ways = "a TensorFlow version such as 2.15, nor a range such as '>=2.12,<2.16'"
        raise TargetError(f"{text[:60]!r} is not {ways}") from error
    return specifier
