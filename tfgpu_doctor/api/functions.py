"""What Python programs call: the commands of tfgpu as typed functions over the same records.

An argument has the meaning, the default and the checks of the option of the same name on the command line (`tfgpu help
COMMAND`), its TFGPU_* variable included. Every function raises UsageError for a wrong argument or a file that cannot
be read, and TfgpuError where there is no result; the message is that of the command line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, overload

from tfgpu_doctor.api.calling import Option, call, captured, result_of
from tfgpu_doctor.api.errors import TfgpuError, UsageError
from tfgpu_doctor.records.printable import utf8

if TYPE_CHECKING:
    from tfgpu_doctor.bench.comparison import BenchComparison
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.compare.records import Comparison
    from tfgpu_doctor.manifests import Kind
    from tfgpu_doctor.plan.records import Plan
    from tfgpu_doctor.records.checked import Checked
    from tfgpu_doctor.records.report import Report

_File: TypeAlias = str | os.PathLike[str]
_Names: TypeAlias = str | Sequence[str]
_Os: TypeAlias = Literal["linux", "windows", "wsl2", "macos"]
_Record = TypeVar("_Record")


def diagnose(
    python: _File | None = None,
    *,
    saved: _File | None = None,
    import_tensorflow: bool = True,
    timeout: float | None = None,
    require_gpus: int | None = None,
    only: _Names = (),
    skip: _Names = (),
    matrix: _File | None = None,
) -> Report:
    """Diagnose this machine and the TensorFlow of a Python interpreter, as `tfgpu doctor` does.

    TensorFlow is imported in a child process, never in this one.

    Args:
        python: interpreter, its environment, or its version; None: the one that runs this.
        saved: diagnose this saved report instead of this machine.
        import_tensorflow: False: only check what is installed, which takes a second.
        timeout: limit for importing and testing TensorFlow, in seconds.
        require_gpus: report an error if TensorFlow can use fewer GPUs.
        only, skip: ids of findings.
        matrix: file with rows that extend those of the bundled matrix.

    >>> report = diagnose(import_tensorflow=False)
    >>> report.verdict in ("ok", "degraded", "broken", "unknown")
    True
    """
    from tfgpu_doctor.records.report import Report

    return call(
        Report,
        "doctor",
        python=python,
        from_=saved,
        no_import=not import_tensorflow,
        timeout=timeout,
        require_gpus=require_gpus,
        only=only,
        skip=skip,
        matrix=matrix,
    )


def explain(
    text: str | bytes | os.PathLike[str], *, only: _Names = (), skip: _Names = (), matrix: _File | None = None
) -> Report:
    """Diagnose a log, a traceback, the output of nvidia-smi, pip or conda, or an issue, as `tfgpu explain` does.

    Args:
        text: the text itself; a path (pathlib.Path) is the file that has it.
        only, skip: ids of findings.
        matrix: file with rows that extend those of the bundled matrix.

    >>> explain("failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected").verdict
    'broken'
    """
    from tfgpu_doctor.records.report import Report

    if isinstance(text, os.PathLike):
        return call(Report, "explain", os.fspath(text), only=only, skip=skip, matrix=matrix)
    from tfgpu_doctor.cli import explain as command
    from tfgpu_doctor.cli.checks import verify
    from tfgpu_doctor.diagnosis.selection import restrict

    data = text if isinstance(text, bytes) else utf8(text)
    kept, left = (((one,) if isinstance(one, str) else tuple(one)) for one in (only, skip))
    with captured():
        verify(kept, left)
        report = command.diagnose(iter([data]), "the text", None if matrix is None else os.fspath(matrix))
    return restrict(report, kept, left)


def plan(
    *,
    gpu: _Names | None = None,
    compute_capability: _Names | None = None,
    driver: str | None = None,
    python: str | None = None,
    os: _Os | None = None,
    machine: Literal["x86_64", "aarch64", "arm64"] | None = None,
    platform: str | None = None,
    tensorflow: str | None = None,
    saved: _File | None = None,
    lock: bool = False,
    matrix: _File | None = None,
) -> Plan:
    """Find out which TensorFlow to install, with the commands, as `tfgpu plan` does.

    Args:
        gpu, compute_capability, driver, os, machine, platform: another machine; without any of them, this one.
        python: version of Python, such as "3.12".
        tensorflow: consider only these releases, such as "2.15" or ">=2.12,<2.16".
        saved: plan for the machine of this saved report.
        lock: pin NVIDIA's packages to the versions that TensorFlow was built with.
        matrix: file with rows that extend those of the bundled matrix.

    >>> plan(gpu="RTX 3090", driver="535", python="3.11").is_found
    True
    """
    from tfgpu_doctor.plan.records import Plan

    described = _machine(gpu, compute_capability, driver, python, os, machine, platform)
    return call(Plan, "plan", tensorflow=tensorflow, from_=saved, lock=lock, matrix=matrix, **described)


def check(
    *files: _File,
    texts: Mapping[str, str] | None = None,
    kind: Kind | None = None,
    target: str | None = None,
    gpu: _Names | None = None,
    compute_capability: _Names | None = None,
    driver: str | None = None,
    python: str | None = None,
    os: _Os | None = None,
    machine: Literal["x86_64", "aarch64", "arm64"] | None = None,
    platform: str | None = None,
    resolve: bool = False,
    matrix: _File | None = None,
) -> Checked:
    """Check requirements, Dockerfiles and manifests against the compatibility matrix, as `tfgpu check` does.

    Args:
        files: files or folders; nothing is changed.
        texts: contents of files by their names, instead of files.
        kind: of the files, if their names do not show it.
        target: stage of the Dockerfiles to build.
        gpu, compute_capability, driver, python, os, machine, platform: the machine that they are for.
        resolve: ask uv or pip which versions they would install, over the network.
        matrix: file with rows that extend those of the bundled matrix.

    >>> checked = check(texts={"requirements.txt": "tensorflow[and-cuda]==2.16.1"}, python="3.13")
    >>> [finding.id for finding in checked.report.findings]
    ['tf.python-unsupported']
    """
    from tfgpu_doctor.records.checked import Checked

    if bool(files) == bool(texts):
        raise UsageError("check() needs either files or texts")
    described = _machine(gpu, compute_capability, driver, python, os, machine, platform)
    if texts:
        from tfgpu_doctor.api.texts import check_texts

        return check_texts(texts, described, kind, target, None if matrix is None else str(matrix), resolve=resolve)
    names = map(str, files)
    return call(Checked, "check", *names, kind=kind, target=target, resolve=resolve, matrix=matrix, **described)


def bench(
    workload: str,
    *,
    gpus: int | Literal["all"] | None = None,
    devices: _Names = (),
    virtual_gpus: int | None = None,
    dtype: _Names | None = None,
    python: _File | None = None,
    deadline: float | None = None,
    processes: int | None = None,
    **options: Option,
) -> BenchResult:
    """Measure a workload on the CPU, one GPU and several GPUs, and verify every result, as `tfgpu bench` does.

    It takes a minute or more; TensorFlow runs in processes of its own. A run that failed is in the result, with the
    reason in `failure`, and has no speed.

    Args:
        workload: "matpow", "cnn", "gan", "inference", "input", "transfer".
        gpus: number of GPUs to use together, or "all".
        devices: use exactly these devices, such as ["cpu", "gpu:0"].
        virtual_gpus: split the first GPU (or the CPU) into so many logical devices; tests function, not speed.
        dtype: data type, or several.
        python: interpreter that has TensorFlow; None: the one that runs this.
        deadline: maximum time to sample each run, in seconds.
        processes: repeat each run in so many processes; use 5 for results that will be compared.
        options: those of the workload, such as `size=4096` (`tfgpu bench matpow --help`).
    """
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.bench.workload_registry import WORKLOADS

    if workload not in WORKLOADS:
        raise UsageError(f"no workload {workload!r}: choose from {', '.join(WORKLOADS)}")
    return call(
        BenchResult,
        f"bench {workload}",
        gpus=gpus,
        devices=devices,
        virtual_gpus=virtual_gpus,
        dtype=dtype,
        python=python,
        deadline=deadline,
        processes=processes,
        **options,
    )


@overload
def compare(
    base: Report, new: Report, *, require_gpus: int | None = None, matrix: _File | None = None
) -> Comparison: ...


@overload
def compare(
    base: BenchResult, new: BenchResult, *, factor: float | None = None, across: _Names = ()
) -> BenchComparison: ...


@overload
def compare(
    base: _File,
    new: _File,
    *,
    require_gpus: int | None = None,
    factor: float | None = None,
    across: _Names = (),
    matrix: _File | None = None,
) -> Comparison | BenchComparison: ...


def compare(
    base: Report | BenchResult | _File,
    new: Report | BenchResult | _File,
    *,
    require_gpus: int | None = None,
    factor: float | None = None,
    across: _Names = (),
    matrix: _File | None = None,
) -> Comparison | BenchComparison:
    """Compare two doctor reports or two bench results, or their files, as `tfgpu compare` does.

    Args:
        base, new: both of one kind.
        require_gpus: of reports: number of GPUs that both must have.
        factor: of bench results: smallest change of the time that counts; 1.05 is 5 %.
        across: of bench results: what may differ between the two, such as "tensorflow".
        matrix: file with rows that extend those of the bundled matrix.
    """
    from tfgpu_doctor.bench.comparison import BenchComparison
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.cli import compare as command
    from tfgpu_doctor.compare.records import Comparison
    from tfgpu_doctor.records.report import Report

    names = (_name(base, "base"), _name(new, "new"))
    options = command.CompareOptions(
        everything=False,
        require_gpus=require_gpus,
        matrix_file=None if matrix is None else os.fspath(matrix),
        factor=factor,
        across=(across,) if isinstance(across, str) else tuple(across),
        fail_on=None,
        redact=None,
        formats=(),
        detail="normal",
    )
    with captured() as found:
        first, second = _loaded(base), _loaded(new)
        if isinstance(first, Report) and isinstance(second, Report):
            command.compare_reports(first, second, names, options._replace(everything=True), [])
            return result_of(found, Comparison)
        if isinstance(first, BenchResult) and isinstance(second, BenchResult):
            command.compare_results(first, second, names, options, [])
            return result_of(found, BenchComparison)
    raise UsageError("compare() needs two doctor reports or two bench results")


def _machine(*values: Option) -> dict[str, Option]:
    """The options that describe a machine, by name."""
    names = ("gpu", "compute_capability", "driver", "python", "os", "machine", "platform")
    return dict(zip(names, values, strict=True))


def _name(one: object, otherwise: str) -> str:
    return os.path.basename(os.fspath(one)) if isinstance(one, (str, os.PathLike)) else otherwise


def _loaded(one: Report | BenchResult | _File) -> Report | BenchResult:
    """The record, or that of a file. Raises click.UsageError: the file cannot be used."""
    from tfgpu_doctor.cli.saved import load_pair

    return load_pair(os.fspath(one), os.fspath(one))[0] if isinstance(one, (str, os.PathLike)) else one


__all__ = ["TfgpuError", "UsageError", "bench", "check", "compare", "diagnose", "explain", "plan"]
