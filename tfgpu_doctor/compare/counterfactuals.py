"""Which change explains a finding: undo it, diagnose again, and see whether the finding goes away. Pure.

Signs are pure, so that a machine which never existed can be diagnosed: the BAD one with the GOOD one's driver, or with
its NumPy. Single changes are tried before pairs, pairs before the smallest set that a bounded search finds. Changes of
state, which somebody made, come before what was only observed, since a symptom always "explains" itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

from tfgpu_doctor.compare.acts import Act
from tfgpu_doctor.compare.fact_path import FactPath, exchange, value_at
from tfgpu_doctor.compare.records import Explanation
from tfgpu_doctor.compare.words import is_answer
from tfgpu_doctor.diagnosis.engine import Diagnosis, diagnose
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Sign
from tfgpu_doctor.findings.inputs import facts_behind, fetch
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.facts import Facts, Unknown

MOST_DIAGNOSES = 600  # of some milliseconds each, for one comparison
_MOST_ALONE = 24  # changes that are tried each alone
_MOST_IN_PAIRS = 14  # changes that are tried in pairs
_MOST_ALTERNATIVES = 3


# ------------------------------------------------------------------------------------------ what signs read


def facts_read(finding: str) -> frozenset[str]:
    """Paths of the facts that the signs of a finding read; derived values count as the facts that they are made of."""
    return frozenset().union(*(facts_behind(name) for sign in _signs(finding) for name in sign.inputs))


def is_open(finding: str, facts: Facts, matrix: Matrix, require_gpus: int | None = None) -> bool:
    """Whether these facts leave it open that the finding holds: no sign of it has all that it requires."""
    context = Context(facts, matrix, require_gpus)

    def is_open_to(sign: Sign) -> bool:
        required = [isinstance(fetch(name, context), Unknown) for name in (*sign.gates, *sign.required)]
        optional = [isinstance(fetch(name, context), Unknown) for name in sign.optional]
        return any(required) or (not required and bool(optional) and all(optional))

    return all(is_open_to(sign) for sign in _signs(finding))


def _signs(finding: str) -> list[Sign]:
    return DECLARATIONS[finding].signs if finding in DECLARATIONS else []


# ------------------------------------------------------------------------------------------- undoing changes


class Counterfactuals:
    """Diagnoses one machine with changes undone; `base` has the findings, `source` the values to put back."""

    def __init__(
        self, base: Facts, source: Facts, matrix: Matrix, acts: Iterable[Act], *, require_gpus: int | None = None
    ) -> None:
        """Take the two machines and what differs between them."""
        self._base, self._source, self._matrix = base, source, matrix
        self._require_gpus = require_gpus
        self._acts = {act.name: act for act in acts if act.is_real}
        self._judged: dict[frozenset[str], tuple[frozenset[str], frozenset[str]]] = {}

    def open_in_source(self, diagnosis: Diagnosis) -> set[str]:
        """Findings of the base that the source lacks the facts to judge, so that nobody can call them new or gone.

        No sign of the finding has what it needs there, or the finding stays with everything undone that both know.
        """
        everything = frozenset(self._acts)
        return {
            id_
            for id_ in (finding.id for finding in diagnosis.findings)
            if is_open(id_, self._source, self._matrix, self._require_gpus) or not self._is_gone(id_, everything)
        }

    def explain(self, finding: str) -> Explanation:
        """Find the smallest set of changes without which `finding` would not be there."""
        read = facts_read(finding)
        ordered = sorted(self._acts.values(), key=lambda act: not act.touches(read))
        states = [act.name for act in ordered if act.is_state]
        others = [act.name for act in ordered if not act.is_state]
        sets = self._singles(finding, states[:_MOST_ALONE]) or self._together(finding, states)
        if sets:
            return self._explanation(finding, "undone", sets)
        sets = self._singles(finding, others[:_MOST_ALONE]) or self._together(finding, [*states, *others])
        if sets:
            return self._explanation(finding, "seen", sets)
        touching = frozenset(act.name for act in ordered if act.touches(read))
        return self._explanation(finding, "read", [touching])

    # ------------------------------------------------------------------------------------------- searching

    def _singles(self, finding: str, names: list[str]) -> list[frozenset[str]]:
        return [alone for alone in map(frozenset, zip(names, strict=True)) if self._is_gone(finding, alone)]

    def _pairs(self, finding: str, names: list[str]) -> list[frozenset[str]]:
        tried = combinations(names[:_MOST_IN_PAIRS], 2)
        return [pair for pair in map(frozenset, tried) if self._is_gone(finding, pair)]

    def _together(self, finding: str, names: list[str]) -> list[frozenset[str]]:
        """Sets of which every member is needed; pairs where there are some."""
        if not names or not self._is_gone(finding, frozenset(names)):
            return []
        smallest = self._needed(finding, frozenset(), names, is_grown=False)
        return (self._pairs(finding, names) if len(smallest) > 2 else []) or [smallest]

    def _needed(self, finding: str, undone: frozenset[str], names: list[str], *, is_grown: bool) -> frozenset[str]:
        """Those of `names` that must be undone beside `undone`; the first ones rather than the last.

        QuickXplain (Junker, AAAI 2004): halves instead of one after the other, so that hundreds of changes take dozens
        of diagnoses.
        """
        if is_grown and self._is_gone(finding, undone):
            return frozenset()
        if len(names) == 1:
            return frozenset(names)
        first, second = names[: len(names) // 2], names[len(names) // 2 :]
        of_second = self._needed(finding, undone | frozenset(first), second, is_grown=True)
        of_first = self._needed(finding, undone | of_second, first, is_grown=bool(of_second))
        return of_first | of_second

    def _is_gone(self, finding: str, undone: frozenset[str]) -> bool:
        """Whether the finding is not there, and not merely no longer judged."""
        if len(self._judged) >= MOST_DIAGNOSES and undone not in self._judged:
            return False
        found, undetermined = self._diagnosed(undone)
        return finding not in found and finding not in undetermined

    def _diagnosed(self, undone: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Ids of the findings, and of the checks that cannot be made, with the changes of these groups undone."""
        if undone not in self._judged:
            changed = [member.path for name in undone for member in self._acts[name].members]
            facts = exchange(self._base, self._source, filter(self._is_known, changed))
            diagnosis = diagnose(facts, self._matrix, require_gpus=self._require_gpus)
            found = frozenset(finding.id for finding in diagnosis.findings)
            self._judged[undone] = (found, frozenset(check.id for check in diagnosis.undetermined))
        return self._judged[undone]

    def _is_known(self, path: FactPath) -> bool:
        """A value that the other report does not know cannot be put back."""
        return is_answer(value_at(self._source, path))

    # ------------------------------------------------------------------------------------------- answering

    def _explanation(self, finding: str, how: Any, sets: list[frozenset[str]]) -> Explanation:
        read = facts_read(finding)

        def rank(names: frozenset[str]) -> tuple[int, bool, int]:
            return len(self._side_effects(names)), not any(self._acts[name].touches(read) for name in names), len(names)

        best, *rest = sorted(sets, key=rank)
        return Explanation(
            finding=finding,
            how=how,
            changes=self._changes(best, read),
            alternatives=tuple(self._changes(names, read) for names in rest[:_MOST_ALTERNATIVES]),
            side_effects=tuple(sorted(self._side_effects(best))) if how == "undone" else (),
        )

    def _changes(self, names: frozenset[str], read: frozenset[str]) -> tuple[str, ...]:
        ordered = (name for name in self._acts if name in names)
        return tuple(change for name in ordered for change in self._acts[name].changes(read))

    def _side_effects(self, names: frozenset[str]) -> frozenset[str]:
        """Findings that are there only with these changes undone."""
        return self._diagnosed(names)[0] - self._diagnosed(frozenset())[0]
