"""Any of the files that `tfgpu check` knows → environments."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from tfgpu_doctor.manifests import KINDS, Environment, IncludeError, Kind, ManifestError, Requirement, quoted
from tfgpu_doctor.manifests.pip import Include

LONGEST_LINE = 100_000  # characters; a hash list of a requirement has some thousands
LONGEST_NUMBER = 500  # digits; Python refuses to read a number of some thousands
LARGEST = 5_000_000  # characters
MOST_ENVIRONMENTS = 200  # of one file
PER_NAME = 50  # requirements of one name, and lines that are not understood
_NAMES: tuple[tuple[str, Kind], ...] = (
    (r"(.*/)?(pyproject|pixi)\.toml", "pyproject"),
    (r"(.*/)?((dockerfile|containerfile)([.-][^/]*)?|[^/]*\.(dockerfile|containerfile))", "dockerfile"),
    (r"(.*/)?([^/]*(requirements|constraints)[^/]*\.(txt|in|lock)|requirements)", "requirements"),
    (r"(.*/)?(requirements|reqs|constraints)/[^/]*\.(txt|in)", "requirements"),
)


def read(
    path: str,
    text: str,
    kind: Kind | None = None,
    include: Callable[[str], str | None] = lambda _: None,
    *,
    quote: bool = True,
) -> tuple[Environment, ...]:
    """The environments that a file describes.

    Args:
        path: for messages, and for its name, which tells the kind.
        kind: what the file is; None: its name or its content tells.
        include: reads a file that this one names, relative to it; None, or an IncludeError with the reason, where it
            does not.
        quote: messages may show parts of the file.

    Raises ManifestError: it is none of KINDS, or is not well formed; the message has the file and the line.
    """
    if refusal := _refusal(path, text):
        raise ManifestError(refusal)
    try:
        return tuple(_bounded(_read(path, text, kind, partial(_included, include), quote)))
    except ManifestError as error:
        if not quote:
            raise ManifestError(f"{path} is not valid; what is wrong is not shown, since it is a link") from None
        message = str(error)
        raise ManifestError(message if message.startswith(path) else f"{path}: {message}") from error
    except RecursionError as error:
        raise ManifestError(f"{path}: nested too deeply, or recursively") from error


def _refusal(path: str, text: str) -> str | None:
    """Why a text is not read at all."""
    if len(text) > LARGEST:
        return f"{path} is larger than {LARGEST // 1_000_000} MB, too large for a file of these kinds"
    if re.search(r"[\0\ud800-\udfff]", text):
        return f"{path}: not a text file"
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LONGEST_LINE:
            return f"{path}:{number}: a line of {len(line)} characters is too long for a file of these kinds"
        if re.search(rf"(?<!\d)\d{{{LONGEST_NUMBER + 1}}}", line):
            return f"{path}:{number}: a number of more than {LONGEST_NUMBER} digits"
    return None


def _included(include: Callable[[str], str | None], name: str) -> str:
    """A file that another names. Raises IncludeError: it cannot be read, or would be refused."""
    text = include(name) if name and "\0" not in name and "://" not in name else None
    if text is None or _refusal(name, text):
        raise IncludeError
    return text


def _bounded(found: tuple[Environment, ...]) -> Iterator[Environment]:
    """As much as can be judged in seconds, with a line about what is left out."""
    for number, one in enumerate(found[:MOST_ENVIRONMENTS], 1):
        by_name: dict[str, list[Requirement]] = {}
        for requirement in one.requirements:
            by_name.setdefault(requirement.name, []).append(requirement)
        notes = {f"requirements of {quoted(name)}": len(several) - PER_NAME for name, several in by_name.items()}
        notes["lines that are not understood"] = len(one.not_understood) - PER_NAME
        notes["environments"] = len(found) - number if number == MOST_ENVIRONMENTS else 0
        left_out = [f"{one.place.path}: {count} more {what} are left out" for what, count in notes.items() if count > 0]
        yield (
            one
            if not left_out
            else replace(
                one,
                requirements=tuple(each for several in by_name.values() for each in several[:PER_NAME]),
                not_understood=(*one.not_understood[:PER_NAME], *left_out[-PER_NAME:]),
            )
        )


def _read(path: str, text: str, kind: Kind | None, include: Include, quote: bool) -> tuple[Environment, ...]:
    kind = kind or kind_of(path)
    if kind == "requirements":
        from tfgpu_doctor.manifests.pip import read_requirements

        return read_requirements(path, text, include, quote=quote)
    if kind == "pyproject":
        from tfgpu_doctor.manifests.pyproject import read_pyproject

        return read_pyproject(path, text, include, quote=quote)
    if kind == "dockerfile":
        from tfgpu_doctor.manifests.dockerfile import read_dockerfile

        return read_dockerfile(path, text, include)
    return _yaml(path, text, kind, include, quote)


def kind_of(path: str) -> Kind | None:
    """What a file is by its name; None for YAML, whose keys tell, and for a name that does not tell."""
    name = path.replace("\\", "/").lower()
    return next((kind for pattern, kind in _NAMES if re.fullmatch(pattern, name)), None)


def _yaml(path: str, text: str, kind: Kind | None, include: Include, quote: bool) -> tuple[Environment, ...]:
    """Which of the three YAML files it is, its keys tell."""
    if kind is None and not path.lower().endswith((".yml", ".yaml")):
        raise ManifestError(f"{path}: unknown kind of file; name it with --kind {'|'.join(KINDS)}")
    from tfgpu_doctor.manifests.compose import is_compose, read_compose
    from tfgpu_doctor.manifests.conda import is_environment, read_environment
    from tfgpu_doctor.manifests.kubernetes import is_kubernetes, read_kubernetes
    from tfgpu_doctor.manifests.nodes import documents

    roots = documents(path, text)
    if not roots:
        raise ManifestError(f"{path}: the file is empty")
    if kind == "kubernetes" or (kind is None and any(map(is_kubernetes, roots))):
        return read_kubernetes(roots)
    if kind == "compose" or (kind is None and is_compose(roots[0])):
        return read_compose(path, roots[0], include)
    if kind == "conda" or (kind is None and is_environment(roots[0])):
        return read_environment(path, roots[0], include, quote=quote)
    raise ManifestError(
        f"{path}: neither a conda environment (dependencies:), a compose file (services:) nor a Kubernetes manifest "
        "(apiVersion: and kind:)"
    )


def joined(environments: tuple[Environment, ...]) -> Iterator[Environment]:
    """A service that is built from a Dockerfile among the files gets what that Dockerfile installs."""
    dockerfiles = {posixpath.normpath(one.place.path): one for one in environments if one.kind == "dockerfile"}
    for one in environments:
        built = dockerfiles.get(posixpath.normpath(one.build_context)) if one.build_context else None
        if built is None:
            yield one
            continue
        yield replace(
            one,
            image=built.image,
            python=built.python,
            requirements=built.requirements,
            settings=(*built.settings, *one.settings),
        )
