"""NVIDIA's published lists of GPUs, as distributions and NVIDIA's repositories carry them; read for refresh_gpus.py.

A name is as the driver reports it, without "NVIDIA". A device is "2684", or "20B0_10DE_134F" where a list tells boards
of one device id apart by their subsystem.
"""

from __future__ import annotations

import gzip
import html
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

NAMES = "src/nvidia/generated/g_nv_name_released.h"  # of open-gpu-kernel-modules
DROPPED = "nvGpus.h"  # of nvidia-installer
_LAST_BRANCH = {9: "580", 8: "470", 7: "390", 6: "367"}  # LegacyStrings of nvGpus.h

_RELEASE = re.compile(r"^=+ Release (\d+) Entries|^\S+ version (\d+)\.")
_ADDED = re.compile(r"^ {4}\* Added support for the following (?:new )?GPU(?:s|\(s\))?:?$")
_BULLET = re.compile(r"^ {6,}[*o-] (.+)$")
_PRODUCT = re.compile(r'<tr id="(?:devid|0x)(\w+)">\s*<td>(.*?)</td>', re.DOTALL)
_LEGACY_PART = "Below are the legacy GPUs"  # that this driver has dropped
_RELEASED = re.compile(r'\{ 0x(\w{4}), 0x(\w{4}), 0x(\w{4}), "(.*?)" \}')
_LEGACY = re.compile(r'\{ 0x(\w{4}), 0x(\w{4}), 0x(\w{4}),\s+(\d+),\s+"(.*?)" \}')
_VIRTUAL = re.compile(r"-(?:\d-)?(?:\d{1,2}|\d{1,3}(?=[A-Z]))(?:[QCABS]|CME|ME|B4)*$|\bv?GRID\b|vGPU|RTX T10x?-")
_NO_NAME = re.compile(r"\(null\)|Graphics Device|^GeForce GPU$|^GPU[- ]|^N15M|DGX Display|\(GP104\)")

Listed = Mapping[str, str]  # device → name


class Lists(NamedTuple):
    """What the lists say, by driver branch."""

    added: dict[str, int]  # name → first branch whose changelog names it
    released: set[int]  # branches that the changelogs have a release of
    manuals: dict[int, Listed]  # branch → GPUs of the README of its last driver; of 440 the device ids alone
    modules: dict[int, Listed]  # branch → GPUs from Turing on, of all its tags
    dropped: dict[str, tuple[str, str]]  # device → name, last branch
    chips: dict[str, str]  # device id → "GK104 [GeForce GTX 660 Ti]", of pci.ids
    versions: list[str]  # of the packages


def read_lists(packages: Path, modules: Path, installer: Path) -> Lists:
    """Read the .deb files of a folder and two clones."""
    added: dict[str, int] = {}
    found = Lists(added, set(), {}, _modules(modules), _dropped(installer), {}, [])
    for package in sorted(packages.glob("*.deb")):
        found.versions.append(" ".join(package.name.split("_")[:2]))
        for name, content in _documents(package):
            text = content.decode("utf-8", "replace")
            if name.endswith("pci.ids"):
                found.chips.update(_pci_ids(text))
            elif name.endswith("tesla-440.ids"):  # the one branch whose README is not packaged
                found.manuals[440] = dict.fromkeys((line[4:].upper() for line in text.split()), "")
            elif name.endswith("supportedchips.html"):
                branch = int(package.name.split("_")[1].split(".")[0])
                found.manuals[branch] = dict(_manual(text))
            else:
                for gpu, first in _changelog(text, found.released):
                    added[gpu] = min(first, added.get(gpu, first))
    return found


def is_card(name: str) -> bool:
    """Whether a list means a card that is sold by this name, neither a virtual GPU nor a placeholder."""
    return bool(name) and not _VIRTUAL.search(name) and not _NO_NAME.search(name)


def _documents(package: Path) -> Iterator[tuple[str, bytes]]:
    """The lists in a Debian package, decompressed."""
    packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(
                ("/changelog.gz", "/supportedchips.html", "/pci.ids", "/nvidia-tesla-440.ids")
            ):
                file = archive.extractfile(member)
                assert file is not None
                content = file.read()
                yield member.name, gzip.decompress(content) if member.name.endswith(".gz") else content


def _plain(name: str) -> str:
    return " ".join(html.unescape(re.sub(r"<.*?>|®", "", name)).split()).removeprefix("NVIDIA ")


def _changelog(text: str, released: set[int]) -> Iterator[tuple[str, int]]:
    """The bullets below "Added support for the following GPUs", with the branch of their section."""
    branch, inside = 0, False
    for line in text.splitlines():
        if release := _RELEASE.match(line):
            branch = int(release[1] or release[2])
            if release[2]:
                released.add(branch)
        elif _ADDED.match(line):
            inside = True
        elif line.strip() and not line.startswith("      "):
            inside = False
        elif inside and branch and (bullet := _BULLET.match(line)):
            yield _plain(bullet[1]), branch


def _manual(text: str) -> Iterator[tuple[str, str]]:
    for device, name in _PRODUCT.findall(text.partition(_LEGACY_PART)[0]):
        yield device.replace("0x", "").upper(), _plain(name)


def _modules(clone: Path) -> dict[int, Listed]:
    found: dict[int, dict[str, str]] = {}
    tags = [tag for tag in _git(clone, "tag").split() if re.fullmatch(r"[\d.]+", tag)]
    for tag in sorted(tags, key=lambda tag: [int(part) for part in tag.split(".")]):
        branch = found.setdefault(int(tag.split(".")[0]), {})
        for device, board, vendor, name in _RELEASED.findall(_git(clone, "show", f"{tag}:{NAMES}")):
            branch[_device(device, vendor, board)] = _plain(name)
    return dict(found)


def _dropped(clone: Path) -> dict[str, tuple[str, str]]:
    """Device → name and last branch, of GPUs from Fermi on."""
    rows = _LEGACY.findall(_git(clone, "show", f"HEAD:{DROPPED}"))
    return {
        _device(device, vendor, board): (_plain(name), _LAST_BRANCH[int(last)])
        for device, vendor, board, last, name in rows
        if int(last) in _LAST_BRANCH
    }


def _device(device: str, vendor: str, board: str) -> str:
    return device.upper() if vendor == board == "0000" else f"{device}_{vendor}_{board}".upper()


def _pci_ids(text: str) -> Iterator[tuple[str, str]]:
    section = text.partition("\n10de ")[2]
    for line in section.splitlines()[1:]:
        if line and line[0] not in "\t#":
            return
        if line.startswith("\t") and not line.startswith("\t\t"):
            device, _, name = line.strip().partition("  ")
            yield device.upper(), name


def _git(clone: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(clone), *words], check=True, capture_output=True)
    return done.stdout.decode("utf-8", "replace")
