"""What an import raises in a live run is recognised as it is in a pasted text."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.findings.logs import text
from tests.findings.row_texts import TEXTS
from tests.findings.test_signs_over_messages import findings
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import Facts, Phase
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.probes.examine import _messages

_PYWRAP = "/env/lib/python3.12/site-packages/tensorflow/python/_pywrap_tensorflow_internal.so"
_WINDOWS = {"host.os": known("windows"), "python.wheel_platform": known("windows_amd64")}
RAISED: list[dict[str, Any]] = TEXTS["raised"]  # what the import raised, and the end of its log


def machine(exception: str, log: tuple[str, ...] = (), **changes: Any) -> Facts:
    """A machine on which the import raised this; its messages are read as the probe reads them."""
    ok = healthy().tensorflow.phases
    phases = tuple(
        Phase(name=phase.name, outcome="raised", exception=exception, log_tail=log)
        if phase.name == "import"
        else msgspec.structs.replace(phase, outcome="ok" if number < 2 else "skipped")
        for number, phase in enumerate(ok)
    )
    facts = spoil(healthy(), {"tensorflow.phases": phases, "tensorflow.log": known(()), **changes})
    return spoil(facts, {"messages": _messages(facts.tensorflow, facts.driver)})


@each("row", RAISED)
def test_the_root_cause_is_named_as_in_a_pasted_text(row: dict[str, Any]) -> None:
    changes = _WINDOWS if "windows" in row else {}
    found = diagnose(machine(row["raised"], tuple(row.get("log", ())), **changes), MATRIX).findings
    causes = [one.id for one in found if one.root_cause and one.severity.value == "error"]
    assert causes[:1] == [row["finding"]], [one.id for one in found]
    assert "tf.import-failed" not in causes
    assert row["finding"] in [one.id for one in findings(text(*row.get("log", ()), row["raised"]))]


def test_an_exception_that_nobody_knows_stays_unexplained() -> None:
    """ "DLL load failed" tells something on Windows alone."""
    for raised in ("RuntimeError: broken", "ImportError: DLL load failed while importing _pywrap_tensorflow_internal"):
        found = diagnose(machine(raised), MATRIX).findings
        assert [one.id for one in found if one.root_cause] == ["tf.import-failed"]


def test_the_c_library_of_this_machine_is_evidence() -> None:
    found = diagnose(machine("ImportError: /lib64/libc.so.6: version `GLIBC_2.27' not found"), MATRIX).findings
    assert (found[0].evidence[0].saw, found[0].evidence[0].need) == ("glibc 2.39", "GLIBC_2.27 or newer")


@each(
    ("library", "version"),
    [("libstdc++.so.6", "GLIBCXX_3.4.19"), ("libstdc++.so.6", "CXXABI_1.3.7"), ("libc.so.6", "GLIBC_2.17")],
)
def test_an_older_library_on_ld_library_path_is_taken_off(library: str, version: str) -> None:
    """Not conda and not a newer distribution: the system has what TensorFlow needs."""
    raised = f"ImportError: /old/lib/{library}: version `{version}' not found (required by {_PYWRAP})"
    path = known({"LD_LIBRARY_PATH": "/opt/mine:/old/lib/"})
    (found,) = (one for one in diagnose(machine(raised, variables=path), MATRIX).findings if one.root_cause)
    assert found.title == f"LD_LIBRARY_PATH puts an older {library} before the one of the system"
    assert [one.commands for one in found.fixes] == [("export LD_LIBRARY_PATH=/opt/mine",)]
    elsewhere = known({"LD_LIBRARY_PATH": "/env/lib/python3.12/site-packages/tensorflow/python:/lib"})
    found = diagnose(machine(raised, variables=elsewhere), MATRIX).findings[0]
    assert "LD_LIBRARY_PATH" not in found.title
