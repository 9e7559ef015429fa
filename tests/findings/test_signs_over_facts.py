"""Every sign over facts, on the rows of rows_over_facts.py: a failure names finding and row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.findings.rows_over_facts import FIRES, MACHINES, NEVER_UNKNOWN, PASSES, WHY, logged, phases
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import Facts, GpuProcess, Message
from tfgpu_doctor.facts.report import Finding, Severity
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import Declaration
from tfgpu_doctor.findings.inputs import facts_behind
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.probes.tensorflow_probe import TENSORFLOWS


def found_in(changes: dict[str, Any], *declarations: Declaration) -> dict[str, Finding]:
    """Findings on a machine with these changes; of these declarations alone where some are given."""
    facts = spoil(healthy(), changes)
    diagnosis = diagnose(facts, MATRIX, declarations=declarations) if declarations else diagnose(facts, MATRIX)
    return {one.id: one for one in diagnosis.findings}


def test_fires() -> None:
    """Also where the log of a live run is empty: that there are messages does not mean that the facts are of a text."""
    rows = [(finding, name, changes) for finding, rows in FIRES.items() for name, changes in rows]
    found = [(finding, name, found_in(changes)) for finding, name, changes in rows]
    found += [
        (finding, f"{name}, and a log", found_in({"messages": known(()), **changes}, DECLARATIONS[finding]))
        for finding, name, changes in rows[::3]
    ]
    assert [(finding, name, [*ids]) for finding, name, ids in found if finding not in ids] == []
    bare = [name for finding, name, ids in found if not ids[finding].evidence or not ids[finding].cause]
    assert bare == [], "has no evidence, or no cause"


def test_passes() -> None:
    rows = [(finding, name, changes) for finding, rows in PASSES.items() for name, changes in rows]
    alone = [row for row in rows if found_in(row[2], DECLARATIONS[row[0]])]  # else nothing else can show it
    assert [(finding, name) for finding, name, changes in alone if finding in found_in(changes)] == []


def test_is_unknown_without_its_needs() -> None:
    """Without the facts behind it a check is open, and nothing is found."""
    diagnosis = diagnose(Facts(), MATRIX, require_gpus=1)
    assert diagnosis.findings == ()
    assert set(FIRES) - NEVER_UNKNOWN - {one.id for one in diagnosis.undetermined} == set()
    for finding, rows in FIRES.items():
        first, *others = DECLARATIONS[finding].signs
        needed = {path for name in first.required for path in facts_behind(name)}
        unknown = {path: WHY for path in needed if path not in ("tensorflow.phases", "messages")}
        if unknown and not others:
            assert not found_in({**rows[0][1], **unknown}, DECLARATIONS[finding]), finding


def test_healthy_machine_has_no_finding() -> None:
    diagnosis = diagnose(healthy(), MATRIX)
    assert (diagnosis.findings, diagnosis.undetermined) == ((), ())


def test_every_sign_fires_on_a_row() -> None:
    """A sign over facts that no row of FIRES shows is named here; those over messages have texts as their rows."""
    ids = {i for i, one in DECLARATIONS.items() if any(not sign.reads_messages for sign in one.signs)}
    assert ids - set(FIRES) == {"gpu.fewer-than-required"}
    assert set(FIRES) | set(PASSES) <= ids
    without = [
        f"{finding}: {sign.decide.__name__}"
        for finding, rows in FIRES.items()
        for sign in DECLARATIONS[finding].signs
        if not sign.reads_messages and not {"planned", "required_gpus"} & set(sign.required)
        if not any(found_in(changes, replace(DECLARATIONS[finding], signs=[sign], symptoms=())) for _, changes in rows)
    ]
    assert without == []


def test_rows_and_the_probe_know_the_same_distributions() -> None:
    assert set(TENSORFLOWS) == set(TENSORFLOW)


def test_required_gpus() -> None:
    lists_one = spoil(healthy(), {"tensorflow.devices": WHY, "gpus": WHY, "host.pci_gpus": WHY})
    cases = [(healthy(), 2), (healthy(), 1), (lists_one, 1)]
    found = [diagnose(facts, MATRIX, require_gpus=required) for facts, required in cases]
    fewer = ["gpu.fewer-than-required" in [item.id for item in one.findings] for one in found]
    assert fewer == [True, False, False]
    assert "gpu.fewer-than-required" in [item.id for item in found[2].undetermined]


@each("finding", ["gpu.arch-too-old", "gpu.arch-too-new"])
def test_a_gpu_that_probes_see_weighs_as_much_when_something_was_printed(finding: str) -> None:
    """Only what a person wrote is softened beside what programs print."""
    failure = Message("no-kernel-image", 1, "no kernel image is available for execution on the device", {})
    changes = {**FIRES[finding][0][1], "messages": known((failure,), "TensorFlow's log")}
    assert found_in(changes)[finding].severity is Severity.ERROR


@each("name", ["import", "keras", "build", "devices", "details", "compute", "xla"])
def test_a_limit_of_the_user_is_no_fault_of_tensorflow(name: str) -> None:
    """Whatever phase a short --timeout ends, it is a note; one that had its time, or did nothing, is an error."""
    about = [DECLARATIONS[finding] for finding in ("tf.import-hang", "tf.import-failed", "tf.run-failed")]
    changes = [{"tensorflow.phases": phases(name, "timeout", seconds=seconds)} for seconds in (1.0, 19.0, 180.0)]
    severities = [{one.severity for one in found_in(one, *about).values()} for one in changes]
    assert all(severities) and [Severity.ERROR in one for one in severities] == [False, False, True]


@each("name", MACHINES)
def test_what_is_told_of_a_machine(name: str) -> None:
    row = dict(MACHINES[name])
    found = found_in(row.pop("facts"))
    roots = [one.id for one in found.values() if one.root_cause]
    assert roots == list(row.pop("roots", roots))
    for finding, told in row.items():
        commands, severity = found[finding].fixes[0].commands, found[finding].severity.value
        assert commands == told.get("commands", commands) and severity == told.get("severity", severity)
        assert told.get("title", "") in found[finding].title
        assert found[finding].evidence[0].source.startswith(told.get("source", ""))
        assert [words for words in told.get("has", ()) if words not in "\n".join(commands)] == []
        assert "never" not in told or told["never"] not in "\n".join(commands)


def test_an_allocation_that_fails_beside_another_process_is_an_error_of_that() -> None:
    other = {"gpus": known((gpu(memory_free=60 * 2**30, processes=(GpuProcess(pid=7, memory=2**36),)),))}
    assert found_in(other)["memory.taken"].severity is Severity.WARNING
    fails = {"messages": logged("ResourceExhaustedError: OOM when allocating tensor with shape[64,9]")}
    taken = found_in({**other, **fails})["memory.taken"]
    assert (taken.severity, taken.consequences) == (Severity.ERROR, ("memory.oom",))
    assert "ps -o pid,user,etime,command -p 7" in taken.fixes[0].commands
