"""Options of several workloads: built-in networks, data types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tfgpu_doctor.cli.options import option
from tfgpu_doctor.cli.values import Listed, OneOf

_Function = TypeVar("_Function", bound=Callable[..., Any])

MODELS = ("mnist", "cifar", "resnet50")  # those of bench/workloads/models.py
TRAINING = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")  # types of a network


def model_option(text: str) -> Callable[[_Function], _Function]:
    """--model, a built-in network; `text` is its help."""
    return option("--model", type=OneOf(MODELS), default="mnist", show_default=True, help=text)


def dtypes_option(types: Sequence[str]) -> Callable[[_Function], _Function]:
    """--dtype, which may be repeated; the command gets `dtypes`."""
    return option(
        "--dtype",
        "dtypes",
        type=Listed(OneOf(types)),
        default=("float32",),
        help="Data type of the computation; float32 means without TF32.  [default: float32]",
    )
