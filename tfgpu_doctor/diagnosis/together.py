"""Fixes of one report that go together: made all at once, they end in files that pass. Pure.

The edits are made in the environment that was read, the lines of TensorFlow, Python and images first, and it is judged
again, until no edit is left. What a line becomes in the end is what every fix of it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from tfgpu_doctor.manifests import Environment, Image, Place, Requirement
from tfgpu_doctor.manifests.pyproject import loads
from tfgpu_doctor.manifests.requirement import conda_requirement, pip_requirement
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.report import Edit, Finding, Fix, Severity

_MOST = 6  # times that an environment is judged again


def together(
    environment: Environment, found: Sequence[Finding], judge: Callable[[Environment], Sequence[Finding]]
) -> Iterator[Finding]:
    """The findings of an environment, with first fixes that agree with each other and need no second round."""
    made = _all_edits(environment, found, judge)
    own = {_key(edit) for one in found for edit in _first(one)}
    later = tuple(edit for edit in made if _key(edit) not in own)
    followed = [one for one in found if any(_line(environment, edit) for edit in _first(one))]
    deciding = [one for one in followed if any(_decides(environment, edit) for edit in _first(one))]
    leader = next(iter((*deciding, *followed)), None)
    for one in found:
        yield _with_final(one, made, later if one is leader else (), leader) if _first(one) else one


def _all_edits(
    environment: Environment, found: Sequence[Finding], judge: Callable[[Environment], Sequence[Finding]]
) -> list[Edit]:
    """Follow the first fixes, judge again, and so on until no fix is left that can be followed."""
    made: list[Edit] = []
    for _ in range(_MOST):
        edits = [*_next(environment, found)]
        if not edits:
            break
        for edit in edits:
            _compose(made, edit)
        environment = _edited(environment, edits)
        found = judge(environment)
    return made


def _first(one: Finding) -> tuple[Edit, ...]:
    return one.fixes[0].edits if one.fixes and one.severity is not Severity.NOTE else ()


def _next(now: Environment, found: Iterable[Finding]) -> Iterator[Edit]:
    """The edits of first fixes that can be followed: those that decide on the rest alone, where there are any."""
    open_ones: dict[tuple[object, ...], Edit] = {}
    for one in found:
        if all(_line(now, edit) for edit in _first(one)):
            for edit in _first(one):
                open_ones.setdefault(_key(edit), edit)
    deciding = [edit for edit in open_ones.values() if _decides(now, edit)]
    yield from deciding or open_ones.values()


def _decides(now: Environment, edit: Edit) -> bool:
    """Whether it changes which TensorFlow there is, or for which Python; beside a line, nothing is decided."""
    line = _line(now, edit)
    return not edit.beside and line is not None and (isinstance(line, Image) or line.name in (*TENSORFLOW, "python"))


def _line(now: Environment, edit: Edit) -> Requirement | Image | None:
    """What the edit is about."""
    images = (now.image,) if now.image and not edit.beside else ()  # beside it stand the keys of a service
    lines = (*now.requirements, *now.python, *images)
    at = [one for one in lines if (one.place.path, one.place.line) == (edit.path, edit.line)]
    return next((one for one in at if edit.old in (one.text, one.text.removeprefix("python "))), None)


def _key(edit: Edit) -> tuple[object, ...]:
    """The same for two edits of one text; of those that add something, for one package."""
    added = re.match(r"[\w.-]*", edit.new)
    return edit.path, edit.line, edit.old, added[0] if edit.beside and added else None


def _compose(made: list[Edit], edit: Edit) -> None:
    """Add an edit, which may change what an earlier one has written."""
    for index, one in enumerate(made):
        if (one.path, one.line, one.new) == (edit.path, edit.line, edit.old):
            if edit.beside:
                made.append(structs.replace(edit, old=one.old))
            elif one.beside and not edit.new:
                del made[index]
            else:
                made[index] = structs.replace(one, new=edit.new)
            return
    made.append(edit)


def _edited(now: Environment, edits: Iterable[Edit]) -> Environment:
    for edit in edits:
        line = _line(now, edit)
        if isinstance(line, Image):
            name, _, tag = edit.new.partition(":")
            now = replace(now, image=Image(name, tag or None, line.place, edit.new))
        elif line is not None:
            kept = (line,) if edit.beside else ()
            try:
                new = (*kept, *((_read(edit.new, line),) if edit.new else ()))
            except ValueError:  # a form that no reader of files understands: it stays as it is
                continue
            now = replace(
                now,
                requirements=tuple(_put(now.requirements, line, new)),
                python=tuple(_put(now.python, line, new)),
            )
    return now


def _put(lines: Iterable[Requirement], old: Requirement, new: tuple[Requirement, ...]) -> Iterator[Requirement]:
    for one in lines:
        yield from new if one is old else (one,)


def _read(text: str, old: Requirement) -> Requirement:
    """The requirement that an edit writes, as a file reader would read it."""
    if old.name == "python":
        return replace(old, specifier=_python(text, old.place), text=text if " = " in text else f"python {text}")
    if re.match(r"[\w.-]+ = ", text):
        name, value = next(iter(loads(text).items()))
        given = value if isinstance(value, dict) else {"version": value}
        specifier = given["version"].removeprefix("*")
        return replace(old, name=name, specifier=specifier, extras=tuple(given.get("extras", ())), text=text)
    if old.installer == "conda":
        return conda_requirement(text, old.place)
    one = pip_requirement(text, old.place)
    return replace(one, marker=old.marker) if one else old


def _python(text: str, place: Place) -> str:
    """The bounds on Python that are written as a key of TOML, as one spec of conda, as bounds or as a version."""
    if " = " in text:
        return str(next(iter(loads(text).values())))
    if re.search(r"\bpython\W", text):
        return conda_requirement(text, place).specifier
    return f"=={text}.*" if text[0].isdigit() else text


def _with_final(one: Finding, made: Sequence[Edit], later: tuple[Edit, ...], leader: Finding | None) -> Finding:
    """The finding with the edits that its lines need in the end; where none is left, with those of TensorFlow's."""
    final = {_key(edit): edit for edit in made}
    if not any(_key(edit) in final for edit in (*_first(one), *(_first(leader) if leader else ()))):
        return one  # nothing of it is about requirements
    edits = [final[key] for edit in _first(one) if (key := _key(edit)) in final]
    if not edits and leader is not None:
        edits = [final[key] for edit in _first(leader) if (key := _key(edit)) in final]
    whole = (*edits, *later)
    if whole == _first(one) or not whole:
        return one
    text = "; ".join(map(_sentence, whole))
    fix = Fix(f"{text[0].upper()}{text[1:]}", one.fixes[0].commands, whole)
    return structs.replace(one, fixes=(fix, *one.fixes[1:]))


def _sentence(edit: Edit) -> str:
    place = Place(edit.path, edit.line)
    if edit.beside:
        return f"beside {edit.old!r} in {place}, write {edit.new!r}"
    return (
        f"in {place}, write {edit.new!r} instead of {edit.old!r}" if edit.new else f"remove {edit.old!r} from {place}"
    )
