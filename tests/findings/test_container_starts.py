"""How a container was started, in a text that shows two ways, or a Jetson."""

from __future__ import annotations

import re

from tests.findings.test_signs_over_messages import findings, signs_alone
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import make_report


def _first(text: str) -> tuple[str, bool] | None:
    facts = text_to_facts.read(lines.read([text.encode()]), MATRIX)
    found = make_report(signs_alone(facts), MATRIX, source="text", timings={}).findings
    named = [(one.id, one.possible) for one in found if one.id not in ("gpu.not-visible", "tf.which-release")]
    return named[0] if named else None


_IMAGE = "tensorflow/tensorflow:2.13.0-gpu"
_COMPOSE = f"services:\n  train:\n    image: {_IMAGE}\n    command: python train.py\n"


@each(
    "text",
    [
        f"docker run --gpus all {_IMAGE} python a.py: OOM when allocating tensor with shape[64,512]",
        f"docker run --gpus all -d {_IMAGE}\ndocker exec -it c python a.py\nfailed call to cuInit: UNKNOWN ERROR (303)",
        f"{_COMPOSE}    gpus: all\nand docker run --gpus all {_IMAGE} are both slow",
    ],
)
def test_a_start_with_gpus_and_one_that_enters_are_no_reason(text: str) -> None:
    assert (_first(text) or ("", False))[0] != "container.no-gpu"


_REFUSED = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'
_LOST = "Failed to initialize NVML: Unknown Error"
_NOT_FOUND = "Could not find cuda drivers on your machine, GPU will not be used."


@each("host", ["Windows 11, Docker Desktop", "macOS 14, Docker Desktop"])
@each("failure", [_REFUSED, _LOST, _NOT_FOUND])
def test_a_command_is_for_docker_desktop_or_for_the_linux_in_the_image(host: str, failure: str) -> None:
    found = findings(f"{host}\ndocker run --gpus all -it tensorflow/tensorflow:2.15.0-gpu python t.py\n{failure}")
    commands = [command for one in found for fix in one.fixes for command in fix.commands]
    wrong = r"systemctl|\bservice\b|apt-get|nvidia-ctk|where\.exe|cmd /c|powershell|modprobe"
    assert found and not [command for command in commands if re.search(wrong, command)]
    assert failure != _NOT_FOUND or any("ldconfig" in command for command in commands)


def test_docker_inside_wsl_is_restarted_without_systemd() -> None:
    first = findings(f"WSL2 Ubuntu\ndocker run --gpus all -it tensorflow/tensorflow:2.15.0-gpu\n{_REFUSED}")[0]
    assert "sudo service docker restart" in [command for fix in first.fixes for command in fix.commands]
