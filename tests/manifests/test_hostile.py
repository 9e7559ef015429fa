"""Whatever is read, there is an answer or a refusal, soon."""

from __future__ import annotations

import random

from tests.guard import guarded
from tests.manifests.test_reading import FILES, SAMPLES
from tests.tables import each
from tfgpu_doctor.manifests import KINDS, ManifestError
from tfgpu_doctor.manifests.reading import read


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
