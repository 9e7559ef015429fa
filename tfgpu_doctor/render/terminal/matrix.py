"""Answers of the matrix for people: a table of releases, a card of one; cards and tables of CUDA, cuDNN and GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.lookup.cuda_cudnn import CudaAnswer, CudnnAnswer
from tfgpu_doctor.lookup.gpus import GpuAnswer, GpuRow
from tfgpu_doctor.lookup.release import with_gpu
from tfgpu_doctor.lookup.releases import Filters, min_driver
from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release
from tfgpu_doctor.records.versions import numbers
from tfgpu_doctor.render.outline import Block, Line
from tfgpu_doctor.render.terminal.layout import hanging, show_block, show_card, show_sources, show_table, show_title
from tfgpu_doctor.render.terminal.matrix_notes import Note, footnotes, minor_ranges, newest_of, nothing, what_was_asked

_UNKNOWN = "unknown"


# ----------------------------------------------------------------------------------------------------- TensorFlow


def releases_page(matrix: Matrix, filters: Filters, rows: Sequence[Release], console: Console) -> None:
    """Print the releases that satisfy the filters, newest first, and what is worth knowing beside them."""
    show_title("TensorFlow releases", what_was_asked(matrix, filters), console)
    if rows:
        console.print()
        show_table(_release_columns(rows), console)
    for note in (*(() if rows else nothing(matrix, filters)), *footnotes(matrix, filters, rows)):
        _note(note, console)


def _note(note: Note, console: Console) -> None:
    """Print a paragraph; an item of a list beside its head, or below it where that leaves little room."""
    head = Text(note.head)
    if not note.head:
        console.print()
    elif len(head) > console.width // 2:
        hanging(Text("  "), Text(note.head.strip()), console)
        head = Text("    ")
    hanging(head, Text(note.text), console)


def _release_columns(rows: Sequence[Release]) -> dict[str, list[str]]:
    """Columns by their heading, without those that would say the same in every row."""
    columns = {"release": [row.version for row in rows]}
    if {row.package for row in rows} != {"tensorflow"}:
        columns["package"] = [row.package for row in rows]
    if len({row.platform for row in rows}) > 1:
        columns["platform"] = [row.platform for row in rows]
    columns["Python"] = [_span(row.python) for row in rows]
    if any(row.gpu for row in rows):
        cells = zip(*map(_gpu_cells, rows), strict=True)
        columns.update(zip(("CUDA", "cuDNN", "driver", "SASS", "PTX"), map(list, cells), strict=True))
    else:
        columns["GPU"] = ["no"] * len(rows)
    return columns


def _gpu_cells(row: Release) -> tuple[str, ...]:
    unknown = "?" if row.gpu else "-"
    known = (row.cudnn, min_driver(row), " ".join(row.sass))
    return (row.cuda or "-", *(cell or unknown for cell in known), " ".join(row.ptx) or "-")


def release(matrix: Matrix, row: Release, console: Console) -> None:
    """Print everything about one release."""
    show_title(f"{row.package} {row.version}", f"for {row.platform}", console)
    twin = with_gpu(matrix, row)
    show_card(_release_lines(row, twin), console)
    for issue in row.known_issues:
        show_block(_block(issue), console)
    console.print()
    show_sources(row.sources, console)


def _release_lines(row: Release, twin: Release | None) -> Iterator[tuple[str, str]]:
    if row.gpu:
        yield "built for", f"CUDA {row.cuda}, cuDNN {row.cudnn or _UNKNOWN}"
        yield "kernels", f"SASS for {', '.join(row.sass) or _UNKNOWN}; PTX for {', '.join(row.ptx) or 'none'}"
        yield "driver", _drivers(row)
        loads = ", ".join(library.soname for library in row.libraries) or _UNKNOWN
        yield "loads", loads + (" (linked: without them the import fails)" if row.linked else "")
    else:
        yield "GPU", "none: this build holds no CUDA code" + (f"; {twin.package} {row.version} does" if twin else "")
    if row.redirects:
        yield "installs", f"nothing of its own: it requires {row.redirects}"
    if row.yanked:
        yield "yanked", row.yanked
    yield "Python", ", ".join(row.python)
    yield from _bounds(row)
    if row.glibc:
        yield "glibc", f"{row.glibc} or newer"
    if row.macos:
        yield "macOS", f"{row.macos} or newer"
    if row.extra:
        yield f"[{row.extra}]", "; ".join(f"{name}{bound}" for name, bound in row.pip_nvidia.items())


def _drivers(row: Release) -> str:
    linux, windows = row.min_driver_linux or _UNKNOWN, row.min_driver_windows or _UNKNOWN
    if row.platform.startswith("windows"):
        return f"{windows} or newer"
    return f"{linux} or newer; under WSL2 {windows} on Windows"


def _bounds(row: Release) -> Iterator[tuple[str, str]]:
    names = ("numpy", "protobuf", "keras", "ml_dtypes")
    bounds = {name: bound for name in names if (bound := getattr(row, name)) is not None}
    if bounds:
        yield "needs", "; ".join(f"{name}{bound}" for name, bound in bounds.items())
    for python, others in row.bounds_by_python.items():
        yield "", f"on Python {python}: " + "; ".join(f"{name}{bound}" for name, bound in others.items())


def _block(issue: KnownIssue) -> Block:
    when = _condition(issue)
    lines = (
        *((Line("when", when),) if when else ()),
        Line("symptom", issue.symptom),
        Line("fix", issue.fix, commands=issue.commands),
    )
    return Block(issue.severity, issue.title, lines, (issue.id,), issue.source)


def _condition(issue: KnownIssue) -> str:
    where = issue.condition
    parts = [
        f"Python {where.python}" if where.python else "",
        f"cuDNN {where.cudnn}" if where.cudnn else "",
        f"ptxas {where.ptxas}" if where.ptxas else "",
        "CUDA from the pip extra" if where.extra else "",
        *(f"with {name} {bound}" for name, bound in where.beside.items()),
        f"a processor without {where.cpu_lacks.upper()}" if where.cpu_lacks else "",
        _capabilities(where.min_compute_capability, where.max_compute_capability),
    ]
    return ", ".join(filter(None, parts))


def _capabilities(low: str | None, high: str | None) -> str:
    if low is None and high is None:
        return ""
    if low is None or high is None:
        return f"compute capability {f'{low} or newer' if low else f'up to {high}'}"
    return f"compute capability {low}" + (f" to {high}" if high != low else "")


# --------------------------------------------------------------------------------------------------- CUDA, cuDNN


def cuda(answer: CudaAnswer, console: Console) -> None:
    """Print one toolkit."""
    show_title(f"CUDA {answer.version}", "", console)
    show_card(_cuda_lines(answer), console)
    console.print()
    show_sources(answer.sources, console)


def _cuda_lines(answer: CudaAnswer) -> Iterator[tuple[str, str]]:
    major = answer.version.split(".")[0]
    linux = answer.min_driver_linux or _UNKNOWN
    windows = f"Windows {answer.min_driver_windows}" if answer.min_driver_windows else "for Windows it is unknown"
    yield "driver", f"Linux {linux}, {windows}: the oldest for all of CUDA {answer.version}"
    if answer.minor_compat_min_linux or answer.minor_compat_min_windows:
        linux, windows = answer.minor_compat_min_linux or _UNKNOWN, answer.minor_compat_min_windows or _UNKNOWN
        yield "at least", f"Linux {linux}, Windows {windows}: with these, any CUDA {major} program runs, PTX excepted"
    else:
        yield "at least", f"the same: CUDA {major} has no minor-version compatibility"
    yield "SASS for", ", ".join(answer.compute_capabilities) or _UNKNOWN
    yield "cuDNN", minor_ranges(answer.cudnn) or "none that the matrix knows"
    yield "TensorFlow", ", ".join(answer.tensorflow) or "no wheel is built for it"
    if answer.conda:
        yield "conda-forge", f"builds for it of TensorFlow {', '.join(answer.conda)}"


def cudas(answers: Sequence[CudaAnswer], console: Console) -> None:
    """Print all toolkits, newest first."""
    columns = {
        "CUDA": [answer.version for answer in answers],
        "Linux driver": [answer.min_driver_linux or "?" for answer in answers],
        "at least": [answer.minor_compat_min_linux or answer.min_driver_linux or "?" for answer in answers],
        "Windows driver": [answer.min_driver_windows or "?" for answer in answers],
        "SASS for": [
            f"{answer.first_compute_capability or '?'} to {answer.last_compute_capability or '?'}" for answer in answers
        ],
    }
    show_table(columns, console)
    console.print()
    hanging(
        Text(""),
        Text(
            "at least: the oldest Linux driver that runs its programs (minor-version compatibility); ?: unknown",
            "dim",
        ),
        console,
    )


def cudnn(answer: CudnnAnswer, console: Console) -> None:
    """Print one cuDNN line."""
    show_title(f"cuDNN {answer.version}", "", console)
    show_card(_cudnn_lines(answer), console)
    console.print()
    show_sources(answer.sources, console)


def _cudnn_lines(answer: CudnnAnswer) -> Iterator[tuple[str, str]]:
    floors = answer.min_compute_capability_by_cuda
    for major in answer.cuda_majors:
        yield f"CUDA {major}", f"compute capability {floors[major]} and newer"
    if answer.last_for_compute_capabilities:
        names = f"{', '.join(answer.last_for)} " if answer.last_for else ""
        yield (
            "last for",
            f"{names}({', '.join(answer.last_for_compute_capabilities)}): later versions have dropped them",
        )
    yield "TensorFlow", ", ".join(answer.tensorflow) or "none is compiled against it"


def cudnns(answers: Sequence[CudnnAnswer], console: Console) -> None:
    """Print all cuDNN lines, newest first."""
    columns = {
        "cuDNN": [answer.version for answer in answers],
        "CUDA": [", ".join(answer.cuda_majors) for answer in answers],
        "cards from": [_floors(answer) for answer in answers],
        "last for": [", ".join(answer.last_for) for answer in answers],
    }
    show_table(columns, console)


def _floors(answer: CudnnAnswer) -> str:
    floors = answer.min_compute_capability_by_cuda
    if len(set(floors.values())) == 1:
        return answer.min_compute_capability
    return ", ".join(f"{floors[major]} (CUDA {major})" for major in answer.cuda_majors)


# ----------------------------------------------------------------------------------------------------------- GPUs


def gpu(answer: GpuAnswer, console: Console) -> None:
    """Print one GPU, or one compute capability."""
    capability = f"compute capability {answer.compute_capability}"
    detail = ", ".join(filter(None, [capability if answer.name else "", answer.architecture]))
    show_title(answer.name or capability, detail, console)
    show_card(_gpu_lines(answer), console)
    console.print()
    show_sources(answer.sources, console)


def _gpu_lines(answer: GpuAnswer) -> Iterator[tuple[str, str]]:
    if answer.name is None:
        yield "GPUs", ", ".join(answer.same_compute_capability) or "none that the matrix knows"
    yield "driver", _branches(answer.first_driver_branch, answer.last_driver_branch)
    yield "CUDA", f"{answer.first_cuda or 'unknown'} to {answer.last_cuda or 'today'}"
    if answer.last_cudnn:
        last = ", ".join(f"{line} for CUDA {major}" for major, line in answer.last_cudnn.items())
        yield "cuDNN", f"up to {last}"
    yield "TensorFlow", _newest(answer)
    if answer.elsewhere:
        yield "instead", "; ".join(answer.elsewhere) + " (tfgpu plan has the commands)"
    if answer.tensorflow_ptx:
        yield (
            "by PTX",
            f"{minor_ranges(answer.tensorflow_ptx)}: the driver would compile every kernel at first use",
        )
    for issue in answer.broken:
        yield "broken", f"{minor_ranges(issue.tensorflow)}: {issue.title} ({issue.id})"
    if answer.peak:
        rates = ", ".join(f"{name} {rate:g}" for name, rate in answer.peak.items())
        yield "peak", f"FLOP per clock cycle and multiprocessor: {rates}"


def _newest(answer: GpuAnswer) -> str:
    if answer.newest_tensorflow is None:
        return f"no release for {answer.platform} has working kernels for it"
    where = f" for {answer.platform}"
    return newest_of(answer.newest_tensorflow, where, answer.passed_over, answer.tensorflow)


def gpus(rows: Sequence[GpuRow], console: Console) -> None:
    """Print all GPUs."""
    columns = {
        "GPU": [row.name for row in rows],
        "cc": [row.compute_capability for row in rows],
        "architecture": [row.architecture or "?" for row in rows],
        "driver branches": [_branches(row.first_driver_branch, row.last_driver_branch) for row in rows],
    }
    show_table(columns, console)
    console.print()
    hanging(Text(""), Text("cc: compute capability", "dim"), console)


def _branches(first: str | None, last: str | None) -> str:
    if first and last:
        return f"{first} to {last}"
    return f"{first} and newer" if first else f"up to {last}" if last else "unknown"


def _span(versions: Sequence[str]) -> str:
    """Shorten consecutive minor versions: "3.9-3.12"."""
    if len(versions) < 3:
        return ", ".join(versions)
    first, last = numbers(versions[0]), numbers(versions[-1])
    whole = first[0] == last[0] and last[1] - first[1] == len(versions) - 1
    return f"{versions[0]}-{versions[-1]}" if whole else ", ".join(versions)
