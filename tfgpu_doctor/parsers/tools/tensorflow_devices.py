"""What the text shows of TensorFlow's list of devices: the GPUs in it, or that it has none.

>>> text = '''>>> print(tf.config.list_physical_devices('GPU'))
... 2026-11-21 14:04:18.703295: I tensorflow/tsl/cuda/cudart_stub.cc:28] Could not find cuda drivers on your machine
... []
... >>> tf.config.list_physical_devices()
... [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]'''
>>> seen = parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)])
>>> [(one.name, one.kind, one.line) for one in seen.devices], seen.no_gpu, seen.gpu_count
([('/physical_device:CPU:0', 'CPU', 5)], 5, 0)
>>> parse([Line(7, "Num GPUs Available:  2")]).gpu_count
2

Lists of several runs may stand in one text, so `no_gpu` and `some_gpu` can both be set; the later line is the later
run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.parsers.tools.tensorflow_build import BuildSeen
from tfgpu_doctor.parsers.tools.tensorflow_build import parse as build_of
from tfgpu_doctor.parsers.tools.tensorflow_gpus import GpuSeen, gpus
from tfgpu_doctor.records.facts import Gpu, Known, TfDevice, Unknown

LONGEST = 4000
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
_AVAILABLE = re.compile(
    r"(?:available devices are \[|available devices: |Registered devices: \[)(?P<devices>[^\]\"']{1,2000})",
    re.IGNORECASE,
)
_IS_GPU = re.compile(r"(?:^|[ /,])(?:device:)?gpu(?::\d|\b)", re.IGNORECASE)
_PROMPT = re.compile(r"\s*(?:>>>|In ?\[\d{0,4}\]:)\s*\S")
_NUMBER_LEFT = re.compile(
    r"^[\s#*>-]*(?:total |available )?(?:num(?:ber)?(?: of)? (?:physical |available |visible |detected )?gpus?"
    r"(?: ?(?:available|found|detected|devices|visible))?|gpus? (?:available|found|detected|count|num))"
    r"(?: (?:is|are))?\s*[:=]{1,2}\s*(?P<count>\d{1,3})\W*$",
    re.IGNORECASE,
)
_LIST_LEFT = re.compile(
    r"^[\s#*>-]*(?:is |are |the |list of |my |available |physical |logical |detected |visible |tensorflow |tf )*"
    r"gpus?(?: ?(?:device|list|name|model)s?)?(?: (?:is |are )?(?:available|found|detected|visible))?"
    r"(?: (?:in|by|to) (?:tensorflow|tf))?"
    r"\s*\??\s*:?\s*(?P<empty>\[\s*\])\s*$",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    r"^[\s#*>-]*(?:is (?:the |a )?)?(?:tensorflow |tf )?(?:gpu|cuda gpu)(?: is)?(?: (?:available|detected|used))"
    r"\s{0,9}\??\s{0,9}[:=]?\s{0,9}(?P<value>True|False|yes|no)\W*$"
    r"|^\s*GPU is (?P<words>NOT AVAILABLE|available)\s*$"
    r"|tensorflow version \(GPU\?\): \S{1,40} \((?P<transformers>True|False)\)",
    re.IGNORECASE,
)
_ANSWER_EMPTY = re.compile(r"\s*(?:Out ?\[\d{0,4}\]:\s*)?\[\s*\]\s*")
_ANSWER_WORD = re.compile(r"\s*(?:Out ?\[\d{0,4}\]:\s*)?(?P<value>True|False)\s*")
_ANSWER_NUMBER = re.compile(r"\s*(?:Out ?\[\d{0,4}\]:\s*)?(?P<count>\d{1,2})\s*")
_ANSWER_NO_NAME = re.compile(r"\s*(?:Out ?\[\d{0,4}\]:\s*)?(?:''|\"\")\s*")
_NO_NAME = re.compile(r"GPU device not found|Please install GPU version of TF")
_NAMED = re.compile(r"(?:Default GPU Device|Found GPU at): ?(?P<name>/\S{1,40}GPU:\d+)")


@dataclass(frozen=True)
class ListedDevice:
    """A device in a list that TensorFlow printed."""

    name: str  # "/physical_device:GPU:0"; "/device:GPU:0" and "/gpu:0" in lists of other calls
    kind: str  # "GPU", "CPU", "XLA_GPU", "DML"
    line: int


@dataclass(frozen=True)
class DevicesSeen:
    """All that the text shows of TensorFlow's devices and its build."""

    devices: tuple[ListedDevice, ...] = ()  # each name once
    no_gpu: int | None = None  # last line that shows a list, a count or an answer without any GPU
    some_gpu: int | None = None  # last line that shows one with a GPU
    gpu_count: int | None = None  # as of the later of the two
    gpus: tuple[GpuSeen, ...] = ()
    build: BuildSeen = field(default_factory=BuildSeen)


def parse(lines: Sequence[Line]) -> DevicesSeen:
    """Read lists, counts and answers, the log's descriptions of the GPUs, and what is printed of the build."""
    reader = _Reader()
    for place, line in enumerate(lines):
        if _worth_a_look(line.text):
            reader.read(line.text[:LONGEST], line.number, place)
    last = max(reader.counts.items(), default=(0, None))[1]
    return DevicesSeen(
        devices=tuple(reader.devices.values()),
        no_gpu=max((number for number, count in reader.counts.items() if count == 0), default=None),
        some_gpu=max((number for number, count in reader.counts.items() if count), default=None),
        gpu_count=last,
        gpus=gpus(lines),
        build=build_of(lines),
    )


def _worth_a_look(text: str) -> bool:
    """Whether a line may show anything; TensorFlow's log, most of a paste, seldom does."""
    if _LOGGED.match(text):
        return any(word in text for word in _SHOWS_ANYWHERE)
    return any(word in text for word in _WORDS) or (len(text) < 8 and (text.strip().isdecimal() or text.strip() == "]"))


class _Reader:
    """Goes through the lines and remembers which question is open."""

    def __init__(self) -> None:
        self.devices: dict[str, ListedDevice] = {}
        self.counts: dict[int, int] = {}  # line → how many GPUs it shows
        self._asked = -_ANSWER_WITHIN
        self._question = ""
        self._proto = ""
        self._protos: list[str] = []  # kinds of devices in the list of protocol buffers that is open

    def read(self, text: str, number: int, place: int) -> None:
        open_question = self._question if place - self._asked <= _ANSWER_WITHIN else ""
        count = self._listed(text, number)
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

    def _listed(self, text: str, number: int) -> int | None:
        """How many GPUs a printed list shows; None for a part of one, and for one of other devices."""
        matches = (*_LISTED.finditer(text), *_ATTRIBUTES.finditer(text))
        found = [ListedDevice(match["name"], match["kind"], number) for match in matches]
        if self._protos and text.strip() == "]":
            whole_list, self._protos = self._protos, []
            return whole_list.count("GPU")
        proto_type = self._of_proto(text, number)
        if proto_type:
            found.append(proto_type)
        elif named := _NAMED.search(text):
            found.append(ListedDevice(named["name"], "GPU", number))
        for device in found:
            self.devices.setdefault(device.name, device)
        cards = sum(device.kind == "GPU" for device in found)
        if available := _AVAILABLE.search(text):
            return len(_IS_GPU.findall(available["devices"]))
        whole = any(device.kind == "CPU" for device in found) and self._question != "others" and not proto_type
        return 0 if whole and not cards else cards or None

    def _of_proto(self, text: str, number: int) -> ListedDevice | None:
        """The device of a protocol buffer, whose name stands lines before its kind."""
        if proto := _PROTO.match(text):
            self._proto = proto["name"]
        elif self._proto and (kind := _PROTO_TYPE.match(text)):
            name, self._proto = self._proto, ""
            self._protos.append(kind["kind"])
            return ListedDevice(name, kind["kind"], number)
        return None


def _question(text: str) -> str:
    """What a command asks: "list", "count", "whether", "others", "name"; empty for none."""
    if _ASKS_FOR_GPUS.search(text):
        if _COUNTS.search(text):
            return "count"
        return "whether" if _ASKS_WHETHER.search(text) else "list"
    if _ASKS_WHETHER.search(text):
        return "whether"
    if _ASKS_FOR_CPUS.search(text):
        return "others"
    return "name" if _ASKS_NAME.search(text) else ""


def _answered(text: str, question: str) -> int | None:
    """How many GPUs the bare answer to the question shows."""
    if question == "list":
        return 0 if _ANSWER_EMPTY.fullmatch(text) else None
    if question == "whether":
        answer = _ANSWER_WORD.fullmatch(text)
        return int(answer["value"] == "True") if answer else None
    if question == "name":
        return 0 if _ANSWER_NO_NAME.fullmatch(text) else None
    if question == "others":
        return None
    number = _ANSWER_NUMBER.fullmatch(text)
    return int(number["count"]) if number else None


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
    return tuple(
        Gpu(
            index=place if one.index is None else one.index,
            name=_fact(one.name, one),
            pci_bus_id=_fact(one.pci_bus_id, one),
            compute_capability=_fact(one.compute_capability, one),
            memory_total=_fact(one.memory_total, one),
            memory_free=_fact(one.memory_free, one),
        )
        for place, one in enumerate(seen.gpus)
    )


def _fact(value: str | int | None, one: GpuSeen) -> Known[Any] | Unknown:
    if value is None:
        return Unknown("TensorFlow's log does not say")
    return Known(value, f"line {one.line}: TensorFlow's log")


def device_facts(seen: DevicesSeen) -> tuple[TfDevice, ...]:
    """The devices as TensorFlow lists them, with what the log says of each GPU."""
    by_index = {one.index: one for one in seen.gpus if one.index is not None}
    listed = {
        (device.kind, int(number)): device
        for device in seen.devices
        if (number := device.name.rpartition(":")[2]).isdecimal() and len(number) < 4
    }
    for one in seen.gpus:
        if one.created and one.index is not None:
            listed.setdefault(("GPU", one.index), ListedDevice(f"/physical_device:GPU:{one.index}", "GPU", one.line))
    return tuple(
        TfDevice(
            name=f"/physical_device:{kind}:{number}",
            kind=kind,
            device_name=by_index[number].name if kind == "GPU" and number in by_index else None,
            compute_capability=by_index[number].compute_capability if kind == "GPU" and number in by_index else None,
        )
        for kind, number in sorted(listed)
    )
