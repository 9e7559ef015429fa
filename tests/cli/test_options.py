"""One vocabulary of options: what holds for every command, so that the next one cannot differ."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from tests.cli.runner import process, tfgpu
from tfgpu_doctor.bench.workload_registry import WORKLOADS
from tfgpu_doctor.cli import cli
from tfgpu_doctor.cli.options import Command, Listed, OneOf, Option, Seconds, Size

# what may be given several times and is no list: pairs with --format by position; has commas in its value
REPEATED = {"--output", "--shape"}
# spellings that work and are not shown
HIDDEN = {
    *((f"bench {name}", "--html") for name in (*WORKLOADS, "show")),
    *((f"matrix {table}", "--version") for table in ("tensorflow", "cuda", "cudnn")),
}
# options of one name that differ, and why; each pair of (what differs, the name)
DIFFERENT = {
    "--python": "an interpreter whose TensorFlow is examined, or the version of one that is planned for",
    "--size": "rows of matrices, of which a list may name the first and the last; or bytes",
    "--batch-size": "one, or a list where each is measured",
    "--dtype": "one or several; workloads compute in different types",
    "--fail-on": "benches compare speed, reports severity",
    "--gpu": "a machine may have several; the matrix is asked for one",
    "--compute-capability": "as --gpu",
    "--platform": "the list of releases can show all",
}
# the same option in a command that describes it by what it does there
HELP_DIFFERS = {
    *("--python", "--require-gpus", "--from", "--model", "--xla", "--virtual-gpus", "--verbose", "--gpu"),
    *(
        "--compute-capability",
        "--driver",
        "--tensorflow",
        "--cuda",
        "--cudnn",
        "--timeout",
        "--output",
        "--redact",
        "--quiet",
    ),
}


@cache
def commands() -> tuple[tuple[str, click.Command], ...]:
    def below(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            yield f"{path} {name}".strip(), found
            if isinstance(found, click.Group):
                yield from below(f"{path} {name}".strip(), found)

    return tuple(below("", cli))


def options() -> Iterator[tuple[str, str, Option]]:
    """Command, name and option."""
    for path, command in commands():
        for one in command.params:
            if isinstance(one, click.Option):
                assert isinstance(one, Option), f"{path} {one.opts}: declare it by cli/options.py"
                yield path, max(one.opts, key=len), one


def test_every_command_is_one_of_ours() -> None:
    others = [path for path, found in commands() if not isinstance(found, (Command, click.Group))]
    assert others == []


def test_lists_are_of_one_type_and_show_it() -> None:
    for path, name, one in options():
        is_list = isinstance(one.type, Listed)
        assert one.multiple == is_list or name in REPEATED, f"{path} {name}: use cli/options.Listed"
        metavar = one.make_metavar(click.Context(click.Command(path)))
        assert (",..." in metavar) == is_list or name in REPEATED, f"{path} {name} {metavar}"


def test_choices_and_times_are_of_one_type() -> None:
    for path, name, one in options():
        item = one.type.item if isinstance(one.type, Listed) else one.type
        assert isinstance(item, OneOf) or not isinstance(item, click.Choice), f"{path} {name}: use cli/options.OneOf"
        assert (one.metavar == "S") == isinstance(item, Seconds), f"{path} {name}: times are cli/options.Seconds"
        assert not isinstance(item, click.FloatRange) or one.metavar == "X", f"{path} {name}"
        metavar = (one.metavar or "").removesuffix("|auto").strip(",.")
        assert not isinstance(item, Size) or metavar in ("N", "SIZE"), f"{path} {name}"


def test_one_name_is_one_thing() -> None:
    seen: dict[str, tuple[str, Option]] = {}
    differ = []
    for path, name, one in options():
        before, first = seen.setdefault(name, (path, one))
        same_values = (type(first.type), first.metavar) == (type(one.type), one.metavar)
        if name not in DIFFERENT and not (same_values and (first.help == one.help or name in HELP_DIFFERS)):
            differ.append(f"{name} of {before} and of {path}")
    assert differ == []


def test_every_hidden_spelling_stands_in_the_table() -> None:
    assert {(path, name) for path, name, one in options() if one.hidden} == HIDDEN


# ------------------------------------------------------------------------------------------------------------ values


def test_sizes(subtests: pytest.Subtests) -> None:
    for text, size in (
        ("512", 512),
        ("4k", 4096),
        ("1M", 2**20),
        ("1MiB", 2**20),
        ("16 MiB", 2**24),
        ("2GiB", 2**31),
        ("1GB", 10**9),
    ):
        with subtests.test(text=text, size=size):
            assert Size(1, 2**40).convert(text, None, None) == size


def test_what_is_no_size(subtests: pytest.Subtests) -> None:
    for text in (
        "",
        "x",
        "1 MiB!",
        "-1MiB",
        "1.5MiB",
        "1TiB",
        "²k",
        "MiB",
        "0",
        "5",
        "2k",
    ):
        with subtests.test(text=text), pytest.raises(click.BadParameter, match="is not a number"):
            Size(2, 2000, multiple=2).convert(text, None, None)


def test_times(subtests: pytest.Subtests) -> None:
    for text, seconds in (
        ("90", 90.0),
        ("0.5", 0.5),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1.5H", 5400.0),
    ):
        with subtests.test(text=text, seconds=seconds):
            assert Seconds().convert(text, None, None) == seconds


def test_what_is_no_time(subtests: pytest.Subtests) -> None:
    for text in (
        "",
        "soon",
        "-1",
        "0",
        "nan",
        "inf",
        "1e9",
        "5 days",
        "٣",
    ):
        with subtests.test(text=text), pytest.raises(click.BadParameter):
            Seconds().convert(text, None, None)


def test_a_list_may_be_repeated() -> None:
    @click.command("show", context_settings={"help_option_names": []})
    @click.option("--dtype", type=Listed(OneOf(["a", "b", "c"])), cls=Option)
    def show(dtype: tuple[str, ...]) -> None:
        click.echo(dtype)

    from click.testing import CliRunner

    said = [CliRunner().invoke(show, words.split()).output for words in ("--dtype a,b", "--dtype a --dtype B,a", "")]
    assert said == ["('a', 'b')\n"] * 2 + ["()\n"]
    assert "Did you mean a?" not in CliRunner().invoke(show, ["--dtype", "a,,b"]).output


# --------------------------------------------------------------------------------------------------------- variables


def test_a_variable_sets_an_option(subtests: pytest.Subtests) -> None:
    for variable, value, arguments, message in (
        ("TFGPU_DOCTOR_TIMEOUT", "x", ["doctor"], "Invalid value for '--timeout': 'x' is not a time"),
        ("TFGPU_DOCTOR_VERBOSE", "maybe", ["doctor"], "'maybe' is not a valid boolean"),
        ("TFGPU_DOCTOR_PYTHON", "3.99", ["doctor"], "found no Python 3.99"),
        ("TFGPU_PLAN_FORMAT", "text,josn", ["plan"], "'josn' is not one of"),
        ("TFGPU_BENCH_MATPOW_DEVICES", "x", ["bench", "matpow"], "'x'"),
    ):
        with subtests.test(variable=variable):
            done = tfgpu(*arguments, environ={variable: value})
            assert done.returncode == 2
            assert message in " ".join(done.stderr.split())


def test_an_empty_variable_and_one_that_is_no_option_change_nothing(subtests: pytest.Subtests) -> None:
    for variable in (
        "TFGPU_VERSION",
        "TFGPU_MATRIX_CUDA_FORMAT",
        "TFGPU_PLAN_GPU",
    ):
        with subtests.test(variable=variable):
            value = "1" if variable == "TFGPU_VERSION" else ""
            assert (
                tfgpu("matrix", "cuda", "12.5", environ={variable: value}).stdout
                == tfgpu("matrix", "cuda", "12.5").stdout
            )


def test_the_variable_of_a_layer_is_named() -> None:
    done = tfgpu("matrix", "cuda", "12.5", environ={"TFGPU_MATRIX": "/nope"})
    assert (done.returncode, "TFGPU_MATRIX: /nope: No such file" in done.stderr) == (2, True)


def test_variables_are_read_and_the_command_line_is_stronger() -> None:
    environ = {"TFGPU_PLAN_GPU": "RTX 4090,A100", "TFGPU_PLAN_FORMAT": "json", "TFGPU_PLAN_LOCK": "0"}
    assert tfgpu("plan", "--gpu", "T4", environ={"TFGPU_PLAN_QUIET": "1"}).stdout.startswith("✓ recommended")
    assert '"GeForce RTX 4090"' in tfgpu("plan", environ=environ).stdout
    assert "for T4" in tfgpu("plan", "--gpu", "T4", "--format", "text", environ=environ).stdout


# ------------------------------------------------------------------------------------------------------ did you mean


def test_did_you_mean(subtests: pytest.Subtests) -> None:
    for arguments, meant in (
        (["docotr"], "doctor"),
        (["bench", "matpwo"], "matpow"),
        (["matrix", "cudn"], "cudnn"),
        (["doctor", "--formatt", "json"], "--format"),
        (["doctor", "--format", "juint"], "junit"),
        (["doctor", "--only", "cuda.mising"], "cuda.missing"),
        (["explain", "cuda.mising"], "cuda.missing"),
        (["bench", "matpow", "--dtype", "flaot16"], "float16"),
        (["check", "--kind", "dockerfiel", "-"], "dockerfile"),
        (["plan", "--gpu", "RTX 4900"], "RTX 4090"),
        (["plan", "--os", "widnows"], "windows"),
    ):
        with subtests.test(arguments=arguments, meant=meant):
            done = tfgpu(*arguments)
            assert done.returncode == 2
            assert meant in done.stderr.split("Error:")[1]
            assert "ean" in done.stderr or "nearest" in done.stderr


REMOVED = {
    "completion bash": 'eval "$(_TFGPU_COMPLETE=bash_source tfgpu)" enables completion',
    "bench matpow --sweep 1k,2k": "--size takes several sizes",
    "bench transfer --sizes=1MiB": "it is --size",
    "bench memory --model resnet50": "tfgpu bench cnn --batch-size auto finds the largest batch",
    "bench matpow --against base.json": "measure with --processes 5 --output NEW.json",
    "compare --history results": "--output keeps a result of tfgpu bench",
    "fleet collect --here doctor": "tfgpu doctor --format json prints the result of a node",
    "install --repair env --yes": "tfgpu doctor --python DIR prints the commands",
}


def test_what_was_removed_names_its_successor(subtests: pytest.Subtests) -> None:
    for words in REMOVED:
        with subtests.test(words=words):
            done = tfgpu(*words.split())
            assert (done.returncode, done.stdout) == (2, "")
            assert f"was removed: {REMOVED[words]}" in " ".join(done.stderr.split())


# ---------------------------------------------------------------------------------------------- help and completion


def test_help_is_what_the_option_prints(subtests: pytest.Subtests) -> None:
    for words in (
        "",
        "plan",
        "bench matpow",
        "matrix gpu",
    ):
        with subtests.test(words=words):
            assert tfgpu("help", *words.split()).stdout == tfgpu(*words.split(), "--help").stdout


def test_help_of_what_is_no_command() -> None:
    assert "Did you mean doctor?" in tfgpu("help", "dcotor").stderr
    assert "tfgpu plan has no commands: gpu" in tfgpu("help", "plan", "gpu").stderr


def test_the_version_in_one_letter() -> None:
    assert tfgpu("-V").stdout == tfgpu("--version").stdout


def test_a_shell_gets_its_script(subtests: pytest.Subtests) -> None:
    for shell in (
        "bash",
        "zsh",
        "fish",
    ):
        with subtests.test(shell=shell):
            done = process(environ={"_TFGPU_COMPLETE": f"{shell}_source"})
            assert (done.returncode, done.stderr) == (0, "")
            assert f"_TFGPU_COMPLETE={shell}_complete" in done.stdout


def test_what_a_shell_completes(subtests: pytest.Subtests) -> None:
    for line, completed in (
        ("plan\n--gpu\nA100,h1", "plain,A100,H100"),
        ("plan\n--gp", "plain,--gpu"),
        ("explain\ngpu.not-v", "plain,gpu.not-visible"),
        ("explain\n./", "file,./"),
        ("doctor\n--format\ntext,ju", "plain,text,junit"),
        ("bench\ntr", "plain,transfer"),
        ("plan\n--tensorflow\n2.20", "plain,2.20.0"),
    ):
        with subtests.test(line=line, completed=completed):
            words = {"COMP_WORDS": f"tfgpu\n{line}", "COMP_CWORD": str(line.count("\n") + 1)}
            done = process(environ={"_TFGPU_COMPLETE": "bash_complete", **words})
            assert completed in done.stdout.splitlines()
            assert done.stderr == ""


# ------------------------------------------------------------------------------------- what is written, and how much


def test_a_file_that_is_written_is_named_on_standard_error(tmp_path: Path) -> None:
    file = tmp_path / "cuda.json"
    done = tfgpu("matrix", "cuda", "12.5", "--output", str(file))
    assert (done.stdout, done.stderr) == ("", f"tfgpu: wrote {file}\n")
    assert tfgpu("plan", "-q", "--gpu", "T4", "--output", str(file)).stderr == ""
    for name in ("-", "/dev/null"):
        assert tfgpu("matrix", "cuda", "12.5", "--output", name).stderr == ""


def test_every_text_has_less_and_more() -> None:
    both = {path for path, name, one in options() if name == "--quiet"}
    assert both == {path for path, name, one in options() if name == "--verbose"}
    benches = {f"bench {name}" for name in (*WORKLOADS, "show")}
    answers = {path for path, *_ in options() if path.startswith("matrix ")}
    assert both == {"doctor", "explain", "plan", "check", "smoke", "compare", "fleet", *benches, *answers}


def test_quiet_is_shorter(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow==2.15.1\nkeras==3.5\nnumpy==2.0\n")
    assert tfgpu("plan", "--gpu", "T4", "-q").stdout.startswith("✓ recommended: option 1, TensorFlow 2.")
    for command in (["check", "requirements.txt"], ["plan", "--gpu", "T4"]):
        of = {words: tfgpu(*command, *words.split(), cwd=tmp_path).stdout for words in ("-q", "-v", "-v -q", "-q -v")}
        assert (of["-v -q"], of["-q -v"]) == (of["-q"], of["-v"]), "the last one wins"
        whole, least = (tfgpu(*command, *more, cwd=tmp_path) for more in ([], ["-q"]))
        assert least.returncode == whole.returncode
        assert 0 < len(least.stdout.splitlines()) < len(whole.stdout.splitlines())


def test_more_is_more(tmp_path: Path) -> None:
    """-v shows what the help page says: the ids of what is open, the findings of both reports."""
    (tmp_path / "requirements.txt").write_text("tensorflow==2.20.0\n=>not a line\n")
    normal, full = (tfgpu("check", "requirements.txt", *more, cwd=tmp_path).stdout for more in ([], ["-v"]))
    assert "(tf.python-unsupported)" in full and "(tf.python-unsupported)" not in normal
    tfgpu("doctor", "--no-import", "--format", "json", "--output", "a.json", cwd=tmp_path)
    normal, full = (tfgpu("compare", "a.json", "a.json", *more, cwd=tmp_path).stdout for more in ([], ["-v"]))
    assert "still there" in full and len(full) >= len(normal)


def test_a_version_of_python_is_looked_for(subtests: pytest.Subtests) -> None:
    """Wherever an interpreter is named, its version will do, and what was looked for is said."""
    for command in (
        ("doctor",),
        ("smoke",),
        ("bench", "matpow"),
    ):
        with subtests.test(command=command):
            done = tfgpu(*command, "--python", "3.99")
            assert done.returncode == 2 and "python3.99 on PATH" in done.stderr and "pyenv" in done.stderr
