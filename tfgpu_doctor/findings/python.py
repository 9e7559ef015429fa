"""Rules about the Python environment: which TensorFlow is installed here, if any, and beside what."""

from __future__ import annotations

import posixpath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.message_log import Said
from tfgpu_doctor.matrix.compatibility import capability, numpy_bound
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Package, Phase
from tfgpu_doctor.records.report import Evidence, Fix, Severity

PIP_GUIDE = "https://www.tensorflow.org/install/pip"
SOURCE_TABLE = "https://www.tensorflow.org/install/source"

# Distributions that bring the module `tensorflow`: those of probes/patient.py, which rules may not import and which
# itself may import nothing. A test holds the two together.
PROVIDERS = frozenset(
    {
        *("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-intel", "tensorflow-macos"),
        *("tensorflow-rocm", "tensorflow-aarch64", "tensorflow-cpu-aws", "tensorflow-directml"),
        *("tf-nightly", "tf-nightly-gpu", "tf-nightly-cpu"),
        *("intel-tensorflow", "intel-tensorflow-avx512", "nvidia-tensorflow"),
    }
)
# `tensorflow` on Windows and Apple silicon was an empty wheel that depends on one of these (2.10 to 2.16, wheels)
_HALVES = frozenset({"tensorflow-intel", "tensorflow-macos", "tensorflow-cpu-aws"})
# same minor as TensorFlow until Keras 3 came with 2.16 (Requires-Dist of the wheels)
_COMPANIONS = ("keras", "tensorboard", "tensorflow-estimator", "tf-keras")

OLDEST_PYTHON = (3, 6)  # what patient.py runs on


@rule(
    "tf.not-installed",
    Severity.ERROR,
    "TensorFlow is not installed in this Python",
    needs=("python.packages", "python.tensorflow_paths"),
    wants=("python.executable",),
    explained_by=("tf.wrong-env", "tf.python-unsupported"),
    docs=PIP_GUIDE,
)
def not_installed(
    context: Context, packages: tuple[Package, ...], paths: tuple[str, ...], executable: str | None
) -> Problem | None:
    """No distribution of TensorFlow and nothing to import."""
    if paths or any(p.name in PROVIDERS for p in packages):
        return None
    fixes = context.remedies.reinstall_best("the newest release for this machine") or (
        Fix(text="Install it", commands=context.remedies.pip_install("tensorflow")),
    )
    elsewhere = Fix(
        text="If it is installed elsewhere, name that interpreter", commands=("tfgpu doctor --python /path/to/python",)
    )
    return Problem(
        cause=f"{executable or 'this interpreter'} has no distribution that brings the module tensorflow",
        evidence=(evidence("no tensorflow", context.source("python.packages"), "a tensorflow distribution"),),
        fixes=(*fixes, elsewhere),
    )


@rule(
    "tf.python-unsupported",
    Severity.ERROR,
    "No TensorFlow is published for this Python",
    needs=("python.version",),
    wants=("python.wheel_platform", "python.packages", "python.bits", "derived.told"),
    docs=PIP_GUIDE,
)
def python_unsupported(
    context: Context,
    version: str,
    platform: str | None,
    packages: tuple[Package, ...] | None,
    bits: int | None,
    told: Said | None,
) -> Problem | None:
    """No release has a wheel for this Python, or only releases as old as it; asked only where none is installed."""
    if told is not None or any(p.name in PROVIDERS for p in packages or ()):
        return None  # of a pasted text, what pip says decides
    platform = platform or "linux_x86_64"  # a Python too old to be examined does not tell it
    rows = [row for row in context.matrix.releases(platform=platform, package="tensorflow") if not row.prerelease]
    minor = ".".join(version.split(".")[:2])
    last = next((row.version for row in rows if minor in row.python), None)
    if not rows or (last and bits != 32 and capability(minor) >= OLDEST_PYTHON):
        return None
    newest = rows[0]
    seen = evidence(
        f"Python {version}" + (" (32-bit)" if bits == 32 else ""),
        context.source("python.version"),
        f"64-bit Python {newest.python[0]} to {newest.python[-1]}",
        f"TensorFlow {newest.version} on {platform} (wheels)",
    )
    wanted = newest.python[-1]
    fixes = context.remedies.reinstall_best("it has wheels for that Python") or (
        Fix(
            text=f"Make an environment with Python {wanted}, and install TensorFlow there",
            commands=context.remedies.new_environment(wanted, "tensorflow"),
        ),
    )
    ended = f"TensorFlow for Python {minor} ended with {last}"
    return Problem(
        title=ended if last and bits != 32 else f"No TensorFlow is published for Python {minor}",
        cause='pip says "Could not find a version that satisfies the requirement tensorflow (from versions: none)"',
        evidence=(seen,),
        fixes=fixes,
    )


@rule(
    "tf.package-removed",
    Severity.ERROR,
    "The package tensorflow-gpu is dead",
    needs=("python.packages",),
    docs=PIP_GUIDE,
)
def package_removed(context: Context, packages: tuple[Package, ...]) -> Problem | None:
    """tensorflow-gpu 2.12 is an empty package whose only job is to fail."""
    dead = next((p for p in packages if p.name == "tensorflow-gpu" and _version(p.version) >= Version("2.12")), None)
    if dead is None:
        return None
    return Problem(
        cause="since 2.12 it is an empty package; tensorflow itself has held the GPU support since 2.0",
        evidence=(evidence(f"tensorflow-gpu {dead.version}", dead.location or "installed packages", "tensorflow"),),
        fixes=(
            Fix(
                text="Replace it",
                commands=(
                    context.remedies.pip_uninstall("tensorflow-gpu"),
                    *context.remedies.pip_install("tensorflow[and-cuda]"),
                ),
            ),
        ),
    )


@rule(
    "tf.shadowed",
    Severity.ERROR,
    "Something of your own hides the package tensorflow",
    needs=("python.tensorflow_paths", "python.packages"),
    docs="https://docs.python.org/3/library/sys_path_init.html",
)
def shadowed(context: Context, paths: tuple[str, ...], packages: tuple[Package, ...]) -> Problem | None:
    """The first `tensorflow` on sys.path lies in no folder that pip or conda installs into."""
    if not paths:
        return None
    homes = {p.location for p in packages if p.name in PROVIDERS and p.location}
    winner = paths[0]
    folder = posixpath.dirname(winner.replace("\\", "/"))
    installed = not homes or folder in {home.replace("\\", "/") for home in homes}
    if installed and not winner.endswith("tensorflow.py"):
        return None
    new = posixpath.join(folder, "my_" + posixpath.basename(winner.replace("\\", "/")))
    quote = context.remedies.quote
    return Problem(
        title=f"{winner} hides the package tensorflow",
        cause="Python imports the first `tensorflow` on sys.path, and the current folder and PYTHONPATH come first",
        evidence=(
            evidence(winner, context.source("python.tensorflow_paths"), next(iter(homes), "an installed tensorflow")),
        ),
        fixes=(
            Fix(text="Rename it, or start Python from another folder", commands=(f"mv {quote(winner)} {quote(new)}",)),
        ),
    )


@rule(
    "tf.package-conflict",
    Severity.ERROR,
    "Packages of different TensorFlow releases are mixed in this environment",
    needs=("python.packages",),
    wants=("derived.release", "derived.told"),
    requires=("tf.package-removed",),
    docs=PIP_GUIDE,
)
def package_conflict(
    context: Context, packages: tuple[Package, ...], release: Release | None, told: Said | None
) -> Problem | None:
    """Two distributions write into the same folder `tensorflow`, or keras/tensorboard belong to another release."""
    # conda's tensorflow-gpu holds nothing but a dependency on its tensorflow
    providers = [p for p in packages if p.name in PROVIDERS and p.name not in _HALVES]
    providers = [p for p in providers if p.installer != "conda"] or providers[:1]
    seen: list[Evidence] = []
    if len(providers) > 1:
        seen += [
            evidence(f"{p.name} {p.version}", p.location or "installed packages", "one of them") for p in providers
        ]
    else:
        # a release that another environment's Python told is no measure of these packages
        seen += [] if told and told.has("other-version-runs") else _strangers(packages, release)
    if not seen:
        return None
    twice = len(providers) > 1
    keep = next((p for p in providers if p.name == "tensorflow"), providers[0]) if providers else None
    wanted = f"{keep.name}=={keep.version}" if keep else "tensorflow"
    if release and release.extra and keep and keep.name == "tensorflow":
        wanted = f"tensorflow[{release.extra}]=={keep.version}"
    gone = [p.name for p in providers] if twice else [e.saw.split()[0] for e in seen]
    return Problem(
        cause="they install into the same folder, and the last one installed overwrote the others"
        if twice
        else "it belongs to another TensorFlow release than the one that is installed",
        evidence=tuple(seen),
        fixes=(
            Fix(
                text="Remove them, and install one release with what belongs to it",
                commands=(context.remedies.pip_uninstall(*gone), *context.remedies.pip_install(wanted)),
            ),
        ),
    )


def _strangers(packages: tuple[Package, ...], release: Release | None) -> list[Evidence]:
    """Companions whose version the TensorFlow release beside them does not allow."""
    found = []
    asked = _asked_for(packages)
    for package in packages:
        if release is None or package.name not in _COMPANIONS:
            continue
        need = _keras_for(release) if package.name == "keras" else _same_minor(package.name, release.version)
        need = asked.get(package.name, need)  # 2.4 asks for tensorboard ~=2.4, which is anything below 3
        if need and not allows(need, package.version):
            found.append(
                evidence(
                    f"{package.name} {package.version}",
                    package.location or "installed packages",
                    f"{package.name} {need}",
                    f"TensorFlow {release.version} (wheel)",
                )
            )
    return found


def _keras_for(release: Release) -> str | None:
    """2.6 put no upper bound on Keras, and cannot be imported with a newer one (keras 2.7 asks for what 2.7 has)."""
    return "~=2.6.0" if release.keras and release.version.startswith("2.6.") else release.keras


def _asked_for(packages: tuple[Package, ...]) -> dict[str, str]:
    """What the metadata of the installed TensorFlow asks of its companions; extras apart."""
    found: dict[str, str] = {}
    for line in next((package.requires for package in packages if package.name in PROVIDERS and package.requires), ()):
        try:
            wanted = Requirement(line.replace("(", "").replace(")", "") if "extra" not in line else "none")
        except InvalidRequirement:
            continue
        found[wanted.name.lower().replace("_", "-")] = str(wanted.specifier)
    return found


def _same_minor(name: str, tensorflow: str) -> str | None:
    version = _version(tensorflow)
    if name == "tensorflow-estimator" and not Version("1.13") <= version < Version("2.16"):
        return None
    if name == "tensorboard" and version >= Version("2.21"):
        return None  # 2.21 no longer requires it
    if name == "tf-keras" and version < Version("2.16"):
        return None
    return f"~={version.major}.{version.minor}.0"


def allows(specifier: str, version: str) -> bool:
    """Whether `version` satisfies a requirement's specifier; true where either cannot be parsed."""
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


@rule(
    "tf.abi-numpy",
    Severity.ERROR,
    "The installed NumPy does not fit this TensorFlow",
    needs=("derived.release", "python.packages"),
    wants=("tensorflow.phases",),
    docs="https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
)
def abi_numpy(
    context: Context, release: Release, packages: tuple[Package, ...], phases: tuple[Phase, ...] | None
) -> Problem | None:
    """NumPy 2 under a TensorFlow that was compiled for NumPy 1."""
    return _abi(context, release, packages, phases, "numpy", numpy_bound(release))


@rule(
    "tf.abi-protobuf",
    Severity.ERROR,
    "The installed protobuf does not fit this TensorFlow",
    needs=("derived.release", "python.packages"),
    wants=("tensorflow.phases",),
    docs="https://protobuf.dev/support/cross-version-runtime-guarantee/",
)
def abi_protobuf(
    context: Context, release: Release, packages: tuple[Package, ...], phases: tuple[Phase, ...] | None
) -> Problem | None:
    """A protobuf whose major the generated code of this TensorFlow does not know."""
    return _abi(context, release, packages, phases, "protobuf", release.protobuf)


def _abi(
    context: Context,
    release: Release,
    packages: tuple[Package, ...],
    phases: tuple[Phase, ...] | None,
    name: str,
    need: str | None,
) -> Problem | None:
    """Outside the wheel's bounds is an error when the import failed or the major differs from all that are allowed."""
    package = next((p for p in packages if p.name == name), None)
    if package is None or need is None or allows(need, package.version):
        return None
    failed = next((p for p in phases or () if p.name == "import" and p.outcome in ("raised", "died")), None)
    imported = any(p.name == "import" and p.outcome == "ok" for p in phases or ())
    # conda's builds have bounds of their own, which its solver keeps
    of_conda = package.installer == "conda" and any(p.name == "tensorflow" and p.installer == "conda" for p in packages)
    if imported or (of_conda and not failed):
        return None
    seen = evidence(
        f"{name} {package.version}",
        package.location or "installed packages",
        f"{name} {need}",
        f"TensorFlow {release.version} (wheel)",
    )
    more = (evidence(failed.exception, "import tensorflow"),) if failed and failed.exception else ()
    return Problem(
        cause=f"TensorFlow {release.version} was compiled for another {name}",
        evidence=(seen, *more),
        fixes=(
            Fix(text=f"Install a {name} that fits", commands=context.remedies.pip_install(f"{name}{need}")),
            *context.remedies.reinstall_best(f"or a release that fits {name} {package.version}")[:1],
        ),
    )
