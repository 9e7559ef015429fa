"""What a manifest includes can be any file of the machine: it is read below one folder only, and never repeated."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.runner import tfgpu
from tests.tables import each, read_rows
from tfgpu_doctor.manifests import KINDS, Kind, ManifestError
from tfgpu_doctor.manifests.reading import read

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

WORD = "hunter2"
SECRETS: dict[str, str] = ROWS["SECRETS"]
NAMING: dict[str, tuple[Kind, str]] = ROWS["NAMING"]


def told(text: str, kind: Kind, included: str, *, quote: bool = True) -> str:
    try:
        return repr([one.not_understood for one in read("file", text, kind, lambda _: included, quote=quote)])
    except ManifestError as error:
        return str(error)


def test_no_word_of_an_included_file_or_of_one_of_another_kind_is_repeated() -> None:
    """The file that the user named can be a link that somebody else made."""
    wrong = []
    for secret, text in SECRETS.items():
        for naming, (kind, start) in NAMING.items():
            wrong += [(secret, naming)] if WORD in told(start.format("other"), kind, text) else []
        wrong += [(secret, kind) for kind in KINDS if WORD in told(text * 2, kind, "", quote=False)]
    assert wrong == []


OUTSIDE = ("../secret", "{}/secret", "./a/../../secret", "link", "folder/secret", "link2")
ABSENT = ("~/secret", "file://{}/secret", "file:{}/secret", "$HOME/secret", "pipe")


@each(
    ("naming", "name"),
    [
        *(("-r", name) for name in (*OUTSIDE, *ABSENT)),
        *((naming, OUTSIDE[0]) for naming in ("-c", "dynamic", "conda's pip")),
        ("Dockerfile", "link"),
    ],
)
def test_what_lies_outside_of_the_folder_is_not_read(naming: str, name: str, tmp_path: Path) -> None:
    kind, text = NAMING[naming]
    (tmp_path / "secret").write_text("tensorflow==1.0.0\nservices: {b: {image: tensorflow}}\n")
    folder = tmp_path / "project"
    folder.mkdir()
    for link, place in (("link", tmp_path / "secret"), ("link2", "link"), ("folder", "..")):
        (folder / link).symlink_to(place)
    os.mkfifo(folder / "pipe")
    (folder / "file").write_text(text.format(name.format(tmp_path)))
    done = tfgpu("check", "file", "--kind", kind, "--format", "json", cwd=folder, environ={"HOME": str(tmp_path)})
    reasons = " ".join(one["reason"] for one in json.loads(done.stdout)["undetermined"])
    assert "tensorflow" not in reasons and "1.0.0" not in done.stdout
    if naming != "Dockerfile":  # looks into its own folder only
        assert ("lies outside the folder of file and is not read" in reasons) == (name in OUTSIDE)
    assert "is not read" in reasons or "cannot be read" in reasons


def test_what_is_named_too_is_read(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("tensorflow==2.15.1\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "requirements.txt").write_text("-r ../base.txt\n")
    alone = tfgpu("check", "docs/requirements.txt", cwd=tmp_path)
    assert alone.returncode == 3
    assert "name it on the command line, too" in " ".join(alone.stdout.split())
    both = ("docs/requirements.txt", "base.txt", "--kind", "requirements", "--python", "3.13")
    done = tfgpu("check", *both, cwd=tmp_path)
    assert (done.returncode, "lies outside" in done.stdout) == (1, False)
    # a linked folder contains everything
    (tmp_path / "docs" / "base.txt").write_text("tensorflow==2.15.1\n")
    (tmp_path / "docs" / "requirements.txt").write_text("-r base.txt\n")
    (tmp_path / "link").symlink_to("docs")
    done = tfgpu("check", "link/requirements.txt", cwd=tmp_path)
    assert (done.returncode, "lies outside" in done.stdout) == (0, False)


def test_a_link_that_leads_out_is_read_but_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"a {WORD}\n")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "requirements.txt").symlink_to("../secret")
    done = tfgpu("check", "requirements.txt", cwd=folder)
    assert (done.returncode, WORD in done.stdout + done.stderr) == (3, False)
    (folder / "plain").write_text(f"a {WORD}\n")
    assert WORD in tfgpu("check", "plain", "--kind", "requirements", cwd=folder).stdout, "a typing error is shown"


@each(("text", "notes"), ROWS["COUNTED"])
def test_a_file_that_is_something_else_is_counted(text: str, notes: list[str]) -> None:
    (found,) = read("requirements.txt", text, None, {"other.txt": SECRETS["shadow"]}.get)
    assert [one.partition(": Expected")[0] for one in found.not_understood] == notes


def test_files_are_bounded_together(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(("#" * 90_000 + "\n") * 24)
    (tmp_path / "requirements.txt").write_text("-r 0.txt\n-r 1.txt\n-r 2.txt\n")
    done = tfgpu("check", "requirements.txt", cwd=tmp_path)
    assert "2.txt is not read: together, included files are larger than 5 MB" in " ".join(done.stdout.split())


def test_utf_16_as_powershell_writes_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow-gpu\n", encoding="utf-16")
    assert "tf.package-removed" in tfgpu("check", "requirements.txt", cwd=tmp_path).stdout


def test_a_file_of_very_many_lines_is_read_in_part() -> None:
    (found,) = read("requirements.txt", "".join(f"tensorflow=={one}\n" for one in range(30_000)))
    assert len(found.requirements) == 50
    assert found.not_understood == (
        "requirements.txt:20001: more than 20000 lines; the rest is not read",
        "requirements.txt: 19950 more requirements of tensorflow are left out",
    )
    picture = '{"cells": [{"cell_type": "code", "source": "!pip install a", "outputs": "' + "9" * 200_000 + '"}]}'
    assert [one.requirements[0].name for one in read("a.ipynb", picture)] == ["a"]
    services = "".join(f"  s{number}: {{image: x}}\n" for number in range(300))
    many = read("compose.yaml", f"services:\n{services}")
    assert (len(many), many[-1].not_understood) == (200, ("compose.yaml: 100 more environments are left out",))


@each(("files", "named", "expected"), ROWS["CONTEXTS"].values())
def test_the_build_context_of_a_dockerfile(files: list[str], named: list[str], expected: str, tmp_path: Path) -> None:
    for file in {*files, "docker/Dockerfile"}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(ROWS["TEXTS"][file.rpartition("/")[2]], encoding="utf-8")
    done = tfgpu("check", *named, cwd=tmp_path, environ={"COLUMNS": "250"})
    said = " ".join((done.stdout + done.stderr).split()) + " "
    assert expected in said and ".." not in said, said
