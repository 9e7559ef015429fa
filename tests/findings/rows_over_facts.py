"""Facts of machines: what must be found in them, what must not, and what cannot be judged without them."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.healthy import SITE, gpu, healthy, known, soname, sonames
from tfgpu_doctor.parsers import lines
from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.records.facts import (
    Build,
    CallResult,
    Candidate,
    ComputeCheck,
    CudnnFile,
    DamagedPackage,
    FailingFile,
    GpuProcess,
    Kernel,
    LibraryFile,
    Limit,
    OtherPython,
    Package,
    PciGpu,
    Phase,
    Setting,
    ShadowedModule,
    SmiResult,
    TemporaryFolder,
    TfDevice,
    Toolkit,
    Unknown,
    XlaFile,
)


def only(one: Any) -> Any:
    """A list of one."""
    return known((one,))


NO_GPU_LISTED = known((TfDevice(name="/physical_device:CPU:0", kind="CPU"),), "tf.config.list_physical_devices()")
WHY = Unknown("permission denied")
# where nothing was verified on a GPU, an error stays one
NO_GPU_USED = {"tensorflow.devices": NO_GPU_LISTED, "tensorflow.checks": known(())}
R535 = {"driver.version": known("535.183.06"), "driver.cuda_supported": known("12.2")}  # of most H100 and H200
L4 = only(gpu(name="NVIDIA L4", compute_capability="8.9"))
PCI = (PciGpu(address="0000:01:00.0", device_id="10de:2684", name="AD102 [GeForce RTX 4090]"),)


def absent(*components: str, other: tuple[str, ...] = ()) -> Any:
    """The libraries of these components are nowhere; all, when none is named."""
    return known(
        tuple(
            msgspec.structs.replace(s, candidates=(), winner=None, other_versions=other)
            if not components or s.component in components
            else s
            for s in sonames()
        ),
        "loader",
    )


def off_path(*components: str, problem: str | None = None) -> Any:
    """The libraries of these components lie in their wheels, and the loader does not get there."""
    changed = []
    for s in sonames():
        if s.component in components:
            good = Candidate(path=s.candidates[0].path, via="pip wheel", reachable=False)
            bad = Candidate(path=f"/opt/broken/{s.soname}", via="LD_LIBRARY_PATH", reachable=True, problem=problem)
            s = msgspec.structs.replace(s, candidates=(bad, good) if problem else (good,), winner=None)
        changed.append(s)
    return known(tuple(changed), "loader")


def packages(**versions: str) -> Any:
    """Installed packages; an underscore stands for a hyphen."""
    return known(
        tuple(Package(name=n.replace("_", "-"), version=v, location=SITE) for n, v in versions.items()),
        "installed packages",
    )


def with_requirements(*names: str, python: str = "3.12.7", **other_versions: str) -> dict[str, Any]:
    """TensorFlow 2.17.1 from pip, which requires five packages, with these beside it."""
    requires = ("keras>=3.2.0", "wrapt>=1.11.0", "h5py>=3.10.0", "libclang>=13.0.0", "numpy<2.0.0,>=1.26.0")
    only_old = 'tensorflow-io-gcs-filesystem>=0.23.1; python_version < "3.12"'
    extra = 'nvidia-cudnn-cu12==8.9.7.29; extra == "and-cuda"'
    tensorflow = Package(
        name="tensorflow", version="2.17.1", location=SITE, installer="pip", requires=(*requires, only_old, extra)
    )
    beside = {"keras": "3.4.1", "wrapt": "1.16.0", "h5py": "3.11.0", "libclang": "18.1.1", "numpy": "1.26.4"}
    beside.update(other_versions)
    others = (Package(name=name, version=beside[name], location=SITE) for name in names)
    packages = known((tensorflow, *others), "*.dist-info")
    return {**release("2.17.1"), "python.packages": packages, "python.version": known(python)}


def damaged(name: str, *missing: str, overwritten: tuple[str, ...] = ()) -> DamagedPackage:
    """A package whose files are not those that it was installed with."""
    record = f"{SITE}/{name}.dist-info/RECORD"
    files = len(missing) + len(overwritten)
    return DamagedPackage(name, "1.0", record, missing=missing, overwritten=overwritten, files=files)


def phases(name: str, outcome: str, **how: Any) -> tuple[Phase, ...]:
    """All well up to `name`, and skipped after it."""
    order = [phase.name for phase in healthy().tensorflow.phases]
    here = order.index(name)
    return (
        *(Phase(name=n, outcome="ok", seconds=0.1) for n in order[:here]),
        Phase(name=name, outcome=outcome, **how),
        *(Phase(name=n, outcome="skipped") for n in order[here + 1 :]),
    )


def elsewhere(module: str, version: str | None, via: str | None, line: int | None = None) -> dict[str, Any]:
    """TensorFlow 2.17.1, whose import takes a module from /other and fails."""
    path, found = f"/other/{module}", {"numpy": "1.26.4", "keras": "3.4.1"}[module]
    return {
        **with_requirements("keras", "wrapt", "h5py", "libclang", "numpy"),
        "python.shadowed": only(ShadowedModule(module, path, version, module, found, via, line)),
        "variables": known({"PYTHONPATH": "/other"} if via == "PYTHONPATH" else {}),
        "tensorflow.phases": phases("keras", "raised", exception="AttributeError: no attribute 'x'"),
    }


def plugin_fails(
    package: str | None, exception: str = "NotFoundError: lib.so: undefined symbol: TF_X"
) -> dict[str, Any]:
    """TensorFlow 2.17.1, whose import ends at a file of tensorflow-plugins/."""
    path = f"{SITE}/tensorflow-plugins/lib.so"
    return {
        **with_requirements("keras", "wrapt", "h5py", "libclang", "numpy"),
        "python.failing_files": only(FailingFile(path, package, package and "1.0")),
        "tensorflow.phases": phases("import", "raised", exception=exception),
    }


def env(**variables: str) -> dict[str, Any]:
    """Variables of the environment."""
    return {"variables": known(variables)}


def one_gpu(**changed: Any) -> dict[str, Any]:
    """One GPU, with these fields."""
    return {"gpus": only(gpu(**changed))}


def one_check(**fields: Any) -> dict[str, Any]:
    """One computation on the GPU."""
    return {"tensorflow.checks": only(ComputeCheck(device="/GPU:0", **fields))}


def call(code: int, message: str) -> Any:
    return known(CallResult(code=code, message=message), "libcuda")


def release(version: str, platform: str = "linux_x86_64") -> dict[str, Any]:
    """Facts that name another TensorFlow."""
    return {"tensorflow.version": known(version), "python.wheel_platform": known(platform)}


CONTAINER = {"host.container": known("docker", "/.dockerenv"), "driver.device_nodes": known((), "/dev")}
NO_DRIVER = {
    "driver.libcuda": known((), "loader"),
    "driver.kernel_module_loaded": known(False, "/proc/modules"),
    "driver.version": Unknown("no driver"),
    "driver.device_nodes": known((), "/dev"),
    "gpus": Unknown("no NVML"),
    "host.pci_gpus": known(PCI, "/sys/bus/pci/devices"),
}
RUNTIME = tuple(
    LibraryFile(path=f"C:\\Windows\\System32\\{name}")
    for name in ("msvcp140.dll", "MSVCP140_1.dll", "vcruntime140_1.dll")
)
NO_RUNTIME = {
    "tensorflow.phases": phases("import", "raised", exception="ImportError: DLL load failed while importing _pywrap"),
    "host.vc_runtime": known(RUNTIME[:1], "C:\\Windows\\System32"),
}
NOT_LOADED = {"driver.kernel_module_loaded": known(False, "/proc/modules"), "gpus": Unknown("NVML: driver not loaded")}
WSL = {"host.os": known("wsl2"), "host.pci_gpus": known(()), "host.dxg_device": known(True, "/dev/dxg")}

TWINS = known((gpu(0), gpu(1)))
TWO = known((gpu(0), gpu(1, memory_free=2**30)))
DOCKER_SHM = {"host.container": known("docker", "/.dockerenv"), "host.shm": known(64 * 2**20, "statvfs(/dev/shm)")}
CHECKED = tuple(ComputeCheck(device="/GPU:0", kind=kind, ok=True) for kind in ("matmul", "conv2d"))
NOT_COMPILED = {"tensorflow.checks": known(CHECKED)}  # nothing has gone through XLA
NO_LIBDEVICE = only(
    ComputeCheck(device="/GPU:0", kind="xla", ok=False, error="INTERNAL: libdevice not found at ./libdevice.10.bc")
)
TENSORFLOW_TWICE = (
    *(Package(name="tensorflow", version="2.20.0", location="/opt/pylibs"),),
    *(Package(name="tensorflow", version="2.21.0", location=SITE),),
)
TWO_FOLDERS = {
    "python.packages": known(TENSORFLOW_TWICE),
    "python.tensorflow_paths": known(("/opt/pylibs/tensorflow", f"{SITE}/tensorflow")),
}
NOTHING_HERE = {"python.packages": known(()), "python.tensorflow_paths": known(())}
ELSEWHERE = only(
    OtherPython(executable="/ml/bin/python", via="VIRTUAL_ENV", prefix="/ml", tensorflow="tensorflow 2.20.0", cuda=True)
)
NO_BETTER = OtherPython(executable="/ml/bin/python", via="VIRTUAL_ENV", prefix="/ml")
SHADOWED = soname(
    "libcudnn.so.9",
    "cudnn",
    winner="/opt/cudnn/lib/libcudnn.so.9",
    candidates=(
        Candidate(path="/opt/cudnn/lib/libcudnn.so.9", via="LD_LIBRARY_PATH", reachable=True, version="9.4.0"),
        Candidate(path=f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", via="RUNPATH", reachable=True, version="9.10.2"),
    ),
)
# finding → its variable, values that it speaks about, values that change nothing
SWITCHED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "env.allow-growth": ("TF_FORCE_GPU_ALLOW_GROWTH", ("true", "false", "1", "True"), ()),
    "env.tf-gpu-allocator": ("TF_GPU_ALLOCATOR", ("cuda_malloc_async", "other"), ("",)),
    "env.memory-limit": ("TF_PER_DEVICE_MEMORY_LIMIT_MB", ("4096",), ("0", "much")),
    "env.unified-memory": ("TF_FORCE_UNIFIED_MEMORY", ("1", "true"), ("0",)),
    "env.gpu-thread-mode": ("TF_GPU_THREAD_MODE", ("gpu_private", "private"), ("global", "")),
    "env.deterministic-ops": ("TF_DETERMINISTIC_OPS", ("1", "true"), ("0", "false")),
    "env.cudnn-deterministic": ("TF_CUDNN_DETERMINISTIC", ("1",), ("0",)),
    "env.cudnn-autotune": ("TF_CUDNN_USE_AUTOTUNE", ("0", "false"), ("1",)),
    "env.xla-flags": (
        "XLA_FLAGS",
        ("--xla_dump_to=/x", "--xla_gpu_enable_triton_gemm=false"),
        ("", "--xla_gpu_cuda_data_dir=/cuda"),
    ),
    "env.xla-auto-jit": ("TF_XLA_FLAGS", ("--tf_xla_auto_jit=2",), ("--tf_xla_auto_jit=0", "")),
    "env.cpp-min-log-level": ("TF_CPP_MIN_LOG_LEVEL", ("2", "3"), ("0", "1", "")),
    "env.keras-backend": ("KERAS_BACKEND", ("jax", "torch"), ("tensorflow", "")),
    "env.cuda-launch-blocking": ("CUDA_LAUNCH_BLOCKING", ("1",), ("0", "")),
    "env.cuda-cache-disable": ("CUDA_CACHE_DISABLE", ("1",), ("0",)),
    "env.cuda-force-ptx-jit": ("CUDA_FORCE_PTX_JIT", ("1",), ("0",)),
    "env.cuda-disable-ptx-jit": ("CUDA_DISABLE_PTX_JIT", ("1",), ("0",)),
    "env.mps": ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", ("25",), ("100", "all")),
}


def raised(error: str) -> Any:
    """A product that could not be computed."""
    return only(ComputeCheck(device="/GPU:0", kind="matmul", ok=False, error=error))


def logged(*texts: str) -> Any:
    """What TensorFlow printed in a live run."""
    return known(catalogue.read([lines.Line(number, text) for number, text in enumerate(texts, 1)]), "TensorFlow's log")


def ptxas(*versions: str) -> Any:
    """ptxas of these versions, in the order in which XLA finds them."""
    return known(tuple(XlaFile(path=f"/cuda-{v}/bin/ptxas", via="PATH", version=v) for v in versions))


def _rows(table: dict[str, dict[str, dict[str, Any]]]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    return {finding: list(rows.items()) for finding, rows in table.items()}


# id of the finding → what the machine is, and how it differs from the healthy one
FIRES = _rows(
    {
        "driver.unresponsive": {"nvmlInit hangs": {"driver.unresponsive": known(("nvmlInit",))}},
        "driver.version-mismatch": {
            "NVML 18": {"driver.nvml_init": call(18, "Driver/library version mismatch")},
            "CUDA 803": {
                "driver.cuda_init": call(803, "system has unsupported display driver / cuda driver combination")
            },
            "only nvidia-smi says it": {
                "driver.nvml_init": WHY,
                "driver.cuda_init": WHY,
                "driver.nvidia_smi": known(
                    SmiResult(exit_code=18, output="Failed to initialize NVML: Driver/library version mismatch")
                ),
            },
        },
        "driver.stub-loaded": {
            "cuInit 34": {"driver.cuda_init": call(34, "stub library")},
            "a stubs folder wins": {
                "driver.libcuda": only(LibraryFile(path="/usr/local/cuda/lib64/stubs/libcuda.so.1"))
            },
        },
        "driver.init-failed": {
            "999": {"driver.cuda_init": call(999, "unknown error")},
            "no device, though NVML lists one": {"driver.cuda_init": call(100, "no CUDA-capable device is detected")},
            "libcuda crashes": {"driver.cuda_init": call(-11, "cuInit killed its process with SIGSEGV")},
            "a code of tomorrow": {"driver.cuda_init": call(4711, "news")},
        },
        "driver.missing": {"a card and no driver": NO_DRIVER},
        "driver.not-loaded": {
            "module not loaded": NOT_LOADED,
            "nouveau": {**NOT_LOADED, "host.nouveau_loaded": known(True)},
            "another kernel's module": {
                **NOT_LOADED,
                "driver.kernel_module_on_disk": known(("/lib/modules/6.1/nvidia.ko",)),
            },
            "Secure Boot": {**NOT_LOADED, "host.secure_boot": known(True), "driver.kernel_module_on_disk": WHY},
        },
        "driver.too-old": {
            "470 under CUDA 12": {"driver.version": known("470.256.02")},
            "older in the third part of its version alone": {"driver.version": known("525.60.12")},
            "forward compatibility refused": {"driver.cuda_init": call(804, "forward compatibility was attempted")},
            "Windows driver under WSL2": {**WSL, "driver.version": known("511.65")},
            "535 under PTX of CUDA 12.5 on an H200": R535,
            "550 under it": {**R535, "driver.version": known("550.163.01"), "driver.cuda_supported": known("12.4")},
            "PTX that Windows' driver does not know": {**WSL, **R535, "driver.version": known("552.44")},
        },
        "container.no-gpu": {"docker without --gpus": {**CONTAINER, **NO_DRIVER}},
        "wsl.setup": {
            "a Linux driver inside": WSL,
            "no /dev/dxg": {**WSL, "host.dxg_device": known(False), "gpus": WHY},
        },
        "gpu.none": {"nothing on the bus": {**NO_DRIVER, "host.pci_gpus": known(()), "driver.cuda_init": WHY}},
        "gpu.hidden": {
            "minus one": env(CUDA_VISIBLE_DEVICES="-1"),
            "empty": env(CUDA_VISIBLE_DEVICES=""),
            "a card that does not exist": env(CUDA_VISIBLE_DEVICES="1"),
            "another card's UUID": env(CUDA_VISIBLE_DEVICES="GPU-ffff"),
            "void in a container": {**env(NVIDIA_VISIBLE_DEVICES="void"), "host.container": known("docker")},
        },
        "gpu.arch-too-old": {
            "Kepler": one_gpu(name="Tesla K80", compute_capability="3.7"),
            "Pascal under a cuDNN that dropped it": {
                **one_gpu(name="Tesla P100", compute_capability="6.0"),
                "tensorflow.devices": WHY,
                "cudnn.runtime": known("9.12.0"),
            },
        },
        "gpu.arch-too-new": {"Blackwell": one_gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0")},
        "gpu.fault": {
            "lost": one_gpu(fault="GPU is lost"),
            "ECC": one_gpu(ecc_uncorrected=3),
            "remapping failed": one_gpu(remapped_rows_failed=True),
        },
        "gpu.throttled": {
            "heat": one_gpu(throttle_reasons=("hw_thermal_slowdown",)),
            "one lane": one_gpu(pcie_width=1),
        },
        "gpu.mig": {
            "no instance": one_gpu(mig_mode=True, mig_instances=()),
            "a slice": one_gpu(mig_mode=True, mig_instances=("MIG 1g.18gb",)),
            "a slice in a container": {
                "tensorflow.devices": only(TfDevice(name="/GPU:0", kind="GPU", device_name="NVIDIA H100 MIG 1g.10gb"))
            },
        },
        "gpu.not-visible": {"no GPU listed": {"tensorflow.devices": NO_GPU_LISTED}},
        "cuda.missing": {
            "plain pip": {"loader.sonames": absent()},
            "one library": {"loader.sonames": absent("cublas")},
        },
        "cuda.version-mismatch": {
            "a toolkit of 13": {
                "loader.sonames": absent(),
                "cuda.toolkits": only(
                    Toolkit(
                        path="/usr/local/cuda-13.0",
                        version="13.0.1",
                        source="/usr/local/cuda-13.0/version.json",
                        via="/usr/local",
                    )
                ),
            },
            "another soname": {"loader.sonames": absent(other=("/usr/local/cuda-13.0/lib64/libcudart.so.13",))},
        },
        "cuda.lib-path": {
            "in the wheels only": {"loader.sonames": off_path("cudart", "cublas")},
            "behind a broken file": {"loader.sonames": off_path("cudart", problem="empty file")},
        },
        "cudnn.missing": {
            "nowhere": {"loader.sonames": absent("cudnn"), "cudnn.installed": known(()), "cudnn.runtime": WHY}
        },
        "cudnn.version-mismatch": {
            "loaded 9.1, compiled with 9.3": {"cudnn.runtime": known("9.1.0")},
            "cuDNN 8": {
                "loader.sonames": absent("cudnn"),
                "cudnn.runtime": WHY,
                "cudnn.installed": only(CudnnFile(path="/usr/lib/libcudnn.so.8", version="8.9.7", source="file name")),
            },
        },
        "cudnn.lib-path": {
            "in the wheel only": {"loader.sonames": off_path("cudnn")},
            "behind an empty file": {"loader.sonames": off_path("cudnn", problem="empty file")},
            "behind one without its parts": {"loader.sonames": off_path("cudnn", problem="needs libx.so.1, not found")},
        },
        "cudnn.dep-missing": {
            "libz": {
                "loader.sonames": known(
                    (
                        *(s for s in sonames() if s.component != "cudnn"),
                        soname(
                            "libcudnn.so.9",
                            "cudnn",
                            winner=None,
                            candidates=(
                                Candidate(
                                    path="/usr/lib/libcudnn.so.9",
                                    via="ldconfig",
                                    reachable=True,
                                    problem="needs libz.so.1, not found",
                                ),
                            ),
                        ),
                    )
                )
            }
        },
        "tf.not-installed": {"nothing": {"python.packages": known(()), "python.tensorflow_paths": known(())}},
        "tf.python-unsupported": {
            "2.7, too old to be examined": {
                "python.version": known("2.7.18"),
                "python.packages": WHY,
                "python.wheel_platform": WHY,
            },
            "3.14": {"python.version": known("3.14.0"), "python.packages": known(())},
            "32 bits": {"python.bits": known(32), "python.packages": known(())},
            "Alpine, for which there is no wheel": {"host.libc": known("musl 1.2.5"), "python.packages": known(())},
        },
        "tf.package-removed": {"tensorflow-gpu 2.12": {"python.packages": packages(tensorflow_gpu="2.12.0")}},
        "tf.newer-than-matrix": {"a minor version to come": {"tensorflow.version": known("2.99.0")}},
        "tf.shadowed": {
            "a script of that name": {
                "python.tensorflow_paths": known(("/home/me/tensorflow.py", f"{SITE}/tensorflow"))
            },
            "a folder of that name": {"python.tensorflow_paths": known(("/home/me/tensorflow", f"{SITE}/tensorflow"))},
            "PYTHONPATH before site-packages": {**TWO_FOLDERS, **env(PYTHONPATH="/opt/pylibs")},
            "the user's site-packages": {**TWO_FOLDERS, "python.user_site": known("/opt/pylibs")},
            "the environment's own comes second": {**TWO_FOLDERS, "python.prefix": known("/env")},
            "a folder keras here": elsewhere("keras", None, "current folder"),
            "a .pth file with NumPy 2": elsewhere("numpy", "2.1.3", f"{SITE}/shared.pth", line=1),
        },
        "tf.package-conflict": {
            "a plugin of another release": plugin_fails("some-plugin"),
            "a plugin of no package, which lacks another library": plugin_fails(
                None, "NotFoundError: libze_loader.so.1"
            ),
            "two providers": {"python.packages": packages(tensorflow="2.21.0", tensorflow_cpu="2.20.0")},
            "keras of another release": {
                **release("2.15.1"),
                "python.packages": packages(tensorflow="2.15.1", keras="3.4.1"),
            },
            "a requirement older than the metadata allows": with_requirements(
                "keras", "wrapt", "h5py", "libclang", "numpy", h5py="2.10.0"
            ),
        },
        "tf.install-damaged": {
            "a library of TensorFlow itself is gone": {
                "python.damaged": only(damaged("tensorflow", "tensorflow/libtensorflow_framework.so.2"))
            },
            "a wheel for CUDA 11 has overwritten that for 12": {
                "python.damaged": only(damaged("nvidia-cudnn-cu12", overwritten=("nvidia/cudnn/lib/libcudnn.so.9",))),
                "python.packages": packages(
                    tensorflow="2.21.0", nvidia_cudnn_cu12="1.0", nvidia_cudnn_cu11="8.6.0.163"
                ),
            },
            "keras, which is imported late, is not installed": with_requirements("wrapt", "h5py", "libclang", "numpy"),
            "a seldom used requirement is not installed": with_requirements("wrapt", "h5py", "keras", "numpy"),
        },
        "tf.abi-numpy": {
            "NumPy 2 under 2.15": {
                **release("2.15.1"),
                "python.packages": packages(tensorflow="2.15.1", numpy="2.1.2"),
                "tensorflow.phases": phases("import", "raised", exception="ImportError: numpy.core failed"),
            },
            "NumPy 2 under 2.10, whose metadata allows it": {
                **release("2.10.1"),
                "python.packages": packages(tensorflow="2.10.1", numpy="2.0.2"),
                "tensorflow.phases": phases("import", "raised", exception="AttributeError: _ARRAY_API not found"),
            },
        },
        "tf.abi-protobuf": {
            "protobuf 6 under 2.13": {
                **release("2.13.1"),
                "python.packages": packages(tensorflow="2.13.1", protobuf="6.30.0"),
                "tensorflow.phases": phases("import", "raised", exception="TypeError: Descriptors cannot be created"),
            }
        },
        "tf.cpu-build": {
            "the build says so": {"tensorflow.build": known(Build(is_cuda_build=False))},
            "1.15.5, whose GPU build is tensorflow-gpu": {
                "tensorflow.version": known("1.15.5"),
                "tensorflow.build": known(Build(is_cuda_build=False)),
            },
            "tensorflow-cpu": {
                "tensorflow.distribution": known("tensorflow-cpu"),
                "tensorflow.build": WHY,
                "python.packages": packages(tensorflow_cpu="2.21.0"),
            },
            "macOS": {**release("2.16.2", "macos_arm64"), "tensorflow.build": WHY},
            "aarch64": {**release("2.18.0", "linux_aarch64"), "tensorflow.build": WHY},
        },
        "tf.windows-native": {"2.15 on Windows": {**release("2.15.1", "windows_amd64"), "host.os": known("windows")}},
        "tf.import-avx": {
            "an old CPU": {
                "tensorflow.phases": phases("import", "died", signal="SIGILL"),
                "host.cpu_flags": known(("sse4_2",), "/proc/cpuinfo"),
            },
            "a newer build": {"tensorflow.phases": phases("import", "died", signal="SIGILL")},
        },
        "tf.import-hang": {
            "never ends": {"tensorflow.phases": phases("import", "timeout", seconds=120.0)},
            "does nothing": {"tensorflow.phases": phases("import", "timeout", seconds=21.0, idle=20.0)},
            "a short limit": {"tensorflow.phases": phases("import", "timeout", seconds=1.0)},
        },
        "tf.vc-runtime": {"one of three DLLs": {"host.os": known("windows"), **NO_RUNTIME}},
        "tf.import-failed": {
            "raises": {"tensorflow.phases": phases("import", "raised", exception="RuntimeError: broken")},
            "dies": {"tensorflow.phases": phases("import", "died", signal="SIGSEGV")},
            "leaves": {"tensorflow.phases": phases("import", "died", exit_code=0)},
        },
        "tf.run-failed": {
            "a short limit": {"tensorflow.phases": phases("compute", "timeout", seconds=2.0)},
            "devices": {"tensorflow.phases": phases("devices", "died", signal="SIGABRT")},
            "matmul raises": one_check(kind="matmul", ok=False, error="InternalError: no kernel image"),
        },
        "compute.wrong-result": {
            "residual": one_check(kind="matmul", ok=False, residual=0.3, tolerance=0.01),
            "as the child process tells it": one_check(
                kind="matmul", ok=False, placed_on="/GPU:0", error="wrong result: off by 2"
            ),
        },
        "tf.known-bug": {
            "2.16.1 and its libraries": {**release("2.16.1"), "loader.sonames": off_path("cublas")},
            "2.21.0 and its libcusolver": {"loader.sonames": off_path("cusolver")},
            "2.20.0 beside triton 3.9": {
                **release("2.20.0"),
                "python.packages": packages(tensorflow="2.20.0", triton="3.9.0"),
            },
        },
        "memory.taken": {
            "half of it": {"gpus": only(gpu(memory_free=60 * 2**30, processes=(GpuProcess(pid=7, memory=2**36),)))},
            "all of it, by an unknown process": {**one_gpu(memory_free=2**20), "tensorflow.checks": WHY},
            "the one that is chosen": {"gpus": TWO, **env(CUDA_VISIBLE_DEVICES="1")},
        },
        "memory.oom": {"a copy to a full GPU": {"messages": logged("Dst tensor is not initialized.")}},
        "cudnn.init-failed": {
            "the operation raises": {"tensorflow.checks": raised("UnknownError: CUDNN_STATUS_NOT_INITIALIZED")},
            "the process aborts": {
                "tensorflow.checks": known(()),
                "tensorflow.phases": phases(
                    "compute", "died", signal="SIGABRT", log_tail=("E cuda_dnn.cc:522] Could not create cudnn handle",)
                ),
            },
        },
        "shm.small": {
            "two GPUs in a container": {**DOCKER_SHM, "gpus": TWINS},
            "one GPU in a pod": {**DOCKER_SHM, "host.container": known("kubernetes")},
        },
        "perf.low-clocks": {
            "locked": one_gpu(sm_clock=345, sm_clock_max=1980, utilization=99),
            "by a setting": {
                "gpus": only(
                    gpu(
                        sm_clock=345,
                        sm_clock_max=1980,
                        utilization=99,
                        throttle_reasons=("applications_clocks_setting",),
                    )
                )
            },
        },
        "xla.libdevice-missing": {
            "nowhere": {**NOT_COMPILED, "cuda.libdevice": known(())},
            "a folder without it in front": {
                **NOT_COMPILED,
                "cuda.libdevice": only(
                    XlaFile(path="/usr/local/cuda/nvvm/libdevice/x", via="/usr/local", problem="no libdevice.10.bc")
                ),
            },
            "XLA says so under 2.9": {
                **release("2.9.1"),
                "cuda.libdevice": known(()),
                "tensorflow.checks": NO_LIBDEVICE,
            },
        },
        "xla.ptxas-missing": {
            "nowhere": {**NOT_COMPILED, "cuda.ptxas": known(())},
            "of CUDA 11.2": {**NOT_COMPILED, "cuda.ptxas": ptxas("11.2.152")},
            "12.3.103, at which 2.16 ends": {**NOT_COMPILED, **release("2.16.1"), "cuda.ptxas": ptxas("12.3.103")},
            "of 12.3 for Hopper": {**NOT_COMPILED, "cuda.ptxas": ptxas("12.3.107")},
        },
        "tf.wrong-env": {
            "the activated environment": {**NOTHING_HERE, "python.elsewhere": ELSEWHERE},
            "the activated one has CUDA": {"loader.sonames": absent(), "python.elsewhere": ELSEWHERE},
            "Jupyter's default kernel has none": {
                "python.kernels": only(
                    Kernel(
                        name="python3", display_name="Python 3", file="/k/kernel.json", executable="/usr/bin/python3"
                    )
                ),
                "python.elsewhere": only(
                    OtherPython(executable="/usr/bin/python3", via="kernel python3", prefix="/usr")
                ),
            },
        },
        "env.pythonpath": {
            "NumPy 2 under TensorFlow 2.17": elsewhere("numpy", "2.1.3", "PYTHONPATH"),
            "the packages of Python 3.11 under 3.12": env(PYTHONPATH="/src:/old/lib/python3.11/site-packages"),
        },
        "env.address-space-limit": {
            "ulimit -v 8000000": {
                "host.address_space_limit": known(Limit(8192000000, 8192000000)),
                "driver.cuda_init": call(2, "out of memory"),
            },
            "too small for TensorFlow's libraries": {
                "host.address_space_limit": known(Limit(1000000000)),
                "messages": logged("ImportError: libtensorflow_cc.so.2: failed to map segment from shared object"),
            },
        },
        "env.tmpdir-unwritable": {
            "TMPDIR of root": {
                "host.temporary_folder": known(TemporaryFolder("/scratch", "TMPDIR", "Permission denied"))
            },
            "a read-only container": {
                "host.temporary_folder": known(TemporaryFolder("/tmp", "default", "Read-only file system"))
            },
        },
        "env.ld-library-path": {
            "an older cuDNN first": {
                **env(LD_LIBRARY_PATH="/opt/cudnn/lib:/opt/other"),
                "loader.sonames": known((SHADOWED, *(s for s in sonames() if s.component != "cudnn"))),
            }
        },
        "env.legacy-keras": {
            "without the package": env(TF_USE_LEGACY_KERAS="1"),
            "with it": {
                **env(TF_USE_LEGACY_KERAS="1"),
                "python.packages": packages(tensorflow="2.21.0", tf_keras="2.21.0"),
            },
        },
        "env.tf32-override": {"on Hopper": env(NVIDIA_TF32_OVERRIDE="0")},
        "env.cuda-device-order": {
            "unlike cards": {"gpus": known((gpu(0), gpu(1, name="NVIDIA T400"))), **env(CUDA_VISIBLE_DEVICES="1")}
        },
        "env.nccl": {"no peer access": {"gpus": TWINS, **env(NCCL_P2P_DISABLE="1")}},
        **{
            finding: {f"{name}={value}": {"variables": known({name: value})} for value in values}
            for finding, (name, values, _) in SWITCHED.items()
        },
    }
)

NO_TOOLKIT = XlaFile(path="/nonexistent", via="XLA_FLAGS", problem="no such folder")
FIRES["env.keras-backend"].append(
    (
        "Keras' own file",
        {"host.startup_settings": only(Setting("KERAS_BACKEND", "torch", "/home/me/.keras/keras.json", 4))},
    )
)
FIRES["env.xla-flags"].append(("its folder holds no toolkit", {"cuda.xla_roots": known((NO_TOOLKIT,))}))

# rows that look alike and are none
PASSES = _rows(
    {
        "driver.version-mismatch": {"another NVML error": {"driver.nvml_init": call(9, "Driver Not Loaded")}},
        "driver.stub-loaded": {"no device": {"driver.cuda_init": call(100, "no CUDA-capable device is detected")}},
        "driver.init-failed": {
            "a finding of its own": {"driver.cuda_init": call(803, "mismatch")},
            "hidden": {"driver.cuda_init": call(100, "no device"), **env(CUDA_VISIBLE_DEVICES="-1")},
            "no card": {**NO_DRIVER, "host.pci_gpus": known(()), "driver.cuda_init": call(100, "no device")},
        },
        "driver.missing": {
            "no card": {**NO_DRIVER, "host.pci_gpus": known(())},
            "the container has no access": {**CONTAINER, **NO_DRIVER},
        },
        "driver.not-loaded": {
            "loaded": {},
            "the driver answers all the same": {"driver.kernel_module_loaded": known(False)},
        },
        "driver.too-old": {
            "minor-version compatibility": {"driver.version": known("525.60.13"), "gpus": L4},
            "libcuda of the forward-compatibility package": {**R535, "driver.cuda_supported": known("12.5")},
            "a release whose PTX is old enough": {**R535, "tensorflow.version": known("2.16.2")},
            "a GPU that is unknown": {**R535, "gpus": WHY, "host.pci_gpus": WHY, "tensorflow.devices": WHY},
            "a version that cannot be read": {"driver.version": known("JetPack")},
        },
        "container.no-gpu": {
            "with the GPU": {"host.container": known("docker")},
            "without a bus": {**CONTAINER, **NO_DRIVER, "host.pci_gpus": known(())},
        },
        "wsl.setup": {
            "as it should be": {**WSL, "driver.libcuda": only(LibraryFile(path="/usr/lib/wsl/lib/libcuda.so.1"))}
        },
        "gpu.hidden": {
            "index 0": env(CUDA_VISIBLE_DEVICES="0"),
            "index 0, then one too many": env(CUDA_VISIBLE_DEVICES="0,7"),
            "a UUID's beginning": env(CUDA_VISIBLE_DEVICES="GPU-00000000"),
            "void on a host": env(NVIDIA_VISIBLE_DEVICES="void"),
        },
        "gpu.arch-too-old": {"a card newer than all": FIRES["gpu.arch-too-new"][0][1]},
        "gpu.arch-too-new": {"a card older than all": FIRES["gpu.arch-too-old"][0][1]},
        "gpu.mig": {"off": {}},
        "cuda.missing": {"of another version": FIRES["cuda.version-mismatch"][0][1]},
        "cuda.version-mismatch": {
            "nvcc 13 beside complete wheels": {"cuda.toolkits": FIRES["cuda.version-mismatch"][0][1]["cuda.toolkits"]}
        },
        "cudnn.version-mismatch": {"newer within the major": {"cudnn.runtime": known("9.10.2")}},
        "cudnn.missing": {"another major": FIRES["cudnn.version-mismatch"][1][1]},
        "tf.not-installed": {"installed": {}},
        "tf.python-unsupported": {"an installed one proves the contrary": {"python.version": known("3.14.0")}},
        "tf.package-removed": {"a living one": {"python.packages": packages(tensorflow_gpu="2.10.1")}},
        "tf.newer-than-matrix": {
            "a patch to come": {"tensorflow.version": known("2.21.9")},
            "a build of somebody's own": {"tensorflow.version": known("2.17.0+nv25.2")},
        },
        "tf.shadowed": {
            "the package itself": {},
            "a virtual environment before the system's": {**TWO_FOLDERS, "python.prefix": known("/opt/pylibs")},
            "two folders of one environment": {**TWO_FOLDERS, "python.prefix": known("/")},
            "a NumPy that is allowed": elsewhere("numpy", "1.26.0", None),
        },
        "tf.install-damaged": {
            "all that applies is installed": with_requirements("keras", "wrapt", "h5py", "libclang", "numpy"),
            "the wheel of another CUDA is incomplete": {
                "python.damaged": only(damaged("nvidia-cudnn-cu11", "nvidia/cudnn/lib/libcudnn.so.8"))
            },
        },
        "tf.package-conflict": {
            "a file of a package that TensorFlow requires": plugin_fails("h5py"),
            "a tensorboard that this TensorFlow's own metadata allows": {
                "python.packages": known(
                    (
                        Package(name="tensorflow", version="2.4.4", requires=("tensorboard (~=2.4)",)),
                        Package(name="tensorboard", version="2.10.1"),
                    )
                ),
                "tensorflow.version": known("2.4.4"),
            },
            "what the metadata requires, spelled in another way": with_requirements(
                "keras", "wrapt", "h5py", "libclang", "numpy", wrapt="1.11.0.post1"
            ),
            "the same package in two folders": TWO_FOLDERS,
            "an unreadable version": {"python.packages": packages(tensorflow="2.21.0", keras="unknown")},
            "the halves of Windows": {"python.packages": packages(tensorflow="2.15.1", tensorflow_intel="2.15.1")},
        },
        "tf.abi-numpy": {
            "it imports all the same": {
                **release("2.15.1"),
                "python.packages": packages(tensorflow="2.15.1", numpy="2.1.2"),
            }
        },
        "tf.vc-runtime": {
            "all of them": {**NO_RUNTIME, "host.vc_runtime": known(RUNTIME)},
            "the import works": {"host.vc_runtime": known(())},
        },
        "tf.import-failed": {"it hangs": FIRES["tf.import-hang"][0][1]},
        "compute.wrong-result": {"it raised": FIRES["tf.run-failed"][1][1]},
        "tf.known-bug": {
            "2.21.0 with its libcusolver on the path": {},
            "2.16.1 with CUDA of the system": release("2.16.1"),
            "2.20.0 beside an older triton": {
                **release("2.20.0"),
                "python.packages": packages(tensorflow="2.20.0", triton="3.1.0"),
            },
        },
        "memory.taken": {
            "the other one is chosen": {"gpus": TWO, **env(CUDA_VISIBLE_DEVICES="0")},
            "a slice": one_gpu(memory_free=2**20, mig_mode=True, mig_instances=("MIG 1g.18gb",)),
        },
        "memory.oom": {"another failure": {"messages": logged("InternalError: no kernel image")}},
        "cudnn.init-failed": {
            "its version is wrong": {
                "tensorflow.checks": raised("CUDNN_STATUS_NOT_INITIALIZED"),
                "cudnn.runtime": known("9.1.0"),
            }
        },
        "shm.small": {
            "no container": {"host.shm": known(64 * 2**20)},
            "more than Docker's": {**DOCKER_SHM, "host.shm": known(2**30)},
            "no GPU": {**DOCKER_SHM, "gpus": known(()), "tensorflow.devices": NO_GPU_LISTED},
        },
        "gpu.throttled": {
            "idle": one_gpu(throttle_reasons=("gpu_idle",)),
            "the power limit": one_gpu(throttle_reasons=("sw_power_cap",)),
        },
        "perf.low-clocks": {
            "idle": one_gpu(sm_clock=345, sm_clock_max=1980, utilization=0),
            "the power limit": {
                "gpus": only(gpu(sm_clock=800, sm_clock_max=1590, utilization=99, throttle_reasons=("sw_power_cap",)))
            },
        },
        "xla.libdevice-missing": {
            "XLA has compiled all the same": {"cuda.libdevice": known(())},
            "before Keras used XLA": {**NOT_COMPILED, **release("2.9.1"), "cuda.libdevice": known(())},
            "no GPU": {**NOT_COMPILED, "cuda.libdevice": known(()), "tensorflow.devices": NO_GPU_LISTED},
        },
        "xla.ptxas-missing": {
            "12.9": NOT_COMPILED,
            "an old one on PATH, which XLA passes over": {**NOT_COMPILED, "cuda.ptxas": ptxas("11.2.152", "12.9.86")},
        },
        "tf.wrong-env": {
            "no better one": {**NOTHING_HERE, "python.elsewhere": known((NO_BETTER,))},
            "here it works": {"python.elsewhere": ELSEWHERE},
        },
        "env.pythonpath": {
            "its own packages": env(PYTHONPATH="/env/lib/python3.12/site-packages"),
            "sources": env(PYTHONPATH="/home/ada/code:/opt/python3.11/lib"),
            "a version that is allowed": elsewhere("numpy", "1.26.0", "PYTHONPATH"),
            "nothing fails": {
                **elsewhere("numpy", "2.1.3", "PYTHONPATH"),
                "tensorflow.phases": healthy().tensorflow.phases,
            },
        },
        "env.address-space-limit": {
            "a limit that is large enough": {"host.address_space_limit": known(Limit(2**50))},
            "no limit": {"host.address_space_limit": known(Limit(None)), "driver.cuda_init": call(2, "out of memory")},
            "a file system without execution": {
                "host.address_space_limit": known(Limit(2**40)),
                "messages": logged("ImportError: /s/_x.so: failed to map segment from shared object: not permitted"),
            },
        },
        "env.tmpdir-unwritable": {
            "the usual": {"host.temporary_folder": known(TemporaryFolder("/tmp", "default", free=10**10))}
        },
        "env.ld-library-path": {"the same version": env(LD_LIBRARY_PATH="/opt/cudnn/lib")},
        "env.legacy-keras": {
            "2.15, which has Keras 2": {**release("2.15.1"), **env(TF_USE_LEGACY_KERAS="1")},
            "0": env(TF_USE_LEGACY_KERAS="0"),
        },
        "env.tf32-override": {
            "on Turing": {
                **one_gpu(name="Tesla T4", compute_capability="7.5"),
                "tensorflow.devices": WHY,
                **env(NVIDIA_TF32_OVERRIDE="0"),
            }
        },
        "env.cuda-device-order": {"like cards": {"gpus": TWINS, **env(CUDA_VISIBLE_DEVICES="1")}},
        "env.nccl": {"one GPU": env(NCCL_P2P_DISABLE="1")},
        **{
            finding: {f"{name}={value}": {"variables": known({name: value})} for value in harmless}
            for finding, (name, _, harmless) in SWITCHED.items()
        },
    }
)

# the phases are a plain tuple: a report without any simply shows no phase that failed
NEVER_UNKNOWN = {"tf.vc-runtime", "tf.import-avx", "tf.import-hang", "tf.import-failed", "tf.run-failed"}
