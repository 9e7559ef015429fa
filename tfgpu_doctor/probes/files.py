"""Small files below a root directory, and why one could not be read."""

from __future__ import annotations

import os

from tfgpu_doctor.facts.facts import Fact, Known, Unknown, value_or
from tfgpu_doctor.facts.reading import read_head

LIMIT = 4_000_000  # bytes; nothing that is read here is larger on a sane machine


def below(root: str, path: str) -> str:
    """Join the absolute `path` to the root of a (fake) file system, in which a drive is a folder named ``C:``."""
    if root == "/":
        return path
    return os.path.join(root, (path.replace("\\", "/") if path[1:3] == ":\\" else path).lstrip("/"))


def _read(root: str, path: str) -> str:
    return read_head(below(root, path), LIMIT).decode("utf-8", "replace")


def text_in(root: str, path: str) -> str:
    """Return the text of a file; nothing where it is missing, or not ours to read."""
    try:
        return _read(root, path)
    except OSError:
        return ""


def text_fact(root: str, path: str) -> Fact[str]:
    """The stripped text of a file as a fact."""
    try:
        return Known(_read(root, path).strip(), path)
    except OSError as error:
        return Unknown(why(error, path))


def names_in(folder: str) -> list[str]:
    """What lies in a folder, sorted; nothing where it is missing, or not ours to read: nothing of it is known then."""
    return value_or(listed("/", folder), [])


def listed(root: str, folder: str) -> Fact[list[str]]:
    """What lies in a folder, sorted, as a fact."""
    try:
        return Known(sorted(os.listdir(below(root, folder))), folder)
    except OSError as error:
        return Unknown(why(error, folder))


def why(error: OSError, path: str) -> str:
    """Say what failed: "permission denied: /proc/kmsg"."""
    return f"{(error.strerror or str(error)).lower()}: {path}"


def exists_fact(root: str, path: str) -> Fact[bool]:
    """Whether `path` is there; unknown when the folder may not be searched."""
    try:
        os.stat(below(root, path))
    except (FileNotFoundError, NotADirectoryError):
        return Known(False, path)
    except OSError as error:
        return Unknown(why(error, path))
    return Known(True, path)


def module_loaded(root: str, name: str) -> Fact[bool]:
    """Whether the kernel has loaded (or has built in) the module `name`; unknown where neither /proc nor /sys says."""
    modules = text_fact(root, "/proc/modules")
    if isinstance(modules, Known):
        loaded = any(line.split(" ", 1)[0] == name for line in modules.value.splitlines())
        return Known(loaded, modules.source)
    # a kernel without loadable modules has no /proc/modules
    return exists_fact(root, f"/sys/module/{name}") if os.path.isdir(below(root, "/sys/module")) else modules
