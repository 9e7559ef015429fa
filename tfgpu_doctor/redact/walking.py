"""Walking over records: every text, with the name that it goes by and whether anybody may see it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct

from tfgpu_doctor.records.about import closed_fields, described, fields_of_names, public_fields, records_in
from tfgpu_doctor.records.facts import Facts, Known, Setting, Unknown
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.redact.vocabulary import is_public_text

# These are what their fact is; where it was read, and why it is unknown, is never public.
_VALUES = frozenset({(Known, "value"), (Unknown, "one_of")})
_GRADE = (Known, "grade")


class Field(NamedTuple):
    """A field of a record that may hold texts."""

    field: str
    value: Any
    name: str  # that of the fact, for its value; HOST or OWN_NAME of a name; that of a variable, for its value
    public: bool


def fields_of(record: Struct, name: str = "", public: bool = False) -> Iterator[Field]:
    """The fields of a record that goes by `name`; those whose type is a closed list of words are left out."""
    kind = type(record)
    declared, closed, names = public_fields(kind), closed_fields(kind), fields_of_names(kind)
    if isinstance(record, Setting):
        names = {"value": record.name}
    for field in kind.__struct_fields__:
        value = getattr(record, field)
        if (kind, field) in _VALUES:
            yield Field(field, value, name, public)
        elif field not in closed:
            yield Field(field, value, names.get(field, field), field in declared or (kind, field) == _GRADE)


def private_texts(value: Any, name: str = "", public: bool = False) -> Iterator[tuple[str, str]]:
    """(name, text) of every text that is not public nor our own advice. A name is that of a field or of a key."""
    if isinstance(value, str):
        if not (public and is_public_text(value)):
            yield name, value
    elif isinstance(value, Struct) and not isinstance(value, Fix):
        for field in fields_of(value, name, public):
            yield from private_texts(field.value, field.name, field.public)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield "", str(key)
            yield from private_texts(item, str(key), public)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from private_texts(item, name, public)


@cache
def fields_of_paths() -> frozenset[str]:
    """Names of the fields that hold a whole path, so that its parts may have spaces."""
    fields = (field for record in records_in(Facts) for field in described(record).items())
    return frozenset(name for name, about in fields if about.unit == "path")
