"""What one TensorFlow wheel says of itself: members of the archive → a matrix row. Pure; no network.

Read are METADATA, ``build_info.py`` (CUDA, cuDNN and architectures compiled for), ``cuda_config.h`` (the numbers in
the sonames), every ``dso_loader.h`` (which libraries this release opens by name) and ``cudnn_version.h``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from email.parser import HeaderParser
from typing import Protocol

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from tfgpu_doctor.matrix_schema import LibrarySet, Platform, Wheel, numbers

BUILD_INFO = "tensorflow/python/platform/build_info.py"
CUDA_CONFIG = re.compile(r"tensorflow/include/.*/cuda_config\.h")
DSO_LOADER = re.compile(r"tensorflow/include/.*/platform/default/dso_loader\.h")
CUDNN_VERSION = re.compile(r"tensorflow/include/.*/cudnn_version\.h")

# dso_loader.cc: the handle's name → component, base name, macro of cuda_config.h with the number in the soname.
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
_LINUX = {"platform_system": "Linux", "sys_platform": "linux", "os_name": "posix"}
_MACOS = {"platform_system": "Darwin", "sys_platform": "darwin", "os_name": "posix"}
_WINDOWS = {"platform_system": "Windows", "sys_platform": "win32", "os_name": "nt"}
MARKERS: dict[Platform, dict[str, str]] = {
    "linux_x86_64": {**_LINUX, "platform_machine": "x86_64"},
    "linux_aarch64": {**_LINUX, "platform_machine": "aarch64"},
    "windows_amd64": {**_WINDOWS, "platform_machine": "AMD64"},
    "macos_arm64": {**_MACOS, "platform_machine": "arm64"},
    "macos_x86_64": {**_MACOS, "platform_machine": "x86_64"},
}
REDIRECT = re.compile(r"tensorflow-(intel|macos|cpu-aws|cpu)")
BOUNDS = {"numpy": "numpy", "protobuf": "protobuf", "keras": "keras", "ml-dtypes": "ml_dtypes"}


class Archive(Protocol):
    """What is needed of a zip file, local or remote."""

    def namelist(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...


def platform_of(filename: str) -> Platform | None:
    """The matrix platform of a wheel file name; None for one the matrix has no column for (32-bit, musl...)."""
    tags = {tag.platform for tag in parse_wheel_filename(filename)[3]}
    for pattern, platform in (
        (r"(many)?linux.*_x86_64", "linux_x86_64"),
        (r"(many)?linux.*_aarch64", "linux_aarch64"),
        (r"win_amd64", "windows_amd64"),
        (r"macosx_.*_arm64", "macos_arm64"),
        (r"macosx_.*_x86_64", "macos_x86_64"),
    ):
        if any(re.fullmatch(pattern, tag) for tag in tags):
            return platform  # type: ignore[return-value]
    return None


def python_of(filename: str) -> str:
    """The Python of a wheel: "3.11" for cp311."""
    tag = next(iter(parse_wheel_filename(filename)[3])).interpreter
    return f"{tag[2]}.{tag[3:]}"


def floor_of(filename: str, system: str) -> str | None:
    """Oldest glibc (PEP 600) or macOS that a wheel's tags promise."""
    pattern = r"manylinux_(\d+)_(\d+)_" if system == "glibc" else r"macosx_(\d+)_(\d+)_"
    found = [re.match(pattern, tag.platform) for tag in parse_wheel_filename(filename)[3]]
    return next((".".join(match.groups()) for match in found if match), None)


def read_wheel(archive: Archive, filename: str, pythons: Iterable[str]) -> tuple[Wheel, LibrarySet | None]:
    """The row of one wheel and the libraries it opens. `pythons`: all versions that have such a wheel."""
    platform = platform_of(filename)
    if platform is None:
        raise ValueError(f"{filename}: no platform of the matrix")
    versions = tuple(sorted(set(pythons), key=numbers))
    requirements = _requirements(archive)
    build = _build_info(archive)
    config = _macros(archive, CUDA_CONFIG, r"TF_\w+")
    gpu = bool(build.get("is_cuda_build"))
    libraries = _libraries(archive, platform, config) if gpu else {}
    bounds = {python: _bounds(requirements, platform, python) for python in versions}
    base = bounds[versions[0]]  # the oldest Python's are the weakest
    extra = _extra(requirements) if gpu else None
    row = Wheel(
        wheel=filename,
        python=versions,
        cuda=_dotted(str(build["cuda_version"])) if gpu else None,
        cudnn=_cudnn(archive, requirements) if gpu else None,
        sass=_capabilities(build, "sm_") if gpu else (),
        ptx=_capabilities(build, "compute_") if gpu else (),
        libraries=_set_id(platform, libraries) if libraries else None,
        glibc=floor_of(filename, "glibc"),
        macos=floor_of(filename, "macos"),
        extra=extra,
        pip_nvidia=_pins(requirements, platform, versions[-1], extra) if extra else {},
        numpy=base.get("numpy"),
        protobuf=base.get("protobuf"),
        keras=base.get("keras"),
        ml_dtypes=base.get("ml_dtypes"),
        bounds_by_python={python: _changes(one, base) for python, one in bounds.items() if one != base},
        redirects=None if build else _redirect(requirements, platform, versions[-1]),
    )
    if not libraries:
        return row, None
    return row, LibrarySet(id=_set_id(platform, libraries), libraries=libraries, source="wheel")


# ------------------------------------------------------------------------------------------- members


def _members(archive: Archive, pattern: re.Pattern[str]) -> list[str]:
    return [archive.read(name).decode() for name in sorted(archive.namelist()) if pattern.fullmatch(name)]


def _requirements(archive: Archive) -> list[Requirement]:
    (name,) = (name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
    header = HeaderParser().parsestr(archive.read(name).decode())
    return [Requirement(line) for line in header.get_all("Requires-Dist") or ()]


def _build_info(archive: Archive) -> dict[str, object]:
    """The literal that build_info.py assigns; empty where the wheel has no such file. Nothing is executed."""
    if BUILD_INFO not in archive.namelist():
        return {}
    tree = ast.parse(archive.read(BUILD_INFO).decode())
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
            return dict(ast.literal_eval(node.value.args[0]))
    raise ValueError(f"{BUILD_INFO}: no build_info = OrderedDict([...])")


def _macros(archive: Archive, pattern: re.Pattern[str], name: str) -> dict[str, str]:
    text = "\n".join(_members(archive, pattern))
    return dict(re.findall(rf'#define ({name}) "?([^"\n]*?)"?\s*$', text, re.MULTILINE))


# -------------------------------------------------------------------------------------------- values


def _libraries(archive: Archive, platform: Platform, config: dict[str, str]) -> dict[str, str]:
    """Component → soname or DLL, as dso_loader.cc and FormatLibraryFileName put it together.

    A Windows build defines "64_110" where a Linux one defines "11.0". build_info.py also names DLLs, but
    wrongly: 2.10 says cudart64_112.dll and loads cudart64_110.dll.
    """
    system = platform.split("_")[0]
    opened = {handle for text in _members(archive, DSO_LOADER) for handle in re.findall(r"Get(\w+)DsoHandle", text)}
    found = {component: soname for handle, (component, soname) in FIXED[system].items() if handle in opened}
    for handle, (component, base, macro) in HANDLES.items():
        if handle in opened and config.get(macro):
            number = config[macro]
            found[component] = f"{base}{number}.dll" if system == "windows" else f"lib{base}.so.{number}"
    return dict(sorted(found.items()))


def _set_id(platform: Platform, libraries: dict[str, str]) -> str:
    """A name that tells one set from another: system, numbers of cudart, cupti and cuDNN, optional members."""
    system = platform.split("_")[0]
    numbers = "-".join(
        component + re.sub(r"^.*\.so\.|^\D+64_|\.dll$", "", libraries[component])
        for component in ("cudart", "cupti", "cudnn")
        if component in libraries
    )
    optional = "".join(f"-{component}" for component in ("curand", "nccl") if component in libraries)
    return f"{system}-{numbers}{optional}"


def _capabilities(build: dict[str, object], prefix: str) -> tuple[str, ...]:
    """sm_XX: SASS. compute_XX: PTX, and SASS of the kernels written in CUDA C++ (not of the generated ones)."""
    listed = build.get("cuda_compute_capabilities") or ()
    names = listed if isinstance(listed, (list, tuple)) else ()
    numbers = [str(name).removeprefix(prefix) for name in names if str(name).startswith(prefix)]
    return tuple(f"{number[:-1]}.{number[-1]}" for number in numbers)


def _cudnn(archive: Archive, requirements: list[Requirement]) -> str | None:
    """Major and minor version compiled against: from the header, else from the extra's exact pin, else unknown."""
    header = _macros(archive, CUDNN_VERSION, "CUDNN_(?:MAJOR|MINOR)")
    if "CUDNN_MAJOR" in header:
        return f"{header['CUDNN_MAJOR']}.{header['CUDNN_MINOR']}"
    for requirement in requirements:
        pin = re.fullmatch(r"==(\d+\.\d+)\..*", str(requirement.specifier))
        if requirement.name.startswith("nvidia-cudnn") and pin:
            return pin.group(1)
    return None


def _extra(requirements: list[Requirement]) -> str | None:
    """The extra that brings NVIDIA's libraries."""
    for requirement in requirements:
        if requirement.name.startswith("nvidia-") and requirement.marker:
            found = re.search(r'extra == "([^"]+)"', str(requirement.marker))
            if found:
                return found.group(1)
    return None


def _holds(requirement: Requirement, platform: Platform, python: str, extra: str = "") -> bool:
    environment = {**default_environment(), **MARKERS[platform], "extra": extra}
    environment |= {"python_version": python, "python_full_version": f"{python}.0"}
    return requirement.marker is None or requirement.marker.evaluate(environment)  # type: ignore[arg-type]


def _pins(requirements: list[Requirement], platform: Platform, python: str, extra: str) -> dict[str, str]:
    pins = {
        canonicalize_name(one.name): _specifier(one)
        for one in requirements
        if _holds(one, platform, python, extra) and not _holds(one, platform, python)
    }
    return dict(sorted(pins.items()))


def _bounds(requirements: list[Requirement], platform: Platform, python: str) -> dict[str, str]:
    wanted = {canonicalize_name(one.name): one for one in requirements if _holds(one, platform, python)}
    return {field: _specifier(wanted[name]) for name, field in BOUNDS.items() if name in wanted}


def _changes(bounds: dict[str, str], base: dict[str, str]) -> dict[str, str]:
    return {name: one for name, one in bounds.items() if base.get(name) != one}


def _redirect(requirements: list[Requirement], platform: Platform, python: str) -> str | None:
    """The package that an empty wheel stands for: "tensorflow-intel==2.13.0"."""
    for one in requirements:
        name = canonicalize_name(one.name)
        if REDIRECT.fullmatch(name) and _holds(one, platform, python):
            return f"{name}{one.specifier}"
    return None


def _specifier(requirement: Requirement) -> str:
    """Lower bound, upper bound, exclusions: ">=3.20.3,<6,!=4.21.0"."""
    order = ("===", "==", "~=", ">=", ">", "<", "<=", "!=")
    ordered = sorted(requirement.specifier, key=lambda one: (order.index(one.operator), str(one)))
    return ",".join(str(one) for one in ordered)


def _dotted(version: str) -> str:
    """A Windows build says "64_112" for 11.2."""
    packed = re.fullmatch(r"64_(\d+)(\d)", version)
    return ".".join(packed.groups()) if packed else version
