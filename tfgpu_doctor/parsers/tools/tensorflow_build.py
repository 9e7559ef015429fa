"""How TensorFlow was built, as tf.sysconfig.get_build_info() and tf.test.is_built_with_cuda() are pasted.

>>> text = '''>>> tf.sysconfig.get_build_info()
... OrderedDict([('cpu_compiler', 'D:/VisualStudio/2019/VC/Tools/MSVC/14.28.29333/bin/HostX64/x64/cl.exe'),
... ('cuda_compute_capabilities', ['sm_35', 'sm_50', 'sm_60', 'sm_70', 'sm_75', 'compute_80']),
... ('cuda_version', '64_112'), ('cudnn_version', '64_8'), ('is_cuda_build', True), ('is_rocm_build', False)])'''
>>> build = parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)])
>>> build.is_cuda_build, build.cuda_version, build.cudnn_version, build.compute_capabilities[-1], build.line
(True, '11.2', '8', 'compute_80', 3)
>>> parse([Line(1, "Built with CUDA?: False")]).is_cuda_build
False
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfgpu_doctor.parsers.text.lines import Line

LONGEST = 4000
_ANSWER_WITHIN = 80  # lines; TensorFlow may log a lot in between
_NEVER = -_ANSWER_WITHIN - 1

_WORTH_A_LOOK = re.compile(r"built|_build\b|cuda_version|cudnn_version|compute_capabilities|True|False|>>>|In \[")
_QUOTE = r"[\"']?"
_FLAG = re.compile(rf"{_QUOTE}is_(?P<kind>cuda|rocm|tensorrt)_build{_QUOTE}\s*[:,=]\s*(?P<value>True|False)")
_VERSION = re.compile(rf"{_QUOTE}(?P<kind>cuda|cudnn)_version{_QUOTE}\s*[:,=]\s*{_QUOTE}(?P<value>\d[\d._]{{0,12}})")
_CAPABILITIES = re.compile(rf"{_QUOTE}cuda_compute_capabilities{_QUOTE}\s*[:,=]\s*\[(?P<value>[^\[\]]{{0,1000}})")
_CAPABILITIES_BEGIN = re.compile(rf"{_QUOTE}cuda_compute_capabilities{_QUOTE}\s*[:,=]")
_LIST = 40  # lines over which pprint may spread a list
_CAPABILITY = re.compile(r"(?:sm|compute)_\d{2,3}[a-z]?")
_SAID = re.compile(
    r"(?<![a-z])buil[dt][ _]?with[ _](?:cuda|gpu)(?:[ _]support)?\W{0,6}(?:is)?\W{0,4}(?P<value>True|False)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\bis_built_with_(?P<kind>cuda|gpu_support)\b")
_ANSWER = re.compile(r"\s*(?:Out ?\[\d*\]:\s*)?(?P<value>True|False)\s*")
_PROMPT = re.compile(r"\s*(?:>>>|In ?\[\d*\]:)\s*\S")
_DLL = re.compile(r"64_(\d{1,2})(\d)$")


@dataclass(frozen=True)
class BuildSeen:
    """What the text says of the build; None for what it does not say."""

    is_cuda_build: bool | None = None
    is_rocm_build: bool | None = None
    cuda_version: str | None = None
    cudnn_version: str | None = None
    compute_capabilities: tuple[str, ...] = ()
    line: int = 0  # of the first value; 0 when there is none


def parse(lines: Sequence[Line]) -> BuildSeen:
    """The first answer to each question."""
    found = BuildSeen()
    asked = _NEVER
    for place, line in enumerate(lines):
        if not _WORTH_A_LOOK.search(line.text, 0, LONGEST):
            continue
        text = line.text[:LONGEST]
        answer = _ANSWER.fullmatch(text) if place - asked <= _ANSWER_WITHIN else None
        if answer and found.is_cuda_build is None:
            found = replace(found, is_cuda_build=answer["value"] == "True", line=found.line or line.number)
        if _ASKS.search(text):
            asked = place
        elif answer or _PROMPT.match(text):
            asked = _NEVER
        if _CAPABILITIES_BEGIN.search(text):
            text += " ".join(following.text.strip()[:200] for following in lines[place + 1 : place + 1 + _LIST])
        values = _values(text, found)
        if values:
            found = replace(found, **values, line=found.line or line.number)  # type: ignore[arg-type]
    return found


def _values(text: str, known: BuildSeen) -> dict[str, object]:
    """What a line adds to what is known."""
    found: dict[str, object] = {}
    for match in _FLAG.finditer(text):
        found.setdefault(f"is_{match['kind']}_build", match["value"] == "True")
    for match in _VERSION.finditer(text):
        found.setdefault(f"{match['kind']}_version", library_version(match["value"]))
    if listed := _CAPABILITIES.search(text):
        found["compute_capabilities"] = tuple(_CAPABILITY.findall(listed["value"]))
    if built := _SAID.search(text):
        found.setdefault("is_cuda_build", built["value"].lower() == "true")
    return {key: value for key, value in found.items() if getattr(known, key, 0) in (None, ())}


def library_version(text: str) -> str:
    """On Windows the build names its libraries: "64_112" is CUDA 11.2, "64_8" cuDNN 8."""
    if dll := _DLL.match(text):
        return f"{dll[1]}.{dll[2]}"
    return text.removeprefix("64_").strip("._")
