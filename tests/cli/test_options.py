"""One vocabulary of options: what holds for every command, so that the next one cannot differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.runner import commands, process, tfgpu
from tfgpu_doctor.bench.results import WORKLOADS
from tfgpu_doctor.cli.options import Command
from tfgpu_doctor.facts.parameters import Listed, Option, Seconds, Size

# what may be given several times and is no list: pairs with --format by position; has commas in its value
REPEATED = {"--output", "--shape"}
# options of one name that differ, and why
DIFFERENT = {
    "--python": "an interpreter whose TensorFlow is examined, or the version of one that is planned for",
    "--size": "rows of matrices, of which a list may name the first and the last; or bytes",
    "--batch-size": "one, or a list where each is measured",
    "--dtype": "one or several; workloads compute in different types",
    "--fail-on": "benches compare speed, reports severity",
    "--factor": "compare refuses infinity, too, and says what 1.05 means",
    "--platform": "the list of releases can show all",
    "--compute-capability": "of a machine several, of the table of GPUs one",
}


def options() -> Iterator[tuple[str, str, Option]]:
    """Command, name and option."""
    for path, command in commands():
        for one in command.params:
            if isinstance(one, click.Option):
                assert isinstance(one, Option), f"{path} {one.opts}: declare it by cli/options.py"
                yield path, max(one.opts, key=len), one


def test_options_of_one_name_and_of_one_type_are_alike() -> None:
    assert [path for path, found in commands() if not isinstance(found, (Command, click.Group))] == []
    seen: dict[str, tuple[type, str | None]] = {}
    for path, name, one in options():
        item = one.type.item if isinstance(one.type, Listed) else one.type
        is_list = isinstance(one.type, Listed)
        assert name in REPEATED or one.multiple == is_list, f"{path} {name}: use Listed"
        metavar = one.make_metavar(click.Context(click.Command(path)))
        assert name in REPEATED or (",..." in metavar) == is_list, f"{path} {name} {metavar}"
        assert (one.metavar == "S") == isinstance(item, Seconds), f"{path} {name}: times are Seconds"
        assert not isinstance(item, click.FloatRange) or one.metavar == "X", f"{path} {name}"
        assert not isinstance(item, click.Choice) or not item.case_sensitive, f"{path} {name}"
        kind = (type(one.type), one.metavar)
        assert name in DIFFERENT or seen.setdefault(name, kind) == kind, f"{path} {name} differs"


def test_every_text_has_more_and_a_diagnosis_less() -> None:
    assert {path for path, name, _ in options() if name == "--quiet"} == {"doctor", "explain"}
    more = {path for path, name, _ in options() if name == "--verbose"}
    benches = {f"bench {name}" for name in (*WORKLOADS, "show")}
    answers = {path for path, *_ in options() if path.startswith("matrix ")}
    assert more == {"doctor", "explain", "plan", "check", "smoke", "compare", "fleet", *benches, *answers}


# ------------------------------------------------------------------------------------------------------------ values


def test_sizes_and_times() -> None:
    sizes = {"512": 512, "4k": 4096, "1MiB": 2**20, "16 MiB": 2**24, "2GiB": 2**31, "1GB": 10**9, "auto": "auto"}
    times = {"90": 90.0, "0.5": 0.5, "90s": 90.0, "5m": 300.0, "1.5H": 5400.0}
    for kind, values in ((Size(1, 2**40, auto=True), sizes), (Seconds(), times)):
        assert {text: kind.convert(text, None, None) for text in values} == values
    no_sizes = ("", "x", "1 MiB!", "-1MiB", "1.5MiB", "1TiB", "²k", "MiB", "0", "5", "2k", "auto")
    no_times = ("", "soon", "-1", "0", "nan", "inf", "1e9", "5 days", "٣")
    wrong = [(Size(2, 2000, multiple=2), text) for text in no_sizes] + [(Seconds(), text) for text in no_times]
    for kind, text in wrong:
        with pytest.raises(click.BadParameter):
            kind.convert(text, None, None)


def test_a_list_may_be_repeated() -> None:
    option = Option(["--dtype"], type=Listed(click.Choice(["a", "b", "c"], case_sensitive=False)))
    command = click.Command("show", params=[option])
    for words, values in (("--dtype a,b", ("a", "b")), ("--dtype a --dtype B,a", ("a", "b")), ("", ())):
        assert command.make_context("show", words.split()).params["dtype"] == values
    with pytest.raises(click.BadParameter, match="empty part"):
        command.make_context("show", ["--dtype", "a,,b"])


def test_a_variable_sets_an_option_and_the_command_line_is_stronger() -> None:
    for variable, value, words, message in (
        ("TFGPU_DOCTOR_TIMEOUT", "x", "doctor", "Invalid value for '--timeout': 'x' is not a time"),
        ("TFGPU_DOCTOR_PYTHON", "3.99", "doctor", "found no Python 3.99"),
        ("TFGPU_PLAN_FORMAT", "text,josn", "plan", "'josn' is not one of"),
        ("TFGPU_BENCH_MATPOW_DEVICES", "x", "bench matpow", "'x'"),
        ("TFGPU_MATRIX", "/nope", "matrix cuda 12.5", "TFGPU_MATRIX: /nope: No such file"),
    ):
        done = tfgpu(*words.split(), environ={variable: value})
        assert (done.returncode, message in " ".join(done.stderr.split())) == (2, True), variable
    plain = tfgpu("matrix", "cuda", "12.5").stdout
    for environ in ({"TFGPU_VERSION": "1"}, {"TFGPU_MATRIX_CUDA_FORMAT": ""}, {"TFGPU_PLAN_GPU": ""}):
        assert tfgpu("matrix", "cuda", "12.5", environ=environ).stdout == plain
    environ = {"TFGPU_PLAN_GPU": "RTX 4090,A100", "TFGPU_PLAN_FORMAT": "json", "TFGPU_PLAN_LOCK": "0"}
    assert '"GeForce RTX 4090"' in tfgpu("plan", environ=environ).stdout
    assert "for T4" in tfgpu("plan", "--gpu", "T4", "--format", "text", environ=environ).stdout


# -------------------------------------------------------------------------------------------- wrong words, completion


def test_a_wrong_word_is_answered_by_a_near_one() -> None:
    for words, meant in (
        ("docotr", "doctor"),
        ("bench matpwo", "matpow"),
        ("matrix cudn", "cudnn"),
        ("doctor --formatt json", "--format"),
        ("doctor --only cuda.mising", "cuda.missing"),
        ("explain cuda.mising", "cuda.missing"),
        ("plan --gpu RTX4900", "RTX 4090"),
    ):
        done = tfgpu(*words.split())
        assert (done.returncode, done.stdout) == (2, ""), words
        assert meant in " ".join(done.stderr.split("Error:")[1].split())


def test_what_a_shell_completes() -> None:
    for words, completed in (
        ({}, "_TFGPU_COMPLETE=bash_complete"),
        ({"COMP_WORDS": "tfgpu\nplan\n--gp", "COMP_CWORD": "2"}, "plain,--gpu"),
        ({"COMP_WORDS": "tfgpu\nbench\ntr", "COMP_CWORD": "2"}, "plain,transfer"),
        ({"COMP_WORDS": "tfgpu\ndoctor\n--format\nju", "COMP_CWORD": "3"}, "plain,junit"),
    ):
        done = process(environ={"_TFGPU_COMPLETE": "bash_complete" if words else "bash_source", **words})
        assert completed in done.stdout and done.stderr == "", words


# ------------------------------------------------------------------------------------- what is written, and how much


def test_a_file_that_is_written_is_named_on_standard_error(tmp_path: Path) -> None:
    file = tmp_path / "cuda.json"
    done = tfgpu("matrix", "cuda", "12.5", "--output", str(file))
    assert (done.stdout, done.stderr) == ("", f"tfgpu: wrote {file}\n")
    assert tfgpu("doctor", "-q", "--no-import", "--output", str(file)).stderr == ""
    for name in ("-", "/dev/null"):
        assert tfgpu("matrix", "cuda", "12.5", "--output", name).stderr == ""


def test_less_and_more(tmp_path: Path) -> None:
    """-v shows what the help page says: the ids of what is open, the findings of both reports."""
    (tmp_path / "requirements.txt").write_text("tensorflow==2.20.0\nkeras==3.5\nnumpy==2.0\n=>not a line\n")
    for command in (["check", "requirements.txt"], ["plan", "--gpu", "T4"], ["matrix", "tensorflow", "2.15"]):
        shown = {words: tfgpu(*command, *words.split(), cwd=tmp_path) for words in ("", "-v")}
        assert 0 < len(shown[""].stdout) < len(shown["-v"].stdout)
        assert len({done.returncode for done in shown.values()}) == 1
    tfgpu("doctor", "--no-import", "--format", "json", "--output", "a.json", cwd=tmp_path)
    least, normal = (tfgpu("doctor", "--from", "a.json", *more, cwd=tmp_path).stdout for more in (("-v", "-q"), ()))
    assert 0 < len(least) < len(normal) / 2
    assert "still there" in tfgpu("compare", "a.json", "a.json", "-v", cwd=tmp_path).stdout


def test_a_version_of_python_is_looked_for() -> None:
    """Wherever an interpreter is named, its version will do, and what was looked for is said."""
    for command in (("doctor",), ("smoke",), ("bench", "matpow")):
        done = tfgpu(*command, "--python", "3.99")
        assert done.returncode == 2 and "python3.99 on PATH" in done.stderr and "pyenv" in done.stderr
