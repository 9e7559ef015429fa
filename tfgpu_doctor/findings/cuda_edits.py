"""How a file changes that brings another CUDA than its TensorFlow loads. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from tfgpu_doctor.matrix.compatibility import driver_reaches
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.alternatives import is_data_centre
from tfgpu_doctor.plan.constraints import PlanRequest, broken_within
from tfgpu_doctor.plan.file_edits import with_extra, write, write_conda_cuda, write_tensorflow
from tfgpu_doctor.plan.planned import Cuda, PlannedEnvironment, cudnn_in_tags
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.records.versions import at_least, major, minor, same_minor


def edits_for_cuda(view: PlannedEnvironment, release: Release, other: Cuda) -> Iterator[Fix]:
    """Either the requirement or what brings the CUDA can change: first what keeps the TensorFlow that is asked for."""
    extra = with_extra(view, release) if view.tensorflow and release.extra else None
    edit = (
        write_tensorflow(view.tensorflow, extra)
        if view.tensorflow and extra not in (None, view.tensorflow.text)
        else None
    )
    keeps = edit is not None and same_minor((extra or "").partition("==")[2], release.version)
    others = (write_conda_cuda(view, release.cuda, release.cudnn), _other_tag(view, release, other))
    yield from filter(None, (edit, *others) if keeps else (others[0], edit, others[1]))
    if view.tensorflow and (near := _nearest(view, release, other.major)):
        by_pip = other.text.startswith("nvidia-")  # beside them, the extra brings the rest
        better = with_extra(view, near) if by_pip and near.extra else f"{near.package}=={near.version}"
        if better:
            edit = write(view.tensorflow, better, f": it loads CUDA {minor(near.cuda)}")
            yield Fix(f"Keep that CUDA: {edit.text[0].lower()}{edit.text[1:]}", edits=edit.edits)


def _other_tag(view: PlannedEnvironment, release: Release, other: Cuda) -> Fix | None:
    """The image of the right CUDA, where there is one that starts on the driver."""
    cuda, base = minor(release.cuda), view.base
    word = cudnn_in_tags(cuda, major(release.cudnn))
    if base is None or base.cuda != other.version or base.container or not base.flavour or word is None:
        return None
    have, toolkit = view.target.driver, view.matrix.cuda(cuda)
    need = toolkit.min_driver_linux if toolkit else None
    refused = have is not None and need is not None and not driver_reaches(have, need)
    if refused and not is_data_centre(view.target):
        return None
    forward = f". With driver {have}, that CUDA runs by forward compatibility only" if refused else ""
    return Fix(f"Change the tag in {base.image.place}: nvidia/cuda:{cuda}.x-{word}-runtime-...{forward}")


def _nearest(view: PlannedEnvironment, release: Release, cuda: str) -> Release | None:
    """The release for another CUDA that is the fewest releases away, the next before the previous ones."""
    rows = view.matrix.stable(platform=view.target.platform, package="tensorflow")
    request = PlanRequest(view.matrix, structs.replace(view.target, python=view.python))
    fitting = [
        row
        for row in rows
        if row.cuda and major(row.cuda) == cuda and broken_within(request, row, frozenset({"known-issue"})) is not None
    ]
    newer = [row for row in fitting if at_least(row.version, release.version)]
    return newer[-1] if newer else next(iter(fitting), None)


def for_conda_build(view: PlannedEnvironment, pin: Cuda, cuda: str, cudnn: str | None) -> Fix:
    """The lines of conda with a CUDA that conda-forge builds TensorFlow for."""
    words = Fix(f"In {pin.place}, write cuda-version={cuda}, or leave the choice to conda")
    return write_conda_cuda(view, cuda, cudnn) or words
