"""Typed rows of compat_matrix.yaml, as they stand in the file. msgspec validates them: an unknown key is an error.

Versions, compute capabilities and driver numbers are strings ("3.10" is no number), so the file must quote them.
A `None` means unknown or not applicable, as the field's comment says; it never means "no".
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeVar, get_args

from msgspec import Meta, field

from tfgpu_doctor.facts.facts import StrictRecord
from tfgpu_doctor.facts.versions import capability, numbers

Platform: TypeAlias = Literal["linux_x86_64", "linux_aarch64", "windows_amd64", "macos_arm64", "macos_x86_64"]
PLATFORMS: tuple[Platform, ...] = get_args(Platform)
Severity: TypeAlias = Literal["error", "warning", "note"]
PackageVersion: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)*(\.post[0-9]+)?$")]
Day: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Month: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9]{2}\.[0-9]{2}$")]  # "20.10"
Numbers: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)*$")]  # "12", "12.5", "535.104.05"
Capability: TypeAlias = Annotated[str, Meta(pattern=r"^[1-9][0-9]?\.[0-9]$")]  # compute capability "8.9"
# "2.15.1", "2.22.0rc0", "2.15.0.post1", "2.23.0.dev20261026", "2.17.0+nv25.2" (somebody's own build)
ReleaseVersion: TypeAlias = Annotated[
    str, Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+((rc|\.post|\.dev)[0-9]+)?(\+[a-z0-9]+([.][a-z0-9]+)*)?$")
]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
DeviceIds: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{4}( [0-9a-f]{4})*$")]  # "2684 2685"
_Row = TypeVar("_Row")
# The tables are held against each other, row by row; ours have up to 300.
Rows: TypeAlias = Annotated[tuple[_Row, ...], Meta(max_length=1000)]
# a name in which # is a number and .* a size of AWS
InstanceName: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_#-]{1,40}(\.\*)?$")]
SourceKey: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*$")]  # key of the section `sources`


class Source(StrictRecord, frozen=True, kw_only=True):
    """Where a value can be read again."""

    title: Text
    url: Annotated[str, Meta(pattern=r"^https://\S+$")] | None = None  # None: the title says all ("wheel")


class SourcedRow(StrictRecord, frozen=True, kw_only=True):
    """A row with the key of its source."""

    source: SourceKey


class Architecture(SourcedRow, frozen=True, kw_only=True):
    """One compute capability: what compiles for it and what drives it."""

    compute_capability: Capability
    name: Text  # "Ada Lovelace"
    min_cuda: Numbers | None  # first toolkit that makes SASS for it; None: unknown, older than our toolkits
    max_cuda: Numbers | None = None  # last one; None: still supported
    first_driver_branch: Numbers | None = None  # none of its GPUs has an older one; None: unknown
    last_driver_branch: Numbers | None = None  # None: still supported


class Peak(SourcedRow, frozen=True, kw_only=True):
    """Dense FLOP per clock cycle and multiprocessor (a fused multiply-add counts two); a missing type is unknown."""

    compute_capability: Capability
    products: Text | None = None  # product line that differs, "GeForce"; None: all others
    float64: float | None = None
    float64_tensor: float | None = None
    float32: float | None = None
    tf32: float | None = None
    float16: float | None = None  # accumulated in float32
    bfloat16: float | None = None


class GpuNames(SourcedRow, frozen=True, kw_only=True):
    """Marketing names, without "NVIDIA", of GPUs of one compute capability and one span of drivers."""

    compute_capability: Capability
    names: tuple[Text, ...]
    first_driver_branch: Numbers | None = None  # None: unknown; that of the architecture is then a lower bound
    last_driver_branch: Numbers | None = None  # None: that of the architecture
    driver_source: SourceKey | None = None  # of the branches; None: `source` says them, too


class PciDevices(SourcedRow, frozen=True, kw_only=True):
    """PCI device ids of NVIDIA's (vendor 10de) GPUs. Derived by scripts/refresh_gpus.py."""

    compute_capability: Capability
    devices: dict[Text, DeviceIds]  # name, as `gpus` has it → device ids


class CudaToolkit(SourcedRow, frozen=True, kw_only=True):
    """A CUDA toolkit and the drivers that run it."""

    version: Numbers  # "12.5", "12.5.1"
    min_driver_linux: Numbers | None  # shipped with the toolkit: every feature works; None: unknown
    min_driver_windows: Numbers | None  # None: none is shipped
    minor_compat_min_linux: Numbers | None  # oldest driver that runs any toolkit of this major version; None: before
    minor_compat_min_windows: Numbers | None  # CUDA 11 there is no such compatibility
    compute_capabilities: tuple[Capability, ...]  # for which it makes SASS, ascending
    minor_compat_source: SourceKey | None = None
    capabilities_source: SourceKey

    @property
    def oldest_driver_linux(self) -> str | None:
        """The oldest driver that runs programs of this toolkit: by minor-version compatibility where there is one."""
        return self.minor_compat_min_linux or self.min_driver_linux

    @property
    def oldest_driver_windows(self) -> str | None:
        """The same for Windows; WSL2 has a minimum of its own (compatibility.driver_on)."""
        return self.minor_compat_min_windows or self.min_driver_windows


class CudnnRelease(SourcedRow, frozen=True, kw_only=True):
    """A cuDNN release line."""

    version: Numbers  # "9.3"
    min_compute_capability_by_cuda: Annotated[dict[Numbers, Capability], Meta(min_length=1)]  # CUDA major → lowest

    @property
    def cuda_majors(self) -> tuple[str, ...]:
        """CUDA major versions it is made for, ascending."""
        return tuple(sorted(self.min_compute_capability_by_cuda, key=numbers))

    @property
    def min_compute_capability(self) -> str:
        """The lowest over all its CUDA majors."""
        return min(self.min_compute_capability_by_cuda.values(), key=numbers)


class Condition(StrictRecord, frozen=True, kw_only=True):
    """When a known issue bites. Every part that is given must hold."""

    versions: Text  # specifier for the TensorFlow version, "==2.16.1"
    packages: tuple[Text, ...] = ("tensorflow",)
    platforms: tuple[Platform, ...] = ()  # empty: all
    python: Text | None = None  # specifier, ">=3.12"
    cudnn: Text | None = None  # specifier for the cuDNN in use, ">=9.11"
    ptxas: Text | None = None  # specifier for the ptxas that XLA would start, "==12.3.103"
    driver: Text | None = None  # specifier for the driver, "<451"
    extra: bool = False  # only where CUDA comes from the pip extra, and TensorFlow's RUNPATH alone finds it
    min_compute_capability: Capability | None = None
    max_compute_capability: Capability | None = None
    beside: dict[Text, Text] = field(default_factory=dict)  # other distributions here → specifier, {"protobuf": ">=4"}
    cpu_lacks: Text | None = None  # an instruction set as /proc/cpuinfo names it, "avx"


class KnownIssue(StrictRecord, frozen=True, kw_only=True):
    """A release that is known to be broken, when, and the way out."""

    id: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    severity: Severity
    affects: Literal["run", "install", "build"]  # using it; installing or locking it; it is no GPU build at all
    # what is missing or not bounded, where more than its condition decides what to say of it
    about: Literal["runpath", "numpy", "protobuf", "extra", "cuda-minor", "nvcc"] | None = None
    title: Text
    condition: Condition
    symptom: Text
    fix: Text
    commands: tuple[Text, ...] = ()
    source: Text  # in the file a key of `sources`; in a Release spelled out


class LibrarySet(SourcedRow, frozen=True, kw_only=True):
    """Libraries that a TensorFlow build opens by name: component → soname or DLL."""

    id: SourceKey
    libraries: dict[str, Text]
    linked: bool = False  # needed by the extension module itself: without them the import fails, not only the GPU


class Wheel(StrictRecord, frozen=True, kw_only=True, omit_defaults=True):
    """What the wheels of one release say for one platform. Derived by scripts/refresh_matrix.py."""

    python: tuple[Numbers, ...]  # versions that have a wheel, ascending
    wheel: Text | None = None  # file name of the wheel that was read; None in rows that are entered by hand
    cuda: Numbers | None = None  # None: the wheel holds no CUDA code
    cudnn: Numbers | None = None
    sass: tuple[Capability, ...] = ()
    ptx: tuple[Capability, ...] = ()
    kernels: Literal["fatbin"] | None = None  # sass and ptx were read off the kernels, since build_info has no list
    libraries: SourceKey | None = None  # id of a library set
    glibc: Numbers | None = None
    macos: Numbers | None = None  # oldest macOS
    extra: Text | None = None  # extra that brings CUDA libraries on this platform
    pip_nvidia: dict[str, str] = field(default_factory=dict)  # distribution → specifier, of that extra
    numpy: str | None = None
    protobuf: str | None = None
    keras: str | None = None
    ml_dtypes: str | None = None
    bounds_by_python: dict[Numbers, dict[str, str]] = field(default_factory=dict)  # where a newer Python differs
    redirects: str | None = None  # the wheel is empty and requires this one: "tensorflow-intel==2.13.0"
    yanked: str | None = None  # the index's reason


class LogMessage(SourcedRow, frozen=True, kw_only=True):
    """A message of TensorFlow's log, and where its sources print it. Derived by scripts/refresh_log_lines.py."""

    file: Text  # "dso_loader.cc"
    message: Text  # its first words, "*" for a value (inference/log_lines.py)
    lines: dict[Annotated[str, Meta(pattern=r"^[1-9][0-9]*$")], Text]  # line → "2.3.4 2.4.4"


class ReleaseRow(StrictRecord, frozen=True, kw_only=True, omit_defaults=True):
    """One release of one package; `wheels` has a row for each platform that has wheels."""

    package: Text
    version: ReleaseVersion
    wheels: dict[Platform, Wheel]
    released: Day | None = None  # the index's date of its first wheel
    source: SourceKey = "wheel"


class NvidiaPackage(StrictRecord, frozen=True, kw_only=True, omit_defaults=True):
    """A distribution with CUDA libraries, as the index had it at `revision`. Derived by scripts/refresh_matrix.py."""

    package: Text  # "nvidia-cudnn-cu12"
    versions: tuple[PackageVersion, ...]  # with a wheel for linux_x86_64 that is not withdrawn, ascending
    source: SourceKey = "wheel"


class PtxIsa(SourcedRow, frozen=True, kw_only=True):
    """A version of PTX's instruction set, and the first toolkit with it, whose driver compiles it."""

    isa: Numbers
    cuda: Numbers


class FatBinaries(StrictRecord, frozen=True, kw_only=True):
    """Fat binaries with the same contents."""

    count: int
    sass: tuple[Capability, ...]
    ptx: dict[Capability, Numbers]  # → version of its instruction set, "8.5"

    def compiled_for(self, compute_capability: str) -> str | None:
        """The instruction set of the PTX that the driver compiles for a GPU; None: SASS runs on it, or nothing does."""
        card = capability(compute_capability)
        if any(capability(one)[0] == card[0] and capability(one) <= card for one in self.sass):
            return None
        below = [one for one in self.ptx if capability(one) <= card]
        return self.ptx[max(below, key=capability)] if below else None


class Build(StrictRecord, frozen=True, kw_only=True):
    """What the libraries of wheels were compiled with. Derived by scripts/refresh_builds.py."""

    releases: dict[Text, Text]  # package → versions with the same contents: "2.14.1 2.14.0"
    platform: Platform
    cudnn: Numbers | None  # that the binary compares with the loaded one; None: it was not found
    parts: Rows[FatBinaries]
    source: SourceKey = "wheel-binaries"


class OfficialRow(SourcedRow, frozen=True, kw_only=True):
    """TensorFlow's own table of tested builds, Linux. The wheel wins; this fills in what no wheel says."""

    version: Numbers  # "2.12"
    python: tuple[Numbers, ...]
    cuda: Numbers | None
    cudnn: Numbers | None


class Container(SourcedRow, frozen=True, kw_only=True):
    """A container image that holds TensorFlow with its CUDA; only the driver comes from outside."""

    image: Text  # "nvcr.io/nvidia/tensorflow", "tensorflow/tensorflow"
    tag: Text  # "25.02-tf2-py3", "2.20.0-gpu"
    tensorflow: ReleaseVersion
    python: Numbers
    cuda: Numbers
    cudnn: Numbers | None = None
    min_driver: Numbers  # Linux; the oldest that runs it on every card
    data_center_branches: tuple[Numbers, ...] = ()  # older driver branches that run it on data-centre cards
    sass: tuple[Capability, ...] = ()  # empty: those of the wheel tensorflow==version that it holds
    reported: dict[Capability, Text] = field(default_factory=dict)  # what people tell of it on such a GPU
    min_compute_capability: Capability | None = None  # that the publisher supports
    platforms: tuple[Platform, ...]


class MonthlyImages(SourcedRow, frozen=True, kw_only=True):
    """The CUDA of NVIDIA's images from one month to another; they require the driver of that CUDA."""

    cuda: Numbers
    python: Numbers | None = None  # of TensorFlow's, but for tags with py2; None: unknown, or not all have the same
    first: Month
    last: Month


class CudaImage(SourcedRow, frozen=True, kw_only=True):
    """The cuDNN in the images nvidia/cuda of one CUDA, from this patch on."""

    cuda: Numbers  # "12.6.2"
    cudnn: Numbers  # "9.5"
    data_center_branches: tuple[Numbers, ...] = ()  # older driver branches that it starts on; empty: unknown


class Instance(SourcedRow, frozen=True, kw_only=True):
    """A cloud's instance types with one GPU model (matrix/names.py)."""

    cloud: Text  # "AWS"
    names: Annotated[tuple[InstanceName, ...], Meta(min_length=1)]  # "g4dn.*", "a2-highgpu-#g"
    gpu: Text  # a name of `gpus`, or "AMD ..."


class JetsonWheel(StrictRecord, frozen=True, kw_only=True):
    """A TensorFlow wheel of NVIDIA's for one JetPack."""

    tensorflow: ReleaseVersion  # "2.16.1+nv24.8"
    command: Text


class JetPack(SourcedRow, frozen=True, kw_only=True):
    """A release of JetPack, which brings the driver, CUDA and cuDNN of Jetson modules. None: unknown."""

    version: Numbers  # "6.1"
    l4t: Numbers  # of Jetson Linux, "36.4"
    cuda: Numbers | None
    cudnn: Numbers | None = None
    ubuntu: Numbers
    python: Numbers  # of that Ubuntu
    compute_capabilities: tuple[Capability, ...]  # of the modules
    wheels: tuple[JetsonWheel, ...] = ()  # newest first
    images: tuple[Text, ...] = ()  # tags of nvcr.io/nvidia/l4t-tensorflow


class CondaBuild(SourcedRow, frozen=True, kw_only=True):
    """What conda-forge has of one TensorFlow release on one platform."""

    version: ReleaseVersion
    platform: Platform
    python: tuple[Numbers, ...]
    cuda: tuple[Numbers, ...] = ()  # a build for each; empty: CPU builds only
    cudnn: Numbers | None = None
    sass: tuple[Capability, ...] = ()
    ptx: tuple[Capability, ...] = ()


class PackageReleases(StrictRecord, frozen=True, kw_only=True, omit_defaults=True):
    """Versions of a package that can be installed with the same Pythons."""

    versions: Annotated[tuple[Text, ...], Meta(min_length=1)]  # newest first
    python: Text | None = None  # Requires-Python; None: any
    wheels: tuple[Numbers, ...] = ()  # Pythons that have one; empty: any, for TensorFlow those of its own table
    platforms: tuple[Platform, ...] = ()  # empty: all
    yanked: bool = False  # installers take it only where it is pinned


class PackageRow(StrictRecord, frozen=True, kw_only=True, omit_defaults=True):
    """A package, and what its versions require. Derived by scripts/refresh_packages.py."""

    package: Text
    releases: tuple[PackageReleases, ...]
    requires: dict[Text, Text] = field(default_factory=dict)  # Requires-Dist → versions with it: "2.4.0..2.4.4 2.6.0"
    source: SourceKey = "package-metadata"


class MatrixFile(StrictRecord, frozen=True, kw_only=True):
    """The whole file."""

    schema: Literal["tfgpu.matrix/1"]
    revision: Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(\.[0-9]+)?$")]
    sources: dict[SourceKey, Source] = field(default_factory=dict)
    updated: dict[Text, Day] = field(default_factory=dict)  # table → day on which its rows were last held to sources
    architectures: Rows[Architecture] = ()
    peaks: Rows[Peak] = ()
    gpus: Rows[GpuNames] = ()
    pci_devices: Rows[PciDevices] = ()
    cuda: Rows[CudaToolkit] = ()
    cudnn: Rows[CudnnRelease] = ()
    official: Rows[OfficialRow] = ()
    libraries: Rows[LibrarySet] = ()
    known_issues: Rows[KnownIssue] = ()
    instances: Rows[Instance] = ()
    containers: Rows[Container] = ()
    monthly_images: Rows[MonthlyImages] = ()
    cuda_images: Rows[CudaImage] = ()
    jetpacks: Rows[JetPack] = ()
    conda_forge: Rows[CondaBuild] = ()
    nvidia: Rows[NvidiaPackage] = ()
    packages: Rows[PackageRow] = ()
    log_lines: Rows[LogMessage] = ()
    builds: Rows[Build] = ()
    ptx: Rows[PtxIsa] = ()
    tensorflow: Rows[ReleaseRow] = ()


TABLES = MatrixFile.__struct_fields__[4:]

# table → the fields that tell its rows apart; `gpus` has names for that
KEYS = {
    "architectures": ("compute_capability",),
    "peaks": ("compute_capability", "products"),
    "pci_devices": ("compute_capability", "source"),
    "libraries": ("id",),
    "known_issues": ("id",),
    "instances": ("names",),
    "containers": ("image", "tag"),
    "monthly_images": ("first",),
    "cuda_images": ("cuda", "cudnn"),
    "conda_forge": ("version", "platform"),
    "log_lines": ("file", "message"),
    "builds": ("platform", "releases"),
    "ptx": ("isa",),
    "tensorflow": ("package", "version"),
    **dict.fromkeys(("cuda", "cudnn", "official", "jetpacks"), ("version",)),
    **dict.fromkeys(("nvidia", "packages"), ("package",)),
}


def key_of(row: object, fields: tuple[str, ...]) -> str:
    """Return the values of the fields that tell a row of a table from the others."""
    return " ".join(str(getattr(row, field) or "") for field in fields).strip()
