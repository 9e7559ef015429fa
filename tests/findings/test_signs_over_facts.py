"""Every sign over facts, on the rows of rows_over_facts.py: a failure names finding and row.

Then law 11: the same facts of a machine, found by probes or stated in a text, lead to the same repair. For each finding
that has signs over facts and signs over messages, a machine of each row and what its owner would paste: what uname,
Python, nvidia-smi and pip print there, the variables, and the lines of each row of texts, which the doctor has in its
log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.findings.row_texts import FIRES as TEXTS
from tests.findings.rows_over_facts import FIRES, MACHINES, NEVER_UNKNOWN, PASSES, WHY, logged, phases
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.parsers.pasted import smi
from tests.tables import each
from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import NOT_IN_TEXT, Facts, GpuProcess, Known, Message, look_up, value_or
from tfgpu_doctor.facts.report import Finding, Fix, Report, Severity
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import Declaration
from tfgpu_doctor.findings.inputs import facts_behind
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.parsers import messages as catalogue
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


def test_python_section_alone_is_enough_for_an_answer() -> None:
    nothing = {"python.packages": known(()), "python.tensorflow_paths": known(())}
    python = {"python.version": known("3.14.1"), "python.wheel_platform": known("linux_x86_64"), **nothing}
    found = diagnose(spoil(Facts(), python), MATRIX).findings
    assert [one.id for one in found] == ["tf.python-unsupported", "tf.not-installed"]


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
        assert found[finding].consequences == tuple(told.get("therefore", found[finding].consequences))


def test_an_allocation_that_fails_beside_another_process_is_an_error_of_that() -> None:
    other = {"gpus": known((gpu(memory_free=60 * 2**30, processes=(GpuProcess(pid=7, memory=2**36),)),))}
    assert found_in(other)["memory.taken"].severity is Severity.WARNING
    fails = {"messages": logged("ResourceExhaustedError: OOM when allocating tensor with shape[64,9]")}
    taken = found_in({**other, **fails})["memory.taken"]
    assert (taken.severity, taken.consequences) == (Severity.ERROR, ("memory.oom",))
    assert "ps -o pid,user,etime,command -p 7" in taken.fixes[0].commands


# what a text does not tell, or tells beside these facts → findings whose fix depends on it
RIGHT = {
    "in which files and folders libraries, modules and other Pythons lie": {
        *("cuda.lib-path", "cudnn.lib-path", "tf.shadowed", "tf.wrong-env")
    },
    "which library, package, bug or CUDA a line is about": {
        *("cudnn.dep-missing", "tf.install-damaged", "tf.package-conflict", "xla.ptxas-missing", "driver.too-old")
    },
    "what the kernel and the disk have of the driver": {"driver.not-loaded", "driver.version-mismatch", "wsl.setup"},
    "a scheduler, a board or instances that a line names": {"gpu.hidden", "tf.cpu-build", "gpu.mig"},
    "which cuDNN is loaded, and what installed it": {"gpu.arch-too-old", "cudnn.version-mismatch"},
    "whether a Python is 32-bit, and its C library is musl": {"tf.python-unsupported"},
    "that conda refuses, for a program that may run on another machine": {"driver.missing"},
    "whose memory nvidia-smi shows: a pasted table may show that of this very program": {"memory.taken"},
}
DIFFERENT = set().union(*RIGHT.values())
_ONLY_LOOK = (
    *("ldconfig -p", "nvidia-smi", "lspci", "ls ", "grep ", "conda list", "tfgpu "),
    *("python3 -c ", "python3 -m pip download"),
)
_AGREEING = (
    *("host.os", "host.distribution_id", "host.address_space_limit", "python.version", "python.wheel_platform"),
    "variables",
    *("tensorflow.version", "driver.version"),
)


def stated(facts: Facts) -> str:
    """What the owner of the machine would paste."""
    python, driver = facts.python, value_or(facts.driver.version, None)
    cards = [
        (value_or(gpu.name, ""), (total - value_or(gpu.memory_free, 0)) // 2**20, total // 2**20)
        for gpu in value_or(facts.gpus, ())
        for total in (value_or(gpu.memory_total, 0),)
    ]
    return "\n".join(
        [
            *_system(facts),
            *([smi(driver, value_or(facts.driver.cuda_supported, "N/A"), cards)] if cards and driver else ()),
            *([f"Python {python.version.value} (main, Oct  1 2024)"] if isinstance(python.version, Known) else ()),
            *(f"{one.name}=={one.version}" for one in value_or(python.packages, ())),
        ]
    )


def _system(facts: Facts) -> Iterator[str]:
    host, os = facts.host, value_or(facts.host.os, "linux")
    if os == "windows":
        yield "Microsoft Windows [Version 10.0.22631.4317]"
    elif os == "macos":
        yield "macOS 14"
    else:
        kernel = "5.15.153.1-microsoft-standard-WSL2" if os == "wsl2" else value_or(host.kernel, "6.8.0")
        yield f"Linux box {kernel} #1 SMP {value_or(host.machine, 'x86_64')} GNU/Linux"
        yield f'PRETTY_NAME="{value_or(host.distribution, "")}"\nID={value_or(host.distribution_id, "")}'
        yield f"flags : fpu sse2 {' '.join(value_or(host.cpu_flags, ()))}"
    yield from (f"export {name}={value}" for name, value in value_or(facts.variables, {}).items())


def _contradicts(machine: Facts, text: Facts) -> bool:
    """Whether lines state something else of the machine than it has."""
    pairs = [(value_or(look_up(machine, path), None), value_or(look_up(text, path), None)) for path in _AGREEING]
    container = value_or(machine.host.container, "none") != value_or(text.host.container, "none")
    return container or any(said not in (None, has) for has, said in pairs)


def _certain(text: Facts) -> Facts:
    """The facts without what is inferred, which more lines may correct."""
    facts = ((path, look_up(text, path)) for path in _AGREEING)
    return spoil(text, {path: NOT_IN_TEXT for path, one in facts if isinstance(one, Known) and one.grade == "inferred"})


def _are_alike(machine: Facts, text: Facts) -> bool:
    """Whether the lines state all of the machine, and nothing else."""
    listed = [
        (
            [(one.name, one.version) for one in value_or(facts.python.packages, ())],
            [value_or(one.name, "") for one in value_or(facts.gpus, ())],
        )
        for facts in (machine, text)
    ]
    return listed[0] == listed[1] and not _contradicts(machine, text)


def _cases(judged: dict[str, Report], share: int) -> Iterator[tuple[str, str, Facts, Facts]]:
    """Finding, names of the rows, machine and text."""
    for finding in FIRES.keys() & TEXTS.keys():
        for place, (row, changes) in enumerate(FIRES[finding]):
            plain = spoil(healthy(), changes)
            texts = TEXTS[finding].items() if "messages" not in changes else ()
            for name, printed in [*texts][place % share :: share]:
                if _contradicts(plain, _certain(judged[printed].facts)):
                    continue
                log = Known(catalogue.read(lines.read([printed.encode()]).lines), "TensorFlow's log")
                text = text_to_facts.read(lines.read([f"{stated(plain)}\n{printed}".encode()]))
                if _are_alike(plain, text):
                    shown = tuple(one for one in value_or(text.messages, ()) if one.kind != "resembles")
                    text = spoil(text, {"messages": known(shown, "the text")})
                    yield finding, f"{row} | {name}", spoil(plain, {"messages": log}), text


def _found(finding: str, facts: Facts) -> Finding | None:
    return next(iter(diagnose(facts, MATRIX, declarations=[DECLARATIONS[finding]]).findings), None)


def _advice(one: Finding) -> list[Fix]:
    """Its fixes for the Python that the terminal starts, without those that only look."""
    return [
        Fix(fix.text, tuple(command.replace("/env/bin/python", "python3") for command in fix.commands))
        for fix in one.fixes
        if not fix.decides and not all(command.startswith(_ONLY_LOOK) for command in fix.commands)
    ]


@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.full)])  # of the texts of each row
def test_the_same_facts_lead_to_the_same_repair(share: int, judged_rows: dict[str, Report]) -> None:
    compared, differ = 0, {}
    for finding, name, machine, text in _cases(judged_rows, share):
        found, explained = _found(finding, machine), _found(finding, text)
        if found is None or explained is None or explained.possible:
            continue
        compared += 1
        repairs, others = _advice(found), _advice(explained)
        if others and others[0].commands not in [one.commands for one in repairs]:
            differ.setdefault(finding, f"{name}\n  {repairs}\n  {others}")
    assert compared > 300 / share
    assert {one: how for one, how in differ.items() if one not in DIFFERENT} == {}
    assert share > 1 or set(differ) == DIFFERENT
