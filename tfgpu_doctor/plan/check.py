"""Check manifests against the matrix, and edit them until nothing is found. Pure.

The environments that files describe are judged by the same findings as a machine, whose first fixes are edits that go
together: made all at once, they end in files that pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from msgspec import structs

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import Facts, Known
from tfgpu_doctor.facts.report import (
    SCHEMA,
    Edit,
    Finding,
    Fix,
    Report,
    Severity,
    Tool,
    Undetermined,
    Verdict,
    root_causes,
)
from tfgpu_doctor.facts.versions import minor
from tfgpu_doctor.findings.catalogue import DECLARATIONS, RANK
from tfgpu_doctor.findings.engine import SEVERITIES, diagnose
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

# --------------------------------------------------------------------------------------------- environments → a report

_EXTRAS = re.compile(r'\[[\w,-]+\]|\{ version = ("[^"]*"), extras = \[[^]]*\] \}')
_ABOUT_VISIBILITY = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")  # judged by line, in files that ask for a GPU


def judge(environments: Iterable[Environment], target: Target, matrix: Matrix, created: str) -> Report:
    """Judge every environment.

    Args:
        environments: as :func:`manifests.reading.joined` gives them.
        created: the time for the report, "2026-11-21T06:36:00Z".
    """
    views = [planned(one, target, matrix) for one in environments if one.part_of is None]
    found: dict[object, Finding] = {}
    undetermined = _not_understood(views)
    for view in views:
        own = [*_agreeing(view, target, matrix)]
        found |= {_identity(one): one for one in own}
        if view.tensorflow and view.release is None and not view.allowed and not own:
            reason = f"{view.tensorflow.place}: the matrix has no release that matches {view.tensorflow.text}"
            undetermined.append(Undetermined(id="cuda.version-mismatch", reason=reason))
    return Report(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        source="text",
        verdict=_verdict(found.values(), any(one.judged for one in views)),
        facts=Facts(),
        timings={},
        findings=tuple(sorted(found.values(), key=_rank)),
        undetermined=tuple(undetermined),
    )


def _not_understood(views: Iterable[PlannedEnvironment]) -> list[Undetermined]:
    later = {line for one in views for line in one.environment.open}
    lines = dict.fromkeys(line for one in views for line in one.environment.not_understood)
    reasons = (line if line in later else f"not understood: {line}" for line in lines)
    return [Undetermined(id="tf.python-unsupported", reason=reason) for reason in reasons]


def _verdict(findings: Iterable[Finding], judged: bool) -> Verdict:
    severities = {one.severity for one in findings}
    if Severity.ERROR in severities:
        return "broken"
    if not judged:
        return "unknown"
    return "degraded" if Severity.WARNING in severities else "ok"


def _identity(one: Finding) -> object:
    return one.id, one.title, one.evidence


def facts_of(one: PlannedEnvironment) -> Facts:
    """The facts that hold once the environment is installed on the described machine."""
    facts, where = to_facts(one.target), str(one.environment.place)
    if isinstance(facts.python.version, Known):  # that of a file stands in the target, too
        version = structs.replace(facts.python.version, source=one.python_place)
        facts = structs.replace(facts, python=structs.replace(facts.python, version=version))
    settings = (each for each in one.environment.settings if each.name not in _ABOUT_VISIBILITY)
    if variables := {each.name: each.value for each in settings if each.name.isupper()}:
        facts = structs.replace(facts, variables=Known(variables, where))
    if one.base and one.base.cuda and is_data_centre(one.target):  # libcuda of the forward-compatibility package
        cuda = Known(minor(one.base.cuda), str(one.base.image.place), "inferred")
        facts = structs.replace(facts, driver=structs.replace(facts.driver, cuda_supported=cuda))
    row = one.release
    if row is None or one.conda or not one.wants_gpu or not row.gpu:
        return facts  # a build without CUDA is no problem where no GPU is meant, else a question to the file
    version, package = Known(row.version, one.where, "inferred"), Known(row.package, one.where, "inferred")
    return structs.replace(facts, tensorflow=structs.replace(facts.tensorflow, version=version, distribution=package))


def _findings(view: PlannedEnvironment, matrix: Matrix) -> list[Finding]:
    """The findings, gravest first; what an edit of a file brings is not installed by hand."""
    diagnosis = diagnose(facts_of(view), matrix, fixes=partial(FileEdits, planned=view), planned=view)
    found = root_causes(diagnosis.findings)
    for index, one in enumerate(found):
        if any(fix.edits for fix in one.fixes):
            fixes = (
                structs.replace(fix, commands=tuple(line for line in fix.commands if " install " not in line))
                for fix in one.fixes
            )
            found[index] = structs.replace(one, fixes=tuple(fixes))
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> tuple[int, bool, int, str]:
    """Gravest first; of warnings, the one that keeps TensorFlow from the GPU before those about the installation."""
    unused_gpu = finding.severity is Severity.WARNING and DECLARATIONS[finding.id].about_gpus
    place = finding.evidence[0].source if finding.evidence else ""
    return SEVERITIES.index(finding.severity), not unused_gpu, RANK[finding.id], place


def _agreeing(view: PlannedEnvironment, target: Target, matrix: Matrix) -> Iterator[Finding]:
    """The findings of an environment, whose edits go together; of fixes that write the same, the first."""
    facts = facts_of(view)

    def again(environment: Environment) -> list[Finding]:
        return _findings(planned(environment, target, matrix), matrix)

    for one in _together(view.environment, _findings(view, matrix), again):
        kept: list[Fix] = []
        seen: list[set[Edit]] = []
        for fix in one.fixes:  # the same release, with or without its extra
            written = {structs.replace(edit, new=_EXTRAS.sub(r"\1", edit.new)) for edit in fix.edits}
            if not written or not any(written <= earlier for earlier in seen):
                kept.append(fix)
            seen.append(written)
        yield structs.replace(one, fixes=admitted(kept, facts, matrix))


# --------------------------------------------------------------------------------------------- fixes that go together
# The edits are made in the environment that was read, the lines of TensorFlow, Python and images first, and it is
# judged again, until no edit is left. What a line becomes in the end is what every fix of it says.

_MOST = 6  # times that an environment is judged again


def _together(
    environment: Environment, found: Sequence[Finding], judge: Callable[[Environment], Sequence[Finding]]
) -> Iterator[Finding]:
    """The findings of an environment, with first fixes that agree with each other and need no second round."""
    made = _made_in_rounds(environment, found, judge)
    own = {_key(edit) for one in found for edit in _first(one)}
    later = [edit for edit in made if _key(edit) not in own]
    final = {_key(edit): edit for edit in made}
    leader = _leader(environment, found)

    def in_the_end(one: Finding | None) -> list[Edit]:
        return [final[key] for key in map(_key, _first(one) if one else ()) if key in final]

    for one in found:
        # where no edit of its own is left in the end, those of TensorFlow's line repair it
        edits = in_the_end(one) or in_the_end(leader)
        whole = (*edits, *(later if one is leader else ()))
        if not edits or not _first(one) or whole == _first(one):
            yield one
            continue
        text = "; ".join(map(_sentence, whole))
        fix = Fix(f"{text[0].upper()}{text[1:]}", one.fixes[0].commands, whole)
        yield structs.replace(one, fixes=(fix, *one.fixes[1:]))


def _leader(environment: Environment, found: Iterable[Finding]) -> Finding | None:
    """The first finding whose edits decide on the rest, or else can be followed."""
    followed = [one for one in found if any(_line(environment, edit) for edit in _first(one))]
    deciding = (one for one in followed if any(_decides(environment, edit) for edit in _first(one)))
    return next(deciding, next(iter(followed), None))


def _made_in_rounds(
    now: Environment, found: Sequence[Finding], judge: Callable[[Environment], Sequence[Finding]]
) -> list[Edit]:
    """Follow the first fixes, judge again, and so on until no fix is left that can be followed."""
    made: list[Edit] = []
    for _ in range(_MOST):
        edits = _followed(now, found)
        if not edits:
            break
        for edit in edits:
            _compose(made, edit)
        now = _edited(now, edits)
        found = judge(now)
    return made


def _first(one: Finding) -> tuple[Edit, ...]:
    return one.fixes[0].edits if one.fixes and one.severity is not Severity.NOTE else ()


def _followed(now: Environment, found: Iterable[Finding]) -> list[Edit]:
    """The edits of first fixes that can be followed: those that decide on the rest alone, where there are any."""
    edits: dict[object, Edit] = {}
    for one in found:
        if all(_line(now, edit) for edit in _first(one)):
            for edit in _first(one):
                edits.setdefault(_key(edit), edit)
    return [edit for edit in edits.values() if _decides(now, edit)] or [*edits.values()]


def _decides(now: Environment, edit: Edit) -> bool:
    """Whether it changes which TensorFlow there is, or for which Python; beside a line, nothing is decided."""
    line = _line(now, edit)
    return not edit.beside and line is not None and (isinstance(line, Image) or line.name in (*TENSORFLOW, "python"))


def _line(now: Environment, edit: Edit) -> Requirement | Image | None:
    """What the edit is about."""
    images = (now.image,) if now.image and not edit.beside else ()  # beside it stand the keys of a service
    at = [one for one in (*now.requirements, *now.python, *images) if one.place == Place(edit.path, edit.line)]
    return next((one for one in at if edit.old in (one.text, one.text.removeprefix("python "))), None)


def _key(edit: Edit) -> object:
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
            try:
                new = [line] if edit.beside else []
                new += [_read(edit.new, line)] if edit.new else []
            except ValueError:  # a form that no reader of files understands: it stays as it is
                continue
            now = replace(now, requirements=_put(now.requirements, line, new), python=_put(now.python, line, new))
    return now


def _put(lines: Iterable[Requirement], old: Requirement, new: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(each for one in lines for each in (new if one is old else (one,)))


def _read(text: str, old: Requirement) -> Requirement:
    """The requirement that an edit writes, as a file reader would read it."""
    if re.match(r"[\w.-]+ = ", text):  # a key of TOML
        name, value = next(iter(loads(text).items()))
        given = value if isinstance(value, dict) else {"version": value}
        specifier = given["version"].removeprefix("*")
        return replace(old, name=name, specifier=specifier, extras=tuple(given.get("extras", ())), text=text)
    if old.name == "python":  # one spec of conda, bounds, or a version
        of_conda = re.search(r"\bpython\W", text) and conda_requirement(text, old.place)
        specifier = of_conda.specifier if of_conda else f"=={text}.*" if text[0].isdigit() else text
        return replace(old, specifier=specifier, text=f"python {text}")
    if old.installer == "conda":
        return conda_requirement(text, old.place)
    one = pip_requirement(text, old.place)
    return replace(one, marker=old.marker) if one else old


def _sentence(edit: Edit) -> str:
    place = Place(edit.path, edit.line)
    if edit.beside:
        return f"beside {edit.old!r} in {place}, write {edit.new!r}"
    return (
        f"in {place}, write {edit.new!r} instead of {edit.old!r}" if edit.new else f"remove {edit.old!r} from {place}"
    )


# ------------------------------------------------------------------------------------------------- files are edited


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
        if useless := _without_effect(first, refused, after):
            texts, refused = _made([one for one in first if one not in useless], text, shells)
            refused += [Refused(_first(one)[0], f"{one.id} would remain") for one in useless]
            after = judge(texts)
    except ManifestError as error:
        reason = f"with this change the file cannot be read: {error}"
        return Repair({}, (*refused, *(Refused(_first(one)[0], reason) for one in first)), report, True)
    again = {edit for one in after.findings if one.root_cause for edit in _first(one)}
    return Repair(texts, tuple(refused), after, not again - {one.edit for one in refused})


def _without_effect(made: Iterable[Finding], refused: Iterable[Refused], after: Report) -> list[Finding]:
    """The findings whose edits were made and that are still there."""
    left, told = {_identity(one) for one in after.findings}, {one.edit for one in refused}
    return [one for one in made if _identity(one) in left and told.isdisjoint(_first(one))]


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
