"""Answers of the matrix for people: a table of releases, a card of one; cards and tables of CUDA, cuDNN and GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tfgpu_doctor.matrix.compatibility import is_tegra, oldest_driver
from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release
from tfgpu_doctor.matrix.queries import Filters, cpu_twin, min_driver, with_gpu
from tfgpu_doctor.matrix.rows import PtxOnly
from tfgpu_doctor.matrix.tables import CudaAnswer, CudnnAnswer
from tfgpu_doctor.plan.gpu_answers import GpuAnswer, GpuRow
from tfgpu_doctor.records.versions import minor, numbers
from tfgpu_doctor.render.outlines import matrix as shown
from tfgpu_doctor.render.outlines.matrix import Sheet
from tfgpu_doctor.render.outlines.matrix_notes import footnotes, minor_ranges, nothing, what_was_asked
from tfgpu_doctor.render.shapes import Block, Line, Part

_UNKNOWN = "unknown"
_BUGS = "Known bugs, some of them only on certain machines; -v shows when, what is seen, and the fix:"
_MANY = 20  # rows of a list that fit a screen
_EXAMPLES = 3  # names of GPUs in the short list


def _sheet(lines: Iterable[tuple[str, str]], read: Mapping[str, str]) -> tuple[Part, ...]:
    return shown.card(tuple(lines)), shown.sources(read)


# ----------------------------------------------------------------------------------------------------- TensorFlow


def releases_page(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Sheet:
    """The releases that satisfy the filters, newest first, and what is worth knowing beside them."""
    table = (shown.table(_release_columns(matrix, rows, filters)),) if rows else ()
    few = _newest_of_each_minor(rows)
    notes = (*(() if rows else nothing(matrix, filters)), *footnotes(matrix, filters, rows))
    asked = what_was_asked(matrix, filters)
    if len(rows) <= _MANY or len(few) == len(rows):
        return Sheet("TensorFlow releases", asked, (*table, *notes))
    short = shown.table(_release_columns(matrix, few, filters))
    left_out = shown.note(f"the newest of each minor version; -v lists all {len(rows)}")
    return Sheet("TensorFlow releases", asked, (*table, *notes), (short, left_out, *notes))


def _newest_of_each_minor(rows: Sequence[Release]) -> list[Release]:
    """The first row of each minor version and platform."""
    first: dict[tuple[str, str], Release] = {}
    for row in rows:
        first.setdefault((minor(row.version), row.platform), row)
    return list(first.values())


def _release_columns(matrix: Matrix, rows: Sequence[Release], filters: Filters) -> dict[str, list[str]]:
    """Columns by their heading, without those that would say the same in every row."""
    columns = {"release": [row.version for row in rows]}
    if {row.package for row in rows} != {"tensorflow"}:
        columns["package"] = [row.package for row in rows]
    if len({row.platform for row in rows}) > 1:
        columns["platform"] = [row.platform for row in rows]
    columns["Python"] = [_span(row.python) for row in rows]
    if any(row.gpu for row in rows):
        cells = zip(*(_gpu_cells(row, min_driver(matrix, row, filters)) for row in rows), strict=True)
        columns.update(zip(("CUDA", "cuDNN", "driver", "SASS", "PTX"), map(list, cells), strict=True))
    else:
        columns["GPU"] = ["no"] * len(rows)
    return columns


def _gpu_cells(row: Release, driver: str | None) -> tuple[str, ...]:
    unknown = "?" if row.gpu else "-"
    known = (row.cudnn, driver, " ".join(row.sass))
    return (row.cuda or "-", *(cell or unknown for cell in known), " ".join(row.ptx) or "-")


def release(matrix: Matrix, row: Release) -> Sheet:
    """Everything about one release; first its card and the titles of its bugs."""
    lines = tuple(_release_lines(row, with_gpu(matrix, row)))
    if cpu := cpu_twin(matrix, row):
        lines = (("package", f"{row.package}: {cpu.package} {cpu.version} is the build without CUDA"), *lines)
    card, blocks = shown.card(lines), tuple(_block(issue) for issue in row.known_issues)
    few = shown.card(tuple((label, _first(text)) if label.startswith("[") else (label, text) for label, text in lines))
    titles: tuple[Part, ...] = tuple(Block(block.mark, block.title, (), block.ids) for block in blocks)
    bugs: tuple[Part, ...] = (shown.note(_BUGS), *titles) if titles else ()
    brief: tuple[Part, ...] = (few, *bugs, shown.sources(row.sources, documents_only=True))
    whole: tuple[Part, ...] = (card, *blocks, shown.sources(row.sources))
    return Sheet(f"{row.package} {row.version}", f"for {row.platform}", whole, brief)


def _first(text: str) -> str:
    """The first of many requirements."""
    every = text.split("; ")
    wanted = [one for one in every if one.startswith(("nvidia-cudnn", "nvidia-cuda-runtime"))] or every[:2]
    return text if len(every) <= len(wanted) + 1 else f"{'; '.join(wanted)} and {len(every) - len(wanted)} more"


def _release_lines(row: Release, twin: Release | None) -> Iterator[tuple[str, str]]:
    if row.gpu:
        yield from _build_lines(row)
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


def _build_lines(row: Release) -> Iterator[tuple[str, str]]:
    yield "built for", f"CUDA {row.cuda}, cuDNN {row.cudnn or _UNKNOWN}"
    yield "kernels", f"SASS for {', '.join(row.sass) or _UNKNOWN}; PTX for {', '.join(row.ptx) or 'none'}"
    yield "driver", _drivers(row)
    if by_ptx := "; ".join(_by_ptx(row)):
        yield "by PTX", by_ptx
    loads = ", ".join(library.soname for library in row.libraries) or _UNKNOWN
    yield "loads", loads + (" (linked: without them the import fails)" if row.linked else "")


def _drivers(row: Release) -> str:
    linux, windows = row.min_driver_linux or _UNKNOWN, row.min_driver_windows or _UNKNOWN
    if row.platform.startswith("windows"):
        return f"{windows} or newer"
    return f"{linux} or newer; under WSL2 {windows} on Windows"


def _by_ptx(row: Release) -> Iterator[str]:
    """The GPUs for which parts have no SASS, and the drivers that compile those; Jetson modules have JetPack's."""
    groups: dict[PtxOnly, list[str]] = {}
    for card, found in row.ptx_only.items():
        if not is_tegra(card):
            groups.setdefault(found, []).append(card)
    for found, cards in groups.items():
        share = "all" if found.fat_binaries == found.of else f"{found.fat_binaries} of {found.of} fat binaries"
        yield f"{', '.join(cards)}: {share}, PTX {found.isa}, driver {oldest_driver(row, cards) or _UNKNOWN}"


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


def cuda(answer: CudaAnswer) -> Sheet:
    """One toolkit."""
    asked = f"for {answer.asked}, of which the matrix has no row" if answer.asked else ""
    return Sheet(f"CUDA {answer.version}", asked, _sheet(_cuda_lines(answer), answer.sources))


def _cuda_lines(answer: CudaAnswer) -> Iterator[tuple[str, str]]:
    major, short = answer.version.split(".")[0], ".".join(answer.version.split(".")[:2])
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
    yield "TensorFlow", ", ".join(answer.tensorflow) or f"no wheel is built for CUDA {short}"
    if answer.conda:
        yield "conda-forge", f"builds for CUDA {short} of TensorFlow {', '.join(answer.conda)}"


def cudas(answers: Sequence[CudaAnswer]) -> Sheet:
    """All toolkits, newest first."""
    columns = {
        "CUDA": [answer.version for answer in answers],
        "Linux driver": [answer.min_driver_linux or "?" for answer in answers],
        "at least": [answer.minor_compat_min_linux or answer.min_driver_linux or "?" for answer in answers],
        "Windows driver": [answer.min_driver_windows or "?" for answer in answers],
        "SASS for": [
            f"{answer.first_compute_capability or '?'} to {answer.last_compute_capability or '?'}" for answer in answers
        ],
    }
    legend = "at least: the oldest Linux driver that runs its programs (minor-version compatibility); ?: unknown"
    return Sheet("CUDA toolkits", "", (shown.table(columns), shown.note(legend)))


def cudnn(answer: CudnnAnswer) -> Sheet:
    """One cuDNN line."""
    return Sheet(f"cuDNN {answer.version}", "", _sheet(_cudnn_lines(answer), answer.sources))


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


def cudnns(answers: Sequence[CudnnAnswer]) -> Sheet:
    """All cuDNN lines, newest first."""
    columns = {
        "cuDNN": [answer.version for answer in answers],
        "CUDA": [", ".join(answer.cuda_majors) for answer in answers],
        "GPUs from": [_floors(answer) for answer in answers],
        "last for": [", ".join(answer.last_for) for answer in answers],
    }
    return Sheet("cuDNN versions", "", (shown.table(columns),))


def _floors(answer: CudnnAnswer) -> str:
    floors = answer.min_compute_capability_by_cuda
    if len(set(floors.values())) == 1:
        return answer.min_compute_capability
    return ", ".join(f"{floors[major]} (CUDA {major})" for major in answer.cuda_majors)


# ----------------------------------------------------------------------------------------------------------- GPUs


def gpu(answer: GpuAnswer) -> Sheet:
    """One GPU, or one compute capability."""
    capability = f"compute capability {answer.compute_capability}"
    detail = ", ".join(filter(None, [capability if answer.name else "", answer.architecture]))
    return Sheet(answer.name or capability, detail, _sheet(_gpu_lines(answer), answer.sources))


def _gpu_lines(answer: GpuAnswer) -> Iterator[tuple[str, str]]:
    if answer.name is None:
        yield "GPUs", ", ".join(answer.same_compute_capability) or "none that the matrix knows"
    if is_tegra(answer.compute_capability):
        yield "driver", "part of NVIDIA JetPack, as are CUDA and cuDNN: tfgpu matrix find 6.1, with NVIDIA's TensorFlow"
    else:
        yield "driver", _branches(answer)
    yield "CUDA", f"{answer.first_cuda or 'unknown'} to {answer.last_cuda or 'today'}"
    if answer.last_cudnn:
        last = ", ".join(f"{line} for CUDA {major}" for major, line in answer.last_cudnn.items())
        yield "cuDNN", f"up to {last}"
    yield "TensorFlow", _newest(answer)
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
    working = "newest working release" if answer.newest_tensorflow != answer.tensorflow[0] else "newest"
    every = minor_ranges(answer.tensorflow)
    return f"{answer.newest_tensorflow} is the {working} for {answer.platform}; all: {every}"


def gpus(rows: Sequence[GpuRow]) -> Sheet:
    """All GPUs; first a line for each architecture and span of drivers."""
    columns = {
        "GPU": [row.name for row in rows],
        "cc": [row.compute_capability for row in rows],
        "architecture": [row.architecture or "?" for row in rows],
        "driver branches": [_branches(row) for row in rows],
    }
    whole = (shown.table(columns), shown.note("cc: compute capability"))
    return Sheet("GPUs", f"{len(rows)} names", whole, _by_capability(rows))


def _by_capability(rows: Sequence[GpuRow]) -> tuple[Part, ...]:
    """A line for each compute capability, with its first names."""
    groups: dict[str, list[GpuRow]] = {}
    for row in rows:
        groups.setdefault(row.compute_capability, []).append(row)
    columns = {
        "cc": list(groups),
        "architecture": [group[0].architecture or "?" for group in groups.values()],
        "names": [str(len(group)) for group in groups.values()],
        "such as": [", ".join(row.name for row in group[:_EXAMPLES]) for group in groups.values()],
    }
    legend = "cc: compute capability; -v lists every name with its drivers, --compute-capability 8.9 those of one"
    return shown.table(columns), shown.note(legend)


def _branches(row: GpuRow | GpuAnswer) -> str:
    """The span of driver branches; what is a lower bound is shown as one."""
    first, last, bound = row.first_driver_branch, row.last_driver_branch, row.driver_at_least
    if first:
        return f"{first} to {last}" if last else f"{first} and newer"
    known = (f"at least {bound}" if bound else "", f"up to {last}" if last else "")
    return ", ".join(filter(None, known)) or "unknown"


def _span(versions: Sequence[str]) -> str:
    """Shorten consecutive minor versions: "3.9-3.12"."""
    if len(versions) < 3:
        return ", ".join(versions)
    first, last = numbers(versions[0]), numbers(versions[-1])
    whole = first[0] == last[0] and last[1] - first[1] == len(versions) - 1
    return f"{versions[0]}-{versions[-1]}" if whole else ", ".join(versions)
