"""Machines shown as folders; and this one."""

from __future__ import annotations

import doctest
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tfgpu_doctor.probes import host
from tfgpu_doctor.probes.tensorflow import TensorFlowProbe
from tfgpu_doctor.records.environment_variables import matters
from tfgpu_doctor.records.facts import Host, Known, Limit, PciGpu, TemporaryFolder, Unknown, value_or

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
    assert doctest.testmod(host).failed == doctest.testmod(host).failed == 0


def test_this_machine_is_told_without_a_traceback() -> None:
    found = host.examine()
    assert value_or(found.cpus, 0) >= 1
    assert value_or(found.memory, 0) > 0
    assert all(getattr(found, name) is not None for name in Host.__struct_fields__)


def test_wsl_is_told_by_its_kernel(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for osrelease, expected in [
        ("6.8.0-45-generic", "linux"),
        ("5.15.153.1-microsoft-standard-WSL2", "wsl2"),
        ("4.4.0-19041-Microsoft", "wsl1"),
        ("5.10.16.3-microsoft-standard", "wsl2"),
    ]:
        with subtests.test(osrelease=osrelease):
            machine = Machine(tmp_path_factory.mktemp("row"))
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


def test_cgroup_v2_limits_of_this_group_or_one_above(machine: Machine) -> None:
    machine.write("/proc/self/cgroup", "0::/user.slice/job\n")
    machine.write("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n")
    machine.write("/sys/fs/cgroup/user.slice/job/memory.max", f"{16 * GIB}\n")
    machine.write("/sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n")
    machine.write("/sys/fs/cgroup/user.slice/memory.max", f"{8 * GIB}\n")
    found = machine.examine()
    assert found.cpu_quota == Known(2.5, "/sys/fs/cgroup/user.slice/cpu.max")
    assert found.memory_limit == Known(8 * GIB, "/sys/fs/cgroup/user.slice/memory.max")


def test_cgroup_v1_limits_in_a_container_that_sees_the_hosts_paths(machine: Machine) -> None:
    machine.write("/proc/self/cgroup", "4:memory:/docker/0123\n2:cpu,cpuacct:/docker/0123\n")
    machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", f"{4 * GIB}\n")
    machine.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n")
    machine.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    found = machine.examine()
    assert value_or(found.cpu_quota, None) == 1.5
    assert value_or(found.memory_limit, None) == 4 * GIB


def test_no_limit_differs_from_no_groups(machine: Machine) -> None:
    found = machine.examine()
    assert isinstance(found.memory_limit, Unknown) and "no control group files" in found.memory_limit.reason
    machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    machine.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    machine.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    found = machine.examine()
    assert found.memory_limit == found.cpu_quota == Unknown("no limit")


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


def test_container(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for path, text, environ, expected in [
        ("/.dockerenv", "", {}, "docker"),
        ("/.dockerenv", "", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ("/run/.containerenv", "", {}, "podman"),
        ("/run/host/container-manager", "systemd-nspawn\n", {}, "systemd-nspawn"),
        ("/run/systemd/container", "lxc\n", {}, "lxc"),
        ("/.singularity.d/env/01-base.sh", "", {}, "apptainer"),
        ("/proc/1/cgroup", "0::/\n", {"APPTAINER_CONTAINER": "/tf.sif"}, "apptainer"),
        ("/proc/1/cgroup", "0::/\n", {"container": "podman"}, "podman"),
        ("/proc/1/cgroup", "4:memory:/kubepods/burstable/pod1/0123\n", {}, "kubernetes"),
        ("/proc/1/cgroup", "1:name=systemd:/docker/0123\n", {}, "docker"),
        ("/proc/1/cgroup", "0::/init.scope\n", {}, "none"),
    ]:
        with subtests.test(path=path):
            machine = Machine(tmp_path_factory.mktemp("row"))
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


def test_nouveau(machine: Machine) -> None:
    machine.write("/proc/modules", "mxm_wmi 12288 1 nouveau, Live 0x0\nnvidiafb 1 0 - Live 0x0\n")
    assert machine.examine().nouveau_loaded == Known(False, "/proc/modules")
    machine.write("/proc/modules", "nouveau 3244032 4 - Live 0x0\n")
    assert machine.examine().nouveau_loaded == Known(True, "/proc/modules")


def test_secure_boot(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for data, expected in [(b"\x06\x00\x00\x00\x01", True), (b"\x06\x00\x00\x00\x00", False), (b"", None)]:
        with subtests.test(data=data):
            machine = Machine(tmp_path_factory.mktemp("row"))
            machine.write(host.SECURE_BOOT, data)
            assert value_or(machine.examine().secure_boot, None) is expected


def test_dxg_and_shm(machine: Machine) -> None:
    assert machine.examine().dxg_device == Known(False, "/dev/dxg")
    assert isinstance(machine.examine().shm, Unknown)
    machine.write("/dev/dxg", "")
    (machine.root / "dev/shm").mkdir()
    assert machine.examine().dxg_device == Known(True, "/dev/dxg")
    assert value_or(machine.examine().shm, 0) > 0


_READ = (
    "from tfgpu_doctor.probes.host import address_space_limit as read;"
    "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), resource.RLIM_INFINITY));"
    "print(read().value)"
)


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_AS)[1] >= 0, reason="the tests run with a hard limit")
def test_the_limit_of_the_address_space() -> None:
    done = subprocess.run([sys.executable, "-c", _READ, str(2**33)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == f"Limit(soft={2**33}, hard=None)", done.stderr
    assert host.address_space_limit() == Known(Limit(None), "getrlimit(RLIMIT_AS)")


def test_the_limit_that_the_program_of_the_user_sets(tmp_path: Path) -> None:
    """A script that starts Python under a limit is not seen by the doctor's own process."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nulimit -v 6000000\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    with TensorFlowProbe(str(script), until="packages") as probe:
        found = probe.result().address_space_limit
    assert isinstance(found, Known) and found.value == Limit(6_000_000 * 1024, 6_000_000 * 1024)
    assert str(script) in found.source


def folder(environ: dict[str, str], root: Path) -> TemporaryFolder:
    found = host.temporary_folder(environ, str(root))
    assert isinstance(found, Known)
    return found.value


def test_the_first_folder_that_is_there(tmp_path: Path) -> None:
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


def test_a_folder_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(host.os, "access", lambda *_: False)  # root may write everywhere
    assert folder({}, tmp_path).problem == "Permission denied"


def test_secrets_and_names_are_never_read(subtests: pytest.Subtests) -> None:
    for name in [
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "SSH_AUTH_SOCK",
        "USER",
        "HOME",
        "NCCL",
        "PASSWORD",
        "JUPYTERHUB_API_TOKEN",
    ]:
        with subtests.test(name=name):
            assert not matters(name)
            assert host.variables({name: "secret"}) == Known({}, "environment")


def test_a_huge_value_is_cut() -> None:
    found = host.variables({"LD_LIBRARY_PATH": "/x:" * 10_000})
    assert isinstance(found, Known)
    assert len(found.value["LD_LIBRARY_PATH"]) == host.LONGEST
