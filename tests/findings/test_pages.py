"""The pages of the findings: complete, well-formed, and none that leads nowhere."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest

import tfgpu_doctor.diagnosis.engine
from tests.healthy import MATRIX
from tfgpu_doctor.cli import cli
from tfgpu_doctor.findings.declaration import RULES
from tfgpu_doctor.findings.pages import LAYERS, all_ids, nearest, page_of, pages_of
from tfgpu_doctor.findings.pages.headline import PageDocument, headline_of, page_json
from tfgpu_doctor.findings.pages.reading import PageError, read_pages
from tfgpu_doctor.findings.pages.records import Check, Page, Remedy, Sign, Source
from tfgpu_doctor.records.report import Severity

FOLDER = Path(tfgpu_doctor.__file__).parent / "findings" / "pages"
WIDEST = 120  # characters of a line of prose in the files
LONGEST = 800  # characters of what a finding is: two to four sentences, here and there five
# hosts that a command may name; no index of packages is among them
HOSTS = {"docker.io", "nvcr.io", "download1.rpmfusion.org", "nvidia.com"}  # the last names a resource: nvidia.com/gpu
ADDRESS = re.compile(r"https?://([^/\s'\"]+)|(?<![\w.-])((?:[a-z0-9-]+\.)+(?:org|com|io|dev))/")
INDEX_OPTIONS = re.compile(r"--(?:extra-)?index-url|\s-i\s+http|--find-links")

MINIMAL = """\
# a comment
@ cuda.missing
It is not there.
It goes on here.
> what a program prints
= Since 2.12.
It goes on, too.
= Never on Sundays.
? Look.
  $ ls '#@> it'
  -> cuda.lib-path gpu.none
  -> gpu.hidden
* Linux: Do: this.
  | a:
  |   b: 1
  $ one
  $ two
* Windows: Do that.
& A title | with a bar | https://example.com/a
"""


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    assert sorted(all_ids()) == sorted({rule.id for rule in RULES})
    assert len(set(all_ids())) == len(all_ids())


@pytest.mark.parametrize("layer", LAYERS)
def test_each_file_holds_the_pages_that_are_promised_in_their_order(layer: str) -> None:
    assert tuple(page.id for page in pages_of(layer)) == LAYERS[layer][1]


def test_no_file_is_forgotten() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == sorted(LAYERS)


@pytest.mark.parametrize("finding_id", all_ids())
def test_page(finding_id: str) -> None:
    page = page_of(finding_id)
    assert page is not None
    assert 60 < len(page.what) <= LONGEST
    assert page.recognise and page.checks and page.fixes and page.sources
    for check in page.checks:
        strangers = set(check.tells_from) - set(all_ids())
        assert not strangers, "look-alikes that have no page"
        assert finding_id not in check.tells_from
    assert any(check.tells_from for check in page.checks), "what looks like it?"
    assert all(check.commands or check.text.endswith((".", ":")) for check in page.checks)
    assert len({source.url for source in page.sources}) == len(page.sources)
    assert all(re.fullmatch(r"https://[\w.-]+/\S*|https://[\w.-]+", source.url) for source in page.sources)


@pytest.mark.parametrize("finding_id", all_ids())
def test_remedies_of_a_platform_stand_together(finding_id: str) -> None:
    page = page_of(finding_id)
    assert page is not None
    runs = [platform for platform, _ in itertools.groupby(remedy.platform for remedy in page.fixes)]
    assert len(runs) == len(set(runs)), runs


def commands_of(page: Page) -> list[str]:
    return [command for part in (*page.checks, *page.fixes) for command in part.commands]


@pytest.mark.parametrize("finding_id", all_ids())
def test_commands(finding_id: str) -> None:
    page = page_of(finding_id)
    assert page is not None
    for command in commands_of(page):
        assert command.strip() == command != ""
        assert not INDEX_OPTIONS.search(command)
        assert {a or b for a, b in ADDRESS.findall(command)} <= HOSTS, command
        assert command.count("'") % 2 == 0 or '"' in command, "a quote that is not closed"
        assert command.count("(") == command.count(")"), command


@pytest.mark.parametrize("finding_id", all_ids())
def test_shell_commands_parse(finding_id: str) -> None:
    """bash -n reads what is meant for a shell of Linux without running it."""
    page = page_of(finding_id)
    assert page is not None
    windows = {command for one in page.fixes if one.platform == "Windows" for command in one.commands}
    lines = [command for command in commands_of(page) if command not in windows]
    done = subprocess.run(["bash", "-n"], input="\n".join(lines), capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("finding_id", all_ids())
def test_commands_of_ours_exist(finding_id: str) -> None:
    """With the options that they are given."""
    page = page_of(finding_id)
    assert page is not None
    for command in commands_of(page):
        for part in re.split(r"[|;]|&&", command):
            name, *words = part.split() or [""]
            if name != "tfgpu":
                continue
            ours: click.Command | None = cli
            while isinstance(ours, click.Group):
                ours = ours.get_command(click.Context(ours), words.pop(0))
            assert ours is not None, command
            known = {option for parameter in ours.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= known, command


@pytest.mark.parametrize("finding_id", all_ids())
def test_releases_that_pages_advise_are_sound(finding_id: str) -> None:
    """A fresh installation of each works with the CUDA libraries of its extra, on a Python that it has wheels for."""
    page = page_of(finding_id)
    assert page is not None
    for command in commands_of(page):
        assert "[and-cuda]'" not in command, "the newest release may be a broken one: name a release"
        for version in re.findall(r"tensorflow\[and-cuda\]==([\d.]+)", command):
            row = MATRIX.tensorflow(version, "linux_x86_64")
            assert row is not None and row.extra
            python = "3.10" if "3.10" in row.python else row.python[-1]
            issues = MATRIX.issues_for(row, python=python, extra=True)
            assert [issue.id for issue in issues if issue.severity == "error"] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_lines_of_the_files_are_not_too_long(layer: str) -> None:
    lines = (FOLDER / f"{layer}.txt").read_text(encoding="utf-8").splitlines()
    prose = [line for line in lines if not line.startswith(("  $ ", "> ", "& "))]
    assert [line for line in prose if len(line) > WIDEST] == []
    assert [line for line in lines if line != line.rstrip()] == []


# --------------------------------------------------------------------------------------------------- lookup


def test_unknown_id_has_no_page() -> None:
    assert page_of("cuda.mising") is None
    assert page_of("") is None


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("cuda.mising", "cuda.missing"),
        ("cuda/missing", "cuda.missing"),
        ("CUDA.MISSING", "cuda.missing"),
        ("tf.import_avx", "tf.import-avx"),
        ("driver.mismatch", "driver.version-mismatch"),
        ("wrong-result", "compute.wrong-result"),
        ("xla", "xla.libdevice-missing"),
        ("env.", "env.ld-library-path"),
    ],
)
def test_nearest(asked: str, meant: str) -> None:
    assert nearest(asked)[0] == meant


def test_nearest_lists_a_layer_and_is_silent_about_strangers() -> None:
    assert set(nearest("cudnn")) == {one for one in all_ids() if one.startswith("cudnn.")}
    assert nearest("train.py") == ()
    assert nearest("") == ()


def test_one_page_reads_one_file() -> None:
    """In a fresh process, for other tests have read all of them."""
    code = (
        "import sys, tfgpu_doctor.findings.pages as pages; pages.all_ids(); pages.nearest('cuda'); "
        "assert pages.pages_of.cache_info().currsize == 0; "
        "pages.page_of('cuda.missing'); assert pages.pages_of.cache_info().currsize == 1; "
        "assert 'tfgpu_doctor.findings.declaration' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# ------------------------------------------------------------------------------------------------- headline


def test_headline_is_what_the_rules_declare() -> None:
    for finding_id in all_ids():
        headline = headline_of(finding_id)
        mine = [rule for rule in RULES if rule.id == finding_id]
        assert headline.severities and headline.titles and headline.docs
        assert set(headline.severities) <= {rule.severity for rule in mine}
        assert set(headline.titles) <= {rule.title for rule in mine}
        assert set(headline.docs) <= {rule.docs for rule in mine}
    with pytest.raises(KeyError):
        headline_of("no.such")


def test_rules_over_facts_name_a_finding_first() -> None:
    """Whatever the order in which the rules are imported; and what only repeats or suspects it does not count."""
    headline = headline_of("gpu.hidden")
    assert headline.titles == ("An environment variable hides the GPU", "The GPU is hidden from TensorFlow")
    assert headline_of("cuda.missing").severities == (Severity.ERROR,)


def test_gravest_severity_comes_first() -> None:
    assert headline_of("shm.small").severities == (Severity.ERROR, Severity.WARNING)


def test_json_and_back_is_the_identity() -> None:
    for finding_id in all_ids():
        page = page_of(finding_id)
        assert page is not None
        data = page_json(page)
        assert msgspec.json.decode(data, type=PageDocument).page == page
        assert data.endswith(b"}\n")


# -------------------------------------------------------------------------------------------------- reading


def test_form() -> None:
    assert read_pages(MINIMAL, "x") == (
        Page(
            id="cuda.missing",
            what="It is not there. It goes on here.",
            recognise=(
                Sign(line="what a program prints", means="Since 2.12. It goes on, too."),
                Sign(means="Never on Sundays."),
            ),
            checks=(
                Check(text="Look.", commands=("ls '#@> it'",), tells_from=("cuda.lib-path", "gpu.none", "gpu.hidden")),
            ),
            fixes=(
                Remedy(platform="Linux", text="Do: this.", example=("a:", "  b: 1"), commands=("one", "two")),
                Remedy(platform="Windows", text="Do that."),
            ),
            sources=(Source(title="A title | with a bar", url="https://example.com/a"),),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@ cuda.missing", "cuda.missing", "x:2: this line stands before the first page"),
        ("* Linux: Do: this.", "* Do this.", "x:13: .* begins with its platform"),
        ("* Linux: Do", "* BeOS: Do", "Invalid enum value 'BeOS'"),
        ("https://example.com/a", "example.com", "x:19: .* a source is"),
        ("= Since 2.12.\nIt goes on, too.\n", "  $ ls\n", "x:6: .* belongs to no check or way out"),
        ("  $ one\n", "  -> gpu.none\n", "x:16: .* belongs to no check or way out"),
        ("  $ two\n", "  $ two\nand more\n", "x:18: .* goes on nothing"),
        ("It is not there.\nIt goes on here.\n", "", "cuda.missing lacks what"),
        ("& A title | with a bar | https://example.com/a\n", "", "cuda.missing lacks sources"),
    ],
)
def test_what_is_written_wrongly_names_its_line(old: str, new: str, message: str) -> None:
    assert old in MINIMAL
    with pytest.raises(PageError, match=message):
        read_pages(MINIMAL.replace(old, new), "x")
