"""Lists of packages as they are pasted."""

from __future__ import annotations

import pytest

from tests.guard import guarded
from tests.parsers.pasted import CAPTURES, capture, every_capture, lines, mangled
from tfgpu_doctor.parsers.tools.pip_list import parse


def rows(name: str) -> list[tuple[str, str, str, str | None, str | None]]:
    found = parse(capture("pip_list", f"{name}.txt"))
    return [(one.manager, one.name, one.version, one.build, one.channel) for one in found]


@pytest.mark.parametrize(
    ("name", "count", "some"),
    [
        (
            "conda_list_windows_cut_off",
            9,
            [
                ("pip", "astor", "0.7.1", None, None),
                ("conda", "blas", "1.0", "mkl", None),
                ("conda", "cudatoolkit", "9.0", "1", "anaconda"),
                ("conda", "icu", "58.2", "vc14hc45fdbb_0", "anaconda"),
                ("conda", "zlib", "1.2.11", None, None),  # cut off
            ],
        ),
        (
            "conda_list_with_pypi_channel",
            6,
            [
                ("conda", "_libgcc_mutex", "0.1", "conda_forge", "conda-forge"),
                ("pip", "tensorboard", "2.17.1", None, None),
            ],
        ),
        (
            "conda_list_of_both_managers",
            9,
            [
                ("conda", "fftw", "3.3.7", "blas_openblas_0", "conda-forge"),
                ("pip", "keras", "2.1.6", None, None),
                ("conda", "keras", "2.2.0", "py36_0", "conda-forge"),
            ],
        ),
        (
            "conda_list_grep_in_prose",
            5,
            [
                ("conda", "cudnn", "7.0.5", "cuda8.0_0", None),
                ("conda", "tensorflow", "1.12.0", "mkl_py36h69b6ba0_0", None),
                ("conda", "tensorflow-gpu", "1.4.1", "0", None),
            ],
        ),
        (
            "conda_list_as_markdown_table",
            2,
            [("pip", "keras", "2.14.0", None, None), ("conda", "xz", "5.2.6", "h166bdaf_0", "conda-forge")],
        ),
        (
            "pip_list_after_a_prompt",
            8,
            [
                ("pip", "backports-weakref", "1.0.post1", None, None),
                ("pip", "keras-preprocessing", "1.1.2", None, None),
            ],
        ),
        ("pip_list_of_a_container", 3, [("pip", "markdown-it-py", "4.3.0", None, None)]),
        ("uv_pip_list_cut_off", 7, [("pip", "tensorboard", "2.13.0", None, None)]),
        ("conda_env_export", 6, [("conda", "cudatoolkit", "10.0.130", "0", None)]),
        (
            "environment_file_in_prose",
            3,
            [("conda", "tensorflow", "2.2.0", None, None), ("conda", "cudnn", "7.6", None, None)],
        ),
        ("conda_plan_cut_off", 3, [("conda", "_tflow_select", "2.1.0", "gpu", "main")]),
        ("mamba_plan_windows_cut_off", 2, [("conda", "astunparse", "1.6.3", "pyhd8ed1ab_0", "conda-forge")]),
        ("mamba_plan_downgrade", 3, [("conda", "numpy", "1.19.5", "py37h3e96413_2", "conda-forge")]),
        ("conda_list_below_an_answer", 3, [("conda", "tensorflow", "2.15.0", "cuda120py311h5cbd639_1", "conda-forge")]),
    ],
)
def test_lists_as_pasted(name: str, count: int, some: list[tuple[str, str, str, str | None, str | None]]) -> None:
    found = rows(name)
    assert len(found) == count
    assert [row for row in some if row not in found] == []


def test_every_capture_is_listed_with_its_making() -> None:
    readme = (CAPTURES / "pip_list" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in every_capture("pip_list") if f"| {path.name} |" not in readme] == []


def said(text: str) -> list[tuple[str, str, str]]:
    return [(one.listing, one.name, one.version) for one in parse(lines(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tensorflow==2.13.0", [("freeze", "tensorflow", "2.13.0")]),
        ("tensorflow[and-cuda]==2.15.1 ; python_version < '3.12'", [("freeze", "tensorflow", "2.15.1")]),
        ("numpy @ file:///croot/numpy-1.23.5-cp310-cp310-linux_x86_64.whl", [("freeze", "numpy", "1.23.5")]),
        ("numpy @ file:///croot/numpy_and_numpy_base_1682520569166/work", [("freeze", "numpy", "")]),
        ("Name: tensorflow\nVersion: 2.13.0\nSummary: TensorFlow is an open source machine learning framework",
         [("pip show", "tensorflow", "2.13.0")]),
        ("Name: somebody\nVersion control: git", []),
        ("tensorflow-gpu (1.4.0)\ntensorflow-tensorboard (0.4.0)",
         [("pip list", "tensorflow-gpu", "1.4.0"), ("pip list", "tensorflow-tensorboard", "0.4.0")]),
        ("tf-nightly               2.17.0.dev20240504", [("pip list", "tf-nightly", "2.17.0.dev20240504")]),
        ("  + tensorflow==2.15.0\n - keras==2.14.0", [("plan", "tensorflow", "2.15.0")]),
        ("$ poetry show\ntensorflow  2.13.0 TensorFlow is an open source machine learning framework for everyone.",
         [("poetry show", "tensorflow", "2.13.0")]),
        ("Package    Version  Editable project location\n---------- --------\nmymodel    0.1      /home/me/mymodel",
         [("pip list", "mymodel", "0.1")]),
        ("dependencies:\n  - cudatoolkit=11.2\n  - pip:\n    - tensorflow==2.10.0",
         [("environment", "cudatoolkit", "11.2"), ("environment", "tensorflow", "2.10.0")]),
        ("https://mirror.example/conda-forge/linux-64/tensorflow-2.15.0-cuda120py311h5cbd639_1.conda",
         [("plan", "tensorflow", "2.15.0")]),
        ("tensorflow == 1.12.0", [("freeze", "tensorflow", "1.12.0")]),
        ("tensorflow==2.6.0, keras==2.6.0", [("freeze", "tensorflow", "2.6.0"), ("freeze", "keras", "2.6.0")]),
        ("cudatoolkit               10.0.130                      0", [("conda list", "cudatoolkit", "10.0.130")]),
        # what is no list
        ("Debian 10.3\nPython 3.8.2\nCuda 10.2\nTensorflow 2.2.0-rc2", []),
        ("accuracy  0.98\nloss      0.03", []),
        ("pip list\n\n$ python --version\nPython 3.8.10", []),
        ("2026-11-21 14:04:18.703295: I tensorflow/tsl/cuda/cudart_stub.cc:28] Could not find cuda drivers", []),
        ("|   0  GeForce GTX 1080   WDDM  | 00000000:01:00.0  On |                  N/A |", []),
        ("x == 1", []),
        ("Epoch 1/10", []),
    ],
)  # fmt: skip
def test_rows_and_what_is_none(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert said(text) == expected


def test_location_and_line() -> None:
    (one,) = parse(lines("\nName: keras\nVersion: 3.9.0\nLocation: /opt/env/lib/python3.12/site-packages"))
    assert (one.line, one.location) == (2, "/opt/env/lib/python3.12/site-packages")


def test_bad_pastes_do_not_hurt() -> None:
    for path in every_capture("pip_list"):
        for seed in range(20):
            parse(mangled(path.read_text(encoding="utf-8"), seed))


@pytest.mark.parametrize(
    "unit", ["a", "a ", "a 1.0 ", "- ", "a==1", "pip list", "a::b-1-c ", "https://a/b/", "|", "  ", "Name: a"]
)
def test_long_lines_are_quick(unit: str) -> None:
    long = (unit * 100_000)[:100_000]
    with guarded(5.0):
        for start in ("", "pip list\n", "dependencies:\n", "conda list\n", "numpy @ file:///"):
            parse(lines(f"{start}{long[:390]}\n{long[:390]}x\n{start}{long}"))
