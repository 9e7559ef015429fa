"""Texts as people paste them: what is named first, what is advised, and what is not said. A failure shows the text."""

from __future__ import annotations

import itertools
import re

from tests.corpus import report_of
from tests.findings.advice import contradictions
from tests.findings.row_texts import FIRST, LOOK_ALIKES, QUESTIONS, SHORT
from tests.findings.row_texts import TEXTS as ROWS
from tests.findings.test_signs_over_messages import Judged, by_signs_alone, findings
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.facts.facts import Known
from tfgpu_doctor.facts.report import Finding, Severity, problem_counts, verdict_sentence
from tfgpu_doctor.facts.versions import minor
from tfgpu_doctor.findings.engine import restrict
from tfgpu_doctor.parsers.derived_messages import _OF_ANY_PROGRAM

NO_GPU = "lists no GPU"
_SYMPTOMS = ("gpu.not-visible", "tf.import-failed", "tf.known-bug", "benign.log", "tensorrt.missing-benign")
_REFUSED = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'
_NOT_FOUND = "Could not find cuda drivers on your machine, GPU will not be used."
_IMAGE = "docker run --gpus all -it tensorflow/tensorflow:2.15.0-gpu"


def errors(found: list[Finding]) -> list[str]:
    return [one.id for one in found if one.severity is Severity.ERROR]


def test_the_likeliest_cause_of_a_job_that_fails_comes_first() -> None:
    found = [(cause, pasted, [one.id for one in findings(pasted)]) for cause, pasted in FIRST["causes"]]
    assert [row for row in found if row[2][:1] != [row[0]]] == []
    assert [pasted for pasted in FIRST["no_error"] if errors(findings(pasted))] == []


def test_the_first_cause_of_one_or_two_sentences(judged_texts: Judged) -> None:
    rows = [(cause, pasted, judged_texts[pasted].findings) for cause, texts in SHORT.items() for pasted in texts]
    assert [pasted for cause, pasted, found in rows if cause == "ok" and errors(found)] == []
    first = [(cause, pasted, [one.id for one in found if one.id not in _SYMPTOMS]) for cause, pasted, found in rows]
    assert [row for row in first if row[0] != "ok" and row[2][:1] != [row[0]]] == []


@each("row", ROWS["errors"])
def test_what_a_text_shows_of_a_machine(row: dict[str, str]) -> None:
    """The first error, and a text that looks alike and has none like it."""
    if "text" in row:
        assert [one for one in errors(findings(row["text"])) if one != "gpu.not-visible"][:1] == [row["first"]]
    assert row["first"] not in errors(findings(row["not"]))


@each("pasted", [*ROWS["small_work"]["is"], *ROWS["small_work"]["is_not"]])
def test_a_gpu_that_is_no_faster(pasted: str) -> None:
    found = report_of(pasted).findings
    if pasted in ROWS["small_work"]["is"]:
        assert found[0].id == "perf.small-work"
    else:
        assert "perf.small-work" not in [one.id for one in found if not one.possible]


def test_two_releases_in_one_list_overwrite_each_other() -> None:
    """Whatever the two are: neighbours in the matrix, up to the last tensorflow-gpu."""
    published = MATRIX.stable("linux_x86_64", "tensorflow-gpu")
    pairs = [*itertools.pairwise(dict.fromkeys(minor(row.version) for row in published))]
    lists = [f"tensorflow           {old}.0\ntensorflow-gpu       {new}.0\n" for new, old in pairs[::4]]
    lists = ["tensorflow  2.4.1\ntensorflow-gpu  2.4.1\n", *lists]
    found = [{one.id for one in findings(f"TF uses only the CPU, Ubuntu\npip list\n{one}")} for one in lists]
    assert ["tf.package-conflict" in ids for ids in found] == [False, *[True] * (len(lists) - 1)]


def test_a_question_is_no_fault_and_its_answer_stands_first(judged_texts: Judged) -> None:
    reports = {asked: judged_texts[asked] for table in QUESTIONS["fires"].values() for asked in table.values()}
    grave = [asked for asked, one in reports.items() if {found.severity for found in one.findings} != {Severity.NOTE}]
    assert grave == [] and {report.verdict for report in reports.values()} == {"unknown"}
    titles = QUESTIONS["which"] | QUESTIONS["known"]
    answers = {asked: judged_texts[asked].findings[0] for asked in titles}
    assert {(one.id, titles[asked] in one.title) for asked, one in answers.items()} == {("tf.which-release", True)}
    assert {asked for asked, one in answers.items() if any(fix.commands for fix in one.fixes)} == {*QUESTIONS["which"]}
    assert not any(verdict_sentence(judged_texts[asked]).endswith("answered") for asked in QUESTIONS["known"])


def test_what_is_no_question_about_releases_is_said_to_be_unanswered() -> None:
    reports = [report_of(asked) for asked in QUESTIONS["unanswered"]]
    assert [one.findings for one in reports] == [()] * len(reports)
    assert {verdict_sentence(one) for one in reports} == {
        "this text shows no failure, and asks what tfgpu does not answer"
    }


def test_a_question_below_a_failure_leaves_the_diagnosis() -> None:
    report = by_signs_alone(LOOK_ALIKES["tf.which-release"]["a failure is the question"])
    assert (report.verdict, report.findings[0].severity) == ("broken", Severity.ERROR)


@each("asked", QUESTIONS["numbers"])
def test_two_numbers_of_cuda_are_explained(asked: str) -> None:
    assert report_of(asked).findings[0].id == "cuda.versions-differ"


@each("kind", _OF_ANY_PROGRAM)
def test_what_every_program_prints_is_possible_without_the_name_of_tensorflow(kind: str) -> None:
    found = findings(ROWS["of_any_program"][kind])
    assert found and all(one.possible and one.fixes for one in found)
    assert not any("Install TensorFlow" in fix.text for one in found for fix in one.fixes)


def test_a_failure_of_pytorch_says_nothing_of_tensorflow() -> None:
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
    found = findings(f"{host}\n{_IMAGE} python t.py\n{failure}")
    commands = [command for one in found for fix in one.fixes for command in fix.commands]
    wrong = r"systemctl|\bservice\b|apt-get|nvidia-ctk|where\.exe|cmd /c|powershell|modprobe"
    assert found and not [command for command in commands if re.search(wrong, command)]
    assert failure != _NOT_FOUND or any("ldconfig" in command for command in commands)


def test_docker_inside_wsl_is_restarted_without_systemd() -> None:
    found = findings(f"WSL2 Ubuntu\n{_IMAGE}\n{_REFUSED}")
    assert "sudo service docker restart" in [line for one in found for fix in one.fixes for line in fix.commands]


def test_a_bug_about_an_architecture_is_no_second_problem() -> None:
    """That a release has no kernels for a GPU is what gpu.arch-too-new says already."""
    for card, release in (("RTX 5070", "2.16.2"), ("RTX 5090", "2.18.1"), ("B200", "2.20.0")):
        found = findings(f"{card}, TensorFlow {release}\nInternalError: failed with 'CUDA_ERROR_INVALID_HANDLE'\n")
        assert [one.id for one in found if one.root_cause and not one.possible] == ["gpu.arch-too-new"]
        assert "tf.known-bug" in [one.id for one in found] or release != "2.18.1"


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
    texts = (f"{form}The loss is NaN from the second epoch on.", f"{form}list_physical_devices('GPU') returns []")
    first = [report_of(text).findings[0] for text in texts]
    assert [(one.id, one.severity) for one in first] == [("gpu.none", Severity.WARNING), ("gpu.none", Severity.ERROR)]


@each(("causes", "pasted"), ROWS["only_possible"])
def test_what_is_possible_is_no_problem(causes: list[str], pasted: str) -> None:
    report = report_of(pasted)
    assert {one.id for one in report.findings} >= set(causes) and all(one.possible for one in report.findings)
    for one in (report, restrict(report, (), ("tf.known-bug",))):
        assert list(contradictions(one)) == []
        assert verdict_sentence(one).startswith("this text leaves ") and not problem_counts(one)
