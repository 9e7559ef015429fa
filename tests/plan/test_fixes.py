"""One way to install a release so that it works, in the present environment and in a new one."""

from __future__ import annotations

from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.plan.fixes import Fixes

LINKS = "/tensorflow && ln -sf ../nvidia/*/lib/*.so* ."
OFFERED = "(from versions: 2.16.1, 2.16.2, 2.17.0, 2.17.1, 2.18.0, 2.18.1, 2.19.0, 2.19.1, 2.20.0)"


@each(
    ("tools", "first"),
    [
        ((), "python3.11 -m venv ~/tf"),
        (("uv",), "uv venv --python 3.11 ~/tf"),
        (("mamba",), "mamba create -y -n tf -c conda-forge python=3.11 pip"),
    ],
)
def test_a_new_environment_finds_the_cuda_of_pip(tools: tuple[str, ...], first: str) -> None:
    facts = spoil(healthy(), {"python.version": known("3.12.3"), "python.installers": known(tools)})
    old = MATRIX.tensorflow("2.12.0", "linux_x86_64")
    assert old is not None
    commands = Fixes(facts, MATRIX).new_environment(old)
    assert commands[0] == first
    assert any("tensorflow==2.12.0 nvidia-cublas-cu11" in command for command in commands)
    assert any(LINKS in command for command in commands)
    assert not [command for command in commands if command.startswith("conda ")]


def test_pip_without_the_release_is_given_an_environment_that_works() -> None:
    first = findings(f"ERROR: Could not find a version that satisfies the requirement tensorflow==2.12.0 {OFFERED}")[0]
    assert first.fixes[0].commands[0] == "python3.11 -m venv ~/tf"
    assert any(LINKS in command for command in first.fixes[0].commands)


def test_a_release_without_cuda_needs_no_links() -> None:
    facts = spoil(healthy(), {"host.os": known("macos"), "python.wheel_platform": known("macos_arm64")})
    newest = MATRIX.stable(platform="macos_arm64")[0]
    made, installed = Fixes(facts, MATRIX).new_environment(newest)
    assert made == "python3.12 -m venv ~/tf"
    assert installed == f"~/tf/bin/python -m pip install tensorflow=={newest.version}"
