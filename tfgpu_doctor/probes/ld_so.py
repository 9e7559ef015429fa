"""What glibc's dynamic loader does when a library is opened by its soname.

The order is ld.so(8)'s and was compared with real ``dlopen`` calls: libraries that are loaded already;
DT_RPATH of the calling library and of those that loaded it, up to the program (all ignored when the caller has a
DT_RUNPATH); LD_LIBRARY_PATH; DT_RUNPATH of the caller; /etc/ld.so.cache; the default folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.parsers.system_outputs import CacheEntry
from tfgpu_doctor.probes import elf
from tfgpu_doctor.probes.elf import Effect, Elf, Refusal
from tfgpu_doctor.probes.files import below

# Loaded with every Python that has imported TensorFlow: DT_NEEDED of libtensorflow_framework.so.2, 2.4 to 2.21.
ALWAYS_LOADED = (
    *("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6"),
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
)
# The driver's: that they are missing is a finding about the driver, not about the library that needs them.
DRIVER = frozenset(("libcuda.so.1", "libnvidia-ml.so.1"))
CACHE_FLAG = {"EM_X86_64": "x86-64", "EM_AARCH64": "AArch64"}
MULTIARCH = {"EM_X86_64": "x86_64-linux-gnu", "EM_AARCH64": "aarch64-linux-gnu"}
MACHINE_NAMES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_PPC64": "ppc64le"}


@dataclass(frozen=True)
class Hit:
    """A file of the wanted name in the loader's reach."""

    path: str
    via: str
    problem: str | None = None
    effect: Effect | None = None


@dataclass
class Opening:
    """How one dlopen went: every file of that name, and the one that was mapped."""

    hits: list[Hit] = field(default_factory=list)
    winner: str | None = None
    failure: str | None = None  # "libz.so.1, not found"; None when it went well


class LdSo:
    """The loader's state inside one process: what it searches, and what is loaded."""

    def __init__(
        self,
        *,
        machine: str,
        library_path: Sequence[str] = (),
        cache: Sequence[CacheEntry] = (),
        program: Elf | None = None,
        root: str = "/",
    ) -> None:
        """`machine` is an ELF machine ("EM_X86_64"); `program` the executable, for its DT_RPATH."""
        self.machine, self.root = machine, root
        self.library_path = tuple(library_path)
        self.program = program
        self.loaded: dict[str, str] = dict.fromkeys(ALWAYS_LOADED, "")  # soname -> path, "" where it matters not
        self._files: dict[str, Elf | Refusal] = {}
        self._cache: dict[str, list[str]] = {}
        flag = CACHE_FLAG.get(machine)
        for entry in cache:
            if flag in entry.flags:
                self._cache.setdefault(entry.soname, []).append(entry.path)
        self.defaults = default_folders(machine, root)

    def check(self, path: str) -> Elf | Refusal:
        """Read a file's headers (once), and refuse those of another machine."""
        if path not in self._files:
            self._files[path] = self._check(below_once(self.root, path))
        return self._files[path]

    def _check(self, path: str) -> Elf | Refusal:
        found = elf.read(path)
        if isinstance(found, Elf) and found.machine != self.machine:
            return Refusal(f"for another machine: {MACHINE_NAMES.get(found.machine, found.machine)}", "skipped")
        return found

    def cached(self, start: str) -> list[str]:
        """The files of the cache whose names begin with `start`."""
        return [path for name, paths in self._cache.items() if name.startswith(start) for path in paths]

    def places(self, name: str, callers: Sequence[Elf]) -> Iterator[tuple[str, str]]:
        """Yield (path, via) of every place where `name` is looked for, in order; `callers` is innermost first."""
        caller = callers[0] if callers else None
        if caller is None or not caller.has_runpath:
            chain = (*callers, *((self.program,) if self.program else ()))
            for folder in dict.fromkeys(folder for one in chain for folder in one.rpath):
                yield os.path.join(folder, name), "RPATH"
        for folder in self.library_path:
            yield os.path.join(folder, name), "LD_LIBRARY_PATH"
        for folder in caller.runpath if caller else ():
            yield os.path.join(folder, name), "RUNPATH"
        for path in self._cache.get(name, ()):
            yield path, "ldconfig"
        for folder in self.defaults:
            yield os.path.join(folder, name), "default path"

    def open(self, name: str, callers: Sequence[Elf], *, all_hits: bool = False) -> Opening:
        """Model ``dlopen(name)`` called from ``callers[0]``; what it maps stays loaded only when all went well.

        With `all_hits`, the files behind the one that decides are listed too.
        """
        if name in self.loaded:
            path = self.loaded[name]
            return Opening([Hit(path, "already loaded")] if path else [], winner=path)
        result, ended, real = Opening(), "", set[str]()
        decided = False
        for path, via in self.places(name, callers):
            if decided and not all_hits:
                break
            if via == ended or not os.path.lexists(below_once(self.root, path)):
                continue
            found = self.check(path)
            if (key := os.path.realpath(below_once(self.root, path))) in real:
                continue
            real.add(key)
            hit = _hit(path, via, found)
            if not decided:
                hit, decided = self._decide(name, hit, found, callers, result)
            if hit.effect == "ends the list":
                ended = via
            result.hits.append(hit)
        if result.winner is None and result.failure is None:
            result.failure = f"{name}, not found"
        return result

    def _decide(
        self, name: str, hit: Hit, found: Elf | Refusal, callers: Sequence[Elf], result: Opening
    ) -> tuple[Hit, bool]:
        """Whether this file ends the search, as the winner or as a failure that the loader does not go past."""
        if isinstance(found, Elf):
            if failure := self._load(name, hit.path, found, callers):
                result.failure = failure
                return Hit(hit.path, hit.via, f"needs {failure}", "fatal"), True
            result.winner = hit.path
            return hit, True
        if hit.effect == "fatal":
            result.failure = f"{name}: {hit.problem}"
            return hit, True
        return hit, False

    def _load(self, name: str, path: str, library: Elf, callers: Sequence[Elf]) -> str | None:
        """Map `library` and all that it needs; return what is missing and leave nothing loaded when that fails."""
        before = dict(self.loaded)
        for soname in {name, library.soname or name}:
            self.loaded[soname] = path
        for needed in library.needed:
            if needed in DRIVER:
                continue
            failure = self.open(needed, (library, *callers)).failure
            if failure:
                self.loaded = before
                return failure
        return None


def _hit(path: str, via: str, found: Elf | Refusal) -> Hit:
    return Hit(path, via) if isinstance(found, Elf) else Hit(path, via, found.problem, found.effect)


def below_once(root: str, path: str) -> str:
    """Join `path` to a fake root unless it is below it already (a resolved $ORIGIN is)."""
    return path if root == "/" or path.startswith(root.rstrip("/") + "/") else below(root, path)


def default_folders(machine: str, root: str = "/") -> tuple[str, ...]:
    """The folders that the system's loader searches last: Debian's, or those of everyone else."""
    triplet = MULTIARCH.get(machine)
    if triplet and os.path.isdir(below(root, f"/usr/lib/{triplet}")):
        return (f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib", "/usr/lib")
    return ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


def split_library_path(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of LD_LIBRARY_PATH; an empty entry is the current folder, as the loader has it."""
    value = environ.get("LD_LIBRARY_PATH", "")
    return tuple(entry or "." for entry in value.replace(";", ":").split(":")) if value else ()
