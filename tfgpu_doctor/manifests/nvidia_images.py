"""Tags of nvidia/cuda images, which follow a rule: CUDA, a cuDNN flavour or none, a kind, a distribution."""

from __future__ import annotations

import re
from dataclasses import dataclass

_REPOSITORY = re.compile(r"^(?:docker\.io/|nvcr\.io/)?nvidia/cuda$")
_TAG = re.compile(
    r"^(?P<cuda>\d+\.\d+(?:\.\d+)?)(?:-cudnn(?P<cudnn>\d+)?)?-(?P<kind>base|runtime|devel)"
    r"(?:-(?P<distribution>[a-z]+[\d.]*))?$"
)


@dataclass(frozen=True)
class CudaImage:
    """What the tag of an nvidia/cuda image says.

    ``has_cudnn`` is a yes or no; ``cudnn_major`` is None where there is none, and where the tag does not number it,
    as in ``12.6.3-cudnn-runtime-ubuntu22.04``. ``kind`` is base, runtime or devel.
    """

    cuda: str
    kind: str
    has_cudnn: bool
    cudnn_major: str | None
    distribution: str | None


def cuda_image(reference: str) -> CudaImage | None:
    """The image that a reference names; None for any other repository and for tags outside the rule.

    >>> cuda_image("nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04")
    CudaImage(cuda='11.8.0', kind='runtime', has_cudnn=True, cudnn_major='8', distribution='ubuntu22.04')
    """
    repository, _, tag = reference.partition("@")[0].partition(":")
    found = _TAG.match(tag)
    if not _REPOSITORY.match(repository) or not found:
        return None
    return CudaImage(
        cuda=found["cuda"],
        kind=found["kind"],
        has_cudnn="-cudnn" in tag,
        cudnn_major=found["cudnn"],
        distribution=found["distribution"],
    )
