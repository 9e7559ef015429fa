"""Sentences of installers, interpreters and libraries: what is named first, and what is no error at all."""

from __future__ import annotations

from tests.findings.logs import text

# finding → texts, each as somebody might paste it
FIRST: dict[str, tuple[str, ...]] = {
    "tf.abi-numpy": (
        text(
            ">>> import tensorflow",
            "RuntimeError: module compiled against API version 0xc but this version of numpy is 0xa",
            "ImportError: numpy.core._multiarray_umath failed to import",
            (
                "2019-03-03 10:00:00.000001: F tensorflow/python/lib/core/bfloat16.cc:675] Check failed: "
                "PyBfloat16_Type.tp_base != nullptr"
            ),
        ),
        text(
            (
                '  File "/opt/v/lib/python3.8/site-packages/tensorflow/python/framework/dtypes.py", line '
                "585, in <module>"
            ),
            "    np.object,",
            "AttributeError: module 'numpy' has no attribute 'object'.",
        ),
        text(
            "TypeError: Unable to convert function return value to a Python type! The signature was",
            "	() -> handle",
        ),
        text(
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 "
            "from C header, got 88 from PyObject"
        ),
        text(
            (
                "ERROR: pip's dependency resolver does not currently take into account all the packages "
                "that are installed."
            ),
            "tensorflow 2.15.1 requires numpy<2.0.0,>=1.23.5, but you have numpy 2.1.0 which is incompatible.",
        ),
    ),
    "tf.abi-protobuf": (
        text(
            "ImportError: cannot import name 'descriptor_pb2' from 'google.protobuf' "
            "(/usr/lib/python3/dist-packages/google/protobuf/__init__.py)"
        ),
        text("ImportError: No module named google.protobuf"),
        text(
            "[libprotobuf FATAL google/protobuf/descriptor.cc:1371] CHECK failed: "
            "GeneratedDatabase()->Add(encoded_file_descriptor, size):"
        ),
        text(
            "    raise VersionError",
            (
                "google.protobuf.runtime_version.VersionError: Detected mismatched Protobuf "
                "Gencode/Runtime major versions when loading tensorflow/core/x.proto: gencode 6.31.1 runtime 5.28.3"
            ),
        ),
        text("AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'"),
    ),
    "tf.abi-keras": (
        text("ValueError: Could not interpret optimizer identifier: <keras.src.optimizers.adam.Adam object at 0x7f00>"),
        text(
            "ValueError: A KerasTensor cannot be used as input to a TensorFlow function. A "
            "KerasTensor is a symbolic placeholder for a shape and dtype"
        ),
        text("AttributeError: module 'tf_keras' has no attribute 'activations'"),
        text(
            "ImportError: `keras.optimizers.legacy` is not supported in Keras 3. When using "
            "`tf.keras`, you can install the `tf_keras` package (Keras 2)"
        ),
        text("ModuleNotFoundError: No module named 'keras.src.engine'"),
        text("ValueError: Unrecognized keyword arguments passed to GRU: {'time_major': False}"),
    ),
    "tf.package-conflict": (
        text(
            "AttributeError: module 'tensorflow._api.v2.compat.v2.__internal__' has no attribute "
            "'register_load_context_function'"
        ),
        text(
            ('  File "/v/site-packages/tensorboard/plugins/beholder/beholder.py", line 199, in <module>'),
            "    class BeholderHook(tf.estimator.SessionRunHook):",
            "AttributeError: module 'tensorflow' has no attribute 'estimator'",
        ),
        text(
            "ImportError: This version of TensorFlow Probability requires TensorFlow version >= "
            "2.16; Detected an installation of version 2.13.0. Please upgrade TensorFlow to proceed."
        ),
        text(
            "tensorflow.python.framework.errors_impl.NotFoundError: "
            "/v/tensorflow_text/python/metrics/_ops.so: undefined symbol: _ZN10tensorflow6tensor"
        ),
        text("ImportError: Keras requires TensorFlow 2.2 or higher. Install TensorFlow via `pip install tensorflow`"),
        text(
            '  File "/v/site-packages/keras/backend/tensorflow_backend.py", line 74, in get_uid',
            "    graph = tf.get_default_graph()",
            "AttributeError: module 'tensorflow' has no attribute 'get_default_graph'",
        ),
        text(
            "ImportError: cannot import name 'export_saved_model' from "
            "'tensorflow.python.keras.saving.saved_model' (/v/x.py)"
        ),
        text(
            "# pip list",
            "tensorflow                    2.6.0",
            "keras                         2.11.0",
            "numpy                         1.19.5",
        ),
        text(
            "tensorflow==2.6.0, keras 2.11.0",
            ">>> from keras import models",
        ),
    ),
    "tf.import-avx": (
        text("import tensorflow as tf", "ImportError: DLL load failed with error code -1073741795"),
        text(
            "$ python3 -c 'import tensorflow'",
            "Ungültiger Maschinenbefehl (Speicherabzug geschrieben)",
        ),
        text("import tensorflow as tf", "app_1 exited with code 132"),
        text(
            "[ 12.1] traps: python[999] trap invalid opcode ip:7f19 sp:7ffc error:0 in "
            "_pywrap_tensorflow_internal.so[7f2]"
        ),
        text("import tensorflow as tf", "qemu: uncaught target signal 4 (Illegal instruction) - core dumped"),
    ),
    "tf.import-dll": (
        text(
            "ImportError: DLL load failed while importing _pywrap_tensorflow_common: Das angegebene "
            "Modul wurde nicht gefunden."
        ),
        text(
            r"C:\Users\k>python t.py",
            (
                r"FileNotFoundError: Could not find module "
                r"'C:\Py\tensorflow\python\_pywrap_tensorflow_internal.pyd' (or one of its dependencies)."
            ),
        ),
        text(
            "The code execution cannot proceed because VCRUNTIME140_1.dll was not found. "
            "Reinstalling the program may fix this problem."
        ),
        text(
            "> library(tensorflow)",
            "> tf$constant(1)",
            "Error: Valid installation of TensorFlow not found.",
            "Python exception encountered:",
            (
                " ImportError: DLL load failed while importing _pywrap_tensorflow_internal: The "
                "specified module could not be found."
            ),
        ),
        text(
            (
                "  File "
                '"C:\\Users\\k\\Py36\\site-packages\\tensorflow\\python\\pywrap_tensorflow.py", line 58, in <module>'
            ),
            "    from tensorflow.python.pywrap_tensorflow_internal import *",
            "ModuleNotFoundError: No module named '_pywrap_tensorflow_internal'",
            "",
            "Failed to load the native TensorFlow runtime.",
        ),
    ),
    "tf.glibc-too-old": (
        text("ImportError: /lib64/libm.so.6: version ‘GLIBC_2.29’ not found (required by /x/libtensorflow_cc.so.2)"),
        text("FATAL: kernel too old"),
        text(
            'bash-4.1$ python -c "import tensorflow"',
            "GLIBC 2.17 not found",
        ),
    ),
    "tf.python-unsupported": (
        text("  Unable to find installation candidates for tensorflow (2.8.0)"),
        text(
            '  File "/v/site-packages/tensorboard/compat/x.py", line 3, in <module>',
            "    import imp",
            "ModuleNotFoundError: No module named 'imp'",
        ),
        text("AttributeError: module 'inspect' has no attribute 'ArgSpec'. Did you mean: 'ArgInfo'?"),
        text(
            "Python 3.8.5 on Alpine Linux",
            "ERROR: Could not find a version that satisfies the requirement tensorflow (from versions: none)",
            "ERROR: No matching distribution found for tensorflow",
        ),
        text("ERROR: tensorflow-2.4.0-cp37-none-linux_armv7l.whl is not a supported wheel on this platform."),
        text(
            "  × No solution found when resolving dependencies:",
            (
                "  ╰─▶ Because all versions of tensorflow have no wheels with a matching Python ABI tag "
                "(e.g., `cp314`), we can conclude that all versions of tensorflow cannot be used."
            ),
        ),
    ),
    "tf.shadowed": (
        text("ImportError: cannot import name 'keras' from 'tensorflow' (unknown location)"),
        text("ImportError: cannot import name 'Random' from 'random' (/home/k/work/random.py)"),
        text(
            "AttributeError: partially initialized module 'random' has no attribute 'seed' (most "
            "likely due to a circular import)"
        ),
        text(
            "AttributeError: module 'random' has no attribute 'seed' (consider renaming "
            "'/home/k/random.py' since it has the same name as the standard library module named 'random')"
        ),
        text(
            "Traceback (most recent call last):",
            '  File "a.py", line 1, in <module>',
            "    import tensorflow as tf",
            '  File "/v/lib/python3.8/site-packages/tensorflow/__init__.py", line 24, in <module>',
            "    from tensorflow.python import pywrap_tensorflow",
            '  File "/home/k/work/queue.py", line 2, in <module>',
            "    q = Foo()",
            "NameError: name 'Foo' is not defined",
        ),
        text(
            ">>> import tensorflow as tf",
            ">>> tf.__version__",
            "AttributeError: module 'tensorflow' has no attribute '__version__'",
            ">>> tf",
            "<module 'tensorflow' (namespace)>",
        ),
    ),
    "tf.wrong-env": (
        text(
            "I have successfully installed tensorflow with pip. In Spyder it says",
            "ModuleNotFoundError: No module named 'tensorflow'",
        ),
        text(
            "$ pip show tensorflow",
            "Name: tensorflow",
            "Version: 2.15.0",
            "Location: /home/k/.local/lib/python3.10/site-packages",
            "$ python3.11 t.py",
            "ModuleNotFoundError: No module named 'tensorflow'",
        ),
        text(
            "Requirement already satisfied: tensorflow in /usr/local/lib/python3.9/site-packages (2.8.0)",
            "$ python t.py",
            "ImportError: No module named tensorflow",
        ),
        text(
            "Tensorflow sees the GPU when I run python in the terminal, but not in my jupyter notebook.",
            ">>> tf.config.list_physical_devices('GPU')",
            "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]",
        ),
    ),
    "tf.not-installed": (
        text(
            (
                r"ERROR: Could not install packages due to an OSError: [Errno 2] No such file or "
                r"directory: 'C:\\Users\\k\\x\\tensorflow\\include\\external\\long.h'"
            ),
            ("HINT: This error might have occurred since this system does not have Windows Long Path support enabled."),
        ),
        text(
            (
                "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) "
                "after connection broken by 'SSLError"
            ),
            "ERROR: Could not find a version that satisfies the requirement tensorflow (from versions: none)",
            "ERROR: No matching distribution found for tensorflow",
        ),
    ),
    "tf.import-hang": (
        text('python -c "import tensorflow" does not return, I waited an hour'),
        text("The program hangs when importing tensorflow 2.17"),
        text("when I run import tensorflow as tf the kernel gets stuck"),
    ),
    "tf.package-removed": (
        text(
            "  Downloading tf-nightly-gpu-2.12.0.dev20221231.tar.gz (1 kB)",
            "  Preparing metadata (setup.py) ... error",
        ),
    ),
    "tf.install-damaged": (
        text(
            ">>> import tensorflow",
            '  File "/v/lib/python3.8/site-packages/tensorflow/python/eager/context.py", line 28, in <module>',
            "    from absl import logging",
            "ModuleNotFoundError: No module named 'absl'",
        ),
    ),
}

NO_ERROR = (
    text("RuntimeWarning: numpy.ufunc size changed, may indicate binary incompatibility. Expected 216, got 192"),
    text(
        "tensorflow 2.5.0 requires typing-extensions~=3.7.4, but you have typing-extensions "
        "4.0.1 which is incompatible."
    ),
    text("the log ends; pip freeze shows what is installed, then I import tensorflow"),
    text("You can install TensorFlow using the install_tensorflow() function."),
    text("we need numpy 1.26 and keras 3.0, and TensorFlow should be installed with its extra"),
    text('  File "/opt/app/utils/logging.py", line 3, in <module>', "    import tensorflow as tf", ">>> done"),
)
