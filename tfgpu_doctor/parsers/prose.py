"""What people write in sentences: the card, the versions, the system; of here, of elsewhere, or of what is wanted.

A form, a list or a program's output says what it means by its shape. A sentence does not: "CUDA 11.2" is there, is
asked for, is what the driver supports, or was there last year. The words around a number decide.

>>> text = '''I've got a 1070ti and tf-gpu 1.14 with cuda 10.0, but TensorFlow 2.4 needs CUDA 11.
... nvidia-smi says CUDA 12.2. 我的显卡是RTX 3090，cudnn 7.4'''
>>> for one in parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)]):
...     print(one.line, one.key, one.value, one.stance)
1 gpu 1070ti here
1 tensorflow 1.14 here
1 cuda 10.0 here
1 tensorflow 2.4 wanted
1 cuda 11 wanted
2 supported 12.2 here
2 gpu RTX 3090 here
2 cudnn 7.4 here

What people say of a machine without an NVIDIA GPU, and of a job that is to run on the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tfgpu_doctor.facts.versions import major
from tfgpu_doctor.parsers import statements
from tfgpu_doctor.parsers.lines import Line, any_case
from tfgpu_doctor.parsers.statements import Statement

# ------------------------------------------------------------------------------------------ prose

LONGEST = 2_000  # characters of a line; people write a paragraph as one
_AROUND = 45  # characters around a number whose words decide


# lines of programs, of code, and links
_OF_A_PROGRAM = re.compile(
    r"^\s*(?:File \"|(?:conda|mamba) (?:create|activate) |Collecting |Downloading |Requirement already|Using cached "
    r"|Installing |Building |Step \d|--->|\+-|#include|import |from \S+ import|>>>|\$ |[\w.-]+@[\w.-]+[:~])"
    # a row of a table, but for a label and its value
    r"|^\s*[|+](?! *[A-Za-z][\w -]{1,30}\|[^|]*\|\s*$)"
    r"|^\d{4}-\d\d-\d\d[ T]\d\d:|^\s*\[?[IWEF]\d{4} |\.(?:cc|py|cpp|h):\d|site-packages|dist-packages|\.whl\b"
    r"|^\s*[\w.\[\]-]+ ?==\S+$|^\s*[\w-]+ +\d+(?:\.\d+)+ +(?:py(?!thon)|h[0-9a-f]|conda|cuda|gpu|mkl|pyh)|^https?://\S+$"
    r"|^\s*WARNING:tensorflow:|^\s*[\w.+:-]{2,60} : (?:Pre)?Depends: ",
)
_LINKED = re.compile(r"https?://\S+")  # its page may be about any card
_ERROR = re.compile(r"\w(?:Error|Warning|Exception): ")
_CLAUSE = any_case(
    r"(?<=[\w)\]'\"`%])[.!?;](?=\s|$)|[。！？；]|\s[-–—]{1,2}\s|\b(?:but|however|while|whereas|although|though|aber|pero"
    r"|mais|sondern)\b|但是?|しかし|ですが|하지만|\bно\b"
)
_VERSION_WORD = (
    r"(?:version|ver\.?|v\.?|release|toolkit|sdk|number|of|is|are|was"
    r"|[装裝](?:的是|了)|版本|必须是|需要|バージョン|버전|верси[яию]|versi[oó]n|versão)"
)
_LINK = rf"[^\w\n.,;]{{0,4}}(?:{_VERSION_WORD}[^\w\n.,;]{{0,3}}){{0,2}}v?"
_NUMBER = r"(?P<number>\d{1,3}(?:\.\d{1,3}){0,3})(?![\d%]|\.\d|[-\s]?(?:GB|MB|GiB|gig|bit|x\b|fps|times|hours|min|sec))"
_RELEASE = _NUMBER.replace("{0,3})", "{0,3}(?:[-.]?(?:rc|alpha|beta|a|b)\\d{1,2}\\b(?!-\\d))?)")
_NAMED = {
    # the number behind "CUDA/cuDNN" is CUDA's, and so is the first of "cudnn-8.0-v5.1"; the 7 of "libcudnn7=" is none
    "cudnn": r"(?<!/)(?<!/ )(?:lib)?cu ?dnn(?!\d(?:-dev)?[_=]|-?\d{1,2}[.-]\d-)",
    "cuda": r"(?<!\d\+)cuda(?: ?tool ?kit)?",  # of "8.0.5-1+cuda11.0" the CUDA that a package is for
    # "tensorflow<2.11" names what it is not
    "tensorflow": r"(?:tensor[- ]?flow|(?<![A-Za-z0-9_.])tf)(?:[-_ ]?(?:gpu|cpu)|\[and-cuda\]|\.__version__)?"
    r"(?!\W{0,2}(?:<(?!=)|!=))",
    "python": r"(?<![A-Za-z0-9_.-])(?:python|py)",
    "driver": r"(?:drivers?|nvidia(?:[- ]smi)?(?=\W{1,3}[345]\d\d\.\d)"
    r"|treiber|драйвер\w{0,2}|驱动(?:程序)?|驅動|ドライバー?|드라이버)",
}
# "tensorflow gave me 2.17", "TensorFlow (the newest, 2.16.1)"
_TENSORFLOW = any_case(
    r"(?<![A-Za-z0-9_.-])tensor[- ]?flow(?:-gpu|-cpu)?\W{1,3}(?:(?!cuda|cudnn|python|driver|numpy|keras|torch|tfjs|http"
    r"|js\b|lite\b|hub\b|addons|text\b|serving|datasets|probability|estimator|models\b|federated|quantum|on\b"
    r"|with\b(?! (?:pip|conda)\b)|needs?\b|for\b)(?:[A-Za-z][A-Za-z']{0,11}|')\W{1,3}){1,3}"
    r"v?(?P<number>[12]\.\d{1,2}(?:\.\d{1,2})?)(?![\d%]|\.\d)"
)
# "pip install tensorflow in a new environment, got 2.19.0"
_TENSORFLOW_GOT = any_case(
    r"\binstall\w*\W[^\n]{0,20}?\btensor[- ]?flow\b[^\n]{0,70}?\b(?:got|gets?|gave me|gives me|pulled(?: in)?|brought)"
    r"\W{1,3}(?:me |version |tensorflow )?v?(?P<number>[12]\.\d{1,2}\.\d{1,2})(?![\d%]|\.\d)"
)
# "installing tensorflow on windows. For version 1.3, you say"
_TENSORFLOW_FOR = any_case(
    r"\btensor ?flow\b[^\n]{0,30}?\bfor version (?P<number>[12]\.\d{1,2}(?:\.\d{1,2})?)(?![\d%]|\.\d)"
)
_VERSIONS = (
    *(
        (key, any_case(rf"(?P<name>{name}){_LINK}{_RELEASE if key == 'tensorflow' else _NUMBER}"))
        for key, name in _NAMED.items()
    ),
    ("tensorflow", _TENSORFLOW),
    ("tensorflow", _TENSORFLOW_GOT),
    ("tensorflow", _TENSORFLOW_FOR),
    ("driver", any_case(r"(?<![\d.])(?P<number>[345]\d\d\.\d{2,3}(?:\.\d{2})?) (?:nvidia|geforce)[- ]drivers?\b")),
    ("cuda", any_case(r"(?<![\d.])(?P<number>(?:[7-9]|1[0-3])\.\d) (?P<name>cuda)\b")),
    ("cuda", any_case(r"\bversion of cuda (?:\w+ ){1,4}is (?P<number>\d{1,2}\.\d)\b")),
)
_AND_CUDA = any_case(r",? (?:and|&) v?(?P<number>1[0-3]\.\d)\b(?! ?(?:cu ?dnn|\d))")  # "CUDA v12.6 and v11.8"
_TELLING = (
    *("cu", "tensor", "tf", "py", "cp", "driver", "nvidia"),
    *("treiber", "драйвер", "驱动", "驅動", "ドライバ", "드라이버"),
)  # each expression above and _SHORT_PYTHON need one of them
_LIMITS = {"cuda": (5, 19), "cudnn": (4, 9), "tensorflow": (0, 2), "python": (2, 3), "driver": (300, 999)}
_DOTTED = ("tensorflow", "python")  # a bare "2" or "3" says nothing
_SHORT_PYTHON = any_case(r"(?<![A-Za-z0-9_.])(?:py|python|cp)(?P<major>[23])(?P<minor>\d{1,2})\b")
_GPU = any_case(
    r"(?<![A-Za-z0-9_.])(?<!amd )(?:\d{1,2} ?x ?)?(?P<name>(?:nvidia |geforce |quadro |tesla ){0,2}(?:p10[246]-\d{3}"
    r"|(?:rtx|gtx|gts|gt)[ -]?(?:titan(?: ?(?:x|z|black))?|(?:pro )?[a-z]?\d{3,4}(?:[adehm]|mx|(?<=1650|1660|2060|2070"
    r"|2080|4070|4080)s)?)|titan (?:rtx|xp?|v|z|black)|titanx?p?|mx[ -]?\d{3}|jetson (?:nano|tx[12]|tk1|t[2-5]000"
    r"|xavier(?: nx)?|agx \w+|orin(?: (?:nano|nx))?|thor)|igx orin|tegra [kx][12]|(?<=nvidia )(?:orin|thor)"
    r"|drive p2021|gp10b|eizo quadro med-xn\d\d(?:lp)?|matrox d-series d\d{4}|nvs \d{3,4}m?|grid k\d{1,3}"
    r"|(?:quadro )?fx \d{3,4}m?|(?<=quadro )(?:[kmpt]?\d{3,4}[md]?|gp100|gv100|rtx \d{4})"
    r"|(?<=nvidia )(?:[kmpt]\d{2,4}m?|[mp][46]|k8(?!s)|\d{3,4}mx?|\d{3}a|a2|l2)|(?<=tesla )[kmpt]\d{1,2}(?:st|d)?"
    r"|(?<=geforce )(?:\d{3}[am]|[4-9]\d[05](?! ?driver))|dgx spark|gb300|cmp \d{2,3}(?:hx|-\d{3})|pg5\d\d-\d{3}"
    r"|[89]\d0mx?|[0-9]{3}mx|(?:[5-9][5-8]|10[1-8]|16[3-6]|20[5-8]|30[5-9]|40[5-9]|50[5-9])0[ -]?(?:ti|super)|a100x?"
    r"|a10g?|a16|a30x?|a40|ax?800|h100|h200|h800|h20|gh200|gb200|gb10|b100|b200|b300|l4|l40[gs]?|l20|v-?100s?|t4g?|p-?100"
    r"|p40|p4|k80|k40(?:[cmsdt]|st)?|k20[cmsx]?|k520|m40|m60|m10|[cs]20[57][05]|[mx]20[579][05]|a[2-6]000|a4500|a5500"
    r"|t[12]000|(?P<bare>(?:10[1-8]|16[3-6]|20[5-8]|30[5-9]|40[5-9]|50[5-9])0|(?<!thinkpad )(?:[kmpt][1-6]\d00m?"
    r"|[kpt][4-6][0-5]0e?)))(?:[ -]?(?:ti|super|ada(?: generation)?|sff|laptop(?: ?gpu)?|mobile|max-?q|notebook|sxm\d?"
    r"|pcie|\(?pascal\)?|(?<=640m )le|(?<=560 )se|(?<=m3000 )se|(?<=[45]090 )d(?: v2)?|(?<=3050 )a(?= laptop)|boost"
    r"|mx?)(?![A-Za-z0-9])){0,4})(?:gpu)?s?(?![A-Za-z0-9_%]|\.\d| ?(?:percent|hours?)\b)"
)
_CHOICE = any_case(
    r"\b(?:geforce|nvidia|[gr]tx)\b.{0,40}\b(?:or|vs\.?|versus)\b"
    r"|\b(?:or|vs\.?|versus)\b.{0,40}\b(?:geforce|nvidia|[gr]tx)\b"
)
_OTHER_GPU = any_case(
    r"(?<![A-Za-z0-9_.])(?:(?:amd |ati )?(?:radeon(?: (?:rx|hd|pro|vega|r[579x]))?(?: ?\d{3,4}\w{0,3})?"
    r"|rx[ -]?(?:vega ?)?(?:\d{3,4}|56|64)(?: ?(?:xtx?|gre|[ms]))?)|(?:intel(?:\(r\))? )?(?:iris(?:\(r\))?(?: xe| plus"
    r"| pro)|u?hd graphics(?: \d{3,4})?|uhd \d{3}|(?<=intel )hd \d{3}|arc [ab]\d{3}m?)|intel graphics)(?![A-Za-z0-9_])"
)
# a bare number is a card only beside one of these words
_CARD_WORD = any_case(
    r"gpu|card|nvidia|ge ?force|[gr]tx|laptop|显卡|tarjeta|placa|carte|karte|видеокарт"
    r"|\b(?:on|my|with an?) (?:20[678]|30[5-9]|40[5-9]|50[6-9])0\b"
)
_NO_CARD = any_case(r"^(?:t1|l4t|p4d)$")
_WANTED = any_case(
    r"\b(?:need|require|rel(?:y|ies) on|want|expect|recommend|support|compatib|should|must|could i|can i|look(?:s"
    r"|ing)?(?: \w+ly)? for|asks?|asking for|search|minimum|at least|official|document|doc says|speaks? of|highest"
    r"|(?<!i )(?<!we )tested|compiled|ha(?:s|ve) to be|built (?:for|against|with)|designed|meant|intended|instead of"
    r"|rather than|which|whether|upgrade to|downgrade to|switch(?:ing)? to|wait(?:ing)? for|not found|missing"
    r"|could not|cannot open|no longer|does ?n[o']t(?! (?:find|see|detect|use|recogni[sz]e|list|show|run|work|start)\b)"
    r"|is ?n[o']t|without|not (?:have|install)|never install|only (?:for|works? with|up to)"
    r"|or (?:earlier|later|newer|above|higher|below)|download|from this url|you may install"
    r"|you (?:can|may|could) use|tutorials?|read ?me|wheels? (?:is |are )?(?:for|with)|必须|需要|吗|cuda version:)"
)
_OR_LATER = any_case(r"\W{0,3}\(?(?:or|and) (?:later|newer|above|higher|greater|up)\b")  # of a table that is quoted
_OWN = any_case(r"\bmy (?:installed |current |local )?$")  # "my CUDA 10.2 is not compatible with it"
_IS_WHAT = any_case(r"\s*is what (?!i\b|we\b)")  # "CUDA 9.2 is what it needs"
_PART = re.compile(r"[,，、;(]|\b(?:and|so|then|when|y|und|et)\b")
_SUPPORTED = any_case(r"nvidia[- ]?smi|driver (?:supports?|reports?|shows?|says?)|\b(?-i:CUDA Version) *:")
_TOOLKIT = any_case(r"nvcc|toolkit|install")
_ELSEWHERE = any_case(
    r"\b(?:previous(?:ly)?|before|used to|earlier|originally|formerly|in the past|last (?:week|month|year)"
    r"|(?:an)?other (?:machine|computer|pc|server|laptop|system|env\w*|box|node)"
    r"|(?<!have an )(?<!got an )old (?:machine|computer|pc|laptop|card|gpu|\S+ (?:\S+ )?with)"
    r"|uninstall\w*|removed?|(?:also|have|already)? ?tried)\b|\b(?:i|we) had (?:an? |the |my )?$"
    # what is installed on it may bring another
    r"|\bbase image (?:\w+ ){0,3}(?:uses?|with|has|contains|of|comes with)\b"
    # "from A to B": A
    r"|(?:\b(?:mov|switch|coming|migrat|upgrad|downgrad|chang|updat|went|wechs|gewechs|umgestieg|cambi|pass|mud)\w*"
    r"\W(?:\w+\W+){0,4}?(?:from|von|vom|de|desde)\b|从|從)(?!.*(?:\b(?:to|auf|zum?|à|para|al)\b|到|成))"
)
# "upgraded TensorFlow from A to B": A, where the name of what was upgraded stands before "from"
_MOVED_FROM = any_case(r"\b(?:upgrad|downgrad|updat|switch)\w*\W(?:\w+\W+){0,4}?from\W{1,3}v?\d[\d.]*$")
_OF_OTHERS = any_case(
    r"\b(?:(?:friend|colleague|cousin|neighbou?r|classmate|co-?worker|room-?mate|brother|everybody"
    r"|everyone)(?:['’]?s)?|kolleg\w*|freund\w*|nachbar\w*|coll[èe]gue|voisin|ami|amigo|primo|colega|compañer[oa]"
    r"|vecino|vizinho|друг[ау]?|коллег\w*|сосед\w*)\b|同学|朋友|同事"
)
_MINE = any_case(r"\b(?:my|mine|i have|i['’]ve|mein\w*|ich habe|mon|mi|meu|minha|у меня|мо[йяё])\b|我的|我用")
_COMPARED = re.compile(r"[<>≥≤~]")  # "driver>=450"
# "better change it to tensorflow-gpu==1.5", and not "I changed it to"
PROPOSES = any_case(r"\b(?:change|pin|replace|bump) (?:it|this|that|them|(?:\S+ ){0,2}\S+) (?:to|with|by)\b")
# "replaced A with B": A
_EXCHANGES = any_case(
    r"(?:\b(?:replac|swap|exchang|chang|trad|ersetz|tausch|getauscht|cambi|remplac|troqu|substitu)\w*"
    r"|(?:по|за|с)менял\w*|заменил\w*|сменил\w*)\W[^,.;]{0,20}$"
)
_FOR_ANOTHER = re.compile(r"(?i)\W{0,3}(?:\w+\W+){0,2}?(?:with|for|by|against|на|durch|gegen|por|par|pour)\b")
# "it works with CUDA 10" is of another set-up; "does it work with an RTX 3090" asks about this one
_WORKS_WITH = any_case(r"\bwork(?:s|ed) (?:fine |well |perfectly |ok |great )?(?:on|with|in|under|for)\b")
# "2.3.1 works fine", and another one does not; on the CPU, or in a shell, it is this one
_WORKS = re.compile(
    r"(?:[^.;!?]|\.(?=\w)){0,45}?\b(?:works|worked) (?:fine|well|perfectly|great|ok)\b"
    r"(?! (?:on|with|in|from|under|when|if))"
)
_IN_THE_PAST = any_case(
    r"(?:\.post\d)? ?(?:→|->|=>|:) ?(?:GPU|works|OK|fine|läuft|funciona)\b"
    r"|[^,.;]{0,20}\b(?:in the past|before|earlier|previously|last (?:week|month|year))\b"
)
_NOT_HERE = (_ELSEWHERE, _WORKS_WITH, PROPOSES)


def parse(lines: Sequence[Line]) -> tuple[Statement, ...]:
    """Everything that sentences name, in the order of the text."""
    return tuple(one for line in lines if _may_name(line.text) and is_sentence(line.text) for one in _of_line(line))


def _may_name(text: str) -> bool:
    """A cheap test that most lines of a log fail; a clause names nothing that its line does not."""
    small = text[:LONGEST].lower()
    return any(word in small for word in _TELLING) or any(one.search(small) for one in (_GPU, _OTHER_GPU))


def is_sentence(text: str) -> bool:
    """Whether a person wrote the line, as far as its shape tells."""
    return len(text) <= LONGEST and _OF_A_PROGRAM.search(text) is None


def _of_line(line: Line) -> Iterator[Statement]:
    for clause in clauses(line.text):
        error = _ERROR.search(clause)  # what a program says behind it is not the reporter's
        for key, value, start, end in sorted(_of_clause(clause), key=lambda one: one[2]):
            if key == "gpu" or error is None or start < error.start():
                yield Statement(key, value, value, line.number, stance(clause, start, end))


def clauses(text: str) -> Iterator[str]:
    """The parts of a line that may contradict each other."""
    start = 0
    for match in _CLAUSE.finditer(text):
        yield text[start : match.start()]
        start = match.end()
    yield text[start:]


def _of_clause(clause: str) -> Iterator[tuple[str, str, int, int]]:
    """Key, value, first and last place."""
    taken: list[tuple[int, int]] = []
    for key, pattern in _VERSIONS:
        for match in pattern.finditer(clause):
            if any(first <= match.start("number") < last for first, last in taken):
                continue
            if value := _version(key, match["number"]):
                taken.append(match.span())
                # what the driver supports; a clause that speaks of nvcc too is told apart by its order
                named = "supported" if _is_supported(key, clause, match.start()) else key
                yield named, value, match.start(), match.end()
                second = _AND_CUDA.match(clause, match.end()) if named == "cuda" else None
                yield from [(named, second["number"], match.start(), second.end())] if second else ()
    for match in _SHORT_PYTHON.finditer(clause):
        yield "python", f"{match['major']}.{match['minor']}", match.start(), match.end()
    for match in _GPU.finditer(_LINKED.sub(lambda link: " " * len(link[0]), clause)):
        name = " ".join(match["name"].split())
        if not _NO_CARD.match(name) and not (match["bare"] == match["name"] and not _CARD_WORD.search(clause)):
            yield "gpu", name, match.start(), match.end()
    yield from (("gpu", match[0], match.start(), match.end()) for match in _of_other_makers(clause))


def _is_supported(key: str, clause: str, start: int) -> bool:
    """Whether a number is the CUDA that the driver supports, and not an image's or a toolkit's."""
    is_driver = key == "cuda" and _SUPPORTED.search(clause) and not _TOOLKIT.search(clause)
    return bool(is_driver) and not clause.endswith("nvidia/", 0, start)


def _of_other_makers(clause: str) -> Iterator[re.Match[str]]:
    """GPUs of other makers; of "GeForce or Radeon?", which asks, none."""
    return iter(()) if _CHOICE.search(clause) else _OTHER_GPU.finditer(clause)


_FOR_ALONE = any_case(r"\bonly for (?:the |an? )?$")


def card_in(text: str) -> str | None:
    """The first GPU that a text names: of "Nvidia A100, split into two of 40GB" the A100."""
    return next(cards_in(text), None)


def cards_in(text: str) -> Iterator[str]:
    """All GPUs that a text names, but for one for which alone something is: "JetPack 3.2 is only for the TX2"."""
    named = (one for one in _GPU.finditer(text) if one["bare"] != one["name"])
    return (" ".join(one["name"].split()) for one in named if not _FOR_ALONE.search(text, 0, one.start()))


def _version(key: str, number: str) -> str | None:
    low, high = _LIMITS[key]
    version = statements.tensorflow(number) if key == "tensorflow" else number
    if not version or not low <= int(major(version)) <= high:
        return None
    return version if "." in version or key not in _DOTTED else None


def stance(clause: str, start: int, end: int) -> str:
    """Whether what stands there is here, wanted or elsewhere, by the words around it."""
    if _COMPARED.search(clause, start, end):
        return "wanted"
    before = clause[max(start - _AROUND, 0) : start]
    after = _PART.split(clause[end : end + _AROUND // 2], maxsplit=1)[0]
    if _OF_OTHERS.search(before, max((match.start() for match in _MINE.finditer(before)), default=0)):
        return "elsewhere"
    exchanged = _EXCHANGES.search(before) and _FOR_ANOTHER.match(clause, end)
    if _WORKS.match(clause, end) and not _WORKS_WITH.search(before):
        return "elsewhere"
    moved = _MOVED_FROM.search(clause, max(start - _AROUND, 0), end)
    if _OR_LATER.match(clause, end):
        return "wanted"
    if any((exchanged, moved, _IN_THE_PAST.match(after), *(one.search(before) for one in _NOT_HERE))):
        return "elsewhere"
    if _OWN.search(before):
        return "here"
    return "wanted" if _WANTED.search(before) or _WANTED.search(after) or _IS_WHAT.match(after) else "here"


# ------------------------------------------------------------------------------------------------ what goes wrong

_SEES = (
    r"(?:see(?! (?:why|how|what|that|if))|find|detect|recogni[sz]|us(?:e|ing)|utili[sz]|list|access|pick|run"
    r"|work(?! normally)|show|reach|start|enable|engage|activate|load|compute|train)\w*"
)
_A_GPU = r"(?:gpus?\b|graphics? cards?\b|video cards?\b|cuda devices?\b|nvidia cards?\b|[gr]tx ?\d{3,4}(?: ?ti\b)?)"
_IN_PART = (
    r"(?! (?:\w+ )?(?:efficiently|effectively|sufficiently|fully|properly|well|much|enough|completely|optimally)\b"
    r"| (?:on|at|to|with|in) (?:its |the )?(?:full|max\w*)\b)"
)
_NEVER = (
    r"(?:\bnot|\b(?:is|are|was|were|do|does|did|can|could|wo|wil|has|have)n['’]?t|\bcan['’]?t|\bnever|\bno longer"
    r"|\bunable to|\bfail(?:s|ed)? to|\bcannot|\bwithout(?! (?:any )?(?:error|problem|issue|trouble)s?\b))"
)
# "everything was fine on the CPU", "I still copy it to the CPU", "just half as fast as on the CPU" say nothing
_NOT_FINE = (
    r"(?!(?:gpus?|fine|ok|okay|good|well|works?|worked|cop\w+|mov\w+|send\w*|transfer\w*|compare\w*|half|twice|than"
    r"|as|times|slightly|a bit)\b)"
)
# TensorFlow uses no GPU, as people put it; each of the forms has one of these words
_ABOUT_GPU = (
    *("gpu", "cpu", "card", "rtx", "gtx", "cuda device", "_devices", "gráfica", "tarjeta", "placa", "carte"),
    *("nicht", "kein", "не ", "显卡", "顯卡"),
)
_NO_GPU = any_case(
    rf"{_NEVER}(?! ?\d| (?:affect|matter|break|prevent|influence))"
    rf"\W+(?:(?:get|make)\W+(?:\w+\W+){{1,3}}?to\W+|(?:\w+\W+){{0,2}}?){_SEES}\W+(?!only\b)"
    rf"(?:\w+\W+){{0,5}}?{_A_GPU}{_IN_PART}"
    rf"|{_NEVER}\W+(?:\w+\W+){{0,2}}?(?:get|make)\W+(?:\w+\W+){{0,3}}?{_A_GPU}\W+(?:to\W+)?{_SEES}"
    rf"|\b{_A_GPU}(?! version| memory|:[1-9])[^\w.!?]+(?:(?!that\b)\w+[^\w.!?]+){{0,3}}?"
    rf"{_NEVER}\W+(?:\w+\W+){{0,2}}?(?:{_SEES}|found|available|visible|seen)\b"
    rf"(?! (?:the |a |any )?cpu\b| (?:its|their)\b){_IN_PART}"
    rf"|\b(?:is|are|was|were)n['’]?t (?:my |the )?{_A_GPU} (?:being |getting |even )?(?:used"
    rf"|detected|found|recogni|seen)|\bonly (?:takes?|uses?|has) (?:up )?(?:the |my )?cpu\b|\bonly (?:the )?cpu (?:is"
    rf"|was|gets) (?:utili[sz]ed|used)\b|\bin cpu mode\b(?! (?:it|works))|\bno {_A_GPU} (?:\w+ ){{0,2}}(?:found|used"
    rf"|detected|listed|available|visible|seen|support|usage|acceleration)|\b(?:sees?|finds?|detects?|shows?|lists?"
    rf"|(?<!version )has|have|got|gives?) no {_A_GPU}|\b(?:only|just|always|still|keeps?|instead"
    rf"|everything)\W+(?:{_NOT_FINE}\w+\W+){{0,4}}?(?:on |to |the |my |uses? |using )(?:the |my )?cpu\b"
    rf"|\b(?:falls? ?back|default\w*)\W+(?:(?!i\b)\w+\W+){{0,4}}?(?:on |to |the |my |uses? |using )(?:the |my )?cpu\b"
    rf"|\b(?:uses?|using|runs?|running|trains?|training|finds?|sees?|detects?|lists?"
    rf"|shows?)\W+(?:\w+\W+){{0,2}}?(?:only|just)\W+(?:[a-z]+\W+){{0,2}}?cpu\b|\b(?:only|just) (?:ever )?(?:gives?"
    rf"|shows?|lists?|returns?|prints?|has|have|sees|finds?|contains?|reports?|offers?|got"
    rf"|knows)\W+(?:\w+\W+){{0,3}}?cpu(?! (?:cores?|usage|load|time)\b)|\b(?:nur|sólo|solo|solamente|seulement"
    rf"|uniquement|apenas|só|somente|tylko|sadece|только|лишь|yalnızca)\W+(?:\w+\W+){{0,4}}?(?:cpu|prozessor"
    rf"|processeur|procesador|processador|процессор\w*)\b|(?:只有|只显示|只顯示|只能用|只用|仅有|只看到).{{0,6}}cpu|\b(?:says?|said"
    rf"|tells?|there(?:'s| is)):? no gpu\b|\b(?:trains|runs|rechnet|läuft) (?:on|auf(?: der)?) cpu\s*$|\bon (?:the "
    rf"|my )?cpu,? (?:and )?not (?:on )?(?:the |my )?gpu\b|\bon (?:the |my )?cpu only\b|\bit uses (?:the "
    rf"|my )?cpu\b(?! and)|\b(?:[gr]tx|geforce|quadro|tesla)\b[^.\n]{{0,40}}[,;:] ?(?:but )?no gpu\b(?! \w)"
    rf"|\bgpu list (?:is |was )?empty\b|\b(?:tensor ?flow|tf)\b[^.\n]{{0,30}}\bno gpu\s*$"
    rf"|^\W*(?:why no gpu|no gpu in [\w ]{{2,20}})\W*$"
    rf"|is_gpu_available\S{{0,3}}\W+(?:\w+\W+){{0,3}}?false|num gpus available:? *0\b|(?<![\w.])0 gpus?\b"
    rf"|list_(?:physical|local|logical)_devices\S{{0,16}}\W{{1,3}}(?:\w+[^\w.;]+){{0,4}}?(?:\[\](?!\])|empty|nothing"
    rf"|only \W?(?:the )?cpu|(?<=[snd] )(?:0|zero)\b(?!\.\d))"
    rf"|\bno (?:me )?(?:detecta|reconoce|encuentra|usa|ve|utiliza|aparece)\w*\W+(?:\w+\W+){{0,4}}?(?:gpu|gráfica"
    rf"|tarjeta)|\bn[ãa]o (?:detecta|reconhece|encontra|usa|v[êe]|utiliza)\w*\W+(?:\w+\W+){{0,4}}?(?:gpu|placa)"
    rf"|\b(?:détecte|trouve|voit|reconna[îi]t|utilise)\w*\W+(?:pas|aucun\w*)\W+(?:\w+\W+){{0,4}}?(?:gpu|carte)"
    rf"|\b(?:erkennt|findet|sieht|nutzt|benutzt|verwendet)\W(?:\w+\W+){{0,5}}?(?:nicht|keine?)\b|не (?:видит"
    rf"|использует|находит|определяет|обнаружива)\w*|(?:使用|用|走)cpu|(?:检测不到|檢測不到|找不到|用不了|无法(?:使用|识别|检测|调用)|没有?(?:使用|用"
    rf"|调用|检测到?)|沒有(?:使用|用到)|不能(?:用|使用)|不(?:用|使用|识别|走)|未(?:使用|检测到)).{{0,8}}(?:gpu|显卡|顯卡)|(?:gpu|显卡|顯卡).{{0,10}}(?:不可用"
    rf"|不能用|无法使用|没有?被?(?:使用|用|调用)|用不了|检测不到|找不到|利用率[^\d，。]{{0,4}}0%)|gpu.{{0,15}}(?:認識(?:され|し)?(?:ない|ません|てくれ)|使(?:え|用でき|われ"
    rf"|用され)(?:ない|ません)|見つから)"
)


# a condition, a wish, another machine, a link, what the GPU is compared with
_IF = any_case(
    # "can it run on the CPU only?" asks for that; "can anybody tell why it does" does not
    r"(?:^|[.?!] )\W{0,9}(?:(?:hi|hello),? )?(?:can|could|may|does|will) +\w"
    r"(?!.*\b(?:any\w*|some\w*|you|why|know|tell|help|how|fix)\b)[^.?!]*$|(?:怎么|如何|能不能|可以|改成)[^，。,]{0,20}$"
    r"|(?:^|[.?!] )\W{0,9}(?:is|are|do|did) (?:my|the|it us|tensor ?flow|tf)(?!.*\b(?:why|how)\b)[^.?!]*$"
    r"|\b(?:see|tell|find out|confirm) (?:is |me )?(?:if|whether)\b[^.!?]*$"
    r"|\b(?:than|versus|vs\.?|compared (?:to|with)) (?:\w+ ){0,2}$|\bin case\b[^.!?]*$|\bwhen the $"
    r"|\bis it true\b[^.!?]*$|\b(?:know|wonder\w*|sure|check|verify)(?: \w+)? (?:if|whether)\b[^.!?]*$"
    r"|\bhow (?:do|can|to|would|should) (?:i |we |one )?$|\bon a machine with $|#$"
    r"|\bvisible devices to $|\bforc(?:e|ing) (?:(?!but\b|it\b)\w+ ){0,3}?(?:to (?:run|use) )?$"
    r"|\b(?:want(?:ed)?|like|try|prefer) (?:to (?:run|use|try|train) )?(?:(?!but\b|it\b|to\b)\w+ )?$"
)
# some GPUs, those of others, a package, or what else somebody may not see
_NOT_OF_ALL = any_case(
    r"\b(?:multiple|several|both|all|single)\W+(?:\w+\W+)?(?:gpu|card)|\bpeer access|\bfull use\b"
    r"|\b(?:fully|entirely|efficiently)\b"
    r"|\bone gpu only|gpus? (?:memory|ram)\b|gpus? of others|cannot run it\b|\bgpu docs"
    r"|\bseem (?!to (?:be|use|work|find|detect|see|recogni|run|have)|used)"
)
_GPU_PACKAGE = any_case(r"\b(?:tensorflow|tf|node|nightly|latest)\d?[-_]gpu\b")
_SENTENCE_ENDS = re.compile(r"(?<!\d)[.!?]\)?\s+[A-Z]")
# "my GPU does not work": which is wrong, and not what TensorFlow lists
_VAGUE = any_case(
    r"\bwork(?!.*(?:detect|find|found|list|see|recogni|us(?:e|ing)|cpu|no gpu))"
    r"|^(?:gpus?|[gr]tx|geforce|nvidia|graphics?|video) .*\b(?:runs?|train|start)$"
)


def no_gpu(text: str) -> re.Match[str] | None:
    """Where a line says that TensorFlow uses no GPU."""
    return next((found for found in _about_gpus(text) if not _VAGUE.search(found[0])), None)


def gpu_fails(text: str) -> bool:
    """Whether a line says that a GPU does not work, and not in which way."""
    return any(_VAGUE.search(found[0]) for found in _about_gpus(text))


_CONTRASTED = any_case(r"[\w ]{1,20}, not \w")


def _about_gpus(text: str) -> Iterator[re.Match[str]]:
    text = _GPU_PACKAGE.sub(lambda name: "_" * len(name[0]), text)
    small = text.lower()
    if "task manager" not in small and any(word in small for word in _ABOUT_GPU):  # whose graphs leave CUDA out
        for found in _NO_GPU.finditer(text):
            beside = text[max(found.start() - 15, 0) : found.end() + 15]
            # "CPUs are not busy. GPU use is near 100 %"; "to debug on a GPU, not to train"
            of_two = _SENTENCE_ENDS.search(found[0]) or _CONTRASTED.match(found[0])
            if not (of_two or _IF.search(text[: found.start()]) or _NOT_OF_ALL.search(beside)):
                yield found


# ------------------------------------------------------------------------------------------ without gpu

# one of them stands in each clause that is found
WORDS = (
    *("nvidia", "gpu", "cpu", "card", "graphi", "gráfic", "karte", "carte", "placa", "scheda", "karty"),
    *("deliberate", "purpose", "_devices"),
)

_CARD = (
    r"(?:gpus?|(?:graphics?|video|graphic) (?:cards?|adapters?|chips?)|cards?|hardware|grafikkarten?|karten?"
    r"|carte\w*(?: graphique)?|tarjetas?(?: gr[áa]ficas?)?|gr[áa]ficas?|placas?(?: de v[ií]deo)?|sched[ae](?: video)?"
    r"|kart[ayę]\w*(?: graficzn\w+)?)"
)
_MAKER = r"(?:nvidia|ge ?force|cuda(?:[- ]capable)?)"
_KIND = rf"(?:{_MAKER}|dedicated|discrete|eigene|dedizierte|d[ée]di[ée]e|dedicada|discreta)"
# a program's finding, and what is supposed, asked or true of somebody else
_NOT_SAID = (
    r"(?!['’\"]?\W{0,2}(?:(?:is |was |are |were |could be |has been |can be )?(?:not )?(?:found|detected|visible|listed"
    r"|available|usage|support|driver|used|seen|errors?|problems?|issues?|memory|devices?|gefunden|erkannt|encontrada"
    r"|détectée?)|in (?:the )?(?:list|tensorflow|tf|python)))"
)
_HYPOTHETICAL = any_case(
    r"\b(?:if|unless|whether|when|assum\w*|you|your|suppose|wenn|falls|ob|si|se|cuando|как если|если)\b|\?|如果|もし"
    r"|^\W*(?:is|are|can|could|may|would|should|do|does|will) (?:it|there|i|we|one|this|that|the|an?)\b"  # a question
    r"|\b(?:also|other|some) (?:\w+ ){0,3}(?:machines|computers|servers|nodes|laptops|pcs)\b"  # besides this one
)
_MACHINE = (
    r"(?:machines?|laptops?|notebooks?|nodes?|servers?|vms?|pcs?|box(?:es)?|computers?|runners?|hosts?|workstations?"
    r"|instances?|mac|system|partition|cluster|rechner|knoten|it|i|we|which|that)"
)
_NONE = any_case(
    # without a GPU of that maker, or of its own
    rf"\b(?:no|without|without an?|without any|not an?|(?:n't|not) have (?:an?|any)|(?:n't|not) got (?:an?|any)"
    rf"|lacks? an?|kein\w*|ohne|ohne eine|pas de|sans|sans aucune?|aucune?|sin|sin ninguna|ninguna|sem|nenhuma|senza"
    rf"|nessuna|brak|bez) (?:carte (?:graphique )?|tarjeta (?:gráfica )?|gráfica |placa |scheda "
    rf"|karty )?{_KIND}(?:[- ]{_CARD}\b|(?![- ]{_CARD}))\b(?! ?[-\d./_])(?! (?:drivers?|smi|lib\w*|error\w*|package\w*"
    rf"|toolkit|install\w*|docker|container|runtime|cuda|message\w*|treiber|module?\w*|line\w*)\b){_NOT_SAID}"
    # a machine that has none
    rf"|\b{_MACHINE} (?:ha(?:s|ve)|have got|comes? with|with|contains?|sports?) (?:absolutely "
    rf"|simply )?no (?:{_KIND} )?{_CARD}\b{_NOT_SAID}|(?:^\W*|\b{_MACHINE} )(?:does|do|did)(?:n't|n’t"
    rf"| not) (?:even )?have(?: (?:an?|any|one))?\b(?: {_KIND})?(?: {_CARD})\b{_NOT_SAID}|\b(?:there is|there's"
    rf"|there are|es gibt|hay|il y a|há) (?:no|keine|sin|pas de|não) (?:{_KIND} )?{_CARD} (?:in|on|at|here|im|hier)\b"
    rf"|\b{_MACHINE} (?:without|ohne|sans|sin|sem) (?:an? |any |eine )?(?:{_KIND} )?(?:gpus?|{_KIND}|grafikkarte"
    rf"|carte graphique)\b{_NOT_SAID}|\b{_MACHINE} with (?:an? )?CPU only\b"
    rf"|\bGPU-?less\b|\bCPU[- ]only (?:machine|box|server|laptop|node|computer|host"
    rf"|install(?:ation)?|set-?up|mode|partition|vm)s?\b|\binstalled CPU[- ]only\b|\bno {_CARD} in (?:it\b|(?:this"
    rf"|these|that|those|our|my|the) {_MACHINE}\b)|\b(?:machine|laptop|node|server|vm|runner|ci"
    rf"|host)\b[^.;\n]{{0,40}}[,(] ?no (?:nvidia )?gpus?(?= ?[),;.]|$)|\b(?:vms?"
    rf"|virtual machines?)\b[^;\n]{{0,60}}\b(?:gpu|card)\b[^.;\n]{{0,30}}?\b(?:is|are)(?: not|n['’]t) (?:accessible"
    rf"|passed|visible|exposed)"
    # GPUs of others
    r"|\b(?:has|have|with|got|is|hat|eine|une|una|uma|an?|my|mein\w*) (?:only |just |nur )?(?:an? |eine |the )?(?:AMD"
    r"|ATI|Intel)[- ](?:(?:Radeon|Arc|integrated|onboard) )?(?:GPU|(?:graphics?|video) ?card|graphics|card|Grafikkarte"
    r"|Karte|graphique)\b(?! (?:too|as well|besides|and (?:an? )?nvidia))"
)
_GPU_NAMED = (
    r"(?:the |a |an |any |my |our )?(?:nvidia )?(?:gpus?|graphics card|cuda)\b"
    r"(?! (?:memory|driver|to\b|version|ram|toolkit))"
)
_CPU = r"(?:the |my |our )?cpus?\b"
_WANTS = any_case(
    rf"\b(?:do(?:es)? ?n['’]t|do(?:es)? not|did ?n['’]t|never|no longer) (?:actually |really |even "
    rf"|ever )?(?:want(?:ed)?|need(?:ed)?|care about|intend to use|plan to use|mean to use) (?:to (?:use|have"
    rf"|touch) )?{_GPU_NAMED}|\b(?:deliberate(?:ly)?|on purpose|intentional(?:ly)?|by design"
    rf"|purposely)\b[^.!?\n]{{0,60}}\b(?:cpus?|no gpu|hid\w*|without (?:a )?gpu|-1)|\b(?:cpus?|hid\w*|no gpu"
    rf"|without (?:a )?gpu|gpus? (?:is|are) (?:off|disabled))\b[^.!?\n]{{0,40}}\b(?:deliberate(?:ly)?|on purpose"
    rf"|intentional(?:ly)?|by design|purposely)\b"
    rf"|\b(?:even (?:when|after|with|though)|i set)\b[^.!?\n]{{0,40}}\bcuda_visible_devices\W{{1,3}}-1"
    rf"|(?<!n't )(?<!not )\b(?:want|wants|prefer|meant|supposed|intend(?:ed)?|chose|happy|content) (?:it )?(?:to )?"
    rf"(?:(?:run|stay|use|be|remain|work|compute|train|go)\w* )?(?:it |everything )?"
    rf"(?:on |with |only ){{0,2}}{_CPU}(?: only)?(?!['’]s)"
    rf"|(?<!work )(?<!works )(?<!worked )(?<!working )(?<!just )\b(?:fine|okay|ok|happy|live|content|go) with {_CPU}"
    rf"|\b{_CPU}(?:-only)? (?:is|are|would be|will be) (?:all (?:i|we) |enough|sufficient"
    rf"|plenty|fast enough|fine (?:for|with) (?:me|us|this|that|now)|what (?:i|we) want|perfectly (?:fine|ok)"
    rf"|okay for)|\b(?:gpu|cuda) is not (?:needed|necessary|wanted|required)|\bCPU[- ]only (?:steps?|jobs?|tasks?"
    rf"|runs?|mode|inference|pipelines?|services?|deployments?|stages?|rules?|tests?|build|ci)\b"
)


def has_none(clause: str) -> re.Match[str] | None:
    """Where somebody says that the machine has no GPU of NVIDIA's; a condition, or advice to others, says nothing."""
    return None if _HYPOTHETICAL.search(clause) else _NONE.search(clause)


def wants_cpu(clause: str) -> re.Match[str] | None:
    """Where somebody says that the CPU is what they want."""
    found = _WANTS.search(clause)
    return None if found and re.search(r"\b(?:if|unless|whether) ", clause[: found.start()], re.IGNORECASE) else found
