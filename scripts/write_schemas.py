"""Write the JSON Schemas that the package ships, derived from the records: python scripts/write_schemas.py"""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from tfgpu_doctor.bench.comparison import BenchComparison
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.compare.records import Comparison
from tfgpu_doctor.facts.report import Report
from tfgpu_doctor.facts.schemas import FOLDER
from tfgpu_doctor.findings.engine import CheckList
from tfgpu_doctor.findings.pages import PageDocument
from tfgpu_doctor.fleet.records import Fleet
from tfgpu_doctor.matrix.schema import MatrixFile
from tfgpu_doctor.plan.records import Plan
from tfgpu_doctor.smoke.records import Smoke

_MODULE = re.compile(rb"tfgpu_doctor(?:\.\w+)*\.(?=[A-Z])")  # before a record's name: where its code lies is no schema


def derived() -> dict[str, str]:
    """File name → JSON text, as the records say it today."""
    kinds: dict[str, Any] = {
        "report-1.json": Report,
        "plan-1.json": Plan,
        "bench-1.json": BenchResult,
        "bench-compare-1.json": BenchComparison,
        "compare-1.json": Comparison,
        "smoke-1.json": Smoke,
        "fleet-1.json": Fleet,
        "matrix-1.json": MatrixFile,
        "page-1.json": PageDocument,
        "checks-1.json": CheckList,
    }
    return {name: _text(kind, name) for name, kind in kinds.items()}


def _text(kind: Any, name: str) -> str:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"tfgpu.{name}"}
    schema = _MODULE.sub(b"", msgspec.json.encode({**head, **_closed(msgspec.json.schema(kind))}))
    return msgspec.json.format(schema, indent=1).decode() + "\n"


def _closed(schema: Any) -> Any:
    """Return the schema with records that have no fields but theirs: what is written, though more can be read."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    # msgspec 0.22 and 0.23 indent docstrings differently, and only the latter describes keys without a pattern
    closed = {key: _closed(value) for key, value in schema.items() if key != "propertyNames" or "pattern" in value}
    if isinstance(closed.get("description"), str):
        closed["description"] = inspect.cleandoc(closed["description"])
    is_record = schema.get("type") == "object" and "title" in schema
    return {**closed, "additionalProperties": False} if is_record else closed


def main() -> None:
    """Write every schema."""
    for name, text in derived().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
