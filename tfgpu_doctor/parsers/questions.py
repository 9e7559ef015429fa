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
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from tfgpu_doctor.facts.facts import Message
from tfgpu_doctor.facts.versions import at_least
from tfgpu_doctor.parsers import prose
from tfgpu_doctor.parsers.lines import Line, any_case
from tfgpu_doctor.parsers.messages import SHOWN
from tfgpu_doctor.parsers.statements import Statement

# ------------------------------------------------------------------------------------------ questions

_FIRST_ONES = 10  # questions
_A_RELEASE = any_case(r"\b(?:tensor ?flow\w*(?:-gpu)?|tf)(?: versions?)?[ =v]{0,3}([12]\.\d+)")
_SHORTEST = 4  # words of a question that counts as a further one, unlike "Why?"
_BY_NAME = ("release", "works")  # that another program may need otherwise
_KIN = {"works": "release", "enable": "in-use"}  # topics with one answer
_VERSIONS = ("tensorflow", "cuda", "cudnn", "python", "driver")
_Asked: TypeAlias = tuple[Line, dict[str, str]]  # a sentence, and what it asks with which versions
_LONGEST = 20_000  # characters of a text that asks: a letter, and no log
_SENTENCE = re.compile(r"(?<=[?!？！。])\s*|(?<=[a-z\d).]\.)\s+(?=[A-Z])")


class _Topic(NamedTuple):
    about: str
    words: tuple[re.Pattern[str], ...]  # all of them stand in the sentence
    never: re.Pattern[str] | None = None  # and this does not
    around: re.Pattern[str] | None = None  # this stands anywhere in the text
    unnamed: bool = False  # nothing in the text names a card, a system or a version


_ASKS = any_case(
    r"[?？]|^\W*(?:\[[^\]]{1,30}\]\W*)?(?:which|what(?! [\w ]{1,12}:)|how|can|could|does|do|is|are|will|why|should"
    r"|recommended|welche|wie|quelle?s?|comment|qué|cómo|cuál|qual|como)\b|\b(?:need|like|want) to know\b|\bwondering\b"
    r"|\btell me\b"
    r"|\bi am (?:looking|searching) for\b"
    r"|哪|什么|怎么|如何|多少|吗|どの|어떤|\btask ?manager\b"
    r"|^\W*(?:feature request\W*)?(?:(?:please |add )*support (?:for|of)|provide|(?:cuda|python) [\d.]+ support)\b"
)
_SUBJECT = any_case(
    r"tensor ?flow|\btf\b|keras|cuda|cudnn|\bgpus?\b|graphics card|\b[gr]tx|geforce|quadro|tesla|radeon|nvidia"
)
_OTHER = any_case(r"\b(?:py)?torch\b|\bjax\b|\bcupy\b|\bopencv\b|\btfjs|tensorflow[. ]?js\b")
_TENSORFLOW = any_case(r"tensor ?flow|\btf\b|keras")
_NEEDED = any_case(r"\b(?:need(?:ed|s)?|necessary|required?|have to|must|should i)\b")
_LIBRARY = any_case(r"\bcuda\b|cudnn|tool ?kit")
_PACKAGES = any_case(r"\bconda|\banaconda|\bpip\b|and-cuda|cudatoolkit|\bnvidia-\w+-cu1\d|docker|container")
_WHICH = any_case(
    r"\b(?:which|what|what's|whats|(?:looking|searching) for|recommended|exact|detail(?:ed|s)?|provide|share|specify"
    r"|welche[rsnm]?|quelle?s?|qué"
    r"|cu[aá]l(?:es)?|qual|quais|versions that)\b|哪|什么|多少|どの|어떤|как(?:ая|ой|ую)"
)
_WHICH_VERSION = any_case(r"\b(?:which|what) versions?\b.{0,30}\b(?:install|use|take|need)\b")
_THING = any_case(
    r"\b(?:versions?|releases?|cuda|cudnn|tensor ?flow\w*|tf|python|drivers?|combinations?|os|install|versi[oó]n\w*"
    r"|versão)\b|版本|バージョン|버전|верси"
)
_HOW = any_case(
    r"\bhow (?:do|can|to|should|would|could)\b|\b(?:is|are) there\b|\binstructions?\b|\bguide\b|\bsteps\b|\btell me\b"
    r"|\bcomment\b|怎么|如何"
)
_INSTALL = any_case(
    r"\binstall\w*|\bset(?:ting)?[ -]?up\b|\b(?:run|running|train|training|use|get)\b|\bversions?\b|安装|配置"
)
_WHETHER = any_case(
    r"\b(?:can|could|does|do|will|would|is|are|possible|kann|läuft|funktioniert|unterstützt|puedo|funciona|peut"
    r"|est-ce)\b|能|可以|支持"
)
_WORKS = any_case(
    r"\b(?:use|using|run|runs|work|works|install\w*|support\w*|compatib\w*|possible|train|take|need(?:ed)?|used|ok|okay"
    r"|fine|good|nutzen|läuft|funktion\w*|unterstützt|usar|utiliser|marche)\b|支持|兼容|能用"
)
_A_PYTHON = any_case(r"\bpython[ -]?3\.\d")
_RUNS_ON = any_case(r"\bcan it be done\b|\b(?:can|could|will|would|does) [^.?!]{1,40}\b(?:run|work) (?:on|with)\b")
_CHECKS = any_case(r"\b(?:check(?:ing)?|verify|know|tell|see|show|confirm|make sure|find out|determine)\b")
_USES = any_case(r"\b(?:us(?:es?|ed|ing|age)|performed|runs?|running|trains?|training)\b")
_RUNS_THERE = any_case(r"\bworks?\b|\bworking\b|\bgpu\b.{0,40}\bcpu\b")
_DEVICE = any_case(r"\bwhich (?:device|gpu)\b")
_THE_GPU = any_case(r"(?<![a-z])gpu(?![a-z])")
_FIRST = any_case(r"\bfirst\b.{0,30}?\b(?:run|call|epoch|step|iteration|batch|prediction|inference|image|session)")
_SLOW = any_case(r"slow|longer|differ|\btakes?\b|\bminutes?\b")
_SERVER = any_case(r"\bserving\b|\bmodel[_ ]server\b")
_TASK_MANAGER, _NOT_LOAD = any_case(r"\btask ?manager\b"), any_case(r"\b(?:performance|slow|speed|memory)")
_NOT_TOOLKIT = any_case(r"\b(?:which|what|why)\b")
_IN_CONTAINER = any_case(r"(?<!\bno )(?<!without )\b(?:docker|containers?|k8s|kubernetes)\b")
_CUDA_OR_DRIVER = any_case(rf"{_LIBRARY.pattern}|\bdrivers?\b")
_PUT_THERE = any_case(rf"{_NEEDED.pattern}|\b(?:install(?:ed)?|equal|same|different)\b")
_IS_USED = any_case(r"\b(?:is|are) (?:my|the) (?:\w+ )?gpus? (?:being |really |actually |even )?used\b")
# a wish for CUDA or Python of a version, which a later release may have fulfilled
_WISHED = any_case(
    r"^\W*when\b|\bwhen (?:will|can|is|are|does)\b|\b(?:plan(?:s|ned)?|expect|release|provide|yet|support (?:for|of))\b"
    r"|\b(?:cuda|python) [\d.]+ support\b|^\W*(?:cuda|python)[- ]?[\d.]+\W*$"
)
_A_VERSION = any_case(r"\b(?:cuda|python)[- ]?v?\d")
_NEWEST = any_case(r"\b(?:newest|newer|new|latest|recent) (?:versions? of )?(?:cuda|cudnn)\b")
_NOT_USE = any_case(r"\bfull|capabilit|efficien|\b(?:which|versions?|install\w*|why)\b|n['o]t\b")
_NO_ANSWER = any_case(
    r"\b(?:what (?:is|are) (?:this|the (?:problem|error|reason)))|\bwhat gpus? (?:do|did|have) you\b"
    r"|\b(?:did|do|have|had) you\b(?! (?:have an?y?|recommend|suggest|know)\b)|\bcan you (?:provide|share|tell)"
    r"|\byou (?:use[ds]?|are using|have|select|choose)\b(?! an?y?\b)|/device:|\bare you sure|\bor not\b|\bmake sure\b"
    r"|\bversions? of (?!(?:the |an? |your )?(?:nvidia|tensor|tf\b|keras|cuda|cudnn|python|driver))"
    r"|\b(?:any|some)(?:one|body)\b|\bwhy\b|为什么"
    # what a program needs, or does in what time, is its own affair; nobody here knows what will be
    r"|\bv-?gpus?\b|\bvirtual gpus?\b"
    r"|\bmemory\b|\bvram\b|显存|\d ?gb\b|\bbatch|\bbenchmark|\bhow (?:long|fast|many)\b|\bspeed|\bmulti(?:ple\b|-)"
    r"|^\W*when\b|\bwhen\W*$|\bplan(?:s|ned)?\b|\bgoing to\b|\bconsider|tensor ?rt|tf-?trt"
    r"|\b(?:is|are) (?:that|this|these|those|it)\b.{0,20}\b(?:warning|error)"
    r"|\bmeans? (?:that )?(?:my |the )?(?:tensor|tf)"
)
# texts about a program that may need a release of its own
_PROGRAM = any_case(
    r"\b(?:this|the|your|our|its) (?:\w+ ){0,2}?(?:repo\w*|project|code|program|packages?|library|tool|framework"
    r"|models?|course|notebook|examples?|demo|tutorial|plugin|script|app\w*|software|network)\b"
    r"|(?<!\()\byou (?:use[ds]?|using|are|ran|run|train\w*|have|had|did|select|recommend|plan|support|test\w*)\b"
    r"|\byour\b|\bmy (?:code|project|program)\b|\b(?:tf|tensor ?flow)[-. ]?v?1(?:\.?x| code)\b|\barc ?gis\b|\besri\b"
    r"|\bit (?:uses|requires|needs)\b|\braspberry|\bjetson|tfjs|tensorflow ?\.?(?:js|net|shar[pk])\b"
    r"|\bml\.net|\bserving\b"
)
# how a card goes with TensorFlow, whatever it costs
_BUYS = any_case(r"\b(?:buy(?:ing)?|purchas(?:e|ing))\b")
_A_CARD = any_case(r"\b(?:[gr]tx|geforce|quadro|tesla|titan|nvidia)\b|\b[gr]tx ?\d")
# which of several GPUs
_CHOOSES = any_case(r"\b(?:which|specif(?:y|ic)|select|choose|assign|restrict|certain|only|set\w*|other)\b|指定|选择")
_CHOSEN = any_case(
    r"\bgpus? (?:to use|to run|is used|id|number|no\b)|\b(?:specific|certain|different|one of the|the (?:first|second))"
    r" (?:\W?\w+\W? )?gpus?\b|\bof \d gpus\b|(?:指定|哪个|哪块).{0,6}(?:gpu|显卡)"
)
_ON_CPU = any_case(
    r"\b(?:on|with|using|to|use) (?:(?:the|an?|only|just|my) ){0,2}cpus?\b(?! (?:image|build|version|package|wheel))"
    r"|\btensorflow cpu instead\b|(?:^\W*|\b(?:with|have|has|is|are|got) )no (?:nvidia )?(?:gpu|card)\b"
    r"(?! (?:support|found|detect|avail|usage|is\b))|\b(?:without|\w{2,6}n['’]t have) (?:an? |the |any )?(?:nvidia )?"
    r"gpu\b"
    r"|\b(?:disable|turn off|switch off) (?:the )?gpu|\bwithout using (?:cuda|(?:the |a )?gpu)\b"
    r"|(?:cpu|无gpu).{0,20}(?:跑|训练|运行)"
)
_NOT_CPU = any_case(
    r"fast|slow|speed|\btime\b|\blong\b|\bwhy\b|多久|多长|\bcompil|\bwant (?:the |a )?gpu|\bgpu instead|\bhow many\b"
    r"|\byou (?:use|train)|\bthat you\b|\b(?:onto|get|using) (?:my |the |a )?gpu|\berror|\bstill\b|\breally\b|\bsays\b"
    r"|\b(?:sent|call) to\b|\bcan only\b|\d ?[mg]b\b|\b(?:am i|is (?:it|this|that)) (?:running|using|training)\b"
)
_OF_MEMORY = any_case(r"\bmemory\b|allow_growth|GPUOptions|显存")
_LIMITS = any_case(
    r"\b(?:(?:limit|decreas|reduc|configur|control|grow)\w*|fraction|allow_growth|GPUOptions|only|all of|share|stop"
    r"|eating|restrict)\b"
)
_SETTING = any_case(r"\bwhich (?:parameter|flag|option|setting|argument)s?\b")
_ENABLES = any_case(r"\b(?:us(?:e|es|ing)|run|train(?:ed|ing)?|enable|work|support\w*|with|by|on)\b|用")
# whoever names one of these asks about versions, a system, or a card
_NAMES_MORE = any_case(
    r"\binstall\w*|\bset(?:ting)?[ -]?up\b|versions?\b|\b[gr]tx|geforce|quadro|tesla|radeon|\bamd\b|intel|rocm|\bmac\b"
    r"|\bm[1-4]\b|windows|ubuntu|jetson|raspberry|colab|docker|multi|multiple|several|\bno gpu|nvidia|\bwhy\b"
    r"|\d ?gb\b|/device|\blong\b|fast|slow|\byou\b|\bneed|\bmemory\b|\bwhat\b|\bspeed|\bgpu no\b|\bsome gpus"
    r"|安装|版本|\b(?:cuda|cudnn|python|tf|tensorflow)[ -]?v?\d"
)
_MACHINE = any_case(
    r"\bvram\b|\d ?gb\b|\b[gr]tx ?\d|geforce|quadro|tesla|titan|windows|ubuntu|\bwsl|macbook|jetson|\d\.\d"
)
_REPAIR = any_case(
    r"\b(?:fix|solve|resolve|disable|avoid|limit|error|perform|utili[sz]|slow|fast|speed|improv)|tensor ?rt|tf-?trt"
    r"|\d ?ms\b"
)
_FOR_HELP = any_case(r"\b(?:any|some)(?:one|body)\b|\bwhy\b|为什么")
# work for several GPUs, and what spreads it already
_SEVERAL = any_case(
    r"\bmulti[- ]?gpus?\b|\b(?:multiple|several|both|many|(?:all|both)(?: of)?(?: the| my)?(?: \w+)?|more than one"
    r"|[2-9]|1\d|two|three|four|eight) (?:gpus\b|gpu cards\b|graphics? cards\b)|多(?:gpu|卡|显卡)"
)
_SPREADS = any_case(
    r"\b(?:us(?:e|ing)|(?:utili[sz]|run|train|work|support|paralleli|distribut)\w*|spread)\b(?!.{0,30}\bvisible)"
)
_ONE_OF_SEVERAL = any_case(
    r"(?s)\A(?!.*\b(?:(?:whole|all the) memory|memory (?:on|of)|occupied)\b).*"
    r"(?:\bonly (?:one|1|a single|the first|a) (?:gpu|card)\b"
    r"|\bonly (?:us(?:e|es|ing)|utili[sz]es?|runs? on|trains? on) (?:one|1|a single|the first|gpu ?:?0)\b"
    r"|\b(?:second|other|remaining) (?:gpus?|ones?)\b.{0,20}(?:\bidle|\b0 ?%|unused)"
    r"|\bgpu ?1 (?:is |stays )?(?:at |idle)"
    r"|\b(?:run|train|comput)\w* (?:it )?on (?:both|all of them|all (?:three|four|\d))\b)"
)
_IS_SPREAD = any_case(
    r"strategy\b|horovod|multi_gpu_model|\bnccl|\bscal(?:e|es|ing)\b|fast|slow|speed|\bhang|\bwhich\b|\bhow many\b"
    r"|\bdifferent\b|\bmemory\b|\bvisible\b|\byou (?:use|train)"
)
_TOPICS = (
    _Topic("wish", (_WISHED, _A_VERSION), around=_TENSORFLOW),
    _Topic("container", (_CUDA_OR_DRIVER, _PUT_THERE), _NOT_TOOLKIT, around=_IN_CONTAINER),
    _Topic("toolkit", (_NEEDED, _LIBRARY, _PACKAGES), _NOT_TOOLKIT),
    _Topic("load", (_TASK_MANAGER,), _NOT_LOAD, around=_THE_GPU),
    _Topic("in-use", (_IS_USED,), _NOT_USE),
    _Topic("in-use", (_CHECKS, _USES, _THE_GPU), _NOT_USE),
    _Topic("in-use", (_HOW, _CHECKS, _USES, _DEVICE)),
    _Topic("in-use", (_HOW, _CHECKS, _RUNS_THERE, _THE_GPU), _NOT_USE),
    _Topic("first-run", (_FIRST, _SLOW)),
    _Topic("server-memory", (_OF_MEMORY, _LIMITS), _FOR_HELP, around=_SERVER),
    _Topic("memory", (_OF_MEMORY, _LIMITS), _FOR_HELP, around=_SUBJECT),
    _Topic("choice", (_CHOOSES, _CHOSEN), _FOR_HELP),
    _Topic("several", (_SEVERAL, _SPREADS), _IS_SPREAD),
    _Topic("several", (_ASKS,), _IS_SPREAD, around=_ONE_OF_SEVERAL),
    _Topic("cpu", (_ON_CPU,), _NOT_CPU),
    _Topic("release", (_WHICH, _THING, _SUBJECT), _NO_ANSWER),
    _Topic("release", (_WHICH_VERSION,), _NO_ANSWER, around=_SUBJECT),
    _Topic("release", (_BUYS, _A_CARD), around=_TENSORFLOW),
    _Topic("enable", (_HOW, _ENABLES, _THE_GPU), _NAMES_MORE, unnamed=True),
    _Topic("enable", (_SETTING, _ENABLES, _THE_GPU), _NAMES_MORE, unnamed=True),
    _Topic("enable", (_WHETHER, _ENABLES, _THE_GPU), _NAMES_MORE, unnamed=True),
    _Topic("release", (_HOW, _INSTALL, _SUBJECT), _REPAIR),
    _Topic("works", (_WHETHER, _WORKS, _SUBJECT), _NO_ANSWER),
    _Topic("works", (_WHETHER, _WORKS, _A_PYTHON), _NO_ANSWER, around=_SUBJECT),
    _Topic("works", (_RUNS_ON,), _NO_ANSWER, around=_MACHINE),
)
# whoever writes such a word may have seen something fail, whatever they ask
_TROUBLE = any_case(
    r"\b(?:errors?|fail\w*|crash\w*|traceback|exception|(?:does|did)(?: not|n't)|can ?not|unable"
    r"|(?:not|\w{2,5}n't) (?:work|found|find|detect|us|see|load|recogni)\w*|problems?|issues?|wrong|broken"
    r"|stuck(?! (?:on|with) an? (?:\w+ )?version)|out of memory|oom)\b"
)
_NATIVE = any_case(r"\b(?:no|not|without|instead of)\W{1,3}(?:\w+ )?wsl|\bnative(?:ly)?\b")
_WINDOWS = any_case(r"\bwindows(?! subsystem)(?![a-z])|윈도우")
_LINUX = any_case(r"\bwsl|\blinux\b|ubuntu|debian|fedora|centos")
_OF_A_FORM = re.compile(r"\s*(?:https?://\S+|```\w*|.{0,30})\s*$")  # what stands in a letter that shows no output
# of a form that was filled in
_EXAMPLE = any_case(r"\(e\.g\.[^()\n]*\)|(?m:^(?:#{2,}|\*\*)[^\n?]{0,90}$)")
# a machine that has no GPU of NVIDIA's, in a text that may speak of one
_OTHER_GRAPHICS = any_case(r"\b(?:only|just) (?:have|has|got) (?:an? )?(?:intel|amd|radeon|iris)|\braspberry")
_SMI, _NVCC = any_case(r"\bnvidia[- ]?smi\b"), any_case(r"\bnvcc\b")
# 7.0 to 19.9, and no longer version
_CUDA = any_case(r"(?<![\d.])(?<!cudnn )v?((?:[7-9]|1\d)\.\d)(?!\d)")


_SUPPORTED_AND_NEEDED = any_case(
    r"\bnvidia[- ]?smi\b[^.?!]{0,40}?(?P<supported>1\d\.\d)(?!\d).{0,60}\b(?:needs?|requires?|built (?:for|with)"
    r"|wants)\b.{0,20}?(?P<needed>1\d\.\d)(?!\d)"
)


def compared(lines: Sequence[Line]) -> Iterator[Message]:
    """Lines that name nvidia-smi and nvcc, or what TensorFlow needs, and two versions that differ."""
    for line in lines:
        if not (_SMI.search(line.text) and prose.is_sentence(line.text)):
            continue
        numbers, text = _CUDA.findall(line.text), line.text.strip()[:SHOWN]
        asked = _SUPPORTED_AND_NEEDED.search(line.text)
        if _NVCC.search(line.text) and len(numbers) == 2 and len(set(numbers)) == 2:
            yield Message("cuda-versions-compared", line.number, text)
        elif asked and "?" in line.text and at_least(asked["supported"], asked["needed"]):
            yield Message("cuda-versions-compared", line.number, text, asked.groupdict())


def parse(lines: Sequence[Line], said: Sequence[Statement]) -> Iterator[Message]:
    """The first questions, each with the versions that it names, else those that stand around it; none in a log.

    Args:
        said: what `prose.parse` finds in these lines.
    """
    if sum(len(line.text) for line in lines) > _LONGEST:
        return
    letter = [line for line in lines if prose.is_sentence(line.text)]
    whole = "\n".join(line.text for line in letter)
    around = _circumstances(whole, shows_output=any(map(_is_output, lines)))
    sentences = list(islice(_asked(letter, whole), _FIRST_ONES))
    found = [one for one in sentences if _is_answered(one[0], around)] or _of_something_else(letter, around)
    there = _versions_around(said, whole)
    asked = [(sentence, _values(about, sentence, there, whole)) for about, sentence in found]
    if len(found) < len(sentences) or _leaves_more(asked):
        around["more"] = "yes"
    if len(cards := dict.fromkeys(prose.cards_in(whole))) > 1:
        around["cards"] = "; ".join(cards)
    for sentence, values in [*filter(_is_clear, asked)] or asked:
        yield Message("question", sentence.number, sentence.text.strip()[:SHOWN], values | around)


def _is_output(line: Line) -> bool:
    return not (prose.is_sentence(line.text) or _OF_A_FORM.match(line.text))


def _is_answered(about: str, around: dict[str, str]) -> bool:
    """Whether it is answered; wishes, and how containers are made, only where nothing fails."""
    return bool(about) and (around["trouble"] == "no" or about not in ("wish", "container"))


def _is_clear(asked: _Asked) -> bool:
    """Whether what answers it needs no version, or it names one."""
    return "tensorflow" in asked[1] or asked[1]["about"] not in _BY_NAME


def _versions_of(said: Iterable[Statement]) -> dict[str, str]:
    return {one.key: one.value for one in said if one.key in _VERSIONS}


def _versions_around(said: Sequence[Statement], whole: str) -> dict[str, str]:
    """The versions of the machine; of several releases nobody says which one is meant."""
    found = _versions_of(one for one in reversed(said) if one.stance == "here")
    if len(set(_A_RELEASE.findall(whole))) > 1:
        found.pop("tensorflow", None)
    return found


def _leaves_more(asked: Sequence[_Asked]) -> bool:
    """Whether several things are asked, or what a program needs."""
    kinds = {(_KIN.get(values["about"], values["about"]), *[*values.items()][1:]) for _, values in asked}
    return len(kinds) > 1 or any(values["about"] in _BY_NAME and "direct" not in values for _, values in asked)


def _values(about: str, sentence: Line, there: dict[str, str], whole: str) -> dict[str, str]:
    """Its topic, the versions beside it, and whether it is about TensorFlow itself, not what a program needs."""
    named = prose.parse([sentence])
    beside = _versions_of(named if about == "wish" else reversed(named))  # of 11.1 or 11.2, the later one
    if card := prose.card_in(sentence.text):  # another sentence may name that of somebody else
        beside["gpu"] = card
    if _NEWEST.search(sentence.text) and not beside:  # and not the one that is there
        return {"about": "release", "direct": "yes"}
    elsewhere = about == "works" and "tensorflow" in there and "tensorflow" not in beside  # what is asked of, is not
    direct = _TENSORFLOW.search(sentence.text) and not (elsewhere or _PROGRAM.search(whole))
    return {"about": about, **there, **beside, **({"direct": "yes"} if direct else {})}


def _asked(letter: Sequence[Line], whole: str) -> Iterator[tuple[str, Line]]:
    """Each sentence that asks, with its topic, empty where it has none."""
    for line in letter:
        for sentence in _SENTENCE.split(line.text) if _ASKS.search(line.text) else ():
            about = _topic(sentence, line.text, whole) or ""
            no_title = line is not letter[0] or len(letter) == 1
            if about or (no_title and sentence.rstrip()[-1:] in "?？" and len(sentence.split()) > _SHORTEST):
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
        if not asked or not all(word.search(sentence) for word in one.words):
            continue  # the whole text is searched for few sentences
        never = one.never and one.never.search(sentence)
        elsewhere = one.unnamed and _MACHINE.search(whole)
        if not (never or elsewhere) and (one.around is None or one.around.search(whole)):
            return one.about
    return None


def _circumstances(text: str, *, shows_output: bool) -> dict[str, str]:
    """Whether it is about Windows, and not WSL2; whether something may have failed."""
    text = _EXAMPLE.sub("", text)
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
