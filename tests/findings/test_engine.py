"""The engine: what probes overrule, facts that are one of several, what stays possible, who explains whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import Facts, Known, Message, Unknown
from tfgpu_doctor.facts.report import Finding, Severity
from tfgpu_doctor.findings.catalogue import DECLARATIONS, RANK
from tfgpu_doctor.findings.declaration import (
    LAYERS,
    Declaration,
    MessageLog,
    Problem,
    evidence,
    finding,
    message_evidence,
)
from tfgpu_doctor.findings.inputs import DERIVED, PATHS
from tfgpu_doctor.findings.symptoms import Symptom
from tfgpu_doctor.plan.diagnosis import diagnose

LINE = Message("test-line", 1, "it fails")


def declared(finding_id: str = "gpu.fault", **more: Any) -> Declaration:
    """A finding without signs, under an id that has a rank."""
    return Declaration(finding_id, "GPU", Severity.ERROR, "A title", "https://docs", cause="a cause", **more)


def found(facts: Facts, *declarations: Declaration) -> list[Finding]:
    return list(diagnose(facts, MATRIX, declarations=declarations).findings)


def pasted(*messages: Message, **facts: Any) -> Facts:
    return spoil(Facts(), {"messages": known(messages, "the text"), **facts})


def live(*messages: Message, **facts: Any) -> Facts:
    return spoil(healthy(), {"messages": known(messages, "TensorFlow's log"), **facts})


def shown(title: str | None = None) -> Problem:
    return Problem(title=title, evidence=(evidence("a value", "test"),))


def printed(messages: MessageLog) -> Problem | None:
    lines = messages.all("test-line")
    return Problem(evidence=message_evidence(*lines)) if lines else None


def old_release(tensorflow_version: str) -> Problem | None:
    return Problem(evidence=(evidence(tensorflow_version, "test"),)) if tensorflow_version.startswith("1.") else None


# ------------------------------------------------------------------------------------------------- declaring


def test_an_id_is_declared_once_and_its_layer_is_one_of_the_stack() -> None:
    with pytest.raises(ValueError, match="declared twice"):
        finding("gpu.none", layer="GPU", severity=Severity.ERROR, title="again", docs="")
    with pytest.raises(ValueError, match="unknown layer 'Kernel'"):
        finding("gpu.new", layer="Kernel", severity=Severity.ERROR, title="new", docs="")
    assert "gpu.new" not in DECLARATIONS
    assert {one.layer for one in DECLARATIONS.values()} <= set(LAYERS)


def test_every_declared_finding_has_a_rank_a_sign_and_known_inputs() -> None:
    assert list(RANK) == list(DECLARATIONS)
    assert [one.id for one in DECLARATIONS.values() if not one.signs] == []
    names = {name for one in DECLARATIONS.values() for sign in one.signs for name in sign.inputs}
    names |= {name for one in DECLARATIONS.values() for symptom in one.symptoms for name in symptom.inputs}
    assert sorted(name for name in names if name not in PATHS and name not in DERIVED) == []


# ------------------------------------------------------------------------------- inputs, and what is not known


def test_declared_cause_fixes_and_severity_serve_where_a_sign_gives_none() -> None:
    one = declared()
    one.sign()(printed)
    (shown,) = found(pasted(LINE), one)
    assert (shown.title, shown.cause, shown.severity, shown.docs) == (
        "A title",
        "a cause",
        Severity.ERROR,
        "https://docs",
    )


def test_nothing_is_shown_without_evidence() -> None:
    one = declared()
    one.sign()(lambda driver_version: Problem(evidence=()))
    assert found(healthy(), one) == []


def test_an_unknown_input_makes_the_question_open_and_a_default_does_not() -> None:
    needs, wants = declared("gpu.fault"), declared("gpu.mig")
    needs.sign()(lambda driver_version: shown())
    wants.sign()(lambda tensorflow_version, driver_version=None: shown())
    facts = spoil(healthy(), {"driver.version": Unknown("no driver")})
    diagnosis = diagnose(facts, MATRIX, declarations=[needs, wants])
    assert [one.id for one in diagnosis.findings] == ["gpu.mig"]
    assert [(one.id, one.reason) for one in diagnosis.undetermined] == [("gpu.fault", "no driver")]


def test_what_nobody_asked_is_no_open_question() -> None:
    one = declared()
    one.sign()(lambda required_gpus: shown())
    assert diagnose(healthy(), MATRIX, declarations=[one]).undetermined == ()
    assert diagnose(healthy(), MATRIX, declarations=[one], require_gpus=1).findings


# ------------------------------------------------------------------------------------------ probes and messages


def test_a_conclusive_sign_over_facts_overrules_printed_lines_where_probes_looked() -> None:
    one = declared()
    one.sign()(lambda driver_version: None)
    one.sign()(printed)
    assert found(live(LINE), one) == []
    assert found(pasted(LINE, **{"driver.version": known("550.54")}), one), "nobody looked at that machine"
    assert found(live(LINE, **{"driver.version": Unknown("no driver")}), one), "the sign could not be judged"


def test_a_sign_that_is_not_conclusive_overrules_nothing() -> None:
    one = declared()
    one.sign(conclusive=False)(lambda driver_version: None)
    one.sign()(printed)
    assert found(live(LINE), one)


def test_a_sign_is_silent_beside_a_finding_that_accounts_for_what_it_sees() -> None:
    one, other = declared("gpu.fault"), declared("driver.missing")
    one.sign(unless=("driver.*",))(printed)
    assert [each.id for each in found(pasted(LINE), one, other)] == ["gpu.fault"]
    other.sign()(printed)
    assert [each.id for each in found(pasted(LINE), one, other)] == ["driver.missing"]


# ------------------------------------------------------------------------------------------- one of several


@each(
    ("values", "possible"), [(("1.12.3", "1.15.5"), [False]), (("1.15.5", "2.0.4"), [True]), (("2.0.4", "2.1.4"), [])]
)
def test_a_fact_that_is_one_of_several(values: tuple[str, ...], possible: list[bool]) -> None:
    one = declared()
    one.sign()(old_release)
    facts = pasted(LINE, **{"tensorflow.version": Unknown("the text does not say", one_of=values)})
    assert [each.possible for each in found(facts, one)] == possible


def test_what_holds_for_one_of_several_releases_is_no_cause_where_nothing_fails() -> None:
    one = declared()
    one.sign()(old_release)
    release = {"tensorflow.version": Unknown("the text does not say", one_of=("1.15.5", "2.0.4"))}
    harmless = Message("harmless", 1, "Created device", {"what": "numa"})
    assert found(pasted(harmless, **release), one) == []
    assert [each.possible for each in found(pasted(harmless, LINE, **release), one)] == [True]


def test_a_title_that_names_one_of_the_values_is_not_shown() -> None:
    def names_it(tensorflow_version: str) -> Problem:
        return shown(f"TensorFlow {tensorflow_version} is too old")

    one = declared()
    one.sign()(names_it)
    assert found(pasted(**{"tensorflow.version": known("1.12.3")}), one)[0].title == "TensorFlow 1.12.3 is too old"
    several = pasted(**{"tensorflow.version": Unknown("?", one_of=("1.12.3", "1.15.5"))})
    assert found(several, one)[0].title == "A title"


def test_two_facts_that_are_one_of_several_are_combined() -> None:
    def both(tensorflow_version: str, python_version: str) -> Problem | None:
        holds = tensorflow_version == "1.15.5" and python_version == "3.8"
        return shown() if holds else None

    one = declared()
    one.sign()(both)
    open_facts = {
        "tensorflow.version": Unknown("?", one_of=("1.14.0", "1.15.5")),
        "python.version": Unknown("?", one_of=("3.7", "3.8")),
    }
    assert [each.possible for each in found(pasted(LINE, **open_facts), one)] == [True]


# ------------------------------------------------------------------------------------------- what stays possible

SEEN = Symptom("several causes look the same", lambda messages: messages.all("test-line"))


def test_a_symptom_leaves_a_finding_possible_and_says_what_to_run() -> None:
    one = declared(symptoms=(SEEN,))
    one.sign()(lambda driver_version: None)
    facts = pasted(LINE, **{"driver.version": Unknown("the text does not say", ask="nvidia-smi")})
    (shown,) = found(facts, one)
    assert (shown.possible, shown.severity, shown.cause) == (True, Severity.WARNING, "several causes look the same")
    assert shown.fixes[0].commands == ("nvidia-smi",)
    assert "tfgpu doctor" in shown.fixes[0].text
    assert shown.evidence[0].saw == "it fails"


def test_what_facts_contradict_is_not_possible() -> None:
    one = declared(symptoms=(SEEN,))
    one.sign(conclusive=False)(lambda driver_version: None)
    assert found(pasted(LINE, **{"driver.version": known("550.54")}), one) == []


def test_a_finding_that_explains_the_symptom_leaves_nothing_open() -> None:
    one = declared(symptoms=(replace(SEEN, explained_by=("gpu.none",)),))
    explains = declared("gpu.none")
    explains.sign()(printed)
    assert [each.id for each in found(pasted(LINE), one, explains)] == ["gpu.none"]


# ------------------------------------------------------------------------------------------------ arranging


def test_a_consequence_stands_under_its_cause_and_a_warning_explains_no_error() -> None:
    cause, consequence = declared("driver.missing"), declared("gpu.fault", explained_by=("driver.*",))
    for one in (cause, consequence):
        one.sign()(printed)
    first, second = found(pasted(LINE), cause, consequence)
    assert (first.id, first.consequences, second.root_cause) == ("driver.missing", ("gpu.fault",), False)
    mild = Declaration("driver.missing", "Driver", Severity.WARNING, "A title", "")
    mild.sign()(printed)
    assert [each.root_cause for each in found(pasted(LINE), mild, consequence)] == [True, True]


def test_two_that_explain_each_other_are_both_shown() -> None:
    one = declared("driver.missing", explained_by=("gpu.fault",))
    other = declared("gpu.fault", explained_by=("driver.missing",))
    for declaration in (one, other):
        declaration.sign()(printed)
    assert {declaration.id for declaration in found(pasted(LINE), one, other)} == {"driver.missing", "gpu.fault"}


def test_a_value_that_cannot_be_read_is_unknown() -> None:
    def reads_a_number(driver_version: str) -> Problem | None:
        return shown() if int(driver_version) else None

    one = declared()
    one.sign()(reads_a_number)
    diagnosis = diagnose(spoil(healthy(), {"driver.version": Known("no number", "test")}), MATRIX, declarations=[one])
    assert diagnosis.findings == ()
    assert "cannot be read" in diagnosis.undetermined[0].reason
