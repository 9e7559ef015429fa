"""Each reason to refuse a repair: what it refuses, and a neighbour that it lets through; installations that work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.healthy import MATRIX, gpu, healthy, known
from tests.healthy import spoil as changed
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Facts, Message, Package
from tfgpu_doctor.facts.report import Alternative, Fix
from tfgpu_doctor.plan import gate
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
        "image": ("messages", lambda image: (Message("image-named", 1, image, {"image": image}),)),
    }
    found = {names[name][0]: known(names[name][1](value)) for name, value in values.items()}
    if values.get("os") == "windows":
        found["python.wheel_platform"] = known("windows_amd64")
    return changed(Facts(), found)


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
    assert [one.text for one in admitted((first, Alternative("Build it")), blackwell, MATRIX)] == ["Build it"]


LINKS = "/tensorflow && ln -sf ../nvidia/*/lib/*.so* ."


@each(
    ("tools", "first"),
    [
        ((), "python3.11 -m venv ~/tf"),
        (("uv",), "uv venv --python 3.11 ~/tf"),
        (("mamba",), "mamba create -y -n tf -c conda-forge python=3.11 pip"),
    ],
)
def test_a_new_environment_finds_the_cuda_of_pip(tools: tuple[str, ...], first: str) -> None:
    facts = changed(healthy(), {"python.version": known("3.12.3"), "python.installers": known(tools)})
    old = MATRIX.tensorflow("2.12.0", "linux_x86_64")
    assert old is not None
    commands = Fixes(facts, MATRIX).new_environment(old)
    assert commands[0] == first and not [command for command in commands if command.startswith("conda ")]
    for part in ("tensorflow==2.12.0 nvidia-cublas-cu11", LINKS):
        assert any(part in command for command in commands)


def test_a_release_without_cuda_needs_no_links() -> None:
    facts = changed(healthy(), {"host.os": known("macos"), "python.wheel_platform": known("macos_arm64")})
    newest = MATRIX.stable(platform="macos_arm64")[0]
    install = f"~/tf/bin/python -m pip install tensorflow=={newest.version}"
    assert Fixes(facts, MATRIX).new_environment(newest) == ("python3.12 -m venv ~/tf", install)
