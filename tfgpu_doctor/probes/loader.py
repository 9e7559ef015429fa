"""Which file the dynamic loader picks for each library that TensorFlow opens by name, and why not another."""

from __future__ import annotations

import glob
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from tfgpu_doctor.parsers.system_outputs import CacheEntry, parse_cache
from tfgpu_doctor.probes import dll_search, elf, process, programs, systems
from tfgpu_doctor.probes.elf import Effect, Elf, Refusal
from tfgpu_doctor.probes.files import below, names_in
from tfgpu_doctor.records.facts import Candidate, Fact, Known, Loader, Soname, Toolkit, Unknown

# The library that calls dlopen, seen with LD_DEBUG=files in 2.10, 2.13, 2.15, 2.16 and 2.21 on Linux x86_64:
# libtensorflow_framework.so.2 wherever there is a libtensorflow_cc.so.2, before it _pywrap_tensorflow_internal.so.
SPLIT = "libtensorflow_cc.so.*"
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
            return dll_search.examine(
                sonames,
                environ=environ,
                site_packages=site_packages,
                toolkits=toolkits,
                executable=executable,
                root=system.root,
            )
        return Loader(sonames=Unknown(f"the loader of {system.platform} is not modelled; TensorFlow has no CUDA there"))
    if musl := _musl(root):
        return Loader(sonames=Unknown(f"musl's loader ({musl}) is not modelled, only glibc's"))
    caller = caller_of(tensorflow_dir, root)
    library = caller if isinstance(caller, Elf) else None
    runpath: Fact[tuple[str, ...]] = (
        Known(caller.runpath or caller.rpath, caller.path) if isinstance(caller, Elf) else caller
    )
    if not sonames:
        return Loader(runpath=runpath, sonames=Unknown("which libraries this TensorFlow opens is not known"))
    cache = _cache(root)
    linker = _linker(library, () if isinstance(cache, Unknown) else cache, environ, executable, root)
    found = places(site_packages, toolkits, conda_prefixes(site_packages, environ), root)
    survey = _Survey(linker, library, found, site_packages)
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


def with_loaded(found: Loader, loaded: Fact[tuple[str, ...]]) -> Loader:
    """A library that the process has loaded, whoever did it (a .pth file, another package), is found by its soname."""
    paths = loaded.value if isinstance(loaded, Known) else ()
    by_name = {path.replace("\\", "/").rpartition("/")[2]: path for path in paths}
    sonames = found.sonames
    if isinstance(sonames, Known):
        known = tuple(_loaded(one, by_name.get(one.soname)) for one in sonames.value)
        sonames = msgspec.structs.replace(sonames, value=known)
    return msgspec.structs.replace(found, sonames=sonames, loaded=loaded)


def _loaded(library: Soname, path: str | None) -> Soname:
    unusable = any(one.path == path and one.problem for one in library.candidates)
    if path is None or library.winner or unusable:
        return library
    here = Candidate(path=path, via="already loaded", reachable=True)
    others = (one for one in library.candidates if one.path != path)
    return msgspec.structs.replace(library, candidates=(here, *others), winner=path)


def _musl(root: str) -> str | None:
    """The musl loader of a system that has no glibc."""
    glibc = glob.glob(below(root, "/lib*/ld-linux-*.so.*")) or glob.glob(below(root, "/lib/*/ld-linux-*.so.*"))
    return None if glibc else next(iter(glob.glob(below(root, "/lib/ld-musl-*.so.1"))), None)


def caller_of(tensorflow_dir: str | None, root: str = "/") -> Elf | Unknown:
    """The TensorFlow library that calls dlopen."""
    if tensorflow_dir is None:
        return Unknown("there is no TensorFlow whose RUNPATH could be read")
    folder = below_once(root, tensorflow_dir)
    names = CALLERS_SPLIT if glob.glob(os.path.join(glob.escape(folder), SPLIT)) else CALLERS_WHOLE
    for name in names:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            found = elf.read(path)
            return Unknown(f"{found.problem}: {path}") if isinstance(found, Refusal) else found
    return Unknown(f"{' and '.join(names)} are missing in {tensorflow_dir}")


def _linker(
    library: Elf | None, cache: Sequence[CacheEntry], environ: Mapping[str, str], executable: str | None, root: str
) -> LdSo:
    program = elf.read(os.path.realpath(executable)) if executable else None
    linker = LdSo(
        machine=library.machine if library else MACHINES.get(platform.machine().lower(), "EM_X86_64"),
        library_path=split_library_path(environ),
        cache=cache,
        program=program if isinstance(program, Elf) else None,
        root=root,
    )
    if library:
        linker.loaded.update(dict.fromkeys(library.needed, ""))
    for preloaded in environ.get("LD_PRELOAD", "").replace(":", " ").split():
        found = linker.check(preloaded) if "/" in preloaded else None
        if isinstance(found, Elf) and found.soname:
            linker.loaded[found.soname] = preloaded
    return linker


def read_cache(root: str) -> tuple[CacheEntry, ...]:
    """The loader's cache, as ldconfig prints it; empty where there is none or it cannot be read."""
    cache = _cache(root)
    return () if isinstance(cache, Unknown) else cache


def _cache(root: str) -> tuple[CacheEntry, ...] | Unknown:
    cache = below(root, CACHE)
    if not os.path.exists(cache):
        return ()
    program = programs.find("ldconfig", os.environ, more=("/sbin", "/usr/sbin"))
    if not program:
        return Unknown(f"no ldconfig to read {CACHE} with")
    done = process.run([program, "-C", cache, "-p"], timeout=5.0, env={"LC_ALL": "C"})
    if done.returncode != 0:
        return Unknown(f"ldconfig -p failed: {done.error or done.stderr}")
    return parse_cache(done.stdout)


class _Survey:
    """All files of the libraries that one process opens: those in its reach, and the others."""

    def __init__(self, linker: LdSo, library: Elf | None, found: Sequence[Place], site_packages: Sequence[str]) -> None:
        self.linker, self.found, self.site_packages = linker, found, site_packages
        self.callers = (library,) if library else ()
        self.listing = Listing(linker.root)

    def open(self, soname: str) -> Opening:
        """Open a library, and the parts that cuDNN opens by itself."""
        opening = self.linker.open(soname, self.callers, all_hits=True)
        if opening.winner and (missing := self._missing_part(soname, opening.winner)):
            opening.hits = [
                Hit(hit.path, hit.via, f"opens {missing}", "later") if hit.path == opening.winner else hit
                for hit in opening.hits
            ]
            opening.winner = None
        return opening

    def _missing_part(self, soname: str, path: str) -> str | None:
        """The first part of cuDNN that it will not find when it is used: "libcudnn_ops.so.9, not found"."""
        cudnn = self.linker.check(path)
        callers = (cudnn, *self.callers) if isinstance(cudnn, Elf) else ()
        for part in SUBLIBRARIES.get(soname, ()) if callers else ():
            name = soname.replace("libcudnn.", f"libcudnn_{part}.")
            failure = self.linker.open(name, callers).failure
            if failure:
                return failure if failure.startswith(name) else f"{name}, which needs {failure}"
        return None

    def describe(self, soname: str, component: str, opening: Opening) -> Soname:
        """All files of a soname: those in reach in the loader's order, then the others."""
        linker, listing = self.linker, self.listing
        candidates = [
            Candidate(
                path=hit.path,
                via=hit.via,
                reachable=True,
                version=listing.version(hit.path, site_of(hit.path, self.site_packages)),
                problem=hit.problem,
                effect=hit.effect,
            )
            for hit in opening.hits
        ]
        known = {os.path.realpath(below_once(linker.root, hit.path)) for hit in opening.hits}
        for place in self.found:
            name = listing.carries(place.folder, soname)
            path = os.path.join(place.folder, name or "")
            real = os.path.realpath(below_once(linker.root, path))
            if name and real not in known:
                known.add(real)
                candidates.append(self._out_of_reach(path, place, soname))
        reach = [path for path, _ in linker.places(soname, self.callers)]
        folders = [os.path.dirname(path) for path in (*reach, *linker.cached(soname.split(".so.")[0] + ".so."))]
        return Soname(
            soname=soname,
            component=component,
            candidates=tuple(candidates),
            winner=opening.winner,
            other_versions=listing.other_versions([*folders, *(place.folder for place in self.found)], soname),
        )

    def _out_of_reach(self, path: str, place: Place, soname: str) -> Candidate:
        checked = self.linker.check(path)
        problem, effect = (checked.problem, checked.effect) if isinstance(checked, Refusal) else (None, None)
        if problem is None and os.path.basename(path) != soname:
            problem = f"no link named {soname} beside it"
        return Candidate(
            path=path,
            via=place.via,
            reachable=False,
            version=self.listing.version(path, place.site_packages),
            problem=problem,
            effect=effect,
        )


# ----------------------------------------------------------------------------------------------------- library places
#
# Where CUDA libraries lie outside the loader's reach, and of which version a library file is.

# Folders of a toolkit that hold libraries: the runfile's, Debian's, the redistributables' and conda's layouts.
TOOLKIT_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "extras/CUPTI/lib64")
# What a wheel calls itself, for folders that several wheels share (nvidia/cu13/lib of CUDA 13).
WHEELS = {
    "libcudart": "nvidia_cuda_runtime",
    "libcublas": "nvidia_cublas",
    "libcublasLt": "nvidia_cublas",
    "libcufft": "nvidia_cufft",
    "libcurand": "nvidia_curand",
    "libcusolver": "nvidia_cusolver",
    "libcusparse": "nvidia_cusparse",
    "libcudnn": "nvidia_cudnn",
    "libcupti": "nvidia_cuda_cupti",
    "libnccl": "nvidia_nccl",
    "libnvrtc": "nvidia_cuda_nvrtc",
    "libnvJitLink": "nvidia_nvjitlink",
}
_VERSIONED = re.compile(r"^(?P<stem>lib[^/]+?)\.so\.(?P<version>\d[\d.]*)$")
_DIST_INFO = re.compile(r"^(?P<name>.+)-(?P<version>[^-]+)\.dist-info$")


@dataclass(frozen=True)
class Place:
    """A folder with libraries."""

    folder: str  # without the fake root
    via: str  # "pip wheel", "toolkit", "conda"
    site_packages: str | None = None  # of a wheel's folder


def places(
    site_packages: Sequence[str], toolkits: Sequence[Toolkit], prefixes: Sequence[str], root: str
) -> list[Place]:
    """List the folders of pip wheels, toolkits and conda environments that exist."""
    found = [place for site in dict.fromkeys(site_packages) for place in _wheel_folders(site, root)]
    kits = [
        Place(os.path.join(kit.path, name), "conda" if kit.via == "conda" else "toolkit")
        for kit in toolkits
        for name in TOOLKIT_FOLDERS
    ]
    conda = [
        Place(os.path.join(prefix, "lib"), "conda")
        for prefix in dict.fromkeys(prefixes)
        if os.path.isdir(below_once(root, os.path.join(prefix, "conda-meta")))
    ]
    unique = {os.path.realpath(below_once(root, place.folder)): place for place in reversed([*found, *kits, *conda])}
    return [place for real, place in reversed(unique.items()) if os.path.isdir(real)]


def _wheel_folders(site: str, root: str) -> Iterator[Place]:
    """The folders of nvidia-* and TensorRT wheels: nvidia/cudnn/lib, nvidia/cu13/lib, tensorrt_libs."""
    for package in names_in(below_once(root, os.path.join(site, "nvidia"))):
        yield Place(os.path.join(site, "nvidia", package, "lib"), "pip wheel", site)
    for package in ("tensorrt_libs", "tensorrt"):
        yield Place(os.path.join(site, package), "pip wheel", site)


class Listing:
    """Folders read once."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._read = lru_cache(maxsize=None)(lambda folder: tuple(names_in(below_once(root, folder))))

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in `folder`; none when it cannot be read."""
        return self._read(folder)

    def carries(self, folder: str, soname: str) -> str | None:
        """The file of `folder` that is, or would be with a link, `soname`: ``libcudnn.so.9.3.0`` for libcudnn.so.9."""
        names = self.names(folder)
        if soname in names:
            return soname
        return next((name for name in names if name.startswith(soname + ".")), None)

    def other_versions(self, folders: Sequence[str], soname: str) -> tuple[str, ...]:
        """Files of the same library with another soname, each once: ``libcudart.so.13`` for libcudart.so.12."""
        wanted = _VERSIONED.match(soname)
        if not wanted:
            return ()
        found: dict[str, str] = {}
        ours = set[str]()
        for folder in dict.fromkeys(folders):
            for name in self.names(folder):
                match = _VERSIONED.match(name)
                if not match or match["stem"] != wanted["stem"]:
                    continue
                path = os.path.join(folder, name)
                real = os.path.realpath(below_once(self.root, path))
                if name == soname or match["version"].startswith(wanted["version"] + "."):
                    ours.add(real)
                elif real not in found or len(name) < len(os.path.basename(found[real])):
                    found[real] = path
        return tuple(path for real, path in found.items() if real not in ours)

    def version(self, path: str, site_packages: str | None = None) -> str | None:
        """The version that the file name behind the link tells, else that of the wheel which owns the file."""
        named = _VERSIONED.match(os.path.basename(os.path.realpath(below_once(self.root, path))))
        if named and named["version"].count(".") >= 2:
            return named["version"]
        return self.wheel_version(path, site_packages) if site_packages else None

    def wheel_version(self, path: str, site_packages: str) -> str | None:
        """The version of the one installed wheel that owns `path`; None when two (cu11, cu12) could."""
        folder = os.path.basename(os.path.dirname(os.path.dirname(path)))
        stem = os.path.basename(path).split(".so")[0]
        owners = {f"nvidia_{folder}", WHEELS.get(stem, WHEELS.get(stem.split("_")[0], ""))} - {""}
        versions = {
            match["version"]
            for match in map(_DIST_INFO.match, self.names(site_packages))
            if match and re.sub(r"_cu\d+$", "", match["name"].replace("-", "_").lower()) in owners
        }
        return versions.pop() if len(versions) == 1 else None


def site_of(path: str, site_packages: Sequence[str]) -> str | None:
    """The site-packages folder that holds `path`."""
    real = os.path.realpath(path)
    return next((site for site in site_packages if real.startswith(os.path.realpath(site) + os.sep)), None)


def conda_prefixes(site_packages: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Environments whose lib folder may hold CUDA: the one of the interpreter under test, then the active one."""
    paths = systems.paths()  # PREFIX/lib/python3.11/site-packages; on Windows PREFIX\Lib\site-packages
    levels = 2 if paths.sep == "\\" else 3
    own = []
    for site in site_packages:
        prefix = site.rstrip("/\\")
        for _ in range(levels):
            prefix = paths.dirname(prefix)
        own.append(prefix)
    active = environ.get("CONDA_PREFIX")
    return [*own, *([active] if active else [])]


# -------------------------------------------------------------------------------------------------------------- ld so
#
# What glibc's dynamic loader does when a library is opened by its soname.
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
            hit = Hit(path, via) if isinstance(found, Elf) else Hit(path, via, found.problem, found.effect)
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
