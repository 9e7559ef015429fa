"""What is meant to be shared names nobody, reads the same, and is diagnosed the same."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import msgspec
import pytest

from tests.corpus import Outcome
from tests.findings.rows_over_facts import FIRES
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.records.test_report import report
from tfgpu_doctor.diagnosis.engine import diagnose
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.findings.commonness import BECAUSE
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.facts import Fact, Facts, GpuProcess, Phase, Record, SmiResult, Unknown, look_up
from tfgpu_doctor.records.report import Report, load_report
from tfgpu_doctor.redact.redaction import Redactor, redact

MACHINES = [pytest.param(rows[0][1], id=finding) for finding, rows in FIRES.items()]
XLA_FLAGS = {"variables": known({"XLA_FLAGS": "--xla_gpu_cuda_data_dir=/usr/lib/cuda"})}
UUID = "1f2e3d4c-aaaa-bbbb-cccc-0123456789ab"
GITHUB = "ghp_" + "a1B2" * 9
HUGGING_FACE = "hf_" + "QwErTy" * 6
SLACK = "xoxb-1234567890-" + "abcdef"
GOOGLE = "AIza" + "Sy0123456789" * 3
AWS = "AKIA" + "IOSFODNN7EXAMPLE"

LOG = (
    "2026-11-21 10:00:00.1 I external/xla/cuda_diagnostics.cc:159] retrieving CUDA diagnostic information "
    "for host: babbage-07",
    "2026-11-21 10:00:00.1 I external/xla/cuda_diagnostics.cc:166] hostname: babbage-07",
    'File "/home/ada.lovelace/analytical-engine/note g/train_engine.py", line 7, in <module>',
    "Nov 21 10:00:00 babbage-07 kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=4711, GPU has fallen off the bus.",
    "(tf) ada.lovelace@babbage-07:~/analytical-engine$ python train_engine.py --password correcthorse",
    "connecting to ada@lovelace.example.org, 10.9.8.7:2222, fe80::4ecc:6aff:fe12:3456 and 4c:cc:6a:12:34:56",
    "Started server with target: grpc://worker-3.engine.svc.cluster.local:2222",
    f"git clone https://ada:{GITHUB}@git.engine.example/acme.git with {HUGGING_FACE}, {SLACK}, {GOOGLE} and {AWS}",
    "WANDB_API_KEY=0123456789abcdef0123 aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    r"OSError: C:\Users\Ada Lovelace\AppData\Local\Programs\Python\Python311\Lib\site-packages\numpy\core.py",
    "Serial Number                         : 1320220012345",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----",
    "babbage-07:4711:4720 [0] NCCL INFO Bootstrap : Using eth0:10.9.8.7<0>",
    "Linux babbage-07 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux",
    "/scratch/ada.lovelace/engine-data/punchcards.tfrecord is missing; ran as ada.lovelace",
    'Pod "engine-train-0-xk2p9" in namespace: engine-prod failed',
)
PRIVATE = (
    *("ada", "lovelace", "babbage", "analytical", "note g", "train_engine", "correcthorse", "10.9.8.7", "fe80"),
    *("4c:cc:6a", "worker-3", GITHUB, HUGGING_FACE, SLACK, GOOGLE, AWS, "0123456789abcdef0123", "wJalr"),
    *(
        "1320220012345",
        "b3BlbnNz",
        "engine-data",
        "punchcards",
        "acme",
        "engine-train",
        "engine-prod",
        "git.engine",
        UUID,
    ),
    *("secret-env", "partition-x"),
)


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
    return report(
        facts=spoil(
            facts,
            {
                "tensorflow.phases": phases,
                "tensorflow.log": known(LOG, f"{home}/bin/python"),
                "python.user_site": known("/home/ada.lovelace/.local/lib/python3.12/site-packages"),
                "python.conda_name": known("secret-env", home),
                "python.prefix": known(home),
                "driver.nvidia_smi": known(SmiResult(exit_code=0, output="\n".join(LOG))),
                "driver.xid_events": known((LOG[3],), "/dev/kmsg"),
                "peers": Unknown(f"no permission: {home}"),
                **({} if "gpus" in (changes or {}) else {"gpus": known((_gpu(process),), "NVML")}),
                **({} if "variables" in (changes or {}) else {"variables": known(variables, "environment")}),
            },
        )
    )


def _gpu(process: GpuProcess) -> Any:
    return gpu(uuid=f"GPU-{UUID}", processes=(process,))


@pytest.mark.parametrize("changes", MACHINES)
def test_nothing_private_survives_and_the_findings_stay(changes: dict[str, Any]) -> None:
    before = of_ada(changes)
    after = redact(before)
    text = after.to_json().decode().lower()
    assert [value for value in PRIVATE if value.lower() in text] == []
    assert load_report(after.to_json(), "redacted") == after
    again = make_report(after.facts, MATRIX, source="report", timings={})
    assert [(f.id, f.root_cause) for f in again.findings] == [(f.id, f.root_cause) for f in before.findings]
    assert [f.id for f in after.findings] == [f.id for f in before.findings]
    assert redact(after) == after


def test_a_report_that_names_nobody_stays_as_it_is() -> None:
    before = report()
    uuid = before.facts.gpus.value[0].uuid.value  # type: ignore[union-attr]
    assert redact(before).to_json().decode().replace("GPU-<uuid-1>", uuid) == before.to_json().decode()


def test_the_same_value_has_one_placeholder_and_others_have_others() -> None:
    facts = redact(of_ada()).facts
    home = facts.python.prefix.value  # type: ignore[union-attr]
    assert re.fullmatch(r"/home/<user>/<path-\d+>/<path-\d+>", home)
    assert facts.python.executable.value == f"{home}/bin/python"  # type: ignore[union-attr]
    assert facts.variables.value["LD_LIBRARY_PATH"] == f"{home}/lib:/usr/local/cuda-12.4/lib64"  # type: ignore[union-attr]
    assert facts.variables.value["CONDA_DEFAULT_ENV"] == home.rpartition("/")[2]  # type: ignore[union-attr]
    assert facts.variables.value["CUDA_VISIBLE_DEVICES"] == "GPU-<uuid-1>"  # type: ignore[union-attr]
    assert facts.gpus.value[0].uuid.value == "GPU-<uuid-1>"  # type: ignore[union-attr]
    log = facts.tensorflow.log.value  # type: ignore[union-attr]
    assert log[1].endswith("hostname: <host-1>")
    assert log[3].startswith("Nov 21 10:00:00 <host-1> kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=4711")
    assert log[4].startswith("(tf) <user>@<host-1>:~/<path-")


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-cublas-cu12<13.0,>=12.5.3.2 and nvidia-curand-cu12 10.3.6.82, libcublas.so.12.5.3.2",
        "cuDNN 9.3.0.75; Found version 9.10.2.21; nvidia-cudnn-cu12==9.3.0.75",
        "/job:localhost/replica:0/task:0/device:GPU:0 and /physical_device:GPU:0",
        "0000:65:00.0 00000000:17:00.0 10de:2684 12:34:56.789 std::vector<int> google.protobuf.internal",
        "'/job:localhost/replica:0/task:0/device:GPU:0' WSL 1.2.0.0, kernel 5.15.90.1, 11.8/8.7.0.84",
        "nvidia-cudnn-cu12==9.1.0.70 contains cuDNN 9.1.0.70; the installer meets all of /srv/requirements.txt",
        "typing-extensions           3.7.4.3  0        conda-forge/noarch",
        "Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice; /path/to/python",
        "127.0.0.1:8888 0.0.0.0 ::1 localhost:2222",
        "5.15.153.1-microsoft-standard-WSL2 Driver Version: 550.54.14",
        "/usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12.4.127",
        "/root/miniconda3/envs/tf/lib/python3.10/site-packages/tensorflow/python/pywrap.py",
        "https://www.tensorflow.org/install/pip and https://docs.nvidia.com/deploy/cuda-compatibility/index.html",
        "either CPU/GPU and/or <b>bold</b>; token 3 of 512, max_tokens=100",
        "image: nvcr.io/nvidia/tensorflow@sha256:0123, git@github.com, cuda@12.4",
        "Package tensorflow 2.21.0, key: value, primary_key = 5",
        "E0000 00:00:1763719200.123456 4711 cuda_dnn.cc:8310] Unable to register cuDNN factory",
    ],
)
def test_what_is_not_private_stays(text: str) -> None:
    assert Redactor((text,)).text(text) == text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("/home/bob/plans/.venv/bin/python", "/home/<user>/<path-1>/.venv/bin/python"),
        ("/Users/bob/miniconda3/envs/tf/bin/python", "/Users/<user>/miniconda3/envs/tf/bin/python"),
        (r"C:\Users\Bob Q\venv\Scripts\python.exe", r"C:\Users\<user>\venv\Scripts\python.exe"),
        (r"'C:\\Users\\bob\\AppData\\Local\\Temp'", r"'C:\\Users\\<user>\\AppData\\Local\\Temp'"),
        ("/mnt/c/Users/bob/code", "/mnt/c/Users/<user>/code"),
        ("/var/home/bob/plans/secret.py", "/var/home/<user>/<path-1>/<path-2>.py"),
        ("/root/plans/model.py", "/root/<path-1>/model.py"),
        ("/home/bob and /home/eve and /home/bob", "/home/<user> and /home/<user-2> and /home/<user>"),
        ("file:///home/bob/env/acme.whl", "file:///home/<user>/env/<path-1>.whl"),
        ("https://bob:hunter2@pkgs.acme.example/simple", "https://<secret-1>@<host-1>/<path-1>"),
        ("http://10.1.2.3:8080/v1", "http://<address-1>:8080/v1"),
        ("MASTER_ADDR=10.1.2.3", "MASTER_ADDR=<address-1>"),
        ("curl 10.1.2.3", "curl <address-1>"),
        ("node7       10.1.2.3", "node7       <address-1>"),
        ("from 8.8.4.4", "from <address-1>"),
        ("http://pkgs.acme.example/team-x/simple", "http://<host-1>/<path-1>/<path-2>"),
        ("peer 10.1.2.3, then 192.168.0.7", "peer <address-1>, then <address-2>"),
        ("bob@acme.example wrote", "<email-1> wrote"),
        (f"MIG-{UUID} of GPU-{UUID}", "MIG-<uuid-1> of GPU-<uuid-1>"),
        (f"MIG-GPU-{UUID}/1/0", "MIG-GPU-<uuid-1>/1/0"),
        ("Authorization: Bearer abcdefghijklmnop0123", "Authorization: Bearer <secret-1>"),
        ("[bob@login1 ~]$ srun", "[<user>@<host-1> ~]$ srun"),
        ("srun: error: gpu017: task 0: Killed", "srun: error: <host-1>: task 0: Killed"),
        ("DESKTOP-AB12CD3", "<host-1>"),
        ("eve@login1:~/plans$ ls", "<user>@<host-1>:~/<path-1>$ ls"),
        ("hostname: Zoë-PC, for host: Zoë-PC", "hostname: <host-1>, for host: <host-1>"),
        ("/home/bob/cudonula98/libnverse", "/home/<user>/<path-1>/<path-2>"),
        ("ip-10-0-3-4.ec2.internal", "<host-1>"),
    ],
)
def test_what_is_private_goes(text: str, redacted: str) -> None:
    assert Redactor((text,)).text(text) == redacted
    assert Redactor((redacted,)).text(redacted) == redacted


@pytest.mark.parametrize("user", ["tensorflow", "linux", "cuda", "data", "known", "will", "ok", "numpy", "error"])
def test_a_user_called_like_a_technical_word_leaves_the_words_alone(user: str) -> None:
    before = report({"python.executable": known(f"/home/{user}/env/bin/python")})
    before = msgspec.structs.replace(before, facts=spoil(before.facts, XLA_FLAGS))
    after = redact(before)
    assert after.facts.variables == before.facts.variables
    assert after.facts.python.executable == known("/home/<user>/env/bin/python")
    assert [f.id for f in after.findings] == [f.id for f in before.findings]
    assert after.facts.host == before.facts.host
    assert after.facts.tensorflow == before.facts.tensorflow


def test_spaces_in_a_path_hide_nothing() -> None:
    before = report({"python.executable": known("/home/Ada L/great plans/env/bin/python")})
    text = redact(before).to_json().decode()
    assert "Ada" not in text and "plans" not in text
    texts = Redactor(before).apply(("in /home/Ada L/great plans/env and", "3.12, /home/Ada L/great plans/x.py"))
    assert texts == ("in /home/<user>/<path-1>/env and", "3.12, /home/<user>/<path-1>/x.py")


@pytest.mark.parametrize("folder", [r"C:\tf_jenkins\home\workspace\rel-win", r"T:\src\github\tensorflow"])
def test_the_machines_that_build_tensorflow_are_no_secret(folder: str) -> None:
    line = rf"I {folder}\tensorflow\core\common_runtime\bfc_allocator.cc:679] 3 Chunks of size 98 totalling 2.8MiB"
    assert redact(f"{line}\nC:\\Users\\ada\\x.py") == f"{line}\nC:\\Users\\<user>\\x.py"


def test_what_people_paste_is_diagnosed_alike(outcomes: list[Outcome]) -> None:
    """Every sixth of the collected reports; the whole collection was looked through by hand."""
    wrong = []
    for one in [one for one in outcomes if not one.is_later][::6]:
        before = one.report
        after = redact(before)
        # what is guessed from the words of a text changes with them
        again = diagnose(text_to_facts.read(lines.read([redact(one.case["text"]).encode()]), MATRIX), MATRIX).findings
        if (
            [f.id for f in diagnose(after.facts, MATRIX).findings] != [f.id for f in before.findings]
            or redact(after) != after
            or {f.id for f in again if f.cause != BECAUSE} != {f.id for f in before.findings if f.cause != BECAUSE}
        ):
            wrong.append(one.case["id"])
    assert wrong == []


def made_up(random: Random) -> str:
    """A name that no sentence of ours has, in one of the shapes that names have."""
    word = "".join(random.choice("bcdfghjklmnpqrstvwxz") + random.choice("aeiou") for _ in range(random.randint(3, 5)))
    shapes = (
        word,
        word.title(),
        f"{word}{random.randint(10, 99)}",
        f"{word}.q{word}",
        f"{word}-7{word}",
        f"José{word}",
    )
    return random.choice((*shapes, f"山田{word}", f"{word}_x{word}"))


@pytest.mark.parametrize("seed", range(12))
def test_made_up_names_leave_no_trace(seed: int) -> None:
    random = Random(seed)
    user, host, folder = made_up(random), f"{made_up(random)}{seed}", f"{made_up(random)}q"
    home = random.choice(("/home/", "/Users/", "/mnt/c/Users/", "/var/home/", "/export/home/")) + user
    log = [
        *(f"for host: {host}", f"{user}@{host}:~/{folder}$ ls", f"{host}:12:13 [0] NCCL INFO x", f"on {host}: lost"),
        *(f"owner {user}", f"'{home}/{folder}/a b'", f"--logdir={home}/{folder}", f"<{home}>", f"[{home}/{folder}]"),
        *(rf"C:\Users\{user}\{folder}\x.py", f"file://{home}/{folder}/x", f"~{user}/x", f"{user}'s job"),
        *(f"Linux {host} 5.15.0-1 #1 SMP", f"PATH={home}/bin:/usr/bin", f"cd {home};ls", f"{{'a': '{home}/{folder}'}}"),
    ]
    random.shuffle(log)
    changes = random.choice([row for rows in FIRES.values() for _, row in rows])
    text = msgspec.json.encode(spoil(healthy(), changes)).decode().replace("/env/", f"{home}/{folder}/env/")
    before = report(facts=spoil(msgspec.json.decode(text, type=Facts), {"tensorflow.log": known(tuple(log))}))
    after = redact(before)
    left = after.to_json().decode().lower()
    assert [name for name in (user, host, folder) if name.lower() in left] == []
    assert [f.id for f in diagnose(after.facts, MATRIX).findings] == [f.id for f in before.findings]
    assert redact(after) == after


def test_placeholders_of_an_earlier_redaction_are_not_given_again() -> None:
    text = ("/home/<user>/<path-1>/env", "/home/eve/plans/env")
    assert Redactor(text).apply(text) == (text[0], "/home/<user-2>/<path-2>/env")


@pytest.mark.parametrize("path", ["python.version", "cudnn.runtime", "host.os"])
def test_the_source_of_a_public_fact_is_private(path: str) -> None:
    folder = "/home/ada.lovelace/analytical-engine"
    for fact in (known("3.12.7", f"{folder}/bin/python"), Unknown(f"no file in {folder}", ask=f"ls {folder}")):
        after = redact(report({path: fact}))
        assert "ada" not in after.to_json().decode() and "analytical" not in after.to_json().decode()
    assert look_up(redact(report({path: known("3.12.7", folder)})).facts, path).value == "3.12.7"


def test_no_fact_tells_where_it_was_read() -> None:
    """Neither of a machine that was examined, nor of one where nothing could be."""
    path = "/home/ada.lovelace/analytical-engine"
    text = msgspec.json.encode(of_ada().facts).decode()
    text = re.sub(r'"source":"[^"]*"', f'"source":"{path}"', text)
    nothing = re.sub(r'"reason":"[^"]*"', f'"reason":"in {path}"', msgspec.json.encode(Facts()).decode())
    for facts in (text, nothing):
        after = redact(report(facts=msgspec.json.decode(facts, type=Facts)))
        assert [value for value in PRIVATE if value.lower() in after.to_json().decode().lower()] == []


def test_a_field_that_says_nothing_of_it_is_private() -> None:
    class Undescribed(Record, frozen=True):
        home: Fact[str]

    redacted = Redactor(()).apply(Undescribed(home=known("/home/ada/x", "/home/ada")))
    assert redacted == Undescribed(home=known("/home/<user>/x", "/home/<user>"))


def test_phases_without_anything(  # a report of nothing
) -> None:
    assert redact(report(facts=Facts())).facts == Facts()
    assert Phase(name="import", outcome="ok") == Redactor(()).apply(Phase(name="import", outcome="ok"))
