"""Words that say nothing about whose machine this is: in paths, in public fields, and where names stand. Pure."""

from __future__ import annotations

import re
from functools import cache, lru_cache

WORDS = frozenset(
    re.findall(
        r"\S+",
        """
    aarch64 amd64 anaconda app appdata applications apps arch archive artifacts asdf base bash bazel bin broken build
    builds cache caches cc cellar checkpoint checkpoints clang clean client cluster cmake code compiler conda config
    content contents continuum core cu cuda cudatoolkit cudnn cupti current data debug default demo desktop dev devel
    developer device dist docker dockerfile docs documents downloads driver drivers dynload env environment
    environments envs etc eval evaluation examples executable export ext external extras feedstock feedstock_root file
    files folder framework frameworks free from gcc git gnu gpfs gpu hdd home homebrew hostedtoolcache imp include
    info init install installed intel internal ipykernel jax jaxlib job jobs jovyan jupyter kaggle keras kernel
    kernels lib lib32 lib64 libdevice library libs linux local lock log logs lustre mac macos main mamba mambaforge
    media meta micromamba miniconda miniforge mnt model models modules nccl net new nfs nightly notebook notebooks
    numpy nvcc nvidia nvml nvvm old openmpi opt out output outputs path pip pipx pixi pkg pkgs platform plugin plugins
    poetry private program programs project project1 projects protobuf ptx ptxas public py pycharm pycharmprojects
    pyenv pypoetry pyproject python python3 pythoncore pythonw pytorch pywrap release repo repos requirements roaming
    root rtx run runner samples sass saved scipy scratch script scripts sdk server serving share shared shims site slurm
    snap so software source spack src srv ssd stable storage stubs sw sys system target temp templates tensorboard
    tensorflow tensorrt test testdata tests tf tfgpu tmp to toolkit tools torch train training tutorial tutorials users
    usr uv var venv venvs version versions virtualenv virtualenvs volumes vscode wheel wheels win win32 win64 windows
    work workdir workspace workspaces wsl x64 x86 xcode xla zlib
    """,
    )
)
# What public fields hold besides: the closed lists of the records' comments, TensorFlow's requirements. A value with
# any other word in it is redacted like a private one, which changes it only where something private stands in it.
_TERMS = frozenset(
    re.findall(
        r"\S+",
        """
    absl addons almalinux alpine already amazon applications apptainer architecture archlinux astunparse aws azure
    bookworm boost brake broken bullseye bus cap centos clocks compare compute containerd conv2d cpu cpython cublas
    cublaslt cudart cufft curand cusolver cusparse datasets debian default degraded details devices died directml
    display dtypes eigen einsum el7 el8 el9 ends enterprise error estimator exclusive extensions fatal fedora
    filesystem flatbuffers found gast gcp gcs generic glibc google gpu grpcio gt h5py hat hub hw idle images import
    inferred interpreter io jammy kubernetes later ld ldconfig libc libclang libcuda list live loaded localhost
    logical lowlatency lts lxc mac matmul metal microsoft mkl ml mode musl namex nightly noble nodejs none note
    nouveau nvjitlink nvrtc observed ok open opensuse opt optree oracle packages packaging pasta pci pcie phase
    physical plan podman point possible power probability process prohibited proprietary pypy raised red replica
    report requests rhel rich rocky rocm rpath rt running runpath sapphire setting setuptools sigabrt sigbus sigfpe
    sighup sigill sigint sigkill sigsegv sigterm singularity six skipped slowdown smoke standard stated status suse
    sw sync task tegra termcolor text the thermal thread timeout trixie true typing ubuntu unknown unloadable vfio
    warning wrapt wsl2 xla xorg xwayland yes
    gnome shell
    """,
    )
)
# what a place for names may hold without naming anybody
NOBODY = frozenset(
    re.findall(
        r"\S+",
        """
    localhost none null unknown host hostname root user users admin ubuntu debian docker container default true false
    worker chief master node name kernel systemd buildkitsandbox tensorflow kube-system git linux windows nvidia cuda
    python conda system local nobody jovyan runner test tests dev max min the postgres mysql http https ssh ftp gpu cpu
    wsl$ wsl.localhost is not and or invalid
    """,
    )
)

_CUDA = r"cu(?:da|dnn|blas|fft|rand|solver|sparse|pti|file|inj)|nv(?:idia|rtc|jitlink|infer|tools|ml|vm)|nccl"
_KNOWN_STEM = re.compile(rf"cp\d+m$|lib(?:{_CUDA}|tensorflow|python|xla|gcc|stdc|gomp|z$)|(?:{_CUDA})[a-z]*\d|__")
_NUMBERED = re.compile(r"\A([a-z]*?)v?\d*$")
_STEMS = frozenset({"", "cp", "abi", "manylinux", "rc", "post"})


@lru_cache(maxsize=10_000)
def is_public_word(word: str) -> bool:
    """Whether a word of a path says nothing about its owner: a name that every machine has, or a short number."""
    low = word.lower()
    if low in WORDS or _KNOWN_STEM.match(low) or len(low) == 1 or (low.isdecimal() and len(low) < 6):
        return True
    return _stem(low) in WORDS or _stem(low) in _STEMS


def is_public_text(text: str) -> bool:
    """Whether the value of a public field is what such a field holds: words of closed lists, versions, numbers."""
    return text.isascii() and all(
        is_term(word) or is_public_word(word) for word in re.split(r"[^A-Za-z0-9]+", text) if word
    )


def is_term(word: str) -> bool:
    """Whether a word belongs to the language of reports, so that it names nobody where it stands by itself."""
    low = word.lower()
    return low in _terms() or _stem(low) in _terms()


def _stem(low: str) -> str:
    numbered = _NUMBERED.match(low)
    return numbered[1] if numbered and numbered.end() == len(low) else low


@cache
def _terms() -> frozenset[str]:
    """With the words of the ids of findings and of the kinds of messages."""
    from tfgpu_doctor.findings.catalogue import DECLARATIONS  # 0.2 s, which most commands have spent by now
    from tfgpu_doctor.parsers.messages import TEMPLATES

    ids = (*DECLARATIONS, *(template.kind for template in TEMPLATES))
    return _TERMS | WORDS | {word for one in ids for word in re.findall(r"[a-z]\w+", one)}
