# /// script
# requires-python = ">=3.10"
# dependencies = ["msgspec>=0.19", "packaging>=23", "pyyaml>=6.0"]
# ///
"""Derives the GPUs of compat_matrix.yaml from NVIDIA's lists: new names, driver branches, PCI device ids.

    git clone https://github.com/NVIDIA/open-gpu-kernel-modules; git clone https://github.com/NVIDIA/nvidia-installer
    python scripts/refresh_gpus.py --modules open-gpu-kernel-modules --installer nvidia-installer [--packages DIR]
                                   [--check] [--matrix FILE]

Without --packages, `apt-get download` fetches PACKAGES: on a Debian whose sources have sid with non-free, after
`apt-get update`. They hold the changelogs and READMEs of nine driver branches, and pci.ids. The sections `gpus` and
`pci_devices` are written anew from what stands there and what the lists say; all else stays as it is, also a name that
was entered by hand, and its value where no list says more. A second run changes nothing. Exit code 1 with --check: the
file differs from the lists.

What a name's first driver branch is, in this order: the first changelog that says "added support" for it; the first
branch whose list has the name, or its device id, when no branch between that one and the last without it is unknown; a
value that stands there already, and does not contradict the lists; for the name of a family ("A100"), the first of its
members. Otherwise it stays unknown, and the architecture's is only a lower bound.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpu_lists import Lists, is_card, read_lists  # noqa: E402
from sections import finish, parser  # noqa: E402

from tfgpu_doctor.facts.versions import numbers  # noqa: E402
from tfgpu_doctor.matrix.loader import parse  # noqa: E402
from tfgpu_doctor.matrix.names import NameIndex  # noqa: E402
from tfgpu_doctor.matrix.schema import MatrixFile  # noqa: E402

PACKAGES = (
    "nvidia-legacy-340xx-driver", "nvidia-legacy-390xx-driver", "nvidia-tesla-418-driver", "nvidia-tesla-450-driver",
    "nvidia-tesla-460-driver", "nvidia-tesla-470-driver", "nvidia-tesla-driver", "nvidia-tesla-535-driver",
    "nvidia-driver", "nvidia-detect", "pci.ids",
)  # fmt: skip
CHANGELOG, MANUAL, MODULES, INSTALLER, PCI = (
    "driver-changelogs", "driver-manuals", "open-gpu-kernel-modules-names", "nvidia-installer-gpus", "pci-ids",
)  # fmt: skip
# A chip's compute capability: CUDA GPUs page, by the chip that pci.ids gives for a name; the first prefix that fits.
CHIPS = {
    "GF100": "2.0", "GF110": "2.0", "GF": "2.1", "GK104": "3.0", "GK106": "3.0", "GK107": "3.0", "GK110": "3.5",
    "GK180": "3.5", "GK208": "3.5", "GK210": "3.7", "GM107": "5.0", "GM108": "5.0", "GM20": "5.2", "GP100": "6.0",
    "GP10": "6.1", "GV100": "7.0", "TU": "7.5", "GA100": "8.0", "GA10": "8.6", "AD10": "8.9", "GH100": "9.0",
    "GB100": "10.0", "GB102": "10.0", "GB110": "10.3", "GB112": "10.3", "GB20B": "12.1", "GB20": "12.0",
}  # fmt: skip
OLDEST = (3, 0)  # no wheel of TensorFlow ever ran on an older compute capability
FROM_TURING = (7, 5)  # the open kernel modules list these


class Name(NamedTuple):
    """A row's worth of one name."""

    capability: str
    name: str
    source: str
    first: str | None
    driver_source: str | None
    last: str | None


class Derived:
    """The lists, turned round: from names to devices and branches."""

    def __init__(self, lists: Lists, data: MatrixFile) -> None:
        self.lists = lists
        self.rows = [
            Name(one.compute_capability, name, one.source, one.first_driver_branch, one.driver_source, last)
            for one in data.gpus
            for last in [one.last_driver_branch]
            for name in one.names
        ]
        self.drops = {row.compute_capability: row.last_driver_branch for row in data.architectures}
        self.branches = lists.released | lists.manuals.keys() | lists.modules.keys()
        self.devices: dict[str, set[str]] = defaultdict(set)  # name in lower case → devices
        self.spelled: dict[str, str] = {}
        for _, listed in self.all_lists():
            for device, name in listed.items():
                if name:
                    self.devices[name.lower()].add(device)
                    self.spelled[name.lower()] = name
        self.index = NameIndex(sorted(row.name for row in self.rows))

    def all_lists(self) -> Iterator[tuple[str, dict[str, str]]]:
        """By source, the newest first."""
        for branch in sorted(self.lists.modules, reverse=True):
            yield MODULES, dict(self.lists.modules[branch])
        yield INSTALLER, {device: name for device, (name, _) in self.lists.dropped.items()}
        for branch in sorted(self.lists.manuals, reverse=True):
            yield MANUAL, dict(self.lists.manuals[branch])

    def capability(self, device: str) -> str | None:
        """By the chip of a device id."""
        chip = self.lists.chips.get(device[:4], "")
        return next((value for prefix, value in CHIPS.items() if chip.startswith(prefix)), None)

    # ------------------------------------------------------------------------------------------------- names

    def names(self) -> list[Name]:
        """Those of the matrix and the new ones of the lists, with their branches."""
        known = {(row.name.lower(), row.capability) for row in self.rows}
        taken = {name for name, _ in known}
        rows = list(self.rows)
        for lower, devices in sorted(self.devices.items()):
            for capability in sorted({one for device in devices if (one := self.capability(device))}):
                if numbers(capability) >= OLDEST and self._is_new(lower, capability, devices, taken):
                    rows.append(Name(capability, self.spelled[lower], self._source(lower), None, None, None))
        rows = [self._with_branches(row, rows) for row in rows]
        return [self._of_its_family(row, rows) for row in rows]

    def _is_new(self, lower: str, capability: str, devices: set[str], taken: set[str]) -> bool:
        """Neither known nor found by the rules; a known name gets another chip only by a device id of its own."""
        name = self.spelled[lower]
        found = {row.capability for known in self.index.find(name) for row in self.rows if row.name == known}
        own = any(len(device) == 4 and self.capability(device) == capability for device in devices)
        return is_card(name) and capability not in found and (own or lower not in taken)

    def _source(self, lower: str) -> str:
        return next(source for source, listed in self.all_lists() if lower in map(str.lower, listed.values()))

    def _with_branches(self, row: Name, rows: Iterable[Name]) -> Name:
        devices = {one for one in self.devices[row.name.lower()] if self.capability(one) in (None, row.capability)}
        chips = {other.capability for other in rows if other.name.lower() == row.name.lower()}
        first, source = self._first(row, devices, alone=len(chips) == 1)
        lasts = {self.lists.dropped[one][1] for one in devices if one in self.lists.dropped}
        last = min(lasts, default=None, key=int)
        own = last if last != self.drops.get(row.capability) else None
        return row._replace(first=first, driver_source=source, last=own or row.last)

    def _first(self, row: Name, devices: set[str], *, alone: bool) -> tuple[str | None, str | None]:
        added = next((branch for name, branch in self.lists.added.items() if name.lower() == row.name.lower()), None)
        listed = self._listed(row.name.lower(), devices)
        before = (row.first, row.driver_source or row.source if row.first else None)
        if added and alone and (listed is None or added <= listed[0]):
            return str(added), CHANGELOG
        if listed is None or not alone:
            return before if not alone or row.driver_source not in (CHANGELOG, MANUAL) else (None, None)
        ids = {device[:4] for device in devices}
        first, source = min([listed, *self._listing(ids, row.capability)], key=_by_branch)
        without = max((one for one in self._complete(row.capability) if one < first), default=0)
        if not any(without < one < first for one in self.branches):
            return str(first), source
        return before if row.first and without < int(row.first) <= first else (None, None)

    def _listed(self, lower: str, devices: set[str]) -> tuple[int, str] | None:
        """The first branch that lists a name."""
        found = [
            (branch, source)
            for source, lists in ((MANUAL, self.lists.manuals), (MODULES, self.lists.modules))
            for branch, listed in lists.items()
            if any(listed.get(device, "").lower() == lower for device in devices)
        ]
        return min(found, default=None, key=_by_branch)

    def _listing(self, ids: set[str], capability: str) -> Iterator[tuple[int, str]]:
        """The branches that list one of the device ids, by any name."""
        for source, lists in ((MANUAL, self.lists.manuals), (MODULES, self.lists.modules)):
            for branch, listed in lists.items():
                if branch in self._complete(capability) and ids & {device[:4] for device in listed}:
                    yield branch, source

    def _complete(self, capability: str) -> set[int]:
        """The branches whose lists would have a card of this compute capability."""
        modules = self.lists.modules.keys() if numbers(capability) >= FROM_TURING else set()
        return {*self.lists.manuals, *modules}

    def _of_its_family(self, row: Name, rows: Iterable[Name]) -> Name:
        """The branch of "A100" is that of the first "A100-…"."""
        if row.first:
            return row
        words = set(re.split(r"[ -]", row.name))
        family = [
            one
            for one in rows
            if one.first and one.capability == row.capability and words < set(re.split(r"[ -]", f"Tesla {one.name}"))
        ]
        first = min(family, key=lambda one: int(one.first or 0), default=row)
        return row._replace(first=first.first, driver_source=first.driver_source)

    # ----------------------------------------------------------------------------------------------- devices

    def pci_devices(self, rows: Iterable[Name]) -> dict[tuple[str, str], dict[str, list[str]]]:
        """(compute capability, source) → name → device ids."""
        rows = list(rows)
        index = NameIndex(sorted(row.name for row in rows))
        of = {(row.name, row.capability) for row in rows}
        found: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for device in sorted({*self.lists.chips, *(one[:4] for ones in self.devices.values() for one in ones)}):
            capability = self.capability(device)
            if capability is None or numbers(capability) < OLDEST:
                continue
            for source, text in self._called(device):
                name = next((one for one in index.find(text) if (one, capability) in of), None)
                if name is not None:
                    found[capability, source][name].append(device.lower())
                    break
        return found

    def _called(self, device: str) -> Iterator[tuple[str, str]]:
        """What lists call a device id, the best first; boards that share it have names of their own."""
        boards: Counter[tuple[str, str]] = Counter()
        for source, listed in self.all_lists():
            for one, name in listed.items():
                if one == device and is_card(name):
                    yield source, name
                elif (
                    one.startswith(f"{device}_") and is_card(name) and not re.match(r"GeForce.*_10DE_|EIZO", name + one)
                ):
                    boards[source, name] += 1
        model = re.search(r"\[(.*)\]", self.lists.chips.get(device, ""))
        pieces = [model[1], *model[1].split("/")] if model else []
        yield from sorted(boards, key=lambda one: (one[1] not in pieces, -boards[one]))
        yield from ((PCI, piece.strip()) for piece in pieces)


def _by_branch(listed: tuple[int, str]) -> tuple[int, bool]:
    """The kernel modules' list before the README of the same branch."""
    return listed[0], listed[1] == MANUAL


# ------------------------------------------------------------------------------------------------- writing


def gpus_section(rows: Iterable[Name]) -> str:
    """Rows of names that share all else, the newest architectures first."""
    groups: dict[tuple[str, str | None, str | None, str, str | None], list[str]] = defaultdict(list)
    for row in rows:
        groups[row.capability, row.first, row.last, row.source, row.driver_source].append(row.name)
    ordered = sorted(groups, key=lambda one: (*(-part for part in numbers(one[0])), int(one[1] or 0)))
    lines = ["gpus:"]
    for key in ordered:
        capability, first, last, source, driver_source = key
        lines += [f'- compute_capability: "{capability}"']
        lines += [f'  first_driver_branch: "{first}"'] if first else []
        lines += [f'  last_driver_branch: "{last}"'] if last else []
        lines += [f"  source: {source}"]
        lines += [f"  driver_source: {driver_source}"] if driver_source not in (None, source) else []
        lines += _filled(f"  names: [{', '.join(groups[key])}]")
    return "\n".join(lines) + "\n"


def devices_section(devices: dict[tuple[str, str], dict[str, list[str]]]) -> str:
    """A row for each compute capability and source."""
    lines = ["pci_devices:"]
    for capability, source in sorted(devices, key=lambda one: ([-part for part in numbers(one[0])], one[1])):
        names = devices[capability, source]
        text = ", ".join(f'{name}: "{" ".join(ids)}"' for name, ids in sorted(names.items()))
        lines += [f'- compute_capability: "{capability}"', f"  source: {source}", *_filled(f"  devices: {{{text}}}")]
    return "\n".join(lines) + "\n"


def _filled(text: str) -> list[str]:
    """Lines of up to 120 characters, broken after commas alone."""
    glued = re.sub(r"(?<=[^,]) (?=\S)", "\0", text.strip())
    lines = textwrap.wrap(glued, 116, break_long_words=False, break_on_hyphens=False)
    return [("  " if number == 0 else "    ") + line.replace("\0", " ") for number, line in enumerate(lines)]


def replaced(text: str, section: str) -> str:
    """The text of the matrix with a section, which ends at an empty line, in the place of the earlier one."""
    head = section.partition("\n")[0]
    before, found, rest = text.partition(f"\n{head}\n")
    if not found:
        raise SystemExit(f"no section {head!r}")
    return f"{before}\n{section}\n{rest.partition(chr(10) * 2)[2]}"


def changes(before: Iterable[Name], after: Iterable[Name]) -> Iterator[str]:
    """What a refresh changes, a line a name."""
    old = {(row.name, row.capability): row for row in before}
    for row in after:
        was = old.get((row.name, row.capability))
        if was is None:
            yield f"{row.name}: new, compute capability {row.capability}, from driver {row.first or 'unknown'}"
        elif (was.first, was.last) != (row.first, row.last):
            spans = (f"{one.first or 'unknown'} to {one.last or 'its architecture’s'}" for one in (was, row))
            yield f"{row.name} ({row.capability}): driver {' → '.join(spans)} ({row.driver_source or row.source})"


def refresh(file: Path, lists: Lists, *, write: bool) -> int:
    """Write both sections and say what changed; without `write`, only say it, and return 1 if anything would."""
    text = file.read_text(encoding="utf-8")
    derived = Derived(lists, parse(text, str(file)))
    rows = derived.names()
    for line in changes(derived.rows, rows):
        print(line)
    print(f"read: {', '.join(lists.versions)}")
    fresh = replaced(replaced(text, gpus_section(rows)), devices_section(derived.pci_devices(rows)))
    return finish(file, fresh, is_check=not write)


def main() -> int:
    """Refresh, or with --check only compare."""
    more = parser(__doc__)
    more.add_argument("--modules", metavar="CLONE", type=Path, required=True, help="NVIDIA/open-gpu-kernel-modules")
    more.add_argument("--installer", metavar="CLONE", type=Path, required=True, help="NVIDIA/nvidia-installer")
    more.add_argument("--packages", metavar="DIR", type=Path, help="the .deb files; without it they are downloaded")
    options = more.parse_args()
    with tempfile.TemporaryDirectory(prefix="tfgpu-gpus-") as folder:
        if options.packages is None:
            subprocess.run(["apt-get", "download", *PACKAGES], check=True, cwd=folder)
        lists = read_lists(options.packages or Path(folder), options.modules, options.installer)
    return refresh(options.matrix, lists, write=not options.check)


if __name__ == "__main__":
    sys.exit(main())
