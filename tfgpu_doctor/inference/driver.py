"""The driver and the GPUs of a pasted text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from tfgpu_doctor.inference.parsed_text import ParsedText, fact_from, line_of
from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.parsers.tools import nvidia_smi_csv, tensorflow_devices
from tfgpu_doctor.parsers.tools.cuda_results import CURESULTS
from tfgpu_doctor.records.facts import (
    NOT_IN_TEXT,
    CallResult,
    Driver,
    Fact,
    Gpu,
    Known,
    LibraryFile,
    Message,
    SmiResult,
    Unknown,
)

_APART = re.compile(r"\bindex\b")
_LISTED = re.compile(
    r"\s*(?:GPU (?P<index>\d{1,2}): (?P<name>[^()]{1,80}?)|(?P<mig>MIG) \S{1,20} +Device +\d+:) "
    r"\(UUID: (?P<uuid>[\w/-]{1,80})\)"
)


def driver(text: ParsedText) -> Driver:
    """What nvidia-smi, TensorFlow's diagnostics and the kernel say of the driver."""
    kernel = next((m for m in text.messages_of("kernel-version")), None)
    module = (kernel.values.get("version") or kernel.values.get("module")) if kernel else None
    running = fact_from(module is not None or None, kernel) if kernel else NOT_IN_TEXT
    if stopped := text.messages_of("kernel-driver-not-running", "smi-no-driver"):
        running = Known(False, line_of(stopped[0])) if module is None else running
    return Driver(
        version=_driver_version(text, module, kernel),
        cuda_supported=Known(text.smi.cuda_version, text.smi_at)
        if text.smi.cuda_version
        else text.said_fact("supported"),
        kernel_module=fact_from(_trimmed(module), kernel) if module else NOT_IN_TEXT,
        kernel_module_loaded=running,
        libcuda=_libcuda(text),
        nvml_init=_nvml(text),
        cuda_init=_cuinit(text),
        nvidia_smi=_smi_result(text),
        xid_events=fact_from(tuple(m.text for m in text.messages_of("xid")) or None, *text.messages_of("xid")[:1]),
    )


def _driver_version(text: ParsedText, module: str | None, kernel: Message | None) -> Fact[str]:
    if text.smi.driver_version:
        return Known(text.smi.driver_version, text.smi_at)
    if module and kernel:
        return Known(_trimmed(module) or module, line_of(kernel))
    stated = text.stated_fact("driver")
    return text.said_fact("driver") if isinstance(stated, Unknown) else stated


def _libcuda(text: ParsedText) -> Fact[tuple[LibraryFile, ...]]:
    for message in text.messages_of("library-not-opened", "loader-error", "libcuda-not-loaded"):
        name = message.values.get("library", "")
        if message.kind == "libcuda-not-loaded" or re.search(r"libcuda\.so|nvcuda\.dll", name):
            return Known((), line_of(message))
    version = next(iter(text.messages_of("libcuda-version")), None)
    if version and text.hints.os != "wsl2":
        path = "a package of the driver" if "package" in version.values else "libcuda.so.1"
        file = LibraryFile(path=path, version=_trimmed(version.values.get("version") or version.values["linked"]))
        return Known((file,), line_of(version))
    return NOT_IN_TEXT


# the texts of the runtime API's errors, and their numbers in the driver API (CUDA's driver_types.h and cuda.h)
_STATUS = {
    "initialization error": "3",
    "system not yet initialized": "802",
    "OS call failed": "304",
    "unknown error": "999",
}
_HOST = re.compile(r"\bhost\b")
# what somebody says of nvidia-smi other than that it works
_SMI_FAILS = re.compile(
    r"\b(?:fail|error|could|unable|mismatch|no devices|if|try|please|what|cannot|missing|not?|says)\b|n[o']t\b"
    r"|\[|^\s*[$#>(]",
    re.IGNORECASE,
)
_NO_HEADER = re.compile(r"--query-gpu[= ](?P<columns>[\w.,]{2,400})(?=.*noheader)")
_OF_SMI = ("smi-no-driver", "smi-not-found", "smi-no-devices", "smi-no-libcuda", "nvml-mismatch")
_OF_NVML = re.compile(r"driver/library version mismatch|lib_rm_version_mismatch", re.IGNORECASE)


def _nvml(text: ParsedText) -> Fact[CallResult]:
    for message in text.messages_of("nvml-mismatch"):
        if _OF_NVML.search(message.text):  # CUDA has a sentence of its own
            return Known(CallResult(code=18, message=message.text), line_of(message))
    return NOT_IN_TEXT


def _cuinit(text: ParsedText) -> Fact[CallResult]:
    for message in text.messages_of("cuinit-failed"):
        values = message.values
        number = (
            values.get("code") or values.get("result") or values.get("number") or _STATUS.get(values.get("status", ""))
        )
        code = CURESULTS.get(values.get("name", ""), int(number) if number else None)
        if code is not None:
            words = next((n for n, c in CURESULTS.items() if c == code), None)
            return Known(CallResult(code=code, message=message.text, name=words), line_of(message))
    if stub := text.messages_of("stub-library"):  # cudaErrorStubLibrary and CUDA_ERROR_STUB_LIBRARY are both 34
        return Known(CallResult(code=34, message=stub[0].text), line_of(stub[0]))
    if compat := text.messages_of("forward-compatibility"):
        return Known(CallResult(code=804, message=compat[0].text), line_of(compat[0]))
    return NOT_IN_TEXT


def _smi_result(text: ParsedText) -> Fact[SmiResult]:
    if text.smi_line is None and not text.smi.failure:
        # outside of a container it tells nothing of the inside
        patterns = (_SMI_FAILS, _HOST) if text.hints.container else (_SMI_FAILS,)
        clauses = text.clauses("nvidia-smi")
        fine = (line for line, clause in clauses if not any(one.search(clause) for one in patterns))
        said = next(fine, None)
        works = said is not None and not text.messages_of(*_OF_SMI)
        return Known(SmiResult(exit_code=0, output=""), f"line {said}, as stated", "stated") if works else NOT_IN_TEXT
    result = SmiResult(
        exit_code=1 if text.smi.failure else 0,
        output=text.smi.failure or "",
        driver_version=text.smi.driver_version,
        cuda_version=text.smi.cuda_version,
    )
    return Known(result, text.smi_at)


def gpus(text: ParsedText) -> Fact[Any]:
    """The GPUs of nvidia-smi's table, else those of TensorFlow's log; what is merely stated is no GPU seen."""
    if text.smi.gpus:
        return Known(text.smi.gpus, text.smi_at)
    if queried := _queried_gpus(text):
        return queried
    if listed := tuple(_listed_gpus(text)):
        return Known(listed, "nvidia-smi -L")
    logged = tensorflow_devices.gpu_facts(text.tensorflow)
    if logged:
        return Known(logged, f"line {text.tensorflow.gpus[0].line}: TensorFlow's log")
    return _compiled_for(text)


def _compiled_for(text: ParsedText) -> Fact[Any]:
    """The GPU that ptxas was to compile for: sm_86."""
    for message in text.messages_of("no-arch-in-ptxas"):
        digits = re.fullmatch(r"sm_(\d{1,2})(\d)a?", message.values["arch"])
        if digits:
            capability = Known(f"{digits[1]}.{digits[2]}", line_of(message), "inferred")
            return Known((Gpu(index=0, compute_capability=capability),), line_of(message), "inferred")
    return NOT_IN_TEXT


def _queried_gpus(text: ParsedText) -> Fact[Any] | None:
    """The table of ``nvidia-smi --query-gpu``: its columns in a header or in the command, and rows of as many cells."""
    for place, line in enumerate(text.lines):
        asked = _NO_HEADER.search(line.text)
        header = asked["columns"] if asked else line.text
        commas = header.count(",")
        if not asked and (not commas or not nvidia_smi_csv.is_header(header)):
            continue
        rows = itertools.takewhile(partial(_has_commas, commas), text.lines[place + 1 :])
        found = nvidia_smi_csv.parse("\n".join([header, *(row.text for row in rows)]))
        # -l repeats its rows; without a column that tells GPUs apart there may be a single one
        known = {gpu.index: gpu for gpu in reversed(found)} if _APART.search(line.text) else dict(enumerate(found[:1]))
        if known:
            gpus = tuple(known[index] for index in sorted(known))
            return Known(gpus, f"line {line.number}: {nvidia_smi_csv.SOURCE}")
    return None


def _has_commas(number: int, row: Line) -> bool:
    return row.text.count(",") == number


def _listed_gpus(text: ParsedText) -> Iterator[Gpu]:
    """Rows of ``nvidia-smi -L``, with the MIG instances below each."""
    rows = [(match, line.number) for line in text.lines if (match := _LISTED.match(line.text))]
    for place, (match, line) in enumerate(rows):
        if match["index"]:
            below = itertools.takewhile(lambda row: row[0]["mig"], rows[place + 1 :])
            yield Gpu(
                index=int(match["index"]),
                name=Known(match["name"], f"line {line}"),
                uuid=Known(match["uuid"], f"line {line}"),
                mig_instances=Known(tuple(row[0]["uuid"] for row in below), f"line {line}"),
            )


def _trimmed(version: str | None) -> str | None:
    """ "375.66.0" as TensorFlow prints it is the driver's "375.66"."""
    return re.sub(r"^(\d{3}\.\d{2,3})\.0$", r"\1", version) if version else None
