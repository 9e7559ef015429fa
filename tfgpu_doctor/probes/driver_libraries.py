"""Every libcuda.so.1 and libnvidia-ml.so.1 in the loader's reach, and the one that it takes.

The order is that of ld.so(8): LD_LIBRARY_PATH, the cache of ldconfig, the default folders. A file of another
word size is skipped; one that is empty or no ELF file ends the search with an error, so it still comes first.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping

from tfgpu_doctor.facts import Fact, Known, LibraryFile, Unknown
from tfgpu_doctor.probes import process
from tfgpu_doctor.probes.files import below, why

OUT_OF_REACH = ("/usr/lib/wsl/lib", "/run/opengl-driver/lib")  # WSL2, NixOS: in reach only when configured
NOT_REACHED = "not on the loader's path"
WINDOWS = {"libcuda.so.1": "nvcuda.dll", "libnvidia-ml.so.1": "nvml.dll"}
STUB = "stub of the CUDA toolkit, not a driver"
_DRIVER_VERSION = re.compile(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")  # WSL's libcuda.so.1.1 tells no version


def find(
    sonames: tuple[str, ...], environ: Mapping[str, str], root: str, timeout: float
) -> dict[str, Fact[tuple[LibraryFile, ...]]]:
    """For each soname the files that carry it, the loader's choice first."""
    if root == "/" and sys.platform == "darwin":
        return {soname: Unknown("NVIDIA makes no driver for macOS") for soname in sonames}
    if root == "/" and sys.platform == "win32":
        return {soname: _windows(WINDOWS[soname], environ) for soname in sonames}
    cache = _ldconfig(timeout) if root == "/" else ""
    return {soname: _linux(soname, environ, root, cache) for soname in sonames}


def reachable(files: Fact[tuple[LibraryFile, ...]]) -> bool:
    """Whether the loader has a file to try at all."""
    return isinstance(files, Known) and any(file.problem != NOT_REACHED for file in files.value)


def _windows(name: str, environ: Mapping[str, str]) -> Fact[tuple[LibraryFile, ...]]:
    path = os.path.join(environ.get("SYSTEMROOT", r"C:\Windows"), "System32", name)
    return Known((LibraryFile(path=path),) if os.path.exists(path) else (), path)


def _linux(soname: str, environ: Mapping[str, str], root: str, cache: str) -> Fact[tuple[LibraryFile, ...]]:
    reached = [os.path.join(folder, soname) for folder in _search_path(environ)]
    reached += cached(cache, soname)
    reached += [below(root, f"{folder}/{soname}") for folder in _default_folders()]
    far = [below(root, f"{folder}/{soname}") for folder in OUT_OF_REACH]
    files = [_described(path, None) for path in _different(reached)]
    seen = {os.path.realpath(file.path) for file in files}
    files += [_described(path, NOT_REACHED) for path in _different(far) if os.path.realpath(path) not in seen]
    files.sort(key=lambda file: file.problem == NOT_REACHED or (file.problem or "").endswith("-bit"))
    return Known(tuple(files), "LD_LIBRARY_PATH, ldconfig -p, default folders")


def _search_path(environ: Mapping[str, str]) -> list[str]:
    """Folders of LD_LIBRARY_PATH; an empty part means the current one (ld.so(8))."""
    text = environ.get("LD_LIBRARY_PATH", "")
    return [part or os.curdir for part in re.split("[:;]", text)] if text else []


def _default_folders() -> tuple[str, ...]:
    multiarch = f"{platform.machine()}-linux-gnu"
    return (f"/lib/{multiarch}", f"/usr/lib/{multiarch}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def _ldconfig(timeout: float) -> str:
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    return process.run([program, "-p"], timeout=timeout).stdout  # empty where there is no ldconfig (musl)


def cached(cache: str, soname: str) -> list[str]:
    """Paths of `soname` in the output of ``ldconfig -p``.

    >>> cached("\\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/wsl/lib/libcuda.so.1", "libcuda.so.1")
    ['/usr/lib/wsl/lib/libcuda.so.1']
    """
    return re.findall(rf"^\s*{re.escape(soname)} \(.*\) => (\S.*)$", cache, re.MULTILINE)


def _different(paths: Iterable[str]) -> Iterator[str]:
    """The paths that exist, each file once."""
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real not in seen and os.path.exists(path):
            seen.add(real)
            yield path


def _described(path: str, problem: str | None) -> LibraryFile:
    real = os.path.realpath(path)
    found = _DRIVER_VERSION.search(real)
    try:
        soname, defect = _elf(path)
    except OSError as error:
        soname, defect = None, why(error, path)
    if not defect and ("/stubs/" in path or "/stubs/" in real):
        defect = f"{STUB}: {real}"
    return LibraryFile(path=path, version=found[1] if found else None, soname=soname, problem=problem or defect)


def _elf(path: str) -> tuple[str | None, str | None]:
    """DT_SONAME, and why the loader would refuse the file.

    Raises:
        OSError: it cannot be read.
    """
    from elftools.common.exceptions import ELFError  # deferred: most machines without a driver have no file to look at
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    if os.path.getsize(path) == 0:
        return None, "empty file"
    with open(path, "rb") as stream:  # noqa: PTH123
        try:
            elf = ELFFile(stream)
            dynamic = elf.get_section_by_name(".dynamic")
            tags = dynamic.iter_tags("DT_SONAME") if isinstance(dynamic, DynamicSection) else ()
            soname = next((str(getattr(tag, "soname", "")) for tag in tags), None)
        except (ELFError, ValueError, KeyError, struct.error) as error:
            return None, f"not ELF: {error}" if str(error) else "not ELF"
    bits = 64 if sys.maxsize > 2**32 else 32
    return soname, None if elf.elfclass == bits else f"{elf.elfclass}-bit"
