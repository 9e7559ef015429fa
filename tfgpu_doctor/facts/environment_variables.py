"""The environment variables that change what TensorFlow does with a GPU."""

from __future__ import annotations

import re

# Only what is named here is ever read, so that no secret can get into a report.
NAMES = frozenset(
    (
        # which GPUs the process sees
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"),
        *("NVIDIA_DRIVER_CAPABILITIES", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
        *("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "HIP_VISIBLE_DEVICES"),
        # which libraries the loader finds
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDNN_PATH"),
        # TensorFlow and XLA
        *("XLA_FLAGS", "TF_XLA_FLAGS", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR"),
        *("TF_GPU_THREAD_MODE", "TF_FORCE_UNIFIED_MEMORY", "TF_PER_DEVICE_MEMORY_LIMIT_MB", "TF_CPP_MIN_LOG_LEVEL"),
        *("TF_CPP_MAX_VLOG_LEVEL", "TF_CPP_VMODULE", "TF_ENABLE_ONEDNN_OPTS", "TF_ENABLE_GPU_GARBAGE_COLLECTION"),
        *("TF_USE_LEGACY_KERAS", "TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC", "TF_CUDNN_USE_AUTOTUNE"),
        *("TF_DISABLE_MKL", "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS", "KERAS_BACKEND"),
        # CUDA
        *("NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING", "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT"),
        *("CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH", "CUDA_CACHE_MAXSIZE", "CUDA_MODULE_LOADING"),
        *("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MANAGED_FORCE_DEVICE_ALLOC", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX"),
        # Python and its packages
        *("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONSTARTUP"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_OVERRIDE_CUDA"),
        # which scheduler or platform runs the job
        *("CUDA_VISIBLE_DEVICES_ORIG", "SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"),
        *("SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK"),
        *("SLURM_GPUS_PER_SOCKET", "GPU_DEVICE_ORDINAL", "PBS_GPUFILE", "LSB_JOBID"),
        *("KUBERNETES_SERVICE_HOST", "COLAB_GPU", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"),
        *("WSL_DISTRO_NAME", "WSL_INTEROP"),
    )
)
_NCCL = re.compile(r"NCCL_[A-Z0-9_]+")  # NCCL's own: NCCL_P2P_DISABLE, NCCL_DEBUG, NCCL_SOCKET_IFNAME ...
_CHANGES_RESULTS = re.compile(r"(TF|XLA|CUDA|CUDNN|CUBLAS|NVIDIA|NCCL|OMP|MKL|KMP|GOMP|KERAS|MALLOC)_|LD_PRELOAD$")


def matters(name: str) -> bool:
    """True if the variable `name` changes which GPUs, libraries or packages TensorFlow uses, or how."""
    return name in NAMES or _NCCL.fullmatch(name) is not None


def changes_results(name: str) -> bool:
    """True if two measurements with different values of the variable `name` are not comparable."""
    return _CHANGES_RESULTS.match(name) is not None
