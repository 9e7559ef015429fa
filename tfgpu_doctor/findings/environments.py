"""The Python that runs: it has no TensorFlow, or another environment was meant."""

from __future__ import annotations

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.parsers.messages.catalogue import STOPS_IMPORT
from tfgpu_doctor.records.distributions import TENSORFLOW
from tfgpu_doctor.records.facts import Kernel, Message, OtherPython, Package, Soname
from tfgpu_doctor.records.report import Fix, Severity

_ACTIVATED = {
    "VIRTUAL_ENV": "The activated virtual environment",
    "CONDA_PREFIX": "The activated conda environment",
}


def _compare_interpreters(context: Context) -> tuple[Fix, ...]:
    install = context.remedies.pip_install(*context.remedies.tensorflow, python="python")
    kernel = "python -m pip install ipykernel && python -m ipykernel install --user --name tf"
    here = Fix(text="Install into the Python that runs, or make its environment a kernel", commands=(*install, kernel))
    return (
        Fix(
            text="Compare the interpreters, in the program or notebook and in the terminal",
            commands=(
                "python -c 'import sys; print(sys.executable)'",
                "python -m pip -V",
                "jupyter kernelspec list",
            ),
        ),
        *((here,) if install else ()),
    )


WRONG_ENV = finding(
    "tf.wrong-env",
    layer="Python",
    severity=Severity.ERROR,
    title="TensorFlow is installed, but in another environment",
    cause="each Python has its own packages; pip, conda or the terminal use one Python, and the program or the "
    "notebook's kernel another",
    fixes=_compare_interpreters,
    symptoms=(symptoms.NO_TENSORFLOW_MODULE,),
    docs="https://ipython.readthedocs.io/en/stable/install/kernel_install.html",
)


def _activated_with_cuda(elsewhere: tuple[OtherPython, ...]) -> list[OtherPython]:
    return [other for other in elsewhere if other.via in _ACTIVATED and other.tensorflow and other.cuda]


@WRONG_ENV.sign
def better_environment(
    context: Context,
    packages: tuple[Package, ...],
    python_elsewhere: tuple[OtherPython, ...],
    executable: str | None = None,
    release: Release | None = None,
    cuda_sonames: tuple[Soname, ...] | None = None,
    kernels: tuple[Kernel, ...] | None = None,
) -> Problem | None:
    """This one has no TensorFlow, or one without CUDA, and one that the shell or Jupyter names has."""
    installed = next((package for package in packages if package.name in TENSORFLOW), None)
    if installed is None:
        others = [other for other in python_elsewhere if other.tensorflow]
        return _other_python(context, others, executable, "no tensorflow", "TensorFlow") if others else None
    no_libraries = bool(in_state(cuda_sonames or (), "absent", "other version"))
    if no_libraries or (release is not None and not release.gpu):
        others = _activated_with_cuda(python_elsewhere)
        found = f"{installed.name} {installed.version}, without " + ("its CUDA libraries" if no_libraries else "CUDA")
        return _other_python(context, others, executable, found, "TensorFlow with CUDA") if others else None
    return _default_kernel(context, python_elsewhere, kernels or ())


_START = "{} -c 'import tensorflow; print(tensorflow.__version__)'"  # alone it would open a prompt


def _other_python(
    context: Context, others: list[OtherPython], executable: str | None, found: str, expected: str
) -> Problem:
    """The Python that runs, and those that have what is expected; the activated one first."""
    first, quote = others[0], context.remedies.quote
    seen = [evidence(found, executable or "this interpreter", f"{first.tensorflow} ({first.via})", first.executable)]
    seen += [evidence(f"{other.tensorflow} ({other.via})", other.executable) for other in others[1:]]
    unnamed = f"The {first.via}" if first.via.startswith("kernel") else "The Python of pip on PATH"
    return Problem(
        title=f"{_ACTIVATED.get(first.via, unnamed)} has {expected}, but another Python runs",
        cause="each Python has its own packages; what was installed for one is not available to another",
        evidence=tuple(seen),
        fixes=(
            Fix(
                text="Start your program with the Python that has it",
                commands=(_START.format(quote(first.executable)),),
            ),
            Fix(text="Diagnose that Python", commands=(f"tfgpu doctor --python {quote(first.executable)}",)),
        ),
    )


def _default_kernel(
    context: Context, elsewhere: tuple[OtherPython, ...], kernels: tuple[Kernel, ...]
) -> Problem | None:
    """This Python is fine, and a notebook for which no kernel was chosen starts one without TensorFlow."""
    kernel = next((one for one in kernels if one.name.lower() == "python3"), None)
    other = next((one for one in elsewhere if one.via == "kernel python3" and one.tensorflow is None), None)
    if kernel is None or other is None:
        return None
    register = "-m ipykernel install --user --name tensorflow --display-name TensorFlow"
    return Problem(
        title="Jupyter's default kernel starts a Python without TensorFlow",
        cause="a notebook runs the Python that its kernel names, whatever environment Jupyter was started from",
        evidence=(
            evidence(f"kernel {kernel.name} ({kernel.display_name}) starts {kernel.executable}", kernel.file),
            evidence("no tensorflow", other.prefix, "the TensorFlow of this interpreter"),
        ),
        fixes=context.remedies.installing(
            "Register this Python as a kernel, and select it in the notebook",
            "ipykernel",
            then=(f"{context.remedies.python} {register}",),
        ),
        severity=Severity.NOTE,
    )


@WRONG_ENV.sign(unless=("tf.python-unsupported", "tf.package-removed"))
def installed_elsewhere(messages: MessageLog, packages: tuple[Package, ...] | None = None) -> Problem | None:
    """No module named tensorflow, although it was installed; or another release runs than the installed one."""
    elsewhere = [m for m in messages.all("other-environment") if "gpu" in m.values]
    if elsewhere and not messages.complains:
        return Problem(evidence=message_evidence(*elsewhere))
    if runs := messages.all("other-version-runs"):
        listed = [p for p in packages or () if p.name in ("tensorflow", "tensorflow-gpu", "tf-nightly")]
        installed = (evidence(f"{p.name} {p.version}", p.location or "the list of packages") for p in listed[:1])
        return Problem(evidence=(*message_evidence(*runs), *installed))
    missing = _no_module(messages)
    if not missing or not _is_installed_somewhere(messages, packages):
        return None
    more = messages.all("tensorflow-installed", "notebook", "other-environment")
    return Problem(evidence=message_evidence(*missing, *more))


def _no_module(messages: MessageLog) -> list[Message]:
    """No module named tensorflow; R prints it, too, of a TensorFlow that is installed and cannot be imported."""
    missing = [m for m in messages.all("module-not-found") if m.values.get("module") == "tensorflow"]
    fails = any(messages.has(kind) for kind in STOPS_IMPORT if kind != "module-not-found")
    return [m for m in missing if not (fails and "by" in m.values)]


def _is_installed_somewhere(messages: MessageLog, packages: tuple[Package, ...] | None) -> bool:
    if any(p.name.startswith(("tensorflow", "tf-nightly")) for p in packages or ()):
        return True
    two_pythons = len(set(messages.values("other-environment", "banner"))) > 1
    other = any("banner" not in m.values for m in messages.all("other-environment"))
    return two_pythons or other or messages.has("tensorflow-installed", "notebook", "started-elsewhere")


def _install_here(context: Context) -> tuple[Fix, ...]:
    remedies = context.remedies
    fixes = (
        remedies.for_cpu()
        or remedies.reinstall("this Python has none")
        or remedies.installing("Install it", *remedies.tensorflow)
    )
    if context.probed:
        other = "If it is installed in another Python, diagnose that one"
        return (*fixes, Fix(text=other, commands=("tfgpu doctor --python /path/to/python",)))
    which = "See which Python runs, and which packages it has"
    commands = ("python -c 'import sys; print(sys.executable)'", remedies.filtered("python -m pip list", "tensorflow"))
    return (*fixes, Fix(text=which, commands=commands))


NOT_INSTALLED = finding(
    "tf.not-installed",
    layer="TensorFlow",
    severity=Severity.ERROR,
    title="TensorFlow is not installed in this Python",
    cause="the Python that runs has no package tensorflow; it may be installed in another one",
    fixes=_install_here,
    explained_by=("tf.wrong-env", "tf.python-unsupported"),
    docs="https://www.tensorflow.org/install/pip",
)


@NOT_INSTALLED.sign
def no_package(
    context: Context, packages: tuple[Package, ...], tensorflow_paths: tuple[str, ...], executable: str | None = None
) -> Problem | None:
    """No distribution of TensorFlow and nothing to import."""
    if tensorflow_paths or any(p.name in TENSORFLOW for p in packages):
        return None
    return Problem(
        cause=f"{executable or 'this interpreter'} has no package that contains the module tensorflow",
        evidence=(evidence("no tensorflow", context.source("python.packages"), "a tensorflow distribution"),),
    )


@NOT_INSTALLED.sign(unless=("tf.python-unsupported", "tf.package-removed", "tf.wrong-env", "tf.shadowed"))
def no_module_message(messages: MessageLog, packages: tuple[Package, ...] | None = None) -> Problem | None:
    """No module named tensorflow, and nothing indicates that it was installed."""
    missing = _no_module(messages)
    if not missing or _is_installed_somewhere(messages, packages):
        return None
    return Problem(evidence=message_evidence(*missing))


@NOT_INSTALLED.sign(unless=("tf.python-unsupported", "tf.package-removed", "tf.wrong-env", "tf.shadowed"))
def installation_failed(context: Context, messages: MessageLog) -> Problem | None:
    """pip stopped, and nothing else fails."""
    failures = ("install-broke-off", "index-unreachable", "no-space-left", "externally-managed")
    seen = messages.all("install-broke-off", "index-unreachable")
    if not seen or messages.has("gpu-created", "library-opened"):
        return None
    if not messages.speaks_only_of(*failures, "no-distribution", "build-failed"):
        return None
    fixes = [*context.remedies.installing("Then install it again", *context.remedies.tensorflow)]
    if any(words in message.text for message in seen for words in ("Long Path", "No such file")):
        key = r"HKLM\SYSTEM\CurrentControlSet\Control\FileSystem"
        text = "On Windows, enable long paths (as administrator), or use an environment with a short path"
        fixes.insert(0, Fix(text=text, commands=(f"reg add {key} /v LongPathsEnabled /t REG_DWORD /d 1 /f",)))
    return Problem(
        title="The installation of TensorFlow failed",
        cause="pip installs a package completely or not at all; its message is the reason why there is no tensorflow",
        evidence=message_evidence(*seen),
        fixes=tuple(fixes),
    )
