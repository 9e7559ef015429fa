"""Every sign over messages: texts on which it fires, texts that only look alike, and silence.

A failure names finding and row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from tests.corpus import by_signs_alone
from tests.findings.advice import flaws, overwritten
from tests.findings.row_texts import FIRES, FIRST, LIVE, LOOK_ALIKES, NAMED_FIRST, POSSIBLE, TEXTS
from tests.findings.rows_over_facts import NO_GPU_LISTED, env
from tests.healthy import MATRIX, healthy, known, spoil
from tests.parsers.pasted import created, samples
from tests.tables import each
from tfgpu_doctor.facts.facts import Facts, Known, Phase, Unknown
from tfgpu_doctor.facts.report import Finding, Report, Severity
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import Declaration, Sign
from tfgpu_doctor.findings.engine import COMMON
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.probes.examine import _messages

CERTAIN = {i: one for i, one in DECLARATIONS.items() if any(sign.reads_messages for sign in one.signs)}
OPEN = {i: one for i, one in DECLARATIONS.items() if one.symptoms}
GUESSED = {cause for table in COMMON.values() for causes in table.values() for cause in causes}
# what probes look at themselves, so that a printed line cannot bring it back
PROBED = {i for i, one in CERTAIN.items() if any(sign.conclusive for sign in one.signs)}
HARMLESS = {"benign.log", "tensorrt.missing-benign"}
Judged = dict[str, Report]


def rows(table: dict[str, dict[str, str]]) -> list[tuple[str, str, str]]:
    """Finding, name of the row and text."""
    return [(finding, name, text) for finding, texts in table.items() for name, text in texts.items()]


@cache
def facts_of(text: str) -> Facts:
    return text_to_facts.read(lines.read([text.encode()]), MATRIX)


def findings(text: str) -> list[Finding]:
    return list(by_signs_alone(text).findings)


def shown_by(signs: Iterable[Sign], declared: Declaration, facts: Facts) -> bool:
    """Whether these signs show their finding, whatever else does."""
    alone = replace(declared, signs=[*signs], symptoms=())
    return bool(diagnose(facts, MATRIX, declarations=[alone]).findings)


def fires(finding: str, facts: Facts) -> bool:
    """Whether its signs over messages show it; where it has none, any sign."""
    declared = DECLARATIONS[finding]
    return shown_by([sign for sign in declared.signs if sign.reads_messages] or declared.signs, declared, facts)


def what_is_wrong(finding: str, report: Report) -> str | None:
    """Why a row of FIRES does not hold."""
    found = {one.id: one for one in report.findings}
    if finding not in found:
        return f"found instead: {list(found)}"
    one = found[finding]
    if one.possible or not one.cause or not one.evidence or not all(line.saw for line in one.evidence):
        return "only possible, or without a cause or evidence"
    if not one.fixes and finding not in HARMLESS:
        return "has no fix"
    return None if fires(finding, report.facts) else "its signs over messages are silent, and another one fires"


def test_fires(judged_rows: Judged) -> None:
    found = [(finding, name, what_is_wrong(finding, judged_rows[text])) for finding, name, text in rows(FIRES)]
    assert [row for row in found if row[2]] == []


def test_is_named_first(judged_rows: Judged) -> None:
    first = [(finding, text, judged_rows[text].findings[0]) for finding, text in NAMED_FIRST]
    assert [row for row in first if row[2].id != row[0] or row[2].possible or not row[2].fixes] == []


def test_look_alikes_are_no_errors(judged_rows: Judged) -> None:
    wrong = []
    for finding, name, text in rows(LOOK_ALIKES):
        usual = DECLARATIONS[finding].severity
        found = [one for one in judged_rows[text].findings if one.id == finding and not one.possible]
        if any(one.severity is Severity.ERROR or usual is not Severity.ERROR for one in found):
            wrong.append((finding, name))
    assert wrong == []


def test_no_report_has_flaws(judged_rows: Judged) -> None:
    wrong = [(text, why) for text, report in judged_rows.items() for why in flaws(text, report)]
    for text, report in judged_rows.items():
        commands = [line for one in report.findings for fix in one.fixes for line in fix.commands]
        wrong += [(text, line) for line in commands if overwritten(line)]
    assert wrong == [], "\n".join(map(str, wrong))


def test_silence_says_nothing(judged_rows: Judged) -> None:
    """The unknown row: no message, or a report of a version that did not read any."""
    silent = [Facts(messages=known((), "the text")), facts_of(""), healthy()]
    assert [finding for finding in CERTAIN if any(fires(finding, facts) for facts in silent)] == []
    read = [(finding, judged_rows[text].facts) for finding, _, text in rows(FIRES) if finding in CERTAIN]
    unread = [(finding, msgspec.structs.replace(facts, messages=Unknown("not read"))) for finding, facts in read]
    assert [finding for finding, facts in unread if fires(finding, facts)] == []


def test_probes_know_better_than_words(judged_rows: Judged) -> None:
    """A printed line cannot bring back what the probes of a healthy machine rule out."""
    wrong = []
    for finding, name, text in rows({finding: FIRES[finding] for finding in PROBED & set(FIRES)}):
        machine = spoil(healthy(), {"messages": judged_rows[text].facts.messages})
        if diagnose(machine, MATRIX, declarations=[DECLARATIONS[finding]]).findings:
            wrong.append((finding, name))
    assert wrong == []


def test_live_messages() -> None:
    wrong = []
    for finding, name, row in rows(LIVE):
        log = catalogue.read(lines.read([row["log"].encode()]).lines)
        changes = {"messages": Known(log, "TensorFlow's log"), **(env(**row["env"]) if "env" in row else {})}
        changes |= {} if row.get("lists_gpu", True) else {"tensorflow.devices": NO_GPU_LISTED}
        found = [one.id for one in diagnose(spoil(healthy(), changes), MATRIX).findings]
        if (finding in found) is not row.get("fires", True):
            wrong.append((finding, name, found))
    assert wrong == []


_PYWRAP = "/env/lib/python3.12/site-packages/tensorflow/python/_pywrap_tensorflow_internal.so"
_WINDOWS = {"host.os": known("windows"), "python.wheel_platform": known("windows_amd64")}
RAISED: list[dict[str, Any]] = TEXTS["raised"]  # what the import raised, and the end of its log


def machine(exception: str, log: tuple[str, ...] = (), **changes: Any) -> Facts:
    """A machine on which the import raised this; its messages are read as the probe reads them."""
    ok = healthy().tensorflow.phases
    phases = tuple(
        Phase(name=phase.name, outcome="raised", exception=exception, log_tail=log)
        if phase.name == "import"
        else msgspec.structs.replace(phase, outcome="ok" if number < 2 else "skipped")
        for number, phase in enumerate(ok)
    )
    facts = spoil(healthy(), {"tensorflow.phases": phases, "tensorflow.log": known(()), **changes})
    return spoil(facts, {"messages": _messages(facts.tensorflow, facts.driver)})


@each("row", RAISED)
def test_the_root_cause_is_named_as_in_a_pasted_text(row: dict[str, Any]) -> None:
    changes = _WINDOWS if "windows" in row else {}
    found = diagnose(machine(row["raised"], tuple(row.get("log", ())), **changes), MATRIX).findings
    causes = [one.id for one in found if one.root_cause and one.severity.value == "error"]
    assert causes[:1] == [row["finding"]], [one.id for one in found]
    assert "tf.import-failed" not in causes
    assert row["finding"] in [one.id for one in findings("\n".join((*row.get("log", ()), row["raised"])))]


def test_an_exception_that_nobody_knows_stays_unexplained() -> None:
    """ "DLL load failed" tells something on Windows alone."""
    for raised in ("RuntimeError: broken", "ImportError: DLL load failed while importing _pywrap_tensorflow_internal"):
        assert [one.id for one in diagnose(machine(raised), MATRIX).findings if one.root_cause] == ["tf.import-failed"]


def test_the_c_library_of_this_machine_is_evidence() -> None:
    found = diagnose(machine("ImportError: /lib64/libc.so.6: version `GLIBC_2.27' not found"), MATRIX).findings
    assert (found[0].evidence[0].saw, found[0].evidence[0].need) == ("glibc 2.39", "GLIBC_2.27 or newer")


@each(
    ("library", "version"),
    [("libstdc++.so.6", "GLIBCXX_3.4.19"), ("libstdc++.so.6", "CXXABI_1.3.7"), ("libc.so.6", "GLIBC_2.17")],
)
def test_an_older_library_on_ld_library_path_is_taken_off(library: str, version: str) -> None:
    """Not conda and not a newer distribution: the system has what TensorFlow needs."""
    raised = f"ImportError: /old/lib/{library}: version `{version}' not found (required by {_PYWRAP})"
    path = known({"LD_LIBRARY_PATH": "/opt/mine:/old/lib/"})
    (found,) = (one for one in diagnose(machine(raised, variables=path), MATRIX).findings if one.root_cause)
    assert found.title == f"LD_LIBRARY_PATH puts an older {library} before the one of the system"
    assert [one.commands for one in found.fixes] == [("export LD_LIBRARY_PATH=/opt/mine",)]
    elsewhere = known({"LD_LIBRARY_PATH": "/env/lib/python3.12/site-packages/tensorflow/python:/lib"})
    found = diagnose(machine(raised, variables=elsewhere), MATRIX).findings[0]
    assert "LD_LIBRARY_PATH" not in found.title


def test_what_stays_open_is_a_warning_behind_what_is_certain() -> None:
    wrong = []
    for finding, name, text in rows({f: row["open"] for f, row in POSSIBLE.items()}):
        found = findings(text)
        place = next((n for n, one in enumerate(found) if one.id == finding), None)
        if place is None or found[place].severity is not Severity.WARNING or not found[place].possible:
            wrong.append((finding, name, [one.id for one in found], "no possible warning"))
        behind = [one for one in found[place:] if one.severity is not Severity.NOTE and one.root_cause]
        if not found[place or 0].fixes or not all(one.possible for one in behind):
            wrong.append((finding, name, "stands before what is certain, or does not say what decides"))
    assert wrong == []


def test_what_is_certain_replaces_the_possibility() -> None:
    wrong = []
    for finding, name, text in rows({f: row.get("replaced", {}) for f, row in POSSIBLE.items()}):
        alone = replace(DECLARATIONS[finding], signs=[])
        suspected = [one.possible for one in diagnose(facts_of(text), MATRIX, declarations=[alone]).findings]
        found = [one.possible for one in findings(text) if one.id == finding]
        if suspected != [True] or found != [False]:
            wrong.append((finding, name, suspected, found))
    assert wrong == []


def test_harmless_lines_are_notes() -> None:
    wrong = []
    for _, line, values in samples("harmless"):
        found = {one.id: one.severity for one in findings(line)}
        if Severity.ERROR in found.values() or not HARMLESS & set(found):
            wrong.append((values["what"], found))
    assert wrong == []


def test_lines_that_frighten_are_named_first() -> None:
    factory = "cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN"
    plain = "This TensorFlow binary is optimized to use available CPU instructions"
    without = "TF-TRT Warning: Could not find TensorRT"
    assert [one.id for one in findings(f"{factory}\n{without}")] == ["benign.log", "tensorrt.missing-benign"]
    assert [one.id for one in findings(f"{plain}\n{without}")] == ["tensorrt.missing-benign", "benign.log"]


def test_a_gpu_that_works_is_not_accused() -> None:
    """Beside it, other lines are no errors; and of lines that are always harmless there are only notes."""
    works = created()
    severe = {name: findings(f"{text}\n{works}") for name, text in TEXTS["working"].items()}
    assert [name for name, found in severe.items() if any(one.severity is Severity.ERROR for one in found)] == []
    every = "\n".join(line for _, line, _ in samples("harmless"))
    fine = [one for text in (every, "", *FIRST["fine"].values()) for one in findings(f"{text}\n{works}")]
    assert {one.severity for one in fine} == {Severity.NOTE}
    assert {one.id for one in fine if not one.id.startswith("env.")} == HARMLESS
    assert by_signs_alone(f"{every}\n{works}").verdict == "ok"


def test_every_finding_has_its_texts() -> None:
    # variables that TensorFlow refuses in its own words have their rows in rows/named_first.yaml
    of_variables = {one for one in CERTAIN if one.startswith("env.")} - {"env.xla-flags"}
    assert set(CERTAIN) - of_variables - {"tf.windows-native"} - set(FIRES) == set()  # facts alone show that one
    assert set(LOOK_ALIKES) == set(FIRES)
    assert [finding for finding, texts in FIRES.items() if len(texts) < 2] == []
    assert set(OPEN) <= set(POSSIBLE) <= {*OPEN, *GUESSED}
    assert set(LIVE) <= set(CERTAIN)
    assert {True, False} == {row.get("fires", True) for table in LIVE.values() for row in table.values()}


def test_every_sign_fires_on_a_text(judged_rows: Judged) -> None:
    """A sign that no text of its finding shows is named here."""
    without = []
    for finding, texts in FIRES.items():
        facts = [judged_rows[text].facts for text in texts.values()]
        facts += [judged_rows[text].facts for cause, text in NAMED_FIRST if cause == finding]
        facts += [facts_of(text) for cause, text in FIRST["causes"] if cause == finding]
        facts += [facts_of(text) for text in POSSIBLE.get(finding, {"open": {}})["open"].values()]
        for sign in DECLARATIONS[finding].signs:
            if sign.reads_messages and not any(shown_by([sign], DECLARATIONS[finding], one) for one in facts):
                without.append(f"{finding}: {sign.decide.__name__}")
    assert without == []
