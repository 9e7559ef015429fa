"""The rule over words that show another module under a name that TensorFlow, or Python itself, has."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.report import Fix, Severity

_TOLD = ("derived.told",)


@rule(
    "tf.shadowed",
    Severity.ERROR,
    "Something else is imported under the name tensorflow",
    needs=_TOLD,
    requires=("tf.abi-*", "tf.package-conflict", "tf.import-dll", "tf.glibc-too-old"),
    docs="https://docs.python.org/3/tutorial/modules.html#the-module-search-path",
)
def shadowed(context: Context, said: Said) -> Problem | None:
    """A file of the user's, or an empty folder that an uninstall left, is found first."""
    certain = (*said.all("shadowed", "own-tensorflow-file"), *_standard_module(said))
    empty = [m for m in said.all("no-attribute") if m.values.get("name") in _ALWAYS_THERE]
    if not (certain or empty):
        return None
    if not certain and said.has("native-runtime-failed"):
        return None
    where = f"{context.remedies.python} -c 'import tensorflow; print(tensorflow)'"
    standard = _standard_module(said)
    if standard and not said.has("own-tensorflow-file"):
        return _standard_hidden(standard[0])
    tree = [m for m in certain if "__init__.py" in m.text or "source directory" in m.text]
    if tree:
        return _source_tree(tree)
    return Problem(
        cause="a file tensorflow.py or a folder tensorflow beside the program, or what a broken installation left, is "
        "found before the package",
        evidence=heard(*certain, *empty),
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


def _source_tree(seen: list[Message]) -> Problem:
    return Problem(
        title="TensorFlow's source folder is imported instead of the installed package",
        cause="Python looks into the folder it is started in first, and the sources there are not built in place",
        evidence=heard(*seen),
        fixes=(Fix(text="Start Python in another folder", commands=("cd ~", "python -c 'import tensorflow'")),),
    )


def _standard_module(said: Said) -> tuple[Message, ...]:
    """A file named as a module of Python's own, which TensorFlow imports in turn: it stands below that import."""
    begins = next((m.line for m in said.all("import-line")), None)
    own = (m for m in said.all("traceback") if "standard" in m.values)
    return tuple(m for m in own if begins is not None and m.line > begins)


def _standard_hidden(message: Message) -> Problem:
    name = message.values["standard"]
    return Problem(
        title=f"A file {name}.py of yours hides Python's module {name}",
        cause=f"TensorFlow imports {name} of the standard library, and Python finds the file beside the program first",
        evidence=heard(message),
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
