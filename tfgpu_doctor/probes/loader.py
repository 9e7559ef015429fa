"""Which file the dynamic loader picks for each library that TensorFlow opens by name, and why not another.

The headers of ELF files, which pyelftools reads; a model of glibc's ld.so, which was compared with real ``dlopen``
calls; the places out of its reach where CUDA libraries lie; and the search of Windows.
"""

from __future__ import annotations

import glob
import ntpath
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Literal

import msgspec

from tfgpu_doctor.facts.facts import Candidate, Fact, Known, Loader, Soname, Toolkit, Unknown, map_fact, value_or
from tfgpu_doctor.facts.reading import open_regular
from tfgpu_doctor.parsers.system_outputs import CacheEntry, parse_cache
from tfgpu_doctor.probes import process, systems
from tfgpu_doctor.probes.files import below, names_in

# The library that calls dlopen, seen with LD_DEBUG=files in 2.10, 2.13, 2.15, 2.16 and 2.21 on Linux x86_64:
# libtensorflow_framework.so.2 wherever there is a libtensorflow_cc.so.2, before it _pywrap_tensorflow_internal.so.
CALLERS_SPLIT = ("libtensorflow_framework.so.2",)
CALLERS_WHOLE = ("python/_pywrap_tensorflow_internal.so", "libtensorflow_framework.so.2")
# The order in which it opens them (DsoLoader::TryDlopenCUDALibraries): one that is loaded as another's need is found
# again without any search.
ORDER = ("driver", "cudart", "cublas", "cublasLt", "cufft", "curand", "cusolver", "cusparse", "cudnn")
# What libcudnn opens by itself when it is used; NVIDIA's cuDNN documentation, "API Overview: sub-libraries".
SUBLIBRARIES = {
    "libcudnn.so.8": ("ops_infer", "cnn_infer", "adv_infer", "ops_train", "cnn_train", "adv_train"),
    "libcudnn.so.9": ("graph", "ops", "cnn", "adv", "heuristic", "engines_runtime_compiled"),
}
MACHINES = {"x86_64": "EM_X86_64", "amd64": "EM_X86_64", "aarch64": "EM_AARCH64", "arm64": "EM_AARCH64"}
CACHE = "/etc/ld.so.cache"
_NOT_KNOWN = Unknown("which libraries this TensorFlow opens is not known")


def examine(
    sonames: Sequence[tuple[str, str]],
    *,
    environ: Mapping[str, str],
    tensorflow_dir: str | None,
    site_packages: Sequence[str],
    toolkits: Sequence[Toolkit],
    root: str = "/",
    executable: str | None = None,
) -> Loader:
    """Predict which file wins for each (soname, component) that TensorFlow opens.

    `tensorflow_dir` is the package's folder; `executable` the interpreter under test, for its DT_RPATH (conda's
    has one); `root` a fake file system for tests. Never raises for what it finds.
    """
    if system := systems.other(root):
        if system.name == "windows":
            return examine_dlls(sonames, environ, site_packages, toolkits, executable, system.root)
        return Loader(sonames=Unknown(f"the loader of {system.platform} is not modelled; TensorFlow has no CUDA there"))
    if musl := _musl(root):
        return Loader(sonames=Unknown(f"musl's loader ({musl[0]}) is not modelled, only glibc's"))
    caller = caller_of(tensorflow_dir, root)
    runpath = caller if isinstance(caller, Unknown) else Known(caller.runpath or caller.rpath, caller.path)
    if not sonames:
        return Loader(runpath=runpath, sonames=_NOT_KNOWN)
    library = caller if isinstance(caller, Elf) else None
    cache = read_cache(root)
    program = read_elf(os.path.realpath(executable)) if executable else None
    linker = LdSo(environ, cache, root, library, program)
    found = places(site_packages, toolkits, environ, root)
    survey = _Survey(linker, library, Listing(root, site_packages), found)
    openings = {
        soname: survey.open(soname) for soname, _ in sorted(sonames, key=lambda pair: (*ORDER, pair[1]).index(pair[1]))
    }
    results = tuple(survey.describe(soname, component, openings[soname]) for soname, component in sonames)
    source = f"ld.so's search order, called from {library.path}" if library else "ld.so's search order"
    if isinstance(cache, Unknown):
        if any(one.winner is None for one in results):
            return Loader(runpath=runpath, sonames=cache)
        source += f" ({cache.reason})"
    return Loader(runpath=runpath, sonames=Known(results, source))


def _musl(root: str) -> list[str]:
    """The musl loader of a system that has no glibc."""
    glibc = glob.glob(below(root, "/lib*/ld-linux-*.so.*")) or glob.glob(below(root, "/lib/*/ld-linux-*.so.*"))
    return [] if glibc else glob.glob(below(root, "/lib/ld-musl-*.so.1"))


def with_loaded(found: Loader, loaded: Fact[tuple[str, ...]]) -> Loader:
    """A library that the process has loaded, whoever did it (a .pth file, another package), is found by its soname."""
    by_name = {path.replace("\\", "/").rpartition("/")[2]: path for path in value_or(loaded, ())}

    def known(library: Soname) -> Soname:
        path = by_name.get(library.soname)
        if path is None or library.winner or any(one.path == path and one.problem for one in library.candidates):
            return library
        others = (one for one in library.candidates if one.path != path)
        return msgspec.structs.replace(library, candidates=(_hit(path, "already loaded"), *others), winner=path)

    sonames = map_fact(found.sonames, lambda every: tuple(map(known, every)))
    return msgspec.structs.replace(found, sonames=sonames, loaded=loaded)


def _hit(path: str, via: str, problem: str | None = None, effect: str | None = None) -> Candidate:
    """A file of the wanted name in the loader's reach."""
    return Candidate(path=path, via=via, reachable=True, problem=problem, effect=effect)


def caller_of(tensorflow_dir: str | None, root: str = "/") -> Elf | Unknown:
    """The TensorFlow library that calls dlopen."""
    if tensorflow_dir is None:
        return Unknown("there is no TensorFlow whose RUNPATH could be read")
    folder = below_once(root, tensorflow_dir)
    names = CALLERS_SPLIT if glob.glob(os.path.join(glob.escape(folder), "libtensorflow_cc.so.*")) else CALLERS_WHOLE
    for path in (os.path.join(folder, name) for name in names):
        if os.path.exists(path):
            found = read_elf(path)
            return Unknown(f"{found.problem}: {path}") if found.problem else found
    return Unknown(f"{' and '.join(names)} are missing in {tensorflow_dir}")


def read_cache(root: str) -> tuple[CacheEntry, ...] | Unknown:
    """The loader's cache, as ldconfig prints it; empty where there is none."""
    cache = below(root, CACHE)
    if not os.path.exists(cache):
        return ()
    program = systems.find("ldconfig", os.environ, more=("/sbin", "/usr/sbin"))
    if not program:
        return Unknown(f"no ldconfig to read {CACHE} with")
    done = process.run([program, "-C", cache, "-p"], timeout=5.0, env={"LC_ALL": "C"})
    if done.returncode != 0:
        return Unknown(f"ldconfig -p failed: {done.error or done.stderr}")
    return parse_cache(done.stdout)


class _Survey:
    """All files of the libraries that one process opens: those in its reach, and the others."""

    def __init__(self, linker: LdSo, library: Elf | None, listing: Listing, found: Sequence[tuple[str, str]]) -> None:
        self.linker, self.listing, self.found = linker, listing, found
        self.callers = (library,) if library else ()

    def open(self, soname: str) -> Opening:
        """Open a library, and the parts that cuDNN opens by itself when it is used."""
        opening = self.linker.open(soname, self.callers, all_hits=True)
        winner = opening.winner
        callers = (self.linker.check(winner), *self.callers) if winner else ()
        for part in SUBLIBRARIES.get(soname, ()) if winner else ():
            name = soname.replace("libcudnn.", f"libcudnn_{part}.")
            if failure := self.linker.open(name, callers).failure:
                missing = failure if failure.startswith(name) else f"{name}, which needs {failure}"
                at = next(number for number, hit in enumerate(opening.hits) if hit.path == winner)
                opening.hits[at] = _hit(opening.hits[at].path, opening.hits[at].via, f"opens {missing}", "later")
                opening.winner = None
                break
        return opening

    def describe(self, soname: str, component: str, opening: Opening) -> Soname:
        """All files of a soname: those in reach in the loader's order, then the others."""
        linker, listing = self.linker, self.listing
        candidates = [msgspec.structs.replace(hit, version=listing.version(hit.path)) for hit in opening.hits]
        known = {os.path.realpath(below_once(linker.root, hit.path)) for hit in opening.hits}
        for folder, via in self.found:
            name = listing.carries(folder, soname)
            path = os.path.join(folder, name or "")
            real = os.path.realpath(below_once(linker.root, path))
            if name and real not in known:
                known.add(real)
                checked = linker.check(path)
                no_link = None if name == soname else f"no link named {soname} beside it"
                one = Candidate(
                    path=path,
                    via=via,
                    reachable=False,
                    version=listing.version(path),
                    problem=checked.problem or no_link,
                    effect=checked.effect,
                )
                candidates.append(one)
        reach = [path for path, _ in linker.places(soname, self.callers)]
        folders = [os.path.dirname(path) for path in (*reach, *linker.cached(soname.split(".so.")[0] + ".so."))]
        return Soname(
            soname=soname,
            component=component,
            candidates=tuple(candidates),
            winner=opening.winner,
            other_versions=listing.other_versions([*folders, *(folder for folder, _ in self.found)], soname),
        )


# ----------------------------------------------------------------------------------------------------- library places

# Folders of a toolkit that hold libraries: the runfile's, Debian's, the redistributables' and conda's layouts.
TOOLKIT_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "extras/CUPTI/lib64")
# Wheels that are not called as their library is, for folders that several share (nvidia/cu13/lib of CUDA 13).
WHEELS = {"libcudart": "cuda_runtime", "libcublasLt": "cublas", "libcupti": "cuda_cupti", "libnvrtc": "cuda_nvrtc"}
_VERSIONED = re.compile(r"^(?P<stem>lib[^/]+?)\.so\.(?P<version>\d[\d.]*)$")
_DIST_INFO = re.compile(r"^(?P<name>.+)-(?P<version>[^-]+)\.dist-info$")


def places(
    site_packages: Sequence[str], toolkits: Sequence[Toolkit], environ: Mapping[str, str], root: str
) -> list[tuple[str, str]]:
    """List (folder, via) of pip wheels, toolkits and conda environments that exist, without the fake root."""
    found = []
    for site in dict.fromkeys(site_packages):  # nvidia/cudnn/lib, nvidia/cu13/lib, tensorrt_libs
        wheels = [f"nvidia/{package}/lib" for package in names_in(below_once(root, os.path.join(site, "nvidia")))]
        folders = (*wheels, "tensorrt_libs", "tensorrt")
        found += [(os.path.join(site, folder), "pip wheel") for folder in folders]
    for kit in toolkits:
        via = "conda" if kit.via == "conda" else "toolkit"
        found += [(os.path.join(kit.path, name), via) for name in TOOLKIT_FOLDERS]
    # environments: the one of the interpreter under test (PREFIX/lib/python3.11/site-packages), then the active one
    prefixes = [os.path.normpath(os.path.join(site, *[os.pardir] * 3)) for site in site_packages]
    for prefix in dict.fromkeys(filter(None, (*prefixes, environ.get("CONDA_PREFIX")))):
        if os.path.isdir(below_once(root, os.path.join(prefix, "conda-meta"))):
            found.append((os.path.join(prefix, "lib"), "conda"))
    unique = {os.path.realpath(below_once(root, place[0])): place for place in reversed(found)}
    return [place for real, place in reversed(unique.items()) if os.path.isdir(real)]


class Listing:
    """Folders read once."""

    def __init__(self, root: str, site_packages: Sequence[str]) -> None:
        self.root, self.site_packages = root, site_packages
        self.names = lru_cache(maxsize=None)(lambda folder: tuple(names_in(below_once(root, folder))))

    def carries(self, folder: str, soname: str) -> str | None:
        """The file of `folder` that is, or would be with a link, `soname`: ``libcudnn.so.9.3.0`` for libcudnn.so.9."""
        names = self.names(folder)
        if soname in names:
            return soname
        return next((name for name in names if name.startswith(soname + ".")), None)

    def other_versions(self, folders: Sequence[str], soname: str) -> tuple[str, ...]:
        """Files of the same library with another soname, each once: ``libcudart.so.13`` for libcudart.so.12."""
        wanted = _VERSIONED.match(soname)
        found, ours = dict[str, str](), set[str]()
        for folder in dict.fromkeys(folders) if wanted else ():
            for name in self.names(folder):  # the shortest first
                match = _VERSIONED.match(name)
                if not match or not wanted or match["stem"] != wanted["stem"]:
                    continue
                path = os.path.join(folder, name)
                real = os.path.realpath(below_once(self.root, path))
                if f"{match['version']}.".startswith(f"{wanted['version']}."):
                    ours.add(real)
                found.setdefault(real, path)
        return tuple(path for real, path in found.items() if real not in ours)

    def version(self, path: str) -> str | None:
        """The version that the file name behind the link tells, else that of the wheel which owns the file."""
        return self.named_version(path) or self.wheel_version(path)

    def named_version(self, path: str) -> str | None:
        """The version that the file name behind the link tells."""
        named = _VERSIONED.match(os.path.basename(os.path.realpath(below_once(self.root, path))))
        return named["version"] if named and named["version"].count(".") >= 2 else None

    def wheel_version(self, path: str) -> str | None:
        """The version of the one installed wheel that owns `path`; None when two (cu11, cu12) could."""
        real = os.path.realpath(os.path.dirname(path)) + os.sep  # of the folder: a package manager may link the file
        site = next((one for one in self.site_packages if real.startswith(os.path.realpath(one) + os.sep)), None)
        folder = os.path.basename(os.path.dirname(os.path.dirname(path)))
        stem = os.path.basename(path).split(".so")[0]
        owners = {f"nvidia_{folder}", f"nvidia_{WHEELS.get(stem, stem.split('_')[0].removeprefix('lib').lower())}"}
        versions = {
            match["version"]
            for match in map(_DIST_INFO.match, self.names(site) if site else ())
            if match and re.sub(r"_cu\d+$", "", match["name"].replace("-", "_").lower()) in owners
        }
        return versions.pop() if len(versions) == 1 else None


# -------------------------------------------------------------------------------------------------------------- ld so
#
# The order is ld.so(8)'s and was compared with real ``dlopen`` calls: libraries that are loaded already;
# DT_RPATH of the calling library and of those that loaded it, up to the program (all ignored when the caller has a
# DT_RUNPATH); LD_LIBRARY_PATH; DT_RUNPATH of the caller; /etc/ld.so.cache; the default folders.

# Loaded with every Python that has imported TensorFlow: DT_NEEDED of libtensorflow_framework.so.2, 2.4 to 2.21.
ALWAYS_LOADED = (
    *("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6"),
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
)
# The driver's: that they are missing is a finding about the driver, not about the library that needs them.
DRIVER = frozenset(("libcuda.so.1", "libnvidia-ml.so.1"))
CACHE_FLAG = {"EM_X86_64": "x86-64", "EM_AARCH64": "AArch64"}
MACHINE_NAMES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_PPC64": "ppc64le"}


@dataclass
class Opening:
    """How one dlopen went: every file of that name, and the one that was mapped."""

    hits: list[Candidate] = field(default_factory=list)
    winner: str | None = None
    failure: str | None = None  # "libz.so.1, not found"; None when it went well


class LdSo:
    """The loader's state inside one process: what it searches, and what is loaded."""

    def __init__(
        self,
        environ: Mapping[str, str],
        cache: tuple[CacheEntry, ...] | Unknown,
        root: str,
        library: Elf | None = None,
        program: Elf | None = None,
    ) -> None:
        """`library` is the one that opens others, `program` the executable, for its DT_RPATH."""
        self.root, self.library_path = root, split_library_path(environ)
        self.machine = library.machine if library else MACHINES.get(platform.machine().lower(), "EM_X86_64")
        self.program = program
        self.loaded: dict[str, str] = dict.fromkeys(ALWAYS_LOADED, "")  # soname -> path, "" where it matters not
        self._files: dict[str, Elf] = {}
        self._cache: dict[str, list[str]] = {}
        for entry in () if isinstance(cache, Unknown) else cache:
            if CACHE_FLAG.get(self.machine) in entry.flags:
                self._cache.setdefault(entry.soname, []).append(entry.path)
        triplet = f"{MACHINE_NAMES.get(self.machine)}-linux-gnu"
        is_debian = os.path.isdir(below(root, f"/usr/lib/{triplet}"))
        own = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if is_debian else ("/lib64", "/usr/lib64")
        self.defaults = (*own, "/lib", "/usr/lib")
        self.loaded |= dict.fromkeys(library.needed if library else (), "")
        for preloaded in environ.get("LD_PRELOAD", "").replace(":", " ").split():
            if "/" in preloaded and (soname := self.check(preloaded).soname):
                self.loaded[soname] = preloaded

    def check(self, path: str) -> Elf:
        """Read a file's headers (once), and refuse those of another machine."""
        if path not in self._files:
            found = read_elf(below_once(self.root, path))
            if not found.problem and found.machine != self.machine:
                machine = MACHINE_NAMES.get(found.machine, found.machine)
                found = Elf(found.path, f"for another machine: {machine}", "skipped")
            self._files[path] = found
        return self._files[path]

    def cached(self, start: str) -> list[str]:
        """The files of the cache whose names begin with `start`."""
        return [path for name, paths in self._cache.items() if name.startswith(start) for path in paths]

    def places(self, name: str, callers: Sequence[Elf]) -> Iterator[tuple[str, str]]:
        """Yield (path, via) of every place where `name` is looked for, in order; `callers` is innermost first."""
        caller = callers[0] if callers else None
        chain = (*callers, *((self.program,) if self.program else ()))
        rpath = () if caller and caller.has_runpath else (folder for one in chain for folder in one.rpath)
        runpath = caller.runpath if caller else ()
        for folders, via in ((rpath, "RPATH"), (self.library_path, "LD_LIBRARY_PATH"), (runpath, "RUNPATH")):
            yield from ((os.path.join(folder, name), via) for folder in dict.fromkeys(folders))
        yield from ((path, "ldconfig") for path in self._cache.get(name, ()))
        yield from ((os.path.join(folder, name), "default path") for folder in self.defaults)

    def open(self, name: str, callers: Sequence[Elf], *, all_hits: bool = False) -> Opening:
        """Model ``dlopen(name)`` called from ``callers[0]``; what it maps stays loaded only when all went well.

        The first file that loads, or that fails for good, decides. With `all_hits`, those behind it are listed, too.
        """
        if (path := self.loaded.get(name)) is not None:
            return Opening([_hit(path, "already loaded")] if path else [], winner=path)
        result = Opening()
        for path, via in self._there(name, callers):
            is_decided = bool(result.winner or result.failure)
            if is_decided and not all_hits:
                break
            found = self.check(path)
            problem, effect = found.problem, found.effect
            if not is_decided and effect == "fatal":
                result.failure = f"{name}: {problem}"
            elif not is_decided and not problem:
                result.failure = self._load(name, path, found, callers)
                if result.failure:
                    problem, effect = f"needs {result.failure}", "fatal"
                else:
                    result.winner = path
            result.hits.append(_hit(path, via, problem, effect))
        if not (result.winner or result.failure):
            result.failure = f"{name}, not found"
        return result

    def _there(self, name: str, callers: Sequence[Elf]) -> Iterator[tuple[str, str]]:
        """The files of that name in the loader's order, each once."""
        seen = set[str]()
        for path, via in self.places(name, callers):
            inside = below_once(self.root, path)
            real = os.path.realpath(inside)
            if real not in seen and os.path.lexists(inside):
                seen.add(real)
                yield path, via

    def _load(self, name: str, path: str, library: Elf, callers: Sequence[Elf]) -> str | None:
        """Map `library` and all that it needs; return what is missing and leave nothing loaded when that fails."""
        before = dict(self.loaded)
        self.loaded |= {name: path, library.soname or name: path}
        for needed in library.needed:
            failure = None if needed in DRIVER else self.open(needed, (library, *callers)).failure
            if failure:
                self.loaded = before
                return failure
        return None


def below_once(root: str, path: str) -> str:
    """Join `path` to a fake root unless it is below it already (a resolved $ORIGIN is)."""
    return path if root == "/" or path.startswith(root.rstrip("/") + "/") else below(root, path)


def split_library_path(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of LD_LIBRARY_PATH; an empty entry is the current folder, as the loader has it."""
    value = environ.get("LD_LIBRARY_PATH", "")
    return tuple(entry or "." for entry in value.replace(";", ":").split(":")) if value else ()


# ---------------------------------------------------------------------------------------------------------- ELF files

# what pyelftools lets through of a damaged file: offsets beyond the end, strings without end, its own assertions
_DAMAGE = (ValueError, OverflowError, LookupError, AttributeError, TypeError, AssertionError)
HEADER = 64  # bytes of a 64-bit ELF header; glibc says "file too short" below it
Effect = Literal["skipped", "fatal", "later"]
"""What glibc's dlopen does about a file: goes on with the next place (wrong class or machine, dangling link, no
permission), or fails for good; "later": it loads, and fails when it is used. Seen with glibc 2.36."""


@dataclass(frozen=True)
class Elf:
    """The dynamic section of a shared library, or why the loader does not take the file, and what it does next."""

    path: str
    problem: str | None = None
    effect: Effect | None = None
    machine: str = ""  # "EM_X86_64"
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()  # $ORIGIN resolved; empty when there is a RUNPATH, as the loader then ignores it
    runpath: tuple[str, ...] = ()
    has_runpath: bool = False


def read_elf(path: str) -> Elf:
    """Read the dynamic section of `path`, or say why the loader would refuse the file."""
    from elftools.common.exceptions import ELFError
    from elftools.construct.core import ConstructError

    try:
        with open_regular(path) as stream:
            head = stream.read(HEADER)
            if not head.startswith(b"\x7fELF"):
                return Elf(path, "not ELF" if head else "empty file", "fatal")
            if len(head) < HEADER:
                return Elf(path, "file too short", "fatal")
            if head[4] == 1:  # no TensorFlow with CUDA is 32-bit
                return Elf(path, "32-bit", "skipped")
            return _inspect(stream, path)
    except FileNotFoundError:
        return Elf(path, "dangling link" if os.path.islink(path) else "no such file", "skipped")
    except IsADirectoryError:
        return Elf(path, "a directory", "fatal")
    except OSError as error:
        return Elf(path, (error.strerror or str(error)).lower(), "skipped")
    except (ELFError, ConstructError, *_DAMAGE):
        return Elf(path, "damaged ELF file", "fatal")


def _inspect(stream: IO[bytes], path: str) -> Elf:
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile

    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    elf = ELFFile(stream)
    if elf["e_type"] not in ("ET_DYN", "ET_EXEC"):
        return Elf(path, "not a shared library", "fatal")
    dynamic = None
    for segment in elf.iter_segments():
        if segment["p_type"] == "PT_LOAD" and segment["p_offset"] + segment["p_filesz"] > size:
            return Elf(path, "truncated file", "fatal")  # dlopen maps it and the process dies of SIGBUS
        dynamic = segment if isinstance(segment, DynamicSegment) else dynamic
    if dynamic is None:
        return Elf(path, "no dynamic section", "fatal")
    names: dict[str, list[str]] = {"DT_NEEDED": [], "DT_SONAME": [], "DT_RPATH": [], "DT_RUNPATH": []}
    for tag in dynamic.iter_tags():
        if (kind := tag.entry.d_tag) in names:
            names[kind].append(getattr(tag, kind[3:].lower()))
    origin = os.path.dirname(os.path.abspath(path))
    return Elf(
        path=path,
        machine=elf["e_machine"],
        soname=next(iter(names["DT_SONAME"]), None),
        needed=tuple(names["DT_NEEDED"]),
        rpath=() if names["DT_RUNPATH"] else _folders(names["DT_RPATH"], origin),
        runpath=_folders(names["DT_RUNPATH"], origin),
        has_runpath=bool(names["DT_RUNPATH"]),
    )


def _folders(paths: list[str], origin: str) -> tuple[str, ...]:
    """Split a search path; repeated folders (TensorFlow's has hundreds of entries) are kept once."""
    entries = (entry for entry in ":".join(paths).split(":") if entry)
    resolved = (entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for entry in entries)
    return tuple(dict.fromkeys(os.path.realpath(entry) for entry in dict.fromkeys(resolved)))


# ------------------------------------------------------------------------------------------------------------ Windows
#
# TensorFlow calls LoadLibraryExW with LOAD_WITH_ALTERED_SEARCH_PATH (tensorflow/core/platform/windows/load_library.cc),
# for which Windows searches the folder of the program, the system folders and those of PATH (Microsoft, "Dynamic-link
# library search order", unpackaged apps). What os.add_dll_directory adds does not count there.


def examine_dlls(
    sonames: Sequence[tuple[str, str]],
    environ: Mapping[str, str],
    site_packages: Sequence[str],
    toolkits: Sequence[Toolkit],
    executable: str | None,
    root: str,
) -> Loader:
    """Look for each DLL by file existence; a fake root holds ``C:`` as a folder."""
    if not sonames:
        return Loader(sonames=_NOT_KNOWN)
    entries = (entry.strip('"') for entry in environ.get("PATH", "").split(";"))
    reach = [(ntpath.dirname(executable), "folder of Python")] if executable else []
    reach.append((ntpath.join(environ.get("SYSTEMROOT", "C:\\Windows"), "System32"), "default path"))
    reach += [(folder, "PATH") for folder in entries if ntpath.isabs(folder)]
    beyond = [(ntpath.join(kit.path, "bin"), "toolkit") for kit in toolkits]
    # PREFIX\Lib\site-packages
    beyond += [(ntpath.normpath(ntpath.join(site, "..", "..", "Library", "bin")), "conda") for site in site_packages]
    found = tuple(_dll(name, component, reach, beyond, root) for name, component in sonames)
    return Loader(
        runpath=Unknown("Windows has no RUNPATH"),
        sonames=Known(found, "files in the folders of Python, Windows and PATH"),
    )


def _dll(
    name: str, component: str, reach: Sequence[tuple[str, str]], beyond: Sequence[tuple[str, str]], root: str
) -> Soname:
    candidates: dict[str, Candidate] = {}
    others: dict[str, None] = {}
    stem = name.lower().split("_")[0] + "_"
    for folder, via in (*reach, *beyond):
        for file in names_in(below(root, folder)):
            path, low = ntpath.join(folder, file), file.lower()
            if low == name.lower():
                one = Candidate(path=path, via=via, reachable=(folder, via) in reach)
                candidates.setdefault(ntpath.normcase(path), one)
            elif low.startswith(stem) and low.endswith(".dll"):  # cudart64_12.dll beside cudart64_110.dll
                others[path] = None
    winner = next((one.path for one in candidates.values() if one.reachable), None)
    return Soname(
        soname=name,
        component=component,
        candidates=tuple(candidates.values()),
        winner=winner,
        other_versions=(*others,),
    )
