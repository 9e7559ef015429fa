"""What one TensorFlow wheel says of itself: members of the archive → a matrix row. Pure; no network.

Read are METADATA, ``build_info.py`` (CUDA, cuDNN and architectures compiled for), ``cuda_config.h`` (the numbers in
the sonames), every ``dso_loader.h`` (which libraries this release opens by name) and ``cudnn_version.h``. Before 2.3
build_info.py lists no architectures, before 1.4 there is none: then the extension module itself tells (natives.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from email.parser import HeaderParser
from typing import IO, Protocol

from msgspec import structs
from natives import Native, has_native, read_native
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from wheel_requirements import bounds_by_python, extra_of, pins_of, redirect_of

from tfgpu_doctor.facts.versions import numbers
from tfgpu_doctor.matrix.schema import LibrarySet, Platform, Wheel

# 1.x keeps everything under NAME-VERSION.data/purelib/, 1.15 to 2.1 call the package tensorflow_core
_TOP = r"(?:[^/]+\.data/(?:pure|plat)lib/)?tensorflow(?:_core)?/"
BUILD_INFO = re.compile(_TOP + r"python/platform/build_info\.py")
CUDA_CONFIG = re.compile(_TOP + r"include/.*/cuda_config\.h")
DSO_LOADER = re.compile(_TOP + r"include/.*/platform/default/dso_loader\.h")
CUDNN_VERSION = re.compile(_TOP + r"include/.*/cudnn_version\.h")

# dso_loader.cc: the handle's name → component, base name, macro of cuda_config.h with the number in the soname. The
# first releases that open them had two numbers: TF_CUDA_VERSION for cudart and CUPTI, TF_CUDA_LIB_VERSION.
# TensorRT, NVSHMEM and ROCm are left out: TensorFlow finds and uses the GPU without them.
HANDLES: dict[str, tuple[str, str, str]] = {
    "CudaRuntime": ("cudart", "cudart", "TF_CUDART_VERSION"),
    "Cublas": ("cublas", "cublas", "TF_CUBLAS_VERSION"),
    "CublasLt": ("cublasLt", "cublasLt", "TF_CUBLAS_VERSION"),
    "Cufft": ("cufft", "cufft", "TF_CUFFT_VERSION"),
    "Curand": ("curand", "curand", "TF_CURAND_VERSION"),
    "Cusolver": ("cusolver", "cusolver", "TF_CUSOLVER_VERSION"),
    "Cusparse": ("cusparse", "cusparse", "TF_CUSPARSE_VERSION"),
    "Cupti": ("cupti", "cupti", "TF_CUPTI_VERSION"),
    "Cudnn": ("cudnn", "cudnn", "TF_CUDNN_VERSION"),
}
# nccl_config.h and the driver's soname have no macro in cuda_config.h; both have had one number ever since
FIXED = {
    "linux": {"CudaDriver": ("driver", "libcuda.so.1"), "Nccl": ("nccl", "libnccl.so.2")},
    "windows": {"CudaDriver": ("driver", "nvcuda.dll")},
}
_GLIBC = {"manylinux1_": "2.5", "manylinux2010_": "2.12", "manylinux2014_": "2.17"}


class Archive(Protocol):
    """What is needed of a zip file, local or remote."""

    def namelist(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def open(self, name: str) -> IO[bytes]: ...


def platform_of(filename: str) -> Platform | None:
    """The matrix platform of a wheel file name; None for one the matrix has no column for (32-bit, musl...)."""
    tags = {tag.platform for tag in parse_wheel_filename(filename)[3]}
    for pattern, platform in (
        (r"(many)?linux.*_x86_64", "linux_x86_64"),
        (r"(many)?linux.*_aarch64", "linux_aarch64"),
        (r"win_amd64", "windows_amd64"),
        (r"macosx_.*_arm64", "macos_arm64"),
        (r"macosx_.*_(x86_64|intel)", "macos_x86_64"),
    ):
        if any(re.fullmatch(pattern, tag) for tag in tags):
            return platform  # type: ignore[return-value]
    return None


def python_of(filename: str) -> str:
    """The Python of a wheel: "3.11" for cp311."""
    tag = next(iter(parse_wheel_filename(filename)[3])).interpreter
    return f"{tag[2]}.{tag[3:]}"


def floor_of(filename: str, system: str) -> str | None:
    """Oldest glibc (PEP 600, and the older names that it lists) or macOS that a wheel's tags promise."""
    tags = [tag.platform for tag in parse_wheel_filename(filename)[3]]
    pattern = r"manylinux_(\d+)_(\d+)_" if system == "glibc" else r"macosx_(\d+)_(\d+)_"
    found = [".".join(match.groups()) for tag in tags if (match := re.match(pattern, tag))]
    named = [floor for tag in tags for name, floor in _GLIBC.items() if system == "glibc" and tag.startswith(name)]
    return next(iter(found + named), None)


def read_wheel(
    archive: Archive, filename: str, pythons: Iterable[str], native: Native | None = None
) -> tuple[Wheel, LibrarySet | None]:
    """The row of one wheel and the libraries it opens or links.

    Args:
        pythons: all versions that have such a wheel.
        native: what its extension module says, where that is known already; reading it again is slow.

    Raises:
        ValueError: no wheel of a platform of the matrix, or not in a form that is known.
    """
    platform = platform_of(filename)
    if platform is None:
        raise ValueError(f"{filename}: no platform of the matrix")
    versions = tuple(sorted(set(pythons), key=numbers))
    requirements = _requirements(archive)
    build = _build_info(archive)
    native = (native or read_native(archive)) if _needs_native(archive, build) else None
    row = Wheel(
        wheel=filename,
        python=versions,
        glibc=floor_of(filename, "glibc"),
        macos=floor_of(filename, "macos"),
        redirects=None if build or native else redirect_of(requirements, platform, versions[-1]),
        **bounds_by_python(requirements, platform, versions),
    )
    if not build.get("is_cuda_build", native is not None and native.sass):
        return row, None
    return _with_cuda(row, archive, platform, requirements, build, native)


def _needs_native(archive: Archive, build: dict[str, object]) -> bool:
    """Whether build_info.py leaves open if this is a GPU build, or for which architectures."""
    if "is_cuda_build" not in build:
        return has_native(archive)
    return bool(build["is_cuda_build"]) and "cuda_compute_capabilities" not in build


def _with_cuda(
    row: Wheel,
    archive: Archive,
    platform: Platform,
    requirements: list[Requirement],
    build: dict[str, object],
    native: Native | None,
) -> tuple[Wheel, LibrarySet | None]:
    """The row of a GPU build: what it was compiled with and for, and what it loads."""
    config = _macros(archive, CUDA_CONFIG, r"TF_\w+")
    opened = _libraries(archive, platform, config)
    linked = {} if opened or native is None else _linked(native.libraries)
    libraries = opened or linked
    extra = extra_of(requirements)
    one = LibrarySet(id=_set_id(platform, libraries), libraries=libraries, linked=bool(linked), source="wheel")
    return structs.replace(
        row,
        cuda=_cuda(build, config, native),
        cudnn=_cudnn(archive),
        sass=native.sass if native else _capabilities(build, "sm_"),
        ptx=native.ptx if native else _capabilities(build, "compute_"),
        kernels="fatbin" if native else None,
        libraries=one.id if libraries else None,
        extra=extra,
        pip_nvidia=pins_of(requirements, platform, row.python[-1], extra) if extra else {},
    ), one if libraries else None


# ------------------------------------------------------------------------------------------- members


def _members(archive: Archive, pattern: re.Pattern[str]) -> list[str]:
    return [archive.read(name).decode() for name in sorted(archive.namelist()) if pattern.fullmatch(name)]


def _requirements(archive: Archive) -> list[Requirement]:
    (name,) = (name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
    header = HeaderParser().parsestr(archive.read(name).decode())
    return [Requirement(line) for line in header.get_all("Requires-Dist") or ()]


def _build_info(archive: Archive) -> dict[str, object]:
    """What build_info.py assigns; empty where the wheel has no such file. Nothing is executed.

    1.4 to 2.2 assign each value to a name of its own, some with another name than later; 2.3 assigns a dict, all others
    an OrderedDict([...]).
    """
    found: dict[str, object] = {}
    for text in _members(archive, BUILD_INFO):
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                continue
            if node.targets[0].id == "build_info":
                value = node.value.args[0] if isinstance(node.value, ast.Call) else node.value
                found |= dict(ast.literal_eval(value))
            elif isinstance(node.value, ast.Constant):
                found[node.targets[0].id.removesuffix("_number")] = node.value.value
        if "is_cuda_build" not in found:
            raise ValueError("build_info.py does not say whether this is a CUDA build")
    return found


def _macros(archive: Archive, pattern: re.Pattern[str], name: str) -> dict[str, str]:
    text = "\n".join(_members(archive, pattern))
    return dict(re.findall(rf'#define ({name}) "?([^"\n]*?)"?\s*$', text, re.MULTILINE))


# -------------------------------------------------------------------------------------------- values


def _cuda(build: dict[str, object], config: dict[str, str], native: Native | None) -> str:
    """The toolkit. build_info.py of 1.14 to 2.2 says "10" for 10.0 and 10.1 alike, cuda_config.h then says which."""
    said = (str(build.get("cuda_version", "")), config.get("TF_CUDA_VERSION", ""), (native and native.cuda) or "")
    for version in map(_dotted, said):
        if "." in version:
            return version
    raise ValueError("a GPU build that does not say for which CUDA")


def _libraries(archive: Archive, platform: Platform, config: dict[str, str]) -> dict[str, str]:
    """Component → soname or DLL, as dso_loader.cc and FormatLibraryFileName put it together.

    A Windows build defines "64_110" where a Linux one defines "11.0". build_info.py also names DLLs, but
    wrongly: 2.10 says cudart64_112.dll and loads cudart64_110.dll.
    """
    system = platform.split("_")[0]
    opened = {handle for text in _members(archive, DSO_LOADER) for handle in re.findall(r"Get(\w+)DsoHandle", text)}
    found = {component: soname for handle, (component, soname) in FIXED.get(system, {}).items() if handle in opened}
    for handle, (component, base, macro) in HANDLES.items():
        older = "TF_CUDA_VERSION" if component in ("cudart", "cupti") else "TF_CUDA_LIB_VERSION"
        number = config.get(macro) or (config.get(older) if component != "cudnn" else None)
        if handle in opened and number:
            found[component] = f"{base}{number}.dll" if system == "windows" else f"lib{base}.so.{number}"
    return dict(sorted(found.items()))


def _linked(names: Iterable[str]) -> dict[str, str]:
    """Component → library, of the names in an extension module.

    1.0 on Windows names nothing but the driver: the rest it puts together at run time, so that set is unknown.
    """
    found = {}
    for name in names:
        base = re.sub(r"^lib|(?:64_|\.).*$", "", name)
        found[{"cuda": "driver", "nvcuda": "driver"}.get(base, base)] = name
    return dict(sorted(found.items())) if found.keys() - {"driver"} else {}


def _set_id(platform: Platform, libraries: dict[str, str]) -> str:
    """A name that tells one set from another: system, numbers of cudart, cupti and cuDNN, optional members."""
    system = platform.split("_")[0]
    runtime = "cudart" if "cudart" in libraries else "cublas"
    numbers = "-".join(
        component + re.sub(r"^.*\.so\.|^\D+64_|\.dll$|^[^.]+\.|\.dylib$", "", libraries[component])
        for component in (runtime, "cupti", "cudnn")
        if component in libraries
    )
    optional = "".join(f"-{component}" for component in ("curand", "nccl") if component in libraries)
    without = "-nocusolver" if "cublas" in libraries and "cusolver" not in libraries else ""  # 1.1
    return f"{system}-{numbers}{optional}{without}"


def _capabilities(build: dict[str, object], prefix: str) -> tuple[str, ...]:
    """sm_XX: SASS. compute_XX: PTX, and SASS of the kernels written in CUDA C++ (not of the generated ones)."""
    listed = build.get("cuda_compute_capabilities") or ()
    names = listed if isinstance(listed, (list, tuple)) else ()
    numbers = [str(name).removeprefix(prefix) for name in names if str(name).startswith(prefix)]
    return tuple(f"{number[:-1]}.{number[-1]}" for number in numbers)


def _cudnn(archive: Archive) -> str | None:
    """Major and minor version of the header (2.16 and later), else unknown: what the extra installs may be newer.

    What the binary was compiled with is derived by refresh_builds.py.
    """
    header = _macros(archive, CUDNN_VERSION, "CUDNN_(?:MAJOR|MINOR)")
    return f"{header['CUDNN_MAJOR']}.{header['CUDNN_MINOR']}" if "CUDNN_MAJOR" in header else None


def _dotted(version: str) -> str:
    """A Windows build says "64_112" for 11.2."""
    packed = re.fullmatch(r"64_(\d+)(\d)", version)
    return ".".join(packed.groups()) if packed else version
