"""Texts in which somebody asks and nothing fails: what must be answered, and texts that only look like a question."""

from __future__ import annotations

from tests.findings.logs import created, not_opened, text

# what stands in the title of the answer
WHICH: dict[str, str] = {
    "Which TensorFlow version should I install for an RTX 4070 on Windows 11? I have Python 3.11.": "WSL2",
    "I just bought a laptop with an RTX 5080 (Ubuntu 24.04). What tensorflow / cuda / cudnn combination do I need?": (
        "For a GeForce RTX 5080"
    ),
    "How do I install tensorflow with GPU support on Ubuntu 24.04 with an RTX 4090?\n\nThanks": "GeForce RTX 4090",
    "RTX 3090 with CUDA on windows (no WSL2)\n\nDoes a set of instructions exist for running tensorflow?": (
        "For a GeForce RTX 3090 on native Windows: TensorFlow 2.10.1, CUDA 11.2, cuDNN 8.1, Python 3.7 to 3.10"
    ),
    "Can I use tensorflow-gpu 1.15 with CUDA 10.1? I am on Ubuntu 18.04, python 3.7.": (
        "No: TensorFlow 1.15.5 needs CUDA 10.0, not CUDA 10.1"
    ),
    "My GPU has compute capability 3.0, the system is Windows 10. Which version should I install?": (
        "For a GPU of compute capability 3.0 on native Windows: TensorFlow 1.10.0"
    ),
    "Does TensorFlow 2.10 work with CUDA 11.8 on Windows 10?": "Yes: TensorFlow 2.10.1, CUDA 11.2, cuDNN 8.1",
    "Is tensorflow 2.4 compatible with CUDA 11.2 and cuDNN 8.1?": "No: TensorFlow 2.4.4 needs CUDA 11.0",
    "Is my Quadro M1200 supported by tensorflow-gpu? It's in a Dell laptop, Windows 10.": "For a Quadro M1200",
    "Is the RTX 5090 supported by TensorFlow 2.4?": "No: TensorFlow 2.4.4 has no kernels for a GeForce RTX 5090",
    "I have CUDA 10.1 and cuDNN 7.6 on our cluster. Which version of tensorflow can I use? Python is 3.7": (
        "For CUDA 10.1, cuDNN 7.6: TensorFlow 2.1 to 2.3"
    ),
    "My GTX 1050 ti shows version 9 for the CUDA driver, do I have to take Cuda Toolkit version 9 and cuDNN 6?": (
        "CUDA 9 and a GeForce GTX 1050 Ti: TensorFlow 1."
    ),
    "Can I run tensorflow on an AMD Radeon RX 6700 XT? Windows 10": "Without an NVIDIA GPU",
    "Which Python version do I need for tensorflow 2.10 with GPU on Windows?": "Python 3.7 to 3.10",
    "What driver do I need for tensorflow 2.15 with GPU? Ubuntu 22.04, GTX 1070": "driver 525.60.13 or newer",
    "Tesla K80, Ubuntu 20.04, driver 470.82.01: what is the latest tensorflow that I can run?": "TensorFlow 2.14.1",
    "Does tensorflow 2.17 support python 3.12 and cuda 12.4?": "Yes: TensorFlow 2.17.1",
    "Does tensorflow 2.10 support python 3.12?": "No: TensorFlow 2.10.1 needs Python 3.7 to 3.10, not Python 3.12",
    "RTX 3080 Ti\nUbuntu 22.04\nPython 3.10\n\nWhat should I install to train with my GPU? TensorFlow 2.x preferred": (
        "For a GeForce RTX 3080 Ti"
    ),
    "Can I use TensorFlow 2.15 with my RTX 3060 on Windows 11 without WSL?": (
        "No: TensorFlow 2.15.1 has no GPU support on native Windows"
    ),
    "How to install tensorflow gpu on a macbook pro m2?": "On macOS",
    "Can a MX150 be used with TensorFlow on Windows 10?": "For a GeForce MX150 on Windows",
    "Do I need an NVIDIA GPU to run TensorFlow? I only have Intel Iris Xe graphics.": "TensorFlow 2.21.0 on the CPU",
    "Are there plans to support CUDA 13? Which CUDA does tensorflow 2.20 use?": "TensorFlow 2.20.0, CUDA 12.5",
    "With CUDA 9.2, can I pip install tensorflow-gpu?": "No TensorFlow for CUDA 9.2 works here",
    "Is tensorflow-gpu 2.3 OK with my A100 on CentOS 7?": "has no kernels for an A100",
    "Can I install tensorflow-gpu on a Raspberry Pi?": "Without an NVIDIA GPU",
    "Windows10で RTX 2080 です。tensorflow はどのバージョンですか?": "For a GeForce RTX 2080 on Windows",
    "RTX 3060, 윈도우 11에서 tensorflow 어떤 버전을 설치해야 하나요?": "For a GeForce RTX 3060 on Windows",
    "Подскажите, какая версия tensorflow подойдет для GTX 1650 на Windows 10?": "For a GeForce GTX 1650 on Windows",
    "Qual versão do tensorflow devo instalar para a GTX 1650 no Windows 10?": "For a GeForce GTX 1650 on Windows",
    "How to install TensorFlow with GPU support on a Jetson Nano?": "Jetson",
    "¿Qué versión de tensorflow necesito para una RTX 3060 en Windows 10?": "For a GeForce RTX 3060",
    "Welche TensorFlow-Version brauche ich für eine GTX 1660 Ti unter Windows 10 mit Python 3.8?": "TensorFlow 2.10.1",
    "Quelle version de CUDA faut-il pour tensorflow 2.6 ?": "CUDA 11.2, cuDNN 8.1",
    "RTX 3090 用哪个版本的 tensorflow 和 cuda?Ubuntu 20.04": "For a GeForce RTX 3090",
    "tensorflow 1.12 对应的 cuda 和 cudnn 版本是多少？": "CUDA 9.0, cuDNN 7",
}
FIRES: dict[str, dict[str, str]] = {
    "tf.which-release": {one: one for one in WHICH},
    "cuda.toolkit-not-needed": {
        one: one
        for one in (
            "Is the NVIDIA CUDA Toolkit needed if conda has installed the CUDA toolkit already?",
            "Do I need to install the CUDA toolkit if I do pip install tensorflow[and-cuda]?",
            "Do I still have to install CUDA and cuDNN separately when I use conda install tensorflow-gpu?",
        )
    },
    "gpu.usage-unknown": {
        one: one
        for one in (
            "How can I check if TensorFlow is using my GPU?",
            "How do I show which device keras uses from R?",
            "How do I know whether keras trains on the GPU or the CPU? tensorflow 2.9, RTX 3070, Ubuntu 20.04",
            "[Discussion] How to check Tensorflow Log for GPU usage?",
        )
    },
    "perf.first-run": {
        one: one
        for one in (
            "Why is the first epoch so much slower than the others? tensorflow 2.11, RTX 2080",
            "The first call of model.predict takes 3 seconds, later ones 20 ms. Why is the first prediction so slow?",
            "First tf.session.run() performs dramatically different from later runs. Why?",
        )
    },
}
_FAILS = not_opened("2.4", "libcudart.so.11.0")
LOOK_ALIKES: dict[str, dict[str, str]] = {
    "tf.which-release": {
        "a failure is the question": f"{_FAILS}\nWhich CUDA do I need for tensorflow 2.4?",
        "no GPU is seen": "tensorflow 2.10 does not detect my GPU. Which CUDA version do I need?",
        "another program": "Which pytorch version do I need for CUDA 11.8?",
        "no question": "I use tensorflow 2.10 with CUDA 11.2 on Ubuntu 20.04.",
        "which number counts": "nvidia-smi says 12.2, nvcc says 11.5, which one counts for tensorflow?",
        "something else is asked": "Which optimizer is better for my model?",
    },
    "cuda.toolkit-not-needed": {
        "which one is needed": "Which CUDA toolkit do I need for pip install tensorflow==2.10?",
        "no package manager": "Is CUDA needed for tensorflow-gpu?",
        "a failure": f"{_FAILS}\nDo I need the CUDA toolkit with conda?",
    },
    "gpu.usage-unknown": {
        "it is used": text(created(), "How can I check if TensorFlow is using my GPU?"),
        "why it is not": "Why is TensorFlow not using my GPU? How can I find out?",
        "which version": "How do I know which tensorflow version to use with my GPU?",
    },
    "perf.first-run": {
        "it fails": f"{_FAILS}\nWhy is the first epoch so slow?",
        "the first version": "Is the first version of tensorflow that supports CUDA 11 slower?",
    },
}
# the two numbers, in any order
NUMBERS = (
    "Which one counts, nvcc (V11.5) or the 12.2 that nvidia-smi shows?",
    "nvcc tells me 11.5 and nvidia-smi tells me 12.2. Which of them does tensorflow use?",
    "11.5 (nvcc) vs 12.2 (nvidia-smi): who is right?",
    "nvidia-smi and nvcc don't agree: 12.2 / 11.5",
    "nvcc and nvidia-smi don't agree, 11.5 and 12.2",
    "nvidia-smi says 12.2, nvcc says 11.5, cuDNN 8.9 is there; which one counts?",
)
