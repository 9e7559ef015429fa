"""Places in which others decide: what cannot be carried out there, and who can change what. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tfgpu_doctor.facts.report import Fix
from tfgpu_doctor.parsers.platform_hints import marked_for_a_cell
from tfgpu_doctor.plan.windows_shell import IN_POWERSHELL

_DRIVER = re.compile(r"\bNVIDIA driver (\d{3}(?:\.\d+)* or newer)")
_INSTALLS_DRIVER = r"^Install .{0,12}NVIDIA driver"
_OF_A_HOST = r"\b(?:modprobe|rmmod|mokutil|dkms|systemctl|dmesg|reboot|nvidia-ctk)\b"
_OF_PROCESSES = r"--query-compute-apps|\bfuser\b"


@dataclass(frozen=True)
class Place:
    """What cannot be carried out in a place, in the sentence or the commands of a fix, and what is said instead."""

    excluded: re.Pattern[str]
    sentence: str  # {driver}: the version that the fix names, in brackets; {fix}: its sentence
    commands: tuple[str, ...] = ()

    def instead(self, fix: Fix) -> Fix:
        """Who can change what there."""
        named = _DRIVER.search(fix.text)
        text = self.sentence.format(
            driver=f" ({named[1]})" if named else "", fix=f"{fix.text[:1].lower()}{fix.text[1:]}"
        )
        return Fix(text, self.commands)


# the first that excludes a fix speaks
PLACES = {
    "hosted": Place(
        re.compile(rf"{_OF_PROCESSES}|{_OF_A_HOST}|^Use another GPU$"),
        "On Colab and Kaggle, what holds the GPU ends with its session: end all of yours (Colab: Runtime, Manage "
        "sessions; Kaggle: Stop session), and start a new one",
    ),
    # github.com/codalab/codalab-worksheets, docs/Execution.md
    "codalab": Place(
        re.compile(rf"\bdocker (?:run|restart)\b|{_OF_A_HOST}|{_INSTALLS_DRIVER}"),
        "CodaLab's worker starts the container: ask for a GPU with --request-gpus 1 among the options of cl run; if no "
        "worker has one, ask those who run it",
    ),
    # docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html
    "sagemaker": Place(
        re.compile(rf"{_OF_A_HOST}|{_INSTALLS_DRIVER}"),
        "On SageMaker the driver{driver} is the service's: use an image whose CUDA its driver runs, or choose "
        "instances with a newer one (an endpoint: InferenceAmiVersion of its production variant)",
    ),
    # github.com/GoogleCloudPlatform/container-engine-accelerators; for Ubuntu's nodes it has a folder of its own
    "gke": Place(
        re.compile(_INSTALLS_DRIVER),
        "On GKE the driver{driver} comes with the version of the nodes and Google's installer: upgrade the node pool, "
        "apply the installer again (this one is for Container-Optimized OS), and start a new pod",
        (
            "kubectl apply -f https://raw.githubusercontent.com/GoogleCloudPlatform/container-engine-accelerators/"
            "master/nvidia-driver-installer/cos/daemonset-preloaded.yaml",
        ),
    ),
    "kubernetes": Place(
        re.compile(rf"{_OF_A_HOST}|{_INSTALLS_DRIVER}"),
        "A pod cannot change its node. See what it was given: if nvidia-smi fails in it, or /dev/nvidia-uvm is "
        "missing, start a new pod, on another node; if that fails, too, whoever runs the nodes has to update or "
        "reload the driver{driver} there",
        ("ls -l /dev/nvidia*", "nvidia-smi"),
    ),
    "no-root": Place(
        re.compile(rf"\bsudo\b|\bapt-get install\b|{_INSTALLS_DRIVER}"),
        "This takes root, so ask the administrator: {fix}",
    ),
    # docs.nvidia.com/jetson, "tegrastats Utility": CPU and GPU share the memory of the board
    "jetson": Place(
        re.compile(_OF_PROCESSES),
        "A Jetson's GPU shares the memory of the board: see what is free, close what uses it (the desktop, a browser), "
        "add swap, and let TensorFlow allocate as it needs; else the model has to be smaller",
        ("free -h", "sudo tegrastats", "export TF_FORCE_GPU_ALLOW_GROWTH=true"),
    ),
    # catalog.ngc.nvidia.com/orgs/nvidia/teams/tao: TLT's images are named tlt-streamanalytics, TAO's tao-toolkit
    "tao": Place(
        re.compile(r"\b(?:pip|conda|mamba|uv) (?:install|create|run)\b|\bFROM\b|\bdocker run\b"),
        "This program runs in NVIDIA's own image alone, which chooses the release: use a newer tag of it (TLT has "
        "become TAO, nvcr.io/nvidia/tao/tao-toolkit), or a GPU that this one knows",
    ),
    # docs.photoprism.app/getting-started/advanced/transcoding: PHOTOPRISM_INIT
    "avx-variant": Place(
        re.compile(r"\binstall pip's\b"),
        "This program chooses a TensorFlow that is compiled for newer CPUs: have it take the plain one, in its "
        "settings (PhotoPrism: no tensorflow-amd64-avx2 in PHOTOPRISM_INIT), and create its container anew",
    ),
    # jetbrains.com/help/pycharm/run-debug-configuration-python.html; systemd.exec(5), Environment=
    "no-shell": Place(
        re.compile(r"^(?:export|echo 'export) "),
        "What fails does not read the settings of your shell: give it the value that this prints where it works "
        "(PyCharm: Run, Edit Configurations, Environment variables; a service: Environment= in its unit), or start it "
        "from there",
        ("echo $LD_LIBRARY_PATH",),
    ),
}


_EXPORT, _UNSET = re.compile(r"(?:export |set \")(\w+)=([^$`%\"]*)\"?"), re.compile(r"unset (\w+)")
_ACTIVATE, _PIP = re.compile(r"\b\w{1,20} activate ([\w.-]{1,100})"), re.compile(r"python3? -m pip install ((?!-).*)")
_MAKES = re.compile(r"\bvenv\b|\bcreate\b")


def in_r(commands: tuple[str, ...]) -> tuple[str, ...]:
    """Return the commands for R's console, whose Python is not that of a shell (rstudio.github.io/reticulate).

    >>> in_r(("export A=1", "python3 -m pip install 'numpy<2' h5py"))
    ('Sys.setenv(A = "1")', 'reticulate::py_install(c("numpy<2", "h5py"), pip = TRUE)')
    """
    makes = any(map(_MAKES.search, commands))
    return tuple(
        one if makes and not _ACTIVATE.match(one) else _in_r(one) for one in commands if IN_POWERSHELL not in one
    )


def _in_r(command: str) -> str:
    if found := _EXPORT.fullmatch(command):
        return f'Sys.setenv({found[1]} = "{found[2]}")'
    if found := _UNSET.fullmatch(command):
        return f'Sys.unsetenv("{found[1]}")'
    if found := _ACTIVATE.fullmatch(command):
        return f'reticulate::use_condaenv("{found[1]}", required = TRUE)'
    if found := _PIP.fullmatch(command):
        packages = ", ".join(f'"{one}"' for one in shlex.split(found[1]))
        return f"reticulate::py_install(c({packages}), pip = TRUE)"
    return command


def in_a_cell(command: str) -> str:
    """Return the command for a cell of a hosted notebook.

    >>> in_a_cell("export A=1"), in_a_cell("nvidia-smi")
    ('%env A=1', '!nvidia-smi')
    """
    if found := _EXPORT.fullmatch(command):
        return f"%env {found[1]}={found[2]}"
    if found := _UNSET.fullmatch(command):
        return f'import os; os.environ.pop("{found[1]}", None)'
    return marked_for_a_cell(command)


def excluding(fix: Fix, places: tuple[str, ...]) -> Place | None:
    """The first of the places in which a fix cannot be carried out."""
    lines = (fix.text, *fix.commands)
    found = (place for name, place in PLACES.items() if name in places)
    return next((place for place in found if any(map(place.excluded.search, lines))), None)
