"""What lies where probes look can be anything: it is a reason why something is not known, and nothing waits for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.facts.test_reading import odd_path
from tests.guard import guarded
from tfgpu_doctor.facts.facts import Unknown
from tfgpu_doctor.probes import cuda, elsewhere, files, host, loader

PROBES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "version.json": ("version.json", lambda root: cuda.toolkit_version(str(root))[0]),
    "version.txt": ("version.txt", lambda root: cuda.toolkit_version(str(root))[0]),
    "cuda.h": ("include/cuda.h", lambda root: cuda.toolkit_version(str(root))[0]),
    "cudnn_version.h": ("cudnn_version.h", lambda root: cuda.header_version(str(root / "cudnn_version.h"))),
    "a library": (
        "libcudart.so.12",
        lambda root: isinstance(loader.read_elf(str(root / "libcudart.so.12")), loader.Elf),
    ),
    "kernel.json": ("kernel.json", lambda root: elsewhere.read(str(root / "kernel.json"), "a", str(root), {})),
    "cuda_config.h": (cuda.HEADER, lambda root: cuda.toolkit_of_the_build(str(root))),
    "/proc/modules": ("proc/modules", lambda root: _known(files.text_fact(str(root), "/proc/modules"))),
    "/proc/vmstat": ("proc/vmstat", lambda root: host.oom_kills(str(root))),
}


def _known(fact: object) -> object:
    return None if isinstance(fact, Unknown) else fact


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these")
def test_nothing_waits_for_what_is_no_file(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for odd in ["a pipe without a writer", "a link to a device", "a folder", "a link to itself"]:
        for probe in PROBES:
            with subtests.test(odd=odd, probe=probe):
                tmp_path = tmp_path_factory.mktemp("row")
                name, look = PROBES[probe]
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                odd_path(odd, tmp_path / name)
                with guarded(5, f"{probe}: {odd}", waiting=True):
                    assert not look(tmp_path)
