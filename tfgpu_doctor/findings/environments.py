"""Findings about environments."""

from __future__ import annotations

from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.packages import PROVIDERS
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.parsers.messages.catalogue import STOPS_IMPORT
from tfgpu_doctor.records.facts import Kernel, Message, OtherPython, Package, Soname
from tfgpu_doctor.records.report import Evidence, Fix, Severity

GUIDE = "https://ipython.readthedocs.io/en/stable/install/kernel_install.html"


_ACTIVATED = ("VIRTUAL_ENV", "CONDA_PREFIX")


def _other(context: Context, better: list[OtherPython], executable: str | None, saw: str, what: str) -> Problem:
    """The one that runs, and those that have what is looked for; the activated one first."""
    first = better[0]
    seen = [evidence(saw, executable or "this interpreter", f"{first.tensorflow} ({first.via})", first.executable)]
    seen += [evidence(f"{one.tensorflow} ({one.via})", one.executable) for one in better[1:]]
    quote = context.remedies.quote
    name = {"VIRTUAL_ENV": "The activated virtual environment", "CONDA_PREFIX": "The activated conda environment"}
    where = name.get(first.via, f"The {first.via}" if first.via.startswith("kernel") else "The Python of pip on PATH")
    return Problem(
        title=f"{where} has TensorFlow, but another Python runs"
        if what == "it"
        else f"{where} has TensorFlow with CUDA, but another Python runs",
        cause="each interpreter has packages of its own; what was installed for one is not there for another",
        evidence=tuple(seen),
        fixes=(
            Fix(text="Start that one", commands=(quote(first.executable),)),
            Fix(text="Examine it", commands=(f"tfgpu doctor --python {quote(first.executable)}",)),
        ),
    )


def _default_kernel(
    context: Context, elsewhere: tuple[OtherPython, ...], kernels: tuple[Kernel, ...]
) -> Problem | None:
    """All is well here, and a notebook that nobody has chosen a kernel for starts a Python without TensorFlow."""
    kernel = next((one for one in kernels if one.name.lower() == "python3"), None)
    other = next((one for one in elsewhere if one.via == "kernel python3" and one.tensorflow is None), None)
    if kernel is None or other is None:
        return None
    seen: tuple[Evidence, ...] = (
        evidence(f"kernel {kernel.name} ({kernel.display_name}) starts {kernel.executable}", kernel.file),
        evidence("no tensorflow", other.prefix, "the TensorFlow of this interpreter"),
    )
    python = context.remedies.python
    install = f"{python} -m ipykernel install --user --name tensorflow --display-name TensorFlow"
    return Problem(
        title="Jupyter's default kernel starts a Python without TensorFlow",
        cause="a notebook runs the interpreter that its kernel names, whatever environment Jupyter was started from",
        evidence=seen,
        fixes=(
            Fix(
                text="Give this interpreter a kernel of its own, and choose it in the notebook",
                commands=(*context.remedies.pip_install("ipykernel"), install),
            ),
        ),
        severity=Severity.NOTE,
    )


_TOLD = ("derived.told",)


_LONG_PATHS = "HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem"


def _not_here(said: MessageLog) -> list[Message]:
    """No module of that name; R says so of a TensorFlow that is there and cannot be imported, too."""
    seen = [m for m in said.all("module-not-found") if m.values.get("module") == "tensorflow"]
    broken = any(said.has(kind) for kind in STOPS_IMPORT if kind != "module-not-found")
    return [m for m in seen if not (broken and "by" in m.values)]


def _broke_off(said: MessageLog) -> tuple[Message, ...]:
    """Why pip installed nothing, where nothing else fails."""
    kinds = ("install-broke-off", "index-unreachable", "no-space-left", "externally-managed")
    if not said.speaks_only_of(*kinds, "no-distribution", "build-failed") or said.has("gpu-created", "library-opened"):
        return ()
    return said.all("install-broke-off", "index-unreachable")


def _not_finished(context: Context, seen: tuple[Message, ...]) -> Problem:
    words = " ".join(message.text for message in seen)
    fixes = [Fix(text="Then install it again", commands=context.remedies.pip_install("tensorflow"))]
    if "Long Path" in words or "No such file" in words:
        fixes.insert(
            0,
            Fix(
                text="On Windows, allow long paths (as administrator), or use an environment with a short path",
                commands=(f"reg add {_LONG_PATHS} /v LongPathsEnabled /t REG_DWORD /d 1 /f",),
            ),
        )
    return Problem(
        title="The installation of TensorFlow broke off",
        cause="pip installs all of a package or nothing: what it says here is why there is no tensorflow yet",
        evidence=message_evidence(*seen),
        fixes=tuple(fixes),
    )


def _installed_somewhere(said: MessageLog, packages: tuple[Package, ...] | None) -> bool:
    listed = any(p.name.startswith(("tensorflow", "tf-nightly")) for p in packages or ())
    other = [m for m in said.all("other-environment") if "banner" not in m.values]
    return (
        listed or bool(other) or _two_pythons(said) or said.has("tensorflow-installed", "notebook", "started-elsewhere")
    )


def _two_pythons(said: MessageLog) -> bool:
    """Whether interpreters of two versions were started."""
    return len(set(said.values("other-environment", "banner"))) > 1


def _another_version(runs: tuple[Message, ...], packages: tuple[Package, ...]) -> Problem:
    """The list of packages and the running TensorFlow tell different releases."""
    listed = [p for p in packages if p.name in ("tensorflow", "tensorflow-gpu", "tf-nightly")]
    seen = (evidence(f"{p.name} {p.version}", p.location or "the list of packages") for p in listed[:1])
    return _another_python(list(runs), *seen)


def _another_python(said_so: list[Message], *listed: Evidence) -> Problem:
    return Problem(
        cause="pip, conda or the terminal use one Python, the program or the notebook's kernel another",
        evidence=(*message_evidence(*said_so), *listed),
        fixes=(
            Fix(
                text="Compare the interpreters, in the program or notebook and in the terminal",
                commands=(
                    "python -c 'import sys; print(sys.executable)'",
                    "python -m pip -V",
                    "jupyter kernelspec list",
                ),
            ),
            Fix(
                text="Install into the very Python that runs, or make its environment a kernel",
                commands=(
                    "python -m pip install 'tensorflow[and-cuda]'",
                    "python -m pip install ipykernel && python -m ipykernel install --user --name tf",
                ),
            ),
        ),
    )


WRONG_ENV = finding(
    "tf.wrong-env",
    layer="Python",
    severity=Severity.ERROR,
    title="TensorFlow is installed, but in another environment",
    symptoms=(symptoms.NO_TENSORFLOW_MODULE,),
    docs="https://ipython.readthedocs.io/en/stable/install/kernel_install.html",
)


@WRONG_ENV.sign
def wrong_env(
    context: Context,
    packages: tuple[Package, ...],
    python_elsewhere: tuple[OtherPython, ...],
    executable: str | None = None,
    release: Release | None = None,
    cuda_sonames: tuple[Soname, ...] | None = None,
    kernels: tuple[Kernel, ...] | None = None,
) -> Problem | None:
    """This one has no TensorFlow, or one without a GPU, and one that was named by the shell or by Jupyter has."""
    here = [package for package in packages if package.name in PROVIDERS]
    if not here:
        better = [one for one in python_elsewhere if one.tensorflow]
        return _other(context, better, executable, "no tensorflow", "it") if better else None
    no_libraries = bool(in_state(cuda_sonames or (), "absent", "other version"))
    if (release is not None and not release.gpu) or no_libraries:
        better = [one for one in python_elsewhere if one.via in _ACTIVATED and one.tensorflow and one.cuda]
        saw = f"{here[0].name} {here[0].version}, without " + ("its CUDA libraries" if no_libraries else "CUDA")
        return _other(context, better, executable, saw, "one with CUDA") if better else None
    return _default_kernel(context, python_elsewhere, kernels or ())


@WRONG_ENV.sign(unless=("tf.python-unsupported", "tf.package-removed"))
def wrong_env_reported(messages: MessageLog, packages: tuple[Package, ...] | None = None) -> Problem | None:
    """No module named tensorflow, although pip or conda installed it: Jupyter, an IDE or a second Python."""
    if not messages.complains and (elsewhere := [m for m in messages.all("other-environment") if "gpu" in m.values]):
        return _another_python(elsewhere)
    if runs := messages.all("other-version-runs"):
        return _another_version(runs, packages or ())
    seen = _not_here(messages)
    if not seen or not _installed_somewhere(messages, packages):
        return None
    return _another_python([*seen, *messages.all("tensorflow-installed", "notebook", "other-environment")])


NOT_INSTALLED = finding(
    "tf.not-installed",
    layer="TensorFlow",
    severity=Severity.ERROR,
    title="TensorFlow is not installed in this Python",
    explained_by=("tf.wrong-env", "tf.python-unsupported"),
    docs="https://www.tensorflow.org/install/pip",
)


@NOT_INSTALLED.sign
def not_installed(
    context: Context, packages: tuple[Package, ...], tensorflow_paths: tuple[str, ...], executable: str | None = None
) -> Problem | None:
    """No distribution of TensorFlow and nothing to import."""
    if tensorflow_paths or any(p.name in PROVIDERS for p in packages):
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


@NOT_INSTALLED.sign(unless=("tf.python-unsupported", "tf.package-removed", "tf.wrong-env", "tf.shadowed"))
def not_installed_reported(
    context: Context, messages: MessageLog, packages: tuple[Package, ...] | None = None
) -> Problem | None:
    """No module named tensorflow, and nothing says that it was installed; or its installation broke off."""
    seen = _not_here(messages)
    if not seen and (broken := _broke_off(messages)):
        return _not_finished(context, broken)
    if not seen or _installed_somewhere(messages, packages):
        return None
    return Problem(
        cause="the Python that ran has no tensorflow; it may be installed in another one",
        evidence=message_evidence(*seen),
        fixes=(
            *context.remedies.reinstall_best("into this very Python"),
            Fix(
                text="See which Python runs, and what it has",
                commands=("python -c 'import sys; print(sys.executable)'", "python -m pip list | grep -i tensorflow"),
            ),
        ),
    )
