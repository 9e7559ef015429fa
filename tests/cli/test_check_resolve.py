"""`tfgpu check --resolve`: what a resolver is asked, and what becomes of each kind of answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.runner import tfgpu
from tfgpu_doctor.install import asking, tools
from tfgpu_doctor.install.asking import Resolver
from tfgpu_doctor.install.resolved import UnreadableError, of_pip_report
from tfgpu_doctor.records.report import load_report

UV = tools.find_uv(os.environ)  # before a test replaces PATH
GTX = ("--gpu", "GTX 1080", "--driver", "570")
EXTRA = "tensorflow[and-cuda]==2.20.0\n"
# Words of uv 0.13 and pip 24
REFUSED = """error: No solution found when resolving dependencies
  cause: Because flask==3.0.0 depends on werkzeug>=3.0.0 and you require flask==3.0.0, we can conclude that you require
         werkzeug>=3.0.0. And because you require werkzeug==2.0, your requirements are unsatisfiable.
"""
OF_PIP = """Collecting tensorflow==2.20.0
ERROR: Cannot install -r requirements.txt (line 2) and werkzeug==2.0 because these package versions have conflicts.

The conflict is caused by:
    The user requested werkzeug==2.0
    flask 3.0.0 depends on Werkzeug>=3.0.0

To fix this you could try to:
1. loosen the range of package versions you have specified
ERROR: ResolutionImpossible: for help visit a page
"""
NO_ANSWERS = {
    "garbage": ("echo 'no toml [' > \"$last\"", "uv's pylock.toml cannot be read"),
    "binary": ('head -c 5000 /dev/urandom > "$last"', "uv's pylock.toml cannot be read"),
    "empty": (': > "$last"', "uv named no packages"),
    "nothing": (":", "the resolver left no answer"),
    "hang": ("exec sleep 60", "did not end within"),
    "endless": ("exec yes", "did not end within"),
    "unreachable": ("echo 'error sending request for url (x): tcp connect error'; exit 2", "cannot be reached"),
    "another index": (
        "echo 'No solution found: Because ours was not found in the package registry'; exit 1",
        "not found in the package registry",
    ),
    "source only": (
        "echo 'No solution found: a==1 has no usable wheels; building from source is disabled'; exit 1",
        "building from source is disabled",
    ),
    "crash": ("kill -SEGV $$", "SIGSEGV"),
    "usage": ("echo \"error: unexpected argument '--python-platform' found\"; exit 2", "unexpected argument"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and a PATH with the folder of a uv to come before what the fake needs."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path / "project"


def fake(folder: Path, body: str) -> None:
    """Write down what uv is asked, then do `body`; $last is the file for the answer."""
    record = folder.parent / "asked"
    program = folder.parent / "bin" / "uv"
    program.write_text(
        f'#!/bin/sh\nfor last; do :; done\n{{ pwd; echo "$@"; cat "$3"; }} >> {record}\n{body}\n', encoding="utf-8"
    )
    program.chmod(0o755)


def found(**versions: str) -> str:
    """The commands that answer with these versions."""
    rows = "".join(f'[[packages]]\nname = "{k.replace("_", "-")}"\nversion = "{v}"\n' for k, v in versions.items())
    return f"cat > \"$last\" <<'END'\n{rows}END"


def check(folder: Path, text: str, *options: str, name: str = "requirements.txt") -> tuple[int, str]:
    (folder / name).write_text(text, encoding="utf-8")
    done = tfgpu("check", name, "--resolve", *options, cwd=folder)
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_a_refusal_is_an_error_in_the_resolvers_words(folder: Path) -> None:
    fake(folder, f"cat >&2 <<'END'\n{REFUSED}END\nexit 1")
    code, shown = check(folder, "tensorflow==2.20.0\nflask==3.0.0\nwerkzeug==2.0\n")
    assert (code, "tf.package-conflict" in shown) == (1, True)
    assert "found flask==3.0.0 ← requirements.txt:2 found werkzeug==2.0 ← requirements.txt:3" in shown
    assert "why Because flask==3.0.0 depends on werkzeug>=3.0.0" in shown and "No solution" not in shown
    assert "file=requirements.txt,line=2" in check(folder, "tensorflow\nflask==3.0.0\n", "--format", "github")[1]


def test_what_is_known_already_is_told_once_in_our_words(folder: Path) -> None:
    fake(folder, f"cat >&2 <<'END'\n{REFUSED}END\nexit 1")
    code, shown = check(folder, "tensorflow==2.20.0\ntensorflow-text==2.19.0\n")
    assert (code, "(1 problem)" in shown, "Because" in shown) == (1, True, False)


def test_what_the_resolver_finds_overrules_our_judgement(folder: Path) -> None:
    fake(folder, found(tensorflow="2.20.0", tensorflow_text="2.19.0", nvidia_cudnn_cu12="9.10.2.21"))
    code, shown = check(folder, EXTRA + "tensorflow-text==2.19.0\n")
    assert (code, "no problems found" in shown) == (0, True)


def test_words_are_cleaned_and_a_screen_at_most(folder: Path) -> None:
    hostile = "error: No solution found \\033[31m::error::\\0302\\0233 https://me:secret@host/simple " + "x" * 9000
    fake(folder, f"printf '{hostile}' >&2; exit 1")
    code, shown = check(folder, EXTRA)
    assert code == 1 and "secret" not in shown and "\033" not in shown and "\x9b" not in shown
    assert len(shown) < 2000 and "requirements.txt:1" in shown


def test_the_versions_that_are_found_are_shown_and_judged(folder: Path) -> None:
    fake(folder, found(tensorflow="2.20.0", numpy="2.2.0", nvidia_cudnn_cu12="9.28.0.42", idna="3"))
    code, shown = check(folder, EXTRA, "--python", "3.12")
    assert (code, "no problems found" in shown) == (0, True)
    answer = "resolved by uv for Python 3.12: tensorflow 2.20.0, nvidia-cudnn-cu12 9.28.0.42, 2 more"
    assert answer in shown
    code, shown = check(folder, EXTRA, *GTX)
    assert (code, "cuDNN 9.28.0.42 has dropped GeForce GTX 1080" in shown) == (1, True)
    assert "+nvidia-cudnn-cu12>=9.3.0.75,<9.11" in shown  # beside TensorFlow's line, which stays
    fake(folder, found(tensorflow="2.20.0", nvidia_cudnn_cu12="9.10.2.21"))
    assert check(folder, EXTRA + "nvidia-cudnn-cu12<9.11\n", *GTX)[0] == 0


def test_the_resolver_gets_names_and_versions_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(folder, found(tensorflow="2.20.0"))
    monkeypatch.setenv("UV_TARGET", "/elsewhere")
    (folder / "secret.txt").write_text("numpy==1.26.0\n", encoding="utf-8")
    text = "--extra-index-url https://host.invalid/simple\n--no-index\n-r ../outside.txt\n-e .\n./a.whl\n"
    text += "pkg @ https://host.invalid/a.whl\ntensorflow[and-cuda] >= 2.20.0 ; python_version < '3.13'\nNumPy\n"
    check(folder, text, "--python", "3.12")
    where, argv, *lines = (folder.parent / "asked").read_text(encoding="utf-8").splitlines()
    assert lines == ['tensorflow[and-cuda]>=2.20.0; python_version < "3.13"', "numpy"]
    assert not where.startswith(str(folder.parent)) and str(folder) not in argv
    assert "--python-version 3.12 --python-platform x86_64-manylinux" in argv and "--only-binary :all:" in argv


def test_for_which_python_it_is_asked(folder: Path, subtests: pytest.Subtests) -> None:
    for text, options, python in (
        ("tensorflow==2.15.1\n", (), "3.11"),  # the newest with wheels
        ("tensorflow==2.15.1\n", ("--python", "3.10"), "3.10"),
        ("FROM python:3.9\nRUN pip install tensorflow==2.15.1\n", ("--python", "3.10"), "3.9"),
    ):
        with subtests.test(text=text):
            fake(folder, found(tensorflow="2.15.1"))
            _, shown = check(folder, text, *options, name="Dockerfile" if "FROM" in text else "requirements.txt")
            assert f"resolved by uv for Python {python}: tensorflow 2.15.1" in shown


def test_json_has_every_version_that_was_chosen(folder: Path) -> None:
    fake(folder, found(tensorflow="2.20.0", h5py="3.14.0"))
    (folder / "requirements.txt").write_text("tensorflow==2.20.0\n", encoding="utf-8")
    done = tfgpu("check", "requirements.txt", "--resolve", "--format", "json", cwd=folder)
    saved = load_report(done.stdout.encode(), "check.json")
    (resolved,) = saved.resolved
    assert (resolved.label, resolved.program) == ("requirements.txt", "uv")
    assert resolved.versions == {"tensorflow": "2.20.0", "h5py": "3.14.0"}
    assert (
        load_report(tfgpu("check", "requirements.txt", "--format", "json", cwd=folder).stdout.encode(), "").resolved
        == ()
    )


def test_no_answer_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for name in NO_ANSWERS:
        with subtests.test(name=name):
            body, reason = NO_ANSWERS[name]
            fake(folder, body)
            quick = name in ("hang", "endless")
            monkeypatch.setattr(Resolver.__init__, "__defaults__", (0.3 if quick else 20.0,))
            code, shown = check(folder, "tensorflow==2.20.0\n")
            assert (code, "requirements.txt: not resolved: " in shown, reason in shown) == (3, True, True), shown
            assert "whether the requirements can be met is unknown" in shown


def test_an_error_counts_more_than_a_missing_answer(folder: Path) -> None:
    fake(folder, "exit 1")
    code, shown = check(folder, "tensorflow==2.20.0\ntf-keras==2.15.0\n")
    assert (code, "not resolved" in shown) == (1, True)


def test_after_a_failure_that_would_come_again_nothing_is_asked(folder: Path) -> None:
    fake(folder, "echo 'error: dns error'; exit 2")
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "requirements.txt").write_text(f"tensorflow==2.20.0\n{name}\n", encoding="utf-8")
    assert tfgpu("check", ".", "--resolve", cwd=folder).returncode == 3
    assert (folder.parent / "asked").read_text(encoding="utf-8").count("pip compile") == 1


def test_without_uv_pip_answers_for_its_own_python_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_uv", lambda _: None)
    code, shown = check(folder, "tensorflow==2.20.0\n", "--os", "windows")
    assert (code, "install uv to resolve for windows_amd64" in shown) == (3, True)
    monkeypatch.setattr(asking.Resolver, "_python_for", lambda *_: str(python))
    python = folder.parent / "bin" / "python"
    report = '{"install": [{"metadata": {"name": "TensorFlow", "version": "2.20.0"}}]}'
    for body in (f"while [ $1 != --report ]; do shift; done; echo '{report}' > $2", f"echo '{OF_PIP}'; exit 1"):
        python.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        python.chmod(0o755)
        code, shown = check(folder, "tensorflow==2.20.0\nflask==3.0.0\nwerkzeug==2.0\n", "--python", "3.12")
        if code == 0:
            assert "resolved by pip for Python 3.12: tensorflow 2.20.0" in shown
    assert code == 1 and "found flask==3.0.0 ← requirements.txt:2 found werkzeug==2.0" in shown
    assert "why The user requested werkzeug==2.0 flask 3.0.0 depends on Werkzeug>=3.0.0 fix" in shown


def test_a_report_of_pip_that_is_none() -> None:
    for data in (b"", b"[]", b'{"install": 1}', b"\xff"):
        with pytest.raises(UnreadableError, match="pip's report"):
            of_pip_report(data)


def test_nothing_is_left_and_nothing_is_asked_without_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(folder.parent))
    monkeypatch.setattr("tempfile.tempdir", str(folder.parent))
    fake(folder, found(tensorflow="2.20.0"))
    (folder / "requirements.txt").write_text("tensorflow==2.20.0\n", encoding="utf-8")
    tfgpu("check", "requirements.txt", cwd=folder)
    assert not (folder.parent / "asked").exists()
    check(folder, "tensorflow==2.20.0\n")
    assert sorted(one.name for one in folder.parent.iterdir()) == ["asked", "bin", "project"]


@pytest.mark.full
def test_the_real_uv(folder: Path) -> None:
    if UV is None:
        pytest.skip("no uv")
    (folder.parent / "bin" / "uv").symlink_to(UV)
    code, shown = check(folder, EXTRA)
    if "cannot be reached" in shown:
        pytest.skip("no package index")
    assert (code, "tensorflow 2.20.0, nvidia-cuda-runtime-cu12 12." in shown) == (0, True)
    assert "has dropped" in check(folder, EXTRA, *GTX)[1]
    code, shown = check(folder, "tensorflow==2.20.0\nflask==3.0.0\nwerkzeug==2.0\n")
    assert (code, "Because flask==3.0.0 depends on werkzeug>=3.0.0" in shown) == (1, True)
