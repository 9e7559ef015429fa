"""Messages about the driver, the GPUs, and how both get into a container.

Sources: TensorFlow's stream_executor/cuda/cuda_driver.cc, cuda_diagnostics.cc and gpu_device.cc at the tags v1.0 to
v2.20; nvidia-smi; NVIDIA/open-gpu-kernel-modules; NVIDIA/libnvidia-container; moby and Kubernetes.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import template

_CAPABILITY = r"(?P<capability>\d+\.\d+)"

_CUDA = r"(?<![\d.])(?P<{}>(?:[7-9]|1\d)\.\d)(?![\d])"  # 7.0 to 19.9, and no longer version

# a library of the driver, with the number of its release
_OF_DRIVER = r"libnvidia-(?:fatbinaryloader|ptxjitcompiler|glcore|tls|nvvm)\.so\.\d{3}\.\d[\d.]*\d"

TEMPLATES = (
    # --- the CUDA driver API as TensorFlow calls it
    template(
        "cuinit-failed",
        "call to cuinit|cuinit(0) failed|cuinit returned|cuinit failed|failed. status: ",
        r"failed call to cuInit: *(?:[A-Z_]{1,40}: (?:CUDA error: )?Failed call to cuInit: *)?"
        r"(?:(?P<name>CUDA_ERROR_\w+)|UNKNOWN ERROR \((?P<code>-?\d+)\)|CUresult\((?P<result>-?\d+)\))?"
        r"|cuInit(?:\(0\))? (?:failed|returned)\D{0,40}(?P<number>\d+)?"
        # what the runtime API says when the driver does not start (gpu_device.cc of 1.14 to 2.4)
        r"|cuda(?:GetDevice|SetDevice|GetDeviceCount)\(\)[^.\n]{0,30} failed\. Status: "
        r"(?P<status>initialization error|unknown error|system not yet initialized|OS call failed)",
    ),
    template("cuda-error", "cuda_error_", r"\b(?P<name>CUDA_ERROR_[A-Z_]+[A-Z])\b"),
    template(
        "no-cuda-device",
        "no cuda-capable device|cuda_error_no_device|no supported devices found for platform cuda|no gpu/tpu found",
    ),
    template("kernel-driver-not-running", "kernel driver does not appear to be running"),
    template(
        "kernel-version",
        "kernel reported version is|kernel module|kernel driver version",
        r"kernel reported version is: *(?P<version>\d+(?:\.\d+)+)"
        r"|NVRM version: NVIDIA UNIX (?:Open Kernel Module for )?\S+ +(?:Kernel Module +)?(?P<module>\d+(?:\.\d+)+)",
        role="context",
    ),
    template(
        "libcuda-version",
        "libcuda reported version is",
        r"libcuda reported version is: *(?P<version>\d+(?:\.\d+)+)",
        role="context",
    ),
    template(
        "libcuda-version",
        "libcuda1|libcuda.so.1 ->|libnvidia-|nvidia-utils|nvidia-compute|nvidia-driver-cuda",
        r"\b(?:libcuda1|libnvidia-(?:compute|ml|gl)|nvidia-(?:compute-)?utils|nvidia-driver-cuda)"
        r"[^\n]{0,120}[\s(=](?P<version>\d{3}\.\d{2,3}(?:\.\d{2})?)(?=[-\s,)]|$)"  # the last is the new one
        r"|libcuda\.so\.1 -> (?:\S*/)?libcuda\.so\.(?P<linked>\d{3}\.\d{2,3}(?:\.\d{2})?)\b",
        package="yes",
    ),
    template("libcuda-not-loaded", "unable to find libcuda.so dso"),
    template(
        "driver-versions-differ",
        "does not match dso version|client version|api mismatch|libnvidia-",
        # a library of the driver asks for another one by the number of its own release
        rf"(?P<wanted>{_OF_DRIVER}): cannot open"
        rf"|\b(?:look(?:s|ing|ed)? for|locate|find|load|missing)\b[^\n]{{0,60}}\b{_OF_DRIVER}\b"
        r"|kernel version (?P<kernel>\d+(?:\.\d+)+) does not match DSO version (?P<library>\d+(?:\.\d+)+)"
        r"|NVRM: API mismatch.*?(?:client has the version (?P<client>\d+(?:\.\d+)+))?",
    ),
    template("stub-library", "is a stub library|cuda_error_stub_library|cudaerrorstublibrary"),
    template(
        "nvml-mismatch",
        "driver/library version mismatch|lib_rm_version_mismatch|system has unsupported display driver / cuda driver",
    ),
    template("nvml-version", "nvml library version", r"NVML library version: *(?P<version>\d+[\d.]*)", role="context"),
    template(
        "driver-insufficient",
        "driver version is insufficient|insufficientdriver|unsatisfied condition: cuda|system is too old|"
        "insufficient driver|built for nvidia driver release|"
        "could not find cu|display driver version is older|not supported in the installed cuda driver",
        r"CUDA driver version is insufficient for CUDA runtime version|cudaErrorInsufficientDriver"
        r"|unsatisfied condition: cuda *>= *(?P<cuda>\d+(?:\.\d+)?)"
        r"|NVIDIA driver on your system is too old(?: \(found version (?P<found>\d+)\))?"
        # what NVIDIA's images print when they start; a warning alone, "should run", is no failure
        r"|ERROR: This container was built for NVIDIA Driver Release (?P<release>\d{3}\.\d+) or later"
        r"|could not find cu[A-Z]\w{2,60}(?: in libcuda DSO|$)"
        r"|display driver version is older than|API call is not supported in the installed CUDA driver",
    ),
    template(
        "possibly-old-driver", "possibly insufficient driver version", r"driver version: (?P<driver>\d+(?:\.\d+)+)"
    ),
    template(
        "smi-version",
        "nvidia-smi",
        r"NVIDIA-SMI (?P<tool>\d{3}\.[\d.]{1,20}) .{0,60}?Driver Version: *(?P<driver>\d{3}\.[\d.]+)",
        role="context",
    ),
    template(
        "driver-not-installed",
        "driver",
        r"\bno nvidia driver (?:was |is )?(?:found|installed)|\b(?:does not|doesn't|did not|didn't|no longer) install"
        r" (?:the |any )?(?:\w+ ){0,2}drivers?\b|\bdrivers? (?:is|are) not installed\b",
    ),
    template(
        "no-gpu-present",
        "call to hipinit|virtualbox|parallels",
        r"failed call to hipInit|\bVirtualBox\b|\bParallels (?:Desktop|VM)\b",
        role="context",
    ),
    template(
        "nvcc-too-old",
        "unsupported gpu architecture|for option 'gpu-arch",
        r"[Uu]nsupported gpu architecture ['\"`]?(?:compute|sm)_(?P<arch>\d{2,3}\w?)"
        r"|Value '(?:compute|sm)_(?P<value>\d{2,3}\w?)' is not defined for option 'gpu-arch",
    ),
    template(
        "no-known-devices", "no known devices", r"Device mapping: no known devices", role="context"
    ),  # direct_session.cc of 1.x
    template(
        "windows-build",
        "microsoft windows [version",
        r"Microsoft Windows \[Version 10\.0\.(?P<build>\d{5})",
        role="context",
    ),
    template("wsl-1", "-microsoft", r"\b4\.4\.0-\d{5}-Microsoft\b", role="context"),
    template(
        "no-dxg",
        "/dev/dxg",
        r"/dev/dxg\W.{0,30}(?:[Nn]o such file|does(?: not|n't) exist|(?:is )?missing|not (?:there|found|present))"
        r"|\b(?:no|missing|without) /dev/dxg|\bkein(?:e|en)? /dev/dxg|没有 ?/dev/dxg",
    ),
    template(
        "device-permission",
        "nvml|/dev/nvidia|permission",
        r"Failed to initialize NVML: Insufficient Permissions"
        r"|/dev/nvidia\S{0,12}\W.{0,40}(?:[Pp]ermission denied|Operation not permitted)"
        r"|(?:[Pp]ermission denied|not permitted).{0,40}/dev/nvidia",
    ),
    template("power-capped", "sw power cap", r"SW Power Cap +: +Active\b", role="context"),
    template("no-device-node", "no nvidia gpu device is present"),
    template(
        "hidden-by-variable",
        "hides all gpus from cuda",
        r"CUDA_VISIBLE_DEVICES is set to (?P<value>\S+)|hides all GPUs from CUDA",
    ),
    template(
        "invalid-visible-device",
        "listed an invalid gpu id|device < num_gpus|invalid device ordinal|visible_device_list|are not "
        "visible to tensorflow",
        r"listed an invalid GPU id|device >= 0 && device < num_gpus|invalid device ordinal"
        r"|Some requested devices in .{1,40} are not visible to TensorFlow"
        r"|Could not parse entry in 'visible_device_list'",
    ),
    template("forward-compatibility", "forward compatibility was attempted on non supported hw"),
    template("ptx-too-new-for-driver", "compiled with an unsupported toolchain|cuda_error_unsupported_ptx_version"),
    # --- nvidia-smi and NVML
    template(
        "smi-no-driver",
        "couldn't communicate with the nvidia driver|nvidia driver is not loaded|nvml: driver not loaded",
    ),
    template(
        "smi-not-found",
        "nvidia-smi",
        r"nvidia-smi(?:\.exe)?['\"]?:? *(?:command )?not found|command ['\"]?nvidia-smi['\"]? not found"
        r"|['\"]?nvidia-smi(?:\.exe)?['\"]? is not recognized|nvidia-smi: No such file"
        r"|exec:? \\?[\"']?nvidia-smi\\?[\"']?: executable file not found",
    ),
    template(
        "nvml-blocked",
        "failed to initialize nvml|gpu access blocked",
        r"Failed to initialize NVML: Unknown Error|GPU access blocked by the operating system",
    ),
    template(
        "nvml-not-found",
        "nvml shared library not found|couldn't find libnvidia-ml|libnvidia-ml.so: cannot|found no nvidia driver",
    ),
    # nvidia-smi runs, and does not find libcuda beside it
    template("smi-no-libcuda", "cuda version: err|cuda version: n/a", r"CUDA Version: *(?:ERR!|N/A)"),
    template("smi-no-devices", "no devices were found"),
    template(
        "nvml-failed",
        "failed to initialize nvml|nvml: |nvml error",
        r"(?:Failed to initialize NVML|nvml error|NVML): *(?P<why>[A-Za-z][\w /,'.-]{3,80})",
    ),
    template("hung-task", "blocked for more than", r"task (?P<task>\S+) blocked for more than \d+ seconds"),
    # --- the kernel module
    template(
        "module-not-loaded",
        "modprobe|insmod|module nvidia|nvidia_drm|nouveau|dkms|required key|key was rejected|nvidia.ko|prime-select|"
        "prime profile|secure boot|/dev/nvidia|symbol module_layout|unsigned module|nvidia probe routine|"
        "the kernel module 'nvidia|uvm kernel module",
        r"modprobe: (?:FATAL|ERROR): .{0,80}nvidia.{0,80}"
        r"|modprobe nvidia\w*\W{1,4}(?:[\w']+ ){0,6}?\W?(?:Operation not permitted|Required key|Key was rejected"
        r"|Exec format error|Invalid argument|No such device)"
        r"|could not insert '?nvidia\S* *(?P<why>.{0,80})"
        r"|Required key not available|Key was rejected by service"
        r"|(?:Kernel driver in use: |Kernel modules?: (?=nouveau\s*$))(?P<driver>nouveau)\b"  # others may be there
        r"|Module nvidia(?:-\w+)? not found"
        r"|/dev/nvidia(?:\d|ctl|-uvm)\b.{0,40}no such file"
        r"|nvidia.{0,10}: disagrees about version of symbol module_layout"
        r"|unsigned module loading is restricted|Loading of unsigned module is rejected"
        r"|NVRM: The NVIDIA probe routine was not called"
        r"|[Uu]nable to load the kernel module 'nvidia|Could not load UVM kernel module",
    ),
    template(
        "module-init-failed",
        "rminitadapter|rm_init_adapter|nvrm: the nvidia gpu|nvrm: no nvidia|nvrm: gpu",
        r"(?:RmInitAdapter|rm_init_adapter) failed|NVRM: No NVIDIA (?:graphics adapter|GPU|devices?) (?:found|probed)"
        r"|NVRM: The NVIDIA GPU .{0,80}",
    ),
    template(
        "xid", "xid", r"\bXid\b(?: \((?:PCI:)?(?P<bus>[0-9A-Fa-f:.]+)\))?:? *(?:error |code |= *)?(?P<number>\d{1,3})\b"
    ),
    template(
        "ecc",
        "ecc|remap|retired",
        r"(?:uncorrectable|double.bit) ECC(?: error)?|ECC.uncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE"
        r"|row remap\w* (?:failure|failed)|Remapping Failure Occurred *: *Yes",
    ),
    template(
        "slowdown",
        "slowdown|throttl|pwr brake",
        r"(?:HW|SW|Hardware|Software) ?(?:Thermal|Power Brake)? ?Slowdown *: *(?P<state>Active)\b"
        r"|(?:thermal|power)[ -]throttl\w+|GPU (?:is|was) throttl\w+",
    ),
    # --- containers
    template("docker-no-gpu-driver", "could not select device driver"),
    template(
        "docker-no-runtime",
        "unknown runtime specified nvidia|invalid runtime name: nvidia|unknown or invalid runtime|"
        'unknown flag: --gpus|exec: "nvidia-container-runtime',
    ),
    template(
        "container-hook-failed",
        "nvidia-container-cli|nvidia-container-runtime-hook",
        r"nvidia-container-cli(?:\.real)?: *(?P<step>[\w ]+?error)?:? *(?P<why>[^\"\\]{3,160})",
    ),
    template(
        "container-no-cdi",
        "unresolvable cdi devices|cdi device injection failed|no known gpu vendor found|stat nvidia.com/gpu",
    ),
    template("ngc-no-driver", "nvidia driver was not detected"),
    template(
        "kubernetes-no-gpu",
        "insufficient nvidia.com/gpu|insufficient alpha.kubernetes.io/nvidia-gpu|unavailable for nvidia.com/gpu",
    ),
    template("slurm-no-gpu", "invalid generic resource|gres", r"Invalid generic resource \(gres\) specification"),
    # --- what TensorFlow says of a card
    template(
        "gpu-ignored",
        "ignoring visible gpu|ignoring gpu device",
        r"Ignoring (?:visible )?gpu device \((?P<device>.{0,300}?)\) with Cuda (?:compute )?capability "
        rf"{_CAPABILITY}\. The minimum required Cuda (?:compute )?capability is (?P<need>\d+\.\d+)",
    ),
    template(
        "gpu-ignored",
        "minimum required compute capability|compute capability|ignoring visible gpu device",
        r"No CUDA device found with minimum required compute capability (?P<need>\d+\.\d+)"
        r"|does not meet (?:the )?minimum required compute capability:? (?P<least>\d+\.\d+)"
        r"|Ignoring (?:visible )?gpu device\W*$"
        r"|minimum (?:required )?(?:cuda )?compute capability (?:is |of |to )?(?P<bound>\d+\.\d+)\b(?! (?:or|and))"
        r"|compute capability(?: version)? *(?:>=|of at least) *(?P<floor>\d+\.\d+) (?:is )?(?:needed|required)",
    ),
    template(
        "gpu-few-multiprocessors",
        "tf_min_gpu_multiprocessor_count|cuda multiprocessor count",
        r"with (?:Cuda multiprocessor count|core count): (?P<count>\d+)",
        role="context",
    ),
    template(
        "no-kernels-for-gpu",
        "not built with cuda kernel binaries",
        rf"not built with CUDA kernel binaries compatible with compute capability {_CAPABILITY}",
    ),
    template(
        "built-without-cuda",
        "cuda is not enabled|not compiled with cuda",
        r"appears to be a GPU, but CUDA is not enabled|\(Note: TensorFlow was not compiled with CUDA",
        role="context",
    ),
    template("kernel-image-invalid", "kernel image is invalid"),
    template(
        "cuda-capability",
        "computecapability|compute capability|cc ",
        r"(?:compute ?capability|\bCC):? *(?P<capability>\d{1,2}\.\d)\b",
        role="context",
    ),
    template(
        "no-kernel-image",
        "no kernel image is available|cuda_error_no_binary_for_gpu|not supported by this container",
        r"no kernel image is available|cuda_error_no_binary_for_gpu"
        r"|Detected .{3,60} GPU, which is not supported by this container",
    ),
    template("invalid-ptx", "cuda_error_invalid_ptx|ptx jit compilation failed|a ptx jit"),
    template("invalid-handle", "cuda_error_invalid_handle"),
    template("invalid-device-function", "invalid device function"),
    template("no-arch-in-ptxas", "is not defined for option 'gpu-name'", r"Value '(?P<arch>sm_\w+)' is not defined"),
    template(
        "mig",
        "mig|nvidia_visible_devices",
        r"\bMIG \d+g\.\d+gb +Device +(?P<device>\d+)|\bMIG-(?:GPU-)?[0-9a-f]{8}[-0-9a-f/]*"
        r"|\bMIG +(?P<profile>\d+g\.\d+gb)|MIG (?:mode|devices)\b"
        r"|\b(?P<count>[2-7]) MIG (?:instance|device|slice)s\b"
        r"|(?:enable|enabled|with|using) MIG\b|NVIDIA_VISIBLE_DEVICES\W{1,3}\d+:\d+|MIG-enabled",
        role="context",
    ),
    template("mig-empty", "no mig devices", r"no MIG devices (?:were )?found"),
    template("dma-fault", "dmar|iommu|io_page_fault", r"DMAR: \[DMA (?:Write|Read)\b.{0,60}|IO_PAGE_FAULT"),
    template(
        "devices-busy",
        "devices are busy or unavailable|cuda-capable device(s) is/are busy|cuda_error_device_unavailable"
        "|device or resource busy",
    ),
    template("system-not-ready", "system not yet initialized|cuda_error_system_not_ready"),
)
