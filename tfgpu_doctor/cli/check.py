"""`tfgpu check`: requirements and manifests against the compatibility matrix, before anything is built."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.options import define_command, option
from tfgpu_doctor.cli.output import (
    detail_options,
    fail_on_option,
    output_options,
    pair_outputs,
    redact_option,
    shows_changes,
    write,
)
from tfgpu_doctor.cli.target import read_target, target_options
from tfgpu_doctor.cli.values import OneOf
from tfgpu_doctor.manifests import INSTEAD, KINDS

if TYPE_CHECKING:
    from tfgpu_doctor.manifests import Kind
    from tfgpu_doctor.records.report import FailOn
    from tfgpu_doctor.render.formats import Detail

_HELP = """Check the versions, base images and GPU requests in these files against the compatibility matrix.

FILE is a requirements.txt, pyproject.toml, environment.yml, Dockerfile, Singularity or Apptainer definition, compose
file, Kubernetes manifest, GitHub workflow, .python-version, runtime.txt, or notebook (what its cells install). A folder
stands for all such files in it; - is standard input, which needs --kind.
Files that describe one environment are checked together. A file that another one includes is read if it lies below
the folder of that one, or is named on the command line as well.

With --resolve, uv (or pip, if uv is not installed) is asked which versions it would install, and those are checked.
Only names and versions from the files are passed to it, no paths, addresses or options. It uses the index, proxies
and certificates that it is configured with. Conda packages are not resolved.

Exit codes: 0 nothing at or above --fail-on, 1 a problem was found, 2 wrong usage, 3 no file contains TensorFlow, or
no problem was found but --resolve got no answer.
"""


class _Kind(OneOf):
    """A kind of file; those that were read once are refused by what to give instead."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Find the kind. Raises click.BadParameter: there is none."""
        if value in ("lock", "pipfile", "setup", "devcontainer"):
            raise click.BadParameter(f"{value}: {INSTEAD}", ctx, param)
        return super().convert(value, param, ctx)


@define_command(
    "check",
    help=_HELP,
    short_help="Check requirements, Dockerfiles and manifests before building them.",
    epilog="Examples: tfgpu check requirements.txt Dockerfile; tfgpu check pod.yaml --gpu A100 --driver 535",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@option("--target", "stage", metavar="STAGE", help="Stage of the Dockerfiles to build, if not the last.")
@option("--kind", type=_Kind(KINDS), help="Kind of the files, if their names do not show it.")
@target_options
@matrix_option
@option("--fix", is_flag=True, help="Change the files as advised. Without it, the changes are only shown.")
@option("--resolve", is_flag=True, help="Ask uv or pip which versions it would install. Uses the network.")
@fail_on_option
@redact_option
@partial(detail_options, more="Show all versions that --resolve chose, and the ids of checks that are open.")
@output_options("check")
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    kind: Kind | None,
    stage: str | None,
    matrix_file: str | None,
    fix: bool,
    resolve: bool,
    fail_on: FailOn,
    redact: bool | None,
    detail: Detail | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    **machine: Any,
) -> None:
    """Check files; what the help page says stands above."""
    targets = pair_outputs(formats, outputs, "check")
    if "-" in files and kind is None:
        raise click.UsageError(f"standard input (-) needs --kind {'|'.join(KINDS)}")
    if fix and "-" in files:
        raise click.UsageError("standard input (-) cannot be changed: --fix needs files")
    matrix = load_matrix(matrix_file)
    target = read_target(matrix, **machine)
    from tfgpu_doctor.cli.check_run import Check
    from tfgpu_doctor.cli.manifests import ManifestFiles
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.install.asking import Resolver
    from tfgpu_doctor.manifests import ManifestError
    from tfgpu_doctor.records.report import exit_code

    sources = ManifestFiles(files, kind, stage)
    check = Check(sources, target, matrix, now(), Resolver(os.environ) if resolve else None)
    try:
        checked = check.run(changes=fix or (shows_changes(targets) and "-" not in files), fix=fix)
    except ManifestError as error:
        raise click.UsageError(str(error)) from error
    write(checked, "check", targets, redact=redact, fail_on=fail_on, detail=detail or "normal")
    context.exit(exit_code(checked.report, fail_on))
