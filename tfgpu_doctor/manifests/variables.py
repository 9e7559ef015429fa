"""Values that a file leaves open: variables, template expressions; images, sizes and quantities with them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfgpu_doctor.manifests import Image, Place, quoted

_HOLE = re.compile(r"\{\{(?:(?!\{\{).){0,1000}?\}\}|\{%(?:(?!\{%).){0,1000}?%\}|\{#(?:(?!\{#).){0,1000}?#\}")


def without_blanks(text: str) -> str:
    """The text with each expression of a template as one word: {{version}}."""
    return _HOLE.sub(lambda found: re.sub(r"[ \t]+", "", found[0]), text) if "{{" in text or "{%" in text else text


def hole(text: str) -> str | None:
    """The first expression of a template in a text."""
    found = _HOLE.search(text)
    if found and found[0].startswith("{{"):
        return f"{{{{ {found[0][2:-2].strip()} }}}}"
    return found[0] if found else None


def filled_later(place: Place, expression: str, *, quote: bool = True) -> str:
    """A line for `not_understood`."""
    return f"{place}: a template: {quoted(expression) if quote else 'a value'} is filled in later"


def complaint(place: Place, text: str, error: ValueError, *, quote: bool) -> str:
    """A line of `not_understood`; with `quote`, it shows what stands there."""
    if expression := hole(text):
        return filled_later(place, expression, quote=quote)
    return f"{place}: {quoted(text)}: {error}" if quote else f"{place}: {error}"


_WORD = r"(?:[^{}]|\$\{[^{}]{0,1000}\}){0,1000}"  # one variable deep
_VARIABLE = re.compile(
    r"\$(?:(?P<bare>[A-Za-z_]\w*)"
    rf"|\{{(?P<name>[A-Za-z_]\w*)(?:(?P<sign>:?[-+])(?P<word>{_WORD})|:?\?[^{{}}]{{0,1000}}"
    r"|(?P<each>//?)(?P<old>[^/{}]{1,20})/(?P<new>[^/{}]{0,20}))?\}"
    r"|\{[A-Za-z_](?P<other>)[^{}]{0,1000}\}?)"
)
LONGEST = 2_000  # characters after substitution; variables of variables could grow without end


def substitute(text: str, values: Mapping[str, str]) -> str | None:
    """Put in variables: "${CUDA:-11.8.0}-base"; None where one has no value."""
    filled, known = _fill(text, values)
    return filled if known else None


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put in the variables that have a value; the others stay as they are written."""
    return _fill(text, values)[0]


def _fill(text: str, values: Mapping[str, str]) -> tuple[str, bool]:
    unknown: list[str] = []

    def value(found: re.Match[str]) -> str:
        """The value of $NAME, ${NAME}, ${NAME?...}, ${NAME:-word}, ${NAME-word} or ${NAME:+word}."""
        given, sign = values.get(found["bare"] or found["name"] or ""), found["sign"] or ""
        if sign.startswith(":") and given == "":
            given = None
        if sign.endswith("+"):
            given = "" if given is None else substitute(found["word"], values)
        elif sign.endswith("-") and given is None:
            given = substitute(found["word"], values)
        if given is not None and found["old"]:  # without patterns
            given = given.replace(found["old"], found["new"], -1 if found["each"] == "//" else 1)
        if given is None:
            unknown.append(found[0])
        return found[0] if given is None else given

    filled = _VARIABLE.sub(value, text) if "$" in text else text
    if len(filled) > max(LONGEST, len(text)):
        return text, False
    return filled, not unknown


def read_image(reference: str, place: Place, values: Mapping[str, str] | None = None) -> Image:
    """Read "nvcr.io/nvidia/tensorflow:25.02-tf2-py3@sha256:..."; a part that is not known yet leaves the tag open."""
    filled = substitute(reference, values or {})
    if filled is None:
        name = re.split(r"[:@]", re.sub(r"\$\{[^}]*\}?", "$", fill(reference, values or {})))[0]
        return Image(name=reference if "$" in name else name, tag=None, place=place, text=reference)
    name, _, _ = filled.partition("@")
    if hole(name):
        return Image(name=re.split(r"[:@]", name)[0], tag=None, place=place, text=reference)
    head, slash, tail = name.rpartition("/")
    tail, _, tag = tail.partition(":")
    return Image(name=f"{head}{slash}{tail}", tag=tag or None, place=place, text=reference)


def unknown_part(image: Image | None) -> tuple[str, ...]:
    """A line for `not_understood` where a variable without a value keeps the image from being known."""
    if image is None:
        return ()
    if expression := hole(image.text):
        return (filled_later(image.place, expression),)
    if image.tag is None and "$" in image.text:
        return (f"{image.place}: {image.text} is known only when its variables are; give them defaults",)
    return ()


def machine_of(platform: str) -> str:
    """The machine of a platform of Docker or Kubernetes, where it is another one than most: "linux/arm64"."""
    return "aarch64" if re.fullmatch(r"(?:linux/)?arm64(?:/v8)?", platform.strip().lower()) else ""
