"""What is possible, and the command that would decide; where nothing shows a cause, the likeliest ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfgpu_doctor.diagnosis.judging import Candidate, Judged
from tfgpu_doctor.findings.commonness import BECAUSE, SAID, Told, by_likelihood, is_healthy, situation, trouble
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Declaration, Problem
from tfgpu_doctor.findings.driver_answers import smi_works
from tfgpu_doctor.findings.inputs import fetch
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.unmet_needs import unmet_needs
from tfgpu_doctor.records.facts import Known, Message, value_or
from tfgpu_doctor.records.report import Severity


def likeliest(judged: Sequence[Judged], context: Context) -> Iterator[tuple[Declaration, Candidate]]:
    """Causes of what a text tells of, likeliest first, without those that the facts contradict."""
    messages = fetch("messages", context)
    if context.probed or not isinstance(messages, Known):
        return
    seen = situation(messages.value, value_or(fetch("devices", context), None))
    if seen is None and any(one.candidates for one in judged):
        return
    name, line = seen or trouble(messages.value) or (None, None)
    if name is None and is_healthy(messages.value):
        return
    open_ones = _open(judged, context)
    for cause, because, words in _ranked(messages.value, name, context):
        if cause in open_ones:
            yield open_ones[cause].declared, as_possible(because, words if because == SAID else line or words)


def unfit(judged: Sequence[Judged], context: Context) -> Iterator[tuple[Declaration, Candidate]]:
    """Causes that follow from versions and cards that a text names, where it tells of a failure without a cause."""
    messages = fetch("messages", context)
    if context.probed or not isinstance(messages, Known):
        return
    seen = situation(messages.value, value_or(fetch("devices", context), None)) or trouble(messages.value)
    declared = {one.declared.id: one.declared for one in judged if not one.is_certain}
    for one in unmet_needs(context, seen[0]) if seen else ():
        if one.cause in declared:
            yield declared[one.cause], Candidate(one.problem, possible=True)


def _open(judged: Sequence[Judged], context: Context) -> dict[str, Judged]:
    """What nothing shows and no fact contradicts, by its id."""
    return {one.declared.id: one for one in judged if not one.candidates and not _is_contradicted(one, context)}


def _ranked(log: MessageLog, seen: str | None, context: Context) -> Iterator[tuple[str, str, Message | None]]:
    """Causes, the likeliest first, each with the reason and the words that speak for it."""
    found = [one for one in log.all("resembles") if "cause" in one.values]
    shares = {one.values["cause"]: _share(one) for one in found}
    like = {one.values["cause"]: one for one in found if one.text}
    said = {one.values.get("cause"): one for one in reversed(log.all("cause-said"))}
    for cause in by_likelihood(shares, _told(log, context), seen):
        yield (cause, SAID, said[cause]) if cause in said else (cause, BECAUSE, like.get(cause))


def _share(one: Message) -> float:
    """Its share; a saved report can hold anything there."""
    try:
        return float(one.values.get("share", "0"))
    except ValueError:
        return 0.0


def _told(log: MessageLog, context: Context) -> Told:
    """What the text tells of the machine."""
    version = context.facts.tensorflow.version
    return Told(
        os=value_or(context.facts.host.os, None),
        container=value_or(context.facts.host.container, None),
        cards=value_or(fetch("cards", context), ()),
        releases=(version.value,) if isinstance(version, Known) else version.one_of,
        driver_works=smi_works(value_or(context.facts.driver.nvidia_smi, None)),
        gpus_given=set(log.values("container-start", "gpus")) == {"yes"},
        cuda=[kit.version for kit in value_or(context.facts.cuda.toolkits, ()) if kit.version],
        cuda_wanted=log.values("cuda-wanted", "version"),
        said=log.values("cause-said", "cause"),
        works=log.values("works-elsewhere", "where"),
    )


def _is_contradicted(one: Judged, context: Context) -> bool:
    """Whether a fact rules it out; that the package was the one with CUDA is mostly assumed."""
    package = context.facts.tensorflow.distribution
    assumed = not isinstance(package, Known) or package.grade == "inferred"
    return one.contradicted and not (one.declared.id == "tf.cpu-build" and assumed)


def as_possible(because: str, *seen: Message | None) -> Candidate:
    """A finding that nothing shows and nothing rules out; the commands that decide stand with all of them."""
    problem = Problem(cause=because, evidence=message_evidence(*seen, most=1), fixes=(), severity=Severity.WARNING)
    return Candidate(problem, possible=True)
