"""Where CUDA libraries lie outside the loader's reach, and of which version a library file is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tfgpu_doctor.probes.files import names_in
from tfgpu_doctor.probes.ld_so import below_once
from tfgpu_doctor.probes.systems import here
from tfgpu_doctor.records.facts import Toolkit

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
    own = [_prefix_of(site.rstrip("/\\")) for site in site_packages]
    active = environ.get("CONDA_PREFIX")
    return [*own, *([active] if active else [])]


def _prefix_of(site_packages: str) -> str:
    """PREFIX/lib/python3.11/site-packages; on Windows PREFIX\\Lib\\site-packages."""
    paths = here.paths()
    above = paths.dirname(paths.dirname(site_packages))
    return str(above if paths.sep == "\\" else paths.dirname(above))
