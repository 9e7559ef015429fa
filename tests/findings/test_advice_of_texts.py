"""What `tfgpu explain` says of a text: its evidence stands there, and its advice changes something."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml
from packaging.requirements import InvalidRequirement, Requirement

from tests.findings import rows_cuda, rows_import, rows_machine, rows_runtime
from tests.findings.advice import unfit
from tests.healthy import MATRIX
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.findings.commonness import SYMPTOMS
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.report import Evidence, Finding, Report, Severity
from tfgpu_doctor.records.wording import verdict_sentence
from tfgpu_doctor.render.outline import blocks

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*.yaml"))
# what evidence says in the words of this tool about a value of the text: "compute capability 8.6", "no GPU"
_OWN_WORDS = frozenset(
    re.findall(
        r"\w+",
        "bit capability compute contains cuda cudnn driver free gpu in kernel library mac macos module no nvidia of "
        "offered on os python tensorflow the use version versions windows",
    )
)
# evidence that names another place than the text
_ELSEWHERE = re.compile(r"\(wheel\)|compat_matrix|wheels|get_build_info|inferred|^one of ")
_WORD = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)*")


@cache
def texts() -> dict[str, str]:
    """The collected reports, and the texts on which signs fire."""
    found = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["text"] for path in CASES}
    for table in (rows_machine, rows_cuda, rows_import, rows_runtime):
        for finding, rows in table.FIRES.items():
            found |= {f"{finding}: {name}": text for name, text in rows.items()}
    return found


@cache
def report_of(text: str) -> Report:
    facts = text_to_facts.read(lines.read([text.encode()]), MATRIX)
    return make_report(facts, MATRIX, source="text", timings={})


def _evidence() -> Iterator[tuple[str, str, str, Evidence]]:
    for name, text in texts().items():
        for finding in report_of(text).findings:
            for one in finding.evidence:
                yield name, text, finding.id, one


def _not_in(text: str, evidence: Evidence) -> list[str]:
    """The words and numbers of evidence that the text does not have; a quoted line is there as a whole."""
    if evidence.saw.endswith(("MiB free", "MiB in use")):
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


def test_evidence_stands_in_the_text() -> None:
    invented = [
        f"{name}, {finding}: {one.saw} ({', '.join(missing)}) from {one.source}"
        for name, text, finding, one in _evidence()
        # what the matrix says about a GPU that the question names, and about a release that works
        if finding != "tf.which-release" and not one.source.endswith(" works")
        if (missing := _not_in(text, one))
    ]
    assert not invented, "\n".join(invented)


def _said(finding: Finding) -> str:
    return " ".join([finding.title, finding.cause, *(f"{fix.text} {' '.join(fix.commands)}" for fix in finding.fixes)])


def test_the_first_finding_advises_what_helps() -> None:
    """The short pastes name words of the right advice, and words that would be wrong whatever the finding."""
    wrong = []
    for path in CASES:
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = report_of(case["text"]).findings
        wrong += [(path.stem, "lacks", word) for word in case.get("advice", ()) if word not in _said(found[0])]
        wrong += [(path.stem, "has", word) for word in case.get("never", ()) if any(word in _said(f) for f in found)]
    assert not wrong, "\n".join(map(str, wrong))


def _requirements(command: str) -> list[Requirement]:
    words = shlex.split(command)[command.split().index("install") + 1 :] if " install " in command else []
    found = []
    for word in words if "pip" in command and "reinstall" not in command and "$(" not in command else ():
        try:
            found.append(Requirement(word))
        except InvalidRequirement:
            continue
    return found


def test_advised_bounds_change_something() -> None:
    """A command that only asks for what the text lists already is a second pip command with the same end.

    TensorFlow itself may be asked for once more: in another environment, or for the sake of what it requires.
    """
    idle = []
    open_cases = {"pure-62"}  # NumPy is within the bound there, and another one is loaded
    for name, text in texts().items():
        for finding in () if name in open_cases else report_of(text).findings:
            for command in (command for fix in finding.fixes for command in fix.commands):
                asked = [one for one in _requirements(command) if one.specifier and not one.extras]
                met = [one for one in asked if (has := _version_in(text, one.name)) and one.specifier.contains(has)]
                if asked and len(met) == len(asked) and {one.name for one in asked} != {"tensorflow"}:
                    idle.append(f"{name}, {finding.id}: {command}")
    assert not idle, "\n".join(idle)


def _version_in(text: str, package: str) -> str | None:
    """The version that a list or a sentence shows: "numpy 1.26.4", "numpy==1.26.4"."""
    found = re.search(rf"(?<![\w-]){re.escape(package)}(?:==| +)(\d+(?:\.\d+)+)(?![\w.])", text)
    return found[1] if found else None


def test_what_decides_is_printed_once() -> None:
    """Causes that the same commands tell apart share them."""
    for name, text in texts().items():
        steps = [line for block in blocks(report_of(text)) for line in block.lines if line.text.startswith("To decide")]
        commands = [command for line in steps for command in line.commands]
        assert len(commands) == len(set(commands)), (name, commands)


def test_of_what_is_only_possible_the_likeliest_alone_has_commands_that_repair_it() -> None:
    """And that only where no problem is certain; each has what decides."""
    seen = set()
    for name, text in texts().items():
        findings = report_of(text).findings
        possible = [one for one in findings if one.possible]
        certain = [
            one for one in findings if not one.possible and one.severity is not Severity.NOTE and one.id not in SYMPTOMS
        ]
        for one in possible[0 if certain else 1 :]:
            assert not [fix for fix in one.fixes if fix.commands and not fix.decides], (name, one.id)
        for one in possible:
            assert any(fix.decides for fix in one.fixes), (name, one.id)
        seen |= {one.id for one in possible}
    assert len(seen) > 10


def test_no_fact_speaks_against_a_repair() -> None:
    wrong = [
        f"{name}, {one}"
        for name, text in texts().items()
        for one in unfit(report_of(text).facts, MATRIX, report_of(text).findings)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_verdict_does_not_deny_what_stands_above_it() -> None:
    """ "Nothing that explains a failure" is no end of a text with possible causes."""
    silent = [text for text in texts().values() if "nothing that explains" in verdict_sentence(report_of(text))]
    assert not [text for text in silent if any(one.severity is not Severity.NOTE for one in report_of(text).findings)]
    texts_ = [report for text in texts().values() if (report := report_of(text)).verdict == "unknown"]
    assert any("possible cause" in verdict_sentence(report) for report in texts_)


def test_a_bug_about_an_architecture_is_no_second_problem() -> None:
    """That a release has no kernels for a GPU is what gpu.arch-too-new says already."""
    ending = "failed with 'CUDA_ERROR_INVALID_HANDLE'"
    followers = 0
    for card in ("RTX 5070", "RTX 5090", "B200"):
        for release in ("2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0"):
            text = f"{card}, TensorFlow {release}\ntensorflow.python.framework.errors_impl.InternalError: {ending}\n"
            found = report_of(text).findings
            roots = [one.id for one in found if one.root_cause and not one.possible]
            assert roots == ["gpu.arch-too-new"], (card, release, roots)
            followers += any(one.id == "tf.known-bug" for one in found)
    assert followers
