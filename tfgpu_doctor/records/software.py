"""What is known about the software on a machine: CUDA, the loader, cuDNN, Python, TensorFlow."""

from __future__ import annotations

from msgspec import Struct

from tfgpu_doctor.records.fact import NOT_EXAMINED, Fact, Record

# --------------------------------------------------------------------------------------- CUDA


class Toolkit(Record, frozen=True):
    """A CUDA toolkit on disk."""

    path: str
    version: str | None  # "12.4.131", "11.8"; None when the folder does not tell
    source: str  # the file that told the version
    via: str  # "CUDA_HOME", "CUDA_PATH", "PATH", "/usr/local", "conda", "spack" ...


class Nvcc(Record, frozen=True):
    """The CUDA compiler that the shell would start."""

    path: str
    version: str  # "13.0.88"


class XlaFile(Record, frozen=True):
    """A file or folder that XLA needs, where it looks for one."""

    path: str
    via: str  # "XLA_FLAGS", "PATH", "the build's toolkit", "/usr/local", "pip wheel", "conda" ...
    version: str | None = None  # of ptxas: "12.5.82"
    problem: str | None = None  # why it is of no use: "no libdevice.10.bc in it"


class Cuda(Record, frozen=True):
    """CUDA toolkits, wherever they come from."""

    toolkits: Fact[tuple[Toolkit, ...]] = NOT_EXAMINED
    nvcc: Fact[Nvcc] = NOT_EXAMINED
    # what XLA compiles for a GPU with, in the order in which this TensorFlow looks
    xla_roots: Fact[tuple[XlaFile, ...]] = NOT_EXAMINED  # folders that it takes for CUDA, there or not
    libdevice: Fact[tuple[XlaFile, ...]] = NOT_EXAMINED  # libdevice.10.bc; the first one counts
    ptxas: Fact[tuple[XlaFile, ...]] = NOT_EXAMINED  # the first one whose version XLA accepts counts
    conda_packages: Fact[tuple[Package, ...]] = NOT_EXAMINED  # cuda*, cudnn, cudatoolkit, tensorflow* from conda-meta


class Candidate(Record, frozen=True):
    """A file that carries the wanted soname, and the way the loader would come to it."""

    path: str
    # in the loader's reach: "already loaded", "RPATH", "LD_LIBRARY_PATH", "RUNPATH", "ldconfig", "default path" ("PATH"
    # on Windows); out of it: "pip wheel", "toolkit", "conda"
    via: str
    reachable: bool  # the loader looks there
    version: str | None = None
    problem: str | None = (
        None  # why the loader refuses or skips it: "empty file", "not ELF", "needs libz.so.1, not found"
    )
    # what follows from the problem: "skipped" (the loader looks further), "ends the list" (of folders), "fatal" (dlopen
    # fails, whatever lies behind it), "later" (it loads, and fails when used: a part that it opens itself is missing)
    effect: str | None = None


class Soname(Record, frozen=True):
    """A library that TensorFlow loads by name, and which file wins."""

    soname: str  # "libcudart.so.12"
    component: str  # "cudart", "cublas", "cudnn", "driver" ...
    candidates: tuple[Candidate, ...]  # reachable ones first, in the loader's order
    winner: str | None  # path of the file that loads and works; None when there is none, or a broken one in the way
    other_versions: tuple[str, ...] = ()  # files of the same library with another soname: ".../libcudart.so.13"


class Loader(Record, frozen=True):
    """What the dynamic loader does with the libraries that TensorFlow opens by soname."""

    search_path: Fact[tuple[str, ...]] = NOT_EXAMINED  # LD_LIBRARY_PATH as the interpreter under test gets it
    runpath: Fact[tuple[str, ...]] = NOT_EXAMINED  # of the TensorFlow library that calls dlopen, $ORIGIN resolved
    sonames: Fact[tuple[Soname, ...]] = NOT_EXAMINED
    loaded: Fact[tuple[str, ...]] = NOT_EXAMINED  # CUDA libraries in the child's own memory map, after its last phase


class CudnnFile(Record, frozen=True):
    """A cuDNN on disk."""

    path: str  # of libcudnn.so.N, cudnn64_N.dll or cudnn_version.h
    version: str | None
    source: str  # file name, header, pip package, conda package


class Cudnn(Record, frozen=True):
    """cuDNN on disk and as loaded."""

    installed: Fact[tuple[CudnnFile, ...]] = NOT_EXAMINED
    header: Fact[CudnnFile] = NOT_EXAMINED
    runtime: Fact[str] = NOT_EXAMINED  # cudnnGetVersion() of the file that the loader picks: "9.3.0"


# ------------------------------------------------------------------------------------- Python


class Package(Record, frozen=True):
    """An installed distribution."""

    name: str  # normalised: "tensorflow", "nvidia-cudnn-cu12"
    version: str
    location: str | None = None  # the folder that holds its dist-info
    installer: str | None = None  # "pip", "conda", "uv"
    requires: tuple[str, ...] = ()  # Requires-Dist lines; only of TensorFlow itself


class OtherPython(Record, frozen=True):
    """An interpreter that may have been meant, and the TensorFlow in it; read from disk, not started."""

    executable: str
    via: str  # "VIRTUAL_ENV", "CONDA_PREFIX", "kernel python3", "pip on PATH"
    prefix: str  # the environment's folder
    tensorflow: str | None = None  # "tensorflow 2.20.0"; None: none is installed there
    cuda: bool = False  # CUDA's libraries are installed beside it (nvidia-* wheels, conda's cudatoolkit)


class Kernel(Record, frozen=True):
    """A Jupyter kernel of Python, and the interpreter that it starts."""

    name: str  # "python3"
    display_name: str
    file: str  # its kernel.json
    executable: str  # resolved; as written where it is nowhere


class Python(Record, frozen=True):
    """The interpreter under test and its packages."""

    executable: Fact[str] = NOT_EXAMINED
    version: Fact[str] = NOT_EXAMINED  # "3.11.7"
    implementation: Fact[str] = NOT_EXAMINED  # "cpython"
    bits: Fact[int] = NOT_EXAMINED  # 64 or 32
    prefix: Fact[str] = NOT_EXAMINED
    environment: Fact[str] = NOT_EXAMINED  # "venv", "conda", "system", "pyenv"
    conda_name: Fact[str] = NOT_EXAMINED
    externally_managed: Fact[bool] = NOT_EXAMINED  # PEP 668
    user_site: Fact[str] = NOT_EXAMINED  # the user's own site-packages; unknown("not on sys.path") when switched off
    pip: Fact[bool] = NOT_EXAMINED  # `python -m pip` would start
    installers: Fact[tuple[str, ...]] = NOT_EXAMINED  # of pip, uv, conda, mamba, poetry, pixi: those on PATH
    packages: Fact[tuple[Package, ...]] = NOT_EXAMINED  # TensorFlow's family, nvidia-*, numpy, protobuf, keras
    tensorflow_paths: Fact[tuple[str, ...]] = NOT_EXAMINED  # every `tensorflow` importable over sys.path, winner first
    # folders named tensorflow without __init__.py (left by an uninstall): imported only when nothing else is there
    tensorflow_leftovers: Fact[tuple[str, ...]] = NOT_EXAMINED
    kernels: Fact[tuple[Kernel, ...]] = NOT_EXAMINED  # Jupyter's, of Python
    elsewhere: Fact[tuple[OtherPython, ...]] = NOT_EXAMINED  # of other environments than this one
    wheel_platform: Fact[str] = NOT_EXAMINED  # matrix platform: "linux_x86_64", "macos_arm64" ...


# --------------------------------------------------------------------------------- TensorFlow


class Phase(Record, frozen=True):
    """One step of the examination in the child process, and how it ended."""

    name: str  # "interpreter", "packages", "import", "build", "devices", "details", "compute", "xla"
    outcome: str  # "ok", "raised", "died", "timeout", "skipped"
    seconds: float | None = None
    exception: str | None = None  # "ImportError: libcudart.so.11.0: cannot open shared object file"
    traceback: tuple[str, ...] = ()  # last lines
    signal: str | None = None  # "SIGSEGV", "SIGKILL"
    exit_code: int | None = None
    log_tail: tuple[str, ...] = ()  # last lines written to stderr when it ended badly
    note: str | None = None  # why it was skipped; "killed by the kernel's OOM killer"


class Build(Record, frozen=True):
    """tf.sysconfig.get_build_info()."""

    is_cuda_build: bool
    is_rocm_build: bool = False
    cuda_version: str | None = None  # "12.5.1"
    cudnn_version: str | None = None  # "9"
    compute_capabilities: tuple[str, ...] = ()  # "sm_60", "compute_90"


class TfDevice(Record, frozen=True):
    """A device that TensorFlow lists."""

    name: str  # "/physical_device:GPU:0"
    kind: str  # "GPU", "CPU"
    device_name: str | None = None  # "NVIDIA H200"
    compute_capability: str | None = None  # "9.0"


class ComputeCheck(Record, frozen=True):
    """A verified computation on one device."""

    device: str  # "/GPU:0"
    kind: str  # "matmul", "conv2d", "xla"
    ok: bool
    placed_on: str | None = None  # device that the result's tensor names
    residual: float | None = None  # relative, against NumPy in float64
    tolerance: float | None = None
    seconds: float | None = None
    error: str | None = None


class TensorFlow(Record, frozen=True):
    """TensorFlow as it answered in a child process."""

    version: Fact[str] = NOT_EXAMINED  # tf.__version__, or the distribution's version when it cannot be imported
    distribution: Fact[str] = NOT_EXAMINED  # "tensorflow", "tensorflow-cpu", "tensorflow-macos" ...
    file: Fact[str] = NOT_EXAMINED  # tf.__file__
    build: Fact[Build] = NOT_EXAMINED
    devices: Fact[tuple[TfDevice, ...]] = NOT_EXAMINED
    checks: Fact[tuple[ComputeCheck, ...]] = NOT_EXAMINED
    phases: tuple[Phase, ...] = ()
    log: Fact[tuple[str, ...]] = NOT_EXAMINED  # what TensorFlow wrote to stderr, at most 400 lines


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that a program printed and the catalogue of messages knows (parsers/messages.py)."""

    kind: str  # "cuinit-failed"
    line: int  # where it stands, 1-based; in a live report the line of TensorFlow's log
    text: str  # the line, at most 300 characters
    values: dict[str, str] = {}
    count: int = 1  # how often it was said
    source: str | None = None  # whose line: "TensorFlow's log" in a live report; None in a pasted text
