"""Outputs of tools around TensorFlow, as they are pasted: libraries, versions, the machine, commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.guard import guarded
from tests.parsers.pasted import CAPTURES, capture, every_capture, lines, mangled
from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.parsers.tools import install_commands, library_listings, system_outputs, toolkit_outputs

PARSERS: list[Callable[[Sequence[Line]], object]] = [
    library_listings.parse,
    toolkit_outputs.parse,
    system_outputs.parse,
    install_commands.parse,
]


def libraries(text: Sequence[Line]) -> list[tuple[str, str, str | None, str | None, bool]]:
    found = library_listings.parse(text)
    return [(one.via, one.soname, one.path, one.version, one.found) for one in found]


def test_ldd() -> None:
    found = libraries(capture("tool_outputs", "ldd_some_not_found.txt"))
    assert [name for _, name, _, _, there in found if not there] == [
        "libcublas.so.10",
        "libcudart.so.10.1",
        "libcufft.so.10",
        "libcusparse.so.10",
    ]
    assert ("ldd", "libcudnn.so.7", "/usr/lib/x86_64-linux-gnu/libcudnn.so.7", "7", True) in found
    assert len(found) == 7  # nothing of the loader, of libm and of the driver's helpers


def test_listings() -> None:
    found = libraries(capture("tool_outputs", "ls_cuda_folder.txt"))
    lib64 = "/usr/local/cuda/lib64"
    assert ("ls", "libcudart.so.10.0", f"{lib64}/libcudart.so.10.0", "10.0.130", True) in found
    assert ("ls", "libcudnn.so.7", f"{lib64}/libcudnn.so.7", "7.4.2", True) in found
    assert libraries(capture("tool_outputs", "ls_without_folder.txt"))[1] == (
        "ls",
        "libcudnn.so.8",
        None,
        "8.2.4",
        True,
    )
    (one,) = libraries(capture("tool_outputs", "find_in_prose.txt"))
    assert one[:2] == ("list", "libcudart.so.10.2")
    assert one[2] == "/opt/cuda-10.2/targets/x86_64-linux/lib/libcudart.so.10.2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1",
            [("ldconfig", "libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.1", None, True)],
        ),
        ("\tlibcudart.so.8.0 -> libcudart.so.8.0.61", [("ldconfig", "libcudart.so.8.0", None, "8.0.61", True)]),
        (
            "libcudnn.so  libcudnn.so.8  libcudnn.so.8.1.0  libcudnn_static.a",
            [
                ("list", "libcudnn.so", None, None, True),
                ("list", "libcudnn.so.8", None, "8", True),
                ("list", "libcudnn.so.8.1.0", None, "8.1.0", True),
            ],
        ),
        (
            "ls: cannot access '/usr/lib/libcudnn.so.8': No such file or directory",
            [("ls", "libcudnn.so.8", "/usr/lib/libcudnn.so.8", "8", False)],
        ),
        (
            r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v11.2\bin\cudart64_110.dll",
            [
                (
                    "dir",
                    "cudart64_110.dll",
                    r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v11.2\bin\cudart64_110.dll",
                    "11.0",
                    True,
                )
            ],
        ),
        ("02/04/2021  09:15 AM           464,384 cudnn64_8.dll", [("dir", "cudnn64_8.dll", None, "8", True)]),
        # a library that is wanted is not there
        (
            "2021-01-17 12:00:00.0: W tensorflow/stream_executor/platform/default/dso_loader.cc:60] Could not load "
            "dynamic library 'libcusolver.so.10'; dlerror: libcusolver.so.10: cannot open shared object file",
            [],
        ),
        ("ImportError: libcublas.so.9.0: cannot open shared object file: No such file or directory", []),
        ("I have libcudart.so.11.0 in this folder", []),
    ],
)
def test_lines_about_libraries(text: str, expected: list[tuple[object, ...]]) -> None:
    assert libraries(lines(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cuda compilation tools, release 11.8, V11.8.89", [("cuda", "11.8.89", "nvcc")]),
        ("Cuda compilation tools, release 9.0,", [("cuda", "9.0", "nvcc")]),
        ("$ cat /usr/local/cuda/version.txt\nCUDA Version 10.1.243", [("cuda", "10.1.243", "version.txt")]),
        (
            '{\n   "cuda" : {\n      "name" : "CUDA SDK",\n      "version" : "11.4.20210728"\n   },\n',
            [("cuda", "11.4", "version.json")],
        ),
        (
            '   "cuda" : {\n      "name" : "CUDA SDK",\n      "version" : "12.2.1"\n   },',
            [("cuda", "12.2.1", "version.json")],
        ),
        (
            "57:#define CUDNN_MAJOR 7\n58-#define CUDNN_MINOR 6\n59-#define CUDNN_PATCHLEVEL 5\n--\n"
            "#define CUDNN_VERSION (CUDNN_MAJOR * 1000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)",
            [("cudnn", "7.6.5", "cudnn.h")],
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  384.130  Wed Mar 21 03:37:26 PDT 2018",
            [("driver", "384.130", "/proc/driver/nvidia/version")],
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build",
            [("driver", "560.35.03", "/proc/driver/nvidia/version")],
        ),
        (
            "ii  nvidia-driver-470   470.256.02-0ubuntu0.20.04.1   amd64   NVIDIA driver metapackage",
            [("driver", "470.256.02", "deb")],
        ),
        (
            "libcudnn8/unknown,now 8.1.0.77-1+cuda11.2 amd64 [installed,upgradable to: 8.9.7.29-1+cuda12.2]",
            [("cudnn", "8.1.0.77", "deb")],
        ),
        ("ii  cuda-toolkit-11-2   11.2.2-1   amd64   CUDA Toolkit 11.2 meta-package", [("cuda", "11.2.2", "deb")]),
        ("/usr/local/cuda-11.2/bin/nvcc", [("cuda", "11.2", "folder")]),
        ("bin  cuda  cuda-11.2  cuda-12.0  etc", [("cuda", "11.2", "folder"), ("cuda", "12.0", "folder")]),
        ("| NVIDIA-SMI 470.86       Driver Version: 470.86       CUDA Version: 11.4     |", []),
        ("export PATH=/usr/local/cuda-11.4/bin:$PATH", []),
        ("CUDA 11.2 is what you need", []),
    ],
)
def test_versions(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(one.component, one.version, one.via) for one in toolkit_outputs.parse(lines(text))] == expected


def test_versions_of_the_captures() -> None:
    (nvcc,) = toolkit_outputs.parse(capture("tool_outputs", "nvcc_version.txt"))
    (driver,) = toolkit_outputs.parse(capture("tool_outputs", "nvidia_container_cli_and_uname.txt"))
    assert (nvcc.version, nvcc.line, driver.version, driver.line) == ("11.8.89", 4, "418.87.00", 2)


def shown(seen: system_outputs.SystemSeen) -> dict[str, object]:
    values = {name: getattr(seen, name) for name in seen.__dataclass_fields__ if name != "cards"}
    return {name: one.value for name, one in values.items() if one is not None}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "python_banner_windows",
            {"os": "windows", "python": "3.10.10", "python_bits": 64},
        ),
        ("python_banner_anaconda", {"os": "linux", "python": "3.8.16"}),
        (
            "python_banner_conda_of_python2",
            {"os": "linux", "python": "2.7.13"},
        ),
        (
            "tf_env_collect",
            {
                "os": "linux",
                "kernel": "4.13.0-46-generic",
                "machine": "x86_64",
                "distribution_id": "ubuntu",
                "distribution_version": "17.10",
                "in_docker": False,
            },
        ),
        (
            "nvidia_container_cli_and_uname",
            {"os": "linux", "kernel": "5.0.0-27-generic", "machine": "x86_64", "distribution_id": "ubuntu"},
        ),
    ],
)
def test_the_system(name: str, expected: dict[str, object]) -> None:
    assert shown(system_outputs.parse(capture("tool_outputs", f"{name}.txt"))) == expected


def test_lsb_release() -> None:
    seen = system_outputs.parse(capture("form", "lsb_release_and_a_log.txt"))
    assert shown(seen) == {
        "os": "linux",
        "distribution": "CentOS Linux release 7.3.1611 (Core)",
        "distribution_id": "centos",
        "distribution_version": "7.3.1611",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"',
            {
                "os": "linux",
                "distribution_id": "ubuntu",
                "distribution_version": "22.04",
                "distribution": "Ubuntu 22.04.4 LTS",
            },
        ),
        (
            "Linux DESKTOP 5.15.146.1-microsoft-standard-WSL2 #1 SMP Thu Jan 11 04:09:03 2024 x86_64 x86_64 GNU/Linux",
            {"os": "wsl2", "kernel": "5.15.146.1-microsoft-standard-WSL2", "machine": "x86_64"},
        ),
        (
            "Darwin mac.local 23.1.0 Darwin Kernel Version 23.1.0: Mon Oct  9 21:28:45 PDT 2023; root:xnu arm64",
            {"os": "macos", "kernel": "23.1.0", "machine": "arm64"},
        ),
        ("Microsoft Windows [Version 10.0.19045.4717]", {"os": "windows"}),
        (
            "OS Name:                   Microsoft Windows 11 Pro",
            {"os": "windows", "distribution": "Microsoft Windows 11 Pro"},
        ),
        (
            "Python 3.7.1 (default, Dec 10 2018, 22:54:23) [MSC v.1915 32 bit (Intel)] :: Anaconda, Inc. on win32",
            {"os": "windows", "python": "3.7.1", "python_bits": 32},
        ),
        (
            "Flags:                fpu vme sse sse2\n                      avx avx2 fma\n\nand so on",
            {"cpu_flags": ("avx", "avx2", "fma", "fpu", "sse", "sse2", "vme")},
        ),
        ("Release: 2.4 of our software", {}),
    ],
)
def test_other_systems(text: str, expected: dict[str, object]) -> None:
    assert shown(system_outputs.parse(lines(text))) == expected


def test_lspci() -> None:
    cards = system_outputs.parse(capture("tool_outputs", "lspci_vnn_one_unnamed.txt")).cards
    assert [(card.address, card.vendor, card.name, card.device_id) for card in cards] == [
        ("03:00.0", "nvidia", "NVIDIA Corporation GK104 [GeForce GTX 660 Ti]", "10de:1183"),
        ("82:00.0", "nvidia", "NVIDIA Corporation Device", "10de:1b82"),
    ]
    cards = system_outputs.parse(capture("tool_outputs", "lspci_with_domains.txt")).cards
    assert [(card.address, card.vendor) for card in cards] == [("0001:00:00.0", "nvidia"), ("0002:00:00.0", "nvidia")]
    text = (
        "00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 630 (rev 02)\n"
        "\tKernel driver in use: i915\n"
        "03:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Polaris 22 (rev c0)"
    )
    cards = system_outputs.parse(lines(text)).cards
    assert [(card.vendor, card.driver) for card in cards] == [("intel", "i915"), ("amd", None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "$ conda create -n tf python=3.9 tensorflow-gpu -c conda-forge",
            [("conda", "create", ("python=3.9", "tensorflow-gpu"))],
        ),
        ('!pip install -q "tensorflow<2.11"', [("pip", "install", ("tensorflow<2.11",))]),
        ("python3.8 -m pip install --user tensorflow==2.4.1", [("pip", "install", ("tensorflow==2.4.1",))]),
        ("uv pip install -e .", [("uv pip", "install", (".",))]),
        (
            "pip uninstall -y keras && pip install keras==2.4",
            [("pip", "uninstall", ("keras",)), ("pip", "install", ("keras==2.4",))],
        ),
        ("sudo apt install nvidia-driver-535 # reboot", [("apt", "install", ("nvidia-driver-535",))]),
        ("pip install is what I tried and it did not work at all", []),
        ("No commands here", []),
    ],
)
def test_install_commands(text: str, expected: list[tuple[str, str, tuple[str, ...]]]) -> None:
    assert [(one.tool, one.verb, one.packages) for one in install_commands.parse(lines(text))] == expected


def test_every_capture_is_listed_with_its_making() -> None:
    readme = (CAPTURES / "tool_outputs" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in every_capture("tool_outputs") if f"| {path.name} |" not in readme] == []


@pytest.mark.parametrize("parse", PARSERS)
def test_bad_pastes_do_not_hurt(parse: Callable[[Sequence[Line]], object]) -> None:
    for path in every_capture("tool_outputs"):
        for seed in range(20):
            parse(mangled(path.read_text(encoding="utf-8"), seed))


UNITS = (
    *("a", "/a", "a/", " a", "lib/", "libcudart.so.1 ", "cuda-11.2 ", "a.b-c", "pip install a ", "01:00.0 ", "=> "),
    *("x86_64 ", "fpu "),
)
STARTS = ("", "-rwxr-xr-x 1 root root 8 ", "Linux a 4.8 #", "pip install ", "flags : fpu ", "ls: libcu", "cuda-")


@pytest.mark.parametrize("parse", PARSERS)
def test_long_lines_are_quick(parse: Callable[[Sequence[Line]], object]) -> None:
    for unit in UNITS:
        long = (unit * 100_000)[:100_000]
        for start in STARTS:
            text = f"{start}{long[:3900]} libcuda.so.1\n{start}{long[:150]}(\n{long[:3900]}cuda\n{start}{long}"
            with guarded(5.0, f"{start}{unit}"):
                parse(lines(text))
