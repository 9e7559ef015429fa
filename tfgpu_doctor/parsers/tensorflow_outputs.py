"""How TensorFlow was built, as tf.sysconfig.get_build_info() and tf.test.is_built_with_cuda() are pasted.

>>> parse([Line(1, "Built with CUDA?: False")]).build.is_cuda_build
False

The GPUs that TensorFlow names in its log, from 0.x to today.

What the text shows of TensorFlow's list of devices: the GPUs in it, or that it has none.

>>> parse([Line(7, "Num GPUs Available:  2")]).gpu_count
2

Lists of several runs may stand in one text, so `no_gpu` and `some_gpu` can both be set; the later line is the later
run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any

from tfgpu_doctor.facts.facts import Build, Gpu, Known, TfDevice, Unknown
from tfgpu_doctor.parsers.lines import Line, any_case
from tfgpu_doctor.parsers.nvidia_smi import bus_id

# ------------------------------------------------------------------------------------------ tensorflow build

LONGEST = 4000
_BUILD_WITHIN = 80  # lines; TensorFlow may log a lot in between
_NEVER = -_BUILD_WITHIN - 1

_BUILD_WORDS = re.compile(r"built|_build\b|cuda_version|cudnn_version|compute_capabilities|True|False|>>>|In \[")
_QUOTE = r"[\"']?"
_FLAG = re.compile(rf"{_QUOTE}is_(?P<kind>cuda|rocm)_build{_QUOTE}\s*[:,=]\s*(?P<value>True|False)")
_VERSION = re.compile(rf"{_QUOTE}(?P<kind>cuda|cudnn)_version{_QUOTE}\s*[:,=]\s*{_QUOTE}(?P<value>\d[\d._]{{0,12}})")
_CAPABILITIES = re.compile(rf"{_QUOTE}cuda_compute_capabilities{_QUOTE}\s*[:,=]\s*\[(?P<value>[^\[\]]{{0,1000}})")
_CAPABILITIES_BEGIN = re.compile(rf"{_QUOTE}cuda_compute_capabilities{_QUOTE}\s*[:,=]")
_LIST = 40  # lines over which pprint may spread a list
_CAPABILITY = re.compile(r"(?:sm|compute)_\d{2,3}[a-z]?")
_SAID = any_case(
    r"(?<![a-z])buil[dt][ _]?with[ _](?:cuda|gpu)(?:[ _]support)?\W{0,6}(?:is)?\W{0,4}(?P<value>True|False)\b"
)
_ASKS = re.compile(r"\bis_built_with_(?P<kind>cuda|gpu_support)\b")
_ANSWER = re.compile(  # alone, or behind the release and before another one
    r"\s*(?:Out ?\[\d*\]:\s*)?(?:[12]\.\d{1,2}\.\d{1,2}\S{0,12} )?(?P<value>True|False)(?: True| False| \[.*)?\s*"
)
_BUILD_PROMPT = re.compile(r"\s*(?:>>>|In ?\[\d*\]:)\s*\S")
_DLL = re.compile(r"64_(\d{1,2})(\d)$")


def _build(lines: Sequence[Line]) -> tuple[Build | None, int]:
    """The first answer to each question, and the line of the first."""
    found: dict[str, Any] = {}
    first, asked = 0, _NEVER
    for place, line in enumerate(lines):
        if not _BUILD_WORDS.search(line.text, 0, LONGEST):
            continue
        text = line.text[:LONGEST]
        answer = _ANSWER.fullmatch(text) if place - asked <= _BUILD_WITHIN else None
        if _ASKS.search(text):
            asked = place
        elif answer or _BUILD_PROMPT.match(text):
            asked = _NEVER
        if _CAPABILITIES_BEGIN.search(text):
            text += " ".join(following.text.strip()[:200] for following in lines[place + 1 : place + 1 + _LIST])
        values = dict(_values(text, answer))
        found = {**values, **found}
        first = first or (line.number if values else 0)
    return (Build(**found) if "is_cuda_build" in found else None), first


def _values(text: str, answer: re.Match[str] | None) -> Iterator[tuple[str, Any]]:
    """What a line tells; of the same key the last counts."""
    if built := _SAID.search(text):
        yield "is_cuda_build", built["value"].lower() == "true"
    for match in reversed([*_FLAG.finditer(text)]):
        yield f"is_{match['kind']}_build", match["value"] == "True"
    for match in reversed([*_VERSION.finditer(text)]):
        yield f"{match['kind']}_version", library_version(match["value"])
    if (listed := _CAPABILITIES.search(text)) and (names := _CAPABILITY.findall(listed["value"])):
        yield "compute_capabilities", tuple(names)
    if answer:
        yield "is_cuda_build", answer["value"] == "True"


def library_version(text: str) -> str:
    """On Windows the build names its libraries: "64_112" is CUDA 11.2, "64_8" cuDNN 8."""
    if dll := _DLL.match(text):
        return f"{dll[1]}.{dll[2]}"
    return text.removeprefix("64_").strip("._")


# ------------------------------------------------------------------------------------------ tensorflow gpus

_LONGEST_GPU_LINE = 1000  # characters of a line that are looked at
_BLOCK = 5  # lines that follow "Found device 0 with properties:" at most

_GPU_WORDS = re.compile(
    r"name: |pciBusID|[tT]otal ?[mM]emory|[fF]ree ?[mM]emory|deviceMemory|major: |device \(|Found dev"
)
_UNITS = {"G": 2**30, "M": 2**20, "K": 2**10}

_FOUND = re.compile(r"Found device (\d{1,3}) with properties")
_NAME_ALONE = re.compile(r"\s*name: (?P<name>\S.{0,80}?)\s*$")
_NAME_MAJOR = re.compile(r"\bname: (?P<name>\S.{0,80}?) major: (?P<major>\d{1,2}) minor: (?P<minor>\d)")
_MAJOR_ALONE = re.compile(r"\s*major: (?P<major>\d{1,2}) minor: (?P<minor>\d)")
_BUS_NAME = re.compile(
    r"(?:pciBusID: (?P<bus>\S{1,40}) )?\bname: (?P<name>\S.{0,80}?) computeCapability: (?P<capability>\d{1,2}\.\d)"
)
_BUS_ALONE = re.compile(r"\s*pciBusID:? (?P<bus>[0-9A-Fa-f]{2,8}:[0-9A-Fa-f:.]{4,12})")
_TOTAL = re.compile(r"(?:[tT]otal ?[mM]emory|deviceMemorySize): (\d{1,6}\.?\d{0,2}) ?([GMK])iB")
_CORES = re.compile(r"\bcoreCount: (\d{1,3})\b")
_FREE = re.compile(r"[fF]ree ?[mM]emory: (\d{1,6}\.?\d{0,2}) ?([GMK])iB")
_DESCRIBED = re.compile(
    r"\bdevice: (?P<index>\d{1,3}), name: (?P<name>[^,]{1,80}), pci bus id: (?P<bus>[^\s,)\"']{1,40})"
    r"(?:, compute capability: (?P<capability>\d{1,2}\.\d))?"
)
_CREATED = re.compile(
    r"Created (?:TensorFlow )?device \(?/job:\S{0,60}?GPU:(?P<index>\d{1,2})\)? with \d+ MB memory.{0,40}"
    r"name: (?P<name>[^,]{3,60})"
)
_DESCRIPTION_BEGINS = re.compile(r"\bdevice: \d{1,3}, name: ")
_XLA = re.compile(
    r"StreamExecutor(?: \S{1,20})? device \((?P<index>\d{1,3})\): (?P<name>[^,]{1,80}), "
    r"Compute Capability (?P<capability>\d{1,2}\.\d)"
)


@dataclass(frozen=True)
class GpuSeen:
    """A GPU as TensorFlow's log describes it; None for what it does not say."""

    line: int  # where its name stands first
    index: int | None = None  # TensorFlow's number, which CUDA_VISIBLE_DEVICES shifts
    name: str | None = None
    compute_capability: str | None = None
    pci_bus_id: str | None = None  # in the form of sysfs
    memory_total: int | None = None
    memory_free: int | None = None
    multiprocessors: int | None = None
    created: bool = False  # TensorFlow made a device of it


def _gpus(lines: Sequence[Line]) -> tuple[GpuSeen, ...]:
    """Every GPU once, with all that the log says of it, in the order of their first mention."""
    found: list[GpuSeen] = []
    for one in filter(attrgetter("name"), _mentions(lines)):
        place = next((place for place, known in enumerate(found) if _same(known, one)), None)
        if place is None:
            found.append(one)
        else:
            told = {
                key: value for key, value in asdict(found[place]).items() if value is not None and value is not False
            }
            found[place] = replace(one, **told)
    return tuple(found)


def _mentions(lines: Sequence[Line]) -> Iterator[GpuSeen]:
    block: GpuSeen | None = None  # the GPU that the lines describe one value after the other
    left = 0  # lines that may still belong to it
    for place, line in enumerate(lines):
        left -= 1
        if not _GPU_WORDS.search(line.text, 0, _LONGEST_GPU_LINE):
            continue
        text = line.text[:_LONGEST_GPU_LINE]
        header = _FOUND.search(text)
        row = None if header else _row(text, line.number, block if left >= 0 else None)
        described = [] if header or row else list(_described(text, lines, place))
        if block and (header or described or (row and left < 0)):
            yield block
            block, left = None, -1
        if header:
            block, left = GpuSeen(line.number, index=int(header[1])), _BLOCK
        elif row:
            block, left = row, max(left, 3)
        yield from described
    if block:
        yield block


def _row(text: str, number: int, block: GpuSeen | None) -> GpuSeen | None:
    """The block with what a line of it adds; None for a line of no block."""
    alone = (_MAJOR_ALONE, _BUS_ALONE, *(() if block.name else (_NAME_ALONE,))) if block else ()
    matches = (_BUS_NAME.search(text), _NAME_MAJOR.search(text), *(pattern.match(text) for pattern in alone))
    known = next(filter(None, matches), None)
    sizes = {"memory_total": _bytes(_TOTAL.search(text)), "memory_free": _bytes(_FREE.search(text))}
    sizes["multiprocessors"] = next(map(int, _CORES.findall(text)), None)
    if not (known or (block and any(sizes.values()))):
        return None
    values = known.groupdict("") if known else {}
    major, bus = values.get("major"), values.get("bus", "").strip("<>")
    said: dict[str, Any] = {
        "line": number if values.get("name") else None,
        "name": values.get("name"),
        "compute_capability": values.get("capability") or (f"{major}.{values['minor']}" if major else None),
        "pci_bus_id": bus_id(bus) if bus.count(":") == 2 else None,
        **sizes,
    }
    return replace(block or GpuSeen(number), **{key: value for key, value in said.items() if value})


def _described(text: str, lines: Sequence[Line], place: int) -> Iterator[GpuSeen]:
    """GPUs out of "device: 0, name: ..., pci bus id: ...", which a paste may have wrapped."""
    if _DESCRIPTION_BEGINS.search(text) and not _DESCRIBED.search(text) and place + 1 < len(lines):
        text = f"{text.rstrip()} {lines[place + 1].text[:LONGEST].lstrip()}"
    found = [*_DESCRIBED.finditer(text), *_XLA.finditer(text)]
    if not found and (cut := _CREATED.search(text)):  # the rest of the line is missing
        yield GpuSeen(lines[place].number, index=int(cut["index"]), name=cut["name"].strip(), created=True)
    for match in found:
        values = match.groupdict()
        bus = (values.get("bus") or "").strip("<>")
        yield GpuSeen(
            lines[place].number,
            index=int(values["index"]),
            name=values["name"].strip(),
            compute_capability=values["capability"],
            pci_bus_id=bus_id(bus) if bus.count(":") == 2 else None,
            created=bool(bus) and "gnoring" not in text,  # "Ignoring visible gpu device (device: 0, ..."
        )


def _bytes(match: re.Match[str] | None) -> int | None:
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def _same(known: GpuSeen, new: GpuSeen) -> bool:
    """Whether two mentions mean one GPU: the bus id decides, else TensorFlow's number and the name."""
    if known.pci_bus_id and new.pci_bus_id:
        return known.pci_bus_id == new.pci_bus_id
    return known.name == new.name and (known.index == new.index or None in (known.index, new.index))


# ------------------------------------------------------------------------------------------ tensorflow devices

_ANSWER_WITHIN = 120  # lines; TensorFlow may log a lot between question and answer

_WORDS = ("evice", "GPU", "gpu", "True", "False", "[]", "[ ]", ">>>", "In [", "''", '""')
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d |[IWEF]\d{4} \d\d:")
_SHOWS_ANYWHERE = ("available devices", "Registered devices", "Device(name=")
_LISTED = re.compile(
    r"(?:Physical|Logical)Device\(name=['\"](?P<name>[^'\"]{1,80})['\"],\s*device_type=['\"](?P<kind>\w{1,20})['\"]"
)
# of a session of TensorFlow 1
_ATTRIBUTES = re.compile(r"_DeviceAttributes\((?P<name>/[^\s,()]{1,80}), (?P<kind>\w{1,20}),")
_PROTO = re.compile(r"^[\s\[,]*(?:\d{1,3}/\d{1,3}: )?name: \"(?P<name>/[^\"]{1,80})\"")
_PROTO_TYPE = re.compile(r"^\s*device_type: \"(?P<kind>\w{1,20})\"")
_ASKS_FOR_GPUS = re.compile(
    r"list_(?:physical|logical)_devices\(\s*(?:device_type\s*=\s*)?['\"]GPU['\"]|get_available_gpus\(\s*\)|_get_available_gpus"
    r"|get_visible_devices\(\s*['\"]GPU['\"]"
)
_COUNTS = re.compile(r"\blen\(\s*(?:tf|tensorflow|config|gpus)")
_ASKS_WHETHER = re.compile(r"\bis_gpu_available\(|bool\(tf\.config\.list_physical_devices")
_ASKS_NAME = re.compile(r"\bgpu_device_name\(")
_ASKS_FOR_CPUS = re.compile(r"list_(?:physical|logical)_devices\(\s*(?:device_type\s*=\s*)?['\"](?!GPU)")
_AVAILABLE = any_case(
    r"(?:available devices (?:are )?\[|available devices: |Registered devices: \[)(?P<devices>[^\]\"']{1,2000})"
)
_IS_GPU = re.compile(r"(?:^|[ /,])(?:device:)?gpu(?::\d|\b)", re.IGNORECASE)
_PROMPT = re.compile(r"\s*(?:>>>|In ?\[\d{0,4}\]:)\s*\S")
_NUMBER_LEFT = any_case(
    r"^[\s#*>-]*(?:total |available )?(?:num(?:ber)?(?: of)? (?:physical |available |visible |detected )?gpus?"
    r"(?: ?(?:available|found|detected|devices|visible))?|gpus? (?:available|found|detected|count|num))"
    r"(?: (?:is|are))?\s*[:=]{1,2}\s*(?P<count>\d{1,3})\W*$"
)
_LIST_LEFT = any_case(
    r"^[\s#*>-]*(?:is |are |the |list of |my |available |physical |logical |detected |visible |tensorflow "
    r"|tf )*gpus?(?: ?(?:device|list|name|model)s?)?(?: (?:is |are )?(?:available|found|detected|visible))?(?: (?:in"
    r"|by|to) (?:tensorflow|tf))?\s*\??\s*:?\s*(?P<empty>\[\s*\])\s*$"
)
_YES_NO = any_case(
    r"^[\s#*>-]*(?:is (?:the |a )?)?(?:tensorflow |tf )?(?:gpu|cuda gpu)(?: is)?(?: (?:available|detected"
    r"|used))\s{0,9}\??\s{0,9}[:=]?\s{0,9}(?P<value>True|False|yes|no)\W*$|^\s*GPU is (?P<words>NOT AVAILABLE"
    r"|available)\s*$|tensorflow version \(GPU\?\): \S{1,40} \((?P<transformers>True|False)\)"
)
_BARE = re.compile(  # behind the release, and whether it was built with CUDA, where one command printed all
    r"\s*(?:Out ?\[\d{0,4}\]:\s*)?(?:[12]\.\d{1,2}\.\d{1,2}\S{0,12} (?:True |False )?)?"
    r"(?:(?P<list>\[\s*\])|(?P<whether>True|False)|(?P<count>\d{1,2})|(?P<name>''|\"\"))\s*"
)
_NO_NAME = re.compile(r"^(?!.*\braise ).*GPU device not found")  # printed, and not what a program would print
_NAMED = re.compile(r"(?:Default GPU Device|Found GPU at): ?(?P<name>/\S{1,40}GPU:\d+)")


@dataclass(frozen=True)
class DevicesSeen:
    """All that the text shows of TensorFlow's devices and its build."""

    devices: dict[str, str]  # name ("/physical_device:GPU:0", "/gpu:0") → kind ("GPU", "CPU", "XLA_GPU", "DML")
    no_gpu: int | None = None  # last line that shows a list, a count or an answer without any GPU
    some_gpu: int | None = None  # last line that shows one with a GPU
    gpu_count: int | None = None  # as of the later of the two
    gpus: tuple[GpuSeen, ...] = ()
    build: Build | None = None
    build_line: int = 0


def parse(lines: Sequence[Line]) -> DevicesSeen:
    """Read lists, counts and answers, the log's descriptions of the GPUs, and what is printed of the build."""
    reader = _Reader()
    for place, line in enumerate(lines):
        if _worth_a_look(line.text):
            reader.read(line.text[:LONGEST], line.number, place)
    build, build_line = _build(lines)
    return DevicesSeen(
        devices=reader.devices,
        no_gpu=max((number for number, count in reader.counts.items() if count == 0), default=None),
        some_gpu=max((number for number, count in reader.counts.items() if count), default=None),
        gpu_count=max(reader.counts.items(), default=(0, None))[1],
        gpus=_gpus(lines),
        build=build,
        build_line=build_line,
    )


def _worth_a_look(text: str) -> bool:
    """Whether a line may show anything; TensorFlow's log, most of a paste, seldom does."""
    if _LOGGED.match(text):
        return any(word in text for word in _SHOWS_ANYWHERE)
    return any(word in text for word in _WORDS) or (len(text) < 8 and (text.strip().isdecimal() or text.strip() == "]"))


class _Reader:
    """Goes through the lines and remembers which question is open."""

    def __init__(self) -> None:
        self.devices: dict[str, str] = {}
        self.counts: dict[int, int] = {}  # line → how many GPUs it shows
        self._asked = -_ANSWER_WITHIN
        self._question = ""
        self._proto = ""
        self._protos: list[str] = []  # kinds of devices in the list of protocol buffers that is open

    def read(self, text: str, number: int, place: int) -> None:
        open_question = self._question if place - self._asked <= _ANSWER_WITHIN else ""
        count = self._listed(text)
        if count is None and not _PROMPT.match(text):
            count = _stated(text)
        if count is None and open_question:
            count = _answered(text, open_question)
        if count is not None:
            self.counts[number] = count
            self._question = ""
        if question := _question(text):
            self._asked, self._question = place, question
        elif _PROMPT.match(text) and not text.rstrip().endswith(":"):
            self._question = ""

    def _listed(self, text: str) -> int | None:
        """How many GPUs a printed list shows; None for a part of one, and for one of other devices."""
        found = {match["name"]: match["kind"] for match in (*_LISTED.finditer(text), *_ATTRIBUTES.finditer(text))}
        whole = "CPU" in found.values() and self._question != "others"
        if self._protos and text.strip() == "]":
            kinds, self._protos = self._protos, []
            return kinds.count("GPU")
        if proto := _PROTO.match(text):  # of a protocol buffer, whose name stands lines before its kind
            self._proto = proto["name"]
        elif self._proto and (kind := _PROTO_TYPE.match(text)):
            found[self._proto], self._proto = kind["kind"], ""
            self._protos.append(kind["kind"])
        elif named := _NAMED.search(text):
            found[named["name"]] = "GPU"
        self.devices = {**found, **self.devices}
        if available := _AVAILABLE.search(text):
            return len(_IS_GPU.findall(available["devices"]))
        cards = [*found.values()].count("GPU")
        return 0 if whole and not cards else cards or None


def _question(text: str) -> str:
    """What a command asks: "list", "count", "whether", "others", "name"; empty for none."""
    if _ASKS_FOR_GPUS.search(text) and _COUNTS.search(text):
        return "count"
    asked = (("whether", _ASKS_WHETHER), ("list", _ASKS_FOR_GPUS), ("others", _ASKS_FOR_CPUS), ("name", _ASKS_NAME))
    return next((name for name, pattern in asked if pattern.search(text)), "")


def _answered(text: str, question: str) -> int | None:
    """How many GPUs the bare answer to the question shows."""
    answer = _BARE.fullmatch(text)
    if answer is None or question != answer.lastgroup:
        return None
    return int(answer["whether"] == "True") if question == "whether" else int(answer["count"] or 0)


def _stated(text: str) -> int | None:
    """How many GPUs a line says in words; 1 stands for "some"."""
    if number := _NUMBER_LEFT.match(text):
        return int(number["count"])
    if _LIST_LEFT.match(text) or _NO_NAME.search(text):
        return 0
    if answer := _YES_NO.search(text):
        word = answer["value"] or answer["words"] or answer["transformers"]
        return int(word.lower() in ("true", "yes", "available"))
    return None


def gpu_facts(seen: DevicesSeen) -> tuple[Gpu, ...]:
    """The GPUs of the log as the probes give them; a GPU without a number gets its place in the list."""
    names = ("name", "pci_bus_id", "compute_capability", "memory_total", "memory_free", "multiprocessors")
    return tuple(
        Gpu(
            index=place if one.index is None else one.index,
            **{
                name: Unknown("TensorFlow's log does not say")
                if (value := getattr(one, name)) is None
                else Known(value, f"line {one.line}: TensorFlow's log")
                for name in names
            },
        )
        for place, one in enumerate(seen.gpus)
    )


def device_facts(seen: DevicesSeen) -> tuple[TfDevice, ...]:
    """The devices as TensorFlow lists them, with what the log says of each GPU."""
    by_index = {one.index: one for one in seen.gpus if one.index is not None}
    numbers = ((kind, name.rpartition(":")[2]) for name, kind in seen.devices.items())
    listed = {(kind, int(number)) for kind, number in numbers if number.isdecimal() and len(number) < 4}
    listed |= {("GPU", one.index) for one in seen.gpus if one.created and one.index is not None}
    found = []
    for kind, index in sorted(listed):
        gpu = by_index.get(index) if kind == "GPU" else None
        model, capability = (gpu.name, gpu.compute_capability) if gpu else (None, None)
        found.append(TfDevice(f"/physical_device:{kind}:{index}", kind, model, capability))
    return tuple(found)
