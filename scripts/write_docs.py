"""Write what the pages of docs/ have from the program: python scripts/write_docs.py

Options and exit codes of the commands, which formats they have, and the tables of docs/which-tensorflow.md stand
between two comments, `<!-- generated: … -->` and `<!-- end -->`; the rest of the pages is written by hand.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import click

from tfgpu_doctor.cli import cli
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.target import describe
from tfgpu_doctor.render.formats import FORMATS

FOLDER = Path(__file__).parent.parent / "docs"
_BLOCK = re.compile(r"^(<!-- generated: ([^\n]+) -->\n).*?^(<!-- end -->)$", re.DOTALL | re.MULTILINE)
_CHOICE = re.compile(r" \[([^]|]+\|[^]]+)\](,\.\.\.)?$")
_CODES = re.compile(r"^Exit codes: (.*)\.$", re.DOTALL)
PYTHONS = tuple(f"3.{minor}" for minor in range(6, 14))
# drivers from which an answer can be another one: those that a CUDA needs at least, and the first ones of a GPU
_BRANCHES = (367, 384, 410, 418, 440, 450, 455, 520, 525, 545, 555, 570)


def document(text: str) -> str:
    """A page with its generated blocks as they are today."""
    return _BLOCK.sub(lambda block: f"{block[1]}{_content(block[2])}\n{block[3]}", text)


def _content(name: str) -> str:
    kind, *words = name.split()
    return _KINDS[kind](words)


def options(words: list[str]) -> str:
    """Usage, arguments, options and exit codes of a command; of a group, what its commands have in common."""
    command, path = _find(words)
    return "\n".join(_of_a_group(command, path)) if isinstance(command, click.Group) else alone(words)


def alone(words: list[str]) -> str:
    """The same of a group that does something itself, without its commands."""
    command, path = _find(words)
    return "\n".join(["```text", _usage(command, path), "```", "", *_table(_rows(command)), "", *_exit_codes(command)])


def _of_a_group(group: click.Group, path: list[str]) -> Iterator[str]:
    """The options that all commands of a group with more than one option share, then those that each has alone."""
    context = click.Context(group)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    rows = {name: _rows(command) for name, command in commands.items() if command is not None}
    measuring = [name for name in rows if any("--gpus" in row[0] for row in rows[name])]
    common = [row for row in rows[measuring[0]] if all(row in rows[name] for name in measuring)]
    codes = list(_exit_codes(commands[measuring[0]]))
    yield from (*_table(common), "", *codes)
    for name, command in commands.items():
        assert command is not None
        yield from ("", f"## tfgpu {' '.join(path)} {name}", "", _help(command)[0], "")
        yield from ("```text", _usage(command, [*path, name]), "```", "")
        yield from _table([row for row in rows[name] if row not in common or name not in measuring])
        if (own := list(_exit_codes(command))) != codes:
            yield from ("", *own)


def _find(words: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = cli
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None, f"there is no command {' '.join(words)}"
        command = found
    return command, words


def _usage(command: click.Command, path: list[str]) -> str:
    pieces = command.collect_usage_pieces(click.Context(command))
    return " ".join(["tfgpu", *path, *pieces])


def _rows(command: click.Command) -> list[tuple[str, str]]:
    context = click.Context(command, max_content_width=10_000)
    records = [parameter.get_help_record(context) for parameter in command.params]
    return [record for record in records if record is not None and record[1]]


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return ["| option | |", "| --- | --- |", *(_row(name, text) for name, text in rows)]


def _row(name: str, text: str) -> str:
    """An option; what it can be stands beside what it does: the names of a choice are too long for the first column."""
    choice = _CHOICE.search(name)
    text, default, rest = _plain(re.sub(r"  +", " ", text)).partition(" [default")
    if choice:
        name = name.removesuffix(choice[0])
        values = ", ".join(f"`{value}`" for value in choice[1].split("|"))
        text += f" {'One or several' if choice[2] else 'One'} of {values}."
    return f"| {_code(name)} | {text}{default}{rest} |"


def _help(command: click.Command) -> list[str]:
    """The paragraphs of a command's help, each on one line."""
    return [" ".join(paragraph.split()) for paragraph in (command.help or "").replace("\b", "").split("\n\n")]


def _exit_codes(command: click.Command | None) -> Iterator[str]:
    """The sentence "Exit codes: 0 fine, 1 not" of a help page, as a table."""
    for paragraph in _help(command) if command else ():
        if codes := _CODES.match(paragraph):
            yield from ("| exit code | meaning |", "| --- | --- |")
            for code, meaning in re.findall(r"(\d+) (.*?)(?=, \d+ |$)", codes[1]):
                yield f"| {code} | {_plain(meaning)} |"


def _code(text: str) -> str:
    """As code in a cell of a table, which a bar would end."""
    return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_])", r"\\\1", html.escape(text, quote=False)).replace("|", "&#124;")


def formats(_words: list[str]) -> str:
    """Which command has which format."""
    has = {name: _offered(_find([name])[0]) for name in cli.list_commands(click.Context(cli))}
    has = {name: offered for name, offered in has.items() if offered}
    lines = [f"| format | {' | '.join(has)} |", "| --- |" + " --- |" * len(has)]
    for row in FORMATS:
        lines.append(f"| `{row}` | {' | '.join('✓' if row in offered else '' for offered in has.values())} |")
    return "\n".join(lines)


def _offered(command: click.Command) -> set[str]:
    """What --format of a command takes; of a group, of all its commands."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        commands = [command.get_command(context, name) for name in command.list_commands(context)]
        return {name for found in commands if found for name in _offered(found)}
    choice = next(
        (found for name, _ in _rows(command) if name[:9] == "--format " and (found := _CHOICE.search(name))), None
    )
    return set(choice[1].split("|")) if choice else set()


def generation(words: list[str]) -> str:
    """The newest TensorFlow for the GPUs of a compute capability: a row by driver, a column by Python.

    Pythons with the same answers share a column, so that a phone has room for all of them.
    """
    matrix = Matrix.load()
    found = matrix.architecture(words[0])
    assert found is not None, words
    first, last = int(found.first_driver_branch or 0), int(found.last_driver_branch or 1000)
    rows: list[tuple[int, list[str]]] = []
    for branch in sorted({one for one in (*_BRANCHES, first) if first <= one <= last} - {0}):
        answers = [_newest(matrix, words[0], str(branch), python) for python in PYTHONS]
        if not rows or rows[-1][1] != answers:
            rows.append((branch, answers))
    columns = [list(group) for _, group in groupby(range(len(PYTHONS)), lambda place: [row[1][place] for row in rows])]
    heads = [(" to " if len(one) > 2 else ", ").join(PYTHONS[i] for i in sorted({one[0], one[-1]})) for one in columns]
    lines = [f"| driver | Python {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    for number, (branch, answers) in enumerate(rows):
        if any(answers):
            until = "and newer" if last == 1000 else f"to {last}"
            until = f"to {rows[number + 1][0] - 1}" if number + 1 < len(rows) else until
            lines.append(f"| {branch} {until} | {' | '.join(answers[group[0]] or '–' for group in columns)} |")
    return "\n".join(lines)


def _newest(matrix: Matrix, capability: str, branch: str, python: str) -> str:
    """The release that `tfgpu plan` shows first of those that need neither another driver nor another Python."""
    target = describe(matrix, compute_capability=(capability,), driver=branch, python=python)
    for option in make_plan(matrix, target).options:
        if option.kind in ("as-is", "conda-forge"):
            return option.tensorflow + ("¹" if option.kind == "conda-forge" else "")
    return ""


_KINDS: dict[str, Callable[[list[str]], str]] = {
    "options": options,
    "alone": alone,
    "formats": formats,
    "generation": generation,
}


def main() -> int:
    """Write the pages."""
    for path in sorted(FOLDER.rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        if (after := document(before)) != before:
            path.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
