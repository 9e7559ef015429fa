"""Texts about the driver, the GPUs, containers and WSL2: what must be found in them, and what must not."""

from __future__ import annotations

from tests.findings.logs import DEVICE, DIAGNOSTICS, DNN, DRIVER, GONE, LOADER, created, log, not_opened, smi, text

NO_DEVICE = "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
NO_KERNEL_DRIVER = (
    "kernel driver does not appear to be running on this host (box): /proc/driver/nvidia/version does not exist"
)
UNKNOWN_303 = "failed call to cuInit: UNKNOWN ERROR (303)"
_NO_SMI = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)
_IN_DOCKER = "$ docker run -it --rm tensorflow/tensorflow:2.11.0-gpu python -c 'import tensorflow as tf'"
_IN_DOCKER_WITH_GPUS = "$ docker run --gpus all -it --rm tensorflow/tensorflow:2.11.0-gpu python job.py"
_HOOK = "docker: Error response from daemon: OCI runtime create failed: error running hook #0: nvidia-container-cli: "
_NO_PROGRAM = "bash: nvidia-smi: command not found"
_MIG_TABLE = text(
    "$ nvidia-smi -L",
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-1111-2222-3333-444444444444)",
    "  MIG 3g.20gb     Device  0: (UUID: MIG-11111111-2222-3333-4444-555555555555)",
    "  MIG 3g.20gb     Device  1: (UUID: MIG-66666666-7777-8888-9999-000000000000)",
)

FIRES: dict[str, dict[str, str]] = {
    "driver.missing": {
        "no nvidia-smi, and nothing else": "bash: nvidia-smi: command not found",
        "2.4 on Linux": text(
            not_opened("2.4", "libcuda.so.1"),
            log("2.4", DRIVER, UNKNOWN_303, "W"),
            log("2.4", DIAGNOSTICS, NO_KERNEL_DRIVER, "I"),
        ),
        "1.12 looks for libcuda.so": log("1.15", DRIVER, "failed to find libcuda.so on this system: Not found"),
        "2.21 says no more than the number": log(
            "2.21", DRIVER, f"failed call to cuInit: INTERNAL: CUDA error: {UNKNOWN_303[0].upper()}{UNKNOWN_303[1:]}"
        ),
        "1.4 on Windows": (
            "ImportError: Could not find 'nvcuda.dll'. TensorFlow requires that this DLL be installed in a directory "
            "that is named in your %PATH% environment variable."
        ),
        "linked at build time": "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
        "no nvidia-smi either": text("bash: nvidia-smi: command not found", log("2.13", DRIVER, NO_DEVICE)),
    },
    "driver.not-loaded": {
        "the runtime cannot start": "InternalError: cudaGetDevice() failed. Status: unknown error",
        "nvidia-smi": text("$ nvidia-smi", _NO_SMI),
        "Secure Boot": "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        "after a kernel update": "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.15.0-97-generic",
        "nouveau": "	Kernel driver in use: nouveau",
        "2.10": text(log("2.4", DRIVER, NO_DEVICE, "W"), log("2.4", DIAGNOSTICS, NO_KERNEL_DRIVER, "I")),
        "a card that the driver's branch has dropped": text(
            "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1380)",
            "NVRM: installed in this system is not supported by the",
            "NVRM: NVIDIA 580.65.06 driver release.",
        ),
        "uvm is not there": log("2.13", DRIVER, "failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error"),
        "NVIDIA's installer": "ERROR: Unable to load the kernel module 'nvidia.ko'.  This happens most frequently when",
        "nvidia-docker 1": "nvidia-docker | 2016/10/02 10:11:12 Error: Could not load UVM kernel module",
    },
    "driver.version-mismatch": {
        "nvidia-smi": "Failed to initialize NVML: Driver/library version mismatch",
        "1.2": log(
            "1.15",
            DIAGNOSTICS,
            "kernel version 375.39.0 does not match DSO version 375.66.0 -- cannot find working devices "
            "in this configuration",
        ),
        "the kernel": text(
            "[  101.202303] NVRM: API mismatch: the client has the version 470.57.02, but",
            "NVRM: this kernel module has the version 470.42.01.  Please",
        ),
        "2.17, CUDA 803": log(
            "2.17",
            DRIVER,
            "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: "
            "system has unsupported display driver / cuda driver combination",
        ),
        "NVML's name of it": "pynvml.NVMLError: NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        "two numbers in nvidia-smi's banner": smi(tool="470.57.02", driver="495.29.05"),
    },
    "driver.too-old": {
        "CUDA 8 over the 340 driver": text(
            "successfully opened CUDA library libcublas.so.8.0 locally",
            log("1.0", DRIVER, "failed call to cuInit: CUDA_ERROR_UNKNOWN"),
            log("1.0", DIAGNOSTICS, "kernel reported version is: 340.101.0", "I"),
        ),
        "older in the third part of its version alone": text(
            log("1.15", LOADER, "Successfully opened dynamic library libcudart.so.11.0", "I"),
            log("2.4", DRIVER, "failed call to cuInit: CUDA_ERROR_INVALID_VALUE"),
            log("2.4", DIAGNOSTICS, "kernel reported version is: 450.36.5", "I"),
        ),
        "1.12": (
            "tensorflow.python.framework.errors_impl.InternalError: cudaGetDevice() failed. Status: "
            "CUDA driver version is insufficient for CUDA runtime version"
        ),
        "an image's requirement": (
            f"{_HOOK}requirement error: unsatisfied condition: cuda>=12.4, please update your driver to a newer version"
        ),
        "2.16, PTX of a newer toolkit": log(
            "2.17", DRIVER, "Failed to load PTX: the provided PTX was compiled with an unsupported toolchain."
        ),
        "an elementwise operation on an H100": text(
            "tensorflow==2.20.0",
            "NVIDIA H100 80GB HBM3, 535.183.06",
            "W tensorflow/compiler/mlir/tools/kernel_gen/tf_gpu_runtime_wrappers.cc:40] "
            "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_UNSUPPORTED_PTX_VERSION'",
        ),
        "a card that the image makes an exception for": f"{_HOOK}requirement error: unsatisfied condition: "
        f"brand = tesla",
        "a function of a newer libcuda": log(
            "1.0", DRIVER, "Check failed: s.ok() could not find cuDevicePrimaryCtxSetFlags in libcuda DSO", "F"
        ),
        "forward compatibility": log(
            "2.13",
            DRIVER,
            "failed call to cuInit: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: forward compatibility was attempted "
            "on non supported HW",
        ),
    },
    "driver.stub-loaded": {
        "its folder is on the path, in a container": text(
            _IN_DOCKER,
            log("2.4", DRIVER, "failed call to cuInit: UNKNOWN ERROR (34)", "W"),
            "# echo $LD_LIBRARY_PATH",
            "/usr/local/cuda/lib64:/usr/local/cuda/lib64/stubs",
        ),
        "1.0": log("1.0", DRIVER, "failed call to cuInit: CUresult(-1)"),
        "2.10": log("2.4", DRIVER, "failed call to cuInit: UNKNOWN ERROR (34)", "W"),
        "2.21": log(
            "2.21",
            DRIVER,
            "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: CUDA_ERROR_STUB_LIBRARY: "
            "CUDA driver is a stub library",
        ),
        "another program": "cudaGetDeviceCount: CUDA driver is a stub library",
    },
    "driver.unresponsive": {
        "the container tool waits for it": f"{_HOOK}initialization error: driver rpc error: timed out: unknown.",
        "the kernel": "[ 2418.1] INFO: task nvidia-smi:2211 blocked for more than 120 seconds.",
        "Python waits": "INFO: task python3:9911 blocked for more than 241 seconds.",
    },
    "container.no-gpu": {
        "a stub answers, and there is no device": text(
            _IN_DOCKER_WITH_GPUS,
            log("1.15", DRIVER, "failed call to cuInit: UNKNOWN ERROR (-1)"),
            log("1.15", DIAGNOSTICS, "no NVIDIA GPU device is present: /dev/nvidia0 does not exist", "I"),
        ),
        "the driver's module is seen, its library is not": text(
            "the docker image, run with Singularity on the cluster:",
            log("1.0", LOADER, "Couldn't open CUDA library libcuda.so.1. LD_LIBRARY_PATH: /usr/local/cuda/lib64"),
            'driver version file contents: """NVRM version: NVIDIA UNIX x86_64 Kernel Module  375.20  Tue Nov 15',
        ),
        "Docker without the toolkit": (
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'
        ),
        "an unknown runtime": "docker: Error response from daemon: unknown or invalid runtime name: nvidia",
        "Podman": "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
        "NGC's banner": "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.",
        "Kubernetes": "Warning  FailedScheduling  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "the cgroup was rewritten": text(
            _IN_DOCKER_WITH_GPUS, "root@0123456789ab:/# nvidia-smi", "Failed to initialize NVML: Unknown Error"
        ),
        "nobody asked for a GPU": text(
            _IN_DOCKER, not_opened("2.4", "libcuda.so.1"), log("2.4", DRIVER, UNKNOWN_303, "W")
        ),
        "while an image is built": text(
            "FROM tensorflow/tensorflow:2.10.0-gpu",
            "RUN python3 warm_up.py",
            log("2.4", DRIVER, "failed call to cuInit: UNKNOWN ERROR (34)", "W"),
            log("2.4", DIAGNOSTICS, NO_KERNEL_DRIVER, "I"),
        ),
        "the host's driver": f"{_HOOK}initialization error: nvml error: driver not loaded: unknown.",
        "no nvidia-smi inside": text(_IN_DOCKER_WITH_GPUS, "root@0123456789ab:/# nvidia-smi", _NO_PROGRAM),
        "a command that is not there": 'Error: starting container process caused "exec: \\"nvidia-smi\\": '
        "executable file "
        'not found in $PATH" in pod trainer-0, kind: Pod',
        "no libcuda inside": text(_IN_DOCKER_WITH_GPUS, smi().replace("CUDA Version: 12.4", "CUDA Version: N/A ")),
        "Slurm grants one, Apptainer hands none in": text(
            "$ srun --gres=gpu:1 apptainer exec tf.sif python3 job.py",
            not_opened("2.4", "libcuda.so.1"),
            log("2.4", DRIVER, UNKNOWN_303, "W"),
        ),
    },
    "wsl.setup": {
        "a Windows that hands no GPU in": text(
            "Microsoft Windows [Version 10.0.19042.1052]", "### WSL Version", "- [X] WSL 2", "Ubuntu 20.04"
        ),
        "2.10": text(
            "Linux box 5.15.90.1-microsoft-standard-WSL2 #1 SMP x86_64 GNU/Linux",
            not_opened("2.4", "libcuda.so.1"),
            log("2.4", DRIVER, UNKNOWN_303, "W"),
        ),
        "2.21": text(
            "- OS: Ubuntu 22.04 in WSL2",
            log(
                "2.21",
                DRIVER,
                "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)",
            ),
        ),
        "the toolkit does not mount all libraries": text(
            "Windows 11, WSL2, Docker Desktop 4.30",
            "docker run -it --rm --gpus all tensorflow/tensorflow:latest-gpu-jupyter",
            log("2.17", DRIVER, "failed call to cuInit: CUDA_ERROR_NOT_FOUND: named symbol not found"),
        ),
        "nvidia-smi finds no libcuda": text(
            "Ubuntu 22.04 in WSL 2",
            "| NVIDIA-SMI 545.36                 Driver Version: 546.33       CUDA Version: ERR!     |",
        ),
        "Docker Desktop": text(
            "PS C:\\> wsl -d Ubuntu",
            f"{_HOOK}initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file",
        ),
    },
    "gpu.arch-too-old": {
        "a line that is cut": text(
            log("1.15", DEVICE, "Found device 0 with properties:", "I"), "Ignoring visible gpu device"
        ),
        "another program's words": (
            "Tesla K40m does not meet minimum required compute capability: 3.7. Falling back to CPU mode."
        ),
        "a form's words": "the GUI says that CUDA Compute Capability Version >= 3.0 is needed",
        "1.3": log(
            "1.15",
            DEVICE,
            "Ignoring gpu device (device: 0, name: GeForce GT 630, pci bus id: 0000:01:00.0) with Cuda compute "
            "capability 2.1. The minimum required Cuda capability is 3.0.",
            "I",
        ),
        "2.4": log(
            "2.4",
            DEVICE,
            "Ignoring visible gpu device (device: 0, name: GeForce GTX 760, pci bus id: 0000:01:00.0, compute "
            "capability: 3.0) with Cuda compute capability 3.0. The minimum required Cuda capability is 3.5.",
            "I",
        ),
        "2.3 has a gap": text(
            log("2.4", DEVICE, "pciBusID: 0000:01:00.0 name: GeForce GTX 960M computeCapability: 5.0", "I"),
            log("2.4", DRIVER, "Internal: no kernel image is available for execution on the device"),
            "- TensorFlow version: 2.3.0",
        ),
        "a function that the card does not know": text(
            log("1.0", DEVICE, "Found device 0 with properties: ", "I"),
            "name: GeForce GTX 550 Ti",
            "major: 2 minor: 1 memoryClockRate (GHz) 1.8",
            "pciBusID 0000:01:00.0",
            log("1.0", DRIVER, "could not set up the kernel: invalid device function"),
        ),
        "cuDNN": text(
            log("2.4", DNN, "Could not create cudnn handle: CUDNN_STATUS_ARCH_MISMATCH"),
        ),
    },
    "gpu.arch-too-new": {
        "nvcc does not know it": "nvcc fatal   : Unsupported gpu architecture 'compute_86'",
        "2.10 and later": log(
            "2.13",
            DEVICE,
            "TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0. CUDA kernels "
            "will be jit-compiled from PTX, which could take 30 minutes or longer.",
            "W",
        ),
        "2.18": log("2.17", DRIVER, "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_PTX'"),
        "a handle that is none": text(
            log("2.4", DEVICE, "pciBusID: 0000:01:00.0 name: NVIDIA H100 PCIe computeCapability: 9.0", "I"),
            log("2.4", DRIVER, "Internal: CUDA_ERROR_INVALID_HANDLE: invalid resource handle"),
            "TensorFlow version: 2.4.1",
        ),
        "a CUDA from before the card, and no number": text(
            "CUDA 7.5, cuDNN v4, GTX 1070", "Epoch: [ 0] [   0/3165] time: 1.7310, g_loss: nan"
        ),
        "a product that cannot be launched, with the CUDA that is opened": text(
            log(
                "1.15",
                LOADER,
                "Successfully opened dynamic library libcublas.so.10.0",
                "I",
            ),
            log(
                "1.15",
                "stream_executor/cuda/cuda_blas.cc",
                "failed to run cuBLAS routine: CUBLAS_STATUS_EXECUTION_FAILED",
            ),
            "The card is a 3080 Ti.",
        ),
        "a product that cannot be launched, with the CUDA that is stated": text(
            "CUDA 8.0, cuDNN 5.1, RTX 2080",
            "InternalError: Blas SGEMM launch failed : a.shape=(64, 8), b.shape=(8, 8), m=64, n=8, k=8",
        ),
        "a CUDA from before the card, by another of its libraries": text(
            "Successfully opened dynamic library cusparse64_100.dll",
            log("1.15", DEVICE, "name: NVIDIA GeForce RTX 3060 major: 8 minor: 6 memoryClockRate(GHz): 1.77", "I"),
        ),
        "a CUDA from before the card": text(
            "Successfully opened dynamic library libcudart.so.10.1",
            log("2.4", DEVICE, "pciBusID: 0000:01:00.0 name: GeForce RTX 3080 computeCapability: 8.6", "I"),
        ),
        "no kernel for Hopper": text(
            log("2.4", DEVICE, "pciBusID: 0000:01:00.0 name: NVIDIA H100 PCIe computeCapability: 9.0", "I"),
            log("2.4", DRIVER, "Internal: no kernel image is available for execution on the device"),
            "TensorFlow version: 2.4.1",
        ),
    },
    "gpu.none": {
        "an import that fails, too": text(
            "- TensorFlow version: tensorflow-gpu 1.13.1",
            "- GPU model and memory: AMD Radeon HD 7500M",
            "ImportError: DLL load failed: The specified module could not be found.",
        ),
        "a sentence, and not a word of NVIDIA": text(
            "My laptop has Intel(R) Iris(R) Xe Graphics, nothing else built in.", not_opened("2.4", "nvcuda.dll")
        ),
        "another maker's card": text("GPU model and memory: AMD Radeon RX 6800 16GB", log("2.13", DRIVER, NO_DEVICE)),
        "a form that says so, and names NVIDIA": text(
            "- GPU: none, Intel runs the graphics; no NVIDIA hardware", not_opened("2.4", "cudart64_110.dll")
        ),
        "graphics of the processor": text(
            "### GPU model and memory", "", "Intel UHD Graphics 620", "", not_opened("2.4", "libcudart.so.11.0")
        ),
        "the system's own page": text(
            "Ubuntu 22.04.2 LTS", "Graphics Mesa Intel Xe Graphics (TGL GT2)", not_opened("2.4", "libcudart.so.11.0")
        ),
        "lspci finds nothing": text(
            "[u@node07 ~]$ lspci | grep -i nvidia",
            "[u@node07 ~]$ python -c 'import tensorflow'",
            not_opened("2.4", "libcuda.so.1"),
        ),
    },
    "gpu.hidden": {
        "2.21 says so": log("2.21", DIAGNOSTICS, "CUDA_VISIBLE_DEVICES is set to -1 - this hides all GPUs from CUDA"),
        "the program": text("tf.config.set_visible_devices([], 'GPU')", "Num GPUs Available:  0"),
        "1.x": "InvalidArgumentError: 'visible_device_list' listed an invalid GPU id '1' but visible device count is 1",
        "CUDA 101": log("2.13", DRIVER, "failed call to cuInit: CUDA_ERROR_INVALID_DEVICE: invalid device ordinal"),
        "the scheduler": "sbatch: error: Invalid generic resource (gres) specification",
        "no reason given": text(
            smi(), log("2.4", DRIVER, NO_DEVICE, "W"), log("2.4", DIAGNOSTICS, "kernel reported version is: 550.54.14")
        ),
    },
    "gpu.fault": {
        "Xid 79": "[ 901.2] NVRM: Xid (PCI:0000:01:00): 79, pid=4711, name=python3, GPU has fallen off the bus.",
        "an old driver": "NVRM: Xid (0000:01:00): 31, Ch 00000010, engmask 00000101, intr 10000000",
        "nvidia-smi": (
            "Unable to determine the device handle for GPU 0000:08:00.0: GPU is lost.  Reboot the system to recover."
        ),
        "ECC": log("2.13", DRIVER, "failed to query event: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error"),
    },
    "gpu.throttled": {
        "nvidia-smi -q, heat": "        HW Thermal Slowdown               : Active",
        "nvidia-smi -q, power": "        HW Power Brake Slowdown           : Active",
        "in words": "After ten minutes the card starts thermal throttling.",
    },
    "gpu.mig": {
        "several, in words": "4 MIG instances (1g.10gb) for the container: only the device with ID 0 is used",
        "an index": text(_MIG_TABLE, log("2.13", DRIVER, NO_DEVICE)),
        "one each on two cards": text(
            "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-00000000-1111-2222-3333-444444444444)",
            "  MIG 3g.40gb     Device  0: (UUID: MIG-11111111-2222-3333-4444-555555555555)",
            "GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-10000000-1111-2222-3333-444444444444)",
            "  MIG 3g.40gb     Device  0: (UUID: MIG-66666666-7777-8888-9999-000000000000)",
            "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED",
        ),
        "without instances": text("$ nvidia-smi", smi(), "|  No MIG devices found                          |"),
    },
}

# finding → texts that are like those above, and in which it must be no error
LOOK_ALIKES: dict[str, dict[str, str]] = {
    "driver.missing": {
        "no nvidia-smi on a Mac": text("MacBook Pro M2, macOS 14.5", "zsh: command not found: nvidia-smi"),
        "cuDNN asks for libcuda.so": (f"Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: {GONE}"),
        "a container": text(_IN_DOCKER, not_opened("2.4", "libcuda.so.1"), log("2.4", DRIVER, UNKNOWN_303, "W")),
        "WSL2": text(
            "5.15.90.1-microsoft-standard-WSL2", not_opened("2.4", "libcuda.so.1"), log("2.4", DRIVER, UNKNOWN_303)
        ),
        "it is libcudart": log(
            "2.13", "tsl/cuda/cudart_stub.cc", "Could not find cuda drivers on your machine, GPU will not be used.", "I"
        ),
        "an AMD card": text("GPU: AMD Radeon RX 580", not_opened("2.4", "libcuda.so.1")),
    },
    "driver.not-loaded": {
        "a container": text(
            _IN_DOCKER, log("2.4", DRIVER, UNKNOWN_303, "W"), log("2.4", DIAGNOSTICS, NO_KERNEL_DRIVER, "I")
        ),
        "it is loaded": text(
            log("2.4", DRIVER, NO_DEVICE, "W"),
            log("2.4", DIAGNOSTICS, "kernel reported version is: 535.113.1", "I"),
        ),
        "a module of another maker": "nvidia: module verification failed: signature and/or required key missing",
        "the card is gone": text("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", _NO_SMI),
    },
    "driver.version-mismatch": {
        "they match": log("2.4", DIAGNOSTICS, "kernel version seems to match DSO: 535.113.1", "I"),
        "WSL2 has two numbers": text("Ubuntu 22.04 on WSL2", smi(tool="530.41.01", driver="531.79")),
    },
    "driver.too-old": {
        "the oldest driver of CUDA 11, without its zero": text(
            log("1.15", LOADER, "Successfully opened dynamic library libcudart.so.11.0", "I"),
            log("2.4", DRIVER, "failed call to cuInit: CUDA_ERROR_INVALID_VALUE"),
            log("2.4", DIAGNOSTICS, "kernel reported version is: 450.36.6", "I"),
        ),
        "CUDA 8 over a driver that knows it": text(
            "successfully opened CUDA library libcublas.so.8.0 locally",
            log("1.0", DRIVER, "failed call to cuInit: CUDA_ERROR_UNKNOWN"),
            log("1.0", DIAGNOSTICS, "kernel reported version is: 375.66.0", "I"),
        ),
        "a handle that fails": text(
            log("1.15", DNN, "Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED"),
            log("1.15", DNN, "Possibly insufficient driver version: 384.130.0"),
        ),
        "XLA only compiles one at a time": log(
            "2.13",
            "compiler/xla/service/gpu/nvptx_compiler.cc",
            "The NVIDIA driver's CUDA version is 12.2 which is older than the ptxas CUDA version (12.3.107). Because "
            "the driver is older than the ptxas version, XLA is disabling parallel compilation",
            "W",
        ),
    },
    "driver.stub-loaded": {
        "the stub of CUDA's image": text(
            _IN_DOCKER,
            log("2.4", DRIVER, "failed call to cuInit: UNKNOWN ERROR (34)", "W"),
            log("2.4", DIAGNOSTICS, NO_KERNEL_DRIVER, "I"),
        ),
        "no driver at all": log("2.4", DRIVER, UNKNOWN_303, "W"),
    },
    "driver.unresponsive": {
        "another task": "INFO: task jbd2/sda1-8:411 blocked for more than 120 seconds.",
        "nvidia-smi answers": smi(),
    },
    "container.no-gpu": {
        "both halves of the driver are there": text(
            _IN_DOCKER,
            log("2.4", DRIVER, NO_DEVICE),
            log("2.4", DIAGNOSTICS, "kernel version 390.67.0 does not match DSO version 390.25.0 -- cannot find"),
        ),
        "the driver is slow": f"{_HOOK}initialization error: driver rpc error: timed out: unknown.",
        "the host's driver was updated": f"{_HOOK}initialization error: nvml error: driver/library version mismatch",
        "GPUs were asked for": text(
            _IN_DOCKER_WITH_GPUS, log("2.4", DRIVER, "failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error")
        ),
        "it works": text(_IN_DOCKER_WITH_GPUS, created()),
        "no container": text(not_opened("2.4", "libcuda.so.1"), log("2.4", DRIVER, UNKNOWN_303, "W")),
    },
    "wsl.setup": {
        "a Windows that does": text("Microsoft Windows [Version 10.0.22631.2861]", "- [X] WSL 2", "Ubuntu 20.04"),
        "it works": text("Ubuntu 22.04 on WSL2", created()),
        "the stub": text(
            "5.15.90.1-microsoft-standard-WSL2", "CUDA API Error at line 28: CUDA driver is a stub library"
        ),
        "only CUDA is missing": text(
            "Ubuntu 22.04 on WSL2",
            log(
                "2.13", "tsl/cuda/cudart_stub.cc", "Could not find cuda drivers on your machine, GPU will not be used."
            ),
        ),
        "plain Ubuntu": text("Ubuntu 22.04", log("2.4", DRIVER, UNKNOWN_303, "W")),
    },
    "gpu.arch-too-old": {
        "the display's card is left out": text(
            created(),
            log(
                "2.13",
                DEVICE,
                "Ignoring visible gpu device (device: 1, name: GeForce GT 610, pci bus id: 0000:02:00.0, compute "
                "capability: 2.1) with Cuda compute capability 2.1. The minimum required Cuda capability is 3.5.",
                "I",
            ),
        ),
        "a new card": text(
            log("2.4", DEVICE, "pciBusID: 0000:01:00.0 name: NVIDIA H100 PCIe computeCapability: 9.0", "I"),
            log("2.4", DRIVER, "Internal: no kernel image is available for execution on the device"),
            "TensorFlow version: 2.4.1",
        ),
    },
    "gpu.arch-too-new": {
        "an old driver": log("2.17", DRIVER, "the provided PTX was compiled with an unsupported toolchain."),
        "it works": created(),
        "another minor of the card's major": text(
            "Successfully opened dynamic library libcudart.so.11.0",
            log("2.4", DEVICE, "pciBusID: 0000:01:00.0 name: GeForce RTX 3080 computeCapability: 8.6", "I"),
        ),
        "a handle after another fault": text(
            created(), log("2.4", DRIVER, "CUDA_ERROR_INVALID_HANDLE: invalid resource handle"), "TensorFlow 2.13.0"
        ),
    },
    "gpu.none": {
        "two cards": text("GPU: Intel UHD 630 and NVIDIA GeForce GTX 1650", not_opened("2.4", "libcudart.so.11.0")),
        "nvidia-smi shows one": text("GPU: Intel UHD 630", smi()),
        "NVIDIA is spoken of": text(
            "The laptop has Intel Iris Xe and one of NVIDIA's.", not_opened("2.4", "nvcuda.dll")
        ),
        "nothing is said": log("2.13", DRIVER, NO_DEVICE),
    },
    "gpu.hidden": {
        "what helps against another trouble": text(
            "With CUDA_VISIBLE_DEVICES=-1 there is no problem.", "It hangs at the first operation on the GPU."
        ),
        "the driver does not run": text(
            log("2.4", DRIVER, NO_DEVICE, "W"), log("2.4", DIAGNOSTICS, NO_KERNEL_DRIVER, "I")
        ),
        "it works": created(),
        "a container": text(_IN_DOCKER, log("2.4", DRIVER, NO_DEVICE, "W")),
    },
    "gpu.fault": {
        "a number in another place": "Xid: the transaction id of the database, Xid of 4711 rows",
        "ECC is on": "    ECC Mode                              : Enabled",
        "no uncorrected errors": smi(),
    },
    "gpu.throttled": {"not active": "        HW Thermal Slowdown               : Not Active"},
    "gpu.mig": {
        "it works": text(_MIG_TABLE, created("8.0", "NVIDIA A100-SXM4-40GB MIG 3g.20gb")),
        "no MIG": text(smi(), log("2.13", DRIVER, NO_DEVICE)),
    },
}
