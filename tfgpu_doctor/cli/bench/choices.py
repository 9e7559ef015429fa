"""Options of several workloads: built-in networks, data types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])

MODELS = ("mnist", "cifar", "resnet50")  # those of bench/workloads/models.py
TRAINING = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")  # types of a network


def model_option(text: str) -> Callable[[_Function], _Function]:
    """--model, a built-in network; `text` is its help."""
    return click.option("--model", type=click.Choice(MODELS), default="mnist", show_default=True, help=text)


def dtypes_option(types: Sequence[str]) -> Callable[[_Function], _Function]:
    """--dtype, which may be repeated; the command gets `dtypes`."""
    return click.option(
        "--dtype",
        "dtypes",
        type=click.Choice(types),
        multiple=True,
        default=("float32",),
        help="Data type of the computation; may be repeated. float32 means without TF32.  [default: float32]",
    )
