"""Texts in which Python fails to import TensorFlow or a package manager to install it."""

from __future__ import annotations

from tests.findings.logs import GONE, created, log, text

_NO_MODULE = "ModuleNotFoundError: No module named 'tensorflow'"
_RUNTIME = text(
    "Failed to load the native TensorFlow runtime.",
    "See https://www.tensorflow.org/install/errors for some common causes and solutions.",
)
_NONE = "(from versions: none)"
_NUMPY_2 = text(
    "A module that was compiled using NumPy 1.x cannot be run in",
    "NumPy 2.1.3 as it may crash. To support both 1.x and 2.x",
    "versions of NumPy, modules must be compiled with NumPy 2.0.",
)
_DESCRIPTORS = text(
    "TypeError: Descriptors cannot be created directly.",
    "If this call came from a _pb2.py file, your generated code is out of date",
)
_KERAS_3 = (
    "Your currently installed version of Keras is Keras 3, but this is not yet supported in Transformers. Please "
    "install the backwards-compatible tf-keras package"
)
_REMOVED = 'The "tensorflow-gpu" package has been removed!'
_DLL = (
    "ImportError: DLL load failed while importing _pywrap_tensorflow_internal: The specified module could not be found."
)

FIRES: dict[str, dict[str, str]] = {
    "tf.glibc-too-old": {
        "glibc": "ImportError: /lib64/libc.so.6: version `GLIBC_2.27' not found (required by /env/lib/libtf.so.2)",
        "libstdc++": (
            "ImportError: /usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.29' not found "
            "(required by /env/lib/python3.9/site-packages/tensorflow/python/_pywrap_tensorflow_internal.so)"
        ),
    },
    "tf.import-avx": {
        "Windows, on a processor without it": text(
            "Processor Intel(R) Celeron(R) CPU 1005M @ 1.90GHz, 1900 Mhz, 2 Core(s)",
            "ImportError: DLL load failed: A dynamic link library (DLL) initialization routine failed.",
        ),
        "TensorFlow says so": text(
            "F tensorflow/core/platform/cpu_feature_guard.cc:37] The TensorFlow library was compiled to use AVX "
            "instructions, but these aren't available on your machine.",
            "Aborted (core dumped)",
        ),
        "Linux": text('$ python -c "import tensorflow"', "Illegal instruction (core dumped)"),
        "macOS": "zsh: illegal hardware instruction  python3 -c 'import tensorflow'",
        "Docker": "The command '/bin/sh -c python3 -c \"import tensorflow\"' returned a non-zero code, exit code: 132",
    },
    "tf.import-dll": {
        "Python 3.7": text("ImportError: DLL load failed: The specified module could not be found.", _RUNTIME),
        "Python 3.10": text(_DLL, _RUNTIME),
        "2.1 looks for the runtime": "ImportError: Could not find the DLL(s) 'msvcp140_1.dll'.",
        "a routine that fails": (
            "ImportError: DLL load failed while importing _pywrap_tensorflow_internal: A dynamic link library (DLL) "
            "initialization routine failed."
        ),
    },
    "tf.shadowed": {
        "a file of the user's": text(
            '  File "/srv/app/tensorflow.py", line 1, in <module>',
            "AttributeError: partially initialized module 'tensorflow' has no attribute 'constant' "
            "(most likely due to a circular import)",
        ),
        "the source tree": (
            "ImportError: Could not import tensorflow. Do not import tensorflow from its source directory; change "
            "directory to outside the TensorFlow source tree"
        ),
        "started in the sources": text(
            '  File "tensorflow/__init__.py", line 24, in <module>', "ImportError: No module named core.framework"
        ),
        "sources that were built": text(
            '  File "/home/u/git/tensorflow/tensorflow/__init__.py", line 23, in <module>',
            "you should not try to import tensorflow from its source directory;",
        ),
        "an empty folder": "AttributeError: module 'tensorflow' has no attribute '__version__'",
    },
    "tf.not-installed": {
        "Python 3": _NO_MODULE,
        "Python 2": "ImportError: No module named tensorflow",
    },
    "tf.wrong-env": {
        "a notebook": text("In [1]: import tensorflow as tf", _NO_MODULE),
        "pip installed it": text("Successfully installed absl-py-2.1.0 tensorflow-2.16.1", _NO_MODULE),
        "the user's own folder comes first": text(
            '  File "/home/u/.local/lib/python3.6/site-packages/tensorflow/python/pywrap_tensorflow.py", line 58',
            '  File "/home/u/anaconda3/envs/tf/lib/python3.6/imp.py", line 243, in load_module',
            f"ImportError: libcublas.so.10.0: {GONE}",
        ),
        "another release answers": text("tensorflow                2.9.1", ">>> print(tf.__version__)", "2.4.0"),
        "another release answers in IPython": text(
            "tensorflow                2.2.0           mkl_py37he7a0ab1_0", "In [2]: tf.__version__", "Out[2]: '1.14.0'"
        ),
        "an environment": text("$ conda create -n ml python=3.10", "$ pip install tensorflow", _NO_MODULE),
    },
    "tf.import-hang": {
        "in words": "import tensorflow hangs forever and prints nothing",
        "a lock": "[mutex.cc : 452] RAW: Lock blocking 0x600003a10c18",
    },
    "tf.install-damaged": {
        "a requirement of the wheel": text(
            '  File "/v/site-packages/tensorflow/__init__.py", line 30, in <module>',
            "ImportError: No module named wrapt",
        ),
        "keras, when it is first used": text(
            ">>> tf.keras", "ModuleNotFoundError: No module named 'keras'", "tensorflow                    2.17.1"
        ),
    },
    "tf.import-failed": {
        "a symbol": text(
            "ImportError: /env/tensorflow/python/_pywrap_tensorflow_internal.so: undefined symbol: _ZN2tf4Name",
            _RUNTIME,
        ),
        "a crash": text(">>> import tensorflow", "Segmentation fault (core dumped)"),
    },
    "tf.abi-numpy": {
        "2.15 with NumPy 2": _NUMPY_2,
        "its array API": "AttributeError: _ARRAY_API not found",
        "NumPy 1.20 takes a symbolic tensor for an array": text(
            "tensorflow 2.4.0, numpy 1.20.1",
            "NotImplementedError: Cannot convert a symbolic Tensor (lstm/strided_slice:0) to a numpy array.",
        ),
        "1.x with an older one": (
            "RuntimeError: module compiled against API version 0xc but this version of numpy is 0xb"
        ),
        "a name that NumPy 1.24 took away": "AttributeError: module 'numpy' has no attribute 'object'.",
    },
    "tf.abi-protobuf": {
        "protobuf 4": _DESCRIPTORS,
        "protobuf 4.21's typo": "TypeError: Descriptors cannot not be created directly.",
        "an older one": "ImportError: cannot import name 'builder' from 'google.protobuf.internal'",
        "protobuf 6": (
            "google.protobuf.runtime_version.VersionError: Detected incompatible Protobuf Gencode/Runtime versions "
            "when loading x.proto: gencode 6.31.1 runtime 5.29.3."
        ),
    },
    "tf.abi-keras": {
        "Transformers": f"ValueError: {_KERAS_3}",
        "TensorFlow's warning": (
            "Your environment has TF_USE_LEGACY_KERAS set to True, but you do not have the tf_keras package installed."
        ),
        "a module that moved": "ModuleNotFoundError: No module named 'keras.engine.base_layer'",
    },
    "tf.package-conflict": {
        "Keras 2.7 under TensorFlow 2.6": (
            "AttributeError: module 'tensorflow.compat.v2.__internal__' has no attribute 'register_clone_function'"
        ),
        "two packages, as they are pinned": "tensorflow-gpu==1.8.0 and tensorflow==1.8.0 installed: it runs on the CPU",
        "two packages": "Both tensorflow and tensorflow-gpu are installed in this environment",
        "pip's warning": (
            "ERROR: tensorflow 2.12.0 requires keras<2.13,>=2.12.0, but you have keras 2.15.0 which is incompatible."
        ),
        "one loads a library of the other": text(
            '  File "/usr/local/lib/python3.7/dist-packages/tensorflow/python/framework/load_library.py", line 154',
            "NotFoundError: /opt/conda/lib/python3.7/site-packages/tensorflow/core/kernels/libtfkernel_sobol_op.so: "
            "undefined symbol: _ZN10tensorflow6StatusC1E",
        ),
        "metrics that are registered twice": (
            "tensorflow.python.framework.errors_impl.AlreadyExistsError: Another metric with the same name already "
            "exists. Monitoring metric already exists"
        ),
    },
    "tf.package-removed": {
        "2.11 on Windows": text(
            "ERROR: Could not find a version that satisfies the requirement tensorflow-gpu==2.11 (from versions: "
            "2.9.0, 2.9.1, 2.9.2, 2.9.3, 2.10.0, 2.10.1)",
            "ERROR: No matching distribution found for tensorflow-gpu==2.11",
        ),
        "the stub's words": text("Collecting tensorflow-gpu", _REMOVED),
        "its archive": "  Downloading tensorflow-gpu-2.12.0.tar.gz (2.6 kB)",
    },
    "tf.cpu-build": {
        "a Mac": text(
            "On my MacBook Air:", ">>> tf.config.list_physical_devices('GPU')", "[]", "Num GPUs Available:  0"
        ),
        "a Jetson, in words": "Jetson Nano, tensorflow 2.13 by pip; TensorFlow does not recognize the GPU of the board",
        "a Jetson": text("Jetson Nano, JetPack 4.6", "Num GPUs Available:  0"),
        "no GPU package for a Mac after 1.1": text(
            "OS: macOS 10.13.1",
            "Could not find a version that satisfies the requirement tensorflow-gpu (from versions: 0.12.0, 1.0.0, "
            "1.1.0)",
            "No matching distribution found for tensorflow-gpu",
        ),
        "conda's eigen": text(
            "# packages in environment at /opt/conda/envs/ml:",
            "tensorflow                2.12.0          eigen_py310h384437f_0",
        ),
        "conda's mkl": "tensorflow                2.3.0           mkl_py38h8557ec7_0",
        "a device that is asked for": (
            "Cannot assign a device for operation a: available devices are [ /job:localhost/task:0/device:CPU:0 ]. "
            "The requested device appears to be a GPU, but CUDA is not enabled."
        ),
        "TensorFlow says so": text(">>> tf.test.is_built_with_cuda()", "False"),
    },
    "tf.python-unsupported": {
        "32 bits, by the path": text(
            '  File "C:\\Python37-32\\lib\\imp.py", line 296, in find_module',
            "ImportError: No module named '_pywrap_tensorflow_internal'",
        ),
        "Python 3.12": text(
            "ERROR: Could not find a version that satisfies the requirement tensorflow==2.10.0 (from versions: "
            "2.16.1, 2.16.2, 2.17.0, 2.17.1)",
            "ERROR: No matching distribution found for tensorflow==2.10.0",
        ),
        "a pip that reads no manylinux2010": text(
            "  Could not find a version that satisfies the requirement tensorflow==2.6.2 (from versions: 1.12.3, "
            "1.13.1, 1.13.2, 1.14.0)",
            "No matching distribution found for tensorflow==2.6.2",
        ),
        "Alpine": text(
            "RUN apk add build-base",
            f"ERROR: Could not find a version that satisfies the requirement tensorflow {_NONE}",
        ),
        "none at all": f"ERROR: Could not find a version that satisfies the requirement tensorflow {_NONE}",
        "pip of 2018": text(
            "  Could not find a version that satisfies the requirement tensorflow (from versions: )",
            "No matching distribution found for tensorflow",
        ),
        "a wheel by name": (
            "ERROR: tensorflow-2.4.0-cp38-cp38-manylinux2010_x86_64.whl is not a supported wheel on this platform."
        ),
        "its metadata": "ERROR: Package 'tensorflow' requires a different Python: 3.7.3 not in '>=3.9,<3.13'",
        "as stated": text("TensorFlow version: 2.4.1", "Python version: 3.11"),
    },
}

LOOK_ALIKES: dict[str, dict[str, str]] = {
    "tf.glibc-too-old": {"its version": "ldd (Ubuntu GLIBC 2.35-0ubuntu3.4) 2.35"},
    "tf.import-avx": {
        "the CPU's offer": (
            "This TensorFlow binary is optimized to use available CPU instructions: AVX2 FMA, in other operations, "
            "rebuild TensorFlow with the appropriate compiler flags."
        ),
        "1.x": "Your CPU supports instructions that this TensorFlow binary was not compiled to use: AVX2 FMA",
        "protobuf dies of it": text(_DESCRIPTORS, "exit code 132"),
    },
    "tf.import-dll": {
        "Linux": f"ImportError: libcublas.so.9.0: {GONE}",
        "NumPy is the reason": text(_NUMPY_2, _DLL),
    },
    "tf.shadowed": {
        "1.x's names are gone": "AttributeError: module 'tensorflow' has no attribute 'Session'",
        "a package's own file": '  File "/env/lib/python3.9/site-packages/keras/backend/tensorflow_backend.py", line 1',
    },
    "tf.not-installed": {
        "another module": "ModuleNotFoundError: No module named 'tensorflow_datasets'",
        "pip installed it": text("Successfully installed absl-py-2.1.0 tensorflow-2.16.1", _NO_MODULE),
    },
    "tf.wrong-env": {
        "the user's own folder, and no environment": text(
            '  File "/home/u/.local/lib/python3.6/site-packages/tensorflow/python/pywrap_tensorflow.py", line 58',
            '  File "/usr/lib/python3.6/imp.py", line 243, in load_module',
            f"ImportError: libcublas.so.10.0: {GONE}",
        ),
        "the listed release answers": text("tensorflow                2.9.1", ">>> print(tf.__version__)", "2.9.1"),
        "nothing else is said": _NO_MODULE,
        "there is no wheel": text(
            f"ERROR: Could not find a version that satisfies the requirement tensorflow {_NONE}",
            "$ pip install tensorflow",
            _NO_MODULE,
        ),
    },
    "tf.import-hang": {"something else hangs": "the download hangs at 99 %, then I import numpy"},
    "tf.install-damaged": {
        "a part of Keras that another release has": "ModuleNotFoundError: No module named 'keras.src.legacy'",
        "TensorFlow is not installed": text("ModuleNotFoundError: No module named 'tensorflow'"),
    },
    "tf.import-failed": {
        "a library is the reason": text(f"ImportError: libcublas.so.9.0: {GONE}", _RUNTIME),
        "NumPy is the reason": text(_NUMPY_2, _RUNTIME),
    },
    "tf.abi-numpy": {
        "a warning": (
            "FutureWarning: Passing (type, 1) or '1type' as a synonym of type is deprecated; in a future version of "
            "numpy, it will be understood as (type, (1,)) / '(1,)type'."
        ),
        "its version": "numpy 2.1.3",
    },
    "tf.abi-protobuf": {"its version": "protobuf                      4.25.3"},
    "tf.abi-keras": {"its version": "keras                         3.3.3", "it works": created()},
    "tf.package-conflict": {
        "packages of others": (
            "ERROR: torchvision 0.15.2 requires torch==2.0.1, but you have torch 2.1.0 which is incompatible."
        ),
        "one package": "tensorflow                    2.13.0",
        "one package, whose library lacks a symbol": text(
            '  File "/env/lib/python3.7/site-packages/tensorflow/python/framework/load_library.py", line 154',
            "NotFoundError: /env/lib/python3.7/site-packages/tensorflow/core/kernels/libtfkernel_sobol_op.so: "
            "undefined symbol: _ZN10tensorflow6StatusC1E",
        ),
        "the packages of another environment": text(
            "tensorflow                2.2.0",
            "tensorflow-estimator      2.2.0",
            ">>> tf.__version__",
            "'1.14.0'",
        ),
    },
    "tf.package-removed": {
        "2.10 existed": "Successfully installed tensorflow-gpu-2.10.1",
        "no wheel of it for this Python": text(
            "ERROR: Could not find a version that satisfies the requirement tensorflow-gpu==1.15 "
            "(from versions: 2.5.0, 2.6.0, 2.7.0, 2.8.0)",
            "ERROR: No matching distribution found for tensorflow-gpu==1.15",
        ),
    },
    "tf.cpu-build": {
        "conda's GPU build": "tensorflow                2.12.0          gpu_py310h1234567_0",
        "1.x that looked and found none": text(
            log("1.15", "x/cuda_driver.cc", "failed call to cuInit: CUDA_ERROR_NO_DEVICE"),
            "Device mapping: no known devices.",
        ),
        "it holds CUDA": text(">>> tf.test.is_built_with_cuda()", "True", "Num GPUs Available:  0"),
    },
    "tf.python-unsupported": {
        "they go together": text("TensorFlow version: 2.13.0", "Python version: 3.10.12"),
        "another package": (
            "ERROR: Could not find a version that satisfies the requirement torch==1.4.0 (from versions: 2.0.0, 2.1.0)"
        ),
        "it is there": log("2.13", "x/y.cc", "TensorFlow 2.13.0 under Python 3.10", "I"),
    },
}
