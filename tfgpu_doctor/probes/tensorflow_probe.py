"""Examines the TensorFlow of the interpreter that runs it, and tells each step as soon as it is done.

Runs on Python 3.6 and newer with the standard library alone, so it can also be copied to another machine
and started by hand (``python tensorflow_probe.py``). Standard output gets one JSON object on each line:

    {"tfgpu": "patient/1", "event": "start", "phase": "import"}
    {"tfgpu": "patient/1", "event": "end", "phase": "import", "outcome": "ok", "seconds": 1.9, "data": {...}}

so that whoever reads knows in which phase the process raised, hung or died. Everything else that is written
to standard output, by TensorFlow or its libraries, goes to standard error. No environment variable is changed.

Options: ``--until PHASE`` stops after that phase; ``--kind CPU`` runs the computations on the devices of that kind
instead of the GPUs.
"""
# Annotations are quoted and f-strings stay simple: Python 3.6 reads this file.

import os
import sys

# The search path of the user's own `python -c`. The doctor's launch.py leaves it under this name, and has taken the
# current directory off sys.path: what this script imports for itself does not come from there.
if "PATH" not in globals():
    PATH = list(sys.path)
    if __name__ == "__main__" and PATH[0] == os.path.dirname(os.path.abspath(__file__)):  # started by hand, as a script
        PATH[0] = ""
        del sys.path[0]
CLEAN = list(sys.path)
BEFORE = frozenset(sys.modules)  # what Python's own start imports

import json  # noqa: E402
import time  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List

    Data = Dict[str, Any]

PHASES = ("interpreter", "packages", "import", "keras", "build", "devices", "details", "compute", "xla")
NEEDS = dict.fromkeys(("details", "compute", "xla"), "devices")
NEEDS.update(dict.fromkeys(("keras", "build", "devices"), "import"))

# Distributions that can be TensorFlow itself: their requirements, and those of what they require, are of interest.
TENSORFLOWS = (
    "tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-macos", "tensorflow-intel", "tensorflow-cpu-aws",
    "tensorflow-aarch64", "tensorflow-rocm", "intel-tensorflow", "intel-tensorflow-avx512", "tensorflow-directml",
    "tf-nightly", "tf-nightly-gpu", "tf-nightly-cpu", "nvidia-tensorflow",
)  # fmt: skip
FAMILIES = ("tensorflow", "tf-", "intel-tensorflow", "keras", "tensorboard", "nvidia-", "cuda-", "tensorrt", "jax")
OTHERS = frozenset((
    "absl-py", "astunparse", "flatbuffers", "gast", "google-pasta", "grpcio", "h5py", "libclang", "ml-dtypes",
    "numpy", "opt-einsum", "optree", "packaging", "pip", "protobuf", "requests", "scipy", "setuptools", "six",
    "tb-nightly", "termcolor", "torch", "triton", "typing-extensions", "wheel", "wrapt",
))  # fmt: skip

CUDA_LIBRARIES = (
    "libcuda.", "libcudart", "libcublas", "libcudnn", "libcufft", "libcurand", "libcusolver", "libcusparse",
    "libnccl", "libnvrtc", "libnvJitLink", "libnvinfer", "libcupti", "libnvidia-", "libtensorflow",
)  # fmt: skip

# Frobenius norm of the error relative to that of the result. TensorFlow multiplies float32 in TF32 on Ampere and
# newer (10 bits of mantissa), which leaves 3e-4 for normally distributed entries; a wrong result is off by about 1.
TOLERANCE = 5e-3
TRACE_LINES = 40
TEXT_LIMIT = 2000

events = 1  # file descriptor that the events go to
speaker = os.getpid()  # a process that an import forks off is not the one under test: it does not speak


class Skipped(Exception):
    """A phase that has nothing to do here; the message says why."""


class State:
    """What a phase leaves for the next ones."""

    def __init__(self, kind: "str") -> "None":
        self.kind = kind  # of the devices that shall compute
        self.devices: "List[Any]" = []  # physical devices of that kind
        self.tf: "Any" = None
        self.np: "Any" = None


# ------------------------------------------------------------------------------------- telling


def say(event: "str", phase: "str", **fields: "Any") -> "None":
    if os.getpid() != speaker:
        return
    fields.update(tfgpu="patient/1", event=event, phase=phase)
    # names of files may hold bytes that are no UTF-8: the reader must never stumble over them
    data = (json.dumps(fields, ensure_ascii=False) + "\n").encode("utf-8", "replace")
    while data:
        data = data[os.write(events, data) :]


def text_of(error: "BaseException") -> "str":
    try:
        text = str(error)
    except BaseException:  # whatever the stranger's __str__ does, its class is still worth telling
        text = "<message cannot be printed>"
    name = type(error).__name__
    return (name + ": " + text if text else name)[:TEXT_LIMIT]


def traceback_of(error: "BaseException") -> "List[str]":
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:  # what this script does is no clue
        trace = trace.tb_next
    try:
        text = "".join(apart(own("traceback").format_exception, type(error), error, trace))
    except BaseException:  # as above: formatting runs the stranger's code
        return []
    return [line[:TEXT_LIMIT] for line in text.splitlines()[-TRACE_LINES:]]


# ------------------------------------------------------------------------------ the search path


def apart(work: "Callable[..., Any]", *arguments: "Any") -> "Any":
    """Let `work` import nothing from the current directory, not even later, as `traceback` does."""
    path, sys.path[:] = list(sys.path), CLEAN
    try:
        return work(*arguments)
    finally:
        sys.path[:] = path


def own(name: "str") -> "Any":
    """Import a module of the standard library."""
    return apart(__import__, name)


def find(name: "str") -> "Any":
    """The spec that `import name` would find on the user's path; executes nothing that lies there."""
    from importlib.machinery import PathFinder

    for finder in sys.meta_path:
        if hasattr(finder, "find_spec"):  # else it is one from before Python 3.4
            spec = finder.find_spec(name, PATH if finder is PathFinder else None)
            if spec is not None:
                return spec
    return None


def reveal() -> "None":
    """Let TensorFlow import what the user's own `python -c "import tensorflow"` imports.

    What this script has imported for itself is forgotten where the user's path has another module of that name first:
    a json.py of theirs that breaks the import of TensorFlow has to break it here, too.
    """
    for name in {module.partition(".")[0] for module in set(sys.modules) - BEFORE}:
        spec, ours = find(name), getattr(sys.modules.get(name), "__spec__", None)
        if spec is not None and ours is not None and spec.origin != ours.origin:
            for module in list(sys.modules):
                if module.partition(".")[0] == name and module not in BEFORE:
                    del sys.modules[module]
    sys.path[:] = PATH


# -------------------------------------------------------------------------- interpreter, packages


def interpreter(_state: "State") -> "Data":
    base: "str" = getattr(sys, "real_prefix", sys.base_prefix)  # real_prefix: virtualenv before 20
    site = sys.modules.get("site")
    user_site = getattr(site, "USER_SITE", None)
    bits = 64 if sys.maxsize > 2**32 else 32
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
    return {
        "executable": sys.executable,
        "version": sys.version.split()[0].rstrip("+"),
        "implementation": sys.implementation.name,
        "bits": bits,
        "prefix": sys.prefix,
        "environment": kind_of_environment(sys.prefix, base),
        "externally_managed": sys.prefix == base
        and os.path.isfile(os.path.join(os.path.dirname(os.__file__), "EXTERNALLY-MANAGED")),
        "user_site": user_site if user_site in PATH else None,
        "wheel_platform": wheel_platform(sys.platform, machine, bits),
        "sys_path": list(folders()),
    }


def wheel_platform(platform: "str", machine: "str", bits: "int") -> "str":
    """The platform of wheels, as the doctor's matrix names it."""
    name = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(platform, platform)
    machine = machine.lower()
    if bits == 32:
        machine = {"x86_64": "i686", "amd64": "x86", "aarch64": "armv7l"}.get(machine, machine)
    return name + "_" + machine


def kind_of_environment(prefix: "str", base: "str") -> "str":
    if prefix != base:
        return "venv"
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        return "conda"
    roots = (os.path.join("", ".pyenv", "versions", ""), os.environ.get("PYENV_ROOT", "") or os.sep * 3)
    return "pyenv" if any(root in prefix + os.sep for root in roots) else "system"


def folders() -> "Iterator[str]":
    """The folders of the user's sys.path, without repetition, the current one by its name."""
    seen = set()
    for entry in PATH:
        try:
            folder = entry or os.getcwd()
        except OSError:  # the current folder has been removed
            continue
        if folder not in seen:
            seen.add(folder)
            yield folder


def metadata() -> "Iterator[str]":
    """The folders and files that describe the distributions on the user's path."""
    seen = set()  # where they really lie: lib64 is often a link to lib
    for folder in folders():
        try:
            names = sorted(os.listdir(folder))
        except OSError:  # missing, a zip file, not readable: nothing can be imported from files there
            continue
        for path in (os.path.join(folder, name) for name in names if name.endswith((".dist-info", ".egg-info"))):
            if os.path.realpath(path) not in seen:
                seen.add(os.path.realpath(path))
                yield path


def packages(_state: "State") -> "Data":
    named = [(normal(os.path.basename(path)), path) for path in metadata()]
    read: "Dict[str, Data]" = {}
    needed, new = set(), set(TENSORFLOWS)
    while new:  # also at second hand: nothing is called missing that was not looked for
        read.update((path, distribution(path)) for name, path in named if name in new)
        needed |= new
        new = {required_name(line) for name, path in named if name in new for line in read[path]["requires"]} - needed
    for name, path in named:
        if path not in read and matters(name):
            read[path] = dict(distribution(path), requires=[])
    return {
        "packages": [read[path] for _, path in named if path in read],
        "pip": find("pip") is not None,
        **tensorflow_paths(find("tensorflow")),
    }


def normal(name: "str") -> "str":
    """Normalised project name out of a file name such as "typing_extensions-4.12.2.dist-info"."""
    return required_name(name.rsplit(".", 1)[0].split("-", 1)[0])


def required_name(requirement: "str") -> "str":
    """Normalised project name of a line such as "google-pasta >=0.1.1"."""
    name = requirement
    for mark in " ;[(<>=!~":
        name = name.split(mark, 1)[0]
    return name.replace("_", "-").replace(".", "-").lower()


def matters(project: "str") -> "bool":
    return project in OTHERS or project.startswith(FAMILIES)


def distribution(path: "str") -> "Data":
    """Read name, version and requirements, those of extras for TensorFlow alone. (importlib.metadata costs 40 ms.)"""
    stem = os.path.basename(path).rsplit(".", 1)[0].split("-")
    project = normal(os.path.basename(path))
    version = stem[1] if len(stem) > 1 else ""
    requires: "List[str]" = []
    for name in ("METADATA", "PKG-INFO", ""):
        headers = read(os.path.join(path, name) if name else path).split("\n\n", 1)[0]
        if headers:
            break
    for line in headers.splitlines():
        key, _, value = line.partition(": ")
        if key == "Version":
            version = value.strip()
        elif key == "Requires-Dist" and (project in TENSORFLOWS or "extra" not in value):
            requires.append(value.strip())
    return {
        "name": project,
        "version": version,
        "location": os.path.dirname(path),
        "installer": read(os.path.join(path, "INSTALLER")).strip() or None,
        "requires": requires,
    }


def read(path: "str") -> "str":
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib costs time
            return file.read()
    except OSError:
        return ""


def tensorflow_paths(spec: "Any") -> "Data":
    """Every `tensorflow` that Python could import, the winner first; folders without __init__ are its last resort."""
    import importlib.machinery

    paths = []
    for folder in folders():
        path = os.path.join(folder, "tensorflow")
        if any(os.path.isfile(os.path.join(path, "__init__" + suffix)) for suffix in (".py", ".pyc")):
            paths.append(path)
        paths += [path + end for end in importlib.machinery.all_suffixes() if os.path.isfile(path + end)]
    origin = getattr(spec, "origin", None)
    if origin and origin != "namespace":  # an import hook (editable install) may find it outside of sys.path
        winner = os.path.dirname(origin) if spec.submodule_search_locations else origin
        paths = [winner] + [path for path in paths if path != winner]
    return {"tensorflow_paths": paths}


# ------------------------------------------------------------------------------------ TensorFlow


def import_tensorflow(state: "State") -> "Data":
    reveal()
    import tensorflow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    state.tf = tensorflow
    version, file = (getattr(tensorflow, name, None) for name in ("__version__", "__file__"))
    problem = None if version is not None else "the module has no __version__"
    if version is not None and not isinstance(version, str):
        version, problem = None, "tf.__version__ is not a string but a %s" % type(version).__name__
    return {"version": version, "file": file if isinstance(file, str) else None, "problem": problem}


def keras(state: "State") -> "Data":
    """Load tf.keras, which TensorFlow 2.16 and newer do on first use, and whose errors at import they swallow."""
    module = getattr(state.tf, "keras", None)
    if module is None:
        raise Skipped("this TensorFlow has no tf.keras")
    _ = module.layers
    return {}


def build(state: "State") -> "Data":
    if hasattr(state.tf.sysconfig, "get_build_info"):  # TensorFlow 2.3 and newer
        info = dict(state.tf.sysconfig.get_build_info())
        source = "tf.sysconfig.get_build_info()"
    else:
        from tensorflow.python.platform import build_info  # type: ignore[import-not-found, import-untyped, unused-ignore]

        info = dict(getattr(build_info, "build_info", {}))
        info.setdefault("is_cuda_build", state.tf.test.is_built_with_cuda())
        info.setdefault("cuda_version", getattr(build_info, "cuda_version_number", None))
        info.setdefault("cudnn_version", getattr(build_info, "cudnn_version_number", None))
        source = "tensorflow.python.platform.build_info"
    capabilities = info.get("cuda_compute_capabilities") or ()
    if isinstance(capabilities, str):
        capabilities = [part for part in capabilities.replace(",", " ").split() if part]
    answer: "Data" = {name: bool(info.get(name)) for name in ("is_cuda_build", "is_rocm_build")}
    answer.update((name, str(info[name]) if info.get(name) else None) for name in ("cuda_version", "cudnn_version"))
    answer["compute_capabilities"] = [str(capability) for capability in capabilities]
    return {"build": answer, "source": source}


def devices(state: "State") -> "Data":
    config = state.tf.config
    if not hasattr(config, "list_physical_devices"):  # TensorFlow 1.14 to 2.0
        config = config.experimental
    found = config.list_physical_devices()
    state.devices = [device for device in found if device.device_type == state.kind]
    return {"devices": [{"name": str(device.name), "kind": str(device.device_type)} for device in found]}


def details(state: "State") -> "Data":
    gpus = [device for device in state.devices if device.device_type == "GPU"]
    if not gpus:
        raise Skipped("TensorFlow lists no GPU")
    if not hasattr(state.tf.config.experimental, "get_device_details"):
        raise Skipped("TensorFlow before 2.4 cannot tell")
    answers = []
    for device in gpus:
        answer = state.tf.config.experimental.get_device_details(device)
        name, capability = answer.get("device_name"), answer.get("compute_capability")
        answers.append({
            "name": str(device.name), "kind": str(device.device_type), "device_name": str(name) if name else None,
            "compute_capability": ".".join(str(part) for part in capability) if capability else None,
        })  # fmt: skip
    return {"devices": answers}


# ---------------------------------------------------------------------------------- computations


def compute(state: "State") -> "Data":
    """A matrix product and a convolution on every device, each compared with NumPy in float64."""
    prepare(state)
    tf, numpy = state.tf, state.np
    draw = numpy.random.RandomState(0)
    a, b = draw.randn(256, 384).astype("float32"), draw.randn(384, 128).astype("float32")
    image, kernel = draw.randn(4, 32, 32, 16).astype("float32"), draw.randn(3, 3, 16, 32).astype("float32")
    product = a.astype("float64").dot(b.astype("float64"))
    convolution = sum(
        numpy.tensordot(image[:, i : i + 30, j : j + 30].astype("float64"), kernel[i, j].astype("float64"), 1)
        for i in range(3)
        for j in range(3)
    )
    for number in range(len(state.devices)):
        device = "/%s:%d" % (state.kind, number)
        check(state, "compute", device, "matmul", lambda: tf.matmul(tf.constant(a), tf.constant(b)), product)
        check(
            state, "compute", device, "conv2d",
            lambda: tf.nn.conv2d(tf.constant(image), tf.constant(kernel), strides=[1, 1, 1, 1], padding="VALID"),
            convolution,
        )  # fmt: skip
    return {}


def xla(state: "State") -> "Data":
    """A function that XLA compiles for the first device: needs libdevice (sine, power) and ptxas on a GPU."""
    inspect = own("inspect")
    prepare(state)
    tf, numpy = state.tf, state.np

    options = inspect.getfullargspec(inspect.unwrap(tf.function))
    names = options.args + options.kwonlyargs
    option = next((name for name in ("jit_compile", "experimental_compile") if name in names), None)
    if option is None:
        raise Skipped("TensorFlow before 2.1 compiles no single function")

    chosen = {option: True}
    if "autograph" in names:
        chosen["autograph"] = False  # it would write a file, which stays behind when this process ends at once
    x = numpy.random.RandomState(1).rand(64, 64).astype("float32") + 1
    wide = x.astype("float64")
    compiled = tf.function(lambda t: tf.sin(t) * tf.pow(t, 1.7) + tf.matmul(t, t), **chosen)
    check(
        state, "xla", "/%s:0" % state.kind, "xla",
        lambda: compiled(tf.constant(x)), numpy.sin(wide) * wide**1.7 + wide.dot(wide),
    )  # fmt: skip
    return {}


def prepare(state: "State") -> "None":
    if not state.devices:
        raise Skipped("TensorFlow lists no " + state.kind)
    if not state.tf.executing_eagerly():  # TensorFlow 1.x
        state.tf.compat.v1.enable_eager_execution()
    for device in state.devices:
        if device.device_type == "GPU":
            # Without this TensorFlow takes nearly all memory of every GPU, also of those that others work on.
            # It refuses when the devices are in use already (the second call) or divided into logical ones.
            with own("contextlib").suppress(RuntimeError, ValueError):
                state.tf.config.experimental.set_memory_growth(device, True)
    import numpy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    state.np = numpy


def check(
    state: "State", phase: "str", device: "str", kind: "str", work: "Callable[[], Any]", expected: "Any"
) -> "None":
    """Do `work` on `device`, compare with `expected` and tell; what it raises is told as the result."""
    tf, numpy = state.tf, state.np
    say("checking", phase, data={"device": device, "kind": kind})
    result: "Data" = {"device": device, "kind": kind, "ok": False, "tolerance": TOLERANCE}
    started = time.perf_counter()
    try:
        with tf.device(device):
            tensor = work()
        value = numpy.asarray(tensor.numpy(), dtype="float64")
        result["seconds"] = time.perf_counter() - started
        result["placed_on"] = str(tensor.device)
        if value.shape != expected.shape:
            result["error"] = "the result's shape is %r, not %r" % (value.shape, expected.shape)
        elif not numpy.isfinite(value).all():
            result["error"] = "the result holds NaN or infinity"
        else:
            residual = float(numpy.linalg.norm(value - expected) / numpy.linalg.norm(expected))
            result.update(verdict(device, result["placed_on"], residual))
    except BaseException as error:  # as in `examine`
        result["error"] = text_of(error)
    say("check", phase, data=result)


def verdict(device: "str", placed_on: "str", residual: "float") -> "Data":
    if placed_on.upper().split(":")[-2:] != device.upper().lstrip("/").split(":"):
        return {"residual": residual, "error": "asked for %s, computed on %s" % (device, placed_on)}
    if residual > TOLERANCE:
        text = "wrong result: off by %.2g of its size, at most %.2g can be rounding" % (residual, TOLERANCE)
        return {"residual": residual, "error": text}
    return {"residual": residual, "ok": True}


# ----------------------------------------------------------------------------- what has been loaded


def tell_loaded(phase: "str") -> "List[str]":
    """Tell the CUDA libraries in this process's memory, with their paths."""
    try:
        with open("/proc/self/maps", errors="replace") as file:  # noqa: PTH123
            lines = [line.rstrip("\n") for line in file]
    except OSError:  # there is no memory map to look at on macOS and Windows
        return []
    found = {line[line.find("/") :] for line in lines if "/" in line}
    paths = sorted(path for path in found if os.path.basename(path).startswith(CUDA_LIBRARIES))
    say("loaded", phase, data={"libraries": paths})
    return paths


def tell_cudnn(paths: "List[str]") -> "None":
    """Ask the cuDNN that TensorFlow has loaded for its version."""
    library = next((path for path in paths if os.path.basename(path).startswith("libcudnn.so")), None)
    if library is None or sys.platform == "win32":  # which has no RTLD_NOLOAD
        return
    ctypes = own("ctypes")
    try:
        # already in memory: no second copy, and no other file, can come in
        handle = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        handle.cudnnGetVersion.restype = ctypes.c_size_t
        say("cudnn", "xla", data={"version": int(handle.cudnnGetVersion()), "library": library})
    except (OSError, AttributeError) as error:
        say("cudnn", "xla", data={"problem": text_of(error), "library": library})


# ----------------------------------------------------------------------------------------- main

STEPS: "Dict[str, Callable[[State], Data]]" = {
    "interpreter": interpreter,
    "packages": packages,
    "import": import_tensorflow,
    "keras": keras,
    "build": build,
    "devices": devices,
    "details": details,
    "compute": compute,
    "xla": xla,
}


def examine(phase: "str", state: "State") -> "bool":
    """Run one phase and tell how it ended; False when later phases cannot build upon it."""
    say("start", phase)
    started = time.perf_counter()
    try:
        ending: "Data" = {"outcome": "ok", "data": STEPS[phase](state)}
    except Skipped as reason:
        ending = {"outcome": "skipped", "note": str(reason)}
    # BaseException on purpose: an import that calls sys.exit() or raises KeyboardInterrupt is a diagnosis, not our end.
    except BaseException as error:
        ending = {"outcome": "raised", "exception": text_of(error), "traceback": traceback_of(error)}
    say("end", phase, seconds=time.perf_counter() - started, **ending)
    return bool(ending["outcome"] != "raised")


def main(arguments: "List[str]") -> "None":
    global events
    events = os.dup(1)  # a private copy that no program inherits
    if hasattr(os, "register_at_fork"):  # Python 3.7 and newer: nor does a process that is forked off
        os.register_at_fork(after_in_child=lambda: os.close(events))
    os.dup2(2, 1)
    if sys.version_info < (3, 9):  # there stderr is buffered in whole blocks, which a crash would lose
        sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    until = arguments[arguments.index("--until") + 1] if "--until" in arguments else PHASES[-1]
    watch_for_crashes()
    state = State(arguments[arguments.index("--kind") + 1] if "--kind" in arguments else "GPU")
    sys.argv = sys.argv[:1]  # what is imported must not take our options for its own
    failed = set()
    for phase in PHASES[: PHASES.index(until) + 1]:
        if NEEDS.get(phase) in failed or not examine(phase, state):
            failed.add(phase)
        if phase in ("import", "devices"):  # a later crash must not lose them
            tell_loaded(phase)
    if state.tf is not None:
        tell_cudnn(tell_loaded(until))


def watch_for_crashes() -> "None":
    """Write the Python stack to stderr on a fatal signal, and on SIGUSR1, which the parent sends to a hung child."""
    if sys.platform == "win32":  # there it reports exceptions that are handled, too
        return
    import faulthandler
    import signal

    faulthandler.enable(2, all_threads=False)
    faulthandler.register(signal.SIGUSR1, 2, all_threads=False)


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # no orderly end: unloading TensorFlow takes time, tells nothing, and can hang in a sick driver
    os._exit(0)
