"""Check manifests against the matrix, and edit them until nothing is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from msgspec import structs

from tfgpu_doctor import __version__
from tfgpu_doctor.findings.catalogue import DECLARATIONS, RANK
from tfgpu_doctor.findings.engine import diagnose
from tfgpu_doctor.findings.judging import SEVERITIES
from tfgpu_doctor.manifests import Environment, Image, ManifestError, Place, Requirement
from tfgpu_doctor.manifests.editing import Refused, apply
from tfgpu_doctor.manifests.pyproject import loads
from tfgpu_doctor.manifests.requirement import conda_requirement, pip_requirement
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan import manifest_signs as _signs_are_added  # noqa: F401
from tfgpu_doctor.plan.alternatives import is_data_centre
from tfgpu_doctor.plan.file_edits import FileEdits
from tfgpu_doctor.plan.gate import admitted
from tfgpu_doctor.plan.planned import PlannedEnvironment, planned
from tfgpu_doctor.plan.target import Target, to_facts
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Facts, Known
from tfgpu_doctor.records.report import (
    SCHEMA,
    Edit,
    Finding,
    Fix,
    Report,
    Severity,
    Tool,
    Undetermined,
    Verdict,
)
from tfgpu_doctor.records.versions import minor

# ----------------------------------------------------------------------------------------------------------------------
# Fixes of one report that go together: made all at once, they end in files that pass. Pure.
# The edits are made in the environment that was read, the lines of TensorFlow, Python and images first, and it is
# judged again, until no edit is left. What a line becomes in the end is what every fix of it says.


_MOST = 6  # times that an environment is judged again


def together(
    environment: Environment, found: Sequence[Finding], judge: Callable[[Environment], Sequence[Finding]]
) -> Iterator[Finding]:
    """The findings of an environment, with first fixes that agree with each other and need no second round."""
    made = _all_edits(environment, found, judge)
    own = {_key(edit) for one in found for edit in _first(one)}
    later = tuple(edit for edit in made if _key(edit) not in own)
    followed = [one for one in found if any(_line(environment, edit) for edit in _first(one))]
    deciding = [one for one in followed if any(_decides(environment, edit) for edit in _first(one))]
    leader = next(iter((*deciding, *followed)), None)
    for one in found:
        yield _with_final(one, made, later if one is leader else (), leader) if _first(one) else one


def _all_edits(
    environment: Environment, found: Sequence[Finding], judge: Callable[[Environment], Sequence[Finding]]
) -> list[Edit]:
    """Follow the first fixes, judge again, and so on until no fix is left that can be followed."""
    made: list[Edit] = []
    for _ in range(_MOST):
        edits = [*_next(environment, found)]
        if not edits:
            break
        for edit in edits:
            _compose(made, edit)
        environment = _edited(environment, edits)
        found = judge(environment)
    return made


def _first(one: Finding) -> tuple[Edit, ...]:
    return one.fixes[0].edits if one.fixes and one.severity is not Severity.NOTE else ()


def _next(now: Environment, found: Iterable[Finding]) -> Iterator[Edit]:
    """The edits of first fixes that can be followed: those that decide on the rest alone, where there are any."""
    open_ones: dict[tuple[object, ...], Edit] = {}
    for one in found:
        if all(_line(now, edit) for edit in _first(one)):
            for edit in _first(one):
                open_ones.setdefault(_key(edit), edit)
    deciding = [edit for edit in open_ones.values() if _decides(now, edit)]
    yield from deciding or open_ones.values()


def _decides(now: Environment, edit: Edit) -> bool:
    """Whether it changes which TensorFlow there is, or for which Python; beside a line, nothing is decided."""
    line = _line(now, edit)
    return not edit.beside and line is not None and (isinstance(line, Image) or line.name in (*TENSORFLOW, "python"))


def _line(now: Environment, edit: Edit) -> Requirement | Image | None:
    """What the edit is about."""
    images = (now.image,) if now.image and not edit.beside else ()  # beside it stand the keys of a service
    lines = (*now.requirements, *now.python, *images)
    at = [one for one in lines if (one.place.path, one.place.line) == (edit.path, edit.line)]
    return next((one for one in at if edit.old in (one.text, one.text.removeprefix("python "))), None)


def _key(edit: Edit) -> tuple[object, ...]:
    """The same for two edits of one text; of those that add something, for one package."""
    added = re.match(r"[\w.-]*", edit.new)
    return edit.path, edit.line, edit.old, added[0] if edit.beside and added else None


def _compose(made: list[Edit], edit: Edit) -> None:
    """Add an edit, which may change what an earlier one has written."""
    for index, one in enumerate(made):
        if (one.path, one.line, one.new) == (edit.path, edit.line, edit.old):
            if edit.beside:
                made.append(structs.replace(edit, old=one.old))
            elif one.beside and not edit.new:
                del made[index]
            else:
                made[index] = structs.replace(one, new=edit.new)
            return
    made.append(edit)


def _edited(now: Environment, edits: Iterable[Edit]) -> Environment:
    for edit in edits:
        line = _line(now, edit)
        if isinstance(line, Image):
            name, _, tag = edit.new.partition(":")
            now = replace(now, image=Image(name, tag or None, line.place, edit.new))
        elif line is not None:
            kept = (line,) if edit.beside else ()
            try:
                new = (*kept, *((_read(edit.new, line),) if edit.new else ()))
            except ValueError:  # a form that no reader of files understands: it stays as it is
                continue
            now = replace(
                now,
                requirements=tuple(_put(now.requirements, line, new)),
                python=tuple(_put(now.python, line, new)),
            )
    return now


def _put(lines: Iterable[Requirement], old: Requirement, new: tuple[Requirement, ...]) -> Iterator[Requirement]:
    for one in lines:
        yield from new if one is old else (one,)


def _read(text: str, old: Requirement) -> Requirement:
    """The requirement that an edit writes, as a file reader would read it."""
    if old.name == "python":
        return replace(old, specifier=_python(text, old.place), text=text if " = " in text else f"python {text}")
    if re.match(r"[\w.-]+ = ", text):
        name, value = next(iter(loads(text).items()))
        given = value if isinstance(value, dict) else {"version": value}
        specifier = given["version"].removeprefix("*")
        return replace(old, name=name, specifier=specifier, extras=tuple(given.get("extras", ())), text=text)
    if old.installer == "conda":
        return conda_requirement(text, old.place)
    one = pip_requirement(text, old.place)
    return replace(one, marker=old.marker) if one else old


def _python(text: str, place: Place) -> str:
    """The bounds on Python that are written as a key of TOML, as one spec of conda, as bounds or as a version."""
    if " = " in text:
        return str(next(iter(loads(text).values())))
    if re.search(r"\bpython\W", text):
        return conda_requirement(text, place).specifier
    return f"=={text}.*" if text[0].isdigit() else text


def _with_final(one: Finding, made: Sequence[Edit], later: tuple[Edit, ...], leader: Finding | None) -> Finding:
    """The finding with the edits that its lines need in the end; where none is left, with those of TensorFlow's."""
    final = {_key(edit): edit for edit in made}
    if not any(_key(edit) in final for edit in (*_first(one), *(_first(leader) if leader else ()))):
        return one  # nothing of it is about requirements
    edits = [final[key] for edit in _first(one) if (key := _key(edit)) in final]
    if not edits and leader is not None:
        edits = [final[key] for edit in _first(leader) if (key := _key(edit)) in final]
    whole = (*edits, *later)
    if whole == _first(one) or not whole:
        return one
    text = "; ".join(map(_sentence, whole))
    fix = Fix(f"{text[0].upper()}{text[1:]}", one.fixes[0].commands, whole)
    return structs.replace(one, fixes=(fix, *one.fixes[1:]))


def _sentence(edit: Edit) -> str:
    place = Place(edit.path, edit.line)
    if edit.beside:
        return f"beside {edit.old!r} in {place}, write {edit.new!r}"
    return (
        f"in {place}, write {edit.new!r} instead of {edit.old!r}" if edit.new else f"remove {edit.old!r} from {place}"
    )


# ----------------------------------------------------------------------------------------------------------------------
# Manifests → a report: the environments that they describe, judged by the same findings. Pure.


_EXTRAS = re.compile(r'\[[\w,-]+\]|\{ version = ("[^"]*"), extras = \[[^]]*\] \}')
_ABOUT_VISIBILITY = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")  # judged by line, in files that ask for a GPU


def judge(environments: Iterable[Environment], target: Target, matrix: Matrix, created: str) -> Report:
    """Judge every environment.

    Args:
        environments: as :func:`manifests.reading.joined` gives them.
        created: the time for the report, "2026-11-21T06:36:00Z".
    """
    views = [planned(one, target, matrix) for one in environments if one.part_of is None]
    by_view = [tuple(_agreeing(one, target, matrix)) for one in views]
    found = {(one.id, one.title, one.evidence): one for several in by_view for one in several}
    findings = sorted(found.values(), key=_rank)
    return Report(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        source="text",
        verdict=_verdict(findings, any(one.judged for one in views)),
        facts=Facts(),
        timings={},
        findings=tuple(findings),
        undetermined=(
            *_unread(views),
            *_open(one for one, found in zip(views, by_view, strict=True) if not found),
        ),
    )


def facts_of(one: PlannedEnvironment) -> Facts:
    """The facts that hold once the environment is installed on the described machine."""
    facts = to_facts(one.target)
    if isinstance(facts.python.version, Known):  # that of a file stands in the target, too
        version = structs.replace(facts.python.version, source=one.python_place)
        facts = structs.replace(facts, python=structs.replace(facts.python, version=version))
    where = str(one.environment.place)
    variables = {
        s.name: s.value for s in one.environment.settings if s.name.isupper() and s.name not in _ABOUT_VISIBILITY
    }
    facts = structs.replace(facts, variables=Known(variables, where)) if variables else facts
    if one.base and one.base.cuda and is_data_centre(one.target):  # libcuda of the forward-compatibility package
        cuda = Known(minor(one.base.cuda), str(one.base.image.place), "inferred")
        facts = structs.replace(facts, driver=structs.replace(facts.driver, cuda_supported=cuda))
    row = one.release
    if row is None or one.conda or not one.wants_gpu or not row.gpu:
        return (
            facts  # a build without CUDA is no problem where no GPU is meant, and a question to the file where one is
        )
    installed = structs.replace(
        facts.tensorflow,
        version=Known(row.version, one.where, "inferred"),
        distribution=Known(row.package, one.where, "inferred"),
    )
    return structs.replace(facts, tensorflow=installed)


def _agreeing(one: PlannedEnvironment, target: Target, matrix: Matrix) -> Iterator[Finding]:
    """The findings of an environment, whose edits go together."""

    def again(environment: Environment) -> list[Finding]:
        return sorted(_findings(planned(environment, target, matrix), matrix), key=_rank)

    facts = facts_of(one)
    for finding in together(one.environment, sorted(_findings(one, matrix), key=_rank), again):
        yield structs.replace(finding, fixes=admitted(_distinct(finding.fixes), facts, matrix))


def _distinct(fixes: Iterable[Fix]) -> Iterator[Fix]:
    """The fixes without those that write what an earlier one writes: the same release, with or without its extra."""
    seen: list[set[Edit]] = []
    for fix in fixes:
        written = {structs.replace(edit, new=_EXTRAS.sub(r"\1", edit.new)) for edit in fix.edits}
        if not written or not any(written <= one for one in seen):
            yield fix
        seen.append(written)


def _findings(one: PlannedEnvironment, matrix: Matrix) -> Iterator[Finding]:
    diagnosis = diagnose(facts_of(one), matrix, fixes=partial(FileEdits, planned=one), planned=one)
    for finding in diagnosis.findings:
        if finding.root_cause and not finding.possible:
            edited = any(fix.edits for fix in finding.fixes)
            yield structs.replace(finding, fixes=tuple(map(_without_installing, finding.fixes))) if edited else finding


def _without_installing(fix: Fix) -> Fix:
    """What an edit of a file brings is not installed by hand."""
    return structs.replace(fix, commands=tuple(one for one in fix.commands if " install " not in one))


def _rank(finding: Finding) -> tuple[int, bool, int, str]:
    """Gravest first; of warnings, the one that keeps TensorFlow from the GPU before those about the installation."""
    unused_gpu = finding.severity is Severity.WARNING and DECLARATIONS[finding.id].about_gpus
    place = finding.evidence[0].source if finding.evidence else ""
    return SEVERITIES.index(finding.severity), not unused_gpu, RANK[finding.id], place


def _verdict(findings: list[Finding], judged: bool) -> Verdict:
    severities = {one.severity for one in findings}
    if Severity.ERROR in severities:
        return "broken"
    if not judged:
        return "unknown"
    return "degraded" if Severity.WARNING in severities else "ok"


def _unread(views: Iterable[PlannedEnvironment]) -> Iterator[Undetermined]:
    """Lines that were not understood."""
    later = {line for one in views for line in one.environment.open}
    for line in dict.fromkeys(line for one in views for line in one.environment.not_understood):
        yield Undetermined(id="tf.python-unsupported", reason=line if line in later else f"not understood: {line}")


def _open(views: Iterable[PlannedEnvironment]) -> Iterator[Undetermined]:
    """What could not be judged, and why."""
    for one in views:
        if one.tensorflow and one.release is None and not one.allowed:
            reason = f"{one.tensorflow.place}: the matrix has no release that matches {one.tensorflow.text}"
            yield Undetermined(id="cuda.version-mismatch", reason=reason)


# ----------------------------------------------------------------------------------------------------------------------
# Makes the edits that findings advise in manifests, until no finding has one that can be made. Pure.


class Repair(NamedTuple):
    """What was changed, and what could not be."""

    texts: dict[str, str]  # by path, those of changed files
    refused: tuple[Refused, ...]
    report: Report  # of the files as they are then
    is_complete: bool  # no fix is left that is an edit


def repair(
    report: Report,
    text: Callable[[str], str | None],
    judge: Callable[[Mapping[str, str]], Report],
    shells: Container[str],
) -> Repair:
    """Make the first fix of each problem, all at once: they go together.

    Args:
        report: of the files as they are.
        text: of a file, by its path; None for one that must not be changed.
        judge: the report with other texts in place of some files. Raises ManifestError: one of them is no manifest.
        shells: paths of files whose lines are commands.
    """
    first = [one for one in report.findings if one.root_cause and _first(one)]
    texts, refused = _made(first, text, shells)
    try:
        after = judge(texts)
        left = {(one.id, one.title, one.evidence) for one in after.findings}
        told = {one.edit for one in refused}
        useless = [one for one in first if (one.id, one.title, one.evidence) in left and told.isdisjoint(_first(one))]
        if useless:
            texts, refused = _made([one for one in first if one not in useless], text, shells)
            refused += [Refused(_first(one)[0], f"{one.id} would remain") for one in useless]
            after = judge(texts)
    except ManifestError as error:
        reason = f"with this change the file cannot be read: {error}"
        return Repair({}, (*refused, *(Refused(_first(one)[0], reason) for one in first)), report, True)
    again = {edit for one in after.findings if one.root_cause for edit in _first(one)}
    return Repair(texts, tuple(refused), after, not again - {one.edit for one in refused})


def _made(
    findings: Iterable[Finding], text: Callable[[str], str | None], shells: Container[str]
) -> tuple[dict[str, str], list[Refused]]:
    """The texts after the first fixes of findings, by path, and the edits that cannot be made."""
    texts: dict[str, str] = {}
    refused: list[Refused] = []
    edits = dict.fromkeys(edit for one in findings for edit in _first(one))
    for path in dict.fromkeys(edit.path for edit in edits):
        own, now = [edit for edit in edits if edit.path == path], text(path)
        if now is None:
            reason = "this file is not changed: it is not a regular file, or a link to another folder"
            refused += [Refused(edit, reason) for edit in own]
        else:
            texts[path], reasons = apply(path, now, own, in_shell=path in shells)
            refused += reasons
    return texts, refused
