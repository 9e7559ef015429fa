"""Containers and conda-forge's builds: which are offered to which machine, and what NVIDIA's images of a month hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX
from tests.tables import each, read_rows
from tfgpu_doctor.plan.alternatives import alternatives, is_data_centre
from tfgpu_doctor.plan.constraints import PlanRequest
from tfgpu_doctor.plan.planned import base_named, driver_of
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.plan.target import describe

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


def offered(**described: Any) -> list[Option]:
    if isinstance(described.get("gpu"), str):
        described["gpu"] = (described["gpu"],)
    return alternatives(PlanRequest(MATRIX, describe(MATRIX, **described)))


def images(options: list[Option]) -> dict[str, str]:
    return {option.package: option.title.rpartition(":")[2] for option in options if option.kind == "container"}


def test_images_whose_tensorflow_opens_another_cudnn_are_left_out() -> None:
    # 2.18.0 to 2.21.0 hold cuDNN 8.9, and their wheels open libcudnn.so.9
    assert images(offered(gpu="RTX 4090", driver="570"))["tensorflow/tensorflow"] == "2.17.0-gpu"


@each(("gpu", "driver", "nvidia"), ROWS["test_nvidias_image"])
def test_nvidias_image(gpu: str, driver: str, nvidia: str | None) -> None:
    found = offered(gpu=gpu, driver=driver)
    assert images(found).get("nvcr.io/nvidia/tensorflow") == nvidia
    for option in found:
        assert option.sources and (option.commands.keys() <= {"docker", "conda"})


def test_forward_compatibility_is_said() -> None:
    note = next(one for one in offered(gpu="A100", driver="535") if one.kind == "container").notes[0]
    assert "branch 535 works as well" in note


@each(("gpu", "os", "drivers"), ROWS["test_the_driver_that_is_needed_exists_for_the_card_and_the_system"])
def test_the_driver_that_is_needed_exists_for_the_card_and_the_system(gpu: str, os: str, drivers: list[str]) -> None:
    found = offered(gpu=gpu, os=os)
    assert sorted(str(one.min_driver) for one in found) == sorted(drivers), found


@each(("gpu", "driver", "spec"), ROWS["test_conda_forge"])
def test_conda_forge(gpu: str, driver: str, spec: str) -> None:
    found = next(option for option in offered(gpu=gpu, driver=driver) if option.kind == "conda-forge")
    assert spec in found.commands["conda"][0]


def test_where_there_is_nothing() -> None:
    assert offered(os="macos") == []
    assert [option.kind for option in offered(gpu="RTX 4090", os="windows", driver="560")] == ["container"] * 2
    assert {option.package for option in offered(gpu="GH200", machine="aarch64")} == {"nvcr.io/nvidia/tensorflow"}


def test_the_newest_tensorflow_comes_first() -> None:
    versions = [option.tensorflow.partition("+")[0] for option in offered(gpu="RTX 3090", driver="570")]
    assert versions == sorted(versions, key=lambda one: [int(part) for part in one.split(".")], reverse=True)


@each(("name", "expected"), ROWS["test_data_centre"])
def test_data_centre(name: str, expected: bool) -> None:
    known = MATRIX.gpu(name)
    target = describe(MATRIX, gpu=(name,))
    assert known is not None
    assert is_data_centre(target) is expected, target


@each(("image", "cuda", "driver"), ROWS["test_the_images_of_a_month_have_one_cuda"])
def test_the_images_of_a_month_have_one_cuda(image: str, cuda: str | None, driver: str | None) -> None:
    base = base_named(image, MATRIX)
    assert base is not None and (base.cuda, driver_of(base, MATRIX)) == (cuda, driver)


@each(("host", "driver"), [("", "455.23"), ("Windows 11, Docker Desktop\n", "456.38")])
def test_the_driver_of_the_image_is_named(host: str, driver: str) -> None:
    start = "docker run --gpus=1 nvcr.io/nvidia/tritonserver:20.10-py3\nDriver Version: 440.33.01\n"
    first = findings(f"{host}{start}CUDA driver version is insufficient for CUDA runtime version")[0]
    assert first.id == "driver.too-old"
    assert first.evidence[0].need == f"{driver} or newer for CUDA 11.1 of nvcr.io/nvidia/tritonserver:20.10-py3"
