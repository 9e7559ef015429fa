"""What a finding is: declared once, with its signs below it in the same file.

A finding declares its id, the layer that it is about, severity, title and link, the findings that explain it
(`explained_by`) and those that make its question pointless (`pointless_after`). Its place in the order of declaration
is its rank (`catalogue.py` lists the files in that order). A sign is a pure function that answers with a
:class:`Problem` or None::

    MISSING = finding("cudnn.missing", layer="cuDNN", severity=Severity.ERROR, title="cuDNN is not installed", docs=URL)

    @MISSING.sign
    def no_file_found(context: Context, cudnn_sonames: tuple[Soname, ...], release: Release | None = None): ...

Its inputs are bound by the names of its parameters (:mod:`tfgpu_doctor.findings.inputs`): a fact, or something derived
from facts. A parameter without a default must be known, else the sign cannot be judged; one with a default gets it
when the fact is unknown. `context` is not an input: it gives sources, the matrix, and commands for this machine.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from tfgpu_doctor.records.about import LAYERS
from tfgpu_doctor.records.report import Evidence, Fix, Severity

_PRINTED = frozenset({"messages", "reported_cuda", "reported_cudnn"})  # inputs that are made of printed messages
_GPU_LAYERS = ("GPU", "Driver", "CUDA", "cuDNN", "Devices")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a sign found. What is None here is taken from the finding's declaration."""

    evidence: tuple[Evidence, ...]
    cause: str | None = None
    fixes: tuple[Fix, ...] | None = None
    title: str | None = None  # more telling than the declared one: with versions, names, numbers
    severity: Severity | None = None
    possible: bool = False  # the evidence leaves it open: it neither silences nor explains anything
    rank_first: bool = False  # stands before the others of its severity
    never_consequence: bool = False  # what explains the finding in general does not explain this evidence
    despite_verified: bool = False  # as in the declaration, for this evidence
    sure: bool = False  # facts show it, so that the words of a text raise no doubt


Decision = Callable[..., Problem | None]
D = TypeVar("D", bound=Decision)


@dataclass(frozen=True)
class Sign:
    """One way in which a finding shows itself."""

    decide: Decision
    takes_context: bool
    required: tuple[str, ...]  # inputs that must be known
    optional: tuple[str, ...]  # inputs that may be unknown
    gates: tuple[str, ...]  # inputs that must be known, and are not handed over
    conclusive: bool  # where all its required inputs are known, None means that the finding does not hold
    unless: tuple[str, ...]  # patterns of ids: findings that account for what this sign sees

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of everything that it depends on."""
        return (*self.gates, *self.required, *self.optional)

    @property
    def reads_messages(self) -> bool:
        """Whether it judges what programs printed."""
        return not _PRINTED.isdisjoint(self.required)


@dataclass(frozen=True, eq=False)
class Declaration:
    """A finding, and all that is declared about it."""

    id: str
    layer: str
    severity: Severity
    title: str
    docs: str
    explained_by: tuple[str, ...] = ()  # patterns of ids: this one is a consequence of those
    pointless_after: tuple[str, ...] = ()  # patterns of ids: when one of those holds, this question is not asked
    cause: str = ""  # said of every sign that gives none of its own
    fixes: Callable[[Any], tuple[Fix, ...]] | None = None  # of the context; for signs that give none
    symptoms: tuple[Any, ...] = ()  # findings.symptoms.Symptom: what it would explain, were it the cause
    answers: bool = False  # answers a question, where nothing has failed
    about_gpus: bool = False  # says why there is no GPU, so that it is no fault where none is required
    despite_verified: bool = False  # stays an error where small computations were verified, which do not reach it
    signs: list[Sign] = field(default_factory=list)

    @overload
    def sign(self, decide: D) -> D: ...

    @overload
    def sign(
        self, *, gates: tuple[str, ...] = (), conclusive: bool | None = None, unless: tuple[str, ...] = ()
    ) -> Callable[[D], D]: ...

    def sign(
        self,
        decide: D | None = None,
        *,
        gates: tuple[str, ...] = (),
        conclusive: bool | None = None,
        unless: tuple[str, ...] = (),
    ) -> D | Callable[[D], D]:
        """Register a sign.

        `gates` are inputs that must be known although the function does not need their value. A sign over facts is
        conclusive, unless said otherwise: its None rules the finding out, so that a printed line cannot bring it
        back where probes looked at the machine. A sign over messages never is. `unless` names the findings that
        account for what this sign sees, so that it shows nothing of its own beside them.
        """

        def register(function: D) -> D:
            code, defaults = function.__code__, function.__defaults__ or ()
            names = code.co_varnames[: code.co_argcount]
            takes_context = names[:1] == ("context",)
            inputs = names[1:] if takes_context else names
            required = inputs[: len(inputs) - len(defaults)]
            decides = _PRINTED.isdisjoint(required) if conclusive is None else conclusive
            optional = inputs[len(required) :]
            self.signs.append(Sign(function, takes_context, required, optional, gates, decides, unless))
            return function

        return register(decide) if decide is not None else register

    def is_pointless(self, ids: set[str]) -> bool:
        """Whether one of these findings makes its question pointless."""
        return any(matches(one, self.pointless_after) for one in ids)


DECLARATIONS: dict[str, Declaration] = {}  # by id, in the order of declaration


def finding(
    finding_id: str,
    *,
    layer: str,
    severity: Severity,
    title: str,
    docs: str,
    about_gpus: bool | None = None,
    **more: Any,
) -> Declaration:
    """Declare a finding.

    Raises:
        ValueError: the id is declared already, or there is no such layer.
    """
    if finding_id in DECLARATIONS or layer not in LAYERS:
        raise ValueError(f"{finding_id}: declared twice, or of the unknown layer {layer!r}")
    about = layer in _GPU_LAYERS if about_gpus is None else about_gpus
    declared = Declaration(finding_id, layer, severity, title, docs, about_gpus=about, **more)
    DECLARATIONS[finding_id] = declared
    return declared


def matches(finding_id: str, patterns: tuple[str, ...]) -> bool:
    """Whether an id matches one of the patterns ("driver.*", "gpu.none")."""
    return any(fnmatch.fnmatchcase(finding_id, pattern) for pattern in patterns)


def evidence(found: Any, source: str, expected: str | None = None, expected_source: str | None = None) -> Evidence:
    """Shorten the commonest line of a sign."""
    return Evidence(saw=str(found), source=source, need=expected, need_source=expected_source)
