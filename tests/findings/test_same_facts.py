"""The same facts of a machine, found by probes or stated in a text, lead to the same repair: law 11.

For each finding that has signs over facts and signs over messages, a machine of each row (rows_over_facts.py) and what
its owner would paste: what uname, Python, nvidia-smi and pip print there, the variables, and the lines of each row of
texts. The doctor has these lines in its log.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.findings.row_texts import FIRES as TEXTS
from tests.findings.rows_over_facts import FIRES
from tests.healthy import MATRIX, healthy, known, spoil
from tests.parsers.pasted import smi
from tfgpu_doctor.facts.facts import NOT_IN_TEXT, Facts, Known, look_up, value_or
from tfgpu_doctor.facts.report import Finding, Fix, Report
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.parsers import messages as catalogue
from tfgpu_doctor.plan.diagnosis import diagnose

# what a text does not tell, or tells beside these facts → findings whose fix depends on it
RIGHT = {
    "in which files and folders libraries, modules and other Pythons lie": {
        *("cuda.lib-path", "cudnn.lib-path", "tf.shadowed", "tf.wrong-env")
    },
    "which library, package or bug a line names": {
        *("cudnn.dep-missing", "tf.install-damaged", "tf.package-conflict", "xla.ptxas-missing")
    },
    "what the kernel has of the driver's module, and where libcuda lies in WSL2": {"driver.not-loaded", "wsl.setup"},
    "a scheduler, a board or instances that a line names": {"gpu.hidden", "tf.cpu-build", "gpu.mig"},
    "which cuDNN is loaded": {"gpu.arch-too-old"},
    "whether a Python is 32-bit, and its C library is musl": {"tf.python-unsupported"},
    "whose memory nvidia-smi shows: a pasted table may show that of this very program": {"memory.taken"},
}
DIFFERENT = set().union(*RIGHT.values())
_ONLY_LOOK = (
    *("ldconfig -p", "nvidia-smi", "lspci", "ls ", "grep ", "conda list", "tfgpu "),
    *("python3 -c ", "python3 -m pip download"),
)
_AGREEING = (
    *("host.os", "host.distribution_id", "host.address_space_limit", "python.version", "python.wheel_platform"),
    "variables",
    *("tensorflow.version", "driver.version"),
)


def stated(facts: Facts) -> str:
    """What the owner of the machine would paste."""
    python, driver = facts.python, value_or(facts.driver.version, None)
    cards = [
        (value_or(gpu.name, ""), (total - value_or(gpu.memory_free, 0)) // 2**20, total // 2**20)
        for gpu in value_or(facts.gpus, ())
        for total in (value_or(gpu.memory_total, 0),)
    ]
    return "\n".join(
        [
            *_system(facts),
            *([smi(driver, value_or(facts.driver.cuda_supported, "N/A"), cards)] if cards and driver else ()),
            *([f"Python {python.version.value} (main, Oct  1 2024)"] if isinstance(python.version, Known) else ()),
            *(f"{one.name}=={one.version}" for one in value_or(python.packages, ())),
        ]
    )


def _system(facts: Facts) -> Iterator[str]:
    host, os = facts.host, value_or(facts.host.os, "linux")
    if os == "windows":
        yield "Microsoft Windows [Version 10.0.22631.4317]"
    elif os == "macos":
        yield "macOS 14"
    else:
        kernel = "5.15.153.1-microsoft-standard-WSL2" if os == "wsl2" else value_or(host.kernel, "6.8.0")
        yield f"Linux box {kernel} #1 SMP {value_or(host.machine, 'x86_64')} GNU/Linux"
        yield f'PRETTY_NAME="{value_or(host.distribution, "")}"\nID={value_or(host.distribution_id, "")}'
        yield f"flags : fpu sse2 {' '.join(value_or(host.cpu_flags, ()))}"
    yield from (f"export {name}={value}" for name, value in value_or(facts.variables, {}).items())


def _contradicts(machine: Facts, text: Facts) -> bool:
    """Whether lines state something else of the machine than it has."""
    pairs = [(value_or(look_up(machine, path), None), value_or(look_up(text, path), None)) for path in _AGREEING]
    container = value_or(machine.host.container, "none") != value_or(text.host.container, "none")
    return container or any(said not in (None, has) for has, said in pairs)


def _certain(text: Facts) -> Facts:
    """The facts without what is inferred, which more lines may correct."""
    facts = ((path, look_up(text, path)) for path in _AGREEING)
    return spoil(text, {path: NOT_IN_TEXT for path, one in facts if isinstance(one, Known) and one.grade == "inferred"})


def _are_alike(machine: Facts, text: Facts) -> bool:
    """Whether the lines state all of the machine, and nothing else."""
    listed = [
        (
            [(one.name, one.version) for one in value_or(facts.python.packages, ())],
            [value_or(one.name, "") for one in value_or(facts.gpus, ())],
        )
        for facts in (machine, text)
    ]
    return listed[0] == listed[1] and not _contradicts(machine, text)


def _cases(judged: dict[str, Report], share: int) -> Iterator[tuple[str, str, Facts, Facts]]:
    """Finding, names of the rows, machine and text."""
    for finding in FIRES.keys() & TEXTS.keys():
        for place, (row, changes) in enumerate(FIRES[finding]):
            plain = spoil(healthy(), changes)
            texts = TEXTS[finding].items() if "messages" not in changes else ()
            for name, printed in [*texts][place % share :: share]:
                if _contradicts(plain, _certain(judged[printed].facts)):
                    continue
                log = Known(catalogue.read(lines.read([printed.encode()]).lines), "TensorFlow's log")
                text = text_to_facts.read(lines.read([f"{stated(plain)}\n{printed}".encode()]))
                if _are_alike(plain, text):
                    shown = tuple(one for one in value_or(text.messages, ()) if one.kind != "resembles")
                    text = spoil(text, {"messages": known(shown, "the text")})
                    yield finding, f"{row} | {name}", spoil(plain, {"messages": log}), text


def _found(finding: str, facts: Facts) -> Finding | None:
    return next(iter(diagnose(facts, MATRIX, declarations=[DECLARATIONS[finding]]).findings), None)


def _advice(one: Finding) -> list[Fix]:
    """Its fixes for the Python that the terminal starts, without those that only look."""
    return [
        Fix(fix.text, tuple(command.replace("/env/bin/python", "python3") for command in fix.commands))
        for fix in one.fixes
        if not fix.decides and not all(command.startswith(_ONLY_LOOK) for command in fix.commands)
    ]


@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.full)])  # of the texts of each row
def test_the_same_facts_lead_to_the_same_repair(share: int, judged_rows: dict[str, Report]) -> None:
    compared, differ = 0, {}
    for finding, name, machine, text in _cases(judged_rows, share):
        found, explained = _found(finding, machine), _found(finding, text)
        if found is None or explained is None or explained.possible:
            continue
        compared += 1
        repairs, others = _advice(found), _advice(explained)
        if others and others[0].commands not in [one.commands for one in repairs]:
            differ.setdefault(finding, f"{name}\n  {repairs}\n  {others}")
    assert compared > 300 / share
    assert {one: how for one, how in differ.items() if one not in DIFFERENT} == {}
    assert share > 1 or set(differ) == DIFFERENT
