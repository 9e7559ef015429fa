"""Signs over the environment that manifests describe, before anything is installed: edits of the files are the fixes.

Each stands below the finding of a machine that it shows, and shares its severity, cause and link. Importing this module
adds them; `tfgpu check` does so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TypeAlias

from msgspec.structs import replace as replaced
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.facts.versions import at_least, capability, major, minor, numbers
from tfgpu_doctor.findings.answers import is_about_architecture
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.cuda import OF_THE_SYSTEM, OTHER_CUSOLVER, WITHOUT_EXTRA
from tfgpu_doctor.findings.declaration import Problem, evidence
from tfgpu_doctor.findings.engine import SEVERITIES
from tfgpu_doctor.findings.host import COMPOSE_REQUEST
from tfgpu_doctor.findings.library_fixes import CUDNN_9
from tfgpu_doctor.findings.python import GUIDE, MUSL, MUSL_TITLE, pythons_of
from tfgpu_doctor.findings.requirements import KERAS_2_VALUES, KERAS_3, companion_bound
from tfgpu_doctor.findings.runs import POD_SHM
from tfgpu_doctor.findings.xla import KERAS_SINCE
from tfgpu_doctor.manifests import Environment, Image, Place, Requirement, UnreadProject
from tfgpu_doctor.manifests.dockerfile import instructions
from tfgpu_doctor.manifests.requirement import pip_requirement
from tfgpu_doctor.matrix.compatibility import (
    driver_reaches,
    dropped_by,
    forgets_folders,
    lacks_bound,
    numpy_bound,
    protobuf_bound,
    requirement,
    runs_on,
)
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.queries import takes_cudnn
from tfgpu_doctor.matrix.schema import CondaBuild, KnownIssue
from tfgpu_doctor.plan.alternatives import driver_change, is_data_centre
from tfgpu_doctor.plan.constraints import PlanRequest, other_driver, span
from tfgpu_doctor.plan.file_edits import (
    add_to_container,
    is_of_constraints,
    remove,
    replacement,
    write,
    write_beside,
    write_best,
    write_cuda,
    write_image,
    write_python,
    write_release,
)
from tfgpu_doctor.plan.install_commands import conda_library_path
from tfgpu_doctor.plan.planned import (
    Base,
    Conflict,
    Cuda,
    PlannedEnvironment,
    base_named,
    branches_of,
    dockerfile_of,
    driver_of,
    fitting,
    is_empty,
    missing_tag,
    pinned,
    with_cudnn,
    without_wheel,
)
from tfgpu_doctor.plan.resolving import Universe, holds, smallest_conflict, solve, specifier, universe_of

Search: TypeAlias = Callable[[PlannedEnvironment], Iterator[Problem]]
_SEARCHES: dict[tuple[str, tuple[str, ...]], list[Search]] = {}

# findings that decide which TensorFlow, if any, is installed: what it needs is no question beside them; nor beside a
# package that has been discontinued, unless one of its releases is asked for by its number
_DECIDED_BY_PACKAGE = ("tf.windows-native", "tf.cpu-build")
_NO_CUDA_AT_ALL = (*_DECIDED_BY_PACKAGE, "cuda.version-mismatch", "cuda.missing")
_NOT_INSTALLED = ("tf.package-removed", "tf.python-unsupported")
_DISCONTINUED = ("tensorflow-gpu", "tf-nightly-gpu")
_USE_PIP = Alternative("Install TensorFlow with pip instead: tfgpu plan lists the commands")


def in_manifests(finding: str, unless: tuple[str, ...] = ()) -> Callable[[Search], Search]:
    """Register a search of a planned environment for a finding; what all of one condition yield becomes one problem."""

    def register(search: Search) -> Search:
        searches = _SEARCHES.setdefault((finding, unless), [])
        searches.append(search)
        if searches[1:]:
            return search
        others = tuple(one for one in unless if one != "tf.package-removed")

        @DECLARATIONS[finding].sign(conclusive=False, unless=others)
        def sign(planned: PlannedEnvironment) -> Problem | None:
            one = planned.tensorflow  # a discontinued package, of any release
            other = one is not None and one.name in _DISCONTINUED and pinned(one) is None
            if others != unless and any(each.severity is not Severity.NOTE for each in _removed(planned)):
                return None
            decided = other and (finding == "tf.abi-numpy" or set(_DECIDED_BY_PACKAGE) <= set(unless))
            found = (_joined([*each(planned)]) for each in searches if not decided)
            return _joined([one for one in found if one], "; ")

        return search

    return register


def _joined(problems: list[Problem], between: str = "") -> Problem | None:
    """The gravest of several, `between` the titles of such, with the evidence and the fixes of all: a line gets one."""
    if not problems:
        return None
    problems.sort(key=lambda one: SEVERITIES.index(one.severity or Severity.ERROR))
    titles = [str(one.title) for one in problems if one.severity is problems[0].severity]
    fixes = list[Fix]()
    for one in problems:
        lines = {replaced(edit, new="") for fix in fixes for edit in fix.edits}
        fixes += [fix for fix in one.fixes or () if not lines & {replaced(edit, new="") for edit in fix.edits}]
    return Problem(
        title=between.join(titles) if between else titles[0],
        cause=problems[0].cause,
        evidence=tuple(dict.fromkeys(line for one in problems for line in one.evidence)),
        fixes=tuple(dict.fromkeys(fixes)),
        severity=problems[0].severity or Severity.ERROR,
        never_consequence=True,  # `unless` says what makes it none; else a file can have both faults
    )


def _seen(one: Requirement | Image, need: str, source: str) -> tuple[Evidence, ...]:
    return (evidence(one.reference if isinstance(one, Image) else one.text, str(one.place), need, source),)


# ----------------------------------------------------------------------------------------------------------------------
# Python, and the package that brings TensorFlow.


_NO_MATCH = 'pip prints "No matching distribution found"'


@in_manifests("tf.python-unsupported", unless=("tf.package-removed",))
def image_with_musl(view: PlannedEnvironment) -> Iterator[Problem]:
    """pip finds no wheel of TensorFlow in an image of Alpine."""
    image = view.base.image if view.base and view.tensorflow and not view.conda else None
    if image and (better := without_musl(image)):
        seen = _seen(image, "an image with glibc", "names of the wheels")
        yield Problem(title=MUSL_TITLE, cause=MUSL, evidence=seen, fixes=(write_image(image, better),))


def without_musl(image: Image) -> str | None:
    """The image of the same Python with glibc; None where this one is none of Alpine."""
    tag = image.tag or ""
    if image.name.rsplit("/", 1)[-1] == "alpine":
        return "python:3.12-slim"
    if "alpine" not in tag:
        return None
    head = tag.partition("alpine")[0].rstrip("-")
    return f"{image.name}:{head + '-' if head else ''}{'bookworm-slim' if 'astral' in image.name else 'slim'}"


@in_manifests("tf.python-unsupported", unless=("tf.package-removed",))
def no_wheel_for_required_python(view: PlannedEnvironment) -> Iterator[Problem]:
    """No allowed release has a wheel for the Python, or for some of those that are allowed."""
    tensorflow, allowed, pythons = view.tensorflow, view.allowed, view.pythons or ()
    if tensorflow is None or view.conda:
        return
    if not allowed:
        yield from _no_release(view, tensorflow)
        return
    without, newest = without_wheel(view, allowed), allowed[0]
    if not without:
        yield from _for_old_pythons(view, tensorflow)
        return
    listed = f"Python {', '.join(without)}"
    if len(without) == len(pythons):
        early = _pre_release(view, tensorflow, without[-1])
        what, wheels = "stable release" if early else "wheel", f"{tensorflow.place}; wheels of {newest.version}"
        # the Pythons for which the newest goes with everything else; else any release; else those of the newest
        own = write_python(view, fitting(view, newest.python) or fitting(view) or newest.python)
        yield Problem(
            title=f"{tensorflow.text} has no {what} for Python {span(tuple(without))}",
            cause=f"pip and uv install the pre-release {early} then" if early else _NO_MATCH,
            evidence=(evidence(listed, view.python_place, pythons_of(newest), f"{tensorflow.text} ({wheels})"),),
            fixes=_for_that_python(view, tensorflow, own),
            severity=Severity.WARNING if early else Severity.ERROR,
        )
    elif tensorflow.specifier:
        yield _for_some_pythons(view, tensorflow, listed)


def _for_some_pythons(view: PlannedEnvironment, tensorflow: Requirement, without: str) -> Problem:
    """No release that is allowed has a wheel for these; each has for others."""
    usable = tuple(one for one in view.pythons or () if one not in without_wheel(view, view.allowed, after=True))
    wheels = f"{tensorflow.text} ({tensorflow.place}; names of the wheels)"
    return Problem(
        title=f"{tensorflow.text} has no wheel for {without}, which {view.python_place} allows",
        cause="pip, uv sync and poetry install fail on those Pythons",
        evidence=(evidence(without, view.python_place, f"Python {span(usable)}", wheels),),
        fixes=(write_python(view, fitting(view) or usable),),
        severity=Severity.WARNING,
    )


def _pre_release(view: PlannedEnvironment, tensorflow: Requirement, python: str) -> str | None:
    """The pre-release that has a wheel for a Python and is taken where no release has: PEP 440 (tried)."""
    rows = view.matrix.releases(platform=view.target.platform, package=tensorflow.name)
    wanted = SpecifierSet(tensorflow.specifier)
    found = (row.version for row in rows if python in row.python and wanted.contains(row.version, prereleases=True))
    return next(found, None)


def _for_that_python(view: PlannedEnvironment, tensorflow: Requirement, own: Fix) -> tuple[Fix, ...]:
    """Another Python; another release only where that is bound: by a project, an image's TensorFlow, a matrix."""
    base, other = view.base, write_best(view)
    if base and base.of_tensorflow and base.tensorflow:
        return (own, write(tensorflow, f"tensorflow=={base.tensorflow}"), *other)
    if other and len(view.pythons or ()) > 1:  # bounds are narrowed, not moved
        return other
    return (own, *(other if view.environment.kind == "workflow" else ()))


@in_manifests("tf.python-unsupported", unless=("tf.package-removed",))
def no_wheel_for_an_earlier_command(view: PlannedEnvironment) -> Iterator[Problem]:
    """A command fails for the Python before a later one, which installs a release with wheels for it, is reached."""
    last, python = view.tensorflow, view.python
    if not (last and python and view.release) or (view.environment.python and view.environment.kind != "workflow"):
        return
    for one in view.environment.requirements:
        rows = view.matching(one) if one.fatal and one.name == last.name and 0 < one.step < last.step else ()
        if rows and not any(python in row.python for row in rows):
            yield Problem(
                title=f"{one.text} has no wheel for Python {python}",
                cause=f"{_NO_MATCH}, and {last.text} is not reached",
                evidence=_seen(one, f"a release with a wheel for Python {python}", "names of the wheels"),
                fixes=(remove(one),),
            )


@in_manifests("tf.python-unsupported", unless=("tf.package-removed",))
def no_such_python(view: PlannedEnvironment) -> Iterator[Problem]:
    """Of later Pythons, apt of Ubuntu and Debian has the next one at most; 18.04 has two."""
    base = view.base if view.base and view.base.python == view.python and not view.environment.python else None
    for one in view.environment.requirements if base and base.python and not base.of_tensorflow else ():
        found = re.fullmatch(r"python3\.(\d+)", one.name) if one.installer == "apt" else None
        if base and found and int(found[1]) > numbers(base.python or "")[1] + (2 if base.python == "3.6" else 1):
            yield Problem(
                title=f"{base.image.reference} has no package {one.name}",
                cause='apt-get prints "Unable to locate package", and the build ends',
                evidence=_seen(one, f"python3, which is {base.python}", "https://packages.ubuntu.com"),
                fixes=(remove(one),),
            )


_OLDEST_SUPPORTED = "3.11"  # 3.10 has reached its end of life in October 2026: devguide.python.org/versions


def _buildable(view: PlannedEnvironment) -> tuple[str, ...]:
    """The Pythons with which everything can be installed; pip builds what has archives alone, as termcolor of 2.4."""
    return fitting(view) or (() if view.conflicts else view.allowed[0].python)


def _bounded_by(view: PlannedEnvironment, newest: Release) -> Requirement | None:
    """The line other than TensorFlow's that has no wheel for a Python that is still supported."""
    universe = universe_of(view.matrix, view.target.platform, _OLDEST_SUPPORTED)
    lines = view.wanted_in(universe) if at_least(newest.python[-1], _OLDEST_SUPPORTED) else []
    core = [lines[at] for at in smallest_conflict(universe, lines)]
    return core[0] if len(core) == 1 else None


def _for_old_pythons(view: PlannedEnvironment, tensorflow: Requirement) -> Iterator[Problem]:
    """No Python is named, and a release, or another line, has no wheel for those that are still supported."""
    described = view.environment.image or view.target.gpus or view.target.driver
    skipped = tensorflow.marker and not holds(tensorflow.marker, view.target.platform, _OLDEST_SUPPORTED)
    if view.pythons or described or skipped or at_least(view.resolved.universe.python, _OLDEST_SUPPORTED):
        return
    newest, own = view.allowed[0], _buildable(view)
    line, last, need, source = tensorflow, newest.python[-1], pythons_of(newest), f"wheels of {newest.version}"
    if other := _bounded_by(view, newest) if own else None:
        line, last, need, source = other, own[-1], f"Python {own[-1]} or older", "names of the wheels"
    if not own or at_least(last, _OLDEST_SUPPORTED):
        return
    yield Problem(
        title=f"{line.text} has no wheel for Python 3.{numbers(last)[1] + 1} and later, and no file names a Python",
        cause=f"{_NO_MATCH}, or tries to build it from source" if other else _NO_MATCH,
        evidence=(evidence(line.text, str(line.place), need, source),),
        fixes=(Fix(f"Make the environment with Python {own[-1]}, and add --python {own[-1]} to this check"),),
        severity=Severity.ERROR if _takes_the_newest(view) else Severity.WARNING,
    )


def _takes_the_newest(view: PlannedEnvironment) -> bool:
    """Whether conda adds the newest Python: unless the version of another package asks for an older one."""
    pins = {one.text for one in view.environment.requirements if one.installer == "conda" and one.specifier}
    return view.environment.kind == "conda" and pins <= {one.text for one in (*view.cudas, *view.cudnns)}


def _no_release(view: PlannedEnvironment, tensorflow: Requirement) -> Iterator[Problem]:
    """No release that is published for the platform matches the requirement."""
    newest = next(iter(view.matrix.stable(platform=view.target.platform, package=tensorflow.name)), None)
    wanted = specifier(tensorflow.specifier)
    if tensorflow.elsewhere or newest is None or wanted is None or is_empty(tensorflow) or ".whl" in tensorflow.text:
        return  # a file is asked of no index
    first, second, *_ = numbers(newest.version)
    if any(wanted.contains(f"{first}.{second + ahead}.0") for ahead in (1, 2, 3)):
        return  # newer than this matrix
    fixes = write_best(view)
    written = next((edit.new.partition("==")[2] for fix in fixes for edit in fix.edits), "") or newest.version
    yield Problem(
        title=f"No release of {tensorflow.name} matches {tensorflow.specifier} on {view.target.platform}",
        cause=_NO_MATCH,
        evidence=_seen(tensorflow, f"a release such as {written}", "names of the wheels"),
        fixes=fixes,
    )


@in_manifests("tf.wrong-env")
def environment_beside_the_image_s(view: PlannedEnvironment) -> Iterator[Problem]:
    """Poetry, uv and their like install a project into an environment of its own, without the image's packages."""
    if view.apart and view.base:
        command, place = view.apart
        need, docs = "the Python of the image", "https://python-poetry.org/docs/configuration"
        text, lines = f"instead of {command} in {place}, install the project by pip: python3 -m pip install .", ""
        if command.startswith("poetry"):
            text, lines = f"above {place}, let poetry use the image's Python", "ENV POETRY_VIRTUALENVS_CREATE=false"
        yield Problem(
            title=f"The TensorFlow of {view.base.image.reference} is not in the environment that {command} makes",
            cause="it makes a virtual environment, whose Python does not see the packages of the image",
            evidence=(evidence(command, str(place), need, docs),),
            fixes=(Fix(f"In the build, {text}", (lines,) if lines else ()),),
            severity=Severity.WARNING,
        )


# a line that is not understood: its place, and a requirement with an operator that no pip knows
_REFUSED = re.compile(
    r"(?P<path>[^\n]+):(?P<line>\d+): (?P<text>(?P<head>[\w.-]+(?:\[[\w,.-]+\])?) ?"
    r"(?:(?P<operator>=|=>|=<|~) ?(?P<version>\d[\w.]*)|~= ?(?P<line_of>\d[\w.]*\.\*)"
    r"|== ?(?P<any>\d[\d.]*)\.x)): (?!not a valid)"
)
# ... or one that begins as a requirement with a version, and goes on
_SEVERAL = re.compile(r"(?P<path>[^\n]+):(?P<line>\d+): (?P<text>[\w.\[\],-]+[=~!<>]=\S+ \S.*): Expected ")
_MEANT = {"=": "==", "=>": ">=", "=<": "<=", "~": "~="}


@in_manifests("tf.not-installed")
def refused_by_pip(view: PlannedEnvironment) -> Iterator[Problem]:
    """A requirement with an operator that there is not ends pip before it installs anything."""
    refused = [*filter(None, map(_REFUSED.match, view.environment.not_understood))]
    is_ours = view.tensorflow or any(found["head"].startswith("tensorflow") for found in refused)
    for found in refused if is_ours else ():
        line = Requirement(found["head"], "", Place(found["path"], int(found["line"])), found["text"])
        ending = f"=={found['line_of']}" if found["line_of"] else f"=={found['any']}.*"
        wanted = f"{_MEANT[found['operator']]}{found['version']}" if found["operator"] else ending
        row = view.matrix.tensorflow(wanted.strip("=<>~.*"), view.target.platform, found["head"].partition("[")[0])
        works = row is None or all(runs_on(row, one) == "sass" for one in view.target.capabilities)
        yield Problem(
            title=f"pip refuses {line.text}, and installs nothing",
            cause="a version of pip follows ==, !=, ~=, <=, >=, < or >, and .* ends it after == and != alone",
            evidence=_seen(line, f"{found['head']}{wanted}", "PEP 440"),
            fixes=(write(line, f"{found['head']}{wanted}"),) if works else (),
        )
    for found in filter(None, map(_SEVERAL.match, view.environment.not_understood)):
        line = Requirement("", "", Place(found["path"], int(found["line"])), found["text"])
        several = found["text"].split()
        if view.environment.kind == "requirements" and _are_requirements(several, line.place, view):
            yield Problem(
                title=f"pip refuses {line.text}, and installs nothing",
                cause="a line of a requirements file names one package",
                evidence=_seen(line, "one requirement a line", "pip's documentation, Requirements File Format"),
                fixes=(Fix(f"In {line.place}, write each on a line of its own: {', '.join(several)}"),),
            )


def _are_requirements(words: list[str], place: Place, view: PlannedEnvironment) -> bool:
    """Whether each word is a requirement, and TensorFlow is one, or another line's."""
    try:
        names = [one.name if (one := pip_requirement(word, place)) else "" for word in words]
    except ValueError:
        return False
    return len(names) > 1 and all(names) and bool(view.tensorflow or any(name in TENSORFLOW for name in names))


# why apt-get update fails in an image, where that is written, and what mends it (Debian: masif-neosurf pull request 30)
_NO_APT = (
    "NVIDIA changed the key of its packages in April 2022, after this image was built: NO_PUBKEY A4B469963BF863CC",
    "https://developer.nvidia.com/blog/updating-the-cuda-linux-gpg-repository-key/",
    "rm -f /etc/apt/sources.list.d/cuda.list /etc/apt/sources.list.d/nvidia-ml.list",
)
_ARCHIVED = (
    "this Debian has moved to archive.debian.org: 404 Not Found",
    "https://www.debian.org/releases/",
    r"sed -i -e 's/\(deb\|security\).debian.org/archive.debian.org/' -e '/-updates/d' /etc/apt/sources.list",
)
_NEW_KEY = {"2.8": "2.8.1", "2.7": "2.7.2", "2.6": "2.6.4"}  # NVIDIA/cuda-repo-management issue 7
_OTHER_IMAGE = Fix("Start from the image of TensorFlow itself, which holds its CUDA, or from another tag")


@in_manifests("tf.not-installed")
def image_cannot_be_built(view: PlannedEnvironment) -> Iterator[Problem]:
    """The base image is gone, or apt in it does not work any more: the build ends before anything is installed."""
    base, update = view.base, view.environment.apt_update
    if base is None or not (view.tensorflow or base.gpu or base.of_tensorflow):
        return  # nothing, or a service that is none of TensorFlow's
    image, (is_missing, better), reasons = base.image, missing_tag(base.image), _apt_fails(base)
    if is_missing:
        yield Problem(
            title=f"The registry does not have {image.reference}",
            cause='NVIDIA deletes old tags: "manifest unknown", and nothing is built',
            evidence=_seen(image, better or "a tag that exists", "https://hub.docker.com/r/nvidia/cuda/tags"),
            fixes=(write_image(image, better) if better else _OTHER_IMAGE,),
        )
    elif update and reasons:
        yield Problem(
            title=f"apt-get update fails in {image.reference}, and the build ends",
            cause=reasons[0],
            evidence=(evidence(image.reference, str(update), None, reasons[1]),),
            fixes=(Fix(f"In the build, before the first apt-get update, run: {reasons[2]}"),),
        )
    if image.reference in ("ubuntu", "ubuntu:latest") or at_least(base.python, "3.8"):
        yield from _python_2(image, [one for one in view.environment.requirements if one.installer == "apt"])


@in_manifests("tf.not-installed")
def magic_of_colab(view: PlannedEnvironment) -> Iterator[Problem]:
    """Colab has had no TensorFlow 1 since August 2022, and other kernels have no such magic."""
    for one in view.environment.settings:
        if one.name == "%tensorflow_version" and one.value.startswith("1"):
            text = f"{one.name} {one.value}"
            yield Problem(
                title=f"{text} ends with an error",
                cause='Colab prints "Tensorflow 1 is unsupported in Colab", and has had TensorFlow 2 alone since 2022',
                evidence=(evidence(text, str(one.place), "TensorFlow 2", "dvschultz/stylegan2-ada issue 31"),),
                fixes=(remove(replace(one, name=text)), Alternative("Run it outside of Colab, with Python 3.7")),
            )


@in_manifests("tf.not-installed")
def python_of_the_distribution(view: PlannedEnvironment) -> Iterator[Problem]:
    """pip refuses to install into the Python of apt, in Ubuntu since 23.04 and in Debian since 12."""
    base, place = view.base, view.environment.system_pip
    keyword = "export" if view.environment.kind == "singularity" else "ENV"
    if base and place and view.tensorflow and view.requirement("python3-pip"):
        of_apt = base.image.name.rpartition("/")[2] in ("ubuntu", "debian", "cuda") and at_least(base.python, "3.11")
        if of_apt or base.image.text in ("ubuntu", "ubuntu:latest"):
            yield Problem(
                title=f"pip refuses to install into the Python of {base.image.reference}, and the build ends",
                cause='apt manages this Python: "error: externally-managed-environment"',
                evidence=(evidence("pip install", str(place), "an environment of its own, or permission", "PEP 668"),),
                fixes=(Fix(f"In the build, above {place}, add", (f"{keyword} PIP_BREAK_SYSTEM_PACKAGES=1",)),),
            )


# what brings a Python, or pip, in a line of a Dockerfile; not what starts one
_BRINGS_PYTHON = re.compile(
    r"^(?!\s*(?:#|CMD|ENTRYPOINT|ENV|LABEL|WORKDIR))(?!\s*RUN (?:pip3?|python3? -m pip) install).*"
    r"(?:python|pip\b|conda|mamba|\buv\b|--from=)",
    re.IGNORECASE | re.MULTILINE,
)


@in_manifests("tf.not-installed")
def image_without_python(view: PlannedEnvironment) -> Iterator[Problem]:
    """NVIDIA's images of CUDA have neither Python nor pip: "pip: not found" ends the build."""
    environment, base, (_, text) = view.environment, view.base, dockerfile_of(view.environment)
    if environment.kind != "dockerfile" or base is None or base.image.name != "nvidia/cuda" or not text:
        return
    pip = next((one for one in environment.requirements if one.installer == "pip" and one.step), None)
    if pip and not _BRINGS_PYTHON.search(text):
        install = "RUN apt-get update && apt-get install -y --no-install-recommends python3-pip"
        yield Problem(
            title=f"Nothing installs Python and pip into {base.image.reference}, and the build ends",
            cause='the image has neither: "pip: not found"',
            evidence=_seen(base.image, "python3-pip", "https://hub.docker.com/r/nvidia/cuda"),
            fixes=(Fix(f"Below {base.image.place}, add", (install,)),),
        )


def _apt_fails(base: Base) -> tuple[str, str, str] | None:
    """What keeps apt from its packages, one of the tables above; None: nothing that is known.

    The images before 1.14 are Ubuntu 16.04, whose apt only warns of the key (ros-docker-gui issue 13).
    """
    image, key = base.image, _NEW_KEY.get(minor(base.tensorflow), "2.9")
    old, fatal = at_least(base.tensorflow, key) is False, at_least(base.tensorflow, "1.14")
    if base.gpu and "tensorflow/tensorflow" in image.name and old and fatal:
        return _NO_APT
    return _ARCHIVED if re.search(r"buster|stretch|^debian:(?:10|9)\b", image.reference) else None


def _python_2(image: Image, packages: list[Requirement]) -> Iterator[Problem]:
    there = any(one.name == "python3-pip" for one in packages)
    for one in packages:
        if one.name == "python-pip":
            yield Problem(
                title=f"{image.reference} has no package python-pip, and the build ends",
                cause="it was that of Python 2",
                evidence=_seen(one, "python3-pip", "https://packages.ubuntu.com"),
                fixes=(remove(one) if there else write(one, "python3-pip"),),
            )


@in_manifests("tf.package-removed")
def _removed(view: PlannedEnvironment) -> Iterator[Problem]:
    """tensorflow-gpu or tf-nightly-gpu is required; conda-forge keeps the former as a metapackage."""
    for one in _discontinued(view):
        # macOS had none since 1.2
        nothing = is_empty(one) or at_least(pinned(one), "2.12") is True or view.target.os == "macos"
        nothing = nothing or (one is view.tensorflow and view.release is None)
        better = _under_another_name(view, one)
        if pinned(one) and not (nothing or better):
            continue  # the GPU build of that release has no other name
        yield Problem(
            title=f"{one.name} cannot be installed" if nothing else f"{one.name} has been discontinued",
            cause=_why_removed(view, one),
            evidence=_seen(one, "tensorflow", GUIDE),
            fixes=(write_release(view, one, better),) if better else (),
            severity=Severity.ERROR if nothing else Severity.NOTE if pinned(one) else Severity.WARNING,
        )


@in_manifests("tf.package-removed")
def empty_package_beside_tensorflow(view: PlannedEnvironment) -> Iterator[Problem]:
    """tensorflow-gpu of any release beside tensorflow: pip takes the empty one, and installs nothing (tried)."""
    for one in view.others_together if not view.conda else ():
        if is_empty(one):
            title, why = f"{one.name} cannot be installed", DECLARATIONS["tf.package-removed"].cause
            seen = _seen(one, f"{view.package} alone", GUIDE)
            yield Problem(title=title, cause=why, evidence=seen, fixes=(remove(one),), severity=Severity.ERROR)


def _discontinued(view: PlannedEnvironment) -> list[Requirement]:
    """The lines of pip that ask for such a package; beside tensorflow it is one of two: tf.package-conflict."""
    lines = (view.asked, *(view.others if view.conda else ()))
    pip = [one for one in lines if one and one.installer != "conda" and not one.elsewhere]
    return [one for one in pip if one.name in _DISCONTINUED]


_GPU_ON_MACOS = "it has had no wheels for macOS since 1.2; Apple silicon's GPU needs tensorflow and tensorflow-metal"


def _why_removed(view: PlannedEnvironment, one: Requirement) -> str | None:
    """The reason, and what the pinned release does not bring under its new name either, where no file does."""
    row, why = view.matrix.tensorflow(pinned(one) or "", view.target.platform), DECLARATIONS["tf.package-removed"].cause
    if pinned(one) and not view.allowed:
        why = f"{_NO_MATCH}; {why}"
    if view.target.os == "macos":
        return _GPU_ON_MACOS
    if row is None or not row.gpu or view.cudas or (view.base and not view.base.no_cuda):
        return why
    return f"{why}. Neither name installs CUDA {minor(row.cuda)} and cuDNN {row.cudnn}: tfgpu plan lists how"


def _under_another_name(view: PlannedEnvironment, one: Requirement) -> str | None:
    """The release that is asked for by its number, as `tensorflow`; before 2.1 that was the CPU build."""
    if pinned(one) is None:
        return replacement(view) or (None if one.specifier else "tensorflow")
    row = view.matrix.tensorflow(pinned(one) or "", view.target.platform)
    if row is None or not (row.gpu or view.target.os == "macos"):
        return None
    if row.extra and view.target.gpus:  # nothing but its line brings CUDA
        return replacement(view)
    patched = _patched(view, row)
    # the name alone, unless that release is broken, or a pre-release that is gone
    return f"tensorflow{one.specifier}" if view.allowed and not patched else f"tensorflow=={(patched or row).version}"


# ----------------------------------------------------------------------------------------------------------------------
# Lines that exclude each other.


_INSTALLED_OVER = (
    "a command of pip or uv meets its own requirements; of those that an earlier one, or the image, has met pip only "
    "warns. The last one stays, and what TensorFlow requires may be missing"
)


def _cannot_work(view: PlannedEnvironment, line: Requirement) -> bool:
    """Whether what replaces a package of TensorFlow's ends its import, or its use of the GPU (tried)."""
    row, package = view.release, view.resolved.universe.package(line.name)
    needed = {**row.pip_nvidia, "protobuf": row.protobuf}.get(line.name) if row else None
    lower = next((one.version for one in specifier(needed or "") or () if one.operator in (">=", "==")), "0")
    if line.name == "numpy":
        return row is not None and at_least(row.version, "2.18") is False and not package.allowed(line.specifier, "<2")
    if line.name == "protobuf":  # "Descriptors cannot be created directly"; no google.protobuf.internal.builder
        bound = f">={minor(lower)}" if row and at_least(row.version, "2.12") else "<3.21"
        return not package.allowed(line.specifier, bound)
    return needed is not None and not package.allowed(line.specifier, f"=={major(lower)}.*")


def _said_of(view: PlannedEnvironment, conflict: Conflict) -> tuple[str, str, Severity]:
    """What happens to lines that exclude each other: one command is refused, a later one replaces what is there."""
    last = max(one.step for one in conflict.lines)
    later = [one for one in conflict.lines if one.step == last]
    earlier = " and ".join(one.text for one in conflict.lines if one.step < last)
    if not earlier:
        # of a Python that is named nowhere, why it is this one
        chosen = f", the newest for TensorFlow {view.release.version}" if view.pythons is None and view.release else ""
        alone = f"cannot be installed with Python {view.resolved.universe.python}{chosen}"
        title = f"{' and '.join(one.text for one in later)} {'exclude each other' if later[1:] else alone}"
        return title, "the installer finds no versions that meet all requirements, and installs nothing", Severity.ERROR
    return _installed_later(view, conflict, earlier, later)


def _installed_later(
    view: PlannedEnvironment, conflict: Conflict, earlier: str, later: list[Requirement]
) -> tuple[str, str, Severity]:
    """What a later command does to what an earlier one, or the image, has installed."""
    base, needs = view.base, [one.need for one in conflict.evidence if (one.need or "").startswith("tensorflow")]
    if needs and base and base.tensorflow and earlier == base.image.reference:
        title = f"{later[0].text} replaces TensorFlow {base.tensorflow} of the image"
        why = f"pip installs the {needs[0]} that it requires in place of the image's; the image's CUDA and cuDNN stay"
        return title, why, Severity.WARNING
    title = f"{' and '.join(one.text for one in later)} is installed over {earlier}, and they do not go together"
    fails = any(_cannot_work(view, one) for one in later)
    return title, _INSTALLED_OVER, Severity.ERROR if fails else Severity.WARNING


def _refused(view: PlannedEnvironment, name: str | None = None) -> Iterator[Problem]:
    """Lines that pip cannot install together: those of which NumPy's or protobuf's has to give way, or the others."""
    known = at_least(view.resolved.universe.python, "3.6") is not False  # of older ones the matrix has few wheels
    for conflict in view.conflicts if known else ():
        names = {line.name for line, _ in conflict.changes}
        if name not in (names if len(names) == 1 and names <= {"numpy", "protobuf"} else {None}):
            continue
        title, cause, severity = _said_of(view, conflict)
        yield Problem(
            title=title,
            cause=cause,
            severity=severity,
            evidence=conflict.evidence,
            fixes=tuple(filter(None, (_rewritten(view, *change) for change in conflict.changes)))
            # a Python for which all packages have a wheel, where there is one
            or ((write_python(view, pythons),) if (pythons := fitting(view)) else ()),
        )


def _rewritten(view: PlannedEnvironment, line: Requirement, better: str | None) -> Fix | None:
    """The line as it goes with the rest; a Keras 2 that TF_USE_LEGACY_KERAS asks for is the package tf-keras."""
    bound = companion_bound("tf-keras", view.release) if view.release else None
    if line.name == "keras" and bound and _asks_for_keras_2(view):
        return remove(line) if view.requirement("tf-keras") else write(line, f"tf-keras{bound}")
    return write(line, better) if better and better != line.text else None


def _asks_for_keras_2(view: PlannedEnvironment) -> bool:
    """Whether tf.keras is imported from tf-keras: tensorflow/python/util/lazy_loader.py, since 2.16."""
    given = {one.name: one.value.strip("\"'") for one in view.environment.settings}
    return given.get("TF_USE_LEGACY_KERAS") in KERAS_2_VALUES


@in_manifests("tf.package-conflict")
def keras_2_without_its_package(view: PlannedEnvironment) -> Iterator[Problem]:
    """TF_USE_LEGACY_KERAS is set, and nothing installs tf-keras, as far as all packages are known."""
    row, line, environment = view.release, view.tensorflow, view.environment
    bound = companion_bound("tf-keras", row) if row else None
    if line is None or bound is None or view.conda or environment.not_understood or not _asks_for_keras_2(view):
        return
    named = {one.name for one in environment.requirements if one.installer != "apt"} | {line.name}
    brought = any("tf-keras" in versions for versions, _ in view.installed) or "tf-keras" in named
    if named <= view.matrix.packages.keys() and not view.conflicts and not brought:
        yield Problem(
            title="TF_USE_LEGACY_KERAS is set, and nothing installs tf-keras",
            cause='tf.keras fails then: "Keras cannot be imported. Check that it is installed."',
            evidence=_seen(line, f"tf-keras{bound}", "tensorflow/python/util/lazy_loader.py"),
            fixes=(write_beside(line, f"tf-keras{bound}"),),
        )


def _outside_bounds(view: PlannedEnvironment, name: str, bound: str | None) -> Iterator[Problem]:
    """A requirement that allows none of the versions within a bound of TensorFlow's, which pip may not know of."""
    row, line, universe = view.release, view.requirement(name), view.resolved.universe
    if row and view.conda:
        line, bound = _over_conda(view, row, name)
    if row is None or line is None or bound is None or line.installer == "conda":
        return  # pip replaces what conda has installed
    giving_way = {line.name for conflict in view.conflicts for line, _ in conflict.changes}
    known, origin = name not in giving_way and universe.is_judged(line), "conda-forge" if view.conda else "metadata"
    if known and not universe.package(name).allowed(line.specifier, bound):
        yield Problem(
            title=f"{line.text} is incompatible with TensorFlow {row.version}",
            cause="the installer refuses this combination, or the import fails",
            evidence=_seen(line, f"{name}{bound}", f"TensorFlow {row.version} ({origin})"),
            fixes=_beside_its_bug(view, row, line) or (write(line, f"{name}{bound}"),),
        )


# what conda-forge's builds are imported beside, from one release to another: they are compiled against NumPy 1, and
# their code is of protoc 3.20 or later ("cannot import name 'builder'" of an older protobuf): feedstock's 266 and 288
_BESIDE_CONDA_S = {"numpy": ("<2", "1.0", "2.16"), "protobuf": (">=3.20", "2.10", "3")}


def _over_conda(view: PlannedEnvironment, row: Release, name: str) -> tuple[Requirement | None, str | None]:
    """The line of pip that replaces what conda has installed for its TensorFlow, and what goes with that."""
    bound, first, end = _BESIDE_CONDA_S.get(name, ("", "3", "3"))
    is_known = at_least(row.version, first) and not at_least(row.version, end) and view.target.os != "windows"
    of_pip = (one for one in view.environment.requirements if one.name == name and one.installer == "pip")
    return next(of_pip, None), bound if is_known and view.environment.channels[:1] == ("conda-forge",) else None


def _beside_its_bug(view: PlannedEnvironment, row: Release, line: Requirement) -> tuple[Fix, ...]:
    """The edit that leaves a broken release, and takes another one's Keras with it."""
    is_grave = any(gravity is Severity.ERROR for _, gravity in _bugs(view))
    moved, place = _without_its_bug(view, row) if is_grave else (), (line.place.path, line.place.line)
    return tuple(fix for fix in moved if place in {(one.path, one.line) for one in fix.edits})


@in_manifests("tf.package-conflict")
def two_tensorflows_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """Two distributions that install their files into the same folder."""
    first, others = view.tensorflow, view.others_together
    names = {one.name for one in others if not is_empty(one)} - {"tensorflow-base"}
    if first and names and not view.conda:
        releases = {pinned(one) for one in (first, *others)}  # since 2.1 the same files under two names
        same = names == {"tensorflow-gpu"} and len(releases) == 1 and at_least(releases.pop(), "2.1") is True
        why = "removing one breaks the other" if same else "the order of installation decides which files remain"
        on_gpu = next(_with_cuda(view, (first, *others)), first)
        surplus = [one for one in (first, *others) if one is not on_gpu]
        yield Problem(
            title=f"{first.name} and {', '.join(sorted(names))} overwrite each other",
            cause=f"each of them installs the folder tensorflow/; {why}",
            evidence=tuple(line for one in surplus for line in _seen(one, f"{on_gpu.name} alone", GUIDE)),
            fixes=tuple(map(remove, surplus)),
            severity=Severity.WARNING if same else Severity.ERROR,
        )


def _with_cuda(view: PlannedEnvironment, lines: Iterable[Requirement]) -> Iterator[Requirement]:
    """Those of pip that admit a release with CUDA; up to 1.14, and in 2.0, tensorflow is a CPU build."""
    return (one for one in lines if one.installer == "pip" and any(row.gpu for row in view.matching(one)))


# whose wheels install the folder tensorboard/: 94 files of tensorflow-tensorboard 1.5.1
_OTHER_TENSORBOARDS = ("tensorflow-tensorboard", "tb-nightly")


@in_manifests("tf.package-conflict")
def two_tensorboards_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """Another distribution installs its files over those of tensorboard, which TensorFlow requires since 1.6."""
    one = next(filter(None, map(view.requirement, _OTHER_TENSORBOARDS)), None)
    own = view.release and at_least(view.release.version, "1.6") and "nightly" not in view.package
    if one and own and one.installer == "pip" and not view.conda:
        yield Problem(
            title=f"{one.name} and tensorboard, which TensorFlow requires, overwrite each other",
            cause="each of them installs the folder tensorboard/; the order of installation decides which files remain",
            evidence=_seen(one, "tensorboard alone", "files of both wheels"),
            fixes=(remove(one),),
            severity=Severity.WARNING,
        )


# required_tensorflow_version in the __init__.py of the wheels
_PROBABILITY = {**{f"0.{number}": f"2.{number - 8}" for number in range(12, 25)}, "0.25": "2.18"}


@in_manifests("tf.package-conflict")
def probability_of_a_later_tensorflow(view: PlannedEnvironment) -> Iterator[Problem]:
    """TensorFlow Probability names no TensorFlow in its metadata, and refuses an older one when it is imported."""
    row, version = view.release, view.installed[-1][0].get("tensorflow-probability")
    needed = _PROBABILITY.get(minor(version)) if version else None
    if row and needed and at_least(row.version, needed) is False:
        why = 'its import fails: "This version of TensorFlow Probability requires TensorFlow version >="'
        yield from _other_probability(view, row, f"{version}, which needs TensorFlow {needed} or later", why)


@in_manifests("tf.package-conflict")
def probability_before_keras_3(view: PlannedEnvironment) -> Iterator[Problem]:
    """TensorFlow Probability before 0.24 cannot be imported beside Keras 3 (its issues 1774 and 1795)."""
    row, version = view.release, view.installed[-1][0].get("tensorflow-probability")
    is_old = at_least(version, "0.24") is False
    if row and is_old and at_least(row.version, KERAS_3) and not _asks_for_keras_2(view):
        why = "its import fails: \"module 'keras._tf_keras.keras' has no attribute '__internal__'\""
        yield from _other_probability(view, row, f"{version}, which needs Keras 2", why)


def _other_probability(view: PlannedEnvironment, row: Release, brings: str, why: str) -> Iterator[Problem]:
    line = view.requirement("tensorflow-probability")
    if line is None or line.installer != "pip":
        return
    extras = f"[{','.join(line.extras)}]" if line.extras else "[tf]" if at_least(row.version, KERAS_3) else ""
    better = next((one for one, least in [*_PROBABILITY.items()][::-1] if at_least(row.version, least)), None)
    yield Problem(
        title=f"{line.text} brings TensorFlow Probability {brings}",
        cause=why,
        evidence=_seen(line, f"one for TensorFlow {row.version}", "its __init__.py"),
        fixes=(write(line, f"{line.name}{extras}=={better}.*"),) if better else (),
        severity=Severity.WARNING,
    )


@in_manifests("tf.package-conflict")
def replaces_a_build_of_nvidia(view: PlannedEnvironment) -> Iterator[Problem]:
    """pip installs the TensorFlow of the index over that of an image of NVIDIA's."""
    one, base = view.tensorflow, view.base
    if one and base and base.of_a_month and base.tensorflow and one.installer == "pip" and not one.elsewhere:
        title = f"pip replaces NVIDIA's TensorFlow in {base.image.reference}"
        cause = f"the image's Horovod, DALI and other libraries are built for its own, {base.tensorflow}"
        seen = _seen(one, f"TensorFlow {base.tensorflow}, of the image", "compat_matrix.yaml, containers")
        fix = Fix(f"Leave out {one.text!r} in {one.place}: the image has TensorFlow")
        yield Problem(title=title, cause=cause, evidence=seen, fixes=(fix,), severity=Severity.WARNING)


@in_manifests("tf.package-conflict")
def replaces_the_image_s_tensorflow(view: PlannedEnvironment) -> Iterator[Problem]:
    """pip takes the newest tf-keras, which requires its own TensorFlow, and replaces that of the image, CUDA or not."""
    base, line, universe = view.base, view.requirement("tf-keras"), view.resolved.universe
    is_there = base and base.of_tensorflow and not view.tensorflow
    if line is None or line.installer != "pip" or base is None or not base.tensorflow or not is_there:
        return
    package = universe.package(line.name)
    newest = max(package.allowed(line.specifier), default=None)
    needs = package.requires(newest) if newest else ()
    wanted = specifier(next((one.specifier for one in needs if one.name == "tensorflow"), ""))
    row = view.matrix.tensorflow(base.tensorflow, view.target.platform)
    bound = companion_bound("tf-keras", row) if row else None
    if wanted is not None and bound and not wanted.contains(base.tensorflow):
        yield Problem(
            title=f"{line.text} replaces TensorFlow {base.tensorflow} of the image",
            cause=f"pip takes tf-keras {newest}, which requires tensorflow{wanted}; the image's CUDA and cuDNN stay",
            evidence=_seen(line, f"tf-keras{bound}", f"tf-keras {newest} (metadata)"),
            fixes=(write(line, f"tf-keras{bound}"),),
        )


@in_manifests("tf.package-conflict")
def requirements_exclude_each_other(view: PlannedEnvironment) -> Iterator[Problem]:
    """Versions that pip cannot install together: a Keras of another release, a tf-keras for another TensorFlow."""
    row = view.release
    if any(pinned(one) is None for one in _discontinued(view)):
        return  # what is to be written instead is another release
    yield from _refused(view)
    yield from _outside_bounds(view, "keras", row.keras if row else None)
    yield from _newest_keras(view)
    # the metadata of 2.14.1 and 2.15.0 names no TensorFlow; beside 2.20.0 the import of 2.15.0 fails (tried)
    yield from _outside_bounds(view, "tf-keras", companion_bound("tf-keras", row) if row else None)


def _newest_keras(view: PlannedEnvironment) -> Iterator[Problem]:
    """Keras without a version beside a release that its newest ones refuse; 2.3 was the last for these."""
    row, base, line = view.release, view.base, view.requirement("keras")
    version = row.version if row else base.tensorflow if base and base.of_tensorflow else None
    serves = at_least(version, "2.2") is not False or at_least(version, "1.13") is False
    if line and line.installer == "pip" and not (line.specifier or line.elsewhere or view.conda or serves):
        yield Problem(
            title=f"{line.text} installs a Keras for TensorFlow 2.2 and later, beside {version}",
            cause="pip takes the newest for the Python; no Keras since 2.4 can be imported beside an older TensorFlow",
            evidence=_seen(line, "keras<2.4", "keras-team/keras, keras/__init__.py of 2.4; 2.6 and 2.10, tried"),
            fixes=(write(line, "keras<2.4"),),
        )


@in_manifests("tf.abi-numpy")
def numpy_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """A NumPy that the release cannot be imported with, or no upper bound where the release needs one."""
    row = view.release
    bound = numpy_bound(row) if row else None
    yield from _refused(view, "numpy")
    yield from (outside := [*_outside_bounds(view, "numpy", bound)])
    if row and bound and not outside and _decides_alone(view) and (line := _brings_numpy_2(view, bound)):
        why = "a later command of pip replaces NumPy 1" if bound == row.numpy else "it is compiled for NumPy 1"
        # before 3.9 there is no NumPy 2
        some = view.python is None and any(capability(one) < (3, 9) for one in row.python)
        on = f" on Python {view.resolved.universe.python}" if some else ""
        yield Problem(
            title=f"TensorFlow {row.version} will be installed with NumPy 2{on}, and cannot be imported with it",
            cause=f"{why}, and pip is not told of an upper bound",
            evidence=_seen(line, f"numpy{bound}", f"TensorFlow {row.version}"),
            fixes=(write(line, "numpy<2") if line.name == "numpy" else write_beside(line, "numpy<2"),),
            severity=Severity.WARNING if some else Severity.ERROR,
        )


@in_manifests("tf.abi-numpy")
def numpy_over_nvidias(view: PlannedEnvironment) -> Iterator[Problem]:
    """NumPy 2 over a TensorFlow of NVIDIA's monthly images, which before 2.18 is compiled for NumPy 1."""
    base = view.base
    if view.tensorflow or not (base and base.of_a_month and base.of_tensorflow):
        return
    python = base.python or ("3.10" if at_least(base.cuda, "12") else "3.8")  # of most months of these CUDAs
    universe = universe_of(view.matrix, view.target.platform, python)
    # the last one of them, of February 2025, has 2.17
    old = at_least((base.tensorflow or "2").partition("+")[0], "2.18") is False
    numpy_1 = [one for one in universe.package("numpy").versions if one < Version("2")]
    for one in view.environment.requirements if old else ():
        wanted, by = _numpy_wanted(one, view, universe)
        if not any(map(SpecifierSet(wanted).contains, numpy_1)):
            yield Problem(
                title=f"{one.text} replaces the NumPy 1 that TensorFlow needs in {base.image.reference}",
                cause="it is compiled for NumPy 1, and cannot be imported with NumPy 2" + by,
                evidence=_seen(one, "numpy<2", "the TensorFlow of the image"),
                fixes=(write_beside(one, "numpy<2") if by else write(one, "numpy<2"),),
                severity=Severity.WARNING if by else None,
            )


def _numpy_wanted(one: Requirement, view: PlannedEnvironment, universe: Universe) -> tuple[str, str]:
    """The NumPy that a line of pip asks for, or where none does, the newest version of a package, and then how."""
    is_named = any(each.name == "numpy" for each in (*view.environment.requirements, *view.environment.constraints))
    if one.installer != "pip" or not universe.is_judged(one) or not universe.holds(one.marker):
        return "", ""
    if is_named:
        return one.specifier if one.name == "numpy" else "", ""
    newest = max(universe.package(one.name).allowed(one.specifier), default=None)
    needs = universe.package(one.name).requires(newest) if newest else ()
    wanted = next((each.specifier for each in needs if each.name == "numpy"), "")
    return wanted, f"; {one.name} {newest} requires numpy{wanted}, unless a constraint of the image forbids it"


@in_manifests("tf.abi-numpy")
def numpy_built_from_source(view: PlannedEnvironment) -> Iterator[Problem]:
    """A command of its own installs a NumPy before 1.26 for Python 3.12 or later, which has no distutils."""
    row, universe = view.release, view.resolved.universe
    if row is None or not at_least(view.python, "3.12"):
        return
    step = view.tensorflow.step if view.tensorflow else -1
    later = [one for one in universe.package("numpy").versions if one >= Version("1.26")]
    for one in view.environment.requirements:
        wanted = specifier(one.specifier) if one.name == "numpy" and universe.is_judged(one) else None
        is_apart = one.fatal and one.step not in (0, step)
        if is_apart and wanted is not None and not any(map(wanted.contains, later)):
            yield Problem(
                title=f"{one.text} cannot be installed with Python {view.python}",
                cause="pip finds no wheel, and builds it from source, which fails: distutils is gone since 3.12",
                evidence=_seen(one, "NumPy 1.26 or later", "release notes of NumPy 1.26.0"),
                fixes=(write(one, f"numpy{bound}"),) if (bound := row.numpy or numpy_bound(row)) else (),
            )


def _decides_alone(view: PlannedEnvironment) -> bool:
    """Whether pip decides on a NumPy, and all that asks it for one is known: no project is left unread."""
    return not view.conda and not any(isinstance(one, UnreadProject) for one in view.environment.not_understood)


def _brings_numpy_2(view: PlannedEnvironment, bound: str) -> Requirement | None:
    """The line that brings, or leaves, a NumPy outside a bound: its own, TensorFlow's, or that of what requires it."""
    universe, line = view.resolved.universe, view.tensorflow
    if line and not universe.is_judged(line):  # what tensorflow-macos asks pip for is not known
        return None
    fits = {None, *map(str, universe.package("numpy").allowed(bound))}
    outside = [one for one in pairwise(view.installed) if one[1][0].get("numpy") not in fits]
    if view.installed[-1][0].get("numpy") in fits or not outside:
        return None
    (before, _), (_, lines) = next((one for one in reversed(outside) if one[0][0].get("numpy") in fits), outside[0])
    alone = (one for one in lines if (solve(universe, [one], before) or {}).get("numpy") not in fits)
    return next((one for one in lines if one.name == "numpy"), None) or next(alone, line)


@in_manifests("tf.abi-protobuf", unless=("tf.package-removed",))
def protobuf_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """A protobuf that does not support the release's generated code."""
    yield from _refused(view, "protobuf")
    yield from _outside_bounds(view, "protobuf", protobuf_bound(view.release) if view.release else None)


# ----------------------------------------------------------------------------------------------------------------------
# Containers, the driver and the GPU.


# what each kind of file needs: what is expected, its lines, where that is documented, why
_REQUESTS = {
    "kubernetes": (
        "resources.limits nvidia.com/gpu: 1",
        ("resources:", "  limits:", "    nvidia.com/gpu: 1"),
        "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
        "Kubernetes gives a container only the devices under its limits",
    ),
    "compose": (
        "a device reservation with capabilities: [gpu]",
        COMPOSE_REQUEST,
        "https://docs.docker.com/compose/how-tos/gpu-support/",
        "Docker gives a container no GPU unless it requests one",
    ),
    "workflow": (
        "options: --gpus all",
        ("container:", "  image: IMAGE", "  options: --gpus all"),
        "https://docs.github.com/actions/writing-workflows/workflow-syntax-for-github-actions, jobs.<job_id>.container",
        "Docker gives the container of a job no GPU unless its options request one",
    ),
}
_CAPABILITIES = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html"
_HIDE_EVERY_GPU = {
    "NVIDIA_VISIBLE_DEVICES": ("none", "void", ""),
    "CUDA_VISIBLE_DEVICES": ("-1", "", "none", "nodevfiles"),
}


@in_manifests("container.no-gpu")
def no_request_planned(view: PlannedEnvironment) -> Iterator[Problem]:
    """A service or a pod whose image is made for GPUs requests none, or in a way that has no effect."""
    environment, request = view.environment, view.environment.gpu
    if environment.kind not in _REQUESTS or (environment.kind == "workflow" and request is None):
        return
    expected, fix, docs, why = _REQUESTS[environment.kind]
    if request and request.problem:
        image, gpus = environment.image.reference if environment.image else "", f"/gpu: {request.count or 1}"
        lines = tuple(line.replace("IMAGE", image).replace("/gpu: 1", gpus) for line in fix)
        yield Problem(
            title=f"{environment.label.partition(' (')[0]} gets no GPU: {request.problem}",
            cause=why if environment.kind == "workflow" else "the request is in the file, but brings no GPU",
            evidence=(evidence(request.text, str(request.place), expected, docs),),
            fixes=(Fix("Instead of that, write", lines),),
        )
    elif view.wants_gpu and request is None and not environment.no_gpu:
        found = view.base.image.reference if view.base else environment.label
        yield Problem(
            title=f"{environment.label} requests no GPU",
            cause=why,
            evidence=(evidence(found, str(environment.place), expected, docs),),
            fixes=(add_to_container(view, fix),),
        )


_DRIVERS = re.compile(r"(?:lib)?nvidia-(?:compute|utils|driver|gl|decode)-\d+.*|cuda-drivers.*|nvidia-driver-.*")


@in_manifests("driver.version-mismatch")
def driver_in_an_image(view: PlannedEnvironment) -> Iterator[Problem]:
    """A Dockerfile installs libraries of the driver, which the container runtime mounts from the host."""
    for one in view.environment.requirements:
        if one.installer == "apt" and view.environment.image and _DRIVERS.fullmatch(one.name):
            yield Problem(
                title=f"{one.name} puts a driver's libraries into the image",
                cause="the NVIDIA Container Toolkit mounts those of the host; where their versions differ, "
                'NVML reports "Driver/library version mismatch", and CUDA fails',
                evidence=_seen(one, "the host's driver alone", "https://github.com/NVIDIA/nvidia-container-toolkit"),
                fixes=(remove(one),),
                severity=Severity.WARNING,
            )


@in_manifests("shm.small")
def several_gpus_requested(view: PlannedEnvironment) -> Iterator[Problem]:
    """A service or a pod requests several GPUs by their number, and no more than a container's 64 MiB."""
    request, kind = view.environment.gpu, view.environment.kind
    given = any(one.name in ("shm_size", "ipc") for one in view.environment.settings)
    if request and (request.count or 0) > 1 and not given and kind in ("compose", "kubernetes"):
        yield Problem(
            title="/dev/shm has 64 MiB, and several GPUs are requested",
            evidence=(evidence(request.text, str(request.place), "1 GiB or more", "NVIDIA's container notes"),),
            fixes=(Fix("Add", POD_SHM) if kind == "kubernetes" else add_to_container(view, ("shm_size: 1gb",)),),
            severity=Severity.WARNING,
        )


@in_manifests("container.no-gpu")
def without_compute(view: PlannedEnvironment) -> Iterator[Problem]:
    """The capabilities that the container asks for leave out CUDA's library."""
    for one in view.environment.settings if view.wants_gpu else ():
        asked = {part.strip() for part in one.value.strip("\"'").split(",")}
        if one.name == "NVIDIA_DRIVER_CAPABILITIES" and not asked & {"compute", "all"} and "$" not in one.value:
            yield Problem(
                title="NVIDIA_DRIVER_CAPABILITIES leaves out compute",
                cause="the container gets no libcuda.so.1, and TensorFlow finds no driver",
                evidence=(evidence(f"{one.name}={one.value}", str(one.place), "compute,utility", _CAPABILITIES),),
                fixes=(Fix(f"In {one.place}, set {one.name} to compute,utility"),),
            )


def _given(environment: Environment) -> tuple[int, str] | None:
    """How many GPUs a container gets, where a file tells, and what tells it."""
    if environment.gpu and environment.gpu.count:
        return environment.gpu.count, environment.gpu.text
    listed = (one for one in environment.settings if one.name == "NVIDIA_VISIBLE_DEVICES")
    for one in listed if environment.kind == "compose" else ():
        if re.fullmatch(r"(?:\d+|GPU-[\w-]+)(?:,(?:\d+|GPU-[\w-]+))*", one.value):
            return one.value.count(",") + 1, f"{one.name}={one.value}"
    return None


@in_manifests("gpu.hidden")
def set_in_manifest(view: PlannedEnvironment) -> Iterator[Problem]:
    """A line of the file sets a variable that hides every GPU, or names one by its number on the host."""
    given = _given(view.environment)
    for one in view.environment.settings if view.wants_gpu else ():
        value, expected, cause = one.value.strip().lower(), "unset, or all", "TensorFlow will list no GPU"
        first = value.partition(",")[0].strip()
        if one.name == "CUDA_VISIBLE_DEVICES" and first.isdecimal() and given:
            # CUDA numbers what the container gets from 0, and stops at the first number that it does not have
            number, by = given
            hides, expected = int(first) >= number, f"unset, or a number below {number}"
            cause = f"the container gets {number} by {by!r}, which CUDA numbers from 0: {cause}"
        else:
            hides = value in _HIDE_EVERY_GPU.get(one.name, ())
        if hides:
            yield Problem(
                title=f"{one.name} hides all GPUs",
                cause=f"{cause}, and run on the CPU",
                evidence=(evidence(f"{one.name}={one.value}", str(one.place), expected),),
                fixes=(remove(one),),
            )


def _driver_for_other_cards(view: PlannedEnvironment, *, newer: bool) -> Iterator[Problem]:
    """The described driver is of a branch that does not yet, or no longer, support a described GPU."""
    request, row, base = PlanRequest(view.matrix, view.target), view.release, view.base
    why = "; ".join(other_driver(request))
    is_newer = request.branch_to_go_back_to is not None
    if not why or is_newer != newer or not (view.tensorflow or (base and base.gpu)):
        return
    of_image, of_row = base and driver_of(base, view.matrix), row and row.gpu and request.driver_needed(row)
    needed = [one for one in (request.least_branch, of_image, of_row) if one]
    expected = f"driver {request.last_branch} or older" if newer else f"driver {request.least_branch} or newer"
    yield Problem(
        title=why,
        cause="the driver does not list the GPU then: nvidia-smi finds no devices, and TensorFlow runs on the CPU",
        evidence=(evidence(f"driver {view.target.driver}", "--driver", expected, "compat_matrix.yaml, gpus"),),
        fixes=driver_change(request, max(needed, key=numbers, default=None))[1:],
        severity=Severity.WARNING if view.drives else Severity.ERROR,
    )


in_manifests("driver.too-old")(partial(_driver_for_other_cards, newer=False))
in_manifests("gpu.arch-too-old")(partial(_driver_for_other_cards, newer=True))


@in_manifests("driver.too-old", unless=("tf.python-unsupported",))
def image_refuses_to_start(view: PlannedEnvironment) -> Iterator[Problem]:
    """The described driver is older than the base image accepts; the release itself is judged over facts."""
    driver, base = view.target.driver, view.base
    needed = driver_of(base, view.matrix) if base else None
    if driver is None or base is None or needed is None or driver_reaches(driver, needed) or not view.drives:
        return
    branches = branches_of(base, view.matrix)
    if (is_data_centre(view.target) and major(driver) in branches) or view.target.os == "windows":
        return
    why, severity = _with_an_older_driver(view, base, driver, branches)
    found = evidence(f"driver {driver}", "--driver", f"driver {needed} or newer", f"CUDA {base.cuda} of the image")
    yield Problem(
        title=f"{base.image.reference} needs driver {needed}",
        cause=why,
        evidence=(found, evidence(base.image.reference, str(base.image.place))),
        fixes=(Fix(f"Install driver {needed} or newer on the host"), Alternative("Use an image with an older CUDA")),
        severity=severity,
    )


def _with_an_older_driver(
    view: PlannedEnvironment, base: Base, driver: str, branches: tuple[str, ...]
) -> tuple[str, Severity]:
    """What an image does; a warning where CUDA still runs, or may. NVIDIA's of a month require cuda>=9.0 only."""
    toolkit = view.matrix.cuda(base.cuda) if base.of_a_month and base.cuda else None
    is_open = is_data_centre(view.target) and not branches  # the branches that it serves are not known
    if toolkit:
        runs = driver_reaches(driver, toolkit.oldest_driver_linux)
        then = "CUDA runs in minor version compatibility mode" if runs else "CUDA finds the driver insufficient"
        why = f"NVIDIA supports it with this driver and newer; with an older one, {then}"
        return why, Severity.WARNING if runs or is_open else Severity.ERROR
    refuses = f'the container refuses to start: "unsatisfied condition: cuda>={minor(base.cuda)}"'
    if major(driver) in branches:
        serves = f"branch {major(driver)} serves this image by CUDA's forward compatibility, on data-center GPUs only"
        others = f"{serves}; on others CUDA returns error 804, or {refuses}"
        return others, Severity.ERROR if view.target.gpus else Severity.WARNING
    unless = ", unless the image lists this branch for CUDA's forward compatibility"
    return (refuses + unless, Severity.WARNING) if is_open else (refuses, Severity.ERROR)


@in_manifests("gpu.arch-too-new", unless=(*_NOT_INSTALLED, "tf.not-installed", "tf.cpu-build"))
def built_before_ampere(view: PlannedEnvironment) -> Iterator[Problem]:
    """A GPU is meant, and the CUDA is one without kernels for those of 2020 and later; of pip, where none is named."""
    one, cards = view.tensorflow, view.target.capabilities
    of_pip = one is not None and not view.conda  # whose kernels are judged for a card that is named
    if cards and (of_pip or not any(at_least(card, "8") for card in cards)):
        return
    if cuda := _cuda_before_11(view):
        shown = one.text if one else view.base.image.reference if view.base else ""
        say = Fix("Say which GPU it is for, and it is judged for that one: add --gpu NAME to this check")
        yield Problem(
            title=f"{shown} has CUDA {cuda}, which has no kernels for Ampere and later GPUs",
            cause="on a GPU of 2020 or later everything is compiled from PTX for half an hour, or gives wrong results; "
            "GPUs up to Turing (compute capability 7.5) work",
            evidence=(evidence(shown, view.where, "CUDA 11 or later", "tensorflow issue 44200"),),
            fixes=() if cards else (say,),
            severity=Severity.ERROR if cards else Severity.WARNING,
        )


def _cuda_before_11(view: PlannedEnvironment) -> str | None:
    """The CUDA of what is installed or there, where a GPU is meant and nothing graver is wrong."""
    row, base = view.release, view.base
    cuda = row.cuda if row and view.tensorflow else base.cuda if base and base.of_tensorflow else None
    is_meant = view.wants_gpu or view.package == "tensorflow-gpu" or "conda" in [each.by for each in view.cudas]
    graver = [gravity for _, gravity in _bugs(view)] + [one.severity for one in nothing_brings_it_planned(view)]
    old = is_meant and at_least(cuda, "11") is False and Severity.ERROR not in graver
    return cuda if old else None


@in_manifests("gpu.arch-too-old", unless=_NOT_INSTALLED)
def newest_cudnn_planned(view: PlannedEnvironment) -> Iterator[Problem]:
    """The extra allows a cuDNN that no longer supports the described GPU."""
    release, tensorflow = view.release, view.tensorflow
    if release is None or tensorflow is None or not view.extra:
        return
    name = f"nvidia-cudnn-cu{major(release.cuda)}"
    named = view.requirement(name)
    pin = pinned(named) if named else None  # also a version that the matrix does not have
    chosen = (pin or view.resolved.versions.get(name, "0")) if named else "99"  # pip installs the newest
    for gpu in view.target.gpus if not release.pip_nvidia.get(name, "==").startswith("==") else ():
        dropped = dropped_by(view.matrix, release.cudnn, release.cuda, [gpu.compute_capability])
        if dropped and at_least(chosen, dropped):
            yield Problem(
                title=f"{f'cuDNN {pin}' if pin else 'The newest cuDNN'} has dropped {gpu.shown}",
                cause=f"the extra of {release.version} allows any cuDNN 9; pip installs the newest, for 7.5 and later",
                evidence=_seen(named or tensorflow, f"cuDNN before {dropped}", "compat_matrix.yaml, cudnn"),
                fixes=() if named else (write_beside(tensorflow, f"{name}<{dropped}"),),
            )


# ----------------------------------------------------------------------------------------------------------------------
# Builds without CUDA.


_JETSON = "https://docs.nvidia.com/deeplearning/frameworks/install-tf-jetson-platform/index.html"
_RUNS_ON_CPU = "TensorFlow will run on the CPU, even with a GPU"
_OTHER_HARDWARE = Fix("Use an x86_64 Linux machine with an NVIDIA GPU", ("tfgpu plan --os linux",))


@in_manifests("tf.windows-native")
def required_on_windows(view: PlannedEnvironment) -> Iterator[Problem]:
    """A GPU is to be used on Windows, with a release after 2.10."""
    row, tensorflow = view.release, view.tensorflow
    if row is None or not _is_windows_native(view) or not view.wants_gpu:
        return
    better = replacement(view, "2.11")
    yield Problem(
        title=f"TensorFlow {row.version} has no CUDA on Windows",
        cause=DECLARATIONS["tf.windows-native"].cause,
        evidence=(evidence(f"TensorFlow {row.version} on Windows", view.where, "2.10, or WSL2", GUIDE),),
        fixes=(Fix("Run it in WSL2"), *((write_release(view, tensorflow, better),) if tensorflow and better else ())),
    )


def _is_windows_native(view: PlannedEnvironment) -> bool:
    row = view.release
    return bool(view.target.os == "windows" and row and not row.gpu and at_least(row.version, "2.11"))


@in_manifests("tf.cpu-build", unless=("tf.package-removed", "tf.windows-native"))
def cpu_image_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """An image of TensorFlow without CUDA; a note where no GPU is meant."""
    base = view.base
    serves = base is not None and base.image.name.endswith("tensorflow/serving")  # 2.8.2-gpu, 2.8.2-devel-gpu
    is_meant = view.wants_gpu or not view.for_the_cpu
    if view.tensorflow is None and base and (base.of_tensorflow or serves) and not base.gpu and is_meant:
        # 2.15.0-gpu-jupyter and 1.12.0-devel-gpu-py3 of TensorFlow's own, 2.8.2-devel-gpu of Serving's
        head = r"^.*" if serves else r"^[\w.]+(?:-rc\d)?(?:-devel)?"
        tag = re.sub(head, r"\g<0>-gpu", base.image.tag or "latest", count=1)
        better = _images_that_run(view, f"{base.image.name}:{tag}")
        yield Problem(
            title=f"{base.image.reference} is the image without CUDA",
            cause=_RUNS_ON_CPU,
            evidence=_seen(base.image, " or ".join(better) or "an image with -gpu in its tag", "image tags"),
            fixes=tuple(_with_its_cudnn(view, base.image, one) for one in better),
            severity=Severity.ERROR if view.wants_gpu else Severity.NOTE,
        )


@in_manifests("tf.cpu-build")
def wheel_of_the_index_on_a_jetson(view: PlannedEnvironment) -> Iterator[Problem]:
    """The index has builds for the CPU alone for aarch64; those for a Jetson are NVIDIA's."""
    image, one = view.base.image if view.base else None, view.tensorflow
    if image and one and "/l4t-" in image.name and one.installer == "pip" and not one.elsewhere:
        yield Problem(
            title=f"{one.text} has no CUDA on a Jetson",
            cause="the index has builds for the CPU alone for aarch64; NVIDIA's, of a JetPack, use the GPU",
            evidence=_seen(one, "NVIDIA's wheel for this JetPack", _JETSON),
            fixes=(Fix("Start from NVIDIA's image l4t-tensorflow, or install its wheel for this JetPack"),),
        )


def _means_a_gpu(view: PlannedEnvironment) -> bool:
    """Whether a GPU is to be used, by what nobody named after the CPU, and not on native Windows."""
    meant = view.wants_gpu or view.requirement("tensorflow-gpu") is not None
    return meant and not (_is_windows_native(view) or view.for_the_cpu)


@in_manifests("tf.cpu-build", unless=("tf.package-removed", "tf.windows-native"))
def cpu_build_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """A GPU is to be used, but what will be installed contains no CUDA; Anaconda's tensorflow-gpu goes with each."""
    row, tensorflow = view.release, view.tensorflow
    if tensorflow is None or not _means_a_gpu(view) or any(_with_cuda(view, view.others_together)):
        return  # of several, one is kept
    build, fixes = tensorflow.build or "", write_best(view) or (_OTHER_HARDWARE,)
    if re.match("mkl_|eigen_", build):
        search = (f"conda search {tensorflow.name}",)
        fixes = (Fix("Look for a build with gpu_ in its name, and write that one", search),)
    elif "cpu" not in build and (row is None or row.gpu or view.conda or tensorflow.name == "tensorflow-base"):
        return
    contains = f"{row.package} {row.version} contains no CUDA on {row.platform}" if row else ""
    yield Problem(
        title=f"{tensorflow.text} selects a CPU build of conda" if build else contains,
        cause=_RUNS_ON_CPU,
        evidence=_seen(tensorflow, "a build with CUDA", "compat_matrix.yaml"),
        fixes=fixes,
    )


# ----------------------------------------------------------------------------------------------------------------------
# conda-forge's builds.


def _conda_builds(view: PlannedEnvironment) -> tuple[CondaBuild, ...]:
    """conda-forge's builds that the match spec allows on the platform; none where another channel may be used."""
    tensorflow, channels = view.tensorflow, view.environment.channels
    if tensorflow is None or not view.conda or tensorflow.elsewhere or (channels and "conda-forge" not in channels):
        return ()
    wanted = specifier(tensorflow.specifier)
    rows = (row for row in view.matrix.data.conda_forge if row.platform == view.target.platform)
    return tuple(row for row in rows if wanted is not None and wanted.contains(row.version))


def _not_built(newest: CondaBuild, title: str, cause: str, found: str, place: str, need: str, *fixes: Fix) -> Problem:
    """conda-forge has no build for a Python, a CUDA or a GPU; TensorFlow from pip may have."""
    seen = evidence(found, place, need, f"conda-forge's tensorflow recipe, {newest.version}")
    return Problem(title=f"conda-forge has no {title}", cause=cause, evidence=(seen,), fixes=(*fixes, _USE_PIP))


@in_manifests("tf.python-unsupported", unless=("tf.package-removed",))
def no_conda_build_for_required_python(view: PlannedEnvironment) -> Iterator[Problem]:
    """conda-forge has no build of these versions for the Python."""
    rows, pythons, tensorflow = _conda_builds(view), view.pythons, view.tensorflow
    if tensorflow and rows and pythons and not any(one in row.python for row in rows for one in pythons):
        title, need = f"{tensorflow.text} for Python {pythons[-1]}", f"Python {span(rows[0].python)}"
        other = write_python(view, rows[0].python)
        cause = "conda cannot solve the environment"
        yield _not_built(rows[0], title, cause, f"Python {pythons[-1]}", view.python_place, need, other)


def _without_kernels(view: PlannedEnvironment, *, newer: bool) -> Iterator[Problem]:
    """The described GPU is newer, or older, than the kernels of every build of conda-forge."""
    rows = [row for row in _conda_builds(view) if row.cuda and (row.sass or row.ptx)]
    for gpu in view.target.gpus if rows else ():
        above = capability(gpu.compute_capability) > max(map(capability, (*rows[0].sass, *rows[0].ptx)))
        if above == newer and not any(runs_on(row, gpu.compute_capability) == "sass" for row in rows):
            title, cause = f"TensorFlow {rows[0].version} with kernels for {gpu.shown}", "its builds contain none"
            found, need = f"compute capability {gpu.compute_capability}", f"one of SASS {' '.join(rows[0].sass)}"
            yield _not_built(rows[0], title, cause, found, "--gpu", need)


in_manifests("gpu.arch-too-old", unless=_NOT_INSTALLED)(partial(_without_kernels, newer=False))
in_manifests("gpu.arch-too-new", unless=_NOT_INSTALLED)(partial(_without_kernels, newer=True))


@in_manifests("tf.cpu-build", unless=("tf.package-removed", "tf.windows-native"))
def no_conda_gpu_build(view: PlannedEnvironment) -> Iterator[Problem]:
    """conda-forge has only CPU builds of these versions, or for this platform."""
    rows, one = _conda_builds(view) if view.wants_gpu else (), view.tensorflow
    if one and rows and not any(row.cuda for row in rows):
        title = f"GPU build of {one.text} for {view.target.platform}"
        yield _not_built(rows[0], title, _RUNS_ON_CPU, one.text, str(one.place), "a build with CUDA")


@in_manifests("cuda.version-mismatch", unless=_DECIDED_BY_PACKAGE)
def no_conda_build_planned(view: PlannedEnvironment) -> Iterator[Problem]:
    """A CUDA is pinned for which conda-forge has no build of these versions.

    A build for 12.8 depends on cuda-version >=12.8,<13 (run_exports of conda-forge's cuda-nvcc).
    """
    rows = [row for row in _conda_builds(view) if row.cuda]
    builds = [cuda for row in rows for cuda in row.cuda]
    for pin in (one for one in view.cudas if rows and one.by == "conda"):
        taken = (major(pin.version) == major(cuda) and at_least(pin.version, minor(cuda)) for cuda in builds)
        if "." in pin.version and not any(taken):
            title, need = f"build of TensorFlow {rows[0].version} for CUDA {pin.version}", ", ".join(rows[0].cuda)
            cause = "conda cannot solve the environment, or installs a CPU build"
            yield _not_built(rows[0], title, cause, pin.text, pin.place, f"CUDA {need}")


# ----------------------------------------------------------------------------------------------------------------------
# CUDA, cuDNN and XLA's compiler.


@in_manifests("cuda.version-mismatch", unless=_DECIDED_BY_PACKAGE)
def other_major_planned(view: PlannedEnvironment) -> Iterator[Problem]:
    """An image or a package brings CUDA of another major version, or libcusolver, and nothing brings the right one."""
    release = view.needs_cuda
    last = _LAST_CUDATOOLKIT if release and at_least(release.cuda, "12") else ""  # of a cudatoolkit of any version
    named = [cuda if cuda.version else replace(cuda, version=last) for cuda in view.cudas]
    others = [cuda for cuda in named if release and cuda.version and _is_other(release, cuda.version)]
    if release is None or not others or len(others) < len(view.cudas):
        return
    loads = f"TensorFlow {release.version} loads CUDA {minor(release.cuda)}"
    expected, source = f"CUDA {release.cuda}", f"TensorFlow {release.version} ({view.where})"
    yield Problem(
        title=f"{loads}, but {others[0].text} contains CUDA {others[0].version}",
        cause=OTHER_CUSOLVER if major(others[0].version) == major(release.cuda) else None,
        evidence=tuple(evidence(cuda.text, cuda.place, expected, source) for cuda in others),
        fixes=write_cuda(view, release),
    )


# the last on conda-forge and in NVIDIA's channel; CUDA 12 is cuda-version there: conda-forge's CUDA 12 migration
_LAST_CUDATOOLKIT = "11.8"


def _is_other(release: Release, version: str) -> bool:
    """Whether a CUDA has libraries of other names; of 11, this is libcusolver in 11.0: tensorflow issue 43947."""
    cusolver = next((one.soname for one in release.libraries if one.component == "cusolver"), "")
    if major(version) != "11" or major(release.cuda) != "11" or "." not in version or not cusolver:
        return major(version) != major(release.cuda)
    return (minor(version) == "11.0") != ("10" in cusolver)


@in_manifests("cuda.missing", unless=(*_DECIDED_BY_PACKAGE, "gpu.arch-too-new"))
def nothing_brings_it_planned(view: PlannedEnvironment) -> Iterator[Problem]:
    """TensorFlow from pip without its extra, where nothing else brings CUDA; a note where no GPU is meant."""
    release, tensorflow, base = view.needs_cuda, view.tensorflow, view.base
    runtime_only = _has_runtime_only(view)
    if release is None or tensorflow is None or not _lacks_cuda(view):
        return
    wheel = f"TensorFlow {release.version}"
    # CUDA may come from elsewhere: an image of unknown content, none at all; not where conda's file names no extra
    certain = runtime_only or (base.no_cuda if base else view.environment.kind == "conda" and bool(release.extra))
    cause = WITHOUT_EXTRA if release.extra else _without_an_extra(tensorflow)
    if runtime_only:
        cause = "an nvidia/cuda base image contains the CUDA runtime only, not cuBLAS, cuFFT and the others"
    elif not view.wants_gpu:
        cause = f"On a GPU machine it runs on the CPU, unless CUDA is installed by other means. {cause}"
    grave = Severity.ERROR if certain else Severity.WARNING
    found = f"{tensorflow.text}, and {base.image.reference}" if base else tensorflow.text
    nothing = f"Nothing installs CUDA {minor(release.cuda)} for {wheel}"
    need = f"CUDA {release.cuda} and cuDNN {release.cudnn}"
    yield Problem(
        title=nothing if certain and view.wants_gpu else f"{tensorflow.text} does not install CUDA",
        cause=cause,
        evidence=(evidence(found, str(tensorflow.place), need, f"{wheel} (wheel)"),),
        fixes=write_cuda(view, release),
        severity=grave if view.wants_gpu else Severity.NOTE,
    )


def _without_an_extra(tensorflow: Requirement) -> str:
    """Why a release before 2.14 has no CUDA."""
    why = "TensorFlow has an extra and-cuda since 2.14; before, pip only warns. " if tensorflow.extras else ""
    return why + OF_THE_SYSTEM


def _lacks_cuda(view: PlannedEnvironment) -> bool:
    if view.tensorflow and is_of_constraints(view.tensorflow) and not view.tensorflow.beside:
        return False  # the line with the extra is in another file
    without_runtime = all(one.by == "pip" and "cuda-runtime" not in one.text for one in view.cudas)
    if view.cudas and not without_runtime and not _has_runtime_only(view):
        return False
    unknown = view.base is not None and (not view.base.no_cuda or view.base.tensorflow)  # or an image for the CPU
    return view.wants_gpu or not (unknown or view.cudnns)


def _has_runtime_only(view: PlannedEnvironment) -> bool:
    return view.base is not None and view.base.flavour == "base" and not view.cudas[1:]


@in_manifests("cuda.lib-path", unless=_NO_CUDA_AT_ALL)
def conda_folder_not_searched(view: PlannedEnvironment) -> Iterator[Problem]:
    """TensorFlow of pip beside the CUDA of conda: since 2.7 it does not look into the environment's lib folder."""
    release, conda = view.needs_cuda, [one for one in view.cudas if one.by == "conda"]
    is_set = any(one.name == "LD_LIBRARY_PATH" for one in view.environment.settings)
    is_found = is_set or view.target.os == "windows"
    if release is None or not conda or is_found or at_least(release.version, "2.7") is False:
        return
    if _loader_finds_cuda(view, release):
        return
    # nor into those of pip's packages: readelf -d of libtensorflow_framework.so.2 in 2.13.1 has $ORIGIN alone
    of_pip = not release.extra and {one.by for one in view.cudnns} == {"pip"}
    nor = ", nor for cuDNN in that of pip's package" if of_pip else ""
    need = "LD_LIBRARY_PATH with the environment's lib folder"
    issue = "https://github.com/tensorflow/tensorflow/issues/52988"
    yield Problem(
        title=f"TensorFlow {release.version} of pip does not look for CUDA in conda's lib folder{nor}",
        cause="up to 2.6 it found the libraries there; later releases need the folder in LD_LIBRARY_PATH",
        evidence=tuple(evidence(one.text, one.place, need, issue) for one in conda),
        fixes=(_with_folder_of_conda(view, links=of_pip),),
        severity=Severity.WARNING if _may_set_it(view) else Severity.ERROR,
    )


def _with_folder_of_conda(view: PlannedEnvironment, *, links: bool) -> Fix:
    """Set the variable; in a container, where what is started activates nothing, for all programs."""
    (path, text), prefix = dockerfile_of(view.environment), "$CONDA_PREFIX"
    where = "Once, in the activated environment, let its activation set it"
    lines = conda_library_path(f"{prefix}/etc/conda")
    if path:
        prefix = _prefix_of_conda(view.environment, text)
        where, lines = f"At the end of {path}, add the environment's lib folder", (f"ENV LD_LIBRARY_PATH={prefix}/lib",)
    link = f'ln -sf "{prefix}"/lib/python*/site-packages/nvidia/cudnn/lib/*.so* "{prefix}/lib/"'
    return Fix(where, (*lines, *((f"RUN {link}" if path else link,) if links else ())))


# /root/miniconda3, but no part of a URL; the name of an environment that a command makes
_CONDA_ROOT = re.compile(r"(?<![\w/:.-])/[\w./-]*?(?:conda|mamba|forge)3?(?=/(?:bin|envs|etc|lib)\b|[\s\"':]|\Z)")
_CREATED = re.compile(
    r"(?:conda|mamba) (?:env )?create\b(?:(?:[^\n&;|]|\\\n){0,1000}?\s(?:-n|--name)[ =]+(?P<name>[\w.-]+))?"
)
_NAME = re.compile(r"^name: *([\w.-]+)", re.MULTILINE)
_ACTIVATES = re.compile(r"\bactivate\s|\b(?:run|hook)\b")
_OF_LOADER = re.compile(r"LD_LIBRARY_PATH|LD_PRELOAD|ldconfig|ld\.so\.conf")


def _prefix_of_conda(environment: Environment, text: str) -> str:
    """The folder of the environment that a Dockerfile makes."""
    root, created, image = _CONDA_ROOT.search(text), _CREATED.search(text), environment.image
    known = "/opt/conda" if image and re.search("conda|mamba|forge", image.name) else "PREFIX"
    files = (one for one in environment.texts.values() if "dependencies:" in one)  # of conda
    own = next(filter(None, map(_NAME.search, files)), None)
    name = (created and created["name"]) or (own and own[1]) or "NAME"
    return (root[0] if root else known) + (f"/envs/{name}" if created else "")


def _may_set_it(view: PlannedEnvironment) -> bool:
    """Whether more than ENV can name the folder to the loader; a hook in $CONDA_PREFIX does not where that is empty."""
    path, text = dockerfile_of(view.environment)
    given = any(one.name == "CONDA_PREFIX" for one in view.environment.settings)
    for one in instructions(text):
        in_vain = "CONDA_PREFIX" in one.value and not (given or _ACTIVATES.search(one.value))
        starts_a_script = one.verb in ("CMD", "ENTRYPOINT") and ".sh" in one.value
        if one.verb == "SHELL" or starts_a_script or (_OF_LOADER.search(one.value) and not in_vain):
            return True
    return not path


@in_manifests("cuda.missing", unless=_DECIDED_BY_PACKAGE)
def no_such_cudatoolkit(view: PlannedEnvironment) -> Iterator[Problem]:
    """A cudatoolkit of CUDA 12, which no channel has."""
    for one in view.environment.requirements:
        version = pinned(one) if one.installer == "conda" and one.name == "cudatoolkit" else None
        if version and at_least(version, "12"):
            out, own = remove(one), write_best(view) if view.release and view.release.extra else ()
            text = f"{out.text}, which TensorFlow's own line brings"
            both = tuple(Fix(f"{text}; {fix.text}", edits=out.edits + fix.edits) for fix in own)
            yield Problem(
                title=f"conda has no cudatoolkit {version}",
                cause=f"{_LAST_CUDATOOLKIT} was the last; conda cannot solve the environment",
                evidence=_seen(one, f"cudatoolkit {_LAST_CUDATOOLKIT} or older", "conda-forge"),
                fixes=both or (out,),
            )


@in_manifests("cudnn.version-mismatch", unless=_NO_CUDA_AT_ALL)
def other_version_planned(view: PlannedEnvironment) -> Iterator[Problem]:
    """cuDNN of another major version, or older than the one compiled against."""
    release = view.needs_cuda
    if release is None or release.cudnn is None or _torch_brings_it(view, release):
        return
    known = [one for one in map(partial(_as_installed, view), view.cudnns) if one.version]
    refused = [one for one in known if not takes_cudnn(release, minor(one.version))]
    beside = any(one.by for one in known if one not in refused)  # the name of an image's own has another number
    for cudnn in refused:
        if beside and not cudnn.by:
            continue
        need, source = f"cuDNN {release.cudnn}", f"TensorFlow {release.version} ({view.where})"
        yield Problem(
            title=f"TensorFlow {release.version} needs {need}, but {cudnn.text} contains cuDNN {cudnn.version}",
            evidence=(evidence(cudnn.text, cudnn.place, need, source),),
            fixes=_other_cudnn(view, release, cudnn),
        )


def _torch_brings_it(view: PlannedEnvironment, release: Release) -> bool:
    """Whether PyTorch brings a cuDNN of pip that a release takes, or one that is not known."""
    torch = view.requirement("torch")
    if torch is None:
        return False
    version, pins = _newest(view, torch)
    brought = next((pin for name, pin in pins.items() if name.startswith("nvidia-cudnn")), None)
    return version is None or brought is None or takes_cudnn(release, minor(brought)) is not False


@in_manifests("cudnn.version-mismatch")
def cudnn_of_a_later_torch(view: PlannedEnvironment) -> Iterator[Problem]:
    """A later command installs PyTorch: pip puts the cuDNN that it pins in place of the extra's, and only warns."""
    line, torch, release = view.tensorflow, view.requirement("torch"), view.release
    if not (line and torch and release) or torch.elsewhere or not 0 < line.step < torch.step:
        return
    version, pins = _newest(view, torch)
    name = next((one for one in release.pip_nvidia if view.extra and one.startswith("nvidia-cudnn")), "")
    if name in pins and not takes_cudnn(release, minor(pins[name])):
        need, source = f"cuDNN {release.cudnn}", f"TensorFlow {release.version}"
        later = f"python3 -m pip install '{name}>={release.cudnn},<{int(major(release.cudnn or '')) + 1}'"
        repair = Fix(f"In the build, below {torch.place}, run: {later}; PyTorch runs with it, too")
        if major(pins[name]) != major(release.cudnn):
            repair = Fix("Install PyTorch in an environment of its own")
        yield Problem(
            title=f"{source} needs {need}, but PyTorch {version} replaces it by {pins[name]}",
            cause="each pip command installs what its own packages require, and only warns of what it breaks",
            evidence=(evidence(torch.text, str(torch.place), need, source),),
            fixes=(repair,),
        )


def _newest(view: PlannedEnvironment, line: Requirement) -> tuple[Version | None, dict[str, str]]:
    """The newest version that a line admits, and what it pins, unless a later command replaces that."""
    package = view.resolved.universe.package(line.name)
    version = max(package.allowed(line.specifier), default=None)
    later = {one.name for one in view.environment.requirements if one.step > line.step}
    pins = {one.name: one.specifier.removeprefix("==") for one in package.requires(version)} if version else {}
    return version, {name: pin for name, pin in pins.items() if name not in later}


def _other_cudnn(view: PlannedEnvironment, release: Release, wrong: Cuda) -> tuple[Fix, ...]:
    if not release.extra and (line := view.requirement(wrong.text)):
        return (write(line, f"{line.name}<{int(major(release.cudnn or '')) + 1}"),)
    if view.base and view.base.of_tensorflow and not wrong.by and major(release.cudnn or "") == "9":
        if _is_built(view):
            return (Fix(f"In the build, below {wrong.text}, run: {' '.join(CUDNN_9.commands)}"),)
        return tuple(write_image(view.base.image, one) for one in _images_that_run(view, view.base.image.reference))
    return write_cuda(view, release)


def _is_built(view: PlannedEnvironment) -> bool:
    """Whether commands of a file make the environment; a service or a pod starts an image as it is."""
    image, one = view.environment.image, view.environment
    return one.kind in ("dockerfile", "singularity") or bool(image and image.place.path != one.place.path)


def _images_that_run(view: PlannedEnvironment, wanted: str) -> list[str]:
    """An image of TensorFlow's own for GPUs, as it is wanted, if it holds the cuDNN that its TensorFlow needs.

    Else the newest one that does, and that serves the GPUs and the driver; none where nothing does.
    """
    base = base_named(wanted, view.matrix)
    if base is None or base.cudnn is None or _holds_its_cudnn(view, base) or _is_built(view):
        return [wanted]
    head, last = re.sub(r":.*", "", wanted), base.tensorflow
    flavour = "-jupyter" if "-jupyter" in wanted else ""
    rows = [one for one in view.matrix.data.containers if one.image == "tensorflow/tensorflow"]
    for row in sorted(rows, key=lambda one: Version(one.tensorflow), reverse=True):
        tag = f"{head}:{row.tensorflow}-gpu{flavour}"
        found = base_named(tag, view.matrix)
        if found and at_least(last, row.tensorflow) and _holds_its_cudnn(view, found) and _serves(view, found):
            return [tag]
    return []


def _with_its_cudnn(view: PlannedEnvironment, image: Image, reference: str) -> Fix:
    """Write an image, and what the build adds to it where it lacks the cuDNN that its TensorFlow needs."""
    found, fix = base_named(reference, view.matrix), write_image(image, reference)
    if found is None or found.cudnn is None or _holds_its_cudnn(view, found):
        return fix
    return replaced(fix, text=f"{fix.text}, and in the build, below it, run: {' '.join(CUDNN_9.commands)}")


def _holds_its_cudnn(view: PlannedEnvironment, base: Base) -> bool:
    row = view.matrix.tensorflow(base.tensorflow or "", "linux_x86_64")
    return row is None or takes_cudnn(row, base.cudnn or None)


def _serves(view: PlannedEnvironment, base: Base) -> bool:
    """Whether an image has kernels for the described GPUs, and starts with the described driver."""
    row, needed = view.matrix.tensorflow(base.tensorflow or "", "linux_x86_64"), driver_of(base, view.matrix)
    starts = not (view.target.driver and needed) or driver_reaches(view.target.driver, needed)
    return row is not None and starts and all(runs_on(row, one) == "sass" for one in view.target.capabilities)


def _as_installed(view: PlannedEnvironment, cudnn: Cuda) -> Cuda:
    """A cuDNN of pip without a version, the only one, is the newest."""
    name = cudnn.text.partition(";")[0].strip()
    alone = cudnn.by == "pip" and not cudnn.version and len(view.cudnns) == 1 and name in view.matrix.packages
    newest = max(view.resolved.universe.package(name).allowed(""), default=None) if alone else None
    return replace(cudnn, version=str(newest)) if newest else cudnn


@in_manifests("cudnn.missing", unless=_NO_CUDA_AT_ALL)
def image_without_it_planned(view: PlannedEnvironment) -> Iterator[Problem]:
    """An image with CUDA but without cuDNN."""
    release, base = view.needs_cuda, view.base
    if release is None or base is None or base.cuda is None or base.flavour in (None, "base") or view.cudnns:
        return
    if release.cudnn and major(base.cuda) == major(release.cuda):
        better = with_cudnn(base, release.cudnn, view.matrix)
        yield Problem(
            title=f"{base.image.reference} contains no cuDNN",
            evidence=_seen(base.image, f"cuDNN {release.cudnn}", f"TensorFlow {release.version} (wheel)"),
            fixes=(write_image(base.image, better),) if better else write_cuda(view, release),
        )


_COMPILERS = re.compile(r"nvidia-cuda-nvcc.*|cuda-(?:nvcc|toolkit|compiler|minimal-build)-.*|nvidia-cuda-toolkit")
_FLAVOURS = "https://hub.docker.com/r/nvidia/cuda, Overview of Images: the compiler is in devel"


@in_manifests("xla.libdevice-missing", unless=_NO_CUDA_AT_ALL)
def image_without_compiler(view: PlannedEnvironment) -> Iterator[Problem]:
    """The -runtime images of nvidia/cuda hold the libraries, but neither libdevice nor ptxas; -devel has both."""
    release, base = view.needs_cuda, view.base
    if release is None or base is None or base.flavour != "runtime" or base.tensorflow:
        return
    has_compiler = any(_COMPILERS.fullmatch(one.name) for one in view.environment.requirements)
    if has_compiler or not at_least(release.version, KERAS_SINCE):
        return
    image, other = base.image, missing_tag(base.image)[1]
    if not view.cudnns and major(base.cuda) == major(release.cuda):  # one edit for both, then
        other = with_cudnn(base, release.cudnn or "", view.matrix) or other
    better = (other or image.reference).replace("-runtime", "-devel")
    yield Problem(
        title=f"{image.reference} contains neither libdevice nor ptxas, which XLA needs",
        evidence=_seen(image, f"the CUDA compiler, as in {better}", _FLAVOURS),
        fixes=write_best(view) if release.extra else (write_image(image, better),),
        severity=Severity.WARNING,
    )


# ----------------------------------------------------------------------------------------------------------------------
# Known bugs.


@in_manifests("tf.known-bug", unless=(*_DECIDED_BY_PACKAGE, "gpu.arch-too-new", "gpu.arch-too-old"))
def bug_of_required_release(view: PlannedEnvironment) -> Iterator[Problem]:
    """What will be installed has a bug in this environment."""
    for issue, gravity in _bugs(view):
        if issue.about != "protobuf" and view.release is not None:
            yield _bug(view.release, view, issue, gravity, "another release", _without_bug(view, view.release, issue))


@in_manifests("tf.abi-protobuf", unless=("tf.package-removed",))
def fresh_protobuf(view: PlannedEnvironment) -> Iterator[Problem]:
    """What pip brings, since the metadata of the release has no upper bound for protobuf."""
    row, line = view.release, view.tensorflow
    for issue, gravity in _bugs(view):
        if issue.about == "protobuf" and row is not None and line is not None:
            fixes = _without_its_bug(view, row) or (write_beside(line, "protobuf<3.21"),)
            yield _bug(row, view, issue, gravity, f"protobuf{protobuf_bound(row)}", fixes)


def _bug(
    row: Release, view: PlannedEnvironment, issue: KnownIssue, gravity: Severity, need: str, fixes: tuple[Fix, ...]
) -> Problem:
    seen = evidence(f"TensorFlow {row.version}", view.where, need, issue.source)
    title = f"TensorFlow {row.version}: {issue.title}"
    return Problem(title=title, cause=issue.symptom, evidence=(seen,), fixes=fixes, severity=gravity)


_INSTALLED = re.compile(r"tensorflow==(\d[\d.]*)")


def _without_bug(view: PlannedEnvironment, row: Release, issue: KnownIssue) -> tuple[Fix, ...]:
    """The edit that bounds what is beside it, or writes another release, and what the matrix advises beside that."""
    for name, bound in issue.condition.beside.items():
        line, limit = view.requirement(name), re.fullmatch(r">=([\d.]+)", bound)
        if line and limit:
            return (write(line, f"{name}<{limit[1]}"),)
    nearest, own = _without_its_bug(view, row), minor(row.version)
    # an issue of several minor versions has commands for each
    others = [one for one in issue.commands if (found := _INSTALLED.search(one)) and minor(found[1]) != own]
    commands = tuple(one for one in issue.commands if one not in others)
    by_release = bool(nearest) and all(map(_INSTALLED.search, commands))
    return nearest if by_release else (*nearest, Fix(issue.fix, commands))


_JUDGED_ALONE = ("numpy", "protobuf")  # by findings of their own


def _bugs(view: PlannedEnvironment) -> Iterator[tuple[KnownIssue, Severity]]:
    """The bugs of the release that appear in this environment, and how grave each is there."""
    row = view.release
    pythons = view.pythons_of(row) if row and not view.conda else ()
    if row is None or not pythons:
        return  # with no Python that is allowed, it is not installed
    request = PlanRequest(view.matrix, view.target)
    issues = request.issues(row, view.python, extra=view.extra)
    # without a Python, most likely the newest for which there is a wheel
    likely = request.issues(row, pythons[-1], extra=view.extra) if view.python is None else ()
    supposed = [one for one in likely if one not in issues]
    for issue in (*issues, *supposed, *_of_what_is_beside(view, row)):
        if _concerns(view, issue):
            grave = issue not in supposed or lacks_bound(issue)
            yield issue, _gravity(view, issue) if grave else Severity.WARNING


def _of_what_is_beside(view: PlannedEnvironment, row: Release) -> Iterator[KnownIssue]:
    """The issues of a release with what pip brings beside it."""
    beside = {name: one for name, one in view.installed[-1][0].items() if name not in _JUDGED_ALONE}
    return (one for one in view.matrix.issues_for(row, beside=beside) if one.condition.beside)


def _without_its_bug(view: PlannedEnvironment, row: Release) -> tuple[Fix, ...]:
    """The edit that writes a release without the bugs of the one that is there; without an extra, its last patch."""
    if row.extra:
        return write_best(view) if replacement(view) != requirement(row) else ()
    one, better = view.asked, _patched(view, row)
    if one is None or better is None or pinned(one) is None or one.installer != "pip":
        return ()
    name = "tensorflow" if one.name == "tensorflow-gpu" and at_least(better.version, "2.1") else one.name
    return (write_release(view, one, f"{name}=={better.version}"),)


def _patched(view: PlannedEnvironment, row: Release) -> Release | None:
    """The last patch of a release whose installation is broken, where that one works; None: it works, or none does."""

    def is_broken(one: Release) -> bool:
        issues = view.matrix.issues_for(one, python=[None, *view.pythons_of(one)][-1])
        found = [each for each in issues if each.affects == "install" and each.severity == "error"]
        return any(each.about != "numpy" for each in found)  # which has a finding of its own

    rows = view.matrix.releases(platform=view.target.platform, package=row.package) if is_broken(row) else ()
    same = (one for one in rows if minor(one.version) == minor(row.version) and view.pythons_of(one))
    return next((one for one in same if not is_broken(one) and not Version(one.version).is_prerelease), None)


def _gravity(view: PlannedEnvironment, issue: KnownIssue) -> Severity:
    """How grave a bug is as the files are: a plan warns of what it can install something else beside."""
    if forgets_folders(issue) and any(one.name == "LD_LIBRARY_PATH" for one in view.environment.settings):
        return Severity.NOTE  # the folder that is missing may be one of those
    return Severity.ERROR if lacks_bound(issue) else Severity(issue.severity)


def _is_about_other_nvcc(view: PlannedEnvironment, issue: KnownIssue) -> bool:
    """Whether it is about images without nvcc, where the environment has it, or no CUDA at all."""
    is_devel = view.base is not None and view.base.flavour == "devel"
    return issue.about == "nvcc" and (is_devel or not any(one.by for one in view.cudas))


def _is_in_the_image(view: PlannedEnvironment, issue: KnownIssue) -> bool:
    """Whether the image has what the issue says is not found, if by apt, or a protobuf that pip leaves as it is.

    That of a TensorFlow before 2.12 is protobuf 3: it is older than protobuf 4, or requires an older one.
    """
    base, row = view.base, view.release
    if base is None or row is None:
        return False
    if forgets_folders(issue):  # the loader's own folders come after those of the RUNPATH: man 8 ld.so
        return _loader_finds_cuda(view, row, cudnn="cudnn" in issue.symptom)
    return issue.about == "protobuf" and base.of_tensorflow and not at_least(base.tensorflow, "2.12")


def _loader_finds_cuda(view: PlannedEnvironment, row: Release, *, cudnn: bool = True) -> bool:
    """Whether an image, or apt, brings CUDA, and a cuDNN, for a release into the folders of the loader."""
    base, of_loader = view.base, [one.version for one in view.cudnns if one.by in ("", "apt")]
    packages = rf"(?:cuda-(?:toolkit|libraries|runtime)|libcusolver)-{major(row.cuda)}-\d+"
    of_apt = any(re.fullmatch(packages, one.name) for one in view.environment.requirements)
    of_image = base is not None and base.flavour != "base" and major(base.cuda) == major(row.cuda)
    has_cudnn = any(not one or takes_cudnn(row, minor(one)) for one in of_loader)
    return (of_apt or of_image) and (has_cudnn or not cudnn)


_ASKED = re.compile(r"'([\w.-]+)([<>=!~][^']+)'")  # of a command of pip


def _is_met(view: PlannedEnvironment, issue: KnownIssue) -> bool:
    """Whether the files ask already for what the issue's command installs."""
    if issue.about == "protobuf":
        own, bound = view.requirement("protobuf"), protobuf_bound(view.release) if view.release else None
        installed, wanted = view.installed[-1][0].get("protobuf"), specifier(bound or "")
        if own and own.specifier:
            return True  # it is judged by itself
        if installed and bound and wanted is not None and wanted.contains(installed):
            return True  # an earlier command installs it, and pip keeps it
    asked = _ASKED.findall(" ".join(issue.commands))
    return bool(asked) and all(_asks_for(view, name, bound) for name, bound in asked)


def _asks_for(view: PlannedEnvironment, name: str, bound: str) -> bool:
    line, known = view.requirement(name), view.resolved.universe.package(name)
    admitted = known.allowed(line.specifier) if line and line.specifier else None
    return bool(line and admitted and admitted == known.allowed(line.specifier, bound))


def _concerns(view: PlannedEnvironment, issue: KnownIssue) -> bool:
    """Whether it appears when the release is installed or run as planned, and no finding of its own is about it."""
    condition = issue.condition
    if issue.about in ("numpy", "cuda-minor") or is_about_architecture(condition) or issue.severity == "note":
        return False
    if _is_about_other_nvcc(view, issue) or _is_met(view, issue) or _is_in_the_image(view, issue):
        return False
    if issue.affects == "install":  # an image has what was current when it was built
        return view.tensorflow is not None and bool(view.extra or not (condition.extra or issue.about == "extra"))
    return issue.affects == "run" and bool(view.wants_gpu or not condition.extra)
