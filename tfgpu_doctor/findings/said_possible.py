"""The other causes that a pasted text leaves open, each with what decides.

A line such as "Could not find cuda drivers" has a likeliest cause, which is a finding of its own, and others that look
the same. Those are warnings here, never errors: the text does not show that they hold. A rule that knows better makes
the finding of the same id an error, which then stands in place of the possibility.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.findings.said_cuda import which
from tfgpu_doctor.findings.said_libraries import gather
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import CudnnFile, Gpu, Message, Package, TfDevice, Toolkit
from tfgpu_doctor.records.report import Fix, Severity

_ERRORS_GUIDE = "https://www.tensorflow.org/install/errors"
_WANTS = (
    *("derived.gpu_release", "cuda.toolkits", "cudnn.installed", "python.packages", "tensorflow.devices", "variables"),
    *("host.container", "gpus", "derived.cards"),
)
_DLL = ("dll-load-failed", "native-traceback", "msvc-missing")
_AMPERE = (8, 0)  # the first that the CUDA 10 of TensorFlow 1.13 to 2.3 does not know
_HANDLES = ("cudnn-handle", "no-dnn-library")


@dataclass(frozen=True)
class Scene:
    """The text as the possibilities look at it."""

    said: Said
    release: Release | None
    toolkits: tuple[Toolkit, ...] | None
    cudnn: tuple[CudnnFile, ...] | None
    packages: tuple[Package, ...] | None
    devices: tuple[TfDevice, ...] | None
    variables: dict[str, str] | None
    container: str | None
    gpus: tuple[Gpu, ...] | None
    cards: tuple[Card, ...] | None

    @property
    def gpu_works(self) -> bool:
        """Whether TensorFlow shows a GPU."""
        return self.said.has("gpu-created") or any(device.kind == "GPU" for device in self.devices or ())

    @property
    def cuda_unexplained(self) -> tuple[Message, ...]:
        """Lines about CUDA's libraries in a text that tells of no CUDA."""
        if self.gpu_works:
            return ()
        cuda = gather(self.said, self.release, self.toolkits, self.packages, self.variables)
        return () if cuda.there else (*(message for _, message in cuda.lost), *cuda.complaints)

    @property
    def cudnn_unexplained(self) -> tuple[Message, ...]:
        """Lines about cuDNN's main library, in a text that tells of no cuDNN."""
        lost = [m for name, m in self.said.libraries("library-not-opened", "loader-error") if "cudnn" in name.lower()]
        return () if self.cudnn else (*lost, *self.said.all("self-check"))

    @property
    def dlls(self) -> tuple[Message, ...]:
        """Windows' refusal that names no DLL, where this may be a build with CUDA."""
        return self.said.all(*_DLL) if self.release is None or self.release.gpu else ()

    @property
    def nothing_said(self) -> bool:
        """Whether TensorFlow lists no GPU, and the text gives no reason at all."""
        return self.devices is not None and not self.gpu_works and not self.said.complains


def _possibility(
    finding_id: str,
    title: str,
    because: str,
    decide: Callable[[Context], Fix],
    seen: Callable[[Scene], tuple[Message, ...]],
) -> None:
    """Register one possibility; `seen` gives the lines that leave it open, none where it is not open."""

    @rule(
        finding_id,
        Severity.WARNING,
        title if title.startswith("cuDNN") else f"{title[0].upper()}{title[1:]}",
        needs=("derived.told",),
        wants=_WANTS,
        requires=("gpu.none", "tf.cpu-build", "tf.windows-native"),
        docs=_ERRORS_GUIDE,
    )
    def possible(context: Context, said: Said, *rest: object) -> Problem | None:
        scene = Scene(said, *rest)  # type: ignore[arg-type]  # what _WANTS lists, in that order
        messages = seen(scene)
        if not messages:
            return None
        return Problem(possible=True, cause=because, evidence=heard(*messages, most=1), fixes=(decide(context),))

    possible.__doc__ = f"The text leaves open that {title[0].lower()}{title[1:]}."


def _run(text: str, *commands: str) -> Callable[[Context], Fix]:
    return lambda context: Fix(text=text, commands=commands)


_LIBRARIES = "the message is the same whether a library is missing, of another version, or off the loader's path"
_DEVICE = "CUDA's answer is the same for a hidden card, a missing one, and one that the driver does not drive"
_LISTS = _run("To decide, see what the driver and the bus show", "nvidia-smi -L", "lspci | grep -i nvidia")
_MEMORY = _run("To decide, see who holds memory while the program does not run", "nvidia-smi")

_possibility(
    "cuda.version-mismatch", "CUDA of another version is installed", _LIBRARIES, which, lambda s: s.cuda_unexplained
)
_possibility(
    "cuda.lib-path",
    "CUDA is installed, but off the loader's path",
    _LIBRARIES,
    which,
    lambda s: s.cuda_unexplained or s.dlls,
)
_possibility(
    "cudnn.version-mismatch",
    "cuDNN of another version is installed",
    _LIBRARIES,
    which,
    lambda s: s.cudnn_unexplained or s.said.all(*_HANDLES),
)
_possibility(
    "cudnn.lib-path",
    "cuDNN is installed, but off the loader's path",
    _LIBRARIES,
    which,
    lambda s: s.cudnn_unexplained or s.dlls,
)
_possibility(
    "gpu.none",
    "this machine has no NVIDIA GPU",
    _DEVICE,
    _LISTS,
    lambda s: () if s.gpus else s.said.all("no-cuda-device", "libcuda-not-loaded", "no-device-node") or _libcuda(s),
)
_possibility(
    "driver.not-loaded",
    "the driver's kernel module is not loaded",
    _DEVICE,
    _run("To decide, see whether the module is loaded", "lsmod | grep nvidia", "nvidia-smi"),
    lambda s: s.said.all("no-cuda-device", "no-device-node"),
)
_possibility(
    "driver.too-old",
    "the driver is older than the CUDA in use needs",
    "an old driver is one reason of several why CUDA, or cuDNN, cannot start",
    _run("To decide, compare the driver with what that CUDA needs", "nvidia-smi", "tfgpu matrix cuda"),
    lambda s: (
        *s.said.all("possibly-old-driver"),
        *(m for m in s.said.all("cuinit-failed") if m.values.get("status") == "initialization error"),
    ),
)
_possibility(
    "memory.taken",
    "another process holds the GPU's memory",
    "a handle that cannot be created mostly means that no memory is left",
    _MEMORY,
    lambda s: tuple(
        m
        for m in s.said.all("cublas-handle", "cudnn-handle", "cudnn-status")
        if re.search(r"ALLOC|NOT_INIT|launch failed", m.text)
    ),
)
_possibility(
    "gpu.arch-too-new",
    "the GPU is newer than the CUDA of this TensorFlow",
    "a cuBLAS without kernels for the card fails like this, and the text does not tell which CUDA it is",
    _run("To decide, see what the build was made for", "tfgpu doctor", "tfgpu matrix gpu NAME"),
    lambda s: (
        tuple(m for m in s.said.all("cublas-handle") if re.search(r"EXECUTION_FAILED|launch failed", m.text))
        if s.release is None and not s.toolkits and any(card.version >= _AMPERE for card in s.cards or ())
        else ()
    ),
)
_possibility(
    "tf.wrong-env",
    "TensorFlow is installed in another Python",
    "the program, pip and the terminal may each use another one",
    _run("To decide, compare them", "python -c 'import sys; print(sys.executable)'", "python -m pip show tensorflow"),
    lambda s: tuple(m for m in s.said.all("module-not-found") if m.values.get("module") == "tensorflow"),
)
_possibility(
    "tf.package-conflict",
    "packages of different TensorFlow releases are mixed",
    "a half-removed TensorFlow lacks its names, too",
    _run("To decide, list them", "python -m pip list | grep -iE 'tensorflow|keras|tensorboard'"),
    lambda s: s.said.all("no-attribute"),
)
_possibility(
    "shm.small",
    "/dev/shm is too small",
    'NCCL answers "unhandled system error" when it gets no shared memory, as in a container',
    _run("To decide", "df -h /dev/shm", "NCCL_DEBUG=WARN python ..."),
    lambda s: tuple(m for m in s.said.all("nccl-error", "nccl-warning") if "system error" in m.text),
)
_possibility(
    "perf.small-work",
    "the work is too small for a GPU",
    "a GPU that idles waits for its input, or gets too little work at a time",
    _run("To decide, double the batch size: when a step takes as long as before, the work is too small"),
    lambda s: () if s.said.has("slow") else s.said.all("low-utilization"),
)
_possibility(
    "cuda.missing",
    "the CUDA libraries are not installed",
    "TensorFlow lists no GPU, and the text gives no reason; this is the commonest",
    _run("To decide, let the doctor look at that machine", "tfgpu doctor"),
    lambda s: _silence(s) or s.dlls,
)


def _libcuda(scene: Scene) -> tuple[Message, ...]:
    of_cudnn = {m.line for m in scene.said.all("cudnn-part-missing")}
    return tuple(
        m
        for name, m in scene.said.libraries("library-not-opened", "loader-error")
        if name.startswith(("libcuda.so", "nvcuda")) and m.line not in of_cudnn
    )


def _silence(scene: Scene) -> tuple[Message, ...]:
    """The last line read, as the place where a reason should stand."""
    return scene.said.messages[-1:] if scene.nothing_said else ()
