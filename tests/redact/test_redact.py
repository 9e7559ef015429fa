"""What is meant to be shared names nobody, reads the same, and is diagnosed the same.

rows.jsonl: a text with what must vanish from it (`goes`) and what must stay, in several places of a line, or what it
becomes; log.jsonl: the log of a machine, with what must vanish of each line. `¦` is left out of a text: it keeps
scanners for credentials from taking a made-up one for real.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.corpus import earlier, report_of
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES
from tests.guard import guarded
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tiers import usual
from tfgpu_doctor.facts.facts import Facts, GpuProcess, SmiResult, Unknown
from tfgpu_doctor.facts.report import GUESSED, Finding, Fix, Report, load_report
from tfgpu_doctor.findings.engine import LIKE_OTHERS
from tfgpu_doctor.fleet.records import Unreadable, Value
from tfgpu_doctor.plan.diagnosis import diagnose, make_report
from tfgpu_doctor.redact.redaction import LONGEST, KnownNames, Redactor, redact


def read(name: str) -> list[dict[str, Any]]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8").replace("¦", "")
    return [json.loads(line) for line in text.splitlines()]


ROWS, MESSAGES = read("rows.jsonl"), read("log.jsonl")
LOG = tuple(row["line"] for row in MESSAGES)
PLACES = ("{}", "2026-11-21 10:00:00 INFO step 7: {}", "{} (see above)", "note {}, then")
UUID = "1f2e3d4c-aaaa-bbbb-cccc-0123456789ab"
BASE64 = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAABlwAAAAdzc2gt"


def faults(text: str, private: list[str], public: list[str]) -> list[str]:
    """What is left and what is missing of a text that is redacted; twice is the same as once."""
    once = Redactor((text,)).text(text)
    found = [f"{part} is left" for part in private if part in once]
    found += [f"{part} is missing" for part in public if part not in once]
    found += ["another time"] if Redactor((once,)).text(once) != once else []
    return [f"{fault}: {once}" for fault in found]


def test_every_kind_of_private_value_vanishes_wherever_it_stands() -> None:
    wrong = []
    for row in ROWS:
        if "becomes" in row:
            once = Redactor((row["text"],)).text(row["text"])
            wrong += [] if once == row["becomes"] else [f"{row['text']}: {once}"]
            wrong += faults(once, [], [])
            continue
        text, private, public = row["text"], row["goes"], row["stays"]
        if row.get("line"):  # only where it is all of a line
            shown = [text, f"first\n{text}\nlast"]
        else:
            shown = [place.format(text) for place in PLACES]
            quoted = [json.dumps(part)[1:-1] for part in public]
            wrong += [fault for one in (text, f"a\n{text}\tb") for fault in faults(json.dumps([one]), private, quoted)]
        wrong += [fault for one in shown for fault in faults(one, private, public)]
    assert wrong == []


def test_a_private_key_vanishes_from_a_log_of_lines() -> None:
    for end in ("-----END RSA PRIVATE KEY-----", "step 7", ""):
        key = ("Proc-Type: 4,ENCRYPTED", BASE64, BASE64[:40], "AAAABBBB==")
        rows = ("step 6", "-----BEGIN RSA PRIVATE KEY-----", *key, end)
        after = redact(rows)
        assert not {*key} & {*after} and (after[0], after[-1]) == ("step 6", end)
        assert redact(after) == after


def test_placeholders_of_an_earlier_redaction_are_not_given_again() -> None:
    text = ("/home/<user>/<path-1>/env", "/home/eve/plans/env")
    assert redact(text) == (text[0], "/home/<user-2>/<path-2>/env")


def test_a_file_that_is_called_after_a_host() -> None:
    """The host of a fleet that left no report is named by its file only."""
    files = ("r2/gpu-08.json", "r2/gpu-08/report.json", "node-a.jsonl", "standard input", "all.log")
    found = redact(tuple(Unreadable(file=one, line=None, reason="") for one in files))
    assert [one.file for one in found] == [
        *("r2/<host-1>.json", "r2/<host-1>/report.json", "<host-2>.jsonl", "standard input", "all.log")
    ]


def test_a_command_stays_one_that_a_shell_can_read() -> None:
    """A shell reads <user> as a redirection: an interpreter has a name instead, other words have quotes."""
    for before, after in {
        "/home/ada/tf/bin/python -m pip install numpy": "PYTHON -m pip install numpy",
        "tfgpu doctor --python '/home/ada/my plans/bin/python' -v": "tfgpu doctor --python PYTHON -v",
        "export LD_LIBRARY_PATH=/home/ada/tf/lib:$X": 'export "LD_LIBRARY_PATH=/home/<user>/tf/lib:$X"',
        "ls /home/ada/lib/*.so": "ls /home/<user>/lib/*.so",
        "ls /usr/bin/python": "ls /usr/bin/python",
    }.items():
        (fix,) = redact((Fix(text="", commands=(before,)),))
        assert (fix.commands, redact((fix,))) == ((after,), (fix,))
    assert redact(("Next: tfgpu doctor --python /home/ada/x/python",)) == ("Next: tfgpu doctor --python PYTHON",)


def test_spaces_in_a_path_hide_nothing() -> None:
    before = report({"python.executable": known("/home/Ada L/great plans/env/bin/python")})
    text = redact(before).to_json().decode()
    assert "Ada" not in text and "plans" not in text
    redactor = Redactor((before, Value(value="/data/new ideas/python", nodes=1)))  # of a fleet, which has no facts
    texts = map(redactor.text, ("in /home/Ada L/great plans/env and", "3.12, /data/new ideas/x.py"))
    assert tuple(texts) == ("in /home/<user>/<path-1>/env and", "3.12, /data/<path-2>/x.py")


PRIVATE = {word.lower() for row in MESSAGES for word in row["goes"]} | {UUID, "secret-env", "partition-x"}


def left_in(value: Any) -> list[str]:
    text = msgspec.json.encode(value).decode().lower()
    return [one for one in PRIVATE if one in text]


def of_ada(changes: dict[str, Any] | None = None) -> Report:
    """The machine of the tests, with private values wherever a report can hold them."""
    home = "/home/ada.lovelace/analytical-engine/secret-env"
    text = msgspec.json.encode(spoil(healthy(), changes or {})).decode().replace("/env/", f"{home}/")
    facts = msgspec.json.decode(text.replace("/home/me/", "/home/ada.lovelace/"), type=Facts)
    phases = tuple(
        msgspec.structs.replace(phase, log_tail=LOG, traceback=LOG, exception=LOG[2])
        for phase in facts.tensorflow.phases
    )
    process = GpuProcess(pid=7, name="/home/ada.lovelace/analytical-engine/train_engine.py")
    variables = {
        "VIRTUAL_ENV": home,
        "CONDA_DEFAULT_ENV": "secret-env",
        "LD_LIBRARY_PATH": f"{home}/lib:/usr/local/cuda-12.4/lib64",
        "CUDA_VISIBLE_DEVICES": f"GPU-{UUID[:10]}",
        "SLURM_JOB_PARTITION": "partition-x",
        "KUBERNETES_SERVICE_HOST": "10.9.8.7",
    }
    planted = {
        "gpus": known((gpu(uuid=f"GPU-{UUID}", processes=(process,)),), "NVML"),
        "variables": known(variables, "environment"),
        "tensorflow.phases": phases,
        "tensorflow.log": known(LOG, f"{home}/bin/python"),
        "python.user_site": known("/home/ada.lovelace/.local/lib/python3.12/site-packages"),
        "python.prefix": known(home),
        "driver.nvidia_smi": known(SmiResult(exit_code=0, output="\n".join(LOG))),
        "driver.xid_events": known((LOG[3],), "/dev/kmsg"),
        "cudnn.installed": Unknown(f"no permission: {home}"),
    }
    kept = {"gpus", "variables"} & {*(changes or {})}
    return report(facts=spoil(facts, {path: fact for path, fact in planted.items() if path not in kept}))


@pytest.mark.parametrize("start", usual(range(4), lambda start: start == 0))
def test_nothing_private_survives_and_the_findings_stay(start: int) -> None:
    """On a machine for every fourth finding by day, for each in full."""
    wrong: list[Any] = []
    for finding, rows in [*FIRES.items()][start::4]:
        before = of_ada(rows[0][1])
        after = redact(before)
        again = make_report(after.facts, MATRIX, source="report", timings={})
        found = [[(one.id, one.root_cause) for one in judged.findings] for judged in (before, after, again)]
        checks = {
            "left": left_in(after) == [],
            "read back": load_report(after.to_json(), "redacted") == after,
            "findings": found[0] == found[1] == found[2],
            "twice": redact(after) == after,
        }
        wrong += [(finding, name) for name, holds in checks.items() if not holds]
    assert wrong == []


def test_a_report_that_names_nobody_stays_as_it_is() -> None:
    before = report()
    uuid = before.facts.gpus.value[0].uuid.value  # type: ignore[union-attr]
    assert redact(before).to_json().decode().replace("GPU-<uuid-1>", uuid) == before.to_json().decode()
    assert redact(report(facts=Facts())).facts == Facts()


def test_the_same_value_has_one_placeholder_and_others_have_others() -> None:
    facts: Any = redact(of_ada()).facts
    home = facts.python.prefix.value
    assert re.fullmatch(r"/home/<user>/<path-\d+>/<path-\d+>", home)
    assert facts.python.executable.value == f"{home}/bin/python"
    variables, log = facts.variables.value, facts.tensorflow.log.value
    assert variables["LD_LIBRARY_PATH"] == f"{home}/lib:/usr/local/cuda-12.4/lib64"
    assert variables["CONDA_DEFAULT_ENV"] == home.rpartition("/")[2]
    assert variables["CUDA_VISIBLE_DEVICES"] == facts.gpus.value[0].uuid.value == "GPU-<uuid-1>"
    assert log[1].endswith("hostname: <host-1>")
    assert log[3].startswith("Nov 21 10:00:00 <host-1> kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=4711")
    assert log[4].startswith("(tf) <user>@<host-1>:~/<path-")


def test_a_user_called_like_a_technical_word_leaves_the_words_alone() -> None:
    flags = {"variables": known({"XLA_FLAGS": "--xla_gpu_cuda_data_dir=/usr/lib/cuda"})}
    for user in ("tensorflow", "linux", "cuda", "data", "known", "will", "ok", "numpy", "error"):
        before = report({"python.executable": known(f"/home/{user}/env/bin/python")})
        before = msgspec.structs.replace(before, facts=spoil(before.facts, flags))
        after = redact(before)
        assert after.facts.python.executable == known("/home/<user>/env/bin/python")
        for name in ("variables", "host", "tensorflow"):
            assert getattr(after.facts, name) == getattr(before.facts, name), user
        assert [f.id for f in after.findings] == [f.id for f in before.findings], user


def _by_signs(findings: Iterable[Finding]) -> set[str]:
    """Without what is guessed from the words."""
    return {one.id for one in findings if one.cause not in (*LIKE_OTHERS, GUESSED)}


@pytest.mark.parametrize("start", usual(range(6), lambda start: start == 0))
def test_what_people_paste_is_diagnosed_alike(start: int) -> None:
    """Every 36th of the collected reports by day, every sixth in full; all were looked through by hand."""
    wrong = []
    for case in earlier()[6 * start :: 36]:
        before = report_of(case["text"])
        after = redact(before)
        # what is guessed from the words of a text changes with them
        again = report_of(redact(case["text"])).findings
        if (
            [f.id for f in diagnose(after.facts, MATRIX).findings] != [f.id for f in before.findings]
            or redact(after) != after
            or _by_signs(again) != _by_signs(before.findings)
        ):
            wrong.append(case["id"])
    assert wrong == []


# ------------------------------------------- four times the text takes about four times the time of the processor

# each of them begins, over and over, what an expression reads, and ends it never, or at once
UNITS = """/,a/,C:\\x ,:,1.,a@,a@b:,a-,_,token ,password is ,--token ,eyJaaaaaaaa-,[a@b ,~a/,\\\\abc\\d,//a1/
a1:/,ssh ,mysql -p,Cookie: ,'/a ,aB3,GPU-a,fe80::,0.0.0.0,+1 2,user ,a-7d9f8b6c5d-,a.b.com/,https://a/?token=a&
\\\\"token,<user,kubectl ,\\,\\n,\\\\u00e9,\\ud83d,\\x,%C3,C:\\u,a\u0301,\u0301,a\u0301@,\\n/a,\\na@b,"/a ,'/a\\n"""
MOST = 6  # leaves room for other programs; quadratic would be 16


def seconds(record: object) -> float:
    start = time.process_time()
    redact(record)
    return time.process_time() - start


def ratio(small: object, large: object) -> float:
    """Of the times, the best of up to three tries."""
    tries = (seconds(large) / max(seconds(small), 1e-3) for _ in range(3))
    best = next(tries)
    return best if best < MOST else min(best, *tries)


def test_names_that_all_differ() -> None:
    for line in (
        "/home/a{0}/b{0}x",
        "hostname: node{0}x",
        "ada{0}@node{0}x:~/plan{0}x$ ls",
        "GPU-{0:08x}-aaaa-bbbb-cccc-0123456789ab",
    ):
        small, large = (tuple(line.format(number) for number in range(count)) for count in (300, 1200))
        assert ratio(small, large) < MOST, line
    small, large = (" ".join(f"/home/a{number}/b{number}x" for number in range(count)) for count in (300, 1200))
    assert ratio(small, large) < MOST


def test_lines_made_to_keep_an_expression_busy() -> None:
    for unit in re.split("[,\n]", UNITS):
        with guarded(3.0, unit):  # a twentieth is enough
            redact(unit * (30_000 // len(unit)) + "!")


def test_names_that_begin_alike() -> None:
    """A place in the text is compared with names of LONGEST characters at most, of as many lengths."""
    for names in (["a." * (10 * LONGEST) + "b"], ["a." + "b" * length for length in range(2_000)]):
        with guarded(3.0, "names that begin alike"):
            assert "a" in KnownNames((name, "path") for name in names).replaced(
                "a." * 30_000, lambda kind, value: value
            )
