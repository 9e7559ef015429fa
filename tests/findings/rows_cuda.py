"""Texts about CUDA's and cuDNN's libraries and about XLA: what must be found in them, and what must not."""

from __future__ import annotations

from tests.findings.logs import DEVICE, DNN, GONE, created, log, not_opened, smi, text

_STUB = "tsl/cuda/cudart_stub.cc"
_XLA = "compiler/xla/service/gpu/nvptx_compiler.cc"
NO_CUDART = "Could not find cuda drivers on your machine, GPU will not be used."
CANNOT_OPEN = (
    "Cannot dlopen some GPU libraries. Please make sure the missing libraries mentioned above are installed properly "
    "if you would like to use GPU."
)
_SKIPPING = "Skipping registering GPU devices..."
_LIBDEVICE = "libdevice is required by this HLO module but was not found at ./libdevice.10.bc"
_BUG = (
    "ptxas returned an error during compilation of ptx to sass: 'INTERNAL: ptxas 12.3.103 has a bug that we think can "
    "affect XLA. Please use a different version.'"
)
_DIFFERS = (
    "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.6.0.  CuDNN library needs to have matching "
    "major version and equal or higher minor version."
)
_HANDLE = "Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED"
_NVCC = "Cuda compilation tools, release 10.0, V10.0.130"


def _opened(*libraries: str) -> str:
    return text(
        *(log("2.4", "x/dso_loader.cc", f"Successfully opened dynamic library {one}", "I") for one in libraries)
    )


FIRES: dict[str, dict[str, str]] = {
    "cuda.versions-differ": {
        one: one
        for one in (
            "nvidia-smi shows CUDA 12.2 but nvcc says 11.5, which one does tensorflow use?",
            "nvcc --version reports 11.8 while nvidia-smi reports CUDA Version: 12.4. Which is used?",
            "Why does nvidia-smi say CUDA 12.4 and nvcc -V say 11.2?",
            "My nvidia-smi output says CUDA Version 12.0, however nvcc gives release 10.1. Is this a problem?",
            "Different CUDA versions shown by nvcc and NVIDIA-SMI (11.5 vs 12.2)",
            "According to nvidia-smi I have cuda 12.6, but when I run nvcc --version I get 12.1",
            "nvidia-smi and nvcc show different CUDA versions: 12.2 and 11.5. Which CUDA does TF use?",
            "The CUDA version in nvidia-smi (12.2) is not the one of nvcc (11.5).",
        )
    }
    | {"both outputs": text(smi(cuda="12.4"), "Cuda compilation tools, release 11.5, V11.5.119")},
    "cuda.missing": {
        "2.4": text(
            not_opened("2.4", "libcudart.so.11.0"),
            log(
                "2.4",
                "x/cudart_stub.cc",
                "Ignore above cudart dlerror if you do not have a GPU set up on your machine.",
            ),
        ),
        "2.10, cut off": log(
            "2.4", "x/cudart_stub.cc", "Ignore above cudart dlerror if you do not have a GPU set up on your machine."
        ),
        "2.13": text("TensorFlow version: 2.13.0", log("2.13", _STUB, NO_CUDART, "I")),
        "2.17": log("2.17", _STUB, NO_CUDART, "I"),
        "2.21": log("2.21", _STUB, NO_CUDART, "I"),
        "1.12 at its import": f"ImportError: libcublas.so.9.0: {GONE}",
        "2.10 on Windows": not_opened("2.4", "cudart64_110.dll"),
        "an extra that is none": text(
            "WARNING: tensorflow 2.13.1 does not provide the extra 'and-cuda'", log("2.13", _STUB, NO_CUDART, "I")
        ),
    },
    "cuda.version-mismatch": {
        "renamed": "sudo ln -s /usr/local/cuda-10.2/lib64/libcudart.so.10.2 /usr/lib/libcudart.so.10.1",
        "2.13 beside CUDA 12": text("TensorFlow 2.13.0", "CUDA version: 12.2", log("2.13", _STUB, NO_CUDART, "I")),
        "1.12 beside CUDA 10.0": text(_NVCC, f"ImportError: libcublas.so.9.0: {GONE}"),
        "2.1 on Windows": text("- CUDA/cuDNN version: CUDA 10.2", not_opened("2.4", "cudart64_101.dll")),
        "the distribution's own package": text(
            "nvidia-cuda-toolkit 12.2.1", log("2.13", _STUB, NO_CUDART, "I"), "TensorFlow 2.13.0"
        ),
        "1.12 on Windows, and no name": text(
            "- TensorFlow version: tensorflow-gpu 1.12.0",
            "- CUDA/cuDNN version: CUDA 10.0",
            "ImportError: DLL load failed: The specified module could not be found.",
        ),
        "1.13 on Windows, by a path": text(
            "pip install -U tensorflow-gpu (1.13.1)",
            "CUDA_PATH is",
            "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v9.0",
            "ImportError: DLL load failed: The specified module could not be found.",
        ),
        "what it wants, and the file that is there": text(
            "Num GPUs Available:  0",
            "because it wants 'libcudart.so.10.1'. My file is libcudart.so.10.2.89.",
        ),
        "the loader path names it": not_opened("2.4", "libcudart.so.10.1", "/usr/local/cuda-11.2/lib64"),
        "2.4 beside CUDA 11.1": text(
            _opened("libcudart.so.11.0", "libcublas.so.11", "libcufft.so.10"), not_opened("2.4", "libcusolver.so.10")
        ),
    },
    "cuda.lib-path": {
        "2.16.1 does not find its own extra": text(
            "python -m pip install tensorflow[and-cuda]",
            ">>> tf.__version__",
            "'2.16.1'",
            ">>> tf.config.list_physical_devices('GPU')",
            "[]",
        ),
        "conda's, and an extra that does not exist yet": text(
            "conda install -c conda-forge cudatoolkit==11.7",
            "pip install tensorflow[and-cuda]==2.12.0",
            log("2.13", _STUB, NO_CUDART, "I"),
        ),
        "2.4 with CUDA 11.0": text(
            "CUDA version: 11.0", not_opened("2.4", "libcudart.so.11.0"), log("2.4", DEVICE, CANNOT_OPEN, "W")
        ),
        "2.15 with pip's libraries": text(
            "tensorflow                    2.15.1",
            "nvidia-cuda-runtime-cu12      12.2.140",
            "nvidia-cublas-cu12            12.2.5.6",
            log("2.17", _STUB, NO_CUDART, "I"),
        ),
        "a text file in place of a link": "ImportError: /usr/lib/libcublas.so.10.0: file too short",
        "somebody has looked": text(
            "libcudart.so.11.0 is present in the environment's lib", not_opened("2.4", "libcudart.so.11.0")
        ),
        "started from PyCharm": text("It only fails in PyCharm:", not_opened("2.4", "libcudart.so.10.1")),
    },
    "cudnn.version-mismatch": {
        "2.10": log("2.4", DNN, _DIFFERS),
        "1.4 counts otherwise": log(
            "1.15",
            DNN,
            "Loaded runtime CuDNN library: 7003 (compatibility version 7000) but source was compiled with 6021 "
            "(compatibility version 6000).",
        ),
        "the number of the file": text("cuDNN version: 7.6.5", not_opened("2.4", "libcudnn.so.8")),
        "its own status": "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
        "older within the major": text("TensorFlow 2.13.0", "cuDNN version: 8.1.1", _HANDLE),
        "the container has the old one": text(
            "The container contains cuDNN 8.9 only.", not_opened("2.17", "libcudnn.so.9")
        ),
    },
    "cudnn.dep-missing": {
        "zlib on Windows": "Could not locate zlibwapi.dll. Please make sure it is in your library path!",
        "nvrtc": f"Could not load library libcudnn_cnn_infer.so.8. Error: libnvrtc.so: {GONE}",
        "a DLL's number": "Could not load library cudnn_ops_infer64_8.dll. Error code 126",
    },
    "cudnn.lib-path": {
        "2.4 with cuDNN 8": text("cuDNN version: 8.0.4", not_opened("2.4", "libcudnn.so.8")),
        "cuDNN 9's parts": (
            "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9, libcudnn_ops.so}"
        ),
        "Windows": text("- CUDA/cuDNN version: 11.2 / 8.1", not_opened("2.4", "cudnn64_8.dll")),
    },
    "cudnn.missing": {
        "2.4": text(_opened("libcudart.so.11.0", "libcublas.so.11"), not_opened("2.4", "libcudnn.so.8")),
        "1.3": f"ImportError: libcudnn.so.6: {GONE}",
        "1.4 on Windows": "ImportError: Could not find 'cudnn64_6.dll'. TensorFlow requires that this DLL be installed",
        "2.17 does not name it": text(
            log("2.13", DEVICE, CANNOT_OPEN, "W"), _SKIPPING, "TensorFlow version: 2.17.0", "CUDA: 12.3"
        ),
    },
    "cudnn.init-failed": {
        "1.2": log("1.15", DNN, "could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR"),
        "2.4": (
            "UnknownError: Failed to get convolution algorithm. This is probably because cuDNN failed to initialize, "
            "so try looking to see if a warning log message was printed above."
        ),
        "2.13": log("2.13", DNN, _HANDLE),
        "2.16": "FAILED_PRECONDITION: DNN library initialization failed. Look at the errors above for more details.",
    },
    "xla.libdevice-missing": {
        "2.4": log("2.4", _XLA, "Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.", "W"),
        "2.13": log("2.13", _XLA, _LIBDEVICE),
        "2.21": "INTERNAL: libdevice not found at ./libdevice.10.bc [Op:__some_op]",
    },
    "env.xla-flags": {
        "a flag of another release": "Unknown flag in XLA_FLAGS: --xla_gpu_enable_all_the_things",
        "several": "F external/xla/xla/parse_flags_from_env.cc:234] Unknown flags in XLA_FLAGS: --xla_a --xla_b",
    },
    "xla.ptxas-missing": {
        "2.2 on Windows": log("2.4", _XLA, "Call to CreateProcess failed. Error code: 2", "W"),
        "2.4": log("2.4", _XLA, "Couldn't get ptxas version string: Internal: Couldn't invoke ptxas --version"),
        "CUDA 11.0's is older than the GPU": (
            "tensorflow-gpu==2.4.0, RTX 3070 Ti, Ubuntu\nptxas returned an error during compilation of ptx to sass"
        ),
        "CUDA 10's knows no such card": "ptxas fatal   : Value 'sm_86' is not defined for option 'gpu-name'",
        "2.15 refuses one": log("2.17", _XLA, _BUG, "F"),
        "1.13 warns": (
            "*** WARNING *** You are using ptxas 9.0.176, which is older than 9.2.88. ptxas 9.x before 9.2.88 is known "
            "to miscompile XLA code"
        ),
        "2.18": log("2.17", _XLA, "No PTX compilation provider is available. Couldn't find ptxas", "W"),
    },
}

LOOK_ALIKES: dict[str, dict[str, str]] = {
    "cuda.versions-differ": {
        "they are equal": "nvcc is 12.4 and nvidia-smi is 12.4",
        "they are equal, on two lines": "nvidia-smi: CUDA 12.4\nnvcc: 12.4",
        "nvcc alone": "nvcc says 11.5, and tensorflow 2.15 finds no GPU",
        "both outputs, of one version": text(smi(cuda="12.4"), "Cuda compilation tools, release 12.4, V12.4.131"),
        "a toolkit of conda": text(smi(cuda="12.4"), "cudatoolkit     11.8.0    h4ba93d1_13    conda-forge"),
        "a failure is the question": text(
            smi(cuda="12.4"), "Cuda compilation tools, release 11.5, V11.5.119", log("2.21", DEVICE, CANNOT_OPEN, "W")
        ),
    },
    "cuda.missing": {
        "a GPU is created": text(not_opened("2.4", "libcudart.so.11.0"), created()),
        "only TensorRT": not_opened("2.4", "libnvinfer.so.8"),
        "only the profiler's": not_opened("2.4", "libcupti.so.11.2"),
        "only cuDNN": text(_opened("libcudart.so.11.0", "libcublas.so.11"), not_opened("2.4", "libcudnn.so.8")),
        "only the driver's": not_opened("2.4", "libcuda.so.1"),
        "a CPU build": text(
            ">>> tf.test.is_built_with_cuda()", "False", log("2.13", DEVICE, CANNOT_OPEN, "W"), "GPUs available: 0"
        ),
        "a CUDA is stated": text("CUDA version: 12.2", "TensorFlow 2.13.0", log("2.13", _STUB, NO_CUDART, "I")),
    },
    "cuda.version-mismatch": {
        "the name of its own version": "ln -sf /usr/local/cuda/lib64/libcudart.so.10.1.243 /usr/lib/libcudart.so.10.1",
        "cuDNN": "cp /usr/lib/libcudnn.so.8 /usr/lib/libcudnn.so.7",
        "renamed, and it is enough": text("ln -s libcusolver.so.11 libcusolver.so.10", created()),
        "a GPU is created": text("CUDA version: 12.2", "TensorFlow 2.13.0", created()),
        "what nvidia-smi's banner says": text(
            "| NVIDIA-SMI 535.113.01   Driver Version: 535.113.01   CUDA Version: 12.2     |",
            "TensorFlow 2.13.0",
            log("2.13", _STUB, NO_CUDART, "I"),
        ),
        "the same major": text("CUDA version: 11.8", not_opened("2.4", "libcudart.so.11.0")),
        "2.3 on Windows opens its libraries later": text(
            "- TensorFlow version: 2.3.0",
            "- CUDA/cuDNN version: CUDA 10.0",
            "ImportError: DLL load failed while importing _pywrap_tensorflow_internal",
        ),
    },
    "cuda.lib-path": {
        "a release that finds its extra": text(
            "python -m pip install tensorflow[and-cuda]",
            ">>> tf.__version__",
            "'2.17.0'",
            ">>> tf.config.list_physical_devices('GPU')",
            "[]",
        ),
        "nothing is there": not_opened("2.4", "libcudart.so.11.0"),
        "advice to look": text(
            "Make sure that the file is there and in PATH.",
            "Installed version of CUDA and cuDNN:",
            not_opened("2.4", "libcudart.so.11.0"),
        ),
        "another version": text("CUDA version: 10.1", not_opened("2.4", "libcudart.so.11.0")),
        "a GPU is created": text("CUDA version: 11.2", created()),
    },
    "cudnn.version-mismatch": {
        "newer within the major": text("cuDNN version: 8.9", "TensorFlow 2.13.0", created()),
        "it opens": log("2.13", DNN, "Loaded cuDNN version 8902", "I"),
    },
    "cudnn.dep-missing": {
        "cuDNN itself": not_opened("2.4", "libcudnn.so.8"),
        "it opens": log("2.13", DNN, "Loaded cuDNN version 8902", "I"),
    },
    "cudnn.lib-path": {
        "nothing is there": not_opened("2.4", "libcudnn.so.8"),
        "another major": text("cuDNN version: 7.6.5", not_opened("2.4", "libcudnn.so.8")),
    },
    "cudnn.missing": {
        "it is stated": text("cuDNN version: 8.0.4", not_opened("2.4", "libcudnn.so.8")),
        "it opens": log("2.13", DNN, "Loaded cuDNN version 8902", "I"),
    },
    "cudnn.init-failed": {
        "a version is the reason": text(log("2.4", DNN, _DIFFERS), log("2.4", DNN, _HANDLE)),
        "two factories": log(
            "2.13",
            "tsl/x.cc",
            "Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already "
            "been registered",
        ),
    },
    "xla.libdevice-missing": {"it is found": "Using libdevice at /usr/local/cuda/nvvm/libdevice/libdevice.10.bc"},
    "env.xla-flags": {"a flag that works": "export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda"},
    "xla.ptxas-missing": {
        "the driver is a little older": log(
            "2.13",
            _XLA,
            "The NVIDIA driver's CUDA version is 12.2 which is older than the ptxas CUDA version (12.3.107).",
            "W",
        ),
    },
}
