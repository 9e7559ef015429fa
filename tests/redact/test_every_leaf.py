"""What a private field of the facts holds gets out of no command, in no format, with --redact.

Every private text of the facts of a machine gets a mark of its own, in the form that the field has: a path, a host, a
name, the value of a variable, and elsewhere a path within the text. The fields are read off the declarations, so that a
new one is tried, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.findings.rows_over_facts import FIRES
from tests.healthy import MATRIX, healthy, known, spoil
from tests.integrations.test_mcp import ask
from tests.redact.planted import planted
from tests.smoke.smoking import Machine
from tfgpu_doctor import commands
from tfgpu_doctor.cli import output
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.records.about import HOST, OWN_NAME, About, closed_fields, described
from tfgpu_doctor.records.facts import Facts, Known, Setting, Unknown
from tfgpu_doctor.records.report import Report
from tfgpu_doctor.render.formats import choices

MARK = re.compile(r"zq7n\d+", re.IGNORECASE)
VARIABLES = {
    "NCCL_SOCKET_IFNAME": "{}",
    "KUBERNETES_SERVICE_HOST": "{}",
    "CONDA_DEFAULT_ENV": "{} of Ada",
    "WSL_DISTRO_NAME": "{}",
    "LD_LIBRARY_PATH": "/data/{}/lib",
    "CUDA_CACHE_PATH": "/data/{}",
    "NCCL_DEBUG_FILE": "/data/{}/log",
    "XLA_FLAGS": "--xla_dump_to=/data/{}",
}
# (GPU and the like) private since a machine's own list names them; a product, which no form tells from another
PRODUCTS = {("Gpu", "name"), ("PciGpu", "name"), ("TfDevice", "device_name"), ("CallResult", "name")}
VERSIONS = {("SmiResult", "driver_version"), ("SmiResult", "cuda_version"), ("XlaFile", "version")}


class Sower:
    """Puts marks into facts."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.places: dict[str, str] = {}  # by mark: the field

    def mark(self, place: str) -> str:
        found = f"zq7n{next(self._numbers)}"
        self.places[found] = place
        return found

    def sow(self, value: Any, place: str, about: About | None = None) -> Any:
        """The value with a mark in every private text."""
        if isinstance(value, str):
            return value if about and about.is_public else self._text(value, place, about.unit if about else "")
        if isinstance(value, Known):
            return Known(self.sow(value.value, place, about), self._text(value.source, f"{place}: source"), value.grade)
        if isinstance(value, Unknown):
            return Unknown(self._text(value.reason, f"{place}: reason"), value.one_of, value.ask)
        if isinstance(value, Setting):
            return self._setting(value, place)
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **dict(self._fields(value, place)))
        if isinstance(value, tuple):
            return tuple(self.sow(one, place, about) for one in value)
        if isinstance(value, dict) and place.endswith("variables"):
            return {**value, **{name: form.format(self.mark(name)) for name, form in VARIABLES.items()}}
        return {key: self.sow(one, place) for key, one in value.items()} if isinstance(value, dict) else value

    def _setting(self, value: Setting, place: str) -> Setting:
        ifname = {"name": "NCCL_SOCKET_IFNAME", "value": self.mark(f"{place}.value")}
        return msgspec.structs.replace(value, **ifname, file=f"/home/{self.mark(f'{place}.file')}/.bashrc")

    def _fields(self, record: msgspec.Struct, place: str) -> Iterator[tuple[str, Any]]:
        closed, abouts = closed_fields(type(record)), described(type(record))
        for field in record.__struct_fields__:
            if field not in closed and (type(record).__name__, field) not in PRODUCTS | VERSIONS:
                yield field, self.sow(getattr(record, field), f"{place}.{field}", abouts.get(field))

    def _text(self, text: str, place: str, unit: str = "") -> str:
        mark = self.mark(place)
        if unit == HOST:
            return mark
        if unit == OWN_NAME:
            return f"Ada {mark} Project"
        if unit == "path":
            return f"/data/{mark}/{text.lstrip('/')}"
        return f"{text} in /data/{mark}/x"


def filled(facts: Any, example: Any) -> Any:
    """The facts with those of the example in place of what is unknown."""
    if isinstance(facts, Unknown) or facts == ():
        return example
    if isinstance(facts, Known):
        return Known(filled(facts.value, example.value), facts.source) if isinstance(example, Known) else facts
    if not isinstance(facts, msgspec.Struct) or type(facts) is not type(example):
        return facts
    both = {name: filled(getattr(facts, name), getattr(example, name)) for name in facts.__struct_fields__}
    return msgspec.structs.replace(facts, **both)


CHANGES: dict[str, dict[str, Any]] = {
    "healthy": {"variables": known({})},
    "driver": FIRES["driver.too-old"][0][1],
    "cuda": FIRES["cuda.version-mismatch"][0][1],
}


def machines() -> dict[str, tuple[Facts, dict[str, str]]]:
    """Facts with marks, and where each stands."""
    found = {}
    example = planted(Facts, "x")
    for name, changes in CHANGES.items():
        sower, facts = Sower(), spoil(healthy(), changes)
        found[name] = sower.sow(filled(facts, example) if name == "driver" else facts, "facts"), sower.places
    return found


MACHINES = machines()


def saved(facts: Facts) -> Report:
    return make_report(facts, MATRIX, source="live", timings={"total": 1.0})


def leaks(text: str, places: dict[str, str]) -> list[str]:
    """The fields whose mark stands in a text."""
    return sorted({places.get(mark.lower(), mark) for mark in MARK.findall(text)})


def test_every_private_field_gets_a_mark() -> None:
    places = {place for _, marks in MACHINES.values() for place in marks.values()}
    assert {"facts.host.name", "NCCL_SOCKET_IFNAME", "facts.python.kernels.display_name"} <= places
    assert len({place for place in places if not place.endswith((": source", ": reason"))}) > 60


COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # by name: the command, and its formats
    "doctor": (("doctor", "--from", "report.json", "-v"), choices("report")),
    "explain": (("explain", "report.json", "-v"), choices("report")),
    "plan": (("plan", "--from", "report.json", "-v"), choices("plan")),
    "compare": (("compare", "healthy.json", "report.json", "--all", "-v"), choices("report comparison")),
    "compare back": (("compare", "report.json", "healthy.json", "--all", "-v"), choices("report comparison")),
    "fleet": (("fleet", "report.json", "healthy.json", "other.json", "bench.json", "-v"), choices("fleet")),
    "bench": (("bench", "show", "bench.json", "-v"), choices("bench")),
    "bench comparison": (("compare", "fast.json", "bench.json", "-v"), choices("bench comparison")),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_it(command: str, tmp_path: Path) -> None:
    arguments, formats = COMMANDS[command]
    targets = [word for form in formats for word in ("--format", form, "--output", f"out.{form}")]
    wrong = []
    for name, (facts, places) in MACHINES.items():
        (tmp_path / "report.json").write_bytes(saved(facts).to_json())
        (tmp_path / "other.json").write_bytes(saved(facts).to_json())
        (tmp_path / "healthy.json").write_bytes(saved(healthy()).to_json())
        (tmp_path / "bench.json").write_bytes(result(run("CPU"), environment=facts).to_json())
        (tmp_path / "fast.json").write_bytes(result(run("CPU", 1.0)).to_json())
        done = tfgpu(*arguments, "--redact", *targets, cwd=tmp_path)
        texts = {form: (tmp_path / f"out.{form}").read_text() for form in formats} | {"stderr": done.stderr}
        wrong += [(name, form, leak) for form, text in texts.items() for leak in leaks(text, places)]
    assert wrong == []


def test_smoke_does_not_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    for facts, places in MACHINES.values():
        machine = Machine()
        machine.facts = facts
        smoke = machine.smoke()
        for form in choices("smoke"):
            output.write(smoke, "smoke", [output.Output(form, None)], redact=True, detail="full")
            assert leaks(capsys.readouterr().out, places) == []


def test_an_assistant_does_not_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for facts, places in MACHINES.values():
        report = saved(facts)
        monkeypatch.setattr(commands, "diagnose", lambda *_, found=report, **__: found)
        calls: dict[str, dict[str, Any]] = {
            "doctor": {"facts": True},
            "explain": {"text": report.to_json().decode(), "facts": True},
        }
        for tool, arguments in calls.items():
            assert leaks(ask(tool, **arguments).model_dump_json(), places) == [], tool
