"""Lines of the forms about package managers and about packages beside TensorFlow, as SAMPLES of message_samples.py."""

from __future__ import annotations

PACKAGES: list[tuple[str, str, dict[str, str]]] = [
    ("other-backend", "Using Theano backend.", {"backend": "Theano"}),
    ("requires-python", "ModuleNotFoundError: No module named 'distutils'", {}),
    (
        "requires-python",
        "  - tensorflow requires Python >=3.9,<3.13, so it will not be satisfied for Python >=3.13",
        {"package": "tensorflow", "need": ">=3.9,<3.13"},
    ),
    (
        "requires-python",
        "package tensorflow-2.5.0-py39h1 requires python >=3.9,<3.10.0a0",
        {"package": "tensorflow", "need": ">=3.9,<3.10.0"},
    ),
    ("requires-python", "to be incompatible with the existing python installation in your environment:", {}),
    ("musl-system", "RUN apk add --no-cache build-base", {}),
    ("musl-system", "FROM python:3.11-alpine", {}),
    ("musl-system", "/ # ldd: /lib/ld-musl-x86_64.so.1 (0x7f)", {}),
    ("musl-system", 'PRETTY_NAME="Alpine Linux v3.20"', {}),
    ("no-distribution", "No distributions at all found for tensorflow", {"requirement": "tensorflow"}),
    (
        "no-distribution",
        "Unable to find installation candidates for tensorflow (2.8.0)",
        {"wanted": "tensorflow", "candidate": "2.8.0"},
    ),
    (
        "dependency-not-on-index",
        "ERROR: No matching distribution found for nvidia-nccl-cu11~=2.15",
        {"package": "nvidia-nccl-cu11"},
    ),
    ("extra-not-on-index", "No matching distribution found for tensorrt==8.5.3.1", {"version": "8.5.3.1"}),
    ("install-broke-off", "ERROR: Could not install packages due to an OSError: [Errno 2] No such file", {}),
    ("index-unreachable", "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken", {}),
    ("built-without-cuda", "Downloading libtensorflow-cpu-linux-x86_64-2.15.0.tar.gz", {}),
    ("other-environment", "The GPU is there in the terminal, but not in jupyter", {"gpu": "elsewhere"}),
    (
        "module-not-found",
        "Error: Valid installation of TensorFlow not found.",
        {"module": "tensorflow", "by": "reticulate"},
    ),
    ("other-environment", "(tf-gpu) ana@host:~$ python train.py", {"made": "tf-gpu"}),
]
