"""Any of the files that `tfgpu check` knows → environments; files that describe one environment are joined."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from tfgpu_doctor.manifests import (
    INSTEAD,
    KINDS,
    LONGEST_LINE,
    MOST_REQUIREMENTS,
    Environment,
    IncludeError,
    Kind,
    ManifestError,
    Place,
    Requirement,
    UnreadList,
    quoted,
    variables,
)
from tfgpu_doctor.manifests.deployment import merged, read_compose, read_kubernetes
from tfgpu_doctor.manifests.dockerfile import read_definition, read_dockerfile
from tfgpu_doctor.manifests.pip import Include, Node, documents, read_requirements
from tfgpu_doctor.manifests.pyproject import read_pyproject
from tfgpu_doctor.manifests.shell import read_environment
from tfgpu_doctor.manifests.workflow import read_notebook, read_python_file, read_workflow

LONGEST_NUMBER = 500  # digits; Python refuses to read a number of some thousands
LARGEST = 5_000_000  # characters
MOST_ENVIRONMENTS = 200  # of one file
PER_NAME = 50  # requirements of one name, and lines that are not understood
_NAMES: tuple[tuple[str, Kind], ...] = (
    (r"(.*/)?pyproject\.toml", "pyproject"),
    (r"(.*/)?((dockerfile|containerfile)([._-][^/]*)?|[^/]*\.(dockerfile|containerfile))", "dockerfile"),
    (r"(.*/)?(\.python-version|runtime\.txt)", "python"),
    (r"(.*/)?(singularity|apptainer)(\.[^/]*)?|.*\.def", "singularity"),
    (r".*\.ipynb", "notebook"),
    (r"(.*/)?([^/]*(requirements|constraints)[^/]*\.(txt|in|lock)|requirements)", "requirements"),
    (r"(.*/)?(requirements|reqs|constraints)/[^/]*\.(txt|in)", "requirements"),
)
_FILLED_IN = re.compile(r"\.(j2|jinja2?|tmpl|tpl|template|tera|erb)$")  # behind the name of the file that is made
_NOT_READ = re.compile(  # lock files, and manifests whose packages one of the files above names as well
    r"(?:.*/)?(?:(?:uv|poetry|pdm|pixi|pipfile|conda-[\w-]+)\.lock|pylock(?:\.[\w-]+)?\.toml|[\w.-]*conda-lock\.ya?ml"
    r"|pipfile|pixi\.toml|setup\.(?:py|cfg)|\.?devcontainer\.json"
    r"|tox\.ini|noxfile\.py|\.gitlab-ci\.ya?ml|\.travis\.ya?ml|azure-pipelines\.ya?ml|jenkinsfile)"
)
# whose builds require other versions
_INDEX_OF_PYTORCH = re.compile(r"pytorch\.org/whl|torch[-_]backend", re.IGNORECASE)
_OF_HELM = re.compile(r"\{\{[^{}]*\.(?:Values|Chart|Release)\b")
# a list of packages by its content: every line is a requirement, and one of them has a version
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w,.\s-]*\])?\s*(?P<version>[=<>!~]=?=?\s*\d[\w.*+!,=<>~ ]*)?(?:\s*;.*)?"
)
_OPTION = re.compile(r"-(?:r|c|e|f|i)\b.*|--[a-z].*")


def read(
    path: str,
    text: str,
    kind: Kind | None = None,
    include: Callable[[str], str | None] = lambda _: None,
    *,
    quote: bool = True,
    stage: str | None = None,
    contexts: tuple[str, ...] = (),
) -> tuple[Environment, ...]:
    """Return the environments that a file describes.

    Args:
        path: for messages, and for its name, which tells the kind.
        kind: what the file is; None: its name or its content tells.
        include: reads a file that this one names, relative to it; None, or an IncludeError with the reason, where it
            does not.
        quote: messages may show parts of the file.
        stage: of a Dockerfile, the one to build (`--target`).
        contexts: folders above that it can be built from, relative to its own.

    Raises ManifestError: it is none of KINDS, or is not well formed; the message has the file and the line.
    """
    given, kind = kind, kind or kind_of(path)
    if refusal := _refusal(path, text, kind):
        raise ManifestError(refusal)
    if reason := _instead(path, text, given):
        raise ManifestError(f"{path}: {reason}")
    texts: dict[str, str] = {}

    def included(name: str) -> str:
        """A file that this one names. Raises IncludeError: it cannot be read, or would be refused."""
        content = include(name) if name and "\0" not in name and "://" not in name else None
        if content is None or _refusal(name, content):
            raise IncludeError
        texts[posixpath.normpath(posixpath.join(posixpath.dirname(path), name))] = content
        return content

    try:
        found = _read(path, variables.without_blanks(text), kind, included, quote, stage, contexts)
    except ManifestError as error:
        if note := _template(path, text):
            return (Environment(kind or "workflow", path, Place(path, 1), not_understood=(note,)),)  # of any YAML
        if not quote:
            raise ManifestError(f"{path} is not valid; what is wrong is not shown, since it is a link") from None
        message = str(error)
        raise ManifestError(message if message.startswith(path) else f"{path}: {message}") from error
    except RecursionError as error:
        raise ManifestError(f"{path}: nested too deeply, or recursively") from error
    of_pytorch = any(map(_INDEX_OF_PYTORCH.search, (text, *texts.values())))
    every = {posixpath.normpath(path): text, **texts}
    return tuple(replace(one, read=(*one.read, *texts), texts=every) for one in _bounded(found, of_pytorch))


def _instead(path: str, text: str, kind: Kind | None) -> str | None:
    """What to give instead of a file whose packages are not read."""
    if (kind is None and is_not_read(path)) or (kind in (None, "requirements") and "@EXPLICIT" in text[:2000]):
        return INSTEAD
    is_helm = (kind or kind_of(path)) in (None, "kubernetes") and _OF_HELM.search(text)
    return f"a template of Helm, {INSTEAD}, or what `helm template` prints" if is_helm else None


def _template(path: str, text: str) -> str | None:
    """A line for the first expression of a template."""
    for number, line in enumerate(text.split("\n"), 1):
        if expression := variables.hole(line):
            return f"{variables.filled_later(Place(path, number), expression)}; check what it makes"
    return None


def _read(
    path: str, text: str, kind: Kind | None, include: Include, quote: bool, stage: str | None, contexts: tuple[str, ...]
) -> tuple[Environment, ...]:
    """Read a file of a kind that is given, or that its name or its content tells."""
    if kind is None and is_list_of_packages(path, text):
        kind = "requirements"
    if kind is None and not is_yaml(path):
        raise ManifestError(f"{path}: unknown kind of file; name it with --kind {'|'.join(KINDS)}")
    roots: list[Node] = []
    if kind in (None, "conda", "compose", "kubernetes", "workflow") and not (roots := documents(path, text)):
        raise ManifestError(f"{path}: the file is empty")
    readers: dict[Kind, Callable[[], tuple[Environment, ...]]] = {
        "requirements": lambda: read_requirements(path, text, include, quote=quote),
        "pyproject": lambda: read_pyproject(path, text, include, quote=quote),
        "dockerfile": lambda: read_dockerfile(path, text, include, stage=stage, contexts=contexts),
        "python": lambda: read_python_file(path, text),
        "singularity": lambda: read_definition(path, text, include),
        "notebook": lambda: read_notebook(path, text, include),
        "kubernetes": lambda: read_kubernetes(roots),
        "compose": lambda: read_compose(path, roots[0], include),
        "conda": lambda: read_environment(path, roots[0], include, quote=quote),
        "workflow": lambda: read_workflow(path, roots[0], include),
    }
    return readers[kind or _kind_by_keys(path, roots)]()


def _kind_by_keys(path: str, roots: list[Node]) -> Kind:
    """Which of the YAML files it is. Raises ManifestError: none of them."""
    root = roots[0]
    if any(one.string("apiVersion") is not None and one.string("kind") is not None for one in roots):
        return "kubernetes"
    if root.get("services") is not None:
        return "compose"
    if root.get("dependencies") is not None:
        return "conda"
    if any(job.get("steps") is not None for _, job in root.pairs("jobs")):
        return "workflow"
    raise ManifestError(
        f"{path}: neither a conda environment (dependencies:), a compose file (services:), a Kubernetes manifest "
        "(apiVersion: and kind:) nor a workflow of GitHub (jobs: with steps:). Helm: give what `helm template` prints"
    )


def _refusal(path: str, text: str, kind: Kind | None = None) -> str | None:
    """Why a text is not read at all; the lines of a notebook hold pictures and other outputs, of any length."""
    if len(text) > LARGEST:
        return f"{path} is larger than {LARGEST // 1_000_000} MB, too large for a file of these kinds"
    if re.fullmatch(r"(.*/)?(meta|recipe)\.ya?ml", path.lower()) and "requirements:" in text:
        return f"{path}: a conda recipe, which is none of the kinds that are read: {', '.join(KINDS)}"
    if re.search(r"[\0\ud800-\udfff]", text):
        return f"{path}: not a text file"
    for number, line in enumerate(text.splitlines() if kind != "notebook" else (), 1):
        if len(line) > LONGEST_LINE:
            return f"{path}:{number}: a line of {len(line)} characters is too long for a file of these kinds"
        if re.search(rf"(?<!\d)\d{{{LONGEST_NUMBER + 1}}}", line):
            return f"{path}:{number}: a number of more than {LONGEST_NUMBER} digits"
    return None


def _bounded(found: tuple[Environment, ...], of_pytorch: bool) -> Iterator[Environment]:
    """As much as can be judged in seconds, with a line about what is left out, and PyTorch of its own index."""
    for number, one in enumerate(found[:MOST_ENVIRONMENTS], 1):
        by_name: dict[str, list[Requirement]] = {}
        for requirement in one.requirements:
            by_name.setdefault(requirement.name, []).append(requirement)
        notes = {f"requirements of {quoted(name)}": len(several) - PER_NAME for name, several in by_name.items()}
        notes["lines that are not understood"] = len(one.not_understood) - PER_NAME
        notes["environments"] = len(found) - number if number == MOST_ENVIRONMENTS else 0
        left_out = [f"{one.place.path}: {count} more {what} are left out" for what, count in notes.items() if count > 0]
        kept = one.requirements
        if left_out:
            kept = tuple(each for several in by_name.values() for each in several[:PER_NAME])
        if of_pytorch:
            kept = tuple(replace(each, elsewhere="its index") if "torch" in each.name else each for each in kept)
        not_understood = (*one.not_understood[:PER_NAME], *left_out[-PER_NAME:])
        yield replace(one, requirements=kept, not_understood=not_understood)


def kind_of(path: str) -> Kind | None:
    """What a file is by its name; None for YAML, whose keys tell, and for a name that does not tell."""
    name = _FILLED_IN.sub("", path.replace("\\", "/").lower())
    return next((kind for pattern, kind in _NAMES if re.fullmatch(pattern, name)), None)


def is_not_read(path: str) -> bool:
    """True for lock files and other files that name packages, and that are not read."""
    return _NOT_READ.fullmatch(path.replace("\\", "/").lower()) is not None


def is_yaml(path: str) -> bool:
    """Whether a file is YAML by its name."""
    return _FILLED_IN.sub("", path.lower()).endswith((".yml", ".yaml"))


def is_list_of_packages(path: str, text: str) -> bool:
    """Whether a text file of any name is a list of requirements: reqs-gpu.txt, gpu.txt."""
    if not path.lower().endswith((".txt", ".in", ".lock")):
        return False
    versions = 0
    for number, line in enumerate(text.splitlines()):
        bare = line.partition("#")[0].strip().removesuffix("\\").strip()
        found = _REQUIREMENT.fullmatch(bare[:1000])
        if number > MOST_REQUIREMENTS or (bare and found is None and not _OPTION.fullmatch(bare)):
            return False
        versions += found is not None and found["version"] is not None
    return versions > 0


MOST = 1_000  # environments of all files together
_IN_A_PROJECT = ("requirements", "pyproject")  # where .python-version holds
_MADE_FROM = ("requirements", "dockerfile", "compose", "conda", "pyproject", "singularity")


def joined(environments: Iterable[Environment]) -> Iterator[Environment]:
    """The environments as they will exist; those that are judged as a part of another say so."""
    found = list({(one.place, one.label): one for one in islice(environments, MOST)}.values())
    if len(found) == MOST:
        note = f"{found[-1].place}: more than {MOST} environments; what follows is not judged"
        found[-1] = replace(found[-1], not_understood=(*found[-1].not_understood, note))
    dockerfiles = {_path(one): one for one in reversed(found) if one.kind == "dockerfile"}
    pythons = {posixpath.dirname(_path(one)): one for one in reversed(found) if one.kind == "python" and one.python}
    found = [_completed(one, dockerfiles, pythons) for one in found]
    owners = _owners(found)
    for one in found:
        owner = owners.get(_path(one), one.label)
        is_whole = one.label == one.place.path or one.kind == "dockerfile"
        is_part = one.part_of is None and owner != one.label and is_whole
        yield replace(one, part_of=f"part of {owner}") if is_part else one


def _path(one: Environment) -> str:
    return posixpath.normpath(one.place.path)


def _completed(
    one: Environment, dockerfiles: Mapping[str, Environment], pythons: Mapping[str, Environment]
) -> Environment:
    """A service with what its Dockerfile installs, and a project with the Python that a file beside it names."""
    if built := dockerfiles.get(posixpath.normpath(one.build_context)) if one.build_context else None:
        return replace(merged(one, built), read=(*one.read, _path(built), *built.read))
    if one.build_context:
        note = UnreadList(f"{one.place}: {one.build_context} cannot be read; if it lies elsewhere, name it, too")
        return replace(one, not_understood=(*one.not_understood, note))
    beside = pythons.get(posixpath.dirname(_path(one))) if one.kind in _IN_A_PROJECT else None
    return replace(one, python=(*beside.python, *one.python), read=(*one.read, _path(beside))) if beside else one


def _owners(found: list[Environment]) -> dict[str, str]:
    """The paths of files that others include, or that are compiled into others, with the label of the first of these.

    Two that include each other are both judged, so that nothing is left out.
    """
    included = {path for one in found for path in one.read if path != _path(one)}
    owners = _of_services(found)
    for one in found:
        outermost = _path(one) not in included and one.part_of is None and one.kind in _MADE_FROM
        parts = _parts(one) if outermost else _narrowed_files(one) if one.kind == "workflow" else set()
        for path in parts - {_path(one)}:
            owners.setdefault(path, one.label)
    for one in found:
        if one.kind == "requirements" and one.place.path.endswith(".txt"):
            owners.setdefault(f"{_path(one).removesuffix('.txt')}.in", one.label)
    return owners


def _parts(one: Environment) -> set[str]:
    """The files that were read for it, but for a project that conda's pip installs, and others as well."""
    return {path for path in one.read if one.kind != "conda" or not path.endswith(".toml")}


def _of_services(found: list[Environment]) -> dict[str, str]:
    """The Dockerfiles of services and the lists they install from, with the label of the first that uses each."""
    services = [one for one in found if one.kind == "compose" and one.image]
    built = ((one.image.place.path if one.image else "", one) for one in services)
    lists = ((each.place.path, one) for one in services for each in one.requirements)
    used = ((posixpath.normpath(path), one) for path, one in reversed([*built, *lists]))
    return {path: one.label for path, one in used if path != _path(one)}


def _narrowed_files(one: Environment) -> set[str]:
    """The files of constraints, and those whose TensorFlow they narrow: alone, they are not what a job installs."""
    narrowed = (line for each in one.requirements if each.beside for line in (each, *each.beside))
    return {posixpath.normpath(line.place.path) for line in (*narrowed, *one.constraints)}
