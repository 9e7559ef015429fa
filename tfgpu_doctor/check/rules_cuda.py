"""Rules about CUDA, cuDNN, the driver and the card. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from tfgpu_doctor.check.engine import Problem, replacement, rule, with_extra, write, write_all
from tfgpu_doctor.check.view import Cuda, View
from tfgpu_doctor.matrix.compatibility import capability, cudnn_limit, driver_reaches, kernels_for, minor
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.alternatives import is_data_centre
from tfgpu_doctor.plan.constraints import PlanRequest, driver_needed
from tfgpu_doctor.records.report import Evidence, Fix, Severity


@rule("cuda.version-mismatch")
def cuda_mismatch(view: View) -> Iterator[Problem]:
    """CUDA of another major version than TensorFlow loads, and nothing that brings the right one."""
    row = view.release
    if row is None or row.cuda is None or view.extra or view.conda:
        return
    others = [one for one in view.cudas if one.major != row.cuda.split(".")[0]]
    if not others or any(one.major == row.cuda.split(".")[0] for one in view.cudas):
        return
    yield Problem(
        f"TensorFlow {row.version} loads CUDA {minor(row.cuda)}, but {others[0].text} brings {others[0].version}",
        "the names of the libraries carry their version, so another CUDA cannot stand in",
        tuple(
            Evidence(one.text, one.place, f"CUDA {row.cuda}", f"TensorFlow {row.version} ({view.where})")
            for one in others
        ),
        tuple(_for_cuda(view, row, others[0])),
    )


def _for_cuda(view: View, row: Release, other: Cuda) -> Iterator[Fix]:
    """Either side can give way."""
    if view.tensorflow and row.extra and (better := with_extra(view, row)):
        yield write(view.tensorflow, better)
    if view.base and view.base.cuda == other.version and view.base.flavour:
        cudnn = (
            f"-cudnn{row.cudnn.split('.')[0]}" if row.cudnn and Version(minor(row.cuda)) < Version("12.4") else "-cudnn"
        )
        yield Fix(f"Or, in {view.base.image.place}, take a tag nvidia/cuda:{minor(row.cuda)}.x{cudnn}-runtime-...")
    rows = [one for one in view.matrix.releases(platform=view.target.platform, package="tensorflow") if one.cuda]
    older = next((one for one in rows if not one.prerelease and (one.cuda or "").split(".")[0] == other.major), None)
    if view.tensorflow and older:
        text = f"{older.package}=={older.version}"
        yield Fix(f"Or, in {view.tensorflow.place}, write {text}: it loads CUDA {minor(older.cuda)}")


@rule("cuda.missing")
def cuda_missing(view: View) -> Iterator[Problem]:
    """TensorFlow from pip without its extra, where nothing else brings CUDA."""
    row, one, base = view.release, view.tensorflow, view.base
    if row is None or one is None or row.cuda is None or view.extra or view.conda or not view.wants_gpu:
        return
    flavour = base is not None and base.flavour == "base" and not view.cudas[1:]
    if view.cudas and not flavour:
        return
    # an image whose content the name does not tell, or no image at all: CUDA may come from elsewhere
    certain = flavour or (base is not None and base.no_cuda)
    seen = f"{one.text}, and {base.image.reference}" if base else one.text
    better = with_extra(view, row) if row.extra else replacement(view)
    yield Problem(
        f"Nothing brings CUDA {minor(row.cuda)} for TensorFlow {row.version}"
        if certain
        else f"{one.text} brings no CUDA",
        "a nvidia/cuda base image holds the CUDA runtime alone, not cuBLAS, cuFFT and the others"
        if flavour
        else "pip installs TensorFlow without NVIDIA's libraries unless the extra and-cuda asks for them",
        (
            Evidence(
                seen, str(one.place), f"CUDA {row.cuda} and cuDNN {row.cudnn}", f"TensorFlow {row.version} (wheel)"
            ),
        ),
        (write(one, better),) if better else (),
        Severity.ERROR if certain else Severity.WARNING,
    )


@rule("cudnn.missing")
def cudnn_missing(view: View) -> Iterator[Problem]:
    """An image with CUDA but without cuDNN."""
    row, base = view.release, view.base
    if row is None or base is None or base.flavour in (None, "base") or view.extra or view.conda or row.cudnn is None:
        return
    same = base.cuda is not None and base.cuda.split(".")[0] == (row.cuda or "").split(".")[0]
    if same and not view.cudnns:
        yield Problem(
            f"{base.image.reference} holds no cuDNN",
            "TensorFlow registers no GPU when one of its libraries is missing",
            (
                Evidence(
                    base.image.reference,
                    str(base.image.place),
                    f"cuDNN {row.cudnn}",
                    f"TensorFlow {row.version} (wheel)",
                ),
            ),
            (Fix(f"In {base.image.place}, take the tag with cudnn{row.cudnn.split('.')[0]}"),),
        )


@rule("cudnn.version-mismatch")
def cudnn_mismatch(view: View) -> Iterator[Problem]:
    """cuDNN of another major version, or older than the one compiled against."""
    row = view.release
    if row is None or row.cudnn is None or view.extra or view.conda:
        return
    for one in view.cudnns:
        have = one.version.split(".")
        if not one.version or not one.version[0].isdigit():
            continue
        older = len(have) > 1 and [int(part) for part in have[:2]] < [int(part) for part in row.cudnn.split(".")[:2]]
        if have[0] != row.cudnn.split(".")[0] or older:
            yield Problem(
                f"TensorFlow {row.version} needs cuDNN {row.cudnn}, but {one.text} brings {one.version}",
                "libcudnn carries its major version in its name, and may not be older than the one compiled against",
                (Evidence(one.text, one.place, f"cuDNN {row.cudnn}", f"TensorFlow {row.version} ({view.where})"),),
                tuple(_with_own_cudnn(view, row)),
            )


def _with_own_cudnn(view: View, row: Release) -> Iterator[Fix]:
    if view.tensorflow and row.extra and (better := with_extra(view, row)):
        yield write(view.tensorflow, better)


@rule("driver.too-old")
def driver_too_old(view: View) -> Iterator[Problem]:
    """The target's driver runs neither the image nor the CUDA that the release brings."""
    driver, row = view.target.driver, view.release
    if driver is None:
        return
    image = _driver_of_image(view)
    if view.base and image and view.target.os != "windows" and not driver_reaches(driver, image):
        forward = is_data_centre(view.target)
        listed = view.base.container.data_center_branches if view.base.container else ()
        if forward and driver.split(".")[0] in listed:
            return
        yield Problem(
            f"{view.base.image.reference} needs driver {image}",
            'the container refuses to start: "unsatisfied condition: cuda>='
            + f'{minor(view.base.cuda)}"'
            + ("; on data-centre cards CUDA's forward compatibility can serve" if forward else ""),
            (
                Evidence(
                    f"driver {driver}",
                    "--driver",
                    f"driver {image} or newer",
                    f"{view.base.image.place}: CUDA {view.base.cuda}",
                ),
            ),
            (Fix(f"Install driver {image} or newer on the host"), Fix("Or take an image with an older CUDA")),
            Severity.WARNING if forward else Severity.ERROR,
        )
        return
    need = driver_needed(PlanRequest(view.matrix, view.target), row) if row and row.cuda else None
    if row and need and not driver_reaches(driver, need):
        yield Problem(
            f"TensorFlow {row.version} needs driver {need}",
            f"its CUDA {minor(row.cuda)} does not run on driver {driver}",
            (Evidence(f"driver {driver}", "--driver", f"driver {need} or newer", f"{view.where}: CUDA {row.cuda}"),),
            (Fix(f"Install driver {need} or newer"), *write_all(view, view.tensorflow)),
        )


def _driver_of_image(view: View) -> str | None:
    """The oldest driver that an image starts on: nvidia/cuda asks for that of its CUDA (NVIDIA_REQUIRE_CUDA)."""
    if view.base is None or view.base.cuda is None:
        return None
    if view.base.container:
        return view.base.container.min_driver
    toolkit = view.matrix.cuda(view.base.cuda)
    return toolkit.min_driver_linux if toolkit else None


@rule("gpu.arch-too-old")
def arch_too_old(view: View) -> Iterator[Problem]:
    """The target's card is older than the kernels, or than the cuDNN."""
    yield from _architecture(view, newer=False)


@rule("gpu.arch-too-new")
def arch_too_new(view: View) -> Iterator[Problem]:
    """The target's card is newer than the kernels."""
    yield from _architecture(view, newer=True)


def _architecture(view: View, *, newer: bool) -> Iterator[Problem]:
    row = view.release
    if row is None or not row.gpu or view.conda or not (row.sass or row.ptx):
        return
    for gpu in view.target.gpus:
        card = gpu.compute_capability
        above = any(capability(card) > capability(one) for one in (*row.sass, *row.ptx))
        dropped = cudnn_limit(view.matrix, row, [card]) if view.extra else None
        pin = next((pin for name, pin in row.pip_nvidia.items() if name.startswith("nvidia-cudnn")), "==")
        held = any(one.name.startswith("nvidia-cudnn") for one in view.environment.requirements)
        how = kernels_for(view.matrix, row, card)
        name = gpu.name or f"compute capability {card}"
        if how != "sass" and above == newer:
            ptx = f", PTX {' '.join(row.ptx)}" if row.ptx else ""
            yield Problem(
                f"TensorFlow {row.version} has no kernels for {name}",
                "kernels are compiled from PTX at the first start, for up to half an hour, or fail"
                if how == "ptx"
                else "no kernel of this build runs on the card",
                (
                    Evidence(
                        f"{name}: compute capability {card}",
                        "--gpu",
                        f"one of SASS {' '.join(row.sass) or 'none'}{ptx}",
                        f"TensorFlow {row.version} ({view.where})",
                    ),
                ),
                tuple(write_all(view, view.tensorflow)),
            )
        elif dropped and not pin.startswith("==") and not newer and not held and view.tensorflow:
            bound = f"nvidia-cudnn-cu{(row.cuda or '').split('.')[0]}<{dropped}"
            yield Problem(
                f"The newest cuDNN has dropped {name}",
                f"the extra of {row.version} admits any cuDNN 9; pip takes the newest, which serves 7.5 and later",
                (
                    Evidence(
                        view.tensorflow.text,
                        str(view.tensorflow.place),
                        f"cuDNN before {dropped}",
                        "compat_matrix.yaml, cudnn",
                    ),
                ),
                (Fix(f"Beside {view.tensorflow.text!r} in {view.tensorflow.place.path}, write {bound!r}"),),
            )
