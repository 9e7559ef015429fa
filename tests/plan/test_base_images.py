"""The CUDA and the driver of NVIDIA's images, by their month."""

from __future__ import annotations

from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.plan.planned import base_named, driver_of

# image → CUDA, the oldest driver; release notes of the month
OF_A_MONTH = {
    "nvcr.io/nvidia/tritonserver:20.10-py3": ("11.1", "455.23"),
    "nvcr.io/nvidia/tritonserver:21.12-tf2-python-py3": ("11.5", "495.29.05"),
    "nvcr.io/nvidia/tritonserver:20.03.1-py3": ("10.2", "440.33"),
    "nvcr.io/nvidia/tensorflow:20.12-tf1-py3": ("11.1", "455.23"),
    "nvcr.io/nvidia/tensorflow:23.08-tf2-py3": ("12.2", "535.54.03"),
    "nvcr.io/nvidia/tensorflow:24.05-tf2-py3": ("12.4.1", "545"),  # it has a row
    "nvcr.io/nvidia/tensorflow:24.03-tf2-py3": (None, None),
    "nvcr.io/nvidia/tensorflow:24.13-tf2-py3": (None, None),
    "nvcr.io/nvidia/tritonserver:25.03-py3": (None, None),
    "nvcr.io/nvidia/tritonserver:24.07-trtllm-python-py3": (None, None),
}


@each("image", OF_A_MONTH)
def test_the_images_of_a_month_have_one_cuda(image: str) -> None:
    base = base_named(image, MATRIX)
    assert base is not None and (base.cuda, driver_of(base, MATRIX)) == OF_A_MONTH[image]


@each(("host", "driver"), [("", "455.23"), ("Windows 11, Docker Desktop\n", "456.38")])
def test_the_driver_of_the_image_is_named(host: str, driver: str) -> None:
    start = "docker run --gpus=1 nvcr.io/nvidia/tritonserver:20.10-py3\nDriver Version: 440.33.01\n"
    first = findings(f"{host}{start}CUDA driver version is insufficient for CUDA runtime version")[0]
    assert first.id == "driver.too-old"
    assert first.evidence[0].need == f"{driver} or newer for CUDA 11.1 of nvcr.io/nvidia/tritonserver:20.10-py3"
