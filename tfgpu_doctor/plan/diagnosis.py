"""The engine with plan's fixes, and plan's answer to: which TensorFlow, CUDA, cuDNN and Python work together?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from msgspec import structs

from tfgpu_doctor.facts.facts import Known, Message, PciGpu, TfDevice, value_or
from tfgpu_doctor.facts.report import Alternative, Evidence, Fix
from tfgpu_doctor.facts.versions import at_least, major, minor, numbers
from tfgpu_doctor.findings import engine
from tfgpu_doctor.findings.answers import WHICH
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, message_evidence
from tfgpu_doctor.findings.symptoms import nothing_fails
from tfgpu_doctor.matrix.compatibility import arm_only, is_tegra
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.matrix.names import of_others
from tfgpu_doctor.matrix.queries import Filters, also_load, releases, same_as_far_as_given, takes_cudnn
from tfgpu_doctor.plan.constraints import PlanRequest, candidates, same_minor_releases, source, span, violations
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.plan.ranking import FROM_PIP, MachineState, Planner, make_plan
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.plan.target import Target, from_facts, seen_gpu, unknown_gpu

diagnose = partial(engine.diagnose, fixes=Fixes)
make_report = partial(engine.make_report, fixes=Fixes)
context_of = partial(Context, fixes=Fixes)

_SYSTEMS = {"linux": "Linux", "windows": "native Windows", "wsl2": "WSL2", "macos": "macOS"}
# builds that the matrix does not have, and settings
_OTHER_SUBJECTS = re.compile(r"direct-?ml|\brocm\b|\bmetal\b|VISIBLE_DEVICES|environ\[", re.IGNORECASE)
# its builds: images up to 23.03-tf1-py3 (CUDA 12.1), which has kernels for 9.0 at most
_NVIDIAS = "TensorFlow 1.15 for CUDA 11 or 12 only in NVIDIA's builds for Linux (nvidia-tensorflow, images *-tf1-py3)"
_OF_A_PROGRAM = Fix("How to install the release that a program needs, says tfgpu plan --tensorflow VERSION")
_VERSIONS = {"tensorflow", "cuda", "cudnn", "python", "driver"}
_BROUGHT_ALONG = "12"  # from this CUDA on, pip brings it whatever toolkit is installed


@WHICH.sign()
def asked(
    context: Context,
    messages: MessageLog,
    pci_gpus: tuple[PciGpu, ...] | None = None,
    devices: tuple[TfDevice, ...] | None = None,
) -> Problem | None:
    """Somebody asks, and nothing in the text fails."""
    question = _with_its_release(context, _question(messages))
    if (
        context.probed
        or question is None
        or not _names_enough(context, question)
        or ("direct" not in question.values and messages.has("gpu-created", "gpu-found"))  # one runs there
        or (messages.has("slow", "low-utilization") and not _OF_RELEASES.search(question.text))
        or not (nothing_fails(messages, devices) or _answer_repairs(context, messages, question))
    ):
        return None
    return _for_each_card(context, question, pci_gpus) or _answered(context, question, pci_gpus)


def _answered(context: Context, question: Message, pci_gpus: tuple[PciGpu, ...] | None) -> Problem | None:
    """The answer for the card that the question names, else for that of the text."""
    answer = _Answer(PlanRequest(context.matrix, _target(context, question)), question)
    found = answer.find(without_nvidia=pci_gpus == () or "graphics" in question.values)
    if found is None:
        return None
    fixes = found.fixes if answer.direct and not context.remedies.image else (_OF_A_PROGRAM,)
    cause = ". ".join(filter(None, (answer.hint(pci_gpus), found.cause)))
    return replace(found, cause=cause, rank_first=True, fixes=fixes)


def _for_each_card(context: Context, question: Message, pci_gpus: tuple[PciGpu, ...] | None) -> Problem | None:
    """What is answered for each of several cards, where that differs: none of them alone is meant."""
    named = [one for one in question.values.get("cards", "").split("; ") if seen_gpu(one, None, context.matrix)]
    each = ((one, structs.replace(question, values={**question.values, "gpu": one})) for one in named)
    titles = {one: found.title or "" for one, asks in each if (found := _answered(context, asks, pci_gpus))}
    if len({title.replace(one, "") for one, title in titles.items()}) < 2:
        return None
    return Problem(
        title="Several GPUs are named, and each has an answer of its own",
        cause="; ".join(title if one in title else f"{one}: {title}" for one, title in titles.items()),
        evidence=message_evidence(question),
        rank_first=True,
        fixes=(Fix("Choose one; what to install for it", tuple(f"tfgpu plan --gpu '{one}'" for one in titles)),),
    )


def _question(messages: MessageLog) -> Message | None:
    """The one that names a release; else a card: of "must it be a GTX 1080? is an RTX 2060 OK?" the second."""
    questions = [one for one in messages.all("question") if one.values["about"] in ("release", "works", "wish")]
    cards = [one for one in questions if "gpu" in one.values]
    return next((one for one in questions if "tensorflow" in one.values), next(iter(cards[-1:] or questions), None))


_OF_RELEASES = re.compile(r"\b(?:versions?|releases?|compatib\w+|support\w*|\d+\.\d+)\b", re.IGNORECASE)
_OF_THIS_RELEASE = re.compile(r"\bthis (?:tf|tensor ?flow|version|release)\b", re.IGNORECASE)


def _with_its_release(context: Context, question: Message | None) -> Message | None:
    """A question such as "does this TensorFlow support an H100?" with the release that stands elsewhere in the text."""
    version = value_or(context.facts.tensorflow.version, None)
    if question is None or version is None or not _OF_THIS_RELEASE.search(question.text):
        return question
    return structs.replace(question, values={"tensorflow": version, "direct": "yes", **question.values})


def _answer_repairs(context: Context, messages: MessageLog, question: Message) -> bool:
    """Whether somebody asks which release to install for a GPU that is named, and only tells that none is listed."""
    asks = question.values["about"] == "release" and "direct" in question.values
    named = isinstance(context.facts.tensorflow.version, Known) or "tensorflow" in question.values
    return asks and not named and not messages.complains and context.remedies.knows_gpu


def _names_enough(context: Context, question: Message) -> bool:
    """Whether it asks for versions, or whether something works with a version or graphics that it names."""
    if _OTHER_SUBJECTS.search(question.text):
        return False
    if context.log.has("gpu-found", "gpu-created") and not _VERSIONS & set(question.values):
        return False  # a release that finds the GPU is there already
    if context.remedies.on_jetson and not any(map(is_tegra, _target(context, question).capabilities)):
        return False  # which JetPack it has is the question
    named = ("tensorflow", "cuda", "cudnn", "python", "driver", "graphics")
    is_named = any(question.values.get(name) for name in named) or isinstance(context.facts.host.pci_gpus, Known)
    return question.values["about"] == "release" or is_named


def _target(context: Context, question: Message) -> Target:
    """The machine that the text describes; Windows may be named without its version."""
    python = question.values.get("python")
    target = from_facts(context.facts, context.matrix, minor(python) if python else None)
    target = structs.replace(target, driver=target.driver or question.values.get("driver"))
    if asked := seen_gpu(question.values.get("gpu"), None, context.matrix):
        target = structs.replace(target, gpus=(asked,))
    if question.values.get("os") == "windows" and not value_or(context.facts.host.os, None):
        return structs.replace(target, os="windows", machine="x86_64")
    if target.gpus and all(arm_only(one.name, one.compute_capability) for one in target.gpus):
        return structs.replace(target, machine="aarch64")
    return target


class _Answer:
    """What is said about the release that is named, the CUDA that is there, or else what plan ranks first."""

    def __init__(self, request: PlanRequest, question: Message) -> None:
        self.request, self.target = request, request.target
        self.question, self.named = question, question.values
        self.direct = "direct" in self.named or self.named["about"] == "wish"
        self.works = self.named["about"] == "works" and self.direct

    def hint(self, pci_gpus: tuple[PciGpu, ...] | None) -> str | None:
        """What is known of a GPU that no row of the matrix is."""
        name = pci_gpus[0].name if pci_gpus else None
        hint = of_others(self.question.text) or (unknown_gpu(self.request.matrix, name) if name else None)
        return None if self.target.gpus else hint

    @property
    def _is_newer_python(self) -> bool:
        """True if a Python is named for which no release has wheels yet."""
        newest, python = next(candidates(self.request.matrix, self.target.platform), None), self.named.get("python")
        return bool(newest and python and at_least(python, newest.python[-1]) and minor(python) not in newest.python)

    def find(self, *, without_nvidia: bool) -> Problem | None:
        """What is known; of a program's own needs nothing is, so that beside it nothing is recommended either."""
        cuda, version = minor(self.named.get("cuda")), self.named.get("tensorflow")
        if self.named["about"] == "wish":
            return self._wished(cuda)
        if without_nvidia:
            return self._planned(MachineState(no_gpu=True))
        if self._is_newer_python:
            answer = self._planned()
            return replace(answer, title=f"No release has wheels for Python {self.named['python']} yet. {answer.title}")
        if version:
            return self._about_version(version)
        if not cuda or at_least(cuda, _BROUGHT_ALONG):
            return self._planned() if self.direct else self._about_gpus()
        for cudnn in dict.fromkeys((self.named.get("cudnn"), None)):
            filters = Filters(platform=self.target.platform, cuda=cuda, cudnn=cudnn)
            loading = (*releases(self.request.matrix, filters), *also_load(self.request.matrix, filters))
            known = (row for row in loading if row.package in ("tensorflow", "tensorflow-gpu"))
            if found := [row for row in known if not violations(self.request, row)]:
                newest_first = sorted(found, key=lambda row: numbers(minor(row.version)), reverse=True)
                return self._about_cuda(filters, newest_first)
        if not self.direct:
            return self._about_gpus()
        answer = self._planned()
        return replace(answer, title=f"No TensorFlow for CUDA {cuda} works here. {answer.title}")

    def _wished(self, cuda: str | None) -> Problem | None:
        """The releases with a CUDA, or a Python, that somebody asks for; where there is none, the next one."""
        cuda = cuda if "cuda" in self.question.text.lower() else None  # else it is that of the machine
        python = None if cuda else minor(self.named.get("python"))
        every = Filters(platform=self.target.platform, gpu_only=bool(cuda))
        filters = structs.replace(every, cuda=cuda, python=python)
        found, known = releases(self.request.matrix, filters), releases(self.request.matrix, every)
        if cuda and (fits := [row for row in found if not violations(self.request, row)]):
            return self._about_cuda(filters, fits)
        if not python and not cuda:
            return None
        nearest = self._nearest(cuda, found, known)
        asked = f"CUDA {cuda}" if cuda else f"Python {python}"
        versions = span(tuple(minor(one.version) for one in found[::-1]))
        first = f"For {asked}: TensorFlow {versions}" if found else f"No TensorFlow is built for {asked}"
        first = f"No TensorFlow for {asked} works here" if found and cuda else first
        return Problem(
            title=f"{first}; {_built_with(nearest)}",
            cause="a driver for a newer CUDA runs it, too" if cuda else "a release has wheels for these Pythons alone",
            evidence=message_evidence(self.question, need=_built_with(nearest)),
            fixes=tuple(_fixes((Planner(self.request).option("as-is", nearest),))),
        )

    def _nearest(self, cuda: str | None, found: Sequence[Release], known: Sequence[Release]) -> Release:
        """Of these, or else with the next CUDA or an earlier one, the first that works here."""
        newer = [row for row in known if cuda and at_least(row.cuda, cuda)][-1:]
        older = [row for row in known if cuda and row.cuda and at_least(cuda, row.cuda)]
        ways = (*found, *newer, *older, *known)
        return next((row for row in ways if not violations(self.request, row)), ways[0])

    def _about_version(self, version: str) -> Problem | None:
        """The newest release of that minor version that works here; else that very version."""
        known = candidates(self.request.matrix, self.target.platform)
        rows = [row for row in known if minor(row.version) == minor(version)]
        best = [*same_minor_releases(self.request, version), *sorted(rows, key=lambda row: row.version != version)]
        return self._about_release(best[0]) if best else None

    def _about_release(self, row: Release) -> Problem:
        """Whether it works with all that is named, or what it was built with."""
        broken, line = violations(self.request, row), f"line {self.question.line}"
        unmet = (Evidence(one.saw, line, one.need, one.source) for one in broken)
        against = (*unmet, *self._other_libraries(row, line))
        option, made = Planner(self.request).option("as-is", row), _built_with(row)
        driver = f", driver {option.min_driver} or newer" if option.min_driver else ""
        title = _against(row, against[0], self.target.os) if against else f"{_line(option)}{driver}"
        listed = " ".join(dict.fromkeys((*row.sass, *row.ptx))) or "none, the CPU alone"
        # no official build of TensorFlow 1 uses these GPUs, and a program of it runs with no TensorFlow 2
        newer = row.version.startswith("1.") and (broken or at_least(self.named.get("cuda", "0"), "11"))
        ways = () if newer else self._for_programs_of(row) if broken else (option,)
        kernels = [*(self._kernels() if against or not self.direct else ()), *((_NVIDIAS,) if newer else ())]
        return Problem(
            title=f"{self._yes_or_no(not against)}{title}",
            cause=". ".join((f"{made}{driver}; compiled for compute capability {listed}", *dict.fromkeys(kernels))),
            evidence=against or message_evidence(self.question, need=made),
            fixes=tuple(_fixes(ways)) or (_OF_A_PROGRAM,),
        )

    def _about_gpus(self) -> Problem | None:
        """The releases for the GPUs that are named."""
        if not (known := [*self._kernels()]):
            return self._planned() if self.target.gpus else None
        why = "which of these releases a program needs, its documentation says"
        return Problem(title="; ".join(dict.fromkeys(known)), cause=why, evidence=message_evidence(self.question))

    def _kernels(self) -> Iterator[str]:
        """The releases with kernels for each GPU; none for a Jetson, which needs builds of its own."""
        for one in dict.fromkeys(self.target.gpus):
            filters = Filters(platform=self.target.platform, compute_capability=one.compute_capability)
            found = [minor(row.version) for row in releases(self.request.matrix, filters)]
            where = " on native Windows" if self.target.os == "windows" else ""
            if found:  # a Jetson needs builds of its own
                yield f"For {one.shown}{where}: TensorFlow {found[-1]} to {found[0]} have kernels"
            if found and at_least(one.compute_capability, "8.0") and at_least("9.0", one.compute_capability):
                yield _NVIDIAS

    def _other_libraries(self, row: Release, line: str) -> Iterator[Evidence]:
        """The CUDA and cuDNN that are named and that this build does not load."""
        cuda, cudnn = self.named.get("cuda"), self.named.get("cudnn")
        other = row.cuda and cuda and not same_as_far_as_given(row.cuda, cuda)
        # of Linux, where later builds prove it; on Windows the numbers in the names are these
        if other and row.version not in {one.version for one in also_load(self.request.matrix, Filters(cuda=cuda))}:
            yield evidence(f"CUDA {cuda}", line, f"CUDA {minor(row.cuda)}", source(row, "cuda"))
        if row.cudnn and cudnn and not takes_cudnn(row, cudnn):
            yield evidence(f"cuDNN {cudnn}", line, f"cuDNN {row.cudnn}", source(row, "cudnn"))

    def _about_cuda(self, filters: Filters, rows: list[Release]) -> Problem:
        """The releases for the CUDA that somebody has."""
        row, cudnn = rows[0], f", cuDNN {filters.cudnn}" if filters.cudnn else ""
        subject = " and ".join((f"CUDA {filters.cuda}{cudnn}", *self._cards))
        versions = span(tuple(dict.fromkeys(minor(one.version) for one in reversed(rows))))
        return Problem(
            title=f"{'Yes: for' if self.works else 'For'} {subject}: TensorFlow {versions} "
            f"({minor(row.version)}: cuDNN {row.cudnn}, Python {span(row.python)})",
            cause=f"these releases load CUDA {filters.cuda}; newer releases need a newer CUDA",
            evidence=message_evidence(self.question, need=_built_with(row)),
            fixes=tuple(_fixes((Planner(self.request).option("as-is", row), *self._best()[:1]))),
        )

    @property
    def _cards(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.shown for one in self.target.gpus))

    def _best(self, options: tuple[Option, ...] | None = None) -> tuple[Option, ...]:
        """What plan ranks first; on Windows both WSL2 and Windows itself."""
        options = make_plan(self.request.matrix, self.target).options if options is None else options
        if self.target.os != "windows" or not options or options[0].kind == "cpu":
            return options[:1]
        native = next((one for one in options if one.kind in FROM_PIP), None)
        inside = next((one for one in options if one.kind == "wsl2"), None)
        both = (native, inside) if "native" in self.named or options[0] is native else (inside, native)
        return tuple(one for one in both if one) or options[:1]

    def _yes_or_no(self, works: bool) -> str:
        """How the answer begins, where somebody asks whether something works."""
        return ("Yes: " if works else "No: ") if self.works else ""

    def _for_programs_of(self, row: Release) -> tuple[Option, ...]:
        """What plan ranks first, unless it is of a major version that does not run a release's programs."""
        ways = self._best()
        return ways if all(major(one.tensorflow) == major(row.version) for one in ways) else ()

    def _planned(self, state: MachineState | None = None) -> Problem:
        """What plan answers for this machine."""
        plan = make_plan(self.request.matrix, self.target, state=state)
        ways = self._best(plan.options)
        if not ways:
            return Problem(
                title=next(iter(plan.problems), "No release is known to work there"),
                cause=" ".join(plan.problems[1:]),
                evidence=message_evidence(self.question),
                fixes=(Fix("See what plan says of that machine", ("tfgpu plan",)),),
            )
        first = ways[0]
        title = f"{'Without an NVIDIA GPU' if state else self._machine(first)}: {_line(first)}"
        if len(ways) > 1 and first.kind == "wsl2":
            title += f"; without WSL2: {_line(ways[1])}"
        need = f"the driver must be {first.min_driver} or newer" if first.min_driver else "CUDA is for NVIDIA GPUs"
        return Problem(
            title=title,
            cause=". ".join((need, *(() if state else plan.problems), *first.notes)),
            evidence=message_evidence(self.question, need=_line(first)),
            fixes=tuple(_fixes(ways)),
        )

    def _machine(self, first: Option) -> str:
        """The GPU and the system; without a word about it Linux is meant, whose wheels WSL2 takes as well."""
        system = _SYSTEMS[self.target.os]
        if self.target.os == "linux" and self.named.get("os") != "linux" and self.target.machine == "x86_64":
            system = "Linux or WSL2"
        elif self.target.os == "windows" and first.kind == "wsl2":
            system = "Windows"
        return f"For {' and '.join(self._cards)} on {system}" if self._cards else f"On {system}"


def _against(row: Release, one: Evidence, os: str) -> str:
    """Say why a release does not work there."""
    if not row.gpu:
        return f"TensorFlow {row.version} has no GPU support on {_SYSTEMS[os]}"
    need = str(one.need)
    why = f"has no {need}" if need.startswith("kernels") else f"needs {need}, not {one.saw}"
    return f"TensorFlow {row.version} {why}"


def _built_with(row: Release) -> str:
    cuda = f"CUDA {minor(row.cuda)}, cuDNN {row.cudnn}" if row.cuda else "no CUDA"
    return f"TensorFlow {row.version}: {cuda}, Python {span(row.python)}"


def _line(option: Option) -> str:
    """Everything that belongs together in one line."""
    pythons = span(option.pythons) if option.pythons else option.python
    parts = (
        option.title,
        f"CUDA {minor(option.cuda)}" if option.cuda else "",
        f"cuDNN {option.cudnn}" if option.cudnn else "",
        f"Python {pythons}" if pythons and "with Python" not in option.title else "",
    )
    return ", ".join(filter(None, parts))


def _fixes(ways: tuple[Option, ...]) -> Iterator[Fix]:
    """The recipes, the best first."""
    for number, option in enumerate(ways):
        if not option.commands:
            why = f"CUDA {minor(option.cuda)} is in no package index" if option.cuda else "nothing brings its CUDA"
            yield Fix(f"Choose a newer release, {option.title} can no longer be installed: {why}", ("tfgpu plan",))
            continue
        tool, commands = next(iter(option.commands.items()))
        yield from option.first
        missing = [one for one in option.missing if one.text.startswith(f"{tool} is missing")]
        yield from (Fix(f"Install {tool}, if it{one.text.removeprefix(tool)}", one.commands) for one in missing)
        way = "Use" if option.kind == "container" else "Install"
        yield (Alternative if number else Fix)(f"{way} {option.title}", commands)
