"""A run of pytest that has the plugin by its entry point, on a machine of which a report was saved."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from tests.healthy import MATRIX, gpu, healthy, known
from tfgpu_doctor.facts.facts import Facts, Gpu, TfDevice, Unknown
from tfgpu_doctor.plan.diagnosis import make_report

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
GIB = 2**30


def facts_with(*gpus: Gpu, visible: str | None = None, listed: tuple[int, ...] | None = None) -> Facts:
    """The healthy machine with these GPUs; TensorFlow lists all of them, or those with the numbers `listed`."""
    facts = healthy()
    chosen = gpus if listed is None else [gpus[number] for number in listed]
    devices = [TfDevice(name="/physical_device:CPU:0", kind="CPU")]
    devices += [
        TfDevice(
            name=f"/physical_device:GPU:{number}",
            kind="GPU",
            device_name=one.name.value,  # type: ignore[union-attr]
            compute_capability=one.compute_capability.value,  # type: ignore[union-attr]
        )
        for number, one in enumerate(chosen)
    ]
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return msgspec.structs.replace(
        facts,
        gpus=known(gpus, "NVML"),
        variables=known(variables),
        tensorflow=msgspec.structs.replace(
            facts.tensorflow,
            devices=known(tuple(devices)),
            checks=Unknown("not asked"),
        ),
    )


def small(index: int) -> Gpu:
    """An RTX 3060."""
    return gpu(index, name="NVIDIA GeForce RTX 3060", compute_capability="8.6", memory_total=12 * GIB)


def save(path: Path, facts: Facts) -> str:
    """Write a report of the doctor, and return its path."""
    report = make_report(facts, MATRIX, source="live", timings={})
    path.write_bytes(msgspec.json.encode(report))
    return str(path)


def install(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let pytest find the plugin as it does where tfgpu is installed: by the metadata of a distribution."""
    metadata = folder / "tfgpu_under_test-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tfgpu-under-test\nVersion: 1\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [f"{name} = {module}" for name, module in project["entry-points"]["pytest11"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    patch.syspath_prepend(str(folder))
    patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))
    for name in [name for name in os.environ if name.startswith(("TFGPU_", "PYTEST_", "CUDA_", "TF_"))]:
        patch.delenv(name)
    patch.setenv("COLUMNS", "300")  # else the summary cuts reasons off
