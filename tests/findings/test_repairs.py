"""The likeliest cause of a text, by its signs, facts, situation and words, and the repair that is printed: law 11.

Which causes come second and third changes with the reports that the words are learnt from; the first must stand.
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import msgspec
import pytest

from tests.findings.advice import complaints, overwritten, unfit
from tests.findings.row_texts import FIRES as MESSAGES
from tests.findings.row_texts import NAMED_FIRST
from tests.findings.row_texts import TEXTS as PASTED
from tests.findings.rows_over_facts import FIRES as MACHINES
from tests.findings.rows_over_facts import off_path, packages, release
from tests.findings.test_signs_over_messages import facts_of, findings
from tests.healthy import MATRIX, SITE, gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Facts, Known, Message, Unknown, value_or
from tfgpu_doctor.facts.report import GUESSED, Severity
from tfgpu_doctor.findings import xla
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.engine import BECAUSE, COMMON, LIKE_OTHERS, MOST, SAID
from tfgpu_doctor.findings.symptoms import SYMPTOMS
from tfgpu_doctor.manifests import Image, Place
from tfgpu_doctor.matrix.names import known_library
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.plan.manifest_signs import without_musl
from tfgpu_doctor.plan.ranking import MachineState, make_plan
from tfgpu_doctor.plan.target import describe

ROWS = read_rows(Path(__file__).parent / "rows" / "repairs.yaml")
FIRST = dict(ROWS["first"])  # text → the first command
# text → what its first command begins with, what a sentence or a command and the title have, and what none has
ADVISED = {row["text"]: row for row in ROWS["advised"]}


@each("text", FIRST)
def test_the_first_command(text: str) -> None:
    assert findings(text)[0].fixes[0].commands[0] == FIRST[text]


@each("text", ADVISED)
def test_what_the_text_tells_decides_on_the_repair(text: str) -> None:
    row = ADVISED[text]
    first = next(one for one in findings(text) if one.id == row.get("id", one.id))
    commands = [command for fix in first.fixes for command in fix.commands]
    assert (commands[:1] or [""])[0].startswith(row["begins"]) and row.get("title", "") in first.title
    shown = "\n".join((*(fix.text for fix in first.fixes), *commands))
    assert row.get("has", "") in shown and row["never"] not in shown


NO_TENSORFLOW = {
    "python.packages": packages(),
    "python.tensorflow_paths": known(()),
    "tensorflow.version": Unknown("not installed"),
}
NO_GPU = {"gpus": known(()), "host.pci_gpus": known(())}


def test_without_a_gpu_the_doctor_advises_what_plan_does() -> None:
    found = diagnose(spoil(healthy(), {**NO_TENSORFLOW, **NO_GPU}), MATRIX).findings
    plan = make_plan(MATRIX, describe(MATRIX, python="3.12"), state=MachineState(no_gpu=True))
    (commands,) = (one.fixes[0].commands for one in found if one.id == "tf.not-installed")
    assert commands == (f"/env/bin/python -m pip install tensorflow=={plan.options[0].tensorflow}",)


# file name → component, its version, the CUDA that it belongs to where the name tells
NAMES: dict[str, list[str | None]] = ROWS["library_names"]


def test_file_names_of_libraries() -> None:
    found = {name: library for name in (*NAMES, *ROWS["other_files"]) if (library := known_library(name))}
    assert {name: [one.component, one.version, one.cuda_version] for name, one in found.items()} == NAMES
    optional = {"libcupti.so.11.2", "libnccl.so.2", "libnvinfer.so.7", "libnvinfer_plugin.so.8.6.1"}
    assert {name for name, one in found.items() if one.optional} == optional


@each(("image", "sibling"), ROWS["images"])
def test_images_of_alpine_have_a_sibling_with_glibc(image: str, sibling: str | None) -> None:
    name, _, tag = image.rpartition(":")
    assert without_musl(Image(name=name, tag=tag, place=Place("Dockerfile", 1), text=image)) == sibling


@each(("version", "severity"), [("2.10.1", None), ("2.11.0", Severity.WARNING), ("a fork's own", None), ("", None)])
def test_only_a_release_that_is_known_to_need_it_is_warned_about(version: str, severity: Severity | None) -> None:
    release = msgspec.structs.replace(
        MATRIX.releases(platform="linux_x86_64", package="tensorflow")[0], version=version
    )
    assert xla._severity(release, 1, (), "ptxas") is severity


_SMI = """
| NVIDIA-SMI 535.54       Driver Version: 535.54       CUDA Version: 12.2     |
|   0  Tesla T4            Off  | 00000000:00:1E.0 Off |                    0 |
| N/A   33C    P8     9W /  70W |      0MiB / 15360MiB |      0%      Default |"""
# a text, and the cause that must come first; of a situation on a system, or by what a text tells besides
LIKELIEST = [*(row[2:] for row in ROWS["situations"]), *ROWS["by_facts"]]


def common(facts: Facts) -> list[str]:
    return [one.id for one in diagnose(facts, MATRIX).findings if one.possible and one.cause in (*LIKE_OTHERS, GUESSED)]


@each(("text", "cause"), LIKELIEST)
def test_the_likeliest_cause_of_a_situation_and_of_other_facts(text: str, cause: str | None) -> None:
    """A probed machine gets none: what it was examined for is known."""
    facts = facts_of(text)
    assert next(iter(common(facts)), None) == cause
    assert common(spoil(healthy(), {"messages": facts.messages})) == []


def test_what_else_a_text_tells_decides_on_what_is_guessed() -> None:
    text = "TensorFlow does not use my GPU, there is no cuDNN on this machine"  # the reason that somebody gives
    (symptom, first, second, *_) = diagnose(facts_of(text), MATRIX).findings
    assert (symptom.id, first.id, first.cause, second.cause) == ("gpu.not-visible", "cudnn.missing", SAID, BECAUSE)
    # where nvidia-smi works, nothing below TensorFlow is the cause
    guessed = common(facts_of(f"TensorFlow does not see my GPU in the docker container.{_SMI}"))
    assert guessed and not any(one.startswith(("driver.", "container.", "wsl.", "gpu.none")) for one in guessed)
    # a traceback without its last line is a failed import
    cut = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n    import tensorflow as tf'
    assert len(common(facts_of(cut))) == MOST


def test_every_situation_and_system_has_a_row_and_every_cause_is_a_finding() -> None:
    rows = {(seen, system) for seen, system, *_ in ROWS["situations"]}
    assert rows == {(seen, system) for seen, table in COMMON.items() for system in table}
    assert {one for table in COMMON.values() for row in table.values() for one in row} <= set(DECLARATIONS)


# an error that a sign sees, and the cause whose reports have the same words
_SIGN, _WORDS = "Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open", "tf.cpu-build"


def like(facts: Facts, words: int, **likeness: float) -> Facts:
    """Facts of a text that is so much like reports of these causes."""
    told = [one for one in value_or(facts.messages, ()) if one.kind != "resembles"]
    told += [
        Message("resembles", 1, "words", {"cause": cause, "likeness": str(much), "words": str(words)})
        for cause, much in likeness.items()
    ]
    return msgspec.structs.replace(facts, messages=Known(tuple(told), "the text"))


@each(
    ("words", "likeness", "certain"),
    [
        (100, {_WORDS: 1.0}, False),
        (100, {_WORDS: -0.9, "driver.missing": -0.5}, True),
        (100, {_WORDS: 1.0, "driver.missing": 1.0}, True),
        (100, {"ok": 1.0}, False),
        (5, {_WORDS: 1.0}, True),  # a few words raise no doubt
        (100, {}, True),
    ],
)
def test_an_error_is_doubted_where_another_cause_is_likelier(
    words: int, likeness: dict[str, float], certain: bool
) -> None:
    found = diagnose(like(facts_of(_SIGN), words, **likeness), MATRIX).findings
    (error,) = (one for one in found if one.id == "driver.missing")
    assert (error.possible, error.severity) == (not certain, Severity.ERROR if certain else Severity.WARNING)
    likeliest = next(one for one in found if one.severity is not Severity.NOTE and one.id not in SYMPTOMS)
    assert (likeliest.id == "driver.missing") is (certain or "ok" in likeness)


def test_of_two_problems_the_likelier_comes_first() -> None:
    facts = facts_of("failed call to cuInit: CUDA_ERROR_NO_DEVICE\nCUDA_VISIBLE_DEVICES=-1\nlibdevice not found at ./x")
    for first, other in (("gpu.hidden", "xla.libdevice-missing"), ("xla.libdevice-missing", "gpu.hidden")):
        found = diagnose(like(facts, 100, **{first: 3.0, other: 2.0}), MATRIX).findings
        assert [one.id for one in found if one.id in (first, other)] == [first, other]


def test_only_what_is_likely_is_guessed() -> None:
    """Beside an error, what is about as likely; in a text that is like healthy ones, what is more so."""
    facts, healthy_text = facts_of(_SIGN), facts_of("a line about a gpu " * 5)
    guessed = [common(like(facts, 100, **{"driver.missing": 0.0, _WORDS: much})) for much in (-0.9, 0.2)]
    guessed += [common(like(healthy_text, 100, ok=1.0, **{_WORDS: much})) for much in (0.0, 1.0)]
    assert guessed == [[], [_WORDS], [], [_WORDS]]


@each("values", [{}, {"cause": "cuda.missing"}, {"cause": "no.such", "likeness": "much", "words": "nan"}])
def test_a_saved_report_can_hold_any_likeness(values: dict[str, str]) -> None:
    messages = Known(
        (Message("trouble-said", 1, "a problem with a GPU"), Message("resembles", 1, "", values)), "a report"
    )
    assert diagnose(Facts(messages=messages), MATRIX).findings


# texts whose advice tests/systems/test_shells.py reads for Windows
TEXTS = [
    *(text for id_, rows in MESSAGES.items() if id_.startswith(("cu", "tf.", "xla.")) for text in rows.values()),
    *(text for _, text in NAMED_FIRST),
]


@pytest.mark.parametrize("day", [True, pytest.param(False, marks=pytest.mark.full)])
def test_advice_over_facts(day: bool) -> None:
    """One release, each fault once, nothing that a fact speaks against, and no search path overwritten.

    On clusters LD_LIBRARY_PATH leads to the driver. By day two rows of each finding; of texts, test_cases.py asks it.
    """
    new = {"gpus": known((gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"),))}
    machines = (release("2.21.0"), {**release("2.17.1"), **new}, {**release("2.17.1"), "gpus": Unknown("test")})
    turns, wrong = cycle((*machines, release("2.12.1"))), []
    for finding, rows in MACHINES.items():
        for name, changes in rows[:2] if day else rows:
            machine = next(turns)
            facts = spoil(healthy(), {**machine, **changes})
            found = diagnose(facts, MATRIX).findings
            lines = (line for one in found for fix in one.fixes for line in fix.commands)
            before = value_or(facts.variables, {})
            why = [*unfit(facts, MATRIX, found), *(line for line in lines if overwritten(line, before))]
            # releases that do not go with the GPU have other fixes
            why += complaints(found) if "gpus" not in machine else ()
            wrong += [(finding, name, one) for one in why]
    assert wrong == [], "\n".join(map(str, wrong))


def test_an_overwritten_search_path_is_seen() -> None:
    """The check of the check."""
    assert all(map(overwritten, PASTED["overwritten"]))
    assert not any(map(overwritten, PASTED["not_overwritten"]))
    assert not overwritten("export LD_LIBRARY_PATH=/a:/b", {"LD_LIBRARY_PATH": "/a:/stubs:/b"})


def test_what_lasts_comes_before_what_ends_with_the_shell() -> None:
    found = diagnose(spoil(healthy(), {"loader.sonames": off_path("cusolver")}), MATRIX).findings
    (path,) = (one for one in found if one.root_cause)  # one fault of this release
    assert path.id == "cuda.lib-path"
    assert [fix.commands[-1].split()[0] for fix in path.fixes] == ["ln", "/env/bin/python", "export"]
    assert path.fixes[0].commands[0].startswith(f"ln -sf {SITE}/nvidia/cusolver/lib/*.so* {SITE}/nvidia/")
