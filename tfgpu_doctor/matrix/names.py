"""GPUs by the names that the driver, people and clouds give them, and CUDA libraries by their files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from tfgpu_doctor.matrix.schema import Instance

_Words = frozenset[str]

# Words that never tell two chips of one model number apart.
_DECORATION = re.compile(
    r"\d+(?:gb?|bit)|[gl]?ddr\dx?|hbm\d?e?|sxm\d?|pcie|nvl\d*|fhhl|dgxs|dc|"
    r"laptop|mobile|notebook|graphics|card|with|max-q|design|embedded|industrial|oem|desktop|module|developer|kit|devkit|"
    r"lite|hash|rate|lhr|edition|mac|refresh"
)
_LAPTOP = frozenset({"laptop", "mobile", "notebook"})
_LINES = frozenset({"geforce", "gtx", "rtx", "gts", "gt", "tesla", "quadro", "grid", "jetson", "agx"})
_GENERATIONS = frozenset({"ada", "generation", "blackwell", "pascal", "pro", "workstation", "server", "active"})
_PREFIXES = frozenset({"tesla", "quadro", "grid", "jetson", "dgx", "hgx"})  # said before models of other lines, too

_NOISE = re.compile(r"\((?:r|tm|c|nvgpu|rev \w+)\)|[®™©]|\brev\. \w+|\bnvidia\b|\bcorporation\b|\bgpu\b|\bmig \d.*$")
_SPELLINGS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bmax[- ]?q\b"), "max-q"),
    (re.compile(r"\bpci(?:[- ]?e|[- ]?express)\b"), "pcie"),
    (re.compile(r"(?<![a-z0-9])(geforce|quadro|tesla|titan|jetson|grid)(?=[a-z0-9])"), r"\1 "),  # "titanxp"
    (re.compile(r"(?<![a-z0-9])(rtx|gtx|gts|gt|nvs)(?=[a-z]?\d)"), r"\1 "),  # "rtx4090", "rtxa6000"
    (re.compile(r"laptop ?gpu\b"), "laptop"),
    (re.compile(r"(?<=\d)(ti|super|laptop|mobile)(?=\b|super)"), r" \1 "),  # "3080ti"
    (re.compile(r"\b(\d{4})s\b"), r"\1 super"),
    (re.compile(r"\b([45]090)d\b"), r"\1 d"),
    (re.compile(r"\borin nano super\b"), "orin nano"),  # the same module with a higher power limit
    (re.compile(r"(?<!max)[-_/,()]+"), " "),
    (re.compile(r"\b(\d{3,4}) (mx?)\b"), r"\1\2"),  # "860 M"
    (re.compile(r"\b([ahlkvpt]|mx) (\d+)\b"), r"\1\2"),  # "A 100", "MX 150"
    (re.compile(r"\b(\d+) (gb?|bit)\b"), r"\1\2"),
)
_VGPU = re.compile(r"(.+?)-(?:\d-)?\d{1,3}(?:[QCAB]|CME|B4)?", re.IGNORECASE)
_VARIANT = re.compile(r"(?<=\d)[a-z]{1,2}\b", re.IGNORECASE)  # the letters of a board there: A100DX, RTX6000P
_DIGIT = re.compile(r"\d")  # without one, a beginning is that of a product line
_MOST_LISTED = 4
_PREFIXED = ("geforce", "tesla", "quadro")  # product lines that people leave out
_LONGEST = 80  # characters; no name has as many, and comparing is slow with text that is no name at all
_ALIKE = 0.7  # similarity below which a name is no help to somebody who mistyped another


# GeForce 8, 9, 100, 200 and 300, whose last driver branch is 340 and whose last CUDA 6.5 (NVIDIA's list of Unix drivers
# for legacy GPUs), and chips as lspci names them (pci.ids); the names of later ones are in the matrix
_BEFORE_KEPLER = {
    "1": re.compile(
        r"\bGeForce (?:(?:G|GT|GTS)? ?(?:[89][1-8]00|[123]\d[05])|GTX 2\d[05])M?\b(?! ?MX)"
        r"|\bG(?:8[046]|9[2468]|T200|T21[568])\w?\b",
        re.IGNORECASE,
    ),
    "2": re.compile(r"\bGF1[01]\d\w?\b", re.IGNORECASE),
}


def before_kepler(name: str) -> str | None:
    """The major compute capability of a GPU that no TensorFlow has kernels for, by a name or chip of that time."""
    return next((number for number, names in _BEFORE_KEPLER.items() if names.search(name)), None)


class NameIndex:
    """Known names, made ready to be searched."""

    def __init__(self, names: Iterable[str]) -> None:
        self._known = {name: _words(name) for name in names}
        self._cores = {name: _core(words) for name, words in self._known.items()}
        self._with: dict[str, set[str]] = {}  # word → the names that have it
        for name, words in self._known.items():
            for word in words:
                self._with.setdefault(word, set()).add(name)
        self._jetsons = frozenset(word for words in self._cores.values() if "jetson" in words for word in words)
        self._answers: dict[str, tuple[str, ...]] = {}  # a diagnosis asks for the same few names again and again

    def find(self, name: str) -> tuple[str, ...]:
        """All known names that `name` can mean, the nearest first; empty when there is none.

        >>> NameIndex(["GeForce RTX 4090", "Quadro RTX 6000", "RTX 6000 Ada Generation"]).find("rtx 6000")
        ('Quadro RTX 6000', 'RTX 6000 Ada Generation')
        """
        if name not in self._answers:
            in_brackets = re.search(r"\[([^\[\]]+)\]", name)  # as lspci has it: "AD102 [GeForce RTX 4090] (rev a1)"
            text = (in_brackets[1] if in_brackets else name).strip()
            self._answers[name] = (
                self._spelled(text, _LINES | _GENERATIONS)
                or self._virtual(text)
                or self._listed(text)
                or self._begun(text)
            )
        return self._answers[name]

    def nearest(self, name: str, n: int = 3) -> tuple[str, ...]:
        """Up to `n` known names that are written most like `name`, the nearest first; empty when none is like it."""
        plain = {known: _plain(known) for known in self._known}
        spellings = {" ".join(w for w in text.split() if w not in _PREFIXED): known for known, text in plain.items()}
        spellings |= {text: known for known, text in plain.items()}
        near = get_close_matches(_plain(name)[:_LONGEST], spellings, 2 * n, _ALIKE)
        return tuple(dict.fromkeys(spellings[one] for one in near))[:n]

    def _virtual(self, profile: str) -> tuple[str, ...]:
        """The board of a virtual GPU: "GRID V100D-8Q", "NVIDIA A100-1-5C"."""
        board = _VGPU.fullmatch(profile)
        if board is None:
            return ()
        # a profile's name has its generation where there are two, so that "RTX6000" is the Quadro of Turing
        omittable = _LINES | {"generation", "server"}
        return self._spelled(board[1], omittable) or self._spelled(_VARIANT.sub("", board[1]), omittable)

    def _listed(self, several: str) -> tuple[str, ...]:
        """The models of a name for several, if all are known: "Quadro RTX 6000/8000"."""
        pieces = several.split("/")
        found = [self._spelled(piece, _LINES | _GENERATIONS) for piece in pieces[:_MOST_LISTED]]
        known = len(pieces) <= _MOST_LISTED and all(found)
        return tuple(dict.fromkeys(name for names in found for name in names)) if known else ()

    def _begun(self, name: str) -> tuple[str, ...]:
        """What nvidia-smi's table has no room for: "GeForce RTX 208..."."""
        begin = _plain(name.removesuffix("...")) if name.endswith("...") else ""
        return tuple(known for known in self._known if _plain(known).startswith(begin)) if _DIGIT.search(begin) else ()

    def _spelled(self, name: str, omittable: _Words) -> tuple[str, ...]:
        wanted = _words(name)
        found = self._matching(wanted, omittable)
        if wanted & _LAPTOP:
            mobile = self._matching(frozenset(re.sub(r"^\d{3,4}$", r"\g<0>m", word) for word in wanted), omittable)
            found += tuple(one for one in mobile if one not in found)
        return found

    def _matching(self, wanted: _Words, omittable: _Words) -> tuple[str, ...]:
        model = _core(wanted)
        if not model - omittable:
            return ()  # a product line alone is no model
        # names of all three comparisons have these words: a name that is none costs a look-up each
        alike = set.intersection(*(self._with.get(word, set()) for word in model - _PREFIXES or model))
        near = [known for known in self._known if known in alike] if alike else []
        same = self._same(near, wanted, model, omittable)
        return tuple(sorted(self._of_line(model, same), key=lambda known: len(self._known[known] ^ wanted)))

    def _same(self, near: list[str], wanted: _Words, model: _Words, omittable: _Words) -> list[str]:
        """The names with the same words; else of the same model; else that differ in words that may be left out."""
        return (
            [known for known in near if self._known[known] == wanted]
            or [known for known in near if self._cores[known] == model]
            or [k for k in near if self._cores[k] - model <= omittable and model - self._known[k] <= _PREFIXES]
        )

    def _of_line(self, model: _Words, same: list[str]) -> list[str]:
        """Of names that a model can mean: a "Jetson T2000" is no Quadro, and a "T2000" no Jetson.

        The driver calls some Jetsons "Orin" or "Tegra X1".
        """
        if "jetson" not in model:
            return [known for known in same if "jetson" not in self._known[known]] or same
        cores = {known: self._cores[known] for known in same}
        return [name for name, words in cores.items() if words & {"jetson", "tegra"} or words <= self._jetsons]


def _plain(name: str) -> str:
    """One spelling of all: lower case, words apart by one space."""
    text = _NOISE.sub(" ", " ".join(name.lower().split()))
    for pattern, spelling in _SPELLINGS:
        text = " ".join(pattern.sub(spelling, text).split())
    return text


def _words(name: str) -> _Words:
    return frozenset(_plain(name).split())


def _core(words: _Words) -> _Words:
    """The words that tell the model."""
    return frozenset(word for word in words if not _DECORATION.fullmatch(word))


_PREFIX = r"(?:ml\.|standard_)?"  # of SageMaker and of Azure
_BEFORE, _AFTER = r"(?<![A-Za-z0-9_.-])", r"(?![A-Za-z0-9_-])"  # beside Chinese stands no space
# of all types alike, so that few places of a text are tried
_START = re.compile(rf"{_BEFORE}(?={_PREFIX}[a-z]{{1,3}}\d|(?:aws|ec2) )", re.IGNORECASE)
_SIZE = r"\.(?:\d{0,3}xlarge|metal(?:-\d{1,3}xl)?)"
_MODEL = re.compile(r"\.\*$|-#g?$")  # "g4dn" of "g4dn.*", "a2-highgpu" of "a2-highgpu-#g"
_BARE = re.compile(r"(?:standard_)?[a-z]{2,3}#[a-z]{0,3}", re.IGNORECASE)  # "NC6" may be anything


class InstanceIndex:
    """The patterns of the matrix, made ready to be searched when they are first needed."""

    def __init__(self, rows: Iterable[Instance]) -> None:
        self._patterns = [(row, pattern) for row in rows for pattern in row.names]
        self._types = [(row, pattern) for row, pattern in self._patterns if "#" in pattern or "*" in pattern]

    @cached_property
    def _names(self) -> re.Pattern[str]:
        return _any_of(_named(pattern) for _, pattern in self._patterns)

    @cached_property
    def _text(self) -> re.Pattern[str]:
        return _any_of((_written(pattern) for _, pattern in self._types), _START.pattern)

    def find(self, name: str) -> Instance | None:
        """The row of a type ("p3.2xlarge"), or of a family ("p3"); None where it is none."""
        match = self._names.fullmatch(name.strip())
        return self._patterns[match.lastindex - 1][0] if match and match.lastindex else None

    def named_in(self, text: str) -> Iterator[tuple[re.Match[str], Instance]]:
        """Those that a text names: a type, or a family beside the word "instance" or its cloud's name."""
        for match in self._text.finditer(text) if _START.search(text) else ():
            if match.lastindex:
                yield match, self._types[match.lastindex - 1][0]


def _any_of(patterns: Iterable[str], before: str = "") -> re.Pattern[str]:
    """One group for each."""
    return re.compile(before + "(?:" + ("|".join(f"({one})" for one in patterns) or "(?!)") + ")", re.IGNORECASE)


def _regex(pattern: str) -> str:
    plain = re.escape(pattern.removeprefix("Standard_"))
    return plain.replace(r"\.\*", _SIZE).replace(r"\#", r"\d{1,3}")


def _named(pattern: str) -> str:
    family = re.escape(_MODEL.sub("", pattern))
    return rf"{_PREFIX}{_regex(pattern)}|{family}(?: instance)?"


def _written(pattern: str) -> str:
    """In a text, where "p3" and "NC6" may be anything."""
    prefix = "standard_" if _BARE.fullmatch(pattern) else _PREFIX
    whole = rf"{prefix}{_regex(pattern)}{_AFTER}"
    if not pattern.endswith(".*"):
        return whole
    family = re.escape(_MODEL.sub("", pattern))
    return rf"{whole}|{family}[- ](?:instances?|vms?)\b|(?:aws|ec2) {family}{_AFTER}(?!\.)"


_LINUX = re.compile(
    r"lib(?P<stem>cu\w+?|nvinfer\w*|nccl|nvrtc|nvJitLink|cuda)\.so(?:\.(?P<version>\d+(?:\.\d+)*))?", re.IGNORECASE
)
# TensorFlow's guide "Install with pip", Windows: the Visual C++ Redistributable brings msvcp140_1.dll, 2.1 and later
# need it; vcruntime140_1.dll came with that of 2019.
VC_RUNTIME = ("msvcp140.dll", "msvcp140_1.dll", "vcruntime140_1.dll")
_MACOS = re.compile(r"lib(?P<stem>cu\w+?|nvinfer\w*)(?:\.(?P<version>\d+(?:\.\d+)*))?\.dylib", re.IGNORECASE)
_WINDOWS = re.compile(
    r"(?P<stem>cu[a-z]+(?:_[a-z_]+?)?|nvinfer\w*?|nvrtc)(?:64|32)?_(?P<digits>\d*)(?:_\d+)?\.dll", re.IGNORECASE
)
# components whose version is CUDA's own; those of the others are numbered apart (libcufft.so.10 is in CUDA 10 and 11)
_CUDA_OWN = ("cudart", "cublas")
_ALL_ALIKE = ("7.0", "7.5", "8.0", "9.0", "9.1", "9.2", "10.0")
_OPTIONAL = ("nvinfer", "nccl", "cupti")


@dataclass(frozen=True)
class Library:
    """A library of NVIDIA's by its file name."""

    name: str
    component: str  # "cudart", "cublas", "cudnn", "cuda" (the driver's), "nvinfer" ...
    version: str | None  # as the name has it: "11.0", "8"

    @property
    def cuda_version(self) -> str | None:
        """The CUDA that it belongs to, where its name tells: up to 10.0 every library has its toolkit's number."""
        alike = self.version in _ALL_ALIKE and self.component not in ("cudnn", "nvinfer")
        return self.version if alike or self.component in _CUDA_OWN else None

    @property
    def optional(self) -> bool:
        """Whether TensorFlow does without it."""
        return self.component.startswith(_OPTIONAL)


def known_library(name: str) -> Library | None:
    """Read which library of NVIDIA's, and of which version, a file name tells; None for one that is not NVIDIA's.

    >>> known_library("cudart64_101.dll"), known_library("libcudnn_cnn_infer.so.8")  # doctest: +NORMALIZE_WHITESPACE
    (Library(name='cudart64_101.dll', component='cudart', version='10.1'),
     Library(name='libcudnn_cnn_infer.so.8', component='cudnn', version='8'))
    """
    if name.lower() == "nvcuda.dll":
        return Library(name, "cuda", None)
    if match := _LINUX.fullmatch(name) or _MACOS.fullmatch(name):
        version = match["version"]
    elif match := _WINDOWS.fullmatch(name):
        # "101" is 10.1 and "80" is 8.0; "12", "11" of cublas and "8" of cudnn are whole
        digits = match["digits"]
        has_minor = len(digits) == 3 or (len(digits) == 2 and int(digits) >= 50)
        version = f"{digits[:-1]}.{digits[-1]}" if has_minor else digits or None
    else:
        return None
    stem = match["stem"].lower()
    return Library(name, next((one for one in ("cudnn", "cublas") if stem.startswith(one)), stem), version)


# what names a GPU of another maker → what its TensorFlow is
_OF_APPLE = r"\b(?:apple|m[1-5](?: (?:pro|max|ultra))?)\b"
_OF_OTHERS = {
    r"\b(?:amd|radeon|rx ?\d{3,4}|instinct|mi\d{2,3}x?)\b": "AMD's use tensorflow-rocm: "
    "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/install/3rd-party/tensorflow-install.html",
    _OF_APPLE: "Apple's use tensorflow-metal: https://developer.apple.com/metal/tensorflow-plugin/",
    r"\b(?:intel|arc|iris|uhd)\b": "Intel's use intel-extension-for-tensorflow: "
    "https://github.com/intel/intel-extension-for-tensorflow",
}


def is_apples(text: str) -> bool:
    """Whether a text names a GPU of Apple's own processors."""
    return re.search(_OF_APPLE, text, re.IGNORECASE) is not None


def of_others(text: str) -> str | None:
    """Say what the TensorFlow of another maker's GPU is, if the text names one."""
    return next((why for pattern, why in _OF_OTHERS.items() if re.search(pattern, text, re.IGNORECASE)), None)
