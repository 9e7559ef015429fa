"""`tfgpu check`: requirements and manifests against the compatibility matrix, before anything is built."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tfgpu_doctor.cli import reading
from tfgpu_doctor.cli.layers import load_matrix, matrix_option
from tfgpu_doctor.cli.output import fail_on_option, output_options, pair_outputs
from tfgpu_doctor.cli.target import read_target, target_options
from tfgpu_doctor.files.reading import in_mib, read_head, shown
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
    standard input, with --kind. Files that describe one environment are checked together. Files that they include are
    read below their own folder, or when they are named, too.

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

    environments = tuple(
        joined(tuple(environment for file in files for environment in _environments(file, kind, files)))
    )
    report = judge(environments, target, matrix, now())
    for output in targets:
        if output.format == "json":
            output.write_json(report.to_json())
        else:
            from tfgpu_doctor.render.terminal.check import render

            output.print_with(lambda console: render(report, environments, target, matrix, console))
    context.exit(exit_code(report, fail_on))


def _environments(path: str, kind: Kind | None, named: tuple[str, ...]) -> tuple[Environment, ...]:
    from tfgpu_doctor.manifests import ManifestError
    from tfgpu_doctor.manifests.reading import kind_of, read

    data = reading.read(path, LARGEST)
    try:
        text = _decoded(data, kind or kind_of(path))
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{shown(path)} is not UTF-8: {error.reason} at byte {error.start}") from error
    try:
        return read(shown(path), text, kind, _included_by(path, named), quote=not _leads_out(path))
    except ManifestError as error:
        raise click.UsageError(str(error)) from error


def _decoded(data: bytes, kind: Kind | None) -> str:
    """The text of a file; pip also takes the UTF-16 that PowerShell's > writes. Raises UnicodeDecodeError."""
    wide = kind == "requirements" and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "utf-8-sig")


def _included_by(path: str, named: tuple[str, ...]) -> Callable[[str], str]:
    """A reader of the files that `path` includes, relative to it.

    It reads what lies below the folder of `path`, and what is `named` on the command line: the file can come from
    somebody else, and its includes can be any file of the machine. Links out of the folder count as outside.
    """
    from tfgpu_doctor.manifests import IncludeError

    folder = "" if path == "-" else os.path.dirname(path)
    root = os.path.realpath(folder)
    also = {os.path.realpath(one) for one in named}
    texts: dict[str, str] = {}

    def include(name: str) -> str:
        file = os.path.realpath(os.path.join(folder, name))
        if file not in also and not _is_below(root, file):
            raise IncludeError(
                f"lies outside the folder of {shown(path)} and is not read; if it belongs to it, name it, too"
            )
        if file not in texts:
            left = LARGEST - sum(map(len, texts.values()))
            try:
                data = read_head(file, left + 1)
                if len(data) > left:
                    raise IncludeError(f"is not read: together, included files are larger than {in_mib(LARGEST)}")
                texts[file] = _decoded(data, "requirements")
            except (OSError, UnicodeDecodeError) as error:
                raise IncludeError from error
        return texts[file]

    return include


def _leads_out(path: str) -> bool:
    """Whether a file is a link to somewhere else: who made it is not known, and nothing of it is repeated."""
    return path != "-" and not _is_below(os.path.realpath(os.path.dirname(path)), os.path.realpath(path))


def _is_below(folder: str, file: str) -> bool:
    try:
        return os.path.commonpath([folder, file]) == folder
    except ValueError:  # another drive of Windows
        return False
