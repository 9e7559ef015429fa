"""What to do about nodes that differ: commands for one node, from what the others have. Pure.

What a finding advises stands with the finding; here are the repairs of differences that no finding explains. Options of
nvidia-smi: its manual, https://docs.nvidia.com/deploy/nvidia-smi/index.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace

from tfgpu_doctor.fleet.differences import Difference
from tfgpu_doctor.fleet.values import ABSENT, label
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.versions import at_least, major

_WATTS = re.compile(r"(\d+(?:\.\d+)?) W")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*")
_VERSION = re.compile(r"\d[\w.+!-]*")
_CHECK = Fix(text="Check it again", commands=("tfgpu doctor",))
_FIELD = Fix(
    text="See what the driver says of each GPU of the node", commands=("nvidia-smi -q -d PERFORMANCE,POWER,CLOCK,ECC",)
)


def repair(one: Difference) -> tuple[Fix, ...]:
    """The repair of a difference, the likeliest first."""
    return _expected(one) if one.kind == "expectation" else _differing(one)


def _differing(one: Difference) -> tuple[Fix, ...]:
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


# ------------------------------------------------------------------------------------------ what --expect asks for

_ASKED = re.compile(r"(?:(?P<operator>>=|<=|!=|>|<) )?(?P<value>.+)", re.DOTALL)
_KIND = ("gpus.name", "gpus.memory_total", "gpus.compute_capability", "host.cpu_model", "host.cpus", "host.memory")


def _expected(one: Difference) -> tuple[Fix, ...]:
    """The repair of nodes on which it does not hold: that the others have it is not said, and often no node has it."""
    if one.severity is not Severity.ERROR:
        return (Fix(text="See why the report of the node does not say it", commands=("tfgpu doctor -v",)),)
    asked = _ASKED.fullmatch(one.expected)
    operator, value = (asked["operator"] or "=", asked["value"]) if asked else ("", "")
    return _software(one, operator, value) or _hardware(one, operator, value)


def _software(one: Difference, operator: str, value: str) -> tuple[Fix, ...]:
    if one.id.startswith("python.packages.") and _VERSION.fullmatch(value):
        return _package_of(one, _specifier(operator, value))
    if one.id == "tensorflow.version" and _VERSION.fullmatch(value):
        command = f"tfgpu plan --tensorflow {shlex.quote(_specifier(operator, value))}"
        return (Fix(text="Show the commands that install such a TensorFlow on the node", commands=(command,)),)
    if one.id == "driver.version" and operator in ("=", ">="):
        return _driver(replace(one, expected=value))
    return ()


def _hardware(one: Difference, operator: str, value: str) -> tuple[Fix, ...]:
    if one.id == "gpus.power_limit" and operator == "=":
        return _power(replace(one, expected=f"{value} W"))
    if one.id == "gpus":
        compared, *more = _fewer(one)
        return (compared, _CORRECT, *more)
    if one.id in _KIND:
        text = "Find out whether the nodes are of another kind"
        return (Fix(text=text, commands=("nvidia-smi -L", "lscpu")), _CORRECT)
    if one.id in _BY_ID and operator == "=":
        return _BY_ID[one.id](one)
    return (Fix(text=f"Change this on the nodes: {label(one.id)}, expected {one.expected}"), _CORRECT)


def _specifier(operator: str, version: str) -> str:
    """What pip takes for it: "=2.20" is any 2.20."""
    if operator != "=":
        return f"{operator}{version}"
    return f"=={version}" if version.endswith(".*") or version.count(".") > 1 else f"=={version}.*"


_CORRECT = Fix(text="Where nodes of this kind need not have it: leave their reports out, or correct --expect")


# ------------------------------------------------------------------------------------- what others, or a baseline, have


def _like(one: Difference) -> str:
    """Who has what is expected."""
    return {"baseline": "as in the baseline", "expectation": "as expected"}.get(one.kind, "as on the other nodes")


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
    package = f"nvidia-driver-{branch}-server{'-open' if _needs_open_module(one) else ''}"
    exactly = "" if version == branch else f" ({version})"
    return (
        Fix(
            text=f"Install a driver of branch {branch}, {_like(one)}{exactly}, and restart (Ubuntu; elsewhere with "
            "the distribution's package)",
            commands=("sudo apt-get update", f"sudo apt-get install -y {package}", "sudo reboot"),
        ),
        Fix(text="Where the node's image brings the driver: boot it from an image with that driver"),
    )


def _needs_open_module(one: Difference) -> bool:
    """Blackwell and later have only open kernel modules; without a driver, the nodes do not say what they have."""
    name = "gpus.compute_capability"
    gpus = (gpu for machine, _ in one.members for gpu in machine.main.gpus or ())
    return any(at_least(gpu[name].text, "10") for gpu in gpus if name in gpu)


def _kernel(one: Difference) -> tuple[Fix, ...]:
    name = shlex.quote(one.expected)
    if re.fullmatch(r"\d+(?:\.\d+)+-\d+-[a-z][a-z0-9-]{1,30}", one.expected):
        install: tuple[str, ...] = (f"sudo apt-get install -y linux-image-{name} linux-headers-{name}",)
    elif re.search(r"\.(?:el|fc|amzn)\d", one.expected):
        install = (f"sudo dnf install -y kernel-{name} kernel-devel-{name}",)
    else:
        install = ()
    return (
        Fix(
            text=f"Boot kernel {one.expected}, {_like(one)}, with a driver module for it; where a newer kernel is "
            "installed, select it in GRUB",
            commands=("uname -r", *install, "dkms status", "sudo reboot"),
        ),
    )


def _package(one: Difference) -> tuple[Fix, ...]:
    name = one.id.removeprefix("python.packages.")
    if _REQUIREMENT.fullmatch(name) and one.expected == ABSENT:
        python = _interpreter(one)
        text = f"Uninstall {name}, {_like(one)}"
        return (Fix(text=text, commands=(f"{python} -m pip uninstall -y {name}",)),)
    return _package_of(one, f"=={one.expected}") if _VERSION.fullmatch(one.expected) else _same_as_others(one)


def _package_of(one: Difference, specifier: str) -> tuple[Fix, ...]:
    name = one.id.removeprefix("python.packages.")
    if not _REQUIREMENT.fullmatch(name):
        return _same_as_others(one)
    python = _interpreter(one)
    requirement = shlex.quote(f"{name}{specifier}")
    shown = specifier.removeprefix("==").removesuffix(".*")
    return (Fix(text=f"Install {name} {shown}, {_like(one)}", commands=(f"{python} -m pip install {requirement}",)),)


def _interpreter(one: Difference) -> str:
    """Return the interpreter of these nodes; "python" where they differ."""
    path = "python.executable"
    found = {facts[path][path].text for facts in (member.main.facts for member, _ in one.members) if path in facts}
    return shlex.quote(next(iter(found))) if len(found) == 1 else "python"


def _variable(one: Difference) -> tuple[Fix, ...]:
    name = one.id.removeprefix("variables.")
    if one.expected == ABSENT:
        text = f"Find where {name} is set on this node (job script, module, /etc/environment), and remove it there"
        return (Fix(text=text, commands=(f"unset {name}",) if name.isidentifier() else ()),)
    value = shlex.quote(one.expected)
    commands = (f"export {name}={value}",) if name.isidentifier() and len(one.expected) < 200 else ()
    return (Fix(text=f"Set {name}, {_like(one)}", commands=commands),)


def _setting(text: str, command: str) -> Callable[[Difference], tuple[Fix, ...]]:
    return lambda _: (Fix(text=text, commands=(command,)),)


def _switch(name: str, option: str, after: str) -> Callable[[Difference], tuple[Fix, ...]]:
    """A setting of nvidia-smi that is on or off: that of the other nodes."""

    def fixes(one: Difference) -> tuple[Fix, ...]:
        value = {"on": "1", "off": "0"}.get(one.expected)
        if value is None:
            return _same_as_others(one)
        text = f"Turn {name} {one.expected}, {_like(one)}{after}"
        return (Fix(text=text, commands=(f"sudo nvidia-smi {option} {value}",)),)

    return fixes


def _power(one: Difference) -> tuple[Fix, ...]:
    watts = _WATTS.fullmatch(one.expected)
    if watts is None:
        return (_FIELD,)
    limit = f"{float(watts[1]):g}"
    return (Fix(text=f"Set the power limit to {limit} W, {_like(one)}", commands=(f"sudo nvidia-smi -pl {limit}",)),)


def _link(_: Difference) -> tuple[Fix, ...]:
    return (
        Fix(
            text="See the link; fewer lanes than expected mean a GPU, riser or slot with a bad contact",
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
    text = f"Set the compute mode {one.expected}, {_like(one)}"
    return (Fix(text=text, commands=(f"sudo nvidia-smi -c {mode}",)),)


def _parts(what: str, *commands: str) -> Callable[[Difference], tuple[Fix, ...]]:
    text = f"See which {what} the node has and whether the firmware disables some; replace what is broken"
    return lambda _: (Fix(text=text, commands=commands),)


def _same_as_others(one: Difference) -> tuple[Fix, ...]:
    name = label(one.id)
    field = name if one.expected in ("", ABSENT) else f"{name} {one.expected}"
    return (Fix(text=f"Give the node the image or the setting, {_like(one)}: {field}"), _CHECK)


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
    "gpus.mig_instances": _setting("See the instances, and create those that are expected", "nvidia-smi mig -lgi"),
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
