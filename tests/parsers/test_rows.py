"""What each reader of pasted text answers: rows/*.yaml, a file for each module, in it a list of rows for each reader.

A row is a text and the answer; "@folder/name" is the capture of that name. To add a report, add a row.
Then, how a whole paste becomes facts, each with the line that tells it, and what remains possible.
"""

from __future__ import annotations

import doctest
import importlib
import itertools
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
import yaml

import tfgpu_doctor.parsers
from tests.healthy import MATRIX
from tests.parsers.pasted import CAPTURES, ROWS, capture, log, mangled
from tests.parsers.pasted import lines as numbered
from tfgpu_doctor.facts.facts import Build, Facts, Gpu, Known, Unknown, look_up, value_or
from tfgpu_doctor.facts.report import Severity
from tfgpu_doctor.facts.versions import minor
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.offers import versions_offered
from tfgpu_doctor.parsers import (
    lines,
    nvidia_smi,
    package_lists,
    platform_hints,
    prose,
    statements,
    system_outputs,
    tensorflow_outputs,
    text_to_facts,
)
from tfgpu_doctor.parsers.lines import Excerpt, Line
from tfgpu_doctor.parsers.text_to_facts import _ASKS, _ON_WINDOWS
from tfgpu_doctor.plan.diagnosis import diagnose

MIB = 2**20


def read(pasted: str, matrix: Matrix | None = MATRIX) -> Facts:
    return text_to_facts.read(lines.read([pasted.encode()]), matrix)


def _fact(path: str) -> Callable[[str], Any]:
    return lambda text: value_or(look_up(read(text), path), None)


def _fields(parse: Callable[[Sequence[Line]], Iterable[Any]], *names: str) -> Callable[[str], Any]:
    """Read some fields of all that a reader of lines finds."""
    return lambda text: [[getattr(one, name) for name in names] for one in parse(numbered(text))]


def _context(field: str) -> Callable[[str], Any]:
    return lambda text: getattr(platform_hints.read(numbered(text)), field)


def _stated(text: str) -> dict[str, str]:
    """Key → value; two different values of one key stand side by side."""
    found: dict[str, str] = {}
    for one in statements.parse(numbered(text)):
        if one.value not in found.get(one.key, "").split(" | "):
            found[one.key] = f"{found[one.key]} | {one.value}" if one.key in found else one.value
    return found


def _smi(text: str) -> list[Any]:
    found = nvidia_smi.parse(text)
    return [found.driver_version, found.cuda_version, [_smi_gpu(gpu) for gpu in found.gpus]]


def _smi_gpu(gpu: Gpu) -> list[Any]:
    """Return name, bus id and MiB used and in all; None where the table does not tell."""
    sizes = [value_or(gpu.memory_used, None), value_or(gpu.memory_total, None)]
    mib = None if None in sizes else [size // MIB for size in sizes]
    return [value_or(gpu.name, None), value_or(gpu.pci_bus_id, None), mib]


def _smi_columns(text: str) -> list[dict[str, Any]]:
    """What is known of each GPU, but its name, address and memory."""
    others = ("index", "name", "pci_bus_id", "memory_total", "memory_used", "memory_free")
    gpus = nvidia_smi.parse(text).gpus or nvidia_smi.parse_csv(text)
    fields = [name for name in Gpu.__struct_fields__ if name not in others]
    return [{name: one.value for name in fields if isinstance(one := getattr(gpu, name), Known)} for gpu in gpus]


def _logged_gpus(text: str) -> list[Any]:
    return [
        [
            *(one.index, one.name, one.compute_capability, one.pci_bus_id),
            *(size and size // MIB for size in (one.memory_total, one.memory_free)),
            one.created,
        ]
        for one in tensorflow_outputs.parse(numbered(text)).gpus
    ]


def _system(text: str) -> dict[str, Any]:
    return {name: one.value for name, one in system_outputs.parse(numbered(text)).facts.items()}


def _offered(text: str) -> tuple[int, tuple[str, ...]]:
    (event,) = (one for one in package_lists.parse_events(numbered(text)) if one.kind == "no-version")
    return len(event.versions), event.versions[:1] + event.versions[-1:]


def _pythons_offered(text: str) -> Any:
    (event,) = (one for one in package_lists.parse_events(numbered(text)) if one.kind == "no-version")
    return versions_offered(MATRIX, event.name, event.versions, "linux_x86_64")


def _card_named(text: str) -> tuple[str, list[str]] | None:
    card = prose.card_in(text)
    return (card, sorted({gpu.compute_capability for gpu in MATRIX.gpu_candidates(card)})) if card else None


def _is_said(text: str, find: Callable[[str], object]) -> bool:
    """True if a sentence says so, and has one of the words that it is looked at for."""
    return find(text) is not None and any(word in text.lower() for word in prose.WORDS)


def _releases(text: str) -> list[str]:
    """The release that a text names, else the minor releases that it leaves."""
    version = read(text).tensorflow.version
    return [version.value] if isinstance(version, Known) else [minor(one) for one in version.one_of]


def _cards(text: str) -> list[str] | None:
    cards = _fact("host.pci_gpus")(text)
    return None if cards is None else [one.name for one in cards]


def _devices(text: str) -> Any:
    seen = tensorflow_outputs.parse(numbered(text))
    return seen.no_gpu, seen.some_gpu, seen.gpu_count


def _cleaned(text: str) -> list[str]:
    return [line.text for line in lines.read([text.encode()]).lines]


READERS: dict[str, dict[str, Callable[[str], Any]]] = {
    "lines": {"cleaned": _cleaned},
    "platform_hints": {
        "os": lambda text: platform_hints.read(numbered(f"first line\n{text}")).os,
        "os_beside_paths": lambda stated: platform_hints.read(numbered("/home/x/y.py\ncudart64_80.dll"), stated).os,
        "container": _context("container"),
        "starts": _context("starts"),
        "building": _context("building"),
        "image": _context("image"),
        "variables": lambda text: {
            name: value for name, (value, _) in platform_hints.read(numbered(text)).variables.items()
        },
        "hides_all": _context("hides_all"),
    },
    "prose": {
        "sentences": lambda text: sorted(f"{one.key} {one.value} {one.stance}" for one in prose.parse(numbered(text))),
        "no_gpu": lambda text: prose.no_gpu(text) is not None,
        "card": _card_named,
        "has_none": lambda text: _is_said(text, prose.has_none),
        "wants_cpu": lambda text: _is_said(text, prose.wants_cpu),
    },
    "packages": {
        "rows": _fields(package_lists.parse_lists, "manager", "name", "version", "build"),
        "events": _fields(package_lists.parse_events, "kind", "name", "version", "requirement"),
        "tags": _fields(package_lists.parse_events, "tags"),
        "offered": _offered,
        "pythons": _pythons_offered,
    },
    "tools": {
        "libraries": _fields(system_outputs.parse_libraries, "via", "soname", "path", "version", "found"),
        "versions": _fields(system_outputs.parse_versions, "component", "version", "via"),
        "system": _system,
        "nvidia_smi": _smi,
        "nvidia_smi_columns": lambda text: msgspec.to_builtins(_smi_columns(text)),
        "nvidia_smi_lost": nvidia_smi.lost_gpus,
        "nvidia_smi_failure": lambda text: nvidia_smi.parse(text).failure,
        "cards": lambda text: [
            [card.address, card.name, card.device_id, card.driver]
            for card in system_outputs.parse(numbered(text)).cards
        ],
    },
    "tensorflow": {
        "gpus": _logged_gpus,
        "devices": _devices,
        "count": lambda text: tensorflow_outputs.parse(numbered(text)).gpu_count,
        "listed": lambda text: msgspec.to_builtins(
            tensorflow_outputs.device_facts(tensorflow_outputs.parse(numbered(text)))
        ),
        "build": lambda text: msgspec.to_builtins(tensorflow_outputs.parse(numbered(text)).build),
        "built": lambda text: getattr(tensorflow_outputs.parse(numbered(text)).build, "is_cuda_build", None),
    },
    "statements": {"form": _stated, "fields": _fields(statements.parse, "key", "value")},
    "facts": {
        "card": _cards,
        "driver": _fact("driver.version"),
        "CUDA_VISIBLE_DEVICES": lambda text: (_fact("variables")(text) or {}).get("CUDA_VISIBLE_DEVICES"),
        "sees_no_gpu": lambda text: _fact("tensorflow.devices")(text) == (),
        "distribution": lambda text: [_fact(f"host.distribution_{part}")(text) for part in ("id", "version")],
        "wheel_platform": _fact("python.wheel_platform"),
        "toolkits": lambda text: [one.version for one in _fact("cuda.toolkits")(text) or ()] or None,
        "devices": lambda text: len(_fact("tensorflow.devices")(text)),
        "tensorflow": _fact("tensorflow.version"),
        "releases": _releases,
        "installs_tensorflow": lambda text: "tensorflow-installed" in [one.kind for one in _fact("messages")(text)],
        "package": _fact("tensorflow.distribution"),
        "python": _fact("python.version"),
        "cudnn": _fact("cudnn.runtime"),
        "cuInit": lambda text: _fact("driver.cuda_init")(text).code,
    },
}


def plain(value: Any) -> Any:
    """Return a value as YAML has it."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def rows(module: str) -> Iterator[tuple[str, str, Any]]:
    """Return reader, text and answer of each row."""
    found = yaml.load((ROWS / f"{module}.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    for reader, pairs in found.items():
        for text, answer in pairs:
            yield reader, (CAPTURES / text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text, answer


@pytest.mark.parametrize("module", READERS)
def test_each_row_is_read(module: str) -> None:
    found = [(reader, text, expected, plain(READERS[module][reader](text))) for reader, text, expected in rows(module)]
    assert [row for row in found if row[2] != row[3]] == []
    assert {reader for reader, *_ in found} == set(READERS[module])


def test_the_samples_in_the_docstrings_hold() -> None:
    package = tfgpu_doctor.parsers
    names = [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    tried = {name: doctest.testmod(importlib.import_module(name)) for name in names}
    assert [name for name, result in tried.items() if result.failed] == []
    assert sum(result.attempted for result in tried.values()) > 40


def test_every_capture_is_listed_with_its_making() -> None:
    lists = {path.parent: path.read_text(encoding="utf-8") for path in CAPTURES.glob("*/README.md")}
    assert [one for folder in lists for one in folder.glob("*.txt") if f"| {one.name} |" not in lists[folder]] == []


def test_whoever_wants_the_cpu_is_told_of_no_error() -> None:
    logs = (
        "Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file",
        "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
        "Could not find cuda drivers on your machine, GPU will not be used.",
    )
    wanted = [text for reader, text, answer in rows("prose") if reader == "wants_cpu" and answer]
    for text, printed in zip(wanted, itertools.cycle(logs)):
        facts = read(f"{text}. TF 2.10, CUDA_VISIBLE_DEVICES=-1 is set.\n\n{printed}\n")
        assert {one.severity for one in diagnose(facts, MATRIX).findings} <= {Severity.NOTE}, text


def test_a_text_that_tells_nothing() -> None:
    for pasted in ("", "\n\n\n", "Hello", "?" * 10_000):
        facts = read(pasted)
        assert facts.messages == Known((), "the text")
        assert value_or(facts.tensorflow.version, None) is value_or(facts.driver.version, None) is None
        assert [one.id for one in diagnose(facts, MATRIX).findings if one.severity is Severity.ERROR] == []


def test_uv_at_any_width_of_the_terminal() -> None:
    """uv breaks its lines at spaces, so any of its words may stand on the next line."""
    printed = [line.text for line in capture("pip_install", "uv_of_2026.txt")]
    for width in range(32, 120, 3):
        wrapped = (textwrap.fill(line, width, subsequent_indent=" " * 6, break_long_words=False) for line in printed)
        found = [(one.kind, one.version) for one in package_lists.parse_events(numbered("\n".join(wrapped)))]
        assert found == [("uv-no-wheels", "2.9.1")], width


def test_line_numbers_are_those_of_the_values() -> None:
    found = statements.parse(numbered("\n### Python version\n\n3.8.10\n\nCUDA: 12.4"))
    assert [(one.line, one.raw) for one in found] == [(4, "3.8.10"), (6, "12.4")]
    seen = tensorflow_outputs.parse(capture("tensorflow_devices", "not_built_with_cuda.txt"))
    assert (seen.build, seen.build_line) == (Build(is_cuda_build=False), 9)  # and not the line that prints it


SENTENCES = ("I have an {} here", "我的显卡是{}，请问", "видеокарта {}, драйвер 470", "Mi tarjeta es una {}.")


def _meant(name: str) -> set[str]:
    return {gpu.compute_capability for gpu in MATRIX.gpu_candidates(name)}


def _spellings(name: str) -> set[str]:
    """As people write a name of the matrix."""
    short = re.sub(r"^(?:GeForce|Tesla) (?=.*[A-Z])", "", name)
    model = re.sub(r"^(?:GeForce )?[GR]TX? (?=\d+ (?:Ti|SUPER)|\d{3}M)", "", name)
    return {
        *(f"NVIDIA {name}", f"nvidia {short.lower()}"),
        *((name, name.lower()) if _stands_alone(name) else ()),
        *((short,) if _stands_alone(short) else ()),
        *((model, model.replace(" Ti", "ti")) if re.match(r"\d+ (?:Ti|SUPER)", model) else ()),
        "NVIDIA " + re.sub(r"([GR]TX?) (?=\d)", r"\1", name),  # "GeForce RTX3090"
        "nvidia " + re.sub(r"([GR]TX?) (?=\d)", r"\1-", name).lower(),  # "geforce gtx-1080"
        "NVIDIA " + re.sub(r" Laptop GPU$", " laptop", name),
    }


def _stands_alone(name: str) -> bool:
    """A bare number, a letter and a digit, or what a laptop is called, too, is a GPU beside a maker's word alone."""
    return not re.fullmatch(r"\d+[AM]?|A2|L2|[KMP]\d|[KPT]10|Orin|Thor|T[456]00E?(?: 4GB)?", name)


def test_every_gpu_of_the_matrix_is_found_by_its_spellings() -> None:
    missed, others = [], []
    for name in sorted({name for row in MATRIX.data.gpus for name in row.names}):
        for spelling in sorted(_spellings(name)):
            for sentence in SENTENCES:
                card = prose.card_in(sentence.format(spelling))
                if card is None:
                    missed.append(sentence.format(spelling))
                elif _meant(spelling) and _meant(card) != _meant(spelling):
                    others.append(f"{spelling}: {card}, {_meant(card)} for {_meant(spelling)}")
    assert not missed
    assert not others


def test_the_cheap_test_passes_all_that_the_expression_finds() -> None:
    """ "TensorFlow does not see my RTX 3060" has none of the words gpu, cpu and card."""
    known = [text for reader, text, answer in rows("prose") if reader == "no_gpu" and answer]
    for name in ("RTX 3060", "gtx 1080 ti", "graphics card", "nvidia card", "CUDA device"):
        texts = [re.sub(r"(?i)gpus?", name, text) for text in known] + [f"TensorFlow does not see my {name}"]
        missed = [text for text in texts if prose._NO_GPU.search(text) and not prose.no_gpu(text)]
        assert missed == [] and prose.no_gpu(texts[-1])


def test_what_is_too_long_for_a_sentence_says_nothing() -> None:
    assert prose.parse(numbered("CUDA 11.2 " * 300)) == ()


MIXED = (CAPTURES / "paste" / "mixed.txt").read_text(encoding="utf-8")

# path → value and source, for the mixed paste: a form, nvidia-smi, nvcc, pip, a session of Python
TOLD: dict[str, tuple[Any, str]] = {
    "host.os": ("linux", "line 6, as stated"),
    "host.distribution": ("Ubuntu 22.04", "line 6, as stated"),
    "host.distribution_id": ("ubuntu", "line 6, as stated"),
    "tensorflow.version": ("2.15.0", "line 7, as stated"),
    "python.version": ("3.10.12", "line 8, as stated"),
    "driver.version": ("535.129.03", "line 15: nvidia-smi"),
    "driver.cuda_supported": ("12.2", "line 15: nvidia-smi"),
    "python.wheel_platform": ("linux_x86_64", "the text"),
    "variables": ({"LD_LIBRARY_PATH": "/usr/local/cuda-11.8/lib64"}, "line 30"),
}
UNTOLD = (
    *("host.container", "host.memory", "driver.nvml_init", "driver.cuda_init", "driver.kernel_module", "cudnn.runtime"),
    *("driver.unresponsive", "driver.xid_events", "python.executable", "loader.sonames", "tensorflow.checks"),
)


def value(facts: Facts, path: str) -> Any:
    found = look_up(facts, path)
    assert isinstance(found, Known), (path, found)
    return found.value


def test_the_mixed_paste_tells_these_facts_and_leaves_others_unknown() -> None:
    facts = read(MIXED)
    told = {path: look_up(facts, path) for path in TOLD}
    assert {path: (one.value, one.source) for path, one in told.items() if isinstance(one, Known)} == TOLD
    stated = {"host.distribution", "host.distribution_id", "tensorflow.version", "python.version"}
    assert {path for path, one in told.items() if getattr(one, "grade", None) == "stated"} == stated
    path = "File /usr/lib/python3.8/site-packages/x.py"
    assert read(path).python.version == Known("3.8", "line 1: a path", "inferred")
    assert [path for path in UNTOLD if not isinstance(look_up(facts, path), Unknown)] == []
    (card,) = value(facts, "gpus")
    assert (card.name.value, card.memory_used.value // 2**20) == ("NVIDIA GeForce RTX 3090", 523)
    kits = [(kit.version, kit.source) for kit in value(facts, "cuda.toolkits")]
    assert kits == [("11.8.89", "line 28: nvcc"), ("11.8", "line 9, as stated")]
    assert [(one.version, one.path) for one in value(facts, "cudnn.installed")] == [("8.6", "line 9, as stated")]
    packages = [(one.name, one.version, one.location) for one in value(facts, "python.packages")]
    listed = [("keras", "2.15.0", "line 34"), ("numpy", "1.26.2", "line 35"), ("tensorflow", "2.15.0", "line 36")]
    assert sorted(packages) == listed
    build = value(facts, "tensorflow.build")
    assert (build.is_cuda_build, build.cuda_version, build.cudnn_version) == (True, "12.2", "8")
    assert [device.kind for device in value(facts, "tensorflow.devices")] == ["CPU"]
    said = {message.kind: message.line for message in value(facts, "messages")}
    assert (said["harmless"], said["cudart-not-found"], said["log-era"]) == (39, 40, 39)
    first = diagnose(facts, MATRIX).findings[0]
    assert (first.id, "line 40" in first.evidence[0].source) == ("cuda.version-mismatch", True)
    assert first.title == "TensorFlow 2.15.0 loads CUDA 12.2, but CUDA 11.8 is installed"


def test_line_numbers_count_the_pasted_lines() -> None:
    pasted = "\n" * 6000 + log("2.13", "x/y.cc", "failed call to cuInit: CUDA_ERROR_UNKNOWN")
    (message,) = [one for one in value(read(pasted), "messages") if one.kind == "cuinit-failed"]
    assert message.line == 6001


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.full)])
def test_every_capture_can_be_pasted_whole_and_mangled(step: int) -> None:
    captures = [path for folder in sorted(CAPTURES.iterdir()) for path in sorted(folder.glob("*.txt"))]
    assert len(captures) > 50
    for number, path in enumerate(captures[::step]):
        text = path.read_text(encoding="utf-8")
        diagnose(read(text), MATRIX)
        found = mangled(text, number)
        value(text_to_facts.read(Excerpt(tuple(found), len(found), 0)), "messages")
    for seed in range(5):
        diagnose(read("\n".join(line.text for line in mangled(MIXED, seed))), MATRIX)


LOG = "2021-03-02 10:11:12.131415: W tensorflow/stream_executor/platform/default/dso_loader.cc:1] "  # of no release
OPENED = LOG + "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open"
GUARD = f"{OPENED}\n2021-03-02 10:11:12.1: I x/cpu_feature_guard.cc:210] This TensorFlow binary is optimized to"


def test_the_newest_patch_of_each_minor_release_and_the_command_that_tells() -> None:
    version, ask = read(OPENED).tensorflow.version, "python -m pip list"
    assert isinstance(version, Unknown)
    assert (version.one_of, version.ask) == (("2.4.4",), ask), "the newest patch of each minor release"
    assert "libcudart.so.11.0" in version.reason
    assert read(OPENED, None).tensorflow.version == Unknown("the text does not say", ask=ask)


def log_of(release: str) -> str:
    """What a release prints, as far as the table of its lines has it."""
    return "\n".join(
        f"2026-11-23 10:00:00.123456: I x/{row.file}:{line}] {row.message.replace('*', '1.0')}"
        for row in MATRIX.data.log_lines
        for line, releases in row.lines.items()
        if release in releases.split()
    )


def test_a_release_is_among_those_that_its_own_lines_leave() -> None:
    for release in {one for row in MATRIX.data.log_lines for line in row.lines.values() for one in line.split()}:
        version = read(log_of(release)).tensorflow.version
        assert isinstance(version, Unknown)
        assert not version.one_of or minor(release) in map(minor, version.one_of), release


def test_the_line_of_a_source_file_tells_releases_apart() -> None:
    guard = GUARD.replace("2021", "2023").replace("cc:210", "cc:193")
    version = read(guard).tensorflow.version
    assert isinstance(version, Unknown) and "cpu_feature_guard.cc:193" in version.reason
    left = {minor(one) for one in version.one_of}
    assert "2.10" in left and not {"2.4", "2.6"} & left


def test_pips_list_leaves_one_python_or_several() -> None:
    command = "$ pip install tensorflow==9.9\nERROR: Could not find a version that satisfies the requirement "
    one = command + "tensorflow==9.9 (from versions: 2.16.0rc0, 2.16.1, 2.16.2, 2.17.0, 2.17.1, 2.18.0)"
    assert read(one).python.version == Known("3.12", "line 2: the versions that pip offers", "inferred")
    several = read(command + "tensorflow==9.9 (from versions: 1.0.0, 1.0.1, 1.1.0, 1.2.0)").python.version
    assert isinstance(several, Unknown)
    assert {"2.7", "3.5"} <= set(several.one_of)
    assert several.ask == "python --version"


def test_every_list_of_today_betrays_its_own_python() -> None:
    offered: dict[tuple[str, str], list[str]] = {}
    for release in MATRIX.releases(package="tensorflow"):
        for python in release.python:
            offered.setdefault((python, release.platform), []).append(release.version)
    for (python, platform), versions in offered.items():
        for found in (versions_offered(MATRIX, "tensorflow", versions, one) for one in (None, platform)):
            assert found is not None and python in found[0] and found[1]


def test_what_a_text_leaves_open_names_the_command_that_tells() -> None:
    assert [path for path in (*_ASKS, *_ON_WINDOWS) if not isinstance(look_up(Facts(), path), (Known, Unknown))] == []
    linux, windows = read("Operating system: Ubuntu 22.04"), read("Operating system: Windows 11")
    assert linux.gpus == Unknown("the text does not say", ask="nvidia-smi")
    assert [look_up(linux, path) for path in _ASKS if getattr(look_up(linux, path), "ask", "known") is None] == []
    asks = [getattr(fact, "ask", "known") for fact in (windows.host.kernel, windows.cuda.toolkits)]
    assert asks == [None, "nvcc --version"]
