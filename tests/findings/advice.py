"""What is asked of the advice of a whole report, whatever was found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.healthy import MATRIX
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Finding, Fix, load_report
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan import gate
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.gate import Situation, refused

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
        else:
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
        if not re.search(rf"\$\{{?(?:env:)?{name}\b|%{name}%", command[command.index(value) :])
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
