"""Whether CUDA was initialized in this very process: from then on, CUDA_VISIBLE_DEVICES has no effect on it.

`import tensorflow` alone does not initialize CUDA; listing the GPUs or creating a tensor does.
"""

from __future__ import annotations

import ctypes
import os

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED of cuda.h: what calls before cuInit return


def is_initialized() -> bool:
    """Ask the libcuda that is loaded, without loading it; False on systems where that cannot be asked."""
    flags = [getattr(os, name, None) for name in ("RTLD_NOLOAD", "RTLD_NOW")]
    if None in flags:  # not on Windows
        return False
    try:
        library = ctypes.CDLL("libcuda.so.1", mode=sum(filter(None, flags)))
        return bool(library.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != _NOT_INITIALIZED)
    except (OSError, AttributeError):  # not loaded; a stand-in without that function
        return False
