"""What `tfgpu check` found: the files, and the findings at their lines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tfgpu_doctor.facts.report import Checked, FailOn, ReadFile, Report, Verdict
from tfgpu_doctor.plan.planned import Base, PlannedEnvironment, is_empty, without_wheel
from tfgpu_doctor.render.ci import place_of
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import block, titles_of
from tfgpu_doctor.render.outlines.report import annotated, finding_case, head, verdict_checks
from tfgpu_doctor.render.shapes import Case, Checks, Items, Page, Suite, Table

_MEANING: dict[Verdict, str] = {
    "ok": "no problems found",
    "degraded": "it will run, but with problems",
    "broken": "it will not work",
    "unknown": "these files name no TensorFlow",
}
_NOT_KNOWN = "what these files install is not known"
_COMMAND = "tfgpu check"
_ON_CPU = ("cuda.missing", "tf.cpu-build")


def page(checked: Checked, detail: Detail = "shared") -> Page:
    """The files, the findings, and what is open."""
    report, titles = checked.report, titles_of(checked.report.findings)
    whole = head(report, _COMMAND, meaning(report))
    files = Table("Files", ("File", "Contains"), tuple((one.label, one.content) for one in checked.files))
    found = (block(one, titles) for one in report.findings)
    ids = detail == "full"
    reasons = (f"{item.reason} ({item.id})" if ids else item.reason for item in report.undetermined)
    is_open = Items(tuple(dict.fromkeys(reasons)), mark="unknown")
    return whole._replace(about=(*whole.about, f"for {checked.target}"), parts=(files, *found, is_open))


def checks(checked: Checked, fail_on: FailOn = "error", folder: str = "") -> Checks:
    """A suite for each file, a case for each finding on its lines; `folder` is where the files lie in the checkout."""
    report, files = checked.report, dict.fromkeys(one.path for one in checked.files)
    titles, words = titles_of(report.findings), meaning(report)
    cases: dict[str, list[Case]] = {file: [] for file in files}
    whole = verdict_checks(report, _COMMAND, words, fail_on)
    alone = [*whole.suites[0].cases]
    times = Counter((one.id, (place_of(one) or ("", 0))[0]) for one in report.findings)
    taken = Counter[tuple[str, str]]()
    for finding in report.findings:
        file, line = place_of(finding) or ("", 0)
        name = finding.id if times[finding.id, file] == 1 else f"{finding.id}, line {line}"
        taken[name, file] += 1
        name += f" ({number})" if (number := taken[name, file]) > 1 else ""
        case = Case(name, file if file in cases else "tfgpu.check")
        cases.get(file, alone).append(finding_case(case, finding, titles, fail_on))
    unread = {one.path for one in checked.files if one.unread}
    found = (Suite(file, tuple(here) or (_read_case(report, file, file in unread),)) for file, here in cases.items())
    suites = (Suite("Verdict", tuple(alone)), *found)
    marked = zip(annotated(report.findings, titles), report.findings, strict=True)
    places = (one._replace(place=place_of(finding, folder)) for one, finding in marked)
    return whole._replace(suites=suites, annotations=(*places, *whole.annotations))


def _read_case(report: Report, file: str, unread: bool) -> Case:
    why = next((one.reason for one in report.undetermined if one.reason.startswith(file)), "")
    return (
        Case("it can be read", file, "error", "could not determine", why) if unread else Case("no problems found", file)
    )


# ---------------------------------------------------------------------------------------------------------------- words


def meaning(report: Report) -> str:
    """What the verdict means; where nothing tells of a GPU, files without CUDA are sound, too."""
    if report.verdict == "ok" and any(one.id in _ON_CPU for one in report.findings):
        return "no problems found, for the CPU; with --gpu NAME it is judged for a GPU"
    return _NOT_KNOWN if report.undetermined and report.verdict == "unknown" else _MEANING[report.verdict]


def read_file(seen: PlannedEnvironment) -> ReadFile:
    """What an environment names, in a line."""
    one = seen.environment
    content = f"is {one.part_of}" if one.part_of else "; ".join(_content(seen)) or "nothing"
    content = "cannot be read" if one.unread else content
    return ReadFile(label=one.label, path=one.place.path, content=content, unread=one.unread)


def _content(seen: PlannedEnvironment) -> Iterator[str]:
    """What an environment names, and what that comes to."""
    base = seen.base
    if base:
        yield _image(base)
    if seen.tensorflow:
        row = None if is_empty(seen.tensorflow) else seen.release
        resolved = f" = {row.version}" if row and not (seen.is_open or row.version in seen.tensorflow.text) else ""
        yield f"{seen.tensorflow.text}{resolved}"
    if seen.environment.python and seen.pythons:
        yield f"Python {seen.pythons[0]}" + (f" to {seen.pythons[-1]}{_lacking(seen)}" if seen.pythons[1:] else "")
    inside = base.image.reference if base else None
    # one line can name both: nvidia-cudnn-cu12 is a cuDNN for CUDA 12
    named = dict.fromkeys(version.text for version in (*seen.cudas, *seen.cudnns))
    yield from (text for text in named if text != inside)
    if seen.environment.gpu:
        yield seen.environment.gpu.text


def _lacking(seen: PlannedEnvironment) -> str:
    found = without_wheel(seen, seen.allowed, after=True) if seen.allowed and not seen.conda else []
    return f" (no wheels for {', '.join(found)})" if found else ""


def _image(base: Base) -> str:
    of_apt = base.image.name.rpartition("/")[2] in ("cuda", "ubuntu", "debian")  # which hold none
    python = ("apt's Python" if of_apt else "Python", base.python)
    parts = (("TensorFlow", base.tensorflow), ("CUDA", base.cuda), ("cuDNN", base.cudnn), python)
    contents = ", ".join(f"{name} {version}" for name, version in parts if version)
    return base.image.reference + (f" ({contents})" if contents else "")
