"""Answers of the matrix for people: cards of one row, tables of many, and what a list of releases leaves out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from packaging.version import Version

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.facts import encode
from tfgpu_doctor.facts.versions import minor, numbers
from tfgpu_doctor.matrix.compatibility import is_tegra, oldest_driver
from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release
from tfgpu_doctor.matrix.queries import (
    Filters,
    also_load,
    cards,
    known_broken,
    min_driver,
    only_with,
    with_gpu,
)
from tfgpu_doctor.matrix.rows import PtxOnly
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.shapes import Block, Items, Line, Page, Part, Table

_COMMAND, _UNKNOWN = "tfgpu matrix", "unknown"
_BUGS = "Known bugs, some of them only on certain machines; -v shows when, what is seen, and the fix:"
_MANY, _FEW = 20, 5  # rows of a list that fit a screen; rows of any table that a first screen shows whole

Row: TypeAlias = Mapping[str, Any]  # an answer of matrix/tables.py


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
        parts = tuple(part for part in parts if isinstance(part, Table) and not part.is_folded)
    return whole._replace(mark="", parts=parts, is_brief=True)


def _card(lines: Iterable[tuple[str, str]]) -> Table:
    """Return labels with their texts; an empty label goes on with the one above, and an empty text is left out."""
    return Table("", ("What", "Answer"), tuple((label, text) for label, text in lines if text))


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    return Table("", tuple(head), tuple(map(tuple, rows)))


def _note(text: str) -> Items:
    return Items((text,))


def _listed(words: Iterable[str | None], otherwise: str = "") -> str:
    return ", ".join(filter(None, words)) or otherwise


def _sources(read: Mapping[str, str], documents_only: bool = False) -> Table:
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
    return Table("Sources", ("Document", "Read there"), tuple(rows), is_folded=True)


# ------------------------------------------------------------------------------------------------ a list of releases


def releases_page(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Sheet:
    """Return the releases that satisfy the filters, newest first, and what is worth knowing beside them."""
    first: dict[tuple[str, str], Release] = {}
    for row in rows:
        first.setdefault((minor(row.version), row.platform), row)
    notes = tuple(_notes(matrix, filters, rows))
    named = matrix.gpu(filters.gpu) if filters.gpu else None
    asked = (
        f"for {filters.platform or 'all platforms'}{' under WSL2' * filters.wsl2}",
        filters.python and f"with a wheel for Python {filters.python}",
        filters.cuda and f"built for CUDA {filters.cuda}",
        filters.cudnn and f"cuDNN {filters.cudnn}",
        filters.driver and f"on driver {filters.driver}",
        filters.compute_capability and f"with kernels for {filters.compute_capability}",
        f"with kernels for {named.name} ({named.compute_capability})" if named else None,
    )
    shown = (_release_table(matrix, rows, filters),) if rows else ()
    sheet = Sheet("TensorFlow releases", _listed(asked), (*shown, *notes))
    if len(rows) <= _MANY or len(first) == len(rows):
        return sheet
    cut = _note(f"the newest of each minor version; -v lists all {len(rows)}")
    return sheet._replace(brief=(_release_table(matrix, [*first.values()], filters), cut, *notes))


def _release_table(matrix: Matrix, rows: Sequence[Release], filters: Filters) -> Table:
    """Return columns without those that would say the same in every row."""
    cells = [_cells(row, min_driver(matrix, row, filters)) for row in rows]
    alike = {"package"} if {row.package for row in rows} == {"tensorflow"} else set()
    alike |= {"platform"} if len({row.platform for row in rows}) == 1 else set()
    alike |= {"GPU"} if any(row.gpu for row in rows) else {"CUDA", "cuDNN", "driver", "SASS", "PTX"}
    shown = [name for name in cells[0] if name not in alike]
    return _table(shown, ([row[name] for name in shown] for row in cells))


def _cells(row: Release, driver: str | None) -> dict[str, str]:
    none = "?" if row.gpu else "-"
    return {
        "release": row.version,
        "package": row.package,
        "platform": row.platform,
        "Python": _span(row.python),
        "GPU": "no",
        "CUDA": row.cuda or "-",
        "cuDNN": row.cudnn or none,
        "driver": driver or none,
        "SASS": " ".join(row.sass) or none,
        "PTX": " ".join(row.ptx) or "-",
    }


def _span(versions: Sequence[str]) -> str:
    """Shorten consecutive minor versions: "3.9-3.12"."""
    minors = [numbers(version)[-1] for version in versions]
    whole = len(versions) > 2 and minors[-1] - minors[0] == len(versions) - 1
    return f"{versions[0]}-{versions[-1]}" if whole else ", ".join(versions)


def _notes(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Iterator[Items]:
    """Yield what is worth knowing beside the rows."""
    if not rows:
        named = f" --gpu '{filters.gpu}'" if filters.gpu else ""
        plan = f"tfgpu plan{named} shows what can be installed, and why not more."
        yield _note(f"No release satisfies all of this. {plan}")
    if others := also_load(matrix, filters):
        built = ", ".join(sorted({row.cuda or "" for row in others}, key=numbers))
        found = f"{minor_ranges(row.version for row in others)}, built for CUDA {built}"
        yield _note(f"Also load CUDA {filters.cuda}'s libraries, by the same names: {found}.")
    yield from _notes_on_bugs(matrix, filters, rows)
    if filters.wsl2:
        yield _note(
            "The driver is that of Windows, with the numbers of Windows; Linux under WSL2 gets none of its own. CUDA "
            "comes from the extra: tfgpu plan --os wsl2 has the commands."
        )


def _notes_on_bugs(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Iterator[Items]:
    gpus = cards(matrix, filters)
    asked = ", ".join(gpus)
    if asked and not filters.ptx and (slow := only_with(matrix, filters, ptx=True)):
        yield _note(
            f"By PTX only, listed with --ptx: {minor_ranges(row.version for row in slow)}. These have no machine code "
            f"(SASS) for {asked}: the driver would compile every kernel at first use, which takes long, and CUDA's own "
            "libraries may have nothing for such a GPU at all."
        )
    for issue, broken in _by_issue(known_broken(matrix, filters)):
        yield _note(f"Known broken on {asked}: {broken}: {issue.title} ({issue.id}). {issue.fix}.")
    found = list[tuple[Release, KnownIssue]]()
    for row in rows:
        issues = matrix.issues_for(row, python=filters.python, compute_capabilities=gpus, extra=True)
        found += [(row, issue) for issue in issues if issue.severity == "error"]
    errors = (f"{versions}: {issue.title} ({issue.id})" for issue, versions in _by_issue(found))
    yield Items(tuple(errors), "Known errors; --version shows the way out")


def _by_issue(broken: Iterable[tuple[Release, KnownIssue]]) -> list[tuple[KnownIssue, str]]:
    """Return each issue once, with the releases that have it."""
    found: dict[str, tuple[KnownIssue, list[str]]] = {}
    for row, issue in broken:
        found.setdefault(issue.id, (issue, []))[1].append(row.version)
    return [(issue, minor_ranges(versions)) for issue, versions in found.values()]


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


# ------------------------------------------------------------------------------------------------------- one release


def release(matrix: Matrix, row: Release) -> Sheet:
    """Return everything about one release; first its card and the titles of its bugs."""
    lines = [*_release_lines(matrix, row)]
    count = f"{len(row.pip_nvidia)} of NVIDIA's packages; -v lists them"
    few = ((label, count if text and label.startswith("[") else text) for label, text in lines)
    blocks = tuple(_block(issue) for issue in row.known_issues)
    titles = tuple(block._replace(lines=(), docs="") for block in blocks)
    bugs: tuple[Part, ...] = (_note(_BUGS), *titles) if titles else ()
    return Sheet(
        f"{row.package} {row.version}",
        f"for {row.platform}",
        (_card(lines), *blocks, _sources(row.sources)),
        (_card(few), *bugs, _sources(row.sources, documents_only=True)),
    )


def _release_lines(matrix: Matrix, row: Release) -> Iterator[tuple[str, str]]:
    if row.gpu:
        yield from _build_lines(row)
    else:
        twin = with_gpu(matrix, row)
        yield "GPU", "none: this build holds no CUDA code" + (f"; {twin.package} {row.version} does" if twin else "")
    yield "installs", f"nothing of its own: it requires {row.redirects}" if row.redirects else ""
    yield "yanked", row.yanked or ""
    yield "Python", ", ".join(row.python)
    names = ("numpy", "protobuf", "keras", "ml_dtypes")
    yield "needs", "; ".join(f"{name}{bound}" for name in names if (bound := getattr(row, name)) is not None)
    for python, others in row.bounds_by_python.items():
        yield "", f"on Python {python}: " + "; ".join(f"{name}{bound}" for name, bound in others.items())
    yield "glibc", f"{row.glibc} or newer" if row.glibc else ""
    yield "macOS", f"{row.macos} or newer" if row.macos else ""
    yield f"[{row.extra}]", "; ".join(f"{name}{bound}" for name, bound in row.pip_nvidia.items()) if row.extra else ""


def _build_lines(row: Release) -> Iterator[tuple[str, str]]:
    yield "built for", f"CUDA {row.cuda}, cuDNN {row.cudnn or _UNKNOWN}"
    yield "kernels", f"SASS for {_listed(row.sass, _UNKNOWN)}; PTX for {_listed(row.ptx, 'none')}"
    linux, windows = row.min_driver_linux or _UNKNOWN, row.min_driver_windows or _UNKNOWN
    is_windows = row.platform.startswith("windows")
    yield "driver", f"{windows} or newer" if is_windows else f"{linux} or newer; under WSL2 {windows} on Windows"
    groups: dict[PtxOnly, list[str]] = {}
    for gpu, found in row.ptx_only.items():
        if not is_tegra(gpu):  # Jetson modules have JetPack's
            groups.setdefault(found, []).append(gpu)
    shares = {one: f"{one.fat_binaries} of {one.of} fat binaries" for one in groups}
    yield (
        "by PTX",
        "; ".join(
            f"{', '.join(gpus)}: {shares[one] if one.fat_binaries < one.of else 'all'}, PTX {one.isa}, "
            f"driver {oldest_driver(row, gpus) or _UNKNOWN}"
            for one, gpus in groups.items()
        ),
    )
    loads = _listed((library.soname for library in row.libraries), _UNKNOWN)
    yield "loads", loads + (" (linked: without them the import fails)" if row.linked else "")


def _block(issue: KnownIssue) -> Block:
    where = issue.condition
    low, high = where.min_compute_capability, where.max_compute_capability
    span = f"{low} or newer" if not high else f"up to {high}" if not low else low if low == high else f"{low} to {high}"
    condition = _listed(
        (
            where.python and f"Python {where.python}",
            where.cudnn and f"cuDNN {where.cudnn}",
            where.ptxas and f"ptxas {where.ptxas}",
            (where.extra and "CUDA from the pip extra") or None,
            *(f"with {name} {bound}" for name, bound in where.beside.items()),
            where.cpu_lacks and f"a processor without {where.cpu_lacks.upper()}",
            (low or high) and f"compute capability {span}",
        )
    )
    lines = [Line("when", condition)] if condition else []
    lines += [Line("symptom", issue.symptom), Line("fix", issue.fix, commands=issue.commands)]
    return Block(issue.severity, issue.title, tuple(lines), (issue.id,), issue.source)


# ---------------------------------------------------------------------------------------------- CUDA, cuDNN and GPUs

# of a table: label, field, and what stands for no value; a list has the first columns, up to so many
_FIELDS = {
    "CUDA": (
        ("CUDA", "version", ""),
        ("Linux driver", "min_driver_linux", "?"),
        ("at least, Linux", "minor_compat_min_linux", "-"),
        ("Windows driver", "min_driver_windows", "?"),
        ("at least, Windows", "minor_compat_min_windows", "-"),
        ("SASS for", "compute_capabilities", "?"),
        ("cuDNN", "cudnn", "none that the matrix knows"),
        ("TensorFlow", "tensorflow", "no wheel is built for it"),
        ("conda-forge", "conda", ""),
    ),
    "cuDNN": (
        ("cuDNN", "version", ""),
        ("CUDA", "cuda_majors", "?"),
        ("GPUs from, by CUDA", "min_compute_capability_by_cuda", "?"),
        ("last for", "last_for", ""),
        ("last for GPUs of", "last_for_compute_capabilities", ""),
        ("TensorFlow", "tensorflow", "none is compiled against it"),
    ),
}
_COLUMNS = 5
_LEGENDS = {
    "CUDA": "at least: the oldest driver that runs any program of this major version, PTX excepted (minor-version "
    "compatibility); -: programs need the driver beside it; ?: unknown",
    "cuDNN": "GPUs from: the oldest compute capability; last for: later versions have dropped these",
}


def card(table: str, answer: Row) -> Sheet:
    """Return one toolkit, or one cuDNN line."""
    asked = f"for {answer['asked']}, of which the matrix has no row" if answer.get("asked") else ""
    shown = zip((label for label, *_ in _FIELDS[table][1:]), _texts(table, answer)[1:], strict=True)
    return Sheet(
        f"{table} {answer['version']}", asked, (_card(shown), _note(_LEGENDS[table]), _sources(answer["sources"]))
    )


def listing(table: str, answers: Sequence[Row]) -> Sheet:
    """Return all toolkits, or all cuDNN lines, newest first."""
    head = [label for label, *_ in _FIELDS[table][:_COLUMNS]]
    shown = _table(head, (_texts(table, answer)[:_COLUMNS] for answer in answers))
    return Sheet(f"{table} versions", "", (shown, _note(_LEGENDS[table])))


def _texts(table: str, answer: Row) -> list[str]:
    """Return the text of each field; lines of cuDNN as spans."""
    values = {**answer, "cudnn": minor_ranges(answer.get("cudnn", ()))}
    return [_text(values[field]) if values[field] else otherwise for _, field, otherwise in _FIELDS[table]]


def gpu(answer: Row) -> Sheet:
    """Return one GPU, or one compute capability."""
    capability = f"compute capability {answer['compute_capability']}"
    detail = _listed((capability if answer["name"] else None, answer["architecture"]))
    return Sheet(answer["name"] or capability, detail, (_card(_gpu_lines(answer)), _sources(answer["sources"])))


def _gpu_lines(answer: Row) -> Iterator[tuple[str, str]]:
    if answer["name"] is None:
        yield "GPUs", _listed(answer["same_compute_capability"], "none that the matrix knows")
    jetpack = "part of NVIDIA JetPack, as are CUDA and cuDNN: tfgpu matrix find 6.1, with NVIDIA's TensorFlow"
    yield "driver", jetpack if is_tegra(answer["compute_capability"]) else _branches(answer)
    yield "CUDA", f"{answer['first_cuda'] or 'unknown'} to {answer['last_cuda'] or 'today'}"
    last = _listed(f"{line} for CUDA {major}" for major, line in answer["last_cudnn"].items())
    yield "cuDNN", f"up to {last}" if last else ""
    if answer["newest_tensorflow"] is None:
        yield "TensorFlow", f"no release for {answer['platform']} has working kernels for it"
    else:
        newest = "newest working release" if answer["newest_tensorflow"] != answer["tensorflow"][0] else "newest"
        where = f"the {newest} for {answer['platform']}"
        yield "TensorFlow", f"{answer['newest_tensorflow']} is {where}; all: {minor_ranges(answer['tensorflow'])}"
    if answer["tensorflow_ptx"]:
        by_ptx = minor_ranges(answer["tensorflow_ptx"])
        yield "by PTX", f"{by_ptx}: the driver would compile every kernel at first use"
    for issue in answer["broken"]:
        yield "broken", f"{minor_ranges(issue['tensorflow'])}: {issue['title']} ({issue['id']})"
    rates = _listed(f"{name} {rate:g}" for name, rate in (answer["peak"] or {}).items())
    yield "peak", f"FLOP per clock cycle and multiprocessor: {rates}" if rates else ""


def gpus(rows: Sequence[Row]) -> Sheet:
    """Return all GPUs; first a line for each compute capability, with its first names."""
    head = ("GPU", "cc", "architecture", "driver branches")
    every = [(row["name"], row["compute_capability"], row["architecture"] or "?", _branches(row)) for row in rows]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["compute_capability"], []).append(row)
    few = [
        (capability, group[0]["architecture"] or "?", str(len(group)), ", ".join(row["name"] for row in group[:3]))
        for capability, group in groups.items()
    ]
    legend = "cc: compute capability; -v lists every name with its drivers, --compute-capability 8.9 those of one"
    brief = (_table(("cc", "architecture", "names", "such as"), few), _note(legend))
    return Sheet("GPUs", f"{len(rows)} names", (_table(head, every), _note("cc: compute capability")), brief)


def _branches(row: Row) -> str:
    """Return the span of driver branches; what is a lower bound is shown as one."""
    first, last, bound = row["first_driver_branch"], row["last_driver_branch"], row["driver_at_least"]
    if first:
        return f"{first} to {last}" if last else f"{first} and newer"
    known = (f"at least {bound}" if bound else "", f"up to {last}" if last else "")
    return ", ".join(filter(None, known)) or "unknown"


# ---------------------------------------------------------------------------------------------- rows of any other table


def rows(key: str, found: Sequence[Row]) -> Sheet:
    """Return the rows of that name, each with its sources; of many, first their tables and names."""
    parts: list[Part] = []
    for one in found:
        fields = ((field.replace("_", " "), _text(value)) for field, value in one["row"].items())
        parts += (_card((("table", one["table"]), *fields)), _sources(one["sources"], documents_only=True))
    names = _table(("table", "row"), ((one["table"], one["name"]) for one in found))
    brief = (names, _note("-v shows the rows")) if len(found) > _FEW else ()
    return Sheet(key, f"{len(found)} row{'s' if len(found) > 1 else ''}", tuple(parts), brief)


def _text(value: Any) -> str:
    """Return a value of a row: lists by commas, mappings by semicolons."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_text(each)}" for name, each in value.items() if each not in (None, [], {}))
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def about(answer: Row) -> Sheet:
    """Return every table with its sources; first without them."""
    cells, blocks = [], []
    for one in answer["tables"]:
        titles = [f"{source['title']} ({source['rows']})" for source in one["sources"]]
        by = f"derived by {one['derived_by']}" if one["derived_by"] else f"by hand, sources: {len(titles)}"
        cells.append((one["name"], str(one["rows"]), one["updated"] or "?", by))
        blocks += [Block("note", one["name"], tuple(Line("source", title) for title in titles))] if titles else []
    layers = f", with {', '.join(answer['layers'])} over it" if answer["layers"] else ""
    shown = _table(("table", "rows", "updated", "source"), cells)
    hint = _note("updated: when it was last held to its sources; -v lists them all")
    detail = f"revision {answer['revision']}, {answer['rows']} rows{layers}"
    return Sheet("Compatibility matrix", detail, (shown, *blocks), (shown, hint))
