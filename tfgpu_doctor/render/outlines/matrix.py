"""Answers of the matrix for people: the fields of one row by their names in JSON, tables of many rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor import __version__
from tfgpu_doctor.facts.facts import encode
from tfgpu_doctor.facts.versions import minor, numbers
from tfgpu_doctor.matrix.compatibility import is_tegra
from tfgpu_doctor.matrix.loader import KnownIssue, Matrix, Release
from tfgpu_doctor.matrix.queries import Filters, also_load, cards, known_broken, min_driver, only_with, with_gpu
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.shapes import Block, Items, Line, Page, Part, Table

_COMMAND = "tfgpu matrix"
_BUGS = "Known bugs, some of them only on certain machines; -v shows when, what is seen, and the fix:"
_MANY, _FEW = 20, 5  # rows of a list that fit a screen; rows of any table that a first screen shows whole

Row: TypeAlias = Mapping[str, Any]  # an answer of matrix/tables.py


class Answered(NamedTuple):
    """An answer for people, and as data; `brief` is what its first screen shows, where that is less."""

    title: str
    detail: str
    parts: tuple[Part, ...]
    brief: tuple[Part, ...] = ()
    answer: Any = None
    revision: str = ""  # of the matrix

    def to_json(self) -> bytes:
        """Encode the answer alone."""
        return encode(self.answer)

    def __repr__(self) -> str:
        """Return a line."""
        return f"<Answered: {self.title}>"

    def _repr_html_(self) -> str:
        from tfgpu_doctor.render.html.page import fragment

        return fragment(page(self))


def page(answered: Answered, detail: formats.Detail = "shared") -> Page:
    """Return the whole answer, or its first screen."""
    about = f"{_COMMAND} {__version__}, matrix of {answered.revision}"
    whole = Page(_COMMAND, (about,), "note", answered.title, answered.detail, answered.parts)
    if detail == "shared":
        return whole
    parts = answered.parts if detail == "full" else answered.brief or answered.parts
    return whole._replace(mark="", parts=parts, is_brief=True)


def _note(*sentences: str) -> Items:
    return Items(sentences)


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    return Table("", tuple(head), tuple(map(tuple, rows)))


_OF_RELEASES = ("tensorflow", "tensorflow_ptx", "cudnn")  # long lists of versions
_NOT_ON_CARDS = ("known_issues", "sources", "same_compute_capability")
_IN_HEADING = ("version", "package", "platform")  # of a release


def _card(answer: Row) -> Table:
    """Return the fields of an answer by their names in JSON; one without a value is left out."""
    shown = {name: value for name, value in answer.items() if name not in _NOT_ON_CARDS}
    lists = {name: minor_ranges(shown[name]) for name in _OF_RELEASES if isinstance(shown.get(name), list | tuple)}
    texts = ((name.replace("_", " "), _text(value)) for name, value in (shown | lists).items())
    return _table(("What", "Answer"), (pair for pair in texts if pair[1]))


def _text(value: Any) -> str:
    """Return a value of a row: lists by commas, mappings by semicolons."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_text(each)}" for name, each in value.items() if _text(each))
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:g}" if isinstance(value, float) else str(value)


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


# ------------------------------------------------------------------------------------------------ TensorFlow's releases


def releases_page(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Answered:
    """Return the releases that satisfy the filters, newest first, and what is worth knowing beside them."""
    first: dict[tuple[str, str], Release] = {}
    for row in rows:
        first.setdefault((minor(row.version), row.platform), row)
    notes = tuple(_notes(matrix, filters, rows))
    shown = (_release_table(matrix, rows, filters),) if rows else ()
    whole = Answered("TensorFlow releases", f"for {filters.platform or 'all platforms'}", (*shown, *notes))
    if len(rows) <= _MANY or len(first) == len(rows):
        return whole
    cut = _note(f"the newest of each minor version; -v lists all {len(rows)}")
    return whole._replace(brief=(_release_table(matrix, [*first.values()], filters), cut, *notes))


def _release_table(matrix: Matrix, rows: Sequence[Release], filters: Filters) -> Table:
    """Return the columns that differ, or have a value; "-": a build without CUDA, or without PTX."""
    cells = [_cells(row, min_driver(matrix, row, filters)) for row in rows]
    values = {name: {row[name] for row in cells} for name in cells[0]}
    useless = {name for name in values if values[name] in ({"-"}, {"tensorflow"}, {filters.platform})} - {"CUDA"}
    head = [name for name in values if name not in useless]
    return _table(head, ([row[name] for name in head] for row in cells))


def _cells(row: Release, driver: str | None) -> dict[str, str]:
    unknown = "?" if row.gpu else "-"
    return {
        "release": row.version,
        "package": row.package,
        "platform": row.platform,
        "Python": minor_ranges(row.python).replace(" to ", "-"),  # columns are narrow
        "CUDA": row.cuda or "-",
        "cuDNN": row.cudnn or unknown,
        "driver": driver or unknown,
        "SASS": " ".join(row.sass) or unknown,
        "PTX": " ".join(row.ptx) or "-",
    }


def _notes(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Iterator[Items]:
    """Yield what is worth knowing beside the rows."""
    if not rows:
        named = f" --gpu '{filters.gpu}'" if filters.gpu else ""
        yield _note(
            f"No release satisfies all of this. tfgpu plan{named} shows what can be installed, and why not more."
        )
    if others := also_load(matrix, filters):
        built = ", ".join(sorted({row.cuda or "" for row in others}, key=numbers))
        found = f"{minor_ranges(row.version for row in others)}, built for CUDA {built}"
        yield _note(f"Also load CUDA {filters.cuda}'s libraries, by the same names: {found}.")
    yield from _notes_on_kernels(matrix, filters, rows)
    if filters.wsl2:
        yield _note(
            "The driver is that of Windows, with the numbers of Windows; Linux under WSL2 gets none of its own. CUDA "
            "comes from the extra: tfgpu plan --os wsl2 has the commands."
        )


def _notes_on_kernels(matrix: Matrix, filters: Filters, rows: Sequence[Release]) -> Iterator[Items]:
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
    found_in = [
        (row, issue)
        for row in rows
        for issue in matrix.issues_for(row, python=filters.python, compute_capabilities=gpus, extra=True)
        if issue.severity == "error"
    ]
    errors = (f"{versions}: {issue.title} ({issue.id})" for issue, versions in _by_issue(found_in))
    yield Items(tuple(errors), "Known errors; --version shows the way out")


def _by_issue(broken: Iterable[tuple[Release, KnownIssue]]) -> list[tuple[KnownIssue, str]]:
    """Return each issue once, with the releases that have it."""
    found: dict[str, tuple[KnownIssue, list[str]]] = {}
    for row, issue in broken:
        found.setdefault(issue.id, (issue, []))[1].append(row.version)
    return [(issue, minor_ranges(versions)) for issue, versions in found.values()]


def release(matrix: Matrix, row: Release) -> Answered:
    """Return everything about one release; first its card and the titles of its bugs."""
    ptx: dict[str, list[str]] = {}
    for gpu, one in row.ptx_only.items():
        if not is_tegra(gpu):  # Jetson modules have JetPack's
            ptx.setdefault(f"PTX {one.isa} of CUDA {one.cuda}", []).append(gpu)
    shown = {name: value for name, value in structs.asdict(row).items() if name not in _IN_HEADING}
    shown |= {"ptx_only": ptx, "libraries": [library.soname for library in row.libraries]}
    count = f"{len(row.pip_nvidia)} of NVIDIA's packages; -v lists them" if row.pip_nvidia else None
    sentences = [] if row.gpu else ["This build holds no CUDA code."]
    if twin := with_gpu(matrix, row):
        sentences.append(f"{twin.package} {row.version} is the one for GPUs.")
    blocks = tuple(_block(issue) for issue in row.known_issues)
    titles = tuple(block._replace(lines=(), docs="") for block in blocks)
    bugs: tuple[Part, ...] = (_note(_BUGS), *titles) if titles else ()
    return Answered(
        f"{row.package} {row.version}",
        f"for {row.platform}",
        (_card(shown), _note(*sentences), *blocks, _sources(row.sources)),
        (_card({**shown, "pip_nvidia": count}), _note(*sentences), *bugs, _sources(row.sources, documents_only=True)),
    )


def _block(issue: KnownIssue) -> Block:
    of_release = ("versions", "packages", "platforms")
    when = {
        name.replace("_", " "): one for name, one in structs.asdict(issue.condition).items() if name not in of_release
    }
    lines = [Line("when", _text(when)), Line("symptom", issue.symptom), Line("fix", issue.fix, commands=issue.commands)]
    return Block(issue.severity, issue.title, tuple(line for line in lines if line.text), (issue.id,), issue.source)


# -------------------------------------------------------------------------------------- CUDA, cuDNN, GPUs, other tables

# of a list: heading and field
_COLUMNS = {
    "CUDA": {
        "CUDA": "version",
        "Linux driver": "min_driver_linux",
        "at least, Linux": "minor_compat_min_linux",
        "Windows driver": "min_driver_windows",
        "at least, Windows": "minor_compat_min_windows",
    },
    "cuDNN": {
        "cuDNN": "version",
        "CUDA": "cuda_majors",
        "GPUs from, by CUDA": "min_compute_capability_by_cuda",
        "last for": "last_for",
    },
}
_LEGENDS = {
    "CUDA": "at least (minor compat min): the oldest driver that runs any program of this major version, PTX excepted "
    "(minor-version compatibility); without it, programs need the driver of their toolkit",
    "cuDNN": "GPUs from (min compute capability): the oldest GPU; last for: later versions have dropped these",
}


def card(table: str, answer: Row) -> Answered:
    """Return one toolkit, or one cuDNN line."""
    asked = f"for {answer['asked']}, of which the matrix has no row" if answer.get("asked") else ""
    shown = (_card(answer), _note(_LEGENDS[table]), _sources(answer["sources"]))
    return Answered(f"{table} {answer['version']}", asked, shown)


def listing(table: str, answers: Sequence[Row]) -> Answered:
    """Return all toolkits, or all cuDNN lines, newest first."""
    columns = _COLUMNS[table]
    shown = _table(columns, ([_text(answer[field]) or "-" for field in columns.values()] for answer in answers))
    return Answered(f"{table} versions", "", (shown, _note(_LEGENDS[table])))


def gpu(answer: Row) -> Answered:
    """Return one GPU, or one compute capability."""
    sentences = []
    if answer["newest_tensorflow"] is None:
        sentences.append(f"No wheel for {answer['platform']} has kernels that work on it; other builds: tfgpu plan")
    elif (newer := answer["tensorflow"][0]) != answer["newest_tensorflow"]:
        sentences.append(f"{newer} is passed over: tfgpu matrix tensorflow --version {newer} shows its known errors")
    if answer["tensorflow_ptx"]:
        sentences.append("tensorflow ptx: releases whose kernels the driver would have to compile at first use")
    if is_tegra(answer["compute_capability"]):
        sentences.append("The driver, CUDA and cuDNN are part of NVIDIA JetPack: tfgpu matrix find 6.1")
    if answer["peak"]:
        sentences.append("peak: FLOP per clock cycle and multiprocessor")
    broken = [f"{minor_ranges(one['tensorflow'])}: {one['title']} ({one['id']})" for one in answer["broken"]]
    names = () if answer["name"] else answer["same_compute_capability"]
    shown = (_card({**answer, "broken": broken, "names": names}), _note(*sentences), _sources(answer["sources"]))
    return Answered(answer["name"] or f"compute capability {answer['compute_capability']}", "", shown)


def gpus(rows: Sequence[Row]) -> Answered:
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
    return Answered("GPUs", f"{len(rows)} names", (_table(head, every), _note("cc: compute capability")), brief)


def _branches(row: Row) -> str:
    """Return the span of driver branches; what is a lower bound is shown as one."""
    first, last, bound = row["first_driver_branch"], row["last_driver_branch"], row["driver_at_least"]
    if first:
        return f"{first} to {last}" if last else f"{first} and newer"
    known = (f"at least {bound}" if bound else "", f"up to {last}" if last else "")
    return ", ".join(filter(None, known)) or "unknown"


def rows(key: str, found: Sequence[Row]) -> Answered:
    """Return the rows of that name in any other table, with their sources; of many, first tables and names."""
    parts: list[Part] = []
    for one in found:
        parts += (_card({"table": one["table"], **one["row"]}), _sources(one["sources"], documents_only=True))
    names = _table(("table", "row"), ((one["table"], one["name"]) for one in found))
    brief = (names, _note("-v shows the rows")) if len(found) > _FEW else ()
    return Answered(key, f"{len(found)} row{'s' if len(found) > 1 else ''}", tuple(parts), brief)


def about(answer: Row) -> Answered:
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
    return Answered("Compatibility matrix", detail, (shown, *blocks), (shown, hint))
