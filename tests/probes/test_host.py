"""Machines shown as folders; and this one."""

from __future__ import annotations

import doctest
import resource
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Host, Known, Limit, PciGpu, TemporaryFolder, Unknown, value_or
from tfgpu_doctor.probes import host

GIB = 1 << 30


class Machine:
    """A root folder with the files that a machine would have."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str | bytes) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)

    def pci(self, address: str, *, driver: str | None = None, **attributes: str) -> None:
        for name, value in {"vendor": "0x10de", "class": "0x030000", **attributes}.items():
            self.write(f"{host.DEVICES}/{address}/{name}", f"{value}\n")
        if driver:
            target = self.root / "sys/bus/pci/drivers" / driver
            target.mkdir(parents=True, exist_ok=True)
            (self.root / host.DEVICES.lstrip("/") / address / "driver").symlink_to(target)

    def examine(self, **environ: str) -> Host:
        return host.examine(str(self.root), environ)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_samples_in_the_docstrings() -> None:
    assert doctest.testmod(host).failed == 0


def test_this_machine_is_told_without_a_traceback() -> None:
    found = host.examine()
    assert value_or(found.cpus, 0) >= 1
    assert value_or(found.memory, 0) > 0
    assert all(getattr(found, name) is not None for name in Host.__struct_fields__)


@each(
    "osrelease, expected",
    [
        ("6.8.0-45-generic", "linux"),
        ("5.15.153.1-microsoft-standard-WSL2", "wsl2"),
        ("4.4.0-19041-Microsoft", "wsl1"),
        ("5.10.16.3-microsoft-standard", "wsl2"),
    ],
)
def test_wsl_is_told_by_its_kernel(tmp_path: Path, osrelease: Any, expected: Any) -> None:
    machine = Machine(tmp_path)
    machine.write(host.OSRELEASE, f"{osrelease}\n")
    found = machine.examine()
    assert found.os == Known(expected, host.OSRELEASE)
    assert found.kernel == Known(osrelease, host.OSRELEASE)


def test_distribution(machine: Machine) -> None:
    machine.write("/etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\nID=ubuntu\nVERSION_ID="22.04"\n')
    found = machine.examine()
    assert found.distribution == Known("Ubuntu 22.04.4 LTS", "/etc/os-release")
    assert (value_or(found.distribution_id, ""), value_or(found.distribution_version, "")) == ("ubuntu", "22.04")


def test_cpu_of_x86_and_arm(machine: Machine) -> None:
    machine.write(
        "/proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD Ryzen 9 7950X\nflags\t\t: fpu avx sse2\n\nprocessor\t: 1\n"
    )
    found = machine.examine()
    assert found.cpu_model == Known("AMD Ryzen 9 7950X", "/proc/cpuinfo")
    assert found.cpu_flags == Known(("avx", "fpu", "sse2"), "/proc/cpuinfo")
    machine.write("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n")
    found = machine.examine()
    assert value_or(found.cpu_flags, ()) == ("asimd", "fp")
    assert isinstance(found.cpu_model, Unknown)


@each("groups, files, cpus, size", read_rows(Path(__file__).with_name("host.yaml")))
def test_limits_of_control_groups(
    tmp_path: Path, groups: list[str], files: dict[str, str], cpus: Any, size: Any
) -> None:
    machine = Machine(tmp_path)
    machine.write("/proc/self/cgroup", "".join(f"{line}\n" for line in groups))
    for name, text in files.items():
        machine.write(f"{host.MOUNT}/{name}", f"{text}\n")
    found = machine.examine()
    for fact, told in ((found.cpu_quota, cpus), (found.memory_limit, size)):
        assert fact == (Unknown(told) if isinstance(told, str) else Known(told[0], f"{host.MOUNT}/{told[1]}"))


def test_counters_of_the_oom_killer(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for cgroup, file, text in [
        ("0::/job\n", "/sys/fs/cgroup/job/memory.events", "low 0\noom 1\noom_kill 3\noom_group_kill 0\n"),
        ("0::/../job\n", "/sys/fs/cgroup/memory.events", "oom_kill 3\n"),
        ("4:cpu:/\n9:memory:/job\n", "/sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 3\n"),
    ]:
        with subtests.test(cgroup=cgroup):
            machine = Machine(tmp_path_factory.mktemp("row"))
            assert host.oom_kills(str(machine.root)) == {}
            machine.write("/proc/self/cgroup", cgroup)
            machine.write("/proc/vmstat", "pgfault 9\noom_kill 5\n")
            machine.write(file, text)
            before = host.oom_kills(str(machine.root))
            assert list(before.values()) == [3, 5]
            machine.write(file, text.replace("oom_kill 3", "oom_kill 4"))
            struck = host.explain_kill(before, host.oom_kills(str(machine.root)))
            assert struck.startswith("killed by the kernel's OOM killer") and struck.endswith("oom_kill 3 -> 4)")
    assert host.explain_kill({host.VMSTAT: 7}, {host.VMSTAT: 8}).startswith("probably killed by the kernel's OOM")
    assert host.explain_kill({}, {}).startswith("killed from outside, perhaps by")
    assert host.explain_kill({host.VMSTAT: 7}, {host.VMSTAT: 7}).startswith("killed from outside, and not by")


@each(
    "path, text, environ, expected",
    [
        ("/.dockerenv", "", {}, "docker"),
        ("/.dockerenv", "", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ("/run/.containerenv", "", {}, "podman"),
        ("/run/systemd/container", "lxc\n", {}, "lxc"),
        ("/.singularity.d/env/01-base.sh", "", {}, "apptainer"),
        ("/proc/1/cgroup", "0::/\n", {"APPTAINER_CONTAINER": "/tf.sif"}, "apptainer"),
        ("/proc/1/cgroup", "0::/\n", {"container": "podman"}, "podman"),
        ("/proc/1/cgroup", "4:memory:/kubepods/burstable/pod1/0123\n", {}, "kubernetes"),
        ("/proc/1/cgroup", "1:name=systemd:/docker/0123\n", {}, "docker"),
        ("/proc/1/cgroup", "0::/init.scope\n", {}, "none"),
    ],
)
def test_container(tmp_path: Path, path: Any, text: Any, environ: Any, expected: Any) -> None:
    machine = Machine(tmp_path)
    machine.write(path, text)
    assert value_or(machine.examine(**environ).container, None) == expected


def test_gpus_on_the_bus_without_a_driver(machine: Machine) -> None:
    machine.pci("0000:65:00.0", device="0x2684")
    machine.pci("0000:65:00.1", device="0x22ba", **{"class": "0x040300"})  # its sound
    machine.pci("0000:b3:00.0", device="0x20b0", driver="nvidia", **{"class": "0x030200"})
    machine.pci("0000:00:02.0", device="0x1912", vendor="0x8086")  # an Intel GPU
    assert machine.examine().pci_gpus == Known(
        (
            PciGpu(address="0000:65:00.0", device_id="10de:2684"),
            PciGpu(address="0000:b3:00.0", device_id="10de:20b0", driver="nvidia"),
        ),
        host.DEVICES,
    )


def test_no_gpu_on_the_bus_says_nothing_on_wsl2_and_jetson(machine: Machine) -> None:
    machine.pci("0000:00:02.0", device="0x1912", vendor="0x8086")
    assert machine.examine().pci_gpus == Known((), host.DEVICES)
    machine.write(host.OSRELEASE, "5.15.153.1-microsoft-standard-WSL2")
    assert isinstance(machine.examine().pci_gpus, Unknown)
    machine.write(host.OSRELEASE, "5.15.136-tegra")
    machine.write("/etc/nv_tegra_release", "# R36 (release), REVISION: 3.0\n")
    assert isinstance(machine.examine().pci_gpus, Unknown)


def test_devices_and_modules(machine: Machine) -> None:
    assert isinstance(machine.examine().shm, Unknown)
    for modules, node, is_there in (
        ("mxm_wmi 12288 1 nouveau, Live 0x0\nnvidiafb 1 0 - Live 0x0\n", "/dev/other", False),
        ("nouveau 3244032 4 - Live 0x0\n", "/dev/dxg", True),
    ):
        machine.write("/proc/modules", modules)
        machine.write(node, "")
        assert machine.examine().nouveau_loaded == Known(is_there, "/proc/modules")
        assert machine.examine().dxg_device == Known(is_there, "/dev/dxg")
    (machine.root / "dev/shm").mkdir()
    assert value_or(machine.examine().shm, 0) > 0


@each("data, expected", [(b"\x06\x00\x00\x00\x01", True), (b"\x06\x00\x00\x00\x00", False), (b"", None)])
def test_secure_boot(tmp_path: Path, data: Any, expected: Any) -> None:
    machine = Machine(tmp_path)
    machine.write(host.SECURE_BOOT, data)
    assert value_or(machine.examine().secure_boot, None) is expected


def test_the_limit_of_the_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    for read, limit in (((2**33, -1), Limit(2**33)), ((-1, -1), Limit(None)), ((2**63 - 1, 2**63 - 1), Limit(None))):
        monkeypatch.setattr(resource, "getrlimit", lambda _which, read=read: read)
        assert host.address_space_limit() == Known(limit, "getrlimit(RLIMIT_AS)")


def folder(environ: dict[str, str], root: Path) -> TemporaryFolder:
    found = host.temporary_folder(environ, str(root))
    assert isinstance(found, Known)
    return found.value


def test_the_first_folder_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "file").touch()
    assert folder({"TMPDIR": "/scratch"}, tmp_path).path == "/scratch"
    assert folder({"TMPDIR": "/scratch"}, tmp_path).via == "TMPDIR"
    for other in ("/gone", "/file", ""):
        assert folder({"TMPDIR": other, "TMP": "/scratch"}, tmp_path).via == "TMP"
        assert folder({"TMPDIR": other}, tmp_path).path == "/tmp"
    assert folder({}, tmp_path).problem is None
    assert (folder({}, tmp_path).free or 0) > 0
    assert folder({}, tmp_path / "scratch").problem == "No such file or directory"
    monkeypatch.setattr(host.os, "access", lambda *_: False)  # root may write everywhere
    assert folder({}, tmp_path).problem == "Permission denied"


def test_secrets_are_never_read_and_a_huge_value_is_cut() -> None:
    names = ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "SSH_AUTH_SOCK", "USER", "HOME", "NCCL", "PASSWORD")
    assert host.variables(dict.fromkeys(names, "secret")) == Known({}, "environment")
    found = host.variables({"LD_LIBRARY_PATH": "/x:" * 10_000})
    assert isinstance(found, Known)
    assert len(found.value["LD_LIBRARY_PATH"]) == host.LONGEST
