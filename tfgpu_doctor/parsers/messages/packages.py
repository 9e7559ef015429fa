"""Messages of package managers that are no line of pip's, conda's or uv's own form (pip_install.py reads those)."""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import template

_HAVE_INSTALLED = (
    r"\b(?:I|we|have|I've|already|successfully|properly|correctly)\b[^.?!]{0,20}\binstalled\b[^.?!]{0,30}"
    r"\btensor ?flow(?![-\w])"
    r"|\btensor ?flow(?:-gpu)?\b[^.?!,]{0,20}\b(?:is|was|has been|got) (?:already |successfully |correctly |properly )?"
    r"installed\b"
)
# what Python took away, and what it got, in some version: code on either side of it cannot run
_OF_ANOTHER_PYTHON = (
    r"No module named '?(?:distutils|imp)'?\s*$|module 'pkgutil' has no attribute 'ImpImporter'"
    r"|module 'inspect' has no attribute '(?:getargspec|formatargspec|ArgSpec)'"
    r"|cannot import name '(?:formatargspec|getargspec)' from 'inspect'"
    r"|cannot import name '(?:Mutable)?(?:Mapping|Sequence|Iterable|Callable|Hashable|Set)' from 'collections'"
    r"|module 'collections' has no attribute '(?:Mutable)?(?:Mapping|Sequence|Iterable|Callable|Hashable|Set)'"
    r"|future feature annotations is not defined"
)

_SHELL = r"terminal|command line|console|shell|cmd|command prompt|ipython|REPL"
_NOTEBOOK = r"jupyter(?:lab)?|notebooks?|kernel|vs ?code|pycharm|spyder"

# the package without CUDA, as people call it
_CPU_BUILD = r"cpu(?:[- ]only)?[- ](?:version|build|variant|mode)(?: of (?:the )?(?:tensor ?flow|tf))?|cpu tensor ?flow"
# what a text is about, and words of whoever has trouble with it
_ABOUT = r"(?:tensor ?flow|keras|cudnn|cuda|\bgpus?\b|显卡|顯卡|видеокарт|グラボ)"
_TROUBLE = (
    r"(?:\b(?:errors?|fail\w*|problems?|issues?|wrong|broken|crash\w*|stuck|unable|can ?not|can['’]t|won['’]t"
    r"|(?:do|does|did|is|are|was)(?: not|n['’]t)|fehler\w*|erro(?:re?s?)?)\b|错误|錯誤|报错|報錯|问题|問題"
    r"|不能|不了|沒辦法|没办法|无法|無法"
    r"|ошибк|проблем|не работа|エラー|できない|오류|안 되)"
)

TEMPLATES = (
    template(
        "package-removed",
        "tensorflow-gpu|tensorflow_gpu|empty package",
        r"[\"'`]?tensorflow[-_]gpu[\"'`]? (?:package )?(?:has been|was|is) removed\b"
        r"|\breplaced with this new, empty package"
        r"|No version (?P<version>[\d.]+) of the tensorflow-gpu was found"
        r"|(?:building|\binstall(?:ing)?\b|metadata|wheels? for|subprocess|setup\.py).{0,60}tensorflow[-_]gpu"
        r"(?! ?={1,2} ?(?:[01]\.|2\.(?:\d|1[01])\b)).{0,40}"
        r"(?:error(?!: (?:Could not find|No matching))|fail)",
        stops_import=True,
    ),
    template(
        "image-without-cudnn",
        "nvidia/cuda:",
        r"nvidia/cuda:(?!\S{0,100}cudnn)[\w.-]{0,60}(?:base|runtime|devel)[\w.-]*",
        role="context",
    ),
    # somebody tells of a failure, in words or by the last line of a traceback
    template(
        "failure-said",
        "crash|fail|error|exception|abort|dies|killed|崩溃|报错",
        r"\b(?:tensor ?flow|keras|cudnn|cuda|gpus?|training|model|kernel|script)\b[^.\n]{0,60}?\b(?:crash\w*"
        r"|fail(?:s|ed|ure)"
        r"|errors?|exception|abort\w*|dies|killed)\b|^\s*\w{3,40}Error: \S|崩溃|报错",
        role="context",
    ),
    # the least that can be said: something about them goes wrong
    template(
        "trouble-said",
        "error|fail|problem|issue|wrong|broken|crash|stuck|not |n't|unable|cannot|fehler|erro|報錯|报错|"
        "错误|錯誤|問題|问题|不能|不了|沒辦|没办|无法|無法|ошибк|проблем|не |エラー|できない|오류|안 되",
        rf"{_ABOUT}[^.\n]{{0,200}}?{_TROUBLE}|{_TROUBLE}[^.\n]{{0,200}}?{_ABOUT}",
        role="context",
    ),
    template(
        "import-fails-said",
        "import",
        r"\b(?:can ?not|can['’]t|could(?: not|n['’]t)|unable to|fails? to|not able to) (?:be )?import(?:ed)?\b"
        r"|\bimport(?:ing)? (?:of )?(?:tensor ?flow|tf|keras)\b[^.\n]{0,30}?"
        r"\b(?:fail(?:s|ed)|errors?|crash\w*|does(?: not|n['’]t) work)\b"
        r"|\b(?:import error|error (?:when|while|on|upon) (?:I )?import(?:ing)?)\b",
        role="context",
    ),
    # somebody found out that the package is the one without CUDA; who merely installed it may have had reasons
    template(
        "cpu-build-said",
        "cpu|tensorflow-gpu",
        # "requirements.txt contains tensorflow==1.12.0, not tensorflow-gpu"
        r"\b(?:only )?(?:contains?|lists?|has|installs?|built with|requires?|installed)\b[^\n]{0,30}?"
        r"`?tensorflow(?:==[\d.]+)?`?(?: and|,)? not `?tensorflow-gpu\b"
        r"|\bwithout tensorflow-gpu\b"
        rf"|(?:{_CPU_BUILD})\b[^.\n]{{0,40}}? (?:instead of|rather than|and not|not) (?:the |a |my )?"
        rf"(?:tensor ?flow[- ])?gpu\b"
        rf"|\b(?:seems?|turns? out|turned out|shows?|apparently|noticed|found|realized|see)\b[^.\n]{{0,60}}?"
        rf" (?:{_CPU_BUILD})"
        rf"|(?:{_CPU_BUILD}) (?:is|was|gets|is being) (?:used|installed|loaded)\b",
        role="context",
    ),
    # the same computer, where it works
    template(
        "works-elsewhere",
        "works|worked|working|is true|returns true|fine",
        r"\b(?:works?|worked|working|run(?:s|ning)?|is|fine)(?: (?:perfectly|fine|well|great|ok|just fine"
        r"|correctly|if i run it|when i run it))?"
        r" (?:in|on|with|from|under|as|outside(?: of)?|inside) (?:the |my |a |an |another )?"
        r"(?P<where>terminal|command[- ]line|shell|console|cmd|anaconda prompt|powershell|host|root|sudo"
        r"|py ?torch|torch"
        r"|docker run|docker|container|other env\w*|(?:conda |virtual )?env\w*)\b",
        role="context",
    ),
    template(
        "works-elsewhere",
        "works|worked|is fine|is normal|is ok",
        r"\b(?:in|on|from|under|outside(?: of)?|inside) (?:the |my |a |another )?"
        r"(?P<where>terminal|command[- ]line|shell|console|cmd|anaconda prompt|powershell|host|other env\w*)"
        r"[ ,]{1,2}(?:`[^`\n]{1,60}` |(?!no|never|nothing|only)[\w.]{1,30} ){0,4}?"
        r"(?:works|worked|is (?:fine|normal|ok|okay))\b",
    ),
    template(
        "works-elsewhere",
        "torch",
        r"\b(?P<where>torch)\.cuda\.is_available\(\)\W{0,4}(?:\w+ ){0,2}True|\bpy?torch (?:can |does |also )?"
        r"(?:see|detect|use|find|recogni[sz]e|work)s?\b",
        where="torch",
    ),
    template(
        "started-elsewhere",
        "pycharm|rstudio|r studio|systemd|from the desktop|supervisor",
        r"\bpycharm\b|\brstudio\b|\br studio\b|from the desktop|\bsupervisord?\b|systemd (?:service|unit)",
        role="context",
    ),
    template(
        "conda-build",
        "mkl_py|eigen_py|cpu_py|-mkl",
        r"\btensorflow(?:-base)? +\d[\d.]+(?: +|-)(?P<listed>mkl|eigen|cpu)_py\w+"
        r"|\btensorflow(?:-base)?\s.{0,80}--> *\S*?(?P<arrow>mkl|eigen|cpu)_py\w+",
        variant="cpu",
        role="context",
    ),
    template(
        "asked-for-extra", "and-cuda", r"(?:install|add)\b.{0,60}tensorflow(?:-gpu)?\[and[-_]cuda\]", role="context"
    ),
    template(
        "requires-python",
        "requires a different python",
        r"Package '?(?P<package>(?:tensorflow|tf|keras|tensorboard)[\w.-]*)'? requires a different Python: "
        r"(?P<python>[\d.]+) not in '?(?P<need>[^']+)'?",
        stops_import=True,
    ),
    template(
        "requires-python",
        "for python|with python|on python|by python",
        r"\b(?:not|n['’]t) (?:exist|available|published|released|supported)\b[^.?\n]{0,20}? (?:for|on|with|by) python"
        r" ?(?P<said>[23]\.\d{1,2})",
    ),
    template(
        "requires-python",
        "distutils|named imp|'imp'|'impimporter'|module 'inspect'|from 'inspect'|'collections'|future feature",
        _OF_ANOTHER_PYTHON,
    ),
    template(
        "no-distribution",
        "could not find any downloads|no distributions at all|suitable distribution for",
        r"(?:Could not find any downloads that satisfy the requirement|No distributions at all found for"
        r"|Could not find suitable distribution for Requirement\.parse\(') ?(?P<requirement>tensorflow[\w.=<>-]{0,40})",
        stops_import=True,
    ),
    template(
        "no-distribution",
        "installation candidates",
        r"Unable to find installation candidates for (?P<wanted>tensorflow[\w-]{0,40}) "
        r"\((?P<candidate>\d[\w.]{0,20})\)",
    ),
    template(
        "install-broke-off",
        "long path support|could not install packages|do not match the hashes|no matches found",
        r"Windows Long Path support enabled|Could not install packages due to an (?:EnvironmentError|OSError)"
        r"|THESE PACKAGES DO NOT MATCH THE HASHES|zsh: no matches found: tensorflow",
    ),
    # Alpine Linux, by its package manager, its images, its loader, and the tag of wheels that are built there
    template(
        "musl-system",
        "apk add|alpine|ld-musl|musllinux",
        r"\bapk (?:--\S{1,30} ){0,3}add\b|\bpython:3[\w.]{0,8}-alpine|\bFROM (?:\S{1,60}/)?alpine\b|\bAlpine Linux\b"
        r"|ld-musl-\w{3,10}\.so|musllinux_1",
        role="context",
    ),
    template(
        "index-unreachable",
        "retrying (retry|could not fetch url|ssl module in python is not available",
        r"Retrying \(Retry\(total=\d|Could not fetch URL https?://|ssl module in Python is not available",
        role="context",
    ),
    template(
        "package-removed",
        "-gpu-2.1|_gpu-2.1|gpu_",
        r"tensorflow[-_]gpu-2\.12\.0\.tar\.gz|tf[-_]nightly[-_]gpu-2\.1\d\S{0,40}\.tar\.gz"
        r"|(?:tensorflow|tf[-_]nightly)[-_]gpu_[0-9a-f]{20,40}[/\\]setup\.py",
    ),
    template(
        "two-tensorflows",
        "tensorflow-gpu|tensorflow_gpu|cpu version|installing both|install both|have both|with both",
        r"\btensorflow(?:-gpu)?==[\d.]{3,8} and tensorflow(?:-gpu)?==[\d.]{3,8} (?:are |were )?installed"
        r"|\bboth (?:of )?`?tensorflow`? and `?tensorflow-gpu`?|\b`?tensorflow(?:-gpu)?`? and `?tensorflow(?:-gpu)?`? "
        r"(?:are |were |got )?both (?:are |were |got )?installed|\binstalled both (?:the )?(?:cpu|gpu) and "
        r"(?:the )?(?:cpu|gpu) versions? of tensorflow"
        r"|\btensorflow[-_]gpu\b.{0,80}\b(?:overwrit|overrid|overrul)\w{1,4}\b"
        r"|\b(?:overwr(?:it|ot)|overrid)\w{1,4}\b.{0,60}\btensorflow[-_]gpu\b"
        r"|\b(?:uninstall|remov|replac)\w{1,3}\b[^.\n]{0,40}\btensorflow[-_]gpu\b[^.\n]{0,40}\bcpu version\b"
        r"|\b(?:installs?|pulls?)\b[^.\n]{0,30}\btensorflow\b[^.\n]{0,40}\b(?:without gpu|cpu)\b"
        r"[^.\n]{0,60}\btensorflow[-_]gpu\b"
        r"|\btensorflow[-_]gpu\b[^.\n]{0,40}\b(?:installs?|pulls?)\b[^.\n]{0,30}\btensorflow\b[^.\n]{0,20}\bcpu\b"
        r"|\bremoved (?:my|the) (?:previously |already )?(?:installed )?`?tensorflow[-_]gpu\b"
        r"|\b(?:install(?:ing|ed)?|hav(?:e|ing)) both\b(?! CUDA| python).{0,60}\b(?:tensor ?flow|tf|gpu)\b"
        r"|\bwith both (?:of them |packages )?installed\b.{0,60}\b(?:tensor ?flow|tf|gpu)\b"
        r"|\binstall(?:s|ed|ing)? (?:the )?cpu(?:[- ]only)? version\b.{0,60}"
        r"\b(?:even (?:if|when|though)|overrid|overwrit)",
    ),
    template(
        "tensorflow-installed",
        "install| add ",
        r"Successfully installed .{0,400}\btensorflow|\b(?:pip|conda|mamba|uv"
        r"|poetry)\d?(?:\.\d+)? (?:pip )?(?:install|add)\b.{0,80}\btensorflow",
        role="context",
    ),
    template(
        "other-environment",
        "[gcc|[clang|[msc",
        r"^\s*Python (?P<banner>\d\.\d{1,2})\.\d+.{0,100}\[(?:GCC|Clang|MSC)",
        role="context",
    ),
    template(
        "other-environment",
        "jupyter|notebook|kernel|vs code|vscode|pycharm|spyder",
        r"\bGPUs?\b.{0,100}\b(?:"
        + _SHELL
        + r")\b.{0,60}\b(?:but|while|not|however|whereas)\b.{0,60}\b(?:"
        + _NOTEBOOK
        + r")\b"
        r"|\b(?:" + _NOTEBOOK + r")\b.{0,60}\b(?:not|cannot|can't|doesn't|no|without)\b.{0,30}\bGPU\b.{0,60}"
        r"\b(?:but|while|however|whereas|although)\b.{0,60}\b(?:" + _SHELL + r")\b",
        gpu="elsewhere",
    ),
    # an environment that was made for it is active, by its name in the prompt
    template(
        "other-environment",
        "tensor|tf|keras|gpu",
        r"^\((?P<made>[\w.-]{0,30}(?:tensor|tf|keras|gpu)[\w.-]{0,30})\) ?\S{0,80}[$#%>~:]",
    ),
    template(
        "tensorflow-installed", "install_keras(|install_tensorflow(", r"^[\s>]*(?:\w+::)?install_(?:keras|tensorflow)\("
    ),
    template("tensorflow-installed", "install", _HAVE_INSTALLED),
    template(
        "other-environment",
        "activate|virtualenv|which python|which pip|sys.executable|conda create|works in|in the terminal|command line",
        r"\bactivate \w+|which -?a? ?(?:python|pip)\S*|sys\.executable|conda create -n|works (?:fine "
        r"|well )?(?:in|from|under|with)\b"
        r"|in the (?:terminal|command line)",
    ),
)
