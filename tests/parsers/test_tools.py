"""What rows cannot hold of the readers: the drawing of captures, all columns of a row, GPUs in any spelling."""

from __future__ import annotations

import re
import textwrap

from tests.healthy import MATRIX
from tests.parsers.pasted import CAPTURES, lines
from tests.parsers.pasted import capture as capture_of
from tests.parsers.test_rows import rows
from tfgpu_doctor.facts.facts import Build
from tfgpu_doctor.parsers import nvidia_smi, package_lists, prose, statements
from tfgpu_doctor.parsers.tensorflow_outputs import parse

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


def test_lost_gpus_are_named() -> None:
    assert nvidia_smi.lost_gpus(capture("gpu_lost.txt")) == {
        "0000:b1:00.0": "GPU is lost.  Reboot the system to recover this GPU"
    }


# -------------------------------------------------------------------------------- pip and lists of packages


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
    seen = parse(capture_of("tensorflow_devices", "not_built_with_cuda.txt"))
    assert (seen.build, seen.build_line) == (Build(is_cuda_build=False), 9)  # and not the line that prints it


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
