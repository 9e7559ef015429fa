"""What is known about the software on a machine: CUDA, the loader, cuDNN, Python, TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Struct

from tfgpu_doctor.records.about import OWN_NAME, private, public
from tfgpu_doctor.records.fact import NOT_EXAMINED, Fact, Record

# --------------------------------------------------------------------------------------- CUDA


class Toolkit(Record, frozen=True):
    """A CUDA toolkit on disk."""

    path: Annotated[str, private("path", unit="path")]
    version: Annotated[str | None, public("version")]  # "12.4.131", "11.8"; None when the folder does not tell
    source: Annotated[str, private("source", grade="noise")]  # the file that told the version
    # "CUDA_HOME", "CUDA_PATH", "PATH", "/usr/local", "conda", "spack" ...
    via: Annotated[str, public("found by", grade="noise")]


class Nvcc(Record, frozen=True):
    """The CUDA compiler that the shell would start."""

    path: Annotated[str, private("path", unit="path")]
    version: Annotated[str, public("version")]  # "13.0.88"


class XlaFile(Record, frozen=True):
    """A file or folder that XLA needs, where it looks for one."""

    path: Annotated[str, private("path", unit="path")]
    # "XLA_FLAGS", "PATH", "the build's toolkit", "/usr/local", "pip wheel", "conda" ...
    via: Annotated[str, private("found by")]
    version: Annotated[str | None, private("version")] = None  # of ptxas: "12.5.82"
    problem: Annotated[str | None, private("problem")] = None  # why it is of no use: "no libdevice.10.bc in it"


class Cuda(Record, frozen=True):
    """CUDA toolkits, wherever they come from."""

    toolkits: Annotated[Fact[tuple[Toolkit, ...]], private("CUDA toolkits", key="path", element="CUDA toolkit {}")] = (
        NOT_EXAMINED
    )
    nvcc: Annotated[Fact[Nvcc], private("nvcc")] = NOT_EXAMINED
    # what XLA compiles for a GPU with, in the order in which this TensorFlow looks
    # folders that it takes for CUDA, there or not
    xla_roots: Annotated[Fact[tuple[XlaFile, ...]], private("folders that XLA takes for CUDA")] = NOT_EXAMINED
    # libdevice.10.bc; the first one counts
    libdevice: Annotated[Fact[tuple[XlaFile, ...]], private("libdevice.10.bc")] = NOT_EXAMINED
    # the first one whose version XLA accepts counts
    ptxas: Annotated[Fact[tuple[XlaFile, ...]], private("ptxas")] = NOT_EXAMINED


LibraryState = Literal["fine", "off path", "unloadable", "other version", "absent"]


class Candidate(Record, frozen=True):
    """A file that carries the wanted soname, and the way the loader would come to it."""

    path: Annotated[str, private("path", unit="path")]
    # in the loader's reach: "already loaded", "RPATH", "LD_LIBRARY_PATH", "RUNPATH", "ldconfig", "default path" ("PATH"
    # on Windows); out of it: "pip wheel", "toolkit", "conda"
    via: Annotated[str, public("found by")]
    reachable: Annotated[bool, public("reachable")]  # the loader looks there
    version: Annotated[str | None, public("version")] = None
    # why the loader refuses or skips it: "empty file", "not ELF", "needs libz.so.1, not found"
    problem: Annotated[str | None, private("problem")] = None
    # what follows from the problem: "skipped" (the loader looks further), "ends the list" (of folders), "fatal" (dlopen
    # fails, whatever lies behind it), "later" (it loads, and fails when used: a part that it opens itself is missing)
    effect: Annotated[str | None, public("effect")] = None

    @property
    def is_in_the_way(self) -> bool:
        """A broken file at which the loader stops; one that merely needs another library is not broken itself."""
        stops = self.effect in (None, "fatal", "ends the list")
        return self.reachable and stops and self.problem is not None and not self.problem.startswith("needs")


class Soname(Record, frozen=True):
    """A library that TensorFlow loads by name, and which file wins."""

    soname: Annotated[str, public("soname")]  # "libcudart.so.12"
    component: Annotated[str, public("component")]  # "cudart", "cublas", "cudnn", "driver" ...
    candidates: Annotated[tuple[Candidate, ...], private("candidates")]  # reachable ones first, in the loader's order
    # path of the file that loads and works; None when there is none, or a broken one in the way
    winner: Annotated[str | None, private("file that is loaded", unit="path")]
    # files of the same library with another soname: ".../libcudart.so.13"
    other_versions: Annotated[tuple[str, ...], private("other versions", unit="path")] = ()

    @property
    def state(self) -> LibraryState:
        """What the candidates come to.

        "off path" also holds when the loader stops at a broken file although a good one exists elsewhere.
        """
        if self.winner:
            return "fine"
        if any(candidate.problem is None for candidate in self.candidates):
            return "off path"
        if self.candidates:
            return "unloadable"
        return "other version" if self.other_versions else "absent"


class Loader(Record, frozen=True):
    """What the dynamic loader does with the libraries that TensorFlow opens by soname."""

    # of the TensorFlow library that calls dlopen, $ORIGIN resolved
    runpath: Annotated[
        Fact[tuple[str, ...]], private("RUNPATH of TensorFlow", unit="path", grade="noise", group="tensorflow")
    ] = NOT_EXAMINED
    sonames: Annotated[
        Fact[tuple[Soname, ...]], private("libraries that TensorFlow opens", key="soname", element="{}:")
    ] = NOT_EXAMINED
    # CUDA libraries in the child's own memory map, after its last phase
    loaded: Annotated[Fact[tuple[str, ...]], private("libraries loaded", unit="path", grade="noise")] = NOT_EXAMINED


class CudnnFile(Record, frozen=True):
    """A cuDNN on disk."""

    path: Annotated[str, private("path", unit="path")]  # of libcudnn.so.N, cudnn64_N.dll or cudnn_version.h
    version: Annotated[str | None, public("version")]
    source: Annotated[str, private("source", grade="noise")]  # file name, header, pip package, conda package


class Cudnn(Record, frozen=True):
    """cuDNN on disk and as loaded."""

    installed: Annotated[Fact[tuple[CudnnFile, ...]], private("cuDNN on disk", key="path", element="cuDNN in {}")] = (
        NOT_EXAMINED
    )
    # cudnnGetVersion() of the file that the loader picks: "9.3.0"
    runtime: Annotated[Fact[str], public("cuDNN loaded", grade="observation")] = NOT_EXAMINED


# ------------------------------------------------------------------------------------- Python


class Package(Record, frozen=True):
    """An installed distribution."""

    name: Annotated[str, public("name")]  # normalised: "tensorflow", "nvidia-cudnn-cu12"
    version: Annotated[str, public("version")]
    location: Annotated[str | None, private("folder", unit="path")] = None  # the folder that holds its dist-info
    installer: Annotated[str | None, public("installer")] = None  # "pip", "conda", "uv"
    requires: Annotated[tuple[str, ...], public("requirements")] = ()  # Requires-Dist; of TensorFlow and what it needs


class DamagedPackage(Record, frozen=True):
    """An installed distribution whose files are not those that its RECORD lists."""

    name: Annotated[str, public("name")]  # normalised: "nvidia-cudnn-cu12"
    version: Annotated[str, public("version")]
    record: Annotated[str, private("RECORD", unit="path")]  # the list that pip or uv wrote when they installed it
    # the first few, as RECORD writes them: "nvidia/cudnn/lib/libcudnn.so.9"
    missing: Annotated[tuple[str, ...], private("missing files")] = ()
    overwritten: Annotated[tuple[str, ...], private("files of another size")] = ()
    files: Annotated[int, public("files that are missing or of another size")] = 0


class FailingFile(Record, frozen=True):
    """A shared library of site-packages that the error of an import names, and the distribution that installed it."""

    path: Annotated[str, private("file", unit="path")]
    package: Annotated[str | None, public("package")] = None  # None: no distribution lists it
    version: Annotated[str | None, public("version of the package")] = None


class ShadowedModule(Record, frozen=True):
    """A module that TensorFlow needs and that Python finds in another folder than that of its installed package."""

    module: Annotated[str, public("module")]  # "keras"
    path: Annotated[str, private("file or folder that is imported", unit="path")]
    version: Annotated[str | None, public("version that is imported")]  # None: there is no distribution in that folder
    package: Annotated[str, public("package")]  # the distribution beside TensorFlow that has this module
    package_version: Annotated[str, public("version of the package")]
    # how the folder came on sys.path: "PYTHONPATH", "current folder", a .pth file; None where it cannot be told
    via: Annotated[str | None, private("found by")] = None
    line: Annotated[int | None, public("line")] = None  # of that .pth file


class OtherPython(Record, frozen=True):
    """An interpreter that may have been meant, and the TensorFlow in it; read from disk, not started."""

    executable: Annotated[str, private("interpreter", unit="path")]
    via: Annotated[str, private("found by")]  # "VIRTUAL_ENV", "CONDA_PREFIX", "kernel python3", "pip on PATH"
    prefix: Annotated[str, private("environment folder", unit="path")]  # the environment's folder
    # "tensorflow 2.20.0"; None: none is installed there
    tensorflow: Annotated[str | None, private("TensorFlow")] = None
    # CUDA's libraries are installed beside it (nvidia-* wheels, conda's cudatoolkit)
    cuda: Annotated[bool, public("has CUDA")] = False


class Kernel(Record, frozen=True):
    """A Jupyter kernel of Python, and the interpreter that it starts."""

    name: Annotated[str, private("name", unit=OWN_NAME)]  # "python3"
    display_name: Annotated[str, private("displayed name", unit=OWN_NAME)]
    file: Annotated[str, private("file", unit="path")]  # its kernel.json
    executable: Annotated[str, private("interpreter", unit="path")]  # resolved; as written where it is nowhere


class Python(Record, frozen=True):
    """The interpreter under test and its packages."""

    executable: Annotated[Fact[str], private("interpreter", unit="path", group="interpreter")] = NOT_EXAMINED
    version: Annotated[Fact[str], public("Python", group="interpreter")] = NOT_EXAMINED  # "3.11.7"
    implementation: Annotated[Fact[str], public("implementation", group="interpreter")] = NOT_EXAMINED  # "cpython"
    bits: Annotated[Fact[int], public("bits", group="interpreter")] = NOT_EXAMINED  # 64 or 32
    prefix: Annotated[Fact[str], private("environment folder", unit="path", grade="noise", group="interpreter")] = (
        NOT_EXAMINED
    )
    # "venv", "conda", "system", "pyenv"
    environment: Annotated[Fact[str], public("kind of environment", group="interpreter")] = NOT_EXAMINED
    # PEP 668
    externally_managed: Annotated[Fact[bool], public("managed by the distribution", group="interpreter")] = NOT_EXAMINED
    # the user's own site-packages; unknown("not on sys.path") when switched off
    user_site: Annotated[Fact[str], private("user's own site-packages", unit="path")] = NOT_EXAMINED
    pip: Annotated[Fact[bool], public("pip")] = NOT_EXAMINED  # `python -m pip` would start
    # of pip, uv, conda, mamba, poetry, pixi: those on PATH
    installers: Annotated[Fact[tuple[str, ...]], public("installers on PATH")] = NOT_EXAMINED
    # TensorFlow's family, nvidia-*, numpy, protobuf, keras
    packages: Annotated[Fact[tuple[Package, ...]], private("packages", key="name")] = NOT_EXAMINED
    # of these packages, those whose files are missing or overwritten; empty: all are as they were installed
    damaged: Annotated[Fact[tuple[DamagedPackage, ...]], private("damaged packages", key="name")] = NOT_EXAMINED
    # shared libraries that the error of the import names; empty where it names none, or nothing failed
    failing_files: Annotated[Fact[tuple[FailingFile, ...]], private("files that fail to load", key="path")] = (
        NOT_EXAMINED
    )
    # every `tensorflow` importable over sys.path, winner first
    tensorflow_paths: Annotated[Fact[tuple[str, ...]], private("`import tensorflow` finds", unit="path")] = NOT_EXAMINED
    # modules that TensorFlow needs, imported from elsewhere
    shadowed: Annotated[Fact[tuple[ShadowedModule, ...]], private("shadowed modules", key="module")] = NOT_EXAMINED
    kernels: Annotated[Fact[tuple[Kernel, ...]], private("Jupyter kernels")] = NOT_EXAMINED  # Jupyter's, of Python
    # of other environments than this one
    elsewhere: Annotated[Fact[tuple[OtherPython, ...]], private("other environments")] = NOT_EXAMINED
    # matrix platform: "linux_x86_64", "macos_arm64" ...
    wheel_platform: Annotated[Fact[str], public("platform of wheels", group="system")] = NOT_EXAMINED


# --------------------------------------------------------------------------------- TensorFlow


class Phase(Record, frozen=True):
    """One step of the examination in the child process, and how it ended."""

    # "interpreter", "packages", "import", "keras", "build", "devices", "details", "compute", "xla"
    name: Annotated[str, public("name")]
    outcome: Annotated[str, public("outcome")]  # "ok", "raised", "died", "timeout", "skipped"
    seconds: Annotated[float | None, public("seconds", unit="s", grade="noise")] = None
    # "ImportError: libcudart.so.11.0: cannot open shared object file"
    exception: Annotated[str | None, private("exception")] = None
    traceback: Annotated[tuple[str, ...], private("traceback", grade="noise")] = ()  # last lines
    signal: Annotated[str | None, public("signal")] = None  # "SIGSEGV", "SIGKILL"
    exit_code: Annotated[int | None, public("exit code")] = None
    # last lines written to stderr when it ended badly
    log_tail: Annotated[tuple[str, ...], private("end of its log", grade="noise")] = ()
    # why it was skipped; "killed by the kernel's OOM killer"
    note: Annotated[str | None, private("note", grade="noise")] = None
    # how long it had neither used the CPU nor read anything when it was stopped for that
    idle: Annotated[float | None, public("idle", unit="s", grade="noise")] = None


class Build(Record, frozen=True):
    """tf.sysconfig.get_build_info()."""

    is_cuda_build: Annotated[bool, public("built with CUDA")]
    is_rocm_build: Annotated[bool, public("built with ROCm")] = False
    cuda_version: Annotated[str | None, public("CUDA")] = None  # "12.5.1"
    cudnn_version: Annotated[str | None, public("cuDNN")] = None  # "9"
    compute_capabilities: Annotated[tuple[str, ...], public("compute capabilities")] = ()  # "sm_60", "compute_90"


class TfDevice(Record, frozen=True):
    """A device that TensorFlow lists."""

    name: Annotated[str, public("name")]  # "/physical_device:GPU:0"
    kind: Annotated[str, public("kind")]  # "GPU", "CPU"
    device_name: Annotated[str | None, private("model")] = None  # "NVIDIA H200"
    compute_capability: Annotated[str | None, public("compute capability")] = None  # "9.0"


def lists_gpu(devices: Iterable[TfDevice] | None) -> bool:
    """Whether there is a GPU among the devices that TensorFlow lists; of unknown devices, it is not known to be."""
    return any(device.kind == "GPU" for device in devices or ())


class ComputeCheck(Record, frozen=True):
    """A verified computation on one device."""

    device: Annotated[str, public("device")]  # "/GPU:0"
    kind: Annotated[str, public("kind")]  # "matmul", "conv2d", "xla"
    ok: Annotated[bool, public("verified")]
    placed_on: Annotated[str | None, public("placed on")] = None  # device that the result's tensor names
    residual: Annotated[float | None, public("relative error")] = None  # relative, against NumPy in float64
    tolerance: Annotated[float | None, public("tolerance")] = None
    seconds: Annotated[float | None, public("seconds", unit="s")] = None
    error: Annotated[str | None, private("error")] = None


class TensorFlow(Record, frozen=True):
    """TensorFlow as it answered in a child process."""

    # tf.__version__, or the distribution's version when it cannot be imported
    version: Annotated[Fact[str], public("TensorFlow", group="tensorflow")] = NOT_EXAMINED
    # "tensorflow", "tensorflow-cpu", "tensorflow-macos" ...
    distribution: Annotated[Fact[str], public("distribution of TensorFlow", group="tensorflow")] = NOT_EXAMINED
    # tf.__file__
    file: Annotated[Fact[str], private("tf.__file__", unit="path", grade="noise", group="tensorflow")] = NOT_EXAMINED
    build: Annotated[Fact[Build], private("built for", group="tensorflow")] = NOT_EXAMINED
    devices: Annotated[
        Fact[tuple[TfDevice, ...]], private("TensorFlow lists", layer="Devices", grade="observation")
    ] = NOT_EXAMINED
    checks: Annotated[Fact[tuple[ComputeCheck, ...]], private("computations", layer="Compute", grade="observation")] = (
        NOT_EXAMINED
    )
    phases: Annotated[tuple[Phase, ...], private("phases", grade="observation", key="name", element="phase {}:")] = ()
    # what TensorFlow wrote to stderr, at most 400 lines
    log: Annotated[Fact[tuple[str, ...]], private("TensorFlow's log", unit="lines", grade="noise")] = NOT_EXAMINED


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that a program printed and the catalogue of messages knows (parsers/messages.py)."""

    kind: Annotated[str, public("kind")]  # "cuinit-failed"
    line: Annotated[int, public("line")]  # where it stands, 1-based; in a live report the line of TensorFlow's log
    text: Annotated[str, private("text")]  # the line, at most 300 characters
    values: Annotated[dict[str, str], private("values")] = {}
    count: Annotated[int, public("count")] = 1  # how often it was printed
    # whose line: "TensorFlow's log" in a live report; None in a pasted text
    source: Annotated[str | None, private("source")] = None
