"""Modules of what TensorFlow needs that Python finds in another folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfgpu_doctor.probes import shadowed_modules
from tfgpu_doctor.records.facts import Known, Package, ShadowedModule

# distribution, its module, what requires it: of TensorFlow itself and of what it requires, and one that nobody needs
INSTALLED = [
    ("keras", "keras", ("rich",)),
    ("absl-py", "absl", ()),
    ("protobuf", "google", ()),
    ("typing-extensions", "typing_extensions.py", ()),
    ("rich", "rich", ()),
    ("mine", "mine", ()),
]
REQUIRED = ("keras>=3.0", "absl-py", "protobuf<6", "typing_extensions")


def examine(tmp_path: Path, folder: Path, *, pythonpath: bool = False) -> dict[str, ShadowedModule]:
    site = tmp_path / "site"
    packages = [Package("tensorflow", "2.17.1", str(site), "pip", REQUIRED)]
    for name, module, requires in INSTALLED:
        record = site / f"{name.replace('-', '_')}-1.0.dist-info" / "RECORD"
        record.parent.mkdir(parents=True)
        record.write_text(f"{module if module.endswith('.py') else module + '/__init__.py'},,\n../../bin/x,,\n")
        (site / module).touch() if module.endswith(".py") else (site / module).mkdir()
        packages.append(Package(name, "1.0", str(site), "pip", requires))
    (site / "more.pth").write_text(f"# {folder}\nimport sys; sys.path.insert(0, '{folder}')\n")
    packages.insert(0, Package("rich", "9.0", str(folder), "pip"))
    environ = {"PYTHONPATH": str(folder)} if pythonpath else {}
    order = [str(folder), "/usr/lib/python3.12", str(site)]
    found = shadowed_modules.examine(order, Known(tuple(packages), ""), None, environ, cwd="/elsewhere")
    assert isinstance(found, Known)
    return {one.module: one for one in found.value}


def test_whatever_tensorflow_needs_is_found_in_the_other_folder(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for name in ["keras", "absl", "google", "typing_extensions", "rich"]:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("row")
            other = tmp_path / "other"
            (other / name).mkdir(parents=True)
            (other / name / "__init__.py").touch()
            (other / "mine.py").touch()  # of a package that TensorFlow does not need
            (other / "empty").mkdir()
            found = examine(tmp_path, other)
            assert list(found) == [name]
            one = found[name]
            assert (one.path, one.via, one.line) == (str(other / name), str(tmp_path / "site" / "more.pth"), 2)
            assert one.version == ("9.0" if name == "rich" else None)


def test_a_file_through_pythonpath(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "rich.py").touch()
    (other / "keras").mkdir()  # without __init__.py it comes after all packages
    found = examine(tmp_path, other, pythonpath=True)
    assert {name: (one.via, os.path.basename(one.path)) for name, one in found.items()} == {
        "rich": ("PYTHONPATH", "rich.py")
    }
