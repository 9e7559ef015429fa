"""Results of several nodes as tools print them: each as its source or a run of it shows.

Runs: pdsh 2.34 and dshbak (`pdsh -R exec`), ClusterShell 1.10 (`clush -R exec`), Ansible 2.19 (connection=local, and a
host that refuses ssh), Ray 2.60 on one machine. Sources: Slurm's write_labelled_message.c and manual of srun (--label),
kubectl's addPrefixIfNeeded (pkg/cmd/logs), docker compose's LogPrinter, Open MPI's manual of mpirun (--tag-output), the
callback ansible.posix.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest

Texts = dict[str, str]  # name of a node → what its command printed


def _together(texts: Texts, label: Callable[[str], str]) -> str:
    """The lines of all nodes in turns, each with what the tool puts before it."""
    rows = zip_longest(*([f"{label(name)}{line}" for line in text.splitlines()] for name, text in texts.items()))
    return "".join(f"{line}\n" for row in rows for line in row if line is not None)


def plain(texts: Texts) -> str:
    return "".join(texts.values())


def noisy(texts: Texts) -> str:
    """With lines of other programs, as they stand in the log of a job."""
    lines = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n[1/3] {x} done\n\n"
    return lines + lines.join(texts.values()) + "{'not': 'JSON'}\n[]\n{}\n"


def srun(texts: Texts) -> str:
    order = list(texts)
    return _together(texts, lambda name: f"{order.index(name):>2}: ")


def mpirun(texts: Texts) -> str:
    order = list(texts)
    return _together(texts, lambda name: f"[1,{order.index(name)}]<stdout>:")


def kubectl(texts: Texts) -> str:
    return _together(texts, lambda name: f"[pod/{name}/tfgpu] ")


def kubectl_with_times(texts: Texts) -> str:
    texts = {
        name: "".join(f"2026-11-23T10:00:{n % 60:02}.{n:09}Z {line}\n" for n, line in enumerate(text.splitlines()))
        for name, text in texts.items()
    }
    return kubectl(texts)


def ray(texts: Texts) -> str:
    order = list(texts)
    return _together(texts, lambda name: f"\x1b[36m(doctor pid={order.index(name) + 812}, ip=10.0.0.1)\x1b[0m ")


def pdsh(texts: Texts) -> str:
    return _together(texts, lambda name: f"{name}: ") + "".join(
        f"pdsh@login: {name}: tfgpu exited with exit code 1\n" for name in texts
    )


def clush(texts: Texts) -> str:
    folded = f"{next(iter(texts))[:-1]}[{','.join(name[-1] for name in texts)}]"
    return _together(texts, lambda name: f"{name}: ") + f"clush: {folded} ({len(texts)}): exited with exit code 1\n"


def dshbak(texts: Texts) -> str:
    return "".join(f"{16 * '-'}\n{name}\n{16 * '-'}\n{text}" for name, text in texts.items())


def clush_b(texts: Texts) -> str:
    return "".join(f"{15 * '-'}\n{name}\n{15 * '-'}\n{text}" for name, text in texts.items())


def compose(texts: Texts) -> str:
    return _together(texts, lambda name: f"{name}-1  | ")


def ansible(texts: Texts) -> str:
    return "".join(f"{name} | CHANGED | rc=0 >>\n{text}" for name, text in texts.items())


def ansible_failed(texts: Texts) -> str:
    """The doctor found a problem, and ended with 1."""
    head = "[ERROR]: Task failed: Module failed: non-zero return code\nOrigin: <adhoc 'command' task>\n\n"
    return head + "".join(
        f"{name} | FAILED | rc=1 >>\n{text.rstrip()}non-zero return code\n" for name, text in texts.items()
    )


def _answer(text: str, code: int) -> dict[str, object]:
    return {
        "changed": True,
        "cmd": ["tfgpu", "doctor", "--format", "json"],
        "delta": "0:00:02.029026",
        "msg": "non-zero return code" if code else "",
        "rc": code,
        "stderr": "",
        "stderr_lines": [],
        "stdout": text.rstrip("\n"),
        "stdout_lines": text.splitlines(),
    }


def ansible_o(texts: Texts) -> str:
    return "".join(
        f"{name} | CHANGED | rc=0 | (stdout) {text.rstrip().replace(chr(10), chr(92) + 'n')}\n"
        for name, text in texts.items()
    )


def ansible_o_failed(texts: Texts) -> str:
    """Ansible 2.19 prints what failed twice."""
    return "".join(
        f"{name} | FAILED | rc=1 | (stdout) {text.rstrip().replace(chr(10), chr(92) + 'n')} (stderr) tfgpu: {{ }}\n"
        f"{name} | FAILED! => {json.dumps(_answer(text, 1), separators=(',', ':'))}\n"
        for name, text in texts.items()
    )


def ansible_module(texts: Texts) -> str:
    """What a module that is no command prints, as does the callback minimal where it does not know that it is one."""
    return "".join(f"{name} | SUCCESS => {json.dumps(_answer(text, 0), indent=4)}\n" for name, text in texts.items())


def playbook(texts: Texts) -> str:
    head = "\nPLAY [all] *****\n\nTASK [command] ****\n"
    failed = (
        f"fatal: [{name}]: FAILED! => {json.dumps(_answer(text, 1))}\n...ignoring\n" for name, text in texts.items()
    )
    shown = (
        f"ok: [{name}] => {json.dumps({'result.stdout': text.rstrip()}, indent=4)}\n" for name, text in texts.items()
    )
    recap = (f"{name:<26} : ok=3    changed=1    unreachable=0    failed=0\n" for name in texts)
    return "".join([head, *failed, "\nTASK [debug] ****\n", *shown, "\nPLAY RECAP ****\n", *recap])


def playbook_v(texts: Texts) -> str:
    return "".join(f"changed: [{name}] => {json.dumps(_answer(text, 0))}\n" for name, text in texts.items())


def playbook_delegated(texts: Texts) -> str:
    """`debug: var=result`: the answer as an object below the name of the variable."""
    return "".join(
        f"ok: [{name} -> localhost] => {json.dumps({'result': _answer(text, 0)}, indent=4)}\n"
        for name, text in texts.items()
    )


def ansible_json(texts: Texts) -> str:
    hosts: dict[str, object] = {name: _answer(text, 1) for name, text in texts.items()}
    hosts["gpu-9"] = {"changed": False, "msg": "Failed to connect to the host via ssh", "unreachable": True}
    task = {"hosts": hosts, "task": {"name": "tfgpu", "duration": {"start": "2026-11-23T10:00:00Z"}}}
    found = {"custom_stats": {}, "global_custom_stats": {}, "plays": [{"play": {"name": "all"}, "tasks": [task]}]}
    return json.dumps({**found, "stats": {}}, indent=4) + "\n"


def ansible_json_after_noise(texts: Texts) -> str:
    return "[WARNING]: Host key checking is off\n" + ansible_json(texts)


def cut_into(text: str, size: int, label: str) -> Iterator[str]:
    """Srun breaks long lines into pieces of 1024 bytes, each with its label."""
    yield from (f"{label}{text[n : n + size]}\n" for n in range(0, len(text), size))


def srun_in_pieces(texts: Texts) -> str:
    order = list(texts)
    rows = zip_longest(*(cut_into(text.rstrip("\n"), 1024, f"{order.index(name)}: ") for name, text in texts.items()))
    return "".join(piece for row in rows for piece in row if piece is not None)


def array(texts: Texts) -> str:
    """As `jq -s .` makes it of several files."""
    return json.dumps([json.loads(text) for text in texts.values()], indent=2) + "\n"


def array_on_a_line(texts: Texts) -> str:
    return json.dumps([json.loads(text) for text in texts.values()])


NAMING: Iterable[Callable[[Texts], str]] = (
    *(kubectl, kubectl_with_times, pdsh, clush, dshbak, clush_b, ansible, ansible_failed, ansible_o),
    *(ansible_o_failed, ansible_module, playbook, playbook_v, playbook_delegated, ansible_json),
    *(ansible_json_after_noise,),
)
NUMBERING: Iterable[Callable[[Texts], str]] = (srun, mpirun)
"""Tools that name the nodes themselves, and those that number them."""
OTHERS: Iterable[Callable[[Texts], str]] = (plain, noisy, array, array_on_a_line, ray)
