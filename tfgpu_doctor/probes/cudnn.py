"""cuDNN on disk: libraries, headers, and the version that each tells."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from tfgpu_doctor.probes.files import read_text
from tfgpu_doctor.probes.ld_so import below_once
from tfgpu_doctor.probes.library_places import Listing, conda_prefixes, places, site_of
from tfgpu_doctor.records.facts import Cudnn, CudnnFile, Fact, Known, Loader, Toolkit, Unknown, value_or

HEADERS = ("cudnn_version.h", "cudnn.h")  # before cuDNN 8 the version stood in cudnn.h
SYSTEM_INCLUDES = (
    "/usr/include",
    "/usr/include/x86_64-linux-gnu",
    "/usr/include/aarch64-linux-gnu",
    "/usr/local/include",
)
LIBRARY = re.compile(r"libcudnn\.so\.\d+(\.\d+)*|cudnn64_\d+\.dll")
_MACRO = re.compile(r"^\s*#\s*define\s+CUDNN_(MAJOR|MINOR|PATCHLEVEL)\s+(\d+)", re.MULTILINE)


def examine(
    loader: Loader,
    *,
    site_packages: Sequence[str],
    toolkits: Sequence[Toolkit],
    environ: Mapping[str, str],
    root: str = "/",
) -> Cudnn:
    """Find every cuDNN; `loader` tells those that TensorFlow could load, the usual places the others. Never raises."""
    libraries = tuple(_libraries(loader, site_packages, toolkits, environ, root))
    headers = tuple(_headers(site_packages, toolkits, environ, root))
    header: Fact[CudnnFile] = (
        Known(headers[0], headers[0].path)
        if headers
        else Unknown("no cudnn_version.h in the include folders of the system, the toolkits, conda or the wheels")
    )
    return Cudnn(
        installed=Known(libraries, "the loader's places, pip wheels, toolkits and conda"),
        header=header,
        runtime=Unknown("cuDNN was not loaded"),
    )


def _libraries(
    loader: Loader, site_packages: Sequence[str], toolkits: Sequence[Toolkit], environ: Mapping[str, str], root: str
) -> Iterator[CudnnFile]:
    """Every libcudnn once, the loader's choice first."""
    listing = Listing(root)
    paths = [
        path
        for soname in value_or(loader.sonames, ())
        if LIBRARY.fullmatch(soname.soname)
        for path in (soname.winner, *(one.path for one in soname.candidates), *soname.other_versions)
        if path
    ]
    beyond = places(site_packages, toolkits, conda_prefixes(site_packages, environ), root)
    for folder in (*value_or(loader.search_path, ()), *(place.folder for place in beyond)):
        paths += [os.path.join(folder, name) for name in listing.names(folder) if LIBRARY.fullmatch(name)]
    seen = set()
    for path in paths:
        real = os.path.realpath(below_once(root, path))
        if real not in seen and os.path.isfile(real):
            seen.add(real)
            version, source = _version(path, listing, site_packages, root)
            yield CudnnFile(path=path, version=version, source=source)


def _version(path: str, listing: Listing, site_packages: Sequence[str], root: str) -> tuple[str | None, str]:
    """From the file name behind the link, the wheel that owns the file, or the header beside its folder."""
    if named := listing.version(path):
        return named, "file name"
    site = site_of(path, site_packages)
    if site and (packaged := listing.wheel_version(path, site)):
        return packaged, "pip package"
    beside = os.path.join(os.path.dirname(os.path.dirname(path)), "include")
    for name in HEADERS:
        if version := _header_version(os.path.join(beside, name), root):
            return version, os.path.join(beside, name)
    return None, "neither its name nor a package nor a header tells"


def _headers(
    site_packages: Sequence[str], toolkits: Sequence[Toolkit], environ: Mapping[str, str], root: str
) -> Iterator[CudnnFile]:
    own = [environ[name] for name in ("CUDNN_PATH", "CUDNN_HOME", "CUDNN_ROOT") if environ.get(name)]
    bases = [*own, *(kit.path for kit in toolkits), *conda_prefixes(site_packages, environ)]
    includes = [
        *(os.path.join(site, "nvidia", "cudnn", "include") for site in site_packages),
        *(os.path.join(base, "include") for base in bases),
        *SYSTEM_INCLUDES,
    ]
    for folder in dict.fromkeys(includes):
        for name in HEADERS:
            path = os.path.join(folder, name)
            if version := _header_version(path, root):
                yield CudnnFile(path=path, version=version, source="header")


def _header_version(path: str, root: str) -> str | None:
    try:
        text = read_text("/", below_once(root, path))
    except OSError:  # most of the places have none
        return None
    parts = dict(_MACRO.findall(text))
    names = ("MAJOR", "MINOR", "PATCHLEVEL")
    return ".".join(parts[name] for name in names) if all(name in parts for name in names) else None
