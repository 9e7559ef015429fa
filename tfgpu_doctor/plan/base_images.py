"""What a base image brings, read off its name: CUDA, cuDNN, Python, TensorFlow. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tfgpu_doctor.manifests import Image, Place
from tfgpu_doctor.manifests.variables import read_image
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.schema import Container
from tfgpu_doctor.records.versions import numbers

# https://github.com/NVIDIA/nvidia-docker: nvidia/cuda:12.3.2-cudnn9-runtime-ubuntu22.04, 12.6.3-cudnn-devel-ubi9
_CUDA_TAG = re.compile(
    r"(?P<cuda>\d+\.\d+(?:\.\d+)?)(?:-(?P<cudnn>cudnn(?P<major>\d*)))?-(?P<flavour>base|runtime|devel)"
)
_DISTRIBUTION = re.compile(r"(ubuntu|debian|ubi|rockylinux|centos)-?(\d+(?:\.\d+)?)?")
_TENSORFLOW_TAG = re.compile(r"(?P<version>\d+\.\d+\.\d+(?:rc\d+)?|latest|nightly)(?P<rest>(?:-[a-z0-9]+)*)")
# packages python3 of the distributions (packages.ubuntu.com, packages.debian.org, Red Hat's life-cycle pages)
SYSTEM_PYTHON = {
    "ubuntu16.04": "3.5",
    "ubuntu18.04": "3.6",
    "ubuntu20.04": "3.8",
    "ubuntu22.04": "3.10",
    "ubuntu24.04": "3.12",
    "debian10": "3.7",
    "debian11": "3.9",
    "debian12": "3.11",
    "debian13": "3.13",
    "ubi9": "3.9",
    "rockylinux9": "3.9",
}
# "20.10-tf2-py3", "21.12-py3", "21.12-tf2-python-py3"; those with vLLM and TensorRT-LLM have a CUDA of their own
_MONTH = re.compile(r"(?P<month>\d\d\.\d\d)(?!.*(?:llm|igpu))")
_OF_A_MONTH = ("nvidia/tensorflow", "nvidia/tritonserver", "nvidia/tensorrtserver")
_DEBIAN = {"buster": "10", "bullseye": "11", "bookworm": "12", "trixie": "13"}
_UBUNTU = {"xenial": "16.04", "bionic": "18.04", "focal": "20.04", "jammy": "22.04", "noble": "24.04"}
# images that hold no CUDA, whatever their tag
_WITHOUT_CUDA = frozenset({"python", "ubuntu", "debian", "alpine", "fedora", "rockylinux", "centos"})


@dataclass(frozen=True)
class Base:
    """An image as far as its name tells."""

    image: Image
    cuda: str | None = None  # "12.3.2"; None: none, or unknown
    no_cuda: bool = False  # it is known to hold none
    cudnn: str | None = None  # "8", "9.7"; "" where there is one of unknown version
    flavour: str | None = None  # of nvidia/cuda: "base", "runtime", "devel"
    python: str | None = None
    tensorflow: str | None = None  # version of the TensorFlow inside
    gpu: bool = False  # made for GPUs
    container: Container | None = None  # its row in the matrix


def read_base(image: Image | None, matrix: Matrix) -> Base | None:
    """What an image is known to bring; None without an image."""
    if image is None:
        return None
    name = image.name.removeprefix("docker.io/").removeprefix("library/").removeprefix("nvcr.io/")
    if name in ("nvidia/cuda", "cuda"):
        return _cuda(image)
    if name == "tensorflow/tensorflow":
        return _tensorflow(image, matrix)
    if name in _OF_A_MONTH:
        return _monthly(image, matrix, f"nvcr.io/{name}")
    if name in _WITHOUT_CUDA:
        return Base(image, no_cuda=True, python=_python(name, image.tag or ""))
    if name == "ghcr.io/astral-sh/uv" and (found := re.match(r"python(3\.\d+)", image.tag or "")):
        return Base(image, no_cuda=True, python=found[1])
    return Base(image)


def _cuda(image: Image) -> Base:
    tag = image.tag or ""
    found = _CUDA_TAG.match(tag)
    if found is None:
        return Base(image, gpu=True)
    # since CUDA 12.4 the tags say cudnn without its major version, which is 9
    cudnn = (found["major"] or "9") if found["cudnn"] else None
    system = system_of(tag) or ""
    return Base(
        image,
        cuda=found["cuda"],
        cudnn=cudnn,
        flavour=found["flavour"],
        python=SYSTEM_PYTHON.get(system),
        gpu=True,
    )


def system_of(tag: str) -> str | None:
    """The distribution that a tag names: "ubuntu22.04"."""
    found = _DISTRIBUTION.findall(tag)
    return "".join(found[-1]) if found else None


def with_cudnn(base: Base, wanted: str) -> str | None:
    """The same image of nvidia/cuda with a cuDNN of a major version; None where there is no such tag."""
    word = cudnn_in_tags(base.cuda or "", wanted)
    if base.cudnn is not None or base.flavour not in ("runtime", "devel") or word is None:
        return None
    return f"{base.image.name}:{re.sub(f'-(?={base.flavour})', f'-{word}-', base.image.tag or '', count=1)}"


def cudnn_in_tags(cuda: str, wanted: str) -> str | None:
    """What the tags of nvidia/cuda for a CUDA call a major version of cuDNN; None where there are none with it.

    cuDNN is 7 up to CUDA 10, 8 up to 12.2, and 9 from 12.3.2 on; since 12.4 its number is not in the tag.
    """
    version = numbers(cuda)
    there = "7" if version < (11,) else "8" if version < (12, 3) else "9" if version >= (12, 3, 2) else None
    if version < (9,) or there != wanted:
        return None
    return "cudnn" if version >= (12, 4) else f"cudnn{wanted}"


def _tensorflow(image: Image, matrix: Matrix) -> Base:
    found = _TENSORFLOW_TAG.fullmatch(image.tag or "latest")
    if found is None:
        return Base(image)
    gpu = "-gpu" in found["rest"]
    version = found["version"] if found["version"][0].isdigit() else None
    listed = _listed(image, matrix, "tensorflow/tensorflow", f"{version}-gpu") if gpu and version else None
    if listed and listed.container:
        return listed
    return Base(image, tensorflow=version, gpu=gpu, no_cuda=not gpu)


def _listed(image: Image, matrix: Matrix, name: str, tag: str | None = None) -> Base:
    wanted = tag or image.tag
    row = next((one for one in matrix.data.containers if one.image == name and one.tag == wanted), None)
    if row is None:
        return Base(image, gpu=True)
    return Base(
        image,
        cuda=row.cuda,
        cudnn=row.cudnn or "",
        flavour="runtime",
        python=row.python,
        tensorflow=row.tensorflow,
        gpu=True,
        container=row,
    )


def _monthly(image: Image, matrix: Matrix, name: str) -> Base:
    """NVIDIA's image of a month: its row, else the CUDA of that month's images."""
    listed, found = _listed(image, matrix, name), _MONTH.match(image.tag or "")
    rows = (row for row in matrix.data.monthly_images if found and row.first <= found["month"] <= row.last)
    month = None if listed.container else next(rows, None)
    return replace(listed, cuda=month.cuda, cudnn="") if month else listed


def base_named(reference: str, matrix: Matrix) -> Base | None:
    """What the image of a command or a text is known to bring."""
    return read_base(read_image(reference, Place(reference, 1)), matrix)


def driver_of(base: Base, matrix: Matrix) -> str | None:
    """The oldest driver on which an image starts: that of its CUDA (NVIDIA_REQUIRE_CUDA), unless its row says more."""
    toolkit = matrix.cuda(base.cuda) if base.cuda else None
    return base.container.min_driver if base.container else toolkit.min_driver_linux if toolkit else None


def _python(name: str, tag: str) -> str | None:
    if name == "python":
        found = re.match(r"(\d+\.\d+)", tag)
        return found.group(1) if found else None
    if name == "ubuntu":
        return SYSTEM_PYTHON.get("ubuntu" + _UBUNTU.get(tag, tag))
    if name == "debian":
        release = tag.split("-")[0]
        return SYSTEM_PYTHON.get("debian" + _DEBIAN.get(release, release.split(".")[0]))
    return None
