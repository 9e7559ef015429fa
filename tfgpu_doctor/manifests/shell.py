"""Shell commands that install: their words, packages, folders, and the files they name, environment.yml among them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.manifests import (
    MOST_REQUIREMENTS,
    Environment,
    Image,
    IncludeError,
    Kind,
    ManifestError,
    Place,
    Requirement,
    Setting,
    UnreadList,
    UnreadProject,
    environment_of,
    quoted,
    without_password,
)
from tfgpu_doctor.manifests.pip import Include, Lines, Node, documents
from tfgpu_doctor.manifests.pyproject import read_pyproject
from tfgpu_doctor.manifests.requirement import conda_requirement, other_index, pip_requirement, poetry_specifier
from tfgpu_doctor.manifests.variables import complaint, fill, unknown_part

_QUOTED = r"""'[^']*'|"(?:\\.|[^"\\])*"|\\."""
_TOKEN = re.compile(
    r"\\[ \t]*\n|[ \t\r\f\v]+|\#(?:\\[ \t]*\n|.)*?(?=\n|\Z)"  # a joined line, blanks, a comment
    r"|(?P<end>&&|\|\||[;|\n]|(?<![<>])&(?!>))"
    rf"|(?P<word>(?:(?!\\[ \t]*\n)(?:{_QUOTED}|[^ \t\r\n\f\v'\"\\;|&]+|(?<=[<>])&(?!&)|&(?=>)|['\"\\]))+)",
    re.DOTALL,
)
_QUOTING = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|\\(.)", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:\n|([\"\\$`]))")  # within double quotes


@dataclass(frozen=True)
class Word:
    """A word of a command, without its quotes."""

    text: str
    line: int


def commands(code: list[tuple[int, str]]) -> Iterator[list[Word]]:
    """Split numbered lines into commands: at &&, ||, ;, |, & and the ends of lines, outside quotes.

    Of installations of which one is tried if the other fails, the last is returned: `pip install A || pip install B`.
    """
    text = "\n".join(line for _, line in code)
    words: list[Word] = []
    row = before = 0
    tried: list[Word] = []
    for found in _TOKEN.finditer(text):
        row, before = row + text.count("\n", before, found.start()), found.start()
        if found["word"]:
            words.append(Word(unquoted(found["word"]), code[row][0]))
        elif found["end"]:
            installs = _installation(_texts(words)) is not None
            if tried and not installs:
                yield tried
            tried = words if installs and found["end"] == "||" else []
            if not tried:
                yield words
            words = []
    if tried and _installation(_texts(words)) is None:
        yield tried
    yield words


def unquoted(text: str) -> str:
    """Return a word without its quotes."""
    return _QUOTING.sub(lambda found: _ESCAPED.sub(r"\1", found[1] or "") or found[2] or found[3] or "", text)


LONGEST = 1_000  # characters of a path
_NO_PACKAGES = re.compile(  # programs, what a builder makes, single files
    r"(?:^|/)(?:bin|include|share)(?:/[^/]+)?$|/(?:models?|weights|data|dist|build|static|artifacts)$"
    r"|[^/.]\.[a-zA-Z]\w*$"
)


def brings(source: str) -> bool:
    """Whether a copy of `source` from another stage has its packages: any folder can, but for these names."""
    source = posixpath.normpath(source[:LONGEST])
    return _NO_PACKAGES.search(posixpath.dirname(source) if "*" in posixpath.basename(source) else source) is None


Installer: TypeAlias = Literal["pip", "conda", "apt", "poetry"]
FileKind: TypeAlias = Literal["requirements", "constraints", "conda", "project"]

_VERBS = ("install", "wheel", "download")  # wheels are for a later stage, which installs them
_PIP = re.compile(r"pip[\d.]*")
_BEFORE_VERB = re.compile(r"-|env$")  # of conda
_CONDA = frozenset({"conda", "mamba", "micromamba"})
_APT = frozenset({"apt-get", "apt", "aptitude"})
_ADD = frozenset({"uv", "pdm", "pipenv", "poetry"})
# options that take a word of their own
_WITH_WORD = frozenset(
    (
        *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--timeout", "--retries"),
        *("--target", "-t", "--prefix", "--python", "-p", "--proxy", "--cache-dir", "--root", "--platform", "--abi"),
        *("--python-version", "--implementation", "-n", "--name", "--channel", "-o", "--option", "--no-binary"),
        *("--only-binary", "--config-settings", "--index", "--default-index", "--index-strategy", "--torch-backend"),
        *("-w", "--wheel-dir", "-d", "--dest", "--group", "-G", "--extra", "-E", "--source", "--root-prefix"),
        *("--progress-bar", "--only-group", "--with", "--without", "--only"),
    )
)
_PARTS = frozenset({"--extra", "-E", "--extras", "--group", "-G", "--with", "--only-group"})
_PIP_FILES: dict[str, FileKind] = {
    **dict.fromkeys(("-r", "--requirement", "--requirements"), "requirements"),
    **dict.fromkeys(("-c", "--constraint"), "constraints"),
}
_FILES: dict[Installer, dict[str, FileKind]] = {"conda": {"-f": "conda", "--file": "conda"}, "apt": {}}
_PROJECT = re.compile(r"\.(?:\[(?P<extras>[\w.,\s-]+)\])?")
_SHORT = re.compile(r"(-[rc])(.+)")
_BY_LINE = re.compile(r"\bxargs\b.{0,1000} -(?:[nL] ?1\b|I|-max-(?:args|lines)[= ]1\b)")
_REDIRECTION = re.compile(r"\d?(>>?|<)")


# the default of its installers; a release comes for several Pythons: Miniconda's release notes, 26.9.4-1
MINICONDA_LATEST = "3.13"
# of NVIDIA's, run by itself or by a shell: cuda_10.0.130_410.48_linux, cuda_11.8.0_520.61.05_linux.run
_RUNFILE = re.compile(r"(?<![^/])cuda_(?P<major>\d{1,2})\.(?P<minor>\d{1,2})\.[\d._]{1,40}_linux[\w.]*$")
_MINICONDA = re.compile(r"Miniconda3-(?:latest|py3(?P<minor>\d{1,2})_)[\w.-]*\.sh")


@dataclass(frozen=True)
class File:
    """A file that a command installs from."""

    kind: FileKind
    name: str
    place: Place
    extras: tuple[str, ...] = ()  # of a project
    step: int = 0
    upgrade: bool = False
    elsewhere: str = ""
    by_line: bool = False  # a command of its own for each line, from this step on


@dataclass
class Installed:
    """What the commands of a stage bring."""

    requirements: list[Requirement] = field(default_factory=list)
    # of uv; None: that of the system, whichever other one apt installs, since every pip is its own
    pythons: list[Requirement | None] = field(default_factory=list)
    named: list[Word] = field(default_factory=list)  # python3.9 or its pip, other than to install it by apt
    files: list[File] = field(default_factory=list)
    copied: list[tuple[str, str]] = field(default_factory=list)  # from the build context, by COPY and ADD, and to where
    not_understood: list[str] = field(default_factory=list)
    updates: list[Place | None] = field(default_factory=list)  # of apt; None: its sources or keys are changed

    def take(self, other: Installed) -> None:
        """What another stage brings, whose commands come later."""
        before = self.steps
        for part in fields(self):
            several, of_pip = getattr(other, part.name), part.name in ("requirements", "files")
            later = [replace(one, step=one.step + before) if of_pip and one.step else one for one in several]
            getattr(self, part.name).extend(later)

    @property
    def steps(self) -> int:
        """How many pip commands there were."""
        of_files = (one.step + one.by_line * MOST_REQUIREMENTS for one in self.files)
        return max((*(one.step for one in self.requirements), *of_files), default=0)


def read_commands(code: list[tuple[int, str]], path: str, found: Installed) -> None:
    """Read the commands on numbered lines, which belong to one RUN.

    What stands between if and fi may not be run, but for `if [ -f FILE ]; then pip install -r FILE; fi`.
    """
    values, begin, before = dict[str, str](), len(found.requirements), list[Word]()
    conditions: list[str] = []  # of the ifs that are open: the file that is asked for, else ""
    for words in commands(code):
        words = [replace(word, text=fill(word.text, values)) for word in words] if values else words
        words, before = _of_xargs(words, before), words
        if _is_run(words, conditions):
            texts = _texts(words)
            values |= _assigned(words)
            found.updates += _updates(words, path)
            found.named += [one for one in words if _NAMED_PYTHON.search(one.text) and _APT.isdisjoint(texts)]
            read_command(words, path, found)
        elif _installation(texts := _texts(words)) and _OF_TENSORFLOW.search(" ".join(texts)):
            text = quoted(" ".join(texts).removeprefix("then ").removeprefix("else "))
            found.not_understood.append(f"{path}:{words[0].line}: {text} is run on a condition, and not judged")
    if all(_PLAIN_PIP.fullmatch(line) for _, line in code):
        found.requirements[begin:] = [replace(one, fatal=True) for one in found.requirements[begin:]]


def _is_run(words: list[Word], conditions: list[str]) -> bool:
    """Keep the conditions that are open, and return whether they let a command run; one of apt's, they do.

    Whatever apt adds to an image, what is missing in it is said where it is certain alone.
    """
    texts = [word.text for word in words if word.text not in ("then", "else", "do")]
    if texts[:1] == ["if"]:
        conditions.append("".join(texts[3:4]) if texts[1:3] in (["[", "-f"], ["test", "-f"]) else "")
    elif texts[:1] == ["fi"]:
        conditions[-1:] = []
    return all(one in texts for one in conditions) or (_installation(texts) or ("",))[0] == "apt"


def _of_xargs(words: list[Word], before: list[Word]) -> list[Word]:
    """Make `pip install -r FILE` of `cat FILE | xargs pip install`, and of xargs that reads the file itself."""
    texts, file = _texts(words), next((word for word in (*before, *words) if _LIST.fullmatch(word.text)), None)
    if file is None or "xargs" not in texts or "-r" in texts or not any(map(_PIP.fullmatch, texts)):
        return words
    return [*(word for word in words if word.text not in ("<", file.text, "{}")), Word("-r", file.line), file]


_LIST = re.compile(r"[^*$]+\.txt")
_OF_PIP = r"(?:sudo )?(?:python3? -m )?pip3? [^|;&\\]*"
_PLAIN_PIP = re.compile(rf"\s*(?:{_OF_PIP}(?:&& *{_OF_PIP})*|#.*)?")
_NAMED_PYTHON = re.compile(r"(?:python|pip)3\.\d")
_OF_TENSORFLOW = re.compile(r"(?i)\s(?:tensorflow|tf-|keras|numpy|protobuf|-r|\.)")  # or a list, a project


def _texts(words: list[Word]) -> list[str]:
    return [word.text for word in words]


def _updates(words: list[Word], path: str) -> list[Place | None]:
    texts = _texts(words)
    if SOURCES.search(" ".join(texts)):
        return [None]
    return [Place(path, words[0].line)] if "update" in texts and not _APT.isdisjoint(texts) else []


def _assigned(words: list[Word]) -> dict[str, str]:
    """The variables of the shell that a command sets: URL=..., export URL=... or declare -r URL=..."""
    texts = [text for text in _texts(words) if text not in _DECLARES]
    pairs = [re.fullmatch(r"([A-Za-z_]\w*)=(.*)", text[:LONGEST]) for text in texts]
    return {one[1]: one[2] for one in pairs if one} if all(pairs) else {}


_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset", "-r", "-x", "-rx"})

# what mends apt in an old image: NVIDIA's new key, its list taken out, the archive of a distribution
SOURCES = re.compile(r"3bf863cc|A4B469963BF863CC|cuda-keyring|sources\.list|archive\.debian")


def read_command(words: list[Word], path: str, found: Installed) -> None:
    """Read one command."""
    texts = [word.text for word in words]
    _by_installers(words, path, found)
    named = _installation(texts)
    if named is None:
        return
    installer, begin = named
    arguments = [*_arguments(installer, words[begin:])]
    place = Place(path, words[0].line)
    of_command: dict[str, Any] = {}  # what all requirements of a pip command share
    if installer == "pip":
        index, upgrade = other_index(" ".join(texts)), not {"-U", "--upgrade"}.isdisjoint(texts)
        of_command = {"step": found.steps + 1, "upgrade": upgrade}
        of_command |= {"elsewhere": f"the index {index}"} if index else {}
    if installer == "poetry" and not arguments:
        if "pipenv" in texts:
            found.not_understood.append(f"{place}: a Pipfile is not read; give requirements.txt")
        else:  # its lock is not read: it has what the project allows
            found.files.append(File("project", ".", place, _parts(texts)))
    for kind, word in arguments:
        place = Place(path, word.line)
        if kind == "requirements" and posixpath.basename(word.text) == "pyproject.toml":  # of uv
            found.files.append(File("project", ".", place, _parts(texts), **of_command))
        elif kind is not None:
            by_line = _BY_LINE.search(" ".join(texts)) is not None
            found.files.append(File(kind, word.text, place, by_line=by_line, **of_command))
        elif project := _project(word.text, place):
            found.files.append(replace(project, **of_command))
        else:
            _add(installer, word.text, place, found, of_command)


def _by_installers(words: list[Word], path: str, found: Installed) -> None:
    """Read what installers of their own bring: the Python of Miniconda and of uv, the CUDA of a runfile."""
    texts = _texts(words)
    if conda := _MINICONDA.search(" ".join(texts)):
        version = f"3.{conda['minor']}" if conda["minor"] else MINICONDA_LATEST
        found.pythons.append(Requirement("python", f"=={version}.*", Place(path, words[0].line), conda[0]))
    if toolkit := next(filter(None, map(_RUNFILE.search, texts[:2])), None):  # as the package of apt
        name = f"cuda-toolkit-{toolkit['major']}-{toolkit['minor']}"
        found.requirements.append(Requirement(name, "", Place(path, words[0].line), toolkit[0], installer="apt"))
    if "uv" in texts:
        _uv_python(words[texts.index("uv") + 1 :], path, found)


def _project(text: str, place: Place) -> File | None:
    """The project that is installed with some of its extras."""
    if (found := _PROJECT.fullmatch(text)) is None:
        return None
    extras = tuple(one.strip() for one in (found["extras"] or "").split(",") if one.strip())
    return File("project", ".", place, extras)


def _parts(texts: list[str]) -> tuple[str, ...]:
    """The extras and groups that are asked for."""
    found = [following for text, following in pairwise(texts) if text in _PARTS]
    found += [text.partition("=")[2] for text in texts if text.partition("=")[0] in _PARTS]
    return tuple(part for one in found for part in re.split(r"[,\s]+", one) if part)


def _installation(texts: list[str]) -> tuple[Installer, int] | None:
    """The installer, and where its arguments begin, wherever they stand: "sudo -H python3 -m pip install ..."."""
    verbs = [at for at, text in enumerate(texts) if text in _VERBS] or [-1]
    for index, text in enumerate(texts):
        program = text.rpartition("/")[2]
        installer: Installer | None = "pip" if _PIP.fullmatch(program) else "apt" if text in _APT else None
        if installer and index < verbs[-1]:
            return installer, next(filter(index.__lt__, verbs)) + 1
        if text in _ADD and texts[index + 1 : index + 2] in (["add"], ["install"], ["sync"]):
            return "poetry", index + 2
        if program in _CONDA:  # install, create, update and env create; others do something else
            verb = next((at for at in range(index + 1, len(texts)) if not _BEFORE_VERB.match(texts[at])), index)
            if texts[verb] in ("install", "create", "update"):
                return "conda", verb + 1
    return None


def _uv_python(words: list[Word], path: str, found: Installed) -> None:
    """uv python install 3.12; uv venv --python 3.12."""
    verbs = [word.text for word in words[:2]]
    for word in words[1:] if verbs == ["python", "install"] or verbs[:1] == ["venv"] else ():
        if version := re.fullmatch(r"(?:--python=|python)?(3\.\d{1,2})(?:\.\d{1,3})?", word.text):
            found.pythons.append(Requirement("python", f"=={version[1]}.*", Place(path, word.line), word.text))


def _arguments(installer: Installer, arguments: list[Word]) -> Iterator[tuple[FileKind | None, Word]]:
    """The files that a command installs from, with their kind, and the packages that it names, with None."""
    files = _FILES.get(installer, _PIP_FILES)
    words = iter(arguments)
    for word in words:
        option, equals, value = word.text.partition("=")
        if option in files:
            name = Word(value, word.line) if equals else next(words, None)
            if name and name.text:
                yield files[option], name
        elif installer == "pip" and (short := _SHORT.fullmatch(word.text)):
            yield files[short[1]], Word(short[2], word.line)
        elif word.text in _WITH_WORD or (option == "-c" and installer == "conda") or _REDIRECTION.fullmatch(word.text):
            next(words, None)  # an option's value, or the file of a redirection
        elif word.text and not word.text.startswith("-") and not _REDIRECTION.match(word.text):
            yield None, word


def _add(installer: Installer, text: str, place: Place, found: Installed, of_command: Mapping[str, Any]) -> None:
    """Take the package that a word names."""
    try:
        one = _package(installer, text, place)
    except ValueError as error:
        later = ValueError("its variables are known only when it is built; give them defaults")
        found.not_understood.append(complaint(place, text, later if "$" in text else error, quote=True))
    else:
        if one:
            found.requirements.append(replace(one, text=without_password(text), **of_command))
        elif text.startswith("$"):
            found.not_understood.append(f"{place}: {quoted(text)} is known only when it is built; give it a default")


def _package(installer: Installer, text: str, place: Place) -> Requirement | None:
    """The package that a word names for an installer. Raises ValueError: it cannot be read."""
    if installer == "apt":  # "libcudnn8=8.6.0.163-1+cuda11.8"
        name, _, version = text.partition("=")
        number = re.match(r"\d+(?:\.\d+)*", version)
        return Requirement(name.lower(), f"=={number[0]}" if number else "", place, text, installer="apt")
    if installer == "conda":
        return conda_requirement(text, place)
    if installer == "poetry" and (found := re.fullmatch(r"([\w.-]+(?:\[[^\]]*\])?)@([\d^~*][^/]*)", text)):
        one = pip_requirement(found[1], place)
        return replace(one, specifier=poetry_specifier(found[2])) if one else None
    return pip_requirement(text, place)


MOST_SOURCES = 200  # of COPY; MOST_TRIED of them are looked for
MOST_TRIED = 20
MOST_FILES = 100  # that the commands of a Dockerfile install from


def _candidates(name: str, copied: list[tuple[str, str]]) -> list[str]:
    """Where a file of the container may lie in the build context, in the order in which to look; never outside."""
    file = posixpath.basename(name)
    renamed = [one for one in copied if posixpath.basename(one[1]) == file]
    renamed.sort(key=lambda one: posixpath.normpath(one[1]) != posixpath.normpath(name))
    parts = [part for part in name.split("/") if part not in ("", ".")][-MOST_TRIED:]
    tails = ["/".join(parts[index:]) for index in range(len(parts))]
    tried = [one for one, _ in (*renamed, *(each for each in copied if posixpath.basename(each[0]) == file))]
    tried += tails
    tried += [posixpath.join(one, tail) for one, _ in copied for tail in (file, *tails)]
    inside = (posixpath.normpath(one.lstrip("/")) for one in tried)
    return list(dict.fromkeys(one for one in inside if not one.startswith("..")))[:MOST_TRIED]


def _look(places: Iterable[str], include: Include) -> tuple[str, str]:
    """The first file that is there, and its text. Raises IncludeError: there is none, or it may not be read."""
    missing = reason = str(IncludeError())
    for place in places:
        try:
            return place, include(place)
        except IncludeError as error:
            reason = reason if reason != missing else str(error)
    raise IncludeError(reason)


def _follow(file: File, name: str, text: str, path: str, lines: Lines, include: Include) -> None:
    """Read a file that is installed from: of a project, with those of its extras and groups that are asked for."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    try:
        if file.kind == "project":
            first, *others = read_pyproject(beside, text, include, quote=False)
            labels = {f"{beside}, {kind} {extra}" for extra in file.extras for kind in ("extra", "group")}
            several = [first, *(one for one in others if one.label in labels)]
        elif file.kind == "conda":
            roots = documents(beside, text)[:1]
            several = [one for root in roots for one in read_environment(beside, root, include, quote=False)]
        else:
            lines.follow(name, file.place, constraint=file.kind == "constraints")
            return
    except ManifestError:  # its message may repeat parts of a file that is something else
        language = "YAML" if file.kind == "conda" else "TOML"
        lines.not_understood.append(f"{file.place}: {quoted(name)} is not valid {language}")
        return
    for one in several:
        lines.requirements += one.requirements + (one.python if file.kind == "conda" else ())
        lines.not_understood += one.not_understood


def _take(text: str, place: Place, pip: Lines, path: str, include: Include, quote: bool) -> None:
    """Read a line of conda's pip, which may be the project beside the file."""
    project = _project(re.sub(r"^(?:-e|--editable)[ =]", "", text).strip(), place)
    if project is None:
        pip.take(text, place, quote=quote)
        return
    own, pip.requirements = pip.requirements, []
    with suppress(IncludeError):  # one of setup.py
        _follow(project, "pyproject.toml", include("pyproject.toml"), path, pip, include)
    pip.requirements += own  # of several lines about one package, the last is the one to edit


def read_environment(path: str, root: Node, include: Include, *, quote: bool = True) -> tuple[Environment, ...]:
    """environment.yml: dependencies of conda, of pip below them, and variables."""
    requirements: list[Requirement] = []
    not_understood: list[str] = []
    pip = Lines(path, include)
    for item in root.items("dependencies")[:MOST_REQUIREMENTS]:
        if item.text is not None:
            try:
                requirements.append(conda_requirement(item.text, item.place))
            except ValueError as error:
                not_understood.append(complaint(item.place, item.text, error, quote=quote))
        for line in item.items("pip"):
            for number, text in enumerate((line.text or "").splitlines()):
                _take(text.strip(), replace(line.place, line=line.place.line + number), pip, path, include, quote)
    settings = [Setting(name, one.text, one.place) for name, one in root.pairs("variables") if one.text is not None]
    channels = tuple(item.text for item in root.items("channels") if item.text)
    found, complaints = (*requirements, *pip.found()), (*not_understood, *pip.not_understood)
    return (environment_of("conda", path, found, complaints, settings=tuple(settings), channels=channels),)


def environment(
    kind: Kind,
    path: str,
    installed: Installed,
    include: Include,
    *,
    python: Iterable[Requirement] = (),
    image: Image | None = None,
    label: str | None = None,
    place: Place | None = None,
    read_as: str | None = None,
    contexts: tuple[str, ...] = ("",),
    **others: Any,
) -> Environment:
    """The environment that commands make, with the other fields that the file tells.

    Args:
        python: the one that something else than the commands names.
        read_as: the path relative to which files are named, where that is not the file's own.
        contexts: folders that can be the build context, relative to that of `read_as`.
    """
    base = read_as or path
    lines = Lines(base, include)
    lines.not_understood += installed.not_understood
    lines.requirements += installed.requirements
    for file in installed.files[:MOST_FILES]:
        wanted = "pyproject.toml" if file.kind == "project" else file.name
        try:
            inside = _candidates(wanted, installed.copied[:MOST_SOURCES])
            name, text = _look((posixpath.join(one, name) for one in contexts for name in inside), include)
        except IncludeError as error:
            unread = UnreadProject if file.kind == "project" else UnreadList
            lines.not_understood.append(unread(f"{file.place}: {quoted(wanted)} {error}"))
            continue
        before, lines.step = len(lines.requirements), file.step
        _follow(file, name, text, base, lines, include)
        for at, one in enumerate(lines.requirements[before:], before):
            step, elsewhere = file.step + file.by_line * (at - before), one.elsewhere or file.elsewhere
            lines.requirements[at] = replace(one, step=step, upgrade=file.upgrade, elsewhere=elsewhere)
    lines.requirements = _without_replaced(lines.requirements, installed)
    complaints = (*unknown_part(image), *lines.not_understood)
    others |= {"image": image, "apt_update": next(iter(installed.updates), None)}
    made = environment_of(kind, path, lines.found(), complaints, label=label or path, **others)
    pythons = tuple(python) or _pythons(installed, made)
    return replace(made, python=pythons, place=place or made.place)


def _without_replaced(lines: list[Requirement], installed: Installed) -> list[Requirement]:
    """Leave out the lines of a project that `poetry add` replaces, as does uv's: python-poetry pull request 4945."""
    added = {one.name for one in installed.requirements if one.installer == "pip" and one.specifier and not one.step}
    return [one for one in lines if one.name not in added or not one.place.path.endswith(".toml")]


def has_tensorflow(one: Environment) -> bool:
    """Whether TensorFlow is in the image, or installed."""
    image = one.image is not None and "tensorflow" in one.image.name
    return image or any(each.name in TENSORFLOW for each in one.requirements)


def _pythons(installed: Installed, made: Environment) -> tuple[Requirement, ...]:
    """The Python of conda, of uv, or of apt's python3.9."""
    if of_conda := tuple(one for one in made.python if one.installer == "conda"):
        return of_conda
    for one in made.requirements if not installed.pythons else ():
        if one.installer == "apt" and (version := re.fullmatch(r"python(3\.\d+)", one.name)):
            return (replace(one, name="python", specifier=f"=={version[1]}.*"),)
    if any(one.installer == "conda" and one.name in TENSORFLOW for one in made.requirements):
        return ()  # conda chooses one
    return tuple(one for one in installed.pythons[-1:] if one)
