"""Results of every kind that the renderers are tried with, and what makes a valid document of each format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree

import msgspec
import xmlschema
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.bench.fake_worker import WRONG
from tests.bench.samples import failures, four
from tests.bench.test_bench_text import COMPARISONS
from tests.cli.hostile import BOMB, MARKUP
from tests.compare.test_compare import DONE
from tests.findings.rows_over_facts import FIRES, NO_DRIVER, NO_GPU_LISTED, NO_GPU_USED, WHY, absent, off_path
from tests.fleet.making import Made, fleet
from tests.fleet.test_fleet_proof import judged as judge
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.plan.test_check import judged as judged_manifest
from tests.redact.test_every_field import DOCUMENTS, planted
from tests.render.pages import Page
from tests.smoke.smoking import Machine, without_tensorflow
from tests.tables import read_rows
from tfgpu_doctor.compare.comparison import compare
from tfgpu_doctor.compare.records import Comparison
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Checked, ReadFile, Report, load_report
from tfgpu_doctor.fleet.records import Fleet
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.records import Plan
from tfgpu_doctor.plan.target import describe, read_specifier
from tfgpu_doctor.render.formats import KINDS
from tfgpu_doctor.render.outlines.matrix import Answered, _card, _note, _sources, _table, release
from tfgpu_doctor.render.shapes import Block, Line
from tfgpu_doctor.smoke.records import Smoke

EVIL = BOMB + MARKUP
CAPTURES = Path(__file__).parents[1] / "captures"
STATES = ("healthy", "broken", "hostile")
NOW = "2026-11-23T12:00:00Z"


def _h100(name: str) -> Facts:
    """Return the facts of a real machine, as its report has them."""
    return load_report((CAPTURES / "h100" / "doctor" / name).read_bytes(), name).facts


MACHINES: dict[str, Facts] = {
    "h100": _h100("as-installed.json"),
    "h100-repaired": _h100("fixed.json"),
    "healthy": healthy(),
    "plain-pip": spoil(
        healthy(), {**NO_GPU_USED, "loader.sonames": absent(), "cudnn.installed": known(()), "cudnn.runtime": WHY}
    ),
    "no-driver": spoil(healthy(), {**NO_GPU_USED, **NO_DRIVER}),
    "broken-file-on-the-path": spoil(
        healthy(), {**NO_GPU_USED, "loader.sonames": off_path("cudnn", problem="empty file"), "cudnn.runtime": WHY}
    ),
    "hot": spoil(healthy(), {"gpus": known((gpu(throttle_reasons=("hw_thermal_slowdown",), temperature=93),), "NVML")}),
    "unknown": Facts(),
    "hostile": spoil(
        healthy(),
        {
            "gpus": known((gpu(name="[bold]\x1b[31mevil\x1b[0m <script>\n\x07", compute_capability="3.5"),), "NVML"),
            "python.executable": known("/home/a b/$(reboot)/python"),
        },
    ),
}
TEXTS = {
    "open-cause": b"GTX 1070 Ti, tensorflow 2.10 on windows 10, list_physical_devices returns []. CUDA 11.2, cudnn 8.1",
    "question": b"Ubuntu 22.04, Python 3.11, RTX 3080, driver 550. Which TensorFlow should I install?",
}


def report(facts: Facts, source: Any = "live") -> Report:
    return make_report(facts, MATRIX, source=source, timings={})


def explained(text: bytes) -> Report:
    return report(text_to_facts.read(lines.read([text]), MATRIX), "text")


@cache
def every_report() -> dict[str, Report]:
    """Return a report for the first machine on which each finding fires."""
    return {finding: report(spoil(healthy(), rows[0][1])) for finding, rows in FIRES.items()}


def checked(*requirements: str) -> Checked:
    """Return what `check` finds in a file with one error in line 2."""
    return Checked(
        report=judged_manifest("\n".join(requirements), gpu="A100"),
        target="A100",
        files=(ReadFile(label="requirements.txt", path="requirements.txt", content="numpy; tensorflow-gpu"),),
    )


BROKEN, FINE, EMPTY = checked("numpy", "tensorflow-gpu"), checked("tensorflow[and-cuda]==2.20.0"), checked("numpy")


def _second_card_is_wrong(_here: Machine, verb: str, request: dict[str, Any]) -> dict[str, Any] | None:
    bad = request["of"].devices == ["/GPU:1"] and request["of"].workload == "matpow"
    return WRONG if verb == "verify" and bad else None


@cache
def smokes() -> dict[str, Smoke]:
    return {
        "two-gpus": Machine(2).smoke(require_gpus=2, min_tflops=40.0),
        "a-bad-card": Machine(2, trouble=_second_card_is_wrong).smoke(),
        "a-small-budget": Machine(4, seconds=0.3).smoke(budget=20.0),
        "no-gpu": Machine(0).smoke(),
        "cpu-only": Machine(0).smoke(require_gpus=0),
        "no-tensorflow": Machine(facts=without_tensorflow(exception="ImportError: libcudart.so.12: no")).smoke(),
    }


_EVIL = "[bold]\x1b[31mevil\x1b[0m\n\u202e <script>"
_NO_CUDA = {"loader.sonames": absent(), **NO_GPU_USED}
# name → (before, after)
_COMPARED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "nothing-but-a-finding": (_NO_CUDA, _NO_CUDA),
    "numpy": DONE["pip install numpy"][:2],
    "numpy-repaired": DONE["pip install numpy"][1::-1],
    "two-variables": DONE["two variables that hide it, each enough"][:2],
    "crash": (
        {"host.cpu_flags": known(("avx", "sse4_2"))},
        {**DONE["a crash that nobody can explain"][1], "host.cpu_flags": known(("sse4_2",))},
    ),
    "no-libraries": ({}, {**_NO_CUDA, "cudnn.installed": known(()), "cudnn.runtime": WHY}),
    "another-machine": (
        {},
        {**NO_DRIVER, **NO_GPU_USED, "host.cpu_model": known("Intel Xeon"), "host.kernel": known("6.1.0")},
    ),
    "not-examined": ({"tensorflow.devices": WHY, "cudnn.runtime": WHY}, {"tensorflow.devices": NO_GPU_LISTED}),
    "many": ({}, {"variables": known({f"NCCL_{number:02}": "1" for number in range(30)})}),
    "hostile": (
        {"variables": known({"XLA_FLAGS": _EVIL})},
        {"gpus": known((gpu(name=_EVIL, compute_capability="3.5"),))},
    ),
}


def _protobuf(state: str) -> Report:
    """Return the report of a real environment, before or after its protobuf was replaced."""
    data = (CAPTURES / "compare" / f"protobuf-{state}.json").read_bytes()
    return report(msgspec.json.decode(data, type=Facts))


def compared(before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    both = (report(spoil(healthy(), changes)) for changes in (before, after))
    return compare(*both, MATRIX, NOW, names=("good.json", "bad.json"))


@cache
def comparisons() -> dict[str, Comparison]:
    real = compare(_protobuf("good"), _protobuf("bad"), MATRIX, NOW, names=("good.json", "bad.json"))
    return {"protobuf": real, **{name: compared(*both) for name, both in _COMPARED.items()}}


def judged(seed: int, nodes: int, oddities: int, *more: bytes) -> Fleet:
    return judge(Made([*fleet(seed, nodes, oddities).lines, *more], {}))


@cache
def fleets() -> dict[str, Fleet]:
    cut = b'{"schema": "tfgpu.report/1", "tool"'
    return {
        "usual": judged(162, 40, 3),
        "clean": judged(1, 20, 0),
        "many-problems": judged(13, 300, 14, cut),
        "nothing": judged(1, 0, 0, b"srun: error: no such partition"),
    }


@cache
def plans() -> dict[str, Plan]:
    found = {}
    for name, situation in read_rows(Path(__file__).parent / "situations.yaml").items():
        asked = situation.pop("tensorflow", None)
        target = describe(MATRIX, **situation)
        found[name] = make_plan(MATRIX, target, specifier=read_specifier(asked) if asked else None)
    return found


@cache
def results(kind: str) -> dict[str, Any]:
    """A result of each state; the hostile one has a bomb in every text."""
    pairs: dict[str, Callable[[], tuple[Any, Any]]] = {
        "report": lambda: (report(healthy()), report(spoil(healthy(), {**NO_GPU_USED, **FIRES["cuda.missing"][0][1]}))),
        "check": lambda: (FINE, BROKEN),
        "smoke": lambda: (smokes()["two-gpus"], smokes()["no-tensorflow"]),
        "report comparison": lambda: (comparisons()["nothing"], comparisons()["numpy"]),
        "bench": lambda: (four(), failures()),
        "fleet": lambda: (fleets()["clean"], fleets()["many-problems"]),
        "plan": lambda: (plans()["a-blackwell-card"], plans()["a-fermi-card"]),
        "bench comparison": lambda: (COMPARISONS["compare-across"], COMPARISONS["compare-all"]),
    }
    if kind == "matrix":
        return dict(zip(STATES, _answers(), strict=True))
    document = next(one for one in DOCUMENTS if one.__name__ == KINDS[kind].record)
    return dict(zip(STATES, (*pairs[kind](), _with_ids(planted(document, EVIL))), strict=True))


def _answers() -> Iterator[Answered]:
    """Answers of the matrix, which knows no broken ones; the last has a bomb in every text."""
    for row in (MATRIX.tensorflow("2.15.1", "linux_x86_64"), MATRIX.tensorflow("2.15.0", "linux_x86_64")):
        assert row is not None
        yield release(MATRIX, row)._replace(answer=row, revision=MATRIX.revision)
    line, block = Line("fix", EVIL, EVIL, EVIL, (EVIL,)), (EVIL,)
    parts = (
        *(_card({EVIL: EVIL}), _table((EVIL,), [(EVIL,)]), _note(EVIL), _sources({EVIL: EVIL})),
        Block("error", EVIL, (line,), block, EVIL),
    )
    yield Answered(EVIL, EVIL, parts, (), {EVIL: EVIL}, EVIL)


def _with_ids(result: Any) -> Any:
    """Ids of findings are ours, whatever a file says: each report is diagnosed again."""
    if isinstance(result, Report):
        return replace(result, findings=tuple(replace(one, id="cuda.missing") for one in result.findings))
    return replace(result, report=_with_ids(result.report)) if hasattr(result, "report") else result


_JUNIT = xmlschema.XMLSchema(Path(__file__).parent / "junit.xsd")  # what tfgpu writes; Jenkins and GitLab accept more
_BLOCK = re.compile(r"^(`{3,})\w*\n.*?\n\1$", re.DOTALL | re.MULTILINE)


def metrics(text: str) -> dict[str, Any]:
    """Each metric, as the stricter of Prometheus' parsers reads it; AssertionError where a custom is broken."""
    found = {one.name: one for one in text_string_to_metric_families(f"{text}# EOF\n")}
    for name, one in found.items():
        assert re.fullmatch(r"tfgpu_[a-z0-9_]+", name) and one.type == "gauge"
        assert one.documentation and text.count(f"# HELP {name} ") == 1
        series = [tuple(sample.labels.items()) for sample in one.samples]
        assert len({*series}) == len(series) and {sample.name for sample in one.samples} == {name}, name
    assert found
    return found


def junit(text: str) -> ElementTree.Element:
    """The document, once the schema has accepted it and its counts are those of its cases."""
    _JUNIT.validate(text)
    root = ElementTree.fromstring(text)
    assert "[[ATTACHMENT" not in "".join(root.itertext())
    for element in (root, *root):
        cases = list(element.iter("testcase"))
        assert int(element.attrib["tests"]) == len(cases)
        assert int(element.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
        assert int(element.attrib["errors"]) == sum(case.find("error") is not None for case in cases)
    return root


def is_red(root: ElementTree.Element) -> bool:
    return bool(int(root.attrib["failures"]) + int(root.attrib["errors"]))


class Command(NamedTuple):
    level: str
    title: str
    message: str


def commands(text: str) -> tuple[list[Command], list[str]]:
    """The commands that GitHub's runner sees, and the other lines (actions/runner, ActionCommand.TryParseV2)."""
    found, rest = [], []
    for line in re.split(r"\r\n|\r|\n", text):
        if not line.lstrip().startswith("::"):
            assert "##[" not in line and "##vso[" not in line
            rest.append(line)
            continue
        name, _, message = line.lstrip()[2:].partition("::")
        level, _, properties = name.partition(" ")
        values = dict(part.split("=", 1) for part in properties.split(","))
        assert level in ("error", "warning", "notice") and list(values) in (["title"], ["file", "line", "title"])
        found.append(Command(level, unquote(values["title"]), unquote(message)))
    return found, [line for line in rest if line]


def _markdown(text: str) -> None:
    outside = _BLOCK.sub("", text)  # of code
    plain = re.sub(r"<!-- -->|</?(?:details|summary|sub)>|<?https://[^<>\s]+>?|http://evil.example/x_y", " ", outside)
    assert re.search(r"(?<!\\)[<`~$]|@\w|\B#\d|GH-\d|:tada:|www\.|(?<!\\)\]\(", plain) is None, plain
    assert len(text) <= 65_536 and outside.count("<details>") == outside.count("</details>")
    assert "\n```\n```" not in text and text.startswith("**")


def _html(text: str) -> None:
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert page.all("h1") and not tags & {"script", "img", "iframe", "link", "object"}
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    assert len(page.ids) == len(set(page.ids))
    assert all((one.get("href") or "").startswith(("https://", "#", "data:")) for one in page.all("a"))
    assert all(one["aria-label"] for one in page.all("div") if one.get("role") == "region")
    assert "<caption></caption>" not in text
    title = re.findall(r"<h1>(.*?)</h1>", text)[0].partition(":")[0]
    for verdict in re.findall(r'<p class="verdict[^>]*>(.*?)</p>', text):  # nothing is named twice
        words = re.sub("<[^>]*>", "", verdict)
        assert words and not words.startswith(f"{title}:") and not words.rstrip().endswith(":")


VALID: dict[str, Callable[[str], object]] = {
    "text": lambda text: all(char.isprintable() or char == "\n" for char in text) or 1 / 0,
    "json": json.loads,
    "markdown": _markdown,
    "junit": junit,
    "github": lambda text: commands(text)[1] or 1 / 0,
    "sarif": lambda text: json.loads(text)["runs"][0]["results"],
    "html": _html,
    "prometheus": metrics,
}
