"""The model of glibc's loader against the real one, and what lies out of its reach."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.probes.elf_lab import CALLER, Forge, really_loaded
from tests.probes.test_cuda import write
from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Known, Loader, Soname, Toolkit, Unknown
from tfgpu_doctor.probes import loader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ld.so is Linux's")
RUNPATH = "$ORIGIN/../nvidia/cudnn/lib:$ORIGIN/../nvidia/cuda_runtime/lib"
CUDNN = "libcudnn_x.so.9"  # no cuDNN, so that its parts are not asked for
ROWS = read_rows(Path(__file__).with_name("loader.yaml"))


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    return Forge(tmp_path_factory.mktemp("forge"))


class Bench:
    """A site-packages folder with a stand-in for TensorFlow's library, and folders for LD_LIBRARY_PATH."""

    def __init__(self, home: Path, forge: Forge, **search: str) -> None:
        self.home, self.library = home, forge.library
        self.prefix = home / "env"
        self.site = self.prefix / "lib" / "python3.12" / "site-packages"
        self.tensorflow = self.site / "tensorflow"
        self.wheel = self.site / "nvidia" / "cudnn" / "lib"
        self.a, self.b = home / "a", home / "b"
        self.caller = self.tensorflow / "libtensorflow_framework.so.2"
        for folder in (self.a, self.b, self.wheel):
            folder.mkdir(parents=True)
        forge.library(self.caller, code=CALLER, **(search or {"runpath": RUNPATH}))  # type: ignore[arg-type]
        (self.tensorflow / "libtensorflow_cc.so.2").touch()

    @property
    def environ(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": f"{self.a}:{self.b}"}

    def alone(self) -> str:
        """The root of a system that has nothing else: what this machine has installed plays no part."""
        write(self.home, "lib64/ld-linux-x86-64.so.2")
        return str(self.home)

    def predict(self, *sonames: str, **how: Any) -> list[Soname]:
        facts = self.examine(*sonames, **how)
        assert isinstance(facts.sonames, Known)
        return list(facts.sonames.value)

    def examine(self, *sonames: str, **how: Any) -> Loader:
        named = [(soname, soname.removeprefix("lib").split(".")[0].removesuffix("_x")) for soname in sonames]
        where = {"tensorflow_dir": str(self.tensorflow), "site_packages": [str(self.site)], "toolkits": []}
        return loader.examine(named, **{"environ": self.environ, **where, **how})  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path, forge: Forge) -> Bench:
    return Bench(tmp_path, forge)


def put(bench: Bench, target: Path, how: dict[str, Any]) -> None:
    """Put what a row says under the library's name: a link, a folder, a text, or a library, whole or not."""
    if "text" in how:
        target.write_text(how["text"])
    elif "folder" in how:
        target.mkdir()
    elif "library" in how:
        file = bench.library(target.with_name(how.get("link", target.name)), soname=CUDNN, **how["library"])
        data = bytearray(file.read_bytes()[: how.get("cut")])
        for offset, byte in how.get("bytes", {}).items():
            data[offset] = byte
        file.write_bytes(data)
    if "link" in how:
        target.symlink_to(how["link"])
    for file, text in how.get("beside", {}).items():
        path = target.parent / file
        path.write_text(text) if text is not None else bench.library(path)


@each("how, problem, effect", ROWS["first"])
def test_the_predicted_winner_is_the_file_that_the_real_loader_maps(
    forge: Forge, tmp_path: Path, how: dict[str, Any], problem: str | None, effect: str | None
) -> None:
    bench = Bench(tmp_path, forge)
    for folder in (bench.b, bench.wheel):
        bench.library(folder / CUDNN)
    put(bench, bench.a / CUDNN, how)
    (predicted,) = bench.predict(CUDNN)
    real = really_loaded(bench.caller, [CUDNN], bench.environ)[CUDNN]
    assert (os.path.realpath(predicted.winner) if predicted.winner else None) == real
    first = predicted.candidates[0]
    assert (first.problem, first.effect) == (problem, effect)
    assert {"LD_LIBRARY_PATH", "RUNPATH"} == {one.via for one in predicted.candidates if one.reachable}


def test_an_rpath_comes_before_the_library_path(tmp_path: Path, forge: Forge) -> None:
    bench = Bench(tmp_path, forge, rpath="$ORIGIN/../nvidia/cudnn/lib")
    bench.library(bench.wheel / CUDNN)
    bench.library(bench.a / CUDNN)
    (predicted,) = bench.predict(CUDNN)
    assert predicted.winner == really_loaded(bench.caller, [CUDNN], bench.environ)[CUDNN] == str(bench.wheel / CUDNN)
    assert [one.via for one in predicted.candidates] == ["RPATH", "LD_LIBRARY_PATH"]


@each("more", [[], ["libnowhere.so.7"]])
def test_a_library_loaded_for_another_is_found_without_a_search(forge: Forge, tmp_path: Path, more: list[str]) -> None:
    """As libcusparse is by the RUNPATH of libcusolver; an opening that fails leaves nothing loaded."""
    bench = Bench(tmp_path, forge)
    folder = bench.site / "nvidia" / "cusparse" / "lib"
    bench.library(bench.a / "libcusolver_x.so.11", needed=["libcusparse_x.so.12", *more], runpath=str(folder))
    sparse = bench.library(folder / "libcusparse_x.so.12")
    names = ["libcusolver_x.so.11", "libcusparse_x.so.12"]
    predicted = bench.predict(*reversed(names))  # in whatever order the question is put
    real = really_loaded(bench.caller, names, bench.environ)
    assert {one.soname: one.winner for one in predicted} == real
    assert predicted[0].winner == (None if more else str(sparse))
    assert more or predicted[0].candidates[0].via == "already loaded"


def test_a_library_of_the_system_comes_from_the_cache(bench: Bench) -> None:
    name = "libutil.so.1"  # glibc's own
    (predicted,) = bench.predict(name)
    real = really_loaded(bench.caller, [name], bench.environ)[name]
    assert real is not None
    assert os.path.realpath(predicted.winner or "") == real
    assert predicted.candidates[0].via in ("ldconfig", "default path")


def test_an_empty_entry_and_a_preloaded_library(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty entry of the library path is the current folder."""
    bench.library(bench.b / CUDNN)
    monkeypatch.chdir(bench.b)
    mine = bench.library(bench.home / "mine" / CUDNN)
    empty = {"LD_LIBRARY_PATH": f"{bench.a}:"}
    for environ, winner in ((empty, bench.b / CUDNN), ({**empty, "LD_PRELOAD": str(mine)}, mine)):
        (found,) = bench.predict(CUDNN, environ=environ)
        assert os.path.realpath(found.winner or "") == str(winner)
        assert really_loaded(bench.caller, [CUDNN], environ, cwd=bench.b)[CUDNN] == str(winner)


# ------------------------------------------------------------------------------ out of the loader's reach


WHEEL = "env/lib/python3.12/site-packages/nvidia"


@each("_name, row", ROWS["out of reach"].items())
def test_files_of_wheels_toolkits_and_conda(forge: Forge, tmp_path: Path, _name: str, row: Any) -> None:
    soname, files = row["soname"], [one.replace("WHEEL", WHEEL) for one in row["files"]]
    bench = Bench(tmp_path, forge)
    for file, _, link in (one.partition(" ") for one in files):
        path = bench.home / file if "/" in file else bench.site / f"{file}.dist-info" / "METADATA"
        path.parent.mkdir(parents=True, exist_ok=True)
        if ".so." in file:
            bench.library(path, soname=link or soname)
            if link:
                path.with_name(link).symlink_to(path.name)
        else:
            path.touch()
    kit = Toolkit(path=str(bench.home / "cuda-12.5"), version="12.5", source="cuda.h", via="/usr/local")
    (predicted,) = bench.predict(soname, toolkits=[kit], root=bench.alone())
    assert [[one.via, one.reachable, one.version, one.problem] for one in predicted.candidates] == row["expected"]
    assert predicted.other_versions == tuple(str(bench.home / one) for one in row["others"])


# ----------------------------------------------------------------------------------------------- cuDNN's parts


@each(
    "part, needed, problem",
    [
        ("cnn", None, "opens libcudnn_cnn.so.9, not found"),
        ("ops", ["libnowhere.so.7"], "opens libcudnn_ops.so.9, which needs libnowhere.so.7, not found"),
    ],
)
def test_a_cudnn_with_a_part_missing_loads_and_fails_later(
    forge: Forge, tmp_path: Path, part: str, needed: list[str] | None, problem: str
) -> None:
    bench = Bench(tmp_path, forge)
    bench.library(bench.wheel / "libcudnn.so.9", rpath="$ORIGIN")
    # that the driver's library is missing is another finding
    needs = {name: [] for name in ("graph", "ops", "cnn", "adv", "heuristic")}
    for name, others in {**needs, "engines_runtime_compiled": ["libcuda.so.1"], part: needed}.items():
        if others is not None:
            bench.library(bench.wheel / f"libcudnn_{name}.so.9", needed=others, runpath="$ORIGIN")
    (predicted,) = bench.predict("libcudnn.so.9", root=bench.alone())
    assert predicted.winner is None
    assert (predicted.candidates[0].problem, predicted.candidates[0].effect) == (problem, "later")


# --------------------------------------------------------------------------------------- what cannot be determined


def test_a_damaged_tensorflow_library_is_said_to_be_one(bench: Bench) -> None:
    bench.caller.write_bytes(b"")
    assert bench.examine(CUDNN).runpath == Unknown(f"empty file: {bench.caller}")
    bench.caller.unlink()
    assert bench.examine(CUDNN).runpath == Unknown(f"libtensorflow_framework.so.2 are missing in {bench.tensorflow}")


def test_before_2_11_another_library_calls(bench: Bench) -> None:
    (bench.tensorflow / "libtensorflow_cc.so.2").unlink()
    whole = bench.library(bench.tensorflow / "python" / "_pywrap_tensorflow_internal.so", runpath="$ORIGIN/..")
    assert bench.examine(CUDNN).runpath == Known((str(bench.tensorflow),), str(whole))


def test_a_cache_that_cannot_be_read_is_no_missing_library(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.exists(loader.CACHE):
        pytest.skip("this system has no cache")
    monkeypatch.setattr("tfgpu_doctor.probes.systems.find", lambda *_, **__: None)
    assert bench.examine(CUDNN).sonames == Unknown("no ldconfig to read /etc/ld.so.cache with")
    bench.library(bench.a / CUDNN)
    assert isinstance(bench.examine(CUDNN).sonames, Known)


def test_musl_is_unknown(bench: Bench) -> None:
    write(bench.home, "lib/ld-musl-x86_64.so.1")
    found = bench.examine("libcudart.so.12", root=str(bench.home)).sonames
    assert isinstance(found, Unknown) and "musl" in found.reason


# ----------------------------------------------------------------------------------------------- the real TensorFlow

OPEN_ALL = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
try:
    open_all = library._ZN3tsl8internal9DsoLoader22TryDlopenCUDALibrariesEv
except AttributeError:
    sys.exit(77)
open_all.restype = None
open_all(ctypes.byref((ctypes.c_uint64 * 8)()))
print("\\n".join({line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}))
"""
CUDA = {
    "cudart": ("11.0", "12", "13"),
    "cublas": ("11", "12", "13"),
    "cublasLt": ("11", "12", "13"),
    "cufft": ("10", "11", "12"),
    "cusolver": ("11", "12"),
    "cusparse": ("11", "12"),
    "cudnn": ("8", "9"),
}


@pytest.mark.tensorflow
def test_the_real_tensorflow_opens_the_files_that_were_predicted(
    tensorflow_python: str, tmp_path: Path, forge: Forge
) -> None:
    """Its own DsoLoader opens all CUDA libraries: stand-ins on LD_LIBRARY_PATH, of which cuFFT is an empty file."""
    ask = "import importlib.util as u; print(u.find_spec('tensorflow').submodule_search_locations[0])"
    home = subprocess.run([tensorflow_python, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    package = Path(home.stdout.strip())
    sonames = [(f"lib{stem}.so.{version}", stem) for stem, versions in CUDA.items() for version in versions]
    for soname, stem in sonames:
        if stem == "cufft":
            (tmp_path / soname).touch()
        elif stem != "cusparse":
            forge.library(tmp_path / soname)
    environ = {"LD_LIBRARY_PATH": str(tmp_path), "PATH": os.environ["PATH"]}
    command = [tensorflow_python, "-c", OPEN_ALL, str(package / "libtensorflow_framework.so.2")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 77:
        pytest.skip("this TensorFlow was built without CUDA, or keeps its loader's name to itself")
    assert done.returncode == 0, done.stderr
    mapped = {os.path.basename(path): path for path in done.stdout.split()}
    where = {"tensorflow_dir": str(package), "site_packages": [str(package.parent)], "toolkits": []}
    facts = loader.examine(sonames, environ=environ, **where)  # type: ignore[arg-type]
    assert isinstance(facts.sonames, Known)
    opened = [one for one in facts.sonames.value if one.soname in mapped]
    assert {"cudart", "cublas", "cusolver", "cudnn"} <= {one.component for one in opened}
    assert not any(one.component == "cufft" for one in opened)
    for one in opened:
        decided = one.winner or one.candidates[0].path  # the stand-in for cuDNN lacks its parts, which fails later
        assert os.path.realpath(decided) == os.path.realpath(mapped[one.soname])
    assert all(one.winner is None for one in facts.sonames.value if one.component == "cufft")
