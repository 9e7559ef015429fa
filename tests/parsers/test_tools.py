"""What rows cannot hold of the readers: the drawing of captures, all columns of a row, GPUs in any spelling."""

from __future__ import annotations

import re
import textwrap

from tests.healthy import MATRIX
from tests.parsers.pasted import CAPTURES, lines
from tests.parsers.pasted import capture as capture_of
from tests.parsers.test_rows import rows
from tfgpu_doctor.parsers import nvidia_smi, package_lists, prose, statements
from tfgpu_doctor.parsers.tensorflow_outputs import device_facts, gpu_facts, parse
from tfgpu_doctor.records.facts import Build, GpuProcess, Known, TfDevice, Unknown, value_or

MIB = 2**20


def capture(name: str) -> str:
    return (CAPTURES / "nvidia_smi" / name).read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------- nvidia-smi


def test_the_tables_are_drawn_as_the_tool_draws_them() -> None:
    """As wide as that version's in every row, and the bars of the GPUs' rows below the seams of the ruled lines."""
    names = [path.name for path in (CAPTURES / "nvidia_smi").glob("r[0-9]*.txt")]
    assert len(names) > 9 and [name for name in names if not _is_drawn(name)] == []


def _is_drawn(name: str) -> bool:
    version = int(name[1:4])
    width = 79 if version < 535 else 89 if version < 550 else 91
    rows = [row.lstrip() for row in capture(name).split("\n") if row.lstrip()[:1] in ("+", "|")]
    bars = {tuple(at for at, sign in enumerate(row) if sign == "|") for row in rows if row.count("|") == 4}
    seams = {tuple(at for at, sign in enumerate(row) if sign in "+|") for row in rows if row[1] in "-="}
    return {len(row) for row in rows} == {width} and len(bars) == 1 and bars <= seams


def test_all_columns_of_a_row() -> None:
    (gpu,) = nvidia_smi.parse(capture("r550_wide_memory.txt")).gpus
    table = nvidia_smi.SOURCE
    assert (gpu.temperature, gpu.utilization) == tuple(Known(n, table) for n in (43, 4))
    assert (gpu.power, gpu.power_limit) == (Known(26.0, table), Known(115.0, table))
    assert gpu.persistence_mode == Known(False, table)
    assert gpu.compute_mode == Known("default", table)
    for fact in (gpu.ecc_mode, gpu.ecc_uncorrected, gpu.mig_mode, gpu.processes):
        assert isinstance(fact, Unknown)  # N/A, and no table of processes in the capture


def test_mig_mode_and_its_devices() -> None:
    plain, sliced = nvidia_smi.parse(capture("r510_mig_devices.txt")).gpus
    assert (plain.mig_mode, plain.ecc_uncorrected) == (Known(False, "nvidia-smi"), Known(0, "nvidia-smi"))
    assert sliced.mig_mode == Known(True, "nvidia-smi")
    assert value_or(sliced.mig_instances, ()) == tuple(f"GPU instance {n}, compute instance 0" for n in (1, 5, 13))


def test_processes_of_the_old_layout() -> None:
    (gpu,) = nvidia_smi.parse(capture("r396_processes_cut_off.txt")).gpus
    assert value_or(gpu.processes, ()) == (
        GpuProcess(pid=871, memory=158 * MIB, name="/usr/lib/xorg/Xorg"),
        GpuProcess(pid=1306, memory=9 * MIB, name="compiz"),
        GpuProcess(pid=20417, memory=3058 * MIB, name="python3"),
    )


def test_processes_of_the_new_layout() -> None:
    rows = (
        "\n| Processes:                                                                              |"
        "\n|    0   N/A  N/A            2936    C+G   C:\\Windows\\explorer.exe                   N/A      |"
        "\n|    0   N/A  N/A            4242      C   /opt/py thon/bin/python                  1000MiB |"
    )
    (gpu,) = nvidia_smi.parse(capture("r550_wide_memory.txt") + rows).gpus
    assert value_or(gpu.processes, ()) == (
        GpuProcess(pid=2936, name="C:\\Windows\\explorer.exe"),
        GpuProcess(pid=4242, memory=1000 * MIB, name="/opt/py thon/bin/python"),
    )


def test_lost_gpus_and_broken_sensors_are_faults() -> None:
    assert nvidia_smi.lost_gpus(capture("gpu_lost.txt")) == {
        "0000:b1:00.0": "GPU is lost.  Reboot the system to recover this GPU"
    }
    text = capture("r550_wide_memory.txt").replace(" 32%   43C    P3", "ERR!   ERR! ERR!")
    (gpu,) = nvidia_smi.parse(text).gpus
    assert isinstance(gpu.fault, Known) and isinstance(gpu.temperature, Unknown)


def test_csv_in_any_order() -> None:
    first, second = nvidia_smi.parse_csv(capture("query_in_another_order.csv"))
    assert (first.index, second.index) == (0, 1)
    assert value_or(first.compute_capability, None) == "8.0"
    assert value_or(second.name, None) == "NVIDIA RTX A4000"
    assert (value_or(first.compute_mode, None), value_or(second.compute_mode, None)) == ("exclusive_process", "default")
    assert isinstance(second.memory_total, Unknown)


def test_csv_refusals_are_unknown_and_a_lost_gpu_is_a_fault() -> None:
    text = "index, name, power.draw [W], temperature.gpu, ecc.mode.current\n0, X, [N/A], [GPU is lost], maybe"
    (gpu,) = nvidia_smi.parse_csv(text)
    assert gpu.power == Unknown("nvidia-smi answers [N/A]")
    assert gpu.ecc_mode == Unknown("nvidia-smi answers 'maybe'")
    assert gpu.fault == Known("GPU is lost", nvidia_smi.CSV_SOURCE)


# -------------------------------------------------------------------------------- pip and lists of packages


def test_tags_of_a_refused_wheel() -> None:
    (event,) = (
        one
        for one in package_lists.parse_events(capture_of("pip_install", "wheel_refused.txt"))
        if one.kind == "wheel-refused"
    )
    assert event.tags == "cp35-cp35m-manylinux1_x86_64"


def test_uv_at_any_width_of_the_terminal() -> None:
    """uv breaks its lines at spaces, so any of its words may stand on the next line."""
    printed = [line.text for line in capture_of("pip_install", "uv_of_2026.txt")]
    for width in range(32, 120, 3):
        wrapped = (textwrap.fill(line, width, subsequent_indent=" " * 6, break_long_words=False) for line in printed)
        found = [(one.kind, one.version) for one in package_lists.parse_events(lines("\n".join(wrapped)))]
        assert found == [("uv-no-wheels", "2.9.1")], width


def test_a_list_of_versions_that_was_wrapped_or_cut_off() -> None:
    text = (
        "Could not find a version that satisfies the requirement tensorflow==1.15 (from versions: 2.2.0,\n2.2.1, 2.3.0"
    )
    (cut,) = package_lists.parse_events(lines(text))
    (whole,) = package_lists.parse_events(lines(text + ")\nERROR: more (of this)"))
    assert cut.versions == whole.versions == ("2.2.0", "2.2.1", "2.3.0")


def test_line_numbers_are_those_of_the_values() -> None:
    found = statements.parse(lines("\n### Python version\n\n3.8.10\n\nCUDA: 12.4"))
    assert [(one.line, one.raw) for one in found] == [(4, "3.8.10"), (6, "12.4")]


# ---------------------------------------------------------------------------------------------- TensorFlow's devices


def test_a_script_that_asks_for_the_build() -> None:
    seen = parse(capture_of("tensorflow_devices", "not_built_with_cuda.txt"))
    assert (seen.build, seen.build_line) == (Build(is_cuda_build=False), 9)  # and not the line that prints it


def test_build_info_over_many_lines() -> None:
    build = parse(capture_of("tensorflow_devices", "build_info_over_many_lines.txt")).build
    assert build and (build.is_cuda_build, build.cuda_version, build.cudnn_version) == (True, "11.8", "8")
    assert build.compute_capabilities[0] == "sm_35"
    assert build.compute_capabilities[-1] == "compute_80"
    assert len(build.compute_capabilities) == 6


def test_ignored_gpus_are_no_devices() -> None:
    text = (
        "2026-11-21 14:06:26.072063: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1816] Ignoring visible gpu "
        "device (device: 0, name: GRID K2, pci bus id: 0000:41:00.0, compute capability: 3.0) with Cuda compute "
        "capability 3.0. The minimum required Cuda capability is 3.5."
    )
    (gpu,) = parse(lines(text)).gpus
    assert (gpu.name, gpu.compute_capability, gpu.created) == ("GRID K2", "3.0", False)
    assert device_facts(parse(lines(text))) == ()


def test_wrapped_descriptions() -> None:
    text = (
        "Created device /device:GPU:0 with 14328 MB memory:  -> device: 0, name: NVIDIA\nL4, pci bus id: 0000:41:00.0, "
    )
    (gpu,) = parse(lines(f"{text}compute capability: 8.9")).gpus
    assert (gpu.name, gpu.compute_capability) == ("NVIDIA L4", "8.9")


def test_facts_of_gpus_and_devices() -> None:
    seen = parse(capture_of("tensorflow_devices", "log_2_13_created.txt"))
    (gpu,) = gpu_facts(seen)
    assert (gpu.index, value_or(gpu.name, None), value_or(gpu.compute_capability, None)) == (0, "Tesla P4", "6.1")
    assert device_facts(seen) == (
        TfDevice(name="/physical_device:GPU:0", kind="GPU", device_name="Tesla P4", compute_capability="6.1"),
    )


# ---------------------------------------------------------------------------------------------- names of GPUs


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
    assert prose.parse(lines("CUDA 11.2 " * 300)) == ()
