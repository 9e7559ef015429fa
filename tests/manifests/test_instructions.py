"""Dockerfiles, split as BuildKit does, and their shell code, as a shell does; both soon, whatever they hold.

The reader took the place of dockerfile-parse 2.0.1. Over 17,000 variants of a dozen Dockerfiles the two gave the same
instructions; they differ where that package was wrong: a line that holds nothing but a backslash, an instruction whose
last line is continued, and everything inside here-documents.
"""

from __future__ import annotations

from pathlib import Path

from tests.guard import guarded
from tests.tables import each, read_rows
from tfgpu_doctor.manifests import ManifestError
from tfgpu_doctor.manifests.dockerfile import instructions
from tfgpu_doctor.manifests.reading import read
from tfgpu_doctor.manifests.shell import Installed, commands, read_commands

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


@each(("text", "expected"), ROWS["test_instructions"])
def test_instructions(text: str, expected: list[list[object]]) -> None:
    assert [[one.verb, one.line, one.value] for one in instructions(text)] == expected


@each(("text", "expected"), ROWS["test_here_documents"])
def test_here_documents(text: str, expected: dict[str, list[str]]) -> None:
    assert {one.verb: [line for _, line in one.heredocs] for one in instructions(text)} == expected


@each(("text", "expected"), ROWS["test_both_forms_of_env"])
def test_both_forms_of_env(text: str, expected: list[list[object]]) -> None:
    (found,) = read("Dockerfile", f"FROM x\n{text}\n", "dockerfile")
    assert [[one.name, one.value, one.place.line] for one in found.settings] == expected


@each(("code", "expected"), ROWS["test_commands"])
def test_commands(code: str, expected: list[list[str]]) -> None:
    found = commands(list(enumerate(code.split("\n"), 1)))
    assert [[f"{word.line}{word.text}" for word in words] for words in found if words] == expected


@each(("command", "installed", "python", "not_understood"), ROWS["test_what_is_installed"])
def test_what_is_installed(command: str, installed: list[str], python: list[str], not_understood: list[str]) -> None:
    found = Installed()
    read_commands([(4, command)], "Dockerfile", found)
    assert [f"{one.name}{one.specifier}" for one in found.requirements] == installed
    assert [one.specifier for one in found.pythons] == python
    assert [" ".join(line.split(" ")[:2]) for line in found.not_understood] == not_understood


N = 2_500
HOSTILE = {
    "ENV of itself": "ENV A=$A$A\n" * N,
    "ENV of the last": "".join(f"ENV A{one}=${{A{one - 1}}}1\n" for one in range(N)),
    "pairs": "ENV " + "".join(f"A{one}=1 \\\n" for one in range(N)),
    "a name without end": "ENV A=1 " + "a\\\n" * N,
    "quotes in ENV": "ENV " + 'A="\\\n' * N,
    "stages": "".join(f"FROM x AS s{one}\n" for one in range(N)),
    "a chain of stages": "".join(
        f"FROM s{one} AS s{one + 1}\nENV A{one}=1\nRUN pip install a{one}\nCOPY f{one} .\n" for one in range(N // 2)
    ),
    "COPY of a stage": "RUN pip install keras\nFROM y\n" + "COPY --from=0 /opt/venv /opt/venv\n" * N,
    "COPY of each stage": "".join(
        f"FROM y AS s{one}\n" + 3 * f"COPY --from=s{one - 1} /opt/venv /x\n" for one in range(N // 4)
    ),
    "open here-documents": "RUN <<E\n" * N,
    "many here-documents": "".join(["RUN", *(f" <<A{one}" for one in range(N)), *(f"\nA{one}" for one in range(N))]),
    "open quotes": "RUN echo '\n" * N + 'RUN "\\\n' * N,
    "continued": "RUN a \\\n" * N,
    "comments": "RUN a \\\n" + "# b\n" * N,
    "words": "RUN " + ("pip conda apt uv \\\n") * N,
    "options": "RUN " + ("--a=b --c\\\n") * N,
    "files": "".join(f"COPY f{one} .\nRUN pip install -r r{one}\n" for one in range(N)),
    "a long path": "RUN pip install -r " + "a/" * (N * 4),
    "variables": "RUN " + "${A:-${B:-$C}} ${ \\\n" * N,
    "blanks": "FROM --platform=" + " \\\n" * N + "x y z",
    "brackets": "RUN " + "[\\\n" * N,
    "directives": "# a=b\n" * N,
    "folders": "COPY --from=0 " + "/usr/local/lib\\\n" * N,
}  # fmt: skip


def test_the_time_is_linear() -> None:
    for name, text in HOSTILE.items():
        with guarded(1.5, name):  # the slowest takes a fifth of it
            try:
                read("Dockerfile", f"FROM x AS s0\n{text}", "dockerfile")
            except ManifestError as error:
                assert len(str(error)) < 200, name
