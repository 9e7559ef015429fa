"""What the file name of a CUDA library tells: which library it is, and of which version.

>>> known_library("libcudart.so.11.0"), known_library("cudart64_101.dll"), known_library("libcudnn_cnn_infer.so.8")
... # doctest: +NORMALIZE_WHITESPACE
(Library(name='libcudart.so.11.0', component='cudart', version='11.0'),
 Library(name='cudart64_101.dll', component='cudart', version='10.1'),
 Library(name='libcudnn_cnn_infer.so.8', component='cudnn', version='8'))
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tfgpu_doctor.facts.versions import major

_LINUX = re.compile(
    r"lib(?P<stem>cu\w+?|nvinfer\w*|nccl|nvrtc|nvJitLink|cuda)\.so(?:\.(?P<version>\d+(?:\.\d+)*))?", re.IGNORECASE
)
# TensorFlow's guide "Install with pip", Windows: the Visual C++ Redistributable brings msvcp140_1.dll, 2.1 and later
# need it; vcruntime140_1.dll came with that of 2019.
VC_RUNTIME = ("msvcp140.dll", "msvcp140_1.dll", "vcruntime140_1.dll")
_MACOS = re.compile(r"lib(?P<stem>cu\w+?|nvinfer\w*)(?:\.(?P<version>\d+(?:\.\d+)*))?\.dylib", re.IGNORECASE)
_WINDOWS = re.compile(
    r"(?P<stem>cu[a-z]+(?:_[a-z_]+?)?|nvinfer\w*?|nvrtc)(?:64|32)?_(?P<digits>\d*)(?:_\d+)?\.dll", re.IGNORECASE
)
# components whose version is CUDA's own; those of the others are numbered apart (libcufft.so.10 is in CUDA 10 and 11)
_CUDA_OWN = ("cudart", "cublas")
_ALL_ALIKE = ("7.0", "7.5", "8.0", "9.0", "9.1", "9.2", "10.0")
_OPTIONAL = ("nvinfer", "nccl", "cupti")


@dataclass(frozen=True)
class Library:
    """A library of NVIDIA's by its file name."""

    name: str
    component: str  # "cudart", "cublas", "cudnn", "cuda" (the driver's), "nvinfer" ...
    version: str | None  # as the name has it: "11.0", "8"

    @property
    def cuda_major(self) -> str | None:
        """The major of the CUDA that it belongs to, where its name tells."""
        return major(self.cuda_version) if self.cuda_version else None

    @property
    def cuda_version(self) -> str | None:
        """The CUDA that it belongs to, where its name tells: up to 10.0 every library has its toolkit's number."""
        old = self.version is not None and "." in self.version and self.component not in ("cudnn", "nvinfer")
        if self.component in _CUDA_OWN or (old and self.version in _ALL_ALIKE):
            return self.version
        return None

    @property
    def optional(self) -> bool:
        """Whether TensorFlow does without it."""
        return self.component.startswith(_OPTIONAL)


def known_library(name: str) -> Library | None:
    """Read a file name; None for one that is not NVIDIA's."""
    if name.lower() == "nvcuda.dll":
        return Library(name, "cuda", None)
    if match := _LINUX.fullmatch(name) or _MACOS.fullmatch(name):
        version = match["version"]
    elif match := _WINDOWS.fullmatch(name):
        # "101" is 10.1 and "80" is 8.0; "12", "11" of cublas and "8" of cudnn are whole
        digits = match["digits"]
        has_minor = len(digits) == 3 or (len(digits) == 2 and int(digits) >= 50)
        version = f"{digits[:-1]}.{digits[-1]}" if has_minor else digits or None
    else:
        return None
    stem = match["stem"].lower()
    return Library(name, next((one for one in ("cudnn", "cublas") if stem.startswith(one)), stem), version)
