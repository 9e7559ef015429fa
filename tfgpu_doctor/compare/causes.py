"""Which changes go with a finding that is new or gone: those of the facts that the signs that show it read. Pure.

A sign names what it reads by its parameters. Of a collection, the finding must name the element: of hundreds of
packages, the one that its evidence speaks of. Changes of state, which somebody made, come before what was only
observed, since a symptom always goes with itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfgpu_doctor.compare.acts import Act
from tfgpu_doctor.compare.differences import Difference
from tfgpu_doctor.compare.records import REAL, Explanation, How
from tfgpu_doctor.diagnosis.judging import signs_that_show
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Sign
from tfgpu_doctor.findings.inputs import facts_behind, fetch
from tfgpu_doctor.records.facts import Unknown
from tfgpu_doctor.records.report import Finding


def facts_read(finding: str, context: Context | None = None) -> frozenset[str]:
    """Paths of the facts that the signs of a finding read; with a context, the signs that show it there."""
    declared = DECLARATIONS.get(finding)
    if declared is None:
        return frozenset()
    signs = (signs_that_show(declared, context) if context else []) or declared.signs
    return frozenset().union(*(facts_behind(name) for sign in signs for name in sign.inputs))


def lacks_facts(finding: str, context: Context) -> bool:
    """Whether the facts leave it open that the finding holds: no sign of it has all that it requires."""

    def is_open(sign: Sign) -> bool:
        required = [isinstance(fetch(name, context), Unknown) for name in (*sign.gates, *sign.required)]
        optional = [isinstance(fetch(name, context), Unknown) for name in sign.optional]
        return any(required) or (not required and bool(optional) and all(optional))

    return all(is_open(sign) for sign in (DECLARATIONS[finding].signs if finding in DECLARATIONS else ()))


def is_connected(difference: Difference, read: frozenset[str], finding: Finding) -> bool:
    """A sign reads the fact; of a collection, the finding names the element, and of a GPU its field or value."""
    path = difference.path
    if path.path not in read:
        return False
    if path.path == "gpus":
        words = (difference.label.rpartition(": ")[2], difference.good, difference.bad)
        return path.field is None or any(word and _is_named(word, finding) for word in words)
    return path.key is None or _is_named(path.key, finding)


def _is_named(word: str, finding: Finding) -> bool:
    texts = (finding.title, finding.cause, *(f"{item.saw} {item.source}" for item in finding.evidence))
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", " ".join(texts), re.IGNORECASE) is not None


def explain(finding: Finding, read: frozenset[str], acts: Iterable[Act]) -> Explanation:
    """Name what changed of the facts that were read."""
    found = [one for one in acts if any(m.status in REAL and is_connected(m, read, finding) for m in one.members)]
    states = [act for act in found if act.is_state]
    # what is of the finding's own layer comes first: the driver, before another GPU on the bus
    layer = DECLARATIONS[finding.id].layer if finding.id in DECLARATIONS else None
    states.sort(key=lambda act: all(member.layer != layer for member in act.members))
    changes = (change for act in states or found for change in act.changes(read))
    how: How = "observed" if not states else "change" if len(states) == 1 else "changes"
    return Explanation(finding=finding.id, how=how, changes=tuple(changes))
