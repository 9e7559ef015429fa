"""`tfgpu check`: requirements and manifests against the compatibility matrix, before anything is built."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor import commands
from tfgpu_doctor.cli.options import OneOf, define_command, matrix_option, option, target_options
from tfgpu_doctor.cli.output import (
    detail_options,
    fail_on_option,
    note,
    output_options,
    pair_outputs,
    redact_option,
    shows_changes,
    write,
)
from tfgpu_doctor.manifests import INSTEAD, KINDS

if TYPE_CHECKING:
    from tfgpu_doctor.records.report import FailOn


class _Kind(OneOf):
    """A kind of file; those that were read once are refused by what to give instead."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Find the kind. Raises click.BadParameter: there is none."""
        if value in ("lock", "pipfile", "setup", "devcontainer"):
            raise click.BadParameter(f"{value}: {INSTEAD}", ctx, param)
        return super().convert(value, param, ctx)


@define_command(
    "check",
    short_help="Check requirements, Dockerfiles and manifests before building them.",
    epilog="Examples: tfgpu check requirements.txt Dockerfile; tfgpu check pod.yaml --gpu A100 --driver 535",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@option("--target", metavar="STAGE", help="Stage of the Dockerfiles to build, if not the last.")
@option("--kind", type=_Kind(KINDS), help="Kind of the files, if their names do not show it.")
@target_options
@matrix_option
@option("--fix", is_flag=True, help="Change the files as advised. Without it, the changes are only shown.")
@fail_on_option
@redact_option
@partial(detail_options, more="Show the ids of checks that are open.")
@output_options("check")
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    fix: bool,
    fail_on: FailOn,
    redact: bool | None,
    detail: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    **asked: Any,
) -> None:
    """Check the versions, base images and GPU requests in these files against the compatibility matrix.

    FILE is a requirements.txt, pyproject.toml, environment.yml, Dockerfile, Singularity or Apptainer definition,
    compose file, Kubernetes manifest, GitHub workflow, .python-version, runtime.txt, or notebook (what its cells
    install). A folder stands for all such files in it; - is standard input, which needs --kind.
    Files that describe one environment are checked together. A file that another one includes is read if it lies below
    the folder of that one, or is named on the command line as well.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem was found, 2 wrong usage, 3 no file contains TensorFlow.
    """
    targets = pair_outputs(formats, outputs, "check")
    if "-" in files and asked["kind"] is None:
        raise click.UsageError(f"standard input (-) needs --kind {'|'.join(KINDS)}")
    if fix and "-" in files:
        raise click.UsageError("standard input (-) cannot be changed: --fix needs files")
    from tfgpu_doctor.records.report import exit_code

    changes = shows_changes(targets) and "-" not in files
    checked = commands.check(*files, fix=fix, changes=changes, note=note, **asked)
    write(checked, "check", targets, redact=redact, fail_on=fail_on, detail=detail or "normal")
    context.exit(exit_code(checked.report, fail_on))
