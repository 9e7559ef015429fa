"""The reports of a real H100 through the commands: doctor --from, smoke's judgement, a fleet of 1,000; and limits of
the process, as they were seen there (`ulimit -v 8000000`, a user who may not write to /tmp).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tests.cli.runner import tfgpu
from tests.findings.test_verified import H100, MATRIX, cudnn_ops_gone, ptxas_gone, saved
from tfgpu_doctor.facts.facts import CallResult, ComputeCheck, Facts, Known, Limit, TemporaryFolder, TfDevice
from tfgpu_doctor.facts.report import Report
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.smoke.running import judge_doctor

# what was printed for `ulimit -v 8000000`, with 79.6 GiB free on the GPU
NEVER = ("another process", "rmmod", "batch size")
REFUSED = (
    "PermissionDeniedError: /tmp/tempfile-vm-fd15ced1f3585be7-5159-661475d903aae; Permission denied\n\tUnable to write "
    "PTX contents to: /tmp/tempfile-vm-fd15ced1f3585be7-5159-661475d903aae"
)


def edited(facts: Facts, **changes: dict[str, Any]) -> Facts:
    records = {name: msgspec.structs.replace(getattr(facts, name), **fields) for name, fields in changes.items()}
    return msgspec.structs.replace(facts, **records)


def ulimit(facts: Facts) -> Facts:
    cpu = (TfDevice(name="/physical_device:CPU:0", kind="CPU"),)
    return edited(
        facts,
        host={"address_space_limit": Known(Limit(8_192_000_000, 8_192_000_000), "getrlimit(RLIMIT_AS)")},
        driver={"cuda_init": Known(CallResult(2, "out of memory", "CUDA_ERROR_OUT_OF_MEMORY"), "cuInit")},
        tensorflow={"devices": Known(cpu, "tf"), "checks": Known((), "tf")},
    )


def nonroot(facts: Facts) -> Facts:
    assert isinstance(facts.tensorflow.checks, Known)
    failed = (
        ComputeCheck(one.device, one.kind, ok=False, error=REFUSED) if one.kind == "xla" else one
        for one in facts.tensorflow.checks.value
    )
    return edited(
        facts,
        host={"temporary_folder": Known(TemporaryFolder("/tmp", "default", "Permission denied"), "access(/tmp)")},
        tensorflow={"checks": Known(tuple(failed), "")},
    )


def written(folder: Path, edit: Callable[[Facts], Facts]) -> tuple[Report, str]:
    """A report of the H100, edited, and its file."""
    report = make_report(edit(saved("fixed.json").facts), MATRIX, source="report", timings={})
    path = folder / "report.json"
    path.write_bytes(report.to_json())
    return report, str(path)


def test_saved_reports() -> None:
    for name, code, first in (("as-installed", 1, ["cuda.lib-path"]), ("fixed", 0, [])):
        done = tfgpu("doctor", "--from", str(H100 / f"{name}.json"), "--format", "json", "--no-redact")
        found = [one["id"] for one in json.loads(done.stdout)["findings"]]
        assert (done.returncode, done.stderr, found[:1]) == (code, "", first), name


def test_a_limit_of_the_address_space_is_no_trouble_with_the_driver(tmp_path: Path) -> None:
    report, path = written(tmp_path, ulimit)
    shown = tfgpu("doctor", "--from", path, "-v").stdout
    assert [one.id for one in report.findings if one.root_cause] == ["env.address-space-limit"]
    assert "limited to 7.63 GiB" in shown and "prlimit" in shown
    assert not [words for words in NEVER if words in shown]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    report, path = written(tmp_path, nonroot)
    assert [one.id for one in report.findings if one.root_cause] == ["env.tmpdir-unwritable"]
    shown = tfgpu("doctor", "--from", path, "-v").stdout
    assert "export TMPDIR=~/tmp" in shown and "\N{REPLACEMENT CHARACTER}" not in shown
    shown = tfgpu("explain", "-", input=REFUSED).stdout
    assert "env.tmpdir-unwritable" in shown and "\N{REPLACEMENT CHARACTER}" not in shown


def test_a_damaged_package_beside_verified_computations(tmp_path: Path) -> None:
    """Doctor, smoke and fleet: a warning."""
    for edit in (cudnn_ops_gone, ptxas_gone):
        report, path = written(tmp_path, edit)
        done = tfgpu("doctor", "--from", path, "-v")
        assert (done.returncode, report.verdict, "tf.install-damaged" in done.stdout) == (0, "degraded", True)
        check = judge_doctor(report, None, 1.0)
        assert (check.status, check.why) == ("ok", "") and "(tf.install-damaged)" in check.saw
        fleet = tfgpu("fleet", path, "--format", "json", "--no-redact")
        assert fleet.returncode == 0 and "tf.install-damaged" in fleet.stdout
