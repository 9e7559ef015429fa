"""The names of TensorFlow's distributions.

probes/tensorflow_probe.py has its own copy, since it runs without this package; a test holds the two together.
"""

from __future__ import annotations

from tfgpu_doctor.facts.versions import at_least

# What pip installs that brings the module `tensorflow`, the likeliest first
TENSORFLOW = (
    *("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-macos", "tensorflow-intel"),
    *("tensorflow-cpu-aws", "tensorflow-aarch64", "tensorflow-rocm", "intel-tensorflow", "intel-tensorflow-avx512"),
    *("tensorflow-directml", "tf-nightly", "tf-nightly-gpu", "tf-nightly-cpu", "nvidia-tensorflow"),
)
# Those whose wheels never contain CUDA
CPU_BUILDS = frozenset(
    {"tensorflow-cpu", "tensorflow-cpu-aws", "tf-nightly-cpu", "intel-tensorflow", "intel-tensorflow-avx512"}
)
# Those for GPUs of other makers
PLUGIN_BUILDS = frozenset({"tensorflow-rocm", "tensorflow-directml"})
# What only conda has: `tensorflow-base` holds the module, the other two choose the build
CONDA_BASE = "tensorflow-base"
CONDA_VARIANTS = ("tensorflow-mkl", "tensorflow-eigen")
ANY = frozenset({*TENSORFLOW, CONDA_BASE, *CONDA_VARIANTS})


def is_for_cpus(name: str, version: str) -> bool:
    """Whether a package is a build without CUDA, as `tensorflow` of Linux and Windows was up to 2.0."""
    return name in CPU_BUILDS or (name == "tensorflow" and at_least(version, "2.1") is False)
