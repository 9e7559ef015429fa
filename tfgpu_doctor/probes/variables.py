"""The environment variables that change what TensorFlow does with a GPU, each with the reason why it matters."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType

from tfgpu_doctor.records.facts import Fact, Known

LONGEST = 4096  # characters kept of a value

# Only what is named here is ever read, so that no secret can get into a report.
REASONS: Mapping[str, str] = MappingProxyType(
    {
        # what the process may see
        "CUDA_VISIBLE_DEVICES": "hides GPUs from this process; empty or -1 hides all",
        "CUDA_DEVICE_ORDER": "numbers GPUs by speed (the default) or, with PCI_BUS_ID, as nvidia-smi does",
        "NVIDIA_VISIBLE_DEVICES": "chooses the GPUs that a container gets; void or none gives it none",
        "NVIDIA_DRIVER_CAPABILITIES": "which driver libraries a container gets; CUDA needs compute",
        "CUDA_MPS_PIPE_DIRECTORY": "sends CUDA calls to an MPS server",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "limits the multiprocessors under MPS",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "limits the memory under MPS",
        "HIP_VISIBLE_DEVICES": "AMD's, without effect on NVIDIA GPUs",
        # what the loader finds
        "LD_LIBRARY_PATH": "searched before TensorFlow's own RUNPATH, so it can shadow a wheel's library",
        "LD_PRELOAD": "puts libraries before all others",
        "CUDA_HOME": "where XLA and build tools look for a toolkit",
        "CUDA_PATH": "where XLA and build tools look for a toolkit",
        "CUDA_ROOT": "where build tools look for a toolkit",
        "CUDNN_PATH": "where build tools look for cuDNN",
        # what TensorFlow and XLA do
        "XLA_FLAGS": "options of XLA, among them --xla_gpu_cuda_data_dir for libdevice",
        "TF_XLA_FLAGS": "auto-clustering and other options of TensorFlow's XLA bridge",
        "TF_FORCE_GPU_ALLOW_GROWTH": "allocates memory as needed instead of nearly all at the start",
        "TF_GPU_ALLOCATOR": "another allocator, as cuda_malloc_async",
        "TF_GPU_THREAD_MODE": "how kernels are launched from threads",
        "TF_FORCE_UNIFIED_MEMORY": "lets a job exceed the GPU's memory by paging to the host, slowly",
        "TF_PER_DEVICE_MEMORY_LIMIT_MB": "limits what TensorFlow allocates on each GPU",
        "TF_CPP_MIN_LOG_LEVEL": "hides log lines; 2 and 3 hide the reason why a GPU is not used",
        "TF_CPP_MAX_VLOG_LEVEL": "verbose logs",
        "TF_CPP_VMODULE": "verbose logs of single files; dso_loader=1 names the library that cannot be opened",
        "TF_ENABLE_ONEDNN_OPTS": "oneDNN kernels on the CPU",
        "TF_ENABLE_GPU_GARBAGE_COLLECTION": "defragmentation of GPU memory",
        "TF_USE_LEGACY_KERAS": "tf.keras is Keras 2 from the package tf-keras",
        "TF_DETERMINISTIC_OPS": "slower, reproducible kernels, or an error where there is none",
        "TF_CUDNN_DETERMINISTIC": "slower, reproducible convolutions",
        "TF_CUDNN_USE_AUTOTUNE": "0 keeps cuDNN from measuring algorithms",
        "TF_DISABLE_MKL": "CPU kernels without oneDNN",
        "TF_NUM_INTEROP_THREADS": "threads for independent operations",
        "TF_NUM_INTRAOP_THREADS": "threads inside one operation",
        "KERAS_BACKEND": "Keras 3 runs on jax or torch instead of TensorFlow",
        # what CUDA does
        "NVIDIA_TF32_OVERRIDE": "0 turns TF32 off whatever the program asks for",
        "CUDA_LAUNCH_BLOCKING": "1 makes every launch wait: slow",
        "CUDA_FORCE_PTX_JIT": "1 compiles every kernel anew at the start: slow",
        "CUDA_DISABLE_PTX_JIT": "1 forbids the only way in which a newer GPU can run an older build",
        "CUDA_CACHE_DISABLE": "1 forgets compiled kernels, so that each start compiles them again",
        "CUDA_CACHE_PATH": "where compiled kernels are kept",
        "CUDA_CACHE_MAXSIZE": "too small a cache is compiled again and again",
        "CUDA_MODULE_LOADING": "LAZY or EAGER loading of kernels",
        "CUDA_DEVICE_MAX_CONNECTIONS": "hardware queues",
        "CUDA_MANAGED_FORCE_DEVICE_ALLOC": "unified memory stays on the GPU",
        "OMP_NUM_THREADS": "limits CPU threads",
        "MALLOC_ARENA_MAX": "limits the host allocator's arenas",
        # which Python and which packages
        "PYTHONPATH": "puts folders before the environment's packages",
        "PYTHONHOME": "takes the standard library from elsewhere",
        "PYTHONNOUSERSITE": "ignores packages in the user's home",
        "PYTHONSTARTUP": "runs a file in interactive sessions",
        "VIRTUAL_ENV": "the virtual environment that the shell has activated",
        "CONDA_PREFIX": "the conda environment that the shell has activated",
        "CONDA_DEFAULT_ENV": "its name",
        "CONDA_OVERRIDE_CUDA": "makes conda solve for another driver than the machine's",
        # who runs the job
        "CUDA_VISIBLE_DEVICES_ORIG": "what a scheduler replaced",
        "SLURM_JOB_ID": "a Slurm job, which sees only the GPUs that it asked for",
        "SLURM_JOB_GPUS": "the GPUs of the job",
        "SLURM_STEP_GPUS": "the GPUs of the step",
        "SLURM_GPUS": "how many GPUs were asked for",
        "SLURM_GPUS_ON_NODE": "how many GPUs the job has on this node",
        "SLURM_GPUS_PER_NODE": "how many GPUs were asked for",
        "SLURM_GPUS_PER_TASK": "how many GPUs were asked for",
        "SLURM_GPUS_PER_SOCKET": "how many GPUs were asked for",
        "GPU_DEVICE_ORDINAL": "the GPUs that Slurm gave to the job",
        "PBS_GPUFILE": "a PBS job's GPUs",
        "LSB_JOBID": "an LSF job",
        "KUBERNETES_SERVICE_HOST": "a pod, which has a GPU only where its limits name nvidia.com/gpu",
        "COLAB_GPU": "a Colab runtime; 0 is one without a GPU",
        "COLAB_RELEASE_TAG": "a Colab runtime",
        "KAGGLE_KERNEL_RUN_TYPE": "a Kaggle notebook, whose accelerator is chosen in its settings",
        "WSL_DISTRO_NAME": "Windows Subsystem for Linux",
        "WSL_INTEROP": "Windows Subsystem for Linux",
    }
)
# Families: switches of NCCL, as NCCL_P2P_DISABLE, NCCL_DEBUG, NCCL_SOCKET_IFNAME.
FAMILIES: Mapping[str, str] = MappingProxyType({r"NCCL_[A-Z0-9_]+": "changes how GPUs talk to each other"})
_FAMILIES = tuple((re.compile(pattern), text) for pattern, text in FAMILIES.items())


def reason(name: str) -> str | None:
    """Why the variable `name` matters; None when it does not."""
    if name in REASONS:
        return REASONS[name]
    return next((text for pattern, text in _FAMILIES if pattern.fullmatch(name)), None)


def examine(environ: Mapping[str, str] | None = None) -> Fact[dict[str, str]]:
    """The variables that matter and are set (an empty value is one too), by name."""
    environ = os.environ if environ is None else environ
    found = {name: environ[name][:LONGEST] for name in sorted(environ) if reason(name) is not None}
    return Known(found, "environment")
