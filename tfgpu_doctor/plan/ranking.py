"""Target + Matrix → what to install, ranked, with commands, and why nothing newer. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor import __version__
from tfgpu_doctor.matrix.compatibility import driver_reaches, drives, is_tegra, runs_on
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.alternatives import after_a_driver_change, alternatives
from tfgpu_doctor.plan.constraints import (
    PlanRequest,
    Violation,
    branch_to_go_back_to,
    candidates,
    driver_needed,
    first_branch,
    last_branch,
    violations,
)
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.plan.install_commands import Installation
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
class MachineState:
    """What is known of a real machine beyond the target, so that the commands fit its environment."""

    fixes: Fixes | None = None
    no_gpu: bool = False
    driver_missing: bool = False
    driver_hangs: bool = False
    in_the_way: tuple[str, ...] = ()  # distributions to be removed first


def machine_state(facts: Facts, matrix: Matrix, python: str | None = None) -> MachineState:
    """What a plan has to know of a real machine; with another Python, its environment does not serve."""
    gpus, plugged = value_or(facts.gpus, None), value_or(facts.host.pci_gpus, None)
    no_gpu = not gpus and plugged == () and not value_or(facts.host.dxg_device, False)
    own = minor(value_or(facts.python.version, ""))
    installed = {package.name for package in value_or(facts.python.packages, ())}
    return MachineState(
        fixes=Fixes(facts, matrix) if python in (None, own) else None,
        no_gpu=no_gpu,
        driver_missing=not no_gpu and value_or(facts.driver.libcuda, None) == (),
        driver_hangs=bool(value_or(facts.driver.unresponsive, ())),
        in_the_way=tuple(sorted(installed & IN_THE_WAY)),
    )


def make_plan(
    matrix: Matrix,
    target: Target,
    *,
    specifier: SpecifierSet | None = None,
    state: MachineState | None = None,
    repaired_issues: frozenset[str] = frozenset(),
) -> Plan:
    """Rank the ways to a TensorFlow that uses the target's GPUs.

    Args:
        specifier: the TensorFlow versions that are asked for; None: any.
        state: the real machine that the target was taken from; None: it was described.
        repaired_issues: ids of known issues that whoever installs it repairs, so that they rule nothing out.

    Raises TargetError: no release that the matrix knows matches the specifier.
    """
    if specifier is not None and not any(
        specifier.contains(row.version, prereleases=True) for row in matrix.releases()
    ):
        newest = next(row.version for row in matrix.releases() if not row.prerelease)
        raise TargetError(f"no release of TensorFlow matches {specifier}; the newest one that is known is {newest}")
    planner = Planner(PlanRequest(matrix, target, specifier, repaired_issues), state or MachineState())
    options = tuple(planner.options())
    return Plan(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=MatrixInfo(revision=matrix.revision, source=", ".join(matrix.layers) or "bundled"),
        target=target,
        described=state is None,
        tensorflow=None if specifier is None else str(specifier),
        problems=tuple(planner.problems()),
        options=options,
        ruled_out=tuple(planner.ruled_out(options)),
        lift=None if options else planner.lift(),
    )


@dataclass(frozen=True)
class Planner:
    """The ranking itself."""

    request: PlanRequest
    state: MachineState = MachineState()

    @property
    def target(self) -> Target:
        """The machine."""
        return self.request.target

    def options(self) -> Iterator[Option]:
        """What works as things are, what one cheap change brings, images, WSL2, and what is not yet released."""
        if self.state.no_gpu:
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
        others = alternatives(self.request)
        yield from others or (after_a_driver_change(self.request) if newest is None else ())
        if best is None and (row := self.best(pre=True)):
            yield self.option("pre-release", row)

    def best(self, given_up: frozenset[str] = frozenset(), *, pre: bool = False) -> Release | None:
        """The newest release that violates nothing but what is given up, and that some command can install."""
        for row in candidates(self.request.matrix, self.target.platform, pre=pre):
            broken = {one.constraint for one in violations(self.request, row)}
            if broken <= given_up and self._can_change(row, broken) and self.installation(row).commands:
                return row
        return None

    def _can_change(self, row: Release, broken: set[str]) -> bool:
        """A driver goes up to the last branch for the cards; under another Python the release may be broken."""
        if "driver" in broken:
            last, need = last_branch(self.request), driver_needed(self.request, row)
            if last and need and int(major(need)) > int(last):
                return False
        if "python" in broken:
            other = replace(self.request, target=msgspec.structs.replace(self.target, python=row.python[-1]))
            return {one.constraint for one in violations(other, row)} <= broken - {"python"}
        return True

    def installation(self, row: Release) -> Installation:
        """The installation for the target's Python, or for the release's newest."""
        python = self.target.python if self.target.python in row.python else row.python[-1]
        return Installation(self.request.matrix, self.target, row, python)

    def option(self, kind: Kind, row: Release) -> Option:
        """One release from pip, with all that belongs to it."""
        installation = self.installation(row)
        need = driver_needed(self.request, row)
        with_python = f" with Python {installation.python}" if "python" in kind else ""
        with_driver = ""
        if "driver" in kind:
            back = branch_to_go_back_to(self.request)
            with_driver = f" after a downgrade to driver branch {back}" if back else f" after a driver update to {need}"
        keys = ("cuda", "cudnn", "sass", "min_driver_linux", "pip_nvidia")
        return Option(
            kind=kind,
            title=f"TensorFlow {row.version}{with_python}{with_driver}",
            tensorflow=row.version,
            package=row.package,
            python=installation.python,
            cuda=row.cuda,
            cudnn=row.cudnn,
            min_driver=need,
            first=tuple(self._first(kind, need, installation)),
            commands=self._commands(kind, installation),
            then=(installation.check,),
            notes=tuple(self._notes(row, installation)),
            sources=tuple(dict.fromkeys(row.sources[key] for key in keys if key in row.sources)),
        )

    def _first(self, kind: Kind, need: str | None, installation: Installation) -> Iterator[Fix]:
        fixes, last = self.state.fixes, last_branch(self.request)
        if back := branch_to_go_back_to(self.request):
            yield Fix(f"Install a driver of branch {back}, the last that supports this GPU. Then restart")
        elif "driver" in kind or self.state.driver_missing:
            if fixes and not last:
                yield fixes.install_driver(need)
            else:
                where = " in Windows, not in WSL" if self.target.os == "wsl2" else ""
                until = f"; branch {last} is the last that supports this GPU" if last else ""
                yield Fix(f"Install NVIDIA driver {need} or newer{where}{until}. Then restart")
        if installation.cuda_by_hand:
            archives = "https://developer.nvidia.com/cuda-toolkit-archive and /rdp/cudnn-archive"
            libraries = f"CUDA {installation.row.cuda} and cuDNN {installation.row.cudnn}"
            yield Fix(f"Install {libraries} from NVIDIA's archives ({archives}): no package manager has them")
        if self.state.in_the_way and fixes and kind in ("as-is", "driver"):
            yield Fix("Uninstall the conflicting packages", (fixes.pip_uninstall(*self.state.in_the_way),))

    def _commands(self, kind: Kind, installation: Installation) -> dict[str, tuple[str, ...]]:
        """The environment under test serves where its Python fits; else a new one is made."""
        commands = installation.commands
        if kind in ("as-is", "driver") and self.state.fixes and installation.self_contained:
            packages = " ".join(map(shlex.quote, installation.requirements))
            python = self.state.fixes.python
            own = {
                "pip": self.state.fixes.pip_install(*installation.requirements),
                "uv": (f"uv pip install --python {python} {packages}",),
            }
            return {**commands, **own}
        return commands

    def _notes(self, row: Release, installation: Installation) -> Iterator[str]:
        if installation.holds_cudnn_back:
            oldest = self.target.capabilities[0]
            limit = installation.cudnn_limit
            yield f"cuDNN {limit} no longer supports compute capability {oldest}: the command installs an older one"
        if installation.extra_spelled_out:
            yield f"The extra {row.extra} needs a TensorRT without a wheel for this Python: its other parts are listed"
        if installation.self_contained:
            yield "CUDA and cuDNN come from pip: no CUDA toolkit is needed, and an installed one does not interfere"
        elif installation.cuda_from_pip:
            yield "This release has no CUDA extra: the commands add NVIDIA's CUDA 11 packages and the path to them"
        if (last := last_branch(self.request)) is not None:
            yield f"Driver branch {last} is the last that supports this GPU: do not update beyond it"
        found = self.request.matrix.issues_for(
            row,
            python=installation.python,
            compute_capabilities=self.target.capabilities,
            extra=installation.self_contained,
        )
        for issue in found:
            if issue.severity == "warning" and issue.affects == "run":
                yield f"{issue.title}. {issue.fix}"

    def _in_wsl(self) -> Iterator[Option]:
        """Native Windows ends with 2.10; the same machine under WSL2 runs today's releases."""
        inside = Planner(replace(self.request, target=msgspec.structs.replace(self.target, os="wsl2", glibc=None)))
        row = inside.best() or inside.best(frozenset({"python"}))
        if row:
            option = inside.option("wsl2", row)
            title = f"TensorFlow {row.version} in WSL2, with Python {option.python}"
            yield msgspec.structs.replace(option, title=title, first=(_WSL, *option.first))

    def _on_cpu(self) -> Iterator[Option]:
        """Without a GPU, the newest release for this Python."""
        for row in self.request.matrix.releases(platform=self.target.platform, package="tensorflow"):
            broken = {one.constraint for one in violations(self.request, row)}
            if broken <= _ON_CPU and not Version(row.version).is_prerelease:
                plain = f"tensorflow=={row.version}"
                fixes = self.state.fixes
                yield Option(
                    kind="cpu",
                    title=f"TensorFlow {row.version} on the CPU",
                    tensorflow=row.version,
                    package="tensorflow",
                    python=self.target.python,
                    cuda=None,
                    cudnn=None,
                    min_driver=None,
                    commands={"pip": fixes.pip_install(plain) if fixes else (f"python3 -m pip install {plain}",)},
                )
                return

    def problems(self) -> Iterator[str]:
        """What is wrong whatever the release."""
        first, last, have = first_branch(self.request), last_branch(self.request), self.target.driver
        names = (gpu.name or f"compute capability {gpu.compute_capability}" for gpu in self.target.gpus)
        cards = " and ".join(dict.fromkeys(names))
        if self.state.no_gpu:
            yield "This machine has no NVIDIA GPU. To plan for another GPU, name it: tfgpu plan --gpu 'RTX 4090'"
        if self.state.driver_hangs:
            yield "The NVIDIA driver does not respond, so the GPU and the driver version are unknown: run tfgpu doctor"
        if self.target.os == "macos":
            yield "macOS has no CUDA; for Apple GPUs, install tensorflow-metal"
        if any(map(is_tegra, self.target.capabilities)):
            yield "On Jetson, TensorFlow comes with NVIDIA JetPack (own wheels, container images tagged -igpu or l4t)"
        for card in self.target.capabilities:
            if not self._any_kernels(card):
                yield f"No published wheel of TensorFlow has kernels for compute capability {card}"
        if have and first and not driver_reaches(have, first):
            yield f"Driver {have} does not support {cards}: driver branch {first} is the first that does"
        if have and not drives(have, None, last):
            yield f"Driver {have} no longer supports {cards}: driver branch {last} is the last that does"

    def _any_kernels(self, card: str) -> bool:
        platforms = ("linux_x86_64", "windows_amd64")
        rows = (row for platform in platforms for row in candidates(self.request.matrix, platform))
        return any(row.gpu and runs_on(row, card) == "sass" for row in rows)

    def ruled_out(self, options: tuple[Option, ...]) -> Iterator[RuledOut]:
        """Every release newer than that of the best option; neighbours with the same reasons together."""
        if self.state.no_gpu:
            return
        floor = Version(options[0].tensorflow) if options else None
        rows = candidates(self.request.matrix, self.target.platform)
        judged = [
            (row.version, violations(self.request, row)) for row in rows if not floor or Version(row.version) > floor
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
        judged = [(row, violations(self.request, row)) for row in candidates(self.request.matrix, self.target.platform)]
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
                return f"no wheel for {row.platform} has CUDA support"
        return f"{broken.saw}, but TensorFlow {row.version} needs {broken.need}"
