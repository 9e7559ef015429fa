"""Which file the dynamic loader picks for each library that TensorFlow opens by name, and why not another."""

from __future__ import annotations

import glob
import os
import platform
from collections.abc import Mapping, Sequence

import msgspec

from tfgpu_doctor.parsers.system_outputs import CacheEntry, parse_cache
from tfgpu_doctor.probes import elf, process, programs
from tfgpu_doctor.probes.elf import Elf, Refusal
from tfgpu_doctor.probes.files import below
from tfgpu_doctor.probes.ld_so import Hit, LdSo, Opening, below_once, split_library_path
from tfgpu_doctor.probes.library_places import Listing, Place, conda_prefixes, places, site_of
from tfgpu_doctor.probes.systems import here
from tfgpu_doctor.probes.systems.system import LoaderQuestion
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
    if system := here.other(root):
        return system.loader(LoaderQuestion(sonames, environ, site_packages, toolkits, executable))
    path = split_library_path(environ)
    search_path: Fact[tuple[str, ...]] = Known(path, "LD_LIBRARY_PATH")
    if musl := _musl(root):
        return Loader(search_path=search_path, sonames=Unknown(f"musl's loader ({musl}) is not modelled, only glibc's"))
    caller = caller_of(tensorflow_dir, root)
    runpath: Fact[tuple[str, ...]] = (
        Known(caller.runpath or caller.rpath, caller.path) if isinstance(caller, Elf) else caller
    )
    if not sonames:
        reason = "which libraries this TensorFlow opens is not known"
        return Loader(search_path=search_path, runpath=runpath, sonames=Unknown(reason))
    library = caller if isinstance(caller, Elf) else None
    cache = _cache(root)
    linker = _linker(library, path, () if isinstance(cache, Unknown) else cache, environ, executable, root)
    found = places(site_packages, toolkits, conda_prefixes(site_packages, environ), root)
    listing = Listing(root)
    openings = {
        soname: _open(linker, soname, library) for soname, _ in sorted(sonames, key=lambda pair: _turn(pair[1]))
    }
    results = tuple(
        _describe(soname, component, openings[soname], found, listing, linker, library, site_packages)
        for soname, component in sonames
    )
    source = f"ld.so's search order, called from {library.path}" if library else "ld.so's search order"
    if isinstance(cache, Unknown):
        if any(one.winner is None for one in results):
            return Loader(search_path=search_path, runpath=runpath, sonames=cache)
        source += f" ({cache.reason})"
    return Loader(search_path=search_path, runpath=runpath, sonames=Known(results, source))


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


def _turn(component: str) -> int:
    return ORDER.index(component) if component in ORDER else len(ORDER)


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
    library: Elf | None,
    path: Sequence[str],
    cache: Sequence[CacheEntry],
    environ: Mapping[str, str],
    executable: str | None,
    root: str,
) -> LdSo:
    program = elf.read(os.path.realpath(executable)) if executable else None
    linker = LdSo(
        machine=library.machine if library else MACHINES.get(platform.machine().lower(), "EM_X86_64"),
        library_path=path,
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


def _open(linker: LdSo, soname: str, library: Elf | None) -> Opening:
    callers = (library,) if library else ()
    opening = linker.open(soname, callers, all_hits=True)
    missing = _sublibrary_lost(linker, soname, opening.winner, callers) if opening.winner else None
    if missing:
        opening.hits = [
            Hit(hit.path, hit.via, f"opens {missing}", "later") if hit.path == opening.winner else hit
            for hit in opening.hits
        ]
        opening.winner = None
    return opening


def _sublibrary_lost(linker: LdSo, soname: str, path: str, callers: tuple[Elf, ...]) -> str | None:
    """The first part of cuDNN that it will not find when it is used: "libcudnn_ops.so.9, not found"."""
    cudnn = linker.check(path)
    if not isinstance(cudnn, Elf):
        return None
    for part in SUBLIBRARIES.get(soname, ()):
        name = soname.replace("libcudnn.", f"libcudnn_{part}.")
        opening = linker.open(name, (cudnn, *callers))
        if opening.failure:
            return opening.failure if opening.failure.startswith(name) else f"{name}, which needs {opening.failure}"
    return None


def _describe(
    soname: str,
    component: str,
    opening: Opening,
    found: Sequence[Place],
    listing: Listing,
    linker: LdSo,
    library: Elf | None,
    site_packages: Sequence[str],
) -> Soname:
    """All files of a soname: those in reach in the loader's order, then the others."""
    candidates = [
        Candidate(
            path=hit.path,
            via=hit.via,
            reachable=True,
            version=listing.version(hit.path, site_of(hit.path, site_packages)),
            problem=hit.problem,
            effect=hit.effect,
        )
        for hit in opening.hits
    ]
    known = {os.path.realpath(below_once(linker.root, hit.path)) for hit in opening.hits}
    for place in found:
        name = listing.carries(place.folder, soname)
        if name is None:
            continue
        path = os.path.join(place.folder, name)
        real = os.path.realpath(below_once(linker.root, path))
        if real in known:
            continue
        known.add(real)
        candidates.append(_out_of_reach(path, place, soname, listing, linker))
    reach = [path for path, _ in linker.places(soname, (library,) if library else ())]
    folders = [os.path.dirname(path) for path in (*reach, *linker.cached(soname.split(".so.")[0] + ".so."))]
    others = listing.other_versions([*folders, *(place.folder for place in found)], soname)
    winner = opening.winner
    if winner and (foreign := _foreign(winner, candidates, soname, linker)):
        candidates = [foreign if one.path == winner else one for one in candidates]
        winner = None
    return Soname(
        soname=soname, component=component, candidates=tuple(candidates), winner=winner, other_versions=others
    )


def _foreign(winner: str, candidates: Sequence[Candidate], soname: str, linker: LdSo) -> Candidate | None:
    """The file that is loaded, where it has none of the functions that the wheel's file of this soname has.

    It loads, and TensorFlow fails when it first asks for a function, or takes the library for absent.
    """
    taken = next((one for one in candidates if one.path == winner), None)
    wheel = next((one for one in candidates if "/nvidia/" in one.path and one.path != winner and not one.problem), None)
    if taken is None or wheel is None or taken.via not in ("LD_LIBRARY_PATH", "ldconfig", "default path"):
        return None
    start = soname.removeprefix("lib")[:4]  # cudn(n), cubl(as), cuff(t), cura(nd), cuso(lver), cusp(arse), cuda(rt)
    ours, theirs = (linker.check(one.path) for one in (wheel, taken))
    if not isinstance(ours, Elf) or not isinstance(theirs, Elf):
        return None
    if elf.mentions(ours, start.encode()) and elf.mentions(theirs, start.encode()) is False:
        problem = f"none of the functions of {soname}: another library of that name, or a damaged one"
        return msgspec.structs.replace(taken, problem=problem, effect="later")
    return None


def _out_of_reach(path: str, place: Place, soname: str, listing: Listing, linker: LdSo) -> Candidate:
    checked = linker.check(path)
    problem = checked.problem if isinstance(checked, Refusal) else None
    if problem is None and os.path.basename(path) != soname:
        problem = f"no link named {soname} beside it"
    return Candidate(
        path=path,
        via=place.via,
        reachable=False,
        version=listing.version(path, place.site_packages),
        problem=problem,
        effect=checked.effect if isinstance(checked, Refusal) else None,
    )
