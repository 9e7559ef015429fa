from __future__ import annotations

import pytest

from tfgpu_doctor.manifests.nvidia_images import CudaImage, cuda_image


@pytest.mark.parametrize(
    ("reference", "image"),
    [
        ("nvidia/cuda:12.3.2-cudnn9-runtime-ubuntu22.04", CudaImage("12.3.2", "runtime", True, "9", "ubuntu22.04")),
        ("nvidia/cuda:12.6.3-cudnn-devel-ubuntu24.04", CudaImage("12.6.3", "devel", True, None, "ubuntu24.04")),
        ("nvcr.io/nvidia/cuda:12.2.0-base-ubi8", CudaImage("12.2.0", "base", False, None, "ubi8")),
        (
            "nvidia/cuda:11.2.2-runtime-ubuntu20.04@sha256:00",
            CudaImage("11.2.2", "runtime", False, None, "ubuntu20.04"),
        ),
        ("nvidia/cuda:10.0-cudnn7-runtime", CudaImage("10.0", "runtime", True, "7", None)),
        ("nvidia/cuda:latest", None),
        ("nvidia/cuda", None),
        ("nvidia/cudagl:11.4.2-base-ubuntu20.04", None),
        ("somebody/nvidia/cuda:12.2.0-base-ubuntu22.04", None),
        ("python:3.11-slim", None),
    ],
)
def test_a_tag_says_what_the_image_holds_or_nothing_is_said(reference: str, image: CudaImage | None) -> None:
    assert cuda_image(reference) == image
