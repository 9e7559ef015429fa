"""A report of a real H100, edited as it was seen there: limits of the process (`ulimit -v 8000000`, a user who may not
write to /tmp), and damage that the computations outrank, as doctor, smoke and fleet show them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.runner import tfgpu
from tests.findings.test_verified import MATRIX, cudnn_ops_gone, ptxas_gone, saved
from tests.healthy import spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import CallResult, ComputeCheck, Facts, Known, Limit, TemporaryFolder, TfDevice
from tfgpu_doctor.facts.report import Report
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.smoke.running import judge_doctor

REFUSED = (
    "PermissionDeniedError: /tmp/tempfile-vm-fd15ced1f3585be7-5159-661475d903aae; Permission denied\n\tUnable to write "
    "PTX contents to: /tmp/tempfile-vm-fd15ced1f3585be7-5159-661475d903aae"
)


def ulimit(facts: Facts) -> Facts:
    changes = {
        "host.address_space_limit": Known(Limit(8_192_000_000, 8_192_000_000), "getrlimit(RLIMIT_AS)"),
        "driver.cuda_init": Known(CallResult(2, "out of memory", "CUDA_ERROR_OUT_OF_MEMORY"), "cuInit"),
        "tensorflow.devices": Known((TfDevice(name="/physical_device:CPU:0", kind="CPU"),), "tf"),
        "tensorflow.checks": Known((), "tf"),
    }
    return spoil(facts, changes)


def nonroot(facts: Facts) -> Facts:
    assert isinstance(facts.tensorflow.checks, Known)
    checks = [
        ComputeCheck(one.device, one.kind, ok=False, error=REFUSED) if one.kind == "xla" else one
        for one in facts.tensorflow.checks.value
    ]
    folder = Known(TemporaryFolder("/tmp", "default", "Permission denied"), "access(/tmp)")
    return spoil(facts, {"host.temporary_folder": folder, "tensorflow.checks": Known(tuple(checks), "")})


def written(folder: Path, edit: Callable[[Facts], Facts]) -> tuple[Report, str]:
    """A report of the H100, edited, and its file."""
    report = make_report(edit(saved("fixed.json").facts), MATRIX, source="report", timings={})
    path = folder / "report.json"
    path.write_bytes(report.to_json())
    return report, str(path)


@each(
    "edit, cause, says",
    [
        (ulimit, "env.address-space-limit", ("limited to 7.63 GiB", "prlimit")),
        (nonroot, "env.tmpdir-unwritable", ("export TMPDIR=~/tmp",)),
    ],
)
def test_a_limit_of_the_process_is_the_only_cause(
    edit: Callable[[Facts], Facts], cause: str, says: tuple[str, ...], tmp_path: Path
) -> None:
    report, path = written(tmp_path, edit)
    shown = tfgpu("doctor", "--from", path, "-v").stdout
    assert [one.id for one in report.findings if one.root_cause] == [cause]
    assert all(words in shown for words in says)
    # the first three were printed for `ulimit -v 8000000`, with 79.6 GiB free on the GPU
    never = ("another process", "rmmod", "batch size", "\N{REPLACEMENT CHARACTER}")
    assert not [words for words in never if words in shown]
    assert "env.tmpdir-unwritable" in tfgpu("explain", "-", input=REFUSED).stdout


@each("edit", [cudnn_ops_gone, ptxas_gone])
def test_a_damaged_package_beside_verified_computations(edit: Callable[[Facts], Facts], tmp_path: Path) -> None:
    """Doctor, smoke and fleet: a warning."""
    report, path = written(tmp_path, edit)
    check = judge_doctor(report, None, 1.0)
    assert (check.status, check.why) == ("ok", "") and "(tf.install-damaged)" in check.saw
    for command in (("doctor", "--from"), ("fleet",)):
        done = tfgpu(*command, path, "--format", "json", "--no-redact")
        assert done.returncode == 0 and "tf.install-damaged" in done.stdout
