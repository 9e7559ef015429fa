"""A package index of made-up wheels: TensorFlow 2.20.0 with what its extra and-cuda installs, each a few kB.

The TensorFlow here imports what the real one imports, opens the lab's CUDA libraries through a library with the RUNPATH
of the real one, lists a GPU when they all open, and ends where the real one ends over the stand-in for the driver.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.fault_bench import WHEELS
from tests.lab import Lab
from tests.probes.elf_lab import CALLER, Forge

TENSORFLOW = Path(__file__).with_name("made_up_tensorflow.txt").read_text(encoding="utf-8")
REQUIRES = ("numpy>=1.26.0", "protobuf>=5.28.0", "keras>=3.10.0", "wrapt>=1.11.0", "h5py>=3.11.0")
VERSIONS = {"cudnn": "9.3.0.75", "nccl": "2.25.1"}
PURE = {
    "numpy": ("2.1.3", "1.19.5"),
    "wrapt": ("1.17.0",),
    "h5py": ("3.12.1",),
    "keras": ("3.10.0", "2.15.0"),
    "protobuf": ("5.28.3", "3.20.3"),
}
# imports, and looks at what TensorFlow imports late
WORKS = "import tensorflow as tf; tf.keras"


def wheel(folder: Path, name: str, version: str, files: Mapping[str, bytes], requires: tuple[str, ...] = ()) -> Path:
    """Write a wheel of pure Python, as far as its name tells; what lies in a bin folder is executable."""
    stem = f"{name.replace('-', '_')}-{version}"
    headers = [f"Name: {name}", f"Version: {version}", "Provides-Extra: and-cuda"]
    headers += [f"Requires-Dist: {one}" for one in requires]
    whole = {
        **files,
        f"{stem}.dist-info/METADATA": "\n".join(["Metadata-Version: 2.1", *headers, ""]).encode(),
        f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{stem}.dist-info/RECORD"
    lines = [f"{path},{_hash(content)},{len(content)}" for path, content in whole.items()]
    whole[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    target = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, content in whole.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if "/bin/" in path else 0o100644) << 16
            archive.writestr(entry, content)
    return target


def _hash(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def make_index(folder: Path, lab: Lab, forge: Forge) -> dict[str, str]:
    """Write all wheels into the folder; the variables with which pip and uv install from it alone."""
    cuda = lab.cuda()
    extra = []
    for name, sonames in WHEELS.items():
        distribution, version = f"nvidia-{name.replace('_', '-')}-cu12", VERSIONS.get(name, "12.5.82")
        wheel(folder, distribution, version, _libraries(name, {one: (cuda / one).read_bytes() for one in sonames}))
        extra.append(f"{distribution}=={version}")
    (folder / "library").mkdir()
    other = forge.library(folder / "library" / "libcudnn.so.8").read_bytes()
    wheel(folder, "nvidia-cudnn-cu12", "8.9.7.29", _libraries("cudnn", {"libcudnn.so.8": other}))
    eleven = {one: (cuda / one).read_bytes() + b"\0" * 64 for one in WHEELS["cusolver"]}
    wheel(folder, "nvidia-cusolver-cu11", "11.4.1.48", _libraries("cusolver", eleven))
    ptxas = b"#!/bin/sh\necho 'Cuda compilation tools, release 12.5, V12.5.82'\n"
    compiler = {"nvidia/cuda_nvcc/bin/ptxas": ptxas, "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc": b"BC"}
    wheel(folder, "nvidia-cuda-nvcc-cu12", "12.5.82", compiler)
    names = [*extra, "nvidia-cuda-nvcc-cu12==12.5.82"]
    requires = (*REQUIRES, *(f"{one}; extra == 'and-cuda'" for one in names))
    sonames = [soname.encode() for libraries in WHEELS.values() for soname in libraries]
    runpath = ":".join(f"$ORIGIN/../nvidia/{name}/lib" for name in WHEELS)
    caller = forge.library(folder / "library" / "caller.so", code=CALLER, runpath=runpath).read_bytes()
    for name, gpu in (("tensorflow", True), ("tensorflow-cpu", False)):
        source = TENSORFLOW.format(version="2.20.0", sonames=sonames, gpu=gpu).encode()
        files = {"tensorflow/__init__.py": source, "tensorflow/libtensorflow_framework.so.2": caller}
        wheel(folder, name, "2.20.0", {**files, "tensorflow/libtensorflow_cc.so.2": b""}, requires)
    for name, versions in PURE.items():
        for version in versions:
            module = "google/protobuf" if name == "protobuf" else name
            source = f"__version__ = {version!r}\nlayers = None  # of keras alone\n"
            wheel(folder, name, version, {f"{module}/__init__.py": source.encode()})
    configuration = folder / "uv.toml"  # uv knows no variable for no-index
    configuration.write_text(f"no-index = true\nfind-links = [{str(folder)!r}]\n")
    uv = {"UV_CONFIG_FILE": str(configuration), "UV_OFFLINE": "1", "UV_CACHE_DIR": str(folder / "cache")}
    return {**uv, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


def _libraries(name: str, sonames: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"nvidia/{name}/lib/{soname}": content for soname, content in sonames.items()}
