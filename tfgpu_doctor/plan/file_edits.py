"""Lines that a manifest should have instead of those that it has. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

from msgspec import structs
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.facts.report import Alternative, Edit, Fix
from tfgpu_doctor.facts.versions import at_least, major, minor, numbers
from tfgpu_doctor.manifests import Image, Requirement, Setting
from tfgpu_doctor.matrix.compatibility import requirement
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.alternatives import after_a_driver_change, alternatives
from tfgpu_doctor.plan.constraints import PlanRequest, same_minor_releases
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.plan.planned import PlannedEnvironment, fitting, other_keras, pinned, without_wheel
from tfgpu_doctor.plan.resolving import admits, specifier


@lru_cache(maxsize=16)
def replacement(planned: PlannedEnvironment, below: str | None = None) -> str | None:
    """The one requirement that a report advises in place of TensorFlow's line.

    It is the release that is there, with its extra; else the newest of the same minor version; else the best for the
    target and its Python.
    """
    row = None if below else _nearest_sound(planned)
    if row:
        return _for_its_file(planned, row)
    from tfgpu_doctor.plan.ranking import make_plan  # of no use to a doctor that reads no manifest

    wanted = SpecifierSet(f"<{below}") if below else None
    # a Python that no line names comes with the image, and no edit changes it
    fixed = None if planned.environment.python else planned.python
    target = structs.replace(planned.target, python=planned.target.python or fixed)
    plan = make_plan(planned.matrix, target, specifier=wanted)
    kinds = ("as-is",) if fixed else ("as-is", "python")
    best = next((one for one in plan.options if one.kind in kinds), None)
    row = planned.matrix.tensorflow(best.tensorflow, planned.target.platform, best.package) if best else None
    if row is None:
        return None
    there = pinned(planned.tensorflow) if planned.tensorflow else None
    # a program of the release that is written may not run with one of another major version
    keeps_major = there is None or major(there) == major(row.version)
    return _for_its_file(planned, row) if keeps_major and fitting(planned, row.python, row) else None


def _for_its_file(planned: PlannedEnvironment, row: Release) -> str:
    """The requirement of a release; in a file of constraints without extras, which pip refuses there (tried)."""
    one, wanted = planned.tensorflow, requirement(row)
    return re.sub(r"\[[^\[\]]*\]", "", wanted) if one and is_of_constraints(one) and not one.beside else wanted


def is_of_constraints(one: Requirement) -> bool:
    """Whether a line stands in a file that is one of constraints by its name."""
    return "constraints" in one.place.path.rpartition("/")[2].lower()


def _nearest_sound(planned: PlannedEnvironment) -> Release | None:
    """The release that is there, or the newest of its minor version, where its extra brings what it needs."""
    there = planned.release or next(iter(planned.allowed), None)
    version = there.version if there else pinned(planned.tensorflow) if planned.tensorflow else None
    if version is None:
        return None
    for row in same_minor_releases(PlanRequest(planned.matrix, planned.target), version):
        # no line of a file is to be needed beside it: a plan also has those that a command repairs
        pythons, cards = planned.pythons_of(row), planned.target.capabilities
        issues = planned.matrix.issues_for(row, python=[None, *pythons][-1], compute_capabilities=cards, extra=True)
        if row.extra and pythons and not any(issue.severity == "error" for issue in issues):
            return row
    return None


def write(one: Requirement, better: str) -> Fix:
    """Replace a requirement by another one, given as pip has it; a constraint has the version, and no extras."""
    if not one.beside:
        return _written((one, _as_written(one, better)))
    name, extras, version = _parts(better)
    wanted = f"{name}[{','.join(extras)}]" if extras else name
    is_required = any(each.is_constraint for each in one.beside)  # else the line that it requires is beside it
    lines = [(one, better if is_required else f"{name}{version}")]
    lines += [(each, f"{name}{version}" if each.is_constraint else wanted) for each in one.beside]
    return _written(*((each, new) for each, new in lines if new != each.text))


def _written(*lines: tuple[Requirement, str]) -> Fix:
    """Other texts on lines of files."""
    edits = tuple(Edit(one.place.path, one.place.line, one.text, new) for one, new in lines)
    each = (f"in {one.place}, write {new!r} instead of {one.text!r}" for one, new in lines)
    return Fix("; ".join(each).replace("in", "In", 1), edits=edits)


def write_release(view: PlannedEnvironment, one: Requirement, better: str) -> Fix:
    """Replace TensorFlow's requirement, a Keras of another release, and bounds of Pythons that it has no wheels for."""
    fix = write(one, better)
    name, _, version = _parts(better)
    row = view.matrix.tensorflow(version.lstrip("="), view.target.platform, name)
    if row is None:
        return fix
    keeps = minor(pinned(one) or "") == minor(row.version)  # what goes with neither is a conflict with a finding
    for line, bound in () if keeps else other_keras(view, row):
        fix = _both(fix, write(line, f"{line.name}{bound}"))
    if not without_wheel(view, [row]):
        return fix
    pythons = [one for one in view.pythons or () if one in row.python] or row.python
    return _both(fix, write_python(view, fitting(view, pythons, row) or pythons))


def _both(fix: Fix, more: Fix) -> Fix:
    text = f"{fix.text}; {more.text[0].lower()}{more.text[1:]}"
    return Fix(text, (*fix.commands, *more.commands), (*fix.edits, *more.edits))


def write_best(view: PlannedEnvironment) -> tuple[Fix, ...]:
    """Replace TensorFlow's requirement by the one that a report advises, where that is another one."""
    one, better = view.tensorflow, replacement(view)
    return (write_release(view, one, better),) if one and better and better != one.text else ()


def write_cuda(view: PlannedEnvironment, release: Release) -> tuple[Fix, ...]:
    """Bring CUDA and cuDNN by TensorFlow's own line; the commands of a plan where no line brings them."""
    if found := write_best(view) if release.extra else ():
        return found
    target = view.target  # where the files are checked, there need be no GPU
    named = ((gpu.name, f"--compute-capability {gpu.compute_capability}") for gpu in target.gpus)
    cards = (f"--gpu {shlex.quote(name)}" if name else otherwise for name, otherwise in named)
    driver = (f"--driver {target.driver}",) if target.driver else ()
    command = " ".join(("tfgpu plan", *(cards if target.gpus else ("--gpu NAME",)), *driver))
    text = "List the ways to install CUDA and cuDNN for it" + ("" if target.gpus else ", on the GPU that it is for")
    tag = f"{release.version}-gpu" if view.base and at_least(release.version, "2.9") else ""  # apt fails in older ones
    rows = (one for one in view.matrix.data.containers if one.tag == tag)
    own = (Alternative(f"Start from {one.image}:{tag}, with Python {one.python} and CUDA {one.cuda}") for one in rows)
    return (Fix(text, (f"{command} --tensorflow {minor(release.version)}",)), *own)


def write_beside(one: Requirement, more: str) -> Fix:
    """Keep a requirement, and add another one next to it."""
    plain = replace(one, text=f'{one.name} = ""') if one.text.endswith("}") else one
    new = _as_written(plain, more)
    edit = Edit(one.place.path, one.place.line, one.text, new, beside=True)
    return Fix(f"Beside {one.text!r} in {one.place}, write {new!r}", edits=(edit,))


def remove(one: Requirement | Setting) -> Fix:
    """Take a requirement, or the line that sets a variable, out."""
    old = one.text if isinstance(one, Requirement) else one.name
    shown = repr(old) if isinstance(one, Requirement) else old
    return Fix(f"Remove {shown} from {one.place}", edits=(Edit(one.place.path, one.place.line, old),))


def write_image(image: Image, better: str) -> Fix:
    """Use another base image."""
    edit = Edit(image.place.path, image.place.line, image.text, better)
    return Fix(f"In {image.place}, write {better}", edits=(edit,))


def add_to_container(view: PlannedEnvironment, lines: tuple[str, ...]) -> Fix:
    """Add keys to a service or a container, next to its image."""
    image, path = view.environment.image, view.environment.place.path
    here = image and image.place.path == path  # else it stands in the Dockerfile that the service is built from
    places = (Edit(path, image.place.line, image.text, "\n".join(lines), beside=True),) if image and here else ()
    return Fix("Add to the container", lines, places)


def write_python(view: PlannedEnvironment, pythons: Sequence[str]) -> Fix:
    """Allow only some Pythons, ascending, where the files say which one is used; of these, those that they allow."""
    pythons = [one for one in pythons if one in (view.pythons or ())] or pythons
    first, last = pythons[0], pythons[-1]
    one = next(iter(view.environment.python), None)
    if one and one.installer != "apt" and view.environment.kind != "notebook":  # there it is what the kernel has
        return reduce(_both, _lines_of_python(view.environment.python, first, last))
    if view.base and view.base.python in pythons:  # packages of another stage are for the Python that starts them
        last = str(view.base.python)
    place = "an image with " if view.base and view.base.of_tensorflow else ""
    return _of_images(view, last) or _of_uv(view, last) or Fix(f"Use {place}Python {last}")


def _lines_of_python(lines: Sequence[Requirement], first: str, last: str) -> Iterator[Fix]:
    """The edit of a line, and that of a project beside .python-version, which has to admit the same."""
    for one in lines:
        if one is lines[0] or not admits(specifier(one.specifier) or SpecifierSet(), last):
            old, new = _python_line(one, first if one is lines[0] else last, last)
            edit = Edit(one.place.path, one.place.line, old, new)
            yield Fix(f"In {one.place}, write {new!r} instead of {old!r}", edits=(edit,))


def _of_images(view: PlannedEnvironment, python: str) -> Fix | None:
    """Write another Python in the tags that name it: of python:3.13-slim, but not of ubuntu:24.04."""
    found = list[Fix]()
    for one in view.makers:
        tag = one.image.tag or ""
        better = re.sub(rf"(?<![\d.]){re.escape(one.python)}(?:\.\d+)*", python, tag) if one.python else tag
        found += [write_image(one.image, f"{one.image.name}:{better}")] if better != tag else []
    text = "; in".join(one.text.removeprefix("In") for one in found)
    return Fix(f"In{text}", edits=tuple(edit for one in found for edit in one.edits)) if found else None


def _of_uv(view: PlannedEnvironment, python: str) -> Fix | None:
    """In a build on a distribution, whose apt has few Pythons, and pip for one: docs.astral.sh/uv, Docker."""
    one, line, image = view.environment, view.tensorflow, view.environment.image
    if image is None or one.packages_of or one.kind not in ("dockerfile", "compose"):
        return None
    place = one.system_pip or (line.place if line and line.place.path == image.place.path else None)
    if place is None or image.name.rpartition("/")[2] not in ("ubuntu", "debian", "cuda"):
        return None
    instructions = (
        "COPY --from=ghcr.io/astral-sh/uv:latest /uv /bin/uv",
        "ENV UV_PYTHON_INSTALL_DIR=/opt/python",
        f"RUN uv venv --seed --python {python} /opt/venv",
        'ENV PATH="/opt/venv/bin:$PATH"',
    )
    return Fix(f"In the build, above {place}, add a Python {python}, which python3 and pip3 then are", instructions)


def _python_line(one: Requirement, first: str, last: str) -> tuple[str, str]:
    """What a line says of Python, and what it should say: bounds, or the last version."""
    old, bounds = one.text, _bounds(one.specifier, first, last)
    if " = " in old:
        return old, f'python = "{bounds}"'
    if old.startswith("python "):  # requires-python
        return old.removeprefix("python "), bounds
    if re.match(r"python[<>~!]", old):  # of conda
        return old, f"python{bounds}"
    if re.match(r"[\d<>]", old):  # of a workflow: "3.x"
        return old, last
    version = re.search(r"(?<![\d.])\d+(?:\.\d+)+$", old)  # python=3.13 of conda
    return old, f"{old[: version.start()]}{last}" if version else f"python={last}"


def _bounds(written: str, first: str, last: str) -> str:
    """From one Python to another; what is written already of patches of these two stays."""
    clauses = sorted(specifier(written) or (), key=str)
    of_patches = [one for one in clauses if one.version.count(".") > 1 and "*" not in one.version]
    low = [str(one) for one in of_patches if one.operator in (">", ">=") and minor(one.version) == first]
    high = [str(one) for one in of_patches if one.operator in ("<", "<=") and minor(one.version) == last]
    large, small = numbers(last)[:2]
    gaps = [str(one) for one in clauses if one.operator == "!="]
    return ",".join((*(low or [f">={first}"]), *(high or [f"<{large}.{small + 1}"]), *gaps))


def _as_written(one: Requirement, better: str) -> str:
    """A requirement of pip in the form of the line that `one` stands on: with its marker, or as a key of TOML."""
    name, extras, version = _parts(better)
    listed, wanted = ", ".join(f'"{extra}"' for extra in extras), f'"{version or "*"}"'
    if one.text.endswith("}"):  # its other keys stay
        made = re.sub(r",\s*extras\s*=\s*\[[^\]]*\]|extras\s*=\s*\[[^\]]*\]\s*,\s*", "", one.text)
        both = f"version = {wanted}, extras = [{listed}]" if extras else f"version = {wanted}"
        made = re.sub(r"""version\s*=\s*(["']).*?\1""", both, made)
        return re.sub(r"^[\w.-]+", name, made)
    if re.match(r"[\w.-]+ = ", one.text):
        return f"{name} = {{ version = {wanted}, extras = [{listed}] }}" if extras else f"{name} = {wanted}"
    _, semicolon, marker = one.text.partition(";")
    return f"{better}{semicolon}{marker}" if one.marker else better


def _parts(text: str) -> tuple[str, tuple[str, ...], str]:
    found = re.fullmatch(r"([\w.-]+)(?:\[([\w,-]+)\])?(.*)", text)
    assert found
    return found[1], tuple(found[2].split(",")) if found[2] else (), found[3]


@dataclass(frozen=True)
class FileEdits(Fixes):
    """The same fixes as edits of the files that were read: nothing is installed yet."""

    planned: PlannedEnvironment

    def where_it_belongs(self, fix: Fix) -> Fix:
        """A variable is unset by taking its line out of the file."""
        for one in self.planned.environment.settings:
            if any(command.startswith("unset ") and one.name in command.split() for command in fix.commands):
                return remove(one)
        return fix

    def reinstall_best(self, why: str) -> tuple[Fix, ...]:
        """The line of TensorFlow, with the best release for the described machine."""
        return write_best(self.planned)

    def reinstall(self, why: str, version: str | None = None) -> tuple[Fix, ...]:
        """The same line: which release a file should name is decided in one place."""
        return self.reinstall_best(why)

    def beside_the_wheels(self, why: str) -> tuple[Fix, ...]:
        """No line of a file brings such a build: container images and conda-forge's builds instead."""
        there = pinned(self.planned.tensorflow) if self.planned.tensorflow else None
        of_major = SpecifierSet(f"=={major(there)}.*") if there else None
        request = PlanRequest(self.matrix, self.planned.target, of_major)
        found = alternatives(request)
        if not found and "driver" in why:  # after another one, which the first fix is
            return ()
        found = found or [*after_a_driver_change(request)]
        return tuple(Fix(f"Use {one.title} instead: {why}", next(iter(one.commands.values()))) for one in found)
