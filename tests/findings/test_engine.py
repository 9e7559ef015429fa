"""The engine: what probes overrule, facts that are one of several, what stays possible, who explains whom."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import msgspec
import pytest

from tests.corpus import by_signs_alone
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import Facts, Message, Unknown
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


def shown() -> Problem:
    return Problem(evidence=(evidence("a value", "test"),))


def printed(messages: MessageLog) -> Problem | None:
    lines = messages.all("test-line")
    return Problem(evidence=message_evidence(*lines)) if lines else None


def old_release(tensorflow_version: str) -> Problem | None:
    if not tensorflow_version.startswith("1."):
        return None
    release = f"TensorFlow {tensorflow_version}"
    return Problem(title=f"{release} is old", evidence=(evidence(release, "test"),))


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


def test_nothing_is_shown_without_evidence() -> None:
    one = declared()
    one.sign()(lambda driver_version: Problem(evidence=()))
    assert found(healthy(), one) == []


def test_an_unknown_input_makes_the_question_open_and_a_default_does_not() -> None:
    needs, wants, reads = declared("gpu.fault"), declared("gpu.mig"), declared("driver.missing")
    needs.sign()(lambda driver_version: shown())
    wants.sign()(lambda tensorflow_version, driver_version=None: shown())
    reads.sign()(lambda python_version: shown() if int(python_version) else None)  # a value that cannot be read
    facts = spoil(healthy(), {"driver.version": Unknown("no driver"), "python.version": known("no number")})
    diagnosis = diagnose(facts, MATRIX, declarations=[needs, wants, reads])
    assert [(one.id, one.title, one.cause, one.docs) for one in diagnosis.findings] == [
        ("gpu.mig", "A title", "a cause", "https://docs")
    ]
    assert [one.id for one in diagnosis.undetermined] == ["gpu.fault", "driver.missing"]
    assert diagnosis.undetermined[0].reason == "no driver" and "cannot be read" in diagnosis.undetermined[1].reason


def test_what_nobody_asked_is_no_open_question() -> None:
    one = declared()
    one.sign()(lambda required_gpus: shown())
    assert diagnose(healthy(), MATRIX, declarations=[one]).undetermined == ()
    assert diagnose(healthy(), MATRIX, declarations=[one], require_gpus=1).findings


def test_a_conclusive_sign_over_facts_overrules_printed_lines_where_probes_looked() -> None:
    one, mild = declared(), declared()
    for declaration, conclusive in ((one, True), (mild, False)):
        declaration.sign(conclusive=conclusive)(lambda driver_version: None)
        declaration.sign()(printed)
    assert found(live(LINE), one) == []
    assert found(live(LINE), mild), "the sign is not conclusive"
    assert found(pasted(LINE, **{"driver.version": known("550.54")}), one), "nobody looked at that machine"
    assert found(live(LINE, **{"driver.version": Unknown("no driver")}), one), "the sign could not be judged"


def test_a_sign_is_silent_beside_a_finding_that_accounts_for_what_it_sees() -> None:
    one, other = declared("gpu.fault"), declared("driver.missing")
    one.sign(unless=("driver.*",))(printed)
    assert [each.id for each in found(pasted(LINE), one, other)] == ["gpu.fault"]
    other.sign()(printed)
    assert [each.id for each in found(pasted(LINE), one, other)] == ["driver.missing"]


@each(
    ("values", "possible"), [(("1.12.3", "1.15.5"), [False]), (("1.15.5", "2.0.4"), [True]), (("2.0.4", "2.1.4"), [])]
)
def test_a_fact_that_is_one_of_several(values: tuple[str, ...], possible: list[bool]) -> None:
    """What holds for one of them is no cause where nothing fails; a title that names one of several is not shown."""
    one = declared()
    one.sign()(old_release)
    release = {"tensorflow.version": Unknown("the text does not say", one_of=values)}
    assert [each.possible for each in found(pasted(LINE, **release), one)] == possible
    assert possible != [False] or found(pasted(LINE, **release), one)[0].title == "A title"
    harmless = Message("harmless", 1, "Created device", {"what": "numa"})
    assert [each.possible for each in found(pasted(harmless, **release), one)] == ([False] if False in possible else [])
    certain = found(pasted(**{"tensorflow.version": known(values[0])}), one)
    assert [each.title for each in certain] == ([f"TensorFlow {values[0]} is old"] if possible else [])


def test_two_facts_that_are_one_of_several_are_combined() -> None:
    one = declared()
    one.sign()(
        lambda tensorflow_version, python_version: (
            shown() if (tensorflow_version, python_version) == ("1.15.5", "3.8") else None
        )
    )
    tensorflow, python = Unknown("?", one_of=("1.14.0", "1.15.5")), Unknown("?", one_of=("3.7", "3.8"))
    facts = pasted(LINE, **{"tensorflow.version": tensorflow, "python.version": python})
    assert [each.possible for each in found(facts, one)] == [True]


def test_a_symptom_leaves_a_finding_possible_and_says_what_to_run() -> None:
    """Unless facts contradict it, or another finding explains the symptom."""
    because = "several causes look the same"
    seen = Symptom(because, lambda messages: messages.all("test-line"), explained_by=("gpu.none",))
    one, explains = declared(symptoms=(seen,)), declared("gpu.none")
    one.sign(conclusive=False)(lambda driver_version: None)
    facts = pasted(LINE, **{"driver.version": Unknown("the text does not say", ask="nvidia-smi")})
    (left,) = found(facts, one)
    assert (left.possible, left.severity, left.cause) == (True, Severity.WARNING, because)
    assert left.fixes[0].commands == ("nvidia-smi",) and "tfgpu doctor" in left.fixes[0].text
    assert left.evidence[0].saw == "it fails"
    assert found(pasted(LINE, **{"driver.version": known("550.54")}), one) == []
    explains.sign()(printed)
    assert [each.id for each in found(facts, one, explains)] == ["gpu.none"]


def test_a_consequence_stands_under_its_cause_and_a_warning_explains_no_error() -> None:
    cause, consequence = declared("driver.missing"), declared("gpu.fault", explained_by=("driver.*",))
    mild = Declaration("driver.missing", "Driver", Severity.WARNING, "A title", "")
    back = declared("driver.missing", explained_by=("gpu.fault",))
    for one in (cause, consequence, mild, back):
        one.sign()(printed)
    first, second = found(pasted(LINE), cause, consequence)
    assert (first.id, first.consequences, second.root_cause) == ("driver.missing", ("gpu.fault",), False)
    assert [each.root_cause for each in found(pasted(LINE), mild, consequence)] == [True, True]
    # two that explain each other are both shown
    assert {each.id for each in found(pasted(LINE), back, consequence)} == {"driver.missing", "gpu.fault"}


# a saved report can hold any text where a version or a number belongs
VALUES = ("", "abc", "9.x", "²", "9" * 5000)
K2000 = {"gpus": known((gpu(name="X", compute_capability="3.0"),))}
# each leads to causes by another way
TEXTS = {
    "tensorflow-gpu 1.15, Ubuntu 18.04, CUDA 10.1, cuDNN 8.0\nFailed to load the native TensorFlow runtime.": K2000,
    "TensorFlow 1.12 hangs at the first epoch with my RTX 3090, driver 450.80.02, Python 3.6": {},
    "Windows 10: TensorFlow does not see my Quadro K2000. CUDA 11.6 is there, somebody said that I need CUDA 11.2; "
    "PyTorch works": K2000,
    "In the docker container nvidia/cuda:12.2.0-base training fails on the A100, TensorFlow 2.15": {},
}


def spoiled(data: Any, values: Iterator[str]) -> Iterator[Any]:
    """The same, with each of its texts replaced in turn."""
    if isinstance(data, str):
        yield next(values)
    elif isinstance(data, dict):
        yield from ({**data, key: one} for key, inner in data.items() for one in spoiled(inner, values))
    elif isinstance(data, list | tuple):
        yield from ([*data[:n], one, *data[n + 1 :]] for n, inner in enumerate(data) for one in spoiled(inner, values))


# where a run begins with the values; one by day gives every 13th text one of them, in turn
@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, len(VALUES)))])
def test_any_text_in_place_of_any_other(first: int) -> None:
    """Every diagnosis still ends."""
    machines = [spoil(by_signs_alone(text).facts, changes) for text, changes in TEXTS.items()]
    for machine in (*machines, healthy()):
        asked, values = 0, cycle((*VALUES[first:], *VALUES[:first]))
        for one in islice(spoiled(msgspec.to_builtins(machine), values), None, None, 1 if first else 13):
            with contextlib.suppress(msgspec.ValidationError):  # a saved report with it is refused
                diagnose(msgspec.convert(one, Facts), MATRIX)
                asked += 1
        assert asked > 5
