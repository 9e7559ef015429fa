"""Findings about shadowing."""

from __future__ import annotations

import posixpath

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.packages import PROVIDERS
from tfgpu_doctor.records.facts import Message, Package
from tfgpu_doctor.records.report import Fix, Severity

_TOLD = ("derived.told",)


def _source_tree(seen: list[Message]) -> Problem:
    return Problem(
        title="TensorFlow's source folder is imported instead of the installed package",
        cause="Python looks into the folder it is started in first, and the sources there are not built in place",
        evidence=message_evidence(*seen),
        fixes=(Fix(text="Start Python in another folder", commands=("cd ~", "python -c 'import tensorflow'")),),
    )


def _standard_module(said: MessageLog) -> tuple[Message, ...]:
    """A file named as a module of Python's own, which TensorFlow imports in turn: it stands below that import."""
    begins = next((m.line for m in said.all("import-line")), None)
    own = (m for m in said.all("traceback") if "standard" in m.values)
    return tuple(m for m in own if begins is not None and m.line > begins)


def _standard_hidden(message: Message) -> Problem:
    name = message.values["standard"]
    return Problem(
        title=f"A file {name}.py of yours hides Python's module {name}",
        cause=f"TensorFlow imports {name} of the standard library, and Python finds the file beside the program first",
        evidence=message_evidence(message),
        fixes=(
            Fix(
                text="Rename it, and remove what Python compiled of it",
                commands=(f"mv {name}.py my_{name}.py", f"rm -rf __pycache__/{name}.*.pyc {name}.pyc"),
            ),
        ),
    )


# what every TensorFlow since 1.0 has, so that a module without it is another one
_ALWAYS_THERE = {
    "__version__",
    "constant",
    "Variable",
    "keras",
    "config",
    "test",
    "nn",
    "python",
    "io",
    "float32",
    "random",
    "train",
    "Tensor",
    "reduce_sum",
    "data",
    "function",
    "device",
}


SHADOWED = finding(
    "tf.shadowed",
    layer="TensorFlow",
    severity=Severity.ERROR,
    title="Something of your own hides the package tensorflow",
    docs="https://docs.python.org/3/library/sys_path_init.html",
)


@SHADOWED.sign
def shadowed(context: Context, tensorflow_paths: tuple[str, ...], packages: tuple[Package, ...]) -> Problem | None:
    """The first `tensorflow` on sys.path lies in no folder that pip or conda installs into."""
    if not tensorflow_paths:
        return None
    homes = {p.location for p in packages if p.name in PROVIDERS and p.location}
    winner = tensorflow_paths[0]
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


@SHADOWED.sign(unless=("tf.abi-*", "tf.package-conflict", "tf.import-dll", "tf.glibc-too-old"))
def shadowed_reported(context: Context, messages: MessageLog) -> Problem | None:
    """A file of the user's, or an empty folder that an uninstall left, is found first."""
    certain = (*messages.all("shadowed", "own-tensorflow-file"), *_standard_module(messages))
    empty = [m for m in messages.all("no-attribute") if m.values.get("name") in _ALWAYS_THERE]
    if not (certain or empty):
        return None
    if not certain and messages.has("native-runtime-failed"):
        return None
    where = f"{context.remedies.python} -c 'import tensorflow; print(tensorflow)'"
    standard = _standard_module(messages)
    if standard and not messages.has("own-tensorflow-file"):
        return _standard_hidden(standard[0])
    tree = [m for m in certain if "__init__.py" in m.text or "source directory" in m.text]
    if tree:
        return _source_tree(tree)
    return Problem(
        cause="a file tensorflow.py or a folder tensorflow beside the program, or what a broken installation left, is "
        "found before the package",
        evidence=message_evidence(*certain, *empty),
        fixes=(
            Fix(text="See what is imported", commands=(where,)),
            Fix(
                text="Rename your own file or folder; if it lies in site-packages, install TensorFlow anew",
                commands=(
                    context.remedies.pip_uninstall("tensorflow"),
                    *context.remedies.pip_install("--force-reinstall", "tensorflow[and-cuda]"),
                ),
            ),
        ),
    )
