# /// script
# requires-python = ">=3.10"
# dependencies = ["msgspec>=0.19", "pyyaml>=6.0", "scikit-learn>=1.8"]
# ///
"""Learns tfgpu_doctor/inference/resemblance.json again from the reports in tests/cases.

    python scripts/learn_resemblance.py [--check] [--without BATCH ...] [--output FILE]

A logistic regression for each cause against all others, over the words that a report has or has not, with an L1
penalty, which leaves few weights; words and causes of at least three reports. C = 1 was chosen on the groups 1 to 8 of
docs/deciding.md, each left out in turn. --without leaves the reports of a batch out, to measure what is found in them
as if they were new. Exit code 1 with --check: the file was learnt from other reports.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from tfgpu_doctor.inference.resemblance import TABLE, words_of  # noqa: E402

CASES = ROOT / "tests" / "cases"
FEWEST = 3  # reports of a word, and of a cause
DENIALS = {"cannot", "never", "no", "not", "only", "without"}  # which tell more than other words that stand everywhere
PENALTY = 1.0  # C of scikit-learn: the inverse of the penalty's strength
SMALLEST = 0.05  # weight
HARMLESS = ("ok", "benign.log", "tensorrt.missing-benign")  # of cases in which nothing is wrong


def main() -> int:
    """Learn and write, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--without", nargs="*", default=[], metavar="BATCH")
    parser.add_argument("--output", type=Path, default=TABLE)
    asked = parser.parse_args()
    cases = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(CASES.glob("*.yaml"))]
    learnt = learn([case for case in cases if case.get("batch") not in asked.without])
    if asked.check:
        same = asked.output.read_text(encoding="utf-8") == learnt
        print("up to date" if same else f"{asked.output} differs: run this without --check")
        return 0 if same else 1
    asked.output.write_text(learnt, encoding="utf-8")
    print(f"{asked.output.name}: {len(learnt):,} bytes")
    return 0


def learn(cases: list[dict[str, Any]]) -> str:
    """The table as JSON, a word on each line."""
    import numpy
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
    from sklearn.linear_model import LogisticRegression

    said = [words_of(case["text"]) for case in cases]
    common = Counter(word for words in said for word in words - (ENGLISH_STOP_WORDS - DENIALS))
    known = sorted(word for word, times in common.items() if times >= FEWEST)
    rows = numpy.array([[float(word in words) for word in known] for words in said])
    causes = ["ok" if case["root_cause"] in HARMLESS else case["root_cause"] for case in cases]
    bias: dict[str, float] = {}
    weights: dict[str, dict[str, float]] = {}
    for cause, times in sorted(Counter(causes).items()):
        if times < FEWEST:
            continue
        one = LogisticRegression(C=PENALTY, l1_ratio=1, solver="liblinear", random_state=0)
        one.fit(rows, [other == cause for other in causes])
        bias[cause] = round(float(one.intercept_[0]), 2)
        for word, weight in zip(known, one.coef_[0], strict=True):
            if abs(weight) >= SMALLEST:
                weights.setdefault(word, {})[cause] = round(float(weight), 2)
    lines = [f"  {json.dumps(word)}: {json.dumps(weights[word])}" for word in sorted(weights)]
    return f'{{"cases": {len(cases)}, "bias": {json.dumps(bias)},\n "words": {{\n' + ",\n".join(lines) + "\n }}\n"


if __name__ == "__main__":
    sys.exit(main())
