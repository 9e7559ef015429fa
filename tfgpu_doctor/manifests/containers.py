"""What images, variables and sizes look like in Dockerfiles, compose files and Kubernetes manifests."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfgpu_doctor.manifests import Image, Place

_VARIABLE = re.compile(r"\$(?:(?P<bare>\w+)|\{(?P<name>\w+)(?P<rest>[^}]*)\})")
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def substitute(text: str, values: Mapping[str, str]) -> str | None:
    """Put in variables: "${CUDA:-11.8.0}-base"; None where one has no value."""
    unknown = False

    def value(match: re.Match[str]) -> str:
        nonlocal unknown
        name, rest = match["bare"] or match["name"], match["rest"] or ""
        default = re.match(r":?-(.*)", rest)
        found = values.get(name) or (default[1] if default else None)
        if rest.startswith((":+", "+")):
            found = re.sub(r"^:?\+", "", rest) if values.get(name) else ""
        if found is None:
            unknown = True
        return found or ""

    filled = _VARIABLE.sub(value, text)
    return None if unknown else filled


def read_image(reference: str, place: Place, values: Mapping[str, str] | None = None) -> Image:
    """Read "nvcr.io/nvidia/tensorflow:25.02-tf2-py3@sha256:..."; a part that is not known yet leaves the tag open."""
    filled = substitute(reference, values or {})
    if filled is None:
        name = re.split(r"[:@$]", reference)[0]
        return Image(name=name, tag=None, place=place, text=reference)
    name, _, _ = filled.partition("@")
    head, slash, tail = name.rpartition("/")
    tail, _, tag = tail.partition(":")
    return Image(name=f"{head}{slash}{tail}", tag=tag or None, place=place, text=reference)


def read_size(text: str) -> str:
    """Turn "8gb", "1Gi", "512m" into bytes; what is no size stays as it is."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    return str(int(float(found[1]) * _UNITS[found[2]])) if found else text
