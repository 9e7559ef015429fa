"""Answers of the matrix about container images, JetPacks and itself, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfgpu_doctor.lookup.about import About, Table
from tfgpu_doctor.lookup.containers import ContainerAnswer
from tfgpu_doctor.lookup.jetpacks import JetPackAnswer
from tfgpu_doctor.render.outline import Block, Line
from tfgpu_doctor.render.outlines.matrix import Card, Columns, Legend, Note, Sheet, SheetPart, Sources

_BY_RULE = "read off the tag; nothing says that the image is there"


def container(answer: ContainerAnswer) -> Sheet:
    """One image."""
    notes = tuple(Note(text) for text in answer.notes)
    by = _BY_RULE if answer.by == "rule" else ""
    parts: tuple[SheetPart, ...] = (Card(tuple(_container_lines(answer))), *notes, Sources(answer.sources))
    return Sheet(f"{answer.image}:{answer.tag}", by, parts)


def _container_lines(answer: ContainerAnswer) -> Iterator[tuple[str, str]]:
    values = {
        "TensorFlow": answer.tensorflow,
        "Python": answer.python,
        "CUDA": answer.cuda,
        "cuDNN": answer.cudnn,
        "system": answer.system,
        "JetPack": answer.jetpack,
    }
    yield from ((label, value) for label, value in values.items() if value)
    if answer.min_driver_linux:
        windows = f"; on Windows {answer.min_driver_windows}" if answer.min_driver_windows else ""
        yield "driver", f"{answer.min_driver_linux} or newer{windows}"
    if answer.data_center_branches:
        yield "or branch", f"{', '.join(answer.data_center_branches)}, on data-center GPUs"
    if answer.min_compute_capability:
        yield "GPUs", f"compute capability {answer.min_compute_capability} and newer, says the publisher"
    if answer.compute_capabilities:
        yield "kernels", f"for compute capability {', '.join(answer.compute_capabilities)}"
    if answer.platforms:
        yield "platforms", ", ".join(answer.platforms)


def containers(answers: Sequence[ContainerAnswer]) -> Sheet:
    """All images with TensorFlow, as the matrix has them."""
    columns = {
        "image": [f"{answer.image}:{answer.tag}" for answer in answers],
        "TensorFlow": [(answer.tensorflow or "-").partition("+")[0] for answer in answers],
        "CUDA": [answer.cuda or "-" for answer in answers],
        "cuDNN": [answer.cudnn or "?" for answer in answers],
        "driver": [answer.min_driver_linux or "?" for answer in answers],
    }
    return Sheet("Container images with TensorFlow", "", (Columns(columns), Legend("driver: the oldest on Linux")))


def jetpack(answer: JetPackAnswer) -> Sheet:
    """One JetPack."""
    lines = [
        ("CUDA", answer.cuda or "unknown"),
        ("cuDNN", answer.cudnn or "unknown"),
        ("system", f"Ubuntu {answer.ubuntu} with Python {answer.python}"),
        ("modules", f"compute capability {', '.join(answer.compute_capabilities)}: {', '.join(answer.gpus)}"),
        ("images", ", ".join(answer.images) or "none in the matrix"),
    ]
    commands = tuple(answer.wheels.values())
    fixes = (Line("fix", f"NVIDIA's wheels: {', '.join(answer.wheels)}", commands=commands),) if commands else ()
    none = "NVIDIA has published no TensorFlow wheel for it, as far as is known"
    found = Block("note", "TensorFlow", fixes) if fixes else Note(none)
    title = f"JetPack {answer.version}"
    return Sheet(title, f"Jetson Linux (L4T) {answer.l4t}", (Card(tuple(lines)), found, Sources(answer.sources)))


def jetpacks(answers: Sequence[JetPackAnswer]) -> Sheet:
    """All JetPacks, newest first."""
    columns = {
        "JetPack": [answer.version for answer in answers],
        "L4T": [answer.l4t for answer in answers],
        "CUDA": [answer.cuda or "?" for answer in answers],
        "cuDNN": [answer.cudnn or "?" for answer in answers],
        "Python": [answer.python for answer in answers],
        "NVIDIA's TensorFlow": [", ".join(answer.wheels) or "-" for answer in answers],
    }
    return Sheet("JetPack versions", "", (Columns(columns), Legend("?: unknown; L4T: Jetson Linux")))


def about(answer: About) -> Sheet:
    """Every table; with its sources where everything is shown."""
    columns = {
        "table": [table.name for table in answer.tables],
        "rows": [str(table.rows) for table in answer.tables],
        "updated": [table.updated or "?" for table in answer.tables],
        "source": [_sources(table) for table in answer.tables],
    }
    layers = f", with {', '.join(answer.layers)} over it" if answer.layers else ""
    hint = Legend("updated: when it was last held to its sources; -v lists them all")
    blocks = tuple(
        Block("note", table.name, tuple(Line("source", f"{one.title} ({one.rows})") for one in table.sources))
        for table in answer.tables
        if table.sources
    )
    table = Columns(columns)
    about = f"revision {answer.revision}, {answer.rows} rows{layers}"
    return Sheet("Compatibility matrix", about, (table, *blocks), (table, hint))


def _sources(table: Table) -> str:
    if table.derived_by:
        return f"derived by {table.derived_by}"
    many = len(table.sources)
    return table.sources[0].title if many == 1 else f"{many} sources, by hand" if many else "-"
