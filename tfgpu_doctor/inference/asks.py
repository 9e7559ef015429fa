"""The command that tells what a pasted text leaves open."""

from __future__ import annotations

from msgspec import structs

from tfgpu_doctor.records.facts import Facts, Unknown, look_up, value_or

_PYTHON = 'python -c "import tensorflow as tf; print({})"'
_ASKS = {
    "host.os": 'python -c "import platform; print(platform.platform())"',
    "host.machine": 'python -c "import platform; print(platform.machine())"',
    "host.kernel": "uname -r",
    "host.distribution": "cat /etc/os-release",
    "host.libc": "ldd --version",
    "host.cpu_flags": "lscpu",
    "host.shm": "df -h /dev/shm",
    "host.address_space_limit": "ulimit -v",
    "host.temporary_folder": 'ls -ld "${TMPDIR:-/tmp}"',
    "host.pci_gpus": "lspci -nn | grep -i nvidia",
    "host.container": "tfgpu doctor",
    "driver.version": "nvidia-smi",
    "driver.cuda_supported": "nvidia-smi",
    "driver.nvidia_smi": "nvidia-smi",
    "driver.kernel_module": "cat /proc/driver/nvidia/version",
    "driver.kernel_module_loaded": "cat /proc/driver/nvidia/version",
    "driver.nvml_init": "nvidia-smi",
    "driver.libcuda": "ldconfig -p | grep libcuda",
    "driver.cuda_init": "tfgpu doctor",
    "driver.xid_events": "sudo dmesg | grep -i xid",
    "gpus": "nvidia-smi -L",
    "peers": "nvidia-smi topo -m",
    "cuda.toolkits": "ls -d /usr/local/cuda*",
    "cuda.nvcc": "nvcc --version",
    "cudnn.installed": "python -m pip list",
    "cudnn.runtime": "tfgpu doctor",
    "loader.sonames": "ldconfig -p | grep -E 'libcudart|libcudnn'; "
    "find / -name 'libcudart.so*' -o -name 'libcudnn.so*' 2>/dev/null",
    "loader.search_path": 'echo "$LD_LIBRARY_PATH"',
    "python.executable": 'python -c "import sys; print(sys.executable)"',
    "python.version": "python --version",
    "python.bits": 'python -c "import sys; print(sys.maxsize > 2**32)"',
    "python.packages": "python -m pip list",
    "python.tensorflow_paths": 'python -c "import tensorflow; print(tensorflow.__file__)"',
    "variables": "env | grep -E 'CUDA|NVIDIA|TF_|XLA|LD_LIBRARY|PYTHON'",
    "tensorflow.version": _PYTHON.format("tf.__version__"),
    "tensorflow.distribution": "python -m pip list",
    "tensorflow.build": _PYTHON.format("tf.sysconfig.get_build_info()"),
    "tensorflow.devices": _PYTHON.format("tf.config.list_physical_devices('GPU')"),
}
# `cmd /c`: PowerShell has another `set`, and no %PATH%
# Microsoft, "WMI command line (WMIC) utility deprecation": Windows 11 24H2 comes without wmic
_ON_WINDOWS: dict[str, str | None] = {  # None: no command there, or nothing to ask for
    **dict.fromkeys(("host.kernel", "host.distribution", "host.libc", "host.shm", "driver.xid_events")),
    **dict.fromkeys(("host.address_space_limit", "host.temporary_folder")),
    **dict.fromkeys(("driver.kernel_module", "driver.kernel_module_loaded")),
    "host.cpu_flags": 'powershell -Command "(Get-CimInstance Win32_Processor).Name"',
    "host.pci_gpus": 'powershell -Command "(Get-CimInstance Win32_VideoController).Name"',
    "driver.libcuda": "where.exe nvcuda.dll",
    "cuda.toolkits": "nvcc --version",
    "cudnn.installed": "where.exe cudnn64_*.dll",
    "loader.sonames": "where.exe cudart64_*.dll cudnn64_*.dll",
    "loader.search_path": "cmd /c echo %PATH%",
    "variables": "cmd /c set",
}
# there the kernel has no module of NVIDIA, and the PCI bus shows no card, on a machine that works
_ON_WSL2: dict[str, str | None] = {
    **dict.fromkeys(("host.pci_gpus", "driver.kernel_module", "driver.kernel_module_loaded", "driver.xid_events")),
    "driver.version": "/usr/lib/wsl/lib/nvidia-smi",
    "driver.nvidia_smi": "/usr/lib/wsl/lib/nvidia-smi",
    "driver.libcuda": "ldconfig -p | grep libcuda; ls -l /dev/dxg /usr/lib/wsl/lib",
}
# an image is a Linux, asked inside the container; what is the host's alone is not seen there
_IN_DOCKER_DESKTOP: dict[str, str | None] = dict.fromkeys(
    ("host.pci_gpus", "driver.kernel_module", "driver.kernel_module_loaded", "driver.xid_events")
)
# no NVIDIA driver, and no CUDA since 10.2
_ON_MACOS: dict[str, str | None] = {
    **dict.fromkeys(path for path in _ASKS if path.startswith(("driver.", "loader.", "cuda.", "cudnn."))),
    **dict.fromkeys(("host.distribution", "host.libc", "host.shm", "host.pci_gpus", "gpus", "peers")),
    "host.cpu_flags": "sysctl -n machdep.cpu.brand_string",
}
_OF_A_SYSTEM = {"windows": _ON_WINDOWS, "wsl2": _ON_WSL2, "macos": _ON_MACOS}


def with_asks(facts: Facts) -> Facts:
    """The facts, each open one with the command that would tell, where there is one."""
    dll = any(message.kind == "dll-load-failed" for message in value_or(facts.messages, ()))
    system = value_or(facts.host.os, "windows" if dll else None)
    special = _OF_A_SYSTEM.get(system or "", {})
    if system in ("windows", "macos") and value_or(facts.python.wheel_platform, "").startswith("linux"):
        special = _IN_DOCKER_DESKTOP
    parts: dict[str, dict[str, Unknown]] = {}
    for path, command in {**_ASKS, **special}.items():
        fact = look_up(facts, path)
        if command is not None and isinstance(fact, Unknown) and fact.ask is None:
            part, _, name = path.rpartition(".")
            parts.setdefault(part, {})[name] = structs.replace(fact, ask=command)
    changed = {part: structs.replace(getattr(facts, part), **fields) for part, fields in parts.items() if part}
    return structs.replace(facts, **changed, **parts.get("", {}))
