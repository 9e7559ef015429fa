"""Every fact describes itself where it is declared."""

from __future__ import annotations

import pytest

from tfgpu_doctor.facts.about import LAYERS, described, records_in
from tfgpu_doctor.facts.facts import Facts, Record, about, fact_paths, look_up


def test_every_field_is_described() -> None:
    missing = [
        f"{record.__name__}.{field}"
        for record in records_in(Facts)
        for field in record.__struct_fields__  # type: ignore[attr-defined]
        if field not in described(record) or not described(record)[field].label
    ]
    assert missing == [], "describe them in their declaration: Annotated[..., public(...)], or private(...)"


def test_every_fact_has_a_layer_and_a_path_and_a_collection_its_key() -> None:
    assert {"host.os", "gpus", "tensorflow.phases", "messages"} <= set(fact_paths())
    for path in fact_paths():
        key = about(path).key
        assert about(path).layer in LAYERS and not isinstance(look_up(Facts(), path), Record), path
        assert not key or path == "variables" or about(f"{path}.{key}").label, path


def test_a_description_inherits_layer_and_group() -> None:
    assert about("driver.version")[:3] == ("driver", True, "Driver")
    assert about("driver.version").group == "driver"
    assert (about("gpus.temperature").unit, about("gpus.temperature").layer) == ("°C", "GPU")
    assert about("host.pci_gpus.driver").layer == "Driver"
    with pytest.raises(KeyError):
        about("driver.colour")
