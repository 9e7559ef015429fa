"""A record without what is private: names of users and hosts, home folders, addresses, identifiers, credentials.

The same value becomes the same placeholder everywhere (``<user>``, ``<host-1>``, ``GPU-<uuid-1>``), so that a reader
can still follow it, and so that its diagnosis stays the same. Redacting twice changes nothing. The time is linear in
the size of the record: each text is read once for what it teaches and once for what is replaced in it, by expressions
that read it once, and all that was learned is looked up together (KnownNames). Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tfgpu_doctor.facts.about import HOST, HOST_FILE, NAMES, OWN_NAME, closed_fields, described, private, records_in
from tfgpu_doctor.facts.facts import Facts, Known, Setting, Unknown
from tfgpu_doctor.facts.report import Fix
from tfgpu_doctor.redact import paths, patterns
from tfgpu_doctor.redact.escapes import decoded
from tfgpu_doctor.redact.paths import NOBODY, PLACEHOLDER, WORDS, is_public_text, is_public_word, is_term
from tfgpu_doctor.redact.patterns import Match

_A_LONG_WORD = 12  # a part of a path so long is no word of our sentences
_NUMBER_OR_LETTER = re.compile(r"\d|\b[^\W_]\b")  # "gpu-08", "node-a": public words otherwise
_NEVER_WORDS = 3  # a user of so few letters is replaced in paths only

# what goes by these is a name, whatever it looks like
_OWN_NAMES = frozenset({OWN_NAME, "CONDA_DEFAULT_ENV", "WSL_DISTRO_NAME"})

# in commands: an option with an interpreter, words without quotes, and one that is an interpreter
_INTERPRETER = re.compile(r"(--python )(?:'[^'\n]*'|\"[^\"\n]*\"|\S+)")
_WORDS = re.compile(r"""(?<![^\s(])[^\s"'()]+(?![^\s)])""")
_A_PYTHON = re.compile(r"[\\/]python[\d.]*(?:\.exe)?$")

# names of the fields that hold a whole path, so that its parts may have spaces
_FIELDS = [field for record in records_in(Facts) for field in described(record).items()]
_PATHS = frozenset(name for name, about in _FIELDS if about.unit == "path")
# fields of a fleet that a whole path ends: ids ("cudnn.installed./data/x y/libcudnn.so.9"), and values
_WITH_PATHS = frozenset({"id", "explains", "value"})
_KEYED = re.compile(r"\A(?:[\w.]*\.)?(?=(?:~?/|[A-Za-z]:[\\/])[^,\n]*\Z)")

T = TypeVar("T")


def redact(record: T) -> T:
    """Return the record (a report, a result, several of them in a tuple) with everything private replaced."""
    redacted: T = changed(record, Redactor(record).replace)
    return redacted


class Redactor:
    """Learns the private values of one record, and replaces them in it or in other texts about it."""

    def __init__(self, record: Any) -> None:
        """Collect what is private in `record`."""
        self._own = False  # the text is our own advice: what it names and the facts do not is not private
        self._known: dict[tuple[str, str], None] = {}  # (kind, value), to be replaced wherever they stand
        self._taken, self._uuids = set[str](), set[str]()
        changed(record, self._learn)
        self._placeholders = Placeholders(self._taken, self._uuids)
        self._name = self._placeholders.of
        telling = ((value.lower(), kind) for kind, value in reversed(self._known) if _is_telling(kind, value.lower()))
        self._words = KnownNames(dict(telling).items())
        # parts of paths with spaces and the like in them, at which a path in running text seems to end
        odd = ((value, kind) for kind, value in self._known if re.search(r"[^\w.+-]", value))
        self._spaced = KnownNames(((v, kind) for v, kind in odd if kind in ("user", "path")), parts_of_paths=True)

    def replace(self, name: str, text: str, own: bool) -> str:
        """Return a text of the record redacted, as :func:`changed` asks for it."""
        self._own = own
        redacted = self.text(text, name)
        if redacted == text or not (own and name == "commands"):
            return redacted
        return _WORDS.sub(_in_a_shell, redacted)

    def text(self, text: str, name: str = "") -> str:
        """Return one text redacted; `name` is that of the variable or field whose value it is."""
        plain = decoded(text)
        redacted = _INTERPRETER.sub(_hidden_interpreter, self._named(plain, name))
        return text if redacted == plain else redacted

    def _named(self, text: str, name: str) -> str:
        if name == HOST:
            return text if not text or text.lower() in NOBODY else self._name("host", text)
        if name == HOST_FILE:
            return self._file_of_host(text)
        if name in _OWN_NAMES and _is_own(text):
            replaced = self._words.replaced(text, self._name)  # a folder's, where it is one
            return replaced if PLACEHOLDER.fullmatch(replaced) else self._name("name", text)
        if text and name and patterns.SECRET_NAME.search(name):
            return self._name("secret", text)
        if "-----BEGIN" in text:
            text = patterns.PRIVATE_KEY.sub(lambda match: self._name("secret", match[0]), text)
        pieces, end = [], 0
        for match in patterns.URL.finditer(text) if "://" in text else ():
            pieces += [self._outside(text[end : match.start()]), self._url(match)]
            end = match.end()
        return "".join([*pieces, self._outside(text[end:])])

    # ------------------------------------------------------------------------------------------------ learning

    def _learn(self, field: str, text: str, own: bool) -> str:
        if own:
            return text
        text = decoded(text)
        self._taken.update(PLACEHOLDER.findall(text))
        self._uuids.update(patterns.UUID.findall(text))
        if field == HOST:
            self._add("host", text)
        if field in _OWN_NAMES and _is_own(text):
            self._add("name", text)
        if field in _PATHS:
            self._learn_path(text)
        elif keyed := _KEYED.search(text) if field in _WITH_PATHS else None:
            self._learn_path(text[keyed.end() :])
        paths.each(text, self._learn_path)
        patterns.replaced(patterns.PLACES, f"{field}={text}" if field.isupper() else text, self._add)
        patterns.replaced(patterns.REMOTES, text, self._learn_remote)
        return text

    def _learn_path(self, path: str) -> str:
        return paths.rewrite(path, self._keep) if re.match(r"~?/|[A-Za-z]:[\\/]", path) else path

    def _learn_remote(self, kind: str, value: str) -> str:
        if kind == "path":
            return paths.rewrite(value, self._keep, least=1)
        return self._add(kind, value) if kind == "host" else value

    def _keep(self, kind: str, value: str) -> str:
        self._known[kind, value] = None
        return value

    def _add(self, kind: str, value: str) -> str:
        name = value.rstrip(".,:")
        is_nobody = not name or name.lower() in NOBODY or name.isdecimal()
        if is_nobody or patterns.IPV4.fullmatch(name) or PLACEHOLDER.fullmatch(name):
            return value
        self._known[kind, name] = None
        label, dot, _ = name.partition(".")
        # the same host, as it calls itself: "gpu07ab", and not "mail" or "node1"
        is_own = len(label) > _NEVER_WORDS and any(map(str.isdecimal, label)) and not is_public_word(label)
        if kind == "host" and dot and is_own:
            self._known[kind, label] = None
        return value

    # -------------------------------------------------------------------------------------------- replacing

    def _outside(self, text: str) -> str:
        text = patterns.replaced(patterns.SECRETS, text, self._name)
        text = patterns.replaced(patterns.REMOTES, text, self._remote)
        text = patterns.replaced(patterns.EMAILS, text, self._name)
        text = self._identifiers(text)
        text = self._spaced.replaced(text, self._name)
        text = paths.each(text, self._path)
        text = patterns.replaced(patterns.PLACES, text, self._in_place)
        return self._words.replaced(text, self._name)

    def _identifiers(self, text: str) -> str:
        text = patterns.replaced(patterns.UUIDS, text, self._name)
        text = patterns.replaced(patterns.STARTS_OF_UUIDS, text, self._placeholders.of_uuid)
        return patterns.replaced(patterns.IDENTIFIERS, text, self._name)

    def _path(self, path: str, least: int = 2) -> str:
        return paths.rewrite(path, self._part, least)

    def _part(self, kind: str, value: str) -> str:
        """A private part of a path; a known user or host in it keeps the placeholder that it has everywhere."""
        if kind == "user":
            return self._name(kind, value)
        replaced = self._words.replaced(value, self._name)
        if self._own and not self._placeholders.has("path", value):
            return replaced
        return replaced if replaced != value and paths.is_public(replaced) else self._name("path", value)

    def _remote(self, kind: str, value: str) -> str:
        if kind == "path":
            return self._path(value, least=1)
        return value if value.lower() in NOBODY else self._name(kind, value)

    def _file_of_host(self, text: str) -> str:
        """A file with what a host printed, which is called after it, or its folder is: the last part that is a name."""
        head, comma, line = text.partition(", line ")
        pieces = re.split(r"([\\/])", self._outside(head))
        for number in range(len(pieces) - 1, -1, -2):
            stem = paths.ENDINGS.sub("", pieces[number])
            if PLACEHOLDER.search(stem):
                break
            if stem and (_NUMBER_OR_LETTER.search(stem) or not is_public_text(stem)):
                pieces[number] = self._name("host", stem) + pieces[number][len(stem) :]
                break
        return "".join([*pieces, comma, line])

    def _url(self, match: Match) -> str:
        scheme, rest = match[1], match[2]
        if scheme.lower() == "file":
            return f"{scheme}://{self._path(rest)}"
        authority, slash, path = rest.partition("/")
        credentials, at, host = authority.rpartition("@")
        if credentials:
            credentials = self._name("secret", credentials)
        name, colon, port = host.partition(":")
        if name.startswith("["):  # IPv6
            name, colon, port = host, "", ""
        path = self._identifiers(patterns.replaced(patterns.SECRETS, slash + path, self._name))
        path = self._words.replaced(path, self._name)
        if name and not patterns.is_public_host(name) and name.lower() not in NOBODY:
            kind = "address" if patterns.IPV4.fullmatch(name) or name.startswith("[") else "host"
            name, path = self._name(kind, name), self._path(path, least=1)
        elif patterns.BUCKETS.search(name):
            path = self._path(path, least=1)
        return f"{scheme}://{credentials}{at}{name}{colon}{port}{path}"

    def _in_place(self, kind: str, value: str) -> str:
        """Names that are common words are replaced only where a program prints a name."""
        name = value.rstrip(".,:")
        return self._name(kind, name) + value[len(name) :] if (kind, name) in self._known else value


def _hidden_interpreter(option: Match) -> str:
    """Return `--python` with a word for an interpreter whose path is hidden; a shell reads < as a redirection."""
    return f"{option[1]}PYTHON" if PLACEHOLDER.search(option[0]) else option[0]


def _in_a_shell(word: Match) -> str:
    """Return a word of a command that has placeholders as a shell can read it; in quotes, * would be no pattern."""
    if "*" in word[0] or not PLACEHOLDER.search(word[0]):
        return word[0]
    return "PYTHON" if _A_PYTHON.search(word[0]) else f'"{word[0]}"'


def _is_own(name: str) -> bool:
    """Whether a name says whose it is; a path is redacted part by part."""
    return bool(name) and "/" not in name and "\\" not in name and not is_public_text(name)


def _is_telling(kind: str, value: str) -> bool:
    """Whether a word means this value wherever it stands; `value` is in lower case."""
    if value in NOBODY or value in WORDS or is_term(value) or len(value) <= 1:
        return False
    if kind == "path":
        return len(value) >= _A_LONG_WORD or bool(re.search(r"[-_.\d ]", value))
    return len(value) > _NEVER_WORDS or kind != "user"


# --------------------------------------------------------------------------------------------------------- placeholders


class Placeholders:
    """Gives them out, in the order in which values are met; those of an earlier redaction are never given again."""

    def __init__(self, taken: Iterable[str], uuids: Iterable[str]) -> None:
        """Begin with the placeholders that the texts hold already, and all their UUIDs."""
        self._taken = set(taken)
        self._uuids = sorted(uuid.lower() for uuid in uuids)
        self._given: dict[tuple[str, str], str] = {}
        self._last: dict[str, int] = {}

    def of(self, kind: str, value: str) -> str:
        """The placeholder of a value."""
        if PLACEHOLDER.fullmatch(value):
            return value
        key = (kind, value.lower())
        while key not in self._given:
            number = self._last[kind] = self._last.get(kind, 0) + 1
            one = f"<{kind}>" if kind == "user" and number == 1 else f"<{kind}-{number}>"
            if one not in self._taken:
                self._given[key] = one
        return self._given[key]

    def has(self, kind: str, value: str) -> bool:
        """Whether the value was met before."""
        return (kind, value.lower()) in self._given

    def of_uuid(self, kind: str, start: str) -> str:
        """That of the UUID that begins so: CUDA_VISIBLE_DEVICES may name a GPU by its first characters."""
        start = start.lower()
        place = bisect_left(self._uuids, start)
        whole = self._uuids[place] if place < len(self._uuids) else ""
        return self.of(kind, whole if whole.startswith(start) else start)


# ---------------------------------------------------------------------------------------------- names that were learned


LONGEST = 120  # characters of a name; a longer one is cut into such pieces, which bounds the work for a place
_TOKEN = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]")
# the letter of an escaped blank is one, or begins the token that is group 1
_STARTS = re.compile(rf"{PLACEHOLDER.pattern}|(?=([A-Za-z0-9]+))(?<=\\)[nrt]|{_TOKEN.pattern}", re.DOTALL)
_SEPARATORS = ("\\", "/")


class KnownNames:
    """A set of names with their kinds, found wherever they stand in one pass over a text however many there are.

    A name begins where a token does, a run of ASCII letters and digits or one other character, and ends where one does.
    At each token the text is compared with the names that begin with it, by the lengths that they have, longest first.
    """

    def __init__(self, names: Iterable[tuple[str, str]], *, parts_of_paths: bool = False) -> None:
        """`names`: (name, kind), of which the first kind counts. `parts_of_paths`: found between separators only."""
        self._parts = parts_of_paths
        self._kinds: dict[str, str] = {}
        for name, kind in names:
            for piece in _pieces(name.lower()):
                self._kinds.setdefault(piece, kind)
        lengths: dict[str, set[int]] = {}
        for piece in self._kinds:
            lengths.setdefault(_TOKEN.match(piece)[0], set()).add(len(piece))  # type: ignore[index]
        self._lengths = {first: sorted(several, reverse=True) for first, several in lengths.items()}

    def replaced(self, text: str, name: Callable[[str, str], str]) -> str:
        """The text with `name(kind, value)` for every value."""
        if not self._kinds:
            return text
        pieces, done = [], 0
        for match in _STARTS.finditer(text):
            start = match.start()
            if start < done or (self._parts and not text.endswith(_SEPARATORS, 0, start)):
                continue
            for end in (start + length for length in self._lengths.get((match[1] or match[0]).lower(), ())):
                kind = self._kinds.get(text[start:end].lower())
                if kind and self._ends(text, end):
                    pieces += [text[done:start], name(kind, text[start:end])]
                    done = end
                    break
        return "".join([*pieces, text[done:]])

    def _ends(self, text: str, end: int) -> bool:
        behind = text[end : end + 1]
        if self._parts:
            return behind in (*_SEPARATORS, ".", "")
        return not (behind.isascii() and behind.isalnum() and text[end - 1].isascii() and text[end - 1].isalnum())


def _pieces(name: str) -> Iterator[str]:
    """Cut a name at the ends of tokens; a token that is longer stays whole."""
    piece = ""
    for token in _TOKEN.findall(name):
        if piece and len(piece) + len(token) > LONGEST:
            yield piece
            piece = ""
        piece += token
    if piece:
        yield piece


# ------------------------------------------------------------------------------------------------- walking over records


# These are what their fact is; where it was read, and why it is unknown, is never public.
_VALUES = frozenset({(Known, "value"), (Unknown, "one_of")})
_GRADE = (Known, "grade")
_UNDESCRIBED = private("")


Change = Callable[[str, str, bool], str]  # of a text, its name, and whether it is our own advice


def changed(value: Any, change: Change, name: str = "", public: bool = False, own: bool = False) -> Any:
    """Return `value` with every text changed that is not public; the name of one is that of its field or key.

    Of a fact it is that of the fact, of a name HOST or OWN_NAME, of a variable that of the variable.
    """
    if isinstance(value, str):
        return value if public and is_public_text(value) else change(name, value, own)
    if isinstance(value, Struct):
        return replace(value, **dict(_fields(value, change, name, public)))
    if isinstance(value, dict):
        return {changed(key, change): changed(item, change, str(key), public, own) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(
            changed(item, change, "KEY" if inside else name, public and not inside, own)
            for item, inside in _keyed(value)
        )
    return value


def _fields(record: Struct, change: Change, name: str, public: bool) -> Iterator[tuple[str, Any]]:
    """Yield the changed fields of a record that goes by `name`; those whose type is a closed list of words stay."""
    kind, own = type(record), isinstance(record, Fix)
    abouts, closed = described(kind), closed_fields(kind)
    for field in kind.__struct_fields__:
        value, about = getattr(record, field), abouts.get(field, _UNDESCRIBED)
        if (kind, field) in _VALUES:
            yield field, changed(value, change, name, public, own)
        elif field not in closed:
            own_name = record.name if isinstance(record, Setting) and field == "value" else field
            called = about.unit if about.unit in NAMES else own_name
            yield field, changed(value, change, called, about.is_public or (kind, field) == _GRADE, own)


def _keyed(values: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Yield values; True with the body of a private key, which a log holds line by line."""
    inside = False
    for value in values:
        line = value if isinstance(value, str) else ""
        if inside := inside and patterns.KEY_LINE.match(line) is not None:
            yield value, True
            continue
        begins = patterns.KEY_BEGINS.search(line)
        inside = begins is not None and "-----END" not in line[begins.end() :]
        yield value, False
