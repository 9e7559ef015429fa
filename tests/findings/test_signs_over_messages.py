"""Every sign over messages: texts on which it fires, texts that only look alike, and silence.

A failure names finding and row.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import msgspec

from tests.findings import logs
from tests.findings.row_texts import FIRES, FIRST, LIVE, LOOK_ALIKES, NAMED_FIRST, POSSIBLE, TEXTS
from tests.findings.rows_over_facts import NO_GPU_LISTED, env
from tests.healthy import MATRIX, healthy, known, spoil
from tests.parsers.pasted import samples
from tfgpu_doctor.facts.facts import Facts, Known, Unknown, value_or
from tfgpu_doctor.facts.report import Finding, Severity
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.engine import COMMON
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.plan.diagnosis import diagnose, make_report

# what tells causes apart that look the same in a text
CERTAIN = {i: one for i, one in DECLARATIONS.items() if any(sign.reads_messages for sign in one.signs)}
OPEN = {i: one for i, one in DECLARATIONS.items() if one.symptoms}
GUESSED = {cause for table in COMMON.values() for causes in table.values() for cause in causes}
# what probes look at themselves, so that a printed line cannot bring it back
PROBED = {i for i, one in CERTAIN.items() if any(sign.conclusive for sign in one.signs)}


def rows(table: dict[str, dict[str, str]]) -> list[tuple[str, str, str]]:
    """Finding, name of the row and text."""
    return [(finding, name, text) for finding, texts in table.items() for name, text in texts.items()]


@cache
def facts_of(text: str) -> Facts:
    return text_to_facts.read(lines.read([text.encode()]))


def signs_alone(facts: Facts) -> Facts:
    """Without what a text is like, which may doubt what signs show (tests/findings/test_likeliest.py)."""
    shown = tuple(one for one in value_or(facts.messages, ()) if one.kind != "resembles")
    return msgspec.structs.replace(facts, messages=Known(shown, "the text"))


def findings(text: str) -> list[Finding]:
    return list(diagnose(signs_alone(facts_of(text)), MATRIX).findings)


def fires(finding: str, facts: Facts) -> bool:
    """Whether the signs of this finding over messages show it, whatever else does; where it has none, any sign."""
    declared = DECLARATIONS[finding]
    signs = [sign for sign in declared.signs if sign.reads_messages] or declared.signs
    alone = replace(declared, signs=signs, symptoms=())
    return any(one.id == finding for one in diagnose(facts, MATRIX, declarations=[alone]).findings)


# ---------------------------------------------------------------------------------------------- what is certain


def what_is_wrong(finding: str, text: str) -> str | None:
    """Why a row of FIRES does not hold."""
    found = {one.id: one for one in findings(text)}
    if finding not in found:
        return f"found instead: {list(found)}"
    one = found[finding]
    if one.possible or not one.cause or not one.evidence or not all(line.saw for line in one.evidence):
        return "only possible, or without a cause or evidence"
    if not one.fixes and finding not in ("benign.log", "tensorrt.missing-benign"):
        return "has no fix"
    return None if fires(finding, facts_of(text)) else "its signs over messages are silent, and another one fires"


def test_fires() -> None:
    wrong = [(finding, name, why) for finding, name, text in rows(FIRES) if (why := what_is_wrong(finding, text))]
    assert wrong == [], "\n".join(map(str, wrong))


def test_look_alikes_are_no_errors() -> None:
    wrong = []
    for finding, name, text in rows(LOOK_ALIKES):
        usual = DECLARATIONS[finding].severity
        found = [one for one in findings(text) if one.id == finding and not one.possible]
        if any(one.severity is Severity.ERROR or usual is not Severity.ERROR for one in found):
            wrong.append((finding, name))
    assert wrong == [], "\n".join(map(str, wrong))


def test_silence_says_nothing() -> None:
    """The unknown row: no message, or a report of a version that did not read any."""
    silent = [Facts(messages=known((), "the text")), facts_of(""), healthy()]
    assert [finding for finding in CERTAIN if any(fires(finding, facts) for facts in silent)] == []
    read = [(finding, name, facts_of(text)) for finding, name, text in rows(FIRES) if finding in CERTAIN]
    unread = [(f, name, msgspec.structs.replace(facts, messages=Unknown("not read"))) for f, name, facts in read]
    assert [(finding, name) for finding, name, facts in unread if fires(finding, facts)] == []


def test_probes_know_better_than_words() -> None:
    """A printed line cannot bring back what the probes of a healthy machine rule out."""
    wrong = []
    for finding, name, text in rows(FIRES):
        machine = spoil(healthy(), {"messages": facts_of(text).messages})
        if finding in PROBED and finding in {one.id for one in diagnose(machine, MATRIX).findings}:
            wrong.append((finding, name))
    assert wrong == [], "\n".join(map(str, wrong))


# ---------------------------------------------------------------------------------------------- a live run


def test_live_messages() -> None:
    wrong = []
    for finding, table in LIVE.items():
        for name, row in table.items():
            log = catalogue.read(lines.read([row["log"].encode()]).lines)
            changes = {"messages": Known(log, "TensorFlow's log"), **(env(**row["env"]) if "env" in row else {})}
            changes |= {} if row.get("lists_gpu", True) else {"tensorflow.devices": NO_GPU_LISTED}
            found = [one.id for one in diagnose(spoil(healthy(), changes), MATRIX).findings]
            if (finding in found) is not row.get("fires", True):
                wrong.append((finding, name, found))
    assert wrong == [], "\n".join(map(str, wrong))


# ---------------------------------------------------------------------------------------------- what stays open


def test_what_stays_open_is_a_warning_behind_what_is_certain() -> None:
    wrong = []
    for finding, name, text in rows({f: row["open"] for f, row in POSSIBLE.items()}):
        found = findings(text)
        place = next((n for n, one in enumerate(found) if one.id == finding), None)
        if place is None:
            wrong.append((finding, name, f"found instead: {[one.id for one in found]}"))
            continue
        if found[place].severity is not Severity.WARNING or not found[place].possible or not found[place].fixes:
            wrong.append((finding, name, "no possible warning that says what decides"))
        certain = [n for n, one in enumerate(found) if not one.possible and one.root_cause]
        if any(n > place for n in certain if found[n].severity is not Severity.NOTE):
            wrong.append((finding, name, "stands before what is certain"))
    assert wrong == [], "\n".join(map(str, wrong))


def test_what_is_certain_replaces_the_possibility() -> None:
    wrong = []
    for finding, name, text in rows({f: row.get("replaced", {}) for f, row in POSSIBLE.items()}):
        alone = replace(DECLARATIONS[finding], signs=[])
        suspected = [one.possible for one in diagnose(facts_of(text), MATRIX, declarations=[alone]).findings]
        found = [one.possible for one in findings(text) if one.id == finding]
        if suspected != [True] or found != [False]:
            wrong.append((finding, name, suspected, found))
    assert wrong == [], "\n".join(map(str, wrong))


def test_a_working_gpu_leaves_nothing_open() -> None:
    found = {one.id for text in (logs.created(), "") for one in findings(text)}
    assert sorted(found & set(OPEN)) == []


# ---------------------------------------------------------------------------------------------- harmless lines


def test_harmless_lines_are_notes() -> None:
    wrong = []
    for _, line, values in samples("harmless"):
        for pasted in (line, logs.text(line, logs.created())):
            found = {one.id: one.severity for one in findings(pasted)}
            if Severity.ERROR in found.values() or not {"benign.log", "tensorrt.missing-benign"} & set(found):
                wrong.append((values["what"], found))
    assert wrong == [], "\n".join(map(str, wrong))


def test_lines_that_frighten_are_named_first() -> None:
    factory = "cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN"
    plain = "This TensorFlow binary is optimized to use available CPU instructions"
    without = "TF-TRT Warning: Could not find TensorRT"
    assert [one.id for one in findings(f"{factory}\n{without}")] == ["benign.log", "tensorrt.missing-benign"]
    assert [one.id for one in findings(f"{plain}\n{without}")] == ["tensorrt.missing-benign", "benign.log"]


def test_a_gpu_that_works_is_not_accused() -> None:
    found = {name: findings(logs.text(text, logs.created())) for name, text in TEXTS["working"].items()}
    assert [name for name, all_ in found.items() if any(one.severity is Severity.ERROR for one in all_)] == []


def test_all_harmless_lines_together_are_fine() -> None:
    text = logs.text(*(line for _, line, _ in samples("harmless")), logs.created())
    report = make_report(facts_of(text), MATRIX, source="text", timings={})
    assert report.verdict == "ok"
    assert {one.severity for one in report.findings} == {Severity.NOTE}


# ---------------------------------------------------------------------------------------------- completeness


def test_every_finding_has_its_texts() -> None:
    # variables that TensorFlow refuses in its own words have their rows in rows/named_first.yaml
    of_variables = {one for one in CERTAIN if one.startswith("env.")} - {"env.xla-flags"}
    assert set(CERTAIN) - of_variables - set(FIRES) == set()
    assert set(LOOK_ALIKES) == set(FIRES)
    assert [finding for finding, texts in FIRES.items() if len(texts) < 2] == []
    assert set(OPEN) <= set(POSSIBLE) <= {*OPEN, *GUESSED}
    assert set(LIVE) <= set(CERTAIN)
    assert {True, False} == {row.get("fires", True) for table in LIVE.values() for row in table.values()}


def test_every_sign_fires_on_a_text() -> None:
    """A sign that no text of its finding shows is named here."""
    more = [*FIRST["causes"], *NAMED_FIRST]
    without = []
    for finding in FIRES:
        texts = [*FIRES[finding].values(), *(text for cause, text in more if cause == finding)]
        facts = [facts_of(text) for text in texts]
        for sign in DECLARATIONS[finding].signs:
            alone = replace(DECLARATIONS[finding], signs=[sign], symptoms=())
            if sign.reads_messages and not any(diagnose(one, MATRIX, declarations=[alone]).findings for one in facts):
                without.append(f"{finding}: {sign.decide.__name__}")
    assert without == [], "\n".join(without)
