"""Shell code is split as a shell splits it, and each word knows its line."""

from __future__ import annotations

from tests.tables import each
from tfgpu_doctor.manifests.shell import Installed, read_commands
from tfgpu_doctor.manifests.words import commands


@each(
    ("code", "expected"),
    [
        ("a b && c; d|e", [["1a", "1b"], ["1c"], ["1d"], ["1e"]]),
        ("a 'b; c' \"d && e\"", [["1a", "1b; c", "1d && e"]]),
        ("a \\\n  b \\  \n c", [["1a", "2b", "3c"]]),  # Docker lets blanks follow the backslash
        ("a # b; c\nd", [["1a"], ["2d"]]),
        ("git+https://x#egg=y", [["1git+https://x#egg=y"]]),
        ("x'y z'\"w\"", [["1xy zw"]]),
        ("a 2>&1 b", [["1a", "12>&1", "1b"]]),
        ("'never closed", [["1'never", "1closed"]]),
    ],
)
def test_commands(code: str, expected: list[list[str]]) -> None:
    found = commands(list(enumerate(code.split("\n"), 1)))
    assert [[f"{word.line}{word.text}" for word in words] for words in found if words] == expected


@each(
    ("command", "expected"),
    [
        ("pip --no-cache-dir --timeout 100 --retries 3 install tensorflow", ["tensorflow"]),
        ("sudo -H python3.9 -m pip install -U pip tensorflow==2.4", ["pip", "tensorflow==2.4"]),
        ("pip install \"tensorflow==2.4; python_version<'3.9'\" numpy", ["tensorflow==2.4", "numpy"]),
        ("pip install tensorflow==2.4 2>&1 > /tmp/log", ["tensorflow==2.4"]),
        ("pip uninstall -y tensorflow", []),
        ("echo pip; apt-get install -y python3-pip", ["python3-pip"]),
        ("uv pip install --system --index https://x tensorflow", ["tensorflow"]),
        ("uv add 'tensorflow[and-cuda]>=2.15'", ["tensorflow>=2.15"]),
        ("poetry add tensorflow@^2.15", ["tensorflow>=2.15,<3"]),
        ("micromamba install -y -n base -c conda-forge tensorflow=2.15=cuda*", ["tensorflow==2.15.*"]),
        ("conda run -n x pip install keras", ["keras"]),
        (
            "pip install -e . && pip install ./local /wheels/tensorflow-2.4.0-cp38-cp38-linux_x86_64.whl",
            ["tensorflow==2.4.0"],
        ),
    ],
)  # fmt: skip
def test_what_is_installed(command: str, expected: list[str]) -> None:
    found = Installed()
    read_commands([(1, command)], "Dockerfile", found)
    assert [f"{one.name}{one.specifier}" for one in found.requirements] == expected
    assert found.not_understood == []


def test_a_variable_without_a_value_is_said() -> None:
    found = Installed()
    read_commands([(4, "pip install tensorflow==$TF $MORE")], "Dockerfile", found)
    assert found.requirements == []
    assert [line.split(" ")[:2] for line in found.not_understood] == [
        ["Dockerfile:4:", "tensorflow==$TF:"],
        ["Dockerfile:4:", "$MORE"],
    ]


@each("command", ["uv python install 3.12", "uv venv --python 3.12", "uv venv -p python3.12.4 /x"])
def test_python_of_uv(command: str) -> None:
    found = Installed()
    read_commands([(1, command)], "Dockerfile", found)
    assert [one.specifier for one in found.pythons] == ["==3.12.*"]
