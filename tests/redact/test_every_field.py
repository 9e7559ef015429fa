"""Nothing private gets through any field of any record, in any format that is made for others to read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.healthy import healthy
from tests.redact.planted import DOCUMENTS, planted, texts_in
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.records.facts import Facts, Known, Unknown
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render.formats import FORMATS, renderer, shows
from tfgpu_doctor.smoke.records import Smoke

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
KINDS = {
    "Report": "report",
    "Checked": "check",
    "Smoke": "smoke",
    "Comparison": "report comparison",
    "BenchComparison": "bench comparison",
    "BenchResult": "bench",
    "Plan": "plan",
    "Fleet": "fleet",
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("text", TEXTS)
def test_no_field_lets_it_through(document: type[Any], text: str) -> None:
    for variant in (0, 1):
        before = planted(document, TEXTS[text], variant)
        after, _ = redact((before, CONTEXT))
        assert TEXTS[text] in texts_in(before), "the test would not see it"
        assert [one for one in texts_in(after) if any(name in one.lower() for name in PRIVATE)] == []
        assert redact(after) == after
        assert msgspec.json.decode(msgspec.json.encode(after), type=document) == after


@pytest.mark.parametrize("name", [name for name, row in FORMATS.items() if row.shared])
def test_no_shared_format_shows_it(name: str) -> None:
    for document in DOCUMENTS:
        if document.__name__ in KINDS and shows(name, KINDS[document.__name__]):
            for text in ("path", "all"):
                after, _ = redact((planted(document, TEXTS[text]), CONTEXT))
                page = str(renderer(name, KINDS[document.__name__], {})(after)).lower()
                assert [one for one in PRIVATE if one in page] == []


def test_a_public_value_that_is_none_is_private() -> None:
    facts = msgspec.structs.replace(
        healthy(), python=msgspec.structs.replace(healthy().python, version=Known(HOME, ""))
    )
    assert redact(facts).python.version == Known("/home/<user>/<path-1>", "")  # type: ignore[union-attr]


@pytest.mark.parametrize("fact", [Known("9.3.0.75", HOME), Unknown(f"no file in {HOME}", ("9.3.0.75",), f"ls {HOME}")])
def test_a_version_stays_and_its_source_does_not(fact: Any) -> None:
    facts = msgspec.structs.replace(Facts(), cudnn=msgspec.structs.replace(Facts().cudnn, runtime=fact))
    after = redact(facts)
    assert "9.3.0.75" in texts_in(after)
    assert [one for one in texts_in(after) if USER in one] == []


def test_versions_of_software_stay() -> None:
    software = {"tensorflow": "2.20.0", "cudnn": "9.3.0.75"}
    result = msgspec.structs.replace(planted(BenchResult, HOME), software={**software, "python": HOME})
    assert redact(result).software == {**software, "python": "/home/<user>/<path-1>"}


def test_a_closed_list_of_words_is_never_touched() -> None:
    user = "/home/failed/x and failed"  # a user called like a word of a closed list
    smoke = msgspec.structs.replace(planted(Smoke, user), verdict="failed")
    assert redact(smoke).verdict == "failed"


def test_a_healthy_machine_says_the_same() -> None:
    """What public fields hold is told by the vocabulary, or is changed by nothing."""
    uuid = healthy().gpus.value[0].uuid.value  # type: ignore[union-attr]
    assert [one.replace("GPU-<uuid-1>", uuid) for one in texts_in(redact(healthy()))] == texts_in(healthy())
