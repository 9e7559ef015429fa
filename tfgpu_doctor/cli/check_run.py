"""What `tfgpu check` does: the files are read and judged, a resolver is asked, and the advised edits are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.install.asking import Resolver
    from tfgpu_doctor.manifests import Environment
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.plan.answers import Answers
    from tfgpu_doctor.plan.check import Repair
    from tfgpu_doctor.plan.target import Target
    from tfgpu_doctor.records.checked import Checked
    from tfgpu_doctor.records.report import Report
    from tfgpu_doctor.records.resolution import Answer


class Sources(Protocol):
    """What is checked: files (cli/manifests.py), or contents that a program has (api/texts.py)."""

    def environments(self, edited: Mapping[str, str] | None = None) -> tuple[Environment, ...]:
        """What they describe, or would describe with other texts in place of some. Raises ManifestError."""
        ...

    def text(self, path: str) -> str | None:
        """The text of one, by its path in messages; None where it must not be changed."""
        ...

    def write(self, path: str, text: str, /) -> None:
        """Replace the text of one."""
        ...


@dataclass
class Check:
    """The files that are checked, and what they are checked against."""

    sources: Sources
    target: Target
    matrix: Matrix
    created: str
    resolver: Resolver | None = None  # None: none is asked

    def run(self, *, changes: bool, fix: bool) -> Checked:
        """The result; `changes`: with those that --fix would make, which takes long; `fix`: they are made.

        Raises ManifestError: a text is no manifest; click.UsageError: a file cannot be read.
        """
        environments = self.sources.environments()
        report, answers = self._judged(environments)
        if not changes:
            return self._checked(environments, report, answers)
        repaired = self._repaired(environments, report)
        if fix:
            for path, text in repaired.texts.items():
                self.sources.write(path, text)
                say(f"tfgpu: changed {path}")
            environments = self.sources.environments(repaired.texts)
            report, answers = self._judged(environments)
        return self._checked(environments, report, answers, repaired, fixed=fix)

    def _judged(self, environments: tuple[Environment, ...]) -> tuple[Report, Answers]:
        from tfgpu_doctor.plan.check import judge

        answers = self._answers(environments)
        return judge(environments, self.target, self.matrix, self.created, answers), answers

    def _repaired(self, environments: tuple[Environment, ...], report: Report) -> Repair:
        from tfgpu_doctor.plan.check import judge, repair

        def judged(edited: Mapping[str, str]) -> Report:
            return judge(self.sources.environments(edited), self.target, self.matrix, self.created)

        shells = {one.place.path for one in environments if one.kind in ("dockerfile", "singularity", "workflow")}
        return repair(report, self.sources.text, judged, shells)

    def _checked(
        self,
        environments: tuple[Environment, ...],
        report: Report,
        answers: Answers,
        repaired: Repair | None = None,
        *,
        fixed: bool = False,
    ) -> Checked:
        from tfgpu_doctor.plan.planned import planned
        from tfgpu_doctor.records.checked import Change, Checked
        from tfgpu_doctor.render.outlines.check import not_changed, read_file
        from tfgpu_doctor.render.outlines.plan import target_line

        texts = repaired.texts if repaired else {}
        return Checked(
            report=report,
            target=target_line(self.target),
            files=tuple(
                read_file(planned(one, self.target, self.matrix), answers.found.get(one)) for one in environments
            ),
            changes=tuple(
                Change(path=path, before=self.sources.text(path) or "", after=text) for path, text in texts.items()
            ),
            not_changed=tuple(not_changed(repaired)) if repaired else (),
            fixed=fixed,
        )

    def _answers(self, environments: tuple[Environment, ...]) -> Answers:
        """What the resolver answers about each of them, and why some have no answer."""
        from tfgpu_doctor.cli.progress import spinner
        from tfgpu_doctor.install.asking import ResolverError
        from tfgpu_doctor.plan.answers import NOT_RESOLVED, Answers, question_of
        from tfgpu_doctor.plan.planned import planned

        found: dict[Environment, Answer] = {}
        reasons = []
        if self.resolver is None:
            return Answers()
        for one in environments:
            question = question_of(planned(one, self.target, self.matrix))
            if question is None:
                continue
            try:
                with spinner(f"resolving {one.label}"):
                    found[one] = self.resolver.ask(question)
            except ResolverError as error:
                reasons.append(f"{one.label}: {NOT_RESOLVED}: {error}")
        return Answers(found, tuple(reasons))
