"""What is asked of a whole report, whatever was found: its advice, its evidence, its verdict."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import pytest
from packaging.requirements import InvalidRequirement, Requirement

from tests.healthy import MATRIX
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import (
    Evidence,
    Finding,
    Fix,
    Report,
    Severity,
    exit_code,
    load_report,
    problem_counts,
    verdict_sentence,
)
from tfgpu_doctor.findings.symptoms import SYMPTOMS
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan import gate
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.gate import Situation, refused
from tfgpu_doctor.render.outline import blocks

_INSTALL = re.compile(r"\b(?:pip|pip3) install\b(.*)")
_TENSORFLOW = re.compile(
    r"""(?<![\w.-])(?:tensorflow|tensorflow-gpu|tensorflow-cpu)(?:\[[\w,-]+\])?(?![\w.\[-])([^'"\s]*)"""
)
# variables that take a list, set in a shell, a file, Python or cmd
_LISTS = re.compile(
    r"""(?<![\w$#{%])(LD_LIBRARY_PATH|PYTHONPATH|PATH|TF_XLA_FLAGS|XLA_FLAGS|NVCC_APPEND_FLAGS)"""
    r"""(?:["']?\]?\s?[=:]\s*(?!\$null)|(?<=setx PATH) |(?<=setx XLA_FLAGS) )["']?([^\s=]*)"""
)
_ASKED = re.compile(r"\$\([^\n]*\)")  # a version that the command asks of the interpreter
# what evidence says in the words of this tool about a value of the text: "compute capability 8.6", "no GPU"
_OWN_WORDS = {
    *("bit", "capability", "compute", "contains", "cuda", "cudnn", "driver", "free", "gpu", "in", "kernel", "library"),
    *("mac", "macos", "module", "no", "nvidia", "of", "offered", "on", "os", "physical", "python", "tensorflow", "the"),
    *("use", "version", "versions", "windows"),
}
# evidence that names another place than the text
_ELSEWHERE = re.compile(r"\(wheel\)|compat_matrix|wheels|get_build_info|inferred|^one of | works$")
_WORD = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)*")


def complaints(findings: Iterable[Finding]) -> list[str]:
    """What is wrong with the fixes of one report."""
    roots = [one for one in findings if one.root_cause and not one.possible]
    return [*_unpinned(findings), *_releases(roots), *_twice(roots)]


def unfit(facts: Facts, matrix: Matrix, findings: Iterable[Finding]) -> list[str]:
    """The fixes that a fact speaks against, or that follow on one which is not there (law 11)."""
    situation, wrong = Situation(facts, matrix), []
    for one in findings:
        for fix in one.fixes:
            if not fix.decides and (reason := refused(fix, situation)):
                wrong.append(f"{one.id}, {reason.__name__}: {fix.text} {' '.join(fix.commands)}")
        wrong += [f"{one.id} begins with Or: {fix.text}" for fix in one.fixes[:1] if fix.text.startswith("Or ")]
    return wrong


class Watched:
    """What the gate was asked, and what it answered."""

    def __init__(self) -> None:
        self.passed: list[Fix] = []
        self.refused: list[tuple[str, Fix]] = []

    def note(self, fix: Fix, situation: gate.Situation) -> gate.Reason | None:
        reason = refused(fix, situation)
        if reason is None:
            self.passed += (*gate.joined((fix,)), *gate.joined((fix, fix))[1:])
        elif reason not in (
            gate.is_for_another_program,
            gate.is_of_another_major,
            gate.was_tried,
        ):  # the reader decides
            self.refused.append((reason.__name__, fix))
        return reason

    def has_passed(self, fix: Fix) -> bool:
        """A possible cause is told without the commands of its repair."""
        alike = (one for one in self.passed if (one.text, one.edits) == (fix.text, fix.edits))
        return fix.decides or any(set(fix.commands) <= set(one.commands) for one in alike)


def refused_repairs(report: bytes) -> list[tuple[str, str]]:
    """What the gate refuses of the repairs that are made for the facts of a report."""
    watched, facts = Watched(), load_report(report, "the report").facts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "refused", watched.note)
        make_report(facts, MATRIX, source="report", timings={})
    return [(reason, fix.text) for reason, fix in watched.refused]


def pins(command: str) -> list[str]:
    """The versions of TensorFlow that a command installs; an empty one where it names none."""
    installed = _INSTALL.search(command)
    return _TENSORFLOW.findall(installed[1]) if installed else []


def overwritten(command: str, before: Mapping[str, str] = {}) -> list[str]:
    """The values of lists that a command sets: it neither adds to those `before` nor removes a part of them."""
    return [
        value
        for name, value in _LISTS.findall(command)
        if not re.search(rf"\$\{{?(?:env:)?{name}\b|%{name}%|environ\.get\(.{name}\b", command[command.index(value) :])
        and not re.search(rf"not defined {name} |-not \$env:{name}\)", command)
        and not {one.strip("'\"") for one in value.split(":")} <= {*before.get(name, "").split(":"), ""}
    ]


def _unpinned(findings: Iterable[Finding]) -> Iterator[str]:
    """pip brings the newest release then, which may be one that cannot use the GPU here."""
    for one in findings:
        for fix in one.fixes:
            yield from (f"{one.id}: no version in {line}" for line in fix.commands if "" in pins(_ASKED.sub("", line)))


def _releases(roots: list[Finding]) -> Iterator[str]:
    """The first fixes of all root causes belong together; the others of a finding are alternatives.

    What is installed in WSL2 is in another system than the rest, and may be another release.
    """
    first = [(one.id, fix) for one in roots for fix in one.fixes[:1] if fix.commands[:1] != ("wsl --install",)]
    named = {pin: finding for finding, fix in first for line in fix.commands for pin in pins(line)}
    if len(named) > 1:
        yield f"several releases are advised: {named}"


def _twice(roots: list[Finding]) -> Iterator[str]:
    """What one command repairs is one fault."""
    first = [
        line for one in roots for fix in one.fixes[:1] for line in fix.commands[:1] if not line.startswith("tfgpu")
    ]
    yield from (f"advised {number} times: {line}" for line, number in Counter(first).items() if number > 1)


def flaws(text: str, report: Report) -> list[str]:
    """What is wrong with a report on a text."""
    findings = report.findings
    here = [one for one in findings if one.id != "tf.wrong-env"]  # what the text lists is somewhere else
    each = [fix.commands for one in here for fix in one.fixes]
    commands = [line for lines in each if not any("uninstall" in line for line in lines) for line in lines]
    return [
        *complaints(findings),
        *unfit(report.facts, MATRIX, findings),
        *_invented(text, findings),
        *_idle(text, commands),
        *_guesses(findings),
        *contradictions(report),
    ]


def contradictions(report: Report) -> Iterator[str]:
    """What does not fit together in a report."""
    grave = [one for one in report.findings if one.severity is not Severity.NOTE]
    sentence = verdict_sentence(report)
    if any(one.possible and one.severity is Severity.ERROR for one in grave):
        yield "a possible error"
    verdict = (report.verdict, exit_code(report, "warning"), problem_counts(report))
    if grave and all(one.possible for one in grave) and verdict != ("unknown", 3, ""):
        yield f"only what is possible, but: {verdict}, {sentence}"
    if grave and "nothing that explains" in sentence:
        yield f"causes, but: {sentence}"
    yield from (f"{one.id} has no reason, or no title" for one in grave if not one.cause.strip() or not one.title)
    steps = [line for block in blocks(report) for line in block.lines if line.text.startswith("To decide")]
    for decide in (line.commands for line in steps):
        if len(decide) != len(set(decide)):
            yield f"what decides is printed twice: {decide}"


def _guesses(findings: Iterable[Finding]) -> Iterator[str]:
    """Only the likeliest has commands that repair it, where no problem is certain; each has what decides."""
    possible = [one for one in findings if one.possible]
    grave = [one for one in findings if one.severity is not Severity.NOTE and one.id not in SYMPTOMS]
    for number, one in enumerate(possible):
        repairs = [fix for fix in one.fixes if fix.commands and not fix.decides]
        if repairs and (number or any(not other.possible for other in grave)):
            yield f"{one.id} is not the likeliest, and is repaired"
        if not any(fix.decides for fix in one.fixes):
            yield f"{one.id} has nothing that decides"


def _invented(text: str, findings: Iterable[Finding]) -> Iterator[str]:
    """Evidence that does not stand in the text; an answer shows what the matrix says of a release."""
    for finding in findings:
        for one in finding.evidence if finding.id != "tf.which-release" else ():
            if missing := _not_in(text, one):
                yield f"{finding.id}: {one.saw} ({', '.join(missing)}) from {one.source}"


def _not_in(text: str, evidence: Evidence) -> list[str]:
    """The words and numbers of evidence that the text does not have; a quoted line is there as a whole."""
    if evidence.saw.endswith(("MiB free", "MiB in use", "32-bit Python")):
        return []  # converted
    found, whole = " ".join(evidence.saw.split()), " ".join(text.split())
    shown = found.removesuffix("...").removesuffix("…").rstrip()
    if shown in whole or _ELSEWHERE.search(evidence.source):
        return []
    ascii_words = re.findall(r"[\w.-]*\w", whole.lower(), re.ASCII)  # "restart" of "restart해도"
    there = {*_WORD.findall(whole.lower()), *ascii_words}
    flat = re.sub(r"\W", "", whole.lower())
    words = _WORD.findall(found.lower())
    return [one for one in words if one not in there | _OWN_WORDS and not _is_spelled(one, flat)]


def _is_spelled(word: str, flat: str) -> bool:
    """Whether a number stands in the text in another spelling: 8.6 as compute_86, or as "major: 8 minor: 6"."""
    return word[0].isdigit() and (word.replace(".", "") in flat or f"major{word.replace('.', 'minor')}" in flat)


def _idle(text: str, commands: Iterable[str]) -> Iterator[str]:
    """Commands that only ask for what the text lists already; TensorFlow itself may be asked for once more."""
    text = re.sub(r"\b(?:has requirement|requires) \S+", "", text)  # which is not there
    for command in commands:
        asked = [one for one in _requirements(command) if one.specifier and not one.extras]
        if {one.name for one in asked} - {"tensorflow"} and all(_has(text, one) for one in asked):
            yield f"changes nothing: {command}"


def _requirements(command: str) -> Iterator[Requirement]:
    if "pip" in command and " install " in command and "reinstall" not in command and "$(" not in command:
        for word in shlex.split(command)[command.split().index("install") + 1 :]:
            try:
                yield Requirement(word)
            except InvalidRequirement:
                continue


def _has(text: str, asked: Requirement) -> bool:
    """Whether a list or a sentence shows a version that will do: "numpy 1.26.4", "numpy==1.26.4"."""
    found = re.search(rf"(?<![\w-]){re.escape(asked.name)}(?:==| +)(\d+(?:\.\d+)+)(?![\w.])", text)
    return found is not None and asked.specifier.contains(found[1])
