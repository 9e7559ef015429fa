"""A report without what is private: names of users and hosts, home folders, addresses, identifiers, credentials.

The same value becomes the same placeholder everywhere (``<user>``, ``<host-1>``, ``GPU-<uuid-1>``), so that a reader
can still follow it, and so that its diagnosis stays the same. Redacting twice changes nothing. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tfgpu_doctor.records.about import described, public_fields, records_in
from tfgpu_doctor.records.facts import Facts, Known, Unknown
from tfgpu_doctor.records.report import Fix, Report
from tfgpu_doctor.redact import paths, patterns

# The values of fields that are declared public hold words of a closed vocabulary, versions or ids of products, and are
# never touched; a user or host who is called like one of their words is replaced only where a program prints a name.
# Where a fact was read, and why it is unknown, is never public.
_SOURCES: dict[type, tuple[str, ...]] = {Known: ("source",), Unknown: ("reason", "ask")}
_A_LONG_WORD = 12  # a part of a path so long is no word of our sentences
_NEVER_WORDS = 3  # a user of so few letters is replaced in paths only

T = TypeVar("T")


def redact(report: Report) -> Report:
    """Return the report with everything private replaced."""
    return Redactor(report).apply(report)


class Redactor:
    """Learns the private values of one record (a report), and replaces them in it or in other texts about it."""

    def __init__(self, record: Any) -> None:
        """Collect what is private in `record`."""
        self._placeholders: dict[tuple[str, str], str] = {}
        self._taken = {match[0] for _, text in _strings(record) for match in paths.PLACEHOLDER.finditer(text)}
        self._public = {
            word.lower()
            for text in _public_texts(record)
            for words in (r"[\w.-]+", r"\w+")
            for word in re.findall(words, text)
        }
        self._own = False  # the text is our own advice: what it names and the facts do not is not private
        self._known: list[tuple[str, str]] = []  # (kind, value), to be replaced wherever they stand
        for field, text in _strings(record):
            self._learn(field, text)
        self._words = self._compile()
        self._spaced = self._compile_spaced()

    def apply(self, value: T) -> T:
        """Return `value` (a record, a tuple, a dict, a text) with every text in it redacted."""
        redacted: T = self._map(value)
        return redacted

    def text(self, text: str, name: str = "") -> str:
        """Return one text redacted; `name` is that of the variable or field whose value it is."""
        if not text:
            return text
        if name and patterns.SECRET_NAME.search(name) and not paths.PLACEHOLDER.fullmatch(text):
            return self._name("secret", text)
        text = patterns.PRIVATE_KEY.sub(lambda match: self._name("secret", match[0]), text)
        pieces, end = [], 0
        for match in patterns.URL.finditer(text):
            pieces += [self._outside(text[end : match.start()]), self._url(match)]
            end = match.end()
        return "".join([*pieces, self._outside(text[end:])])

    def _map(self, value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return self.text(value, name)
        if isinstance(value, Struct):
            above, self._own = self._own, isinstance(value, Fix)
            changed = replace(value, **{field: self._map(item, inner) for field, item, inner in _private(value, name)})
            for field, fact in _public_facts(value):
                sources = {part: self._map(getattr(fact, part), part) for part in _SOURCES[type(fact)]}
                changed = replace(changed, **{field: replace(fact, **sources)})
            self._own = above
            return changed
        if isinstance(value, dict):
            return {self._map(key): self._map(item, str(key)) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(self._map(item, name) for item in value)
        return value

    # ------------------------------------------------------------------------------------------ placeholders

    def _name(self, kind: str, value: str) -> str:
        """The placeholder of a value; those of an earlier redaction are never given again."""
        if paths.PLACEHOLDER.fullmatch(value):
            return value
        key = (kind, value.lower())
        if key not in self._placeholders:
            number = 1
            while (one := _placeholder(kind, number)) in self._taken:
                number += 1
            self._taken.add(one)
            self._placeholders[key] = one
        return self._placeholders[key]

    def _user(self, value: str) -> str:
        return self._name("user", value)

    def _part(self, value: str) -> str:
        """A private part of a path; a known user or host in it keeps the placeholder that it has everywhere."""
        replaced = self._words(value)
        if self._own and ("path", value.lower()) not in self._placeholders:
            return replaced
        return replaced if replaced != value and paths.is_public(replaced) else self._name("path", value)

    # ------------------------------------------------------------------------------------------------ learning

    def _learn(self, field: str, text: str) -> None:
        whole = [text] if field in _fields_of_paths() else []
        whole += [match[2] for match in paths.QUOTED.finditer(text)]
        for path in (*whole, *paths.POSIX.findall(text), *(match[0] for match in paths.WINDOWS.finditer(text))):
            for user in paths.users_in(path):
                self._add("user", user)
            if re.match(r"~?/|[A-Za-z]:[\\/]", path):
                paths.rewrite(path, lambda user: user, self._add_part)
        line = f"{field}={text}" if field.isupper() else text
        for kind, places in (("user", patterns.USERS), ("host", patterns.HOSTS), ("name", patterns.NAMES)):
            for place in places:
                for match in place.finditer(line):
                    self._add(kind, match[1].rstrip(".,:"))

    def _add(self, kind: str, value: str) -> None:
        if kind != "user" and (value.lower() in patterns.NOBODY or value.isdecimal() or patterns.IPV4.fullmatch(value)):
            return
        if (kind, value) not in self._known and not paths.PLACEHOLDER.fullmatch(value):
            self._known.append((kind, value))

    def _add_part(self, part: str) -> str:
        if ("path", part) not in self._known:
            self._known.append(("path", part))
        return part

    def _compile(self) -> Callable[[str], str]:
        """One pass over a text for all known values, the longest first."""
        kinds = {value.lower(): kind for kind, value in reversed(self._known)}
        anywhere = [value for value in kinds if self._is_telling(kinds[value], value)]
        if not anywhere:
            return lambda text: text
        choice = "|".join(re.escape(value) for value in sorted(anywhere, key=len, reverse=True))
        pattern = re.compile(rf"(?<![A-Za-z0-9<])(?:{choice})(?![A-Za-z0-9])", re.IGNORECASE)
        return lambda text: pattern.sub(lambda match: self._name(kinds[match[0].lower()], match[0]), text)

    def _compile_spaced(self) -> Callable[[str], str]:
        """Parts of paths with spaces and the like in them, at which a path in running text seems to end."""
        odd = [(kind, value) for kind, value in self._known if re.search(r"[^\w.+-]", value)]
        spaced = {value.lower(): kind for kind, value in odd if kind in ("user", "path")}
        if not spaced:
            return lambda text: text
        choice = "|".join(re.escape(value) for value in sorted(spaced, key=len, reverse=True))
        pattern = re.compile(rf"(?<=[\\/])(?:{choice})(?=[\\/.]|$)", re.IGNORECASE)
        return lambda text: pattern.sub(lambda match: self._name(spaced[match[0].lower()], match[0]), text)

    def _is_telling(self, kind: str, value: str) -> bool:
        """Whether a word means this value wherever it stands."""
        if value in patterns.NOBODY or value in self._public or value in paths.WORDS or len(value) <= 1:
            return False
        if kind == "path":
            return len(value) >= _A_LONG_WORD or bool(re.search(r"[-_.\d ]", value))
        return len(value) > _NEVER_WORDS or kind != "user"

    # -------------------------------------------------------------------------------------------- replacing

    def _outside(self, text: str) -> str:
        """Redact a text that holds no URL."""
        if not text:
            return text
        for pattern in patterns.TOKENS:
            text = pattern.sub(lambda match: _in_group(match, self._name("secret", match[1])), text)
        text = patterns.EMAIL.sub(lambda match: self._name("email", match[0]), text)
        text = self._identifiers(text)
        text = self._spaced(text)
        text = paths.QUOTED.sub(lambda match: match[1] + self._path(match[2]) + match[1], text)
        text = paths.WINDOWS.sub(lambda match: self._path(match[0]), text)
        text = paths.POSIX.sub(lambda match: self._path(match[0]), text)
        return self._words(self._in_places(text))

    def _identifiers(self, text: str) -> str:
        text = patterns.UUID.sub(lambda match: self._name("uuid", match[0]), text)
        text = patterns.UUID_START.sub(self._start_of_uuid, text)
        text = patterns.SERIAL.sub(lambda match: _in_group(match, self._name("serial", match[1])), text)
        text = patterns.MAC.sub(lambda match: self._name("mac", match[0]), text)
        text = patterns.IPV4.sub(lambda m: self._name("address", m[0]) if patterns.is_ipv4(m) else m[0], text)
        return patterns.IPV6.sub(lambda m: self._name("address", m[0]) if patterns.is_ipv6(m[0]) else m[0], text)

    def _start_of_uuid(self, match: re.Match[str]) -> str:
        """CUDA_VISIBLE_DEVICES may name a GPU by the first characters of its UUID."""
        start = match[0].lower()
        whole = (one for (kind, value), one in self._placeholders.items() if kind == "uuid" and value.startswith(start))
        return next(whole, None) or self._name("uuid", start)

    def _path(self, path: str) -> str:
        return paths.rewrite(path, self._user, self._part)

    def _url(self, match: re.Match[str]) -> str:
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
        path = self._in_url(slash + path)
        if name and not patterns.PUBLIC_HOSTS.search(name) and name.lower() not in patterns.NOBODY:
            kind = "address" if patterns.IPV4.fullmatch(name) or name.startswith("[") else "host"
            name, path = self._name(kind, name), paths.rewrite(path, self._user, self._part, least=1)
        return f"{scheme}://{credentials}{at}{name}{colon}{port}{path}"

    def _in_url(self, path: str) -> str:
        for pattern in patterns.TOKENS:
            path = pattern.sub(lambda match: _in_group(match, self._name("secret", match[1])), path)
        return self._words(self._identifiers(path))

    def _in_places(self, text: str) -> str:
        """Names that are common words are replaced only where a program prints a name."""
        for kind, places in (("user", patterns.USERS), ("host", patterns.HOSTS), ("name", patterns.NAMES)):
            for place in places:
                text = place.sub(lambda match: self._in_place(kind, match), text)  # noqa: B023 - called at once
        return text

    def _in_place(self, kind: str, match: re.Match[str]) -> str:
        value = match[1].rstrip(".,:")
        if (kind, value) not in self._known:
            return match[0]
        return _in_group(match, self._name(kind, value) + match[1][len(value) :])


def _placeholder(kind: str, number: int) -> str:
    return f"<{kind}>" if kind == "user" and number == 1 else f"<{kind}-{number}>"


def _in_group(match: re.Match[str], new: str) -> str:
    start, end = match.span(1)
    return match[0][: start - match.start()] + new + match[0][end - match.start() :]


# -------------------------------------------------------------------------------------------- walking records


def _strings(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every text that is not public nor our own advice, with the name of the field or key that holds it."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Struct) and not isinstance(value, Fix):
        for _, item, inner in _private(value, name):
            yield from _strings(item, inner)
        for _, fact in _public_facts(value):
            for part in _SOURCES[type(fact)]:
                yield from _strings(getattr(fact, part), part)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield "", str(key)
            yield from _strings(item, str(key))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _strings(item, name)


def _private(record: Struct, name: str) -> Iterator[tuple[str, Any, str]]:
    """(field, value, name that it goes by) of each private field; the value of a known fact goes by the fact's name."""
    public = public_fields(type(record))
    for field in record.__struct_fields__:
        if field not in public:
            inner = name if isinstance(record, Known) and field == "value" else field
            yield field, getattr(record, field), inner


def _public_facts(record: Struct) -> Iterator[tuple[str, Any]]:
    """The facts whose values are public, but not where they were read."""
    public = public_fields(type(record))
    values = ((field, getattr(record, field)) for field in record.__struct_fields__ if field in public)
    return ((field, value) for field, value in values if type(value) in _SOURCES)


def _public_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Struct):
        public = public_fields(type(value))
        for field in value.__struct_fields__:
            item = getattr(value, field)
            yield from _public_texts(item) if field not in public else _values(item)
    elif isinstance(value, dict):
        yield from map(str, value)
        for item in value.values():
            yield from _public_texts(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _public_texts(item)


def _values(item: Any) -> Iterator[str]:
    """The texts of a public field: of a fact its values only."""
    values = item.value if isinstance(item, Known) else item.one_of if isinstance(item, Unknown) else item
    return (text for _, text in _strings(values))


@cache
def _fields_of_paths() -> frozenset[str]:
    """Names of the fields that hold a whole path, so that its parts may have spaces."""
    fields = (field for record in records_in(Facts) for field in described(record).items())
    return frozenset(name for name, about in fields if about.unit == "path")
