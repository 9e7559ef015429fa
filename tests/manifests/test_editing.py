"""Edits of single lines, in each syntax in which a requirement can stand."""

from __future__ import annotations

from tests.tables import each
from tfgpu_doctor.manifests.editing import apply
from tfgpu_doctor.records.report import Edit

REQUIREMENTS, TOML, CONDA, DOCKER = "requirements.txt", "pyproject.toml", "environment.yml", "Dockerfile"

# file, text, line, old, new, beside -> text
MADE = [
    (REQUIREMENTS, "numpy\r\ntf==1  # why\r\n", 2, "tf==1", "tf[x]==2", False, "numpy\r\ntf[x]==2  # why\r\n"),
    (REQUIREMENTS, "tf==1", 1, "tf==1", "numpy<2", True, "tf==1\nnumpy<2"),
    (REQUIREMENTS, "a\ntf-cpu\nb\n", 2, "tf-cpu", "", False, "a\nb\n"),
    (REQUIREMENTS, "tf>=1,<2\n", 1, "tf>=1,<2", "tf==2", False, "tf==2\n"),
    (TOML, 'd = ["tf==1", "np"]', 1, "tf==1", "tf==2", False, 'd = ["tf==2", "np"]'),
    (TOML, 'd = ["tf==1", "np"]', 1, "tf==1", "a<2", True, 'd = ["tf==1", "a<2", "np"]'),
    (TOML, 'd = [\n  "tf==1"  # last\n]', 2, "tf==1", "a<2", True, 'd = [\n  "tf==1",  # last\n  "a<2",\n]'),
    (TOML, "d = [\n  'tf==1',\n]", 2, "tf==1", 'a; x == "1"', False, "d = [\n  'a; x == \"1\"',\n]"),
    (TOML, 'd = ["tf", "np"]', 1, "np", "", False, 'd = ["tf"]'),
    (TOML, 'd = ["tf", "np"]', 1, "tf", "", False, 'd = ["np"]'),
    (TOML, 'd = [\n  "tf",\n  "np",\n]', 3, "np", "", False, 'd = [\n  "tf",\n]'),
    (TOML, 'tf = "1"', 1, 'tf = "1"', 'tf = { version = "==2", extras = ["x"] }', False,
     'tf = { version = "==2", extras = ["x"] }'),
    (TOML, 'tf = { version = "1", optional = true }', 1, 'tf = "1"', 'tf = "==2"', False,
     'tf = { version = "==2", optional = true }'),
    (TOML, 'tf = {version = "1"}', 1, 'tf = "1"', 'np = "<2"', True, 'tf = {version = "1"}\nnp = "<2"'),
    (CONDA, "d:\n  - tf=1\n", 2, "tf=1", "tf==2", False, "d:\n  - tf==2\n"),
    (CONDA, "  - pip:\n    - tf==1\n", 2, "tf==1", "np<2", True, "  - pip:\n    - tf==1\n    - np<2\n"),
    (CONDA, '  - "tf==1"\n', 1, "tf==1", "np<2", True, '  - "tf==1"\n  - "np<2"\n'),
    (DOCKER, "RUN pip install tf==1 np", 1, "tf==1", "tf[x]==2", False, "RUN pip install 'tf[x]==2' np"),
    (DOCKER, 'RUN pip install "tf==1" np', 1, "tf==1", "tf[x]==2", False, 'RUN pip install "tf[x]==2" np'),
    (DOCKER, "RUN pip install tf && ls", 1, "tf", "np<2", True, "RUN pip install tf 'np<2' && ls"),
    (DOCKER, 'RUN ["pip", "install", "tf"]', 1, "tf", "np<2", True, 'RUN ["pip", "install", "tf", "np<2"]'),
    (DOCKER, "RUN pip install tf-cpu tf", 1, "tf-cpu", "", False, "RUN pip install tf"),
    (DOCKER, "RUN pip install \\\n  tf-cpu \\\n  tf", 2, "tf-cpu", "", False, "RUN pip install \\\n  tf"),
    (DOCKER, "RUN pip install tf \\\n  tf-cpu\nCMD x", 2, "tf-cpu", "", False, "RUN pip install tf\nCMD x"),
    (DOCKER, "FROM python:3.13-slim AS b", 1, "python:3.13-slim", "python:3.11-slim", False,
     "FROM python:3.11-slim AS b"),
    (DOCKER, 'ENV CUDA_VISIBLE_DEVICES="-1"\nCMD x', 1, "CUDA_VISIBLE_DEVICES", "", False, "CMD x"),
    ("compose.yaml", "  image: a:1\n", 1, "a:1", "deploy:\n  x: 1", True, "  image: a:1\n  deploy:\n    x: 1\n"),
    ("pod.yaml", "  - image: a:1\n", 1, "a:1", "x:\n  y: 1", True, "  - image: a:1\n    x:\n      y: 1\n"),
    ("compose.yaml", "  - X=none\n  - Y=1\n", 1, "X", "", False, "  - Y=1\n"),
    ("compose.yaml", "  X: none\n", 1, "X", "", False, ""),
]  # fmt: skip

REFUSED = [
    (REQUIREMENTS, "tf==1 \\\n    --hash=sha256:00\n", 1, "tf==1", "tf==2", "hashes"),
    (REQUIREMENTS, "tf==1.5\n", 1, "tf==1", "tf==2", "not written there"),
    (REQUIREMENTS, "tf==1\n", 7, "tf==1", "tf==2", "no such line"),
    ("uv.lock", 'version = "1"\n', 1, 'version = "1"', 'version = "2"', "lock file"),
    (DOCKER, "RUN pip install tf==$V", 1, "tf==1", "tf==2", "not written there"),
    (DOCKER, "RUN pip install -q tf-cpu && ls", 1, "tf-cpu", "", "all that the command installs"),
    (DOCKER, "ENV A=1 X=none B=2", 1, "X", "", ""),
    (CONDA, "d: [tf=1, np]", 1, "tf=1", "", "not written there"),
]


@each(("path", "text", "line", "old", "new", "beside", "expected"), MADE)
def test_an_edit_keeps_the_syntax_around_it(
    path: str, text: str, line: int, old: str, new: str, beside: bool, expected: str
) -> None:
    made = apply(path, text, [Edit(path, line, old, new, beside)], in_shell=path == DOCKER)
    assert made == (expected, [])


@each(("path", "text", "line", "old", "new", "reason"), REFUSED)
def test_what_is_not_sure_is_refused_and_the_text_stays(
    path: str, text: str, line: int, old: str, new: str, reason: str
) -> None:
    made, refused = apply(path, text, [Edit(path, line, old, new)], in_shell=path == DOCKER)
    assert made == text
    assert reason in refused[0].reason


def test_several_edits_of_a_file_do_not_move_each_other() -> None:
    edits = [
        Edit(REQUIREMENTS, 1, "tf==1", "tf==2"),
        Edit(REQUIREMENTS, 1, "tf==1", "tf==3"),  # the second for the same text
        Edit(REQUIREMENTS, 1, "tf==1", "np<2", beside=True),
        Edit(REQUIREMENTS, 2, "old"),
        Edit(REQUIREMENTS, 3, "k==1", "k==2"),
    ]
    assert apply(REQUIREMENTS, "tf==1\nold\nk==1\n", edits, in_shell=False) == ("tf==2\nnp<2\nk==2\n", [])
