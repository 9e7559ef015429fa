"""The releases and wheels of a package on the index that pip is configured to use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from packaging.version import Version
from wheel_facts import platform_of, python_of

from tfgpu_doctor.matrix.schema import Platform

OLDEST = Version("1.0.0")


class File(NamedTuple):
    """A wheel on the index."""

    name: str
    url: str
    python: str  # "3.11"
    yanked: str | None  # the reason; "" when none is given
    uploaded: str | None = None  # "2025-08-13"; None: the index does not say


def index_url() -> str:
    """The index that pip uses here: PIP_INDEX_URL, else pip's configuration, else pip's own default."""
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, timeout=60
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return asked.stdout.strip()
    from pip._internal.models.index import PyPI

    return str(PyPI.simple_url)


def wheels_of(package: str, url: str) -> dict[str, dict[Platform, list[File]]]:
    """The releases of a package that the matrix has rows for → platform → its wheels.

    A release of source archives only has an entry without platforms.
    """
    from pypi_simple import NoSuchProjectError, PyPISimple

    found: dict[str, dict[Platform, list[File]]] = defaultdict(lambda: defaultdict(list))
    with PyPISimple(url) as client:
        try:
            page = client.get_project_page(package)
        except NoSuchProjectError:
            return found
    files = [file for file in page.packages if file.package_type in ("wheel", "sdist") and file.version]
    versions = wanted({str(file.version) for file in files})
    for file in files:
        if file.version not in versions:
            continue
        platforms = found[file.version]
        if file.package_type == "wheel" and (platform := platform_of(file.filename)):
            yanked = (file.yanked_reason or "") if file.is_yanked else None
            uploaded = file.upload_time.date().isoformat() if file.upload_time else None
            platforms[platform].append(File(file.filename, file.url, python_of(file.filename), yanked, uploaded))
    return found


def linux_versions(package: str, url: str) -> tuple[str, ...]:
    """The stable versions of a package that have a wheel for Linux on x86_64 which is not withdrawn, ascending."""
    from pypi_simple import NoSuchProjectError, PyPISimple

    with PyPISimple(url) as client, suppress(NoSuchProjectError):
        files = client.get_project_page(package).packages
        found = {
            Version(file.version)
            for file in files
            if file.version and file.filename.endswith("x86_64.whl") and "linux" in file.filename and not file.is_yanked
        }
        return tuple(str(version) for version in sorted(found) if not version.is_prerelease)
    return ()


def wanted(versions: Iterable[str]) -> set[str]:
    """All stable releases, the candidates after the newest of them, the last nightly build of each minor version."""
    known = {Version(version): version for version in versions}
    stable = {version for version in known if not version.is_prerelease and version >= OLDEST}
    newest = max(stable, default=OLDEST)
    candidates = {version for version in known if version.pre and not version.is_devrelease and version > newest}
    nightly: dict[tuple[int, ...], Version] = {}
    for version in sorted(known):
        if version.is_devrelease and version > newest:
            nightly[version.release[:2]] = version
    return {known[version] for version in stable | candidates | set(nightly.values())}
