"""`tfgpu check`: requirements and manifests against the compatibility matrix, before anything is built."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.output import fail_on_option, output_options, pair_outputs
from tfgpu_doctor.cli.target import read_target, target_options
from tfgpu_doctor.manifests import KINDS

if TYPE_CHECKING:
    from tfgpu_doctor.manifests import Environment, Kind
    from tfgpu_doctor.records.report import FailOn

LARGEST = 5_000_000  # bytes; files written by hand are a thousand times smaller


@click.command(
    "check",
    short_help="Check requirements, Dockerfiles and manifests before building them.",
    epilog="Examples: tfgpu check requirements.txt Dockerfile; tfgpu check pod.yaml --gpu A100 --driver 535",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--kind", type=click.Choice(KINDS), help="Kind of the files, if it cannot be told from their names.")
@target_options
@matrix_option
@fail_on_option
@output_options()
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    kind: Kind | None,
    matrix_file: str | None,
    fail_on: FailOn,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    **machine: Any,
) -> None:
    """Check the versions, base images and GPU requests in these files against the compatibility matrix.

    FILE is a requirements.txt, pyproject.toml, environment.yml, Dockerfile, compose file or Kubernetes manifest; - is
    standard input, with --kind. Files that describe one environment are checked together.

    Exit codes: 0 nothing at or above --fail-on, 1 a problem was found, 2 wrong usage, 3 no file contains TensorFlow.
    """
    targets = pair_outputs(formats, outputs)
    if "-" in files and kind is None:
        raise click.UsageError(f"standard input (-) needs --kind {'|'.join(KINDS)}")
    matrix = load_matrix(matrix_file)
    target = read_target(matrix, **machine)
    from tfgpu_doctor.diagnosis.manifests import judge
    from tfgpu_doctor.diagnosis.reports import now
    from tfgpu_doctor.manifests.reading import joined
    from tfgpu_doctor.records.report import exit_code

    environments = tuple(joined(tuple(environment for file in files for environment in _environments(file, kind))))
    report = judge(environments, target, matrix, now())
    for output in targets:
        if output.format == "json":
            output.write_json(report.to_json())
        else:
            from tfgpu_doctor.render.terminal.check import render

            output.print_with(lambda console: render(report, environments, target, matrix, console))
    context.exit(exit_code(report, fail_on))


def _environments(path: str, kind: Kind | None) -> tuple[Environment, ...]:
    from tfgpu_doctor.manifests import ManifestError
    from tfgpu_doctor.manifests.reading import read

    name = "standard input" if path == "-" else path
    try:
        return read(name, _text(path), kind, _included_by(path))
    except ManifestError as error:
        raise click.UsageError(str(error)) from error


def _text(path: str) -> str:
    """Read a file. Raises click.UsageError: it cannot be read, is too large, or is not UTF-8."""
    try:
        with sys.stdin.buffer if path == "-" else Path(path).open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > LARGEST:
        raise click.UsageError(f"{path} is larger than {LARGEST // 1_000_000} MB; tfgpu check does not read such files")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error


def _included_by(path: str) -> Callable[[str], str | None]:
    """A reader of the files that `path` includes, relative to it; None for a file that does not exist."""
    folder = Path() if path == "-" else Path(path).parent

    def include(name: str) -> str | None:
        file = folder / name
        try:
            if not file.is_file() or os.path.getsize(file) > LARGEST:
                return None
            return file.read_text(encoding="utf-8-sig")
        except (OSError, ValueError):
            return None

    return include
