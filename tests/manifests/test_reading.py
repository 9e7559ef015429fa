"""Files that describe an environment: what is read from each, on which line, and what is refused.

test_reading.yaml has a file each, many of them out of public repositories, reduced to the lines that matter.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.guard import guarded
from tests.tables import each, read_rows
from tfgpu_doctor.manifests import KINDS, Environment, ManifestError, Place, Requirement
from tfgpu_doctor.manifests.reading import read
from tfgpu_doctor.manifests.requirement import conda_requirement, poetry_specifier
from tfgpu_doctor.manifests.variables import fill, substitute

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))
FILES: dict[str, str] = ROWS["FILES"]  # that others include
CASES: list[dict[str, Any]] = ROWS["CASES"]
SAMPLES = [case["text"] for case in CASES if case["text"].count("\n") > 4]


def shown(one: Environment) -> dict[str, Any]:
    """What is read, as test_reading.yaml has it: without what is empty, and with line numbers for places."""
    path = one.place.path

    def line(each: Requirement) -> str:
        place = each.place.line if each.place.path == path else each.place
        name = "" if each.name == "python" else each.name
        specifier = ",".join(sorted(each.specifier.split(",")))  # packaging's order is not that of every release
        extras = "".join(f"[{extra}]" for extra in each.extras)
        installer = f" ({each.installer})" if each.installer != "pip" else ""
        marker = f"; {each.marker}" if each.marker else ""
        return f"{place} {name}{specifier}{extras}{installer}{f' {each.build}' if each.build else ''}{marker}"

    gpu = one.gpu and f"{one.gpu.place.line} {one.gpu.count}, {one.gpu.text}"
    found = {
        "label": one.label if one.label != path else None,
        "line": one.place.line if one.place.line != 1 else None,
        "python": list(map(line, one.python)),
        "requirements": list(map(line, one.requirements)),
        "image": one.image and f"{one.image.place.line} {one.image.reference}",
        "packages_of": one.packages_of and one.packages_of.reference,
        "settings": [f"{each.place.line} {each.name}={each.value}" for each in one.settings],
        "gpu": f"{gpu}: {one.gpu.problem}" if one.gpu and one.gpu.problem else gpu,
        "build_context": one.build_context,
        "channels": list(one.channels),
        "not_understood": [re.sub(r"(: Expected) .*", r"\1", line) for line in one.not_understood],
        "read": list(one.read),
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


@each("case", CASES)
def test_what_is_read(case: dict[str, Any]) -> None:
    assert [shown(one) for one in read(case["path"], case["text"], None, FILES.get)] == case["found"]


def test_copied_files_are_found_and_the_host_s_own_are_not_read() -> None:
    asked: list[str] = []

    def include(name: str) -> str | None:
        asked.append(name)
        return FILES.get(name)

    text = "FROM x\nCOPY --chown=a docker/req.txt /app/\nRUN pip install -r /app/req.txt -r /etc/../../../x.txt\n"
    (found,) = read("Dockerfile", text, None, include)
    assert shown(found)["requirements"] == ["docker/req.txt:1 tensorflow==2.6", "docker/extra.txt:1 keras"]
    assert not [name for name in asked if name.startswith(("/", ".."))]
    assert found.not_understood == ("Dockerfile:3: /etc/../../../x.txt cannot be read",)


@each(
    ("path", "text", "message"),
    [
        *ROWS["REFUSED"],
        ("Dockerfile", "FROM x\nRUN \ud800", "Dockerfile: not a text file"),
        ("requirements.txt", "x" * 100_001, "requirements.txt:1: a line of 100001 characters"),
        ("requirements.txt", "#\n" * 2_500_001, "requirements.txt is larger than 5 MB"),
        ("deep.yaml", "[" * 50_000, "deep.yaml"),
        ("compose.yaml", "services:\n  x: " + "9" * 5000, "compose.yaml:2: a number of more than 500 digits"),
    ],
)
def test_refused(path: str, text: str, message: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read(path, text)
    assert message in str(refused.value)
    assert str(refused.value).startswith(path)


def test_aliases_that_expand_without_end() -> None:
    bomb = "a0: &a0 {x: y}\n" + "".join(
        f"a{n}: &a{n} {{{', '.join(f'k{i}: *a{n - 1}' for i in range(10))}}}\n" for n in range(1, 12)
    )
    with guarded(30.0), pytest.raises(ManifestError):
        read("bomb.yaml", bomb + "services: {x: {<<: [*a11, *a10]}}\nx: y\n", "kubernetes")
        read("bomb.yaml", bomb)


def survives(text: str, kind: str) -> None:
    try:
        read("file", text, kind, FILES.get)  # type: ignore[arg-type]
    except ManifestError as error:
        assert str(error).startswith("file")


@each("kind", KINDS)
def test_noise_and_the_files_of_the_other_kinds(kind: str) -> None:
    chance = random.Random(3)
    for sample in SAMPLES:
        for end in range(0, len(sample), 49):
            survives(sample[:end], kind)
            survives(sample[:end] + chance.choice("\t\x1b[]{}:*&'\"\\#=\u2028é%$") + sample[end + 1 :], kind)
    for size in range(0, 400, 5):
        survives(chance.randbytes(size).decode("latin-1"), kind)
        survives("".join(chance.choices("[]{}:,-=$'\"\\#&*! \n\taF1%", k=size)), kind)


LARGE = {
    "dockerfile": "FROM x\n" + "ENV A=$A$A\n" * 1000 + "RUN pip install 'a \\\n" * 1000 + "${" * 20_000,
    "requirements": "-c file\n" + "a==1 \\\n" * 10_000 + "\nb=" + "1" * 400 + "=" * 4000 + "\n" + "numpy\n" * 10_000,
    "pyproject": "[project]\ndependencies = [" + '"numpy",\n' * 8_000 + "]",
    "conda": "dependencies:\n" + " - a >=1 " + "b" * 50_000 + "\n" + " - numpy=1.2\n" * 4000,
    "compose": "services:\n" + "".join(f" s{number}: {{image: x, extends: s{number}}}\n" for number in range(1000)),
    "kubernetes": "apiVersion: v1\nkind: Pod\nspec: {containers: [" + "{image: x}," * 2000 + "]}",
    "python": "3.9\n" * 100_000,
    "singularity": "Bootstrap: docker\nFrom: x\n%post\n" + "pip install a \\\n" * 2_500,
    "notebook": '{"cells": [' + '{"cell_type": "code", "source": ["!pip install a\\n", "x"]},\n' * 4_000 + "{}]}",
    "workflow": "jobs: {a: {strategy: {matrix: {" + ",".join(f"a{n}: [1, 2, 3]" for n in range(2000)) + "}},"
    "steps: [" + "{run: pip install tensorflow}," * 500 + "]}, b: {steps: ["
    "{run: pip install tensorflow}," * 5_000 + "]}}",
}


DEEP = (*(unit * 100_000 for unit in ("[", "a: ", "- ", "{a: ")), "a = " + "[" * 100_000, "a." * 100_000 + "b=1")


@each("kind", KINDS)
def test_deep_files_are_refused_and_large_ones_read_soon(kind: str) -> None:
    for text in (*DEEP, *(f"FROM x\nRUN {one}" for one in DEEP), LARGE[kind]):
        with guarded(20.0, text[:20]):
            survives(text, kind)


@each(("spec", "name", "specifier", "build"), ROWS["test_match_specs"])
def test_match_specs(spec: str, name: str, specifier: str, build: str | None) -> None:
    one = conda_requirement(spec, Place("environment.yml", 1))
    assert (one.name, one.specifier, one.build) == (name, specifier, build)


@each("spec", ["", "=2.4", "tensorflow>=2.4|<2", "tensorflow >>2"])
def test_what_is_no_match_spec(spec: str) -> None:
    with pytest.raises(ValueError):
        conda_requirement(spec, Place("environment.yml", 1))


@each(("version", "expected"), ROWS["test_poetry"])
def test_poetry(version: str, expected: str) -> None:
    assert poetry_specifier(version) == expected


@each(("text", "expected"), ROWS["test_variables"])
def test_variables(text: str, expected: str | None) -> None:
    assert substitute(text, {"V": "1", "E": ""}) == expected


def test_variables_that_grow_without_end() -> None:
    values = {"A0": "x" * 100}
    for number in range(1, 30):
        values[f"A{number}"] = fill(f"$A{number - 1}" * 10, values)
    assert max(map(len, values.values())) <= 2_000
