"""A healthy machine as facts, and a way to spoil single facts of it."""

from __future__ import annotations

from typing import Any

import msgspec

from tfgpu_doctor.facts import facts as fact
from tfgpu_doctor.facts.facts import Facts, Gpu, Known, Phase, Soname
from tfgpu_doctor.matrix.loader import Matrix

MATRIX = Matrix.load()
SITE = "/env/lib/python3.12/site-packages"
NVCC = f"{SITE}/nvidia/cuda_nvcc"
PHASES = ("interpreter", "packages", "import", "keras", "build", "devices", "details", "compute", "xla")


def known(value: Any, source: str = "test") -> Known[Any]:
    """A fact of a test."""
    return Known(value, source)


def gpu(index: int = 0, **changes: Any) -> Gpu:
    """An H200 in good health."""
    fields: dict[str, Any] = {
        "name": "NVIDIA H200",
        "uuid": f"GPU-{index}0000000-0000-0000-0000-000000000000",
        "compute_capability": "9.0",
        "memory_total": 150_754_820_096,
        "memory_free": 150_000_000_000,
        "throttle_reasons": (),
        "mig_mode": False,
        "temperature": 40,
        "pcie_width": 16,
        "pcie_width_max": 16,
    }
    return Gpu(index=index, **{name: known(value, "NVML") for name, value in {**fields, **changes}.items()})


def soname(name: str, component: str, **changes: Any) -> Soname:
    """A library that the loader finds through the RUNPATH of TensorFlow."""
    path = f"{SITE}/nvidia/{component}/lib/{name}"
    found = Soname(
        soname=name,
        component=component,
        candidates=(fact.Candidate(path=path, via="RUNPATH", reachable=True),),
        winner=path,
    )
    return msgspec.structs.replace(found, **changes)


def sonames(version: str = "2.21.0") -> tuple[Soname, ...]:
    """Every library that this release opens, found."""
    row = MATRIX.tensorflow(version, "linux_x86_64")
    assert row is not None
    return tuple(soname(library.soname, library.component) for library in row.libraries)


def healthy() -> Facts:
    """TensorFlow 2.21 with CUDA from pip on Ubuntu with one H200: nothing to complain about."""
    return Facts(
        host=fact.Host(
            os=known("linux", "uname"),
            machine=known("x86_64"),
            kernel=known("6.8.0-45-generic"),
            distribution=known("Ubuntu 24.04.1 LTS", "/etc/os-release"),
            distribution_id=known("ubuntu", "/etc/os-release"),
            libc=known("glibc 2.39"),
            cpu_model=known("AMD EPYC 9654"),
            cpu_flags=known(("avx", "avx2", "fma"), "/proc/cpuinfo"),
            cpus=known(16),
            memory=known(64 * 2**30),
            shm=known(32 * 2**30),
            address_space_limit=known(fact.Limit(None), "getrlimit(RLIMIT_AS)"),
            temporary_folder=known(fact.TemporaryFolder("/tmp", "default", free=10**11), "access(/tmp)"),
            container=known("none"),
            pci_gpus=known(
                (fact.PciGpu(address="0000:18:00.0", device_id="10de:2335", driver="nvidia", name="H200"),),
                "/sys/bus/pci/devices",
            ),
            startup_settings=known((), "startup files"),
            nouveau_loaded=known(False, "/proc/modules"),
            secure_boot=known(False),
            dxg_device=known(False),
        ),
        driver=fact.Driver(
            version=known("570.86.15", "NVML"),
            cuda_supported=known("12.8", "NVML"),
            kernel_module=known("570.86.15", "/proc/driver/nvidia/version"),
            kernel_module_loaded=known(True, "/proc/modules"),
            kernel_module_on_disk=known(()),
            device_nodes=known(("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"), "/dev"),
            libcuda=known(
                (fact.LibraryFile(path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", version="570.86.15"),), "loader"
            ),
            nvml_init=known(fact.CallResult(code=0, message="Success"), "NVML"),
            cuda_init=known(fact.CallResult(code=0, message="success"), "libcuda"),
            unresponsive=known((), "driver probes"),
        ),
        gpus=known((gpu(),), "NVML"),
        cuda=fact.Cuda(
            toolkits=known(()),
            xla_roots=known((fact.XlaFile(path=NVCC, via="pip wheel"),)),
            libdevice=known((fact.XlaFile(path=f"{NVCC}/nvvm/libdevice/libdevice.10.bc", via="pip wheel"),)),
            ptxas=known((fact.XlaFile(path=f"{NVCC}/bin/ptxas", via="pip wheel", version="12.9.86"),)),
        ),
        loader=fact.Loader(sonames=known(sonames(), "loader")),
        cudnn=fact.Cudnn(
            installed=known(
                (fact.CudnnFile(path=f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", version="9.10.2", source="pip package"),)
            ),
            runtime=known("9.10.2", "cudnnGetVersion"),
        ),
        python=fact.Python(
            executable=known("/env/bin/python"),
            version=known("3.12.7", "sys.version_info"),
            bits=known(64),
            environment=known("venv"),
            externally_managed=known(False),
            pip=known(True),
            installers=known(("pip",)),
            packages=known(
                (
                    fact.Package(name="tensorflow", version="2.21.0", location=SITE),
                    fact.Package(name="numpy", version="2.3.1", location=SITE),
                    fact.Package(name="protobuf", version="6.31.1", location=SITE),
                    fact.Package(name="keras", version="3.12.0", location=SITE),
                ),
                "installed packages",
            ),
            damaged=known((), "RECORD"),
            failing_files=known((), "errors of the import"),
            shadowed=known((), "sys.path"),
            tensorflow_paths=known((f"{SITE}/tensorflow",)),
            kernels=known(()),
            elsewhere=known(()),
            wheel_platform=known("linux_x86_64"),
        ),
        variables=known({}, "environment"),
        tensorflow=fact.TensorFlow(
            version=known("2.21.0", "tf.__version__"),
            distribution=known("tensorflow"),
            build=known(fact.Build(is_cuda_build=True, cuda_version="12.5.1", cudnn_version="9")),
            devices=known(
                (
                    fact.TfDevice(name="/physical_device:CPU:0", kind="CPU"),
                    fact.TfDevice(
                        name="/physical_device:GPU:0", kind="GPU", device_name="NVIDIA H200", compute_capability="9.0"
                    ),
                ),
                "tf.config.list_physical_devices()",
            ),
            checks=known(
                tuple(
                    fact.ComputeCheck(device="/GPU:0", kind=kind, ok=True, residual=1e-4, tolerance=1e-2)
                    for kind in ("matmul", "conv2d", "xla")
                )
            ),
            phases=tuple(Phase(name=name, outcome="ok", seconds=0.1) for name in PHASES),
        ),
    )


def spoil(facts: Facts, changes: dict[str, Any]) -> Facts:
    """Replace facts by dotted path."""
    for path, value in changes.items():
        facts = _replace(facts, path.split("."), value)
    return facts


def _replace(record: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    return msgspec.structs.replace(record, **{head: _replace(getattr(record, head), rest, value) if rest else value})
