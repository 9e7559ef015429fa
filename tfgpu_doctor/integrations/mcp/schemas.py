"""JSON Schemas of tools, derived from records. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_REF = "#/$defs/"
_FACTS = {"type": "object", "description": "The facts, as in the schema report-1.json of tfgpu; only where asked for."}
_OPTIONAL = ("facts", "environment")  # fields that hold them


def object_schema(kind: Any) -> dict[str, Any]:
    """The schema of a record: an object, as the protocol wants it, with the records within it beside.

    Facts are not spelled out: their schema is ten times the rest, and an assistant reads the list of tools each time.
    """
    (root,), found = msgspec.json.schema_components([kind], ref_template=_REF + "{name}")
    schemas: dict[str, Any] = {**found, "Facts": _FACTS} if "Facts" in found else found
    for schema in schemas.values():
        if "required" in schema and "Facts" in _referred(schema):
            schema["required"] = [name for name in schema["required"] if name not in _OPTIONAL]
    name = root["$ref"].removeprefix(_REF)
    top = schemas.pop(name)
    needed = _reachable(top, schemas)
    beside = {name: schema for name, schema in schemas.items() if name in needed}
    return {**top, "$defs": beside} if beside else dict(top)


def _reachable(schema: Any, schemas: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    names = list(_referred(schema))
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            names += _referred(schemas[name])
    return found


def _referred(schema: Any) -> Iterator[str]:
    """The names of the records that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(_REF)
        for one in schema.values():
            yield from _referred(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from _referred(one)


_AT = re.compile(r" - at `\$(?:\.(?P<field>[^`]*))?`")

_LENGTH = re.compile(r"Expected `(?:str|array|object)` of length (?P<sign>[<>])= (?P<size>\d+)")


def _length(found: re.Match[str]) -> str:
    if found["sign"] == ">":
        return "it is empty"
    return f"it is longer than {int(found['size']):,}; give the part that matters".replace(",", " ")


# how assistants call the types of JSON
_TYPES = {"str": "text", "int": "an integer", "float": "a number", "bool": "true or false", "null": "null"}
_TYPES |= {"array": "a list", "object": "an object"}
_TYPE = re.compile(r"Expected `(?P<wanted>[a-z |]+)`(?:, got `(?P<got>[a-z]+)`)?")


def _type(found: re.Match[str]) -> str:
    wanted = " or ".join(_TYPES.get(one, one) for one in found["wanted"].split(" | ") if one != "null")
    return f"it must be {wanted}" + (f", not {_TYPES.get(found['got'], found['got'])}" if found["got"] else "")


def in_words(error: msgspec.ValidationError, schema: Mapping[str, Any]) -> str:
    """What is wrong with the arguments of a tool, in a sentence that says what to give; `schema` is theirs."""
    message = str(error)
    place = _AT.search(message)
    text = _TYPE.sub(_type, _LENGTH.sub(_length, _AT.sub("", message)))
    field, names = place["field"] if place else "", ", ".join(schema["properties"])
    for told, words in (
        ("contains unknown field", "there is no argument"),
        ("missing required field", "missing argument"),
    ):
        if f"Object {told}" in text and not field:
            return f"{text.replace(f'Object {told}', words)}; the arguments are {names}"
    choices = _choices(schema["properties"].get(field, {})) if "Invalid enum value" in text else []
    text += f"; it is one of {', '.join(choices)}" if choices else ""
    return f"{field}: {text}" if field else text


def _choices(schema: Any) -> list[str]:
    """The values of an argument that is one of several words."""
    several = [schema, *schema.get("anyOf", ())]
    return [str(value) for one in several for value in one.get("enum", ()) if value is not None]
