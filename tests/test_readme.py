"""What the README promises holds: its commands are the ones that CI runs, its tables name what exists."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from tests.cli.runner import tfgpu
from tfgpu_doctor.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").is_file() else ""


FOLDERS = (ROOT, ROOT / "tfgpu_doctor")  # which paths are relative to


def missing_paths(text: str) -> list[str]:
    """What looks like a path within backquotes, and is none; * and NAME stand for any name."""
    words = [word for quoted in re.findall(r"`([^`\n]+)`", text) for word in quoted.split()]
    paths = [word for word in words if re.fullmatch(r"[\w*.-]+(/[\w*.-]*)+|[\w*.-]+\.(py|ya?ml|md|toml)", word)]
    return [one for one in paths if not any(any(folder.glob(one.replace("NAME", "*"))) for folder in FOLDERS)]


def test_paths_that_are_named_exist() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).is_file() else ""
        assert missing_paths(text) == [], name
    assert missing_paths("`cli/bench/NAME.py` `tests/` `plan/records.py` `python a/b.py`, `c.py` `d.txt`") == [
        "a/b.py",
        "c.py",
    ]


def commands() -> list[str]:
    """The two set-up commands, one line each."""
    return [line.strip() for line in README.splitlines() if line.startswith("    (python3 -m venv")]


def test_two_set_up_commands() -> None:
    assert len(commands()) == 2
    assert commands()[0].endswith(".venv/bin/tfgpu doctor")
    assert commands()[1].endswith(".venv/bin/pytest")


def test_ci_runs_exactly_the_test_command() -> None:
    script = ROOT / ".ci" / "run"
    if not script.is_file():
        pytest.skip("no .ci in this copy of the sources")
    assert commands()[1] in script.read_text(encoding="utf-8").splitlines()


def test_every_night_runs_the_test_command_with_everything() -> None:
    workflow = ROOT / ".github" / "workflows" / "nightly.yml"
    if not workflow.is_file():
        pytest.skip("no .github in this copy of the sources")
    steps = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]["full"]["steps"]
    assert steps[-1]["run"] == commands()[1] + ' -m ""'


def test_every_command_stands_in_the_table() -> None:
    for name in COMMANDS:
        assert re.search(rf"^\| `tfgpu {name}", README, re.MULTILINE), name


def test_every_exit_code_stands_in_the_table() -> None:
    for code in ("0", "1", "2", "3", "130", "129, 143", "141"):
        assert re.search(rf"^\| {code} \|", README, re.MULTILINE), code


def shown(head: str, after: str) -> list[str]:
    """The indented lines of the README between a command and the next one, or the next text."""
    lines = README.partition(f"    $ {head}\n")[2].partition(after)[0].splitlines()
    return [line[4:] for line in lines]


def test_the_pasted_log_is_explained_as_shown(tmp_path: Path) -> None:
    issue = tmp_path / "issue.txt"
    issue.write_text("\n".join(shown("cat issue.txt", "    $ tfgpu explain")), encoding="utf-8")
    done = tfgpu("explain", str(issue))
    wanted = shown("tfgpu explain issue.txt", "\n`tfgpu explain")
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert done.returncode == 1
    if os.environ.get("TFGPU_UPDATE_GOLDEN"):
        old, new = ("".join(f"    {line}".rstrip() + "\n" for line in lines) for lines in (wanted, printed))
        (ROOT / "README.md").write_text(README.replace(old, new), encoding="utf-8")
        return
    assert printed[1:] == [line.rstrip() for line in wanted][1:]


def generations() -> list[list[str]]:
    """The rows of the table "Which TensorFlow for my GPU?"."""
    table = README.partition("## Which TensorFlow for my GPU?")[2].partition("\n\n`tfgpu plan`")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if re.match(r"\| [A-Z]", line)]
    return [[cell.strip() for cell in row] for row in rows]


@pytest.mark.parametrize("row", generations(), ids=lambda row: row[0].split(",")[0])
def test_the_table_of_generations_is_what_plan_says(row: list[str]) -> None:
    from tests.healthy import MATRIX
    from tfgpu_doctor.plan.ranking import make_plan
    from tfgpu_doctor.plan.target import describe

    cards, version = row[0].removesuffix(" and other Fermi").split(", "), row[2]
    for card in cards:
        options = make_plan(MATRIX, describe(MATRIX, gpu=(card,))).options
        if version == "none ever":
            assert options == ()
            continue
        gpu = MATRIX.gpu(card)
        assert gpu is not None
        best, (first, _, last) = options[0], row[4].partition(" to ")
        assert (best.tensorflow, best.kind == "conda-forge") == (version, row[3].startswith("conda-forge")), card
        assert best.min_driver == first.removesuffix(" and newer"), card
        assert (gpu.last_driver_branch or "") == last, card
        assert ("nvidia-cudnn-cu12<9.11" in str(best.commands)) == ("nvidia-cudnn-cu12<9.11" in row[3]), card


def test_the_table_of_generations_is_there() -> None:
    assert len(generations()) == 7
