"""Findings about dependencies."""

from __future__ import annotations

import re

from packaging.version import Version

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.packages import _HALVES, PROVIDERS, _abi, _strangers
from tfgpu_doctor.matrix.compatibility import numpy_bound
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Message, Package, Phase
from tfgpu_doctor.records.report import Evidence, Fix, Severity

_TOLD = ("derived.told",)


_TENSORFLOW = re.compile(r"(?:tensorflow(?:-gpu|-cpu|-intel|-macos)?|tf-nightly)$")


def _of_numpy_1_20(message: Message, release: Release | None) -> bool:
    """Whether NumPy is to blame: recurrent layers of a TensorFlow before 2.6 call np.prod on a symbolic shape."""
    if release and Version(release.version) >= Version("2.6"):
        return False
    return release is not None or re.search(r"lstm|gru|rnn|bidirectional", message.values["tensor"], re.I) is not None


def _too_new_for_2_5(context: Context, said: MessageLog) -> Problem:
    return Problem(
        title="NumPy 1.20 or newer under a TensorFlow before 2.6",
        cause="from NumPy 1.20 on np.prod turns a symbolic tensor into an array, which TensorFlow before 2.6 refuses",
        evidence=message_evidence(*said.all("symbolic-to-numpy"), need="numpy<1.20, or TensorFlow 2.6"),
        fixes=(
            Fix(
                text="Install a NumPy that fits, and start Python anew",
                commands=context.remedies.pip_install("numpy<1.20"),
            ),
            *context.remedies.reinstall_best("or a release that fits a newer NumPy")[:1],
        ),
    )


def _of_another_major(said: MessageLog, name: str) -> tuple[Message, ...]:
    """pip's warning that TensorFlow's own requirement is not met, by a whole major version."""
    found = []
    for message in said.all("requirement-conflict"):
        values = message.values
        below = re.search(r"<=?(\d+)", values.get("need", ""))
        has = re.match(r"\d+", values.get("has", ""))
        if _TENSORFLOW.match(values.get("package", "")) and values.get("other") == name and below and has:
            found += [message] if int(has[0]) > int(below[1]) or (has[0] == below[1] and "<=" not in below[0]) else []
    return tuple(found)


def _unsolved(said: MessageLog) -> list[Message]:
    """An installer that found no set of versions, of which TensorFlow is one; `__cuda` is the machine's, not theirs."""
    if not said.has("tensorflow-installed") or said.has("no-distribution", "requires-python", "wheel-not-supported"):
        return []
    return [m for m in said.all("conda-unsatisfiable") if "__cuda" not in m.text]


def _no_set_of_versions(context: Context, seen: list[Message]) -> Problem:
    return Problem(
        title="No set of versions satisfies what is asked for beside TensorFlow",
        severity=Severity.WARNING,
        cause="some of the packages, or this Python, exclude each other's versions",
        evidence=message_evidence(*seen),
        fixes=(
            *context.remedies.reinstall_best("alone, in an environment of its own")[:1],
            Fix(text="Then add the others one by one, without fixed versions: the first that fails is the one"),
        ),
    )


def _keras_apart(said: MessageLog) -> tuple[Message, ...]:
    """A Keras that asks for what the TensorFlow beside it does not have yet, or no longer."""
    mixed = tuple(m for m in said.all("keras-mismatch") if not _generation(m))
    absent = any(m.values.get("module") == "tensorflow" for m in said.all("module-not-found"))
    return mixed if absent else (*mixed, *said.all("keras-needs-tensorflow"))


def _lacks(said: MessageLog) -> list[Message]:
    """Names of TensorFlow 1 that an old Keras misses in TensorFlow 2; `compat`, that a newer estimator misses in 1."""
    old_keras = bool(said.values("traceback", "through"))
    frames = [m.line for m in said.all("traceback") if "neighbour" in m.values]
    return [
        m
        for m in said.all("no-attribute")
        if m.values.get("name") == "compat"
        or (old_keras and m.values.get("name") in _OF_1)
        or any(0 < m.line - frame <= _NEAR for frame in frames)
    ]


_NEAR = 14  # lines from the last frame to the exception, as IPython shows them


# of those that Keras before 2.3 asks for, what TensorFlow 2 does not have
_OF_1 = frozenset(
    {
        *("get_default_graph", "placeholder", "Session", "ConfigProto", "global_variables_initializer", "log"),
        *("get_default_session", "placeholder_with_default", "is_variable_initialized", "variables_initializer"),
        *("reset_default_graph", "assign", "assign_add", "matrix_inverse", "sparse_tensor_to_dense", "to_float"),
    }
)


def _only_warns(message: Message) -> bool:
    """Whether an extra of TensorFlow says that some of its operations are not there."""
    return message.values.get("addon") == "tensorflow_io" and "caused by" in message.text


# what TensorFlow itself, not somebody's code, asks of the Keras beside it
_LOADED_BY_TENSORFLOW = re.compile(
    r"keras\.(?:api\._v2|_tf_keras)(?:$|\.)|(?:_tf_keras|populate_dict_with_module_objects|__version__)$"
)


def _generation(message: Message) -> bool:
    """Whether code for one Keras meets another: it asks Keras for a module or name that moved."""
    values = message.values
    if any(_LOADED_BY_TENSORFLOW.match(value) for value in values.values()):
        return False
    asked = values.get("missing") or values.get("where") or values.get("module") or ""
    return asked.startswith(("keras", "tensorflow.keras"))


def _conflicts(said: MessageLog) -> list[Message]:
    """pip's warning about companions of TensorFlow that are of another release."""
    companions = re.compile(r"^(?:keras|tensorboard|tensorflow[\w-]*|tf[-_]keras)$")
    return [
        message
        for message in said.all("requirement-conflict")
        if companions.match(message.values.get("other", "")) and companions.match(message.values.get("package", ""))
    ]


PACKAGE_CONFLICT = finding(
    "tf.package-conflict",
    layer="Python",
    severity=Severity.ERROR,
    title="Packages of different TensorFlow releases are mixed in this environment",
    pointless_after=("tf.package-removed",),
    symptoms=(symptoms.NO_ATTRIBUTE,),
    docs="https://www.tensorflow.org/install/pip",
)


@PACKAGE_CONFLICT.sign
def package_conflict(
    context: Context, packages: tuple[Package, ...], release: Release | None = None, messages: MessageLog | None = None
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
        seen += [] if messages and messages.has("other-version-runs") else _strangers(packages, release)
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


@PACKAGE_CONFLICT.sign(unless=("tf.abi-numpy", "tf.abi-protobuf"))
def package_conflict_reported(context: Context, messages: MessageLog) -> Problem | None:
    """A module of TensorFlow or Keras lacks what its neighbour expects, or two TensorFlows are listed."""
    kinds = ("estimator-mismatch", "tf-internals-missing", "two-tensorflows", "addon-mismatch", "small-dependency")
    seen = (*_keras_apart(messages), *messages.all(*kinds), *_conflicts(messages), *_lacks(messages))
    if not seen and (unsolved := _unsolved(messages)):
        return _no_set_of_versions(context, unsolved)
    if not seen:
        return None
    return Problem(
        severity=Severity.WARNING if all(_only_warns(m) for m in seen) else None,
        cause="keras, tensorboard, tensorflow-estimator and TensorFlow come from different releases, or two "
        "TensorFlows "
        "wrote into one folder",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="Remove them all, and install one release with what belongs to it (an environment of "
                "its own is quickest)",
                commands=(
                    context.remedies.pip_uninstall(
                        "tensorflow",
                        "tensorflow-gpu",
                        "tensorflow-cpu",
                        "keras",
                        "tensorboard",
                        "tensorflow-estimator",
                        "tf-keras",
                    ),
                    *context.remedies.pip_install("tensorflow[and-cuda]"),
                ),
            ),
        ),
    )


ABI_NUMPY = finding(
    "tf.abi-numpy",
    layer="Python",
    severity=Severity.ERROR,
    title="The installed NumPy does not fit this TensorFlow",
    docs="https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
)


@ABI_NUMPY.sign(conclusive=False)
def abi_numpy(
    context: Context, release: Release, packages: tuple[Package, ...], phases: tuple[Phase, ...] | None = None
) -> Problem | None:
    """NumPy 2 under a TensorFlow that was compiled for NumPy 1."""
    return _abi(context, release, packages, phases, "numpy", numpy_bound(release))


@ABI_NUMPY.sign
def abi_numpy_reported(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """NumPy refuses a module that was compiled for another NumPy, or takes a symbolic tensor for an array."""
    symbolic = [m for m in messages.all("symbolic-to-numpy") if _of_numpy_1_20(m, release)]
    seen = (*messages.all("numpy-abi"), *_of_another_major(messages, "numpy"))
    if not seen:
        return _too_new_for_2_5(context, messages) if symbolic else None
    bound = (numpy_bound(release) if release else None) or "<2"
    has = next(iter(messages.values("numpy-abi", "numpy")), None)
    return Problem(
        title=f"NumPy {has} does not fit this TensorFlow" if has else None,
        cause="TensorFlow before 2.18 was compiled for NumPy 1; its modules cannot run with another",
        evidence=message_evidence(*seen, need=f"numpy{bound}"),
        fixes=(
            Fix(
                text="Install a NumPy that fits, and start Python anew",
                commands=context.remedies.pip_install(f"numpy{bound}"),
            ),
            *context.remedies.reinstall_best("or a release that fits NumPy 2")[:1],
        ),
    )


ABI_PROTOBUF = finding(
    "tf.abi-protobuf",
    layer="Python",
    severity=Severity.ERROR,
    title="The installed protobuf does not fit this TensorFlow",
    docs="https://protobuf.dev/support/cross-version-runtime-guarantee/",
)


@ABI_PROTOBUF.sign(conclusive=False)
def abi_protobuf(
    context: Context, release: Release, packages: tuple[Package, ...], phases: tuple[Phase, ...] | None = None
) -> Problem | None:
    """A protobuf whose major the generated code of this TensorFlow does not know."""
    return _abi(context, release, packages, phases, "protobuf", release.protobuf)


@ABI_PROTOBUF.sign
def abi_protobuf_reported(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """protobuf refuses generated code of another age."""
    seen = (*messages.all("protobuf-abi"), *_of_another_major(messages, "protobuf"))
    if not seen:
        return None
    bound = (release.protobuf if release else None) or "<3.21"
    return Problem(
        cause="TensorFlow's messages were generated by a protobuf of another age than the one that is installed",
        evidence=message_evidence(*seen, need=f"protobuf{bound}"),
        fixes=(
            Fix(text="Install a protobuf that fits", commands=context.remedies.pip_install(f"protobuf{bound}")),
            *context.remedies.reinstall_best("or a release that fits the newer protobuf")[:1],
        ),
    )


ABI_KERAS = finding(
    "tf.abi-keras",
    layer="Python",
    severity=Severity.ERROR,
    title="Keras 2 and Keras 3 are mixed",
    pointless_after=("tf.package-conflict",),
    docs="https://keras.io/getting_started/#tensorflow--keras-2-backwards-compatibility",
)


@ABI_KERAS.sign
def abi_keras(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """A library wants Keras 2 and gets Keras 3, which comes with TensorFlow from 2.16 on, or the other way round."""
    seen = (*messages.all("keras-generation"), *(m for m in messages.all("keras-mismatch") if _generation(m)))
    if not seen:
        return None
    version = release.version if release else "2.16"
    return Problem(
        cause="TensorFlow brings Keras 3 from 2.16 on; code and models written for Keras 2 need the package tf-keras",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="Install Keras 2 beside it, of the same minor version as TensorFlow, and let tf.keras be it",
                commands=(
                    *context.remedies.pip_install(f"tf-keras~={'.'.join(version.split('.')[:2])}.0"),
                    "export TF_USE_LEGACY_KERAS=1",
                ),
            ),
            Fix(
                text="Or stay with the last release that brings Keras 2",
                commands=context.remedies.pip_install("tensorflow[and-cuda]==2.15.1"),
            ),
        ),
    )
