"""What people say of a machine without an NVIDIA GPU, and of a job that is to run on the CPU.

>>> [has_none(one) is not None for one in ("my laptop has an AMD card, no NVIDIA card", "hier ist keine Nvidia-Karte")]
[True, True]
>>> [has_none(one) is not None for one in ("no NVIDIA GPU was found", "if you have no GPU", "TensorFlow sees no GPU")]
[False, False, False]
>>> [wants_cpu(one) is not None for one in ("I deliberately don't want the GPU here", "ich brauche keine GPU")]
[True, True]
>>> [wants_cpu(one) is not None for one in ("I don't want to train on the CPU", "the CPU is fine, the GPU gives NaN")]
[False, False]
"""

from __future__ import annotations

import re

# one of them stands in each clause that is found
WORDS = (
    *("nvidia", "gpu", "cpu", "card", "graphi", "gráfic", "karte", "carte", "placa", "scheda", "karty"),
    *("нвидиа", "видеокарт", "процессор", "显", "顯", "n卡", "그래픽", "グラボ", "deliberate", "purpose", "prozessor"),
)

_CARD = (
    r"(?:gpus?|(?:graphics?|video|graphic) (?:cards?|adapters?|chips?)|cards?|hardware|grafikkarten?|karten?"
    r"|carte\w*(?: graphique)?"
    r"|tarjetas?(?: gr[áa]ficas?)?|gr[áa]ficas?|placas?(?: de v[ií]deo)?|sched[ae](?: video)?|kart[ayę]\w*(?:"
    r" graficzn\w+)?)"
)
_MAKER = r"(?:nvidia|ge ?force|cuda(?:[- ]capable)?)"
_KIND = rf"(?:{_MAKER}|dedicated|discrete|eigene|dedizierte|d[ée]di[ée]e|dedicada|discreta)"
# a program's finding, and what is supposed, asked or true of somebody else
_NOT_SAID = (
    r"(?!['’\"]?\W{0,2}(?:(?:is |was |are |were |could be |has been |can be )?(?:not )?(?:found|detected"
    r"|visible|listed"
    r"|available|usage|support|driver|used|seen|errors?|problems?|issues?|memory|devices?|gefunden|erkannt"
    r"|encontrada|détectée?)|in (?:the )?(?:list"
    r"|tensorflow|tf|python)))"
)
_HYPOTHETICAL = re.compile(
    r"\b(?:if|unless|whether|when|assum\w*|you|your|suppose|wenn|falls|ob|si|se|cuando|как если|если)\b|\?|如果|もし",
    re.IGNORECASE,
)
_MACHINE = (
    r"(?:machines?|laptops?|notebooks?|nodes?|servers?|vms?|pcs?|box(?:es)?|computers?|runners?|hosts?|workstations?"
    r"|instances?|mac|system|partition|cluster|rechner|knoten|it|i|we|which|that)"
)
_NONE = re.compile(
    # without a GPU of that maker, or of its own
    rf"\b(?:no|without|without an?|without any|not an?|(?:n't|not) have (?:an?|any)|(?:n't|not) got (?:an?"
    rf"|any)|lacks? an?"
    rf"|kein\w*|ohne|ohne eine|pas de|sans|sans aucune?|aucune?|sin|sin ninguna|ninguna|sem|nenhuma|senza"
    rf"|nessuna|brak|bez)"
    rf" (?:carte (?:graphique )?|tarjeta (?:gráfica )?|gráfica |placa |scheda |karty )?{_KIND}(?:[-"
    rf" ]{_CARD}\b|(?![- ]{_CARD}))\b(?! ?[-\d./_])(?! (?:drivers?|smi|lib\w*|error\w*|package\w*"
    rf"|toolkit|install\w*|docker|container|runtime|cuda|message\w*|treiber|module?\w*|line\w*)\b){_NOT_SAID}"
    # a machine that has none
    rf"|\b{_MACHINE} (?:ha(?:s|ve)|have got|comes? with|with|contains?|sports?) (?:absolutely |simply )?no"
    rf" (?:{_KIND} )?{_CARD}\b{_NOT_SAID}"
    rf"|(?:^\W*|\b{_MACHINE} )(?:does|do|did)(?:n't|n’t| not) (?:even )?have(?: (?:an?|any|one))?\b(?:"
    rf" {_KIND})?(?: {_CARD})\b{_NOT_SAID}"
    rf"|\b(?:there is|there's|there are|es gibt|hay|il y a|há) (?:no|keine|sin|pas de|não) (?:{_KIND}"
    rf" )?{_CARD} (?:in|on|at|here|im|hier)\b"
    rf"|\b{_MACHINE} (?:without|ohne|sans|sin|sem) (?:an? |any |eine )?(?:{_KIND} )?(?:gpus?|{_KIND}"
    rf"|grafikkarte|carte graphique)\b{_NOT_SAID}"
    r"|\bGPU-?less\b|\bCPU[- ]only (?:machine|box|server|laptop|node|computer|host|install(?:ation)?|set-?up"
    r"|mode|partition|vm)s?\b"
    r"|\binstalled CPU[- ]only\b"
    rf"|\bno {_CARD} in (?:it\b|(?:this|these|that|those|our|my|the) {_MACHINE}\b)"
    r"|\b(?:machine|laptop|node|server|vm|runner|ci|host)\b[^.;\n]{0,40}[,(] ?no (?:nvidia )?gpus?(?= ?[),;.]|$)"
    r"|\b(?:vms?|virtual machines?)\b[^;\n]{0,60}\b(?:gpu|card)\b[^.;\n]{0,30}?\b(?:is|are)(?: not|n['’]t)"
    r" (?:accessible|passed|visible|exposed)"
    # GPUs of others
    r"|\b(?:has|have|with|got|is|hat|eine|une|una|uma|an?|my|mein\w*) (?:only |just |nur )?(?:an? |eine |the )?"
    r"(?:AMD|ATI|Intel)[- ](?:(?:Radeon|Arc|integrated|onboard) )?(?:GPU|(?:graphics?|video) ?card|graphics"
    r"|card|Grafikkarte"
    r"|Karte|graphique)\b(?! (?:too|as well|besides|and (?:an? )?nvidia))"
    # in other writings
    r"|нет (?:ни одной )?(?:видеокарты |карты )?(?:nvidia|нвидиа)|(?:нет|без) (?:дискретной |отдельной )?видеокарты"
    r"|(?:没有|沒有|无|無)(?:英伟达|nvidia ?|N卡|独立|独|獨立)(?:显卡|顯卡|显|的显卡|gpu)?|没有N卡|无独显"
    r"|nvidia ?(?:の)?(?:gpu|グラボ|カード)?(?:は|が)?(?:ない|無い|ありません|搭載していない)|(?:nvidia"
    r"|그래픽) ?(?:카드|gpu)[가는이]? ?없",
    re.IGNORECASE,
)
_GPU = (
    r"(?:the |a |an |any |my |our )?(?:nvidia )?(?:gpus?|graphics card|cuda)\b"
    r"(?! (?:memory|driver|to\b|version|ram|toolkit))"
)
_CPU = r"(?:the |my |our )?cpus?\b"
_WANTS = re.compile(
    rf"\b(?:do(?:es)? ?n['’]t|do(?:es)? not|did ?n['’]t|never|no longer) (?:actually |really |even |ever"
    rf" )?(?:want(?:ed)?|need(?:ed)?|care about|intend to use|plan to use|mean to use)"
    rf" (?:to (?:use|have|touch) )?{_GPU}"
    rf"|\b(?:deliberate(?:ly)?|on purpose|intentional(?:ly)?|by design|purposely)\b[^.!?\n]{{0,60}}\b(?:cpus?"
    rf"|no gpu|hid\w*|without (?:a )?gpu|-1)"
    rf"|\b(?:cpus?|hid\w*|no gpu|without (?:a )?gpu|gpus? (?:is|are) (?:off"
    rf"|disabled))\b[^.!?\n]{{0,40}}\b(?:deliberate(?:ly)?|on purpose"
    r"|intentional(?:ly)?|by design|purposely)\b"
    r"|(?<!n't )(?<!not )\b(?:want|wants|prefer|meant|supposed|intend(?:ed)?|chose|happy|content) (?:it )?(?:to )?"
    rf"(?:(?:run|stay|use|be|remain|work|compute|train|go)\w* )?(?:it |everything )?(?:on |with |only"
    rf" ){{0,2}}{_CPU}(?: only)?(?!['’]s)"
    rf"|\b(?:fine|okay|ok|happy|live|content|go) with {_CPU}"
    rf"|\b{_CPU}(?:-only)? (?:is|are|would be|will be) (?:all (?:i|we) |enough|sufficient|plenty|fast enough"
    rf"|fine (?:for|with) (?:me|us|this|that|now)|what (?:i|we) want"
    r"|perfectly (?:fine|ok)|okay for)|\b(?:gpu|cuda) is not (?:needed|necessary|wanted|required)"
    r"|\bCPU[- ]only (?:steps?|jobs?|tasks?|runs?|mode|inference|pipelines?|services?|deployments?|stages?"
    r"|rules?|tests?|build|ci)\b"
    r"|\b(?:brauche?n?|will|wollen|möchten?) (?:ich |wir |hier |gar |auch )*keine (?:gpu|grafikkarte)"
    r"|\b(?:cpu|prozessor) (?:reicht|genügt)"
    r"|absichtlich\b[^.\n]{0,50}\b(?:cpu|ohne gpu|-1|versteck|ausgeblendet)"
    r"|no (?:necesito|quiero|hace falta) (?:la |una |usar la )?(?:gpu|gr[áa]fica)|(?:con|me basta) la cpu"
    r" (?:me )?(?:basta|sobra|vale)"
    r"|(?:a propósito|de propósito|adrede|volontairement|exprès|apposta)\b[^.\n]{0,50}\b(?:cpu|gpu)"
    r"|(?:pas besoin|besoin d['’]aucun\w*) (?:de |d['’]un )?(?:gpu|carte)|le cpu (?:me )?suffit|n[ãa]o"
    r" (?:preciso|quero|precisamos) (?:de |usar a? ?)?(?:gpu|placa)"
    r"|(?:gpu|видеокарта) (?:мне |нам )?(?:тут |здесь )?не нуж[нe]\w*|(?:специально"
    r"|намеренно)[^.\n]{0,40}(?:cpu|gpu|процессор)"
    r"|(?:хватает|достаточно) (?:cpu|процессора)|(?:不需要|不想用|不用|用不着)(?:gpu|显卡|顯卡)就?|(?:只用"
    r"|用)cpu(?:就(?:行|够|可以))"
    r"|故意(?:用|只用|隐藏|屏蔽).{0,8}(?:cpu|gpu)|gpu(?:は|を)?(?:不要|いらない|使いたくない"
    r"|使うつもりはない)|cpu(?:だけ)?で(?:十分|構わない|いい)",
    re.IGNORECASE,
)


def has_none(clause: str) -> re.Match[str] | None:
    """Where somebody says that the machine has no GPU of NVIDIA's; a condition, or advice to others, says nothing."""
    return None if _HYPOTHETICAL.search(clause) else _NONE.search(clause)


def wants_cpu(clause: str) -> re.Match[str] | None:
    """Where somebody says that the CPU is what they want."""
    found = _WANTS.search(clause)
    return None if found and re.search(r"\b(?:if|unless|whether) ", clause[: found.start()], re.IGNORECASE) else found
