"""How each reader of outside data is called: with bytes, through to what is shown of them."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.fake_worker import Clock, FakeWorker
from tests.bench.samples import CPUS, result, run
from tests.bench.test_runner import CPU
from tests.bench.test_runner import runs as measured_runs
from tests.fuzz import samples, way
from tests.records.test_report import report as healthy_report
from tfgpu_doctor.bench.comparing.comparison import compare_benches
from tfgpu_doctor.bench.comparing.records import BenchComparison
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.answers import problem
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.saved import load_result
from tfgpu_doctor.compare.comparison import compare
from tfgpu_doctor.diagnosis.manifests import judge
from tfgpu_doctor.diagnosis.repairing import repair
from tfgpu_doctor.diagnosis.reports import make_report
from tfgpu_doctor.manifests import Kind, Place, templates
from tfgpu_doctor.manifests import reading as manifests
from tfgpu_doctor.manifests.containers import read_image, substitute
from tfgpu_doctor.manifests.folders import brings
from tfgpu_doctor.manifests.joining import joined
from tfgpu_doctor.manifests.shell import Installed, read_commands
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.overlay import layered
from tfgpu_doctor.matrix.parsing import parse as parse_matrix
from tfgpu_doctor.matrix.rows import within as is_within
from tfgpu_doctor.parsers.text import wrappings
from tfgpu_doctor.parsers.tools import ldconfig
from tfgpu_doctor.plan.planned import planned
from tfgpu_doctor.plan.target import Target, read_capability
from tfgpu_doctor.plan.target import describe as described_target
from tfgpu_doctor.probes import (
    cgroups,
    child_lines,
    cuda,
    cuda_version,
    cudnn,
    elsewhere,
    gpus,
    host,
    jupyter_kernels,
    kernel_driver,
    oom,
    pci,
    tensorflow_facts,
    tensorflow_probe,
    transcript,
    xla_files,
)
from tfgpu_doctor.probes import elf as elf_files
from tfgpu_doctor.probes.events import parse_event
from tfgpu_doctor.records.checked import Checked
from tfgpu_doctor.records.facts import Loader, value_or
from tfgpu_doctor.records.report import Report, Tool, load_report
from tfgpu_doctor.redact.redaction import Redactor
from tfgpu_doctor.render.check_words import read_file
from tfgpu_doctor.render.console import clean, console_for
from tfgpu_doctor.render.formats import choices, renderer
from tfgpu_doctor.render.html import bench as bench_html
from tfgpu_doctor.render.markdown.parts import escape
from tfgpu_doctor.smoke import baseline as baselines
from tfgpu_doctor.smoke.records import SCHEMA as SMOKE
from tfgpu_doctor.smoke.records import Smoke, SmokeRun

compare_text = renderer("text", "report comparison", {"everything": True})

NOW = "2026-11-21T06:36:00Z"
PLACE = Place("file", 1)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _shown(print_to: Callable[[Any], object]) -> str:
    """What a terminal would get, which is clean whatever was read."""
    out = io.StringIO()
    print_to(console_for(out))
    assert out.getvalue().replace("\n", "").isprintable(), "no control character, no escape sequence"
    return out.getvalue()


# ------------------------------------------------------------------------------------------- texts, reports, results


def explain(data: bytes) -> Report:
    """A pasted text, all the way."""
    return way.walk(data, validate=len(data) % 8 == 0)


def explain_in_pieces(data: bytes) -> Report:
    """The same, as it comes through a pipe."""
    return way.walk(data, chunk=7 if len(data) % 2 else 4096, validate=False)


def wrapped(data: bytes) -> object:
    """What a page, a notebook or a wrapping is taken for."""
    text = _text(data)
    return (
        wrappings.is_page(data),
        wrappings.is_notebook(data),
        wrappings.unwrap(text, True),
        wrappings.unwrap(text, False),
    )


def report(data: bytes) -> Report:
    """A saved report: judged anew, redacted, and shown in every format."""
    old = load_report(data, "r.json")
    source: Any = "text" if old.source == "text" else "report"
    new = make_report(old.facts, way.matrix(), source=source, timings=old.timings)
    way.holds(new, validate=False)
    for name in choices("report"):
        if name not in ("text", "markdown", "json"):  # way.holds has those
            _well_formed(name, renderer(name, "report", {})(new))
    return new


def _well_formed(name: str, page: str) -> None:
    if name == "junit":
        ET.fromstring(page)
    elif name == "html":
        found = _Tags()
        found.feed(page)
        assert not found.foreign, found.foreign
    elif name == "github":
        assert page.replace("\n", "").isprintable()


class _Tags(HTMLParser):
    """Looks for what no page of ours has."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "iframe", "object") or any(name.startswith("on") for name, _ in attributes):
            self.foreign.append(tag)


def compared(data: bytes) -> None:
    """A saved report beside a healthy one, in both directions."""
    other, mine = healthy_report(), load_report(data, "r.json")
    for pair in ((other, mine), (mine, other)):
        comparison = compare(*pair, way.matrix(), NOW)
        _shown(lambda console, found=comparison: compare_text(found, console))
        comparison.to_json()


def bench(data: bytes) -> BenchResult:
    """A saved result: shown, and compared with itself and with another."""
    mine = load_result(data, "r.json")
    assert load_result(mine.to_json(), "again") == mine, "JSON and back is the identity"
    _shown(lambda console: renderer("text", "bench", {})(mine, console))
    other = result(run(), run("1 GPU", 0.05))
    for pair in ((mine, other), (other, mine), (mine, mine)):
        found = compare_benches(*pair, NOW)
        assert msgspec.json.decode(found.to_json(), type=BenchComparison) == found
        _shown(lambda console, one=found: renderer("text", "bench comparison", {})(one, console))
        assert all(
            renderer(name, "bench comparison", {})(found) for name in ("markdown", "html", "junit", "prometheus")
        )
        assert pair[0] is not pair[1] or not any(one.verdict in ("slower", "faster") for one in found.runs)
    return mine


def bench_page(data: bytes) -> None:
    """A saved result as a page."""
    mine = load_result(data, "r.json")
    _well_formed("html", bench_html.render(Redactor(mine).apply(mine)))


def smoke() -> Smoke:
    """A result of tfgpu smoke."""
    return Smoke(
        schema=SMOKE,
        tool=Tool(name="tfgpu", version="1.2.3"),
        created=NOW,
        verdict="ok",
        budget_s=60.0,
        seconds=5.0,
        parameters={"budget": 60},
        software={"tensorflow": "2.21.0"},
        gpus=("NVIDIA H200",),
        checks=(),
        runs=(SmokeRun(workload="matpow", round=1, parameters={"size": 4096}, run=run("1 GPU", 0.05)),),
        report=healthy_report(),
    )


def baseline(data: bytes) -> None:
    """An earlier result, and a run judged by it."""
    mine, now = baselines.read(data, "r.json"), smoke()
    here = baselines.Origin(now.tool, now.created, now.report.facts, now.software)
    mine.compare(now.runs[0], here, 1.05)


def layer(data: bytes) -> None:
    """A matrix of the user's over ours."""
    above = parse_matrix(_text(data), "m.yaml")
    Matrix(layered(way.matrix().data, above), "m.yaml", "x").check()


# ------------------------------------------------------------------------------------------------- files of a project


def manifest(kind: Kind, path: str = "file") -> Callable[[bytes], object]:
    """A reader of one kind of file, and what is said of it."""

    def call(data: bytes) -> None:
        text = _text(data).removeprefix("\ufeff")
        environments = tuple(joined(manifests.read(path, text, kind, FILES.get)))
        judged = judge(environments, _target(), way.matrix(), NOW)
        shell = {one.place.path for one in environments if one.kind == "dockerfile"}

        def again(texts: Mapping[str, str]) -> Report:
            found = tuple(joined(manifests.read(path, texts.get(path, text), kind, FILES.get)))
            return judge(found, _target(), way.matrix(), NOW)

        repair(judged, {path: text}.get, again, shell)
        files = tuple(read_file(planned(one, _target(), way.matrix())) for one in environments)
        _shown(lambda console: renderer("text", "check", {})(Checked(judged, "", files), console))

    return call


FILES = {"other.txt": "numpy\n", "../values.yaml": "image: {tag: 2.15.0-gpu}\n", ".env": "TAG=1\n"}


@cache
def _target() -> Target:
    return described_target(way.matrix(), gpu=("RTX 4090",), driver="535.113.01")


def requirement(read: Callable[[str, Place], object]) -> Callable[[bytes], object]:
    """One requirement, as an installer writes it."""
    return lambda data: read(_text(data), PLACE)


def copied(data: bytes) -> bool:
    """A path that COPY takes from a stage."""
    return brings(_text(data), ("/opt/venv", _text(data)[:50]))


def listed(data: bytes) -> bool:
    """A text file of a name that tells nothing."""
    return manifests.is_list_of_packages("gpu.txt", _text(data))


def template(data: bytes) -> object:
    """A template that can be read, and one that cannot."""
    text = _text(data)
    return templates.unreadable("a.yaml", f"{{{{ x }}}}{text}", "kubernetes"), templates.hide(text)


def shell(data: bytes) -> Installed:
    """What the commands of a RUN install."""
    found = Installed()
    read_commands(list(enumerate(_text(data).splitlines(), 1)), "file", found)
    return found


def image(data: bytes) -> object:
    """A reference to an image, with variables."""
    text = _text(data)
    return read_image(text, PLACE, {"TAG": "1", "BASE": text}), substitute(text, {"TAG": text})


# ---------------------------------------------------------------------------------------------------- the machine


@cache
def _root() -> Path:
    import atexit

    folder = Path(tempfile.mkdtemp(prefix="tfgpu-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _written(folder: Path, files: Any) -> None:
    """Texts by path; what a mutation made of the names is left out, since it could lie anywhere."""
    for path, text in files.items() if isinstance(files, dict) else ():
        if re.fullmatch(r"(?!.*\.\.)[\w./:-]{1,200}", path) and isinstance(text, str):
            file = folder / path.lstrip("/")
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text.encode("utf-8", "surrogatepass"))
            except OSError:  # a file in the place of a folder, or the other way round
                continue


def _tree(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def machine(data: bytes) -> object:
    """A machine as a folder, with every probe that reads files."""
    root = _root() / "machine"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    _written(root, _tree(data))
    at = str(root)
    toolkits = cuda.examine(at, {}, "/env")
    site = [str(root / "env/lib/python3.10/site-packages")]
    found = (
        host.examine(at, {}),
        cgroups.cpu_quota(at),
        cgroups.memory_limit(at),
        oom.read(at),
        pci.gpus(at, wsl=False),
        kernel_driver.installed(at),
        kernel_driver.xid_events(kernel_driver.read_kernel_log(at)) if (root / "dev/kmsg").is_file() else (),
        toolkits,
        cudnn.examine(Loader(), site_packages=site, toolkits=value_or(toolkits.toolkits, ()), environ={}, root=at),
        xla_files.examine(f"{site[0]}/tensorflow", "2.13.0", {}, cwd=at, root=at),
        jupyter_kernels.examine({}, str(root / "env")),
        elsewhere.describe(f"{at}/env/bin/python", f"{at}/env", "PATH"),
        elsewhere.examine("/usr/bin/python3", "/usr", (), {"VIRTUAL_ENV": f"{at}/env", "PATH": f"{at}/env/bin"}),
        cuda_version.nvcc_version(f"{at}/usr/local/cuda/bin/nvcc"),
    )
    assert json.loads(msgspec.json.encode(found[0]))
    return found


def distribution(data: bytes) -> object:
    """An installed package, as the probe script reads it."""
    folder = _root() / "tensorflow-2.13.0.dist-info"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _written(folder, _tree(data))
    return json.dumps(tensorflow_probe.distribution(str(folder)))


def kernel(data: bytes) -> object:
    """One kernel.json."""
    file = _root() / "kernel.json"
    file.write_bytes(data)
    return jupyter_kernels.read(str(file), "tf", "/env/share/jupyter", {"PATH": "/env/bin"})


def elf(data: bytes) -> object:
    """A shared library, or what is left of one."""
    file = _root() / "library.so"
    file.write_bytes(data)
    return elf_files.read(str(file))


def cache_of_the_loader(data: bytes) -> object:
    """What ldconfig -p prints."""
    return ldconfig.parse(_text(data))


def driver_lines(data: bytes) -> object:
    """What the children print that ask the driver."""
    tree = _tree(data)
    told = [child_lines.parse(json.dumps(line)) for line in tree] if isinstance(tree, list) else []
    lines = [line for line in told if line is not None]
    assert lines or data not in samples.driver_lines(), "real lines are answers"
    found = gpus.from_nvml(lines, "NVML"), gpus.from_cuda(lines, "CUDA"), gpus.peers(lines)
    return msgspec.json.encode((gpus.with_cuda(found[0], lines, "CUDA"), found))


def events(data: bytes) -> object:
    """What the probe script prints, or what pretends to be it, to the facts that it becomes."""
    tree = _tree(data)
    told = transcript.Transcript("/env/bin/python")
    for line in tree if isinstance(tree, list) else [_text(data)]:
        event = parse_event(line if isinstance(line, str) else json.dumps(line))
        if event is not None:
            told.add(event)
    assert told.ends or data not in samples.events(), "real lines are events"
    ending = transcript.Ending("ended", returncode=-11, stderr=_text(data)[:2000])
    about = tensorflow_facts.python(told, ending, ("pip",))
    found = (
        *(about, tensorflow_facts.tensorflow(told, ending, about), tensorflow_facts.cudnn_runtime(told, ending)),
        *(transcript.phases(told, ending), tensorflow_facts.sys_path(told), tensorflow_facts.loaded(told, ending)),
    )
    return msgspec.json.encode(found)


class _Odd(FakeWorker):
    """Answers as a mutation wants it, as far as a process would let such an answer through."""

    def __init__(self, tree: dict[str, Any]) -> None:
        super().__init__(
            Clock(), 0.1, lambda verb, _sample: tree.get(verb) if isinstance(tree.get(verb), dict) else None
        )

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        answer = super().ask(timeout, **request)
        if why := problem(request, answer):
            raise WorkerError(why)
        return answer


def answers(data: bytes) -> BenchResult:
    """What a benchmark's worker answers, to a result that is read again."""
    tree = _tree(data)
    worker = _Odd(tree if isinstance(tree, dict) else {})
    try:
        worker.ask(1.0, do="hello")
        found = result(*measured_runs([CPU], [worker], cpus=CPUS))
    except WorkerError:
        found = result()
    assert load_result(found.to_json(), "r.json") == found, "what is written is read again"
    return found


# ------------------------------------------------------------------------------------------------- values, redaction


def gpu_name(data: bytes) -> object:
    """A name that a user types, or that a log has."""
    text = _text(data)
    return way.matrix().gpu(text), way.matrix().nearest_gpus(text)


def capability(data: bytes) -> str:
    """The value of --compute-capability."""
    return read_capability(_text(data), way.matrix())


def within(data: bytes) -> object:
    """A version and a specifier, either of which may be anything."""
    version, _, specifier = _text(data).partition(" ")
    return is_within(version, specifier)


def pci_ids(data: bytes) -> object:
    """pci.ids of a distribution."""
    return pci.parse_pci_ids(_text(data), "10de")


def redacted(data: bytes) -> None:
    """A text without what is private; twice changes nothing."""
    text = _text(data)
    once = Redactor((text,)).text(text)
    assert Redactor((once,)).text(once) == once, "redacting twice changes nothing"


def escaped(data: bytes) -> None:
    """A text on its way to a terminal, and to Markdown."""
    text = _text(data)
    assert clean(text).isprintable() and clean(clean(text)) == clean(text)
    assert not re.search(r"(?<!\\)<(?!!-- -->)", escape(text))
