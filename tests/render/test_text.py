"""What terminals show: the exact text beside golden files, and what holds of every result at every width."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from tests.findings.rows_over_facts import FIRES
from tests.fleet import making
from tests.healthy import MATRIX, healthy, known, spoil
from tests.render.pages import Page as Browser
from tests.render.results import (
    BROKEN,
    MACHINES,
    NOW,
    TEXTS,
    compared,
    comparisons,
    explained,
    fleets,
    plans,
    report,
    smokes,
)
from tests.render.showing import GOLDEN, as_format, check_goldens, printed
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.pages import Check, Page, Remedy, Sign, Source, all_ids, headline_of, page_of
from tfgpu_doctor.fleet.picture import judge_fleet
from tfgpu_doctor.fleet.reading import Gathered
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render import outline
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.outlines.fleet import folded
from tfgpu_doctor.render.outlines.report import layers_of
from tfgpu_doctor.render.text import hanging
from tfgpu_doctor.render.text import render as as_text

PACKAGE = Path(__file__).parents[2] / "tfgpu_doctor"
PAGES = ("cuda.missing", "driver.stub-loaded", "env.allow-growth")
PLANS_IN_FULL = (
    *("a-gaming-card-and-a-good-driver", "an-old-driver-on-a-cluster", "a-python-that-is-too-new", "a-fermi-card"),
)
WIDTHS = (40, 80)


def finding_page(page: Page | None, columns: int = 80) -> str:
    assert page is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        stream = io.StringIO()
        as_text(outline.finding_page(page), console_for(stream))
    return stream.getvalue()


def goldens() -> Iterator[tuple[str, str]]:
    """The name of each golden file of a text, and the text of now."""
    yield from ((f"{name}.txt", printed("report", report(facts))) for name, facts in MACHINES.items())
    for detail in ("full", "least"):
        for name in ("unknown", "plain-pip"):
            yield f"{name}-{detail}.txt", printed("report", report(MACHINES[name]), detail=detail)
    for name, text in TEXTS.items():
        for detail in ("normal", "least"):
            yield f"{name}-{detail}.txt", printed("report", explained(text), detail=detail)
    yield from ((f"compare/{name}.txt", printed("report comparison", one)) for name, one in comparisons().items())
    yield from ((f"plan/{name}.txt", printed("plan", one)) for name, one in plans().items())
    yield from ((f"plan/{name}-in-full.txt", printed("plan", plans()[name], detail="full")) for name in PLANS_IN_FULL)
    for columns in (60, 80):
        yield from ((f"fleet/{name}-{columns}.txt", printed("fleet", one, columns)) for name, one in fleets().items())
        yield from ((f"smoke/{name}-{columns}.txt", printed("smoke", one, columns)) for name, one in smokes().items())
    yield from ((f"page/{name}.txt", finding_page(page_of(name))) for name in PAGES)


def test_golden() -> None:
    texts = dict(goldens())
    check_goldens(texts)
    found = {file.relative_to(GOLDEN).as_posix() for file in GOLDEN.rglob("*.txt")}
    assert {name for name in found if not name.startswith(("matrix/", "github/")) and "github" not in name} == {*texts}


def test_golden_markdown() -> None:
    texts = {
        f"markdown/{name}.md": as_format("markdown", "report")(redact(report(one))) for name, one in MACHINES.items()
    }
    texts["smoke/a-bad-card.md"] = as_format("markdown", "smoke")(redact(smokes()["a-bad-card"]))
    texts["fleet/usual.md"] = as_format("markdown", "fleet")(redact(fleets()["usual"]))
    check_goldens(texts)


def test_golden_ci() -> None:
    machines = ("no-driver", "unknown", "hostile")
    texts = {f"junit/{name}.xml": as_format("junit", "report")(report(MACHINES[name])) for name in machines}
    github = as_format("github", "report")
    texts |= {f"github/{name}.txt": github(report(MACHINES[name])) for name in ("healthy", "hot", *machines)}
    texts["smoke/no-gpu.github.txt"] = as_format("github", "smoke")(smokes()["no-gpu"])
    check_goldens(texts)


# ------------------------------------------------------------------------------------------------- every kind of result


def samples() -> Iterator[tuple[str, str, Any, str]]:
    """Kind, name, result and detail of what is tried at every width."""
    for detail in ("normal", "full"):
        yield from (("report", name, report(facts), detail) for name, facts in MACHINES.items())
        yield from (("report comparison", name, one, detail) for name, one in comparisons().items())
        yield from (("smoke", name, one, detail) for name, one in smokes().items())
        yield from (("fleet", name, one, detail) for name, one in fleets().items())


def commands_of(result: Any) -> set[str]:
    """Commands that are shown, each of which is never wrapped."""
    if hasattr(result, "groups"):
        fixes = [fix for group in result.groups for fix in group.fixes]
    else:
        findings = getattr(getattr(result, "report", result), "findings", ())
        fixes = [fix for one in findings if one.root_cause for fix in getattr(one, "fixes", ())]
    return {command for fix in fixes for command in fix.commands}


# a line that begins with a unit, or ends within a command or after the arrow of a source
LINE_WITHIN = re.compile(r"^ *(?:%|°C|W|MHz|GiB|CPUs?)(?!\w)|tfgpu(?: explain| doctor| --\w+)?$|[←]$")


def test_fits_the_width_and_wraps_no_command_nor_link() -> None:
    wrong = []
    for kind, name, result, detail in samples():
        commands = commands_of(result)
        for columns in WIDTHS:
            for line in printed(kind, result, columns, detail=detail).splitlines():
                whole = line.strip() in commands or line.startswith("    see       https://")
                if (
                    (len(line) > columns and not whole)
                    or line != line.rstrip()
                    or (kind == "report" and LINE_WITHIN.search(line))
                ):
                    wrong.append((kind, name, columns, line))
                if not all(char.isprintable() for char in line):
                    wrong.append((kind, name, columns, line))
    assert wrong == []


def hung(head: str, text: str, columns: int) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        stream = io.StringIO()
        hanging(Text(head), Text(text), console_for(stream))
    return stream.getvalue().splitlines()


def test_a_link_is_never_broken_and_stands_on_a_line_of_its_own() -> None:
    link = "https://catalog.ngc.nvidia.com/orgs/nvidia/containers/tensorflow?" + "version=25.02-tf2-py3&" * 2
    shown = ["   note   the image is described at", f"          {link}", "          with its tags"]
    assert hung("   note   ", f"the image is described at {link} with its tags", 80) == shown


def test_first_screens_are_short() -> None:
    for name, facts in MACHINES.items():
        assert len(printed("report", report(facts)).splitlines()) <= 28, name
    assert len(printed("report", report(healthy())).splitlines()) <= 24
    for name, plan in plans().items():
        page = printed("plan", plan)
        rows = sum(max(1, -(-len(line) // 80)) for line in page.splitlines())  # a terminal wraps long commands
        # releases before the extra and-cuda have commands that alone fill half of a screen
        assert rows <= (34 if "nvidia-cublas-cu11 " in page else 25), name


def test_markup_in_the_page_of_a_finding_is_text() -> None:
    """That of results is tried in test_formats.py."""
    evil = "[bold]\x1b[31mevil\x1b[0m <script>\u202e"
    page = Page(
        id="cuda.missing",
        what=evil,
        recognise=(Sign(line=evil, means=evil), Sign(means=evil)),
        checks=(Check(text=evil, commands=(evil,), tells_from=(evil,)),),
        fixes=(Remedy(platform="Linux", text=evil, example=(evil,), commands=(evil,)),),
        sources=(Source(title=evil, url=evil),),
    )
    text = finding_page(page)
    assert all(char.isprintable() or char == "\n" for char in text) and text.count("[bold]") == 12


def letters_of_messages() -> dict[str, str]:
    """The letters beyond ASCII in what the package prints, with a file; what it only reads or escapes is left out."""
    left_out = (
        *("parsers/", "manifests/", "redact/", "matrix/", "facts/printable", "install/asking"),
        *("probes/manifest_files", "render/text", "render/html/", "render/markdown", "render/ci", "render/console"),
        *("render/streams", "probes/process"),
    )
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        if not any(part in name for part in left_out):
            nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
            docstrings = {id(one.value) for one in nodes if isinstance(one, ast.Expr)}
            constants = [one.value for one in nodes if isinstance(one, ast.Constant) and id(one) not in docstrings]
            texts = [one for one in constants if isinstance(one, str)]
            found.update({letter: name for text in texts for letter in text if not letter.isascii()})
    pages = (path.read_text(encoding="utf-8") for path in PACKAGE.glob("findings/pages/*.yaml"))
    return found | {letter: "a page" for text in pages for letter in text if not letter.isascii()}


def test_every_letter_and_every_mark_has_one_in_ascii() -> None:
    """In a terminal without Unicode, `tfgpu compare` showed "found by RUNPATH ? absent"."""
    for letter, file in letters_of_messages().items():
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="ascii")
        console_for(stream).print(Text(f"1 {letter} 2"))
        stream.flush()
        assert b"?" not in raw.getvalue() and raw.getvalue().isascii(), (letter, file)
    shown = printed("report", report(MACHINES["plain-pip"]), encoding="ascii")
    assert "x The CUDA libraries are not installed" in shown and "<-" in shown


# ---------------------------------------------------------------------------------------------------------- one kind


def test_layers() -> None:
    shown = {layer.name for layer in layers_of(report(healthy()))}
    assert [finding.id for finding in DECLARATIONS.values() if finding.layer not in shown] == []
    # `tfgpu explain` showed a tick on every layer, and later a cross on layers that the text did not name
    told = explained(b"INTERNAL: NCCL operation ncclCommInitRank(&comm) failed: internal error")
    assert "nccl.error" in {finding.id for finding in told.findings}
    assert {layer.mark for layer in layers_of(told)} == {"unknown"}


def test_people_see_the_difference_that_check_makes() -> None:
    shown, page = printed("check", BROKEN), as_format("markdown", "check")(BROKEN)
    assert "tfgpu check --fix would change\n--- requirements.txt\n+++ requirements.txt\n" in shown
    assert "-old\n+new\n" in shown
    assert "Not changed by --fix: Dockerfile:1: a variable" in shown
    assert "```diff\n--- requirements.txt" in page and "| requirements.txt | numpy; tensorflow-gpu |" in page


def test_changes_of_a_comparison_that_are_many_are_counted() -> None:
    many = compared({}, {"variables": known({f"NCCL_{number:02}": "1" for number in range(30)})})
    assert "and 20 more, which -v lists" in printed("report comparison", many)
    assert "NCCL_29" in printed("report comparison", many, detail="full")


def test_smoke_says_a_reason_once_and_more_shows_every_check() -> None:
    for name, smoke in smokes().items():
        normal, full = (printed("smoke", smoke, 500, detail=detail) for detail in ("normal", "full"))
        skipped = [check for check in smoke.checks if check.status == "not run"]
        assert all(normal.count(why) == 1 for why in {check.why for check in skipped if check.why}), name
        assert full.count("not run: ") == len(skipped), name
        fails = any(check.name == "doctor" and check.status == "failed" for check in smoke.checks)
        assert ("expected  " in full or "why  " in full) == fails, name


def test_pages_of_findings_show_all_and_wrap_no_command_nor_link() -> None:
    wrong: list[Any] = []
    for finding in all_ids():
        page = page_of(finding)
        assert page is not None
        whole = {command for part in (*page.checks, *page.fixes) for command in part.commands}
        whole |= {line.strip() for remedy in page.fixes for line in remedy.example}
        whole |= {source.url for source in page.sources} | set(headline_of(finding).docs)
        for columns in WIDTHS:
            rows = finding_page(page, columns).splitlines()
            long = [row for row in rows if len(row) > columns and row.strip() not in whole and " https://" not in row]
            wrong += [(finding, row) for row in (*long, *(row for row in rows if row != row.rstrip()))]
            wrong += [(finding, row) for row in whole - {row.strip() for row in rows}]
        text = " ".join(" ".join(rows).split())
        parts = [page.what, *(sign.means for sign in page.recognise), *(remedy.text for remedy in page.fixes)]
        parts += [sign.line for sign in page.recognise if sign.line]
        parts += [one for check in page.checks for one in (check.text, *check.tells_from)]
        wrong += [(finding, part) for part in parts if " ".join(part.split()) not in text]
    assert wrong == []


# ------------------------------------------------------------------------------------------------------------- fleets


def test_less_of_a_fleet_is_part_of_more() -> None:
    for fleet in fleets().values():
        normal, full = (printed("fleet", fleet, 1000, detail=detail) for detail in ("normal", "full"))
        for group in fleet.groups:
            assert group.title in normal and group.title in full
            # every node of a group, and every command
            assert folded(member.node for member in group.nodes) in full
            assert all(command in full for fix in group.fixes for command in fix.commands)
    # a reason that many groups share is said once
    assert printed("fleet", fleets()["many-problems"], 1000).count("nodes of one kind should be alike") == 1


def test_pages_of_fleets_name_every_group_and_hide_every_host() -> None:
    forms = [as_format(name, "fleet") for name in ("markdown", "html", "junit", "prometheus")]
    markdown, html = forms[0](fleets()["many-problems"]), Browser(forms[1](fleets()["many-problems"])).text
    assert all(group.title in html for group in fleets()["many-problems"].groups)
    assert "it is cut off" in html and "it is cut off" in markdown
    found = fleets()["usual"]
    hidden = redact(found)
    assert not any(re.search(r"gpu-000\d\d", show(hidden)) for show in forms)
    assert len({node.name for node in hidden.nodes}) == len(found.nodes) and redact(hidden) == hidden
    for before, after in zip(found.groups, hidden.groups, strict=True):
        assert len({member.node for member in after.nodes}) == len(before.nodes)


def test_versions_of_four_numbers_in_a_fleet_are_no_addresses() -> None:
    kind, odd = making.TYPES[0], next(one for one in making.ODDITIES if one.name == "cuDNN")
    chance = making.Random(1)
    rows = (making._node(chance, f"n{number}", kind, odd if number == 3 else None, False) for number in range(20))
    gathered = Gathered()
    gathered.take([line.encode() for row in rows for line in row], "fleet.jsonl")
    hidden = redact(judge_fleet(gathered, MATRIX, NOW))
    text = "".join(as_format(name, "fleet")(hidden) for name in ("markdown", "html", "junit"))
    assert "9.5.0.50" in text and "9.10.2.21" in text and "<address" not in text and "&lt;address" not in text


def test_names_of_hosts_are_folded() -> None:
    shown = {
        "gpu-[1-3,7]": ["gpu-1", "gpu-2", "gpu-3", "gpu-7"],
        "gpu-[001-002,010]": ["gpu-001", "gpu-002", "gpu-010"],
        "gpu-9, gpu-[10-11]": ["gpu-9", "gpu-10", "gpu-11"],
        "gpu-[099-100]": ["gpu-099", "gpu-100"],
        "gpu-[0-1]": ["gpu-0", "gpu-1"],
        "gpu-[09-10], gpu-100": ["gpu-09", "gpu-10", "gpu-100"],
        "node[1-2].a.example, node2.b.example": ["node1.a.example", "node2.a.example", "node2.b.example"],
        "login, head": ["login", "head"],
        "<host-[1-2]>": ["<host-1>", "<host-2>"],
        "10.0.0.[1-2]": ["10.0.0.1", "10.0.0.2"],
        "": [],
    }
    assert {folded(names): names for names in shown.values()} == shown
    names = [f"n{number}" for number in (1, 2, 5, 7, 8, 9)]
    assert folded(names, 2) == "n[1-2,5] and 3 more"  # cut at whole ranges
    # no line breaks within a number: what is copied out of a terminal names the nodes that it names
    odd = [f"gpu-{number:05}" for number in range(0, 120, 2)]
    parts = folded(odd).split(", ")
    assert len(parts) > 5 and max(map(len, parts)) <= 46
    assert [f"gpu-{number}" for one in parts for number in re.findall(r"\d{5}", one)] == odd


def test_every_finding_is_named_in_a_report_of_it() -> None:
    """In text, as markdown and as a page, with every command of the first one."""
    forms = {name: as_format(name, "report") for name in ("markdown", "html")}
    wrong = []
    for finding, rows in FIRES.items():
        one = report(spoil(healthy(), rows[0][1]))
        text = printed("report", one, 1000, detail="full")
        shown = {"text": text, **{name: show(one) for name, show in forms.items()}}
        roots = [item for item in one.findings if item.root_cause and not item.possible]
        wrong += [(finding, form, item.id) for item in roots for form, page in shown.items() if item.id not in page]
        commands = [command for fix in one.findings[0].fixes for command in fix.commands]
        wrong += [(finding, command) for command in commands if command not in text]
        wrong += [(finding, command) for command in commands if f"\n{command}\n" not in shown["markdown"]]
    assert wrong == []
