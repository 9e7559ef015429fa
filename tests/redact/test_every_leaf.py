"""What a private field of the facts holds gets out of no command, in no format, with --redact.

Every private text of the facts of a machine gets a mark of its own, in the form that the field has: a path, a host, a
name, the value of a variable, and elsewhere a path within the text. The fields are read off the declarations, so that a
new one is tried, too.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.findings.rows_over_facts import FIRES
from tests.healthy import MATRIX, healthy, known, spoil
from tests.integrations.test_mcp import ask
from tests.redact.test_every_field import planted
from tests.smoke.smoking import Machine
from tests.tiers import usual
from tfgpu_doctor import commands
from tfgpu_doctor.cli import output
from tfgpu_doctor.facts.about import HOST, OWN_NAME, About, closed_fields, described
from tfgpu_doctor.facts.facts import Facts, Known, Setting, Unknown
from tfgpu_doctor.facts.report import Report
from tfgpu_doctor.plan.diagnosis import make_report
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
    """Puts a mark into every private text of facts, in the form that the field has."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}  # by mark: the field

    def mark(self, place: str) -> str:
        found = f"zq7n{len(self.places)}"
        self.places[found] = place
        return found

    def sow(self, value: Any, place: str, about: About | None = None) -> Any:
        if isinstance(value, str):
            return value if about and about.is_public else self._text(value, place, about.unit if about else "")
        if isinstance(value, Known):
            return Known(self.sow(value.value, place, about), self._text(value.source, f"{place}: source"), value.grade)
        if isinstance(value, Unknown):
            return Unknown(self._text(value.reason, f"{place}: reason"), value.one_of, value.ask)
        if isinstance(value, Setting):
            file = f"/home/{self.mark(f'{place}.file')}/.bashrc"
            name = {"name": "NCCL_SOCKET_IFNAME", "value": self.mark(f"{place}.value")}
            return msgspec.structs.replace(value, **name, file=file)
        if isinstance(value, msgspec.Struct):
            kind, abouts = type(value), described(type(value))
            fields = [one for one in value.__struct_fields__ if one not in closed_fields(kind)]
            named = {one: getattr(value, one) for one in fields if (kind.__name__, one) not in PRODUCTS | VERSIONS}
            sown = {one: self.sow(inner, f"{place}.{one}", abouts.get(one)) for one, inner in named.items()}
            return msgspec.structs.replace(value, **sown)
        if isinstance(value, tuple):
            return tuple(self.sow(one, place, about) for one in value)
        if isinstance(value, dict) and place.endswith("variables"):
            return {**value, **{name: form.format(self.mark(name)) for name, form in VARIABLES.items()}}
        return {key: self.sow(one, place) for key, one in value.items()} if isinstance(value, dict) else value

    def _text(self, text: str, place: str, unit: str = "") -> str:
        mark = self.mark(place)
        forms = {HOST: mark, OWN_NAME: f"Ada {mark} Project", "path": f"/data/{mark}/{text.lstrip('/')}"}
        return forms.get(unit, f"{text} in /data/{mark}/x")


def filled(facts: Any, example: Any) -> Any:
    """The facts with those of the example in place of what is unknown."""
    if isinstance(facts, Unknown) or facts == ():
        return example
    if isinstance(facts, Known):
        return Known(filled(facts.value, example.value), facts.source) if isinstance(example, Known) else facts
    if isinstance(facts, tuple) and isinstance(example, tuple):
        return tuple(filled(one, example[0]) for one in facts)
    if not isinstance(facts, msgspec.Struct) or type(facts) is not type(example):
        return facts
    both = {name: filled(getattr(facts, name), getattr(example, name)) for name in facts.__struct_fields__}
    return msgspec.structs.replace(facts, **both)


@cache
def machine(finding: str) -> tuple[Facts, dict[str, str]]:
    """A machine with marks in every fact, on which this is found, and the field of each mark."""
    sower = Sower()
    facts = filled(healthy(), planted(Facts, "x"))
    facts = spoil(facts, FIRES[finding][0][1] if finding else {"variables": known({})})
    return sower.sow(facts, "facts"), sower.places


def saved(facts: Facts) -> Report:
    return make_report(facts, MATRIX, source="live", timings={"total": 1.0})


def leaks(text: str, places: dict[str, str]) -> list[str]:
    """The fields whose mark stands in a text."""
    return sorted({places.get(mark.lower(), mark) for mark in MARK.findall(text)})


COMMANDS: dict[str, str] = {  # by command: the kind of its result
    "doctor --from report.json -v": "report",
    "explain report.json -v": "report",
    "plan --from report.json -v": "plan",
    "compare healthy.json report.json -v": "report comparison",
    "fleet report.json healthy.json other.json bench.json -v": "fleet",
    "bench show bench.json -v": "bench",
    "compare fast.json bench.json -v": "bench comparison",
}


@pytest.mark.parametrize("finding", usual(("", "cuda.version-mismatch", "driver.too-old"), lambda finding: not finding))
def test_no_command_shows_it(finding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts, places = machine(finding)
    assert {"facts.host.name", "NCCL_SOCKET_IFNAME", "facts.python.kernels.display_name"} <= {*places.values()}
    assert len({place for place in places.values() if not place.endswith((": source", ": reason"))}) > 60
    (tmp_path / "healthy.json").write_bytes(saved(healthy()).to_json())
    (tmp_path / "fast.json").write_bytes(result(run("CPU", 1.0)).to_json())
    for name in ("report", "other"):
        (tmp_path / f"{name}.json").write_bytes(saved(facts).to_json())
    (tmp_path / "bench.json").write_bytes(result(run("CPU"), environment=facts).to_json())
    shown: dict[str, str] = {}
    for command, kind in COMMANDS.items():
        targets = [word for form in choices(kind) for word in ("--format", form, "--output", f"out.{form}")]
        shown[f"{command}: stderr"] = tfgpu(*command.split(), "--redact", *targets, cwd=tmp_path).stderr
        shown |= {f"{command}: {form}": (tmp_path / f"out.{form}").read_text() for form in choices(kind)}
    here = Machine()
    here.facts = facts
    smoke = here.smoke()
    for form in choices("smoke"):
        output.write(smoke, "smoke", [output.Output(form, None)], redact=True, detail="full")
        shown[f"smoke: {form}"] = capsys.readouterr().out
    assert {name: leaks(text, places) for name, text in shown.items() if leaks(text, places)} == {}


def test_an_assistant_does_not_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    facts, places = machine("")
    report = saved(facts)
    monkeypatch.setattr(commands, "diagnose", lambda *_, **__: report)
    for tool, arguments in (("doctor", {}), ("explain", {"text": report.to_json().decode()})):
        assert leaks(ask(tool, **arguments).model_dump_json(), places) == [], tool
