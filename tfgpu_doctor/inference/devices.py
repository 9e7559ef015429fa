"""TensorFlow's build and devices in a pasted text: as it lists them, or as somebody puts it in a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable

from tfgpu_doctor.inference.parsed_text import ParsedText
from tfgpu_doctor.parsers.text import prose
from tfgpu_doctor.parsers.tools import tensorflow_devices
from tfgpu_doctor.records.facts import NOT_IN_TEXT, Build, Fact, Known, TfDevice, lists_gpu

TF_LOG = re.compile(r"tensorflow/|external/local_(?:tsl|xla)/|\b[EWI]0000 00:00:\d+\.\d+ +\d+ \w+\.cc:")
_OF_A_PROGRAM = re.compile(
    r"task manager|^\d{4}-\d\d-|\b[EWI]\d{4} |\.cc:\d|\.py:\d|\w(?:Error|Warning): |^ *(?:\||File )"
)
_TF_INSTALLED = re.compile(
    r"\b(?:install|add)\b[^|;]{0,80}\btensorflow\b|^\s*tensorflow(?:-gpu)?[= ]+\d", re.IGNORECASE
)
_BARE_LIST = re.compile(r"^\[\]$")


def build(text: ParsedText) -> Fact[Build]:
    """What tf.sysconfig.get_build_info() prints."""
    built = text.tensorflow.build
    if built.is_cuda_build is None:
        return NOT_IN_TEXT
    found = Build(
        is_cuda_build=built.is_cuda_build,
        is_rocm_build=bool(built.is_rocm_build),
        cuda_version=built.cuda_version,
        cudnn_version=built.cudnn_version,
        compute_capabilities=built.compute_capabilities,
    )
    return Known(found, f"line {built.line}: TensorFlow's build")


def devices(text: ParsedText) -> Fact[tuple[TfDevice, ...]]:
    """What TensorFlow lists, or what somebody says that it does not list."""
    listed = tensorflow_devices.device_facts(text.tensorflow)
    source = "TensorFlow's list of devices"
    if lists_gpu(listed) and text.tensorflow.gpu_count != 0:
        return Known(listed, source)
    if text.tensorflow.gpu_count:
        counted = tuple(
            TfDevice(name=f"/physical_device:GPU:{n}", kind="GPU") for n in range(min(text.tensorflow.gpu_count, 64))
        )
        return Known(counted, f"line {text.tensorflow.some_gpu}: {source}")
    if text.tensorflow.gpu_count == 0:
        return Known(tuple(d for d in listed if d.kind != "GPU"), f"line {text.tensorflow.no_gpu}: {source}")
    if said := first_said(text, prose.no_gpu):
        return Known((), f"line {said}, as stated", "stated")
    about_tensorflow = text.find(TF_LOG) or text.find(_TF_INSTALLED)
    if about_tensorflow and (bare := text.find(_BARE_LIST)):
        return Known((), f"line {bare[1]}: an empty list", "inferred")
    return NOT_IN_TEXT


def first_said(text: ParsedText, reader: Callable[[str], object]) -> int | None:
    """The first line in which a reader finds something, and that no program printed."""
    said = (line.number for line in text.lines if reader(line.text) and not _OF_A_PROGRAM.search(line.text))
    return next(said, None)
