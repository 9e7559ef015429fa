"""Dockerfiles, split into instructions as BuildKit does, and read soon, whatever they hold.

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

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))


@each(
    ("text", "expected"),
    [
        ("from x\n\trun\ta  b \n", [("FROM", 1, "x"), ("RUN", 2, "a  b ")]),
        ("\ufeffFROM x\r\nRUN a \\\r\n b\r\n", [("FROM", 1, "x"), ("RUN", 2, "a  b")]),
        ("RUN a\\\nb", [("RUN", 1, "ab")]),
        ("RUN a \\  \n# c\n\n   \n  # c \\\n b\nFROM x", [("RUN", 1, "a  b"), ("FROM", 7, "x")]),
        ("RUN \\\n  a", [("RUN", 1, "  a")]),
        ("\\\n\n  RUN a\nFROM x", [("RUN", 3, "a"), ("FROM", 4, "x")]),
        ("RUN a \\\\\nFROM x", [("RUN", 1, "a \\\\"), ("FROM", 2, "x")]),  # no continuation
        ("RUN a \\", [("RUN", 1, "a ")]),
        ("# escape=`\nRUN a `\n b\nCOPY a C:\\\nFROM x", [("RUN", 2, "a  b"), ("COPY", 4, "a C:\\"), ("FROM", 5, "x")]),
        ("# syntax=x\n#ESCAPE = ` \nRUN a `\n b", [("RUN", 3, "a  b")]),
        ("# text\n# escape=`\nRUN a `\n b", [("RUN", 3, "a `"), ("B", 4, "")]),  # a comment ends the directives
        ("\n# escape=`\nRUN a `", [("RUN", 3, "a `")]),
        ('RUN ["a", \\\n "b"]', [("RUN", 1, '["a",  "b"]')]),
        ("ONBUILD RUN a", [("ONBUILD", 1, "RUN a")]),
        ("EXPOSE\nRUN", [("EXPOSE", 1, ""), ("RUN", 2, "")]),
        ("RUN a\u2028b\x0cc\x85d", [("RUN", 1, "a\u2028b\x0cc\x85d")]),
        ("", []),
        ("# a", []),
    ],
)
def test_instructions(text: str, expected: list[tuple[str, int, str]]) -> None:
    assert [(one.verb, one.line, one.value) for one in instructions(text)] == expected


@each(("text", "expected"), ROWS["test_here_documents"])
def test_here_documents(text: str, expected: dict[str, list[str]]) -> None:
    assert {one.verb: [line for _, line in one.heredocs] for one in instructions(text)} == expected


def test_the_line_of_a_character() -> None:
    (one,) = instructions("ENV \\\n# c\n A=1 \\\n\n B=2\\\n3")
    assert one.value == " A=1  B=23"
    assert [one.line_at(offset) for offset in range(len(one.value))] == [3] * 5 + [5] * 4 + [6]


def settings(text: str) -> list[tuple[str, str, int]]:
    (found,) = read("Dockerfile", text, "dockerfile")
    return [(one.name, one.value, one.place.line) for one in found.settings]


@each(
    ("text", "expected"),
    [
        ("ENV A b c=d ", [("A", "b c=d", 2)]),
        ("ENV A=b\\ c D='e f' G=h'i j'\"k\"", [("A", "b c", 2), ("D", "e f", 2), ("G", "hi jk", 2)]),
        ('ENV A="b \\" c"', [("A", 'b " c', 2)]),
        ("ENV A=1 \\\n  B=2 \\\n  # c\n  A=3", [("A", "3", 5), ("B", "2", 3)]),
        ('ENV A="b \\\n c" D=', [("A", "b  c", 2), ("D", "", 3)]),
        ("ENV a.b-c=1", [("a.b-c", "1", 2)]),
        ("ENV", []),
    ],
)  # fmt: skip
def test_both_forms_of_env(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert settings(f"FROM x\n{text}\n") == expected


def test_a_stage_has_what_the_stages_below_it_have() -> None:
    text = """FROM x AS base
ENV A=1
RUN pip install keras
FROM y AS other
RUN pip install h5py
FROM BASE AS next
COPY --from=1 /opt/venv /opt/venv
FROM z
RUN pip install absent
FROM next
ENV A=2
RUN pip install numpy
"""
    (found,) = read("Dockerfile", text, "dockerfile")
    assert [one.name for one in found.requirements] == ["keras", "h5py", "numpy"]
    assert [(one.name, one.value) for one in found.settings] == [("A", "2")]
    assert found.image and found.image.name == "x"


N = 5_000
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


@each("name", HOSTILE)
def test_the_time_is_linear(name: str) -> None:
    with guarded(2.0, name):  # the slowest takes a fifth of it
        instructions_seen = sum(1 for _ in instructions(HOSTILE[name]))
        try:
            read("Dockerfile", "FROM x AS s0\n" + HOSTILE[name], "dockerfile")
        except ManifestError as error:
            assert len(str(error)) < 200
    assert instructions_seen <= 4 * N
