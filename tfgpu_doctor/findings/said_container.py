"""Rules over what a pasted text says of containers and of WSL2: whether the driver comes in at all."""

from __future__ import annotations

from tfgpu_doctor.findings.container import TOOLKIT_GUIDE, container_fix
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.findings.said_driver import DECIDE, OTHER_IN_HOOK, STUB, about_driver, driver_fails, no_libcuda
from tfgpu_doctor.records.facts import CallResult, Message, SmiResult
from tfgpu_doctor.records.report import Fix, Severity

_NO_LIBCUDA = 303  # what TensorFlow gives for cuInit when it cannot open libcuda (CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)


def _asked(said: Said) -> bool:
    """Whether the command before the failure asks for GPUs; the last one before it, where several are shown."""
    failures = said.all(
        "cuinit-failed", "kernel-driver-not-running", "no-cuda-device", "libcuda-not-loaded", "nvml-blocked"
    )
    first = min((message.line for message in failures), default=None)
    starts = sorted(said.all("container-start"), key=lambda message: message.line)
    before = [one for one in starts if first is None or one.line <= first] or starts
    return bool(before) and before[-1].values["gpus"] == "yes"


@rule(
    "container.no-gpu",
    Severity.ERROR,
    "This container was started without access to the GPU",
    needs=("derived.told",),
    wants=("host.container", "driver.cuda_init", "host.os", "driver.nvidia_smi", "variables"),
    requires=("gpu.none",),
    docs=TOOLKIT_GUIDE,
)
def container_no_gpu(
    context: Context,
    said: Said,
    container: str | None,
    init: CallResult | None,
    os: str | None,
    smi: SmiResult | None,
    variables: dict[str, str] | None,
) -> Problem | None:
    """Docker says so itself, or a driver is missing in a container whose command asks for no GPU."""
    hook = [m for m in said.all("container-hook-failed") if not OTHER_IN_HOOK.search(m.values.get("why", m.text))]
    plain = said.all(
        "docker-no-gpu-driver", "docker-no-runtime", "container-no-cdi", "kubernetes-no-gpu", "ngc-no-driver"
    )
    if said.has("driver-versions-differ", "nvml-mismatch"):
        return None  # both halves of a driver are there
    if init and init.code in STUB and "/stubs" in (variables or {}).get("LD_LIBRARY_PATH", ""):
        return None  # the stub is found first, whatever was handed in
    inside = _nothing_inside(said, container, init, works=smi is not None and smi.exit_code == 0, wsl=os == "wsl2")
    if (os == "wsl2" and not plain) or not (hook or plain or inside is not None):
        return None
    kind = container or ("kubernetes" if said.has("kubernetes-no-gpu") else "docker")
    building = (_AT_RUN_TIME,) if said.has("image-build") else ()
    about = (*said.all("image-build", "container-start"), *about_driver(said))
    return Problem(
        cause=_why(said, bool(hook)),
        evidence=heard(*plain, *hook, *(inside or ()), *about),
        fixes=(*building, container_fix(kind), *((DECIDE,) if hook else ())),
    )


def _nothing_inside(
    said: Said, container: str | None, init: CallResult | None, *, works: bool, wsl: bool
) -> tuple[Message, ...] | None:
    """What shows that no GPU was handed in, be it by silence; None where nothing does."""
    started = said.has("container-start")  # nvidia-smi's table may be that of another container, or of the host
    asked = not said.has("image-build") and _asked(said)
    # the stub of CUDA's images answers, and the kernel has no driver either: nothing was handed in
    nothing = said.has("kernel-driver-not-running", "no-device-node")
    stubbed = init is not None and init.code in STUB and nothing
    # whoever hands a GPU in hands nvidia-smi in with it
    entered = min((m.line for m in said.all("container-start")), default=None)
    bare = [
        m
        for m in said.all("smi-not-found")
        if "executable file not found" in m.text or (entered is not None and m.line > entered)
    ]
    # with GPUs that were asked for it starts only over a working driver; a libcuda that is lost was not handed in
    lost = bool(no_libcuda(said)) and (init is None or init.code == _NO_LIBCUDA)
    fails = (started or not works) and (lost if asked else driver_fails(said, init))
    half = said.all("smi-no-libcuda") if started and not wsl else ()
    blocked = said.all("nvml-blocked")
    shown = (*blocked, *(bare if container else ()), *half)
    return shown if shown or stubbed or (container and fails) else None


def _why(said: Said, hook: bool) -> str:
    if said.has("docker-no-gpu-driver", "docker-no-runtime", "container-no-cdi"):
        return "Docker cannot hand a GPU in: the NVIDIA container toolkit is missing, or Docker was not told of it"
    if hook:
        return "the NVIDIA container runtime reaches no driver on the host: it is missing there, not loaded, or broken"
    if said.has("image-build"):
        return "while an image is built no GPU and no driver is there; the program has to run when the container runs"
    if said.has("nvml-blocked"):
        return "the container may not touch its GPUs: mostly systemd's reload rewrote its device cgroup while it ran"
    if said.has("kubernetes-no-gpu"):
        return "no node has a free nvidia.com/gpu: the device plugin does not run, or every GPU is taken"
    return "the container runtime hands GPUs and the driver's libraries in only when it is asked to"


_FAIL_IN_WSL = ("container-hook-failed", "driver-insufficient", "nvml-failed", "smi-no-libcuda")
# Windows 10 21H2, the first that is not a preview (Microsoft, "Enable NVIDIA CUDA on WSL")
_FIRST_WITH_GPU = 19044
_AT_RUN_TIME = Fix(
    text="Start the program with CMD or ENTRYPOINT instead of RUN, and leave the stub library of CUDA alone",
)


@rule(
    "wsl.setup",
    Severity.ERROR,
    "WSL2 is not set up for the GPU",
    needs=("derived.told", "host.os"),
    wants=("driver.cuda_init", "driver.nvidia_smi", "host.container"),
    docs="https://docs.nvidia.com/cuda/wsl-user-guide/index.html",
)
def wsl(
    context: Context, said: Said, os: str, init: CallResult | None, smi: SmiResult | None, container: str | None
) -> Problem | None:
    """Under WSL2 the driver is Windows'; what fails there is how it comes in."""
    fails = driver_fails(said, init) or said.has(*_FAIL_IN_WSL)
    if said.has("stub-library"):
        return None  # a program says that the toolkit's stub is found before WSL's own libcuda
    old = [m for m in said.all("windows-build") if int(m.values["build"]) < _FIRST_WITH_GPU]
    inside = said.all("linux-driver-in-wsl")
    if os != "wsl2" or not (fails or old or inside) or said.has("nvml-mismatch", "hidden-by-variable"):
        return None
    if old:
        return _old_windows(old)
    path = "export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH"
    fixes = [
        Fix(
            text="Update WSL from Windows, and the NVIDIA driver in Windows",
            commands=("wsl.exe --update", "wsl.exe --shutdown"),
        ),
        Fix(
            text="Remove any Linux display driver from WSL",
            commands=("sudo apt-get purge -y '^nvidia-(driver|utils|dkms|kernel).*' '^libnvidia-(compute|gl|cfg1).*'",),
        ),
        Fix(text="Put WSL's own libraries first", commands=(path, "/usr/lib/wsl/lib/nvidia-smi")),
    ]
    if container or said.has("container-hook-failed"):
        fixes.insert(
            0,
            Fix(
                text="Update Docker Desktop, or the NVIDIA container toolkit inside WSL: they mount the driver's files"
            ),
        )
    return Problem(
        cause="WSL2 takes libcuda from /usr/lib/wsl/lib and the card through /dev/dxg; one of them is "
        "missing, old or shadowed",
        evidence=heard(*old, *inside, *said.all("container-hook-failed", "smi-no-libcuda"), *about_driver(said)),
        fixes=tuple(fixes),
    )


def _old_windows(seen: list[Message]) -> Problem:
    return Problem(
        title="This Windows hands no GPU to WSL2",
        cause="Windows 10 does so from 21H2 (build 19044) on; before that only its preview builds did",
        evidence=heard(*seen, need=f"build {_FIRST_WITH_GPU} or newer"),
        fixes=(Fix(text="Update Windows to 21H2 or later, then WSL", commands=("wsl.exe --update",)),),
    )
