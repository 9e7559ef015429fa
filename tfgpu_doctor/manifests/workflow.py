"""Workflows of GitHub, notebooks, and files that name a Python: installations outside of an image."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, product
from typing import Any

from tfgpu_doctor.manifests import (
    LONGEST_LINE,
    MOST_REQUIREMENTS,
    Environment,
    GpuRequest,
    ManifestError,
    Place,
    Requirement,
    Setting,
)
from tfgpu_doctor.manifests.pip import Include, Node
from tfgpu_doctor.manifests.pyproject import table, texts
from tfgpu_doctor.manifests.shell import Installed, environment, has_tensorflow, read_commands
from tfgpu_doctor.manifests.variables import read_image

_VERSION = re.compile(
    r"(?:(?:cpython|python)[-@ \t]{0,5})?(?P<version>[23]\.\d{1,2})(?P<patch>\.\d{1,3})?[a-z]?\d{0,2}"
)


def read_python_file(path: str, text: str) -> tuple[Environment, ...]:
    """The first version that stands there; the others are not used unless asked for."""
    for number, line in enumerate(text.splitlines()[:1000], 1):
        bare = line.partition("#")[0].strip()
        if found := _VERSION.fullmatch(bare[:100]):
            place = Place(path, number)
            python = Requirement("python", f"=={found['version']}.*", place, bare)
            return (Environment(kind="python", label=path, place=place, python=(python,)),)
    note = f"{path}: it names no version of Python"
    return (Environment(kind="python", label=path, place=Place(path, 1), not_understood=(note,)),)


_MINOR = re.compile(r"[23]\.\d{1,2}(?=\.|$)")
# what setup-python takes the newest Python of: github.com/actions/setup-python, docs/advanced-usage.md
_RANGE = re.compile(r"3(?:\.[x*])?|(?:[<>]=?\s?3\.\d[\d.]*[\s,]*)+")
_HOSTED = {"colab", "kaggle"}
_SHELL_CELL = re.compile(r"%%(?:bash|sh|shell|script)\b")
_MAGIC = re.compile(r"\s*(%tensorflow_version)\s+(\S+)")  # of Colab
_COMMAND = re.compile(r"\s*(?:!{1,2}|%(?=(?:pip|conda|mamba|uv)\b))")


def read_notebook(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """The environment of its kernel. Raises ManifestError: it is no notebook."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path}:{getattr(error, 'lineno', 1)}: invalid JSON") from error
    cells = data.get("cells") if isinstance(data, dict) else None
    if not isinstance(cells, list):
        raise ManifestError(f"{path}: no notebook of format 4: it has no cells")
    installed, lines, settings = Installed(), _Lines(text), list[Setting]()
    for cell in cells[:MOST_REQUIREMENTS]:
        if isinstance(cell, dict):
            source = lines.numbered(cell.get("source"))
            if cell.get("cell_type") == "code":
                read_commands([*_commands(source)], path, installed)
                magics = ((number, _MAGIC.match(line[:1000])) for number, line in source)
                settings += [Setting(one[1], one[2], Place(path, number)) for number, one in magics if one]
    metadata = table(data, "metadata")
    version, hosted = str(table(metadata, "language_info").get("version")), _HOSTED & metadata.keys()
    python = []
    if (found := _MINOR.match(version)) and not hosted:  # their Python is today's, not that of the last kernel
        place = Place(path, lines.line_of(version))
        python = [Requirement("python", f"=={found[0]}.*", place, f"python {found[0]}")]
    return (environment("notebook", path, installed, include, python=python, settings=tuple(settings)),)


class _Lines:
    """Finds the lines of the file on which the strings of the notebook stand, in their order."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def line_of(self, string: str) -> int:
        """The line of the next such string; of the last one where it is written in another way."""
        for written in (json.dumps(string, ensure_ascii=False), json.dumps(string)):
            found = self._text.find(written, self._at)
            if found >= 0:
                self._line += self._text.count("\n", self._at, found)
                self._at = found + len(written)
                break
        return self._line

    def numbered(self, source: Any) -> list[tuple[int, str]]:
        """The lines of a cell, which is one string or a list of them."""
        several = [source] if isinstance(source, str) else texts(source)
        lines = ((self.line_of(one), line) for one in several for line in one.splitlines()[:MOST_REQUIREMENTS])
        return [(number, line) for number, line in lines if len(line) <= LONGEST_LINE]


def _commands(source: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines of a cell that a shell gets, without their mark."""
    whole = bool(source) and _SHELL_CELL.match(source[0][1]) is not None
    goes_on = False
    for number, line in source[1:] if whole else source:
        mark = _COMMAND.match(line[:1000])
        if whole or goes_on or mark:
            goes_on = line.rstrip().endswith("\\")
            yield number, line[mark.end() :] if mark and not whole else line


MOST = 50  # combinations of one matrix
_EXPRESSION = re.compile(r"\$\{\{\s{0,9}(matrix|env)\.([\w-]+)\s{0,9}\}\}")


def read_workflow(path: str, root: Node, include: Include) -> tuple[Environment, ...]:
    """The environments that install TensorFlow; jobs without it are for something else."""
    found = (
        _environment(path, name, job, values, root.texts("env") | job.texts("env"), include)
        for name, job in root.pairs("jobs")
        for values in _combinations(job)
    )
    return tuple(one for one in found if has_tensorflow(one) or "lies outside" in " ".join(one.not_understood))


def _combinations(job: Node) -> Iterator[dict[str, str]]:
    """The jobs of a matrix: all combinations without those of `exclude`, then those of `include`."""
    at = ("strategy", "matrix")
    more = [one.texts() for one in job.items(*at, "include")][:MOST]
    left_out = [one.texts() for one in job.items(*at, "exclude")]
    several = {name: [item.text for item in values.items() if item.text is not None] for name, values in job.pairs(*at)}
    axes = {name: texts for name, texts in several.items() if texts and name not in ("include", "exclude")}
    if axes or not more:
        yield from (_extended(values, more) for values in islice(_combined(axes, left_out), MOST))
    yield from (one for one in more if not axes or axes.keys() & one.keys())


def _combined(axes: Mapping[str, list[str]], left_out: list[dict[str, str]]) -> Iterator[dict[str, str]]:
    for chosen in islice(product(*axes.values()), 20 * MOST):
        values = dict(zip(axes, chosen, strict=True))
        if not any(one and one.items() <= values.items() for one in left_out):
            yield values


def _extended(values: dict[str, str], more: list[dict[str, str]]) -> dict[str, str]:
    """A combination with what `include` adds to it."""
    added = [one for one in more if all(values.get(name, text) == text for name, text in one.items())]
    return values | {name: text for one in added for name, text in one.items()}


def _environment(
    path: str, name: str, job: Node, matrix: Mapping[str, str], variables: Mapping[str, str], include: Include
) -> Environment:
    def filled(text: str) -> str:
        known = {"matrix": matrix, "env": variables}
        return _EXPRESSION.sub(lambda one: known[one[1]].get(one[2], one[0]), text[:100_000])

    installed, python = Installed(), list[Requirement]()
    labels = filled(_labels(job))
    for step in _steps(job, matrix):
        begin, other = len(installed.requirements), [*_python_of_workflow(step, filled)]
        python = other or python
        if (run := step.get("run")) and run.text:
            first = run.place.line + ("\n" in run.text)  # the text of a block begins below its key
            read_commands([*enumerate(filled(run.text).splitlines(), first)], path, installed)
        # of another Python; or of a step that need not be run, or end the job
        begin = 0 if other else begin
        if other or "windows" in labels.lower() or any(map(step.get, ("if", "continue-on-error", "shell"))):
            installed.requirements[begin:] = [replace(one, fatal=False) for one in installed.requirements[begin:]]
    container = job.get("container", "image") or job.get("container")
    values = ", ".join(f"{key} {value}" for key, value in matrix.items())
    return environment(
        "workflow",
        path,
        installed,
        include,
        contexts=("../..",),  # the root of the repository, from .github/workflows
        python=python,
        image=read_image(filled(container.text), container.place) if container and container.text else None,
        label=f"{path}, job {name}" + (f" ({values})" if values else ""),
        place=job.place,
        gpu=_gpu(job, labels),
        matrix=tuple(_chosen(job, matrix)),
        **_runner(labels),
    )


_COMPARED = re.compile(r"matrix\.([\w-]+)\s*(==|!=)\s*'?([^'\s]*)'?")


def _steps(job: Node, matrix: Mapping[str, str]) -> Iterator[Node]:
    """The steps that a combination has: no part of whose condition compares with another value than its own."""
    for step in job.items("steps"):
        bare = (step.string("if") or "").strip().removeprefix("${{").removesuffix("}}")
        parts = [] if "||" in bare else filter(None, map(_COMPARED.fullmatch, map(str.strip, bare.split("&&"))))
        compared = (((matrix[one[1]] == one[3]) == (one[2] == "==")) for one in parts if one[1] in matrix)
        if all(compared):
            yield step


def _chosen(job: Node, matrix: Mapping[str, str]) -> Iterator[Setting]:
    """The values of a combination; none beside `include`, whose jobs `exclude` does not leave out."""
    for name, axis in job.pairs("strategy", "matrix") if job.get("strategy", "matrix", "include") is None else ():
        yield from (Setting(name, str(one.text), one.place) for one in axis.items() if one.text == matrix.get(name, ""))


def _labels(job: Node) -> str:
    """What a job says of the runner that it needs."""
    wanted = (job.get("runs-on"), job.get("runs-on", "labels"))
    return " ".join(each.text for one in wanted if one for each in (one, *one.items()) if each.text)


# docs.github.com/actions/reference/runners/github-hosted-runners: macos-13, *-large and *-intel are Intel's
_OF_INTEL = re.compile(r"macos-(?:1[0-3](?!\d)(?!-xlarge)|\d+-(?:large|intel)|latest-large)|\bx64\b", re.IGNORECASE)


def _runner(labels: str) -> dict[str, Any]:
    """The system and the machine of a runner by its labels, where they are not those of most; GitHub's has no GPU."""
    words, found = labels.lower(), dict[str, Any]()
    if re.search(r"\bmacos\b", words):
        found = {"os": "macos", "machine": "x86_64" if _OF_INTEL.search(words) else "arm64"}
    elif re.search(r"\bwindows\b", words):
        found = {"os": "windows"}
    elif re.search(r"\b(?:arm64|aarch64)\b|ubuntu-[\d.]+-arm\b", words):
        found = {"machine": "aarch64"}
    return found | {"no_gpu": True} if found and not re.search("gpu|cuda|self-hosted", words) else found


def _gpu(job: Node, labels: str) -> GpuRequest | None:
    """How the container of a job asks for GPUs, which it needs to on a runner that is named for them."""
    container, options = job.get("container"), job.get("container", "options")
    if options and re.search(r"--gpus|nvidia|\$\{\{", options.text or ""):
        return GpuRequest(None, options.place, options.text or "")
    if container and re.search(r"(?<!no-)(?<!non-)gpu|cuda|nvidia", labels, re.IGNORECASE):
        why = "the options of its container request none"
        return GpuRequest(None, (options or container.get("image") or container).place, f"runs-on: {labels}", why)
    return None


def _python_of_workflow(step: Node, filled: Callable[[str], str]) -> Iterator[Requirement]:
    """What actions/setup-python is told."""
    version = step.get("with", "python-version")
    if version and version.text and "setup-python" in (step.string("uses") or ""):
        text = filled(version.text).strip()
        if found := _MINOR.match(text):
            yield Requirement("python", f"=={found[0]}.*", version.place, text)
        elif _RANGE.fullmatch(text[:100]):
            bounds = ",".join(re.findall(r"[<>]=?\s?[\d.]+", text)) or ">=3"
            yield Requirement("python", bounds, version.place, text)
