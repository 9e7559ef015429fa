"""Run a command on a machine that seems to have a GPU: users of a GPU tool run its tests where there is one.

    python -m tests.lab.gpu_machine [--no-unshare] COMMAND...

In a mount namespace of its own (root of Linux; nothing outside sees it), what a machine with an H100 has stands at the
system's places: the driver of the fault lab in the loader's cache, nvidia-smi, device nodes, the kernel module, a PCI
device, a CUDA toolkit of empty libraries in /usr/local/cuda, and cuDNN beside the system's libraries. With
`--no-unshare` the program unshare is hidden, as in a container without util-linux.

The daily tests pass there, with and without unshare, as they do elsewhere: a test that stages a machine of its own
hides the real one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lab import CUDA_12, Lab

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
VERSION = "580.159.04"  # what the captures of the H100 have
MODULE = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build\n"
SMI = f"""#!/bin/sh
case "$*" in *--query-gpu*) echo 'NVIDIA H100 80GB HBM3, {VERSION}, 9.0'; exit;; esac
echo '| NVIDIA-SMI {VERSION}   Driver Version: {VERSION}   CUDA Version: 13.0 |'
"""
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.48'\n"
PCI = {"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "subsystem_vendor": "0x10de"}
PCI["modalias"] = "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00"
ANSWERS = {
    "TFGPU_LAB_NAME": "NVIDIA H100 80GB HBM3",
    "TFGPU_LAB_CC": "9.0",
    "TFGPU_LAB_DRIVER": VERSION,
    "TFGPU_LAB_CUDA_VERSION": "13000",
    "TFGPU_LAB_MEMORY_MIB": "81559",
}


def stage(folder: Path) -> None:
    """Write into `folder` what is mounted over the system's places, each below the path that it has there."""
    lab = Lab(folder)
    system, toolkit = folder / "system", folder / "local" / "cuda-13.0"
    shutil.copytree(lab.libraries, system)
    for path in lab.libraries.iterdir():  # the driver's file has its version in its name
        (system / path.name).rename(system / path.name.replace(".so.1", f".so.{VERSION}"))
        (system / path.name).symlink_to(path.name.replace(".so.1", f".so.{VERSION}"))
    (toolkit / "lib64").mkdir(parents=True)
    (toolkit / "bin").mkdir()
    for soname in CUDA_12:
        name = soname.replace(".so.12", ".so.13").replace("cufft.so.11", "cufft.so.12")
        lab.compile((system if "cudnn" in name else toolkit / "lib64") / name, Path(__file__).with_name("empty.c"))
    (toolkit / "version.json").write_text('{"cuda": {"name": "CUDA SDK", "version": "13.0.0"}}')
    (folder / "local" / "cuda").symlink_to("cuda-13.0")
    for name, text in ((toolkit / "bin" / "nvcc", NVCC), (folder / "bin" / "nvidia-smi", SMI)):
        name.parent.mkdir(exist_ok=True)
        name.write_text(text)
        name.chmod(0o755)
    device = folder / "pci" / "0000:01:00.0"
    device.mkdir(parents=True)
    for name, text in PCI.items():
        (device / name).write_text(text + "\n")
    (folder / "proc" / "nvidia").mkdir(parents=True)
    (folder / "proc" / "nvidia" / "version").write_text(MODULE)
    (folder / "module" / "nvidia").mkdir(parents=True)
    (folder / "module" / "nvidia" / "version").write_text(VERSION + "\n")


def mounts(folder: Path, *, unshare: bool) -> str:
    """The shell script that puts all of it at its place, in the mount namespace that it is run in."""
    layer = f"mount -t overlay tfgpu -o lowerdir={shlex.quote(str(folder))}"
    lines = [
        "set -e",
        f"{layer}/system:{LIBRARIES} {LIBRARIES}",
        f"{layer}/local:/usr/local /usr/local",
        f"{layer}/bin:/usr/bin /usr/bin",
        f"mount --bind {folder}/proc /proc/driver",
        # sysfs and devtmpfs cannot be a layer: what is there is shown again beside the new
        f"mkdir {folder}/dev && mount -t tmpfs -o mode=755 none {folder}/dev",
        f"for one in /dev/*; do case $one in /dev/pts|/dev/shm|/dev/mqueue|/dev/net|/dev/cpu) mkdir {folder}$one; "
        f"mount --rbind $one {folder}$one;; *) cp -a $one {folder}$one;; esac; done",
        f"mknod -m 666 {folder}/dev/nvidia0 c 195 0; mknod -m 666 {folder}/dev/nvidiactl c 195 255",
        f"mknod -m 666 {folder}/dev/nvidia-uvm c 511 0",
        f"mount --rbind {folder}/dev /dev",
        f"for one in /sys/bus/pci/devices/*; do cp -a $one {folder}/pci/; done 2> /dev/null",
        f"for one in /sys/module/*; do mkdir {folder}/module/${{one##*/}}; done",
        f"mount --bind {folder}/pci /sys/bus/pci/devices",
        f"mount --bind {folder}/module /sys/module",
        f"cp /etc/ld.so.cache {folder}/cache; mount --bind {folder}/cache /etc/ld.so.cache",
        f"PATH=$PATH:/sbin:/usr/sbin ldconfig -X -C {folder}/new; cat {folder}/new > {folder}/cache",
    ]
    if not unshare:
        lines.append("mount --bind /dev/null /usr/bin/unshare")
    return "\n".join([*lines, 'exec "$@"'])


def main(arguments: list[str]) -> int:
    """Run the command, and return its exit code; 2 for wrong usage."""
    unshare = arguments[:1] != ["--no-unshare"]
    command = arguments[0 if unshare else 1 :]
    if not command or command[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    with TemporaryDirectory(prefix="gpu-machine-") as name:
        folder = Path(name)
        stage(folder)
        script = folder / "enter.sh"
        script.write_text(mounts(folder, unshare=unshare))
        enter = ["unshare", "-m", "--propagation", "private", "sh", str(script), *command]
        return subprocess.run(enter, env={**os.environ, **ANSWERS}, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
