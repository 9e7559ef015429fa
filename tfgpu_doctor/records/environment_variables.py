"""The environment variables that change what TensorFlow does with a GPU, each with the reason why it matters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

# Only what is named here is ever read, so that no secret can get into a report.
REASONS: Mapping[str, str] = MappingProxyType(
    {
        # which GPUs the process sees
        "CUDA_VISIBLE_DEVICES": "hides GPUs from this process; empty or -1 hides all",
        "CUDA_DEVICE_ORDER": "numbers GPUs by speed (the default) or, with PCI_BUS_ID, as nvidia-smi does",
        "NVIDIA_VISIBLE_DEVICES": "chooses the GPUs that a container gets; void or none gives it none",
        "NVIDIA_DRIVER_CAPABILITIES": "which driver libraries a container gets; CUDA needs compute",
        "CUDA_MPS_PIPE_DIRECTORY": "sends CUDA calls to an MPS server",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "limits the share of the multiprocessors under MPS",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "limits GPU memory under MPS",
        "HIP_VISIBLE_DEVICES": "for AMD GPUs; has no effect on NVIDIA GPUs",
        # which libraries the loader finds
        "LD_LIBRARY_PATH": "searched before TensorFlow's own RUNPATH, so it can shadow a library of a pip wheel",
        "LD_PRELOAD": "loads libraries before all others",
        "CUDA_HOME": "where XLA and build tools look for a CUDA toolkit",
        "CUDA_PATH": "where XLA and build tools look for a CUDA toolkit",
        "CUDA_ROOT": "where build tools look for a CUDA toolkit",
        "CUDNN_PATH": "where build tools look for cuDNN",
        # TensorFlow and XLA
        "XLA_FLAGS": "options of XLA, for example --xla_gpu_cuda_data_dir for libdevice",
        "TF_XLA_FLAGS": "auto-clustering and other options of TensorFlow's XLA bridge",
        "TF_FORCE_GPU_ALLOW_GROWTH": "allocates GPU memory as needed instead of nearly all at the start",
        "TF_GPU_ALLOCATOR": "selects another GPU memory allocator, for example cuda_malloc_async",
        "TF_GPU_THREAD_MODE": "selects the threads that launch GPU kernels",
        "TF_FORCE_UNIFIED_MEMORY": "lets a job exceed the GPU's memory by paging to the host, slowly",
        "TF_PER_DEVICE_MEMORY_LIMIT_MB": "limits what TensorFlow allocates on each GPU",
        "TF_CPP_MIN_LOG_LEVEL": "hides log lines; 2 and 3 hide the reason why a GPU is not used",
        "TF_CPP_MAX_VLOG_LEVEL": "enables verbose logs",
        "TF_CPP_VMODULE": "enables verbose logs of single files; dso_loader=1 names the library that cannot be opened",
        "TF_ENABLE_ONEDNN_OPTS": "turns oneDNN kernels on the CPU on or off",
        "TF_ENABLE_GPU_GARBAGE_COLLECTION": "turns defragmentation of GPU memory on or off",
        "TF_USE_LEGACY_KERAS": "makes tf.keras Keras 2, from the package tf-keras",
        "TF_DETERMINISTIC_OPS": "selects slower, reproducible kernels; operations without one raise an error",
        "TF_CUDNN_DETERMINISTIC": "selects slower, reproducible convolutions",
        "TF_CUDNN_USE_AUTOTUNE": "0 stops TensorFlow from measuring cuDNN's algorithms",
        "TF_DISABLE_MKL": "disables oneDNN kernels on the CPU",
        "TF_NUM_INTEROP_THREADS": "number of threads for independent operations",
        "TF_NUM_INTRAOP_THREADS": "number of threads inside one operation",
        "KERAS_BACKEND": "makes Keras 3 run on JAX or PyTorch instead of TensorFlow",
        # CUDA
        "NVIDIA_TF32_OVERRIDE": "0 turns TF32 off, whatever the program asks for",
        "CUDA_LAUNCH_BLOCKING": "1 makes every kernel launch synchronous, which is slow",
        "CUDA_FORCE_PTX_JIT": "1 compiles every kernel from PTX at the start, which is slow",
        "CUDA_DISABLE_PTX_JIT": "1 forbids compiling PTX, the only way in which a newer GPU runs an older build",
        "CUDA_CACHE_DISABLE": "1 disables the cache of compiled kernels, so that each start compiles them again",
        "CUDA_CACHE_PATH": "where compiled kernels are cached",
        "CUDA_CACHE_MAXSIZE": "size of the cache of compiled kernels; too small, kernels are compiled again and again",
        "CUDA_MODULE_LOADING": "LAZY or EAGER loading of kernels",
        "CUDA_DEVICE_MAX_CONNECTIONS": "number of hardware queues",
        "CUDA_MANAGED_FORCE_DEVICE_ALLOC": "keeps unified memory on the GPU",
        "OMP_NUM_THREADS": "limits CPU threads",
        "MALLOC_ARENA_MAX": "limits the host allocator's arenas",
        # Python and its packages
        "PYTHONPATH": "puts folders before the packages of the environment",
        "PYTHONHOME": "takes the standard library from another installation",
        "PYTHONNOUSERSITE": "ignores packages in the user's home folder",
        "PYTHONSTARTUP": "runs a file in interactive sessions",
        "VIRTUAL_ENV": "the virtual environment that the shell has activated",
        "CONDA_PREFIX": "the conda environment that the shell has activated",
        "CONDA_DEFAULT_ENV": "name of the conda environment that the shell has activated",
        "CONDA_OVERRIDE_CUDA": "makes conda resolve for another CUDA version than the driver's",
        # which scheduler or platform runs the job
        "CUDA_VISIBLE_DEVICES_ORIG": "the value that a scheduler replaced",
        "SLURM_JOB_ID": "a Slurm job, which sees only the GPUs that it requested",
        "SLURM_JOB_GPUS": "the GPUs of the job",
        "SLURM_STEP_GPUS": "the GPUs of the step",
        "SLURM_GPUS": "how many GPUs were requested",
        "SLURM_GPUS_ON_NODE": "how many GPUs the job has on this node",
        "SLURM_GPUS_PER_NODE": "how many GPUs were requested",
        "SLURM_GPUS_PER_TASK": "how many GPUs were requested",
        "SLURM_GPUS_PER_SOCKET": "how many GPUs were requested",
        "GPU_DEVICE_ORDINAL": "the GPUs that Slurm gave to the job",
        "PBS_GPUFILE": "a PBS job's GPUs",
        "LSB_JOBID": "an LSF job",
        "KUBERNETES_SERVICE_HOST": "a pod, which has a GPU only if its limits name nvidia.com/gpu",
        "COLAB_GPU": "a Colab runtime; 0 is one without a GPU",
        "COLAB_RELEASE_TAG": "a Colab runtime",
        "KAGGLE_KERNEL_RUN_TYPE": "a Kaggle notebook, whose accelerator is chosen in its settings",
        "WSL_DISTRO_NAME": "Windows Subsystem for Linux",
        "WSL_INTEROP": "Windows Subsystem for Linux",
    }
)
# NCCL's own: NCCL_P2P_DISABLE, NCCL_DEBUG, NCCL_SOCKET_IFNAME ...
_NCCL = re.compile(r"NCCL_[A-Z0-9_]+")
_NCCL_REASON = "changes how GPUs exchange data"
_CHANGES_RESULTS = re.compile(r"(TF|XLA|CUDA|CUDNN|CUBLAS|NVIDIA|NCCL|OMP|MKL|KMP|GOMP|KERAS|MALLOC)_|LD_PRELOAD$")


def reason(name: str) -> str | None:
    """Why the variable `name` matters, for the user to read; None when it does not."""
    return REASONS.get(name) or (_NCCL_REASON if _NCCL.fullmatch(name) else None)


def changes_results(name: str) -> bool:
    """Whether two measurements with different values of the variable `name` are not comparable."""
    return _CHANGES_RESULTS.match(name) is not None
