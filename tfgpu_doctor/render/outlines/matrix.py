"""Answers of the matrix for people: cards of one row, tables of many, and what a list of releases leaves out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from packaging.version import Version

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.facts import encode
from tfgpu_doctor.facts.versions import minor, numbers
from tfgpu_doctor.matrix.compatibility import driver_branches, drives, is_tegra, oldest_driver
from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release
from tfgpu_doctor.matrix.queries import (
    Filters,
    also_load,
    cards,
    cpu_twin,
    known_broken,
    min_driver,
    only_with,
    releases,
    with_gpu,
)
from tfgpu_doctor.matrix.rows import PtxOnly
from tfgpu_doctor.matrix.tables import About, CudaAnswer, CudnnAnswer, Found
from tfgpu_doctor.plan.gpu_answers import GpuAnswer, GpuRow
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.shapes import Block, Detail, Items, Line, Page, Part, Table

_COMMAND, _UNKNOWN = "tfgpu matrix", "unknown"
_BUGS = "Known bugs, some of them only on certain machines; -v shows when, what is seen, and the fix:"
_MANY, _FEW = 20, 5  # rows of a list that fit a screen; rows of any table that a first screen shows whole


class Sheet(NamedTuple):
    """An answer for people; `brief` is what its first screen shows, where that is less."""

    title: str
    detail: str
    parts: tuple[Part, ...]
    brief: tuple[Part, ...] = ()


class Answered(NamedTuple):
    """An answer as data and as a sheet."""

    answer: Any
    sheet: Sheet
    revision: str  # of the matrix

    def to_json(self) -> bytes:
        """Encode the answer alone."""
        return encode(self.answer)

    def __repr__(self) -> str:
        """Return a line."""
        return f"<Answered: {self.sheet.title}>"

    def _repr_html_(self) -> str:
        from tfgpu_doctor.render.html.page import fragment

        return fragment(page(self))


def page(answered: Answered, detail: formats.Detail = "shared") -> Page:
    """Return the whole sheet, its first screen, or its answer alone."""
    sheet = answered.sheet
    about = f"{_COMMAND} {__version__}, matrix of {answered.revision}"
    whole = Page(_COMMAND, (about,), "note", sheet.title, sheet.detail, sheet.parts)
    if detail == "shared":
        return whole
    parts = sheet.parts if detail == "full" else sheet.brief or sheet.parts
    if detail == "least":
        parts = tuple(part for part in parts if isinstance(part, Table))
    return whole._replace(mark="", parts=parts, is_brief=True)


def card(lines: Iterable[tuple[str, str]]) -> Table:
    """Return labels with their texts; an empty label goes on with the one above."""
    return Table("", ("What", "Answer"), tuple(lines))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table without a title."""
    return Table("", tuple(head), tuple(map(tuple, rows)))


def note(text: str) -> Items:
    """Return a sentence or two, what the words and signs of a table mean among them."""
    return Items((text,))


def sources(read: Mapping[str, str], documents_only: bool = False) -> Detail:
    """Return each document once, with its members, a wheel's files, and the fields that were read there.

    Args:
        read: field → where it was read.
        documents_only: leave out what was read in each document.
    """
    documents: dict[str, dict[str, list[str]]] = {}
    for field, source in read.items():
        wheel, colon, member = source.partition(".whl: ")
        document = wheel + ".whl" if colon else source
        documents.setdefault(document, {}).setdefault(member if colon else "", []).append(field)
    rows = []
    for document, members in documents.items():
        fields = (f"{member}: {', '.join(found)}" if member else ", ".join(found) for member, found in members.items())
        rows.append((document, "" if documents_only else "; ".join(fields)))
    return Detail("Sources", ("Document", "Read there"), tuple(rows))


# ------------------------------------------------------------------------------------------------ a list of releases


def releases_page(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Sheet:
    """Return the releases that satisfy the filters, newest first, and what is worth knowing beside them."""
    shown = (_release_table(matrix, rows, filters),) if rows else ()
    first: dict[tuple[str, str], Release] = {}
    for row in rows:
        first.setdefault((minor(row.version), row.platform), row)
    few = list(first.values())
    notes = (*(() if rows else _nothing(matrix, filters)), *_footnotes(matrix, filters, rows))
    named = matrix.gpu(filters.gpu) if filters.gpu else None
    asked = (
        f"for {filters.platform or 'all platforms'}{' under WSL2' * filters.wsl2}",
        f"with a wheel for Python {filters.python}" if filters.python else "",
        f"built for CUDA {filters.cuda}" if filters.cuda else "",
        f"cuDNN {filters.cudnn}" if filters.cudnn else "",
        f"on driver {filters.driver}" if filters.driver else "",
        f"with kernels for {filters.compute_capability}" if filters.compute_capability else "",
        f"with kernels for {named.name} ({named.compute_capability})" if named else "",
    )
    sheet = Sheet("TensorFlow releases", ", ".join(filter(None, asked)), (*shown, *notes))
    if len(rows) <= _MANY or len(few) == len(rows):
        return sheet
    cut = note(f"the newest of each minor version; -v lists all {len(rows)}")
    return sheet._replace(brief=(_release_table(matrix, few, filters), cut, *notes))


def _release_table(matrix: Matrix, rows: Sequence[Release], filters: Filters) -> Table:
    """Return columns without those that would say the same in every row."""
    with_gpu = any(row.gpu for row in rows)
    cells = [_cells(matrix, row, filters, with_gpu) for row in rows]
    same = {"platform"} if len({row.platform for row in rows}) == 1 else set()
    same |= {"package"} if {row.package for row in rows} == {"tensorflow"} else set()
    shown = [name for name in cells[0] if name not in same]
    return table(shown, ([row[name] for name in shown] for row in cells))


def _cells(matrix: Matrix, row: Release, filters: Filters, with_gpu: bool) -> dict[str, str]:
    """Return the cells of a release by their headings."""
    first = {"release": row.version, "package": row.package, "platform": row.platform, "Python": _span(row.python)}
    if not with_gpu:
        return {**first, "GPU": "no"}
    none = "?" if row.gpu else "-"
    return {
        **first,
        "CUDA": row.cuda or "-",
        "cuDNN": row.cudnn or none,
        "driver": min_driver(matrix, row, filters) or none,
        "SASS": " ".join(row.sass) or none,
        "PTX": " ".join(row.ptx) or "-",
    }


def _span(versions: Sequence[str]) -> str:
    """Shorten consecutive minor versions: "3.9-3.12"."""
    if len(versions) < 3:
        return ", ".join(versions)
    first, last = numbers(versions[0]), numbers(versions[-1])
    whole = first[0] == last[0] and last[1] - first[1] == len(versions) - 1
    return f"{versions[0]}-{versions[-1]}" if whole else ", ".join(versions)


def _nothing(matrix: Matrix, filters: Filters) -> Iterator[Items]:
    """Yield why there is no row, as far as that is simple."""
    everything = Filters(platform=filters.platform, gpu_only=True, pre=True)
    if filters.needs_gpu and not releases(matrix, everything):
        yield note(f"No published wheel for {filters.platform} holds CUDA code.")
    for gpu in cards(matrix, filters) if filters.driver else ():
        first, last = driver_branches(matrix, gpu, filters.gpu)
        if not drives(filters.driver or "", first, last):
            known = f"{first or 'any'} to {last or 'the newest'}"
            yield note(f"Driver {filters.driver} does not know {filters.gpu or gpu}; the branches that do: {known}.")
    named = f" --gpu '{filters.gpu}'" if filters.gpu else ""
    yield note(f"No release satisfies all of this. tfgpu plan{named} shows what can be installed, and why not more.")


def _footnotes(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Iterator[Items]:
    """Yield what is worth knowing beside the rows."""
    if others := also_load(matrix, filters):
        built = _listed(row.cuda for row in others if row.cuda)
        versions = minor_ranges(row.version for row in others)
        yield note(f"Also load CUDA {filters.cuda}'s libraries, by the same names: {versions}, built for CUDA {built}.")
    gpus = cards(matrix, filters)
    asked = ", ".join(gpus)
    if asked and not filters.ptx and (slow := only_with(matrix, filters, ptx=True)):
        yield note(
            f"By PTX only, listed with --ptx: {minor_ranges(row.version for row in slow)}. These have no machine code "
            f"(SASS) for {asked}: the driver would compile every kernel at first use, which takes long, and CUDA's own "
            "libraries may have nothing for such a GPU at all."
        )
    for issue, broken in _by_issue(known_broken(matrix, filters)):
        yield note(f"Known broken on {asked}: {broken}: {issue.title} ({issue.id}). {issue.fix}.")
    yield Items(tuple(_known_errors(matrix, filters, rows)), "Known errors; --version shows the way out")
    if filters.wsl2:
        yield note(
            "The driver is that of Windows, with the numbers of Windows; Linux under WSL2 gets none of its own. CUDA "
            "comes from the extra: tfgpu plan --os wsl2 has the commands."
        )
    if not rows and not filters.pre and (early := only_with(matrix, filters, pre=True)):
        yield note(f"--pre would list {early[0].package} {early[0].version}.")


def _known_errors(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Iterator[str]:
    gpus, found = cards(matrix, filters), list[tuple[Release, KnownIssue]]()
    for row in rows:
        issues = matrix.issues_for(row, python=filters.python, compute_capabilities=gpus, extra=True)
        found += [(row, issue) for issue in issues if issue.severity == "error"]
    yield from (f"{versions}: {issue.title} ({issue.id})" for issue, versions in _by_issue(found))


def _by_issue(broken: Iterable[tuple[Release, KnownIssue]]) -> Iterator[tuple[KnownIssue, str]]:
    found: dict[str, tuple[KnownIssue, list[str]]] = {}
    for row, issue in broken:
        found.setdefault(issue.id, (issue, []))[1].append(row.version)
    yield from ((issue, minor_ranges(versions)) for issue, versions in found.values())


def minor_ranges(versions: Iterable[str]) -> str:
    """Shorten versions to their minors, newest first: "2.18 to 2.21, 2.15"; one alone stays as it is."""
    every = list(dict.fromkeys(versions))
    if len(every) == 1:
        return every[0]
    spans: list[list[tuple[int, ...]]] = []
    for found in sorted({Version(version).release[:2] for version in every}, reverse=True):
        if spans and spans[-1][-1] == (found[0], found[1] + 1):
            spans[-1].append(found)
        else:
            spans.append([found])
    ends = (dict.fromkeys((".".join(map(str, span[-1])), ".".join(map(str, span[0])))) for span in spans)
    return ", ".join(" to ".join(pair) for pair in ends)


def _listed(versions: Iterable[str]) -> str:
    return ", ".join(sorted(set(versions), key=numbers))


# ------------------------------------------------------------------------------------------------------- one release


def release(matrix: Matrix, row: Release) -> Sheet:
    """Return everything about one release; first its card and the titles of its bugs."""
    lines = list(_release_lines(row, with_gpu(matrix, row)))
    if cpu := cpu_twin(matrix, row):
        lines.insert(0, ("package", f"{row.package}: {cpu.package} {cpu.version} is the build without CUDA"))
    blocks = tuple(_block(issue) for issue in row.known_issues)
    few = card((label, _first(text)) if label.startswith("[") else (label, text) for label, text in lines)
    titles = tuple(block._replace(lines=(), docs="") for block in blocks)
    bugs: tuple[Part, ...] = (note(_BUGS), *titles) if titles else ()
    brief: tuple[Part, ...] = (few, *bugs, sources(row.sources, documents_only=True))
    whole: tuple[Part, ...] = (card(lines), *blocks, sources(row.sources))
    return Sheet(f"{row.package} {row.version}", f"for {row.platform}", whole, brief)


def _first(text: str) -> str:
    """Return the first of many requirements."""
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
    names = ("numpy", "protobuf", "keras", "ml_dtypes")
    if bounds := [f"{name}{bound}" for name in names if (bound := getattr(row, name)) is not None]:
        yield "needs", "; ".join(bounds)
    for python, others in row.bounds_by_python.items():
        yield "", f"on Python {python}: " + "; ".join(f"{name}{bound}" for name, bound in others.items())
    if row.glibc:
        yield "glibc", f"{row.glibc} or newer"
    if row.macos:
        yield "macOS", f"{row.macos} or newer"
    if row.extra:
        yield f"[{row.extra}]", "; ".join(f"{name}{bound}" for name, bound in row.pip_nvidia.items())


def _build_lines(row: Release) -> Iterator[tuple[str, str]]:
    yield "built for", f"CUDA {row.cuda}, cuDNN {row.cudnn or _UNKNOWN}"
    yield "kernels", f"SASS for {', '.join(row.sass) or _UNKNOWN}; PTX for {', '.join(row.ptx) or 'none'}"
    linux, windows = row.min_driver_linux or _UNKNOWN, row.min_driver_windows or _UNKNOWN
    is_windows = row.platform.startswith("windows")
    yield "driver", f"{windows} or newer" if is_windows else f"{linux} or newer; under WSL2 {windows} on Windows"
    if by_ptx := "; ".join(_by_ptx(row)):
        yield "by PTX", by_ptx
    loads = ", ".join(library.soname for library in row.libraries) or _UNKNOWN
    yield "loads", loads + (" (linked: without them the import fails)" if row.linked else "")


def _by_ptx(row: Release) -> Iterator[str]:
    """Yield the GPUs for which parts have no SASS; Jetson modules have JetPack's."""
    groups: dict[PtxOnly, list[str]] = {}
    for gpu, found in row.ptx_only.items():
        if not is_tegra(gpu):
            groups.setdefault(found, []).append(gpu)
    for found, gpus in groups.items():
        share = "all" if found.fat_binaries == found.of else f"{found.fat_binaries} of {found.of} fat binaries"
        yield f"{', '.join(gpus)}: {share}, PTX {found.isa}, driver {oldest_driver(row, gpus) or _UNKNOWN}"


def _block(issue: KnownIssue) -> Block:
    where = issue.condition
    low, high = where.min_compute_capability, where.max_compute_capability
    span = f"{low} or newer" if low and not high else f"up to {high}" if not low else f"{low} to {high}"
    when = (
        f"Python {where.python}" if where.python else "",
        f"cuDNN {where.cudnn}" if where.cudnn else "",
        f"ptxas {where.ptxas}" if where.ptxas else "",
        "CUDA from the pip extra" if where.extra else "",
        *(f"with {name} {bound}" for name, bound in where.beside.items()),
        f"a processor without {where.cpu_lacks.upper()}" if where.cpu_lacks else "",
        f"compute capability {low if low == high else span}" if low or high else "",
    )
    condition = ", ".join(filter(None, when))
    lines = [Line("when", condition)] if condition else []
    lines += [Line("symptom", issue.symptom), Line("fix", issue.fix, commands=issue.commands)]
    return Block(issue.severity, issue.title, tuple(lines), (issue.id,), issue.source)


# ---------------------------------------------------------------------------------------------- CUDA, cuDNN and GPUs


def cuda(answer: CudaAnswer) -> Sheet:
    """Return one toolkit."""
    asked = f"for {answer.asked}, of which the matrix has no row" if answer.asked else ""
    major, short = answer.version.split(".")[0], ".".join(answer.version.split(".")[:2])
    windows = f"Windows {answer.min_driver_windows}" if answer.min_driver_windows else "for Windows it is unknown"
    oldest = f"Linux {answer.min_driver_linux or _UNKNOWN}, {windows}: the oldest for all of CUDA {answer.version}"
    least = f"the same: CUDA {major} has no minor-version compatibility"
    if answer.minor_compat_min_linux or answer.minor_compat_min_windows:
        linux, windows = answer.minor_compat_min_linux or _UNKNOWN, answer.minor_compat_min_windows or _UNKNOWN
        least = f"Linux {linux}, Windows {windows}: with these, any CUDA {major} program runs, PTX excepted"
    lines = [
        ("driver", oldest),
        ("at least", least),
        ("SASS for", ", ".join(answer.compute_capabilities) or _UNKNOWN),
        ("cuDNN", minor_ranges(answer.cudnn) or "none that the matrix knows"),
        ("TensorFlow", ", ".join(answer.tensorflow) or f"no wheel is built for CUDA {short}"),
    ]
    if answer.conda:
        lines.append(("conda-forge", f"builds for CUDA {short} of TensorFlow {', '.join(answer.conda)}"))
    return Sheet(f"CUDA {answer.version}", asked, (card(lines), sources(answer.sources)))


def cudas(answers: Sequence[CudaAnswer]) -> Sheet:
    """Return all toolkits, newest first."""
    rows = (
        (
            answer.version,
            answer.min_driver_linux or "?",
            answer.minor_compat_min_linux or answer.min_driver_linux or "?",
            answer.min_driver_windows or "?",
            f"{answer.first_compute_capability or '?'} to {answer.last_compute_capability or '?'}",
        )
        for answer in answers
    )
    legend = "at least: the oldest Linux driver that runs its programs (minor-version compatibility); ?: unknown"
    shown = table(("CUDA", "Linux driver", "at least", "Windows driver", "SASS for"), rows)
    return Sheet("CUDA toolkits", "", (shown, note(legend)))


def cudnn(answer: CudnnAnswer) -> Sheet:
    """Return one cuDNN line."""
    floors = answer.min_compute_capability_by_cuda
    lines = [(f"CUDA {major}", f"compute capability {floors[major]} and newer") for major in answer.cuda_majors]
    if dropped := ", ".join(answer.last_for_compute_capabilities):
        names = f"{', '.join(answer.last_for)} " if answer.last_for else ""
        lines.append(("last for", f"{names}({dropped}): later versions have dropped them"))
    lines.append(("TensorFlow", ", ".join(answer.tensorflow) or "none is compiled against it"))
    return Sheet(f"cuDNN {answer.version}", "", (card(lines), sources(answer.sources)))


def cudnns(answers: Sequence[CudnnAnswer]) -> Sheet:
    """Return all cuDNN lines, newest first."""
    rows = []
    for answer in answers:
        floors = answer.min_compute_capability_by_cuda
        each = ", ".join(f"{floors[major]} (CUDA {major})" for major in answer.cuda_majors)
        floor = answer.min_compute_capability if len(set(floors.values())) == 1 else each
        rows.append((answer.version, ", ".join(answer.cuda_majors), floor, ", ".join(answer.last_for)))
    return Sheet("cuDNN versions", "", (table(("cuDNN", "CUDA", "GPUs from", "last for"), rows),))


def gpu(answer: GpuAnswer) -> Sheet:
    """Return one GPU, or one compute capability."""
    capability = f"compute capability {answer.compute_capability}"
    detail = ", ".join(filter(None, [capability if answer.name else "", answer.architecture]))
    parts = (card(_gpu_lines(answer)), sources(answer.sources))
    return Sheet(answer.name or capability, detail, parts)


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
    if answer.newest_tensorflow is None:
        yield "TensorFlow", f"no release for {answer.platform} has working kernels for it"
    else:
        newest = "newest working release" if answer.newest_tensorflow != answer.tensorflow[0] else "newest"
        where = f"the {newest} for {answer.platform}"
        yield "TensorFlow", f"{answer.newest_tensorflow} is {where}; all: {minor_ranges(answer.tensorflow)}"
    if answer.tensorflow_ptx:
        by_ptx = minor_ranges(answer.tensorflow_ptx)
        yield "by PTX", f"{by_ptx}: the driver would compile every kernel at first use"
    for issue in answer.broken:
        yield "broken", f"{minor_ranges(issue.tensorflow)}: {issue.title} ({issue.id})"
    if answer.peak:
        rates = ", ".join(f"{name} {rate:g}" for name, rate in answer.peak.items())
        yield "peak", f"FLOP per clock cycle and multiprocessor: {rates}"


def gpus(rows: Sequence[GpuRow]) -> Sheet:
    """Return all GPUs; first a line for each compute capability, with its first names."""
    head = ("GPU", "cc", "architecture", "driver branches")
    every = [(row.name, row.compute_capability, row.architecture or "?", _branches(row)) for row in rows]
    groups: dict[str, list[GpuRow]] = {}
    for row in rows:
        groups.setdefault(row.compute_capability, []).append(row)
    few = [
        (capability, group[0].architecture or "?", str(len(group)), ", ".join(row.name for row in group[:3]))
        for capability, group in groups.items()
    ]
    legend = "cc: compute capability; -v lists every name with its drivers, --compute-capability 8.9 those of one"
    brief = (table(("cc", "architecture", "names", "such as"), few), note(legend))
    return Sheet("GPUs", f"{len(rows)} names", (table(head, every), note("cc: compute capability")), brief)


def _branches(row: GpuRow | GpuAnswer) -> str:
    """Return the span of driver branches; what is a lower bound is shown as one."""
    first, last, bound = row.first_driver_branch, row.last_driver_branch, row.driver_at_least
    if first:
        return f"{first} to {last}" if last else f"{first} and newer"
    known = (f"at least {bound}" if bound else "", f"up to {last}" if last else "")
    return ", ".join(filter(None, known)) or "unknown"


# ---------------------------------------------------------------------------------------------- rows of any other table


def rows(key: str, found: Sequence[Found]) -> Sheet:
    """Return the rows of that name, each with its sources; of many, first their tables and names."""
    parts: list[Part] = []
    for one in found:
        fields = ((field.replace("_", " "), _text(value)) for field, value in one.row.items())
        parts += (card((("table", one.table), *fields)), sources(one.sources, documents_only=True))
    names = table(("table", "row"), ((one.table, one.name) for one in found))
    brief = (names, note("-v shows the rows")) if len(found) > _FEW else ()
    return Sheet(key, f"{len(found)} row{'s' if len(found) > 1 else ''}", tuple(parts), brief)


def _text(value: Any) -> str:
    """Return a value of a row: lists by commas, mappings by semicolons."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_text(each)}" for name, each in value.items() if each not in (None, [], {}))
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def about(answer: About) -> Sheet:
    """Return every table; with its sources where everything is shown."""
    cells, blocks = [], []
    for one in answer.tables:
        titles = [source.title for source in one.sources]
        source = titles[0] if len(titles) == 1 else f"{len(titles)} sources, by hand" if titles else "-"
        by = f"derived by {one.derived_by}" if one.derived_by else source
        cells.append((one.name, str(one.rows), one.updated or "?", by))
        if titles:
            lines = (Line("source", f"{source.title} ({source.rows})") for source in one.sources)
            blocks.append(Block("note", one.name, tuple(lines)))
    layers = f", with {', '.join(answer.layers)} over it" if answer.layers else ""
    shown = table(("table", "rows", "updated", "source"), cells)
    hint = note("updated: when it was last held to its sources; -v lists them all")
    detail = f"revision {answer.revision}, {answer.rows} rows{layers}"
    return Sheet("Compatibility matrix", detail, (shown, *blocks), (shown, hint))
