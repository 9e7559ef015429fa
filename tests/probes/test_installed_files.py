"""Packages against their RECORD, over folders that are really there."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.probes.test_cuda import write
from tests.tables import each
from tfgpu_doctor.facts.facts import DamagedPackage, FailingFile, Known, Package, Phase, ShadowedModule, Unknown
from tfgpu_doctor.probes import installed_files

CUDNN = {"nvidia/cudnn/lib/libcudnn.so.9": 40, "nvidia/cudnn/__init__.py": 0, "nvidia/cudnn/include/cudnn.h": 9}


def install(site: Path, name: str, version: str, files: dict[str, int]) -> Package:
    """Write files of these sizes, and the RECORD that names them."""
    for path, size in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(b"x" * size)
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    with (info / "RECORD").open("w", newline="") as stream:
        rows = [[path, "sha256=abc", size] for path, size in files.items()]
        csv.writer(stream).writerows([*rows, [f"{info.name}/RECORD", "", ""]])
    return Package(name=name, version=version, location=str(site), installer="pip")


def found(*packages: Package) -> tuple[DamagedPackage, ...]:
    answer = installed_files.examine(Known(packages, "*.dist-info"))
    assert isinstance(answer, Known)
    return answer.value


def test_missing_and_overwritten_files(tmp_path: Path) -> None:
    package = install(tmp_path, "nvidia-cudnn-cu12", "9.1", {**CUDNN, "nvidia/cudnn/lib/libcudnn_ops.so.9": 7})
    (tmp_path / "nvidia/cudnn/lib/libcudnn.so.9").write_bytes(b"another")
    (tmp_path / "nvidia/cudnn/lib/libcudnn_ops.so.9").unlink()
    (damaged,) = found(package)
    assert damaged.missing == ("nvidia/cudnn/lib/libcudnn_ops.so.9",)
    assert damaged.overwritten == ("nvidia/cudnn/lib/libcudnn.so.9",)
    assert (damaged.name, damaged.files) == ("nvidia-cudnn-cu12", 2)


def test_what_images_leave_out_and_what_people_edit_is_no_damage(tmp_path: Path) -> None:
    """uv and pip remove nvidia/__init__.py, which is empty, with the first of NVIDIA's wheels."""
    files = {**CUDNN, "nvidia/tests/test_it.py": 5, "nvidia/__init__.py": 0}
    package = install(tmp_path, "nvidia-cudnn-cu12", "9.1", files)
    assert found(package) == ()
    (tmp_path / "nvidia/__init__.py").unlink()
    (tmp_path / "nvidia/cudnn/include/cudnn.h").unlink()
    (tmp_path / "nvidia/tests/test_it.py").unlink()
    (tmp_path / "nvidia/cudnn/__init__.py").write_text("# edited")
    assert found(package) == ()


NAMED = "../../etc/passwd.so,,1\n/etc/none.so,,1\n"
ODD = ("", "\0\n", NAMED, '"unfinished.so\n', "a.so,sha256=x,many\n", "\u00b2.so,,\u00b2\n")


@each("record", ODD)
def test_an_odd_record(tmp_path: Path, record: str) -> None:
    package = install(tmp_path, "tensorflow", "2.20.0", {})
    (tmp_path / "tensorflow-2.20.0.dist-info" / "RECORD").write_text(record, encoding="utf-8")
    assert all(not path.startswith(("..", "/")) for one in found(package) for path in one.missing)


def test_without_a_record_nothing_is_said(tmp_path: Path) -> None:
    assert found(Package(name="tensorflow", version="2.20.0", location=str(tmp_path))) == ()
    conda = install(tmp_path, "keras", "3.4.1", {"keras/__init__.py": 3})
    (tmp_path / "keras/__init__.py").unlink()
    assert found(Package(name="keras", version="3.4.1", location=conda.location, installer="conda")) == ()
    assert installed_files.examine(Unknown("no interpreter")) == Unknown("no interpreter")


def fails_with(site: Path, exception: str, *traceback: str) -> tuple[FailingFile, ...]:
    phase = Phase("import", "raised", exception=exception.format(site=site), traceback=traceback)
    answer = installed_files.named_in_errors((phase, Phase("build", "skipped")), [str(site), "/nowhere"])
    assert isinstance(answer, Known)
    return answer.value


def test_the_package_of_a_file_that_an_error_names(tmp_path: Path) -> None:
    install(tmp_path, "some-plugin", "1.0", {"tensorflow-plugins/libx.so": 3, "some/_ops.cpython-311.so": 3})
    (tmp_path / "tensorflow-plugins" / "liby.so.2").touch()
    x, y = (str(tmp_path / "tensorflow-plugins" / name) for name in ("libx.so", "liby.so.2"))
    ours = FailingFile(x, "some-plugin", "1.0")
    assert fails_with(tmp_path, "NotFoundError: {site}/tensorflow-plugins/libx.so: undefined symbol: TF_X") == (ours,)
    named = fails_with(tmp_path, "ImportError: {site}/some/x/../_ops.cpython-311.so: undefined symbol: TF_X")
    assert [(one.package, one.path) for one in named] == [("some-plugin", str(tmp_path / "some/_ops.cpython-311.so"))]
    by_folder = fails_with(tmp_path, "NotFoundError: libze.so.1: no such file", "    _ll.load_library(_plugin_dir)")
    assert by_folder == (ours, FailingFile(y))
    assert fails_with(tmp_path, "ImportError: numpy is gone") == ()


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


def shadowed(tmp_path: Path, folder: Path, *, pythonpath: bool = False) -> dict[str, ShadowedModule]:
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
    found = installed_files.examine_shadowed(order, Known(tuple(packages), ""), None, environ, cwd="/elsewhere")
    assert isinstance(found, Known)
    return {one.module: one for one in found.value}


def test_whatever_tensorflow_needs_is_found_in_the_other_folder(tmp_path: Path) -> None:
    other, names = tmp_path / "other", ["absl", "google", "keras", "rich", "typing_extensions"]
    for name in names:
        write(other, f"{name}/__init__.py")
    write(other, "mine.py")  # of a package that TensorFlow does not need
    (other / "empty").mkdir()
    found = shadowed(tmp_path, other)
    assert sorted(found) == names
    for name, one in found.items():
        assert (one.path, one.via, one.line) == (str(other / name), str(tmp_path / "site" / "more.pth"), 2)
        assert one.version == ("9.0" if name == "rich" else None)


def test_a_file_through_pythonpath(tmp_path: Path) -> None:
    write(tmp_path, "other/rich.py")
    (tmp_path / "other" / "keras").mkdir()  # without __init__.py it comes after all packages
    found = shadowed(tmp_path, tmp_path / "other", pythonpath=True)
    assert [(one.via, one.path) for one in found.values()] == [("PYTHONPATH", str(tmp_path / "other" / "rich.py"))]
