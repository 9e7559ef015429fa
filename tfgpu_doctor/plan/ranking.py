"""Target + Matrix → what to install, ranked, with commands, and why nothing newer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.facts import Facts, value_or
from tfgpu_doctor.facts.report import Fix, Tool
from tfgpu_doctor.facts.versions import major, minor
from tfgpu_doctor.matrix.compatibility import forgets_folders, runs_on
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.alternatives import after_a_driver_change, alternatives, driver_change, is_data_centre, on_cpu
from tfgpu_doctor.plan.constraints import PlanRequest, broken_within, candidates, outside_wsl, problems, violations
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.plan.gate import admitted
from tfgpu_doctor.plan.install_commands import Installation, list_gpus, repaired_by_commands
from tfgpu_doctor.plan.records import SCHEMA, Kind, Option, Plan, RuledOut, older_than_five_years
from tfgpu_doctor.plan.target import Target, TargetError, has_no_gpu, to_facts

_CHANGES: tuple[Kind, ...] = ("python", "driver", "python+driver")
FROM_PIP = frozenset({"as-is", *_CHANGES})
_WSL = Fix(
    "Install WSL2 (Windows 10 from 21H2 on, or 11) and continue in its terminal; install no driver in it",
    ("wsl --install",),
)


@dataclass(frozen=True)
class MachineState:
    """What is known of a real machine beyond the target, so that the commands fit it."""

    fixes: Fixes | None = None  # None: for another Python than that of the facts
    no_gpu: bool = False
    driver_missing: bool = False
    driver_hangs: bool = False

    @property
    def interpreter(self) -> str | None:
        """The Python of the target on this machine; its environment is never installed into."""
        return self.fixes.python if self.fixes and value_or(self.fixes.facts.python.executable, None) else None


def machine_state(facts: Facts, matrix: Matrix, python: str | None = None) -> MachineState:
    """What a plan has to know of a real machine; with another Python, its interpreter does not serve."""
    no_gpu = has_no_gpu(facts)
    own = minor(value_or(facts.python.version, ""))
    return MachineState(
        fixes=Fixes(facts, matrix) if python in (None, own) else None,
        no_gpu=no_gpu,
        driver_missing=not no_gpu and value_or(facts.driver.libcuda, None) == (),
        driver_hangs=bool(value_or(facts.driver.unresponsive, ())),
    )


def make_plan(
    matrix: Matrix,
    target: Target,
    *,
    specifier: SpecifierSet | None = None,
    state: MachineState | None = None,
) -> Plan:
    """Rank the ways to a TensorFlow that uses the target's GPUs.

    Args:
        specifier: the TensorFlow versions that are asked for; None: any.
        state: the real machine that the target was taken from; None: it was described.

    Raises TargetError: no release that the matrix knows matches the specifier.
    """
    planner = Planner(PlanRequest(matrix, target, specifier), state or MachineState())
    if not any(planner.request.admits(row.version) for row in matrix.releases()):
        newest = matrix.stable()[0].version
        raise TargetError(f"no release of TensorFlow matches {specifier}; the newest one that is known is {newest}")
    options, known = planner.options(), planner.state
    wrong = [*problems(planner.request, no_gpu=known.no_gpu, driver_hangs=known.driver_hangs)]
    no_way = target.gpus and all(one.kind == "cpu" for one in options) and not outside_wsl(target)
    if no_way and (row := planner.best(frozenset({"driver", "python"}), by_hand=True)):
        why = f"needs CUDA {row.cuda}, which neither pip nor conda has: it can no longer be installed with a command"
        wrong.append(f"TensorFlow {row.version} {why}")
    wrong += _whatever_release(planner, options, state) if specifier else ()
    of_others = known.no_gpu or target.os == "macos" or outside_wsl(target)
    return Plan(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        target=target,
        described=state is None,
        tensorflow=None if specifier is None else str(specifier),
        problems=tuple(wrong),
        options=options,
        ruled_out=() if of_others else tuple(planner.ruled_out(options)),
        last_driver_branch=planner.request.last_branch,
    )


def _whatever_release(planner: Planner, options: tuple[Option, ...], state: MachineState | None) -> Iterator[str]:
    """What suits a machine on which the release that was asked for does not."""
    if planner.target.gpus and all(one.kind == "cpu" for one in options):
        for one in make_plan(planner.request.matrix, planner.target, state=state).options[:1]:
            if one.kind != "cpu":
                yield f"Of all releases, {one.title} suits this machine: tfgpu plan without --tensorflow"


def _runs_here(ways: Iterable[Option]) -> bool:
    """Whether one of the ways is pip's or conda's on this very system."""
    return any(one.kind in FROM_PIP for one in ways)


@dataclass(frozen=True)
class Planner:
    """The ranking itself."""

    request: PlanRequest
    state: MachineState = MachineState()

    @property
    def target(self) -> Target:
        """The machine."""
        return self.request.target

    def options(self) -> tuple[Option, ...]:
        """Every way that nothing speaks against, the best first."""
        ranked = () if outside_wsl(self.target) else self._ranked()
        return tuple(one for one in map(self._admitted, ranked) if one.commands)

    def _admitted(self, option: Option) -> Option:
        """The option with what may be advised, held against the machine as it is when its commands run."""
        in_wsl = {"os": "wsl2", "glibc": None} if option.kind == "wsl2" else {}
        driver = None if option.first else self.target.driver
        then = structs.replace(self.target, driver=driver, python=option.python, **in_wsl)
        now, changed, matrix = to_facts(self.target), to_facts(then), self.request.matrix
        ways = {key: admitted((Fix(option.title, way),), changed, matrix) for key, way in option.commands.items()}
        return structs.replace(
            option,
            first=admitted(option.first, now, matrix),
            missing=admitted(option.missing, changed, matrix),
            commands={tool: fix.commands for tool, fixes in ways.items() for fix in fixes},
            then=admitted(option.then, changed, matrix),
        )

    def _ranked(self) -> list[Option]:
        if self.state.no_gpu or self.target.os == "macos":
            return [*on_cpu(self.request, self.state.interpreter)]
        ways = [*self._ways()]
        if self.request.specifier and not _runs_here(ways):
            # of releases that were asked for, those count, too, which links, or bounds of other packages, make work,
            # and then those whose kernels the driver compiles at the first start
            issues = self.request.repaired_issues | repaired_by_commands(self.request.matrix)
            for compiles in (False, True):
                request = replace(self.request, repaired_issues=issues, compiles=compiles)
                more = [*replace(self, request=request)._ways()]
                ways = more if _runs_here(more) or not (ways and self.target.os == "windows") else ways
                if _runs_here(ways) or (ways and self.target.os != "windows"):
                    break
        ways.sort(key=self._rank)
        spared = ways[0].tensorflow if ways and "driver" in ways[0].kind else ""
        # conda-forge's build comes before an update of the driver for the same release
        return sorted(ways, key=lambda one: one.kind != "conda-forge" or minor(one.tensorflow) != minor(spared))

    def _rank(self, option: Option) -> int:
        """As things are; WSL2 before another Python on Windows; last what is old, unless it was asked for."""
        if option.kind == "cpu":
            return 4
        if older_than_five_years(self.request.matrix, option.released) and not self.request.specifier:
            return 3
        if self.target.os == "windows" and option.kind != "wsl2":
            own = option.kind == "as-is" and (self.target.python or self.request.specifier)
            return 0 if own or (self.request.specifier and option.kind == "python") else 2
        return 1

    def _ways(self) -> Iterator[Option]:
        """What works as things are, what one cheap change brings, images, WSL2, and what is not yet released."""
        best = self.best()
        if best:
            yield self.option("as-is", best)
        changed = tuple(self._after_a_change(best))
        yield from changed
        others = alternatives(self.request)
        yield from others or (() if best or changed else after_a_driver_change(self.request))
        if self.target.os == "windows":
            yield from self._in_wsl()
            yield from on_cpu(self.request, None)
        if best is None and (row := self.best(pre=True)):
            yield self.option("pre-release", row)

    def _after_a_change(self, best: Release | None) -> Iterator[Option]:
        """Releases newer than what works as things are, each after a cheap change."""
        newest = best
        for kind in _CHANGES:
            enough = newest and not older_than_five_years(self.request.matrix, newest.released)
            row = None if enough and kind == "python+driver" else self.best(frozenset(kind.split("+")))
            if row and row is not newest and (best is None or Version(row.version) > Version(best.version)):
                yield self.option(kind, row)
                newest = max(newest or row, row, key=lambda one: Version(one.version))

    def best(
        self, given_up: frozenset[str] = frozenset(), *, pre: bool = False, by_hand: bool = False
    ) -> Release | None:
        """Return the newest release that violates nothing but what is given up.

        Args:
            given_up: constraints that a change of the machine meets.
            pre: release candidates instead of stable releases.
            by_hand: one that no command installs, since no index has its CUDA (9.1 and older); else one that some does.
        """
        for row in candidates(self.request.matrix, self.target.platform, pre=pre):
            broken = broken_within(self.request, row, given_up)
            can_change = broken is not None and self._can_change(row, broken)
            if can_change and by_hand != bool(self._installation(row).commands):
                return row
        return None

    def _can_change(self, row: Release, broken: frozenset[str]) -> bool:
        """A driver goes up to the last branch for the cards; under another Python the release may be broken."""
        if "driver" in broken and not self.request.driver_exists(self.request.driver_needed(row)):
            return False
        other = replace(self.request, target=structs.replace(self.target, python=row.python[-1]))
        return "python" not in broken or broken_within(other, row, broken - {"python"}) is not None

    def _installation(self, row: Release) -> Installation:
        """The installation for the target's Python, or for the newest that is not the release's very last."""
        python = self.target.python if self.target.python in row.python else row.python[-1]
        interpreter = self.state.interpreter if python == self.target.python else None
        return Installation(self.request.matrix, self.target, row, python, interpreter=interpreter)

    def option(self, kind: Kind, row: Release) -> Option:
        """One release from pip, with all that belongs to it."""
        installation, need = self._installation(row), self.request.driver_needed(row)
        installers = value_or(self.state.fixes.facts.python.installers, ()) if self.state.fixes else ()
        with_python = f" with Python {installation.python}" if "python" in kind else ""
        with_driver, _ = driver_change(self.request, need)
        keys = ("cuda", "cudnn", "sass", "min_driver_linux", "pip_nvidia")
        return Option(
            kind=kind,
            title=f"TensorFlow {row.version}{with_python}{with_driver if 'driver' in kind else ''}",
            tensorflow=row.version,
            package=row.package,
            python=installation.python,
            cuda=row.cuda,
            cudnn=row.cudnn,
            min_driver=need,
            first=tuple(self._first(kind, need)),
            released=row.released,
            pythons=() if installation.python == self.target.python else row.python,
            commands=installation.commands,
            missing=tuple(installation.missing(installers)),
            then=(installation.check,),
            notes=tuple(self._notes(row, installation)),
            sources=tuple(dict.fromkeys(row.sources[key] for key in keys if key in row.sources)),
        )

    def _first(self, kind: Kind, need: str | None) -> Iterator[Fix]:
        fixes, back = self.state.fixes, self.request.branch_to_go_back_to
        if back or "driver" in kind or self.state.driver_missing:
            own = fixes if not self.request.last_branch else None
            yield own.install_driver(need) if own else driver_change(self.request, need)[1]

    def _notes(self, row: Release, installation: Installation) -> Iterator[str]:
        if any(runs_on(row, card) == "ptx" for card in self.target.capabilities):
            yield "It has no machine code for this GPU: the driver compiles PTX at the first start, up to half an hour"
        if installation.holds_cudnn_back:
            oldest, limit = self.target.capabilities[0], installation.cudnn_limit
            yield f"cuDNN {limit} no longer supports compute capability {oldest}: the command installs an older one"
        if installation.self_contained:
            yield "CUDA and cuDNN come from pip; an installed toolkit interferes only where LD_LIBRARY_PATH names it"
        elif installation.cuda_from_pip:
            yield "This release has no CUDA extra: the commands add NVIDIA's CUDA 11 packages, linked where it looks"
        if not installation.cuda_from_pip and (bug := next(filter(forgets_folders, row.known_issues), None)):
            yield f"TensorFlow {row.version} has a bug: {bug.title}. They are linked where it looks"
        yield from self._notes_on_gpus()
        for issue in self.request.issues(row, installation.python, extra=installation.self_contained):
            if issue.severity == "warning" and issue.affects == "run":
                yield f"{issue.title}. {issue.fix}"

    def _notes_on_gpus(self) -> Iterator[str]:
        if self.target.os == "wsl2" and is_data_centre(self.target):
            yield "Windows must run a data-center GPU in WDDM or MCDM: WSL2 does not pass on TCC (nvidia-smi shows it)"
        if self.target.os == "wsl2" and any(major(card) == "5" for card in self.target.capabilities):
            # CUDA on WSL User Guide, 5.1
            yield "NVIDIA does not officially support Maxwell GPUs in WSL2, where they may still work"
        if (last := self.request.last_branch) is not None:
            yield f"Driver branch {last} is the last for this GPU: do not update beyond it"
        if small := self.target.left_out:
            yield (
                f"TensorFlow leaves out the {' and the '.join(small)} beside the larger GPU, unless the variable "
                f"TF_MIN_GPU_MULTIPROCESSOR_COUNT is set to {min(small.values())}"
            )

    def _wsl(self) -> Planner:
        """For WSL2, which has a Python of its own: the one that is asked for with a release, where that has a wheel."""
        inside = structs.replace(self.target, os="wsl2", glibc=None)
        rows = self.request.matrix.releases("linux_x86_64", "tensorflow") if self.request.specifier else ()
        wanted = any(inside.python in row.python for row in rows if self.request.admits(row.version))
        inside = inside if wanted else structs.replace(inside, python=None)
        return Planner(replace(self.request, target=inside))

    def _in_wsl(self) -> Iterator[Option]:
        """Native Windows ends with 2.10; under WSL2, with a Python of its own, the machine runs today's releases."""
        kinds = ("as-is", "driver", "conda-forge")
        if option := next((one for one in self._wsl().options() if one.kind in kinds), None):
            plain = f"TensorFlow {option.tensorflow}"
            title = option.title.replace(plain, f"{plain} in WSL2", 1)
            # the doctor of Windows sees nothing of WSL2
            check = Fix("Check it", (f'~/tf/bin/python -c "{list_gpus(option.tensorflow)}"',))
            then = option.then if "conda" in option.commands and len(option.commands) == 1 else (check,)
            yield structs.replace(option, kind="wsl2", title=title, first=(*option.first, _WSL), then=then)

    def ruled_out(self, options: tuple[Option, ...]) -> Iterator[RuledOut]:
        """Every release newer than that of the best option; neighbours with the same reasons together."""
        floor = Version(options[0].tensorflow) if options else None
        request = self._wsl().request if options and options[0].kind == "wsl2" else self.request
        known = candidates(request.matrix, request.target.platform)
        rows = sorted(known, key=lambda one: Version(one.version), reverse=True)
        judged = ((row, violations(request, row)) for row in rows if not floor or Version(row.version) > floor)
        for _, group in groupby(judged, key=lambda one: [(why.constraint, why.need) for why in one[1]]):
            found = [*group]
            yield RuledOut(versions=tuple(row.version for row, _ in found), violations=found[-1][1])
