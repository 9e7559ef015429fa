"""Signs over manifests: planned environments on which each fires, passes, and cannot know."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.facts.facts import Facts
from tfgpu_doctor.facts.report import Fix, Report, Severity
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.manifests import Environment, GpuRequest, Image, Place, Requirement, Setting
from tfgpu_doctor.manifests.reading import joined
from tfgpu_doctor.manifests.requirement import conda_requirement
from tfgpu_doctor.plan.check import judge
from tfgpu_doctor.plan.file_edits import FileEdits
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.plan.target import describe


def need(text: str, installer: Any = "pip", line: int = 1, build: str | None = None) -> Requirement:
    """A requirement as pip's: "tensorflow[and-cuda]==2.15.1"."""
    found = re.fullmatch(r"([\w.-]+)(?:\[([\w,-]+)\])?(.*?)(?:;(.*))?", text)
    assert found
    return Requirement(
        name=found[1],
        specifier=found[3].strip(),
        place=Place("requirements.txt", line),
        text=text,
        extras=tuple(found[2].split(",")) if found[2] else (),
        marker=found[4],
        installer=installer,
        build=build,
    )


def image(reference: str) -> Image:
    name, _, tag = reference.partition(":")
    return Image(name, tag or None, Place("Dockerfile", 1), reference)


def conda(*specs: str, channels: tuple[str, ...] = ("conda-forge",)) -> Environment:
    """An environment.yml of conda's packages."""
    found = [conda_requirement(one, Place("environment.yml", line)) for line, one in enumerate(specs, 4)]
    several = [one for one in found if one]
    return Environment(
        kind="conda",
        label="environment.yml",
        place=Place("environment.yml", 1),
        python=tuple(one for one in several if one.name == "python"),
        requirements=tuple(one for one in several if one.name != "python"),
        channels=channels,
    )


def made(*requirements: str, base: str | None = None, kind: Any = None, **more: Any) -> Environment:
    return Environment(
        kind=kind or ("dockerfile" if base else "requirements"),
        label="the environment",
        place=Place("Dockerfile" if base else "requirements.txt", 1),
        image=image(base) if base else None,
        requirements=tuple(need(one, line=number) for number, one in enumerate(requirements, 1)),
        **more,
    )


def python(specifier: str) -> dict[str, Any]:
    return {"python": (Requirement("python", specifier, Place("pyproject.toml", 3), f"python{specifier}"),)}


def judged(environment: Environment | tuple[Environment, ...], **target: Any) -> Report:
    environments = environment if isinstance(environment, tuple) else (environment,)
    if isinstance(target.get("gpu"), str):
        target["gpu"] = (target["gpu"],)
    return judge(joined(environments), describe(MATRIX, **target), MATRIX, "2026-11-21T00:00:00Z")


def ids(report: Report, severity: str | None = None) -> list[str]:
    return [one.id for one in report.findings if severity in (None, one.severity.value)]


A100 = {"gpu": "A100", "driver": "535.104.05"}
COMPOSE: dict[str, Any] = {"kind": "compose"}
POD: dict[str, Any] = {"kind": "kubernetes"}
ONE_GPU = GpuRequest(1, Place("pod.yaml", 9), "nvidia.com/gpu: 1")
FOUR_GPUS = GpuRequest(4, Place("pod.yaml", 9), "nvidia.com/gpu: 4")
LOST_GPU = GpuRequest(1, Place("pod.yaml", 9), "nvidia.com/gpu: 1", "it stands under requests only")
NO_DEVICES = (Setting("NVIDIA_VISIBLE_DEVICES", "none", Place("compose.yaml", 7)),)
GOOD = "tensorflow[and-cuda]==2.20.0"
CUDA_11, CUDA_12 = "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04", "nvidia/cuda:12.3.2-cudnn8-runtime-ubuntu22.04"
TF_2_17 = "tensorflow/tensorflow:2.17.0-gpu"
OLD_DRIVER = "525.60.13"

FIRES: list[tuple[str, str, Environment, dict[str, Any]]] = [
    ("tf.package-removed", "error", made("tensorflow-gpu"), {}),
    ("tf.package-removed", "error", made("tensorflow-gpu==2.12.0"), {}),
    ("tf.package-removed", "error", made("tensorflow-gpu>=2.4"), {}),
    ("tf.package-removed", "warning", made("tensorflow-gpu==2.10.1", **python("==3.10.*")), {}),
    ("tf.package-conflict", "error", made("tensorflow==2.15.1", "tensorflow-cpu==2.15.1"), {}),
    ("tf.python-unsupported", "error", made("tensorflow==2.15.1", base="python:3.13-slim"), {}),
    ("tf.python-unsupported", "error", made("tensorflow==2.15.1", **python(">=3.12")), {}),
    ("tf.python-unsupported", "error", made("tensorflow<2.12"), {"python": "3.12"}),
    ("tf.python-unsupported", "warning", made("tensorflow==2.15.1", **python(">=3.9,<3.14")), {}),
    ("tf.python-unsupported", "error", made("tensorflow==2.15.7"), {}),
    ("tf.python-unsupported", "error", made("tensorflow==2.15.1", base="python:3.11-alpine3.19"), {}),
    ("tf.python-unsupported", "error", made("tensorflow==2.15.1", base="alpine:3.20"), {}),
    ("tf.windows-native", "error", made("tensorflow==2.16.1"), {"os": "windows", "gpu": "RTX 3060"}),
    ("tf.cpu-build", "error", made("tensorflow-cpu==2.15.1"), A100),
    ("tf.cpu-build", "error", made("tensorflow==2.20.0"), {"gpu": "GH200", "machine": "aarch64"}),
    ("tf.cpu-build", "error", made(base="tensorflow/tensorflow:2.15.0"), A100),
    ("container.no-gpu", "error", made(base="tensorflow/tensorflow:2.17.0-gpu", **POD), {}),
    ("container.no-gpu", "error", made(base="nvcr.io/nvidia/tensorflow:25.02-tf2-py3", **COMPOSE), {}),
    ("container.no-gpu", "error", made(base="nvcr.io/nvidia/tensorflow:25.02-tf2-py3", gpu=LOST_GPU, **POD), {}),
    ("gpu.hidden", "error", made(base="nvidia/cuda:12.3.2-runtime-ubuntu22.04", settings=NO_DEVICES), {}),
    ("shm.small", "warning", made(base="tensorflow/tensorflow:2.17.0-gpu", gpu=FOUR_GPUS, **POD), {}),
    ("cuda.version-mismatch", "error", made("tensorflow==2.16.2", base=CUDA_11), {}),
    ("cuda.version-mismatch", "error", made("tensorflow==2.13.1", base=CUDA_12), {}),
    ("cuda.missing", "error", made("tensorflow==2.16.2", base="python:3.11"), A100),
    ("cuda.missing", "error", made("tensorflow==2.16.2", base="nvidia/cuda:12.3.2-base-ubuntu22.04"), {}),
    ("cuda.missing", "warning", made("tensorflow==2.16.2"), A100),
    ("cuda.missing", "note", made("tensorflow==2.16.2"), {}),
    ("cuda.missing", "note", made("tensorflow==2.16.2", base="python:3.11-slim"), {}),
    ("cudnn.missing", "error", made("tensorflow==2.16.2", base="nvidia/cuda:12.3.2-runtime-ubuntu22.04"), {}),
    ("cudnn.version-mismatch", "error", made("tensorflow==2.18.0", base=CUDA_12), {}),
    ("cudnn.version-mismatch", "error", made(base="tensorflow/tensorflow:2.20.0-gpu"), {}),
    ("xla.libdevice-missing", "warning", made("tensorflow==2.14.1", base=CUDA_11), {}),
    ("driver.too-old", "error", made(GOOD), {"gpu": "RTX 3090", "driver": "470.82.01"}),
    ("driver.too-old", "error", made("tensorflow[and-cuda]==2.20.0"), {"gpu": "H100", "driver": "535"}),
    ("driver.too-old", "error", made(base="tensorflow/tensorflow:2.20.0-gpu"), {"gpu": "H100", "driver": "535"}),
    ("driver.too-old", "error", made("tensorflow==2.16.2", base=CUDA_12), {"driver": OLD_DRIVER, "gpu": "RTX 3090"}),
    ("driver.too-old", "warning", made("tensorflow==2.16.2", base=CUDA_12), {"driver": OLD_DRIVER, "gpu": "A100"}),
    ("gpu.arch-too-old", "error", made(GOOD), {"gpu": "Tesla K80"}),
    ("gpu.arch-too-old", "error", made(GOOD), {"gpu": "GTX 1080"}),
    ("gpu.arch-too-old", "error", made(GOOD, "nvidia-cudnn-cu12>=9.3"), {"gpu": "GTX 1080"}),
    ("gpu.arch-too-new", "error", made(GOOD), {"gpu": "RTX 5090"}),
    ("tf.abi-numpy", "error", made("tensorflow==2.15.1", "numpy==2.1.0"), {}),
    ("tf.abi-numpy", "error", made("tensorflow==2.10.1", **python("==3.10.*")), {}),
    ("tf.abi-protobuf", "error", made("tensorflow==2.10.1", "protobuf>=4", "numpy<2"), {}),
    ("tf.package-conflict", "error", made("tensorflow==2.15.1", "keras>=3"), {}),
    ("tf.known-bug", "error", made("tensorflow[and-cuda]==2.16.1"), {}),
    ("tf.known-bug", "error", made("tensorflow[and-cuda]==2.21.0"), {}),
    ("tf.cpu-build", "error", conda("tensorflow=2.18"), {"gpu": "GH200"}),
    ("tf.cpu-build", "error", conda("tensorflow=2.15=cpu*"), A100),
]  # fmt: skip

PASSES: list[tuple[str, Environment, dict[str, Any]]] = [
    ("the extra", made(GOOD), A100),
    ("a broken extra that is not asked for", made("tensorflow==2.15.0", "numpy<2"), {}),
    ("the extra in a plain image", made(GOOD, base="python:3.12-slim"), A100),
    ("the extra on an image with another CUDA", made(GOOD, base="nvidia/cuda:11.8.0-runtime-ubuntu22.04"), A100),
    ("the right CUDA", made("tensorflow==2.16.2", base=CUDA_12.replace("runtime", "devel")), {}),
    ("the compiler beside the right CUDA", made("tensorflow==2.16.2", "cuda-nvcc-12-3", base=CUDA_12), {}),
    ("an image that works", made(base=TF_2_17, gpu=ONE_GPU, **POD), {"gpu": "A100", "driver": "550.54"}),
    ("no newer cuDNN than the binary compares with", made(base="tensorflow/tensorflow:2.14.0-gpu"), {}),
    ("PTX that the image's libcuda compiles", made(base=TF_2_17), {"gpu": "H100", "driver": "535"}),
    ("SASS in every part", made("tensorflow[and-cuda]==2.16.2"), {"gpu": "H100", "driver": "535"}),
    ("NVIDIA's image", made(base="nvcr.io/nvidia/tensorflow:25.02-tf2-py3", gpu=ONE_GPU, **POD), {"driver": "570.86"}),
    ("a CPU build where no GPU is meant", made("tensorflow-cpu==2.15.1", base="python:3.11"), {}),
    ("Windows in its last release", made("tensorflow==2.10.1", "numpy<2"), {"os": "windows"}),
    ("cuDNN held back for Pascal", made(GOOD, "nvidia-cudnn-cu12<9.11"), {"gpu": "GTX 1080"}),
    ("a marker for another system", made(GOOD, "tensorflow-macos==2.15.1; sys_platform == 'darwin'"), {}),
    ("NumPy that fits", made("tensorflow==2.15.1", "numpy>=1.24"), {}),
    ("Keras of its own", made("tensorflow==2.15.1", "keras==2.15.0"), {}),
    ("an admitted Python", made(GOOD, **python(">=3.10,<3.13")), {}),
    ("conda-forge's build for Blackwell", conda("python=3.12", "tensorflow=2.19.1=cuda*"), {"gpu": "RTX 5090"}),
    ("another channel", conda("python=3.13", "tensorflow=2.15", channels=("defaults",)), {}),
    ("a release that we do not know yet", made("tensorflow==2.23.0"), {}),
]  # fmt: skip


@each(("identity", "severity", "environment", "target"), FIRES)
def test_fires(identity: str, severity: str, environment: Environment, target: dict[str, Any]) -> None:
    report = judged(environment, **target)
    assert identity in ids(report, severity), [(one.id, one.severity.value, one.title) for one in report.findings]
    finding = next(one for one in report.findings if one.id == identity)
    assert finding.evidence and finding.cause
    verdicts = [(ids(report, "error"), "broken"), (ids(report, "warning"), "degraded"), (True, "ok")]
    assert report.verdict == next(verdict for found, verdict in verdicts if found)


@each(("name", "environment", "target"), PASSES)
def test_passes(name: str, environment: Environment, target: dict[str, Any]) -> None:
    report = judged(environment, **target)
    assert [(one.id, one.title) for one in report.findings if one.severity is not Severity.NOTE] == []
    assert report.verdict == "ok"


def test_every_rule_has_a_row() -> None:
    over_manifests = {i for i, one in DECLARATIONS.items() if any("planned" in sign.inputs for sign in one.signs)}
    assert over_manifests <= {identity for identity, *_ in FIRES}


def test_without_tensorflow_nothing_is_judged() -> None:
    report = judged(made("numpy==2.1.0"))
    assert (report.findings, report.verdict) == ((), "unknown")


def test_one_problem_not_its_echoes() -> None:
    assert ids(judged(made("tensorflow-gpu", base="nvidia/cuda:11.8.0-base-ubuntu22.04"))) == ["tf.package-removed"]
    assert ids(judged(made("tensorflow==2.16.2", base="nvidia/cuda:11.8.0-base-ubuntu22.04"))) == [
        "cuda.version-mismatch"
    ]


def test_a_python_that_is_too_new_hides_no_missing_cuda() -> None:
    """Both hold; the reason why the GPU is not used comes first where a GPU is meant."""
    allowed = made("tensorflow~=2.15.0", **python(">=3.9"))
    assert ids(judged(allowed, **A100)) == ["cuda.missing", "tf.python-unsupported"]
    assert ids(judged(allowed)) == ["tf.python-unsupported", "cuda.missing"]


def test_a_service_is_judged_with_the_dockerfile_that_it_is_built_from() -> None:
    dockerfile = made("tensorflow==2.16.2", base=CUDA_11)
    service = Environment("compose", "service trainer", Place("compose.yaml", 2), build_context="./Dockerfile")
    assert ids(judged((service, dockerfile)), "error") == ["container.no-gpu", "cuda.version-mismatch"]


def test_shared_memory_is_named_with_the_missing_request() -> None:
    """Where the request that is advised is of all GPUs; of a pod it is of one."""
    several = ["container.no-gpu", "shm.small"]
    assert ids(judged(made(base=TF_2_17, **COMPOSE))) == several
    assert ids(judged(made(base=TF_2_17, **POD))) == several[:1]


def test_a_second_tensorflow_is_only_removed() -> None:
    """The file gets no second release, and what is wrong with the first is named, too."""
    for second in ("tensorflow-gpu", "tensorflow-cpu==2.15.1"):
        for lines in ((GOOD, second), (second, GOOD)):
            report = judged(made(*lines, **python(">=3.14")))
            assert ids(report, "error") == ["tf.python-unsupported", "tf.package-conflict"]
            edits = [edit for one in report.findings for fix in one.fixes[:1] for edit in fix.edits]
            assert [(edit.old, edit.new) for edit in edits if edit.path != "pyproject.toml"] == [(second, "")]


def test_the_same_release_is_advised_where_it_can_be() -> None:
    """A line is changed to its release, then to its minor version; to the best where its extra is broken."""
    advised = {
        "tensorflow-cpu==2.17.1": {"tensorflow[and-cuda]==2.17.1"},
        "tensorflow==2.15.0": {"tensorflow[and-cuda]==2.15.1"},
        "tensorflow[and-cuda]==2.16.1": {"tensorflow[and-cuda]==2.16.2"},
        "tensorflow==2.21.0": {"tensorflow[and-cuda]==2.20.0"},
        "tensorflow==2.12.1": set(),  # it has no extra, and works with a CUDA that is installed by other means
    }
    for line, better in advised.items():
        edits = [edit for one in judged(made(line), **A100).findings for fix in one.fixes for edit in fix.edits]
        assert {edit.new for edit in edits if edit.old == line and not edit.beside} == better, line


def test_every_problem_of_a_file_has_a_fix() -> None:
    """Also where no line of the file can bring what is needed."""
    files = [
        (conda("python=3.10", "cudnn=8.1"), "tensorflow==2.13.1", {}),
        (made(), GOOD, {"gpu": "RTX 5090"}),
        (made(), GOOD, {"os": "macos"}),
    ]
    for environment, line, machine in files:
        report = judged(replace(environment, requirements=(*environment.requirements, need(line))), **machine)
        assert report.findings and all(one.fixes for one in report.findings), line
        texts = " ".join(fix.text for one in report.findings for fix in one.fixes)
        assert machine != {"os": "macos"} or "or a container" not in texts
        assert "gpu" not in machine or "conda-forge" in texts


def test_what_an_edit_brings_is_not_installed_by_hand() -> None:
    for _, _, environment, machine in FIRES:
        for one in judged(environment, **machine).findings:
            if any(fix.edits for fix in one.fixes):
                assert not [command for fix in one.fixes for command in fix.commands if " install " in command]


IMAGES = [
    f"nvidia/cuda:{tag}-{system}"
    for tag in ("10.1-cudnn7-runtime", "11.2.2-cudnn8-runtime", "11.8.0-cudnn8-runtime", "12.3.2-cudnn9-devel")
    for system in ("ubuntu20.04", "ubuntu22.04")
]
MACHINES: list[dict[str, Any]] = [
    {},
    {"gpu": "T4", "driver": "470"},
    {"gpu": "RTX 3090", "driver": "470"},
    {"gpu": "A100", "driver": "535"},
    {"gpu": "RTX 4090", "driver": "525.60.13"},
]
RELEASES = ("2.3.0", "2.10.1", "2.13.1", "2.14.1", "2.16.1", "2.18.0", "2.21.0")


@each(("machine", "base", "release"), [*product(MACHINES, IMAGES, RELEASES)][::3])
def test_fixes_differ(machine: dict[str, Any], base: str, release: str) -> None:
    """No two fixes write one release on one line."""
    for one in judged(made(f"tensorflow=={release}", base=base), **machine).findings:
        written = [
            [(edit.path, edit.line, edit.beside, re.findall(r"^[\w-]+|[\d.]+", edit.new)) for edit in fix.edits]
            for fix in one.fixes
            if fix.edits
        ]
        assert all(edits not in written[:n] for n, edits in enumerate(written)), one.id


@each(
    ("specs", "line", "expected"),
    [
        (("python=3.8", "cudatoolkit=10.1"), "tensorflow==2.10.1", ["cudatoolkit=11.2", "cudnn=8.1"]),
        (("python=3.9", "cudatoolkit=10.1", "cudnn=7.6"), "tensorflow==2.10.1", ["cudatoolkit=11.2", "cudnn=8.1"]),
        (("python=3.9", "nvidia::cudatoolkit=10.1"), "tensorflow==2.12.1", ["nvidia::cudatoolkit=11.8", "cudnn=8.6"]),
        (("python=3.8", "cudatoolkit=11.2"), "tensorflow==2.3.4", ["cudatoolkit=10.1", "cudnn=7.6"]),
    ],
)
def test_what_keeps_the_asked_tensorflow_is_first(specs: tuple[str, ...], line: str, expected: list[str]) -> None:
    """Where conda pins another CUDA, its lines are changed and not TensorFlow's."""
    environment = conda(*specs)
    environment = replace(environment, requirements=(*environment.requirements, need(line, line=20)))
    (found,) = (one for one in judged(environment).findings if one.id == "cuda.version-mismatch")
    assert [edit.new for edit in found.fixes[0].edits if edit.new not in ("numpy<2", "protobuf<3.20")] == expected
    assert len(found.fixes) < 2 or not found.fixes[1].edits or found.fixes[1].edits[0].new.startswith("tensorflow==")


def test_conda_has_no_cudatoolkit_of_every_version() -> None:
    environment = conda("python=3.11", "cudatoolkit=11.2")
    environment = replace(environment, requirements=(*environment.requirements, need("tensorflow==2.15.1", line=20)))
    edits = [edit.new for one in judged(environment).findings for fix in one.fixes for edit in fix.edits]
    assert "tensorflow[and-cuda]==2.15.1" in edits and not any("cudatoolkit" in one for one in edits)


def test_a_variable_is_unset_on_the_line_that_sets_it() -> None:
    lines = tuple(Setting(name, "1", Place("Dockerfile", line)) for line, name in enumerate(("A", "B"), 2))
    edits = FileEdits(Facts(), MATRIX, PlannedEnvironment(made(GOOD, settings=lines), describe(MATRIX), MATRIX))
    assert edits.where_it_belongs(Fix("Unset it", ("unset B",))).text == "Remove B from Dockerfile:3"


def test_fixes_are_lines_to_write() -> None:
    report = judged(made("tensorflow-gpu==2.12.0", **python("==3.11.*")))
    assert report.findings[0].fixes[0].text == (
        "In requirements.txt:1, write 'tensorflow==2.12.0' instead of 'tensorflow-gpu==2.12.0', with CUDA "
        "and cuDNN beside it (tfgpu plan has the commands)"
    )


@each(
    ("tag", "tensorflow", "expected"),
    [
        ("11.8.0-runtime-ubuntu22.04", "2.13.1", ["nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04"]),
        (
            "12.2.2-devel-ubuntu22.04",
            "2.15.1",
            ["nvidia/cuda:12.2.2-cudnn8-devel-ubuntu22.04", "tensorflow[and-cuda]==2.15.1"],
        ),
        ("12.3.2-runtime-ubuntu22.04", "2.16.2", ["tensorflow[and-cuda]==2.16.2"]),  # its only cuDNN is 9
        (
            "12.5.1-runtime-ubuntu22.04",
            "2.18.0",
            ["nvidia/cuda:12.5.1-cudnn-runtime-ubuntu22.04", "tensorflow[and-cuda]==2.18.0"],
        ),
    ],
)
def test_an_image_without_cudnn_has_an_edit(tag: str, tensorflow: str, expected: list[str]) -> None:
    report = judged(made(f"tensorflow=={tensorflow}", base=f"nvidia/cuda:{tag}"))
    (missing,) = (one for one in report.findings if one.id == "cudnn.missing")
    assert [fix.edits[0].new for fix in missing.fixes] == expected
    base = expected[0] if expected[0].startswith("nvidia") else f"nvidia/cuda:{tag}"
    line = f"tensorflow=={tensorflow}" if expected[0].startswith("nvidia") else expected[0]
    assert "cudnn.missing" not in ids(judged(made(line, base=base)))


def test_tensorflow_gpu_hides_no_other_finding_and_keeps_its_release() -> None:
    on_cuda_12 = judged(made("tensorflow-gpu==2.9.3", base="nvidia/cuda:12.1.1-cudnn8-runtime-ubuntu22.04"))
    assert ids(on_cuda_12) == ["cuda.version-mismatch", "tf.package-removed"]
    beside = judged(made("tensorflow-gpu==2.9.3", "scipy==1.9.0", "pandas==1.1.5", "protobuf==3.19.5"))
    (edit,) = (edit for one in beside.findings for fix in one.fixes for edit in fix.edits)
    assert (edit.old, edit.new) == ("tensorflow-gpu==2.9.3", "tensorflow==2.9.3")
