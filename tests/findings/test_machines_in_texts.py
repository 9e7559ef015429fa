"""What a text shows of a machine: its driver's parts, who may open its GPUs, the job's scheduler, its memory."""

from __future__ import annotations

from tests.corpus import report_of
from tests.findings.test_signs_over_messages import signs_alone
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.parsers import lines, text_to_facts
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.records.report import Severity

_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sat Feb 17 22:55:48 UTC 2024"
_NO_GPU = ">>> tf.config.list_physical_devices('GPU')\n[]"
_CUINIT = "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"


def errors(text: str) -> list[str]:
    facts = signs_alone(text_to_facts.read(lines.read([text.encode()]), MATRIX))
    report = make_report(facts, MATRIX, source="text", timings={})
    symptoms = ("gpu.not-visible",)
    return [one.id for one in report.findings if one.severity is Severity.ERROR and one.id not in symptoms]


LIBRARIES = (
    "2024-04-25 06:31:12 upgrade libnvidia-compute-535:amd64 535.161.07-0ubuntu0.22.04.1 {}-0ubuntu0.22.04.1",
    "ii  libnvidia-compute-535:amd64  {}-0ubuntu0.22.04.1  amd64  NVIDIA libcompute package",
    "ii  nvidia-utils-535  {}-0ubuntu1  amd64",
    "[2024-04-25T06:31:12+0000] [ALPM] upgraded nvidia-utils (535.161.07-1 -> {}-1)",
    "lrwxrwxrwx 1 root root 21 Apr 25 06:31 /usr/lib/x86_64-linux-gnu/libcuda.so.1 -> libcuda.so.{}",
)


@each("library", LIBRARIES)
@each(("module", "installed"), [("535.161.07", "535.171.04"), ("470.82", "535.171.04")])
def test_module_and_libraries_of_two_versions(library: str, module: str, installed: str) -> None:
    text = f"{_NO_GPU}\n{library.format(installed)}\n{_MODULE.format(module)}"
    assert errors(text)[:1] == ["driver.version-mismatch"]
    same = f"{_NO_GPU}\n{library.format(module)}\n{_MODULE.format(module)}"
    assert "driver.version-mismatch" not in errors(same)


_SCRIPTS = (
    ("#SBATCH --partition=gpu\n#SBATCH --mem=64G", "#SBATCH --gres=gpu:1"),
    ("$ srun -p gpu --pty bash", "$ srun -p gpu --gres=gpu:1 --pty bash"),
)


@each(("without", "request_of_one"), _SCRIPTS)
def test_a_job_that_asks_its_scheduler_for_no_gpu(without: str, request_of_one: str) -> None:
    text = "V100 nodes, TensorFlow 2.6\n{}\n$ nvidia-smi\nNo devices were found"
    assert errors(text.format(without))[:1] == ["gpu.hidden"]
    assert "gpu.hidden" not in errors(text.format(f"{without}\n{request_of_one}" if "#" in without else request_of_one))


def test_a_row_of_the_table_without_its_first_line() -> None:
    text = "TF 2.1, RTX 2070. Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\n{}"
    row = "| 38%   44C    P2    34W / 185W |   {}MiB /  8192MiB |      1%      Default |"
    assert errors(text.format(row.format(7811)))[:1] == ["memory.taken"]
    assert "memory.taken" not in errors(text.format(row.format(300)))


@each(
    ("row", "small"),
    [
        ("shm              63M   63M     0 100% /dev/shm", True),
        ("tmpfs            64M     0   64M   0% /dev/shm", True),
        ("tmpfs            26G   26G     0 100% /dev/shm", True),
        ("tmpfs            16G  4.0K   16G   1% /dev/shm", False),
    ],
)
def test_shared_memory_that_is_small_or_full(row: str, small: bool) -> None:
    text = f"podman, 4x A10, TF 2.9.2, MirroredStrategy: Bus error (core dumped)\n$ df -h\n{row}"
    assert ("shm.small" in errors(text)) == small


@each(
    "times",
    [
        'With CUDA_VISIBLE_DEVICES="" 1000 episodes need 11 min, with the card 34 min',
        "34 min on the GPU, 11 min on the CPU",
        "CPU 12 s, RTX 3080 40 s",
        "auf der CPU 11 Minuten, mit der Karte 34 Minuten",
        "sin GPU 11 minutos y con la GPU 34 minutos",
        "на процессоре 11 мин, на видеокарте 34 мин",
        "cpu 11 分钟，显卡 34 分钟",
    ],
)
def test_a_gpu_that_is_no_faster(times: str) -> None:
    text = f"TF 2.8, CartPole agent. {times}. The net: Dense(24), Dense(24), Dense(4)."
    found = report_of(text)
    assert [one.id for one in found.findings][:1] == ["perf.small-work"]


@each(
    "times",
    [
        "on the CPU 34 min, with the card 11 min",
        "After 5 min on the GPU it crashes; the CPU has 8 cores",
        "The RTX 3080 takes 34 min, my friend's RTX 3090 11 min",
    ],
)
def test_a_gpu_that_is_faster_or_is_not_compared(times: str) -> None:
    text = f"TF 2.8, CartPole agent. {times}. The net: Dense(24), Dense(24), Dense(4)."
    found = report_of(text)
    assert "perf.small-work" not in [one.id for one in found.findings if not one.possible]
