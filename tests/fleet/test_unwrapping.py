"""Results in every form in which tools print them are read; what cannot be read names its file and line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fleet import making, wrapped
from tests.fleet.wrapped import Texts
from tests.healthy import MATRIX
from tfgpu_doctor.fleet import reading
from tfgpu_doctor.fleet.fleet import judge_fleet
from tfgpu_doctor.fleet.reading import Gathered, Gathering, read_fleet
from tfgpu_doctor.fleet.records import Fleet
from tfgpu_doctor.fleet.unwrapping import unfolded

KIND = making.TYPES[2]
NODES = ("gpu-1", "gpu-2", "gpu-3")
FORMS = [*wrapped.NAMING, *wrapped.NUMBERING, *wrapped.OTHERS]


def texts(indent: int | None = 2, nodes: tuple[str, ...] = NODES, host: str = "") -> Texts:
    """What `tfgpu doctor --format json` prints on each node; `host`: as each of them calls itself."""
    found = {}
    for name in nodes:
        values = making._values(Random(name), host or name, KIND, None)
        found[name] = json.dumps(json.loads(making.report(KIND).filled(values)), indent=indent) + "\n"
    return found


def gathered(text: str | bytes, name: str = "log.txt") -> Gathered:
    gathering = Gathering()
    gathering.take_file(text.encode() if isinstance(text, str) else text, name)
    return gathering.gathered()


def names(found: Gathered) -> list[str]:
    """Of the nodes that sent a result, each once."""
    return sorted({one.node for one in found.results if one.kind})


def judged(found: Gathered) -> Fleet:
    return judge_fleet(found, MATRIX, "2026-11-23T12:00:00Z")


@pytest.mark.parametrize("indent", [2, None], ids=["indented", "on a line"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_results_are_read_as_tools_print_them(form: Callable[[Texts], str], indent: int | None) -> None:
    found = gathered(form(texts(indent)))
    assert (names(found), found.unreadable) == (list(NODES), ())
    fleet = judged(found)
    sent = [node.name for node in fleet.nodes if node.results]
    assert sent == list(NODES)
    silent = [node.name for node in fleet.nodes if not node.results]
    assert silent == (["gpu-9"] if form in (wrapped.ansible_json, wrapped.ansible_json_after_noise) else [])
    assert fleet.notes == ()


def test_the_tool_s_name_counts_for_more_than_the_host_s(subtests: pytest.Subtests) -> None:
    """Containers on several nodes may have one host name, a redacted report has none."""
    for form in wrapped.NAMING:
        with subtests.test(form=form):
            assert names(gathered(form(texts(host="container")))) == list(NODES)
            assert names(gathered(form(texts(host="<host>")))) == list(NODES)


def test_a_number_stands_for_a_node_without_a_name(subtests: pytest.Subtests) -> None:
    for form in wrapped.NUMBERING:
        with subtests.test(form=form):
            assert names(gathered(form(texts(host="<host>")))) == [f"task {n} of log.txt" for n in range(3)]


def test_the_services_of_docker_compose_name_their_containers() -> None:
    assert names(gathered(wrapped.compose(texts()))) == ["gpu-1-1", "gpu-2-1", "gpu-3-1"]


def test_long_lines_that_srun_breaks_into_pieces_are_joined() -> None:
    assert names(gathered(wrapped.srun_in_pieces(texts(None)))) == list(NODES)


def test_several_documents_on_a_line(subtests: pytest.Subtests) -> None:
    for between in ["", " ", ",", ", ", "\t", "\r"]:
        with subtests.test(between=between):
            reports = [text.strip() for text in texts(None).values()]
            assert names(gathered(f"x\n{between.join(reports)}{between}\n")) == list(NODES)
            found = gathered(f"x\n{between.join(reports[:2])}{between}{reports[2][:-9]}")
            assert (names(found), [one.reason for one in found.unreadable]) == (list(NODES[:2]), ["it is cut off"])


# ----------------------------------------------------------------------------------------------------------- files


def test_files_and_folders(tmp_path: Path) -> None:
    """A folder's files of any depth; a redacted report is named by its file, or by the folder that it is in."""
    (tmp_path / "rack 1").mkdir()
    reports = texts(host="<host>")
    (tmp_path / "gpu-1.json").write_text(reports["gpu-1"])
    (tmp_path / "rack 1" / "gpu-2.tfgpu.json").write_text(reports["gpu-2"])
    (tmp_path / "gpu-3").mkdir()
    (tmp_path / "gpu-3" / "report.json").write_text(reports["gpu-3"])
    (tmp_path / "notes.md").write_text("nothing")
    found = read_fleet([str(tmp_path)])
    assert (names(found), found.unreadable) == (list(NODES), ())
    assert names(read_fleet([str(tmp_path / "gpu-1.json")])) == ["gpu-1"]


def test_a_folder_that_ansible_has_filled(tmp_path: Path) -> None:
    """`ansible --tree DIR` writes the answer of each host into a file of its name."""
    for name, text in texts(host="<host>").items():
        (tmp_path / f"{name}.json").write_text(json.dumps(wrapped._answer(text, 0)))
    found = read_fleet([str(tmp_path)])
    assert (names(found), found.unreadable) == (list(NODES), ())


def test_files_as_systems_write_them(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for indent in [2, None]:
        for encoded in [
            lambda text: text.replace("\n", "\r\n").encode(),
            lambda text: b"\xef\xbb\xbf" + text.encode(),
            lambda text: text.replace("\n", "\r\n").encode("utf-16"),
            lambda text: text.encode("utf-16-be"),
            lambda text: gzip.compress(text.encode()),
            lambda text: gzip.compress(text[:999].encode()) + gzip.compress(text[999:].encode()),
            lambda text: text.rstrip("\n").encode(),
        ]:
            with subtests.test(indent=indent, encoded=encoded):
                tmp_path = tmp_path_factory.mktemp("row")
                path = tmp_path / "all.log"
                for text in (wrapped.plain(texts(indent)), wrapped.pdsh(texts(indent)), wrapped.ansible(texts(indent))):
                    path.write_bytes(encoded(text))
                    found = read_fleet([str(path)])
                    assert (names(found), found.unreadable) == (list(NODES), ())
                path.write_bytes(encoded(texts(indent)["gpu-1"]))
                assert names(read_fleet([str(path)])) == ["gpu-1"]


def test_a_file_that_is_larger_than_a_chunk(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for suffix in ["", ".gz"]:
        with subtests.test(suffix=suffix):
            tmp_path = tmp_path_factory.mktemp("row")
            nodes = tuple(f"gpu-{n}" for n in range(60))
            text = wrapped.pdsh(texts(nodes=nodes)).encode()
            assert len(text) > 3 << 20
            (tmp_path / f"all.log{suffix}").write_bytes(gzip.compress(text) if suffix else text)
            found = read_fleet([str(tmp_path)])
            assert (names(found), found.unreadable) == (sorted(nodes), ())


def test_a_packed_file_that_is_damaged(tmp_path: Path) -> None:
    data = gzip.compress(wrapped.plain(texts()).encode())
    (tmp_path / "cut.json.gz").write_bytes(data[:-300])
    (tmp_path / "damaged.json.gz").write_bytes(data[:30] + b"??????" + data[36:])
    found = {Path(one.file).name: one.reason for one in read_fleet([str(tmp_path)]).unreadable}
    assert found.pop("cut.json.gz") == "it is packed with gzip, and cut off"
    assert found.pop("damaged.json.gz").startswith("it begins as gzip writes it, and then is damaged: ")
    assert found == {}


def test_what_unpacks_without_an_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfgpu_doctor.files import reading

    monkeypatch.setattr(reading, "LARGEST_UNPACKED", 5 << 20)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * (20 << 20)))
    (one,) = read_fleet([str(tmp_path)]).unreadable
    assert one.reason == "unpacked, it is larger than 5 MiB; split it"


# ------------------------------------------------------------------------------------------------- what is unreadable


def test_what_is_cut_off_names_its_line_and_the_rest_goes_on() -> None:
    one, two, three = texts().values()
    lines = one.splitlines()
    half = "\n".join(lines[:40]) + "\n"
    found = gathered(two + half + three)
    assert names(found) == ["gpu-2", "gpu-3"]
    (refused,) = found.unreadable
    assert (refused.file, refused.line, refused.reason) == ("log.txt", len(two.splitlines()) + 40, "it is cut off")
    assert judged(found).verdict == "unknown"


def test_each_line_that_is_no_result_is_counted_by_its_reason() -> None:
    one, two, three = texts(None).values()
    wrong = one.replace('"verdict": "ok"', '"verdict": 7')
    old = two.replace("tfgpu.report/1", "tfgpu.report/0")
    newer = two.replace("tfgpu.report/1", "tfgpu.report/2")
    found = gathered("noise\n" + wrong + wrong + old + newer + three[:500] + "\n" + three)
    assert names(found) == ["gpu-3"]
    reasons = {one.reason: (one.line, one.count) for one in found.unreadable}
    assert reasons == {
        "it is not valid: Expected `str`, got `int` - at `$.verdict`": (2, 2),
        "it has schema 'tfgpu.report/0'; this version of tfgpu reads 'tfgpu.report/1'": (4, 1),
        "it has schema 'tfgpu.report/2'; this version of tfgpu reads 'tfgpu.report/1'; that is newer: update tfgpu, "
        "or write it again with this version": (5, 1),
        "it is cut off": (6, 1),
    }


def test_a_file_without_a_result_says_so(tmp_path: Path) -> None:
    for name, text in {"empty": "", "other": "all is well\n", "json": '{"a": 1}', "list": "[1, 2]"}.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "good.json").write_text(texts()["gpu-1"])
    found = read_fleet([str(tmp_path), str(tmp_path / "missing.json")])
    assert names(found) == ["gpu-1"]
    assert {Path(one.file).name for one in found.unreadable} == {
        *("empty.json", "other.json", "json.json", "list.json", "missing.json"),
    }


def test_lines_that_ray_leaves_out_are_told() -> None:
    """Ray prints lines that differ in their numbers alone once, unless RAY_DEDUP_LOGS=0; so it does with results."""
    one, two, _ = texts(None).values()
    printed = f"(doctor pid=1) {one}(doctor pid=2, ip=10.0.0.2) {two.rstrip()} [repeated 2x across cluster]\n"
    found = gathered(printed)
    assert names(found) == ["gpu-1", "gpu-2"]
    (refused,) = found.unreadable
    assert (refused.line, refused.reason) == (
        2,
        "Ray printed one line for several that look alike: set RAY_DEDUP_LOGS=0",
    )


# ------------------------------------------------------------------------------------------ nodes without an answer


def test_a_node_that_gave_no_answer_is_told(subtests: pytest.Subtests) -> None:
    for line, nodes, reason in [
        ('gpu-7 | UNREACHABLE! => {\n    "changed": false\n}', ["gpu-7"], "Ansible could not reach it"),
        ("gpu-7 | UNREACHABLE!: Failed to connect via ssh", ["gpu-7"], "Ansible could not reach it"),
        ('fatal: [gpu-7]: UNREACHABLE! => {"changed": false}', ["gpu-7"], "Ansible could not reach it"),
        (
            "gpu-7 | FAILED | rc=2 >>\n[Errno 2] No such file or directory: b'tfgpu'",
            ["gpu-7"],
            "its command ended with exit code 2, and printed no report",
        ),
        (
            'gpu-7 | FAILED! => {\n    "changed": false,\n    "msg": "Could not find it"\n}',
            ["gpu-7"],
            "its command failed, and printed no report",
        ),
        ("srun: error: gpu-7: task 7: Killed", ["gpu-7"], "Slurm: Killed"),
        ("srun: error: Node failure on gpu-7", ["gpu-7"], "Slurm reports that the node failed"),
        ("pdsh@login: gpu-7: ssh exited with exit code 255", ["gpu-7"], "pdsh: ssh exited with exit code 255"),
        ("clush: gpu-7: command timeout", ["gpu-7"], "clush: command timeout"),
        ("clush: gpu-[1,7-8] (3): exited with exit code 1", ["gpu-7", "gpu-8"], "clush: exited with exit code 1"),
    ]:
        with subtests.test(line=line):
            fleet = judged(gathered(wrapped.pdsh(texts()) + line + "\n"))
            assert {node.name: node.reason for node in fleet.nodes if not node.results} == dict.fromkeys(nodes, reason)
            assert [node.name for node in fleet.nodes if node.results] == list(NODES)


def test_sets_of_nodes_are_unfolded() -> None:
    assert unfolded("a[0-9999999][0-9999999],b[1-9]", 3) == ["a00", "a01", "a02"]
    assert unfolded("--me $(id) a[", 3) == ["--me", "id", "a"]
    assert unfolded("gpu-[1-2,4]-ib,login") == ["gpu-1-ib", "gpu-2-ib", "gpu-4-ib", "login"]
    assert len(unfolded("gpu-[1-999999999],gpu-[1-999999999]")) == 20_000


# ------------------------------------------------------------------------------------------- several results of a node


def test_the_newer_of_two_reports_counts() -> None:
    first, second, _ = texts(None).values()
    older = first.replace("2026-11-20T10:00:00Z", "2026-11-19T10:00:00Z").replace(making.DRIVER, making.OTHER)
    for order in (first + older, older + first):
        fleet = judged(gathered(order + second))
        assert [(node.name, node.created) for node in fleet.nodes] == [
            ("gpu-1", "2026-11-20T10:00:00Z"),
            ("gpu-2", "2026-11-20T10:00:00Z"),
        ]
        assert fleet.groups == ()
        assert fleet.notes[0] == "1 node sent several results of one kind: the newest of each kind counts"
        assert fleet.results == 3


def test_a_redacted_report_is_a_node_of_its_own() -> None:
    """Nothing tells which they are; so they count one by one, and are named by where they stand."""
    reports = texts(None, host="<host>")
    fleet = judged(gathered("".join(reports.values())))
    assert [node.name for node in fleet.nodes] == ["result 1 of log.txt", "result 2 of log.txt", "result 3 of log.txt"]


def test_lines_that_collect_writes_are_read() -> None:
    reports = texts(None, host="container")
    lines = [
        json.dumps({"schema": "tfgpu.node/1", "node": name, "result": json.loads(text)})
        for name, text in reports.items()
    ]
    lines.append(json.dumps({"schema": "tfgpu.node/1", "node": "gpu-4", "failure": "did not answer within 120 s"}))
    fleet = judged(gathered("\n".join(lines)))
    assert [(node.name, node.verdict) for node in fleet.nodes] == [
        *((name, "ok") for name in NODES),
        ("gpu-4", "no answer"),
    ]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    data = wrapped.srun(texts()).encode()
    monkeypatch.setattr(reading, "chunks", lambda path: iter([data]))
    found = read_fleet(["-"])
    assert names(found) == list(NODES)
    assert found.results[0].source == "standard input, line 1"
