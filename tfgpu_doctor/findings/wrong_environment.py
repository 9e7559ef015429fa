"""The rule about environments: TensorFlow is set up, but in another one than the one that runs."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.libraries import in_state
from tfgpu_doctor.findings.python import PROVIDERS
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Kernel, OtherPython, Package, Soname
from tfgpu_doctor.records.report import Evidence, Fix, Severity

GUIDE = "https://ipython.readthedocs.io/en/stable/install/kernel_install.html"
_ACTIVATED = ("VIRTUAL_ENV", "CONDA_PREFIX")


@rule(
    "tf.wrong-env",
    Severity.ERROR,
    "TensorFlow is installed, but in another environment",
    needs=("python.packages", "python.elsewhere"),
    wants=("python.executable", "derived.release", "derived.cuda_sonames", "python.kernels"),
    docs=GUIDE,
)
def wrong_env(
    context: Context,
    packages: tuple[Package, ...],
    elsewhere: tuple[OtherPython, ...],
    executable: str | None,
    release: Release | None,
    libraries: tuple[Soname, ...] | None,
    kernels: tuple[Kernel, ...] | None,
) -> Problem | None:
    """This one has no TensorFlow, or one without a GPU, and one that was named by the shell or by Jupyter has."""
    here = [package for package in packages if package.name in PROVIDERS]
    if not here:
        better = [one for one in elsewhere if one.tensorflow]
        return _other(context, better, executable, "no tensorflow", "it") if better else None
    no_libraries = bool(in_state(libraries or (), "absent", "other version"))
    if (release is not None and not release.gpu) or no_libraries:
        better = [one for one in elsewhere if one.via in _ACTIVATED and one.tensorflow and one.cuda]
        saw = f"{here[0].name} {here[0].version}, without " + ("its CUDA libraries" if no_libraries else "CUDA")
        return _other(context, better, executable, saw, "one with CUDA") if better else None
    return _default_kernel(context, elsewhere, kernels or ())


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
