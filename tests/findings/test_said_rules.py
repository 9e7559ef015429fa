"""Every rule over what programs print: texts on which it fires, texts that only look alike, and silence."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.findings import (
    logs,
    said_rows_cuda,
    said_rows_import,
    said_rows_machine,
    said_rows_possible,
    said_rows_runtime,
)
from tests.healthy import MATRIX, healthy, known, spoil
from tests.parsers.message_samples import HARMLESS
from tfgpu_doctor.diagnosis.engine import diagnose
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.messages import catalogue
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.facts import Facts, Known, Unknown
from tfgpu_doctor.records.report import Finding, Severity

_TABLES = (said_rows_machine, said_rows_cuda, said_rows_import, said_rows_runtime)
FIRES = {finding: rows for table in _TABLES for finding, rows in table.FIRES.items()}
LOOK_ALIKES = {finding: rows for table in _TABLES for finding, rows in table.LOOK_ALIKES.items()}
# what tells causes apart that look the same in a text
DECIDING = {
    "cuda.version-mismatch": ("libcudart", "/usr/local/cuda", "nvcc --version"),
    "cuda.lib-path": ("cudart",),
    "cuda.missing": ("cudart", "pip list"),
    "cudnn.version-mismatch": ("libcudnn", "pip list"),
    "cudnn.lib-path": ("cudnn",),
}
POSSIBLE, HEARD = said_rows_possible.POSSIBLE, said_rows_possible.HEARD

CERTAIN = {i: one for i, one in DECLARATIONS.items() if any(sign.reads_messages for sign in one.signs)}
OPEN = {i: one for i, one in DECLARATIONS.items() if one.symptoms}
# what probes look at themselves, so that a printed line cannot bring it back
PROBED = {i for i, one in CERTAIN.items() if any(sign.conclusive for sign in one.signs)}


def rows(table: dict[str, dict[str, str]]) -> list[object]:
    return [pytest.param(f, text, id=f"{f}: {name}") for f, texts in table.items() for name, text in texts.items()]


def facts_of(text: str) -> Facts:
    return text_to_facts.read(lines.read([text.encode()]))


def findings(text: str) -> list[Finding]:
    return list(diagnose(facts_of(text), MATRIX).findings)


def fires(finding: str, facts: Facts) -> bool:
    """Whether the signs of this finding over messages show it, whatever else does; where it has none, any sign."""
    declared = DECLARATIONS[finding]
    signs = [sign for sign in declared.signs if sign.reads_messages] or declared.signs
    alone = replace(declared, signs=signs, symptoms=())
    return any(one.id == finding for one in diagnose(facts, MATRIX, declarations=[alone]).findings)


# ---------------------------------------------------------------------------------------------- what is certain


@pytest.mark.parametrize(("finding", "text"), rows(FIRES))
def test_fires(finding: str, text: str) -> None:
    found = {one.id: one for one in findings(text)}
    assert finding in found, list(found)
    one = found[finding]
    assert not one.possible, "only as a possibility"
    assert one.cause and one.evidence
    assert all(line.saw for line in one.evidence)
    assert one.fixes or finding in ("benign.log", "tensorrt.missing-benign")
    assert fires(finding, facts_of(text)), "the rule itself is silent, and another one of that id speaks"


@pytest.mark.parametrize(("finding", "text"), rows(LOOK_ALIKES))
def test_look_alikes_are_no_errors(finding: str, text: str) -> None:
    severity = DECLARATIONS[finding].severity
    found = [one for one in findings(text) if one.id == finding and not one.possible]
    assert [one.title for one in found if one.severity is Severity.ERROR or severity is not Severity.ERROR] == []


@pytest.mark.parametrize("finding", sorted(CERTAIN))
def test_silence_says_nothing(finding: str) -> None:
    """The unknown row: no message, or a report of a version that did not read any."""
    one = finding
    assert not fires(one, Facts(messages=known((), "the text")))
    assert not fires(one, facts_of(""))
    assert not fires(one, healthy())
    for text in FIRES.get(finding, {}).values():
        unread = msgspec.structs.replace(facts_of(text), messages=Unknown("not read"))
        assert not fires(one, unread)


@pytest.mark.parametrize("finding", sorted(CERTAIN))
def test_probes_know_better_than_words(finding: str) -> None:
    """A printed line cannot bring back what the probes of a healthy machine rule out."""
    if finding in PROBED:
        for name, text in FIRES.get(finding, {}).items():
            machine = spoil(healthy(), {"messages": facts_of(text).messages})
            assert finding not in {one.id for one in diagnose(machine, MATRIX).findings}, name


# ---------------------------------------------------------------------------------------------- a live run


@pytest.mark.parametrize(
    ("finding", "row"),
    [pytest.param(f, row, id=f"{f}: {name}") for f, table in HEARD.items() for name, row in table.items()],
)
def test_is_heard_in_a_live_run(finding: str, row: said_rows_possible.Heard) -> None:
    log = catalogue.read(lines.read([row.log.encode()]).lines)
    changes = {**row.changes, "messages": Known(log, "TensorFlow's log")}
    found = {one.id: one for one in diagnose(spoil(healthy(), changes), MATRIX).findings}
    assert (finding in found) is row.fires, list(found)


# ---------------------------------------------------------------------------------------------- what stays open


@pytest.mark.parametrize(("finding", "text"), rows({f: row.open for f, row in POSSIBLE.items()}))
def test_what_stays_open_is_a_warning_behind_what_is_certain(finding: str, text: str) -> None:
    found = findings(text)
    place = next((n for n, one in enumerate(found) if one.id == finding), None)
    assert place is not None, [one.id for one in found]
    assert found[place].severity is Severity.WARNING
    assert found[place].possible
    assert found[place].fixes, "what decides"
    commands = " ".join(command for fix in found[place].fixes for command in fix.commands)
    assert [command for command in DECIDING.get(finding, ()) if command not in commands] == []
    certain = [n for n, one in enumerate(found) if not one.possible and one.root_cause]
    above_notes = [n for n in certain if found[n].severity is not Severity.NOTE]
    assert all(n < place for n in above_notes), [one.id for one in found]


@pytest.mark.parametrize(("finding", "text"), rows({f: row.replaced for f, row in POSSIBLE.items()}))
def test_what_is_certain_replaces_the_possibility(finding: str, text: str) -> None:
    alone = replace(DECLARATIONS[finding], signs=[])
    suspected = [one.possible for one in diagnose(facts_of(text), MATRIX, declarations=[alone]).findings]
    assert suspected == [True], "nothing is open here, so that nothing is replaced"
    found = [one for one in findings(text) if one.id == finding]
    assert [one.possible for one in found] == [False]


@pytest.mark.parametrize("finding", sorted(OPEN))
def test_a_working_gpu_leaves_nothing_open(finding: str) -> None:
    text = logs.created()
    assert finding not in [one.id for one in findings(text)]
    assert finding not in [one.id for one in findings("")]


# ---------------------------------------------------------------------------------------------- harmless lines


@pytest.mark.parametrize("text", [pytest.param(line, id=values["what"]) for _, line, values in HARMLESS])
def test_harmless_lines_are_notes(text: str) -> None:
    for pasted in (text, logs.text(text, logs.created())):
        found = findings(pasted)
        assert [one.id for one in found if one.severity is Severity.ERROR] == []
        assert {"benign.log", "tensorrt.missing-benign"} & {one.id for one in found}


def test_lines_that_frighten_are_named_first() -> None:
    factory = "cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN"
    plain = "This TensorFlow binary is optimized to use available CPU instructions"
    without = "TF-TRT Warning: Could not find TensorRT"
    assert [one.id for one in findings(f"{factory}\n{without}")] == ["benign.log", "tensorrt.missing-benign"]
    assert [one.id for one in findings(f"{plain}\n{without}")] == ["tensorrt.missing-benign", "benign.log"]


WORKING = {
    "a setting": "CUDA_VISIBLE_DEVICES=0 python train.py",
    "an installation": "pip install tensorflow-gpu==2.4.0\nSuccessfully installed tensorflow-gpu-2.4.0",
    "a container": "$ docker run --gpus all -it tensorflow/tensorflow:2.13.0-gpu",
    "Kubernetes": "$ kubectl get pods\nNAME READY STATUS\ntrain-0 1/1 Running",
    "the kernel": "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024",
    "the bus": "01:00.0 VGA: NVIDIA GA102\n\tKernel driver in use: nvidia\n\tKernel modules: nouveau, nvidia",
    "NCCL": "box:1:2 [0] NCCL INFO P2P Chunksize set to 131072\nNCCL version 2.21.5+cuda12.4",
    "shared memory": "$ df -h /dev/shm\nshm 64M 0 64M 0% /dev/shm",
    "the allocator": "Stats: \nLimit:                  23000000000\nInUse: 1",
    "nvidia-smi": logs.smi(),
    "advice": "You can set CUDA_VISIBLE_DEVICES=-1 to force the CPU.",
    "another error": "ValueError: Shapes (32, 10) and (32, 1) are incompatible",
    "another module": "ModuleNotFoundError: No module named 'sklearn'",
}


@pytest.mark.parametrize("name", WORKING)
def test_a_gpu_that_works_is_not_accused(name: str) -> None:
    found = findings(logs.text(WORKING[name], logs.created()))
    assert [one.id for one in found if one.severity is Severity.ERROR] == []


def test_all_harmless_lines_together_are_fine() -> None:
    report = make_report(
        facts_of(logs.text(*(line for _, line, _ in HARMLESS), logs.created())), MATRIX, source="text", timings={}
    )
    assert report.verdict == "ok"
    assert {one.severity for one in report.findings} == {Severity.NOTE}


# ---------------------------------------------------------------------------------------------- completeness


def test_every_rule_has_its_texts() -> None:
    # variables that TensorFlow refuses in its own words have their rows in test_said_more_runtime.py
    of_variables = {one for one in CERTAIN if one.startswith("env.")} - {"env.xla-flags"}
    assert set(CERTAIN) - of_variables - set(FIRES) == set()
    assert set(LOOK_ALIKES) == set(FIRES)
    assert [finding for finding, texts in FIRES.items() if len(texts) < 2] == []
    assert set(POSSIBLE) == set(OPEN)
    assert set(HEARD) <= set(CERTAIN)
    assert {True, False} == {row.fires for table in HEARD.values() for row in table.values()}


def test_no_finding_stands_in_two_tables() -> None:
    for kind in ("FIRES", "LOOK_ALIKES"):
        ids = [finding for table in _TABLES for finding in getattr(table, kind)]
        assert len(ids) == len(set(ids))
