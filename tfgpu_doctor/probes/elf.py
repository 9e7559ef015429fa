"""Headers of ELF files: what a shared library is called, needs, and where it searches.

pyelftools reads the format; this module names what the dynamic loader would object to.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal

from tfgpu_doctor.files.reading import open_regular

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

MAGIC = b"\x7fELF"
CLASS_32, BIG_ENDIAN = 1, 2  # of e_ident; no TensorFlow with CUDA is 32-bit, no machine with CUDA big-endian
HEADER = 64  # bytes of a 64-bit ELF header; glibc says "file too short" below it

Effect = Literal["skipped", "ends the list", "fatal", "later"]
"""What glibc's dlopen does about a file: goes on with the next folder (wrong class or machine, dangling link, no
permission), gives up this list of folders (a link that points at itself), or fails for good; "later": it loads,
and fails when it is used. Each was seen with glibc 2.36; `open_verify` and `open_path` in its elf/dl-load.c."""


@dataclass(frozen=True)
class Elf:
    """The dynamic section of a shared library, and the folder that its $ORIGIN stands for."""

    path: str
    machine: str  # "EM_X86_64"
    origin: str
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()  # $ORIGIN resolved; empty when there is a RUNPATH, as the loader then ignores it
    runpath: tuple[str, ...] = ()
    has_runpath: bool = False


@dataclass(frozen=True)
class Refusal:
    """Why the loader does not take a file, and what it does next."""

    problem: str
    effect: Effect


def read(path: str) -> Elf | Refusal:
    """Read the dynamic section of `path`, or say why the loader would refuse the file."""
    try:
        with open_regular(path) as stream:
            return _read(stream, path)
    except FileNotFoundError:
        return Refusal("dangling link" if os.path.islink(path) else "no such file", "skipped")
    except PermissionError:
        return Refusal("permission denied", "skipped")
    except IsADirectoryError:
        return Refusal("a directory", "fatal")
    except OSError as error:  # ELOOP, EIO, ESTALE
        return Refusal((error.strerror or str(error)).lower(), "ends the list")


def _read(stream: IO[bytes], path: str) -> Elf | Refusal:
    from elftools.common.exceptions import ELFError
    from elftools.construct.core import ConstructError
    from elftools.elf.elffile import ELFFile

    head = stream.read(HEADER)
    if not head:
        return Refusal("empty file", "fatal")
    if not head.startswith(MAGIC):
        return Refusal("not ELF", "fatal")
    if len(head) < HEADER:
        return Refusal("file too short", "fatal")
    if head[4] == CLASS_32:
        return Refusal("32-bit", "skipped")
    if head[5] == BIG_ENDIAN:
        return Refusal("for another machine: big-endian", "fatal")
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    try:
        return _inspect(ELFFile(stream), path, size)
    # what pyelftools lets through of a damaged file: offsets beyond the end, strings without end, its own assertions
    except (
        ELFError,
        ConstructError,
        ValueError,
        OverflowError,
        LookupError,
        AttributeError,
        TypeError,
        AssertionError,
    ):
        return Refusal("damaged ELF file", "fatal")


def _inspect(elf: ELFFile, path: str, size: int) -> Elf | Refusal:
    from elftools.elf.dynamic import DynamicSegment

    origin = os.path.dirname(os.path.abspath(path))
    if elf["e_type"] not in ("ET_DYN", "ET_EXEC"):
        return Refusal("not a shared library", "fatal")
    dynamic = None
    for segment in elf.iter_segments():
        kind = segment["p_type"]
        if kind == "PT_LOAD" and segment["p_offset"] + segment["p_filesz"] > size:
            # dlopen maps it and the process dies of SIGBUS
            return Refusal("truncated file", "fatal")
        if isinstance(segment, DynamicSegment):
            dynamic = segment
    if dynamic is None:
        return Refusal("no dynamic section", "fatal")
    names: dict[str, list[str]] = {}
    for tag in dynamic.iter_tags():
        kind = tag.entry.d_tag
        if kind in ("DT_NEEDED", "DT_SONAME", "DT_RPATH", "DT_RUNPATH"):
            names.setdefault(kind, []).append(getattr(tag, kind[3:].lower()))
    runpath = names.get("DT_RUNPATH")
    return Elf(
        path=path,
        machine=elf["e_machine"],
        origin=origin,
        soname=names.get("DT_SONAME", [None])[0],
        needed=tuple(names.get("DT_NEEDED", ())),
        rpath=() if runpath is not None else _folders(names.get("DT_RPATH"), origin),
        runpath=_folders(runpath, origin),
        has_runpath=runpath is not None,
    )


def _folders(paths: list[str] | None, origin: str) -> tuple[str, ...]:
    """Split a search path; repeated folders (TensorFlow's has hundreds of entries) are kept once."""
    entries = ":".join(paths or ()).split(":")
    resolved = (entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for entry in entries if entry)
    return tuple(dict.fromkeys(os.path.realpath(entry) for entry in dict.fromkeys(resolved)))
