"""Texts as people paste them: what is named first, what is advised, and what is not said. A failure shows the text."""

from __future__ import annotations

import itertools
import re
from fnmatch import fnmatchcase
from pathlib import Path

from tests.corpus import report_of
from tests.findings.logs import created, text
from tests.findings.row_texts import FIRST, LOOK_ALIKES, NAMED_FIRST, QUESTIONS
from tests.findings.row_texts import TEXTS as ROWS
from tests.findings.test_signs_over_messages import facts_of, findings, signs_alone
from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Known
from tfgpu_doctor.facts.report import Severity, problem_counts, verdict_sentence
from tfgpu_doctor.facts.versions import minor
from tfgpu_doctor.parsers.derived_messages import _OF_ANY_PROGRAM
from tfgpu_doctor.plan.diagnosis import make_report

HERE = Path(__file__).parent
NO_GPU = "lists no GPU"
_HARMLESS = ("benign.log", "tensorrt.missing-benign", "env.*")
_SYMPTOMS = ("gpu.not-visible", "tf.import-failed", "tf.known-bug", "benign.log", "tensorrt.missing-benign")
_REFUSED = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'
_NOT_FOUND = "Could not find cuda drivers on your machine, GPU will not be used."


def commands_of(pasted: str) -> list[str]:
    return [command for one in findings(pasted) for fix in one.fixes for command in fix.commands]


def first_cause(pasted: str) -> str | None:
    return next((one.id for one in report_of(pasted).findings if one.id not in _SYMPTOMS), None)


# ----------------------------------------------------------------------------------------------- named first


def test_is_named_first() -> None:
    wrong = []
    for finding, pasted in NAMED_FIRST:
        found = findings(pasted)
        if [one.id for one in found[:1]] != [finding] or found[0].possible or not found[0].fixes:
            wrong.append((finding, pasted, [(one.id, one.severity) for one in found]))
    assert wrong == [], "\n".join(map(str, wrong))


def test_the_likeliest_cause_of_a_job_that_fails_comes_first() -> None:
    found = [(cause, pasted, [one.id for one in findings(pasted)]) for cause, pasted in FIRST["causes"]]
    assert [row for row in found if row[2][:1] != [row[0]]] == []


def test_is_no_error() -> None:
    found = [(t, [one.id for one in findings(t) if one.severity is Severity.ERROR]) for t in FIRST["no_error"]]
    assert [row for row in found if row[1]] == []


def test_beside_a_gpu_that_works_there_are_only_notes() -> None:
    wrong = []
    for name, pasted in FIRST["fine"].items():
        for one in findings(text(pasted, created())):
            if one.severity is not Severity.NOTE or not any(fnmatchcase(one.id, pattern) for pattern in _HARMLESS):
                wrong.append((name, one.id, one.severity))
    assert wrong == [], "\n".join(map(str, wrong))


@each(
    "cause, pasted", [(cause, one) for cause, texts in read_rows(HERE / "short_reports.yaml").items() for one in texts]
)
def test_the_first_cause_of_one_or_two_sentences(cause: str, pasted: str) -> None:
    if cause == "ok":
        assert [one.id for one in report_of(pasted).findings if one.severity is Severity.ERROR] == []
    else:
        assert first_cause(pasted) == cause


@each("row", ROWS["errors"])
def test_what_a_text_shows_of_a_machine(row: dict[str, str]) -> None:
    """The first error, and a text that looks alike and has none like it."""

    def errors(pasted: str) -> list[str]:
        found = [one for one in findings(pasted) if one.severity is Severity.ERROR]
        return [one.id for one in found if one.id != "gpu.not-visible"]

    assert "text" not in row or errors(row["text"])[:1] == [row["first"]]
    assert row["first"] not in errors(row["not"])


@each("pasted", [*ROWS["small_work"]["is"], *ROWS["small_work"]["is_not"]])
def test_a_gpu_that_is_no_faster(pasted: str) -> None:
    found = report_of(pasted).findings
    if pasted in ROWS["small_work"]["is"]:
        assert found[0].id == "perf.small-work"
    else:
        assert "perf.small-work" not in [one.id for one in found if not one.possible]


def test_two_releases_in_one_list_overwrite_each_other() -> None:
    """Whatever the two are: every neighbour in the matrix, up to the last tensorflow-gpu."""
    published = MATRIX.stable("linux_x86_64", "tensorflow-gpu")
    for newer, older in itertools.pairwise(dict.fromkeys(minor(row.version) for row in published)):
        listed = f"pip list\ntensorflow           {older}.0\ntensorflow-gpu       {newer}.0\n"
        assert first_cause(f"TF uses only the CPU, Ubuntu\n{listed}") == "tf.package-conflict", listed
    assert first_cause("pip list\ntensorflow  2.4.1\ntensorflow-gpu  2.4.1\n") != "tf.package-conflict"


# ------------------------------------------------------------------------------------------------- questions

WHICH = QUESTIONS["which"]  # question → what the title of its answer says


@each("asked", WHICH)
def test_the_answer_stands_first_in_a_line_and_has_a_recipe(asked: str) -> None:
    first = report_of(asked).findings[0]
    assert (first.id, WHICH[asked] in first.title) == ("tf.which-release", True), first.title
    assert any(fix.commands for fix in first.fixes), first.fixes


def test_a_question_is_no_fault() -> None:
    reports = {asked: report_of(asked) for table in QUESTIONS["fires"].values() for asked in table.values()}
    grave = {
        asked: [one.id for one in report.findings if one.severity is not Severity.NOTE]
        for asked, report in reports.items()
    }
    assert [asked for asked, ids in grave.items() if ids] == []
    assert {report.verdict for report in reports.values()} == {"unknown"}


def test_a_question_below_a_failure_leaves_the_diagnosis() -> None:
    asked = signs_alone(facts_of(LOOK_ALIKES["tf.which-release"]["a failure is the question"]))
    report = make_report(asked, MATRIX, source="text", timings={})
    assert (report.verdict, report.findings[0].severity) == ("broken", Severity.ERROR)


def test_what_may_have_failed_stays_an_error() -> None:
    asked = "Which TensorFlow should I install for an RTX 4070 on Windows 11? With Python 3.11 pip install failed."
    assert report_of(asked).findings[0].id == "tf.windows-native"


@each("asked", QUESTIONS["numbers"])
def test_each_number_belongs_to_the_nearer_program(asked: str) -> None:
    assert report_of(asked).findings[0].id == "cuda.versions-differ"


# ------------------------------------------------------------------------- advice for the program and the system


@each("kind", ROWS["of_any_program"])
def test_what_every_program_prints_is_possible_without_the_name_of_tensorflow(kind: str) -> None:
    found = findings(ROWS["of_any_program"][kind])
    assert found and all(one.possible and one.fixes for one in found)
    assert not any("Install TensorFlow" in fix.text for one in found for fix in one.fixes)


def test_a_failure_of_pytorch_says_nothing_of_tensorflow() -> None:
    assert set(ROWS["of_any_program"]) == set(_OF_ANY_PROGRAM)
    for gpu in ("Tesla K40c", "RTX 5090"):
        pasted = f"{gpu}, Pytorch 1.7 {ROWS['of_any_program']['no-kernel-image']}"
        assert [one.id for one in findings(pasted) if not one.possible] == []


@each(("pasted", "setting"), ROWS["memory_settings"])
def test_memory_is_set_in_the_words_of_the_program_that_computes(pasted: str, setting: str) -> None:
    first = findings(pasted)[0]
    words = [word for fix in first.fixes for word in (fix.text, *fix.commands)]
    assert first.id.startswith("memory.") and any(word.startswith(setting) for word in words)
    assert any(re.search(r"TF_|tf\.", word) for word in words) is ("tensorflow" in pasted)


@each("host", ["Windows 11, Docker Desktop", "macOS 14, Docker Desktop"])
@each("failure", [_REFUSED, "Failed to initialize NVML: Unknown Error", _NOT_FOUND])
def test_a_command_is_for_docker_desktop_or_for_the_linux_in_the_image(host: str, failure: str) -> None:
    pasted = f"{host}\ndocker run --gpus all -it tensorflow/tensorflow:2.15.0-gpu python t.py\n{failure}"
    commands = commands_of(pasted)
    wrong = r"systemctl|\bservice\b|apt-get|nvidia-ctk|where\.exe|cmd /c|powershell|modprobe"
    assert findings(pasted) and not [command for command in commands if re.search(wrong, command)]
    assert failure != _NOT_FOUND or any("ldconfig" in command for command in commands)


def test_docker_inside_wsl_is_restarted_without_systemd() -> None:
    pasted = f"WSL2 Ubuntu\ndocker run --gpus all -it tensorflow/tensorflow:2.15.0-gpu\n{_REFUSED}"
    assert "sudo service docker restart" in commands_of(pasted)


def test_what_may_be_one_of_several_releases_is_none_to_install() -> None:
    """What is left of a text's clues are many releases; the best is advised, and not the oldest of them."""
    (found, *_) = report_of("Windows 11, pip install tensorflow[and-cuda], no GPU listed").findings
    assert "2.14" not in repr(found.fixes) and "tensorflow[and-cuda]==2.20" in repr(found.fixes)
    assert found.evidence[0].saw == "TensorFlow on Windows"


# --------------------------------------------------------------------------------------------- what is not said


@each(("pasted", "wrong"), ROWS["not_said"])
def test_nothing_is_printed_that_the_text_does_not_say(pasted: str, wrong: str) -> None:
    report = report_of(pasted)
    shown = [part for one in report.findings for part in (one.title, one.cause, *(fix.text for fix in one.fixes))]
    assert wrong not in "\n".join(shown)
    if wrong == NO_GPU:
        assert not isinstance(report.facts.tensorflow.devices, Known), "no GPU is shown in the stack"


@each("field", ["No GPU", "None", "CPU only"])
def test_a_field_that_names_no_gpu_is_no_error_where_nobody_misses_one(field: str) -> None:
    form = f"GPU model and memory: {field}\nTensorFlow version: 2.16.1\n"
    first = report_of(f"{form}The loss is NaN from the second epoch on.").findings[0]
    assert (first.id, first.severity) == ("gpu.none", Severity.WARNING)
    missed = report_of(f"{form}tf.config.list_physical_devices('GPU') returns []").findings[0]
    assert (missed.id, missed.severity) == ("gpu.none", Severity.ERROR)


def test_low_utilization_alone_has_more_than_one_possible_cause() -> None:
    report = report_of("TensorFlow 2.12, RTX 3060: the GPU utilization is only 35 % during training. Why is that?")
    assert {one.id for one in report.findings if one.possible} >= {"perf.input-bound", "perf.small-work"}
    assert verdict_sentence(report).startswith("this text leaves ") and not problem_counts(report)
