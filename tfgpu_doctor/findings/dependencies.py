"""Packages of different TensorFlow releases in one environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from packaging.requirements import Requirement

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.addons import addon_asks_for_a_function, library_cannot_be_loaded
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.installed_requirements import bounds_of, first_of_each, refused_versions
from tfgpu_doctor.findings.keras_messages import asks_for_other_keras
from tfgpu_doctor.findings.manifest_signs import in_manifests
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.phases import import_fails
from tfgpu_doctor.findings.version_bounds import allows, narrowed, outside_bounds, refused, without_gaps
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.file_edits import remove
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.distributions import TENSORFLOW, is_for_cpus
from tfgpu_doctor.records.facts import Message, Package, Phase
from tfgpu_doctor.records.report import Evidence, Fix, Severity
from tfgpu_doctor.records.versions import at_least, minor

GUIDE = "https://www.tensorflow.org/install/pip"
# `tensorflow` on Windows and Apple silicon was an empty wheel that depends on one of these (2.10 to 2.16, wheels)
_CONTENTS_OF_TENSORFLOW = frozenset({"tensorflow-intel", "tensorflow-macos", "tensorflow-cpu-aws"})
# released with TensorFlow: same minor version until Keras 3 came with 2.16 (Requires-Dist of the wheels)
_COMPANIONS = ("keras", "tensorboard", "tensorflow-estimator", "tf-keras")
_MOST_LINES = 5  # of a manifest, that a resolver's words name
_REINSTALL = "Uninstall all of them, and install one release with its dependencies"


def _reinstall_all(context: Context) -> tuple[Fix, ...]:
    names = ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", *_COMPANIONS)
    return _again(context, names)


def _again(context: Context, names: Sequence[str]) -> tuple[Fix, ...]:
    """The one release of this report; where none fits this Python, another environment."""
    remedies = context.remedies
    again = remedies.installing(_REINSTALL, *remedies.tensorflow, first=(remedies.pip_uninstall(*names),))
    return again or remedies.reinstall_best("it brings its dependencies")


PACKAGE_CONFLICT = finding(
    "tf.package-conflict",
    layer="Python",
    severity=Severity.ERROR,
    title="Packages of different TensorFlow releases are mixed in this environment",
    cause="keras, tensorboard, tensorflow-estimator and TensorFlow are of different releases, or two TensorFlow "
    "packages installed their files into the same folder",
    fixes=_reinstall_all,
    explained_by=("env.pythonpath", "tf.shadowed"),
    pointless_after=("tf.package-removed",),
    symptoms=(symptoms.NO_ATTRIBUTE,),
    docs=GUIDE,
)


@PACKAGE_CONFLICT.sign
def mixed_packages(
    context: Context, packages: tuple[Package, ...], release: Release | None = None, messages: MessageLog | None = None
) -> Problem | None:
    """Two distributions in one folder `tensorflow`, or keras or tensorboard of another release."""
    tensorflows = _tensorflows(packages)
    twice = _of_one_folder(tensorflows, context, messages)
    if twice:
        folder = twice[0].location or "installed packages"
        seen = [evidence(f"{p.name} {p.version}", folder, "one TensorFlow package") for p in twice]
        names = tuple(dict.fromkeys(p.name for p in twice))
    elif messages and messages.has("other-version-runs"):
        return None  # the release is that of another environment
    else:
        seen = list(_of_another_release(packages, release))
        other_builds = (p.name for p in tensorflows if p.name != "tensorflow")  # beside which none can be installed
        names = (*other_builds, *(line.saw.split()[0] for line in seen))
    if not seen:
        return None
    return Problem(
        cause="they install their files into the same folder, and the one installed last has overwritten the others"
        if twice
        else "they belong to another TensorFlow release than the one that is installed",
        evidence=tuple(seen),
        fixes=_tf_keras(context, seen) or _again(context, names),
    )


def _tf_keras(context: Context, seen: list[Evidence]) -> tuple[Fix, ...]:
    """Nothing requires tf-keras, so that installing TensorFlow again would not bring it back."""
    wanted = [line.need.replace(" ", "") for line in seen if line.need and line.need.startswith("tf-keras ")]
    if len(wanted) < len(seen):
        return ()
    return context.remedies.installing("Install the tf-keras of this release", *wanted)


def _tensorflows(packages: tuple[Package, ...]) -> list[Package]:
    """The packages that install the module; conda's tensorflow-gpu only depends on its tensorflow."""
    found = [p for p in packages if p.name in TENSORFLOW and p.name not in _CONTENTS_OF_TENSORFLOW]
    return [p for p in found if p.installer != "conda"] or found[:1]


def _of_one_folder(
    packages: list[Package], context: Context, messages: MessageLog | None = None
) -> list[Package] | None:
    """Packages that overwrite each other; a pasted list names no folders: there they differ in build or release."""
    names = [package.name for package in packages]
    if messages and messages.has("gpu-created") and not context.probed:
        return None  # whatever else is listed, this build uses the GPU
    apart = {(is_for_cpus(one.name, one.version), minor(one.version)) for one in packages}
    if len(apart) > 1 and len(set(names)) == len(names) and not context.probed:
        return packages
    return next((same for same in _by_folder(packages) if len(same) > 1), None)


def _by_folder(packages: list[Package]) -> Iterator[list[Package]]:
    """Packages overwrite each other in one folder; in different ones the first on sys.path shadows the others."""
    for folder in dict.fromkeys(p.location for p in packages):
        yield [p for p in packages if p.location == folder]


def _of_another_release(packages: tuple[Package, ...], release: Release | None) -> Iterator[Evidence]:
    """Companions whose version the installed TensorFlow does not allow."""
    required = _requirements(packages)
    for package in packages if release else ():
        if release is None or package.name not in _COMPANIONS:
            continue
        # 2.4 requires tensorboard ~=2.4, which is anything below 3
        bound = required.get(package.name, _companion_bound(package.name, release))
        if bound and allows(bound, package.version) is False:
            found, folder = f"{package.name} {package.version}", package.location or "installed packages"
            yield evidence(found, folder, f"{package.name} {bound}", f"TensorFlow {release.version} (wheel)")


def _requirements(packages: tuple[Package, ...]) -> dict[str, str]:
    """What the metadata of the installed TensorFlow requires, without extras."""
    found: dict[str, str] = {}
    for line in next((p.requires for p in packages if p.name in TENSORFLOW and p.requires), ()):
        try:
            required = Requirement(line.replace("(", "").replace(")", "") if "extra" not in line else "none")
        except ValueError:
            continue
        found[required.name.lower().replace("_", "-")] = str(required.specifier)
    return found


def _companion_bound(name: str, release: Release) -> str | None:
    version = release.version
    if name == "keras":
        # 2.6 has no upper bound for Keras, and cannot be imported with a newer one (keras 2.7 needs TensorFlow 2.7)
        return "~=2.6.0" if release.keras and version.startswith("2.6.") else release.keras
    since, until = {"tensorflow-estimator": ("1.13", "2.16"), "tensorboard": ("0", "2.21")}.get(name, ("2.16", "99"))
    if not at_least(version, since) or at_least(version, until) is not False:
        return None  # not required by this release
    return f"~={minor(version)}.0"


@PACKAGE_CONFLICT.sign(conclusive=False, unless=("tf.abi-numpy", "tf.abi-protobuf"))
def requirement_refused(
    context: Context,
    packages: tuple[Package, ...],
    python_version: str,
    wheel_platform: str | None = None,
    phases: tuple[Phase, ...] | None = None,
) -> Problem | None:
    """A version that TensorFlow, or a package that it brings along, refuses, as `pip check` would say."""
    there = first_of_each(packages)
    asked = bounds_of(packages, python_version, wheel_platform).items()
    bounds = {name: bound for name, bound in asked if name in there and name not in _COMPANIONS}
    refusing = dict(refused_versions(there, bounds))
    if not refusing:
        return None
    wanted = {name: f"{name}{narrowed(bound for _, bound in bounds[name])}" for name in refusing}
    name, (asking, bound) = next(iter(refusing.items()))
    more = f"; {len(refusing) - 1} more such versions" if len(refusing) > 1 else ""
    whose = f"{asking.name} {asking.version}"
    return Problem(
        title=f"{name} {there[name].version} is installed, {whose} requires {name}{without_gaps(bound)}{more}",
        cause=f"the metadata of {whose} excludes this version (pip check reports it, too); it may fail when it is used",
        evidence=tuple(
            evidence(
                f"{name} {there[name].version}",
                there[name].location or "installed packages",
                f"{name}{without_gaps(bound)}",
                f"metadata of {asking.name} {asking.version}",
            )
            for name, (asking, bound) in refusing.items()
        ),
        fixes=context.remedies.installing(
            "Install versions that it allows; the release of TensorFlow stays the same", *wanted.values()
        ),
        severity=None if import_fails(phases) else Severity.WARNING,
    )


PACKAGE_CONFLICT.sign(conclusive=False)(library_cannot_be_loaded)
PACKAGE_CONFLICT.sign(unless=("tf.abi-numpy", "tf.abi-protobuf"))(addon_asks_for_a_function)


@PACKAGE_CONFLICT.sign(unless=("tf.abi-numpy", "tf.abi-protobuf"))
def messages_of_mixed_packages(messages: MessageLog) -> Problem | None:
    """A module of TensorFlow or Keras lacks what another package expects, or two TensorFlows are listed."""
    kinds = ("estimator-mismatch", "tf-internals-missing", "two-tensorflows")
    seen = (
        *_other_keras(messages),
        *messages.all(*kinds),
        *_requirement_conflicts(messages),
        *_missing_names(messages),
    )
    if not seen:
        return None
    return Problem(evidence=message_evidence(*seen))


def _other_keras(messages: MessageLog) -> tuple[Message, ...]:
    """A Keras that needs what the TensorFlow beside it does not have yet, or no longer."""
    mixed = tuple(m for m in messages.all("keras-mismatch") if not asks_for_other_keras(m))
    absent = any(m.values.get("module") == "tensorflow" for m in messages.all("module-not-found"))
    return mixed if absent else (*mixed, *messages.all("keras-needs-tensorflow"))


def _requirement_conflicts(messages: MessageLog) -> Iterator[Message]:
    """pip's warning about companions of TensorFlow that are of another release."""
    companions = re.compile(r"^(?:keras|tensorboard|tensorflow[\w-]*|tf[-_]keras)$")
    for message in messages.all("requirement-conflict"):
        if all(companions.match(message.values.get(name, "")) for name in ("other", "package")):
            yield message


_NEAR = 14  # lines from the last frame to the exception, as IPython prints them
# of the names that Keras before 2.3 uses, what TensorFlow 2 does not have
_OF_TENSORFLOW_1 = frozenset(
    {
        *("get_default_graph", "placeholder", "Session", "ConfigProto", "global_variables_initializer", "log"),
        *("get_default_session", "placeholder_with_default", "is_variable_initialized", "variables_initializer"),
        *("reset_default_graph", "assign", "assign_add", "matrix_inverse", "sparse_tensor_to_dense", "to_float"),
    }
)


def _missing_names(messages: MessageLog) -> Iterator[Message]:
    """Names of TensorFlow 1 that an old Keras misses in TensorFlow 2; `compat`, that a newer estimator misses in 1."""
    old_keras = bool(messages.values("traceback", "through"))
    frames = [m.line for m in messages.all("traceback") if "neighbour" in m.values]
    for message in messages.all("no-attribute"):
        name = message.values.get("name")
        near = any(0 < message.line - frame <= _NEAR for frame in frames)
        if name == "compat" or (old_keras and name in _OF_TENSORFLOW_1) or near:
            yield message


@in_manifests(PACKAGE_CONFLICT)
def two_tensorflows_required(view: PlannedEnvironment) -> Iterator[Problem]:
    """Two distributions that install their files into the same folder."""
    first, others = view.tensorflow, view.others
    names = {one.name for one in others} - {"tensorflow-base"}
    if first is None or not names or view.conda:
        return
    yield Problem(
        title=f"{first.name} and {', '.join(sorted(names))} overwrite each other",
        cause="each of them installs the folder tensorflow/; the order of installation decides which files remain",
        evidence=tuple(Evidence(one.text, str(one.place), f"{first.name} alone", GUIDE) for one in others),
        fixes=tuple(remove(one) for one in others),
    )


@in_manifests(PACKAGE_CONFLICT)
def requirements_exclude_each_other(view: PlannedEnvironment) -> Iterator[Problem]:
    """Versions that pip cannot install together: a Keras of another release, a tf-keras for another TensorFlow."""
    yield from refused(view, but=("numpy", "protobuf"))
    yield from outside_bounds(view, "keras", view.release.keras if view.release else None)
    # the metadata of 2.14.1 and 2.15.0 names no TensorFlow; beside 2.20.0 the import of 2.15.0 fails (tried)
    yield from outside_bounds(view, "tf-keras", _companion_bound("tf-keras", view.release) if view.release else None)


@in_manifests(PACKAGE_CONFLICT, unless=("tf.package-removed", "tf.python-unsupported"))
def resolver_finds_no_versions(view: PlannedEnvironment) -> Iterator[Problem]:
    """What uv or pip refuses, where the matrix does not tell why."""
    answer, first = view.answer, view.tensorflow
    if answer is None or answer.refusal is None or view.refused:
        return
    words = {one.strip("-") for one in re.findall(r"[\w-]+", re.sub(r"[-_.]+", "-", answer.refusal.lower()))}
    named = [one for one in view.environment.requirements if one.name in words]
    lines = sorted(named, key=lambda one: one.name in TENSORFLOW)[:_MOST_LINES] or ([first] if first else [])
    yield Problem(
        title=f"{answer.program} finds no versions that meet all requirements",
        cause=answer.refusal,
        evidence=tuple(Evidence(one.text, str(one.place)) for one in lines)
        or (Evidence(view.environment.label, str(view.environment.place)),),
        fixes=(Fix("Change or leave out one of the versions that it names"),),
    )


_DIFFERENT = {  # title, cause, fix
    "TensorFlow": (
        "Files of this project ask for different TensorFlow releases",
        "which one is installed depends on the file that is used",
        "Write the same release into both files, or name only those that belong together",
    ),
    "Python": (
        "Files of this project name different Python versions",
        "which one is used depends on the tool that makes the environment",
        "Write the same Python into both files",
    ),
    "packages": (
        "The packages that are copied were installed for another Python",
        "a virtual environment and site-packages work with the Python version that made them only",
        "Use the same Python version in both stages",
    ),
}


@in_manifests(PACKAGE_CONFLICT)
def files_differ(view: PlannedEnvironment) -> Iterator[Problem]:
    """Two files, or two stages, that contradict each other."""
    for one in view.differences:
        title, cause, fix = _DIFFERENT[one.about]
        found = Evidence(one.one, str(one.one_place), one.other, str(one.other_place))
        yield Problem(title=title, cause=cause, evidence=(found,), fixes=(Fix(fix),), severity=Severity.WARNING)
