"""`tfgpu check`: requirements and manifests against the compatibility matrix, before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import choice, define_command, machine_options, matrix_option, option
from tfgpu_doctor.cli.output import (
    Results,
    fail_on_option,
    folder_in_workspace,
    note,
    refuse_overwriting,
    result_options,
)
from tfgpu_doctor.manifests import KINDS

if TYPE_CHECKING:
    from tfgpu_doctor.facts.report import FailOn


@define_command(
    "check",
    epilog="Examples: tfgpu check requirements.txt Dockerfile; tfgpu check pod.yaml --gpu A100 --driver 535",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@option("--target", metavar="STAGE", rare=True, help="Stage of the Dockerfiles to build, if not the last.")
@choice("--kind", choices=KINDS, rare=True, help="Kind of the files, if their names do not show it.")
@machine_options
@matrix_option
@fail_on_option
@result_options("check", more="Show the ids of checks that are open.")
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    fail_on: FailOn,
    results: Results,
    **asked: Any,
) -> None:
    """Check the versions, base images and GPU requests in these files against the compatibility matrix.

    FILE is a requirements.txt, pyproject.toml, environment.yml, Dockerfile, Singularity or Apptainer definition,
    compose file, Kubernetes manifest, GitHub workflow, .python-version, runtime.txt, or notebook (what its cells
    install). A folder stands for all such files in it; - is standard input, which needs --kind.
    Files that describe one environment are checked together. A file that another one includes is read if it lies below
    the folder of that one, or is named on the command line as well.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem was found, 2 wrong usage, 3 no file contains a known
    TensorFlow, or a list of packages cannot be read.
    """
    if "-" in files and asked["kind"] is None:
        raise click.UsageError(f"standard input (-) needs --kind {'|'.join(KINDS)}")
    from tfgpu_doctor.facts.report import exit_code

    checked = commands.check(*files, note=note, **asked)
    refuse_overwriting(results.targets, (one.path for one in checked.files))  # of a folder
    results.write(checked, "check", fail_on=fail_on, folder=folder_in_workspace())
    context.exit(exit_code(checked.report, fail_on))
