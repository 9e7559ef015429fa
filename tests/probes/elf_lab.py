"""Tiny shared libraries with the SONAME, NEEDED, RUNPATH and RPATH asked for, and the real loader's verdict."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

from tests.lab import compiler

PLAIN = "int answer(void) { return 42; }\n"
# Calls dlopen itself, as TensorFlow's library does: the caller's RUNPATH counts, not that of Python's ctypes module.
CALLER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
const char *open_it(const char *name) {
    struct link_map *map;
    void *handle = dlopen(name, RTLD_LAZY);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map)) return 0;
    return map->l_name;
}
const char *why(void) { return dlerror(); }
"""
ASK = """
import ctypes, json, sys
caller = ctypes.CDLL(sys.argv[1])
caller.open_it.restype = ctypes.c_char_p
for name in sys.argv[2:]:
    path = caller.open_it(name.encode())
    print(json.dumps([name, path.decode() if path is not None else None]), flush=True)
"""


class Forge:
    """Compiles libraries; the same one only once."""

    def __init__(self, folder: Path) -> None:
        """Work in `folder`."""
        self.folder = folder
        self.command = compiler()
        self.numbers = count()
        self.made: dict[tuple[object, ...], Path] = {}

    def library(
        self,
        target: Path,
        soname: str | None = None,
        *,
        needed: Sequence[str] = (),
        runpath: str | None = None,
        rpath: str | None = None,
        code: str = PLAIN,
        versions: Sequence[str] = (),
    ) -> Path:
        """Write a shared library to `target`, named after it unless `soname` says otherwise.

        `versions` are those of its functions, such as GLIBCXX_3.4.8.
        """
        soname = soname or target.name
        key = (soname, tuple(needed), runpath, rpath, code, tuple(versions))
        if key not in self.made:
            folder = self.folder / str(next(self.numbers))
            folder.mkdir()
            source, made = folder / "source.c", folder / soname
            source.write_text(code)
            stubs = [str(self.library(folder / "stubs" / name)) for name in needed]
            search = ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{runpath}"] if runpath is not None else []
            search += ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{rpath}"] if rpath is not None else []
            if versions:
                (folder / "versions").write_text("".join(f"{one} {{ }};\n" for one in versions))
                search.append(f"-Wl,--version-script={folder / 'versions'}")
            argv = [*self.command, "-shared", "-fPIC", "-o", str(made), f"-Wl,-soname,{soname}", *search, str(source)]
            subprocess.run([*argv, "-Wl,--no-as-needed", *stubs, "-ldl"], check=True, timeout=120)
            self.made[key] = made
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.made[key], target)
        return target


def really_loaded(
    caller: Path, sonames: Sequence[str], environ: Mapping[str, str], cwd: Path | None = None
) -> dict[str, str | None]:
    """Open `sonames` from `caller` in a child; the real path of each, None when refused or when the child died."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(caller), *sonames],
        env={**environ, "PATH": os.environ["PATH"]},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = dict(json.loads(line) for line in done.stdout.splitlines())
    assert told or done.returncode < 0, done.stderr
    return {
        name: os.path.realpath(cwd / told[name] if cwd else told[name]) if told.get(name) else None for name in sonames
    }
