"""Every sign over facts, on the rows of rows_over_facts.py: a failure names finding and row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.findings.rows_over_facts import FIRES, NEVER_UNKNOWN, PASSES, TWO_FOLDERS, WHY, logged, phases
from tests.healthy import MATRIX, SITE, gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.distributions import TENSORFLOW
from tfgpu_doctor.facts.facts import Build, Facts, GpuProcess, Message, Package, Python
from tfgpu_doctor.facts.report import Finding, Severity
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import Declaration, Sign
from tfgpu_doctor.findings.inputs import facts_behind
from tfgpu_doctor.plan.diagnosis import diagnose
from tfgpu_doctor.probes.tensorflow_probe import TENSORFLOWS


def fired(changes: dict[str, Any], **options: Any) -> list[str]:
    return [finding.id for finding in diagnose(spoil(healthy(), changes), MATRIX, **options).findings]


def what_is_wrong(finding: str, changes: dict[str, Any]) -> str | None:
    """Why a row of FIRES does not hold."""
    found = {one.id: one for one in diagnose(spoil(healthy(), changes), MATRIX).findings}
    if finding not in found:
        return f"found instead: {list(found)}"
    return None if found[finding].evidence and found[finding].cause else "has no evidence, or no cause"


def test_fires() -> None:
    """Also where the log of a live run is empty: that there are messages does not mean that the facts are of a text."""
    rows = [(finding, name, changes) for finding, rows in FIRES.items() for name, changes in rows]
    rows += [
        (finding, f"{name}, and a log", {"messages": known(()), **changes}) for finding, name, changes in rows[::3]
    ]
    wrong = [(finding, name, why) for finding, name, row in rows if (why := what_is_wrong(finding, row))]
    assert wrong == [], "\n".join(map(str, wrong))


def test_passes() -> None:
    rows = [(finding, name, changes) for finding, rows in PASSES.items() for name, changes in rows]
    assert [(finding, name) for finding, name, changes in rows if finding in fired(changes)] == []


def test_is_unknown_without_its_needs() -> None:
    """Without the facts behind it a check is open, and nothing is found."""
    diagnosis = diagnose(Facts(), MATRIX, require_gpus=1)
    assert diagnosis.findings == ()
    assert set(FIRES) - NEVER_UNKNOWN - {one.id for one in diagnosis.undetermined} == set()
    for finding in FIRES:
        first, *others = DECLARATIONS[finding].signs
        needed = {path for name in first.required for path in facts_behind(name)}
        unknown = {path: WHY for path in needed if path not in ("tensorflow.phases", "messages")}
        if unknown and not others:
            assert finding not in fired({**FIRES[finding][0][1], **unknown}), finding


def test_healthy_machine_has_no_finding() -> None:
    diagnosis = diagnose(healthy(), MATRIX)
    assert (diagnosis.findings, diagnosis.undetermined) == ((), ())


def test_every_finding_has_rows() -> None:
    # signs over messages have texts as their rows (test_signs_over_messages.py)
    ids = {i for i, one in DECLARATIONS.items() if any(not sign.reads_messages for sign in one.signs)}
    assert ids - set(FIRES) == {"gpu.fewer-than-required"}
    assert set(FIRES) | set(PASSES) <= ids


def test_every_sign_fires_on_a_row() -> None:
    """A sign that no row of FIRES shows is named here."""
    without = [
        f"{finding}: {sign.decide.__name__}"
        for finding, declared in DECLARATIONS.items()
        for sign in declared.signs
        if not sign.reads_messages and not {"planned", "required_gpus"} & set(sign.required)
        if not any(fires_alone(declared, sign, changes) for _, changes in FIRES[finding])
    ]
    assert without == [], "\n".join(map(str, without))


def fires_alone(declared: Declaration, sign: Sign, changes: dict[str, Any]) -> bool:
    alone = replace(declared, signs=[sign], symptoms=())
    return bool(diagnose(spoil(healthy(), changes), MATRIX, declarations=[alone]).findings)


def test_rows_and_the_probe_know_the_same_distributions() -> None:
    assert set(TENSORFLOWS) == set(TENSORFLOW)


def test_required_gpus() -> None:
    assert "gpu.fewer-than-required" in fired({}, require_gpus=2)
    assert "gpu.fewer-than-required" not in fired({}, require_gpus=1)
    diagnosis = diagnose(
        spoil(healthy(), {"tensorflow.devices": WHY, "gpus": WHY, "host.pci_gpus": WHY}), MATRIX, require_gpus=1
    )
    assert "gpu.fewer-than-required" in [item.id for item in diagnosis.undetermined]


@each("finding", ["gpu.arch-too-old", "gpu.arch-too-new"])
def test_a_gpu_that_probes_see_weighs_as_much_when_something_was_printed(finding: str) -> None:
    """Only what a person wrote is softened beside what programs print."""
    failure = Message("no-kernel-image", 1, "no kernel image is available for execution on the device", {})
    changes = {**FIRES[finding][0][1], "messages": known((failure,), "TensorFlow's log")}
    found = {one.id: one for one in diagnose(spoil(healthy(), changes), MATRIX).findings}
    assert found[finding].severity is Severity.ERROR


@each("name", ["import", "keras", "build", "devices", "details", "compute", "xla"])
def test_a_limit_of_the_user_is_no_fault_of_tensorflow(name: str) -> None:
    """Whatever phase a short --timeout ends, it is a note; one that had its time, or did nothing, is an error."""
    ways = ({"seconds": 1.0}, {"seconds": 19.0}, {"seconds": 180.0})
    changes = [{"tensorflow.phases": phases(name, "timeout", **way)} for way in ways]
    worst = [max(one.severity is Severity.ERROR for one in judged) for judged in map(_about_phases, changes)]
    assert worst == [False, False, True]


def _about_phases(changes: dict[str, Any]) -> list[Finding]:
    found = diagnose(spoil(healthy(), changes), MATRIX).findings
    return [one for one in found if one.id in ("tf.import-hang", "tf.import-failed", "tf.run-failed")]


def test_python_section_alone_is_enough_for_an_answer() -> None:
    facts = Facts(
        python=Python(
            version=known("3.14.1"),
            wheel_platform=known("linux_x86_64"),
            packages=known(()),
            tensorflow_paths=known(()),
        )
    )
    assert [f.id for f in diagnose(facts, MATRIX).findings] == ["tf.python-unsupported", "tf.not-installed"]


def test_before_2_1_the_gpu_build_is_a_package_of_its_own() -> None:
    changes = {"tensorflow.version": known("1.15.5"), "tensorflow.build": known(Build(is_cuda_build=False))}
    old = {"python.version": known("3.7.9"), "gpus": known((gpu(name="Tesla V100", compute_capability="7.0"),))}
    found = next(f for f in diagnose(spoil(healthy(), {**changes, **old}), MATRIX).findings if f.id == "tf.cpu-build")
    assert found.fixes[0].commands[-1] == "/env/bin/python -m pip install tensorflow-gpu==1.15.5"
    modern = {"tensorflow.distribution": known("tensorflow-cpu"), "tensorflow.build": known(Build(is_cuda_build=False))}
    found = next(f for f in diagnose(spoil(healthy(), modern), MATRIX).findings if f.id == "tf.cpu-build")
    assert all("tensorflow-gpu" not in command for fix in found.fixes for command in fix.commands)


def test_a_package_found_twice_is_shadowing_and_the_fix_is_the_path() -> None:
    """pip sees one of them; uninstalling it leaves, or brings, the other."""
    changes = {**TWO_FOLDERS, "variables": known({"PYTHONPATH": "/opt/pylibs:/srv/lib"})}
    found = diagnose(spoil(healthy(), changes), MATRIX).findings
    assert [(one.id, one.severity.value) for one in found] == [("tf.shadowed", "warning")]
    assert found[0].title == "tensorflow 2.20.0 in /opt/pylibs shadows tensorflow 2.21.0"
    assert [fix.commands for fix in found[0].fixes] == [("export PYTHONPATH=/srv/lib",)]
    changes["tensorflow.phases"] = phases("import", "raised", exception="ImportError: broken")
    found = diagnose(spoil(healthy(), changes), MATRIX).findings
    assert [(one.id, one.severity.value) for one in found if one.root_cause] == [("tf.shadowed", "error")]


def test_two_releases_in_one_folder_are_uninstalled_by_one_name() -> None:
    twice = tuple(Package(name="tensorflow", version=version, location=SITE) for version in ("2.20.0", "2.21.0"))
    found = diagnose(spoil(healthy(), {"python.packages": known(twice)}), MATRIX).findings
    assert [one.id for one in found] == ["tf.package-conflict"]
    assert found[0].fixes[0].commands[0].endswith("pip uninstall -y tensorflow")


def test_an_allocation_that_fails_beside_another_process_is_an_error_of_that() -> None:
    other = known((gpu(memory_free=60 * 2**30, processes=(GpuProcess(pid=7, memory=2**36),)),))
    found = {one.id: one for one in diagnose(spoil(healthy(), {"gpus": other}), MATRIX).findings}
    assert found["memory.taken"].severity is Severity.WARNING
    changes = {"gpus": other, "messages": logged("ResourceExhaustedError: OOM when allocating tensor with shape[64,9]")}
    found = {one.id: one for one in diagnose(spoil(healthy(), changes), MATRIX).findings}
    assert found["memory.taken"].severity is Severity.ERROR
    assert found["memory.taken"].consequences == ("memory.oom",)
    assert "ps -o pid,user,etime,command -p 7" in found["memory.taken"].fixes[0].commands
