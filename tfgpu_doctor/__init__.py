"""tfgpu: gets TensorFlow to run, and run fast, on NVIDIA GPUs.

The Python API, imported when it is used (docs/python.md):

    from tfgpu_doctor import bench, check, compare, diagnose, explain, plan
"""

# __init__.pyi is what type checkers read: these names are imported when they are used, which no checker follows.

# Folders of this package with the name of a function: Python sets the name when it first imports the folder, which is
# now, so that the functions can have it afterwards.
from tfgpu_doctor import bench, compare, plan

del bench, compare, plan

__version__ = "0.2.0"
__all__ = ["TfgpuError", "UsageError", "__version__", "bench", "check", "compare", "diagnose", "explain", "plan"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "load_ipython_extension":  # for %load_ext tfgpu_doctor
        return import_module("tfgpu_doctor.integrations.notebook").load_ipython_extension
    if name in __all__:
        return getattr(import_module("tfgpu_doctor.commands"), name)
    raise AttributeError(f"module 'tfgpu_doctor' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
