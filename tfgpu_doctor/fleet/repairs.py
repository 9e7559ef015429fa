"""What to do about nodes that differ: commands for one node, from what the others have. Pure.

What a finding advises stands with the finding; here are the repairs of differences that no finding explains. Options of
nvidia-smi: its manual, https://docs.nvidia.com/deploy/nvidia-smi/index.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from tfgpu_doctor.fleet.differences import Difference
from tfgpu_doctor.fleet.values import ABSENT, Value, label, paths
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.records.versions import major

_WATTS = re.compile(r"(\d+(?:\.\d+)?) W")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*")
_VERSION = re.compile(r"\d[\w.+!-]*")
_CHECK = Fix(text="Check it again", commands=("tfgpu doctor",))
_FIELD = Fix(
    text="See what the driver says of each GPU of the node", commands=("nvidia-smi -q -d PERFORMANCE,POWER,CLOCK,ECC",)
)


def repair(one: Difference) -> tuple[Fix, ...]:
    """The repair of a difference, the likeliest first."""
    if one.id in _BY_ID:
        return _BY_ID[one.id](one)
    if one.id.startswith("python.packages."):
        return _package(one)
    if one.id.startswith("variables."):
        return _variable(one)
    if one.kind == "speed" or one.act == "speed":
        return _SLOW
    if one.act == "run":
        return (_AGAIN, *_hardware_error(one)) if one.id.endswith("/wrong") else (_AGAIN,)
    if one.act == "driver" or one.id.startswith("driver."):
        return _driver(one)
    return _same_as_others(one)


def _driver(one: Difference) -> tuple[Fix, ...]:
    version = one.expected if _VERSION.fullmatch(one.expected) and one.id == "driver.version" else ""
    if not version:
        return (
            Fix(
                text="Load the module of the installed driver, or restart the node; then see what the kernel says",
                commands=("sudo modprobe nvidia", "nvidia-smi", "sudo dmesg | grep -iE 'NVRM|nvidia' | tail -n 20"),
            ),
        )
    branch = major(version)
    return (
        Fix(
            text=f"Install driver {version} as on the other nodes, and restart (Ubuntu; elsewhere with the "
            "distribution's package)",
            commands=(f"sudo apt-get install -y nvidia-driver-{branch}-server", "sudo reboot"),
        ),
        Fix(text="Where the node's image brings the driver: boot it from the image of the other nodes"),
    )


def _kernel(one: Difference) -> tuple[Fix, ...]:
    return (
        Fix(
            text=f"Boot kernel {one.expected} as the other nodes do; the driver's module is built for each kernel",
            commands=("uname -r", "dkms status", "sudo reboot"),
        ),
    )


def _package(one: Difference) -> tuple[Fix, ...]:
    name = one.id.removeprefix("python.packages.")
    if not _REQUIREMENT.fullmatch(name):
        return _same_as_others(one)
    python = _interpreter(member.facts for member, _ in one.members)
    if one.expected == ABSENT:
        return (
            Fix(
                text=f"Uninstall {name}, which the other nodes do not have",
                commands=(f"{python} -m pip uninstall -y {name}",),
            ),
        )
    if not _VERSION.fullmatch(one.expected):
        return _same_as_others(one)
    requirement = shlex.quote(f"{name}=={one.expected}")
    return (
        Fix(
            text=f"Install what the other nodes have, version {one.expected}",
            commands=(f"{python} -m pip install {requirement}",),
        ),
    )


_PYTHON_AT = paths().index("python.executable")


def _interpreter(facts: Iterable[tuple[tuple[tuple[str, Value], ...] | None, ...]]) -> str:
    """The interpreter of these nodes; "python" where they differ."""
    found = {leaf[0][1].text for one in facts if one and (leaf := one[_PYTHON_AT])}
    return shlex.quote(next(iter(found))) if len(found) == 1 else "python"


def _variable(one: Difference) -> tuple[Fix, ...]:
    name = one.id.removeprefix("variables.")
    if one.expected == ABSENT:
        text = f"Find where {name} is set on this node (job script, module, /etc/environment), and remove it there"
        return (Fix(text=text, commands=(f"unset {name}",) if name.isidentifier() else ()),)
    value = shlex.quote(one.expected)
    commands = (f"export {name}={value}",) if name.isidentifier() and len(one.expected) < 200 else ()
    return (Fix(text=f"Set {name} as on the other nodes", commands=commands),)


def _setting(text: str, command: str) -> Callable[[Difference], tuple[Fix, ...]]:
    return lambda _: (Fix(text=text, commands=(command,)),)


def _switch(name: str, option: str, after: str) -> Callable[[Difference], tuple[Fix, ...]]:
    """A setting of nvidia-smi that is on or off: that of the other nodes."""

    def fixes(one: Difference) -> tuple[Fix, ...]:
        value = {"on": "1", "off": "0"}.get(one.expected)
        if value is None:
            return _same_as_others(one)
        text = f"Turn {name} {one.expected}, as on the other nodes{after}"
        return (Fix(text=text, commands=(f"sudo nvidia-smi {option} {value}",)),)

    return fixes


def _power(one: Difference) -> tuple[Fix, ...]:
    watts = _WATTS.fullmatch(one.expected)
    if watts is None:
        return (_FIELD,)
    limit = f"{float(watts[1]):g}"
    return (Fix(text="Set the power limit of the other nodes", commands=(f"sudo nvidia-smi -pl {limit}",)),)


def _link(_: Difference) -> tuple[Fix, ...]:
    return (
        Fix(
            text="See the link; fewer lanes than the others mean a GPU, riser or slot with a bad contact",
            commands=(
                "nvidia-smi -q | grep -A 12 'GPU Link Info'",
                "sudo lspci -vv -d 10de: | grep -E 'LnkCap|LnkSta'",
            ),
        ),
        Fix(text="Reseat the GPU or its riser; if it stays, swap it with another slot to see which of them is bad"),
    )


def _fewer(_: Difference) -> tuple[Fix, ...]:
    return (
        Fix(
            text="Compare the GPUs on the PCI bus with those that the driver lists",
            commands=("lspci -d 10de:", "nvidia-smi -L", "sudo dmesg | grep -iE 'NVRM|Xid' | tail -n 20"),
        ),
        Fix(text="Restart the node; if a GPU stays away, reseat or replace it", commands=("sudo reboot",)),
    )


def _hardware_error(_: Difference) -> tuple[Fix, ...]:
    return (
        Fix(
            text="Check the error counters and the kernel's log",
            commands=(
                "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
                "sudo dmesg | grep -iE 'NVRM|Xid' | tail -n 20",
            ),
        ),
        Fix(text="Drain the node and restart it; if the error returns, replace the GPU", commands=("sudo reboot",)),
    )


def _compute_mode(one: Difference) -> tuple[Fix, ...]:
    mode = one.expected.upper().replace(" ", "_")
    if mode not in ("DEFAULT", "EXCLUSIVE_PROCESS", "PROHIBITED"):
        return _same_as_others(one)
    text = f"Set the compute mode of the other nodes: {one.expected}"
    return (Fix(text=text, commands=(f"sudo nvidia-smi -c {mode}",)),)


def _parts(what: str, *commands: str) -> Callable[[Difference], tuple[Fix, ...]]:
    text = f"See which {what} the node has and whether the firmware disables some; replace what is broken"
    return lambda _: (Fix(text=text, commands=commands),)


def _same_as_others(one: Difference) -> tuple[Fix, ...]:
    name = label(one.id)
    field = name if one.expected in ("", ABSENT) else f"{name}, which is {one.expected} elsewhere"
    return (Fix(text=f"Give the node the image and the settings of the others ({field})"), _CHECK)


_AGAIN = Fix(
    text="Test every GPU of the node again, several times, and read the reason",
    commands=("tfgpu smoke --repeat 5 -v",),
)
_SLOW = (
    Fix(
        text="Look for heat, a power limit or low clocks while it computes",
        commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",),
    ),
    Fix(text="Undo clocks that were locked", commands=("sudo nvidia-smi -rgc",)),
    Fix(text="Measure it again without other programs", commands=("tfgpu bench matpow",)),
)
_MIG = _switch("MIG mode", "-mig", "; nothing may use the GPU")
_BY_ID: dict[str, Callable[[Difference], tuple[Fix, ...]]] = {
    "gpus": _fewer,
    "gpus.name": _fewer,
    "gpus.ecc_mode": _switch("ECC", "-e", "; it takes effect after a restart"),
    "gpus.mig_mode": _MIG,
    "gpus.mig_instances": _setting("See the instances, and create those of the other nodes", "nvidia-smi mig -lgi"),
    "gpus.persistence_mode": _switch("persistence mode", "-pm", ""),
    "gpus.compute_mode": _compute_mode,
    "gpus.power_limit": _power,
    "gpus.sm_clock_max": _setting("Undo clocks that were locked", "sudo nvidia-smi -rgc"),
    "gpus.memory_clock_max": _setting("Undo clocks that were locked", "sudo nvidia-smi -rmc"),
    "gpus.pcie_width": _link,
    "gpus.pcie_width_max": _link,
    "gpus.pcie_generation_max": _link,
    "gpus.nvlinks": _setting("See the state of each link", "nvidia-smi nvlink --status"),
    "gpus.ecc_uncorrected": _hardware_error,
    "gpus.remapped_rows_pending": _hardware_error,
    "gpus.remapped_rows_failed": _hardware_error,
    "gpus.memory_total": _hardware_error,
    "gpus.fault": _hardware_error,
    "driver.xid_events": _hardware_error,
    "host.kernel": _kernel,
    "host.memory": _parts("memory modules", "sudo dmidecode -t memory", "free -h"),
    "host.cpus": _parts("CPUs", "lscpu", "nproc", "cat /sys/fs/cgroup/cpu.max"),
}
