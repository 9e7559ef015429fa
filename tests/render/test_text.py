"""What terminals show: the exact text beside golden files, and what holds of every result at every width."""

from __future__ import annotations

import ast
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.text import Text

from tests.cli.runner import tfgpu
from tests.facts.test_report import report as doctor_report
from tests.findings.rows_over_facts import FIRES
from tests.healthy import MATRIX, healthy, known, soname, spoil
from tests.matrix.test_queries import OURS, SMALL
from tests.render.pages import Page as Browser
from tests.render.results import (
    BROKEN,
    MACHINES,
    TEXTS,
    comparisons,
    every_report,
    explained,
    fleets,
    plans,
    report,
    smokes,
)
from tests.render.showing import GOLDEN, as_format, check_goldens, printed
from tests.tables import read_rows
from tfgpu_doctor.facts import facts as fact
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.pages import Page, all_ids, headline_of, page_of
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.redact.redaction import redact
from tfgpu_doctor.render import outline
from tfgpu_doctor.render.console import console_for
from tfgpu_doctor.render.outlines.fleet import folded
from tfgpu_doctor.render.outlines.report import layers_of
from tfgpu_doctor.render.text import hanging
from tfgpu_doctor.render.text import render as as_text

PACKAGE = Path(__file__).parents[2] / "tfgpu_doctor"
PAGES = ("cuda.missing", "driver.stub-loaded", "env.allow-growth")
PLANS_IN_FULL = ("an-old-driver-on-a-cluster", "a-python-that-is-too-new", "a-fermi-card")
WIDTHS = (40, 80)
ANSWERS: dict[str, str] = read_rows(Path(__file__).parent / "matrix_pages.yaml")


def finding_page(page: Page | None, columns: int = 80) -> str:
    assert page is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        stream = io.StringIO()
        as_text(outline.finding_page(page), console_for(stream))
    return stream.getvalue()


def answer(words: str, columns: int = 80, ours: bool = False) -> str:
    """Answer from a small matrix, so that it stays as it is when ours grows; `find KEY` shows ours."""
    with pytest.MonkeyPatch.context() as patch:
        matrix = OURS if ours or (words.startswith("find ") and words != "find -v") else SMALL
        patch.setattr("tfgpu_doctor.commands.load_matrix", lambda _: matrix)
        done = tfgpu("matrix", *words.split(), environ={"COLUMNS": str(columns)})
    assert (done.returncode, "Error" in done.stderr) == (0, False), done.stderr
    return done.stdout


def goldens() -> Iterator[tuple[str, str]]:
    """The name of each golden file, and the text of now."""
    yield from ((f"{name}.txt", printed("report", report(facts))) for name, facts in MACHINES.items())
    for detail in ("full", "least"):
        for name in ("unknown", "plain-pip", "h100"):
            yield f"{name}-{detail}.txt", printed("report", report(MACHINES[name]), detail=detail)
    for name, text in TEXTS.items():
        for detail in ("normal", "least"):
            yield f"{name}-{detail}.txt", printed("report", explained(text), detail=detail)
    yield from ((f"compare/{name}.txt", printed("report comparison", one)) for name, one in comparisons().items())
    yield from ((f"plan/{name}.txt", printed("plan", one)) for name, one in plans().items())
    for columns in (60, 80):
        yield from ((f"fleet/{name}-{columns}.txt", printed("fleet", one, columns)) for name, one in fleets().items())
        yield from ((f"smoke/{name}-{columns}.txt", printed("smoke", one, columns)) for name, one in smokes().items())
    yield from ((f"plan/{name}-in-full.txt", printed("plan", plans()[name], detail="full")) for name in PLANS_IN_FULL)
    yield "compare/many-in-full.txt", printed("report comparison", comparisons()["many"], detail="full")
    yield from ((f"smoke/{name}-in-full.txt", printed("smoke", one, detail="full")) for name, one in smokes().items())
    yield "check/broken.txt", printed("check", BROKEN)
    yield from ((f"page/{name}.txt", finding_page(page_of(name))) for name in PAGES)
    for name, facts in MACHINES.items():
        yield f"markdown/{name}.md", as_format("markdown", "report")(redact(report(facts)))
    yield "smoke/a-bad-card.md", as_format("markdown", "smoke")(redact(smokes()["a-bad-card"]))
    yield "fleet/usual.md", as_format("markdown", "fleet")(redact(fleets()["usual"]))
    yield "check/broken.md", as_format("markdown", "check")(BROKEN)
    yield "smoke/no-gpu.github.txt", as_format("github", "smoke")(smokes()["no-gpu"])
    for name in ("no-driver", "unknown", "hostile"):
        yield f"junit/{name}.xml", as_format("junit", "report")(report(MACHINES[name]))
    for name in ("healthy", "hot", "no-driver", "unknown", "hostile"):
        yield f"github/{name}.txt", as_format("github", "report")(report(MACHINES[name]))
    yield from ((f"matrix/{name}.txt", answer(words)) for name, words in ANSWERS.items())


def test_golden() -> None:
    texts = dict(goldens())
    check_goldens(texts)
    assert {file.relative_to(GOLDEN).as_posix() for file in GOLDEN.rglob("*.*")} == {*texts}


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
    every = {
        "report": {name: report(facts) for name, facts in MACHINES.items()},
        "report comparison": comparisons(),
        "smoke": smokes(),
        "fleet": fleets(),
    }
    rows = [(kind, name, one) for kind, named in every.items() for name, one in named.items()]
    wrong = []
    for (kind, name, result), detail, columns in itertools.product(rows, ("normal", "full"), WIDTHS):
        commands = commands_of(result)
        for line in printed(kind, result, columns, detail=detail).splitlines():
            whole = line.strip() in commands or line.startswith("    see       https://")
            fits = whole or len(line) <= columns
            within = kind == "report" and LINE_WITHIN.search(line)
            if not fits or within or line != line.rstrip() or not all(char.isprintable() for char in line):
                wrong.append((kind, name, columns, line))
    assert wrong == []


def test_a_link_is_never_broken_and_stands_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    link, stream = (
        "https://catalog.ngc.nvidia.com/orgs/nvidia/tensorflow?" + "version=25.02-tf2-py3&" * 2,
        io.StringIO(),
    )
    text = Text(f"the image is described at {link} with its tags")
    hanging(Text("   note   "), text, console_for(stream))
    shown = ["   note   the image is described at", f"          {link}", "          with its tags"]
    assert stream.getvalue().splitlines() == shown


def test_first_screens_are_short() -> None:
    for name, facts in MACHINES.items():
        most = {"healthy": 24, "h100": 32}.get(name, 28)  # both fixes of a real machine, whose paths are long
        assert len(printed("report", report(facts)).splitlines()) <= most, name
    for name, plan in plans().items():
        page = printed("plan", plan)
        rows = sum(max(1, -(-len(line) // 80)) for line in page.splitlines())  # a terminal wraps long commands
        # releases before the extra and-cuda have commands that alone fill half of a screen
        assert rows <= (34 if "nvidia-cublas-cu11 " in page else 25), name


def letters_of_messages() -> dict[str, str]:
    """The letters beyond ASCII in what the package prints, with a file; what it only reads or escapes is left out."""
    left_out = re.compile(
        "(parsers|manifests|redact|matrix)/|facts/printable|install/asking|probes/(manifest_files|process)"
        "|render/(text|html/|markdown|ci|console|streams)"
    )
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        if not left_out.match(name):
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


def test_layers() -> None:
    shown = {layer.name for layer in layers_of(report(healthy()))}
    assert [finding.id for finding in DECLARATIONS.values() if finding.layer not in shown] == []
    # `tfgpu explain` showed a tick on every layer, and later a cross on layers that the text did not name
    told = explained(b"INTERNAL: NCCL operation ncclCommInitRank(&comm) failed: internal error")
    assert "nccl.error" in {finding.id for finding in told.findings}
    assert {layer.mark for layer in layers_of(told)} == {"unknown"}
    empty = fact.Candidate(path="/x/libcudnn.so.9", via="LD_LIBRARY_PATH", reachable=True, problem="empty file")
    files = known((fact.CudnnFile(path=empty.path, version=None, source=""),))
    refused = known((soname("libcudnn.so.9", "cudnn", candidates=(empty,), winner=None),))
    changes = {"cudnn.installed": files, "cudnn.runtime": fact.NOT_ASKED, "loader.sonames": refused}
    (layer,) = (one for one in layers_of(report(spoil(healthy(), changes))) if one.name == "cuDNN")
    assert (layer.mark, layer.text) == ("absent", "/x/libcudnn.so.9: empty file")


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


def test_less_of_a_fleet_is_part_of_more() -> None:
    for fleet in fleets().values():
        normal, full = (printed("fleet", fleet, 1000, detail=detail) for detail in ("normal", "full"))
        for group in fleet.groups:
            assert group.title in normal and group.title in full
            # every node of a group, and every command
            assert folded(member.node for member in group.nodes) in full
            assert all(command in full for fix in group.fixes for command in fix.commands)


def test_pages_of_fleets_name_every_group_and_no_host_is_lost_in_redaction() -> None:
    many = fleets()["many-problems"]
    html = Browser(as_format("html", "fleet")(many)).text
    assert all(group.title in html for group in many.groups)
    assert "it is cut off" in html and "it is cut off" in as_format("markdown", "fleet")(many)
    found = fleets()["usual"]
    hidden = redact(found)
    assert len({node.name for node in hidden.nodes}) == len(found.nodes) and redact(hidden) == hidden
    for before, after in zip(found.groups, hidden.groups, strict=True):
        assert len({member.node for member in after.nodes}) == len(before.nodes)


def test_names_of_hosts_are_folded() -> None:
    shown = read_rows(Path(__file__).parent / "folded_hosts.yaml")
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
    wrong: list[Any] = []
    for finding, one in every_report().items():
        shown = {name: show(one) for name, show in forms.items()}
        shown["text"] = printed("report", one, 1000, detail="full")
        roots = [item for item in one.findings if item.root_cause and not item.possible]
        wrong += [(finding, form, item.id) for item in roots for form, page in shown.items() if item.id not in page]
        commands = [command for fix in one.findings[0].fixes for command in fix.commands]
        wrong += [(finding, command) for command in commands if command not in shown["text"]]
        wrong += [(finding, command) for command in commands if f"\n{command}\n" not in shown["markdown"]]
    assert wrong == []


def test_what_tensorflow_raised_is_shown_whatever_explains_it() -> None:
    for one in (doctor_report(row[1]) for rows in FIRES.values() for row in rows):
        raised = {phase.exception for phase in one.facts.tensorflow.phases} - {None}
        whole = replace(one, findings=diagnose(one.facts, MATRIX).findings) if raised else one
        text = " ".join(printed("report", whole, 200, detail="full").split()) if raised else ""
        assert all(str(exception) in text for exception in raised), text


def test_answers_of_the_matrix_fit_the_width_and_nothing_is_cut_off() -> None:
    whole = re.compile(r"    see  | +(?:[a-z]+ +)?https://| {16}python3 -m pip")  # must survive being copied
    wrong: list[tuple[str, str]] = []
    for name, words in ANSWERS.items():
        numbers = re.findall(r"\S*\d\S*", answer(words, 300))
        for columns in (40, 120):
            text = answer(words, columns)
            lines = text.splitlines()
            wrong += [(name, line) for line in lines if len(line) > columns and not whole.match(line)]
            wrong += [(name, line) for line in lines if line != line.rstrip() or "…" in line]
            squeezed = re.sub(r"\s", "", text)  # folding breaks long names, but loses nothing of them
            wrong += [(name, word) for word in numbers if word not in squeezed]
    assert wrong == []


def test_the_lists_of_our_matrix_fit_and_the_first_screens_are_short() -> None:
    for words in ("tensorflow --driver 580 --platform all -v", "gpu -v", "cuda -v", "cudnn -v"):
        assert max(map(len, answer(words, 60, ours=True).splitlines())) <= 60, words
    few, many = (len(answer(f"tensorflow 2.15{more}", ours=True).splitlines()) for more in ("", " -v"))
    assert few < 50 < many and len(answer("gpu", ours=True).splitlines()) < 50
