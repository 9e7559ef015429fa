"""Packages that TensorFlow needs, and those that need TensorFlow: missing, of another version, of another ABI."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from tfgpu_doctor.facts.distributions import TENSORFLOW, is_for_cpus
from tfgpu_doctor.facts.facts import FailingFile, Known, Message, Package, Packages, Phase, Phases, value_or
from tfgpu_doctor.facts.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.facts.versions import at_least, minor
from tfgpu_doctor.findings import requirements, symptoms
from tfgpu_doctor.findings.declaration import (
    Context,
    Declaration,
    MessageLog,
    Problem,
    evidence,
    finding,
    message_evidence,
)
from tfgpu_doctor.findings.library_fixes import keep_one, with_metal
from tfgpu_doctor.findings.phases import import_fails, import_phase
from tfgpu_doctor.findings.requirements import allows, bounds_of, first_of_each, narrowed, required_by, without_gaps
from tfgpu_doctor.matrix.compatibility import numpy_bound, protobuf_bound
from tfgpu_doctor.matrix.loader import Release

# what TensorFlow itself, not the user's code, asks of the Keras beside it
_USED_BY_TENSORFLOW = re.compile(
    r"keras\.(?:api\._v2|_tf_keras)(?:$|\.)|(?:_tf_keras|populate_dict_with_module_objects|__version__)$"
)


def asks_for_other_keras(message: Message) -> bool:
    """Whether code for Keras 2 runs with Keras 3 or the reverse: it asks for a module or name that has moved."""
    values = message.values
    if any(_USED_BY_TENSORFLOW.match(value) for value in values.values()):
        return False
    asked = values.get("missing") or values.get("where") or values.get("module") or ""
    return asked.startswith(("keras", "tensorflow.keras"))


PLUGINS = "tensorflow-plugins"  # the folder of site-packages whose files TensorFlow loads when it is imported
_PLUGIN = re.compile(r"(\S{1,200}[\\/])" + PLUGINS + r"[\\/]([\w.-]{1,80})")  # site-packages and the file's name
_NO_MODULE = re.compile(r"No module named '(\w{1,80})'")
_NO_SUCH_FUNCTION = re.compile(r"undefined symbol|Symbol not found", re.IGNORECASE)
_OTHER_RELEASE = "it was compiled for another TensorFlow release, and needs functions that this one does not have"


def _without(context: Context, *names: str) -> tuple[Fix, ...]:
    text = f"Uninstall {' and '.join(names)}, or install its release for this TensorFlow"
    return (Fix(text, (context.remedies.pip_uninstall(*names),)),)


# `tensorflow` on Windows and Apple silicon was an empty wheel that depends on one of these (2.10 to 2.16, wheels)
_CONTENTS_OF_TENSORFLOW = frozenset({"tensorflow-intel", "tensorflow-macos", "tensorflow-cpu-aws"})
# released with TensorFlow: same minor version until Keras 3 came with 2.16 (Requires-Dist of the wheels)
_COMPANIONS = ("keras", "tensorboard", "tensorflow-estimator", "tf-keras")
_OF_ONE_RELEASE = (
    "See which TensorFlow it is, and install keras, tensorboard and tensorflow-estimator of its minor version "
    "('keras==2.6.*' beside TensorFlow 2.6; an older one goes with Keras 2.3.1, from 2.2 on with 2.4.3); of two "
    "TensorFlow packages keep one, and install it anew"
)
_OF_TENSORFLOW_1 = Fix(
    "In the program, import from tensorflow.keras instead of keras (its LSTM and GRU use cuDNN by themselves); a "
    "program that cannot be changed needs TensorFlow 1.15 with Keras 2.3.1"
)
_REINSTALL = "Uninstall all of them, and install one release with its dependencies"


def _again(context: Context, names: Sequence[str]) -> tuple[Fix, ...]:
    """The one release of this report, or another environment; a text without a release is about a program of some."""
    remedies, version = context.remedies, context.facts.tensorflow.version
    # of 2.2 and later it says so only after removals; that number itself is of its message
    if context.log.has("keras-needs-tensorflow") and not at_least(value_or(version, "2.2"), "2.3"):
        return remedies.installing("Install Keras 2.3.1, the last one for a TensorFlow before 2.2", "keras==2.3.1")
    if context.log.has("two-tensorflows") and not isinstance(version, Known) and remedies.os != "windows":
        return keep_one(context)
    if not context.probed and not isinstance(version, Known):
        return (Fix(_OF_ONE_RELEASE, (remedies.filtered("python -m pip list", "tensorflow", "keras"),)),)
    return _anew(context, names) or remedies.reinstall_best("it brings its dependencies")


def _anew(context: Context, names: Sequence[str]) -> tuple[Fix, ...]:
    """Remove all packages of that kind, and install those of the release that is advised."""
    wanted = context.remedies.tensorflow
    if not context.probed:  # where its CUDA comes from, a text about mixed packages does not tell
        wanted = tuple(one for one in wanted if not one.startswith("nvidia-"))
    found = re.search(r"==([\d.]+)", " ".join(wanted))
    release = found[1] if found and "keras" in names else None
    if release and at_least(release, "1.13") and not at_least(release, "2.6"):  # they require none; the program may
        wanted += (f"keras=={'2.4.3' if at_least(release, '2.2') else '2.3.1'}",)
    if release and release.startswith("2.5."):  # requires it, and its folder is Keras' own (metadata of the wheels)
        names = (*names, "keras-nightly")
    return context.remedies.installing(_REINSTALL, *wanted, first=(context.remedies.pip_uninstall(*names),))


def _see_which(context: Context) -> Iterator[Fix]:
    """Where Python finds the module decides whether packages or a file of the user make it lack its attributes."""
    mixed = messages_of_mixed_packages(context.log)
    if context.log.has("no-attribute") and not (context.probed or (mixed and mixed.evidence)):
        text = "To decide, see where Python finds it: rename a file of your own; in site-packages TensorFlow is mixed"
        yield Fix(text, (f"{context.remedies.python} -c 'import tensorflow; print(tensorflow.__file__)'",))


PACKAGE_CONFLICT = finding(
    "tf.package-conflict",
    layer="Python",
    title="Packages of different TensorFlow releases are mixed in this environment",
    cause="keras, tensorboard, tensorflow-estimator and TensorFlow are of different releases, or two TensorFlow "
    "packages installed their files into the same folder",
    fixes=lambda x: (*_see_which(x), *_again(x, ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", *_COMPANIONS))),
    explained_by=("env.pythonpath", "tf.shadowed"),
    symptoms=(symptoms.NO_ATTRIBUTE,),
    docs="https://www.tensorflow.org/install/pip",
)


PACKAGE_CONFLICT.printed(
    "native-entry-missing",
    title="The native TensorFlow library is older than the TensorFlow.NET that calls it",
    cause="TensorFlow.NET and its native library are two packages, and belong to the same release of TensorFlow",
    fixes=(
        Fix(
            "Install a newer SciSharp.TensorFlow.Redist package (that for the CPU where the GPU's is missing), or the "
            "TensorFlow.NET of the native library's release"
        ),
    ),
)


@PACKAGE_CONFLICT.sign(unless=("tf.package-removed",))
def mixed_packages(
    context: Context,
    packages: Packages,
    release: Release | None = None,
    messages: MessageLog | None = None,
    phases: Phases = (),
) -> Problem | None:
    """Two distributions in one folder `tensorflow`, or keras or tensorboard of another release."""
    works = any(one.name == "keras" and one.outcome == "ok" for one in phases)  # which outranks what is listed
    if twice := _of_one_folder(_tensorflows(packages), context, messages):
        return Problem(
            title=f"{' and '.join(map(_listed, twice))} overwrite each other's files",
            cause="they install their files into the same folder, and the last one has overwritten the others",
            evidence=tuple(evidence(_listed(one), _where(twice[0]), "one TensorFlow package") for one in twice),
            fixes=_again(context, tuple(dict.fromkeys(p.name for p in twice))),
            # a GPU that is missed may be missed for what was overwritten
            severity=Severity.WARNING if works and context.require_gpus == 0 else None,
        )
    if release is None or (messages and messages.has("other-version-runs")):
        return None  # where another version runs, the release is that of another environment
    wanted = [*_of_another_release(tuple(first_of_each(packages).values()), release)]
    wheel = f"TensorFlow {release.version} (wheel)"
    cause = "they belong to another TensorFlow release than the one that is installed"
    but = "; TensorFlow and tf.keras can be imported with them, and what the other release lacks fails when it is used"
    return Problem(
        cause=cause + but if works else cause,
        evidence=tuple(evidence(_listed(one), _where(one), f"{one.name} {bound}", wheel) for one, bound in wanted),
        fixes=_of_this_release(context, packages, release, wanted),
        severity=Severity.WARNING if works else None,
    )


def _of_this_release(
    context: Context, packages: Packages, release: Release, wanted: list[tuple[Package, str]]
) -> tuple[Fix, ...]:
    """Install what goes with TensorFlow; all of them anew beside two, or beside a Keras that it does not require."""
    names = dict.fromkeys((*(one.name for one in _tensorflows(packages)), *(one.name for one, _ in wanted)))
    judged = requirements.companion_bound("keras", release) or all(one.name != "keras" for one in packages)
    tensorflows = {(is_for_cpus(one.name, one.version), one.version) for one in _tensorflows(packages)}
    if not judged or len(tensorflows) > 1:
        return _again(context, tuple(names))
    bounds = (f"{package.name}{without_gaps(bound)}" for package, bound in wanted)
    return context.remedies.installing("Install what goes with TensorFlow, which stays as it is", *bounds)


def _listed(package: Package) -> str:
    return f"{package.name} {package.version}"


def _where(package: Package) -> str:
    return package.location or "installed packages"


def _tensorflows(packages: Packages) -> list[Package]:
    """The packages that install the module; conda's tensorflow-gpu only depends on its tensorflow."""
    found = [p for p in packages if p.name in TENSORFLOW and p.name not in _CONTENTS_OF_TENSORFLOW]
    return [p for p in found if p.installer != "conda"] or found[:1]


def _of_one_folder(packages: list[Package], context: Context, messages: MessageLog | None) -> list[Package] | None:
    """Packages that overwrite each other; a pasted list names no folders: there they differ in build or release."""
    if messages and messages.has("gpu-created") and not context.probed:
        return None  # whatever else is listed, this build uses the GPU
    apart = {(is_for_cpus(one.name, one.version), minor(one.version)) for one in packages}
    if len(apart) > 1 and len({one.name for one in packages}) == len(packages) and not context.probed:
        return packages
    # in different folders, the first on sys.path shadows the others
    folders = ([p for p in packages if p.location == folder] for folder in dict.fromkeys(p.location for p in packages))
    return next((same for same in folders if len(same) > 1), None)


def _of_another_release(packages: Packages, release: Release) -> Iterator[tuple[Package, str]]:
    """Companions whose version the installed TensorFlow does not allow, and what it allows."""
    tensorflow = next((one for one in packages if one.name in TENSORFLOW and one.requires), None)
    required = {one.name: str(one.specifier) for one in required_by(tensorflow, "3.8", None)} if tensorflow else {}
    own = {one.name for one in packages if one.installer == "conda"}  # Anaconda has estimator 2.6 beside 2.4.1
    for package in packages:
        if package.name not in _COMPANIONS or {package.name, "tensorflow"} <= own:
            continue
        # 2.4 requires tensorboard ~=2.4, which is anything below 3
        bound = required.get(package.name, requirements.companion_bound(package.name, release))
        if bound and allows(bound, package.version) is False:
            yield package, bound


@PACKAGE_CONFLICT.sign(conclusive=False, unless=("tf.package-removed", "tf.abi-numpy", "tf.abi-protobuf"))
def requirement_refused(
    context: Context, packages: Packages, python_version: str, wheel_platform: str | None = None, phases: Phases = ()
) -> Problem | None:
    """A version that TensorFlow, or a package that it brings along, refuses, as `pip check` would say."""
    there, seen, wanted = first_of_each(packages), [], []
    for name, asked in bounds_of(packages, python_version, wheel_platform).items():
        installed = there.get(name) if name not in _COMPANIONS else None
        refusing = [pair for pair in asked if installed and allows(pair[1], installed.version) is False]
        for asking, bound in refusing[:1]:
            need = f"{name}{without_gaps(bound)}", f"metadata of {_listed(asking)}"
            seen.append(evidence(_listed(there[name]), _where(there[name]), *need))
            wanted.append(f"{name}{narrowed(one for _, one in asked)}")
    if not seen:
        return None
    whose = (seen[0].need_source or "").removeprefix("metadata of ")
    text = "Install versions that it allows; the release of TensorFlow stays the same"
    # an import that ends at a module of another package ends for that
    module = next(filter(None, (_NO_MODULE.search(one.exception or "") for one in phases)), None)
    ends_here = import_fails(phases) and (module is None or module[1].replace("_", "-") in there)
    return Problem(
        title=f"{seen[0].saw} is installed, {whose} requires {seen[0].need}",
        cause=f"the metadata of {whose} excludes this version (pip check reports it, too); it may fail when it is used",
        evidence=tuple(seen),
        fixes=context.remedies.installing(text, *wanted),
        severity=None if ends_here else Severity.WARNING,
    )


@PACKAGE_CONFLICT.sign(conclusive=False, unless=("tf.package-removed",))
def library_cannot_be_loaded(
    context: Context,
    failing_files: tuple[FailingFile, ...],
    packages: Packages,
    phases: Phases,
    python_version: str = "3.8",
) -> Problem | None:
    """The import ends at a plugin, or at a library of a package that TensorFlow does not require."""
    failed = next((p for p in phases if p.outcome == "raised" and p.name in ("import", "keras")), Phase("", "ok"))
    exception = failed.exception or ""
    no_function = bool(_NO_SUCH_FUNCTION.search(exception))
    own = {*TENSORFLOW, *bounds_of(packages, python_version, None)}
    foreign = [one for one in _of_others(failing_files, own) if no_function or PLUGINS in one.path]
    if not foreign or not exception:
        return None
    named = f"{foreign[0].package} {foreign[0].version}" if foreign[0].package else foreign[0].path
    files = (evidence(one.path, f"RECORD of {one.package}" if one.package else "no RECORD") for one in foreign)
    of_plugin = f"TensorFlow loads every file in {PLUGINS} when it is imported, and one of them fails"
    return Problem(
        title=f"{named} does not load in this TensorFlow",
        cause=_OTHER_RELEASE if no_function else of_plugin,
        evidence=(*files, evidence(exception, f"phase {failed.name}")),
        fixes=_without_files(context, foreign),
    )


def _of_others(files: Iterable[FailingFile], own: Collection[str]) -> list[FailingFile]:
    """Those of no package that TensorFlow requires; what lies in its own folder is never renamed."""
    return [one for one in files if one.package not in own and "/tensorflow/" not in one.path.replace("\\", "/")]


def _without_files(context: Context, files: list[FailingFile]) -> tuple[Fix, ...]:
    if names := dict.fromkeys(one.package for one in files if one.package):
        return _without(context, *names)
    moves = tuple(context.remedies.rename(one.path, one.path + ".off") for one in files)
    return (Fix("No package lists this file: rename it, so that TensorFlow does not load it", moves),)


@PACKAGE_CONFLICT.sign(unless=("tf.package-removed", "tf.abi-numpy", "tf.abi-protobuf"))
def addon_asks_for_a_function(context: Context, messages: MessageLog) -> Problem | None:
    """A library beside TensorFlow asks it for a function that it does not have."""
    seen = messages.all("addon-mismatch")
    if not seen:
        return None
    addon = seen[0].values["addon"].replace("_", "-")
    text = f"Install the {addon} that is made for this TensorFlow; beside a TensorFlow built from source, build it, too"
    keeps = addon != PLUGINS and not context.probed  # a text does not tell whether its writer can do without
    fixes = (Fix(text),) if keeps else _without(context, "tensorflow-metal" if addon == PLUGINS else addon)
    file = _PLUGIN.search(seen[0].text) if addon == PLUGINS else None
    if addon == PLUGINS and "libmetal_plugin" in seen[0].text:  # what works is known, and 1.1 does not
        fixes = (*with_metal(context), *fixes)
    if file and "libmetal_plugin" not in file[2]:  # not Apple's: its name stands in the RECORD of its package
        command = f"grep -l {PLUGINS}/{file[2]} {context.remedies.quote(file[1])}*.dist-info/RECORD"
        fixes = (Fix("Find the package that installed it, and uninstall that", (command,)),)
    only_warns = all("tensorflow_io" in one.values["addon"] and "caused by" in one.text for one in seen)
    return Problem(
        title=f"{f'A file in {PLUGINS}' if addon == PLUGINS else addon} was compiled for another TensorFlow",
        cause=_OTHER_RELEASE,
        evidence=message_evidence(*seen),
        fixes=fixes,
        severity=Severity.WARNING if only_warns else None,
    )


@PACKAGE_CONFLICT.sign(unless=("tf.package-removed", "tf.abi-numpy", "tf.abi-protobuf"))
def plugin_of_apple(messages: MessageLog, release: Release) -> Problem | None:
    """Something fails beside Apple's plug-in, and the matrix knows that this release does not import with it."""
    seen, failed = messages.all("metal-plugin"), messages.has("failure-said", "traceback", "import-fails-said")
    beside = ((one, one.condition.beside.get("tensorflow-metal")) for one in release.known_issues)
    named = messages.values("metal-plugin", "version")
    known = (one for one, bound in beside if bound and all(allows(bound, each) for each in named))
    issue = next(known, None) if seen and failed else None
    if issue is None:
        return None
    return Problem(
        title=f"TensorFlow {release.version}: {issue.title}",
        cause=issue.symptom,
        evidence=message_evidence(*seen, most=1),
        fixes=(Fix(issue.fix, issue.commands),),
        possible=not any("libmetal" in one.text for one in messages.all("addon-mismatch", "exception")),
    )


@PACKAGE_CONFLICT.sign(unless=("tf.package-removed", "tf.abi-numpy", "tf.abi-protobuf"))
def messages_of_mixed_packages(messages: MessageLog, release: Release | None = None) -> Problem | None:
    """A module of TensorFlow or Keras lacks what another package expects, or two TensorFlows are listed."""
    # a Keras that needs what the TensorFlow beside it does not have yet, or no longer
    mixed = tuple(m for m in messages.all("keras-mismatch") if not asks_for_other_keras(m))
    absent = any(m.values.get("module") == "tensorflow" for m in messages.all("module-not-found"))
    kinds = ["estimator-mismatch", "tf-internals-missing", "two-tensorflows"]
    kinds += ["of-tensorflow-1"] if messages.has("old-keras") else []
    seen = (*mixed, *messages.all(*(() if absent else ("keras-needs-tensorflow",)), *kinds))
    if release:  # conda's selector of its own TensorFlow beside another release
        selectors = messages.all("conda-tensorflow")
        seen += tuple(one for one in selectors if minor(one.values.get("version")) != minor(release.version))
    asks_contrib = any("contrib" in one.text for one in seen if one.kind == "of-tensorflow-1")
    return Problem(evidence=message_evidence(*seen), fixes=(_OF_TENSORFLOW_1,) if asks_contrib else None)


@PACKAGE_CONFLICT.sign(unless=("tf.package-removed", "tf.abi-numpy", "tf.abi-protobuf"))
def stated_keras(context: Context, messages: MessageLog, release: Release) -> Problem | None:
    """Keras cannot be imported, and the text names one that is not of this TensorFlow."""
    bound, named = requirements.companion_bound("keras", release) or "", messages.all("keras-named")
    others = [one for one in named if allows(bound, one.values["version"]) is False]
    ends = any(one.startswith("keras/") for one in messages.values("traceback", "neighbour"))
    if context.probed or not (ends and others) or len(others) < len(named):
        return None
    text = f"Install the Keras of TensorFlow {release.version}"
    return Problem(
        title=f"Keras {others[0].values['version']} is not that of TensorFlow {release.version}",
        cause=f"TensorFlow {release.version} needs keras{bound}, and the import ends in Keras",
        evidence=message_evidence(others[0]),
        fixes=context.remedies.installing(text, f"keras{bound}"),
        sure=True,
    )


# names of the module numpy → the version that removed them; seen by asking NumPy 1.19 to 2.4 for each (2.0 brought back
# bool and long). All others that a message names went with 2.0
_UNTIL_1_24 = ("object", "bool", "int", "float", "complex", "str", "long", "unicode", "typeDict", "MachAr")
_REMOVED_IN = {"alen": "1.23", "asscalar": "1.23", **dict.fromkeys(_UNTIL_1_24, "1.24"), "in1d": "2.4", "trapz": "2.4"}
# What came with a NumPy, and is missed in an older one (release notes of 1.20, 1.25, 2.0 and 2.1)
_ADDED_IN = {
    "typing": "1.20",
    **dict.fromkeys(("exceptions", "dtypes"), "1.25"),
    **dict.fromkeys(("_core", "strings", "trapezoid", "vecdot", "isdtype", "concat", "permute_dims"), "2.0"),
    "unstack": "2.1",
}
# the first version that runs with NumPy 1 and 2 (release notes); what is older is compiled for NumPy 1
_SINCE_NUMPY_2 = {"h5py": "3.11", "ml-dtypes": "0.4", "scipy": "1.13", "pandas": "2.2.2", "scikit-learn": "1.4.2"}
# What is printed where the installed protobuf is older than the one that generated the code. The module runtime_version
# came with 5.26, builder with 3.20, the arguments create_key, serialized_options and syntax with 3.12, 3.6 and 3.0;
# up to 3.20 it also takes the code of all older releases.
_BEFORE_RUNTIME_VERSION = re.compile(r"import name '?runtime_version\b|runtime version cannot be older")
_SINCE = {"import name '?builder": "3.20.3", "'create_key'": "3.12", "'serialized_options'": "3.6", "'syntax'": "3.0"}
_SINCE |= {"has no attribute 'Default'": "3.0"}  # of descriptor_pool: tensorflow issues 5344, 5423 and 7651
_RUNTIME_VERSION = "5.26"
_TENSORFLOW = re.compile(r"(?:tensorflow(?:-gpu|-cpu|-intel|-macos)?|tf-nightly)$")


def _held_to_wheel(declared: Declaration, name: str, bound_of: Callable[[Release], str | None]) -> None:
    """Register the sign that a package is outside the wheel's bounds."""

    @declared.sign(conclusive=False)
    def outside_bounds(context: Context, release: Release, packages: Packages, phases: Phases = ()) -> Problem | None:
        """A package outside the wheel's bounds, unless the import succeeds or conda's solver chose both."""
        bound = bound_of(release) or ""
        package = next((p for p in packages if p.name == name and allows(bound, p.version) is False), None)
        phase = import_phase(phases)
        failed = phase is not None and phase.outcome in ("raised", "died")
        from_conda = {p.name for p in packages if p.installer == "conda"} >= {name, "tensorflow"}
        works = from_conda or (phase and phase.outcome == "ok")
        if package is None or not (
            failed or (not works and requirements.stops(name, package.version, release.version, bound))
        ):
            return None
        requirement, built = f"{name}{without_gaps(bound)}", f"TensorFlow {release.version}"
        seen = evidence(_listed(package), _where(package), requirement, f"{built} (wheel)")
        raised = _raised(context, name, phase)
        cause, own = f"{built} is built for {requirement}", context.log.has(f"{name}-abi")
        fixes = _install(context, requirement)
        return Problem(cause=cause, evidence=(seen, *raised), fixes=fixes, rank_first=own)


def _raised(context: Context, name: str, phase: Phase | None) -> tuple[Evidence, ...]:
    """What the import raised, unless NumPy's and protobuf's messages tell that it is the other's."""
    others = context.log.has("numpy-abi", "protobuf-abi") and not context.log.has(f"{name}-abi")
    return (evidence(phase.exception, "import tensorflow"),) if phase and phase.exception and not others else ()


def _install(context: Context, requirement: str) -> tuple[Fix, ...]:
    """The dependency, in a version for the release that is there."""
    return context.remedies.installing(f"Install {requirement}, and restart Python", requirement)


def _or_newer(context: Context, name: str) -> tuple[Fix, ...]:
    """Another release where the one that is there is unknown or cannot use the GPU here; pip chooses `name` for it."""
    newer = context.remedies.reinstall_best(f"pip installs the {name} that it needs with it")[:1]
    return () if context.remedies.kept_release() else newer


def _unmet(messages: MessageLog, name: str, *, ends: bool = False) -> list[Message]:
    """pip's warnings about NumPy, protobuf or all other packages; those that end an import, where only they count."""
    found = [one for one in messages.all("requirement-conflict") if _TENSORFLOW.match(one.values["package"])]
    about = [m for m in found if m.values["other"] == name or not (name or m.values["other"] in _BOUND_OF)]
    return [m for m in about if not ends or requirements.stops(name, m.values["has"], m.values.get("version", ""))]


_UNMET = (
    "Install what TensorFlow and what goes with it require, and restart Python; a package that refuses these versions "
    "needs an environment of its own"
)


def _needs(context: Context, messages: MessageLog) -> Iterator[str]:
    """What pip names as required, of each package once, with the limits that the metadata of old releases lacks."""
    platform = value_or(context.facts.python.wheel_platform, "linux_x86_64")
    bounds: dict[str, list[str]] = {}
    for one in messages.all("requirement-conflict"):
        name = re.split(r"[^\w.-]", one.values["need"])[0]
        of_wheel = _TENSORFLOW.match(one.values["package"]) and name in _BOUND_OF
        version = one.values.get("version", "")  # perhaps not of the TensorFlow that is there now
        of_wheel = of_wheel and minor(value_or(context.facts.tensorflow.version, version)) == minor(version)
        row = context.matrix.tensorflow(version, platform) if of_wheel else None
        lacking = _BOUND_OF[name](row) if row else None
        bounds.setdefault(name, []).extend((lacking or "", one.values["need"].removeprefix(name)))
    if any(at_least(has, "1.0.6") is False for has in _of_keras(messages)):
        bounds = {"keras": ["==2.2.4"]} | {
            name: asked for name, asked in bounds.items() if name not in _PINNED_BY_KERAS
        }
    for name, asked in bounds.items():
        yield f"{name}{narrowed(asked)}"


# Keras 2.2.0 pins them, 2.2.4 asks for >=1.0.6 and >=1.0.5, as TensorFlow 1.13 and 1.14 do (metadata of the wheels)
_PINNED_BY_KERAS = ("keras-applications", "keras-preprocessing")


def _of_keras(messages: MessageLog) -> Iterator[str]:
    conflicts = (one.values for one in messages.all("requirement-conflict"))
    yield from (one["has"] for one in conflicts if one["other"] == "keras-applications")


_BOUND_OF = {"numpy": numpy_bound, "protobuf": protobuf_bound}


def _held_to_pip(declared: Declaration, name: str = "", unless: tuple[str, ...] = ()) -> None:
    """Register the sign that pip warns of a package; it installs it all the same, and TensorFlow may run with it."""

    @declared.sign(unless=unless)
    def unmet(context: Context, messages: MessageLog) -> Problem | None:
        """pip says that packages are not those that TensorFlow requires."""
        found = {one.values["need"]: one for one in _unmet(messages, name)}
        if not found or (context.probed and not messages.complains):
            return None
        return Problem(
            title="TensorFlow requires other versions of packages that are installed",
            cause="pip installs what does not go together, and says so",
            evidence=message_evidence(*found.values()),
            fixes=context.remedies.installing(_UNMET, *_needs(context, messages)),
            severity=Severity.WARNING,
        )


_held_to_pip(PACKAGE_CONFLICT, unless=("tf.package-removed",))


ABI_NUMPY = finding(
    "tf.abi-numpy",
    layer="Python",
    title="The installed NumPy is incompatible with this TensorFlow",
    cause="TensorFlow before 2.18 is compiled for NumPy 1, and cannot run with NumPy 2; before 2.7, not with 1.24",
    explained_by=("env.pythonpath", "tf.shadowed"),
    docs="https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
)


_held_to_wheel(ABI_NUMPY, "numpy", numpy_bound)
_held_to_pip(ABI_NUMPY, "numpy")


@ABI_NUMPY.sign()
def numpy_messages(
    context: Context, messages: MessageLog, release: Release | None = None, packages: Packages = ()
) -> Problem | None:
    """NumPy refuses a module that was compiled for another NumPy."""
    seen = (*_of_versions(messages, release), *_unmet(messages, "numpy", ends=True))
    if not seen:
        return None
    if name := next((m.values["name"] for m in seen if "name" in m.values and "'numpy'" in m.text), None):
        return _too_old_for(context, seen, name, release) or _removed(context, seen, name, release)
    if beside := _of_numpy_1(context, seen, release, packages):
        return beside
    requirement = "numpy" + ((numpy_bound(release) if release else None) or "<2")
    cause = None
    texts = " ".join(message.text for message in seen)
    if "numpy.core._multiarray_umath" in texts and "NumPy 2" not in texts:  # a module of NumPy 1.16 and later
        requirement, cause = requirement.replace("numpy<", "numpy>=1.16,<"), "it is compiled for a newer NumPy"
    # of NumPy's C functions: printed by an older NumPy, perhaps lines before TensorFlow's own message
    if any(" API version" in message.text for message in (*seen, *messages.all("exception"))):
        cause = "a module was compiled for a newer NumPy than the one that is imported first"
        text = "Upgrade NumPy in this Python, remove an older one of the distribution or of conda, and restart Python"
        fixes = context.remedies.installing(text, "--upgrade", requirement)
        return Problem(cause=cause, evidence=message_evidence(*seen, need="a newer NumPy"), fixes=fixes)
    fixes = (*_of_any_age(context, requirement, packages), *_or_newer(context, "NumPy"))
    return Problem(cause=cause, evidence=message_evidence(*seen, need=requirement), fixes=fixes)


def _of_any_age(context: Context, requirement: str, packages: Packages) -> tuple[Fix, ...]:
    """NumPy below a bound, of which pip keeps one that meets it; an unknown one may be too old as well."""
    newest = () if any(one.name == "numpy" for one in packages) else ("--upgrade",)
    return context.remedies.installing(f"Install {requirement}, and restart Python", *newest, requirement)


def _of_versions(log: MessageLog, release: Release | None) -> Iterator[Message]:
    """NumPy's messages, but for one whose reason the loader names; NumPy 2, named beside an import that fails."""
    if log.has("import-fails-said") and not (log.complains or (release and at_least(release.version, "2.18"))):
        yield from log.all("numpy-2-named")
    for message in log.all("numpy-abi"):
        if not (log.has("loader-error") and "C-extensions failed" in message.text):
            yield message


def _too_old_for(context: Context, seen: tuple[Message, ...], name: str, release: Release | None) -> Problem | None:
    """A name that an older NumPy does not have yet."""
    if (since := _ADDED_IN.get(name)) is None:
        return None
    bound = (numpy_bound(release) if release else None) or ""
    suits = bound.startswith(">=") and at_least(bound[2:].split(",")[0], since)
    requirement = f"numpy{bound if suits else f'>={since}'}"
    return Problem(
        title=f"np.{name} is missed, which came with NumPy {since}",
        cause="an older NumPy is installed",
        evidence=message_evidence(*seen, need=requirement),
        fixes=_install(context, requirement),
    )


def _of_numpy_1(
    context: Context, seen: tuple[Message, ...], release: Release | None, packages: Packages
) -> Problem | None:
    """TensorFlow runs with NumPy 2 since 2.18; a package beside it that is older than NumPy 2 does not."""
    old = {one.name: one for one in packages if at_least(one.version, _SINCE_NUMPY_2.get(one.name, "0")) is False}
    if not old or release is None or not at_least(release.version, "2.18"):
        return None
    python = context.facts.python
    asked = bounds_of(packages, value_or(python.version, "3.12"), value_or(python.wheel_platform, None))
    own = {name: [bound for _, bound in asked.get(name, ())] for name in old}
    needs = [f"{name}{narrowed([*own[name], f'>={_SINCE_NUMPY_2[name]}'])}" for name in old]
    return Problem(
        title=f"{', '.join(map(_listed, old.values()))}: compiled for NumPy 1, and NumPy 2 is installed",
        cause="NumPy 2 refuses modules that were compiled for NumPy 1",
        evidence=(*message_evidence(*seen), *(evidence(_listed(one), _where(one)) for one in old.values())),
        fixes=context.remedies.installing(f"Install {' '.join(needs)}, and restart Python", *needs),
    )


def _removed(context: Context, seen: tuple[Message, ...], name: str, release: Release | None) -> Problem:
    """A name that a later NumPy does not have: TensorFlow before 2.7 asks for some, else the user's code does."""
    removed_in = _REMOVED_IN.get(name, "2")
    bounds = ((numpy_bound(release) if release else None) or "").split(",")
    floor = next((one for one in bounds if one.startswith((">=", "~="))), "")
    available = not floor or at_least(floor[2:], removed_in) is False
    requirement = f"numpy{f'{floor},' if available and floor.startswith('>') else ''}<{removed_in}"
    wanted = f"numpy{floor}" if floor.startswith("~=") else requirement  # with an upper bound of its own, below that
    in_tensorflow = removed_in == "1.24" and release is not None and at_least(release.version, "2.7") is False
    edit = Alternative(f"Replace np.{name} in the code that the traceback names, as NumPy's release notes advise")
    newer = _or_newer(context, "NumPy") if in_tensorflow else ()
    older = _install(context, wanted) if available else ()
    return Problem(
        title=f"NumPy {removed_in} removed np.{name}, which this program uses",
        cause=f"NumPy {removed_in} or newer is installed; numpy<{removed_in} has the name",
        evidence=message_evidence(*seen, need=requirement),
        fixes=(*older, *newer, edit),
    )


@ABI_NUMPY.sign()
def symbolic_tensor_message(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """np.prod gets a symbolic shape: recurrent layers of a TensorFlow before 2.6."""
    recurrent = re.compile(r"lstm|gru|rnn|bidirectional", re.I)
    named = messages.all("symbolic-to-numpy")
    seen = [one for one in named if release or recurrent.search(one.values.get("tensor", ""))]
    if not seen or (release and at_least(release.version, "2.6")):
        return None
    return Problem(
        title="NumPy 1.20 or newer with a TensorFlow before 2.6",
        cause="since NumPy 1.20, np.prod converts a symbolic tensor to an array, which TensorFlow before 2.6 refuses",
        evidence=message_evidence(*seen, need="numpy<1.20, or TensorFlow 2.6"),
        fixes=(*_install(context, "numpy<1.20"), *_or_newer(context, "NumPy")),
    )


ABI_PROTOBUF = finding(
    "tf.abi-protobuf",
    layer="Python",
    title="The installed protobuf is incompatible with this TensorFlow",
    cause="TensorFlow contains code that was generated by protobuf, which the installed protobuf does not support",
    explained_by=("env.pythonpath", "tf.shadowed"),
    docs="https://protobuf.dev/support/cross-version-runtime-guarantee/",
)


_held_to_wheel(ABI_PROTOBUF, "protobuf", lambda release: release.protobuf)
_held_to_pip(ABI_PROTOBUF, "protobuf")


_OLDER_COPY = (
    "Install {}, and restart Python. If the second command then shows another folder than pip's, that is an older copy "
    "which Python finds first: remove it (Ubuntu: sudo apt-get remove python-protobuf)"
)


def _in_place_of_a_copy(context: Context, seen: Iterable[Message], requirement: str) -> tuple[Fix, ...]:
    if not any("has no attribute 'Default'" in one.text for one in seen):
        return _install(context, requirement)
    show = f'{context.remedies.python} -c "import google.protobuf; print(google.protobuf)"'
    return context.remedies.installing(_OLDER_COPY.format(requirement), requirement, then=(show,))


@ABI_PROTOBUF.sign()
def protobuf_messages(
    context: Context, messages: MessageLog, release: Release | None = None, phases: Phases = ()
) -> Problem | None:
    """protobuf refuses code that another version generated; TensorFlow may be imported all the same."""
    seen = (*messages.all("protobuf-abi"), *_unmet(messages, "protobuf", ends=True), *messages.raised_by_protobuf)
    phase = import_phase(phases)
    if not seen or (phase and phase.outcome == "ok"):
        return None
    bound = (protobuf_bound(release) if release else None) or _for_older_runtime(context, seen)
    requirement = f"protobuf{without_gaps(bound or '<3.21')}"
    older = any(re.search(words, one.text) for words in _SINCE for one in seen)
    cause = "the code was generated by a newer protobuf than the one that is installed" if older else None
    fixes = _in_place_of_a_copy(context, seen, requirement)
    fixes += () if bound else _or_newer(context, "protobuf")
    return Problem(cause=cause, evidence=message_evidence(*seen, need=requirement), fixes=fixes)


def _for_older_runtime(context: Context, seen: tuple[Message, ...]) -> str | None:
    """The bounds that the code needs, where the installed protobuf is older than it; None where it is newer.

    They suit every release whose code imports google.protobuf.runtime_version: one of them is installed.
    """
    for words, since in _SINCE.items():
        if any(re.search(words, message.text) for message in seen):
            return f">={since},<3.21"
    if any("GetPrototype" in message.text for message in seen):  # until protobuf 6 (Migration Guide, v30.0)
        return "<6"
    if not any(_BEFORE_RUNTIME_VERSION.search(message.text) for message in seen):
        return None
    bounds = [row.protobuf or "" for row in context.matrix.stable("linux_x86_64", "tensorflow")]
    lowest = re.compile(r">=(\d+(?:\.\d+)*)")
    return narrowed(one for one in bounds if (low := lowest.search(one)) and at_least(low[1], _RUNTIME_VERSION))


ABI_KERAS = finding(
    "tf.abi-keras",
    layer="Python",
    title="Keras 2 and Keras 3 are mixed",
    cause="TensorFlow installs Keras 3 since 2.16; code and models for Keras 2 need the package tf-keras",
    explained_by=("env.keras-backend", "env.legacy-keras"),
    pointless_after=("tf.package-conflict",),
    docs="https://keras.io/getting_started/#tensorflow--keras-2-backwards-compatibility",
)
# what TensorFlow prints of any Keras that fails, and of a variable whose value was read
_OF_ANY_KERAS = re.compile("Keras cannot be imported|TF_USE_LEGACY_KERAS")


_ONLY_IN_KERAS_3 = re.compile(r"name 'ops' from 'keras'|\bkeras\.ops\b")
_OLDER_CODE = Fix(
    "Install a release of that code or package that was made for Keras 2, which TensorFlow 2.15 and older have; "
    "Keras 3 comes with TensorFlow 2.16 and later"
)


@ABI_KERAS.sign(unless=("env.pythonpath", "tf.shadowed", "tf.install-damaged"))
def keras_messages(
    context: Context, messages: MessageLog, release: Release | None = None, packages: Packages = ()
) -> Problem | None:
    """Code for Keras 2 runs with Keras 3, or the reverse."""
    moved = [message for message in messages.all("keras-mismatch") if asks_for_other_keras(message)]
    of_two = [m for m in messages.all("keras-generation") if not (context.probed and _OF_ANY_KERAS.search(m.text))]
    seen = message_evidence(*of_two, *moved)
    if within := _within_keras_2(context, of_two, moved, release):
        return within
    if any(_ONLY_IN_KERAS_3.search(message.text) for message in moved):
        return Problem(cause="the code asks for what came with Keras 3", evidence=seen, fixes=(_OLDER_CODE,))
    return Problem(evidence=seen, fixes=tuple(_keras_fixes(context, release, packages)))


def _within_keras_2(
    context: Context, seen: list[Message], moved: list[Message], release: Release | None
) -> Problem | None:
    """No Keras 3 is there: the code, or a variable, asks for another release of Keras 2."""
    remedies, missing = context.remedies, (message.values.get("missing", "") for message in moved)
    before = _before_keras_3(context, release)
    cause = "the code asks for what the Keras that is there does not have yet, or no longer"
    if known := next((_MOVED[one] for one in missing if one in _MOVED), None):
        cause, text, wanted = known
        is_old = release is None or at_least(release.version, "2.3") is False
        fixes = remedies.installing(text, wanted) if wanted and is_old else (Fix(text),)
    elif before and release and any("not have the tf_keras package" in message.text for message in seen):
        cause = "TF_USE_LEGACY_KERAS is set, and tf_keras, for which it asks, is not installed"
        fixes = remedies.installing("Install it, or unset the variable", f"tf-keras~={minor(release.version)}.0")
    elif before and moved:
        fixes = tuple(_keras_fixes(context, release, ())) if release else (_OLDER_CODE,)
    else:
        return None
    return Problem(title=_OTHER_KERAS, cause=cause, evidence=message_evidence(*seen, *moved), fixes=fixes)


def _before_keras_3(context: Context, release: Release | None) -> bool:
    version, python = release.version if release else None, value_or(context.facts.python.version, None)
    return at_least(version, requirements.KERAS_3) is False or at_least(python, _FIRST_PYTHON) is False


_OTHER_KERAS = "Another release of Keras is asked for than the one that is installed"
_FIRST_PYTHON = "3.9"  # that has a TensorFlow with Keras 3
_UNTIL_2_3 = (  # why, what to do, and what to install
    "Keras 2.4 removed it",
    "Install Keras 2.3.1, with TensorFlow 1.13 to 2.2; or a release of the package that imports from tensorflow.keras",
    "keras==2.3.1",
)
_FROM_2_13 = "Install TensorFlow 2.13 or later, with the Keras that it requires; or an older release of that code"
_MOVED = {
    **dict.fromkeys(("keras.legacy", "keras.backend.tensorflow_backend"), _UNTIL_2_3),
    "keras.src": ("Keras has this module since 2.13, and an older one is installed", _FROM_2_13, ""),
}
_SELECT = Fix("Select Keras 2 as tf.keras, before TensorFlow is imported", ("export TF_USE_LEGACY_KERAS=1",))


def _keras_fixes(context: Context, release: Release | None, packages: Packages) -> Iterator[Fix]:
    """tf-keras of the very minor release: it requires a TensorFlow of the same, and pip would change TensorFlow."""
    remedies, wanted = context.remedies, minor(release.version) if release else None
    text = "Install Keras 2 of the same minor version as TensorFlow, and select it as tf.keras"
    if any(one.name == "tf-keras" and wanted in (None, minor(one.version)) for one in packages):
        code = '-c "import sys, tf_keras; print(sys.executable, tf_keras.__version__)"'
        yield Fix("Check that tf-keras is installed in the Python that fails", (f"{remedies.python} {code}",))
        yield _SELECT
    elif (
        release and at_least(release.version, requirements.KERAS_3) is False
    ):  # Keras 2, of which tf-keras is no older one
        own = f", with keras{release.keras}" if release.keras else ""
        made = f"a release of that code or package that was made for TensorFlow {wanted}"
        yield Fix(f"Install {made}{own}; or the TensorFlow that it was made for")
    elif wanted:
        yield from remedies.installing(text, f"tf-keras~={wanted}.0", then=_SELECT.commands)
    elif commands := remedies.pip_install("tf-keras"):
        # the release is not known here, but to the interpreter that fails
        if remedies.os == "windows":
            code = "import importlib.metadata as m, subprocess as s, sys; v = m.version('tensorflow').split('.'); "
            code += "s.call([sys.executable, '-m', 'pip', 'install', f'tf-keras~={v[0]}.{v[1]}.0'])"
            commands = (f'{remedies.python} -c "{code}"',)
        else:
            code = 'import importlib.metadata as m; print(".".join(m.version("tensorflow").split(".")[:2]))'
            commands = (f"{remedies.python} -m pip install \"tf-keras~=$({remedies.python} -c '{code}').0\"",)
        yield Fix(text, (*commands, *_SELECT.commands))
