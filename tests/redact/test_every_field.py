"""Nothing private gets through any field of any record, in any format that is made for others to read."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from msgspec import inspect

from tests.healthy import healthy, known
from tests.tables import each
from tfgpu_doctor.bench.comparison import BenchComparison
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.compare.records import Comparison
from tfgpu_doctor.facts.facts import Fact, Known, Record, Unknown
from tfgpu_doctor.facts.report import Checked, Report
from tfgpu_doctor.fleet.records import Fleet
from tfgpu_doctor.plan.records import Plan
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render.formats import FORMATS, KINDS, choices, renderer
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


USER, FOLDER, HOST, TOKEN = "adalovelace", "enginexy", "babbage-07", "hf_" + "QwErTy" * 6
HOME = f"/home/{USER}/{FOLDER}"
EMAIL = f"{USER}@engine.example"
PRIVATE = (USER, FOLDER, HOST, TOKEN.lower())
# what a report says of its machine in other places
CONTEXT = (f"hostname: {HOST}", f"{HOME}/bin/python")
TEXTS = {
    "name": USER,
    "host": HOST,
    "path": HOME,
    "token": TOKEN,
    "e-mail": EMAIL,
    "version and name": f"12.4 {USER}",
    "name in a version": f"2.15.0+{USER}",
    "all": f"in {HOME} of {USER}@{HOST}:~/ with {TOKEN}, hostname: {HOST}",
}


@each("name", TEXTS)
def test_no_field_lets_it_through(name: str) -> None:
    wrong = []
    for document, variant in itertools.product(DOCUMENTS, (0, 1)):
        before = planted(document, TEXTS[name], variant)
        after, _ = redact((before, CONTEXT))
        seen, shown = (msgspec.json.encode(one).decode() for one in (before, after))
        checks = {
            "planted": f'"{TEXTS[name]}"' in seen,
            "left": not any(private in shown.lower() for private in PRIVATE),
            "twice": name != "all" or variant == 1 or redact(after) == after,
            "read back": msgspec.json.decode(shown, type=document) == after,
        }
        wrong += [(document.__name__, check) for check, holds in checks.items() if not holds]
    assert wrong == []


def test_no_shared_format_shows_it() -> None:
    for document in DOCUMENTS:
        kind = next(kind for kind, row in KINDS.items() if row.record == document.__name__)
        after, _ = redact((planted(document, TEXTS["all"]), CONTEXT))
        for name in [name for name in choices(kind) if FORMATS[name].shared]:
            page = str(renderer(name, kind, {})(after)).lower()
            assert [one for one in PRIVATE if one in page] == [], (name, kind)


def test_what_is_public_stays() -> None:
    """Versions and words of closed lists; a public value that is none is private."""
    python = msgspec.structs.replace(healthy().python, version=Known(HOME, ""))
    cudnn = msgspec.structs.replace(healthy().cudnn, runtime=Unknown(f"no file in {HOME}", ("9.3.0.75",), f"ls {HOME}"))
    facts = redact(msgspec.structs.replace(healthy(), python=python, cudnn=cudnn))
    assert facts.python.version == Known("/home/<user>/<path-1>", "")
    hidden = "/home/<user>/<path-1>"
    assert facts.cudnn.runtime == Unknown(f"no file in {hidden}", ("9.3.0.75",), f"ls {hidden}")
    software = {"tensorflow": "2.20.0", "cudnn": "9.3.0.75"}
    result = msgspec.structs.replace(planted(BenchResult, HOME), software={**software, "python": HOME})
    assert redact(result).software == {**software, "python": "/home/<user>/<path-1>"}
    user = "/home/failed/x and failed"  # a user called like a word of a closed list
    assert redact(msgspec.structs.replace(planted(Smoke, user), verdict="failed")).verdict == "failed"


def test_a_field_that_says_nothing_of_it_is_private() -> None:
    class Undescribed(Record, frozen=True):
        home: Fact[str]

    redacted = redact(Undescribed(home=known("/home/ada/x", "/home/ada")))
    assert redacted == Undescribed(home=known("/home/<user>/x", "/home/<user>"))
