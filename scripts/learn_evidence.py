# /// script
# requires-python = ">=3.10"
# dependencies = ["msgspec>=0.19", "pyyaml>=6.0", "scikit-learn>=1.8"]
# ///
"""Prints what EVIDENCE in tfgpu_doctor/findings/engine.py comes to, fitted again.

    python scripts/learn_evidence.py [--groups 15 16 17]

A conditional logistic regression over the causes of each report: which of them is the cause, by the evidence that
findings/engine.py finds for each. Only groups from which no sign was written can be fitted to, for in others signs
would seem to be always right, and what a report is like is learnt without its quarter of them.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy
from learn_resemblance import class_of, learn, reports
from scipy.optimize import minimize

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from tfgpu_doctor.findings import engine  # noqa: E402
from tfgpu_doctor.findings.catalogue import DECLARATIONS  # noqa: E402
from tfgpu_doctor.findings.engine import EVIDENCE  # noqa: E402
from tfgpu_doctor.matrix.loader import Matrix  # noqa: E402
from tfgpu_doctor.parsers import lines, resemblance, text_to_facts  # noqa: E402
from tfgpu_doctor.plan.diagnosis import context_of  # noqa: E402

MATRIX = Matrix.load()
FOLDS = 4
PENALTY = 0.5  # half of it times the squares of the weights


def main() -> int:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", nargs="*", default=["15", "16", "17"])
    asked = parser.parse_args()
    cases = reports()
    fitted_to = [case for case in cases if str(case.get("batch", "")).rsplit("/", 1)[-1] in asked.groups]
    random.Random(3).shuffle(fitted_to)
    rows = []
    for fold in range(FOLDS):
        left_out = fitted_to[fold::FOLDS]
        out = set(map(id, left_out))
        table = learn([case for case in cases if id(case) not in out])
        weights = msgspec.json.decode(table, type=resemblance.Weights)
        resemblance._table = lambda weights=weights: weights
        rows += [row for case in left_out if (row := evidence(case))]
    print({name: round(float(much), 2) for name, much in zip(EVIDENCE, fit(rows), strict=True)})
    return 0


def evidence(case: dict[str, Any]) -> tuple[Any, int] | None:
    """A row of numbers for each cause of a report, and the place of its cause; None where that is not among them."""
    context = context_of(text_to_facts.read(lines.read([case["text"].encode()]), MATRIX), MATRIX)
    open_contexts = tuple(engine.hypotheses(context))
    judged = {name: engine.judge(one, context, open_contexts) for name, one in DECLARATIONS.items()}
    text, cause = engine.read(context), class_of(case["root_cause"])
    if text is None or cause == "question":
        return None
    found = engine.weights(text, *engine.holding(judged, context))
    causes = [one for one in found if one != "question"]
    rows = numpy.array([[found[one].get(name, 0.0) for name in EVIDENCE] for one in causes])
    return (rows, causes.index(cause)) if cause in causes else None


def fit(rows: list[tuple[Any, int]]) -> Any:
    """The weights under which the causes are the likeliest."""

    def loss(weights: Any) -> tuple[float, Any]:
        total, slope = PENALTY * weights @ weights / 2, PENALTY * weights
        for numbers, place in rows:
            much = numbers @ weights
            much = numpy.exp(much - much.max())
            chances = much / much.sum()
            total -= numpy.log(chances[place])
            slope = slope - numbers[place] + chances @ numbers
        return total, slope

    return minimize(loss, numpy.zeros(len(EVIDENCE)), jac=True, method="L-BFGS-B").x


if __name__ == "__main__":
    sys.exit(main())
