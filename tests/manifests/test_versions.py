"""Versions of conda and Poetry in PEP 440."""

from __future__ import annotations

import pytest

from tests.tables import each
from tfgpu_doctor.manifests import Place
from tfgpu_doctor.manifests.containers import fill, read_quantity, read_size, substitute
from tfgpu_doctor.manifests.requirement import conda_requirement
from tfgpu_doctor.manifests.versions import poetry_specifier


@each(
    ("spec", "name", "specifier", "build"),
    [
        ("tensorflow", "tensorflow", "", None),
        ("tensorflow-gpu=2.4", "tensorflow-gpu", "==2.4.*", None),
        ("tensorflow==2.4", "tensorflow", "==2.4", None),
        ("tensorflow=2.10.0=gpu_py39h039f4ff_0", "tensorflow", "==2.10.0.*", "gpu_py39h039f4ff_0"),
        ("tensorflow==2.15.*", "tensorflow", "==2.15.*", None),
        ("tensorflow=2.19.*=cuda*", "tensorflow", "==2.19.*", "cuda*"),
        ("tensorflow=*=*cuda*", "tensorflow", "", "*cuda*"),
        ("tensorflow >=2.12,<2.13 cuda*", "tensorflow", ">=2.12,<2.13", "cuda*"),
        ("tensorflow[version='>=2.4',build=*cuda*]", "tensorflow", ">=2.4", "*cuda*"),
        ("conda-forge/linux-64::tensorflow>=2.12", "tensorflow", ">=2.12", None),
        ("https://conda.example.org/x::tensorflow=2.4", "tensorflow", "==2.4.*", None),
        ("cudatoolkit=10.0.130=0", "cudatoolkit", "==10.0.130.*", "0"),
        ("cudnn 8.1.0", "cudnn", "==8.1.0", None),
        ("python >=3.8, <3.10", "python", ">=3.8,<3.10", None),
        ("python 3.8.*|3.9.*", "python", ">=3.8,<3.10", None),
        ("openssl=1.1.1w=h7f8727e_0", "openssl", "===1.1.1w", "h7f8727e_0"),
        ("numpy 1.26", "numpy", "==1.26", None),
    ],
)
def test_match_specs(spec: str, name: str, specifier: str, build: str | None) -> None:
    one = conda_requirement(spec, Place("environment.yml", 1))
    assert (one.name, one.specifier, one.build) == (name, specifier, build)


@each("spec", ["", "=2.4", "tensorflow>=2.4|<2", "tensorflow >>2"])
def test_what_is_no_match_spec(spec: str) -> None:
    with pytest.raises(ValueError):
        conda_requirement(spec, Place("environment.yml", 1))


@each(
    ("version", "expected"),
    [
        ("*", ""),
        ("2.15.1", "==2.15.1"),
        ("2.15.*", "==2.15.*"),
        ("^2.15", ">=2.15,<3"),
        ("^0.2.3", ">=0.2.3,<0.3"),
        ("^2.16.0rc0", ">=2.16.0rc0,<3"),
        ("~2.15", ">=2.15,<2.16"),
        ("~3", ">=3,<4"),
        ("~=2.15.0", "~=2.15.0"),
        ("^3.10,<3.12", ">=3.10,<4,<3.12"),
        (">=3.9, !=3.9.7, <3.12", ">=3.9,!=3.9.7,<3.12"),
        ("~3.9 || ~3.10", ">=3.9,<3.11"),
    ],
)
def test_poetry(version: str, expected: str) -> None:
    assert poetry_specifier(version) == expected


@each(
    ("text", "expected"),
    [
        ("a$V-${V}b", "a1-1b"),
        ("${V:-2}${W:-2}${E:-3}${E-3}", "123"),
        ("${V:+==${V}}${W:+x}", "==1"),
        ("${W:-${V:-3}}", "1"),
        ("$W", None),
        ("${W}", None),
        ("$1 $$ ${", "$1 $$ ${"),
    ],
)
def test_variables(text: str, expected: str | None) -> None:
    assert substitute(text, {"V": "1", "E": ""}) == expected


def test_variables_that_grow_without_end() -> None:
    values = {"A0": "x" * 100}
    for number in range(1, 30):
        values[f"A{number}"] = fill(f"$A{number - 1}" * 10, values)
    assert max(map(len, values.values())) <= 2_000


def test_sizes() -> None:
    assert [read_size(one) for one in ("8gb", "64m", "1024", "0.5g", "lots")] == [
        str(8 * 2**30), str(64 * 2**20), "1024", str(2**29), "lots",
    ]  # fmt: skip
    assert [read_quantity(one) for one in ("1Gi", "1G", "512Mi", "10")] == [str(2**30), "1000000000", str(2**29), "10"]
