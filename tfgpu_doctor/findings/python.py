"""The interpreter, its environment, the packages that give TensorFlow, and what stands in their way."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace

from packaging.utils import canonicalize_name
from packaging.version import Version

from tfgpu_doctor.facts.distributions import ANY, TENSORFLOW
from tfgpu_doctor.facts.facts import Kernel, Known, Message, OtherPython, Packages, Phases, ShadowedModule, value_or
from tfgpu_doctor.facts.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.facts.versions import at_least, capability, major, minor
from tfgpu_doctor.findings import declaration, symptoms
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import Sonames, Variables
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.library_fixes import IN_COMPAT, jetpack, with_metal
from tfgpu_doctor.findings.requirements import (
    newest_minor,
    offered,
    python_offered_to,
    read_requirement,
    requested,
)
from tfgpu_doctor.matrix.compatibility import taking_later_cudnn
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.parsers.messages import STOPS_IMPORT
from tfgpu_doctor.parsers.text_to_facts import FIND_MODULE

_ACTIVATED = ("VIRTUAL_ENV", "CONDA_PREFIX")


def _executable(context: Context) -> str:
    return f"{context.remedies.python} -c {context.remedies.quote('import sys; print(sys.executable)')}"


_IDE = re.compile(r"spyder|pycharm|vs ?code\b(?!.{0,200}\b(?:notebook|kernel|jupyter))", re.IGNORECASE)
_INTERPRETERS = (
    "Choose that path as the interpreter: Spyder, Preferences, Python interpreter (it says which spyder-kernels to "
    "install there); PyCharm, Settings, Project; VS Code, Python: Select Interpreter"
)


def _with_the_other_python(context: Context) -> tuple[Fix, ...]:
    """Use the Python that has TensorFlow, as a kernel of a notebook; or install it for the one that runs."""
    remedies = context.remedies
    if context.log.has("windows-notebook") and remedies.os == "wsl2":
        own = (f"{remedies.python} -m pip install notebook", f"{remedies.python} -m notebook --no-browser")
        return (Fix("An .exe is the Jupyter of Windows, with its Python: start that of WSL2", own),)
    if context.probed or context.log.has("notebook"):
        finds = f"{remedies.python} -c {remedies.quote('import sys, tensorflow; print(sys.executable)')}"
        text = "Find the Python that imports TensorFlow: the first command prints its path there, and fails elsewhere. "
        if any(map(_IDE.search, (one.text for one in context.log.all("notebook")))):
            return (Fix(text + _INTERPRETERS, (finds,)),)
        text += "With that one, register it as a kernel, and choose the kernel in the notebook"
        python = remedies.python
        kernel = f"{python} -m pip install ipykernel", f"{python} -m ipykernel install --user --name tf"
        return (Fix(text, (finds, *kernel)),)
    text = "Start the program with the Python that imports TensorFlow (in an IDE, choose it as the interpreter; R: "
    text += "reticulate::use_python){}; the first command prints the path of the one that runs"
    there, names = value_or(context.facts.tensorflow.version, None), remedies.tensorflow
    # else no wheel of it is for this Python
    is_same = there is None or any(f"=={minor(there)}" in one for one in names)
    install = remedies.pip_install(*names) if is_same else ()
    other = ", or install TensorFlow for the one that runs" if install else ""
    return (Fix(text.format(other), (_executable(context), *install)),)


WRONG_ENV = finding(
    "tf.wrong-env",
    layer="Python",
    title="TensorFlow is installed, but in another environment",
    cause="each Python has its own packages; pip, conda or the terminal use one Python, and the program or the "
    "notebook's kernel another",
    fixes=_with_the_other_python,
    symptoms=(symptoms.NO_TENSORFLOW_MODULE,),
    docs="https://ipython.readthedocs.io/en/stable/install/kernel_install.html",
)


@WRONG_ENV.sign()
def better_environment(
    context: Context,
    packages: Packages,
    python_elsewhere: tuple[OtherPython, ...],
    executable: str | None = None,
    release: Release | None = None,
    cuda_sonames: Sonames = (),
    kernels: tuple[Kernel, ...] = (),
) -> Problem | None:
    """This one has no TensorFlow, or one without CUDA, and one that the shell or Jupyter names has."""
    installed = next((package for package in packages if package.name in TENSORFLOW), None)
    others = [other for other in python_elsewhere if other.tensorflow]
    found, expected = "no tensorflow", "TensorFlow"
    if installed:
        no_libraries = bool(in_state(cuda_sonames, "absent", "other version"))
        if not no_libraries and (release is None or release.gpu):
            return _default_kernel(context, python_elsewhere, kernels)
        others = [one for one in others if one.via in _ACTIVATED and one.cuda]
        found = f"{installed.name} {installed.version}, without {'its CUDA libraries' if no_libraries else 'CUDA'}"
        expected = "TensorFlow with CUDA"
    return _other_python(context, others, expected, found, executable or "this interpreter") if others else None


def _other_python(context: Context, others: list[OtherPython], expected: str, found: str, runs: str) -> Problem:
    first = others[0]
    python = context.remedies.quote(first.executable)
    start = f"{python} -c 'import tensorflow; print(tensorflow.__version__)'"  # alone it would open a prompt
    which = "The activated environment" if first.via in _ACTIVATED else f"The Python of {first.via}"
    return Problem(
        title=f"{which} has {expected}, but another Python runs",
        evidence=(evidence(found, runs, f"{first.tensorflow} ({first.via})", first.executable),),
        fixes=(
            Fix("Start your program with the Python that has it", (start,)),
            Fix("Diagnose that Python", (f"tfgpu doctor --python {python}",)),
        ),
    )


def _default_kernel(context: Context, others: tuple[OtherPython, ...], kernels: tuple[Kernel, ...]) -> Problem | None:
    """This Python is fine, and a notebook for which no kernel was chosen starts one without TensorFlow."""
    kernel = next((one for one in kernels if one.name.lower() == "python3"), None)
    if kernel is None or not any(one.via == "kernel python3" and one.tensorflow is None for one in others):
        return None
    register = f"{context.remedies.python} -m ipykernel install --user --name tensorflow --display-name TensorFlow"
    text = "Register this Python as a kernel, and select it in the notebook"
    starts = f"kernel {kernel.name} ({kernel.display_name}) starts {kernel.executable}, which has no tensorflow"
    return Problem(
        title="Jupyter's default kernel starts a Python without TensorFlow",
        cause="a notebook runs the Python that its kernel names, whatever environment Jupyter was started from",
        evidence=(evidence(starts, kernel.file, "the TensorFlow of this interpreter"),),
        fixes=context.remedies.installing(text, "ipykernel", then=(register,)),
        severity=Severity.NOTE,
    )


@WRONG_ENV.sign(unless=("tf.python-unsupported", "tf.package-removed"))
def installed_elsewhere(messages: MessageLog, packages: Packages = ()) -> Problem | None:
    """No module named tensorflow, although it was installed; or another release runs than the installed one."""
    elsewhere = [m for m in messages.all("other-environment") if "gpu" in m.values]
    if elsewhere and not messages.complains:
        return Problem(evidence=message_evidence(*elsewhere))
    if runs := messages.all("other-version-runs"):
        listed = [p for p in packages if p.name in ("tensorflow", "tensorflow-gpu", "tf-nightly")]
        installed = (evidence(f"{p.name} {p.version}", p.location or "the list of packages") for p in listed[:1])
        return Problem(evidence=(*message_evidence(*runs), *installed))
    missing = _no_module(messages) if _is_installed_somewhere(messages, packages) else []
    more = messages.all("tensorflow-installed", "notebook", "other-environment") if missing else ()
    return Problem(evidence=message_evidence(*missing, *more))


def _no_module(messages: MessageLog) -> list[Message]:
    """No module named tensorflow; R prints it, too, of a TensorFlow that is installed and cannot be imported."""
    fails = messages.has(*(kind for kind in STOPS_IMPORT if kind != "module-not-found"))
    missing = (m for m in messages.all("module-not-found") if m.values.get("module") == "tensorflow")
    return [m for m in missing if not (fails and "by" in m.values)]


def _is_installed_somewhere(messages: MessageLog, packages: Packages) -> bool:
    listed = any(p.name.startswith(("tensorflow", "tf-nightly")) for p in packages)
    banners = messages.values("other-environment", "banner")
    other = len(set(banners)) > 1 or len(banners) < len(messages.all("other-environment"))
    return listed or other or messages.has("tensorflow-installed", "notebook", "started-elsewhere")


_OF_A_PROGRAM = Fix(
    "Install what the program asks for, which chooses the release (its requirements file, or its guide), into the "
    "Python that runs it",
    ("python3 --version", "python3 -m pip install -r requirements.txt"),
)


def _install_here(context: Context) -> tuple[Fix, ...]:
    remedies = context.remedies
    known = isinstance(context.facts.python.version, Known) or isinstance(context.facts.tensorflow.version, Known)
    places = context.log.values("place", "name")
    if "program" in places and not known:
        return (_OF_A_PROGRAM,)
    if "comfyui" in places:
        return remedies.installing("Install it", "tensorflow")
    fixes = remedies.for_cpu() or remedies.reinstall("this Python has none")
    fixes = fixes or remedies.installing("Install it", *remedies.tensorflow)
    if context.probed:
        other = "If it is installed in another Python, diagnose that one"
        return (*fixes, Fix(other, ("tfgpu doctor --python /path/to/python",)))
    which = "See which Python runs, and which packages it has"
    commands = (_executable(context), remedies.filtered(f"{remedies.python} -m pip list", "tensorflow"))
    return (*fixes, Fix(which, commands))


NOT_INSTALLED = finding(
    "tf.not-installed",
    layer="TensorFlow",
    title="TensorFlow is not installed in this Python",
    cause="the Python that runs has no package tensorflow; it may be installed in another one",
    fixes=_install_here,
    explained_by=("tf.wrong-env", "tf.python-unsupported"),
    docs="https://www.tensorflow.org/install/pip",
)


_EXPLAINED_ELSEWHERE = ("tf.python-unsupported", "tf.package-removed", "tf.wrong-env", "tf.shadowed")


@NOT_INSTALLED.sign()
def no_package(
    context: Context, packages: Packages, tensorflow_paths: tuple[str, ...], executable: str | None = None
) -> Problem | None:
    """No distribution of TensorFlow and nothing to import."""
    if tensorflow_paths or any(p.name in TENSORFLOW for p in packages):
        return None
    return Problem(
        cause=f"{executable or 'this interpreter'} has no package that contains the module tensorflow",
        evidence=(evidence("no tensorflow", context.source("python.packages"), "a tensorflow distribution"),),
    )


@NOT_INSTALLED.sign(unless=_EXPLAINED_ELSEWHERE)
def no_module_message(messages: MessageLog, packages: Packages = ()) -> Problem | None:
    """No module named tensorflow, and nothing indicates that it was installed."""
    missing = () if _is_installed_somewhere(messages, packages) else _no_module(messages)
    return Problem(evidence=message_evidence(*missing))


@NOT_INSTALLED.sign(unless=_EXPLAINED_ELSEWHERE)
def installation_failed(context: Context, messages: MessageLog) -> Problem | None:
    """pip stopped, or was not even asked, and nothing else fails."""
    kind = next((one for one in _STOPPED if messages.has(one)), None)
    if kind is None or not messages.speaks_only_of(*_STOPPED, "no-space-left", "no-distribution", "build-failed"):
        return None
    cause, text = _STOPPED[kind]
    again = context.remedies.installing(text, *context.remedies.tensorflow) if text else (_END_THEM,)
    return Problem(
        title="The installation of TensorFlow failed",
        cause=cause,
        evidence=message_evidence(*messages.all(kind)),
        fixes=again,
        sure=True,
    )


# https://learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation
_LONG_PATHS = (
    "New-ItemProperty -Path 'HKLM:\\SYSTEM\\CurrentControlSet\\Control\\FileSystem' -Name LongPathsEnabled -Value 1 "
    "-PropertyType DWORD -Force"
)


NOT_INSTALLED.printed(
    "path-too-long",
    unless=_EXPLAINED_ELSEWHERE,
    title="The installation of TensorFlow failed",
    cause="Windows refuses paths of 260 characters or more, which some of TensorFlow's files have there",
    fixes=(
        Fix("In PowerShell as administrator, allow longer paths; then install again in a new console", (_LONG_PATHS,)),
        Alternative("Install into a virtual environment with a short path", ("py -m venv C:\\tf",)),
    ),
    sure=True,
)


_END_THEM = Fix(
    "End each Python, Jupyter and editor that has TensorFlow loaded, or restart Windows; then repeat the same command"
)


_STOPPED = {  # why, and what to do; "": the programs are ended first
    "externally-managed": ("its distribution manages this Python (PEP 668)", "Install it in a virtual environment"),
    "brackets-unquoted": ("zsh takes the brackets for a pattern of file names", "Quote what is to be installed"),
    "index-unreachable": (
        "pip installs all of a package or none; its message is the reason",
        "See from its message whether network, proxy or certificates stop it; then install it again",
    ),
    "file-in-use": ("Windows lets nobody replace a file that a program has loaded", ""),
}


MUSL_TITLE = "There is no TensorFlow wheel for Alpine Linux"
MUSL = "Alpine's C library is musl, and TensorFlow's wheels are for glibc (manylinux): pip offers none of them there"
_GLIBC = "a system with glibc, such as Debian or Ubuntu"


def pythons_of(row: Release) -> str:
    """The Pythons for which a release has wheels."""
    return f"Python {row.python[0]} to {row.python[-1]}"


def _for_glibc(context: Context) -> tuple[Fix, ...]:
    newest = context.matrix.stable("linux_x86_64", "tensorflow")[0]
    image = f"docker run -it --rm python:{newest.python[-1]}-slim bash"
    return (Fix(f"Use {_GLIBC}: for example Python's image slim instead of alpine", (image,)),)


_BITS = "-c \"import struct; print(8 * struct.calcsize('P'))\""
_SYSTEM = '-c "import platform as p, sys; print(sys.version, p.architecture()[0], p.machine(), p.libc_ver())"'


def _wheels_are(context: Context) -> str:
    others = " (Linux: with glibc; Apple silicon: since TensorFlow 2.13, before that as tensorflow-macos)"
    return "64-bit" + others * (context.remedies.os != "windows")


def _published(context: Context) -> tuple[Release, ...]:
    """The stable releases for this platform, newest first."""
    return tuple(context.matrix.stable(value_or(context.facts.python.wheel_platform, "linux_x86_64"), "tensorflow"))


def _for_64_bits(context: Context, row: Release | None = None) -> tuple[Fix, ...]:
    """The same Python for 64 bits, with this release or the newest; another one where it has no wheels."""
    have = minor(value_or(context.facts.python.version, ""))
    rows = _published(context)
    row = row or next((one for one in rows if have in one.python and context.remedies.can_use(one)), rows[0])
    python = have if have in row.python else row.python[-1]
    text = f"Install the 64-bit Python {python}, make the environment anew, and install TensorFlow in it"
    if context.remedies.os != "windows":
        text = "Use a 64-bit system and Python: where this prints i686, the system is the 32-bit one"
        return (Fix(text, ("uname -m", f"{context.remedies.python} {_BITS}")),)
    install = context.remedies.pip_install(*context.remedies.bounded(row), python=r"tf\Scripts\python")
    made = (f"py -{python}-64 -m venv tf", *install)
    if value_or(context.facts.python.bits, None):
        return (Fix(text, made),)
    return (Fix(f"{text} (the first command prints 32 now)", (f"python {_BITS}", *made)),)


GUIDE = "https://www.tensorflow.org/install/pip"
_OLDEST_PYTHON = (3, 6)  # of the examination, probes/tensorflow_probe.py


def _another_python_for_pip(context: Context) -> tuple[Fix, ...]:
    if value_or(context.facts.host.libc, "").startswith("musl"):
        return _for_glibc(context)
    if value_or(context.facts.python.bits, 64) == 32:
        return _for_64_bits(context)
    return context.remedies.reinstall_best("it has wheels for that Python") or _environment_for(context)


PYTHON_UNSUPPORTED = finding(
    "tf.python-unsupported",
    layer="Python",
    title="There is no TensorFlow wheel for this Python",
    cause="TensorFlow is published as wheels, each for one Python version, operating system and processor type; pip "
    "offers only those that match",
    fixes=_another_python_for_pip,
    docs=GUIDE,
)


@PYTHON_UNSUPPORTED.sign()
def python_without_wheels(
    context: Context,
    python_version: str,
    wheel_platform: str = "linux_x86_64",
    packages: Packages = (),
    python_bits: int | None = None,
    libc: str = "",
) -> Problem | None:
    """No release has a wheel for this Python, or only releases as old as it; asked only where none is installed."""
    # a person can install into another Python than the one that a text names: pip's answer decides; the line of a
    # manifest that names TensorFlow is judged together with that of its Python
    installed = not {p.name for p in packages}.isdisjoint(TENSORFLOW)
    if (context.planned and context.planned.tensorflow) or not context.probed or installed:
        return None
    if libc.startswith("musl"):
        return Problem(title=MUSL_TITLE, cause=MUSL, evidence=(evidence(libc, context.source("host.libc"), "glibc"),))
    python = minor(python_version)
    rows = context.matrix.stable(wheel_platform, "tensorflow")
    fitting = [] if python_bits == 32 else [row.version for row in rows if python in row.python]
    if not rows or (fitting and capability(python) >= _OLDEST_PYTHON):
        return None
    found = f"Python {python_version}" + " (32-bit)" * (python_bits == 32)
    need = f"64-bit {pythons_of(rows[0])}", f"TensorFlow {rows[0].version} on {wheel_platform} (wheels)"
    none = f"TensorFlow {fitting[0]} was the last release" if fitting else "There is no TensorFlow wheel"
    seen = (evidence(found, context.source("python.version"), *need),)
    return Problem(title=f"{none} for Python {python}", evidence=seen)


_ANY = (99,)  # where pip printed no list
_NOTHING_OFFERED = "no wheel is for this Python or system{}, or the index cannot be reached"


def _for_installed_cuda(context: Context) -> tuple[Fix, ...]:
    """The release for the CUDA and the cuDNN that are installed, of which old reports tell their age."""
    toolkits = {minor(one.version) for one in value_or(context.facts.cuda.toolkits, ()) if "." in (one.version or "")}
    files = {one.version for one in value_or(context.facts.cudnn.installed, ()) if "." in (one.version or "")}
    if len(toolkits) != 1 or len(files) != 1:
        return ()
    return context.remedies.built_for(toolkits.pop(), files.pop(), lacks_cudnn=False)


def _where_offered(context: Context, row: Release | None) -> tuple[Fix, ...]:
    """Where pip is offered TensorFlow: `row` was asked for, and has wheels for this Python."""
    remedies, have = context.remedies, minor(value_or(context.facts.python.version, ""))
    rows = _published(context)
    fitting = [one for one in rows if have in one.python and (row or major(have) != "2")]
    if remedies.on_jetson:
        return (jetpack(context),)
    if older_macos := _of_older_macos(context, fitting):
        return older_macos
    if not fitting:
        return _environment_for(context, row, () if have else (f"{remedies.python} {_SYSTEM}",))
    if remedies.os == "windows" and row and value_or(context.facts.python.bits, None) != 64:
        return _for_64_bits(context, row)  # it was published, so that nothing else is left
    if row:
        return (_update_pip(context, row, f"it has wheels for Python {have}, {_wheels_are(context)}"),)
    place, newest = rows.index(fitting[-1]), fitting[0]
    older = "".join(f"; an older release needs Python {one.python[-1]}" for one in rows[place + 1 : place + 2])
    since = f"Python {have} has wheels since {minor(rows[place].version)}, {_wheels_are(context)}"
    return (_update_pip(context, newest, f"{since}{older}", _for_installed_cuda(context)),)


def _of_older_macos(context: Context, fitting: list[Release]) -> tuple[Fix, ...]:
    """The newer macOS that all wheels want, or the package for Apple silicon before TensorFlow's own."""
    if context.remedies.os != "macos" or not fitting or any(map(context.remedies.can_use, fitting)):
        return ()
    row = fitting[-1]
    have = minor(value_or(context.facts.python.version, ""))
    rows = context.matrix.stable(row.platform, "tensorflow-macos")
    older = next((one for one in rows if have in one.python and context.remedies.can_use(one)), None)
    update = f"Update macOS: TensorFlow's wheels for Python {have} need {row.macos} or newer"
    if older is None:
        return (Fix(update),)
    text = f"{update}; or install {older.package} {older.version}, also in the requirements file in place of tensorflow"
    return (Fix(text, context.remedies.pip_install(*context.remedies.bounded(older))),)


def _update_pip(context: Context, row: Release, why: str, built: tuple[Fix, ...] = ()) -> Fix:
    """Update pip, and install the release that is `built` for the CUDA which is there, or this one."""
    python = context.remedies.python
    see = () if value_or(context.facts.python.bits, None) == 64 else (f"{python} {_SYSTEM}",)
    if see and context.remedies.os == "windows":
        see = (f"{python} {_BITS}",)
        why += ". Where the first command prints 32, install the 64-bit Python first"
    install = Fix(f"Install TensorFlow {row.version}", context.remedies.pip_install(*context.remedies.bounded(row)))
    install = next(iter(built), install)
    text = f"{install.text.replace('Install', 'Update pip, and install', 1)}: {why}"
    have = value_or(context.facts.host.distribution_version, None)
    if context.remedies.os == "macos" and at_least(have, "10") and at_least(have, row.macos or "") is False:
        text = f"First update macOS {have} to {row.macos} or newer, which its wheels are for. {text}"
    return Fix(text, (*see, f"{python} -m pip install --upgrade pip", *install.commands))


@PYTHON_UNSUPPORTED.sign(unless=("tf.package-removed", "tf.package-conflict"))
def no_matching_distribution(
    context: Context,
    messages: MessageLog,
    python_version: str | None = None,
    release: Release | None = None,
    wheel_platform: str | None = None,
    python_bits: int | None = None,
) -> Problem | None:
    """pip finds no matching distribution, or refuses a wheel; or the stated versions are incompatible."""
    refused = messages.all("no-distribution", "wheel-not-supported", "requires-python")
    if not refused:
        return _incompatible(context, python_version, release, python_bits)
    if messages.has("index-unreachable") and not any(offered(message) for message in refused):
        return None  # pip got no list at all
    if (alpine := messages.all("musl-system")) and any(offered(message) in ([], None) for message in refused):
        seen = (*message_evidence(*refused, most=2), *message_evidence(*alpine, need=_GLIBC, most=2))
        return Problem(title=MUSL_TITLE, cause=MUSL, evidence=seen, fixes=_for_glibc(context))
    if _gpu_package_on_macos(context, refused):
        return None  # no Python has a wheel
    if python_bits == 32:
        row = _requested_row(context, refused, wheel_platform) or release
        return replace(_of_32_bits(context, *message_evidence(*refused, most=2)), fixes=_for_64_bits(context, row))
    found = _of_another_package(context, refused) or _by_an_old_pip(context, refused) or _by_conda(context, refused)
    found = found or _by_its_file(context, refused, python_version, wheel_platform)
    return found or _refused(context, refused, python_version, wheel_platform)


def _by_conda(context: Context, refused: tuple[Message, ...]) -> Problem | None:
    """conda's packages of TensorFlow, whose newest for GPUs are older than pip's wheels."""
    lines = {one.line for one in context.log.all("conda-unsatisfiable")}
    seen = [one for one in refused if one.line in lines and "existing python" in one.text]
    if not seen:
        return None
    return Problem(
        title="conda's channels have no build of that TensorFlow for this Python",
        cause="the list of conda tells the Pythons that there are builds for; pip has wheels for other ones",
        evidence=message_evidence(*seen),
        fixes=context.remedies.reinstall_best("it has wheels for that Python") or None,
    )


_OLD_PIP = re.compile(r"Could not find any downloads that satisfy|No distributions at all found for")  # before 7


def _by_an_old_pip(context: Context, refused: tuple[Message, ...]) -> Problem | None:
    """A pip of another decade, mostly the system's, which `sudo` starts in an environment as well."""
    seen, pip = [one for one in refused if _OLD_PIP.search(one.text)], f"{context.remedies.python} -m pip"
    text = f"Update the pip of the Python that is meant, without sudo, and use that: {pip} install"
    update = Fix(text, (f"{pip} --version", f"{pip} install --upgrade pip"))
    title, cause = "This pip is too old to find TensorFlow's wheels", "before 8.1 pip knows no manylinux wheels"
    return Problem(title=title, cause=cause, evidence=message_evidence(*seen), fixes=(update,)) if seen else None


_ENDED_ON_WINDOWS = "tensorflow-io-gcs-filesystem"  # after 0.31.0: compat_matrix.yaml, io-gcs-filesystem-windows


def _of_another_package(context: Context, refused: tuple[Message, ...]) -> Problem | None:
    """What pip, poetry or uv does not find is no TensorFlow, but goes with it."""
    names = [str(canonicalize_name(name)).strip("-") for name, _ in map(requested, refused)]
    if any(name in ANY or name.startswith("tf-nightly") for name in names):
        return None
    name = names[0]
    which = "See which of its versions have wheels here, and require one of them, with the TensorFlow that goes with it"
    fixes = (Fix(which, (f"{context.remedies.python} -m pip index versions {name}",)),)
    if name == _ENDED_ON_WINDOWS and context.remedies.os == "windows":
        by_poetry = any("installation candidates" in one.text for one in refused)
        add = "poetry add" if by_poetry else f"{context.remedies.python} -m pip install"
        wanted = context.remedies.quote(f"{name}<0.32")
        fixes = (Fix("Require 0.31.0, the last release with wheels for Windows, or use WSL2", (f"{add} {wanted}",)),)
    cause = f"{name} is published as wheels, and what is asked for has none for this Python or system"
    title = f"There is no fitting wheel of {name}"
    return Problem(title=title, cause=cause, evidence=message_evidence(*refused), fixes=fixes)


def _has_wheels(context: Context, refused: tuple[Message, ...], python: str | None) -> bool:
    """Whether there are wheels for this Python, so that pip is offered none for another reason."""
    named = value_or(context.facts.tensorflow.version, "") or any(one.kind != "no-distribution" for one in refused)
    offers = not named and any(minor(python or "") in one.python for one in _published(context))
    return offers or context.remedies.best_release() is not None


def _refused(context: Context, refused: tuple[Message, ...], stated: str | None, platform: str | None) -> Problem:
    """Say what is wrong where pip has a list of versions: no wheel for the Python, none at all, or a pip too old."""
    row = _asked_row(context, refused, platform)
    python, more = _pip_python(context, refused, stated, platform)
    need = f"{pythons_of(row)} for TensorFlow {row.version}" if row else None
    seen = (*message_evidence(*refused, need=need), *more)
    lacks = row and python and minor(python) not in row.python
    title = f"TensorFlow {row.version} has no wheel for Python {python}" if row and lacks else None
    for_it = _for_release(context, row, refused, python)
    lists = [offered(message) for message in refused]
    if [] in lists or (not row and not any(lists) and _has_wheels(context, refused, python)):
        return _nothing_offered(context, row, title, seen)
    if row and not title and min(map(newest_minor, filter(None, lists)), default=_ANY) < newest_minor([row.version]):
        upgrade = f"{context.remedies.python} -m pip install --upgrade pip"
        update = Fix("Update pip: one that is too old does not know the tag of these wheels", (upgrade,))
        fixes = (update, *for_it) if python else (*for_it, update)
        return Problem(title=f"pip does not find the wheels of TensorFlow {row.version}", evidence=seen, fixes=fixes)
    return Problem(title=title, evidence=seen, fixes=(*for_it, *_another_python_for_pip(context)))


def _by_its_file(
    context: Context, refused: tuple[Message, ...], python: str | None, platform: str | None
) -> Problem | None:
    """A wheel that is named by its file is for another Python, and the release has one for this one."""
    for one in refused if python else ():
        values, this = one.values, minor(python)
        named = re.match(r"cp([23])(\d{1,2})-", values.get("tags", ""))
        if named is None or f"{named[1]}.{named[2]}" == this:
            continue
        version, package = values.get("version", ""), values.get("package", "")
        row = context.matrix.tensorflow(version, platform or "linux_x86_64", package)
        if row and row.version == version and this in row.python:
            text = f"Install the wheel of that release for Python {this}"
            fixes = context.remedies.installing(text, f"{row.package}=={version}")
            title = "This file is a wheel for another Python"
            return Problem(title=title, evidence=message_evidence(*refused), fixes=fixes)
    return None


def _for_the_wheel(refused: tuple[Message, ...], python: str | None) -> tuple[Fix, ...]:
    """A Python for a wheel that is named by its file, and is for another one."""
    tags = (re.match(r"cp([23])([5-9]|\d\d)-.*(?:x86_64|amd64)", one.values.get("tags", "")) for one in refused)
    wanted = next((f"{found[1]}.{found[2]}" for found in tags if found), None)
    if not (wanted and python) or minor(python) == wanted:
        return ()
    text = f"This wheel is for Python {wanted}: make an environment with that, and run the same command in it"
    return (Fix(text, (f"conda create -n tf -c conda-forge python={wanted} pip",)),)


def _for_release(
    context: Context, row: Release | None, refused: tuple[Message, ...], python: str | None
) -> tuple[Fix, ...]:
    """A Python for the release that was asked for, and for one of TensorFlow 1 how its programs run with 2."""
    of_1 = (IN_COMPAT,) if row and major(row.version) == "1" else ()
    return (*_environment_for(context, row), *of_1) if row else _for_the_wheel(refused, python)


def _nothing_offered(context: Context, row: Release | None, title: str | None, seen: tuple[Evidence, ...]) -> Problem:
    """Say what to do where pip's list is empty: a Python that a release which was asked for has wheels for."""
    have = minor(value_or(context.facts.python.version, ""))
    of_row = f"pip finds no wheel of TensorFlow {row.version} for this Python or system" if row else None
    version, on_windows = value_or(context.facts.tensorflow.version, ""), "windows_amd64"
    is_there = value_or(context.facts.python.wheel_platform, "") == on_windows
    named = row or (context.matrix.tensorflow(version, on_windows) if is_there else None)
    here = named if named and have in named.python else None
    fixes = _where_offered(context, here) if here or not row else _environment_for(context, row)
    fixes = fixes or _another_python_for_pip(context)
    cause = _NOTHING_OFFERED.format(" (Alpine has no glibc)" * (context.remedies.os == "linux"))
    return Problem(
        title=title or of_row or "pip is offered no TensorFlow at all", cause=cause, evidence=seen, fixes=fixes
    )


def _requested_row(context: Context, refused: tuple[Message, ...], platform: str | None) -> Release | None:
    """The release that was asked for by its version, if its wheels are known; in words, the one that the text names."""
    name, version = next((one for one in map(requested, refused) if one[1]), ("", None))
    said = {one.values.get("said") for one in refused}  # the Python that a sentence calls unsupported
    if not any(one.values.keys() - {"said"} for one in refused):
        version = value_or(context.facts.tensorflow.version, None)
    row = context.matrix.tensorflow(version or "", platform or "linux_x86_64")
    if row and not row.gpu and name == "tensorflow-gpu":
        row = context.matrix.tensorflow(row.version, row.platform, name) or row
    return row if row and row.python and said.isdisjoint(row.python) else None  # else it is another system's


def _asked_row(context: Context, refused: tuple[Message, ...], platform: str | None) -> Release | None:
    return _requested_row(context, refused, platform) or _newest_within(context, refused)


def _newest_within(context: Context, refused: tuple[Message, ...]) -> Release | None:
    """The newest release within the bounds that another package sets, where one is an upper bound."""
    for asked in map(read_requirement, MessageLog(refused).values("no-distribution", "requirement")):
        bounded = asked and any(one.operator in ("<", "<=", "~=") for one in asked.specifier)
        if asked and asked.name in TENSORFLOW and bounded:
            return next((row for row in _published(context) if row.version in asked.specifier), None)
    return None


def _pip_python(
    context: Context, refused: tuple[Message, ...], stated: str | None, platform: str | None
) -> tuple[str | None, list[Evidence]]:
    """The Python that pip belongs to, by the versions that it offers or else as the text names it."""
    listed = next((message for message in refused if offered(message)), None)
    inferred = python_offered_to(context.matrix, listed, platform) if listed else None
    found = []
    if inferred and listed:
        found.append(evidence(f"the offered versions are those for Python {inferred}", f"line {listed.line}, inferred"))
    if stated and stated != inferred:
        found.append(evidence(f"Python {stated}", context.source("python.version")))
    return inferred or stated, found


_FILE = re.compile(r"-r (?P<file>[\w./-]{1,100}\.txt)\b")
_PIP_INSTALL = re.compile(r".*-m pip install(?= )")


def _and_its_file(context: Context, commands: tuple[str, ...]) -> tuple[str, ...]:
    """What else the file requires that pip was given, in the environment that these commands make."""
    files = [found["file"] for one in context.log.all("no-distribution") if (found := _FILE.search(one.text))]
    installs = [found[0] for one in commands if (found := _PIP_INSTALL.match(one))]
    return (*commands, *(f"{one} -r {files[0]}" for one in installs[-1:] if files))


def _with_directml(context: Context, commands: tuple[str, ...]) -> tuple[str, ...]:
    """Microsoft's plugin runs with TensorFlow 2.10 for the CPU, in place of TensorFlow's own build (its README)."""
    if context.remedies.os != "windows" or value_or(context.facts.tensorflow.distribution, "") != "tensorflow-directml":
        return commands
    plugin = r"install tensorflow-cpu==\1\2 tensorflow-directml-plugin"
    return tuple(re.sub(r"\binstall tensorflow==(2\.10\S*)(.*)", plugin, one) for one in commands)


def _usable(context: Context, asked: Release | None) -> Release | None:
    """The release that was asked for, or the best one, if it can use the GPU here."""
    best = (context.remedies.best_release(this_python=False), *_published(context))
    return next((one for one in ((asked,) if asked else best) if one and context.remedies.can_use(one)), None)


def _environment_for(context: Context, asked: Release | None = None, first: tuple[str, ...] = ()) -> tuple[Fix, ...]:
    """A Python with wheels of this release, or of the best one, in an environment of its own, after what shows this."""
    remedies, row = context.remedies, _usable(context, asked)
    if row is None or remedies.image or remedies.on_jetson:
        return ()
    row = taking_later_cudnn(context.matrix, row)
    if row.platform == "windows_amd64" and not row.gpu and remedies.knows_gpu:
        return (*remedies.use_wsl(),)  # on Windows itself it would compute on the CPU
    python, commands = remedies.python_for(row), _with_directml(context, remedies.new_environment(row))
    text = f"Create an environment with Python {python} for TensorFlow {row.version}"
    if context.probed:
        text += " with conda" * any(one.startswith("conda ") for one in commands[:1])
    else:  # python3 is what has no wheels, or may be it
        commands = tuple(re.sub("^python3(?= -m venv)", f"python{python}", one) for one in commands)
        text += " (uv or conda can install that Python)" * any(one.startswith("python3") for one in commands[:1])
    if first:
        text += f": wheels are {_wheels_are(context)}; the first command shows what yours is"
    if asked:
        commands = _and_its_file(context, commands)
    elif major(value_or(context.facts.tensorflow.version, row.version)) != major(row.version):
        text = f"{declaration.OTHER_RELEASE}c{text[1:]}"
    return (Fix(text, (*first, *commands)),) if commands else ()


def _of_32_bits(context: Context, *seen: Evidence) -> Problem:
    return Problem(
        title="This Python is 32-bit; TensorFlow's wheels are 64-bit",
        cause="there has never been a 32-bit wheel for PCs; a 64-bit wheel whose files are copied cannot be loaded",
        evidence=(*seen, evidence("32-bit Python", context.source("python.bits"), "64-bit Python")),
    )


def _incompatible(context: Context, python: str | None, release: Release | None, bits: int | None) -> Problem | None:
    """A Python and a TensorFlow without a wheel for it are named; forms are often filled in carelessly."""
    if bits == 32:
        return _of_32_bits(context)
    if release is None and context.remedies.os == "macos":  # of tensorflow-gpu, which has no wheels there
        version, platform = context.facts.tensorflow.version, context.facts.python.wheel_platform
        release = context.matrix.tensorflow(value_or(version, ""), value_or(platform, ""))
    if python is None or release is None or not release.python or minor(python) in release.python:
        return None
    wheels = f"TensorFlow {release.version} (wheels)"
    see = (f"{context.remedies.python} --version", context.remedies.filtered("python -m pip list", "tensorflow"))
    return Problem(
        title=f"TensorFlow {release.version} has no wheel for Python {minor(python)}",
        severity=Severity.WARNING,
        cause="it cannot be installed there; or one of the two is mistyped, or a different Python is running",
        evidence=(evidence(f"Python {python}", context.source("python.version"), pythons_of(release), wheels),),
        fixes=(*_environment_for(context, release), Fix("See which Python and which TensorFlow there are", see)),
    )


@PYTHON_UNSUPPORTED.sign()
def library_for_another_python(context: Context, messages: MessageLog, python_version: str) -> Problem:
    """The import of TensorFlow 1.12 or older finds no compiled module: there is none for Python 3.7 and later."""
    seen = [m for m in messages.all("module-not-found") if m.values.get("module") == "_pywrap_tensorflow"]
    text = "Install a release that has wheels for this Python, anew"
    return Problem(
        title=f"The TensorFlow that is installed has no compiled module for Python {minor(python_version)}",
        cause="only 1.12 and older look for a module of this name, and they were built for Python 3.6 at most",
        evidence=message_evidence(*seen) if at_least(python_version, "3.7") else (),
        fixes=context.remedies.installing(text, "--upgrade", "--force-reinstall", *context.remedies.tensorflow),
    )


PACKAGE_REMOVED = finding(
    "tf.package-removed",
    layer="Python",
    title="tensorflow-gpu has been discontinued",
    cause="2.11.0 was the last release, and 2.12.0 is an empty package that fails to install; the package tensorflow "
    "includes GPU support since 2.1",
    fixes=lambda context: (
        *(context.remedies.for_cpu() or context.remedies.reinstall("the package tensorflow, with its CUDA libraries")),
        Fix("Require tensorflow instead of tensorflow-gpu; update a dependency that requires tensorflow-gpu"),
    ),
    docs=GUIDE,
)


@PACKAGE_REMOVED.sign()
def empty_package_installed(context: Context, packages: Packages) -> Problem | None:
    """tensorflow-gpu 2.12 contains nothing."""
    empty = next((p for p in packages if p.name == "tensorflow-gpu" and at_least(p.version, "2.12")), None)
    if empty is None:
        return None
    remedies = context.remedies
    same = remedies.reinstall("the package tensorflow of the same version", minor(empty.version))
    installed = same[0].commands if same else remedies.pip_install(*remedies.tensorflow)
    replaced = Fix("Replace it with tensorflow", (remedies.pip_uninstall("tensorflow-gpu"), *installed))
    seen = evidence(f"tensorflow-gpu {empty.version}", empty.location or "installed packages", "tensorflow")
    return Problem(evidence=(seen,), fixes=(replaced,) if installed else ())


def _in_its_file(context: Context) -> tuple[Fix, ...] | None:
    """Change the requirement where a file or a package asks for it, which installing tensorflow beside it does not."""
    file = next(iter(context.log.values("file-asks-for-it", "file")), None)
    if file is None:
        return None
    install = f"{context.remedies.python} -m pip install " + (f"-r {file}" if file.endswith(".txt") else ".")
    change = () if context.remedies.os == "windows" else (f"sed -i 's/tensorflow[-_]gpu/tensorflow/' {file}",)
    text = f"In {file}, write tensorflow in the place of tensorflow-gpu, and install from that again"
    return (Fix(f"{text}; of a package that pip downloads, get the source first", (*change, install)),)


@PACKAGE_REMOVED.sign()
def removal_message(context: Context, messages: MessageLog, os: str | None = None) -> Problem | None:
    """The empty package prints what it is, or pip finds no such version."""
    seen = [*messages.all("package-removed")]
    for message in messages.all("no-distribution"):
        name, version = requested(message)
        if name.replace("_", "-") == "tensorflow-gpu" and version and _after_the_last(version, offered(message), os):
            seen.append(message)
    return Problem(evidence=message_evidence(*seen), fixes=_in_its_file(context))


@PACKAGE_REMOVED.sign()
def listed_in_its_place(context: Context, messages: MessageLog, wheel_platform: str | None = None) -> Problem | None:
    """pip's own list has another version of that minor release, so that neither the Python nor pip is the reason."""
    for message in messages.all("no-distribution"):
        (name, version), listed = requested(message), [*map(Version, offered(message) or ())]
        if version is None or f"=={version}.*" in message.text or f"=={version}" not in message.text.replace(" ", ""):
            continue
        wanted, final = Version(version), Version(version).base_version
        finals = [str(one) for one in listed if one.release[:2] == wanted.release[:2] and not one.is_prerelease]
        if not finals or wanted in listed or str(canonicalize_name(name)) not in TENSORFLOW:
            continue
        instead = final if final in finals else max(finals, key=Version)
        row = context.matrix.tensorflow(instead, wheel_platform or "linux_x86_64")
        bounds = context.remedies.bounded(row)[1:] if row else ()
        text = f"Require {name}=={instead} in its place, in a file of requirements, too"
        return Problem(
            title=f"The index has no {name} {version} (any more); its list has {instead}",
            cause="a release candidate is removed or replaced once the release is there; this Python has wheels of it",
            evidence=message_evidence(message),
            fixes=context.remedies.installing(text, f"{name}=={instead}", *bounds),
            sure=True,
        )
    return None


@PACKAGE_REMOVED.sign()
def no_gpu_package_for_macos(
    context: Context, messages: MessageLog, wheel_platform: str | None = None
) -> Problem | None:
    """Pip on macOS finds no such tensorflow-gpu."""
    refused = messages.all("no-distribution", "wheel-not-supported", "requires-python")
    if not _gpu_package_on_macos(context, refused):
        return None
    row, text = _requested_row(context, refused, wheel_platform), "Install TensorFlow without a GPU"
    fixes: tuple[Fix, ...] = (Fix("Install the package tensorflow instead, which does not use the GPU"),)
    if row:  # under this Python, or else in an environment with another one
        other = Fix(f"{text}, in an environment with Python {row.python[-1]}", context.remedies.new_environment(row))
        here = minor(value_or(context.facts.python.version, "")) in ("", *row.python)
        fixes = context.remedies.installing(text, f"tensorflow=={row.version}") if here else (other,)
    return Problem(
        title="tensorflow-gpu has had no wheels for macOS since 1.2",
        cause="macOS has no CUDA; the package tensorflow is the build for the CPU",
        evidence=message_evidence(*refused),
        fixes=(*with_metal(context), *fixes),
        sure=True,
    )


def _gpu_package_on_macos(context: Context, refused: tuple[Message, ...]) -> bool:
    """Whether tensorflow-gpu is refused on macOS; a list that ends with 1.1 is offered there alone."""
    asked = [message for message in refused if "tensorflow-gpu" in message.text]
    ends = any(newest_minor(versions) == _LAST_ON_MACOS for message in asked if (versions := offered(message)))
    return bool(asked) and (ends or context.remedies.os == "macos")


def _after_the_last(version: str, versions: list[str] | None, os: str | None) -> bool:
    """Whether tensorflow-gpu ended before that version, and nothing else explains what pip offers."""
    wanted, last_on_windows = newest_minor([version]), (2, 10)
    if versions:  # up to 2.10, the last for Windows, and no further: this Python is not the reason
        return newest_minor(versions) >= last_on_windows and wanted > newest_minor(versions)
    return versions is None and wanted > (last_on_windows if os == "windows" else (2, 11))


_LAST_ON_MACOS = (1, 1)  # of tensorflow-gpu, whose wheels for other systems go on to 2.11 (the index's list of files)
# what every TensorFlow since 1.0 has, so that a module without it is another one
_IN_EVERY_TENSORFLOW = (
    *("__version__", "constant", "Variable", "keras", "config", "test", "nn", "python", "io", "float32"),
    *("random", "train", "Tensor", "reduce_sum", "data", "function", "device"),
)


def _see_what_is_imported(context: Context) -> tuple[Fix, ...]:
    remedies = context.remedies
    see = Fix("See what is imported", (f"{remedies.python} -c {FIND_MODULE}",))
    text = "Rename your own file or folder; if it is in site-packages, reinstall TensorFlow"
    uninstall = (remedies.pip_uninstall("tensorflow"),)
    again = remedies.installing(text, "--force-reinstall", *remedies.tensorflow, first=uninstall)
    return (see, *(again or (Fix("Rename your own file or folder"),)))


SHADOWED = finding(
    "tf.shadowed",
    layer="TensorFlow",
    title="A local file or folder shadows the tensorflow package",
    cause="Python imports the first `tensorflow` on sys.path; the folder of the program and PYTHONPATH come before the "
    "installed packages",
    fixes=_see_what_is_imported,
    docs="https://docs.python.org/3/library/sys_path_init.html",
)


@SHADOWED.sign(conclusive=False)  # a module that TensorFlow imports can be shadowed as well, which an error tells
def first_on_sys_path(context: Context, tensorflow_paths: tuple[str, ...], packages: Packages) -> Problem | None:
    """The first `tensorflow` on sys.path is in no folder that pip or conda installs into."""
    if not tensorflow_paths:
        return None
    winner, folders = _slashes(tensorflow_paths[0]), _folders(packages)
    if (not folders or posixpath.dirname(winner) in folders) and not winner.endswith("tensorflow.py"):
        return None
    expected = next(iter(folders), "an installed tensorflow")
    return Problem(
        title=f"{tensorflow_paths[0]} shadows the tensorflow package",
        evidence=(evidence(tensorflow_paths[0], context.source("python.tensorflow_paths"), expected),),
        fixes=(_rename(context, tensorflow_paths[0]),),
    )


def _together(fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    if not all(one.commands for one in fixes):
        return fixes
    text = "Rename them, or start Python from another folder"
    return (Fix(text, tuple(command for one in fixes for command in one.commands)),)


def _rename(context: Context, path: str) -> Fix:
    folder, name = posixpath.split(_slashes(path))
    command = context.remedies.rename(path, posixpath.join(folder, f"my_{name}"))
    return Fix("Rename it, or start Python from another folder", (command,))


def _slashes(path: str) -> str:
    return path.replace("\\", "/")


def _folders(packages: Packages) -> dict[str, str]:
    """The name and version of TensorFlow in each folder that has one, in the order of sys.path."""
    found: dict[str, str] = {}
    for package in packages:
        if package.name in TENSORFLOW and package.location and not package.location.startswith("line "):
            found.setdefault(_slashes(package.location), f"{package.name} {package.version}")
    return found


@SHADOWED.sign(conclusive=False)
def installed_twice(
    context: Context,
    packages: Packages,
    tensorflow_paths: tuple[str, ...] = (),
    python_prefix: str | None = None,
    variables: Variables | None = None,
    user_site: str | None = None,
    phases: Phases = (),
) -> Problem | None:
    """A TensorFlow outside of the environment comes before the one in it; within it, an order is intended."""
    folders = _folders(packages)
    first = posixpath.dirname(_slashes(tensorflow_paths[0])) if tensorflow_paths else next(iter(folders), "")
    others = {folder: name for folder, name in folders.items() if folder != first}
    if first not in folders or not others:
        return None
    if python_prefix is not None:
        inside = _slashes(python_prefix).rstrip("/") + "/"
        if first.startswith(inside) or not any(folder.startswith(inside) for folder in others):
            return None
    used, (folder, other) = folders[first], next(iter(others.items()))
    works = any(phase.name == "import" and phase.outcome == "ok" for phase in phases)
    return Problem(
        title=f"{used} in {first} shadows {other}",
        severity=Severity.WARNING if works else None,
        cause="two folders on sys.path contain TensorFlow, and Python imports the first; pip changes only one of them",
        evidence=(evidence(used, first, f"{other} alone", folder), evidence(other, folder)),
        fixes=(_off_sys_path(context, first, variables or {}, user_site),),
    )


def _off_sys_path(context: Context, folder: str, variables: Variables, user_site: str | None) -> Fix:
    if kept := context.remedies.without_folders("PYTHONPATH", variables.get("PYTHONPATH", ""), {folder}):
        return Fix(f"Remove {folder} from PYTHONPATH", (kept,))
    if user_site and _slashes(user_site) == folder:
        return Fix(f"Remove {folder}, your user site-packages, from sys.path", ("export PYTHONNOUSERSITE=1",))
    command = f"{context.remedies.python} -c 'import sys; print(sys.path)'"
    return Fix(f"Start Python in another folder, or remove {folder} from sys.path (a .pth file adds it)", (command,))


@SHADOWED.sign(conclusive=False)
def needed_module_elsewhere(
    context: Context, modules_in_the_way: tuple[ShadowedModule, ...], messages: MessageLog | None = None
) -> Problem | None:
    """A module that TensorFlow imports is taken from another folder, and the import fails; not through PYTHONPATH."""
    found = [one for one in modules_in_the_way if one.via != "PYTHONPATH"]
    if not found:
        return None
    first, folder = found[0], posixpath.dirname(_slashes(found[0].path))
    fix = _rename(context, first.path) if first.version is None else _off_sys_path(context, folder, {}, None)
    if first.via and first.line:
        fix = Fix(f"Remove {folder} from sys.path: delete line {first.line} of {first.via}, which adds it")
    modules = ((one, f"{one.module} of {one.package} {one.package_version}") for one in found)
    seen = tuple(evidence(one.path, one.via or "sys.path", expected) for one, expected in modules)
    if messages and (named := standard_module_shadowed(context, messages)):  # at which the import ended
        fixes = _together((*(named.fixes or ()), fix))
        return replace(named, evidence=(*named.evidence, *seen), fixes=fixes, rank_first=True)
    return Problem(
        title=f"{first.path} shadows {first.package} {first.package_version}, which TensorFlow imports",
        cause=f"Python imports the first `{first.module}` on sys.path; that folder comes before the installed packages",
        evidence=seen,
        fixes=(fix,),
        rank_first=True,
    )


@SHADOWED.sign(unless=("tf.abi-*", "tf.import-dll", "tf.glibc-too-old"))
def standard_module_shadowed(context: Context, messages: MessageLog) -> Problem | None:
    """A file named as a module of the standard library: in the message, or a frame below the import of TensorFlow."""
    begins = messages.first("import-line")
    below = [m for m in messages.all("traceback") if begins and m.line > begins.line]
    message = next((m for m in (*messages.all("shadowed"), *below) if m.values.get("standard")), None)
    if message is None or messages.has("own-tensorflow-file"):
        return None
    name, folder = message.values["standard"], posixpath.dirname(_slashes(message.values["file"]))
    return Problem(
        title=f"A local file {name}.py shadows the standard library's module {name}",
        cause=f"TensorFlow imports {name} of the standard library, and Python finds the file beside the program first",
        evidence=message_evidence(message),
        fixes=(_rename(context, posixpath.join(folder if posixpath.isabs(folder) else "", f"{name}.py")),),
    )


@SHADOWED.sign(unless=("tf.abi-*", "tf.package-conflict", "tf.import-dll", "tf.glibc-too-old"))
def shadowing_messages(
    context: Context, messages: MessageLog, tensorflow_paths: tuple[str, ...] | None = None
) -> Problem | None:
    """A file of the user, or an empty folder that an uninstallation has left, is found first."""
    if standard_module_shadowed(context, messages):
        return None
    certain = messages.all("shadowed", "own-tensorflow-file")
    empty = [m for m in messages.all("no-attribute") if m.values.get("name") in _IN_EVERY_TENSORFLOW]
    if not certain and (not empty or messages.has("native-runtime-failed")):
        return None
    if tensorflow_paths is not None:
        return None  # where Python finds tensorflow has been looked at
    if sources := [m for m in certain if "__init__.py" in m.text or "source directory" in m.text]:
        return Problem(
            title="TensorFlow's source folder is imported instead of the installed package",
            cause="Python first searches the folder that it is started in, and the sources there have not been built",
            evidence=message_evidence(*sources),
            fixes=(Fix("Start Python in another folder", ("cd ~", "python -c 'import tensorflow'")),),
        )
    own = [m.values["file"] for m in messages.all("own-tensorflow-file")]
    fixes = (_rename(context, own[0]),) if own else None
    return Problem(evidence=message_evidence(*certain, *empty), fixes=fixes, sure=bool(certain))
