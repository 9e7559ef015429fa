"""A record without what is private: names of users and hosts, home folders, addresses, identifiers, credentials.

The same value becomes the same placeholder everywhere (``<user>``, ``<host-1>``, ``GPU-<uuid-1>``), so that a reader
can still follow it, and so that its diagnosis stays the same. Redacting twice changes nothing. The time is linear in
the size of the record: each text is read once for what it teaches and once for what is replaced in it, by expressions
that read it once, and all that was learned is looked up together (known_names.py). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tfgpu_doctor.records.about import HOST, OWN_NAME
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.redact import addresses, paths, places, remotes, secrets
from tfgpu_doctor.redact.known_names import KnownNames
from tfgpu_doctor.redact.placeholders import PLACEHOLDER, Placeholders
from tfgpu_doctor.redact.shapes import Match
from tfgpu_doctor.redact.vocabulary import NOBODY, WORDS, is_public_text, is_public_word, is_term
from tfgpu_doctor.redact.walking import fields_of, fields_of_paths, private_texts

_A_LONG_WORD = 12  # a part of a path so long is no word of our sentences
_NEVER_WORDS = 3  # a user of so few letters is replaced in paths only

# what goes by these is a name, whatever it looks like
_OWN_NAMES = frozenset({OWN_NAME, "CONDA_DEFAULT_ENV", "WSL_DISTRO_NAME"})

T = TypeVar("T")


def redact(record: T) -> T:
    """Return the record (a report, a result, several of them in a tuple) with everything private replaced."""
    return Redactor(record).apply(record)


class Redactor:
    """Learns the private values of one record, and replaces them in it or in other texts about it."""

    def __init__(self, record: Any) -> None:
        """Collect what is private in `record`."""
        self._own = False  # the text is our own advice: what it names and the facts do not is not private
        self._known: dict[tuple[str, str], None] = {}  # (kind, value), to be replaced wherever they stand
        self._read: dict[str, bool] = {}  # the texts that were read for names → whether one stood in its place
        self._done: dict[tuple[str, str, bool], str] = {}
        taken, uuids = set[str](), set[str]()
        for name, text in private_texts(record):
            if "<" in text:
                taken.update(match[0] for match in PLACEHOLDER.finditer(text))
            if "-" in text:
                uuids.update(match[0] for match in addresses.UUID.found_in(text))
            self._learn(name, text)
        self._placeholders = Placeholders(taken, uuids)
        self._name = self._placeholders.of
        telling = ((kind, value.lower()) for kind, value in reversed(self._known) if _is_telling(kind, value.lower()))
        self._words = KnownNames({value: kind for kind, value in telling}.items())
        # parts of paths with spaces and the like in them, at which a path in running text seems to end
        odd = ((value, kind) for kind, value in self._known if re.search(r"[^\w.+-]", value))
        self._spaced = KnownNames(((v, kind) for v, kind in odd if kind in ("user", "path")), parts_of_paths=True)

    def apply(self, value: T) -> T:
        """Return `value` (a record, a tuple, a dict, a text) with every text in it redacted."""
        redacted: T = self._map(value)
        return redacted

    def text(self, text: str, name: str = "") -> str:
        """Return one text redacted; `name` is that of the variable or field whose value it is."""
        if not text:
            return text
        if name == HOST:
            return text if PLACEHOLDER.fullmatch(text) or text.lower() in NOBODY else self._name("host", text)
        if name in _OWN_NAMES and _is_own(text):
            replaced = self._words.replaced(text, self._name)  # a folder's, where it is one
            return replaced if PLACEHOLDER.fullmatch(replaced) else self._name("name", text)
        if name and secrets.SECRET_NAME.search(name):
            return self._name("secret", text)
        key = (text, name, self._own)
        if key not in self._done:
            self._done[key] = self._redacted(text)
        return self._done[key]

    def _map(self, value: Any, name: str = "", public: bool = False) -> Any:
        if isinstance(value, str):
            return value if public and is_public_text(value) else self.text(value, name)
        if isinstance(value, Struct):
            above, self._own = self._own, isinstance(value, Fix)
            fields = fields_of(value, name, public)
            changed = replace(value, **{one.field: self._map(one.value, one.name, one.public) for one in fields})
            self._own = above
            return changed
        if isinstance(value, dict):
            return {self._map(key): self._map(item, str(key), public) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(self._map(item, name, public) for item in self._without_keys(value))
        return value

    def _without_keys(self, values: tuple[Any, ...] | list[Any]) -> Iterator[Any]:
        """The values without the body of a private key, which a log holds line by line."""
        inside = False
        for value in values:
            line = value if isinstance(value, str) else ""
            if inside and secrets.KEY_LINE.match(line):
                yield self._name("secret", line)
                continue
            begins = secrets.KEY_BEGINS.search(line)
            inside = begins is not None and "-----END" not in line[begins.end() :]
            yield value

    # ------------------------------------------------------------------------------------------------ learning

    def _learn(self, field: str, text: str) -> None:
        if field == HOST:
            self._add("host", text)
        if field in _OWN_NAMES and _is_own(text):
            self._add("name", text)
        if text in self._read and field not in fields_of_paths():
            return
        self._learn_paths(field, text)
        line = f"{field}={text}" if field.isupper() else text
        found = False
        for place in places.PLACES.in_text(line):
            for match in place.found_in(line):
                for kind, start, end in place.values(match):
                    found |= self._add(kind, line[start:end].rstrip(".,:"))
        for remote in remotes.REMOTES:
            for match in remote.pattern.finditer(line) if remote.needle in line else ():
                if remote.accepts(match):
                    self._add("host", match["host"])
                    paths.rewrite(match["path"], lambda user: user, self._add_part, least=1)
        self._read[text] = self._read.get(text, False) or found

    def _learn_paths(self, field: str, text: str) -> None:
        whole = [text] if field in fields_of_paths() else []
        for path in (*whole, *paths.paths_in(text)):
            for user in paths.users_in(path):
                if not PLACEHOLDER.fullmatch(user):
                    self._known["user", user] = None
            if re.match(r"~?/|[A-Za-z]:[\\/]", path):
                paths.rewrite(path, lambda user: user, self._add_part)

    def _add(self, kind: str, value: str) -> bool:
        if not value or value.lower() in NOBODY or value.isdecimal() or addresses.IPV4.fullmatch(value):
            return False
        if PLACEHOLDER.fullmatch(value):
            return False
        self._known[kind, value] = None
        label, dot, _ = value.partition(".")
        if kind == "host" and dot and _is_telling_label(label):
            self._known[kind, label] = None  # the same host, as it calls itself
        return True

    def _add_part(self, part: str) -> str:
        self._known["path", part] = None
        return part

    # -------------------------------------------------------------------------------------------- replacing

    def _redacted(self, text: str) -> str:
        if "-----BEGIN" in text:
            text = secrets.PRIVATE_KEY.sub(lambda match: self._name("secret", match[0]), text)
        named = self._read.get(text, True)
        pieces, end = [], 0
        for match in addresses.URL.finditer(text) if "://" in text else ():
            pieces += [self._outside(text[end : match.start()], named), self._url(match)]
            end = match.end()
        return "".join([*pieces, self._outside(text[end:], named)])

    def _outside(self, text: str, named: bool) -> str:
        """Redact a text that holds no URL; `named`: a name may stand in its place."""
        if not text:
            return text
        text = secrets.SECRETS.replaced(text, self._name)
        for remote in remotes.REMOTES:
            if remote.needle in text:
                text = remote.pattern.sub(partial(self._remote, remote), text)
        if "@" in text:
            text = addresses.EMAIL.replaced(text, self._name)
        text = self._identifiers(text)
        text = self._spaced.replaced(text, self._name)
        text = paths.each(text, self._path)
        if named:
            text = places.PLACES.replaced(text, self._in_place)
        return self._words.replaced(text, self._name)

    def _identifiers(self, text: str) -> str:
        if "-" in text:
            text = addresses.UUID.replaced(text, self._name)
            text = addresses.UUID_START.replaced(text, lambda _, start: self._placeholders.of_uuid(start))
        return addresses.IDENTIFIERS.replaced(text, self._name)

    def _path(self, path: str, least: int = 2) -> str:
        return paths.rewrite(path, lambda user: self._name("user", user), self._part, least)

    def _part(self, value: str) -> str:
        """A private part of a path; a known user or host in it keeps the placeholder that it has everywhere."""
        replaced = self._words.replaced(value, self._name)
        if self._own and not self._placeholders.has("path", value):
            return replaced
        return replaced if replaced != value and paths.is_public(replaced) else self._name("path", value)

    def _remote(self, remote: remotes.Remote, match: Match) -> str:
        """A host with a path behind it."""
        if not remote.accepts(match):
            return match[0]
        text, start = match[0], match.start()
        user, host = match["user"], match["host"]
        if user and user.lower() not in NOBODY:
            user = self._name("user", user)
        if host.lower() not in NOBODY:
            host = self._name("host", host)
        between = text[match.end("user") - start : match.start("host") - start]
        behind = text[match.end("host") - start : match.start("path") - start]
        return f"{user}{between}{host}{behind}{self._path(match['path'], least=1)}"

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
        path = self._in_url(slash + path)
        if name and not addresses.PUBLIC_HOSTS.search(name) and name.lower() not in NOBODY:
            kind = "address" if addresses.IPV4.fullmatch(name) or name.startswith("[") else "host"
            name, path = self._name(kind, name), self._path(path, least=1)
        elif addresses.BUCKETS.search(name):
            path = self._path(path, least=1)
        return f"{scheme}://{credentials}{at}{name}{colon}{port}{path}"

    def _in_url(self, path: str) -> str:
        return self._words.replaced(self._identifiers(secrets.SECRETS.replaced(path, self._name)), self._name)

    def _in_place(self, kind: str, value: str) -> str:
        """Names that are common words are replaced only where a program prints a name."""
        name = value.rstrip(".,:")
        return self._name(kind, name) + value[len(name) :] if (kind, name) in self._known else value


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


def _is_telling_label(label: str) -> bool:
    """Whether the first part of a host's full name means the host by itself: "gpu07ab", and not "mail" or "node1"."""
    return len(label) > _NEVER_WORDS and any(map(str.isdecimal, label)) and not is_public_word(label)
