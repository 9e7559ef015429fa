"""Which parts of a path are private. Pure.

Below the system's own folders every part is public. Elsewhere a part is public when all its words are: names that
every machine has (bin, site-packages, miniconda3, cuda-12.4), version numbers, names of files of known packages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

PLACEHOLDER = re.compile(r"<[a-z]+(?:-\d+)?>")
_SEPARATORS = re.compile(r"([\\/]+)")
_ANCHOR = re.compile(r"[A-Za-z]:|~")

# a path in running text: posix (or from ~), Windows with or without doubled backslashes
_PART = r"(?:<[a-z]+(?:-\d+)?>|[^\s/\\'\":;,|()\[\]{}`*?<>=$])"
POSIX = re.compile(rf"(?<![\w.\\/~>-])~?(?:/{_PART}+)+/?")
WINDOWS = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]:[\\/]+(?:(?:<[a-z]+(?:-\d+)?>|[^\\/:*?\"<>|\r\n])+[\\/]+)*"
    r"(?:<[a-z]+(?:-\d+)?>|[^\\/:*?\"<>|\s',;()])*"
)
QUOTED = re.compile(r"""(["'])(~?/(?:(?!\1)[^\n])+|[A-Za-z]:[\\/](?:(?!\1)[^\n])+)\1""")

_SYSTEM = frozenset(
    re.findall(r"\S+", "usr lib lib32 lib64 etc proc sys dev bin sbin boot nix snap system library windows run var")
) | {"program files", "program files (x86)", "programdata"}
_HOMES = frozenset({"home", "users", "homes", "documents and settings"})
_NOBODY = frozenset({"public", "shared", "default", "all users"})
_CODE = re.compile(r"(site|dist)-packages$|python\d\.\d+$", re.IGNORECASE)  # public code lies below
_A_DEVICE = re.compile(r"/(job|replica|task|device|physical_device|gpu|cpu):", re.IGNORECASE)  # TensorFlow's names
_ENDINGS = re.compile(r"\.(py|pyc|so|ipynb|sh|bat|json|ya?ml|toml|cfg|txt|log|exe|dll|whl|h5|keras)$", re.IGNORECASE)

# words that say nothing about whose machine this is
WORDS = frozenset(
    re.findall(
        r"\S+",
        """
    aarch64 amd64 anaconda app appdata applications apps arch archive artifacts asdf base bash bazel bin broken
    build builds cache caches cc cellar checkpoint checkpoints clang clean client cluster cmake code compiler conda
    config content contents continuum core cu cuda cudatoolkit cudnn cupti current data debug default demo desktop
    dev devel developer device dist docker docs documents downloads driver drivers dynload env environment
    environments envs etc eval evaluation examples executable export ext external extras feedstock feedstock_root
    file files folder framework frameworks free from gcc git gnu gpfs gpu hdd home homebrew hostedtoolcache imp
    include info init install installed intel internal ipykernel jax jaxlib job jobs jovyan jupyter kaggle keras
    kernel kernels lib lib32 lib64 libdevice library libs linux local lock log logs lustre mac macos main mamba
    mambaforge media meta micromamba miniconda miniforge mnt model models modules nccl net new nfs nightly notebook
    notebooks numpy nvcc nvidia nvml nvvm old openmpi opt out output outputs path pip pipx pixi pkg pkgs platform
    plugin plugins poetry private program programs project project1 projects protobuf ptx ptxas public py pycharm
    pycharmprojects pyenv pypoetry python python3 pythoncore pythonw pytorch release repo repos roaming root rtx run
    runner samples sass saved scipy scratch script scripts sdk server serving share shared shims site slurm snap so
    software source spack src srv ssd stable storage stubs sw sys system target temp templates tensorboard
    tensorflow tensorrt test testdata tests tf tfgpu tmp to toolkit tools torch train training tutorial tutorials
    users usr uv var venv venvs version versions virtualenv virtualenvs volumes vscode wheel wheels win win32 win64
    windows work workdir workspace workspaces wsl x64 x86 xcode xla zlib
    """,
    )
)
_WORD = re.compile(r"[.\-_+~ ]+")
_NUMBERED = re.compile(r"([a-z]*?)v?\d*$", re.IGNORECASE)
_CUDA = r"cu(?:da|dnn|blas|fft|rand|solver|sparse|pti|file|inj)|nv(?:idia|rtc|jitlink|infer|tools|ml|vm)|nccl"
_KNOWN_STEM = re.compile(rf"lib(?:{_CUDA}|tensorflow|python|xla|gcc|stdc|gomp|z$)|(?:{_CUDA})[a-z]*\d|__")


def is_public(part: str) -> bool:
    """Whether a part of a path says nothing about its owner."""
    part = _ENDINGS.sub("", part)
    return bool(_CODE.search(part)) or all(
        _is_public_word(word) for word in _WORD.split(PLACEHOLDER.sub("", part)) if word
    )


def _is_public_word(word: str) -> bool:
    low = word.lower()
    if low in WORDS or _KNOWN_STEM.match(low) or len(low) == 1 or (low.isdecimal() and len(low) < 6):
        return True
    numbered = _NUMBERED.match(low)
    stem = numbered[1] if numbered and numbered.end() == len(low) else low
    return stem in WORDS or stem in ("", "cp", "abi", "manylinux", "rc", "post")


def users_in(path: str) -> list[str]:
    """The parts that follow /home, /Users and their like."""
    parts = [part for part in _SEPARATORS.split(path)[::2] if part]
    return [
        user
        for above, user in pairwise(parts)
        if above.lower() in _HOMES and user.lower() not in _NOBODY and not PLACEHOLDER.fullmatch(user)
    ]


def rewrite(path: str, name_user: Callable[[str], str], name_part: Callable[[str], str], least: int = 2) -> str:
    """Replace the private parts of an absolute path; the separators stay as they are.

    A path of fewer parts than `least` ("/b", "/GPU") is none, or tells nothing.
    """
    pieces = _SEPARATORS.split(path)
    users = {user.lower() for user in users_in(path)}
    parts = [part for part in pieces[::2] if part and not _ANCHOR.fullmatch(part)]
    if len(parts) < (1 if path.startswith("~") else least) or _A_DEVICE.match(path):
        return path
    system = not users and parts[0].lower() in _SYSTEM
    rewritten = []
    for number, piece in enumerate(pieces):
        if number % 2 or not piece or PLACEHOLDER.fullmatch(piece):
            rewritten.append(piece)
            continue
        rewritten.append(name_user(piece) if piece.lower() in users else _part(piece, system, name_part))
        system = system or bool(_CODE.search(piece))
    return "".join(rewritten)


def _part(part: str, public: bool, name_part: Callable[[str], str]) -> str:
    if public or is_public(part) or _ANCHOR.fullmatch(part):
        return part
    ending = _ENDINGS.search(part)
    return name_part(part[: ending.start()]) + ending[0] if ending else name_part(part)
