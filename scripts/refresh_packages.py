# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "msgspec>=0.19", "packaging>=23", "pip>=23", "pypi-simple>=1.5", "pyyaml>=6.0", "remotezip>=0.12.3",
# ]
# ///
"""Derives the table `packages` of compat_matrix.yaml again: what TensorFlow and the packages beside it require.

    python scripts/refresh_packages.py [--check] [--matrix FILE]

Read are the names of the published wheels, Requires-Python, and Requires-Dist of their METADATA, which the index serves
as a file of its own. The index is the one that pip is configured to use. Kept are requirements on packages of the table
and on NVIDIA's, each with the versions that have it. Left out are pre-releases, and what no Python from 3.6 on can
install. One wheel of a version is read, that for Linux if there is one: where TensorFlow's wheels for other systems are
empty, what they stand for requires the same. Everything outside of the lines BEGIN and END stays as it is. Exit code 1
with --check: the file differs.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.parser import HeaderParser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from package_index import index_url  # noqa: E402
from refresh_matrix import TAIL, flow  # noqa: E402
from sections import Section, finish, parser  # noqa: E402
from wheel_facts import platform_of  # noqa: E402

from tfgpu_doctor.facts.versions import numbers  # noqa: E402
from tfgpu_doctor.matrix.schema import PLATFORMS, PackageReleases, PackageRow, Platform  # noqa: E402

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, PyPISimple

BEGIN = "# ---- what packages require, derived by scripts/refresh_packages.py: edits below this line are lost ----"
END = "# ---- end of what packages require ----"
# their Pythons stand in the table `tensorflow`
TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu")
# released with TensorFlow or made for it
COMPANIONS = (
    *("tf-keras", "keras", "tensorboard", "tensorflow-estimator", "tensorflow-text", "tensorflow-probability"),
    *("tensorflow-hub", "tensorflow-io", "tensorflow-io-gcs-filesystem", "tensorflow-addons", "tensorflow-datasets"),
    *("tensorflow-metadata", "tensorflow-model-optimization", "tensorflow-decision-forests", "tensorflow-recommenders"),
    *("tf-models-official", "keras-cv", "keras-nlp", "keras-hub", "tf2onnx", "tensorflow-metal"),
    "tensorflow-serving-api",
)
# what TensorFlow itself requires (Requires-Dist of its wheels, 1.15 to 2.21)
REQUIRED = (
    *("numpy", "protobuf", "ml-dtypes", "absl-py", "astunparse", "flatbuffers", "gast", "google-pasta", "grpcio"),
    *("h5py", "libclang", "opt-einsum", "termcolor", "typing-extensions", "wrapt", "keras-preprocessing", "scipy"),
)
# often installed beside it, whose newest versions require NumPy 2
BESIDE = (
    *("pandas", "seaborn", "datasets", "shap", "albumentations", "opencv-python", "opencv-python-headless"),
    *("opencv-contrib-python", "opencv-contrib-python-headless", "jax"),
)
# which bring CUDA libraries of pip, as the extra of TensorFlow does
WITH_CUDA = ("torch", "torchvision", "torchaudio")
PACKAGES = (*TENSORFLOWS, *COMPANIONS, *REQUIRED, *BESIDE, *WITH_CUDA)
EXTRAS = ("and-cuda", "tf", "tensorflow", "tensorflow-cpu", "tensorflow-gpu")  # that users ask for; no tests, no docs
OLDEST = {"numpy": "1.13", "protobuf": "3.6", "grpcio": "1.8", "scipy": "1.4", "pandas": "1.1"}
OLDEST |= {
    "torch": "2.0",
    "torchvision": "0.15",
    "torchaudio": "2.0",
    "jax": "0.4.16",
}  # before it, JAX has hardly a wheel
OLDEST |= {name: "4.5.5" for name in BESIDE if "opencv" in name}  # from here on one wheel serves every later Python
PYTHONS = tuple(f"3.{minor}" for minor in range(6, 15))
WORKERS = 8  # they wait for the network


class Published(NamedTuple):
    """The wheels of one version for one platform."""

    version: str
    platform: Platform
    python: str | None  # Requires-Python
    wheels: tuple[str, ...]  # Pythons that have one; empty: any
    yanked: bool
    file: DistributionPackage


def derive() -> list[PackageRow]:
    """A row for each package."""
    from pypi_simple import PyPISimple

    rows: list[PackageRow] = []
    with PyPISimple(index_url()) as client, ThreadPoolExecutor(WORKERS) as pool:
        for package in PACKAGES:
            found = list(published(client, package))
            read = {one.version: one.file for one in sorted(found, key=lambda one: PLATFORMS.index(one.platform))[::-1]}
            texts = zip(read, pool.map(partial(metadata, client), read.values()), strict=True)
            rows.append(row_of(package, found, {version: requires(package, text) for version, text in texts}))
            print(f"{package}: {len(read)} releases", file=sys.stderr)
    return rows


def published(client: PyPISimple, package: str) -> Iterator[Published]:
    """The installable versions of a package, for each platform of the matrix."""
    wheels: dict[tuple[Version, Platform], list[DistributionPackage]] = defaultdict(list)
    for file in client.get_project_page(package).packages:
        if file.package_type == "wheel" and file.version and not Version(file.version).is_prerelease:
            for platform in platforms_of(file.filename):
                wheels[Version(file.version), platform].append(file)
    for (version, platform), files in wheels.items():
        pythons = {python for file in files for python in pythons_of(file.filename)}
        if pythons.isdisjoint(PYTHONS) or version < Version(OLDEST.get(package, "0")):
            continue
        listed = tuple(sorted(pythons.intersection(PYTHONS), key=numbers))
        newest = max(files, key=lambda file: (bool(file.has_metadata), _newest_python(file), file.filename))
        any_python = listed == PYTHONS or package in TENSORFLOWS
        yanked = all(file.is_yanked for file in files)
        required = None if package in TENSORFLOWS else newest.requires_python
        yield Published(str(version), platform, required, () if any_python else listed, yanked, newest)


def _newest_python(file: DistributionPackage) -> tuple[int, ...]:
    return max(map(numbers, pythons_of(file.filename)), default=())


def platforms_of(filename: str) -> tuple[Platform, ...]:
    """The platforms of a wheel; all of them for one without machine code."""
    if filename.endswith("-any.whl"):
        return PLATFORMS  # type: ignore[return-value]
    platform = platform_of(filename)
    universal = "universal2" in filename
    return ("macos_arm64", "macos_x86_64") if universal else (platform,) if platform else ()


def pythons_of(filename: str) -> frozenset[str]:
    """The Pythons of a wheel; all of them for py3, later ones as well for the stable ABI."""
    found: set[str] = set()
    for tag in parse_wheel_filename(filename)[3]:
        name, abi = tag.interpreter, tag.abi
        if name in ("py3", "py2.py3"):
            return frozenset(PYTHONS)
        if not name.startswith(("cp3", "py3")) or abi.endswith("t"):
            continue  # Python 2, PyPy, free-threaded
        first = f"3.{name[3:] or 6}"
        later = abi == "abi3" or name.startswith("py3")
        found |= {one for one in PYTHONS if one == first or (later and numbers(one) >= numbers(first))}
    return frozenset(found)


def metadata(client: PyPISimple, file: DistributionPackage) -> str:
    """METADATA of a wheel; where the index has no such file, out of the wheel itself by range requests."""
    from pypi_simple import NoMetadataError
    from remotezip import RemoteIOError, RemoteZip  # type: ignore[import-untyped]

    for wait in (1, 5, 20, 60):  # a busy network
        try:
            return client.get_package_metadata(file, verify=False)
        except NoMetadataError:
            with suppress(RemoteIOError), RemoteZip(file.url, initial_buffer_size=TAIL) as archive:
                name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
                return str(archive.read(name).decode())
        except OSError as error:
            print(f"{file.filename}: {error}"[:200], file=sys.stderr)
        time.sleep(wait)
    raise SystemExit(f"{file.filename}: no METADATA")


def requires(package: str, text: str) -> tuple[str, ...]:
    """The requirements on packages of the table, in a form that does not depend on how they were written."""
    found = set()
    for line in HeaderParser().parsestr(text).get_all("Requires-Dist") or ():
        try:
            one = Requirement(line)
        except InvalidRequirement:
            print(f"{package}: not understood: {line}", file=sys.stderr)  # "grpcio (>=1.0<2)", as of 2017
            continue
        name, marker = canonicalize_name(one.name), str(one.marker or "")
        asked = "extra ==" not in marker or any(f'extra == "{extra}"' in marker for extra in EXTRAS)
        says = one.specifier or one.extras or name in (*TENSORFLOWS, *COMPANIONS, *BESIDE, *WITH_CUDA)
        if (name in PACKAGES or name.startswith("nvidia-")) and name != package and asked and says:
            extras = f"[{','.join(sorted(one.extras))}]" if one.extras else ""
            found.add(f"{name}{extras}{one.specifier}" + (f"; {marker}" if marker else ""))
    return tuple(sorted(found))


def row_of(package: str, found: Sequence[Published], required: dict[str, tuple[str, ...]]) -> PackageRow:
    """The row of a package: its releases by what they can be installed with, and which versions have a requirement."""
    order = sorted(required, key=Version)
    having: dict[str, list[str]] = defaultdict(list)
    for version in order:
        for text in required[version]:
            having[text].append(version)
    return PackageRow(
        package=package,
        releases=tuple(_releases(found)),
        requires={text: spans(having[text], order) for text in sorted(having)},
    )


def _releases(found: Iterable[Published]) -> list[PackageReleases]:
    platforms: dict[tuple[str, object], list[Platform]] = defaultdict(list)
    for one in found:
        platforms[one.version, (one.python, one.wheels, one.yanked)].append(one.platform)
    groups: dict[object, list[str]] = defaultdict(list)
    for (version, same), on in platforms.items():
        ordered = tuple(one for one in PLATFORMS if one in on)
        groups[same, ordered if ordered != PLATFORMS else ()].append(version)
    made = [
        PackageReleases(
            versions=tuple(sorted(versions, key=Version, reverse=True)),
            python=python,
            wheels=wheels,
            platforms=on,
            yanked=yanked,
        )
        for ((python, wheels, yanked), on), versions in groups.items()  # type: ignore[misc]
    ]
    return sorted(made, key=lambda one: (Version(one.versions[0]), one.platforms), reverse=True)


def spans(versions: Iterable[str], order: Sequence[str]) -> str:
    """Versions as runs of the ordered ones: "2.4.0..2.4.4 2.6.0"."""
    places, found = sorted(order.index(one) for one in versions), []
    for place in places:
        if found and found[-1][1] == place - 1:
            found[-1][1] = place
        else:
            found.append([place, place])
    return " ".join(order[first] + (f"..{order[last]}" if last > first else "") for first, last in found)


def render(rows: Iterable[PackageRow]) -> str:
    """The derived part of the file: a group of releases and a requirement a line, so that a diff shows what changed."""
    lines = [BEGIN, "packages:"]
    for row in rows:
        lines += [f"- package: {row.package}", "  releases:"]
        lines += [f"  - {flow(msgspec.to_builtins(one))}" for one in row.releases]
        if row.requires:
            lines += [
                "  requires:",
                *(f"    {flow(text)}: {flow(versions)}" for text, versions in row.requires.items()),
            ]
    return "\n".join([*lines, END])


def main() -> int:
    """Refresh, or with --check only compare."""
    options = parser(__doc__).parse_args()
    section = Section(options.matrix, BEGIN, END)
    return finish(options.matrix, section.whole(render(derive())), is_check=options.check)


if __name__ == "__main__":
    sys.exit(main())
