"""One rule each: which release is the newest that works, and which versions are the nearest."""

from __future__ import annotations

import pytest

from tests.cli.runner import tfgpu
from tests.healthy import MATRIX
from tests.tables import each
from tfgpu_doctor.matrix.queries import QueryError
from tfgpu_doctor.matrix.tables import cuda_answer, cudnn_answer, find_cuda, find_cudnn
from tfgpu_doctor.plan.gpu_answers import gpu_answer
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.target import describe
from tfgpu_doctor.records.versions import numbers


def test_the_newest_release_for_a_gpu_is_the_one_that_the_plan_takes() -> None:
    planned = make_plan(MATRIX, describe(MATRIX)).options[0].tensorflow
    assert gpu_answer(MATRIX, "8.6").newest_tensorflow == planned


@each(("table", "version"), [("cuda", "14"), ("cudnn", "10"), ("cuda", "12.99")])
def test_the_nearest_version_is_named_where_one_is_unknown(table: str, version: str) -> None:
    find, rows = (find_cuda, MATRIX.data.cuda) if table == "cuda" else (find_cudnn, MATRIX.data.cudnn)
    known = sorted((row.version for row in rows), key=numbers)
    below = [one for one in known if numbers(one) < numbers(version)]
    nearest = below[-1] if below else known[0]
    with pytest.raises(QueryError) as error:
        find(MATRIX, version)
    assert nearest in str(error.value).partition("known are ")[2].split(", ")


def test_prereleases_are_listed_for_neither_cuda_nor_cudnn() -> None:
    listed = [one for row in MATRIX.data.cuda for one in cuda_answer(MATRIX, row).tensorflow]
    listed += [one for row in MATRIX.data.cudnn for one in cudnn_answer(MATRIX, row).tensorflow]
    assert [one for one in listed if "rc" in one] == []


def test_builds_of_conda_are_named_for_their_cuda() -> None:
    assert "2.19.1" in cuda_answer(MATRIX, find_cuda(MATRIX, "12.9")).conda


def test_a_driver_branch_that_is_not_known_is_named_so() -> None:
    assert "newer than any that is known" in " ".join(tfgpu("plan", "--driver", "999").stdout.split())


def test_a_named_gpu_cannot_be_used_on_macos() -> None:
    done = tfgpu("plan", "--gpu", "T4", "--os", "macos")
    assert done.returncode == 1
    assert "so T4 cannot be used" in done.stdout
    assert "recommended" not in done.stdout
    assert tfgpu("plan", "--os", "macos").returncode == 0


def test_a_driver_is_needed_up_to_the_last_branch_of_the_gpu() -> None:
    assert "driver 450.80.02 to branch 470" in tfgpu("plan", "--gpu", "K80", "--driver", "470").stdout
