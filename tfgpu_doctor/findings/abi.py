"""NumPy, protobuf and Keras of versions that this TensorFlow cannot use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.keras_messages import asks_for_other_keras
from tfgpu_doctor.findings.manifest_signs import in_manifests
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.phases import phase_named
from tfgpu_doctor.findings.version_bounds import allows, narrowed, outside_bounds, refused
from tfgpu_doctor.matrix.compatibility import numpy_bound, protobuf_bound
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.file_edits import write_beside
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import Message, Package, Phase, value_or
from tfgpu_doctor.records.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.records.versions import at_least, capability, minor

# a version of every minor release
_NUMPY = tuple(f"1.{n}.0" for n in range(13, 27)) + tuple(f"2.{n}.0" for n in range(6))
# names of the module numpy → the version that removed them; seen by asking NumPy 1.19 to 2.4 for each (2.0 brought back
# bool and long). All others that a message names went with 2.0
_REMOVED_IN = {
    **dict.fromkeys(("alen", "asscalar"), "1.23"),
    **dict.fromkeys(
        ("object", "bool", "int", "float", "complex", "str", "long", "unicode", "typeDict", "MachAr"), "1.24"
    ),
    **dict.fromkeys(("in1d", "trapz"), "2.4"),
}
# What is printed where the installed protobuf is older than the one that generated the code. The module runtime_version
# came with 5.26, builder with 3.20, the arguments create_key and serialized_options with 3.12 and 3.6 (release notes);
# 3.20.3 has the latter three, and also takes the code of all older releases.
_BEFORE_RUNTIME_VERSION = re.compile(r"import name '?runtime_version\b|runtime version cannot be older")
_BEFORE_3_20 = re.compile(r"import name '?builder\b|'(?:serialized_options|create_key)'")
_RUNTIME_VERSION = "5.26"
_TENSORFLOW = re.compile(r"(?:tensorflow(?:-gpu|-cpu|-intel|-macos)?|tf-nightly)$")


def _outside_bounds(
    context: Context, release: Release, packages: tuple[Package, ...], phases: tuple[Phase, ...], requirement: str
) -> Problem | None:
    """A package outside the wheel's bounds, unless the import succeeds or conda's solver chose both."""
    name, bound = re.findall(r"^[a-z]+|.+", requirement)
    package = next((p for p in packages if p.name == name and allows(bound, p.version) is False), None)
    if package is None:
        return None
    phase = phase_named(phases, "import")
    failed = phase is not None and phase.outcome in ("raised", "died")
    from_conda = {p.name for p in packages if p.installer == "conda"} >= {name, "tensorflow"}
    if not failed and (from_conda or (phase and phase.outcome == "ok")):
        return None
    found, folder = f"{name} {package.version}", package.location or "installed packages"
    seen = [evidence(found, folder, requirement, f"TensorFlow {release.version} (wheel)")]
    if exception := phase.exception if phase else None:
        seen.append(evidence(exception, "import tensorflow"))
    return Problem(
        cause=f"TensorFlow {release.version} is built for {requirement}",
        evidence=tuple(seen),
        fixes=_install(context, requirement),
    )


def _install(context: Context, requirement: str) -> tuple[Fix, ...]:
    """The dependency, in a version for the release that is there."""
    return context.remedies.installing(f"Install {requirement}, and restart Python", requirement)


def _or_newer(context: Context, name: str) -> tuple[Fix, ...]:
    """Another release where the one that is there is unknown or cannot use the GPU here; pip chooses `name` for it."""
    remedies = context.remedies
    if remedies.kept_release():
        return ()
    return remedies.reinstall_best(f"pip installs the {name} that it needs with it")[:1]


def _conflicts_of_majors(messages: MessageLog, name: str) -> tuple[Message, ...]:
    """pip's warning that a requirement of TensorFlow is not met, by a whole major version."""
    found = []
    for message in messages.all("requirement-conflict"):
        values = message.values
        bound = re.search(r"<=?(\d+)", values.get("need", ""))
        installed = re.match(r"\d+", values.get("has", ""))
        if not _TENSORFLOW.match(values.get("package", "")) or values.get("other") != name or not bound:
            continue
        if installed and int(installed[0]) >= int(bound[1]) + bound[0].startswith("<="):
            found.append(message)
    return tuple(found)


ABI_NUMPY = finding(
    "tf.abi-numpy",
    layer="Python",
    severity=Severity.ERROR,
    title="The installed NumPy is incompatible with this TensorFlow",
    cause="TensorFlow before 2.18 is compiled for NumPy 1; its modules cannot run with NumPy 2",
    explained_by=("env.pythonpath", "tf.shadowed"),
    docs="https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
)


@ABI_NUMPY.sign(conclusive=False)
def numpy_outside_bounds(
    context: Context, release: Release, packages: tuple[Package, ...], phases: tuple[Phase, ...] | None = None
) -> Problem | None:
    """NumPy 2 under a TensorFlow that was compiled for NumPy 1."""
    bound = numpy_bound(release)
    return _outside_bounds(context, release, packages, phases or (), f"numpy{bound}") if bound else None


@ABI_NUMPY.sign
def numpy_messages(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """NumPy refuses a module that was compiled for another NumPy."""
    seen = (*messages.all("numpy-abi"), *_conflicts_of_majors(messages, "numpy"))
    if not seen:
        return None
    if name := _removed_name(messages):
        return _removed(context, seen, name, release)
    requirement = "numpy" + ((numpy_bound(release) if release else None) or "<2")
    version = next(iter(messages.values("numpy-abi", "numpy")), None)
    return Problem(
        title=f"NumPy {version} is incompatible with this TensorFlow" if version else None,
        evidence=message_evidence(*seen, need=requirement),
        fixes=(*_install(context, requirement), *_or_newer(context, "NumPy")),
    )


def _removed_name(messages: MessageLog) -> str | None:
    """The name of the module numpy that a program does not find."""
    names = (m.values["name"] for m in messages.all("numpy-abi") if "name" in m.values and "'numpy'" in m.text)
    return next(names, None)


def _removed(context: Context, seen: tuple[Message, ...], name: str, release: Release | None) -> Problem:
    """A name that a later NumPy does not have: TensorFlow before 2.7 asks for some, else the user's code does."""
    removed_in = _REMOVED_IN.get(name, "2")
    requirement, available = _before(removed_in, (numpy_bound(release) if release else None) or "")
    in_tensorflow = removed_in == "1.24" and (release is None or at_least(release.version, "2.7") is False)
    edit = Alternative(text=f"Replace np.{name} in the code that the traceback names, as NumPy's release notes advise")
    newer = _or_newer(context, "NumPy")
    return Problem(
        title=f"NumPy {removed_in} removed np.{name}, which this program uses",
        cause=f"NumPy {removed_in} or newer is installed"
        + ("; TensorFlow before 2.7 uses names that NumPy 1.24 removed" if in_tensorflow else ""),
        evidence=message_evidence(*seen, need=requirement),
        fixes=(*(_install(context, requirement) if available else ()), *(newer if in_tensorflow else ()), edit),
    )


def _before(removed_in: str, bound: str) -> tuple[str, bool]:
    """The requirement of a NumPy that has the name yet, and whether one of them is within TensorFlow's own bound."""
    of_minors = (f"{minor(one)}.{patch}" for one in _NUMPY for patch in (0, 2, 5))  # "~=1.19.2" has no 1.19.0
    available = any(allows(f"<{removed_in}", one) and (not bound or allows(bound, one)) for one in of_minors)
    floor = next((one for one in bound.split(",") if one.startswith(">")), "") if available else ""
    return f"numpy{floor}{',' * bool(floor)}<{removed_in}", available


@ABI_NUMPY.sign
def symbolic_tensor_message(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """np.prod gets a symbolic shape: recurrent layers of a TensorFlow before 2.6."""
    seen = [message for message in messages.all("symbolic-to-numpy") if _is_numpy_1_20(message, release)]
    if not seen:
        return None
    return Problem(
        title="NumPy 1.20 or newer with a TensorFlow before 2.6",
        cause="since NumPy 1.20, np.prod converts a symbolic tensor to an array, which TensorFlow before 2.6 refuses",
        evidence=message_evidence(*seen, need="numpy<1.20, or TensorFlow 2.6"),
        fixes=(*_install(context, "numpy<1.20"), *_or_newer(context, "NumPy")),
    )


def _is_numpy_1_20(message: Message, release: Release | None) -> bool:
    if release:
        return at_least(release.version, "2.6") is False
    return re.search(r"lstm|gru|rnn|bidirectional", message.values["tensor"], re.I) is not None


@in_manifests(ABI_NUMPY, unless=("tf.package-removed",))
def numpy_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """A NumPy that the release cannot be imported with, or no upper bound where the release needs one."""
    row, tensorflow, python = view.release, view.tensorflow, view.python
    bound = numpy_bound(row) if row else None
    yield from refused(view, only="numpy")
    yield from outside_bounds(view, "numpy", bound)
    if row is None or bound in (None, row.numpy) or tensorflow is None or view.conda or view.requirement("numpy"):
        return
    if python is None or capability(python) < (3, 9):
        return  # NumPy 2 needs Python 3.9
    wheel = f"TensorFlow {row.version}"
    yield Problem(
        title=f"{wheel} will be installed with NumPy 2, and cannot be imported with it",
        cause="it is compiled for NumPy 1, but its metadata has no upper bound",
        evidence=(Evidence(tensorflow.text, str(tensorflow.place), f"numpy{bound}", wheel),),
        fixes=(write_beside(tensorflow, "numpy<2"),),
    )


ABI_PROTOBUF = finding(
    "tf.abi-protobuf",
    layer="Python",
    severity=Severity.ERROR,
    title="The installed protobuf is incompatible with this TensorFlow",
    cause="TensorFlow contains code that was generated by protobuf, which the installed protobuf does not support",
    explained_by=("env.pythonpath", "tf.shadowed"),
    docs="https://protobuf.dev/support/cross-version-runtime-guarantee/",
)


@ABI_PROTOBUF.sign(conclusive=False)
def protobuf_outside_bounds(
    context: Context, release: Release, packages: tuple[Package, ...], phases: tuple[Phase, ...] | None = None
) -> Problem | None:
    """A protobuf whose major version does not support the generated code of this TensorFlow."""
    bound = release.protobuf
    return _outside_bounds(context, release, packages, phases or (), f"protobuf{bound}") if bound else None


@ABI_PROTOBUF.sign
def protobuf_messages(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """protobuf refuses code that another version generated."""
    seen = (*messages.all("protobuf-abi"), *_conflicts_of_majors(messages, "protobuf"))
    if not seen:
        return None
    unmet = _for_older_runtime(context, seen)
    known = protobuf_bound(release) if release else None
    requirement = f"protobuf{known or unmet or '<3.21'}"
    another = () if known or unmet else _or_newer(context, "protobuf")
    return Problem(
        evidence=message_evidence(*seen, need=requirement), fixes=(*_install(context, requirement), *another)
    )


def _for_older_runtime(context: Context, seen: tuple[Message, ...]) -> str | None:
    """The bounds that the code needs, where the installed protobuf is older than it; None where it is newer.

    They suit every release whose code imports google.protobuf.runtime_version: one of them is installed.
    """
    if any(_BEFORE_3_20.search(message.text) for message in seen):
        return ">=3.20.3,<3.21"
    if not any(_BEFORE_RUNTIME_VERSION.search(message.text) for message in seen):
        return None
    bounds = [row.protobuf or "" for row in context.matrix.stable("linux_x86_64", "tensorflow")]
    lowest = re.compile(r">=(\d+(?:\.\d+)*)")
    return narrowed(one for one in bounds if (low := lowest.search(one)) and at_least(low[1], _RUNTIME_VERSION))


@in_manifests(ABI_PROTOBUF, unless=("tf.package-removed",))
def protobuf_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """A protobuf that does not support the release's generated code."""
    yield from refused(view, only="protobuf")
    yield from outside_bounds(view, "protobuf", view.release.protobuf if view.release else None)


ABI_KERAS = finding(
    "tf.abi-keras",
    layer="Python",
    severity=Severity.ERROR,
    title="Keras 2 and Keras 3 are mixed",
    cause="TensorFlow installs Keras 3 since 2.16; code and models for Keras 2 need the package tf-keras",
    explained_by=("env.keras-backend", "env.legacy-keras", "env.pythonpath", "tf.shadowed", "tf.install-damaged"),
    pointless_after=("tf.package-conflict",),
    docs="https://keras.io/getting_started/#tensorflow--keras-2-backwards-compatibility",
)


@ABI_KERAS.sign
def keras_messages(
    context: Context,
    messages: MessageLog,
    release: Release | None = None,
    packages: tuple[Package, ...] | None = None,
) -> Problem | None:
    """Code for Keras 2 runs with Keras 3, or the reverse."""
    moved = (message for message in messages.all("keras-mismatch") if asks_for_other_keras(message))
    seen = (*messages.all("keras-generation"), *moved)
    if not seen:
        return None
    return Problem(evidence=message_evidence(*seen), fixes=tuple(_keras_fixes(context, release, packages)))


_SELECT = Fix(
    text="Select Keras 2 as tf.keras, before TensorFlow is imported", commands=("export TF_USE_LEGACY_KERAS=1",)
)


def _keras_fixes(context: Context, release: Release | None, packages: tuple[Package, ...] | None) -> Iterator[Fix]:
    """tf-keras of the very minor release: it requires a TensorFlow of the same, and pip would change TensorFlow."""
    present = next((one for one in packages or () if one.name == "tf-keras"), None)
    wanted = minor(release.version) if release else None
    if present and (wanted is None or minor(present.version) == wanted):
        python = context.remedies.python
        text = f"tf-keras {present.version} is listed: check that it is installed in the Python that fails"
        yield Fix(
            text=text, commands=(f'{python} -c "import sys, tf_keras; print(sys.executable, tf_keras.__version__)"',)
        )
        yield _SELECT
    else:
        instead = f" instead of {present.version}" if present else ""
        text = f"Install Keras 2 of the same minor version as TensorFlow{instead}, and select it as tf.keras"
        if wanted:
            yield from context.remedies.installing(text, f"tf-keras~={wanted}.0", then=_SELECT.commands)
        elif commands := _of_installed_release(context):
            yield Fix(text=text, commands=(*commands, *_SELECT.commands))
    row = context.matrix.tensorflow("2.15.1", value_or(context.facts.python.wheel_platform, "linux_x86_64"))
    python_version = minor(value_or(context.facts.python.version, ""))
    if row and not context.remedies.image and (not python_version or python_version in row.python):
        yield Alternative(
            text="Use the last release that installs Keras 2",
            commands=context.remedies.install_tensorflow(row),
        )


def _of_installed_release(context: Context) -> tuple[str, ...]:
    """The release is not known here, but to the interpreter that fails."""
    unpinned = context.remedies.pip_install("tf-keras")
    if context.remedies.os == "windows" or not unpinned:
        return unpinned
    code = 'import importlib.metadata as m; print(".".join(m.version("tensorflow").split(".")[:2]))'
    python = context.remedies.python
    return (f"{python} -m pip install \"tf-keras~=$({python} -c '{code}').0\"",)
