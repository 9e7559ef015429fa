"""Services and development containers that are built from a Dockerfile."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tfgpu_doctor.manifests import Environment, IncludeError, ManifestError, quoted
from tfgpu_doctor.manifests.dockerfile import read_dockerfile
from tfgpu_doctor.manifests.pip import Include


@dataclass(frozen=True)
class Build:
    """What `docker build` is told."""

    context: str  # relative to the file that says it
    dockerfile: str  # the same
    stage: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)


def built(path: str, one: Environment, build: Build, include: Include) -> Environment:
    """The environment of a container, with what its Dockerfile installs where that can be read."""
    folder = posixpath.dirname(path)
    dockerfile = posixpath.normpath(posixpath.join(folder, build.dockerfile))
    try:
        text = include(posixpath.normpath(build.dockerfile))
        found = read_dockerfile(
            dockerfile,
            text,
            lambda name: include(posixpath.normpath(posixpath.join(build.context, name))),
            stage=build.stage,
            arguments=build.arguments,
            context=posixpath.normpath(posixpath.join(folder, build.context)),
        )[0]
    except IncludeError:
        return replace(one, build_context=dockerfile)  # it can be among the other files that are named
    except ManifestError:  # its message may repeat parts of a file that is something else
        note = f"{one.place}: {quoted(build.dockerfile)} has no such stage, or is not a Dockerfile"
        return replace(one, not_understood=(*one.not_understood, note))
    return replace(merged(one, found), read=(*one.read, dockerfile, *found.read))


def merged(one: Environment, found: Environment) -> Environment:
    """A container with what its Dockerfile installs."""
    return replace(
        one,
        image=found.image,
        python=found.python,
        requirements=found.requirements,
        packages_of=found.packages_of,
        copies_python=found.copies_python,
        settings=(*found.settings, *one.settings),
        not_understood=(*one.not_understood, *found.not_understood),
    )
