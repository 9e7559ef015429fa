r"""Characters that are written in ASCII, as JSON, Python and URLs do it. Pure.

The user of `/home/Jos\u00e9/x`, `/home/Jos\xc3\xa9/x` and `/home/Jos%C3%A9/x` has one name, and all three have it.
"""

from __future__ import annotations

import re

_H = "[0-9A-Fa-f]"
_ESCAPES = "|".join(
    (
        rf"(?<=\\)u(?:[Dd][89ABab]{_H}{{2}}\\+u[Dd][C-Fc-f]{_H}{{2}}|{_H}{{4}})",  # JSON: units of UTF-16
        rf"(?<=\\)U000{_H}{{5}}",  # Python
        rf"(?<=\\)x{_H}{{2}}(?:\\+x[89ABab]{_H}){{0,3}}",  # Python: bytes of UTF-8, or one of the first 256 characters
        rf"%{_H}{{2}}(?:%[89ABab]{_H}){{0,3}}",  # URLs
        r"(?<=\\)/",  # JSON of some programs
    )
)
# A Windows path whose backslashes are single ones has no escapes.
_ESCAPED = re.compile(rf"\b[A-Za-z]:\\(?!\\)[^\s\"']*|(?<!\\)(\b[A-Za-z]:)?(\\*)({_ESCAPES})")
_ENCODINGS = {"u": ("utf-16-be",), "U": ("utf-32-be",), "x": ("utf-8", "latin-1"), "%": ("utf-8",)}
_IN_NAMES = frozenset("@._-")  # what else is ASCII ends a name, or could make a further escape


def after_blank(lead: str) -> str:
    """Return the expression `lead`, of what stands before a word, so that an escaped tab or line end may stand there.

    The letter of that escape is no part of the word.
    """
    return rf"(?:(?<=\\[nrt])|{lead}(?!(?<=\\)[nrt]))"


def decoded(text: str) -> str:
    """Return the text with the characters in place of their escapes, those that may be in a name; twice is as once."""
    return _ESCAPED.sub(_decoded, text) if "\\" in text or "%" in text else text


def _decoded(match: re.Match[str]) -> str:
    drive, slashes, escape = match.groups("")
    if not escape:
        return match[0]
    if escape == "/":
        return drive + "/" if slashes == "\\" else match[0]
    # each time that a text is quoted doubles them: before \u00e9 stand 1, 2, 4; behind a separator 3, 6, 12
    own = 0 if escape.startswith("%") else len(slashes) & -len(slashes)
    if drive and own == len(slashes):
        return match[0]
    octets = bytes.fromhex(re.sub(r"(?<!\\)\\+[ux]|%", "", escape.lstrip("uUx%")))
    for encoding in _ENCODINGS[escape[0]]:
        try:
            text = octets.decode(encoding)
        except UnicodeDecodeError:
            continue
        if text in _IN_NAMES or (text.isprintable() and not text.isascii()):
            return drive + slashes[own:] + text
    return match[0]
