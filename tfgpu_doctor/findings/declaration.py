"""What a finding is, and what its signs are written with: the context, repairs, messages, phases."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeVar

from tfgpu_doctor.facts.about import LAYERS
from tfgpu_doctor.facts.facts import Facts, Known, Message, Unknown, look_up, value_or
from tfgpu_doctor.facts.report import Evidence, Fix, Severity
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.parsers import messages as catalogue

# ----------------------------------------------------------------------------------------------------------------------
# A finding is declared once: its id, the layer that it is about, severity, title and link, the findings that explain it
# (`explained_by`) and those that make its question pointless (`pointless_after`). Its place in the order of declaration
# is its rank (`catalogue.py`). Its signs stand below it in the same file: pure functions that answer with a
# :class:`Problem` or None::
#     MISSING = finding("cudnn.missing", layer="cuDNN", severity=Severity.ERROR, title="...", docs=URL)
#     @MISSING.sign()
#     def no_file_found(context: Context, cudnn_sonames: tuple[Soname, ...], release: Release | None = None): ...
# Inputs are bound by the names of parameters (:mod:`tfgpu_doctor.findings.inputs`): facts, and what is derived from
# them. One without a default must be known, else the sign cannot be judged; one with a default gets it when the fact is
# unknown. `context` is not an input: it gives sources, the matrix, and commands for this machine.


_PRINTED = frozenset({"messages", "reported_cuda", "reported_cudnn"})  # inputs that are made of printed messages
_GPU_LAYERS = ("GPU", "Driver", "CUDA", "cuDNN", "Devices")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a sign found: nothing, without evidence. What is None here is taken from the finding's declaration."""

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
    answers: bool = False  # as in the declaration, for this evidence: it says all about what the text complains of


D = TypeVar("D", bound=Callable[..., Any])
Decision = Callable[..., Problem | None]


@dataclass(frozen=True)
class Sign:
    """One way in which a finding shows itself."""

    decide: Decision
    takes_context: bool
    required: tuple[str, ...]  # inputs that must be known
    optional: tuple[str, ...]  # inputs that may be unknown
    conclusive: bool  # where all its required inputs are known, None means that the finding does not hold
    unless: tuple[str, ...]  # patterns of ids: findings that account for what this sign sees

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of everything that it depends on."""
        return (*self.required, *self.optional)

    @property
    def reads_messages(self) -> bool:
        """Whether it judges what programs printed."""
        return not _PRINTED.isdisjoint(self.required)

    def show(self, context: Context, inputs: dict[str, Known[Any] | Unknown]) -> Problem | None:
        """Decide by the inputs that are known; without evidence nothing is shown."""
        given = {name: fact.value for name, fact in inputs.items() if isinstance(fact, Known)}
        problem = self.decide(context, **given) if self.takes_context else self.decide(**given)
        return problem if problem and problem.evidence else None


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

    def sign(self, *, conclusive: bool | None = None, unless: tuple[str, ...] = ()) -> Callable[[D], D]:
        """Register a sign.

        A sign over facts is conclusive, unless said otherwise: its None rules the finding out, so that a printed line
        cannot bring it back where probes looked at the machine. A sign over messages never is. `unless` names the
        findings that account for what this sign sees, so that it shows nothing of its own beside them.
        """

        def register(decide: D) -> D:
            names = decide.__code__.co_varnames[: decide.__code__.co_argcount]
            inputs = tuple(name for name in names if name != "context")
            known = len(inputs) - len(decide.__defaults__ or ())
            decides = _PRINTED.isdisjoint(inputs[:known]) if conclusive is None else conclusive
            self.signs.append(Sign(decide, "context" in names, inputs[:known], inputs[known:], decides, unless))
            return decide

        return register

    def printed(self, *kinds: str, unless: tuple[str, ...] = (), **shown: Any) -> None:
        """Register the sign that a program prints a message of one of these kinds, with what it shows beside it."""

        @self.sign(unless=unless)
        def printed(messages: MessageLog) -> Problem | None:
            return Problem(evidence=message_evidence(*messages.all(*kinds)), **shown)


DECLARATIONS: dict[str, Declaration] = {}  # by id, in the order of declaration


def finding(
    finding_id: str,
    *,
    layer: str,
    title: str,
    docs: str,
    severity: Severity = Severity.ERROR,
    about_gpus: bool | None = None,
    **more: Any,
) -> Declaration:
    """Declare a finding. Raises ValueError: the id is declared already, or there is no such layer."""
    if finding_id in DECLARATIONS or layer not in LAYERS:
        raise ValueError(f"{finding_id}: declared twice, or of the unknown layer {layer!r}")
    about = layer in _GPU_LAYERS if about_gpus is None else about_gpus
    DECLARATIONS[finding_id] = Declaration(finding_id, layer, severity, title, docs, about_gpus=about, **more)
    return DECLARATIONS[finding_id]


def matches(finding_id: str, patterns: tuple[str, ...]) -> bool:
    """Whether an id matches one of the patterns ("driver.*", "gpu.none")."""
    return any(fnmatch.fnmatchcase(finding_id, pattern) for pattern in patterns)


def evidence(found: Any, source: str, expected: str | None = None, expected_source: str | None = None) -> Evidence:
    """Shorten the commonest line of a sign."""
    return Evidence(saw=str(found), source=source, need=expected, need_source=expected_source)


# ----------------------------------------------------------------------------------------------------------------------
# What every sign gets besides its inputs: sources, the matrix, and commands for this very machine.


class Planned(Protocol):
    """What a manifest plans, as far as signs of every kind of text ask for it."""

    @property
    def tensorflow(self) -> object:
        """The TensorFlow that it names; None where it names none."""


class Fixes(Protocol):
    """What repairs this machine, as plan.fixes makes it; its members are described there."""

    @property
    def os(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def image(self) -> str | None: ...
    @property
    def python(self) -> str: ...
    @property
    def release(self) -> Release | None: ...
    @property
    def tensorflow(self) -> tuple[str, ...]: ...
    @property
    def knows_gpu(self) -> bool: ...
    @property
    def on_jetson(self) -> bool: ...
    def that_work_here(self, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]: ...
    def refuses(self, fix: Fix) -> bool: ...

    # releases
    def can_use(self, row: Release) -> bool: ...
    def kept_release(self) -> Release | None: ...
    def best_release(self, *, this_python: bool = True) -> Release | None: ...
    def python_for(self, row: Release) -> str: ...
    def image_cuda(self) -> tuple[str, str | None] | None: ...
    def wrong_cudnn_of_image(self) -> tuple[Release, str] | None: ...

    # fixes
    def reinstall(self, why: str, version: str | None = None) -> tuple[Fix, ...]: ...
    def reinstall_best(self, why: str) -> tuple[Fix, ...]: ...
    def beside_the_wheels(self, why: str) -> tuple[Fix, ...]: ...
    def with_cuda_beside(self, row: Release, text: str) -> Iterator[Fix]: ...
    def in_image(self, row: Release) -> tuple[Fix, ...]: ...
    def built_for(self, cuda: str, cudnn: str | None, *, lacks_cudnn: bool) -> tuple[Fix, ...]: ...
    def for_cpu(self) -> tuple[Fix, ...]: ...
    def for_image(self) -> tuple[Fix, ...] | None: ...
    def use_wsl(self) -> Iterator[Fix]: ...
    def install_driver(self, minimum: str | None = None) -> Fix: ...
    def installing(
        self, text: str, *requirements: str, first: tuple[str, ...] = (), then: tuple[str, ...] = ()
    ) -> tuple[Fix, ...]: ...

    # commands
    def bounded(self, row: Release) -> tuple[str, ...]: ...
    def install_tensorflow(self, row: Release) -> tuple[str, ...]: ...
    def made_visible(self, row: Release) -> tuple[str, ...]: ...
    def new_environment(self, row: Release) -> tuple[str, ...]: ...
    def pip_install(self, *requirements: str, python: str | None = None) -> tuple[str, ...]: ...
    def pip_uninstall(self, *names: str) -> str: ...
    def doctor(self, *arguments: str) -> str: ...
    def quote(self, word: str) -> str: ...
    def unset(self, *names: str) -> str: ...
    def rename(self, old: str, new: str) -> str: ...
    def filtered(self, command: str, *words: str, most: int = 0) -> str: ...
    def without_folders(self, variable: str, value: str, folders: Collection[str]) -> str | None: ...
    def link(self, folders: Iterable[str], target: str) -> str: ...
    def xla_data_dir(self, folder: str) -> str: ...
    def in_site(self, path: str) -> str: ...


MakeFixes: TypeAlias = Callable[[Facts, Matrix], Fixes]


@dataclass(frozen=True)
class Context:
    """The machine at hand. Signs read facts only through their parameters; this gives sources and fixes."""

    facts: Facts
    matrix: Matrix
    fixes: MakeFixes
    require_gpus: int | None = None
    planned: Planned | None = None  # the environment of a manifest, before anything is installed
    derived: dict[str, Known[Any] | Unknown] = field(default_factory=dict, compare=False, repr=False)  # by name, once

    def source(self, path: str) -> str:
        """Where the fact at `path` was read; the reason, when it is unknown."""
        fact = look_up(self.facts, path)
        return fact.source if isinstance(fact, Known) else str(getattr(fact, "reason", path))

    @property
    def probed(self) -> bool:
        """Whether probes looked at this machine; else a pasted text is all there is."""
        return is_probed(self.facts)

    @property
    def is_in_container(self) -> bool:
        """Whether the machine at hand, or that of a text, is a container."""
        return value_or(self.facts.host.container, "none") != "none"

    @cached_property
    def log(self) -> MessageLog:
        """The messages of its text, or of its TensorFlow."""
        return MessageLog(value_or(self.facts.messages, ()))

    def is_stated(self, path: str) -> bool:
        """Whether the fact at `path` is what a person wrote, not what a program printed."""
        fact = look_up(self.facts, path)
        return isinstance(fact, Known) and fact.grade == "stated"

    @cached_property
    def remedies(self) -> Fixes:
        """Commands that are right for this OS, this Python and this package manager."""
        return self.fixes(self.facts, self.matrix)


def is_probed(facts: Facts) -> bool:
    """Whether probes looked at the machine; else a pasted text is all there is."""
    return isinstance(facts.driver.unresponsive, Known) or isinstance(facts.messages, Unknown)


# how a program ends, whatever the reason
OF_ANY_CRASH = ("aborted", "segmentation-fault", "exception", "traceback")


ON_HOSTED = "On Colab and Kaggle, "  # so begins a fix with the TensorFlow of a hosted notebook
OTHER_RELEASE = "Unless the program needs another release, "  # so begins a fix that may change the release
_LOOKED_FOR = re.compile(r"dlerror|Could not load dynamic library")
_SHELLS = ("terminal", "command line", "command-line", "command prompt", "ipython", "shell", "console", "root", "sudo")


@dataclass(frozen=True)
class MessageLog:
    """Messages by kind."""

    messages: tuple[Message, ...]

    @cached_property
    def _by_kind(self) -> dict[str, list[Message]]:
        kinds: dict[str, list[Message]] = {}
        for message in self.messages:
            kinds.setdefault(message.kind, []).append(message)
        return kinds

    def all(self, *kinds: str) -> tuple[Message, ...]:
        """Every message of these kinds, in the order of the kinds."""
        return tuple(message for kind in kinds for message in self._by_kind.get(kind, ()))

    def first(self, *kinds: str) -> Message | None:
        """The first message of the first kind that was printed."""
        return next(iter(self.all(*kinds)), None)

    def has(self, *kinds: str) -> bool:
        """Whether any of these kinds was printed."""
        return any(kind in self._by_kind for kind in kinds)

    def values(self, kind: str, name: str) -> tuple[str, ...]:
        """A value of every message of a kind that has it."""
        return tuple(m.values[name] for m in self._by_kind.get(kind, ()) if name in m.values)

    @cached_property
    def _failures(self) -> frozenset[str]:
        """Kinds of failures, but for TensorRT's libraries, which TensorFlow looks for, and does without."""
        needed = {one.kind for one in self.messages if not ("nvinfer" in one.text and _LOOKED_FOR.search(one.text))}
        return frozenset(filter(catalogue.is_failure, needed))

    @property
    def complains(self) -> bool:
        """Whether any program reports a failure, so that what is merely stated is not the question."""
        return bool(self._failures)

    @property
    def troubled(self) -> bool:
        """Whether a program reports a failure, or a person tells of one."""
        return self.complains or self.has("trouble-said", "failure-said")

    @property
    def works_in_a_shell(self) -> bool:
        """Whether the program runs on the same computer where the settings of a shell reach it."""
        return any(where.lower() in _SHELLS for where in self.values("works-elsewhere", "where"))

    def speaks_only_of(self, *kinds: str) -> bool:
        """Whether these kinds are the only failures."""
        return self._failures <= {*kinds}

    @property
    def only_disturbs(self) -> bool:
        """Whether somebody wants lines about a missing GPU hidden, and nothing ends a program."""
        logged = {one.line for one in self.all("cudart-not-found")}  # "GPU will not be used" is what is to be hidden
        missed = not self.has("no-gpu-present") and any(one.line not in logged for one in self.all("no-gpu-listed"))
        return self.has("wants-quiet") and not (missed or self.has("exception", "traceback", "aborted"))

    @property
    def stops_import(self) -> bool:
        """Whether TensorFlow could not even be imported or installed."""
        return any(map(catalogue.stops_import, self._failures))

    @property
    def raised_by_protobuf(self) -> list[Message]:
        """What TensorFlow 2.13 to 2.19 only print beside protobuf 6 (compat_matrix.yaml), where it ends a traceback."""
        found = (one for one in self.all("harmless") if one.values["what"] == "protobuf-factory")
        return [one for one in found if any(before.line < one.line for before in self.all("traceback"))]

    def libraries(self, *kinds: str) -> Iterator[tuple[str, Message]]:
        """File names of the libraries that messages name, without their folders."""
        for message in self.all(*kinds):
            if name := message.values.get("library"):
                yield name.replace("\\", "/").rsplit("/", 1)[-1], message


def message_evidence(*messages: Message | None, need: str | None = None, most: int = 4) -> tuple[Evidence, ...]:
    """Messages as evidence, each line once; the words that make a text like others are none."""
    found: dict[int, Evidence] = {}
    for message in messages:
        if message is not None and message.kind != "resembles":
            times = f", {message.count} times" if message.count > 1 else ""
            source = f"{message.source}, " if message.source else ""
            found.setdefault(message.line, Evidence(message.text, f"{source}line {message.line}{times}", need))
    return tuple(found.values())[:most]
