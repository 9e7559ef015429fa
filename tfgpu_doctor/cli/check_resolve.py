"""`tfgpu check --resolve`: a real resolver is asked about each environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfgpu_doctor.install.asking import Resolver
    from tfgpu_doctor.manifests import Environment
    from tfgpu_doctor.matrix.loader import Matrix
    from tfgpu_doctor.plan.answers import Answers
    from tfgpu_doctor.plan.target import Target
    from tfgpu_doctor.records.resolution import Answer


def answers_for(environments: Iterable[Environment], target: Target, matrix: Matrix, resolver: Resolver) -> Answers:
    """What the resolver answers about each of them, and why there is no answer about others."""
    from tfgpu_doctor.cli.progress import spinner
    from tfgpu_doctor.install.asking import ResolverError
    from tfgpu_doctor.plan.answers import NOT_RESOLVED, Answers, question_of
    from tfgpu_doctor.plan.planned import planned

    found: dict[Environment, Answer] = {}
    reasons = []
    for one in environments:
        question = question_of(planned(one, target, matrix))
        if question is None:
            continue
        try:
            with spinner(f"resolving {one.label}"):
                found[one] = resolver.ask(question)
        except ResolverError as error:
            reasons.append(f"{one.label}: {NOT_RESOLVED}: {error}")
    return Answers(found, tuple(reasons))
