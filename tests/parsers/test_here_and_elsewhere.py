"""Which card and which driver are those of this machine, in a text that names others, too."""

from __future__ import annotations

import pytest

from tests.healthy import MATRIX
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.facts import Facts, value_or


def _facts(text: str) -> Facts:
    return text_to_facts.read(lines.read([text.encode()]), MATRIX)


@pytest.mark.parametrize(
    ("text", "card"),
    [
        ("I replaced my GTX 1080 with an RTX 3060 and now the loss is nan", "RTX 3060"),
        ("Swapped the GTX 970 for a RTX 4070 last night.", "RTX 4070"),
        ("Поменял GTX 1080 на RTX 3060 в том же компьютере", "RTX 3060"),
        ("Tausche GTX 1070 gegen RTX 4080, seitdem nan", "RTX 4080"),
        ("Cambié mi GTX 960 por una RTX 3050", "RTX 3050"),
        ("moved from a GTX 1060 to an RTX 2070 and tensorflow is slow", "RTX 2070"),
        ("从 GTX 1060 换到 RTX 3090 之后很慢", "RTX 3090"),
        ("My cousin's GTX 1650 works. Mine is an RTX 3050.", "RTX 3050"),
        ("A colleague has an RTX 2080 Ti and it works there; I have a GTX 1080", "GTX 1080"),
        ("No notebook do meu primo (GTX 1650) funciona. O meu tem RTX 3050", "RTX 3050"),
        ("同学的 RTX 2080 没问题，我的显卡是 RTX 4090", "RTX 4090"),
        ("Switched from g4dn.xlarge to p3.2xlarge and no GPU is found", "Tesla V100"),
    ],
)
def test_the_card_that_is_here_is_taken(text: str, card: str) -> None:
    assert [one.name for one in value_or(_facts(text).host.pci_gpus, ())] == [card]


@pytest.mark.parametrize(
    "text",
    [
        "New PC with an RX 6700 XT. Coming from my old i5 with a GTX 1060 where TF ran on the GPU.",
        "I have a Radeon RX 580 8GB. pip installed nvidia-cudnn-cu12, and no GPU is found.",
        "Laptop with Intel Iris Xe, no NVIDIA card. nvcuda.dll not found. My friend's GTX 1650 works.",
        "Notebook com Intel Iris Xe. No notebook do meu primo (GTX 1650) funcionou.",
        "Mein Rechner hat eine AMD Radeon RX 7900 XTX, der Nachbar mit RTX 3080 hat keine Probleme",
        "我的笔记本是 Intel UHD 620，朋友的 GTX 1050 可以用",
    ],
)
def test_only_the_card_of_another_maker_is_here(text: str) -> None:
    assert _facts(text).host.pci_gpus.value == ()


def test_integrated_graphics_beside_a_card_of_unknown_name_say_nothing() -> None:
    assert value_or(_facts("Laptop with Intel UHD 630 and an NVIDIA graphics card").host.pci_gpus, None) is None


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("드라이버 470.82.01 로 돌리고 있습니다", "470.82.01"),
        ("Win 10, RTX 2070, Treiber 441.22", "441.22"),
        ("显卡驱动版本 535.104 ，CUDA 12.2", "535.104"),
        ("ドライバ 525.60.13 を使っています", "525.60.13"),
        ("драйвер 460.56, CUDA 11.2", "460.56"),
        ("NVIDIA_REQUIRE_CUDA=cuda>=11.2 brand=tesla,driver>=418,driver<419", None),
        ("the release notes say driver >= 525.60", None),
    ],
)
def test_a_driver_is_named_in_any_language_and_a_bound_names_none(text: str, driver: str | None) -> None:
    assert value_or(_facts(text).driver.version, None) == driver


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"env": {"PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "", "WANDB_MODE": "offline"}', ""),
        ('  "CUDA_VISIBLE_DEVICES": "-1"', "-1"),
        ("os.environ.update({'CUDA_VISIBLE_DEVICES': '0'})", "0"),
        ('env:\n- name: CUDA_VISIBLE_DEVICES\n  value: ""', ""),
        ("CUDA_VISIBLE_DEVICES=<uuid of the 5090> python bench.py", None),
    ],
)
def test_a_variable_is_read_from_a_configuration_and_a_placeholder_is_none(text: str, value: str | None) -> None:
    assert value_or(_facts(text).variables, {}).get("CUDA_VISIBLE_DEVICES") == value


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        ("list_physical_devices shows both. Nothing red in the log, TF 2.15", False),
        ("tf.config.list_physical_devices('GPU') shows the card; nothing else is odd", False),
        ("tf.config.list_physical_devices('GPU') shows nothing", True),
        ("list_physical_devices('GPU') gives me just []", True),
    ],
)
def test_another_sentence_says_nothing_of_the_list(text: str, empty: bool) -> None:
    assert (value_or(_facts(text).tensorflow.devices, None) == ()) is empty
