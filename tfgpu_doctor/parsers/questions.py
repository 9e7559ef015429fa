"""What somebody asks where nothing fails: which release, whether something works, whether the toolkit is needed.

A question about anything else is "other": it has no answer here, and is no failure either.

A question is found by the words of its sentence, whatever their order; what it names of versions comes along.

>>> text = "Can I use tensorflow-gpu 1.15 with CUDA 10.1? Windows 10, GTX 1080."
>>> lines = [Line(1, text)]
>>> [(one.values["about"], one.values["tensorflow"], one.values["cuda"]) for one in parse(lines, prose.parse(lines))]
[('works', '1.15', '10.1')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tfgpu_doctor.facts.facts import Message
from tfgpu_doctor.parsers import prose
from tfgpu_doctor.parsers.lines import Line
from tfgpu_doctor.parsers.messages import SHOWN
from tfgpu_doctor.parsers.statements import Statement

# ------------------------------------------------------------------------------------------ questions

_FIRST_ONES = 10  # questions
_VERSIONS = ("tensorflow", "cuda", "cudnn", "python", "driver")
_LONGEST = 20_000  # characters of a text that asks: a letter, and no log
_SENTENCE = re.compile(r"(?<=[?!？！。])\s*|(?<=[a-z\d)]\.)\s+(?=[A-Z])")


class _Topic(NamedTuple):
    about: str
    words: tuple[re.Pattern[str], ...]  # all of them stand in the sentence
    never: re.Pattern[str] | None = None  # and this does not
    around: re.Pattern[str] | None = None  # this stands anywhere in the text
    unnamed: bool = False  # nothing in the text names a card, a system or a version


_ASKS = re.compile(
    r"[?？]|^\W*(?:\[[^\]]{1,30}\]\W*)?(?:which|what|how|can|could|does|do|is|are|will|why|should|recommended|welche"
    r"|wie|quelle?s?|comment|qué|cómo|cuál|qual|como)\b|\b(?:need|like|want) to know\b|\bwondering\b|\btell me\b"
    r"|哪|什么|怎么|如何|多少|吗|どの|어떤",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"tensor ?flow|\btf\b|keras|cuda|cudnn|\bgpus?\b|graphics card|\b[gr]tx|geforce|quadro|tesla|radeon|nvidia",
    re.IGNORECASE,
)
_OTHER = re.compile(r"\b(?:py)?torch\b|\bjax\b|\bcupy\b|\bopencv\b|\btfjs|tensorflow[. ]?js\b", re.IGNORECASE)
_TENSORFLOW = re.compile(r"tensor ?flow|\btf\b|keras", re.IGNORECASE)
_NEEDED = re.compile(r"\b(?:need(?:ed|s)?|necessary|required?|have to|must|should i)\b", re.IGNORECASE)
_LIBRARY = re.compile(r"\bcuda\b|cudnn|tool ?kit", re.IGNORECASE)
_PACKAGES = re.compile(
    r"\bconda|\banaconda|\bpip\b|and-cuda|cudatoolkit|\bnvidia-\w+-cu1\d|docker|container", re.IGNORECASE
)
_WHICH = re.compile(
    r"\b(?:which|what|what's|whats|recommended|exact|detail(?:ed|s)?|provide|share|specify|welche[rsnm]?|quelle?s?|qué"
    r"|cu[aá]l(?:es)?|qual|quais|versions that)\b|哪|什么|多少|どの|어떤|как(?:ая|ой|ую)",
    re.IGNORECASE,
)
_WHICH_VERSION = re.compile(r"\b(?:which|what) versions?\b.{0,30}\b(?:install|use|take|need)\b", re.IGNORECASE)
_THING = re.compile(
    r"\b(?:versions?|releases?|cuda|cudnn|tensor ?flow\w*|tf|python|drivers?|combinations?|os|install|versi[oó]n\w*"
    r"|versão)\b|版本|バージョン|버전|верси",
    re.IGNORECASE,
)
_HOW = re.compile(
    r"\bhow (?:do|can|to|should|would|could)\b|\b(?:is|are) there\b|\binstructions?\b|\bguide\b|\bsteps\b|\btell me\b"
    r"|\bcomment\b|怎么|如何",
    re.IGNORECASE,
)
_INSTALL = re.compile(
    r"\binstall\w*|\bset(?:ting)?[ -]?up\b|\b(?:run|running|train|training|use|get)\b|\bversions?\b|安装|配置",
    re.IGNORECASE,
)
_WHETHER = re.compile(
    r"\b(?:can|could|does|do|will|would|is|are|possible|kann|läuft|funktioniert|unterstützt|puedo|funciona|peut"
    r"|est-ce)\b|能|可以|支持",
    re.IGNORECASE,
)
_WORKS = re.compile(
    r"\b(?:use|using|run|runs|work|works|install\w*|support\w*|compatib\w*|possible|train|take|need(?:ed)?|used|ok|okay"
    r"|fine|good|nutzen|läuft|funktion\w*|unterstützt|usar|utiliser|marche)\b|支持|兼容|能用",
    re.IGNORECASE,
)
_CHECKS = re.compile(
    r"\b(?:check(?:ing)?|verify|know|tell|see|show|confirm|make sure|find out|determine)\b",
    re.IGNORECASE,
)
_USES = re.compile(r"\b(?:us(?:es?|ed|ing|age)|performed|runs?|running|trains?|training)\b", re.IGNORECASE)
_RUNS_THERE = re.compile(r"\bworks?\b|\bworking\b|\bgpu\b.{0,40}\bcpu\b", re.IGNORECASE)
_DEVICE = re.compile(r"\bwhich (?:device|gpu)\b", re.IGNORECASE)
_THE_GPU = re.compile(r"(?<![a-z])gpu(?![a-z])", re.IGNORECASE)
_FIRST = re.compile(
    r"\bfirst\b.{0,30}?\b(?:run|call|epoch|step|iteration|batch|prediction|inference|image|session)", re.IGNORECASE
)
_SLOW = re.compile(r"slow|longer|differ|\btakes?\b|\bminutes?\b", re.IGNORECASE)
_NOT_TOOLKIT = re.compile(r"\b(?:which|what)\b", re.IGNORECASE)
_NOT_USE = re.compile(r"\b(?:which|versions?|install\w*|why)\b|n['o]t\b", re.IGNORECASE)
_NO_ANSWER = re.compile(
    r"\b(?:what (?:is|are) (?:this|the (?:problem|error|reason)))|\bwhat gpus? (?:do|did|have) you\b"
    r"|\b(?:did|do|have|had) you\b|\byou (?:use[ds]?|are using|have)\b|\bcan you (?:provide|share|tell)|/device:",
    re.IGNORECASE,
)
# which of several GPUs
_CHOOSES = re.compile(
    r"\b(?:which|specif(?:y|ic)|select|choose|assign|restrict|certain|only)\b|指定|选择", re.IGNORECASE
)
_CHOSEN = re.compile(
    r"\bgpus? (?:to use|to run|is used|id|number)\b|\b(?:specific|certain|different|one of the|the (?:first|second))"
    r" (?:\W?\w+\W? )?gpus?\b|\bof \d gpus\b|(?:指定|哪个|哪块).{0,6}(?:gpu|显卡)",
    re.IGNORECASE,
)
_ON_CPU = re.compile(
    r"\b(?:on|with|using|to|use) (?:the |an? |only |my )?cpus?\b(?! (?:image|build|version|package|wheel))"
    r"|\btensorflow cpu instead\b|(?:^\W*|\b(?:with|have|has|is|are|got) )no (?:nvidia )?(?:gpu|card)\b"
    r"(?! (?:support|found|detect|avail|usage|is\b))|\b(?:without|n['’]t have) (?:an? |the |any )?(?:nvidia )?gpu\b"
    r"|\b(?:disable|turn off|switch off) (?:the )?gpu|(?:cpu|无gpu).{0,20}(?:跑|训练|运行)",
    re.IGNORECASE,
)
_NOT_CPU = re.compile(
    r"fast|slow|speed|\btime\b|\blong\b|\bwhy\b|多久|多长|\bcompil|\bwant (?:the |a )?gpu|\bgpu instead|\bhow many\b"
    r"|\byou (?:use|train)|\bthat you\b|\b(?:onto|get|using) (?:my |the |a )?gpu|\berror|\bstill\b|\breally\b|\bsays\b"
    r"|\b(?:sent|call) to\b|\bcan only\b",
    re.IGNORECASE,
)
_OF_MEMORY = re.compile(r"\bmemory\b|allow_growth|GPUOptions|显存", re.IGNORECASE)
_LIMITS = re.compile(
    r"\b(?:limit\w*|fraction|allow_growth|GPUOptions|only|all of|share|grow\w*|stop|eating|restrict)\b", re.IGNORECASE
)
_ENABLES = re.compile(
    r"\b(?:us(?:e|es|ing)|run|train(?:ed|ing)?|enable|work|support\w*|with|by|on)\b|用", re.IGNORECASE
)
# whoever names one of these asks about versions, a system, or a card
_NAMES_MORE = re.compile(
    r"\binstall\w*|\bset(?:ting)?[ -]?up\b|versions?\b|\b[gr]tx|geforce|quadro|tesla|radeon|\bamd\b|intel|rocm|\bmac\b"
    r"|\bm[1-4]\b|windows|ubuntu|jetson|raspberry|colab|docker|multi|multiple|several|\bno gpu|nvidia|\bwhy\b"
    r"|\d ?gb\b|/device|\blong\b|fast|slow|\byou\b|\bneed"
    r"|安装|版本|\b(?:cuda|cudnn|python|tf|tensorflow)[ -]?v?\d",
    re.IGNORECASE,
)
_MACHINE = re.compile(
    r"\b[gr]tx ?\d|geforce|quadro|tesla|titan|windows|ubuntu|\bwsl|macbook|jetson|\d\.\d", re.IGNORECASE
)
_REPAIR = re.compile(r"\b(?:fix|solve|resolve|disable|avoid|limit|error)", re.IGNORECASE)
_FOR_HELP = re.compile(r"\b(?:any|some)(?:one|body)\b|\bwhy\b|为什么", re.IGNORECASE)
_TOPICS = (
    _Topic("toolkit", (_NEEDED, _LIBRARY, _PACKAGES), _NOT_TOOLKIT),
    _Topic("in-use", (_CHECKS, _USES, _THE_GPU), _NOT_USE),
    _Topic("in-use", (_HOW, _CHECKS, _USES, _DEVICE)),
    _Topic("in-use", (_HOW, _CHECKS, _RUNS_THERE, _THE_GPU), _NOT_USE),
    _Topic("first-run", (_FIRST, _SLOW)),
    _Topic("memory", (_OF_MEMORY, _LIMITS), _FOR_HELP, around=_SUBJECT),
    _Topic("choice", (_CHOOSES, _CHOSEN), _FOR_HELP),
    _Topic("cpu", (_ON_CPU,), _NOT_CPU),
    _Topic("release", (_WHICH, _THING, _SUBJECT), _NO_ANSWER),
    _Topic("release", (_WHICH_VERSION,), _NO_ANSWER, around=_SUBJECT),
    _Topic("enable", (_HOW, _ENABLES, _THE_GPU), _NAMES_MORE, unnamed=True),
    _Topic("enable", (_WHETHER, _ENABLES, _THE_GPU), _NAMES_MORE, unnamed=True),
    _Topic("release", (_HOW, _INSTALL, _SUBJECT), _REPAIR),
    _Topic("works", (_WHETHER, _WORKS, _SUBJECT), _FOR_HELP),
)
# whoever writes such a word may have seen something fail, whatever they ask
_TROUBLE = re.compile(
    r"\b(?:errors?|fail\w*|crash\w*|traceback|exception|(?:does|did)(?: not|n't)|can ?not|unable"
    r"|(?:not|\w{2,5}n't) (?:work|found|find|detect|us|see|load|recogni)\w*|problem|issue|wrong|broken|stuck"
    r"|out of memory|oom)\b",
    re.IGNORECASE,
)
_NATIVE = re.compile(r"\b(?:no|not|without|instead of)\W{1,3}(?:\w+ )?wsl|\bnative(?:ly)?\b", re.IGNORECASE)
_WINDOWS = re.compile(r"\bwindows(?! subsystem)(?![a-z])|윈도우", re.IGNORECASE)
_LINUX = re.compile(r"\bwsl|\blinux\b|ubuntu|debian|fedora|centos", re.IGNORECASE)
# a machine that has no GPU of NVIDIA's, in a text that may speak of one
_OTHER_GRAPHICS = re.compile(
    r"\b(?:only|just) (?:have|has|got) (?:an? )?(?:intel|amd|radeon|iris)|\braspberry", re.IGNORECASE
)
_SMI, _NVCC = re.compile(r"\bnvidia[- ]?smi\b", re.IGNORECASE), re.compile(r"\bnvcc\b", re.IGNORECASE)
# 7.0 to 19.9, and no longer version
_CUDA = re.compile(r"(?<![\d.])(?<!cudnn )v?((?:[7-9]|1\d)\.\d)(?!\d)", re.IGNORECASE)


def compared(lines: Sequence[Line]) -> Iterator[Message]:
    """The two numbers of a line that names nvidia-smi and nvcc, each of the program that it is nearer to."""
    for line in lines:
        smi, nvcc = _SMI.search(line.text), _NVCC.search(line.text)
        numbers = list(_CUDA.finditer(line.text)) if smi and nvcc and prose.is_sentence(line.text) else []
        if smi and nvcc and len(numbers) == 2:
            first, second = numbers
            as_named = _apart(smi, first) + _apart(nvcc, second), _apart(smi, second) + _apart(nvcc, first)
            if as_named[0] > as_named[1] or (as_named[0] == as_named[1] and nvcc.start() < smi.start()):
                first, second = second, first
            values = {"smi": first[1], "nvcc": second[1]}
            yield Message("cuda-versions-compared", line.number, line.text.strip()[:SHOWN], values)


def _apart(one: re.Match[str], other: re.Match[str]) -> int:
    return max(one.start() - other.end(), other.start() - one.end(), 0)


def parse(lines: Sequence[Line], said: Sequence[Statement]) -> Iterator[Message]:
    """The first questions, each with the versions that it names, else those that stand around it; none in a log.

    Args:
        said: what `prose.parse` finds in these lines.
    """
    if sum(len(line.text) for line in lines) > _LONGEST:
        return
    letter = [line for line in lines if prose.is_sentence(line.text)]
    around = _circumstances(letter, shows_output=len(letter) < len(lines))
    found = list(islice(_asked(letter), _FIRST_ONES)) or _of_something_else(letter, around)
    there = {one.key: one.value for one in reversed(said) if one.stance == "here"}
    for about, sentence in found:
        beside = {one.key: one.value for one in reversed(prose.parse([sentence]))}
        versions = {key: value for key, value in {**there, **beside}.items() if key in _VERSIONS}
        yield Message(
            "question", sentence.number, sentence.text.strip()[:SHOWN], {"about": about, **versions, **around}
        )


def _asked(letter: Sequence[Line]) -> Iterator[tuple[str, Line]]:
    whole = "\n".join(line.text for line in letter)
    for line in letter:
        for sentence in _SENTENCE.split(line.text) if _ASKS.search(line.text) else ():
            if about := _topic(sentence, line.text, whole):
                yield about, Line(line.number, sentence)


def _of_something_else(letter: Sequence[Line], around: dict[str, str]) -> list[tuple[str, Line]]:
    """The first question of a letter about TensorFlow or GPUs in which nothing fails."""
    if around["trouble"] == "yes" or not any(_SUBJECT.search(line.text) for line in letter):
        return []
    return [("other", line) for line in letter if _ASKS.search(line.text)][:1]


def _topic(sentence: str, line: str, whole: str) -> str | None:
    """What a sentence asks, if it asks; "Why?" may stand after what it is about."""
    if _OTHER.search(sentence) and not _TENSORFLOW.search(sentence):
        return None
    for one in _TOPICS:
        asked = _ASKS.search(line if one.about == "first-run" else sentence)
        never = one.never and one.never.search(sentence)
        elsewhere = one.unnamed and _MACHINE.search(whole)
        there = one.around is None or one.around.search(whole)
        if asked and there and not elsewhere and not never and all(word.search(sentence) for word in one.words):
            return one.about
    return None


def _circumstances(letter: Sequence[Line], *, shows_output: bool) -> dict[str, str]:
    """Whether it is about Windows, and not WSL2; whether something may have failed."""
    text = "\n".join(line.text for line in letter)
    native = bool(_NATIVE.search(text))
    linux = _LINUX.search(text)
    windows = _WINDOWS.search(text) and (native or not linux)
    trouble = "yes" if shows_output or _TROUBLE.search(text) else "no"
    found = {
        "os": "windows" if windows else "linux" if linux else "",
        "native": "yes" if native else "",
        "graphics": "other" if _OTHER_GRAPHICS.search(text) else "",
        "trouble": trouble,
    }
    return {key: value for key, value in found.items() if value}
