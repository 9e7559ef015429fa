"""What a container image holds, by its name and tag: TensorFlow, CUDA, cuDNN, Python, and what it asks of the driver.

Images with a row in the matrix are answered by it, others by the rule of their publisher's tags. Pure.
"""

from __future__ import annotations

import re

from msgspec import field, structs

from tfgpu_doctor.lookup.jetpacks import for_l4t
from tfgpu_doctor.lookup.releases import QueryError
from tfgpu_doctor.manifests import Image, Place
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.rows import spelled_out
from tfgpu_doctor.matrix.schema import Container
from tfgpu_doctor.plan.base_images import Base, read_base, system_of
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.similar import similar

_REFERENCE = re.compile(
    r"(?:docker://)?(?P<name>[\w./-]{1,200}?(?::\d+/[\w./-]{1,200}?)?)(?::(?P<tag>[\w.-]{1,128}))?(?:@\S{1,200})?"
)
_PUBLISHED = "tensorflow/tensorflow"
_L4T = re.compile(r"r(?P<l4t>\d+\.\d+(?:\.\d+)?)-tf(?P<tensorflow>\d+\.\d+)-py3")
_FLAVOURS = {
    "base": "libcudart alone: neither cuBLAS nor the other CUDA libraries, and no compiler",
    "runtime": "the CUDA libraries, without a compiler (no nvcc and no ptxas)",
    "devel": "the CUDA libraries and the compiler (nvcc, ptxas)",
}
_CUDA_TAGS = "https://hub.docker.com/r/nvidia/cuda"
_L4T_TAGS = "https://catalog.ngc.nvidia.com/orgs/nvidia/containers/l4t-tensorflow"


class ContainerAnswer(Record, frozen=True, kw_only=True):
    """An image. None is unknown; of `tensorflow`, `cuda` and `cudnn` that there may be none, where `notes` say so."""

    image: str
    tag: str
    by: str  # "row": the matrix has this tag; "rule": read off the tag
    tensorflow: str | None = None
    python: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    system: str | None = None  # "ubuntu22.04"
    jetpack: str | None = None
    min_driver_linux: str | None = None  # on every card
    min_driver_windows: str | None = None  # under Docker Desktop and WSL2
    data_center_branches: tuple[str, ...] = ()  # older driver branches that run it on data-centre cards
    min_compute_capability: str | None = None
    compute_capabilities: tuple[str, ...] = ()  # with kernels in its TensorFlow; empty: unknown
    platforms: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)  # field → where it was read


def container_answer(matrix: Matrix, text: str) -> ContainerAnswer:
    """Look an image up. Raises QueryError: it is none, or nothing is known of it; with the nearest tags."""
    found = _REFERENCE.fullmatch(text.strip())
    if found is None:
        raise QueryError(f"{text.strip()[:200]!r} is not an image such as {_PUBLISHED}:2.15.0-gpu")
    name = found["name"].removeprefix("docker.io/")
    name = f"nvcr.io/{name}" if name.startswith(("nvidia/tensorflow", "nvidia/l4t-")) else name
    image = Image(name, found["tag"], Place(text, 1), text)
    if name == "nvcr.io/nvidia/l4t-tensorflow":
        return _jetson(matrix, image)
    base = read_base(image, matrix)
    if base is not None and base.container is not None:
        return _row(matrix, image, base.container)
    if base is not None and base.flavour is not None:
        return _toolkit(matrix, image, base)
    if base is not None and name == _PUBLISHED and not base.gpu and base.tensorflow:
        return _cpu(image, base)
    raise QueryError(_unknown(matrix, image))


def _row(matrix: Matrix, image: Image, row: Container) -> ContainerAnswer:
    toolkit = matrix.cuda(row.cuda)
    release = matrix.tensorflow(row.tensorflow, "linux_x86_64") if row.image == _PUBLISHED else None
    notes = [] if row.tag == image.tag else [f"the same image as {row.tag}, and what the end of the tag names"]
    if release is not None and release.cudnn and row.cudnn and release.cudnn.split(".")[0] != row.cudnn.split(".")[0]:
        notes.append(
            f"its TensorFlow opens cuDNN {release.cudnn}, but the image holds {row.cudnn}: it finds no GPU until cuDNN "
            f"{release.cudnn.split('.')[0]} is installed in it"
        )
    return ContainerAnswer(
        image=row.image,
        tag=image.tag or "latest",
        by="row",
        tensorflow=row.tensorflow,
        python=row.python,
        cuda=row.cuda,
        cudnn=row.cudnn,
        min_driver_linux=row.min_driver,
        min_driver_windows=toolkit.min_driver_windows if toolkit else None,
        data_center_branches=row.data_center_branches,
        min_compute_capability=row.min_compute_capability,
        compute_capabilities=row.sass or (release.sass if release else ()),
        platforms=row.platforms,
        notes=tuple(notes),
        sources={"tag": spelled_out(matrix.data, row.source)},
    )


def _toolkit(matrix: Matrix, image: Image, base: Base) -> ContainerAnswer:
    """An image of nvidia/cuda, read off its tag."""
    toolkit = matrix.cuda(base.cuda or "")
    answer = ContainerAnswer(
        image=image.name,
        tag=image.tag or "",
        by="rule",
        python=base.python,
        cuda=base.cuda,
        cudnn=base.cudnn,
        system=system_of(image.tag or ""),
        platforms=(),
        notes=(
            f"{base.flavour}: {_FLAVOURS[base.flavour or 'base']}",
            "it holds no TensorFlow; the Python is the one that its system installs",
            *(() if base.cudnn else ("no cuDNN, which TensorFlow needs for the GPU",)),
        ),
        sources={"tag": _CUDA_TAGS},
    )
    if toolkit is None:
        return answer
    return structs.replace(
        answer,
        min_driver_linux=toolkit.min_driver_linux,
        min_driver_windows=toolkit.min_driver_windows,
        sources={**answer.sources, "min_driver_linux": spelled_out(matrix.data, toolkit.source)},
    )


def _cpu(image: Image, base: Base) -> ContainerAnswer:
    return ContainerAnswer(
        image=image.name,
        tag=image.tag or "latest",
        by="rule",
        tensorflow=base.tensorflow,
        notes=(f"without CUDA: the image with it is {image.name}:{base.tensorflow}-gpu",),
        sources={"tag": "https://hub.docker.com/r/tensorflow/tensorflow"},
    )


def _jetson(matrix: Matrix, image: Image) -> ContainerAnswer:
    """An image for Jetson modules, read off its tag: L4T tells the JetPack, and that CUDA and cuDNN."""
    found = _L4T.fullmatch(image.tag or "")
    row = for_l4t(matrix, found["l4t"]) if found else None
    if found is None or row is None:
        raise QueryError(_unknown(matrix, image))
    listed = next((one.tensorflow for one in row.wheels if one.tensorflow.startswith(found["tensorflow"] + ".")), None)
    return ContainerAnswer(
        image=image.name,
        tag=image.tag or "",
        by="rule",
        tensorflow=listed or found["tensorflow"],
        python=row.python,
        cuda=row.cuda,
        cudnn=row.cudnn,
        jetpack=row.version,
        system=f"ubuntu{row.ubuntu}",
        compute_capabilities=row.compute_capabilities,
        platforms=("linux_aarch64",),
        notes=(f"for Jetson modules with JetPack {row.version} (L4T {row.l4t}), which brings driver, CUDA and cuDNN",),
        sources={"tag": _L4T_TAGS, "cuda": spelled_out(matrix.data, row.source)},
    )


def _unknown(matrix: Matrix, image: Image) -> str:
    if image.name.endswith("/l4t-tensorflow"):
        tags = [tag for row in matrix.data.jetpacks for tag in row.images]
    else:
        tags = [row.tag for row in matrix.data.containers if row.image == image.name]
        if tags and (image.tag or "latest").startswith(("latest", "nightly")):
            return f"{image.reference} changes with every release; name a version, such as {tags[0]}"
    if tags:
        near = similar(image.tag or "", tags, 4) or tags[:4]
        return f"no tag {image.tag or 'latest'!r} of {image.name} in the matrix; some that there are: {', '.join(near)}"
    known = dict.fromkeys(row.image for row in matrix.data.containers)
    images = ", ".join([*known, "nvidia/cuda", "nvcr.io/nvidia/l4t-tensorflow"])
    return f"unknown image {image.reference!r}; the matrix knows images of {images}"
