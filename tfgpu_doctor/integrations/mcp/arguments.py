"""What the tools are given: strict records, from which msgspec derives the schemas that an assistant reads.

No argument is a path or a program: an assistant repeats what it has read somewhere, so that a log could name either.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

LONGEST = 4 << 20  # characters of a text; the part of a log around its first error is a thousandth of it
_MANY = 20  # elements of a list

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
_Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those of a tool."""

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these names that have a value, as the functions of the API take them."""
        values = ((name, getattr(self, name)) for name in names)
        return {name: value for name, value in values if value not in (None, (), False)}


Only: TypeAlias = Annotated[
    tuple[_Name, ...],
    Meta(max_length=_MANY, description='Report only these findings, by id or pattern, such as "cuda.*".'),
]
Skip: TypeAlias = Annotated[
    tuple[_Name, ...], Meta(max_length=_MANY, description="Do not report these findings and their consequences.")
]
ShowFacts: TypeAlias = Annotated[
    bool, Meta(description="Also return every fact about the machine with its source; long, and seldom needed.")
]
Gpus: TypeAlias = Annotated[
    tuple[_Name, ...],
    Meta(max_length=_MANY, description='Names of the GPUs of the machine in question, such as ["RTX 4090"].'),
]
Capabilities: TypeAlias = Annotated[
    tuple[_Name, ...],
    Meta(max_length=_MANY, description='Compute capabilities instead of names, such as ["8.9"].'),
]
Driver: TypeAlias = Annotated[
    _Name | None, Meta(description="NVIDIA driver version (570.86.10) or branch (570) of that machine.")
]
Python: TypeAlias = Annotated[_Name | None, Meta(description="Python version of that machine, such as 3.12.")]
Os: TypeAlias = Annotated[
    Literal["linux", "windows", "wsl2", "macos"] | None, Meta(description="Operating system of that machine.")
]
Machine: TypeAlias = Annotated[
    Literal["x86_64", "aarch64", "arm64"] | None, Meta(description="Processor architecture of that machine.")
]
HARDWARE = ("gpu", "compute_capability", "driver", "os", "machine")  # of another machine
MACHINE = (*HARDWARE, "python")


class Doctor(Arguments, frozen=True):
    """Of the tool `doctor`."""

    import_tensorflow: Annotated[
        bool,
        Meta(
            description="False: only look at what is installed, which takes seconds, but misses what fails at run time."
        ),
    ] = True
    timeout: Annotated[
        Annotated[float, Meta(gt=0, le=600)] | None,
        Meta(description="Limit for importing and testing TensorFlow, in seconds."),
    ] = None
    require_gpus: Annotated[
        Annotated[int, Meta(ge=0, le=1024)] | None,
        Meta(description="Report an error if TensorFlow can use fewer GPUs than this."),
    ] = None
    only: Only = ()
    skip: Skip = ()
    facts: ShowFacts = False


class Explain(Arguments, frozen=True):
    """Of the tool `explain`."""

    text: Annotated[
        _Text,
        Meta(description="The text itself, verbatim and with the lines around the error; not the name of a file."),
    ]
    only: Only = ()
    skip: Skip = ()
    facts: ShowFacts = False


class Plan(Arguments, frozen=True):
    """Of the tool `plan`."""

    gpu: Gpus = ()
    compute_capability: Capabilities = ()
    driver: Driver = None
    python: Python = None
    os: Os = None
    machine: Machine = None
    tensorflow: Annotated[
        _Name | None, Meta(description="Consider only these releases, such as 2.15 or >=2.12,<2.16.")
    ] = None
    lock: Annotated[bool, Meta(description="Pin NVIDIA's packages to the versions that TensorFlow was built with.")] = (
        False
    )


Table: TypeAlias = Literal["tensorflow", "gpu", "cuda", "cudnn", "find"]


class Matrix(Arguments, frozen=True):
    """Of the tool `matrix`."""

    table: Annotated[Table, Meta(description="What to look up; find: a row of any other table.")]
    name: Annotated[
        _Name | None,
        Meta(
            description="Which row: a version (2.15.1, 12.5), a GPU (RTX 4090), an image with its tag. "
            "Without it, all rows, in short; of find, the tables."
        ),
    ] = None
    python: Annotated[
        _Name | None, Meta(description="Of tensorflow: releases with a wheel for this Python, such as 3.12.")
    ] = None
    cuda: Annotated[_Name | None, Meta(description="Of tensorflow: releases built for this CUDA, such as 11.8.")] = None
    cudnn: Annotated[_Name | None, Meta(description="Of tensorflow: releases built for this cuDNN, such as 8.6.")] = (
        None
    )
    driver: Annotated[
        _Name | None, Meta(description="Of tensorflow: releases that run on this NVIDIA driver or branch.")
    ] = None
    gpu: Annotated[_Name | None, Meta(description="Of tensorflow: releases with kernels for this GPU.")] = None
    compute_capability: Annotated[
        _Name | None, Meta(description="Of tensorflow: releases with kernels for this compute capability; of gpu: it.")
    ] = None
    os: Os = None
    machine: Machine = None
    newest: Annotated[bool, Meta(description="Of tensorflow: only the newest release that matches.")] = False


class Check(Arguments, frozen=True):
    """Of the tool `check`."""

    files: Annotated[
        dict[_Name, Annotated[str, Meta(max_length=LONGEST)]],
        Meta(
            min_length=1,
            max_length=_MANY,
            description="The contents by file name, which tells the kind: requirements.txt, pyproject.toml, "
            "environment.yml, Dockerfile, compose.yaml, pod.yaml, notebook.ipynb ... A file that another one includes "
            "must be among them. Nothing is read from the disk.",
        ),
    ]
    kind: Annotated[_Name | None, Meta(description="Kind of the files, if their names do not show it.")] = None
    target: Annotated[_Name | None, Meta(description="Stage of the Dockerfiles to build, if not the last.")] = None
    gpu: Gpus = ()
    compute_capability: Capabilities = ()
    driver: Driver = None
    python: Python = None
    os: Os = None
    machine: Machine = None


class BenchShow(Arguments, frozen=True):
    """Of the tool `bench_show`."""

    text: Annotated[
        _Text, Meta(description="The content of the JSON file that tfgpu bench --output wrote; not its name.")
    ]
    facts: ShowFacts = False
