"""Each reason to refuse a repair: what it refuses, and a neighbour that it lets through; installations that work."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.findings.advice import Watched
from tests.findings.rows_over_facts import FIRES, release
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Facts, Message, Package, Toolkit, Unknown, value_or
from tfgpu_doctor.facts.report import Alternative, Fix
from tfgpu_doctor.facts.versions import minor, numbers
from tfgpu_doctor.plan import gate
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.plan.gate import REASONS, Situation, admitted, refused

PIP = "python3 -m pip install"


def on(**values: Any) -> Facts:
    """A machine of which nothing else is known."""
    names = {
        "card": ("gpus", lambda card: (gpu(name=None, compute_capability=card),)),
        "driver": ("driver.version", str),
        "python": ("python.version", str),
        "os": ("host.os", str),
        "tensorflow": ("tensorflow.version", str),
        "packages": ("python.packages", lambda found: tuple(Package(*one, "/site") for one in found.items())),
        "text": ("messages", lambda kind: (Message(kind, 1, kind, {"variant": "cpu"}),)),
        "place": ("messages", lambda name: (Message("place", 1, name, {"name": name}),)),
        "container": ("host.container", str),
        "tried": ("messages", lambda text: (Message("tried-said", 1, text, {"what": text}),)),
        "board": ("messages", lambda text: (Message("jetson", 1, text, {}),)),
        "log": ("messages", lambda line: (Message("harmless", 1, line, {}),)),
        "cuda": ("cuda.toolkits", lambda version: (Toolkit("/usr/local/cuda", version, "a text", "a text"),)),
        "macos": ("host.distribution", lambda version: f"macOS {version}"),
        "image": ("messages", lambda image: (Message("image-named", 1, image, {"image": image}),)),
    }
    found = {names[name][0]: known(names[name][1](value)) for name, value in values.items()}
    if values.get("os") == "windows":
        found["python.wheel_platform"] = known("windows_amd64")
    if "macos" in values:
        found |= {"host.os": known("macos"), "python.wheel_platform": known("macos_arm64")}
    return spoil(Facts(), found)


ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


@each("name", ROWS)
def test_each_reason(name: str) -> None:
    for text, commands, bad, good in ROWS[name]:
        fix = Fix(text, tuple(commands))
        reason = refused(fix, Situation(on(**bad), MATRIX))
        assert reason is getattr(gate, name), (text, reason)
        if good != bad:
            assert refused(fix, Situation(on(**good), MATRIX)) is None, text


def test_every_reason_has_a_row() -> None:
    assert [one.__name__ for one in REASONS] == list(ROWS)


def test_the_first_does_not_begin_with_or() -> None:
    first = Fix("Install 2.20.0", (f"{PIP} 'tensorflow[and-cuda]==2.20.0'",))
    other = Alternative("Keep 2.19.0", (f"{PIP} tensorflow==2.19.0",))
    ada, blackwell = on(python="3.12", driver="525.60", card="8.9", tensorflow="2.19.0"), on(card="12.0")
    printed = admitted((first, other), ada, MATRIX)
    assert [one.text for one in printed] == ["Install 2.20.0", "Or keep 2.19.0"]
    assert [one.text for one in admitted(printed[1:], ada, MATRIX)] == ["Keep 2.19.0"]
    assert [one.text for one in admitted((first, other), blackwell, MATRIX)] == []
    assert admitted((first, Alternative("Build it")), blackwell, MATRIX) == (Fix("Build it"),)  # as JSON has it


def test_what_only_prepares_falls_with_its_way() -> None:
    uv, conda = (Fix(f"Install {tool}, if it is missing") for tool in ("uv", "conda"))
    old, new = (Fix(f"Install TensorFlow {v}", (f"{PIP} tensorflow=={v}",)) for v in ("2.4.0", "2.20.0"))
    assert admitted((conda, old, uv, new), on(python="3.12"), MATRIX) == (uv, new)
    assert admitted((conda, old), on(python="3.12"), MATRIX) == ()


LINKS = "/tensorflow && ln -sf ../nvidia/*/lib/*.so* ."


@each(
    ("tools", "first"),
    [
        ((), "python3.11 -m venv ~/tf"),
        (("uv",), "uv venv --python 3.11 ~/tf"),
        (("mamba",), "mamba create -n tf -c conda-forge python=3.11 pip"),
    ],
)
def test_a_new_environment_finds_the_cuda_of_pip(tools: tuple[str, ...], first: str) -> None:
    facts = spoil(healthy(), {"python.version": known("3.12.3"), "python.installers": known(tools)})
    old = MATRIX.tensorflow("2.12.0", "linux_x86_64")
    assert old is not None
    commands = Fixes(facts, MATRIX).new_environment(old)
    assert commands[0] == first and not [command for command in commands if command.startswith("conda ")]
    for part in ("tensorflow==2.12.0 nvidia-cublas-cu11", LINKS):
        assert any(part in command for command in commands)


def test_a_release_without_cuda_needs_no_links() -> None:
    facts = spoil(healthy(), {"host.os": known("macos"), "python.wheel_platform": known("macos_arm64")})
    newest = MATRIX.stable(platform="macos_arm64")[0]
    install = f"~/tf/bin/python -m pip install tensorflow=={newest.version}"
    assert Fixes(facts, MATRIX).new_environment(newest) == ("/env/bin/python -m venv ~/tf", install)


Changes = dict[str, Any]
GPUS: tuple[Changes, ...] = (
    {},
    {"gpus": Unknown("test")},
    *({"gpus": known((gpu(name=None, compute_capability=one),))} for one in ("3.7", "7.5", "8.9", "9.0", "12.0")),
)
RELEASES: tuple[Changes, ...] = ({}, *map(release, ("2.4.4", "2.10.1", "2.13.1", "2.16.2", "2.20.0")))
PYTHONS: tuple[Changes, ...] = ({}, *({"python.version": known(one)} for one in ("3.6.9", "3.9.7", "3.14.1")))
MANAGERS: tuple[Changes, ...] = (
    {},
    {"python.installers": known(("conda",))},
    {"python.installers": known(("uv",)), "python.pip": known(False)},
    {"python.externally_managed": known(True)},
)
SYSTEMS: tuple[Changes, ...] = ({}, {"host.os": known("wsl2")}, {"driver.version": known("470.57.02")})
IMAGES = (None, "nvcr.io/nvidia/tensorflow:25.02-tf2-py3", "tensorflow/serving:2.19.0-gpu")
FACTS = [(f"{finding}: {name}", changes) for finding, rows in FIRES.items() for name, changes in rows]
OLDEST_CUDA = {"9.0": "11.8", "12.0": "12.8"}  # of the CUDA release notes

_WHEEL = re.compile(r"(?<![\w-])(tensorflow(?:-gpu|-cpu)?)(?:\[and-cuda\])?==(\d+\.\d+\.\d+)")
_PYTHON = re.compile(r"(?<![\w./])(?:python=|python|--python |py -)(\d\.\d+)\b(?!/)")
_CUDA = re.compile(r"(?:\bwith CUDA |cudatoolkit=)(\d+\.\d+)")
_MANAGER = re.compile(r"\b(?:pip|conda|uv pip) (?:un)?(?:install|create)\b")


def machines(number: int) -> Iterator[tuple[str, Facts]]:
    choice = random.Random(29)
    for _ in range(number):
        (name, row), *more = (choice.choice(one) for one in (FACTS, GPUS, RELEASES, PYTHONS, MANAGERS, SYSTEMS))
        facts = healthy()
        for changes in (*more, row):
            facts = spoil(facts, changes)  # type: ignore[arg-type]
        image = choice.choice((None, *IMAGES))
        if image:
            said = (Message("image-named", 1, image, {"image": image}), *value_or(facts.messages, ()))
            facts = spoil(facts, {"messages": known(said), "python.packages": Unknown("test")})
        if can_exist(facts):
            yield f"{name}, {image}, {[*itertools.chain(*more)]}", facts


def can_exist(facts: Facts) -> bool:
    """Whether the installed release has a wheel for the Python that it is installed in."""
    platform, version = (value_or(one, "") for one in (facts.python.wheel_platform, facts.tensorflow.version))
    row = MATRIX.tensorflow(version, platform) if version else None
    return row is None or minor(value_or(facts.python.version, "")) in row.python


def complaints(fix: Fix, facts: Facts) -> Iterator[str]:
    """What is wrong with a repair on that machine."""
    commands = "\n".join(fix.commands)
    image = Situation(facts, MATRIX).image
    own = minor(value_or(facts.python.version, ""))
    made = _PYTHON.search(commands)
    for package, version in _WHEEL.findall(commands) if "install" in commands else ():
        platform = value_or(facts.python.wheel_platform, "linux_x86_64")
        row = MATRIX.tensorflow(version, platform, package)
        if row and (made[1] if made else own) not in (*row.python, ""):
            yield f"{package} {version} has no wheel for Python {made[1] if made else own}"
    cards = [value_or(one.compute_capability, "") for one in value_or(facts.gpus, ())]
    devices = () if cards else value_or(facts.tensorflow.devices, ())
    cards += [one.compute_capability for one in devices if one.compute_capability]
    for cuda, card in itertools.product(_CUDA.findall(f"{fix.text}\n{commands}"), cards):
        if card in OLDEST_CUDA and numbers(cuda) < numbers(OLDEST_CUDA[card]):
            yield f"CUDA {cuda} for {card}"
    if re.search(r'^(?:set "|setx )|%\w+%', commands, re.MULTILINE):
        yield "a command of cmd"
    on_bus = any(one.name for one in value_or(facts.host.pci_gpus, ()))
    if not cards and not on_bus and re.search(r"kernels for (?:this|your) GPU", fix.text):
        yield "a GPU that nobody knows"
    installers = value_or(facts.python.installers, ())
    if commands.startswith("conda ") and "conda" not in installers and not re.search("conda|CUDA", fix.text):
        yield "conda, which is not installed"
    if image and any(_MANAGER.search(one) and not one.startswith("RUN ") for one in fix.commands):
        yield "a package manager in an image"
    promised = re.match(r"(?:Install|Reinstall|Replace)\b", fix.text) and "uninstall" in commands
    if promised and not re.search(r"\b(?:pip|conda) install\b", commands):
        yield "a removal that is called an installation"


@pytest.mark.parametrize("number", [40, pytest.param(4000, marks=pytest.mark.full)])
def test_repairs_of_mixed_machines(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    watched, found = Watched(), []
    monkeypatch.setattr(gate, "refused", watched.note)
    for name, facts in machines(number):
        watched.refused.clear()
        for one in diagnose(facts, MATRIX).findings:
            found += [
                (name, one.id, why, fix.text, *fix.commands) for fix in one.fixes for why in complaints(fix, facts)
            ]
            found += [(name, one.id, "begins with Or") for fix in one.fixes[:1] if fix.text.startswith("Or ")]
        found += [(name, f"refused: {reason}", fix.text, *fix.commands) for reason, fix in watched.refused]
    assert found == []
