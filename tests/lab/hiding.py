"""Hide the CUDA toolkits and the cuDNN of the machine that runs the tests from what stages a machine of its own."""

from __future__ import annotations

import shlex
from pathlib import Path

LIBRARIES = ("/usr/local/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib")


def hide_toolkits() -> str:
    """Return the shell lines that hide the toolkits in a mount namespace; empty where this machine has none."""
    toolkits = {one.resolve() for base in ("/usr/local", "/opt") for one in Path(base).glob("cuda*")}
    return "".join(f"mount -t tmpfs tmpfs {shlex.quote(str(one))}\n" for one in sorted(toolkits) if one.is_dir())


def hide_cudnn(folder: Path) -> str:
    """Return the shell lines that hide the cuDNN beside the system's libraries; empty where there is none.

    A folder of the system that holds one becomes a folder of links to all else that is in it, in `folder`.
    """
    lines = []
    libraries = {Path(one).resolve() for one in LIBRARIES if any(Path(one).glob("libcudnn*"))}
    for number, system in enumerate(sorted(libraries)):
        whole, links = folder / f"whole-{number}", folder / f"links-{number}"
        whole.mkdir(parents=True, exist_ok=True)
        links.mkdir(exist_ok=True)
        for one in system.iterdir():
            link = links / one.name
            if not one.name.startswith("libcudnn") and not link.is_symlink():
                link.symlink_to(whole / one.name)
        lines.append(f"mount --bind {system} {shlex.quote(str(whole))}")
        lines.append(f"mount --bind {shlex.quote(str(links))} {system}")
    return "".join(f"{one}\n" for one in lines)
