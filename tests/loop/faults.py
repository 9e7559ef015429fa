"""What can be broken in an environment. Files are hard links into a cache: removed or replaced, never changed."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.loop.environments import Patient
from tests.loop.made_up import wheel
from tests.probes.elf_lab import PLAIN, Forge

OF_ANOTHER_TENSORFLOW = "int TF_OfAnother(void);\nint SE_InitPlugin(void) { return TF_OfAnother(); }\n"


def _matching(patient: Patient, pattern: str) -> list[Path]:
    found = list(patient.site.glob(pattern))
    assert found, f"nothing is called {pattern}"
    return found


def delete(patient: Patient, *patterns: str) -> None:
    """Remove files or folders of site-packages."""
    for path in (path for pattern in patterns for path in _matching(patient, pattern)):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def cut(patient: Patient, pattern: str, size: int) -> None:
    """Leave only the beginning of files of site-packages, as an interrupted copy does."""
    for path in _matching(patient, pattern):
        beginning = path.read_bytes()[:size]
        path.unlink()
        path.write_bytes(beginning)


def rename(patient: Patient, old: str, new: str) -> None:
    """Rename in site-packages."""
    (path,) = patient.site.glob(old)
    path.rename(patient.site / new)


def uninstall(patient: Patient, *names: str) -> None:
    """Uninstall distributions."""
    patient.uninstall(*names)


def put_over(patient: Patient, *requirements: str) -> None:
    """Install without a look at dependencies, over what is there."""
    patient.install(*requirements, options=("--no-deps",))


def put_elsewhere(patient: Patient, folder: str, *requirements: str) -> None:
    """Install into another folder, such as that of the user's own packages."""
    patient.install(*requirements, options=("--no-deps", "--target", patient.filled(folder)))


def plant(patient: Patient, path: str, text: str = "") -> None:
    """Write a file."""
    file = Path(patient.filled(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_text(patient.filled(text))


def _forge(patient: Patient) -> Forge:
    (patient.folder / "forge").mkdir()
    return Forge(patient.folder / "forge")


def empty_library(patient: Patient, path: str, versions: tuple[str, ...] = ()) -> None:
    """A shared library without any function of what it is called after; `versions` are those that it says to have."""
    _forge(patient).library(Path(patient.filled(path)), code=PLAIN, versions=versions)


def plugin(patient: Patient, distribution: str, version: str) -> None:
    """A distribution with a file in tensorflow-plugins/ that asks TensorFlow for a function which it does not have."""
    name = f"tensorflow-plugins/lib{distribution.partition('-')[0]}_plugin.so"
    made = _forge(patient).library(patient.folder / name, code=OF_ANOTHER_TENSORFLOW)
    patient.install(str(wheel(patient.folder, distribution, version, {name: made.read_bytes()})))


def another_environment(patient: Patient, path: str) -> None:
    """A virtual environment with nothing in it."""
    patient.new(Path(patient.filled(path)))


def activation_exports(patient: Patient, *assignments: str) -> None:
    """Lines at the end of bin/activate, which every activation of the environment runs."""
    with (patient.prefix / "bin" / "activate").open("a") as file:
        file.writelines(f"export {one}\n" for one in assignments)


def exports_its_libraries(patient: Patient) -> None:
    """Nothing broken: activating the environment puts the folders of pip's CUDA on LD_LIBRARY_PATH, and tells XLA."""
    nvidia = patient.site / "nvidia"
    folders = ":".join(str(one) for one in sorted(nvidia.glob("*/lib")))
    path = f'LD_LIBRARY_PATH="{folders}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'
    activation_exports(patient, path, f"XLA_FLAGS=--xla_gpu_cuda_data_dir={nvidia}/cuda_nvcc")
