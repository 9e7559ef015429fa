"""Checks contents of files that a program has, without any file."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfgpu_doctor.api.calling import Option, captured
from tfgpu_doctor.api.errors import UsageError
from tfgpu_doctor.cli.check_run import Check

if TYPE_CHECKING:
    from tfgpu_doctor.manifests import Environment, Kind
    from tfgpu_doctor.records.checked import Checked


@dataclass(frozen=True)
class Texts:
    """Contents by name; a file may include another one of them."""

    contents: Mapping[str, str]
    kind: Kind | None = None
    stage: str | None = None  # of Dockerfiles

    def environments(self, edited: Mapping[str, str] | None = None) -> tuple[Environment, ...]:
        """What they describe, or would describe with other texts in place of some. Raises ManifestError."""
        from tfgpu_doctor.manifests.reading import joined

        return tuple(joined(self._read({**self.contents, **(edited or {})})))

    def text(self, path: str) -> str | None:
        """The content of that name."""
        return self.contents.get(path)

    def write(self, path: str, _text: str, /) -> None:
        """Nothing can be written. Raises UsageError."""
        raise UsageError(f"{path} is no file")

    def _read(self, contents: Mapping[str, str]) -> Iterator[Environment]:
        from tfgpu_doctor.manifests.reading import read

        for path, text in contents.items():
            yield from read(path, text, self.kind, _beside(path, contents), stage=self.stage)


def _beside(path: str, contents: Mapping[str, str]) -> Callable[[str], str | None]:
    return lambda name: contents.get(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)))


def check_texts(
    texts: Mapping[str, str],
    machine: Mapping[str, Option],
    kind: Kind | None,
    stage: str | None,
    matrix_file: str | None,
    *,
    resolve: bool,
) -> Checked:
    """Check these contents for a machine. Raises UsageError: one of them is no manifest, or an option is wrong."""
    import os

    from tfgpu_doctor.cli.layers import load_matrix
    from tfgpu_doctor.cli.target import read_target
    from tfgpu_doctor.findings.engine import now
    from tfgpu_doctor.install.asking import Resolver
    from tfgpu_doctor.manifests import KINDS, ManifestError

    if kind is not None and kind not in KINDS:
        raise UsageError(f"no kind {kind!r}: choose from {', '.join(KINDS)}")
    several = ("gpu", "compute_capability")
    values = {name: _listed(value) if name in several else value for name, value in machine.items()}
    with captured():
        matrix = load_matrix(matrix_file)
        target = read_target(matrix, **values)  # type: ignore[arg-type]
        resolver = Resolver(os.environ) if resolve else None
        try:
            return Check(Texts(texts, kind, stage), target, matrix, now(), resolver).run(changes=True, fix=False)
        except ManifestError as error:
            raise UsageError(str(error)) from error


def _listed(value: Option) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(map(str, value))  # type: ignore[arg-type]
