"""The one gate for repairs: holds a fix against all that is known, before it is printed (DESIGN, law 11). Pure.

A fix is judged by what its reader sees, its sentence and its commands: what they would install, and where. Each reason
to refuse one is a small function. Of the fixes that are left, the first does not begin with "Or".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import structs
from packaging.requirements import Requirement
from packaging.version import Version

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import Facts, Unknown, value_or
from tfgpu_doctor.facts.report import Alternative, Fix
from tfgpu_doctor.facts.versions import at_least, major, minor
from tfgpu_doctor.findings.declaration import MessageLog, is_probed
from tfgpu_doctor.matrix.compatibility import driver_reaches
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.matrix.schema import Container
from tfgpu_doctor.parsers.platform_hints import holds_tensorflow
from tfgpu_doctor.plan.constraints import CONSTRAINTS, PlanRequest
from tfgpu_doctor.plan.places import excluding
from tfgpu_doctor.plan.target import Target, from_facts

if TYPE_CHECKING:
    from tfgpu_doctor.plan.planned import Base

_PYTHON = re.compile(r"(?<![\w.])(?:python[=:]?|--python |py -)(?P<python>3\.\d+|2\.7)(?![\d.]*/)")
_ANOTHER_WAY = re.compile(r"\bCUDA\b|\bCPU\b|without a GPU")  # CUDA is spoken of, or not needed
_FIRST = re.compile(r"^Install (?:conda|uv), if it is missing")
_OF_THE_GPU = re.compile(r"\b(?:kernels for|supports?|can use|is built for) (?:this|your|that) GPU\b")
_DRIVER = re.compile(r"\bNVIDIA driver (?P<driver>\d{3}(?:\.\d+)*) or newer")
_AFTER_A_DRIVER = re.compile(r"\bafter a driver update to (?P<driver>\d{3}(?:\.\d+)*)")
_RELEASE = re.compile(
    r"^(?:Or )?(?:[Ii]nstall|[Kk]eep) (?:TensorFlow )?(?P<release>\d+\.\d+\.\d+\S*?)[,:]?(?: (?!or )|$)"
)
_WITH_CUDA = re.compile(r"\b(?:with|[Ii]nstall) CUDA (?P<cuda>\d+(?:\.\d+)?)")
_BRINGS_CUDA = re.compile(r"cudatoolkit=|\[and-cuda\]|-cu1\d\b|=cuda\d|docker run|/cuda")
_OF_CMD = re.compile(r'^set "|^setx? \w+=|%\w+%|^cmd /c')
_INSTALLS = re.compile(r"\b(?:pip|conda|mamba|micromamba|uv) (?:un)?(?:install|create|remove)\b|\buv (?:pip|venv)\b")
_OF_A_SERVER, _SETS_A_LIMIT = "TensorFlow Serving", "tf.config.set_"  # of Python, which a server does not run
_FOR_PYTHON = re.compile(r"\bpip\b|\bpython\d?\b|\b(?:conda|mamba|micromamba|uv) ")
_FROM_SCRATCH = re.compile(r"\bvenv\b|conda create|--force-reinstall|--upgrade")
_PROMISE = re.compile(r"^(?:Or )?(?:re)?(?:install|place)\b|\b(?:and|then) (?:re)?install\b", re.IGNORECASE)
_ADDS = re.compile(r"\b(?:install|create|sync)\b|\bpacman -S|\bdocker run\b|\brpm-ostree\b|\bakmods\b")
_REMOVES = re.compile(r"\b(?:uninstall|remove)\b")
_SERVER = re.compile(r"/serving\b|/tritonserver\b")
_OF_A_MACHINE = re.compile(
    r"\bipykernel install\b|\bconda create\b|\bvenv\b|\bdocker run\b|\breboot\b|NVIDIA driver|-archive\b"
)
_BEFORE_2 = re.compile(r"\W{0,3}(?:201[5-8]|2019-0[1-9])-\d")  # the date of a line
_OF_AN_API = re.compile(r"\b(?:[A-Z][a-z]+){3,}\b|\b[A-Za-z]+_\w{8,}\b")
_LOOKS_UP = ("tfgpu matrix", "tfgpu plan")
_OF_A_WHEEL = ("python", "glibc", "macos", "yanked")
_OF_A_RELEASE = ("build", "gpu", "cudnn", "driver", *_OF_A_WHEEL)  # constraints that a fix must meet


@dataclass(frozen=True)
class Situation:
    """What is known of the machine that a fix is for."""

    facts: Facts
    matrix: Matrix

    @cached_property
    def target(self) -> Target:
        """Its GPUs, driver, Python and system."""
        return from_facts(self.facts, self.matrix)

    @cached_property
    def image(self) -> str | None:
        """The image that a text names and that holds its TensorFlow; None where somebody installs TensorFlow."""
        named = [one.values.get("image", "") for one in self.log.all("image-named")]
        listed = any(one.name in TENSORFLOW for one in value_or(self.facts.python.packages, ()))
        installed = listed or self.log.has("tensorflow-installed")
        return named[-1] if named and not installed and holds_tensorflow(named[-1]) else None

    @property
    def container(self) -> Container | None:
        """The image as the matrix has it."""
        rows = self.matrix.data.containers
        return next((one for one in rows if f"{one.image}:{one.tag}" == self.image), None)

    @cached_property
    def base(self) -> Base | None:
        """What is known of the image by its name."""
        if not self.image:
            return None
        from tfgpu_doctor.plan.planned import base_named  # of no use to a doctor without an image

        version = self.facts.tensorflow.version  # of what was the latest then
        left = version.one_of if isinstance(version, Unknown) else (version.value,)
        return base_named(re.sub(":latest(?=-|$)", f":{left[-1]}", self.image) if left else self.image, self.matrix)

    def image_cuda(self) -> tuple[str, str | None] | None:
        """The CUDA of the image that TensorFlow is part of, and the oldest driver on which it starts."""
        base = self.base
        if base is None or not base.cuda:
            return None
        for cuda in self.log.values("image-requires", "cuda"):  # its tag is another image by now, as "latest" is
            return cuda, toolkit.min_driver_linux if (toolkit := self.matrix.cuda(cuda)) else None
        from tfgpu_doctor.plan.planned import driver_of  # of no use to a doctor without an image

        return base.cuda, driver_of(base, self.matrix)

    @property
    def driver_of_image(self) -> str | None:
        """The oldest driver on which the image starts, as far as it is known."""
        row, cuda = self.container, self.image_cuda()
        return row.min_driver if row else cuda[1] if cuda else None

    @cached_property
    def log(self) -> MessageLog:
        """The messages of its text, or of its TensorFlow."""
        return MessageLog(value_or(self.facts.messages, ()))

    @property
    def on_jetson(self) -> bool:
        """True if a text is about a Jetson, for which only NVIDIA's own wheels are built."""
        return self.log.has("jetson")

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The places of plan/places.py in which the reader of a text is."""
        log, is_shell = self.log, not (self.log.works_in_a_shell and self.log.has("started-elsewhere"))
        found = {
            "hosted": log.has("hosted-notebook"),
            "gke": log.has("gke"),
            "kubernetes": value_or(self.facts.host.container, "") == "kubernetes",
            "jetson": self.on_jetson,
            "no-shell": not is_shell,
        }
        return (*log.values("place", "name"), *(name for name, is_there in found.items() if is_there))

    def has(self, package: str) -> str | None:
        """The version of an installed package."""
        listed = value_or(self.facts.python.packages, ())
        return next((one.version for one in listed if one.name == package), None)

    @property
    def without_cuda(self) -> str | None:
        """The version of an installed `tensorflow` whose build has no CUDA, as conda's for the CPU."""
        variants = [one.values for one in self.log.all("conda-build")]
        if variants and variants[-1].get("variant") == "cpu":
            return variants[-1].get("version") or self.version or ""
        tensorflow, packages = self.facts.tensorflow, value_or(self.facts.python.packages, ())
        build, own = value_or(tensorflow.build, None), value_or(tensorflow.distribution, "tensorflow")
        listed = {own} | {one.name for one in packages if one.name in TENSORFLOW}
        lacks = build is not None and not (build.is_cuda_build or build.is_rocm_build)
        return (self.version or "") if lacks and listed == {"tensorflow"} else None

    @cached_property
    def runs_tensorflow_1(self) -> bool:
        """True if the release is known to be one, or a log was printed before 2.0 (30 September 2019)."""
        version = self.facts.tensorflow.version
        left = (self.version,) if self.version else version.one_of if isinstance(version, Unknown) else ()
        dated = any(_BEFORE_2.match(one.text) for one in self.log.messages)
        return all(at_least(one, "2.0") is False for one in left) if left else dated

    @property
    def version(self) -> str | None:
        """The TensorFlow that is there, as far as it is known for sure."""
        return value_or(self.facts.tensorflow.version, None) or self.has("tensorflow")


def has_pip(image: str) -> bool:
    """Whether the TensorFlow of an image is one of Python; a server is a program without pip."""
    return not _SERVER.search(image)


@dataclass(frozen=True)
class Repair:
    """A fix, and what its commands and its edits of files would install."""

    fix: Fix

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """What pip is asked for."""
        found = [_written(edit.new) for edit in self.fix.edits]
        for command in self.fix.commands:
            with suppress(ValueError):  # no words of a shell
                words = shlex.split(command)
                if "install" in words and any("pip" in word or word == "uv" for word in words):
                    found += map(_requirement, words[words.index("install") + 1 :])
        return tuple(filter(None, found))

    @property
    def in_wsl(self) -> bool:
        """Whether the commands are for the Linux in WSL2."""
        return self.fix.commands[:1] == ("wsl --install",)

    def releases(self, situation: Situation) -> Iterator[Release]:
        """The rows of the TensorFlow releases that pip is asked for."""
        return filter(None, (row for _, row in self._pinned(situation)))

    def lacks_wheel(self, situation: Situation) -> bool:
        """True if a release that pip is asked for has wheels for other systems or processors alone."""
        absent = {pinned for pinned, row in self._pinned(situation) if row is None}
        rows = () if "Apple silicon" in self.fix.text else situation.matrix.data.tensorflow
        return any((one.package, one.version) in absent for one in rows)

    def _pinned(self, situation: Situation) -> Iterator[tuple[tuple[str, str], Release | None]]:
        """Name and version of each pinned TensorFlow, with its row for this platform."""
        platform = "linux_x86_64" if self.in_wsl else situation.target.platform
        for one in self.requirements:
            version = next((each.version for each in one.specifier if each.operator == "=="), None)
            if version and one.name in TENSORFLOW:
                row = situation.matrix.tensorflow(version, platform, one.name)
                yield (one.name, version), row if row and row.version == version else None


def _written(line: str) -> Requirement | None:
    """The requirement that a file has; None: a Python, an image, or a form of conda."""
    name, _, version = line.partition(' = "')  # a key of TOML: a requirement of Poetry or of a Pipfile
    return _requirement(name + version.removesuffix('"')) if line[:1].isalpha() else None


def _requirement(word: str) -> Requirement | None:
    try:
        return Requirement(word)
    except ValueError:
        return None


# ------------------------------------------------------------------------------------------------ reasons to refuse


def claims_of_unknown_gpu(repair: Repair, situation: Situation) -> bool:
    """It says that something is right for this GPU, and nothing tells which GPU it is."""
    return not situation.target.gpus and _OF_THE_GPU.search(repair.fix.text) is not None


def installs_what_cannot_work(repair: Repair, situation: Situation) -> bool:
    """A release without kernels for the GPU, a wheel for this Python, or a driver that runs its CUDA."""
    target = situation.target
    if repair.in_wsl:
        target = structs.replace(target, os="wsl2", python=None)
    if after := _AFTER_A_DRIVER.search(repair.fix.text):
        target = structs.replace(target, driver=after["driver"])
    made = _python_made(repair, situation)
    # an edit of a file that writes another Python, or an image that may have another one
    changed = [_written(edit.old) for edit in repair.fix.edits if not edit.beside]
    is_other = any(one is None or one.name == "python" for one in changed)
    python = made or (None if is_other else target.python)
    request = PlanRequest(situation.matrix, structs.replace(target, python=python), compiles=True)
    for row in repair.releases(situation):
        # a release without CUDA, or the one that is there, is refused only where pip could not install it
        names: tuple[str, ...] = _OF_A_RELEASE if row.gpu else _OF_A_WHEEL
        names = ("python",) if row.version == situation.version else names
        if any(CONSTRAINTS[name](request, row) for name in names):
            return True
    return repair.lacks_wheel(situation)


def _python_made(repair: Repair, situation: Situation) -> str | None:
    """The version of the Python that the commands make an environment with, where that is another one."""
    if found := next(filter(None, map(_PYTHON.search, repair.fix.commands)), None):
        return found["python"]
    makers = value_or(situation.facts.python.makers, ())
    started = {command.partition(" -m venv ")[0] for command in repair.fix.commands if " -m venv " in command}
    return next((minor(one.version) for one in makers if {one.executable, shlex.quote(one.executable)} & started), None)


def installs_older_cuda(repair: Repair, situation: Situation) -> bool:
    """A CUDA that is older than the architecture of the GPU: 11.8 for Blackwell; 8.9 runs what is built for 8.0."""
    wanted = [cuda for one in situation.target.capabilities if (cuda := _first_cuda(one, situation.matrix))]
    named = [found["cuda"] for found in _WITH_CUDA.finditer(repair.fix.text)]
    named += re.findall(r"cudatoolkit=(\d+\.\d+)", " ".join(repair.fix.commands))
    return any(at_least(have, need) is False for have in named if "." in have for need in wanted)


def lacks_its_cuda(repair: Repair, situation: Situation) -> bool:
    """A release that loads another CUDA than those that a text names, and nothing brings its own."""
    found = () if is_probed(situation.facts) else value_or(situation.facts.cuda.toolkits, ())
    have = {_loaded_as(one.version) for one in found if one.version}
    if not have or _BRINGS_CUDA.search(" ".join(repair.fix.commands)) or _ANOTHER_WAY.search(repair.fix.text):
        return False
    rows = (one for one in repair.releases(situation) if one.version != situation.version)
    return any(row.gpu and row.cuda and _loaded_as(row.cuda) not in have for row in rows)


def _loaded_as(cuda: str) -> str:
    """What a version of CUDA has in common with those that serve the same programs: from 11 on, its major version."""
    return major(cuda) if at_least(cuda, "11") else minor(cuda)


def _first_cuda(card: str, matrix: Matrix) -> str | None:
    """The oldest CUDA that compiles for a GPU or, which it runs as well, for an older one of its major capability."""
    rows = [row for row in matrix.data.architectures if major(row.compute_capability) == major(card)]
    able = [row.min_cuda for row in rows if row.min_cuda and at_least(card, row.compute_capability)]
    return min(able, key=Version, default=None)


def lacks_cuda_on_a_jetson(repair: Repair, situation: Situation) -> bool:
    """A TensorFlow of the index, whose wheels for aarch64 are for the CPU; NVIDIA's have a local version, +nv23.3.

    Nor an image or a package of conda: those for the drivers of servers do not run there.
    """
    if not situation.on_jetson:
        return False
    own = (one for one in repair.requirements if one.name in TENSORFLOW and "+nv" not in str(one.specifier))
    return any(own) or any(re.search("docker run .*--shm-size|conda create", one) for one in repair.fix.commands)


def is_for_jetpack(repair: Repair, situation: Situation) -> bool:
    """What belongs to a JetPack, on a board of DRIVE, which has none."""
    boards = [one.text.lower() for one in situation.log.all("jetson")]
    return bool(boards) and all("drive" in one for one in boards) and "JetPack" in repair.fix.text


def changes_an_image(repair: Repair, situation: Situation) -> bool:
    """No package manager replaces an image's TensorFlow, only a Dockerfile adds to it, and its driver is its own."""
    if situation.image is None:
        return False
    lines = [one for one in repair.fix.commands if _INSTALLS.search(one)]
    if any(one.name in TENSORFLOW for one in repair.requirements):
        return True
    if not all(one.startswith("RUN ") for one in lines) or (lines and not has_pip(situation.image)):
        return True
    driver, least = _DRIVER.search(repair.fix.text), situation.driver_of_image
    return driver is not None and (least is None or not driver_reaches(driver["driver"], least))


def is_there(repair: Repair, situation: Situation) -> bool:
    """The image that is used, what a file has, a driver that is as new, or packages in such versions."""
    fix = repair.fix
    if any(edit.new == edit.old and not edit.beside for edit in fix.edits):
        return True
    if situation.image and situation.image in " ".join(fix.commands[:1]).split() and "--gpus" not in fix.text:
        return True
    driver, have = _DRIVER.search(fix.text), situation.target.driver
    is_enough = driver and have and driver_reaches(have, driver["driver"])
    return bool(is_enough) or _is_kept(repair, situation) or _is_installed(repair, situation)


def _is_kept(repair: Repair, situation: Situation) -> bool:
    """Pip keeps a build without CUDA of the version that it is asked for."""
    own = f"=={situation.without_cuda}"
    asked = any(one.name == "tensorflow" and str(one.specifier) == own for one in repair.requirements)
    return asked and not any(_FROM_SCRATCH.search(one) or _REMOVES.search(one) for one in repair.fix.commands)


def _is_installed(repair: Repair, situation: Situation) -> bool:
    fix = repair.fix
    if len(fix.commands) > 1 or any(map(_FROM_SCRATCH.search, fix.commands)):
        return False  # an environment is made, or what is installed is replaced
    asked = [one for one in repair.requirements if one.name not in TENSORFLOW]  # brings what it requires along
    known = [(one, situation.has(one.name.lower())) for one in asked if one.specifier and not one.extras]
    met = [one for one, have in known if have and one.specifier.contains(have, prereleases=True)]
    return bool(asked) and met == asked


def is_for_another_shell(repair: Repair, situation: Situation) -> bool:
    """Commands of cmd.exe for a Linux."""
    os = value_or(situation.facts.host.os, None)
    elsewhere = os not in (None, "windows") or situation.image is not None
    return elsewhere and any(map(_OF_CMD.search, repair.fix.commands))


def is_for_another_program(repair: Repair, situation: Situation) -> bool:
    """What is for Python where the program is one of JavaScript, Rust, .NET or C; what a server alone has."""
    text, serves = repair.fix.text, situation.log.has("serving")
    if _OF_A_SERVER in text or (serves and _SETS_A_LIMIT in text):
        return _SETS_A_LIMIT in text or not serves
    return situation.log.has("not-python") and any(map(_FOR_PYTHON.search, repair.fix.commands))


_NAMED_RELEASE = re.compile(
    r"\btensorflow(?:-\w{1,12}){0,3}(?:\[[^\[\]]{0,40}\])?={1,2}(?P<major>\d+)\.|tensorflow/tensorflow:(?P<tag>\d+)\."
)


def is_of_another_major(repair: Repair, situation: Situation) -> bool:
    """TensorFlow 2, or its benchmarks, for what runs on TensorFlow 1: a program ends where it uses a session."""
    if situation.runs_tensorflow_1 and any(one.startswith("tfgpu bench") for one in repair.fix.commands):
        return True
    named = [one["major"] or one["tag"] for one in _NAMED_RELEASE.finditer(" ".join(repair.fix.commands))]
    is_first = bool(named) and situation.runs_tensorflow_1 and all(at_least(one, "2") for one in named)
    asked = (one.values.get("requirement", "") for one in situation.log.messages)
    return is_first and not any(">=" in one and "<" not in one for one in asked)  # tensorflow>=1.7 is met by 2.20


def needs_a_machine_of_its_own(repair: Repair, situation: Situation) -> bool:
    """A hosted notebook has one Python, whose TensorFlow fits its CUDA and its driver."""
    if not situation.log.has("hosted-notebook"):
        return False
    shown = any(map(_OF_A_MACHINE.search, (repair.fix.text, *repair.fix.commands)))
    return shown or any(one.name in TENSORFLOW for one in repair.requirements)


def cannot_be_done_there(repair: Repair, situation: Situation) -> bool:
    """Somebody else decides on it where the program runs."""
    return excluding(repair.fix, situation.places) is not None


def does_not_do_what_it_says(repair: Repair, _situation: Situation) -> bool:
    """A release or a CUDA in the sentence that no command installs; a look-up, or a removal, that is "installed"."""
    text, commands = repair.fix.text, " ".join(repair.fix.commands)
    if not commands:
        return False
    only_other = _REMOVES.search(commands) or all(one.startswith(_LOOKS_UP) for one in repair.fix.commands)
    if only_other and _PROMISE.search(text) and not _ADDS.search(commands):
        return True
    release, cuda = _RELEASE.match(text), _WITH_CUDA.search(text)
    if release and release["release"] not in commands:
        return True
    return cuda is not None and not _BRINGS_CUDA.search(commands) and "pip" in commands


def was_tried(repair: Repair, situation: Situation) -> bool:
    """A setting or a function that somebody has tried in vain, by its name."""
    tried = " ".join(situation.log.values("tried-said", "what"))
    return any(name in tried for name in _OF_AN_API.findall(repair.fix.text))


Reason = Callable[[Repair, Situation], bool]
REASONS: tuple[Reason, ...] = (
    claims_of_unknown_gpu,
    installs_what_cannot_work,
    installs_older_cuda,
    lacks_its_cuda,
    lacks_cuda_on_a_jetson,
    is_for_jetpack,
    changes_an_image,
    is_there,
    is_for_another_shell,
    is_for_another_program,
    is_of_another_major,
    needs_a_machine_of_its_own,
    cannot_be_done_there,
    does_not_do_what_it_says,
    was_tried,
)


def refused(fix: Fix, situation: Situation) -> Reason | None:
    """Why a fix is not printed; None: it may be."""
    repair = Repair(fix)
    return next((reason for reason in REASONS if reason(repair, situation)), None)


def admitted(fixes: Iterable[Fix], facts: Facts, matrix: Matrix) -> tuple[Fix, ...]:
    """The fixes that nothing speaks against, an alternative among them with "Or" before it."""
    situation, kept, first = Situation(facts, matrix), list[Fix](), list[Fix]()
    for fix in fixes:
        if _FIRST.match(fix.text):  # of what comes next, and of no use without it
            first.append(fix)
            continue
        if fix.decides or not refused(fix, situation):
            kept += (*first, fix)
        first = []
    return joined(kept)


def joined(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    """The fixes as they are printed: "Or" stands before an alternative, never before the first of them."""
    found = list(fixes)
    for number, fix in enumerate(found):
        text = fix.text.removeprefix("Or ")  # it has been joined to one which is left out here
        if not number and (text != fix.text or isinstance(fix, Alternative)):  # a report has no other kind of fix
            found[0] = Fix(f"{text[:1].upper()}{text[1:]}", fix.commands, fix.edits)
        elif number and isinstance(fix, Alternative):
            found[number] = Fix(f"Or {fix.text[:1].lower()}{fix.text[1:]}", fix.commands, fix.edits)
    return tuple(found)
