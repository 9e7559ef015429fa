"""`tfgpu bench`: what is measured goes to files, nothing private is in a page; progress."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tests.bench.fake_worker import Clock, FakeWorker
from tests.healthy import healthy, known, spoil
from tests.render.pages import Page
from tfgpu_doctor.bench.requests import read_request
from tfgpu_doctor.bench.runner import process
from tfgpu_doctor.cli import cli
from tfgpu_doctor.cli.progress import Reporter

QUICK = ["bench", "matpow", "--size", "256", "--min-samples", "3", "--deadline", "1"]
PRIVATE = {
    "python.executable": known("/home/grace/secret-project/bin/python", "/home/grace/secret-project"),
    "variables": known({"HF_TOKEN": "hf_abcdefghijklmnopqrstuv", "USER": "grace"}),
}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that answer at once, on a machine whose facts hold names."""
    facts = spoil(healthy(), PRIVATE)
    monkeypatch.setattr(process, "WorkerProcess", lambda _executable: FakeWorker(Clock(), 0.1))
    monkeypatch.setattr("tfgpu_doctor.probes.examine.examine", lambda *a, **k: SimpleNamespace(facts=facts))


@pytest.mark.usefixtures("measured")
def test_several_outputs_of_which_the_page_has_nothing_private(tmp_path: Path) -> None:
    """As of every other command; the JSON is among them, and the text is printed where no format is named."""
    whole, raw, page = (tmp_path / name for name in ("r.txt", "r.json", "r.html"))
    python = ("--python", sys.executable)
    done = CliRunner().invoke(cli, [*QUICK, *python, "--html", str(page), "--output", str(raw)])
    assert (done.exit_code, done.stderr.count("tfgpu: wrote ")) == (0, 2) and "FLOP/s" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.json"]
    assert '"unfinished":true' not in raw.read_text("utf-8").replace(" ", "")
    html = page.read_text(encoding="utf-8")
    shown = Page(html).text
    assert "tfgpu bench matpow --size 256 --min-samples 3 --deadline 1" in shown and str(page) not in shown
    assert "grace" not in html and "secret-project" not in html and "hf_abc" not in html
    assert "grace" in raw.read_text(encoding="utf-8"), "the test would not see it"
    done = CliRunner().invoke(cli, [*QUICK, "--format", "text,json", "--output", str(whole), "--output", str(raw)])
    assert (done.exit_code, done.stdout) == (0, "") and "FLOP/s" in whole.read_text("utf-8")


def test_the_command_as_it_would_be_typed() -> None:
    typed = {
        "tfgpu bench cnn": {},
        "tfgpu bench cnn --dtype float32,tf32 --gpus 2": {"dtype": ("float32", "tf32"), "gpus": 2},
        "tfgpu bench cnn --deadline 0.5": {"deadline": 0.5},
        "tfgpu bench cnn --xla": {"xla": True},
        "tfgpu bench cnn --model cifar": {"model": "cifar", "batch_size": None},
    }
    for line, options in typed.items():
        assert read_request("cnn", "python", options, {}).typed == line
    request = read_request("inference", "", {"shape": ("224,224,3", "x=1")}, {"python": "/a b/python"})
    assert request.typed == "tfgpu bench inference --shape 224,224,3 --shape x=1 --python '/a b/python'"


def test_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = Reporter(clock=clock)
    for second in range(35):
        clock.now = float(second)
        if second < 25:  # then it waits
            lines("CPU float32", second / 100)
        lines.remind()
    assert capsys.readouterr().err.splitlines() == [
        "tfgpu: after 10 s: CPU float32, 10 % done",
        "tfgpu: after 20 s: CPU float32, 20 % done",
        "tfgpu: after 30 s: CPU float32, 24 % done",
    ]
