"""What pasted text shows of TensorFlow's devices and build, from 0.x to today."""

from __future__ import annotations

import pytest

from tests.guard import guarded
from tests.parsers.pasted import CAPTURES, capture, every_capture, lines, mangled
from tfgpu_doctor.parsers.tools import tensorflow_devices
from tfgpu_doctor.parsers.tools.tensorflow_devices import device_facts, gpu_facts, parse
from tfgpu_doctor.records.facts import TfDevice, value_or

MIB = 2**20


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("log_0_9_one_gpu", [(0, "Quadro K620", "5.0", "0000:03:00.0", 1996, 1648, False)]),
        (
            "log_0_12_two_gpus_indented",
            [
                (0, "Quadro M2000", "5.2", "0000:03:00.0", 4034, 412, False),
                (1, "Tesla M40", "5.2", "0000:82:00.0", 11448, 96, False),
            ],
        ),
        ("log_1_2_created_twice", [(0, "GeForce GTX 1060 6GB", None, "0000:07:00.0", None, None, True)]),
        ("log_1_12_with_bold", [(0, "Quadro P4000", "6.1", "0000:65:00.0", 8120, 7331, True)]),
        (
            "log_1_15_cut_off",
            [
                (1, "Tesla P100-PCIE-16GB", "6.0", "0000:5e:00.0", None, None, False),
                (2, "Tesla P100-PCIE-16GB", "6.0", "0000:86:00.0", None, None, False),
                (3, "Tesla P100-PCIE-16GB", "6.0", None, None, None, False),  # cut off
            ],
        ),
        (
            "log_2_4_quoted",
            [
                (0, "TITAN V", "7.0", "0000:41:00.0", 12062, None, False),
                (1, "TITAN V", "7.0", "0000:42:00.0", 12062, None, False),
            ],
        ),
        ("log_2_13_created", [(0, "Tesla P4", "6.1", "0000:41:00.0", None, None, True)]),
        (
            "list_cut_off_before_any_gpu",
            [
                (1, "Tesla P4", "6.1", "0000:42:00.0", None, None, True),
                (2, "Tesla P4", "6.1", "0000:43:00.0", None, None, True),
            ],
        ),
        (
            "descriptions_in_a_list",
            [
                (0, "NVIDIA RTX 4000 SFF Ada Generation", "8.9", "0000:41:00.0", None, None, True),
                (1, "NVIDIA RTX 4000 SFF Ada Generation", "8.9", "0000:42:00.0", None, None, True),
            ],
        ),
    ],
)
def test_gpus_of_the_log(name: str, expected: list[tuple[object, ...]]) -> None:
    found = parse(capture("tensorflow_devices", f"{name}.txt")).gpus
    assert [
        (
            one.index,
            one.name,
            one.compute_capability,
            one.pci_bus_id,
            one.memory_total and one.memory_total // MIB,
            one.memory_free and one.memory_free // MIB,
            one.created,
        )
        for one in found
    ] == expected


@pytest.mark.parametrize(
    ("name", "no_gpu", "some_gpu", "count"),
    [
        ("num_gpus_available_0", 9, None, 0),
        ("not_built_with_cuda", 8, None, 0),
        ("xla_gpus_alone", 1, None, 0),  # XLA_GPU is no GPU
        ("no_such_device_1_4", 1, None, 0),
        ("list_cut_off_before_any_gpu", None, None, None),
        ("log_2_13_created", None, None, None),
    ],
)
def test_lists_of_devices(name: str, no_gpu: int | None, some_gpu: int | None, count: int | None) -> None:
    seen = parse(capture("tensorflow_devices", f"{name}.txt"))
    assert (seen.no_gpu, seen.some_gpu, seen.gpu_count) == (no_gpu, some_gpu, count)


def test_every_capture_is_listed_with_its_making() -> None:
    readme = (CAPTURES / "tensorflow_devices" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in every_capture("tensorflow_devices") if f"| {path.name} |" not in readme] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]", 1),
        ("[PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]", 0),
        (">>> tf.config.list_logical_devices('CPU')\n[LogicalDevice(name='/device:CPU:0', device_type='CPU')]",
         None),
        (">>> tf.config.list_physical_devices('GPU')\n[]", 0),
        (">>> tf.config.list_physical_devices('GPU')\n>>> gpus = []\n>>> x\n[]", None),
        ("tf.config.experimental.list_physical_devices(device_type='GPU')\nOut[3]: []", 0),
        (">>> len(tf.config.list_physical_devices('GPU'))\n2", 2),
        ("[]", None),
        ("Num GPUs Available:  0", 0),
        ("# Num GPUs Available: 0", 0),
        ("Number of GPUs: 4", 4),
        ('print("Num GPUs Available: ", len(tf.config.list_physical_devices("GPU")))', None),
        ("GPUs: []", 0),
        ("Available GPUs: []", 0),
        ("GPU is NOT AVAILABLE", 0),
        ("GPU is available", 1),
        ("Is GPU available: False", 0),
        ("Is the GPU available? []", 0),
        (">>> tf.test.is_gpu_available()\n2020-01-01 00:00:00.0: I tensorflow/core/x.cc:1] y\nFalse", 0),
        (">>> tf.test.gpu_device_name()\n''", 0),
        ("Default GPU Device: /device:GPU:0", 1),
        ("SystemError: GPU device not found", 0),
        ("- Tensorflow version (GPU?): 2.18.0 (False)", 0),
        ('[name: "/device:CPU:0"\ndevice_type: "CPU"\n, name: "/device:XLA_CPU:0"\ndevice_type: "XLA_CPU"\n]', 0),
        ('[name: "/device:CPU:0"\ndevice_type: "CPU"\n, name: "/device:GPU:0"\ndevice_type: "GPU"\n]', 1),
        ('[name: "/device:CPU:0"\ndevice_type: "CPU"\nlocality {', None),
        ("[_DeviceAttributes(/job:localhost/replica:0/task:0/device:CPU:0, CPU, 268435456, 164802)]", 0),
        ("[_DeviceAttributes(/job:localhost/replica:0/task:0/device:GPU:0, GPU, 268435456, 164802)]", 1),
        ("Registered devices: [CPU, GPU, XLA_CPU, XLA_GPU]", 1),
        ("Registered devices: [CPU, XLA_CPU]", 0),
        ("|   0  GeForce GTX 1080   WDDM  | 00000000:01:00.0  On |                  N/A |", None),
    ],
)  # fmt: skip
def test_what_a_list_or_an_answer_says(text: str, count: int | None) -> None:
    assert parse(lines(text)).gpu_count == count


@pytest.mark.parametrize(
    ("text", "built"),
    [
        (">>> print(tf.test.is_built_with_cuda())\nFalse", False),
        (">>> tf.test.is_built_with_cuda()\nTrue", True),
        ("tf.test.is_built_with_cuda(): True", True),
        ("Built with CUDA: True", True),
        ("is_built_with_cuda() False", False),
        ("Is this TensorFlow built with CUDA? False", False),
        ("'is_cuda_build': False", False),
        ("tf.test.is_built_with_cuda()\n>>> 1 == 2\nFalse", None),
        ("True", None),
    ],
)
def test_build_flags(text: str, built: bool | None) -> None:
    assert parse(lines(text)).build.is_cuda_build is built


def test_a_script_that_asks_for_the_build() -> None:
    build = parse(capture("tensorflow_devices", "not_built_with_cuda.txt")).build
    assert (build.is_cuda_build, build.line) == (False, 9)  # and not the line that prints it


def test_build_info_over_many_lines() -> None:
    build = parse(capture("tensorflow_devices", "build_info_over_many_lines.txt")).build
    assert (build.is_cuda_build, build.cuda_version, build.cudnn_version) == (True, "11.8", "8")
    assert build.compute_capabilities[0] == "sm_35"
    assert build.compute_capabilities[-1] == "compute_80"
    assert len(build.compute_capabilities) == 6


def test_ignored_gpus_are_no_devices() -> None:
    text = (
        "2026-11-21 14:06:26.072063: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1816] Ignoring visible gpu "
        "device (device: 0, name: GRID K2, pci bus id: 0000:41:00.0, compute capability: 3.0) with Cuda compute "
        "capability 3.0. The minimum required Cuda capability is 3.5."
    )
    (gpu,) = parse(lines(text)).gpus
    assert (gpu.name, gpu.compute_capability, gpu.created) == ("GRID K2", "3.0", False)
    assert device_facts(parse(lines(text))) == ()


def test_wrapped_descriptions() -> None:
    text = (
        "Created device /device:GPU:0 with 14328 MB memory:  -> device: 0, name: NVIDIA\nL4, pci bus id: 0000:41:00.0, "
    )
    (gpu,) = parse(lines(f"{text}compute capability: 8.9")).gpus
    assert (gpu.name, gpu.compute_capability) == ("NVIDIA L4", "8.9")


def test_facts_of_gpus_and_devices() -> None:
    seen = parse(capture("tensorflow_devices", "log_2_13_created.txt"))
    (gpu,) = gpu_facts(seen)
    assert (gpu.index, value_or(gpu.name, None), value_or(gpu.compute_capability, None)) == (0, "Tesla P4", "6.1")
    assert device_facts(seen) == (
        TfDevice(name="/physical_device:GPU:0", kind="GPU", device_name="Tesla P4", compute_capability="6.1"),
    )


def test_bad_pastes_do_not_hurt() -> None:
    for path in every_capture("tensorflow_devices"):
        for seed in range(20):
            seen = parse(mangled(path.read_text(encoding="utf-8"), seed))
            gpu_facts(seen), device_facts(seen)


@pytest.mark.parametrize(
    "unit", ["a", "name: ", "device: 0, name: x", "[ ", "PhysicalDevice(name='", "GPU ", "pciBusID: ", "is gpu "]
)
def test_long_lines_are_quick(unit: str) -> None:
    long = (unit * 100_000)[:100_000]
    with guarded(5.0):
        for start in ("", "Found device 0 with properties:\n", "is_built_with_cuda", "'cuda_compute_capabilities': ["):
            tensorflow_devices.parse(lines(f"{start}{long[:3900]}\n{start}{long}"))
