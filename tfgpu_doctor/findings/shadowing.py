"""Another module or folder that Python imports instead of the installed TensorFlow."""

from __future__ import annotations

import posixpath

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.phases import phase_named
from tfgpu_doctor.plan.startup_lines import comment_out
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Message, Package, Phase, ShadowedModule
from tfgpu_doctor.records.report import Fix, Severity

# what every TensorFlow since 1.0 has, so that a module without it is another one
_IN_EVERY_TENSORFLOW = frozenset(
    {
        *("__version__", "constant", "Variable", "keras", "config", "test", "nn", "python", "io", "float32"),
        *("random", "train", "Tensor", "reduce_sum", "data", "function", "device"),
    }
)


def _see_what_is_imported(context: Context) -> tuple[Fix, ...]:
    python, release = context.remedies.python, context.remedies.tensorflow
    uninstall = (context.remedies.pip_uninstall("tensorflow"),)
    text = "Rename your own file or folder; if it is in site-packages, reinstall TensorFlow"
    return (
        Fix(text="See what is imported", commands=(f"{python} -c 'import tensorflow; print(tensorflow)'",)),
        *(
            context.remedies.installing(text, "--force-reinstall", *release, first=uninstall)
            or (Fix(text="Rename your own file or folder"),)
        ),
    )


SHADOWED = finding(
    "tf.shadowed",
    layer="TensorFlow",
    severity=Severity.ERROR,
    title="A local file or folder shadows the tensorflow package",
    cause="Python imports the first `tensorflow` on sys.path; the folder of the program and PYTHONPATH come before the "
    "installed packages",
    fixes=_see_what_is_imported,
    docs="https://docs.python.org/3/library/sys_path_init.html",
)


@SHADOWED.sign(conclusive=False)  # a module that TensorFlow imports can be shadowed as well, which an error tells
def first_on_sys_path(
    context: Context, tensorflow_paths: tuple[str, ...], packages: tuple[Package, ...]
) -> Problem | None:
    """The first `tensorflow` on sys.path is in no folder that pip or conda installs into."""
    if not tensorflow_paths:
        return None
    winner = tensorflow_paths[0]
    path, folders = _slashes(winner), _folders(packages)
    folder = posixpath.dirname(path)
    if (not folders or folder in folders) and not path.endswith("tensorflow.py"):
        return None
    rename = context.remedies.rename(winner, posixpath.join(folder, "my_" + posixpath.basename(path)))
    expected = next(iter(folders), "an installed tensorflow")
    return Problem(
        title=f"{winner} shadows the tensorflow package",
        evidence=(evidence(winner, context.source("python.tensorflow_paths"), expected),),
        fixes=(Fix(text="Rename it, or start Python from another folder", commands=(rename,)),),
    )


def _slashes(path: str) -> str:
    return path.replace("\\", "/")


def _folders(packages: tuple[Package, ...]) -> dict[str, Package]:
    """The TensorFlow of each folder that has one, in the order of sys.path."""
    found: dict[str, Package] = {}
    for package in packages:
        if package.name in TENSORFLOW and package.location and not package.location.startswith("line "):
            found.setdefault(_slashes(package.location), package)
    return found


@SHADOWED.sign(conclusive=False)
def installed_twice(
    context: Context,
    packages: tuple[Package, ...],
    tensorflow_paths: tuple[str, ...] | None = None,
    python_prefix: str | None = None,
    variables: dict[str, str] | None = None,
    user_site: str | None = None,
    phases: tuple[Phase, ...] | None = None,
) -> Problem | None:
    """A TensorFlow outside of the environment comes before the one in it; within it, an order is intended."""
    folders = _folders(packages)
    first = posixpath.dirname(_slashes(tensorflow_paths[0])) if tensorflow_paths else next(iter(folders), "")
    others = {folder: package for folder, package in folders.items() if folder != first}
    if first not in folders or not others:
        return None
    if python_prefix is not None:
        inside = _slashes(python_prefix).rstrip("/") + "/"
        if first.startswith(inside) or not any(folder.startswith(inside) for folder in others):
            return None
    folder, package = next(iter(others.items()))
    used = folders[first]
    phase = phase_named(phases or (), "import")
    return Problem(
        title=f"{used.name} {used.version} in {first} shadows {package.name} {package.version}",
        severity=Severity.WARNING if phase and phase.outcome == "ok" else None,
        cause="two folders on sys.path contain TensorFlow, and Python imports the first; pip changes only one of them",
        evidence=(
            evidence(f"{used.name} {used.version}", first, f"{package.name} {package.version} alone", folder),
            evidence(f"{package.name} {package.version}", folder),
        ),
        fixes=(_off_sys_path(context, first, variables or {}, user_site),),
    )


def _off_sys_path(context: Context, folder: str, variables: dict[str, str], user_site: str | None) -> Fix:
    on_pythonpath = context.remedies.without_folders("PYTHONPATH", variables.get("PYTHONPATH", ""), {folder})
    if on_pythonpath:
        return Fix(text=f"Remove {folder} from PYTHONPATH", commands=(on_pythonpath,))
    if user_site and _slashes(user_site) == folder:
        text = f"Remove {folder}, your user site-packages, from sys.path"
        return Fix(text=text, commands=("export PYTHONNOUSERSITE=1",))
    command = f"{context.remedies.python} -c 'import sys; print(sys.path)'"
    return Fix(text=f"Remove {folder} from sys.path (a .pth file or the program itself adds it)", commands=(command,))


@SHADOWED.sign(conclusive=False)
def needed_module_elsewhere(context: Context, modules_in_the_way: tuple[ShadowedModule, ...]) -> Problem | None:
    """A module that TensorFlow imports is taken from another folder, and the import fails; not through PYTHONPATH."""
    found = [one for one in modules_in_the_way if one.via != "PYTHONPATH"]
    if not found:
        return None
    first = found[0]
    return Problem(
        title=f"{first.path} shadows {first.package} {first.package_version}, which TensorFlow imports",
        cause=f"Python imports the first `{first.module}` on sys.path; that folder comes before the installed packages",
        evidence=tuple(
            evidence(one.path, one.via or "sys.path", f"{one.module} of {one.package} {one.package_version}")
            for one in found
        ),
        fixes=(_out_of_the_way(context, first),),
        rank_first=True,
    )


def _out_of_the_way(context: Context, module: ShadowedModule) -> Fix:
    path = _slashes(module.path)
    folder, name = posixpath.split(path)
    if module.via and module.line:
        command = comment_out(module.via, module.line, posixpath.basename(folder), context.remedies.os)
        return Fix(text=f"Remove {folder} from sys.path: this file adds it", commands=(command,))
    if module.version is None:
        rename = context.remedies.rename(module.path, posixpath.join(folder, "my_" + name))
        return Fix(text="Rename it, or start Python from another folder", commands=(rename,))
    command = f"{context.remedies.python} -c 'import sys; print(sys.path)'"
    return Fix(text=f"Start Python from another folder, or remove {folder} from sys.path", commands=(command,))


@SHADOWED.sign(unless=("tf.abi-*", "tf.package-conflict", "tf.import-dll", "tf.glibc-too-old"))
def shadowing_messages(
    context: Context, messages: MessageLog, tensorflow_paths: tuple[str, ...] | None = None
) -> Problem | None:
    """A file of the user, or an empty folder that an uninstallation has left, is found first."""
    standard = _shadowed_standard_module(messages)
    certain = (*messages.all("shadowed", "own-tensorflow-file"), *standard)
    empty = [m for m in messages.all("no-attribute") if m.values.get("name") in _IN_EVERY_TENSORFLOW]
    if not certain and (not empty or messages.has("native-runtime-failed")):
        return None
    if standard and not messages.has("own-tensorflow-file"):
        return _standard_module(standard[0], context)
    if tensorflow_paths is not None:
        return None  # where Python finds tensorflow has been looked at
    sources = [m for m in certain if "__init__.py" in m.text or "source directory" in m.text]
    return _source_tree(sources) if sources else Problem(evidence=message_evidence(*certain, *empty))


def _shadowed_standard_module(messages: MessageLog) -> tuple[Message, ...]:
    """A file named as a module of the standard library: in the message, or a frame below the import of TensorFlow."""
    if named := tuple(m for m in messages.all("shadowed") if m.values.get("standard")):
        return named
    begins = next((m.line for m in messages.all("import-line")), None)
    own = (m for m in messages.all("traceback") if "standard" in m.values)
    return tuple(m for m in own if begins is not None and m.line > begins)


def _standard_module(message: Message, context: Context) -> Problem:
    name, quote = message.values["standard"], context.remedies.quote
    file = _slashes(message.values["file"])
    folder = posixpath.dirname(file) if posixpath.isabs(file) else ""
    own, renamed, compiled = (posixpath.join(folder, one) for one in (f"{name}.py", f"my_{name}.py", "__pycache__"))
    remove = "del /q" if context.remedies.os == "windows" else "rm -rf"
    copies = f"{remove} {quote(compiled)}/{name}.*.pyc {quote(posixpath.join(folder, name + '.pyc'))}"
    commands = (context.remedies.rename(own, renamed), copies)
    return Problem(
        title=f"A local file {name}.py shadows the standard library's module {name}",
        cause=f"TensorFlow imports {name} of the standard library, and Python finds the file beside the program first",
        evidence=message_evidence(message),
        fixes=(Fix(text="Rename it, and remove its compiled copies", commands=commands),),
    )


def _source_tree(seen: list[Message]) -> Problem:
    return Problem(
        title="TensorFlow's source folder is imported instead of the installed package",
        cause="Python first searches the folder that it is started in, and the sources there have not been built",
        evidence=message_evidence(*seen),
        fixes=(Fix(text="Start Python in another folder", commands=("cd ~", "python -c 'import tensorflow'")),),
    )
