"""Reports of one or two sentences, as people write them in chats: the first cause is the expected one.

Written for this collection, not taken from anybody; they stand beside the collected reports in tests/cases.
"""

from __future__ import annotations

import pytest

from tests.healthy import MATRIX
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.inference import text_to_facts
from tfgpu_doctor.parsers.text import lines
from tfgpu_doctor.records.report import Severity

_SYMPTOMS = ("gpu.not-visible", "tf.import-failed", "tf.known-bug", "benign.log", "tensorrt.missing-benign")
REPORTS = [  # the cause ("ok": nothing is wrong), and the text
    (
        "tf.windows-native",
        "I'm using Windows 11 with an RTX 4060. pip install tensorflow gave me 2.17. Why isn't my GPU being used?",
    ),
    (
        "cuda.version-mismatch",
        "Ubuntu 20.04, GTX 1660 Ti. I've installed CUDA 11.0 and cuDNN 8.0 but tensorflow 2.3.0 won't use the GPU.",
    ),
    (
        "gpu.arch-too-old",
        "My graphics card is a GeForce GT 630M and tensorflow-gpu 1.12 says nothing about GPU, always "
        "CPU. Is my card too old?",
    ),
    (
        "gpu.arch-too-new",
        "Just got an RTX 5090. TensorFlow 2.18 takes forever to start training, about 30 minutes, then works.",
    ),
    (
        "container.no-gpu",
        "docker run -it tensorflow/tensorflow:latest-gpu bash, then python -> "
        "tf.config.list_physical_devices('GPU') is []. nvidia-smi on the host works.",
    ),
    (
        "memory.oom",
        "My model crashes with ResourceExhaustedError: OOM when allocating tensor with "
        "shape[64,512,512,32]. GTX 1080 8GB, batch 64.",
    ),
    (
        "memory.taken",
        "When I start a second notebook I get CUDA_ERROR_OUT_OF_MEMORY, the first one is still running. RTX 2070.",
    ),
    (
        "tf.python-unsupported",
        "pip install tensorflow: ERROR: Could not find a version that satisfies the requirement "
        "tensorflow (from versions: none). Python 3.14 on Windows",
    ),
    (
        "tf.python-unsupported",
        "I have Python 3.9 and need tensorflow 1.15 but pip says no matching distribution found for tensorflow==1.15",
    ),
    (
        "driver.version-mismatch",
        "After an apt upgrade nvidia-smi says Failed to initialize NVML: Driver/library version mismatch"
        " and tensorflow sees no GPU",
    ),
    (
        "driver.not-loaded",
        "After the kernel update to 6.8 nvidia-smi says NVIDIA-SMI has failed because it couldn't "
        "communicate with the NVIDIA driver",
    ),
    (
        "wsl.setup",
        "In WSL2 tensorflow doesn't find the GPU, nvidia-smi: command not found. I installed the cuda "
        "package with apt in Ubuntu",
    ),
    (
        "cudnn.version-mismatch",
        "Loaded runtime CuDNN library: 8.2.1 but source was compiled with: 8.6.0. CuDNN library needs to"
        " have matching major version",
    ),
    (
        "tf.cpu-build",
        "I did conda install tensorflow and `conda list` shows tensorflow 2.3.0 mkl_py38h8557ec7_0. No "
        "GPU. RTX 2060, windows 10",
    ),
    (
        "gpu.hidden",
        "os.environ['CUDA_VISIBLE_DEVICES'] = '-1' is in my script because of an old tutorial, and "
        "tensorflow sees no GPU",
    ),
    (
        "tf.wrong-env",
        "It works in the Anaconda prompt but in PyCharm I get ModuleNotFoundError: No module named 'tensorflow'",
    ),
    (
        "cuda.missing",
        "pip install tensorflow on Ubuntu 22.04 (2.15), driver 535 installed, nvidia-smi ok. Could not "
        "find cuda drivers on your machine, GPU will not be used.",
    ),
    ("gpu.none", "I have an AMD RX 6700 XT, how do I get tensorflow to use it? list_physical_devices shows only CPU"),
    ("gpu.none", "My laptop only has Intel UHD graphics. tensorflow-gpu doesn't detect any GPU"),
    (
        "perf.small-work",
        "My small LSTM trains slower on the GPU (RTX 3060) than on the CPU: 20 s against 8 s per epoch",
    ),
    (
        "perf.input-bound",
        "GPU utilization jumps between 0 and 30%, CPU at 100%, I load images with ImageDataGenerator",
    ),
    (
        "tf.abi-numpy",
        "AttributeError: _ARRAY_API not found when importing tensorflow 2.15 after upgrading numpy to 2.0",
    ),
    ("tf.import-avx", "Illegal instruction (core dumped) when I import tensorflow 2.4 on an old Pentium G4400"),
    (
        "tf.package-removed",
        "pip install tensorflow-gpu fails with python setup.py egg_info did not run successfully. The "
        '"tensorflow-gpu" package has been removed!',
    ),
    ("nccl.error", "MirroredStrategy with 2 GPUs stops with NCCL error unhandled system error"),
    (
        "driver.too-old",
        "CUDA driver version is insufficient for CUDA runtime version. tensorflow 2.10, driver 440.33",
    ),
    ("xla.libdevice-missing", "libdevice not found at ./libdevice.10.bc with tensorflow 2.12 in conda"),
    (
        "tf.import-dll",
        "ImportError: DLL load failed while importing _pywrap_tensorflow_internal: A dynamic link "
        "library (DLL) initialization routine failed. Windows 10 tensorflow 2.16",
    ),
    ("tf.cpu-build", "Jetson Nano, pip3 install tensorflow, no GPU found, python 3.8"),
    (
        "tf.cpu-build",
        "DGX Spark / GH200 aarch64: pip install tensorflow[and-cuda] and tf.test.is_built_with_cuda() is False",
    ),
    (
        "shm.small",
        "DataLoader bus error in docker ... NCCL WARN Error: failed to extend /dev/shm/nccl to 33030660 bytes",
    ),
    (
        "cuda.lib-path",
        "I installed cuda 11.2 in /usr/local/cuda-11.2, tensorflow 2.8 says Could not load dynamic "
        "library 'libcudart.so.11.0'; LD_LIBRARY_PATH is empty",
    ),
    (
        "gpu.arch-too-new",
        "RTX 3080, tensorflow 1.15 with cuda 10.0: the first step takes 10 minutes and the loss is NaN",
    ),
    (
        "tf.abi-protobuf",
        "TypeError: Descriptors cannot not be created directly. If this call came from a _pb2.py file, "
        "your generated code is out of date",
    ),
    (
        "tf.glibc-too-old",
        "ImportError: /lib64/libm.so.6: version `GLIBC_2.23' not found on CentOS 7 with tensorflow 1.13",
    ),
    (
        "tf.abi-keras",
        "ImportError: keras 3 ... transformers: Your currently installed version of Keras is Keras 3, "
        "but this is not yet supported in Transformers",
    ),
    ("gpu.hidden", "Slurm job without --gres=gpu: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"),
    ("gpu.mig", "A100 in MIG mode, nvidia-smi shows MIG enabled, no MIG devices found, tensorflow finds no GPU"),
    (
        "container.no-gpu",
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    ),
    (
        "tf.windows-native",
        "Conda on Windows, Python 3.12, tensorflow installed, GPU list empty. CUDA 12.4 and cudnn 9 are "
        "installed, RTX 3070",
    ),
    (
        "cuda.missing",
        "Linux Mint 21, tensorflow 2.16.1, RTX 3050, nvidia-smi shows driver 550 and CUDA 12.4; Num GPUs Available: 0",
    ),
    (
        "cudnn.missing",
        "tensorflow 2.10, CUDA 11.2 installed, Could not load dynamic library 'cudnn64_8.dll'; dlerror: "
        "cudnn64_8.dll not found",
    ),
    (
        "cuda.missing",
        "Fresh Ubuntu 24.04 install, RTX 4070, driver 560.35. `pip install tensorflow` (2.18.0). "
        'tf.config.list_physical_devices("GPU") -> []',
    ),
    ("tf.windows-native", "win11, rtx3060 laptop, anaconda python 3.10, tensorflow 2.12, gpu isnt detected"),
    (
        "cuda.version-mismatch",
        "tensorflow-gpu 1.13.1 with CUDA 10.1 on Windows: ImportError: Could not find 'cudart64_100.dll'",
    ),
    (
        "cudnn.version-mismatch",
        "TF 2.15 says: E Loaded runtime CuDNN library: 8.6.0 but source was compiled with: 8.9.4",
    ),
    (
        "gpu.arch-too-old",
        "Tesla K80 with tensorflow 2.16 on ubuntu. Ignoring visible gpu device (device: 0, name: Tesla "
        "K80, compute capability: 3.7) ... The minimum required Cuda capability is 6.0",
    ),
    (
        "gpu.arch-too-new",
        "RTX 5080, docker tensorflow/tensorflow:2.17.0-gpu: CUDA_ERROR_INVALID_PTX / no kernel image is "
        "available for execution on the device",
    ),
    ("tf.cpu-build", "mac M2, pip install tensorflow, tf.config.list_physical_devices('GPU') returns []"),
    (
        "tf.package-conflict",
        "I have both tensorflow 2.1 and tensorflow-gpu 2.0 in pip list and now get strange AttributeErrors",
    ),
    (
        "tf.shadowed",
        "I named my script tensorflow.py and get AttributeError: partially initialized module "
        "'tensorflow' has no attribute 'constant' (most likely due to a circular import)",
    ),
    ("memory.oom", "显存不足: CUDA_ERROR_OUT_OF_MEMORY, GTX 1050 2GB, batch size 128"),
    (
        "cuda.missing",
        "在Ubuntu 22.04上用pip安装了tensorflow 2.16，显卡RTX 3090，驱动535，但是检测不到GPU，没有安装CUDA",
    ),
    (
        "tf.windows-native",
        "Использую Windows 10, Python 3.11, TensorFlow 2.15, видеокарта RTX 3060 — tensorflow не видит GPU",
    ),
    ("tf.windows-native", "Tengo Windows 11, RTX 4050 y tensorflow 2.19; no reconoce mi GPU"),
    ("tf.windows-native", 'pip install tensorflow[and-cuda]\npython train.py "r:\\9.mp3"\nGPU is not detected'),
    ("gpu.arch-too-new", "GTX 3090 with tensorflow-gpu==1.14: the first session.run takes 20 minutes"),
    ("gpu.none", "CUDA errors with tensorflow. It is a laptop _without_ NVIDIA graphics card"),
    ("tf.cpu-build", "tf.config.list_physical_devices('GPU') is []; conda list shows that it is the CPU build"),
    ("cudnn.version-mismatch", "TF 1.4: libcudnn.so.6: cannot open shared object file. It doesn't happen with TF 1.2."),
    (
        "driver.too-old",
        "Status: CUDA driver version is insufficient for CUDA runtime version, nvidia-smi shows 418.87, "
        "tensorflow 2.4.1",
    ),
    (
        "driver.missing",
        "Ubuntu 20.04 server with a Tesla T4. nvidia-smi: command not found. tensorflow: failed call to "
        "cuInit: UNKNOWN ERROR (303), Could not load dynamic library 'libcuda.so.1'",
    ),
    (
        "container.no-gpu",
        "kubectl pod, no nvidia.com/gpu in its limits, tensorflow in the pod: failed call to cuInit: "
        "CUDA_ERROR_NO_DEVICE",
    ),
    (
        "container.no-gpu",
        "singularity exec tf.sif python train.py (no --nv): Could not load dynamic library 'libcuda.so.1'",
    ),
    ("gpu.hidden", "On the cluster echo $CUDA_VISIBLE_DEVICES prints NoDevFiles and tensorflow finds no GPU"),
    (
        "cudnn.init-failed",
        "UnknownError: Failed to get convolution algorithm. This is probably because cuDNN failed to "
        "initialize. Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED, tensorflow 2.3, cuda "
        "10.1, cudnn 7.6, RTX 2060",
    ),
    ("perf.small-work", "CartPole DQN with keras: 3x slower on my RTX 3090 than on the CPU"),
    (
        "perf.input-bound",
        "nvidia-smi shows GPU-Util 5 %, htop shows all cores at 100 % while loading jpg files with "
        "tf.data without prefetch",
    ),
    (
        "tf.wrong-env",
        "pip list shows tensorflow 2.15 but in Jupyter I get ModuleNotFoundError: No module named 'tensorflow'",
    ),
    ("tf.not-installed", "ModuleNotFoundError: No module named 'tensorflow'. How do I fix?"),
    (
        "tf.abi-numpy",
        "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.1 as it may crash. import tensorflow",
    ),
    (
        "tf.python-unsupported",
        "32-bit Python 3.7 on windows, pip install tensorflow: No matching distribution found for tensorflow",
    ),
    (
        "tf.import-avx",
        "The TensorFlow library was compiled to use AVX instructions, but these aren't available on your"
        " machine. Aborted (core dumped)",
    ),
    ("gpu.fault", "dmesg: NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus. tensorflow died"),
    ("p2p.failed", "2x RTX 4090, MirroredStrategy hangs forever, NCCL_P2P_DISABLE=1 makes it work"),
    ("xla.ptxas-missing", "Couldn't invoke ptxas --version; tensorflow 2.10 from conda, jit_compile"),
    (
        "env.xla-flags",
        "XLA_FLAGS=--xla_gpu_cuda_dir=/wrong gives Unknown flag in XLA_FLAGS: --xla_gpu_foo; tensorflow aborts",
    ),
    (
        "ok",
        "2024-01-01 10:00:00.1: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1929] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 22134 MB memory:  -> device: 0, name: NVIDIA GeForce RTX 4090, pci bus id: 0000:01:00.0, compute capability: 8.9\nIs the NUMA warning a problem?",  # noqa: E501
    ),
    (
        "ok",
        "E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN "
        "factory: Attempting to register factory for plugin cuDNN when one has already been registered. "
        "My GPU is used at 95%, is this error bad?",
    ),
]


@pytest.mark.parametrize(("cause", "text"), REPORTS, ids=[f"{n}-{cause}" for n, (cause, _) in enumerate(REPORTS)])
def test_the_first_cause_is_the_right_one(cause: str, text: str) -> None:
    facts = text_to_facts.read(lines.read([text.encode()]), MATRIX)
    report = make_report(facts, MATRIX, source="text", timings={})
    if cause == "ok":
        assert [one.id for one in report.findings if one.severity is Severity.ERROR] == []
    else:
        assert [one.id for one in report.findings if one.id not in _SYMPTOMS][:1] == [cause]


def test_what_may_be_one_of_several_releases_is_none_to_install() -> None:
    """What is left of a text's clues are many releases; the best is advised, and not the oldest of them."""
    text = "Windows 11, pip install tensorflow[and-cuda], no GPU listed"
    facts = text_to_facts.read(lines.read([text.encode()]), MATRIX)
    (found, *_) = make_report(facts, MATRIX, source="text", timings={}).findings
    assert "2.14" not in repr(found.fixes) and "tensorflow[and-cuda]==2.20" in repr(found.fixes)
    assert found.evidence[0].saw == "TensorFlow on Windows"
