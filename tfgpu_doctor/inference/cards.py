"""The GPUs that a text tells without a driver: listed by lspci, named by somebody, of a cloud's instance type."""

from __future__ import annotations

import re

from tfgpu_doctor.inference.parsed_text import ParsedText, stated_at
from tfgpu_doctor.inference.pci_names import by_number, named
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.parsers.text.prose import card_in, stance
from tfgpu_doctor.parsers.text.statements.values import names_no_gpu
from tfgpu_doctor.records.facts import NOT_IN_TEXT, Fact, Known, PciGpu
from tfgpu_doctor.records.versions import of_capability

_NOT_NVIDIA = re.compile(
    r"\b(?:amd|advanced micro devices|radeon|intel|iris|uhd|hd graphics|apple|m[1-4]\b|arc\b|rx ?\d{3,4}|vega"
    r"|none|cpu only|no gpu)",
    re.IGNORECASE,
)
_NVIDIA = re.compile(
    r"nvidia|ge ?force|\b[gr]tx|quadro|tesla|titan|\bmx ?\d{3}|(?<!amd )\b[avhtlpk]\d{1,3}\b"
    r"|\bgt[sx]? ?\d{3}|\d{3,4} ?ti\b",
    re.IGNORECASE,
)
_LSPCI = re.compile(r"[$#>] ?(?:sudo )?lspci\b.{0,20}\| *e?grep\b.{0,30}nvidia['\"]? *$", re.IGNORECASE)
_EMPTY = re.compile(
    r"\blspci\b[^.;\n]{0,40}(?:nvidia|vga|3d)['\"`]*\W{1,4}(?:\w+ ){0,3}?(?:empty|nothing"
    r"|no (?:output|result|line|match|nvidia)|none|nichts|leer|vac[ií][oa]"
    r"|vazio|nada|vide|rien|vuoto|niente|puste|nic|boş|пуст\w*|ничего|空)"
    r"|(?:empty|nothing|nada|nichts|rien|ничего)\W+(?:\w+ ){0,3}?lspci\b",
    re.IGNORECASE,
)
_PROMPT = re.compile(r"(?:\([\w.-]{1,40}\) ?)?[\[\w~][^\s$#]{0,60}(?: [^\s$#]{1,60})?[$#] |[$#] ")
_INSTANCE_WORDS = ("large", "metal", "gpu-", "standard", "_v", "instance", "vm", "aws", "ec2")
# the line of a system's "About" page, or of neofetch
_OTHER_GRAPHICS = re.compile(r"^\s*(?:Graphics|GPU):? +(?:Mesa +)?(?:Intel|AMD|ATI)\b.{0,60}", re.IGNORECASE)
# the graphics of a machine whose owner never speaks of NVIDIA
_ONLY_GRAPHICS = re.compile(
    r"\b(?:Intel ?(?:\(R\))? ?(?:Iris|UHD|HD Graphics|Arc|graphics)|Iris(?:\(R\))? (?:Xe|Plus)|(?:AMD "
    r"|ATI )?Radeon|AMD Ra[a-z]{3,5}n|(?:AMD|ATI) (?:R[579X]|Vega|GPU|card|graphics))\b.{0,40}",
    re.IGNORECASE,
)
# a card of unknown name
_SOME_NVIDIA = re.compile(
    r"\b(?:my|the|and|with|has|have|dedicated|discrete|of) (?:an? )?(?:\w+ )?nvidia"
    r"(?:['’]s|\W(?:\w+ )?(?:card|gpu|graphics))\b",
    re.IGNORECASE,
)
_CAPABILITY = re.compile(
    r"\bcompute capabilit(?:y|ies)\W{1,3}(?:(?:is|of|version|level|being|only)\W{1,3}){0,2}"
    r"(?P<capability>\d{1,2}\.\d)\b",
    re.IGNORECASE,
)
_NVIDIA_WORD = re.compile(r"nvidia", re.IGNORECASE)
_NVIDIA_CARD = re.compile(r"\b(?:GeForce|GTX|RTX|Quadro|Tesla|TITAN)\b", re.IGNORECASE)


def cards(text: ParsedText, matrix: Matrix | None) -> Fact[tuple[PciGpu, ...]]:
    """The NVIDIA cards that lspci lists or that a device id tells, else those that somebody names."""
    listed = text.system.cards
    if not listed and (line := _empty_lspci(text)):
        return Known((), f"line {line}: lspci shows none of NVIDIA's")
    if not listed:
        stated = (by_number(text.lines, matrix) if matrix is not None else None) or _stated_cards(text)
        if matrix is None or stated != NOT_IN_TEXT:
            return stated
        described = _instance_cards(text, matrix)
        return described if described != NOT_IN_TEXT else _described_card(text)
    found = tuple(
        PciGpu(address=one.address, device_id=one.device_id or "10de", driver=one.driver, name=one.name)
        for one in listed
        if one.vendor == "nvidia"
    )
    fact = Known(found, f"line {listed[0].line}: lspci")
    return named(fact, matrix) if matrix is not None else fact


def _empty_lspci(text: ParsedText) -> int | None:
    """The line of an ``lspci | grep -i nvidia`` that found nothing: somebody says so, or a prompt follows at once."""
    if said := text.find(_EMPTY):
        return said[1]
    for place, line in enumerate(text.lines[:-1]):
        if _LSPCI.search(line.text) and _PROMPT.match(text.lines[place + 1].text):
            return line.number
    return None


def _stated_cards(text: ParsedText) -> Fact[tuple[PciGpu, ...]]:
    """The cards that somebody names, which is no proof that a driver sees them; none, when they are all others'."""
    named = text.all_stated("gpu")
    cards = [
        one
        for one in named
        if not names_no_gpu(one.value) and (not _NOT_NVIDIA.search(one.value) or _NVIDIA.search(one.value))
    ]
    if cards:
        found = tuple(PciGpu(address="", device_id="", name=card_in(one.value) or one.value) for one in cards[:1])
        return Known(found, stated_at(cards[0]), "stated")
    if named and not text.find(_SOME_NVIDIA):
        return Known((), stated_at(named[0]), "stated")
    shown = text.find(_OTHER_GRAPHICS) if not text.find(_NVIDIA_CARD) else None
    if not shown and not text.find(_NVIDIA_CARD) and not text.find(_NVIDIA_WORD):
        shown = text.find(_ONLY_GRAPHICS)
    return Known((), f"line {shown[1]}: {shown[0][0].strip()[:60]}") if shown else NOT_IN_TEXT


def _described_card(text: ParsedText) -> Fact[tuple[PciGpu, ...]]:
    """A card without a name, of which somebody tells the compute capability."""
    for number, clause in text.clauses("compute capabilit"):
        match = _CAPABILITY.search(clause)
        if match and stance(clause, match.start(), match.end()) == "here":
            card = PciGpu(address="", device_id="", name=of_capability(match["capability"]))
            return Known((card,), f"line {number}, as stated", "stated")
    return NOT_IN_TEXT


def _instance_cards(text: ParsedText, matrix: Matrix) -> Fact[tuple[PciGpu, ...]]:
    """The card of the cloud's instance type that a sentence names: of a g4dn.xlarge a T4, of a g4ad.xlarge none."""
    named = (
        (number, one, *found)
        for number, one in text.clauses(*_INSTANCE_WORDS)
        for found in matrix.instances.named_in(one)
    )
    for number, clause, match, row in named:
        if stance(clause, match.start(), match.end()) != "elsewhere":
            cards = () if row.gpu.startswith("AMD ") else (PciGpu(address="", device_id="", name=row.gpu),)
            return Known(cards, f"line {number}: {match[0]} has {row.gpu}", "stated")
    return NOT_IN_TEXT
