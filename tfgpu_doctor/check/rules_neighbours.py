"""Rules about what stands beside TensorFlow, and about releases that are known to be broken. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.check.engine import Problem, rule, write_all
from tfgpu_doctor.check.view import View, specifier
from tfgpu_doctor.manifests import Requirement
from tfgpu_doctor.matrix.compatibility import capability, numpy_bound
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.report import Evidence, Fix, Severity

_NUMPY = tuple(f"1.{n}.0" for n in range(13, 27)) + tuple(f"2.{n}.0" for n in range(6))
_PROTOBUF = (
    "3.6.0",
    "3.8.0",
    "3.9.2",
    "3.19.6",
    "3.20.3",
    "4.21.12",
    "4.25.3",
    "5.26.1",
    "5.28.3",
    "5.29.5",
    "6.31.1",
    "6.33.0",
    "7.34.0",
)
_KERAS = tuple(f"2.{n}.0" for n in range(2, 16)) + tuple(f"3.{n}.0" for n in range(14))


@rule("tf.abi-numpy")
def numpy(view: View) -> Iterator[Problem]:
    """A NumPy that the release cannot be imported with."""
    row, one = view.release, view.requirement("numpy")
    bound = numpy_bound(row) if row else None
    if row is None or bound is None or view.conda:
        return
    if one is None and bound != row.numpy and view.tensorflow and _takes_numpy_2(view):
        yield Problem(
            f"TensorFlow {row.version} will get NumPy 2, which it cannot be imported with",
            "it is compiled against NumPy 1, but its metadata has no upper bound",
            (Evidence(view.tensorflow.text, str(view.tensorflow.place), f"numpy{bound}", f"TensorFlow {row.version}"),),
            (Fix(f"Beside it in {view.tensorflow.place.path}, write 'numpy<2'"),),
        )
    elif one is not None and not _compatible(one.specifier, bound, _NUMPY):
        yield _neighbour(view, row, one, f"numpy{bound}")


@rule("tf.abi-protobuf")
def protobuf(view: View) -> Iterator[Problem]:
    """A protobuf that the release's generated code does not accept."""
    row, one = view.release, view.requirement("protobuf")
    if row and one and row.protobuf and not view.conda and not _compatible(one.specifier, row.protobuf, _PROTOBUF):
        yield _neighbour(view, row, one, f"protobuf{row.protobuf}")


@rule("tf.package-conflict")
def keras(view: View) -> Iterator[Problem]:
    """A Keras of another release."""
    row, one = view.release, view.requirement("keras")
    if row and one and row.keras and not view.conda and not _compatible(one.specifier, row.keras, _KERAS):
        yield _neighbour(view, row, one, f"keras{row.keras}")


def _neighbour(view: View, row: Release, one: Requirement, need: str) -> Problem:
    return Problem(
        f"{one.text} does not go with TensorFlow {row.version}",
        "the installer refuses the pair, or the import fails",
        (Evidence(one.text, str(one.place), need, f"TensorFlow {row.version} (metadata)"),),
        (Fix(f"In {one.place}, write {need!r}"),),
    )


@rule("tf.known-bug")
def known_bug(view: View) -> Iterator[Problem]:
    """What will be installed is known to be broken in this very environment."""
    row = view.release
    if row is None or view.conda:
        return
    found = view.matrix.issues_for(
        row, python=view.python, compute_capabilities=view.target.capabilities, extra=view.extra
    )
    for issue in found:
        about_cards = issue.condition.min_compute_capability or issue.condition.max_compute_capability
        installs = issue.affects == "install" and (view.extra or not issue.condition.extra)
        concerns = (issue.affects == "run" and (view.wants_gpu or not issue.condition.extra)) or installs
        if issue.severity in ("error", "warning") and concerns and not about_cards and issue.affects != "build":
            yield Problem(
                f"TensorFlow {row.version}: {issue.title}",
                issue.symptom,
                (Evidence(f"TensorFlow {row.version}", view.where, "another release", issue.source),),
                (Fix(issue.fix, issue.commands), *write_all(view, view.tensorflow)),
                Severity.ERROR if issue.severity == "error" else Severity.WARNING,
            )


def _compatible(given: str, bound: str, known: tuple[str, ...]) -> bool:
    """Whether some version meets both; the versions named in either are tried beside the known minors."""
    wanted, allowed = specifier(given), specifier(bound)
    if wanted is None or allowed is None:
        return True
    named = {one.version.removesuffix(".*") for one in (*wanted, *allowed)}
    return any(wanted.contains(one) and allowed.contains(one) for one in (*known, *named))


def _takes_numpy_2(view: View) -> bool:
    """NumPy 2 needs Python 3.9; of an unknown Python nothing is said."""
    python = view.python
    return python is not None and capability(python) >= (3, 9)
