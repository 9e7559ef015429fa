# /// script
# requires-python = ">=3.10"
# dependencies = ["msgspec>=0.19", "pyyaml>=6.0", "scikit-learn>=1.8"]
# ///
"""Learns tfgpu_doctor/parsers/resemblance.json again from the reports in tests/cases.

    python scripts/learn_resemblance.py [--check] [--without BATCH ...] [--output FILE]

A linear support-vector machine for each cause against all others, over TF-IDF values of the terms of a report. It
learns from all reports in tests/cases, and from written.jsonl there: texts that were written to be learnt from. Rare
terms are left out. What is set here was chosen by cross-validation over groups 1 to 16 of
docs/deciding.md. --without leaves the reports of a batch out, to measure what is found in them as if they were new.
Exit code 1 with --check: the file was learnt from other reports.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from tfgpu_doctor.parsers import lines  # noqa: E402
from tfgpu_doctor.parsers.derived_messages import derived_messages  # noqa: E402
from tfgpu_doctor.parsers.parsed_text import ParsedText  # noqa: E402
from tfgpu_doctor.parsers.resemblance import STEP, STEPS, TABLE, telling, terms_of  # noqa: E402

CASES = ROOT / "tests" / "cases"
FEWEST = 5  # reports of a term
FEWEST_OF_CAUSE = 3
PENALTY = 0.5  # C of scikit-learn: the inverse of the penalty's strength
HARMLESS = ("ok", "benign.log", "tensorrt.missing-benign")  # of cases in which nothing is wrong


def main() -> int:
    """Learn and write, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--without", nargs="*", default=[], metavar="BATCH")
    parser.add_argument("--output", type=Path, default=TABLE)
    asked = parser.parse_args()
    learnt = learn([case for case in reports() if case.get("batch") not in asked.without])
    if asked.check:
        same = asked.output.read_text(encoding="utf-8") == learnt
        print("up to date" if same else f"{asked.output} differs: run this without --check")
        return 0 if same else 1
    asked.output.write_text(learnt, encoding="utf-8")
    print(f"{asked.output.name}: {len(learnt):,} bytes")
    return 0


def reports() -> list[dict[str, Any]]:
    """All reports and written texts, each with its text and cause."""
    files = [(CASES / name).read_text(encoding="utf-8") for name in ("reports.jsonl", "written.jsonl")]
    return [json.loads(line) for text in files for line in text.splitlines()]


@cache
def terms(text: str) -> Counter[str]:
    """What is learnt of a text: as when it is explained."""
    parsed = ParsedText(lines.read([text.encode()]))
    told, kinds = telling(parsed.lines, (*parsed.messages, *derived_messages(parsed)))
    return terms_of("\n".join(line.text for line in told), kinds)


def learn(cases: list[dict[str, Any]]) -> str:
    """The table as JSON, a term on each line."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC

    vectors = TfidfVectorizer(analyzer=lambda case: terms(case["text"]).elements(), min_df=FEWEST, sublinear_tf=True)
    values = vectors.fit_transform(cases)
    causes = [class_of(case["root_cause"]) for case in cases]
    often = {cause for cause, times in Counter(causes).items() if times >= FEWEST_OF_CAUSE}
    machine = LinearSVC(C=PENALTY, random_state=0)
    kept = [row for row, cause in enumerate(causes) if cause in often]
    machine.fit(values[kept], [causes[row] for row in kept])
    head = {
        "reports": len(cases),
        "causes": list(machine.classes_),
        "bias": [round(float(one), 3) for one in machine.intercept_],
    }
    columns = zip(vectors.get_feature_names_out(), vectors.idf_, machine.coef_.T, strict=True)
    rows = (f"{_json(term)}:{_json([round(float(rarity), 2), _steps(column)])}" for term, rarity, column in columns)
    return _json(head)[:-1] + ',"terms":{\n' + ",\n".join(rows) + "\n}}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _steps(weights: Iterable[float]) -> str:
    """Each weight as a character."""
    most = len(STEPS) // 2
    return "".join(STEPS[most + max(-most, min(most, round(float(one) / STEP)))] for one in weights)


def class_of(cause: str) -> str:
    """What is learnt together: harmless reports, and variables."""
    return "ok" if cause in HARMLESS else re.sub(r"^env\..*", "env.*", cause)


if __name__ == "__main__":
    sys.exit(main())
