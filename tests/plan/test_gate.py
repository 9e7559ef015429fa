"""Each reason to refuse a repair: what it refuses, and a neighbour that it lets through; installations that work."""

from __future__ import annotations

from typing import Any

from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, gpu, healthy, known
from tests.healthy import spoil as changed
from tests.tables import each
from tfgpu_doctor.facts.facts import Facts, Message, Package
from tfgpu_doctor.facts.report import Alternative, Fix
from tfgpu_doctor.plan import gate
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.plan.gate import REASONS, Situation, admitted, refused

PIP = "python3 -m pip install"
CU118 = "conda create -y -n tf -c conda-forge python=3.11 pip cudatoolkit=11.8"
RUN = "docker run --gpus all --rm {}"


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


BLACKWELL, ADA = on(card="12.0"), on(card="8.9")
TRITON = "nvcr.io/nvidia/tritonserver:20.10-py3"
NGC = "nvcr.io/nvidia/tensorflow:25.02-tf2-py3"


def install(version: str, text: str = "") -> Fix:
    return Fix(text or f"Install TensorFlow {version}: why", (f"{PIP} 'tensorflow[and-cuda]=={version}'",))


# reason → (fix, where it is refused, where it is not)
ROWS: dict[str, tuple[tuple[Fix, Facts, Facts], ...]] = {
    "claims_of_unknown_gpu": (
        (install("2.20.0", "Install TensorFlow 2.20.0: it has kernels for this GPU"), on(), ADA),
    ),
    "installs_what_cannot_work": (
        (install("2.20.0"), BLACKWELL, ADA),
        (install("2.20.0"), BLACKWELL, on(card="12.0", tensorflow="2.20.0")),  # the same again changes no release
        (install("2.20.0"), on(python="3.14"), on(python="3.12")),
        (install("2.20.0"), on(driver="470.57"), on(driver="580.65")),
        (
            Fix("Install TensorFlow 2.10.1: it can use the GPU", (f"{PIP} tensorflow==2.10.1",)),
            on(os="windows", python="3.12", card="12.0"),
            on(os="windows", python="3.10", card="8.6"),
        ),
    ),
    "installs_older_cuda": (
        (Fix("Keep it, in an environment of its own with CUDA 11.8", (CU118,)), BLACKWELL, ADA),
        (Fix("Keep it, in a new environment", (CU118,)), BLACKWELL, ADA),
    ),
    "changes_an_image": (
        (install("2.20.0"), on(image=NGC), on(image="nvidia/cuda:12.5.1-runtime-ubuntu22.04")),
        (install("2.20.0"), on(image=TRITON), on(image=TRITON, packages={"tensorflow": "2.20.0"})),
        (Fix("Install NumPy 1", (f"{PIP} 'numpy<2'",)), on(image=NGC), on()),
        (Fix("Install NumPy 1 (in the Dockerfile)", (f"RUN {PIP} 'numpy<2'",)), on(image=TRITON), on(image=NGC)),
        (Fix("Install NVIDIA driver 410.48 or newer"), on(image=TRITON), on()),
        (Fix("Install NVIDIA driver 410.48 or newer"), on(image=NGC), on()),
        (Fix("Install NVIDIA driver 525.60 or newer"), on(image=NGC), on()),
    ),
    "is_there": (
        (Fix("Use the container", (RUN.format(NGC),)), on(image=NGC), on(image=TRITON)),
        (Fix("Install NVIDIA driver 525.60.13 or newer"), on(driver="535.104"), on(driver="470.57")),
        (
            Fix("Install numpy<2", (f"{PIP} 'numpy<2'",)),
            on(packages={"numpy": "1.26.4"}),
            on(packages={"numpy": "2.1"}),
        ),
    ),
    "is_for_another_shell": (
        (Fix("Keep the cache", ('set "CUDA_CACHE_MAXSIZE=4294967296"',)), on(os="linux"), on(os="windows")),
        (Fix("Unset it", ('set "CUDA_VISIBLE_DEVICES="',)), on(image=NGC), on(os="windows")),
    ),
    "does_not_do_what_it_says": (
        (
            Fix(
                "Keep 1.0.1, with CUDA 8.0 and cuDNN 5.1", ("conda run -n tf python -m pip install tensorflow==1.0.1",)
            ),
            on(),
            on(),
        ),
        (Fix("Install TensorFlow 2.20.0: why", (f"{PIP} 'tensorflow[and-cuda]==2.19.0'",)), on(), on()),
        (Fix("Install CUDA 12 and its cuDNN", ("tfgpu matrix tensorflow --cuda 12",)), on(), on()),
        (Fix("Uninstall both, and install one", ("python3 -m pip uninstall -y x",)), on(), on()),
        (Fix("Replace it with tensorflow", ("python3 -m pip uninstall -y x",)), on(), on()),
    ),
}


@each("name", ROWS)
def test_each_reason(name: str) -> None:
    for fix, bad, good in ROWS[name]:
        reason = refused(fix, Situation(bad, MATRIX))
        assert reason is getattr(gate, name), (fix.text, reason)
        if good != bad:
            assert refused(fix, Situation(good, MATRIX)) is None, fix.text


def test_every_reason_has_a_row() -> None:
    assert [one.__name__ for one in REASONS] == list(ROWS)


def test_the_first_does_not_begin_with_or() -> None:
    other = Alternative("Keep 2.19.0", (f"{PIP} tensorflow==2.19.0",))
    ada = on(python="3.12", driver="525.60", card="8.9", tensorflow="2.19.0")
    printed = admitted((install("2.20.0"), other), ada, MATRIX)
    assert [one.text for one in printed] == ["Install TensorFlow 2.20.0: why", "Or keep 2.19.0"]
    assert [one.text for one in admitted(printed[1:], ada, MATRIX)] == ["Keep 2.19.0"]
    assert [one.text for one in admitted((install("2.20.0"), other), BLACKWELL, MATRIX)] == []
    assert [one.text for one in admitted((install("2.20.0"), Alternative("Build it")), BLACKWELL, MATRIX)] == [
        "Build it"
    ]


# --------------------------------------------------------------------------------- one way to install a release

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
    facts = changed(healthy(), {"python.version": known("3.12.3"), "python.installers": known(tools)})
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
    facts = changed(healthy(), {"host.os": known("macos"), "python.wheel_platform": known("macos_arm64")})
    newest = MATRIX.stable(platform="macos_arm64")[0]
    made, installed = Fixes(facts, MATRIX).new_environment(newest)
    assert made == "python3.12 -m venv ~/tf"
    assert installed == f"~/tf/bin/python -m pip install tensorflow=={newest.version}"
