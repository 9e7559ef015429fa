"""Records with a text in every field that takes one, made from their types: a new field is in them by itself."""

from __future__ import annotations

from typing import Any

from msgspec import inspect

from tfgpu_doctor.bench.comparison import BenchComparison
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.compare.records import Comparison
from tfgpu_doctor.facts.report import Checked, Report
from tfgpu_doctor.fleet.records import Fleet
from tfgpu_doctor.plan.records import Plan
from tfgpu_doctor.smoke.records import Smoke

DOCUMENTS: tuple[type[Any], ...] = (Report, Checked, BenchResult, Smoke, Comparison, BenchComparison, Plan, Fleet)


def planted(record: type[Any], text: str, variant: int = 0) -> Any:
    """An instance with `text` in every text; of facts, variant 0 is known and variant 1 is not."""
    return _made(inspect.type_info(record), text, variant)


def _made(info: inspect.Type, text: str, variant: int) -> Any:
    if isinstance(info, inspect.StructType):
        return info.cls(**{one.name: _made(one.type, text, variant) for one in info.fields})
    if isinstance(info, inspect.UnionType):
        return _made(_chosen(info, variant), text, variant)
    if isinstance(info, inspect.Metadata):
        return _made(info.type, text, variant)
    if isinstance(info, inspect.VarTupleType):
        return (_made(info.item_type, text, variant),)
    if isinstance(info, inspect.TupleType):
        return tuple(_made(one, text, variant) for one in info.item_types)
    if isinstance(info, inspect.DictType):
        return {_made(info.key_type, text, variant): _made(info.value_type, text, variant)}
    if isinstance(info, inspect.LiteralType):
        return info.values[0]
    if isinstance(info, inspect.EnumType):
        return next(iter(info.cls))
    plain = {inspect.StrType: text, inspect.IntType: 1, inspect.FloatType: 1.0, inspect.BoolType: True}
    return plain[type(info)]


def _chosen(info: inspect.UnionType, variant: int) -> inspect.Type:
    """A text before a number, a record before nothing."""
    order = (inspect.StrType, inspect.StructType, inspect.VarTupleType, inspect.TupleType, inspect.LiteralType)
    known = [one for one in info.types if not isinstance(one, inspect.NoneType)]
    known.sort(key=lambda one: next((place for place, kind in enumerate(order) if isinstance(one, kind)), len(order)))
    structs = [one for one in known if isinstance(one, inspect.StructType)]
    return structs[variant % len(structs)] if len(structs) > 1 else known[0]
