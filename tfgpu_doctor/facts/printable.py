"""Text from outside, made harmless for a terminal and for the log of a CI job.

A terminal acts on control characters, and bidirectional or invisible characters make a line look like another one.
CI systems act on lines of the log:

- GitHub's runner takes "::name" behind leading blanks, and "##[name]" anywhere in a line (actions/runner,
  src/Runner.Common/ActionCommand.cs, TryParseV2 and TryParse; Handlers/OutputManager.cs gives them every line). It
  compares by the rules of a language, for which invisible characters do not count: so a blank breaks up what would be
  a command, and no character of width zero does.
- Azure Pipelines takes "##vso[" and "##[", TeamCity "##teamcity[". GitLab's and Travis' markers need a control
  character.
"""

from __future__ import annotations

import json
import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LONGEST = 4000  # characters of a message
# printable by their category, but never seen: fillers, and variation selectors except those of text and emoji
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]")
_HALF = re.compile("[\ud800-\udfff]")
_BREAK = re.compile(r"(?<![ \t])[ \t]*\r?\n[ \t\r\n]*")
_NOT_ASCII = re.compile(r"[^\n -~]+")
_SKIP = r"\x1b\[[\d;]*m|[\ufe0e\ufe0f]"  # what a reader of the log may skip: colours, variation selectors
_HASHES = rf"#(?:{_SKIP})*#(?:{_SKIP}|\w)*(?=\[)"
_COLONS = rf"^(?:[^\S\n]|{_SKIP})*:(?:{_SKIP})*(?=:)"
_MARK, _PAIR = re.compile(_HASHES), re.compile(rf":(?=(?:{_SKIP})*:)")
_COMMAND = re.compile(f"{_HASHES}|{_COLONS}", re.MULTILINE)
_COMMAND_OF_OTHERS = re.compile(
    rf"{_HASHES}|(?!::(?:error|warning|notice) (?:file=[^,\n]*,line=\d+,)?title=){_COLONS}", re.MULTILINE
)


def utf8(text: str) -> bytes:
    """Encode text as UTF-8. U+FFFD stands for half a surrogate pair: a byte of a file name that is not UTF-8, or of an
    emoji that was cut in two. What leaves the process as bytes is encoded here.
    """
    return _HALF.sub(REPLACEMENT, text).encode()


def clean(text: str) -> str:
    """Text as one printable line; what is no visible character becomes one.

    >>> clean("Permission denied\\n\\tUnable to write PTX")  # as TensorFlow adds to a message
    'Permission denied Unable to write PTX'
    """
    if text.isascii() and text.isprintable():
        return text
    text = _BREAK.sub(" ", text).replace("\t", "    ")
    return _INVISIBLE.sub(REPLACEMENT, "".join(char if char.isprintable() else REPLACEMENT for char in text))


def clean_lines(text: str) -> str:
    """The same of each line."""
    return "\n".join(map(clean, text.split("\n")))


def one_line(message: str) -> str:
    """A message as one printable line of bounded length; a long one keeps its end, which says what is wrong."""
    line = clean("; ".join(line for line in message.splitlines() if line.strip()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"


def cut(text: str, most: int) -> str:
    """At most so many characters of a text; a mark at its end says that there were more."""
    return text if len(text) <= most else text[: most - 1] + "…"


def without_commands(text: str, ours: bool = False) -> str:
    """Break up what a CI system would take for a command, by a blank; `ours`: except annotations, as we write them."""
    return (_COMMAND_OF_OTHERS if ours else _COMMAND).sub(lambda found: found[0] + " ", text)


def escape_json(document: str) -> str:
    """The same JSON, without what a terminal or a CI system acts on: "##[" is written with \\u0023."""
    return _MARK.sub(lambda found: found[0].replace("#", r"\u0023"), _NOT_ASCII.sub(_escaped, document))


def _escaped(found: re.Match[str]) -> str:
    return "".join(char if clean(char) == char else json.dumps(char)[1:-1] for char in found[0])


def escape_xml(document: str) -> str:
    """The same XML, where no line of it is a command; it has neither comments nor CDATA."""
    return _PAIR.sub("&#58;", _MARK.sub(lambda found: found[0].replace("#", "&#35;"), document))
