"""Facts of machines: what must be found in them, what must not, and what cannot be judged without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
import yaml

from tests.healthy import SITE, gpu, healthy, known, sonames
from tfgpu_doctor.facts import facts as fact
from tfgpu_doctor.facts.facts import Facts, Known, Phase, Unknown
from tfgpu_doctor.parsers import lines
from tfgpu_doctor.parsers import messages as catalogue


def only(one: Any) -> Any:
    """A list of one."""
    return known((one,))


NO_GPU_LISTED = known((fact.TfDevice(name="/physical_device:CPU:0", kind="CPU"),), "tf.config.list_physical_devices()")
WHY = Unknown("permission denied")
# where nothing was verified on a GPU, an error stays one
NO_GPU_USED = {"tensorflow.devices": NO_GPU_LISTED, "tensorflow.checks": known(())}
PCI = (fact.PciGpu(address="0000:01:00.0", device_id="10de:2684", name="AD102 [GeForce RTX 4090]"),)


def absent(*components: str, other: tuple[str, ...] = ()) -> Any:
    """The libraries of these components are nowhere; all, when none is named."""
    return known(
        tuple(
            msgspec.structs.replace(s, candidates=(), winner=None, other_versions=other)
            if not components or s.component in components
            else s
            for s in sonames()
        ),
        "loader",
    )


def off_path(*components: str, problem: str | None = None) -> Any:
    """The libraries of these components lie in their wheels, and the loader does not get there."""
    changed = []
    for s in sonames():
        if s.component in components:
            good = fact.Candidate(path=s.candidates[0].path, via="pip wheel", reachable=False)
            bad = fact.Candidate(path=f"/opt/broken/{s.soname}", via="LD_LIBRARY_PATH", reachable=True, problem=problem)
            s = msgspec.structs.replace(s, candidates=(bad, good) if problem else (good,), winner=None)
        changed.append(s)
    return known(tuple(changed), "loader")


def packages(**versions: str) -> Any:
    """Installed packages; an underscore stands for a hyphen."""
    return known(
        tuple(fact.Package(name=n.replace("_", "-"), version=v, location=SITE) for n, v in versions.items()),
        "installed packages",
    )


def with_requirements(*names: str, python: str = "3.12.7", **other_versions: str) -> dict[str, Any]:
    """TensorFlow 2.17.1 from pip, which requires five packages, with these beside it."""
    requires = ("keras>=3.2.0", "wrapt>=1.11.0", "h5py>=3.10.0", "libclang>=13.0.0", "numpy<2.0.0,>=1.26.0")
    only_old = 'tensorflow-io-gcs-filesystem>=0.23.1; python_version < "3.12"'
    extra = 'nvidia-cudnn-cu12==8.9.7.29; extra == "and-cuda"'
    tensorflow = fact.Package(
        name="tensorflow", version="2.17.1", location=SITE, installer="pip", requires=(*requires, only_old, extra)
    )
    beside = {"keras": "3.4.1", "wrapt": "1.16.0", "h5py": "3.11.0", "libclang": "18.1.1", "numpy": "1.26.4"}
    beside.update(other_versions)
    others = (fact.Package(name=name, version=beside[name], location=SITE) for name in names)
    packages = known((tensorflow, *others), "*.dist-info")
    return {**release("2.17.1"), "python.packages": packages, "python.version": known(python)}


def damaged(name: str, *missing: str, overwritten: tuple[str, ...] = ()) -> fact.DamagedPackage:
    """A package whose files are not those that it was installed with."""
    record = f"{SITE}/{name}.dist-info/RECORD"
    files = len(missing) + len(overwritten)
    return fact.DamagedPackage(name, "1.0", record, missing=missing, overwritten=overwritten, files=files)


def phases(name: str, outcome: str, **how: Any) -> tuple[Phase, ...]:
    """All well up to `name`, and skipped after it."""
    order = [phase.name for phase in healthy().tensorflow.phases]
    here = order.index(name)
    return (
        *(Phase(name=n, outcome="ok", seconds=0.1) for n in order[:here]),
        Phase(name=name, outcome=outcome, **how),
        *(Phase(name=n, outcome="skipped") for n in order[here + 1 :]),
    )


def elsewhere(module: str, version: str | None, via: str | None, line: int | None = None) -> dict[str, Any]:
    """TensorFlow 2.17.1, whose import takes a module from /other and fails."""
    path, found = f"/other/{module}", {"numpy": "1.26.4", "keras": "3.4.1"}[module]
    return {
        **with_requirements("keras", "wrapt", "h5py", "libclang", "numpy"),
        "python.shadowed": only(fact.ShadowedModule(module, path, version, module, found, via, line)),
        "variables": known({"PYTHONPATH": "/other"} if via == "PYTHONPATH" else {}),
        "tensorflow.phases": phases("keras", "raised", exception="AttributeError: no attribute 'x'"),
    }


def plugin_fails(
    package: str | None, exception: str = "NotFoundError: lib.so: undefined symbol: TF_X"
) -> dict[str, Any]:
    """TensorFlow 2.17.1, whose import ends at a file of tensorflow-plugins/."""
    path = f"{SITE}/tensorflow-plugins/lib.so"
    return {
        **with_requirements("keras", "wrapt", "h5py", "libclang", "numpy"),
        "python.failing_files": only(fact.FailingFile(path, package, package and "1.0")),
        "tensorflow.phases": phases("import", "raised", exception=exception),
    }


def env(**variables: str) -> dict[str, Any]:
    """Variables of the environment."""
    return {"variables": known(variables)}


def one_gpu(**changed: Any) -> dict[str, Any]:
    """One GPU, with these fields."""
    return {"gpus": only(gpu(**changed))}


def one_check(**fields: Any) -> dict[str, Any]:
    """One computation on the GPU."""
    return {"tensorflow.checks": only(fact.ComputeCheck(device="/GPU:0", **fields))}


def call(code: int, message: str) -> Any:
    return known(fact.CallResult(code=code, message=message), "libcuda")


def release(version: str, platform: str = "linux_x86_64") -> dict[str, Any]:
    """Facts that name another TensorFlow."""
    return {"tensorflow.version": known(version), "python.wheel_platform": known(platform)}


NO_DRIVER = {
    "driver.libcuda": known((), "loader"),
    "driver.kernel_module_loaded": known(False, "/proc/modules"),
    "driver.version": Unknown("no driver"),
    "driver.device_nodes": known((), "/dev"),
    "gpus": Unknown("no NVML"),
    "host.pci_gpus": known(PCI, "/sys/bus/pci/devices"),
}


def library(
    component: str, files: tuple[dict[str, Any], ...], others: tuple[str, ...] = (), alone: bool = False
) -> Any:
    """The libraries, with these files for those of one component; alone, those of the others are nowhere."""
    candidates = tuple(fact.Candidate(reachable=True, **one) for one in files)
    winner = candidates[0].path if candidates and not candidates[0].problem else None  # the first is loaded, or none
    changes = {"candidates": candidates, "winner": winner, "other_versions": others}
    rest = {"candidates": (), "winner": None} if alone else {}
    every = (msgspec.structs.replace(s, **(changes if s.component == component else rest)) for s in sonames())
    return known(tuple(every), "loader")


def raised(error: str) -> Any:
    """A product that could not be computed."""
    return only(fact.ComputeCheck(device="/GPU:0", kind="matmul", ok=False, error=error))


def logged(*texts: str) -> Any:
    """What TensorFlow printed in a live run."""
    return known(catalogue.read([lines.Line(number, text) for number, text in enumerate(texts, 1)]), "TensorFlow's log")


def ptxas(*versions: str) -> Any:
    """ptxas of these versions, in the order in which XLA finds them."""
    return known(tuple(fact.XlaFile(path=f"/cuda-{v}/bin/ptxas", via="PATH", version=v) for v in versions))


# ------------------------------------------------------------------------------------------- the rows (rows/facts.yaml)
# A row has facts by their paths; a tag makes one that is not written out, by a function or a constant of this file.
# `like` and `row` begin with what such a constant or another row has; `env`, `release` ... call the function.

_MAKE = (absent, call, damaged, gpu, library, logged, off_path, packages, phases, ptxas, raised)
_BEGIN = {one.__name__: one for one in (elsewhere, env, one_check, one_gpu, plugin_fails, release, with_requirements)}


class _Loader(yaml.CSafeLoader):
    """Reads the rows."""


class _Sourced(NamedTuple):
    """A value, and where it was read."""

    value: Any
    source: str


def _given(make: Callable[..., Any], loader: yaml.CSafeLoader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return make(loader.construct_scalar(node))
    mapping = isinstance(node, yaml.MappingNode)
    return _call(
        make, loader.construct_mapping(node, True) if mapping else tuple(loader.construct_sequence(node, True))
    )


def _call(make: Callable[..., Any], given: Any) -> Any:
    """Call with a mapping by names, with a list by places; its last element may be a mapping of further names."""
    if isinstance(given, dict):
        return make(**given)
    *places, last = given or [{}]
    return make(*places, **last) if isinstance(last, dict) else make(*places, last)


_TAGS: dict[str, Callable[..., Any]] = {
    **{one.__name__: one for one in _MAKE},
    "known": _Sourced,
    "unknown": Unknown,
    "the": lambda name: globals()[name],
    "healthy": lambda _: healthy().tensorflow.phases,
    "row": lambda finding, number, path: lambda: FIRES[finding][number][1][path],  # when they are read
}
_Loader.add_constructor("tag:yaml.org,2002:seq", lambda loader, node: tuple(loader.construct_sequence(node, True)))
for _name, _make in _TAGS.items():
    _Loader.add_constructor(f"!{_name}", partial(_given, _make))


def _fact(path: str, value: Any) -> Any:
    """A fact of the type that its field has."""
    if callable(value):
        return value()
    if isinstance(value, Known | Unknown) or path == "tensorflow.phases":
        return value
    section, _, field = path.partition(".")
    type_ = get_type_hints(Facts)[section]
    kind = get_type_hints(type_)[field] if field else type_
    value, source = value if isinstance(value, _Sourced) else (value, "test")
    return known(msgspec.convert(msgspec.to_builtins(value), get_args(get_args(kind)[0])[0]), source)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for key, value in row.items():
        if key == "like":
            for name in value:
                facts |= _row(_TABLES["shared"][name]) if name in _TABLES["shared"] else globals()[name]
        elif key == "row":
            facts |= FIRES[value[0]][value[1]][1]
        else:
            facts |= _call(_BEGIN[key], value) if key in _BEGIN else {key: _fact(key, value)}
    return facts


def _read(name: str) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    for finding, rows in _TABLES[name].items():
        yield finding, [(title, _row(row)) for title, row in rows.items()]


_FILE = Path(__file__).parent / "rows" / "facts.yaml"
_TABLES = yaml.load(_FILE.read_text(encoding="utf-8"), _Loader)
# id of the finding → what the machine is, and how it differs from the healthy one
FIRES = dict(_read("fires"))
PASSES = dict(_read("passes"))  # rows that look alike and are none
for _finding, (_variable, *_tables) in _TABLES["switched"].items():
    for _table, _values in zip((FIRES, PASSES), _tables, strict=True):
        _table[_finding] = [(f"{_variable}={one}", env(**{_variable: one})) for one in _values] + _table.get(
            _finding, []
        )
# name → the machine, and what is told of it
MACHINES = {name: {**row, "facts": _row(row["facts"])} for name, row in _TABLES["machines"].items()}

# the phases are a plain tuple: a report without any simply shows no phase that failed
NEVER_UNKNOWN = {"tf.vc-runtime", "tf.import-avx", "tf.import-hang", "tf.import-failed", "tf.run-failed"}
