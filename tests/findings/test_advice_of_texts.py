"""What `tfgpu explain` says of a text: its evidence stands there, and its advice changes something."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TypeAlias

import pytest
from packaging.requirements import InvalidRequirement, Requirement

from tests.corpus import Outcome, earlier, report_of, reports, written
from tests.findings.advice import unfit
from tests.findings.row_texts import row_texts
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.facts.report import Evidence, Finding, Report, Severity, exit_code, problem_counts, verdict_sentence
from tfgpu_doctor.findings.engine import restrict
from tfgpu_doctor.findings.symptoms import SYMPTOMS
from tfgpu_doctor.render.outline import blocks

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


Texts: TypeAlias = dict[str, tuple[str, Report]]


@pytest.fixture(scope="module")
def texts(judged_texts: dict[str, Report]) -> Texts:
    """Return the collected reports, and the texts on which signs fire, each with what is found in it."""
    collected = {case["id"]: case["text"] for case in earlier()}
    return {name: (text, judged_texts[text]) for name, text in {**collected, **row_texts()}.items()}


def _evidence(texts: Texts) -> Iterator[tuple[str, str, str, Evidence]]:
    for name, (text, report) in texts.items():
        for finding in report.findings:
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


def test_evidence_stands_in_the_text(texts: Texts) -> None:
    invented = [
        f"{name}, {finding}: {one.saw} ({', '.join(missing)}) from {one.source}"
        for name, text, finding, one in _evidence(texts)
        # what the matrix says about a GPU that the question names, and about a release that works
        if finding != "tf.which-release" and not one.source.endswith(" works")
        if (missing := _not_in(text, one))
    ]
    assert not invented, "\n".join(invented)


def _said(finding: Finding) -> str:
    return " ".join([finding.title, finding.cause, *(f"{fix.text} {' '.join(fix.commands)}" for fix in finding.fixes)])


def test_the_first_finding_advises_what_helps(outcomes: list[Outcome]) -> None:
    """The short pastes name words of the right advice, and words that would be wrong whatever the finding."""
    wrong = []
    for one in outcomes:
        name, found = one.case["id"], one.report.findings
        wrong += [(name, "lacks", word) for word in one.case.get("advice", ()) if word not in _said(found[0])]
        wrong += [(name, "has", word) for word in one.case.get("never", ()) if any(word in _said(f) for f in found)]
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


def test_advised_bounds_change_something(texts: Texts) -> None:
    """A command that only asks for what the text lists already is a second pip command with the same end.

    TensorFlow itself may be asked for once more: in another environment, or for the sake of what it requires.
    """
    idle = []
    open_cases = {"pure-62"}  # NumPy is within the bound there, and another one is loaded
    for name, (text, report) in texts.items():
        for finding in () if name in open_cases else report.findings:
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


def test_what_decides_is_printed_once(texts: Texts) -> None:
    """Causes that the same commands tell apart share them."""
    for name, (_, report) in texts.items():
        steps = [line for block in blocks(report) for line in block.lines if line.text.startswith("To decide")]
        commands = [command for line in steps for command in line.commands]
        assert len(commands) == len(set(commands)), (name, commands)


def test_of_what_is_only_possible_the_likeliest_alone_has_commands_that_repair_it(texts: Texts) -> None:
    """And that only where no problem is certain; each has what decides."""
    seen = set()
    for name, (_, report) in texts.items():
        findings = report.findings
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


def test_no_fact_speaks_against_a_repair(texts: Texts) -> None:
    wrong = [
        f"{name}, {one}" for name, (_, report) in texts.items() for one in unfit(report.facts, MATRIX, report.findings)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_verdict_does_not_deny_what_stands_above_it(texts: Texts) -> None:
    """ "Nothing that explains a failure" is no end of a text with possible causes."""
    reports = [report for _, report in texts.values()]
    silent = [report for report in reports if "nothing that explains" in verdict_sentence(report)]
    assert not [one for report in silent for one in report.findings if one.severity is not Severity.NOTE]
    unknown = [report for report in reports if report.verdict == "unknown"]
    assert any("possible cause" in verdict_sentence(report) for report in unknown)


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


# ------------------------------------------------------------------------- what is only possible is no problem

SAID = "requirements.txt has tensorflow==1.12.0, not tensorflow-gpu"
WORKS_BUT_SLOW = (
    "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]\n"
    "TensorFlow 2.12: training is much slower than last week, the GPU shows 10 % utilization, I do not know why."
)


def contradictions(name: str, report: Report) -> Iterator[str]:
    """What does not fit together in a report."""
    grave = [one for one in report.findings if one.severity is not Severity.NOTE]
    if any(one.possible and one.severity is Severity.ERROR for one in grave):
        yield f"{name}: a possible error"
    if grave and all(one.possible for one in grave):
        said = f"{report.verdict}, {exit_code(report, 'warning')}: {verdict_sentence(report)}{problem_counts(report)}"
        if report.verdict != "unknown" or exit_code(report, "warning") != 3 or problem_counts(report):
            yield f"{name}: {said}"
    yield from (f"{name}: {one.id} has no reason" for one in report.findings if not one.cause.strip())
    yield from (f"{name}: {one.id} has no title" for one in report.findings if not one.title.strip())


def test_the_verdict_on_a_collected_text_fits_what_is_shown(outcomes: list[Outcome]) -> None:
    assert [why for one in outcomes for why in contradictions(one.case["id"], one.report)] == []


@pytest.mark.full
def test_so_it_does_on_every_collected_and_written_text() -> None:
    texts = [*reports(), *({"id": str(n), **case} for n, case in enumerate(written()))]
    assert [why for case in texts for why in contradictions(case["id"], report_of(case["text"]))] == []


@each("text", [SAID, WORKS_BUT_SLOW])
def test_what_is_possible_is_no_problem(text: str) -> None:
    report = report_of(text)
    assert report.findings, "nothing is possible"
    assert (
        list(contradictions(text, report)) == list(contradictions(text, restrict(report, (), ("tf.known-bug",)))) == []
    )
    assert all(one.possible for one in report.findings)
    assert verdict_sentence(report).startswith("this text leaves ")
