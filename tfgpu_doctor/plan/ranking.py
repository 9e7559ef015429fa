"""Target + Matrix → what to install, ranked, with commands, and why nothing newer. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tfgpu_doctor import __version__
from tfgpu_doctor.matrix.compatibility import driver_reaches, drives, is_tegra, runs_on
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.alternatives import offers
from tfgpu_doctor.plan.constraints import (
    Violation,
    Wanted,
    candidates,
    driver_needed,
    first_branch,
    last_branch,
    violations,
)
from tfgpu_doctor.plan.fixes import Remedies
from tfgpu_doctor.plan.install_commands import Recipe
from tfgpu_doctor.plan.records import SCHEMA, Kind, Lift, Option, Plan, RuledOut
from tfgpu_doctor.plan.target import Target, TargetError
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Facts, value_or
from tfgpu_doctor.records.report import Fix, MatrixInfo, Tool
from tfgpu_doctor.records.versions import major, minor

# What costs least to give way comes first; the card and the operating system come last.
LIFTS = ("python", "tensorflow", "glibc", "driver", "known-issue", "cudnn", "gpu", "build")
CHANGES: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("python", frozenset({"python"})),
    ("driver", frozenset({"driver"})),
    ("python+driver", frozenset({"python", "driver"})),
)
# distributions that put their own files into the folder tensorflow/
IN_THE_WAY = frozenset(TENSORFLOW) - {"tensorflow"}
_ON_CPU = frozenset({"build", "gpu", "cudnn", "driver", "known-issue"})  # what does not matter without a GPU
_WSL = Fix("Install WSL2 (the NVIDIA driver stays in Windows; install none inside WSL)", ("wsl --install",))


@dataclass(frozen=True)
class Here:
    """What is known of a real machine beyond the target, so that the commands fit its environment."""

    remedies: Remedies | None = None
    no_gpu: bool = False
    driver_missing: bool = False
    driver_hangs: bool = False
    in_the_way: tuple[str, ...] = ()  # distributions to be removed first


def here_of(facts: Facts, matrix: Matrix, python: str | None = None) -> Here:
    """What a plan has to know of a real machine; with another Python, its environment does not serve."""
    gpus, plugged = value_or(facts.gpus, None), value_or(facts.host.pci_gpus, None)
    no_gpu = not gpus and plugged == () and not value_or(facts.host.dxg_device, False)
    own = minor(value_or(facts.python.version, ""))
    installed = {package.name for package in value_or(facts.python.packages, ())}
    return Here(
        remedies=Remedies(facts, matrix) if python in (None, own) else None,
        no_gpu=no_gpu,
        driver_missing=not no_gpu and value_or(facts.driver.libcuda, None) == (),
        driver_hangs=bool(value_or(facts.driver.unresponsive, ())),
        in_the_way=tuple(sorted(installed & IN_THE_WAY)),
    )


def make_plan(
    matrix: Matrix, target: Target, *, specifier: SpecifierSet | None = None, here: Here | None = None
) -> Plan:
    """Rank the ways to a TensorFlow that uses the target's GPUs.

    Args:
        specifier: the TensorFlow versions that are asked for; None: any.
        here: the real machine that the target was taken from; None: it was described.
    """
    planner = Planner(Wanted(matrix, target, specifier), here or Here())
    options = tuple(planner.options())
    return Plan(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=MatrixInfo(revision=matrix.revision, source=", ".join(matrix.layers) or "bundled"),
        target=target,
        described=here is None,
        tensorflow=None if specifier is None else str(specifier),
        problems=tuple(planner.problems()),
        options=options,
        ruled_out=tuple(planner.ruled_out(options)),
        lift=None if options else planner.lift(),
    )


def read_specifier(text: str) -> SpecifierSet:
    """Read "2.15" (any patch of it), "2.15.1", ">=2.12,<2.16".

    Raises:
        TargetError: something else.
    """
    try:
        version = Version(text)
        exact = len(version.release) > 2 or version.is_prerelease
        return SpecifierSet(f"=={text}" if exact else f"=={version}.*")
    except InvalidVersion:
        pass
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise TargetError(
            f"{text!r} is no TensorFlow version such as 2.15, and no range such as '>=2.12,<2.16'"
        ) from error


@dataclass(frozen=True)
class Planner:
    """The ranking itself."""

    wanted: Wanted
    here: Here = Here()

    @property
    def target(self) -> Target:
        """The machine."""
        return self.wanted.target

    def options(self) -> Iterator[Option]:
        """What works as things are, what one cheap change brings, images, WSL2, and what is not yet released."""
        if self.here.no_gpu:
            yield from self._on_cpu()
            return
        best = self.best()
        if best:
            yield self.option("as-is", best)
        newest = best
        for kind, given_up in CHANGES:
            row = self.best(given_up) if kind != "python+driver" or newest is None else None
            if row and (best is None or Version(row.version) > Version(best.version)):
                yield self.option(kind, row)
                newest = newest or row
        if self.target.os == "windows":
            yield from self._in_wsl()
        yield from offers(self.wanted)
        if best is None and (row := self.best(pre=True)):
            yield self.option("pre-release", row)

    def best(self, given_up: frozenset[str] = frozenset(), *, pre: bool = False) -> Release | None:
        """The newest release that violates nothing but what is given up, and that some command can install."""
        for row in candidates(self.wanted.matrix, self.target.platform, pre=pre):
            broken = {one.constraint for one in violations(self.wanted, row)}
            if broken <= given_up and self._can_change(row, broken) and self.recipe(row).commands:
                return row
        return None

    def _can_change(self, row: Release, broken: set[str]) -> bool:
        """A driver goes up to the last branch for the cards; under another Python the release may be broken."""
        if "driver" in broken:
            last, need = last_branch(self.wanted), driver_needed(self.wanted, row)
            if last and need and int(major(need)) > int(last):
                return False
        if "python" in broken:
            other = replace(self.wanted, target=msgspec.structs.replace(self.target, python=row.python[-1]))
            return {one.constraint for one in violations(other, row)} <= broken - {"python"}
        return True

    def recipe(self, row: Release) -> Recipe:
        """The recipe for the target's Python, or for the release's newest."""
        python = self.target.python if self.target.python in row.python else row.python[-1]
        return Recipe(self.wanted.matrix, self.target, row, python)

    # ------------------------------------------------------------------------------------------ options

    def option(self, kind: Kind, row: Release) -> Option:
        """One release from pip, with all that belongs to it."""
        recipe = self.recipe(row)
        need = driver_needed(self.wanted, row)
        with_python = f" with Python {recipe.python}" if "python" in kind else ""
        with_driver = f" after a driver update to {need}" if "driver" in kind else ""
        keys = ("cuda", "cudnn", "sass", "min_driver_linux", "pip_nvidia")
        return Option(
            kind=kind,
            title=f"TensorFlow {row.version}{with_python}{with_driver}",
            tensorflow=row.version,
            package=row.package,
            python=recipe.python,
            cuda=row.cuda,
            cudnn=row.cudnn,
            min_driver=need,
            first=tuple(self._first(kind, need, recipe)),
            commands=self._commands(kind, recipe),
            then=(recipe.check,),
            notes=tuple(self._notes(row, recipe)),
            sources=tuple(dict.fromkeys(row.sources[key] for key in keys if key in row.sources)),
        )

    def _first(self, kind: Kind, need: str | None, recipe: Recipe) -> Iterator[Fix]:
        remedies, last = self.here.remedies, last_branch(self.wanted)
        if "driver" in kind or self.here.driver_missing:
            if remedies and not last:
                yield remedies.install_driver(need)
            else:
                where = " in Windows, not in WSL" if self.target.os == "wsl2" else ""
                until = f"; branch {last} is the last for this card" if last else ""
                yield Fix(f"Install NVIDIA driver {need} or newer{where}{until}. Then restart")
        if recipe.cuda_by_hand:
            archives = "https://developer.nvidia.com/cuda-toolkit-archive and /rdp/cudnn-archive"
            libraries = f"CUDA {recipe.row.cuda} and cuDNN {recipe.row.cudnn}"
            yield Fix(f"Install {libraries} from NVIDIA's archives ({archives}): no package manager has them")
        if self.here.in_the_way and remedies and kind in ("as-is", "driver"):
            yield Fix("Remove what is in its way", (remedies.pip_uninstall(*self.here.in_the_way),))

    def _commands(self, kind: Kind, recipe: Recipe) -> dict[str, tuple[str, ...]]:
        """The environment under test serves where its Python fits; else a new one is made."""
        commands = recipe.commands
        if kind in ("as-is", "driver") and self.here.remedies and recipe.self_contained:
            wanted = " ".join(map(shlex.quote, recipe.requirements))
            python = self.here.remedies.python
            here = {
                "pip": self.here.remedies.pip_install(*recipe.requirements),
                "uv": (f"uv pip install --python {python} {wanted}",),
            }
            return {**commands, **here}
        return commands

    def _notes(self, row: Release, recipe: Recipe) -> Iterator[str]:
        if recipe.holds_cudnn_back:
            oldest = self.target.capabilities[0]
            yield f"cuDNN {recipe.cudnn_limit} has dropped compute capability {oldest}: the command holds it back"
        if recipe.extra_spelled_out:
            yield f"The extra {row.extra} wants a TensorRT that has no wheel for this Python; these are its other parts"
        if recipe.self_contained:
            yield "CUDA and cuDNN come from pip: no CUDA toolkit is needed, and one that is installed does no harm"
        elif recipe.cuda_from_pip:
            yield "This release has no extra for CUDA: the command adds NVIDIA's CUDA 11 packages and tells the loader"
        if (last := last_branch(self.wanted)) is not None:
            yield f"Driver branch {last} is the last for this card: do not update beyond it"
        found = self.wanted.matrix.issues_for(
            row, python=recipe.python, compute_capabilities=self.target.capabilities, extra=recipe.self_contained
        )
        for issue in found:
            if issue.severity == "warning" and issue.affects == "run":
                yield f"{issue.title}. {issue.fix}"

    def _in_wsl(self) -> Iterator[Option]:
        """Native Windows ends with 2.10; the same machine under WSL2 runs today's releases."""
        inside = Planner(replace(self.wanted, target=msgspec.structs.replace(self.target, os="wsl2", glibc=None)))
        row = inside.best() or inside.best(frozenset({"python"}))
        if row:
            option = inside.option("wsl2", row)
            title = f"TensorFlow {row.version} in WSL2, with Python {option.python}"
            yield msgspec.structs.replace(option, title=title, first=(_WSL, *option.first))

    def _on_cpu(self) -> Iterator[Option]:
        """Without a GPU, the newest release for this Python."""
        for row in self.wanted.matrix.releases(platform=self.target.platform, package="tensorflow"):
            broken = {one.constraint for one in violations(self.wanted, row)}
            if broken <= _ON_CPU and not Version(row.version).is_prerelease:
                plain = f"tensorflow=={row.version}"
                remedies = self.here.remedies
                yield Option(
                    kind="cpu",
                    title=f"TensorFlow {row.version} on the CPU",
                    tensorflow=row.version,
                    package="tensorflow",
                    python=self.target.python,
                    cuda=None,
                    cudnn=None,
                    min_driver=None,
                    commands={"pip": remedies.pip_install(plain) if remedies else (f"python3 -m pip install {plain}",)},
                )
                return

    # --------------------------------------------------------------------------------------- explanations

    def problems(self) -> Iterator[str]:
        """What is wrong whatever the release."""
        first, last, have = first_branch(self.wanted), last_branch(self.wanted), self.target.driver
        names = (gpu.name or f"compute capability {gpu.compute_capability}" for gpu in self.target.gpus)
        cards = " and ".join(dict.fromkeys(names))
        if self.here.no_gpu:
            yield "This machine has no NVIDIA GPU. Describe the one that you mean: tfgpu plan --gpu 'RTX 4090'"
        if self.here.driver_hangs:
            yield "The NVIDIA driver does not answer, so the card and the driver are unknown here: see tfgpu doctor"
        if self.target.os == "macos":
            yield "There is no CUDA on macOS, and no TensorFlow wheel for it; Apple's GPUs need tensorflow-metal"
        if any(map(is_tegra, self.target.capabilities)):
            yield "Jetson modules get TensorFlow from NVIDIA's JetPack (its own wheels, images with -igpu or l4t)"
        for card in self.target.capabilities:
            if not self._any_kernels(card):
                yield f"No published wheel of TensorFlow has kernels for compute capability {card}"
        if have and first and not driver_reaches(have, first):
            yield f"Driver {have} does not know {cards}: branch {first} is the first that does"
        if have and not drives(have, None, last):
            yield f"Driver {have} no longer drives {cards}: branch {last} is the last that does"

    def _any_kernels(self, card: str) -> bool:
        platforms = ("linux_x86_64", "windows_amd64")
        rows = (row for platform in platforms for row in candidates(self.wanted.matrix, platform))
        return any(row.gpu and runs_on(row, card) == "sass" for row in rows)

    def ruled_out(self, options: tuple[Option, ...]) -> Iterator[RuledOut]:
        """Every release newer than that of the best option; neighbours with the same reasons together."""
        if self.here.no_gpu:
            return
        floor = Version(options[0].tensorflow) if options else None
        rows = candidates(self.wanted.matrix, self.target.platform)
        judged = [
            (row.version, violations(self.wanted, row)) for row in rows if not floor or Version(row.version) > floor
        ]
        versions: list[str] = []
        for index, (version, found) in enumerate(judged):
            versions.append(version)
            following = judged[index + 1][1] if index + 1 < len(judged) else None
            if following is None or [(one.constraint, one.need) for one in following] != [
                (one.constraint, one.need) for one in found
            ]:
                yield RuledOut(versions=tuple(versions), violations=found)
                versions = []

    def lift(self) -> Lift | None:
        """The one constraint whose loss costs least and lets a release fit."""
        judged = [(row, violations(self.wanted, row)) for row in candidates(self.wanted.matrix, self.target.platform)]
        for constraint in LIFTS:
            for row, found in judged:
                if {one.constraint for one in found} == {constraint}:
                    return Lift(constraint=constraint, text=self._dead_end(row, found[0]), tensorflow=row.version)
        return None

    def _dead_end(self, row: Release, broken: Violation) -> str:
        match broken.constraint:
            case "gpu":
                return f"no wheel has kernels for {broken.saw}"
            case "build":
                return f"no wheel for {row.platform} holds CUDA"
        return f"{broken.saw}, but TensorFlow {row.version} needs {broken.need}"
