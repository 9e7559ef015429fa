# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "msgspec>=0.19", "packaging>=23", "pip>=23", "pyelftools>=0.30", "pypi-simple>=1.5", "pyyaml>=6.0",
#   "remotezip>=0.12.3",
# ]
# ///
"""Derives the table `builds` of compat_matrix.yaml: what the libraries of TensorFlow's wheels were compiled with.

    python scripts/refresh_builds.py [RELEASE ...] [--check] [--reread] [--matrix FILE]

Of every Linux wheel with CUDA: the architectures and PTX of its fat binaries, part by part, and the cuDNN that its
binary compares with the loaded one (binaries.py says how both are read). All its libraries are read: half a gigabyte
and 20 seconds a wheel; none where another package of the same release has libraries with the same checksums. Without
RELEASE ("tensorflow==2.21.0"), those that the table does not have; wheels never change. --reread reads all again. The
index is the one that pip is configured to use. The file is written after every wheel.
Exit code 1 with --check: the file differs.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile, ZipInfo

from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from binaries import compiled_cudnn, fat_binaries  # noqa: E402
from fatbins import Images  # noqa: E402
from package_index import index_url, wheels_of  # noqa: E402
from refresh_matrix import TAIL, flow  # noqa: E402
from sections import Section, finish, parser  # noqa: E402

from tfgpu_doctor.matrix.loader import parse  # noqa: E402
from tfgpu_doctor.matrix.schema import Build, FatBinaries, MatrixFile, Platform  # noqa: E402

BEGIN = "# ---- of the wheels' libraries, derived by scripts/refresh_builds.py: edits below this line are lost ----"
END = "# ---- end of the wheels' libraries ----"
# 1.7 brings NVIDIA's TensorRT along, whose kernels are for other architectures
_LIBRARY = re.compile(r"(?!.*/local_config_tensorrt/).*\.so(?:\.\d+)?")
_PIECE = 1 << 22


class Release(NamedTuple):
    """A wheel of the matrix."""

    package: str
    version: str
    platform: Platform

    @property
    def requirement(self) -> str:
        """As it is named on the command line."""
        return f"{self.package}=={self.version}"


class Contents(NamedTuple):
    """What a wheel was compiled with; equal ones share a row."""

    platform: Platform
    cudnn: str | None
    parts: tuple[FatBinaries, ...]


def wanted(data: MatrixFile) -> dict[Release, str]:
    """The Linux wheels with CUDA → their file names, newest first."""
    found = {
        Release(row.package, row.version, platform): wheel.wheel
        for row in data.tensorflow
        for platform, wheel in row.wheels.items()
        if platform.startswith("linux") and wheel.cuda and wheel.wheel
    }
    return dict(sorted(found.items(), key=lambda item: Version(item[0].version), reverse=True))


def known(rows: Iterable[Build]) -> dict[Release, Contents]:
    """What the table has."""
    return {
        Release(package, version, row.platform): Contents(row.platform, row.cudnn, row.parts)
        for row in rows
        for package, versions in row.releases.items()
        for version in versions.split()
    }


@contextmanager
def opened(release: Release, wheel: str) -> Iterator[tuple[ZipFile, list[ZipInfo]]]:
    """A wheel on the index, and its libraries."""
    from remotezip import RemoteZip  # type: ignore[import-untyped]

    files = wheels_of(release.package, index_url())[release.version][release.platform]
    (url,) = (file.url for file in files if file.name == wheel)
    with RemoteZip(url, initial_buffer_size=TAIL) as archive:
        yield archive, [one for one in archive.infolist() if _LIBRARY.fullmatch(one.filename)]


def read(release: Release, wheel: str) -> Contents:
    """Read all libraries of a wheel."""
    seen: Counter[Images] = Counter()
    versions = set()
    with opened(release, wheel) as (archive, libraries):
        for library in libraries:
            with tempfile.TemporaryFile() as file, archive.open(library) as stream:
                while piece := stream.read(_PIECE):
                    file.write(piece)
                file.flush()
                seen += fat_binaries(file)
                versions.add(compiled_cudnn(file))
    found = versions - {None}
    if len(found) > 1:
        raise SystemExit(f"{wheel}: its libraries were compiled with several versions of cuDNN: {found}")
    cudnn = ".".join(map(str, found.pop())) if found else None
    return Contents(release.platform, cudnn, tuple(parts(seen)))


def of_other_package(
    release: Release, wheels: Mapping[Release, str], found: Mapping[Release, Contents]
) -> Contents | None:
    """What is known of the same release of another package, if its libraries are the same."""
    for other in found.keys() - {release}:
        if other[1:] == release[1:] and _checksums(other, wheels[other]) == _checksums(release, wheels[release]):
            return found[other]
    return None


def _checksums(release: Release, wheel: str) -> set[tuple[str, int, int]]:
    with opened(release, wheel) as (_, libraries):
        return {(one.filename, one.CRC, one.file_size) for one in libraries}


def parts(seen: Counter[Images]) -> Iterator[FatBinaries]:
    """One record for all fat binaries with the same contents, the most frequent first."""
    for images, count in sorted(seen.items(), key=lambda item: (-item[1], item[0].sass)):
        isa = ".".join(map(str, images.isa or ()))
        yield FatBinaries(
            count=count, sass=tuple(map(_dotted, images.sass)), ptx={_dotted(one): isa for one in images.ptx}
        )


def _dotted(architecture: int) -> str:
    return f"{architecture // 10}.{architecture % 10}"


def rows(found: dict[Release, Contents]) -> list[Build]:
    """The table: releases with the same contents share a row, the newest first."""
    shared: list[tuple[Contents, dict[str, list[str]]]] = []
    for release in sorted(found, key=lambda one: Version(one.version), reverse=True):
        packages = next((of for contents, of in shared if contents == found[release]), None)
        if packages is None:
            packages = defaultdict(list)
            shared.append((found[release], packages))
        packages[release.package].append(release.version)
    return [
        Build(
            releases={package: " ".join(versions) for package, versions in sorted(packages.items())},
            **contents._asdict(),
        )
        for contents, packages in shared
    ]


def render(table: Iterable[Build]) -> str:
    """The section, a line for each kind of fat binary."""
    table = list(table)
    lines = [BEGIN, "builds:" if table else "builds: []"]
    for row in table:
        lines.append(f"- releases: {flow(row.releases)}")
        lines += [f"  platform: {row.platform}", f"  cudnn: {flow(row.cudnn)}", f"  source: {row.source}", "  parts:"]
        lines += [f"  - {{count: {one.count}, sass: {flow(one.sass)}, ptx: {flow(one.ptx)}}}" for one in row.parts]
    return "\n".join([*lines, END])


def main() -> int:
    """Read wheels, write or check the file."""
    more = parser(__doc__)
    more.add_argument("releases", nargs="*", metavar="RELEASE")
    more.add_argument("--reread", action="store_true", help="read the wheels again that the table has")
    options = more.parse_args()
    section = Section(options.matrix, BEGIN, END)
    data = parse(section.text, str(options.matrix))
    wheels = wanted(data)
    found = {release: contents for release, contents in known(data.builds).items() if release in wheels}
    for release, wheel in wheels.items():
        if release.requirement in options.releases if options.releases else options.reread or release not in found:
            found[release] = of_other_package(release, wheels, found) or read(release, wheel)
            print(
                f"{release.requirement} {release.platform}: cuDNN {found[release].cudnn}", file=sys.stderr, flush=True
            )
            if not options.check:
                options.matrix.write_text(section.whole(render(rows(found))), encoding="utf-8")
    return finish(options.matrix, section.whole(render(rows(found))), is_check=options.check)


if __name__ == "__main__":
    raise SystemExit(main())
