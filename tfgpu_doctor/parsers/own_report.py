"""A report of tfgpu among the pasted lines, as text or as Markdown.

Its stack, the variables that it found, and of each finding the heading and the advice; reports with older labels (saw,
need, why, so, do) are understood as well.

>>> from tfgpu_doctor.parsers.lines import Line
>>> text = '''$ tfgpu doctor
... tfgpu doctor 0.1.0, matrix of 2026-11-21
...
...   ✗ GPU        none
...
... ✗ This machine has no NVIDIA GPU  gpu.none
...     found     no NVIDIA device ← /sys/bus/pci/devices
...     fix       Run this on a machine with
...               an NVIDIA GPU
...
... ✗ broken: TensorFlow cannot use the GPU (1 problem)
... $ python train.py'''
>>> (report, found), rest = split([Line(n, line) for n, line in enumerate(text.splitlines(), 1)])
>>> report.values
{'GPU': 'none'}
>>> found.line, found.values["id"], found.values["severity"], found.values["title"]
(6, 'gpu.none', 'error', 'This machine has no NVIDIA GPU')
>>> without_blanks("Run this on a machine with an NVIDIA GPU") in found.values["advice"]
True
>>> [line.text for line in rest]
['$ tfgpu doctor', '$ python train.py']

A part of one will do, if it has rows of three layers; TensorFlow's own self-check has lists of one.

>>> split([Line(1, "  * TensorFlow 1.2.1 or earlier"), Line(2, "  * TensorFlow 1.3 or later")])[0]
()

The facts that a pasted report of tfgpu shows in its stack.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from tfgpu_doctor.facts.about import LAYERS
from tfgpu_doctor.facts.facts import Build, Fact, Facts, Gpu, Known, Message, Package, PciGpu, TfDevice, Toolkit
from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.parsers import platform_hints
from tfgpu_doctor.parsers.lines import Line

# ------------------------------------------------------------------------------------------ own report

_HEAD = re.compile(r"^\W*(?:<sub>)?tfgpu (?:doctor|explain) \d+\.\d+\S*, matrix of \d")
_VERDICT = re.compile(r"^\W*(?:ok|degraded|broken|unknown)(?:\*\*)?: ")
_ID = r"(?P<id>[a-z0-9]+\.[a-z0-9]+(?:-[a-z0-9]+)*)"
_FINDING = re.compile(rf"^(?:### )?(?P<mark>[✗x!⚠iℹ?]) (?P<title>\S.*?) (?: |<sub>){_ID}(?:</sub>)?$")
_WRAPPED = re.compile(r"^(?:### )?(?P<mark>[✗x!⚠iℹ]) (?P<title>\S.*)$")
_ID_ALONE = re.compile(rf"^ {{2}}(?P<more>.*?)(?:^|(?<= ) ?){_ID}$")
_ROW = re.compile(rf"^(?:  |\| )\S (?:\| )?(?P<layer>{'|'.join(LAYERS)}) +(?:\| )?(?P<text>\S.*?)(?: \|)?$")
_REST_OF_ROW = re.compile(r"^ {12,}(?P<text>\S.*)$")
_VARIABLE = re.compile(r"^(?:    |- )?(?:found|saw)? *(?P<name>[A-Z][A-Z0-9_]{3,60})=(?P<value>\S*)(?: (?:←|<-)|$)")
_PACKAGE = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]{0,80})==(?P<version>\S+)$")
_ADVICE = re.compile(r"^(?:    )?(?:fix|do) ")
_MARKUP = re.compile(r"^```\w*$|<!-- -->")
_MOST_ADVICE, _MOST_LINES = 20_000, 300  # characters, and lines below a heading
_SEVERITIES = {"!": "warning", "⚠": "warning", "i": "note", "ℹ": "note"}  # any other mark: an error
_SHOWN = 300
_TITLE_LINES = 4  # over which a narrow terminal may wrap a title


def split(lines: Sequence[Line]) -> tuple[tuple[Message, ...], Sequence[Line]]:
    """The report and its findings, as messages, and the lines that do not belong to it."""
    rows = {row["layer"]: place for place, line in enumerate(lines) if (row := _ROW.match(line.text))}
    without_head = min(rows.values()) if len(rows) > 2 else None  # the head was not pasted
    start = next((place for place, line in enumerate(lines) if _HEAD.match(line.text)), without_head)
    if start is None:
        return (), lines
    head = cut(lines[start].text.strip(), _SHOWN)
    # Markdown begins with the verdict, and an empty line
    start = next((n for n in range(max(start - 2, 0), start) if _VERDICT.match(lines[n].text)), start)
    ends = [
        place
        for place, line in enumerate(lines)
        if line.text.strip() == "</details>" or (_VERDICT.match(line.text) and place > start + 2)
    ]
    end = max(ends, default=len(lines) - 1)
    own = lines[start : end + 1]
    report = Message("own-report", own[0].number, head, _stack(own))
    return (report, *_findings(own)), [*lines[:start], *lines[end + 1 :]]


def _stack(lines: Sequence[Line]) -> dict[str, str]:
    """What the report says of each layer, the variables ("$NAME") and the packages ("name==") that it shows."""
    found: dict[str, str] = {}
    layer = None
    for line in lines:
        row, rest = _ROW.match(line.text), _REST_OF_ROW.match(line.text)
        if layer and rest and not row:
            found[layer] += f" {rest['text']}"
            continue
        layer = row["layer"] if row else None
        if row:
            found[row["layer"]] = row["text"].replace("\\", "")
        elif variable := _VARIABLE.match(line.text.replace("\\", "")):
            found[f"${variable['name']}"] = variable["value"].strip("'")
        elif package := _PACKAGE.match(line.text):
            found[f"{package['name']}=="] = package["version"]
    return found


def _findings(lines: Sequence[Line]) -> Iterator[Message]:
    for place, line in enumerate(lines):
        opening = _FINDING.match(line.text)
        if opening:
            title, finding_id = opening["title"], opening["id"]
        elif opening := _WRAPPED.match(line.text):
            title, finding_id = _wrapped(opening["title"], lines[place + 1 : place + _TITLE_LINES])
        if opening and finding_id:
            severity = _SEVERITIES.get(opening["mark"], "error")
            advice = _advice(lines[place + 1 : place + _MOST_LINES])
            values = {"id": finding_id, "severity": severity, "title": title.strip(), "advice": advice}
            yield Message("own-finding", line.number, cut(line.text.strip(), _SHOWN), values)


def _wrapped(title: str, following: Sequence[Line]) -> tuple[str, str]:
    """A title and its id, which a narrow terminal moves below it; no id where none follows."""
    for line in following:
        if below := _ID_ALONE.match(line.text):
            return f"{title} {below['more']}", below["id"]
        if not re.match(r" {2}\S", line.text):
            break
        title = f"{title} {line.text.strip()}"
    return title, ""


def _advice(following: Sequence[Line]) -> str:
    """The fixes of the finding above these lines, without blanks and the first label."""
    found: list[str] = []
    for line in following:
        if _FINDING.match(line.text) or _VERDICT.match(line.text) or line.text.startswith(("<details>", "    see ")):
            break
        if found or _ADVICE.match(line.text):
            found.append(_MARKUP.sub("", line.text if found else _ADVICE.sub("", line.text)))
    return cut(without_blanks("".join(found)), _MOST_ADVICE)


def without_blanks(text: str) -> str:
    """The text without blanks and the escapes of Markdown, to compare it with one that was wrapped or escaped."""
    return re.sub(r"[\s\\]+", "", html.unescape(text))


# ------------------------------------------------------------------------------------------ own report facts

_CARD = re.compile(
    r"(?:(?P<count>\d{1,3}) × )?(?P<name>\S.*?)(?:, compute capability (?P<capability>\d+\.\d+))?"
    r"(?:, [\d.]+ [KMGT]?i?B)?(?P<pci> on the PCI bus| \(as stated\))?"
)
_DRIVER = re.compile(r"(?P<version>\d{3}(?:\.\d+)*)(?:, CUDA up to (?P<cuda>\d+\.\d+))?")
_PYTHON = re.compile(r"(?P<version>\d\.\d+\S*?)(?:, (?P<environment>[a-z]+))?(?:, (?P<executable>\S*[/\\].*))?")
_TENSORFLOW = re.compile(
    r"(?P<version>\d[^\s,]*)(?: \((?P<package>[\w-]+)\))?"
    r"(?P<build>, built for (?:the CPU|CUDA (?P<cuda>\S+), cuDNN (?P<cudnn>\S+?))(?:,.*)?)?(?:, not imported)?"
)
_Values = Iterator[tuple[str, Any]]


def with_report(facts: Facts) -> Facts:
    """The facts with those of the report among the lines, which its machine knew better than what stands around it."""
    messages = facts.messages.value if isinstance(facts.messages, Known) else ()
    for message in messages:
        if message.kind == "own-report":
            source = f"line {message.line}: the report"
            known = {path: Known(value, source) for path, value in _values(message, source) if value is not None}
            return with_facts(facts, known)
    return facts


def with_facts(facts: Facts, found: Mapping[str, Fact[Any]]) -> Facts:
    """Return the facts with these, by their paths: "host.os"."""
    parts: dict[str, dict[str, Fact[Any]]] = {}
    for path, fact in found.items():
        part, _, name = path.rpartition(".")
        parts.setdefault(part, {})[name] = fact
    changed = {part: structs.replace(getattr(facts, part), **fields) for part, fields in parts.items() if part}
    return structs.replace(facts, **changed, **parts.get("", {}))


def _values(message: Message, source: str) -> _Values:
    shown = message.values
    for layer, read in _LAYERS.items():
        if layer in shown:
            yield from read(shown[layer], source)
    yield "variables", {name[1:]: value for name, value in shown.items() if name.startswith("$")} or None
    listed = [(name[:-2], version) for name, version in shown.items() if name.endswith("==")]
    yield "python.packages", tuple(Package(*one, location=source) for one in listed) or None


def _machine(text: str, _source: str) -> _Values:
    system, *more = text.split(", ")
    if system.endswith(" container"):  # of a text that tells nothing else of its machine
        yield "host.container", system.removesuffix(" container")
        return
    os = next((one for one in ("windows", "macos") if system.lower().startswith(one)), "linux")
    machine = next((one for one in more if one in ("x86_64", "aarch64", "arm64", "AMD64")), None)
    yield "host.os", "wsl2" if "WSL2" in more else os
    yield "host.distribution", system
    yield "host.distribution_id", platform_hints.distribution(system)[0]
    yield "host.machine", machine
    yield "host.libc", next((one for one in more if one.startswith(("glibc ", "musl "))), None)
    yield "host.container", next((one.removesuffix(" container") for one in more if one.endswith(" container")), "none")
    is_arm = machine in ("aarch64", "arm64")
    yield (
        "python.wheel_platform",
        {
            "windows": "windows_amd64",
            "macos": "macos_arm64" if is_arm else "macos_x86_64",
            "linux": "linux_aarch64" if is_arm else "linux_x86_64",
        }[os],
    )


def _gpu(text: str, source: str) -> _Values:
    cards = [found for one in text.split("; ") if text != "none" and (found := _CARD.fullmatch(one))]
    listed = [one for one in cards if one["capability"] for _ in range(int(one["count"] or 1))]
    gpus = tuple(
        Gpu(index=n, name=Known(one["name"], source), compute_capability=Known(one["capability"], source))
        for n, one in enumerate(listed)
    )
    yield "gpus", gpus or None
    on_bus = tuple(PciGpu(address="", device_id="", name=one["name"]) for one in cards if one["pci"])
    yield "host.pci_gpus", on_bus if on_bus or text == "none" else None


def _driver(text: str, _source: str) -> _Values:
    if text == "none":
        yield "driver.libcuda", ()
        yield "driver.kernel_module_loaded", False
    elif found := _DRIVER.match(text):
        yield "driver.version", found["version"]
        yield "driver.cuda_supported", found["cuda"]


def _cuda(text: str, source: str) -> _Values:
    versions = re.findall(r"\d+\.\d+(?:\.\d+)?", text.rpartition("toolkit ")[2]) if "toolkit " in text else []
    if versions or text.endswith("no toolkit"):
        yield "cuda.toolkits", tuple(Toolkit(path=source, version=one, source=source, via="report") for one in versions)


def _cudnn(text: str, _source: str) -> _Values:
    version, _, state = text.partition(", ")
    yield "cudnn.runtime", version if state == "loaded" else None


def _python(text: str, _source: str) -> _Values:
    if found := _PYTHON.fullmatch(text):
        yield from ((f"python.{name}", value) for name, value in found.groupdict().items())


def _tensorflow(text: str, _source: str) -> _Values:
    if found := _TENSORFLOW.fullmatch(text):
        yield "tensorflow.version", found["version"]
        yield "tensorflow.distribution", found["package"] or "tensorflow"
        build = Build(bool(found["cuda"]), False, found["cuda"], found["cudnn"])
        yield "tensorflow.build", build if found["build"] else None


def _devices(text: str, _source: str) -> _Values:
    if found := re.fullmatch(r"\d+ GPUs?: (.+)", text):
        names = found[1].split(", ")
        yield "tensorflow.devices", tuple(TfDevice(f"/GPU:{n}", "GPU", name) for n, name in enumerate(names))
    elif text == "TensorFlow lists no GPU":
        yield "tensorflow.devices", ()


_LAYERS = {
    "Machine": _machine,
    "GPU": _gpu,
    "Driver": _driver,
    "CUDA": _cuda,
    "cuDNN": _cudnn,
    "Python": _python,
    "TensorFlow": _tensorflow,
    "Devices": _devices,
}
