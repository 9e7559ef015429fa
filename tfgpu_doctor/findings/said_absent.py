"""Rules over the words in which Python says that it has no TensorFlow: here, in this environment, or not yet."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.parsers.messages.catalogue import STOPS_IMPORT
from tfgpu_doctor.records.facts import Message, Package
from tfgpu_doctor.records.report import Evidence, Fix, Severity

_TOLD = ("derived.told",)
_LONG_PATHS = "HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem"


@rule(
    "tf.not-installed",
    Severity.ERROR,
    "TensorFlow is not installed in this Python",
    needs=_TOLD,
    wants=("python.packages",),
    requires=("tf.python-unsupported", "tf.package-removed", "tf.wrong-env", "tf.shadowed"),
    docs="https://www.tensorflow.org/install/pip",
)
def not_installed(context: Context, said: Said, packages: tuple[Package, ...] | None) -> Problem | None:
    """No module named tensorflow, and nothing says that it was installed; or its installation broke off."""
    seen = _not_here(said)
    if not seen and (broken := _broke_off(said)):
        return _not_finished(context, broken)
    if not seen or _installed_somewhere(said, packages):
        return None
    return Problem(
        cause="the Python that ran has no tensorflow; it may be installed in another one",
        evidence=heard(*seen),
        fixes=(
            *context.remedies.reinstall_best("into this very Python"),
            Fix(
                text="See which Python runs, and what it has",
                commands=("python -c 'import sys; print(sys.executable)'", "python -m pip list | grep -i tensorflow"),
            ),
        ),
    )


def _not_here(said: Said) -> list[Message]:
    """No module of that name; R says so of a TensorFlow that is there and cannot be imported, too."""
    seen = [m for m in said.all("module-not-found") if m.values.get("module") == "tensorflow"]
    broken = any(said.has(kind) for kind in STOPS_IMPORT if kind != "module-not-found")
    return [m for m in seen if not (broken and "by" in m.values)]


def _broke_off(said: Said) -> tuple[Message, ...]:
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
        evidence=heard(*seen),
        fixes=tuple(fixes),
    )


def _installed_somewhere(said: Said, packages: tuple[Package, ...] | None) -> bool:
    listed = any(p.name.startswith(("tensorflow", "tf-nightly")) for p in packages or ())
    other = [m for m in said.all("other-environment") if "banner" not in m.values]
    return (
        listed or bool(other) or _two_pythons(said) or said.has("tensorflow-installed", "notebook", "started-elsewhere")
    )


def _two_pythons(said: Said) -> bool:
    """Whether interpreters of two versions were started."""
    return len(set(said.values("other-environment", "banner"))) > 1


@rule(
    "tf.wrong-env",
    Severity.ERROR,
    "Another Python runs than the one that TensorFlow was installed into",
    needs=_TOLD,
    wants=("python.packages",),
    requires=("tf.python-unsupported", "tf.package-removed"),
    docs="https://packaging.python.org/en/latest/tutorials/installing-packages/",
)
def wrong_env(context: Context, said: Said, packages: tuple[Package, ...] | None) -> Problem | None:
    """No module named tensorflow, although pip or conda installed it: Jupyter, an IDE or a second Python."""
    if not said.complains and (elsewhere := [m for m in said.all("other-environment") if "gpu" in m.values]):
        return _another_python(elsewhere)
    if runs := said.all("other-version-runs"):
        return _another_version(runs, packages or ())
    seen = _not_here(said)
    if not seen or not _installed_somewhere(said, packages):
        return None
    return _another_python([*seen, *said.all("tensorflow-installed", "notebook", "other-environment")])


def _another_version(runs: tuple[Message, ...], packages: tuple[Package, ...]) -> Problem:
    """The list of packages and the running TensorFlow tell different releases."""
    listed = [p for p in packages if p.name in ("tensorflow", "tensorflow-gpu", "tf-nightly")]
    seen = (evidence(f"{p.name} {p.version}", p.location or "the list of packages") for p in listed[:1])
    return _another_python(list(runs), *seen)


def _another_python(said_so: list[Message], *listed: Evidence) -> Problem:
    return Problem(
        cause="pip, conda or the terminal use one Python, the program or the notebook's kernel another",
        evidence=(*heard(*said_so), *listed),
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
