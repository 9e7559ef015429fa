"""Workflows of GitHub Actions: for each job and each combination of its matrix, what its steps install."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, product

from tfgpu_doctor.manifests import Environment, GpuRequest, Requirement
from tfgpu_doctor.manifests.containers import read_image, unknown_part
from tfgpu_doctor.manifests.installing import Sources, pythons, with_files
from tfgpu_doctor.manifests.nodes import Node
from tfgpu_doctor.manifests.pip import Include
from tfgpu_doctor.manifests.shell import Installed, read_commands
from tfgpu_doctor.manifests.templates import shown
from tfgpu_doctor.records.distributions import TENSORFLOW

MOST = 50  # combinations of one matrix
_EXPRESSION = re.compile(r"\$\{\{\s{0,9}(matrix|env)\.([\w-]+)\s{0,9}\}\}")
_ROOT = ("../..",)  # of the repository, from .github/workflows


def is_workflow(root: Node) -> bool:
    """Whether a YAML document is one."""
    jobs = root.get("jobs")
    return jobs is not None and any(job.get("steps") is not None for _, job in jobs.pairs())


def read_workflow(path: str, root: Node, include: Include) -> tuple[Environment, ...]:
    """The environments that install TensorFlow; jobs without it are for something else."""
    jobs = root.get("jobs")
    shared = _texts(root.get("env"))
    found = (
        _environment(path, name, job, values, {**shared, **_texts(job.get("env"))}, include)
        for name, job in (jobs.pairs() if jobs else ())
        for values in _combinations(job.get("strategy", "matrix"))
    )
    return tuple(one for one in found if _has_tensorflow(one))


def _has_tensorflow(one: Environment) -> bool:
    image = one.image is not None and "tensorflow" in one.image.name
    return image or any(each.name in TENSORFLOW for each in one.requirements)


def _texts(node: Node | None) -> dict[str, str]:
    return {name: one.text for name, one in (node.pairs() if node else ()) if one.text is not None}


def _combinations(matrix: Node | None) -> Iterator[dict[str, str]]:
    """The jobs of a matrix: all combinations without those of `exclude`, then those of `include`."""
    more = [_texts(one) for one in (matrix.items("include") if matrix else ())][:MOST]
    axes = _axes(matrix)
    if axes or not more:
        left_out = [_texts(one) for one in (matrix.items("exclude") if matrix else ())]
        yield from (_extended(values, more) for values in islice(_combined(axes, left_out), MOST))
    yield from (one for one in more if not axes or axes.keys() & one.keys())


def _extended(values: dict[str, str], more: list[dict[str, str]]) -> dict[str, str]:
    """A combination with what `include` adds to it."""
    own = [one for one in more if all(values.get(name, text) == text for name, text in one.items())]
    return values | {name: text for one in own for name, text in one.items()}


def _axes(matrix: Node | None) -> dict[str, list[str]]:
    pairs = matrix.pairs() if matrix else ()
    found = {name: [item.text for item in values.items() if item.text is not None] for name, values in pairs}
    return {name: texts for name, texts in found.items() if texts and name not in ("include", "exclude")}


def _combined(axes: Mapping[str, list[str]], left_out: list[dict[str, str]]) -> Iterator[dict[str, str]]:
    for texts in islice(product(*axes.values()), 20 * MOST):
        values = dict(zip(axes, texts, strict=True))
        if not any(one and one.items() <= values.items() for one in left_out):
            yield values


def _environment(
    path: str, name: str, job: Node, matrix: Mapping[str, str], variables: Mapping[str, str], include: Include
) -> Environment:
    def filled(text: str) -> str:
        known = {"matrix": matrix, "env": variables}
        return _EXPRESSION.sub(lambda one: known[one[1]].get(one[2], one[0]), shown(text)[:100_000])

    installed, python = Installed(), list[Requirement]()
    for step in job.items("steps"):
        python = [*_python(step, filled)] or python
        if (run := step.get("run")) and run.text:
            first = run.line + ("\n" in run.text)  # the text of a block begins below its key
            read_commands([*enumerate(filled(run.text).splitlines(), first)], path, installed)
    requirements, not_understood = with_files(path, installed, Sources(contexts=_ROOT), include)
    container = job.get("container", "image") or job.get("container")
    image = read_image(filled(container.text), container.place) if container and container.text else None
    values = ", ".join(f"{key} {value}" for key, value in matrix.items())
    return Environment(
        kind="workflow",
        label=f"{path}, job {name}" + (f" ({values})" if values else ""),
        place=job.place,
        python=tuple(python or pythons(installed, requirements)),
        requirements=tuple(one for one in requirements if one.name != "python"),
        image=image,
        gpu=_gpu(job),
        not_understood=(*(unknown_part(image) if image else ()), *not_understood),
    )


def _python(step: Node, filled: Callable[[str], str]) -> Iterator[Requirement]:
    """What actions/setup-python is told."""
    version = step.get("with", "python-version")
    if version and version.text and "setup-python" in (step.string("uses") or ""):
        text = filled(version.text).strip()
        if found := re.match(r"[23]\.\d{1,2}(?=\.|$)", text):
            yield Requirement("python", f"=={found[0]}.*", version.place, text)


def _gpu(job: Node) -> GpuRequest | None:
    options = job.get("container", "options")
    asked = options is not None and "--gpus" in (options.text or "")
    return GpuRequest(None, options.place, options.text or "") if asked and options else None
