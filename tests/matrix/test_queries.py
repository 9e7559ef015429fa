"""Which releases satisfy a set of filters, on a small matrix whose answers can be read off it, and on ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.healthy import MATRIX as OURS
from tests.tables import each, read_rows
from tfgpu_doctor.matrix.loader import Matrix, parse
from tfgpu_doctor.matrix.queries import (
    Filters,
    QueryError,
    also_load,
    broken_on,
    find_release,
    known_broken,
    only_with,
    releases,
    same_as_far_as_given,
    with_gpu,
)
from tfgpu_doctor.matrix.tables import cuda_answer, cudnn_answer, find_cuda, find_cudnn, last_cudnn
from tfgpu_doctor.plan.gpu_answers import all_gpus, default_platform, gpu_answer
from tfgpu_doctor.plan.ranking import make_plan
from tfgpu_doctor.plan.target import describe

ROWS = read_rows(Path(__file__).with_suffix(".yaml"))

FILE = Path(__file__).parents[1] / "small_matrix.yaml"
SMALL = Matrix(parse(FILE.read_text(encoding="utf-8"), FILE.name), FILE.name)


def names(**filters: Any) -> list[str]:
    """The releases as "version", or "package version" where that is not tensorflow."""
    return [_name(row.package, row.version) for row in releases(SMALL, Filters(**filters))]


def _name(package: str, version: str) -> str:
    return version if package == "tensorflow" else f"{package} {version}"


@each(("filters", "expected"), ROWS["test_releases"])
def test_releases(filters: dict[str, Any], expected: list[str]) -> None:
    assert names(**filters) == expected


def test_what_the_flags_would_add_and_what_is_known_to_be_broken() -> None:
    ada = Filters(compute_capability="8.9")
    by_ptx = [row.version for row in only_with(SMALL, ada, ptx=True)]
    assert by_ptx == ["2.14.0", "2.13.0", "2.10.1", "2.10.1", "1.14.0"]
    assert [row.version for row in only_with(SMALL, ada, pre=True)] == ["2.19.0rc0"]
    assert [(row.version, issue.id) for row, issue in known_broken(SMALL, ada)] == [("2.15.0", "ada-broken")]
    assert known_broken(SMALL, Filters(compute_capability="8.9", python="3.12")) == ()
    newest = find_release(SMALL, "2.18.0", "linux_x86_64")  # its error depends on the extra
    assert newest.known_issues and broken_on(SMALL, newest, "8.9") is None


@each(("version", "wanted", "same"), ROWS["test_versions_are_compared_as_far_as_given"])
def test_versions_are_compared_as_far_as_given(version: str, wanted: str, same: bool) -> None:
    assert same_as_far_as_given(version, wanted) is same


@each(("filters", "expected"), ROWS["test_builds_for_an_earlier_minor_that_open_the_same_files"])
def test_builds_for_an_earlier_minor_that_open_the_same_files(filters: dict[str, Any], expected: list[str]) -> None:
    assert [_name(row.package, row.version) for row in also_load(SMALL, Filters(**filters))] == expected


@each(("text", "package", "expected"), ROWS["test_a_release_by_what_people_write"])
def test_a_release_by_what_people_write(text: str, package: str | None, expected: str) -> None:
    row = find_release(SMALL, text, "linux_x86_64", package)
    assert _name(row.package, row.version) == expected


@each(("text", "platform", "package", "message"), ROWS["test_what_is_no_known_release_is_answered_with_what_is_near"])
def test_what_is_no_known_release_is_answered_with_what_is_near(
    text: str, platform: str, package: str | None, message: str
) -> None:
    with pytest.raises(QueryError) as caught:
        find_release(SMALL, text, platform, package)
    assert message in str(caught.value)


def test_the_twin_with_the_gpu() -> None:
    twin = with_gpu(SMALL, find_release(SMALL, "1.14.0", "linux_x86_64"))
    assert twin is not None
    assert twin.package == "tensorflow-gpu"
    assert with_gpu(SMALL, find_release(SMALL, "2.10.1", "macos_x86_64")) is None
    assert with_gpu(SMALL, find_release(SMALL, "2.15.1", "linux_x86_64")) is None


@each(("kind", "text", "version"), ROWS["FOUND"])
def test_a_toolkit_or_cudnn_by_what_people_write(kind: str, text: str, version: str) -> None:
    assert (find_cuda if kind == "cuda" else find_cudnn)(SMALL, text).version == version


@each(("kind", "text", "message"), ROWS["UNKNOWN"])
def test_what_is_unknown_is_answered_with_what_is_near(kind: str, text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        ANSWERS[kind](text)
    assert message in str(caught.value)


def test_a_toolkit_that_stands_in_the_file_by_its_updates_only() -> None:
    rows = [row for row in SMALL.data.cuda if row.version != "12.5"]
    assert find_cuda(Matrix(msgspec.structs.replace(SMALL.data, cuda=tuple(rows)), "test"), "12.5").version == "12.5.1"


ANSWERS: dict[str, Callable[..., Any]] = {
    "cuda": lambda text: cuda_answer(SMALL, find_cuda(SMALL, text)),
    "cudnn": lambda text: cudnn_answer(SMALL, find_cudnn(SMALL, text)),
    "last_cudnn": lambda *card: {"": last_cudnn(SMALL, *card)},
    "gpu": lambda *card: gpu_answer(SMALL, *card),
}


@each(("kind", "key", "expected"), ROWS["test_answers"])
def test_answers(kind: str, key: list[str], expected: dict[str, Any]) -> None:
    answer = json.loads(msgspec.json.encode(ANSWERS[kind](*key)))
    assert {name: answer[name] for name in expected} == expected


def test_a_branch_is_the_gpus_own_and_that_of_its_architecture_a_lower_bound() -> None:
    rows = {row["name"]: row for row in all_gpus(SMALL)}
    assert (rows["L2"]["first_driver_branch"], rows["L2"]["driver_at_least"]) == ("535", None)
    assert (rows["L4"]["first_driver_branch"], rows["L4"]["driver_at_least"]) == (None, "520")
    assert rows["Tesla K80"]["last_driver_branch"] == "470"


@each(("name", "capability", "platform"), ROWS["test_the_platform_that_a_gpu_is_sold_with"])
def test_the_platform_that_a_gpu_is_sold_with(name: str | None, capability: str, platform: str) -> None:
    assert default_platform(name, capability) == platform


def test_the_newest_release_for_a_card_is_the_one_that_a_plan_takes() -> None:
    for name in ("GeForce RTX 4090", "Tesla V100-SXM2-16GB", "Tesla K80", "GeForce GTX 980"):
        card = OURS.gpu(name)
        assert card is not None
        answer = gpu_answer(OURS, card.compute_capability, name)
        plan = make_plan(OURS, describe(OURS, gpu=(name,)))
        assert answer["newest_tensorflow"] == next(one.tensorflow for one in plan.options if one.kind == "as-is")
