"""What can be broken in an environment. Files are hard links into a cache: removed or replaced, never changed."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.loop.environments import Fault, Patient
from tests.loop.made_up import wheel
from tests.probes.elf_lab import PLAIN, Forge

OF_ANOTHER_TENSORFLOW = "int TF_OfAnother(void);\nint SE_InitPlugin(void) { return TF_OfAnother(); }\n"


def _matching(patient: Patient, pattern: str) -> list[Path]:
    found = list(patient.site.glob(pattern))
    assert found, f"nothing is called {pattern}"
    return found


def delete(*patterns: str) -> Fault:
    """Remove files or folders of site-packages."""

    def fault(patient: Patient) -> None:
        for path in (path for pattern in patterns for path in _matching(patient, pattern)):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    return fault


def cut(pattern: str, size: int) -> Fault:
    """Leave only the beginning of files of site-packages, as an interrupted copy does."""

    def fault(patient: Patient) -> None:
        for path in _matching(patient, pattern):
            beginning = path.read_bytes()[:size]
            path.unlink()
            path.write_bytes(beginning)

    return fault


def rename(old: str, new: str) -> Fault:
    """Rename in site-packages."""

    def fault(patient: Patient) -> None:
        (path,) = patient.site.glob(old)
        path.rename(patient.site / new)

    return fault


def uninstall(*names: str) -> Fault:
    """Uninstall distributions."""
    return lambda patient: patient.uninstall(*names)


def put_over(*requirements: str) -> Fault:
    """Install without a look at dependencies, over what is there."""
    return lambda patient: patient.install(*requirements, options=("--no-deps",))


def put_elsewhere(folder: str, *requirements: str) -> Fault:
    """Install into another folder, such as that of the user's own packages; {home} and {folder} are the row's."""

    def fault(patient: Patient) -> None:
        target = folder.format(home=patient.home, folder=patient.folder)
        patient.install(*requirements, options=("--no-deps", "--target", target))

    return fault


def plant(path: str, text: str = "") -> Fault:
    """Write a file; {home}, {work}, {site}, {folder} and {prefix} begin its path."""

    def fault(patient: Patient) -> None:
        file = Path(_filled(path, patient))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(_filled(text, patient))

    return fault


def _filled(text: str, patient: Patient) -> str:
    names = {"home": patient.home, "work": patient.cwd, "site": patient.site, "folder": patient.folder}
    for name, value in {**names, "prefix": patient.prefix}.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def empty_library(path: str, code: str = PLAIN, versions: tuple[str, ...] = ()) -> Fault:
    """A shared library without any function of what it is called after; `versions` are those that it says to have."""

    def fault(patient: Patient) -> None:
        file = Path(_filled(path, patient))
        (patient.folder / "forge").mkdir()
        Forge(patient.folder / "forge").library(file, code=code, versions=versions)

    return fault


def plugin(distribution: str, version: str) -> Fault:
    """A distribution with a file in tensorflow-plugins/ that asks TensorFlow for a function which it does not have."""

    def fault(patient: Patient) -> None:
        (patient.folder / "forge").mkdir()
        name = f"tensorflow-plugins/lib{distribution.partition('-')[0]}_plugin.so"
        made = Forge(patient.folder / "forge").library(patient.folder / name, code=OF_ANOTHER_TENSORFLOW)
        patient.install(str(wheel(patient.folder, distribution, version, {name: made.read_bytes()})))

    return fault


def another_environment(path: str) -> Fault:
    """A virtual environment with nothing in it."""
    return lambda patient: patient.new(Path(_filled(path, patient)))


def base_is_gone(patient: Patient) -> None:
    """The interpreter that the virtual environment was made with has been removed."""
    program = patient.prefix / "bin" / "python"
    program.unlink()
    program.symlink_to(patient.folder / "removed" / "bin" / "python3")


def activation_exports(*assignments: str) -> Fault:
    """Lines at the end of bin/activate, which every activation of the environment runs."""

    def fault(patient: Patient) -> None:
        with (patient.prefix / "bin" / "activate").open("a") as file:
            file.writelines(f"export {one}\n" for one in assignments)

    return fault


def exports_its_libraries(patient: Patient) -> None:
    """Nothing broken: activating the environment puts the folders of pip's CUDA on LD_LIBRARY_PATH, and tells XLA."""
    nvidia = patient.site / "nvidia"
    folders = ":".join(str(one) for one in sorted(nvidia.glob("*/lib")))
    path = f'LD_LIBRARY_PATH="{folders}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'
    activation_exports(path, f"XLA_FLAGS=--xla_gpu_cuda_data_dir={nvidia}/cuda_nvcc")(patient)
