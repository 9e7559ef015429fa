"""tfgpu: gets TensorFlow to run, and run fast, on NVIDIA GPUs.

The Python API, imported when it is used (docs/python.md):

    from tfgpu_doctor import bench, check, compare, diagnose, explain, plan
"""

# __init__.pyi is what type checkers read: these names are imported when they are used, which no checker follows.

import sys
from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"
__all__ = ["TfgpuError", "UsageError", "__version__", "bench", "check", "compare", "diagnose", "explain", "plan"]

_FOLDERS = ("bench", "compare", "plan")  # folders of this package as well, whose modules are made callable
_ELSEWHERE = {
    **dict.fromkeys(("TfgpuError", "UsageError"), "tfgpu_doctor.api.errors"),
    **dict.fromkeys(("check", "diagnose", "explain"), "tfgpu_doctor.api.functions"),
    "load_ipython_extension": "tfgpu_doctor.integrations.notebook.magics",  # for %load_ext tfgpu_doctor
}


class _Function(ModuleType):
    """A module that can be called: the folder `plan` is also the function plan() of the API."""

    @property
    def _function(self) -> object:
        return getattr(import_module("tfgpu_doctor.api.functions"), self.__name__.rpartition(".")[2])

    @property
    def __signature__(self) -> object:
        import inspect

        return inspect.signature(self._function)

    def __call__(self, *arguments: object, **options: object) -> object:
        """Call the function of the API."""
        return self._function(*arguments, **options)


class _Package(ModuleType):
    """This package: its functions are imported when they are asked for, whatever was imported before."""

    def __getattr__(self, name: str) -> object:
        if name in _FOLDERS:
            return import_module("tfgpu_doctor." + name)  # which sets the attribute, see below
        if name in _ELSEWHERE:
            return getattr(import_module(_ELSEWHERE[name]), name)
        raise AttributeError("module 'tfgpu_doctor' has no attribute " + repr(name))

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FOLDERS and type(value) is ModuleType:  # the import system has loaded the folder
            value.__class__ = _Function
        super().__setattr__(name, value)

    def __dir__(self) -> list:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
