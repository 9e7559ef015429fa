"""More sentences of packages beside TensorFlow, and of conda: what is named first."""

from __future__ import annotations

from tests.findings.logs import text

FIRST: dict[str, tuple[str, ...]] = {
    "tf.import-avx": (
        text(
            "model name      : Intel(R) Core(TM)2 Quad CPU    Q9650  @ 3.00GHz",
            ">>> import tensorflow",
            "Segmentation fault (core dumped)",
        ),
        text(
            "flags           : fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat sse sse2 ssse3 sse4_1",
            "ImportError: DLL load failed while importing _pywrap_tensorflow_internal: initialization failed.",
        ),
    ),
    "tf.python-unsupported": (
        text(
            "UnsatisfiableError: The following specifications were found to be in conflict:",
            "  - python=3.7",
            "  - tensorflow-gpu",
            'Use "conda info <package>" to see the dependencies for each package.',
        ),
    ),
    "tf.package-conflict": (
        text("AttributeError: module 'keras._tf_keras.keras' has no attribute '__internal__'"),
        text("ImportError: cannot import name '__version__' from 'keras' (/v/dist-packages/keras/__init__.py)"),
        text('"pip install -r requirements.txt" removed my previously installed tensorflow-gpu.', "['/cpu:0']"),
        text("setup.py installs the cpu version of tensorflow even when tensorflow-gpu is already present"),
        text(
            "ModuleNotFoundError: No module named 'keras.api._v2'",
        ),
        text(
            "AttributeError: module 'keras.utils.generic_utils' has no attribute 'populate_dict_with_module_objects'",
        ),
        text(
            "ModuleNotFoundError: No module named 'tensorflow.python.trackable'",
        ),
        text(
            "ModuleNotFoundError: No module named 'tensorflow.tsl'",
        ),
    ),
    "tf.wrong-env": (
        text(
            '(tensorflow) kai@mbp:~$ python -c "import tensorflow"',
            "ModuleNotFoundError: No module named 'tensorflow'",
        ),
    ),
    "tf.import-dll": (
        text(
            "ImportError: No module named '_pywrap_tensorflow_internal'",
            "Failed to load the native TensorFlow runtime.",
        ),
    ),
    "tf.not-installed": (
        text(
            '(base) kai@mbp:~$ python -c "import tensorflow"',
            "ModuleNotFoundError: No module named 'tensorflow'",
        ),
    ),
    "tf.shadowed": (
        text(
            "ModuleNotFoundError: No module named 'tensorflow.compat'; 'tensorflow' is not a package",
        ),
    ),
    "tf.abi-protobuf": (
        text(
            "AttributeError: 'NoneType' object has no attribute 'message_types_by_name'",
        ),
        text(
            "TypeError: bases must be types",
        ),
    ),
    "tf.abi-keras": (
        text(
            "TypeError: Layer.add_weight() got multiple values for argument 'shape'",
        ),
        text(
            "ModuleNotFoundError: No module named 'tensorflow.keras.layers.experimental'",
        ),
    ),
    "tf.import-failed": (
        text(
            "ModuleNotFoundError: No module named 'tensorflow.python.platform'",
        ),
    ),
    "tf.abi-numpy": (
        text(
            "ImportError: ",
            "",
            "IMPORTANT: PLEASE READ THIS FOR ADVICE ON HOW TO SOLVE THIS ISSUE!",
            "",
            "Importing the numpy C-extensions failed. This error can happen for",
            "Original error was: DLL load failed while importing _multiarray_umath: not found.",
        ),
    ),
}
