"""The pages of the findings: complete, well-formed, and none that leads nowhere."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

import tfgpu_doctor.findings.engine
from tests.findings.advice import overwritten
from tests.healthy import MATRIX
from tests.tables import each
from tests.test_laws import competing
from tfgpu_doctor.cli import cli
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.pages import (
    LAYERS,
    Headline,
    Page,
    PageDocument,
    all_ids,
    headline_of,
    nearest,
    page_json,
    page_of,
    pages_of,
)
from tfgpu_doctor.plan.install_commands import conda_library_path

FOLDER = Path(tfgpu_doctor.__file__).parent / "findings" / "pages"
LONGEST = 800  # characters of what a finding is: two to four sentences, here and there five
# hosts that a command may name; no index of packages is among them
HOSTS = {"docker.io", "nvidia.github.io", "nvcr.io", "download1.rpmfusion.org"}
HOSTS |= {"nvidia.com"}  # names a resource: nvidia.com/gpu
ADDRESS = re.compile(r"https?://([^/\s'\"#]+)|(?<![\w.-])((?:[a-z0-9-]+\.)+(?:org|com|io|dev))/")
INDEX_OPTIONS = re.compile(r"--(?:extra-)?index-url|\s-i\s+http|--find-links")
PAGES = [page for layer in LAYERS for page in pages_of(layer)]
# every command, with the id of its page
COMMANDS = [(page.id, command) for page in PAGES for part in (*page.checks, *page.fixes) for command in part.commands]


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    assert sorted(all_ids()) == sorted(DECLARATIONS)
    assert sorted(path.stem for path in FOLDER.glob("*.yaml")) == sorted(LAYERS)


def flaws(page: Page) -> Iterator[str]:
    """What is missing on a page, or leads nowhere."""
    if not 60 < len(page.what) <= LONGEST:
        yield f"begins with {len(page.what)} characters"
    similar = {other for check in page.checks for other in check.tells_from}
    if not similar or not similar <= {*all_ids()} - {page.id}:
        yield f"tells itself from {similar}"
    yield from (one.text for one in page.checks if not one.commands and not one.text.endswith((".", ":")))
    runs = [platform for platform, _ in itertools.groupby(fix.platform for fix in page.fixes)]
    if len(runs) != len(set(runs)):
        yield f"fixes for a platform are apart: {runs}"
    urls = [source.url for source in page.sources]
    if len(set(urls)) != len(urls) or not all(re.fullmatch(r"https://[\w.-]+(/\S*)?", url) for url in urls):
        yield f"sources are no links, or named twice: {urls}"
    # the law of tests/test_laws.py; lines that programs print, commands and titles of sources are others' words
    own = (page.what, *(one.means for one in page.recognise), *(one.text for one in (*page.checks, *page.fixes)))
    yield from (f"has another term: {found}" for text in own for found in competing(text))


def test_pages_are_complete() -> None:
    assert [(page.id, flaw) for page in PAGES for flaw in flaws(page)] == []


def is_wrong(command: str) -> bool:
    return (
        not command
        or command != command.strip()
        or bool(INDEX_OPTIONS.search(command))
        or not {a or b for a, b in ADDRESS.findall(command)} <= HOSTS
        or bool(command.count("'") % 2 and '"' not in command)  # a quote that is not closed
        or command.count("(") != command.count(")")
    )


def test_commands_are_complete_and_name_no_foreign_host() -> None:
    assert [row for row in COMMANDS if is_wrong(row[1])] == []


def test_no_search_path_is_overwritten() -> None:
    """In commands, and in files; a systemd unit has no value of before."""
    files = [(page.id, line) for page in PAGES for fix in page.fixes for line in fix.example]
    found = [(page, line) for page, line in (*COMMANDS, *files) if overwritten(line)]
    assert [line for line in found if not line[1].startswith("Environment=")] == []
    conda = conda_library_path('"$CONDA_PREFIX/etc/conda"')  # as in the commands of plans
    assert {(page, one) for page in ("cuda.lib-path", "cudnn.lib-path") for one in conda} <= {*COMMANDS}


def test_shell_commands_parse() -> None:
    """bash -n reads every command for a Linux shell, each as a function of its own, without running it."""
    windows = {command for page in PAGES for fix in page.fixes if fix.platform == "Windows" for command in fix.commands}
    lines = [f"# {page}\n{command}" for page, command in COMMANDS if command not in windows]
    done = subprocess.run(["bash", "-n"], input="\n".join(lines), capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_of_ours_exist_with_their_options() -> None:
    offenders = []
    for page, command in COMMANDS:
        for part in re.split(r"[|;]|&&", command):
            name, *words = part.split() or [""]
            if name != "tfgpu":
                continue
            ours: click.Command | None = cli
            while isinstance(ours, click.Group):
                ours = ours.get_command(click.Context(ours), words.pop(0))
            known = {option for parameter in ours.params for option in parameter.opts} if ours else set()
            if ours is None or not {word for word in words if word.startswith("--")} <= known:
                offenders.append((page, command))
    assert offenders == []


def test_releases_that_pages_advise_are_sound() -> None:
    """A fresh installation of each works with the CUDA libraries of its extra, on a Python that it has wheels for."""
    assert [row for row in COMMANDS if "[and-cuda]'" in row[1]] == [], "the newest release may be broken: name one"
    advised = {version for _, command in COMMANDS for version in re.findall(r"\[and-cuda\]==([\d.]+)", command)}
    assert advised
    for version in advised:
        row = MATRIX.tensorflow(version, "linux_x86_64")
        assert row is not None and row.extra, version
        python = "3.10" if "3.10" in row.python else row.python[-1]
        issues = MATRIX.issues_for(row, python=python, extra=True)
        assert [issue.id for issue in issues if issue.severity == "error"] == [], version


@each(
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
        ("train.py", None),
        ("", None),
    ],
)
def test_nearest(asked: str, meant: str | None) -> None:
    assert next(iter(nearest(asked)), None) == meant
    assert asked in all_ids() or page_of(asked) is None
    assert set(nearest("cudnn")) == {known for known in all_ids() if known.startswith("cudnn.")}


def test_listing_ids_imports_no_rules() -> None:
    """In a fresh process, because other tests import them: this is what a mistyped id costs."""
    code = "import sys, tfgpu_doctor.findings.pages as pages; pages.nearest('cuda'); print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)
    assert "tfgpu_doctor.findings.pages" in done.stdout.split()
    assert "tfgpu_doctor.findings.declaration" not in done.stdout.split()


def test_the_document_is_the_page_and_what_the_finding_declares() -> None:
    for page in PAGES:
        declared, document = DECLARATIONS[page.id], msgspec.json.decode(page_json(page), type=PageDocument)
        assert (document.page, document.headline, page_of(page.id)) == (page, headline_of(page.id), page)
        assert document.headline == Headline((declared.severity,), (declared.title,), (declared.docs,))
    with pytest.raises(KeyError):
        headline_of("no.such")
