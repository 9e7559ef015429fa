"""What people write into a form's fields, made comparable: versions, operating systems, names of GPUs.

>>> cuda_and_cudnn("CUDA v11.2, cudnn-11.2-windows-x64-v8.1.0.77")
('11.2', '8.1.0.77')
>>> cuda_and_cudnn("12.4 / 8.9.7"), cuda_and_cudnn("11.5 CUDA, 8.3.1"), cuda_and_cudnn("release 9.0, V9.0.176")
(('12.4', '8.9.7'), ('11.5', '8.3.1'), ('9.0', None))
>>> tensorflow("v2.3.0-rc2-23-gb36436b087 2.3.0"), tensorflow("tensorflow-2.4.0-cp38-cp38-manylinux2010_x86_64.whl")
('2.3.0', '2.4.0')
>>> gpu("NVIDIA Corporation GK208B [GeForce GT 710] / 2GB"), gpu("GeForce GTX 1080, 8 GB"), gpu("12G")
('NVIDIA Corporation GK208B [GeForce GT 710]', 'GeForce GTX 1080', None)
>>> gpu("RTX 3080 Ti, CUDA10.0")
'RTX 3080 Ti'
"""

from __future__ import annotations

import re

from tfgpu_doctor.records.versions import major

LONGEST = 400  # characters of a value that are looked at

_NOTHING = re.compile(
    r"[-–—_*.?/\\ ]*"
    r"|[\"'(*_]*(?:n\.? ?/? ?[ax]\.?\b|none\b|null\b|nil\b|no response|unknown|unsure"
    r"|not (?:applicable|relevant|sure|known|used)"
    r"|don'?t know|do not know|see (?:above|below|title|log|output)|same as above|as above|irrelevant|no idea"
    r"|no (?:cuda|cudnn|gpu)|without (?:cuda|gpu)).*"
    r"|[\"'(*_]*(?:yes|no|true|false|latest|default|any|all|ok)\W*",
    re.IGNORECASE,
)
_NUMBER = r"\d{1,2}(?:\.\d{1,3}){0,3}"
# installers and archives carry both versions in their names
_CUDNN_OLD = re.compile(r"cudnn-(\d{1,2}\.\d)-[a-z]+\d*-[a-z0-9]+-v(\d[\d.]*\d|\d)", re.IGNORECASE)
_CUDNN_NEW = re.compile(
    r"cudnn-(?:windows|linux)-[a-z0-9_]+?-(\d{1,2}(?:\.\d+){2,3})(?:_cuda(\d{1,2}(?:\.\d+)?))?", re.IGNORECASE
)
_CUDA_INSTALLER = re.compile(r"cuda_(\d{1,2}\.\d+(?:\.\d+)?)_(?:(\d{3}\.\d+(?:\.\d+)?)|[a-z])", re.IGNORECASE)
_PIP_CUDA = re.compile(r"nvidia-cuda-(?:runtime|nvcc)-cu\d+==(\d[\d.]*\d)", re.IGNORECASE)
_PIP_CUDNN = re.compile(r"nvidia-cudnn-cu\d+==(\d[\d.]*\d)", re.IGNORECASE)
_NVCC = re.compile(r"release (\d{1,2}\.\d),? *V\d{1,2}\.\d\.\d{1,3}", re.IGNORECASE)
# "10.2.89-5" is the fifth package of CUDA 10.2.89 in a distribution
_PACKAGE_OF = re.compile(r"(\d+\.\d+\.\d+)-\d(?![.\d])")
_ASIDE = re.compile(r"\((?![^()]*(?:cuda|cudnn))[^()]*\)", re.IGNORECASE)
_TOKEN = re.compile(rf"(?P<label>cuda|cudnn)|(?<![\d.])v?(?P<number>{_NUMBER})(?![\d]|\.\d)", re.IGNORECASE)

_TF_VERSION = re.compile(
    r"(?<![\d.])(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)(?:\.?(dev\d{1,10})|[-.]?((?:rc|alpha|beta|a|b)\d{1,2}))?(?![\d])",
    re.IGNORECASE,
)
_GIT_DESCRIBE = re.compile(
    r"v\d+\.\d+\.\d+[\w.-]{0,40}-g[0-9a-f]{6,}|v\d+\.\d+\.\d+[\w.-]{0,40}-\d+-g[0-9a-f]+", re.IGNORECASE
)
_PYTHON = re.compile(r"(?<![\d.])([23]\.\d{1,2}(?:\.\d{1,2})?)(?!\d)")
_PYTHON_WORD = re.compile(r"python *(?:version *)?(?:[:=] *)?v?([23]\.\d{1,2}(?:\.\d{1,2})?)", re.IGNORECASE)
_DRIVER = re.compile(r"(?<![\d.])(\d{3}\.\d{1,3}(?:\.\d{1,3})?)(?![\d.]*\d)")

_OS = re.compile(
    r"linux|ubuntu|debian|centos|red ?hat|rhel|fedora|suse|arch\b|manjaro|mint|gentoo|alma|rocky|pop!?[_ ]?os|kali"
    r"|nixos|win(?:dows)?[ -_]?(?:\d|xp|server)|windows|wsl|mac ?os|\bos ?x\b|\bosx|darwin|catalina|big sur|monterey"
    r"|ventura|sonoma|sierra|jetpack|l4t|amazon|freebsd|elementary|zorin|endeavour|slackware|void",
    re.IGNORECASE,
)
_GPU = re.compile(
    r"nvidia|ge ?force|\b[gr]tx|quadro|tesla|titan|jetson|radeon|\bamd\b|advanced micro|intel|\biris\b|\bxe\b"
    r"|\barc\b|apple|\bm[1-4]\b"
    r"|\b(?:gt|gts|mx|rx|nvs)[ -]?\d{3,4}|\b[agpktvlhb][ -]?\d{1,4}[a-z]{0,2}\b|\bgrid\b|\bvega\b|grace|blackwell"
    r"|ampere|\b\d{3,4} ?(?:ti|m|super|max-?q)\b|\b[1-5]0[5-9]0\b|\bdgx\b|\brtx",
    re.IGNORECASE,
)
_NO_GPU = re.compile(
    r"[(]?(?:none\b|no$|no gpu\b|(?:only )?cpu\b|without (?:a )?gpu|no (?:nvidia|dedicated)|integrated)", re.IGNORECASE
)
_MEMORY = re.compile(
    r"[\s,;:/|(@+&-]{0,20}(?:\b(?:and|with)\b[\s(]{0,20})?(?<![A-Za-z\d.])\d{1,3}(?:[.,]\d{1,2})? ?(?:gi?b?s?|mi?b)\b"
    r"(?: *(?:of )?(?:d?ram|v-?ram|gddr\d\w?|memory|video memory))?[\s).]*|[\s,;/(]{1,20}\d{4,6} ?(?:mi?b)\b[\s).]*",
    re.IGNORECASE,
)
_COUNT = re.compile(r"^(?:\d{1,2} ?[x×*] ?|\d{1,2} (?=[A-Za-z]))|\s*[(]?[x×] ?\d{1,2}[)]?$")


# what people list behind the card, on the same line
_OTHER_PARTS = re.compile(r"\s*[,;/]\s*(?:cuda|cudnn|driver|python|tensorflow|ubuntu|windows) ?v?\d.*", re.IGNORECASE)


def says_nothing(text: str) -> bool:
    """Whether the field was left out: "N/A", "_No response_", "unknown", "-"."""
    return _NOTHING.fullmatch(text.strip()[:LONGEST]) is not None


def cuda_and_cudnn(text: str) -> tuple[str | None, str | None]:
    """The versions in the field "CUDA/cuDNN version"; None for what is not there.

    Numbers belong to the word before them, else to the word after them, else to CUDA and cuDNN in that order.
    """
    cuda, cudnn, rest = _named_files(text[:LONGEST])
    labels: list[str] = []
    free: list[str] = []
    found = {"cuda": cuda, "cudnn": cudnn}
    end = -9
    for token in _TOKEN.finditer(rest):
        if token["label"]:
            label = token["label"].lower()
            if free and token.start() - end <= 2 and not found[label]:
                found[label] = free.pop()
            elif not found[label]:
                labels.append(label)
        elif labels:
            found[labels.pop(0)] = token["number"]
            end = -9
        else:
            free.append(token["number"])
            end = token.end()
    _share_out(free, found)
    return _plausible(found["cuda"], 2, 19), _plausible(found["cudnn"], 1, 9)


def _share_out(free: list[str], found: dict[str, str | None]) -> None:
    """Numbers without a word: CUDA's, then cuDNN's; a single 5 or 6 is cuDNN's, no release was built for that CUDA."""
    if len(free) == 1 and not any(found.values()) and free[0] in ("5", "5.1", "6", "6.0"):
        found["cudnn"] = free[0]
        return
    for number in free:
        if not found["cuda"] and not found["cudnn"]:
            found["cuda"] = number
        elif not found["cudnn"] and number != found["cuda"]:
            found["cudnn"] = number
        elif not found["cuda"]:
            found["cuda"] = number


def _named_files(text: str) -> tuple[str | None, str | None, str]:
    """CUDA and cuDNN from the names of archives and packages, and the text without them."""
    cuda = cudnn = None
    if "nvidia-smi" in text.lower() or "driver" in _ASIDE.sub(" ", text).lower():
        return None, None, ""  # "12.2 (nvidia-smi)" is what the driver supports
    for pattern, places in (
        (_CUDA_INSTALLER, (1, None)),
        (_PIP_CUDA, (1, None)),
        (_NVCC, (1, None)),
        (_PIP_CUDNN, (None, 1)),
        (_CUDNN_OLD, (1, 2)),
        (_CUDNN_NEW, (2, 1)),
    ):
        if match := pattern.search(text):
            cuda = cuda or (match[places[0]] if places[0] else None)
            cudnn = cudnn or (match[places[1]] if places[1] else None)
            text = text[: match.start()] + " " + text[match.end() :]
    return cuda, cudnn, _PACKAGE_OF.sub(r"\1", _ASIDE.sub(" ", text))


def _plausible(version: str | None, low: int, high: int) -> str | None:
    return version if version and low <= int(major(version)) <= high else None


def driver_of_installer(text: str) -> str | None:
    """The driver that a CUDA installer's name carries: "cuda_10.0.130_410.48_linux"."""
    match = _CUDA_INSTALLER.search(text[:LONGEST])
    return match[2] if match else None


def tensorflow(text: str) -> str | None:
    """The release; behind the output of git describe stands the version proper."""
    plain = _GIT_DESCRIBE.sub(" ", text[:LONGEST])
    match = _TF_VERSION.search(plain) or _TF_VERSION.search(text[:LONGEST])
    if match is None or int(major(match[1])) > 2:
        return None
    stage = (match[3] or "").lower().replace("alpha", "a").replace("beta", "b")
    return match[1] + (f".{match[2].lower()}" if match[2] else stage)


def python(text: str) -> str | None:
    """The version of Python: "3.8.10"; None for a bare "3"."""
    match = _PYTHON_WORD.search(text[:LONGEST]) or _PYTHON.search(text[:LONGEST])
    return match[1] if match else None


def driver(text: str) -> str | None:
    """The version of the NVIDIA driver: "535.113.01", "440.82"."""
    match = _DRIVER.search(text[:LONGEST])
    return match[1] if match else None


def names_no_gpu(text: str) -> bool:
    """Whether the field for the GPU says in words that there is none: "None", "CPU only"."""
    return _NO_GPU.match(text.strip()) is not None


def system(text: str) -> str | None:
    """The operating system's name as it was written, in lower case; None when it is not one."""
    plain = " ".join(text[:LONGEST].split()).strip("*_`. ")
    return plain.lower() if _OS.search(plain) else None


def gpu(text: str) -> str | None:
    """The name of the GPU without its memory; "none", "CPU only" and other makers' names as they are."""
    plain = " ".join(text[:LONGEST].split()).strip("*_`, ")
    if _NO_GPU.match(plain) or not _GPU.search(plain):
        return plain if _NO_GPU.match(plain) else None
    name = _COUNT.sub("", _MEMORY.sub(" ", _OTHER_PARTS.sub("", plain), count=4)).strip(" ,;/|(-:+")
    return " ".join(name.split()) or None


def any_text(text: str) -> str | None:
    """What was written, in lower case."""
    return " ".join(text[:LONGEST].lower().split()).strip("*_` ") or None
