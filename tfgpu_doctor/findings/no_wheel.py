"""Why pip offers no wheel although the Python is right: pip is too old for its tag, or the C library is musl."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence
from tfgpu_doctor.findings.message_log import message_evidence
from tfgpu_doctor.findings.pip_answers import offered, requested
from tfgpu_doctor.manifests import Image
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.file_edits import write_image
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.records.facts import NOT_IN_TEXT, Message, value_or
from tfgpu_doctor.records.report import Alternative, Evidence, Fix
from tfgpu_doctor.records.versions import at_least, minor

_MUSL_TITLE = "There is no TensorFlow wheel for Alpine Linux"
_MUSL = "Alpine's C library is musl, and TensorFlow's wheels are for glibc (manylinux): pip offers none of them there"
_GLIBC = "a system with glibc, such as Debian or Ubuntu"
# The first pip that reads the tag of a wheel, by the glibc that the tag stands for; what is older reads manylinux1.
# Source: pip's changelog, 19.0 (manylinux2010), 19.3 (manylinux2014), 20.3 (manylinux_X_Y)
_PIP_FOR = (("2.12", "19.0"), ("2.17", "19.3"), ("2.18", "20.3"))
_LAST_FOR_3_6 = "pip<22"  # 21.3.1 runs on Python 3.6 to 3.10, and reads every tag


def pythons_of(row: Release) -> str:
    """The Pythons for which a release has wheels."""
    return f"Python {row.python[0]} to {row.python[-1]}"


def on_musl(*seen: Evidence, fixes: tuple[Fix, ...] | None = None) -> Problem:
    """No release has a wheel there, whatever the Python."""
    return Problem(title=_MUSL_TITLE, cause=_MUSL, evidence=seen, fixes=fixes)


def for_glibc(context: Context) -> tuple[Fix, ...]:
    """A system with glibc, and the release that is best there."""
    host = structs.replace(context.facts.host, libc=NOT_IN_TEXT)
    release = Fixes(structs.replace(context.facts, host=host), context.matrix).release
    python = release.python[-1] if release else "3.12"
    image = f"docker run -it --rm python:{python}-slim bash"
    ready = f"docker run --gpus all -it --rm tensorflow/tensorflow:{release.version if release else 'latest'}-gpu bash"
    return (
        Fix(f"Use {_GLIBC}: for example Python's image slim instead of alpine", (image,)),
        Alternative("Use TensorFlow's own image, with CUDA in it", (ready,)),
    )


def musl_evidence(messages: tuple[Message, ...]) -> tuple[Evidence, ...]:
    """The lines that show Alpine."""
    return message_evidence(*messages, need=_GLIBC, most=2)


def without_musl(image: Image) -> str | None:
    """The image of the same Python with glibc; None where this one is none of Alpine."""
    tag = image.tag or ""
    if image.name.rsplit("/", 1)[-1] == "alpine":
        return "python:3.12-slim"
    if "alpine" not in tag:
        return None
    head = tag.partition("alpine")[0].rstrip("-")
    return f"{image.name}:{head + '-' if head else ''}{'bookworm-slim' if 'astral' in image.name else 'slim'}"


def of_alpine(image: Image) -> Iterator[Problem]:
    """An image in which pip finds no wheel."""
    if better := without_musl(image):
        seen = Evidence(image.reference, str(image.place), "an image with glibc", "names of the wheels")
        yield Problem(title=_MUSL_TITLE, cause=_MUSL, evidence=(seen,), fixes=(write_image(image, better),))


def with_old_pip(
    context: Context, refused: tuple[Message, ...], row: Release | None, python: str | None
) -> Problem | None:
    """The offers end where the wheels got a tag that this pip does not read, not where the Python's wheels end."""
    listed = next((message for message in refused if offered(message)), None)
    last = _last_before_a_tag(context.matrix, offered(listed) or [], python) if listed and row else None
    if row is None or last is None or row.glibc is None or not _has_later_tag(row, last):
        return None
    libc = value_or(context.facts.host.libc, "").removeprefix("glibc ")
    if at_least(libc, row.glibc) is False:
        return None  # the system is too old for the wheel, and no pip helps
    needed = next((pip for glibc, pip in reversed(_PIP_FOR) if at_least(row.glibc, glibc)), "19.0")
    remedies = context.remedies
    update = remedies.pip_install("--upgrade", _LAST_FOR_3_6 if "3.6" in (python or last.python) else "pip")
    return Problem(
        title=f"pip is too old for the wheels of TensorFlow {row.version}",
        cause=f"the offered versions end with {last.version}: its wheels are the last with a tag that this pip reads; "
        f"those of {row.version} need pip {needed} or newer",
        evidence=message_evidence(*refused, need=f"pip {needed} or newer"),
        fixes=remedies.installing(
            "Update pip, then install the release", *remedies.installation(row).requirements, first=update
        ),
    )


def _has_later_tag(row: Release, last: Release) -> bool:
    return row.glibc != last.glibc and Version(row.version) > Version(last.version)


def _last_before_a_tag(matrix: Matrix, versions: list[str], python: str | None) -> Release | None:
    """The last release that is offered, where all later ones for a Python of it have wheels of another tag."""
    rows = [row for row in matrix.stable("linux_x86_64", "tensorflow") if row.glibc]
    last = next((row for row in rows if row.version in versions), None)
    if last is None or last.glibc is None:
        return None
    pythons = {minor(python)} if python else set(last.python)
    later = [set(row.python) & pythons for row in _later(rows, last)]
    same_tag = any(pythons & set(row.python) for row in _later(rows, last) if row.glibc == last.glibc)
    return last if any(later) and not same_tag else None


def _later(rows: list[Release], last: Release) -> Iterator[Release]:
    return (row for row in rows if Version(row.version) > Version(last.version))


def with_32_bits(context: Context) -> Problem:
    """A Python of 32 bits."""
    return Problem(
        title="This Python is 32-bit; TensorFlow's wheels are 64-bit",
        cause="there has never been a 32-bit wheel for PCs; a 64-bit wheel whose files are copied cannot be loaded",
        evidence=(evidence("32-bit Python", context.source("python.bits"), "64-bit Python"),),
    )


FOR_64_BITS = Fix(
    text="Install a 64-bit Python that this TensorFlow has wheels for, and install TensorFlow there",
    commands=("python -c \"import struct; print(8 * struct.calcsize('P'))\"",),
)


def requested_row(context: Context, refused: tuple[Message, ...], wheel_platform: str | None) -> Release | None:
    """The release that pip was asked for, where the matrix knows its Pythons."""
    wanted = next((version for message in refused if (version := requested(message)[1])), None)
    row = context.matrix.tensorflow(wanted, wheel_platform or "linux_x86_64") if wanted else None
    return row if row and row.python else None
