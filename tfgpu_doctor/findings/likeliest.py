"""The likeliest causes of what a text shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tfgpu_doctor.facts.facts import Known, Message, value_or
from tfgpu_doctor.facts.report import Finding, Severity
from tfgpu_doctor.findings.declaration import Context, Declaration, MessageLog, Problem, matches, message_evidence
from tfgpu_doctor.findings.inputs import fetch, smi_works
from tfgpu_doctor.findings.judging import Candidate, Found, Judged, arrange, as_note
from tfgpu_doctor.findings.symptoms import SYMPTOMS, nothing_fails, situation, trouble
from tfgpu_doctor.parsers.resemblance import NO_CAUSE

# ----------------------------------------------------------------------------------------------------------------------
# What a text that only asks would run into: a note beside the answer, since nothing has failed yet. Pure.


def only_asked(found: list[Found], context: Context) -> list[Found]:
    """The findings as notes, where somebody asks and tells of no trouble; the answer alone says what to install."""
    if not asks_only(context):
        return found
    return [one if one.finding.severity is Severity.NOTE else as_note(one, fixes=()) for one in found]


def asks_only(context: Context) -> bool:
    """Whether a text asks, and nothing fails in it."""
    messages = fetch("messages", context)
    if context.probed or not isinstance(messages, Known):
        return False
    question = messages.value.first("question")
    asks = question is not None and question.values["trouble"] != "yes"
    return asks and nothing_fails(messages.value, value_or(fetch("devices", context), None))


# ----------------------------------------------------------------------------------------------------------------------
# What speaks for a cause where a text is all there is, and how much: signs, facts, the situation and words.
# The causes of a situation stand in the order of their numbers in tests/cases on 2026-11-23 (WSL2: 11-25), without
# those that print a message of their own (a missing GLIBC, a mismatch of the driver). Which causes reports in the same
# words had, parsers/resemblance.py tells. The engine says of a guess that it is possible, and leaves out what the facts
# contradict.


_BELOW = ("driver.", "container.", "wsl.", "gpu.none")  # causes below TensorFlow
MOST = 3  # causes; a longer list is no help
# What speaks for a cause, and how much: natural logarithms of odds, fitted by scripts/learn_evidence.py to reports that
# the signs were not written from. `likeness` is multiplied by the number that parsers/resemblance.py gives. `usual` is
# above the fit (0), because few of those reports are as short as a question in a chat.
EVIDENCE = {
    "likeness": 4.0,
    "certain": 0.5,  # a sign sees an error
    "sure": 0.8,  # ... of SURE
    "first": 2.0,  # ... that stands before the others
    "warned": 2.4,  # a sign sees a warning
    "open": 2.0,  # a sign leaves it open, or it would explain what is seen
    "said": 1.4,  # somebody gives it as the reason
    "usual": 0.2,  # the first of its situation; of the second a half, of the third a third
    "quiet": 0.7,  # nothing is wrong, and no sign sees an error
}
# whose signs held in about nine of ten reports that they were not written from, or in more
SURE = (
    *("tf.abi-*", "tf.import-avx", "tf.glibc-too-old", "tf.python-unsupported", "gpu.arch-too-*", "xla.*"),
    *("driver.too-old", "driver.version-mismatch", "cuda.version-mismatch", "cudnn.version-mismatch"),
    *("cudnn.dep-missing", "tf.not-installed"),
)
UNLIKE = -1.0  # likeness to reports of which a text has nothing
ENOUGH = 40  # different words; fewer say less of what a text is like
DOUBTED_FROM = 0.5  # of them; in fewer words a sign is believed
SITUATION = 4.0  # by so much more the facts and the situation count in a text without a word
LEAD = 1.5  # by so much a problem that a text shows must be likelier than any other cause, or it is only possible
BESIDE = 2.0  # by so much less likely causes are named beside a problem that a text shows
HEALTHY = 0.5  # by so much it must be more like reports in which nothing is wrong, or causes are named
SAID = "somebody gives this as the reason, and the text shows no other"
BECAUSE = "the text does not show why; in similar reports, this is often the cause"
# situation → system ("" for any other) → causes
COMMON: dict[str, dict[str, tuple[str, ...]]] = {
    "no GPU": {
        "windows": ("tf.windows-native", "cuda.version-mismatch", "cuda.missing", "tf.cpu-build"),
        "wsl2": ("wsl.setup", "cuda.missing", "cuda.lib-path"),
        "macos": ("tf.cpu-build", "gpu.none"),
        "container": ("container.no-gpu", "cuda.missing", "cuda.version-mismatch"),
        "": ("cuda.missing", "cuda.version-mismatch", "cuda.lib-path", "tf.cpu-build"),
    },
    "import": {
        "windows": ("tf.import-dll", "tf.python-unsupported", "tf.abi-numpy"),
        "macos": ("tf.import-avx", "tf.abi-numpy"),
        "": ("tf.abi-numpy", "tf.package-conflict", "tf.wrong-env"),
    },
    "hangs": {"": ("perf.small-work", "perf.input-bound")},
    "slow": {"": ("perf.small-work", "perf.input-bound", "gpu.arch-too-new")},
    "fails": {
        "wsl2": ("wsl.setup", "cuda.missing"),
        "container": ("container.no-gpu", "memory.oom", "cuda.version-mismatch"),
        "": ("memory.oom", "gpu.arch-too-new", "cudnn.version-mismatch", "cuda.version-mismatch"),
    },
}

# Situation → what cannot be the cause of it: only what runs on a GPU is slow there, wrong, or too large for it; and a
# build without CUDA can be imported.
_DEVICE = ("gpu.throttled", "gpu.fault", "cudnn.init")
_ON_THE_GPU = ("perf.", "compute.", "memory.", "nccl.", "p2p.", "shm.", "xla.", *_DEVICE)
_RUNS = ("gpu.", "xla.", "driver.not-loaded", "tf.cpu-build", "tf.windows-native")  # the import ends well
_CANNOT = {"no GPU": _ON_THE_GPU, "import": (*_ON_THE_GPU, *_RUNS)}
# what there is on one system only
ONLY_ON = {"tf.windows-native": "windows", "tf.import-dll": "windows", "wsl.setup": "wsl2"}


# ----------------------------------------------------------------------------------------------------------------------
# How likely each cause is where a text is all there is: by its signs, its versions, its situation and its words.
# All of it is evidence, and none of it proof. A problem that a sign sees is doubted, and so only possible, where it is
# not clearly likelier than every other cause; what is possible stands in the order of its likelihood. Pure.


Open: TypeAlias = "tuple[Declaration, Candidate]"
_AT_LEAST = EVIDENCE["likeness"] * UNLIKE  # what a cause has without any evidence
_CALM = ("only-printed", "few-words")
_LARGEST = 1e6  # number that a report can hold there


@dataclass(frozen=True)
class Text:
    """A text, and what it tells of the situation."""

    log: MessageLog
    os: str | None
    container: str | None
    driver_works: bool  # nvidia-smi shows a GPU, so that nothing below TensorFlow is the cause
    seen: str | None  # the situation
    shows: Message | None  # it
    likeness: dict[str, float]  # by cause
    # how much its words say, between 0 and 1: few say little, printed lines no more than their messages
    fullness: float


def read(context: Context) -> Text | None:
    """The text that is judged; None where probes looked at the machine, a text only asks, or is a report of ours."""
    messages = fetch("messages", context)
    if context.probed or not isinstance(messages, Known) or asks_only(context) or messages.value.has("own-finding"):
        return None
    log = messages.value
    seen, shows = situation(log, value_or(fetch("devices", context), None)) or trouble(log) or (None, None)
    like = [one for one in log.all("resembles") if "cause" in one.values]
    words = max((_number(one, "words", 0.0) for one in like), default=0.0)
    if log.has("only-printed") and "12" in log.values("log-era", "cuda"):
        words = 0.0  # most reports that likeness was learnt from are older: the same lines meant another cause
    fullness = min(words / ENOUGH, 1.0)
    likeness = {one.values["cause"]: UNLIKE + fullness * (_number(one, "likeness", UNLIKE) - UNLIKE) for one in like}
    host, smi = context.facts.host, value_or(context.facts.driver.nvidia_smi, None)
    os, container = value_or(host.os, None), value_or(host.container, None)
    return Text(log, os, container, smi_works(smi), seen, shows, likeness, fullness)


def weigh(text: Text, certain: list[Found], opened: Sequence[Open]) -> dict[str, float]:
    """How likely each cause is: a number to compare with those of the others."""
    found = weights(text, certain, opened)
    return {cause: sum(EVIDENCE[name] * much for name, much in found[cause].items()) for cause in found}


def weights(text: Text, certain: list[Found], opened: Sequence[Open]) -> dict[str, dict[str, float]]:
    """What speaks for each cause: evidence by name, as in EVIDENCE, and how much of it there is."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"likeness": UNLIKE})
    for cause, likeness in text.likeness.items():
        found[cause]["likeness"] = likeness
    for cause, name, much in reversed([*evidence_of(text)]):  # the first of each counts
        found[cause][name] = much * (1 + SITUATION * (1 - text.fullness))
    for declared, _ in opened:
        found[declared.id]["open"] = 1.0
    problems = _problems(certain)
    errors = [one.id for one in problems if one.severity is Severity.ERROR]
    for one in problems:
        found[one.id]["certain" if one.severity is Severity.ERROR else "warned"] = 1.0
    for cause in errors:
        found[cause]["sure"] = float(matches(cause, SURE))
    found[errors[0] if errors else "ok"]["first" if errors else "quiet"] = 1.0
    return found


def _problems(certain: list[Found]) -> list[Finding]:
    """What signs see that is neither a symptom nor a note, the first first."""
    return [one for one in arrange(certain) if one.severity is not Severity.NOTE and one.id not in SYMPTOMS]


def tells_enough(text: Text) -> bool:
    """Whether its words say enough to doubt what signs show, or to put one problem before another."""
    return text.fullness >= DOUBTED_FROM


def doubted(text: Text, likely: dict[str, float], certain: list[Found]) -> set[str]:
    """The problems that signs see, and that are not much likelier than any other cause; a few words raise no doubt."""
    if not tells_enough(text):
        return set()
    problems = {one.id for one in _problems(certain)}
    sure = {one.finding.id for one in certain if one.problem.sure}
    other = max((much for cause, much in likely.items() if cause not in problems), default=0.0)
    return {cause for cause in problems - sure if likely[cause] < other + LEAD}


def suggested(text: Text, opened: Sequence[Open]) -> Iterator[Open]:
    """What is possible without what holds for one of several releases alone, where nothing goes wrong."""
    return (one for one in opened if text.shows is not None or not one[1].by_value_alone)


def likeliest(
    text: Text,
    likely: dict[str, float],
    certain: list[Found],
    opened: Sequence[Open],
    judged: Sequence[Judged],
    context: Context,
) -> list[Open]:
    """What is only possible, the likeliest first, with the likeliest causes that nothing shows.

    Of the latter without those that the facts contradict, only as many as make MOST causes, and beside what is shown,
    only those that are about as likely.
    """
    found = {declared.id: (declared, candidate) for declared, candidate in opened}
    seen = [one.id for one in _problems(certain)]
    are_wanted = tells_enough(text) if seen or found else _is_trouble(text, certain)
    is_answered = text.shows is None and any(one.declared.answers for one in certain)
    guessed = dict(_guesses(judged, text, found, context)) if are_wanted and not is_answered else {}
    much = {cause: likely.get(cause, _AT_LEAST) for cause in (*seen, *found, *guessed)}
    least = max((much[cause] for cause in (*seen, *found)), default=-_LARGEST) - BESIDE
    likely_ones = [cause for cause in guessed if much[cause] > least]
    likely_ones = sorted(likely_ones, key=lambda cause: -much[cause])[: max(MOST - len(seen) - len(found), 0)]
    return [found.get(cause) or guessed[cause] for cause in sorted([*found, *likely_ones], key=lambda one: -much[one])]


def _is_trouble(text: Text, certain: list[Found]) -> bool:
    """Whether something goes wrong: the text tells, or is about as much like reports with a cause as like others.

    What programs print without a failure, a few words that ask nothing, and a text about another framework complain of
    nothing that could be found here.
    """
    calm = text.shows is None and text.log.has(*_CALM)
    if calm or (text.seen in (None, "slow") and text.log.has("other-framework")):
        return False
    if text.shows is not None and not (certain and text.shows.kind == "trouble-said"):
        return True
    none = max(text.likeness.get(one, UNLIKE) for one in NO_CAUSE)
    some = max((much for one, much in text.likeness.items() if one not in NO_CAUSE), default=none)
    return not text.log.has("gpu-created") and some > none - HEALTHY * text.fullness


def _guesses(
    judged: Sequence[Judged], text: Text, shown: dict[str, Open], context: Context
) -> Iterator[tuple[str, Open]]:
    """What nothing shows and no fact contradicts, with the line that tells of the trouble."""
    said = {one.values.get("cause"): one for one in reversed(text.log.all("cause-said"))}
    never = tuple(ruled_out(text))
    usual = (cause for cause, _, _ in evidence_of(text))
    causes = {*text.likeness, *said, *usual} - {*NO_CAUSE, *shown}
    package = context.facts.tensorflow.distribution
    assumed = not isinstance(package, Known) or package.grade == "inferred"  # that it was the one with CUDA
    for one in judged:
        cause = one.declared.id
        contradicted = one.contradicted and not (cause == "tf.cpu-build" and assumed)
        if cause in causes and not cause.startswith(never) and not one.candidates and not contradicted:
            because, words = (SAID, said[cause]) if cause in said else (BECAUSE, text.shows)
            yield cause, (one.declared, as_possible(because, words))


def _number(one: Message, name: str, otherwise: float) -> float:
    """A value of a message as a number; a saved report can hold anything there."""
    try:
        number = float(one.values.get(name, otherwise))
    except ValueError:
        return otherwise
    return number if abs(number) < _LARGEST else otherwise


def evidence_of(text: Text) -> Iterator[tuple[str, str, float]]:
    """What the situation says of causes: each with the name of that evidence, and how much of it there is."""
    inside = "container" if text.container and text.container != "none" else ""
    table = COMMON[text.seen] if text.seen else {"": ()}
    for n, cause in enumerate(table.get(text.os or "-") or table.get(inside) or table[""], start=1):
        yield cause, "usual", 1 / n
    for cause in {*text.log.values("cause-said", "cause")}:
        yield cause, "said", 1.0


def ruled_out(text: Text) -> Iterator[str]:
    """Causes, or layers of them, that the facts rule out.

    What lies below TensorFlow, where something else uses the GPU; what there is on another system only; what cannot be
    the cause of that situation.
    """
    elsewhere = text.log.values("works-elsewhere", "where")  # that it works, on the same computer
    if text.driver_works or any("torch" in where.lower() for where in elsewhere):
        yield from _BELOW
    if set(text.log.values("container-start", "gpus")) == {"yes"} and text.seen != "no GPU":
        yield "container.no-gpu"
    if text.container in (None, "none"):
        yield "container."
    yield from (cause for cause, system in ONLY_ON.items() if text.os not in (None, system))
    yield from _CANNOT.get(text.seen or "", ())


def as_possible(because: str, *seen: Message | None) -> Candidate:
    """A finding that nothing shows and nothing rules out; the commands that decide stand with all of them."""
    problem = Problem(cause=because, evidence=message_evidence(*seen, most=1), fixes=(), severity=Severity.WARNING)
    return Candidate(problem, possible=True)
